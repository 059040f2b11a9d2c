//! The facts of a letter's life.

use std::sync::Arc;

use redrive_sim::SimMillis;

/// A letter by its number, from 0.
pub type LetterNumber = usize;
/// An SQS message by its number, from 0. A letter that moves to the requeue is a new message there.
pub type MessageNumber = usize;
/// An invocation by its number, from 0.
pub type RunId = usize;

/// The place to which a letter was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SentPlace {
    /// Its target.
    Target,
    /// Its topic, from which SNS has yet to deliver it.
    Topic,
    /// The archive.
    Archive,
    /// The requeue.
    Requeue,
}

/// The effect of a call on a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEffect {
    /// The place has the letter.
    Taken,
    /// The place had the letter already, and recognised the repetition.
    Swallowed,
    /// The call had no effect.
    None,
}

/// The answer as the function got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResponse {
    /// The answer says that it is done.
    Done,
    /// The answer says that it is not done.
    Refused {
        /// `true` if the refusal is for good.
        for_good: bool,
    },
    /// The function got no answer, or only after its death.
    Nothing,
}

/// A fact of a letter's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LifeEvent {
    /// The letter lies in a queue of the function from now on.
    Queued {
        /// The queue's name.
        queue: String,
        /// The retries behind it by its mark.
        spent: usize,
    },
    /// The queue gave it to Lambda.
    Received {
        /// The receive count.
        count: u32,
    },
    /// Lambda received it and did not run the function.
    Throttled,
    /// It was handed to an invocation.
    Handed,
    /// The letter was handed to a process that could not ask for its source queue's maximum receive count.
    /// The process counts the receives there as if they were here.
    Uncounted,
    /// The function asked about the letter's subscription and got no answer: an attempt that failed.
    Unchecked {
        /// The answer.
        response: CallResponse,
    },
    /// The function began to call its target or topic for it.
    Called,
    /// A call that sent the letter ended.
    Sent {
        /// The place.
        place: SentPlace,
        /// The effect.
        effect: CallEffect,
        /// The answer.
        response: CallResponse,
        /// The difference between the letter and what arrived.
        wrong: Option<String>,
        /// The retry's number by its mark, if it has one.
        spent: Option<usize>,
        /// The archive's reason.
        reason: Option<String>,
    },
    /// SNS delivered it to an endpoint, after the function had published it.
    Arrived {
        /// The difference between the letter and what arrived.
        wrong: Option<String>,
    },
    /// The function asked to hide the letter, or to show it at once.
    Hidden {
        /// The seconds of the hiding.
        seconds: i64,
        /// `true` if it happened.
        done: bool,
        /// The answer.
        response: CallResponse,
    },
    /// An operator or the function showed it, perhaps in the middle of an attempt.
    Woken,
    /// The queue will hand it out once more than it should.
    Duplicated,
    /// The message was deleted, as the function's answer allowed.
    Deleted,
    /// The delete failed.
    NotDeleted,
    /// The function's answer keeps the message in the queue.
    Kept,
    /// The queue dropped it at the end of its retention.
    Expired,
    /// A call about the letter had a fault.
    Disturbed(FaultSubject),
}

/// What a fault disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultSubject {
    /// A delivery, an archiving or a move may have had an effect without an answer.
    Unheard,
    /// A hiding.
    Hide,
    /// A deletion by Lambda.
    Delete,
    /// An archiving.
    Archive,
    /// A reading of queues or subscriptions.
    Read,
    /// The call took some seconds.
    Slow,
}

/// A fact with its place in time.
#[derive(Debug, Clone)]
pub struct TimedFact {
    /// Its place in the order of all facts.
    pub order: usize,
    /// The time.
    pub at: SimMillis,
    /// The message. `None` if the fact is about the letter in all of its messages.
    pub message: Option<MessageNumber>,
    /// The invocation.
    pub run: Option<RunId>,
    /// The event itself.
    pub what: LifeEvent,
}

/// One invocation of the function.
#[derive(Debug, Clone)]
pub struct FunctionRun {
    /// The process.
    pub caller: Arc<str>,
    /// The time when it began.
    pub began: SimMillis,
    /// The time when it ended.
    pub ended: SimMillis,
    /// The time from which a delivery under way may be cut off.
    pub last_delivery: SimMillis,
    /// The facts of its time: those from `from` to `to` in the order of all facts.
    pub from: usize,
    /// See `from`.
    pub to: usize,
    /// Its end.
    pub ending: RunEnd,
    /// The reason of a bad end.
    pub why: Option<String>,
}

/// The end of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// It is still under way.
    Open,
    /// Its answer was heard, and followed.
    Heard,
    /// It answered, but its answer was lost.
    Unheard,
    /// The process was killed.
    Killed,
    /// It did not answer in time.
    TimedOut,
    /// It answered with an error, or with nonsense.
    Failed,
}

/// The cause why a letter that had arrived could not be deleted, as far as the function and Lambda could see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeleteObstacle {
    /// Its process was killed.
    Killed,
    /// The call that took it was not answered.
    Unanswered,
    /// The call that took it was answered with an error.
    Refused,
    /// The call that took it was answered after the function had stopped waiting.
    Late,
    /// The invocation did not end in time.
    TimedOut,
    /// The invocation ended with an error, or not at all.
    Failed,
    /// The function's answer was lost.
    Unheard,
    /// Lambda could not delete it.
    NotDeleted,
    /// The queue handed it out twice, or an operator woke it while it was handled.
    HandedTwice,
}

impl LifeEvent {
    /// Reports whether this place has the letter, whole, by this fact.
    #[must_use]
    pub fn is_taken_by(&self, at: SentPlace) -> bool {
        matches!(self, Self::Sent { place, effect: CallEffect::Taken, wrong: None, .. } if *place == at)
    }

    /// Reports whether a call to its target or its topic begins or ends with this fact.
    #[must_use]
    pub fn is_attempt(&self) -> bool {
        matches!(self, Self::Called | Self::Sent { place: SentPlace::Target | SentPlace::Topic, .. })
    }

    /// Reports whether its own endpoint has it, whole, by this fact.
    #[must_use]
    pub fn is_delivery(&self) -> bool {
        self.is_taken_by(SentPlace::Target) || *self == Self::Arrived { wrong: None }
    }

    /// Reports whether the letter is safe elsewhere from here on.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        matches!(self, Self::Sent { effect: CallEffect::Taken | CallEffect::Swallowed, .. })
    }

    /// Reports whether the letter is safe elsewhere and the function knows it.
    #[must_use]
    pub fn is_known_safe(&self) -> bool {
        self.is_safe() && matches!(self, Self::Sent { response: CallResponse::Done, .. })
    }
}

impl DeleteObstacle {
    /// Returns the cause as text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Killed => "the process was killed",
            Self::Unanswered => "a call took it and was not answered",
            Self::Refused => "a call took it and was answered with an error",
            Self::Late => "a call took it and was answered too late",
            Self::TimedOut => "the invocation timed out",
            Self::Failed => "the invocation failed",
            Self::Unheard => "the function's answer was not heard",
            Self::NotDeleted => "the delete failed",
            Self::HandedTwice => "the queue handed it out twice",
        }
    }
}

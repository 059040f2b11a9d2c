//! The facts of a letter's life, and its expectations.

/// A letter by its number, from 0.
pub type Who = usize;
/// An SQS message by its number, from 0. A letter that moves to the requeue is a new message there.
pub type Message = usize;
/// An invocation by its number, from 0.
pub type Run = usize;

/// The expectations of a letter.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its FIFO group.
    pub group: Option<String>,
    /// `true` if the order of its group is promised.
    pub overridden: bool,
    /// The place where it must end if no fault prevents it.
    pub end: End,
    /// The retries of its schedule.
    pub retries: usize,
    /// Milliseconds from its arrival until its last retry can be due.
    pub last_due: u64,
    /// The number of times it was received before SQS moved it here.
    pub receives_before: usize,
    /// The kind of letter, for histories.
    pub kind: &'static str,
}

/// The place where a letter must end if no fault prevents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The letter ends at its target.
    Delivered,
    /// The letter ends in the archive, for this reason.
    Archived(&'static str),
}

/// The place to which a letter was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Its target.
    Target,
    /// The archive.
    Archive,
    /// The requeue.
    Requeue,
}

/// The effect of a call on a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The place has the letter.
    Taken,
    /// The place had the letter already: a FIFO place recognised the repetition.
    Swallowed,
    /// The call had no effect.
    None,
}

/// The answer as the function got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
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
pub enum What {
    /// The letter lies in a queue from now on.
    Queued {
        /// The queue's name.
        queue: String,
        /// The retries behind it by its mark.
        spent: usize,
    },
    /// The letter was handed over.
    Received {
        /// The receive count.
        count: u32,
    },
    /// The letter was handed to a process that could not ask for its source queue's maximum receive count.
    /// The process counts the receives there as if they were here.
    Uncounted,
    /// The function asked about the letter's subscription and got no answer: an attempt that failed.
    Unchecked {
        /// The answer.
        response: Response,
    },
    /// The letter was sent.
    Sent {
        /// The place.
        place: Place,
        /// The effect.
        effect: Effect,
        /// The answer.
        response: Response,
        /// The difference between the letter and what arrived.
        wrong: Option<String>,
        /// The retry's number by its mark, if it has one.
        spent: Option<usize>,
        /// The archive's reason.
        reason: Option<String>,
    },
    /// The letter was hidden, or shown at once.
    Hidden {
        /// The seconds of the hiding.
        seconds: i64,
        /// `true` if it happened.
        done: bool,
        /// The answer.
        response: Response,
    },
    /// The message was deleted, as the function's answer allowed.
    Deleted,
    /// The delete failed.
    NotDeleted,
    /// The function's answer keeps the message in the queue.
    Kept,
}

/// A fact with its place in time.
#[derive(Debug, Clone)]
pub struct Fact {
    /// Its place in the order of all facts.
    pub order: usize,
    /// Milliseconds since the beginning.
    pub at: u64,
    /// The message.
    pub message: Message,
    /// The invocation.
    pub run: Option<Run>,
    /// The event itself.
    pub what: What,
}

/// The end of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
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
pub enum Cause {
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
}

impl Fact {
    /// Reports whether the letter is safe elsewhere from here on.
    pub(super) fn is_safe(&self) -> bool {
        matches!(self.what, What::Sent { effect: Effect::Taken | Effect::Swallowed, .. })
    }

    /// Reports whether the letter is safe elsewhere and the function knows it.
    pub(super) fn is_known_safe(&self) -> bool {
        self.is_safe() && matches!(self.what, What::Sent { response: Response::Done, .. })
    }
}

impl Cause {
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
        }
    }
}

//! The facts of a letter's life, and what is expected of it.

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
    /// Says whether the order of its group is promised.
    pub ordered: bool,
    /// The place where it must end if no fault prevents it.
    pub end: End,
    /// The retries of its schedule.
    pub retries: usize,
    /// Milliseconds from its arrival until its last retry can be due.
    pub last_due: u64,
    /// How often it was received before SQS moved it here.
    pub receives_before: usize,
    /// The kind of letter, for histories.
    pub kind: &'static str,
}

/// The place where a letter must end if no fault prevents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At its target.
    Delivered,
    /// In the archive, for this reason.
    Archived(&'static str),
}

/// The place where a letter was sent.
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
    /// It is there.
    Taken,
    /// It was there already: a FIFO place took the repetition for what it is.
    Swallowed,
    /// Nothing.
    None,
}

/// The answer as the function got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is done.
    Done,
    /// It is not done.
    Refused {
        /// Says whether it is one for good.
        for_good: bool,
    },
    /// The function got none, or not before it was dead.
    Nothing,
}

/// A fact of a letter's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It lies in a queue now.
    Queued {
        /// The queue's name.
        queue: String,
        /// The retries behind it by its mark.
        spent: usize,
    },
    /// Handed over, for the so manieth time.
    Received {
        /// The receive count.
        count: u32,
    },
    /// Handed to a process that could not ask how often the queue that it is from lets a message be received: the process
    /// counts those receives as if they were here.
    Uncounted,
    /// Asked about (its subscription) without an answer: an attempt that failed.
    Unchecked {
        /// The answer.
        told: Told,
    },
    /// Sent.
    Sent {
        /// The place.
        place: Place,
        /// The effect.
        effect: Effect,
        /// The answer.
        told: Told,
        /// The difference between the letter and what arrived.
        wrong: Option<String>,
        /// The retry's number by its mark, where it has one.
        spent: Option<usize>,
        /// The archive's reason.
        reason: Option<String>,
    },
    /// Hidden, or shown at once.
    Hidden {
        /// The seconds.
        seconds: i64,
        /// Says whether it happened.
        done: bool,
        /// The answer.
        told: Told,
    },
    /// Deleted, as the function's answer allowed.
    Deleted,
    /// The delete failed.
    NotDeleted,
    /// The answer keeps it.
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
    /// The event.
    pub what: What,
}

/// The end of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is still under way.
    Open,
    /// Its answer was heard, and followed.
    Heard,
    /// It answered, but nobody heard.
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
    /// The answer to that call came when the function waited for it no more.
    Late,
    /// The invocation did not end in time.
    TimedOut,
    /// The invocation ended with an error, or not at all.
    Failed,
    /// Nobody heard the function's answer.
    Unheard,
    /// Lambda could not delete it.
    NotDeleted,
}

impl Fact {
    /// Returns whether the letter is safe elsewhere from here on.
    pub(super) fn is_safe(&self) -> bool {
        matches!(self.what, What::Sent { effect: Effect::Taken | Effect::Swallowed, .. })
    }

    /// Returns whether the function knows that it is.
    pub(super) fn is_known_safe(&self) -> bool {
        self.is_safe() && matches!(self.what, What::Sent { told: Told::Done, .. })
    }
}

impl Cause {
    /// Returns the cause in words.
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

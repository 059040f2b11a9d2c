//! The events of a story, letter by letter.

use redrive_core::policy::{ArchiveReason, DeferReason};

use super::Millis;

/// One message of one letter: a letter that is moved becomes another message, and a crash can leave both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    pub requeue: bool,
    pub number: u64,
}

/// An event in the life of a letter.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    pub who: usize,
    pub message: Message,
    pub at: Millis,
    pub what: What,
    /// The number of the invocation that it belongs to. Two can have the same message.
    pub run: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// It entered the queue.
    Sent { due: Option<Millis> },
    /// Lambda received it.
    Received { receives: u32 },
    /// A retry was made from `at` until `end`. `planned` is the time of the next retry, if an override made this
    /// attempt.
    Attempt { number: u32, planned: Option<Millis>, receives: u32, end: Millis, delivered: bool },
    /// An operator has made it visible.
    Woken,
    /// It became visible before its time.
    CameBack,
    /// Its queue does not tell its retention, and never told it to this instance, which has asked since
    /// `asked`.
    RetentionUnread { asked: Millis },
    /// Its queue has told its retention.
    RetentionRead,
    /// The queue that SQS moved it from does not tell its `maxReceiveCount`, and never told it to this
    /// instance.
    SourceUnread,
    /// That queue has told it.
    SourceRead,
    /// The function decided that it waits.
    Waits { due: Millis, hide: u64, why: DeferReason },
    /// SQS has hidden it.
    Hidden { until: Millis },
    /// SQS has hidden it for its invocation only, since it is near its end.
    HiddenForInvocation { until: Millis },
    /// SQS was asked to hide it, and did not.
    NotHidden,
    /// The requeue has it.
    Moved { to: u64, due: Option<Millis> },
    /// The requeue did not accept it.
    NotMoved,
    /// The archive has it.
    Archived { reason: ArchiveReason },
    /// The archive did not accept it.
    NotArchived,
    /// It stays behind another letter of its FIFO group.
    Held,
    /// It was received, and the function did not run, or not to the end, or had no time for it.
    Idle(Idle),
    /// Lambda has deleted it, since it was not reported.
    Deleted,
    /// SQS has dropped it at the end of the retention.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    Throttled,
    Crashed,
    OutOfTime,
}

/// The number of calls of AWS, counted in letters. A call takes up to ten letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub received: u64,
    pub attempts: u64,
    pub hidden: u64,
    pub moved: u64,
    pub deleted: u64,
    pub readings: u64,
    /// The number of lists of waiting letters that were written.
    pub lists: u64,
    pub invocations: u64,
    pub delivered: u64,
    pub archived: u64,
    pub lost: u64,
    /// The time in which the function ran.
    pub busy: Millis,
}

#[derive(Debug, Default)]
pub struct Journal {
    /// The events. They are not kept if only counts are needed.
    pub facts: Vec<Fact>,
    pub counts: Counts,
    pub counts_only: bool,
    pub last_delivery: Millis,
    /// The number of the invocation that acts; 0 if none does.
    pub run: u64,
}

impl Journal {
    pub fn note(&mut self, who: usize, message: Message, at: Millis, what: What) {
        let counts = &mut self.counts;
        match what {
            What::Received { .. } => counts.received += 1,
            What::Attempt { delivered, end, .. } => {
                counts.attempts += 1;
                counts.delivered += u64::from(delivered);
                if delivered {
                    self.last_delivery = self.last_delivery.max(end);
                }
            }
            What::Hidden { .. } | What::HiddenForInvocation { .. } => counts.hidden += 1,
            What::Moved { .. } => counts.moved += 1,
            What::Deleted => counts.deleted += 1,
            What::Archived { .. } => counts.archived += 1,
            What::Lost => counts.lost += 1,
            _ => {}
        }
        if !self.counts_only {
            self.facts.push(Fact { who, message, at, what, run: self.run });
        }
    }
}

//! The events of a story, letter by letter.

use redrive_core::batch::EndpointChange;
use redrive_core::policy::{ArchiveReason, DeferReason, SCOUT_SECONDS};

use super::ModelMillis;

/// One message of one letter: a letter that is moved becomes another message, and a crash can leave both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelMessage {
    pub requeue: bool,
    pub number: u64,
}

/// An event in the life of a letter.
#[derive(Debug, Clone, PartialEq)]
pub struct StoryFact {
    pub who: usize,
    pub message: ModelMessage,
    pub at: ModelMillis,
    pub what: FactKind,
    /// The number of the invocation that it belongs to. Two can have the same message.
    pub run: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FactKind {
    /// It entered the queue.
    Sent { due: Option<ModelMillis> },
    /// Lambda received it.
    Received { receives: u32 },
    /// A retry was made from `at` until `end`. `planned` is the time of the next retry, if an override made this
    /// attempt.
    Attempt { number: u32, planned: Option<ModelMillis>, receives: u32, end: ModelMillis, delivered: bool },
    /// An operator or the function has made it visible.
    Woken,
    /// It became visible before its time.
    CameBack,
    /// Its queue does not tell its retention, and never told it to this instance, which has asked since
    /// `asked`.
    RetentionUnread { asked: ModelMillis },
    /// Its queue has told its retention.
    RetentionRead,
    /// The queue that SQS moved it from does not tell its `maxReceiveCount`, and never told it to this
    /// instance.
    SourceUnread,
    /// That queue has told it.
    SourceRead,
    /// The function decided that it waits.
    Waits { due: ModelMillis, hide: u64, why: DeferReason },
    /// SQS has hidden it.
    Hidden { until: ModelMillis },
    /// SQS has hidden it for its invocation only, since it is near its end.
    HiddenForInvocation { until: ModelMillis },
    /// SQS was asked to hide it, and did not.
    NotHidden,
    /// The requeue has it.
    Moved { to: u64, due: Option<ModelMillis> },
    /// The requeue did not accept it.
    NotMoved,
    /// The archive has it.
    Archived { reason: ArchiveReason },
    /// The archive did not accept it.
    NotArchived,
    /// It stays behind another letter of its FIFO group.
    Held,
    /// It was received, and the function did not run, or not to the end, or had no time for it.
    Idle(IdleReason),
    /// Lambda has deleted it, since it was not reported.
    Deleted,
    /// SQS has dropped it at the end of the retention.
    Lost,
}

impl FactKind {
    /// Reports whether a letter is hidden as a scout is, to find out whether its endpoint is back.
    pub fn is_scout(&self) -> bool {
        matches!(self, Self::Waits { hide, .. } if (SCOUT_SECONDS - 115..=SCOUT_SECONDS).contains(hide))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleReason {
    Throttled,
    Crashed,
    OutOfTime,
}

/// The number of calls of AWS, counted in letters. A call takes up to ten letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    pub received: u64,
    pub attempts: u64,
    /// Those before their planned moments.
    pub early: u64,
    pub hidden: u64,
    pub moved: u64,
    pub deleted: u64,
    pub readings: u64,
    /// The number of invocations that hid letters for so long that they are listed.
    pub long_hides: u64,
    /// The number of objects of the list of waiting letters.
    pub lists: u64,
    /// The number of other control objects that were written.
    pub control_writes: u64,
    /// The number of listings of the list, each of which costs as much as a write.
    pub control_listings: u64,
    /// The number of control objects that were read.
    pub control_reads: u64,
    /// The number of letters that the function woke.
    pub woken: u64,
    pub invocations: u64,
    pub delivered: u64,
    pub archived: u64,
    pub lost: u64,
    /// The time in which the function ran.
    pub busy: ModelMillis,
}

#[derive(Debug, Default)]
pub struct StoryJournal {
    /// The events. They are not kept if only counts are needed.
    pub facts: Vec<StoryFact>,
    pub counts: CallCounts,
    pub counts_only: bool,
    pub first_delivery: Option<ModelMillis>,
    pub last_delivery: ModelMillis,
    /// The times from arrival to delivery of the letters of all subscribers but the first.
    pub waits_of_others: Vec<ModelMillis>,
    /// What a topic was told of endpoints.
    pub changes: Vec<EndpointChange>,
    /// The number of the invocation that acts; 0 if none does.
    pub run: u64,
}

impl StoryJournal {
    pub fn note(&mut self, who: usize, message: ModelMessage, at: ModelMillis, what: FactKind) {
        let counts = &mut self.counts;
        match what {
            FactKind::Received { .. } => counts.received += 1,
            FactKind::Attempt { delivered, end, planned, .. } => {
                counts.attempts += 1;
                counts.early += u64::from(planned.is_some());
                counts.delivered += u64::from(delivered);
                if delivered {
                    self.first_delivery.get_or_insert(end);
                    self.last_delivery = self.last_delivery.max(end);
                }
            }
            FactKind::Hidden { .. } | FactKind::HiddenForInvocation { .. } => counts.hidden += 1,
            FactKind::Moved { .. } => counts.moved += 1,
            FactKind::Deleted => counts.deleted += 1,
            FactKind::Archived { .. } => counts.archived += 1,
            FactKind::Lost => counts.lost += 1,
            _ => {}
        }
        if !self.counts_only {
            self.facts.push(StoryFact { who, message, at, what, run: self.run });
        }
    }
}

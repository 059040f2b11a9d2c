//! The words in which the policy answers.

use jiff::Timestamp;

use super::schedule::Phase;

/// What the policy says about a letter now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A retry is due.
    Deliver(Retry),
    /// It stays in the queue, hidden.
    Defer(Deferral),
    /// It leaves the queue for the archive.
    Archive(ArchiveReason, Option<&'static str>),
}

/// One retry, numbered from 1 over the letter's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Its number.
    pub number: u32,
    /// How many the schedule has.
    pub of: u32,
    /// The phase it belongs to.
    pub phase: Phase,
}

/// How long a letter stays hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferral {
    /// Seconds to hide it now; the ceiling at most, 0 for an immediate retry.
    pub hide: u64,
    /// When its next retry is due, which may lie several hops away.
    pub due: Timestamp,
    /// The number of that retry.
    pub retry: u32,
    /// Why.
    pub why: DeferReason,
}

impl Deferral {
    /// What the mark must say where the letter waits in the requeue: the retries behind it, and when the
    /// next is due. A rule that holds letters names no such moment; when it is gone, the next retry has
    /// its ordinary delay.
    #[must_use]
    pub fn for_mark(&self) -> (u32, Option<Timestamp>) {
        (self.retry.saturating_sub(1), (self.why != DeferReason::Hold).then_some(self.due))
    }
}

/// Why a letter is deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeferReason {
    /// A retry failed; the next one has its time.
    Failed,
    /// It came back before its time.
    Early,
    /// It is on its way through a wait longer than one hiding.
    Hop,
    /// Its rule holds it.
    Hold,
    /// Its target takes no more for now.
    Throttled,
}

/// Why a letter is archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArchiveReason {
    /// Every retry of its schedule failed.
    Exhausted,
    /// The queue would drop it before its next retry.
    Expiring,
    /// Its rule says so.
    Rule,
    /// Nothing tells where it belongs.
    Unrecognised,
    /// Its target's protocol is none that can be delivered to.
    UndeliverableProtocol,
    /// Its target is none that it may reach.
    Refused,
    /// Its target will never take it.
    Permanent,
    /// The mark would be its eleventh attribute.
    Unmarkable,
    /// It is a copy that our own publishing made, and nothing tells where it failed.
    Returned,
    /// What carried its mark has been sent too often.
    Loop,
}

impl ArchiveReason {
    /// Every reason, in the order of the docs.
    pub const ALL: [Self; 10] = [
        Self::Exhausted,
        Self::Expiring,
        Self::Rule,
        Self::Unrecognised,
        Self::UndeliverableProtocol,
        Self::Refused,
        Self::Permanent,
        Self::Unmarkable,
        Self::Returned,
        Self::Loop,
    ];

    /// The name in logs and archived records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Expiring => "expiring",
            Self::Rule => "rule",
            Self::Unrecognised => "unrecognised",
            Self::UndeliverableProtocol => "undeliverable_protocol",
            Self::Refused => "refused",
            Self::Permanent => "permanent",
            Self::Unmarkable => "unmarkable",
            Self::Returned => "returned",
            Self::Loop => "loop",
        }
    }
}

impl DeferReason {
    /// The name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Early => "early",
            Self::Hop => "hop",
            Self::Hold => "hold",
            Self::Throttled => "throttled",
        }
    }
}

//! The words in which the policy answers.

use jiff::Timestamp;

use super::decide::seconds_until;
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
    /// When the next retry is planned, where an order brings an attempt forward. Such an attempt takes no number: its own
    /// is that of the retry before it, 0 where there is none.
    pub planned: Option<Timestamp>,
}

impl Retry {
    /// The number of the retry that is to be made where this attempt is not.
    #[must_use]
    pub fn upcoming(&self) -> u32 {
        if self.planned.is_some() { self.number.saturating_add(1) } else { self.number }
    }

    /// Whether no other comes after it.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.number >= self.of
    }
}

/// How long a letter stays hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferral {
    /// Seconds to hide it now; the ceiling at most, 0 for an immediate retry.
    pub hide: u64,
    /// When its next retry is due, which may lie several hops away. Where an order, or not knowing the orders, keeps it
    /// back, that moment may have passed.
    pub due: Timestamp,
    /// The number of that retry.
    pub retry: u32,
    /// Why.
    pub why: DeferReason,
}

impl Deferral {
    /// Seconds until an attempt can be made: until its retry is due, or as long as it is kept back.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> u64 {
        let until_due = seconds_until(now, self.due);
        match self.why {
            DeferReason::Ordered | DeferReason::OrdersUnread => until_due.max(self.hide),
            DeferReason::Failed | DeferReason::Early | DeferReason::Hop | DeferReason::Hold => until_due,
            // Its attempt may be made before the moment that an order has brought it forward from.
            DeferReason::Throttled | DeferReason::EndpointDown => self.hide,
        }
    }

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
    /// An order holds it.
    Ordered,
    /// Nobody knows yet whether an order holds it.
    OrdersUnread,
    /// Its target is down, and is tried again later.
    EndpointDown,
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
    /// An order says so.
    Ordered,
}

impl ArchiveReason {
    /// Every reason, in the order of the docs.
    pub const ALL: [Self; 11] = [
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
        Self::Ordered,
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
            Self::Ordered => "ordered",
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
            Self::Ordered => "ordered",
            Self::OrdersUnread => "orders_unread",
            Self::EndpointDown => "endpoint_down",
        }
    }
}

//! The types of the policy's answers.

use jiff::Timestamp;

use super::decide::seconds_until;
use super::schedule::RetryPhase;

/// The policy's answer about a letter now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A retry is due.
    Deliver(Retry),
    /// The letter stays in the queue, hidden.
    Defer(Deferral),
    /// The letter leaves the queue for the archive.
    Archive(ArchiveReason, Option<&'static str>),
}

/// One retry, numbered from 1 over the letter's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Its number.
    pub number: u32,
    /// The number of retries in the schedule.
    pub of: u32,
    /// The phase it belongs to.
    pub phase: RetryPhase,
    /// The time for which the next retry is planned, if this attempt comes before it, on an override or because
    /// the letter was received more often than its schedule takes. Such an attempt takes no number: its own
    /// is that of the retry before it, or 0 if there is none.
    pub planned: Option<Timestamp>,
}

impl Retry {
    /// Reports whether the attempt comes before the next planned retry and takes no number.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.planned.is_some()
    }

    /// Returns the number of the retry that is due next if this attempt is not made.
    #[must_use]
    pub fn upcoming(&self) -> u32 {
        if self.is_early() { self.number.saturating_add(1) } else { self.number }
    }

    /// Reports whether no other retry comes after it.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.number >= self.of
    }
}

/// The time for which a letter stays hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferral {
    /// The seconds to hide it now: at most the ceiling, 0 for an immediate retry.
    pub hide: u64,
    /// The time when its next retry is due, which may lie several hops away. It may have passed if an override,
    /// or not knowing the overrides, keeps the letter back.
    pub due: Timestamp,
    /// The number of that retry.
    pub retry: u32,
    /// The reason.
    pub why: DeferReason,
}

impl Deferral {
    /// Returns the seconds until an attempt can be made: until its retry is due, or as long as it is kept
    /// back.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> u64 {
        let until_due = seconds_until(now, self.due);
        match self.why {
            DeferReason::Overridden | DeferReason::OverridesUnread | DeferReason::TargetUnknown => {
                until_due.max(self.hide)
            }
            DeferReason::Failed | DeferReason::Early | DeferReason::Hop | DeferReason::Hold => until_due,
            // The attempt may be made after the hiding, before the time from which an override has brought it
            // forward.
            DeferReason::Throttled | DeferReason::EndpointDown | DeferReason::EndpointSlow => self.hide,
        }
    }

    /// Returns the content of the mark if the letter waits in the requeue: the retries behind it, and the
    /// time when the next is due. A rule that holds letters names no such time; when that rule is gone, the
    /// next retry has its ordinary delay.
    #[must_use]
    pub fn for_mark(&self) -> (u32, Option<Timestamp>) {
        (self.retry.saturating_sub(1), (self.why != DeferReason::Hold).then_some(self.due))
    }
}

/// The reason why a letter is deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeferReason {
    /// A retry failed, and the time of the next one has not come.
    Failed,
    /// The letter came back before its time.
    Early,
    /// The letter is in the middle of a wait longer than one hiding.
    Hop,
    /// Its rule holds it.
    Hold,
    /// Its target accepts no more messages for now.
    Throttled,
    /// An override holds it.
    Overridden,
    /// The overrides were not read yet, so one may hold it.
    OverridesUnread,
    /// An override to hold asks for its target, which could not be looked up.
    TargetUnknown,
    /// Its target is down and is tried again later.
    EndpointDown,
    /// Its target is slow, and gets its letters together.
    EndpointSlow,
}

/// The reason why a letter is archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArchiveReason {
    /// Every retry of its schedule failed.
    Exhausted,
    /// The queue would drop it before its next retry.
    Expiring,
    /// Its rule says so.
    Rule,
    /// The letter does not tell where it belongs.
    Unrecognised,
    /// Its target has a protocol that the function cannot deliver to.
    UndeliverableProtocol,
    /// The letter may not be sent to its target.
    Refused,
    /// Its target will never accept it.
    Permanent,
    /// The mark would be its eleventh attribute, and SQS takes ten.
    Unmarkable,
    /// It is a copy that our own publishing made, and it does not tell where it failed.
    Returned,
    /// Messages with its mark have been sent too often.
    Loop,
    /// An operator gave it up.
    GivenUp,
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
        Self::GivenUp,
    ];

    /// Returns the name in logs and archived records.
    #[must_use]
    pub const fn name(self) -> &'static str {
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
            Self::GivenUp => "given-up",
        }
    }
}

impl DeferReason {
    /// Reports whether a rule or an override holds the letter, or may.
    #[must_use]
    pub fn is_held(self) -> bool {
        matches!(self, Self::Hold | Self::Overridden | Self::OverridesUnread | Self::TargetUnknown)
    }

    /// Returns the name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Early => "early",
            Self::Hop => "hop",
            Self::Hold => "hold",
            Self::Throttled => "throttled",
            Self::Overridden => "overridden",
            Self::OverridesUnread => "overrides_unread",
            Self::TargetUnknown => "target_unknown",
            Self::EndpointDown => "endpoint_down",
            Self::EndpointSlow => "endpoint_slow",
        }
    }
}

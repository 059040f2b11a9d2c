//! The waits of one letter, as far as its queue keeps it.

use jiff::Timestamp;

use super::decide::{plus, seconds_until};
use super::decision::{ArchiveReason, Decision, DeferReason, Deferral};
use super::retention::{Retention, ask_again_after, expiry_margin, is_kept};
use super::schedule::{Jitter, Schedule};
use crate::letter::Letter;

/// The time for which a letter is hidden while the overrides are not known, in seconds.
const UNREAD_WAIT: u64 = 60;

/// The shortest delay of a letter whose retries only the time tells apart, in seconds. It is longer than an attempt
/// takes, so that each retry has its turn.
const LEAST_DELAY: u64 = 20;

/// The times of one letter that its waits depend on.
#[derive(Debug, Clone)]
pub(super) struct LetterClock {
    pub(super) jitter: Jitter,
    pub(super) since: Timestamp,
    retention: Retention,
    pub(super) ceiling: u64,
    /// The time at which its schedule begins, if it arrived before that.
    pub(super) begins: Option<Timestamp>,
    /// True if it was received before its schedule began. Its receives do not tell its retries then, only the time.
    pub(super) has_earlier_receives: bool,
}

impl LetterClock {
    pub(super) fn new(letter: &Letter, jitter: Jitter, retention: Retention, ceiling: u64) -> Self {
        let since = letter.kept_since();
        Self { jitter, since, retention, ceiling, begins: None, has_earlier_receives: false }
    }

    /// Returns it for a letter whose schedule begins at that time, if that is after its arrival.
    pub(super) fn beginning(self, begins: Option<Timestamp>, letter: &Letter) -> Self {
        let begins = begins.filter(|begins| letter.sqs.sent < *begins);
        let has_earlier_receives = begins.is_some_and(|begins| letter.sqs.first_received < begins);
        Self { begins, has_earlier_receives, ..self }
    }

    /// Returns the delay before a retry in whole seconds, or `None` if the schedule has no such retry.
    pub(super) fn delay(&self, schedule: &Schedule, retry: u32) -> Option<u64> {
        let least = if self.has_earlier_receives { LEAST_DELAY } else { 0 };
        schedule.wait(retry, &self.jitter).map(|delay| delay.max(least))
    }

    /// Returns the longest time that the letter is hidden at once, in seconds.
    pub(super) fn ceiling(&self, now: Timestamp) -> u64 {
        if self.retention.is_read() {
            return self.ceiling;
        }
        self.ceiling.min(ask_again_after(self.since, now))
    }

    /// Reports whether a retry that was planned for `point` was made already, so that a receive before the
    /// next one is no attempt. While the retention is not known, a letter comes back many times before that:
    /// it cannot be the first receive after the point once it would have been hidden and shown again.
    pub(super) fn was_attempted(&self, point: Timestamp, now: Timestamp) -> bool {
        !self.retention.is_read() && now >= plus(point, self.ceiling(point) - 1)
    }

    /// Hides the letter as long as possible.
    pub(super) fn hold(&self, now: Timestamp, retry: u32) -> Decision {
        self.keep(now, Timestamp::MAX, None, retry, DeferReason::Hold)
    }

    /// Hides the letter until then, but no longer than its queue keeps it. The letter is archived only if it
    /// is within the margin already. Its retry is due when it becomes visible, unless it is `planned` for
    /// another time.
    pub(super) fn keep(
        &self,
        now: Timestamp,
        until: Timestamp,
        planned: Option<Timestamp>,
        retry: u32,
        why: DeferReason,
    ) -> Decision {
        let longest = self.longest(now, why);
        if longest == 0 {
            return Decision::Archive(ArchiveReason::Expiring, None);
        }
        let hide = seconds_until(now, until).min(longest);
        let due = planned.unwrap_or(until.min(plus(now, hide)));
        Decision::Defer(Deferral { hide, due, retry, why })
    }

    /// Returns the longest time that the letter can be hidden, in seconds; 0 within the margin.
    pub(super) fn longest(&self, now: Timestamp, why: DeferReason) -> u64 {
        let Some(retention) = self.retention.for_archiving(why.is_held()) else { return self.ceiling(now) };
        let last = plus(self.since, retention.saturating_sub(expiry_margin(retention)));
        // Rounded down, since times that are rounded up later must not reach into the margin.
        let left = u64::try_from(last.duration_since(now).as_secs()).unwrap_or(0);
        left.min(self.ceiling(now))
    }

    /// Hides the letter as an override says, at least until its retry is `planned`.
    pub(super) fn hold_by_override(
        &self,
        until: Option<Timestamp>,
        planned: Timestamp,
        retry: u32,
        now: Timestamp,
    ) -> Decision {
        let until = until.map_or(Timestamp::MAX, |until| until.max(planned));
        self.keep(now, until, Some(planned), retry, DeferReason::Overridden)
    }

    /// Keeps back a letter that would be attempted or archived while it is unknown whether an override holds it.
    pub(super) fn keep_a_minute(
        &self,
        decision: Decision,
        planned: Timestamp,
        retry: u32,
        why: DeferReason,
        now: Timestamp,
    ) -> Decision {
        match decision {
            Decision::Archive(ArchiveReason::Expiring, _) if self.retention.is_read() => decision,
            Decision::Defer(_) => decision,
            Decision::Deliver(_) | Decision::Archive(..) => {
                let until = plus(now, UNREAD_WAIT);
                self.keep_back(now, until, planned, retry, why)
            }
        }
    }

    /// Hides the letter towards `due`, or archives it if the queue would drop it before it becomes visible.
    pub(super) fn defer(&self, now: Timestamp, due: Timestamp, retry: u32, why: DeferReason) -> Decision {
        self.keep_back(now, due, due, retry, why)
    }

    /// Hides the letter until then, while its retry is due at another time.
    pub(super) fn keep_back(
        &self,
        now: Timestamp,
        until: Timestamp,
        due: Timestamp,
        retry: u32,
        why: DeferReason,
    ) -> Decision {
        let hide = seconds_until(now, until).min(self.ceiling(now));
        let retention = self.retention.for_archiving(why.is_held());
        if retention.is_some_and(|retention| !is_kept(self.since, retention, plus(now, hide))) {
            return Decision::Archive(ArchiveReason::Expiring, None);
        }
        Decision::Defer(Deferral { hide, due, retry, why })
    }
}

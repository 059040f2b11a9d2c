//! The rule that says how many retries a letter has behind it, and what is next.
//!
//! No counter of AWS counts attempts: throttled receives and hops raise the receive count, and SQS keeps it
//! when it moves a message. The clock alone would skip the retries that a paused function missed. So the
//! number of a retry comes from both: the n-th retry is due when its point in time has passed *and* the
//! message was received as often as reaching that point takes.
//!
//! This module knows seconds and counts only. [`step`] is the whole rule.

use jiff::{SignedDuration, Timestamp};

/// The longest time that a message is hidden at once, in seconds.
///
/// SQS allows 12 hours, counted from the receive. The receive lies before the invocation by the batching
/// window (up to 5 minutes) and the time that the batch takes (up to 15), so this leaves half an hour.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
pub const VISIBILITY_CEILING: u64 = 41_400;

/// The time before a point at which it counts as reached: SQS's clock and ours may differ by a second, and
/// its timestamps are rounded.
const SQS_CLOCK_TOLERANCE: u64 = 1;

/// The facts about a letter at one receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveFacts {
    /// The present.
    pub now: Timestamp,
    /// The time when it entered the queue.
    pub sent: Timestamp,
    /// The time when it was first received.
    pub first_received: Timestamp,
    /// The receives, including this one, without those that it brought along from a source queue.
    pub count: u32,
    /// The number of retries behind it by its mark.
    pub spent: u32,
    /// The time when its next retry is due, if the mark says so.
    pub due: Option<Timestamp>,
    /// The longest time that it may be hidden at once, in seconds: [`VISIBILITY_CEILING`] except in tests.
    pub ceiling: u64,
    /// True if it was received before its schedule began, nobody knows how often. The receives beyond those that a
    /// retry takes then say nothing.
    pub has_earlier_receives: bool,
}

/// The answer of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryStep {
    /// The letter has no retry left.
    Exhausted,
    /// The letter came back before its time.
    Early {
        /// The time when its retry is due.
        until: Timestamp,
    },
    /// The letter is in the middle of a wait longer than the ceiling.
    Hop {
        /// The time when its retry is due.
        until: Timestamp,
        /// The retry that is due then.
        retry: u32,
    },
    /// It is time for an attempt.
    Attempt {
        /// The latest retry whose time has come, numbered over the letter's life from 1.
        retry: u32,
        /// The time for which it was planned.
        point: Timestamp,
        /// The time of the next retry, if that lies ahead and the letter was received more often than this
        /// retry takes. The retry was probably made then, and this attempt has no number of its own.
        next: Option<Timestamp>,
        /// The time of the next retry, in the place of `next`, if the letter has earlier receives. Nothing says then
        /// that the retry was made, so this attempt keeps its number. Its successor keeps its time.
        successor: Option<Timestamp>,
        /// The number of receives beyond those that this retry takes.
        extra: u32,
    },
}

impl RetryStep {
    /// Returns the time of the letter's next retry, if that lies ahead. An attempt before that time is
    /// additional to the schedule and takes no number.
    #[must_use]
    pub fn ahead(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Early { until } | Self::Hop { until, .. } => {
                Some(until).filter(|until| !reached(*until, now))
            }
            Self::Attempt { next, .. } => next,
            Self::Exhausted => None,
        }
    }
}

/// Returns the step that a letter is due for. `retries` is the schedule's length. `wait` returns the delay
/// before a retry in whole seconds; it is called with numbers from 1 to `retries` only.
pub fn step(receive: &ReceiveFacts, retries: u32, wait: impl Fn(u32) -> u64) -> RetryStep {
    let ReceiveFacts { now, spent, ceiling, .. } = *receive;
    let left = retries.saturating_sub(spent);
    if left == 0 {
        return RetryStep::Exhausted;
    }
    let reached = |point| reached(point, now);

    // P_1 and E_1 of the rule: the point of the next retry, and the receives that lead to it.
    let mut point = receive.due.unwrap_or_else(|| plus(receive.sent, wait(spent + 1)));
    let mut expected = 1;
    if receive.first_received < minus(point, SQS_CLOCK_TOLERANCE) {
        expected += receives(seconds_until(receive.first_received, point), ceiling);
    }
    if !reached(point) {
        return RetryStep::Early { until: point };
    }

    // Finds the largest n whose point has passed and whose receives have happened; at least 1. Points and
    // receives only grow, so the search ends at the first n that fails.
    let mut n = 1;
    while n < left && expected < u64::from(receive.count) {
        let delay = wait(spent + n + 1);
        let next_point = plus(point, delay);
        let next_expected = expected + receives(delay, ceiling);
        if !reached(next_point) || next_expected > u64::from(receive.count) {
            break;
        }
        (n, point, expected) = (n + 1, next_point, next_expected);
    }

    let (mut next, mut successor) = (None, None);
    let is_expected = u64::from(receive.count) <= expected;
    if n < left && (!is_expected || receive.has_earlier_receives) {
        let delay = wait(spent + n + 1);
        let next_point = plus(point, delay);
        // Retry n has been made, and this receive is a hop of the long wait that follows it.
        if !is_expected && delay > ceiling && reached(plus(point, ceiling)) {
            return RetryStep::Hop { until: next_point, retry: spent + n + 1 };
        }
        let ahead = (!reached(next_point)).then_some(next_point);
        *(if receive.has_earlier_receives { &mut successor } else { &mut next }) = ahead;
    }
    let extra = u64::from(receive.count).saturating_sub(expected).try_into().unwrap_or(u32::MAX);
    RetryStep::Attempt { retry: spent + n, point, next, successor, extra }
}

/// Reports whether a point counts as reached.
fn reached(point: Timestamp, now: Timestamp) -> bool {
    now >= minus(point, SQS_CLOCK_TOLERANCE)
}

/// Returns how often a message is received during a wait of `seconds`: R(w) of the rule.
fn receives(seconds: u64, ceiling: u64) -> u64 {
    seconds.div_ceil(ceiling.max(1)).max(1)
}

/// Returns the whole seconds from one point to a later one, rounded up, or 0 if it is not later.
#[must_use]
pub fn seconds_until(now: Timestamp, then: Timestamp) -> u64 {
    let millis = then.as_millisecond().saturating_sub(now.as_millisecond());
    u64::try_from(millis).unwrap_or(0).div_ceil(1000)
}

/// Returns the point in time some seconds later, or the end of time if there is none.
#[must_use]
pub fn plus(point: Timestamp, seconds: u64) -> Timestamp {
    let seconds = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    point.saturating_add(seconds).unwrap_or(Timestamp::MAX)
}

/// Returns the point in time some seconds earlier.
pub(super) fn minus(point: Timestamp, seconds: u64) -> Timestamp {
    let seconds = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    point.saturating_sub(seconds).unwrap_or(Timestamp::MIN)
}

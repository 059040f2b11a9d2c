//! How many retries a letter has behind it, and what is next.
//!
//! No counter of AWS counts attempts: throttled receives and hops raise the receive count, and SQS
//! keeps it when it moves a message. The clock alone would skip what a paused function missed. So
//! the number of a retry comes from both: the n-th retry is due when its point in time has passed
//! *and* the message was received as often as reaching that point takes.
//!
//! This module knows seconds and counts only. [`step`] is the whole rule.

use jiff::{SignedDuration, Timestamp};

/// The longest that a message is hidden at once, seconds.
///
/// SQS allows 12 hours, counted from the receive, which lies before the invocation by the batching
/// window (up to 5 minutes) and the time that the batch takes (up to 15): half an hour is kept.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
pub const VISIBILITY_CEILING: u64 = 41_400;

/// A point counts as reached one second early: SQS's clock and ours may differ by that much, and
/// its timestamps are rounded.
const SLACK: SignedDuration = SignedDuration::from_secs(1);

/// What is known of a letter at one receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receive {
    /// The present.
    pub now: Timestamp,
    /// When it entered the queue.
    pub sent: Timestamp,
    /// When it was first received.
    pub first_received: Timestamp,
    /// Receives, this one included, less those it brought along from a source queue.
    pub count: u32,
    /// Retries behind it by its mark.
    pub spent: u32,
    /// When its next retry is due, where the mark says so.
    pub due: Option<Timestamp>,
    /// The longest that it may be hidden at once, seconds; [`VISIBILITY_CEILING`] but for tests.
    pub ceiling: u64,
}

/// What the rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// No retry is left.
    Exhausted,
    /// It came back before its time.
    Early {
        /// When its retry is due.
        until: Timestamp,
    },
    /// It is on its way through a wait longer than the ceiling.
    Hop {
        /// When its retry is due.
        until: Timestamp,
        /// The retry that is due then.
        retry: u32,
    },
    /// It is time for this retry, numbered over the letter's life from 1.
    Attempt {
        /// The number.
        retry: u32,
    },
}

impl Step {
    /// When the letter's next retry is planned; now, where that moment has come or there is none.
    #[must_use]
    pub fn planned(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Early { until } | Self::Hop { until, .. } => until,
            Self::Exhausted | Self::Attempt { .. } => now,
        }
    }
}

/// Where a letter stands in its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// What it is due for.
    pub(super) step: Step,
    /// When its next retry is planned, where that lies ahead and the one before may have been made: an attempt before then
    /// is one that the schedule does not have. Where it was received once more than its retry takes, nobody knows
    /// whether that retry was made.
    pub(super) ahead: Option<Timestamp>,
}

/// Says what a letter is due for. `retries` is the schedule's length, `wait` the delay before a
/// retry in whole seconds, asked for numbers from 1 to `retries` only.
pub fn step(receive: &Receive, retries: u32, wait: impl Fn(u32) -> u64) -> Step {
    standing(receive, retries, wait).step
}

/// Says where a letter stands, as [`step`] does, and whether its next retry lies ahead.
pub(super) fn standing(receive: &Receive, retries: u32, wait: impl Fn(u32) -> u64) -> Standing {
    let Receive { now, spent, ceiling, .. } = *receive;
    let left = retries.saturating_sub(spent);
    if left == 0 {
        return Standing { step: Step::Exhausted, ahead: None };
    }
    let reached = |point: Timestamp| now >= minus(point, SLACK);

    // P_1 and E_1 of the rule: the point of the next retry, and the receives that lead to it.
    let mut point = receive.due.unwrap_or_else(|| plus(receive.sent, wait(spent + 1)));
    let mut expected = 1;
    if receive.first_received < minus(point, SLACK) {
        expected += receives(seconds_until(receive.first_received, point), ceiling);
    }
    if !reached(point) {
        return Standing { step: Step::Early { until: point }, ahead: Some(point) };
    }

    // The largest n whose point has passed and whose receives have happened; at least 1. Points and
    // receives only grow, so the search ends at the first that fails.
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

    let mut ahead = None;
    if n < left && u64::from(receive.count) > expected {
        let delay = wait(spent + n + 1);
        let next_point = plus(point, delay);
        ahead = (!reached(next_point)).then_some(next_point);
        // Retry n is behind us, and this receive is a hop of the long wait that follows it.
        if delay > ceiling && reached(plus(point, ceiling)) {
            return Standing { step: Step::Hop { until: next_point, retry: spent + n + 1 }, ahead };
        }
    }
    Standing { step: Step::Attempt { retry: spent + n }, ahead }
}

/// How often a message is received for a wait of `seconds`: R(w) of the rule.
fn receives(seconds: u64, ceiling: u64) -> u64 {
    seconds.div_ceil(ceiling.max(1)).max(1)
}

/// Whole seconds from one point to a later one, rounded up; 0 where it is not later.
#[must_use]
pub fn seconds_until(now: Timestamp, then: Timestamp) -> u64 {
    let millis = then.as_millisecond().saturating_sub(now.as_millisecond());
    u64::try_from(millis).unwrap_or(0).div_ceil(1000)
}

/// A point in time some seconds later; the end of time where there is none.
#[must_use]
pub fn plus(point: Timestamp, seconds: u64) -> Timestamp {
    let seconds = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    point.saturating_add(seconds).unwrap_or(Timestamp::MAX)
}

fn minus(point: Timestamp, duration: SignedDuration) -> Timestamp {
    point.saturating_sub(duration).unwrap_or(Timestamp::MIN)
}

//! The division of an invocation's time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::action::InvocationNow;
use crate::endpoint::Endpoint;

/// The longest time that a call of AWS takes, apart from rare exceptions.
pub const CALL_TIME: Duration = Duration::from_secs(2);

/// The time that SNS gives a web server to answer.
/// <https://docs.aws.amazon.com/sns/latest/dg/SendMessageToHttp.prepare.html>
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(15);

/// The time in an invocation for its control objects, reading and writing together.
pub(super) const CONTROL_TIME: Duration = Duration::from_secs(1);

/// The end of each part of an invocation, counted from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvocationBudget {
    /// The time after which no delivery goes on.
    pub(super) deliver: Duration,
    /// The time by which the archive and the queue must have answered.
    pub(super) finish: Duration,
}

impl InvocationBudget {
    /// Divides the time until `deadline`.
    ///
    /// A fifth of it, 10 s at most, is kept for archiving and hiding: a letter whose retry was cut off must
    /// still be hidden. Of that, half a second, plus some for many letters, is kept for the log lines and the
    /// answer.
    pub(super) fn until(deadline: Duration, letters: usize) -> Self {
        let kept = (deadline / 5).min(Duration::from_secs(10));
        let lines = Duration::from_micros(200).saturating_mul(u32::try_from(letters).unwrap_or(u32::MAX));
        let answer = (kept / 2).min(Duration::from_millis(500) + lines);
        Self { deliver: deadline.saturating_sub(kept), finish: deadline.saturating_sub(answer) }
    }
}

/// Returns the middle of the time until then: a look-up that hangs must leave the other letters time to go.
pub(super) fn half_of(now: Duration, until: Duration) -> Duration {
    now + until.saturating_sub(now) / 2
}

/// Returns the time that lies so much later.
pub(super) fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// Returns the time that lies so much earlier.
pub(super) fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

/// The conversion between times of an invocation and ages of the instance. It is made anew for each use, and
/// within one use nothing but the monotonic clock counts: nobody freezes an instance that works.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgeConversion {
    elapsed: Duration,
    age: Duration,
}

impl AgeConversion {
    pub(super) fn new(now: InvocationNow) -> Self {
        Self { elapsed: now.elapsed, age: now.age }
    }

    /// Returns the age of the instance at this time of the invocation.
    pub(super) fn at(self, elapsed: Duration) -> Duration {
        let later = self.age + elapsed.saturating_sub(self.elapsed);
        later.saturating_sub(self.elapsed.saturating_sub(elapsed))
    }

    /// Returns the time of the invocation at an age that lies ahead, or the present.
    pub(super) fn elapsed(self, age: Duration) -> Duration {
        self.elapsed + age.saturating_sub(self.age)
    }

    /// Converts a window of the invocation to one of ages.
    pub(super) fn window(self, window: RoundWindow) -> RoundWindow {
        let RoundWindow { since, start, end } = window;
        RoundWindow { since: self.at(since), start: self.at(start), end: self.at(end) }
    }
}

/// The time for the deliveries of one round, counted from the beginning of the invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundWindow {
    /// The time when the first deliveries of the invocation began. A call that waits for its function is the
    /// first of the invocation if none to this function has begun since.
    pub since: Duration,
    /// The time when the deliveries of this round begin.
    pub start: Duration,
    /// The time when they must have ended. Requests that are under way then are cut off.
    pub end: Duration,
}

impl RoundWindow {
    /// Returns the last time to begin a request, counted as `start` and `end` are. A request that begins too
    /// late may be cut off just after the endpoint has accepted the letter, which would be a failed attempt
    /// and a duplicate. A letter that is not begun comes back as it is. If the time is short from the
    /// beginning, half of it must be enough.
    #[must_use]
    pub fn latest_start(&self, to: &Endpoint) -> Duration {
        let needed = match to {
            Endpoint::Http(_) => HTTP_TIMEOUT,
            Endpoint::Topic(_) | Endpoint::Queue(_) | Endpoint::Function(_) | Endpoint::Stream(_) => {
                CALL_TIME
            }
        };
        let half = self.end.saturating_sub(self.start) / 2;
        self.end.saturating_sub(needed.min(half))
    }
}

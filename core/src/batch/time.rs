//! The division of an invocation's time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::endpoint::Endpoint;

/// The time that a call of AWS takes at most, but for rare exceptions.
pub const CALL_TIME: Duration = Duration::from_secs(2);

/// The time that SNS gives a web server to answer.
/// <https://docs.aws.amazon.com/sns/latest/dg/SendMessageToHttp.prepare.html>
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(15);

/// The time of an invocation that its control objects may take, reading and writing together.
pub(super) const CONTROL_TIME: Duration = Duration::from_secs(1);

/// The end of each part of an invocation, counted from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    /// No delivery goes on after this.
    pub(super) deliver: Duration,
    /// Archive and queue must have answered by this.
    pub(super) finish: Duration,
}

impl Budget {
    /// Divides the time until `deadline`.
    ///
    /// A fifth of it, 10 s at most, is kept for archive and hiding: a letter whose retry was cut off must still be
    /// hidden. Of that, half a second and more for many letters is kept for the log lines and the answer.
    pub(super) fn until(deadline: Duration, letters: usize) -> Self {
        let kept = (deadline / 5).min(Duration::from_secs(10));
        let lines = Duration::from_micros(200).saturating_mul(u32::try_from(letters).unwrap_or(u32::MAX));
        let answer = (kept / 2).min(Duration::from_millis(500) + lines);
        Self { deliver: deadline.saturating_sub(kept), finish: deadline.saturating_sub(answer) }
    }
}

/// Half of the time until then: a look-up that hangs must leave the other letters time to go.
pub(super) fn half_of(now: Duration, until: Duration) -> Duration {
    now + until.saturating_sub(now) / 2
}

/// The moment that lies so much later.
pub(super) fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// The time for the deliveries of one round, counted from the beginning of the invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// When the first deliveries of the invocation began. A call that waits for its function is the first of the
    /// invocation where none to this function has begun since.
    pub since: Duration,
    /// When those of this round begin.
    pub start: Duration,
    /// When they must have ended: what is under way then is cut off.
    pub end: Duration,
}

impl Window {
    /// The last moment to begin a request, counted as `start` and `end` are. One that begins too late is cut off when
    /// the endpoint may just have taken the letter, and would be a failed attempt and a duplicate; a letter that is
    /// not begun comes back as it is. Where the time is short from the beginning, half of it must do.
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

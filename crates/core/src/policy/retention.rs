//! The time for which a queue keeps a letter, and what counts while the queue has not told it.
//!
//! A guess that is too short archives letters that need not go, and one that is too long loses letters. So
//! while the retention has never been read, nothing is archived for it, and letters are hidden for so short
//! a time that the queue is asked again soon. Only after ten minutes does a guess count, and never for a
//! letter that somebody holds.

use std::time::Duration;

use jiff::Timestamp;

use super::decide::{plus, seconds_until};

/// The retention that SQS queues have by default, in seconds: four days.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const DEFAULT_RETENTION: u64 = 4 * 24 * 3600;

/// The shortest retention that is supported, in seconds. Below it the margin is so short that a batch that
/// waits, or a poll that is late, costs letters.
pub const LEAST_RETENTION: u64 = 3600;

/// The time after which [`DEFAULT_RETENTION`] counts for archiving if a retention could not be read.
pub const MAX_UNREAD_TIME: Duration = Duration::from_mins(10);

/// The shortest and the longest time for which a letter is hidden so that something can be asked again soon,
/// in seconds.
const ASK_AGAIN_SECONDS: (u64, u64) = (60, 900);

/// The time for which a letter's queue keeps it, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// The queue's `MessageRetentionPeriod`, in seconds.
    Known(u64),
    /// The queue has never told it.
    Unread,
    /// The queue has not told it for [`MAX_UNREAD_TIME`], so [`DEFAULT_RETENTION`] counts for archiving,
    /// except for letters that are held.
    Assumed,
}

impl Retention {
    /// Reports whether the queue has told it.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// Returns the seconds by which letters are archived, or `None` if nothing may be archived by them.
    #[must_use]
    pub fn for_archiving(self, is_held: bool) -> Option<u64> {
        match self {
            Self::Known(retention) => Some(retention),
            Self::Assumed if !is_held => Some(DEFAULT_RETENTION),
            Self::Assumed | Self::Unread => None,
        }
    }
}

/// Returns the seconds after which something is asked again that a letter's next step depends on: a tenth of
/// its age, a minute at least and a quarter of an hour at most.
#[must_use]
pub fn ask_again_after(since: Timestamp, now: Timestamp) -> u64 {
    (seconds_until(since, now) / 10).clamp(ASK_AGAIN_SECONDS.0, ASK_AGAIN_SECONDS.1)
}

/// Reports whether a queue of this retention (in seconds) that has a letter `since` then keeps it until
/// `then` and for the margin after that.
#[must_use]
pub fn is_kept(since: Timestamp, retention: u64, then: Timestamp) -> bool {
    plus(then, expiry_margin(retention)) <= plus(since, retention)
}

/// Returns how long before its queue drops a letter it is archived instead of hidden, in seconds: an hour, or
/// a 24th of a retention shorter than a day. This leaves time for a function that is throttled or fails when
/// the letter becomes visible.
#[must_use]
pub fn expiry_margin(retention: u64) -> u64 {
    (retention / 24).min(3600)
}

//! Where a deferred letter waits: hidden in its queue, or moved to the requeue.
//!
//! A hidden letter is *in flight*, and SQS allows some 120,000 of those in a queue; at the limit
//! Lambda's polls silently get nothing, and this function would hear of no letter at all, not even of
//! those that are due. A message that is sent with `DelaySeconds` waits without being in flight, but
//! for 15 minutes at most, so a wait of six hours takes 24 moves.
//!
//! A move costs a send, a receive and a delete, three tenths of a request a letter in batches of ten;
//! hiding a letter for as long as 11.5 hours costs two tenths. So letters are hidden while there is
//! room. When half of the limit is used, those whose wait is longer than a move's delay are moved;
//! from three quarters on all that have to wait at all, since short waits fill a queue as well when
//! many letters fail.
//!
//! The number in flight is SQS's own, but that is approximate and some time old. What was hidden since
//! then is added, as if every instance of the function had hidden as much as this one: [`Crowd`] errs
//! on the side of moving.
//! <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>

use jiff::{SignedDuration, Timestamp};

/// Messages in flight that SQS allows in a queue, about.
pub const IN_FLIGHT_LIMIT: u64 = 120_000;

/// The longest `DelaySeconds`.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-delay-queues.html>
pub const MAX_DELAY: u64 = 900;

/// How long a reading of the number in flight is good while letters are hidden. SQS's number lags by
/// up to a minute itself.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-attributes.html>
const READING_MAX_AGE: SignedDuration = SignedDuration::from_secs(60);

/// How soon a reading may be repeated, however many letters were hidden since.
const READING_MIN_AGE: SignedDuration = SignedDuration::from_secs(10);

/// Where a deferred letter waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In its queue, hidden.
    Hidden,
    /// In the requeue, delayed by so many seconds.
    Moved {
        /// `DelaySeconds`: 0 to [`MAX_DELAY`].
        delay: u64,
    },
}

/// How many letters of one queue are in flight, as far as one instance of the function can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    limit: u64,
    instances: u64,
    in_flight: u64,
    read: Option<Timestamp>,
}

impl Crowd {
    /// A queue that nothing is known of yet. `limit` is the most that it may have in flight,
    /// `instances` how many instances of the function may hide its letters at once.
    #[must_use]
    pub fn new(limit: u64, instances: u32) -> Self {
        Self { limit, instances: u64::from(instances.max(1)), in_flight: 0, read: None }
    }

    /// What the queue said was in flight, and when. What was known before goes, unless it is as new.
    pub fn set(&mut self, in_flight: u64, read: Timestamp) {
        if self.read.is_none_or(|known| read > known) {
            (self.in_flight, self.read) = (in_flight, Some(read));
        }
    }

    /// Whether the queue should be asked before letters are hidden: the last reading is old, or so much
    /// was hidden since that it says little.
    #[must_use]
    pub fn wants_reading(&self, now: Timestamp) -> bool {
        let Some(read) = self.read else { return true };
        let age = now.duration_since(read);
        age >= READING_MAX_AGE || (age >= READING_MIN_AGE && self.in_flight >= self.half())
    }

    /// Letters in flight: the last reading, and what may have been hidden since.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether letters with long waits should be moved, if they can be.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.in_flight >= self.half()
    }

    /// Where a letter should wait for `wait` seconds.
    #[must_use]
    pub fn place(&self, wait: u64) -> Place {
        let crowded = self.in_flight >= self.limit / 4 * 3;
        let moves = wait > 0 && (crowded || (self.is_tight() && wait > MAX_DELAY));
        if moves { Place::Moved { delay: wait.min(MAX_DELAY) } } else { Place::Hidden }
    }

    /// Takes note that letters were hidden here.
    pub fn hide(&mut self, letters: u64) {
        self.in_flight = self.in_flight.saturating_add(letters.saturating_mul(self.instances));
    }

    fn half(&self) -> u64 {
        self.limit / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn crowd(in_flight: u64) -> Crowd {
        let mut crowd = Crowd::new(120_000, 2);
        crowd.set(in_flight, at(0));
        crowd
    }

    #[test]
    fn letters_are_hidden_while_half_of_the_limit_is_free() {
        assert_eq!(crowd(59_999).place(40_000), Place::Hidden);
        assert_eq!(crowd(60_000).place(40_000), Place::Moved { delay: 900 });
    }

    #[test]
    fn from_half_of_the_limit_on_only_waits_longer_than_a_delay_move() {
        assert_eq!(crowd(89_999).place(901), Place::Moved { delay: 900 });
        assert_eq!(crowd(89_999).place(900), Place::Hidden);
    }

    #[test]
    fn from_three_quarters_on_every_wait_moves_but_not_what_is_due_at_once() {
        assert_eq!(crowd(90_000).place(1), Place::Moved { delay: 1 });
        assert_eq!(crowd(90_000).place(900), Place::Moved { delay: 900 });
        assert_eq!(crowd(90_000).place(0), Place::Hidden);
    }

    #[test]
    fn what_was_hidden_since_the_reading_counts_for_every_instance() {
        let mut crowd = crowd(59_000);
        crowd.hide(499);
        assert_eq!((crowd.in_flight(), crowd.is_tight()), (59_998, false));
        crowd.hide(1);
        assert_eq!((crowd.in_flight(), crowd.is_tight()), (60_000, true));
    }

    #[test]
    fn a_reading_is_repeated_after_a_minute_and_sooner_where_it_is_tight() {
        assert!(Crowd::new(120_000, 1).wants_reading(at(0)));
        assert!(!crowd(0).wants_reading(at(59)));
        assert!(crowd(0).wants_reading(at(60)));
        assert!(!crowd(60_000).wants_reading(at(9)));
        assert!(crowd(60_000).wants_reading(at(10)));
    }
}

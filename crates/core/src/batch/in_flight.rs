//! The place where a deferred letter waits: hidden in its queue, or moved to the requeue.
//!
//! A hidden letter is *in flight*, and SQS allows some 120,000 of those in a queue. At the limit Lambda's
//! polls silently get nothing: this function would get no letter at all, not even those that are due. A
//! message that is sent with `DelaySeconds` waits without being in flight, but for 15 minutes at most, so a
//! wait of six hours takes 24 moves.
//!
//! A move costs a send, a receive and a delete: 0.3 requests per letter in batches of ten. Hiding a letter
//! for up to 11.5 hours costs 0.2 requests. So letters are hidden while there is room. When half of the limit
//! is used, letters whose wait is longer than a move's delay are moved. From three quarters on, all letters
//! that have to wait are moved, since short waits fill a queue as well when many letters fail.
//!
//! The number in flight is SQS's own, but that lags by up to a minute and is read only now and then. So
//! [`InFlightEstimate`] adds the letters that this instance has hidden since a minute before the reading.
//! Other instances hide letters too: once the reading shows that many are in flight, each instance is assumed
//! to have hidden as many. This overestimates, so that letters move too early, which costs a little; at the
//! limit nothing would move at all.
//! <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>

use std::collections::VecDeque;
use std::time::Duration;

/// The number of messages in flight that SQS allows in a queue, approximately.
pub const IN_FLIGHT_LIMIT: u64 = 120_000;

/// The longest `DelaySeconds`.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-delay-queues.html>
pub const MAX_DELAY: u64 = 900;

/// The time by which SQS's number may be behind.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-attributes.html>
const COUNT_LAG: Duration = Duration::from_mins(1);

/// The time for which a reading is good while letters are hidden.
const READING_MAX_AGE: Duration = Duration::from_mins(1);

/// The time after which a reading may be repeated at the earliest, however many letters were hidden since.
const READING_MIN_AGE: Duration = Duration::from_secs(10);

/// The length of the time span in which hidden letters are counted together.
const BUCKET_LENGTH: Duration = Duration::from_secs(10);

/// The number of time spans that are kept: longer together than the lag and the age of a reading.
const MAX_BUCKETS: usize = 16;

/// The place where a deferred letter waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingPlace {
    /// In its queue, hidden.
    Hidden,
    /// In the requeue, delayed.
    Moved {
        /// `DelaySeconds`: 0 to [`MAX_DELAY`].
        delay: u64,
    },
}

/// The number of letters of one queue that are in flight, as far as one instance of the function can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlightEstimate {
    limit: u64,
    instances: u64,
    reading: Option<InFlightReading>,
    /// The number of letters that were hidden here lately, with the beginning of each time span.
    hidden: VecDeque<(Duration, u64)>,
}

/// A queue's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InFlightReading {
    in_flight: u64,
    at: Duration,
}

impl InFlightEstimate {
    /// Creates the estimate of a queue about which nothing is known yet. `limit` is the largest number that
    /// it may have in flight, `instances` the number of instances of the function that may hide its letters
    /// at once.
    #[must_use]
    pub fn new(limit: u64, instances: u32) -> Self {
        Self { limit, instances: u64::from(instances.max(1)), reading: None, hidden: VecDeque::new() }
    }

    /// Takes over the number that the queue reported as in flight at an age. A reading older than the known
    /// one is ignored.
    pub fn set(&mut self, in_flight: u64, at: Duration) {
        if self.reading.is_none_or(|known| at > known.at) {
            self.reading = Some(InFlightReading { in_flight, at });
            let uncounted = at.saturating_sub(COUNT_LAG);
            self.hidden.retain(|(since, _)| *since >= uncounted);
        }
    }

    /// Returns the time of the queue's last reading.
    #[must_use]
    pub fn read_at(&self) -> Option<Duration> {
        self.reading.map(|reading| reading.at)
    }

    /// Reports whether the queue should be asked before letters are hidden: the last reading is old, or so
    /// many letters may have been hidden since that it says little.
    #[must_use]
    pub fn wants_reading(&self, now: Duration) -> bool {
        let Some(reading) = self.reading else { return true };
        let age = now.saturating_sub(reading.at);
        let suspicious = self.with_hidden(reading, self.instances) >= self.half();
        age >= READING_MAX_AGE || (age >= READING_MIN_AGE && suspicious)
    }

    /// Returns the letters in flight: the last reading, and the letters that it may not have counted. It is 0
    /// while there is no reading.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let Some(reading) = self.reading else { return 0 };
        // One busy instance of many must not make an empty queue look full.
        let others = reading.in_flight >= self.limit / 8;
        self.with_hidden(reading, if others { self.instances } else { 1 })
    }

    /// Reports whether letters with long waits should be moved, if they can be.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.in_flight() >= self.half()
    }

    /// Returns the place where a letter should wait for `wait` seconds.
    #[must_use]
    pub fn place(&self, wait: u64) -> WaitingPlace {
        let nearly_full = self.in_flight() >= self.limit / 4 * 3;
        let moves = wait > 0 && (nearly_full || (self.is_tight() && wait > MAX_DELAY));
        if moves { WaitingPlace::Moved { delay: wait.min(MAX_DELAY) } } else { WaitingPlace::Hidden }
    }

    /// Takes note that letters were hidden here.
    pub fn hide(&mut self, letters: u64, now: Duration) {
        match self.hidden.back_mut() {
            Some((since, count)) if now.saturating_sub(*since) < BUCKET_LENGTH => *count += letters,
            _ => self.hidden.push_back((now, letters)),
        }
        if self.hidden.len() > MAX_BUCKETS {
            self.hidden.pop_front();
        }
    }

    fn with_hidden(&self, reading: InFlightReading, instances: u64) -> u64 {
        let hidden = self.hidden.iter().map(|(_, count)| count).sum::<u64>();
        reading.in_flight.saturating_add(hidden.saturating_mul(instances))
    }

    fn half(&self) -> u64 {
        self.limit / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn estimate(in_flight: u64) -> InFlightEstimate {
        let mut estimate = InFlightEstimate::new(120_000, 2);
        estimate.set(in_flight, at(0));
        estimate
    }

    #[test]
    fn letters_are_hidden_while_half_of_the_limit_is_free() {
        assert_eq!(estimate(59_999).place(40_000), WaitingPlace::Hidden);
        assert_eq!(estimate(60_000).place(40_000), WaitingPlace::Moved { delay: 900 });
    }

    #[test]
    fn from_half_of_the_limit_on_only_waits_longer_than_a_delay_move() {
        assert_eq!(estimate(89_999).place(901), WaitingPlace::Moved { delay: 900 });
        assert_eq!(estimate(89_999).place(900), WaitingPlace::Hidden);
    }

    #[test]
    fn from_three_quarters_on_every_wait_moves_but_not_what_is_due_at_once() {
        assert_eq!(estimate(90_000).place(1), WaitingPlace::Moved { delay: 1 });
        assert_eq!(estimate(90_000).place(900), WaitingPlace::Moved { delay: 900 });
        assert_eq!(estimate(90_000).place(0), WaitingPlace::Hidden);
    }

    #[test]
    fn what_was_hidden_since_the_reading_counts_and_for_every_instance_once_many_are_in_flight() {
        let mut few = estimate(14_999);
        few.hide(1_000, at(1));
        assert_eq!(few.in_flight(), 15_999);
        let mut many = estimate(15_000);
        many.hide(22_499, at(1));
        assert_eq!((many.in_flight(), many.is_tight()), (59_998, false));
        many.hide(1, at(1));
        assert_eq!((many.in_flight(), many.is_tight()), (60_000, true));
    }

    /// SQS may not have counted these letters yet.
    #[test]
    fn what_was_hidden_within_a_minute_before_a_reading_goes_on_counting() {
        let mut estimate = estimate(20_000);
        estimate.hide(100, at(10));
        estimate.hide(1_000, at(30));
        estimate.set(20_000, at(90));
        assert_eq!(estimate.in_flight(), 22_000);
        estimate.set(20_000, at(91));
        assert_eq!(estimate.in_flight(), 20_000);
        estimate.hide(5, at(95));
        estimate.set(90_000, at(91));
        assert_eq!(estimate.in_flight(), 20_010, "no newer than what is known");
        assert_eq!(estimate.read_at(), Some(at(91)));
    }

    /// Each time span is forgotten with its beginning.
    #[test]
    fn what_is_hidden_within_ten_seconds_is_counted_as_one() {
        let mut busy = estimate(0);
        (0..100).for_each(|_| busy.hide(1, at(10)));
        assert_eq!(busy.in_flight(), 100);
        busy.hide(1, at(20));
        busy.set(0, at(71));
        assert_eq!(busy.in_flight(), 1);
    }

    #[test]
    fn sixteen_times_ten_seconds_are_kept() {
        let mut estimate = estimate(0);
        (1..=16).for_each(|tens| estimate.hide(1, at(tens * 10)));
        assert_eq!(estimate.in_flight(), 16);
        estimate.hide(1, at(170));
        assert_eq!(estimate.in_flight(), 16);
    }

    #[test]
    fn without_any_reading_letters_are_hidden() {
        let mut estimate = InFlightEstimate::new(10, 1);
        (0..100).for_each(|second| estimate.hide(1_000, at(second * 10)));
        assert_eq!((estimate.in_flight(), estimate.place(40_000)), (0, WaitingPlace::Hidden));
        assert!(estimate.hidden.len() <= MAX_BUCKETS);
    }

    #[test]
    fn a_reading_is_repeated_after_a_minute_and_sooner_where_it_may_be_tight() {
        assert!(InFlightEstimate::new(120_000, 1).wants_reading(at(0)));
        assert!(!estimate(0).wants_reading(at(59)));
        assert!(estimate(0).wants_reading(at(60)));
        assert!(!estimate(60_000).wants_reading(at(9)));
        assert!(estimate(60_000).wants_reading(at(10)));
        let mut suspicious = estimate(0);
        suspicious.hide(30_000, at(1));
        assert!(!suspicious.is_tight());
        assert!(suspicious.wants_reading(at(10)), "two instances may have hidden 60,000");
    }
}

//! The time that a trial of an endpoint that is down may take.

use std::time::Duration;

use crate::batch::calls::{Ended, Longest};

/// The factor from the time that its failures took to the time that an endpoint is left alone.
pub(super) const PAUSE_FACTOR: u32 = 20;

/// The time of a trial if no request was ever accepted, and the shortest time if some were.
const TRIAL_TIME: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(1));

/// The factor from the slowest request that was accepted to the time of a trial.
const TRIAL_FACTOR: u32 = 3;

/// The factors of consecutive trials, while all are cut off: a trial that is twice as long comes half as
/// often. So an endpoint that got slower is found after a few trials, and all of them cost a ninth of the
/// time.
const TRIAL_STEPS: [u32; 4] = [1, 2, 1, 4];

/// The longest time that these factors give to a trial.
const LONGEST_STEP: Duration = Duration::from_secs(8);

/// The time for which a trial of full length is kept for last retries alone, which wait for it.
const KEPT_FOR_LAST: Duration = Duration::from_secs(40);

/// The results of the trials of one endpoint.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// The slowest of the requests that it accepted.
    slowest: Option<Longest>,
    /// The number of trials that failed since it last accepted a message.
    failed: usize,
    /// The time when a request may take its full time again.
    full: Duration,
}

impl Trials {
    /// Returns the time when a request may take its full time again.
    pub(super) fn full(&self) -> Duration {
        self.full
    }

    /// Returns how long a trial may take in an outage that began then, or `None` if it may take its full
    /// time.
    pub(super) fn time(&self, outage: Duration, now: Duration) -> Option<Duration> {
        if now >= self.full + KEPT_FOR_LAST {
            return None;
        }
        let (unknown, least) = TRIAL_TIME;
        // The times that were known at the beginning of the outage are not forgotten while it lasts.
        let slowest = self.slowest.and_then(|slowest| slowest.lately(outage.min(now)));
        let usual = slowest.map_or(unknown, |slowest| (slowest * TRIAL_FACTOR).max(least));
        let step = TRIAL_STEPS[self.failed % TRIAL_STEPS.len()];
        Some(usual.max((usual * step).min(LONGEST_STEP)))
    }

    /// Takes note of how long an accepted request took.
    pub(super) fn saw(&mut self, took: Duration, now: Duration) {
        self.slowest = Longest::with(self.slowest, took, Ended::Ran, now);
    }

    /// Takes note that the endpoint works.
    pub(super) fn ended_well(&mut self) {
        self.failed = 0;
    }

    /// Takes note of a trial that failed.
    pub(super) fn ended_badly(&mut self) {
        self.failed += 1;
    }

    /// Takes note of a request that had its full time, and what it cost.
    pub(super) fn had_full_time(&mut self, cost: Duration, now: Duration) {
        self.full = now + cost * PAUSE_FACTOR;
    }
}

//! The time that a trial of an endpoint that is down may take.

use std::time::Duration;

use crate::batch::function_calls::{CallEnd, LongestCall};

/// The time of a trial if no request was ever accepted, and the shortest time if some were.
const TRIAL_TIME: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(1));

/// The factor from the slowest request that was accepted to the time of a trial.
const TRIAL_FACTOR: u32 = 3;

/// The factors of consecutive trials, while all are cut off: a trial that is twice as long comes half as
/// often. So an endpoint that got slower is found after a few trials.
const TRIAL_STEPS: [u32; 4] = [1, 2, 1, 4];

/// The longest time that these factors give to a trial.
const LONGEST_TRIAL: Duration = Duration::from_secs(15);

/// The results of the trials of one endpoint.
#[derive(Debug, Default)]
pub(super) struct EndpointTrials {
    /// The slowest of the requests that it accepted.
    slowest: Option<LongestCall>,
    /// The number of trials that failed since it last accepted a message.
    failed: usize,
}

impl EndpointTrials {
    /// Returns how long a trial may take in an outage that began then.
    pub(super) fn time(&self, outage: Duration, now: Duration) -> Duration {
        let (unknown, least) = TRIAL_TIME;
        // The times that were known at the beginning of the outage are not forgotten while it lasts.
        let slowest = self.slowest.and_then(|slowest| slowest.lately(outage.min(now)));
        let usual = slowest.map_or(unknown, |slowest| (slowest * TRIAL_FACTOR).max(least));
        let step = TRIAL_STEPS[self.failed % TRIAL_STEPS.len()];
        usual.max((usual * step).min(LONGEST_TRIAL))
    }

    /// Takes note of how long an accepted request took.
    pub(super) fn saw(&mut self, took: Duration, now: Duration) {
        self.slowest = LongestCall::with(self.slowest, took, CallEnd::Ran, now);
    }

    /// Takes note that the endpoint works.
    pub(super) fn ended_well(&mut self) {
        self.failed = 0;
    }

    /// Takes note of a trial that failed.
    pub(super) fn ended_badly(&mut self) {
        self.failed += 1;
    }
}

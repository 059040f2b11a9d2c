//! How slow an endpoint is that works.

use std::time::Duration;

/// The time above which an answer is slow.
pub(super) const SLOW_ANSWER_TIME: Duration = Duration::from_secs(1);

/// The part of the time that slow endpoints get while batches are full, and the most that is saved: that of a minute.
pub(super) const SLOW_SHARE: (u32, Duration) = (10, Duration::from_secs(6));

const MINUTE: Duration = Duration::from_mins(1);

/// The slowness of one endpoint.
#[derive(Debug, Default)]
pub(super) struct EndpointSlowness {
    /// The time that its last answer took, if that was slow.
    last: Option<Duration>,
    /// The time up to which there are letters for its part of the time.
    planned: Duration,
}

impl EndpointSlowness {
    /// Takes note of how long an accepted request took.
    pub(super) fn saw(&mut self, took: Duration) {
        self.last = (took > SLOW_ANSWER_TIME).then_some(took);
    }

    pub(super) fn is_slow(&self) -> bool {
        self.last.is_some()
    }

    /// Returns the number of full minutes by which one more letter is put off. In each minute there is time for some
    /// ten at once, one after the other: more would come back only to be put off again.
    pub(super) fn put_off(&mut self, now: Duration) -> u32 {
        let each = self.last.unwrap_or_default().min(SLOW_SHARE.1);
        let planned = self.planned.max(now);
        self.planned = planned + each;
        u32::try_from(planned.saturating_sub(now).as_secs() / MINUTE.as_secs()).unwrap_or(u32::MAX)
    }
}

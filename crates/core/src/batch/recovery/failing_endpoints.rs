//! The endpoints that this instance sees fail.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::batch::moment::Moment;
use crate::endpoint::TargetName;

/// The time for which every attempt at an endpoint must have failed until it counts as down.
const DOWN_AFTER: Duration = Duration::from_mins(2);

/// The largest number of endpoints that are remembered. Those that failed longest ago are forgotten first.
const MAX_KEPT: usize = 1_000;

/// The endpoints that have accepted nothing since their last failure.
#[derive(Debug, Default)]
pub(super) struct FailingEndpoints(HashMap<TargetName, FailingEndpoint>);

/// An endpoint that fails.
#[derive(Debug)]
struct FailingEndpoint {
    /// The first failure since it last accepted a letter.
    since: Moment,
    last: Moment,
    /// The code of the last failure.
    error: String,
}

impl FailingEndpoints {
    /// Takes note of a failure.
    pub(super) fn failed(&mut self, target: &TargetName, error: &str, now: Moment) {
        let all = &mut self.0;
        if all.len() >= MAX_KEPT && !all.contains_key(target) {
            let oldest = all.iter().min_by_key(|(_, known)| known.last.age).map(|(target, _)| target.clone());
            oldest.and_then(|target| all.remove(&target));
        }
        let known = all.entry(target.clone()).or_insert_with(|| FailingEndpoint {
            since: now,
            last: now,
            error: String::new(),
        });
        known.last = now;
        error.clone_into(&mut known.error);
    }

    /// Takes note that an endpoint works, here or for another instance.
    pub(super) fn worked(&mut self, target: &TargetName, at: Timestamp) {
        if self.0.get(target).is_some_and(|known| known.last.at <= at) {
            self.0.remove(target);
        }
    }

    /// Returns the time of the first failure, and the code of the last, of an endpoint that is down.
    pub(super) fn down_since(&self, target: &TargetName) -> Option<(Timestamp, &str)> {
        let known = self.0.get(target)?;
        let is_down = known.last.age.saturating_sub(known.since.age) >= DOWN_AFTER;
        is_down.then_some((known.since.at, known.error.as_str()))
    }
}

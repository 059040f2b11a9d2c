//! The endpoints that this instance sees fail.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use crate::arn::Arn;
use crate::batch::moment::Moment;
use crate::batch::time::earlier;
use crate::endpoint::TargetName;

/// The time for which every attempt at an endpoint must have failed until it counts as down.
const DOWN_AFTER: Duration = Duration::from_mins(2);

/// The longest time between two failures that belong together. Scouts come more often while an endpoint is down. After a longer
/// time, other instances may have seen it work.
const LONGEST_GAP: Duration = Duration::from_mins(20);

/// The largest number of endpoints that are remembered. Those that failed longest ago are forgotten first.
const MAX_KEPT: usize = 1_000;

/// The largest number of topics that are remembered of an endpoint.
const MAX_TOPICS: usize = 10;

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
    /// The topics of letters that failed.
    topics: BTreeSet<Arn>,
    /// True if this instance has told the topic of notices.
    is_told: bool,
}

impl FailingEndpoints {
    /// Moves what was seen before the wall clock was set back to the time that it has by the age of the instance. Otherwise the
    /// outage would seem to have begun after the letters were listed that wait for its end.
    pub(super) fn set_right(&mut self, now: Moment) {
        for known in self.0.values_mut().filter(|known| known.last.at > now.at) {
            for moment in [&mut known.since, &mut known.last] {
                moment.at = earlier(now.at, now.age.saturating_sub(moment.age));
            }
        }
    }

    /// Takes note of a failure.
    pub(super) fn failed(&mut self, target: &TargetName, error: &str, topics: &BTreeSet<Arn>, now: Moment) {
        let all = &mut self.0;
        if all.len() >= MAX_KEPT && !all.contains_key(target) {
            let oldest = all.iter().min_by_key(|(_, known)| known.last.age).map(|(target, _)| target.clone());
            oldest.and_then(|target| all.remove(&target));
        }
        let known = all.entry(target.clone()).or_insert_with(|| FailingEndpoint {
            since: now,
            last: now,
            error: String::new(),
            topics: BTreeSet::new(),
            is_told: false,
        });
        if now.age.saturating_sub(known.last.age) > LONGEST_GAP {
            (known.since, known.is_told) = (now, false);
        }
        let free = MAX_TOPICS.saturating_sub(known.topics.len());
        known.topics.extend(topics.iter().take(free).cloned());
        known.last = now;
        error.clone_into(&mut known.error);
    }

    /// Takes note that an endpoint works, here or for another instance.
    pub(super) fn worked(&mut self, target: &TargetName, at: Timestamp) {
        if self.0.get(target).is_some_and(|known| known.last.at <= at) {
            self.0.remove(target);
        }
    }

    /// Returns the topics of letters that failed since the endpoint last accepted one.
    pub(super) fn topics(&self, target: &TargetName) -> BTreeSet<Arn> {
        self.0.get(target).map(|known| known.topics.clone()).unwrap_or_default()
    }

    /// Takes note that this instance has told the topic of notices that an endpoint is down.
    pub(super) fn told(&mut self, target: &TargetName) {
        if let Some(known) = self.0.get_mut(target) {
            known.is_told = true;
        }
    }

    /// Reports whether this instance has told that.
    pub(super) fn is_told(&self, target: &TargetName) -> bool {
        self.0.get(target).is_some_and(|known| known.is_told)
    }

    /// Returns the time of the first failure, and the code of the last, of an endpoint that is down.
    pub(super) fn down_since(&self, target: &TargetName) -> Option<(Timestamp, &str)> {
        let known = self.0.get(target)?;
        let is_down = known.last.age.saturating_sub(known.since.age) >= DOWN_AFTER;
        is_down.then_some((known.since.at, known.error.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    /// Returns the second since which an endpoint is down that failed in these seconds.
    fn down_after(failures: &[u32]) -> Option<i64> {
        let (target, mut failing) = (TargetName::read("#8a5edab28263"), FailingEndpoints::default());
        for second in failures {
            let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs((*second).into());
            failing.failed(
                &target,
                "Unreachable",
                &BTreeSet::new(),
                Moment { at, age: Duration::from_secs((*second).into()) },
            );
        }
        failing.down_since(&target).map(|(since, _)| since.as_second())
    }

    #[test]
    fn an_endpoint_is_down_after_two_minutes_in_which_all_attempts_failed() {
        assert_eq!(down_after(&[5]), None);
        assert_eq!(down_after(&[5, 124]), None);
        assert_eq!(down_after(&[5, 60, 125]), Some(5));
    }

    #[test]
    fn failures_of_different_days_make_no_outage() {
        assert_eq!(down_after(&[0, 1_200]), Some(0));
        assert_eq!(down_after(&[0, 1_201]), None);
        assert_eq!(down_after(&[0, 86_400, 86_520]), Some(86_400));
    }

    #[test]
    fn what_another_instance_delivered_since_ends_it() {
        let (target, mut failing) = (TargetName::read("#8a5edab28263"), FailingEndpoints::default());
        let at = |second| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
        for second in [0_i64, 200] {
            let age = Duration::from_secs(second.unsigned_abs());
            failing.failed(&target, "Unreachable", &BTreeSet::new(), Moment { at: at(second), age });
        }
        failing.worked(&target, at(199));
        assert!(failing.down_since(&target).is_some(), "it has failed since");
        failing.worked(&target, at(200));
        assert_eq!(failing.down_since(&target), None);
    }

    #[test]
    fn an_outage_began_when_it_did_though_the_wall_clock_was_an_hour_ahead_then() {
        let (target, mut failing) = (TargetName::read("#8a5edab28263"), FailingEndpoints::default());
        let moment = |wall: i64, age: u64| Moment {
            at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(wall),
            age: Duration::from_secs(age),
        };
        let since = |failing: &FailingEndpoints| failing.down_since(&target).map(|(at, _)| at.as_second());
        for (wall, age) in [(3_600, 0), (3_730, 130)] {
            failing.set_right(moment(wall, age));
            failing.failed(&target, "Unreachable", &BTreeSet::new(), moment(wall, age));
        }
        assert_eq!(since(&failing), Some(3_600));
        failing.set_right(moment(140, 140));
        assert_eq!(since(&failing), Some(0));
        failing.worked(&target, moment(141, 141).at);
        assert_eq!(since(&failing), None, "it works after its last failure");
    }
}

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

/// The number of failures after which one that was back a short while ago gets a scout. Its letters wait long by now, so that nobody
/// may see it fail for two minutes.
const RELAPSE_FAILURES: u64 = 3;

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
    /// The number of failures while it counted as back.
    relapse: u64,
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

    /// Takes note of a batch's failures. `was_back` says that a recovery of the endpoint counts.
    pub(super) fn failed(
        &mut self,
        target: &TargetName,
        (error, letters): (&str, u64),
        topics: &BTreeSet<Arn>,
        was_back: bool,
        now: Moment,
    ) {
        let all = &mut self.0;
        if all.len() >= MAX_KEPT && !all.contains_key(target) {
            let oldest = all.iter().min_by_key(|(_, known)| known.last.age).map(|(target, _)| target.clone());
            oldest.and_then(|target| all.remove(&target));
        }
        let known = all.entry(target.clone()).or_insert_with(|| FailingEndpoint {
            since: now,
            last: now,
            relapse: 0,
            error: String::new(),
            topics: BTreeSet::new(),
            is_told: false,
        });
        if now.age.saturating_sub(known.last.age) > LONGEST_GAP {
            (known.since, known.relapse, known.is_told) = (now, 0, false);
        }
        let free = MAX_TOPICS.saturating_sub(known.topics.len());
        known.topics.extend(topics.iter().take(free).cloned());
        known.last = now;
        known.relapse += if was_back { letters } else { 0 };
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

    /// Reports whether an endpoint that was back has failed again since, and is not down yet.
    pub(super) fn is_relapsing(&self, target: &TargetName) -> bool {
        self.0.get(target).is_some_and(|known| known.relapse >= RELAPSE_FAILURES)
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
                ("Unreachable", 1),
                &BTreeSet::new(),
                false,
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
    fn an_endpoint_that_was_back_relapses_after_three_failures() {
        let (target, mut failing) = (TargetName::read("#8a5edab28263"), FailingEndpoints::default());
        let now = |second| Moment {
            at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second),
            age: Duration::from_secs(second.unsigned_abs()),
        };
        let mut fails = |letters, was_back, second| {
            failing.failed(&target, ("Unreachable", letters), &BTreeSet::new(), was_back, now(second));
            failing.is_relapsing(&target)
        };
        assert_eq!([fails(100, false, 0), fails(2, true, 1), fails(1, true, 2)], [false, false, true]);
        failing.worked(&target, now(3).at);
        failing.failed(&target, ("Unreachable", 2), &BTreeSet::new(), true, now(4));
        assert!(!failing.is_relapsing(&target));
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
            let now = Moment { at: at(second), age };
            failing.failed(&target, ("Unreachable", 1), &BTreeSet::new(), false, now);
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
            failing.failed(&target, ("Unreachable", 1), &BTreeSet::new(), false, moment(wall, age));
        }
        assert_eq!(since(&failing), Some(3_600));
        failing.set_right(moment(140, 140));
        assert_eq!(since(&failing), Some(0));
        failing.worked(&target, moment(141, 141).at);
        assert_eq!(since(&failing), None, "it works after its last failure");
    }
}

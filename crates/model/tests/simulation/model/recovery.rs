//! Outages of one endpoint at the size of the template: instances that get ten letters at a time, and calls that take their
//! time. What is measured is how soon the letters arrive that wait when the endpoint is back.

use jiff::SignedDuration;
use redrive_core::batch::{ChangeKind, EndpointChange, IN_FLIGHT_LIMIT};

use super::figures::recovery_cost;
use super::life::LawJudgement;
use super::simulation::ModelStory;
use super::world::{ArrivalPlan, FailureStyle, ModelMapping, ModelSubscriber, ModelWorld};
use super::worlds::filling;
use super::{DAY, HOUR, MINUTE, ModelMillis, SECOND};

/// The time that a request, beside it an invocation, and a call for a control object take.
const CALL_TIME: ModelMillis = 20;
const BATCH_OVERHEAD: ModelMillis = 60;
const CONTROL_TIME: ModelMillis = 30;

#[derive(Debug, Clone)]
pub struct RecoverySetup {
    /// The number of letters, which fail one after the other.
    pub letters: u64,
    pub apart: ModelMillis,
    /// The times when the endpoint is down.
    pub outages: Vec<(ModelMillis, ModelMillis)>,
    pub fails: FailureStyle,
    /// The number of letters that it takes in a second.
    pub takes_a_second: Option<u32>,
    /// The `maxReceivesPerSecond` of the policy.
    pub limit: Option<u32>,
    pub instances: u32,
    pub spill: bool,
    /// Whether waiting letters are listed, and woken.
    pub listed: bool,
    /// The time between letters for another endpoint, which works, until its last one.
    pub others: Option<(ModelMillis, ModelMillis)>,
    pub until: Option<ModelMillis>,
}

/// What became of the letters.
#[derive(Debug, Clone, Copy)]
pub struct RecoveryToll {
    /// The time from the end of the last outage to the first delivery, and from there to the last.
    pub first_after: ModelMillis,
    pub last_after: ModelMillis,
    pub letters: u64,
    pub delivered: u64,
    pub archived: u64,
    pub attempts: u64,
    pub early: u64,
    pub woken: u64,
    /// The number of objects of the list.
    pub lists: u64,
    /// The cost of SQS, S3 and Lambda, in USD.
    pub cost: f64,
    /// The time that letters of the other endpoint waited: of all but one in a hundred it was shorter.
    pub others_waited: ModelMillis,
}

impl RecoverySetup {
    /// Returns an outage in which so many letters fail every ten seconds.
    pub fn outage(per_ten_seconds: u64, lasts: ModelMillis) -> Self {
        let apart = 10 * SECOND / ModelMillis::try_from(per_ten_seconds).unwrap();
        Self {
            letters: u64::try_from(lasts / apart).unwrap(),
            apart,
            outages: vec![(0, lasts)],
            fails: FailureStyle::AtOnce,
            takes_a_second: None,
            limit: None,
            instances: 2,
            spill: false,
            listed: true,
            others: None,
            until: None,
        }
    }

    /// Returns an outage of an hour at ten letters a second.
    pub fn an_hour() -> Self {
        Self::outage(100, HOUR)
    }

    /// Returns three letters, and an outage that ends twenty minutes after so many hours.
    pub fn few(hours: ModelMillis) -> Self {
        Self { letters: 3, ..Self::outage(1, hours * HOUR + 20 * MINUTE) }
    }

    pub fn world(&self) -> ModelWorld {
        let base = filling(0, IN_FLIGHT_LIMIT, 0);
        let arrives = |who: u64| ModelMillis::try_from(who).unwrap() * self.apart;
        let mut letters: Vec<_> = (0..self.letters)
            .map(|who| ArrivalPlan { arrives: arrives(who), ..ArrivalPlan::default() })
            .collect();
        if let Some((apart, last)) = self.others {
            let other = |number| ArrivalPlan { arrives: number * apart, to: 1, ..ArrivalPlan::default() };
            letters.extend((0..last / apart).map(other));
        }
        let works = ModelSubscriber { takes: CALL_TIME..=CALL_TIME, ..base.subscriber };
        ModelWorld {
            requeue: self.spill.then(|| base.dlq.clone()),
            letters,
            subscriber: ModelSubscriber { outages: self.outages.clone(), fails: self.fails, ..works.clone() },
            takes_a_second: self.takes_a_second,
            limit: self.limit,
            others: self.others.map(|_| works).into_iter().collect(),
            mapping: ModelMapping {
                batch: 10,
                late: 0..=20,
                instances: self.instances,
                takes: BATCH_OVERHEAD,
                ..base.mapping
            },
            listed: self.listed,
            control_takes: CONTROL_TIME,
            until: self.until,
            ..base
        }
    }

    pub fn toll(&self) -> RecoveryToll {
        self.toll_of(&self.world())
    }

    /// Returns what becomes of the letters in this world.
    pub fn toll_of(&self, world: &ModelWorld) -> RecoveryToll {
        let story = world.count();
        let counts = story.journal.counts;
        let end = self.outages.last().map_or(0, |(_, end)| *end);
        let first = story.journal.first_delivery.unwrap_or(ModelMillis::MAX);
        let mut waits = story.journal.waits_of_others;
        waits.sort_unstable();
        RecoveryToll {
            first_after: first - end,
            last_after: story.journal.last_delivery - first,
            letters: self.letters,
            delivered: counts.delivered,
            archived: counts.archived,
            attempts: counts.attempts,
            early: counts.early,
            woken: counts.woken,
            lists: counts.lists,
            cost: recovery_cost(&counts),
            others_waited: waits.get(waits.len() * 99 / 100).copied().unwrap_or_default(),
        }
    }

    /// Returns the outages of the page, by name. Those that are quick to simulate come first.
    pub fn all() -> Vec<(&'static str, Self)> {
        let hour = Self::an_hour;
        vec![
            ("10 a second, 1 h", hour()),
            ("the same, four instances", Self { instances: 4, ..hour() }),
            ("the same, eight instances", Self { instances: 8, ..hour() }),
            ("10 a second, 1 h, the endpoint hangs", Self { fails: FailureStyle::Hanging, ..hour() }),
            ("10 a second, 1 h, with a requeue", Self { spill: true, ..hour() }),
            ("three letters, 9 h 20 min", Self::few(9)),
            ("three letters, 19 h 20 min", Self::few(19)),
            ("10 a second, 1 d", Self::outage(100, DAY)),
            ("1,000 a second, 1 h, 50 instances", Self { instances: 50, ..Self::outage(10_000, HOUR) }),
        ]
    }
}

/// Law: over all instances a topic is told at most once in a quarter of an hour that an endpoint is down.
pub fn nobody_is_told_too_often(_: &ModelWorld, story: &ModelStory) -> LawJudgement {
    let mut down: Vec<_> = story.journal.changes.iter().filter(|change| is_down(change)).collect();
    down.sort_by_key(|change| (&change.target, change.at));
    for pair in down.windows(2).filter(|pair| pair[0].target == pair[1].target) {
        let apart = pair[1].at.duration_since(pair[0].at);
        if apart < SignedDuration::from_mins(15) {
            return Err(format!("told twice within {apart}: {pair:?}"));
        }
    }
    Ok(())
}

pub fn is_down(change: &EndpointChange) -> bool {
    matches!(change.kind, ChangeKind::Down { .. })
}

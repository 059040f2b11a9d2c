//! Outages of one endpoint at the size of the template: instances that get ten letters at a time, and calls that take their
//! time. What is measured is how soon the letters arrive that wait when the endpoint is back.

use std::fmt::Write as _;

use jiff::SignedDuration;
use redrive_core::batch::{ChangeKind, EndpointChange, IN_FLIGHT_LIMIT};
use redrive_core::policy::{Schedule, VISIBILITY_CEILING};

use super::life::LawJudgement;
use super::operator::ModelOperator;
use super::outage::{BUILT_IN_JITTER, queue};
use super::simulation::ModelStory;
use super::world::{ArrivalPlan, FailureStyle, ModelMapping, ModelSubscriber, ModelWorld, TroubleRates};
use super::{HOUR, MINUTE, ModelMillis, SECOND};

/// The time that a request and, beside it, an invocation takes.
const CALL_TIME: ModelMillis = 20;
const BATCH_OVERHEAD: ModelMillis = 60;

#[derive(Debug, Clone)]
pub struct RecoverySetup {
    /// The number of letters, which fail one after the other.
    pub letters: u64,
    pub apart: ModelMillis,
    /// The times when the endpoint is down.
    pub outages: Vec<(ModelMillis, ModelMillis)>,
    pub fails: FailureStyle,
    pub instances: u32,
    pub spill: bool,
    /// Whether waiting letters are listed, and woken.
    pub listed: bool,
}

/// What became of the letters.
#[derive(Debug, Clone, Copy)]
pub struct RecoveryToll {
    /// The time from the end of the last outage to the first delivery, and from there to the last.
    pub first_after: ModelMillis,
    pub last_after: ModelMillis,
    pub delivered: u64,
    pub attempts: u64,
    pub woken: u64,
    /// The number of calls for control objects.
    pub control_calls: u64,
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
            instances: 2,
            spill: false,
            listed: true,
        }
    }

    pub fn world(&self) -> ModelWorld {
        let queue = queue(IN_FLIGHT_LIMIT);
        let arrives = |who: u64| ModelMillis::try_from(who).unwrap() * self.apart;
        ModelWorld {
            seed: 1,
            schedule: Schedule::BUILT_IN,
            jitter: BUILT_IN_JITTER,
            ceiling: VISIBILITY_CEILING,
            fifo: false,
            dlq: queue.clone(),
            requeue: self.spill.then_some(queue),
            believed_limit: IN_FLIGHT_LIMIT,
            step_aside: false,
            letters: (0..self.letters)
                .map(|who| ArrivalPlan { arrives: arrives(who), ..ArrivalPlan::default() })
                .collect(),
            subscriber: ModelSubscriber {
                outages: self.outages.clone(),
                fails: self.fails,
                flaky: 0,
                takes: CALL_TIME..=CALL_TIME,
            },
            others: Vec::new(),
            mapping: ModelMapping {
                batch: 10,
                window: 0..=0,
                late: 0..=20,
                instances: self.instances,
                off: vec![],
                takes: BATCH_OVERHEAD,
            },
            trouble: TroubleRates::default(),
            operator: ModelOperator::default(),
            listed: self.listed,
            told: false,
            observed_until: 0,
            schedule_from: None,
            until: None,
        }
    }

    pub fn toll(&self) -> RecoveryToll {
        let story = self.world().count();
        let counts = story.journal.counts;
        let end = self.outages.last().map_or(0, |(_, end)| *end);
        let first = story.journal.first_delivery.unwrap_or(ModelMillis::MAX);
        RecoveryToll {
            first_after: first - end,
            last_after: story.journal.last_delivery - first,
            delivered: counts.delivered,
            attempts: counts.attempts,
            woken: counts.woken,
            control_calls: counts.lists + counts.control_writes + counts.control_reads,
        }
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

/// Returns the table of `docs/figures.md`, in Markdown.
pub fn table() -> String {
    let an_hour = RecoverySetup::outage(100, HOUR);
    let few = |hours| RecoverySetup { letters: 3, ..RecoverySetup::outage(1, hours * HOUR + 20 * MINUTE) };
    let rows = [
        ("10 a second for an hour, which fail at once", an_hour.clone()),
        ("the same, four instances", RecoverySetup { instances: 4, ..an_hour.clone() }),
        ("the same, eight instances", RecoverySetup { instances: 8, ..an_hour.clone() }),
        (
            "10 a second for an hour, which hang",
            RecoverySetup { fails: FailureStyle::Hanging, ..an_hour.clone() },
        ),
        ("10 a second for an hour, with a requeue", RecoverySetup { spill: true, ..an_hour }),
        ("three letters, for 9 h 20 min", few(9)),
        ("three letters, for 19 h 20 min", few(19)),
    ];
    let mut table = "| letters that fail | first, with the list | last after it | first, without | last after it | woken | attempts \
                     | calls of S3 |\n|---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (name, setup) in rows {
        let (with, without) = (setup.toll(), RecoverySetup { listed: false, ..setup }.toll());
        let seconds = |millis: ModelMillis| format!("{}.{} s", millis / SECOND, millis % SECOND / 100);
        let times = [with.first_after, with.last_after, without.first_after, without.last_after].map(seconds);
        let counts = [with.woken, with.attempts, with.control_calls].map(|count| count.to_string());
        writeln!(table, "| {name} | {} | {} |", times.join(" | "), counts.join(" | ")).unwrap();
    }
    table
}

//! Outages of many letters: a subscriber is down, and so many letters fail each second.
//!
//! One letter of the model stands for [`ModelOutage::each`] real ones, and the limit in flight is divided by as
//! many. Delays, lags and readings keep their real length. An invocation takes [`BATCH_TIME`] for up to
//! [`BATCH_LETTERS`] real letters. If one letter of the model stands for more than a batch, so does an invocation,
//! and there are correspondingly fewer of them.

use redrive_core::batch::IN_FLIGHT_LIMIT;

use super::queue::ModelQueue;
use super::world::{ArrivalPlan, ModelMapping, ModelSubscriber, ModelWorld};
use super::worlds::filling;
use super::{HOUR, ModelMillis, SECOND};

/// The number of letters in a batch, and the time that an invocation takes for them.
pub const BATCH_LETTERS: u64 = 1_000;
pub const BATCH_TIME: ModelMillis = SECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelOutage {
    /// The number of messages that fail each second.
    pub rate: u64,
    pub lasts: ModelMillis,
    pub spill: bool,
    /// `MaximumConcurrency` of each of the two mappings.
    pub instances: u64,
    /// The number of real letters for one of the model.
    pub each: u64,
}

/// The cost of an outage, in real letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutageToll {
    pub letters: u64,
    pub delivered: u64,
    pub archived: u64,
    pub lost: u64,
    pub peak_backlog: u64,
    pub peak_dlq: u64,
    pub peak_requeue: u64,
    pub received: u64,
    pub attempts: u64,
    pub hidden: u64,
    pub moved: u64,
    pub deleted: u64,
    pub readings: u64,
    pub long_hides: u64,
    pub instances: u64,
    /// The time from the end of the outage to the last delivery.
    pub delivered_after: ModelMillis,
}

impl ModelOutage {
    pub fn letters(&self) -> u64 {
        self.rate * u64::try_from(self.lasts / SECOND).unwrap()
    }

    /// Returns the number of real batches that one letter of the model stands for.
    fn batches(&self) -> u64 {
        self.each.div_ceil(BATCH_LETTERS)
    }

    pub fn toll(&self) -> OutageToll {
        let number = self.letters() / self.each;
        let arrives = |who: u64| {
            ModelMillis::try_from(i128::from(who) * i128::from(self.lasts) / i128::from(number)).unwrap()
        };
        let limit = IN_FLIGHT_LIMIT / self.each;
        let base = filling(0, limit, 0);
        let world = ModelWorld {
            requeue: self.spill.then(|| base.dlq.clone()),
            letters: (0..number)
                .map(|who| ArrivalPlan { arrives: arrives(who), ..ArrivalPlan::default() })
                .collect(),
            subscriber: ModelSubscriber { outages: vec![(0, self.lasts)], ..base.subscriber },
            mapping: ModelMapping {
                batch: usize::try_from((BATCH_LETTERS / self.each).max(1)).unwrap(),
                instances: u32::try_from((self.instances / self.batches()).max(1)).unwrap(),
                takes: BATCH_TIME,
                ..base.mapping
            },
            until: None,
            ..base
        };
        let story = world.count();
        let peak = |queue: &ModelQueue| u64::try_from(queue.messages.peak).unwrap();
        let (counts, each) = (story.journal.counts, self.each);
        OutageToll {
            letters: number * each,
            delivered: counts.delivered * each,
            archived: counts.archived * each,
            lost: counts.lost * each,
            peak_backlog: u64::try_from(story.peak_waiting).unwrap() * each,
            peak_dlq: peak(&story.dlq) * each,
            peak_requeue: story.requeue.as_ref().map_or(0, peak) * each,
            received: counts.received * each,
            attempts: counts.attempts * each,
            hidden: counts.hidden * each,
            moved: counts.moved * each,
            deleted: counts.deleted * each,
            readings: counts.readings * self.batches(),
            long_hides: counts.long_hides * self.batches(),
            instances: u64::try_from(story.peak_busy).unwrap() * self.batches(),
            delivered_after: story.journal.last_delivery - self.lasts,
        }
    }

    /// Returns the outages of the page. Those that are quick to simulate come first.
    pub fn all() -> Vec<Self> {
        let outage =
            |rate, hours, instances, each| Self { rate, lasts: hours * HOUR, spill: true, instances, each };
        vec![
            outage(10, 1, 2, 10),
            outage(1_000, 1, 40, 250),
            outage(10, 24, 2, 100),
            outage(10, 72, 2, 400),
            outage(1_000, 24, 120, 3_000),
            outage(1_000, 72, 120, 6_000),
            outage(50_000, 1, 120, 3_000),
        ]
    }
}

//! The knowledge of one instance of the function, from batch to batch.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::action::{BatchNotice, QueueAttributes};
use super::config::BatchConfig;
use super::in_flight::InFlightEstimate;
use super::throttle::Throttle;
use super::unarchived::UnarchivedLetters;
use crate::arn::Arn;
use crate::failure::Failure;
use crate::letter::Letter;
use crate::policy::{MAX_UNREAD_TIME, Retention};

/// The largest number of queues, and of subscriptions, of which it is remembered that they were asked or could
/// not be read. SQS names the queues, but a forger can name any subscription of a topic.
const MAX_KEPT: usize = 1_000;

/// The knowledge of one instance.
#[derive(Debug)]
pub(super) struct InstanceKnowledge {
    /// The letters in flight in the queues that feed the function: the dead-letter queue and the requeue.
    pub(super) estimates: HashMap<Arn, InFlightEstimate>,
    /// The reading of each queue that last triggered the warning of many letters in flight.
    warned: HashMap<Arn, Duration>,
    /// The queues that were checked already.
    pub(super) checked: HashSet<Arn>,
    /// The queues that were asked for their attributes, with the age of the instance when they were first
    /// asked.
    asked: HashMap<Arn, Duration>,
    /// The queues that could not be read, which is told once, with the time of their last answer.
    unreadable: HashMap<Arn, Option<Duration>>,
    /// The queues whose retention is assumed, which is told once.
    assumed: HashSet<Arn>,
    /// The subscriptions whose delivery policy could not be read, which is told once.
    unread_policies: HashSet<Arn>,
    pub(super) unarchived: UnarchivedLetters,
    pub(super) throttle: Throttle,
}

impl InstanceKnowledge {
    /// Creates the knowledge of a new instance.
    pub(super) fn new(config: &BatchConfig) -> Self {
        Self {
            estimates: HashMap::new(),
            warned: HashMap::new(),
            checked: HashSet::new(),
            asked: HashMap::new(),
            unreadable: HashMap::new(),
            assumed: HashSet::new(),
            unread_policies: HashSet::new(),
            unarchived: UnarchivedLetters::default(),
            throttle: Throttle::new(config.deliverers()),
        }
    }

    /// Returns the letters of a queue in flight, as far as this instance can tell.
    pub(super) fn estimate(&self, config: &BatchConfig, queue: &Arn) -> InFlightEstimate {
        let known = self.estimates.get(queue).cloned();
        known.unwrap_or_else(|| InFlightEstimate::new(config.in_flight_limit, config.deliverers()))
    }

    /// Takes over the numbers in flight that queues report.
    pub(super) fn read(&mut self, config: &BatchConfig, attributes: &HashMap<Arn, QueueAttributes>) {
        for (queue, attributes) in attributes {
            if let (Some(read), Some(in_flight)) = (attributes.read, attributes.in_flight) {
                let mut estimate = self.estimate(config, queue);
                estimate.set(in_flight, read);
                self.estimates.insert(queue.clone(), estimate);
            }
            // It has answered since.
            if self.unreadable.get(queue).is_some_and(|told| *told != attributes.read) {
                self.unreadable.remove(queue);
            }
        }
    }

    /// Takes note that these queues are being asked. Returns those that this instance has not asked before.
    pub(super) fn ask(&mut self, queues: &BTreeSet<Arn>, age: Duration) -> BTreeSet<Arn> {
        let room = MAX_KEPT.saturating_sub(self.asked.len());
        let first: BTreeSet<_> =
            queues.iter().filter(|queue| !self.asked.contains_key(*queue)).take(room).cloned().collect();
        self.asked.extend(first.iter().map(|queue| (queue.clone(), age)));
        first
    }

    /// Returns what is known of the time for which a queue keeps its letters.
    pub(super) fn retention(&self, queue: &Arn, read: Option<u64>, age: Duration) -> Retention {
        let asked = self.asked.get(queue).copied().unwrap_or(age);
        match read {
            Some(retention) => Retention::Known(retention),
            None if age.saturating_sub(asked) < MAX_UNREAD_TIME => Retention::Unread,
            None => Retention::Assumed,
        }
    }

    /// Returns the warning that a queue's retention is assumed, once.
    pub(super) fn assume(&mut self, queue: &Arn) -> Option<BatchNotice> {
        self.assumed.insert(queue.clone()).then(|| BatchNotice::RetentionAssumed { queue: queue.clone() })
    }

    /// Returns the warning that a queue cannot be read, once until it has answered. `last` is the time of its
    /// last answer.
    pub(super) fn unreadable(
        &mut self,
        queue: Arn,
        last: Option<Duration>,
        failure: Failure,
    ) -> Option<BatchNotice> {
        let told = self.unreadable.insert(queue.clone(), last).is_some();
        (!told).then_some(BatchNotice::QueueUnreadable { queue, failure })
    }

    /// Returns the warning that a subscription's delivery policy cannot be read, once until it was read.
    pub(super) fn policy_unread(
        &mut self,
        subscription: &Arn,
        failure: Option<Failure>,
    ) -> Option<BatchNotice> {
        if self.unread_policies.len() >= MAX_KEPT {
            self.unread_policies.clear();
        }
        let is_new = self.unread_policies.insert(subscription.clone());
        is_new.then(|| BatchNotice::DeliveryPolicyUnread { subscription: subscription.clone(), failure })
    }

    /// Takes note that a subscription's delivery policy was read.
    pub(super) fn policy_read(&mut self, subscription: &Arn) {
        self.unread_policies.remove(subscription);
    }

    /// Returns the queues that feed the function or that SQS moved letters from, as far as letters tell.
    pub(super) fn queues_of(letters: &[Letter]) -> BTreeSet<Arn> {
        let of = |letter: &Letter| [Some(letter.sqs.queue.clone()), letter.sqs.source_queue()];
        letters.iter().flat_map(of).flatten().collect()
    }

    /// Returns the warning that many letters are in flight and none can be moved, once for each reading.
    pub(super) fn warn(
        &mut self,
        config: &BatchConfig,
        queue: &Arn,
        estimate: &InFlightEstimate,
    ) -> Option<BatchNotice> {
        let read = estimate.read_at()?;
        let told = self.warned.insert(queue.clone(), read) == Some(read);
        (!told).then(|| BatchNotice::ManyInFlight {
            queue: queue.clone(),
            in_flight: estimate.in_flight(),
            limit: config.in_flight_limit,
        })
    }
}

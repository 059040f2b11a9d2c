//! The knowledge of one instance of the function, from batch to batch.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::action::{Notice, QueueAttributes};
use super::config::Config;
use super::in_flight::InFlightEstimate;
use super::throttle::Throttle;
use super::unarchived::Memory;
use crate::arn::Arn;

/// The knowledge of one instance.
#[derive(Debug)]
pub(super) struct Knowledge {
    /// The letters in flight in the queues that feed the function: the dead-letter queue and the requeue.
    pub(super) estimates: HashMap<Arn, InFlightEstimate>,
    /// The reading of each queue that last triggered the warning of many letters in flight.
    warned: HashMap<Arn, Timestamp>,
    /// The queues that were checked already.
    pub(super) checked: HashSet<Arn>,
    pub(super) unarchived: Memory,
    pub(super) throttle: Throttle,
}

impl Knowledge {
    /// Creates the knowledge of a new instance.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            estimates: HashMap::new(),
            warned: HashMap::new(),
            checked: HashSet::new(),
            unarchived: Memory::default(),
            throttle: Throttle::new(config.deliverers()),
        }
    }

    /// Returns the letters of a queue in flight, as far as this instance can tell.
    pub(super) fn estimate(&self, config: &Config, queue: &Arn) -> InFlightEstimate {
        let known = self.estimates.get(queue).cloned();
        known.unwrap_or_else(|| InFlightEstimate::new(config.in_flight_limit, config.deliverers()))
    }

    /// Takes over the numbers in flight that queues report.
    pub(super) fn read(&mut self, config: &Config, attributes: &HashMap<Arn, QueueAttributes>) {
        for (queue, attributes) in attributes {
            if let Some(read) = attributes.read {
                let mut estimate = self.estimate(config, queue);
                estimate.set(attributes.in_flight, read);
                self.estimates.insert(queue.clone(), estimate);
            }
        }
    }

    /// Returns the warning that many letters are in flight and none can be moved, once for each reading.
    pub(super) fn warn(
        &mut self,
        config: &Config,
        queue: &Arn,
        estimate: &InFlightEstimate,
    ) -> Option<Notice> {
        let read = estimate.read_at()?;
        let told = self.warned.insert(queue.clone(), read) == Some(read);
        (!told).then(|| Notice::ManyInFlight {
            queue: queue.clone(),
            in_flight: estimate.in_flight(),
            limit: config.in_flight_limit,
        })
    }
}

//! The settings of the batch machine.

use jiff::Timestamp;

use crate::arn::Arn;
use crate::policy::Policy;

/// The settings of a machine.
#[derive(Debug)]
pub struct BatchConfig {
    /// The redrive policy.
    pub policy: Policy,
    /// The mode: whether anything is done at all.
    pub mode: OperatingMode,
    /// The queue for letters that cannot wait in their own. Its marks are believed when they say where a
    /// letter came from.
    pub requeue: Option<Arn>,
    /// The archive, if it is a queue.
    pub archive_queue: Option<Arn>,
    /// The number of messages in flight that SQS allows in a queue.
    pub in_flight_limit: u64,
    /// The longest time that a message is hidden at once, in seconds.
    pub ceiling: u64,
    /// The number of instances of the function that may run at once. They share rate limits.
    pub instances: u32,
    /// The time from which the schedules of letters count that arrived before it.
    pub schedule_from: Option<Timestamp>,
    /// True if there are overrides to read.
    pub overrides: bool,
    /// True if letters that are hidden for long are listed.
    pub waiting_list: bool,
    /// The topic that is told of endpoints that go down or come back, if there is one.
    pub notice_topic: Option<Arn>,
}

/// The mode of the machine: whether anything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatingMode {
    /// Retries, archives and hides letters.
    Active,
    /// Decides and logs, and touches nothing. A letter can expire meanwhile.
    Observe,
}

impl BatchConfig {
    /// Returns the number of instances that may deliver at once. The requeue has a mapping of its own, with
    /// as many instances again.
    pub(super) fn deliverers(&self) -> u32 {
        if self.requeue.is_some() { self.instances.saturating_mul(2) } else { self.instances }
    }

    /// Returns the requeue, if letters of this queue can go there.
    pub(super) fn requeue_of(&self, queue: &Arn) -> Option<&Arn> {
        self.requeue.as_ref().filter(|requeue| requeue.is_fifo() == queue.is_fifo())
    }
}

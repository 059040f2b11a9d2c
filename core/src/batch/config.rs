//! The settings of the batch machine.

use crate::arn::Arn;
use crate::policy::Policy;

/// The settings of a machine.
#[derive(Debug)]
pub struct Config {
    /// The redrive policy.
    pub policy: Policy,
    /// Whether anything is done at all.
    pub mode: Mode,
    /// The queue for letters that cannot wait in their own; its marks are believed on where a letter came from.
    pub requeue: Option<Arn>,
    /// The archive, where it is a queue.
    pub archive_queue: Option<Arn>,
    /// Messages in flight that SQS allows in a queue.
    pub in_flight_limit: u64,
    /// The longest that a message is hidden at once, seconds.
    pub ceiling: u64,
    /// How many instances of the function may run at once; they share rate limits.
    pub instances: u32,
    /// Whether there are orders to read.
    pub orders: bool,
    /// Whether letters that are hidden for long are listed.
    pub waiting_list: bool,
}

/// Whether anything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Retry, archive, hide.
    Active,
    /// Decide and log, touch nothing. A letter can expire meanwhile.
    Observe,
}

impl Config {
    /// How many instances may deliver at once. The requeue has a mapping of its own, with as many instances again.
    pub(super) fn deliverers(&self) -> u32 {
        if self.requeue.is_some() { self.instances.saturating_mul(2) } else { self.instances }
    }

    /// The requeue, if letters of this queue can go there.
    pub(super) fn requeue_of(&self, queue: &Arn) -> Option<&Arn> {
        self.requeue.as_ref().filter(|requeue| requeue.is_fifo() == queue.is_fifo())
    }
}

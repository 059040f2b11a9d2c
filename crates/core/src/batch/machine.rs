//! The machine that decides about batches.

use std::time::Duration;

use super::config::BatchConfig;
use super::memory::InstanceMemory;
use super::state::Batch;
use crate::arn::Arn;
use crate::letter::{Letter, SqsMessage};

/// The machine of one instance of the function, which lives from batch to batch. It handles one batch at a
/// time, as Lambda gives them to an instance.
#[derive(Debug)]
pub struct BatchMachine {
    config: BatchConfig,
    memory: InstanceMemory,
}

impl BatchMachine {
    /// Creates a machine that has learnt nothing yet.
    #[must_use]
    pub fn new(config: BatchConfig) -> Self {
        let memory = InstanceMemory::new(&config);
        Self { config, memory }
    }

    /// Returns the settings.
    #[must_use]
    pub fn config(&self) -> &BatchConfig {
        &self.config
    }

    /// Parses a message of one of the queues that feed the function.
    #[must_use]
    pub fn read(&self, message: SqsMessage) -> Letter {
        self.config.policy.read(message, self.config.requeue.as_ref())
    }

    /// Begins a batch of letters of one queue. `deadline` is the time when Lambda ends the invocation,
    /// counted from now.
    #[must_use]
    pub fn begin(&mut self, letters: Vec<Letter>, deadline: Duration) -> Batch<'_> {
        Batch::new(&self.config, &mut self.memory, letters, deadline)
    }

    /// Returns the number of letters of a queue in flight, as far as this instance can tell. `None` while the queue
    /// has never told it.
    #[must_use]
    pub fn in_flight(&self, queue: &Arn) -> Option<u64> {
        let estimate = self.memory.knowledge.estimate(&self.config, queue);
        estimate.read_at().map(|_| estimate.in_flight())
    }

    /// Reports whether the overrides cannot be read: the last attempt failed, and not only by something that may
    /// pass until the next one.
    #[must_use]
    pub fn overrides_are_unread(&self) -> bool {
        self.memory.overrides.is_unread
    }
}

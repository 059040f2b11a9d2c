//! The machine that batches are decided by.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::config::Config;
use super::knowledge::Knowledge;
use crate::arn::Arn;
use crate::letter::{Letter, SqsMessage};

/// What one instance of the function decides by, from batch to batch.
#[derive(Debug)]
pub struct Machine {
    pub(super) config: Config,
    knowledge: Mutex<Knowledge>,
}

impl Machine {
    /// A machine that has learnt nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let knowledge = Knowledge::new(&config);
        Self { config, knowledge: Mutex::new(knowledge) }
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Understands a message of one of the queues that feed the function.
    #[must_use]
    pub fn read(&self, message: SqsMessage) -> Letter {
        self.config.policy.read(message, self.config.requeue.as_ref())
    }

    /// Letters of a queue in flight, as far as this instance can tell.
    #[must_use]
    pub fn in_flight(&self, queue: &Arn) -> u64 {
        self.knowledge().estimate(&self.config, queue).in_flight()
    }

    /// The knowledge so far. Nothing panics while this is held, but a lock that is poisoned must not end the function.
    pub(super) fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

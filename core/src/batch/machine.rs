//! The machine that decides about batches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::config::Config;
use super::health::{Change, Health};
use super::knowledge::Knowledge;
use super::known_overrides::KnownOverrides;
use crate::arn::Arn;
use crate::endpoint::Endpoint;
use crate::letter::{Letter, SqsMessage};

/// The machine of one instance of the function, which lives from batch to batch.
#[derive(Debug)]
pub struct Machine {
    pub(super) config: Config,
    knowledge: Mutex<Knowledge>,
    health: Arc<Mutex<Health>>,
    overrides: Arc<Mutex<KnownOverrides>>,
}

impl Machine {
    /// Creates a machine that has learnt nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let knowledge = Knowledge::new(&config);
        Self { config, knowledge: Mutex::new(knowledge), health: Arc::default(), overrides: Arc::default() }
    }

    /// Returns the settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Parses a message of one of the queues that feed the function.
    #[must_use]
    pub fn read(&self, message: SqsMessage) -> Letter {
        self.config.policy.read(message, self.config.requeue.as_ref())
    }

    /// Returns the number of letters of a queue in flight, as far as this instance can tell. `None` while the queue
    /// has never told it.
    #[must_use]
    pub fn in_flight(&self, queue: &Arn) -> Option<u64> {
        let estimate = self.knowledge().estimate(&self.config, queue);
        estimate.read_at().map(|_| estimate.in_flight())
    }

    /// Returns the health of endpoints, for the code that sends to them.
    #[must_use]
    pub fn health(&self) -> Arc<Mutex<Health>> {
        Arc::clone(&self.health)
    }

    /// Returns the overrides, for the code that sends letters: they may change while a round goes on.
    #[must_use]
    pub fn overrides(&self) -> Arc<Mutex<KnownOverrides>> {
        Arc::clone(&self.overrides)
    }

    /// Locks the overrides. Nothing panics while they are locked.
    pub(super) fn known_overrides(&self) -> MutexGuard<'_, KnownOverrides> {
        self.overrides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the changes in the health of endpoints.
    pub(super) fn changes(&self) -> Vec<(Endpoint, Change)> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).changes()
    }

    /// Locks the knowledge. Nothing panics while it is locked, but a poisoned lock must not end the function.
    pub(super) fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

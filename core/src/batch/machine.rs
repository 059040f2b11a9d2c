//! The machine that batches are decided by.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::config::Config;
use super::health::{Change, Health};
use super::knowledge::Knowledge;
use super::known_orders::KnownOrders;
use crate::arn::Arn;
use crate::endpoint::Endpoint;
use crate::letter::{Letter, SqsMessage};

/// What one instance of the function decides by, from batch to batch.
#[derive(Debug)]
pub struct Machine {
    pub(super) config: Config,
    knowledge: Mutex<Knowledge>,
    health: Arc<Mutex<Health>>,
    orders: Arc<Mutex<KnownOrders>>,
}

impl Machine {
    /// A machine that has learnt nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let knowledge = Knowledge::new(&config);
        Self { config, knowledge: Mutex::new(knowledge), health: Arc::default(), orders: Arc::default() }
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

    /// The health of endpoints, for whoever sends to them.
    #[must_use]
    pub fn health(&self) -> Arc<Mutex<Health>> {
        Arc::clone(&self.health)
    }

    /// The orders, for whoever sends letters: they may change while a round goes on.
    #[must_use]
    pub fn orders(&self) -> Arc<Mutex<KnownOrders>> {
        Arc::clone(&self.orders)
    }

    /// The same, held. Nothing panics meanwhile.
    pub(super) fn known_orders(&self) -> MutexGuard<'_, KnownOrders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what has changed in the health of endpoints.
    pub(super) fn changes(&self) -> Vec<(Endpoint, Change)> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).changes()
    }

    /// The knowledge so far. Nothing panics while this is held, but a lock that is poisoned must not end the function.
    pub(super) fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

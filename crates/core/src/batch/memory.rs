//! The memory of an instance of the function, from batch to batch.

use super::config::BatchConfig;
use super::health::Health;
use super::knowledge::InstanceKnowledge;
use super::known_overrides::KnownOverrides;
use super::known_targets::KnownTargets;
use super::recovery::RecoveryMemory;

/// Everything that one instance of the function remembers from batch to batch.
#[derive(Debug)]
pub struct InstanceMemory {
    pub(super) knowledge: InstanceKnowledge,
    pub(super) health: Health,
    pub(super) overrides: KnownOverrides,
    pub(super) targets: KnownTargets,
    pub(super) recovery: RecoveryMemory,
}

impl InstanceMemory {
    /// Creates the memory of a new instance.
    #[must_use]
    pub fn new(config: &BatchConfig) -> Self {
        Self {
            knowledge: InstanceKnowledge::new(config),
            health: Health::default(),
            overrides: KnownOverrides::default(),
            targets: KnownTargets::default(),
            recovery: RecoveryMemory::default(),
        }
    }
}

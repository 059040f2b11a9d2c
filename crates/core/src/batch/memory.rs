//! The memory of an instance of the function, from batch to batch.

use super::config::Config;
use super::health::Health;
use super::knowledge::Knowledge;
use super::known_overrides::KnownOverrides;

/// Everything that one instance of the function remembers from batch to batch.
#[derive(Debug)]
pub struct Memory {
    pub(super) knowledge: Knowledge,
    pub(super) health: Health,
    pub(super) overrides: KnownOverrides,
}

impl Memory {
    /// Creates the memory of a new instance.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            knowledge: Knowledge::new(config),
            health: Health::default(),
            overrides: KnownOverrides::default(),
        }
    }
}

//! What is told of an endpoint's health.

use std::time::Duration;

use crate::failure::Failure;

/// A change of an endpoint's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthChange {
    /// It is left alone.
    Down {
        /// The failure that led to it.
        failure: Failure,
        /// The pause, at first.
        pause: Duration,
    },
    /// It has accepted a message again, and gets some at a time.
    Trying,
    /// It gets as many messages as any other again.
    Up,
}

//! Calls that are cut off at a deadline.

use redrive_core::failure::{DEADLINE_EXCEEDED, Failure, FailureClass};
use tokio::time::{Instant, timeout_at};

/// Runs some work, and cuts it off at a deadline.
///
/// # Errors
///
/// That of the work, or [`too_late`].
pub async fn in_time<T>(
    until: Instant,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout_at(until, work).await.unwrap_or_else(|_| Err(too_late()))
}

/// Returns the failure of work that was not done in time.
#[must_use]
pub fn too_late() -> Failure {
    Failure::ours(FailureClass::Transient, DEADLINE_EXCEEDED)
}

//! Calls that are cut off at a deadline.

use tokio::time::{Instant, timeout_at};

use crate::failure::{DEADLINE_EXCEEDED, Failure, FailureClass};

/// Runs some work, and cuts it off at a deadline.
pub(crate) async fn in_time<T>(
    until: Instant,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout_at(until, work).await.unwrap_or_else(|_| Err(too_late()))
}

/// Returns the failure of work that was not done in time.
pub(crate) fn too_late() -> Failure {
    Failure::ours(FailureClass::Transient, DEADLINE_EXCEEDED)
}

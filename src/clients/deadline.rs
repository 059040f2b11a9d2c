//! Calls that are given up at a deadline.

use tokio::time::{Instant, timeout_at};

use crate::failure::{Failure, FailureClass};

/// Does some work, and gives it up at a deadline.
pub(crate) async fn in_time<T>(
    until: Instant,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout_at(until, work).await.unwrap_or_else(|_| Err(too_late()))
}

/// The failure of what was not done in time.
pub(crate) fn too_late() -> Failure {
    Failure::ours(FailureClass::Transient, "DeadlineExceeded")
}

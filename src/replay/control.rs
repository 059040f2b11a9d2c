//! Whoever watches a replay, and the waits in which it is asked whether to stop.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::ReplayError;
use super::letter::At;
use super::lock::Lock;
use super::manifest::Manifest;

/// A nap, between which it is asked whether to stop.
pub(super) const NAP: Duration = Duration::from_millis(200);

/// Whoever watches a replay.
pub trait Control: Sync {
    /// Whether to stop after the batch under way.
    fn stop(&self) -> bool;
    /// It has begun or goes on, a batch was sent, or a step begun, judged or ended.
    fn progress(&self, manifest: &Manifest);
    /// A letter is left out; `at` is its place, in words why.
    fn left_out(&self, at: &At, why: &str);
}

/// Waits for a part of the archive that may be long and hold nothing of the selection; meanwhile the lock is
/// renewed. None where it must stop before.
pub(super) async fn watching<T>(
    mut work: Pin<Box<impl Future<Output = T>>>,
    mut lock: Option<&mut Lock<'_>>,
    control: &dyn Control,
) -> Result<Option<T>, ReplayError> {
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Ok(Some(done)),
            () = sleep(NAP) => {
                if control.stop() {
                    return Ok(None);
                }
                if let Some(lock) = &mut lock {
                    lock.keep().await?;
                }
            }
        }
    }
}

/// So many letters a second.
pub(super) struct Pace {
    rate: u64,
    next: Instant,
}

impl Pace {
    pub(super) fn new(rate: u32) -> Self {
        Self { rate: u64::from(rate.max(1)), next: Instant::now() }
    }

    /// Waits until so many letters may go. Time in which nothing was sent is not made up for.
    pub(super) async fn turn(&mut self, letters: u64, control: &dyn Control) {
        while Instant::now() < self.next && !control.stop() {
            sleep(NAP.min(self.next.saturating_duration_since(Instant::now()))).await;
        }
        self.next = Instant::now() + Duration::from_millis(letters * 1000 / self.rate);
    }
}

//! Two ways to drive a mapping: on tokio's clock with an async handler, and step by step on a thread.

use std::pin::pin;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;

use super::{MappingBatch, MappingOutcome, SimMapping};
use crate::clock::duration;

impl SimMapping {
    /// Runs the function for every batch, for ever. Dropping the future ends all its runs. The handler's
    /// future is dropped at the batch's deadline.
    pub async fn run<F: Future<Output = MappingOutcome>>(&self, handler: impl Fn(MappingBatch) -> F) {
        let handler = &handler;
        let mut running = FuturesUnordered::new();
        loop {
            // Changes from here on are noticed, so that none is missed between the look and the wait.
            let changes = self.aws.changes();
            while let Some(batch) = self.take() {
                running.push(async move {
                    let wait = duration(batch.deadline - self.aws.clock().millis());
                    let outcome = tokio::time::timeout(wait, handler(batch.clone())).await;
                    self.settle(&batch, &outcome.unwrap_or(MappingOutcome::TimedOut));
                });
            }
            let changed = pin!(self.aws.changed(changes, self.wake()));
            if running.is_empty() {
                changed.await;
            } else if let Either::Left(_) = select(running.next(), changed).await {
                // A run has ended, and its place is free.
            }
        }
    }

    /// Runs the function for the next batch, on this thread. Returns `false` if there is none now.
    pub fn step(&self, handler: impl FnOnce(&MappingBatch) -> MappingOutcome) -> bool {
        let Some(batch) = self.take() else { return false };
        let outcome = handler(&batch);
        self.settle(&batch, &outcome);
        true
    }
}

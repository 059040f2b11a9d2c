//! The configuration of a world.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::loss::letters::named;

/// The configuration of a world.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    /// The function.
    pub binary: PathBuf,
    /// `true` if its queues are FIFO.
    pub fifo: bool,
    /// The policy's `healthyRetryPolicy`.
    pub schedule: Value,
    /// The number of retries of that schedule.
    pub retries: usize,
    /// `true` if the archive is a queue, not a bucket.
    pub archive_queue: bool,
    /// `true` if the only subscription is that of raw letters, so that it can be discovered.
    pub discovery: bool,
    /// The most messages in flight of a queue.
    pub in_flight: usize,
    /// The function's timeout.
    pub timeout: Duration,
    /// The queues' visibility timeout.
    pub visibility: Duration,
    /// The batch sizes of the pollers of the dead-letter queue.
    pub pollers: Vec<usize>,
    /// The batch sizes of the pollers of the requeue.
    pub requeue_pollers: Vec<usize>,
    /// `true` if a topic gets notices of archived letters.
    pub notices: bool,
    /// `true` if a kill ends a process as its own panic would.
    pub panics: bool,
    /// `true` if an override holds the letters of one target.
    pub holds: bool,
    /// `true` if the world lets time pass: the wall clock of its processes can go ahead of the machine's.
    pub passes: bool,
    /// The time by which the wall clock alone goes on at each freeze of a process, in turn. Without any, freezes are
    /// short.
    pub sleeps: Vec<Duration>,
    /// The longest time that an invocation may take.
    pub longest: Option<Duration>,
    /// A file for the function's log.
    pub log: Option<PathBuf>,
}

impl WorldConfig {
    /// Returns the milliseconds until the last retry can be due. The first retry is immediate; each other one
    /// waits for the least delay or longer.
    pub(super) fn last_due(&self) -> redrive_sim::SimMillis {
        let least = self.schedule["minDelayTarget"].as_i64().expect("a schedule has a least delay");
        let waits = self.retries.saturating_sub(1);
        least * 1_000 * redrive_sim::SimMillis::try_from(waits).expect("a few retries")
    }

    /// Returns the name of a queue or a topic.
    pub(super) fn named(&self, name: &str) -> String {
        named(name, self.fifo)
    }
}

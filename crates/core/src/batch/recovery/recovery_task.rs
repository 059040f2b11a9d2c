//! The state of the work on recoveries at the end of a batch.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::endpoint_change::EndpointChange;
use super::endpoint_tally::EndpointTally;
use crate::batch::action::{BatchNotice, InvocationNow};
use crate::endpoint::TargetName;
use crate::waiting::Recoveries;

/// The work on recoveries at the end of a batch.
#[derive(Debug)]
pub(in crate::batch) struct RecoveryTask {
    pub(super) stage: RecoveryStage,
    pub(super) until: Duration,
    /// The time of the last call, counted as `until` is.
    pub(super) asked: Duration,
    /// The longest time that a call has taken.
    pub(super) slowest: Duration,
    pub(super) tallies: BTreeMap<TargetName, EndpointTally>,
    /// The endpoints whose letters are still to be woken, and how many.
    pub(super) wakes: VecDeque<(TargetName, u64)>,
    /// True if it is decided how many.
    pub(super) is_planned: bool,
    /// True if the document was read again because another instance had written it.
    pub(super) is_again: bool,
}

impl RecoveryTask {
    /// Reports whether so many calls can end in time, as slow as the slowest so far. One that was cut off would count as a failure,
    /// and of a claim nobody would know whether it was written.
    pub(super) fn has_time_for(&self, calls: u32, now: InvocationNow) -> bool {
        now.elapsed + self.slowest.saturating_mul(calls) < self.until
    }
}

#[derive(Debug)]
pub(super) enum RecoveryStage {
    Read,
    AwaitRead,
    Write,
    /// The document that is being written, and what it tells.
    AwaitWritten(Recoveries, Vec<BatchNotice>, Vec<EndpointChange>),
    Plan,
    Wake,
    AwaitKeys(TargetName),
    /// The document with the new place, and the keys that are claimed.
    Claim(TargetName, Recoveries, Vec<String>),
    AwaitClaimed(TargetName, Recoveries, Vec<String>),
    /// The number of keys whose lines are being read.
    AwaitLines(TargetName, usize),
    AwaitWoken(TargetName, usize),
    Count,
    AwaitCounted,
    Done,
}

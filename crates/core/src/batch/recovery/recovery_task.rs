//! The state of the work on recoveries at the end of a batch.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::endpoint_change::EndpointChange;
use super::endpoint_tally::EndpointTally;
use crate::batch::action::BatchNotice;
use crate::endpoint::TargetName;
use crate::waiting::Recoveries;

/// The work on recoveries at the end of a batch.
#[derive(Debug)]
pub(in crate::batch) struct RecoveryTask {
    pub(super) stage: RecoveryStage,
    pub(super) until: Duration,
    pub(super) tallies: BTreeMap<TargetName, EndpointTally>,
    /// The endpoints whose letters are still to be woken, and how many.
    pub(super) wakes: VecDeque<(TargetName, u64)>,
    /// True if it is decided how many.
    pub(super) is_planned: bool,
    /// True if the document was read again because another instance had written it.
    pub(super) is_again: bool,
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
    AwaitLines(TargetName),
    AwaitWoken(TargetName, usize),
    Count,
    AwaitCounted,
    Done,
}

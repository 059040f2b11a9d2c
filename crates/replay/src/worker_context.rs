//! The equipment shared by the workers of a replay.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use redrive_archive::Selection;
use redrive_core::policy::Policy;
use tokio::sync::Mutex;

use super::control::{ReplayControl, SendPace};
use super::input_records::PlacedRecords;
use super::replay_state::ReplayState;
use super::replayer::{ArchiveReplayer, ReplayInputs};
use super::request::ReplayRequest;
use super::unit::Unit;

/// The equipment shared by the workers of a replay.
pub(super) struct WorkerContext<'r> {
    pub(super) replay: &'r ArchiveReplayer,
    pub(super) id: &'r str,
    pub(super) request: &'r ReplayRequest,
    pub(super) selection: &'r Selection,
    pub(super) policy: Option<&'r Policy>,
    /// `true` in a dry run that counts by the index where it can.
    at_most: bool,
    /// The given records of each unit. `None` if the archive is read.
    pub(super) given: Option<&'r HashMap<String, PlacedRecords>>,
    pub(super) pace: &'r SendPace,
    /// The number of letters that may still be sent before the next judgement.
    pub(super) budget: &'r AtomicU64,
    pub(super) control: &'r dyn ReplayControl,
    /// A text that tells this worker from others.
    pub(super) token: &'r str,
    /// Other replays by id, and whether their letters in doubt were freed.
    pub(super) freed: Mutex<HashMap<String, bool>>,
}

/// The limits of the workers.
#[derive(Clone, Copy)]
pub(super) struct WorkerLimits<'r> {
    pub(super) pace: &'r SendPace,
    pub(super) budget: &'r AtomicU64,
}

impl<'r> WorkerContext<'r> {
    /// Creates the bench of a replay in this state.
    pub(super) fn new(
        replay: &'r ArchiveReplayer,
        state: &'r ReplayState,
        selection: &'r Selection,
        job: ReplayInputs<'r>,
        given: Option<&'r HashMap<String, PlacedRecords>>,
        limits: WorkerLimits<'r>,
        token: &'r str,
    ) -> Self {
        Self {
            replay,
            id: &state.id,
            request: &state.request,
            selection,
            policy: job.policy,
            at_most: state.at_most,
            given,
            pace: limits.pace,
            budget: limits.budget,
            control: job.control,
            token,
            freed: Mutex::default(),
        }
    }

    /// Reports whether a dry run takes the number of a unit's letters from the index, unless a replay has touched the
    /// unit. Letters of a queue of the other kind than the requeue cannot go at all, so these are read.
    pub(super) fn counts_by_index(&self, unit: &Unit) -> bool {
        let is_same_kind = unit.queue.strip_suffix(".fifo").is_some() == self.replay.requeue.arn.is_fifo();
        self.at_most && unit.exact && self.given.is_none() && is_same_kind
    }
}

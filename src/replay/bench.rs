//! The equipment shared by the workers of a replay.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use tokio::sync::Mutex;

use super::control::{Control, Pace};
use super::given::Records;
use super::parts::{Job, Replay};
use super::request::Request;
use super::state::State;
use crate::archive::Selection;
use crate::policy::Policy;

/// The equipment shared by the workers of a replay.
pub(super) struct Bench<'r> {
    pub(super) replay: &'r Replay,
    pub(super) id: &'r str,
    pub(super) request: &'r Request,
    pub(super) selection: &'r Selection,
    pub(super) policy: Option<&'r Policy>,
    /// The given records of each unit. `None` if the archive is read.
    pub(super) given: Option<&'r HashMap<String, Records>>,
    pub(super) pace: &'r Pace,
    /// The number of letters that may still be sent before the next judgement.
    pub(super) budget: &'r AtomicU64,
    pub(super) control: &'r dyn Control,
    /// A text that tells this worker from others.
    pub(super) token: &'r str,
    /// Other replays by id, and whether their letters in doubt were freed.
    pub(super) freed: Mutex<HashMap<String, bool>>,
}

/// The limits of the workers.
#[derive(Clone, Copy)]
pub(super) struct Limits<'r> {
    pub(super) pace: &'r Pace,
    pub(super) budget: &'r AtomicU64,
}

impl<'r> Bench<'r> {
    /// Creates the bench of a replay in this state.
    pub(super) fn new(
        replay: &'r Replay,
        state: &'r State,
        selection: &'r Selection,
        job: Job<'r>,
        given: Option<&'r HashMap<String, Records>>,
        limits: Limits<'r>,
        token: &'r str,
    ) -> Self {
        Self {
            replay,
            id: &state.id,
            request: &state.request,
            selection,
            policy: job.policy,
            given,
            pace: limits.pace,
            budget: limits.budget,
            control: job.control,
            token,
            freed: Mutex::default(),
        }
    }
}

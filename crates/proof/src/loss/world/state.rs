//! The state of a world.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use redrive_laws::letters::LetterReader;
use redrive_sim::{SimAws, SocketServer};

use super::account::FaultyNetwork;
use super::config::WorldConfig;
use super::letters::Letters;
use crate::sandbox::ClockOffset;

/// A function with its account and the record of its letters.
#[derive(Debug)]
pub struct ProofWorld {
    /// Its configuration.
    pub config: WorldConfig,
    pub(in crate::loss) aws: SimAws,
    /// The subscribers' web server.
    pub(in crate::loss) web: SocketServer,
    pub(super) network: Arc<FaultyNetwork>,
    pub(super) processes: AtomicUsize,
    pub(super) state: Mutex<ProofWorldState>,
    pub(super) over: AtomicBool,
    /// The wall clock of its processes, which is ahead of the machine's like the account's.
    pub(super) ahead: ClockOffset,
    pub(super) freezes: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct ProofWorldState {
    pub(super) reader: LetterReader<Letters>,
    pub(super) calls: BTreeMap<String, usize>,
    pub(super) rng: Rng,
}

//! The state of a world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, RwLock};

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
    /// Pollers read it while they have a batch. Time that passes must not pass in the middle of an invocation.
    pub(super) batches: RwLock<()>,
    /// The number of times that a poller found nothing to receive.
    pub(super) empty: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct ProofWorldState {
    pub(super) reader: LetterReader<Letters>,
    pub(super) calls: BTreeMap<String, usize>,
    /// The messages that the function has made visible.
    pub(super) woken: BTreeSet<Arc<str>>,
    pub(super) rng: Rng,
    /// What a slow machine can cause, and a broken promise too.
    pub(super) slow: Vec<String>,
}

//! The state of a world.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use redrive_laws::letters::Reader;
use redrive_sim::{Aws, Server};

use super::account::Network;
use super::config::Config;
use super::reading::Letters;
use crate::sandbox::Ahead;

/// A function with its account and the record of its letters.
#[derive(Debug)]
pub struct World {
    /// Its configuration.
    pub config: Config,
    pub(in crate::loss) aws: Aws,
    /// The subscribers' web server.
    pub(in crate::loss) web: Server,
    pub(super) network: Arc<Network>,
    pub(super) processes: AtomicUsize,
    pub(super) state: Mutex<State>,
    pub(super) over: AtomicBool,
    /// The wall clock of its processes, which is ahead of the machine's like the account's.
    pub(super) ahead: Ahead,
    pub(super) freezes: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) reader: Reader<Letters>,
    pub(super) calls: BTreeMap<String, usize>,
    pub(super) rng: Rng,
}

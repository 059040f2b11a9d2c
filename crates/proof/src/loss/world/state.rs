//! The state of a world.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use redrive_sim::{Aws, Server};

use super::account::Network;
use super::config::Config;
use crate::loss::ledger::{Ledger, Message, Run, Who};
use crate::loss::letters::Letter;
use crate::sandbox::Ahead;

/// A function with its account and its ledger.
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
    pub(super) letters: Vec<Letter>,
    pub(super) ledger: Ledger,
    /// The numbers of the messages by SQS's ids.
    pub(super) numbers: HashMap<Arc<str>, Message>,
    /// The letter of each message.
    pub(super) whose: Vec<Who>,
    /// The batches of the invocations.
    pub(super) batches: Vec<Invoked>,
    /// The invocations of each process.
    pub(super) runs: HashMap<Arc<str>, Vec<Run>>,
    /// The subscriptions that SNS called impossible, by process. A process believes this for five minutes.
    pub(super) unknown: HashMap<Arc<str>, BTreeSet<String>>,
    /// The processes that could not ask the queue from which SQS moves letters. Each remembers this for a
    /// while.
    pub(super) uncounted: BTreeSet<Arc<str>>,
    pub(super) settled: Settled,
    pub(super) calls: BTreeMap<String, usize>,
    pub(super) rng: Rng,
}

/// The batch of an invocation.
#[derive(Debug)]
pub(super) struct Invoked {
    pub(super) caller: Arc<str>,
    pub(super) handed: Vec<Handed>,
}

/// A message of an invocation.
#[derive(Debug, Clone)]
pub(super) struct Handed {
    pub(super) who: Who,
    pub(super) message: Message,
    pub(super) handle: Arc<str>,
    /// The number of times it has left in this invocation.
    pub(super) left: usize,
}

/// The mapping's handling of its last batch.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) kept: BTreeSet<Arc<str>>,
    pub(super) failed: Option<String>,
    pub(super) deleted: BTreeSet<Arc<str>>,
}

impl State {
    /// Gives a message of a letter its number.
    pub(super) fn number(&mut self, id: &Arc<str>, who: Who) -> Message {
        let number = self.whose.len();
        self.whose.push(who);
        self.numbers.insert(Arc::clone(id), number);
        number
    }
}

//! The state of a world that lives, and the events to come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use redrive_core::batch::{Age, Config, Memory};

use super::function::{Coming, Death, Kept, Run};
use super::journal::{Journal, Message, What};
use super::operator::List;
use super::queue::{Queue, Receipt};
use super::world::World;
use super::{Chance, Millis};

#[derive(Debug)]
pub(super) enum Event {
    Arrive(usize),
    Show {
        requeue: bool,
    },
    Poll {
        requeue: bool,
    },
    Begin(Received),
    Answer(Coming),
    /// The turn of a letter comes, or the overrides are read again.
    Turn(u64),
    WakeAll,
    /// A hidden letter becomes visible before its time.
    ComeBack {
        requeue: bool,
        receipt: Receipt,
    },
}

/// A batch that waits for its invocation.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) requeue: bool,
    pub(super) instance: usize,
    pub(super) began: Millis,
    pub(super) death: Option<Death>,
    pub(super) receipts: Vec<Receipt>,
}

pub struct Simulation<'w> {
    pub(super) world: &'w World,
    pub(super) config: &'w Config,
    /// The memory of each process, unless it works just now: as many as may run at once, and some that replace
    /// those that die.
    pub(super) memories: Vec<Option<&'w mut Memory>>,
    pub(super) kept: Vec<Kept>,
    /// The age of each process, and the time for which it has worked.
    pub(super) ages: Vec<(Age, Millis)>,
    /// The next process that replaces one that died.
    pub(super) spare: usize,
    pub(super) runs: BTreeMap<u64, Run<'w>>,
    pub(super) now: Millis,
    pub(super) chance: Chance,
    pub(super) agenda: BinaryHeap<Reverse<(Millis, u64)>>,
    pub(super) events: BTreeMap<u64, Event>,
    pub(super) order: u64,
    pub(super) dlq: Queue,
    pub(super) requeue: Option<Queue>,
    pub(super) polling: [bool; 2],
    pub(super) running: [u32; 2],
    pub(super) free: Vec<usize>,
    pub(super) busy: usize,
    pub(super) list: List,
    pub(super) journal: Journal,
    pub(super) peak_busy: usize,
    pub(super) peak_waiting: usize,
    pub(super) ids: Vec<String>,
    /// True if a moved letter is made from the old letter instead of being read from the message again.
    pub(super) shortcut: bool,
}

impl Simulation<'_> {
    pub(super) fn schedule(&mut self, when: Millis, event: Event) {
        self.order += 1;
        self.agenda.push(Reverse((when, self.order)));
        self.events.insert(self.order, event);
    }

    pub(super) fn queue(&mut self, requeue: bool) -> &mut Queue {
        match &mut self.requeue {
            Some(queue) if requeue => queue,
            _ => &mut self.dlq,
        }
    }

    /// Notes a message that a queue accepted, and schedules the time when it becomes visible.
    pub(super) fn sent(&mut self, who: usize, message: Message, due: Option<Millis>, shows: Millis) {
        self.schedule(shows, Event::Show { requeue: message.requeue });
        self.journal.note(who, message, self.now, What::Sent { due });
        let waiting = self.dlq.messages.len() + self.requeue.as_ref().map_or(0, |it| it.messages.len());
        self.peak_waiting = self.peak_waiting.max(waiting);
    }
}

/// Returns the message that was received.
pub(super) fn message(requeue: bool, receipt: &Receipt) -> Message {
    Message { requeue, number: receipt.handle.number }
}

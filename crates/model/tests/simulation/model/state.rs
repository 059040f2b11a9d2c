//! The state of a world that lives, and the events to come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use redrive_core::batch::{BatchConfig, InstanceAge, InstanceMemory};

use super::control::ModelControl;
use super::function::{ComingAnswer, InvocationDeath, KeptQueues, ModelInvocation};
use super::journal::{FactKind, ModelMessage, StoryJournal};
use super::queue::{ModelQueue, ModelReceipt};
use super::world::ModelWorld;
use super::{ModelMillis, SeededRandom};

#[derive(Debug)]
pub(super) enum ModelEvent {
    Arrive(usize),
    Show {
        requeue: bool,
    },
    Poll {
        requeue: bool,
    },
    Begin(ReceivedBatch),
    Answer(ComingAnswer),
    /// The turn of a letter comes, or the overrides are read again.
    Turn(u64),
    WakeAll,
    /// A hidden letter becomes visible before its time.
    ComeBack {
        requeue: bool,
        receipt: ModelReceipt,
    },
}

/// A batch that waits for its invocation.
#[derive(Debug)]
pub(super) struct ReceivedBatch {
    pub(super) requeue: bool,
    pub(super) instance: usize,
    pub(super) began: ModelMillis,
    pub(super) death: Option<InvocationDeath>,
    pub(super) receipts: Vec<ModelReceipt>,
}

pub struct Simulation<'w> {
    pub(super) world: &'w ModelWorld,
    pub(super) config: &'w BatchConfig,
    /// The memory of each process, unless it works just now: as many as may run at once, and some that replace
    /// those that die.
    pub(super) memories: Vec<Option<&'w mut InstanceMemory>>,
    pub(super) kept: Vec<KeptQueues>,
    /// The age of each process, and the time for which it has worked.
    pub(super) ages: Vec<(InstanceAge, ModelMillis)>,
    /// The next process that replaces one that died.
    pub(super) spare: usize,
    pub(super) runs: BTreeMap<u64, ModelInvocation<'w>>,
    pub(super) now: ModelMillis,
    pub(super) chance: SeededRandom,
    pub(super) agenda: BinaryHeap<Reverse<(ModelMillis, u64)>>,
    pub(super) events: BTreeMap<u64, ModelEvent>,
    pub(super) order: u64,
    pub(super) dlq: ModelQueue,
    pub(super) requeue: Option<ModelQueue>,
    pub(super) polling: [bool; 2],
    pub(super) running: [u32; 2],
    pub(super) free: Vec<usize>,
    pub(super) busy: usize,
    pub(super) control: ModelControl,
    /// The last second in which the first subscriber took letters, and their number.
    pub(super) taken: (ModelMillis, u32),
    pub(super) journal: StoryJournal,
    pub(super) peak_busy: usize,
    pub(super) peak_waiting: usize,
    pub(super) ids: Vec<String>,
    /// True if a moved letter is made from the old letter instead of being read from the message again.
    pub(super) shortcut: bool,
}

impl Simulation<'_> {
    pub(super) fn schedule(&mut self, when: ModelMillis, event: ModelEvent) {
        self.order += 1;
        self.agenda.push(Reverse((when, self.order)));
        self.events.insert(self.order, event);
    }

    pub(super) fn queue(&mut self, requeue: bool) -> &mut ModelQueue {
        match &mut self.requeue {
            Some(queue) if requeue => queue,
            _ => &mut self.dlq,
        }
    }

    /// Notes a message that a queue accepted, and schedules the time when it becomes visible.
    pub(super) fn sent(
        &mut self,
        who: usize,
        message: ModelMessage,
        due: Option<ModelMillis>,
        shows: ModelMillis,
    ) {
        self.schedule(shows, ModelEvent::Show { requeue: message.requeue });
        self.journal.note(who, message, self.now, FactKind::Sent { due });
        let waiting = self.dlq.messages.len() + self.requeue.as_ref().map_or(0, |it| it.messages.len());
        self.peak_waiting = self.peak_waiting.max(waiting);
    }
}

/// Returns the message that was received.
pub(super) fn message(requeue: bool, receipt: &ModelReceipt) -> ModelMessage {
    ModelMessage { requeue, number: receipt.handle.number }
}

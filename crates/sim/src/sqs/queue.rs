//! One queue: the lives of its messages, as requests and the journal see them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use redrive_sim_queue::{
    Deduplication, QueueSettings, SimMessage, SimMessageCounts, SimMessages, SimReceipt,
};

use super::stored_message::{ReceivedSqsMessage, SimMessageContent};
use crate::call_context::SimContext;
use crate::clock::SimMillis;
use crate::journal::{SimEvent, SimPayload};
use crate::names::arn;

/// A queue.
#[derive(Debug)]
pub struct SimQueue {
    /// The name.
    pub name: Arc<str>,
    /// The messages, with the settings.
    pub messages: SimMessages<SimMessageContent, String>,
    deduplication: Deduplication<(Arc<str>, Option<String>)>,
    /// The handles of placed messages, with their receipts.
    pub(super) aliases: HashMap<String, SimReceipt>,
}

impl SimQueue {
    /// Returns an empty queue.
    pub(super) fn new(name: &str, settings: QueueSettings) -> Self {
        Self {
            name: name.into(),
            messages: SimMessages::new(name.strip_suffix(".fifo").is_some(), settings),
            deduplication: Deduplication::default(),
            aliases: HashMap::new(),
        }
    }

    /// Returns the queue's ARN.
    #[must_use]
    pub fn arn(&self) -> String {
        arn("sqs", &self.name)
    }

    /// Returns the number of messages that are in the queue, in whatever state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Reports whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the ids and contents of the messages in the queue, in whatever state.
    pub fn contents(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<SimPayload>)> {
        self.messages.iter().map(|(_, message)| (&message.content.id, &message.content.payload))
    }

    /// Returns the time when a message next becomes visible, or `None` if none is hidden or delayed.
    #[must_use]
    pub fn next_visible(&self) -> Option<SimMillis> {
        self.messages.next_visible()
    }

    /// Returns the numbers of messages that an observer reads. They are as old as the settings say.
    #[must_use]
    pub fn reading(&self, now: SimMillis) -> SimMessageCounts {
        self.messages.counts(now - self.messages.settings.lag)
    }

    /// Accepts a message. A FIFO queue answers a repetition with the first message's id and drops it.
    pub(super) fn put(
        &mut self,
        cx: &mut SimContext<'_>,
        payload: SimPayload,
        delay: i64,
    ) -> (Arc<str>, Option<String>) {
        let key = payload.deduplication.clone().filter(|_| self.messages.is_fifo);
        let key = key.map(|id| match &payload.group {
            Some(group) if self.messages.settings.deduplicates_by_group => format!("{group} {id}"),
            _ => id,
        });
        if let Some(first) = key.as_ref().and_then(|key| self.deduplication.first(cx.now, key)) {
            let first = first.clone();
            let (name, id) = (Arc::clone(&self.name), Arc::clone(&first.0));
            cx.log(SimEvent::Swallowed { name, id, body: payload.body });
            return first;
        }
        let id = cx.id();
        let payload = Arc::new(payload);
        let content = SimMessageContent {
            id: Arc::clone(&id),
            payload: Arc::clone(&payload),
            sender: Arc::clone(&cx.by),
            source: None,
        };
        let group = payload.group.clone().unwrap_or_default();
        let shows = cx.now + delay * 1000;
        let number = self.messages.put(cx.now, SimMessage::new(content, group, cx.now), shows);
        let sequence = self.sequence(number);
        if let Some(key) = key {
            self.deduplication.remember(cx.now, key, (Arc::clone(&id), sequence.clone()));
        }
        cx.log(SimEvent::Sent { queue: Arc::clone(&self.name), id: Arc::clone(&id), payload, delay });
        self.messages.settle(cx.now);
        (id, sequence)
    }

    /// Accepts a message that SQS moves here. A FIFO queue uses its id as the deduplication id.
    pub(super) fn take_moved(
        &mut self,
        now: SimMillis,
        from: &str,
        mut message: SimMessage<SimMessageContent, String>,
    ) {
        let content = &mut message.content;
        content.source = Some(from.into());
        if self.messages.is_fifo {
            let deduplication = Some(content.id.to_string());
            content.payload = Arc::new(SimPayload { deduplication, ..(*content.payload).clone() });
        }
        self.messages.take_moved(now, message);
        self.messages.settle(now);
    }

    /// Returns the sequence number of a FIFO queue's message.
    fn sequence(&self, number: u64) -> Option<String> {
        let sequence = 18_880_000_000_000_000_000_u128 + u128::from(number) * 256;
        self.messages.is_fifo.then(|| sequence.to_string())
    }

    /// Returns the first messages that a receiver could get now, if the limit in flight allows. `busy` are
    /// FIFO groups that the receiver leaves out.
    pub(super) fn ready(&mut self, now: SimMillis, at_most: usize, busy: &BTreeSet<String>) -> Vec<u64> {
        self.messages.settle(now);
        self.messages.ready(at_most, busy)
    }

    /// Hands out a message and hides it.
    pub(super) fn hand_out(
        &mut self,
        cx: &mut SimContext<'_>,
        number: u64,
        seconds: i64,
    ) -> Option<ReceivedSqsMessage> {
        let again = !self.messages.is_fifo && cx.chance(self.messages.settings.duplicates);
        let sequence = self.sequence(number);
        // A server of the queue that does not know of the receive hands the message out to the next receiver.
        let until = if again { cx.now } else { cx.now + seconds * 1000 };
        let (receipt, message) = self.messages.receive(cx.now, number, until)?;
        let handle: Arc<str> = format!("{}#{number}#{}", self.name, receipt.receive).into();
        let SimMessageContent { id, payload, sender, source } = message.content.clone();
        let received = ReceivedSqsMessage {
            id: Arc::clone(&id),
            handle: Arc::clone(&handle),
            payload,
            sender,
            sent: message.sent,
            receives: message.receives,
            first_received: message.first_received.unwrap_or(cx.now),
            source,
            sequence,
        };
        let (queue, count) = (Arc::clone(&self.name), receipt.receive);
        cx.log(SimEvent::Received { queue, id: Arc::clone(&id), count, handle });
        if again {
            cx.log(SimEvent::Duplicated { queue: Arc::clone(&self.name), id });
        }
        self.messages.settle(cx.now);
        Some(received)
    }

    /// Returns the receipt that a handle stands for, or `None` if this queue did not make it.
    pub(super) fn receipt(&mut self, now: SimMillis, handle: &str) -> Option<SimReceipt> {
        self.messages.settle(now);
        let parts = handle.strip_prefix(&*self.name).and_then(|rest| rest.strip_prefix('#'));
        let parts = parts.and_then(|rest| rest.split_once('#'));
        let receipt = parts.and_then(|(number, receive)| {
            Some(SimReceipt { number: number.parse().ok()?, receive: receive.parse().ok()? })
        });
        receipt.or_else(|| self.aliases.get(handle).copied())
    }

    /// Deletes a message. A standard queue may keep a copy on a server that does not know of the deletion.
    pub(super) fn delete(&mut self, cx: &mut SimContext<'_>, number: u64) {
        let again = !self.messages.is_fifo && cx.chance(self.messages.settings.duplicates);
        let Some(id) = self.id(number) else { return };
        let queue = Arc::clone(&self.name);
        cx.log(SimEvent::Deleted { queue: Arc::clone(&queue), id: Arc::clone(&id) });
        if again {
            self.messages.leave_ghost(number);
            cx.log(SimEvent::Duplicated { queue, id });
        } else {
            self.messages.remove(cx.now, number);
        }
    }

    /// Forgets the deduplication ids. Recorded for a purge.
    pub(super) fn forget_ids(&mut self) {
        self.deduplication.clear();
    }

    /// Makes a message visible once more though it is hidden: an at-least-once duplicate on demand.
    pub(super) fn show_again(&mut self, cx: &mut SimContext<'_>, id: &str) {
        let found = self.messages.iter().find(|(_, message)| &*message.content.id == id);
        let Some((number, id)) = found.map(|(number, message)| (number, Arc::clone(&message.content.id)))
        else {
            return;
        };
        cx.log(SimEvent::Duplicated { queue: Arc::clone(&self.name), id });
        self.messages.show(number, cx.now);
    }

    /// Returns the id of a message.
    pub(super) fn id(&self, number: u64) -> Option<Arc<str>> {
        self.messages.get(number).map(|message| Arc::clone(&message.content.id))
    }
}

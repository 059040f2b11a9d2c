//! The operations on queues.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_sim_queue::{MAX_ENTRIES, ReceiptRefusal};

use super::{ReceivedSqsMessage, Sqs, rules};
use crate::call_context::SimContext;
use crate::error::{BatchAnswer, Error};
use crate::journal::{SimEvent, SimPayload};
use crate::message::{SimEntry, hex};

/// The approximate bytes of an event that a message takes besides body and attributes.
pub(crate) const MESSAGE_OVERHEAD: usize = 1_000;

/// The answer to a message that a queue accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendAnswer {
    /// The message's id.
    pub id: Arc<str>,
    /// FIFO: the sequence number.
    pub sequence: Option<String>,
}

/// A request for messages.
#[derive(Debug, Clone, Copy)]
pub struct ReceiveRequest {
    /// `MaxNumberOfMessages`.
    pub at_most: usize,
    /// The bytes of bodies and attributes at which Lambda's pollers stop.
    pub max_bytes: usize,
    /// `VisibilityTimeout`, if it is not the queue's own.
    pub visibility: Option<i64>,
    /// The function that gives a message its key. Of the messages with the same key, only the first is handed
    /// out: a world that follows copies of one message gets them in separate batches.
    pub apart: Option<fn(&SimPayload) -> Option<u64>>,
    /// True if the request waits. At the limit in flight, a long poll gets nothing and a short poll an error.
    pub is_long: bool,
}

impl Default for ReceiveRequest {
    fn default() -> Self {
        Self { at_most: 1, max_bytes: usize::MAX, visibility: None, apart: None, is_long: false }
    }
}

impl Sqs {
    /// Carries out `SendMessage`.
    pub fn send_message(
        &mut self,
        cx: &mut SimContext<'_>,
        queue: &str,
        entry: &SimEntry,
    ) -> Result<SendAnswer, Error> {
        let queue = self.find(queue)?;
        rules::fifo(queue, entry)?;
        rules::message(queue, entry)?;
        let deduplication = entry.deduplication.clone().or_else(|| {
            // A hash of the body is used as the id.
            use sha2::{Digest as _, Sha256};
            (queue.messages.is_fifo && queue.messages.settings.content_based)
                .then(|| hex(&Sha256::digest(&entry.body)))
        });
        let payload = SimPayload {
            body: entry.body.clone(),
            attributes: entry.attributes.clone(),
            group: entry.group.clone(),
            deduplication,
            trace: entry.trace.clone(),
        };
        // A message of a FIFO queue has no delay of its own.
        let own = entry.delay.filter(|_| !queue.messages.is_fifo);
        let delay = own.unwrap_or(queue.messages.settings.delay);
        let (id, sequence) = queue.put(cx, payload, delay);
        Ok(SendAnswer { id, sequence })
    }

    /// Carries out `SendMessageBatch`.
    pub fn send_message_batch(
        &mut self,
        cx: &mut SimContext<'_>,
        queue: &str,
        entries: &[SimEntry],
    ) -> Result<BatchAnswer<SendAnswer>, Error> {
        let found = self.find(queue)?;
        rules::batch("SendMessage", entries)?;
        rules::total(entries)?;
        // The whole request is refused for one entry, with another code than that of a message alone. Recorded.
        let refused = |error: Error| Error { code: "InvalidParameterValue".into(), ..error };
        entries.iter().try_for_each(|entry| rules::fifo(found, entry)).map_err(refused)?;
        Ok(cx.each(entries, |cx, entry| self.send_message(cx, queue, entry).map_err(rules::in_batch)))
    }

    /// Carries out `ReceiveMessage`, without any waiting.
    pub fn receive_message(
        &mut self,
        cx: &mut SimContext<'_>,
        name: &str,
        receive: ReceiveRequest,
    ) -> Result<Vec<ReceivedSqsMessage>, Error> {
        let queue = self.find(name)?;
        if receive.at_most == 0 || receive.at_most > MAX_ENTRIES {
            let message = format!(
                "Value {} for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
                receive.at_most
            );
            return Err(Error::bad("InvalidParameterValue", message));
        }
        queue.messages.settle(cx.now);
        if queue.messages.room() == 0 && !receive.is_long {
            let message = "Too many messages in flight.";
            return Err(Error::new(403, "OverLimit", message));
        }
        Ok(self.poll(cx, name, receive, &BTreeSet::new(), &[]))
    }

    /// Reports whether a long poll would get a message now. `busy` are the FIFO groups that the receiver
    /// leaves out.
    pub(crate) fn can_receive(
        &mut self,
        cx: &mut SimContext<'_>,
        name: &str,
        busy: &BTreeSet<String>,
    ) -> bool {
        let queue = self.queues.get_mut(name);
        queue.is_some_and(|queue| !queue.ready(cx.now, 1, busy).is_empty() && queue.messages.room() > 0)
    }

    /// Hands out messages as Lambda's pollers get them, in as many requests as needed. `busy` are the FIFO
    /// groups that the receiver leaves out, `collected` the messages that it has for the same batch.
    pub fn poll(
        &mut self,
        cx: &mut SimContext<'_>,
        name: &str,
        receive: ReceiveRequest,
        busy: &BTreeSet<String>,
        collected: &[ReceivedSqsMessage],
    ) -> Vec<ReceivedSqsMessage> {
        let Ok(queue) = self.find(name) else { return Vec::new() };
        let redrive = queue.messages.settings.redrive.clone();
        let seconds = receive.visibility.unwrap_or(queue.messages.settings.visibility);
        let room = queue.messages.room();
        let (mut bytes, mut received) = (0, Vec::new());
        let mut keys: BTreeSet<_> =
            collected.iter().filter_map(|it| receive.apart.and_then(|key| key(&it.payload))).collect();
        // If messages may be moved instead, the number of messages to look at is unknown.
        let look_at = if redrive.is_some() { usize::MAX } else { receive.at_most.min(room) };
        for number in queue.ready(cx.now, look_at, busy) {
            let Ok(queue) = self.find(name) else { break };
            let Some(message) = queue.messages.get(number) else { continue };
            if let Some(redrive) = redrive.as_ref().filter(|it| message.receives >= it.max_receives)
                && self.redrive(cx, name, &redrive.queue, number)
            {
                continue;
            }
            let Ok(queue) = self.find(name) else { break };
            let Some(message) = queue.messages.get(number) else { continue };
            let payload = &message.content.payload;
            if received.len() >= receive.at_most.min(room) {
                break;
            }
            let key = receive.apart.and_then(|key| key(payload));
            if key.is_some_and(|key| !keys.insert(key)) {
                // No message of a FIFO group goes before the messages ahead of it.
                if queue.messages.is_fifo {
                    break;
                }
                continue;
            }
            bytes += payload.size() + MESSAGE_OVERHEAD;
            if bytes > receive.max_bytes && !received.is_empty() {
                break;
            }
            received.extend(queue.hand_out(cx, number, seconds));
        }
        received
    }

    /// Carries out `ChangeMessageVisibility`.
    pub fn change_message_visibility(
        &mut self,
        cx: &mut SimContext<'_>,
        name: &str,
        handle: &str,
        seconds: i64,
    ) -> Result<(), Error> {
        let queue = self.find(name)?;
        rules::visibility(seconds)?;
        let Some(receipt) = queue.receipt(cx.now, handle) else { return Err(unknown(handle)) };
        let done = queue.messages.change(cx.now, receipt, seconds);
        match done {
            Ok(true) => {
                if let Some(id) = queue.id(receipt.number) {
                    let (queue, handle) = (Arc::clone(&queue.name), handle.to_owned());
                    cx.log(SimEvent::Hidden { queue, id, handle, seconds });
                }
                queue.messages.settle(cx.now);
                Ok(())
            }
            Ok(false) => {
                let (queue, operation) = (Arc::clone(&queue.name), "ChangeMessageVisibility");
                cx.log(SimEvent::Stale { queue, operation, handle: handle.to_owned() });
                Ok(())
            }
            Err(refused) => Err(error(refused, handle, seconds)),
        }
    }

    /// Carries out `ChangeMessageVisibilityBatch`.
    pub fn change_message_visibility_batch(
        &mut self,
        cx: &mut SimContext<'_>,
        queue: &str,
        entries: &[SimEntry],
    ) -> Result<BatchAnswer<()>, Error> {
        self.find(queue)?;
        rules::batch("ChangeMessageVisibility", entries)?;
        Ok(cx.each(entries, |cx, SimEntry { handle, visibility, .. }| {
            let handle = handle.as_deref().unwrap_or_default();
            let changed = self.change_message_visibility(cx, queue, handle, visibility.unwrap_or(0));
            changed.map_err(in_batch)
        }))
    }

    /// Carries out `DeleteMessage`.
    pub fn delete_message(&mut self, cx: &mut SimContext<'_>, name: &str, handle: &str) -> Result<(), Error> {
        let queue = self.find(name)?;
        let Some(receipt) = queue.receipt(cx.now, handle) else { return Err(unknown(handle)) };
        if let Some(number) = queue.messages.to_delete(receipt).map_err(|it| error(it, handle, 0))? {
            queue.delete(cx, number);
        } else {
            let (queue, operation) = (Arc::clone(&queue.name), "DeleteMessage");
            cx.log(SimEvent::Stale { queue, operation, handle: handle.to_owned() });
        }
        Ok(())
    }

    /// Carries out `DeleteMessageBatch`.
    pub fn delete_message_batch(
        &mut self,
        cx: &mut SimContext<'_>,
        queue: &str,
        entries: &[SimEntry],
    ) -> Result<BatchAnswer<()>, Error> {
        self.find(queue)?;
        rules::batch("DeleteMessage", entries)?;
        Ok(cx.each(entries, |cx, entry| {
            let handle = entry.handle.as_deref().unwrap_or_default();
            self.delete_message(cx, queue, handle).map_err(in_batch)
        }))
    }

    /// Carries out `PurgeQueue`, at once instead of within a minute. Deduplication ids are forgotten.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_PurgeQueue.html>
    pub fn purge_queue(&mut self, cx: &mut SimContext<'_>, queue: &str) -> Result<(), Error> {
        let queue = self.find(queue)?;
        let all: Vec<u64> = queue.messages.iter().map(|(number, _)| number).collect();
        for number in all {
            if let Some(message) = queue.messages.remove(cx.now, number) {
                cx.log(SimEvent::Deleted { queue: Arc::clone(&queue.name), id: message.content.id });
            }
        }
        queue.forget_ids();
        Ok(())
    }

    /// Makes a message visible once more though it is hidden, as a standard queue may do. Unknown ids change
    /// nothing.
    pub fn show_again(&mut self, cx: &mut SimContext<'_>, queue: &str, id: &str) {
        if let Ok(queue) = self.find(queue) {
            queue.show_again(cx, id);
        }
    }
}

/// Creates the error of a handle that no queue made.
fn unknown(handle: &str) -> Error {
    let message = format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
    Error::new(404, "ReceiptHandleIsInvalid", message)
}

/// Creates the error of a refused request about a message that was received.
fn error(refused: ReceiptRefusal, handle: &str, seconds: i64) -> Error {
    match refused {
        ReceiptRefusal::NoLongerValid => {
            let message = format!(
                "Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
            );
            Error::bad("InvalidParameterValue", message)
        }
        ReceiptRefusal::Gone => {
            let message = format!(
                "Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not \
                 available for visibility timeout change."
            );
            Error::bad("InvalidParameterValue", message)
        }
        ReceiptRefusal::TooLong => rules::total_visibility(seconds),
    }
}

/// Returns the error of an expired handle with the code that batch answers have.
fn in_batch(error: Error) -> Error {
    if error.message.contains("receipt handle has expired") {
        return Error { code: "ReceiptHandleIsInvalid".into(), ..error };
    }
    error
}

//! SQS: queues, with the rules for requests and batches. [`SimMessages`] has the life of a message.

mod attributes;
mod expiry;
pub mod queue;
mod requests;
pub(crate) mod rules;
mod seed_messages;
mod stored_message;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use queue::SimQueue;
pub use redrive_sim_queue::{
    DEDUPLICATION, MAX_ATTRIBUTES, MAX_BYTES, MAX_DELAY, MAX_ENTRIES, MAX_IN_FLIGHT, MAX_VISIBILITY,
    QueueRedrive, QueueSettings, SimMessageCounts, SimMessages,
};
pub(crate) use requests::MESSAGE_OVERHEAD;
pub use requests::{ReceiveRequest, SendAnswer};
pub use stored_message::{PresetMessage, ReceivedSqsMessage, SimMessageContent};

use crate::error::Error;

/// The queues of one account, by name.
#[derive(Debug, Default)]
pub struct Sqs {
    queues: BTreeMap<String, SimQueue>,
}

impl Sqs {
    /// Creates a queue, or replaces one. A name that ends in `.fifo` makes it a FIFO queue.
    pub fn create(&mut self, name: &str, settings: QueueSettings) {
        self.queues.insert(name.to_owned(), SimQueue::new(name, settings));
    }

    /// Removes a queue with all its messages.
    pub fn remove(&mut self, name: &str) {
        self.queues.remove(name);
    }

    /// Returns a queue.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&SimQueue> {
        self.queues.get(name)
    }

    /// Returns a queue for a change of its settings or messages.
    pub fn queue_mut(&mut self, name: &str) -> Option<&mut SimQueue> {
        self.queues.get_mut(name)
    }

    /// Returns the names of all queues.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(String::as_str)
    }

    fn find(&mut self, name: &str) -> Result<&mut SimQueue, Error> {
        self.queues.get_mut(name).ok_or_else(no_queue)
    }
}

/// Returns the queue's name, from a URL or an ARN.
#[must_use]
pub fn name_of(queue: &str) -> Arc<str> {
    queue.rsplit(['/', ':']).next().unwrap_or_default().into()
}

fn no_queue() -> Error {
    Error::bad("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
}

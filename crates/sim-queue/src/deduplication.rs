//! The memory of deduplication ids.

use std::collections::HashMap;

use crate::time::QueueMillis;

/// The milliseconds for which a FIFO queue or topic remembers a deduplication id, even after its message is
/// deleted.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html>
/// <https://docs.aws.amazon.com/sns/latest/dg/fifo-message-dedup.html>
pub const DEDUPLICATION: QueueMillis = 300_000;

/// The deduplication ids of the last five minutes, each with the answer to its first message.
#[derive(Debug)]
pub struct Deduplication<T>(HashMap<String, (QueueMillis, T)>);

impl<T> Default for Deduplication<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Deduplication<T> {
    /// Returns the answer to the first message with this id, while it is remembered.
    #[must_use]
    pub fn first(&self, now: QueueMillis, id: &str) -> Option<&T> {
        self.0.get(id).filter(|(sent, _)| now < sent + DEDUPLICATION).map(|(_, first)| first)
    }

    /// Forgets all ids.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Remembers the answer to the first message with this id.
    pub fn remember(&mut self, now: QueueMillis, id: String, answer: T) {
        self.0.insert(id, (now, answer));
    }
}

//! The messages of a queue: their content, and their form for receivers.

use std::sync::Arc;

use crate::clock::SimMillis;
use crate::journal::SimPayload;

/// The content of a message in its queue.
#[derive(Debug, Clone)]
pub struct SimMessageContent {
    /// The message's id.
    pub id: Arc<str>,
    /// The content as the sender wrote it.
    pub payload: Arc<SimPayload>,
    /// `SenderId`.
    pub sender: Arc<str>,
    /// `DeadLetterQueueSourceArn`.
    pub source: Option<Arc<str>>,
}

/// A message as a receiver gets it.
#[derive(Debug, Clone)]
pub struct ReceivedSqsMessage {
    /// The message's id.
    pub id: Arc<str>,
    /// The receipt handle.
    pub handle: Arc<str>,
    /// The content.
    pub payload: Arc<SimPayload>,
    /// `SenderId`.
    pub sender: Arc<str>,
    /// `SentTimestamp`.
    pub sent: SimMillis,
    /// `ApproximateReceiveCount`.
    pub receives: u32,
    /// `ApproximateFirstReceiveTimestamp`.
    pub first_received: SimMillis,
    /// `DeadLetterQueueSourceArn`.
    pub source: Option<Arc<str>>,
    /// `SequenceNumber`.
    pub sequence: Option<String>,
}

/// A message that a world puts into a queue as if it had been there for a while, in flight by a receive of
/// its own.
#[derive(Debug, Clone)]
pub struct PresetMessage {
    /// The message's id.
    pub id: String,
    /// The receipt handle of the receive.
    pub handle: String,
    /// The content.
    pub payload: SimPayload,
    /// `SenderId`.
    pub sender: String,
    /// `SentTimestamp`, from which its retention counts.
    pub sent: SimMillis,
    /// `ApproximateReceiveCount`, including the receive by which it is in flight.
    pub receives: u32,
    /// `ApproximateFirstReceiveTimestamp`.
    pub first_received: SimMillis,
    /// `DeadLetterQueueSourceArn`.
    pub source: Option<String>,
}

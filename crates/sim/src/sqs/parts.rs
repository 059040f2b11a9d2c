//! The messages of a queue: their content, and their form for receivers.

use std::sync::Arc;

use crate::clock::Millis;
use crate::ledger::Payload;

/// The content of a message in its queue.
#[derive(Debug, Clone)]
pub struct Content {
    /// The message's id.
    pub id: Arc<str>,
    /// The content as the sender wrote it.
    pub payload: Arc<Payload>,
    /// `SenderId`.
    pub sender: Arc<str>,
    /// `DeadLetterQueueSourceArn`.
    pub source: Option<Arc<str>>,
}

/// A message as a receiver gets it.
#[derive(Debug, Clone)]
pub struct Received {
    /// The message's id.
    pub id: Arc<str>,
    /// The receipt handle.
    pub handle: Arc<str>,
    /// The content.
    pub payload: Arc<Payload>,
    /// `SenderId`.
    pub sender: Arc<str>,
    /// `SentTimestamp`.
    pub sent: Millis,
    /// `ApproximateReceiveCount`.
    pub receives: u32,
    /// `ApproximateFirstReceiveTimestamp`.
    pub first_received: Millis,
    /// `DeadLetterQueueSourceArn`.
    pub source: Option<Arc<str>>,
    /// `SequenceNumber`.
    pub sequence: Option<String>,
}

/// A message that a world puts into a queue as if it had been there for a while, in flight by a receive of
/// its own.
#[derive(Debug, Clone)]
pub struct Placed {
    /// The message's id.
    pub id: String,
    /// The receipt handle of the receive.
    pub handle: String,
    /// The content.
    pub payload: Payload,
    /// `SenderId`.
    pub sender: String,
    /// `SentTimestamp`, from which its retention counts.
    pub sent: Millis,
    /// `ApproximateReceiveCount`, including the receive by which it is in flight.
    pub receives: u32,
    /// `ApproximateFirstReceiveTimestamp`.
    pub first_received: Millis,
    /// `DeadLetterQueueSourceArn`.
    pub source: Option<String>,
}

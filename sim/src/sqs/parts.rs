//! The messages of a queue, as it keeps them and as it shows them.

use std::sync::Arc;

use crate::clock::Millis;
use crate::ledger::Payload;

/// The approximate numbers of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// `ApproximateNumberOfMessages`.
    pub visible: usize,
    /// `ApproximateNumberOfMessagesNotVisible`.
    pub in_flight: usize,
    /// `ApproximateNumberOfMessagesDelayed`.
    pub delayed: usize,
}

/// A message in a queue.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) id: Arc<str>,
    pub(super) payload: Arc<Payload>,
    pub(super) sender: Arc<str>,
    pub(super) source: Option<Arc<str>>,
    pub(super) sequence: Option<String>,
    pub(super) sent: Millis,
    pub(super) receives: u32,
    pub(super) first_received: Option<Millis>,
    pub(super) received: Millis,
    pub(super) expires: Millis,
    pub(super) state: State,
    /// Whether it was deleted and shows again all the same.
    pub(super) is_ghost: bool,
}

/// The state of a message, with the moment when it shows or has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Visible(Millis),
    Delayed(Millis),
    InFlight(Millis),
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

/// A message that a world puts into a queue as if it had lain there for a while, in flight by a receive of its own.
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
    /// `ApproximateReceiveCount`, with the receive that it is in flight by.
    pub receives: u32,
    /// `ApproximateFirstReceiveTimestamp`.
    pub first_received: Millis,
    /// `DeadLetterQueueSourceArn`.
    pub source: Option<String>,
}

/// The use of a receipt handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handle {
    /// The message is in flight by this receive.
    Valid(u64),
    /// The message has shown again, but nobody has received it since.
    Expired(u64),
    /// The message is gone, or was received again.
    Stale,
    /// No queue made this handle.
    Unknown,
}

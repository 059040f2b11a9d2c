//! The messages of a queue, as it keeps them.

use crate::Millis;

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
pub struct Message<C, G> {
    /// What the message carries.
    pub content: C,
    /// FIFO: the group.
    pub group: G,
    /// `SentTimestamp`, from which the retention counts.
    pub sent: Millis,
    /// `ApproximateReceiveCount`.
    pub receives: u32,
    /// `ApproximateFirstReceiveTimestamp`.
    pub first_received: Option<Millis>,
    /// The moment of the last receive, from which the twelve hours count.
    pub received: Millis,
    pub(crate) expires: Millis,
    pub(crate) state: State,
    /// Whether it was deleted and shows again all the same.
    pub(crate) is_ghost: bool,
}

impl<C, G> Message<C, G> {
    /// Returns a message that was sent at this moment and that nobody has received.
    pub fn new(content: C, group: G, sent: Millis) -> Self {
        Self {
            content,
            group,
            sent,
            receives: 0,
            first_received: None,
            received: sent,
            expires: Millis::MAX,
            state: State::Delayed(sent),
            is_ghost: false,
        }
    }
}

/// The state of a message, with the moment when it shows, or its place among those that show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Visible(Millis),
    Delayed(Millis),
    InFlight(Millis),
}

/// One receive of a message: what a receipt handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Receipt {
    /// The message's number.
    pub number: u64,
    /// The receive's number, from 1.
    pub receive: u32,
}

/// The use of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The message is in flight by this receive.
    Valid,
    /// The message has shown again, but nobody has received it since.
    Expired,
    /// The message is gone, or was received again.
    Stale,
}

/// Why a queue refuses a request about a message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// FIFO: the receipt is no longer valid. A standard queue says yes and does nothing.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html>
    NoLongerValid,
    /// The message would be hidden for more than twelve hours since its receive.
    TooLong,
}

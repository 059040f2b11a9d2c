//! The messages of a queue, as it keeps them.

use crate::time::QueueMillis;

/// The approximate numbers of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SimMessageCounts {
    /// `ApproximateNumberOfMessages`.
    pub visible: usize,
    /// `ApproximateNumberOfMessagesNotVisible`.
    pub in_flight: usize,
    /// `ApproximateNumberOfMessagesDelayed`.
    pub delayed: usize,
}

/// A message in a queue.
#[derive(Debug, Clone)]
pub struct SimMessage<C, G> {
    /// The content of the message.
    pub content: C,
    /// FIFO: the group.
    pub group: G,
    /// `SentTimestamp`, from which the retention counts.
    pub sent: QueueMillis,
    /// `ApproximateReceiveCount`.
    pub receives: u32,
    /// `ApproximateFirstReceiveTimestamp`.
    pub first_received: Option<QueueMillis>,
    /// The time of the last receive, from which the twelve hours count.
    pub received: QueueMillis,
    pub(crate) expires: QueueMillis,
    pub(crate) state: SimMessageState,
    /// True if it was deleted and becomes visible again nevertheless.
    pub(crate) is_ghost: bool,
}

impl<C, G> SimMessage<C, G> {
    /// Creates a message that was sent at this time and never received.
    pub fn new(content: C, group: G, sent: QueueMillis) -> Self {
        Self {
            content,
            group,
            sent,
            receives: 0,
            first_received: None,
            received: sent,
            expires: QueueMillis::MAX,
            state: SimMessageState::Delayed(sent),
            is_ghost: false,
        }
    }
}

/// The state of a message, with the time when it becomes visible, or its place among the visible messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimMessageState {
    Visible(QueueMillis),
    Delayed(QueueMillis),
    InFlight(QueueMillis),
}

/// One receive of a message, which a receipt handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SimReceipt {
    /// The message's number.
    pub number: u64,
    /// The receive's number, from 1.
    pub receive: u32,
}

/// The use of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptState {
    /// The message is in flight by this receive.
    Valid,
    /// The message has become visible again, but was not received since.
    Expired,
    /// The message is gone, or was received again.
    Stale,
}

/// The reason why a queue refuses a request about a message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptRefusal {
    /// Standard: the message was deleted, or its retention has ended. Recorded.
    Gone,
    /// FIFO: the receipt is no longer valid. A standard queue accepts the request and does nothing.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html>
    NoLongerValid,
    /// The message would be hidden for more than twelve hours since its receive.
    TooLong,
}

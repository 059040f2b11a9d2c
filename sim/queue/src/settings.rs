//! The settings of a queue: those that AWS has, and what AWS leaves open.

use std::collections::BTreeMap;

use crate::Millis;

/// Bytes of a message, and of all messages of a batch.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const MAX_BYTES: usize = 1024 * 1024;

/// Message attributes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const MAX_ATTRIBUTES: usize = 10;

/// Entries of a batch request.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const MAX_ENTRIES: usize = 10;

/// Seconds that a message is hidden at most, counted from its receive.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
pub const MAX_VISIBILITY: i64 = 43_200;

/// Seconds that a message is delayed at most.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-delay-queues.html>
pub const MAX_DELAY: i64 = 900;

/// Messages in flight.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html>
pub const MAX_IN_FLIGHT: usize = 120_000;

/// The settings of a queue.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// `MessageRetentionPeriod`, seconds.
    pub retention: i64,
    /// `VisibilityTimeout`, seconds.
    pub visibility: i64,
    /// `MaximumMessageSize`, bytes.
    pub max_bytes: usize,
    /// `DelaySeconds`.
    pub delay: i64,
    /// `RedrivePolicy`.
    pub redrive: Option<Redrive>,
    /// `ContentBasedDeduplication`.
    pub content_based: bool,
    /// The tags.
    pub tags: BTreeMap<String, String>,
    /// Messages that may be in flight.
    pub in_flight: usize,
    /// Milliseconds that the approximate numbers of messages are old.
    pub lag: Millis,
    /// FIFO: whether nothing of a group is handed out while one of its messages is in flight. Else what lies before
    /// that message is: AWS documents the former, and the latter was recorded.
    pub whole_group: bool,
    /// Standard: messages come in any order, which this number decides.
    pub shuffled: Option<u64>,
    /// Standard: whether a change to zero by a stale handle shows a message that a later receive hides. AWS answers such
    /// a change with 200 and does not say.
    pub stale_shows: bool,
    /// Standard: how many of 10,000 receives or deletes leave a copy that shows again.
    pub duplicates: u16,
    /// Whether a message that SQS moves keeps its first receive timestamp: AWS does not say.
    pub keeps_first_receive: bool,
    /// Further attributes, which win over those that the settings and the messages give: `Policy`, an approximate
    /// number of messages ...
    pub more: BTreeMap<String, String>,
}

/// The move of messages that were received too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The name of the dead-letter queue.
    pub queue: String,
    /// `maxReceiveCount`.
    pub max_receives: u32,
}

impl Default for QueueSettings {
    /// Returns what AWS sets where nobody says otherwise.
    fn default() -> Self {
        Self {
            retention: 345_600,
            visibility: 30,
            max_bytes: MAX_BYTES,
            delay: 0,
            redrive: None,
            content_based: false,
            tags: BTreeMap::new(),
            in_flight: MAX_IN_FLIGHT,
            lag: 0,
            whole_group: true,
            shuffled: None,
            stale_shows: false,
            duplicates: 0,
            keeps_first_receive: true,
            more: BTreeMap::new(),
        }
    }
}

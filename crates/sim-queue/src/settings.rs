//! The settings of a queue: those of AWS, and those for behaviour that AWS does not specify. Their default is
//! what was recorded on AWS, where it was.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::time::QueueMillis;

/// The largest number of bytes of a message, and of all messages of a batch.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const MAX_BYTES: usize = 1024 * 1024;

/// The largest number of message attributes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const MAX_ATTRIBUTES: usize = 10;

/// The largest number of entries of a batch request.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const MAX_ENTRIES: usize = 10;

/// The longest time that a message is hidden, in seconds, counted from its receive.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
pub const MAX_VISIBILITY: i64 = 43_200;

/// The longest time that a message is delayed, in seconds.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-delay-queues.html>
pub const MAX_DELAY: i64 = 900;

/// The largest number of messages in flight.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html>
pub const MAX_IN_FLIGHT: usize = 120_000;

/// The times that a queue can keep messages for, in seconds.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html>
const RETENTION: RangeInclusive<i64> = 60..=1_209_600;

/// The settings of a queue.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// `MessageRetentionPeriod`, in seconds.
    pub retention: i64,
    /// `VisibilityTimeout`, in seconds.
    pub visibility: i64,
    /// `MaximumMessageSize`, in bytes.
    pub max_bytes: usize,
    /// `DelaySeconds`.
    pub delay: i64,
    /// `RedrivePolicy`.
    pub redrive: Option<QueueRedrive>,
    /// `ContentBasedDeduplication`.
    pub content_based: bool,
    /// The tags.
    pub tags: BTreeMap<String, String>,
    /// The number of messages that may be in flight.
    pub in_flight: usize,
    /// The age of the approximate numbers of messages, in milliseconds.
    pub lag: QueueMillis,
    /// FIFO: true if `DeduplicationScope` is `messageGroup`, so that a deduplication id counts in its group
    /// alone.
    pub deduplicates_by_group: bool,
    /// FIFO: true if no message of a group is handed out while another of its messages is in flight. AWS
    /// documents that. Recorded is that the messages before the one in flight are handed out.
    pub whole_group: bool,
    /// Standard: messages come in a random order, which this number decides.
    pub shuffled: Option<u64>,
    /// Standard: true if a change to zero by a stale handle makes a message visible that a later receive
    /// hides. Recorded.
    pub stale_shows: bool,
    /// Standard: true if a change to more than zero by a stale handle counts for a message that a later
    /// receive hides. AWS answers with 200, and nobody has recorded what it does.
    pub stale_hides: bool,
    /// Standard: true if a stale handle deletes its message. AWS answers with 200, says that the message may
    /// stay, and nobody has recorded what it does.
    pub stale_deletes: bool,
    /// Standard: the number of 10,000 receives or deletes that leave a copy, which becomes visible again.
    pub duplicates: u16,
    /// True if a message that SQS moves keeps its first receive timestamp. AWS does not specify this.
    pub keeps_first_receive: bool,
    /// Further attributes, which override those that the settings and the messages give: `Policy`, an
    /// approximate number of messages ...
    pub more: BTreeMap<String, String>,
}

/// The move of messages that were received too often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRedrive {
    /// The name of the dead-letter queue.
    pub queue: String,
    /// `maxReceiveCount`.
    pub max_receives: u32,
}

impl QueueSettings {
    /// Panics if AWS has no such queue: what is seen there is worth nothing.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html>
    pub(crate) fn check(&self) {
        assert!(RETENTION.contains(&self.retention), "no queue keeps messages for {} s", self.retention);
        assert!((0..=MAX_VISIBILITY).contains(&self.visibility), "no queue hides for {} s", self.visibility);
        assert!((0..=MAX_DELAY).contains(&self.delay), "no queue delays for {} s", self.delay);
        assert!(
            (1_024..=MAX_BYTES).contains(&self.max_bytes),
            "no queue's limit is {} bytes",
            self.max_bytes
        );
    }
}

impl Default for QueueSettings {
    /// Returns AWS's defaults.
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
            deduplicates_by_group: false,
            whole_group: false,
            shuffled: None,
            stale_shows: true,
            stale_hides: false,
            stale_deletes: false,
            duplicates: 0,
            keeps_first_receive: true,
            more: BTreeMap::new(),
        }
    }
}

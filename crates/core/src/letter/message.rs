//! One SQS message as Lambda hands it over, checked once.
//!
//! In the event as it is sent everything may be missing. An [`SqsMessage`] always has an id, its timestamps
//! and its receive count, so no code can answer Lambda with an empty id (which would fail the whole batch) or
//! count a missing number as zero. A record that lacks one of them, or has it in another form, is kept whole:
//! it cannot be sent, but it can be archived as it came.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use super::unreadable::UnreadableRecord;
use super::wire::{SqsRecord, SqsRecordAttribute};
use crate::arn::Arn;

/// The largest number of message attributes that SQS takes. A raw subscription of a topic takes no more
/// either: SNS discards a message with more.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-attributes.html>
pub const MAX_ATTRIBUTES: usize = 10;

/// A message of a batch, with everything that SQS said about it.
#[derive(Clone, PartialEq, Eq)]
pub struct SqsMessage {
    /// SQS's own id; never empty.
    pub message_id: String,
    /// The handle for `ChangeMessageVisibility`. It is never logged and never archived. Only a record that
    /// cannot be read may lack it.
    pub receipt_handle: String,
    /// The body, byte for byte.
    pub body: String,
    /// The queue that Lambda read it from: the DLQ or the requeue.
    pub queue: Arn,
    /// The time when it entered that queue (or, if SQS moved it, its first standard queue).
    pub sent: Timestamp,
    /// The time when it was first received.
    pub first_received: Timestamp,
    /// The number of times that it was received, this time included. Throttled receives count too.
    pub receive_count: u32,
    /// The system attributes as SQS gave them, including those above.
    pub system: BTreeMap<String, String>,
    /// The sender's message attributes.
    pub attributes: MessageAttributes,
    /// The whole record, if it could not be read. Then the other fields hold what could be read of it.
    pub unread: Option<Box<UnreadableRecord>>,
}

/// Message attributes by name, in a stable order.
pub type MessageAttributes = BTreeMap<String, MessageAttribute>;

/// One message attribute of SNS or SQS.
#[derive(Clone, PartialEq, Eq)]
pub struct MessageAttribute {
    /// `String`, `Number`, `Binary`, `String.Array`, or one of these with a custom suffix.
    pub data_type: String,
    /// The value in the form that its type demands.
    pub value: AttributeValue,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// The value of a `String`, `Number` or `String.Array`.
    Text(String),
    /// The value of a `Binary`, decoded.
    Binary(Vec<u8>),
}

/// The reason why an event cannot be handled at all: Lambda's SQS event source mapping does not make such
/// events. The invocation fails, and every message stays where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEvent {
    /// No record names the queue.
    #[error("no record names its queue: Records[0].eventSourceARN is missing or has no usable value")]
    NoQueue,
    /// The event has messages of two queues.
    #[error("Records[{index}] is from {found}, but the first record is from {expected}")]
    TwoQueues {
        /// The position in the event, from 0.
        index: usize,
        /// The queue of the first record.
        expected: Arn,
        /// The queue of this record.
        found: Arn,
    },
    /// A record without a message id stays in its queue. Lambda's answer cannot name it, and Lambda deletes
    /// what the answer does not name.
    #[error("{0}, and the archive did not take the record: the whole batch stays in its queue")]
    Unanswerable(String),
}

impl SqsMessage {
    /// Reports whether both are receives of one message.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.message_id == other.message_id
            && self.body == other.body
            && self.attributes == other.attributes
            && self.unread.is_none()
            && other.unread.is_none()
    }

    /// Checks one record. `queue` is the queue of the record before, which is mostly this one's too.
    ///
    /// # Errors
    ///
    /// The name of the first field that Lambda never sends like that.
    pub fn of_record(record: SqsRecord, queue: Option<&Arn>) -> Result<Self, &'static str> {
        let filled = |value: Option<String>| value.filter(|text| !text.is_empty());
        let system = record.attributes;
        let attributes = record.message_attributes.into_iter();
        let attributes =
            attributes.map(|(name, attribute)| (name, MessageAttribute::from_record(attribute))).collect();
        Ok(Self {
            message_id: filled(record.message_id).ok_or("messageId")?,
            receipt_handle: filled(record.receipt_handle).ok_or("receiptHandle")?,
            body: record.body.unwrap_or_default(),
            queue: record
                .event_source_arn
                .and_then(|arn| match queue.filter(|queue| queue.as_str() == arn) {
                    Some(queue) => Some(queue.clone()),
                    None => arn.parse().ok(),
                })
                .ok_or("eventSourceARN")?,
            sent: timestamp(&system, SENT).ok_or(SENT)?,
            first_received: timestamp(&system, FIRST_RECEIVED).ok_or(FIRST_RECEIVED)?,
            receive_count: receive_count(&system).ok_or(RECEIVE_COUNT)?,
            system,
            attributes,
            unread: None,
        })
    }

    /// Returns a system attribute that SQS gave, such as `MessageGroupId`.
    #[must_use]
    pub fn system(&self, name: &str) -> Option<&str> {
        self.system.get(name).map(String::as_str)
    }

    /// Returns the group, on FIFO queues and on standard queues that are used as fair queues.
    #[must_use]
    pub fn group_id(&self) -> Option<&str> {
        self.system("MessageGroupId")
    }

    /// Returns the queue from which SQS moved the message here after too many receives.
    #[must_use]
    pub fn source_queue(&self) -> Option<Arn> {
        self.system("DeadLetterQueueSourceArn")?.parse().ok()
    }

    /// Returns the text of an attribute that is not binary.
    #[must_use]
    pub fn text_attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).and_then(MessageAttribute::text)
    }
}

impl MessageAttribute {
    /// Creates an attribute of type `String`.
    #[must_use]
    pub fn string(value: impl Into<String>) -> Self {
        Self { data_type: "String".to_owned(), value: AttributeValue::Text(value.into()) }
    }

    /// Returns the value, if it is text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            AttributeValue::Text(text) => Some(text),
            AttributeValue::Binary(_) => None,
        }
    }

    /// Returns the bytes for which the type and the value count in AWS's size limits.
    #[must_use]
    pub fn size(&self) -> usize {
        let value = match &self.value {
            AttributeValue::Text(text) => text.len(),
            AttributeValue::Binary(bytes) => bytes.len(),
        };
        self.data_type.len() + value
    }

    /// Reads an attribute of a record. SQS takes no attribute without type and value, but one that came
    /// without them is no reason to fail a batch.
    pub(super) fn from_record(attribute: SqsRecordAttribute) -> Self {
        let data_type = attribute.data_type.or(attribute.capital_data_type);
        let data_type = data_type.unwrap_or_else(|| "String".to_owned());
        let value = if is_binary(&data_type) {
            let bytes = attribute.binary_value.or(attribute.capital_binary_value);
            AttributeValue::Binary(bytes.unwrap_or_default())
        } else {
            let text = attribute.string_value.or(attribute.capital_string_value);
            AttributeValue::Text(text.unwrap_or_default())
        };
        Self { data_type, value }
    }
}

/// Reports whether values of a data type are bytes; `Binary.png` is such a type too.
#[must_use]
pub fn is_binary(data_type: &str) -> bool {
    data_type == "Binary" || data_type.starts_with("Binary.")
}

pub(super) const SENT: &str = "SentTimestamp";
pub(super) const FIRST_RECEIVED: &str = "ApproximateFirstReceiveTimestamp";
pub(super) const RECEIVE_COUNT: &str = "ApproximateReceiveCount";

/// Reads the number of receives, which is never 0.
pub(super) fn receive_count(system: &BTreeMap<String, String>) -> Option<u32> {
    system.get(RECEIVE_COUNT)?.parse().ok().filter(|count| *count > 0)
}

/// Reads a time, which SQS gives as milliseconds since 1970.
pub(super) fn timestamp(system: &BTreeMap<String, String>, name: &str) -> Option<Timestamp> {
    Timestamp::from_millisecond(system.get(name)?.parse().ok()?).ok()
}

/// Hides the parts that a log must not show: body, values, receipt handle.
impl fmt::Debug for SqsMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqsMessage")
            .field("message_id", &self.message_id)
            .field("queue", &self.queue)
            .field("sent", &self.sent)
            .field("receive_count", &self.receive_count)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Hides the value.
impl fmt::Debug for MessageAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.data_type, self.size())
    }
}

/// Hides the value.
impl fmt::Debug for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Binary(_) => "Binary",
        })
    }
}

//! One SQS message as Lambda hands it over, checked once.
//!
//! `aws_lambda_events` describes the event as it is sent, where everything may be missing. An [`SqsMessage`]
//! always has an id, a receipt handle, its timestamps and its receive count, so no code can answer Lambda
//! with an empty id (which would fail the whole batch) or count a missing number as zero.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use super::wire::{SqsEvent, SqsRecord, SqsRecordAttribute};
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
    /// The handle for `ChangeMessageVisibility`. It is never logged and never archived.
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
    pub attributes: Attributes,
}

/// Message attributes by name, in a stable order.
pub type Attributes = BTreeMap<String, Attribute>;

/// One message attribute of SNS or SQS.
#[derive(Clone, PartialEq, Eq)]
pub struct Attribute {
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
    /// A field is missing without which a message can neither be answered for nor scheduled.
    #[error("Records[{index}].{field} is missing or has no usable value")]
    Field {
        /// The position in the event, from 0.
        index: usize,
        /// The field's name in the event.
        field: &'static str,
    },
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
}

impl SqsMessage {
    /// Checks every record of an event.
    ///
    /// # Errors
    ///
    /// [`BadEvent`] names the first record and field that Lambda never sends like that.
    pub fn all_of(event: SqsEvent) -> Result<Vec<Self>, BadEvent> {
        let mut messages: Vec<Self> = Vec::with_capacity(event.records.len());
        for (index, record) in event.records.into_iter().enumerate() {
            let queue = messages.last().map(|last| &last.queue);
            messages.push(Self::from_record(index, record, queue)?);
        }
        if let Some(first) = messages.first() {
            let stranger = messages.iter().position(|message| message.queue != first.queue);
            if let Some(index) = stranger {
                let (expected, found) = (first.queue.clone(), messages[index].queue.clone());
                return Err(BadEvent::TwoQueues { index, expected, found });
            }
        }
        Ok(messages)
    }

    /// Checks one record. `queue` is the queue of the record before, which is mostly this one's too.
    fn from_record(index: usize, record: SqsRecord, queue: Option<&Arn>) -> Result<Self, BadEvent> {
        let missing = |field| BadEvent::Field { index, field };
        let filled = |value: Option<String>| value.filter(|text| !text.is_empty());

        let system = record.attributes;
        let time = |field| timestamp(&system, field).ok_or(missing(field));
        let count = |field| system.get(field).and_then(|text| text.parse().ok()).filter(|count| *count > 0);
        let attributes = record.message_attributes.into_iter();
        let attributes =
            attributes.map(|(name, attribute)| (name, Attribute::from_record(attribute))).collect();
        Ok(Self {
            message_id: filled(record.message_id).ok_or(missing("messageId"))?,
            receipt_handle: filled(record.receipt_handle).ok_or(missing("receiptHandle"))?,
            body: record.body.unwrap_or_default(),
            queue: record
                .event_source_arn
                .and_then(|arn| match queue.filter(|queue| queue.as_str() == arn) {
                    Some(queue) => Some(queue.clone()),
                    None => arn.parse().ok(),
                })
                .ok_or(missing("eventSourceARN"))?,
            sent: time("SentTimestamp")?,
            first_received: time("ApproximateFirstReceiveTimestamp")?,
            receive_count: count("ApproximateReceiveCount").ok_or(missing("ApproximateReceiveCount"))?,
            system,
            attributes,
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
        self.attributes.get(name).and_then(Attribute::text)
    }
}

impl Attribute {
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
    fn from_record(attribute: SqsRecordAttribute) -> Self {
        let data_type = attribute.data_type.unwrap_or_else(|| "String".to_owned());
        let value = if is_binary(&data_type) {
            AttributeValue::Binary(attribute.binary_value.unwrap_or_default())
        } else {
            AttributeValue::Text(attribute.string_value.unwrap_or_default())
        };
        Self { data_type, value }
    }
}

/// Reports whether values of a data type are bytes; `Binary.png` is such a type too.
#[must_use]
pub fn is_binary(data_type: &str) -> bool {
    data_type == "Binary" || data_type.starts_with("Binary.")
}

/// Reads a time, which SQS gives as milliseconds since 1970.
fn timestamp(system: &BTreeMap<String, String>, name: &str) -> Option<Timestamp> {
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
impl fmt::Debug for Attribute {
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

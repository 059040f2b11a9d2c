//! Events of an SQS event source mapping as they come, where everything may be missing.
//!
//! Each record is read by itself, so that one that has another form fails no other. Only what somebody reads
//! is taken from a record: the rest is passed over, and takes neither time nor memory.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::message::SqsMessage;
use super::unread::UnreadRecord;
use crate::arn::Arn;

/// An event of a queue.
#[derive(Clone, Default, Deserialize)]
pub struct SqsEvent {
    /// The messages.
    #[serde(rename = "Records")]
    pub records: SqsRecords,
}

/// The records of an event, each as far as it could be read.
#[derive(Clone, Default)]
pub struct SqsRecords(pub(super) Vec<ReadRecord>);

/// One record of an event.
#[derive(Clone)]
pub(super) enum ReadRecord {
    Message(SqsMessage),
    Unread(Box<UnreadRecord>),
}

impl ReadRecord {
    /// Reads a record. `queue` is the queue of the record before, which is mostly this one's too.
    fn of(json: &str, queue: Option<&Arn>) -> Self {
        let record = serde_json::from_str::<SqsRecord>(json).ok();
        match record.and_then(|record| SqsMessage::of_record(record, queue).ok()) {
            Some(message) => Self::Message(message),
            None => Self::Unread(Box::new(UnreadRecord::of(json))),
        }
    }

    /// Returns the queue that it names.
    pub(super) fn queue(&self) -> Option<&Arn> {
        match self {
            Self::Message(message) => Some(&message.queue),
            Self::Unread(record) => record.queue.as_ref(),
        }
    }
}

impl<'de> Deserialize<'de> for SqsRecords {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ReadEach)
    }
}

/// Reads the records of a list one by one.
struct ReadEach;

impl<'de> Visitor<'de> for ReadEach {
    type Value = SqsRecords;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SqsRecords, A::Error> {
        let mut records = Vec::new();
        let mut queue: Option<Arn> = None;
        while let Some(json) = list.next_element::<Box<RawValue>>()? {
            let record = ReadRecord::of(json.get(), queue.as_ref());
            if let ReadRecord::Message(message) = &record
                && queue.as_ref() != Some(&message.queue)
            {
                queue = Some(message.queue.clone());
            }
            records.push(record);
        }
        Ok(SqsRecords(records))
    }
}

/// One message of an event.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SqsRecord {
    /// SQS's id.
    pub message_id: Option<String>,
    /// The handle by which the message is hidden and deleted.
    pub receipt_handle: Option<String>,
    /// The body.
    pub body: Option<String>,
    /// The system attributes.
    #[serde(default, deserialize_with = "or_empty")]
    pub attributes: BTreeMap<String, String>,
    /// The sender's message attributes.
    #[serde(default, deserialize_with = "or_empty")]
    pub message_attributes: BTreeMap<String, SqsRecordAttribute>,
    /// The queue.
    #[serde(rename = "eventSourceARN")]
    pub event_source_arn: Option<String>,
}

/// One message attribute.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SqsRecordAttribute {
    /// The value of a text.
    pub string_value: Option<String>,
    /// The value of bytes, decoded.
    #[serde(default, deserialize_with = "bytes")]
    pub binary_value: Option<Vec<u8>>,
    /// The type.
    pub data_type: Option<String>,
    /// The value of a text in the spelling of some emulators, which others write beside the usual one.
    #[serde(rename = "StringValue")]
    pub capital_string_value: Option<String>,
    /// The value of bytes in that spelling, decoded.
    #[serde(rename = "BinaryValue", default, deserialize_with = "bytes")]
    pub capital_binary_value: Option<Vec<u8>>,
    /// The type in that spelling.
    #[serde(rename = "DataType")]
    pub capital_data_type: Option<String>,
}

/// Lambda writes null for some of what is empty.
fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    text.map(|text| STANDARD.decode(text).map_err(D::Error::custom)).transpose()
}

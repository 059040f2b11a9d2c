//! Events of an SQS event source mapping. Each record is read by itself, so that one that has another form fails no
//! other.
//!
//! Source: <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>

use std::collections::HashMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::message::{BadEvent, SqsMessage};
use super::unread::UnreadRecord;
use super::wire::SqsRecord;
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
pub struct SqsRecords(Vec<ReadRecord>);

/// One record of an event.
#[derive(Clone)]
enum ReadRecord {
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
    fn queue(&self) -> Option<&Arn> {
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

impl SqsMessage {
    /// Returns the messages of an event. A record that could not be read is a message too, which says so. A
    /// message that was received twice is there once, with its last receive.
    ///
    /// `now` stands for the time of arrival that an unreadable record lacks.
    ///
    /// # Errors
    ///
    /// [`BadEvent`] if the records are not those of one queue.
    pub fn all_of(event: SqsEvent, now: Timestamp) -> Result<Vec<Self>, BadEvent> {
        let records = event.records.0;
        if records.is_empty() {
            return Ok(Vec::new());
        }
        // A mapping reads one queue, so a record that does not name it is of the same queue as the others.
        let queue = records.iter().find_map(ReadRecord::queue).cloned().ok_or(BadEvent::NoQueue)?;
        let mut messages: Vec<Self> = Vec::with_capacity(records.len());
        let mut places: HashMap<String, usize> = HashMap::with_capacity(records.len());
        for (index, record) in records.into_iter().enumerate() {
            if let Some(found) = record.queue().filter(|found| **found != queue) {
                return Err(BadEvent::TwoQueues { index, expected: queue, found: found.clone() });
            }
            let message = match record {
                ReadRecord::Message(message) => message,
                ReadRecord::Unread(record) => record.into_message(index, &queue, now),
            };
            match places.get(&message.message_id) {
                Some(place) if messages[*place].is_same(&message) => {
                    let before = &mut messages[*place];
                    if before.receive_count <= message.receive_count {
                        *before = message;
                    }
                }
                _ => {
                    places.insert(message.message_id.clone(), messages.len());
                    messages.push(message);
                }
            }
        }
        Ok(messages)
    }
}

//! Records of an event that cannot be read: kept whole, so that they can be archived as they came.
//!
//! Lambda's event source mapping does not make such records. Emulators, tests and anyone who invokes the function
//! by hand do: bytes that are no base64, a body that is an object, no system attributes. Nothing is decided by
//! a guess about them. What can be read of them names them in the log and in the archive.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::digest::MessageDigest;
use super::message::{
    FIRST_RECEIVED, MessageAttribute, MessageAttributes, RECEIVE_COUNT, SENT, SqsMessage, receive_count,
    timestamp,
};
use super::unreadable::UnreadableRecord;
use super::wire::SqsRecordAttribute;
use crate::arn::Arn;

/// A record that could not be read, and what could be read of it.
#[derive(Clone)]
pub(super) struct UnreadRecord {
    /// The record without its receipt handle.
    json: String,
    /// The first field that has another form, unless the whole record has one.
    field: Option<&'static str>,
    message_id: Option<String>,
    receipt_handle: Option<String>,
    body: Option<String>,
    pub(super) queue: Option<Arn>,
    system: BTreeMap<String, String>,
    attributes: MessageAttributes,
}

/// The fields of a JSON object.
type RecordFields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

const RECEIPT_HANDLE: &str = "receiptHandle";

impl UnreadRecord {
    /// Takes what can be read of a record.
    pub(super) fn of(json: &str) -> Self {
        let object: Option<RecordFields<'_>> = serde_json::from_str(json).ok();
        let is_object = object.is_some();
        let pieces = object.unwrap_or_default();
        let text = |name| piece::<String>(&pieces, name).filter(|text| !text.is_empty());
        let system = part(&pieces, "attributes").into_iter().flatten();
        let system: BTreeMap<String, String> = system
            .filter_map(|(name, value)| Some((name.into_owned(), serde_json::from_str(value.get()).ok()?)))
            .collect();
        let attributes = part(&pieces, "messageAttributes").into_iter().flatten();
        let attributes = attributes.filter_map(|(name, value)| {
            let attribute: SqsRecordAttribute = serde_json::from_str(value.get()).ok()?;
            Some((name.into_owned(), MessageAttribute::from_record(attribute)))
        });
        let mut record = Self {
            json: without_handle(json, &pieces),
            field: None,
            message_id: text("messageId"),
            receipt_handle: text(RECEIPT_HANDLE),
            body: piece(&pieces, "body"),
            queue: piece::<String>(&pieces, "eventSourceARN").and_then(|arn| arn.parse().ok()),
            attributes: attributes.collect(),
            system,
        };
        record.field = is_object.then(|| record.fault(&pieces));
        record
    }

    /// Returns the first field that no record of Lambda has in this form.
    fn fault(&self, pieces: &RecordFields<'_>) -> &'static str {
        let is_left_out = |name| pieces.get(name).is_none_or(|value| value.get() == "null");
        [
            ("messageId", self.message_id.is_some()),
            (RECEIPT_HANDLE, self.receipt_handle.is_some()),
            ("body", self.body.is_some() || is_left_out("body")),
            ("eventSourceARN", self.queue.is_some()),
            ("attributes", part(pieces, "attributes").is_some_and(|part| part.len() == self.system.len())),
            (SENT, timestamp(&self.system, SENT).is_some()),
            (FIRST_RECEIVED, timestamp(&self.system, FIRST_RECEIVED).is_some()),
            (RECEIVE_COUNT, receive_count(&self.system).is_some()),
        ]
        .into_iter()
        .find(|(_, is_readable)| !is_readable)
        .map_or("messageAttributes", |(field, _)| field)
    }

    /// Returns the message for the archive. It is of this `queue`, and arrived now unless it says when.
    pub(super) fn into_message(self, index: usize, queue: &Arn, now: Timestamp) -> SqsMessage {
        let problem = match self.field {
            None => format!("Records[{index}] is not an object"),
            Some(field) => format!("Records[{index}].{field} is missing or has no usable value"),
        };
        // Two receives of the record have the same name, and no other record has it.
        let stand_in = || format!("unnamed-{}", String::from(MessageDigest::of(&self.json)));
        let named = self.message_id.is_some();
        let sent = timestamp(&self.system, SENT).unwrap_or(now);
        SqsMessage {
            message_id: self.message_id.unwrap_or_else(stand_in),
            receipt_handle: self.receipt_handle.unwrap_or_default(),
            body: self.body.unwrap_or_default(),
            queue: queue.clone(),
            sent,
            first_received: timestamp(&self.system, FIRST_RECEIVED).unwrap_or(sent),
            receive_count: receive_count(&self.system).unwrap_or(1),
            system: self.system,
            attributes: self.attributes,
            unread: Some(Box::new(UnreadableRecord { record: self.json, problem, named })),
        }
    }
}

/// Returns the value of a field, if it has this type.
fn piece<T: DeserializeOwned>(pieces: &RecordFields<'_>, name: &str) -> Option<T> {
    serde_json::from_str(pieces.get(name)?.get()).ok()
}

/// Returns the fields of a field that is an object.
fn part<'a>(pieces: &RecordFields<'a>, name: &str) -> Option<RecordFields<'a>> {
    serde_json::from_str(pieces.get(name)?.get()).ok()
}

/// Returns a record with an empty text in the place of its receipt handle.
fn without_handle(json: &str, pieces: &RecordFields<'_>) -> String {
    let handle = pieces.get(RECEIPT_HANDLE).map(|value| value.get()).filter(|handle| *handle != "null");
    let Some(handle) = handle else { return json.to_owned() };
    // The handle's text is a part of the record's.
    let start = (handle.as_ptr() as usize).wrapping_sub(json.as_ptr() as usize);
    let rest = start.checked_add(handle.len()).and_then(|end| json.get(end..));
    match (json.get(..start), rest) {
        (Some(before), Some(after)) => [before, "\"\"", after].concat(),
        _ => json.to_owned(),
    }
}

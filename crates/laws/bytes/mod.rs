//! Laws that hold for any bytes. The fuzz targets try them on new inputs; `tests/function/corpus.rs` tries
//! them on stored inputs, without a fuzzer.
//!
//! A broken law panics. Bytes that are no input of a law are ignored.

#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::panic,
    clippy::pedantic,
    reason = "a law that is broken panics"
)]

pub mod archive_records;
pub mod attributes;
pub mod letters;
pub mod policy;
pub mod replay_event;

use jiff::Timestamp;
use redrive_core::letter::{
    AttributeValue, Letter, MessageAttribute, MessageAttributes, SqsEvent, SqsMessage,
};
use serde_json::{Map, Value, json};

/// The present of every law, in milliseconds: 2026-11-01T12:00:00Z, as in `events/`.
const NOW: i64 = 1_793_534_400_000;

const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";

fn now() -> Timestamp {
    at(NOW)
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

/// Returns a record of Lambda's event with this body and these attributes.
fn record(body: &str, attributes: &MessageAttributes) -> Value {
    json!({
        "messageId": "512a856d-6e86-45b6-a7a3-8627a61ec790",
        "receiptHandle": "AQEB-handle",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": NOW.to_string(),
            "ApproximateFirstReceiveTimestamp": (NOW + 10).to_string(),
        },
        "messageAttributes": wire(attributes),
        "eventSource": "aws:sqs",
        "eventSourceARN": DLQ,
        "awsRegion": "eu-central-1",
    })
}

/// Returns attributes in the form in which Lambda passes them.
fn wire(attributes: &MessageAttributes) -> Value {
    let wire = |attribute: &MessageAttribute| match &attribute.value {
        AttributeValue::Text(text) => json!({ "stringValue": text, "dataType": attribute.data_type }),
        AttributeValue::Binary(bytes) => {
            json!({ "binaryValue": base64(bytes), "dataType": attribute.data_type })
        }
    };
    let entries = attributes.iter().map(|(name, attribute)| (name.clone(), wire(attribute)));
    Value::Object(entries.collect::<Map<_, _>>())
}

/// Returns the messages of an event with these records, or `None` if Lambda would not send it.
fn received(records: &[Value]) -> Option<Vec<SqsMessage>> {
    let event: SqsEvent = serde_json::from_value(json!({ "Records": records })).ok()?;
    SqsMessage::all_of(event, now()).ok()
}

/// Returns the same message with other attributes.
fn with_attributes(message: &SqsMessage, attributes: MessageAttributes) -> SqsMessage {
    SqsMessage { attributes, ..message.clone() }
}

/// Reports whether a text has only the characters of ids, which SQS gives and marks keep.
fn is_id(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":/._-".contains(c);
    (1..=512).contains(&id.len()) && id.chars().all(allowed)
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Asserts that two letters are the same as far as a letter must stay the same on its way.
fn assert_same(found: &Letter, expected: &Letter) {
    assert!(found.id == expected.id, "id {} became {}", expected.id, found.id);
    assert!(found.sqs.body == expected.sqs.body, "the body changed");
    assert!(found.notification == expected.notification, "the notification changed");
    assert!(found.origin == expected.origin, "{:?} became {:?}", expected.origin, found.origin);
    assert!(found.cause == expected.cause, "the cause changed");
}

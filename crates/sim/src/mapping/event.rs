//! The event that a mapping makes of a batch.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::message::{SimAttribute, SimAttributeValue, md5_of, md5_of_attributes};
use crate::names::{REGION, arn};
use crate::sqs::ReceivedSqsMessage;

/// Returns the event of a batch.
/// <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>
pub(super) fn event(queue: &str, messages: &[ReceivedSqsMessage]) -> String {
    let queue = arn("sqs", queue);
    let records: Vec<_> = messages.iter().map(|message| record(&queue, message)).collect();
    json!({ "Records": records }).to_string()
}

fn record(queue: &str, message: &ReceivedSqsMessage) -> Value {
    let payload = &message.payload;
    let mut system = json!({
        "ApproximateReceiveCount": message.receives.to_string(),
        "SentTimestamp": message.sent.to_string(),
        "SenderId": *message.sender,
        "ApproximateFirstReceiveTimestamp": message.first_received.to_string(),
    });
    let more = [
        ("AWSTraceHeader", payload.trace.as_deref()),
        ("MessageGroupId", payload.group.as_deref()),
        ("MessageDeduplicationId", payload.deduplication.as_deref()),
        ("SequenceNumber", message.sequence.as_deref()),
        ("DeadLetterQueueSourceArn", message.source.as_deref()),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            system[name] = value.into();
        }
    }
    let attributes: Map<_, _> =
        payload.attributes.iter().map(|(name, it)| (name.clone(), attribute(it))).collect();
    let mut record = json!({
        "messageId": *message.id,
        "receiptHandle": *message.handle,
        "body": payload.body,
        "attributes": system,
        "messageAttributes": attributes,
        "md5OfBody": md5_of(payload.body.as_bytes()),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue,
        "awsRegion": REGION,
    });
    if let Some(md5) = md5_of_attributes(&payload.attributes) {
        record["md5OfMessageAttributes"] = md5.into();
    }
    record
}

fn attribute(it: &SimAttribute) -> Value {
    let (name, value) = match &it.value {
        SimAttributeValue::Text(text) => ("stringValue", text.clone()),
        SimAttributeValue::Bytes(bytes) => ("binaryValue", STANDARD.encode(bytes)),
    };
    json!({ name: value, "dataType": it.kind, "stringListValues": [], "binaryListValues": [] })
}

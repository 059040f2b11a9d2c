//! Records of an event that a test edits as JSON, and the letters in them.

use redrive_core::letter::{BelievedClaims, Letter, SqsEvent, SqsMessage, TrustedOrigins};
use serde_json::{Value, json};

use super::{DLQ, NOW, SUBSCRIPTION, TOPIC, at};

/// Returns one record of an SQS event, received for the first time, just after it was sent.
pub fn record(body: &str) -> Value {
    json!({
        "messageId": "512a856d-6e86-45b6-a7a3-8627a61ec790",
        "receiptHandle": "AQEB-handle",
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": NOW.to_string(),
            "SenderId": "AIDAIEXAMPLE",
            "ApproximateFirstReceiveTimestamp": (NOW + 10).to_string(),
        },
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": DLQ,
        "awsRegion": "eu-central-1",
    })
}

/// Returns a text attribute of a record.
pub fn text_attribute(value: &str) -> Value {
    json!({ "stringValue": value, "stringListValues": [], "binaryListValues": [], "dataType": "String" })
}

/// Returns an SNS envelope as a queue gets it; `attributes` are in SNS's form.
pub fn envelope(message: &str, attributes: &Value) -> String {
    let link = "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=";
    json!({
        "Type": "Notification",
        "MessageId": "d3344452-ca4e-5849-9b44-70f435b0010d",
        "TopicArn": TOPIC,
        "Message": message,
        "Timestamp": "2026-11-01T11:59:58.351Z",
        "SignatureVersion": "1",
        "Signature": "c2FtcGxl",
        "SigningCertURL": "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-01.pem",
        "UnsubscribeURL": format!("{link}{SUBSCRIPTION}"),
        "MessageAttributes": attributes,
    })
    .to_string()
}

/// Returns the records as the function sees them, by way of the event that Lambda sends.
pub fn received_all(records: &[Value]) -> Vec<SqsMessage> {
    let event: SqsEvent = serde_json::from_value(json!({ "Records": records })).unwrap();
    SqsMessage::all_of(event, at(NOW)).unwrap()
}

/// Returns one record as the function sees it.
pub fn received(record: &Value) -> SqsMessage {
    received_all(std::slice::from_ref(record)).remove(0)
}

/// Returns the letter in one record, whatever origin it claims.
pub fn letter(record: &Value) -> Letter {
    claiming(received(record))
}

/// Returns the letter in a message, whatever origin it claims.
pub fn claiming(message: SqsMessage) -> Letter {
    Letter::received(message, BelievedClaims { requeue: None, origins: &TrustedOrigins::all() })
}

/// Returns the letters of a file of `events/`, whatever origin they claim.
pub fn sample(file: &str) -> Vec<Letter> {
    let text = std::fs::read_to_string(super::events().join(file)).unwrap();
    let event: SqsEvent = serde_json::from_str(&text).unwrap();
    SqsMessage::all_of(event, at(NOW)).unwrap().into_iter().map(claiming).collect()
}

//! Events of the form that the event source mapping sends.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";
pub(crate) const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";

/// The most bytes of a Lambda event, 6 MB.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
pub(crate) const LARGEST_EVENT: usize = 6 * 1024 * 1024;

/// The last part of each subscription's ARN.
pub(crate) const SUBSCRIPTION: &str = "43fe80b0-b10c-4081-9e18-5bdb8f9824e6";

/// Returns the name of the topic of this number.
pub(crate) fn topic_name(number: usize) -> String {
    format!("payments-{number}")
}

/// Returns the ARN of the topic of this number.
pub(crate) fn topic(number: usize) -> String {
    redrive_sim::arn("sns", &topic_name(number))
}

/// The part of a letter that has the requested size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizedPart {
    /// The whole body in the queue, which goes to a queue unchanged.
    Body,
    /// SNS's message in the body: it goes to a topic alone.
    Message,
}

/// Returns an event with so many letters of SNS, of these topics in turn, received for the first time just
/// now.
pub(crate) fn event(count: usize, size: usize, sized: SizedPart, topics: usize) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().to_string();
    let records: Vec<_> =
        (0..count).map(|index| record(index, &body(index, size, sized, index % topics), &now)).collect();
    json!({ "Records": records }).to_string()
}

/// Returns an event whose bodies are no envelopes.
pub(crate) fn raw_event(count: usize, size: usize) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().to_string();
    let records: Vec<_> = (0..count).map(|index| record(index, &filling(index, size), &now)).collect();
    json!({ "Records": records }).to_string()
}

fn body(index: usize, size: usize, sized: SizedPart, topic_number: usize) -> String {
    let topic = topic(topic_number);
    let unsubscribe = format!(
        "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={}",
        format_args!("{topic}:{SUBSCRIPTION}")
    );
    let envelope = |message: &str| {
        json!({
            "Type": "Notification",
            "MessageId": id(index),
            "TopicArn": topic,
            "Message": message,
            "Timestamp": "2026-11-01T11:59:58.351Z",
            "SignatureVersion": "1",
            "Signature": "c2FtcGxl".repeat(43),
            "SigningCertURL": "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
            "UnsubscribeURL": unsubscribe,
        })
        .to_string()
    };
    match sized {
        SizedPart::Message => envelope(&filling(index, size)),
        SizedPart::Body => {
            let rest = size.checked_sub(envelope("").len()).expect("a body has room for the envelope");
            let body = envelope(&"x".repeat(rest));
            assert_eq!(body.len(), size);
            body
        }
    }
}

fn filling(index: usize, size: usize) -> String {
    let mut text = format!("override {index} ");
    let rest = size - text.len();
    text.extend(std::iter::repeat_n('x', rest));
    text
}

fn id(index: usize) -> String {
    format!("512a856d-6e86-45b6-a7a3-{index:012}")
}

fn record(index: usize, body: &str, now: &str) -> Value {
    json!({
        "messageId": id(index),
        "receiptHandle": format!("AQEB{}{index:08}", "c2FtcGxlIHJlY2VpcHQgaGFuZGxl".repeat(10)),
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": now,
            "SenderId": "AIDAIEXAMPLESNSSENDER",
            "ApproximateFirstReceiveTimestamp": now,
        },
        "messageAttributes": {},
        "md5OfBody": "5ccaf2b87640085f8ad66c8b55b627d7",
        "eventSource": "aws:sqs",
        "eventSourceARN": DLQ,
        "awsRegion": "eu-central-1",
    })
}

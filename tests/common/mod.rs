//! What the tests of the pure core share: messages as Lambda hands them over, and properties.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of this")]

use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};

use aws_lambda_events::sqs::SqsEvent;
use jiff::Timestamp;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};
use serde_json::{Value, json};
use sns_redrive::letter::{Letter, Origins, SqsMessage, Trust};

/// The present of most tests, milliseconds: 2026-11-01T12:00:00Z, as in `events/`.
pub const NOW: i64 = 1_793_534_400_000;

pub const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-dlq";
pub const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:orders";
pub const SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:orders:43fe80b0-b10c-4081-9e18-5bdb8f9824e6";

/// A point in time by its milliseconds.
pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

/// One record of an SQS event: received for the first time, just after it was sent.
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

/// A text attribute of a record.
pub fn text_attribute(value: &str) -> Value {
    json!({ "stringValue": value, "stringListValues": [], "binaryListValues": [], "dataType": "String" })
}

/// An SNS envelope as a queue gets it; `attributes` in SNS's form.
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

/// The records as the function sees them, by way of the event that Lambda sends.
pub fn received_all(records: &[Value]) -> Vec<SqsMessage> {
    let event: SqsEvent = serde_json::from_value(json!({ "Records": records })).unwrap();
    SqsMessage::all_of(event).unwrap()
}

/// One record as the function sees it.
pub fn received(record: &Value) -> SqsMessage {
    received_all(std::slice::from_ref(record)).remove(0)
}

/// The letter in one record, whatever origin it claims.
pub fn letter(record: &Value) -> Letter {
    claiming(received(record))
}

/// A letter, whatever origin it claims.
pub fn claiming(message: SqsMessage) -> Letter {
    Letter::received(message, Trust { requeue: None, origins: &Origins::all() })
}

/// The letters of a file of `events/`, whatever origin they claim.
pub fn sample(file: &str) -> Vec<Letter> {
    let path = format!("{}/events/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let event: SqsEvent = serde_json::from_str(&text).unwrap();
    SqsMessage::all_of(event).unwrap().into_iter().map(claiming).collect()
}

/// Tries a law on many random inputs. A failure prints the smallest input that breaks it, and the
/// seed by which `PROPTEST_RNG_SEED=<seed>` repeats the run.
pub fn holds<S>(cases: u32, inputs: &S, law: impl Fn(S::Value) -> TestCaseResult)
where
    S: Strategy,
    S::Value: Debug,
{
    let seed = match Config::default().rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(cases),
    };
    let config =
        Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    if let Err(failure) = TestRunner::new(config).run(inputs, law) {
        panic!("PROPTEST_RNG_SEED={seed}\n{failure}");
    }
}

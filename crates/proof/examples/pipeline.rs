//! A benchmark of the part without I/O, on one core: a message of the queue becomes a letter, and the policy
//! decides about it.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use jiff::Timestamp;
use redrive_core::letter::{Letter, SqsEvent, SqsMessage};
use redrive_core::policy::{LetterFacts, Policy};
use serde_json::json;

/// The function's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LETTERS: usize = 1_000;

fn main() {
    divan::main();
}

/// Returns two policies: the default alone, and the default after twenty rules that do not match.
fn policies() -> [(&'static str, Policy); 2] {
    let rules: Vec<_> = (0..20)
        .map(|number| {
            json!({
                "name": format!("rule-{number}"),
                "match": { "messageAttributes": { "tenant": [format!("tenant-{number}")] } },
                "action": "archive",
            })
        })
        .collect();
    let many = json!({ "default": { "target": "origin" }, "rules": rules });
    [("built-in", Policy::parse("{}").unwrap()), ("20 rules", Policy::parse(&many.to_string()).unwrap())]
}

/// Returns an event of letters whose bodies, the envelopes of SNS, have this size.
fn event(size: usize) -> SqsEvent {
    let envelope = |message: &str| {
        json!({
            "Type": "Notification",
            "MessageId": "512a856d-6e86-45b6-a7a3-8627a61ec790",
            "TopicArn": "arn:aws:sns:eu-central-1:123456789012:payments",
            "Message": message,
            "Timestamp": "2026-11-01T11:59:58.351Z",
            "SignatureVersion": "1",
            "Signature": "c2FtcGxl".repeat(43),
            "SigningCertURL": "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
            "UnsubscribeURL": "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=\
                arn:aws:sns:eu-central-1:123456789012:payments:43fe80b0-b10c-4081-9e18-5bdb8f9824e6",
            "MessageAttributes": { "tenant": { "Type": "String", "Value": "gold" } },
        })
        .to_string()
    };
    let rest = size - envelope("").len();
    let body = envelope(&"x".repeat(rest));
    let record = |index: usize| {
        json!({
            "messageId": format!("m-{index}"),
            "receiptHandle": "AQEB",
            "body": body,
            "attributes": {
                "ApproximateReceiveCount": "1",
                "SentTimestamp": "1793534398412",
                "SenderId": "AIDAIEXAMPLE",
                "ApproximateFirstReceiveTimestamp": "1793534398431",
            },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:payments-dlq",
            "awsRegion": "eu-central-1",
        })
    };
    let records: Vec<_> = (0..LETTERS).map(record).collect();
    serde_json::from_value(json!({ "Records": records })).unwrap()
}

#[divan::bench(args = [2_048, 16_384, 65_536])]
fn built_in_policy(bencher: Bencher, size: usize) {
    run(bencher, size, 0);
}

#[divan::bench(args = [2_048, 16_384, 65_536])]
fn twenty_rules(bencher: Bencher, size: usize) {
    run(bencher, size, 1);
}

fn run(bencher: Bencher, size: usize, policy: usize) {
    let (_, policy) = &policies()[policy];
    let event = event(size);
    let facts = LetterFacts::default();
    let now: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
    bencher.counter(ItemsCount::new(LETTERS)).with_inputs(|| event.clone()).bench_local_values(|event| {
        for message in SqsMessage::all_of(event, now).unwrap() {
            let letter = Letter::parse(message);
            let rule = policy.rule_for(&letter);
            black_box(rule.decide(&letter, &facts, now));
        }
    });
}

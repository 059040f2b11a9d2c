//! The reading of a dead-letter queue's messages: every form that AWS leaves there, messages that only look
//! like one, and the parts that must never be printed.

mod anything;
mod foreign_events;
mod forms;
mod mark;
mod next_mark;
mod printing;
mod recorded;
mod samples;
mod strange_events;

use proptest::prelude::*;
use redrive_core::arn::Arn;
use redrive_core::letter::{
    AttributeValue, BadEvent, BelievedClaims, Letter, LetterCause, MARK_ATTRIBUTE, Mark, MessageAttribute,
    MessageAttributes, MessageDigest, Notification, Origin, OriginClaim, ReplayTarget, RequeueMark, SqsEvent,
    SqsMessage, TrustedOrigins, original_event,
};
use redrive_testing::record::{
    claiming, envelope, letter, received, received_all, record, sample, text_attribute,
};
use redrive_testing::{DLQ, FIFO_DLQ, NOW, PROJECTOR, SUBSCRIPTION, TOPIC, at, holds, made_for};
use serde_json::{Value, json};

const BILLING_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:payments:632be099-8c45-4e84-a963-95515684f2e0";
const FUNCTION_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:payments:42f6a085-cc9a-44f4-b486-a8ff9c06c475";

fn arn(text: &str) -> Arn {
    text.parse().unwrap()
}

fn text(data_type: &str, value: &str) -> MessageAttribute {
    MessageAttribute { data_type: data_type.into(), value: AttributeValue::Text(value.into()) }
}

fn binary(value: &[u8]) -> MessageAttribute {
    MessageAttribute { data_type: "Binary".into(), value: AttributeValue::Binary(value.to_vec()) }
}

fn attributes<const N: usize>(attributes: [(&str, MessageAttribute); N]) -> MessageAttributes {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notification_of(
    id: &str,
    subscription: &str,
    message: &str,
    attributes: MessageAttributes,
) -> Notification {
    Notification {
        message_id: id.into(),
        topic: arn(TOPIC),
        subscription: Some(arn(subscription)),
        subject: Some("Order placed".into()),
        attributes,
        digest: MessageDigest::of(message),
    }
}

/// Returns the only letter of a sample.
fn only(file: &str) -> Letter {
    let mut letters = sample(file);
    assert_eq!(letters.len(), 1, "{file}");
    letters.remove(0)
}

// Debug of a letter hides its content, so `assert_eq!` would not show a difference.
#[track_caller]
fn assert_same_notification(found: Option<&Notification>, expected: &Notification) {
    let found = found.unwrap();
    assert_eq!(found.subject, expected.subject);
    assert_eq!(found.attributes.keys().collect::<Vec<_>>(), expected.attributes.keys().collect::<Vec<_>>());
    for (name, value) in &expected.attributes {
        assert!(found.attributes[name] == *value, "{name}: {:?}", found.attributes[name]);
    }
    assert_eq!(found, expected);
}

#[track_caller]
fn assert_cause(letter: &Letter, code: &str, message: &str) {
    let LetterCause { code: found_code, message: found_message } = letter.cause.as_ref().unwrap();
    assert_eq!((found_code.as_deref(), found_message.as_deref()), (Some(code), Some(message)));
}

/// Returns the letter in an envelope with one field changed, or removed if `value` is `"(absent)"`.
fn altered(field: &str, value: &Value) -> Letter {
    let mut body: Value = serde_json::from_str(&envelope("hello", &json!({}))).unwrap();
    if value == &json!("(absent)") {
        body.as_object_mut().unwrap().remove(field);
    } else {
        body[field] = value.clone();
    }
    letter(&record(&body.to_string()))
}

fn lambda_event(records: &Value) -> String {
    json!({ "Records": records }).to_string()
}

fn lambda_record() -> Value {
    json!({ "EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": SUBSCRIPTION, "Sns": {
        "Type": "Notification", "MessageId": "m", "TopicArn": TOPIC, "Subject": null, "Message": "hello",
        "Timestamp": "2026-11-01T11:56:55.750Z", "SigningCertUrl": "", "UnsubscribeUrl": "",
        "MessageAttributes": {} } })
}

fn with_lambda_attributes(body: &str) -> Value {
    let mut record = record(body);
    record["messageAttributes"] =
        json!({ "RequestID": text_attribute("r"), "ErrorCode": text_attribute("200") });
    record
}

const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:requeue";
const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";

/// Returns a letter in the requeue, and its mark: SQS had moved it to its dead-letter queue, and it was
/// replayed once.
fn in_the_requeue() -> (Letter, Mark) {
    let mark = Mark {
        spent: 5,
        id: "letter-1".into(),
        first: at(NOW - 60_000),
        generation: 1,
        digest: MessageDigest::of("hello"),
        passes: 6,
        published: 1,
        early: true,
        requeued: RequeueMark {
            dlq: Some(arn(DLQ)),
            source: Some(arn(WORKER)),
            due: Some(at(NOW + 1)),
            earlier: 2,
            back: Some(at(NOW - 1)),
            to: Some(ReplayTarget::Topic),
            edited: true,
        },
    };
    let mut record = record("hello");
    record["eventSourceARN"] = REQUEUE.into();
    record["messageAttributes"][MARK_ATTRIBUTE] = text_attribute(mark.to_attribute().text().unwrap());
    let trust = BelievedClaims { requeue: Some(&arn(REQUEUE)), origins: TrustedOrigins::none() };
    (Letter::received(received(&record), trust), mark)
}

//! What is read from the messages of a dead-letter queue: every form that AWS leaves there, what only
//! looks like one, and what must never be printed.

use aws_lambda_events::sqs::SqsEvent;
use proptest::prelude::*;
use redrive_core::arn::Arn;
use redrive_core::letter::{
    Attribute, AttributeValue, Attributes, BadEvent, Cause, Claim, Digest, Letter, MARK_ATTRIBUTE, Mark,
    Notification, Origin, Origins, ReplayTarget, Requeued, SqsMessage, Trust, original_event,
};
use redrive_testing::record::{envelope, letter, received, received_all, record, sample, text_attribute};
use redrive_testing::{DLQ, NOW, SUBSCRIPTION, TOPIC, at, holds};
use serde_json::{Value, json};

const BILLING_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:orders:632be099-8c45-4e84-a963-95515684f2e0";
const FUNCTION_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:orders:42f6a085-cc9a-44f4-b486-a8ff9c06c475";

fn arn(text: &str) -> Arn {
    text.parse().unwrap()
}

fn text(data_type: &str, value: &str) -> Attribute {
    Attribute { data_type: data_type.into(), value: AttributeValue::Text(value.into()) }
}

fn binary(value: &[u8]) -> Attribute {
    Attribute { data_type: "Binary".into(), value: AttributeValue::Binary(value.to_vec()) }
}

fn attributes<const N: usize>(attributes: [(&str, Attribute); N]) -> Attributes {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notification_of(id: &str, subscription: &str, message: &str, attributes: Attributes) -> Notification {
    Notification {
        message_id: id.into(),
        topic: arn(TOPIC),
        subscription: Some(arn(subscription)),
        subject: Some("Order placed".into()),
        attributes,
        digest: Digest::of(message),
    }
}

/// The only letter of a sample.
fn only(file: &str) -> Letter {
    let mut letters = sample(file);
    assert_eq!(letters.len(), 1, "{file}");
    letters.remove(0)
}

// Debug of a letter hides what it carries, so `assert_eq!` would not show a difference.
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
    let Cause { code: found_code, message: found_message } = letter.cause.as_ref().unwrap();
    assert_eq!((found_code.as_deref(), found_message.as_deref()), (Some(code), Some(message)));
}

// ---------------------------------------------------------------------------------------------
// The sample events

#[test]
fn an_envelope_of_sns() {
    let letter = only("envelope.json");
    assert_eq!(letter.origin, Origin::Sns);
    let message = "{\"event\":\"order-placed\",\"orderId\":\"o-1001\",\"customer\":\"c-17\",\"total\":49.9,\
        \"note\":\"Grüße & <thanks> \\\"ok\\\"\\n\"}";
    let attributes = attributes([
        ("tenant", text("String", "gold")),
        ("priority", text("Number", "3")),
        ("tags", text("String.Array", "[\"new\", 7, true, null]")),
        ("checksum", binary(&[0, 1, 2, 3, 0xfd, 0xfe, 0xff])),
    ]);
    let expected = notification_of("d3344452-ca4e-5849-9b44-70f435b0010d", SUBSCRIPTION, message, attributes);
    assert_same_notification(letter.notification.as_ref(), &expected);
    assert_eq!(letter.message(), message);
    assert_eq!(letter.topic(), Some(&arn(TOPIC)));
    assert_eq!(letter.subscription(), Some(&arn(SUBSCRIPTION)));
    assert_eq!(letter.id.as_str(), format!("d3344452-ca4e-5849-9b44-70f435b0010d/{SUBSCRIPTION}"));
    assert_eq!(letter.id.to_string(), letter.id.as_str());
    assert_eq!((letter.mark.as_ref(), letter.cause.as_ref()), (None, None));
    assert_eq!((letter.spent(), letter.generation()), (0, 0));
    assert_eq!(letter.first_arrival(), at(1_793_534_398_412));
    assert_eq!(letter.sqs.message_id, "512a856d-6e86-45b6-a7a3-8627a61ec790");
    assert_eq!(letter.sqs.queue, arn(DLQ));
    assert_eq!(letter.sqs.sent, at(1_793_534_398_412));
    assert_eq!(letter.sqs.first_received, at(1_793_534_398_431));
    assert_eq!(letter.sqs.receive_count, 1);
}

#[test]
fn a_raw_delivery_of_sns() {
    let letter = only("raw.json");
    assert_eq!(letter.origin, Origin::Raw);
    assert_eq!((letter.topic(), letter.subscription(), letter.cause.as_ref()), (None, None, None));
    assert_eq!(letter.id.as_str(), "81efdbba-e454-47f0-ab1b-97631c2d244d");
    assert_eq!(
        letter.sqs.body,
        "{\"event\":\"order-placed\",\"orderId\":\"o-1002\",\"customer\":\"c-18\",\"total\":12}"
    );
    let expected = attributes([
        ("tenant", text("String", "silver")),
        ("priority", text("Number", "1.50")),
        ("checksum", binary(&[0, 1, 2, 3, 0xfd, 0xfe, 0xff])),
    ]);
    assert!(letter.sqs.attributes == expected, "{:?}", letter.sqs.attributes);
    assert_eq!(letter.sqs.group_id(), Some("customer-18"));
    assert_eq!(letter.message(), letter.sqs.body);
    let trace = "Root=1-69e5f0de-0123456789abcdef01234567;Parent=0123456789abcdef;Sampled=1";
    assert_eq!(letter.sqs.system("AWSTraceHeader"), Some(trace));
}

#[test]
fn envelopes_of_a_fifo_topic() {
    let letters = sample("fifo.json");
    let subscription =
        "arn:aws:sns:eu-central-1:123456789012:orders.fifo:c741ca07-c97a-40d7-b428-731c4aeebc23";
    let seen: Vec<_> = letters
        .iter()
        .map(|letter| {
            assert_eq!(letter.origin, Origin::Sns);
            assert!(letter.topic().unwrap().is_fifo() && letter.sqs.queue.is_fifo());
            assert_eq!(letter.subscription(), Some(&arn(subscription)));
            (letter.sqs.group_id().unwrap(), letter.sqs.system("MessageDeduplicationId").unwrap())
        })
        .collect();
    let expected = [
        ("customer-17", "o-1017-placed"),
        ("customer-42", "o-1042-placed"),
        ("customer-17", "o-1017-paid"),
        ("customer-42", "o-1042-cancelled"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_letter_of_an_asynchronous_invocation() {
    let letter = only("lambda-async.json");
    assert_eq!(letter.origin, Origin::LambdaAsync);
    let attributes = attributes([
        ("tenant", text("String", "gold")),
        ("priority", text("Number", "3")),
        ("checksum", binary(&[0, 1, 2, 0xfd, 0xfe, 0xff])),
    ]);
    let message = "{\"event\":\"order-placed\",\"orderId\":\"o-1003\"}";
    let expected =
        notification_of("1401aae3-0c18-539a-ac40-e6d5f3043639", FUNCTION_SUBSCRIPTION, message, attributes);
    assert_same_notification(letter.notification.as_ref(), &expected);
    assert_eq!(letter.message(), message);
    assert_cause(&letter, "200", "mail relay refused the connection");
    assert_eq!(letter.id.as_str(), format!("1401aae3-0c18-539a-ac40-e6d5f3043639/{FUNCTION_SUBSCRIPTION}"));
}

#[test]
fn a_record_of_an_on_failure_destination() {
    let letter = only("lambda-destination.json");
    let function = arn("arn:aws:lambda:eu-central-1:123456789012:function:orders-notifier");
    assert_eq!(letter.origin, Origin::LambdaDestination { function });
    assert_eq!(letter.message(), "{\"event\":\"order-placed\",\"orderId\":\"o-1004\"}");
    assert_eq!(letter.topic(), Some(&arn(TOPIC)));
    assert_eq!(letter.subscription(), Some(&arn(FUNCTION_SUBSCRIPTION)));
    let tenant = &letter.notification.as_ref().unwrap().attributes["tenant"];
    assert!(*tenant == text("String", "gold"), "{tenant:?}");
    assert_cause(&letter, "ConnectionRefusedError", "mail relay refused the connection");
}

#[test]
fn a_letter_that_sqs_moved_from_a_consumer() {
    let letter = only("sqs-consumer.json");
    let source = arn("arn:aws:sqs:eu-central-1:123456789012:orders-billing");
    assert_eq!(letter.origin, Origin::Sqs { source });
    assert_eq!(letter.message(), "{\"event\":\"order-paid\",\"orderId\":\"o-1005\"}");
    assert_eq!(letter.subscription(), Some(&arn(BILLING_SUBSCRIPTION)));
    assert_eq!(letter.notification.as_ref().unwrap().subject.as_deref(), Some("Order paid"));
    assert_eq!(letter.cause, None);
    assert_eq!(letter.sqs.receive_count, 4);
}

#[test]
fn a_letter_of_an_eventbridge_rule() {
    let letter = only("eventbridge.json");
    let rule = arn("arn:aws:events:eu-central-1:123456789012:rule/shop/orders-to-projector");
    let target = arn("arn:aws:lambda:eu-central-1:123456789012:function:orders-projector");
    assert_eq!(letter.origin, Origin::EventBridge { rule, target });
    assert_eq!(letter.notification, None);
    assert_cause(&letter, "THROTTLING", "Rate exceeded");
    assert_eq!(letter.id.as_str(), "1466dcd5-2531-40d4-bb8a-f945f755d53f");
}

#[test]
fn letters_that_come_back_carry_our_mark() {
    for (file, spent, first, id) in [
        ("late-retry.json", 3, 1_793_274_360_000, "0ac27ddb-e84b-5faa-9745-f295ba9feec4"),
        ("exhausted.json", 12, 1_793_102_400_000, "fb8fda82-7c64-5d02-8709-bb4c93a3b664"),
    ] {
        let letter = only(file);
        let id = format!("{id}/{SUBSCRIPTION}");
        let mark = Mark {
            spent,
            id: id.clone(),
            first: at(first),
            generation: 0,
            digest: Some(Digest::of(&letter.message())),
            passes: spent,
            published: 1,
            requeued: Requeued::default(),
        };
        assert_eq!(letter.mark, Some(mark), "{file}");
        assert_eq!((letter.spent(), letter.first_arrival()), (spent, at(first)), "{file}");
        assert_eq!(letter.id.as_str(), id, "{file}: the id of its first life, not of this one");
        assert!(!id.starts_with(&letter.notification.unwrap().message_id), "{file}");
    }
}

#[test]
fn garbage_is_raw_and_whole() {
    let event = redrive_testing::sample("garbage");
    let letters = sample("garbage.json");
    assert_eq!(letters.len(), 10);
    for (letter, record) in letters.iter().zip(event["Records"].as_array().unwrap()) {
        assert_eq!(letter.origin, Origin::Raw);
        assert_eq!((&letter.notification, &letter.cause, &letter.mark), (&None, &None, &None));
        assert_eq!(letter.sqs.body, record["body"], "byte for byte");
        assert_eq!(letter.id.as_str(), record["messageId"]);
    }
}

#[test]
fn a_mixed_batch_keeps_its_order() {
    let letters = sample("mixed.json");
    let origins: Vec<_> = letters.iter().map(|letter| letter.origin.name()).collect();
    let expected = [
        "sns",
        "sns",
        "raw",
        "lambda-async",
        "lambda-destination",
        "sqs",
        "eventbridge",
        "raw",
        "sns",
        "sns",
    ];
    assert_eq!(origins, expected);
    let spent: Vec<_> = letters.iter().map(Letter::spent).collect();
    assert_eq!(spent, [0, 0, 0, 0, 0, 0, 0, 0, 1, 12]);
}

#[test]
fn every_sample_event_is_read() {
    let mut ids = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(redrive_testing::events()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for letter in sample(&name) {
            assert!(ids.insert(letter.sqs.message_id.clone()), "{name} repeats a message id");
        }
    }
    assert!(ids.len() >= 32, "{}", ids.len());
}

// ---------------------------------------------------------------------------------------------
// Forms and near misses

/// The letter in an envelope with one field changed; `null` takes it away.
fn altered(field: &str, value: &Value) -> Letter {
    let mut body: Value = serde_json::from_str(&envelope("hello", &json!({}))).unwrap();
    if value == &json!("(absent)") {
        body.as_object_mut().unwrap().remove(field);
    } else {
        body[field] = value.clone();
    }
    letter(&record(&body.to_string()))
}

#[test]
fn only_a_whole_notification_is_an_envelope() {
    for (field, value) in [
        ("Type", json!("SubscriptionConfirmation")),
        ("Type", json!("(absent)")),
        ("MessageId", json!("")),
        ("MessageId", json!(3)),
        ("MessageId", json!("(absent)")),
        ("TopicArn", json!(SUBSCRIPTION)),
        ("TopicArn", json!(DLQ)),
        ("TopicArn", json!("orders")),
        ("TopicArn", json!("(absent)")),
        ("Message", json!({ "event": "order-placed" })),
        ("Message", json!(null)),
        ("Message", json!("(absent)")),
        ("Subject", json!(["Order placed"])),
        ("UnsubscribeURL", json!(7)),
        ("MessageAttributes", json!([])),
        ("MessageAttributes", json!({ "a": "b" })),
        ("MessageAttributes", json!({ "a": { "Type": "String" } })),
        ("MessageAttributes", json!({ "a": { "Type": "String", "Value": 3 } })),
        ("MessageAttributes", json!({ "a": { "Type": "Binary", "Value": "not base64!" } })),
    ] {
        let letter = altered(field, &value);
        assert_eq!(letter.origin, Origin::Raw, "{field}: {value}");
        assert_eq!(letter.id.as_str(), letter.sqs.message_id);
    }
}

#[test]
fn what_sns_may_leave_out_of_an_envelope_is_not_missed() {
    for (field, value) in [
        ("Subject", json!(null)),
        ("Subject", json!("(absent)")),
        ("MessageAttributes", json!(null)),
        ("MessageAttributes", json!("(absent)")),
        ("Signature", json!("(absent)")),
        ("Timestamp", json!("(absent)")),
        ("Message", json!("")),
        ("Invented", json!({ "by": ["a", "later", "version"] })),
    ] {
        let letter = altered(field, &value);
        assert_eq!(letter.origin, Origin::Sns, "{field}: {value}");
        assert_eq!(letter.subscription(), Some(&arn(SUBSCRIPTION)), "{field}: {value}");
    }
    assert_eq!(letter(&record(&format!(" \n\t{}", envelope("hello", &json!({}))))).origin, Origin::Sns);
}

#[test]
fn the_unsubscribe_link_names_the_subscription() {
    let host = "https://sns.eu-central-1.amazonaws.com/";
    for (link, named) in [
        (format!("{host}?Action=Unsubscribe&SubscriptionArn={SUBSCRIPTION}"), true),
        (format!("{host}?SubscriptionArn={SUBSCRIPTION}&Action=Unsubscribe"), true),
        (format!("{host}?SubscriptionArn={}", SUBSCRIPTION.replace(':', "%3A")), true),
        (format!("{host}?Action=Unsubscribe&NoSubscriptionArn={SUBSCRIPTION}"), false),
        (format!("{host}?Action=Unsubscribe&SubscriptionArn={TOPIC}"), false),
        (format!("{host}?Action=Unsubscribe&SubscriptionArn=%ff%fe"), false),
        (format!("{host}{SUBSCRIPTION}"), false),
        (String::new(), false),
    ] {
        let letter = altered("UnsubscribeURL", &json!(link));
        assert_eq!(letter.origin, Origin::Sns, "{link}");
        assert_eq!(letter.subscription(), named.then(|| arn(SUBSCRIPTION)).as_ref(), "{link}");
        if !named {
            assert_eq!(letter.id.as_str(), letter.sqs.message_id, "{link}");
        }
    }
    assert_eq!(altered("UnsubscribeURL", &json!("(absent)")).subscription(), None);
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

#[test]
fn a_lambda_letter_holds_an_sns_message_only_in_an_event_of_sns() {
    let read = |records: &Value| {
        let letter = letter(&with_lambda_attributes(&lambda_event(records)));
        assert_eq!(letter.origin, Origin::LambdaAsync);
        letter.notification.is_some()
    };
    assert!(read(&json!([lambda_record()])));
    assert!(!read(&json!([])));
    assert!(!read(&json!([lambda_record(), lambda_record()])), "one letter cannot be answered for twice");
    let mut of_s3 = lambda_record();
    of_s3["EventSource"] = "aws:s3".into();
    assert!(!read(&json!([of_s3])));
    assert_eq!(letter(&with_lambda_attributes("3")).origin, Origin::LambdaAsync, "whatever was invoked");
}

#[test]
fn a_lambda_event_without_the_error_attributes_is_raw() {
    assert_eq!(letter(&record(&lambda_event(&json!([lambda_record()])))).origin, Origin::Raw);
    for only in ["RequestID", "ErrorCode"] {
        let mut record = record(&lambda_event(&json!([lambda_record()])));
        record["messageAttributes"][only] = text_attribute("200");
        assert_eq!(letter(&record).origin, Origin::Raw, "{only} alone");
    }
}

/// The cause in a destination's record whose answer is `response`, and whose context is `context`.
fn cause_in_destination(context: &Value, response: &Value) -> (Option<String>, Option<String>) {
    let body = json!({ "version": "1.0", "requestContext": { "requestId": "r", "approximateInvokeCount": 1,
        "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f", "condition": "EventAgeExceeded" },
        "requestPayload": { "Records": [lambda_record()] }, "responseContext": context, "responsePayload": response });
    let letter = letter(&record(&body.to_string()));
    assert_eq!(letter.origin.name(), "lambda-destination");
    assert!(letter.notification.is_some());
    let Cause { code, message } = letter.cause.unwrap();
    (code, message)
}

#[test]
fn a_destination_tells_the_error_as_far_as_the_function_did() {
    let context = json!({ "statusCode": 200, "functionError": "Unhandled" });
    let some = |text: &str| Some(text.to_owned());
    let error = json!({ "errorType": "E", "errorMessage": "m" });
    assert_eq!(cause_in_destination(&context, &error), (some("E"), some("m")));
    assert_eq!(
        cause_in_destination(&context, &json!({ "errorMessage": "m" })),
        (some("Unhandled"), some("m"))
    );
    for odd in [json!(null), json!("text"), json!([1]), json!({ "errorType": 3 })] {
        assert_eq!(cause_in_destination(&context, &odd), (some("Unhandled"), None), "{odd}");
        assert_eq!(cause_in_destination(&odd, &odd).0, some("EventAgeExceeded"), "{odd}");
    }
}

#[test]
fn the_message_of_an_error_is_kept_to_a_kilobyte() {
    let long = json!({ "errorType": "E", "errorMessage": "ü".repeat(5_000) });
    assert_eq!(cause_in_destination(&json!({}), &long).1, Some("ü".repeat(1024)));
}

#[test]
fn what_sqs_says_of_a_move_counts_more_than_attributes_and_body() {
    let source = "arn:aws:sqs:eu-central-1:123456789012:orders-billing";
    let mut record = with_lambda_attributes(&envelope("hello", &json!({})));
    assert_eq!(letter(&record).origin, Origin::Sns, "an envelope counts more than attributes");
    record["messageAttributes"]["RULE_ARN"] =
        text_attribute("arn:aws:events:eu-central-1:123456789012:rule/r");
    record["messageAttributes"]["TARGET_ARN"] = text_attribute(DLQ);
    let mut body = record.clone();
    body["body"] = "no envelope".into();
    assert_eq!(
        letter(&body).origin.name(),
        "eventbridge",
        "and the attributes of one service more than of another"
    );
    record["attributes"]["DeadLetterQueueSourceArn"] = source.into();
    assert_eq!(letter(&record).origin, Origin::Sqs { source: arn(source) });
    assert_eq!(letter(&record).topic(), Some(&arn(TOPIC)), "its body is still read");
    record["attributes"]["DeadLetterQueueSourceArn"] = "orders-billing".into();
    assert_eq!(letter(&record).origin.name(), "sns", "a source that is no ARN tells nothing");
}

// ---------------------------------------------------------------------------------------------
// Our mark

fn mark_text(spent: u32, id: &str) -> String {
    let msg = String::from(Digest::of("hello"));
    json!({ "v": 2, "spent": spent, "id": id, "first": 1_700_000_000_000_i64, "gen": 2, "msg": msg, "passes": 9 })
        .to_string()
}

#[test]
fn the_mark_is_found_wherever_attributes_travel() {
    let in_sns = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": mark_text(3, "sns") } });
    let mut in_lambda = lambda_record();
    in_lambda["Sns"]["MessageAttributes"] = in_sns.clone();
    let mut native = record("hello");
    native["messageAttributes"][MARK_ATTRIBUTE] = text_attribute(&mark_text(5, "sqs"));
    let mut both = native.clone();
    both["body"] = envelope("hello", &in_sns).into();
    for (record, spent, id) in [
        (record(&envelope("hello", &in_sns)), 3, "sns"),
        (with_lambda_attributes(&lambda_event(&json!([in_lambda]))), 3, "sns"),
        (native, 5, "sqs"),
        (both, 5, "sqs"),
    ] {
        let letter = letter(&record);
        assert_eq!((letter.spent(), letter.id.as_str(), letter.generation()), (spent, id, 2));
        assert_eq!(letter.first_arrival(), at(1_700_000_000_000));
    }
}

#[test]
fn a_mark_that_is_not_text_counts_as_none() {
    let mut record = record("hello");
    record["messageAttributes"][MARK_ATTRIBUTE] = json!({ "binaryValue": "AAEC", "stringListValues": [], "binaryListValues": [], "dataType": "Binary" });
    assert_eq!(letter(&record).mark, None);
}

fn mark_for(letter: &Letter, spent: u32) -> Mark {
    let id = letter.id.as_str().to_owned();
    Mark { generation: 0, ..Mark { id, ..letter.mark(spent) } }
}

/// A letter whose mark could not be read when it comes back would be retried for ever.
#[test]
fn whatever_id_a_letter_has_its_mark_is_read_when_it_comes_back() {
    let ids = prop_oneof![any::<String>(), "[ -~]{1,80}", "[\"\\\\\u{1}-\u{1f}ü]{100,600}", "[a-z]{1,3000}"];
    let in_mark = any::<bool>();
    holds(1_000, &(ids, in_mark), |(id, in_mark)| {
        let letter = if in_mark {
            let attributes = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": mark_text(1, &id) } });
            letter(&record(&envelope("hello", &attributes)))
        } else {
            altered("MessageId", &json!(id))
        };
        let mark = mark_for(&letter, 7);
        let attribute = mark.to_attribute();
        let back = Mark::find(&attributes([(MARK_ATTRIBUTE, attribute)]));
        prop_assert_eq!(back, Some(mark));
        Ok(())
    });
}

/// A consumer that copies attributes onto a message of its own copies the mark as well.
#[test]
fn a_mark_on_another_message_counts_no_retry_and_goes_on_counting_passes() {
    let mark = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": mark_text(3, "first/id") } });
    let own = letter(&record(&envelope("hello", &mark)));
    assert_eq!((own.spent(), own.passes, own.id.as_str()), (3, 9, "first/id"));
    let other = letter(&record(&envelope("another message", &mark)));
    let fresh = letter(&record(&envelope("another message", &json!({}))));
    assert_eq!((&other.mark, other.passes), (&None, 9));
    assert_eq!((&other.id, other.first_arrival(), other.generation()), (&fresh.id, at(NOW), 0));
    assert_eq!(other.mark(1), Mark { passes: 10, ..fresh.mark(1) });
    // Replayed by an operator, it begins afresh.
    assert_eq!(other.mark_for_replay(at(NOW), None, false).passes, 0);
}

/// Whoever put it there, what the mark says of the requeue stays true.
#[test]
fn a_mark_on_another_message_in_the_requeue_still_says_where_it_comes_from() {
    let (letter, mark) = in_the_requeue();
    let mut sqs = letter.sqs;
    sqs.body = "another message".to_owned();
    let other = Letter::parse_requeued(sqs, Origins::none());
    let requeued = Requeued { due: None, earlier: 0, ..mark.requeued.clone() };
    let id = other.sqs.message_id.clone();
    assert_eq!(other.mark, Some(Mark { spent: 0, published: 0, id, requeued, ..mark }));
    assert_eq!((other.dead_letter_queue(), other.passes), (&arn(DLQ), 6));
}

/// On its way it is wrapped and unwrapped, and stays the same message.
#[test]
fn a_mark_knows_its_message_in_every_form() {
    let mark = json!({ "dataType": "String", "stringValue": mark_text(3, "id") });
    let nested = envelope("hello", &json!({}));
    let of_nested =
        json!({ "v": 2, "spent": 3, "id": "id", "first": 0, "msg": String::from(Digest::of(&nested)) });
    for (body, mark) in [
        ("hello".to_owned(), &mark),
        (envelope("hello", &json!({})), &mark),
        (
            lambda_event(&json!([{ "EventSource": "aws:sns", "EventSubscriptionArn": SUBSCRIPTION,
            "Sns": serde_json::from_str::<Value>(&envelope("hello", &json!({}))).unwrap() }])),
            &mark,
        ),
        // A message that is an envelope itself, delivered raw.
        (nested, &text_attribute(&of_nested.to_string())),
    ] {
        let mut record = record(&body);
        record["messageAttributes"][MARK_ATTRIBUTE] = mark.clone();
        assert_eq!(letter(&record).spent(), 3, "{body}");
    }
}

/// A topic gets the message in a letter, or else its body as it stands, whatever that holds. However a copy of it comes
/// back, and whether its origin is believed or not, its mark counts.
#[test]
fn what_was_published_is_known_again_in_every_form() {
    let origins = Origins::all();
    let read = |record: &Value, origins| Letter::received(received(record), Trust { requeue: None, origins });
    let event = |message: &str, attributes: &Value| {
        let sns = serde_json::from_str::<Value>(&envelope(message, attributes)).unwrap();
        lambda_event(&json!([{ "EventSource": "aws:sns", "EventSubscriptionArn": SUBSCRIPTION, "Sns": sns }]))
    };
    let destination = |event: &str| {
        json!({
            "requestContext": { "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f",
                "condition": "RetriesExhausted" },
            "requestPayload": serde_json::from_str::<Value>(event).unwrap(),
        })
        .to_string()
    };
    let bodies = ["hello".to_owned(), envelope("hello", &json!({})), event("hello", &json!({}))];
    let bodies = bodies.into_iter().chain([destination(&event("hello", &json!({})))]);
    for (body, origins) in bodies.flat_map(|body| [(body.clone(), Origins::none()), (body, &origins)]) {
        for attributes in [json!({}), with_lambda_attributes("x")["messageAttributes"].clone()] {
            let mut first = record(&body);
            first["messageAttributes"] = attributes;
            let first = read(&first, origins);
            let mark = first.mark_for_topic(1);
            let published =
                first.notification.as_ref().map_or(first.sqs.body.clone(), |_| first.message().into_owned());
            let text = mark.to_attribute().text().unwrap().to_owned();
            let carried = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": text } });
            let mut raw = record(&published);
            raw["messageAttributes"] = json!({ MARK_ATTRIBUTE: text_attribute(&text) });
            let back = [
                record(&envelope(&published, &carried)),
                with_lambda_attributes(&event(&published, &carried)),
                record(&destination(&event(&published, &carried))),
                raw,
            ];
            for copy in back {
                for origins in [Origins::none(), origins] {
                    let copy = read(&copy, origins);
                    let known = (copy.spent(), copy.published(), copy.passes, copy.id.as_str());
                    assert_eq!(known, (1, 1, 1, first.id.as_str()), "{} as {}", published, copy.sqs.body);
                }
            }
        }
    }
}

#[test]
fn a_record_of_a_custom_event_bus_is_an_origin_of_its_own() {
    let bus = only("event-bus.json");
    assert_eq!((bus.origin.name(), bus.unlisted, bus.cause.is_none()), ("eventbridge-bus", None, true));
    for (pointer, value) in [
        ("/busArn", json!("arn:aws:events:eu-central-1:123456789012:event-bus/shop")),
        ("/busArn", json!("event-busv2/shop")),
        ("/failedMessages", json!("none")),
        ("/failedMessages", json!(null)),
    ] {
        let mut body: Value = serde_json::from_str(&bus.sqs.body).unwrap();
        *body.pointer_mut(pointer).unwrap() = value;
        assert_eq!(letter(&record(&body.to_string())).origin, Origin::Raw, "{pointer}");
    }
    let mut moved = record(&bus.sqs.body);
    moved["attributes"]["DeadLetterQueueSourceArn"] = WORKER.into();
    assert_eq!(
        letter(&moved).origin.name(),
        "sqs",
        "a consumer failed with it: it goes back to that consumer"
    );
}

/// A publisher with raw delivery writes attributes and body.
#[test]
fn an_origin_that_is_not_listed_for_the_queue_is_not_believed() {
    for (file, claim) in [
        ("lambda-async.json", Claim::LambdaAsync),
        ("lambda-destination.json", Claim::LambdaDestination),
        ("eventbridge.json", Claim::EventBridge),
    ] {
        let message = only(file).sqs;
        let read = |origins: &Origins| Letter::received(message.clone(), Trust { requeue: None, origins });
        let raw = read(Origins::none());
        assert_eq!((&raw.origin, raw.unlisted), (&Origin::Raw, Some(claim)), "{file}");
        assert_eq!((&raw.notification, &raw.cause, &raw.mark), (&None, &None, &None), "{file}");
        assert_eq!(raw.id.as_str(), raw.sqs.message_id, "{file}");
        assert!(raw.message() == raw.sqs.body, "{file}");
        for (queue, claims, listed) in [
            (None, vec![claim], true),
            (Some(arn(DLQ)), vec![claim], true),
            (Some(arn(WORKER)), vec![claim], false),
            (None, Claim::ALL.into_iter().filter(|other| *other != claim).collect(), false),
        ] {
            let mut origins = Origins::default();
            origins.add(queue.clone(), claims);
            let letter = read(&origins);
            let expected = if listed { (claim.name(), None) } else { ("raw", Some(claim)) };
            assert_eq!((letter.origin.name(), letter.unlisted), expected, "{file} {queue:?}");
        }
    }
}

#[test]
fn a_mark_does_not_grow_with_the_returns_of_its_letter() {
    let first = only("envelope.json");
    let mut sizes = std::collections::BTreeSet::new();
    let mut mark = Mark { published: 1, ..mark_for(&first, 1) };
    for spent in 1..=9 {
        let value = Attribute { ..Mark { spent, ..mark.clone() }.to_attribute() };
        sizes.insert(value.size());
        let mut body: Value = serde_json::from_str(&first.sqs.body).unwrap();
        let text = value.text().unwrap();
        body["MessageAttributes"][MARK_ATTRIBUTE] = json!({ "Type": "String", "Value": text });
        let back = letter(&record(&body.to_string()));
        assert_eq!((back.spent(), &back.id), (spent, &first.id));
        mark = mark_for(&back, spent);
    }
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}

// ---------------------------------------------------------------------------------------------
// Events that Lambda never sends

fn refused(event: &Value) -> BadEvent {
    let event: SqsEvent = serde_json::from_value(event.clone()).unwrap();
    SqsMessage::all_of(event).unwrap_err()
}

#[test]
fn a_record_that_could_not_be_answered_for_is_refused_with_its_place() {
    for (pointer, value, field) in [
        ("/messageId", json!(null), "messageId"),
        ("/messageId", json!(""), "messageId"),
        ("/receiptHandle", json!(null), "receiptHandle"),
        ("/receiptHandle", json!(""), "receiptHandle"),
        ("/eventSourceARN", json!(null), "eventSourceARN"),
        ("/eventSourceARN", json!("orders-dlq"), "eventSourceARN"),
        ("/attributes/SentTimestamp", json!("soon"), "SentTimestamp"),
        ("/attributes/SentTimestamp", json!("99999999999999999"), "SentTimestamp"),
        ("/attributes/ApproximateFirstReceiveTimestamp", json!(""), "ApproximateFirstReceiveTimestamp"),
        ("/attributes/ApproximateReceiveCount", json!("0"), "ApproximateReceiveCount"),
        ("/attributes/ApproximateReceiveCount", json!("many"), "ApproximateReceiveCount"),
        ("/attributes/ApproximateReceiveCount", json!("-1"), "ApproximateReceiveCount"),
    ] {
        let mut bad = record("hello");
        *bad.pointer_mut(pointer).unwrap() = value.clone();
        let found = refused(&json!({ "Records": [record("hello"), bad] }));
        assert_eq!(found, BadEvent::Field { index: 1, field }, "{pointer}: {value}");
    }
    for field in ["SentTimestamp", "ApproximateFirstReceiveTimestamp", "ApproximateReceiveCount"] {
        let mut bad = record("hello");
        bad["attributes"].as_object_mut().unwrap().remove(field);
        assert_eq!(refused(&json!({ "Records": [bad] })), BadEvent::Field { index: 0, field });
    }
}

#[test]
fn an_attribute_without_the_value_of_its_type_is_empty_and_fails_no_batch() {
    let text = |text: &str| AttributeValue::Text(text.into());
    for (attribute, value) in [
        (json!({ "stringListValues": [], "binaryListValues": [], "dataType": "String" }), text("")),
        (json!({ "stringValue": "x", "dataType": "Binary" }), AttributeValue::Binary(Vec::new())),
        (json!({ "stringValue": "x", "stringListValues": [], "binaryListValues": [] }), text("x")),
    ] {
        let mut odd = record("hello");
        odd["messageAttributes"]["a"] = attribute;
        assert_eq!(letter(&odd).sqs.attributes["a"].value, value);
    }
}

#[test]
fn what_is_no_id_is_taken_neither_from_a_mark_nor_from_a_message() {
    for id in ["a b", "a\nb", "<script>", "{\"a\":1}", "\u{e4}"] {
        let mark = Attribute::string(json!({ "v": 1, "spent": 3, "id": id, "first": 0 }).to_string());
        assert_eq!(Mark::find(&[(MARK_ATTRIBUTE.to_owned(), mark)].into()), None, "{id}");
        let mut body: Value = serde_json::from_str(&only("envelope.json").sqs.body).unwrap();
        body["MessageId"] = id.into();
        let found = letter(&record(&body.to_string()));
        assert_eq!(found.id.as_str(), found.sqs.message_id, "{id}");
    }
}

#[test]
fn an_event_of_two_queues_is_refused() {
    let mut other = record("hello");
    other["eventSourceARN"] = "arn:aws:sqs:eu-central-1:123456789012:requeue".into();
    let found = refused(&json!({ "Records": [record("1"), record("2"), other] }));
    let expected = BadEvent::TwoQueues {
        index: 2,
        expected: arn(DLQ),
        found: arn("arn:aws:sqs:eu-central-1:123456789012:requeue"),
    };
    assert_eq!(found, expected);
    assert_eq!(
        found.to_string(),
        format!(
            "Records[2] is from arn:aws:sqs:eu-central-1:123456789012:requeue, others of this event from {DLQ}"
        )
    );
}

#[test]
fn an_event_without_records_holds_no_messages() {
    assert!(received_all(&[]).is_empty());
    let mut bodiless = record("");
    bodiless.as_object_mut().unwrap().remove("body");
    assert_eq!(received(&bodiless).body, "");
}

#[test]
fn attributes_with_a_custom_type_keep_it() {
    let mut record = record("hello");
    record["messageAttributes"] = json!({
        "picture": { "binaryValue": "AAEC", "stringListValues": [], "binaryListValues": [], "dataType": "Binary.png" },
        "price": { "stringValue": "1.50", "stringListValues": [], "binaryListValues": [], "dataType": "Number.eur" },
    });
    let expected = attributes([
        (
            "picture",
            Attribute { data_type: "Binary.png".into(), value: AttributeValue::Binary(vec![0, 1, 2]) },
        ),
        ("price", text("Number.eur", "1.50")),
    ]);
    assert!(received(&record).attributes == expected);
    assert_eq!(expected["picture"].size(), 13, "type and value count towards the size limits");
}

// ---------------------------------------------------------------------------------------------
// Whatever somebody writes

fn parse_anything(body: &str, attributes: &Value) -> Letter {
    let mut record = record(body);
    record["messageAttributes"] = attributes.clone();
    let letter = letter(&record);
    assert!(letter.sqs.body == body, "byte for byte");
    letter
}

/// JSON that leans towards the words of letters.
fn letter_like() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(vec![
            "Notification",
            "aws:sns",
            TOPIC,
            SUBSCRIPTION,
            DLQ,
            "AAEC",
            "Binary",
            "String"
        ])
        .prop_map(Value::from),
        Just(Value::from(envelope("hello", &json!({})))),
    ];
    let keys = prop::sample::select(vec![
        "Type",
        "MessageId",
        "TopicArn",
        "Subject",
        "Message",
        "MessageAttributes",
        "UnsubscribeURL",
        "UnsubscribeUrl",
        "Records",
        "Sns",
        "EventSource",
        "EventSubscriptionArn",
        "requestContext",
        "requestPayload",
        "responseContext",
        "responsePayload",
        "functionArn",
        "condition",
        "Value",
        "sns-redrive",
    ]);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let objects = prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner.clone(), 0..8);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            objects.prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

/// An envelope, a Lambda event or a destination's record with one part replaced.
fn damaged() -> impl Strategy<Value = Value> {
    let whole = vec![
        serde_json::from_str(&envelope("hello", &json!({ "a": { "Type": "String", "Value": "b" } })))
            .unwrap(),
        json!({ "Records": [lambda_record()] }),
        json!({ "requestContext": { "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f", "condition": "c" },
            "requestPayload": { "Records": [lambda_record()] }, "responsePayload": {} }),
    ];
    (prop::sample::select(whole), any::<prop::sample::Index>(), letter_like()).prop_map(
        |(mut whole, index, part): (Value, _, _)| {
            let keys: Vec<_> = whole.as_object().unwrap().keys().cloned().collect();
            whole[&keys[index.index(keys.len())]] = part;
            whole
        },
    )
}

fn any_attributes() -> impl Strategy<Value = Value> {
    let names =
        prop::sample::select(vec!["RequestID", "ErrorCode", "RULE_ARN", "TARGET_ARN", MARK_ATTRIBUTE, "x"]);
    let values = prop_oneof![
        any::<String>(),
        Just(DLQ.to_owned()),
        letter_like().prop_map(|json| json.to_string()),
        (any::<i64>(), any::<i64>()).prop_map(|(spent, first)| {
            json!({ "v": 1, "spent": spent, "id": "x", "first": first, "due": first }).to_string()
        }),
    ];
    prop::collection::btree_map(names, values, 0..4).prop_map(|map| {
        map.into_iter().map(|(name, value)| (name.to_owned(), text_attribute(&value))).collect::<Value>()
    })
}

#[test]
fn no_message_is_too_strange_to_be_read() {
    let bytes = prop::collection::vec(any::<u8>(), 0..200)
        .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let bodies = prop_oneof![
        any::<String>(),
        bytes,
        letter_like().prop_map(|json| json.to_string()),
        damaged().prop_map(|json| json.to_string()),
        (damaged(), any::<prop::sample::Index>()).prop_map(|(json, end)| {
            let text: Vec<_> = json.to_string().chars().collect();
            text[..end.index(text.len())].iter().collect()
        }),
    ];
    let attributes = prop_oneof![Just(json!({})), any_attributes()];
    holds(3_000, &(bodies, attributes), |(body, attributes)| {
        let letter = parse_anything(&body, &attributes);
        prop_assert!(!letter.id.as_str().is_empty());
        if letter.origin == Origin::Raw {
            prop_assert_eq!(letter.notification, None);
        }
        Ok(())
    });
}

#[test]
fn a_megabyte_of_nesting_is_only_a_raw_letter() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"requestPayload\":", "}"), ("{\"Message\":", "}")]
    {
        let depth = 1_000_000 / (open.len() + close.len());
        let nested = format!("{}0{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(parse_anything(&nested, &json!({})).origin, Origin::Raw, "{open}");
        assert_eq!(parse_anything(&open.repeat(depth), &json!({})).origin, Origin::Raw, "{open} alone");
        let mark = json!({ MARK_ATTRIBUTE: text_attribute(&nested) });
        assert_eq!(parse_anything("hello", &mark).mark, None, "{open} as a mark");
    }
}

#[test]
fn nesting_inside_a_whole_letter_does_not_hide_it() {
    let nested = format!("{}0{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    assert_eq!(letter(&record(&envelope(&nested, &json!({})))).message(), nested);
    let inserted = |body: String| body.replacen('{', &format!("{{\"Invented\":{nested},"), 1);
    assert_eq!(letter(&record(&inserted(envelope("hello", &json!({}))))).origin, Origin::Sns);
    let event = inserted(lambda_event(&json!([lambda_record()])));
    assert!(letter(&with_lambda_attributes(&event)).notification.is_some());
}

// ---------------------------------------------------------------------------------------------
// What must never be printed

const SECRETS: [&str; 8] = [
    "s3cret-body",
    "s3cret-subject",
    "s3cret-message",
    "s3cret-value",
    "czNjcmV0", // base64 of "s3cret"
    "s3cret-handle",
    "s3cret-error",
    "Unsubscribe",
];

/// One letter of each origin, with a secret wherever AWS puts what must not be logged.
fn letters_with_secrets() -> Vec<Letter> {
    let secret = json!({ "a": { "Type": "String", "Value": "s3cret-value" }, "b": { "Type": "Binary", "Value": "czNjcmV0" } });
    let mut body: Value = serde_json::from_str(&envelope("s3cret-message", &secret)).unwrap();
    body["Subject"] = "s3cret-subject".into();
    let mut event = lambda_record();
    event["Sns"]["Message"] = "s3cret-message".into();
    event["Sns"]["Subject"] = "s3cret-subject".into();
    event["Sns"]["MessageAttributes"] = secret;
    event["Sns"]["UnsubscribeUrl"] = body["UnsubscribeURL"].clone();
    let event = json!({ "Records": [event] });
    let function = "arn:aws:lambda:eu-central-1:123456789012:function:f";
    let destination = json!({ "requestContext": { "functionArn": function, "condition": "RetriesExhausted" },
        "requestPayload": event, "responsePayload": { "errorType": "E", "errorMessage": "s3cret-error" } });

    let mut moved = record(&body.to_string());
    moved["attributes"]["DeadLetterQueueSourceArn"] = DLQ.into();
    let mut lambda = with_lambda_attributes(&event.to_string());
    lambda["messageAttributes"]["ErrorMessage"] = text_attribute("s3cret-error");
    let mut eventbridge = record("s3cret-body");
    eventbridge["messageAttributes"] = json!({ "RULE_ARN": text_attribute(DLQ), "TARGET_ARN": text_attribute(DLQ),
        "ERROR_CODE": text_attribute("NO_PERMISSIONS"), "ERROR_MESSAGE": text_attribute("s3cret-error") });
    let records = [
        record(&body.to_string()),
        moved,
        lambda,
        record(&destination.to_string()),
        eventbridge,
        record("s3cret-body"),
    ];
    let letters: Vec<_> = records
        .into_iter()
        .map(|mut record| {
            record["receiptHandle"] = "s3cret-handle".into();
            record["attributes"]["AWSTraceHeader"] = "s3cret-value".into();
            record["messageAttributes"]["secret"] = text_attribute("s3cret-value");
            record["messageAttributes"]["bytes"] =
                json!({ "binaryValue": "czNjcmV0", "stringListValues": [], "binaryListValues": [], "dataType": "Binary" });
            letter(&record)
        })
        .collect();
    let origins: Vec<_> = letters.iter().map(|letter| letter.origin.name()).collect();
    assert_eq!(origins, ["sns", "sqs", "lambda-async", "lambda-destination", "eventbridge", "raw"]);
    letters
}

#[test]
fn nothing_that_a_letter_carries_is_printed() {
    for letter in letters_with_secrets() {
        let values = letter
            .sqs
            .attributes
            .values()
            .chain(letter.notification.iter().flat_map(|sns| sns.attributes.values()));
        let mut printed = vec![
            format!("{letter:?}"),
            format!("{letter:#?}"),
            format!("{:?}", letter.sqs),
            format!("{:#?}", letter.notification),
            format!("{:#?}", letter.cause),
            format!("{:#?}", letter.mark),
            format!("{:?} {}", letter.id, letter.id),
            format!("{:?}", letter.origin),
            format!("{:?}", letter.sqs.attributes),
        ];
        printed.extend(values.map(|value| format!("{value:?} {:?}", value.value)));
        for text in printed {
            for secret in SECRETS {
                assert!(!text.contains(secret), "{secret} of a {} letter in {text}", letter.origin.name());
            }
            assert!(!text.contains("115, 51, 99"), "bytes of a {} letter in {text}", letter.origin.name());
        }
    }
}

#[test]
fn what_an_operator_needs_is_printed() {
    let printed = format!("{:?}", only("lambda-async.json"));
    for needed in
        ["2dc787db-a6b8-41ca-89e0-8edfe6fe0075", "LambdaAsync", TOPIC, FUNCTION_SUBSCRIPTION, DLQ, "200"]
    {
        assert!(printed.contains(needed), "{needed} in {printed}");
    }
    let sns = format!("{:?}", only("envelope.json").notification);
    for needed in ["message_id", TOPIC, SUBSCRIPTION] {
        assert!(sns.contains(needed), "{needed} in {sns}");
    }
    let (number, bytes) = (text("Number", "3"), binary(&[1, 2]));
    assert_eq!(format!("{number:?}, {bytes:?}"), "Number of 7 bytes, Binary of 8 bytes");
    assert_eq!(format!("{:?}, {:?}", number.value, bytes.value), "Text, Binary");
    assert_eq!(at(NOW).to_string(), "2026-11-01T12:00:00Z");
}

/// A function that failed is called again with this.
#[test]
fn the_event_that_failed_is_read_as_it_was() {
    let destination = only("lambda-destination.json");
    let record: Value = serde_json::from_str(&destination.sqs.body).unwrap();
    let event: Value = serde_json::from_str(original_event(&destination)).unwrap();
    assert_eq!(event, record["requestPayload"]);
    for file in ["envelope.json", "eventbridge.json", "lambda-async.json", "sqs-consumer.json", "raw.json"] {
        let letter = only(file);
        assert!(original_event(&letter) == letter.sqs.body, "{file}");
    }
}

#[test]
fn the_record_of_a_success_is_not_run_again() {
    let mut body: Value = serde_json::from_str(&only("lambda-destination.json").sqs.body).unwrap();
    body["requestContext"]["condition"] = "Success".into();
    assert_eq!(letter(&record(&body.to_string())).origin, Origin::Raw);
}

/// The tool and replays offer these names.
#[test]
fn every_origin_has_one_of_the_names() {
    let (queue, function) = (
        arn("arn:aws:sqs:eu-central-1:123456789012:q"),
        arn("arn:aws:lambda:eu-central-1:123456789012:function:f"),
    );
    let rule = arn("arn:aws:events:eu-central-1:123456789012:rule/r");
    let origins = [
        Origin::Sns,
        Origin::Sqs { source: queue.clone() },
        Origin::LambdaAsync,
        Origin::LambdaDestination { function },
        Origin::EventBridge { rule, target: queue },
        Origin::EventBusRecord,
        Origin::Raw,
    ];
    assert_eq!(origins.map(|origin| origin.name()), Origin::NAMES);
}

// ---------------------------------------------------------------------------------------------
// The marks that a letter gets

const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:requeue";
const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-worker";

/// A letter in the requeue: SQS had moved it to its dead-letter queue, and it was replayed once.
fn in_the_requeue() -> (Letter, Mark) {
    let mark = Mark {
        spent: 5,
        id: "letter-1".into(),
        first: at(NOW - 60_000),
        generation: 1,
        digest: Some(Digest::of("hello")),
        passes: 6,
        published: 1,
        requeued: Requeued {
            dlq: Some(arn(DLQ)),
            source: Some(arn(WORKER)),
            due: Some(at(NOW + 1)),
            earlier: 2,
            to: Some(ReplayTarget::Topic),
            edited: true,
        },
    };
    let mut record = record("hello");
    record["eventSourceARN"] = REQUEUE.into();
    record["messageAttributes"][MARK_ATTRIBUTE] = text_attribute(mark.to_attribute().text().unwrap());
    let trust = Trust { requeue: Some(&arn(REQUEUE)), origins: Origins::none() };
    (Letter::received(received(&record), trust), mark)
}

#[test]
fn a_letter_that_goes_on_in_the_requeue_keeps_what_its_mark_says_of_it() {
    let (letter, mark) = in_the_requeue();
    let requeued = Requeued { due: None, ..mark.requeued.clone() };
    assert_eq!(letter.mark_for_requeue(7, None), Mark { spent: 7, requeued, ..mark.clone() });
    assert_eq!(letter.mark(7), Mark { spent: 7, passes: 7, requeued: Requeued::default(), ..mark });
    assert_eq!(letter.mark_for_topic(7), Mark { published: 2, ..letter.mark(7) });
}

/// Anybody may write into a dead-letter queue, or publish.
#[test]
fn what_a_mark_says_of_the_requeue_is_believed_in_the_requeue_only() {
    let (requeued, mark) = in_the_requeue();
    assert_eq!(requeued.mark, Some(mark.clone()));
    let elsewhere = Mark { requeued: Requeued::default(), ..mark.clone() };
    assert_eq!(Letter::parse(requeued.sqs).mark, Some(elsewhere.clone()));
    let published = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": mark.to_attribute().text() } });
    let published = received(&record(&envelope("hello", &published)));
    assert_eq!(
        Letter::parse_requeued(published, Origins::none()).mark,
        Some(elsewhere),
        "a publisher wrote it"
    );
}

#[test]
fn a_letter_that_moves_to_the_requeue_says_where_it_comes_from() {
    let mark = Mark {
        spent: 2,
        id: "letter-1".into(),
        first: at(NOW - 60_000),
        generation: 1,
        digest: Some(Digest::of("hello")),
        passes: 2,
        published: 1,
        requeued: Requeued::default(),
    };
    let mut record = record("hello");
    record["attributes"]["DeadLetterQueueSourceArn"] = WORKER.into();
    record["messageAttributes"][MARK_ATTRIBUTE] = text_attribute(mark.to_attribute().text().unwrap());
    let letter = letter(&record);
    let due = Some(at(NOW + 900_000));
    let requeued =
        Requeued { dlq: Some(arn(DLQ)), source: Some(arn(WORKER)), due, earlier: 2, ..Requeued::default() };
    assert_eq!(letter.mark_for_requeue(3, due), Mark { spent: 3, requeued, ..mark });
}

#[test]
fn a_letter_that_is_replayed_begins_afresh_in_its_next_generation() {
    let (letter, mark) = in_the_requeue();
    let to = Some(ReplayTarget::Arn(arn(WORKER)));
    let requeued = Requeued { due: None, earlier: 0, to: to.clone(), ..mark.requeued.clone() };
    let replayed =
        Mark { spent: 0, first: at(NOW), generation: 2, passes: 0, published: 0, requeued, ..mark };
    assert_eq!(letter.mark_for_replay(at(NOW), to.clone(), false), replayed, "once edited, for ever edited");
    let fresh = Letter::parse(received(&record("hello")));
    let requeued = Requeued { dlq: Some(arn(DLQ)), to: to.clone(), ..Requeued::default() };
    for edited in [false, true] {
        let mark = fresh.mark_for_replay(at(NOW + 7), to.clone(), edited);
        let expected = Mark {
            spent: 0,
            id: fresh.id.as_str().into(),
            first: at(NOW + 7),
            generation: 1,
            digest: Some(Digest::of("hello")),
            passes: 0,
            published: 0,
            requeued: Requeued { edited, ..requeued.clone() },
        };
        assert_eq!(mark, expected);
    }
}

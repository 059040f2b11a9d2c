//! Tests of each limit of SNS, with the page that it comes from, and of the messages in a dead-letter queue.

use std::time::Duration;

use super::*;
use crate::lambda::{FunctionSettings, SimInvocationResult};
use crate::sqs::{QueueSettings, ReceiveRequest, ReceivedSqsMessage};
use crate::{FaultHook, SimAttribute, SimAws, SimClock, SimEntry, SimEvent, SimFault, WebAnswer, arn};

fn aws() -> SimAws {
    let aws = SimAws::new(SimClock::manual("2026-11-01T12:00:00Z".parse().unwrap()), 7);
    aws.act("test", |it, _| {
        for queue in ["worker", "dlq", "worker.fifo", "dlq.fifo"] {
            it.sqs.create(queue, QueueSettings::default());
        }
        it.sns.create("payments", TopicSettings::default());
        it.sns.create("payments.fifo", TopicSettings::default());
    });
    aws
}

fn subscribe(aws: &SimAws, protocol: Protocol, endpoint: &str) -> SimSubscription {
    let subscription = SimSubscription::new("payments", "s-1", protocol, endpoint).dead_letters("dlq");
    aws.act("test", |it, _| it.sns.subscribe(subscription.clone()));
    subscription
}

fn publish(aws: &SimAws, topic: &str, entry: &SimEntry) -> Result<PublishAnswer, Error> {
    aws.act("test", |it, cx| it.publish(cx, topic, entry))
}

fn received(aws: &SimAws, queue: &str) -> Vec<ReceivedSqsMessage> {
    let receive = ReceiveRequest { at_most: 10, ..ReceiveRequest::default() };
    aws.act("test", |it, cx| it.sqs.receive_message(cx, queue, receive)).unwrap()
}

fn order() -> SimEntry {
    let entry = SimEntry::new("0", "{\"id\":\"o-1\"}").with("tenant", SimAttribute::string("gold"));
    SimEntry { subject: Some("Override".to_owned()), ..entry.with("sum", SimAttribute::binary([0, 255])) }
}

/// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html>
#[test]
fn a_queue_gets_an_envelope() {
    let aws = aws();
    let subscription = subscribe(&aws, Protocol::Sqs, &arn("sqs", "worker"));
    let published = publish(&aws, "payments", &order()).unwrap();
    let message = received(&aws, "worker").remove(0);
    assert!(message.payload.attributes.is_empty());
    let envelope: serde_json::Value = serde_json::from_str(&message.payload.body).unwrap();
    assert_eq!(envelope["MessageId"], *published.id);
    assert_eq!(envelope["Message"], "{\"id\":\"o-1\"}");
    assert_eq!(envelope["Timestamp"], "2026-11-01T12:00:00.000Z");
    assert_eq!(
        envelope["MessageAttributes"]["sum"],
        serde_json::json!({ "Type": "Binary", "Value": "AP8=" })
    );
    let unsubscribe = envelope["UnsubscribeURL"].as_str().unwrap();
    assert!(unsubscribe.ends_with(&format!("SubscriptionArn={}", subscription.arn)), "{unsubscribe}");
    let lines: Vec<_> =
        message.payload.body.lines().map(|line| line.trim().split(' ').next().unwrap()).collect();
    assert_eq!(lines[1..5], ["\"Type\"", "\"MessageId\"", "\"TopicArn\"", "\"Subject\""]);
}

/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
#[test]
fn each_protocol_gets_its_own_text_of_a_message_that_has_several() {
    let aws = aws();
    subscribe(&aws, Protocol::Sqs, &arn("sqs", "worker"));
    let entry = |body: &str| SimEntry { structure: Some("json".to_owned()), ..SimEntry::new("0", body) };
    publish(&aws, "payments", &entry(r#"{"default":"all","sqs":"queues"}"#)).unwrap();
    publish(&aws, "payments", &entry(r#"{"default":"all","email":"people"}"#)).unwrap();
    let text = |it: &ReceivedSqsMessage| {
        serde_json::from_str::<serde_json::Value>(&it.payload.body).unwrap()["Message"].clone()
    };
    assert_eq!(received(&aws, "worker").iter().map(text).collect::<Vec<_>>(), ["queues", "all"]);
    for body in ["all", r#"{"sqs":"queues"}"#] {
        assert_eq!(publish(&aws, "payments", &entry(body)).unwrap_err().code, "InvalidParameter");
    }
}

/// A missing queue is a client-side error: the message goes to the dead-letter queue without retries, in the
/// envelope and without attributes.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-dead-letter-queues.html>
#[test]
fn a_permanent_failure_puts_the_envelope_into_the_dead_letter_queue_at_once() {
    let aws = aws();
    aws.act("test", |it, _| it.sns.retries_take = 3_600_000);
    subscribe(&aws, Protocol::Sqs, &arn("sqs", "gone"));
    publish(&aws, "payments", &order()).unwrap();
    let letter = received(&aws, "dlq").remove(0);
    assert!(letter.payload.body.contains("\"Type\" : \"Notification\""));
    assert!(letter.payload.attributes.is_empty());
    assert_eq!(letter.source, None, "SQS has not moved it");
    assert_eq!(letter.sent, aws.clock().millis());
}

/// A policy that forbids SNS to write is a client-side error.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-dead-letter-queues.html>
#[test]
fn a_denied_delivery_is_not_retried() {
    let aws = aws();
    aws.act("test", |it, _| it.sns.retries_take = 3_600_000);
    subscribe(&aws, Protocol::Sqs, &arn("sqs", "worker"));
    aws.set_faults(FaultHook::new(|_| SimFault::Denied));
    publish(&aws, "payments", &order()).unwrap();
    assert_eq!(received(&aws, "dlq").len(), 1);
}

/// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html>
#[test]
fn a_retryable_failure_is_retried_and_the_letters_age_counts_from_the_end_of_the_retries() {
    let aws = aws();
    aws.act("test", |it, _| it.sns.retries_take = 3_600_000);
    subscribe(&aws, Protocol::Sqs, &arn("sqs", "worker"));
    let down = |call: &crate::SimCall| match &*call.caller {
        "sns" => SimFault::Unavailable,
        _ => SimFault::Pass,
    };
    aws.set_faults(FaultHook::new(down));
    publish(&aws, "payments", &order()).unwrap();
    aws.clock().pass(Duration::from_secs(3_599));
    assert!(received(&aws, "dlq").is_empty());
    aws.clock().pass(Duration::from_secs(1));
    let letter = received(&aws, "dlq").remove(0);
    assert_eq!(letter.sent, aws.clock().millis());
    assert!(letter.payload.body.contains("2026-11-01T12:00:00.000Z"), "it was published before");
    aws.act("test", |it, cx| it.sqs.delete_message(cx, "dlq", &letter.handle)).unwrap();
    // A subscriber that is back in time gets the message by a retry.
    publish(&aws, "payments", &order()).unwrap();
    aws.set_faults(FaultHook::default());
    aws.clock().pass(Duration::from_hours(1));
    assert_eq!(received(&aws, "worker").len(), 1);
    assert!(received(&aws, "dlq").is_empty());
}

/// <https://docs.aws.amazon.com/sns/latest/dg/sns-large-payload-raw-message-delivery.html>
#[test]
fn a_raw_letter_is_the_message_as_it_was_published() {
    let aws = aws();
    let subscription = subscribe(&aws, Protocol::Sqs, &arn("sqs", "gone")).raw();
    aws.act("test", |it, _| it.sns.subscribe(subscription));
    let entry = SimEntry { group: Some("g".to_owned()), trace: Some("Root=1".to_owned()), ..order() };
    publish(&aws, "payments", &entry).unwrap();
    let letter = received(&aws, "dlq").remove(0).payload;
    assert_eq!((&letter.body, &letter.attributes), (&entry.body, &entry.attributes));
    assert_eq!((&letter.group, &letter.trace), (&entry.group, &entry.trace));
}

/// More than ten attributes for a raw queue are a client-side error, and the dead-letter queue accepts them
/// no more than the queue.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-large-payload-raw-message-delivery.html>
#[test]
fn an_eleventh_attribute_loses_a_raw_message() {
    let aws = aws();
    let subscription = subscribe(&aws, Protocol::Sqs, &arn("sqs", "worker")).raw();
    aws.act("test", |it, _| it.sns.subscribe(subscription));
    let entry = (0..11).fold(SimEntry::new("0", "a"), |it, number| {
        it.with(&format!("a{number}"), SimAttribute::string("v"))
    });
    publish(&aws, "payments", &entry).unwrap();
    assert!(received(&aws, "worker").is_empty() && received(&aws, "dlq").is_empty());
    let lost = |it: &crate::SimRecord| matches!(it.event, SimEvent::GivenUp { queue: None, .. });
    assert!(aws.journal(|records| records.iter().any(lost)));
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/with-sns.html>
#[test]
fn a_functions_letter_is_the_envelope_and_its_event_is_not() {
    let aws = aws();
    subscribe(&aws, Protocol::Lambda, &arn("lambda", "function:notifier"));
    publish(&aws, "payments", &order()).unwrap();
    let letter = received(&aws, "dlq").remove(0).payload;
    assert!(letter.body.contains("SigningCertURL") && !letter.body.contains("Records"));
    aws.act("test", |it, _| {
        it.lambda.create("notifier", FunctionSettings::default(), |it| {
            let event: serde_json::Value = serde_json::from_str(&it.payload).unwrap();
            assert!(event["Records"][0]["Sns"]["SigningCertUrl"].is_string());
            SimInvocationResult::ok("null")
        });
    });
    publish(&aws, "payments", &order()).unwrap();
    let ran = |it: &crate::SimRecord| matches!(it.event, SimEvent::Invoked { ok: true, .. });
    assert!(aws.journal(|records| records.iter().any(ran)));
}

/// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html>
#[test]
fn a_web_servers_status_decides_between_retries_and_the_dead_letter_queue() {
    for (status, letters, retried) in [(200, 0, 0), (404, 1, 0), (503, 1, 1), (429, 1, 1), (100, 1, 1)] {
        let aws = aws();
        subscribe(&aws, Protocol::Https, "https://hooks.example.com/payments?a=b");
        aws.act("test", |it, _| {
            it.sns.retries_take = 1_000;
            it.web.serve("hooks.example.com", move |_| WebAnswer::status(status));
        });
        publish(&aws, "payments", &order()).unwrap();
        let at_once = received(&aws, "dlq").len();
        aws.clock().pass(Duration::from_secs(1));
        let later = received(&aws, "dlq").len();
        assert_eq!((at_once + later, later), (letters, retried), "{status}");
    }
    for (seconds, letters) in [(15, 0), (16, 1)] {
        let aws = aws();
        subscribe(&aws, Protocol::Https, "https://hooks.example.com/");
        let answer = move |_: &crate::SimCall| WebAnswer::status(200).after(Duration::from_secs(seconds));
        aws.act("test", |it, _| it.web.serve("hooks.example.com", answer));
        publish(&aws, "payments", &order()).unwrap();
        assert_eq!(received(&aws, "dlq").len(), letters, "after {seconds} seconds");
    }
    let aws = aws();
    subscribe(&aws, Protocol::Https, "https://nowhere.example.com/");
    publish(&aws, "payments", &order()).unwrap();
    assert_eq!(received(&aws, "dlq").len(), 1, "no server of this name");
}

/// <https://docs.aws.amazon.com/sns/latest/dg/firehose-archived-message-format-S3.html>
#[test]
fn a_stream_gets_the_envelope() {
    let aws = aws();
    subscribe(&aws, Protocol::Firehose, &arn("firehose", "deliverystream/payments"));
    aws.act("test", |it, _| it.firehose.create("payments"));
    publish(&aws, "payments", &order()).unwrap();
    let streamed = |it: &crate::SimRecord| match &it.event {
        SimEvent::Streamed { data, .. } => Some(data.clone()),
        _ => None,
    };
    let data = aws.journal(|records| records.iter().find_map(streamed)).unwrap();
    assert!(data.starts_with(b"{\n  \"Type\" : \"Notification\""));
}

/// <https://docs.aws.amazon.com/sns/latest/dg/fifo-message-dedup.html>
#[test]
fn a_fifo_topic_answers_a_repetition_like_the_first_and_delivers_it_once() {
    let aws = aws();
    let subscription =
        SimSubscription::new("payments.fifo", "s-2", Protocol::Sqs, &arn("sqs", "worker.fifo"));
    aws.act("test", |it, _| it.sns.subscribe(subscription.dead_letters("dlq.fifo")));
    let entry = order().fifo("g", "d");
    let first = publish(&aws, "payments.fifo", &entry).unwrap();
    aws.clock().pass(Duration::from_secs(299));
    assert_eq!(publish(&aws, "payments.fifo", &entry).unwrap(), first);
    let message = received(&aws, "worker.fifo").remove(0);
    assert!(message.payload.body.contains("SequenceNumber"));
    assert!(!message.payload.body.contains("Signature"), "FIFO topics sign nothing");
    assert_eq!(message.payload.deduplication.as_deref(), Some("d"));
    aws.act("test", |it, cx| it.sqs.delete_message(cx, "worker.fifo", &message.handle)).unwrap();
    aws.clock().pass(Duration::from_secs(1));
    assert_ne!(publish(&aws, "payments.fifo", &entry).unwrap(), first);
    let error = publish(&aws, "payments.fifo", &order()).unwrap_err();
    assert!(error.message.contains("MessageGroupId parameter is required"), "{error}");
    publish(&aws, "payments", &entry).unwrap_err();
    // The group and the deduplication id are passed on to the dead-letter queue.
    aws.act("test", |it, _| it.sqs.remove("worker.fifo"));
    publish(&aws, "payments.fifo", &order().fifo("g", "e")).unwrap();
    let letter = received(&aws, "dlq.fifo").remove(0).payload;
    assert_eq!((letter.group.as_deref(), letter.deduplication.as_deref()), (Some("g"), Some("e")));
}

/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>
#[test]
fn a_batch_has_ten_entries_and_the_topics_size_in_all() {
    let aws = aws();
    let batch = |entries: &[SimEntry]| aws.act("test", |it, cx| it.publish_batch(cx, "payments", entries));
    let entries: Vec<_> = (0..11).map(|id| SimEntry::new(id.to_string(), "a")).collect();
    assert_eq!(batch(&entries).unwrap_err().code, "TooManyEntriesInBatchRequest");
    assert_eq!(batch(&entries[..10]).unwrap().len(), 10);
    assert_eq!(batch(&[]).unwrap_err().code, "EmptyBatchRequest");
    let half = "x".repeat(MAX_BYTES / 2);
    let two = |more: &str| [SimEntry::new("a", half.as_str()), SimEntry::new("b", format!("{half}{more}"))];
    batch(&two("")).unwrap();
    assert_eq!(batch(&two("x")).unwrap_err().code, "BatchRequestTooLong");
    let error = publish(&aws, "payments", &SimEntry::new("0", "x".repeat(MAX_BYTES + 1))).unwrap_err();
    assert_eq!(error.message, "Invalid parameter: Message too long");
    aws.act("test", |it, _| {
        it.sns.create("payments", TopicSettings { max_bytes: 1024 * 1024, ..TopicSettings::default() });
    });
    publish(&aws, "payments", &SimEntry::new("0", "x".repeat(1024 * 1024))).unwrap();
    assert_eq!(publish(&aws, "none", &order()).unwrap_err().code, "NotFound");
}

/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
#[test]
fn a_subject_has_a_hundred_characters_in_one_line() {
    let aws = aws();
    let with = |subject: String| SimEntry { subject: Some(subject), ..SimEntry::new("0", "a") };
    publish(&aws, "payments", &with("x".repeat(100))).unwrap();
    assert_eq!(publish(&aws, "payments", &with("x".repeat(101))).unwrap_err().code, "InvalidParameter");
    publish(&aws, "payments", &with("a\nb".to_owned())).unwrap_err();
}

/// <https://docs.aws.amazon.com/sns/latest/api/API_ListSubscriptions.html>
#[test]
fn a_listing_has_pages_of_a_hundred() {
    let aws = aws();
    aws.act("test", |it, _| {
        for number in 0..201 {
            let id = format!("s-{number:03}");
            it.sns.subscribe(SimSubscription::new("payments", &id, Protocol::Sqs, &arn("sqs", "worker")));
        }
        let (mut token, mut sizes) = (None, Vec::new());
        loop {
            let (page, next) = it.sns.list_subscriptions(token.as_deref()).unwrap();
            sizes.push(page.len());
            token = next;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(sizes, [100, 100, 1]);
        let attributes =
            it.sns.get_subscription_attributes(&format!("{}:s-000", arn("sns", "payments"))).unwrap();
        assert_eq!(attributes["RawMessageDelivery"], "false");
        assert_eq!(it.sns.get_subscription_attributes("none").unwrap_err().code, "NotFound");
    });
}

/// <https://docs.aws.amazon.com/sns/latest/api/API_SetSubscriptionAttributes.html>
#[test]
fn a_redrive_policy_is_set_and_taken_away() {
    let aws = aws();
    aws.act("test", |it, _| {
        it.sns.subscribe(SimSubscription::new("payments", "s", Protocol::Sqs, &arn("sqs", "worker")));
        let subscription = format!("{}:s", arn("sns", "payments"));
        let policy = format!("{{ \"deadLetterTargetArn\": \"{}\" }}", arn("sqs", "dlq"));
        let mut set = |value| it.sns.set_subscription_attributes(&subscription, "RedrivePolicy", value);
        assert_eq!(set(Some("")).unwrap_err().code, "InvalidParameter");
        assert!(
            set(Some("{\"deadLetterTargetArn\":\"dlq\"}"))
                .unwrap_err()
                .message
                .ends_with("is an invalid arn")
        );
        set(Some(&policy)).unwrap();
        let read = |sns: &super::Sns| {
            sns.get_subscription_attributes(&subscription).unwrap().get("RedrivePolicy").cloned()
        };
        assert_eq!(read(&it.sns), Some(policy), "as it was written");
        it.sns.set_subscription_attributes(&subscription, "RedrivePolicy", None).unwrap();
        assert_eq!(read(&it.sns), None);
    });
}

/// SQS would refuse them on delivery, so that the message were lost.
/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
#[test]
fn groups_and_deduplication_ids_are_128_signs_that_are_letters_digits_or_punctuation() {
    let aws = aws();
    let long = |length: usize| "a".repeat(length);
    for (id, is_good) in [
        ("a-1:#%".to_owned(), true),
        (long(128), true),
        (long(129), false),
        (String::new(), false),
        ("a b".to_owned(), false),
        ("\u{e4}".to_owned(), false),
    ] {
        let group = SimEntry { group: Some(id.clone()), ..order() };
        let both = SimEntry { group: Some("g".to_owned()), deduplication: Some(id.clone()), ..order() };
        for (topic, entry) in [("payments", &group), ("payments.fifo", &both)] {
            let code = publish(&aws, topic, entry).map_err(|error| error.code.into_owned());
            let refused = Err("InvalidParameter".to_owned());
            assert_eq!(code.is_ok(), is_good, "{topic}: {id:?}");
            assert!(is_good || code.map(drop) == refused, "{topic}: {id:?}");
        }
    }
}

//! A publisher of a raw subscription's topic writes the whole letter, which may be an envelope of another
//! subscription. It only reaches somebody else if the queue is shared.

use super::*;
use serde_json::Value;

const RAW: &str = OTHER_SUBSCRIPTION;

/// Returns a world with a raw subscription of another topic that shares the queue, and a rule for its
/// letters.
fn world_of(default: &Value, rule: &Value) -> FunctionWorld {
    let mut raw = json!({ "name": "raw", "match": { "origin": ["raw"] }, "subscription": RAW });
    raw.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
    let world = FunctionWorld::with_policy(&json!({ "default": default, "rules": [raw] }));
    let topic = RAW.rsplit_once(':').unwrap().0;
    world.cloud.subscribe_endpoint(RAW, topic, "sqs", BILLING, DLQ);
    world.cloud.resubscribe(RAW, "RawMessageDelivery", "true");
    world
}

/// Returns the queue and detail of each warning.
fn warned(ran: &TestInvocation) -> Vec<[String; 2]> {
    let lines = ran
        .log
        .iter()
        .filter(|line| line["message"] == "raw subscription shares the dead-letter queue with others");
    lines
        .map(|line| {
            assert_eq!(line["level"], "WARN");
            ["queue.arn", "detail"].map(|field| line[field].as_str().unwrap().to_owned())
        })
        .collect()
}

fn expected() -> Vec<[String; 2]> {
    let detail = "it is the dead-letter queue of a raw subscription and of others: publishers to the topic of the \
                  raw subscription can forge letters of the others. Give the raw subscription a dead-letter queue \
                  of its own, or set verifySignature in the rule of the others";
    vec![[DLQ.to_owned(), detail.to_owned()]]
}

#[tokio::test]
async fn is_told_once_as_soon_as_both_subscriptions_were_seen() {
    let world = world_of(&json!({}), &json!({}));
    let ran = world.run([&RecordBuilder::raw("r", "plain")]).await;
    assert_eq!((ran.outcomes(), warned(&ran)), (vec!["r delivered".to_owned()], vec![]));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!((ran.outcomes(), warned(&ran)), (vec!["a delivered".to_owned()], expected()));
    let ran = world.run([&RecordBuilder::envelope("b"), &RecordBuilder::raw("s", "plain")]).await;
    assert_eq!(warned(&ran), [[""; 2]; 0]);
}

#[tokio::test]
async fn is_told_in_whatever_order_they_are_seen() {
    let world = world_of(&json!({}), &json!({}));
    assert_eq!(warned(&world.run([&RecordBuilder::envelope("a")]).await), [[""; 2]; 0]);
    assert_eq!(warned(&world.run([&RecordBuilder::raw("r", "plain")]).await), expected());
}

#[tokio::test]
async fn is_not_told_of_subscriptions_of_one_kind_or_of_several_queues() {
    let world = world_of(&json!({}), &json!({}));
    world.cloud.resubscribe(RAW, "RawMessageDelivery", "false");
    let all = [
        RecordBuilder::raw("r", "plain"),
        RecordBuilder::envelope("a"),
        RecordBuilder::envelope("b").subscription(BILLING_SUBSCRIPTION),
    ];
    assert_eq!(warned(&world.run(&all).await), [[""; 2]; 0]);

    let world = world_of(&json!({}), &json!({}));
    world.cloud.resubscribe(RAW, "RedrivePolicy", &names(OTHER_DLQ));
    assert_eq!(warned(&world.run(&all).await), [[""; 2]; 0]);
    // This raw subscription moved to a queue of its own before the others were seen.
    let world = world_of(&json!({}), &json!({}));
    assert_eq!(warned(&world.run([&RecordBuilder::raw("r", "plain")]).await), [[""; 2]; 0]);
    world.cloud.resubscribe(RAW, "RedrivePolicy", &names(OTHER_DLQ));
    world.pass(301);
    assert_eq!(warned(&world.run([&RecordBuilder::raw("r", "plain")]).await), [[""; 2]; 0]);
    assert_eq!(warned(&world.run(&all).await), [[""; 2]; 0]);
}

/// Here both are raw. Their letters name no subscription, but the publishers of one can write an envelope of
/// the other.
#[tokio::test]
async fn is_told_of_raw_ones_only_too() {
    let world = world_of(&json!({}), &json!({}));
    world.cloud.resubscribe(SUBSCRIPTION, "RawMessageDelivery", "true");
    let ran = world.run([&RecordBuilder::envelope("a"), &RecordBuilder::raw("r", "plain")]).await;
    assert_eq!(warned(&ran), expected());
}

/// If envelopes must be signed, there is nothing to warn about.
#[tokio::test]
async fn is_not_told_where_the_letters_of_the_others_must_be_signed() {
    let unsigned = json!({ "verifySignature": false });
    let world = world_of(&json!({ "verifySignature": true }), &unsigned);
    // The signature is checked before the subscription, so only a search sees the subscription.
    let posts =
        [RecordBuilder::raw("r", "plain"), RecordBuilder::envelope("a"), RecordBuilder::raw("s", "plain")];
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["r delivered", "a archived refused", "s delivered"]);
    assert_eq!(ran.letter("a")["detail"], crate::UNSIGNED);
    assert_eq!(warned(&ran), [[""; 2]; 0]);
    let discover = json!({ "verifySignature": false, "subscription": "discover" });
    let world = world_of(&json!({ "verifySignature": true }), &discover);
    assert_eq!(warned(&world.run(&posts).await), [[""; 2]; 0]);
}

/// A search sees all subscriptions, before any letter of the others has come. It also sees other queues.
#[tokio::test]
async fn is_told_of_a_queue_of_this_function_when_a_search_shows_it() {
    let world = world_of(&json!({}), &json!({ "subscription": "discover" }));
    for number in 0..2 {
        let elsewhere = format!("{TOPIC}:00000000-0000-4000-8000-{number:012}");
        world.cloud.subscribe_endpoint(&elsewhere, TOPIC, "sqs", BILLING, OTHER_DLQ);
        world.cloud.resubscribe(&elsewhere, "RawMessageDelivery", "true");
    }
    let ran = world.run([&RecordBuilder::raw("r", "plain")]).await;
    assert_eq!(ran.outcomes(), ["r archived unrecognised"]);
    assert_eq!(warned(&ran), expected());
}

/// Messages of FIFO topics have no signature.
#[tokio::test]
async fn of_a_fifo_queue_the_only_remedy_is_a_queue_of_its_own() {
    let world = world_of(&json!({}), &json!({}));
    world.cloud.resubscribe(RAW, "RedrivePolicy", &names(FIFO_DLQ));
    let fifo = RecordBuilder::envelope("a").topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
    let ran = world
        .run(&[fifo, RecordBuilder::raw("r", "plain")].map(|post| post.queue(FIFO_DLQ).group("g")))
        .await;
    let [[queue, detail]] = &warned(&ran)[..] else { panic!("one warning: {}", ran.text) };
    assert_eq!(queue, FIFO_DLQ);
    assert!(
        detail.ends_with("of the others. Give the raw subscription a dead-letter queue of its own"),
        "{detail}"
    );
}

/// In the requeue the mark names the queue in question.
#[tokio::test]
async fn of_letters_in_the_requeue_it_is_told_of_the_queue_they_came_from() {
    let world = FunctionWorld::on(
        world_of(&json!({}), &json!({})).cloud,
        &[
            ("REQUEUE_ARN", REQUEUE),
            ("REDRIVE_POLICY", &json!({ "default": { "subscription": RAW } }).to_string()),
        ],
    );
    let moved = |post: RecordBuilder| {
        let mut mark = mark(0, &post.id, NOW);
        mark["dlq"] = DLQ.into();
        post.sqs_mark(&mark).queue(REQUEUE)
    };
    let ran =
        world.run([&moved(RecordBuilder::envelope("a")), &moved(RecordBuilder::raw("r", "plain"))]).await;
    assert_eq!(warned(&ran), expected());
}

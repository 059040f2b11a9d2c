//! P7: no loop is endless. A letter that always fails at its target ends in the archive after its last retry,
//! whatever the target, and its mark does not grow.

mod copies;
mod functions;
mod others;
mod queues;
mod topics;

use std::collections::BTreeSet;

use redrive_support::*;
use serde_json::{Value, json};

/// The number of retries. It has one digit, so that every mark has the same size.
const RETRIES: usize = 9;

/// The calls that deliver letters.
const DELIVERIES: [&str; 4] = ["SendMessageBatch", "PublishBatch", "Invoke", "PutRecordBatch"];

/// Returns a policy of nine retries, with additions to its default and with these rules.
fn policy(default: &Value, rules: &Value) -> Value {
    let schedule = json!({ "minDelayTarget": 10, "maxDelayTarget": 10, "numRetries": RETRIES });
    let mut policy = json!({
        "origins": { "*": ["lambda-async", "lambda-destination", "eventbridge"] },
        "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } },
        "rules": rules,
    });
    policy["default"].as_object_mut().unwrap().extend(default.as_object().unwrap().clone());
    policy
}

fn deliveries(cloud: &TestAccount) -> Vec<SimCall> {
    cloud.journal().into_iter().filter(|call| DELIVERIES.contains(&call.operation.as_str())).collect()
}

/// Returns the mark of a delivered letter.
fn mark_of(call: &SimCall) -> String {
    if call.operation == "Invoke" {
        let event: Value = serde_json::from_str(body_text(call)).unwrap();
        let mark = event.pointer("/Records/0/Sns/MessageAttributes/sns-redrive/Value");
        return mark.unwrap().as_str().unwrap().to_owned();
    }
    let mark = &call.entries[0].attributes["sns-redrive"];
    assert_eq!(mark.kind, "String");
    mark.value.text()
}

/// Asserts that a letter is sent nine times, with one mark of one size, and is archived the tenth time. Every
/// delivery succeeds and its target fails later: `back` returns what AWS then puts into the dead-letter
/// queue. Returns every delivery.
async fn goes_round(
    world: &FunctionWorld,
    first: RecordBuilder,
    back: impl Fn(&SimCall, &str) -> RecordBuilder,
) -> Vec<SimCall> {
    let id = letter(&first).id.to_string();
    let message = letter(&first).message().into_owned();
    let (mut post, mut now) = (first, NOW);
    let (mut calls, mut sizes) = (Vec::new(), BTreeSet::new());
    for round in 1..=RETRIES {
        now += 3_600_000;
        world.set_now(now);
        world.cloud.forget();
        let ran = world.run([&post]).await;
        let line = ran.letter(&post.id);
        assert_eq!(
            [&line["outcome"], &line["retry.number"], &line["letter.id"]],
            [&json!("delivered"), &json!(round), &json!(id)],
            "{line}"
        );
        let call: [SimCall; 1] = deliveries(&world.cloud).try_into().unwrap();
        let mark = mark_of(&call[0]);
        let sent = u32::try_from(round).unwrap();
        let expected = mark_again(sent, sent, &id, NOW, &message);
        let once = calls.iter().chain(&call).any(|call: &SimCall| call.operation == "PublishBatch");
        assert_eq!(mark, if once { published(&expected, 1) } else { expected });
        sizes.insert(mark.len());
        // It is back a minute later.
        post = back(&call[0], &format!("m{round}")).sent(now + 60_000);
        calls.extend(call);
    }
    assert_eq!(sizes.len(), 1, "the mark grows: {sizes:?}");
    world.set_now(now + 3_600_000);
    world.cloud.forget();
    let ran = world.run([&post]).await;
    assert_eq!(ran.outcomes(), [format!("{} archived exhausted", post.id)]);
    assert_eq!(deliveries(&world.cloud), []);
    let record = archived(&world.cloud).remove(0);
    assert_eq!([&record["letterId"], &record["message"]["body"]], [&json!(id), &json!(post.body())]);
    assert!(calls.iter().filter(|call| call.operation == "PublishBatch").count() <= 1, "{calls:?}");
    calls
}

/// Asserts that a letter whose target fails at once stays, and is archived after nine retries.
async fn stays(world: &FunctionWorld, post: &RecordBuilder, attempts: impl Fn() -> usize) {
    for receive in 1..=RETRIES {
        let ran = world.run([&post.clone().received(u32::try_from(receive).unwrap())]).await;
        let line = ran.letter(&post.id);
        let outcome = if receive < RETRIES { "deferred failed" } else { "archived exhausted" };
        assert_eq!(ran.outcomes(), [format!("{} {outcome}", post.id)], "{line}");
        assert_eq!([&line["retry.number"], &line["retry.of"]], [&json!(receive), &json!(RETRIES)]);
        assert_eq!(attempts(), receive);
    }
    assert_eq!(archived(&world.cloud).len(), 1);
    assert_eq!(archived(&world.cloud)[0]["retry"], json!({ "number": RETRIES, "of": RETRIES }));
}

/// Returns a policy of retries without a delay, for letters that stay.
fn at_once(default: &Value) -> Value {
    let mut policy = policy(default, &json!([]));
    policy["default"]["deliveryPolicy"]["healthyRetryPolicy"]["numNoDelayRetries"] = json!(RETRIES);
    policy
}

/// Returns the letter that SQS moves here from a queue whose consumer failed three times.
fn moved(call: &SimCall, id: &str) -> RecordBuilder {
    let entry = &call.entries[0];
    let queue = format!("arn:aws:sqs:eu-central-1:123456789012:{}", call.target);
    let mut post = RecordBuilder::raw(id, &entry.body).moved_from(&queue).received(4);
    for (name, it) in &entry.attributes {
        post = post.attribute(name, &it.kind, &it.value.text());
    }
    if let Some(group) = &entry.group {
        post = post.group(group);
    }
    post
}

/// Returns the letter that SNS puts here if a copy of the published message fails at a subscription.
fn copy_at(call: &SimCall, id: &str, subscription: &str) -> RecordBuilder {
    let entry = &call.entries[0];
    let topic = subscription.rsplit_once(':').unwrap().0;
    let post = RecordBuilder::envelope(id).message(&entry.body).topic(topic).subscription(subscription);
    let attributes = entry.attributes.iter();
    attributes.fold(post, |post, (name, it)| post.sns_attribute(name, &it.kind, &it.value.text()))
}

/// Returns a world whose queues move messages here after three receives.
fn world_of(policy: &Value, queues: &[&str], dlq: &str) -> FunctionWorld {
    let world = FunctionWorld::with_policy(policy);
    for queue in queues {
        let redrive = json!({ "deadLetterTargetArn": dlq, "maxReceiveCount": 3 }).to_string();
        world.cloud.queue(queue, &[("MessageRetentionPeriod", "1209600"), ("RedrivePolicy", &redrive)]);
    }
    world
}

fn first() -> RecordBuilder {
    RecordBuilder::envelope("a").sns_attribute("tenant", "String", "gold")
}

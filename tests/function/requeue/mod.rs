//! Tests of the requeue: letters that cannot wait in their own queue go there, and come back unchanged.

mod a_letter_is_hidden_as_ever;
mod a_queue_that_feeds_the_function;
mod in_the_requeue;
mod queue_check;
mod spill;
mod stepping_aside;

use std::collections::BTreeMap;

use redrive_core::letter::MARK_ATTRIBUTE;
use redrive_support::{
    BILLING, DLQ, EntryFault, FIFO_DLQ, FIFO_REQUEUE, FIFO_SUBSCRIPTION, FIFO_TOPIC, FunctionWorld, NOW,
    REQUEUE, RecordBuilder, SUBSCRIPTION, SimEntry, SimFault, TestAccount, TestInvocation, archived, at,
    attribute, digest, every_origin, letter_id, made_for, sample,
};
use serde_json::{Value, json};

const TWO_WEEKS: &str = "1209600";
const HOUR: i64 = 3600;

/// Returns a policy with one retry at once and two after six hours each.
fn six_hours() -> Value {
    let schedule = json!({ "minDelayTarget": 21_600, "maxDelayTarget": 21_600, "numRetries": 3, "numNoDelayRetries": 1 });
    json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } } })
}

/// Returns a function whose subscriber is down and whose queues have so many letters in flight.
fn world_with(policy: &Value, requeue: &str, in_flight: &str, settings: &[(&str, &str)]) -> FunctionWorld {
    let cloud = TestAccount::new();
    for queue in ["payments-dlq", "payments-dlq.fifo", "payments-requeue", "payments-requeue.fifo"] {
        let attributes =
            [("MessageRetentionPeriod", TWO_WEEKS), ("ApproximateNumberOfMessagesNotVisible", in_flight)];
        cloud.queue(queue, &attributes);
    }
    let policy = policy.to_string();
    let settings: Vec<_> = [("REDRIVE_POLICY", policy.as_str()), ("REQUEUE_ARN", requeue)]
        .into_iter()
        .chain(settings.iter().copied())
        .collect();
    let world = FunctionWorld::on(cloud, &settings);
    down(&world);
    world
}

fn world(in_flight: &str) -> FunctionWorld {
    world_with(&six_hours(), REQUEUE, in_flight, &[])
}

/// Makes subscribers fail, but not the requeue.
fn down(world: &FunctionWorld) {
    world.cloud.script(|call| match (call.operation.as_str(), call.target.as_str()) {
        ("SendMessageBatch", queue) if !queue.starts_with("payments-requeue") => {
            SimFault::refuse(503, "ServiceUnavailable", "oh")
        }
        _ => SimFault::Pass,
    });
}

fn up(world: &FunctionWorld) {
    world.cloud.script(|_| SimFault::Pass);
}

/// Returns the messages that were sent to the requeue.
fn sent_to_requeue(world: &FunctionWorld) -> Vec<SimEntry> {
    let calls = world.cloud.calls("SendMessageBatch").into_iter();
    calls.filter(|call| call.target.starts_with("payments-requeue")).flat_map(|call| call.entries).collect()
}

fn mark_of(entry: &SimEntry) -> Value {
    serde_json::from_str(&entry.attributes[MARK_ATTRIBUTE].value.text()).unwrap()
}

/// Returns a message that was sent to the requeue, as it is received from there.
fn from_requeue(entry: &SimEntry, sent: i64) -> RecordBuilder {
    let mut post = RecordBuilder::raw("moved", &entry.body).queue(REQUEUE).sent(sent);
    for (name, it) in &entry.attributes {
        post = post.attribute(name, &it.kind, &it.value.text());
    }
    let first = sent + entry.delay.unwrap_or(0) * 1000;
    post.system("ApproximateFirstReceiveTimestamp", first)
}

fn outcome(ran: &TestInvocation, id: &str) -> Value {
    let line = ran.letter(id);
    json!([line["outcome"], line["reason"], line["retry.number"], line["delay_s"], line["due"]])
}

fn warnings(ran: &TestInvocation) -> Vec<String> {
    let told = ran.log.iter().filter(|line| line["level"] == "WARN" && line["outcome"].is_null());
    told.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
}

const CROWDED: &str =
    "many letters in flight, and none can move to the requeue: at the limit SQS hands over no more";
const REFUSED: &str = "requeue takes no letters: they stay in their queue";

#[tokio::test]
async fn the_subscription_is_asked_about_the_queue_that_the_letter_came_from() {
    let world = world("60000");
    world.run([&RecordBuilder::envelope("a")]).await;
    let entry = &sent_to_requeue(&world)[0];
    up(&world);
    world.pass(6 * HOUR);
    assert_eq!(world.run([&from_requeue(entry, NOW)]).await.outcomes(), ["moved delivered"]);
    world.cloud.unsubscribe(SUBSCRIPTION);
    world.pass(6 * HOUR);
    assert_eq!(world.run([&from_requeue(entry, NOW)]).await.outcomes(), ["moved archived refused"]);
}

use redrive_support::{FunctionWorld as Redriving, TestAccount};

use super::*;

/// Returns the message that SQS makes of a letter that a replay has sent.
fn received(payload: &SimPayload) -> RecordBuilder {
    let mut post = RecordBuilder::raw("moved", &payload.body).queue(REQUEUE).sent(START);
    for (name, attribute) in &payload.attributes {
        post = post.attribute(name, &attribute.kind, &attribute.value.text());
    }
    post
}

fn mark_in(entry: &redrive_sim::SimEntry) -> Value {
    serde_json::from_str(&entry.attributes[MARK_ATTRIBUTE].value.text()).unwrap()
}

/// Returns a function, and a letter for it that was exhausted, archived and replayed.
async fn replayed(request: Value, policy: &Value) -> (Redriving, RecordBuilder) {
    let archive = ArchiveWorld::new();
    let mark = json!({ "v": 2, "spent": 12, "id": letter_id("a"), "first": 5, "gen": 2 });
    archive.archive("a", &[RecordBuilder::envelope("a").sqs_mark(&mark)]);
    archive.run(request).await.unwrap();
    let post = received(&archive.sent()[0]);
    let policy = policy.to_string();
    let world = Redriving::on(TestAccount::new(), &[("REQUEUE_ARN", REQUEUE), ("REDRIVE_POLICY", &policy)]);
    world.set_now(START + 60_000);
    (world, post)
}

#[tokio::test(start_paused = true)]
async fn it_takes_the_ordinary_way_with_all_its_retries_and_is_no_arrival() {
    let schedule = json!({ "healthyRetryPolicy": { "numRetries": 2, "numNoDelayRetries": 1, "minDelayTarget": 60,
        "maxDelayTarget": 60 } });
    let policy = json!({ "default": { "jitter": 0, "deliveryPolicy": schedule } });
    let (world, post) = replayed(json!({}), &policy).await;
    world.cloud.reply("SendMessageBatch", SimFault::Unavailable);
    let ran = world.run([&post]).await;
    let line = ran.letter("moved");
    assert_eq!(
        json!([line["outcome"], line["retry.number"], line["letter.id"]]),
        json!(["deferred", 1, letter_id("a")])
    );
    assert_eq!(["LettersArrived", "LettersDeferred"].map(|name| ran.metric(name)), [0, 1]);
    world.cloud.script(|_| SimFault::Pass);
    world.cloud.forget();
    world.pass(60);
    assert_eq!(world.run([&post.received(2)]).await.outcomes(), ["moved delivered"]);
    let [call] = &world.cloud.calls("SendMessageBatch")[..] else { panic!("one request") };
    assert_eq!(call.target, "payments-worker", "nothing goes to the dead-letter queue");
    let first = mark_in(&call.entries[0])["first"].clone();
    let mark = json!({ "v": 2, "spent": 2, "id": letter_id("a"), "first": first, "gen": 3, "passes": 1 });
    assert_eq!(
        mark_in(&call.entries[0]),
        made_for("message of a", mark),
        "what only the requeue says stays there"
    );
}

#[tokio::test(start_paused = true)]
async fn the_target_of_the_replay_goes_before_the_rules_within_allow_targets() {
    let policy = |allowed: &[&str]| json!({ "default": { "allowTargets": allowed } });
    let (world, post) = replayed(json!({ "to": BILLING }), &policy(&[BILLING, WORKER])).await;
    assert_eq!(world.run([&post]).await.outcomes(), ["moved delivered"]);
    assert_eq!(world.cloud.calls("SendMessageBatch")[0].target, "payments-billing");
    let (world, post) = replayed(json!({ "to": BILLING }), &policy(&[WORKER])).await;
    assert_eq!(world.run([&post]).await.outcomes(), ["moved archived refused"]);
    let (world, post) = replayed(json!({ "to": "topic" }), &policy(&[TOPIC])).await;
    assert_eq!(world.run([&post]).await.outcomes(), ["moved delivered"]);
    assert_eq!(world.cloud.calls("PublishBatch")[0].target, "payments");
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_archives_or_holds_still_does() {
    for (action, outcome) in [("archive", "moved archived rule"), ("hold", "moved deferred hold")] {
        let policy = json!({ "rules": [{ "name": "r", "match": { "origin": ["sns"] }, "action": action }] });
        let (world, post) = replayed(json!({ "to": BILLING }), &policy).await;
        assert_eq!(world.run([&post]).await.outcomes(), [outcome]);
        assert_eq!(world.cloud.calls("SendMessageBatch"), []);
    }
}

/// Anybody may send to a dead-letter queue, so a mark there names no target.
#[tokio::test(start_paused = true)]
async fn the_same_mark_in_a_dead_letter_queue_names_no_target() {
    let (world, post) = replayed(json!({ "to": BILLING }), &json!({})).await;
    assert_eq!(world.run([&post.queue(DLQ)]).await.outcomes(), ["moved delivered"]);
    assert_eq!(world.cloud.calls("SendMessageBatch")[0].target, "payments-worker");
}

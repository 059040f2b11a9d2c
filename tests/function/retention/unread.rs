//! A queue that does not tell its retention: nothing final is decided by a guess.

use super::*;

const DAYS: i64 = 86_400_000;

fn denied() -> SimFault {
    SimFault::refuse(403, "AccessDenied", "no")
}

/// Makes the first so many questions about queues fail.
fn fail_first(world: &FunctionWorld, times: usize) {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    world.cloud.script(move |call| {
        let is_question = call.operation == "GetQueueAttributes";
        let fails = is_question && asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < times;
        if fails { denied() } else { SimFault::Pass }
    });
}

fn held(count: usize) -> (FunctionWorld, Vec<RecordBuilder>) {
    let world = FunctionWorld::with_policy(&json!({ "default": { "action": "hold" } }));
    world.cloud.queue("payments-dlq", &[("MessageRetentionPeriod", WEEKS)]);
    let posts = (0..count).map(|number| RecordBuilder::envelope(&format!("l{number}")).sent(NOW - 5 * DAYS));
    (world, posts.collect())
}

/// The queue keeps its letters for two weeks, and four days would be over.
#[tokio::test]
async fn fifty_letters_that_are_held_stay_while_their_queue_does_not_tell_its_retention() {
    let (world, posts) = held(50);
    world.cloud.reply("GetQueueAttributes", denied());
    // The four days count after ten minutes, but not for what is held.
    for (seconds, assumed) in [(0, json!(null)), (599, json!(null)), (1, json!(1)), (600, json!(1))] {
        world.pass(seconds);
        let ran = world.run(&posts).await;
        let deferred = ran.outcomes().iter().filter(|outcome| outcome.ends_with("deferred hold")).count();
        assert_eq!((deferred, ran.kept.len()), (50, 50), "{:?}", ran.outcomes());
        assert!(world.cloud.hidden().values().all(|seconds| *seconds == 900));
        let metrics = ran.metrics();
        assert_eq!(json!([metrics["RetentionAssumed"], metrics["SecondsToExpiry"]]), json!([assumed, null]));
        assert_eq!(metrics.get("LettersInFlight"), None);
    }
    assert_eq!(archived(&world.cloud).len(), 0);
}

#[tokio::test]
async fn the_first_batch_asks_three_times_and_one_line_tells_of_it() {
    for (fails, hidden, asked) in [(1, 41_400, 2), (2, 41_400, 3), (3, 900, 3)] {
        let (world, posts) = held(1);
        fail_first(&world, fails);
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["l0 deferred hold"]);
        assert_eq!(world.cloud.hidden()["handle-l0"], hidden, "{fails} failed");
        assert_eq!(world.cloud.calls("GetQueueAttributes").len(), asked);
        let told = |ran: &TestInvocation| ran.text.matches("queue attributes not read").count();
        assert_eq!(told(&ran), 1);
        world.pass(60);
        let again = world.run(&posts).await;
        assert_eq!((told(&again), world.cloud.hidden()["handle-l0"]), (0, 41_400));
    }
}

/// A wait of two hours is longer than the retention, which nobody knows at first.
#[tokio::test]
async fn a_retention_of_an_hour_loses_no_letter_whose_queue_was_not_read_at_first() {
    let world = FunctionWorld::with_policy(&policy(7_200, 3, &json!({ "target": "origin" })));
    world.cloud.queue("payments-dlq", &[("MessageRetentionPeriod", "3600"), ("VisibilityTimeout", "30")]);
    let failing = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let fails = std::sync::Arc::clone(&failing);
    world.cloud.script(move |call| match call.operation.as_str() {
        "GetQueueAttributes" if fails.load(std::sync::atomic::Ordering::Relaxed) => denied(),
        "SendMessageBatch" => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
    let (mut now, mut receives, mut left) = (0, 0, vec!["a", "b", "c", "d", "e"]);
    while !left.is_empty() && now < 3_600 {
        world.set_now(NOW + now * 1_000);
        receives += 1;
        let posts: Vec<_> =
            left.iter().map(|id| RecordBuilder::envelope(id).sent(NOW).received(receives)).collect();
        let ran = world.run(&posts).await;
        left.retain(|id| ran.kept.iter().any(|kept| kept == id));
        now += left.first().map_or(0, |id| world.cloud.hidden()[&format!("handle-{id}")]);
        failing.store(now < 300, std::sync::atomic::Ordering::Relaxed);
    }
    let records = archived(&world.cloud);
    assert_eq!((records.len(), left.len()), (5, 0), "the last hiding ends after {now} s");
    assert!(records.iter().all(|record| record["reason"] == "expiring"));
}

/// Letters of source queues bring receives along; nobody knows how many.
#[tokio::test]
async fn a_letter_whose_source_queue_was_not_read_is_not_exhausted() {
    let world = FunctionWorld::with_policy(&policy(1, 3, &json!({})));
    world.cloud.script(|call| match call.operation.as_str() {
        "GetQueueAttributes" if call.target == "payments-worker" => denied(),
        "SendMessageBatch" => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
    let moved = RecordBuilder::raw("m", "x").moved_from(WORKER).sent(NOW - DAYS).received(9);
    let ran = world.run([&moved]).await;
    assert_eq!(ran.outcomes(), ["m deferred failed"]);
    assert_eq!(ran.letter("m")["retry.number"], 3);
    assert_eq!(ran.text.matches("queue attributes not read").count(), 1);
    world.cloud.reply("SendMessageBatch", SimFault::refuse(503, "ServiceUnavailable", "down"));
    let redrive = json!({ "deadLetterTargetArn": DLQ, "maxReceiveCount": 8 }).to_string();
    world.cloud.queue("payments-worker", &[("RedrivePolicy", &redrive)]);
    world.pass(900);
    let ran = world.run([&moved.received(10)]).await;
    assert_eq!(ran.outcomes(), ["m deferred failed"]);
    assert_eq!(ran.letter("m")["retry.number"], 2, "two receives are ours");
}

/// The policy of SNS for its own endpoints would be 100,015 retries.
#[tokio::test]
async fn a_delivery_policy_that_cannot_be_read_is_told_once_and_its_attempts_take_no_number() {
    let server = TestWebServer::answering(503);
    let policy = json!({ "default": { "deliveryPolicy": "from-subscription" } }).to_string();
    let world = FunctionWorld::new(&[("REDRIVE_POLICY", &policy), ("ALLOW_LOOPBACK_HTTP", "true")]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "http", &server.url(), DLQ);
    let told =
        |ran: &TestInvocation| ran.text.matches("delivery policy of the subscription not read").count();
    let schedule = |retries: &str| format!(r#"{{"healthyRetryPolicy":{{"numRetries":{retries}}}}}"#);
    world.cloud.resubscribe(SUBSCRIPTION, "EffectiveDeliveryPolicy", &schedule("\"many\""));
    for (seconds, lines, hidden) in [(0, 1, 60), (60, 0, 60), (600, 0, 66)] {
        world.pass(seconds);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        let line = ran.letter("a");
        let said = json!([line["outcome"], line["retry.number"], line["retry.early"]]);
        assert_eq!((told(&ran), said), (lines, json!(["deferred", 0, true])), "{}", ran.text);
        assert_eq!(world.cloud.hidden()["handle-a"], hidden);
    }
    world.cloud.resubscribe(SUBSCRIPTION, "EffectiveDeliveryPolicy", &schedule("3"));
    world.pass(301);
    let ran = world.run([&RecordBuilder::envelope("a").received(4)]).await;
    assert_eq!((told(&ran), &ran.letter("a")["retry.of"]), (0, &json!(3)));
    // What was read is no longer told; what fails then is.
    world.cloud.reply("GetSubscriptionAttributes", denied());
    world.pass(301);
    assert_eq!(told(&world.run([&RecordBuilder::envelope("a").received(5)]).await), 1);
}

/// Each letter that SQS moved has a queue of its own to tell its receives.
#[tokio::test]
async fn a_source_queue_that_was_not_read_unsettles_no_letter_of_another() {
    let world = FunctionWorld::with_policy(&policy(1, 3, &json!({})));
    let redrive = json!({ "deadLetterTargetArn": DLQ, "maxReceiveCount": 8 }).to_string();
    world.cloud.queue("payments-billing", &[("RedrivePolicy", &redrive)]);
    world.cloud.script(|call| match call.operation.as_str() {
        "GetQueueAttributes" if call.target == "payments-worker" => denied(),
        "SendMessageBatch" => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
    let moved = |id, from| RecordBuilder::raw(id, "x").moved_from(from).sent(NOW - DAYS).received(11);
    let ran = world.run([&moved("m", WORKER), &moved("n", BILLING)]).await;
    assert_eq!(ran.outcomes(), ["m deferred failed", "n archived exhausted"]);
}

use super::*;

#[tokio::test]
async fn of_a_delivered_letter() {
    assert_eq!(
        line(&FunctionWorld::new(&[]), &RecordBuilder::envelope("a")).await,
        json!({
            "level": "INFO",
            "message": "letter delivered",
            "request_id": "req-1",
            "outcome": "delivered",
            "letter.id": letter_id("a"),
            "letter.origin": "sns",
            "sqs.message_id": "a",
            "sqs.receive_count": 1,
            "queue.arn": DLQ,
            "topic.arn": TOPIC,
            "subscription.arn": SUBSCRIPTION,
            "target.arn": WORKER,
            "rule": "default",
            "retry.number": 1,
            "retry.of": 12,
            "retry.phase": "immediate",
        })
    );
}

#[tokio::test]
async fn of_a_letter_deferred_after_a_failed_attempt() {
    let schedule = json!({ "minDelayTarget": 60, "maxDelayTarget": 120, "numRetries": 3 });
    let world = FunctionWorld::with_policy(&json!({
        "default": { "jitter": 0 },
        "rules": [{
            "name": "slowly",
            "match": { "messageAttributes": { "tenant": ["gold"] } },
            "deliveryPolicy": { "healthyRetryPolicy": schedule },
        }],
    }));
    world.cloud.reply("SendMessageBatch", SimFault::refuse(403, "AccessDenied", "not sqs:SendMessage"));
    let post = RecordBuilder::envelope("a").sns_attribute("tenant", "String", "gold").sent(NOW - 60_000);
    assert_eq!(
        line(&world, &post).await,
        json!({
            "level": "INFO",
            "message": "letter deferred: failed",
            "request_id": "req-1",
            "outcome": "deferred",
            "reason": "failed",
            "letter.id": letter_id("a"),
            "letter.origin": "sns",
            "sqs.message_id": "a",
            "sqs.receive_count": 1,
            "queue.arn": DLQ,
            "topic.arn": TOPIC,
            "subscription.arn": SUBSCRIPTION,
            "target.arn": WORKER,
            "rule": "slowly",
            "retry.number": 1,
            "retry.of": 3,
            "retry.phase": "backoff",
            "delay_s": 90,
            "due": "2026-11-01T12:01:30Z",
            "detail": "the function's role or the target's policy does not allow it",
            "error.code": "AccessDenied",
            "error.class": "action_required",
            "error.message": "not sqs:SendMessage",
        })
    );
}

#[tokio::test]
async fn of_a_letter_deferred_without_an_attempt() {
    let world = FunctionWorld::with_policy(&policy(&json!({ "jitter": 0 })));
    let post = RecordBuilder::envelope("a").mark(&mark(2, "life-long-id", NOW)).received(2);
    assert_eq!(
        line(&world, &post).await,
        json!({
            "level": "INFO",
            "message": "letter deferred: early",
            "request_id": "req-1",
            "outcome": "deferred",
            "reason": "early",
            "letter.id": "life-long-id",
            "letter.origin": "sns",
            "sqs.message_id": "a",
            "sqs.receive_count": 2,
            "queue.arn": DLQ,
            "topic.arn": TOPIC,
            "subscription.arn": SUBSCRIPTION,
            "rule": "default",
            "delay_s": 60,
            "due": "2026-11-01T12:01:00Z",
        })
    );
}

#[tokio::test]
async fn of_an_archived_letter() {
    let world = FunctionWorld::new(&[]);
    world.cloud.reply("SendMessageBatch", SimFault::refuse(400, "InvalidMessageContents", "quotes the body"));
    assert_eq!(
        line(&world, &RecordBuilder::envelope("a")).await,
        json!({
            "level": "WARN",
            "message": "letter archived: permanent",
            "request_id": "req-1",
            "outcome": "archived",
            "reason": "permanent",
            "letter.id": letter_id("a"),
            "letter.origin": "sns",
            "sqs.message_id": "a",
            "sqs.receive_count": 1,
            "queue.arn": DLQ,
            "topic.arn": TOPIC,
            "subscription.arn": SUBSCRIPTION,
            "target.arn": WORKER,
            "rule": "default",
            "retry.number": 1,
            "retry.of": 12,
            "retry.phase": "immediate",
            "error.code": "InvalidMessageContents",
            "error.class": "permanent",
        })
    );
    assert_eq!(
        line(&FunctionWorld::new(&[]), &RecordBuilder::raw("r", "x")).await,
        json!({
            "level": "WARN",
            "message": "letter archived: unrecognised",
            "request_id": "req-1",
            "outcome": "archived",
            "reason": "unrecognised",
            "detail": "the letter names no subscription: set the subscription of its rule",
            "letter.id": "r",
            "letter.origin": "raw",
            "sqs.message_id": "r",
            "sqs.receive_count": 1,
            "queue.arn": DLQ,
            "rule": "default",
        })
    );
}

fn in_a_group(id: &str) -> RecordBuilder {
    RecordBuilder::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group("g")
}

/// Returns the line of a letter in a group that was not attempted.
fn of_a_group(id: &str, level: &str, outcome: &str) -> Value {
    json!({
        "level": level,
        "message": format!("letter {outcome}"),
        "request_id": "req-1",
        "outcome": outcome,
        "letter.id": format!("sns-{id}/{FIFO_SUBSCRIPTION}"),
        "letter.origin": "sns",
        "sqs.message_id": id,
        "sqs.receive_count": 1,
        "queue.arn": FIFO_DLQ,
        "topic.arn": FIFO_TOPIC,
        "subscription.arn": FIFO_SUBSCRIPTION,
        "rule": "default",
    })
}

#[tokio::test]
async fn of_a_held_letter() {
    let world = FunctionWorld::new(&[]);
    world.cloud.reply("SendMessageBatch", SimFault::Unavailable);
    let ran = world.run(&["a", "b"].map(in_a_group)).await;
    assert_eq!(ran.outcomes(), ["a deferred failed", "b held"]);
    assert_eq!(untimed(ran.letter("b")), of_a_group("b", "INFO", "held"));
}

#[tokio::test(start_paused = true)]
async fn of_a_letter_that_time_ran_out_for_and_of_one_behind_it() {
    let world = FunctionWorld::new(&[]).with_time(std::time::Duration::ZERO);
    let ran = world.run(&["a", "b"].map(in_a_group)).await;
    let mut late = of_a_group("a", "ERROR", "failed");
    late["reason"] = json!("out_of_time");
    late["message"] = json!("letter failed: out_of_time");
    assert_eq!(untimed(ran.letter("a")), late);
    // The letter would be hidden as long as its head, and there may be no time for that either.
    let held = of_a_group("b", "INFO", "held");
    let mut not_hidden = held.clone();
    not_hidden["undone.code"] = json!("DeadlineExceeded");
    not_hidden["undone.class"] = json!("transient");
    let line = untimed(ran.letter("b"));
    assert!(line == held || line == not_hidden, "{line}");
}

#[tokio::test]
async fn of_a_letter_that_could_not_be_archived_and_why() {
    let world = FunctionWorld::new(&[]);
    world.cloud.reply("PutObject", SimFault::refuse(403, "AccessDenied", "no s3:PutObject"));
    let ran = world.run([&RecordBuilder::raw("r", "x")]).await;
    let lines: Vec<_> = ran.log.iter().map(untimed).collect();
    assert_eq!(
        lines,
        [json!({
            "level": "ERROR",
            "message": "letter failed: archive",
            "request_id": "req-1",
            "outcome": "failed",
            "reason": "archive",
            "detail": "the letter names no subscription: set the subscription of its rule",
            "delay_s": 1,
            "letter.id": "r",
            "letter.origin": "raw",
            "sqs.message_id": "r",
            "sqs.receive_count": 1,
            "queue.arn": DLQ,
            "rule": "default",
            "undone.code": "AccessDenied",
            "undone.class": "action_required",
            "undone.message": "no s3:PutObject",
        }),]
    );
}

#[tokio::test]
async fn of_observed_letters() {
    let world = FunctionWorld::new(&[
        ("REDRIVE_MODE", "observe"),
        ("REDRIVE_POLICY", r#"{"default": {"jitter": 0}}"#),
    ]);
    let early = RecordBuilder::envelope("early").mark(&mark(2, "early", NOW));
    let ran = world.run([&RecordBuilder::envelope("due"), &early, &RecordBuilder::raw("r", "x")]).await;
    let common = |id: &str, letter: &str| {
        json!({
            "level": "INFO",
            "message": "letter observed",
            "request_id": "req-1",
            "outcome": "observed",
            "letter.id": letter,
            "letter.origin": "sns",
            "sqs.message_id": id,
            "sqs.receive_count": 1,
            "queue.arn": DLQ,
            "topic.arn": TOPIC,
            "subscription.arn": SUBSCRIPTION,
            "rule": "default",
        })
    };
    let mut due = common("due", &letter_id("due"));
    due["decision"] = json!("deliver");
    due["detail"] = json!("not known before an attempt: whether SNS confirms its subscription");
    due["message"] = json!("letter observed: deliver");
    due["retry.number"] = json!(1);
    due["retry.of"] = json!(12);
    due["retry.phase"] = json!("immediate");
    let mut early = common("early", "early");
    early["decision"] = json!("defer");
    early["message"] = json!("letter observed: defer");
    early["reason"] = json!("early");
    early["delay_s"] = json!(60);
    early["due"] = json!("2026-11-01T12:01:00Z");
    let raw = json!({
        "level": "INFO",
        "message": "letter observed: archive",
        "request_id": "req-1",
        "outcome": "observed",
        "decision": "archive",
        "reason": "unrecognised",
        "detail": "the letter names no subscription: set the subscription of its rule",
        "letter.id": "r",
        "letter.origin": "raw",
        "sqs.message_id": "r",
        "sqs.receive_count": 1,
        "queue.arn": DLQ,
        "rule": "default",
    });
    assert_eq!(ran.log.iter().map(untimed).collect::<Vec<_>>(), [due, early, raw]);
}

#[tokio::test]
async fn of_a_queue_that_does_not_tell_its_attributes() {
    let world = FunctionWorld::new(&[]);
    world.cloud.reply("GetQueueAttributes", SimFault::refuse(403, "AccessDenied", "no"));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    let told = untimed(&ran.log[0]);
    assert_eq!(
        [&told["level"], &told["queue.arn"], &told["error.code"], &told["error.class"]],
        [&json!("WARN"), &json!(DLQ), &json!("AccessDenied"), &json!("action_required")]
    );
    assert!(ran.log.iter().all(|line| line["request_id"] == "req-1"), "{}", ran.text);
    assert_eq!(ran.log.len(), 2);
}

#[tokio::test]
async fn each_origin_has_its_name() {
    let origins: Vec<_> = {
        let ran = FunctionWorld::with_policy(&json!({ "origins": every_origin() }))
            .run_event(&sample("mixed"))
            .await;
        ran.letters().into_iter().map(|line| line["letter.origin"].clone()).collect()
    };
    let expected = ["sns", "sns", "raw", "lambda-async", "lambda-destination", "sqs", "eventbridge"];
    assert_eq!(origins[..7], expected.map(Value::from));
}

/// `AWS_LAMBDA_LOG_LEVEL=WARN` silences successes, but no metric.
#[tokio::test]
async fn a_higher_level_leaves_lines_out_and_metrics_in() {
    let world = FunctionWorld::new(&[]).log_level(LevelFilter::WARN);
    let ran = world.run([&RecordBuilder::envelope("a"), &RecordBuilder::raw("r", "x")]).await;
    let told: Vec<_> = ran.log.iter().map(|line| line["sqs.message_id"].clone()).collect();
    assert_eq!(told, ["r"]);
    assert_eq!(ran.metrics()["LettersReceived"], 2);
}

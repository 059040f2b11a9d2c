use super::*;

/// Returns a message as the function itself puts it there, with this mark.
fn moved(post: RecordBuilder, changes: &Value) -> RecordBuilder {
    let mut mark = json!({ "v": 2, "spent": 0, "id": "letter-1", "first": NOW, "gen": 0, "dlq": DLQ });
    mark.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    post.sqs_mark(&mark).queue(REQUEUE)
}

#[tokio::test]
async fn a_letter_that_sqs_moved_still_goes_back_to_its_source() {
    let world = world("60000");
    let ran = world.run([&RecordBuilder::envelope("a").moved_from(BILLING).received(4)]).await;
    assert_eq!(ran.letter("a")["outcome"], "requeued");
    let entry = &sent_to_requeue(&world)[0];
    assert_eq!(mark_of(entry)["source"], BILLING);
    up(&world);
    world.cloud.forget();
    world.pass(6 * HOUR);
    let ran = world.run([&from_requeue(entry, NOW)]).await;
    assert_eq!(outcome(&ran, "moved"), json!(["delivered", null, 2, null, null]));
    assert_eq!(ran.letter("moved")["letter.origin"], "sqs");
    assert_eq!(world.cloud.calls("SendMessageBatch")[0].target, "payments-billing");
}

#[tokio::test]
async fn only_the_marks_of_the_requeue_say_where_a_letter_comes_from_and_when_it_is_due() {
    let claims = json!({ "source": BILLING, "due": NOW + 1_000_000 });
    for (queue, origin, outcome) in [(REQUEUE, "sqs", "deferred"), (DLQ, "sns", "delivered")] {
        let world = world("0");
        up(&world);
        let post = moved(RecordBuilder::envelope("a"), &claims).queue(queue);
        let ran = world.run([&post]).await;
        assert_eq!(
            (&ran.letter("a")["letter.origin"], &ran.letter("a")["outcome"]),
            (&json!(origin), &json!(outcome))
        );
    }
}

#[tokio::test]
async fn a_mark_inside_an_envelope_is_not_believed_on_that_even_there() {
    let world = world("0");
    let mark =
        json!({ "v": 2, "spent": 1, "id": "x", "first": NOW, "gen": 0, "dlq": DLQ, "due": NOW + 1_000_000 });
    let ran = world.run([&RecordBuilder::envelope("a").mark(&mark).queue(REQUEUE)]).await;
    assert_eq!(ran.outcomes(), ["a deferred early"]);
    assert_eq!(ran.letter("a")["due"], at(NOW + 21_600_000).to_string(), "by its schedule");
}

#[tokio::test]
async fn an_eventbridge_letter_keeps_what_tells_it() {
    let mut event = sample("eventbridge");
    let mut policy = six_hours();
    policy["origins"] = json!({ DLQ: ["eventbridge"] });
    let world = world_with(&policy, REQUEUE, "60000", &[]);
    world.cloud.script(|call| match call.operation.as_str() {
        "Invoke" => SimFault::refuse(503, "ServiceUnavailable", "oh"),
        _ => SimFault::Pass,
    });
    let ran = world.run_event(&event).await;
    assert!(ran.outcomes()[0].ends_with(" requeued failed"), "{:?}", ran.outcomes());
    let entry = &sent_to_requeue(&world)[0];
    let attributes = event["Records"][0]["messageAttributes"].as_object_mut().unwrap();
    assert!(attributes.len() >= 4);
    for (name, value) in attributes {
        assert_eq!(entry.attributes[name].value.text(), value["stringValue"].as_str().unwrap());
    }
    up(&world);
    world.pass(6 * HOUR);
    let ran = world.run([&from_requeue(entry, NOW)]).await;
    assert_eq!(
        (&ran.letter("moved")["letter.origin"], &ran.letter("moved")["outcome"]),
        (&json!("eventbridge"), &json!("delivered"))
    );
}

#[tokio::test]
async fn rules_see_the_dead_letter_queue_that_it_came_from() {
    let mut policy = six_hours();
    policy["rules"] = json!([{ "name": "dlq", "match": { "queueArn": [DLQ] }, "action": "archive" }]);
    let world = world_with(&policy, REQUEUE, "0", &[]);
    let ran = world.run([&moved(RecordBuilder::envelope("a"), &json!({}))]).await;
    assert_eq!(ran.outcomes(), ["a archived rule"]);
    assert_eq!(archived(&world.cloud)[0]["queueArn"], REQUEUE);
}

/// A move restarts SQS's own clock. Without this check a letter could live for ever.
#[tokio::test]
async fn the_retention_counts_from_the_first_arrival() {
    let world = world("0");
    let first = NOW - (14 * 24 - 2) * HOUR * 1000;
    let ran = world
        .run([&moved(RecordBuilder::envelope("a"), &json!({ "first": first, "due": NOW + 3_600_001 }))])
        .await;
    assert_eq!(ran.outcomes(), ["a archived expiring"]);
    let ran = world
        .run([&moved(RecordBuilder::envelope("a"), &json!({ "first": first, "due": NOW + 3_600_000 }))])
        .await;
    assert_eq!(ran.outcomes(), ["a deferred early"]);
    assert_eq!(ran.metrics()["SecondsToExpiry"], 2 * HOUR);
}

#[tokio::test]
async fn nothing_that_lies_there_counts_as_an_arrival() {
    let world = world("0");
    let ran = world.run([&moved(RecordBuilder::envelope("a"), &json!({}))]).await;
    assert_eq!(ran.metric("LettersArrived"), 0);
}

#[tokio::test]
async fn a_letter_never_goes_to_the_dead_letter_queue_that_it_came_from() {
    let world = world_with(&json!({ "default": { "target": DLQ } }), REQUEUE, "0", &[]);
    let ran = world.run([&moved(RecordBuilder::envelope("a"), &json!({}))]).await;
    assert_eq!(ran.outcomes(), ["a archived refused"]);
    assert_eq!(world.cloud.entries("SendMessageBatch"), []);
}

#[tokio::test]
async fn a_letter_that_waits_is_listed_with_the_queue_that_it_came_from() {
    let world = world_with(&six_hours(), REQUEUE, "60000", &[("CONTROL", "s3://my-bucket/control")]);
    world.run([&RecordBuilder::envelope("a")]).await;
    let entry = &sent_to_requeue(&world)[0];
    world.cloud.queue("payments-requeue", &[("MessageRetentionPeriod", TWO_WEEKS)]);
    world.pass(6 * HOUR);
    assert_eq!(world.run([&from_requeue(entry, NOW)]).await.outcomes(), ["moved deferred failed"]);
    let objects = world.cloud.objects();
    let (_, list) = objects.iter().find(|(key, _)| key.contains("/waiting/queue=payments-requeue/")).unwrap();
    let line: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    assert_eq!(json!([line["queueArn"], line["deadLetterQueueArn"]]), json!([REQUEUE, DLQ]));
}

/// Anyone who makes the requeue the dead-letter queue of a queue of theirs needs no permission to send to it.
#[tokio::test]
async fn no_mark_is_believed_on_a_message_that_sqs_itself_moved_there() {
    let theirs = "arn:aws:sqs:eu-central-1:123456789012:theirs";
    for (source, targets) in [(None, ["payments-billing"].as_slice()), (Some(theirs), &[])] {
        let world = world_with(&six_hours(), REQUEUE, "0", &[]);
        up(&world);
        let post = moved(RecordBuilder::envelope("a"), &json!({ "to": BILLING }));
        let post = source.map_or(post.clone(), |source| post.moved_from(source));
        let ran = world.run([&post]).await;
        let sent: Vec<_> =
            world.cloud.calls("SendMessageBatch").into_iter().map(|call| call.target).collect();
        let to_billing: Vec<_> = sent.iter().filter(|target| *target == "payments-billing").collect();
        assert_eq!(to_billing, targets, "{:?} {sent:?}", ran.outcomes());
    }
}

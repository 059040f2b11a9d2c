use super::*;

#[tokio::test]
async fn a_rule_republishes_to_the_letters_topic() {
    let world = FunctionWorld::with_policy(&default(&json!({ "target": "topic" })));
    let ran = world.run(&envelopes(10)).await;
    assert_eq!(ran.kept, [""; 0]);
    assert_eq!(ran.letter("m0")["target.arn"], TOPIC);
    let vouched = format!("GetSubscriptionAttributes {SUBSCRIPTION}");
    let calls = ["GetQueueAttributes payments-dlq", &vouched, "PublishBatch payments 10"];
    assert_eq!(world.cloud.summary(), calls);
    let entry = &world.cloud.entries("PublishBatch")[0];
    assert_eq!(entry.body, "message of m0");
    let mark = mark_text(1, &letter_id("m0"), NOW, "message of m0");
    assert_eq!(entry.attributes["sns-redrive"].value.text(), published(&mark, 1));
}

#[tokio::test]
async fn a_rule_sends_to_an_arn_whatever_the_letter() {
    for (target, op) in [(BILLING, "SendMessageBatch payments-billing"), (TOPIC, "PublishBatch payments")] {
        let world = FunctionWorld::with_policy(&default(&json!({ "target": target })));
        let ran = world.run([&RecordBuilder::raw("r", "plain"), &RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["r delivered", "a delivered"]);
        assert_eq!(world.cloud.summary(), ["GetQueueAttributes payments-dlq".to_owned(), format!("{op} 2")]);
    }
}

#[tokio::test]
async fn what_sqs_moved_goes_back_to_its_source_queue_as_it_was() {
    for target in ["origin", "source"] {
        let world = FunctionWorld::with_policy(&default(&json!({ "target": target })));
        let post = RecordBuilder::envelope("a").moved_from(BILLING).received(4);
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        // Three of its four receives belong to the source queue.
        assert_eq!(ran.letter("a")["retry.number"], 1);
        let calls = world.cloud.calls("SendMessageBatch");
        assert_eq!((calls[0].target.as_str(), &calls[0].entries[0].body), ("payments-billing", &post.body()));
    }
}

#[tokio::test]
async fn what_sqs_did_not_move_has_no_source() {
    let world = FunctionWorld::with_policy(&default(&json!({ "target": "source" })));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a archived unrecognised"]);
}

#[tokio::test]
async fn only_targets_that_a_rule_allows_are_reached() {
    for (allowed, outcome) in [
        (json!([WORKER]), "a delivered"),
        (json!([BILLING, WORKER]), "a delivered"),
        (json!([BILLING]), "a archived refused"),
        // A prefix of an ARN is not that ARN.
        (json!(["arn:aws:sqs:eu-central-1:123456789012:payments-"]), "a archived refused"),
        (json!([]), "a archived refused"),
    ] {
        let world = FunctionWorld::with_policy(&default(&json!({ "allowTargets": allowed })));
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), [outcome], "{allowed}");
        let refused = outcome.ends_with("refused");
        assert_eq!(world.cloud.calls("SendMessageBatch").is_empty(), refused);
    }
}

#[tokio::test]
async fn the_queue_that_is_drained_is_no_target() {
    let world = FunctionWorld::with_policy(&default(&json!({ "target": DLQ })));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a archived refused"]);
    assert_eq!(world.cloud.calls("SendMessageBatch"), []);
}

fn full(id: &str) -> RecordBuilder {
    (0..10).fold(RecordBuilder::raw(id, "x"), |post, number| {
        post.attribute(&format!("a{number}"), "String", "x")
    })
}

#[tokio::test]
async fn a_full_letter_goes_to_its_own_endpoint_unmarked_which_is_logged() {
    let world = FunctionWorld::with_policy(&default(&json!({ "subscription": SUBSCRIPTION })));
    let ran = world.run([&full("full"), &RecordBuilder::raw("r", "x")]).await;
    assert_eq!(ran.outcomes(), ["full delivered", "r delivered"]);
    let told: Vec<_> = ran.log.iter().filter(|line| line["level"] == "WARN").collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["sqs.message_id"], "full");
    let entries = world.cloud.entries("SendMessageBatch");
    // It goes last: the others do not wait until its queue has been asked.
    assert_eq!((entries[0].attributes.len(), entries[1].attributes.len()), (1, 10));
    assert!(!entries[1].attributes.contains_key("sns-redrive"));
}

/// Nothing would count how often it goes round.
#[tokio::test]
async fn a_full_letter_does_not_go_where_dead_letters_come_back_here() {
    let world = FunctionWorld::with_policy(&default(&json!({ "subscription": BILLING_SUBSCRIPTION })));
    let ran = world.run([&full("full"), &RecordBuilder::raw("r", "x")]).await;
    assert_eq!(ran.outcomes(), ["full archived unmarkable", "r delivered"]);
    let detail = ran.letter("full")["detail"].as_str().unwrap();
    assert!(detail.ends_with("because the dead letters of its queue come back here"), "{detail}");
}

/// Whether it may go without its mark is not guessed.
#[tokio::test]
async fn a_full_letter_waits_while_its_queue_cannot_be_asked() {
    let world = FunctionWorld::with_policy(&default(&json!({ "subscription": SUBSCRIPTION })));
    world.cloud.script(|call| match (call.operation.as_str(), call.target.as_str()) {
        ("GetQueueAttributes", "payments-worker") => SimFault::refuse(403, "AccessDenied", "no"),
        _ => SimFault::Pass,
    });
    let ran = world.run([&full("full"), &RecordBuilder::raw("r", "x")]).await;
    assert_eq!(ran.outcomes(), ["full deferred failed", "r delivered"]);
    assert_eq!(ran.letter("full")["error.code"], "QueueUnreadable");
    let detail = ran.letter("full")["detail"].as_str().unwrap();
    assert!(detail.contains("grant sqs:GetQueueAttributes"), "{detail}");
}

/// Gives a queue this limit of size and these dead letters.
fn limited(world: &FunctionWorld, name: &str, bytes: usize, dead_letters: Option<&str>) {
    let redrive =
        dead_letters.map(|queue| format!(r#"{{"deadLetterTargetArn":"{queue}","maxReceiveCount":3}}"#));
    let bytes = bytes.to_string();
    let mut attributes = vec![("MaximumMessageSize", bytes.as_str())];
    attributes.extend(redrive.as_ref().map(|redrive| ("RedrivePolicy", redrive.as_str())));
    world.cloud.queue(name, &attributes);
}

/// Bytes that a mark makes too many.
const EXCESS_BYTES: usize = 100;

/// SNS ignores the limit of a queue, so such letters have been in it before.
#[tokio::test]
async fn a_letter_that_only_its_mark_makes_too_large_goes_to_its_own_queue_without() {
    for (limit, bytes) in
        [(262_144, 262_144), (1_048_576, 1_048_576), (1_024, 1_024), (2_048, 2_048 - EXCESS_BYTES)]
    {
        let world = FunctionWorld::with_policy(&default(&json!({ "subscription": SUBSCRIPTION })));
        limited(&world, "payments-worker", limit, None);
        let ran = world
            .run([&RecordBuilder::raw("large", &"x".repeat(bytes)), &RecordBuilder::raw("r", "x")])
            .await;
        assert_eq!(ran.outcomes(), ["large delivered", "r delivered"], "{bytes} to {limit}");
        let told: Vec<_> = ran.log.iter().filter(|line| line["level"] == "WARN").collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["sqs.message_id"], "large");
        let large =
            world.cloud.messages("payments-worker").into_iter().find(|it| it.body.len() == bytes).unwrap();
        assert_eq!(large.attributes.len(), 0);
    }
}

#[tokio::test]
async fn a_letter_that_its_mark_makes_too_large_goes_nowhere_else_and_says_what_to_do() {
    let cases = [
        ("where its dead letters come back", json!({ "subscription": SUBSCRIPTION }), Some(DLQ)),
        ("to another queue", json!({ "target": WORKER }), None),
    ];
    for (what, policy, dead_letters) in cases {
        let world = FunctionWorld::with_policy(&default(&policy));
        limited(&world, "payments-worker", 2_048, dead_letters);
        let ran = world
            .run([&RecordBuilder::raw("large", &"x".repeat(2_000)), &RecordBuilder::raw("r", "x")])
            .await;
        assert_eq!(ran.outcomes(), ["large archived unmarkable", "r delivered"], "{what}");
        let detail = ran.letter("large")["detail"].as_str().unwrap();
        assert!(
            detail
                .starts_with("the letter has 2000 bytes, and 2108 with its mark, but its queue takes 2048: ")
        );
        assert!(detail.contains("MaximumMessageSize, then replay"), "{detail}");
    }
}

#[tokio::test]
async fn a_letter_that_is_too_large_without_its_mark_says_what_its_queue_takes() {
    let world = FunctionWorld::with_policy(&default(&json!({ "subscription": SUBSCRIPTION })));
    limited(&world, "payments-worker", 2_048, None);
    let ran =
        world.run([&RecordBuilder::raw("large", &"x".repeat(2_049)), &RecordBuilder::raw("r", "x")]).await;
    assert_eq!(ran.outcomes(), ["large archived permanent", "r delivered"]);
    assert_eq!(
        ran.letter("large")["detail"],
        "the letter has 2049 bytes, and its queue takes 2048 from anybody but SNS: raise the queue's \
         MaximumMessageSize, then replay the letter"
    );
}

#[tokio::test]
async fn a_letter_that_its_mark_makes_too_large_for_a_topic_says_so() {
    for (bytes, outcome, begin) in [
        (
            262_144,
            "archived unmarkable",
            "the letter has 262144 bytes, and 262252 with its mark, but its topic",
        ),
        (262_145, "archived permanent", "the letter has 262145 bytes, and a topic takes 262144 by default"),
    ] {
        let world = FunctionWorld::with_policy(&default(&json!({ "target": TOPIC })));
        let ran = world
            .run([&RecordBuilder::raw("large", &"x".repeat(bytes)), &RecordBuilder::raw("r", "x")])
            .await;
        assert_eq!(ran.outcomes(), [&format!("large {outcome}"), "r delivered"]);
        let detail = ran.letter("large")["detail"].as_str().unwrap();
        assert!(detail.starts_with(begin), "{detail}");
    }
}

#[tokio::test]
async fn a_full_letter_goes_nowhere_else() {
    for target in [WORKER, TOPIC] {
        let world = FunctionWorld::with_policy(&default(&json!({ "target": target })));
        let ran = world.run([&full("full"), &RecordBuilder::raw("r", "x")]).await;
        assert_eq!(ran.outcomes(), ["full archived unmarkable", "r delivered"]);
    }
}

/// The letter has been in that queue before. Without a mark it would circulate for ever.
#[tokio::test]
async fn a_full_letter_that_sqs_moved_here_goes_nowhere() {
    let world = FunctionWorld::with_policy(&default(
        &json!({ "target": "subscription", "subscription": SUBSCRIPTION }),
    ));
    let ran = world.run([&full("full").moved_from(WORKER), &full("new")]).await;
    assert_eq!(ran.outcomes(), ["full archived unmarkable", "new delivered"]);
}

#[tokio::test]
async fn fifo_letters_keep_group_and_get_a_new_deduplication_id_per_retry() {
    let mut seen = BTreeSet::new();
    for (receive, world) in
        [(1, FunctionWorld::new(&[])), (2, FunctionWorld::new(&[])), (2, FunctionWorld::new(&[]))]
    {
        world.set_now(NOW + 3_600_000);
        let post = RecordBuilder::envelope("a")
            .topic(FIFO_TOPIC)
            .subscription(FIFO_SUBSCRIPTION)
            .queue(FIFO_DLQ)
            .group("customer-17")
            .system("MessageDeduplicationId", "original")
            .received(receive);
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(ran.letter("a")["retry.number"], receive);
        let entry = world.cloud.entries("SendMessageBatch").remove(0);
        assert_eq!(entry.group.as_deref(), Some("customer-17"));
        seen.insert((receive, entry.deduplication.unwrap()));
    }
    // These are retry 1 and retry 2. The repetition of retry 2 has the same id.
    assert_eq!(seen.len(), 2);
    assert_eq!(seen.iter().map(|(_, id)| id).collect::<BTreeSet<_>>().len(), 2);
}

/// Operators can set any limit, and nobody knows this one.
#[tokio::test]
async fn a_letter_that_is_refused_waits_while_the_limit_of_its_queue_cannot_be_read() {
    let world = FunctionWorld::with_policy(&default(&json!({ "subscription": SUBSCRIPTION })));
    limited(&world, "payments-worker", 2_048, None);
    world.cloud.script(|call| match (call.operation.as_str(), call.target.as_str()) {
        ("GetQueueAttributes", "payments-worker") => SimFault::refuse(403, "AccessDenied", "no"),
        _ => SimFault::Pass,
    });
    let ran =
        world.run([&RecordBuilder::raw("large", &"x".repeat(2_000)), &RecordBuilder::raw("r", "x")]).await;
    assert_eq!(ran.outcomes(), ["large deferred failed", "r delivered"]);
    assert_eq!(ran.letter("large")["error.code"], "QueueUnreadable");
    let detail = ran.letter("large")["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("; it was refused with InvalidParameterValue"), "{detail}");
    assert!(ran.letter("large")["attempt_ms"].is_number(), "an attempt was made");

    // What has nothing to do with the size is what it is, whatever can be read.
    world.cloud.script(|call| match (call.operation.as_str(), call.target.as_str()) {
        ("GetQueueAttributes", "payments-worker") => SimFault::refuse(403, "AccessDenied", "no"),
        ("SendMessageBatch", "payments-worker") => SimFault::Entries(vec![(
            0,
            redrive_sim::EntryFault::Failed {
                code: "InvalidMessageContents".into(),
                message: "Invalid characters".into(),
                sender: true,
            },
        )]),
        _ => SimFault::Pass,
    });
    let ran = world.run([&RecordBuilder::raw("c", "x")]).await;
    assert_eq!(ran.outcomes(), ["c archived permanent"]);
    assert_eq!(ran.letter("c")["error.code"], "InvalidMessageContents");
}

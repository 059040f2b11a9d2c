use super::*;

fn failed_at(target: &str) -> RecordBuilder {
    RecordBuilder::raw("a", PLAIN)
        .attribute("RULE_ARN", "String", RULE)
        .attribute("TARGET_ARN", "String", target)
        .attribute("ERROR_CODE", "String", "NO_PERMISSIONS")
        .attribute("ERROR_MESSAGE", "String", "S3CR3T may not be told")
        .attribute("EXHAUSTED_RETRY_CONDITION", "String", "MaximumRetryAttempts")
        .attribute("RETRY_ATTEMPTS", "String", "185")
}

#[tokio::test]
async fn goes_to_the_function_of_its_target_with_the_event_byte_for_byte() {
    let world = built_in();
    let ran = world.run([&failed_at(PROJECTOR)]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);
    assert_eq!(ran.letter("a")["target.arn"], PROJECTOR);
    assert_eq!(
        invocation(&world),
        ("payments-projector".to_owned(), "RequestResponse".to_owned(), PLAIN.to_owned())
    );
}

/// Its dead letters hold the event as it was on the bus.
#[tokio::test]
async fn says_that_the_event_is_not_what_a_transformer_makes_of_it() {
    let world = built_in();
    let ran = world.run([&failed_at(PROJECTOR)]).await;
    let detail = ran.letter("a")["detail"].as_str().unwrap();
    assert!(detail.contains("InputTransformer"), "{detail}");
    let elsewhere = FunctionWorld::with_policy(&default(&json!({ "target": WORKER })));
    let ran = elsewhere.run([&failed_at(PROJECTOR)]).await;
    assert_eq!(ran.letter("a")["detail"], json!(null));
}

/// An attempt that failed says both: what to do about the failure, and what it sent.
#[tokio::test]
async fn says_so_beside_what_else_there_is_to_say() {
    let world = built_in();
    world.cloud.reply("Invoke", SimFault::refuse(403, "AccessDeniedException", "not lambda:InvokeFunction"));
    let ran = world.run([&failed_at(PROJECTOR)]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    let detail = ran.letter("a")["detail"].as_str().unwrap();
    assert!(detail.starts_with("the function's role or the target's policy does not allow it; "), "{detail}");
    assert!(detail.contains("InputTransformer"), "{detail}");
}

/// The schedule's target is an API, and the body is the request to it.
#[tokio::test]
async fn a_letter_of_a_schedule_says_what_it_is() {
    let post = RecordBuilder::raw(
        "a",
        r#"{"MessageBody":"x","QueueUrl":"https://sqs.eu-central-1.amazonaws.com/1/q"}"#,
    )
    .attribute(
        "SCHEDULE_ARN",
        "String",
        "arn:aws:scheduler:eu-central-1:123456789012:schedule/default/nightly",
    )
    .attribute("TARGET_ARN", "String", "arn:aws:scheduler:::aws-sdk:sqs:sendMessage")
    .attribute("ERROR_CODE", "String", "AWS.SimpleQueueService.NonExistentQueue");
    let ran = built_in().run([&post]).await;
    assert_eq!(ran.outcomes(), ["a archived unrecognised"]);
    let detail = ran.letter("a")["detail"].as_str().unwrap();
    assert!(detail.starts_with("the letter looks like one of EventBridge Scheduler. "), "{detail}");
}

#[tokio::test]
async fn goes_to_the_queue_of_its_target_without_what_eventbridge_added() {
    let world = built_in();
    let ran = world.run([&failed_at(BILLING)]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);
    let [call] = world.cloud.calls("SendMessageBatch").try_into().unwrap();
    let SimCall { target, mut entries, .. } = call;
    assert_eq!(target, "payments-billing");
    let entry = entries.remove(0);
    let mark = attribute("String", &mark_text(1, "a", NOW, PLAIN));
    assert_eq!(
        entry,
        SimEntry {
            body: PLAIN.to_owned(),
            attributes: [("sns-redrive".to_owned(), mark)].into(),
            ..SimEntry::new("0", "")
        }
    );
}

#[tokio::test]
async fn goes_to_the_fifo_queue_of_its_target() {
    let world = built_in();
    world.run([&failed_at(FIFO_WORKER)]).await;
    let entry = world.cloud.entries("SendMessageBatch").remove(0);
    assert!(entry.group.is_some() && entry.deduplication.is_some());
}

#[tokio::test]
async fn with_a_target_of_another_kind_it_is_archived_with_the_reason() {
    for target in [
        STATE_MACHINE,
        TOPIC,
        STREAM,
        "arn:aws:events:eu-central-1:210987654321:event-bus/central",
        "arn:aws:events:eu-central-1:123456789012:api-destination/crm/0a1b",
        "arn:aws:kinesis:eu-central-1:123456789012:stream/payments",
        "arn:aws:ecs:eu-central-1:123456789012:cluster/shop",
    ] {
        let world = built_in();
        let ran = world.run([&failed_at(target)]).await;
        assert_eq!(ran.outcomes(), ["a archived undeliverable_protocol"], "{target}");
        let record = archived(&world.cloud).remove(0);
        assert_eq!(
            record["detail"],
            "the letter failed at a target that is neither a function nor a queue: set the target of its rule"
        );
        assert_eq!(record["cause"], json!({ "code": "NO_PERMISSIONS", "message": "S3CR3T may not be told" }));
        assert_eq!(record["message"]["messageAttributes"]["TARGET_ARN"]["stringValue"], target);
        assert_eq!(operations(&world.cloud), ["GetQueueAttributes", "PutObject"]);
    }
}

#[tokio::test]
async fn tells_the_code_of_the_cause_in_the_log_and_never_its_message() {
    for target in [PROJECTOR, BILLING, STATE_MACHINE] {
        let ran = built_in().run([&failed_at(target)]).await;
        assert_eq!(ran.letter("a")["cause.code"], "NO_PERMISSIONS");
        assert!(!ran.text.contains("S3CR3T"));
    }
}

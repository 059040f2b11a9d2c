use super::*;

/// The consumer's dead-letter queue is this one too. From the second time on, SQS moves the letter here, and
/// its source queue gets it.
#[tokio::test]
async fn the_queue_of_a_subscription() {
    let world = world_of(&policy(&json!({}), &json!([])), &["payments-worker"], DLQ);
    let calls = goes_round(&world, first(), moved).await;
    for call in calls {
        assert_eq!(call.target, "payments-worker");
        assert_eq!(call.entries[0].body, first().body(), "body and signature are as they were");
    }
}

#[tokio::test]
async fn the_fifo_queue_of_a_subscription() {
    let world = world_of(&policy(&json!({}), &json!([])), &["payments-worker.fifo"], FIFO_DLQ);
    let post = first().topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group("g");
    let calls = goes_round(&world, post, |call, id| moved(call, id).queue(FIFO_DLQ)).await;
    let ids: BTreeSet<_> = calls.iter().map(|call| call.entries[0].deduplication.clone().unwrap()).collect();
    assert_eq!(ids.len(), RETRIES, "a repeated id would be swallowed");
}

#[tokio::test]
async fn the_source_queue() {
    for target in ["origin", "source"] {
        let policy = policy(&json!({ "target": target }), &json!([]));
        for post in [first(), RecordBuilder::raw("a", "plain")] {
            let world = world_of(&policy, &["payments-billing"], DLQ);
            let calls = goes_round(&world, post.moved_from(BILLING).received(4), moved).await;
            assert!(calls.iter().all(|call| call.target == "payments-billing"));
        }
    }
}

#[tokio::test]
async fn a_queue_that_a_rule_names() {
    let policy = policy(&json!({ "target": BILLING }), &json!([]));
    let world = world_of(&policy, &["payments-billing"], DLQ);
    goes_round(&world, first(), moved).await;
}

/// Raw letters have the mark as an attribute.
#[tokio::test]
async fn the_queue_of_a_raw_subscription() {
    let policy = policy(&json!({ "subscription": SUBSCRIPTION }), &json!([]));
    let world = world_of(&policy, &[], DLQ);
    let back = |call: &SimCall, id: &str| {
        let entry = &call.entries[0];
        let SimAttribute { kind, value } = &entry.attributes["sns-redrive"];
        RecordBuilder::raw(id, &entry.body).attribute("sns-redrive", kind, &value.text())
    };
    goes_round(&world, RecordBuilder::raw("a", "plain"), back).await;
}

#[tokio::test]
async fn the_queue_of_an_eventbridge_rule() {
    let world = world_of(&policy(&json!({}), &json!([])), &["payments-billing"], DLQ);
    let post = RecordBuilder::raw("a", r#"{"detail":{}}"#)
        .attribute("RULE_ARN", "String", "arn:aws:events:eu-central-1:123456789012:rule/shop")
        .attribute("TARGET_ARN", "String", BILLING)
        .attribute("ERROR_CODE", "String", "THROTTLING");
    let calls = goes_round(&world, post, moved).await;
    for call in calls {
        // The attributes in which EventBridge describes its failure do not belong to the event.
        assert_eq!(call.entries[0].attributes.keys().collect::<Vec<_>>(), ["sns-redrive"]);
    }
}

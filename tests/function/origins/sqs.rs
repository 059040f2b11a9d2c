use super::*;

#[tokio::test]
async fn goes_back_to_its_source_queue_as_it_was() {
    for event in
        [sample("sqs-consumer"), event([&RecordBuilder::raw("a", PLAIN).moved_from(BILLING).received(4)])]
    {
        let world = FunctionWorld::new(&[]);
        let ran = world.run_event(&event).await;
        let line = ran.letters()[0];
        assert_eq!([&line["outcome"], &line["target.arn"]], ["delivered", BILLING]);
        assert_eq!(line["retry.number"], 1);
        let entry = world.cloud.entries("SendMessageBatch").remove(0);
        assert_eq!(entry.body, event["Records"][0]["body"].as_str().unwrap());
        assert_eq!(entry.attributes.keys().collect::<Vec<_>>(), ["sns-redrive"]);
        // Nobody asks about a subscription, because that delivery had succeeded.
        assert!(world.cloud.calls("GetSubscriptionAttributes").is_empty());
    }
}

/// SQS keeps the count when it moves a message. With three receives in the source queue, the fourth is the
/// first here, and the number of a retry follows it.
#[tokio::test]
async fn its_receives_in_the_source_queue_are_no_retries() {
    let schedule = json!({ "numRetries": 5, "numNoDelayRetries": 5 });
    let policy = default(&json!({ "deliveryPolicy": { "healthyRetryPolicy": schedule } }));
    for (max_receives, receive, number) in
        [(json!(3), 4, 1), (json!(3), 5, 2), (json!("3"), 8, 5), (json!(1), 4, 3), (json!(1000), 1001, 1)]
    {
        let world = FunctionWorld::with_policy(&policy);
        let redrive = json!({ "deadLetterTargetArn": DLQ, "maxReceiveCount": max_receives }).to_string();
        let attributes = [("MessageRetentionPeriod", "345600"), ("RedrivePolicy", redrive.as_str())];
        world.cloud.queue("payments-billing", &attributes);
        let ran = world.run([&RecordBuilder::raw("a", "x").moved_from(BILLING).received(receive)]).await;
        assert_eq!(ran.letter("a")["retry.number"], number, "{max_receives} {receive}");
    }
}

/// The count then says less than it seems to, but the points in time still hold.
#[tokio::test]
async fn a_source_queue_that_does_not_tell_costs_no_delivery() {
    for reply in [SimFault::refuse(403, "AccessDenied", "no"), SimFault::ResetBefore] {
        let world = FunctionWorld::new(&[]);
        world.cloud.script(move |call| match call.target.as_str() {
            "payments-billing" if call.operation == "GetQueueAttributes" => reply.clone(),
            _ => SimFault::Pass,
        });
        let ran = world.run([&RecordBuilder::raw("a", "x").moved_from(BILLING).received(4)]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
    }
}

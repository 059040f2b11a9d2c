use super::*;

/// The state of the subscription is all that is known of an SNS letter's cause.
#[tokio::test]
async fn tells_what_is_wrong_with_the_subscription_in_log_and_archive() {
    let gone: fn(&FunctionWorld) = |world| world.cloud.unsubscribe(SUBSCRIPTION);
    let pending: fn(&FunctionWorld) =
        |world| world.cloud.resubscribe(SUBSCRIPTION, "PendingConfirmation", "true");
    let elsewhere: fn(&FunctionWorld) =
        |world| world.cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", "{\"deadLetterTargetArn\":\"x\"}");
    for (change, detail) in [
        (gone, "the subscription does not exist"),
        (pending, "the subscription is not confirmed: if you know it, confirm it"),
        (elsewhere, crate::OF_OTHER_QUEUE),
    ] {
        let world = FunctionWorld::new(&[]);
        change(&world);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a archived refused"]);
        assert_eq!(ran.letter("a")["detail"], detail);
        let record = archived(&world.cloud).remove(0);
        assert_eq!([&record["detail"], &record["subscriptionArn"]], [detail, SUBSCRIPTION]);
    }
}

#[tokio::test]
async fn tells_that_the_queue_of_its_subscription_is_missing() {
    let world = FunctionWorld::new(&[]);
    let missing = "AWS.SimpleQueueService.NonExistentQueue";
    world.cloud.reply("SendMessageBatch", SimFault::refuse(400, missing, "The queue does not exist."));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    let line = ran.letter("a");
    assert_eq!(
        [&line["target.arn"], &line["detail"]],
        [WORKER, "the target does not exist: create it, or delete the subscription"]
    );
    assert_eq!(ran.metrics()["FailuresActionRequired"], 1);
}

/// A rule may send a letter of any origin elsewhere. An envelope then becomes the event that SNS would have
/// sent.
#[tokio::test]
async fn goes_to_a_function_of_its_rule_as_an_event_of_sns() {
    let world = FunctionWorld::with_policy(&default(&json!({ "target": PROJECTOR })));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);
    let (name, kind, payload) = invocation(&world);
    assert_eq!((name.as_str(), kind.as_str()), ("payments-projector", "Event"));
    let payload: Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(payload["Records"][0]["EventSubscriptionArn"], SUBSCRIPTION);
    assert_eq!(payload["Records"][0]["Sns"]["Message"], "message of a");
}

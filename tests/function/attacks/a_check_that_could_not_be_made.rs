use super::*;

const CALLS: [&str; 3] = ["GetQueueAttributes", "GetSubscriptionAttributes", "ChangeMessageVisibilityBatch"];

#[tokio::test]
async fn is_a_failed_attempt_and_no_refusal() {
    for (reply, code) in [
        (SimFault::refuse(403, "AuthorizationError", "not yours"), "AuthorizationError"),
        (SimFault::refuse(403, "AccessDenied", "no"), "AccessDenied"),
        (SimFault::refuse(429, "Throttled", "slow"), "Throttled"),
        (SimFault::refuse(400, "Throttling", "slow"), "Throttling"),
        (SimFault::refuse(500, "InternalError", "oh"), "InternalError"),
        (SimFault::Nonsense(503, "<html>".to_owned()), "Http503"),
        (SimFault::Nonsense(200, "<".to_owned()), "Http200"),
        (SimFault::ResetBefore, "Unreachable"),
        (SimFault::ConnectTimeout, "Timeout"),
    ] {
        let world = FunctionWorld::new(&[]);
        world.cloud.reply("GetSubscriptionAttributes", reply);
        // The subscription is in another account, and nobody here may read it.
        let post = RecordBuilder::envelope("a").topic(FOREIGN_TOPIC).subscription(FOREIGN_SUBSCRIPTION);
        failed(&world, &post, code, &CALLS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn for_lack_of_time_is_a_failed_attempt_too() {
    let world = FunctionWorld::new(&[]).with_time(Duration::from_millis(500));
    world.cloud.reply("GetSubscriptionAttributes", SimFault::HangBefore);
    failed(&world, &RecordBuilder::envelope("a"), "DeadlineExceeded", &CALLS).await;
}

#[tokio::test]
async fn ends_in_the_archive_unsent_where_it_can_never_be_made() {
    let policy = default(&json!({
        "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 2, "numNoDelayRetries": 2 } },
    }));
    let world = FunctionWorld::with_policy(&policy);
    world.cloud.reply("GetSubscriptionAttributes", SimFault::refuse(403, "AuthorizationError", "not yours"));
    for (receive, outcome) in [(1, "a deferred failed"), (2, "a archived exhausted")] {
        let ran = world.run([&RecordBuilder::envelope("a").received(receive)]).await;
        assert_eq!(ran.outcomes(), [outcome]);
    }
    assert_eq!(world.cloud.calls("SendMessageBatch"), []);
}

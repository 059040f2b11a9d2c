use super::*;

const CALLS: [&str; 3] = ["GetQueueAttributes", "GetSubscriptionAttributes", "ChangeMessageVisibilityBatch"];

#[tokio::test]
async fn is_a_failed_attempt_and_no_refusal() {
    for (reply, code) in [
        (Fault::refuse(403, "AuthorizationError", "not yours"), "AuthorizationError"),
        (Fault::refuse(403, "AccessDenied", "no"), "AccessDenied"),
        (Fault::refuse(429, "Throttled", "slow"), "Throttled"),
        (Fault::refuse(400, "Throttling", "slow"), "Throttling"),
        (Fault::refuse(500, "InternalError", "oh"), "InternalError"),
        (Fault::Nonsense(503, "<html>".to_owned()), "Http503"),
        (Fault::Nonsense(200, "<".to_owned()), "Http200"),
        (Fault::ResetBefore, "Unreachable"),
        (Fault::ConnectTimeout, "Timeout"),
    ] {
        let world = World::new(&[]);
        world.cloud.reply("GetSubscriptionAttributes", reply);
        // The subscription is in another account, and nobody here may read it.
        let post = Post::envelope("a").topic(FOREIGN_TOPIC).subscription(FOREIGN_SUBSCRIPTION);
        failed(&world, &post, code, &CALLS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn for_lack_of_time_is_a_failed_attempt_too() {
    let world = World::new(&[]).with_time(Duration::from_millis(500));
    world.cloud.reply("GetSubscriptionAttributes", Fault::HangBefore);
    failed(&world, &Post::envelope("a"), "DeadlineExceeded", &CALLS).await;
}

#[tokio::test]
async fn ends_in_the_archive_unsent_where_it_can_never_be_made() {
    let policy = default(&json!({
        "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 2, "numNoDelayRetries": 2 } },
    }));
    let world = World::with_policy(&policy);
    world.cloud.reply("GetSubscriptionAttributes", Fault::refuse(403, "AuthorizationError", "not yours"));
    for (receive, outcome) in [(1, "a deferred failed"), (2, "a archived exhausted")] {
        let ran = world.run([&Post::envelope("a").received(receive)]).await;
        assert_eq!(ran.outcomes(), [outcome]);
    }
    assert_eq!(world.cloud.calls("SendMessageBatch"), []);
}

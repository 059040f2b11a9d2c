use super::*;

const CALLS: [&str; 3] = ["GetQueueAttributes", "GetSubscriptionAttributes", "ChangeMessageVisibilityBatch"];

#[tokio::test]
async fn is_a_failed_attempt_and_no_refusal() {
    for (reply, code) in [
        (Reply::Fail(403, "AuthorizationError", "not yours"), "AuthorizationError"),
        (Reply::Fail(403, "AccessDenied", "no"), "AccessDenied"),
        (Reply::Fail(429, "Throttled", "slow"), "Throttled"),
        (Reply::Fail(400, "Throttling", "slow"), "Throttling"),
        (Reply::Fail(500, "InternalError", "oh"), "InternalError"),
        (Reply::Nonsense(503, "<html>"), "Http503"),
        (Reply::Nonsense(200, "<"), "Http200"),
        (Reply::Reset, "Unreachable"),
        (Reply::NoConnection, "Timeout"),
    ] {
        let world = World::new(&[]);
        world.cloud.reply("GetSubscriptionAttributes", reply);
        // The subscription of another account, which nobody here may read.
        let post = Post::envelope("a").topic(FOREIGN_TOPIC).subscription(FOREIGN_SUBSCRIPTION);
        failed(&world, &post, code, &CALLS).await;
    }
}

#[tokio::test]
async fn for_lack_of_time_is_a_failed_attempt_too() {
    let world = World::new(&[]).with_time(Duration::from_millis(500));
    world.cloud.reply("GetSubscriptionAttributes", Reply::Hang);
    failed(&world, &Post::envelope("a"), "DeadlineExceeded", &CALLS).await;
}

#[tokio::test]
async fn ends_in_the_archive_unsent_where_it_can_never_be_made() {
    let policy = default(&json!({
        "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 2, "numNoDelayRetries": 2 } },
    }));
    let world = World::with_policy(&policy);
    world.cloud.reply("GetSubscriptionAttributes", Reply::Fail(403, "AuthorizationError", "not yours"));
    for (receive, outcome) in [(1, "a deferred failed"), (2, "a archived exhausted")] {
        let ran = world.run([&Post::envelope("a").received(receive)]).await;
        assert_eq!(ran.outcomes(), [outcome]);
    }
    assert_eq!(world.cloud.calls("SendMessageBatch"), []);
}

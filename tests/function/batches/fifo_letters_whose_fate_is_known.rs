//! Letters whose outcome is known before the policy is applied. Such a letter does not wait behind itself in
//! its group.

use super::*;

fn fifo(post: RecordBuilder) -> RecordBuilder {
    post.queue(FIFO_DLQ).group("g")
}

#[tokio::test]
async fn wait_untouched_where_their_subscription_cannot_be_searched_for() {
    let world =
        FunctionWorld::with_policy(&json!({ "default": { "subscription": "discover", "jitter": 0 } }));
    world.cloud.reply("ListSubscriptions", SimFault::refuse(403, "AuthorizationError", "no"));
    let ran = world.run(&[fifo(RecordBuilder::raw("r", "x")), fifo(RecordBuilder::raw("s", "y"))]).await;
    assert_eq!(ran.outcomes(), ["r failed out_of_time", "s held"]);
    assert_eq!(world.cloud.calls("ListSubscriptions").len(), 1, "one failure is enough for a batch");
    let late = NOW - 14 * 86_400_000 + 1_800_000;
    let ran = world.run(&[fifo(RecordBuilder::raw("r", "x")).sent(late)]).await;
    assert_eq!(ran.outcomes(), ["r archived expiring"]);
}

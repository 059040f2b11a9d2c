//! Letters whose outcome is known before the policy is applied. Such a letter does not wait behind itself in
//! its group.

use super::*;

fn fifo(post: Post) -> Post {
    post.queue(FIFO_DLQ).group("g")
}

fn policy() -> Value {
    let lists = json!({ "a": ["x"], "b": ["x"], "c": ["x"], "d": ["x"] });
    json!({
        "default": { "subscription": "discover", "jitter": 0 },
        "rules": [{ "name": "lists", "action": "archive", "match": { "message": lists } }],
    })
}

fn unmatchable(id: &str) -> Post {
    let list = vec!["x"; 100];
    let message = json!({ "a": list, "b": list, "c": list, "d": list }).to_string();
    Post::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).message(&message)
}

fn plain(id: &str) -> Post {
    Post::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION)
}

#[tokio::test]
async fn are_archived_and_do_not_hold_up_those_before_them() {
    let world = World::with_policy(&policy());
    let ran = world.run(&[fifo(plain("a")), fifo(unmatchable("b")), fifo(plain("c"))]).await;
    assert_eq!(ran.outcomes(), ["a delivered", "b archived unrecognised", "c held"]);
}

#[tokio::test]
async fn wait_untouched_where_their_subscription_cannot_be_searched_for() {
    let world = World::with_policy(&policy());
    world.cloud.reply("ListSubscriptions", Fault::refuse(403, "AuthorizationError", "no"));
    let ran = world.run(&[fifo(Post::raw("r", "x")), fifo(Post::raw("s", "y"))]).await;
    assert_eq!(ran.outcomes(), ["r failed out_of_time", "s held"]);
    assert_eq!(world.cloud.calls("ListSubscriptions").len(), 1, "one failure is enough for a batch");
    let late = NOW - 14 * 86_400_000 + 1_800_000;
    let ran = world.run(&[fifo(Post::raw("r", "x")).sent(late)]).await;
    assert_eq!(ran.outcomes(), ["r archived expiring"]);
}

#[tokio::test]
async fn are_only_observed_in_observe_mode() {
    let policy = policy().to_string();
    let world = World::new(&[("REDRIVE_POLICY", &policy), ("REDRIVE_MODE", "observe")]);
    let ran = world.run(&[unmatchable("a")]).await;
    assert_eq!(ran.kept, ["a"]);
    let line = ran.letter("a");
    assert_eq!(
        [&line["outcome"], &line["decision"], &line["reason"]],
        ["observed", "archive", "unrecognised"]
    );
    assert_eq!(world.cloud.calls("PutObject"), []);
}

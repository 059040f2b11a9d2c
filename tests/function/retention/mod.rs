//! P1 and P4: no letter is lost at the end of a queue's retention, whatever kept it from its attempt, and
//! whatever the archive does.

mod a_visibility_timeout_above_the_margin;
mod an_archive_in_sqs;
mod an_archive_that_does_not_take_a_letter;
mod unread;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use redrive_aws::delivery::{AddressReach, HttpClient};
use redrive_support::*;
use serde_json::{Value, json};

const WEEKS: &str = "1209600";

/// Returns a policy whose letters wait `delay` seconds between so many retries.
fn policy(delay: u32, retries: u32, default: &Value) -> Value {
    let schedule = json!({ "minDelayTarget": delay, "maxDelayTarget": delay, "numRetries": retries });
    let mut policy = json!({
        "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } }
    });
    policy["default"].as_object_mut().unwrap().extend(default.as_object().unwrap().clone());
    policy
}

/// Returns a letter of a FIFO group.
fn in_group(id: &str, group: &str) -> RecordBuilder {
    RecordBuilder::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group(group)
}

/// Returns a world whose targets fail, with a queue of this retention.
fn failing(policy: &Value, queue: &str, retention: &str, timeout: &str) -> FunctionWorld {
    let world = FunctionWorld::with_policy(policy);
    world.cloud.queue(queue, &[("MessageRetentionPeriod", retention), ("VisibilityTimeout", timeout)]);
    down(&world);
    world
}

fn down(world: &FunctionWorld) {
    world.cloud.reply("SendMessageBatch", SimFault::refuse(503, "ServiceUnavailable", "down"));
}

fn ids(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["message"]["messageId"].as_str().unwrap()).collect()
}

/// A FIFO group in SQS: in order, blocked while one of its messages is hidden, and dropped at the end.
struct FifoGroupModel {
    left: VecDeque<(RecordBuilder, u32)>,
    /// The time at which the whole group can be received again, in milliseconds.
    visible: i64,
    dropped: usize,
}

impl FifoGroupModel {
    /// Runs the world with batches of ten until nothing is left. `call` is the time of a call, in
    /// milliseconds.
    async fn live(
        &mut self,
        world: &FunctionWorld,
        retention: i64,
        timeout: i64,
        call: i64,
    ) -> BTreeSet<String> {
        let mut now = NOW;
        let mut archived = BTreeSet::new();
        while !self.left.is_empty() {
            now = now.max(self.visible);
            if now - NOW >= retention {
                self.dropped += self.left.len();
                break;
            }
            world.set_now(now);
            world.cloud.forget();
            for (_, receives) in self.left.iter_mut().take(10) {
                *receives += 1;
            }
            let batch = self.left.iter().take(10);
            let posts: Vec<_> = batch.map(|(post, receives)| post.clone().received(*receives)).collect();
            let ran = world.run(&posts).await;
            let hidden = world.cloud.hidden();
            // This is at least a second, because names of objects in the archive have seconds, and all
            // invocations have one id here.
            let took = (call * i64::try_from(world.cloud.journal().len()).unwrap()).max(1_000);
            let kept: BTreeSet<_> = ran.kept.into_iter().collect();
            // Letters are taken in the order of the group: none may leave the queue before an earlier one
            // that stays.
            archived.extend(posts.iter().map(|post| post.id.clone()).filter(|id| !kept.contains(id)));
            let shows = |post: &RecordBuilder| {
                hidden.get(&format!("handle-{}", post.id)).map_or(timeout, |s| s * 1000)
            };
            self.visible = posts.iter().filter(|post| kept.contains(&post.id)).map(shows).max().unwrap_or(0)
                + now
                + took;
            self.left
                .retain(|(post, _)| kept.contains(&post.id) || !posts.iter().any(|one| one.id == post.id));
            now += took;
        }
        archived
    }
}

/// SQS hands over a group in order, so the letters behind the head have no other time to be archived.
#[tokio::test]
async fn a_fifo_group_that_waits_behind_its_head_is_archived_before_its_end() {
    let world = failing(&policy(30, 100, &json!({})), "payments-dlq.fifo", "1800", "30");
    let posts: Vec<_> = (0..600).map(|number| in_group(&format!("l{number:03}"), "g")).collect();
    let left = posts.iter().map(|post| (post.clone(), 0)).collect();
    let mut group = FifoGroupModel { left, visible: NOW, dropped: 0 };
    let gone = group.live(&world, 1_800_000, 30_000, 200).await;
    assert_eq!((group.dropped, gone.len()), (0, 600));
    let records = archived(&world.cloud);
    assert_eq!(records.len(), 600);
    assert!(records.iter().all(|record| record["reason"] == "expiring"));
}

#[tokio::test]
async fn what_is_held_is_archived_with_its_head_in_order_and_in_one_request() {
    let world = failing(&policy(30, 100, &json!({})), "payments-dlq.fifo", "1800", "30");
    let posts = ["a1", "b1", "a2", "a3", "b2"].map(|id| in_group(id, &id[..1]).sent(NOW - 1_730_000));
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), posts.map(|post| format!("{} archived expiring", post.id)));
    assert_eq!(ran.letter("a2")["detail"], "the letter waited behind another letter of its message group");
    assert_eq!(ran.kept, [""; 0]);
    assert_eq!(world.cloud.calls("PutObject").len(), 1);
    assert_eq!(ids(&archived(&world.cloud)), ["a1", "b1", "a2", "a3", "b2"]);
    assert_eq!(world.cloud.entries("SendMessageBatch").len(), 2, "each head had its attempt");
}

/// Such letters have longer to live, or come back with their head in time.
#[tokio::test(start_paused = true)]
async fn what_is_held_and_has_time_left_stays() {
    let world = failing(&policy(30, 100, &json!({})), "payments-dlq.fifo", "1800", "30");
    let head = in_group("a1", "a").sent(NOW - 1_700_000);
    let follower = in_group("a2", "a").sent(NOW - 1_600_000);
    let ran = world.run([&head, &follower]).await;
    assert_eq!(ran.outcomes(), ["a1 archived expiring", "a2 held"]);
    // The head comes back in 30 s, and the follower with it: 95 s before its end, of which 75 s are the
    // margin.
    let ran = world
        .run([&in_group("b1", "b").sent(NOW - 1_675_000), &in_group("b2", "b").sent(NOW - 1_675_000)])
        .await;
    assert_eq!(ran.outcomes(), ["b1 deferred failed", "b2 held"]);
}

/// Runs a batch at a slow web server: four letters are begun, and there is no time for the others.
async fn at_a_slow_server(retention: &str, timeout: &str, age: i64) -> (FunctionWorld, TestInvocation) {
    let slow = |_| {
        let answer = async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            Ok(http::Response::new(bytes::Bytes::new()))
        };
        answer.boxed()
    };
    let http = HttpClient::simulated(AddressReach::Public, Arc::new(slow));
    let world = FunctionWorld::with_policy(&policy(30, 100, &json!({}))).map_redrive(|it| it.with_http(http));
    let world = world.with_time(Duration::from_secs(2));
    world
        .cloud
        .queue("payments-dlq", &[("MessageRetentionPeriod", retention), ("VisibilityTimeout", timeout)]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "http", "https://hooks.example.com/", DLQ);
    let posts = (0..100).map(|number| RecordBuilder::envelope(&format!("l{number}")).sent(NOW - age * 1000));
    let ran = world.run(&posts.collect::<Vec<_>>()).await;
    let begun = ran.letters().into_iter().filter(|line| !line["retry.number"].is_null()).count();
    assert_eq!(begun, 4, "{}", ran.text);
    (world, ran)
}

#[tokio::test(start_paused = true)]
async fn letters_that_were_not_begun_are_archived_within_the_margin_and_not_before() {
    let (world, ran) = at_a_slow_server(WEEKS, "30", 1_209_600 - 3_500).await;
    assert!(
        ran.outcomes()[4..].iter().all(|told| told.ends_with("archived expiring")),
        "{:?}",
        ran.outcomes()
    );
    assert_eq!(ran.letter("l99")["detail"], "no time was left for it");
    assert_eq!((archived(&world.cloud).len(), ran.kept.len()), (96, 0));
    assert_eq!(world.cloud.calls("PutObject").len(), 1);

    let (world, ran) = at_a_slow_server(WEEKS, "30", 30).await;
    assert_eq!(ran.outcomes().iter().filter(|told| told.ends_with("failed out_of_time")).count(), 96);
    assert_eq!(world.cloud.calls("PutObject"), []);
}

/// A queue with a short retention can have a visibility timeout longer than the margin. A letter without time
/// left does not wait for it.
#[tokio::test(start_paused = true)]
async fn letters_that_were_not_begun_come_back_in_time() {
    for (age, outcome) in [(1_640, "l99 failed out_of_time"), (1_726, "l99 archived expiring")] {
        let (world, ran) = at_a_slow_server("1800", "100", age).await;
        assert_eq!(ran.outcomes()[99], outcome);
        let hidden = world.cloud.hidden()["handle-l99"];
        assert_eq!(hidden == 1, outcome.contains("failed"), "hidden for {hidden} s");
    }
}

/// They are not hidden, because SNS will not answer sooner.
#[tokio::test(start_paused = true)]
async fn letters_whose_subscription_was_not_found_in_time_and_would_show_too_late_are_archived() {
    for (age, outcome) in [(1_600, "a failed out_of_time"), (1_640, "a archived expiring")] {
        let world = FunctionWorld::with_policy(&policy(30, 100, &json!({ "subscription": "discover" })));
        let world = world.with_time(Duration::from_secs(2));
        let queue = [("MessageRetentionPeriod", "1800"), ("VisibilityTimeout", "100")];
        world.cloud.queue("payments-dlq", &queue);
        world.cloud.reply("ListSubscriptions", SimFault::HangBefore);
        let ran = world.run([&RecordBuilder::raw("a", "hello").sent(NOW - age * 1000)]).await;
        assert_eq!(ran.outcomes(), [outcome]);
        assert_eq!(
            ran.letter("a")["detail"],
            "the search for the letter's subscription failed or took too long"
        );
    }
}

//! P1 and P4: nothing is lost at the end of a queue's retention, whatever kept a letter from its attempt, and whatever
//! the archive does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use support::*;

const WEEKS: &str = "1209600";

/// A policy whose letters wait `delay` seconds between so many retries.
fn policy(delay: u32, retries: u32, default: &Value) -> Value {
    let schedule = json!({ "minDelayTarget": delay, "maxDelayTarget": delay, "numRetries": retries });
    let mut policy = json!({
        "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } }
    });
    policy["default"].as_object_mut().unwrap().extend(default.as_object().unwrap().clone());
    policy
}

/// A letter of a FIFO group.
fn in_group(id: &str, group: &str) -> Post {
    Post::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group(group)
}

/// A world whose targets fail, with a queue of this retention.
fn failing(policy: &Value, queue: &str, retention: &str, timeout: &str) -> World {
    let world = World::with_policy(policy);
    world.cloud.queue(queue, &[("MessageRetentionPeriod", retention), ("VisibilityTimeout", timeout)]);
    down(&world);
    world
}

fn down(world: &World) {
    world.cloud.reply("SendMessageBatch", Reply::Fail(503, "ServiceUnavailable", "down"));
}

fn ids(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["message"]["messageId"].as_str().unwrap()).collect()
}

/// One FIFO group in SQS: in order, blocked while one of its messages is hidden, dropped at the end.
struct Group {
    left: VecDeque<(Post, u32)>,
    /// When the whole group can be received again, milliseconds.
    visible: i64,
    dropped: usize,
}

impl Group {
    /// Lets the world live with batches of ten until nothing is left; how long a call takes is given.
    async fn live(&mut self, world: &World, retention: i64, timeout: i64, call: i64) -> BTreeSet<String> {
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
            // A second at least: the names of objects in the archive go by seconds, and all invocations have one id here.
            let took = (call * i64::try_from(world.cloud.journal().len()).unwrap()).max(1_000);
            let kept: BTreeSet<_> = ran.kept.into_iter().collect();
            // In the order of the group: what is archived before one that stays leaves no other behind it.
            archived.extend(posts.iter().map(|post| post.id.clone()).filter(|id| !kept.contains(id)));
            let shows =
                |post: &Post| hidden.get(&format!("handle-{}", post.id)).map_or(timeout, |s| s * 1000);
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

/// One letter an invocation was saved: 390 of 600 were dropped.
#[tokio::test]
async fn a_fifo_group_that_waits_behind_its_head_is_archived_before_its_end() {
    let world = failing(&policy(30, 100, &json!({})), "orders-dlq.fifo", "1800", "30");
    let posts: Vec<_> = (0..600).map(|number| in_group(&format!("l{number:03}"), "g")).collect();
    let left = posts.iter().map(|post| (post.clone(), 0)).collect();
    let mut group = Group { left, visible: NOW, dropped: 0 };
    let gone = group.live(&world, 1_800_000, 30_000, 200).await;
    assert_eq!((group.dropped, gone.len()), (0, 600));
    let records = archived(&world.cloud);
    assert_eq!(records.len(), 600);
    assert!(records.iter().all(|record| record["reason"] == "expiring"));
}

#[tokio::test]
async fn what_is_held_is_archived_with_its_head_in_order_and_in_one_request() {
    let world = failing(&policy(30, 100, &json!({})), "orders-dlq.fifo", "1800", "30");
    let posts = ["a1", "b1", "a2", "a3", "b2"].map(|id| in_group(id, &id[..1]).sent(NOW - 1_730_000));
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), posts.map(|post| format!("{} archived expiring", post.id)));
    assert_eq!(ran.letter("a2")["detail"], "was held behind another of its group");
    assert_eq!(ran.kept, [""; 0]);
    assert_eq!(world.cloud.calls("PutObject").len(), 1);
    assert_eq!(ids(&archived(&world.cloud)), ["a1", "b1", "a2", "a3", "b2"]);
    assert_eq!(world.cloud.entries("SendMessageBatch").len(), 2, "each head had its attempt");
}

/// They have longer to live, or come back with their head in time.
#[tokio::test]
async fn what_is_held_and_has_time_left_stays() {
    let world = failing(&policy(30, 100, &json!({})), "orders-dlq.fifo", "1800", "30");
    let head = in_group("a1", "a").sent(NOW - 1_700_000);
    let follower = in_group("a2", "a").sent(NOW - 1_600_000);
    let ran = world.run([&head, &follower]).await;
    assert_eq!(ran.outcomes(), ["a1 archived expiring", "a2 held"]);
    // The head comes back in 30 s, and the follower with it: 95 s before its end, of which 75 are the margin.
    let ran = world
        .run([&in_group("b1", "b").sent(NOW - 1_675_000), &in_group("b2", "b").sent(NOW - 1_675_000)])
        .await;
    assert_eq!(ran.outcomes(), ["b1 deferred failed", "b2 held"]);
}

/// A web server that hangs: sixteen letters are begun, the others go back as they came.
async fn at_a_server_that_hangs(retention: &str, timeout: &str, age: i64) -> (World, Ran) {
    let server = Server::scripted(|_| Answer::Silence);
    let policy = policy(30, 100, &json!({})).to_string();
    let world = World::new(&[("REDRIVE_POLICY", &policy), ("ALLOW_LOOPBACK_HTTP", "true")]);
    let world = world.with_time(Duration::from_secs(2));
    world.cloud.queue("orders-dlq", &[("MessageRetentionPeriod", retention), ("VisibilityTimeout", timeout)]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "http", &server.url(), DLQ);
    let posts = (0..100).map(|number| Post::envelope(&format!("l{number}")).sent(NOW - age * 1000));
    let ran = world.run(&posts.collect::<Vec<_>>()).await;
    let begun = ran.letters().into_iter().filter(|line| !line["retry.number"].is_null()).count();
    assert_eq!(begun, 16, "{}", ran.text);
    (world, ran)
}

#[tokio::test]
async fn letters_that_were_not_begun_are_archived_within_the_margin_and_not_before() {
    let (world, ran) = at_a_server_that_hangs(WEEKS, "30", 1_209_600 - 3_500).await;
    assert!(ran.outcomes().iter().all(|told| told.ends_with("archived expiring")), "{:?}", ran.outcomes());
    assert_eq!(ran.letter("l99")["detail"], "was not begun in time");
    assert_eq!((archived(&world.cloud).len(), ran.kept.len()), (100, 0));
    assert_eq!(world.cloud.calls("PutObject").len(), 1);

    let (world, ran) = at_a_server_that_hangs(WEEKS, "30", 30).await;
    assert_eq!(ran.outcomes().iter().filter(|told| told.ends_with("failed out_of_time")).count(), 84);
    assert_eq!(world.cloud.calls("PutObject"), []);
}

/// A queue of a short retention can have a visibility timeout that is longer than the margin.
#[tokio::test]
async fn letters_that_were_not_begun_and_would_show_too_late_are_archived() {
    for (age, outcome) in [(1_600, "l99 failed out_of_time"), (1_640, "l99 archived expiring")] {
        let (_, ran) = at_a_server_that_hangs("1800", "100", age).await;
        assert_eq!(ran.outcomes()[99], outcome);
    }
}

mod an_archive_that_does_not_take_a_letter {
    use super::*;

    fn archive_down(world: &World) {
        world.cloud.script(|call| match call.op.as_str() {
            "PutObject" => Reply::Fail(503, "SlowDown", "slow"),
            "SendMessageBatch" => Reply::Fail(503, "ServiceUnavailable", "down"),
            _ => Reply::Accept,
        });
    }

    fn attempts(world: &World) -> usize {
        world.cloud.entries("SendMessageBatch").len()
    }

    /// It was attempted again with every visibility timeout, some 240 times a day.
    #[tokio::test]
    async fn is_not_attempted_again_until_the_archive_is_back() {
        let world = failing(&policy(30, 1, &json!({})), "orders-dlq", WEEKS, "30");
        archive_down(&world);
        let post = Post::envelope("a").sent(NOW - 30_000);
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["a failed archive"]);
        let line = ran.letter("a");
        assert_eq!(
            [&line["retry.number"], &line["undone.code"], &line["delay_s"]],
            [&json!(1), &json!("SlowDown"), &json!(1)]
        );
        for receive in 2..=5 {
            world.pass(900);
            let ran = world.run([&post.clone().received(receive)]).await;
            assert_eq!(ran.outcomes(), ["a failed archive"]);
            assert_eq!(ran.letter("a")["retry.number"], json!(null), "nothing was attempted");
        }
        assert_eq!(attempts(&world), 1);
        down(&world);
        world.pass(900);
        assert_eq!(world.run([&post.clone().received(6)]).await.outcomes(), ["a archived exhausted"]);
        assert_eq!(attempts(&world), 1);
        let record = archived(&world.cloud).remove(0);
        assert_eq!(record["retry"], json!({ "number": 1, "of": 1 }));
        assert_eq!([&record["error"]["code"], &record["targetArn"]], ["ServiceUnavailable", WORKER]);
        // The archive has it: if it came back all the same, it would be a letter like any other.
        world.run([&post.received(7)]).await;
        assert_eq!(attempts(&world), 2);
    }

    #[tokio::test]
    async fn is_not_attempted_again_where_its_target_has_refused_it_for_good() {
        let world = failing(&policy(30, 9, &json!({})), "orders-dlq", WEEKS, "30");
        world.cloud.script(|call| match call.op.as_str() {
            "PutObject" => Reply::Fail(503, "SlowDown", "slow"),
            "SendMessageBatch" => Reply::Fail(400, "InvalidMessageContents", "bad"),
            _ => Reply::Accept,
        });
        for receive in 1..=3 {
            let ran = world.run([&Post::envelope("a").sent(NOW - 30_000).received(receive)]).await;
            assert_eq!(ran.outcomes(), ["a failed archive"]);
            world.pass(900);
        }
        assert_eq!(attempts(&world), 1);
    }

    #[tokio::test]
    async fn is_hidden_for_half_of_the_time_that_it_has_left() {
        let world = failing(&policy(30, 1, &json!({})), "orders-dlq", WEEKS, "30");
        archive_down(&world);
        let hidden = async |left: i64| {
            world.run([&Post::envelope("a").sent(NOW - (1_209_600 - left) * 1000)]).await;
            world.cloud.hidden()["handle-a"]
        };
        // Each time for twice as long, since most failures of an archive pass soon.
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            assert_eq!(hidden(86_400).await, seconds);
        }
        for (left, seconds) in [(1_000, 500), (1_000, 500), (9, 4), (1, 1)] {
            assert_eq!(hidden(left).await, seconds, "{left} s left");
        }
    }

    /// While the others were in flight they would block the head.
    #[tokio::test]
    async fn holds_its_group_and_is_the_only_one_of_it_that_is_hidden() {
        let world = failing(&policy(30, 100, &json!({})), "orders-dlq.fifo", "1800", "30");
        archive_down(&world);
        let posts = ["a1", "a2", "b1"].map(|id| in_group(id, &id[..1]).sent(NOW - 1_780_000));
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["a1 failed archive", "a2 failed archive", "b1 failed archive"]);
        assert_eq!(ran.kept, ["a1", "a2", "b1"]);
        let hidden = [("handle-a1", 1), ("handle-a2", 0), ("handle-b1", 1)];
        assert_eq!(world.cloud.hidden(), hidden.map(|(handle, seconds)| (handle.to_owned(), seconds)).into());
    }
}

mod an_archive_in_sqs {
    use super::*;

    fn world(limit: &str) -> World {
        let world = World::new(&[("ARCHIVE", ARCHIVE_QUEUE)]);
        world.cloud.queue("graveyard", &[("MessageRetentionPeriod", WEEKS), ("MaximumMessageSize", limit)]);
        world
    }

    /// SQS refuses a whole request for one message that is too long.
    fn enforce(world: &World, limit: usize) {
        world.cloud.script(move |call| {
            let size = |entry: &Entry| {
                let attributes = entry.attributes.iter();
                entry.body.len()
                    + attributes
                        .map(|(name, (kind, value))| name.len() + kind.len() + value.len())
                        .sum::<usize>()
            };
            if call.to == "graveyard" && call.entries.iter().any(|entry| size(entry) > limit) {
                return Reply::Fail(400, "InvalidParameterValue", "Message must be shorter than the limit.");
            }
            Reply::Accept
        });
    }

    fn bodies_with_record(world: &World) -> BTreeMap<usize, bool> {
        let calls = world.cloud.calls("SendMessageBatch").into_iter();
        let taken = calls
            .flat_map(|call| call.taken.iter().map(|index| call.entries[*index].clone()).collect::<Vec<_>>());
        taken.map(|entry| (entry.body.len(), entry.attributes.contains_key("sns-redrive-archive"))).collect()
    }

    /// It was refused for ever, and lost in the end.
    #[tokio::test]
    async fn gets_the_letter_alone_where_our_record_does_not_fit_into_the_queues_own_limit() {
        let world = world("2048");
        enforce(&world, 2048);
        let posts = [10, 1_900, 2_048].map(|bytes| Post::raw(&format!("l{bytes}"), &"x".repeat(bytes)));
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), posts.map(|post| format!("{} archived unrecognised", post.id)));
        assert_eq!(bodies_with_record(&world), [(10, true), (1_900, false), (2_048, false)].into());
        assert_eq!(ran.metrics()["ArchiveRefusals"], 0);
    }

    /// The queue was made smaller since it was asked, or the role may not ask it.
    #[tokio::test]
    async fn gets_the_letter_alone_where_it_refuses_letter_and_record() {
        let world = World::new(&[("ARCHIVE", ARCHIVE_QUEUE)]);
        enforce(&world, 2048);
        let posts = [10, 1_900].map(|bytes| Post::raw(&format!("l{bytes}"), &"x".repeat(bytes)));
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), posts.map(|post| format!("{} archived unrecognised", post.id)));
        assert_eq!(bodies_with_record(&world), [(10, true), (1_900, false)].into());
    }

    #[tokio::test]
    async fn that_refuses_a_letter_for_good_is_told_by_a_metric_and_keeps_the_letter_to_the_last() {
        let world = world("2048");
        enforce(&world, 2048);
        let post = Post::raw("a", &"x".repeat(2_049));
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["a failed archive"]);
        let line = ran.letter("a");
        assert_eq!([&line["undone.class"], &line["delay_s"]], [&json!("permanent"), &json!(1)]);
        assert_eq!(ran.metrics()["ArchiveRefusals"], 1);
        let last = post.sent(NOW - (1_209_600 - 4) * 1000);
        assert_eq!(world.run([&last]).await.letter("a")["delay_s"], 2);
        assert_eq!(world.run([&last]).await.letter("a")["delay_s"], 2, "half of what is left");
        // One that is only down refuses nothing.
        world.cloud.reply("SendMessageBatch", Reply::Fail(503, "ServiceUnavailable", "down"));
        assert_eq!(world.run([&Post::raw("b", "x")]).await.metrics()["ArchiveRefusals"], 0);
    }

    /// A gap in the middle of a group would be filled by those behind it.
    #[tokio::test]
    async fn takes_nothing_of_a_fifo_group_after_one_that_it_did_not_take() {
        let world = World::new(&[
            ("ARCHIVE", ARCHIVE_QUEUE),
            ("REDRIVE_POLICY", &policy(30, 9, &json!({})).to_string()),
        ]);
        world.cloud.queue("orders-dlq.fifo", &[("MessageRetentionPeriod", "1800")]);
        world.cloud.script(|call| match call.to.as_str() {
            "graveyard" => call.except("message of a2", EntryFate::Failed("InternalError", "", false)),
            "orders-worker.fifo" => Reply::Fail(503, "ServiceUnavailable", "down"),
            _ => Reply::Accept,
        });
        let posts = ["a1", "b1", "a2", "a3", "b2"].map(|id| in_group(id, &id[..1]).sent(NOW - 1_790_000));
        let ran = world.run(&posts).await;
        assert_eq!(
            ran.outcomes(),
            [
                "a1 archived expiring",
                "b1 archived expiring",
                "a2 failed archive",
                "a3 failed archive",
                "b2 archived expiring"
            ]
        );
        let sent = world.cloud.calls("SendMessageBatch").into_iter().filter(|call| call.to == "graveyard");
        assert_eq!(
            sent.map(|call| call.entries.len()).collect::<Vec<_>>(),
            [2, 2],
            "a3 waited for a2, and was not sent"
        );
    }
}

mod a_visibility_timeout_above_the_margin {
    use super::*;

    /// 12 hours, as a queue that is there already may have.
    const TWELVE_HOURS: &str = "43200";

    fn hidings(world: &World) -> Vec<(String, i64)> {
        let calls = world.cloud.calls("ChangeMessageVisibilityBatch").into_iter();
        let entries = calls.flat_map(|call| call.entries);
        entries.map(|entry| (entry.receipt_handle.unwrap(), entry.hide.unwrap())).collect()
    }

    /// If hiding it later fails, it would not show again in time.
    #[tokio::test]
    async fn is_shortened_for_what_is_near_the_end_before_anything_else_is_done() {
        let world = failing(&policy(30, 9, &json!({})), "orders-dlq", WEEKS, TWELVE_HOURS);
        let near = Post::envelope("near").sent(NOW - (1_209_600 - 6 * 3600) * 1000);
        let ran = world.run([&Post::envelope("far").sent(NOW - 30_000), &near]).await;
        assert_eq!(ran.outcomes(), ["far deferred failed", "near deferred failed"]);
        let handle = |id: &str| format!("handle-{id}");
        // The invocation has 30 s, and its answer a moment more.
        assert_eq!(hidings(&world), [(handle("near"), 40), (handle("far"), 30), (handle("near"), 30)]);
        let calls = operations(&world.cloud);
        assert_eq!(
            calls[..3],
            ["GetQueueAttributes", "ChangeMessageVisibilityBatch", "GetSubscriptionAttributes"]
        );
        let told = ran.log.iter().find(|line| line["message"] == "the queue is not set up well").unwrap();
        let detail = told["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("its visibility timeout of 43200 s is longer than the last 3600 s"),
            "{detail}"
        );
    }

    #[tokio::test]
    async fn is_left_alone_in_observe_mode_and_where_it_is_short() {
        let near = Post::envelope("near").sent(NOW - (1_209_600 - 3 * 3600) * 1000);
        let world = World::new(&[("REDRIVE_MODE", "observe")]);
        world
            .cloud
            .queue("orders-dlq", &[("MessageRetentionPeriod", WEEKS), ("VisibilityTimeout", TWELVE_HOURS)]);
        world.run([&near]).await;
        assert_eq!(hidings(&world), []);
        let world = failing(&policy(30, 9, &json!({})), "orders-dlq", WEEKS, "360");
        let ran = world.run([&near]).await;
        assert_eq!(hidings(&world), [("handle-near".to_owned(), 30)]);
        let warned = |line: &Value| {
            line["detail"].as_str().is_some_and(|detail| detail.contains("visibility timeout"))
        };
        assert!(!ran.log.iter().any(warned), "{}", ran.text);
    }
}

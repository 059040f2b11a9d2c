//! Letters that cannot wait in their own queue go to the requeue, and come back from it as what they were.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sns_redrive::letter::MARK_ATTRIBUTE;
use support::{
    BILLING, Cloud, DLQ, Entry, EntryFate, FIFO_DLQ, FIFO_REQUEUE, FIFO_SUBSCRIPTION, FIFO_TOPIC, NOW, Post,
    REQUEUE, Ran, Reply, SUBSCRIPTION, World, archived, at, digest, every_origin, letter_id, made_for,
    sample,
};

const TWO_WEEKS: &str = "1209600";
const HOUR: i64 = 3600;

/// Two retries after six hours each, the first at once.
fn six_hours() -> Value {
    let schedule = json!({ "minDelayTarget": 21_600, "maxDelayTarget": 21_600, "numRetries": 3, "numNoDelayRetries": 1 });
    json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } } })
}

/// A function whose subscriber is down and whose queues have so many letters in flight.
fn world_with(policy: &Value, requeue: &str, in_flight: &str, settings: &[(&str, &str)]) -> World {
    let cloud = Cloud::new();
    for queue in ["orders-dlq", "orders-dlq.fifo", "orders-requeue", "orders-requeue.fifo"] {
        let attributes =
            [("MessageRetentionPeriod", TWO_WEEKS), ("ApproximateNumberOfMessagesNotVisible", in_flight)];
        cloud.queue(queue, &attributes);
    }
    let policy = policy.to_string();
    let settings: Vec<_> = [("REDRIVE_POLICY", policy.as_str()), ("REQUEUE_ARN", requeue)]
        .into_iter()
        .chain(settings.iter().copied())
        .collect();
    let world = World::on(cloud, &settings);
    down(&world);
    world
}

fn world(in_flight: &str) -> World {
    world_with(&six_hours(), REQUEUE, in_flight, &[])
}

/// Subscribers answer no more; the requeue does.
fn down(world: &World) {
    world.cloud.script(|call| match (call.op.as_str(), call.to.as_str()) {
        ("SendMessageBatch", queue) if !queue.starts_with("orders-requeue") => {
            Reply::Fail(503, "ServiceUnavailable", "oh")
        }
        _ => Reply::Accept,
    });
}

fn up(world: &World) {
    world.cloud.script(|_| Reply::Accept);
}

/// What the requeue was sent.
fn sent_to_requeue(world: &World) -> Vec<Entry> {
    let calls = world.cloud.calls("SendMessageBatch").into_iter();
    calls.filter(|call| call.to.starts_with("orders-requeue")).flat_map(|call| call.entries).collect()
}

fn mark_of(entry: &Entry) -> Value {
    serde_json::from_str(&entry.attributes[MARK_ATTRIBUTE].1).unwrap()
}

/// A message that was sent to the requeue, as it is received from there.
fn from_requeue(entry: &Entry, sent: i64) -> Post {
    let mut post = Post::raw("moved", &entry.body).queue(REQUEUE).sent(sent);
    for (name, (kind, value)) in &entry.attributes {
        post = post.attribute(name, kind, value.strip_prefix("base64 ").unwrap_or(value));
    }
    let first = sent + entry.delay.unwrap_or(0) * 1000;
    post.system("ApproximateFirstReceiveTimestamp", first)
}

fn outcome(ran: &Ran, id: &str) -> Value {
    let line = ran.letter(id);
    json!([line["outcome"], line["reason"], line["retry.number"], line["delay_s"], line["due"]])
}

fn warnings(ran: &Ran) -> Vec<String> {
    let told = ran.log.iter().filter(|line| line["level"] == "WARN" && line["message"] != "letter");
    told.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
}

const CROWDED: &str =
    "many letters are in flight and cannot be moved to the requeue; at the limit SQS hands none over";
const REFUSED: &str = "the requeue does not take letters; they stay in their queue";

mod spill {
    use super::*;

    #[tokio::test]
    async fn a_long_wait_is_moved_where_half_of_the_limit_is_in_flight() {
        let world = world("60000");
        let post = Post::envelope("a")
            .subject("S")
            .attribute("note", "Binary", "AAH/")
            .system("AWSTraceHeader", "Root=1-2-3");
        let ran = world.run([&post]).await;
        let due = NOW + 6 * HOUR * 1000;
        assert_eq!(outcome(&ran, "a"), json!(["requeued", "failed", 1, 900, at(due).to_string()]));
        assert_eq!(ran.kept, [""; 0], "Lambda may delete it");
        assert_eq!(world.cloud.calls("ChangeMessageVisibilityBatch"), []);
        let [entry] = &sent_to_requeue(&world)[..] else { panic!("one message") };
        let mark = format!(
            r#"{{"v":2,"spent":1,"id":"{}","first":{NOW},"gen":0,"msg":"{}","passes":0,"dlq":"{DLQ}","due":{due}}}"#,
            letter_id("a"),
            digest("message of a"),
        );
        assert_eq!(
            *entry,
            Entry {
                body: post.body(),
                attributes: BTreeMap::from([
                    ("note".to_owned(), ("Binary".to_owned(), "base64 AAH/".to_owned())),
                    (MARK_ATTRIBUTE.to_owned(), ("String".to_owned(), mark)),
                ]),
                trace_header: Some("Root=1-2-3".to_owned()),
                delay: Some(900),
                ..Entry::default()
            }
        );
        assert_eq!(
            (ran.metrics()["LettersRequeued"].clone(), ran.metrics()["LettersInFlight"].clone()),
            (json!(1), json!(60_000))
        );
    }

    #[tokio::test]
    async fn below_half_of_the_limit_it_is_hidden_and_the_requeue_is_not_even_asked() {
        let world = world("59999");
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.letter("a")["outcome"], "deferred");
        assert_eq!(sent_to_requeue(&world), []);
        assert_eq!(world.cloud.calls("GetQueueAttributes").len(), 1);
        assert_eq!(warnings(&ran), [""; 0]);
    }

    /// What is hidden in this very batch fills the queue too, and other instances do the same.
    #[tokio::test]
    async fn what_was_hidden_since_the_reading_counts_for_every_instance() {
        let settings = [("IN_FLIGHT_LIMIT", "40"), ("MAX_CONCURRENCY", "2")];
        let world = world_with(&six_hours(), REQUEUE, "10", &settings);
        let posts: Vec<_> = (0..10).map(|index| Post::envelope(&format!("l{index}"))).collect();
        let ran = world.run(&posts).await;
        // Two mappings of two instances each: every letter that is hidden here stands for four.
        assert_eq!(ran.kept.len(), 3);
        assert_eq!(sent_to_requeue(&world).len(), 7);
        assert_eq!(ran.metrics()["LettersInFlight"], 22);
    }

    #[tokio::test]
    async fn the_number_in_flight_is_read_once_a_minute_and_sooner_only_where_it_is_tight() {
        let readings = |world: &World| {
            world.cloud.calls("GetQueueAttributes").iter().filter(|call| call.to == "orders-dlq").count()
        };
        for (in_flight, expected) in [("0", [1, 1, 1, 2]), ("60000", [1, 1, 2, 3])] {
            let world = world(in_flight);
            let mut seen = Vec::new();
            for pass in [0, 9, 1, 50] {
                world.pass(pass);
                world.run([&Post::envelope("a").sent(NOW)]).await;
                seen.push(readings(&world));
            }
            assert_eq!(seen, expected, "{in_flight} in flight");
        }
    }

    /// The whole way: moved every 15 minutes, no attempt between, and the retry at its time.
    #[tokio::test]
    async fn moving_on_costs_no_attempt_and_shifts_no_point() {
        let world = world("119000");
        world.run([&Post::envelope("a")]).await;
        let mut entry = sent_to_requeue(&world).remove(0);
        let first_mark = mark_of(&entry);
        let due = NOW + 6 * HOUR * 1000;
        let mut now = NOW;
        for move_on in 1..24 {
            let post = from_requeue(&entry, now);
            now += 900_000;
            world.set_now(now);
            world.cloud.forget();
            let ran = world.run([&post]).await;
            let expected = json!(["requeued", "early", null, 900, at(due).to_string()]);
            assert_eq!(outcome(&ran, "moved"), expected, "move {move_on}");
            assert_eq!(world.cloud.calls("SendMessageBatch").len(), 1, "only the move");
            entry = sent_to_requeue(&world).remove(0);
            assert_eq!(mark_of(&entry), first_mark);
        }
        let post = from_requeue(&entry, now);
        world.set_now(now + 900_000);
        assert_eq!(now + 900_000, due);
        up(&world);
        world.cloud.forget();
        let ran = world.run([&post]).await;
        assert_eq!(outcome(&ran, "moved"), json!(["delivered", null, 2, null, null]));
        let [delivered] = &world.cloud.calls("SendMessageBatch")[..] else { panic!("one") };
        assert_eq!(
            (delivered.to.as_str(), delivered.entries[0].body.as_str()),
            ("orders-worker", &*Post::envelope("a").body())
        );
        let mark = mark_of(&delivered.entries[0]);
        let sent = json!({ "v": 2, "spent": 2, "id": letter_id("a"), "first": NOW, "gen": 0, "passes": 1 });
        assert_eq!(mark, made_for("message of a", sent));
    }

    #[tokio::test]
    async fn in_a_requeue_with_room_it_is_hidden_for_the_rest_of_its_wait() {
        let world = world("60000");
        world.run([&Post::envelope("a")]).await;
        let post = from_requeue(&sent_to_requeue(&world)[0], NOW);
        world.cloud.queue("orders-requeue", &[("MessageRetentionPeriod", TWO_WEEKS)]);
        world.pass(900);
        let ran = world.run([&post]).await;
        let due = at(NOW + 6 * HOUR * 1000).to_string();
        assert_eq!(outcome(&ran, "moved"), json!(["deferred", "early", null, 20_700, due]));
        assert_eq!(world.cloud.hidden()["handle-moved"], 20_700);
    }

    #[tokio::test]
    async fn a_letter_that_its_rule_holds_moves_without_a_due_time_or_a_retry() {
        let world = world_with(&json!({ "default": { "action": "hold" } }), REQUEUE, "60000", &[]);
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a requeued hold"]);
        let mark = mark_of(&sent_to_requeue(&world)[0]);
        assert_eq!(
            mark,
            made_for(
                "message of a",
                json!({ "v": 2, "spent": 0, "id": letter_id("a"), "first": NOW, "gen": 0, "passes": 0, "dlq": DLQ })
            )
        );
    }

    /// What its rule held was not tried, and what was tried before stays so.
    #[tokio::test]
    async fn a_held_letter_keeps_the_retries_that_it_has_behind_it_when_it_moves() {
        let world = world_with(&json!({ "default": { "action": "hold" } }), REQUEUE, "60000", &[]);
        // Retries 1 to 4 of the built-in schedule lie behind it: at 0, 60, 120 and 180 s.
        let post = Post::envelope("a").sent(NOW - 200_000).received(5);
        world.run([&post]).await;
        assert_eq!(mark_of(&sent_to_requeue(&world)[0])["spent"], 3);
    }

    #[tokio::test]
    async fn a_rule_sees_the_letter_as_before_it_moved() {
        let mut policy = six_hours();
        policy["rules"] = json!([
            { "name": "again", "match": { "retry": [{ "numeric": [">", 0] }] }, "action": "archive" },
            { "name": "marked", "match": { "messageAttributes": { "sns-redrive": [{ "exists": true }] } },
              "action": "archive" },
        ]);
        for post in [Post::envelope("a"), Post::raw("a", "x").attribute("n", "String", "v")] {
            let mut policy = policy.clone();
            policy["default"]["subscription"] = json!(SUBSCRIPTION);
            let world = world_with(&policy, REQUEUE, "60000", &[]);
            assert_eq!(world.run([&post]).await.outcomes(), ["a requeued failed"]);
            let entry = &sent_to_requeue(&world)[0];
            assert_eq!(mark_of(entry)["spent"], 1);
            let ran = world.run([&from_requeue(entry, NOW)]).await;
            assert_eq!(ran.letter("moved")["rule"], "default");
        }
        // It has been out and came back: that is an earlier pass, and stays one.
        let mark = json!({ "v": 1, "spent": 1, "id": letter_id("a"), "first": NOW, "gen": 0 });
        policy["rules"][0]["action"] = json!("redrive");
        let world = world_with(&policy, REQUEUE, "60000", &[]);
        assert_eq!(world.run([&Post::envelope("a").mark(&mark)]).await.outcomes(), ["a requeued early"]);
        let entry = &sent_to_requeue(&world)[0];
        assert_eq!(mark_of(entry)["earlier"], 1);
        assert_eq!(world.run([&from_requeue(entry, NOW)]).await.letter("moved")["rule"], "again");
    }

    #[tokio::test]
    async fn observe_mode_moves_nothing() {
        let world = world_with(&six_hours(), REQUEUE, "119000", &[("REDRIVE_MODE", "observe")]);
        assert_eq!(world.run([&Post::envelope("a")]).await.outcomes(), ["a observed"]);
        assert_eq!(sent_to_requeue(&world), []);
    }
}

mod a_letter_is_hidden_as_ever {
    use super::*;

    async fn hidden(world: &World, post: &Post) -> Ran {
        let ran = world.run([post]).await;
        assert_eq!(ran.letter(&post.id)["outcome"], "deferred", "{}", ran.text);
        assert_eq!(world.cloud.hidden()[&format!("handle-{}", post.id)], 6 * HOUR);
        assert_eq!(ran.kept, [post.id.as_str()]);
        ran
    }

    #[tokio::test]
    async fn where_there_is_no_requeue_which_is_logged() {
        let world = world_with(&six_hours(), "", "60000", &[]);
        assert_eq!(warnings(&hidden(&world, &Post::envelope("a")).await), [CROWDED]);
    }

    #[tokio::test]
    async fn where_the_requeue_does_not_take_it() {
        for reply in [
            Reply::Fail(403, "AccessDenied", "not authorized to perform: sqs:SendMessage"),
            Reply::Reset,
            Reply::Except(vec![(0, EntryFate::Failed("InternalError", "oh", false))]),
            Reply::Except(vec![(0, EntryFate::Missing)]),
        ] {
            let world = world("60000");
            world.cloud.script(move |call| match (call.op.as_str(), call.to.as_str()) {
                ("SendMessageBatch", "orders-requeue") => reply.clone(),
                ("SendMessageBatch", _) => Reply::Fail(503, "ServiceUnavailable", "oh"),
                _ => Reply::Accept,
            });
            assert_eq!(warnings(&hidden(&world, &Post::envelope("a")).await), [REFUSED, CROWDED]);
        }
    }

    #[tokio::test]
    async fn where_the_mark_would_be_its_eleventh_attribute() {
        let world = world("60000");
        let post =
            (0..10).fold(Post::envelope("a"), |post, n| post.attribute(&format!("a{n}"), "String", "x"));
        hidden(&world, &post).await;
        assert_eq!(sent_to_requeue(&world), []);
    }

    #[tokio::test]
    async fn where_the_requeue_would_not_keep_it_or_does_not_say_how_long_it_does() {
        let world = world("60000");
        world.cloud.queue("orders-requeue", &[("MessageRetentionPeriod", "900")]);
        hidden(&world, &Post::envelope("a")).await;
        assert_eq!(sent_to_requeue(&world), []);

        let world = super::world("60000");
        world.cloud.script(|call| match (call.op.as_str(), call.to.as_str()) {
            ("GetQueueAttributes", "orders-requeue") => Reply::Fail(403, "AccessDenied", "no"),
            ("SendMessageBatch", "orders-worker") => Reply::Fail(503, "ServiceUnavailable", "oh"),
            _ => Reply::Accept,
        });
        hidden(&world, &Post::envelope("a")).await;
        assert_eq!(sent_to_requeue(&world), []);
    }

    /// In the requeue the retention counts from the first arrival, so what comes back old would be
    /// archived there as soon as it arrives.
    #[tokio::test]
    async fn where_it_is_too_old_for_the_requeue() {
        let world = world("60000");
        // Hidden for six hours, and an hour of margin.
        for (left, moves) in [(0, false), (7 * HOUR - 1, false), (7 * HOUR, true)] {
            let first = NOW - (14 * 24 * HOUR - left) * 1000;
            let mark = json!({ "v": 1, "spent": 1, "id": letter_id("a"), "first": first, "gen": 0 });
            let post = Post::envelope("a").mark(&mark).sent(NOW - 6 * HOUR * 1000).received(2);
            world.cloud.forget();
            if moves {
                assert_eq!(world.run([&post]).await.outcomes(), ["a requeued failed"]);
            } else {
                hidden(&world, &post).await;
                assert_eq!(sent_to_requeue(&world), []);
            }
        }
    }

    #[tokio::test]
    async fn in_a_fifo_queue_where_nothing_can_be_delayed_which_is_logged() {
        let world = world_with(&six_hours(), FIFO_REQUEUE, "60000", &[]);
        let post =
            Post::envelope("a").topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group("g");
        assert_eq!(warnings(&hidden(&world, &post).await), [CROWDED]);
        assert_eq!(sent_to_requeue(&world), []);
    }
}

mod in_the_requeue {
    use super::*;

    /// A message as the function itself puts it there, with this mark.
    fn moved(post: Post, changes: &Value) -> Post {
        let mut mark = json!({ "v": 1, "spent": 0, "id": "letter-1", "first": NOW, "gen": 0, "dlq": DLQ });
        mark.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        post.sqs_mark(&mark).queue(REQUEUE)
    }

    #[tokio::test]
    async fn a_letter_that_sqs_moved_still_goes_back_to_its_source() {
        let world = world("60000");
        let ran = world.run([&Post::envelope("a").moved_from(BILLING).received(4)]).await;
        assert_eq!(ran.letter("a")["outcome"], "requeued");
        let entry = &sent_to_requeue(&world)[0];
        assert_eq!(mark_of(entry)["source"], BILLING);
        up(&world);
        world.cloud.forget();
        world.pass(6 * HOUR);
        let ran = world.run([&from_requeue(entry, NOW)]).await;
        assert_eq!(outcome(&ran, "moved"), json!(["delivered", null, 2, null, null]));
        assert_eq!(ran.letter("moved")["letter.origin"], "sqs");
        assert_eq!(world.cloud.calls("SendMessageBatch")[0].to, "orders-billing");
    }

    #[tokio::test]
    async fn only_the_marks_of_the_requeue_say_where_a_letter_comes_from_and_when_it_is_due() {
        let claims = json!({ "source": BILLING, "due": NOW + 1_000_000 });
        for (queue, origin, outcome) in [(REQUEUE, "sqs", "deferred"), (DLQ, "sns", "delivered")] {
            let world = world("0");
            up(&world);
            let post = moved(Post::envelope("a"), &claims).queue(queue);
            let ran = world.run([&post]).await;
            assert_eq!(
                (&ran.letter("a")["letter.origin"], &ran.letter("a")["outcome"]),
                (&json!(origin), &json!(outcome))
            );
        }
    }

    #[tokio::test]
    async fn a_mark_inside_an_envelope_is_not_believed_on_that_even_there() {
        let world = world("0");
        let mark = json!({ "v": 1, "spent": 1, "id": "x", "first": NOW, "gen": 0, "dlq": DLQ, "due": NOW + 1_000_000 });
        let ran = world.run([&Post::envelope("a").mark(&mark).queue(REQUEUE)]).await;
        assert_eq!(ran.outcomes(), ["a deferred early"]);
        assert_eq!(ran.letter("a")["due"], at(NOW + 21_600_000).to_string(), "by its schedule");
    }

    #[tokio::test]
    async fn an_eventbridge_letter_keeps_what_tells_it() {
        let mut event = sample("eventbridge");
        let mut policy = six_hours();
        policy["origins"] = json!({ DLQ: ["eventbridge"] });
        let world = world_with(&policy, REQUEUE, "60000", &[]);
        world.cloud.script(|call| match call.op.as_str() {
            "Invoke" => Reply::Fail(503, "ServiceUnavailable", "oh"),
            _ => Reply::Accept,
        });
        let ran = world.run_event(&event).await;
        assert!(ran.outcomes()[0].ends_with(" requeued failed"), "{:?}", ran.outcomes());
        let entry = &sent_to_requeue(&world)[0];
        let attributes = event["Records"][0]["messageAttributes"].as_object_mut().unwrap();
        assert!(attributes.len() >= 4);
        for (name, value) in attributes {
            assert_eq!(entry.attributes[name].1, value["stringValue"].as_str().unwrap());
        }
        up(&world);
        world.pass(6 * HOUR);
        let ran = world.run([&from_requeue(entry, NOW)]).await;
        assert_eq!(
            (&ran.letter("moved")["letter.origin"], &ran.letter("moved")["outcome"]),
            (&json!("eventbridge"), &json!("delivered"))
        );
    }

    #[tokio::test]
    async fn rules_see_the_dead_letter_queue_that_it_came_from() {
        let mut policy = six_hours();
        policy["rules"] = json!([{ "name": "dlq", "match": { "queueArn": [DLQ] }, "action": "archive" }]);
        let world = world_with(&policy, REQUEUE, "0", &[]);
        let ran = world.run([&moved(Post::envelope("a"), &json!({}))]).await;
        assert_eq!(ran.outcomes(), ["a archived rule"]);
        assert_eq!(archived(&world.cloud)[0]["queueArn"], REQUEUE);
    }

    /// Moving starts SQS's own clock anew; without this a letter could live for ever.
    #[tokio::test]
    async fn the_retention_counts_from_the_first_arrival() {
        let world = world("0");
        let first = NOW - (14 * 24 - 2) * HOUR * 1000;
        let ran = world
            .run([&moved(Post::envelope("a"), &json!({ "first": first, "due": NOW + 3_600_001 }))])
            .await;
        assert_eq!(ran.outcomes(), ["a archived expiring"]);
        let ran = world
            .run([&moved(Post::envelope("a"), &json!({ "first": first, "due": NOW + 3_600_000 }))])
            .await;
        assert_eq!(ran.outcomes(), ["a deferred early"]);
        assert_eq!(ran.metrics()["SecondsToExpiry"], 2 * HOUR);
    }

    #[tokio::test]
    async fn nothing_that_lies_there_counts_as_an_arrival() {
        let world = world("0");
        let ran = world.run([&moved(Post::envelope("a"), &json!({}))]).await;
        assert_eq!(ran.metrics()["LettersArrived"], 0);
    }

    #[tokio::test]
    async fn a_letter_never_goes_to_the_dead_letter_queue_that_it_came_from() {
        let world = world_with(&json!({ "default": { "target": DLQ } }), REQUEUE, "0", &[]);
        let ran = world.run([&moved(Post::envelope("a"), &json!({}))]).await;
        assert_eq!(ran.outcomes(), ["a archived refused"]);
        assert_eq!(world.cloud.entries("SendMessageBatch"), []);
    }
}

/// Nothing that the function drains is a target or an archive: it would only go round.
mod a_queue_that_feeds_the_function {
    use super::*;

    #[tokio::test]
    async fn is_no_target_whoever_names_it() {
        let mut event = sample("eventbridge");
        event["Records"][0]["messageAttributes"]["TARGET_ARN"]["stringValue"] = json!(REQUEUE);
        let world = world_with(&json!({ "origins": every_origin() }), REQUEUE, "0", &[]);
        up(&world);
        let ran = world.run_event(&event).await;
        assert!(ran.outcomes()[0].ends_with(" archived refused"), "{:?}", ran.outcomes());
        assert_eq!(sent_to_requeue(&world), []);

        let ran = world.run([&Post::envelope("a").moved_from(REQUEUE).received(4)]).await;
        assert_eq!(ran.outcomes(), ["a archived refused"]);
    }

    #[tokio::test]
    async fn is_no_archive_for_its_letters_in_the_requeue_either() {
        let world =
            world_with(&json!({ "default": { "action": "archive" } }), REQUEUE, "0", &[("ARCHIVE", DLQ)]);
        up(&world);
        let mark = json!({ "v": 1, "spent": 0, "id": "letter-1", "first": NOW, "gen": 0, "dlq": DLQ });
        let ran = world.run([&Post::envelope("a").sqs_mark(&mark).queue(REQUEUE)]).await;
        assert_eq!(ran.outcomes(), ["a failed archive"]);
        assert_eq!(world.cloud.entries("SendMessageBatch"), []);
    }
}

mod stepping_aside {
    use super::*;

    /// Republishing makes letters that share one id; each is a letter of its own.
    #[tokio::test]
    async fn letters_of_one_id_do_not_swallow_each_other() {
        let world = world_with(&policy(), FIFO_REQUEUE, "0", &[]);
        down(&world);
        let mark = json!({ "v": 1, "spent": 0, "id": "letter-1", "first": NOW, "gen": 0 });
        let ran = world.run(&["a1", "a2"].map(|id| post(id, "a").mark(&mark))).await;
        assert_eq!(ran.outcomes(), ["a1 requeued failed", "a2 requeued failed"]);
        let ids: Vec<_> = sent_to_requeue(&world).into_iter().map(|entry| entry.deduplication_id).collect();
        assert_ne!(ids[0], ids[1]);
        // The same message, moved once more after a crash, is the same.
        world.cloud.forget();
        world.run([&post("a1", "a").mark(&mark).received(2)]).await;
        assert_eq!(sent_to_requeue(&world)[0].deduplication_id, ids[0]);
    }

    #[tokio::test]
    async fn a_requeue_that_does_not_answer_is_asked_once_an_invocation() {
        let world =
            world_with(&policy(), FIFO_REQUEUE, "0", &[]).with_time(std::time::Duration::from_secs(4));
        world.cloud.script(|call| match call.to.as_str() {
            "orders-requeue.fifo" if call.op == "SendMessageBatch" => Reply::Hang,
            "orders-worker.fifo" => {
                call.except("message of x", EntryFate::Failed("InternalError", "oh", false))
            }
            _ => Reply::Accept,
        });
        // The heads fail in the first round and in the second.
        let posts = [post("x", "a"), post("b1", "b"), post("y", "b").message("message of x")];
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["x deferred failed", "b1 delivered", "y deferred failed"]);
        let tries =
            world.cloud.calls("SendMessageBatch").into_iter().filter(|call| call.to.contains("requeue"));
        assert_eq!(tries.count(), 1);
    }

    fn policy() -> Value {
        let mut policy = six_hours();
        policy["default"]["fifo"] = json!("step-aside");
        policy
    }

    fn post(id: &str, group: &str) -> Post {
        Post::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group(group)
    }

    /// A subscriber that refuses this one message.
    fn poisoned_by(world: &World, id: &'static str) {
        world.cloud.script(move |call| match call.to.as_str() {
            "orders-worker.fifo" => {
                call.except(&format!("message of {id}"), EntryFate::Failed("InternalError", "oh", false))
            }
            _ => Reply::Accept,
        });
    }

    #[tokio::test]
    async fn a_failing_head_moves_to_the_requeue_and_its_group_goes_on() {
        let world = world_with(&policy(), FIFO_REQUEUE, "0", &[]);
        poisoned_by(&world, "a1");
        let ran = world.run(&[post("a1", "a"), post("a2", "a"), post("b1", "b")]).await;
        assert_eq!(ran.outcomes(), ["a1 requeued failed", "a2 delivered", "b1 delivered"]);
        assert_eq!(ran.kept, [""; 0]);
        let [entry] = &sent_to_requeue(&world)[..] else { panic!("one message") };
        assert_eq!((entry.group_id.as_deref(), entry.delay), (Some("a"), None));
        assert_eq!(entry.deduplication_id.as_ref().unwrap().len(), 43);
        let mark = mark_of(entry);
        assert_eq!(
            (&mark["spent"], &mark["due"], &mark["dlq"]),
            (&json!(1), &json!(NOW + 21_600_000), &json!(FIFO_DLQ))
        );
        // Sent before its follower went out.
        let order: Vec<_> = world.cloud.calls("SendMessageBatch").into_iter().map(|call| call.to).collect();
        assert_eq!(order, ["orders-worker.fifo", "orders-requeue.fifo", "orders-worker.fifo"]);
    }

    #[tokio::test]
    async fn a_head_that_the_requeue_does_not_take_blocks_its_group() {
        let world = world_with(&policy(), FIFO_REQUEUE, "0", &[]);
        world.cloud.reply("SendMessageBatch", Reply::Fail(503, "ServiceUnavailable", "oh"));
        let ran = world.run(&[post("a1", "a"), post("a2", "a")]).await;
        assert_eq!(ran.outcomes(), ["a1 deferred failed", "a2 held"]);
    }

    #[tokio::test]
    async fn a_head_before_its_time_has_not_failed_and_blocks() {
        let mut policy = policy();
        policy["default"]["deliveryPolicy"]["healthyRetryPolicy"]["numNoDelayRetries"] = json!(0);
        let world = world_with(&policy, FIFO_REQUEUE, "0", &[]);
        let ran = world.run(&[post("a1", "a"), post("a2", "a")]).await;
        assert_eq!(ran.outcomes(), ["a1 deferred early", "a2 held"]);
    }

    #[tokio::test]
    async fn in_the_requeue_a_failing_head_blocks_so_that_order_is_kept_there() {
        let world = world_with(&policy(), FIFO_REQUEUE, "0", &[]);
        down(&world);
        let mark = |id: &str| json!({ "v": 1, "spent": 1, "id": letter_id(id), "first": NOW, "gen": 0, "dlq": FIFO_DLQ, "due": NOW });
        let posts = ["a1", "a2"].map(|id| post(id, "a").sqs_mark(&mark(id)).queue(FIFO_REQUEUE));
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["a1 deferred failed", "a2 held"]);
        assert_eq!(ran.letter("a1")["retry.number"], 2);
        assert_eq!(sent_to_requeue(&world), []);
    }

    #[tokio::test]
    async fn without_the_rule_the_head_blocks() {
        let world = world_with(&six_hours(), FIFO_REQUEUE, "0", &[]);
        poisoned_by(&world, "a1");
        let ran = world.run(&[post("a1", "a"), post("a2", "a")]).await;
        assert_eq!(ran.outcomes(), ["a1 deferred failed", "a2 held"]);
    }
}

/// What is wrong with a queue is said when its first batch comes, and once.
mod checkup {
    use super::*;

    fn found(ran: &Ran) -> Vec<String> {
        let lines = ran.log.iter().filter(|line| line["message"] == "the queue is not set up well");
        lines.map(|line| line["detail"].as_str().unwrap().to_owned()).collect()
    }

    /// What is found with these attributes of the queue.
    async fn with(attributes: &[(&str, &str)], settings: &[(&str, &str)]) -> Vec<String> {
        let cloud = Cloud::new();
        let usual = [("MessageRetentionPeriod", TWO_WEEKS), ("VisibilityTimeout", "180")];
        let all: Vec<_> = usual.into_iter().chain(attributes.iter().copied()).collect();
        cloud.queue("orders-dlq", &all);
        let world = World::on(cloud, settings);
        let first = found(&world.run([&Post::envelope("a")]).await);
        assert_eq!(found(&world.run([&Post::envelope("b")]).await), [""; 0], "said once");
        first
    }

    #[tokio::test]
    async fn nothing_is_found_where_all_is_well() {
        assert_eq!(with(&[], &[("REQUEUE_ARN", REQUEUE)]).await, [""; 0]);
    }

    #[tokio::test]
    async fn a_schedule_that_the_retention_cuts_off() {
        let expected = "rule default: of 12 retries 9 come before its retention of 14400 s is over";
        assert_eq!(with(&[("MessageRetentionPeriod", "14400")], &[]).await, [expected]);
    }

    #[tokio::test]
    async fn a_visibility_timeout_shorter_than_the_functions_timeout() {
        let [finding] = &with(&[("VisibilityTimeout", "20")], &[]).await[..] else { panic!("one finding") };
        assert!(
            finding
                .starts_with("its visibility timeout of 20 s is shorter than the function's timeout (over 2"),
            "{finding}"
        );
        assert_eq!(with(&[("VisibilityTimeout", "30")], &[]).await, [""; 0]);
    }

    #[tokio::test]
    async fn a_redrive_policy_of_its_own() {
        let policy = format!(r#"{{"deadLetterTargetArn":"{BILLING}","maxReceiveCount":5}}"#);
        let expected = "it has a RedrivePolicy itself: SQS moves letters away after 5 receives";
        assert_eq!(with(&[("RedrivePolicy", &policy)], &[]).await, [expected]);
    }

    #[tokio::test]
    async fn an_archive_that_is_the_queue_itself() {
        let expected = "the archive is this very queue: nothing can be archived";
        assert_eq!(with(&[], &[("ARCHIVE", DLQ)]).await, [expected]);
    }

    #[tokio::test]
    async fn a_requeue_that_is_a_dead_letter_queue() {
        let expected = "REQUEUE_ARN names a queue that others send to: it must be a queue of its own";
        assert_eq!(with(&[], &[("REQUEUE_ARN", DLQ)]).await, [expected]);
    }

    #[tokio::test]
    async fn a_requeue_that_anybody_sends_to_besides() {
        let world = world("0");
        let mark = json!({ "v": 1, "spent": 0, "id": "letter-1", "first": NOW, "gen": 0, "dlq": DLQ });
        let ran = world
            .run(&[Post::envelope("a").sqs_mark(&mark).queue(REQUEUE), Post::envelope("b").queue(REQUEUE)])
            .await;
        let expected = "REQUEUE_ARN names a queue that others send to: it must be a queue of its own";
        assert_eq!(found(&ran), [expected]);
    }

    #[tokio::test]
    async fn a_fifo_queue_with_a_requeue_that_is_none() {
        let world = world("0");
        let post = Post::envelope("a").topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
        let ran = world.run([&post.queue(FIFO_DLQ).group("g")]).await;
        let expected = "it is a FIFO queue and the requeue is none: its letters cannot go there";
        assert_eq!(found(&ran), [expected]);
    }

    #[tokio::test]
    async fn a_requeue_of_another_kind() {
        let expected = "the requeue is a FIFO queue and this is none: its letters cannot go there";
        assert_eq!(with(&[], &[("REQUEUE_ARN", FIFO_REQUEUE)]).await, [expected]);
    }

    #[tokio::test]
    async fn a_queue_that_does_not_tell_is_looked_at_later() {
        let world = World::new(&[("ARCHIVE", DLQ)]);
        world.cloud.reply("GetQueueAttributes", Reply::Fail(403, "AccessDenied", "no"));
        assert_eq!(found(&world.run([&Post::envelope("a")]).await), [""; 0]);
        world.cloud.script(|_| Reply::Accept);
        world.pass(30);
        assert_eq!(found(&world.run([&Post::envelope("a")]).await).len(), 1);
    }
}

#[tokio::test]
async fn the_subscription_is_asked_about_the_queue_that_the_letter_came_from() {
    let world = world("60000");
    world.run([&Post::envelope("a")]).await;
    let entry = &sent_to_requeue(&world)[0];
    up(&world);
    world.pass(6 * HOUR);
    assert_eq!(world.run([&from_requeue(entry, NOW)]).await.outcomes(), ["moved delivered"]);
    world.cloud.unsubscribe(SUBSCRIPTION);
    world.pass(6 * HOUR);
    assert_eq!(world.run([&from_requeue(entry, NOW)]).await.outcomes(), ["moved archived refused"]);
}

//! The whole function: what becomes of every letter, whatever happens around it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use sns_redrive::delivery::CONCURRENT_REQUESTS;
use support::*;

/// A policy of this default.
fn default(default: &Value) -> Value {
    json!({ "default": default })
}

fn ids(event: &Value) -> Vec<String> {
    let records = event["Records"].as_array().unwrap();
    records.iter().map(|record| record["messageId"].as_str().unwrap().to_owned()).collect()
}

fn envelopes(count: usize) -> Vec<Post> {
    (0..count).map(|number| Post::envelope(&format!("m{number}"))).collect()
}

mod samples {
    use super::*;

    /// What `events/README.md` says of each file.
    #[tokio::test]
    async fn every_sample_ends_as_its_readme_says() {
        let unrecognised: &[&str] = &["archived unrecognised"; 10];
        let expected: BTreeMap<&str, &[&str]> = [
            ("envelope", &["delivered"][..]),
            ("event-bus", &["archived undeliverable_protocol"]),
            ("eventbridge", &["archived unrecognised"]),
            ("exhausted", &["archived exhausted"]),
            ("fifo", &["delivered"; 4]),
            ("garbage", unrecognised),
            ("lambda-async", &["archived unrecognised"]),
            ("lambda-destination", &["archived unrecognised"]),
            ("late-retry", &["delivered"]),
            ("raw", &["archived unrecognised"]),
            ("sqs-consumer", &["delivered"]),
            (
                "mixed",
                &[
                    "delivered",
                    "delivered",
                    "archived unrecognised",
                    "archived unrecognised",
                    "archived unrecognised",
                    "delivered",
                    "archived unrecognised",
                    "archived unrecognised",
                    "deferred early",
                    "archived exhausted",
                ],
            ),
        ]
        .into();
        assert_eq!(sample_names(), expected.keys().copied().collect::<Vec<_>>());
        for (name, event) in samples() {
            let ran = World::new(&[]).run_event(&event).await;
            let outcomes: Vec<_> = ids(&event)
                .iter()
                .zip(expected[name.as_str()])
                .map(|(id, outcome)| format!("{id} {outcome}"))
                .collect();
            assert_eq!(ran.outcomes(), outcomes, "{name}");
            let stays = |outcome: &&String| outcome.contains(" deferred ");
            let kept: Vec<_> =
                outcomes.iter().filter(stays).map(|it| it.split(' ').next().unwrap()).collect();
            assert_eq!(ran.kept, kept, "{name}");
        }
    }

    /// What any sender can write is followed where the policy says so, and only in the queue that it names.
    #[tokio::test]
    async fn what_a_sample_claims_is_followed_where_the_policy_lists_it() {
        let claims = ["lambda-async", "lambda-destination", "eventbridge"];
        for (name, claim) in [("eventbridge", "eventbridge"), ("lambda-destination", "lambda-destination")] {
            let others: Vec<_> = claims.into_iter().filter(|other| *other != claim).collect();
            for (origins, outcome) in [
                (json!({ "*": [claim] }), "delivered"),
                (json!({ DLQ: claims }), "delivered"),
                (json!({}), "archived unrecognised"),
                (json!({ "*": others }), "archived unrecognised"),
                (json!({ WORKER: claims }), "archived unrecognised"),
            ] {
                let world = World::with_policy(&json!({ "origins": origins }));
                let ran = world.run_event(&sample(name)).await;
                let id = &ids(&sample(name))[0];
                assert_eq!(ran.outcomes(), [format!("{id} {outcome}")], "{name}: {origins}");
                let line = ran.letter(id);
                if outcome == "delivered" {
                    assert_eq!(
                        [&line["letter.origin"], &line["letter.unlisted_origin"]],
                        [&json!(claim), &json!(null)]
                    );
                } else {
                    assert_eq!([&line["letter.origin"], &line["letter.unlisted_origin"]], ["raw", claim]);
                    let advice = format!("\"origins\": {{\"<ARN of its queue>\": [\"{claim}\"]}}");
                    assert!(line["detail"].as_str().unwrap().contains(&advice), "{line}");
                    assert_eq!(archived(&world.cloud)[0]["detail"], line["detail"]);
                    assert_eq!(operations(&world.cloud), ["GetQueueAttributes", "PutObject"]);
                }
            }
        }
    }

    #[tokio::test]
    async fn the_late_retry_is_number_nine() {
        let ran = World::new(&[]).run_event(&sample("late-retry")).await;
        let line = ran.letters()[0];
        assert_eq!([&line["retry.number"], &line["retry.of"]], [&json!(9), &json!(12)]);
    }

    #[tokio::test]
    async fn a_mixed_batch_costs_seven_kinds_of_call_one_for_each_place() {
        let origins = json!({ "*": ["lambda-async", "lambda-destination", "eventbridge"] });
        let world = World::with_policy(&json!({ "origins": origins }));
        world.run_event(&sample("mixed")).await;
        assert_eq!(
            world.cloud.summary(),
            [
                "GetQueueAttributes orders-billing".to_owned(),
                "GetQueueAttributes orders-dlq".to_owned(),
                format!("GetSubscriptionAttributes {SUBSCRIPTION}"),
                "SendMessageBatch orders-billing 1".to_owned(),
                "SendMessageBatch orders-worker 2".to_owned(),
                "Invoke orders-notifier 1".to_owned(),
                "Invoke orders-projector 1".to_owned(),
                "ChangeMessageVisibilityBatch orders-dlq 1".to_owned(),
                "PutObject graveyard/dead-letters/queue=orders-dlq/date=2026-11-01/\
                 20261101T120000Z-req-1.jsonl"
                    .to_owned(),
            ]
        );
    }
}

mod targets {
    use super::*;

    #[tokio::test]
    async fn a_rule_republishes_to_the_letters_topic() {
        let world = World::with_policy(&default(&json!({ "target": "topic" })));
        let ran = world.run(&envelopes(10)).await;
        assert_eq!(ran.kept, [""; 0]);
        assert_eq!(ran.letter("m0")["target.arn"], TOPIC);
        let vouched = format!("GetSubscriptionAttributes {SUBSCRIPTION}");
        let calls = ["GetQueueAttributes orders-dlq", &vouched, "PublishBatch orders 10"];
        assert_eq!(world.cloud.summary(), calls);
        let entry = &world.cloud.entries("PublishBatch")[0];
        assert_eq!(entry.body, "message of m0");
        let mark = mark_text(1, &letter_id("m0"), NOW, "message of m0");
        assert_eq!(entry.attributes["sns-redrive"].1, published(&mark, 1));
    }

    #[tokio::test]
    async fn a_rule_sends_to_an_arn_whatever_the_letter() {
        for (target, op) in [(BILLING, "SendMessageBatch orders-billing"), (TOPIC, "PublishBatch orders")] {
            let world = World::with_policy(&default(&json!({ "target": target })));
            let ran = world.run([&Post::raw("r", "plain"), &Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["r delivered", "a delivered"]);
            assert_eq!(
                world.cloud.summary(),
                ["GetQueueAttributes orders-dlq".to_owned(), format!("{op} 2")]
            );
        }
    }

    #[tokio::test]
    async fn what_sqs_moved_goes_back_to_its_source_queue_as_it_was() {
        for target in ["origin", "source"] {
            let world = World::with_policy(&default(&json!({ "target": target })));
            let post = Post::envelope("a").moved_from(BILLING).received(4);
            let ran = world.run([&post]).await;
            assert_eq!(ran.outcomes(), ["a delivered"]);
            // Three of its four receives belong to the source queue.
            assert_eq!(ran.letter("a")["retry.number"], 1);
            let calls = world.cloud.calls("SendMessageBatch");
            assert_eq!((calls[0].to.as_str(), &calls[0].entries[0].body), ("orders-billing", &post.body()));
        }
    }

    #[tokio::test]
    async fn what_sqs_did_not_move_has_no_source() {
        let world = World::with_policy(&default(&json!({ "target": "source" })));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a archived unrecognised"]);
    }

    #[tokio::test]
    async fn only_targets_that_a_rule_allows_are_reached() {
        for (allowed, outcome) in [
            (json!([WORKER]), "a delivered"),
            (json!([BILLING, WORKER]), "a delivered"),
            (json!([BILLING]), "a archived refused"),
            // A prefix of an ARN is not that ARN.
            (json!(["arn:aws:sqs:eu-central-1:123456789012:orders-"]), "a archived refused"),
            (json!([]), "a archived refused"),
        ] {
            let world = World::with_policy(&default(&json!({ "allowTargets": allowed })));
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), [outcome], "{allowed}");
            let refused = outcome.ends_with("refused");
            assert_eq!(world.cloud.calls("SendMessageBatch").is_empty(), refused);
        }
    }

    #[tokio::test]
    async fn the_queue_that_is_drained_is_no_target() {
        let world = World::with_policy(&default(&json!({ "target": DLQ })));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a archived refused"]);
        assert_eq!(world.cloud.calls("SendMessageBatch"), []);
    }

    fn full(id: &str) -> Post {
        (0..10).fold(Post::raw(id, "x"), |post, number| post.attribute(&format!("a{number}"), "String", "x"))
    }

    #[tokio::test]
    async fn a_full_letter_goes_to_its_own_endpoint_unmarked_which_is_logged() {
        let world = World::with_policy(&default(&json!({ "subscription": SUBSCRIPTION })));
        let ran = world.run([&full("full"), &Post::raw("r", "x")]).await;
        assert_eq!(ran.outcomes(), ["full delivered", "r delivered"]);
        let told: Vec<_> = ran.log.iter().filter(|line| line["level"] == "WARN").collect();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0]["sqs.message_id"], "full");
        let entries = world.cloud.entries("SendMessageBatch");
        assert_eq!((entries[0].attributes.len(), entries[1].attributes.len()), (10, 1));
        assert!(!entries[0].attributes.contains_key("sns-redrive"));
    }

    #[tokio::test]
    async fn a_full_letter_goes_nowhere_else() {
        for target in [WORKER, TOPIC] {
            let world = World::with_policy(&default(&json!({ "target": target })));
            let ran = world.run([&full("full"), &Post::raw("r", "x")]).await;
            assert_eq!(ran.outcomes(), ["full archived unmarkable", "r delivered"]);
        }
    }

    /// It has been to that queue before: without a mark it would go round for ever.
    #[tokio::test]
    async fn a_full_letter_that_sqs_moved_here_goes_nowhere() {
        let world =
            World::with_policy(&default(&json!({ "target": "subscription", "subscription": SUBSCRIPTION })));
        let ran = world.run([&full("full").moved_from(WORKER), &full("new")]).await;
        assert_eq!(ran.outcomes(), ["full archived unmarkable", "new delivered"]);
    }

    #[tokio::test]
    async fn fifo_letters_keep_group_and_get_a_new_deduplication_id_per_retry() {
        let mut seen = BTreeSet::new();
        for (receive, world) in [(1, World::new(&[])), (2, World::new(&[])), (2, World::new(&[]))] {
            world.set_now(NOW + 3_600_000);
            let post = Post::envelope("a")
                .topic(FIFO_TOPIC)
                .subscription(FIFO_SUBSCRIPTION)
                .queue(FIFO_DLQ)
                .group("customer-17")
                .system("MessageDeduplicationId", "original")
                .received(receive);
            let ran = world.run([&post]).await;
            assert_eq!(ran.outcomes(), ["a delivered"]);
            assert_eq!(ran.letter("a")["retry.number"], receive);
            let entry = world.cloud.entries("SendMessageBatch").remove(0);
            assert_eq!(entry.group_id.as_deref(), Some("customer-17"));
            seen.insert((receive, entry.deduplication_id.unwrap()));
        }
        // Retry 1 and retry 2, of which the repetition has the same.
        assert_eq!(seen.len(), 2);
        assert_eq!(seen.iter().map(|(_, id)| id).collect::<BTreeSet<_>>().len(), 2);
    }
}

mod failures {
    use super::*;

    #[tokio::test]
    async fn every_failed_entry_has_its_own_consequence_and_its_neighbours_are_delivered() {
        let world = World::new(&[]);
        world.cloud.reply(
            "SendMessageBatch",
            Reply::Except(vec![
                (1, EntryFate::Failed("InvalidMessageContents", "", true)),
                (2, EntryFate::Failed("RequestThrottled", "", true)),
                (4, EntryFate::Failed("KMS.AccessDeniedException", "no key", true)),
                (5, EntryFate::Missing),
                (6, EntryFate::Failed("InternalError", "", false)),
            ]),
        );
        let ran = world.run(&envelopes(8)).await;
        assert_eq!(
            ran.outcomes(),
            [
                "m0 delivered",
                "m1 archived permanent",
                "m2 deferred failed",
                "m3 delivered",
                "m4 deferred failed",
                "m5 deferred failed",
                "m6 deferred failed",
                "m7 delivered",
            ]
        );
        assert_eq!(ran.kept, ["m2", "m4", "m5", "m6"]);
        let errors: Vec<_> = (0..8)
            .map(|n| ran.letter(&format!("m{n}")).clone())
            .map(|line| [line["error.code"].clone(), line["error.class"].clone()])
            .collect();
        assert_eq!(
            json!(errors),
            json!([
                [null, null],
                ["InvalidMessageContents", "permanent"],
                ["RequestThrottled", "throttling"],
                [null, null],
                ["KMS.AccessDeniedException", "action_required"],
                ["NoAnswer", "transient"],
                ["InternalError", "transient"],
                [null, null],
            ])
        );
        // The built-in policy: retry 1 is immediate, 54 to 60 s lie before retry 2.
        let hidden = world.cloud.hidden();
        let expected = ["m2", "m4", "m5", "m6"].map(|id| format!("handle-{id}"));
        assert_eq!(hidden.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
        assert!(hidden.values().all(|seconds| (54..=60).contains(seconds)), "{hidden:?}");
    }

    #[tokio::test]
    async fn a_rule_may_go_on_after_a_permanent_failure() {
        let world = World::with_policy(&default(&json!({ "retryPermanent": true })));
        world.cloud.reply("SendMessageBatch", Reply::Fail(400, "InvalidMessageContents", ""));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        assert_eq!(ran.letter("a")["error.class"], "permanent");
    }

    #[tokio::test]
    async fn one_letter_that_spoils_its_request_does_not_take_its_neighbours_along() {
        let world = World::new(&[]);
        world.cloud.script(|call| {
            let bad = call.op == "SendMessageBatch" && !call.entries_with("message of m3").is_empty();
            if bad { Reply::Fail(400, "InvalidMessageContents", "") } else { Reply::Accept }
        });
        let ran = world.run(&envelopes(10)).await;
        let expected: Vec<_> = (0..10)
            .map(|number| match number {
                3 => "m3 archived permanent".to_owned(),
                _ => format!("m{number} delivered"),
            })
            .collect();
        assert_eq!((ran.outcomes(), ran.kept.len()), (expected, 0));
    }

    #[tokio::test]
    async fn a_target_that_hangs_keeps_none_of_the_others() {
        let world = World::new(&[]).with_time(Duration::from_secs(2));
        let posts = [Post::envelope("a"), Post::envelope("b").moved_from(BILLING), Post::raw("r", "x")];
        world.cloud.script(|call| match (call.op.as_str(), call.to.as_str()) {
            ("SendMessageBatch", "orders-billing") => Reply::Hang,
            _ => Reply::Accept,
        });
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "r archived unrecognised"]);
        assert_eq!(ran.letter("b")["error.code"], "DeadlineExceeded");
    }

    #[tokio::test]
    async fn a_queue_that_never_tells_its_attributes_keeps_no_letter() {
        let world = World::new(&[]).with_time(Duration::from_secs(2));
        world.cloud.reply("GetQueueAttributes", Reply::Hang);
        let ran = world.run([&Post::envelope("a"), &Post::raw("r", "x")]).await;
        assert_eq!(ran.outcomes(), ["a delivered", "r archived unrecognised"]);
        assert_eq!(ran.log[0]["error.code"], "DeadlineExceeded");
    }

    /// A queue that does not tell its retention is taken to keep letters for four days.
    #[tokio::test]
    async fn queue_attributes_that_cannot_be_read_are_logged_and_four_days_assumed() {
        for reply in [
            Reply::Fail(403, "AccessDenied", "no"),
            Reply::Fail(403, "RequestThrottled", "no"),
            Reply::Fail(500, "InternalError", "no"),
            Reply::Nonsense(200, "{"),
            Reply::Reset,
            Reply::NoConnection,
        ] {
            let world = holding();
            world.cloud.reply("GetQueueAttributes", reply);
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a deferred hold"]);
            assert_eq!(ran.metrics()["SecondsToExpiry"], 4 * 24 * 3600);
            let warnings: Vec<_> = ran.log.iter().filter(|line| line["level"] == "WARN").collect();
            assert_eq!((warnings.len(), &warnings[0]["queue.arn"]), (1, &json!(DLQ)));
        }
    }

    #[tokio::test]
    async fn the_retention_is_read_from_the_queue_and_kept_for_a_minute() {
        let world = holding();
        for (seconds, retention, calls) in [(0, 1_209_600, 1), (59, 1_209_600, 1), (1, 86_400, 2)] {
            world.pass(seconds);
            let ran = world.run([&Post::envelope("a")]).await;
            let age = if calls == 2 { 60 } else { seconds };
            assert_eq!(ran.metrics()["SecondsToExpiry"], retention - age);
            assert_eq!(world.cloud.calls("GetQueueAttributes").len(), calls);
            world.cloud.queue("orders-dlq", &[("MessageRetentionPeriod", "86400")]);
        }
    }

    /// Its letters stay in their queue, so that the metrics tell how long.
    fn holding() -> World {
        World::with_policy(&default(&json!({ "action": "hold" })))
    }

    /// A throttled call must not make a queue of 14 days look like one of four.
    #[tokio::test]
    async fn what_a_queue_said_last_holds_while_it_will_not_tell() {
        let world = holding();
        assert_eq!(world.run([&Post::envelope("a")]).await.metrics()["SecondsToExpiry"], 1_209_600);
        world.cloud.reply("GetQueueAttributes", Reply::Fail(403, "RequestThrottled", "no"));
        world.pass(300);
        assert_eq!(world.run([&Post::envelope("a")]).await.metrics()["SecondsToExpiry"], 1_209_300);
        // It is asked again after half a minute.
        assert_eq!(world.cloud.calls("GetQueueAttributes").len(), 2);
        world.pass(29);
        world.run([&Post::envelope("a")]).await;
        assert_eq!(world.cloud.calls("GetQueueAttributes").len(), 2);
        world.pass(1);
        world.run([&Post::envelope("a")]).await;
        assert_eq!(world.cloud.calls("GetQueueAttributes").len(), 3);
    }

    /// P4: the queue would drop the letter before its next retry.
    #[tokio::test]
    async fn a_letter_that_its_queue_would_drop_while_it_waits_is_archived() {
        let world = World::new(&[]);
        world.cloud.queue("orders-dlq", &[("MessageRetentionPeriod", "120")]);
        world.cloud.reply("SendMessageBatch", Reply::Reset);
        let fresh = Post::envelope("fresh");
        let old = Post::envelope("old").sent(NOW - 80_000);
        let ran = world.run([&fresh, &old]).await;
        assert_eq!(ran.outcomes(), ["fresh deferred failed", "old archived expiring"]);
        assert_eq!(ran.metrics()["SecondsToExpiry"], 120, "what is archived is safe");
        assert_eq!(ran.kept, ["fresh"]);
    }
}

/// P1: every record ends in exactly one outcome, and only what is safe elsewhere leaves the queue.
mod nothing_is_lost {
    use super::*;

    const OUTCOMES: [&str; 7] =
        ["delivered", "archived", "requeued", "deferred", "held", "failed", "observed"];

    /// The ids of messages that a target, the archive or the requeue has taken, by the journal.
    fn taken(cloud: &Cloud, event: &Value) -> [BTreeSet<String>; 3] {
        let mut of_body = BTreeMap::new();
        for letter in letters_of(event) {
            let id = letter.sqs.message_id.clone();
            let message = letter
                .notification
                .as_ref()
                .map(|sns| [letter.message().into_owned(), sns.message_id.clone()]);
            let message: Vec<_> = message.into_iter().flatten().collect();
            for text in message.into_iter().chain([letter.sqs.body]) {
                assert_eq!(of_body.insert(text, id.clone()), None, "two letters with one body");
            }
        }
        // A function gets SNS's message in an event of its own.
        let message_of = |event: &str| {
            let event: Value = serde_json::from_str(event).unwrap();
            event.pointer("/Records/0/Sns/MessageId")?.as_str().map(str::to_owned)
        };
        let [mut delivered, mut archived, mut requeued] = [const { BTreeSet::new() }; 3];
        for call in cloud.journal() {
            let into = match call.to.as_str() {
                "graveyard" | "orders-dlq" => &mut archived,
                "orders-requeue" | "orders-requeue.fifo" => &mut requeued,
                _ => &mut delivered,
            };
            if call.op == "Invoke" && !call.taken.is_empty() {
                let event = &call.entries[0].body;
                into.insert(of_body[&message_of(event).unwrap_or_else(|| event.clone())].clone());
            } else if matches!(call.op.as_str(), "SendMessageBatch" | "PublishBatch") {
                into.extend(call.taken.iter().map(|index| of_body[&call.entries[*index].body].clone()));
            }
        }
        for object in cloud.objects().values() {
            for line in object.lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                archived.insert(record["message"]["messageId"].as_str().unwrap().to_owned());
            }
        }
        [delivered, archived, requeued]
    }

    fn assert_nothing_lost(world: &World, event: &Value, ran: &Ran, what: &str) {
        let ids = ids(event);
        let kept: BTreeSet<_> = ran.kept.iter().cloned().collect();
        assert_eq!(kept.len(), ran.kept.len(), "an identifier is there twice: {what}");
        assert!(!kept.contains(""), "an empty identifier fails the whole batch: {what}");
        assert!(kept.iter().all(|id| ids.contains(id)), "an unknown identifier: {what}");

        let lines = ran.letters();
        let told: Vec<_> = lines.iter().map(|line| line["sqs.message_id"].as_str().unwrap()).collect();
        assert_eq!(told, ids, "one line per letter, in the order of the batch: {what}");
        let [delivered, archived, requeued] = taken(&world.cloud, event);
        let hidden = world.cloud.hidden();
        for (id, line) in ids.iter().zip(&lines) {
            let outcome = line["outcome"].as_str().unwrap();
            assert!(OUTCOMES.contains(&outcome));
            let safe = [&delivered, &archived, &requeued].iter().any(|taken| taken.contains(id));
            assert_eq!(!kept.contains(id), safe, "{id} {outcome} {what}");
            assert_eq!(delivered.contains(id), outcome == "delivered", "{id} {what}");
            assert_eq!(archived.contains(id), outcome == "archived", "{id} {what}");
            assert_eq!(requeued.contains(id), outcome == "requeued", "{id} {what}");
            if outcome == "deferred" {
                let record = event["Records"].as_array().unwrap().iter().find(|it| it["messageId"] == **id);
                let handle = record.unwrap()["receiptHandle"].as_str().unwrap();
                assert_eq!(hidden.get(handle), Some(&line["delay_s"].as_i64().unwrap()), "{id} {what}");
            }
        }
        let metrics = ran.metrics();
        let count = |name: &str| usize::try_from(metrics[name].as_u64().unwrap()).unwrap();
        assert_eq!(count("LettersReceived"), ids.len());
        for (outcome, name) in OUTCOMES.iter().zip([
            "LettersDelivered",
            "LettersArchived",
            "LettersRequeued",
            "LettersDeferred",
            "LettersHeld",
            "LettersFailed",
            "LettersObserved",
        ]) {
            let told = lines.iter().filter(|line| line["outcome"] == *outcome).count();
            assert_eq!(count(name), told, "{name} {what}");
        }
        assert_fifo(event, &kept, what);
    }

    /// What Lambda asks of FIFO batches: the first failure of a group and all that follows it.
    fn assert_fifo(event: &Value, kept: &BTreeSet<String>, what: &str) {
        let mut blocked = BTreeSet::new();
        for record in event["Records"].as_array().unwrap() {
            if !arn(record["eventSourceARN"].as_str().unwrap()).is_fifo() {
                return;
            }
            let group = record["attributes"]["MessageGroupId"].as_str().unwrap().to_owned();
            if kept.contains(record["messageId"].as_str().unwrap()) {
                blocked.insert(group);
            } else {
                assert!(!blocked.contains(&group), "a letter overtook one of its group: {what}");
            }
        }
    }

    fn policies() -> Vec<Value> {
        vec![
            json!({}),
            default(&json!({ "target": "topic" })),
            default(&json!({ "target": BILLING })),
            default(&json!({ "target": FIFO_WORKER, "subscription": SUBSCRIPTION })),
            default(&json!({ "subscription": SUBSCRIPTION, "retryPermanent": true })),
            default(&json!({ "action": "hold" })),
            default(&json!({ "action": "archive" })),
        ]
    }

    /// A function whose queues are full and whose failing heads step aside.
    fn with_requeue(event: &Value, policy: &Value, archive: &str) -> World {
        let fifo = arn(event["Records"][0]["eventSourceARN"].as_str().unwrap()).is_fifo();
        let mut policy = policy.clone();
        let requeue = if fifo { FIFO_REQUEUE } else { REQUEUE };
        if fifo {
            policy["default"]["fifo"] = json!("step-aside");
        }
        let policy = policy.to_string();
        let settings = [
            ("REDRIVE_POLICY", policy.as_str()),
            ("ARCHIVE", archive),
            ("REQUEUE_ARN", requeue),
            ("IN_FLIGHT_LIMIT", "10"),
        ];
        let world = World::new(&settings);
        for name in ["orders-dlq", "orders-dlq.fifo", "orders-requeue", "orders-requeue.fifo"] {
            let full =
                [("MessageRetentionPeriod", "1209600"), ("ApproximateNumberOfMessagesNotVisible", "10")];
            world.cloud.queue(name, &full);
        }
        world
    }

    const CALLS: [&str; 7] = [
        "GetQueueAttributes",
        "GetSubscriptionAttributes",
        "SendMessageBatch",
        "PublishBatch",
        "Invoke",
        "ChangeMessageVisibilityBatch",
        "PutObject",
    ];

    #[tokio::test]
    async fn whichever_call_fails_in_whichever_way() {
        let every_second = (0..10).step_by(2);
        let missing = (0..10).map(|index| (index, EntryFate::Missing));
        for reply in [
            Reply::Fail(403, "AccessDenied", "no"),
            Reply::Fail(400, "Throttling", "slow"),
            Reply::Fail(400, "InvalidParameterValue", "bad"),
            Reply::Fail(500, "InternalError", "oh"),
            Reply::Nonsense(503, "<html>"),
            Reply::Reset,
            Reply::Except(
                every_second.map(|index| (index, EntryFate::Failed("InternalError", "", false))).collect(),
            ),
            Reply::Except(missing.collect()),
        ] {
            for op in CALLS {
                for (name, policy, archive) in [("mixed", 0, "s3://graveyard/x"), ("fifo", 1, ARCHIVE_QUEUE)]
                {
                    let policy = policies()[policy].to_string();
                    let world = World::new(&[("REDRIVE_POLICY", &policy), ("ARCHIVE", archive)]);
                    world.cloud.reply(op, reply.clone());
                    let event = sample(name);
                    let ran = world.run_event(&event).await;
                    assert_nothing_lost(&world, &event, &ran, &format!("{op} {reply:?} {policy} {name}"));
                    let world = with_requeue(&event, &json!({}), archive);
                    world.cloud.reply(op, reply.clone());
                    let ran = world.run_event(&event).await;
                    assert_nothing_lost(&world, &event, &ran, &format!("requeue, {op} {reply:?} {name}"));
                }
            }
        }
    }

    /// Each in a thread of its own: they spend their time waiting.
    #[test]
    fn whichever_call_hangs() {
        const TIME: Duration = Duration::from_secs(3);
        let hang = async |op: &'static str, name: &str, policy: Value| {
            let event = sample(name);
            for world in [World::with_policy(&policy), with_requeue(&event, &policy, "s3://graveyard/x")] {
                let world = world.with_time(TIME);
                world.cloud.reply(op, Reply::Hang);
                let began = Instant::now();
                let ran = world.run_event(&event).await;
                assert!(began.elapsed() < TIME, "{op}: {:?}", began.elapsed());
                assert_nothing_lost(&world, &event, &ran, op);
            }
        };
        std::thread::scope(|scope| {
            for op in CALLS {
                for (name, policy) in [("mixed", json!({})), ("fifo", default(&json!({ "target": "topic" })))]
                {
                    scope.spawn(move || runtime().block_on(hang(op, name, policy)));
                }
            }
        });
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[tokio::test]
    async fn when_everything_fails() {
        for reply in [Reply::Reset, Reply::Fail(403, "AccessDenied", "no"), Reply::Nonsense(500, "")] {
            for (name, event) in samples() {
                let world = World::new(&[]);
                let all = reply.clone();
                world.cloud.script(move |_| all.clone());
                let ran = world.run_event(&event).await;
                assert_nothing_lost(&world, &event, &ran, &name);
                assert_eq!(ran.kept, ids(&event));
            }
        }
    }

    /// A reply by a number that chance has chosen.
    fn reply(dice: u16, call: &Call) -> Reply {
        let some = |disposition| {
            let chosen = |index: &usize| (usize::from(dice) + index * 7).is_multiple_of(3);
            Reply::Except((0..call.entries.len()).filter(chosen).map(|index| (index, disposition)).collect())
        };
        match dice % 24 {
            0 => Reply::Fail(403, "AccessDenied", "no"),
            1 => Reply::Fail(400, "Throttling", "slow"),
            2 => Reply::Fail(400, "InvalidParameterValue", "bad"),
            3 => Reply::Fail(500, "InternalError", "oh"),
            // S3's 200 has no body that could be nonsense, and a function may answer anything.
            4 if !["PutObject", "Invoke"].contains(&call.op.as_str()) => Reply::Nonsense(200, "<"),
            5 => Reply::Nonsense(502, ""),
            6 => Reply::Reset,
            7 => Reply::NoConnection,
            8 => some(EntryFate::Missing),
            9 => some(EntryFate::Failed("InvalidMessageContents", "bad", true)),
            10 => some(EntryFate::Failed("InternalError", "oh", false)),
            11 => some(EntryFate::Failed("KMSDisabled", "no key", true)),
            12 if call.op == "Invoke" && call.headers["x-amz-invocation-type"] == "RequestResponse" => {
                Reply::FunctionError
            }
            _ => Reply::Accept,
        }
    }

    fn any_event() -> impl Strategy<Value = Value> {
        let mut records: Vec<Value> = Vec::new();
        for (name, event) in samples() {
            if name != "fifo" {
                records.extend(event["Records"].as_array().unwrap().clone());
            }
        }
        let count = records.len();
        let standard = proptest::sample::subsequence(records, 1..=count)
            .prop_shuffle()
            .prop_map(|records| json!({ "Records": records }));
        prop_oneof![3 => standard, 1 => Just(sample("fifo"))]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_fails_when(
            event in any_event(),
            dice in proptest::collection::vec(any::<u16>(), 1..40),
            policy in proptest::sample::select(policies()),
            archive in proptest::sample::select(vec!["s3://graveyard/x", ARCHIVE_QUEUE, DLQ]),
            later in prop_oneof![Just(0), 0..900_000_i64],
            fails in 0..4,
            requeue in any::<bool>(),
        ) {
            runtime().block_on(async {
                let world = if requeue {
                    with_requeue(&event, &policy, archive)
                } else {
                    World::new(&[("REDRIVE_POLICY", &policy.to_string()), ("ARCHIVE", archive)])
                };
                world.pass(later);
                let thrown = AtomicUsize::new(0);
                let numbers = dice.clone();
                world.cloud.script(move |call| {
                    let index = thrown.fetch_add(1, Ordering::Relaxed) % numbers.len();
                    if fails == 0 { Reply::Accept } else { reply(numbers[index], call) }
                });
                let ran = world.run_event(&event).await;
                assert_nothing_lost(&world, &event, &ran, &format!("{policy} {archive}"));
            });
        }
    }
}

/// P6: order within a group.
mod fifo {
    use super::*;

    /// Letters `<group><number>` of a FIFO dead-letter queue.
    fn group(ids: &[&str]) -> Vec<Post> {
        let post = |id: &&str| {
            Post::envelope(id)
                .topic(FIFO_TOPIC)
                .subscription(FIFO_SUBSCRIPTION)
                .queue(FIFO_DLQ)
                .group(&id[..1])
        };
        ids.iter().map(post).collect()
    }

    const SIX: [&str; 6] = ["a1", "b1", "a2", "a3", "b2", "c1"];

    /// The messages of each request, in order.
    fn requests(world: &World) -> Vec<Vec<String>> {
        let name = |entry: &Entry| {
            let id = SIX.iter().find(|id| entry.body.contains(&format!("message of {id}")));
            (*id.unwrap()).to_owned()
        };
        world
            .cloud
            .calls("SendMessageBatch")
            .iter()
            .map(|call| call.entries.iter().map(name).collect())
            .collect()
    }

    async fn run(world: &World) -> Ran {
        world.run(&group(&SIX)).await
    }

    fn fail(world: &World, id: &'static str, disposition: EntryFate) {
        world.cloud.script(move |call| match call.op.as_str() {
            "SendMessageBatch" => call.except(&format!("message of {id}"), disposition),
            _ => Reply::Accept,
        });
    }

    const LATER: EntryFate = EntryFate::Failed("InternalError", "", false);

    #[tokio::test]
    async fn letters_of_a_group_go_one_after_the_other_and_groups_side_by_side() {
        let world = World::new(&[]);
        let ran = run(&world).await;
        assert_eq!(requests(&world), [vec!["a1", "b1", "c1"], vec!["a2", "b2"], vec!["a3"]]);
        assert_eq!(ran.kept, [""; 0]);
    }

    #[tokio::test]
    async fn a_head_that_fails_holds_its_group_and_no_other() {
        let world = World::new(&[]);
        fail(&world, "a1", LATER);
        let ran = run(&world).await;
        assert_eq!(
            ran.outcomes(),
            ["a1 deferred failed", "b1 delivered", "a2 held", "a3 held", "b2 delivered", "c1 delivered"]
        );
        assert_eq!(ran.kept, ["a1", "a2", "a3"]);
        assert_eq!(requests(&world), [vec!["a1", "b1", "c1"], vec!["b2"]]);
        let hidden = world.cloud.hidden();
        assert!((54..=60).contains(&hidden["handle-a1"]));
        // Held ones are shown again: in flight they would block the group's head when it is due.
        assert_eq!((hidden["handle-a2"], hidden["handle-a3"], hidden.len()), (0, 0, 3));
        assert_eq!(world.cloud.calls("ChangeMessageVisibilityBatch").len(), 1);
    }

    #[tokio::test]
    async fn a_letter_in_the_middle_that_fails_holds_those_behind_it() {
        let world = World::new(&[]);
        fail(&world, "a2", LATER);
        let ran = run(&world).await;
        assert_eq!(
            ran.outcomes(),
            ["a1 delivered", "b1 delivered", "a2 deferred failed", "a3 held", "b2 delivered", "c1 delivered"]
        );
        assert_eq!(ran.kept, ["a2", "a3"]);
    }

    /// Whether the archive takes it shows at the end only, so the group waits for the next receive.
    #[tokio::test]
    async fn a_head_that_is_archived_holds_its_group_for_this_time() {
        for archive_fails in [false, true] {
            let world = World::new(&[]);
            world.cloud.script(move |call| match call.op.as_str() {
                "SendMessageBatch" => {
                    call.except("message of a1", EntryFate::Failed("InvalidMessageContents", "", true))
                }
                "PutObject" if archive_fails => Reply::Reset,
                _ => Reply::Accept,
            });
            let ran = run(&world).await;
            let (a1, kept) = if archive_fails {
                ("a1 failed archive", vec!["a1", "a2", "a3"])
            } else {
                ("a1 archived permanent", vec!["a2", "a3"])
            };
            assert_eq!(
                ran.outcomes(),
                [a1, "b1 delivered", "a2 held", "a3 held", "b2 delivered", "c1 delivered"]
            );
            assert_eq!(ran.kept, kept);
        }
    }

    #[tokio::test]
    async fn a_head_that_is_not_due_yet_holds_its_group() {
        let world = World::new(&[]);
        let mut posts = group(&SIX);
        posts[0] = posts[0].clone().mark(&mark(3, "a1", NOW));
        let ran = world.run(&posts).await;
        assert_eq!(
            ran.outcomes(),
            ["a1 deferred early", "b1 delivered", "a2 held", "a3 held", "b2 delivered", "c1 delivered"]
        );
    }

    #[tokio::test]
    async fn a_head_that_cannot_be_hidden_holds_its_group_all_the_same() {
        let world = World::new(&[]);
        world.cloud.script(|call| match call.op.as_str() {
            "SendMessageBatch" => call.except("message of a1", LATER),
            "ChangeMessageVisibilityBatch" => Reply::Reset,
            _ => Reply::Accept,
        });
        let ran = run(&world).await;
        assert_eq!(
            ran.outcomes(),
            ["a1 failed hide", "b1 delivered", "a2 held", "a3 held", "b2 delivered", "c1 delivered"]
        );
        assert_eq!(ran.kept, ["a1", "a2", "a3"]);
    }

    #[tokio::test]
    async fn a_head_whose_time_ran_out_holds_its_group() {
        let world = World::new(&[]).with_time(Duration::ZERO);
        let ran = run(&world).await;
        assert_eq!(
            ran.outcomes(),
            [
                "a1 failed out_of_time",
                "b1 failed out_of_time",
                "a2 held",
                "a3 held",
                "b2 held",
                "c1 failed out_of_time"
            ]
        );
        assert_eq!(ran.kept, SIX);
    }

    /// On standard queues a group is a share, not an order.
    #[tokio::test]
    async fn groups_of_a_standard_queue_hold_nobody() {
        let world = World::new(&[]);
        fail(&world, "a1", LATER);
        let posts = ["a1", "a2", "a3"].map(|id| Post::envelope(id).group("a"));
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["a1 deferred failed", "a2 delivered", "a3 delivered"]);
        assert_eq!(world.cloud.calls("SendMessageBatch").len(), 1);
    }

    #[tokio::test]
    async fn towards_a_fifo_topic_too() {
        let world = World::with_policy(&default(&json!({ "target": "topic" })));
        let ran = run(&world).await;
        assert_eq!(ran.kept, [""; 0]);
        let bodies: Vec<Vec<_>> = world
            .cloud
            .calls("PublishBatch")
            .iter()
            .map(|call| call.entries.iter().map(|entry| entry.body.clone()).collect())
            .collect();
        let expected = [vec!["a1", "b1", "c1"], vec!["a2", "b2"], vec!["a3"]];
        assert_eq!(
            bodies,
            expected.map(|ids| ids.iter().map(|id| format!("message of {id}")).collect::<Vec<_>>())
        );
    }
}

mod observe {
    use super::*;

    #[tokio::test]
    async fn nothing_is_called_but_the_attributes_of_queues_and_every_letter_stays() {
        for policy in
            [json!({}), default(&json!({ "target": "topic" })), default(&json!({ "action": "archive" }))]
        {
            for (name, event) in samples() {
                let world =
                    World::new(&[("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", &policy.to_string())]);
                let ran = world.run_event(&event).await;
                let called: BTreeSet<_> = world.cloud.journal().into_iter().map(|call| call.op).collect();
                assert_eq!(called, ["GetQueueAttributes".to_owned()].into(), "{name}");
                assert_eq!(ran.kept, ids(&event), "{name}");
                let count = u64::try_from(ran.kept.len()).unwrap();
                assert_eq!(ran.metrics()["LettersObserved"], count);
                assert!(ran.letters().iter().all(|line| line["outcome"] == "observed"));
            }
        }
    }

    #[tokio::test]
    async fn what_would_be_done_is_logged() {
        let world = World::new(&[("REDRIVE_MODE", "observe")]);
        let ran = world.run_event(&sample("mixed")).await;
        let told: Vec<_> = ran
            .letters()
            .into_iter()
            .map(|line| json!([line["decision"], line["reason"], line["retry.number"]]))
            .collect();
        assert_eq!(
            told,
            [
                json!(["deliver", null, 1]),
                json!(["deliver", null, 2]),
                json!(["archive", "unrecognised", null]),
                json!(["archive", "unrecognised", null]),
                json!(["archive", "unrecognised", null]),
                json!(["deliver", null, 1]),
                json!(["archive", "unrecognised", null]),
                json!(["archive", "unrecognised", null]),
                json!(["defer", "early", null]),
                json!(["archive", "exhausted", null]),
            ]
        );
    }
}

mod deadline {
    use super::*;

    #[tokio::test]
    async fn letters_that_there_is_no_time_for_go_back_untouched() {
        let world = World::new(&[]).with_time(Duration::ZERO);
        let ran = world.run(&envelopes(10)).await;
        assert!(ran.outcomes().iter().all(|outcome| outcome.ends_with(" failed out_of_time")));
        assert_eq!(ran.kept.len(), 10);
        assert!(world.cloud.journal().iter().all(|call| call.op == "GetQueueAttributes"));
        assert_eq!(ran.letter("m0")["retry.number"], json!(null), "no attempt was made");
    }

    /// As many requests as may be are under way when the time is over; what they were to deliver is hidden,
    /// what had not begun is left alone.
    #[tokio::test]
    async fn what_was_cut_off_is_hidden_and_what_was_not_begun_is_left_alone() {
        let world = World::new(&[]).with_time(Duration::from_secs(10));
        world.cloud.reply("SendMessageBatch", Reply::Hang);
        let all = CONCURRENT_REQUESTS + 4;
        let posts: Vec<_> = (0..all)
            .map(|number| {
                let queue = format!("arn:aws:sqs:eu-central-1:123456789012:q{number:03}");
                Post::raw(&format!("m{number:03}"), "x").moved_from(&queue)
            })
            .collect();
        let began = Instant::now();
        let ran = world.run(&posts).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let of = |ending: &str| -> Vec<_> {
            ran.outcomes().iter().filter_map(|it| Some(it.strip_suffix(ending)?.to_owned())).collect()
        };
        let cut_off = of(" deferred failed");
        assert_eq!((cut_off.len(), of(" failed out_of_time").len()), (CONCURRENT_REQUESTS, 4));
        assert_eq!(ran.kept.len(), all);
        let hidden: Vec<_> = world.cloud.hidden().into_keys().collect();
        assert_eq!(hidden, cut_off.iter().map(|id| format!("handle-{id}")).collect::<Vec<_>>());
        assert_eq!(ran.letter(&cut_off[0])["error.code"], "DeadlineExceeded");
    }

    #[tokio::test]
    async fn the_answer_comes_in_time_though_nothing_answers() {
        let world = World::new(&[]).with_time(Duration::from_secs(2));
        world.cloud.script(|_| Reply::Hang);
        let event = sample("mixed");
        let began = Instant::now();
        let ran = world.run_event(&event).await;
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert_eq!(ran.kept, ids(&event));
    }
}

mod bad_events {
    use super::*;

    async fn refused(change: impl Fn(&mut Value)) -> String {
        let mut event = event([&Post::envelope("a"), &Post::envelope("b")]);
        change(&mut event["Records"][1]);
        let world = World::new(&[]);
        let error = world.try_event(&event).await.unwrap_err();
        assert_eq!(world.cloud.journal(), [], "an event that nobody understands is left alone");
        error.to_string()
    }

    /// An answer with an empty identifier would fail the whole batch anyway, and worse: silently.
    #[tokio::test]
    async fn a_record_that_lambda_would_not_send_fails_the_invocation_before_anything_is_done() {
        for field in ["messageId", "receiptHandle", "eventSourceARN"] {
            let expected = format!("Records[1].{field} is missing or has no usable value");
            assert_eq!(refused(|record| record[field] = json!(null)).await, expected);
            assert_eq!(refused(|record| record[field] = json!("")).await, expected);
        }
        let count = "ApproximateReceiveCount";
        let error = refused(|record| record["attributes"][count] = json!("0")).await;
        assert_eq!(error, "Records[1].ApproximateReceiveCount is missing or has no usable value");
        for field in ["SentTimestamp", "ApproximateFirstReceiveTimestamp", count] {
            let expected = format!("Records[1].{field} is missing or has no usable value");
            for value in ["", "soon", "-1e9", "99999999999999999999"] {
                let change = |record: &mut Value| record["attributes"][field] = json!(value);
                assert_eq!(refused(change).await, expected, "{value}");
            }
            let change = |record: &mut Value| {
                record["attributes"].as_object_mut().unwrap().remove(field);
            };
            assert_eq!(refused(change).await, expected);
        }
    }

    #[tokio::test]
    async fn an_event_of_two_queues_fails_the_invocation_before_anything_is_done() {
        let error = refused(|record| record["eventSourceARN"] = json!(REQUEUE)).await;
        assert_eq!(error, format!("Records[1] is from {REQUEUE}, others of this event from {DLQ}"));
    }

    #[tokio::test]
    async fn an_event_without_records_is_nothing_to_do() {
        let world = World::new(&[]);
        let ran = world.run_event(&json!({ "Records": [] })).await;
        assert_eq!(ran, Ran { kept: vec![], log: vec![], text: String::new(), metrics: String::new() });
        assert_eq!(world.cloud.journal(), []);
    }
}

/// Republishing reaches every subscriber. Where several of them fail, each leaves a letter of its own;
/// those must not be republished in turn, or they would multiply with every retry.
#[tokio::test]
async fn what_our_own_republishing_made_goes_to_the_one_subscription_that_failed() {
    let world = World::with_policy(&json!({ "default": { "target": "topic", "jitter": 0 } }));
    let original = format!("sns-a/{SUBSCRIPTION}");
    // The topic has the letter already.
    let own = Post::envelope("own").mark(&mark(1, &original, NOW - 3_600_000)).sent(NOW - 60_000);
    let by_product = Post::envelope("by-product")
        .subscription(BILLING_SUBSCRIPTION)
        .mark(&mark(1, &original, NOW - 3_600_000))
        .sent(NOW - 60_000);
    let ran = world.run([&own, &by_product]).await;
    assert_eq!(ran.outcomes(), ["own delivered", "by-product delivered"]);
    assert_eq!(ran.letter("own")["target.arn"], WORKER);
    assert_eq!(ran.letter("by-product")["target.arn"], BILLING);
}

/// Fates that are known before the policy is asked: the letter is not behind itself in its group.
mod fifo_letters_whose_fate_is_known {
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
        world.cloud.reply("ListSubscriptions", Reply::Fail(403, "AuthorizationError", "no"));
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
}

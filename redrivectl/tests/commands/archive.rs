//! `archive list` and `archive show`, and the walk that they share with replays.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sns_redrive::archive::{Archive, Batch, Found, Holds, Listing, Object, Pattern, Record, Selection, Walk};
use sns_redrive::batch::ArchiveContext;
use sns_redrive::letter::{Letter, Origins};
use sns_redrive::policy::ArchiveReason;
use tokio::time::Instant;

use super::{Ran, World, redrivectl, redrivectl_in};
use support::{
    Account, BILLING, DLQ, FIFO_DLQ, Fault, NOW, Post, REQUEUE, SUBSCRIPTION, TOPIC, WORKER, arn, at, letter,
    letters, mark,
};

const PLACE: &str = "s3://graveyard/dead-letters";
const DAY: i64 = 86_400_000;

/// Archives letters of one queue as the function does, in one invocation at that time.
async fn bury(cloud: &Account, posts: &[Post], reason: ArchiveReason, millis: i64, request_id: &str) {
    bury_letters(cloud, &letters(posts), reason, millis, request_id).await;
}

async fn bury_letters(
    cloud: &Account,
    letters: &[Letter],
    reason: ArchiveReason,
    millis: i64,
    request_id: &str,
) {
    let context = ArchiveContext {
        reason,
        detail: Some("in words".to_owned()),
        rule: "default".to_owned(),
        target: None,
        retry: None,
        failure: None,
        order: None,
    };
    let to_archive: Vec<_> = letters.iter().map(|letter| (letter, &context)).collect();
    let until = Instant::now() + Duration::from_secs(10);
    let batch = Batch { request_id, now: at(millis), until };
    let archive = Archive::S3 {
        s3: cloud.clients().s3,
        bucket: "graveyard".to_owned(),
        prefix: "dead-letters".to_owned(),
    };
    assert_eq!(archive.store(&to_archive, batch, None).await, vec![Ok(()); letters.len()]);
}

/// Four invocations: two days, two queues, three reasons.
async fn graveyard() -> Account {
    let cloud = Account::new();
    let gold = Post::envelope("gold").sns_attribute("tenant", "String", "gold").message("S3CR3T text");
    bury(&cloud, &[Post::envelope("a"), gold], ArchiveReason::Exhausted, NOW - DAY, "r1").await;
    bury(&cloud, &[Post::envelope("c")], ArchiveReason::Exhausted, NOW, "r2").await;
    bury(&cloud, &[Post::raw("d", "S3CR3T body")], ArchiveReason::Unrecognised, NOW + 1, "r3").await;
    bury(&cloud, &[Post::raw("e", "plain").queue(FIFO_DLQ)], ArchiveReason::Rule, NOW, "r4").await;
    cloud.forget();
    cloud
}

async fn archive(cloud: &Account, args: &[&str]) -> Ran {
    let world = World::on(cloud);
    redrivectl_in(world, &[&["archive"], args, &["--archive", PLACE]].concat()).await
}

/// The SQS message ids of a selection, and what could not be read as `key:line why`.
async fn walked(cloud: &Account, selection: &Selection) -> (Vec<String>, Vec<String>) {
    let mut walk = Walk::new(cloud.clients().s3, "graveyard", "/dead-letters/", selection);
    let (mut letters, mut unread) = (Vec::new(), Vec::new());
    while let Some(found) = walk.next().await {
        match found {
            Found::Letter(letter) => letters.push(letter.record.message.message_id),
            Found::Unread(it) => {
                let line = it.line.map_or(String::new(), |line| format!(":{line}"));
                unread.push(format!("{}{line} {}", it.key, it.why));
            }
        }
    }
    (letters, unread)
}

async fn selected(cloud: &Account, selection: &Selection) -> Vec<String> {
    let (letters, unread) = walked(cloud, selection).await;
    assert_eq!(unread, Vec::<String>::new());
    letters
}

fn id(post: &Post) -> String {
    letter(post).sqs.message_id
}

/// The message ids of [`graveyard`], in the order of a walk.
fn ids(names: &str) -> Vec<String> {
    let of = |name| match name {
        'a' => id(&Post::envelope("a")),
        'g' => id(&Post::envelope("gold")),
        'c' => id(&Post::envelope("c")),
        'd' => id(&Post::raw("d", "")),
        _ => id(&Post::raw("e", "")),
    };
    names.chars().map(of).collect()
}

mod walk {
    use super::*;

    #[tokio::test]
    async fn all_letters_come_by_queue_and_time() {
        let cloud = graveyard().await;
        assert_eq!(selected(&cloud, &Selection::default()).await, ids("eagcd"));
    }

    #[tokio::test]
    async fn each_part_of_a_selection_takes_its_letters_and_no_others() {
        let cloud = graveyard().await;
        let one = |text: &str| vec![text.to_owned()];
        let pattern = |json: &str| Some(Pattern::parse(json).unwrap());
        for (selection, expected) in [
            (Selection { queue: Some("orders-dlq".into()), ..Selection::default() }, "agcd"),
            (Selection { queue: Some(FIFO_DLQ.into()), ..Selection::default() }, "e"),
            (Selection { queue: Some(DLQ.replace("12:orders", "13:orders")), ..Selection::default() }, ""),
            (Selection { from: Some(at(NOW)), ..Selection::default() }, "ecd"),
            (Selection { from: Some(at(NOW + 1)), ..Selection::default() }, "d"),
            (Selection { to: Some(at(NOW)), ..Selection::default() }, "ag"),
            (Selection { from: Some(at(NOW)), to: Some(at(NOW + 1)), ..Selection::default() }, "ec"),
            (Selection { to: Some(at(NOW + 2)), cut_off: Some(at(NOW + 1)), ..Selection::default() }, "eagc"),
            (Selection { reasons: one("exhausted"), ..Selection::default() }, "agc"),
            (Selection { reasons: vec!["rule".into(), "unrecognised".into()], ..Selection::default() }, "ed"),
            (Selection { topics: one(TOPIC), ..Selection::default() }, "agc"),
            (Selection { topics: one("orders"), ..Selection::default() }, "agc"),
            (Selection { topics: one("order"), ..Selection::default() }, ""),
            (Selection { origins: one("raw"), ..Selection::default() }, "ed"),
            (
                Selection {
                    pattern: pattern(r#"{"messageAttributes": {"tenant": ["gold"]}}"#),
                    ..Selection::default()
                },
                "g",
            ),
            (
                Selection {
                    pattern: pattern(r#"{"message": ["plain"]}"#),
                    reasons: one("rule"),
                    ..Selection::default()
                },
                "e",
            ),
        ] {
            assert_eq!(selected(&cloud, &selection).await, ids(expected), "{selection:?}");
            the_index_agrees(&cloud, &selection).await;
        }
    }

    /// What the keys say of a selection agrees with what is in the objects.
    async fn the_index_agrees(cloud: &Account, selection: &Selection) {
        let mut listing =
            Listing::new(cloud.clients().s3, "graveyard", "dead-letters", &Selection::default());
        while let Some(object) = listing.next().await {
            let object = object.unwrap();
            let whole = cloud.objects()[&format!("graveyard/{}", object.key)].clone();
            let records = whole.lines().map(|line| Record::from_line(line).unwrap());
            let found = records.filter(|record| selection.takes(record).unwrap()).count() as u64;
            match selection.holds(&object) {
                Holds::None => assert_eq!(found, 0, "{selection:?}, {object:?}"),
                Holds::AtMost(most) => assert!(found <= most, "{selection:?}, {object:?}"),
                Holds::Exactly(letters) => assert_eq!(found, letters, "{selection:?}, {object:?}"),
            }
        }
    }

    #[tokio::test]
    async fn objects_that_their_index_rules_out_are_not_read() {
        let cloud = graveyard().await;
        let selection = Selection { reasons: vec!["exhausted".into()], ..Selection::default() };
        assert_eq!(selected(&cloud, &selection).await, ids("agc"));
        let read: Vec<_> =
            cloud.calls("GetObject").iter().map(|call| call.target.contains("exhausted")).collect();
        assert_eq!(read, [true; 2]);
    }

    async fn listed(mut listing: Listing) -> Vec<String> {
        let mut keys = Vec::new();
        while let Some(object) = listing.next().await {
            keys.push(object.unwrap().key.to_string());
        }
        keys
    }

    /// A range of keys begins with its first key and ends before its last, wherever a page ends.
    #[tokio::test]
    async fn a_range_of_keys_is_listed_and_read_alone() {
        let cloud = Account::new();
        for number in 0..7 {
            let name = format!("r{number}");
            bury(&cloud, &[Post::raw(&name, "x")], ArchiveReason::Rule, NOW + number * 1000, &name).await;
        }
        bury(&cloud, &[Post::raw("z", "x").queue(WORKER)], ArchiveReason::Rule, NOW, "z").await;
        cloud.pages_of(3);
        let s3 = || cloud.clients().s3;
        let all = listed(Listing::new(s3(), "graveyard", "dead-letters", &Selection::default())).await;
        assert_eq!(all.len(), 8);
        let between = |first: &str, before: Option<&str>| {
            listed(Listing::between(s3(), "graveyard", "/dead-letters/", first, before))
        };
        let folder = "dead-letters/queue=orders-dlq/";
        assert_eq!(between(folder, None).await, all[..7]);
        assert_eq!(between(&all[2], Some(&all[5])).await, all[2..5]);
        assert_eq!(between(&all[2], None).await, all[2..7]);
        assert_eq!(between(&all[7], None).await, all[7..]);
        assert_eq!(between("elsewhere/queue=orders-dlq/", None).await, [""; 0]);

        let objects = [&all[4], &all[1]].map(|key| Object::new(key.as_str(), 9, None)).to_vec();
        let selection = Selection::default();
        let mut walk = Walk::over(s3(), "graveyard", objects, &selection);
        let mut found = Vec::new();
        while let Some(Found::Letter(letter)) = walk.next().await {
            found.push(letter.key.to_string());
        }
        assert_eq!(found, [all[4].clone(), all[1].clone()]);
    }

    /// Bytes that are under way are bounded: a large object is read alone.
    #[tokio::test]
    async fn large_objects_are_read_one_after_the_other() {
        let cloud = graveyard().await;
        cloud.reply("GetObject", Fault::Pass.after(Duration::from_millis(5)));
        let objects = cloud
            .objects()
            .into_keys()
            .map(|place| Object::new(place.trim_start_matches("graveyard/"), 9 * 1024 * 1024, None));
        let selection = Selection::default();
        let mut walk = Walk::over(cloud.clients().s3, "graveyard", objects.collect(), &selection);
        let mut letters = 0;
        while walk.next().await.is_some() {
            letters += 1;
        }
        assert_eq!((letters, cloud.peak()), (5, 1));
    }

    #[tokio::test]
    async fn a_letter_of_the_requeue_is_matched_as_the_function_saw_it() {
        let cloud = Account::new();
        let mut mark = mark(0, "letter-1", NOW);
        mark["source"] = json!(BILLING);
        let post = Post::envelope("a").sqs_mark(&mark).queue(REQUEUE);
        let message = letter(&post).sqs;
        let seen = Letter::parse_requeued(message, Origins::none());
        bury_letters(&cloud, std::slice::from_ref(&seen), ArchiveReason::Exhausted, NOW, "r1").await;
        let with =
            |json: &str| Selection { pattern: Some(Pattern::parse(json).unwrap()), ..Selection::default() };
        assert_eq!(selected(&cloud, &with(r#"{"origin": ["sqs"]}"#)).await, [seen.sqs.message_id]);
        assert!(selected(&cloud, &with(r#"{"origin": ["sns"]}"#)).await.is_empty());
    }

    /// A letter that was moved to the requeue and archived there; also in the form without its dead-letter queue, which
    /// was written before.
    #[tokio::test]
    async fn a_letter_of_the_requeue_belongs_to_its_dead_letter_queue() {
        let mut mark = mark(0, "letter-1", NOW);
        mark["dlq"] = json!(DLQ);
        let moved = Post::envelope("a").sqs_mark(&mark).queue(REQUEUE);
        let seen = Letter::parse_requeued(letter(&moved).sqs, Origins::none());
        let cloud = Account::new();
        bury_letters(&cloud, std::slice::from_ref(&seen), ArchiveReason::Exhausted, NOW, "r1").await;
        let (_, line) = cloud.objects().into_iter().next().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["deadLetterQueueArn"], DLQ);

        let early = Account::new();
        let early_line = line.replace(&format!(r#","deadLetterQueueArn":"{DLQ}""#), "");
        assert_ne!(early_line, line);
        let folder = "graveyard/dead-letters/queue=orders-requeue/date=2026-11-01";
        early.put(&format!("{folder}/20261101T120000Z-r1.jsonl"), &early_line);
        for cloud in [cloud, early] {
            let of = |queue: &str| Selection {
                queue: Some(queue.into()),
                requeue: Some(REQUEUE.into()),
                ..Selection::default()
            };
            for queue in [DLQ, "orders-dlq", REQUEUE, "orders-requeue"] {
                assert_eq!(selected(&cloud, &of(queue)).await, [id(&moved)], "{queue}");
                the_index_agrees(&cloud, &of(queue)).await;
            }
            assert!(selected(&cloud, &of("other-dlq")).await.is_empty());
            the_index_agrees(&cloud, &of("other-dlq")).await;
            let matching = |queue: &str| Selection {
                pattern: Some(Pattern::parse(&json!({ "queueArn": [queue] }).to_string()).unwrap()),
                ..Selection::default()
            };
            assert_eq!(selected(&cloud, &matching(DLQ)).await, [id(&moved)]);
            assert!(selected(&cloud, &matching(REQUEUE)).await.is_empty(), "a rule would not match either");
        }
    }

    /// Letters of one FIFO group, of which some were moved to the requeue, stand in one order.
    #[tokio::test]
    async fn letters_of_a_queue_and_of_its_requeue_come_in_the_order_of_their_time() {
        let cloud = Account::new();
        let mut expected = Vec::new();
        for number in 0..6 {
            let name = format!("m{number}");
            let post = Post::raw(&name, "x").group("customer-1");
            let letter = if number % 2 == 0 {
                letter(&post.queue(FIFO_DLQ))
            } else {
                let mut mark = mark(0, &name, NOW);
                mark["dlq"] = json!(FIFO_DLQ);
                Letter::parse_requeued(letter(&post.sqs_mark(&mark).queue(REQUEUE)).sqs, Origins::none())
            };
            expected.push(letter.sqs.message_id.clone());
            // Milliseconds later, and by request ids that sort the other way.
            let request_id = format!("r{}", 9 - number);
            bury_letters(&cloud, &[letter], ArchiveReason::Exhausted, NOW + number, &request_id).await;
        }
        assert_eq!(selected(&cloud, &Selection::default()).await, expected);
    }

    #[tokio::test]
    async fn a_queue_and_a_time_are_found_by_their_keys_and_nothing_else_is_opened() {
        let cloud = graveyard().await;
        let selection = Selection {
            queue: Some("orders-dlq".into()),
            from: Some(at(NOW - DAY - 3_600_000)),
            to: Some(at(NOW - DAY + 3_600_000)),
            ..Selection::default()
        };
        assert_eq!(selected(&cloud, &selection).await, ids("ag"));
        let prefix = "graveyard/dead-letters/queue=orders-dlq/";
        assert_eq!(
            cloud.summary(),
            [
                format!("ListObjectsV2 {prefix}"),
                format!(
                    "GetObject {prefix}date=2026-10-31/20261031T120000.000Z-r1.2-n2-r0.exhausted.HBaK2wDS.2.jsonl"
                ),
            ]
        );
        assert_eq!(
            cloud.journal()[0].parameters["start-after"],
            "dead-letters/queue=orders-dlq/date=2026-10-31"
        );
    }

    #[tokio::test]
    async fn many_pages_of_keys_and_queues_are_walked_to_their_end() {
        let cloud = Account::new();
        let mut expected = Vec::new();
        for queue in 0..5 {
            for number in 0..7 {
                let name = format!("{queue}-{number}");
                let post = Post::raw(&name, "x").queue(&format!("{DLQ}-{queue}"));
                expected.push(id(&post));
                bury(&cloud, &[post], ArchiveReason::Rule, NOW + number * 1000, &name).await;
            }
        }
        cloud.pages_of(2);
        cloud.forget();
        cloud.reply("GetObject", Fault::Pass.after(Duration::from_millis(2)));
        assert_eq!(selected(&cloud, &Selection::default()).await, expected);
        assert_eq!(cloud.peak(), 32, "so many answers are under way");
    }

    #[tokio::test]
    async fn an_object_that_shows_up_after_the_cut_off_is_no_part_of_it_whatever_it_says() {
        let cloud = graveyard().await;
        let (place, object) = cloud.objects().into_iter().find(|(key, _)| key.contains("r1")).unwrap();
        cloud.put_at(&place.replace("r1", "r9"), &object, "2026-11-01T12:00:05.000Z");
        let before = Selection { cut_off: Some(at(NOW + 5000)), ..Selection::default() };
        let after = Selection { cut_off: Some(at(NOW + 5001)), ..Selection::default() };
        assert_eq!(selected(&cloud, &before).await, ids("eagcd"));
        assert_eq!(selected(&cloud, &after).await.len(), 7);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_told_in_its_place_and_hides_nothing() {
        let cloud = graveyard().await;
        let lines = cloud.objects().into_iter().find(|(key, _)| key.contains("r1")).unwrap().1;
        let good = lines.lines().next().unwrap();
        let foreign = good.replacen("\"version\":1", "\"version\":2", 1);
        let place = "graveyard/dead-letters/queue=orders-dlq/date=2026-11-02";
        cloud.put(&format!("{place}/b.jsonl"), &format!("{foreign}\n\n{{\"S3CR3T\n{good}\nno end"));
        cloud.put(&format!("{place}/c.jsonl"), "");
        cloud.put(&format!("{place}/d.jsonl"), &lines);
        cloud.put(&format!("{place}/notes.txt"), "S3CR3T");
        cloud.script(move |call| {
            let denied = Fault::refuse(403, "AccessDenied", "not allowed to s3:GetObject");
            if call.target.ends_with("d.jsonl") { denied } else { Fault::Pass }
        });
        let (letters, unread) = walked(&cloud, &Selection::default()).await;
        assert_eq!(letters, ids("eagcda"));
        let key = "dead-letters/queue=orders-dlq/date=2026-11-02";
        assert_eq!(
            unread,
            [
                format!("{key}/b.jsonl:1 is of version 2; this version reads 1"),
                format!("{key}/b.jsonl:3 is not JSON (column 8)"),
                format!("{key}/b.jsonl:5 is not JSON (column 2)"),
                format!("{key}/d.jsonl AccessDenied: not allowed to s3:GetObject"),
            ]
        );
    }

    #[tokio::test]
    async fn a_queue_that_cannot_be_listed_does_not_hide_the_next() {
        let cloud = graveyard().await;
        cloud.script(|call| {
            let denied = Fault::refuse(403, "AccessDenied", "not allowed to s3:ListBucket");
            let listed = call.operation == "ListObjectsV2" && call.target.ends_with("orders-dlq/");
            if listed { denied } else { Fault::Pass }
        });
        let (letters, unread) = walked(&cloud, &Selection::default()).await;
        assert_eq!(letters, ids("e"));
        assert_eq!(unread, ["dead-letters/queue=orders-dlq/ AccessDenied: not allowed to s3:ListBucket"]);

        cloud.reply(
            "ListObjectsV2",
            Fault::refuse(404, "NoSuchBucket", "The specified bucket does not exist"),
        );
        let (letters, unread) = walked(&cloud, &Selection::default()).await;
        assert_eq!(letters, ids(""));
        assert_eq!(unread, ["dead-letters/queue= NoSuchBucket: The specified bucket does not exist"]);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_read_on_where_it_broke() {
        let cloud = graveyard().await;
        let (place, object) = cloud.objects().into_iter().find(|(key, _)| key.contains("Z-r1.")).unwrap();
        let first_line = object.find('\n').unwrap() + 1;
        for breaks in
            [[0, 0], [10, 10], [first_line, 10], [first_line + 10, first_line], [10, first_line + 10]]
        {
            let (times, place) = (AtomicUsize::new(0), place.clone());
            cloud.script(move |call| {
                let time = if call.target == place { times.fetch_add(1, Ordering::SeqCst) } else { 2 };
                breaks.get(time).map_or(Fault::Pass, |bytes| Fault::BreakOff(*bytes))
            });
            assert_eq!(selected(&cloud, &Selection::default()).await, ids("eagcd"), "{breaks:?}");
        }
        cloud
            .script(move |call| if call.target == place { Fault::BreakOff(first_line) } else { Fault::Pass });
        let (letters, unread) = walked(&cloud, &Selection::default()).await;
        assert_eq!(letters, ids("eacd"));
        assert_eq!(unread.len(), 1);
        assert!(unread[0].contains("Z-r1.") && unread[0].ends_with(".jsonl BodyBrokenOff"), "{unread:?}");
    }
}

#[test]
fn a_pattern_is_refused_for_what_a_policy_would_refuse() {
    for (pattern, problem) in [
        ("{", "is not JSON"),
        ("{}", "must be an object with at least one field"),
        (r#"{"topic": ["a"]}"#, "has no field \"topic\""),
        (r#"{"origin": []}"#, "holds an empty list"),
    ] {
        let problems = Pattern::parse(pattern).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with(problem), "{problems:?}");
    }
}

#[tokio::test]
async fn a_list_counts_by_topic_reason_and_day() {
    let cloud = graveyard().await;
    // The function crashed after it had archived these, and did so again.
    bury(
        &cloud,
        &[Post::envelope("a"), Post::envelope("f")],
        ArchiveReason::Exhausted,
        NOW - DAY + 60_000,
        "r5",
    )
    .await;
    let text = archive(&cloud, &["list"]).await.text();
    let lines: Vec<_> = text.lines().map(|line| line.split("  ").filter(|cell| !cell.is_empty())).collect();
    let rows: Vec<Vec<_>> = lines.into_iter().map(|cells| cells.map(str::trim).collect()).collect();
    let (noon, day_before) = ("2026-11-01 12:00:00", "2026-10-31 12:00:00");
    let (a, d, e) = (ids("a").remove(0), ids("d").remove(0), ids("e").remove(0));
    assert_eq!(
        rows,
        [
            vec!["topic", "reason", "day (UTC)", "letters", "first (UTC)", "last (UTC)", "example"],
            vec!["(none)", "rule", "2026-11-01", "1", noon, noon, &e],
            vec!["(none)", "unrecognised", "2026-11-01", "1", noon, noon, &d],
            vec![TOPIC, "exhausted", "2026-10-31", "3", day_before, "2026-10-31 12:01:00", &a],
            vec![TOPIC, "exhausted", "2026-11-01", "1", noon, noon, &ids("c")[0]],
            vec![],
            vec!["6 letters; 1 record more stored twice, after a crash."],
        ]
    );
    let list =
        archive(&cloud, &["list", "--json", "--reason", "rule", "--reason", "unrecognised"]).await.json();
    let group = |reason: &str, at: &str, id: &str| {
        json!({ "topicArn": null, "reason": reason, "day": "2026-11-01", "letters": 1, "first": at, "last": at,
                "example": id })
    };
    let groups =
        [group("rule", "2026-11-01T12:00:00Z", &e), group("unrecognised", "2026-11-01T12:00:00.001Z", &d)];
    assert_eq!(list, json!({ "groups": groups, "letters": 2, "doubles": 0, "unread": 0 }));
}

/// Each field by which letters can be counted, and an order of them.
#[tokio::test]
async fn letters_are_counted_by_any_fields() {
    let cloud = graveyard().await;
    let failed = json!({ "code": "AccessDenied", "class": "action_required" });
    let (place, object) = cloud.objects().into_iter().find(|(key, _)| key.contains("Z-r2.")).unwrap();
    let mut record: Value = serde_json::from_str(&object).unwrap();
    (record["error"], record["targetArn"]) = (failed, json!(WORKER));
    cloud.put(&place, &format!("{record}\n"));
    let first = |list: &Value, field: &str| {
        let groups = list["groups"].as_array().unwrap();
        groups.iter().map(|group| (group[field].clone(), group["letters"].clone())).collect::<Vec<_>>()
    };
    for (by, field, groups) in [
        ("topic", "topicArn", vec![(json!(null), 2), (json!(TOPIC), 3)]),
        ("subscription", "subscriptionArn", vec![(json!(null), 2), (json!(SUBSCRIPTION), 3)]),
        ("target", "target", vec![(json!(null), 4), (json!(WORKER), 1)]),
        ("reason", "reason", vec![(json!("exhausted"), 3), (json!("rule"), 1), (json!("unrecognised"), 1)]),
        ("error", "error", vec![(json!(null), 4), (json!("AccessDenied"), 1)]),
        ("rule", "rule", vec![(json!("default"), 5)]),
        ("queue", "deadLetterQueueArn", vec![(json!(DLQ), 4), (json!(FIFO_DLQ), 1)]),
        ("day", "day", vec![(json!("2026-10-31"), 2), (json!("2026-11-01"), 3)]),
        ("hour", "hour", vec![(json!("2026-10-31 12:00"), 2), (json!("2026-11-01 12:00"), 3)]),
    ] {
        let list = archive(&cloud, &["list", "--json", "--by", by]).await.json();
        let expected: Vec<_> = groups.into_iter().map(|(value, letters)| (value, json!(letters))).collect();
        assert_eq!(first(&list, field), expected, "{by}");
    }
    let text = archive(&cloud, &["list", "--by", "error,hour", "--by", "reason"]).await.text();
    assert!(text.starts_with("error         hour (UTC)        reason        letters  first (UTC)"), "{text}");
}

#[tokio::test]
async fn every_filter_reaches_the_selection() {
    let cloud = graveyard().await;
    let (place, object) = cloud.objects().into_iter().find(|(key, _)| key.contains("Z-r2.")).unwrap();
    let mut record: Value = serde_json::from_str(&object).unwrap();
    record["error"] = json!({ "code": "500", "class": "transient" });
    record["targetUrl"] = json!("https://example.com/hook");
    cloud.put(&place, &format!("{record}\n"));
    for (args, letters) in [
        (&["--since", "2026-11-01"][..], 3),
        (&["--since", "1h"], 3),
        (&["--until", "2026-11-01T12:00:00Z"], 2),
        (&["--until", "12h"], 2),
        (&["--reason", "exhausted"], 3),
        (&["--topic", "orders"], 3),
        (&["--origin", "raw"], 2),
        (&["--queue", "orders-dlq.fifo"], 1),
        (&["--match", r#"{"messageAttributes": {"tenant": ["gold"]}}"#], 1),
        (&["--error", "500"], 1),
        (&["--error", "500", "--error", "AccessDenied"], 1),
        (&["--error", "AccessDenied"], 0),
        (&["--target", "https://example.com/hook?token=x"], 1),
        (&["--target", WORKER], 0),
    ] {
        let list = archive(&cloud, &[&["list", "--json"], args].concat()).await.json();
        assert_eq!(list["letters"], letters, "{args:?}");
    }
    for args in
        [&["--reason", "bad-luck"][..], &["--origin", "moon"], &["--since", "soon"], &["--match", "{}"]]
    {
        let ran = archive(&cloud, &[&["list"], args].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
    }
}

#[tokio::test]
async fn what_could_not_be_read_is_said_counted_and_in_the_exit_code() {
    let cloud = graveyard().await;
    let key = "dead-letters/queue=orders-dlq/date=2026-11-02/b.jsonl";
    cloud.put(&format!("graveyard/{key}"), "{\"version\": 2}\nS3CR3T\n");
    let ran = archive(&cloud, &["list"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.ends_with("\n5 letters; 2 could not be read.\n"), "{}", ran.out);
    assert_eq!(
        ran.err,
        format!(
            "redrivectl: {key}:1: is of version 2; this version reads 1\n\
             redrivectl: {key}:2: is not JSON (column 1)\n"
        )
    );
    let ran = archive(&cloud, &["list", "--json"]).await;
    let list: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &list["unread"], &list["letters"]), (1, &json!(2), &json!(5)));
}

#[tokio::test]
async fn an_empty_archive_is_no_failure() {
    let text = archive(&Account::new(), &["list"]).await.text();
    assert_eq!(text, "0 letters.\n");
}

#[tokio::test]
async fn a_letter_is_shown_by_either_id_without_what_it_says() {
    let cloud = graveyard().await;
    let gold = letter(&Post::envelope("gold"));
    for id in [gold.id.as_str(), &gold.sqs.message_id] {
        let text = archive(&cloud, &["show", id]).await.text();
        assert!(text.starts_with(&format!("Letter {}\n", gold.id)), "{text}");
        for line in [
            "  archived      2026-10-31 12:00:00 UTC as exhausted",
            "  because       in words",
            "  origin        sns",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("S3CR3T") && !text.contains("Unsubscribe"), "{text}");
        assert_eq!(text.matches("Letter ").count(), 1);
        let text = archive(&cloud, &["show", id, "--body"]).await.text();
        assert!(text.contains("S3CR3T text"), "{text}");
    }
}

#[tokio::test]
async fn attribute_values_are_shown_with_the_body_only() {
    let cloud = Account::new();
    let post = Post::raw("m", "x\n\u{1b}[2J").attribute("token", "String", "S3CR3T");
    bury(&cloud, &[post], ArchiveReason::Rule, NOW, "r1").await;
    let text = archive(&cloud, &["show"]).await.text();
    assert!(text.contains("  attribute  token (String)\n") && !text.contains("S3CR3T"), "{text}");
    let text = archive(&cloud, &["show", "--body"]).await.text();
    assert!(text.contains("  attribute  token (String: S3CR3T)\n"), "{text}");
    assert!(text.ends_with("\nx\n\u{fffd}[2J\n"), "{text:?}");
}

#[tokio::test]
async fn shown_as_json_a_letter_is_its_whole_record_and_a_digest() {
    let cloud = graveyard().await;
    let text = archive(&cloud, &["show", "--json", "--queue", "orders-dlq"]).await.text();
    let mut shown: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let objects = cloud.objects();
    for record in &mut shown {
        assert_eq!(record["digest"].as_str().unwrap().len(), 43);
        let fields = record.as_object_mut().unwrap();
        fields.remove("digest");
        let (key, line) = (fields.remove("key").unwrap(), fields.remove("line").unwrap().as_u64().unwrap());
        let object = &objects[&format!("graveyard/{}", key.as_str().unwrap())];
        let there = object.lines().nth(usize::try_from(line).unwrap() - 1).unwrap();
        assert_eq!(serde_json::from_str::<Value>(there).unwrap(), *record);
    }
    let stored = objects.iter().filter(|(key, _)| key.contains("queue=orders-dlq/"));
    let stored = stored.flat_map(|(_, object)| object.lines());
    let stored: Vec<Value> = stored.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(shown, stored);
}

mod diff {
    use super::*;

    /// Two letters as `archive show --json` writes them: an envelope with JSON in it, and a text.
    async fn shown() -> (Account, Vec<Value>) {
        let cloud = Account::new();
        let posts = [
            Post::envelope("a").message(r#"{"order": 17, "items": [{"price": "x"}, {"price": 2}]}"#),
            Post::raw("d", "first line\nsecond line"),
        ];
        bury(&cloud, &posts, ArchiveReason::Exhausted, NOW, "r1").await;
        let text = archive(&cloud, &["show", "--json"]).await.text();
        let shown = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (cloud, shown)
    }

    async fn diff(cloud: &Account, records: &[Value], args: &[&str]) -> Ran {
        let text = records.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        let world = World { input: text.into_bytes(), ..World::on(cloud) };
        redrivectl_in(world, &[&["archive", "diff", "-", "--archive", PLACE], args].concat()).await
    }

    #[tokio::test]
    async fn nothing_is_shown_of_letters_that_are_as_in_the_archive() {
        let (cloud, shown) = shown().await;
        assert_eq!(diff(&cloud, &shown, &[]).await.text(), "0 letters changed, 2 as in the archive.\n");
    }

    #[tokio::test]
    async fn changes_are_shown_line_by_line_or_as_paths() {
        let (cloud, mut shown) = shown().await;
        let envelope = shown[0]["message"]["body"].as_str().unwrap();
        let edited = envelope.replace(r#"\"price\": \"x\""#, r#"\"price\": 1"#);
        assert_ne!(edited, envelope);
        shown[0]["message"]["body"] = json!(edited);
        shown[1]["message"]["body"] = json!("first line\nanother line\u{1b}[2J");
        shown[1]["message"]["messageAttributes"]["a b"] = json!({ "dataType": "String", "stringValue": "x" });
        let text = diff(&cloud, &shown, &[]).await.text();
        for line in [
            "-            \"price\": \"x\"",
            "+            \"price\": 1",
            "       \"first line\",",
            "-      \"second line\"",
            "+      \"another line\\u001b[2J\"",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("\n\n2 letters changed, 0 as in the archive.\n"), "{text}");
        let changed = diff(&cloud, &shown, &["--json"]).await.json();
        let paths = |index: usize| changed["letters"][index]["changed"].clone();
        assert_eq!(paths(0), json!(["message.body.Message.items[0].price"]));
        assert_eq!(paths(1), json!(["message.body[1]", "message.messageAttributes[\"a b\"]"]));
        assert_eq!(changed["letters"][1]["key"], shown[1]["key"]);
    }

    /// White space in JSON is sent as it is edited.
    #[tokio::test]
    async fn white_space_alone_is_a_change_of_the_body() {
        let (cloud, mut shown) = shown().await;
        let envelope = shown[0]["message"]["body"].as_str().unwrap();
        shown[0]["message"]["body"] = json!(format!("{envelope} "));
        let changed = diff(&cloud, &shown, &["--json"]).await.json();
        assert_eq!(changed["letters"][0]["changed"], json!(["message.body"]));
        assert_eq!(changed["unchanged"], 1);
    }

    #[tokio::test]
    async fn a_record_that_names_no_letter_of_the_archive_is_told() {
        let (cloud, shown) = shown().await;
        let mut other = shown.clone();
        other[0]["line"] = json!(2);
        let ran = diff(&cloud, &other, &[]).await;
        assert_eq!((ran.code, ran.out.as_str()), (1, "0 letters changed, 1 as in the archive.\n"));
        assert!(
            ran.err.starts_with("redrivectl: line 1: the archive has no such letter there"),
            "{}",
            ran.err
        );

        let mut nowhere = shown.clone();
        nowhere[1].as_object_mut().unwrap().remove("key");
        let ran = diff(&cloud, &nowhere, &[]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.contains("line 2: has no key or no line"), "{}", ran.err);
    }
}

#[tokio::test]
async fn a_letter_that_is_not_there_is_a_failure() {
    let ran = archive(&graveyard().await, &["show", "nobody"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err, "redrivectl: no such letter in this archive\n");
}

#[tokio::test]
async fn the_archive_must_be_named_and_be_in_s3() {
    let ran = redrivectl(&["archive", "list"]).await;
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.err,
        "redrivectl: --archive (or ARCHIVE) is missing: s3://bucket/prefix or the ARN of a queue\n"
    );
    let queue = arn(DLQ);
    let ran = redrivectl(&["archive", "list", "--archive", queue.as_str()]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("an archive in a queue cannot be looked into"), "{}", ran.err);
}

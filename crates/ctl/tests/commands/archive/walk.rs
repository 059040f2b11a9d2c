//! The walk through an archive that `archive` and replays share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive_archive::{
    ArchiveListing, ArchiveObject, ArchiveRecord, ArchiveSweep, ArchiveWalk, LetterPattern, SelectedCount,
    Selection, SweepEnd, WalkItem, WhyUnread,
};
use redrive_core::letter::{Letter, TrustedOrigins};
use redrive_core::policy::ArchiveReason;
use redrive_support::{
    BILLING, DLQ, FIFO_DLQ, NOW, REQUEUE, RecordBuilder, SimFault, TOPIC, TestAccount, WORKER, at, letter,
    mark,
};
use serde_json::{Value, json};

use super::{DAY, archived, bury, bury_letters, id, ids};

/// Returns the SQS message ids of a selection, and each unread line as `key:line why`.
async fn walked(cloud: &TestAccount, selection: &Selection) -> (Vec<String>, Vec<String>) {
    let mut walk = ArchiveWalk::new(cloud.clients().s3, "my-bucket", "/dead-letters/", selection);
    let (mut letters, mut unread) = (Vec::new(), Vec::new());
    while let Some(found) = walk.next().await {
        match found {
            WalkItem::Letter(letter) => letters.push(letter.record.message.message_id),
            WalkItem::Erased(_) => {}
            WalkItem::Unread(it) if it.why == WhyUnread::Late => {}
            WalkItem::Unread(it) => {
                let line = it.line.map_or(String::new(), |line| format!(":{line}"));
                unread.push(format!("{}{line} {}", it.key, it.why));
            }
        }
    }
    (letters, unread)
}

async fn selected(cloud: &TestAccount, selection: &Selection) -> Vec<String> {
    let (letters, unread) = walked(cloud, selection).await;
    assert_eq!(unread, Vec::<String>::new());
    letters
}

#[tokio::test]
async fn all_letters_come_by_queue_and_time() {
    let cloud = archived().await;
    assert_eq!(selected(&cloud, &Selection::default()).await, ids("eagcd"));
}

#[tokio::test]
async fn each_part_of_a_selection_takes_its_letters_and_no_others() {
    let cloud = archived().await;
    let one = |text: &str| vec![text.to_owned()];
    let pattern = |json: &str| Some(LetterPattern::parse(json).unwrap());
    for (selection, expected) in [
        (Selection { queue: Some("payments-dlq".into()), ..Selection::default() }, "agcd"),
        (Selection { queue: Some(FIFO_DLQ.into()), ..Selection::default() }, "e"),
        (Selection { queue: Some(DLQ.replace("12:payments", "13:payments")), ..Selection::default() }, ""),
        (Selection { from: Some(at(NOW)), ..Selection::default() }, "ecd"),
        (Selection { from: Some(at(NOW + 1)), ..Selection::default() }, "d"),
        (Selection { to: Some(at(NOW)), ..Selection::default() }, "ag"),
        (Selection { from: Some(at(NOW)), to: Some(at(NOW + 1)), ..Selection::default() }, "ec"),
        (Selection { to: Some(at(NOW + 2)), cut_off: Some(at(NOW + 1)), ..Selection::default() }, "eagc"),
        (Selection { reasons: one("exhausted"), ..Selection::default() }, "agc"),
        (Selection { reasons: vec!["rule".into(), "unrecognised".into()], ..Selection::default() }, "ed"),
        (Selection { topics: one(TOPIC), ..Selection::default() }, "agc"),
        (Selection { topics: one("payments"), ..Selection::default() }, "agc"),
        (Selection { topics: one("override"), ..Selection::default() }, ""),
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

/// Checks that the keys of a selection agree with the contents of the objects.
async fn the_index_agrees(cloud: &TestAccount, selection: &Selection) {
    let mut listing =
        ArchiveListing::new(cloud.clients().s3, "my-bucket", "dead-letters", &Selection::default());
    while let Some(object) = listing.next().await {
        let object = object.unwrap();
        let whole = cloud.objects()[&format!("my-bucket/{}", object.key)].clone();
        let records = whole.lines().map(|line| ArchiveRecord::from_line(line).unwrap());
        let found = records.filter(|record| selection.takes(record).unwrap()).count() as u64;
        match selection.holds(&object) {
            SelectedCount::None => assert_eq!(found, 0, "{selection:?}, {object:?}"),
            SelectedCount::AtMost(most) => assert!(found <= most, "{selection:?}, {object:?}"),
            SelectedCount::Exactly(letters) => assert_eq!(found, letters, "{selection:?}, {object:?}"),
        }
    }
}

#[tokio::test]
async fn objects_that_their_index_rules_out_are_not_read() {
    let cloud = archived().await;
    let selection = Selection { reasons: vec!["exhausted".into()], ..Selection::default() };
    assert_eq!(selected(&cloud, &selection).await, ids("agc"));
    let read: Vec<_> =
        cloud.calls("GetObject").iter().map(|call| call.target.contains("exhausted")).collect();
    assert_eq!(read, [true; 2]);
}

async fn listed(mut listing: ArchiveListing) -> Vec<String> {
    let mut keys = Vec::new();
    while let Some(object) = listing.next().await {
        keys.push(object.unwrap().key.to_string());
    }
    keys
}

/// A range of keys begins with its first key and ends before its last, wherever a page ends.
#[tokio::test]
async fn a_range_of_keys_is_listed_and_read_alone() {
    let cloud = TestAccount::new();
    for number in 0..7 {
        let name = format!("r{number}");
        bury(&cloud, &[RecordBuilder::raw(&name, "x")], ArchiveReason::Rule, NOW + number * 1000, &name)
            .await;
    }
    bury(&cloud, &[RecordBuilder::raw("z", "x").queue(WORKER)], ArchiveReason::Rule, NOW, "z").await;
    cloud.pages_of(3);
    let s3 = || cloud.clients().s3;
    let all = listed(ArchiveListing::new(s3(), "my-bucket", "dead-letters", &Selection::default())).await;
    assert_eq!(all.len(), 8);
    let between = |first: &str, before: Option<&str>| {
        listed(ArchiveListing::between(s3(), "my-bucket", "/dead-letters/", first, before))
    };
    let folder = "dead-letters/queue=payments-dlq/";
    assert_eq!(between(folder, None).await, all[..7]);
    assert_eq!(between(&all[2], Some(&all[5])).await, all[2..5]);
    assert_eq!(between(&all[2], None).await, all[2..7]);
    assert_eq!(between(&all[7], None).await, all[7..]);
    assert_eq!(between("elsewhere/queue=payments-dlq/", None).await, [""; 0]);

    let objects = [&all[4], &all[1]].map(|key| ArchiveObject::new(key.as_str(), 9, None)).to_vec();
    let selection = Selection::default();
    let mut walk = ArchiveWalk::over(s3(), "my-bucket", objects, &selection);
    let mut found = Vec::new();
    while let Some(WalkItem::Letter(letter)) = walk.next().await {
        found.push(letter.key.to_string());
    }
    assert_eq!(found, [all[4].clone(), all[1].clone()]);
}

/// Pages list many parts of an archive at once, and the tool lists one after the other. Both see the same.
#[tokio::test]
async fn a_sweep_finds_what_a_listing_finds_wherever_a_page_ends() {
    let cloud = TestAccount::new();
    for number in 0..7 {
        let name = format!("r{number}");
        bury(&cloud, &[RecordBuilder::raw(&name, "x")], ArchiveReason::Rule, NOW + number * 1000, &name)
            .await;
    }
    bury(&cloud, &[RecordBuilder::raw("z", "x").queue(WORKER)], ArchiveReason::Rule, NOW, "z").await;
    for stranger in ["date=2026-10-32/a.jsonl", "date=2026-13-01/a.jsonl", "date=2026-11-01/notes.txt"] {
        cloud.put(&format!("my-bucket/dead-letters/queue=payments-dlq/{stranger}"), "");
    }
    let (s3, range) = (|| cloud.clients().s3, (at(NOW - 1000), at(NOW + 90_000)));
    for keys in [1, 2, 3, 1000] {
        cloud.pages_of(keys);
        for queue in [None, Some("payments-dlq"), Some("other")] {
            let selection = Selection { queue: queue.map(str::to_owned), ..Selection::default() };
            let all = listed(ArchiveListing::new(s3(), "my-bucket", "dead-letters", &selection)).await;
            assert_eq!(all.len(), if queue.is_none() { 8 } else { 7 * usize::from(queue != Some("other")) });
            let mut swept = Vec::new();
            let sweep = ArchiveSweep::new(s3(), "my-bucket", "/dead-letters/", range, 200);
            let end = sweep.run(queue, |object| swept.push(object.key.to_string())).await;
            assert_eq!(end, Ok(SweepEnd::Whole));
            swept.sort();
            assert_eq!(swept, all, "{queue:?}, {keys} keys a page");
        }
    }
}

/// The bytes in flight are bounded. A large object is read alone, even one beyond the bound.
#[tokio::test(start_paused = true)]
async fn large_objects_are_read_one_after_the_other() {
    for megabytes in [9, 17] {
        let cloud = archived().await;
        cloud.reply("GetObject", SimFault::Pass.after(Duration::from_millis(5)));
        let large = |place: String| {
            ArchiveObject::new(place.trim_start_matches("my-bucket/"), megabytes * 1024 * 1024, None)
        };
        let objects = cloud.objects().into_keys().map(large);
        let selection = Selection::default();
        let mut walk = ArchiveWalk::over(cloud.clients().s3, "my-bucket", objects.collect(), &selection);
        let mut letters = 0;
        while walk.next().await.is_some() {
            letters += 1;
        }
        assert_eq!((letters, cloud.peak()), (5, 1), "{megabytes} MB");
    }
}

#[tokio::test]
async fn a_letter_of_the_requeue_is_matched_as_the_function_saw_it() {
    let cloud = TestAccount::new();
    let mut mark = mark(0, "letter-1", NOW);
    mark["source"] = json!(BILLING);
    let post = RecordBuilder::envelope("a").sqs_mark(&mark).queue(REQUEUE);
    let message = letter(&post).sqs;
    let seen = Letter::parse_requeued(message, TrustedOrigins::none());
    bury_letters(&cloud, std::slice::from_ref(&seen), ArchiveReason::Exhausted, NOW, "r1").await;
    let with =
        |json: &str| Selection { pattern: Some(LetterPattern::parse(json).unwrap()), ..Selection::default() };
    assert_eq!(selected(&cloud, &with(r#"{"origin": ["sqs"]}"#)).await, [seen.sqs.message_id]);
    assert!(selected(&cloud, &with(r#"{"origin": ["sns"]}"#)).await.is_empty());
}

/// A letter that was moved to the requeue and archived there.
#[tokio::test]
async fn a_letter_of_the_requeue_belongs_to_its_dead_letter_queue() {
    let mut mark = mark(0, "letter-1", NOW);
    mark["dlq"] = json!(DLQ);
    let moved = RecordBuilder::envelope("a").sqs_mark(&mark).queue(REQUEUE);
    let seen = Letter::parse_requeued(letter(&moved).sqs, TrustedOrigins::none());
    let cloud = TestAccount::new();
    bury_letters(&cloud, std::slice::from_ref(&seen), ArchiveReason::Exhausted, NOW, "r1").await;
    let (_, line) = cloud.objects().into_iter().next().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["deadLetterQueueArn"], DLQ);

    let of = |queue: &str| Selection {
        queue: Some(queue.into()),
        requeue: Some(REQUEUE.into()),
        ..Selection::default()
    };
    for queue in [DLQ, "payments-dlq", REQUEUE, "payments-requeue"] {
        assert_eq!(selected(&cloud, &of(queue)).await, [id(&moved)], "{queue}");
        the_index_agrees(&cloud, &of(queue)).await;
    }
    assert!(selected(&cloud, &of("other-dlq")).await.is_empty());
    the_index_agrees(&cloud, &of("other-dlq")).await;
    let matching = |queue: &str| Selection {
        pattern: Some(LetterPattern::parse(&json!({ "queueArn": [queue] }).to_string()).unwrap()),
        ..Selection::default()
    };
    assert_eq!(selected(&cloud, &matching(DLQ)).await, [id(&moved)]);
    assert!(selected(&cloud, &matching(REQUEUE)).await.is_empty(), "a rule would not match either");
}

/// Some letters of a FIFO group were moved to the requeue. All letters of the group still come in one order.
#[tokio::test]
async fn letters_of_a_queue_and_of_its_requeue_come_in_the_order_of_their_time() {
    let cloud = TestAccount::new();
    let mut expected = Vec::new();
    for number in 0..6 {
        let name = format!("m{number}");
        let post = RecordBuilder::raw(&name, "x").group("customer-1");
        let letter = if number % 2 == 0 {
            letter(&post.queue(FIFO_DLQ))
        } else {
            let mut mark = mark(0, &name, NOW);
            mark["dlq"] = json!(FIFO_DLQ);
            Letter::parse_requeued(letter(&post.sqs_mark(&mark).queue(REQUEUE)).sqs, TrustedOrigins::none())
        };
        expected.push(letter.sqs.message_id.clone());
        // They are archived milliseconds apart, with request ids that sort the other way.
        let request_id = format!("r{}", 9 - number);
        bury_letters(&cloud, &[letter], ArchiveReason::Exhausted, NOW + number, &request_id).await;
    }
    assert_eq!(selected(&cloud, &Selection::default()).await, expected);
}

#[tokio::test]
async fn a_queue_and_a_time_are_found_by_their_keys_and_nothing_else_is_opened() {
    let cloud = archived().await;
    let selection = Selection {
        queue: Some("payments-dlq".into()),
        from: Some(at(NOW - DAY - 3_600_000)),
        to: Some(at(NOW - DAY + 3_600_000)),
        ..Selection::default()
    };
    assert_eq!(selected(&cloud, &selection).await, ids("ag"));
    let prefix = "my-bucket/dead-letters/queue=payments-dlq/";
    assert_eq!(
        cloud.summary(),
        [
            format!("ListObjectsV2 {prefix}"),
            format!(
                "GetObject {prefix}date=2026-10-31/20261031T120000.000Z-r1.2-n2-r0.exhausted.3zhK6Xx3.2.T.none.2.jsonl"
            ),
        ]
    );
    assert_eq!(
        cloud.journal()[0].parameters["start-after"],
        "dead-letters/queue=payments-dlq/date=2026-10-31"
    );
}

#[tokio::test(start_paused = true)]
async fn many_pages_of_keys_and_queues_are_walked_to_their_end() {
    let cloud = TestAccount::new();
    let mut expected = Vec::new();
    for queue in 0..5 {
        for number in 0..7 {
            let name = format!("{queue}-{number}");
            let post = RecordBuilder::raw(&name, "x").queue(&format!("{DLQ}-{queue}"));
            expected.push(id(&post));
            bury(&cloud, &[post], ArchiveReason::Rule, NOW + number * 1000, &name).await;
        }
    }
    cloud.pages_of(2);
    cloud.forget();
    cloud.reply("GetObject", SimFault::Pass.after(Duration::from_millis(2)));
    assert_eq!(selected(&cloud, &Selection::default()).await, expected);
    assert_eq!(cloud.peak(), 32, "so many answers are under way");
}

#[tokio::test]
async fn an_object_that_shows_up_after_the_cut_off_is_no_part_of_it_whatever_it_says() {
    let cloud = archived().await;
    let (place, object) = cloud.objects().into_iter().find(|(key, _)| key.contains("r1")).unwrap();
    cloud.put_at(&place.replace("r1", "r9"), &object, "2026-11-01T12:00:05.000Z");
    let before = Selection { cut_off: Some(at(NOW + 5000)), ..Selection::default() };
    let after = Selection { cut_off: Some(at(NOW + 5001)), ..Selection::default() };
    assert_eq!(selected(&cloud, &before).await, ids("eagcd"));
    assert_eq!(selected(&cloud, &after).await.len(), 7);
}

#[tokio::test]
async fn what_cannot_be_read_is_told_in_its_place_and_hides_nothing() {
    let cloud = archived().await;
    let lines = cloud.objects().into_iter().find(|(key, _)| key.contains("r1")).unwrap().1;
    let good = lines.lines().next().unwrap();
    let foreign = good.replacen("\"version\":1", "\"version\":2", 1);
    let place = "my-bucket/dead-letters/queue=payments-dlq/date=2026-11-02";
    cloud.put(&format!("{place}/b.jsonl"), &format!("{foreign}\n\n{{\"S3CR3T\n{good}\nno end"));
    cloud.put(&format!("{place}/c.jsonl"), "");
    cloud.put(&format!("{place}/d.jsonl"), &lines);
    cloud.put(&format!("{place}/notes.txt"), "S3CR3T");
    cloud.script(move |call| {
        let denied = SimFault::refuse(403, "AccessDenied", "not allowed to s3:GetObject");
        if call.target.ends_with("d.jsonl") { denied } else { SimFault::Pass }
    });
    let (letters, unread) = walked(&cloud, &Selection::default()).await;
    assert_eq!(letters, ids("eagcda"));
    let key = "dead-letters/queue=payments-dlq/date=2026-11-02";
    assert_eq!(
        unread,
        [
            format!("{key}/b.jsonl:1 has version 2, but this software reads only version 1"),
            format!("{key}/b.jsonl:3 is not JSON (column 8)"),
            format!("{key}/b.jsonl:5 is not JSON (column 2)"),
            format!("{key}/d.jsonl AccessDenied: not allowed to s3:GetObject"),
        ]
    );
}

#[tokio::test]
async fn a_queue_that_cannot_be_listed_does_not_hide_the_next() {
    let cloud = archived().await;
    cloud.script(|call| {
        let denied = SimFault::refuse(403, "AccessDenied", "not allowed to s3:ListBucket");
        let listed = call.operation == "ListObjectsV2" && call.target.ends_with("payments-dlq/");
        if listed { denied } else { SimFault::Pass }
    });
    let (letters, unread) = walked(&cloud, &Selection::default()).await;
    assert_eq!(letters, ids("e"));
    assert_eq!(unread, ["dead-letters/queue=payments-dlq/ AccessDenied: not allowed to s3:ListBucket"]);

    cloud
        .reply("ListObjectsV2", SimFault::refuse(404, "NoSuchBucket", "The specified bucket does not exist"));
    let (letters, unread) = walked(&cloud, &Selection::default()).await;
    assert_eq!(letters, ids(""));
    assert_eq!(unread, ["dead-letters/queue= NoSuchBucket: The specified bucket does not exist"]);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_read_on_where_it_broke() {
    let cloud = archived().await;
    let (place, object) = cloud.objects().into_iter().find(|(key, _)| key.contains("Z-r1.")).unwrap();
    let first_line = object.find('\n').unwrap() + 1;
    for breaks in [[0, 0], [10, 10], [first_line, 10], [first_line + 10, first_line], [10, first_line + 10]] {
        let (times, place) = (AtomicUsize::new(0), place.clone());
        cloud.script(move |call| {
            let time = if call.target == place { times.fetch_add(1, Ordering::SeqCst) } else { 2 };
            breaks.get(time).map_or(SimFault::Pass, |bytes| SimFault::BreakOff(*bytes))
        });
        assert_eq!(selected(&cloud, &Selection::default()).await, ids("eagcd"), "{breaks:?}");
    }
    cloud.script(
        move |call| if call.target == place { SimFault::BreakOff(first_line) } else { SimFault::Pass },
    );
    let (letters, unread) = walked(&cloud, &Selection::default()).await;
    assert_eq!(letters, ids("eacd"));
    assert_eq!(unread.len(), 1);
    assert!(unread[0].contains("Z-r1.") && unread[0].ends_with(".jsonl BodyBrokenOff"), "{unread:?}");
}

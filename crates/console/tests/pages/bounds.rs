//! A page makes a bounded number of requests, however large the archive is.

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use redrive_core::policy::ArchiveReason::Exhausted;
use redrive_support::{NOW, TestAccount, at};

use super::{BUCKET, MINUTE, PREFIX, SampleOutcome, archive, end, page, rows, shown};

/// Puts objects of a hundred letters each into the archive, spread evenly over some hours. Their content does
/// not matter, only their keys.
fn fill(cloud: &TestAccount, objects: usize, hours: i64) {
    let between = SignedDuration::from_hours(hours) / i32::try_from(objects).unwrap();
    let hashes = ["3zhK6Xx3", "aB3dE6gh"];
    cloud.aws.act("test", |it, cx| {
        for object in 0..objects {
            let time = (at(NOW - hours * 60 * MINUTE) + between * i32::try_from(object).unwrap())
                .to_zoned(TimeZone::UTC);
            let (date, time) = (time.strftime("%Y-%m-%d"), time.strftime("%Y%m%dT%H%M%S%.3fZ"));
            let groups = format!("exhausted.{}.60.refused.none.40", hashes[object % 2]);
            let key = format!(
                "{PREFIX}/queue=payments-dlq/date={date}/{time}-{object:06}.2-n100-r0.{groups}.jsonl"
            );
            it.s3.place((BUCKET, &key), b"", cx.now);
        }
    });
}

/// Ten million letters in a hundred thousand objects. Time passes only in requests, a tenth of a second each.
#[tokio::test(start_paused = true)]
async fn ten_million_letters_are_counted_in_time() {
    for hours in [3, 24 * 13] {
        let cloud = TestAccount::new();
        fill(&cloud, 100_000, hours);
        cloud.script(|_| redrive_support::SimFault::Pass.after(std::time::Duration::from_millis(100)));
        let (answer, parsed, text) = page(&shown(&cloud), "groups?by=reason&range=14d").await;
        let found = rows(&parsed, "Letters by reason");
        assert_eq!(found[0][..2], ["exhausted".to_owned(), "6,000,000".to_owned()], "{text}");
        assert_eq!(found[1][..2], ["refused".to_owned(), "4,000,000".to_owned()]);
        assert_eq!(answer.unread, Vec::<String>::new());
        assert!(answer.took < std::time::Duration::from_secs(2), "{:?}", answer.took);
        assert!(answer.requests <= answer.limit, "{} of {}", answer.requests, answer.limit);
        let lists = cloud.journal().iter().filter(|call| call.operation == "ListObjectsV2").count();
        assert!(lists <= 200, "{lists}");
        assert!(cloud.peak() <= 64, "{}", cloud.peak());
    }
}

#[tokio::test(start_paused = true)]
async fn every_key_is_counted_once_by_many_listings_at_once() {
    for (objects, hours, range) in [(999, 3, "3h"), (1_001, 3, "3h"), (7_777, 30, "3d"), (20_000, 3, "3h")] {
        let cloud = TestAccount::new();
        fill(&cloud, objects, hours);
        let (answer, parsed, text) = page(&shown(&cloud), &format!("groups?by=reason&range={range}")).await;
        let found = rows(&parsed, "Letters by reason");
        let number = |letters: usize| redrive_console::text::thousands(letters as u64);
        assert_eq!(found[0][..2], ["exhausted".to_owned(), number(objects * 60)], "{text}");
        assert_eq!(found[1][..2], ["refused".to_owned(), number(objects * 40)]);
        assert!(!text.contains("or more archived"), "{text}");
        // The listing may need twice as many pages as the keys fill, besides a few.
        let lists = cloud.journal().iter().filter(|call| call.operation == "ListObjectsV2").count();
        assert!(lists <= objects / 1_000 * 2 + 8, "{objects}: {lists}");
        assert!(answer.requests <= answer.limit, "{} of {}", answer.requests, answer.limit);
    }
}

#[tokio::test(start_paused = true)]
async fn more_pages_than_may_be_asked_for_are_said_to_be_more() {
    let cloud = TestAccount::new();
    cloud.pages_of(10);
    fill(&cloud, 5_000, 3);
    let (answer, _, text) = page(&shown(&cloud), "groups?by=reason").await;
    assert!(
        text.contains("There are more archived letters in this time than the page could count."),
        "{text}"
    );
    assert!(text.contains("or more archived in this time"), "{text}");
    assert!(answer.requests <= answer.limit);
}

/// An archive of large letters: the page names what it did not read.
#[tokio::test(start_paused = true)]
async fn objects_that_are_too_large_together_are_said_to_be_left_out() {
    let cloud = TestAccount::new();
    archive(&cloud, 30, &[SampleOutcome { error: Some("503"), ..end("small", Exhausted) }]).await;
    let left_out = "2 objects of the archive: a page reads 12 MiB at most";
    for (name, megabytes) in [("fits", 10), ("too-large", 13), ("before-it", 4)] {
        let time = at(NOW - 10 * MINUTE).to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
        let key = format!(
            "{PREFIX}/queue=payments-dlq/date=2026-11-01/{time}-{name}.2-n1-r0.exhausted.3zhK6Xx3.1.jsonl"
        );
        cloud.aws.act("test", |it, cx| {
            it.s3.place(
                (BUCKET, &key),
                &format!("{:1023}\n", "").repeat(megabytes << 10).into_bytes(),
                cx.now,
            );
        });
    }
    let (answer, _, text) = page(&shown(&cloud), "groups?by=error").await;
    assert_eq!(answer.unread, [left_out], "{text}");
    assert!(text.contains("503"), "the smaller one behind them is read: {text}");
    let asked: Vec<_> = cloud.calls("GetObject").into_iter().map(|call| call.target).collect();
    assert!(asked.iter().all(|key| !key.contains("too-large")), "{asked:?}");
    // An object that was left out may hold the first letter, so the page warns. It found the second letter,
    // so it does not.
    let (answer, _, text) = page(&shown(&cloud), "letter?id=elsewhere").await;
    assert_eq!(answer.unread, [left_out], "{text}");
    let (answer, _, text) = page(&shown(&cloud), "letter?id=small").await;
    assert_eq!(answer.unread, Vec::<String>::new(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_ends_the_page_after_two_seconds() {
    let cloud = TestAccount::new();
    fill(&cloud, 10, 3);
    cloud.reply("ListObjectsV2", redrive_support::SimFault::Pass.after(std::time::Duration::from_mins(1)));
    let began = tokio::time::Instant::now();
    let (answer, _, text) = page(&shown(&cloud), "groups?by=error").await;
    let took = began.elapsed();
    assert!(took <= std::time::Duration::from_millis(2_100), "{took:?}");
    assert!(text.contains("the listing of the archive: not read in time"), "{text}");
    let list = "a part of the list of waiting letters: not read in time";
    assert_eq!(answer.unread, ["the listing of the archive: not read in time", list]);
}

/// A page of the listing may end at a key without a time. The next part must not count the keys of that day
/// again.
#[tokio::test(start_paused = true)]
async fn a_page_that_ends_at_a_key_of_somebody_else_counts_no_key_again() {
    let cloud = TestAccount::new();
    cloud.pages_of(10);
    cloud.aws.act("test", |it, cx| {
        let mut place =
            |key: String| it.s3.place((BUCKET, &format!("{PREFIX}/queue=payments-dlq/{key}")), b"", cx.now);
        for number in 0..9 {
            let time =
                format!("20261030T{:02}0000.000Z-{number}.2-n100-r0.exhausted.3zhK6Xx3.100", number + 10);
            place(format!("date=2026-10-30/{time}.jsonl"));
        }
        place("date=2026-10-30/zzz.jsonl".to_owned());
        for number in 0..10 {
            let time =
                format!("20261031T{:02}0000.000Z-{number}.2-n100-r0.exhausted.3zhK6Xx3.100", number + 10);
            place(format!("date=2026-10-31/{time}.jsonl"));
        }
    });
    let (_, parsed, text) = page(&shown(&cloud), "groups?by=reason&range=3d").await;
    assert_eq!(rows(&parsed, "Letters by reason")[0][..2], ["exhausted", "1,900"], "{text}");
}

/// Strangers can write letters with ever more topics.
#[tokio::test(start_paused = true)]
async fn topics_beyond_a_number_are_counted_together() {
    let cloud = TestAccount::new();
    cloud.aws.act("test", |it, cx| {
        for number in 0..2_100 {
            let key =
                format!("20261101T11{:02}00.000Z-{number}.2-n2-r0.exhausted.{number:08}.2", number % 60);
            let key = format!("{PREFIX}/queue=payments-dlq/date=2026-11-01/{key}.jsonl");
            it.s3.place((BUCKET, &key), b"", cx.now);
        }
    });
    let (_, parsed, text) = page(&shown(&cloud), "groups?by=topic").await;
    assert!(text.contains("4,200 archived in this time"), "{text}");
    let found = rows(&parsed, "Letters by topic");
    assert_eq!(found[0][..2], ["(topics beyond the 2,000 that the page tells apart)", "200"], "{text}");
    let (_, parsed, _) = page(&shown(&cloud), "groups?by=reason").await;
    assert_eq!(rows(&parsed, "Letters by reason")[0][..2], ["exhausted", "4,200"]);
}

/// One page of a listing holds at most a thousand folders of queues, in this test ten.
#[tokio::test(start_paused = true)]
async fn letters_of_queues_beyond_the_first_page_of_folders_are_counted() {
    let cloud = TestAccount::new();
    cloud.pages_of(10);
    cloud.aws.act("test", |it, cx| {
        for number in 0..25 {
            let key = format!("20261101T110000.000Z-{number}.2-n2-r0.exhausted.3zhK6Xx3.2");
            let key = format!("{PREFIX}/queue=dlq-{number}/date=2026-11-01/{key}.jsonl");
            it.s3.place((BUCKET, &key), b"", cx.now);
        }
    });
    let (_, parsed, text) = page(&shown(&cloud), "groups?by=queue").await;
    assert!(text.contains("50 archived in this time"), "{text}");
    assert_eq!(rows(&parsed, "Letters by queue").len(), 25);
}

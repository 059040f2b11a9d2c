//! The waiting letters.

use std::time::Duration;

use redrive_console::GroupField;
use redrive_support::{BILLING, NOW, SimFault, TestAccount, WORKER, at};
use serde_json::json;

use super::{MINUTE, group, line, list, page, rows, shown};

fn outage() -> TestAccount {
    let cloud = TestAccount::new();
    let due = |minutes: i64| json!({ "due": at(NOW + minutes * MINUTE) });
    let lines = [
        line("a", &due(30)),
        line("b", &due(60)),
        line("c", &json!({ "target": BILLING, "error": "NonExistentQueue" })),
        line("came-back", &due(-1)),
    ];
    list(&cloud, 30, &lines);
    // The function received the letter again and hid it until later.
    list(&cloud, 10, &[line("a", &due(300))]);
    cloud
}

#[tokio::test(start_paused = true)]
async fn letters_are_counted_by_field_and_by_when_they_are_due() {
    let cloud = outage();
    let (answer, parsed, text) = page(&shown(&cloud), "waiting").await;
    assert!(text.contains("at most 3 letters wait, by the list"), "{text}");
    let expected = [
        vec!["payments-worker SQS queue", "2", "in 60 min", "in 5 h"],
        vec!["payments-billing SQS queue", "1", "in 60 min", "in 60 min"],
    ];
    assert_eq!(rows(&parsed, "Letters that wait, by target"), expected);
    assert!(
        text.contains("A letter stays on the list of waiting letters until it would have been due"),
        "{text}"
    );
    // Each is for every letter of the account, and says so.
    for all in ["Retry all now", "Hold all", "Give up all"] {
        assert!(text.contains(all), "{text}");
    }
    // 41,400 s in 24 parts are 1,725 s each.
    let due = rows(&parsed, "Letters due in each 28.8 min");
    assert_eq!(due, [["2026-11-01 12:57:30", "2"], ["2026-11-01 16:47:30", "1"]]);
    assert!(cloud.journal().iter().all(|call| call.operation != "ReceiveMessage"));
    assert_eq!(answer.requests as usize, cloud.journal().len());
    let (_, parsed, text) = page(&shown(&cloud), "waiting?by=error&target=".to_owned().as_str()).await;
    assert!(text.contains("at most 0 letters wait"), "{text}");
    assert!(rows(&parsed, "Letters that wait").is_empty());
}

#[tokio::test(start_paused = true)]
async fn letters_that_the_function_has_claimed_are_counted_apart() {
    let cloud = outage();
    let hidden = |id: &str| line(id, &json!({ "recovers": true, "hidden": at(NOW - 20 * MINUTE) }));
    list(&cloud, 20, &[hidden("d"), hidden("e")]);
    let endpoint = json!({ "queue": "payments-dlq", "target": WORKER, "recoveredAt": at(NOW - 5 * MINUTE),
        "place": "hour=2026-11-01T11/20261101T115500.000Z", "isDone": true });
    let document = json!({ "version": 1, "endpoints": [endpoint] });
    cloud.put("my-bucket/dead-letters-control/recoveries.json", &document.to_string());
    let (_, parsed, text) = page(&shown(&cloud), "waiting").await;
    assert!(text.contains("at most 3 letters wait, by the list"), "{text}");
    assert!(text.contains("Not counted: 2 letters whose endpoint is back."), "{text}");
    assert_eq!(rows(&parsed, "Letters that wait, by target")[0][1], "2");
    let (_, _, text) = page(&shown(&cloud), &group(&[(GroupField::Target, WORKER)])).await;
    assert!(!text.contains("5 waiting letters") && !text.contains("4 waiting letters"), "{text}");
}

/// Of a target, objects without its letters are not read.
#[tokio::test(start_paused = true)]
async fn of_a_target_only_its_objects_are_read() {
    let cloud = outage();
    list(&cloud, 25, &[line("other", &json!({ "target": BILLING }))]);
    cloud.forget();
    let (_, _, text) = page(&shown(&cloud), &format!("waiting?by=error&target={WORKER}")).await;
    assert!(text.contains("at most 2 letters wait"), "{text}");
    let read = cloud.calls("GetObject");
    assert_eq!(read.iter().filter(|call| call.target.contains("/waiting/")).count(), 2, "{read:?}");
}

#[tokio::test(start_paused = true)]
async fn what_holds_letters_is_said() {
    let cloud = TestAccount::new();
    let held = json!({ "heldBy": "override o1" });
    list(&cloud, 30, &[line("a", &held), line("b", &held), line("c", &json!({}))]);
    let (_, parsed, text) = page(&shown(&cloud), "waiting").await;
    assert!(text.contains("Held, at most: 2 by override o1."), "{text}");
    let next = rows(&parsed, "The next of them");
    assert_eq!(next.iter().filter(|row| row[2] == "held by override o1").count(), 2, "{next:?}");
}

/// The path of a webhook is a secret, even on a list that somebody else wrote.
#[tokio::test(start_paused = true)]
async fn of_a_url_only_scheme_host_and_a_digest_are_shown() {
    let cloud = TestAccount::new();
    list(&cloud, 30, &[line("a", &json!({ "target": "https://user:S3CR3T@example.com/S3CR3T?S3CR3T" }))]);
    let account = shown(&cloud);
    let (_, parsed, _) = page(&account, "waiting").await;
    let found = rows(&parsed, "Letters that wait, by target");
    let (host, digest) = found[0][0].split_once(" HTTPS endpoint #").unwrap();
    assert_eq!((host, digest.len()), ("example.com", 12));
    let name = &format!("https://{host}#{digest}");
    // The page's link to these letters finds them.
    for address in [group(&[(GroupField::Target, name)]), "groups?by=target".to_owned()] {
        let (answer, _, text) = page(&account, &address).await;
        assert!(answer.html.contains(name) && text.contains(digest) && text.contains('1'), "{text}");
        assert!(!answer.html.contains("S3CR3T"), "{}", answer.html);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_cut_at_its_newest_end() {
    let cloud = TestAccount::new();
    for minute in 0..150 {
        let id = format!("m{minute}");
        list(&cloud, minute, &[line(&id, &json!({ "error": if minute < 96 { "new" } else { "old" } }))]);
    }
    let (answer, parsed, text) = page(&shown(&cloud), "waiting?by=error").await;
    assert!(text.contains("96 listed, of a list that was read in part: that of letters hidden"), "{text}");
    assert!(!text.contains("letters, at most"), "{text}");
    assert!(
        text.contains("older entries of the list of waiting letters: it is longer than a page can read"),
        "{text}"
    );
    assert_eq!(rows(&parsed, "Letters that wait, by error")[0][..2], ["new".to_owned(), "96".to_owned()]);
    assert!(answer.requests <= answer.limit);
    // No other page takes a part of a list for a bound.
    for (address, says) in [
        ("groups?by=error".to_owned(), "waiting: 96 listed, of a list that was read in part."),
        (group(&[(GroupField::Error, "new")]), "and 96 waiting letters that were listed."),
    ] {
        let (_, _, text) = page(&shown(&cloud), &address).await;
        assert!(text.contains(says) && text.contains(", listed"), "{text}");
        assert!(!text.contains("most 96") && !text.contains("≤ 96") && !text.contains(", at most"), "{text}");
    }
}

/// The names of 24,000 objects fill 24 pages of a listing, a tenth of a second each: more than a page of the
/// console may take.
#[tokio::test(start_paused = true)]
async fn the_newest_letters_of_a_list_that_takes_long_to_list_are_shown() {
    for (apart, burst) in [(150, 0), (0, 20_000)] {
        let cloud = TestAccount::new();
        let queue = redrive_support::DLQ.parse().unwrap();
        cloud.aws.act("test", |it, cx| {
            for number in 0..24_000 {
                // In a burst, all objects were written at one moment, half an hour ago.
                let ago = if number < burst { 30 * MINUTE } else { (24_000 - number) * apart.max(10) };
                let written = at(NOW - ago);
                let key = redrive_core::waiting::WaitingKey::default().key(
                    super::CONTROL,
                    &queue,
                    written,
                    &format!("r{number}"),
                );
                let one = line(
                    &number.to_string(),
                    &json!({ "error": if ago < 3 * MINUTE { "new" } else { "old" } }),
                );
                it.s3.place((super::BUCKET, &key), format!("{one}\n").as_bytes(), cx.now);
            }
        });
        cloud.script(|_| SimFault::Pass.after(Duration::from_millis(100)));
        let (answer, parsed, text) = page(&shown(&cloud), "waiting?by=error").await;
        assert_eq!(rows(&parsed, "Letters that wait, by error")[0][..2], ["new", "96"], "{apart}: {text}");
        assert!(text.contains("96 listed, of a list that was read in part"), "{text}");
        assert!(answer.requests <= answer.limit, "{}", answer.requests);
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_of_a_list_is_said_and_is_no_length() {
    let cloud = outage();
    cloud.script(|call| {
        let is_one = call.operation == "GetObject" && call.target.contains("T1150");
        if is_one { SimFault::refuse(403, "AccessDenied", "no") } else { SimFault::Pass }
    });
    let (answer, _, text) = page(&shown(&cloud), "waiting").await;
    assert_eq!(
        answer.unread,
        ["1 of the objects and lines of the list of waiting letters (s3:GetObject: AccessDenied)"],
        "{text}"
    );
    assert!(!text.contains("longer than"), "{text}");
}

//! `archive list` and `archive show`: the letters in an archive.

mod diff;
mod walk;

use std::time::Duration;

use redrive_archive::{Archive, ArchiveInvocation, LetterPattern};
use redrive_core::batch::ArchiveContext;
use redrive_core::endpoint::TargetName;
use redrive_core::letter::Letter;
use redrive_core::policy::ArchiveReason;
use redrive_support::{
    DLQ, FIFO_DLQ, NOW, RecordBuilder, SUBSCRIPTION, TOPIC, TestAccount, WORKER, arn, at, letter, letters,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{CommandRun, CommandWorld, redrivectl, redrivectl_in};

const PLACE: &str = "s3://my-bucket/dead-letters";
const DAY: i64 = 86_400_000;
const NAME_OF_URL: &str = "https://example.com#e1e3b078a944";

/// Archives letters of one queue as the function does, in one invocation at that time.
pub(crate) async fn bury(
    cloud: &TestAccount,
    posts: &[RecordBuilder],
    reason: ArchiveReason,
    millis: i64,
    request_id: &str,
) {
    bury_letters(cloud, &letters(posts), reason, millis, request_id).await;
}

pub(crate) async fn bury_letters(
    cloud: &TestAccount,
    letters: &[Letter],
    reason: ArchiveReason,
    millis: i64,
    request_id: &str,
) {
    // One invocation has letters of a web server.
    let target = (request_id == "r2").then(|| TargetName::read(NAME_OF_URL));
    let context = ArchiveContext {
        reason,
        detail: Some("in words".to_owned()),
        rule: "default".to_owned(),
        target,
        retry: None,
        failure: None,
        override_id: None,
    };
    bury_as(cloud, letters, &context, millis, request_id).await;
}

pub(crate) async fn bury_as(
    cloud: &TestAccount,
    letters: &[Letter],
    context: &ArchiveContext,
    millis: i64,
    request_id: &str,
) {
    let to_archive: Vec<_> = letters.iter().map(|letter| (letter, context)).collect();
    let until = Instant::now() + Duration::from_secs(10);
    let batch = ArchiveInvocation { request_id, now: at(millis), until };
    let archive = Archive::S3 {
        s3: cloud.clients().s3,
        bucket: "my-bucket".to_owned(),
        prefix: "dead-letters".to_owned(),
    };
    assert_eq!(archive.store(&to_archive, batch, None).await, vec![Ok(()); letters.len()]);
}

/// Four invocations: two days, two queues, three reasons.
async fn archived() -> TestAccount {
    let cloud = TestAccount::new();
    let gold =
        RecordBuilder::envelope("gold").sns_attribute("tenant", "String", "gold").message("S3CR3T text");
    bury(&cloud, &[RecordBuilder::envelope("a"), gold], ArchiveReason::Exhausted, NOW - DAY, "r1").await;
    bury(&cloud, &[RecordBuilder::envelope("c")], ArchiveReason::Exhausted, NOW, "r2").await;
    bury(&cloud, &[RecordBuilder::raw("d", "S3CR3T body")], ArchiveReason::Unrecognised, NOW + 1, "r3").await;
    bury(&cloud, &[RecordBuilder::raw("e", "plain").queue(FIFO_DLQ)], ArchiveReason::Rule, NOW, "r4").await;
    cloud.forget();
    cloud
}

async fn archive(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    let world = CommandWorld::on(cloud);
    redrivectl_in(world, &[&["archive"], args, &["--archive", PLACE]].concat()).await
}

fn id(post: &RecordBuilder) -> String {
    letter(post).sqs.message_id
}

/// The message ids of [`archived`], in the order of a walk.
fn ids(names: &str) -> Vec<String> {
    let of = |name| match name {
        'a' => id(&RecordBuilder::envelope("a")),
        'g' => id(&RecordBuilder::envelope("gold")),
        'c' => id(&RecordBuilder::envelope("c")),
        'd' => id(&RecordBuilder::raw("d", "")),
        _ => id(&RecordBuilder::raw("e", "")),
    };
    names.chars().map(of).collect()
}

#[test]
fn a_pattern_is_refused_for_what_a_policy_would_refuse() {
    for (pattern, problem) in [
        ("{", "is not JSON"),
        ("{}", "must be an object with at least one field"),
        (r#"{"topic": ["a"]}"#, "has no field \"topic\""),
        (r#"{"origin": []}"#, "origin: holds an empty list"),
        (
            r#"{"topicArn": ["payments"]}"#,
            "topicArn: is the ARN of a topic, so \"payments\" can match nothing",
        ),
        (r#"{"message": {"id": [12345678901234567890123]}}"#, "holds a number that would be rounded"),
        (r#"{"origin": ["sns"], "origin": ["raw"]}"#, "origin: is there twice"),
        (
            r#"{"topicArn": [{"prefix": "arn:aws:sns:*:payments"}]}"#,
            "topicArn: is the ARN of a topic, so prefix",
        ),
        (r#"{"topicArn": [{"suffix": "*payments"}]}"#, "topicArn: is the ARN of a topic, so suffix"),
    ] {
        let problems = LetterPattern::parse(pattern).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with(problem), "{problems:?}");
        let problems = LetterPattern::parse(&format!("\u{feff}{pattern}")).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with(problem), "{problems:?}");
    }
    assert!(LetterPattern::parse("\u{feff}{\"origin\": [\"sns\"]}").is_ok());
}

#[tokio::test]
async fn a_list_counts_by_topic_reason_and_day() {
    let cloud = archived().await;
    // The function crashed after it had archived these letters, and archived them again.
    bury(
        &cloud,
        &[RecordBuilder::envelope("a"), RecordBuilder::envelope("f")],
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
            vec![
                "topic",
                "reason",
                "day (UTC)",
                "letters",
                "not replayed",
                "first (UTC)",
                "last (UTC)",
                "example"
            ],
            vec!["payments", "exhausted", "2026-10-31", "3", "3", day_before, "2026-10-31 12:01:00", &a],
            vec!["(none)", "rule", "2026-11-01", "1", "1", noon, noon, &e],
            vec!["(none)", "unrecognised", "2026-11-01", "1", "1", noon, noon, &d],
            vec!["payments", "exhausted", "2026-11-01", "1", "1", noon, noon, &ids("c")[0]],
            vec![],
            vec!["6 letters, 6 not replayed; 1 record more, stored twice after a crash."],
        ]
    );
    let list =
        archive(&cloud, &["list", "--json", "--reason", "rule", "--reason", "unrecognised"]).await.json();
    let group = |reason: &str, at: &str, id: &str| {
        json!({ "topicArn": null, "reason": reason, "day": "2026-11-01", "letters": 1, "notReplayed": 1, "first": at, "last": at,
                "example": id })
    };
    let groups =
        [group("rule", "2026-11-01T12:00:00Z", &e), group("unrecognised", "2026-11-01T12:00:00.001Z", &d)];
    assert_eq!(
        list,
        json!({ "groups": groups, "letters": 2, "notReplayed": 2, "doubles": 0,
                            "erased": 0, "unread": 0 })
    );
}

/// Each field that letters can be counted by, and several in an order.
#[tokio::test]
async fn letters_are_counted_by_any_fields() {
    let cloud = archived().await;
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
    assert!(
        text.starts_with("error         hour (UTC)        reason        letters  not replayed  first (UTC)"),
        "{text}"
    );
}

#[tokio::test]
async fn every_filter_reaches_the_selection() {
    let cloud = archived().await;
    let (place, object) = cloud.objects().into_iter().find(|(key, _)| key.contains("Z-r2.")).unwrap();
    let mut record: Value = serde_json::from_str(&object).unwrap();
    record["error"] = json!({ "code": "500", "class": "transient" });
    record["targetUrl"] = json!("https://example.com/S3CR3T");
    cloud.put(&place, &format!("{record}\n"));
    for (args, letters) in [
        (&["--since", "2026-11-01"][..], 3),
        (&["--since", "1h"], 3),
        (&["--until", "2026-11-01T12:00:00Z"], 2),
        (&["--until", "12h"], 2),
        (&["--reason", "exhausted"], 3),
        (&["--topic", "payments"], 3),
        (&["--origin", "raw"], 2),
        (&["--queue", "payments-dlq.fifo"], 1),
        (&["--match", r#"{"messageAttributes": {"tenant": ["gold"]}}"#], 1),
        (&["--error", "500"], 1),
        (&["--error", "500", "--error", "AccessDenied"], 1),
        (&["--error", "AccessDenied"], 0),
        (&["--target", "https://example.com/S3CR3T"], 1),
        (&["--target", NAME_OF_URL], 1),
        (&["--target", "https://example.com/S3CR3T?token=x"], 0),
        (&["--target", WORKER], 0),
        (&["--target", "#0123456789ab"], 0),
    ] {
        let list = archive(&cloud, &[&["list", "--json"], args].concat()).await.json();
        assert_eq!(list["letters"], letters, "{args:?}");
    }
    for args in [
        &["--reason", "bad-luck"][..],
        &["--origin", "moon"],
        &["--since", "soon"],
        &["--match", "{}"],
        &["--since", "1h", "--until", "2h"],
        // No letter would be found by it, as if there were none.
        &["--target", "payments-worker"],
    ] {
        let ran = archive(&cloud, &[&["list"], args].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
    }
}

/// The path of a webhook is a secret, even in a record that somebody else wrote.
#[tokio::test]
async fn of_a_url_only_scheme_host_and_a_digest_are_shown() {
    let cloud = archived().await;
    let (place, object) = cloud.objects().into_iter().find(|(key, _)| key.contains("Z-r2.")).unwrap();
    let mut record: Value = serde_json::from_str(&object).unwrap();
    record["targetUrl"] = json!("https://example.com/S3CR3T");
    cloud.put(&place, &format!("{record}\n"));
    let id = record["letterId"].as_str().unwrap();
    for args in
        [&["list", "--by", "target", "--wide"][..], &["list", "--json", "--by", "target"], &["show", id]]
    {
        let ran = archive(&cloud, args).await;
        assert!(ran.out.contains(NAME_OF_URL), "{args:?}: {}", ran.out);
        assert!(!ran.out.contains("S3CR3T"), "{args:?}: {}", ran.out);
    }
}

#[tokio::test]
async fn what_could_not_be_read_is_said_counted_and_in_the_exit_code() {
    let cloud = archived().await;
    let key = "dead-letters/queue=payments-dlq/date=2026-11-02/b.jsonl";
    cloud.put(&format!("my-bucket/{key}"), "{\"version\": 2}\nS3CR3T\n");
    let ran = archive(&cloud, &["list"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.ends_with("\n5 letters, 5 not replayed; 2 could not be read.\n"), "{}", ran.out);
    assert_eq!(
        ran.err,
        format!(
            "redrivectl: {key}:1: has version 2, but this software reads only version 1\n\
             redrivectl: {key}:2: is not JSON (column 1)\n"
        )
    );
    let ran = archive(&cloud, &["list", "--json"]).await;
    let list: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &list["unread"], &list["letters"]), (1, &json!(2), &json!(5)));
    // The letter may be among the records that could not be read, so "not found" would be wrong.
    let ran = archive(&cloud, &["show", "another"]).await;
    let said = "redrivectl: no letter matches in the part of this archive that could be read\n";
    assert!(ran.code == 1 && ran.err.ends_with(said), "{ran:?}");
}

#[tokio::test]
async fn an_empty_archive_is_no_failure() {
    let text = archive(&TestAccount::new(), &["list"]).await.text();
    assert_eq!(text, "0 letters.\n");
}

#[tokio::test]
async fn a_letter_is_shown_by_either_id_without_what_it_says() {
    let cloud = archived().await;
    let gold = letter(&RecordBuilder::envelope("gold"));
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
    let cloud = TestAccount::new();
    let post = RecordBuilder::raw("m", "x\n\u{1b}[2J").attribute("token", "String", "S3CR3T");
    bury(&cloud, &[post], ArchiveReason::Rule, NOW, "r1").await;
    let text = archive(&cloud, &["show"]).await.text();
    assert!(text.contains("  attribute  token (String)\n") && !text.contains("S3CR3T"), "{text}");
    let text = archive(&cloud, &["show", "--body"]).await.text();
    assert!(text.contains("  attribute  token (String: S3CR3T)\n"), "{text}");
    assert!(text.ends_with("\nx\n\u{fffd}[2J\n"), "{text:?}");
}

#[tokio::test]
async fn shown_as_json_a_letter_is_its_whole_record_and_a_digest() {
    let cloud = archived().await;
    let text = archive(&cloud, &["show", "--json", "--queue", "payments-dlq"]).await.text();
    let mut shown: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let objects = cloud.objects();
    for record in &mut shown {
        assert_eq!(record["digest"].as_str().unwrap().len(), 43);
        let fields = record.as_object_mut().unwrap();
        fields.remove("digest");
        let (key, line) = (fields.remove("key").unwrap(), fields.remove("line").unwrap().as_u64().unwrap());
        let object = &objects[&format!("my-bucket/{}", key.as_str().unwrap())];
        let there = object.lines().nth(usize::try_from(line).unwrap() - 1).unwrap();
        assert_eq!(serde_json::from_str::<Value>(there).unwrap(), *record);
    }
    let stored = objects.iter().filter(|(key, _)| key.contains("queue=payments-dlq/"));
    let stored = stored.flat_map(|(_, object)| object.lines());
    let stored: Vec<Value> = stored.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(shown, stored);
}

#[tokio::test]
async fn a_letter_that_is_not_there_is_a_failure() {
    let ran = archive(&archived().await, &["show", "nobody"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err, "redrivectl: no letter in this archive matches\n");
}

#[tokio::test]
async fn the_archive_must_be_named_and_be_in_s3() {
    let ran = redrivectl(&["archive", "list"]).await;
    assert_eq!(ran.code, 2);
    assert_eq!(
        ran.err,
        "redrivectl: which stack? Give --stack NAME (or REDRIVE_STACK), or --archive (or ARCHIVE)\n"
    );
    let queue = arn(DLQ);
    let ran = redrivectl(&["archive", "list", "--archive", queue.as_str()]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("the archive is a queue, which this command cannot read"), "{}", ran.err);
}

#[tokio::test]
async fn the_line_of_progress_is_gone_before_a_letter_is_shown() {
    let cloud = TestAccount::new();
    for call in 0..3 {
        let posts: Vec<_> =
            (0..500).map(|number| RecordBuilder::raw(&format!("{call}-{number}"), "x")).collect();
        bury(&cloud, &posts, ArchiveReason::Rule, NOW + call, &format!("r{call}")).await;
    }
    let world = CommandWorld { progress: true, one_screen: true, ..CommandWorld::on(&cloud) };
    let screen = redrivectl_in(world, &["archive", "show", "--archive", PLACE]).await.text();
    assert_eq!(screen.matches("\r\x1b[K500 records read\r\x1b[K\nLetter ").count(), 1, "{screen:.2000}");
    let lines = screen.matches("records read").count();
    assert_eq!((lines, screen.matches("records read\r\x1b[K").count()), (3, 3));
}

/// The operator's terminal shows the record as JSON, and a stranger wrote its message.
#[tokio::test]
async fn a_letter_that_is_shown_as_json_moves_no_cursor_and_keeps_its_values() {
    let cloud = TestAccount::new();
    let message = "\u{202e}lla eteled\u{2069} \u{9b}2J\u{7f}\u{200b}\u{e0041}";
    bury(&cloud, &[RecordBuilder::raw("evil", message)], ArchiveReason::Unrecognised, NOW, "r1").await;
    let args = ["archive", "show", "--archive", PLACE, "--json"];
    let ran = redrivectl_in(CommandWorld::on(&cloud), &args).await;
    assert!(!ran.out.trim_end().chars().any(redrive_core::shell::is_obeyed), "{:?}", ran.out);
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(shown["message"]["body"].as_str(), Some(message), "{}", ran.out);
}

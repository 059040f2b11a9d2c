//! `erase`: letters are erased from every version, and nothing else is.

mod control;
mod many;
mod queued;
mod replayed;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_archive::{ArchiveRecord, FIRST_STORED, LetterIdentity};
use redrive_core::policy::ArchiveReason;
use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{CALLER, DLQ, NOW, RecordBuilder, SimFault, SimVersion, TOPIC, TestAccount, letter};
use serde_json::{Value, json};

use super::archive::bury;
use super::{CommandRun, CommandWorld, redrivectl_in};

pub(super) const PLACE: [&str; 2] = ["--archive", "s3://my-bucket/dead-letters"];
pub(super) const GOLD: &str = r#"{"messageAttributes": {"tenant": ["gold"]}}"#;
pub(super) const SECRET: &str = "S3CR3T text";
const DAY: i64 = 86_400_000;

/// The letter of a person, which has content that is found nowhere else.
pub(super) fn gold() -> RecordBuilder {
    RecordBuilder::envelope("gold").sns_attribute("tenant", "String", "gold").message(SECRET)
}

/// An account whose bucket keeps versions, with one object of three letters and one of another day.
pub(super) async fn archived() -> TestAccount {
    let cloud = TestAccount::new();
    cloud.aws.act("test", |it, _| it.s3.keep_versions("my-bucket"));
    let others = [RecordBuilder::envelope("a"), gold(), RecordBuilder::envelope("b")];
    bury(&cloud, &others, ArchiveReason::Exhausted, NOW - DAY, "r1").await;
    bury(&cloud, &[RecordBuilder::envelope("c")], ArchiveReason::Exhausted, NOW, "r3").await;
    cloud.forget();
    cloud
}

pub(super) async fn erase_in(world: CommandWorld, args: &[&str]) -> CommandRun {
    redrivectl_in(world, &[&["erase", "--why", "ticket 812"], args, &PLACE].concat()).await
}

pub(super) async fn erase(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    erase_in(CommandWorld::on(cloud), args).await
}

/// Erases only from the archive, without a question.
async fn erase_archived(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    erase(cloud, &[args, &["--archive-only", "--yes"]].concat()).await
}

/// Returns the keys of the versions, current and old, that contain a text.
pub(super) fn versions_with(cloud: &TestAccount, text: &str) -> Vec<String> {
    cloud.aws.act("test", |it, _| {
        let versions = it.s3.all_versions("my-bucket").into_iter();
        let all =
            versions.flat_map(|(key, versions)| versions.into_iter().map(move |it| (key.to_owned(), it)));
        let has = all.filter(|(_, version)| match version {
            SimVersion::Object(object) => std::str::from_utf8(&object.bytes).unwrap().contains(text),
            SimVersion::Marker(..) => false,
        });
        has.map(|(key, version)| format!("{key} {}", version.id())).collect()
    })
}

fn key(cloud: &TestAccount, request: &str) -> String {
    cloud.objects().into_keys().find(|key| key.contains(&format!("Z-{request}."))).unwrap()
}

#[tokio::test]
async fn a_letter_is_erased_from_every_version_and_the_others_stay_byte_for_byte() {
    let cloud = archived().await;
    let key = key(&cloud, "r1");
    let before = cloud.objects()[&key].clone();
    // Somebody has changed an object by hand, and deleted another.
    cloud.put(&key, &before);
    let deleted = "my-bucket/dead-letters/queue=payments-dlq/date=2026-10-01/x.jsonl";
    cloud.put(deleted, &before);
    cloud
        .aws
        .act("test", |it, _| it.s3.delete_object(deleted.split_once('/').unwrap(), None, false, 0))
        .unwrap();
    assert_eq!(versions_with(&cloud, SECRET).len(), 3);

    let ran = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.contains("Erased 1 letter from 2 objects; deleted 3 versions.\n"), "{}", ran.out);
    assert!(ran.out.contains(&format!("by {CALLER} (confirmed by AWS): ticket 812\n")), "{}", ran.out);
    let of_gold = letter(&gold());
    for text in [SECRET, of_gold.id.as_str(), &of_gold.sqs.message_id] {
        assert_eq!(versions_with(&cloud, text), Vec::<String>::new(), "{text}");
    }

    let after = cloud.objects()[&key].clone();
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    assert_eq!([old[0], old[2]], [new[0], new[2]]);
    assert!(after.ends_with('\n') && new.len() == 3);
    let record = ArchiveRecord::from_line(old[1]).unwrap();
    let place: Value = serde_json::from_str(new[1]).unwrap();
    assert_eq!(
        place,
        json!({
            "version": 1, "archivedAt": record.archived_at, "reason": "exhausted", "queueArn": DLQ,
            "deadLetterQueueArn": DLQ, "topicArn": TOPIC,
            "erased": { "at": "2026-11-01T12:00:00Z", "letter": String::from(record.identity()),
                        "ofLetter": String::from(LetterIdentity::of_letter(&record.letter_id)) },
        })
    );
    // It tells that the object is older than its version.
    let stored = cloud.aws.act("test", |it, _| {
        it.s3.objects("my-bucket").unwrap()[key.split_once('/').unwrap().1].metadata.clone()
    });
    assert_eq!(stored.keys().collect::<Vec<_>>(), [FIRST_STORED]);

    let again = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(again.out.ends_with("\nNothing to erase.\n"), "{}", again.out);
}

#[tokio::test]
async fn readers_of_the_archive_know_the_line_of_an_erased_letter() {
    let cloud = archived().await;
    let args = [&["archive", "show", "--json", "--match", GOLD], &PLACE[..]].concat();
    let shown = redrivectl_in(CommandWorld::on(&cloud), &args).await.text();
    erase_archived(&cloud, &["--match", GOLD]).await.text();

    let archive = async |args: &[&str], input: &str| {
        let world = CommandWorld { input: input.into(), ..CommandWorld::on(&cloud) };
        redrivectl_in(world, &[&["archive"], args, &PLACE].concat()).await
    };
    let list = archive(&["list", "--json"], "").await.json();
    assert_eq!((&list["letters"], &list["erased"], &list["unread"]), (&json!(3), &json!(1), &json!(0)));
    let list = archive(&["list", "--topic", "payments"], "").await.text();
    assert!(list.ends_with("\n3 letters, 3 not replayed; 1 letter more, erased.\n"), "{list}");
    // A pattern cannot be about a letter without content.
    let list = archive(&["list", "--match", GOLD], "").await.text();
    assert_eq!(list, "0 letters.\n");
    assert_eq!(archive(&["show", "--json"], "").await.text().lines().count(), 3);
    let told = archive(&["show", &letter(&gold()).sqs.message_id], "").await;
    let said =
        "redrivectl: no letter in this archive matches; one that did was erased at 2026-11-01T12:00:00Z\n";
    assert_eq!((told.code, told.err.as_str()), (1, said));
    let diff = archive(&["diff", "-"], &shown).await;
    let said = "redrivectl: line 1: the letter was erased from the archive at 2026-11-01T12:00:00Z\n";
    assert_eq!((diff.code, diff.err.as_str()), (1, said));
}

#[tokio::test]
async fn without_a_yes_nothing_is_erased_and_a_dry_run_tells_what_would_be() {
    let cloud = archived().await;
    let args = ["--match", GOLD, "--archive-only"];
    let told = erase(&cloud, &args).await;
    let said = "redrivectl: there is no terminal for a question: give --yes to continue without one\n";
    assert_eq!((told.code, told.err.as_str()), (2, said));
    for answer in ["", "\n", "n\n", "yes please\n"] {
        let world = CommandWorld { answers: true, input: answer.into(), ..CommandWorld::on(&cloud) };
        let told = erase_in(world, &args).await;
        assert_eq!(told.code, 2, "{answer:?}");
        assert!(told.err.starts_with("Erase these letters? [y/N] "), "{}", told.err);
        assert!(told.out.contains("  archive    1 letter in 1 record of 1 object\n"), "{}", told.out);
    }
    let told = erase(&cloud, &[&args[..], &["--dry-run"]].concat()).await.text();
    assert!(told.ends_with("\nDry run: nothing was erased.\n"), "{told}");
    let told = erase(&cloud, &[&args[..], &["--dry-run", "--json"]].concat()).await.json();
    assert_eq!((&told["letters"], &told["dryRun"]), (&json!(1), &json!(true)));
    assert_eq!(cloud.calls("PutObject").len() + cloud.calls("DeleteObject").len(), 0);
    let world = CommandWorld { answers: true, input: "y\n".into(), ..CommandWorld::on(&cloud) };
    assert_eq!(erase_in(world, &args).await.code, 0);
    assert!(versions_with(&cloud, SECRET).is_empty());
}

#[tokio::test]
async fn an_erasing_that_selects_nothing_is_refused() {
    let cloud = archived().await;
    for (args, problem) in [
        (&[][..], "no letters are selected"),
        (&["--text", ""], "an id or a --text is empty"),
        (&["--match", "{}"], "--match must be an object"),
        (&["--match", GOLD, "--not-replayed"], "--not-replayed does not go with erase"),
    ] {
        let told = erase_archived(&cloud, args).await;
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{args:?}");
        assert!(told.err.contains(problem), "{args:?}: {}", told.err);
    }
    assert_eq!(cloud.calls("PutObject").len(), 0);
}

#[tokio::test]
async fn letters_are_found_by_id_and_by_a_text_behind_escapes() {
    for args in [vec!["--text", "an \"S3CR3T\" words"], vec![letter(&quoted()).id.to_string().leak()]] {
        let cloud = TestAccount::new();
        cloud.aws.act("test", |it, _| it.s3.keep_versions("my-bucket"));
        bury(&cloud, &[quoted(), RecordBuilder::envelope("b")], ArchiveReason::Rule, NOW, "r1").await;
        erase_archived(&cloud, &args).await.text();
        assert_eq!(versions_with(&cloud, "S3CR3T"), Vec::<String>::new(), "{args:?}");
        assert_eq!(cloud.objects()[&key(&cloud, "r1")].lines().count(), 2);
    }
}

fn quoted() -> RecordBuilder {
    RecordBuilder::envelope("q").message(r#"{"note": "an \"S3CR3T\" words"}"#)
}

/// The records that the selection means are erased though another record of a letter could not be read. The line of an
/// erased letter tells the next erasing whose other records it has to find.
#[tokio::test]
async fn an_erasing_that_left_another_record_is_completed_by_the_same_command() {
    let cloud = archived().await;
    let mut edited = letter(&gold().message("an edited S3CR3T"));
    edited.sqs.message_id = "another-message".to_owned();
    edited.sqs.body = edited.sqs.body.replace("gold\"", "silver\"");
    super::archive::bury_letters(&cloud, &[edited], ArchiveReason::Rule, NOW + 5, "r9").await;
    cloud.script(|call| {
        let is_other = call.operation == "GetObject" && call.target.contains("r9");
        if is_other { SimFault::refuse(403, "InvalidObjectState", "") } else { SimFault::Pass }
    });
    let ran = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_ne!(ran.code, 0, "{ran:?}");
    cloud.script(|_| SimFault::Pass);
    let again = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_eq!(again.code, 0, "{again:?}");
    assert!(cloud.objects().values().all(|object| !object.contains("an edited S3CR3T")), "{again:?}");
}

/// A replay can have sent a letter with an edited message, which came back.
#[tokio::test]
async fn other_records_of_a_selected_letter_are_erased_with_it() {
    let cloud = archived().await;
    let of_gold = letter(&gold());
    let mut edited = letter(&gold().message("an edited S3CR3T"));
    edited.sqs.message_id = "another-message".to_owned();
    edited.sqs.body = edited.sqs.body.replace("gold\"", "silver\"");
    assert_eq!(edited.id, of_gold.id);
    super::archive::bury_letters(&cloud, &[edited], ArchiveReason::Rule, NOW + 5, "r9").await;
    let ran =
        erase_archived(&cloud, &["--match", GOLD, "--since", "2026-10-31", "--until", "2026-11-01"]).await;
    assert!(ran.out.contains("other records of the same letters in 1 object more\n"), "{}", ran.out);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(versions_with(&cloud, "S3CR3T").is_empty());
}

#[tokio::test]
async fn an_erasing_that_broke_off_is_completed_by_the_next_one() {
    let cloud = archived().await;
    cloud.reply("DeleteObject", SimFault::Unavailable);
    let ran = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains("\nFailed: cannot delete a version of s3://my-bucket/"), "{}", ran.out);
    assert_eq!(versions_with(&cloud, SECRET).len(), 1, "only an old version has it");
    cloud.script(|_| SimFault::Pass);
    let ran = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(versions_with(&cloud, SECRET).is_empty());
    assert_eq!(cloud.objects()[&key(&cloud, "r1")].lines().count(), 3);
}

#[tokio::test]
async fn an_interrupt_has_its_own_code_and_what_was_done_is_told() {
    let cloud = archived().await;
    let interrupted = Arc::new(AtomicBool::new(false));
    let presses = Arc::clone(&interrupted);
    let config = stand_in::before(&cloud, move |asked: &StandInRequest<'_>| {
        presses.fetch_or(asked.method == "DELETE", Ordering::Relaxed);
        None::<(u16, String)>
    });
    let world = CommandWorld { config: Some(config), interrupted, ..CommandWorld::default() };
    let ran = erase_in(world, &["--match", GOLD, "--archive-only", "--yes"]).await;
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.out.contains("\nErased 1 letter from 1 object; deleted 1 version.\n"), "{}", ran.out);
    assert!(ran.out.ends_with("\nInterrupted: run the same command again.\n"), "{}", ran.out);
}

/// Two erasings at once must not write each other's letters back.
#[tokio::test]
async fn a_change_of_the_object_meanwhile_is_kept() {
    let cloud = archived().await;
    let (key, other) = (key(&cloud, "r1"), cloud.clone());
    let changed = AtomicBool::new(false);
    let config = stand_in::before(&cloud, move |asked: &StandInRequest<'_>| {
        if asked.method == "PUT" && !changed.swap(true, Ordering::Relaxed) {
            let now = other.objects()[&key].clone();
            let first = now.lines().next().unwrap().to_owned();
            other.put(&key, &now.replace(&first, r#"{"changed":true}"#));
        }
        None::<(u16, String)>
    });
    let world = CommandWorld { config: Some(config), ..CommandWorld::default() };
    let ran = erase_in(world, &["--match", GOLD, "--archive-only", "--yes"]).await;
    // The line that somebody wrote is no record, which is told.
    assert_eq!(ran.code, 1, "{}", ran.out);
    let now = cloud.objects()[&self::key(&cloud, "r1")].clone();
    assert!(now.starts_with("{\"changed\":true}\n"), "{now}");
    assert!(versions_with(&cloud, SECRET).is_empty());
}

#[tokio::test]
async fn a_bucket_without_versions_has_only_the_new_object() {
    let cloud = TestAccount::new();
    bury(&cloud, &[gold(), RecordBuilder::envelope("b")], ArchiveReason::Rule, NOW, "r1").await;
    let ran = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_eq!((ran.code, cloud.calls("DeleteObject").len()), (0, 0), "{}", ran.err);
    assert!(versions_with(&cloud, SECRET).is_empty());
    assert_eq!(cloud.objects()[&key(&cloud, "r1")].lines().count(), 2);
}

#[tokio::test]
async fn object_lock_keeps_a_version_and_the_record_says_until_when() {
    for (mode, bypassed) in [("GOVERNANCE", 0), ("COMPLIANCE", 3)] {
        let cloud = TestAccount::new();
        cloud.aws.act("test", |it, _| it.s3.lock_new_versions("my-bucket", mode, 10 * DAY));
        bury(&cloud, &[gold(), RecordBuilder::envelope("b")], ArchiveReason::Rule, NOW, "r1").await;
        let ran = erase_archived(&cloud, &["--match", GOLD]).await;
        assert_eq!(ran.code, 3, "{}", ran.err);
        let kept = format!("Object Lock ({mode}) keeps 1 version until 2026-11-11 12:00:00 UTC");
        assert_eq!(ran.out.matches(&kept).count(), 2, "in the preview and the record: {}", ran.out);
        assert_eq!(ran.out.contains("--bypass-governance deletes them now"), mode == "GOVERNANCE");
        // Nobody reads it any more.
        assert!(!cloud.objects()[&key(&cloud, "r1")].contains(SECRET));
        assert_eq!(versions_with(&cloud, SECRET).len(), 1);
        let ran = erase_archived(&cloud, &["--match", GOLD, "--bypass-governance"]).await;
        assert_eq!(
            (ran.code, versions_with(&cloud, SECRET).is_empty()),
            (bypassed, bypassed == 0),
            "{}",
            ran.out
        );
    }
}

/// A missing permission does not end with a lock, and waiting would not help.
#[tokio::test]
async fn a_denial_beside_a_lock_that_keeps_nothing_is_a_denial() {
    for (days, args) in [(0, &["--match", GOLD, "--bypass-governance"][..]), (11, &["--match", GOLD])] {
        let cloud = TestAccount::new();
        cloud.aws.act("test", |it, _| it.s3.lock_new_versions("my-bucket", "GOVERNANCE", 10 * DAY));
        bury(&cloud, &[gold(), RecordBuilder::envelope("b")], ArchiveReason::Rule, NOW, "r1").await;
        cloud.aws.clock().set(redrive_support::at(NOW + days * DAY));
        cloud.reply("DeleteObject", SimFault::Denied);
        let world = CommandWorld { later: days * DAY, ..CommandWorld::on(&cloud) };
        let ran = erase_in(world, &[args, &["--archive-only", "--yes"]].concat()).await;
        assert_eq!(ran.code, 6, "{}", ran.out);
        assert!(ran.out.contains("\nFailed: cannot delete a version of "), "{}", ran.out);
    }
}

#[tokio::test]
async fn the_record_is_json_without_content() {
    let cloud = archived().await;
    let record = erase_archived(&cloud, &["--match", GOLD, "--json"]).await.json();
    let told = record.to_string();
    assert!(!told.contains("gold") && !told.contains("S3CR3T"), "{told}");
    let key = key(&cloud, "r1");
    let object = &record["objects"][0];
    assert_eq!(
        (&record["erased"], &record["by"], &record["why"]),
        (&json!(1), &json!(CALLER), &json!("ticket 812"))
    );
    assert_eq!(format!("my-bucket/{}", object["key"].as_str().unwrap()), key);
    assert_eq!(object["deleted"].as_array().unwrap().len(), 1);
    assert_eq!(object["letters"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_may_have_more_and_a_denial_has_its_own_code() {
    let cloud = archived().await;
    cloud.put("my-bucket/dead-letters/queue=payments-dlq/date=2026-10-01/x.jsonl", "{\n");
    let ran = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.out.contains("Could not be read, and may have more: ")
            && ran.out.contains("x.jsonl:1: is not JSON")
    );
    assert!(versions_with(&cloud, SECRET).is_empty(), "what could be read is erased");
    let cloud = archived().await;
    cloud.reply("DeleteObject", SimFault::Denied);
    let ran = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(ran.out.contains("\nFailed: cannot delete a version of "), "{}", ran.out);
    let cloud = archived().await;
    cloud.reply("ListObjectVersions", SimFault::Denied);
    let ran = erase_archived(&cloud, &["--match", GOLD]).await;
    assert_eq!((ran.code, ran.out.as_str()), (6, ""), "{}", ran.err);
    let cloud = archived().await;
    cloud.reply("GetObject", SimFault::Denied);
    let ran = erase_archived(&cloud, &["--match", GOLD, "--dry-run"]).await;
    assert_eq!(ran.code, 6, "a dry run, too: {}", ran.out);
    assert!(ran.out.contains("  not read   "), "{}", ran.out);
}

//! `replay`: what an operator types, and what is told of it. What a replay does is in `tests/function/replay`.

mod asks;
mod given_records;
mod not_replayed;
mod replay_records;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_support::{
    BILLING, CALLER, DLQ, FIFO_DLQ, NOTIFIER, REQUEUE, RecordBuilder, SimFault, TestAccount, WORKER, letter,
};
use serde_json::{Value, json};

use super::{CommandRun, CommandWorld, TextFile, manual, records, redrivectl, redrivectl_in, shows};

pub(super) const PLACE: [&str; 4] = ["--archive", "s3://my-bucket/dead-letters", "--requeue", REQUEUE];
pub(super) const KEY: &str = "dead-letters/queue=payments-dlq/date=2026-10-31/20261031T120000Z-r1.jsonl";

/// The same with an index of ten letters.
pub(super) const INDEXED: &str =
    "dead-letters/queue=payments-dlq/date=2026-10-31/20261031T120000.000Z-r1.2-n10-r0.jsonl";

/// Ten letters whose object has no index: their number is known from its size.
const SELECTED: &str = "  selected  at most 30 letters, archived before 2026-11-01 11:59:55 UTC";

const WHICH: &str = "  which     the whole archive";

/// Without waits between the steps.
const AT_ONCE: [&str; 4] = ["--settle", "0", "--rate", "10000"];

/// An archive with one object, a line for each of these letters, and an empty requeue.
pub(super) fn archived(posts: &[RecordBuilder]) -> TestAccount {
    archived_at(KEY, posts)
}

pub(super) fn archived_at(key: &str, posts: &[RecordBuilder]) -> TestAccount {
    let cloud = TestAccount::new();
    put_archive(&cloud, key, posts);
    cloud
}

/// Puts such an archive and the queues into an account.
pub(super) fn put_archive(cloud: &TestAccount, key: &str, posts: &[RecordBuilder]) {
    let lines: Vec<_> = posts.iter().map(|post| line(post) + "\n").collect();
    cloud.put_at(&format!("my-bucket/{key}"), &lines.concat(), "2026-10-31T12:00:00.000Z");
    for queue in ["payments-requeue", "payments-dlq"] {
        cloud.drained(queue);
    }
}

pub(super) fn line(post: &RecordBuilder) -> String {
    let mut record = records::record(&letter(post));
    "2026-10-31T12:00:00Z".clone_into(&mut record.archived_at);
    record.to_line().unwrap().trim_end().to_owned()
}

fn ten() -> Vec<RecordBuilder> {
    (0..10).map(|number| RecordBuilder::envelope(&number.to_string())).collect()
}

async fn replay(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    replay_in(CommandWorld::default(), cloud, args).await
}

/// The options of a command that goes on with a replay.
fn options() -> String {
    format!(" {}", PLACE.join(" "))
}

/// Replays the whole archive, where nothing is selected.
async fn replay_in(world: CommandWorld, cloud: &TestAccount, args: &[&str]) -> CommandRun {
    let world = CommandWorld { config: CommandWorld::on(cloud).config, ..world };
    let selects = ["--resume", "--from", "--since", "--match", "--queue", "--topic", "--not-replayed"]
        .iter()
        .any(|it| args.contains(it));
    let all: &[&str] = if selects { &[] } else { &["--all"] };
    let yes: &[&str] = if world.answers { &[] } else { &["--yes"] };
    redrivectl_in(world, &[&["replay"], args, all, yes, &PLACE, &AT_ONCE].concat()).await
}

/// `replay` and a verb; `list` without one.
async fn replays(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    let verb: &[&str] = if args.first().is_none_or(|word| word.starts_with('-')) { &["list"] } else { &[] };
    let args = [&["replay"], verb, args, &PLACE[..2]].concat();
    redrivectl_in(CommandWorld::on(cloud), &args).await
}

async fn archive(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    redrivectl_in(CommandWorld::on(cloud), &[&["archive"], args, &PLACE[..2]].concat()).await
}

/// The id of the replay that a summary is about.
fn id_of(ran: &CommandRun) -> String {
    let first = ran.out.lines().next().unwrap();
    first.strip_prefix("Replay ").unwrap().split(':').next().unwrap().to_owned()
}

/// Returns the letters that the requeue got, as `letter id, mark`, in order of their ids.
pub(super) fn sent(cloud: &TestAccount) -> Vec<(String, Value)> {
    let marks = cloud.entries("SendMessageBatch").into_iter();
    let marks = marks
        .map(|entry| serde_json::from_str::<Value>(&entry.attributes["sns-redrive"].value.text()).unwrap());
    let mut sent: Vec<_> = marks.map(|mark| (mark["id"].as_str().unwrap().to_owned(), mark)).collect();
    sent.sort_by(|one, other| one.0.cmp(&other.0));
    sent
}

pub(super) fn ids(posts: &[RecordBuilder]) -> Vec<String> {
    let mut ids: Vec<_> = posts.iter().map(|post| letter(post).id.to_string()).collect();
    ids.sort();
    ids
}

pub(super) fn sent_ids(cloud: &TestAccount) -> Vec<String> {
    sent(cloud).into_iter().map(|(id, _)| id).collect()
}

/// A replay that stopped since two letters of its first step still wait; its id.
pub(super) async fn stopped(cloud: &TestAccount) -> (String, CommandRun) {
    let some_are_sent = AtomicBool::new(false);
    cloud.script(move |call| {
        let waits = r#"{"Attributes": {"ApproximateNumberOfMessages": "2"}}"#;
        let sent = some_are_sent.fetch_or(call.operation == "SendMessageBatch", Ordering::Relaxed);
        if sent && call.operation == "GetQueueAttributes" && call.target == "payments-requeue" {
            SimFault::Nonsense(200, waits.to_owned())
        } else {
            SimFault::Pass
        }
    });
    let ran = replay(cloud, &["--ramp", "8,100", "--why", "the outage of May"]).await;
    cloud.script(|_| SimFault::Pass);
    (id_of(&ran), ran)
}

#[tokio::test]
async fn a_dry_run_counts_what_is_sent_then_and_writes_nothing() {
    let cloud = archived(&[ten(), ten()[..2].to_vec()].concat());
    let told = replay(&cloud, &["--dry-run"]).await.text();
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].ends_with(": dry run, nothing was sent."), "{told}");
    assert_eq!(
        lines[1..],
        [
            SELECTED,
            WHICH,
            "  to send   at most 10 letters, not checked",
            "  doubles   2 records, stored twice after a crash",
        ]
    );
    assert_eq!((cloud.calls("PutObject").len(), cloud.calls("SendMessageBatch").len()), (0, 0));

    let counted = replay(&cloud, &["--dry-run", "--json"]).await.json();
    let done = replay(&cloud, &["--json"]).await.json();
    assert_eq!((&counted["status"], &done["status"]), (&json!("dryRun"), &json!("done")));
    assert_eq!(counted["counts"], done["counts"]);
    assert_eq!(done["counts"]["sent"], 10);
    assert_eq!(sent_ids(&cloud), ids(&ten()));
}

#[tokio::test]
async fn what_is_selected_is_told_with_its_cut_off_and_exactly_where_the_keys_tell_it() {
    for (key, cut_off, selected) in [
        (KEY, &[][..], "at most 25 letters, archived before 2026-11-01 11:59:55 UTC"),
        (INDEXED, &[], "10 letters, archived before 2026-11-01 11:59:55 UTC"),
        (
            INDEXED,
            &["--cut-off", "2026-10-31T18:00:00Z"],
            "10 letters, archived before 2026-10-31 18:00:00 UTC",
        ),
        (INDEXED, &["--cut-off", "24h"], "0 letters, archived before 2026-10-31 12:00:00 UTC"),
    ] {
        let cloud = archived_at(key, &ten());
        for dry_run in [&["--dry-run"][..], &[]] {
            let told = replay(&cloud, &[cut_off, dry_run].concat()).await.text();
            assert_eq!(told.lines().nth(1).unwrap(), format!("  selected  {selected}"), "{told}");
        }
    }
    let cloud = archived_at(INDEXED, &ten());
    let state = replay(&cloud, &["--json", "--cut-off", "2026-10-31T18:00:00Z"]).await.json();
    assert_eq!((&state["cutOff"], &state["exact"]), (&json!("2026-10-31T18:00:00Z"), &json!(true)));
    let ran = replay(&cloud, &["--cut-off", "2026-11-02"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("cutOff: must not lie in the future"), "{}", ran.err);
}

#[tokio::test]
async fn letters_go_to_the_requeue_as_a_new_generation_and_once() {
    let cloud = archived(&ten());
    let told = replay(&cloud, &[]).await.text();
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("Replay ") && lines[0].ends_with(": done."), "{told}");
    assert_eq!(lines[2..], [WHICH, "  sent      10 letters"]);
    let marks = sent(&cloud);
    assert_eq!(marks.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids(&ten()));
    for (_, mark) in marks {
        assert_eq!((&mark["gen"], &mark["spent"], &mark["dlq"]), (&json!(1), &json!(0), &json!(DLQ)));
    }

    cloud.forget();
    let told = replay(&cloud, &[]).await.text();
    assert!(told.contains("  sent         0 letters\n"), "{told}");
    assert!(told.contains("  passed over  10 letters, replayed already\n"), "{told}");
    assert_eq!(sent_ids(&cloud), ids(&[]));

    replay(&cloud, &["--again"]).await.text();
    assert_eq!(sent_ids(&cloud), ids(&ten()));
}

#[tokio::test]
async fn a_letter_that_is_left_out_is_told_with_its_key_and_line_and_the_rest_goes() {
    let cloud = archived(&[]);
    let good = line(&RecordBuilder::envelope("a"));
    let fifo = line(&RecordBuilder::envelope("f").queue(FIFO_DLQ));
    let lines = format!("{good}\n{{\"version\": 2}}\n{fifo}\n");
    cloud.put_at(&format!("my-bucket/{KEY}"), &lines, "2026-10-31T12:00:00.000Z");
    for (args, code) in [(&["--dry-run"][..], 3), (&[], 3)] {
        let ran = replay(&cloud, args).await;
        assert_eq!(ran.code, code);
        assert_eq!(
            ran.err,
            format!(
                "redrivectl: {KEY}:2: has version 2, but this software reads only version 1\n\
                 redrivectl: {KEY}:3: comes from a FIFO queue, but the requeue is a standard queue, or the other way round: replay it by a stack whose Requeue is of its kind\n"
            )
        );
        assert!(ran.out.contains("  unreadable  1 line\n"), "{}", ran.out);
        assert!(ran.out.contains("  left out    1 letter: otherKind\n"), "{}", ran.out);
    }
    assert_eq!(sent_ids(&cloud), ids(&[RecordBuilder::envelope("a")]));
}

/// A lifecycle rule has deleted the object after it was listed.
#[tokio::test]
async fn letters_that_are_gone_are_told_and_are_no_success() {
    let cloud = archived_at(INDEXED, &ten());
    cloud.script(|call| {
        let is_letters = call.operation == "GetObject" && call.target.ends_with(INDEXED);
        if is_letters { SimFault::refuse(404, "NoSuchKey", "it was deleted") } else { SimFault::Pass }
    });
    let ran = replay(&cloud, &[]).await;
    assert_eq!(ran.code, 3, "{ran:?}");
    let told = "10 letters, deleted from the archive before they were sent\n";
    assert!(ran.out.contains("  gone") && ran.out.contains(told), "{}", ran.out);
}

#[tokio::test]
async fn a_letter_without_a_target_by_the_policy_is_left_out_unless_it_is_given_one() {
    let cloud = archived(&[RecordBuilder::raw("r", "names nobody")]);
    let policy = TextFile::of("replay-policy.json", "{}");
    let ran = replay(&cloud, &["--dry-run", "--policy", policy.path()]).await;
    assert_eq!(ran.code, 3);
    assert!(ran.out.contains("  left out  1 letter: noTarget\n"), "{}", ran.out);
    assert!(ran.err.starts_with(&format!("redrivectl: {KEY}:1: has no target")), "{}", ran.err);

    assert_eq!(replay(&cloud, &["--dry-run", "--json"]).await.json()["counts"]["sent"], 1);
    replay(&cloud, &["--policy", policy.path(), "--to", NOTIFIER]).await.text();
    assert_eq!(sent(&cloud)[0].1["to"], NOTIFIER);
}

#[tokio::test]
async fn everything_on_the_command_line_reaches_the_request() {
    let cloud = archived(&[]);
    let world = CommandWorld::on(&cloud);
    let pattern = r#"{"messageAttributes": {"tenant": ["gold"]}}"#;
    let all = format!(
        "--since 2026-10-30 --until 2026-10-31T18:00:00Z --reason exhausted --reason rule --topic payments \
               --origin sns --queue payments-dlq --cut-off 2026-11-01T00:00:00Z --to topic --rate 7 --ramp 10,100 \
               --threshold 3 --settle 2m --again --why mended --error KMS.DisabledException --target {WORKER} --dry-run --json"
    );
    let args: Vec<_> = ["replay", "--match", pattern].into_iter().chain(all.split_whitespace()).collect();
    let manifest = redrivectl_in(world, &[&args, &PLACE[..]].concat()).await.json();
    assert_eq!(
        manifest["request"],
        json!({
            "select": {
                "from": "2026-10-30T00:00:00Z", "to": "2026-10-31T18:00:00Z", "reasons": ["exhausted", "rule"],
                "topics": ["payments"], "origins": ["sns"], "queue": "payments-dlq",
                "errors": ["KMS.DisabledException"], "targets": [WORKER],
                "match": { "messageAttributes": { "tenant": ["gold"] } },
            },
            "cutOff": "2026-11-01T00:00:00Z", "to": "topic", "rate": 7, "ramp": [10, 100], "threshold": 3,
            "settleSeconds": 120, "again": true, "why": "mended", "dryRun": true,
        })
    );
}

#[tokio::test]
async fn without_options_it_is_the_request_that_an_empty_event_is() {
    let cloud = archived(&[]);
    let args = [&["replay", "--all", "--dry-run", "--json"], &PLACE[..]].concat();
    let state = redrivectl_in(CommandWorld::on(&cloud), &args).await.json();
    let event = json!({ "dryRun": true, "all": true });
    let of_event = redrive_replay::ReplayRequest::from_json(event).unwrap();
    assert_eq!(state["request"], serde_json::to_value(of_event).unwrap());
}

/// Anyone who forgets to select does not mean the archive of all years.
#[tokio::test]
async fn nothing_selected_is_not_everything() {
    let cloud = archived(&ten());
    let ran = redrivectl_in(CommandWorld::on(&cloud), &[&["replay"], &PLACE[..]].concat()).await;
    let said = "redrivectl: no letters are selected: give --topic, --since, --reason or another option of \"Which letters\", or --all for the whole archive\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, said));
}

/// Any queue would take every letter, and deliver none.
#[tokio::test]
async fn a_mistyped_requeue_is_refused_in_a_dry_run_too() {
    for args in [&["--dry-run"][..], &[]] {
        let cloud = archived(&ten());
        let place = ["--archive", "s3://my-bucket/dead-letters", "--requeue", BILLING];
        let ran =
            redrivectl_in(CommandWorld::on(&cloud), &[&["replay", "--all", "--yes"], args, &place].concat())
                .await;
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("payments-billing has no tag sns-redrive=requeue"), "{}", ran.err);
        assert_eq!(cloud.calls("SendMessageBatch").len(), 0);
    }
}

#[tokio::test]
async fn bad_usage_is_told_before_anything_is_called() {
    let cloud = archived(&ten());
    let records = TextFile::of("replay-records.jsonl", &line(&RecordBuilder::envelope("a")));
    for (args, said) in [
        (&["--ramp", "5,1,100"][..], "ramp: must be a list of rising"),
        (&["--ramp", "5,50"], "ramp: must be a list of rising"),
        (&["--rate", "0"], "0 is not in 1..=1000000"),
        (&["--threshold", "101"], "101 is not in 0..=100"),
        (&["--settle", "2h"], "must be 0 seconds to one hour"),
        (&["--to", "the moon"], "must be topic, or the ARN of"),
        (&["--resume", "x", "--queue", "payments-dlq"], "cannot be used with"),
        (&["--resume", "x", "--again"], "cannot be used with"),
        (&["--all", "--queue", "payments-dlq"], "cannot be used with"),
        (&["--since", "1h", "--until", "2h"], "--until must be later than --since"),
        (&["--match", "{}"], "--match must be an object"),
        (&["--all", "--policy", "/nowhere"], "cannot read /nowhere"),
        (&["--from", "/nowhere"], "cannot read /nowhere"),
        (&["--from", "-", "--policy", "-"], "are both standard input"),
        (&["--from", "-"], "the file of --from has no records"),
        (&["--from", records.path(), "--queue", "payments-dlq"], "cannot be used with"),
        (&["--from", records.path(), "--cut-off", "1h"], "cannot be used with"),
    ] {
        let world = CommandWorld::on(&cloud);
        let ran = redrivectl_in(world, &[&["replay", "--yes"], args, &PLACE[..]].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    assert_eq!(cloud.summary(), Vec::<String>::new());
}

#[tokio::test]
async fn the_requeue_must_be_named() {
    for requeue in [&[][..], &["--requeue", "payments-requeue"], &["--requeue", NOTIFIER]] {
        let args = [&["replay", "--archive", "s3://my-bucket/dead"], requeue].concat();
        let ran = redrivectl(&args).await;
        assert_eq!(ran.code, 2);
        assert_eq!(
            ran.err,
            "redrivectl: --requeue (or REQUEUE_ARN) must be the ARN of the function's requeue\n"
        );
    }
}

#[tokio::test]
async fn ctrl_c_ends_it_after_the_letters_under_way_and_its_id_goes_on() {
    let posts: Vec<_> = (0..600).map(|number| RecordBuilder::envelope(&number.to_string())).collect();
    let cloud = archived(&posts);
    let interrupted = Arc::new(AtomicBool::new(false));
    let ctrl_c = Arc::clone(&interrupted);
    cloud.script(move |call| {
        ctrl_c.fetch_or(call.operation == "SendMessageBatch", Ordering::Relaxed);
        SimFault::Pass
    });
    let world = CommandWorld { interrupted, ..CommandWorld::default() };
    let ran = replay_in(world, &cloud, &["--ramp", "20,100"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (4, ""));
    let id = id_of(&ran);
    assert!(ran.out.lines().next().unwrap().contains(": unfinished, in step 1 of 2."), "{}", ran.out);
    assert!(
        ran.out.ends_with(&format!("\nTo continue: redrivectl replay --resume {id}{}\n", options())),
        "{}",
        ran.out
    );

    cloud.script(|_| SimFault::Pass);
    let done = replay(&cloud, &["--resume", &id, "--json"]).await.json();
    let counts = &done["counts"];
    assert_eq!((&done["status"], &done["id"]), (&json!("done"), &json!(id)));
    assert_eq!((&counts["sent"], counts.get("repeated")), (&json!(600), None));
    assert_eq!(sent_ids(&cloud), ids(&posts));
}

#[tokio::test]
async fn ctrl_c_before_it_knows_what_is_selected_sends_nothing() {
    let cloud = archived(&ten());
    let world = CommandWorld { interrupted: Arc::new(AtomicBool::new(true)), ..CommandWorld::default() };
    let ran = replay_in(world, &cloud, &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    assert_eq!(ran.err, "redrivectl: interrupted while it read the archive; nothing was sent\n");
    assert_eq!(sent_ids(&cloud), ids(&[]));
}

/// An object that somebody else named may lie behind all that begin with a time.
#[tokio::test]
async fn letters_of_an_object_with_any_name_are_sent() {
    let cloud = archived(&ten());
    for name in ["~last", "\u{e9}t\u{e9}"] {
        let key = KEY.replace("20261031T120000Z-r1", name);
        cloud.put_at(
            &format!("my-bucket/{key}"),
            &line(&RecordBuilder::envelope(name)),
            "2026-10-31T12:00:00.000Z",
        );
    }
    let told = replay(&cloud, &[]).await.text();
    assert!(told.contains("  sent      12 letters\n"), "{told}");
    assert_eq!(archive(&cloud, &["list", "--json"]).await.json()["notReplayed"], 0);
}

#[tokio::test]
async fn the_manual_shows_what_is_printed_of_replays() {
    let cloud = archived_at(INDEXED, &ten());
    let kept = replay(&cloud, &["--json"]).await.json();
    let cloud = TestAccount::new();
    let keep = |state: Value| {
        let id = state["id"].as_str().unwrap();
        cloud.put(&format!("my-bucket/dead-letters-control/replays/{id}/replay.json"), &state.to_string());
    };
    let with = |fields: Value| {
        let mut state = kept.clone();
        state.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        state
    };
    let mut stopped = with(json!({
        "id": "20261102T093105Z-81c0d4", "began": "2026-11-02T09:31:05Z", "cutOff": "2026-11-02T09:31:00Z",
        "letters": 1000, "counts": { "sent": 10 }, "cameBack": 10, "step": 1, "steps": 4, "status": "stopped",
        "because": "of 10 letters of step 1: 0 refused by SQS, 10 back in the archive, 0 more than before wait in the requeue, 0 more in the dead-letter queues",
    }));
    stopped["request"]["why"] = json!("the worker is back");
    keep(stopped);
    keep(with(json!({
        "id": "20261019T164402Z-5e07b9", "began": "2026-10-19T16:44:02Z", "letters": 42_318,
        "counts": { "sent": 42_318 },
    })));
    keep(with(json!({
        "id": "20261019T160000Z-c3d1f8", "began": "2026-10-19T16:00:00Z", "letters": 42_318,
        "by": "the replay function", "counts": { "sent": 7200 }, "freed": { "at": "2026-10-19T16:40:00Z", "by": CALLER },
    })));
    let printed = replays(&cloud, &[]).await.text();
    assert!(shows(&manual(), &printed), "it prints:\n{printed}");
    let world = CommandWorld { is_terminal: true, ..CommandWorld::on(&cloud) };
    let coloured = redrivectl_in(world, &["replay", "list", PLACE[0], PLACE[1]]).await.text();
    let red: Vec<_> = coloured.lines().filter(|row| row.starts_with("\u{1b}[31m")).collect();
    assert!(red.len() == 1 && red[0].contains("  stopped  "), "{coloured:?}");
    let printed = replays(&cloud, &["show", "20261102T093105Z-81c0d4"]).await.text();
    let of_stopped = "\
Replay 20261102T093105Z-81c0d4: stopped in step 1 of 4.
  selected   1,000 letters, archived before 2026-11-02 09:31:00 UTC
  which      the whole archive
  sent       10 letters
  came back  10 letters, since its last step began
  because    of 10 letters of step 1: 0 refused by SQS, 10 back in the archive, 0 more than before wait in the requeue, 0 more in the dead-letter queues
  begun      2026-11-02 09:31:05 UTC by arn:aws:sts::123456789012:assumed-role/operator/ada
  why        the worker is back

To continue: redrivectl replay --resume 20261102T093105Z-81c0d4";
    assert!(printed.starts_with(of_stopped), "it prints:\n{printed}");
}

#[tokio::test]
async fn help_says_what_the_exit_codes_of_a_replay_mean() {
    let help = redrivectl(&["replay", "--help"]).await.text();
    for line in [
        "  0  all selected letters are sent",
        "  1  the replay failed",
        "  2  bad usage",
        "  3  done, but",
        "  4  the replay stopped",
        "  5  another replay",
        "  6  AWS denied",
    ] {
        assert!(help.contains(line), "{help}");
    }
}

#[test]
fn the_requeue_can_be_that_of_the_variable() {
    let said = |requeue| {
        let variables = [("ARCHIVE", "s3://my-bucket/dead"), ("REQUEUE_ARN", requeue)];
        let ran = super::program(&["replay", "--all", "--dry-run"], &variables);
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    assert_eq!(
        said(REQUEUE).1,
        "redrivectl: no region is set: give --region, set AWS_REGION, or use a profile with a region\n"
    );
    assert_eq!(said("payments-requeue").0, Some(2));
}

//! `replay`: what an operator types, and what is told of it. What a replay does is in `tests/function/replay`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{File, Ran, World, records, redrivectl, redrivectl_in};
use support::{Account, DLQ, FIFO_DLQ, Fault, NOTIFIER, Post, REQUEUE, letter};

const PLACE: [&str; 4] = ["--archive", "s3://graveyard/dead-letters", "--requeue", REQUEUE];
const KEY: &str = "dead-letters/queue=orders-dlq/date=2026-10-31/20261031T120000Z-r1.jsonl";

/// Without waits between the steps.
const AT_ONCE: [&str; 4] = ["--settle", "0", "--rate", "10000"];

/// An archive with one object, a line for each of these letters, and an empty requeue.
fn graveyard(posts: &[Post]) -> Account {
    let cloud = Account::new();
    let lines: Vec<_> = posts.iter().map(|post| line(post) + "\n").collect();
    cloud.put_at(&format!("graveyard/{KEY}"), &lines.concat(), "2026-10-31T12:00:00.000Z");
    cloud.queue("orders-requeue", &[("ApproximateNumberOfMessages", "0")]);
    cloud
}

fn line(post: &Post) -> String {
    let mut record = records::record(&letter(post));
    "2026-10-31T12:00:00Z".clone_into(&mut record.archived_at);
    record.to_line().unwrap().trim_end().to_owned()
}

fn ten() -> Vec<Post> {
    (0..10).map(|number| Post::envelope(&number.to_string())).collect()
}

async fn replay(cloud: &Account, args: &[&str]) -> Ran {
    replay_in(World::default(), cloud, args).await
}

async fn replay_in(world: World, cloud: &Account, args: &[&str]) -> Ran {
    let world = World { config: World::on(cloud).config, ..world };
    redrivectl_in(world, &[&["replay"], args, &PLACE, &AT_ONCE].concat()).await
}

/// What the requeue was sent, as `letter id, mark`, in order of their ids.
fn sent(cloud: &Account) -> Vec<(String, Value)> {
    let marks = cloud.entries("SendMessageBatch").into_iter();
    let marks = marks
        .map(|entry| serde_json::from_str::<Value>(&entry.attributes["sns-redrive"].value.text()).unwrap());
    let mut sent: Vec<_> = marks.map(|mark| (mark["id"].as_str().unwrap().to_owned(), mark)).collect();
    sent.sort_by(|one, other| one.0.cmp(&other.0));
    sent
}

fn ids(posts: &[Post]) -> Vec<String> {
    let mut ids: Vec<_> = posts.iter().map(|post| letter(post).id.to_string()).collect();
    ids.sort();
    ids
}

fn sent_ids(cloud: &Account) -> Vec<String> {
    sent(cloud).into_iter().map(|(id, _)| id).collect()
}

#[tokio::test]
async fn a_dry_run_counts_what_is_sent_then_and_writes_nothing() {
    let cloud = graveyard(&[ten(), ten()[..2].to_vec()].concat());
    let told = replay(&cloud, &["--dry-run"]).await.text();
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].ends_with(": a dry run, nothing was sent."), "{told}");
    assert_eq!(
        lines[1..],
        [
            "  selected  10 letters, archived before 2026-11-01 11:59:55 UTC",
            "  doubles   2 records, stored twice after a crash",
        ]
    );
    assert_eq!((cloud.calls("PutObject").len(), cloud.calls("SendMessageBatch").len()), (0, 0));

    let counted = replay(&cloud, &["--dry-run", "--json"]).await.json();
    let done = replay(&cloud, &["--json"]).await.json();
    assert_eq!((&counted["status"], &done["status"]), (&json!("dryRun"), &json!("done")));
    assert_eq!(counted["counts"], done["counts"]);
    assert_eq!(done["sent"], counted["counts"]["selected"]);
    assert_eq!(sent_ids(&cloud), ids(&ten()));
}

#[tokio::test]
async fn letters_go_to_the_requeue_as_a_new_generation_and_once() {
    let cloud = graveyard(&ten());
    let told = replay(&cloud, &[]).await.text();
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("Replay ") && lines[0].ends_with(": done."), "{told}");
    assert_eq!(
        lines[1..],
        ["  selected  10 letters, archived before 2026-11-01 11:59:55 UTC", "  sent      10 letters"]
    );
    let marks = sent(&cloud);
    assert_eq!(marks.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids(&ten()));
    for (_, mark) in marks {
        assert_eq!((&mark["gen"], &mark["spent"], &mark["dlq"]), (&json!(1), &json!(0), &json!(DLQ)));
    }

    cloud.forget();
    let told = replay_in(World { later: 1000, ..World::default() }, &cloud, &[]).await.text();
    assert!(told.contains("  selected     0 letters"), "{told}");
    assert!(told.contains("  passed over  10 letters, replayed already\n"), "{told}");
    assert_eq!(sent_ids(&cloud), ids(&[]));

    replay_in(World { later: 2000, ..World::default() }, &cloud, &["--again"]).await.text();
    assert_eq!(sent_ids(&cloud), ids(&ten()));
}

#[tokio::test]
async fn a_letter_that_is_left_out_is_told_with_its_key_and_line_and_the_rest_goes() {
    let cloud = graveyard(&[]);
    let good = line(&Post::envelope("a"));
    let fifo = line(&Post::envelope("f").queue(FIFO_DLQ));
    let lines = format!("{good}\n{{\"version\": 2}}\n{fifo}\n");
    cloud.put_at(&format!("graveyard/{KEY}"), &lines, "2026-10-31T12:00:00.000Z");
    for (args, code) in [(&["--dry-run"][..], 1), (&[], 1)] {
        let ran = replay(&cloud, args).await;
        assert_eq!(ran.code, code);
        assert_eq!(
            ran.err,
            format!(
                "redrivectl: {KEY}:2: is of version 2; this version reads 1\n\
                 redrivectl: {KEY}:3: lay in a FIFO queue and the requeue is none, or the other way round\n"
            )
        );
        assert!(ran.out.contains("  unreadable  1 line or object\n"), "{}", ran.out);
        assert!(ran.out.contains("  left out    1 letter: otherKind\n"), "{}", ran.out);
    }
    assert_eq!(sent_ids(&cloud), ids(&[Post::envelope("a")]));
}

#[tokio::test]
async fn a_letter_without_a_target_by_the_policy_is_left_out_unless_it_is_given_one() {
    let cloud = graveyard(&[Post::raw("r", "names nobody")]);
    let policy = File::of("replay-policy.json", "{}");
    let ran = replay(&cloud, &["--dry-run", "--policy", policy.path()]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("  left out  1 letter: noTarget\n"), "{}", ran.out);
    assert!(ran.err.starts_with(&format!("redrivectl: {KEY}:1: has no target")), "{}", ran.err);

    assert_eq!(replay(&cloud, &["--dry-run", "--json"]).await.json()["counts"]["selected"], 1);
    replay(&cloud, &["--policy", policy.path(), "--to", NOTIFIER]).await.text();
    assert_eq!(sent(&cloud)[0].1["to"], NOTIFIER);
}

#[tokio::test]
async fn everything_on_the_command_line_reaches_the_request() {
    let cloud = graveyard(&[]);
    let world = World::on(&cloud);
    let pattern = r#"{"messageAttributes": {"tenant": ["gold"]}}"#;
    let all = "--since 2026-10-30 --until 2026-10-31T18:00:00Z --reason exhausted --reason rule --topic orders \
               --origin sns --queue orders-dlq --cut-off 2026-11-01T00:00:00Z --to topic --rate 7 --ramp 10,100 \
               --threshold 3 --settle 2m --again --resume --dry-run --json";
    let args: Vec<_> = ["replay", "--match", pattern].into_iter().chain(all.split_whitespace()).collect();
    let manifest = redrivectl_in(world, &[&args, &PLACE[..]].concat()).await.json();
    assert_eq!(
        manifest["request"],
        json!({
            "select": {
                "from": "2026-10-30T00:00:00Z", "to": "2026-10-31T18:00:00Z", "reasons": ["exhausted", "rule"],
                "topics": ["orders"], "origins": ["sns"], "queue": "orders-dlq",
                "match": { "messageAttributes": { "tenant": ["gold"] } },
            },
            "cutOff": "2026-11-01T00:00:00Z", "to": "topic", "rate": 7, "ramp": [10, 100], "threshold": 3,
            "settleSeconds": 120, "again": true, "resume": true, "dryRun": true,
        })
    );
}

#[tokio::test]
async fn without_options_it_is_the_request_that_an_empty_event_is() {
    let cloud = graveyard(&[]);
    let world = World::on(&cloud);
    let args = [&["replay", "--dry-run", "--json"], &PLACE[..]].concat();
    let manifest = redrivectl_in(world, &args).await.json();
    let of_event = sns_redrive::replay::Request::from_json(json!({ "dryRun": true })).unwrap();
    assert_eq!(manifest["request"], serde_json::to_value(of_event).unwrap());
}

#[tokio::test]
async fn bad_usage_is_told_before_anything_is_called() {
    let cloud = graveyard(&ten());
    let records = File::of("replay-records.jsonl", &line(&Post::envelope("a")));
    for (args, said) in [
        (&["--ramp", "5,1,100"][..], "ramp: must be rising"),
        (&["--ramp", "5,50"], "ramp: must be rising"),
        (&["--rate", "0"], "0 is not in 1..=10000"),
        (&["--threshold", "101"], "101 is not in 0..=100"),
        (&["--settle", "2h"], "must be 0 s to one hour"),
        (&["--to", "the moon"], "must be topic, or the ARN of"),
        (&["--cut-off", "2026-11-02"], "cutOff: must not lie in the future"),
        (&["--since", "1h", "--until", "2h"], "--until must be later than --since"),
        (&["--match", "{}"], "--match must be an object"),
        (&["--policy", "/nowhere"], "cannot read /nowhere"),
        (&["--from", "/nowhere"], "cannot read /nowhere"),
        (&["--from", "-", "--policy", "-"], "cannot both be standard input"),
        (&["--from", "-"], "no record is given"),
        (&["--from", records.path(), "--queue", "orders-dlq"], "cannot be used with"),
        (&["--from", records.path(), "--cut-off", "1h"], "cannot be used with"),
    ] {
        let world = World::on(&cloud);
        let ran = redrivectl_in(world, &[&["replay"], args, &PLACE[..]].concat()).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    assert_eq!(cloud.summary(), Vec::<String>::new());
}

#[tokio::test]
async fn the_requeue_must_be_named() {
    for requeue in [&[][..], &["--requeue", "orders-requeue"], &["--requeue", NOTIFIER]] {
        let args = [&["replay", "--archive", "s3://graveyard"], requeue].concat();
        let ran = redrivectl(&args).await;
        assert_eq!(ran.code, 2);
        assert_eq!(
            ran.err,
            "redrivectl: --requeue (or REQUEUE_ARN) must be the ARN of the function's requeue\n"
        );
    }
}

#[tokio::test]
async fn ctrl_c_ends_it_after_the_batch_under_way_and_the_same_command_goes_on() {
    let posts: Vec<_> = (0..600).map(|number| Post::envelope(&number.to_string())).collect();
    let cloud = graveyard(&posts);
    let interrupted = Arc::new(AtomicBool::new(false));
    let ctrl_c = Arc::clone(&interrupted);
    cloud.script(move |call| {
        ctrl_c.fetch_or(call.operation == "SendMessageBatch", Ordering::Relaxed);
        Fault::Pass
    });
    let world = World { interrupted, ..World::default() };
    let ran = replay_in(world, &cloud, &["--ramp", "100"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(ran.out.lines().next().unwrap().ends_with(": interrupted in step 1 of 1."), "{}", ran.out);
    assert!(ran.out.contains("  sent      500 letters\n"), "{}", ran.out);
    assert!(ran.out.ends_with("\nTo go on, give the same command again.\n"), "{}", ran.out);

    cloud.script(|_| Fault::Pass);
    let done = replay(&cloud, &["--ramp", "100", "--json"]).await.json();
    assert_eq!((&done["status"], &done["sent"], &done["repeated"]), (&json!("done"), &json!(600), &json!(0)));
    assert_eq!(sent_ids(&cloud), ids(&posts));
}

#[tokio::test]
async fn ctrl_c_while_it_counts_sends_nothing() {
    let cloud = graveyard(&ten());
    let world = World { interrupted: Arc::new(AtomicBool::new(true)), ..World::default() };
    let ran = replay_in(world, &cloud, &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err, "redrivectl: interrupted while it counted; nothing was sent\n");
    assert_eq!(sent_ids(&cloud), ids(&[]));
}

#[tokio::test]
async fn a_step_that_fails_stops_it_until_it_is_told_to_resume() {
    let cloud = graveyard(&ten());
    let some_are_sent = AtomicBool::new(false);
    cloud.script(move |call| {
        let waits = r#"{"Attributes": {"ApproximateNumberOfMessages": "2"}}"#;
        let sent = some_are_sent.fetch_or(call.operation == "SendMessageBatch", Ordering::Relaxed);
        if sent && call.operation == "GetQueueAttributes" && call.target == "orders-requeue" {
            Fault::Nonsense(200, waits.to_owned())
        } else {
            Fault::Pass
        }
    });
    let ran = replay(&cloud, &["--ramp", "20,100"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.lines().next().unwrap().ends_with(": stopped in step 1 of 2."), "{}", ran.out);
    let why = "of 2 letters of step 1: 0 refused by SQS, 0 back in the archive, 2 more than before wait in the queues";
    assert!(ran.out.contains(&format!("  because   {why}\n")), "{}", ran.out);
    assert!(ran.out.ends_with("\nMend that, then go on: the same command with --resume.\n"), "{}", ran.out);
    assert_eq!(sent(&cloud).len(), 2);

    let ran = replay(&cloud, &["--ramp", "20,100"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains(why), "{}", ran.err);
    assert!(ran.err.ends_with("\nredrivectl: mend that, then go on with --resume\n"), "{}", ran.err);
    assert_eq!(sent(&cloud).len(), 2);

    cloud.script(|_| Fault::Pass);
    let done = replay(&cloud, &["--ramp", "20,100", "--resume"]).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(sent_ids(&cloud), ids(&ten()));
}

#[tokio::test]
async fn another_replay_under_way_is_a_failure_that_names_the_end_of_its_lock() {
    let cloud = graveyard(&ten());
    let lock =
        json!({ "version": 1, "owner": "the function", "token": "1", "until": "2026-11-01T12:00:20Z" });
    cloud.put("graveyard/dead-letters/replays/lock.json", &lock.to_string());
    let ran = replay(&cloud, &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("redrivectl: another replay is under way"), "{}", ran.err);
    assert!(ran.err.contains("2026-11-01T12:00:20Z"), "{}", ran.err);
    assert_eq!(sent_ids(&cloud), ids(&[]));
}

#[tokio::test]
async fn times_so_long_ago_are_told_as_what_the_replay_is_known_by() {
    let cloud = graveyard(&ten());
    let ran = replay(&cloud, &["--since", "36h", "--until", "1h"]).await;
    assert_eq!(
        ran.err,
        "redrivectl: to go on with this replay later, give --since 2026-10-31T00:00:00Z\n\
         redrivectl: to go on with this replay later, give --until 2026-11-01T11:00:00Z\n"
    );
    assert_eq!((ran.code, sent(&cloud).len()), (0, 10));
}

#[tokio::test]
async fn a_person_sees_how_far_it_is() {
    let cloud = graveyard(&ten());
    let world = World { progress: true, ..World::default() };
    let ran = replay_in(world, &cloud, &["--ramp", "50,100"]).await;
    assert_eq!(ran.code, 0);
    assert!(ran.err.starts_with("\r\x1b[Kcounting"), "{:?}", ran.err);
    let half = "\r\x1b[K[##########..........] 5 of 10 letters, step 1 of 2";
    let all = "\r\x1b[K[####################] 10 of 10 letters, step 2 of 2";
    assert!(ran.err.contains(half) && ran.err.contains(all), "{:?}", ran.err);
    assert!(ran.err.ends_with("\r\x1b[K"), "{:?}", ran.err);
}

mod given {
    use super::*;

    /// What `archive show --json` writes of a letter.
    async fn shown(cloud: &Account, post: &Post) -> Value {
        let world = World::on(cloud);
        let args = ["archive", "show", "--json", "--archive", PLACE[1], &letter(post).sqs.message_id];
        let text = redrivectl_in(world, &args).await.text();
        serde_json::from_str(&text).unwrap()
    }

    async fn replay_given(cloud: &Account, lines: &str) -> Ran {
        let world = World { input: lines.as_bytes().to_vec(), ..World::default() };
        replay_in(world, cloud, &["--from", "-"]).await
    }

    #[tokio::test]
    async fn an_edited_letter_goes_instead_of_the_archived_one_and_says_so() {
        let posts = ten();
        let cloud = graveyard(&posts);
        let plain = shown(&cloud, &posts[0]).await;
        let mut edited = shown(&cloud, &posts[1]).await;
        let body = edited["message"]["body"].as_str().unwrap().replace("message of 1", "mended");
        edited["message"]["body"] = body.clone().into();
        replay_given(&cloud, &format!("{plain}\n{edited}\n")).await.text();
        let entries = cloud.entries("SendMessageBatch");
        assert_eq!(entries.len(), 2);
        for entry in &entries {
            let mark: Value = serde_json::from_str(&entry.attributes["sns-redrive"].value.text()).unwrap();
            let is_edited = entry.body == body;
            assert_eq!(mark.get("edited"), is_edited.then_some(&json!(true)), "{mark}");
        }

        cloud.forget();
        replay(&cloud, &[]).await.text();
        assert_eq!(sent_ids(&cloud), ids(&posts[2..]), "neither of them goes once more");
    }

    #[tokio::test]
    async fn without_a_digest_a_letter_counts_as_edited() {
        let posts = ten();
        let cloud = graveyard(&posts);
        let mut record = shown(&cloud, &posts[0]).await;
        record.as_object_mut().unwrap().remove("digest");
        replay_given(&cloud, &record.to_string()).await.text();
        assert_eq!(sent(&cloud)[0].1["edited"], true);
    }

    #[tokio::test]
    async fn a_bad_line_is_told_by_its_number_and_the_rest_goes() {
        let posts = ten();
        let cloud = graveyard(&posts);
        let record = shown(&cloud, &posts[0]).await;
        let ran = replay_given(&cloud, &format!("{{\"S3CR3T\n{record}\n\n[]\n")).await;
        assert_eq!(ran.code, 1);
        assert_eq!(
            ran.err,
            "redrivectl: line 1: is not JSON (column 8)\n\
             redrivectl: line 3: is not JSON (column 0)\n\
             redrivectl: line 4: is no record of an archive: it has no version\n"
        );
        assert_eq!(sent_ids(&cloud), ids(&posts[..1]));
    }

    #[tokio::test]
    async fn records_over_many_lines_are_refused_with_the_way_out() {
        let posts = ten();
        let cloud = graveyard(&posts);
        let record = serde_json::to_string_pretty(&shown(&cloud, &posts[0]).await).unwrap();
        let ran = replay_given(&cloud, &record).await;
        assert_eq!(ran.code, 2);
        assert_eq!(ran.err, "redrivectl: records must be given one a line, as jq -c writes them\n");
    }
}

#[tokio::test]
async fn help_says_what_the_exit_codes_of_a_replay_mean() {
    let help = redrivectl(&["replay", "--help"]).await.text();
    for line in
        ["  0  every letter that was asked for is sent", "  1  it stopped, was interrupted", "  2  bad usage"]
    {
        assert!(help.contains(line), "{help}");
    }
}

#[test]
fn the_requeue_can_be_that_of_the_variable() {
    let said = |requeue| {
        let variables = [("ARCHIVE", "s3://graveyard"), ("REQUEUE_ARN", requeue)];
        let ran = super::program(&["replay", "--dry-run"], &variables);
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    assert_eq!(said(REQUEUE).1, "redrivectl: no region: give --region, AWS_REGION or a profile with one\n");
    assert_eq!(said("orders-requeue").0, Some(2));
}

//! `replay`: what an operator types, and what is told of it. What a replay does is in `tests/function/replay`.

mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{File, Ran, World, records, redrivectl, redrivectl_in};
use support::{Account, BILLING, CALLER, DLQ, FIFO_DLQ, Fault, NOTIFIER, Post, REQUEUE, WORKER, letter};

pub(super) const PLACE: [&str; 4] = ["--archive", "s3://graveyard/dead-letters", "--requeue", REQUEUE];
const KEY: &str = "dead-letters/queue=orders-dlq/date=2026-10-31/20261031T120000Z-r1.jsonl";

/// The same with an index of ten letters.
const INDEXED: &str = "dead-letters/queue=orders-dlq/date=2026-10-31/20261031T120000.000Z-r1.2-n10-r0.jsonl";

/// Ten letters whose object has no index: their number is known from its size.
const SELECTED: &str = "  selected  at most 30 letters, archived before 2026-11-01 11:59:55 UTC";

/// Without waits between the steps.
const AT_ONCE: [&str; 4] = ["--settle", "0", "--rate", "10000"];

/// An archive with one object, a line for each of these letters, and an empty requeue.
pub(super) fn graveyard(posts: &[Post]) -> Account {
    graveyard_of(KEY, posts)
}

fn graveyard_of(key: &str, posts: &[Post]) -> Account {
    let cloud = Account::new();
    let lines: Vec<_> = posts.iter().map(|post| line(post) + "\n").collect();
    cloud.put_at(&format!("graveyard/{key}"), &lines.concat(), "2026-10-31T12:00:00.000Z");
    for queue in ["orders-requeue", "orders-dlq"] {
        cloud.drained(queue);
    }
    cloud
}

pub(super) fn line(post: &Post) -> String {
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

/// Replays the whole archive, where nothing is selected.
async fn replay_in(world: World, cloud: &Account, args: &[&str]) -> Ran {
    let world = World { config: World::on(cloud).config, ..world };
    let selects = ["--resume", "--from", "--since", "--match", "--queue", "--not-replayed"]
        .iter()
        .any(|it| args.contains(it));
    let all: &[&str] = if selects { &[] } else { &["--all"] };
    redrivectl_in(world, &[&["replay"], args, all, &PLACE, &AT_ONCE].concat()).await
}

/// `replays` and what follows.
async fn replays(cloud: &Account, args: &[&str]) -> Ran {
    let args = [&["replays"], args, &PLACE[..2]].concat();
    redrivectl_in(World::on(cloud), &args).await
}

async fn archive(cloud: &Account, args: &[&str]) -> Ran {
    redrivectl_in(World::on(cloud), &[&["archive"], args, &PLACE[..2]].concat()).await
}

/// The id of the replay that a summary is about.
fn id_of(ran: &Ran) -> String {
    let first = ran.out.lines().next().unwrap();
    first.strip_prefix("Replay ").unwrap().split(':').next().unwrap().to_owned()
}

/// What the requeue was sent, as `letter id, mark`, in order of their ids.
pub(super) fn sent(cloud: &Account) -> Vec<(String, Value)> {
    let marks = cloud.entries("SendMessageBatch").into_iter();
    let marks = marks
        .map(|entry| serde_json::from_str::<Value>(&entry.attributes["sns-redrive"].value.text()).unwrap());
    let mut sent: Vec<_> = marks.map(|mark| (mark["id"].as_str().unwrap().to_owned(), mark)).collect();
    sent.sort_by(|one, other| one.0.cmp(&other.0));
    sent
}

pub(super) fn ids(posts: &[Post]) -> Vec<String> {
    let mut ids: Vec<_> = posts.iter().map(|post| letter(post).id.to_string()).collect();
    ids.sort();
    ids
}

pub(super) fn sent_ids(cloud: &Account) -> Vec<String> {
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
        [SELECTED, "  to send   10 letters", "  doubles   2 records, stored twice after a crash",]
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
        let cloud = graveyard_of(key, &ten());
        for dry_run in [&["--dry-run"][..], &[]] {
            let told = replay(&cloud, &[cut_off, dry_run].concat()).await.text();
            assert_eq!(told.lines().nth(1).unwrap(), format!("  selected  {selected}"), "{told}");
        }
    }
    let cloud = graveyard_of(INDEXED, &ten());
    let state = replay(&cloud, &["--json", "--cut-off", "2026-10-31T18:00:00Z"]).await.json();
    assert_eq!((&state["cutOff"], &state["exact"]), (&json!("2026-10-31T18:00:00Z"), &json!(true)));
    let ran = replay(&cloud, &["--cut-off", "2026-11-02"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("cutOff: must not lie in the future"), "{}", ran.err);
}

#[tokio::test]
async fn letters_go_to_the_requeue_as_a_new_generation_and_once() {
    let cloud = graveyard(&ten());
    let told = replay(&cloud, &[]).await.text();
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("Replay ") && lines[0].ends_with(": done."), "{told}");
    assert_eq!(lines[2..], ["  sent      10 letters"]);
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
    let cloud = graveyard(&[]);
    let good = line(&Post::envelope("a"));
    let fifo = line(&Post::envelope("f").queue(FIFO_DLQ));
    let lines = format!("{good}\n{{\"version\": 2}}\n{fifo}\n");
    cloud.put_at(&format!("graveyard/{KEY}"), &lines, "2026-10-31T12:00:00.000Z");
    for (args, code) in [(&["--dry-run"][..], 3), (&[], 3)] {
        let ran = replay(&cloud, args).await;
        assert_eq!(ran.code, code);
        assert_eq!(
            ran.err,
            format!(
                "redrivectl: {KEY}:2: is of version 2; this version reads 1\n\
                 redrivectl: {KEY}:3: lay in a FIFO queue and the requeue is none, or the other way round\n"
            )
        );
        assert!(ran.out.contains("  unreadable  1 line\n"), "{}", ran.out);
        assert!(ran.out.contains("  left out    1 letter: otherKind\n"), "{}", ran.out);
    }
    assert_eq!(sent_ids(&cloud), ids(&[Post::envelope("a")]));
}

#[tokio::test]
async fn a_letter_without_a_target_by_the_policy_is_left_out_unless_it_is_given_one() {
    let cloud = graveyard(&[Post::raw("r", "names nobody")]);
    let policy = File::of("replay-policy.json", "{}");
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
    let cloud = graveyard(&[]);
    let world = World::on(&cloud);
    let pattern = r#"{"messageAttributes": {"tenant": ["gold"]}}"#;
    let all = format!(
        "--since 2026-10-30 --until 2026-10-31T18:00:00Z --reason exhausted --reason rule --topic orders \
               --origin sns --queue orders-dlq --cut-off 2026-11-01T00:00:00Z --to topic --rate 7 --ramp 10,100 \
               --threshold 3 --settle 2m --again --why mended --error KMS.DisabledException --target {WORKER} --dry-run --json"
    );
    let args: Vec<_> = ["replay", "--match", pattern].into_iter().chain(all.split_whitespace()).collect();
    let manifest = redrivectl_in(world, &[&args, &PLACE[..]].concat()).await.json();
    assert_eq!(
        manifest["request"],
        json!({
            "select": {
                "from": "2026-10-30T00:00:00Z", "to": "2026-10-31T18:00:00Z", "reasons": ["exhausted", "rule"],
                "topics": ["orders"], "origins": ["sns"], "queue": "orders-dlq",
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
    let cloud = graveyard(&[]);
    let args = [&["replay", "--all", "--dry-run", "--json"], &PLACE[..]].concat();
    let state = redrivectl_in(World::on(&cloud), &args).await.json();
    let event = json!({ "dryRun": true, "all": true });
    let of_event = sns_redrive::replay::Request::from_json(event).unwrap();
    assert_eq!(state["request"], serde_json::to_value(of_event).unwrap());
}

/// Whoever forgets to select does not mean the archive of all years.
#[tokio::test]
async fn nothing_selected_is_not_everything() {
    let cloud = graveyard(&ten());
    let ran = redrivectl_in(World::on(&cloud), &[&["replay"], &PLACE[..]].concat()).await;
    let said = "redrivectl: which letters? Give --topic, --since, --reason or others, or --all for the whole archive\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, said));
}

/// Any queue would take every letter, and deliver none.
#[tokio::test]
async fn a_mistyped_requeue_is_refused_in_a_dry_run_too() {
    for args in [&["--dry-run"][..], &[]] {
        let cloud = graveyard(&ten());
        let place = ["--archive", "s3://graveyard/dead-letters", "--requeue", BILLING];
        let ran = redrivectl_in(World::on(&cloud), &[&["replay", "--all"], args, &place].concat()).await;
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("orders-billing has no tag sns-redrive=requeue"), "{}", ran.err);
        assert_eq!(cloud.calls("SendMessageBatch").len(), 0);
    }
}

#[tokio::test]
async fn bad_usage_is_told_before_anything_is_called() {
    let cloud = graveyard(&ten());
    let records = File::of("replay-records.jsonl", &line(&Post::envelope("a")));
    for (args, said) in [
        (&["--ramp", "5,1,100"][..], "ramp: must be rising"),
        (&["--ramp", "5,50"], "ramp: must be rising"),
        (&["--rate", "0"], "0 is not in 1..=1000000"),
        (&["--threshold", "101"], "101 is not in 0..=100"),
        (&["--settle", "2h"], "must be 0 s to one hour"),
        (&["--to", "the moon"], "must be topic, or the ARN of"),
        (&["--resume", "x", "--queue", "orders-dlq"], "cannot be used with"),
        (&["--resume", "x", "--again"], "cannot be used with"),
        (&["--all", "--queue", "orders-dlq"], "cannot be used with"),
        (&["--since", "1h", "--until", "2h"], "--until must be later than --since"),
        (&["--match", "{}"], "--match must be an object"),
        (&["--all", "--policy", "/nowhere"], "cannot read /nowhere"),
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
        let args = [&["replay", "--archive", "s3://graveyard/dead"], requeue].concat();
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
    let posts: Vec<_> = (0..600).map(|number| Post::envelope(&number.to_string())).collect();
    let cloud = graveyard(&posts);
    let interrupted = Arc::new(AtomicBool::new(false));
    let ctrl_c = Arc::clone(&interrupted);
    cloud.script(move |call| {
        ctrl_c.fetch_or(call.operation == "SendMessageBatch", Ordering::Relaxed);
        Fault::Pass
    });
    let world = World { interrupted, ..World::default() };
    let ran = replay_in(world, &cloud, &["--ramp", "20,100"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (4, ""));
    let id = id_of(&ran);
    assert!(ran.out.lines().next().unwrap().contains(": not at its end, in step 1 of 2."), "{}", ran.out);
    assert!(ran.out.ends_with(&format!("\nTo go on: redrivectl replay --resume {id}\n")), "{}", ran.out);

    cloud.script(|_| Fault::Pass);
    let done = replay(&cloud, &["--resume", &id, "--json"]).await.json();
    let counts = &done["counts"];
    assert_eq!((&done["status"], &done["id"]), (&json!("done"), &json!(id)));
    assert_eq!((&counts["sent"], counts.get("repeated")), (&json!(600), None));
    assert_eq!(sent_ids(&cloud), ids(&posts));
}

#[tokio::test]
async fn ctrl_c_before_it_knows_what_is_selected_sends_nothing() {
    let cloud = graveyard(&ten());
    let world = World { interrupted: Arc::new(AtomicBool::new(true)), ..World::default() };
    let ran = replay_in(world, &cloud, &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    assert_eq!(ran.err, "redrivectl: interrupted while it looked through the archive; nothing was sent\n");
    assert_eq!(sent_ids(&cloud), ids(&[]));
}

/// A replay that stopped since two letters of its first step still wait; its id.
async fn stopped(cloud: &Account) -> (String, Ran) {
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
    let ran = replay(cloud, &["--ramp", "8,100", "--why", "the outage of May"]).await;
    cloud.script(|_| Fault::Pass);
    (id_of(&ran), ran)
}

/// Callers who look for ledgers in two places would each send the letters.
#[tokio::test]
async fn replays_are_kept_where_the_function_keeps_them_whether_or_not_the_archive_is_named() {
    let cloud = graveyard(&ten());
    let control: fn(&str) -> Option<String> =
        |name| (name == "CONTROL").then(|| "s3://graveyard/orders".to_owned());
    let world = || World { variable: Some(control), ..World::on(&cloud) };
    replay_in(world(), &cloud, &[]).await.text();
    let kept_in = |place: &str| cloud.objects().keys().any(|key| key.starts_with(place));
    assert!(kept_in("graveyard/orders/replays/") && !kept_in("graveyard/dead-letters-control/"));
    let shown = redrivectl_in(world(), &["replays", PLACE[0], PLACE[1]]).await.text();
    assert!(shown.ends_with("\n1 replay.\n"), "{shown}");

    // What the command line says goes before.
    let elsewhere = ["--control", "s3://graveyard/orders"];
    let told = replay(&cloud, &elsewhere).await.text();
    assert!(told.contains("  passed over  10 letters, replayed already\n"), "{told}");
    let other = ["--control", "s3://graveyard/other"];
    assert_eq!(replay_in(world(), &cloud, &other).await.code, 0);
    assert!(kept_in("graveyard/other/replays/"));
    let off: fn(&str) -> Option<String> = |name| (name == "CONTROL").then(|| "off".to_owned());
    let off = World { variable: Some(off), ..World::on(&cloud) };
    let ran = replay_in(off, &cloud, &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.contains("CONTROL is off: replays keep there what they have sent; give --control"),
        "{}",
        ran.err
    );
}

/// An object that somebody else named may lie behind all that begin with a time.
#[tokio::test]
async fn letters_of_an_object_with_any_name_are_sent() {
    let cloud = graveyard(&ten());
    for name in ["~last", "\u{e9}t\u{e9}"] {
        let key = KEY.replace("20261031T120000Z-r1", name);
        cloud.put_at(&format!("graveyard/{key}"), &line(&Post::envelope(name)), "2026-10-31T12:00:00.000Z");
    }
    let told = replay(&cloud, &[]).await.text();
    assert!(told.contains("  sent      12 letters\n"), "{told}");
    assert_eq!(archive(&cloud, &["list", "--json"]).await.json()["notReplayed"], 0);
}

mod not_replayed {
    use super::*;

    #[tokio::test]
    async fn letters_that_no_replay_has_sent_are_counted_and_chosen() {
        let cloud = graveyard(&ten());
        let all = archive(&cloud, &["list", "--by", "topic"]).await.text();
        assert!(all.starts_with("topic ") && all.contains("  letters  not replayed  first (UTC)"), "{all}");
        assert!(all.ends_with("\n10 letters, 10 not replayed.\n"), "{all}");

        stopped(&cloud).await;
        let gone = sent_ids(&cloud);
        assert_eq!(gone.len(), 2);
        let list = archive(&cloud, &["list", "--json"]).await.json();
        let group = &list["groups"][0];
        assert_eq!((&group["letters"], &group["notReplayed"]), (&json!(10), &json!(8)));
        assert_eq!((&list["letters"], &list["notReplayed"]), (&json!(10), &json!(8)));
        let list = archive(&cloud, &["list", "--json", "--not-replayed"]).await.json();
        assert_eq!((&list["letters"], &list["notReplayed"]), (&json!(8), &json!(8)));
        let shown = archive(&cloud, &["show", "--json", "--not-replayed"]).await.text();
        let shown: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_gone = |record: &&Value| gone.iter().any(|id| record["letterId"] == **id);
        assert_eq!((shown.len(), shown.iter().filter(is_gone).count()), (8, 0));

        // It says which letters, so nothing else need be said.
        let told = replay(&cloud, &["--not-replayed", "--new"]).await.text();
        assert!(told.contains("  sent         8 letters\n"), "{told}");
        assert_eq!(sent_ids(&cloud), ids(&ten()), "each letter once");
        assert_eq!(archive(&cloud, &["list", "--not-replayed"]).await.text(), "0 letters.\n");
        let ran = replay(&cloud, &["--not-replayed", "--again"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    }

    /// Letters that a replay may have sent, without knowing it, are not known to be sent.
    #[tokio::test]
    async fn letters_in_doubt_count_as_not_replayed() {
        let cloud = graveyard(&ten());
        let identity = |post: &Post| records::record(&letter(post)).identity();
        let entry =
            json!({ "replay": "one", "sent": [identity(&ten()[0])], "sending": [identity(&ten()[1])] });
        let ledger =
            "graveyard/dead-letters-control/replays/queues/queue=orders-dlq/hour=20261031T12/000000.json";
        cloud.put(ledger, &json!({ "version": 1, "entries": [entry] }).to_string());
        assert_eq!(archive(&cloud, &["list", "--json"]).await.json()["notReplayed"], 9);
    }

    /// What replays know is asked for once a queue, and once an hour in which one has been.
    #[tokio::test]
    async fn hours_without_a_replay_cost_no_call() {
        let cloud = Account::new();
        let posts: Vec<_> = (10..20).map(|hour| Post::envelope(&hour.to_string())).collect();
        for (hour, post) in (10..20).zip(&posts) {
            let key = KEY.replace("T12", &format!("T{hour}"));
            let record = line(post).replace("T12:00:00Z", &format!("T{hour}:00:00Z"));
            cloud.put_at(&format!("graveyard/{key}"), &record, "2026-10-31T22:00:00.000Z");
        }
        let hour = "graveyard/dead-letters-control/replays/queues/queue=orders-dlq/hour=20261031T15";
        let sent = records::record(&letter(&posts[5])).identity();
        let ledger = json!({ "version": 1, "entries": [{ "replay": "one", "sent": [sent] }] });
        cloud.put(&format!("{hour}/000000.json"), &ledger.to_string());
        let list = archive(&cloud, &["list", "--json", "--by", "hour"]).await.json();
        let left: Vec<_> =
            list["groups"].as_array().unwrap().iter().map(|group| &group["notReplayed"]).collect();
        assert_eq!(left, [1, 1, 1, 1, 1, 0, 1, 1, 1, 1]);
        let control: Vec<_> = cloud.summary().into_iter().filter(|call| call.contains("control")).collect();
        assert_eq!(control.len(), 3, "{control:?}");
    }

    #[tokio::test]
    async fn where_nobody_can_say_it_the_list_goes_without_and_a_choice_is_refused() {
        let cloud = graveyard(&ten());
        cloud.script(|call| {
            let asks = call.target.contains("dead-letters-control");
            if asks { Fault::refuse(403, "AccessDenied", "no") } else { Fault::Pass }
        });
        let ran = archive(&cloud, &["list"]).await;
        assert_eq!(ran.code, 0);
        assert!(ran.out.ends_with("\n10 letters.\n") && !ran.out.contains("not replayed"), "{}", ran.out);
        let said = "redrivectl: nobody can say which letters were replayed: listing dead-letters-control/replays/queues/";
        assert!(ran.err.starts_with(said) && ran.err.lines().count() == 1, "{}", ran.err);
        for command in ["list", "show"] {
            let ran = archive(&cloud, &[command, "--not-replayed"]).await;
            assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{command}: {}", ran.err);
            assert!(ran.err.contains("AccessDenied"), "{}", ran.err);
        }
        // Where the function has no place for it, nobody replays.
        let off = World { variable: Some(|_| Some("off".to_owned())), ..World::on(&cloud) };
        let text = redrivectl_in(off, &["archive", "list", PLACE[0], PLACE[1]]).await.text();
        assert!(text.ends_with("\n10 letters.\n"), "{text}");
    }
}

#[tokio::test]
async fn a_step_that_fails_stops_it_and_it_is_not_taken_up_unasked() {
    let cloud = graveyard(&ten());
    let (id, ran) = stopped(&cloud).await;
    assert_eq!(ran.code, 4);
    assert!(ran.out.lines().next().unwrap().ends_with(": stopped in step 1 of 2."), "{}", ran.out);
    let why = "of 2 letters of step 1: 0 refused by SQS, 0 back in the archive, 2 more than before wait in the queues";
    assert!(ran.out.contains(&format!("  because   {why}\n")), "{}", ran.out);
    assert_eq!(sent(&cloud).len(), 2);

    // A script is told, and begins anew.
    let ran = replay(&cloud, &["--ramp", "8,100"]).await;
    assert_eq!(ran.code, 0);
    let said = format!(
        "redrivectl: replay {id} of the same letters is stopped, not at its end: begun 2026-11-01 12:00:00 UTC by {CALLER}, \
         2 letters sent, letters archived before 2026-11-01 11:59:55 UTC\n\
         redrivectl: a new replay begins; --resume {id} goes on with that one\n"
    );
    assert_eq!(ran.err, said);
    assert_ne!(id_of(&ran), id);
    assert_eq!(sent_ids(&cloud), ids(&ten()));
    // With --new nothing is said.
    let ran = replay(&cloud, &["--new"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[tokio::test]
async fn a_person_is_asked_whether_to_go_on_with_what_is_not_at_its_end() {
    for (answer, goes_on) in [("y\n", true), ("\n", false)] {
        let cloud = graveyard(&ten());
        let (id, _) = stopped(&cloud).await;
        let world = World { answers: true, input: answer.as_bytes().to_vec(), ..World::default() };
        let ran = replay_in(world, &cloud, &["--ramp", "8,100"]).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.ends_with("Go on with it? Without, a new replay begins [y/N] "), "{}", ran.err);
        assert_eq!(id_of(&ran) == id, goes_on);
        assert_eq!(sent_ids(&cloud), ids(&ten()), "each letter once");
    }
}

#[tokio::test]
async fn replays_are_listed_shown_stopped_and_freed_from_anywhere() {
    let cloud = graveyard(&ten());
    assert_eq!(replays(&cloud, &[]).await.text(), "No replays.\n");
    let (id, _) = stopped(&cloud).await;
    let list = replays(&cloud, &[]).await.text();
    let row = list.lines().nth(1).unwrap();
    assert!(row.contains(&id) && row.contains("stopped") && row.contains(CALLER), "{list}");
    assert!(list.ends_with("\n1 replay.\n"), "{list}");
    let listed = replays(&cloud, &["--json"]).await.json();
    assert_eq!(listed["replays"][0]["id"], json!(id));

    let shown = replays(&cloud, &["show", &id]).await.text();
    assert!(shown.contains("  why       the outage of May\n"), "{shown}");
    assert!(shown.contains("  begun     2026-11-01 12:00:00 UTC by"), "{shown}");
    let stop = replays(&cloud, &["stop", &id, "--why", "enough"]).await.text();
    assert!(stop.ends_with("\nIt stops after the letters under way, wherever it runs.\n"), "{stop}");
    let freed = replays(&cloud, &["free", &id, "--why", "nobody goes on", "--by", "jo"]).await.text();
    assert!(freed.contains("  freed     2026-11-01 12:00:00 UTC by jo: nobody goes on\n"), "{freed}");
    let ran = replay(&cloud, &["--resume", &id]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("its letters in doubt were freed"), "{}", ran.err);

    let unknown = replays(&cloud, &["show", "20200101T000000Z-nobody"]).await;
    assert_eq!(unknown.code, 1);
    assert_eq!(unknown.err, "redrivectl: there is no replay 20200101T000000Z-nobody\n");
}

/// Whoever only looks is not asked who it is, and needs no permission to be told.
#[tokio::test]
async fn aws_is_asked_who_the_caller_is_only_where_that_is_kept() {
    let cloud = graveyard(&ten());
    let (id, _) = stopped(&cloud).await;
    for (args, asks) in [
        (&[][..], 0),
        (&["show", &id], 0),
        (&["stop", &id, "--by", "jo"], 0),
        (&["stop", &id], 1),
        (&["free", &id], 1),
    ] {
        cloud.forget();
        replays(&cloud, args).await.text();
        assert_eq!(cloud.calls("GetCallerIdentity").len(), asks, "{args:?}");
    }
    for option in ["--why", "--by"] {
        let ran = replays(&cloud, &["show", &id, option, "x"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{option} says nothing of what is only shown");
    }
}

#[tokio::test]
async fn what_aws_denies_and_what_fails_have_codes_of_their_own_in_json_too() {
    for (fault, code, kind) in [(Fault::Denied, 6, "denied"), (Fault::Unavailable, 1, "failed")] {
        let cloud = graveyard(&ten());
        let fault_of = fault.clone();
        cloud.script(
            move |call| if call.operation == "ListObjectsV2" { fault_of.clone() } else { Fault::Pass },
        );
        let ran = replay(&cloud, &["--json"]).await;
        assert_eq!(ran.code, code, "{ran:?}");
        let error: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(error["kind"], kind);
        assert!(
            error["error"].as_str().unwrap().starts_with("listing dead-letters-control/replays/"),
            "{error}"
        );
    }
}

/// Another worker is at these letters, and alive.
#[tokio::test(start_paused = true)]
async fn whoever_finds_another_at_work_waits_a_while_and_says_so() {
    let cloud = graveyard(&ten());
    let ledger =
        "graveyard/dead-letters-control/replays/queues/queue=orders-dlq/hour=20261031T12/000000.json";
    let claim = json!({ "replay": "20261101T115900Z-0123ab", "worker": "other", "number": 1 });
    cloud.put(ledger, &json!({ "version": 1, "claim": claim, "entries": [] }).to_string());
    let ran = replay(&cloud, &["--json"]).await;
    assert_eq!(ran.code, 5, "{ran:?}");
    let error: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(error["kind"], "busy");
    assert!(ran.err.contains("replay 20261101T115900Z-0123ab is at work on letters of this"), "{}", ran.err);
    assert_eq!(sent_ids(&cloud), ids(&[]));
}

/// Each time another has written first.
#[tokio::test]
async fn a_wish_to_stop_that_cannot_be_written_is_an_error_of_its_own() {
    let cloud = graveyard(&ten());
    let (id, _) = stopped(&cloud).await;
    for (args, object) in [(["stop", &id], "stop.json"), (["free", &id], "replay.json")] {
        cloud.script(move |call| {
            let writes = call.operation == "PutObject" && call.target.ends_with(object);
            if writes { Fault::refuse(412, "PreconditionFailed", "others") } else { Fault::Pass }
        });
        assert_eq!(replays(&cloud, &args).await.code, 5, "{args:?}");
    }
}

/// A replay runs in one place, and is stopped from another.
#[tokio::test(start_paused = true)]
async fn who_stopped_a_replay_and_why_is_shown() {
    let cloud = graveyard_of(INDEXED, &ten());
    let args =
        [&["replay", "--all", "--ramp", "50,100", "--settle", "10m", "--rate", "10000"], &PLACE[..]].concat();
    let runs = redrivectl_in(World { ticks: true, ..World::on(&cloud) }, &args);
    let stops = async {
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        let listed = replays(&cloud, &["--json"]).await.json();
        assert_eq!(listed["replays"][0]["status"], "settling");
        let id = listed["replays"][0]["id"].as_str().unwrap().to_owned();
        replays(&cloud, &["stop", &id, "--why", "the wrong topic"]).await.text();
        id
    };
    let (ran, id) = tokio::join!(runs, stops);
    assert_eq!(ran.code, 4, "{ran:?}");
    let why = format!("  because   {CALLER} stopped it: the wrong topic\n");
    assert!(ran.out.contains(&why), "{}", ran.out);
    let shown = replays(&cloud, &["show", &id]).await.text();
    assert!(shown.contains(&why), "{shown}");
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
        assert_eq!(ran.code, 3);
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
async fn the_manual_shows_what_is_printed_of_replays() {
    let cloud = graveyard_of(INDEXED, &ten());
    let kept = replay(&cloud, &["--json"]).await.json();
    let cloud = Account::new();
    let keep = |state: Value| {
        let id = state["id"].as_str().unwrap();
        cloud.put(&format!("graveyard/dead-letters-control/replays/{id}/replay.json"), &state.to_string());
    };
    let with = |fields: Value| {
        let mut state = kept.clone();
        state.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        state
    };
    let mut stopped = with(json!({
        "id": "20261102T093105Z-81c0d4", "began": "2026-11-02T09:31:05Z", "cutOff": "2026-11-02T09:31:00Z",
        "letters": 1000, "counts": { "sent": 10 }, "cameBack": 10, "step": 1, "steps": 4, "status": "stopped",
        "because": "of 10 letters of step 1: 0 refused by SQS, 10 back in the archive, 0 more than before wait in the queues",
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
    let manual =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redrivectl.md")).unwrap();
    for args in [&[][..], &["show", "20261102T093105Z-81c0d4"]] {
        let printed = replays(&cloud, args).await.text();
        assert!(manual.contains(&format!("```text\n{printed}```\n")), "{args:?} prints:\n{printed}");
    }
}

#[tokio::test]
async fn help_says_what_the_exit_codes_of_a_replay_mean() {
    let help = redrivectl(&["replay", "--help"]).await.text();
    for line in [
        "  0  every letter that was asked for is sent",
        "  1  it failed",
        "  2  bad usage",
        "  3  done, but",
        "  4  it stopped",
        "  5  another replay",
        "  6  AWS denied",
    ] {
        assert!(help.contains(line), "{help}");
    }
}

#[tokio::test]
async fn help_says_what_the_exit_codes_of_the_commands_about_replays_mean() {
    for args in [&["replays"][..], &["replays", "show"], &["replays", "stop"], &["replays", "free"]] {
        let help = redrivectl(&[args, &["--help"]].concat()).await.text();
        for line in ["  0  done", "  1  it failed", "  2  bad usage", "  5  ", "  6  AWS denied"] {
            assert!(help.contains(line), "{args:?}: {help}");
        }
    }
}

#[test]
fn the_requeue_can_be_that_of_the_variable() {
    let said = |requeue| {
        let variables = [("ARCHIVE", "s3://graveyard/dead"), ("REQUEUE_ARN", requeue)];
        let ran = super::program(&["replay", "--all", "--dry-run"], &variables);
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    assert_eq!(said(REQUEUE).1, "redrivectl: no region: give --region, AWS_REGION or a profile with one\n");
    assert_eq!(said("orders-requeue").0, Some(2));
}

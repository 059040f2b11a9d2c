//! `hold`, `retry`, `archive`, `release` and `orders`: an operator's word while the function runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::waiting::{letter, lines, list};
use super::{Ran, World, redrivectl_in};
use support::{CALLER, Cloud, DLQ, EntryFate, REQUEUE, Reply, TOPIC};

const CONTROL: [&str; 2] = ["--control", "s3://graveyard/dead-letters-control"];
const DOCUMENT: &str = "graveyard/dead-letters-control/orders.json";

async fn run(cloud: &Cloud, args: &[&str]) -> Ran {
    run_in(World::on(cloud), args).await
}

async fn run_in(world: World, args: &[&str]) -> Ran {
    redrivectl_in(world, &[args, &CONTROL].concat()).await
}

/// An order as the tool writes it.
fn order(id: &str, action: &str, until: Option<&str>) -> Value {
    let mut order = json!({
        "id": id, "do": action, "match": { "topicArn": [TOPIC] }, "at": "2026-11-01T11:00:00Z", "by": "ada", "why": "down",
    });
    if let Some(until) = until {
        order["until"] = until.into();
    }
    order
}

fn put_orders(cloud: &Cloud, orders: &[Value]) {
    cloud.put(DOCUMENT, &json!({ "version": 1, "orders": orders }).to_string());
}

fn orders(cloud: &Cloud) -> Vec<Value> {
    let document: Value = serde_json::from_str(&cloud.objects()[DOCUMENT]).unwrap();
    assert_eq!(document["version"], 1);
    document["orders"].as_array().unwrap().clone()
}

fn ids(cloud: &Cloud) -> Vec<String> {
    orders(cloud).iter().map(|order| order["id"].as_str().unwrap().to_owned()).collect()
}

fn ended(cloud: &Cloud, id: &str) -> Value {
    let key = format!("graveyard/dead-letters-control/orders/{id}.json");
    serde_json::from_str(&cloud.objects()[&key]).unwrap()
}

#[tokio::test]
async fn a_hold_is_written_with_its_reason_and_the_callers_name() {
    let cloud = Cloud::new();
    let told =
        run(&cloud, &["hold", "--topic", TOPIC, "--for", "2h", "--why", "the database is down", "--yes"])
            .await;
    let text = told.text();
    let written = orders(&cloud);
    let id = written[0]["id"].as_str().unwrap();
    assert!(id.starts_with("20261101T120000Z-"), "{id}");
    assert_eq!(
        written,
        [json!({
            "id": id, "do": "hold", "match": { "topicArn": [TOPIC] }, "at": "2026-11-01T12:00:00Z",
            "until": "2026-11-01T14:00:00Z", "by": CALLER, "why": "the database is down",
        })]
    );
    assert_eq!(cloud.calls("PutObject")[0].headers["if-none-match"], "*");
    assert!(text.contains(&format!("  by           {CALLER}, as AWS says\n")), "{text}");
    assert!(text.contains("  in force     until 2026-11-01 14:00:00 UTC, 2 h\n"), "{text}");
    assert!(text.contains(&format!("redrivectl release {id}\n")), "{text}");

    let told = run(&cloud, &["hold", "--all", "--by", "bob", "--why", "b", "--yes", "--json"]).await.json();
    let written = orders(&cloud);
    assert_eq!(written.len(), 2);
    assert_eq!(written[0], told["order"], "the newest order goes before all others");
    assert_eq!(
        (&written[0]["by"], &told["byChecked"], &written[0]["until"]),
        (&json!("bob"), &json!(false), &Value::Null)
    );
    assert_eq!(written[0]["match"], json!({ "queueArn": [{ "exists": true }] }));
}

#[tokio::test]
async fn the_default_place_follows_from_the_archive() {
    let cloud = Cloud::new();
    let args = ["hold", "--all", "--why", "w", "--yes", "--archive", "s3://graveyard/dead-letters"];
    redrivectl_in(World::on(&cloud), &args).await.text();
    assert_eq!(ids(&cloud).len(), 1);
    for (args, problem) in [
        (&["orders"][..], "--control (or CONTROL) is missing"),
        (&["orders", "--archive", "s3://graveyard"], "an archive without a prefix"),
        (&["orders", "--archive", DLQ], "--archive (or ARCHIVE) must be s3://bucket/prefix"),
        (&["orders", "--control", "off"], "CONTROL is off"),
        (&["orders", "--control", "graveyard"], "--control (or CONTROL) must be s3://bucket/prefix"),
    ] {
        let told = redrivectl_in(World::on(&cloud), args).await;
        assert_eq!((told.code, told.out.as_str()), (2, ""));
        assert!(told.err.starts_with(&format!("redrivectl: {problem}")), "{}", told.err);
    }
}

#[tokio::test]
async fn two_operators_at_once_lose_nothing() {
    for there in [&[][..], &[order("old", "hold", None)]] {
        let cloud = Cloud::new();
        if !there.is_empty() {
            put_orders(&cloud, there);
        }
        let (other, writes) = (cloud.clone(), Arc::new(AtomicU32::new(0)));
        let others = [&[order("other", "hold", None)], there].concat();
        cloud.script(move |call| {
            // The other writes after this one has read.
            if call.op == "PutObject" && writes.fetch_add(1, Ordering::Relaxed) == 0 {
                put_orders(&other, &others);
            }
            Reply::Accept
        });
        let told = run(&cloud, &["hold", "--topic", "orders", "--why", "w", "--yes", "--json"]).await.json();
        let mut expected = vec![told["order"]["id"].as_str().unwrap(), "other"];
        expected.extend(there.iter().map(|_| "old"));
        assert_eq!(ids(&cloud), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_always_comes_second_gives_up_in_the_end() {
    let cloud = Cloud::new();
    cloud.reply("PutObject", Reply::Fail(409, "ConditionalRequestConflict", "at this moment"));
    let told = run(&cloud, &["hold", "--all", "--why", "w", "--yes"]).await;
    assert_eq!(told.code, 1);
    assert!(told.err.contains("others kept changing the orders"), "{}", told.err);
    assert_eq!(cloud.calls("PutObject").len(), 10);
}

#[tokio::test]
async fn an_answer_that_is_lost_gives_the_order_once() {
    let cloud = Cloud::new();
    let writes = AtomicU32::new(0);
    cloud.script(move |call| match call.op.as_str() {
        "PutObject" if writes.fetch_add(1, Ordering::Relaxed) == 0 => Reply::Lost,
        _ => Reply::Accept,
    });
    let retrying = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    let world = World { config: Some(cloud.config(retrying)), ..World::default() };
    run_in(world, &["hold", "--all", "--why", "w", "--yes"]).await.text();
    assert_eq!((ids(&cloud).len(), cloud.calls("PutObject").len()), (1, 2));
}

#[tokio::test]
async fn a_document_that_cannot_be_read_is_left_as_it_is() {
    for (document, problem) in [
        (r#"{"version":2,"orders":[]}"#, "version: must be 1, not 2"),
        ("{", "not JSON"),
        (r#"{"version":1,"orders":[{"id":"a"}]}"#, "orders[0].do: is missing"),
    ] {
        let cloud = Cloud::new();
        cloud.put(DOCUMENT, document);
        for args in
            [&["hold", "--all", "--why", "w", "--yes"][..], &["release", "--all", "--yes"], &["orders"]]
        {
            let told = run(&cloud, args).await;
            assert_eq!((told.code, told.out.as_str()), (1, ""));
            assert!(told.err.contains(problem) && told.err.contains("left as it is"), "{}", told.err);
        }
        assert_eq!(cloud.objects()[DOCUMENT], document);
        assert_eq!(cloud.calls("PutObject").len(), 0);
    }
    let cloud = Cloud::new();
    cloud.reply("GetObject", Reply::Fail(403, "AccessDenied", "no"));
    let told = run(&cloud, &["hold", "--all", "--why", "w", "--yes"]).await;
    assert_eq!((told.code, cloud.calls("PutObject").len()), (1, 0));
    assert!(told.err.contains("AccessDenied"), "{}", told.err);
}

#[tokio::test]
async fn a_document_that_is_full_takes_no_more() {
    let cloud = Cloud::new();
    let why = "w".repeat(1000);
    let full = |number: u32| {
        let mut order = order(&number.to_string(), "hold", None);
        order["why"] = why.as_str().into();
        order
    };
    put_orders(&cloud, &(0..220).map(full).collect::<Vec<_>>());
    let before = cloud.objects()[DOCUMENT].clone();
    assert!((250_000..262_144).contains(&before.len()), "{}", before.len());
    let told = run(&cloud, &["hold", "--all", "--why", &why, "--yes"]).await;
    assert_eq!(told.code, 1);
    assert!(told.err.contains("at most 262144 bytes") && told.err.contains("release"), "{}", told.err);
    assert_eq!(before, cloud.objects()[DOCUMENT]);
}

#[tokio::test]
async fn orders_whose_time_is_over_are_kept_before_they_leave_the_document() {
    let cloud = Cloud::new();
    let over = order("over", "hold", Some("2026-11-01T11:40:00Z"));
    let lapsed = order("lapsed", "retry", None);
    put_orders(&cloud, &[over.clone(), order("here", "hold", None), lapsed.clone()]);
    // Before they are kept nothing leaves the document.
    cloud.script(|call| {
        let kept = call.to.contains("/orders/");
        if kept { Reply::Fail(503, "SlowDown", "later") } else { Reply::Accept }
    });
    let args = ["hold", "--topic", "orders", "--why", "w", "--yes"];
    assert_eq!(run(&cloud, &args).await.code, 1);
    assert_eq!(ids(&cloud), ["over", "here", "lapsed"]);

    cloud.script(|_| Reply::Accept);
    run(&cloud, &args).await.text();
    assert_eq!(ids(&cloud)[1..], ["here"]);
    let with = |order: &Value, at: &str| {
        let mut order = order.clone();
        order["ended"] = json!({ "at": at });
        order
    };
    assert_eq!(ended(&cloud, "over"), with(&over, "2026-11-01T11:40:00Z"));
    assert_eq!(ended(&cloud, "lapsed"), with(&lapsed, "2026-11-01T11:15:00Z"));
}

#[tokio::test]
async fn a_clock_that_is_ahead_takes_no_order_away_that_is_in_force() {
    let cloud = Cloud::new();
    let hold = order("hold", "hold", Some("2026-11-01T12:00:01Z"));
    put_orders(&cloud, std::slice::from_ref(&hold));
    let args = ["hold", "--topic", "orders", "--why", "w", "--yes"];
    let ahead = |minutes: i64| World { later: minutes * 60_000, ..World::on(&cloud) };
    for minutes in [0, 5, 15, 20] {
        run_in(ahead(minutes), &args).await.text();
        assert_eq!(ids(&cloud).last().map(String::as_str), Some("hold"), "{minutes} minutes ahead");
    }
    // By its own clock it has ended, and stands nowhere else yet.
    let shown = run_in(ahead(15), &["orders", "--ended", "--json"]).await.json();
    assert_eq!(shown["orders"][0]["id"], "hold");
    run_in(ahead(21), &args).await.text();
    assert_eq!((ids(&cloud).len(), &ended(&cloud, "hold")["id"]), (5, &json!("hold")));
}

#[tokio::test]
async fn nothing_is_written_without_a_yes() {
    let cloud = Cloud::new();
    let args = ["hold", "--all", "--why", "w"];
    let told = run(&cloud, &args).await;
    assert_eq!(told.code, 2);
    assert!(
        told.err.ends_with(
            "redrivectl: there is no terminal to ask at: give --yes to go on without a question\n"
        ),
        "{}",
        told.err
    );
    for (answer, code) in [("n\n", 2), ("\n", 2), ("", 2), ("yes please\n", 2), ("Y\n", 0), ("yes", 0)] {
        let world = World { answers: true, input: answer.into(), ..World::on(&cloud) };
        let told = run_in(world, &args).await;
        assert_eq!(told.code, code, "{answer:?}");
        assert!(told.err.starts_with("Give this order to hold? [y/N] "), "{}", told.err);
        assert_eq!(cloud.calls("PutObject").len(), usize::from(code == 0), "{answer:?}");
        cloud.forget();
    }
    let told = run(&cloud, &[&args[..], &["--dry-run"]].concat()).await.text();
    assert!(told.ends_with("\nA dry run: nothing was written.\n"), "{told}");
    assert_eq!(cloud.calls("PutObject").len(), 0);
}

#[tokio::test]
async fn bad_orders_are_bad_input_and_name_the_option() {
    let cloud = Cloud::new();
    for (args, problem) in [
        (
            &["hold", "--why", "w"][..],
            "which letters? Give --match, --topic, --subscription, --queue or --all",
        ),
        (&["hold", "--match", "{", "--why", "w"], "--match is not JSON"),
        (&["hold", "--match", "[]", "--why", "w"], "--match must be an object"),
        (&["hold", "--match", r#"{"topic": ["x"]}"#, "--why", "w"], "--match has no field \"topic\""),
        (
            &["hold", "--topic", "a", "--match", r#"{"topicArn": ["x"]}"#, "--why", "w"],
            "--topic and --match both name topicArn",
        ),
        (&["hold", "--all", "--why", ""], "--why must be a text of 1 to 1000 characters"),
        (
            &["hold", "--all", "--why", "w", "--until", "2026-11-01T11:00:00Z"],
            "--until must be later than at",
        ),
        (&["archive", "--all", "--why", "w", "--future"], "give --for or --until"),
        (&["hold", "--all"], "--why <TEXT>"),
        (&["hold", "--all", "--topic", "x", "--why", "w"], "cannot be used with"),
        (&["release"], "required"),
    ] {
        let told = run(&cloud, &[args, &["--yes"]].concat()).await;
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{args:?}");
        assert!(told.err.contains(problem), "{args:?}: {}", told.err);
    }
    assert_eq!(cloud.journal().len(), 0, "nothing was called");
}

#[tokio::test]
async fn the_preview_counts_what_waits_and_says_what_the_list_does_not_tell() {
    let cloud = Cloud::new();
    let other = |id: &str| json!({ "topicArn": format!("{TOPIC}-other"), "messageId": id });
    let letters = [
        letter("a", &json!({})),
        letter("b", &json!({})),
        letter("other", &other("other")),
        letter("came-back", &json!({ "due": "2026-11-01T11:59:59Z" })),
    ];
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&letters));
    // A second line of one letter, a line that nobody can read, and the hour before the last twelve.
    list(&cloud, "2026-11-01T11:30:00Z", &format!("{}not a line\n", lines(&[letter("a", &json!({}))])));
    list(&cloud, "2026-10-31T23:10:00Z", &lines(&[letter("old", &json!({}))]));

    let told = run(&cloud, &["retry", "--topic", TOPIC, "--why", "w", "--dry-run"]).await;
    assert_eq!(told.code, 1, "a part of the list could not be read");
    assert!(told.out.contains("  touches      2 letters on the list of waiting letters\n"), "{}", told.out);
    assert!(told.out.contains("  not read     1 part of the list\n"), "{}", told.out);
    assert!(!told.out.contains("may touch") && !told.out.contains("goes before"), "{}", told.out);
    put_orders(&cloud, &[order("one", "hold", None), order("over", "retry", None)]);

    let pattern = r#"{"topicArn": [{"suffix": ":orders"}], "message": {"tenant": ["gold"]}}"#;
    let told = run(&cloud, &["retry", "--match", pattern, "--why", "w", "--dry-run"]).await;
    assert!(told.out.contains("  touches      0 letters"), "{}", told.out);
    assert!(told.out.contains("  goes before  1 order in force\n"), "{}", told.out);
    assert!(
        told.out.contains("  may touch    2 letters more: the list does not tell message\n"),
        "{}",
        told.out
    );
    assert_eq!(cloud.calls("PutObject").len(), 0);
}

/// Handles that SQS was asked to show.
fn shown(cloud: &Cloud) -> Vec<String> {
    let calls = cloud.calls("ChangeMessageVisibilityBatch");
    assert!(calls.iter().all(|call| call.entries.len() <= 10));
    let mut handles: Vec<_> = calls
        .into_iter()
        .flat_map(|call| call.entries)
        .map(|entry| {
            assert_eq!(entry.hide, Some(0));
            entry.receipt_handle.unwrap()
        })
        .collect();
    handles.sort();
    handles
}

fn retry_topic() -> [&'static str; 6] {
    ["retry", "--topic", TOPIC, "--why", "mended", "--yes"]
}

#[tokio::test(start_paused = true)]
async fn a_retry_wakes_by_the_newest_line_once_every_instance_has_read_it() {
    let cloud = Cloud::new();
    let many: Vec<_> = (0..25).map(|number| letter(&format!("m{number:02}"), &json!({}))).collect();
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&many));
    let newer = letter("m00", &json!({ "receiptHandle": "newer-S3CR3T" }));
    list(&cloud, "2026-11-01T11:30:00Z", &lines(&[newer]));
    let others = [
        letter("soon", &json!({ "due": "2026-11-01T12:01:00Z" })),
        letter("other", &json!({ "topicArn": format!("{TOPIC}-other") })),
        letter("requeue", &json!({ "queueArn": REQUEUE, "deadLetterQueueArn": DLQ })),
    ];
    list(&cloud, "2026-11-01T11:40:00Z", &lines(&others));
    // One more is hidden by an instance that has not read the order yet.
    let late = cloud.clone();
    cloud.script(move |call| {
        if call.op == "PutObject" && call.to == DOCUMENT {
            list(&late, "2026-11-01T12:00:01Z", &lines(&[letter("late", &json!({}))]));
        }
        Reply::Accept
    });
    let begun = Instant::now();
    let told = run(&cloud, &retry_topic()).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(20) && took < Duration::from_secs(22), "{took:?}");
    let mut expected: Vec<_> = (1..25).map(|number| format!("handle-S3CR3T-m{number:02}")).collect();
    expected.extend([
        "newer-S3CR3T".to_owned(),
        "handle-S3CR3T-late".to_owned(),
        "handle-S3CR3T-requeue".to_owned(),
    ]);
    expected.sort();
    assert_eq!(shown(&cloud), expected);
    let queues: Vec<_> =
        cloud.calls("ChangeMessageVisibilityBatch").iter().map(support::Call::summary).collect();
    assert!(queues.contains(&"ChangeMessageVisibilityBatch orders-requeue 1".to_owned()), "{queues:?}");
    assert_eq!(queues.len(), 4, "{queues:?}");
    let text = told.text();
    assert!(text.contains("\n27 letters asked to wake.\n"), "{text}");
    assert_eq!(orders(&cloud)[0]["until"], "2026-11-01T12:15:00Z");
}

#[tokio::test(start_paused = true)]
async fn nothing_wakes_before_twenty_seconds_and_then_at_the_rate() {
    let cloud = Cloud::new();
    let many: Vec<_> = (0..100).map(|number| letter(&number.to_string(), &json!({}))).collect();
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&many));
    let begun = Instant::now();
    let times = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    cloud.script(move |call| {
        if call.op == "ChangeMessageVisibilityBatch" {
            seen.lock().unwrap().push(begun.elapsed().as_secs_f64());
        }
        Reply::Accept
    });
    run(&cloud, &[&retry_topic()[..], &["--rate", "10"]].concat()).await.text();
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), 10);
    assert!((20.0..21.0).contains(&times[0]), "{times:?}");
    assert!((9.0..9.5).contains(&(times[9] - times[0])), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_letters_wake_by_a_hundred_requests_in_two_seconds() {
    let cloud = Cloud::new();
    for object in 0..100 {
        let ten: Vec<_> = (0..10).map(|number| letter(&format!("{object}-{number}"), &json!({}))).collect();
        list(&cloud, &format!("2026-11-01T11:{:02}:{:02}Z", object / 60, object % 60), &lines(&ten));
    }
    let begun = Instant::now();
    run(&cloud, &retry_topic()).await.text();
    // The first goes after 20 s, the last but ten letters before two seconds more are over.
    let took = begun.elapsed().as_secs_f64();
    assert!((21.9..22.2).contains(&took), "{took}");
    assert_eq!(cloud.calls("ChangeMessageVisibilityBatch").len(), 100);
    assert_eq!(shown(&cloud).len(), 1000);
    // Every object of the list is read once, and the orders twice.
    assert_eq!(cloud.calls("GetObject").len(), 102);
    assert!(cloud.calls("ListObjectsV2").len() <= 4);
}

#[tokio::test(start_paused = true)]
async fn what_moved_on_is_told_and_what_was_throttled_is_asked_again() {
    let cloud = Cloud::new();
    let names = ["fine", "stale", "gone", "busy", "refused"];
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&names.map(|name| letter(name, &json!({})))));
    let calls = AtomicU32::new(0);
    cloud.script(move |call| {
        if call.op != "ChangeMessageVisibilityBatch" {
            return Reply::Accept;
        }
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            let fates = [
                ("stale", EntryFate::Failed("ReceiptHandleIsInvalid", "S3CR3T expired", true)),
                ("gone", EntryFate::Failed("InvalidParameterValue", "S3CR3T is gone", true)),
                ("busy", EntryFate::Failed("RequestThrottled", "slower", true)),
                ("refused", EntryFate::Failed("AccessDenied", "not you", true)),
            ];
            let place = |(name, fate): (&str, EntryFate)| (call.entries_with(name)[0], fate);
            return Reply::Except(fates.map(place).to_vec());
        }
        Reply::Accept
    });
    let told = run(&cloud, &[&retry_topic()[..], &["--json"]].concat()).await;
    assert_eq!(told.code, 1);
    let json: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(json["wake"], json!({ "asked": 2, "stale": 2, "failed": { "AccessDenied": 1 }, "left": 0 }));
    assert_eq!(cloud.calls("ChangeMessageVisibilityBatch").len(), 2);
    assert!(!told.out.contains("S3CR3T") && !told.err.contains("S3CR3T"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn letters_that_were_read_wake_also_where_the_list_cannot_be_read_again() {
    for (args, action) in [(&retry_topic()[..], "retry"), (&["release", "held", "--yes"], "release")] {
        let cloud = Cloud::new();
        put_orders(&cloud, &[order("held", "hold", None)]);
        list(&cloud, "2026-11-01T11:30:00Z", &lines(&[letter("a", &json!({}))]));
        let written = AtomicBool::new(false);
        cloud.script(move |call| {
            written.fetch_or(call.op == "PutObject" && call.to == DOCUMENT, Ordering::Relaxed);
            let fails = call.op == "ListObjectsV2" && written.load(Ordering::Relaxed);
            if fails { Reply::Fail(403, "AccessDenied", "no") } else { Reply::Accept }
        });
        let told = run(&cloud, args).await;
        assert_eq!((told.code, told.err.as_str()), (1, ""), "{action}");
        assert_eq!(shown(&cloud), ["handle-S3CR3T-a"], "{action}");
        let line = "\n1 letter asked to wake; letters that were hidden since the preview are left out: \
                    cannot list the waiting letters: AccessDenied: no.\n";
        assert!(told.out.contains(line), "{}", told.out);
    }
}

#[tokio::test(start_paused = true)]
async fn no_handle_is_ever_printed() {
    let cloud = Cloud::new();
    list(
        &cloud,
        "2026-11-01T11:00:00Z",
        &format!("{}{{\"receiptHandle\":\"S3CR3T\"}}\n", lines(&[letter("a", &json!({}))])),
    );
    put_orders(&cloud, &[order("held", "hold", None)]);
    let code = |op: &str| {
        (op == "ChangeMessageVisibilityBatch").then_some(Reply::Fail(400, "InvalidAddress", "S3CR3T"))
    };
    cloud.script(move |call| code(&call.op).unwrap_or(Reply::Accept));
    for args in [
        &retry_topic()[..],
        &["retry", "--topic", TOPIC, "--why", "mended", "--yes", "--json"],
        &["release", "held", "--yes"],
        &["waiting"],
        &["waiting", "--json"],
    ] {
        let world = World { progress: true, ..World::on(&cloud) };
        let told = run_in(world, args).await;
        assert!(!told.out.contains("S3CR3T") && !told.err.contains("S3CR3T"), "{args:?}: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_stops_waking_and_the_order_stays() {
    for before_the_first in [true, false] {
        let cloud = Cloud::new();
        let many: Vec<_> = (0..1000).map(|number| letter(&number.to_string(), &json!({}))).collect();
        list(&cloud, "2026-11-01T11:00:00Z", &lines(&many));
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        cloud.script(move |call| {
            let now = if before_the_first {
                call.to == DOCUMENT && call.op == "PutObject"
            } else {
                call.op.starts_with("Change")
            };
            flag.fetch_or(now, Ordering::Relaxed);
            Reply::Accept
        });
        let world = World { interrupted, ..World::on(&cloud) };
        let told = run_in(world, &[&retry_topic()[..], &["--json"]].concat()).await;
        let json: Value = serde_json::from_str(&told.out).unwrap();
        let asked = json["wake"]["asked"].as_u64().unwrap();
        assert_eq!((told.code, &json["wake"]["stopped"]), (1, &json!("interrupted")));
        assert!(if before_the_first { asked == 0 } else { (10..=170).contains(&asked) }, "{asked}");
        assert_eq!(json["wake"]["left"], 1000 - asked);
        assert_eq!(ids(&cloud).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_that_has_ended_wakes_nobody() {
    let cloud = Cloud::new();
    let letters: Vec<_> = (0..30).map(|number| letter(&number.to_string(), &json!({}))).collect();
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&letters));
    let slowly = [&retry_topic()[..], &["--rate", "1", "--for", "40s"]].concat();
    let world = World { ticks: true, ..World::on(&cloud) };
    let told = run_in(world, &slowly).await;
    assert_eq!(told.code, 1);
    assert!(
        told.out.contains("  too short    the order ends before the last is asked to wake"),
        "{}",
        told.out
    );
    assert!(
        told.out.contains("\n20 letters asked to wake; the order ended, 10 left asleep.\n"),
        "{}",
        told.out
    );

    let cloud = Cloud::new();
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[letter("a", &json!({}))]));
    let told = run(&cloud, &[&retry_topic()[..], &["--until", "2026-11-01T12:00:10Z"]].concat()).await;
    assert_eq!(told.code, 2);
    assert!(told.err.contains("must be in force for more than 20 s"), "{}", told.err);
}

#[tokio::test(start_paused = true)]
async fn an_archive_order_is_about_letters_that_are_there_unless_it_says_otherwise() {
    let cloud = Cloud::new();
    let letters = [letter("a", &json!({})), letter("new", &json!({ "since": "2026-11-01T12:00:00Z" }))];
    list(&cloud, "2026-11-01T12:00:00Z", &lines(&letters));
    let args = ["archive", "--topic", "orders", "--why", "poison", "--yes"];
    run(&cloud, &args).await.text();
    let written = &orders(&cloud)[0];
    assert_eq!(written["do"], "archive");
    assert_eq!(written["match"], json!({ "topicArn": [{ "suffix": ":orders" }] }));
    assert_eq!(written["arrivedBefore"], "2026-11-01T12:00:00Z");
    assert_eq!(written["until"], "2026-11-02T00:00:00Z");
    assert_eq!(shown(&cloud), ["handle-S3CR3T-a"]);

    let later = World { later: 300, ..World::on(&cloud) };
    run_in(later, &args).await.text();
    let written = &orders(&cloud)[0];
    assert_eq!([&written["at"], &written["arrivedBefore"]], ["2026-11-01T12:00:00Z", "2026-11-01T12:00:01Z"]);

    run(&cloud, &[&args[..], &["--future", "--for", "30m"]].concat()).await.text();
    let written = &orders(&cloud)[0];
    assert_eq!(
        (&written["arrivedBefore"], &written["until"]),
        (&Value::Null, &json!("2026-11-01T12:30:00Z"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_confirmed_is_what_is_ordered() {
    let cloud = Cloud::new();
    let letters = [letter("a", &json!({})), letter("new", &json!({ "since": "2026-11-01T12:03:00Z" }))];
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&letters));
    let thinking = || World { answers: true, input: "y".into(), thinks: 300_000, ..World::on(&cloud) };
    let args = ["archive", "--topic", "orders", "--why", "poison"];
    let told = run_in(thinking(), &args).await;
    assert!(told.out.contains("  arrived      before 2026-11-01 12:00:00 UTC\n"), "{}", told.out);
    assert!(told.out.contains("  touches      1 letter on the list"), "{}", told.out);
    let written = &orders(&cloud)[0];
    // The letters are those of the preview; the time in force begins when it is written.
    assert_eq!(
        [&written["arrivedBefore"], &written["at"], &written["until"]],
        ["2026-11-01T12:00:00Z", "2026-11-01T12:05:00Z", "2026-11-02T00:05:00Z"]
    );
    assert_eq!(shown(&cloud), ["handle-S3CR3T-a"]);

    let args = ["retry", "--all", "--why", "w", "--arrived-after", "1h", "--arrived-before", "30m"];
    run_in(thinking(), &args).await;
    let written = &orders(&cloud)[0];
    assert_eq!(
        [&written["arrivedAfter"], &written["arrivedBefore"]],
        ["2026-11-01T11:00:00Z", "2026-11-01T11:30:00Z"]
    );

    // An end that has come meanwhile.
    cloud.forget();
    let args = ["retry", "--all", "--why", "w", "--until", "2026-11-01T12:04:00Z"];
    let told = run_in(thinking(), &args).await;
    assert_eq!((told.code, cloud.calls("PutObject").len()), (2, 0));
    assert!(told.err.ends_with("redrivectl: --until must be later than at\n"), "{}", told.err);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_released_is_kept_with_who_did_it_and_what_it_held_wakes() {
    let cloud = Cloud::new();
    put_orders(&cloud, &[order("one", "hold", None), order("two", "retry", Some("2026-11-01T13:00:00Z"))]);
    list(&cloud, "2026-11-01T10:59:59Z", &lines(&[letter("waited-before", &json!({}))]));
    list(&cloud, "2026-11-01T11:00:01Z", &lines(&[letter("held", &json!({}))]));
    let told = run(&cloud, &["release", "one", "--why", "mended", "--yes"]).await.text();
    assert_eq!(ids(&cloud), ["two"]);
    let mut expected = order("one", "hold", None);
    expected["ended"] = json!({ "at": "2026-11-01T12:00:00Z", "by": CALLER, "why": "mended" });
    assert_eq!(ended(&cloud, "one"), expected);
    assert_eq!(shown(&cloud), ["handle-S3CR3T-held"]);
    assert!(told.contains("Held: 1 letter on the list of waiting letters."), "{told}");
    assert!(told.ends_with("1 letter asked to wake.\n"), "{told}");

    // An order to retry that is taken back wakes nobody.
    cloud.forget();
    run(&cloud, &["release", "two", "--yes", "--json"]).await.json();
    assert_eq!((ids(&cloud), shown(&cloud)), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_woke_not_all_names_the_command_that_does() {
    let cloud = Cloud::new();
    let mut hold = order("one", "hold", None);
    hold["match"] = json!({ "topicArn": [TOPIC, "it's another"] });
    hold["arrivedBefore"] = "2026-11-01T10:00:00Z".into();
    hold["arrivedAfter"] = "2026-11-01T08:00:00Z".into();
    put_orders(&cloud, &[hold.clone(), order("two", "retry", Some("2026-11-01T13:00:00Z"))]);
    let late = letter("late", &json!({ "since": "2026-11-01T10:00:00Z" }));
    list(&cloud, "2026-11-01T11:30:00Z", &lines(&[letter("a", &json!({})), late]));
    cloud.reply("ChangeMessageVisibilityBatch", Reply::Fail(403, "AccessDenied", "no"));
    let told = run(&cloud, &["release", "one", "two", "--why", "it's mended", "--yes"]).await;
    assert_eq!(told.code, 1);
    let hint = told.out.rsplit_once("To wake the rest, for an attempt at once: ").unwrap().1;
    // As a shell takes it.
    let shell = std::process::Command::new("sh").args(["-c", &format!("printf '%s\\n' {hint}")]).output();
    let shell = String::from_utf8(shell.unwrap().stdout).unwrap();
    let words: Vec<_> = shell.lines().chain(["--yes"]).collect();
    assert_eq!(words[0], "redrivectl");

    cloud.forget();
    cloud.script(|_| Reply::Accept);
    let told = run(&cloud, &words[1..]).await.text();
    assert!(!told.contains("To wake the rest"), "{told}");
    assert_eq!(shown(&cloud), ["handle-S3CR3T-a"]);
    let written = &orders(&cloud)[0];
    assert_eq!((&written["match"], &written["why"]), (&hold["match"], &json!("it's mended")));
}

#[tokio::test(start_paused = true)]
async fn letters_that_another_hold_holds_sleep_on() {
    let of_queue = |id: &str, action: &str, queue: &str, until: Option<&str>| {
        let mut order = order(id, action, until);
        order["match"] = json!({ "queueArn": [queue] });
        order
    };
    let of_subject = |id: &str, action: &str| {
        let mut order = order(id, action, Some("2026-11-01T22:00:00Z"));
        order["match"] = json!({ "subject": ["urgent"] });
        order
    };
    let released = order("one", "hold", None);
    let hold = |until| of_queue("other", "hold", DLQ, until);
    let archive = of_queue("poison", "archive", DLQ, Some("2026-11-01T22:00:00Z"));
    // The letters sleep until 16:00.
    for (others, woken, asleep) in [
        (&[hold(None)][..], &["handle-S3CR3T-b"][..], 1),
        (&[hold(Some("2026-11-01T16:00:00Z"))], &["handle-S3CR3T-b"], 1),
        // Such a letter would sleep past the end of the hold.
        (&[hold(Some("2026-11-01T15:00:00Z"))], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
        (&[hold(Some("2026-11-01T11:59:00Z"))], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
        (&[archive.clone(), hold(None)], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
        (&[hold(None), archive], &["handle-S3CR3T-b"], 1),
        // What the list does not tell wakes.
        (&[of_subject("urgent", "hold")], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
        (&[of_subject("urgent", "retry"), hold(None)], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
    ] {
        let cloud = Cloud::new();
        put_orders(&cloud, &[std::slice::from_ref(&released), others].concat());
        let elsewhere = letter("b", &json!({ "queueArn": REQUEUE }));
        let not_held = letter("c", &json!({ "topicArn": format!("{TOPIC}-other") }));
        list(&cloud, "2026-11-01T11:30:00Z", &lines(&[letter("a", &json!({})), elsewhere, not_held]));
        let told = run(&cloud, &["release", "one", "--yes"]).await.text();
        assert_eq!(shown(&cloud), woken, "{others:?}");
        assert!(told.contains(&format!("\nHeld: {} letter", woken.len())), "{told}");
        let line = "\nSleeps on: 1 letter, which another hold still holds.\n";
        assert_eq!(told.contains(line), asleep == 1, "{told}");

        put_orders(&cloud, &[std::slice::from_ref(&released), others].concat());
        let told = run(&cloud, &["release", "one", "--yes", "--dry-run", "--json"]).await.json();
        assert_eq!(told["waiting"]["stillHeld"], asleep, "{others:?}");
    }
    // Who releases both wakes all.
    let cloud = Cloud::new();
    put_orders(&cloud, &[released, hold(None)]);
    list(&cloud, "2026-11-01T11:30:00Z", &lines(&[letter("a", &json!({}))]));
    run(&cloud, &["release", "--all", "--yes"]).await.text();
    assert_eq!(shown(&cloud), ["handle-S3CR3T-a"]);
}

#[tokio::test(start_paused = true)]
async fn holds_are_released_by_pattern_or_all_at_once() {
    let cloud = Cloud::new();
    let mut other = order("other", "hold", None);
    other["match"] = json!({ "topicArn": [{ "suffix": ":billing" }] });
    let all = [order("one", "hold", None), other, order("again", "retry", Some("2026-11-01T13:00:00Z"))];
    for (args, left) in [
        (&["--topic", TOPIC][..], &["other", "again"][..]),
        (&["--topic", "billing"], &["one", "again"]),
        (&["--all"], &["again"]),
    ] {
        put_orders(&cloud, &all);
        run(&cloud, &[&["release", "--yes"], args].concat()).await.text();
        assert_eq!(ids(&cloud), left);
    }
    let told = run(&cloud, &["release", "--all", "--yes"]).await;
    assert_eq!(
        (told.code, told.err.as_str()),
        (1, "redrivectl: there is no such hold (`orders` shows what is in force)\n")
    );
    let told = run(&cloud, &["release", "again", "nobody", "--yes"]).await;
    assert_eq!(
        (told.code, told.err.as_str()),
        (2, "redrivectl: there is no order nobody (`orders` shows them)\n")
    );
    assert_eq!(ids(&cloud), ["again"]);
}

#[tokio::test(start_paused = true)]
async fn orders_are_shown_while_they_are_in_force_and_after() {
    let cloud = Cloud::new();
    assert_eq!(run(&cloud, &["orders"]).await.text(), "No order is in force.\n");
    assert_eq!(run(&cloud, &["orders", "--ended"]).await.text(), "No order has ended.\n");
    put_orders(&cloud, &[order("one", "hold", None), order("over", "retry", None)]);
    assert_eq!(
        run(&cloud, &["orders"]).await.text(),
        format!(
            "order  do    match                  {pad}in force              by   why\n\
             one    hold  {{\"topicArn\":[\"{TOPIC}\"]}}  until it is released  ada  down\n",
            pad = " ".repeat(TOPIC.len() - 4),
        )
    );
    let text = run(&cloud, &["orders", "--ended"]).await.text();
    assert!(text.contains("\nover   retry  ") && !text.contains("\none "), "not kept yet: {text}");
    let json = run(&cloud, &["orders", "--json"]).await.json();
    assert_eq!(json, json!({ "orders": [order("one", "hold", None)] }));

    run(&cloud, &["release", "one", "--by", "bob", "--why", "mended", "--yes"]).await;
    let text = run(&cloud, &["orders", "--ended"]).await.text();
    assert!(
        text.contains("2026-11-01 11:00:00 to 2026-11-01 12:00:00 UTC by bob: mended  ada  down\n"),
        "{text}"
    );
    assert!(text.contains("2026-11-01 11:00:00 to 2026-11-01 11:15:00 UTC "), "{text}");
}

#[tokio::test]
async fn who_the_caller_is_must_be_known() {
    let cloud = Cloud::new();
    cloud.reply("GetCallerIdentity", Reply::NoConnection);
    let told = run(&cloud, &["hold", "--all", "--why", "w", "--yes"]).await;
    assert_eq!((told.code, told.out.as_str()), (1, ""));
    assert_eq!(told.err, "redrivectl: cannot ask AWS who you are: Timeout; give --by NAME\n");
    run(&cloud, &["hold", "--all", "--why", "w", "--yes", "--by", "ada"]).await.text();
}

#[tokio::test(start_paused = true)]
async fn the_manual_shows_what_they_print() {
    let cloud = Cloud::new();
    let due = |number: u32| json!({ "due": format!("2026-11-01T{:02}:{:02}:41Z", 12 + number % 9, 2 + number % 50) });
    let waiting: Vec<_> = (0..2315).map(|number| letter(&format!("m{number}"), &due(number))).collect();
    list(&cloud, "2026-11-01T11:20:00Z", &lines(&waiting));
    let (billing, of_billing) =
        ("arn:aws:sqs:eu-central-1:123456789012:orders-billing", format!("{TOPIC}:632be099"));
    let others =
        json!({ "target": billing, "topicArn": format!("{TOPIC}-bills"), "subscriptionArn": of_billing });
    let others: Vec<_> = (0..18).map(|number| letter(&format!("b{number}"), &others)).collect();
    list(&cloud, "2026-11-01T11:40:00Z", &lines(&others));
    let held = |id: &str, until: &str| {
        let mut order = order(id, "hold", Some(until));
        order["by"] = CALLER.into();
        order["match"] = json!({ "topicArn": [{ "suffix": ":orders" }] });
        order["why"] = "the database is restored".into();
        order
    };
    cloud.script(|call| {
        let stale = EntryFate::Failed("ReceiptHandleIsInvalid", "expired", true);
        let moved_on = |handle: &String| (1..=6).any(|number| handle.ends_with(&format!("-m7{number}")));
        let entries = call.entries.iter().enumerate();
        let fates = entries.filter(|(_, entry)| entry.receipt_handle.as_ref().is_some_and(moved_on));
        Reply::Except(fates.map(|(index, _)| (index, stale)).collect())
    });
    let manual =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redrivectl.md")).unwrap();
    let mut missing = Vec::new();
    let mut shows = |told: String| {
        // The names of orders end at random.
        let named = |word: &str| word.starts_with("20261101T120000Z-").then(|| word[..25].to_owned());
        let id = told.split_whitespace().find_map(named).unwrap_or("20261101T120000Z-".to_owned());
        let told = told.replace(&id, "20261101T120000Z-7f3a51c2");
        let block = format!("```text\n{told}```\n");
        missing.extend((!manual.contains(&block)).then_some(block));
    };
    let args = ["waiting", "--by", "target"];
    shows(run(&cloud, &args).await.text());
    let args = ["retry", "--topic", "orders", "--why", "the worker is back", "--yes"];
    shows(run(&cloud, &args).await.text());
    put_orders(&cloud, &[held("20261101T110500Z-7f3a51c2", "2026-11-01T13:05:00Z")]);
    shows(run(&cloud, &["orders"]).await.text());
    let args = ["release", "20261101T110500Z-7f3a51c2", "--why", "done sooner", "--yes"];
    shows(run(&cloud, &args).await.text());
    assert!(missing.is_empty(), "{}", missing.concat());
}

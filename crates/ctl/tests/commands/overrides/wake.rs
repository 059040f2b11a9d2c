//! Waking hidden letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use redrive_support::{DLQ, EntryFault, REQUEUE, SimFault, TOPIC, TestAccount};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{DOCUMENT, ids, override_, overrides, put_overrides, retry_topic, run, run_in, shown};
use crate::CommandWorld;
use crate::waiting::{letter, lines, list, put_recovery, recovering};

#[tokio::test(start_paused = true)]
async fn a_retry_wakes_by_the_newest_line_once_every_instance_has_read_it() {
    let cloud = TestAccount::new();
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
    // An instance that has not read the override yet hides one more letter.
    let late = cloud.clone();
    cloud.script(move |call| {
        if call.operation == "PutObject" && call.target == DOCUMENT {
            list(&late, "2026-11-01T12:00:01Z", &lines(&[letter("late", &json!({}))]));
        }
        SimFault::Pass
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
        cloud.calls("ChangeMessageVisibilityBatch").iter().map(redrive_support::SimCall::summary).collect();
    assert!(queues.contains(&"ChangeMessageVisibilityBatch payments-requeue 1".to_owned()), "{queues:?}");
    assert_eq!(queues.len(), 4, "{queues:?}");
    let text = told.text();
    assert!(text.contains("\n27 letters asked to wake.\n"), "{text}");
    assert_eq!(overrides(&cloud)[0]["until"], "2026-11-01T12:15:00Z");
}

/// The keys tell whose letters an object has. One whose target is not known may be anybody's, and a newer line of his.
#[tokio::test(start_paused = true)]
async fn a_retry_by_target_reads_what_may_have_letters_of_it() {
    let cloud = TestAccount::new();
    let billing = json!({ "target": redrive_support::BILLING });
    list(&cloud, "2026-11-01T10:00:00Z", &lines(&[letter("a", &json!({})), letter("b", &billing)]));
    list(&cloud, "2026-11-01T10:10:00Z", &lines(&[letter("c", &billing)]));
    list(&cloud, "2026-11-01T10:20:00Z", &lines(&[letter("d", &json!({}))]));
    let unknown = json!({ "target": null, "receiptHandle": "newer-S3CR3T" });
    list(&cloud, "2026-11-01T10:30:00Z", &lines(&[letter("a", &unknown)]));
    let retry = ["retry", "--target", redrive_support::WORKER, "--why", "mended", "--yes"];
    let text = run(&cloud, &retry).await.text();
    assert!(
        text.contains("  affects      at most 1 letter on the list") && text.contains("1 letter more"),
        "{text}"
    );
    assert_eq!(shown(&cloud), ["handle-S3CR3T-d", "newer-S3CR3T"]);
    let read = cloud.calls("GetObject").iter().filter(|call| call.target.contains("/waiting/")).count();
    assert_eq!(read, 3, "not that of billing alone");
    assert_eq!(overrides(&cloud)[0]["match"], json!({ "target": [redrive_support::WORKER] }));
}

#[tokio::test(start_paused = true)]
async fn a_letter_id_wakes_that_letter_alone() {
    let cloud = TestAccount::new();
    let names = ["a", "aa", "b"];
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&names.map(|name| letter(name, &json!({})))));
    let told = run(
        &cloud,
        &["retry", "--match", r#"{"letterId": ["letter-a"]}"#, "--why", "mended", "--yes", "--json"],
    )
    .await;
    assert_eq!(shown(&cloud), ["handle-S3CR3T-a"]);
    let said: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&said["waiting"]["touched"], &said["waiting"]["maybe"]), (&json!(1), &json!(0)), "{said}");
}

#[tokio::test(start_paused = true)]
async fn nothing_wakes_before_twenty_seconds_and_then_at_the_rate() {
    let cloud = TestAccount::new();
    let many: Vec<_> = (0..100).map(|number| letter(&number.to_string(), &json!({}))).collect();
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&many));
    let begun = Instant::now();
    let times = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    cloud.script(move |call| {
        if call.operation == "ChangeMessageVisibilityBatch" {
            seen.lock().unwrap().push(begun.elapsed().as_secs_f64());
        }
        SimFault::Pass
    });
    run(&cloud, &[&retry_topic()[..], &["--rate", "10"]].concat()).await.text();
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), 10);
    assert!((20.0..21.0).contains(&times[0]), "{times:?}");
    assert!((9.0..9.5).contains(&(times[9] - times[0])), "{times:?}");
}

/// An instance may have ended that had claimed them.
#[tokio::test(start_paused = true)]
async fn letters_that_the_function_has_claimed_are_told_apart_and_woken() {
    let cloud = TestAccount::new();
    let ten = "2026-11-01T10:00:00Z";
    list(&cloud, ten, &lines(&[recovering("a", ten), letter("b", &json!({}))]));
    put_recovery(&cloud);
    let text = run(&cloud, &retry_topic()).await.text();
    assert!(text.contains("  affects      at most 1 letter on the list of waiting letters\n"), "{text}");
    assert!(
        text.contains("  being woken  1 letter more, whose endpoint is back: the function has claimed them"),
        "{text}"
    );
    assert_eq!(shown(&cloud).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_letters_wake_by_a_hundred_requests_in_two_seconds() {
    let cloud = TestAccount::new();
    for object in 0..100 {
        let ten: Vec<_> = (0..10).map(|number| letter(&format!("{object}-{number}"), &json!({}))).collect();
        list(&cloud, &format!("2026-11-01T11:{:02}:{:02}Z", object / 60, object % 60), &lines(&ten));
    }
    let begun = Instant::now();
    run(&cloud, &retry_topic()).await.text();
    // The first request goes after 20 s. The last one goes within two more seconds.
    let took = begun.elapsed().as_secs_f64();
    assert!((21.9..22.2).contains(&took), "{took}");
    assert_eq!(cloud.calls("ChangeMessageVisibilityBatch").len(), 100);
    assert_eq!(shown(&cloud).len(), 1000);
    // Every object of the list is read once; the overrides, and how far the list is claimed, twice.
    assert_eq!(cloud.calls("GetObject").len(), 104);
    assert!(cloud.calls("ListObjectsV2").len() <= 4);
}

#[tokio::test(start_paused = true)]
async fn what_moved_on_is_told_and_what_was_throttled_is_asked_again() {
    let cloud = TestAccount::new();
    let names = ["fine", "stale", "gone", "busy", "refused"];
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&names.map(|name| letter(name, &json!({})))));
    let calls = AtomicU32::new(0);
    cloud.script(move |call| {
        if call.operation != "ChangeMessageVisibilityBatch" {
            return SimFault::Pass;
        }
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            let fates = [
                ("stale", EntryFault::sender("ReceiptHandleIsInvalid", "S3CR3T expired")),
                // This error is recorded from AWS.
                (
                    "gone",
                    EntryFault::sender(
                        "InvalidParameterValue",
                        "Value S3CR3T for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not \
                         available for visibility timeout change.",
                    ),
                ),
                ("busy", EntryFault::sender("RequestThrottled", "slower")),
                ("refused", EntryFault::sender("AccessDenied", "not you")),
            ];
            let place = |(name, fate): (&str, EntryFault)| (call.entries_with(name)[0], fate);
            return SimFault::Entries(fates.map(place).to_vec());
        }
        SimFault::Pass
    });
    let told = run(&cloud, &[&retry_topic()[..], &["--json"]].concat()).await;
    assert_eq!(told.code, 1);
    let json: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(
        json["wake"],
        json!({ "asked": 2, "stale": 2, "failed": { "AccessDenied": 1 }, "said": { "AccessDenied": "not you" }, "left": 0 })
    );
    assert_eq!(cloud.calls("ChangeMessageVisibilityBatch").len(), 2);
    assert!(!told.out.contains("S3CR3T") && !told.err.contains("S3CR3T"), "{told:?}");
}

/// SQS may have shown the letter, and an attempt may be under way. A second request would show the letter
/// again.
#[tokio::test(start_paused = true)]
async fn a_request_whose_answer_was_lost_is_not_made_again() {
    for (lost, code) in [
        (SimFault::ResetAfter, "Unreachable"),
        (SimFault::ResetBefore, "Unreachable"),
        (SimFault::HangAfter, "DeadlineExceeded"),
        (SimFault::Nonsense(200, "{".to_owned()), "Http200"),
        (SimFault::Entries(vec![(0, EntryFault::Missing)]), "NoAnswer"),
        (SimFault::refuse(500, "InternalError", "oh"), "InternalError"),
    ] {
        let cloud = TestAccount::new();
        list(&cloud, "2026-11-01T11:00:00Z", &lines(&[letter("a", &json!({}))]));
        let fault = lost.clone();
        cloud.script(move |call| {
            if call.operation == "ChangeMessageVisibilityBatch" { fault.clone() } else { SimFault::Pass }
        });
        // The SDK must not repeat the request either.
        let config = Some(cloud.config(RetryConfig::standard()));
        let world = CommandWorld { config, ..CommandWorld::on(&cloud) };
        let told = run_in(world, &[&retry_topic()[..], &["--json"]].concat()).await;
        let said: Value = serde_json::from_str(&told.out).unwrap();
        assert_eq!(said["wake"]["failed"], json!({ code: 1 }), "{lost:?}: {said}");
        assert_eq!(told.code, 1, "{lost:?}");
        assert_eq!(shown(&cloud), ["handle-S3CR3T-a"], "{lost:?}");
    }
}

/// These errors say that SQS has shown nothing.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_refused_for_now_is_made_again() {
    for (status, code) in
        [(403, "RequestThrottled"), (400, "ThrottlingException"), (503, "ServiceUnavailable")]
    {
        let cloud = TestAccount::new();
        list(&cloud, "2026-11-01T11:00:00Z", &lines(&[letter("a", &json!({}))]));
        let calls = AtomicU32::new(0);
        cloud.script(move |call| {
            let is_first = call.operation == "ChangeMessageVisibilityBatch"
                && calls.fetch_add(1, Ordering::Relaxed) == 0;
            if is_first { SimFault::refuse(status, code, "slower") } else { SimFault::Pass }
        });
        let told = run(&cloud, &retry_topic()).await.text();
        assert!(told.contains("\n1 letter asked to wake.\n"), "{code}: {told}");
        assert_eq!(shown(&cloud).len(), 2, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn letters_that_were_read_wake_also_where_the_list_cannot_be_read_again() {
    for (args, action) in
        [(&retry_topic()[..], "retry"), (&["overrides", "release", "held", "--yes"], "release")]
    {
        let cloud = TestAccount::new();
        put_overrides(&cloud, &[override_("held", "hold", None)]);
        list(&cloud, "2026-11-01T11:30:00Z", &lines(&[letter("a", &json!({}))]));
        let written = AtomicBool::new(false);
        cloud.script(move |call| {
            written.fetch_or(call.operation == "PutObject" && call.target == DOCUMENT, Ordering::Relaxed);
            let fails = call.operation == "ListObjectsV2" && written.load(Ordering::Relaxed);
            if fails { SimFault::refuse(403, "AccessDenied", "no") } else { SimFault::Pass }
        });
        let told = run(&cloud, args).await;
        assert_eq!((told.code, told.err.as_str()), (1, ""), "{action}");
        assert_eq!(shown(&cloud), ["handle-S3CR3T-a"], "{action}");
        let line = "\n1 letter asked to wake; letters hidden since the preview were not woken: \
                    cannot list the waiting letters: AccessDenied: no.\n";
        assert!(told.out.contains(line), "{}", told.out);
    }
}

#[tokio::test(start_paused = true)]
async fn no_handle_is_ever_printed() {
    let cloud = TestAccount::new();
    list(
        &cloud,
        "2026-11-01T11:00:00Z",
        &format!("{}{{\"receiptHandle\":\"S3CR3T\"}}\n", lines(&[letter("a", &json!({}))])),
    );
    put_overrides(&cloud, &[override_("held", "hold", None)]);
    let code = |op: &str| {
        (op == "ChangeMessageVisibilityBatch").then_some(SimFault::refuse(400, "InvalidAddress", "S3CR3T"))
    };
    cloud.script(move |call| code(&call.operation).unwrap_or(SimFault::Pass));
    for args in [
        &retry_topic()[..],
        &["retry", "--topic", TOPIC, "--why", "mended", "--yes", "--json"],
        &["overrides", "release", "held", "--yes"],
        &["waiting"],
        &["waiting", "--json"],
    ] {
        let world = CommandWorld { progress: true, ..CommandWorld::on(&cloud) };
        let told = run_in(world, args).await;
        assert!(!told.out.contains("S3CR3T") && !told.err.contains("S3CR3T"), "{args:?}: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_stops_waking_and_the_override_stays() {
    for before_the_first in [true, false] {
        let cloud = TestAccount::new();
        let many: Vec<_> = (0..1000).map(|number| letter(&number.to_string(), &json!({}))).collect();
        list(&cloud, "2026-11-01T11:00:00Z", &lines(&many));
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        cloud.script(move |call| {
            let now = if before_the_first {
                call.target == DOCUMENT && call.operation == "PutObject"
            } else {
                call.operation.starts_with("Change")
            };
            flag.fetch_or(now, Ordering::Relaxed);
            SimFault::Pass
        });
        let world = CommandWorld { interrupted, ..CommandWorld::on(&cloud) };
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
async fn an_override_that_has_ended_wakes_nobody() {
    let cloud = TestAccount::new();
    let letters: Vec<_> = (0..30).map(|number| letter(&number.to_string(), &json!({}))).collect();
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&letters));
    let slowly = [&retry_topic()[..], &["--rate", "1", "--for", "40s"]].concat();
    let world = CommandWorld { ticks: true, ..CommandWorld::on(&cloud) };
    let told = run_in(world, &slowly).await;
    assert_eq!(told.code, 1);
    assert!(
        told.out.contains("  too short    the override ends before the last letter is asked to wake"),
        "{}",
        told.out
    );
    assert!(
        told.out.contains("\n20 letters asked to wake; the override ended, 10 left hidden.\n"),
        "{}",
        told.out
    );

    let cloud = TestAccount::new();
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[letter("a", &json!({}))]));
    let told = run(&cloud, &[&retry_topic()[..], &["--until", "2026-11-01T12:00:10Z"]].concat()).await;
    assert_eq!(told.code, 2);
    assert!(told.err.contains("must be in force for more than 20 s"), "{}", told.err);
}

//! The document of overrides, and the overrides that have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use redrive_support::{SimFault, TestAccount};
use serde_json::{Value, json};

use super::{DOCUMENT, ended, ids, override_, overrides, put_overrides, run, run_in};
use crate::CommandWorld;

#[tokio::test]
async fn two_operators_at_once_lose_nothing() {
    for there in [&[][..], &[override_("old", "hold", None)]] {
        let cloud = TestAccount::new();
        if !there.is_empty() {
            put_overrides(&cloud, there);
        }
        let (other, writes) = (cloud.clone(), Arc::new(AtomicU32::new(0)));
        let others = [&[override_("other", "hold", None)], there].concat();
        cloud.script(move |call| {
            // The other operator writes after this one has read.
            if call.operation == "PutObject" && writes.fetch_add(1, Ordering::Relaxed) == 0 {
                put_overrides(&other, &others);
            }
            SimFault::Pass
        });
        let told =
            run(&cloud, &["hold", "--topic", "payments", "--why", "w", "--yes", "--json"]).await.json();
        let mut expected = vec![told["override"]["id"].as_str().unwrap(), "other"];
        expected.extend(there.iter().map(|_| "old"));
        assert_eq!(ids(&cloud), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_always_comes_second_gives_up_in_the_end() {
    let cloud = TestAccount::new();
    cloud.reply("PutObject", SimFault::refuse(409, "ConditionalRequestConflict", "at this moment"));
    let told = run(&cloud, &["hold", "--all", "--why", "w", "--yes"]).await;
    assert_eq!(told.code, 1);
    assert!(told.err.contains("others changed the overrides at the same time"), "{}", told.err);
    assert_eq!(cloud.calls("PutObject").len(), 10);
}

#[tokio::test]
async fn an_answer_that_is_lost_gives_the_override_once() {
    let cloud = TestAccount::new();
    let writes = AtomicU32::new(0);
    cloud.script(move |call| match call.operation.as_str() {
        "PutObject" if writes.fetch_add(1, Ordering::Relaxed) == 0 => SimFault::ResetAfter,
        _ => SimFault::Pass,
    });
    let retrying = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    let world = CommandWorld { config: Some(cloud.config(retrying)), ..CommandWorld::default() };
    run_in(world, &["hold", "--all", "--why", "w", "--yes"]).await.text();
    assert_eq!((ids(&cloud).len(), cloud.calls("PutObject").len()), (1, 2));
}

#[tokio::test]
async fn a_document_that_cannot_be_read_is_left_as_it_is() {
    for (document, problem) in [
        (r#"{"version":2,"overrides":[]}"#, "version: must be 1, not 2"),
        ("{", "not JSON"),
        (r#"{"version":1,"overrides":[{"id":"a"}]}"#, "overrides[0].do: is missing"),
    ] {
        let cloud = TestAccount::new();
        cloud.put(DOCUMENT, document);
        for args in [
            &["hold", "--all", "--why", "w", "--yes"][..],
            &["overrides", "release", "--all", "--yes"],
            &["overrides"],
        ] {
            let told = run(&cloud, args).await;
            assert_eq!((told.code, told.out.as_str()), (1, ""));
            assert!(told.err.contains(problem) && told.err.contains("it was not changed"), "{}", told.err);
        }
        assert_eq!(cloud.objects()[DOCUMENT], document);
        assert_eq!(cloud.calls("PutObject").len(), 0);
    }
    for is_there in [true, false] {
        let cloud = TestAccount::new();
        if is_there {
            put_overrides(&cloud, &[]);
        }
        cloud.script(move |call| match call.operation.as_str() {
            "GetObject" => SimFault::refuse(403, "AccessDenied", "no"),
            "ListObjectsV2" if !is_there => SimFault::refuse(403, "AccessDenied", "no"),
            _ => SimFault::Pass,
        });
        let told = run(&cloud, &["hold", "--all", "--why", "w", "--yes"]).await;
        assert_eq!((told.code, cloud.calls("PutObject").len()), (1, 0));
        assert!(told.err.contains("AccessDenied"), "{}", told.err);
    }
}

/// S3 may deny access to an object that does not exist, even to those who may list its key.
#[tokio::test]
async fn a_document_that_is_denied_and_not_listed_does_not_exist() {
    let cloud = TestAccount::new();
    cloud.reply("GetObject", SimFault::refuse(403, "AccessDenied", "no"));
    run(&cloud, &["hold", "--all", "--why", "w", "--yes"]).await.text();
    assert_eq!(overrides(&cloud).len(), 1);
}

#[tokio::test]
async fn a_document_that_is_full_takes_no_more() {
    let why = "w".repeat(1000);
    let small = |number: u32| override_(&number.to_string(), "hold", None);
    let large = |number: u32| {
        let mut override_ = override_(&format!("{number:0>500}"), "hold", None);
        (override_["by"], override_["why"]) = (why.as_str().into(), why.as_str().into());
        override_
    };
    let full = [
        ((0..100).map(small).collect::<Vec<_>>(), "at most 100 overrides"),
        ((0..99).map(large).collect(), "at most 262144 bytes"),
    ];
    for (overrides, limit) in full {
        let cloud = TestAccount::new();
        put_overrides(&cloud, &overrides);
        let before = cloud.objects()[DOCUMENT].clone();
        assert!(before.len() < 262_144, "{}", before.len());
        let told = run(&cloud, &["hold", "--all", "--why", &why, "--yes"]).await;
        assert_eq!(told.code, 1, "{limit}, {} bytes", before.len());
        assert!(told.err.contains(limit) && told.err.contains("release"), "{}", told.err);
        assert_eq!(before, cloud.objects()[DOCUMENT]);
    }
}

#[tokio::test]
async fn overrides_whose_time_is_over_are_kept_before_they_leave_the_document() {
    let cloud = TestAccount::new();
    let over = override_("over", "hold", Some("2026-11-01T11:40:00Z"));
    let lapsed = override_("lapsed", "retry", None);
    put_overrides(&cloud, &[over.clone(), override_("here", "hold", None), lapsed.clone()]);
    // Nothing leaves the document before its record is written.
    cloud.script(|call| {
        let kept = call.target.contains("/overrides/");
        if kept { SimFault::refuse(503, "SlowDown", "later") } else { SimFault::Pass }
    });
    let args = ["hold", "--topic", "payments", "--why", "w", "--yes"];
    assert_eq!(run(&cloud, &args).await.code, 1);
    assert_eq!(ids(&cloud), ["over", "here", "lapsed"]);

    cloud.script(|_| SimFault::Pass);
    run(&cloud, &args).await.text();
    assert_eq!(ids(&cloud)[1..], ["here"]);
    let with = |override_: &Value, at: &str| {
        let mut override_ = override_.clone();
        override_["ended"] = json!({ "at": at });
        override_
    };
    assert_eq!(ended(&cloud, "over"), with(&over, "2026-11-01T11:40:00Z"));
    assert_eq!(ended(&cloud, "lapsed"), with(&lapsed, "2026-11-01T11:15:00Z"));
}

#[tokio::test]
async fn a_clock_that_is_ahead_takes_no_override_away_that_is_in_force() {
    let cloud = TestAccount::new();
    let hold = override_("hold", "hold", Some("2026-11-01T12:00:01Z"));
    put_overrides(&cloud, std::slice::from_ref(&hold));
    let args = ["hold", "--topic", "payments", "--why", "w", "--yes"];
    for minutes in [0, 5, 15, 25] {
        let ahead = CommandWorld { later: minutes * 60_000, ..CommandWorld::on(&cloud) };
        assert_eq!(run_in(ahead, &args).await.code, 0);
        assert_eq!(ids(&cloud).last().map(String::as_str), Some("hold"), "{minutes} minutes ahead");
    }
    let ahead = CommandWorld { later: 25 * 60_000, ..CommandWorld::on(&cloud) };
    let shown = run_in(ahead, &["overrides", "--ended"]).await;
    assert_eq!((shown.code, shown.out.as_str()), (0, "No override has ended.\n"));
}

#[tokio::test]
async fn an_override_makes_room_a_minute_after_its_end_by_s3s_clock() {
    let cloud = TestAccount::new();
    let ended_at = |number: u32, until| override_(&format!("o{number:02}"), "retry", Some(until));
    let full: Vec<_> = (0..100).map(|number| ended_at(number, "2026-11-01T11:59:01Z")).collect();
    put_overrides(&cloud, &full);
    let args = ["hold", "--all", "--why", "w", "--yes"];
    // This machine's clock is ahead. That must not remove an override.
    let told = run_in(CommandWorld { later: 600_000, ..CommandWorld::on(&cloud) }, &args).await;
    assert!(told.code == 1 && told.err.contains("at most 100 overrides"), "{}", told.err);
    assert_eq!(ids(&cloud).len(), 100);

    cloud.aws.clock().pass(Duration::from_secs(1));
    run(&cloud, &args).await.text();
    assert_eq!(
        (ids(&cloud).len(), &ended(&cloud, "o99")["ended"]),
        (1, &json!({ "at": "2026-11-01T11:59:01Z" }))
    );
}

#[tokio::test(start_paused = true)]
async fn the_record_of_an_end_tells_who_took_the_override_out_of_the_document() {
    let release = ["overrides", "release", "one", "--yes", "--by", "ada", "--why", "mended"];
    let cut_off = || async {
        let cloud = TestAccount::new();
        put_overrides(&cloud, &[override_("one", "hold", Some("2026-11-01T13:00:00Z"))]);
        cloud.script(|call| {
            let is_document = call.operation == "PutObject" && call.target == DOCUMENT;
            if is_document { SimFault::refuse(403, "AccessDenied", "no") } else { SimFault::Pass }
        });
        let told = run(&cloud, &["overrides", "release", "one", "--yes", "--by", "bob"]).await;
        assert_eq!((told.code, ids(&cloud)), (1, vec!["one".to_owned()]));
        assert_eq!(ended(&cloud, "one")["ended"]["by"], "bob");
        cloud.script(|_| SimFault::Pass);
        cloud
    };
    let cloud = cut_off().await;
    run(&cloud, &release).await.text();
    assert!(ids(&cloud).is_empty());
    let by_ada = json!({ "at": "2026-11-01T12:00:00Z", "by": "ada", "why": "mended" });
    assert_eq!(ended(&cloud, "one")["ended"], by_ada);

    let cloud = cut_off().await;
    cloud.aws.clock().pass(Duration::from_hours(2));
    run(&cloud, &["hold", "--all", "--why", "w", "--yes"]).await;
    assert_eq!(ended(&cloud, "one")["ended"], json!({ "at": "2026-11-01T13:00:00Z" }));

    // The second operator must not write the end again.
    let cloud = cut_off().await;
    let other = cloud.clone();
    cloud.script(move |call| {
        if call.operation == "PutObject" && call.target == DOCUMENT {
            put_overrides(&other, &[]);
        }
        SimFault::Pass
    });
    run(&cloud, &release).await.text();
    assert_eq!(ended(&cloud, "one")["ended"]["by"], "bob");
}

/// Two operators write the end of one override at the same moment: S3 answers one of them with 409.
#[tokio::test(start_paused = true)]
async fn whoever_keeps_an_override_at_the_moment_that_another_does_goes_on() {
    for (status, code) in
        [(412, "PreconditionFailed"), (409, "ConditionalRequestConflict"), (404, "NoSuchKey")]
    {
        let cloud = TestAccount::new();
        put_overrides(&cloud, &[override_("one", "hold", None)]);
        let writes = AtomicU32::new(0);
        cloud.script(move |call| {
            let keeps = call.operation == "PutObject" && call.target.contains("/overrides/");
            let meets = keeps && writes.fetch_add(1, Ordering::Relaxed) == 0;
            if meets { SimFault::refuse(status, code, "at this moment") } else { SimFault::Pass }
        });
        run(&cloud, &["overrides", "release", "one", "--yes", "--by", "ada"]).await.text();
        assert!(ids(&cloud).is_empty());
        assert_eq!(ended(&cloud, "one")["ended"]["by"], "ada");
    }
}

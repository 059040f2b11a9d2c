//! The reading of the document of overrides, and what counts while S3 does not give it.

use super::*;

#[tokio::test]
async fn without_a_document_there_are_no_overrides() {
    let world = world(&[]);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(calls(&world, "GetObject").len(), 1);
    assert_eq!(ran.metric("OverridesUnread"), 0);
    assert!(!is_warned(&ran, "overrides"));
}

/// S3 may deny access to an object that does not exist, even to those who may list its key.
#[tokio::test]
async fn a_document_that_is_denied_and_not_listed_does_not_exist() {
    let denied = |call: &SimCall| if call.operation == "GetObject" { forbidden() } else { SimFault::Pass };
    let none = world(&[]);
    // Another object, whose key begins alike.
    none.cloud.put(&format!("{OVERRIDES}.old"), "{}");
    with_s3(&none, denied);
    let ran = none.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(ran.metric("OverridesUnread"), 0);
    assert!(!is_warned(&ran, "overrides"));
    assert_eq!(calls(&none, "ListObjectsV2").len(), 1);

    let there = world(&[]);
    give(&there, &[]);
    with_s3(&there, denied);
    let ran = there.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred overrides_unread"]);
    assert!(ran.text.contains("s3:ListBucket"), "{}", ran.text);
}

/// Reading and listing share one second.
#[tokio::test(start_paused = true)]
async fn a_listing_that_never_answers_costs_no_more_than_a_reading() {
    let world = world(&[]);
    with_s3(&world, |call| match call.operation.as_str() {
        "GetObject" => forbidden(),
        "ListObjectsV2" => SimFault::HangBefore,
        _ => SimFault::Pass,
    });
    let began = tokio::time::Instant::now();
    let ran = world.run([&due()]).await;
    assert!(began.elapsed() <= std::time::Duration::from_millis(1_100), "{:?}", began.elapsed());
    assert_eq!(ran.outcomes(), ["a deferred overrides_unread"]);
}

#[tokio::test(start_paused = true)]
async fn the_document_is_read_every_15_s_at_most_and_only_where_it_has_changed() {
    let world = world(&[]);
    give(&world, &[override_("hold", &json!({}))]);
    world.run([&due()]).await;
    world.pass(14);
    world.run([&due()]).await;
    assert_eq!(calls(&world, "GetObject").len(), 1);
    world.pass(1);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred overridden"], "304 is a good reading");
    let tags: Vec<_> =
        calls(&world, "GetObject").iter().map(|call| call.parameters.contains_key("if-none-match")).collect();
    assert_eq!(tags, [false, true]);
    give(&world, &[]);
    world.pass(15);
    assert_eq!(world.run([&due()]).await.outcomes(), ["a deferred failed"], "it was taken back");
}

/// Returns the answers that S3 may give instead of the document.
fn bad_replies() -> Vec<(&'static str, SimFault)> {
    vec![
        ("ServiceUnavailable", SimFault::refuse(503, "ServiceUnavailable", "down")),
        ("SlowDown", SimFault::refuse(503, "SlowDown", "slow")),
        ("AccessDenied", forbidden()),
        ("NoSuchBucket", SimFault::refuse(404, "NoSuchBucket", "no")),
        ("Unreachable", SimFault::ResetBefore),
        ("DeadlineExceeded", SimFault::HangBefore),
        ("DeadlineExceeded", SimFault::Pass.after(std::time::Duration::from_secs(2))),
        ("OverridesBroken", SimFault::Nonsense(200, "{".to_owned())),
        ("OverridesBroken", SimFault::Nonsense(200, r#"{"version": 2, "overrides": []}"#.to_owned())),
    ]
}

/// True for a failure that can pass by itself.
fn passes(code: &str) -> bool {
    ["ServiceUnavailable", "SlowDown", "Unreachable", "DeadlineExceeded"].contains(&code)
}

#[tokio::test(start_paused = true)]
async fn the_first_faults_of_a_broken_document_are_reported_and_how_many_more_there_are() {
    let of_an_override = "overrides[0]: must be an object, not a number; overrides[0].do: is missing: set it to hold, retry or give-up; \
                       overrides[0].id: must be a text of 1 to 1000 characters; and 4 more";
    let of_a_version = "version: must be 1, not 2: a newer version of the tools may have written it";
    for (document, message) in [
        (json!({ "version": 1, "overrides": [1] }), of_an_override),
        (json!({ "version": 2, "overrides": [] }), of_a_version),
    ] {
        let world = world(&[]);
        with_get(&world, SimFault::Nonsense(200, document.to_string()));
        let ran = world.run([&due()]).await;
        let line = ran.log.iter().find(|line| line["error.code"] == "OverridesBroken").unwrap();
        assert_eq!(line["error.message"], message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_was_read_stays_whatever_s3_answers_until_it_ends_or_is_read_as_gone() {
    for (code, reply) in bad_replies() {
        let world = world(&[]);
        give(&world, &[override_("hold", &json!({}))]);
        world.run([&due()]).await;
        with_get(&world, reply);
        for pass in [15, 3_600] {
            world.pass(pass);
            let began = tokio::time::Instant::now();
            let ran = world.run([&due()]).await;
            assert_eq!(ran.outcomes(), ["a deferred overridden"], "{code}");
            assert!(
                began.elapsed() <= std::time::Duration::from_millis(1_100),
                "{code}: {:?}",
                began.elapsed()
            );
            assert!(is_warned(&ran, "holds that were read stay"), "{code}: {}", ran.text);
            assert!(ran.text.contains(&format!(r#""error.code":"{code}""#)), "{code}: {}", ran.text);
            // One slow answer is no alarm.
            let counts = pass == 3_600 || !passes(code);
            assert_eq!(ran.metric("OverridesUnread"), u64::from(counts), "{code}");
        }
        world.pass(3_600);
        assert_eq!(world.run([&due()]).await.outcomes(), ["a deferred failed"], "it has ended");
        with_get(&world, SimFault::Pass);
        give(&world, &[]);
        world.pass(15);
        assert_eq!(world.run([&due()]).await.metric("OverridesUnread"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn overrides_to_retry_and_to_archive_lapse_ten_minutes_after_the_last_good_reading() {
    for (action, overridden, lapsed) in [
        ("retry", "early deferred failed", "early deferred early"),
        ("give-up", "early archived given-up", "early deferred early"),
    ] {
        for (code, reply) in bad_replies() {
            let world = world(&[]);
            give(&world, &[override_(action, &json!({}))]);
            world.run([&due()]).await;
            with_get(&world, reply);
            let early = RecordBuilder::envelope("early").mark(&mark(6, "early", NOW - 60_000));
            // A reading takes a second at most.
            world.pass(598);
            assert_eq!(world.run([&early]).await.outcomes(), [overridden], "{code}");
            world.pass(3);
            assert_eq!(world.run([&early]).await.outcomes(), [lapsed], "{code}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_never_read_the_overrides_hides_for_a_minute_at_a_time_and_gives_up_after_ten() {
    let broken_off = ("Unreachable", SimFault::BreakOff(20));
    for (code, reply) in bad_replies().into_iter().chain([broken_off]) {
        let world = world(&[]);
        give(&world, &[]);
        with_get(&world, reply);
        for nth in 0..10 {
            let ran = world.run([&due()]).await;
            assert_eq!(ran.outcomes(), ["a deferred overrides_unread"], "{code}");
            assert_eq!(ran.metric("OverridesUnread"), u64::from(nth > 0 || !passes(code)), "{code}");
            assert_eq!(world.cloud.hidden()["handle-a"], 60);
            assert!(is_warned(&ran, "hidden for a minute at a time"), "{code}");
            world.pass(60);
        }
        let ran = world.run([&due()]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"], "{code}");
        assert!(is_warned(&ran, "by their rules alone"), "{code}");
        assert_eq!(ran.metrics()["OverridesUnread"], 1);
    }
}

#[tokio::test]
async fn a_reading_that_is_forbidden_or_broken_says_what_to_do() {
    const SAID: &str = "User: function is not authorized to perform: s3:GetObject because no service control policy allows it";
    let closed = world(&[]);
    with_s3(&closed, |call| match call.operation.as_str() {
        "GetObject" | "ListObjectsV2" => SimFault::refuse(403, "AccessDenied", SAID),
        _ => SimFault::Pass,
    });
    let ran = closed.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred overrides_unread"], "nobody knows whether there are overrides");
    assert!(ran.text.contains("s3:ListBucket") && ran.text.contains(SAID), "{}", ran.text);
    let broken = world(&[]);
    give(&broken, &[override_("hodl", &json!({}))]);
    let ran = broken.run([&due()]).await;
    assert!(ran.text.contains("overrides[0].do: must be one of hold, retry, give-up"), "{}", ran.text);
}

/// Reading and writing share one second.
#[tokio::test(start_paused = true)]
async fn an_s3_that_never_answers_costs_an_invocation_a_second_and_no_more() {
    let long = RecordBuilder::envelope("long").mark(&mark(6, "long", NOW));
    let world = world(&[]);
    give(&world, &[]);
    world.run([&due()]).await;
    with_s3(&world, |_| SimFault::HangBefore);
    world.pass(15);
    world.run([&long]).await;
    world.pass(15);
    let began = tokio::time::Instant::now();
    let ran = world.run([&long]).await;
    assert!(began.elapsed() <= std::time::Duration::from_millis(1_100), "{:?}", began.elapsed());
    let metrics = ran.metrics();
    assert_eq!(json!([metrics["OverridesUnread"], metrics["WaitingListFailed"]]), json!([1, 1]));
}

#[tokio::test(start_paused = true)]
async fn overrides_are_read_again_though_the_wall_clock_is_set_back() {
    let world = world(&[]);
    world.run([&due()]).await;
    give(&world, &[override_("hold", &json!({ "at": "2026-11-01T10:00:00Z" }))]);
    world.set_now(NOW - 3_600_000);
    tokio::time::advance(std::time::Duration::from_secs(16)).await;
    let ran = world.run([&RecordBuilder::envelope("b").sent(NOW - 7_200_000)]).await;
    assert_eq!(ran.outcomes(), ["b deferred overridden"]);
}

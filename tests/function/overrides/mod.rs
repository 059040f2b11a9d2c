//! P10, tested at S3: overrides are read from it, waiting letters are listed there, and a failing S3 costs a
//! second and no letter.

mod begun;

use serde_json::{Value, json};
use support::*;

const OVERRIDES: &str = "my-bucket/control/overrides.json";

/// Returns a function with a place for overrides, whose subscribers are down.
fn world(settings: &[(&str, &str)]) -> World {
    let given = [("CONTROL", "s3://my-bucket/control")];
    let world = World::new(&[&given, settings].concat());
    with_s3(&world, |_| Fault::Pass);
    world
}

/// Makes S3 answer this from now on, and keeps subscribers down.
fn with_s3(world: &World, s3: impl Fn(&Call) -> Fault + Send + Sync + 'static) {
    world.cloud.script(move |call| match call.operation.as_str() {
        "GetObject" | "ListObjectsV2" | "PutObject" => s3(call),
        "SendMessageBatch" => Fault::refuse(503, "ServiceUnavailable", "down"),
        _ => Fault::Pass,
    });
}

/// Makes S3 answer reads with this from now on, and with the same listings if it forbids reads.
fn with_get(world: &World, reply: Fault) {
    let forbids = reply == forbidden();
    with_s3(world, move |call| match call.operation.as_str() {
        "GetObject" => reply.clone(),
        "ListObjectsV2" if forbids => reply.clone(),
        _ => Fault::Pass,
    });
}

fn forbidden() -> Fault {
    Fault::refuse(403, "AccessDenied", "no")
}

fn override_(action: &str, more: &Value) -> Value {
    let mut override_ = json!({ "id": "override-1", "do": action, "match": { "topicArn": [TOPIC] },
        "at": "2026-11-01T11:59:00Z", "until": "2026-11-01T14:00:00Z", "by": "ada", "why": "the database is down" });
    override_.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    override_
}

fn give(world: &World, overrides: &[Value]) {
    world.cloud.put(OVERRIDES, &json!({ "version": 1, "overrides": overrides }).to_string());
}

/// Returns a letter, received now, whose second retry is due in nearly a minute.
fn early() -> Post {
    Post::envelope("early").mark(&mark(1, "early", NOW - 60_000)).received(1)
}

/// Returns a letter whose first retry is due.
fn due() -> Post {
    Post::envelope("a")
}

fn is_warned(ran: &Ran, text: &str) -> bool {
    ran.log.iter().any(|line| line["level"] == "WARN" && line["message"].as_str().unwrap().contains(text))
}

#[tokio::test]
async fn without_a_document_there_are_no_overrides() {
    let world = world(&[]);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(world.cloud.calls("GetObject").len(), 1);
    assert_eq!(ran.metrics()["OverridesUnread"], 0);
    assert!(!is_warned(&ran, "overrides"));
}

/// S3 may deny access to an object that does not exist, even to those who may list its key.
#[tokio::test]
async fn a_document_that_is_denied_and_not_listed_does_not_exist() {
    let denied = |call: &Call| if call.operation == "GetObject" { forbidden() } else { Fault::Pass };
    let none = world(&[]);
    // Another object, whose key begins alike.
    none.cloud.put(&format!("{OVERRIDES}.old"), "{}");
    with_s3(&none, denied);
    let ran = none.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(ran.metrics()["OverridesUnread"], 0);
    assert!(!is_warned(&ran, "overrides"));
    assert_eq!(none.cloud.summary().iter().filter(|call| call.starts_with("ListObjectsV2")).count(), 1);

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
        "ListObjectsV2" => Fault::HangBefore,
        _ => Fault::Pass,
    });
    let began = tokio::time::Instant::now();
    let ran = world.run([&due()]).await;
    assert!(began.elapsed() <= std::time::Duration::from_millis(1_100), "{:?}", began.elapsed());
    assert_eq!(ran.outcomes(), ["a deferred overrides_unread"]);
}

#[tokio::test]
async fn a_hold_hides_a_letter_until_its_end_and_says_so() {
    let world = world(&[]);
    give(&world, &[override_("hold", &json!({}))]);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred overridden"]);
    assert_eq!(world.cloud.hidden()["handle-a"], 7_200);
    assert_eq!(ran.letter("a")["override.id"], "override-1");
    assert_eq!(world.cloud.calls("SendMessageBatch").len(), 0);
    assert_eq!(ran.metrics()["LettersOverridden"], 1);
}

#[tokio::test]
async fn a_retry_is_made_at_once_and_a_failure_keeps_the_plan() {
    let world = world(&[]);
    let planned = world.run([&early()]).await.letter("early")["due"].clone();
    give(&world, &[override_("retry", &json!({}))]);
    world.pass(20);
    let ran = world.run([&early()]).await;
    let line = ran.letter("early");
    assert_eq!(
        [&line["outcome"], &line["reason"], &line["due"]],
        [&json!("deferred"), &json!("failed"), &planned]
    );
    let said = json!([line["retry.number"], line["retry.early"], line["override.id"]]);
    assert_eq!(said, json!([1, true, "override-1"]));
    let sent = &world.cloud.entries("SendMessageBatch")[0];
    let mark: Value = serde_json::from_str(&sent.attributes["sns-redrive"].value.text()).unwrap();
    assert_eq!(json!([mark["spent"], mark["early"]]), json!([1, true]));
}

/// The mark says that it was sent ahead of its time, and SQS when it came back.
#[tokio::test]
async fn a_letter_that_came_back_is_attempted_again_for_a_later_override_only() {
    let world = world(&[]);
    let mut mark = mark(6, "letter", NOW - 3_600_000);
    mark["early"] = json!(true);
    let back = Post::envelope("a").mark(&mark).sent(NOW - 30_000).received(1);
    let first = override_("retry", &json!({}));
    give(&world, std::slice::from_ref(&first));
    assert_eq!(world.run([&back]).await.outcomes(), ["a deferred early"]);
    let second = override_("retry", &json!({ "id": "override-2", "at": "2026-11-01T11:59:45Z" }));
    give(&world, &[first, second]);
    world.pass(20);
    let ran = world.run([&back]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(ran.letter("a")["override.id"], "override-2");
}

#[tokio::test]
async fn a_letter_id_picks_that_letter_alone_also_when_it_comes_back() {
    let world = world(&[]);
    give(&world, &[override_("give-up", &json!({ "match": { "letterId": ["letter-1"] } }))]);
    let marked = |id: &str, letter: &str| Post::envelope(id).mark(&mark(6, letter, NOW + 3_600_000));
    let ran = world.run([&marked("a", "letter-1"), &marked("b", "letter-10")]).await;
    assert_eq!(ran.outcomes(), ["a archived given-up", "b deferred early"]);
}

#[tokio::test]
async fn an_archive_says_who_and_why() {
    let world = world(&[]);
    give(&world, &[override_("give-up", &json!({}))]);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a archived given-up"]);
    assert_eq!(ran.metrics()["ArchivedGivenUp"], 1);
    let record = archived_by(&world);
    assert_eq!(
        json!([record["reason"], record["override"], record["detail"]]),
        json!(["given-up", "override-1", "by ada: the database is down"])
    );
}

fn archived_by(world: &World) -> Value {
    let objects = world.cloud.objects();
    let (_, object) = objects.iter().find(|(key, _)| key.contains("/dead-letters/")).unwrap();
    serde_json::from_str(object.trim()).unwrap()
}

#[tokio::test]
async fn an_attempt_that_ends_for_good_is_recorded_as_overridden() {
    let world = world(&[]);
    give(&world, &[override_("retry", &json!({}))]);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => Fault::refuse(400, "InvalidMessageContents", "no"),
        _ => Fault::Pass,
    });
    assert_eq!(world.run([&early()]).await.outcomes(), ["early archived permanent"]);
    let record = archived_by(&world);
    assert_eq!(record["retry"], json!({ "number": 1, "of": 12, "early": true }));
    assert_eq!(record["override"], "override-1");
}

#[tokio::test]
async fn in_observe_mode_it_is_said_what_an_override_would_do() {
    let world = world(&[("REDRIVE_MODE", "observe")]);
    give(&world, &[override_("give-up", &json!({}))]);
    let ran = world.run([&due()]).await;
    let line = ran.letter("a");
    assert_eq!(
        json!([line["decision"], line["reason"], line["override.id"]]),
        json!(["archive", "given-up", "override-1"])
    );
    assert_eq!(world.cloud.calls("PutObject").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_document_is_read_every_15_s_at_most_and_only_where_it_has_changed() {
    let world = world(&[]);
    give(&world, &[override_("hold", &json!({}))]);
    world.run([&due()]).await;
    world.pass(14);
    world.run([&due()]).await;
    assert_eq!(world.cloud.calls("GetObject").len(), 1);
    world.pass(1);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred overridden"], "304 is a good reading");
    let tags: Vec<_> = world
        .cloud
        .calls("GetObject")
        .iter()
        .map(|call| call.parameters.contains_key("if-none-match"))
        .collect();
    assert_eq!(tags, [false, true]);
    give(&world, &[]);
    world.pass(15);
    assert_eq!(world.run([&due()]).await.outcomes(), ["a deferred failed"], "it was taken back");
}

/// Returns the answers that S3 may give instead of the document.
fn bad_replies() -> Vec<(&'static str, Fault)> {
    vec![
        ("ServiceUnavailable", Fault::refuse(503, "ServiceUnavailable", "down")),
        ("SlowDown", Fault::refuse(503, "SlowDown", "slow")),
        ("AccessDenied", forbidden()),
        ("NoSuchBucket", Fault::refuse(404, "NoSuchBucket", "no")),
        ("Unreachable", Fault::ResetBefore),
        ("DeadlineExceeded", Fault::HangBefore),
        ("DeadlineExceeded", Fault::Pass.after(std::time::Duration::from_secs(2))),
        ("OverridesBroken", Fault::Nonsense(200, "{".to_owned())),
        ("OverridesBroken", Fault::Nonsense(200, r#"{"version": 2, "overrides": []}"#.to_owned())),
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
        with_get(&world, Fault::Nonsense(200, document.to_string()));
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
            assert_eq!(ran.metrics()["OverridesUnread"], u8::from(counts), "{code}");
        }
        world.pass(3_600);
        assert_eq!(world.run([&due()]).await.outcomes(), ["a deferred failed"], "it has ended");
        with_get(&world, Fault::Pass);
        give(&world, &[]);
        world.pass(15);
        assert_eq!(world.run([&due()]).await.metrics()["OverridesUnread"], 0);
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
            let early = Post::envelope("early").mark(&mark(6, "early", NOW - 60_000));
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
    let broken_off = ("Unreachable", Fault::BreakOff(20));
    for (code, reply) in bad_replies().into_iter().chain([broken_off]) {
        let world = world(&[]);
        give(&world, &[]);
        with_get(&world, reply);
        for nth in 0..10 {
            let ran = world.run([&due()]).await;
            assert_eq!(ran.outcomes(), ["a deferred overrides_unread"], "{code}");
            assert_eq!(ran.metrics()["OverridesUnread"], u8::from(nth > 0 || !passes(code)), "{code}");
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
        "GetObject" | "ListObjectsV2" => Fault::refuse(403, "AccessDenied", SAID),
        _ => Fault::Pass,
    });
    let ran = closed.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred overrides_unread"], "nobody knows whether there are overrides");
    assert!(ran.text.contains("s3:ListBucket") && ran.text.contains(SAID), "{}", ran.text);
    let broken = world(&[]);
    give(&broken, &[override_("hodl", &json!({}))]);
    let ran = broken.run([&due()]).await;
    assert!(ran.text.contains("overrides[0].do: must be one of hold, retry, give-up"), "{}", ran.text);
}

#[tokio::test]
async fn letters_that_are_hidden_for_more_than_two_minutes_are_listed() {
    let world = world(&[]);
    // After the first retry the wait is a minute, after the sixth it is longer.
    let long = Post::envelope("long").mark(&mark(6, "long", NOW));
    world.run([&due(), &long]).await;
    let objects = world.cloud.objects();
    let (key, object) = objects.iter().find(|(key, _)| key.contains("/waiting/")).unwrap();
    assert_eq!(
        key,
        "my-bucket/control/waiting/queue=payments-dlq/hour=2026-11-01T12/20261101T120000.000Z-req-1.jsonl"
    );
    let lines: Vec<Value> = object.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1);
    let line = &lines[0];
    assert_eq!(
        json!([
            line["letterId"],
            line["messageId"],
            line["receiptHandle"],
            line["queueArn"],
            line["topicArn"]
        ]),
        json!(["long", "long", "handle-long", DLQ, TOPIC])
    );
    assert_eq!(
        json!([line["rule"], line["retry"]["number"], line["retry"]["of"]]),
        json!(["default", 7, 12])
    );
    assert_eq!(line.get("deadLetterQueueArn"), None, "it is queueArn");
}

#[tokio::test]
async fn what_holds_a_letter_is_on_the_list() {
    let listed = |world: &World| -> Value {
        let objects = world.cloud.objects();
        let (_, object) = objects.iter().find(|(key, _)| key.contains("/waiting/")).unwrap();
        serde_json::from_str(object.lines().next().unwrap()).unwrap()
    };
    let by_override = world(&[]);
    give(&by_override, &[override_("hold", &json!({ "id": "o1" }))]);
    by_override.run([&due()]).await;
    assert_eq!(listed(&by_override)["heldBy"], "override o1");
    let by_rule = world(&[("REDRIVE_POLICY", r#"{"default":{"action":"hold"}}"#)]);
    by_rule.run([&due()]).await;
    assert_eq!(listed(&by_rule)["heldBy"], "rule default");
    let nothing = world(&[]);
    nothing.run([&Post::envelope("long").mark(&mark(6, "long", NOW))]).await;
    assert_eq!(listed(&nothing).get("heldBy"), None);
}

#[tokio::test]
async fn a_list_that_is_off_or_has_no_lines_is_not_written() {
    let long = Post::envelope("long").mark(&mark(6, "long", NOW));
    let off = world(&[("WAITING_LIST", "off")]);
    off.run([&long]).await;
    let short = world(&[]);
    short.run([&due()]).await;
    assert_eq!((off.cloud.calls("PutObject").len(), short.cloud.calls("PutObject").len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_written_is_counted_and_nothing_else() {
    let long = || Post::envelope("long").mark(&mark(6, "long", NOW));
    for reply in [Fault::HangBefore, Fault::ResetBefore, Fault::refuse(403, "AccessDenied", "handle-long")] {
        let world = world(&[]);
        with_s3(&world, move |call| if call.operation == "PutObject" { reply.clone() } else { Fault::Pass });
        let began = tokio::time::Instant::now();
        let ran = world.run([&long()]).await;
        assert!(began.elapsed() <= std::time::Duration::from_millis(1_100));
        assert_eq!(ran.outcomes(), ["long deferred early"]);
        assert_eq!((ran.kept.len(), world.cloud.hidden().len()), (1, 1));
        assert_eq!(ran.metrics()["WaitingListFailed"], 1);
    }
}

/// S3 answers 412 to a repeated call if only the answer to the first try was lost.
#[tokio::test]
async fn a_list_that_is_there_already_was_written() {
    let long = Post::envelope("long").mark(&mark(6, "long", NOW));
    let world = world(&[]);
    let there = Fault::refuse(412, "PreconditionFailed", "no");
    with_s3(&world, move |call| if call.operation == "PutObject" { there.clone() } else { Fault::Pass });
    let ran = world.run([&long]).await;
    assert_eq!(world.cloud.calls("PutObject")[0].parameters["if-none-match"], "*");
    assert_eq!(ran.metrics()["WaitingListFailed"], 0);
}

/// Reading and writing share one second.
#[tokio::test(start_paused = true)]
async fn an_s3_that_never_answers_costs_an_invocation_a_second_and_no_more() {
    let long = Post::envelope("long").mark(&mark(6, "long", NOW));
    let world = world(&[]);
    give(&world, &[]);
    world.run([&due()]).await;
    with_s3(&world, |_| Fault::HangBefore);
    world.pass(15);
    world.run([&long]).await;
    world.pass(15);
    let began = tokio::time::Instant::now();
    let ran = world.run([&long]).await;
    assert!(began.elapsed() <= std::time::Duration::from_millis(1_100), "{:?}", began.elapsed());
    let metrics = ran.metrics();
    assert_eq!(json!([metrics["OverridesUnread"], metrics["WaitingListFailed"]]), json!([1, 1]));
}

#[tokio::test]
async fn no_handle_of_the_list_stands_in_a_log_or_a_metric() {
    for level in [tracing::level_filters::LevelFilter::TRACE, tracing::level_filters::LevelFilter::INFO] {
        for fails in [true, false] {
            let world = world(&[]).log_level(level);
            with_s3(&world, move |call| match (call.operation.as_str(), fails) {
                ("PutObject", true) => Fault::refuse(500, "InternalError", "handle-long"),
                _ => Fault::Pass,
            });
            let ran = world.run([&Post::envelope("long").mark(&mark(6, "long", NOW))]).await;
            assert!(body_text(&world.cloud.calls("PutObject")[0]).contains("handle-long"));
            assert!(!ran.text.contains("handle-") && !ran.metrics.contains("handle-"), "{}", ran.text);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn letters_that_an_override_sends_to_an_endpoint_that_is_down_come_back_within_a_minute() {
    let world = world(&[]);
    let hang =
        |call: &Call| if call.operation == "SendMessageBatch" { Fault::HangBefore } else { Fault::Pass };
    world.cloud.script(hang);
    world.run([&due()]).await;
    give(&world, &[override_("retry", &json!({}))]);
    world.pass(20);
    let posts: Vec<_> = (0..5).map(|number| Post::envelope(&format!("b{number}"))).collect();
    let ran = world.run(&posts).await;
    for number in 0..5 {
        let line = ran.letter(&format!("b{number}"));
        assert_eq!(line["reason"], "endpoint_down", "{number}");
        assert!((54..=60).contains(&line["delay_s"].as_i64().unwrap()), "{line}");
    }
}

/// Neither the archive nor the target takes a letter.
fn neither_archived_nor_sent(call: &Call) -> Fault {
    match call.operation.as_str() {
        "PutObject" => Fault::refuse(503, "SlowDown", "slow"),
        "SendMessageBatch" => Fault::refuse(400, "InvalidMessageContents", "bad"),
        _ => Fault::Pass,
    }
}

/// An override goes before everything, also before what an instance remembers.
#[tokio::test]
async fn a_letter_that_the_archive_did_not_take_hears_overrides() {
    for (action, outcome) in [("retry", "a delivered"), ("hold", "a deferred overridden")] {
        let world = world(&[]);
        give(&world, &[]);
        world.cloud.script(neither_archived_nor_sent);
        assert_eq!(world.run([&due()]).await.outcomes(), ["a failed archive"]);
        world.cloud.script(|_| Fault::Pass);
        give(&world, &[override_(action, &json!({ "at": "2026-11-01T12:00:10Z" }))]);
        world.pass(15);
        assert_eq!(world.run([&due()]).await.outcomes(), [outcome]);
    }
}

/// Else it would be attempted every second for as long as the override is in force.
#[tokio::test]
async fn an_override_asks_for_one_attempt_also_where_the_archive_takes_nothing() {
    let world = world(&[]);
    give(&world, &[override_("retry", &json!({}))]);
    world.cloud.script(neither_archived_nor_sent);
    for hidden in [1, 2, 4] {
        assert_eq!(world.run([&due()]).await.outcomes(), ["a failed archive"]);
        assert_eq!(world.cloud.hidden().into_values().collect::<Vec<_>>(), [hidden]);
        world.pass(hidden);
    }
    assert_eq!(world.cloud.calls("SendMessageBatch").len(), 1);
}

#[tokio::test]
async fn a_letter_that_the_archive_did_not_take_is_attempted_once_its_override_is_taken_back() {
    let world = world(&[]);
    give(&world, &[override_("give-up", &json!({}))]);
    let store = |call: &Call| call.operation == "PutObject" && call.target.contains("dead-letters");
    with_s3(
        &world,
        move |call| if store(call) { Fault::refuse(503, "SlowDown", "slow") } else { Fault::Pass },
    );
    assert_eq!(world.run([&due()]).await.outcomes(), ["a failed archive"]);
    with_s3(&world, |_| Fault::Pass);
    give(&world, &[override_("give-up", &json!({ "id": "other", "match": { "subject": ["another"] } }))]);
    world.pass(15);
    assert_eq!(world.run([&due()]).await.outcomes(), ["a deferred failed"]);
    give(&world, &[override_("give-up", &json!({ "id": "override-2" }))]);
    world.pass(15);
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a archived given-up"]);
    assert_eq!(archived_by(&world)["override"], "override-2");
}

#[tokio::test(start_paused = true)]
async fn overrides_are_read_again_though_the_wall_clock_is_set_back() {
    let world = world(&[]);
    world.run([&due()]).await;
    give(&world, &[override_("hold", &json!({ "at": "2026-11-01T10:00:00Z" }))]);
    world.set_now(NOW - 3_600_000);
    tokio::time::advance(std::time::Duration::from_secs(16)).await;
    let ran = world.run([&Post::envelope("b").sent(NOW - 7_200_000)]).await;
    assert_eq!(ran.outcomes(), ["b deferred overridden"]);
}

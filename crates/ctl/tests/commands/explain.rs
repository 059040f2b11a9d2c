//! `explain`: the tool says about each sample what `events/README.md` says.

use redrive_support::{
    DLQ, NOW, PROJECTOR, REQUEUE, RecordBuilder, SUBSCRIPTION, TOPIC, WORKER, event, mark, sample_names,
};
use serde_json::{Value, json};

use super::{CommandRun, CommandWorld, TextFile, redrivectl, redrivectl_in};

async fn explain(file: &str, args: &[&str]) -> CommandRun {
    let path = redrive_support::events().join(file);
    redrivectl(&[&["explain", path.to_str().unwrap()], args].concat()).await
}

async fn explain_post(post: &RecordBuilder, args: &[&str]) -> CommandRun {
    let world = CommandWorld { input: event([post]).to_string().into_bytes(), ..CommandWorld::default() };
    redrivectl_in(world, &[&["explain", "-"], args].concat()).await
}

/// Returns every decision in short.
fn decisions(explained: &Value) -> Vec<String> {
    let records = explained["records"].as_array().unwrap().iter();
    let short = |record: &Value| {
        let decision = &record["decision"];
        match decision["kind"].as_str().unwrap() {
            "deliver" => format!(
                "{} of {} {}",
                decision["retry"],
                decision["of"],
                record["route"]["arn"].as_str().unwrap()
            ),
            "defer" => decision["why"].as_str().unwrap().to_owned(),
            _ => decision["reason"].as_str().unwrap().to_owned(),
        }
    };
    records.map(short).collect()
}

#[tokio::test]
async fn every_sample_is_explained_as_its_table_says() {
    const OVERRIDES: &str = "arn:aws:sns:eu-central-1:123456789012:payments";
    let through = |id: &str| format!("1 of 12 {OVERRIDES}:{id}");
    let (worker, fifo) = ("43fe80b0-b10c-4081-9e18-5bdb8f9824e6", "c741ca07-c97a-40d7-b428-731c4aeebc23");
    let fifo = format!("1 of 12 {OVERRIDES}.fifo:{fifo}");
    let to = |arn: &str| format!("1 of 12 arn:aws:{arn}");
    let billing = to("sqs:eu-central-1:123456789012:payments-billing");
    let unrecognised = || "unrecognised".to_owned();
    let expected: Vec<(&str, Vec<String>)> = vec![
        ("envelope.json", vec![through(worker)]),
        ("event-bus.json", vec!["undeliverable_protocol".to_owned()]),
        ("eventbridge.json", vec![unrecognised()]),
        ("exhausted.json", vec!["exhausted".to_owned()]),
        ("fifo.json", vec![fifo; 4]),
        ("garbage.json", vec![unrecognised(); 10]),
        ("lambda-async.json", vec![unrecognised()]),
        ("lambda-destination.json", vec![unrecognised()]),
        ("late-retry.json", vec![format!("9 of 12 {OVERRIDES}:{worker}")]),
        (
            "mixed.json",
            vec![
                through(worker),
                format!("2 of 12 {OVERRIDES}:{worker}"),
                unrecognised(),
                unrecognised(),
                unrecognised(),
                billing.clone(),
                unrecognised(),
                unrecognised(),
                "early".to_owned(),
                "exhausted".to_owned(),
            ],
        ),
        ("raw.json", vec![unrecognised()]),
        ("sqs-consumer.json", vec![billing]),
    ];
    let mut names: Vec<_> = sample_names().into_iter().map(|name| format!("{name}.json")).collect();
    names.sort();
    assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, expected) in expected {
        let explained = explain(name, &["--json", "--source-max-receives", "3"]).await.json();
        assert_eq!(decisions(&explained), expected, "{name}");
        explain(name, &[]).await.text();
    }
}

#[tokio::test]
async fn a_due_retry_is_explained_with_what_follows_if_it_fails() {
    let text = explain("late-retry.json", &[]).await.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "Record 1 of 1: retry 9 of 12 now (backoff)");
    assert!(text.contains("received 7 times, 3 retries made according to its mark"), "{text}");
    assert!(text.contains("  if it fails   hidden for 5."), "{text}");
    assert!(text.contains("; retry 10 is due 2026-11-01 17:"), "{text}");
    let explained = explain("late-retry.json", &["--json"]).await.json();
    let record = &explained["records"][0];
    let hidden = record["ifItFails"]["hideSeconds"].as_u64().unwrap();
    assert!((19_440..=21_600).contains(&hidden), "5.4 to 6 h: {hidden}");
    assert_eq!((&record["receiveCount"], &record["retriesSpent"]), (&json!(7), &json!(3)));
}

#[tokio::test]
async fn the_present_and_the_retention_decide_as_they_do_in_the_function() {
    let late = explain("envelope.json", &["--json", "--at", "2026-11-15T11:30:00Z"]).await.json();
    assert_eq!(late["now"], "2026-11-15T11:30:00Z");
    assert_eq!(late["records"][0]["ifItFails"], json!({ "kind": "archive", "reason": "expiring" }));
    let short = explain("late-retry.json", &["--json", "--retention", "3d"]).await.json();
    assert_eq!(short["records"][0]["ifItFails"]["reason"], "expiring");
}

/// `explain` follows a forgeable origin only if the policy lists it, as the function does.
#[tokio::test]
async fn an_origin_that_the_policy_does_not_list_is_named_with_what_to_add() {
    let text = explain("eventbridge.json", &[]).await.text();
    assert!(
        text.contains("raw: it claims eventbridge, which the policy does not list for its queue"),
        "{text}"
    );
    assert!(text.contains("add \"origins\": {\"<ARN of its queue>\": [\"eventbridge\"]}"), "{text}");
    let explained = explain("eventbridge.json", &["--json"]).await.json();
    let record = &explained["records"][0];
    assert_eq!((&record["origin"], &record["unlistedOrigin"]), (&json!("raw"), &json!("eventbridge")));
    let policy = TextFile::of("origins.json", &json!({ "origins": { DLQ: ["eventbridge"] } }).to_string());
    let explained = explain("eventbridge.json", &["--json", "--policy", policy.path()]).await.json();
    let record = &explained["records"][0];
    assert_eq!((&record["origin"], &record["unlistedOrigin"]), (&json!("eventbridge"), &json!(null)));
    assert_eq!(record["decision"]["kind"], "deliver");
}

#[tokio::test]
async fn the_rule_is_the_first_that_matches_and_says_where_retries_go() {
    let policy = TextFile::of(
        "rules.json",
        &json!({ "rules": [
            { "name": "others", "match": { "topicArn": [{ "suffix": ":audit" }] }, "action": "archive" },
            { "name": "gold", "match": { "messageAttributes": { "tenant": ["gold"] } }, "target": WORKER,
              "verifySignature": true },
        ] })
        .to_string(),
    );
    let gold = RecordBuilder::envelope("a").sns_attribute("tenant", "String", "gold");
    let explained = explain_post(&gold, &["--json", "--policy", policy.path()]).await.json();
    let record = &explained["records"][0];
    assert_eq!(
        (&record["rule"], &record["route"]),
        (&json!("gold"), &json!({ "kind": "arn", "arn": WORKER }))
    );
    assert_eq!((&record["topicArn"], &record["subscriptionArn"]), (&json!(TOPIC), &json!(SUBSCRIPTION)));
    assert_eq!(record["notes"], json!(["not known before an attempt: whether SNS signed it"]));
    let plain =
        explain_post(&RecordBuilder::envelope("a"), &["--json", "--policy", policy.path()]).await.json();
    assert_eq!(plain["records"][0]["rule"], "default");
}

#[tokio::test]
async fn marks_are_believed_on_the_requeue_only_in_the_requeue() {
    let mut mark = mark(2, "letter-1", NOW);
    mark["due"] = json!(NOW + 600_000);
    let post = RecordBuilder::envelope("a").sqs_mark(&mark).queue(REQUEUE);
    let requeued = explain_post(&post, &["--json", "--requeue", REQUEUE]).await.json();
    assert_eq!(decisions(&requeued), ["early"]);
    assert_eq!(requeued["records"][0]["decision"]["hideSeconds"], 600);
    let elsewhere = explain_post(&post, &["--json", "--requeue", DLQ]).await.json();
    assert_ne!(elsewhere["records"][0]["decision"], requeued["records"][0]["decision"]);
}

#[tokio::test]
async fn a_letter_of_a_backlog_says_from_when_its_schedule_counts() {
    let post = RecordBuilder::envelope("a").sent(NOW - 86_400_000).received(99);
    let from = ["--schedule-from", "2026-11-01T11:59:00Z"];
    let explained = explain_post(&post, &[&from[..], &["--json"]].concat()).await.json();
    assert_eq!(explained["records"][0]["scheduleFrom"], "2026-11-01T11:59:00Z");
    assert_eq!(explained["records"][0]["decision"]["retry"], 1);
    let text = explain_post(&post, &from).await.text();
    assert!(
        text.contains("counts from 2026-11-01 11:59:00 UTC, not from its arrival (SCHEDULE_FROM)"),
        "{text}"
    );
    let plain = explain_post(&post, &["--json"]).await.json();
    assert_eq!(plain["records"][0]["scheduleFrom"], Value::Null);
    assert_eq!(plain["records"][0]["decision"]["retry"], 12);
}

#[tokio::test]
async fn a_letter_behind_another_of_its_group_says_which() {
    let explained = explain("fifo.json", &["--json"]).await.json();
    let records = explained["records"].as_array().unwrap();
    let ids: Vec<_> = records.iter().map(|record| record["sqsMessageId"].clone()).collect();
    let behind: Vec<_> = records.iter().map(|record| record["behind"].clone()).collect();
    assert_eq!(behind, [Value::Null, Value::Null, ids[0].clone(), ids[1].clone()]);
    let text = explain("fifo.json", &[]).await.text();
    assert_eq!(
        text.matches("the previous letter of its group, is delivered; else it is held").count(),
        2,
        "{text}"
    );
}

#[tokio::test]
async fn a_rule_that_looks_for_the_subscription_waits_for_that() {
    let policy = TextFile::of("discover.json", r#"{"default": {"subscription": "discover"}}"#);
    let raw = RecordBuilder::raw("m", "plain");
    let searched = explain_post(&raw, &["--json", "--policy", policy.path()]).await.json();
    assert_eq!(searched["records"][0]["decision"], json!({ "kind": "search" }));
    let args = ["--json", "--policy", policy.path(), "--discovered", SUBSCRIPTION];
    let found = explain_post(&raw, &args).await.json();
    assert_eq!(decisions(&found), [format!("1 of 12 {SUBSCRIPTION}")]);
}

#[tokio::test]
async fn nothing_of_a_message_is_printed() {
    let post = RecordBuilder::envelope("a").message("S3CR3T body").subject("S3CR3T subject").sns_attribute(
        "token",
        "String",
        "S3CR3T value",
    );
    for args in [&[][..], &["--json"]] {
        let text = explain_post(&post, args).await.text();
        assert!(!text.contains("S3CR3T"), "{text}");
        assert!(!text.contains("Unsubscribe") && !text.contains("handle"), "{text}");
        assert!(text.contains(DLQ), "{text}");
    }
}

/// Returns a file with one override about every letter of the topic.
fn override_(action: &str, by: &Value) -> TextFile {
    let mut override_ = json!({
        "id": "o-1", "do": action, "match": { "topicArn": [TOPIC] }, "at": "2026-11-01T11:00:00Z",
        "until": "2026-11-01T14:00:00Z", "by": "ada", "why": "the database is down",
    });
    override_["match"] = by.clone();
    TextFile::of(
        &format!("payments-{action}.json"),
        &json!({ "version": 1, "overrides": [override_] }).to_string(),
    )
}

#[tokio::test]
async fn an_override_goes_before_the_rule_and_is_named() {
    // The letter has just failed, so its next retry is not due yet.
    let waits = RecordBuilder::envelope("a").sent(NOW - 30_000).mark(&mark(1, "a", NOW - 60_000));
    let every = json!({ "topicArn": [TOPIC] });
    let with = async |action: &str, by: &Value| {
        let file = override_(action, by);
        explain_post(&waits, &["--overrides", file.path()]).await.text()
    };
    let held = with("hold", &every).await;
    assert!(held.starts_with("Record 1 of 1: hidden for 2 h, because an override holds it\n"), "{held}");
    assert!(
        held.contains(
            "  override      o-1: hold until 2026-11-01 14:00:00 UTC, 2 h, by ada: the database is down\n"
        ),
        "{held}"
    );
    let retried = with("retry", &every).await;
    assert!(
        retried.starts_with(
            "Record 1 of 1: an attempt now, because of an override; retry 2 of 12 stays planned\n"
        ),
        "{retried}"
    );
    assert!(retried.contains("; retry 2 is due 2026-11-01 12:00:"), "{retried}");
    let archived = with("give-up", &every).await;
    assert!(archived.starts_with("Record 1 of 1: archived as given-up\n"), "{archived}");
    let others = with("hold", &json!({ "topicArn": [{ "suffix": ":another" }] })).await;
    assert!(others.contains("because it came back early") && !others.contains("  override "), "{others}");

    let file = override_("hold", &every);
    let json = explain_post(&waits, &["--overrides", file.path(), "--json"]).await.json();
    assert_eq!(
        (&json["records"][0]["override"]["id"], &json["records"][0]["decision"]["why"]),
        (&json!("o-1"), &json!("overridden"))
    );
    let broken = TextFile::of("overrides-broken.json", r#"{"version": 1}"#);
    let ran = explain_post(&waits, &["--overrides", broken.path()]).await;
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.ends_with(
            "overrides-broken.json: overrides: is missing: a list of overrides, which may be empty\n"
        ),
        "{}",
        ran.err
    );
}

/// The reasons are whole sentences.
#[tokio::test]
async fn why_a_letter_is_archived_is_a_sentence() {
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = flat(explain("raw.json", &[]).await.text());
    assert!(
        text.contains(" because the letter names no subscription: set the subscription of its rule"),
        "{text}"
    );
    let policy = TextFile::of("policy.json", &json!({ "default": { "target": PROJECTOR } }).to_string());
    let text =
        flat(explain_post(&RecordBuilder::raw("a", "text"), &["--policy", policy.path()]).await.text());
    assert!(text.starts_with("Record 1 of 1: archived as unrecognised "), "{text}");
    assert!(
        text.contains(" because the letter's body is not JSON, and functions accept only JSON"),
        "{text}"
    );
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_explained_as_the_function_takes_it() {
    let mut event = event([&RecordBuilder::envelope("a"), &RecordBuilder::envelope("b")]);
    event["Records"][1]["body"] = json!({ "an": "object" });
    let world = CommandWorld { input: event.to_string().into_bytes(), ..CommandWorld::default() };
    let explained = redrivectl_in(world, &["explain", "-", "--json"]).await.json();
    assert_eq!(explained["records"][0]["decision"]["kind"], "deliver");
    let detail = "Records[1].body is missing or has no usable value";
    let expected = json!({ "kind": "archive", "reason": "unrecognised", "detail": detail });
    assert_eq!(explained["records"][1]["decision"], expected);
}

/// If no question to AWS is needed, the decision is the function's.
#[tokio::test]
async fn a_letter_that_may_or_can_go_nowhere_is_explained_as_archived() {
    let raw = RecordBuilder::raw("a", "{}");
    let full = (0..10).fold(raw.clone(), |post, n| post.attribute(&format!("a{n}"), "String", "x"));
    for (rule, post, reason) in [
        (json!({ "target": DLQ }), &raw, "refused"),
        (json!({ "target": WORKER, "allowTargets": [TOPIC] }), &raw, "refused"),
        (json!({ "target": WORKER }), &full, "unmarkable"),
    ] {
        let policy = TextFile::of("policy.json", &json!({ "default": rule }).to_string());
        let explained = explain_post(post, &["--json", "--policy", policy.path()]).await.json();
        assert_eq!(decisions(&explained), [reason], "{rule}");
    }
}

/// The function archives such a letter at once, whatever delay its rule has. Only an override holds it.
#[tokio::test]
async fn a_record_that_cannot_be_read_waits_for_no_rule() {
    let explained = async |rule: &Value, young: bool, more: &[&str]| {
        let sent = if young { NOW } else { NOW - 60_000 };
        let mut event = event([&RecordBuilder::raw("a", "text").sent(sent)]);
        event["Records"][0]["body"] = json!([]);
        let world = CommandWorld { input: event.to_string().into_bytes(), ..CommandWorld::default() };
        let policy = TextFile::of("policy.json", &json!({ "default": rule }).to_string());
        let args = [&["explain", "-", "--json", "--policy", policy.path()], more].concat();
        redrivectl_in(world, &args).await.json()
    };
    let hold = override_("hold", &json!({ "queueArn": [DLQ] }));
    for rule in [
        json!({ "action": "hold" }),
        json!({ "subscription": "discover" }),
        json!({ "target": WORKER, "deliveryPolicy": "http-default" }),
    ] {
        for young in [true, false] {
            let at_once = explained(&rule, young, &[]).await;
            assert_eq!(decisions(&at_once), ["unrecognised"], "{rule}");
            assert_eq!(at_once["records"][0]["notes"], json!([]), "{rule}");
        }
        let held = explained(&rule, true, &["--overrides", hold.path()]).await;
        assert_eq!(decisions(&held), ["overridden"], "{rule}");
    }
}

/// Nobody is asked where a subscription leads.
#[tokio::test]
async fn an_override_by_target_counts_where_the_target_is_known_without_asking() {
    let to_worker = json!({ "target": WORKER });
    let discover = json!({ "subscription": "discover" });
    let sns = || RecordBuilder::envelope("a");
    let none = json!({ "target": [{ "exists": false }] });
    let worker = json!({ "target": [WORKER] });
    for (post, rule, action, by, expected) in [
        (sns(), &to_worker, "hold", &worker, "overridden"),
        (sns(), &to_worker, "give-up", &worker, "given-up"),
        (sns(), &json!({}), "hold", &worker, "target_unknown"),
        (sns(), &json!({}), "give-up", &worker, "a retry"),
        (RecordBuilder::raw("m", "plain"), &discover, "give-up", &none, "a search"),
        (RecordBuilder::raw("m", "plain"), &json!({}), "give-up", &none, "given-up"),
    ] {
        let policy = TextFile::of("policy.json", &json!({ "default": rule }).to_string());
        let overrides = override_(action, by);
        let args = ["--json", "--policy", policy.path(), "--overrides", overrides.path()];
        let explained = explain_post(&post, &args).await.json();
        let decision = &explained["records"][0]["decision"];
        let said = match decision["kind"].as_str().unwrap() {
            "deliver" => "a retry",
            "search" => "a search",
            "defer" => decision["why"].as_str().unwrap(),
            _ => decision["reason"].as_str().unwrap(),
        };
        assert_eq!(said, expected, "{rule} {action} {by}: {decision}");
    }
}

/// The function searches only for letters that it is about to send.
#[tokio::test]
async fn a_subscription_is_searched_for_as_overrides_say() {
    let discover = json!({ "subscription": "discover" });
    let hold = json!({ "subscription": "discover", "action": "hold" });
    for (rule, action, expected) in [
        (&discover, "retry", "search"),
        (&discover, "hold", "defer"),
        (&discover, "give-up", "archive"),
        (&hold, "retry", "search"),
        (&hold, "hold", "defer"),
    ] {
        let policy = TextFile::of("policy.json", &json!({ "default": rule }).to_string());
        let overrides = override_(action, &json!({ "queueArn": [DLQ] }));
        let args = ["--json", "--policy", policy.path(), "--overrides", overrides.path()];
        let explained = explain_post(&RecordBuilder::raw("m", "plain"), &args).await.json();
        assert_eq!(explained["records"][0]["decision"]["kind"], expected, "{rule} {action}");
    }
}

/// Both forms say it, so that a script knows it too.
#[tokio::test]
async fn what_only_sns_can_tell_is_noted() {
    let unknown = "not known before an attempt: whether SNS confirms its subscription";
    let explained = explain_post(&RecordBuilder::envelope("a"), &["--json"]).await.json();
    assert_eq!(explained["records"][0]["notes"], json!([unknown]));
    let text = explain_post(&RecordBuilder::envelope("a"), &[]).await.text();
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(unknown), "{text}");
}

#[tokio::test]
async fn what_eventbridge_makes_of_an_event_is_noted() {
    let policy = TextFile::of("origins.json", &json!({ "origins": { DLQ: ["eventbridge"] } }).to_string());
    let text = explain("eventbridge.json", &["--policy", policy.path()]).await.text();
    assert!(text.contains("InputTransformer"), "{text}");
}

/// Lambda and `EventBridge` name the error by which they gave up, SNS names none.
#[tokio::test]
async fn the_error_by_which_lambda_gave_up_is_shown() {
    let policy = TextFile::of(
        "origins.json",
        &json!({ "origins": { "*": ["lambda-async", "lambda-destination", "eventbridge"] } }).to_string(),
    );
    for (event, code) in [
        ("lambda-async.json", Some("200")),
        ("eventbridge.json", Some("THROTTLING")),
        ("envelope.json", None),
    ] {
        let explained = explain(event, &["--policy", policy.path(), "--json"]).await.json();
        assert_eq!(explained["records"][0].get("cause").and_then(Value::as_str), code, "{explained:#}");
        let text = explain(event, &["--policy", policy.path()]).await.text();
        let shown = text.lines().find_map(|line| line.trim_start().strip_prefix("cause ")).map(str::trim);
        assert_eq!(shown, code, "{text}");
    }
}

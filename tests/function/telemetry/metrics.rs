use std::sync::Arc;

use redrive_aws::settings::QueueMetrics;
use redrive_core::arn::Arn;
use redrive_core::batch::{LetterReport, NotDone, Outcome};
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::policy::{ArchiveReason, Decision, DeferReason, Deferral, Retry, RetryPhase};
use sns_redrive::redrive::RecoveryCounts;
use sns_redrive::telemetry::{ESSENTIAL_METRICS, InvocationSummary, summarise};

use super::*;

const UNITS: [(&str, &str); 36] = [
    ("LettersReceived", "Count"),
    ("LettersArrived", "Count"),
    ("LettersDelivered", "Count"),
    ("LettersDeferred", "Count"),
    ("LettersShortCircuited", "Count"),
    ("LettersHeld", "Count"),
    ("LettersFailed", "Count"),
    ("LettersRequeued", "Count"),
    ("LettersObserved", "Count"),
    ("LettersArchived", "Count"),
    ("ArchivedExhausted", "Count"),
    ("ArchivedExpiring", "Count"),
    ("ArchivedRule", "Count"),
    ("ArchivedUnrecognised", "Count"),
    ("ArchivedUndeliverableProtocol", "Count"),
    ("ArchivedRefused", "Count"),
    ("ArchivedPermanent", "Count"),
    ("ArchivedUnmarkable", "Count"),
    ("ArchivedReturned", "Count"),
    ("ArchivedLoop", "Count"),
    ("ArchivedGivenUp", "Count"),
    ("ArchiveRefusals", "Count"),
    ("FailuresThrottling", "Count"),
    ("FailuresTransient", "Count"),
    ("FailuresPermanent", "Count"),
    ("FailuresActionRequired", "Count"),
    ("LettersOverridden", "Count"),
    ("OverridesUnread", "Count"),
    ("WaitingListFailed", "Count"),
    ("LettersInFlight", "Count"),
    ("HighestRetry", "Count"),
    ("EndpointsDown", "Count"),
    ("EndpointsRecovered", "Count"),
    ("LettersWoken", "Count"),
    ("RetentionAssumed", "Count"),
    ("NoticesFailed", "Count"),
];

/// Returns the definitions of the metrics whose names `written` has, in the order of the line.
fn definitions(written: impl Fn(&str) -> bool) -> Value {
    let further = [("SecondsToExpiry", "Seconds"), ("Duration", "Milliseconds")];
    let all = UNITS.into_iter().chain(further).filter(|(name, _)| written(name));
    all.map(|(name, unit)| json!({ "Name": name, "Unit": unit })).collect()
}

/// Returns an object with these metrics, of which `written` are metrics of the queue.
fn object(namespace: &str, queue: &str, written: &[&str], metrics: &Value) -> Value {
    let mut object = json!({
        "_aws": {
            "CloudWatchMetrics": [{
                "Namespace": namespace,
                "Dimensions": [["Queue"]],
                "Metrics": definitions(|name| written.contains(&name)),
            }],
            "Timestamp": NOW,
        },
        "Queue": queue,
        "timestamp": "2026-11-01T12:00:00Z",
        "level": "INFO",
        "request_id": "req-1",
    });
    object.as_object_mut().unwrap().extend(metrics.as_object().unwrap().clone());
    object
}

/// Reasons, classes and the like are fields of the line, for the log's own queries.
#[tokio::test]
async fn one_object_per_invocation_holds_what_is_not_zero_and_the_essential_metrics_of_the_queue() {
    let world = FunctionWorld::with_policy(&json!({ "origins": every_origin() }));
    let ran = world.run_event(&sample("mixed")).await;
    assert!(ran.metrics.ends_with("}\n"));
    let written = [
        "LettersReceived",
        "LettersArrived",
        "LettersDelivered",
        "LettersDeferred",
        "LettersArchived",
        "LettersInFlight",
    ];
    assert_eq!(
        ran.metrics(),
        object(
            "SnsRedrive",
            "payments-dlq",
            &written,
            &json!({
                "LettersReceived": 10,
                "LettersArrived": 7,
                "LettersDelivered": 5,
                "LettersDeferred": 1,
                "LettersArchived": 4,
                "ArchivedExhausted": 1,
                "ArchivedUnrecognised": 3,
                // These are sums for alarms, not metrics of the queue.
                "LettersUndelivered": 1,
                "LettersNowhereToGo": 3,
                // All ten are in flight while they are handled, and the one that stays counts again.
                "LettersInFlight": 11,
                "HighestRetry": 2,
                // The letter that stays is ten seconds old, of 14 days.
                "SecondsToExpiry": 1_209_600 - 10,
            })
        )
    );
}

/// Lambda drops lines below its log level, and lets those of that level pass.
#[tokio::test]
async fn metrics_have_the_level_from_which_lambda_lets_lines_pass() {
    let same = ["INFO", "WARN", "ERROR", "FATAL"].map(|level| (level, level));
    for (given, level) in same.into_iter().chain([("", "INFO"), ("TRACE", "INFO"), ("debug", "INFO")]) {
        let world = FunctionWorld::new(&[("AWS_LAMBDA_LOG_LEVEL", given)]);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.metrics()["level"], level, "{given}");
    }
}

#[tokio::test]
async fn held_failed_deferred_and_observed_letters_are_counted() {
    let world = FunctionWorld::new(&[("METRICS_NAMESPACE", "Shop/Letters"), ("QUEUE_METRICS", "all")]);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::ResetBefore,
        "ChangeMessageVisibilityBatch" => SimFault::except(call, "handle-b1", EntryFault::Missing),
        _ => SimFault::Pass,
    });
    let posts = ["a1", "a2", "b1", "c1"].map(|id| {
        let post = RecordBuilder::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
        post.queue(FIFO_DLQ).group(&id[..1])
    });
    let written = [
        "LettersReceived",
        "LettersArrived",
        "LettersDeferred",
        "LettersHeld",
        "LettersFailed",
        "FailuresTransient",
        "LettersInFlight",
        "HighestRetry",
        "SecondsToExpiry",
    ];
    assert_eq!(
        world.run(&posts).await.metrics(),
        object(
            "Shop/Letters",
            "payments-dlq.fifo",
            &written,
            &json!({
                "LettersReceived": 4,
                "LettersArrived": 4,
                "LettersDeferred": 2,
                "LettersHeld": 1,
                "LettersFailed": 1,
                "LettersStuck": 1,
                "LettersInFlight": 4 + 3,
                "FailuresTransient": 3,
                "HighestRetry": 1,
                "SecondsToExpiry": 1_209_600,
            })
        )
    );
    let world = FunctionWorld::new(&[("REDRIVE_MODE", "observe")]);
    assert_eq!(
        world.run([&RecordBuilder::envelope("a")]).await.metrics(),
        object(
            "SnsRedrive",
            "payments-dlq",
            &["LettersReceived", "LettersArrived", "LettersInFlight"],
            &json!({
                "LettersReceived": 1,
                "LettersArrived": 1,
                "LettersObserved": 1,
                "LettersInFlight": 1,
                "SecondsToExpiry": 1_209_600,
            })
        )
    );
}

#[tokio::test]
async fn a_letter_arrives_once() {
    let arrived =
        async |post: RecordBuilder| FunctionWorld::new(&[]).run([&post]).await.metric("LettersArrived");
    assert_eq!(arrived(RecordBuilder::envelope("a")).await, 1);
    assert_eq!(arrived(RecordBuilder::envelope("a").received(2)).await, 0);
    assert_eq!(arrived(RecordBuilder::envelope("a").mark(&mark(1, "x", NOW))).await, 0);
    // SQS keeps the count: three receives were in the source queue.
    assert_eq!(arrived(RecordBuilder::envelope("a").moved_from(BILLING).received(4)).await, 1);
    assert_eq!(arrived(RecordBuilder::envelope("a").moved_from(BILLING).received(5)).await, 0);
}

#[tokio::test]
async fn a_letter_past_its_end_has_no_time_left() {
    let observing = FunctionWorld::new(&[("REDRIVE_MODE", "observe")]);
    let ran = observing.run([&RecordBuilder::envelope("a").sent(NOW - 15 * 86_400_000)]).await;
    assert_eq!(ran.metrics()["SecondsToExpiry"], 0);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_attempt_is_told() {
    let world = FunctionWorld::new(&[]);
    world.cloud.reply("SendMessageBatch", SimFault::Pass.after(std::time::Duration::from_millis(50)));
    let ran = world.run([&RecordBuilder::envelope("a"), &RecordBuilder::raw("b", "x")]).await;
    let took = ran.letter("a")["attempt_ms"].as_u64().unwrap();
    assert!((50..1_000).contains(&took), "{took}");
    assert_eq!(ran.letter("b").get("attempt_ms"), None);
}

#[tokio::test]
async fn what_has_left_its_queue_does_not_expire() {
    let ran = FunctionWorld::new(&[]).run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);
    assert_eq!(ran.metrics().get("SecondsToExpiry"), None);
}

/// It is unknown how often the letter was received before SQS moved it. Counting one arrival too many is
/// better.
#[tokio::test]
async fn a_moved_letter_of_a_source_that_does_not_tell_its_count_is_an_arrival() {
    let world = FunctionWorld::new(&[]);
    world.cloud.queue("payments-billing", &[("MessageRetentionPeriod", "345600")]);
    let ran = world.run([&RecordBuilder::envelope("a").moved_from(BILLING).received(9)]).await;
    assert_eq!(ran.metrics()["LettersArrived"], 1);
}

/// Returns the second directive of an object, which has the metrics that alarms watch.
async fn watched(world: &FunctionWorld, posts: &[RecordBuilder]) -> Value {
    let metrics = world.run(posts).await.metrics();
    assert_eq!(metrics["FunctionName"], "sns-redrive");
    let directives = &metrics["_aws"]["CloudWatchMetrics"];
    assert_eq!(directives[0]["Dimensions"], json!([["Queue"]]));
    let of_queue = directives[0]["Metrics"].as_array().unwrap();
    let essential = definitions(|name| ESSENTIAL_METRICS.contains(&name));
    assert!(
        of_queue.iter().all(|metric| essential.as_array().unwrap().contains(metric)),
        "no metric of the queue more"
    );
    let found = &directives[1];
    if found.is_object() {
        assert_eq!(
            (&found["Namespace"], &found["Dimensions"]),
            (&json!("SnsRedrive"), &json!([["FunctionName"]]))
        );
    }
    for metric in found["Metrics"].as_array().into_iter().flatten() {
        let value = &metrics[metric["Name"].as_str().unwrap()];
        assert!(value.is_u64() && (value != 0 || metric["Name"] == "SecondsToExpiry"), "{metric}: {value}");
    }
    found["Metrics"].clone()
}

#[tokio::test]
async fn what_alarms_watch_is_told_by_function_where_there_is_something_to_tell() {
    let of_function = [("AWS_LAMBDA_FUNCTION_NAME", "sns-redrive")];
    let count = |name: &str| json!({ "Name": name, "Unit": "Count" });
    let expiry = json!({ "Name": "SecondsToExpiry", "Unit": "Seconds" });

    let world = FunctionWorld::new(&of_function);
    assert_eq!(
        watched(&world, &[RecordBuilder::envelope("a").received(2)]).await,
        Value::Null,
        "all is well"
    );
    let [arrived, nowhere] = ["LettersArrived", "LettersNowhereToGo"].map(count);
    assert_eq!(watched(&world, &[RecordBuilder::raw("b", "x")]).await, json!([arrived, nowhere]));
    let old = RecordBuilder::envelope("c").sent(NOW - 1_209_500_000).received(2);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::ResetBefore,
        _ => SimFault::Pass,
    });
    assert_eq!(watched(&world, &[old]).await, json!([count("ArchivedExpiring")]), "its last attempt failed");
    assert_eq!(watched(&world, &[RecordBuilder::envelope("d").received(2)]).await, json!([expiry]));

    let world = FunctionWorld::new(&[of_function[0], ("ARCHIVE", "s3://gone/dead-letters")]);
    assert_eq!(
        watched(&world, &[RecordBuilder::raw("e", "x")]).await,
        json!([arrived, count("FailuresActionRequired"), expiry, count("LettersStuck")])
    );
}

/// A run with something of everything that is not about a letter.
fn full_run<'a>(queue: &'a Arn, function_name: Option<&'a str>) -> InvocationSummary<'a> {
    let began = "2026-11-01T11:59:59Z".parse().unwrap();
    let now = "2026-11-01T12:00:00Z".parse().unwrap();
    InvocationSummary {
        queue,
        function_name,
        in_flight: Some(9),
        overrides_unread: true,
        list_failed: true,
        recovery: RecoveryCounts { down: 1, recovered: 2, woken: 3 },
        retention_assumed: true,
        request_id: "req-1",
        began,
        now,
        notices_failed: 4,
    }
}

fn report(outcome: Outcome) -> LetterReport {
    LetterReport {
        letter: Arc::new(letter(&RecordBuilder::envelope("a"))),
        rule: "default".to_owned(),
        override_id: None,
        outcome,
        retry: None,
        took: None,
        target: None,
        failure: None,
        undone: None,
        detail: None,
        hidden: None,
        arrived: false,
        expires_in: Some(1),
    }
}

#[test]
fn a_queue_has_ten_metrics_or_every_one_with_its_unit() {
    let queue = DLQ.parse().unwrap();
    let deferral = |why| Deferral { hide: 60, due: "2026-11-01T12:01:00Z".parse().unwrap(), retry: 3, why };
    let outcomes = [
        Outcome::Delivered,
        Outcome::Deferred(deferral(DeferReason::EndpointDown)),
        Outcome::Requeued(deferral(DeferReason::Failed)),
        Outcome::Held,
        Outcome::Failed(NotDone::Archive),
        Outcome::Observed(Decision::Defer(deferral(DeferReason::Early))),
    ];
    let outcomes = outcomes.into_iter().chain(ArchiveReason::ALL.map(Outcome::Archived));
    let mut reports: Vec<_> = outcomes.map(report).collect();
    let classes = [
        FailureClass::Throttling,
        FailureClass::Transient,
        FailureClass::Permanent,
        FailureClass::ActionRequired,
    ];
    for (report, class) in reports.iter_mut().zip(classes) {
        report.failure = Some(Failure::ours(class, "Code"));
    }
    for report in &mut reports {
        report.undone = Some(Failure::ours(FailureClass::Permanent, "Code"));
        report.retry = Some(Retry { number: 2, of: 3, phase: RetryPhase::Backoff, planned: None });
        report.override_id = Some("hold".to_owned());
        report.arrived = true;
    }
    let line = |of_queue| {
        let line = summarise(&reports, full_run(&queue, None)).to_line("SnsRedrive", of_queue, "INFO");
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let (all, essential) = (line(QueueMetrics::All), line(QueueMetrics::Essential));
    let of_queue = |line: &Value| line["_aws"]["CloudWatchMetrics"][0]["Metrics"].clone();
    assert_eq!(of_queue(&all), definitions(|_| true));
    let ten = definitions(|name| ESSENTIAL_METRICS.contains(&name));
    assert_eq!((of_queue(&essential), ten.as_array().unwrap().len()), (ten, 10));
    for (name, value) in all.as_object().unwrap().iter().filter(|(name, _)| *name != "_aws") {
        assert_eq!(essential[name], *value, "the line has every value");
    }
}

#[test]
fn a_reason_to_archive_counts_for_the_one_alarm_that_it_calls() {
    let queue = DLQ.parse().unwrap();
    let run = InvocationSummary {
        overrides_unread: false,
        recovery: RecoveryCounts::default(),
        ..full_run(&queue, Some("sns-redrive"))
    };
    let called = ArchiveReason::ALL.map(|reason| {
        let report = report(Outcome::Archived(reason));
        let line: Value =
            serde_json::from_str(&summarise(&[report], run).to_line("SnsRedrive", QueueMetrics::All, "INFO"))
                .unwrap();
        let watched = line["_aws"]["CloudWatchMetrics"][1]["Metrics"].as_array();
        let names = watched.into_iter().flatten().map(|metric| metric["Name"].as_str().unwrap());
        names.fold(reason.name().to_owned(), |told, name| told + " " + name)
    });
    assert_eq!(
        called,
        [
            "exhausted LettersUndelivered",
            "expiring ArchivedExpiring",
            "rule",
            "unrecognised LettersNowhereToGo",
            "undeliverable_protocol LettersNowhereToGo",
            "refused LettersNowhereToGo",
            "permanent LettersUndelivered",
            "unmarkable LettersUndelivered",
            "returned LettersNowhereToGo",
            "loop LettersUndelivered",
            "given-up",
        ]
    );
}

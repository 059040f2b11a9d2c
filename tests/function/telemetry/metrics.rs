use std::sync::Arc;

use redrive_core::batch::{LetterReport, Outcome};
use redrive_core::policy::ArchiveReason;
use sns_redrive::redrive::RecoveryCounts;
use sns_redrive::telemetry::{InvocationSummary, summarise};

use super::*;

fn units() -> Value {
    let counts = [
        "LettersReceived",
        "LettersArrived",
        "LettersDelivered",
        "LettersDeferred",
        "LettersShortCircuited",
        "LettersHeld",
        "LettersFailed",
        "LettersRequeued",
        "LettersObserved",
        "LettersArchived",
        "ArchivedExhausted",
        "ArchivedExpiring",
        "ArchivedRule",
        "ArchivedUnrecognised",
        "ArchivedUndeliverableProtocol",
        "ArchivedRefused",
        "ArchivedPermanent",
        "ArchivedUnmarkable",
        "ArchivedReturned",
        "ArchivedLoop",
        "ArchivedGivenUp",
        "ArchiveRefusals",
        "FailuresThrottling",
        "FailuresTransient",
        "FailuresPermanent",
        "FailuresActionRequired",
        "LettersOverridden",
        "OverridesUnread",
        "WaitingListFailed",
        "LettersInFlight",
        "HighestRetry",
    ];
    let mut metrics: Vec<_> = counts.iter().map(|name| json!({ "Name": name, "Unit": "Count" })).collect();
    metrics.push(json!({ "Name": "SecondsToExpiry", "Unit": "Seconds" }));
    metrics.push(json!({ "Name": "Duration", "Unit": "Milliseconds" }));
    Value::Array(metrics)
}

/// Returns the fields of every object, including zeros. `changes` are the differences.
fn object(namespace: &str, queue: &str, changes: &Value) -> Value {
    let mut object = json!({
        "_aws": {
            "CloudWatchMetrics": [{
                "Namespace": namespace,
                "Dimensions": [["Queue"]],
                "Metrics": units(),
            }],
            "Timestamp": NOW,
        },
        "Queue": queue,
        "timestamp": "2026-11-01T12:00:00Z",
        "level": "INFO",
        "request_id": "req-1",
    });
    for metric in units().as_array().unwrap() {
        object[metric["Name"].as_str().unwrap()] = json!(0);
    }
    object.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    object
}

#[tokio::test]
async fn one_object_per_invocation_holds_every_metric_with_its_unit() {
    let world = FunctionWorld::with_policy(&json!({ "origins": every_origin() }));
    let ran = world.run_event(&sample("mixed")).await;
    assert!(ran.metrics.ends_with("}\n"));
    assert_eq!(
        ran.metrics(),
        object(
            "SnsRedrive",
            "payments-dlq",
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

#[tokio::test]
async fn held_failed_deferred_and_observed_letters_are_counted() {
    let world = FunctionWorld::new(&[("METRICS_NAMESPACE", "Shop/Letters")]);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::ResetBefore,
        "ChangeMessageVisibilityBatch" => SimFault::except(call, "handle-b1", EntryFault::Missing),
        _ => SimFault::Pass,
    });
    let posts = ["a1", "a2", "b1", "c1"].map(|id| {
        let post = RecordBuilder::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
        post.queue(FIFO_DLQ).group(&id[..1])
    });
    assert_eq!(
        world.run(&posts).await.metrics(),
        object(
            "Shop/Letters",
            "payments-dlq.fifo",
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
    let arrived = async |post: RecordBuilder| {
        FunctionWorld::new(&[]).run([&post]).await.metrics()["LettersArrived"].clone()
    };
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
    assert!(
        of_queue.iter().all(|metric| units().as_array().unwrap().contains(metric)),
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

#[test]
fn a_reason_to_archive_counts_for_the_one_alarm_that_it_calls() {
    let letter = Arc::new(letter(&RecordBuilder::envelope("a")));
    let queue = letter.sqs.queue.clone();
    let now = "2026-11-01T12:00:00Z".parse().unwrap();
    let run = InvocationSummary {
        queue: &queue,
        function_name: Some("sns-redrive"),
        in_flight: Some(0),
        overrides_unread: false,
        list_failed: false,
        recovery: RecoveryCounts::default(),
        retention_assumed: false,
        request_id: "req-1",
        began: now,
        now,
        notices_failed: None,
    };
    let called = ArchiveReason::ALL.map(|reason| {
        let report = LetterReport {
            letter: Arc::clone(&letter),
            rule: "default".to_owned(),
            override_id: None,
            outcome: Outcome::Archived(reason),
            retry: None,
            took: None,
            target: None,
            failure: None,
            undone: None,
            detail: None,
            hidden: None,
            arrived: false,
            expires_in: Some(1),
        };
        let line: Value = serde_json::from_str(&summarise(&[report], run).to_line("SnsRedrive")).unwrap();
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

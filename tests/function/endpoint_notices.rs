//! Tests of notices of endpoints that go down and come back: who is told what, how often, and what it costs.

use std::time::Duration;

use redrive_core::endpoint::TargetName;
use redrive_support::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::recovery::{late, outage, set_down};

const NOTICES: &str = "arn:aws:sns:eu-central-1:123456789012:notices";

fn settings() -> Vec<(&'static str, &'static str)> {
    vec![("NOTICE_TOPIC_ARN", NOTICES), ("CONTROL", "s3://my-bucket/control"), ("REQUEUE_ARN", REQUEUE)]
}

fn world() -> FunctionWorld {
    FunctionWorld::new(&settings())
}

/// Returns the notices that SNS was asked to take, in the form for programs.
fn notices(world: &FunctionWorld) -> Vec<Value> {
    let form = |entry: SimEntry| serde_json::from_str::<Value>(&entry.body).unwrap()["sqs"].clone();
    let forms = world.cloud.entries("Publish").into_iter().map(form);
    forms.map(|form| serde_json::from_str(form.as_str().unwrap()).unwrap()).collect()
}

/// Returns the values of the attribute `kind` of these notices.
fn kinds(world: &FunctionWorld) -> Vec<String> {
    let entries = world.cloud.entries("Publish");
    let kind = |entry: &SimEntry| entry.attributes["kind"].clone();
    entries.iter().map(|entry| String::from_utf8(kind(entry).value.bytes().to_vec()).unwrap()).collect()
}

/// Makes an endpoint fail for so many minutes, with a letter each.
async fn fail_for(world: &FunctionWorld, minutes: i64) {
    set_down(world, true);
    for minute in 0..minutes {
        world.pass(60);
        world.run([&late(&format!("f{minute}"))]).await;
    }
}

/// Makes it take a letter a minute later.
async fn recover(world: &FunctionWorld) -> TestInvocation {
    set_down(world, false);
    world.pass(60);
    world.run([&RecordBuilder::envelope("works")]).await
}

#[tokio::test]
async fn an_outage_is_told_once_and_its_end_once() {
    let world = world();
    let [down, scout, back] = outage(&world).await;
    assert_eq!(kinds(&world), ["down", "recovered"]);
    let [told_down, told_back] = notices(&world).try_into().unwrap();
    let since = "2026-11-01T12:00:00Z";
    let mut expected = json!({ "version": 1, "type": "endpoint-down", "target": WORKER, "queueArn": DLQ,
        "topicArns": [TOPIC], "downSince": since, "waiting": told_down["waiting"], "errorCode": "ServiceUnavailable" });
    assert_eq!(told_down, expected);
    // Twelve are listed, and the one that has just failed waits as well. It counts twice if it is listed already.
    assert!((13..=14).contains(&told_down["waiting"].as_u64().unwrap()), "{told_down}");

    let replay = format!(
        "redrivectl replay --archive s3://my-bucket/dead-letters --control s3://my-bucket/control --requeue {REQUEUE} \
         --target {WORKER} --reason exhausted --reason expiring --since {since} --until 2026-11-01T12:04:01Z"
    );
    expected = json!({ "version": 1, "type": "endpoint-recovered", "target": WORKER, "queueArn": DLQ,
        "topicArns": [TOPIC], "downSince": since, "waiting": 15, "recoveredAt": "2026-11-01T12:04:00Z",
        "downSeconds": 240, "woken": 10, "archive": "s3://my-bucket/dead-letters", "replay": replay });
    assert_eq!(told_back, expected);

    let list = |names: &[&str]| attribute("String.Array", &json!(names).to_string());
    for (entry, kind) in world.cloud.entries("Publish").iter().zip(["down", "recovered"]) {
        let attributes = [
            ("kind".to_owned(), attribute("String", kind)),
            ("target".to_owned(), list(&[WORKER])),
            ("topicArn".to_owned(), list(&[TOPIC])),
        ];
        assert_eq!(entry.attributes, attributes.into());
        let subject = format!("sns-redrive: endpoint {kind}: payments-worker");
        assert_eq!((entry.subject.as_ref(), entry.structure.as_deref()), (Some(&subject), Some("json")));
        assert!(!entry.body.contains("handle-"), "{}", entry.body);
    }
    let failed = [down, scout, back].map(|ran| ran.metric("NoticesFailed"));
    assert_eq!(failed, [0, 0, 0]);
}

#[tokio::test]
async fn letters_of_the_batch_count_that_are_not_listed_yet() {
    let world = world();
    world.cloud.script(|call| match call.operation.as_str() {
        "PutObject" if call.target.contains("/waiting/") => SimFault::refuse(503, "SlowDown", "no"),
        "SendMessageBatch" => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
    world.run([&late("a")]).await;
    world.pass(130);
    world.run([&late("b"), &late("c")]).await;
    assert_eq!((kinds(&world), &notices(&world)[0]["waiting"]), (vec!["down".to_owned()], &json!(2)));
}

/// The list is read only if there is something to tell.
#[tokio::test]
async fn a_notice_costs_one_listing() {
    let listings = |world: &FunctionWorld| {
        let calls = world.cloud.calls("ListObjectsV2");
        calls.iter().filter(|call| call.target.contains("waiting")).count()
    };
    let world = world();
    fail_for(&world, 4).await;
    assert_eq!((kinds(&world), listings(&world)), (vec!["down".to_owned()], 1));
    fail_for(&world, 20).await;
    assert_eq!((kinds(&world).len(), listings(&world)), (1, 1));
}

#[tokio::test]
async fn a_list_of_more_than_a_page_is_not_counted() {
    let world = world();
    for number in 0..1_001 {
        let key = format!("hour=2026-11-01T12/20261101T120000.{:03}Z-{number}.jsonl", number % 1_000);
        world.cloud.put(&format!("my-bucket/control/waiting/queue=payments-dlq/{key}"), "");
    }
    fail_for(&world, 4).await;
    assert_eq!((kinds(&world), &notices(&world)[0]["waiting"]), (vec!["down".to_owned()], &Value::Null));
}

#[tokio::test]
async fn other_instances_are_silent() {
    let first = world();
    let second = FunctionWorld::on(first.cloud.clone(), &settings());
    set_down(&first, true);
    for minute in 0..20 {
        first.pass(60);
        first.run([&late(&format!("a{minute}"))]).await;
        second.run([&late(&format!("b{minute}"))]).await;
    }
    assert_eq!(kinds(&first), ["down"], "one of both");
    recover(&second).await;
    first.run([&RecordBuilder::envelope("works too")]).await;
    let third = FunctionWorld::on(first.cloud.clone(), &settings());
    third.run([&RecordBuilder::envelope("works for all")]).await;
    assert_eq!(kinds(&first), ["down", "recovered"]);
}

#[tokio::test]
async fn an_endpoint_that_flaps_is_told_of_once_in_a_quarter_of_an_hour() {
    let world = world();
    fail_for(&world, 4).await;
    recover(&world).await;
    assert_eq!(kinds(&world), ["down", "recovered"]);
    fail_for(&world, 4).await;
    recover(&world).await;
    fail_for(&world, 4).await;
    recover(&world).await;
    assert_eq!(kinds(&world).len(), 2, "eleven minutes later");
    // Now it stays down. Nobody has heard of that, and it is told as soon as it may be.
    fail_for(&world, 15).await;
    assert_eq!(kinds(&world), ["down", "recovered", "down"]);
    recover(&world).await;
    assert_eq!(kinds(&world), ["down", "recovered", "down", "recovered"]);
}

/// It was back soon after the last time, which is written already. One failure minutes later is no outage since then.
#[tokio::test]
async fn an_endpoint_that_worked_meanwhile_has_not_failed_all_the_time() {
    let world = world();
    fail_for(&world, 4).await;
    recover(&world).await;
    fail_for(&world, 5).await;
    recover(&world).await;
    world.pass(780);
    set_down(&world, true);
    world.run([&late("once")]).await;
    assert_eq!(kinds(&world), ["down", "recovered"]);
}

#[tokio::test]
async fn without_the_list_or_in_observe_mode_no_endpoint_is_told_of() {
    for setting in [("WAITING_LIST", "off"), ("CONTROL", "off"), ("REDRIVE_MODE", "observe")] {
        let world = FunctionWorld::new(&[&[setting], &settings()[..]].concat());
        outage(&world).await;
        assert_eq!(world.cloud.calls("Publish"), [], "{setting:?}");
    }
    let without = FunctionWorld::new(&[("CONTROL", "s3://my-bucket/control")]);
    outage(&without).await;
    let document = without.cloud.objects()["my-bucket/control/recoveries.json"].clone();
    assert_eq!(without.cloud.calls("Publish"), []);
    assert!(!document.contains("told"), "{document}");
}

#[tokio::test]
async fn a_topic_that_refuses_costs_nothing_else_and_is_asked_three_times() {
    let refusing = |world: &FunctionWorld, is_down: bool| {
        world.cloud.script(move |call| match call.operation.as_str() {
            "Publish" => SimFault::refuse(403, "AuthorizationError", "not authorized"),
            "SendMessageBatch" if is_down => SimFault::refuse(503, "ServiceUnavailable", "down"),
            _ => SimFault::Pass,
        });
    };
    let world = world();
    refusing(&world, true);
    world.run([&late("a")]).await;
    world.pass(130);
    let ran = world.run([&late("b")]).await;
    assert_eq!(
        (ran.outcomes(), ran.metrics()["NoticesFailed"].clone()),
        (vec!["b deferred failed".to_owned()], json!(1))
    );
    let line = ran.log.iter().find(|line| line["topic.arn"] == NOTICES).unwrap();
    assert_eq!(
        json!([line["level"], line["target.arn"], line["error.code"]]),
        json!(["WARN", WORKER, "AuthorizationError"])
    );
    world.pass(59);
    world.run([&late("c")]).await;
    assert_eq!(kinds(&world).len(), 1, "not at once");
    for minute in 0..5 {
        world.pass(60);
        world.run([&late(&format!("d{minute}"))]).await;
    }
    assert_eq!(kinds(&world), ["down"; 3], "not for ever");
    refusing(&world, false);
    let back = recover(&world).await;
    assert_eq!((back.outcomes(), back.kept.len()), (vec!["works delivered".to_owned()], 0));
    assert_eq!(back.metrics()["LettersWoken"], 8);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_does_not_answer_costs_a_second_for_all_notices() {
    let world = world();
    world.cloud.script(|call| match call.operation.as_str() {
        "Publish" => SimFault::HangBefore,
        "SendMessageBatch" => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
    world.run([&late("a")]).await;
    world.pass(130);
    let began = Instant::now();
    let exhausted = RecordBuilder::envelope("gone").mark(&mark(12, "gone", NOW));
    let ran = world.run([&late("b"), &exhausted]).await;
    let took = began.elapsed();
    assert!(Duration::from_secs(1) <= took && took < Duration::from_millis(1_500), "{took:?}");
    assert_eq!(ran.outcomes(), ["b deferred failed", "gone archived exhausted"]);
    assert_eq!(ran.metrics()["NoticesFailed"], 2);
}

/// Each notice would be one more letter for the endpoint. That it is back is told: it takes that notice.
#[tokio::test]
async fn letters_of_the_topic_of_notices_cause_none() {
    let world = world();
    let subscription = format!("{NOTICES}:0a1b");
    world.cloud.subscribe_endpoint(&subscription, NOTICES, "sqs", BILLING, DLQ);
    let ours = |id: &str| late(id).topic(NOTICES).subscription(&subscription);
    set_down(&world, true);
    for minute in 0..5 {
        world.pass(60);
        world.run([&ours(&format!("n{minute}"))]).await;
    }
    assert_eq!(kinds(&world), [""; 0]);
    // Letters of another topic for the same endpoint.
    for minute in 0..15 {
        world.pass(60);
        world.run([&late(&format!("p{minute}")).subscription(BILLING_SUBSCRIPTION)]).await;
    }
    assert_eq!(kinds(&world), ["down"]);
    assert_eq!(
        json!([notices(&world)[0]["target"], notices(&world)[0]["topicArns"]]),
        json!([BILLING, [TOPIC]])
    );
    set_down(&world, false);
    world.pass(60);
    world.run([&RecordBuilder::envelope("works").topic(NOTICES).subscription(&subscription)]).await;
    assert_eq!(kinds(&world), ["down", "recovered"]);
}

#[tokio::test]
async fn of_a_url_only_its_name_is_told() {
    let world = world();
    let url = "https://hooks.example/S3CR3T";
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "https", url, DLQ);
    for minute in 0..4 {
        world.pass(60);
        world.run([&late(&format!("a{minute}")).subscription(OTHER_SUBSCRIPTION)]).await;
    }
    assert_eq!(kinds(&world), ["down"]);
    let entry = &world.cloud.entries("Publish")[0];
    let name = TargetName::read(url);
    assert_eq!(entry.attributes["target"], attribute("String.Array", &json!([name.as_str()]).to_string()));
    assert_eq!(entry.subject, Some(format!("sns-redrive: endpoint down: {name}")));
    assert!(!format!("{entry:?}").contains("S3CR3T"));
}

/// A document that cannot be written claims nothing.
#[tokio::test]
async fn an_instance_that_cannot_write_the_document_tells_nothing() {
    let world = world();
    world.cloud.script(|call| match call.operation.as_str() {
        "PutObject" if call.target.contains("recoveries.json") => SimFault::refuse(403, "AccessDenied", "no"),
        "SendMessageBatch" => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
    for minute in 0..5 {
        world.pass(60);
        world.run([&late(&format!("a{minute}"))]).await;
    }
    assert_eq!(world.cloud.calls("Publish"), []);
    fail_for(&world, 4).await;
    assert_eq!(kinds(&world), ["down"], "it is told when it can be claimed");
}

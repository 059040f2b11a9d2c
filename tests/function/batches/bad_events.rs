use std::sync::Arc;

use redrive_aws::clock::InstanceClock;
use redrive_aws::log::{LogFormat, subscriber};
use redrive_aws::settings::Settings;
use sns_redrive::function::RedriveFunction;
use tracing::level_filters::LevelFilter;

use super::*;

/// Returns an event of two letters, after this change of the second record.
fn event_with(change: impl Fn(&mut Value)) -> Value {
    let mut event = event([&RecordBuilder::envelope("good"), &RecordBuilder::envelope("bad")]);
    change(&mut event["Records"][1]);
    event
}

/// Returns the record that an archived line holds, and what came, both without the receipt handle.
fn records(line: &Value, event: &Value) -> [Value; 2] {
    let mut came = event["Records"][1].clone();
    if came["receiptHandle"] != json!(null) {
        came["receiptHandle"] = json!("");
    }
    [serde_json::from_str(line["record"].as_str().unwrap()).unwrap(), came]
}

fn bad_events(ran: &TestInvocation) -> Vec<&str> {
    let lines = ran.log.iter().filter(|line| line["message"] == "bad event");
    lines.map(|line| line["detail"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_archived_as_it_came_and_its_neighbour_goes_its_way() {
    let set = |pointer: &'static str, value: Value| {
        move |record: &mut Value| *record.pointer_mut(pointer).unwrap() = value.clone()
    };
    let attribute = |value: Value| move |record: &mut Value| record["messageAttributes"]["a"] = value.clone();
    #[expect(clippy::type_complexity, reason = "a field, and a change of the record")]
    let cases: Vec<(&str, Box<dyn Fn(&mut Value)>)> = vec![
        (
            "messageAttributes",
            Box::new(attribute(json!({ "binaryValue": "base64Str", "dataType": "Number" }))),
        ),
        ("messageAttributes", Box::new(attribute(json!({ "stringValue": 3, "dataType": "Number" })))),
        ("messageAttributes", Box::new(attribute(json!("text")))),
        ("messageAttributes", Box::new(set("/messageAttributes", json!([1])))),
        ("body", Box::new(set("/body", json!({ "an": "object" })))),
        ("attributes", Box::new(set("/attributes", json!(null)))),
        ("SentTimestamp", Box::new(set("/attributes", json!({})))),
        ("SentTimestamp", Box::new(set("/attributes/SentTimestamp", json!("soon")))),
        ("attributes", Box::new(set("/attributes/SentTimestamp", json!(NOW)))),
        (
            "ApproximateFirstReceiveTimestamp",
            Box::new(set("/attributes/ApproximateFirstReceiveTimestamp", json!("99999999999999999999"))),
        ),
        ("ApproximateReceiveCount", Box::new(set("/attributes/ApproximateReceiveCount", json!("0")))),
        ("receiptHandle", Box::new(set("/receiptHandle", json!("")))),
        ("receiptHandle", Box::new(set("/receiptHandle", json!(null)))),
        ("eventSourceARN", Box::new(set("/eventSourceARN", json!("payments-dlq")))),
        ("eventSourceARN", Box::new(set("/eventSourceARN", json!(null)))),
    ];
    for (field, change) in cases {
        let event = event_with(change);
        let world = FunctionWorld::new(&[]);
        let ran = world.run_event(&event).await;
        assert_eq!(ran.outcomes(), ["good delivered", "bad archived unrecognised"], "{event}");
        assert_eq!(ran.kept, [""; 0]);
        let problem = format!("Records[1].{field} is missing or has no usable value");
        assert_eq!(bad_events(&ran), [&problem]);
        assert_eq!(ran.letter("bad")["detail"], problem);
        let [line] = <[Value; 1]>::try_from(archived(&world.cloud)).unwrap();
        assert_eq!(line["queueArn"], DLQ);
        assert_eq!(line["detail"], problem);
        let [stored, came] = records(&line, &event);
        assert_eq!(stored, came);
        assert!(!line.to_string().contains("handle-of-bad"), "{line}");
    }
}

/// White space, the order of fields and the notation of numbers say nothing, but who knows that of a record
/// that nobody understands?
#[tokio::test]
async fn an_unreadable_record_is_kept_byte_for_byte() {
    let record = r#"{ "messageId" : "bad", "body": 1.50e0,
        "eventSourceARN": "QUEUE", "receiptHandle" : "secret",  "\u00e4": "\ud83d" , "body": [ ] }"#;
    let record = record.replace("QUEUE", DLQ);
    let world = FunctionWorld::new(&[]);
    let ran = world.run_text(&format!(r#"{{"Records":[{record}]}}"#)).await.unwrap();
    assert_eq!(ran.outcomes(), ["bad archived unrecognised"]);
    let [line] = <[Value; 1]>::try_from(archived(&world.cloud)).unwrap();
    assert_eq!(line["record"], record.replace(r#""secret""#, r#""""#));
}

#[tokio::test]
async fn an_unreadable_record_is_the_body_in_an_archive_that_is_a_queue() {
    let world = FunctionWorld::new(&[("ARCHIVE", ARCHIVE_QUEUE)]);
    let event = event_with(|record| record["body"] = json!([]));
    let ran = world.run_event(&event).await;
    assert_eq!(ran.outcomes(), ["good delivered", "bad archived unrecognised"]);
    let [entry] = <[_; 1]>::try_from(world.cloud.messages("payments-archive")).unwrap();
    let [stored, came] = records(&json!({ "record": entry.body }), &event);
    assert_eq!(stored, came);
    assert!(entry.attributes.contains_key("sns-redrive-archive"));
}

/// Lambda takes an empty or an unknown identifier as the failure of the whole batch.
#[tokio::test]
async fn a_record_without_an_id_leaves_once_it_is_archived_and_else_fails_the_invocation() {
    for id in [json!(null), json!(""), json!(7)] {
        let event = event_with(|record| record["messageId"] = id.clone());
        let world = FunctionWorld::new(&[]);
        let ran = world.run_event(&event).await;
        assert_eq!(ran.kept, [""; 0]);
        assert_eq!(bad_events(&ran), ["Records[1].messageId is missing or has no usable value"]);
        let [line] = <[Value; 1]>::try_from(archived(&world.cloud)).unwrap();
        let [stored, came] = records(&line, &event);
        assert_eq!(stored, came);
        let name = line["message"]["messageId"].as_str().unwrap();
        assert!(name.starts_with("unnamed-") && name.len() == 19, "{name}");

        let world = FunctionWorld::new(&[]);
        world.cloud.reply("PutObject", SimFault::refuse(503, "SlowDown", "down"));
        let error = world.try_event(&event).await.unwrap_err().to_string();
        assert_eq!(
            error,
            "Records[1].messageId is missing or has no usable value, and the archive did not take the record: \
             the whole batch stays in its queue"
        );
    }
}

#[tokio::test]
async fn what_is_no_object_is_archived_too() {
    let event = event_with(|record| *record = json!("text"));
    let world = FunctionWorld::new(&[]);
    let ran = world.run_event(&event).await;
    assert_eq!(bad_events(&ran), ["Records[1] is not an object"]);
    assert_eq!(archived(&world.cloud)[0]["record"], "\"text\"");
}

#[tokio::test]
async fn an_unreadable_record_stays_while_the_archive_is_down_or_an_override_holds_it() {
    let event = event_with(|record| record["attributes"] = json!({}));
    let world = FunctionWorld::new(&[]);
    world.cloud.reply("PutObject", SimFault::refuse(503, "SlowDown", "down"));
    for hidden in [1, 2, 4] {
        let ran = world.run_event(&event).await;
        assert_eq!(ran.kept, ["bad"]);
        assert_eq!(ran.letter("bad")["delay_s"], hidden, "the archive is asked ever more rarely");
    }
    let world = FunctionWorld::new(&[("CONTROL", "s3://my-bucket/control")]);
    let hold = json!({ "id": "h", "do": "hold", "match": { "queueArn": [DLQ] }, "at": "2026-11-01T11:00:00Z",
        "by": "ada", "why": "test" });
    world
        .cloud
        .put("my-bucket/control/overrides.json", &json!({ "version": 1, "overrides": [hold] }).to_string());
    let ran = world.run_event(&event).await;
    assert_eq!(ran.outcomes()[1], "bad deferred overridden");
}

#[tokio::test]
async fn observing_touches_no_unreadable_record() {
    let world = FunctionWorld::new(&[("REDRIVE_MODE", "observe")]);
    let event = event_with(|record| record["attributes"] = json!({}));
    let ran = world.run_event(&event).await;
    assert_eq!(ran.kept, ["good", "bad"]);
    assert_eq!(ran.letter("bad")["decision"], "archive");
    assert_eq!(ran.letter("bad")["reason"], "unrecognised");
}

/// Some emulators write the fields of attributes with a capital.
#[tokio::test]
async fn attributes_in_pascal_case_keep_their_values() {
    let event = event_with(|record| {
        record["body"] = json!("raw");
        record["messageAttributes"] = json!({
            "tenant": { "StringValue": "gold", "DataType": "String" },
            "bytes": { "BinaryValue": "AAEC", "DataType": "Binary.x" },
        });
    });
    let policy = json!({ "default": { "target": WORKER } });
    let world = FunctionWorld::with_policy(&policy);
    let ran = world.run_event(&event).await;
    assert_eq!(ran.outcomes(), ["good delivered", "bad delivered"]);
    let sent = world.cloud.messages("payments-worker").into_iter().find(|entry| entry.body == "raw").unwrap();
    assert_eq!(sent.attributes["tenant"], attribute("String", "gold"));
    assert_eq!(sent.attributes["bytes"].kind, "Binary.x");
}

/// A message whose visibility timeout ends within a batching window is received twice by one batch.
#[tokio::test]
async fn a_message_that_is_twice_in_an_event_is_handled_once() {
    let again = RecordBuilder::envelope("a").received(2);
    let handle = |event: &mut Value| event["Records"][2]["receiptHandle"] = json!("second-handle");
    let mut event = event([&RecordBuilder::envelope("a"), &RecordBuilder::envelope("b"), &again]);
    handle(&mut event);
    let world = FunctionWorld::new(&[]);
    let ran = world.run_event(&event).await;
    assert_eq!(ran.outcomes(), ["a delivered", "b delivered"]);
    assert_eq!(world.cloud.entries("SendMessageBatch").len(), 2);
    assert_eq!(ran.kept, [""; 0]);

    let world = FunctionWorld::new(&[]);
    world.cloud.reply("SendMessageBatch", SimFault::refuse(503, "ServiceUnavailable", "down"));
    let ran = world.run_event(&event).await;
    assert_eq!(ran.outcomes(), ["a deferred failed", "b deferred failed"]);
    assert_eq!(ran.letter("a")["sqs.receive_count"], 2);
    assert_eq!(ran.kept, ["a", "b"], "an item names both of its records");
    let hidden = world.cloud.entries("ChangeMessageVisibilityBatch");
    assert_eq!(hidden.len(), 2, "{hidden:?}");
}

/// No answer could tell them apart, so each has its own way.
#[tokio::test]
async fn messages_of_one_id_and_two_bodies_are_two() {
    let mut other = RecordBuilder::raw("a", "other");
    other.id = "a".to_owned();
    let world = FunctionWorld::new(&[]);
    let ran = world.run_event(&event([&RecordBuilder::envelope("a"), &other])).await;
    assert_eq!(ran.outcomes(), ["a delivered", "a archived unrecognised"]);
}

async fn refused(change: impl Fn(&mut Value)) -> String {
    let mut event = event([&RecordBuilder::envelope("a"), &RecordBuilder::envelope("b")]);
    event["Records"].as_array_mut().unwrap().iter_mut().for_each(change);
    let world = FunctionWorld::new(&[]);
    let error = world.try_event(&event).await.unwrap_err();
    assert_eq!(world.cloud.journal(), [], "an event that nobody understands is left alone");
    error.to_string()
}

#[tokio::test]
async fn an_event_without_a_queue_fails_the_invocation_before_anything_is_done() {
    for arn in [json!(null), json!("payments-dlq"), json!(1)] {
        let error = refused(|record| record["eventSourceARN"] = arn.clone()).await;
        assert_eq!(
            error,
            "no record names its queue: Records[0].eventSourceARN is missing or has no usable value"
        );
    }
}

#[tokio::test]
async fn an_event_of_two_queues_fails_the_invocation_before_anything_is_done() {
    let error = refused(|record| {
        if record["messageId"] == "b" {
            record["eventSourceARN"] = json!(REQUEUE);
        }
    })
    .await;
    assert_eq!(error, format!("Records[1] is from {REQUEUE}, but the first record is from {DLQ}"));
}

#[tokio::test]
async fn an_event_of_another_kind_is_a_line_of_its_request() {
    let cloud = TestAccount::new();
    let settings =
        Settings::read(|name| (name == "ARCHIVE").then(|| "s3://my-bucket/dead-letters".to_owned()));
    let function =
        RedriveFunction::new(settings.unwrap(), cloud.clients(), InstanceClock::system(), Arc::new(|_| {}));
    let log = TestLog::default();
    let writer = log.clone();
    let guard = tracing::subscriber::set_default(subscriber(LogFormat::Json, LevelFilter::INFO, move || {
        writer.clone()
    }));
    let event = serde_json::from_value(json!({ "replay": {} })).unwrap();
    let error = function.answer(event, "req-1", u64::MAX).await.unwrap_err();
    drop(guard);
    let mut line: Value = serde_json::from_str(&log.text()).unwrap();
    line.as_object_mut().unwrap().remove("timestamp");
    let detail = error.to_string();
    assert_eq!(
        line,
        json!({ "level": "ERROR", "message": "bad event", "detail": detail, "request_id": "req-1" })
    );
    assert_eq!(cloud.journal(), []);
}

#[tokio::test]
async fn an_event_without_records_is_nothing_to_do() {
    let world = FunctionWorld::new(&[]);
    let ran = world.run_event(&json!({ "Records": [] })).await;
    assert_eq!(
        ran,
        TestInvocation { kept: vec![], log: vec![], text: String::new(), metrics: String::new() }
    );
    assert_eq!(world.cloud.journal(), []);
}

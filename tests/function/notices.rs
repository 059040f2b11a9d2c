//! Tests of notices of archived letters: when they are sent, their text, and failures to send them.

use std::time::Duration;

use redrive_support::*;
use serde_json::{Value, json};
use tokio::time::Instant;

const NOTICES: &str = "arn:aws:sns:eu-central-1:123456789012:notices";
const SECRET: &str = "S3CR3T";

fn world() -> FunctionWorld {
    FunctionWorld::new(&[("NOTICE_TOPIC_ARN", NOTICES)])
}

/// Returns the notices that were sent to SNS, in the form for programs.
fn notices(world: &FunctionWorld) -> Vec<Value> {
    let forms = world.cloud.entries("Publish").into_iter().map(|entry| form(&entry, "sqs"));
    forms.map(|form| serde_json::from_str(&form).unwrap()).collect()
}

fn form(entry: &SimEntry, protocol: &str) -> String {
    let forms: Value = serde_json::from_str(&entry.body).unwrap();
    forms[protocol].as_str().unwrap().to_owned()
}

fn counts(world: &FunctionWorld) -> Vec<u64> {
    notices(world).iter().map(|notice| notice["letters"].as_u64().unwrap()).collect()
}

/// Returns a letter whose every attempt fails, and which has none left.
fn exhausted(id: &str) -> RecordBuilder {
    RecordBuilder::envelope(id).mark(&mark(12, id, NOW))
}

#[tokio::test]
async fn a_notice_says_how_many_letters_of_which_kind_were_archived() {
    let world = world();
    world.cloud.reply("SendMessageBatch", SimFault::refuse(400, "InvalidMessageContents", "quotes the body"));
    let ran = world
        .run(&[exhausted("a"), exhausted("b"), RecordBuilder::envelope("c"), RecordBuilder::raw("d", "x")])
        .await;
    assert_eq!(ran.outcomes()[2..], ["c archived permanent", "d archived unrecognised"]);

    let [call] = world.cloud.calls("Publish").try_into().unwrap();
    assert_eq!((call.target.as_str(), call.entries[0].structure.as_deref()), ("notices", Some("json")));
    assert_eq!(call.entries[0].subject.as_deref(), Some("sns-redrive archived 4 letters"));
    let notice = &notices(&world)[0];
    let kind = |letters: u64, topic: Option<&str>, reason: &str, code: Option<&str>| {
        let subscription = topic.map(|_| SUBSCRIPTION);
        json!({
            "letters": letters, "topicArn": topic, "subscriptionArn": subscription, "reason": reason,
            "errorCode": code, "causeCode": null,
        })
    };
    assert_eq!(
        notice["kinds"],
        json!([
            kind(2, Some(TOPIC), "exhausted", None),
            kind(1, None, "unrecognised", None),
            kind(1, Some(TOPIC), "permanent", Some("InvalidMessageContents")),
        ])
    );
    let command =
        "redrivectl archive show --archive s3://my-bucket/dead-letters --since 2026-11-01T12:00:00Z";
    assert_eq!(notice["command"], command);
    assert!(form(&call.entries[0], "default").ends_with(&format!("{command}\n")));
    assert_eq!(ran.metric("NoticesFailed"), 0);
    let list = |names: &[&str]| attribute("String.Array", &json!(names).to_string());
    let attributes = [
        ("kind".to_owned(), attribute("String", "archived")),
        ("target".to_owned(), list(&[WORKER])),
        ("topicArn".to_owned(), list(&[TOPIC])),
    ];
    assert_eq!(call.entries[0].attributes, attributes.into());
}

#[tokio::test]
async fn a_notice_names_the_command_that_replays_if_there_is_a_requeue() {
    let world = FunctionWorld::new(&[
        ("NOTICE_TOPIC_ARN", NOTICES),
        ("REQUEUE_ARN", REQUEUE),
        ("CONTROL", "s3://my-bucket/control"),
    ]);
    world.run([&RecordBuilder::raw("a", "x")]).await;
    assert_eq!(notices(&world)[0]["replay"], Value::Null, "to send it again is of no use");
    // Nothing is known of it, and SNS takes no empty list.
    let entries = world.cloud.entries("Publish");
    assert_eq!(entries[0].attributes.keys().collect::<Vec<_>>(), ["kind"]);
    world.pass(61);
    world.run([&RecordBuilder::envelope("b").mark(&mark(12, "b", NOW)), &RecordBuilder::raw("c", "x")]).await;
    let command = format!(
        "redrivectl replay --archive s3://my-bucket/dead-letters --control s3://my-bucket/control --requeue {REQUEUE} \
         --reason exhausted --since 2026-11-01T12:01:01Z --until 2026-11-01T12:01:02Z"
    );
    assert_eq!(notices(&world)[1]["replay"], command);
    assert!(form(&world.cloud.entries("Publish")[1], "default").ends_with(&format!("{command}\n")));
}

/// A code that is no plain word is left out: a failed function may put any text there.
#[tokio::test]
async fn a_notice_says_by_which_error_lambda_gave_up() {
    let policy = r#"{"origins": {"*": ["lambda-async"]}, "rules": [{"name": "all", "match": {"origin": ["lambda-async"]}, "action": "archive"}]}"#;
    let world = FunctionWorld::new(&[("NOTICE_TOPIC_ARN", NOTICES), ("REDRIVE_POLICY", policy)]);
    let given_up = |id: &str, code: &str| {
        RecordBuilder::raw(id, "{}").attribute("RequestID", "String", "r").attribute(
            "ErrorCode",
            "String",
            code,
        )
    };
    world.run([&given_up("a", "Unhandled"), &given_up("b", "two words")]).await;
    let notice = notices(&world).remove(0);
    let causes = notice["kinds"].as_array().unwrap().iter().map(|kind| kind["causeCode"].clone());
    assert_eq!(causes.collect::<Vec<_>>(), [json!(null), json!("Unhandled")]);
}

#[tokio::test]
async fn what_was_not_archived_causes_no_notice() {
    let world = world();
    world
        .run([
            &RecordBuilder::envelope("delivered"),
            &RecordBuilder::envelope("early").mark(&mark(2, "x", NOW)),
        ])
        .await;
    world.cloud.reply("PutObject", SimFault::refuse(403, "AccessDenied", "no"));
    assert_eq!(world.run([&exhausted("kept")]).await.kept, ["kept"]);
    assert_eq!(world.cloud.calls("Publish"), []);

    let observing = FunctionWorld::new(&[("NOTICE_TOPIC_ARN", NOTICES), ("REDRIVE_MODE", "observe")]);
    observing.run([&exhausted("a")]).await;
    assert_eq!(observing.cloud.journal().iter().filter(|call| call.operation == "Publish").count(), 0);
    let without = FunctionWorld::new(&[]);
    without.run([&exhausted("a")]).await;
    assert_eq!(without.cloud.calls("Publish"), []);
    assert_eq!(without.run([&exhausted("b")]).await.metric("NoticesFailed"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_instance_sends_one_notice_a_minute_and_the_rest_with_the_next_invocation() {
    let world = world();
    world.run([&exhausted("a")]).await;
    for id in ["b", "c"] {
        world.pass(20);
        world.run([&exhausted(id)]).await;
    }
    assert_eq!(counts(&world), [1]);
    world.pass(20);
    // This invocation archives nothing itself.
    world.run([&RecordBuilder::envelope("delivered")]).await;
    assert_eq!(counts(&world), [1, 2]);
    assert_eq!(notices(&world)[1]["since"], "2026-11-01T12:00:20Z");
    assert_eq!(notices(&world)[1]["until"], "2026-11-01T12:00:40Z");
    world.pass(60);
    world.run([&RecordBuilder::envelope("delivered")]).await;
    assert_eq!(counts(&world), [1, 2], "all is told");
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_fails_is_a_line_and_a_metric_and_its_letters_are_told_of_later() {
    let refused = "User is not authorized to perform: SNS:Publish on resource: notices";
    for reply in [
        SimFault::refuse(403, "AuthorizationError", refused),
        SimFault::ResetBefore,
        SimFault::Nonsense(500, "<".to_owned()),
    ] {
        let world = world();
        world.cloud.reply("Publish", reply.clone());
        let ran = world.run([&exhausted("a")]).await;
        assert_eq!(
            (ran.outcomes(), ran.kept.as_slice()),
            (vec!["a archived exhausted".to_owned()], [].as_slice())
        );
        assert_eq!(ran.metrics()["NoticesFailed"], 1, "{reply:?}");
        let line = ran.log.iter().find(|line| line["topic.arn"] == NOTICES).unwrap();
        assert_eq!([&line["level"], &line["letters"]], [&json!("WARN"), &json!(1)]);

        world.cloud.reply("Publish", SimFault::Pass);
        world.pass(59);
        let ran = world.run([&exhausted("b")]).await;
        assert_eq!((counts(&world), ran.metric("NoticesFailed")), (vec![1], 0), "{reply:?}");
        world.pass(1);
        world.run([&exhausted("c")]).await;
        assert_eq!(counts(&world), [1, 3], "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_does_not_answer_costs_a_second_and_no_letter() {
    let world = world();
    world.cloud.reply("Publish", SimFault::HangBefore);
    let began = Instant::now();
    let ran = world.run([&exhausted("a"), &RecordBuilder::envelope("b")]).await;
    let took = began.elapsed();
    assert!(Duration::from_secs(1) <= took && took < Duration::from_millis(1_500), "{took:?}");
    assert_eq!(ran.outcomes(), ["a archived exhausted", "b delivered"]);
    assert_eq!(ran.kept, [""; 0]);
    assert_eq!(ran.metrics()["NoticesFailed"], 1);
    // It is not tried again at once.
    let began = Instant::now();
    world.run([&exhausted("c")]).await;
    assert!(began.elapsed() < Duration::from_millis(900));
}

#[tokio::test(start_paused = true)]
async fn an_invocation_that_is_at_its_end_leaves_the_notice_to_the_next() {
    let world = world().with_time(Duration::from_millis(150));
    let ran = world.run([&exhausted("a")]).await;
    assert_eq!(ran.outcomes(), ["a archived exhausted"]);
    assert_eq!(counts(&world), [0; 0]);
    let world = world.with_time(Duration::from_secs(30));
    world.run([&RecordBuilder::envelope("b")]).await;
    assert_eq!(counts(&world), [1]);
}

/// Otherwise a notice that its own subscriber does not take would cause the next one.
#[tokio::test]
async fn letters_of_the_topic_of_notices_cause_none() {
    let world = world();
    let subscription = format!("{NOTICES}:0a1b");
    world.cloud.subscribe_endpoint(&subscription, NOTICES, "sqs", WORKER, DLQ);
    let ours = |id: &str| exhausted(id).topic(NOTICES).subscription(&subscription);
    world.run([&ours("a")]).await;
    assert_eq!(counts(&world), [0; 0]);
    world.run([&ours("b"), &exhausted("c")]).await;
    assert_eq!(counts(&world), [1]);
}

#[tokio::test]
async fn a_notice_has_nothing_of_what_a_letter_says() {
    let world = world();
    world.cloud.reply("SendMessageBatch", SimFault::refuse(400, "InvalidMessageContents", SECRET));
    let secret = |post: RecordBuilder| {
        let post = post.message(SECRET).subject(SECRET);
        post.sns_attribute("tenant", "String", SECRET).system("AWSTraceHeader", SECRET)
    };
    let posts = [
        secret(RecordBuilder::envelope("permanent")),
        secret(exhausted("exhausted")).subscription(&format!("{SUBSCRIPTION}&Token={SECRET}")),
        RecordBuilder::raw("raw", SECRET).attribute("ErrorMessage", "String", SECRET),
        RecordBuilder::raw("broken", &format!(r#"{{"Type":"Notification","Message":"{SECRET}"#)),
    ];
    let ran = world.run(&posts).await;
    assert_eq!(counts(&world), [4], "{:?}", ran.outcomes());
    let told = &world.cloud.entries("Publish")[0];
    for secret in [SECRET, "Unsubscribe", "Token=", "handle-"] {
        assert!(!told.body.contains(secret), "{secret}: {}", told.body);
        assert!(!told.subject.as_ref().unwrap().contains(secret));
    }
}

#[tokio::test]
async fn a_topic_may_be_in_another_region() {
    let world = FunctionWorld::new(&[("NOTICE_TOPIC_ARN", "arn:aws:sns:us-east-1:123456789012:notices")]);
    world.run([&exhausted("a")]).await;
    assert_eq!(world.cloud.calls("Publish")[0].host, "sns.us-east-1.amazonaws.com");
}

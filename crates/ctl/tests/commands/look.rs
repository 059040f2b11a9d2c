//! `look`: the letters of a queue from which no function receives.

mod causes;
mod setup_file;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{
    BILLING, DLQ, FIFO_DLQ, LAMBDA_SUBSCRIPTION, NOTIFIER, NOW, SUBSCRIPTION, SimFault, TOPIC, TestAccount,
    WORKER,
};
use serde_json::{Value, json};

use super::{CommandRun, CommandWorld, TextFile, manual, redrivectl_in, shows};

const HOUR: i64 = 3_600_000;

/// A letter on which SNS gave up for a subscription, this long ago.
fn letter(number: usize, subscription: &str, age: i64) -> Value {
    let event = include_str!("../../../../events/envelope.json");
    let mut record: Value = serde_json::from_str::<Value>(event).unwrap()["Records"][0].take();
    let mut envelope: Value = serde_json::from_str(record["body"].as_str().unwrap()).unwrap();
    envelope["MessageId"] = json!(format!("m{number}"));
    envelope["UnsubscribeURL"] = json!(format!(
        "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={subscription}"
    ));
    record["messageId"] = json!(format!("id{number}"));
    record["receiptHandle"] = json!(format!("handle{number}"));
    record["body"] = json!(envelope.to_string());
    record["attributes"]["SentTimestamp"] = json!((NOW - age).to_string());
    record["attributes"]["ApproximateFirstReceiveTimestamp"] = json!((NOW - age).to_string());
    record
}

/// A letter that a consumer's queue gave up on.
fn moved(number: usize) -> Value {
    let mut record = letter(number, SUBSCRIPTION, HOUR);
    record["body"] = json!("of a consumer");
    record["messageAttributes"] = json!({});
    record["attributes"]["DeadLetterQueueSourceArn"] = json!(BILLING);
    record["attributes"]["ApproximateReceiveCount"] = json!("4");
    record
}

/// Returns an account with these letters, visible in the dead-letter queue.
fn with(letters: &[Value]) -> TestAccount {
    let cloud = TestAccount::new();
    let lets_in = json!({ "Statement": [
        { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage",
          "Resource": WORKER, "Condition": { "ArnLike": { "aws:SourceArn": TOPIC } } } ] });
    cloud.queue("payments-worker", &[("Policy", &lets_in.to_string())]);
    cloud.place(&json!({ "Records": letters }));
    // Their last receive is over.
    cloud.aws.clock().pass(Duration::from_secs(200));
    cloud
}

/// The answers of Lambda, of the topics and of their logs.
#[derive(Clone, Default)]
struct Around {
    mappings: Vec<Value>,
    /// The functions that exist, with their policies.
    functions: BTreeMap<&'static str, Value>,
    /// True if the topic logs failures.
    logs: bool,
    /// The error code of the calls that are denied.
    denied: Option<&'static str>,
    keys: Option<(Value, Value)>,
}

impl Around {
    fn answer(&self, asked: &StandInRequest<'_>) -> Option<(u16, String)> {
        if self.denied.is_some_and(|denied| asked.uri.contains(denied) || asked.body.contains(denied)) {
            let denied = json!({ "__type": "AccessDeniedException", "Code": "AccessDenied" }).to_string();
            let as_xml = "<ErrorResponse><Error><Code>AuthorizationError</Code></Error></ErrorResponse>";
            return Some((403, if asked.is_of("sns") { as_xml.to_owned() } else { denied }));
        }
        if asked.is_of("lambda") {
            let path = asked.uri.split_once(".com/")?.1;
            if path.starts_with("2015-03-31/event-source-mappings") {
                let page = usize::from(asked.uri.contains("Marker="));
                let more = (page + 1 < self.mappings.len()).then_some("more");
                let mappings: Vec<_> = self.mappings.get(page).into_iter().collect();
                return Some((
                    200,
                    json!({ "EventSourceMappings": mappings, "NextMarker": more }).to_string(),
                ));
            }
            let none = || Some((404, json!({ "__type": "ResourceNotFoundException" }).to_string()));
            let name = path.split('/').nth(2)?.replace("%3A", ":");
            let Some(policy) = self.functions.get(name.as_str()) else { return none() };
            if path.ends_with("/policy") {
                return Some((200, json!({ "Policy": policy.to_string() }).to_string()));
            }
            return Some((200, json!({ "FunctionName": name, "State": "Active" }).to_string()));
        }
        if asked.is_of("iam") {
            let name = asked.field("RoleName").or(asked.field("UserName")).unwrap_or_default();
            if asked.field("Action") != Some("GetRole") || name != "operator" {
                let said = "<ErrorResponse><Error><Code>NoSuchEntity</Code></Error></ErrorResponse>";
                return Some((404, said.to_owned()));
            }
            let role = "<RoleName>operator</RoleName><Path>/team/</Path><RoleId>A</RoleId>\
                        <CreateDate>2026-01-01T00:00:00Z</CreateDate>\
                        <Arn>arn:aws:iam::123456789012:role/team/operator</Arn>";
            let said = format!(
                "<GetRoleResponse><GetRoleResult><Role>{role}</Role></GetRoleResult></GetRoleResponse>"
            );
            return Some((200, said));
        }
        let topic = asked.field("TopicArn").unwrap_or_default();
        if asked.field("Action") == Some("GetTopicAttributes") && topic.ends_with("no-such-topic") {
            let said = "<ErrorResponse><Error><Code>NotFound</Code></Error></ErrorResponse>";
            return Some((404, said.to_owned()));
        }
        if asked.field("Action") == Some("GetTopicAttributes") {
            let role =
                "<entry><key>SQSFailureFeedbackRoleArn</key><value>arn:aws:iam::1:role/r</value></entry>";
            let on = if self.logs { role } else { "" };
            return Some((
                200,
                format!(
                    "<GetTopicAttributesResponse><GetTopicAttributesResult><Attributes>{on}</Attributes>\
                     </GetTopicAttributesResult></GetTopicAttributesResponse>"
                ),
            ));
        }
        if asked.is_of("logs") {
            let asks: Value = serde_json::from_str(asked.body).unwrap();
            assert_eq!(asks["logGroupName"], "sns/eu-central-1/123456789012/payments/Failure");
            let line = json!({ "status": "FAILURE", "delivery": { "destination": WORKER, "statusCode": 403,
                "providerResponse": json!({ "ErrorCode": "KMS.DisabledException", "ErrorMessage": "S3CR3T" }).to_string() } });
            return Some((200, json!({ "events": [{ "message": line.to_string() }] }).to_string()));
        }
        if asked.is_of("kms") {
            let (described, policy) = self.keys.as_ref()?;
            return Some(if asked.target.ends_with("DescribeKey") {
                (200, json!({ "KeyMetadata": described }).to_string())
            } else {
                (200, json!({ "Policy": policy.to_string() }).to_string())
            });
        }
        None
    }

    fn before(self, cloud: &TestAccount) -> SdkConfig {
        stand_in::before(cloud, move |asked| self.answer(asked))
    }
}

/// The function of the account with its policy.
fn notifier() -> Around {
    let policy = json!({ "Statement": [
        { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "lambda:InvokeFunction",
          "Resource": NOTIFIER, "Condition": { "ArnLike": { "AWS:SourceArn": TOPIC } } } ] });
    Around { functions: BTreeMap::from([(NOTIFIER, policy)]), ..Around::default() }
}

async fn look(cloud: &TestAccount, around: Around, args: &[&str]) -> CommandRun {
    let world =
        CommandWorld { config: Some(around.before(cloud)), later: 200_000, ..CommandWorld::default() };
    redrivectl_in(world, &[&["look", "--queue", DLQ], args].concat()).await
}

/// Returns a world with a queue of letters, in which a person answers a question with yes.
pub(crate) fn lookable() -> CommandWorld {
    let letters: Vec<_> = (0..12).map(|number| letter(number, SUBSCRIPTION, HOUR / 2)).collect();
    let config = Some(notifier().before(&with(&letters)));
    CommandWorld { config, later: 200_000, answers: true, input: b"y\n".to_vec(), ..CommandWorld::default() }
}

/// Returns the ids of the letters that can be received now.
async fn visible(cloud: &TestAccount) -> usize {
    let config = cloud.config(aws_config::retry::RetryConfig::disabled());
    let sqs = aws_sdk_sqs::Client::new(&config);
    let mut seen = 0;
    loop {
        let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/payments-dlq";
        let got = sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await.unwrap();
        if got.messages().is_empty() {
            return seen;
        }
        seen += got.messages().len();
    }
}

#[tokio::test]
async fn letters_are_grouped_with_what_the_policy_would_do_and_given_back() {
    let mut letters: Vec<_> = (0..12).map(|number| letter(number, SUBSCRIPTION, HOUR / 2)).collect();
    letters.push(letter(12, SUBSCRIPTION, 30 * HOUR));
    letters.extend((20..24).map(|number| letter(number, LAMBDA_SUBSCRIPTION, 2 * HOUR)));
    letters.extend((30..33).map(moved));
    let cloud = with(&letters);
    let ran = look(&cloud, notifier(), &["--yes", "--json"]).await;
    let report = ran.json();
    assert_eq!((&report["letters"], &report["complete"]), (&json!(20), &json!(true)), "{report:#}");
    let groups = report["groups"].as_array().unwrap();
    let first = &groups[0];
    assert_eq!(
        (&first["letters"], &first["subscriptionArn"], &first["target"], &first["ages"]),
        (
            &json!(13),
            &json!(SUBSCRIPTION),
            &json!(WORKER),
            &json!({ "up to 1 h": 12, "up to 1 d": 0, "up to 4 d": 1, "older": 0 })
        )
    );
    assert_eq!(first["now"]["retried"], 13, "{first:#}");
    assert_eq!(
        (&first["endpoint"]["finding"], &groups[1]["target"], &groups[1]["endpoint"]["finding"]),
        (&json!("works"), &json!(NOTIFIER), &json!("works"))
    );
    let of_consumer = &groups[2];
    assert_eq!((&of_consumer["origin"], &of_consumer["failed"]), (&json!("sqs"), &json!(BILLING)));
    // Three of its four receives were in the source queue.
    assert_eq!(of_consumer["now"]["retried"], 3, "{of_consumer:#}");
    assert_eq!(visible(&cloud).await, 20, "every letter is given back");
    let receives = cloud.calls("ReceiveMessage").len();
    assert!(receives < 20, "{receives}");
}

/// Each is hidden until the same moment, a minute after the first receive at most, and received once.
#[tokio::test]
async fn letters_are_received_once_and_hidden_for_a_minute_at_most() {
    let cloud = with(&(0..95).map(|number| letter(number, SUBSCRIPTION, HOUR)).collect::<Vec<_>>());
    let report = look(&cloud, notifier(), &["--yes", "--json"]).await.json();
    assert_eq!(report["letters"], 95);
    for call in
        cloud.calls("ReceiveMessage").iter().filter(|call| call.parameter("WaitTimeSeconds").is_some())
    {
        let hidden: i64 = call.parameter("VisibilityTimeout").unwrap().parse().unwrap();
        assert!((1..=60).contains(&hidden), "{hidden}");
    }
    let asked = cloud.entries("ChangeMessageVisibilityBatch");
    assert_eq!((asked.len(), asked.iter().all(|entry| entry.visibility == Some(0))), (95, true));
}

#[tokio::test]
async fn no_more_letters_are_received_than_were_asked_for() {
    let cloud = with(&(0..95).map(|number| letter(number, SUBSCRIPTION, HOUR)).collect::<Vec<_>>());
    let ran = look(&cloud, notifier(), &["--yes", "--letters", "23"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let said =
        "Looked at 23 letters of payments-dlq in 1 group, of about 95 that can be received (--letters).";
    assert!(ran.out.contains(said), "{}", ran.out);
}

#[tokio::test]
async fn the_question_says_what_a_look_costs_and_no_is_the_default() {
    let cloud = with(&[letter(1, SUBSCRIPTION, HOUR)]);
    for (input, code) in [("\n", 2), ("n\n", 2), ("y\n", 0)] {
        let world = CommandWorld {
            config: Some(notifier().before(&cloud)),
            answers: true,
            input: input.into(),
            later: 200_000,
            ..CommandWorld::default()
        };
        let before = cloud.calls("ReceiveMessage").len();
        let ran = redrivectl_in(world, &["look", "--queue", DLQ]).await;
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains("Each look is a receive"), "{}", ran.err);
        assert_eq!(cloud.calls("ReceiveMessage").len() > before, code == 0);
    }
    let ran = look(&cloud, notifier(), &[]).await;
    assert!(ran.code == 2 && ran.err.contains("give --yes"), "nobody can be asked: {ran:?}");
}

#[tokio::test]
async fn a_queue_that_a_function_drains_is_refused_and_one_whose_letters_would_move() {
    let cloud = with(&[letter(1, SUBSCRIPTION, HOUR)]);
    let mapping = |state: &str| {
        json!({ "UUID": "u", "State": state, "EventSourceArn": DLQ,
                "FunctionArn": "arn:aws:lambda:eu-central-1:123456789012:function:other" })
    };
    for (state, code) in [("Enabled", 2), ("Creating", 2), ("Disabled", 0)] {
        let around = Around { mappings: vec![mapping(state)], ..notifier() };
        let ran = look(&cloud, around, &["--yes"]).await;
        assert_eq!(ran.code, code, "{state}: {ran:?}");
        assert_eq!(ran.err.contains("function:other receives from"), code == 2, "{}", ran.err);
    }
    let pages = Around { mappings: vec![mapping("Disabled"), mapping("Enabled")], ..notifier() };
    let ran = look(&cloud, pages, &["--yes"]).await;
    assert_eq!(ran.code, 2, "the second page has it: {ran:?}");
    let unknown = Around { denied: Some("event-source-mappings"), ..notifier() };
    let ran = look(&cloud, unknown, &["--yes"]).await;
    assert!(ran.code == 6 && ran.err.contains("lambda:ListEventSourceMappings"), "{ran:?}");
    let redrive = json!({ "deadLetterTargetArn": WORKER, "maxReceiveCount": 3 }).to_string();
    cloud.queue("payments-dlq", &[("RedrivePolicy", &redrive)]);
    let before = cloud.calls("ReceiveMessage").len();
    let ran = look(&cloud, notifier(), &["--yes"]).await;
    assert!(ran.code == 2 && ran.err.contains("has a dead-letter queue of its own"), "{ran:?}");
    assert_eq!(cloud.calls("ReceiveMessage").len(), before);
}

#[tokio::test]
async fn a_queue_is_named_by_its_name_or_its_url_too() {
    let cloud = with(&[letter(1, SUBSCRIPTION, HOUR)]);
    for named in [
        "payments-dlq",
        "https://sqs.eu-central-1.amazonaws.com/123456789012/payments-dlq",
        "http://localhost:4566/123456789012/payments-dlq",
    ] {
        let world = CommandWorld {
            config: Some(notifier().before(&cloud)),
            later: 200_000,
            ..CommandWorld::default()
        };
        let report = redrivectl_in(world, &["look", "--queue", named, "--yes", "--json"]).await.json();
        assert_eq!((&report["queueArn"], &report["letters"]), (&json!(DLQ), &json!(1)), "{named}");
    }
    for named in ["", "no queue", TOPIC, "https://example.com/"] {
        let world = CommandWorld { config: Some(notifier().before(&cloud)), ..CommandWorld::default() };
        let ran = redrivectl_in(world, &["look", "--queue", named, "--yes"]).await;
        assert!(ran.code == 2 && ran.err.contains("--queue"), "{named}: {ran:?}");
    }
}

#[tokio::test]
async fn a_queue_in_another_region_is_refused_with_the_option_that_names_it() {
    let cloud = with(&[letter(1, SUBSCRIPTION, HOUR)]);
    let world = CommandWorld { config: Some(notifier().before(&cloud)), ..CommandWorld::default() };
    let ran = redrivectl_in(
        world,
        &["look", "--queue", "arn:aws:sqs:eu-west-1:123456789012:payments-dlq", "--yes"],
    )
    .await;
    assert!(ran.code == 2 && ran.err.contains("give --region eu-west-1"), "{ran:?}");
    assert_eq!(cloud.journal().len(), 0, "nothing is asked in the wrong region");
}

/// SQS hands over no more letters of a group while some of it are hidden.
#[tokio::test]
async fn a_look_at_a_fifo_queue_says_that_it_saw_only_the_first_of_a_group() {
    let of_group = |count: usize| -> Vec<_> {
        (0..count)
            .map(|number| {
                let mut record = letter(number, SUBSCRIPTION, HOUR);
                record["eventSourceARN"] = json!(FIFO_DLQ);
                record["attributes"]["MessageGroupId"] = json!("a");
                record["attributes"]["MessageDeduplicationId"] = json!(format!("d{number}"));
                record["attributes"]["SequenceNumber"] = json!(format!("{number:020}"));
                record
            })
            .collect()
    };
    for (count, looked, is_whole) in [(4, 4, true), (25, 10, false)] {
        let cloud = with(&of_group(count));
        let run = async |args: &[&str]| {
            let config = Some(notifier().before(&cloud));
            let world = CommandWorld { config, later: 200_000, ..CommandWorld::default() };
            redrivectl_in(world, &[&["look", "--queue", FIFO_DLQ, "--yes"], args].concat()).await
        };
        let report = run(&["--json"]).await.json();
        assert_eq!(
            (&report["letters"], &report["complete"]),
            (&json!(looked), &json!(is_whole)),
            "{report:#}"
        );
        let text = run(&[]).await.out;
        assert_eq!(text.contains("which hands over only the first letters"), !is_whole, "{text}");
    }
}

/// A backlog that is older than the schedule.
#[tokio::test]
async fn letters_with_one_retry_left_are_counted_and_schedule_from_gives_them_all() {
    let old = |number| {
        let mut record = letter(number, SUBSCRIPTION, 200 * HOUR);
        // Somebody looked often.
        record["attributes"]["ApproximateReceiveCount"] = json!("40");
        record
    };
    let cloud = with(&(0..3).map(old).collect::<Vec<_>>());
    let ran = look(&cloud, notifier(), &["--yes"]).await;
    assert!(ran.out.contains("3 retried at once, 3 of them for the last time"), "{}", ran.out);
    assert!(ran.out.contains("3 letters get one retry and no other"), "{}", ran.out);
    let from = look(&cloud, notifier(), &["--yes", "--schedule-from", "2026-11-01T12:00:00Z"]).await;
    assert!(from.out.contains("3 retried at once\n") && !from.out.contains("no other"), "{}", from.out);
}

#[tokio::test]
async fn a_policy_says_what_it_would_do_with_its_letters() {
    let cloud = with(&[letter(1, SUBSCRIPTION, HOUR), letter(2, LAMBDA_SUBSCRIPTION, HOUR)]);
    let policy = TextFile::of(
        "look.json",
        &json!({ "rules": [{ "name": "not-the-worker", "match": { "subscriptionArn": [SUBSCRIPTION] }, "action": "archive" }] })
            .to_string(),
    );
    let ran = look(&cloud, notifier(), &["--yes", "--policy", policy.path()]).await;
    assert!(ran.out.contains("not-the-worker\n   now           1 archived as rule"), "{}", ran.out);
}

/// What fails on the way is said, and what was received is given back.
#[tokio::test]
async fn a_failure_gives_back_what_was_received() {
    let cloud = with(&(0..95).map(|number| letter(number, SUBSCRIPTION, HOUR)).collect::<Vec<_>>());
    let calls = Mutex::new(0);
    cloud.script(move |call| {
        if call.operation != "ReceiveMessage" {
            return SimFault::Pass;
        }
        let mut calls = calls.lock().unwrap();
        *calls += 1;
        if *calls > 6 { SimFault::refuse(400, "OverLimit", "") } else { SimFault::Pass }
    });
    let ran = look(&cloud, notifier(), &["--yes"]).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.out.contains("Looked at 60 letters") && ran.out.contains("sqs:ReceiveMessage failed"),
        "{}",
        ran.out
    );
    cloud.script(|_| SimFault::Pass);
    assert_eq!(visible(&cloud).await, 95);
}

#[tokio::test]
async fn letters_that_cannot_be_given_back_are_told() {
    let cloud = with(&[letter(1, SUBSCRIPTION, HOUR)]);
    cloud.reply("ChangeMessageVisibilityBatch", SimFault::refuse(403, "AccessDenied", ""));
    let ran = look(&cloud, notifier(), &["--yes"]).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("1 letter could not be given back (AccessDenied"), "{}", ran.err);
    assert!(ran.err.contains("will be visible again within a minute"), "{}", ran.err);
}

#[tokio::test]
async fn an_interrupt_gives_everything_back() {
    let cloud = with(&(0..95).map(|number| letter(number, SUBSCRIPTION, HOUR)).collect::<Vec<_>>());
    let interrupted = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&interrupted);
    cloud.script(move |call| {
        stop.fetch_or(call.operation == "ReceiveMessage", Ordering::Relaxed);
        SimFault::Pass
    });
    let config = Some(notifier().before(&cloud));
    let world = CommandWorld { config, interrupted, later: 200_000, ..CommandWorld::default() };
    let ran = redrivectl_in(world, &["look", "--queue", DLQ, "--yes"]).await;
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(cloud.entries("ChangeMessageVisibilityBatch").len() < 95);
    assert_eq!(visible(&cloud).await, 95);
}

/// Ten thousand letters take few calls. Nothing of a letter but its handle and its group is kept.
#[tokio::test]
async fn ten_thousand_letters_are_looked_at() {
    let cloud = with(&(0..10_000).map(|number| letter(number, SUBSCRIPTION, HOUR)).collect::<Vec<_>>());
    let report = look(&cloud, notifier(), &["--yes", "--json", "--letters", "10000"]).await.json();
    assert_eq!((&report["letters"], &report["groups"][0]["letters"]), (&json!(10_000), &json!(10_000)));
    assert!(cloud.calls("ReceiveMessage").len() <= 1_004);
    assert_eq!(cloud.entries("ChangeMessageVisibilityBatch").len(), 10_000);
}

#[tokio::test]
async fn the_manual_shows_what_is_printed() {
    let mut letters: Vec<_> = (0..12).map(|number| letter(number, SUBSCRIPTION, HOUR / 2)).collect();
    letters.extend((20..24).map(|number| letter(number, LAMBDA_SUBSCRIPTION, 30 * HOUR)));
    let cloud = with(&letters);
    let around = Around { logs: true, ..Around::default() };
    let ran = look(&cloud, around, &["--yes"]).await;
    assert!(shows(&manual(), &ran.out), "it prints:\n{}", ran.out);
}

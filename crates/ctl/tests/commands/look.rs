//! `look`: the letters of a queue from which no function receives.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{
    BILLING, BILLING_SUBSCRIPTION, ClosedPort, DLQ, LAMBDA_SUBSCRIPTION, NOTIFIER, NOW, SUBSCRIPTION,
    SimFault, TOPIC, TestAccount, TestWebServer, WORKER,
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

/// Each world breaks one thing, and the report says which.
#[tokio::test]
async fn the_report_says_why_sns_gave_up() {
    type Break = fn(&TestAccount, &mut Around);
    type Case = (Break, Option<(Value, Value)>, &'static str, &'static str);
    let key = |state: &str| json!({ "KeyId": "k", "Arn": "arn:aws:kms:eu-central-1:123456789012:key/k", "KeyState": state });
    let owner = json!({ "Statement": [{ "Effect": "Allow", "Principal": { "AWS": "arn:aws:iam::123456789012:root" },
                                         "Action": "kms:*", "Resource": "*" }] });
    let sns_too = json!({ "Statement": [{ "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" },
        "Action": ["kms:GenerateDataKey*", "kms:Decrypt"], "Resource": "*",
        "Condition": { "ArnLike": { "aws:SourceArn": TOPIC } } }] });
    let encrypted: Break = |cloud, _| {
        let policy = json!({ "Statement": [{ "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" },
                                              "Action": "sqs:SendMessage", "Resource": WORKER }] });
        cloud.queue("payments-worker", &[("Policy", &policy.to_string()), ("KmsMasterKeyId", "k")]);
    };
    let cases: [Case; 12] = [
        (|_, _| {}, None, "works", "the queue exists, and its policy lets SNS write"),
        (
            |cloud, _| cloud.resubscribe(SUBSCRIPTION, "Endpoint", &WORKER.replace("worker", "gone")),
            None,
            "broken",
            "the queue does not exist",
        ),
        (
            |cloud, _| cloud.queue("payments-worker", &[]),
            None,
            "broken",
            "the queue's policy does not let SNS write",
        ),
        (
            |cloud, _| {
                cloud.queue("payments-worker", &[("Policy", &json!({ "Statement": [
            { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage", "Resource": WORKER }] }).to_string()), ("KmsMasterKeyId", "alias/aws/sqs")]);
            },
            None,
            "broken",
            "the queue is encrypted with the AWS-managed key of SQS, whose policy cannot be changed",
        ),
        (encrypted, Some((key("Disabled"), owner.clone())), "broken", "is in the state Disabled"),
        (
            encrypted,
            Some((key("PendingDeletion"), sns_too.clone())),
            "broken",
            "is in the state PendingDeletion",
        ),
        (encrypted, Some((key("Enabled"), owner)), "broken", "does not let SNS use it"),
        (encrypted, Some((key("Enabled"), sns_too)), "works", "its policy and its key let SNS write"),
        (|cloud, _| cloud.unsubscribe(SUBSCRIPTION), None, "broken", "the subscription does not exist"),
        (
            |cloud, _| cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", ""),
            None,
            "broken",
            "does not name the letter's dead-letter queue",
        ),
        (
            |cloud, _| cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "email", "jo@example.com", DLQ),
            None,
            "cannotTell",
            "only SNS can deliver by the protocol \"email\"",
        ),
        (
            |cloud, _| {
                cloud.subscribe_endpoint(
                    SUBSCRIPTION,
                    TOPIC,
                    "https",
                    "https://hooks.example.com/S3CR3T",
                    DLQ,
                );
            },
            None,
            "cannotTell",
            "--probe sends it a HEAD request",
        ),
    ];
    for (breaks, keys, finding, says) in cases {
        let cloud = with(&[letter(1, SUBSCRIPTION, HOUR)]);
        let mut around = notifier();
        breaks(&cloud, &mut around);
        around.keys = keys;
        let ran = look(&cloud, around, &["--yes", "--json"]).await;
        assert!(!ran.out.contains("S3CR3T") && !ran.out.contains("jo@"), "{}", ran.out);
        let endpoint = &ran.json()["groups"][0]["endpoint"];
        assert_eq!(endpoint["finding"], finding, "{says}: {endpoint}");
        assert!(endpoint["says"].as_str().unwrap().contains(says), "{says}: {endpoint}");
    }
    for (functions, says) in [
        (BTreeMap::new(), "the function does not exist"),
        (
            BTreeMap::from([(NOTIFIER, json!({ "Statement": [] }))]),
            "the function's policy does not let SNS invoke it",
        ),
    ] {
        let cloud = with(&[letter(1, LAMBDA_SUBSCRIPTION, HOUR)]);
        let around = Around { functions, ..Around::default() };
        let endpoint =
            look(&cloud, around, &["--yes", "--json"]).await.json()["groups"][0]["endpoint"].clone();
        assert!(
            endpoint["finding"] == "broken" && endpoint["says"].as_str().unwrap().contains(says),
            "{endpoint}"
        );
    }
}

#[tokio::test]
async fn the_log_of_a_topic_says_why_and_one_that_is_off_can_be_switched_on() {
    let cloud = with(&[letter(1, SUBSCRIPTION, HOUR), letter(2, BILLING_SUBSCRIPTION, HOUR)]);
    let on = look(&cloud, Around { logs: true, ..notifier() }, &["--yes"]).await;
    assert!(on.out.contains("SNS logged KMS.DisabledException (403) x 1"), "{}", on.out);
    assert!(
        on.out.contains("no failure of this endpoint in the hour before the newest letter"),
        "{}",
        on.out
    );
    assert!(!on.out.contains("S3CR3T"));
    let off = look(&cloud, notifier(), &["--yes"]).await;
    let command = "aws sns set-topic-attributes --topic-arn arn:aws:sns:eu-central-1:123456789012:payments \
                   --attribute-name SQSFailureFeedbackRoleArn --attribute-value arn:aws:iam::123456789012:role/ROLE";
    assert!(off.out.contains(command), "{}", off.out);
}

#[tokio::test]
async fn what_may_not_be_seen_is_said_and_has_its_exit_code() {
    for (denied, call) in [
        ("GetSubscriptionAttributes", "sns:GetSubscriptionAttributes"),
        ("GetTopicAttributes", "sns:GetTopicAttributes"),
    ] {
        let cloud = with(&[letter(1, SUBSCRIPTION, HOUR)]);
        let ran = look(&cloud, Around { denied: Some(denied), ..notifier() }, &["--yes"]).await;
        assert_eq!(ran.code, 6, "{ran:?}");
        assert!(ran.out.contains(call), "{}", ran.out);
        assert_eq!(visible(&cloud).await, 1);
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

/// A folder for one test. Dropping it deletes it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redrivectl-look-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the parameters of a samconfig.toml, without those that are commented out.
fn parameters(samconfig: &str) -> BTreeMap<String, String> {
    let lines = samconfig.lines().filter_map(|line| line.strip_prefix("  \"")?.strip_suffix("\","));
    // A text of TOML is one of JSON too.
    let lines = lines.map(|line| serde_json::from_str::<String>(&format!("\"{line}\"")).unwrap());
    lines
        .map(|line| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap())
        .collect()
}

#[tokio::test]
async fn a_file_of_parameters_names_what_was_seen_and_nobody_types_an_arn() {
    let folder = Folder::new("sam");
    let mut letters = vec![letter(1, SUBSCRIPTION, HOUR), letter(2, LAMBDA_SUBSCRIPTION, HOUR), moved(3)];
    letters[0]["attributes"]["ApproximateReceiveCount"] = json!("1");
    let cloud = with(&letters);
    cloud.subscribe("arn:aws:sns:eu-central-1:123456789012:payments:audit", TOPIC, "sqs", WORKER);
    let file = folder.file("samconfig.toml");
    let ran = look(&cloud, notifier(), &["--yes", "--init", &file]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let written = std::fs::read_to_string(&file).unwrap();
    let expected = [
        ("ExistingDeadLetterQueueArn", DLQ.to_owned()),
        ("RedriveMode", "observe".to_owned()),
        ("TargetFunctionArns", NOTIFIER.to_owned()),
        ("TargetQueueArns", format!("{BILLING},{WORKER}")),
        ("TopicArns", TOPIC.to_owned()),
    ];
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(parameters(&written), expected, "{written}");
    for question in ["AlarmTopicArn", "PageTopicArn", "RequeueSenderArns", "NoticeTopicArn"] {
        assert!(written.contains(&format!("  # \"{question}=...\"")), "{written}");
    }
    let attach = format!("redrivectl attach --queue {DLQ} --topic {TOPIC}");
    assert!(ran.out.contains(&attach), "{}", ran.out);
    let deploy = format!("sam build && sam deploy --config-file {file}\n");
    assert!(
        ran.out.contains(&deploy) && ran.out.contains("set RedriveMode=active, and ScheduleFrom"),
        "{}",
        ran.out
    );
    let receives = cloud.calls("ReceiveMessage").len();
    let again = look(&cloud, notifier(), &["--yes", "--init", &file]).await;
    assert!(
        again.code == 2 && again.err.contains("exists: name another file"),
        "a file that exists stays: {again:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    assert_eq!(cloud.calls("ReceiveMessage").len(), receives, "each look counts");
}

/// Every parameter is one of the template's, in the form that the template takes.
#[tokio::test]
async fn the_template_knows_every_parameter() {
    let template = include_str!("../../../../template.yaml");
    let (folder, cloud) = (
        Folder::new("template"),
        with(&[letter(1, SUBSCRIPTION, HOUR), letter(2, LAMBDA_SUBSCRIPTION, HOUR)]),
    );
    cloud.subscribe_endpoint("arn:aws:sns:eu-central-1:123456789012:payments:raw", TOPIC, "sqs", WORKER, DLQ);
    cloud.resubscribe("arn:aws:sns:eu-central-1:123456789012:payments:raw", "RawMessageDelivery", "true");
    cloud.queue("payments-dlq", &[("KmsMasterKeyId", "k"), ("VisibilityTimeout", "30")]);
    let key = json!({ "KeyId": "k", "Arn": "arn:aws:kms:eu-central-1:123456789012:key/0a-1b" });
    let around = || Around { keys: Some((key.clone(), json!({}))), ..notifier() };
    let file = folder.file("parameters.json");
    let ran =
        look(&cloud, around(), &["--yes", "--init", &file, "--format", "cloudformation", "--json"]).await;
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let report = ran.json();
    let name = |it: &Value| it["ParameterKey"].as_str().unwrap().to_owned();
    let names: Vec<_> = written.as_array().unwrap().iter().map(name).collect();
    assert!(
        names.contains(&"KmsKeyArn".to_owned()) && names.contains(&"RedrivePolicy".to_owned()),
        "{names:?}"
    );
    let file = folder.file("samconfig.toml");
    look(&cloud, around(), &["--yes", "--init", &file]).await.text();
    let sam = std::fs::read_to_string(&file).unwrap();
    let questions =
        sam.lines().filter_map(|line| line.strip_prefix("  # \"")?.split_once('=').map(|it| it.0.to_owned()));
    let block = template.split_once("\nParameters:\n").unwrap().1;
    for name in names.into_iter().chain(questions) {
        assert!(
            block.contains(&format!("\n  {name}:\n")) || block.starts_with(&format!("  {name}:\n")),
            "{name}"
        );
    }
    let rule = written.as_array().unwrap().iter().find(|it| it["ParameterKey"] == "RedrivePolicy").unwrap();
    redrive_core::policy::Policy::parse(rule["ParameterValue"].as_str().unwrap()).unwrap();
    let next = report["setupFile"]["next"].as_array().unwrap();
    let raises = next[0]["command"].as_str().unwrap();
    assert!(
        raises.starts_with("aws sqs set-queue-attributes") && raises.ends_with("VisibilityTimeout=180"),
        "{next:#?}"
    );
    assert!(
        next[1]["command"]
            .as_str()
            .unwrap()
            .contains(&format!("--parameter-overrides file://{}", folder.file("parameters.json")))
    );
}

/// A raw subscription gets a rule, if it is the only one. Claims are believed only where no raw letter can make them.
#[tokio::test]
async fn raw_letters_get_a_rule_and_claims_a_question() {
    let raw = |number: usize| format!("arn:aws:sns:eu-central-1:123456789012:payments:raw-{number}");
    let mut claims = letter(1, SUBSCRIPTION, HOUR);
    let event = include_str!("../../../../events/lambda-async.json");
    let lambda: Value = serde_json::from_str(event).unwrap();
    claims["body"] = lambda["Records"][0]["body"].clone();
    claims["messageAttributes"] = lambda["Records"][0]["messageAttributes"].clone();
    for raws in 0..3 {
        let folder = Folder::new(&format!("raw-{raws}"));
        let cloud = with(&[claims.clone(), letter(2, SUBSCRIPTION, HOUR)]);
        for number in 0..raws {
            cloud.subscribe_endpoint(&raw(number), TOPIC, "sqs", WORKER, DLQ);
            cloud.resubscribe(&raw(number), "RawMessageDelivery", "true");
        }
        let file = folder.file("samconfig.toml");
        let ran = look(&cloud, notifier(), &["--yes", "--init", &file]).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        let found = parameters(&std::fs::read_to_string(&file).unwrap());
        let origins = found.get("LetterOrigins").map(String::as_str);
        assert_eq!(origins, (raws == 0).then_some("lambda-async"), "{found:?}");
        assert_eq!(
            ran.out.contains("letters claim to be of lambda-async, but a raw subscription"),
            raws > 0,
            "{}",
            ran.out
        );
        assert_eq!(ran.out.contains("2 raw subscriptions share the queue"), raws == 2, "{}", ran.out);
        let rule = found.get("RedrivePolicy").map(|rule| rule.contains(&raw(0)));
        assert_eq!(rule, (raws == 1).then_some(true), "{found:?}");
    }
}

/// Questions are asked at a terminal, and their answers are kept as they were typed.
#[tokio::test]
async fn what_only_a_person_knows_is_asked() {
    let (folder, cloud) = (Folder::new("asked"), with(&[letter(1, SUBSCRIPTION, HOUR)]));
    let file = folder.file("samconfig.toml");
    let alarms = "arn:aws:sns:eu-central-1:123456789012:Alarms";
    let senders = "arn:aws:iam::123456789012:role/operator,arn:aws:iam::123456789012:user/ada";
    let world = CommandWorld {
        config: Some(notifier().before(&cloud)),
        answers: true,
        input: "y\nAlarms\n\n\noperator, arn:aws:iam::123456789012:user/ada\n".into(),
        later: 200_000,
        ..CommandWorld::default()
    };
    let ran = redrivectl_in(world, &["look", "--queue", DLQ, "--init", &file]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(parameters(&written).get("AlarmTopicArn").map(String::as_str), Some(alarms), "{written}");
    assert_eq!(parameters(&written).get("RequeueSenderArns").map(String::as_str), Some(senders), "{written}");
    assert!(written.contains("# \"PageTopicArn=...\""), "{written}");
}

/// A web server gets one HEAD request, and none of a letter.
#[tokio::test]
async fn a_probe_asks_a_web_server_for_its_status_and_sends_nothing() {
    let closed = ClosedPort::new();
    let probe = async |url: &str, variable: Option<fn(&str) -> Option<String>>| {
        let cloud = with(&[letter(1, SUBSCRIPTION, HOUR), letter(2, SUBSCRIPTION, HOUR)]);
        cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "http", &format!("{url}/S3CR3T"), DLQ);
        let config = Some(notifier().before(&cloud));
        let world = CommandWorld { config, variable, later: 200_000, ..CommandWorld::default() };
        let ran = redrivectl_in(world, &["look", "--queue", DLQ, "--yes", "--json", "--probe"]).await;
        assert!(!ran.out.contains("S3CR3T"), "{}", ran.out);
        ran.json()["groups"][0]["endpoint"].clone()
    };
    let loopback = |name: &str| (name == "ALLOW_LOOPBACK_HTTP").then(|| "true".to_owned());
    for (status, finding) in [(200, "works"), (405, "works"), (503, "broken")] {
        let server = TestWebServer::answering(status);
        let endpoint = probe(&server.url(), Some(loopback)).await;
        assert_eq!(endpoint["finding"], finding, "{status}: {endpoint}");
        assert!(endpoint["says"].as_str().unwrap().contains(&status.to_string()), "{endpoint}");
        let seen = server.seen();
        assert!(seen.len() == 1 && seen[0].body.is_empty(), "{seen:?}");
    }
    let endpoint = probe(&closed.url(), Some(loopback)).await;
    assert_eq!(endpoint["says"], "the web server does not answer a HEAD request (Unreachable)");
    let endpoint = probe(&closed.url(), None).await;
    assert_eq!(endpoint["finding"], "cannotTell", "SNS reaches public addresses only: {endpoint}");
}

/// A policy may let SNS in for one topic and not for another.
#[tokio::test]
async fn two_topics_of_one_endpoint_have_a_cause_each() {
    let other = "arn:aws:sns:eu-central-1:123456789012:refunds";
    let subscription = "arn:aws:sns:eu-central-1:123456789012:refunds:1";
    let mut of_other = letter(1, subscription, HOUR);
    of_other["body"] = json!(of_other["body"].as_str().unwrap().replace(":payments\"", ":refunds\""));
    let cloud = with(&[of_other, letter(2, SUBSCRIPTION, HOUR), letter(3, SUBSCRIPTION, HOUR)]);
    cloud.topic("refunds", 262_144);
    cloud.subscribe_endpoint(subscription, other, "sqs", WORKER, DLQ);
    let report = look(&cloud, notifier(), &["--yes", "--json"]).await.json();
    let findings: Vec<_> =
        report["groups"].as_array().unwrap().iter().map(|it| &it["endpoint"]["finding"]).collect();
    assert_eq!(findings, ["works", "broken"], "{report:#}");
}

/// Who attaches later needs the same grants; a policy needs those of its rules.
#[tokio::test]
async fn grants_are_for_what_will_be_attached_and_for_what_rules_name() {
    let (folder, cloud) = (Folder::new("grants"), with(&[letter(1, SUBSCRIPTION, HOUR)]));
    let fifo = "arn:aws:sqs:eu-central-1:123456789012:audit";
    cloud.subscribe("arn:aws:sns:eu-central-1:123456789012:payments:audit", TOPIC, "sqs", fifo);
    let file = folder.file("samconfig.toml");
    let rules = json!({ "default": { "subscription": "discover" },
                        "rules": [{ "name": "a \"b\" \\ c", "match": { "subject": ["x"] }, "target": "topic" },
                                  { "name": "to", "match": { "subject": ["y"] }, "target": NOTIFIER }] });
    let policy = TextFile::of("rules.json", &rules.to_string());
    look(&cloud, notifier(), &["--yes", "--init", &file, "--policy", policy.path()]).await.text();
    let found = parameters(&std::fs::read_to_string(&file).unwrap());
    let value = |name: &str| found.get(name).map(String::as_str);
    assert_eq!(value("TargetQueueArns"), Some(&*format!("{fifo},{BILLING},{WORKER}")));
    assert_eq!((value("TargetTopicArns"), value("TargetFunctionArns")), (Some(TOPIC), Some(NOTIFIER)));
    assert_eq!(value("DiscoverSubscription"), Some("true"));
    // As the SAM CLI reads it: it removes the backslash before a quotation mark, and no other.
    let written = value("RedrivePolicy").unwrap();
    let read = written.strip_prefix('"').unwrap().strip_suffix('"').unwrap().replace("\\\"", "\"");
    assert_eq!(serde_json::from_str::<Value>(&read).unwrap(), rules, "{written}");
}

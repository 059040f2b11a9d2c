//! A policy in S3: read at the first event, and kept; without it nothing is touched.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_aws::clock::InstanceClock;
use redrive_aws::log::{LogFormat, subscriber};
use redrive_aws::settings::Settings;
use redrive_support::{REQUEUE, RecordBuilder, SimFault, TestAccount, TestLog, event};
use serde_json::{Value, json};
use sns_redrive::load_function::FunctionLoader;
use tracing::level_filters::LevelFilter;

const OBJECT: &str = "policies/payments.json";

/// A function whose policy is in S3, with its log.
struct LoadedWorld {
    cloud: TestAccount,
    function: FunctionLoader,
    log: TestLog,
}

impl LoadedWorld {
    /// Creates the function. The object may not exist.
    fn new(policy: Option<&str>) -> Self {
        let cloud = TestAccount::new();
        cloud.aws.act("test", |it, _| it.s3.create("policies"));
        if let Some(policy) = policy {
            cloud.put(OBJECT, policy);
        }
        let variable = |name: &str| match name {
            "ARCHIVE" => Some("s3://my-bucket/dead-letters".to_owned()),
            "CONTROL" => Some("off".to_owned()),
            "REQUEUE_ARN" => Some(REQUEUE.to_owned()),
            "REDRIVE_POLICY_URI" => Some(format!("s3://{OBJECT}")),
            _ => None,
        };
        let (settings, clients) = (Settings::read(variable).unwrap(), cloud.clients());
        let function = FunctionLoader::new(settings, clients, InstanceClock::system(), Arc::new(|_| {}));
        Self { cloud, function, log: TestLog::default() }
    }

    /// Hands one letter to the function, and returns its answer or its error.
    async fn run(&self) -> Result<Value, String> {
        let writer = self.log.clone();
        let lines = subscriber(LogFormat::Json, LevelFilter::INFO, move || writer.clone());
        let guard = tracing::subscriber::set_default(lines);
        let records = event([&RecordBuilder::envelope("a")]);
        self.cloud.place(&records);
        let deadline = InstanceClock::system().now().as_millisecond() + 30_000;
        let deadline = u64::try_from(deadline).unwrap();
        let answer = self.function.answer(serde_json::from_value(records).unwrap(), "req-1", deadline).await;
        drop(guard);
        answer.map(|answer| serde_json::to_value(answer).unwrap()).map_err(|error| error.to_string())
    }

    fn lines(&self, message: &str) -> Vec<Value> {
        let lines = self.log.text();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["message"] == message).collect()
    }

    /// Returns the operations of all calls but that for the policy.
    fn other_calls(&self) -> Vec<String> {
        let calls = self.cloud.journal().into_iter().filter(|call| call.operation != "GetObject");
        calls.map(|call| call.operation).collect()
    }
}

#[tokio::test]
async fn a_policy_beyond_what_variables_hold_is_read_at_the_first_event_and_kept() {
    let rules: Vec<_> = (0..200)
        .map(|number| json!({ "name": format!("rule-{number}"), "match": { "subject": [format!("s-{number}")] } }))
        .collect();
    let policy = json!({ "default": { "action": "archive" }, "rules": rules }).to_string();
    assert!(policy.len() > 4_096);
    let world = LoadedWorld::new(Some(&policy));
    assert_eq!(world.cloud.journal(), [], "nothing is read before the first event");
    for _ in 0..3 {
        assert_eq!(world.run().await, Ok(json!({ "batchItemFailures": [] })));
    }
    assert_eq!(world.cloud.calls("GetObject").len(), 1);
    let archived = world.lines("letter archived: rule");
    assert_eq!((archived.len(), &archived[0]["rule"]), (3, &json!("default")));
    let read = world.lines("policy read");
    let digest = redrive_aws::policy_object::digest(policy.as_bytes());
    assert_eq!(
        (&read[0]["policy.uri"], &read[0]["policy.digest"], &read[0]["request_id"], read.len()),
        (&json!(format!("s3://{OBJECT}")), &json!(digest), &json!("req-1"), 1)
    );
}

#[tokio::test]
async fn without_its_policy_the_function_touches_nothing_and_reads_again_at_the_next_event() {
    let world = LoadedWorld::new(None);
    for _ in 0..2 {
        let error = world.run().await.unwrap_err();
        assert!(
            error.starts_with(
                "cannot read the redrive policy s3://policies/payments.json: s3:GetObject failed (NoSuchKey"
            ),
            "{error}"
        );
    }
    assert_eq!(world.other_calls(), [] as [&str; 0]);
    let unread = world.lines("policy not read");
    assert_eq!(
        (unread.len(), &unread[0]["level"], &unread[0]["setting"]),
        (2, &json!("ERROR"), &json!("REDRIVE_POLICY_URI"))
    );
    world.cloud.put(OBJECT, r#"{"default": {"action": "archive"}}"#);
    assert_eq!(world.run().await, Ok(json!({ "batchItemFailures": [] })));
}

#[tokio::test]
async fn a_policy_that_is_wrong_is_named_with_its_faults_and_nothing_is_touched() {
    let to_requeue = json!({ "default": { "target": REQUEUE } }).to_string();
    for (policy, says) in [
        ("", "the redrive policy s3://policies/payments.json is wrong: "),
        (r#"{"rulse": []}"#, "rulse"),
        (&to_requeue, "REQUEUE_ARN: must not be the target of rule"),
    ] {
        let world = LoadedWorld::new(Some(policy));
        let error = world.run().await.unwrap_err();
        assert!(error.contains(says), "{policy}: {error}");
        assert_eq!(world.other_calls(), [] as [&str; 0], "{policy}");
    }
}

#[tokio::test]
async fn a_refusal_of_s3_is_told_and_the_next_event_reads_again() {
    let world = LoadedWorld::new(Some(r#"{"default": {"action": "archive"}}"#));
    let denied = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&denied);
    world.cloud.script(move |call| {
        let is_first = call.operation == "GetObject" && count.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first { SimFault::Denied } else { SimFault::Pass }
    });
    let error = world.run().await.unwrap_err();
    assert!(error.contains("s3:GetObject failed (AccessDenied"), "{error}");
    assert_eq!(world.other_calls(), [] as [&str; 0]);
    assert!(world.run().await.is_ok());
}

/// An object that is longer than any policy is not read to its end.
#[tokio::test]
async fn an_object_that_is_too_long_is_refused() {
    let long = format!("{{}}{}", " ".repeat(redrive_aws::policy_object::MAX_POLICY_BYTES));
    let error = LoadedWorld::new(Some(&long)).run().await.unwrap_err();
    assert!(error.contains("it must be at most 1048576 bytes long"), "{error}");
}

//! Tests of the function in a process as Lambda starts it.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use redrive_aws::clock::InstanceClock;
use redrive_support::{
    BILLING_SUBSCRIPTION, DLQ, EntryFault, LAMBDA_SUBSCRIPTION, OTHER_SUBSCRIPTION, PROJECTOR, STREAM,
    SimCall, SimFault, TOPIC, TestAccount, event,
};

use super::*;

/// The trace of the invocation, which Lambda sends with the event, with its count of passes.
const OWN: &str = "Root=1-6a1b2c3d-0123456789abcdef01234567;Sampled=1;Lineage=1:fc3b4ff1:15";

/// The trace of a letter.
const LETTERS: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

/// Returns an account with the machine's clock and a subscription for each kind of endpoint.
fn account() -> TestAccount {
    let account = TestAccount::with_clock(redrive_sim::SimClock::real());
    account.unsubscribe(BILLING_SUBSCRIPTION);
    account.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "firehose", STREAM, DLQ);
    account.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => {
            let again = EntryFault::service("InternalError", "Please try again.");
            SimFault::except(call, "message of refused", again)
        }
        _ => SimFault::Pass,
    });
    account
}

/// Starts Lambda's runtime API with one event.
fn lambda(event: &str) -> TestWebServer {
    let deadline = InstanceClock::system().now().as_millisecond() + 60_000;
    let event = WebAnswer { body: event.to_owned(), ..WebAnswer::status(200) }
        .with("lambda-runtime-aws-request-id", "00000000-0000-4000-8000-000000000001")
        .with("lambda-runtime-deadline-ms", &deadline.to_string())
        .with("lambda-runtime-invoked-function-arn", PROJECTOR)
        .with("lambda-runtime-trace-id", OWN);
    TestWebServer::scripted(move |number, request| match number {
        _ if !request.parameters["path"].ends_with("/invocation/next") => WebAnswer::status(202),
        0 => event.clone(),
        _ => WebAnswer::fault(SimFault::HangAfter),
    })
}

/// The function's process, which ends with the test.
struct LambdaProcess(Child);

impl Drop for LambdaProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns every call of one invocation.
fn calls(policy: &serde_json::Value, posts: &[RecordBuilder]) -> Vec<SimCall> {
    let account = account();
    let web = account.listen_web("shop.example.com");
    account.subscribe_endpoint(
        BILLING_SUBSCRIPTION,
        TOPIC,
        "http",
        &format!("http://{}/web", web.address()),
        DLQ,
    );
    let aws = account.listen();
    let event = event(posts);
    account.place(&event);
    let server = lambda(&event.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_sns-redrive"));
    command
        .env_clear()
        .env("AWS_LAMBDA_RUNTIME_API", server.address())
        .env("AWS_LAMBDA_FUNCTION_NAME", "sns-redrive")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
        .env("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/sns-redrive")
        .env("AWS_LAMBDA_LOG_STREAM_NAME", "stream")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_ENDPOINT_URL", aws.url())
        .env("ARCHIVE", "s3://my-bucket/dead-letters")
        .env("CONTROL", "off")
        .env("REDRIVE_POLICY", policy.to_string())
        .env("ALLOW_LOOPBACK_HTTP", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let _process = LambdaProcess(command.spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(30);
    let ended = |path: &str| path.ends_with("/response") || path.ends_with("/error");
    while !server.seen().iter().any(|request| ended(&request.parameters["path"])) {
        assert!(Instant::now() < until, "{:?}", server.seen());
        std::thread::sleep(Duration::from_millis(10));
    }
    account.journal()
}

/// The SDK adds the function's own trace to every call if Lambda's environment has one. Lambda would then
/// count everything that the function sends to a subscriber as a pass of one loop.
#[test]
fn what_is_sent_for_a_letter_carries_its_own_trace_or_none() {
    let to = |messages: &[&str], target: &str| {
        let messages: Vec<_> = messages.iter().map(|id| format!("message of {id}")).collect();
        json!({ "name": target.rsplit(':').next(), "match": { "message": messages }, "target": target })
    };
    let far = TOPIC.replace("eu-central-1", "eu-west-1");
    let policy = json!({
        "default": {
            "subscription": "discover",
            "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 3, "numNoDelayRetries": 1 } },
        },
        "rules": [
            to(&["traced", "untraced"], "topic"),
            to(&["far"], &far),
            { "name": "plain", "match": { "message": { "plain": [true] } }, "target": PROJECTOR },
            { "name": "archived", "match": { "message": ["message of archived"] }, "action": "archive" },
        ],
    });
    let now = InstanceClock::system().now().as_millisecond();
    let posts = [
        RecordBuilder::envelope("queue"),
        RecordBuilder::envelope("refused"),
        RecordBuilder::envelope("archived"),
        RecordBuilder::envelope("function").subscription(LAMBDA_SUBSCRIPTION),
        RecordBuilder::envelope("stream").subscription(OTHER_SUBSCRIPTION),
        RecordBuilder::envelope("web").subscription(BILLING_SUBSCRIPTION),
        RecordBuilder::raw("plain", r#"{"plain":true}"#),
        RecordBuilder::raw("raw", "discovered"),
        RecordBuilder::envelope("traced"),
        RecordBuilder::envelope("far"),
    ];
    let mut posts = posts.map(|post| post.system("AWSTraceHeader", LETTERS)).to_vec();
    posts.push(RecordBuilder::envelope("untraced"));
    posts.push(RecordBuilder::envelope("untraced-queue"));
    let posts: Vec<_> = posts.into_iter().map(|post| post.sent(now)).collect();

    let mut made = BTreeSet::new();
    for call in calls(&policy, &posts) {
        let trace = call.parameter("trace").unwrap_or_default().to_owned();
        let what = call.parameter("type").unwrap_or_default().to_owned();
        let ids = call.entries.iter().filter_map(|entry| entry.body.split("message of ").nth(1));
        let ids = ids.map(|rest| rest.split('"').next().unwrap().to_owned());
        let what = if call.operation == "PublishBatch" { ids.collect::<Vec<_>>().concat() } else { what };
        for entry in call.entries.iter().filter(|_| call.operation == "SendMessageBatch") {
            let untraced = entry.body.contains("untraced");
            assert_eq!(entry.trace.as_deref(), (!untraced).then_some(LETTERS), "{}", entry.body);
        }
        made.insert((call.operation, what, trace));
    }
    let expected = [
        ("ChangeMessageVisibilityBatch", "", ""),
        ("GetQueueAttributes", "", ""),
        ("GetSubscriptionAttributes", "", ""),
        ("Invoke", "Event", ""),
        ("Invoke", "RequestResponse", ""),
        ("ListSubscriptions", "", ""),
        ("POST", "", ""),
        ("PublishBatch", "far", LETTERS),
        ("PublishBatch", "traced", LETTERS),
        ("PublishBatch", "untraced", ""),
        ("PutObject", "", ""),
        ("PutRecordBatch", "", ""),
        ("SendMessageBatch", "", ""),
    ];
    let owned = |(op, what, trace): (&str, &str, &str)| (op.to_owned(), what.to_owned(), trace.to_owned());
    assert_eq!(made, expected.map(owned).into());
}

//! The function in a process such as Lambda starts it.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use sns_redrive::clock::Clock;

use super::*;
use support::protocol::{
    self, Call, EntryFate, Response, batch_answer, function_answer, response, sns_answer, subscription_answer,
};
use support::{
    BILLING_SUBSCRIPTION, DLQ, LAMBDA_SUBSCRIPTION, NOTIFIER, OTHER_SUBSCRIPTION, PROJECTOR, STREAM, TOPIC,
    event, wire,
};

const RUNTIME: &str = "/2018-06-01/runtime/";

/// The trace of the invocation, which Lambda names beside the event, with its count of passes.
const OWN: &str = "Root=1-6a1b2c3d-0123456789abcdef01234567;Sampled=1;Lineage=1:fc3b4ff1:15";

/// The trace of a letter.
const LETTERS: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

/// Protocol and endpoint of a subscription.
fn endpoint(subscription: &str, web: &str) -> Option<(&'static str, String)> {
    match subscription {
        SUBSCRIPTION => Some(("sqs", WORKER.to_owned())),
        LAMBDA_SUBSCRIPTION => Some(("lambda", NOTIFIER.to_owned())),
        OTHER_SUBSCRIPTION => Some(("firehose", STREAM.to_owned())),
        BILLING_SUBSCRIPTION => Some(("http", format!("{web}/web"))),
        _ => None,
    }
}

fn read(request: &Request) -> Option<Call> {
    let mut line = request.line.split(' ');
    let (method, path) = (line.next().unwrap(), line.next().unwrap());
    let uri = format!("http://{}{path}", request.headers["host"]);
    let header = |name: &str| request.headers.get(name).cloned();
    let aws = !path.starts_with(RUNTIME) && path != "/web";
    aws.then(|| protocol::read(method, &uri, header, request.body.as_bytes()))
}

/// AWS takes everything but the letter `refused`.
fn aws(call: &Call, web: &str) -> Response {
    let refused = call.entries_with("message of refused");
    let disposition = |index| {
        refused.contains(&index).then_some(EntryFate::Failed("InternalError", "Please try again.", false))
    };
    let all: Vec<_> = (0..call.entries.len()).map(|index| (index, disposition(index))).collect();
    match call.op.as_str() {
        "GetQueueAttributes" => response(200, json!({ "Attributes": {} }).to_string()),
        "GetSubscriptionAttributes" => {
            let (protocol, endpoint) = endpoint(&call.to, web).unwrap();
            let attributes = [
                ("TopicArn", TOPIC.to_owned()),
                ("Protocol", protocol.to_owned()),
                ("Endpoint", endpoint),
                ("RedrivePolicy", json!({ "deadLetterTargetArn": DLQ }).to_string()),
            ];
            let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
            response(200, subscription_answer(&attributes.collect()))
        }
        "ListSubscriptions" => {
            let one = ["<Subscriptions><member><SubscriptionArn>", SUBSCRIPTION, "</SubscriptionArn>"];
            let list = one.concat() + "</member></Subscriptions>";
            response(200, sns_answer(&call.op, &list))
        }
        "Invoke" => function_answer(call, None),
        "PutObject" => response(200, String::new()),
        _ => response(200, batch_answer(&call.op, &all)),
    }
}

/// The text of an answer.
fn bytes(answer: &Response) -> Answer {
    let mut bytes = Vec::new();
    wire::write(&mut bytes, answer).unwrap();
    Answer::Bytes(String::from_utf8(bytes).unwrap())
}

/// Lambda's runtime API with one event, and AWS.
fn lambda_and_aws(event: String) -> Server {
    let deadline = Clock::system().now().as_millisecond() + 60_000;
    let event = response(200, event)
        .with("lambda-runtime-aws-request-id", "00000000-0000-4000-8000-000000000001")
        .with("lambda-runtime-deadline-ms", &deadline.to_string())
        .with("lambda-runtime-invoked-function-arn", PROJECTOR)
        .with("lambda-runtime-trace-id", OWN);
    let event = Mutex::new(Some(event));
    Server::asked(move |request| {
        let web = format!("http://{}", request.headers["host"]);
        match read(request) {
            Some(call) => bytes(&aws(&call, &web)),
            None if request.line.contains("/invocation/next") => {
                event.lock().unwrap().take().map_or(Answer::Silence, |event| bytes(&event))
            }
            None => Answer::Status(202),
        }
    })
}

/// The process, which ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every request of one invocation but those to the runtime API.
fn requests(policy: &serde_json::Value, posts: &[Post]) -> Vec<Request> {
    let server = lambda_and_aws(event(posts).to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_sns-redrive"));
    command
        .env_clear()
        .env("AWS_LAMBDA_RUNTIME_API", server.url().strip_prefix("http://").unwrap())
        .env("AWS_LAMBDA_FUNCTION_NAME", "sns-redrive")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
        .env("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/sns-redrive")
        .env("AWS_LAMBDA_LOG_STREAM_NAME", "stream")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_ENDPOINT_URL", server.url())
        .env("ARCHIVE", "s3://graveyard/dead-letters")
        .env("CONTROL", "off")
        .env("REDRIVE_POLICY", policy.to_string())
        .env("ALLOW_LOOPBACK_HTTP", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let _process = Process(command.spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(30);
    let ended = |line: &str| line.contains("/response ") || line.contains("/error ");
    while !server.seen().iter().any(|request| ended(&request.line)) {
        assert!(Instant::now() < until, "{:?}", server.seen());
        std::thread::sleep(Duration::from_millis(10));
    }
    server.seen().into_iter().filter(|request| !request.line.contains(RUNTIME)).collect()
}

/// The SDK adds the function's own trace to every call where Lambda's environment has one. By it Lambda
/// would count what the function sends to a subscriber as a pass of one loop.
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
    let now = Clock::system().now().as_millisecond();
    let posts = [
        Post::envelope("queue"),
        Post::envelope("refused"),
        Post::envelope("archived"),
        Post::envelope("function").subscription(LAMBDA_SUBSCRIPTION),
        Post::envelope("stream").subscription(OTHER_SUBSCRIPTION),
        Post::envelope("web").subscription(BILLING_SUBSCRIPTION),
        Post::raw("plain", r#"{"plain":true}"#),
        Post::raw("raw", "discovered"),
        Post::envelope("traced"),
        Post::envelope("far"),
    ];
    let mut posts = posts.map(|post| post.system("AWSTraceHeader", LETTERS)).to_vec();
    posts.push(Post::envelope("untraced"));
    posts.push(Post::envelope("untraced-queue"));
    let posts: Vec<_> = posts.into_iter().map(|post| post.sent(now)).collect();

    let mut calls = BTreeSet::new();
    for request in requests(&policy, &posts) {
        let trace = request.headers.get("x-amzn-trace-id").cloned().unwrap_or_default();
        let Some(call) = read(&request) else {
            calls.insert(("POST".to_owned(), String::new(), trace));
            continue;
        };
        let what = call.headers.get("x-amz-invocation-type").cloned().unwrap_or_default();
        let ids = call.entries.iter().filter_map(|entry| entry.body.split("message of ").nth(1));
        let ids = ids.map(|rest| rest.split('"').next().unwrap().to_owned());
        let what = if call.op == "PublishBatch" { ids.collect::<Vec<_>>().concat() } else { what };
        for entry in call.entries.iter().filter(|_| call.op == "SendMessageBatch") {
            let untraced = entry.body.contains("untraced");
            assert_eq!(entry.trace_header.as_deref(), (!untraced).then_some(LETTERS), "{}", entry.body);
        }
        calls.insert((call.op, what, trace));
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
    assert_eq!(calls, expected.map(owned).into());
}

//! Each limit of Lambda with the page that it comes from, and the life of an asynchronous event.

use std::sync::Mutex;

use super::*;
use crate::sqs::{QueueSettings, ReceiveRequest, ReceivedSqsMessage};
use crate::{Caller, FaultHook, SimAws, SimClock, SimEvent, SimFault, SimRecord, WireRequest, WireResponse};

const QUEUE: &str = "dlq";

fn aws() -> SimAws {
    let aws = SimAws::new(SimClock::manual("2026-11-01T12:00:00Z".parse().unwrap()), 7);
    aws.act("test", |it, _| it.sqs.create(QUEUE, QueueSettings::default()));
    aws
}

fn pass(aws: &SimAws, seconds: u64) {
    aws.clock().pass(Duration::from_secs(seconds));
}

fn received(aws: &SimAws, queue: &str) -> Vec<ReceivedSqsMessage> {
    let receive = ReceiveRequest { at_most: 10, ..ReceiveRequest::default() };
    aws.act("test", |it, cx| it.sqs.receive_message(cx, queue, receive)).unwrap()
}

fn left(aws: &SimAws, queue: &str) -> usize {
    aws.act("test", |it, _| it.sqs.queue(queue).unwrap().len())
}

fn invoke(aws: &SimAws, kind: &str, body: impl Into<Vec<u8>>) -> WireResponse {
    let request = WireRequest {
        method: "POST".to_owned(),
        uri: "https://lambda.eu-central-1.amazonaws.com/2015-03-31/functions/notifier/invocations".to_owned(),
        headers: vec![("x-amz-invocation-type".to_owned(), kind.to_owned())],
        body: body.into(),
    };
    aws.answer(&Caller::new("test"), &request)
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html>
#[test]
fn an_asynchronous_event_is_tried_three_times_then_goes_to_queue_and_destination() {
    let aws = aws();
    let queues = ["letters", "failures"];
    let runs: Arc<Mutex<Vec<i64>>> = Arc::default();
    let (at, clock) = (Arc::clone(&runs), aws.clock().clone());
    let settings = FunctionSettings {
        dead_letters: Some("letters".to_owned()),
        on_failure: Some("failures".to_owned()),
        ..FunctionSettings::default()
    };
    let start = aws.clock().millis();
    aws.act("test", |it, _| {
        for name in queues {
            it.sqs.create(name, QueueSettings::default());
        }
        it.lambda.create("notifier", settings, move |_| {
            at.lock().unwrap().push((clock.millis() - start) / 1000);
            SimInvocationResult::failed("Error", &"x".repeat(2_000))
        });
    });
    assert_eq!(invoke(&aws, "Event", "{\"a\":1}").status, 202);
    for _ in 0..400 {
        pass(&aws, 1);
        aws.advance();
    }
    assert_eq!(*runs.lock().unwrap(), [0, 60, 180]);
    let letter = received(&aws, "letters").remove(0).payload;
    assert_eq!(letter.body, "{\"a\":1}");
    let attribute = |name: &str| (letter.attributes[name].kind.clone(), letter.attributes[name].value.text());
    assert_eq!(attribute("ErrorCode"), ("Number".to_owned(), "200".to_owned()));
    assert_eq!(attribute("ErrorMessage").1.len(), 1024);
    let record: serde_json::Value =
        serde_json::from_str(&received(&aws, "failures").remove(0).payload.body).unwrap();
    assert_eq!(record["requestContext"]["condition"], "RetriesExhausted");
    assert_eq!(record["requestContext"]["approximateInvokeCount"], 3);
    assert_eq!(record["requestPayload"]["a"], 1);
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html>
#[test]
fn a_throttled_asynchronous_event_ends_by_its_age() {
    let aws = aws();
    let settings = FunctionSettings { on_failure: Some(QUEUE.to_owned()), ..FunctionSettings::default() };
    aws.act("test", |it, _| it.lambda.create("notifier", settings, |_| SimInvocationResult::ok("null")));
    aws.set_faults(FaultHook::new(|_| SimFault::Throttle));
    invoke(&aws, "Event", "{}");
    for _ in 0..360 {
        assert_eq!(left(&aws, QUEUE), 0);
        pass(&aws, 60);
        if left(&aws, QUEUE) == 1 {
            break;
        }
    }
    assert!(received(&aws, QUEUE).remove(0).payload.body.contains("EventAgeExceeded"));
    let ran = |it: &SimRecord| matches!(it.event, SimEvent::Invoked { .. });
    assert!(!aws.journal(|records| records.iter().any(ran)));
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
#[test]
fn requests_have_limits() {
    let aws = aws();
    assert_eq!(invoke(&aws, "Event", "{}").status, 404);
    aws.act("test", |it, _| {
        it.lambda.create("notifier", FunctionSettings::default(), |_| SimInvocationResult::ok("7"));
    });
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    assert_eq!(invoke(&aws, "Event", text(MAX_ASYNC_BYTES)).status, 202);
    assert_eq!(invoke(&aws, "Event", text(MAX_ASYNC_BYTES + 1)).status, 413);
    assert_eq!(invoke(&aws, "RequestResponse", text(MAX_BYTES + 1)).status, 413);
    assert_eq!(invoke(&aws, "RequestResponse", "{}").body, b"7");
    assert_eq!(invoke(&aws, "RequestResponse", "{").status, 400);
    assert_eq!(invoke(&aws, "DryRun", "{}").status, 204);
}

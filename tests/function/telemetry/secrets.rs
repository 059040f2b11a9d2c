//! Secrets are in no log and in no metric, at no level, whatever fails.

use super::*;

/// The secret text in bodies, values, receipt handles and links.
const SECRET: &str = "S3CR3T";

fn mixed() -> Vec<RecordBuilder> {
    let binary = "UzNDUjNU";
    let sns = json!({
        "Type": "Notification", "MessageId": "id", "TopicArn": TOPIC, "Subject": SECRET, "Message": SECRET,
        "Timestamp": "2026-11-01T11:59:58.351Z", "UnsubscribeUrl": format!("https://x/?{SECRET}"),
        "MessageAttributes": { "a": { "Type": "String", "Value": SECRET } },
    });
    let lambda = json!({ "Records": [{
        "EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": LAMBDA_SUBSCRIPTION, "Sns": sns,
    }] });
    let destination = json!({
        "requestContext": {
            "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f", "condition": "RetriesExhausted",
        },
        "requestPayload": lambda,
        "responsePayload": { "errorMessage": SECRET, "stackTrace": [SECRET] },
    });
    let envelope = |id: &str| {
        RecordBuilder::envelope(id)
            .message(&format!("{SECRET} of {id}"))
            .subject(SECRET)
            .subscription(&format!("{SUBSCRIPTION}&Token={SECRET}"))
            .sns_attribute("tenant", "String", SECRET)
            .sns_attribute("checksum", "Binary", binary)
    };
    let rule = "arn:aws:events:eu-central-1:123456789012:rule/r";
    let mut posts = vec![
        envelope("sns"),
        envelope("early").mark(&mark(3, "early", NOW)),
        envelope("exhausted").mark(&mark(12, "exhausted", NOW)),
        envelope("bad-mark").sqs_mark(&json!({ "v": 2, "id": [SECRET], "spent": SECRET })),
        envelope("moved").moved_from(BILLING),
        envelope("other").subscription(BILLING_SUBSCRIPTION),
        RecordBuilder::raw("raw", SECRET).attribute("a", "String", SECRET).attribute("b", "Binary", binary),
        RecordBuilder::raw("async", &lambda.to_string())
            .attribute("RequestID", "String", SECRET)
            .attribute("ErrorCode", "Number", "200")
            .attribute("ErrorMessage", "String", SECRET),
        RecordBuilder::raw("destination", &destination.to_string()),
        RecordBuilder::raw("eventbridge", SECRET)
            .attribute("RULE_ARN", "String", rule)
            .attribute("TARGET_ARN", "String", "arn:aws:lambda:eu-central-1:123456789012:function:f")
            .attribute("ERROR_MESSAGE", "String", SECRET),
        RecordBuilder::raw("broken", &format!(r#"{{"Type":"Notification","Message":"{SECRET}"#)),
        (0..10).fold(RecordBuilder::raw("full", "x"), |post, n| {
            post.attribute(&format!("a{n}"), "String", SECRET)
        }),
    ];
    for post in &mut posts {
        *post = post.clone().system("AWSTraceHeader", SECRET);
    }
    posts
}

/// Returns the event with the secret in every receipt handle.
fn secret_event(posts: &[RecordBuilder]) -> Value {
    let mut event = event(posts);
    for record in event["Records"].as_array_mut().unwrap() {
        record["receiptHandle"] = json!(format!("{SECRET}{}", record["messageId"]));
    }
    event
}

fn assert_quiet(ran: &TestInvocation, what: &str) {
    for told in [&ran.text, &ran.metrics] {
        for secret in [SECRET, "UzNDUjNU", "Unsubscribe", "Token="] {
            assert!(!told.contains(secret), "{secret} is in the log of {what}: {told}");
        }
    }
    assert!(ran.letters().len() > 1);
}

const QUOTES: &str = "Value S3CR3T for parameter ReceiptHandle is invalid";

#[tokio::test]
async fn are_in_no_log_line_and_in_no_metric_whatever_happens() {
    let policies = [
        json!({ "default": { "subscription": SUBSCRIPTION } }),
        json!({ "default": { "target": "topic" } }),
        json!({
            "default": { "target": BILLING },
            "rules": [{ "name": "r", "match": { "message": [{ "prefix": "S3" }] }, "action": "hold" }],
        }),
    ]
    .map(|policy| policy.to_string());
    let each = |code| SimFault::Entries((0..10).map(|n| (n, EntryFault::sender(code, QUOTES))).collect());
    for reply in [
        SimFault::Pass,
        SimFault::refuse(400, "InvalidParameterValue", QUOTES),
        SimFault::refuse(400, "ReceiptHandleIsInvalid", QUOTES),
        SimFault::refuse(400, "SomethingNew", QUOTES),
        SimFault::refuse(400, "Throttling", QUOTES),
        SimFault::refuse(500, "InternalError", QUOTES),
        SimFault::Nonsense(200, QUOTES.to_owned()),
        SimFault::Nonsense(500, QUOTES.to_owned()),
        SimFault::ResetBefore,
        SimFault::ConnectTimeout,
        each("ReceiptHandleIsInvalid"),
        each("InvalidMessageContents"),
        each("SomethingNew"),
    ] {
        for policy in &policies {
            // Queues and subscriptions answer; otherwise nothing would be sent that could fail.
            let settings = [("REDRIVE_POLICY", policy.as_str())];
            assert_quiet(&run(&settings, |op| !op.starts_with("Get"), &reply).await, "sending");
        }
        assert_quiet(&run(&[], |op| op.starts_with("Get"), &reply).await, "looking up");
    }
    for policy in &policies {
        let settings = [("REDRIVE_POLICY", policy.as_str()), ("REDRIVE_MODE", "observe")];
        assert_quiet(&run(&settings, |_| true, &SimFault::Pass).await, "observing");
    }
}

/// Runs the function with this reply for these operations.
async fn run(settings: &[(&str, &str)], fails: fn(&str) -> bool, reply: &SimFault) -> TestInvocation {
    let world = FunctionWorld::new(settings).log_level(LevelFilter::TRACE);
    let reply = reply.clone();
    world.cloud.script(move |call| if fails(&call.operation) { reply.clone() } else { SimFault::Pass });
    world.run_event(&secret_event(&mixed())).await
}

#[tokio::test]
async fn are_in_no_line_about_a_record_that_cannot_be_read() {
    let secret = json!({ "of": SECRET });
    for (field, value) in [
        ("messageId", json!(null)),
        ("receiptHandle", json!("")),
        ("eventSourceARN", json!(SECRET)),
        ("body", secret.clone()),
        ("attributes", secret.clone()),
        ("messageAttributes", json!({ "a": { "binaryValue": SECRET, "dataType": "Binary" }})),
        ("messageAttributes", json!({ "a": SECRET })),
    ] {
        let mut event = secret_event(&mixed());
        event["Records"][6][field] = value;
        let world = FunctionWorld::new(&[]).log_level(LevelFilter::TRACE);
        let ran = world.run_event(&event).await;
        assert_quiet(&ran, field);
        let line = ran.log.iter().find(|line| line["message"] == "bad event").unwrap();
        assert_eq!(
            untimed(line),
            json!({
                "level": "ERROR",
                "message": "bad event",
                "request_id": "req-1",
                "detail": line["detail"],
            })
        );
    }
    let mut event = secret_event(&mixed());
    for record in event["Records"].as_array_mut().unwrap() {
        record["eventSourceARN"] = json!(SECRET);
    }
    let error = FunctionWorld::new(&[]).try_event(&event).await.unwrap_err();
    assert!(!format!("{error:?} {error}").contains(SECRET));
}

/// Such text may end up in a panic message or in a log line of another crate.
#[test]
fn are_not_in_what_debug_shows_of_a_letter() {
    for letter in letters_of(&secret_event(&mixed())) {
        let shown = format!("{letter:?} {letter:#?}");
        for secret in [SECRET, "Unsubscribe", "Token="] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

//! Origins whose letters name their target themselves. Only the rule keeps a forger from the targets that the
//! function's role may reach.

use super::*;

fn eventbridge(target: &str) -> RecordBuilder {
    RecordBuilder::raw("a", r#"{"detail":{"amount":1000000}}"#)
        .attribute("RULE_ARN", "String", "arn:aws:events:eu-central-1:123456789012:rule/shop")
        .attribute("TARGET_ARN", "String", target)
}

fn destination(function: &str) -> RecordBuilder {
    let record = json!({
        "requestContext": { "functionArn": function, "condition": "RetriesExhausted" },
        "requestPayload": { "amount": 1_000_000 },
    });
    RecordBuilder::raw("a", &record.to_string())
}

#[tokio::test]
async fn goes_nowhere_that_its_rule_does_not_allow() {
    let policy = default(&json!({ "allowTargets": [WORKER, NOTIFIER, TOPIC] }));
    for post in [eventbridge(PAYROLL), eventbridge(REFUND), destination(REFUND)] {
        refused(&FunctionWorld::with_policy(&policy), &post, NOT_ALLOWED, &UNASKED).await;
    }
}

#[tokio::test]
async fn goes_nowhere_by_an_arn_that_is_none() {
    for target in [
        "arn:aws:sqs:evil.example#:123456789012:payroll",
        "arn:aws:sqs:eu-central-1@evil.example:123456789012:payroll",
        "arn:aws:lambda:eu-central-1/../x:123456789012:function:refund",
        "https://evil.example/",
        "payroll",
    ] {
        let world = FunctionWorld::new(&[]);
        let ran = world.run([&eventbridge(target)]).await;
        assert_eq!(ran.outcomes(), ["a archived unrecognised"], "{target}");
        assert_eq!(operations(&world.cloud), UNASKED, "{target}");
    }
    for target in [
        "arn:aws:sqs:eu-central-1:123456789012:payroll/../../x?y",
        "arn:aws:s3:::payroll",
        "arn:aws:states:eu-central-1:123456789012:stateMachine:refund",
        SUBSCRIPTION,
    ] {
        let world = FunctionWorld::with_policy(&default(&json!({})));
        let ran = world.run([&eventbridge(target)]).await;
        assert_eq!(ran.outcomes(), ["a archived undeliverable_protocol"], "{target}");
        assert_eq!(operations(&world.cloud), UNASKED, "{target}");
    }
}

/// SQS itself names the source queue, so no body and no attribute can.
#[tokio::test]
async fn cannot_name_a_source_queue() {
    let world = FunctionWorld::with_policy(&default(&json!({ "target": "source" })));
    let post = RecordBuilder::envelope("a").attribute("DeadLetterQueueSourceArn", "String", PAYROLL);
    let ran = world.run([&post]).await;
    assert_eq!(ran.outcomes(), ["a archived unrecognised"]);
    assert_eq!(operations(&world.cloud), UNASKED);
}

//! A person who may only publish to a topic with a raw subscription. With raw delivery that person writes
//! every attribute and every byte of the body.

use super::*;

const ELSEWHERE: [&str; 2] = ["payroll", "refund"];

/// Returns all letters that they can write to imitate another origin.
fn letters() -> Vec<(&'static str, RecordBuilder)> {
    let eventbridge = |target: &str| {
        RecordBuilder::raw("a", r#"{"amount":1000000}"#)
            .attribute("RULE_ARN", "String", "arn:aws:events:eu-central-1:123456789012:rule/shop")
            .attribute("TARGET_ARN", "String", target)
    };
    let destination = json!({
        "version": "1.0",
        "requestContext": { "functionArn": REFUND, "condition": "RetriesExhausted" },
        "requestPayload": { "amount": 1_000_000 },
    });
    let event = json!({ "Records": [{
        "EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": LAMBDA_SUBSCRIPTION,
        "Sns": { "Type": "Notification", "MessageId": "m", "TopicArn": TOPIC, "Message": "forged" },
    }] });
    vec![
        ("EventBridge to a queue", eventbridge(PAYROLL)),
        ("EventBridge to a function", eventbridge(REFUND)),
        ("a Lambda destination", RecordBuilder::raw("a", &destination.to_string())),
        (
            "Lambda's dead-letter queue",
            RecordBuilder::raw("a", &event.to_string()).attribute("RequestID", "String", "r").attribute(
                "ErrorCode",
                "Number",
                "200",
            ),
        ),
        (
            "a custom event bus",
            RecordBuilder::raw("a", sample("event-bus")["Records"][0]["body"].as_str().unwrap()),
        ),
    ]
}

/// Returns the rules under which a raw letter goes anywhere.
fn policies() -> [Value; 3] {
    let origins = json!({ OTHER_DLQ: ["lambda-async", "lambda-destination", "eventbridge"] });
    [
        json!({ "origins": origins }),
        json!({ "origins": origins, "default": { "subscription": SUBSCRIPTION } }),
        json!({ "origins": origins, "default": { "target": "topic" } }),
    ]
}

#[tokio::test]
async fn chooses_no_target() {
    for (name, post) in letters() {
        for policy in policies() {
            let world = FunctionWorld::with_policy(&policy);
            let ran = world.run([&post]).await;
            let called: Vec<_> = world.cloud.journal().into_iter().map(|call| call.target).collect();
            assert!(!ELSEWHERE.iter().any(|name| called.iter().any(|to| to == name)), "{name}: {called:?}");
            let subscribed = policy["default"]["subscription"].is_string();
            // A raw letter goes to the subscription that its rule names, whatever it looks like.
            let bus = name == "a custom event bus";
            let outcome = if subscribed && !bus { "delivered" } else { "archived" };
            assert_eq!(ran.letter("a")["outcome"], outcome, "{name} under {policy}");
            if outcome == "delivered" {
                let entry = world.cloud.entries("SendMessageBatch").remove(0);
                assert_eq!((ran.letter("a")["target.arn"].as_str(), entry.body), (Some(WORKER), post.body()));
                for attribute in post.attributes.keys() {
                    assert!(
                        entry.attributes.contains_key(attribute),
                        "{name}: {attribute} is the publisher's own"
                    );
                }
            }
        }
    }
}

/// A rule for raw letters also applies to letters of a listed origin.
#[tokio::test]
async fn stays_within_the_subscription_of_a_rule_where_origins_are_listed() {
    for (name, post) in letters().into_iter().take(3) {
        let policy = json!({ "origins": every_origin(), "default": { "subscription": SUBSCRIPTION } });
        let world = FunctionWorld::with_policy(&policy);
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["a delivered"], "{name}");
        assert_eq!(ran.letter("a")["target.arn"], WORKER, "{name}");
        let entry = world.cloud.entries("SendMessageBatch").remove(0);
        assert_eq!(entry.body, post.body(), "{name}");
        assert!(post.attributes.keys().all(|attribute| entry.attributes.contains_key(attribute)), "{name}");
    }
}

/// Attributes do not turn an envelope into a letter of Lambda, which would end as `unrecognised`.
#[tokio::test]
async fn does_not_stop_an_envelope_by_attributes() {
    let post = RecordBuilder::envelope("a").attribute("RequestID", "String", "r").attribute(
        "ErrorCode",
        "Number",
        "200",
    );
    let ran = FunctionWorld::with_policy(&json!({ "origins": every_origin() })).run([&post]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);
}

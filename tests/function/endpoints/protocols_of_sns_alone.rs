//! Only SNS can send e-mail, SMS and pushes. The topic still can, if the rule says so.

use super::*;

const PUSH: &str = "arn:aws:sns:eu-central-1:123456789012:endpoint/GCM/app/1";

#[tokio::test]
async fn are_undeliverable_unless_the_rule_sends_to_the_topic() {
    for (protocol, endpoint) in [
        ("email", "payments@example.com"),
        ("email-json", "payments@example.com"),
        ("sms", "+491700000000"),
        ("application", PUSH),
        ("https", "https://shop:****@example.com/payments"),
    ] {
        let world = world_of(&json!({}), protocol, endpoint);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a archived undeliverable_protocol"]);
        let calls = ["GetQueueAttributes", "GetSubscriptionAttributes", "PutObject"];
        assert_eq!(operations(&world.cloud), calls);
        let detail = archived(&world.cloud)[0]["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(if protocol == "https" { "****" } else { protocol }), "{detail}");
        // An address must not be in the log.
        assert!(!ran.text.contains(endpoint), "{}", ran.text);

        let world = world_of(&default(&json!({ "target": "topic" })), protocol, endpoint);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(world.cloud.entries("PublishBatch").len(), 1);
    }
}

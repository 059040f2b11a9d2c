//! Overrides that pick letters by their target.

use super::*;

/// A webhook, whose path is its secret.
const HOOK: &str = "https://hooks.example/secret/path";

fn hook() -> String {
    redrive_core::endpoint::TargetName::read(HOOK).as_str().to_owned()
}

/// Gives one override about a target.
fn about(world: &FunctionWorld, action: &str, target: &str) {
    give(world, &[override_(action, &json!({ "match": { "target": [target] } }))]);
}

fn asked(world: &FunctionWorld) -> usize {
    world.cloud.calls("GetSubscriptionAttributes").len()
}

#[tokio::test]
async fn one_is_held_and_its_neighbour_is_not() {
    let world = world(&[]);
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "sqs", BILLING, DLQ);
    about(&world, "hold", BILLING);
    let other = RecordBuilder::envelope("b").subscription(OTHER_SUBSCRIPTION);
    let ran = world.run([&due(), &other]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed", "b deferred overridden"]);
    assert_eq!(asked(&world), 2, "where each of them leads");
    world.cloud.resubscribe(OTHER_SUBSCRIPTION, "Endpoint", WORKER);
    world.pass(301);
    let ran = world.run([&other]).await;
    assert_eq!(ran.outcomes(), ["b deferred failed"], "it leads elsewhere now");
}

#[tokio::test]
async fn of_a_url_scheme_host_and_digest_are_known() {
    let world = world(&[]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "https", HOOK, DLQ);
    about(&world, "hold", &hook());
    let ran = world.run([&due()]).await;
    assert_eq!(ran.outcomes(), ["a deferred overridden"]);
    assert!(!ran.text.contains("secret"), "{}", ran.text);
    let objects = world.cloud.objects();
    let (_, list) = objects.iter().find(|(key, _)| key.contains("/waiting/")).unwrap();
    let line: Value = serde_json::from_str(list.trim()).unwrap();
    assert_eq!(json!([line["target"], line["heldBy"]]), json!([hook(), "override override-1"]));
}

#[tokio::test]
async fn letters_that_wait_are_sent_or_given_up_at_once() {
    for (action, outcome) in [("retry", "early deferred failed"), ("give-up", "early archived given-up")] {
        let world = world(&[]);
        about(&world, action, WORKER);
        assert_eq!(world.run([&early()]).await.outcomes(), [outcome]);
        about(&world, action, BILLING);
        world.pass(16);
        assert_eq!(world.run([&early()]).await.outcomes(), ["early deferred early"]);
    }
}

/// What cannot be looked up may be what is held. It waits, and is neither sent nor given up.
#[tokio::test]
async fn where_it_is_not_known_a_hold_makes_it_wait_a_minute() {
    for (action, outcome) in [
        ("hold", "a deferred target_unknown"),
        ("retry", "a deferred failed"),
        ("give-up", "a deferred failed"),
    ] {
        let world = world(&[]);
        about(&world, action, BILLING);
        world.cloud.reply("GetSubscriptionAttributes", SimFault::refuse(503, "ServiceUnavailable", "oh"));
        let ran = world.run([&due()]).await;
        assert_eq!(ran.outcomes(), [outcome]);
        if action == "hold" {
            assert_eq!(world.cloud.hidden()["handle-a"], 60);
            with_s3(&world, |_| SimFault::Pass);
            world.pass(60);
            assert_eq!(world.run([&due()]).await.outcomes(), ["a deferred failed"], "it is another one");
        }
    }
}

/// A letter without a route is no letter of any target.
#[tokio::test]
async fn nobody_is_asked_where_no_override_names_a_target() {
    let world = world(&[]);
    give(
        &world,
        &[override_("hold", &json!({ "match": { "topicArn": ["arn:aws:sns:eu-central-1:1:other"] } }))],
    );
    assert_eq!(world.run([&early()]).await.outcomes(), ["early deferred early"]);
    assert_eq!(asked(&world), 0);
    about(&world, "hold", BILLING);
    world.pass(16);
    let raw = RecordBuilder::raw("raw", "hello");
    assert_eq!(
        world.run([&early(), &raw]).await.outcomes(),
        ["early deferred early", "raw archived unrecognised"]
    );
    assert_eq!(asked(&world), 1);
}

/// A letter that is published again goes to the topic, and to no subscriber by itself.
#[tokio::test]
async fn of_a_letter_that_is_published_again_the_topic_is_the_target() {
    let world = world(&[("REDRIVE_POLICY", r#"{"default":{"target":"topic"}}"#)]);
    about(&world, "hold", TOPIC);
    assert_eq!(world.run([&due()]).await.outcomes(), ["a deferred overridden"], "to every subscriber");
    about(&world, "hold", WORKER);
    world.pass(16);
    world.cloud.script(|_| SimFault::Pass);
    assert_eq!(world.run([&due()]).await.outcomes(), ["a delivered"]);

    let later = json!({ "default": { "target": "topic", "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 3600, "maxDelayTarget": 3600, "numRetries": 3 } } } });
    let world = self::world(&[("REDRIVE_POLICY", &later.to_string())]);
    about(&world, "give-up", TOPIC);
    assert_eq!(world.run([&due()]).await.outcomes(), ["a archived given-up"], "an hour before it is due");
}

/// No attempt was made with it in this invocation, and yet a replay by target finds it.
#[tokio::test]
async fn what_is_given_up_is_archived_with_its_target() {
    let world = world(&[]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "https", HOOK, DLQ);
    about(&world, "give-up", &hook());
    world.run([&early()]).await;
    assert_eq!(archived_by(&world)["targetUrl"], hook());
    let objects = world.cloud.objects();
    let (key, _) = objects.iter().find(|(key, _)| key.contains("/dead-letters/")).unwrap();
    let digest = redrive_core::endpoint::TargetName::read(HOOK).digest();
    assert!(key.ends_with(&format!("given-up.3zhK6Xx3.1.T.{digest}.1.jsonl")), "{key}");
}

/// Nobody asks where a forged subscription leads, so it leads nowhere.
#[tokio::test]
async fn a_forged_letter_is_refused_and_no_hold_keeps_it() {
    let world = world(&[]);
    about(&world, "hold", BILLING);
    let elsewhere = "arn:aws:sns:eu-west-1:123456789012:payments:43fe80b0-b10c-4081-9e18-5bdb8f9824e6";
    let ran = world.run([&RecordBuilder::envelope("forged").subscription(elsewhere)]).await;
    assert_eq!(ran.outcomes(), ["forged archived refused"]);
}

/// What is still to be found has a target that is not known, and not none.
#[tokio::test]
async fn a_letter_whose_subscription_is_searched_for_has_no_other_target_meanwhile() {
    let rule = json!({ "default": { "subscription": "discover" } }).to_string();
    let world = world(&[("REDRIVE_POLICY", &rule)]);
    for other in [BILLING_SUBSCRIPTION, LAMBDA_SUBSCRIPTION, OTHER_SUBSCRIPTION] {
        world.cloud.unsubscribe(other);
    }
    world.cloud.resubscribe(SUBSCRIPTION, "RawMessageDelivery", "true");
    give(&world, &[override_("give-up", &json!({ "match": { "target": [{ "exists": false }] } }))]);
    let ran = world.run([&RecordBuilder::raw("raw", "hello")]).await;
    assert_eq!(ran.outcomes(), ["raw deferred failed"], "{}", ran.text);
    about(&world, "hold", WORKER);
    world.pass(16);
    assert_eq!(
        world.run([&RecordBuilder::raw("raw", "hello")]).await.outcomes(),
        ["raw deferred overridden"]
    );
}

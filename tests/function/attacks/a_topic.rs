use super::*;

fn republishing() -> Value {
    json!({ "default": { "target": "topic", "jitter": 0 } })
}

/// The letter's subscription confirms its topic, just as it confirms its endpoint.
#[tokio::test]
async fn that_is_forged_is_not_published_to() {
    for topic in [OTHER_TOPIC, FOREIGN_TOPIC] {
        let world = FunctionWorld::with_policy(&republishing());
        let ran = world.run([&RecordBuilder::envelope("a").topic(topic)]).await;
        assert_eq!(ran.outcomes(), ["a archived refused"]);
        assert_eq!(ran.letter("a")["detail"], "the subscription belongs to another topic");
        assert_eq!(world.cloud.calls("PublishBatch"), []);
    }
}

#[tokio::test]
async fn of_a_subscription_that_points_its_dead_letters_elsewhere_is_not_published_to() {
    let world = FunctionWorld::with_policy(&republishing());
    let other = "arn:aws:sqs:eu-central-1:123456789012:refunds-dlq";
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "sqs", WORKER, other);
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a archived refused"]);
    assert_eq!(world.cloud.calls("PublishBatch"), []);
}

/// Republishing helps a subscriber that only SNS can reach.
#[tokio::test]
async fn of_a_subscription_that_only_sns_can_deliver_to_is_published_to() {
    let world = FunctionWorld::with_policy(&republishing());
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "email", "someone@a.example", DLQ);
    assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.outcomes(), ["a delivered"]);
    assert_eq!(world.cloud.calls("PublishBatch").len(), 1);
}

/// Anyone who can write to a consumer's queue can name any topic in an envelope there, and let it fail until SQS
/// moves it here.
#[tokio::test]
async fn that_a_letter_of_sqs_names_gets_it_only_if_it_delivers_to_that_queue() {
    let other = format!("{OTHER_TOPIC}:1f1f1f1f-0000-4000-8000-000000000000");
    let moved = |topic: &str, subscription: &str| {
        RecordBuilder::envelope("a").topic(topic).subscription(subscription).moved_from(WORKER).received(4)
    };
    for (post, outcome, detail) in [
        (moved(TOPIC, SUBSCRIPTION), "a delivered", ""),
        (
            moved(TOPIC, BILLING_SUBSCRIPTION),
            "a archived refused",
            "the subscription does not deliver to the queue or function that the letter came from",
        ),
        (
            moved(OTHER_TOPIC, &other),
            "a archived refused",
            "the subscription does not deliver to the queue or function that the letter came from",
        ),
        (moved(OTHER_TOPIC, SUBSCRIPTION), "a archived refused", OF_OTHER_TOPIC),
        (moved(TOPIC, OTHER_SUBSCRIPTION), "a archived refused", UNKNOWN),
        (
            moved(OTHER_TOPIC, "nobody"),
            "a archived refused",
            "the letter names a topic but no subscription of it, so SNS cannot confirm that it comes from there",
        ),
    ] {
        let world = FunctionWorld::with_policy(&republishing());
        world.cloud.subscribe_endpoint(&other, OTHER_TOPIC, "sqs", BILLING, DLQ);
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), [outcome]);
        assert_eq!(ran.letter("a")["detail"].as_str().unwrap_or_default(), detail);
        assert_eq!(world.cloud.calls("PublishBatch").len(), usize::from(detail.is_empty()));
    }
}

#[tokio::test]
async fn of_an_unconfirmed_subscription_is_not_published_to() {
    let world = FunctionWorld::with_policy(&republishing());
    world.cloud.resubscribe(SUBSCRIPTION, "PendingConfirmation", "true");
    for post in [RecordBuilder::envelope("a"), RecordBuilder::envelope("a").moved_from(WORKER).received(4)] {
        assert_eq!(
            world.run([&post]).await.letter("a")["detail"],
            "the subscription is not confirmed: if you know it, confirm it"
        );
    }
    assert_eq!(world.cloud.calls("PublishBatch"), []);
}

use super::*;

#[tokio::test]
async fn a_letter_whose_subscription_passes_is_delivered_to_its_endpoint() {
    let world = FunctionWorld::new(&[]);
    let post = RecordBuilder::envelope("a");
    let ran = world.run([&post]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);
    assert_eq!(ran.letter("a")["target.arn"], WORKER);
    assert_eq!(
        world.cloud.summary(),
        [
            "GetQueueAttributes payments-dlq".to_owned(),
            format!("GetSubscriptionAttributes {SUBSCRIPTION}"),
            "SendMessageBatch payments-worker 1".to_owned(),
        ]
    );
}

#[tokio::test]
async fn an_unknown_subscription_is_refused() {
    let world = FunctionWorld::new(&[]);
    world.cloud.unsubscribe(SUBSCRIPTION);
    archived_unsent(&world, &RecordBuilder::envelope("a"), "refused", "the subscription does not exist")
        .await;
}

#[tokio::test]
async fn a_subscription_of_another_topic_than_the_letter_is_refused() {
    let world = world_with("TopicArn", OTHER_TOPIC);
    let detail = "the subscription belongs to another topic";
    archived_unsent(&world, &RecordBuilder::envelope("a"), "refused", detail).await;

    // The same happens if the letter names another topic.
    let world = FunctionWorld::new(&[]);
    archived_unsent(&world, &RecordBuilder::envelope("a").topic(OTHER_TOPIC), "refused", detail).await;
}

#[tokio::test]
async fn a_subscription_that_does_not_name_this_queue_is_refused() {
    let detail = crate::OF_OTHER_QUEUE;
    for redrive_policy in [names(OTHER_DLQ), names(FIFO_DLQ), "{}".into(), "never".into(), String::new()] {
        let world = world_with("RedrivePolicy", &redrive_policy);
        archived_unsent(&world, &RecordBuilder::envelope("a"), "refused", detail).await;
    }
    let world = FunctionWorld::new(&[]);
    world.cloud.subscribe(SUBSCRIPTION, TOPIC, "sqs", WORKER);
    archived_unsent(&world, &RecordBuilder::envelope("a"), "refused", detail).await;
}

#[tokio::test]
async fn a_subscription_that_nobody_confirmed_is_refused() {
    let world = world_with("PendingConfirmation", "true");
    archived_unsent(
        &world,
        &RecordBuilder::envelope("a"),
        "refused",
        "the subscription is not confirmed: if you know it, confirm it",
    )
    .await;
}

#[tokio::test]
async fn endpoints_that_only_sns_can_reach_are_undeliverable() {
    for (protocol, endpoint) in [
        ("email", "payments@example.com"),
        ("email-json", "payments@example.com"),
        ("sms", "+491700000000"),
        ("application", "arn:aws:sns:eu-central-1:123456789012:endpoint/GCM/app/1"),
        ("carrier-pigeon", "payments-worker"),
        // These endpoints do not fit their protocol.
        ("sqs", "payments-worker"),
        ("sqs", TOPIC),
        ("lambda", WORKER),
        ("firehose", NOTIFIER),
    ] {
        let world = world_with("Protocol", protocol);
        world.cloud.resubscribe(SUBSCRIPTION, "Endpoint", endpoint);
        let detail = format!("only SNS can deliver by the protocol {protocol:?}");
        archived_unsent(&world, &RecordBuilder::envelope("a"), "undeliverable_protocol", &detail).await;
    }
}

#[tokio::test]
async fn urls_that_nobody_can_post_to_are_undeliverable_and_say_why() {
    let masked = "SNS masks the password of the endpoint (****), so only SNS can post to it";
    let no_http = "the endpoint is not an http or https URL";
    for (endpoint, detail) in [
        ("https://shop:****@example.com/payments", masked),
        ("https://****@example.com/payments", masked),
        ("https://:****@example.com/payments", masked),
        ("ftp://example.com/payments", no_http),
        ("file:///etc/passwd", no_http),
        ("example.com/payments", no_http),
        ("", no_http),
    ] {
        for protocol in ["http", "https"] {
            let world = world_with("Protocol", protocol);
            world.cloud.resubscribe(SUBSCRIPTION, "Endpoint", endpoint);
            archived_unsent(&world, &RecordBuilder::envelope("a"), "undeliverable_protocol", detail).await;
        }
    }
}

#[tokio::test]
async fn a_subscription_whose_endpoint_is_the_dead_letter_queue_itself_is_refused() {
    let world = world_with("Endpoint", DLQ);
    let detail = "the target is a queue that feeds this function: set another target in the letter's rule";
    archived_unsent(&world, &RecordBuilder::envelope("a"), "refused", detail).await;
}

/// A raw letter names no subscription. Its rule does, and that subscription must name this queue.
#[tokio::test]
async fn a_raw_letter_goes_to_the_subscription_of_its_rule_after_the_same_check() {
    let policy = json!({ "default": { "subscription": SUBSCRIPTION } });
    let world = FunctionWorld::with_policy(&policy);
    let post = RecordBuilder::raw("r", "plain").attribute("tenant", "String", "gold");
    let ran = world.run([&post]).await;
    assert_eq!(ran.outcomes(), ["r delivered"]);
    assert_eq!(world.cloud.calls("SendMessageBatch")[0].summary(), "SendMessageBatch payments-worker 1");

    let world = FunctionWorld::with_policy(&policy);
    world.cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", &names(OTHER_DLQ));
    let detail = crate::OF_OTHER_QUEUE;
    archived_unsent(&world, &post, "refused", detail).await;
}

/// The region of an ARN becomes part of the host that is called.
#[tokio::test]
async fn a_letter_cannot_choose_the_host_that_is_asked() {
    for region in ["x.evil.example/", "x.evil.example#", "x@evil.example?", "x.evil.example", "EU%2f", ""] {
        let forged = format!("arn:aws:sns:{region}:123456789012:payments:43fe80b0");
        let world = FunctionWorld::new(&[]);
        let ran = world.run([&RecordBuilder::envelope("a").subscription(&forged)]).await;
        let reason = if region.is_empty() { "refused" } else { "unrecognised" };
        assert_eq!(ran.outcomes(), [format!("a archived {reason}")], "{region}");
        let hosts: Vec<_> = world.cloud.journal().into_iter().map(|call| call.host).collect();
        assert_eq!(
            hosts,
            ["sqs.eu-central-1.amazonaws.com", "my-bucket.s3.eu-central-1.amazonaws.com"],
            "{region}"
        );
    }
}

#[tokio::test]
async fn a_subscription_is_asked_for_in_its_own_region() {
    let elsewhere = "arn:aws:sns:us-east-1:123456789012:payments:43fe80b0";
    let topic = "arn:aws:sns:us-east-1:123456789012:payments";
    let dlq = "arn:aws:sqs:us-east-1:123456789012:payments-dlq";
    let world = FunctionWorld::new(&[]);
    world.cloud.subscribe_endpoint(elsewhere, topic, "sqs", WORKER, dlq);
    let ran =
        world.run([&RecordBuilder::envelope("a").topic(topic).subscription(elsewhere).queue(dlq)]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);
    assert_eq!(world.cloud.calls("GetSubscriptionAttributes")[0].host, "sns.us-east-1.amazonaws.com");
}

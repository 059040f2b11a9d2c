use super::*;

#[tokio::test]
async fn with_another_topic_is_refused() {
    refused(
        &FunctionWorld::new(&[]),
        &RecordBuilder::envelope("a").topic(OTHER_TOPIC),
        OF_OTHER_TOPIC,
        &UNASKED,
    )
    .await;
}

#[tokio::test]
async fn with_the_topic_of_another_account_is_refused() {
    let post = RecordBuilder::envelope("a").topic(FOREIGN_TOPIC);
    refused(&FunctionWorld::new(&[]), &post, OF_OTHER_TOPIC, &UNASKED).await;

    let post = post.subscription(FOREIGN_SUBSCRIPTION);
    refused(&FunctionWorld::new(&[]), &post, UNKNOWN, &ASKED).await;

    // A subscription's dead-letter queue is in its own account, so none of another account can name this one.
    let world = FunctionWorld::new(&[]);
    let queue = "arn:aws:sqs:eu-central-1:210987654321:payments-dlq";
    world.cloud.subscribe_endpoint(FOREIGN_SUBSCRIPTION, FOREIGN_TOPIC, "sqs", PAYROLL, queue);
    refused(&world, &post, OF_OTHER_QUEUE, &ASKED).await;
}

#[tokio::test]
async fn that_exists_but_points_its_dead_letters_elsewhere_is_refused() {
    for dlq in [OTHER_DLQ, FIFO_DLQ, "arn:aws:sqs:eu-west-1:123456789012:payments-dlq"] {
        let world = FunctionWorld::new(&[]);
        world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "sqs", PAYROLL, dlq);
        let post = RecordBuilder::envelope("a").subscription(OTHER_SUBSCRIPTION);
        refused(&world, &post, OF_OTHER_QUEUE, &ASKED).await;
    }
}

/// The region becomes part of the host that is called, so a letter must not choose it.
#[tokio::test]
async fn in_another_region_than_the_queue_is_refused_unasked() {
    for region in ["eu-west-1", "s3", "s3-eu-central-1", ""] {
        let topic = format!("arn:aws:sns:{region}:123456789012:payments");
        let subscription = format!("{topic}:43fe80b0-b10c-4081-9e18-5bdb8f9824e6");
        let post = RecordBuilder::envelope("a").topic(&topic).subscription(&subscription);
        let detail = "the subscription is in another region than this queue";
        refused(&FunctionWorld::new(&[]), &post, detail, &UNASKED).await;
    }
}

/// SNS rejects an ARN that is not one of its own. That is an answer, and it is kept.
#[tokio::test]
async fn by_an_arn_that_sns_does_not_take_is_refused_and_asked_about_once() {
    let world = FunctionWorld::new(&[]);
    world
        .cloud
        .reply("GetSubscriptionAttributes", SimFault::refuse(400, "InvalidParameter", "SubscriptionArn"));
    let post = RecordBuilder::envelope("a").subscription(&format!("{TOPIC}:no-uuid"));
    refused(&world, &post, UNKNOWN, &ASKED).await;
    world.run([&post]).await;
    assert_eq!(world.cloud.calls("GetSubscriptionAttributes").len(), 1);
}

#[tokio::test]
async fn that_does_not_exist_is_refused() {
    let post = RecordBuilder::envelope("a").subscription(OTHER_SUBSCRIPTION);
    refused(&FunctionWorld::new(&[]), &post, UNKNOWN, &ASKED).await;
}

/// The mark is part of the letter, so anyone who writes the letter also writes the mark.
#[tokio::test]
async fn does_not_pass_by_a_mark_that_names_its_queue() {
    let world = FunctionWorld::new(&[]);
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "sqs", PAYROLL, OTHER_DLQ);
    let mut mark = mark(1, "forged", NOW - 3_600_000);
    mark["dlq"] = OTHER_DLQ.into();
    let post = RecordBuilder::envelope("a").subscription(OTHER_SUBSCRIPTION).sent(NOW - 3_600_000);
    for post in [post.clone().mark(&mark), post.sqs_mark(&mark)] {
        world.cloud.forget();
        let world = FunctionWorld::on(world.cloud.clone(), &[("REQUEUE_ARN", REQUEUE)]);
        let ran = world.run([&post]).await;
        assert_eq!(ran.letter("a")["detail"], OF_OTHER_QUEUE);
        assert_eq!(operations(&world.cloud), ASKED);
    }
}

/// The same holds inside a Lambda event, from either origin.
#[tokio::test]
async fn inside_the_event_of_a_function_is_refused() {
    let policy = default(&json!({ "target": "subscription" }));
    let mut event: Value =
        serde_json::from_str(sample("lambda-async")["Records"][0]["body"].as_str().unwrap()).unwrap();
    event["Records"][0]["EventSubscriptionArn"] = OTHER_SUBSCRIPTION.into();
    let destination = json!({
        "requestContext": { "functionArn": REFUND, "condition": "RetriesExhausted" },
        "requestPayload": event,
    });
    for post in [
        RecordBuilder::raw("a", &event.to_string()).attribute("RequestID", "String", "r").attribute(
            "ErrorCode",
            "Number",
            "200",
        ),
        RecordBuilder::raw("a", &destination.to_string()),
    ] {
        refused(&FunctionWorld::with_policy(&policy), &post, UNKNOWN, &ASKED).await;
        let world = FunctionWorld::with_policy(&policy);
        world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, OTHER_TOPIC, "lambda", REFUND, DLQ);
        refused(&world, &post, OF_OTHER_TOPIC, &ASKED).await;
    }
}

use super::*;

/// Returns the letter from the function's own dead-letter queue. Only the rule knows which function it was.
fn from_async_queue(call: &SimCall, id: &str) -> RecordBuilder {
    by_async_queue(id, body_text(call))
}

fn by_async_queue(id: &str, event: &str) -> RecordBuilder {
    RecordBuilder::raw(id, event)
        .attribute("RequestID", "String", "f90d1605-ec6d-4193-8adb-4e1528707ec2")
        .attribute("ErrorCode", "Number", "200")
        .attribute("ErrorMessage", "String", "relay is down")
}

/// Returns the letter from the function's on-failure destination.
fn from_destination(call: &SimCall, id: &str) -> RecordBuilder {
    let event: Value = serde_json::from_str(body_text(call)).unwrap();
    let record = json!({
        "version": "1.0",
        "requestContext": { "functionArn": format!("{NOTIFIER}:$LATEST"), "condition": "RetriesExhausted" },
        "requestPayload": event,
        "responsePayload": { "errorMessage": "relay is down", "errorType": "Error" },
    });
    RecordBuilder::raw(id, &record.to_string())
}

fn subscribed() -> RecordBuilder {
    first().subscription(LAMBDA_SUBSCRIPTION)
}

fn assert_asynchronous(calls: &[SimCall]) {
    for call in calls {
        assert_eq!(call.parameters["type"], "Event");
        let event: Value = serde_json::from_str(body_text(call)).unwrap();
        let attributes = event["Records"][0]["Sns"]["MessageAttributes"].as_object().unwrap();
        assert_eq!(attributes.keys().collect::<Vec<_>>(), ["sns-redrive", "tenant"]);
        assert_eq!(event["Records"][0]["EventSubscriptionArn"], LAMBDA_SUBSCRIPTION);
    }
}

#[tokio::test]
async fn a_subscriber_whose_failures_come_back_by_its_own_dead_letter_queue() {
    let rules = json!([{ "name": "notifier", "match": { "origin": ["lambda-async"] }, "target": NOTIFIER }]);
    let world = FunctionWorld::with_policy(&policy(&json!({}), &rules));
    assert_asynchronous(&goes_round(&world, subscribed(), from_async_queue).await);
}

#[tokio::test]
async fn a_subscriber_whose_failures_come_back_by_its_destination() {
    let world = FunctionWorld::with_policy(&policy(&json!({}), &json!([])));
    assert_asynchronous(&goes_round(&world, subscribed(), from_destination).await);
}

/// The letter goes through the subscription that the event names, with all its checks.
#[tokio::test]
async fn a_subscriber_that_is_reached_by_its_subscription_each_time() {
    for back in [from_async_queue, from_destination] {
        let world = FunctionWorld::with_policy(&policy(&json!({ "target": "subscription" }), &json!([])));
        assert_asynchronous(&goes_round(&world, subscribed(), back).await);
    }
}

/// Returns the letter in the function's own dead-letter queue, with the event that SNS makes of a published
/// message, or with the event of the call.
fn failed_event(call: &SimCall, id: &str) -> RecordBuilder {
    if call.operation == "Invoke" {
        return from_async_queue(call, id);
    }
    let entry = &call.entries[0];
    let attributes: serde_json::Map<_, _> = entry
        .attributes
        .iter()
        .map(|(name, it)| (name.clone(), json!({ "Type": it.kind, "Value": it.value.text() })))
        .collect();
    event_of(id, &entry.body, &attributes)
}

fn event_of(id: &str, message: &str, attributes: &serde_json::Map<String, Value>) -> RecordBuilder {
    let event = json!({ "Records": [{
        "EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": LAMBDA_SUBSCRIPTION,
        "Sns": { "Type": "Notification", "MessageId": id, "TopicArn": TOPIC, "Message": message,
            "MessageAttributes": attributes },
    }] });
    by_async_queue(id, &event.to_string())
}

fn first_event() -> RecordBuilder {
    event_of("a", "hello", &serde_json::Map::new())
}

/// Moves the subscription's own dead letters elsewhere, because this queue is the function's.
fn elsewhere(world: &FunctionWorld) {
    let dlq = "arn:aws:sqs:eu-central-1:123456789012:of-the-subscription";
    world.cloud.subscribe_endpoint(LAMBDA_SUBSCRIPTION, TOPIC, "lambda", NOTIFIER, dlq);
}

/// The letter is published once, and from then on it goes only to the function.
#[tokio::test]
async fn a_subscriber_whose_letters_come_by_its_own_dead_letter_queue_under_topic() {
    let world = FunctionWorld::with_policy(&policy(&json!({ "target": "topic" }), &json!([])));
    elsewhere(&world);
    let calls = goes_round(&world, first_event(), failed_event).await;
    assert_eq!(calls[0].operation, "PublishBatch");
    assert!(calls[1..].iter().all(|call| call.target == "payments-notifier"));
}

/// The policy does not list the origin, so the letter is raw, but the mark in its event still counts.
#[tokio::test]
async fn a_subscriber_whose_letters_are_not_listed_is_published_to_once() {
    let mut policy = policy(&json!({ "target": TOPIC }), &json!([]));
    policy["origins"] = json!({});
    let world = FunctionWorld::with_policy(&policy);
    world.pass(10);
    let ran = world.run([&first_event()]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);
    let [call] = deliveries(&world.cloud).try_into().unwrap();
    let back = failed_event(&call, "b");
    world.pass(10);
    let ran = world.run([&back]).await;
    assert_eq!(ran.outcomes(), ["b archived returned"]);
    assert_eq!(deliveries(&world.cloud).len(), 1);
}

/// Lambda does not take the event. The letter stays, and is counted like any other that stays.
#[tokio::test]
async fn a_subscriber_that_lambda_does_not_take_events_for() {
    let world = FunctionWorld::with_policy(&at_once(&json!({})));
    world.cloud.reply("Invoke", SimFault::refuse(429, "TooManyRequestsException", "slow"));
    stays(&world, &subscribed(), || world.cloud.calls("Invoke").len()).await;
}

/// A plain event has no place for a mark. If it were sent asynchronously, the function's failure would come
/// back as a new letter, for ever. So the call waits for the function.
#[tokio::test]
async fn a_function_with_a_plain_event() {
    let plain = |id| RecordBuilder::raw(id, r#"{"orderId":"o-1","S3CR3T":true}"#);
    let destination = json!({
        "requestContext": { "functionArn": NOTIFIER, "condition": "RetriesExhausted" },
        "requestPayload": { "orderId": "o-1" },
    });
    let eventbridge = plain("eventbridge")
        .attribute("RULE_ARN", "String", "arn:aws:events:eu-central-1:123456789012:rule/shop")
        .attribute("TARGET_ARN", "String", NOTIFIER);
    for (target, post) in [
        (
            NOTIFIER,
            plain("async").attribute("RequestID", "String", "r").attribute("ErrorCode", "Number", "200"),
        ),
        ("origin", RecordBuilder::raw("destination", &destination.to_string())),
        ("origin", eventbridge),
        (NOTIFIER, plain("raw")),
    ] {
        let world = FunctionWorld::with_policy(&at_once(&json!({ "target": target })));
        world.cloud.reply("Invoke", SimFault::FunctionError);
        stays(&world, &post, || world.cloud.calls("Invoke").len()).await;
        for call in world.cloud.calls("Invoke") {
            assert_eq!(call.parameters["type"], "RequestResponse");
            assert!(!body_text(&call).contains("sns-redrive"));
        }
        let error = &archived(&world.cloud)[0]["error"];
        assert_eq!(error, &json!({ "code": "FunctionError", "class": "transient" }));
    }
}

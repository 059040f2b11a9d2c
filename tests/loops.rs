//! P7: no loop without a count. Whatever the target, a letter that always fails there ends in the
//! archive after its last retry, and its mark does not grow on the way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod support;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::*;

/// One digit, so that every mark has the same size.
const RETRIES: usize = 9;

/// The calls by which letters go out.
const DELIVERIES: [&str; 4] = ["SendMessageBatch", "PublishBatch", "Invoke", "PutRecordBatch"];

/// A policy of nine retries, with more in its default and with these rules.
fn policy(default: &Value, rules: &Value) -> Value {
    let schedule = json!({ "minDelayTarget": 10, "maxDelayTarget": 10, "numRetries": RETRIES });
    let mut policy = json!({
        "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } },
        "rules": rules,
    });
    policy["default"].as_object_mut().unwrap().extend(default.as_object().unwrap().clone());
    policy
}

fn deliveries(cloud: &Cloud) -> Vec<Call> {
    cloud.journal().into_iter().filter(|call| DELIVERIES.contains(&call.op.as_str())).collect()
}

/// The mark that a delivered letter carries.
fn mark_of(call: &Call) -> String {
    let entry = &call.entries[0];
    if call.op == "Invoke" {
        let event: Value = serde_json::from_str(&entry.body).unwrap();
        let mark = event.pointer("/Records/0/Sns/MessageAttributes/sns-redrive/Value");
        return mark.unwrap().as_str().unwrap().to_owned();
    }
    let (kind, text) = entry.attributes["sns-redrive"].clone();
    assert_eq!(kind, "String");
    text
}

/// Every delivery succeeds and its target fails later: `back` says what AWS then puts into the
/// dead-letter queue. The letter goes out nine times, with one mark of one size, and the tenth time
/// it is archived. The answer is every delivery.
async fn goes_round(world: &World, first: Post, back: impl Fn(&Call, &str) -> Post) -> Vec<Call> {
    let id = letter(&first).id.to_string();
    let (mut post, mut now) = (first, NOW);
    let (mut calls, mut sizes) = (Vec::new(), BTreeSet::new());
    for round in 1..=RETRIES {
        now += 3_600_000;
        world.set_now(now);
        world.cloud.forget();
        let ran = world.run([&post]).await;
        let line = ran.letter(&post.id);
        assert_eq!(
            [&line["outcome"], &line["retry.number"], &line["letter.id"]],
            [&json!("delivered"), &json!(round), &json!(id)],
            "{line}"
        );
        let call: [Call; 1] = deliveries(&world.cloud).try_into().unwrap();
        let mark = mark_of(&call[0]);
        assert_eq!(mark, mark_text(u32::try_from(round).unwrap(), &id, NOW));
        sizes.insert(mark.len());
        // A minute later it is back.
        post = back(&call[0], &format!("m{round}")).sent(now + 60_000);
        calls.extend(call);
    }
    assert_eq!(sizes.len(), 1, "the mark grows: {sizes:?}");
    world.set_now(now + 3_600_000);
    world.cloud.forget();
    let ran = world.run([&post]).await;
    assert_eq!(ran.outcomes(), [format!("{} archived exhausted", post.id)]);
    assert_eq!(deliveries(&world.cloud), []);
    let record = archived(&world.cloud).remove(0);
    assert_eq!([&record["letterId"], &record["message"]["body"]], [&json!(id), &json!(post.body())]);
    calls
}

/// Its target tells at once that it failed: the letter stays, and after nine retries it is archived.
async fn stays(world: &World, post: &Post, attempts: impl Fn() -> usize) {
    for receive in 1..=RETRIES {
        let ran = world.run([&post.clone().received(u32::try_from(receive).unwrap())]).await;
        let line = ran.letter(&post.id);
        let outcome = if receive < RETRIES { "deferred failed" } else { "archived exhausted" };
        assert_eq!(ran.outcomes(), [format!("{} {outcome}", post.id)], "{line}");
        assert_eq!([&line["retry.number"], &line["retry.of"]], [&json!(receive), &json!(RETRIES)]);
        assert_eq!(attempts(), receive);
    }
    assert_eq!(archived(&world.cloud).len(), 1);
    assert_eq!(archived(&world.cloud)[0]["retry"], json!({ "number": RETRIES, "of": RETRIES }));
}

/// Retries without a delay, for letters that stay.
fn at_once(default: &Value) -> Value {
    let mut policy = policy(default, &json!([]));
    policy["default"]["deliveryPolicy"]["healthyRetryPolicy"]["numNoDelayRetries"] = json!(RETRIES);
    policy
}

/// What SQS moves here from a queue whose consumer failed three times.
fn moved(call: &Call, id: &str) -> Post {
    let entry = &call.entries[0];
    let queue = format!("arn:aws:sqs:eu-central-1:123456789012:{}", call.to);
    let mut post = Post::raw(id, &entry.body).moved_from(&queue).received(4);
    for (name, (kind, value)) in &entry.attributes {
        post = post.attribute(name, kind, value);
    }
    if let Some(group) = &entry.group_id {
        post = post.group(group);
    }
    post
}

/// A world whose queues move messages here after three receives.
fn world_of(policy: &Value, queues: &[&str], dlq: &str) -> World {
    let world = World::with_policy(policy);
    for queue in queues {
        let redrive = json!({ "deadLetterTargetArn": dlq, "maxReceiveCount": 3 }).to_string();
        world.cloud.queue(queue, &[("MessageRetentionPeriod", "1209600"), ("RedrivePolicy", &redrive)]);
    }
    world
}

fn first() -> Post {
    Post::envelope("a").sns_attribute("tenant", "String", "gold")
}

mod queues {
    use super::*;

    /// The consumer's dead-letter queue is this one too: from the second time on it is SQS that moves
    /// the letter, and its source gets it.
    #[tokio::test]
    async fn the_queue_of_a_subscription() {
        let world = world_of(&policy(&json!({}), &json!([])), &["orders-worker"], DLQ);
        let calls = goes_round(&world, first(), moved).await;
        for call in calls {
            assert_eq!(call.to, "orders-worker");
            assert_eq!(call.entries[0].body, first().body(), "body and signature are as they were");
        }
    }

    #[tokio::test]
    async fn the_fifo_queue_of_a_subscription() {
        let world = world_of(&policy(&json!({}), &json!([])), &["orders-worker.fifo"], FIFO_DLQ);
        let post = first().topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group("g");
        let calls = goes_round(&world, post, |call, id| moved(call, id).queue(FIFO_DLQ)).await;
        let ids: BTreeSet<_> =
            calls.iter().map(|call| call.entries[0].deduplication_id.clone().unwrap()).collect();
        assert_eq!(ids.len(), RETRIES, "a repeated id would be swallowed");
    }

    #[tokio::test]
    async fn the_source_queue() {
        for target in ["origin", "source"] {
            let policy = policy(&json!({ "target": target }), &json!([]));
            for post in [first(), Post::raw("a", "plain")] {
                let world = world_of(&policy, &["orders-billing"], DLQ);
                let calls = goes_round(&world, post.moved_from(BILLING).received(4), moved).await;
                assert!(calls.iter().all(|call| call.to == "orders-billing"));
            }
        }
    }

    #[tokio::test]
    async fn a_queue_that_a_rule_names() {
        let policy = policy(&json!({ "target": BILLING }), &json!([]));
        let world = world_of(&policy, &["orders-billing"], DLQ);
        goes_round(&world, first(), moved).await;
    }

    /// Raw letters carry the mark as the attribute that they came with.
    #[tokio::test]
    async fn the_queue_of_a_raw_subscription() {
        let policy = policy(&json!({ "subscription": SUBSCRIPTION }), &json!([]));
        let world = world_of(&policy, &[], DLQ);
        let back = |call: &Call, id: &str| {
            let entry = &call.entries[0];
            let (kind, mark) = &entry.attributes["sns-redrive"];
            Post::raw(id, &entry.body).attribute("sns-redrive", kind, mark)
        };
        goes_round(&world, Post::raw("a", "plain"), back).await;
    }

    #[tokio::test]
    async fn the_queue_of_an_eventbridge_rule() {
        let world = world_of(&policy(&json!({}), &json!([])), &["orders-billing"], DLQ);
        let post = Post::raw("a", r#"{"detail":{}}"#)
            .attribute("RULE_ARN", "String", "arn:aws:events:eu-central-1:123456789012:rule/shop")
            .attribute("TARGET_ARN", "String", BILLING)
            .attribute("ERROR_CODE", "String", "THROTTLING");
        let calls = goes_round(&world, post, moved).await;
        for call in calls {
            // What EventBridge said of its own failure is not the event's.
            assert_eq!(call.entries[0].attributes.keys().collect::<Vec<_>>(), ["sns-redrive"]);
        }
    }
}

mod topics {
    use super::*;

    #[tokio::test]
    async fn the_letters_topic() {
        for target in ["topic", TOPIC] {
            let world = world_of(&policy(&json!({ "target": target }), &json!([])), &[], DLQ);
            let calls = goes_round(&world, first(), |call, id| {
                let entry = &call.entries[0];
                let post = Post::envelope(id).message(&entry.body);
                entry
                    .attributes
                    .iter()
                    .fold(post, |post, (name, (kind, value))| post.sns_attribute(name, kind, value))
            })
            .await;
            assert_eq!(calls[RETRIES - 1].entries[0].attributes.len(), 2);
        }
    }
}

mod functions {
    use super::*;

    /// The function's own dead-letter queue; only the rule knows which function that was.
    fn from_async_queue(call: &Call, id: &str) -> Post {
        Post::raw(id, &call.entries[0].body)
            .attribute("RequestID", "String", "f90d1605-ec6d-4193-8adb-4e1528707ec2")
            .attribute("ErrorCode", "Number", "200")
            .attribute("ErrorMessage", "String", "relay is down")
    }

    /// The function's on-failure destination.
    fn from_destination(call: &Call, id: &str) -> Post {
        let event: Value = serde_json::from_str(&call.entries[0].body).unwrap();
        let record = json!({
            "version": "1.0",
            "requestContext": { "functionArn": format!("{NOTIFIER}:$LATEST"), "condition": "RetriesExhausted" },
            "requestPayload": event,
            "responsePayload": { "errorMessage": "relay is down", "errorType": "Error" },
        });
        Post::raw(id, &record.to_string())
    }

    fn subscribed() -> Post {
        first().subscription(LAMBDA_SUBSCRIPTION)
    }

    fn assert_asynchronous(calls: &[Call]) {
        for call in calls {
            assert_eq!(call.headers["x-amz-invocation-type"], "Event");
            let event: Value = serde_json::from_str(&call.entries[0].body).unwrap();
            let attributes = event["Records"][0]["Sns"]["MessageAttributes"].as_object().unwrap();
            assert_eq!(attributes.keys().collect::<Vec<_>>(), ["sns-redrive", "tenant"]);
            assert_eq!(event["Records"][0]["EventSubscriptionArn"], LAMBDA_SUBSCRIPTION);
        }
    }

    #[tokio::test]
    async fn a_subscriber_whose_failures_come_back_by_its_own_dead_letter_queue() {
        let rules =
            json!([{ "name": "notifier", "match": { "origin": ["lambda-async"] }, "target": NOTIFIER }]);
        let world = World::with_policy(&policy(&json!({}), &rules));
        assert_asynchronous(&goes_round(&world, subscribed(), from_async_queue).await);
    }

    #[tokio::test]
    async fn a_subscriber_whose_failures_come_back_by_its_destination() {
        let world = World::with_policy(&policy(&json!({}), &json!([])));
        assert_asynchronous(&goes_round(&world, subscribed(), from_destination).await);
    }

    /// Through the subscription that the event names, with all its checks.
    #[tokio::test]
    async fn a_subscriber_that_is_reached_by_its_subscription_each_time() {
        for back in [from_async_queue, from_destination] {
            let world = World::with_policy(&policy(&json!({ "target": "subscription" }), &json!([])));
            assert_asynchronous(&goes_round(&world, subscribed(), back).await);
        }
    }

    /// Lambda does not take the event: the letter stays, and is counted as any other that does.
    #[tokio::test]
    async fn a_subscriber_that_lambda_does_not_take_events_for() {
        let world = World::with_policy(&at_once(&json!({})));
        world.cloud.reply("Invoke", Reply::Fail(429, "TooManyRequestsException", "slow"));
        stays(&world, &subscribed(), || world.cloud.calls("Invoke").len()).await;
    }

    /// A plain event has no place for a mark. Were it sent asynchronously, the function's failure would
    /// come back as a new letter, for ever; so the function is waited for.
    #[tokio::test]
    async fn a_function_with_a_plain_event() {
        let plain = |id| Post::raw(id, r#"{"orderId":"o-1","S3CR3T":true}"#);
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
            ("origin", Post::raw("destination", &destination.to_string())),
            ("origin", eventbridge),
            (NOTIFIER, plain("raw")),
        ] {
            let world = World::with_policy(&at_once(&json!({ "target": target })));
            world.cloud.reply("Invoke", Reply::FunctionError);
            stays(&world, &post, || world.cloud.calls("Invoke").len()).await;
            for call in world.cloud.calls("Invoke") {
                assert_eq!(call.headers["x-amz-invocation-type"], "RequestResponse");
                assert!(!call.entries[0].body.contains("sns-redrive"));
            }
            let error = &archived(&world.cloud)[0]["error"];
            assert_eq!(error, &json!({ "code": "FunctionError", "class": "transient" }));
        }
    }
}

mod others {
    use super::*;

    fn world_at(protocol: &str, endpoint: &str) -> World {
        let policy = at_once(&json!({})).to_string();
        let world = World::new(&[("REDRIVE_POLICY", &policy), ("ALLOW_LOOPBACK_HTTP", "true")]);
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, protocol, endpoint, DLQ);
        world
    }

    /// A post is waited for, so its failure is known and counted.
    #[tokio::test]
    async fn a_web_server() {
        let server = Server::answering(503);
        let world = world_at("http", &server.url());
        stays(&world, &first(), || server.seen().len()).await;
        let sent: BTreeSet<_> = server.seen().into_iter().map(|request| request.body).collect();
        assert_eq!(sent, [first().body()].into(), "nothing is added to a signed body");
    }

    #[tokio::test]
    async fn a_stream() {
        let world = world_at("firehose", STREAM);
        let slow = EntryFate::Failed("ServiceUnavailableException", "Slow down.", false);
        world.cloud.reply("PutRecordBatch", Reply::Except(vec![(0, slow)]));
        stays(&world, &first(), || world.cloud.calls("PutRecordBatch").len()).await;
    }

    #[tokio::test]
    async fn a_subscription_that_cannot_be_looked_up() {
        let world = World::with_policy(&at_once(&json!({})));
        world.cloud.reply("GetSubscriptionAttributes", Reply::Fail(403, "AuthorizationError", "no"));
        stays(&world, &first(), || world.cloud.calls("GetSubscriptionAttributes").len()).await;
        assert_eq!(deliveries(&world.cloud), []);
    }
}

//! P7: no loop without a count. Whatever the target, a letter that always fails there ends in the
//! archive after its last retry, and its mark does not grow on the way.

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
        "origins": { "*": ["lambda-async", "lambda-destination", "eventbridge"] },
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
    let message = letter(&first).message().into_owned();
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
        let sent = u32::try_from(round).unwrap();
        let expected = mark_again(sent, sent, &id, NOW, &message);
        let once = calls.iter().chain(&call).any(|call: &Call| call.op == "PublishBatch");
        assert_eq!(mark, if once { published(&expected, 1) } else { expected });
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
    assert!(calls.iter().filter(|call| call.op == "PublishBatch").count() <= 1, "{calls:?}");
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

/// What SNS puts here where a copy of what was published fails at a subscription.
fn copy_at(call: &Call, id: &str, subscription: &str) -> Post {
    let entry = &call.entries[0];
    let topic = subscription.rsplit_once(':').unwrap().0;
    let post = Post::envelope(id).message(&entry.body).topic(topic).subscription(subscription);
    let attributes = entry.attributes.iter();
    attributes.fold(post, |post, (name, (kind, value))| post.sns_attribute(name, kind, value))
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

    /// Every subscriber gets it once; from then on only the one that fails.
    #[tokio::test]
    async fn the_letters_topic() {
        for target in ["topic", TOPIC] {
            let policy = policy(&json!({ "target": target }), &json!([]));
            let world = world_of(&policy, &["orders-worker"], DLQ);
            let calls = goes_round(&world, first(), |call, id| match call.op.as_str() {
                "PublishBatch" => copy_at(call, id, SUBSCRIPTION),
                _ => moved(call, id),
            })
            .await;
            assert_eq!(calls[0].op, "PublishBatch");
            assert!(calls[1..].iter().all(|call| call.to == "orders-worker"));
        }
    }

    /// Only SNS can write to a phone: there is no other way than the topic.
    #[tokio::test]
    async fn the_letters_topic_again_where_only_sns_reaches_the_subscriber() {
        let world = world_of(&policy(&json!({ "target": "topic" }), &json!([])), &[], DLQ);
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "sms", "+49301234567", DLQ);
        let (mut post, mut now) = (first(), NOW);
        for round in 1..=RETRIES {
            now += 3_600_000;
            world.set_now(now);
            world.cloud.forget();
            let ran = world.run([&post]).await;
            assert_eq!(ran.letter(&post.id)["retry.number"], json!(round));
            let [call] = deliveries(&world.cloud).try_into().unwrap();
            let Call { ref op, .. } = call;
            assert_eq!(op, "PublishBatch");
            post = copy_at(&call, &format!("m{round}"), SUBSCRIPTION).sent(now + 60_000);
        }
        world.set_now(now + 3_600_000);
        assert_eq!(world.run([&post]).await.outcomes(), [format!("m{RETRIES} archived exhausted")]);
    }
}

mod functions {
    use super::*;

    /// The function's own dead-letter queue; only the rule knows which function that was.
    fn from_async_queue(call: &Call, id: &str) -> Post {
        by_async_queue(id, &call.entries[0].body)
    }

    fn by_async_queue(id: &str, event: &str) -> Post {
        Post::raw(id, event)
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

    /// The event that SNS makes of what was published, or the one that was invoked with, in the function's own dead-letter
    /// queue.
    fn failed_event(call: &Call, id: &str) -> Post {
        if call.op == "Invoke" {
            return from_async_queue(call, id);
        }
        let entry = &call.entries[0];
        let attributes: serde_json::Map<_, _> = entry
            .attributes
            .iter()
            .map(|(name, (kind, value))| (name.clone(), json!({ "Type": kind, "Value": value })))
            .collect();
        event_of(id, &entry.body, &attributes)
    }

    fn event_of(id: &str, message: &str, attributes: &serde_json::Map<String, Value>) -> Post {
        let event = json!({ "Records": [{
            "EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": LAMBDA_SUBSCRIPTION,
            "Sns": { "Type": "Notification", "MessageId": id, "TopicArn": TOPIC, "Message": message,
                "MessageAttributes": attributes },
        }] });
        by_async_queue(id, &event.to_string())
    }

    fn first_event() -> Post {
        event_of("a", "hello", &serde_json::Map::new())
    }

    /// The subscription's own dead letters lie elsewhere: it is the function's queue that this is.
    fn elsewhere(world: &World) {
        let dlq = "arn:aws:sqs:eu-central-1:123456789012:of-the-subscription";
        world.cloud.subscribe_endpoint(LAMBDA_SUBSCRIPTION, TOPIC, "lambda", NOTIFIER, dlq);
    }

    /// Published once, and from then on to the function alone.
    #[tokio::test]
    async fn a_subscriber_whose_letters_come_by_its_own_dead_letter_queue_under_topic() {
        let world = World::with_policy(&policy(&json!({ "target": "topic" }), &json!([])));
        elsewhere(&world);
        let calls = goes_round(&world, first_event(), failed_event).await;
        assert_eq!(calls[0].op, "PublishBatch");
        assert!(calls[1..].iter().all(|call| call.to == "orders-notifier"));
    }

    /// Without the origin in its policy it is raw, and yet its mark in the event counts.
    #[tokio::test]
    async fn a_subscriber_whose_letters_are_not_listed_is_published_to_once() {
        let mut policy = policy(&json!({ "target": TOPIC }), &json!([]));
        policy["origins"] = json!({});
        let world = World::with_policy(&policy);
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

/// Publishing makes a copy for every subscriber, and each can fail: how many letters become of one?
mod copies {
    use super::*;

    const ANOTHER_TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:another";

    /// How a subscriber fails.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Failing {
        /// Its queue is gone: SNS gives up, and so does each retry.
        Gone,
        /// Its queue takes everything, and its consumer fails: SQS moves the letter here.
        Consumer,
        /// Only SNS can reach it, and cannot.
        Phone,
    }

    /// A topic with `n` subscriptions, all with this dead-letter queue, of which the first `k` fail.
    struct Subscribers {
        topic: &'static str,
        n: usize,
        k: usize,
        raw: bool,
        failing: Failing,
    }

    impl Subscribers {
        fn subscription(&self, number: usize) -> String {
            format!("{}:0000000{number}-c7a1-4d55-b1ec-5f3a2c9d8e70", self.topic)
        }

        fn queue(number: usize) -> String {
            format!("arn:aws:sqs:eu-central-1:123456789012:subscriber-{number}")
        }

        fn world(&self, policy: &Value) -> World {
            let world = World::with_policy(policy);
            for number in 0..self.n {
                let queue = Self::queue(number);
                let phone = self.failing == Failing::Phone && number == 0;
                let (protocol, endpoint) =
                    if phone { ("sms", "+49301234567") } else { ("sqs", queue.as_str()) };
                let subscription = self.subscription(number);
                world.cloud.subscribe_endpoint(&subscription, self.topic, protocol, endpoint, DLQ);
                let redrive = json!({ "deadLetterTargetArn": DLQ, "maxReceiveCount": 3 }).to_string();
                let attributes = [("MessageRetentionPeriod", "1209600"), ("RedrivePolicy", &redrive)];
                world.cloud.queue(&format!("subscriber-{number}"), &attributes);
            }
            let gone = self.failing != Failing::Consumer;
            let fails: Vec<_> = (0..self.k).map(|number| format!("subscriber-{number}")).collect();
            world.cloud.script(move |call| {
                if gone && call.op == "SendMessageBatch" && fails.contains(&call.to) {
                    Reply::Fail(400, "AWS.SimpleQueueService.NonExistentQueue", "gone")
                } else {
                    Reply::Accept
                }
            });
            world
        }

        /// What a delivery that was taken leaves in the dead-letter queue, later.
        fn letters_of(&self, call: &Call, id: &str) -> Vec<Post> {
            if call.op != "PublishBatch" {
                let failing = |number: &usize| Self::queue(*number).ends_with(&format!(":{}", call.to));
                return if (0..self.k).any(|number| failing(&number)) {
                    vec![moved(call, id)]
                } else {
                    Vec::new()
                };
            }
            (0..self.k)
                .map(|number| {
                    let id = format!("{id}-{number}");
                    match (self.failing, self.raw) {
                        (Failing::Consumer, _) => {
                            let mut at_consumer = call.clone();
                            at_consumer.to = format!("subscriber-{number}");
                            if !self.raw {
                                let copy = copy_at(call, &id, &self.subscription(number));
                                at_consumer.entries[0].body = copy.body();
                                at_consumer.entries[0].attributes.clear();
                            }
                            moved(&at_consumer, &id)
                        }
                        (Failing::Gone | Failing::Phone, true) => {
                            let entry = &call.entries[0];
                            let post = Post::raw(&id, &entry.body);
                            let attributes = entry.attributes.iter();
                            attributes
                                .fold(post, |post, (name, (kind, value))| post.attribute(name, kind, value))
                        }
                        (Failing::Gone | Failing::Phone, false) => {
                            copy_at(call, &id, &self.subscription(number))
                        }
                    }
                })
                .collect()
        }

        /// Runs one dead letter until nothing is left of it: how often something was sent, and how often to the topic.
        async fn run(&self, policy: &Value, first: Post) -> (usize, usize) {
            let world = self.world(policy);
            let mut left = vec![(first, 1)];
            let (mut sends, mut publishes, mut now) = (0, 0, NOW);
            while let Some((post, receives)) = left.pop() {
                now += 1_000;
                world.set_now(now);
                world.cloud.forget();
                let ran = world.run([&post.clone().received(receives)]).await;
                let calls = deliveries(&world.cloud);
                sends += calls.len();
                publishes += calls.iter().filter(|call| call.op == "PublishBatch").count();
                assert!(sends < 10_000, "letters multiply: {sends} sends, {} letters left", left.len());
                match ran.letter(&post.id)["outcome"].as_str().unwrap() {
                    "delivered" => {
                        let posts = self.letters_of(&calls[0], &format!("m{sends}"));
                        left.extend(posts.into_iter().map(|post| {
                            let receives = if moved_here(&post) { 4 } else { 1 };
                            (post.sent(now), receives)
                        }));
                    }
                    "deferred" => left.push((post, receives + 1)),
                    outcome => assert_eq!(outcome, "archived", "{}", ran.text),
                }
            }
            (sends, publishes)
        }
    }

    fn moved_here(post: &Post) -> bool {
        post.system.contains_key("DeadLetterQueueSourceArn")
    }

    #[tokio::test]
    async fn sends_are_bounded_by_retries_times_failing_subscribers() {
        for (n, k) in [(1, 1), (2, 2), (4, 2), (4, 3)] {
            for failing in [Failing::Gone, Failing::Consumer, Failing::Phone] {
                for (target, topic) in [("topic", TOPIC), (TOPIC, TOPIC), (ANOTHER_TOPIC, ANOTHER_TOPIC)] {
                    for (raw, named) in [(false, false), (true, false), (true, true)] {
                        let subscribers = Subscribers { topic, n, k, raw, failing };
                        let mut default = json!({ "target": target });
                        if named {
                            default["subscription"] = subscribers.subscription(0).into();
                        }
                        let first = if raw && failing != Failing::Consumer && target != "topic" {
                            Post::raw("a", "plain")
                        } else {
                            first().topic(topic).subscription(&subscribers.subscription(0))
                        };
                        let (sends, publishes) = subscribers.run(&at_once(&default), first).await;
                        let case =
                            format!("{target}, {k} of {n} fail: {failing:?}, raw {raw}, named {named}");
                        assert!(sends >= 1, "{case}: nothing was sent");
                        assert!(sends <= RETRIES * k, "{case}: {sends} sends");
                        let most = if failing == Failing::Phone { RETRIES } else { 1 };
                        assert!(publishes <= most, "{case}: published {publishes} times");
                    }
                }
            }
        }
    }

    /// A consumer that copies our mark onto messages of its own: each is a new letter, and yet there is an end.
    #[tokio::test]
    async fn messages_that_carry_a_copied_mark_end_after_a_hundred_passes() {
        let world = world_of(&policy(&json!({}), &json!([])), &["orders-worker"], DLQ);
        let (mut post, mut now, mut sends) = (first(), NOW, 0);
        loop {
            now += 3_600_000;
            world.set_now(now);
            world.cloud.forget();
            let ran = world.run([&post]).await;
            let line = ran.letter(&post.id);
            if line["outcome"] == "archived" {
                assert_eq!([&line["reason"], &line["letter.id"]], ["loop", post.id.as_str()], "{line}");
                assert_eq!(ran.metrics()["ArchivedLoop"], 1);
                break;
            }
            // It is a letter of its own, so its retries begin at 1.
            assert_eq!([&line["outcome"], &line["retry.number"]], [&json!("delivered"), &json!(1)], "{line}");
            sends += 1;
            let mut call = deliveries(&world.cloud).remove(0);
            call.entries[0].body = format!("the consumer's message number {sends}");
            post = moved(&call, &format!("m{sends}")).sent(now);
        }
        assert_eq!(sends, 100);
    }
}

//! Publishing makes a copy for every subscriber, and each copy can fail. These tests count the letters that
//! result from one.

use super::*;

const ANOTHER_TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:another";

/// The way in which a subscriber fails.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SubscriberFailure {
    /// Its queue is gone. SNS gives up, and each retry fails.
    Gone,
    /// Its queue takes everything and its consumer fails, so SQS moves the letter here.
    Consumer,
    /// Only SNS can reach it, and fails.
    Phone,
}

/// A topic with `n` subscriptions that share this dead-letter queue. The first `k` of them fail.
struct FailingSubscribers {
    topic: &'static str,
    n: usize,
    k: usize,
    raw: bool,
    failing: SubscriberFailure,
}

impl FailingSubscribers {
    fn subscription(&self, number: usize) -> String {
        format!("{}:0000000{number}-c7a1-4d55-b1ec-5f3a2c9d8e70", self.topic)
    }

    fn queue(number: usize) -> String {
        format!("arn:aws:sqs:eu-central-1:123456789012:subscriber-{number}")
    }

    fn world(&self, policy: &Value) -> FunctionWorld {
        let world = FunctionWorld::with_policy(policy);
        world.cloud.topic("another", 256 * 1024);
        for number in 0..self.n {
            let queue = Self::queue(number);
            let phone = self.failing == SubscriberFailure::Phone && number == 0;
            let (protocol, endpoint) = if phone { ("sms", "+49301234567") } else { ("sqs", queue.as_str()) };
            let subscription = self.subscription(number);
            world.cloud.subscribe_endpoint(&subscription, self.topic, protocol, endpoint, DLQ);
            let redrive = json!({ "deadLetterTargetArn": DLQ, "maxReceiveCount": 3 }).to_string();
            let attributes = [("MessageRetentionPeriod", "1209600"), ("RedrivePolicy", &redrive)];
            world.cloud.queue(&format!("subscriber-{number}"), &attributes);
        }
        let gone = self.failing != SubscriberFailure::Consumer;
        let fails: Vec<_> = (0..self.k).map(|number| format!("subscriber-{number}")).collect();
        world.cloud.script(move |call| {
            if gone && call.operation == "SendMessageBatch" && fails.contains(&call.target) {
                SimFault::refuse(400, "AWS.SimpleQueueService.NonExistentQueue", "gone")
            } else {
                SimFault::Pass
            }
        });
        world
    }

    /// Returns the letters that an accepted delivery later leaves in the dead-letter queue.
    fn letters_of(&self, call: &SimCall, id: &str) -> Vec<RecordBuilder> {
        if call.operation != "PublishBatch" {
            let failing = |number: &usize| Self::queue(*number).ends_with(&format!(":{}", call.target));
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
                    (SubscriberFailure::Consumer, _) => {
                        let mut at_consumer = call.clone();
                        at_consumer.target = format!("subscriber-{number}");
                        if !self.raw {
                            let copy = copy_at(call, &id, &self.subscription(number));
                            at_consumer.entries[0].body = copy.body();
                            at_consumer.entries[0].attributes.clear();
                        }
                        moved(&at_consumer, &id)
                    }
                    (SubscriberFailure::Gone | SubscriberFailure::Phone, true) => {
                        let entry = &call.entries[0];
                        let post = RecordBuilder::raw(&id, &entry.body);
                        let attributes = entry.attributes.iter();
                        attributes
                            .fold(post, |post, (name, it)| post.attribute(name, &it.kind, &it.value.text()))
                    }
                    (SubscriberFailure::Gone | SubscriberFailure::Phone, false) => {
                        copy_at(call, &id, &self.subscription(number))
                    }
                }
            })
            .collect()
    }

    /// Runs one dead letter until nothing is left of it. Returns the number of sends, and of those to the
    /// topic.
    async fn run(&self, policy: &Value, first: RecordBuilder) -> (usize, usize) {
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
            publishes += calls.iter().filter(|call| call.operation == "PublishBatch").count();
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

fn moved_here(post: &RecordBuilder) -> bool {
    post.system.contains_key("DeadLetterQueueSourceArn")
}

#[tokio::test]
async fn sends_are_bounded_by_retries_times_failing_subscribers() {
    for (n, k) in [(1, 1), (2, 2), (4, 2), (4, 3)] {
        for failing in [SubscriberFailure::Gone, SubscriberFailure::Consumer, SubscriberFailure::Phone] {
            for (target, topic) in [("topic", TOPIC), (TOPIC, TOPIC), (ANOTHER_TOPIC, ANOTHER_TOPIC)] {
                for (raw, named) in [(false, false), (true, false), (true, true)] {
                    let subscribers = FailingSubscribers { topic, n, k, raw, failing };
                    let mut default = json!({ "target": target });
                    if named {
                        default["subscription"] = subscribers.subscription(0).into();
                    }
                    let first = if raw && failing != SubscriberFailure::Consumer && target != "topic" {
                        RecordBuilder::raw("a", "plain")
                    } else {
                        first().topic(topic).subscription(&subscribers.subscription(0))
                    };
                    let (sends, publishes) = subscribers.run(&at_once(&default), first).await;
                    let case = format!("{target}, {k} of {n} fail: {failing:?}, raw {raw}, named {named}");
                    assert!(sends >= 1, "{case}: nothing was sent");
                    assert!(sends <= RETRIES * k, "{case}: {sends} sends");
                    let most = if failing == SubscriberFailure::Phone { RETRIES } else { 1 };
                    assert!(publishes <= most, "{case}: published {publishes} times");
                }
            }
        }
    }
}

/// A consumer copies our mark onto its own messages. Each is a new letter, but there is still an end.
#[tokio::test]
async fn messages_that_carry_a_copied_mark_end_after_a_hundred_passes() {
    let world = world_of(&policy(&json!({}), &json!([])), &["payments-worker"], DLQ);
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

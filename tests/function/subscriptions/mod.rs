//! P5: a letter goes to the endpoint of the subscription that failed, and only if the subscription
//! itself points its dead letters at this queue.

use std::time::Duration;

use serde_json::json;
use support::*;

const OTHER_DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:other-dlq";
const OTHER_TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:invoices";

/// A world in which one attribute of the subscription differs from what the letter needs.
fn world_with(attribute: &str, value: &str) -> World {
    let world = World::new(&[]);
    world.cloud.resubscribe(SUBSCRIPTION, attribute, value);
    world
}

fn names(dlq: &str) -> String {
    json!({ "deadLetterTargetArn": dlq }).to_string()
}

/// The letter is archived with this reason and detail, and nothing was sent anywhere.
async fn archived_unsent(world: &World, post: &Post, reason: &str, detail: &str) {
    let ran = world.run([post]).await;
    let line = ran.letter(&post.id);
    assert_eq!(
        [&line["outcome"], &line["reason"], &line["detail"], &line["target.arn"]],
        [&json!("archived"), &json!(reason), &json!(detail), &json!(null)]
    );
    assert_eq!(ran.kept, [""; 0]);
    for op in ["SendMessageBatch", "PublishBatch", "Invoke", "PutRecordBatch"] {
        assert_eq!(world.cloud.calls(op), []);
    }
    assert_eq!(world.cloud.calls("PutObject").len(), 1);
}

mod checks {
    use super::*;

    #[tokio::test]
    async fn a_letter_whose_subscription_passes_is_delivered_to_its_endpoint() {
        let world = World::new(&[]);
        let post = Post::envelope("a");
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(ran.letter("a")["target.arn"], WORKER);
        assert_eq!(
            world.cloud.summary(),
            [
                "GetQueueAttributes orders-dlq".to_owned(),
                format!("GetSubscriptionAttributes {SUBSCRIPTION}"),
                "SendMessageBatch orders-worker 1".to_owned(),
            ]
        );
    }

    #[tokio::test]
    async fn an_unknown_subscription_is_refused() {
        let world = World::new(&[]);
        world.cloud.unsubscribe(SUBSCRIPTION);
        archived_unsent(&world, &Post::envelope("a"), "refused", "the subscription does not exist").await;
    }

    #[tokio::test]
    async fn a_subscription_of_another_topic_than_the_letter_is_refused() {
        let world = world_with("TopicArn", OTHER_TOPIC);
        let detail = "the subscription belongs to another topic";
        archived_unsent(&world, &Post::envelope("a"), "refused", detail).await;

        // The same when it is the letter that names another topic.
        let world = World::new(&[]);
        archived_unsent(&world, &Post::envelope("a").topic(OTHER_TOPIC), "refused", detail).await;
    }

    #[tokio::test]
    async fn a_subscription_that_does_not_name_this_queue_is_refused() {
        let detail = "the subscription does not name this queue as its dead-letter target";
        for redrive_policy in [names(OTHER_DLQ), names(FIFO_DLQ), "{}".into(), "never".into(), String::new()]
        {
            let world = world_with("RedrivePolicy", &redrive_policy);
            archived_unsent(&world, &Post::envelope("a"), "refused", detail).await;
        }
        let world = World::new(&[]);
        world
            .cloud
            .subscribe(SUBSCRIPTION, &[("TopicArn", TOPIC), ("Protocol", "sqs"), ("Endpoint", WORKER)]);
        archived_unsent(&world, &Post::envelope("a"), "refused", detail).await;
    }

    #[tokio::test]
    async fn a_subscription_that_nobody_confirmed_is_refused() {
        let world = world_with("PendingConfirmation", "true");
        archived_unsent(&world, &Post::envelope("a"), "refused", "the subscription is not confirmed").await;
    }

    #[tokio::test]
    async fn endpoints_that_only_sns_can_reach_are_undeliverable() {
        for (protocol, endpoint) in [
            ("email", "orders@example.com"),
            ("email-json", "orders@example.com"),
            ("sms", "+491700000000"),
            ("application", "arn:aws:sns:eu-central-1:123456789012:endpoint/GCM/app/1"),
            ("carrier-pigeon", "orders-worker"),
            // Endpoints that are none of their protocol.
            ("sqs", "orders-worker"),
            ("sqs", TOPIC),
            ("lambda", WORKER),
            ("firehose", NOTIFIER),
        ] {
            let world = world_with("Protocol", protocol);
            world.cloud.resubscribe(SUBSCRIPTION, "Endpoint", endpoint);
            let detail = format!("nobody but SNS can deliver by the protocol {protocol:?}");
            archived_unsent(&world, &Post::envelope("a"), "undeliverable_protocol", &detail).await;
        }
    }

    #[tokio::test]
    async fn urls_that_nobody_can_post_to_are_undeliverable_and_say_why() {
        let masked = "SNS masks the password of the endpoint (****), so nobody but SNS can post to it";
        let no_http = "the endpoint is not an http or https URL";
        for (endpoint, detail) in [
            ("https://shop:****@example.com/orders", masked),
            ("https://****@example.com/orders", masked),
            ("https://:****@example.com/orders", masked),
            ("ftp://example.com/orders", no_http),
            ("file:///etc/passwd", no_http),
            ("example.com/orders", no_http),
            ("", no_http),
        ] {
            for protocol in ["http", "https"] {
                let world = world_with("Protocol", protocol);
                world.cloud.resubscribe(SUBSCRIPTION, "Endpoint", endpoint);
                archived_unsent(&world, &Post::envelope("a"), "undeliverable_protocol", detail).await;
            }
        }
    }

    #[tokio::test]
    async fn a_subscription_whose_endpoint_is_the_dead_letter_queue_itself_is_refused() {
        let world = world_with("Endpoint", DLQ);
        let detail = "the target is a queue that feeds this function";
        archived_unsent(&world, &Post::envelope("a"), "refused", detail).await;
    }

    /// A raw letter names nothing: its rule does, and the subscription must still name this queue.
    #[tokio::test]
    async fn a_raw_letter_goes_to_the_subscription_of_its_rule_after_the_same_check() {
        let policy = json!({ "default": { "subscription": SUBSCRIPTION } });
        let world = World::with_policy(&policy);
        let post = Post::raw("r", "plain").attribute("tenant", "String", "gold");
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["r delivered"]);
        assert_eq!(world.cloud.calls("SendMessageBatch")[0].summary(), "SendMessageBatch orders-worker 1");

        let world = World::with_policy(&policy);
        world.cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", &names(OTHER_DLQ));
        let detail = "the subscription does not name this queue as its dead-letter target";
        archived_unsent(&world, &post, "refused", detail).await;
    }

    /// The region of an ARN becomes a part of the host that is called.
    #[tokio::test]
    async fn a_letter_cannot_choose_the_host_that_is_asked() {
        for region in ["x.evil.example/", "x.evil.example#", "x@evil.example?", "x.evil.example", "EU%2f", ""]
        {
            let forged = format!("arn:aws:sns:{region}:123456789012:orders:43fe80b0");
            let world = World::new(&[]);
            let ran = world.run([&Post::envelope("a").subscription(&forged)]).await;
            let reason = if region.is_empty() { "refused" } else { "unrecognised" };
            assert_eq!(ran.outcomes(), [format!("a archived {reason}")], "{region}");
            let hosts: Vec<_> = world.cloud.journal().into_iter().map(|call| call.host).collect();
            assert_eq!(
                hosts,
                ["sqs.eu-central-1.amazonaws.com", "graveyard.s3.eu-central-1.amazonaws.com"],
                "{region}"
            );
        }
    }

    #[tokio::test]
    async fn a_subscription_is_asked_for_in_its_own_region() {
        let elsewhere = "arn:aws:sns:us-east-1:123456789012:orders:43fe80b0";
        let topic = "arn:aws:sns:us-east-1:123456789012:orders";
        let dlq = "arn:aws:sqs:us-east-1:123456789012:orders-dlq";
        let world = World::new(&[]);
        world.cloud.subscribe(
            elsewhere,
            &[("TopicArn", topic), ("Protocol", "sqs"), ("Endpoint", WORKER), ("RedrivePolicy", &names(dlq))],
        );
        let ran = world.run([&Post::envelope("a").topic(topic).subscription(elsewhere).queue(dlq)]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(world.cloud.calls("GetSubscriptionAttributes")[0].host, "sns.us-east-1.amazonaws.com");
    }
}

mod which_queue {
    use super::*;

    fn marked(dlq: &str) -> Post {
        let mark = json!({ "v": 1, "spent": 0, "id": "x", "first": NOW, "gen": 0, "dlq": dlq });
        Post::envelope("a").sqs_mark(&mark)
    }

    const NOT_THIS: &str = "the subscription does not name this queue as its dead-letter target";

    /// Whoever can write to the queue can write a mark: the event source decides.
    #[tokio::test]
    async fn a_mark_that_names_another_queue_is_not_believed_in_a_dead_letter_queue() {
        for settings in [vec![], vec![("REQUEUE_ARN", REQUEUE)]] {
            let world = World::new(&settings);
            world.cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", &names(OTHER_DLQ));
            archived_unsent(&world, &marked(OTHER_DLQ), "refused", NOT_THIS).await;

            let world = World::new(&settings);
            assert_eq!(world.run([&marked(OTHER_DLQ)]).await.outcomes(), ["a delivered"]);
        }
    }

    #[tokio::test]
    async fn in_the_requeue_the_mark_says_which_queue_the_letter_came_from() {
        let world = World::new(&[("REQUEUE_ARN", REQUEUE)]);
        assert_eq!(world.run([&marked(DLQ).queue(REQUEUE)]).await.outcomes(), ["a delivered"]);

        let world = World::new(&[("REQUEUE_ARN", REQUEUE)]);
        archived_unsent(&world, &marked(OTHER_DLQ).queue(REQUEUE), "refused", NOT_THIS).await;

        // Without a mark it came from the requeue, which no subscription names.
        let world = World::new(&[("REQUEUE_ARN", REQUEUE)]);
        archived_unsent(&world, &Post::envelope("a").queue(REQUEUE), "refused", NOT_THIS).await;

        // A queue that is not the requeue by the settings is none.
        let world = World::new(&[]);
        archived_unsent(&world, &marked(DLQ).queue(REQUEUE), "refused", NOT_THIS).await;
    }
}

mod asking {
    use super::*;

    fn asked(world: &World) -> usize {
        world.cloud.calls("GetSubscriptionAttributes").len()
    }

    fn ten() -> Vec<Post> {
        (0..10).map(|number| Post::envelope(&format!("m{number}"))).collect()
    }

    #[tokio::test]
    async fn ten_letters_of_a_subscription_cost_one_call_and_the_next_batch_none() {
        let world = World::new(&[]);
        assert_eq!(world.run(&ten()).await.kept, [""; 0]);
        assert_eq!(
            world.cloud.summary(),
            [
                "GetQueueAttributes orders-dlq".to_owned(),
                format!("GetSubscriptionAttributes {SUBSCRIPTION}"),
                "SendMessageBatch orders-worker 10".to_owned(),
            ]
        );
        world.cloud.forget();
        assert_eq!(world.run(&ten()).await.kept, [""; 0]);
        assert_eq!(world.cloud.summary(), ["SendMessageBatch orders-worker 10"]);
    }

    #[tokio::test]
    async fn an_answer_is_believed_for_five_minutes() {
        let world = World::new(&[]);
        world.run(&ten()).await;
        // The endpoint moves.
        world.cloud.resubscribe(SUBSCRIPTION, "Endpoint", BILLING);
        for (seconds, calls, target) in
            [(299, 1, WORKER), (1, 2, BILLING), (299, 2, BILLING), (1, 3, BILLING)]
        {
            world.pass(seconds);
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!((asked(&world), ran.letter("a")["target.arn"].as_str()), (calls, Some(target)));
        }
    }

    #[tokio::test]
    async fn that_a_subscription_does_not_exist_is_an_answer_too() {
        let world = World::new(&[]);
        world.cloud.unsubscribe(SUBSCRIPTION);
        for _ in 0..3 {
            assert_eq!(world.run([&Post::envelope("a")]).await.outcomes(), ["a archived refused"]);
        }
        assert_eq!(asked(&world), 1);
    }

    /// A failed check is a failed attempt: the letter goes on along its schedule and is archived by
    /// nobody.
    #[tokio::test]
    async fn a_check_that_could_not_be_made_is_a_failed_attempt_and_no_refusal() {
        for (reply, code, class) in [
            (Reply::Fail(400, "Throttling", "Rate exceeded"), "Throttling", "throttling"),
            (Reply::Fail(429, "Throttled", "Rate exceeded"), "Throttled", "throttling"),
            (Reply::Fail(403, "AuthorizationError", "no"), "AuthorizationError", "action_required"),
            (Reply::Fail(403, "InvalidClientTokenId", "no"), "InvalidClientTokenId", "action_required"),
            (Reply::Fail(500, "InternalError", "oh"), "InternalError", "transient"),
            (Reply::Nonsense(503, "<html>"), "Http503", "transient"),
            (Reply::Nonsense(200, "<html>"), "Http200", "transient"),
            (Reply::Reset, "Unreachable", "transient"),
            (Reply::NoConnection, "Timeout", "transient"),
        ] {
            let world = World::new(&[]);
            world.cloud.reply("GetSubscriptionAttributes", reply);
            let ran = world.run(&ten()).await;
            let line = ran.letter("m0");
            assert_eq!(
                [
                    &line["outcome"],
                    &line["reason"],
                    &line["retry.number"],
                    &line["error.code"],
                    &line["error.class"]
                ],
                [&json!("deferred"), &json!("failed"), &json!(1), &json!(code), &json!(class)]
            );
            assert_eq!(ran.kept.len(), 10, "{code}");
            let hidden = world.cloud.hidden();
            assert!(hidden.len() == 10 && hidden.values().all(|seconds| (54..=60).contains(seconds)));
            assert_eq!(asked(&world), 1);

            // Errors are not kept: the next batch asks again.
            world.cloud.script(|_| Reply::Accept);
            world.pass(60);
            let again: Vec<_> = ten().into_iter().map(|post| post.received(2)).collect();
            assert_eq!(world.run(&again).await.kept, [""; 0]);
            assert_eq!(asked(&world), 2);
        }
    }

    /// An answer that says nothing is a check that could not be made, not a refusal.
    #[tokio::test]
    async fn an_answer_without_attributes_is_a_failed_attempt_and_is_not_kept() {
        let world = World::new(&[]);
        world.cloud.subscribe(SUBSCRIPTION, &[]);
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        assert_eq!(ran.letter("a")["error.code"], "NoAnswer");
        world.run([&Post::envelope("b")]).await;
        assert_eq!(world.cloud.calls("GetSubscriptionAttributes").len(), 2);
    }

    #[tokio::test]
    async fn one_failing_subscription_is_none_of_the_others() {
        let world = World::new(&[]);
        world.cloud.script(|call| {
            if call.to == BILLING_SUBSCRIPTION { Reply::Fail(400, "Throttling", "") } else { Reply::Accept }
        });
        let billing = Post::envelope("b").subscription(BILLING_SUBSCRIPTION);
        let ran = world.run([&Post::envelope("a"), &billing, &Post::envelope("c")]).await;
        assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "c delivered"]);
    }

    /// The quota of the call is small: a batch of many subscriptions asks for four at a time.
    #[tokio::test]
    async fn four_subscriptions_are_asked_about_at_a_time() {
        let world = World::new(&[]);
        world.cloud.script(|call| match call.op.as_str() {
            "GetSubscriptionAttributes" => Reply::Slow(Duration::from_millis(200)),
            _ => Reply::Accept,
        });
        let posts: Vec<_> = (0..10)
            .map(|number| Post::envelope(&format!("m{number}")).subscription(&format!("{TOPIC}:{number}")))
            .collect();
        let ran = world.run(&posts).await;
        assert!(ran.outcomes().iter().all(|outcome| outcome.ends_with("archived refused")));
        assert_eq!((asked(&world), world.cloud.peak()), (10, 4));
    }

    #[tokio::test]
    async fn a_subscription_that_never_answers_keeps_none_of_the_others() {
        let world = World::new(&[]).with_time(Duration::from_secs(2));
        world.cloud.script(|call| if call.to == BILLING_SUBSCRIPTION { Reply::Hang } else { Reply::Accept });
        let billing = Post::envelope("b").subscription(BILLING_SUBSCRIPTION);
        let ran = world.run([&Post::envelope("a"), &billing, &Post::raw("r", "x")]).await;
        assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "r archived unrecognised"]);
    }

    #[tokio::test]
    async fn a_subscription_that_never_answers_is_a_failed_attempt_within_the_time() {
        let world = World::new(&[]).with_time(Duration::from_secs(2));
        world.cloud.reply("GetSubscriptionAttributes", Reply::Hang);
        let began = std::time::Instant::now();
        let ran = world.run([&Post::envelope("a")]).await;
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        assert_eq!(ran.letter("a")["error.code"], "DeadlineExceeded");
        assert_eq!(ran.kept, ["a"]);
    }
}

/// A publisher of a raw subscription's topic writes the whole letter, an envelope of another subscription too. Only
/// where the queue is shared does that reach anybody.
mod sharing {
    use super::*;
    use serde_json::Value;

    const RAW: &str = OTHER_SUBSCRIPTION;

    /// A world with a raw subscription of another topic that shares the queue, and a rule for its letters.
    fn world_of(default: &Value, rule: &Value) -> World {
        let mut raw = json!({ "name": "raw", "match": { "origin": ["raw"] }, "subscription": RAW });
        raw.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
        let world = World::with_policy(&json!({ "default": default, "rules": [raw] }));
        let topic = RAW.rsplit_once(':').unwrap().0;
        world.cloud.subscribe_endpoint(RAW, topic, "sqs", BILLING, DLQ);
        world.cloud.resubscribe(RAW, "RawMessageDelivery", "true");
        world
    }

    /// Queue and detail of each warning.
    fn warned(ran: &Ran) -> Vec<[String; 2]> {
        let lines = ran.log.iter().filter(|line| line["message"] == "a raw subscription shares the queue");
        lines
            .map(|line| {
                assert_eq!(line["level"], "WARN");
                ["queue.arn", "detail"].map(|field| line[field].as_str().unwrap().to_owned())
            })
            .collect()
    }

    fn expected() -> Vec<[String; 2]> {
        let detail = "it takes the dead letters of a raw subscription and of others: a publisher of the raw one's \
                      topic can write letters of the others. Set verifySignature for the letters of the others, or \
                      give the raw one a dead-letter queue of its own";
        vec![[DLQ.to_owned(), detail.to_owned()]]
    }

    #[tokio::test]
    async fn is_told_once_as_soon_as_both_subscriptions_were_seen() {
        let world = world_of(&json!({}), &json!({}));
        let ran = world.run([&Post::raw("r", "plain")]).await;
        assert_eq!((ran.outcomes(), warned(&ran)), (vec!["r delivered".to_owned()], vec![]));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!((ran.outcomes(), warned(&ran)), (vec!["a delivered".to_owned()], expected()));
        let ran = world.run([&Post::envelope("b"), &Post::raw("s", "plain")]).await;
        assert_eq!(warned(&ran), [[""; 2]; 0]);
    }

    #[tokio::test]
    async fn is_told_in_whatever_order_they_are_seen() {
        let world = world_of(&json!({}), &json!({}));
        assert_eq!(warned(&world.run([&Post::envelope("a")]).await), [[""; 2]; 0]);
        assert_eq!(warned(&world.run([&Post::raw("r", "plain")]).await), expected());
    }

    #[tokio::test]
    async fn is_not_told_of_subscriptions_of_one_kind_or_of_several_queues() {
        let world = world_of(&json!({}), &json!({}));
        world.cloud.resubscribe(RAW, "RawMessageDelivery", "false");
        let all = [
            Post::raw("r", "plain"),
            Post::envelope("a"),
            Post::envelope("b").subscription(BILLING_SUBSCRIPTION),
        ];
        assert_eq!(warned(&world.run(&all).await), [[""; 2]; 0]);

        let world = world_of(&json!({}), &json!({}));
        world.cloud.resubscribe(RAW, "RedrivePolicy", &names(OTHER_DLQ));
        assert_eq!(warned(&world.run(&all).await), [[""; 2]; 0]);
        // One that moved to a queue of its own before the others were seen.
        let world = world_of(&json!({}), &json!({}));
        assert_eq!(warned(&world.run([&Post::raw("r", "plain")]).await), [[""; 2]; 0]);
        world.cloud.resubscribe(RAW, "RedrivePolicy", &names(OTHER_DLQ));
        world.pass(301);
        assert_eq!(warned(&world.run([&Post::raw("r", "plain")]).await), [[""; 2]; 0]);
        assert_eq!(warned(&world.run(&all).await), [[""; 2]; 0]);
    }

    /// Two raw ones: their letters name nothing, but an envelope of either can be written by the other's publishers.
    #[tokio::test]
    async fn is_told_of_raw_ones_only_too() {
        let world = world_of(&json!({}), &json!({}));
        world.cloud.resubscribe(SUBSCRIPTION, "RawMessageDelivery", "true");
        let ran = world.run([&Post::envelope("a"), &Post::raw("r", "plain")]).await;
        assert_eq!(warned(&ran), expected());
    }

    /// Where envelopes must be signed nothing is left to tell.
    #[tokio::test]
    async fn is_not_told_where_the_letters_of_the_others_must_be_signed() {
        let unsigned = json!({ "verifySignature": false });
        let world = world_of(&json!({ "verifySignature": true }), &unsigned);
        // The signature is checked before the subscription, so only a search sees it.
        let posts = [Post::raw("r", "plain"), Post::envelope("a"), Post::raw("s", "plain")];
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["r delivered", "a archived refused", "s delivered"]);
        assert_eq!(ran.letter("a")["detail"], "the letter is not signed");
        assert_eq!(warned(&ran), [[""; 2]; 0]);
        let discover = json!({ "verifySignature": false, "subscription": "discover" });
        let world = world_of(&json!({ "verifySignature": true }), &discover);
        assert_eq!(warned(&world.run(&posts).await), [[""; 2]; 0]);
    }

    /// A search sees all at once, before any letter of the others has come, and sees other queues too.
    #[tokio::test]
    async fn is_told_of_a_queue_of_this_function_when_a_search_shows_it() {
        let world = world_of(&json!({}), &json!({ "subscription": "discover" }));
        for number in 0..2 {
            let elsewhere = format!("{TOPIC}:00000000-0000-4000-8000-{number:012}");
            world.cloud.subscribe_endpoint(&elsewhere, TOPIC, "sqs", BILLING, OTHER_DLQ);
            world.cloud.resubscribe(&elsewhere, "RawMessageDelivery", "true");
        }
        let ran = world.run([&Post::raw("r", "plain")]).await;
        assert_eq!(ran.outcomes(), ["r archived unrecognised"]);
        assert_eq!(warned(&ran), expected());
    }

    /// Messages of FIFO topics carry no signature.
    #[tokio::test]
    async fn of_a_fifo_queue_the_only_remedy_is_a_queue_of_its_own() {
        let world = world_of(&json!({}), &json!({}));
        world.cloud.resubscribe(RAW, "RedrivePolicy", &names(FIFO_DLQ));
        let fifo = Post::envelope("a").topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
        let ran =
            world.run(&[fifo, Post::raw("r", "plain")].map(|post| post.queue(FIFO_DLQ).group("g"))).await;
        let [[queue, detail]] = &warned(&ran)[..] else { panic!("one warning: {}", ran.text) };
        assert_eq!(queue, FIFO_DLQ);
        assert!(
            detail.ends_with("of the others. Give the raw one a dead-letter queue of its own"),
            "{detail}"
        );
    }

    /// In the requeue the mark tells which queue it is about.
    #[tokio::test]
    async fn of_letters_in_the_requeue_it_is_told_of_the_queue_they_came_from() {
        let world = World::on(
            world_of(&json!({}), &json!({})).cloud,
            &[
                ("REQUEUE_ARN", REQUEUE),
                ("REDRIVE_POLICY", &json!({ "default": { "subscription": RAW } }).to_string()),
            ],
        );
        let moved = |post: Post| {
            let mut mark = mark(0, &post.id, NOW);
            mark["dlq"] = DLQ.into();
            post.sqs_mark(&mark).queue(REQUEUE)
        };
        let ran = world.run([&moved(Post::envelope("a")), &moved(Post::raw("r", "plain"))]).await;
        assert_eq!(warned(&ran), expected());
    }
}

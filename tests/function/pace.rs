//! Tests of pace and schedule: `throttlePolicy` and `from-subscription`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_support::*;
use serde_json::{Value, json};
use tokio::time::Instant;

mod throttle {
    use super::*;

    /// Returns a policy with at most so many letters a second for one target, and with immediate retries.
    fn policy(rate: u32) -> Value {
        json!({ "default": { "deliveryPolicy": {
            "healthyRetryPolicy": { "numRetries": 5, "numNoDelayRetries": 5 },
            "throttlePolicy": { "maxReceivesPerSecond": rate },
        } } })
    }

    fn world(rate: u32, instances: u32) -> FunctionWorld {
        let (policy, instances) = (policy(rate).to_string(), instances.to_string());
        FunctionWorld::new(&[("REDRIVE_POLICY", policy.as_str()), ("MAX_CONCURRENCY", instances.as_str())])
    }

    fn posts(ids: &[&str]) -> Vec<RecordBuilder> {
        ids.iter().map(|id| RecordBuilder::envelope(id)).collect()
    }

    /// The moments at which each target got a letter.
    type Arrivals = Arc<Mutex<BTreeMap<String, Vec<Duration>>>>;

    fn watched(world: &FunctionWorld) -> Arrivals {
        let (arrivals, began) = (Arrivals::default(), Instant::now());
        let seen = Arc::clone(&arrivals);
        world.cloud.script(move |call| {
            if ["SendMessageBatch", "Invoke", "PutRecordBatch"].contains(&call.operation.as_str()) {
                let mut seen = seen.lock().unwrap();
                let moments = seen.entry(call.target.clone()).or_default();
                let letters = if call.operation == "Invoke" { 1 } else { call.entries.len() };
                moments.extend((0..letters).map(|_| began.elapsed()));
            }
            SimFault::Pass
        });
        arrivals
    }

    /// All instances of the function share the rate, but do not know of each other. Targets do not wait for
    /// each other.
    #[tokio::test(start_paused = true)]
    async fn no_target_gets_more_letters_a_second_than_its_share_of_the_rate() {
        let world = world(4, 2);
        world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "firehose", STREAM, DLQ);
        let arrivals = watched(&world);
        let mut batch = Vec::new();
        for number in 0..4 {
            batch.push(RecordBuilder::envelope(&format!("queue-{number}")));
            batch.push(
                RecordBuilder::envelope(&format!("function-{number}")).subscription(LAMBDA_SUBSCRIPTION),
            );
            batch.push(RecordBuilder::envelope(&format!("stream-{number}")).subscription(OTHER_SUBSCRIPTION));
        }
        let began = Instant::now();
        let ran = world.run(&batch).await;
        let took = began.elapsed();
        assert_eq!(ran.kept, [""; 0]);
        let arrivals = arrivals.lock().unwrap().clone();
        assert_eq!(arrivals.keys().collect::<Vec<_>>(), ["payments", "payments-notifier", "payments-worker"]);
        for (target, moments) in arrivals {
            assert_eq!(moments.len(), 4);
            for pair in moments.windows(3) {
                // The share is two letters a second, so the third comes a second after the first.
                assert!(
                    pair[2].checked_sub(pair[0]).unwrap() >= Duration::from_millis(999),
                    "{target} {moments:?}"
                );
            }
        }
        assert!((1_400..2_500).contains(&took.as_millis()), "{took:?}");
    }

    /// The requeue has a mapping of its own, with as many instances.
    #[tokio::test(start_paused = true)]
    async fn with_a_requeue_the_share_is_half_as_large() {
        let settings = [("REDRIVE_POLICY", &*policy(4).to_string()), ("REQUEUE_ARN", REQUEUE)];
        let world = FunctionWorld::new(&settings);
        let began = Instant::now();
        assert_eq!(world.run(&posts(&["a", "b", "c"])).await.kept, [""; 0]);
        let took = began.elapsed();
        assert!((900..1_900).contains(&took.as_millis()), "two a second: {took:?}");
    }

    #[tokio::test]
    async fn a_rate_that_is_not_reached_costs_no_time_and_no_request() {
        let world = world(1_000, 1);
        let ids: Vec<_> = (0..10).map(|number| format!("m{number}")).collect();
        let ran = world.run(&posts(&ids.iter().map(String::as_str).collect::<Vec<_>>())).await;
        assert_eq!(ran.kept, [""; 0]);
        assert_eq!(world.cloud.calls("SendMessageBatch").len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_in_the_time_is_hidden_until_its_turn() {
        for (instances, apart) in [(1, 1), (3, 3)] {
            let world = world(1, instances).with_time(Duration::from_millis(700));
            let ran = world.run(&posts(&["a", "b", "c"])).await;
            assert_eq!(ran.outcomes(), ["a delivered", "b deferred throttled", "c deferred throttled"]);
            assert_eq!(ran.kept, ["b", "c"]);
            let hidden: BTreeMap<_, _> =
                [("handle-b".to_owned(), apart), ("handle-c".to_owned(), 2 * apart)].into();
            assert_eq!(world.cloud.hidden(), hidden);
            assert_eq!(world.cloud.entries("SendMessageBatch").len(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn to_be_put_off_is_no_attempt_and_no_failure() {
        let world = world(1, 1).with_time(Duration::from_millis(700));
        let ran = world.run(&posts(&["a", "b"])).await;
        let line = ran.letter("b");
        for field in ["retry.number", "error.code", "error.class", "detail"] {
            assert_eq!(line[field], Value::Null, "{field}");
        }
        assert_eq!(line["target.arn"], WORKER);
        assert_eq!(line["due"], "2026-11-01T12:00:01Z");
        let metrics = ran.metrics();
        for class in ["Throttling", "Transient", "Permanent", "ActionRequired"] {
            assert_eq!(metrics.get(format!("Failures{class}")), None);
        }
        assert_eq!([&metrics["LettersDeferred"], &metrics["LettersDelivered"]], [1, 1]);
    }

    /// The turns of one invocation count in the next.
    #[tokio::test(start_paused = true)]
    async fn the_next_invocation_keeps_the_distance() {
        let world = world(1, 1).with_time(Duration::from_millis(700));
        assert_eq!(world.run(&posts(&["a"])).await.outcomes(), ["a delivered"]);
        assert_eq!(world.run(&posts(&["b"])).await.outcomes(), ["b deferred throttled"]);
        world.pass(1);
        let ran = world.run([&RecordBuilder::envelope("b").received(2)]).await;
        assert_eq!(ran.outcomes(), ["b delivered"]);
    }

    /// A forger cannot use up the turns of a target that the letter may not reach.
    #[tokio::test(start_paused = true)]
    async fn refused_letters_take_no_turn() {
        let world = world(1, 1).with_time(Duration::from_millis(700));
        let forged = ["x", "y", "z"].map(|id| RecordBuilder::envelope(id).topic(FIFO_TOPIC));
        let mut batch = forged.to_vec();
        batch.push(RecordBuilder::envelope("a"));
        let ran = world.run(&batch).await;
        assert_eq!(ran.outcomes().last().unwrap(), "a delivered");
    }

    #[tokio::test(start_paused = true)]
    async fn letters_of_a_group_keep_their_order() {
        let world = world(1, 1).with_time(Duration::from_millis(700));
        let batch = ["a", "b", "c"].map(|id| {
            RecordBuilder::envelope(id)
                .topic(FIFO_TOPIC)
                .subscription(FIFO_SUBSCRIPTION)
                .queue(FIFO_DLQ)
                .group("g")
        });
        let ran = world.run(&batch).await;
        assert_eq!(ran.outcomes(), ["a delivered", "b deferred throttled", "c held"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_letter_that_would_not_live_until_its_turn_is_archived() {
        let world = world(1, 1).with_time(Duration::from_millis(700));
        world.cloud.queue("payments-dlq", &[("MessageRetentionPeriod", "86400")]);
        let old = RecordBuilder::envelope("old").sent(NOW - 86_000_000);
        let ran = world.run([&RecordBuilder::envelope("a"), &old]).await;
        assert_eq!(ran.outcomes(), ["a delivered", "old archived expiring"]);
    }
}

/// Tests of plain events, which functions get by calls that wait for them.
mod functions {
    use super::*;

    /// The rounds of a FIFO group need time one after the other. Each letter is run once, in as many
    /// invocations as it takes.
    #[tokio::test(start_paused = true)]
    async fn no_letter_of_a_group_is_run_twice_because_the_time_is_over() {
        let world = FunctionWorld::with_policy(&json!({ "default": { "target": NOTIFIER } }))
            .with_time(Duration::from_secs(6));
        world.cloud.script(|call| match call.operation.as_str() {
            "Invoke" => SimFault::Pass.after(Duration::from_millis(2_600)),
            _ => SimFault::Pass,
        });
        let post =
            |id: &str| RecordBuilder::raw(id, &json!({ "id": id }).to_string()).queue(FIFO_DLQ).group("g");
        let ran = world.run(&["a", "b", "c"].map(post)).await;
        // There are 4.8 seconds for deliveries. A second call could begin in that time, but would not end in
        // it.
        assert_eq!(ran.outcomes(), ["a delivered", "b failed out_of_time", "c held"]);
        let ran = world.run(&["b", "c"].map(post)).await;
        assert_eq!(ran.outcomes(), ["b delivered", "c failed out_of_time"]);
        let runs: Vec<_> =
            world.cloud.calls("Invoke").into_iter().map(|call| body_text(&call).to_owned()).collect();
        assert_eq!(runs, [r#"{"id":"a"}"#, r#"{"id":"b"}"#]);
    }

    /// The latest moment for calls to begin is that of the invocation, not of a round.
    #[tokio::test(start_paused = true)]
    async fn a_late_round_begins_no_call_of_a_function_that_nobody_has_called_yet() {
        let rules =
            json!([{ "name": "first", "match": { "message": { "id": ["a"] } }, "target": PROJECTOR }]);
        let world = FunctionWorld::with_policy(&json!({ "default": { "target": NOTIFIER }, "rules": rules }))
            .with_time(Duration::from_secs(1));
        world.cloud.script(|call| match call.operation.as_str() {
            "Invoke" => SimFault::Pass.after(Duration::from_millis(500)),
            _ => SimFault::Pass,
        });
        let post =
            |id: &str| RecordBuilder::raw(id, &json!({ "id": id }).to_string()).queue(FIFO_DLQ).group("g");
        // There are 0.8 seconds for deliveries, which begin in the first half.
        let ran = world.run(&["a", "b"].map(post)).await;
        assert_eq!(ran.outcomes(), ["a delivered", "b failed out_of_time"]);
        assert_eq!(world.cloud.calls("Invoke").len(), 1);
    }
}

mod from_subscription {
    use super::*;

    const HOOK: &str = "https://hooks.example.com/payments";

    fn healthy(min: u32, max: u32, retries: u32) -> Value {
        json!({ "minDelayTarget": min, "maxDelayTarget": max, "numRetries": retries, "numMaxDelayRetries": 0,
            "numNoDelayRetries": 0, "numMinDelayRetries": 0, "backoffFunction": "linear" })
    }

    /// Returns SNS's answer for an HTTP/S subscription, including nulls.
    fn effective(healthy: &Value, throttle: &Value) -> String {
        json!({ "healthyRetryPolicy": healthy, "sicklyRetryPolicy": null, "throttlePolicy": throttle,
            "requestPolicy": null, "guaranteed": false })
        .to_string()
    }

    fn world_of(effective: &str) -> FunctionWorld {
        let policy = json!({ "default": { "jitter": 0, "deliveryPolicy": "from-subscription" } });
        let world = FunctionWorld::with_policy(&policy).with_time(Duration::from_millis(900));
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "sqs", WORKER, DLQ);
        world.cloud.resubscribe(SUBSCRIPTION, "EffectiveDeliveryPolicy", effective);
        world
    }

    /// Runs a letter by its visibility until it leaves. Returns the outcome, retry and delay of each receive.
    async fn life(world: &FunctionWorld) -> Vec<String> {
        let mut told = Vec::new();
        let mut now = NOW;
        for receive in 1..=10 {
            world.set_now(now);
            let post = RecordBuilder::envelope("a").received(receive);
            let ran = world.run([&post]).await;
            let line = ran.letter("a");
            let word = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            told.push(format!(
                "{} {} {} of {} {}",
                word("outcome"),
                word("reason"),
                line["retry.number"],
                line["retry.of"],
                line["delay_s"]
            ));
            let Some(delay) = line["delay_s"].as_i64() else { break };
            now += delay * 1000;
        }
        told
    }

    #[tokio::test]
    async fn the_effective_delivery_policy_of_the_subscription_is_the_schedule() {
        let world = world_of(&effective(&healthy(20, 40, 3), &Value::Null));
        world.cloud.reply("SendMessageBatch", SimFault::ResetBefore);
        assert_eq!(
            life(&world).await,
            [
                "deferred early null of null 20",
                "deferred failed 1 of 3 30",
                "deferred failed 2 of 3 40",
                "archived exhausted 3 of 3 null",
            ]
        );
        // One answer serves the schedule and the check, as long as it is kept.
        assert_eq!(world.cloud.calls("GetSubscriptionAttributes").len(), 1);
    }

    /// A topic's defaults have their own names. SNS has merged them if the subscription has none.
    #[tokio::test]
    async fn the_names_of_a_topics_policy_are_read_too() {
        let topic = json!({ "http": { "defaultHealthyRetryPolicy": healthy(7, 7, 1),
            "disableSubscriptionOverrides": true, "defaultRequestPolicy": { "headerContentType": "text/plain" } } });
        let world = world_of(&topic.to_string());
        world.cloud.reply("SendMessageBatch", SimFault::ResetBefore);
        let expected = ["deferred early null of null 7", "archived exhausted 1 of 1 null"];
        assert_eq!(life(&world).await, expected);
    }

    #[tokio::test]
    async fn policies_that_are_null_stand_at_the_defaults_of_sns() {
        let world = world_of(&effective(&Value::Null, &Value::Null));
        let expected = ["deferred early null of null 20", "delivered - 1 of 3 null"];
        assert_eq!(life(&world).await, expected);
    }

    /// Fields that SNS may add later are not an error.
    #[tokio::test]
    async fn unknown_fields_are_passed_over() {
        let mut policy: Value = serde_json::from_str(&effective(&healthy(5, 5, 2), &Value::Null)).unwrap();
        policy["jitterPolicy"] = json!({ "share": 0.5 });
        policy["healthyRetryPolicy"]["numLateRetries"] = json!(3);
        let world = world_of(&policy.to_string());
        let expected = ["deferred early null of null 5", "delivered - 1 of 2 null"];
        assert_eq!(life(&world).await, expected);
    }

    #[tokio::test]
    async fn its_throttle_policy_holds_too() {
        let immediate =
            json!({ "minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 3, "numNoDelayRetries": 3 });
        let world = world_of(&effective(&immediate, &json!({ "maxReceivesPerSecond": 1 })));
        let ran = world.run([&RecordBuilder::envelope("a"), &RecordBuilder::envelope("b")]).await;
        assert_eq!(ran.outcomes(), ["a delivered", "b deferred throttled"]);
    }

    /// SNS gives queues and functions no delivery policy: it retries them by its own.
    #[tokio::test]
    async fn a_subscription_without_one_goes_by_the_policy_of_sns_for_its_own_endpoints() {
        let policy = json!({ "default": { "deliveryPolicy": "from-subscription" } });
        for effective in [None, Some(""), Some("x"), Some("[]"), Some(r#"{"healthyRetryPolicy":5}"#)] {
            let world = FunctionWorld::with_policy(&policy);
            if let Some(effective) = effective {
                world.cloud.resubscribe(SUBSCRIPTION, "EffectiveDeliveryPolicy", effective);
            }
            let ran = world.run([&RecordBuilder::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a delivered"], "{effective:?}");
            assert_eq!(ran.letter("a")["retry.of"], 100_015, "{effective:?}");
        }
    }

    /// Letters that name no subscription have no such policy either.
    #[tokio::test]
    async fn a_letter_without_a_subscription_goes_by_the_policy_of_sns_for_its_own_endpoints() {
        let policy = json!({ "default": { "deliveryPolicy": "from-subscription" } });
        let world = FunctionWorld::with_policy(&policy);
        let ran = world.run([&RecordBuilder::raw("a", "x").moved_from(BILLING).received(4)]).await;
        assert_eq!(ran.letter("a")["retry.of"], 100_015);
        assert!(world.cloud.calls("GetSubscriptionAttributes").is_empty());
    }

    /// While the number of retries is unknown, none is the last.
    #[tokio::test]
    async fn a_look_up_that_fails_does_not_exhaust_early() {
        let world = world_of(&effective(&healthy(20, 20, 2), &Value::Null));
        world.cloud.reply("GetSubscriptionAttributes", SimFault::refuse(400, "Throttling", "slow"));
        world.set_now(NOW + 3_600_000);
        for receive in 1..=30 {
            let ran = world.run([&RecordBuilder::envelope("a").received(receive)]).await;
            assert_eq!(ran.outcomes(), ["a deferred failed"], "receive {receive}");
            assert_eq!(ran.letter("a")["error.code"], "Throttling");
        }
        assert_eq!(world.cloud.entries("SendMessageBatch"), []);
        // Once the number is known, the letter still gets its attempt.
        world.cloud.script(|_| SimFault::Pass);
        let ran = world.run([&RecordBuilder::envelope("a").received(31)]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!([&ran.letter("a")["retry.number"], &ran.letter("a")["retry.of"]], [2, 2]);
    }

    /// The rule names a raw letter's subscription.
    #[tokio::test]
    async fn the_subscription_of_a_raw_letter_is_asked() {
        let policy = json!({ "default": {
            "jitter": 0, "deliveryPolicy": "from-subscription", "subscription": SUBSCRIPTION } });
        let world = FunctionWorld::with_policy(&policy);
        let policy = effective(&healthy(33, 33, 3), &Value::Null);
        world.cloud.resubscribe(SUBSCRIPTION, "EffectiveDeliveryPolicy", &policy);
        let ran = world.run([&RecordBuilder::raw("a", "plain")]).await;
        assert_eq!(ran.outcomes(), ["a deferred early"]);
        assert_eq!(ran.letter("a")["delay_s"], 33);
    }

    /// The subscription defines the policy, but it is still checked.
    #[tokio::test]
    async fn a_subscription_that_is_refused_is_refused() {
        let world = world_of(&effective(&healthy(1, 1, 3), &Value::Null));
        world.cloud.resubscribe(SUBSCRIPTION, "Endpoint", HOOK);
        world.cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", "{}");
        world.set_now(NOW + 60_000);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a archived refused"]);
    }
}

//! Tests of `"subscription": "discover"`. A raw letter names no subscription. If exactly one subscription
//! names its queue as its dead-letter target, the letter goes there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive_support::*;
use serde_json::{Value, json};

const OTHER_DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:other-dlq";

fn discover() -> Value {
    json!({ "default": { "subscription": "discover" } })
}

fn subscription(number: usize) -> String {
    format!("{TOPIC}:00000000-0000-4000-8000-{number:012}")
}

/// Returns a world in which one of nine subscriptions names the queue, on pages of four.
fn world_of(policy: &Value) -> FunctionWorld {
    let world = FunctionWorld::with_policy(policy);
    for gone in [BILLING_SUBSCRIPTION, LAMBDA_SUBSCRIPTION] {
        world.cloud.unsubscribe(gone);
    }
    for number in 0..5 {
        world.cloud.subscribe_endpoint(&subscription(number), TOPIC, "sqs", BILLING, OTHER_DLQ);
    }
    world.cloud.subscribe(&subscription(5), TOPIC, "sqs", BILLING);
    world.cloud.subscribe_endpoint(&subscription(6), TOPIC, "sqs", BILLING, DLQ);
    world.cloud.resubscribe(&subscription(6), "PendingConfirmation", "true");
    world.cloud.pages_of(4);
    world
}

/// Returns the tokens of the pages that were requested.
fn pages(world: &FunctionWorld) -> Vec<String> {
    let token = |call: &SimCall| call.parameter("NextToken").unwrap_or_default().to_owned();
    world.cloud.calls("ListSubscriptions").iter().map(token).collect()
}

/// Returns the number of calls of an operation.
fn count(world: &FunctionWorld, op: &str) -> usize {
    world.cloud.calls(op).len()
}

#[tokio::test]
async fn the_only_subscription_that_names_the_queue_gets_its_raw_letters() {
    let world = world_of(&discover());
    let ran = world.run([&RecordBuilder::raw("a", "plain"), &RecordBuilder::raw("b", "plain too")]).await;
    assert_eq!(ran.outcomes(), ["a delivered", "b delivered"]);
    assert_eq!(ran.letter("a")["target.arn"], WORKER);
    let entries = world.cloud.entries("SendMessageBatch");
    assert_eq!(entries[0].body, "plain");
    assert_eq!(entries[0].attributes["sns-redrive"].value.text(), mark_text(1, "a", NOW, "plain"));
    // There are three pages, and one call for each confirmed subscription; then one for the check of the one
    // that was found.
    assert_eq!(count(&world, "ListSubscriptions"), 3);
    let pages = pages(&world);
    assert_eq!(pages, ["", "4", "8"]);
    assert_eq!(count(&world, "GetSubscriptionAttributes"), 8 + 1);
}

#[tokio::test]
async fn the_search_is_made_once() {
    let world = world_of(&discover());
    world.run([&RecordBuilder::raw("a", "plain")]).await;
    world.cloud.forget();
    world.pass(59);
    assert_eq!(world.run([&RecordBuilder::raw("b", "plain")]).await.outcomes(), ["b delivered"]);
    assert_eq!(operations(&world.cloud), ["SendMessageBatch"]);
}

#[tokio::test]
async fn where_none_or_two_name_the_queue_nobody_can_say() {
    let none: fn(&FunctionWorld) = |world| world.cloud.unsubscribe(SUBSCRIPTION);
    let two: fn(&FunctionWorld) =
        |world| world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "sqs", BILLING, DLQ);
    for change in [none, two] {
        let world = world_of(&discover());
        change(&world);
        let ran = world.run([&RecordBuilder::raw("a", "plain")]).await;
        assert_eq!(ran.outcomes(), ["a archived unrecognised"]);
        assert_eq!(world.cloud.entries("SendMessageBatch"), []);
    }
}

/// A search takes a call for every subscription of the account, within a small quota.
#[tokio::test]
async fn nobody_searches_who_was_not_asked_to_or_has_no_need() {
    for (policy, post) in [
        (json!({}), RecordBuilder::raw("a", "plain")),
        (json!({ "default": { "subscription": SUBSCRIPTION } }), RecordBuilder::raw("a", "plain")),
        (discover(), RecordBuilder::envelope("a")),
    ] {
        let world = world_of(&policy);
        world.run([&post]).await;
        assert_eq!(count(&world, "ListSubscriptions"), 0, "{policy}");
    }
}

/// A letter that its rule archives or sends elsewhere needs no subscription either.
#[tokio::test]
async fn nobody_searches_for_letters_that_go_nowhere_near_a_subscription() {
    for rule in [
        json!({ "subscription": "discover", "action": "archive" }),
        json!({ "subscription": "discover", "action": "hold" }),
        json!({ "subscription": "discover", "target": BILLING }),
        json!({ "subscription": "discover", "target": "source" }),
    ] {
        let world = world_of(&json!({ "default": rule }));
        world.run([&RecordBuilder::raw("a", "plain")]).await;
        assert_eq!(count(&world, "ListSubscriptions"), 0, "{rule}");
    }
    let lambda = RecordBuilder::raw("a", "{}").attribute("RequestID", "String", "r").attribute(
        "ErrorCode",
        "Number",
        "200",
    );
    let eventbridge = RecordBuilder::raw("a", "{}")
        .attribute("RULE_ARN", "String", "arn:aws:events:eu-central-1:123456789012:rule/shop")
        .attribute("TARGET_ARN", "String", "arn:aws:kinesis:eu-central-1:123456789012:stream/payments");
    for post in [RecordBuilder::raw("a", "plain").moved_from(BILLING).received(4), lambda, eventbridge] {
        let mut policy = discover();
        policy["origins"] = json!({ "*": ["lambda-async", "eventbridge"] });
        let world = world_of(&policy);
        world.run([&post]).await;
        assert_eq!(count(&world, "ListSubscriptions"), 0, "{}", post.body());
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_that_is_cut_off_goes_on_where_it_stopped_and_the_letters_wait_untouched() {
    for op in ["GetSubscriptionAttributes", "ListSubscriptions"] {
        for (fault, code) in [
            (SimFault::ResetBefore, "Unreachable"),
            (SimFault::refuse(400, "Throttling", "slow"), "Throttling"),
            (SimFault::HangBefore, "SearchUnfinished"),
        ] {
            let world = world_of(&discover()).with_time(Duration::from_millis(400));
            let asked = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&asked);
            world.cloud.script(move |call| {
                let third = call.operation == op && counter.fetch_add(1, Ordering::Relaxed) == 2;
                if third { fault.clone() } else { SimFault::Pass }
            });
            let ran = world.run([&RecordBuilder::raw("a", "plain")]).await;
            assert_eq!(ran.outcomes(), ["a failed out_of_time"], "{op}");
            assert_eq!(ran.kept, ["a"]);
            for touched in ["ChangeMessageVisibilityBatch", "PutObject", "SendMessageBatch"] {
                assert_eq!(count(&world, touched), 0, "{op}");
            }
            assert_eq!(ran.letter("a")["error.code"], code, "what stopped the search is told");

            let ran = world.run([&RecordBuilder::raw("a", "plain").received(2)]).await;
            assert_eq!(ran.outcomes(), ["a delivered"], "{op}");
            assert_eq!(ran.letter("a")["retry.number"], 1, "to wait is no attempt");
            // Only the failed call was repeated.
            let (pages, subscriptions) = if op == "ListSubscriptions" { (4, 9) } else { (3, 10) };
            assert_eq!(count(&world, "ListSubscriptions"), pages, "{op}");
            assert_eq!(count(&world, "GetSubscriptionAttributes"), subscriptions, "{op}");
        }
    }
}

#[tokio::test]
async fn letters_that_name_their_subscription_do_not_wait_for_the_search() {
    let world = world_of(&discover());
    world.cloud.reply("ListSubscriptions", SimFault::refuse(403, "AuthorizationError", "no"));
    let ran = world.run([&RecordBuilder::raw("raw", "plain"), &RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["raw failed out_of_time", "a delivered"]);
    assert_eq!(ran.kept, ["raw"]);
    assert_eq!(ran.metrics()["LettersStuck"], 1, "it stays until somebody grants the permission");
    world.cloud.reply("ListSubscriptions", SimFault::refuse(400, "Throttled", "slow down"));
    let ran = world.run([&RecordBuilder::raw("raw", "plain")]).await;
    assert_eq!(
        (ran.outcomes(), ran.metrics().get("LettersStuck")),
        (vec!["raw failed out_of_time".into()], None)
    );
}

/// P4: without the permission to list, the letters would wait until SQS drops them.
#[tokio::test]
async fn a_letter_that_waits_for_a_search_that_never_ends_is_archived_before_it_expires() {
    let world = world_of(&discover());
    world.cloud.reply("ListSubscriptions", SimFault::refuse(403, "AuthorizationError", "no"));
    let ran = world.run([&RecordBuilder::raw("a", "plain").sent(NOW - 1_209_600_000 + 1_800_000)]).await;
    assert_eq!(ran.outcomes(), ["a archived expiring"]);
    assert_eq!(ran.kept, [""; 0]);
    assert_eq!(archived(&world.cloud).len(), 1);
}

#[tokio::test]
async fn a_subscription_that_goes_away_during_the_search_does_not_stop_it() {
    let world = world_of(&discover());
    let gone = subscription(3);
    world.cloud.script(move |call| match call.operation.as_str() {
        "GetSubscriptionAttributes" if call.target == gone => {
            SimFault::refuse(404, "NotFound", "no such subscription")
        }
        _ => SimFault::Pass,
    });
    assert_eq!(world.run([&RecordBuilder::raw("a", "plain")]).await.outcomes(), ["a delivered"]);
}

/// A search says nothing about subscriptions that are newer than it.
mod newer_letters {
    use super::*;

    /// Returns a letter that arrived so many seconds after the first ones.
    fn later(id: &str, seconds: i64) -> RecordBuilder {
        RecordBuilder::raw(id, "plain").sent(NOW + seconds * 1000)
    }

    /// Returns a world in which a search was made.
    async fn searched() -> FunctionWorld {
        let world = world_of(&discover());
        assert_eq!(world.run([&RecordBuilder::raw("a", "plain")]).await.outcomes(), ["a delivered"]);
        world.cloud.forget();
        world.pass(60);
        world
    }

    fn second_one(world: &FunctionWorld) {
        world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "sqs", BILLING, DLQ);
    }

    /// Returns the numbers of pages and subscriptions that were requested.
    fn asked(world: &FunctionWorld) -> (usize, usize) {
        (count(world, "ListSubscriptions"), count(world, "GetSubscriptionAttributes"))
    }

    #[tokio::test]
    async fn they_do_not_go_to_the_subscription_that_was_the_only_one_before_them() {
        let world = searched().await;
        second_one(&world);
        let ran = world.run([&later("b", 60)]).await;
        assert_eq!(ran.outcomes(), ["b archived unrecognised"]);
        assert_eq!(world.cloud.entries("SendMessageBatch"), []);
        // All pages were read again, but only the new subscription was asked about.
        assert_eq!(asked(&world), (3, 1));
    }

    #[tokio::test]
    async fn they_find_a_subscription_that_was_not_there_before_them() {
        let world = world_of(&discover());
        world.cloud.unsubscribe(&subscription(6));
        world.cloud.unsubscribe(SUBSCRIPTION);
        let ran = world.run([&RecordBuilder::raw("a", "plain")]).await;
        assert_eq!(ran.outcomes(), ["a archived unrecognised"]);
        second_one(&world);
        world.pass(60);
        let ran = world.run([&later("b", 60)]).await;
        assert_eq!(ran.outcomes(), ["b delivered"]);
        assert_eq!(ran.letter("b")["target.arn"], BILLING);
    }

    #[tokio::test]
    async fn what_is_listed_no_more_is_none_of_those_found() {
        let world = world_of(&discover());
        second_one(&world);
        let ran = world.run([&RecordBuilder::raw("a", "plain")]).await;
        assert_eq!(ran.outcomes(), ["a archived unrecognised"]);
        world.cloud.unsubscribe(OTHER_SUBSCRIPTION);
        world.cloud.forget();
        world.pass(60);
        assert_eq!(world.run([&later("b", 60)]).await.outcomes(), ["b delivered"]);
        // The subscription that was found is asked about for its check.
        assert_eq!(asked(&world), (3, 1));
    }

    #[tokio::test]
    async fn a_letter_that_arrived_before_the_search_asks_for_none() {
        let world = searched().await;
        second_one(&world);
        let ran = world.run([&later("b", 0)]).await;
        assert_eq!(ran.outcomes(), ["b delivered"]);
        assert_eq!(asked(&world), (0, 0));
        // A search that a newer letter caused serves all letters.
        world.run([&later("c", 60), &later("d", 59)]).await;
        assert_eq!(asked(&world).0, 3);
        world.run([&later("e", 60)]).await;
        assert_eq!(asked(&world).0, 3);
    }

    /// This holds whatever causes searches: the dead-letter target of an old subscription may have changed.
    #[tokio::test(start_paused = true)]
    async fn after_half_an_hour_every_subscription_is_asked_again() {
        let world = searched().await;
        second_one(&world);
        world.run([&later("b", 60)]).await;
        world.cloud.resubscribe(OTHER_SUBSCRIPTION, "RedrivePolicy", "{}");
        world.pass(29 * 60 - 1);
        world.cloud.forget();
        assert_eq!(world.run([&later("c", 61)]).await.outcomes(), ["c archived unrecognised"]);
        assert_eq!(asked(&world), (3, 0));
        // This is half an hour after the first search. The new subscription was asked about a minute later.
        world.pass(1);
        world.cloud.forget();
        assert_eq!(world.run([&later("d", 0)]).await.outcomes(), ["d archived unrecognised"]);
        assert_eq!(asked(&world), (3, 8));
        world.pass(60);
        assert_eq!(world.run([&later("e", 0)]).await.outcomes(), ["e delivered"]);
    }

    /// Clocks differ, and a mark can hold any time. No letter has arrived after the present.
    #[tokio::test]
    async fn a_letter_from_the_future_asks_for_one_search_each_time_it_comes() {
        let world = searched().await;
        for _ in 0..2 {
            world.cloud.forget();
            assert_eq!(world.run([&later("b", 1_000_000)]).await.outcomes(), ["b deferred early"]);
            assert_eq!(asked(&world), (3, 0));
            world.pass(1);
        }
    }

    /// Pages that were read before the letter came may lack its subscription.
    #[tokio::test]
    async fn a_search_under_way_that_is_older_is_finished_and_followed_by_another() {
        let world = world_of(&discover());
        let third = Arc::new(AtomicUsize::new(0));
        world.cloud.script(move |call| {
            let third = call.operation == "ListSubscriptions" && third.fetch_add(1, Ordering::Relaxed) == 2;
            if third { SimFault::ResetBefore } else { SimFault::Pass }
        });
        assert_eq!(world.run([&RecordBuilder::raw("a", "plain")]).await.outcomes(), ["a failed out_of_time"]);
        // This subscription is on a page that was read already.
        world.cloud.subscribe_endpoint(&subscription(0), TOPIC, "sqs", BILLING, DLQ);
        let young = "arn:aws:sns:eu-central-1:123456789012:a:00000000-0000-4000-8000-000000000000";
        world.cloud.subscribe_endpoint(young, TOPIC, "sqs", BILLING, DLQ);
        world.pass(60);
        world.cloud.forget();
        let ran = world.run([&later("b", 60)]).await;
        assert_eq!(ran.outcomes(), ["b archived unrecognised"]);
        let pages = pages(&world);
        assert_eq!(pages, ["8", "", "4", "8"]);
    }

    /// The result for older letters stays valid while there is none for newer ones.
    #[tokio::test]
    async fn older_letters_do_not_wait_for_the_search_that_newer_ones_ask_for() {
        let world = searched().await;
        world.cloud.reply("ListSubscriptions", SimFault::refuse(400, "Throttling", "slow"));
        let ran = world.run([&later("c", 60), &later("b", 0), &later("d", 60)]).await;
        assert_eq!(ran.outcomes(), ["c failed out_of_time", "b delivered", "d failed out_of_time"]);
        for waiting in ["c", "d"] {
            assert_eq!(ran.letter(waiting)["error.code"], "Throttling");
        }
        assert_eq!(asked(&world), (1, 0), "nobody asks twice in an invocation");
    }

    /// Without an end of the search in sight, the letters wait untouched.
    #[tokio::test(start_paused = true)]
    async fn a_search_that_never_ends_ends_with_the_time() {
        let world = searched().await.with_time(Duration::from_millis(400));
        world.cloud.reply("ListSubscriptions", SimFault::HangBefore);
        assert_eq!(world.run([&later("b", 60)]).await.outcomes(), ["b failed out_of_time"]);
    }
}

/// One function may drain several queues.
#[tokio::test]
async fn each_queue_has_its_own_subscription() {
    let world = world_of(&discover());
    world.cloud.queue("invoices-dlq", &[("MessageRetentionPeriod", "1209600")]);
    let invoices = "arn:aws:sqs:eu-central-1:123456789012:invoices-dlq";
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "sqs", BILLING, invoices);
    for (id, queue, target) in [("a", DLQ, WORKER), ("b", invoices, BILLING), ("c", DLQ, WORKER)] {
        let ran = world.run([&RecordBuilder::raw(id, "plain").queue(queue)]).await;
        assert_eq!(ran.outcomes(), [format!("{id} delivered")]);
        assert_eq!(ran.letter(id)["target.arn"], target);
    }
}

/// The requeue is no dead-letter target of a subscription. Its letters name the queue that they came from,
/// which is believed only there.
#[tokio::test]
async fn letters_in_the_requeue_are_looked_up_by_the_queue_they_came_from() {
    let policy = discover().to_string();
    let world = world_of(&discover());
    let world = FunctionWorld::on(world.cloud, &[("REDRIVE_POLICY", &policy), ("REQUEUE_ARN", REQUEUE)]);
    let mut mark = mark(0, "a", NOW);
    mark["dlq"] = DLQ.into();
    let ran = world.run([&RecordBuilder::raw("a", "plain").sqs_mark(&mark).queue(REQUEUE)]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);

    mark["dlq"] = OTHER_DLQ.into();
    let ran = world.run([&RecordBuilder::raw("b", "plain").sqs_mark(&mark)]).await;
    assert_eq!(ran.outcomes(), ["b delivered"]);
    assert_eq!(
        ran.letter("b")["target.arn"],
        WORKER,
        "the mark of a letter in the queue itself is nobody's word"
    );
}

/// The result of the search may be old, so the subscription is asked about before each delivery.
#[tokio::test]
async fn what_was_found_is_checked_like_any_other() {
    let world = world_of(&discover());
    assert_eq!(world.run([&RecordBuilder::raw("a", "plain")]).await.outcomes(), ["a delivered"]);
    world.cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", "{}");
    world.pass(301);
    let ran = world.run([&RecordBuilder::raw("b", "plain").sent(NOW + 301_000)]).await;
    assert_eq!(ran.outcomes(), ["b archived refused"]);
}

/// Promise P9. The search makes progress, so that it does not count as one that hangs.
#[tokio::test(start_paused = true)]
async fn a_long_search_has_a_tenth_of_the_time_while_batches_are_full_and_all_that_it_needs_otherwise() {
    let world = world_of(&discover());
    for number in 10..100 {
        world.cloud.subscribe_endpoint(&subscription(number), TOPIC, "sqs", BILLING, OTHER_DLQ);
    }
    world.cloud.script(|call| match call.operation.as_str() {
        "GetSubscriptionAttributes" if call.target != SUBSCRIPTION => {
            SimFault::Slow(Duration::from_millis(900), Box::new(SimFault::Pass))
        }
        _ => SimFault::Pass,
    });
    let raw = |time: u32| RecordBuilder::raw("raw", "plain").received(time);
    let began = tokio::time::Instant::now();
    for batch in 1..=30 {
        let mut posts: Vec<_> =
            (0..9).map(|number| RecordBuilder::envelope(&format!("{batch}-{number}"))).collect();
        posts.push(raw(batch));
        let ran = world.run(&posts).await;
        assert!(ran.outcomes()[..9].iter().all(|told| told.ends_with(" delivered")), "{:?}", ran.outcomes());
        assert_eq!(ran.outcomes()[9], "raw failed out_of_time");
    }
    // A second before anything was fast, and the six seconds that were saved.
    let took = began.elapsed();
    assert!((Duration::from_secs(6)..=Duration::from_secs(9)).contains(&took), "{took:?}");
    // Its letters alone keep nobody waiting.
    let mut times = 0;
    while world.run([&raw(40 + times)]).await.outcomes() != ["raw delivered"] {
        times += 1;
        assert!(times < 20, "the search never ends");
    }
    assert!(times >= 5, "it had half of each invocation");
}

//! The decisions on single letters.

use super::*;

/// The reason for a letter in a function's own dead-letter queue, which does not name the function.
const NO_FUNCTION: Option<&str> = Some(
    "the letter does not name the function that failed: set the target of its rule to that function's ARN",
);

fn deliver(number: u32, phase: RetryPhase) -> Decision {
    Decision::Deliver(Retry { number, of: BUILT_IN_RETRIES, phase, planned: None })
}

/// Returns the attempt of this retry that comes so many milliseconds before the next one.
fn early(decision: &Decision, before: i64) -> Decision {
    let Decision::Deliver(retry) = decision else { panic!("{decision:?}") };
    Decision::Deliver(Retry { planned: Some(at(NOW + before)), ..*retry })
}

fn decisions_on(file: &str, facts: &LetterFacts) -> Vec<Decision> {
    let policy = Policy::built_in();
    sample(file).iter().map(|letter| policy.decide(letter, facts, at(NOW)).decision).collect()
}

#[test]
fn the_sample_events_are_decided_as_their_table_says() {
    let facts = LetterFacts::default();
    let moved = LetterFacts { source_max_receives: Some(3), ..LetterFacts::default() };
    let first = deliver(1, RetryPhase::Immediate);
    let unrecognised = Decision::Archive(
        ArchiveReason::Unrecognised,
        Some("the letter names no subscription: set the subscription of its rule"),
    );
    let exhausted = Decision::Archive(ArchiveReason::Exhausted, None);
    for (file, expected) in [
        ("envelope.json", vec![first.clone()]),
        ("raw.json", vec![unrecognised.clone()]),
        ("fifo.json", vec![first.clone(); 4]),
        ("lambda-async.json", vec![Decision::Archive(ArchiveReason::Unrecognised, NO_FUNCTION)]),
        ("lambda-destination.json", vec![first.clone()]),
        ("eventbridge.json", vec![first.clone()]),
        ("garbage.json", vec![unrecognised.clone(); 10]),
        ("late-retry.json", vec![deliver(9, RetryPhase::Backoff)]),
        ("exhausted.json", vec![exhausted.clone()]),
    ] {
        assert_eq!(decisions_on(file, &facts), expected, "{file}");
    }

    assert_eq!(decisions_on("sqs-consumer.json", &moved), std::slice::from_ref(&first));

    let mixed = decisions_on("mixed.json", &LetterFacts::default());
    let early = &sample("mixed.json")[8];
    let wait = Schedule::BUILT_IN.wait(2, &Jitter::new(0.1, early.id.as_str())).unwrap();
    let due = at(early.sqs.sent.as_millisecond() + millis(wait));
    assert!((54..=60).contains(&wait), "{wait}");
    let deferral = Deferral { hide: wait - 10, due, retry: 2, why: DeferReason::Early };
    assert_eq!(mixed[0], first);
    assert_eq!(mixed[1], deliver(2, RetryPhase::PreBackoff));
    assert_eq!(mixed[2], unrecognised);
    assert_eq!(mixed[7], unrecognised);
    assert_eq!(mixed[8], Decision::Defer(deferral));
    assert_eq!(mixed[9], exhausted);
}

#[test]
fn receives_of_the_source_queue_are_not_receives_of_ours() {
    let moved = &sample("sqs-consumer.json")[0];
    assert_eq!(moved.sqs.receive_count, 4);
    let policy = Policy::built_in();
    for (source_max_receives, expected) in [
        (Some(3), deliver(1, RetryPhase::Immediate)),
        (Some(2), deliver(2, RetryPhase::PreBackoff)),
        (Some(1_000), deliver(1, RetryPhase::Immediate)),
        // Two more than its second retry takes, which was due a moment ago.
        (None, early(&deliver(2, RetryPhase::PreBackoff), 19_300)),
    ] {
        let facts = LetterFacts { source_max_receives, ..LetterFacts::default() };
        let decision = policy.decide(moved, &facts, at(NOW)).decision;
        assert_eq!(decision, expected, "maxReceiveCount {source_max_receives:?}");
    }
}

#[test]
fn a_retry_knows_its_phase_over_the_whole_life_of_the_letter() {
    use RetryPhase::{Backoff, Immediate, PostBackoff, PreBackoff};
    let policy = Policy::built_in();
    let phases: Vec<_> = (0..BUILT_IN_RETRIES)
        .map(|spent| {
            match policy.decide(&marked(spent, Some(NOW)), &LetterFacts::default(), at(NOW)).decision {
                Decision::Deliver(retry) => (retry.number, retry.phase),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let expected = [Immediate, PreBackoff, PreBackoff]
        .into_iter()
        .chain([Backoff; 7])
        .chain([PostBackoff; 2])
        .zip(1..)
        .map(|(phase, number)| (number, phase));
    assert_eq!(phases, expected.collect::<Vec<_>>());
}

#[test]
fn the_due_time_of_the_mark_comes_before_the_schedule() {
    let policy = Policy::built_in();
    let decide = |due| policy.decide(&marked(1, Some(due)), &LetterFacts::default(), at(NOW)).decision;
    assert_eq!(decide(NOW), deliver(2, RetryPhase::PreBackoff));
    let wait = Deferral { hide: 6, due: at(NOW + 5_001), retry: 2, why: DeferReason::Early };
    assert_eq!(decide(NOW + 5_001), Decision::Defer(wait), "hidden by whole seconds, rounded up");
}

#[test]
fn a_failed_retry_waits_for_the_delay_of_the_next_from_now() {
    let document = json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 10, "maxDelayTarget": 200_000, "numRetries": 4, "numNoDelayRetries": 2,
        "numMaxDelayRetries": 1 } } } });
    let policy = Policy::parse(&document.to_string()).unwrap();
    let facts = LetterFacts { retention: Retention::Known(14 * DAY), ..LetterFacts::default() };
    let letter = marked(0, None);
    let verdict = policy.decide(&letter, &facts, at(NOW));
    let now = NOW + 2_345;
    let defer = |retry, hide, wait| {
        let due = at(now + millis(wait));
        Decision::Defer(Deferral { hide, due, retry, why: DeferReason::Failed })
    };
    for (number, expected) in [
        (1, defer(2, 0, 0)),
        (2, defer(3, 10, 10)),
        (3, defer(4, VISIBILITY_CEILING, 200_000)),
        (4, Decision::Archive(ArchiveReason::Exhausted, None)),
    ] {
        let failed = Retry { number, of: 4, phase: RetryPhase::Immediate, planned: None };
        assert_eq!(verdict.after_failure(failed, FailureClass::Transient, at(now)), expected, "{number}");
    }
}

#[test]
fn only_a_permanent_failure_ends_a_schedule_early_and_only_where_the_rule_lets_it() {
    let after = |class, retry_permanent: bool, number| {
        let document = json!({ "default": { "retryPermanent": retry_permanent } });
        let policy = Policy::parse(&document.to_string()).unwrap();
        let letter = marked(0, None);
        let verdict = policy.decide(&letter, &LetterFacts::default(), at(NOW));
        let failed = Retry { number, of: BUILT_IN_RETRIES, phase: RetryPhase::Immediate, planned: None };
        match verdict.after_failure(failed, class, at(NOW)) {
            Decision::Defer(deferral) => deferral.why.name(),
            Decision::Archive(reason, None) => reason.name(),
            other => panic!("{other:?}"),
        }
    };
    for class in [FailureClass::Throttling, FailureClass::Transient, FailureClass::ActionRequired] {
        assert_eq!(after(class, false, 1), "failed", "{class:?}");
        assert_eq!(after(class, false, BUILT_IN_RETRIES), "exhausted", "{class:?}");
    }
    assert_eq!(after(FailureClass::Permanent, false, 1), "permanent");
    assert_eq!(after(FailureClass::Permanent, true, 1), "failed");
    assert_eq!(after(FailureClass::Permanent, true, BUILT_IN_RETRIES), "exhausted");
}

#[test]
fn a_letter_that_its_rule_archives_or_holds_is_never_attempted() {
    let facts = LetterFacts::default();
    let letter = marked(0, None);
    let archive = under(&json!({ "action": "archive" }));
    assert_eq!(
        archive.decide(&letter, &facts, at(NOW)).decision,
        Decision::Archive(ArchiveReason::Rule, None)
    );
    let hold = under(&json!({ "action": "hold" }));
    let due = at(NOW + millis(VISIBILITY_CEILING));
    for spent in [0, 3, BUILT_IN_RETRIES] {
        let held = Deferral { hide: VISIBILITY_CEILING, due, retry: spent + 1, why: DeferReason::Hold };
        assert_eq!(held.for_mark(), (spent, None), "holding is no retry, and none is due");
        let letter = marked(spent, None);
        assert_eq!(hold.decide(&letter, &facts, at(NOW)).decision, Decision::Defer(held));
    }
}

#[test]
fn a_letter_without_a_way_to_its_target_is_unrecognised() {
    const NO_SUBSCRIPTION: Option<&str> =
        Some("the letter names no subscription: set the subscription of its rule");
    const NO_SOURCE: Option<&str> =
        Some("SQS did not move the letter here, so the letter has no source queue");
    const NO_TOPIC: Option<&str> =
        Some("the letter names no topic: set the target of its rule to a topic's ARN");
    let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";

    let sns = letter(&record(&envelope("hello", &json!({}))));
    let anonymous = letter(&record(&envelope("hello", &json!({})).replace(SUBSCRIPTION, "nobody")));
    let raw = letter(&record("hello"));
    let mut moved_raw = record("hello");
    moved_raw["attributes"]["DeadLetterQueueSourceArn"] = queue.into();
    let moved_raw = letter(&moved_raw);
    let mut lambda = record("{}");
    lambda["messageAttributes"]["RequestID"] = text_attribute("1");
    lambda["messageAttributes"]["ErrorCode"] = text_attribute("200");
    let lambda = letter(&lambda);

    let decide = |rule: &Value, letter: &Letter| match under(rule)
        .decide(letter, &LetterFacts::default(), at(NOW))
        .decision
    {
        Decision::Deliver(retry) if retry.number == 1 => None,
        Decision::Archive(ArchiveReason::Unrecognised, Some(detail)) => Some(detail),
        other => panic!("{other:?}"),
    };
    for (target, expected) in [
        // In order: an SNS letter, one that names no subscription, a raw one, a raw one that SQS moved, and
        // one of a Lambda function that holds no SNS event.
        ("origin", [None, NO_SUBSCRIPTION, NO_SUBSCRIPTION, None, NO_FUNCTION]),
        ("subscription", [None, NO_SUBSCRIPTION, NO_SUBSCRIPTION, NO_SUBSCRIPTION, NO_SUBSCRIPTION]),
        ("source", [NO_SOURCE, NO_SOURCE, NO_SOURCE, None, NO_SOURCE]),
        ("topic", [None, NO_SUBSCRIPTION, NO_TOPIC, NO_TOPIC, NO_TOPIC]),
        (queue, [None; 5]),
    ] {
        let rule = json!({ "target": target });
        let details = [&sns, &anonymous, &raw, &moved_raw, &lambda].map(|letter| decide(&rule, letter));
        assert_eq!(details, expected, "target {target}");
    }
    for target in ["origin", "subscription"] {
        let rule = json!({ "target": target, "subscription": SUBSCRIPTION });
        assert_eq!(decide(&rule, &raw), None, "a rule may name the subscription of raw letters");
    }
}

const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";

/// If copies were published again, each copy of each retry would make new ones.
#[test]
fn a_copy_that_our_own_publishing_made_goes_back_to_what_failed_and_to_no_topic() {
    let subscription: Arn = SUBSCRIPTION.parse().unwrap();
    let back = |again| Route::Returned { subscription: subscription.clone(), again };
    let marked = |published: u32, id: &str| {
        let mark = json!({ "v": 2, "spent": 1, "id": id, "first": NOW, "passes": 1, "pub": published });
        json!({ "sns-redrive": { "Type": "String", "Value": made_for("hello", mark).to_string() } })
    };
    for target in ["topic", TOPIC, "arn:aws:sns:eu-central-1:123456789012:another"] {
        let topic = under(&json!({ "target": target }));
        let route = |record: &Value| topic.decide(&letter(record), &LetterFacts::default(), at(NOW)).route;
        let copy = |published, id: &str| route(&record(&envelope("hello", &marked(published, id))));
        let own = format!("d3344452/{SUBSCRIPTION}");
        let other = format!("d3344452/{SUBSCRIPTION}0");
        assert_eq!(copy(1, &own), back(true), "{target}");
        assert_eq!(copy(0, &own), back(true), "what stands in an envelope was published");
        assert_eq!(copy(7, &own), back(true));
        assert_eq!(copy(1, &other), back(false));
        assert_eq!(
            copy(1, "512a856d-6e86-45b6-a7a3-8627a61ec790"),
            back(false),
            "it was a raw letter before"
        );
        assert!(
            matches!(copy(2, &other), Route::Nowhere(ArchiveReason::Returned, _)),
            "an earlier copy is there"
        );
        // A letter that SQS moved goes to the queue that it came from.
        let mut moved = record(&envelope("hello", &marked(1, &other)));
        moved["attributes"]["DeadLetterQueueSourceArn"] = WORKER.into();
        assert_eq!(route(&moved), Route::To(WORKER.parse().unwrap()));
        // A raw copy does not say where it failed.
        let mut raw = record("hello");
        raw["messageAttributes"] = json!({ "sns-redrive": text_attribute(
            marked(1, "m")["sns-redrive"]["Value"].as_str().unwrap()) });
        assert!(matches!(route(&raw), Route::Nowhere(ArchiveReason::Returned, _)), "{target}");
        let named = under(&json!({ "target": target, "subscription": SUBSCRIPTION }));
        let route = named.decide(&letter(&raw), &LetterFacts::default(), at(NOW)).route;
        assert_eq!(route, Route::ThroughSubscription(subscription.clone()));
    }
}

#[test]
fn under_topic_a_letter_of_sns_that_was_not_published_by_us_is_published() {
    let topic = under(&json!({ "target": "topic" }));
    let record = record(&envelope("hello", &json!({})));
    let route = topic.decide(&letter(&record), &LetterFacts::default(), at(NOW)).route;
    assert_eq!(route, Route::ToTopicOf(SUBSCRIPTION.parse().unwrap(), SubscriptionVoucher::DeadLetters));
}

/// Anyone who can write to the source queue can name any topic.
#[test]
fn under_topic_a_letter_that_sqs_moved_needs_a_subscription_that_delivers_to_its_source() {
    let topic = under(&json!({ "target": "topic" }));
    let route = |subscription| {
        let mut record = record(&envelope("hello", &json!({})).replace(SUBSCRIPTION, subscription));
        record["attributes"]["DeadLetterQueueSourceArn"] = WORKER.into();
        topic.decide(&letter(&record), &LetterFacts::default(), at(NOW)).route
    };
    let vouched = SubscriptionVoucher::DeliversTo(WORKER.parse().unwrap());
    assert_eq!(route(SUBSCRIPTION), Route::ToTopicOf(SUBSCRIPTION.parse().unwrap(), vouched));
    assert!(matches!(route("nobody"), Route::Nowhere(ArchiveReason::Refused, _)));
}

/// Returns a letter in the requeue whose mark says that a replay sends it to the successor of its
/// subscription.
fn to_the_successor(mut record: Value) -> Letter {
    let mark = json!({ "v": 2, "spent": 0, "id": "d3344452", "first": NOW, "gen": 1, "dlq": redrive_testing::DLQ, "to": SUCCESSOR });
    record["messageAttributes"]["sns-redrive"] = text_attribute(&made_for("hello", mark).to_string());
    Letter::parse_requeued(received(&record), TrustedOrigins::none())
}

const SUCCESSOR: &str = "arn:aws:sns:eu-central-1:123456789012:payments:c1b3d1a5-1f0e-4d0c-9a54-2f6f1c2f7a10";

#[test]
fn a_letter_that_sns_gave_up_on_goes_to_the_successor_of_its_subscription_whatever_its_rule_says() {
    let replayed = to_the_successor(record(&envelope("hello", &json!({}))));
    for rule in [
        json!({}),
        json!({ "target": "subscription" }),
        json!({ "target": "topic" }),
        json!({ "target": WORKER }),
        json!({ "target": "origin", "subscription": SUBSCRIPTION }),
        json!({ "target": "origin", "subscription": "discover" }),
    ] {
        let policy = under(&rule);
        let route = policy.decide(&replayed, &LetterFacts::default(), at(NOW)).route;
        assert_eq!(route, Route::ThroughSubscription(SUCCESSOR.parse().unwrap()), "{rule}");
        assert!(!policy.default_rule().asks_for_subscription(&replayed));
    }
}

/// The successor takes over the letters of its subscription, and no others.
#[test]
fn no_other_letter_goes_to_the_successor_of_a_subscription() {
    let mut moved = record(&envelope("hello", &json!({})));
    moved["attributes"]["DeadLetterQueueSourceArn"] = WORKER.into();
    let anonymous = record(&envelope("hello", &json!({})).replace(SUBSCRIPTION, "nobody"));
    for letter in [record("hello"), anonymous, moved].map(to_the_successor) {
        for rule in [json!({}), json!({ "subscription": SUBSCRIPTION }), json!({ "target": "topic" })] {
            let route = under(&rule).decide(&letter, &LetterFacts::default(), at(NOW)).route;
            assert!(matches!(route, Route::Nowhere(ArchiveReason::Refused, _)), "{rule}: {route:?}");
        }
    }
}

#[test]
fn a_subscription_is_looked_for_only_where_a_letter_needs_one_and_none_is_named() {
    let sns = letter(&record(&envelope("hello", &json!({}))));
    let anonymous = letter(&record(&envelope("hello", &json!({})).replace(SUBSCRIPTION, "nobody")));
    let raw = letter(&record("hello"));
    let mut moved = record("hello");
    moved["attributes"]["DeadLetterQueueSourceArn"] = "arn:aws:sqs:eu-central-1:123456789012:worker".into();
    let moved = letter(&moved);
    let asks = |rule: &Value| {
        let policy = under(rule);
        [&sns, &anonymous, &raw, &moved].map(|letter| policy.default_rule().asks_for_subscription(letter))
    };
    for (target, expected) in [
        ("origin", [false, true, true, false]),
        ("subscription", [false, true, true, true]),
        ("source", [false; 4]),
        ("topic", [false; 4]),
        ("arn:aws:sqs:eu-central-1:123456789012:worker", [false; 4]),
    ] {
        let discover = json!({ "target": target, "subscription": "discover" });
        assert_eq!(asks(&discover), expected, "target {target}");
        let named = json!({ "target": target, "subscription": SUBSCRIPTION });
        assert_eq!(asks(&named), [false; 4], "target {target}, named");
        for action in ["archive", "hold"] {
            let idle = json!({ "target": target, "subscription": "discover", "action": action });
            assert_eq!(asks(&idle), [false; 4], "target {target}, {action}");
        }
    }
}

/// Overrides again and again, each of which the target accepts, and each time the letter comes back.
#[test]
fn attempts_without_a_number_make_no_loop_of_a_letter_that_keeps_its_message() {
    for (message, is_loop) in [("hello", false), ("another", true)] {
        let mark =
            json!({ "v": 2, "spent": 1, "id": "letter-1", "first": NOW, "passes": 150, "early": true });
        let mut record = record(&envelope("hello", &json!({})));
        record["messageAttributes"]["sns-redrive"] = text_attribute(&made_for(message, mark).to_string());
        let decision = Policy::built_in().decide(&letter(&record), &LetterFacts::default(), at(NOW)).decision;
        let ended = matches!(decision, Decision::Archive(ArchiveReason::Loop, _));
        assert_eq!(ended, is_loop, "made for {message}: {decision:?}");
    }
}

/// Its last planned moment lies six hours before the next.
#[test]
fn a_letter_in_the_requeue_goes_early_once_its_endpoint_is_back() {
    let policy = under(&json!({ "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": {
        "minDelayTarget": 21_600, "maxDelayTarget": 21_600, "numRetries": 9 } } }));
    let due = NOW + 10_800_000;
    let decided = |letter: &Letter, recovered: i64| {
        let facts = LetterFacts { recovered: Some(at(recovered)), ..LetterFacts::default() };
        policy.decide(letter, &facts, at(NOW)).decision
    };
    let waiting = || {
        let mut letter = marked(5, Some(due));
        letter.mark.as_mut().unwrap().first = at(NOW - 86_400_000);
        letter
    };
    let Decision::Deliver(retry) = decided(&waiting(), NOW - 1_000) else { panic!("it waits") };
    assert_eq!((retry.number, retry.planned), (5, Some(at(due))), "an attempt without a number");
    // It failed after that, or arrived after it.
    let waits =
        |decision: &Decision| matches!(decision, Decision::Defer(Deferral { why: DeferReason::Early, .. }));
    assert!(waits(&decided(&waiting(), NOW - 10_801_000)));
    assert!(waits(&decided(&marked(5, Some(due)), NOW - 1_000)));
    let mut back_again = waiting();
    back_again.mark.as_mut().unwrap().early = true;
    assert!(waits(&decided(&back_again, NOW - 1_000)), "what comes back from such an attempt waits");
    assert!(waits(&policy.decide(&waiting(), &LetterFacts::default(), at(NOW)).decision));
}

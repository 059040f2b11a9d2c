//! Subscriptions, and the policy that says where their letters go.

use super::*;

#[test]
fn subscriptions_are_looked_at() {
    let one = |change: fn(&mut DeployedSubscription)| found(|it| change(&mut all(it)[0]));
    let second = |change: fn(&mut DeployedSubscription)| {
        found(|it| {
            all(it).push(subscription("arn:aws:sns:eu-central-1:123456789012:payments:2"));
            change(&mut all(it)[1]);
        })
    };
    assert_eq!(second(|_| {}), []);
    assert_eq!(found(|it| all(it).clear()), [(Warning, "subscriptions")]);
    assert_eq!(one(|it| it.is_raw = true), [(Error, "subscriptions-raw")]);
    assert_eq!(
        second(|it| it.is_raw = true),
        [(Error, "subscriptions-raw"), (Warning, "subscriptions-raw-shared")]
    );
    assert_eq!(second(|it| it.dead_letters = None), [(Warning, "subscription-without-queue")]);
    assert_eq!(one(|it| it.protocol = "email".to_owned()), [(Warning, "subscription-protocol")]);
    for (protocol, expected) in [("https", vec![(Warning, "subscription-protocol")]), ("sqs", vec![])] {
        let found = found(|it| {
            it.function.settings = Ok(settings(&[("HTTP_TARGETS", "off")]));
            protocol.clone_into(&mut all(it)[0].protocol);
        });
        assert_eq!(found, expected);
    }
    assert_eq!(one(|it| it.protocol = "https".to_owned()), []);
    assert_eq!(one(|it| it.endpoint = DLQ.to_owned()), [(Error, "subscription-endpoint")]);
    for endpoint in [DLQ, REQUEUE] {
        let of_another_topic = found(|it| {
            let other = subscription("arn:aws:sns:eu-central-1:123456789012:bills:1");
            let (topic, endpoint) = (format!("{TOPIC}-bills"), endpoint.to_owned());
            all(it).push(DeployedSubscription { topic, endpoint, dead_letters: None, ..other });
        });
        assert_eq!(of_another_topic, [(Error, "subscription-endpoint")]);
    }
    let of_requeue = found(|it| {
        let topic = "arn:aws:sns:eu-central-1:123456789012:bills".to_owned();
        let other = subscription("arn:aws:sns:eu-central-1:123456789012:bills:1");
        all(it).push(DeployedSubscription { topic, dead_letters: Some(REQUEUE.to_owned()), ..other });
    });
    assert_eq!(of_requeue, [(Error, "subscription-requeue")]);
    let filter =
        |it: &mut DeployedSubscription| it.filter = Some(r#"{"sns-redrive":[{"exists":false}]}"#.to_owned());
    assert_eq!(one(filter), [(Warning, "subscription-filter")]);
    let under_or = |it: &mut DeployedSubscription| {
        let nested =
            r#"{"$or":[{"tenant":["gold"]},{"$or":[{"a":["b"]},{"sns-redrive":[{"exists":false}]}]}]}"#;
        it.filter = Some(nested.to_owned());
    };
    assert_eq!(one(under_or), [(Warning, "subscription-filter")]);
    for other in [r#"{"tenant":["gold"]}"#, r#"{"$or":[{"tenant":["sns-redrive"]},{"kind":["x"]}]}"#] {
        assert_eq!(found(|it| all(it)[0].filter = Some(other.to_owned())), [], "{other}");
    }
    let fifo = found(|it| {
        all(it)[0].topic += ".fifo";
        set(&mut it.queues[0], "Policy", lets_sns_in("arn:aws:sns:*:*:*"));
    });
    assert_eq!(fifo, [(Error, "subscription-kind")]);
}

#[test]
fn subscriptions_of_one_fifo_topic_need_queues_of_their_own() {
    let shared = |topics: &[&str]| {
        let found = found(|it| {
            let queue = format!("{DLQ}.fifo");
            it.queues[0].arn = queue.parse().unwrap();
            *all(it) = topics
                .iter()
                .map(|topic| {
                    let topic = format!("arn:aws:sns:eu-central-1:123456789012:{topic}");
                    let one = subscription(&format!("{topic}:1"));
                    DeployedSubscription { topic, dead_letters: Some(queue.clone()), ..one }
                })
                .collect();
        });
        found.contains(&(Warning, "subscriptions-fifo-shared"))
    };
    assert!(shared(&["payments.fifo", "payments.fifo"]));
    assert!(!shared(&["payments.fifo", "bills.fifo"]));
    assert!(
        !found(|it| all(it).push(subscription("arn:aws:sns:eu-central-1:123456789012:payments:2")))
            .contains(&(Warning, "subscriptions-fifo-shared"))
    );
}

const RAW: &str = "arn:aws:sns:eu-central-1:123456789012:payments:2";

/// Returns the findings if a raw subscription shares the queue, with this redrive policy.
fn found_of_raw(policy: &serde_json::Value) -> Vec<(Severity, &'static str)> {
    found(|it| {
        it.function.settings = Ok(settings(&[("REDRIVE_POLICY", &policy.to_string())]));
        all(it).push(DeployedSubscription { is_raw: true, ..subscription(RAW) });
    })
}

#[test]
fn the_default_finds_a_raw_subscription_and_a_rule_that_need_not_match_may() {
    let (shared, raw) = ("subscriptions-raw-shared", "subscriptions-raw");
    let named = json!({ "subscription": RAW });
    assert_eq!(found_of_raw(&json!({ "default": named })), [(Warning, shared)]);
    let rule = json!({ "name": "raw", "match": { "origin": ["raw"] }, "verifySignature": false, "subscription": RAW });
    assert_eq!(found_of_raw(&json!({ "rules": [rule] })), [(Warning, shared), (CannotTell, raw)]);
    let verified = json!({ "default": { "verifySignature": true }, "rules": [rule] });
    assert_eq!(found_of_raw(&verified), [(CannotTell, raw)]);
    for action in ["archive", "hold"] {
        let mut rule = rule.clone();
        rule["action"] = json!(action);
        let sent = json!({ "default": { "verifySignature": true }, "rules": [rule] });
        assert_eq!(found_of_raw(&sent), [(Error, raw)], "a rule that sends nothing finds nothing");
    }
}

#[test]
fn signatures_keep_others_safe_where_the_default_asks_for_them() {
    let (shared, raw) = ("subscriptions-raw-shared", "subscriptions-raw");
    let verifies = json!({ "name": "v", "match": { "origin": ["sns"] }, "verifySignature": true });
    let by_rule = json!({ "default": { "subscription": RAW }, "rules": [verifies] });
    assert_eq!(found_of_raw(&by_rule), [(CannotTell, shared)]);
    let all = json!({ "default": { "subscription": RAW, "verifySignature": true } });
    assert_eq!(found_of_raw(&all), [(Error, raw)], "raw letters have no signature");
    let in_file = found(|it| {
        it.function.has_policy_file = true;
        self::all(it).push(DeployedSubscription { is_raw: true, ..subscription(RAW) });
    });
    assert_eq!(in_file, [(CannotTell, "function-policy"), (CannotTell, shared), (CannotTell, raw)]);
}

#[test]
fn a_search_finds_a_raw_subscription_that_alone_names_the_queue() {
    let (shared, raw) = ("subscriptions-raw-shared", "subscriptions-raw");
    let search = json!({ "default": { "subscription": "discover" } });
    assert_eq!(
        found_of_raw(&search),
        [(Error, raw), (Warning, shared)],
        "another names it, though not a raw one"
    );
    let alone = |change: fn(&mut AccountSubscriptions)| {
        found(|it| {
            it.function.settings = Ok(settings(&[("REDRIVE_POLICY", &search.to_string())]));
            all(it)[0].is_raw = true;
            change(it.subscriptions.as_mut().unwrap());
        })
    };
    assert_eq!(alone(|_| {}), []);
    assert_eq!(alone(|it| it.pending = 1), [(CannotTell, raw), (Note, "subscriptions-pending")]);
    let unread = alone(|it| it.unread = BTreeMap::from([("Throttled".to_owned(), 1)]));
    assert_eq!(unread, [(CannotTell, raw), (CannotTell, "subscriptions")]);
}

#[test]
fn what_cannot_be_asked_of_subscriptions_is_told() {
    let of = |change: fn(&mut AccountSubscriptions)| found(|it| change(it.subscriptions.as_mut().unwrap()));
    let unread = |it: &mut AccountSubscriptions| {
        it.unread.insert("AuthorizationError".to_owned(), 3);
    };
    assert_eq!(of(unread), [(CannotTell, "subscriptions")]);
    assert_eq!(of(|it| it.pending = 1), [(Note, "subscriptions-pending")]);
    let foreign = |it: &mut AccountSubscriptions| drop(it.foreign.insert(TOPIC.to_owned(), Ok(1)));
    assert_eq!(of(foreign), [(CannotTell, "subscriptions-foreign")]);
    let unlisted = |it: &mut AccountSubscriptions| {
        it.foreign.insert(TOPIC.to_owned(), denied("sns:ListSubscriptionsByTopic"));
    };
    assert_eq!(of(unlisted), [(CannotTell, "subscriptions-foreign")]);
    let unknown = found(|it| it.subscriptions = denied("sns:ListSubscriptions"));
    assert_eq!(unknown, [(CannotTell, "subscriptions")]);
}

#[test]
fn who_was_not_denied_is_told_of_no_permission() {
    for (why, is_denied) in [
        ("AccessDeniedException", true),
        ("AuthorizationError", true),
        ("Http403", true),
        ("Throttled", false),
        ("Timeout", false),
        ("1403 of the list could not be read", false),
    ] {
        let mut setup = healthy();
        let error = ReadError::new("sns:ListSubscriptionsByTopic", why);
        let subscriptions = setup.subscriptions.as_mut().unwrap();
        subscriptions.unread.insert(why.to_owned(), 1);
        subscriptions.foreign.insert(TOPIC.to_owned(), Err(error));
        let usual = check(&healthy());
        let findings: Vec<_> = check(&setup).into_iter().filter(|it| !usual.contains(it)).collect();
        let told =
            findings.iter().filter(|it| it.fix.as_ref().is_some_and(|it| it.contains("give yourself sns:")));
        assert_eq!((findings.len(), told.count()), (2, if is_denied { 2 } else { 0 }), "{why}");
    }
}

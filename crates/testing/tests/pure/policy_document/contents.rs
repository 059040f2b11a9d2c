//! The contents of a document.

use super::*;

#[test]
fn the_built_in_policy_is_the_default_of_the_contract_without_throttle_and_request_policy() {
    assert_eq!(rules(&Policy::built_in()), [built_in_rule()]);
    let mut document: Value = serde_json::from_str(EXAMPLE).unwrap();
    document.as_object_mut().unwrap().remove("rules");
    let delivery = document["default"]["deliveryPolicy"].as_object_mut().unwrap();
    delivery.remove("throttlePolicy");
    delivery.remove("requestPolicy");
    assert_eq!(rules(&parsed(&document)), [built_in_rule()]);
    assert_eq!(rules(&parsed(&json!({}))), [built_in_rule()], "an empty document changes nothing");
}

#[test]
fn the_example_of_the_contract_says_what_it_says() {
    let default = Rule {
        delivery: DeliverySpec::Inline(DeliveryPolicy {
            max_receives_per_second: Some(100),
            content_type: Some("application/json".into()),
            ..given(&built_in_rule())
        }),
        ..built_in_rule()
    };
    let audit =
        Rule { name: "audit-is-never-retried".into(), action: RuleAction::Archive, ..default.clone() };
    let billing = Rule {
        name: "billing-slowly".into(),
        target: TargetSpec::Topic,
        delivery: DeliverySpec::Inline(DeliveryPolicy::of(Schedule::CUSTOMER_MANAGED)),
        ..default.clone()
    };
    let policy = Policy::parse(EXAMPLE).unwrap();
    assert_eq!(rules(&policy), [default, audit, billing]);
    assert!(format!("{policy:?}").contains("Matcher of 2 patterns"), "{policy:?}");
}

#[test]
fn a_rule_takes_from_the_default_what_it_leaves_out() {
    let given = json!({
        "target": "topic", "action": "hold", "jitter": 0.5, "allowTargets": [TOPIC], "retryPermanent": true,
        "subscription": SUBSCRIPTION, "verifySignature": true, "deliveryPolicy": "http-default",
        "fifo": "step-aside", "recordDelimiter": "none",
    });
    let default = default_of(&given);
    assert_eq!(default.subscription, SubscriptionSpec::Named(SUBSCRIPTION.parse().unwrap()));
    assert!(default.verify_signature);
    assert_eq!(default.fifo, FifoHandling::StepAside);
    assert_eq!(default.record_delimiter, RecordDelimiter::None);
    let pattern = json!({ "origin": ["sns"] });
    let inheriting = json!({ "default": given, "rules": [{ "name": "r", "match": pattern }] });
    assert_eq!(rules(&parsed(&inheriting))[1], Rule { name: "r".into(), ..default });

    let contrary = json!({ "default": given, "rules": [{
        "name": "r", "match": pattern, "target": "source", "action": "redrive", "jitter": 0, "allowTargets": [],
        "retryPermanent": false, "subscription": "discover", "verifySignature": false,
        "deliveryPolicy": "aws-managed", "fifo": "block", "recordDelimiter": "newline",
    }] });
    let expected = Rule {
        name: "r".into(),
        action: RuleAction::Redrive,
        target: TargetSpec::Source,
        delivery: DeliverySpec::Inline(DeliveryPolicy::of(Schedule::AWS_MANAGED)),
        jitter: 0.0,
        allow_targets: Some(vec![]),
        retry_permanent: false,
        subscription: SubscriptionSpec::Discover,
        verify_signature: false,
        fifo: FifoHandling::Block,
        record_delimiter: RecordDelimiter::Newline,
    };
    assert_eq!(rules(&parsed(&contrary))[1], expected);
}

#[test]
fn a_delivery_policy_replaces_the_whole_one_of_the_default() {
    let document = json!({
        "default": { "deliveryPolicy": {
            "healthyRetryPolicy": { "minDelayTarget": 60, "maxDelayTarget": 600, "numRetries": 9 },
            "throttlePolicy": { "maxReceivesPerSecond": 100 } } },
        "rules": [{ "name": "r", "match": { "origin": ["sns"] },
            "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 5 } } }],
    });
    // The parts that it omits have SNS's defaults, not those of the default rule.
    let expected = DeliveryPolicy::of(Schedule { retries: 5, ..Schedule::HTTP_DEFAULT });
    assert_eq!(given(&rules(&parsed(&document))[1]), expected);
}

#[test]
fn attributes_that_a_document_omits_stand_at_the_defaults_of_sns() {
    let http_default = Schedule {
        min: 20,
        max: 20,
        retries: 3,
        no_delay: 0,
        min_delay: 0,
        max_delay: 0,
        backoff: Backoff::Linear,
    };
    for document in
        [json!("http-default"), json!({}), json!({ "healthyRetryPolicy": {} }), json!({ "http": {} })]
    {
        let rule = default_of(&json!({ "deliveryPolicy": document }));
        assert_eq!(given(&rule), DeliveryPolicy::of(http_default.clone()), "{document}");
    }
}

#[test]
fn both_shapes_of_sns_say_the_same() {
    let healthy = json!({ "minDelayTarget": 1, "maxDelayTarget": 60, "numRetries": 50, "numNoDelayRetries": 3,
        "numMinDelayRetries": 2, "numMaxDelayRetries": 35, "backoffFunction": "arithmetic" });
    let throttle = json!({ "maxReceivesPerSecond": 10 });
    let request = json!({ "headerContentType": "text/plain; charset=UTF-8" });
    let expected = DeliveryPolicy {
        schedule: Schedule {
            min: 1,
            max: 60,
            retries: 50,
            no_delay: 3,
            min_delay: 2,
            max_delay: 35,
            backoff: Backoff::Arithmetic,
        },
        max_receives_per_second: Some(10),
        content_type: Some("text/plain; charset=UTF-8".into()),
    };
    for document in [
        json!({ "healthyRetryPolicy": healthy, "throttlePolicy": throttle, "requestPolicy": request }),
        json!({ "http": { "defaultHealthyRetryPolicy": healthy, "disableSubscriptionOverrides": true,
            "defaultThrottlePolicy": throttle, "defaultRequestPolicy": request } }),
    ] {
        assert_eq!(given(&default_of(&json!({ "deliveryPolicy": document }))), expected, "{document}");
    }
}

#[test]
fn presets_and_backoff_functions_go_by_their_names() {
    for (preset, schedule) in [
        ("aws-managed", Schedule::AWS_MANAGED),
        ("customer-managed", Schedule::CUSTOMER_MANAGED),
        ("http-default", Schedule::HTTP_DEFAULT),
    ] {
        assert_eq!(schedule_of(&json!(preset)), schedule, "{preset}");
    }
    let from_subscription = default_of(&json!({ "deliveryPolicy": "from-subscription" }));
    assert_eq!(from_subscription.delivery, DeliverySpec::FromSubscription);
    for (name, function) in [
        ("linear", Backoff::Linear),
        ("arithmetic", Backoff::Arithmetic),
        ("geometric", Backoff::Geometric),
        ("exponential", Backoff::Exponential),
    ] {
        let document = json!({ "healthyRetryPolicy": { "backoffFunction": name } });
        assert_eq!(schedule_of(&document).backoff, function, "{name}");
    }
}

#[test]
fn targets_are_words_or_arns() {
    let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";
    let function = "arn:aws:lambda:eu-central-1:123456789012:function:payments-notifier";
    let alias = "arn:aws:lambda:eu-central-1:123456789012:function:payments-notifier:live";
    for (text, target) in [
        ("origin", TargetSpec::Origin),
        ("subscription", TargetSpec::Subscription),
        ("source", TargetSpec::Source),
        ("topic", TargetSpec::Topic),
        (TOPIC, TargetSpec::Arn(TOPIC.parse().unwrap())),
        (queue, TargetSpec::Arn(queue.parse().unwrap())),
        (function, TargetSpec::Arn(function.parse().unwrap())),
        (alias, TargetSpec::Arn(alias.parse().unwrap())),
    ] {
        assert_eq!(default_of(&json!({ "target": text })).target, target, "{text}");
    }
}

#[test]
fn the_limits_themselves_are_allowed() {
    let healthy = |healthy: Value| schedule_of(&json!({ "healthyRetryPolicy": healthy }));
    let most =
        healthy(json!({ "minDelayTarget": 1_209_600, "maxDelayTarget": 1_209_600, "numRetries": 100_015 }));
    assert_eq!((most.min, most.max, most.retries), (1_209_600, 1_209_600, 100_015));
    let least = healthy(json!({ "minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 0 }));
    assert_eq!((least.min, least.max, least.retries), (1, 1, 0));
    let full = healthy(
        json!({ "numRetries": 6, "numNoDelayRetries": 1, "numMinDelayRetries": 2, "numMaxDelayRetries": 3 }),
    );
    assert_eq!(full.in_backoff(), 0);
    for jitter in [0.0, 1.0] {
        assert!((default_of(&json!({ "jitter": jitter })).jitter - jitter).abs() < f64::EPSILON);
    }
    let name = "ü".repeat(64);
    let named = json!({ "rules": [{ "name": name, "match": { "origin": ["sns"] } }] });
    assert_eq!(rules(&parsed(&named))[1].name, name);
}

/// What SNS prints of a subscription, and the numbers that `CloudFormation` writes, can stand in a policy.
#[test]
fn a_delivery_policy_as_sns_prints_it_is_taken() {
    let healthy =
        json!({ "minDelayTarget": 5, "maxDelayTarget": 50, "numRetries": 7, "backoffFunction": "linear" });
    let doubles =
        json!({ "minDelayTarget": 5.0, "maxDelayTarget": 5e1, "numRetries": 7.0, "numNoDelayRetries": 0.0 });
    let subscription = |healthy: &Value| {
        json!({ "healthyRetryPolicy": healthy, "sicklyRetryPolicy": null, "throttlePolicy": null,
            "requestPolicy": null, "guaranteed": false })
    };
    let topic = json!({ "http": { "defaultHealthyRetryPolicy": healthy, "defaultSicklyRetryPolicy": null,
        "defaultThrottlePolicy": null, "disableSubscriptionOverrides": false } });
    for printed in [subscription(&healthy), subscription(&doubles), topic] {
        let DeliverySpec::Inline(policy) = default_of(&json!({ "deliveryPolicy": printed })).delivery else {
            panic!("{printed}");
        };
        let numbers = (policy.schedule.min, policy.schedule.max, policy.schedule.retries);
        assert_eq!(numbers, (5, 50, 7), "{printed}");
        assert_eq!(DeliveryPolicy::from_effective(&printed.to_string()), Some(policy));
    }
    for (key, value) in [("sicklyRetryPolicy", json!({ "numRetries": 3 })), ("guaranteed", json!(true))] {
        let document = json!({ "default": { "deliveryPolicy": { key: value } } });
        let faults = Policy::parse(&document.to_string()).unwrap_err().to_string();
        assert!(faults.starts_with(&format!("default.deliveryPolicy.{key}: must be ")), "{faults}");
        assert!(faults.ends_with("SNS no longer has such a policy"), "{faults}");
    }
}

/// SNS may add keys to its own documents. In ours an unknown key is a mistake.
#[test]
fn what_sns_says_of_a_subscription_is_read_with_keys_that_nobody_knows() {
    let said = json!({
        "healthyRetryPolicy": { "minDelayTarget": 5, "maxDelayTarget": 50, "numRetries": 7, "jitterFunction": "full" },
        "guaranteed": false,
        "throttlePolicy": { "maxReceivesPerSecond": 3, "burst": 9 },
    })
    .to_string();
    let policy = DeliveryPolicy::from_effective(&said).unwrap();
    assert_eq!((policy.schedule.min, policy.schedule.max, policy.schedule.retries), (5, 50, 7));
    assert_eq!(policy.max_receives_per_second, Some(3));
    for nothing in ["", "7", "[]", r#"{"healthyRetryPolicy":{"numRetries":-1}}"#] {
        assert_eq!(DeliveryPolicy::from_effective(nothing), None, "{nothing:?}");
    }
}

//! The redrive policy document: what it can say, what is refused and how, and which rule a letter
//! falls under.

use proptest::prelude::*;
use redrive_core::letter::{Claim, Letter, Origins};
use redrive_core::policy::{
    Action, ArchiveReason, Backoff, BadPolicy, Decision, DeliveryPolicy, DeliverySpec, Facts, Fifo, Policy,
    RecordDelimiter, Rule, Schedule, SubscriptionSpec, TargetSpec,
};
use redrive_testing::record::{envelope, letter, record, sample, text_attribute};
use redrive_testing::{DLQ, NOW, SUBSCRIPTION, TOPIC, at, holds};
use serde_json::{Value, json};

/// The example of the contract, whose `default` is the built-in policy.
const EXAMPLE: &str = r#"{
  "default": {
    "target": "origin",
    "deliveryPolicy": {
      "healthyRetryPolicy": { "minDelayTarget": 60, "maxDelayTarget": 21600, "numRetries": 12,
        "numNoDelayRetries": 1, "numMinDelayRetries": 2, "numMaxDelayRetries": 2, "backoffFunction": "exponential" },
      "throttlePolicy": { "maxReceivesPerSecond": 100 },
      "requestPolicy": { "headerContentType": "application/json" }
    },
    "jitter": 0.1
  },
  "rules": [
    { "name": "audit-is-never-retried", "match": { "topicArn": [{ "suffix": ":audit" }] }, "action": "archive" },
    { "name": "billing-slowly", "match": { "messageAttributes": { "tenant": ["gold"] } },
      "target": "topic", "deliveryPolicy": "customer-managed" }
  ]
}"#;

fn parsed(document: &Value) -> Policy {
    Policy::parse(&document.to_string()).unwrap()
}

fn rules(policy: &Policy) -> Vec<Rule> {
    policy.all_rules().cloned().collect()
}

/// The rule of the default section.
fn default_of(section: &Value) -> Rule {
    rules(&parsed(&json!({ "default": section }))).remove(0)
}

/// The delivery policy of a rule that gives one itself.
fn given(rule: &Rule) -> DeliveryPolicy {
    match &rule.delivery {
        DeliverySpec::Given(policy) => policy.clone(),
        DeliverySpec::FromSubscription => panic!("{} goes by its subscription", rule.name),
    }
}

fn schedule_of(delivery_policy: &Value) -> Schedule {
    given(&default_of(&json!({ "deliveryPolicy": delivery_policy }))).schedule
}

/// Every fault of a document: path and problem.
fn faults(document: &Value) -> Vec<(String, String)> {
    let BadPolicy(faults) = Policy::parse(&document.to_string()).unwrap_err();
    faults.into_iter().map(|fault| (fault.path, fault.problem)).collect()
}

fn the_only_fault(document: &Value) -> (String, String) {
    let mut faults = faults(document);
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults.remove(0)
}

// ---------------------------------------------------------------------------------------------
// What a document says

fn built_in_rule() -> Rule {
    Rule {
        name: "default".into(),
        action: Action::Redrive,
        target: TargetSpec::Origin,
        delivery: DeliverySpec::Given(DeliveryPolicy::of(Schedule {
            min: 60,
            max: 21_600,
            retries: 12,
            no_delay: 1,
            min_delay: 2,
            max_delay: 2,
            backoff: Backoff::Exponential,
        })),
        jitter: 0.1,
        allow_targets: None,
        retry_permanent: false,
        subscription: SubscriptionSpec::None,
        verify_signature: false,
        fifo: Fifo::Block,
        record_delimiter: RecordDelimiter::Newline,
    }
}

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
        delivery: DeliverySpec::Given(DeliveryPolicy {
            max_receives_per_second: Some(100),
            content_type: Some("application/json".into()),
            ..given(&built_in_rule())
        }),
        ..built_in_rule()
    };
    let audit = Rule { name: "audit-is-never-retried".into(), action: Action::Archive, ..default.clone() };
    let billing = Rule {
        name: "billing-slowly".into(),
        target: TargetSpec::Topic,
        delivery: DeliverySpec::Given(DeliveryPolicy::of(Schedule::CUSTOMER_MANAGED)),
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
    assert_eq!(default.fifo, Fifo::StepAside);
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
        action: Action::Redrive,
        target: TargetSpec::Source,
        delivery: DeliverySpec::Given(DeliveryPolicy::of(Schedule::AWS_MANAGED)),
        jitter: 0.0,
        allow_targets: Some(vec![]),
        retry_permanent: false,
        subscription: SubscriptionSpec::Discover,
        verify_signature: false,
        fifo: Fifo::Block,
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
    // What it omits stands at SNS's defaults, not at those of the default rule.
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
    let queue = "arn:aws:sqs:eu-central-1:123456789012:orders-worker";
    let function = "arn:aws:lambda:eu-central-1:123456789012:function:orders-notifier";
    let alias = "arn:aws:lambda:eu-central-1:123456789012:function:orders-notifier:live";
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

/// SNS adds what it likes to its own documents; in ours an unknown key is a slip of the pen.
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

// ---------------------------------------------------------------------------------------------
// What is refused

/// A document with every kind of fault at once.
fn faulty_document() -> Value {
    json!({
        "defaults": {},
        "default": {
            "target": "nowhere",
            "action": "retry",
            "jitter": 1.5,
            "retries": 3,
            "allowTargets": ["", 3],
            "subscription": TOPIC,
            "deliveryPolicy": {
                "healthyRetryPolicy": { "minDelayTarget": 0, "maxDelayTarget": 1_209_601, "numRetries": 100_016,
                    "numNoDelayRetries": -1, "numMinDelayRetries": 1.5, "numMaxDelayRetries": "2",
                    "backoffFunction": "fibonacci", "backOff": 1 },
                "throttlePolicy": { "maxReceivesPerSecond": 0, "burst": 5 },
                "requestPolicy": { "headerContentType": 7 },
                "sicklyRetryPolicy": {},
            },
        },
        "rules": [
            { "name": "same", "match": { "topicARN": ["x"] }, "deliveryPolicy": "forever" },
            { "name": "same", "match": { "topicArn": "not-a-list" }, "retryPermanent": "yes" },
            { "name": "", "match": {}, "deliveryPolicy": { "http": {
                "defaultHealthyRetryPolicy": { "minDelayTarget": 30, "maxDelayTarget": 20 },
                "healthyRetryPolicy": {}, "disableSubscriptionOverrides": 1 } } },
            { "match": [], "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 5, "numNoDelayRetries": 2,
                "numMinDelayRetries": 2, "numMaxDelayRetries": 2 } } },
            "archive everything",
        ],
    })
}

#[test]
fn a_bad_value_is_shown_where_it_is_short() {
    let longest = "x".repeat(40);
    for (value, shown) in [
        (json!(-1), "-1".to_owned()),
        (json!(true), "true".to_owned()),
        (json!(longest), format!("{longest:?}")),
        (json!(longest.clone() + "x"), "a string".to_owned()),
        (json!([7]), "a list".to_owned()),
        (json!({ "n": 7 }), "an object".to_owned()),
    ] {
        let healthy = json!({ "healthyRetryPolicy": { "numRetries": value } });
        let document = json!({ "default": { "deliveryPolicy": healthy } });
        let BadPolicy(faults) = Policy::parse(&document.to_string()).unwrap_err();
        let problems: Vec<_> = faults.into_iter().map(|fault| fault.problem).collect();
        assert_eq!(problems, [format!("must be a whole number from 0 to 100015, not {shown}")]);
    }
}

#[test]
fn every_fault_of_a_document_is_told_at_once_with_its_path() {
    let known_rule = "action, allowTargets, deliveryPolicy, fifo, jitter, match, name, recordDelimiter, \
        retryPermanent, subscription, target, verifySignature";
    let known_default = known_rule.replace("match, name, ", "");
    let delivery = "default.deliveryPolicy.healthyRetryPolicy";
    let expected = [
        ("default.action", "must be one of redrive, archive, hold, not \"retry\""),
        ("default.allowTargets", "must hold ARNs and http or https URLs without a query only"),
        (
            "default.deliveryPolicy.healthyRetryPolicy.backOff",
            "unknown key; known here: backoffFunction, \
            maxDelayTarget, minDelayTarget, numMaxDelayRetries, numMinDelayRetries, numNoDelayRetries, numRetries",
        ),
        (
            "default.deliveryPolicy.healthyRetryPolicy.backoffFunction",
            "must be one of linear, arithmetic, geometric, exponential, not \"fibonacci\"",
        ),
        (&format!("{delivery}.maxDelayTarget"), "must be a whole number from 1 to 1209600, not 1209601"),
        (&format!("{delivery}.minDelayTarget"), "must be a whole number from 1 to 1209600, not 0"),
        (&format!("{delivery}.numMaxDelayRetries"), "must be a whole number from 0 to 100015, not \"2\""),
        (&format!("{delivery}.numMinDelayRetries"), "must be a whole number from 0 to 100015, not 1.5"),
        (&format!("{delivery}.numNoDelayRetries"), "must be a whole number from 0 to 100015, not -1"),
        (&format!("{delivery}.numRetries"), "must be a whole number from 0 to 100015, not 100016"),
        ("default.deliveryPolicy.requestPolicy.headerContentType", "must be a string, not a number"),
        (
            "default.deliveryPolicy.sicklyRetryPolicy",
            "unknown key; known here: healthyRetryPolicy, http, \
            requestPolicy, throttlePolicy",
        ),
        ("default.deliveryPolicy.throttlePolicy.burst", "unknown key; known here: maxReceivesPerSecond"),
        (
            "default.deliveryPolicy.throttlePolicy.maxReceivesPerSecond",
            "must be a whole number from 1 to 4294967295, not 0",
        ),
        ("default.jitter", "must be a number from 0 to 1, not 1.5"),
        ("default.retries", &format!("unknown key; known here: {known_default}")),
        (
            "default.subscription",
            "must be the ARN of a subscription, or discover, not \"arn:aws:sns:eu-central-1:123456789012:orders\"",
        ),
        (
            "default.target",
            "must be origin, subscription, source, topic, or the ARN of a topic, queue or function, not \"nowhere\"",
        ),
        ("defaults", "unknown key; known here: default, origins, rules"),
        (
            "rules[0].deliveryPolicy",
            "must be one of aws-managed, customer-managed, http-default, from-subscription, not \"forever\"",
        ),
        (
            "rules[0].match",
            "has no field \"topicARN\"; fields of a letter are origin, queueArn, topicArn, \
            subscriptionArn, subject, messageAttributes, message, retry, error",
        ),
        ("rules[1].match", "is not a pattern: invalid pattern: "),
        ("rules[1].name", "\"same\" is the name of another rule"),
        ("rules[1].retryPermanent", "must be true or false, not a string"),
        (
            "rules[2].deliveryPolicy.http.defaultHealthyRetryPolicy.minDelayTarget",
            "must not be above maxDelayTarget: 30 is above 20",
        ),
        ("rules[2].deliveryPolicy.http.disableSubscriptionOverrides", "must be true or false, not a number"),
        (
            "rules[2].deliveryPolicy.http.healthyRetryPolicy",
            "unknown key; known here: defaultHealthyRetryPolicy, \
            defaultRequestPolicy, defaultThrottlePolicy, disableSubscriptionOverrides",
        ),
        ("rules[2].match", "must be an object with at least one field"),
        ("rules[2].name", "must be 1 to 64 characters long and not \"default\""),
        (
            "rules[3].deliveryPolicy.healthyRetryPolicy.numRetries",
            "must hold the three counted phases: \
            numNoDelayRetries, numMinDelayRetries and numMaxDelayRetries add up to 6, which is above 5",
        ),
        ("rules[3].match", "must be an object with at least one field"),
        ("rules[3].name", "is missing: logs and the archive name the rule"),
        ("rules[4]", "must be an object, not a string"),
        ("rules[4].match", "is missing: a rule without a pattern would never apply"),
        ("rules[4].name", "is missing: logs and the archive name the rule"),
    ];
    let mut found = faults(&faulty_document());
    found.sort();
    for (found, (path, problem)) in found.iter().zip(expected) {
        assert_eq!(found.0, path);
        // What the pattern's own parser says is its own affair.
        let own_words = problem.ends_with(": ");
        assert!(if own_words { found.1.starts_with(problem) } else { found.1 == problem }, "{found:?}");
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn origins_are_listed_by_queue_and_faults_have_their_path() {
    let parse = |origins: &Value| Policy::parse(&json!({ "origins": origins }).to_string());
    let policy =
        parse(&json!({ "*": ["eventbridge"], DLQ: ["lambda-async", "lambda-destination"] })).unwrap();
    let believed =
        |queue: &str| Claim::ALL.map(|claim| policy.origins().list(&queue.parse().unwrap(), claim));
    assert_eq!(believed(DLQ), [true, true, true]);
    assert_eq!(believed("arn:aws:sqs:eu-central-1:123456789012:another"), [false, false, true]);
    assert_eq!(Policy::built_in().origins(), Origins::none());

    let names = "must be a list of one or more of lambda-async, lambda-destination, eventbridge";
    let queue = "must be the ARN of a dead-letter queue, or * for every queue";
    for (origins, expected) in [
        (json!([]), "origins: must be an object of queue ARNs, or *, with a list of origins each".to_owned()),
        (json!({ "*": "eventbridge" }), format!("origins.*: {names}")),
        (json!({ "*": [] }), format!("origins.*: {names}")),
        (json!({ "*": ["eventbridge", "sns"] }), format!("origins.*: {names}")),
        (json!({ "*": ["eventbridge", 1] }), format!("origins.*: {names}")),
        (json!({ "orders": ["eventbridge"] }), format!("origins.orders: {queue}")),
        (json!({ TOPIC: ["eventbridge"] }), format!("origins.{TOPIC}: {queue}")),
    ] {
        assert_eq!(parse(&origins).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_fault_is_told_with_its_path_first() {
    let document = json!({ "default": { "jitter": 2 }, "rules": {} });
    let told = Policy::parse(&document.to_string()).unwrap_err().to_string();
    assert_eq!(
        told,
        "default.jitter: must be a number from 0 to 1, not 2; rules: must be a list, not an object"
    );
}

#[test]
fn each_of_these_documents_has_one_fault() {
    let healthy =
        |healthy: Value| json!({ "default": { "deliveryPolicy": { "healthyRetryPolicy": healthy } } });
    let rule = |rule: Value| json!({ "rules": [rule] });
    let sns = json!({ "origin": ["sns"] });
    let stream = "arn:aws:firehose:eu-central-1:123456789012:deliverystream/orders";
    for (document, path) in [
        (json!([]), ""),
        (json!("policy"), ""),
        (json!({ "default": [] }), "default"),
        (json!({ "default": { "name": "x" } }), "default.name"),
        (json!({ "default": { "match": sns } }), "default.match"),
        (json!({ "default": { "target": 3 } }), "default.target"),
        (json!({ "default": { "target": SUBSCRIPTION } }), "default.target"),
        (json!({ "default": { "target": stream } }), "default.target"),
        (json!({ "default": { "target": "discover" } }), "default.target"),
        (json!({ "default": { "target": "arn:aws:sqs:eu-central-1:123456789012" } }), "default.target"),
        (json!({ "default": { "target": "https://example.com" } }), "default.target"),
        (json!({ "default": { "jitter": "0.1" } }), "default.jitter"),
        (json!({ "default": { "jitter": -0.1 } }), "default.jitter"),
        (json!({ "default": { "allowTargets": TOPIC } }), "default.allowTargets"),
        (json!({ "default": { "subscription": "nobody" } }), "default.subscription"),
        (json!({ "default": { "deliveryPolicy": 5 } }), "default.deliveryPolicy"),
        (json!({ "default": { "deliveryPolicy": "from-topic" } }), "default.deliveryPolicy"),
        (json!({ "default": { "deliveryPolicy": { "http": 5 } } }), "default.deliveryPolicy.http"),
        (json!({ "default": { "verifySignature": "yes" } }), "default.verifySignature"),
        (json!({ "default": { "subscription": "Discover" } }), "default.subscription"),
        (json!({ "default": { "fifo": "sometimes" } }), "default.fifo"),
        (json!({ "default": { "recordDelimiter": "\n" } }), "default.recordDelimiter"),
        (
            healthy(json!({ "minDelayTarget": 21 })),
            "default.deliveryPolicy.healthyRetryPolicy.minDelayTarget",
        ),
        // The 20 s that stand in for it would be above the other.
        (
            healthy(json!({ "minDelayTarget": 0, "maxDelayTarget": 10 })),
            "default.deliveryPolicy.healthyRetryPolicy.minDelayTarget",
        ),
        (healthy(json!({ "numMaxDelayRetries": 4 })), "default.deliveryPolicy.healthyRetryPolicy.numRetries"),
        (healthy(json!({ "numRetries": 1e3 })), "default.deliveryPolicy.healthyRetryPolicy.numRetries"),
        (rule(json!({ "name": "default", "match": sns })), "rules[0].name"),
        (rule(json!({ "name": "ü".repeat(65), "match": sns })), "rules[0].name"),
        (rule(json!({ "name": 3, "match": sns })), "rules[0].name"),
        (rule(json!({ "name": "r", "match": "sns" })), "rules[0].match"),
        (rule(json!({ "name": "r", "match": { "origin": "sns" } })), "rules[0].match"),
        (rule(json!({ "name": "r", "match": { "body": ["x"] } })), "rules[0].match"),
    ] {
        assert_eq!(the_only_fault(&document).0, path, "{document}");
    }
}

/// What `EventBridge` would refuse, and what of its language this software does not know: neither may
/// be taken for something else, since a rule can archive.
#[test]
fn patterns_that_mean_nothing_are_refused() {
    for pattern in [
        json!({ "origin": [{ "prefixes": "s" }] }),
        json!({ "origin": [{ "prefix": 3 }] }),
        json!({ "origin": [{ "exists": "yes" }] }),
        json!({ "origin": [{}] }),
        json!({ "retry": [{ "numeric": [">", "x"] }] }),
        json!({ "retry": [{ "numeric": [">"] }] }),
        json!({ "origin": [{ "anything-but": [] }] }),
        json!({ "origin": [{ "anything-but": { "prefix": "s" } }] }),
        json!({ "origin": [{ "prefix": { "equals-ignore-case": "s" } }] }),
        json!({ "$or": [{ "origin": ["sns"] }, { "retry": [1] }] }),
        json!({ "message": { "$or": [{ "a": ["sns"] }, { "b": [1] }] } }),
    ] {
        let document = json!({ "rules": [{ "name": "r", "match": pattern }] });
        assert_eq!(the_only_fault(&document).0, "rules[0].match", "{pattern}");
    }
}

/// An empty list would match every value, and so would an empty object: a rule that names no topic
/// by mistake must not archive the letters of all.
#[test]
fn empty_parts_of_a_pattern_are_refused() {
    for pattern in [
        json!({ "origin": ["sns"], "topicArn": [] }),
        json!({ "origin": ["sns"], "message": {} }),
        json!({ "message": { "order": {} } }),
        json!({ "retry": [{ "numeric": [] }] }),
        json!({ "origin": [["sns"]] }),
        json!({ "origin": [{ "prefix": "s", "suffix": "x" }] }),
    ] {
        let document = json!({ "rules": [{ "name": "r", "match": pattern }] });
        let Err(BadPolicy(faults)) = Policy::parse(&document.to_string()) else {
            panic!("taken: {pattern}");
        };
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].path, "rules[0].match", "{pattern}");
    }
}

#[test]
fn the_values_that_change_nothing_are_taken() {
    let rule = default_of(&json!({ "verifySignature": false, "fifo": "block", "target": null }));
    assert_eq!(rule, built_in_rule());
}

#[test]
fn text_that_is_not_json_is_one_fault() {
    for text in ["", "{", "target: origin", "{\"default\": {}} x"] {
        let BadPolicy(faults) = Policy::parse(text).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].path.is_empty() && faults[0].problem.starts_with("not JSON: "), "{faults:?}");
    }
}

/// JSON that leans towards the words of a policy, so that it reaches the depths of the reader.
fn policy_like() -> impl Strategy<Value = Value> {
    let words = vec![
        "default",
        "rules",
        "name",
        "match",
        "target",
        "action",
        "jitter",
        "deliveryPolicy",
        "healthyRetryPolicy",
        "minDelayTarget",
        "maxDelayTarget",
        "numRetries",
        "numNoDelayRetries",
        "numMinDelayRetries",
        "numMaxDelayRetries",
        "backoffFunction",
        "throttlePolicy",
        "maxReceivesPerSecond",
        "requestPolicy",
        "http",
        "defaultHealthyRetryPolicy",
        "allowTargets",
        "subscription",
        "topicArn",
        "message",
        "exists",
        "prefix",
        "suffix",
        "anything-but",
        "numeric",
        "wildcard",
        "cidr",
        "equals-ignore-case",
        "$or",
        "linear",
        "topic",
        "aws-managed",
        "",
        ">",
        "*",
    ];
    let word = prop::sample::select(words);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0_u32..200_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let key = word.prop_map(str::to_owned);
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

#[test]
fn no_document_is_too_strange_to_be_read() {
    let documents = (policy_like(), policy_like(), any::<bool>());
    let letter = letter(&record(&envelope("hello", &json!({}))));
    holds(2_000, &documents, |(default, other, as_pattern)| {
        let document = if as_pattern {
            json!({ "default": {}, "rules": [{ "name": "r", "match": { "message": other } }] })
        } else {
            json!({ "default": default, "rules": [other] })
        };
        match Policy::parse(&document.to_string()) {
            Ok(policy) => {
                let _ = policy.decide(&letter, &Facts::default(), at(NOW));
            }
            Err(BadPolicy(faults)) => prop_assert!(!faults.is_empty()),
        }
        Ok(())
    });
}

#[test]
fn no_text_is_too_strange_to_be_read() {
    holds(1_000, &any::<String>(), |text| {
        prop_assert!(Policy::parse(&text).is_err());
        Ok(())
    });
    for brackets in ["[", "{\"default\":", "{\"rules\":[{\"match\":{\"message\":"] {
        assert!(Policy::parse(&brackets.repeat(100_000)).is_err());
    }
}

// ---------------------------------------------------------------------------------------------
// Which rule a letter falls under

/// The name of the rule, where each pattern is the rule of its number.
fn rule_of(patterns: &[Value], letter: &Letter) -> String {
    let rules: Vec<_> = (0..)
        .zip(patterns)
        .map(|(n, pattern)| json!({ "name": format!("rule {n}"), "match": pattern }))
        .collect();
    parsed(&json!({ "rules": rules })).rule_for(letter).unwrap().name.clone()
}

fn matches(pattern: &Value, letter: &Letter) -> bool {
    rule_of(std::slice::from_ref(pattern), letter) == "rule 0"
}

#[test]
fn the_first_rule_that_matches_wins() {
    let letter = letter(&record(&envelope("hello", &json!({}))));
    let (yes, no) = (json!({ "origin": ["sns"] }), json!({ "origin": ["raw"] }));
    let also = json!({ "topicArn": [{ "suffix": ":orders" }] });
    for (patterns, expected) in [
        (vec![no.clone(), yes.clone(), also.clone()], "rule 1"),
        (vec![no.clone(), also.clone(), yes.clone()], "rule 1"),
        (vec![yes.clone(), yes.clone()], "rule 0"),
        (vec![no.clone(), no.clone()], "default"),
        (vec![], "default"),
    ] {
        assert_eq!(rule_of(&patterns, &letter), expected, "{patterns:?}");
    }
    let many: Vec<_> = (0..30).map(|n| if n < 7 { no.clone() } else { yes.clone() }).collect();
    assert_eq!(rule_of(&many, &letter), "rule 7", "the seventh, not the tenth by the alphabet");
}

/// A letter that has every field of the view.
fn full_letter() -> Letter {
    let message = json!({ "event": "order-placed", "order": { "total": 49.9, "lines": [{ "sku": "a" }, { "sku": "b" }] },
        "urgent": true, "coupon": null });
    let attributes = json!({
        "tenant": { "Type": "String", "Value": "gold" },
        "priority": { "Type": "Number", "Value": "3.0" },
        "tags": { "Type": "String.Array", "Value": "[\"new\", 7, true, null]" },
        "checksum": { "Type": "Binary", "Value": "AAEC" },
        "sns-redrive": { "Type": "String",
            "Value": r#"{"v":1,"spent":4,"id":"letter-1","first":1700000000000,"gen":0}"# },
    });
    let mut body: Value = serde_json::from_str(&envelope(&message.to_string(), &attributes)).unwrap();
    body["Subject"] = "Order placed".into();
    letter(&record(&body.to_string()))
}

#[test]
fn patterns_reach_every_field_with_every_operator() {
    let letter = full_letter();
    for pattern in [
        json!({ "origin": ["raw", "sns"] }),
        json!({ "origin": [{ "equals-ignore-case": "SNS" }] }),
        json!({ "queueArn": [{ "suffix": ":orders-dlq" }] }),
        json!({ "topicArn": [TOPIC] }),
        json!({ "topicArn": [{ "prefix": "arn:aws:sns:eu-" }] }),
        json!({ "topicArn": [{ "wildcard": "arn:*:orders" }] }),
        json!({ "topicArn": [{ "anything-but": ["arn:aws:sns:eu-central-1:123456789012:audit"] }] }),
        json!({ "subscriptionArn": [SUBSCRIPTION] }),
        json!({ "subject": [{ "prefix": "Order" }] }),
        json!({ "subject": [{ "exists": true }] }),
        json!({ "messageAttributes": { "tenant": ["gold"] } }),
        json!({ "messageAttributes": { "priority": [3] } }),
        json!({ "messageAttributes": { "priority": [{ "numeric": [">", 2.5, "<=", 3] }] } }),
        json!({ "messageAttributes": { "tags": ["new"] } }),
        json!({ "messageAttributes": { "tags": [7] } }),
        json!({ "messageAttributes": { "tags": [true] } }),
        json!({ "messageAttributes": { "tags": [null] } }),
        json!({ "messageAttributes": { "region": [{ "exists": false }] } }),
        json!({ "messageAttributes": { "checksum": [{ "exists": false }] } }),
        json!({ "message": { "event": ["order-placed"] } }),
        json!({ "message": { "order": { "total": [{ "numeric": [">", 49, "<", 50] }] } } }),
        json!({ "message": { "order": { "lines": { "sku": ["b"] } } } }),
        json!({ "message": { "urgent": [true] } }),
        json!({ "message": { "coupon": [null] } }),
        json!({ "message": { "coupon": [{ "exists": true }] } }),
        json!({ "retry": [4] }),
        json!({ "retry": [{ "numeric": [">=", 4] }] }),
        json!({ "error": { "code": [{ "exists": false }] } }),
        json!({ "origin": ["sns"], "retry": [4], "message": { "urgent": [true] } }),
    ] {
        assert!(matches(&pattern, &letter), "{pattern}");
    }
    for pattern in [
        json!({ "origin": ["SNS"] }),
        json!({ "origin": [{ "anything-but": "sns" }] }),
        json!({ "topicArn": [{ "suffix": ":order" }] }),
        json!({ "subject": [{ "exists": false }] }),
        json!({ "messageAttributes": { "tenant": ["silver"] } }),
        json!({ "messageAttributes": { "tenant": [{ "anything-but": ["gold", "silver"] }] } }),
        json!({ "messageAttributes": { "priority": ["3.0"] } }),
        json!({ "messageAttributes": { "priority": [{ "numeric": [">", 3] }] } }),
        json!({ "messageAttributes": { "tags": ["old"] } }),
        json!({ "messageAttributes": { "region": [{ "exists": true }] } }),
        json!({ "message": { "order": { "total": [{ "numeric": [">", 50] }] } } }),
        json!({ "message": { "event": [{ "exists": false }] } }),
        json!({ "retry": [5] }),
        json!({ "error": { "code": [{ "exists": true }] } }),
        json!({ "origin": ["sns"], "retry": [5] }),
    ] {
        assert!(!matches(&pattern, &letter), "{pattern}");
    }
}

#[test]
fn errors_of_the_origin_can_be_matched() {
    let lambda = &sample("lambda-async.json")[0];
    assert!(matches(&json!({ "error": { "code": ["200"] } }), lambda));
    assert!(matches(&json!({ "error": { "message": [{ "wildcard": "*refused*" }] } }), lambda));
    let eventbridge = &sample("eventbridge.json")[0];
    assert!(matches(&json!({ "origin": ["eventbridge"], "error": { "code": ["THROTTLING"] } }), eventbridge));

    let mut wordless = record("{}");
    wordless["messageAttributes"]["RequestID"] = text_attribute("1");
    wordless["messageAttributes"]["ErrorCode"] = text_attribute("200");
    assert!(matches(&json!({ "error": { "message": [{ "exists": false }] } }), &letter(&wordless)));
}

#[test]
fn a_letter_without_an_sns_message_is_matched_by_its_body_and_native_attributes() {
    let raw = &sample("raw.json")[0];
    for pattern in [
        json!({ "origin": ["raw"], "topicArn": [{ "exists": false }], "subject": [{ "exists": false }] }),
        json!({ "message": { "orderId": ["o-1002"] } }),
        json!({ "messageAttributes": { "tenant": ["silver"], "priority": [1.5], "checksum": [{ "exists": false }] } }),
        json!({ "retry": [0] }),
    ] {
        assert!(matches(&pattern, raw), "{pattern}");
    }
    let plain = letter(&record("orders are late"));
    assert!(matches(&json!({ "message": ["orders are late"] }), &plain));
    assert!(matches(&json!({ "message": [{ "prefix": "orders" }] }), &plain));
}

/// Who writes messages must not be able to slip past a rule on the topic.
#[test]
fn no_message_hides_a_letter_from_a_rule() {
    let policy = parsed(&json!({ "rules": [{ "name": "audit", "action": "archive", "match": {
        "topicArn": [{ "suffix": ":orders" }], "message": { "x": { "y": [{ "exists": false }] } } } }] }));
    let falls_under_it = |message: &str| {
        let attributes = json!({ "a": { "Type": "String", "Value": message }, "n": { "Type": "Number", "Value": message },
            "l": { "Type": "String.Array", "Value": message } });
        policy.rule_for(&letter(&record(&envelope(message, &attributes)))).unwrap().name == "audit"
    };
    for depth in [1, 100, 126, 127, 128, 129, 10_000, 50_000] {
        for (open, close) in [("{\"a\":", "}"), ("[", "]")] {
            assert!(
                falls_under_it(&format!("{}1{}", open.repeat(depth), close.repeat(depth))),
                "{depth} {open}"
            );
        }
    }
    for message in [
        "1e400",
        "1e-400",
        "-0",
        "99999999999999999999999999",
        "\"\\ud800\"",
        "\u{0}",
        "{\"\":{}}",
        "{",
        "null",
    ] {
        assert!(falls_under_it(message), "{message:?}");
    }
    holds(1_000, &prop_oneof![any::<String>(), policy_like().prop_map(|json| json.to_string())], |message| {
        prop_assert!(falls_under_it(&message));
        Ok(())
    });
}

// ---------------------------------------------------------------------------------------------
// The work of matching

#[test]
fn lists_that_would_keep_the_matcher_busy_are_not_matched() {
    let document = json!({ "rules": [{
        "name": "lists", "action": "archive",
        "match": { "message": { "a": ["x"], "b": ["x"], "c": ["x"], "d": ["y"] } },
    }] });
    let policy = parsed(&document);
    let letter = |size: usize| {
        let list = vec!["x"; size];
        let message = json!({ "a": list, "b": list, "c": list, "d": list }).to_string();
        letter(&record(&envelope(&message, &json!({}))))
    };
    assert_eq!(policy.rule_for(&letter(17)).unwrap().name, "default");
    assert_eq!(
        policy.rule_for(&letter(18)).unwrap_err().to_string(),
        "its lists are too long for the pattern of a rule"
    );
    let archived = policy.decide(&letter(200), &Facts::default(), at(NOW)).decision;
    let detail = "its lists are too long for the pattern of a rule";
    assert_eq!(archived, Decision::Archive(ArchiveReason::Unrecognised, Some(detail)));
}

#[test]
fn a_hundred_thousand_steps_are_matched_and_not_one_more() {
    let document = json!({ "rules": [{ "name": "list", "match": { "message": { "a": ["last"] } } }] });
    let policy = parsed(&document);
    let rule = |others: usize| {
        let list: Vec<_> = std::iter::repeat_n("x", others).chain(["last"]).collect();
        let letter = letter(&record(&json!({ "a": list }).to_string()));
        policy.rule_for(&letter).map(|rule| rule.name.clone()).ok()
    };
    assert_eq!(rule(99_999).as_deref(), Some("list"));
    assert_eq!(rule(100_000), None);
}

#[test]
fn long_lists_that_no_pattern_names_are_no_matter() {
    let document = json!({ "rules": [{ "name": "tenant", "match": { "message": { "tenant": ["gold"] } } }] });
    let message = json!({ "tenant": "gold", "lines": vec!["x"; 50_000] }).to_string();
    let letter = letter(&record(&envelope(&message, &json!({}))));
    assert_eq!(parsed(&document).rule_for(&letter).unwrap().name, "tenant");
}

#[test]
fn a_content_type_that_no_header_can_hold_is_refused() {
    for text in ["", "text/plain\r\nx-evil: 1", "text/\u{fc}"] {
        let document =
            json!({ "default": { "deliveryPolicy": { "requestPolicy": { "headerContentType": text } } } });
        let faults = Policy::parse(&document.to_string()).unwrap_err().to_string();
        let expected = "default.deliveryPolicy.requestPolicy.headerContentType: \
                        must be printable ASCII, such as application/json";
        assert_eq!(faults, expected);
    }
}

#[test]
fn allowed_targets_are_arns_and_urls() {
    let parse = |target: &str| Policy::parse(&json!({ "default": { "allowTargets": [target] } }).to_string());
    for target in
        ["arn:aws:sqs:eu-central-1:123456789012:orders", "https://a.example/hook", "http://a.example"]
    {
        assert!(parse(target).is_ok(), "{target}");
    }
    for target in ["orders", "a.example/hook", "ftp://a.example/", "https://a.example/?key=1", ""] {
        let faults = parse(target).unwrap_err().to_string();
        assert_eq!(
            faults, "default.allowTargets: must hold ARNs and http or https URLs without a query only",
            "{target}"
        );
    }
}

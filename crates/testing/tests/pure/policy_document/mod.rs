//! The redrive policy document: what it can say, what is refused and how, and which rule a letter falls
//! under.

mod contents;
mod faults_in_documents;
mod matching;
mod naive;

use proptest::prelude::*;
use redrive_core::letter::{Letter, OriginClaim, TrustedOrigins};
use redrive_core::policy::{
    Backoff, BadPolicy, DeliveryPolicy, DeliverySpec, FifoHandling, LetterFacts, Policy, RecordDelimiter,
    Rule, RuleAction, Schedule, SubscriptionSpec, TargetSpec,
};
use redrive_testing::record::{envelope, letter, record, sample, text_attribute};
use redrive_testing::{DLQ, NOW, SUBSCRIPTION, TOPIC, at, holds, made_for};
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

/// Returns the rule of the default section.
fn default_of(section: &Value) -> Rule {
    rules(&parsed(&json!({ "default": section }))).remove(0)
}

/// Returns the delivery policy of a rule that has its own.
fn given(rule: &Rule) -> DeliveryPolicy {
    match &rule.delivery {
        DeliverySpec::Inline(policy) => policy.clone(),
        DeliverySpec::FromSubscription => panic!("{} goes by its subscription", rule.name),
    }
}

fn schedule_of(delivery_policy: &Value) -> Schedule {
    given(&default_of(&json!({ "deliveryPolicy": delivery_policy }))).schedule
}

/// Returns every fault of a document: path and problem.
fn faults(document: &Value) -> Vec<(String, String)> {
    let BadPolicy(faults) = Policy::parse(&document.to_string()).unwrap_err();
    faults.into_iter().map(|fault| (fault.path, fault.problem)).collect()
}

fn the_only_fault(document: &Value) -> (String, String) {
    let mut faults = faults(document);
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults.remove(0)
}

fn built_in_rule() -> Rule {
    Rule {
        name: "default".into(),
        action: RuleAction::Redrive,
        target: TargetSpec::Origin,
        delivery: DeliverySpec::Inline(DeliveryPolicy::of(Schedule {
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
        fifo: FifoHandling::Block,
        record_delimiter: RecordDelimiter::Newline,
    }
}

/// Returns JSON that often contains the words of a policy, so that it reaches all parts of the reader.
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

//! The parameters of `template.yaml` for what was seen.

use std::collections::BTreeSet;

use redrive_core::arn::ArnKind;
use redrive_core::policy::{Policy, SubscriptionSpec, TargetSpec};
use serde_json::{Value, json};

use super::seen_setup::SeenSetup;
use crate::plan::MAX_PARAMETER_CHARS;
use crate::tables::count;

/// The origin whose letters do not name the function that failed.
const NAMES_NO_FUNCTION: &str = "lambda-async";

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SetupParameter {
    pub(super) name: &'static str,
    /// The value; `None` if a person has to find it.
    pub(super) value: Option<String>,
    /// What it is for, if that does not go without saying.
    pub(super) comment: Option<String>,
}

/// The parameters of a deployment.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct SetupParameters {
    pub(super) all: Vec<SetupParameter>,
    /// What a person should know, in words.
    pub(super) notes: Vec<String>,
}

/// The targets that the rules of a policy name.
#[derive(Default)]
struct PolicyTargets {
    queues: BTreeSet<String>,
    functions: BTreeSet<String>,
    streams: BTreeSet<String>,
    topics: BTreeSet<String>,
    discovers: bool,
}

impl PolicyTargets {
    /// Returns the targets of a policy. A rule whose target is the topic can mean each of `topics`.
    fn of(policy: &Policy, topics: &BTreeSet<String>) -> Self {
        let mut targets = Self::default();
        for rule in policy.all_rules() {
            targets.discovers |= rule.subscription == SubscriptionSpec::Discover;
            match &rule.target {
                TargetSpec::Topic => targets.topics.extend(topics.iter().cloned()),
                TargetSpec::Arn(arn) => {
                    let of_kind = match arn.kind() {
                        ArnKind::Queue => &mut targets.queues,
                        ArnKind::Function => &mut targets.functions,
                        ArnKind::Stream => &mut targets.streams,
                        ArnKind::Topic => &mut targets.topics,
                        ArnKind::Subscription | ArnKind::Other => continue,
                    };
                    of_kind.insert(arn.to_string());
                }
                TargetSpec::Origin | TargetSpec::Subscription | TargetSpec::Source => {}
            }
        }
        targets
    }
}

impl SetupParameters {
    /// Returns the parameters for what was seen. `policy` is the redrive policy that was given, with its JSON.
    pub(super) fn of(seen: &SeenSetup, policy: Option<(&Policy, String)>) -> Self {
        let mut set = Self::default();
        for unseen in &seen.unseen {
            set.notes.push(format!("{unseen}: parameters may be missing"));
        }
        set.put("ExistingDeadLetterQueueArn", seen.queue.arn.to_string());
        set.list("TopicArns", seen.topics.iter());
        if seen.topics.is_empty() {
            set.notes.push("no topic is known, and the template needs TopicArns: name yours".to_owned());
        }
        if seen.queue.arn.is_fifo() {
            set.put("QueueType", "fifo".to_owned());
        }
        let targets = &seen.targets;
        let of_policy =
            policy.as_ref().map(|(policy, _)| PolicyTargets::of(policy, &seen.topics)).unwrap_or_default();
        set.list("TargetQueueArns", targets.queues.union(&of_policy.queues));
        set.list("TargetFunctionArns", targets.functions.union(&of_policy.functions));
        set.list("TargetStreamArns", targets.streams.union(&of_policy.streams));
        set.list("TargetTopicArns", of_policy.topics.iter());
        if of_policy.discovers {
            set.put("DiscoverSubscription", "true".to_owned());
        }
        set.list("KmsKeyArn", seen.key.iter());
        set.list("TargetKmsKeyArns", targets.keys.iter());
        set.policy(seen, policy.map(|(_, json)| json));
        set.put("RedriveMode", "observe".to_owned());
        set.comment("It only logs what it would do, until you set it to active.");
        let name = "ScheduleFrom";
        let comment = "With active: a time after the deployment and the queue's visibility timeout. Letters that came before begin their \
                       schedules then.";
        set.all.push(SetupParameter { name, value: None, comment: Some(comment.to_owned()) });
        set
    }

    fn put(&mut self, name: &'static str, value: String) {
        self.all.push(SetupParameter { name, value: Some(value), comment: None });
    }

    /// Adds a list, unless it is empty.
    fn list<'a>(&mut self, name: &'static str, values: impl Iterator<Item = &'a String>) {
        let values: Vec<_> = values.map(String::as_str).collect();
        if !values.is_empty() {
            self.put(name, values.join(","));
        }
    }

    /// Adds a comment to the last parameter.
    fn comment(&mut self, comment: &str) {
        self.all.iter_mut().last().into_iter().for_each(|it| it.comment = Some(comment.to_owned()));
    }

    /// Adds a parameter that a person has answered, or has to find later.
    pub(super) fn decide(&mut self, name: &'static str, question: &str, value: Option<String>) {
        self.all.push(SetupParameter { name, value, comment: Some(question.to_owned()) });
    }

    /// Adds the redrive policy and the origins: only a rule tells where raw letters go, and an origin that a letter claims is
    /// believed only where it is listed.
    fn policy(&mut self, seen: &SeenSetup, given: Option<String>) {
        let raw = &seen.raw;
        let claims: Vec<_> =
            seen.claims.iter().copied().filter(|claim| *claim != NAMES_NO_FUNCTION).collect();
        if seen.claims.contains(NAMES_NO_FUNCTION) {
            self.notes.push(format!(
                "letters claim to be of {NAMES_NO_FUNCTION}, and such letters do not name their function: only a rule with its ARN as \
                 target sends them anywhere, and \"origins\" must list {NAMES_NO_FUNCTION} for the queue"
            ));
        }
        if !raw.is_empty() && !claims.is_empty() {
            self.notes.push(format!(
                "letters claim to be of {}, but a raw subscription shares the queue, whose publishers can write such claims: \
                 list them in \"origins\" only if you trust all publishers of its topic",
                claims.join(", ")
            ));
        }
        if raw.len() > 1 {
            self.notes.push(format!(
                "{} share the queue, and their letters name none of them: give each a queue of its own, or write rules that \
                 tell their letters apart",
                count(raw.len() as u64, "raw subscription")
            ));
        }
        let given_length = given.as_ref().map_or(0, |policy| policy.chars().count());
        if given_length > MAX_PARAMETER_CHARS {
            self.notes.push(format!(
                "the policy has {given_length} characters, and the parameter RedrivePolicy takes {MAX_PARAMETER_CHARS}: put it \
                 into S3, and set RedrivePolicyUri"
            ));
            return;
        }
        if let Some(policy) = given {
            return self.put("RedrivePolicy", policy);
        }
        match raw.as_slice() {
            [only] => {
                let rule = json!({ "name": "raw", "match": { "origin": ["raw"] }, "subscription": only.arn });
                self.put("RedrivePolicy", json!({ "rules": [rule] }).to_string());
                self.comment("Raw letters name no subscription. This rule sends them to the only one that delivers raw.");
            }
            _ if !claims.is_empty() && raw.is_empty() => {
                let shared = if seen.topics.is_empty() { "" } else { ", and SNS writes here too" };
                let comment = format!(
                    "Letters of this queue claim to be of {}{shared}. List those that Lambda or EventBridge of yours sends here.",
                    claims.join(", ")
                );
                let value = seen.topics.is_empty().then(|| claims.join(","));
                self.all.push(SetupParameter { name: "LetterOrigins", value, comment: Some(comment) });
            }
            _ => {}
        }
    }

    /// Returns the parameters that have a value.
    pub(super) fn known(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.all.iter().filter_map(|it| Some((it.name, it.value.as_deref()?)))
    }

    /// Returns them in the form that `create-stack` and `deploy` of the AWS CLI take.
    pub(super) fn to_json(&self) -> Value {
        self.known().map(|(name, value)| json!({ "ParameterKey": name, "ParameterValue": value })).collect()
    }
}

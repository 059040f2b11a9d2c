//! The subscriptions that name a dead-letter queue of the function, and those of the same topics that name none.

use std::collections::BTreeSet;

use redrive_aws::settings::HttpTargets;
use redrive_core::arn::Arn;
use redrive_core::letter::MARK_ATTRIBUTE;
use redrive_core::policy::{Policy as RedrivePolicy, Rule, RuleAction, SubscriptionSpec, TargetSpec};
use serde_json::{Value, json};

use super::queues::lets_sns_in;
use crate::doctor::access::{PolicyAnswer, ResourcePolicy};
use crate::doctor::finding::{CheckFindings, Severity, aws};
use crate::doctor::setup::{
    AccountSubscriptions, DeployedQueue, DeployedSubscription, DeploymentFacts, ReadError,
};
use crate::tables::count;

/// The protocols by which only SNS can deliver.
const OF_SNS_ALONE: [&str; 4] = ["email", "email-json", "sms", "application"];

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let name = setup.function.name.as_str();
    let what = "which subscriptions send their dead letters here";
    let Some(subscriptions) = findings.known("subscriptions", name, what, &setup.subscriptions) else {
        return;
    };
    for queue in &setup.queues {
        let named: Vec<_> = subscriptions.all.iter().filter(|it| it.names(queue)).collect();
        if named.is_empty() && subscriptions.unread.is_empty() {
            let finding = "No subscription of this account and region names it as its dead-letter queue: it gets no \
                           letters from SNS.";
            let fix = set_dead_letters("ARN", queue.arn.as_str());
            findings.add(Severity::Warning, "subscriptions", queue.arn.resource(), finding, fix);
        }
        raw(setup, queue, &named, subscriptions, findings);
        fifo_shared(queue, &named, findings);
        for subscription in named {
            one(setup, queue, subscription, findings);
        }
    }
    into_own(setup, subscriptions, findings);
    of_requeue(setup, subscriptions, findings);
    without_queue(setup, subscriptions, findings);
    unknown(setup, subscriptions, findings);
}

/// Checks raw subscriptions: their letters name no subscription, and can pose as those of others.
fn raw(
    setup: &DeploymentFacts,
    queue: &DeployedQueue,
    named: &[&DeployedSubscription],
    subscriptions: &AccountSubscriptions,
    findings: &mut CheckFindings,
) {
    let name = queue.arn.resource();
    let raw: Vec<_> = named.iter().filter(|it| it.is_raw).collect();
    let Some(first) = raw.first() else { return };
    let policy = setup.function.settings().map(|settings| &settings.policy);
    let policy = policy.filter(|_| !setup.function.has_unknown_policy());
    if named.len() > 1 {
        let who = format!(
            "{} ({}{} with other subscriptions",
            count(raw.len() as u64, "raw subscription"),
            first.arn,
            if raw.len() == 1 { ") shares it" } else { " and others) share it" }
        );
        let verifies = |rule: &Rule| if rule.verify_signature { PolicyAnswer::Yes } else { PolicyAnswer::No };
        let (severity, finding) = match policy
            .map_or(PolicyAnswer::Unclear, |policy| by_rules(policy, verifies))
        {
            PolicyAnswer::Yes => (None, String::new()),
            PolicyAnswer::No => (
                Some(Severity::Warning),
                format!("{who}: anyone who may publish to its topic can forge letters of the others."),
            ),
            PolicyAnswer::Unclear => (
                Some(Severity::CannotTell),
                format!(
                    "{who}. This tool cannot see whether a rule with verifySignature matches the letters of the others."
                ),
            ),
        };
        let fix = "give each raw subscription a queue of its own, or use verifySignature: \
                   docs/security.md#when-to-use-verifysignature";
        if let Some(severity) = severity {
            findings.add(severity, "subscriptions-raw-shared", name, finding, fix);
        }
    }
    let Some(policy) = policy else {
        let finding =
            "Raw letters name no subscription, and this tool cannot see whether a rule of the policy does.";
        return findings.add(Severity::CannotTell, "subscriptions-raw", name, finding, "");
    };
    let only = match named.len() {
        1 if subscriptions.unread.is_empty() && subscriptions.pending == 0 => PolicyAnswer::Yes,
        // Another one that could not be read may name the queue too.
        1 => PolicyAnswer::Unclear,
        _ => PolicyAnswer::No,
    };
    for subscription in raw {
        let (severity, finding) = match by_rules(policy, |rule| finds(rule, subscription, only)) {
            PolicyAnswer::Yes => continue,
            PolicyAnswer::No => (
                Severity::Error,
                "It delivers raw, so its letters do not name it, and no rule of the redrive policy does: they are \
                 archived.",
            ),
            PolicyAnswer::Unclear => (
                Severity::CannotTell,
                "It delivers raw, so its letters do not name it. A rule of the redrive policy may find it, but this \
                 tool cannot see whether that rule matches its letters, or whether another subscription names the \
                 queue.",
            ),
        };
        let fix = "add a rule with \"subscription\", as in docs/security.md#when-to-use-verifysignature";
        findings.add(severity, "subscriptions-raw", &subscription.arn, finding, fix);
    }
}

/// Checks whether letters of two subscriptions can have the same deduplication id: SNS keeps that of the message.
fn fifo_shared(queue: &DeployedQueue, named: &[&DeployedSubscription], findings: &mut CheckFindings) {
    let topics: BTreeSet<_> = named.iter().map(|it| it.topic.as_str()).collect();
    if !queue.arn.is_fifo() || topics.len() == named.len() {
        return;
    }
    let finding = "Two subscriptions of one FIFO topic share it: if both fail for one message within five minutes, SQS takes \
                   the second letter for a copy of the first, and it is lost.";
    let fix = "give each of them a dead-letter queue of its own: docs/guide/deploying.md#fifo-topics";
    findings.add(Severity::Warning, "subscriptions-fifo-shared", queue.arn.resource(), finding, fix);
}

/// Reports whether something holds for all letters of a policy. Letters that no rule matches fall under the
/// default; which letters another rule matches is unknown here. A rule that archives or holds sends nothing.
fn by_rules(policy: &RedrivePolicy, is_so: impl Fn(&Rule) -> PolicyAnswer) -> PolicyAnswer {
    let of = |rule: &Rule| if rule.action == RuleAction::Redrive { is_so(rule) } else { PolicyAnswer::No };
    match of(policy.default_rule()) {
        PolicyAnswer::No if policy.all_rules().any(|rule| of(rule) != PolicyAnswer::No) => {
            PolicyAnswer::Unclear
        }
        so => so,
    }
}

/// Reports whether a rule finds a raw subscription for its letters. `only` says whether no other one names the queue.
fn finds(rule: &Rule, subscription: &DeployedSubscription, only: PolicyAnswer) -> PolicyAnswer {
    let is_found = match (&rule.target, &rule.subscription) {
        // Raw letters have no signature.
        _ if rule.verify_signature => false,
        (TargetSpec::Arn(_), _) => true,
        (_, SubscriptionSpec::None) => false,
        (_, SubscriptionSpec::Named(arn)) => arn.as_str() == subscription.arn,
        (_, SubscriptionSpec::Discover) => return only,
    };
    if is_found { PolicyAnswer::Yes } else { PolicyAnswer::No }
}

fn one(
    setup: &DeploymentFacts,
    queue: &DeployedQueue,
    subscription: &DeployedSubscription,
    findings: &mut CheckFindings,
) {
    let DeployedSubscription { arn, topic, protocol, filter, .. } = subscription;
    if OF_SNS_ALONE.contains(&protocol.as_str()) {
        let finding = format!(
            "Its protocol is {protocol}, by which only SNS can deliver: its letters are archived, unless a rule sends them \
             elsewhere."
        );
        findings.add(
            Severity::Warning,
            "subscription-protocol",
            arn,
            finding,
            "add a rule with a \"target\"",
        );
    }
    let is_web = ["http", "https"].contains(&protocol.as_str());
    if is_web && setup.function.settings().is_some_and(|settings| settings.http_targets == HttpTargets::Off) {
        let finding = "It delivers to a web server, and HTTP_TARGETS is off: its letters are archived, unless a rule sends \
                       them elsewhere.";
        let fix = "set the stack's parameter HttpTargets to on, or add a rule with a \"target\"";
        findings.add(Severity::Warning, "subscription-protocol", arn, finding, fix);
    }
    let is_fifo = topic.parse::<Arn>().is_ok_and(|topic| topic.is_fifo());
    if is_fifo != queue.arn.is_fifo() {
        let kind = |is_fifo| if is_fifo { "FIFO" } else { "standard" };
        let finding = format!(
            "Its topic is {}, but its dead-letter queue is {}: SNS needs both of the same type, so messages on which \
             it gives up are lost.",
            kind(is_fifo),
            kind(queue.arn.is_fifo())
        );
        let fix = "name a dead-letter queue of the topic's type";
        findings.add(Severity::Error, "subscription-kind", arn, finding, fix);
    }
    if let Some(filter) = filter
        && serde_json::from_str(filter).is_ok_and(|filter| is_on_mark(&filter))
    {
        let finding = format!(
            "Its filter policy uses the attribute {MARK_ATTRIBUTE}, the mark of retries: a retry through the topic \
             may not reach it."
        );
        let fix = aws(&["sns", "get-subscription-attributes", "--subscription-arn", arn]);
        findings.add(Severity::Warning, "subscription-filter", arn, finding, fix);
    }
}

/// Reports whether a filter policy on attributes uses the mark, also as one of [several
/// alternatives](https://docs.aws.amazon.com/sns/latest/dg/and-or-logic.html).
fn is_on_mark(filter: &Value) -> bool {
    let ways = filter["$or"].as_array();
    filter.get(MARK_ATTRIBUTE).is_some() || ways.is_some_and(|ways| ways.iter().any(is_on_mark))
}

/// Checks for subscriptions that deliver into a queue of the function.
fn into_own(setup: &DeploymentFacts, subscriptions: &AccountSubscriptions, findings: &mut CheckFindings) {
    for DeployedSubscription { arn, endpoint, .. } in &subscriptions.all {
        if setup.queues.iter().chain(&setup.requeue).any(|own| own.arn.as_str() == endpoint) {
            let finding = "It delivers into a queue of the function, which treats every message as a letter.";
            let fix = aws(&["sns", "unsubscribe", "--subscription-arn", arn]);
            findings.add(Severity::Error, "subscription-endpoint", arn, finding, fix);
        }
    }
}

/// Checks for subscriptions that name the requeue for their dead letters.
fn of_requeue(setup: &DeploymentFacts, subscriptions: &AccountSubscriptions, findings: &mut CheckFindings) {
    let Some(requeue) = &setup.requeue else { return };
    let policy = ResourcePolicy::of(requeue.attribute("Policy").unwrap_or_default());
    for DeployedSubscription { arn, topic, .. } in subscriptions.all.iter().filter(|it| it.names(requeue)) {
        let finding = match lets_sns_in(&policy, topic, requeue) {
            PolicyAnswer::Yes => {
                "It names the requeue for its dead letters, and the requeue's policy lets SNS write: its publishers \
                 can forge marks, which are believed there."
            }
            _ => {
                "It names the requeue for its dead letters, but only the function and replays may write there: messages on \
                 which SNS gives up are lost."
            }
        };
        let fix = match setup.queues.as_slice() {
            [queue] => set_dead_letters(arn, queue.arn.as_str()),
            _ => "name the dead-letter queue in its RedrivePolicy".to_owned(),
        };
        findings.add(Severity::Error, "subscription-requeue", arn, finding, fix);
    }
}

/// Returns the command that names a queue for the dead letters of a subscription.
fn set_dead_letters(subscription: &str, queue: &str) -> String {
    redrive_policy_command(subscription, Some(&json!({ "deadLetterTargetArn": queue }).to_string()))
}

/// Returns the command that sets the redrive policy of a subscription. Without a policy it takes the policy away.
pub(crate) fn redrive_policy_command(subscription: &str, policy: Option<&str>) -> String {
    let set = ["sns", "set-subscription-attributes", "--subscription-arn", subscription];
    let value: Vec<_> = policy.iter().flat_map(|policy| ["--attribute-value", policy]).collect();
    aws(&[&set[..], &["--attribute-name", "RedrivePolicy"], &value].concat())
}

/// Checks for subscriptions of the same topics that name no dead-letter queue at all.
fn without_queue(
    setup: &DeploymentFacts,
    subscriptions: &AccountSubscriptions,
    findings: &mut CheckFindings,
) {
    for subscription in subscriptions.all.iter().filter(|it| it.dead_letters.is_none()) {
        let arn = &subscription.arn;
        let other =
            subscriptions.all.iter().find(|it| it.topic == subscription.topic && it.names_any(&setup.queues));
        let Some(queue) = other.map(|it| it.dead_letters.clone()) else { continue };
        let fix = queue.map_or_else(String::new, |queue| set_dead_letters(arn, &queue));
        let finding = "It names no dead-letter queue, but others of its topic do: messages on which SNS gives up are lost.";
        findings.add(Severity::Warning, "subscription-without-queue", arn, finding, fix);
    }
}

/// Adds findings for subscriptions that could not be read.
fn unknown(setup: &DeploymentFacts, subscriptions: &AccountSubscriptions, findings: &mut CheckFindings) {
    let name = setup.function.name.as_str();
    for (why, number) in &subscriptions.unread {
        let said = subscriptions.said.get(why).cloned();
        let error = ReadError { said, ..ReadError::new("sns:GetSubscriptionAttributes", why) };
        let finding = format!(
            "Cannot tell which queue {} of this account {}: {} failed ({}).",
            count(*number, "subscription"),
            if *number == 1 { "names" } else { "name" },
            error.call,
            error.reason()
        );
        findings.add_unseen("subscriptions", name, finding, &error);
    }
    if subscriptions.pending > 0 {
        let finding = format!(
            "{} of this account are not confirmed yet.",
            count(subscriptions.pending, "subscription")
        );
        findings.add(Severity::Note, "subscriptions-pending", name, finding, "");
    }
    for (topic, read) in &subscriptions.foreign {
        let what = "whether other accounts subscribe to it";
        let Some(number) = findings.known("subscriptions-foreign", topic, what, read) else { continue };
        if *number > 0 {
            let finding = format!(
                "It has {} of other accounts. Only those accounts can see whether they name a dead-letter queue.",
                count(*number, "subscription")
            );
            findings.add(Severity::CannotTell, "subscriptions-foreign", topic, finding, "");
        }
    }
}

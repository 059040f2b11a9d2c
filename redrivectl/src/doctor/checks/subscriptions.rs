//! The subscriptions that name a dead-letter queue of the function, and those of the same topics that name none.

use serde_json::Value;

use super::queues::lets_sns_in;
use crate::doctor::access::{Access, Policy};
use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Queue, Setup, Subscription, Subscriptions, Untold};
use crate::text::count;
use sns_redrive::arn::Arn;
use sns_redrive::letter::MARK_ATTRIBUTE;
use sns_redrive::policy::{Action, Policy as RedrivePolicy, Rule, SubscriptionSpec, TargetSpec};

/// Protocols over which only SNS can deliver.
const OF_SNS_ALONE: [&str; 4] = ["email", "email-json", "sms", "application"];

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    let name = setup.function.name.as_str();
    let what = "which subscriptions send their dead letters here";
    let Some(subscriptions) = findings.told("subscriptions", name, what, &setup.subscriptions) else {
        return;
    };
    for queue in &setup.queues {
        let named: Vec<_> = subscriptions.all.iter().filter(|it| it.names(queue)).collect();
        if named.is_empty() && subscriptions.unread.is_empty() {
            let finding =
                "No subscription of this account and region names it: it gets no dead letters of SNS.";
            let mend = set_dead_letters("ARN", queue.arn.as_str());
            findings.add(Severity::Warning, "subscriptions", queue.arn.resource(), finding, mend);
        }
        raw(setup, queue, &named, subscriptions, findings);
        for subscription in named {
            one(setup, queue, subscription, findings);
        }
    }
    into_own(setup, subscriptions, findings);
    of_requeue(setup, subscriptions, findings);
    without_queue(setup, subscriptions, findings);
    unknown(setup, subscriptions, findings);
}

/// Raw subscriptions: their letters name no subscription, and can pose as those of others.
fn raw(
    setup: &Setup,
    queue: &Queue,
    named: &[&Subscription],
    subscriptions: &Subscriptions,
    findings: &mut Findings,
) {
    let name = queue.arn.resource();
    let raw: Vec<_> = named.iter().filter(|it| it.is_raw).collect();
    let Some(first) = raw.first() else { return };
    let policy = setup.function.settings().map(|settings| &settings.policy);
    let policy = policy.filter(|_| !setup.function.has_policy_file);
    if named.len() > 1 {
        let who = format!(
            "{}, as {}, shares it with others",
            count(raw.len() as u64, "raw subscription"),
            first.arn
        );
        let verifies = |rule: &Rule| if rule.verify_signature { Access::Yes } else { Access::No };
        let (severity, finding) = match policy.map_or(Access::Unclear, |policy| by_rules(policy, verifies)) {
            Access::Yes => (None, String::new()),
            Access::No => (
                Some(Severity::Warning),
                format!("{who}: who may publish to its topic can write letters of the others."),
            ),
            Access::Unclear => (
                Some(Severity::CannotTell),
                format!(
                    "{who}, and nobody here can see whether a rule with verifySignature matches the letters of the others."
                ),
            ),
        };
        let mend = "a queue of its own for each raw subscription, or verifySignature: docs/security.md#when-to-use-verifysignature";
        if let Some(severity) = severity {
            findings.add(severity, "subscriptions-raw-shared", name, finding, mend);
        }
    }
    let Some(policy) = policy else {
        let finding =
            "Raw letters name no subscription, and nobody here can see whether a rule of the policy does.";
        return findings.add(Severity::CannotTell, "subscriptions-raw", name, finding, "");
    };
    let only = match named.len() {
        1 if subscriptions.unread.is_empty() && subscriptions.pending == 0 => Access::Yes,
        // Another that nobody could ask may name the queue too.
        1 => Access::Unclear,
        _ => Access::No,
    };
    for subscription in raw {
        let (severity, finding) = match by_rules(policy, |rule| finds(rule, subscription, only)) {
            Access::Yes => continue,
            Access::No => (
                Severity::Error,
                "It delivers raw, so its letters do not name it, and no rule of the redrive policy does: they go to the \
                 archive.",
            ),
            Access::Unclear => (
                Severity::CannotTell,
                "It delivers raw, so its letters do not name it. A rule of the redrive policy may find it; nobody here can \
                 see whether that rule matches its letters, and whether no other subscription names the queue.",
            ),
        };
        let mend = "a rule with \"subscription\": docs/security.md#when-to-use-verifysignature has one";
        findings.add(severity, "subscriptions-raw", &subscription.arn, finding, mend);
    }
}

/// Whether something is so of the letters of a policy. All that no rule matches fall under the default; which of them another
/// rule matches only the letters can say. A rule that archives or holds sends nothing.
fn by_rules(policy: &RedrivePolicy, is_so: impl Fn(&Rule) -> Access) -> Access {
    let of = |rule: &Rule| if rule.action == Action::Redrive { is_so(rule) } else { Access::No };
    match of(policy.default_rule()) {
        Access::No if policy.all_rules().any(|rule| of(rule) != Access::No) => Access::Unclear,
        so => so,
    }
}

/// Whether a rule finds a raw subscription for its letters. `only` is whether no other names the queue.
fn finds(rule: &Rule, subscription: &Subscription, only: Access) -> Access {
    let is_found = match (&rule.target, &rule.subscription) {
        // Raw letters have no signature.
        _ if rule.verify_signature => false,
        (TargetSpec::Arn(_), _) => true,
        (_, SubscriptionSpec::None) => false,
        (_, SubscriptionSpec::Named(arn)) => arn.as_str() == subscription.arn,
        (_, SubscriptionSpec::Discover) => return only,
    };
    if is_found { Access::Yes } else { Access::No }
}

fn one(setup: &Setup, queue: &Queue, subscription: &Subscription, findings: &mut Findings) {
    let Subscription { arn, topic, protocol, filter, .. } = subscription;
    if OF_SNS_ALONE.contains(&protocol.as_str()) {
        let finding = format!(
            "Its protocol is {protocol}, by which only SNS can deliver: its letters go to the archive, unless a rule sends \
             them elsewhere."
        );
        findings.add(Severity::Warning, "subscription-protocol", arn, finding, "a rule with a \"target\"");
    }
    let is_web = ["http", "https"].contains(&protocol.as_str());
    if is_web && setup.function.settings().is_some_and(|settings| !settings.http_targets) {
        let finding = "It delivers to a web server, and HTTP_TARGETS is off: its letters go to the archive, unless a rule \
                       sends them elsewhere.";
        let mend = "the stack's parameter HttpTargets, or a rule with a \"target\"";
        findings.add(Severity::Warning, "subscription-protocol", arn, finding, mend);
    }
    let is_fifo = topic.parse::<Arn>().is_ok_and(|topic| topic.is_fifo());
    if is_fifo != queue.arn.is_fifo() {
        let kind = |is_fifo| if is_fifo { "FIFO" } else { "standard" };
        let finding = format!(
            "Its topic is {}, and its dead-letter queue {}: SNS wants both of one kind, and what it gives up on is lost.",
            kind(is_fifo),
            kind(queue.arn.is_fifo())
        );
        let mend = "a dead-letter queue of the topic's kind";
        findings.add(Severity::Error, "subscription-kind", arn, finding, mend);
    }
    if let Some(filter) = filter
        && serde_json::from_str(filter).is_ok_and(|filter| is_on_mark(&filter))
    {
        let finding = format!(
            "Its filter policy looks at the attribute {MARK_ATTRIBUTE}, the mark of retries: a retry by way of the topic may \
             not reach it."
        );
        let mend = format!("aws sns get-subscription-attributes --subscription-arn {arn}");
        findings.add(Severity::Warning, "subscription-filter", arn, finding, mend);
    }
}

/// Whether a filter policy on attributes looks at the mark, also as one of [several
/// ways](https://docs.aws.amazon.com/sns/latest/dg/and-or-logic.html).
fn is_on_mark(filter: &Value) -> bool {
    let ways = filter["$or"].as_array();
    filter.get(MARK_ATTRIBUTE).is_some() || ways.is_some_and(|ways| ways.iter().any(is_on_mark))
}

/// Subscriptions that deliver into a queue of the function, whatever they name for their dead letters.
fn into_own(setup: &Setup, subscriptions: &Subscriptions, findings: &mut Findings) {
    for Subscription { arn, endpoint, .. } in &subscriptions.all {
        if setup.queues.iter().chain(&setup.requeue).any(|own| own.arn.as_str() == endpoint) {
            let finding = "It delivers into a queue of the function: every message is taken for a letter.";
            let mend = format!("aws sns unsubscribe --subscription-arn {arn}");
            findings.add(Severity::Error, "subscription-endpoint", arn, finding, mend);
        }
    }
}

/// Subscriptions that name the requeue for their dead letters.
fn of_requeue(setup: &Setup, subscriptions: &Subscriptions, findings: &mut Findings) {
    let Some(requeue) = &setup.requeue else { return };
    let policy = Policy::of(requeue.attribute("Policy").unwrap_or_default());
    for Subscription { arn, topic, .. } in subscriptions.all.iter().filter(|it| it.names(requeue)) {
        let finding = match lets_sns_in(&policy, topic, requeue) {
            Access::Yes => {
                "It names the requeue for its dead letters, whose policy lets SNS in: what its publishers write there as a \
                 mark is believed."
            }
            _ => {
                "It names the requeue for its dead letters, where only the function and replays may write: what SNS gives up \
                 on is lost."
            }
        };
        let mend = match setup.queues.as_slice() {
            [queue] => set_dead_letters(arn, queue.arn.as_str()),
            _ => "name the dead-letter queue in its RedrivePolicy".to_owned(),
        };
        findings.add(Severity::Error, "subscription-requeue", arn, finding, mend);
    }
}

/// The command that names a queue for the dead letters of a subscription.
fn set_dead_letters(subscription: &str, queue: &str) -> String {
    format!(
        "aws sns set-subscription-attributes --subscription-arn {subscription} --attribute-name RedrivePolicy \
         --attribute-value '{{\"deadLetterTargetArn\":\"{queue}\"}}'"
    )
}

/// Subscriptions of the same topics that name no dead-letter queue at all.
fn without_queue(setup: &Setup, subscriptions: &Subscriptions, findings: &mut Findings) {
    for subscription in subscriptions.all.iter().filter(|it| it.dead_letters.is_none()) {
        let arn = &subscription.arn;
        let other =
            subscriptions.all.iter().find(|it| it.topic == subscription.topic && it.names_any(&setup.queues));
        let Some(queue) = other.map(|it| it.dead_letters.clone()) else { continue };
        let mend = queue.map_or_else(String::new, |queue| set_dead_letters(arn, &queue));
        let finding =
            "It names no dead-letter queue, and others of its topic do: what SNS gives up on is lost.";
        findings.add(Severity::Warning, "subscription-without-queue", arn, finding, mend);
    }
}

/// Subscriptions that nobody could ask.
fn unknown(setup: &Setup, subscriptions: &Subscriptions, findings: &mut Findings) {
    let name = setup.function.name.as_str();
    for (why, number) in &subscriptions.unread {
        let untold = Untold { call: "sns:GetSubscriptionAttributes", why: why.clone() };
        let finding = format!(
            "Nobody can say which queue {} of this account {}: {} failed ({why}).",
            count(*number, "subscription"),
            if *number == 1 { "names" } else { "name" },
            untold.call
        );
        findings.add(Severity::CannotTell, "subscriptions", name, finding, untold.mend());
    }
    if subscriptions.pending > 0 {
        let finding =
            format!("{} of this account wait to be confirmed.", count(subscriptions.pending, "subscription"));
        findings.add(Severity::Note, "subscriptions-pending", name, finding, "");
    }
    for (topic, told) in &subscriptions.foreign {
        let what = "whether other accounts subscribe to it";
        let Some(number) = findings.told("subscriptions-foreign", topic, what, told) else { continue };
        if *number > 0 {
            let finding = format!(
                "{} of other accounts: whether they name a dead-letter queue, only those accounts can say.",
                count(*number, "subscription")
            );
            findings.add(Severity::CannotTell, "subscriptions-foreign", topic, finding, "");
        }
    }
}

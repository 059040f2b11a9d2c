//! The redrive policy: the origins that letters may claim, and the targets that rules allow.

use redrive_core::arn::Arn;
use redrive_core::endpoint::{Endpoint, HttpUrl};
use redrive_core::letter::OriginClaim;
use redrive_core::policy::{Policy, RuleAction, TargetSpec};

use crate::doctor::finding::{CheckFindings, Severity};
use crate::doctor::setup::{DeployedSubscription, DeploymentFacts};

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let Some(settings) = setup.function.settings() else { return };
    if setup.function.has_unknown_policy() {
        return;
    }
    origins(setup, &settings.policy, findings);
    targets(&settings.policy, setup, findings);
}

/// Returns the subscriptions that name a queue of the function.
fn named(setup: &DeploymentFacts) -> impl Iterator<Item = &DeployedSubscription> {
    let all = setup.subscriptions.iter().flat_map(|it| &it.all);
    all.filter(|it| it.names_any(&setup.queues))
}

/// Checks queues for which the policy believes letters that name their own target.
fn origins(setup: &DeploymentFacts, policy: &Policy, findings: &mut CheckFindings) {
    for queue in &setup.queues {
        let claims = OriginClaim::ALL.into_iter().filter(|claim| policy.origins().list(&queue.arn, *claim));
        let claims: Vec<_> = claims.map(OriginClaim::name).collect();
        if claims.is_empty() {
            continue;
        }
        let (name, claims) = (queue.arn.resource(), claims.join(", "));
        if let Some(raw) = named(setup).find(|it| it.is_raw && it.names(queue)) {
            let finding = format!(
                "The policy believes letters of {claims} in this queue, and the raw subscription {} names the queue: \
                 anyone who may publish to its topic can write such letters, and so choose where they go.",
                raw.arn
            );
            let fix =
                "give the raw subscription a queue of its own: docs/security.md#who-can-publish-to-a-topic";
            findings.add(Severity::Warning, "policy-origins", name, finding, fix);
        }
        let mut rules = policy.all_rules().filter(|rule| rule.action == RuleAction::Redrive);
        if rules.any(|rule| rule.target == TargetSpec::Origin && rule.allow_targets.is_none()) {
            let finding = format!(
                "The policy believes letters of {claims} in this queue. Only a letter names its target, so this tool \
                 cannot tell whether the function's role may send there."
            );
            let fix = "list the targets as \"allowTargets\" of the rule: then they are checked";
            findings.add(Severity::CannotTell, "policy-origins", name, finding, fix);
        }
    }
}

/// Checks that the `allowTargets` of rules name their targets; letters for others are refused.
fn targets(policy: &Policy, setup: &DeploymentFacts, findings: &mut CheckFindings) {
    for rule in policy.all_rules().filter(|rule| rule.action == RuleAction::Redrive) {
        let (Some(allowed), TargetSpec::Arn(target)) = (&rule.allow_targets, &rule.target) else { continue };
        if !allowed.iter().any(|entry| entry == target.as_str()) {
            let finding = format!(
                "The rule {} sends letters there, but its allowTargets do not name it: the letters are archived as refused.",
                rule.name
            );
            let fix = "name it in the rule's \"allowTargets\"";
            findings.add(Severity::Error, "policy-allow-targets", target.as_str(), finding, fix);
        }
    }
    let rule = policy.default_rule();
    let to_endpoint = matches!(rule.target, TargetSpec::Origin | TargetSpec::Subscription);
    let Some(allowed) =
        rule.allow_targets.as_ref().filter(|_| to_endpoint && rule.action == RuleAction::Redrive)
    else {
        return;
    };
    for subscription in named(setup) {
        let is_left_out = endpoint(subscription).is_some_and(|endpoint| !endpoint.is_allowed(allowed));
        if is_left_out {
            let finding = "The allowTargets of the policy's default do not name its endpoint: its letters are archived as \
                           refused, unless another rule matches them.";
            let fix = "name its endpoint in \"allowTargets\"";
            findings.add(Severity::Warning, "policy-allow-targets", &subscription.arn, finding, fix);
        }
    }
}

fn endpoint(subscription: &DeployedSubscription) -> Option<Endpoint> {
    let by_arn = subscription.endpoint.parse::<Arn>().ok().and_then(Endpoint::of_arn);
    by_arn.or_else(|| HttpUrl::parse(&subscription.endpoint).ok().map(Endpoint::Http))
}

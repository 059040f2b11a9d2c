//! The redrive policy against what is there: origins that letters may claim, and targets that rules allow.

use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Setup, Subscription};
use sns_redrive::arn::Arn;
use sns_redrive::endpoint::{Endpoint, HttpUrl};
use sns_redrive::letter::Claim;
use sns_redrive::policy::{Action, Policy, TargetSpec};

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    let Some(settings) = setup.function.settings() else { return };
    if setup.function.has_policy_file {
        return;
    }
    origins(setup, &settings.policy, findings);
    targets(&settings.policy, setup, findings);
}

/// The subscriptions that name a queue of the function.
fn named(setup: &Setup) -> impl Iterator<Item = &Subscription> {
    let all = setup.subscriptions.iter().flat_map(|it| &it.all);
    all.filter(|it| it.names_any(&setup.queues))
}

/// Letters that say where they go are believed where the policy lists them.
fn origins(setup: &Setup, policy: &Policy, findings: &mut Findings) {
    for queue in &setup.queues {
        let claims = Claim::ALL.into_iter().filter(|claim| policy.origins().list(&queue.arn, *claim));
        let claims: Vec<_> = claims.map(Claim::name).collect();
        if claims.is_empty() {
            continue;
        }
        let (name, claims) = (queue.arn.resource(), claims.join(", "));
        if let Some(raw) = named(setup).find(|it| it.is_raw && it.names(queue)) {
            let finding = format!(
                "The policy believes letters of {claims} in this queue, and {} names it, which delivers raw: who may publish to \
                 its topic writes such letters, and so says where they go.",
                raw.arn
            );
            let mend =
                "a queue of its own for the raw subscription: docs/security.md#who-can-publish-to-a-topic";
            findings.add(Severity::Warning, "policy-origins", name, finding, mend);
        }
        let mut rules = policy.all_rules().filter(|rule| rule.action == Action::Redrive);
        if rules.any(|rule| rule.target == TargetSpec::Origin && rule.allow_targets.is_none()) {
            let finding = format!(
                "The policy believes letters of {claims} in this queue. Where they go only a letter says: whether the function's \
                 role may send there, nobody here can."
            );
            let mend = "\"allowTargets\" in the rule, which are asked about then";
            findings.add(Severity::CannotTell, "policy-origins", name, finding, mend);
        }
    }
}

/// A target that a rule's `allowTargets` leave out is refused.
fn targets(policy: &Policy, setup: &Setup, findings: &mut Findings) {
    for rule in policy.all_rules().filter(|rule| rule.action == Action::Redrive) {
        let (Some(allowed), TargetSpec::Arn(target)) = (&rule.allow_targets, &rule.target) else { continue };
        if !allowed.iter().any(|entry| entry == target.as_str()) {
            let finding = format!(
                "The rule {} sends letters there, and its allowTargets do not name it: they go to the archive, as refused.",
                rule.name
            );
            let mend = "name it in the rule's \"allowTargets\"";
            findings.add(Severity::Error, "policy-allow-targets", target.as_str(), finding, mend);
        }
    }
    let rule = policy.default_rule();
    let to_endpoint = matches!(rule.target, TargetSpec::Origin | TargetSpec::Subscription);
    let Some(allowed) = rule.allow_targets.as_ref().filter(|_| to_endpoint && rule.action == Action::Redrive)
    else {
        return;
    };
    for subscription in named(setup) {
        let is_left_out = endpoint(subscription).is_some_and(|endpoint| !endpoint.is_allowed(allowed));
        if is_left_out {
            let finding = "The allowTargets of the policy's default leave its endpoint out: its letters go to the archive, as \
                           refused, unless another rule matches them.";
            let mend = "name its endpoint in \"allowTargets\"";
            findings.add(Severity::Warning, "policy-allow-targets", &subscription.arn, finding, mend);
        }
    }
}

fn endpoint(subscription: &Subscription) -> Option<Endpoint> {
    let by_arn = subscription.endpoint.parse::<Arn>().ok().and_then(Endpoint::of_arn);
    by_arn.or_else(|| HttpUrl::parse(&subscription.endpoint).ok().map(Endpoint::Http))
}

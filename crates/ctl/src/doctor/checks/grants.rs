//! The permissions of the function's role.

use crate::doctor::access::ResourcePolicy;
use crate::doctor::finding::{CheckFindings, Severity};
use crate::doctor::setup::{DeploymentFacts, IamDecision, RoleGrant};

/// The name of these checks.
const CHECK: &str = "grant";

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let role = &setup.function.role;
    let Some(grants) = findings.known(CHECK, role, "what this role may do", &setup.grants) else { return };
    for grant in grants {
        one(setup, grant, findings);
    }
}

fn one(setup: &DeploymentFacts, grant: &RoleGrant, findings: &mut CheckFindings) {
    let RoleGrant { action, resource, for_what, .. } = grant;
    let what = format!("whether the function's role has {action} on it, {for_what}");
    let Some(decision) = findings.known(CHECK, resource, &what, &grant.decision) else { return };
    let role = &setup.function.role;
    let own = grant
        .own_policy
        .as_ref()
        .map(|read| read.as_ref().map(|text| ResourcePolicy::of(text.as_deref().unwrap_or(""))));
    let fix = fix(action, for_what);
    match (decision, own) {
        (IamDecision::Unclear(why), _) => {
            let finding = format!("Cannot tell whether the function's role has {action}, {for_what}: {why}.");
            findings.add(Severity::CannotTell, CHECK, resource, finding, "");
        }
        (IamDecision::Denied, _) => {
            let finding = format!("A policy denies the function's role {action}, {for_what}.");
            findings.add(Severity::Error, CHECK, resource, finding, fix);
        }
        // The check of targets says so once.
        (_, Some(Err(error))) if error.is_of_no_queue() => {}
        // Only in the same account can the resource's own policy allow it by itself.
        (IamDecision::NotAllowed, Some(Err(error))) if !grant.is_foreign => {
            let finding = format!(
                "No policy of the function's role allows {action}, {for_what}, and the policy of the resource could \
                 not be read: {} failed ({}).",
                error.call,
                error.reason()
            );
            findings.add_unseen(CHECK, resource, finding, error);
        }
        (IamDecision::NotAllowed, Some(Ok(own))) if !grant.is_foreign && own.may_allow() => {
            let finding = format!(
                "No policy of the function's role allows {action}, {for_what}. The policy of the resource has a \
                 statement that may allow it."
            );
            findings.add(Severity::CannotTell, CHECK, resource, finding, fix);
        }
        (IamDecision::NotAllowed, _) => {
            let finding = format!(
                "No policy allows the function's role {action}, {for_what}: the call fails with AccessDenied."
            );
            findings.add(Severity::Error, CHECK, resource, finding, fix);
        }
        (IamDecision::Allowed, _) if grant.is_foreign => {
            let finding = format!(
                "The function's role has {action}, {for_what}, but the resource belongs to another account: only \
                 there can you see whether the policy of the resource allows the role too."
            );
            findings.add(Severity::CannotTell, CHECK, resource, finding, "");
        }
        (IamDecision::Allowed, Some(Err(error))) => {
            let finding = format!(
                "The function's role has {action}, {for_what}, but the policy of the resource could not be read: {} \
                 failed ({}).",
                error.call,
                error.reason()
            );
            findings.add_unseen(CHECK, resource, finding, error);
        }
        (IamDecision::Allowed, Some(Ok(own))) if own.may_deny(role) => {
            let finding = format!(
                "The function's role has {action}, {for_what}, but the policy of the resource has a denial with \
                 conditions that this tool does not know."
            );
            findings.add(Severity::CannotTell, CHECK, resource, finding, "");
        }
        (IamDecision::Allowed, _) => {}
    }
}

/// Returns the advice how to grant an action: the parameter of the template, if there is one.
fn fix(action: &str, for_what: &str) -> &'static str {
    match action {
        "sqs:SendMessage" if for_what.starts_with("to redeliver") => {
            "name it in the stack's parameter TargetQueueArns"
        }
        "lambda:InvokeFunction" => "name it in the stack's parameter TargetFunctionArns",
        "firehose:PutRecordBatch" => "name it in the stack's parameter TargetStreamArns",
        "sns:ListSubscriptions" => "set the stack's parameter DiscoverSubscription to true",
        "sns:Publish" => "name it in the stack's parameter TargetTopicArns, or NoticeTopicArn",
        "kms:Decrypt" if for_what.starts_with("for the dead-letter queue") => {
            "name it in the parameter KmsKeyArn of the stack, or in KmsKeyArns of the stack of queues.yaml that drains \
             the queue"
        }
        action if action.starts_with("kms:") => {
            "name it in the stack's parameter KmsKeyArn or TargetKmsKeyArns"
        }
        _ => "deploy the stack with the role of its template, or remove the denial",
    }
}

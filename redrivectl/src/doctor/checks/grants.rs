//! Whether the function's role reaches what it must.

use crate::doctor::access::Policy;
use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Decision, Grant, Setup};

/// The name of these checks.
const CHECK: &str = "grant";

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    let role = &setup.function.role;
    let Some(grants) = findings.told(CHECK, role, "what this role may do", &setup.grants) else { return };
    for grant in grants {
        one(setup, grant, findings);
    }
}

fn one(setup: &Setup, grant: &Grant, findings: &mut Findings) {
    let Grant { action, resource, for_what, .. } = grant;
    let what = format!("whether the role may {action} there, {for_what}");
    let Some(decision) = findings.told(CHECK, resource, &what, &grant.decision) else { return };
    let role = &setup.function.role;
    let own = grant
        .own_policy
        .as_ref()
        .map(|told| told.as_ref().map(|text| Policy::of(text.as_deref().unwrap_or(""))));
    let mend = mend(action, for_what);
    match (decision, own) {
        (Decision::Unclear(why), _) => {
            let finding =
                format!("Whether the function's role may {action}, {for_what}, nobody here can say: {why}.");
            findings.add(Severity::CannotTell, CHECK, resource, finding, "");
        }
        (Decision::Denied, _) => {
            let finding = format!("A policy denies {action} to the function's role, {for_what}.");
            findings.add(Severity::Error, CHECK, resource, finding, mend);
        }
        // The resource's own policy can allow it by itself, in the same account only.
        (Decision::NotAllowed, Some(Err(_))) if !grant.is_foreign => {
            let finding = format!(
                "No policy of the function's role allows {action}, {for_what}, and its own policy could not be read."
            );
            findings.add(Severity::CannotTell, CHECK, resource, finding, mend);
        }
        (Decision::NotAllowed, Some(Ok(own))) if !grant.is_foreign && own.may_allow() => {
            let finding = format!(
                "No policy of the function's role allows {action}, {for_what}. Its own policy allows something to \
                 somebody, and might to this role."
            );
            findings.add(Severity::CannotTell, CHECK, resource, finding, mend);
        }
        (Decision::NotAllowed, _) => {
            let finding =
                format!("Nothing allows {action} to the function's role, {for_what}: AccessDenied.");
            findings.add(Severity::Error, CHECK, resource, finding, mend);
        }
        (Decision::Allowed, _) if grant.is_foreign => {
            let finding = format!(
                "The function's role may {action}, {for_what}, but it is of another account: whether its own policy names \
                 the role, only that account can say."
            );
            findings.add(Severity::CannotTell, CHECK, resource, finding, "");
        }
        (Decision::Allowed, Some(Err(untold))) => {
            let finding = format!(
                "The function's role may {action}, {for_what}, but its own policy could not be read: {} failed ({}).",
                untold.call, untold.why
            );
            findings.add(Severity::CannotTell, CHECK, resource, finding, untold.mend());
        }
        (Decision::Allowed, Some(Ok(own))) if own.may_deny(role) => {
            let finding = format!(
                "The function's role may {action}, {for_what}, but its own policy denies something to somebody, with \
                 conditions that this tool does not know."
            );
            findings.add(Severity::CannotTell, CHECK, resource, finding, "");
        }
        (Decision::Allowed, _) => {}
    }
}

/// Where the template grants an action.
fn mend(action: &str, for_what: &str) -> &'static str {
    match action {
        "sqs:SendMessage" if for_what.starts_with("to redeliver") => {
            "name it in the stack's parameter TargetQueueArns"
        }
        "lambda:InvokeFunction" => "name it in the stack's parameter TargetFunctionArns",
        "firehose:PutRecordBatch" => "name it in the stack's parameter TargetStreamArns",
        "sns:ListSubscriptions" => "the stack's parameter DiscoverSubscription",
        "sns:Publish" => "name it in the stack's parameter TargetTopicArns, or NoticeTopicArn",
        action if action.starts_with("kms:") => {
            "name it in the stack's parameter KmsKeyArn or TargetKmsKeyArns"
        }
        _ => "deploy the stack as its template has it, or take the denial out",
    }
}

//! The requeue, which holds letters that are put back and whose marks are believed.

use super::queues::{moves_on, set_attributes, times};
use crate::doctor::access::ResourcePolicy;
use crate::doctor::finding::{CheckFindings, Severity, aws};
use crate::doctor::setup::{DeployedQueue, DeploymentFacts};

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let Some(queue) = &setup.requeue else {
        if setup.function.settings().is_some() {
            let finding = "It has no requeue: archived letters cannot be replayed, and if too many letters are in \
                           flight they cannot be moved elsewhere.";
            findings.add(Severity::Note, "requeue", &setup.function.name, finding, "");
        }
        return;
    };
    let (name, url) = (queue.arn.resource(), queue.arn.queue_url());
    if findings.known("requeue", name, "the attributes of this queue", &queue.attributes).is_none() {
        return;
    }
    times(setup, queue, findings);
    moves_on(queue, "requeue-redrive-policy", findings);
    if setup.queues.iter().any(|it| it.arn.is_fifo() != queue.arn.is_fifo()) {
        let finding = "This queue is standard and a dead-letter queue is FIFO, or the other way round: letters of that queue \
                       cannot be put here.";
        findings.add(
            Severity::Warning,
            "requeue-kind",
            name,
            finding,
            "set the stack's parameter Requeue to the type of the dead-letter queue",
        );
    }
    if let Some(tags) = &queue.tags
        && let Some(tags) = findings.known("requeue-tag", name, "whether it has the tag of a requeue", tags)
        && tags.get("sns-redrive").map(String::as_str) != Some("requeue")
    {
        let finding =
            "It lacks the tag sns-redrive=requeue: replays send letters only to a queue with this tag.";
        let fix = aws(&["sqs", "tag-queue", "--queue-url", &url, "--tags", "sns-redrive=requeue"]);
        findings.add(Severity::Warning, "requeue-tag", name, finding, fix);
    }
    let allow = queue.attribute("RedriveAllowPolicy").unwrap_or_default();
    if !allow.contains("denyAll") {
        let finding = "Any queue of the account may name it as its dead-letter queue. SQS then moves messages here without a \
                       permission, and their marks would be believed.";
        let fix = set_attributes(queue, r#"{"RedriveAllowPolicy": "{\"redrivePermission\": \"denyAll\"}"}"#);
        findings.add(Severity::Warning, "requeue-moves", name, finding, fix);
    }
    senders(setup, queue, findings);
}

/// Checks who else may send to the requeue.
fn senders(setup: &DeploymentFacts, queue: &DeployedQueue, findings: &mut CheckFindings) {
    let (name, policy) = (queue.arn.resource(), queue.attribute("Policy").unwrap_or_default());
    let see = "set the policy in docs/security.md#who-can-write-to-the-requeue";
    let Some(senders) = ResourcePolicy::of(policy).senders(queue.arn.as_str()) else {
        let finding = "Its policy does not restrict senders: anyone who has sqs:SendMessage in this account can put a letter \
                       here, which the function sends wherever its role may send.";
        return findings.add(Severity::Warning, "requeue-senders", name, finding, see);
    };
    let role = &setup.function.role;
    if !senders.contains(role) {
        let finding = format!(
            "Its policy denies the function's own role, {role}, to send here, unless a wildcard names it."
        );
        findings.add(Severity::Warning, "requeue-senders", name, finding, see);
    }
    let others: Vec<_> = senders.iter().filter(|sender| *sender != role).map(String::as_str).collect();
    if others.iter().any(|other| is_anybody(other)) {
        let finding = "Its policy lets every principal of an account send to it.";
        findings.add(
            Severity::Error,
            "requeue-senders",
            name,
            finding,
            "name only those who replay in the stack's parameter RequeueSenderArns",
        );
    } else if others.is_empty() {
        let finding =
            "Its policy lets nobody but the function send to it: nobody can replay archived letters.";
        findings.add(
            Severity::Warning,
            "requeue-senders",
            name,
            finding,
            "name those who replay in the stack's parameter RequeueSenderArns",
        );
    } else {
        let finding = format!(
            "Besides the function these principals may send to it, and so wherever the function's role may send: {}.",
            others.join(", ")
        );
        findings.add(Severity::Note, "requeue-senders", name, finding, "");
    }
}

/// Reports whether a pattern matches every role, user or principal of an account.
fn is_anybody(pattern: &str) -> bool {
    pattern == "*" || [":*", ":role/*", ":user/*"].iter().any(|end| pattern.ends_with(end))
}

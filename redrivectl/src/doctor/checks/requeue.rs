//! The requeue: what is put back lies there, and its marks are believed.

use super::queues::{moves_on, times};
use crate::doctor::access::Policy;
use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Queue, Setup};

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    let Some(queue) = &setup.requeue else {
        if setup.function.settings().is_some() {
            let finding = "It has no requeue: archived letters cannot be replayed, and where too many letters are in flight \
                           none can be put elsewhere.";
            findings.add(Severity::Note, "requeue", &setup.function.name, finding, "");
        }
        return;
    };
    let (name, url) = (queue.arn.resource(), queue.arn.queue_url());
    if findings.told("requeue", name, "how this queue is set", &queue.attributes).is_none() {
        return;
    }
    times(setup, queue, findings);
    moves_on(queue, "requeue-redrive-policy", findings);
    if setup.queues.iter().any(|it| it.arn.is_fifo() != queue.arn.is_fifo()) {
        let finding = "A dead-letter queue is FIFO and this is not, or the other way about: letters of that queue cannot \
                       be put here.";
        findings.add(Severity::Warning, "requeue-kind", name, finding, "the stack's parameter Requeue");
    }
    if let Some(tags) = &queue.tags
        && let Some(tags) = findings.told("requeue-tag", name, "whether it is marked as a requeue", tags)
        && tags.get("sns-redrive").map(String::as_str) != Some("requeue")
    {
        let finding =
            "It lacks the tag sns-redrive=requeue, without which no replay sends letters to a queue.";
        let mend = format!("aws sqs tag-queue --queue-url {url} --tags sns-redrive=requeue");
        findings.add(Severity::Warning, "requeue-tag", name, finding, mend);
    }
    let allow = queue.attribute("RedriveAllowPolicy").unwrap_or_default();
    if !allow.contains("denyAll") {
        let finding = "Any queue of the account may name it for its own dead letters, which SQS moves without asking for a \
                       permission; their marks would be believed.";
        let mend = format!(
            "aws sqs set-queue-attributes --queue-url {url} --attributes \
             '{{\"RedriveAllowPolicy\": \"{{\\\"redrivePermission\\\": \\\"denyAll\\\"}}\"}}'"
        );
        findings.add(Severity::Warning, "requeue-moves", name, finding, mend);
    }
    senders(setup, queue, findings);
}

/// Who else may send there.
fn senders(setup: &Setup, queue: &Queue, findings: &mut Findings) {
    let (name, policy) = (queue.arn.resource(), queue.attribute("Policy").unwrap_or_default());
    let see = "the policy in docs/security.md#who-can-write-to-the-requeue";
    let Some(senders) = Policy::of(policy).senders(queue.arn.as_str()) else {
        let finding = "Its policy denies sending to nobody: whoever has sqs:SendMessage in this account may put a letter \
                       here that goes wherever the function's role may send.";
        return findings.add(Severity::Warning, "requeue-senders", name, finding, see);
    };
    let role = &setup.function.role;
    if !senders.contains(role) {
        let finding = format!(
            "Its policy denies sending to the function's own role, {role}, unless a wildcard names it."
        );
        findings.add(Severity::Warning, "requeue-senders", name, finding, see);
    }
    let others: Vec<_> = senders.iter().filter(|sender| *sender != role).map(String::as_str).collect();
    if others.iter().any(|other| is_anybody(other)) {
        let finding = "Its policy lets anybody of the account send to it.";
        findings.add(
            Severity::Error,
            "requeue-senders",
            name,
            finding,
            "the stack's parameter RequeueSenderArns",
        );
    } else if !others.is_empty() {
        let finding = format!(
            "Besides the function these may send to it, and so wherever the function's role may send: {}.",
            others.join(", ")
        );
        findings.add(Severity::Note, "requeue-senders", name, finding, "");
    }
}

/// Whether a pattern is like every role, user or principal of an account.
fn is_anybody(pattern: &str) -> bool {
    pattern == "*" || [":*", ":role/*", ":user/*"].iter().any(|end| pattern.ends_with(end))
}

//! The dead-letter queues.

use super::LONGEST_RETENTION;
use crate::doctor::access::{Access, Policy, Sender};
use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Queue, Setup};
use crate::text::{brief, count};
use sns_redrive::arn::Arn;

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    for queue in &setup.queues {
        let name = queue.arn.resource();
        if findings.told("queue", name, "how this queue is set", &queue.attributes).is_none() {
            continue;
        }
        times(setup, queue, findings);
        moves_on(queue, "queue-redrive-policy", findings);
        key(queue, findings);
        let_in(setup, queue, findings);
    }
    left_behind(setup, findings);
    undrained(setup, findings);
}

/// Whether the queue has a dead-letter queue of its own. The requeue may have none either.
pub(super) fn moves_on(queue: &Queue, check: &'static str, findings: &mut Findings) {
    if queue.attribute("RedrivePolicy").is_some() {
        let finding = "It has a RedrivePolicy of its own: SQS moves letters away that have been received often, as waiting ones \
                       are, and nobody retries them.";
        let url = queue.arn.queue_url();
        let mend = format!("aws sqs set-queue-attributes --queue-url {url} --attributes RedrivePolicy=");
        findings.add(Severity::Error, check, queue.arn.resource(), finding, mend);
    }
}

/// Queues that the stack made, and that feed no function any more.
fn left_behind(setup: &Setup, findings: &mut Findings) {
    const CHECK: &str = "queue-left-behind";
    let what = "whether the stack left a queue behind that has letters";
    let Some(told) = &setup.left_behind else { return };
    for queue in findings.told(CHECK, &setup.function.name, what, told).into_iter().flatten() {
        let name = queue.arn.resource();
        if findings.told(CHECK, name, "how many letters lie in it", &queue.attributes).is_none() {
            continue;
        }
        let letters = queue.letters();
        if letters == 0 {
            let finding = "The stack left it behind, and it seems empty. No mapping feeds a function from it: what still comes \
                           there expires.";
            findings.add(Severity::Note, CHECK, name, finding, "docs/guide/runbook.md#take-the-stack-down");
        } else {
            let finding = format!(
                "The stack left it behind with about {}, and no mapping feeds a function from it: they wait until they expire.",
                count(letters, "letter")
            );
            let mend = "docs/guide/runbook.md#change-requeue-or-existingdeadletterqueuearn";
            findings.add(Severity::Error, CHECK, name, finding, mend);
        }
    }
}

/// Queues that subscriptions of the same topics name, and that feed no function.
fn undrained(setup: &Setup, findings: &mut Findings) {
    const CHECK: &str = "queue-undrained";
    let what = "whether a function drains the other queues that subscriptions of these topics name";
    let undrained = findings.told(CHECK, &setup.function.name, what, &setup.undrained);
    let left_behind: Vec<_> = setup.left_behind.iter().flatten().flatten().map(|queue| &queue.arn).collect();
    for queue in undrained.into_iter().flatten().filter(|queue| !left_behind.contains(&&queue.arn)) {
        let named = setup.subscriptions.iter().flat_map(|it| &it.all);
        let number = named.filter(|it| it.names(queue)).count() as u64;
        let letters = match &queue.attributes {
            Ok(_) => format!("About {} in it wait until they expire", count(queue.letters(), "letter")),
            Err(untold) => {
                format!("Its letters, whose number nobody can say ({}), wait until they expire", untold.why)
            }
        };
        let finding = format!(
            "{} of the same topics {} it, and no mapping feeds a function from it. {letters}, unless something else than Lambda \
             reads it.",
            count(number, "subscription"),
            if number == 1 { "names" } else { "name" },
        );
        let mend = "docs/guide/runbook.md#take-a-queue-off-queuesyaml";
        findings.add(Severity::Warning, CHECK, queue.arn.resource(), finding, mend);
    }
}

/// The command that sets an attribute of a queue.
pub(super) fn set(queue: &Queue, attribute: &str, value: u64) -> String {
    format!(
        "aws sqs set-queue-attributes --queue-url {} --attributes {attribute}={value}",
        queue.arn.queue_url()
    )
}

/// How long letters are hidden, and how long they are kept. The requeue has the same.
pub(super) fn times(setup: &Setup, queue: &Queue, findings: &mut Findings) {
    let (name, timeout) = (queue.arn.resource(), setup.function.timeout);
    let advised = 6 * timeout;
    match queue.number("VisibilityTimeout") {
        Some(visibility) if visibility < timeout => findings.add(
            Severity::Error,
            "queue-visibility",
            name,
            format!(
                "Letters are hidden for {visibility} s, and the function may take {timeout} s: they come back while they are \
                 worked on, and go out twice. Lambda refuses to change such a mapping."
            ),
            set(queue, "VisibilityTimeout", advised),
        ),
        Some(visibility) if visibility < advised => findings.add(
            Severity::Note,
            "queue-visibility",
            name,
            format!(
                "Letters are hidden for {visibility} s. AWS advises six times the function's timeout, {advised} s, so that \
                 invocations that are throttled do not raise receive counts."
            ),
            set(queue, "VisibilityTimeout", advised),
        ),
        _ => {}
    }
    if let Some(retention) = queue.number("MessageRetentionPeriod").filter(|it| *it < LONGEST_RETENTION) {
        findings.add(
            Severity::Warning,
            "queue-retention",
            name,
            format!(
                "It keeps letters for {}. A schedule that is longer is cut off, and an outage that is longer fills the \
                 archive; SQS can keep them for 14 d.",
                brief(retention)
            ),
            set(queue, "MessageRetentionPeriod", LONGEST_RETENTION),
        );
    }
}

fn key(queue: &Queue, findings: &mut Findings) {
    let (name, url) = (queue.arn.resource(), queue.arn.queue_url());
    match queue.attribute("KmsMasterKeyId") {
        None => {}
        Some(key) if key.ends_with("alias/aws/sqs") => findings.add(
            Severity::Error,
            "queue-key",
            name,
            "It is encrypted with the AWS-managed key of SQS, whose policy nobody can change: SNS cannot write to it, and \
             what SNS gives up on is lost.",
            format!(
                "aws sqs set-queue-attributes --queue-url {url} --attributes KmsMasterKeyId=,SqsManagedSseEnabled=true"
            ),
        ),
        Some(key) => findings.add(
            Severity::CannotTell,
            "queue-key",
            name,
            format!(
                "It has a key of its own, {key}. Nobody here can say whether the key's policy lets sns.amazonaws.com use it \
                 (kms:GenerateDataKey, kms:Decrypt); if not, what SNS gives up on is lost."
            ),
            format!("aws kms get-key-policy --key-id {key}"),
        ),
    }
}

/// Whether SNS may write dead letters of each topic.
fn let_in(setup: &Setup, queue: &Queue, findings: &mut Findings) {
    let Ok(subscriptions) = &setup.subscriptions else { return };
    let names = subscriptions.all.iter().filter(|it| it.names(queue));
    let topics: std::collections::BTreeSet<_> = names.map(|it| it.topic.as_str()).collect();
    let policy = Policy::of(queue.attribute("Policy").unwrap_or_default());
    let name = queue.arn.resource();
    for topic in topics {
        let look = format!(
            "aws sqs get-queue-attributes --queue-url {} --attribute-names Policy",
            queue.arn.queue_url()
        );
        match lets_sns_in(&policy, topic, queue) {
            Access::Yes => {}
            Access::No => findings.add(
                Severity::Error,
                "queue-policy",
                name,
                format!(
                    "Its policy does not let SNS in for {topic}, whose subscriptions name it: what SNS gives up on is lost."
                ),
                "add the topic to the stack's parameter TopicArns, or to aws:SourceArn in the queue's policy",
            ),
            Access::Unclear => findings.add(
                Severity::CannotTell,
                "queue-policy",
                name,
                format!("Its policy has conditions that this tool does not know: whether SNS gets in for {topic}."),
                look,
            ),
        }
    }
}

/// Whether the policy of a queue lets SNS write what it gives up on, of this topic.
pub(super) fn lets_sns_in(policy: &Policy, topic: &str, queue: &Queue) -> Access {
    let account = topic.parse::<Arn>().map(|topic| topic.account().to_owned()).unwrap_or_default();
    let sender = Sender { service: "sns.amazonaws.com", source: topic, account: &account };
    policy.lets(sender, "sqs:SendMessage", queue.arn.as_str())
}

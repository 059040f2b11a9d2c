//! The dead-letter queues.

use redrive_core::arn::Arn;
use redrive_core::policy::LEAST_RETENTION;

use crate::doctor::access::{MessageSender, PolicyAnswer, ResourcePolicy};
use crate::doctor::finding::{CheckFindings, Severity, aws};
use crate::doctor::setup::{DeployedQueue, DeploymentFacts};
use crate::tables::{brief, count};

/// The longest retention of SQS, two weeks, in seconds.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const LONGEST_RETENTION: u64 = 1_209_600;

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    for queue in &setup.queues {
        let name = queue.arn.resource();
        if findings.known("queue", name, "the attributes of this queue", &queue.attributes).is_none() {
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

/// Checks that the queue, or the requeue, has no dead-letter queue of its own.
pub(super) fn moves_on(queue: &DeployedQueue, check: &'static str, findings: &mut CheckFindings) {
    if queue.attribute("RedrivePolicy").is_some() {
        let finding = "It has a RedrivePolicy of its own: SQS moves letters away that were received often, and \
                       waiting letters are. Nobody retries those.";
        let fix = set_attributes(queue, "RedrivePolicy=");
        findings.add(Severity::Error, check, queue.arn.resource(), finding, fix);
    }
}

/// Checks queues that the stack created and that no longer feed a function.
fn left_behind(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    const CHECK: &str = "queue-left-behind";
    let what = "whether the stack left a queue with letters behind";
    let Some(read) = &setup.left_behind else { return };
    for queue in findings.known(CHECK, &setup.function.name, what, read).into_iter().flatten() {
        let name = queue.arn.resource();
        if findings.known(CHECK, name, "how many letters are in it", &queue.attributes).is_none() {
            continue;
        }
        let letters = queue.letters();
        if letters == 0 {
            let finding = "The stack left it behind, and it seems empty. No mapping connects it with a function: \
                           letters that still arrive there expire.";
            findings.add(
                Severity::Note,
                CHECK,
                name,
                finding,
                "see docs/guide/runbook.md#take-the-stack-down",
            );
        } else {
            let finding = format!(
                "The stack left it behind with about {}, and no mapping connects it with a function: they wait until \
                 they expire.",
                count(letters, "letter")
            );
            let fix = "see docs/guide/runbook.md#change-requeue-or-existingdeadletterqueuearn";
            findings.add(Severity::Error, CHECK, name, finding, fix);
        }
    }
}

/// Checks queues that subscriptions of the same topics name, and that feed no function.
fn undrained(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    const CHECK: &str = "queue-undrained";
    let what = "whether a function drains the other queues that subscriptions of these topics name";
    let undrained = findings.known(CHECK, &setup.function.name, what, &setup.undrained);
    let left_behind: Vec<_> = setup.left_behind.iter().flatten().flatten().map(|queue| &queue.arn).collect();
    for queue in undrained.into_iter().flatten().filter(|queue| !left_behind.contains(&&queue.arn)) {
        let named = setup.subscriptions.iter().flat_map(|it| &it.all);
        let number = named.filter(|it| it.names(queue)).count() as u64;
        let letters = match &queue.attributes {
            Ok(_) => format!("About {} in it wait until they expire", count(queue.letters(), "letter")),
            Err(_) => "An unknown number of letters in it wait until they expire".to_owned(),
        };
        let finding = format!(
            "{} of the same topics {} it, and no mapping connects it with a function. {letters}, unless something other than \
             Lambda reads it.",
            count(number, "subscription"),
            if number == 1 { "names" } else { "name" },
        );
        let fix = "see docs/guide/runbook.md#take-a-queue-off-queuesyaml";
        findings.add(Severity::Warning, CHECK, queue.arn.resource(), finding, fix);
        findings.known(CHECK, queue.arn.resource(), "how many letters are in it", &queue.attributes);
    }
}

/// Returns the command that sets an attribute of a queue.
pub(super) fn set(queue: &DeployedQueue, attribute: &str, value: u64) -> String {
    set_attributes(queue, &format!("{attribute}={value}"))
}

/// Returns the command that sets attributes of a queue.
pub(super) fn set_attributes(queue: &DeployedQueue, attributes: &str) -> String {
    let url = queue.arn.queue_url();
    aws(&["sqs", "set-queue-attributes", "--queue-url", &url, "--attributes", attributes])
}

/// Checks the visibility timeout and the retention, of the requeue too.
pub(super) fn times(setup: &DeploymentFacts, queue: &DeployedQueue, findings: &mut CheckFindings) {
    let (name, timeout) = (queue.arn.resource(), setup.function.timeout);
    let advised = 6 * timeout;
    match queue.number("VisibilityTimeout") {
        Some(visibility) if visibility < timeout => findings.add(
            Severity::Error,
            "queue-visibility",
            name,
            format!(
                "Letters are hidden for {visibility} s, but the function may take {timeout} s: they come back during \
                 the work and are sent twice. Lambda also refuses to change the mapping of such a queue."
            ),
            set(queue, "VisibilityTimeout", advised),
        ),
        Some(visibility) if visibility < advised => findings.add(
            Severity::Note,
            "queue-visibility",
            name,
            format!(
                "Letters are hidden for {visibility} s. AWS advises six times the function's timeout, {advised} s, \
                 so that throttled invocations do not raise receive counts."
            ),
            set(queue, "VisibilityTimeout", advised),
        ),
        _ => {}
    }
    if let Some(retention) = queue.number("MessageRetentionPeriod").filter(|it| *it < LONGEST_RETENTION) {
        let keeps = brief(retention);
        let (severity, finding) = if retention < LEAST_RETENTION {
            let finding = "That is below an hour, which is not supported: letters can be lost.";
            (Severity::Error, format!("It keeps letters for {keeps}. {finding}"))
        } else {
            let finding = "A longer schedule is cut off, and a longer outage fills the archive. SQS can keep letters for 14 d.";
            (Severity::Warning, format!("It keeps letters for {keeps}. {finding}"))
        };
        let fix = set(queue, "MessageRetentionPeriod", LONGEST_RETENTION);
        findings.add(severity, "queue-retention", name, finding, fix);
    }
}

fn key(queue: &DeployedQueue, findings: &mut CheckFindings) {
    let name = queue.arn.resource();
    match key_of(queue) {
        QueueKey::None => {}
        QueueKey::Managed => findings.add(
            Severity::Error,
            "queue-key",
            name,
            format!("It {MANAGED_KEY}, and messages on which SNS gives up are lost."),
            set_attributes(queue, "KmsMasterKeyId=,SqsManagedSseEnabled=true"),
        ),
        QueueKey::Own(key) => findings.add(
            Severity::CannotTell,
            "queue-key",
            name,
            format!("It {}", own_key(key)),
            aws(&["kms", "get-key-policy", "--key-id", key]),
        ),
    }
}

/// The key of a queue.
pub(crate) enum QueueKey<'a> {
    /// It has none, or SQS's own encryption, which admits everybody whom the queue admits.
    None,
    /// The key that AWS manages for SQS, with which SNS cannot write: its policy lets no service in.
    /// <https://docs.aws.amazon.com/sns/latest/dg/sns-enable-encryption-for-topic-sqs-queue-subscriptions.html>
    Managed,
    /// A key of the account, whose policy decides.
    Own(&'a str),
}

/// Returns the key of a queue.
pub(crate) fn key_of(queue: &DeployedQueue) -> QueueKey<'_> {
    match queue.attribute("KmsMasterKeyId") {
        None => QueueKey::None,
        Some(key) if key.ends_with("alias/aws/sqs") => QueueKey::Managed,
        Some(key) => QueueKey::Own(key),
    }
}

/// The text about a queue with the key that AWS manages.
pub(crate) const MANAGED_KEY: &str = "is encrypted with the AWS-managed key of SQS, whose policy cannot be changed: SNS cannot \
                                      write to the queue";

/// Returns the text about a queue with a key of the account.
pub(crate) fn own_key(key: &str) -> String {
    format!(
        "is encrypted with the key {key}. This tool cannot tell whether the key's policy lets sns.amazonaws.com use it \
         (kms:GenerateDataKey, kms:Decrypt); if not, messages on which SNS gives up are lost."
    )
}

/// Checks that SNS may write the dead letters of each topic.
fn let_in(setup: &DeploymentFacts, queue: &DeployedQueue, findings: &mut CheckFindings) {
    let Ok(subscriptions) = &setup.subscriptions else { return };
    let names = subscriptions.all.iter().filter(|it| it.names(queue));
    let topics: std::collections::BTreeSet<_> = names.map(|it| it.topic.as_str()).collect();
    let policy = ResourcePolicy::of(queue.attribute("Policy").unwrap_or_default());
    let name = queue.arn.resource();
    for topic in topics {
        let url = queue.arn.queue_url();
        let look = aws(&["sqs", "get-queue-attributes", "--queue-url", &url, "--attribute-names", "Policy"]);
        match lets_sns_in(&policy, topic, queue) {
            PolicyAnswer::Yes => {}
            PolicyAnswer::No => findings.add(
                Severity::Error,
                "queue-policy",
                name,
                format!(
                    "Its policy does not let SNS write for {topic}, whose subscriptions name it: messages on which \
                     SNS gives up are lost."
                ),
                "add the topic to the stack's parameter TopicArns, or to aws:SourceArn in the queue's policy",
            ),
            PolicyAnswer::Unclear => findings.add(
                Severity::CannotTell,
                "queue-policy",
                name,
                format!("Cannot tell whether SNS may write for {topic}: the queue's policy has conditions that this \
                         tool does not know."),
                look,
            ),
        }
    }
}

/// Reports whether the policy of a queue lets SNS write the dead letters of this topic.
pub(crate) fn lets_sns_in(policy: &ResourcePolicy, topic: &str, queue: &DeployedQueue) -> PolicyAnswer {
    let account = topic.parse::<Arn>().map(|topic| topic.account().to_owned()).unwrap_or_default();
    let sender = MessageSender { service: "sns.amazonaws.com", source: topic, account: &account };
    policy.lets(sender, "sqs:SendMessage", queue.arn.as_str())
}

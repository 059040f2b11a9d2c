//! A check of the queue that the function was given. Each finding is reported once per process and queue.
//!
//! No finding stops the function, since letters are better off with it than without. But each finding costs
//! retries or letters, and is easy to correct.

use std::collections::BTreeSet;
use std::time::Duration;

use super::action::QueueAttributes;
use super::config::BatchConfig;
use super::pending_letter::PendingLetter;
use crate::arn::Arn;
use crate::letter::Letter;
use crate::policy::{DeliverySpec, LEAST_RETENTION, Policy, Rule, RuleAction, expiry_margin};

/// Returns everything that is wrong with a queue whose attributes are known. `left` is the invocation's time.
pub(super) fn findings(
    config: &BatchConfig,
    queue: &Arn,
    attributes: &QueueAttributes,
    letters: &[Letter],
    left: Duration,
) -> Vec<String> {
    let Some(retention) = attributes.retention else { return Vec::new() };
    let in_requeue = config.requeue.as_ref() == Some(queue);
    let marked = |letter: &Letter| letter.mark.as_ref().is_some_and(|mark| mark.requeued.dlq.is_some());
    let findings = [
        (config.archive_queue.as_ref() == Some(queue))
            .then(|| "it is also the archive: its letters cannot be archived. Set ARCHIVE to another place".to_owned()),
        // SNS, SQS and Lambda know nothing of marks: they write to dead-letter queues.
        (in_requeue && !letters.iter().all(marked)).then(|| {
            "it is the requeue, but others send to it too. Set REQUEUE_ARN to a queue of its own".to_owned()
        }),
        attributes.max_receives.map(|most| {
            format!("it has a RedrivePolicy: SQS moves its letters to another queue after {most} receives. Remove it")
        }),
        (retention < LEAST_RETENTION).then(|| {
            format!(
                "its retention of {retention} s is below an hour, which is not supported: letters can be lost. Set it to 14 \
                 days"
            )
        }),
        visibility(attributes, left),
        too_late(attributes),
        kinds(config, queue, in_requeue),
    ];
    let rules = config.policy.all_rules().filter_map(|rule| schedule(rule, retention));
    findings.into_iter().flatten().chain(rules).collect()
}

/// Returns the dead-letter queues of letters that publishers of a raw subscription's topic could have
/// written, if there is such a subscription: nothing proves that they did not.
pub(super) fn open_to_forgery(policy: &Policy, cases: &[PendingLetter<'_>]) -> BTreeSet<Arn> {
    // If a rule verifies signatures, the operator knows of the problem. Raw letters have no signature, so
    // they need a rule that does not verify.
    let verifies = policy.all_rules().any(|rule| rule.verify_signature);
    let open = |case: &&PendingLetter<'_>| {
        !case.rule.verify_signature && (case.letter.notification.is_some() || !verifies)
    };
    // Nearly always all letters come from one queue.
    cases
        .iter()
        .filter(open)
        .map(|case| case.letter.dead_letter_queue())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .cloned()
        .collect()
}

/// Reports an incompatible pair: letters cannot go from a FIFO queue to a standard requeue, nor the other way
/// round.
fn kinds(config: &BatchConfig, queue: &Arn, in_requeue: bool) -> Option<String> {
    let requeue = config.requeue.as_ref().filter(|_| !in_requeue)?;
    let text = match (queue.is_fifo(), requeue.is_fifo()) {
        (true, false) => {
            "it is a FIFO queue but the requeue is not, so letters cannot move there. Set REQUEUE_ARN to a FIFO one"
        }
        (false, true) => {
            "it is a standard queue but the requeue is not, so letters cannot move there. Set REQUEUE_ARN to a standard one"
        }
        (true, true) | (false, false) => return None,
    };
    Some(text.to_owned())
}

/// Returns the advice for a raw subscription that shares a queue with others.
pub(super) fn advice_on_sharing(queue: &Arn) -> &'static str {
    if queue.is_fifo() {
        // Messages of FIFO topics carry no signature.
        return "it is the dead-letter queue of a raw subscription and of others: publishers to the topic of the raw \
                subscription can forge letters of the others. Give the raw subscription a dead-letter queue of its own";
    }
    "it is the dead-letter queue of a raw subscription and of others: publishers to the topic of the raw subscription can \
     forge letters of the others. Give the raw subscription a dead-letter queue of its own, or set verifySignature in the \
     rule of the others"
}

/// Reports a visibility timeout that is too short: a letter that becomes visible before its invocation ends
/// is handled twice.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
fn visibility(attributes: &QueueAttributes, left: Duration) -> Option<String> {
    let timeout = attributes.visibility_timeout?;
    let run = left.as_secs();
    (timeout < run).then(|| {
        format!(
            "its visibility timeout of {timeout} s is shorter than the function's timeout (over {run} s): \
             letters are handled twice. Set it to six times the function's timeout"
        )
    })
}

/// Reports a visibility timeout that is too long: a letter that cannot be hidden becomes visible only when it
/// ends. That is too late if it is longer than the time in which letters are archived before their queue
/// drops them.
fn too_late(attributes: &QueueAttributes) -> Option<String> {
    let (timeout, retention) = (attributes.visibility_timeout?, attributes.retention?);
    let margin = expiry_margin(retention);
    (timeout > margin).then(|| {
        format!(
            "its visibility timeout of {timeout} s is longer than the last {margin} s of its retention, in which letters \
             are archived: a letter that cannot be hidden then is lost. Set it to six times the function's timeout"
        )
    })
}

/// Reports a schedule that is longer than the time for which a queue keeps letters.
fn schedule(rule: &Rule, retention: u64) -> Option<String> {
    let DeliverySpec::Inline(delivery) = &rule.delivery else { return None };
    let schedule = &delivery.schedule;
    let most = retention.saturating_sub(expiry_margin(retention));
    let mut since_arrival = 0.0;
    for retry in 1..=schedule.retries {
        since_arrival += schedule.delay(retry)?;
        // A retention is far below the largest whole number that f64 holds exactly.
        #[expect(clippy::cast_precision_loss, reason = "14 days of seconds are exact")]
        if since_arrival > most as f64 && rule.action == RuleAction::Redrive {
            return Some(format!(
                "rule {}: only {} of its {} retries fit into the queue's retention of {retention} s. Raise the \
                 retention, or shorten the schedule",
                rule.name,
                retry - 1,
                schedule.retries
            ));
        }
    }
    None
}

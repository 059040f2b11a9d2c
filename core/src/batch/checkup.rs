//! What is wrong with the queue that the function was given, said once in a process and queue.
//!
//! None of this stops the function: letters are better off with it than without. But each finding costs retries or
//! letters, and is easily mended.

use std::collections::BTreeSet;
use std::time::Duration;

use super::action::QueueAttributes;
use super::case::Case;
use super::config::Config;
use crate::arn::Arn;
use crate::letter::Letter;
use crate::policy::{Action, DeliverySpec, Policy, Rule, expiry_margin};

/// Everything that is wrong with a queue whose attributes are known. `left` is the invocation's time.
pub(super) fn findings(
    config: &Config,
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
            .then(|| "the archive is this very queue: nothing can be archived".to_owned()),
        // SNS, SQS and Lambda know nothing of marks: they write to dead-letter queues.
        (in_requeue && !letters.iter().all(marked)).then(|| {
            "REQUEUE_ARN names a queue that others send to: it must be a queue of its own".to_owned()
        }),
        attributes.max_receives.map(|most| {
            format!("it has a RedrivePolicy itself: SQS moves letters away after {most} receives")
        }),
        visibility(attributes, left),
        too_late(attributes),
        kinds(config, queue, in_requeue),
    ];
    let rules = config.policy.all_rules().filter_map(|rule| schedule(rule, retention));
    findings.into_iter().flatten().chain(rules).collect()
}

/// The dead-letter queues of letters that publishers of a raw subscription's topic could have written, if there is one:
/// nothing shows that they did not.
pub(super) fn open_to_forgery(policy: &Policy, cases: &[Case<'_>]) -> BTreeSet<Arn> {
    // Who has letters verified has thought of it; raw letters, which nobody signs, need a rule without.
    let verifies = policy.all_rules().any(|rule| rule.verify_signature);
    let open =
        |case: &&Case<'_>| !case.rule.verify_signature && (case.letter.notification.is_some() || !verifies);
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

/// Whether letters of the queue could go to the requeue.
fn kinds(config: &Config, queue: &Arn, in_requeue: bool) -> Option<String> {
    let requeue = config.requeue.as_ref().filter(|_| !in_requeue)?;
    let text = match (queue.is_fifo(), requeue.is_fifo()) {
        (true, false) => "it is a FIFO queue and the requeue is none: its letters cannot go there",
        (false, true) => "the requeue is a FIFO queue and this is none: its letters cannot go there",
        (true, true) | (false, false) => return None,
    };
    Some(text.to_owned())
}

/// Returns what to do about a raw subscription that shares a queue with others.
pub(super) fn advice_on_sharing(queue: &Arn) -> &'static str {
    if queue.is_fifo() {
        // Messages of FIFO topics carry no signature.
        return "it takes the dead letters of a raw subscription and of others: a publisher of the raw one's topic can \
                write letters of the others. Give the raw one a dead-letter queue of its own";
    }
    "it takes the dead letters of a raw subscription and of others: a publisher of the raw one's topic can write letters \
     of the others. Set verifySignature for the letters of the others, or give the raw one a dead-letter queue of its own"
}

/// A letter that shows before its invocation ends is handled twice.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
fn visibility(attributes: &QueueAttributes, left: Duration) -> Option<String> {
    let timeout = attributes.visibility_timeout?;
    let run = left.as_secs();
    (timeout < run).then(|| {
        format!(
            "its visibility timeout of {timeout} s is shorter than the function's timeout (over {run} s): \
             letters are handled twice"
        )
    })
}

/// A letter that cannot be hidden shows again when the visibility timeout ends: too late, if that is longer than the
/// time in which letters are archived before their queue drops them.
fn too_late(attributes: &QueueAttributes) -> Option<String> {
    let (timeout, retention) = (attributes.visibility_timeout?, attributes.retention?);
    let margin = expiry_margin(retention);
    (timeout > margin).then(|| {
        format!(
            "its visibility timeout of {timeout} s is longer than the last {margin} s of its retention, in which letters \
             are archived: one that cannot be hidden then is lost. Six times the function's timeout is enough"
        )
    })
}

/// How far a rule's schedule gets in the time that a queue keeps letters.
fn schedule(rule: &Rule, retention: u64) -> Option<String> {
    let DeliverySpec::Given(delivery) = &rule.delivery else { return None };
    let schedule = &delivery.schedule;
    let most = retention.saturating_sub(expiry_margin(retention));
    let mut since_arrival = 0.0;
    for retry in 1..=schedule.retries {
        since_arrival += schedule.delay(retry)?;
        // A retention is far below what f64 holds exactly.
        #[expect(clippy::cast_precision_loss, reason = "14 days of seconds are exact")]
        if since_arrival > most as f64 && rule.action == Action::Redrive {
            return Some(format!(
                "rule {}: of {} retries {} come before its retention of {retention} s is over",
                rule.name,
                schedule.retries,
                retry - 1
            ));
        }
    }
    None
}

//! Forgotten overrides, and letters that expire soon. Only letters on the list of waiting letters are checked, because SQS
//! does not report the age of a letter that was received [three times](
//! https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use redrive_core::policy::OverrideAction;

use crate::doctor::finding::{CheckFindings, Severity, aws};
use crate::doctor::setup::{DeploymentFacts, HiddenLetter};
use crate::tables::{brief, command_line, count, utc};

/// The age from which an override may be forgotten, and the remaining time from which letters expire soon.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// The hint for letters whose expiry is unknown here.
const EXPIRY_HINT: &str = "ExpiryNearAlarm covers letters that the function receives.";

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let name = setup.function.name.as_str();
    if let Some(overrides) = &setup.overrides
        && let Some(overrides) = findings.known("overrides", name, "which overrides are in force", overrides)
    {
        let in_force = overrides.iter().filter(|override_| override_.is_in_force(setup.now));
        for override_ in in_force.filter(|override_| override_.action != OverrideAction::Retry) {
            let age = setup.now.duration_since(override_.at);
            let (is_endless, is_old) = (override_.end().is_none(), age > DAY);
            if !(is_endless || is_old) {
                continue;
            }
            let until = override_
                .end()
                .map_or("until it is released".to_owned(), |end| format!("until {} UTC", utc(end)));
            let finding = format!(
                "An override to {}, given {} ago by {}, is in force {until}. Its reason: {}.",
                override_.action.name(),
                brief(age.unsigned_abs().as_secs()),
                override_.by,
                override_.why
            );
            let severity = if is_old { Severity::Warning } else { Severity::Note };
            let about = format!("the override {}", override_.id);
            // An id that somebody wrote by hand may look like an option.
            let is_option = override_.id.starts_with('-');
            let words = if is_option {
                &["redrivectl", "overrides"][..]
            } else {
                &["redrivectl", "overrides", "release", &override_.id]
            };
            findings.add(severity, "override-forgotten", &about, finding, command_line(words));
        }
    }
    let Some(waiting) = &setup.waiting else { return without_list(setup, findings) };
    if let Some(waiting) = findings.known("waiting", name, "which letters wait", waiting) {
        expiring(setup, waiting, findings);
        unlisted(setup, waiting, findings);
    }
}

/// Adds a finding if there is no list of waiting letters, or none is known.
fn without_list(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    let (why, fix) = match setup.function.settings() {
        Some(_) => (
            "the function keeps no list of waiting letters",
            "set the stack's parameters Overrides and WaitingList to on",
        ),
        None => ("the settings of the function are unknown", ""),
    };
    let finding = format!("Cannot tell whether letters expire within a day: {why}. {EXPIRY_HINT}");
    findings.add(Severity::CannotTell, "letters-expire", &setup.function.name, finding, fix);
}

/// Adds a finding for letters that are not on the list.
fn unlisted(setup: &DeploymentFacts, waiting: &[HiddenLetter], findings: &mut CheckFindings) {
    for queue in setup.queues.iter().chain(&setup.requeue) {
        let listed = waiting.iter().filter(|letter| letter.queue == queue.arn.as_str()).count() as u64;
        let others = queue.letters().saturating_sub(listed);
        if others > 0 {
            let finding = format!(
                "Cannot tell when about {} in it {}: the list of waiting letters has only letters that are hidden for more \
                 than two minutes. {EXPIRY_HINT} If no mapping takes the others, check how many are visible and for how long.",
                count(others, "letter"),
                if others == 1 { "expires" } else { "expire" },
            );
            let url = queue.arn.queue_url();
            let fix = aws(&["sqs", "get-queue-attributes", "--queue-url", &url, "--attribute-names", "All"]);
            findings.add(Severity::CannotTell, "letters-expire", queue.arn.resource(), finding, fix);
        }
    }
}

/// Adds findings for letters that their queue keeps for less than another day.
fn expiring(setup: &DeploymentFacts, waiting: &[HiddenLetter], findings: &mut CheckFindings) {
    let mut soon: BTreeMap<(&str, &str), (u64, Timestamp)> = BTreeMap::new();
    let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
    for letter in waiting {
        let mut own = setup.queues.iter().chain(&setup.requeue);
        let queue = own.find(|queue| queue.arn.as_str() == letter.queue);
        let retention = queue.and_then(|queue| Some((queue, queue.number("MessageRetentionPeriod")?)));
        let Some((queue, retention)) = retention else {
            *unknown.entry(letter.queue.as_str()).or_default() += 1;
            continue;
        };
        let kept = SignedDuration::from_secs(i64::try_from(retention).unwrap_or(i64::MAX));
        let expires = letter.since.saturating_add(kept).unwrap_or(Timestamp::MAX);
        // In a queue with such a short retention all letters are like that.
        if kept <= DAY || expires.duration_since(setup.now) > DAY {
            continue;
        }
        let target = letter.target.as_deref().unwrap_or("no target");
        let (letters, first) = soon.entry((queue.arn.resource(), target)).or_insert((0, expires));
        *letters += 1;
        *first = expires.min(*first);
    }
    for (queue, letters) in unknown {
        let finding = format!(
            "Cannot tell when {} on the list of waiting letters {}: the retention of this queue is unknown.",
            count(letters, "letter"),
            if letters == 1 { "expires" } else { "expire" }
        );
        let name = queue.rsplit(':').next().unwrap_or(queue);
        findings.add(Severity::CannotTell, "letters-expire", name, finding, "");
    }
    for ((queue, target), (letters, first)) in soon {
        let finding = format!(
            "At most {} for {target} {} within a day, the first at {} UTC. The function archives them before that. Retry them now, \
             or replay them later.",
            count(letters, "letter"),
            if letters == 1 { "expires" } else { "expire" },
            utc(first)
        );
        let fix = command_line(["redrivectl", "waiting", "--queue", queue]);
        findings.add(Severity::Warning, "letters-expire", queue, finding, fix);
    }
}

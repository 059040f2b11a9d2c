//! Orders that are forgotten, and letters that expire soon: as far as the list of waiting letters has them, since SQS tells
//! the age of none that was received [three times](
//! https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Setup, Waiting};
use crate::text::{brief, count, utc, word};
use sns_redrive::policy::OrderAction;

/// The age from which an order without an end may be one that somebody forgot, and the time in which letters expire that
/// somebody should look at.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// What tells of those that nothing here can tell of.
const ALARM: &str = "ExpiryNearAlarm calls for those that the function receives.";

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    let name = setup.function.name.as_str();
    if let Some(orders) = &setup.orders
        && let Some(orders) = findings.told("orders", name, "what is ordered", orders)
    {
        let in_force = orders.iter().filter(|order| order.is_in_force(setup.now));
        for order in in_force.filter(|order| order.action != OrderAction::Retry) {
            let age = setup.now.duration_since(order.at);
            let (is_endless, is_old) = (order.end().is_none(), age > DAY);
            if !(is_endless || is_old) {
                continue;
            }
            let until = order
                .end()
                .map_or("until it is released".to_owned(), |end| format!("until {} UTC", utc(end)));
            let finding = format!(
                "An order to {} of {} ago is in force {until}, by {}: {}.",
                order.action.name(),
                brief(age.unsigned_abs().as_secs()),
                order.by,
                order.why
            );
            let severity = if is_old { Severity::Warning } else { Severity::Note };
            let about = format!("the order {}", order.id);
            findings.add(
                severity,
                "order-forgotten",
                &about,
                finding,
                format!("redrivectl release {}", word(&order.id)),
            );
        }
    }
    let Some(waiting) = &setup.waiting else { return without_list(setup, findings) };
    if let Some(waiting) = findings.told("waiting", name, "which letters wait", waiting) {
        expiring(setup, waiting, findings);
        unlisted(setup, waiting, findings);
    }
}

/// Letters where there is no list, or where nobody knows of one.
fn without_list(setup: &Setup, findings: &mut Findings) {
    let (why, mend) = match setup.function.settings() {
        Some(_) => (
            "the function keeps no list of waiting letters",
            "the stack's parameters Orders and WaitingList, both on",
        ),
        None => ("whether the function lists waiting letters is not known, as its settings are not", ""),
    };
    let finding = format!("Nobody can say whether letters expire within a day: {why}. {ALARM}");
    findings.add(Severity::CannotTell, "letters-expire", &setup.function.name, finding, mend);
}

/// Letters that are on no list.
fn unlisted(setup: &Setup, waiting: &[Waiting], findings: &mut Findings) {
    for queue in setup.queues.iter().chain(&setup.requeue) {
        let listed = waiting.iter().filter(|letter| letter.queue == queue.arn.as_str()).count() as u64;
        let others = queue.letters().saturating_sub(listed);
        if others > 0 {
            let finding = format!(
                "Nobody can say when about {} in it {}: the list of waiting letters has only those that are hidden for more \
                 than two minutes. {ALARM} Where no mapping takes the others, look at how many are visible and for how long.",
                count(others, "letter"),
                if others == 1 { "expires" } else { "expire" },
            );
            let url = queue.arn.queue_url();
            let mend = format!("aws sqs get-queue-attributes --queue-url {url} --attribute-names All");
            findings.add(Severity::CannotTell, "letters-expire", queue.arn.resource(), finding, mend);
        }
    }
}

/// Letters that their queue does not keep for another day.
fn expiring(setup: &Setup, waiting: &[Waiting], findings: &mut Findings) {
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
        // A queue that keeps nothing for longer has nothing else.
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
            "Nobody can say when {} on the list of waiting letters {}: how long this queue keeps letters is not known.",
            count(letters, "letter"),
            if letters == 1 { "expires" } else { "expire" }
        );
        let name = queue.rsplit(':').next().unwrap_or(queue);
        findings.add(Severity::CannotTell, "letters-expire", name, finding, "");
    }
    for ((queue, target), (letters, first)) in soon {
        let finding = format!(
            "{} for {target} {} within a day, the first at {} UTC. The function archives them before. Retry them now, or \
             replay them later.",
            count(letters, "letter"),
            if letters == 1 { "expires" } else { "expire" },
            utc(first)
        );
        let mend = format!("redrivectl waiting --queue {queue}");
        findings.add(Severity::Warning, "letters-expire", queue, finding, mend);
    }
}

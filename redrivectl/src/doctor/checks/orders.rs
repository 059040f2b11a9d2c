//! Orders that are forgotten, and letters that expire soon.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Setup, Waiting};
use crate::text::{brief, count, utc};
use sns_redrive::policy::OrderAction;

/// The age from which an order without an end may be one that somebody forgot, and the time in which letters expire that
/// somebody should look at.
const DAY: SignedDuration = SignedDuration::from_hours(24);

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
                format!("redrivectl release {}", order.id),
            );
        }
    }
    if let Some(waiting) = &setup.waiting
        && let Some(waiting) = findings.told("waiting", name, "which letters wait", waiting)
    {
        expiring(setup, waiting, findings);
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
            "{} for {target} {} within a day, the first at {} UTC. The function archives them before.",
            count(letters, "letter"),
            if letters == 1 { "expires" } else { "expire" },
            utc(first)
        );
        let mend = "redrivectl waiting, redrivectl retry; later redrivectl replay";
        findings.add(Severity::Warning, "letters-expire", queue, finding, mend);
    }
}

//! Letters near the end of their queue's retention.
//!
//! Whatever kept a letter from its attempt, its queue drops it at the end. So a letter that stays, and would not be
//! seen again before the margin begins, is archived in this very invocation, with all others in one request.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::action::QueueAttributes;
use super::case::{Case, Disposition};
use crate::policy::{ArchiveReason, expiry_margin, is_kept, plus};

/// How long after the invocation's end a letter shows again that was hidden for the invocation only, seconds: its answer
/// takes a moment, and clocks differ.
const AFTER_THE_END: u64 = 10;

/// `VisibilityTimeout` of a queue that nobody has changed.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
const DEFAULT_VISIBILITY_TIMEOUT: u64 = 30;

/// The seconds for which letters show no more while their invocation runs, by their queue.
pub(super) fn visibility_timeout(attributes: QueueAttributes) -> u64 {
    attributes.visibility_timeout.unwrap_or(DEFAULT_VISIBILITY_TIMEOUT)
}

/// The letters to hide for this invocation only, and for how many seconds: those near their end that their queue would
/// hide until it is too late. Whatever then happens to the invocation, they come back in time.
pub(super) fn near_their_end(
    cases: &[Case<'_>],
    timeout: u64,
    left: Duration,
    now: Timestamp,
) -> (Vec<usize>, u64) {
    let run = left.as_secs() + u64::from(left.subsec_nanos() > 0) + AFTER_THE_END;
    if timeout <= run {
        return (Vec::new(), run);
    }
    let near = |case: &Case<'_>| {
        let half = expiry_margin(case.facts.retention) / 2;
        plus(now, timeout.saturating_add(half)) > case.end()
    };
    (cases.iter().enumerate().filter(|(_, case)| near(case)).map(|(index, _)| index).collect(), run)
}

/// Archives what would stay untouched and would not be seen again in time.
pub(super) fn archive_what_ends(cases: &mut [Case<'_>], now: Timestamp) {
    let heads = heads(cases, now);
    for case in cases {
        let (shows_in, why) = match case.disposition {
            Disposition::Held => {
                let head = case.fifo_group().and_then(|group| heads.get(group));
                (head.copied().unwrap_or(0), "was held behind another of its group")
            }
            Disposition::OutOfTime => (case.hiding(now).unwrap_or(case.shows_in), "was not begun in time"),
            _ => continue,
        };
        if !is_kept(case.letter.kept_since(), case.facts.retention, plus(now, shows_in)) {
            let detail = case.detail.take().unwrap_or_else(|| why.to_owned());
            case.archive(ArchiveReason::Expiring, Some(detail));
        }
    }
}

/// In how many seconds the head of each FIFO group shows again, and its group with it.
fn heads(cases: &[Case<'_>], now: Timestamp) -> HashMap<String, u64> {
    let mut heads = HashMap::new();
    for case in cases {
        let shows_in = match &case.disposition {
            Disposition::Defer(_) | Disposition::OutOfTime => case.hiding(now).unwrap_or(case.shows_in),
            _ => continue,
        };
        if let Some(group) = case.fifo_group() {
            heads.entry(group.to_owned()).or_insert(shows_in);
        }
    }
    heads
}

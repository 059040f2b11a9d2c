//! Letters near the end of their queue's retention.
//!
//! A queue drops a letter at the end of its retention, whatever kept the letter from its attempt. So a letter
//! that stays, and would not be received again before the margin begins, is archived in this invocation,
//! together with all others in one request.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::action::QueueAttributes;
use super::pending_letter::{Disposition, PendingLetter};
use crate::policy::{ArchiveReason, Retention, expiry_margin, is_kept, plus};

/// The seconds after the invocation's end at which a letter becomes visible again that was hidden for the
/// invocation only: its answer takes a moment, and clocks differ.
const VISIBLE_AFTER_END: u64 = 10;

/// The `VisibilityTimeout` of a queue by default, in seconds.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
const DEFAULT_VISIBILITY_TIMEOUT: u64 = 30;

/// Returns the seconds for which letters are hidden while their invocation runs, by their queue.
pub(super) fn visibility_timeout(attributes: &QueueAttributes) -> u64 {
    attributes.visibility_timeout.unwrap_or(DEFAULT_VISIBILITY_TIMEOUT)
}

/// Returns the letters to hide for this invocation only, and the seconds to hide them: the letters near their
/// end that their queue would hide until it is too late. They come back in time whatever happens to the
/// invocation.
pub(super) fn near_their_end(
    cases: &[PendingLetter<'_>],
    timeout: u64,
    left: Duration,
    now: Timestamp,
) -> (Vec<usize>, u64) {
    let run = left.as_secs() + u64::from(left.subsec_nanos() > 0) + VISIBLE_AFTER_END;
    if timeout <= run {
        return (Vec::new(), run);
    }
    let near = |case: &PendingLetter<'_>| {
        let Retention::Known(retention) = case.facts.retention else { return false };
        let half = expiry_margin(retention) / 2;
        plus(now, timeout.saturating_add(half)) > plus(case.letter.kept_since(), retention)
    };
    (cases.iter().enumerate().filter(|(_, case)| near(case)).map(|(index, _)| index).collect(), run)
}

/// Archives the letters that would stay untouched and would not be received again in time. By a retention
/// that is only assumed, none is archived that is held, or that waits behind one that is.
pub(super) fn archive_what_ends(cases: &mut [PendingLetter<'_>], now: Timestamp) {
    let heads = heads(cases, now);
    for case in cases {
        let (shows_in, is_held, why) = match case.disposition {
            Disposition::Held => {
                let head = case.fifo_group().and_then(|group| heads.get(group));
                let (shows_in, is_held) = head.copied().unwrap_or((0, false));
                (shows_in, is_held, "the letter waited behind another letter of its message group")
            }
            Disposition::OutOfTime => {
                (case.hiding(now).unwrap_or(case.shows_in), false, "no time was left for it")
            }
            _ => continue,
        };
        let retention = case.facts.retention.for_archiving(is_held || case.may_be_held());
        let shows = plus(now, shows_in);
        if retention.is_some_and(|retention| !is_kept(case.letter.kept_since(), retention, shows)) {
            let detail = case.detail.take().unwrap_or_else(|| why.to_owned());
            case.archive(ArchiveReason::Expiring, Some(detail));
        }
    }
}

/// Returns the seconds until the head of each FIFO group becomes visible again, and its group with it, and
/// whether that head is held.
fn heads(cases: &[PendingLetter<'_>], now: Timestamp) -> HashMap<String, (u64, bool)> {
    let mut heads = HashMap::new();
    for case in cases {
        let is_held = match &case.disposition {
            Disposition::Defer(deferral) => deferral.why.is_held(),
            Disposition::OutOfTime => false,
            _ => continue,
        };
        if let Some(group) = case.fifo_group() {
            let shows_in = case.hiding(now).unwrap_or(case.shows_in);
            heads.entry(group.to_owned()).or_insert((shows_in, is_held));
        }
    }
    heads
}

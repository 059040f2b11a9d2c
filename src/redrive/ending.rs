//! What is done for letters near the end of their queue's retention.
//!
//! Whatever kept a letter from its attempt, its queue drops it at the end. So a letter that stays, and would not be
//! seen again before the margin begins, is archived in this very invocation, with all others in one request.

use std::collections::HashMap;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Redrive;
use super::case::{Case, Disposition};
use super::queues::QueueAttributes;
use crate::arn::Arn;
use crate::policy::{ArchiveReason, expiry_margin, is_kept, plus, seconds_until};
use crate::settings::Mode;
use crate::visibility::{Hiding, hide};

/// How long after the invocation's end a letter shows again that was hidden for the invocation only, seconds: its answer
/// takes a moment, and clocks differ.
const AFTER_THE_END: u64 = 10;

/// `VisibilityTimeout` of a queue that nobody has changed.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
const DEFAULT_VISIBILITY_TIMEOUT: u64 = 30;

impl Redrive {
    /// Hides letters near their end for this invocation only, where their queue would hide them until it is too late.
    /// Whatever then happens to the invocation, they come back in time.
    pub(super) async fn hide_for_invocation(
        &self,
        cases: &mut [Case<'_>],
        queue: &Arn,
        attributes: QueueAttributes,
        deadline: Instant,
        until: Instant,
    ) {
        let timeout = attributes.visibility_timeout.unwrap_or(DEFAULT_VISIBILITY_TIMEOUT);
        for case in cases.iter_mut() {
            case.shows_in = timeout;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let run = left.as_secs() + u64::from(left.subsec_nanos() > 0) + AFTER_THE_END;
        if self.mode == Mode::Observe || timeout <= run {
            return;
        }
        let now = self.clock.now();
        let near: Vec<usize> = cases
            .iter()
            .enumerate()
            .filter(|(_, case)| {
                let half = expiry_margin(case.facts.retention) / 2;
                plus(now, timeout.saturating_add(half)) > case.end()
            })
            .map(|(index, _)| index)
            .collect();
        let hiding =
            |index: &usize| Hiding { receipt_handle: &cases[*index].letter.sqs.receipt_handle, seconds: run };
        let hidings: Vec<_> = near.iter().map(hiding).collect();
        let answers = hide(&self.sqs, queue, &hidings, until).await;
        for (index, _) in near.into_iter().zip(answers).filter(|(_, answer)| answer.is_ok()) {
            cases[index].shows_in = run;
        }
    }

    /// Archives what would stay untouched and would not be seen again in time.
    pub(super) fn archive_what_ends(&self, cases: &mut [Case<'_>]) {
        if self.mode == Mode::Observe {
            return;
        }
        let now = self.clock.now();
        let heads = heads(cases, now);
        for case in cases {
            let (shows_in, why) = match case.disposition {
                Disposition::Held => {
                    let head = case.fifo_group().and_then(|group| heads.get(group));
                    (head.copied().unwrap_or(0), "was held behind another of its group")
                }
                Disposition::OutOfTime => (case.shows_in, "was not begun in time"),
                _ => continue,
            };
            if !is_kept(case.letter.kept_since(), case.facts.retention, plus(now, shows_in)) {
                let detail = case.detail.take().unwrap_or_else(|| why.to_owned());
                case.archive(ArchiveReason::Expiring, Some(detail));
            }
        }
    }
}

/// In how many seconds the head of each FIFO group shows again, and its group with it.
fn heads(cases: &[Case<'_>], now: Timestamp) -> HashMap<String, u64> {
    let mut heads = HashMap::new();
    for case in cases {
        let shows_in = match &case.disposition {
            Disposition::Defer(deferral) => seconds_until(now, plus(case.decided, deferral.hide)),
            Disposition::OutOfTime => case.shows_in,
            _ => continue,
        };
        if let Some(group) = case.fifo_group() {
            heads.entry(group.to_owned()).or_insert(shows_in);
        }
    }
    heads
}

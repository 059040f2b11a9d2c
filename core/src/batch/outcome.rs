//! What became of a letter, and what Lambda is told about it.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::SqsBatchResponse;

use crate::endpoint::Endpoint;
use crate::failure::{Failure, FailureClass};
use crate::letter::Letter;
use crate::policy::{ArchiveReason, Decision, DeferReason, Deferral, Retry};

/// What became of a letter. Every letter of a batch ends in exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its target has taken it.
    Delivered,
    /// The archive has it.
    Archived(ArchiveReason),
    /// The requeue has it, and shows it in `hide` seconds.
    Requeued(Deferral),
    /// It stays in the queue, hidden until its next retry.
    Deferred(Deferral),
    /// It stays in the queue, behind another of its FIFO group.
    Held,
    /// It stays in the queue as it was.
    Failed(NotDone),
    /// It stays in the queue untouched; this is what would have been done.
    Observed(Decision),
}

/// Why nothing could be done with a letter that now stays in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDone {
    /// The archive did not take it.
    Archive,
    /// It could not be hidden; the queue's own visibility timeout applies.
    Hide,
    /// The invocation's time was over.
    OutOfTime,
}

/// A letter with its outcome and how it came about.
#[derive(Debug, Clone)]
pub struct Report {
    /// The letter.
    pub letter: Arc<Letter>,
    /// The rule it fell under.
    pub rule: String,
    /// The order that it was handled on, if it was.
    pub order: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// The retry that was made, if one was.
    pub retry: Option<Retry>,
    /// How long that attempt took, where it was sent at all.
    pub took: Option<Duration>,
    /// Where it was to go, as far as that was worked out.
    pub target: Option<Endpoint>,
    /// What went wrong with the delivery, where something did.
    pub failure: Option<Failure>,
    /// What went wrong with the archive or with hiding.
    pub undone: Option<Failure>,
    /// More about it, in words.
    pub detail: Option<String>,
    /// For how many seconds it is hidden, where the archive did not take it.
    pub hidden: Option<u64>,
    /// Whether this is its first receive, and it was never sent by us.
    pub arrived: bool,
    /// Seconds until its queue drops it.
    pub expires_in: i64,
}

impl Report {
    /// Whether the archive refused the letter for good, so that it is lost unless somebody acts.
    #[must_use]
    pub fn is_refused_by_archive(&self) -> bool {
        let permanent = |failure: &Failure| failure.class == FailureClass::Permanent;
        self.outcome == Outcome::Failed(NotDone::Archive) && self.undone.as_ref().is_some_and(permanent)
    }
}

impl Outcome {
    /// The name in logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Archived(_) => "archived",
            Self::Requeued(_) => "requeued",
            Self::Deferred(_) => "deferred",
            Self::Held => "held",
            Self::Failed(_) => "failed",
            Self::Observed(_) => "observed",
        }
    }

    /// Whether its attempt was left out because its target is down.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        match self {
            Self::Deferred(deferral) | Self::Requeued(deferral) => deferral.why == DeferReason::EndpointDown,
            _ => false,
        }
    }

    /// Whether the letter is safe elsewhere, so that Lambda may delete its message.
    #[must_use]
    pub fn leaves_queue(&self) -> bool {
        match self {
            Self::Delivered | Self::Archived(_) | Self::Requeued(_) => true,
            Self::Deferred(_) | Self::Held | Self::Failed(_) | Self::Observed(_) => false,
        }
    }
}

impl NotDone {
    /// The name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Hide => "hide",
            Self::OutOfTime => "out_of_time",
        }
    }
}

/// Lambda's answer: every message that is not safe elsewhere is reported as failed, so that Lambda
/// leaves it, and the visibility that was set, alone. What is not in the list, Lambda deletes.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>
#[must_use]
pub fn response(reports: &[Report]) -> SqsBatchResponse {
    let mut response = SqsBatchResponse::default();
    for report in reports.iter().filter(|report| !report.outcome.leaves_queue()) {
        response.add_failure(report.letter.sqs.message_id.clone());
    }
    response
}

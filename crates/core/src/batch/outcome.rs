//! The outcome of a letter, and Lambda's answer about it.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::endpoint::TargetName;
use crate::failure::{Failure, FailureClass};
use crate::letter::{BadEvent, Letter};
use crate::policy::{ArchiveReason, Decision, DeferReason, Deferral, Retry};

/// The outcome of a letter. Every letter of a batch ends in exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its target has accepted it.
    Delivered,
    /// The archive has it.
    Archived(ArchiveReason),
    /// The requeue has it, and makes it visible in `hide` seconds.
    Requeued(Deferral),
    /// It stays in the queue, hidden until its next retry.
    Deferred(Deferral),
    /// It stays in the queue, behind another of its FIFO group.
    Held,
    /// It stays in the queue as it was, if it is still there.
    Failed(NotDone),
    /// It stays in the queue untouched. This is what would have been done.
    Observed(Decision),
}

/// The reason why nothing could be done with a letter that now stays in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDone {
    /// The archive did not accept it.
    Archive,
    /// It could not be hidden. The queue's own visibility timeout applies.
    Hide,
    /// Its receive was over before it was hidden: another copy of it was handled, or it has come back already.
    /// Nobody has to mend anything.
    ReceiveOver,
    /// The invocation's time was over.
    OutOfTime,
}

/// A letter with its outcome and how it came about.
#[derive(Debug, Clone)]
pub struct LetterReport {
    /// The letter.
    pub letter: Arc<Letter>,
    /// The rule it fell under.
    pub rule: String,
    /// The override that it was handled on, if it was.
    pub override_id: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// The retry that was made, if one was.
    pub retry: Option<Retry>,
    /// The time that the attempt took, if it was sent at all.
    pub took: Option<Duration>,
    /// The target, as far as it was determined.
    pub target: Option<TargetName>,
    /// The failure of the delivery, if there was one.
    pub failure: Option<Failure>,
    /// The failure of archiving or hiding.
    pub undone: Option<Failure>,
    /// Details, in words.
    pub detail: Option<String>,
    /// The seconds for which it is hidden, if the archive did not accept it.
    pub hidden: Option<u64>,
    /// True if this is its first receive and we never sent it.
    pub arrived: bool,
    /// The seconds until its queue drops it, if that is known.
    pub expires_in: Option<i64>,
}

impl LetterReport {
    /// Reports whether the archive refused the letter permanently, so that it is lost unless an operator
    /// acts.
    #[must_use]
    pub fn is_refused_by_archive(&self) -> bool {
        let permanent = |failure: &Failure| failure.class == FailureClass::Permanent;
        self.outcome == Outcome::Failed(NotDone::Archive) && self.undone.as_ref().is_some_and(permanent)
    }
}

impl Outcome {
    /// Returns the name in logs.
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

    /// Reports whether its attempt was left out because its target is down.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        match self {
            Self::Deferred(deferral) | Self::Requeued(deferral) => deferral.why == DeferReason::EndpointDown,
            _ => false,
        }
    }

    /// Reports whether the letter lies in its queue, as far as is known.
    #[must_use]
    pub fn is_in_queue(&self) -> bool {
        !self.leaves_queue() && *self != Self::Failed(NotDone::ReceiveOver)
    }

    /// Reports whether the letter is safe elsewhere, so that Lambda may delete its message.
    #[must_use]
    pub fn leaves_queue(&self) -> bool {
        match self {
            Self::Delivered | Self::Archived(_) | Self::Requeued(_) => true,
            Self::Deferred(_) | Self::Held | Self::Failed(_) | Self::Observed(_) => false,
        }
    }
}

impl NotDone {
    /// Returns the name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Hide => "hide",
            Self::ReceiveOver => "receive_over",
            Self::OutOfTime => "out_of_time",
        }
    }
}

/// The answer to Lambda, with the messages that it leaves in their queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SqsBatchResponse {
    /// The messages.
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// One message of Lambda's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItemFailure {
    /// The id that SQS gave it.
    pub item_identifier: String,
}

/// Returns Lambda's answer. It reports every message that is not safe elsewhere as failed, so that Lambda
/// changes neither the message nor its visibility. Lambda deletes every message that is not in the list.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>
///
/// # Errors
///
/// [`BadEvent::Unanswerable`] if a message that stays has no id. Only a failure of the whole batch keeps it.
pub fn response(reports: &[LetterReport]) -> Result<SqsBatchResponse, BadEvent> {
    let stay = reports.iter().filter(|report| !report.outcome.leaves_queue());
    let item = |report: &LetterReport| match &report.letter.sqs.unread {
        Some(unread) if !unread.named => Err(BadEvent::Unanswerable(unread.problem.clone())),
        _ => Ok(BatchItemFailure { item_identifier: report.letter.sqs.message_id.clone() }),
    };
    Ok(SqsBatchResponse { batch_item_failures: stay.map(item).collect::<Result<_, _>>()? })
}

//! The log line of a letter and its outcome.

use jiff::Timestamp;
use redrive_core::arn::Arn;
use redrive_core::batch::{LetterReport, NotDone, Outcome};
use redrive_core::endpoint::TargetName;
use redrive_core::letter::OriginClaim;
use redrive_core::policy::{Decision, Deferral, Retry};
use tracing::Level;

/// The part of a line that the outcome adds.
#[derive(Default)]
struct OutcomeFields {
    reason: Option<&'static str>,
    delay_s: Option<u64>,
    due: Option<Timestamp>,
    /// The action that would have been taken, in observe mode.
    decision: Option<&'static str>,
}

/// Logs a letter's outcome.
pub fn letter(report: &LetterReport) {
    macro_rules! line {
        ($level:expr) => {{
            let letter = &report.letter;
            let ending = OutcomeFields::of(&report.outcome);
            let retry = report.retry.or(planned(&report.outcome));
            let failure = report.failure.as_ref();
            let target = report.target.as_ref();
            let undone = report.undone.as_ref();
            let message = said(report.outcome.name(), &ending);
            tracing::event!(
                $level,
                outcome = report.outcome.name(),
                decision = ending.decision,
                reason = ending.reason,
                detail = report.detail.as_deref(),
                letter.id = letter.id.as_str(),
                letter.origin = letter.origin.name(),
                letter.unlisted_origin = letter.unlisted.map(OriginClaim::name),
                sqs.message_id = letter.sqs.message_id,
                sqs.receive_count = letter.sqs.receive_count,
                queue.arn = letter.sqs.queue.as_str(),
                topic.arn = letter.topic().map(Arn::as_str),
                subscription.arn = letter.subscription().map(Arn::as_str),
                target.arn = target.filter(|target| !target.is_url()).map(TargetName::as_str),
                target.url = target.filter(|target| target.is_url()).map(TargetName::as_str),
                rule = Some(report.rule.as_str()).filter(|rule| !rule.is_empty()),
                retry.number = retry.map(|retry| retry.number),
                retry.of = retry.map(|retry| retry.of),
                retry.phase = retry.map(|retry| retry.phase.name()),
                retry.early = retry.filter(Retry::is_early).map(|_| true),
                override.id = report.override_id.as_deref(),
                attempt_ms = report.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
                delay_s = ending.delay_s.or(report.hidden),
                due = ending.due.map(tracing::field::display),
                cause.code = letter.cause.as_ref().and_then(|cause| cause.code.as_deref()),
                error.code = failure.map(|failure| failure.code.as_str()),
                error.class = failure.map(|failure| failure.class.name()),
                error.message = failure.and_then(|failure| failure.message.as_deref()),
                undone.code = undone.map(|failure| failure.code.as_str()),
                undone.class = undone.map(|failure| failure.class.name()),
                undone.message = undone.and_then(|failure| failure.message.as_deref()),
                "{message}"
            );
        }};
    }
    match report.outcome {
        Outcome::Archived(_) => line!(Level::WARN),
        Outcome::Failed(NotDone::Archive | NotDone::Hide | NotDone::OutOfTime) => line!(Level::ERROR),
        Outcome::Failed(NotDone::ReceiveOver)
        | Outcome::Delivered
        | Outcome::Requeued(_)
        | Outcome::Deferred(_)
        | Outcome::Held
        | Outcome::Observed(_) => {
            line!(Level::INFO);
        }
    }
}

/// Returns the text of the line, which tells the outcomes apart: `letter archived: exhausted`.
fn said(outcome: &str, ending: &OutcomeFields) -> String {
    match ending.decision.or(ending.reason) {
        Some(more) => format!("letter {outcome}: {more}"),
        None => format!("letter {outcome}"),
    }
}

/// Returns the retry that would have been made, in observe mode.
fn planned(outcome: &Outcome) -> Option<redrive_core::policy::Retry> {
    match outcome {
        Outcome::Observed(Decision::Deliver(retry)) => Some(*retry),
        _ => None,
    }
}

impl OutcomeFields {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Delivered | Outcome::Held => Self::default(),
            Outcome::Archived(reason) => Self { reason: Some(reason.name()), ..Self::default() },
            Outcome::Deferred(deferral) | Outcome::Requeued(deferral) => Self::deferred(deferral),
            Outcome::Failed(what) => Self { reason: Some(what.name()), ..Self::default() },
            Outcome::Observed(Decision::Deliver(_)) => Self { decision: Some("deliver"), ..Self::default() },
            Outcome::Observed(Decision::Defer(deferral)) => {
                Self { decision: Some("defer"), ..Self::deferred(deferral) }
            }
            Outcome::Observed(Decision::Archive(reason, _)) => {
                Self { decision: Some("archive"), reason: Some(reason.name()), ..Self::default() }
            }
        }
    }

    fn deferred(deferral: &Deferral) -> Self {
        Self {
            reason: Some(deferral.why.name()),
            delay_s: Some(deferral.hide),
            due: Some(deferral.due),
            decision: None,
        }
    }
}

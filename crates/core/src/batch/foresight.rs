//! What becomes of a letter, as far as it can be known without asking anybody and without an attempt.
//!
//! Observe mode and the operator's tool say it in advance. A subscription, a signature and the size that a
//! target takes show only when they are asked for, so what is not known is said too.

use std::collections::HashMap;

use super::action::CannotPack;
use super::resolve::{RouteResolution, resolve};
use crate::arn::Arn;
use crate::endpoint::{Destination, Endpoint};
use crate::letter::{Letter, MAX_ATTRIBUTES};
use crate::policy::{ArchiveReason, Decision, OverrideAnswer, Verdict};

/// What becomes of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterForecast {
    /// The decision.
    pub decision: Decision,
    /// The details of its reason, in words.
    pub detail: Option<String>,
    /// True if only SNS's word on the letter's subscription shows whether the letter may go.
    pub asks_sns: bool,
    /// True if only its signature shows that.
    pub asks_signature: bool,
}

impl LetterForecast {
    fn of(decision: Decision, detail: Option<String>) -> Self {
        Self { decision, detail, asks_sns: false, asks_signature: false }
    }

    /// Returns what is not known, in words.
    #[must_use]
    pub fn unknown(&self) -> Option<&'static str> {
        match (self.asks_sns, self.asks_signature) {
            (false, false) => None,
            (true, false) => Some("not known before an attempt: whether SNS confirms its subscription"),
            (false, true) => Some("not known before an attempt: whether SNS signed it"),
            (true, true) => {
                Some("not known before an attempt: whether SNS confirms its subscription, and signed it")
            }
        }
    }
}

/// Says what becomes of a letter under this verdict and these overrides. `requeue` is the function's own.
#[must_use]
pub fn foresee(
    verdict: &Verdict<'_>,
    letter: &Letter,
    overridden: &OverrideAnswer,
    requeue: Option<&Arn>,
) -> LetterForecast {
    let archived = |reason, detail| LetterForecast::of(Decision::Archive(reason, None), Some(detail));
    // A letter that cannot be read is archived, but not while an override holds it.
    if let Some(unread) = letter.sqs.unread.as_ref().filter(|_| !verdict.is_kept_back(overridden)) {
        return archived(ArchiveReason::Unrecognised, unread.problem.clone());
    }
    match &verdict.decision {
        Decision::Defer(_) => LetterForecast::of(verdict.decision.clone(), None),
        Decision::Archive(_, detail) => {
            LetterForecast::of(verdict.decision.clone(), detail.map(str::to_owned))
        }
        Decision::Deliver(_) => match resolve(verdict, letter, requeue, &HashMap::new()) {
            RouteResolution::Archive(reason, detail) => archived(reason, detail),
            RouteResolution::Send(to) if is_full(letter, &to) => {
                archived(ArchiveReason::Unmarkable, CannotPack::Unmarkable.to_string())
            }
            resolution => LetterForecast {
                asks_sns: matches!(resolution, RouteResolution::Unknown(_)),
                asks_signature: verdict.rule.verify_signature,
                ..LetterForecast::of(verdict.decision.clone(), None)
            },
        },
    }
}

/// Reports whether the mark would be the letter's eleventh attribute. A letter goes without it only to its
/// subscription's queue.
fn is_full(letter: &Letter, to: &Destination) -> bool {
    let to_topic = match to.endpoint {
        Endpoint::Topic(_) => true,
        Endpoint::Queue(_) => false,
        Endpoint::Function(_) | Endpoint::Stream(_) | Endpoint::Http(_) => return false,
    };
    letter.carried_attributes(to_topic).count() >= MAX_ATTRIBUTES
}

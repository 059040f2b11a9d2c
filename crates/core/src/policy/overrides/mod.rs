//! Overrides: an operator's instructions about letters, which take precedence over the rules while the function
//! runs.
//!
//! Overrides stand in one JSON document, which the function reads now and then:
//!
//! ```json
//! {
//!   "version": 1,
//!   "overrides": [
//!     {
//!       "id": "20261122T101500Z-7f3a",
//!       "do": "hold",
//!       "match": { "topicArn": [{ "suffix": ":payments" }] },
//!       "arrivedBefore": "2026-11-22T10:15:00Z",
//!       "at": "2026-11-22T10:15:00Z",
//!       "until": "2026-11-22T12:00:00Z",
//!       "by": "arn:aws:sts::123456789012:assumed-role/operator/ada",
//!       "why": "the warehouse's database is down"
//!     }
//!   ]
//! }
//! ```
//!
//! `match` is a pattern as in rules, which can ask for the target too. `arrivedBefore`, `arrivedAfter` and `until` may be
//! left out. The first override that matches a letter and is in force counts.

mod document;
mod override_reach;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::fields::DocumentFault;
use super::letter_target::LetterTarget;
use super::matcher::{LetterView, Matcher};
use crate::letter::Letter;

pub use override_reach::{OverrideReach, ReachAnswer};

/// The version of the document that this code reads and writes.
pub const OVERRIDES_VERSION: u64 = 1;

/// The largest document that is read, in bytes.
pub const MAX_OVERRIDES_BYTES: usize = 256 * 1024;

/// The largest number of overrides in a document. Each is matched against each letter that it may be about.
pub const MAX_OVERRIDES: usize = 100;

/// The time for which an override to retry is in force if it does not name its end.
pub const RETRY_IN_FORCE: SignedDuration = SignedDuration::from_mins(15);

/// The overrides of a document, in their order.
#[derive(Debug, Default)]
pub struct Overrides {
    overrides: Vec<Override>,
    /// The pattern of each override.
    matchers: Vec<Matcher>,
}

/// An operator's instruction about the letters that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// Its id, unique within the document.
    pub id: String,
    /// The action on the letters.
    #[serde(rename = "do")]
    pub action: OverrideAction,
    /// The pattern over letters, as in rules, and over their targets.
    #[serde(rename = "match")]
    pub pattern: Value,
    /// If set, the override is about letters that arrived before this time only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_before: Option<Timestamp>,
    /// If set, the override is about letters that arrived at this time or later only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_after: Option<Timestamp>,
    /// The beginning of the override.
    pub at: Timestamp,
    /// The end of the override. Without it, an override to retry ends after [`RETRY_IN_FORCE`], any other when it
    /// is taken out of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The operator who gave it, as the writer claims.
    pub by: String,
    /// The reason.
    pub why: String,
}

/// The action of an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverrideAction {
    /// Makes no attempts.
    Hold,
    /// Makes an attempt at once for each letter that is received.
    Retry,
    /// Archives the letters, with the reason `given-up`.
    GiveUp,
}

/// Everything that is wrong with a document of overrides.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BadOverrides(pub Vec<DocumentFault>);

impl OverrideAction {
    /// Every action, in the order of the docs.
    pub const ALL: [Self; 3] = [Self::Hold, Self::Retry, Self::GiveUp];

    /// Returns the name in documents and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Retry => "retry",
            Self::GiveUp => "give-up",
        }
    }
}

impl Override {
    /// Returns the end of the override, if it has one.
    #[must_use]
    pub fn end(&self) -> Option<Timestamp> {
        let after_a_while = || self.at.saturating_add(RETRY_IN_FORCE).unwrap_or(Timestamp::MAX);
        self.until.or_else(|| (self.action == OverrideAction::Retry).then(after_a_while))
    }

    /// Reports whether the override has ended by then.
    #[must_use]
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.end().is_some_and(|end| end <= now)
    }

    /// Reports whether the override counts at a time.
    #[must_use]
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.at <= now && !self.has_ended(now)
    }

    /// Reports whether the override is about letters that arrived then.
    fn is_about(&self, arrived: Timestamp) -> bool {
        self.arrived_before.is_none_or(|before| arrived < before)
            && self.arrived_after.is_none_or(|after| arrived >= after)
    }

    /// Reports whether a letter was sent by an override to retry and came back since this override began. Without
    /// this check it would be sent again and again without a pause.
    fn is_carried_out(&self, letter: &Letter) -> bool {
        self.action == OverrideAction::Retry && letter.came_back_early().is_some_and(|back| back >= self.at)
    }
}

/// The answer of the overrides about one letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OverrideAnswer {
    /// The overrides say nothing, so its rule decides.
    #[default]
    Nothing,
    /// Unknown, because the overrides were never read.
    Unread,
    /// This override to hold may be about it: that takes a look-up to know which was not made.
    MayHold(Box<Override>),
    /// This override takes precedence over its rule.
    By(Box<Override>),
}

impl OverrideAnswer {
    /// Returns the override, if there is one.
    #[must_use]
    pub fn by(&self) -> Option<&Override> {
        match self {
            Self::By(override_) => Some(override_),
            Self::Nothing | Self::Unread | Self::MayHold(_) => None,
        }
    }

    /// Returns the action of the override, if there is one.
    #[must_use]
    pub fn action(&self) -> Option<OverrideAction> {
        self.by().map(|override_| override_.action)
    }
}

impl Overrides {
    /// Returns the overrides, in their order.
    #[must_use]
    pub fn all(&self) -> &[Override] {
        &self.overrides
    }

    /// Reports whether one that is in force asks for a letter's target.
    #[must_use]
    pub fn ask_for_target(&self, now: Timestamp) -> bool {
        let mut all = self.overrides.iter().zip(&self.matchers);
        all.any(|(override_, matcher)| override_.is_in_force(now) && matcher.is_about_target())
    }

    /// Returns the answer of these overrides about a letter, if they were read just now.
    #[must_use]
    pub fn on(&self, letter: &Letter, target: &LetterTarget, now: Timestamp) -> OverrideAnswer {
        self.first(letter, target, now, |_| true)
    }

    /// Returns the first override that is in force and matches the letter, of those that `counts` accepts. An override to
    /// retry no longer applies to a letter that was sent on an override since it began: that letter keeps to its
    /// schedule. While the target is unknown, an override to hold that asks for it may be about the letter, and no other
    /// one is.
    #[must_use]
    pub fn first(
        &self,
        letter: &Letter,
        target: &LetterTarget,
        now: Timestamp,
        counts: impl Fn(&Override) -> bool,
    ) -> OverrideAnswer {
        let arrived = letter.first_arrival();
        let applies = |override_: &Override| {
            override_.is_in_force(now)
                && override_.is_about(arrived)
                && !override_.is_carried_out(letter)
                && counts(override_)
        };
        let all = self.overrides.iter().zip(&self.matchers).filter(|(override_, _)| applies(override_));
        let all: Vec<_> = all.collect();
        let message = all.iter().any(|(_, matcher)| matcher.is_about_message()).then(|| letter.message());
        let view = LetterView::of(letter, message.as_deref(), target);
        for (override_, matcher) in all {
            if matcher.matches(&view, false) {
                return OverrideAnswer::By(Box::new(override_.clone()));
            }
            if override_.action == OverrideAction::Hold && matcher.matches(&view, true) {
                return OverrideAnswer::MayHold(Box::new(override_.clone()));
            }
        }
        OverrideAnswer::Nothing
    }
}

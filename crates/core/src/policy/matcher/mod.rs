//! The search for the rule that a letter falls under: `EventBridge` patterns over a JSON view of the letter.
//!
//! The pattern language is the one that users know from SNS filter policies and `EventBridge` rules. A pattern is read
//! into a small tree (`compile`), and the tree is walked together with the letter (`pattern`). What takes the values of
//! a list is in `values`, what a field of a letter can hold at all in `kinds`.
//! Sources: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html>, and for what
//! that page leaves open <https://github.com/aws/event-ruler>, the matcher that AWS published.

mod address;
mod compile;
mod decimal;
mod draft;
mod json_view;
mod kinds;
mod pattern;
mod steps;
mod values;
mod view;
mod wildcard;

#[cfg(test)]
mod bounds;

use std::fmt;

use serde_json::Value;

use super::fields::FaultCollector;
use super::json::after_mark;
use super::letter_target::LetterTarget;
use crate::letter::Letter;
use kinds::FieldKind;
use pattern::Pattern;
use view::AssumingView;

pub(super) use compile::OR;
pub(super) use draft::TARGET;
pub(super) use json_view::MatchValue;
pub(super) use view::{FIELDS_OF_LINE, LetterView};

/// Reports whether a JSON text holds a number that is rounded when it is read into a [`Value`]. In a pattern the rounded
/// number would match something else.
#[must_use]
pub fn rounds_numbers(json: &str) -> bool {
    let json = after_mark(json);
    let both = MatchValue::read(json).zip(serde_json::from_str::<Value>(json).ok());
    both.is_some_and(|(written, value)| !written.is_kept_by(&MatchValue::from(&value)))
}

/// The patterns of rules, in the order of the rules.
#[derive(Default)]
pub(super) struct Matcher(Vec<(usize, Pattern)>);

impl Matcher {
    /// Adds the pattern of a rule. Faults are noted with their path, which begins with `path`.
    pub(super) fn add(&mut self, rule: usize, pattern: &MatchValue<'_>, faults: &FaultCollector, path: &str) {
        self.0.push((rule, compile::compile(pattern, FieldKind::Letter, faults, path)));
    }

    /// Returns the pattern of an override, which can ask for the target too.
    pub(super) fn of_override(pattern: &MatchValue<'_>, faults: &FaultCollector, path: &str) -> Self {
        Self(vec![(0, compile::compile(pattern, FieldKind::LetterAndTarget, faults, path))])
    }

    /// Returns the first rule whose pattern matches.
    pub(super) fn first(&self, letter: &Letter) -> Option<usize> {
        let message = self.is_about_message().then(|| letter.message());
        let view = LetterView::of(letter, message.as_deref(), &LetterTarget::Nowhere);
        let view = AssumingView { view: &view, unknown_fits: false };
        self.0.iter().find(|(_, pattern)| pattern.matches(&view)).map(|(rule, _)| *rule)
    }

    /// Reports whether a pattern matches a view, if what is unknown of it fits, or if that does not.
    pub(super) fn matches(&self, view: &LetterView<'_>, unknown_fits: bool) -> bool {
        let view = AssumingView { view, unknown_fits };
        self.0.iter().any(|(_, pattern)| pattern.matches(&view))
    }

    /// Reports whether a view must have the message.
    pub(super) fn is_about_message(&self) -> bool {
        self.0.iter().any(|(_, pattern)| pattern.is_about_message)
    }

    /// Reports whether a view must have the target.
    pub(super) fn is_about_target(&self) -> bool {
        self.0.iter().any(|(_, pattern)| pattern.is_about_target)
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matcher of {} patterns", self.0.len())
    }
}

//! The search for the rule that a letter falls under: `EventBridge` patterns over a JSON view of the letter.
//!
//! The pattern language is the one that users know from SNS filter policies and `EventBridge` rules; the
//! crate `quamina` compiles all patterns into one automaton, so many rules cost little more than one.
//! Source: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html>

mod steps;
mod view;

use std::fmt;

use quamina::{Quamina, QuaminaBuilder, QuaminaError};
use serde_json::{Value, json};

use crate::letter::Letter;
use steps::{Cost, Field, MAX_STEPS, MAX_STEPS_OF_ORDER, fields_of};
use view::{LAST, VIEW, rename};

pub use steps::MatchingSteps;
pub(super) use steps::StepsOfLetter;
pub(super) use view::View;

/// The largest size of the automaton of one field of an order's pattern, in bytes: a list of a thousand short
/// texts. The time for compiling grows with this size.
const MAX_ORDER_BYTES: usize = 1_000_000;

/// The largest number of states of an order's pattern. States multiply if several fields each name values of
/// several kinds.
const MAX_ORDER_STATES: usize = 100;

/// The owner of the patterns that are matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Of {
    /// A policy, whose patterns are compiled once in the life of an instance.
    #[default]
    Rules,
    /// One order, whose pattern is compiled while letters wait.
    Order,
}

/// Compiled patterns.
#[derive(Default)]
pub(super) struct Matcher {
    of: Of,
    patterns: Option<Quamina<usize>>,
    /// Each pattern by itself, with its rule. Together, `quamina` takes a text for another one that only one of
    /// several patterns takes for the same, as by `equals-ignore-case`.
    alone: Vec<(usize, Quamina<usize>)>,
    /// The paths of the fields that patterns name.
    paths: Vec<Vec<String>>,
    /// The fields of each pattern.
    fields: Vec<Vec<Field>>,
}

/// A letter that cannot be matched against the patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", Self::DETAIL)]
pub struct Unmatchable;

impl Unmatchable {
    /// The reason, in words.
    pub(super) const DETAIL: &str = "the letter's lists are too long to match them against a pattern";
}

impl Of {
    fn quamina(self) -> Result<Quamina<usize>, QuaminaError> {
        match self {
            Self::Rules => Ok(Quamina::new()),
            Self::Order => QuaminaBuilder::new()
                .with_arena_byte_budget(MAX_ORDER_BYTES)
                .with_max_states_per_pattern(MAX_ORDER_STATES)
                .build(),
        }
    }

    fn max_steps(self) -> usize {
        match self {
            Self::Rules => MAX_STEPS,
            Self::Order => MAX_STEPS_OF_ORDER,
        }
    }
}

impl Matcher {
    /// Creates a matcher without patterns.
    pub(super) fn new(of: Of) -> Self {
        Self { of, ..Self::default() }
    }

    /// Adds the pattern of a rule. An error says in words what is wrong with the pattern.
    pub(super) fn add(&mut self, rule: usize, pattern: &Value) -> Result<(), String> {
        let Some(fields) = pattern.as_object().filter(|fields| !fields.is_empty()) else {
            return Err("must be an object with at least one field".to_owned());
        };
        if let Some(unknown) = fields.keys().find(|key| !VIEW.contains(&key.as_str())) {
            return Err(format!("has no field {unknown:?}; fields of a letter are {}", VIEW.join(", ")));
        }
        if let Some(mistake) = mistake(pattern) {
            return Err(mistake.to_owned());
        }
        let bad = |error: QuaminaError| match error {
            QuaminaError::PatternTooComplex(why) => format!("is too large for a pattern: {why}"),
            error => format!("is not a pattern: {error}"),
        };
        let mut pattern = pattern.clone();
        rename(&mut pattern);
        let mut fields = fields_of(&pattern);
        // A field is matched before those whose paths follow, so only lists in earlier ones repeat its work.
        fields.sort_by_cached_key(|(path, _)| path.join("\n"));
        if let Some(fields) = pattern.as_object_mut() {
            fields.insert(LAST.to_owned(), json!([{ "exists": true }]));
        }
        let pattern = pattern.to_string();
        let mut patterns = self.patterns.take().map_or_else(|| self.of.quamina(), Ok).map_err(bad)?;
        let added = patterns.add_pattern(rule, &pattern);
        self.patterns = Some(patterns);
        added.map_err(bad)?;
        // An order's is alone in its matcher, and is compiled while letters wait.
        if self.of == Of::Rules {
            let mut alone = self.of.quamina().map_err(bad)?;
            alone.add_pattern(rule, &pattern).map_err(bad)?;
            self.alone.push((rule, alone));
        }
        let position = |(path, cost): (Vec<String>, Cost)| {
            let known = self.paths.iter().position(|known| *known == path);
            let path = known.unwrap_or_else(|| {
                self.paths.push(path);
                self.paths.len() - 1
            });
            Field { path, cost }
        };
        self.fields.push(fields.into_iter().map(position).collect());
        Ok(())
    }

    /// Returns the first rule whose pattern matches.
    pub(super) fn first(&self, letter: &Letter) -> Result<Option<usize>, Unmatchable> {
        Ok(self.matching_view(&View::of(letter, &[self]))?.into_iter().min())
    }

    /// Returns the first rule whose pattern matches, or `None` if too few steps are left.
    pub(super) fn first_within(
        &self,
        letter: &Letter,
        left: &mut MatchingSteps,
    ) -> Option<Result<Option<usize>, Unmatchable>> {
        let found = self.matching_within(&View::of(letter, &[self]), &mut left.of_letter())?;
        Some(found.map(|found| found.into_iter().min()))
    }

    /// Returns all rules whose pattern matches a view, or `None` if too few steps are left.
    pub(super) fn matching_within(
        &self,
        view: &View,
        left: &mut StepsOfLetter<'_>,
    ) -> Option<Result<Vec<usize>, Unmatchable>> {
        let steps = self.steps(view);
        let Some(most) = left.most.checked_sub(steps).filter(|_| steps <= self.of.max_steps()) else {
            return Some(Err(Unmatchable));
        };
        left.most = most;
        left.take(steps).then(|| self.matching(view))
    }

    /// Returns all rules whose pattern matches a view.
    pub(super) fn matching_view(&self, view: &View) -> Result<Vec<usize>, Unmatchable> {
        if self.steps(view) > self.of.max_steps() {
            return Err(Unmatchable);
        }
        self.matching(view)
    }

    /// Returns all rules whose pattern matches a view, however many steps that takes.
    fn matching(&self, view: &View) -> Result<Vec<usize>, Unmatchable> {
        let Some(patterns) = &self.patterns else { return Ok(Vec::new()) };
        let view = view.json.as_bytes();
        let mut found = patterns.matches_for_event(view).map_err(|_| Unmatchable)?;
        if !found.is_empty() && self.alone.len() > 1 {
            let alone = self.alone.iter().filter(|(rule, _)| found.contains(rule));
            let sure = alone.filter_map(|(rule, alone)| match alone.has_matches(view) {
                Ok(matches) => matches.then_some(Ok(*rule)),
                Err(_) => Some(Err(Unmatchable)),
            });
            found = sure.collect::<Result<_, _>>()?;
        }
        Ok(found)
    }

    /// Reports whether a pattern names a field. Most name no message, which may be large and would be parsed
    /// and written for nothing.
    fn names(&self, field: &str) -> bool {
        let mut named = self.paths.iter().filter_map(|path| path.first());
        named.any(|name| name == field)
    }
}

/// Finds a mistake that `EventBridge` refuses and the matcher would ignore: a rule that names no topic by
/// mistake would apply to all of them.
fn mistake(pattern: &Value) -> Option<&'static str> {
    match pattern {
        Value::Object(fields) if fields.is_empty() => Some("holds an empty object"),
        Value::Object(fields) => fields.values().find_map(mistake),
        Value::Array(values) if values.is_empty() => Some("holds an empty list"),
        // The matcher would look at one of them only.
        Value::Array(values) if values.len() > 1 && values.iter().any(|value| value.get("exists").is_some()) => {
            Some("holds exists beside others in a list: write a rule for each")
        }
        Value::Array(values) => values.iter().find_map(|value| match value {
            Value::Array(_) => Some("holds a list in a list"),
            Value::Object(operator) if operator.len() != 1 => {
                Some("holds an object in a list that is not exactly one operator, such as {\"prefix\": \"orders\"}")
            }
            Value::Object(operator) if ["regex", "shellstyle"].iter().any(|name| operator.contains_key(*name)) => {
                Some("holds an operator that is not supported: use regexp for regex, and wildcard for shellstyle")
            }
            Value::Object(operator) => {
                let empty = |values: &Value| values.as_array().is_some_and(Vec::is_empty);
                operator.values().any(empty).then_some("holds an operator without values")
            }
            _ => None,
        }),
        _ => None,
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.patterns.as_ref().map_or(0, Quamina::pattern_count);
        write!(f, "Matcher of {count} patterns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_no_pattern_is_about_is_not_written_out() {
        let mut matcher = Matcher::default();
        matcher.add(0, &json!({ "topicArn": ["x"] })).unwrap();
        matcher.add(1, &json!({ "error": { "code": ["200"] } })).unwrap();
        let named: Vec<_> = VIEW.into_iter().filter(|field| matcher.names(field)).collect();
        assert_eq!(named, ["topicArn", "error"]);
    }
}

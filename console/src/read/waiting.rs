//! The letters that wait hidden, by when they are due and by a field.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use sns_redrive::policy::VISIBILITY_CEILING;

use super::groups::Value;
use super::letters::WaitingOne;
use super::tally::{PARTS, ROWS, Span, largest};
use crate::query::{Field, Filter};

/// Letters that are shown one by one.
const EXAMPLES: usize = 20;

/// The letters that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The field by which they are counted.
    pub by: Field,
    /// The filter.
    pub of: Filter,
    /// Their number.
    pub letters: u64,
    /// True if there may be more.
    pub more: bool,
    /// The time until which one can be hidden.
    pub span: Span,
    /// The number due in each part of that time.
    pub due: [u64; PARTS],
    /// The groups, the largest first.
    pub rows: Vec<WaitingGroup>,
    /// Groups that are not shown.
    pub further: u64,
    /// What holds some of them, and how many.
    pub held: Vec<(String, u64)>,
    /// The next of them.
    pub next: Vec<WaitingOne>,
}

/// Letters that wait and have a value in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingGroup {
    /// The value.
    pub value: Value,
    /// Their number.
    pub letters: u64,
    /// The moments at which the first and the last of them are due.
    pub due: (Timestamp, Timestamp),
}

impl Waiting {
    /// Counts letters that wait, which come in the order in which they are due.
    pub(crate) fn of(all: Vec<WaitingOne>, more: bool, by: Field, of: &Filter, now: Timestamp) -> Self {
        let ceiling = SignedDuration::from_secs(i64::try_from(VISIBILITY_CEILING).unwrap_or(i64::MAX));
        let span = Span { from: now, to: now.saturating_add(ceiling).unwrap_or(Timestamp::MAX) };
        let letters: Vec<_> =
            all.into_iter().filter(|letter| of.takes(|field| letter.fields.get(field))).collect();
        let mut due = [0; PARTS];
        let mut groups: BTreeMap<Value, WaitingGroup> = BTreeMap::new();
        for letter in &letters {
            due[span.part(letter.due)] += 1;
            let value = letter.fields.get(by).map_or(Value::None, |value| Value::Known(value.to_owned()));
            let new = || WaitingGroup { value: value.clone(), letters: 0, due: (letter.due, letter.due) };
            let group = groups.entry(value.clone()).or_insert_with(new);
            group.letters += 1;
            group.due = (group.due.0.min(letter.due), group.due.1.max(letter.due));
        }
        let (rows, further) = largest(groups.into_values(), ROWS, |group| group.letters);
        let mut held: BTreeMap<String, u64> = BTreeMap::new();
        for by in letters.iter().filter_map(|letter| letter.held_by.clone()) {
            *held.entry(by).or_default() += 1;
        }
        let count = letters.len() as u64;
        let next = letters.into_iter().take(EXAMPLES).collect();
        Self {
            by,
            of: of.clone(),
            letters: count,
            more,
            span,
            due,
            rows,
            further,
            held: held.into_iter().collect(),
            next,
        }
    }
}

//! The waiting letters, by their due time and by a field.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use redrive_core::policy::VISIBILITY_CEILING;

use super::groups::GroupValue;
use super::letter_counts::{ChartSpan, MAX_GROUP_ROWS, PARTS, largest};
use super::letters::WaitingOne;
use crate::query::{Filter, GroupField};

/// The most letters that are shown one by one.
const MAX_SHOWN_LETTERS: usize = 20;

/// The waiting letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingSummary {
    /// The field to group by.
    pub by: GroupField,
    /// The filter that selects the letters.
    pub of: Filter,
    /// The number of letters.
    pub letters: u64,
    /// The number of further letters, whose endpoint is back: the function has claimed them, to wake them.
    pub claimed: u64,
    /// True if there may be more letters.
    pub more: bool,
    /// The time range of the histogram, up to the longest time that SQS hides a letter.
    pub span: ChartSpan,
    /// The number of letters that are due in each part of it.
    pub due: [u64; PARTS],
    /// The groups, the largest first.
    pub rows: Vec<WaitingGroup>,
    /// The number of groups that are not shown.
    pub further: u64,
    /// The overrides and rules that hold letters, and the number of letters that each holds.
    pub held: Vec<(String, u64)>,
    /// The letters that are due first.
    pub next: Vec<WaitingOne>,
}

/// Waiting letters that have a value in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingGroup {
    /// The value.
    pub value: GroupValue,
    /// The number of letters.
    pub letters: u64,
    /// When the first and the last of them are due.
    pub due: (Timestamp, Timestamp),
}

impl WaitingSummary {
    /// Counts waiting letters. They must come in the order in which they are due.
    pub(crate) fn of(all: Vec<WaitingOne>, more: bool, by: GroupField, of: &Filter, now: Timestamp) -> Self {
        let ceiling = SignedDuration::from_secs(i64::try_from(VISIBILITY_CEILING).unwrap_or(i64::MAX));
        let span = ChartSpan { from: now, to: now.saturating_add(ceiling).unwrap_or(Timestamp::MAX) };
        let taken = all.into_iter().filter(|letter| of.takes(|field| letter.fields.get(field)));
        let (claimed, letters): (Vec<_>, Vec<_>) = taken.partition(|letter| letter.claimed);
        let mut due = [0; PARTS];
        let mut groups: BTreeMap<GroupValue, WaitingGroup> = BTreeMap::new();
        for letter in &letters {
            due[span.part(letter.due)] += 1;
            let value =
                letter.fields.get(by).map_or(GroupValue::None, |value| GroupValue::Known(value.to_owned()));
            let new = || WaitingGroup { value: value.clone(), letters: 0, due: (letter.due, letter.due) };
            let group = groups.entry(value.clone()).or_insert_with(new);
            group.letters += 1;
            group.due = (group.due.0.min(letter.due), group.due.1.max(letter.due));
        }
        let (rows, further) = largest(groups.into_values(), MAX_GROUP_ROWS, |group| group.letters);
        let mut held: BTreeMap<String, u64> = BTreeMap::new();
        for by in letters.iter().filter_map(|letter| letter.held_by.clone()) {
            *held.entry(by).or_default() += 1;
        }
        let count = letters.len() as u64;
        let next = letters.into_iter().take(MAX_SHOWN_LETTERS).collect();
        Self {
            by,
            of: of.clone(),
            letters: count,
            claimed: claimed.len() as u64,
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

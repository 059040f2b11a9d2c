//! Groups of letters that have a value in common, and one such group in detail.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_archive::topic_hash;
use redrive_core::arn::Arn;
use redrive_core::waiting::EndpointRecovery;

use super::collect::{CollectedLetters, MAX_EXAMPLES};
use super::content::ShownContent;
use super::failing_targets::{FailingTarget, failing_targets, needs_person_now};
use super::index::{KEY_FIELDS, KeyTopic};
use super::letter_counts::{ChartSpan, MAX_GROUP_ROWS, TimedCount, UnreplayedCount, largest};
use super::letters::{ArchivedLetter, LetterFields, WaitingOne};
use crate::query::{Filter, GroupField};

/// The most values of a field on a group's page.
const MAX_VALUES: usize = 12;

/// Letters grouped by a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageGroups {
    /// The field to group by.
    pub by: GroupField,
    /// The filter that selects the letters.
    pub of: Filter,
    /// The time range.
    pub span: ChartSpan,
    /// How the archived letters were counted.
    pub counted: CountMethod,
    /// How many of the letters that were read no replay has sent yet.
    pub left: UnreplayedCount,
    /// The groups, the largest first.
    pub rows: Vec<PageGroup>,
    /// The number of groups that are not shown.
    pub further: u64,
    /// The number of waiting letters.
    pub waiting: u64,
    /// True if more letters may wait.
    pub more_waiting: bool,
}

/// How archived letters were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountMethod {
    /// Archived letters by the archive's keys. The keys know the topic, the reason and the queue, and nothing
    /// else of the filter.
    pub letters: u64,
    /// True if there may be more letters.
    pub more: bool,
    /// How many of them were read: the newest.
    pub read: u64,
    /// How many of those match the whole filter.
    pub matching: u64,
    /// True if the filter has fields that the keys do not know.
    pub is_narrower: bool,
    /// True if only the letters that were read are counted.
    pub is_sample: bool,
    /// Letters whose keys name no topic and no reason.
    pub untold: u64,
    /// Objects whose keys do not even name the number of letters.
    pub blind: u64,
}

/// A group of letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageGroup {
    /// The value that the letters have in common.
    pub value: GroupValue,
    /// The archived letters, counted over time.
    pub archived: TimedCount,
    /// How many of the archived letters that were read no replay has sent yet.
    pub left: UnreplayedCount,
    /// Waiting letters, after a failure or by a rule.
    pub waiting: u64,
    /// The arrival of the earliest waiting letter.
    pub since: Option<Timestamp>,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupValue {
    /// A value.
    Known(String),
    /// No value.
    None,
    /// A topic whose name is unknown, because none of its letters was read. The keys hold its hash.
    Hash(String),
    /// All topics beyond the number that the page counts one by one.
    Others,
    /// A value that the archive's keys do not name.
    Untold,
}

/// A value that letters of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommonValue {
    /// The value.
    pub value: GroupValue,
    /// The number of archived letters that were read.
    pub archived: u64,
    /// The number of waiting letters.
    pub waiting: u64,
}

/// One group of letters in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneGroup {
    /// The filter that selects the letters.
    pub of: Filter,
    /// The time range.
    pub span: ChartSpan,
    /// How the archived letters were counted.
    pub counted: CountMethod,
    /// The archived letters over time; only those that were read, if the filter has fields that the keys do
    /// not know.
    pub archived: TimedCount,
    /// How many of the archived letters that were read no replay has sent yet.
    pub left: UnreplayedCount,
    /// The number of waiting letters.
    pub waiting: u64,
    /// True if more letters may wait.
    pub more_waiting: bool,
    /// The arrival of the earliest waiting letter.
    pub since: Option<Timestamp>,
    /// The lowest and the highest number of the retries that they wait for.
    pub next: Option<(u32, u32)>,
    /// The letters that need a person, of those that were read.
    pub need_you: u64,
    /// The state of the target, if the filter names one.
    pub target: Option<FailingTarget>,
    /// The waiting letters that an override or a rule holds.
    pub held: u64,
    /// The values of the other fields, in archived letters that were read and in waiting letters.
    pub fields: Vec<(GroupField, Vec<CommonValue>)>,
    /// The rule that most of the letters fall under.
    pub rule: Option<String>,
    /// The newest archived letters, with their content if the page may show it.
    pub examples: Vec<(ArchivedLetter, Option<ShownContent>)>,
    /// The next waiting letters, in the order in which they are due.
    pub next_waiting: Vec<WaitingOne>,
}

impl GroupValue {
    fn of(value: Option<&str>) -> Self {
        value.map_or(Self::None, |value| Self::Known(value.to_owned()))
    }
}

/// Reports whether the archive's keys answer the whole filter. The keys know only a topic's name, which a
/// topic in another account may share. So they cannot answer a filter with a topic's ARN.
fn is_told(of: &Filter) -> bool {
    of.iter().all(|(field, value)| {
        KEY_FIELDS.contains(&field) && !(field == GroupField::Topic && value.contains(':'))
    })
}

impl CountMethod {
    fn of(collected: &CollectedLetters, of: &Filter, is_sample: bool) -> Self {
        let CollectedLetters { index, more, read, archived, .. } = collected;
        let hides_some =
            of.get(GroupField::Topic).or(of.get(GroupField::Reason)).is_some() && index.untold > 0;
        Self {
            letters: index.letters,
            more: *more || index.blind > 0 || hides_some,
            read: *read,
            matching: archived.len() as u64,
            is_narrower: !is_told(of),
            is_sample,
            untold: index.untold,
            blind: index.blind,
        }
    }

    /// Reports whether letters that were not read may belong to the groups.
    #[must_use]
    pub fn more_than_read(&self) -> bool {
        self.more || self.read < self.letters
    }
}

impl PageGroups {
    /// Groups the letters.
    pub(crate) fn of(collected: &CollectedLetters, by: GroupField, of: &Filter, span: ChartSpan) -> Self {
        let is_sample = !(KEY_FIELDS.contains(&by) && is_told(of));
        let mut groups: BTreeMap<GroupValue, (TimedCount, u64, Option<Timestamp>, UnreplayedCount)> =
            BTreeMap::new();
        if is_sample {
            for letter in &collected.archived {
                let group = groups.entry(GroupValue::of(letter.fields.get(by))).or_default();
                group.0.add(1, letter.archived, &span);
            }
        } else {
            let names = topics(collected);
            for (key, count) in &collected.index.groups {
                let value = match (by, &key.topic) {
                    (GroupField::Queue, _) => GroupValue::Known(key.queue.clone()),
                    (GroupField::Reason, _) => {
                        key.reason.clone().map_or(GroupValue::Untold, GroupValue::Known)
                    }
                    (_, KeyTopic::None) => GroupValue::None,
                    (_, KeyTopic::Other) => GroupValue::Others,
                    (_, KeyTopic::Untold) => GroupValue::Untold,
                    (_, KeyTopic::Hash(hash)) => names
                        .get(hash)
                        .map_or_else(|| GroupValue::Hash(hash.clone()), |it| GroupValue::Known(it.clone())),
                };
                groups.entry(value).or_default().0.join(count);
            }
        }
        let value_of = |fields: &LetterFields| {
            let value = fields.get(by);
            let name = value.filter(|_| by == GroupField::Topic && !is_sample).map(name_of);
            GroupValue::of(name.as_deref().or(value))
        };
        for letter in &collected.archived {
            // A key that knows less counts the letter under another value. Then this value has no group.
            if let Some(group) = groups.get_mut(&value_of(&letter.fields)) {
                group.3.add(letter.replayed);
            }
        }
        for letter in collected.waiting.iter().filter(|_| !by.is_archived_only()) {
            let group = groups.entry(value_of(&letter.fields)).or_default();
            group.1 += 1;
            group.2 = Some(group.2.map_or(letter.since, |since| since.min(letter.since)));
        }
        let groups = groups.into_iter();
        let groups = groups.map(|(value, (archived, waiting, since, left))| PageGroup {
            value,
            archived,
            left,
            waiting,
            since,
        });
        let mut counted = CountMethod::of(collected, of, is_sample);
        let is_narrow = of.get(GroupField::Topic).or(of.get(GroupField::Reason)).is_some();
        if by == GroupField::Queue && !is_narrow {
            // Every key names the queue.
            counted.untold = 0;
        }
        let (rows, further) = largest(groups, MAX_GROUP_ROWS, |group| group.archived.letters + group.waiting);
        Self {
            by,
            of: of.clone(),
            span,
            counted,
            left: left(collected),
            rows,
            further,
            waiting: collected.waiting.len() as u64,
            more_waiting: collected.more_waiting,
        }
    }
}

impl OneGroup {
    /// Describes one group.
    pub(crate) fn of(
        collected: &CollectedLetters,
        of: &Filter,
        span: ChartSpan,
        endpoints: &[EndpointRecovery],
    ) -> Self {
        let is_sample = !is_told(of);
        let target = of.get(GroupField::Target).and_then(|target| {
            let known: Vec<_> = endpoints.iter().filter(|it| it.target.as_str() == target).cloned().collect();
            let all = failing_targets(collected, &known, &span);
            all.into_iter().find(|it| it.target.as_deref().unwrap_or_default() == target)
        });
        let mut archived = TimedCount::default();
        if is_sample {
            collected.archived.iter().for_each(|letter| archived.add(1, letter.archived, &span));
        } else {
            collected.index.groups.values().for_each(|count| archived.join(count));
        }
        let others = GroupField::ALL.into_iter().filter(|field| of.get(*field).is_none());
        let fields = others.map(|field| (field, values(collected, field)));
        let rule = rule(collected, of);
        // Letters of other rules have other schedules, so their retry numbers do not compare.
        let same = collected.waiting.iter().filter(|letter| letter.fields.rule == rule);
        let next = same.map(|letter| letter.retry.0);
        let examples = collected.archived.iter().zip(&collected.said);
        Self {
            of: of.clone(),
            span,
            counted: CountMethod::of(collected, of, is_sample),
            archived,
            left: left(collected),
            waiting: collected.waiting.len() as u64,
            more_waiting: collected.more_waiting,
            since: collected.waiting.iter().map(|letter| letter.since).min(),
            next: next.clone().min().zip(next.max()),
            need_you: collected.archived.iter().filter(|letter| needs_person_now(letter)).count() as u64,
            target,
            held: collected.waiting.iter().filter(|letter| letter.held_by.is_some()).count() as u64,
            fields: fields.filter(|(field, values)| is_shown(*field, values)).collect(),
            rule,
            examples: examples.map(|(letter, said)| (letter.clone(), said.clone())).collect(),
            next_waiting: collected.waiting.iter().take(MAX_EXAMPLES).cloned().collect(),
        }
    }
}

/// Reports whether the values of a field are shown. Most letters have no cause, so a table of none says nothing.
fn is_shown(field: GroupField, values: &[CommonValue]) -> bool {
    let is_known = |common: &CommonValue| matches!(common.value, GroupValue::Known(_));
    if field == GroupField::Cause { values.iter().any(is_known) } else { !values.is_empty() }
}

/// Counts the letters that were read, and how many of them no replay has sent yet.
fn left(collected: &CollectedLetters) -> UnreplayedCount {
    let mut left = UnreplayedCount::default();
    collected.archived.iter().for_each(|letter| left.add(letter.replayed));
    left
}

/// Returns the filter's rule, or else the rule of most letters.
fn rule(collected: &CollectedLetters, of: &Filter) -> Option<String> {
    if let Some(rule) = of.get(GroupField::Rule) {
        return Some(rule.to_owned()).filter(|rule| !rule.is_empty());
    }
    let values = values(collected, GroupField::Rule);
    values.into_iter().find_map(|common| match common.value {
        GroupValue::Known(rule) => Some(rule),
        _ => None,
    })
}

/// Returns the values of a field, the most frequent first.
fn values(collected: &CollectedLetters, field: GroupField) -> Vec<CommonValue> {
    let mut counts: BTreeMap<GroupValue, (u64, u64)> = BTreeMap::new();
    for letter in &collected.archived {
        counts.entry(GroupValue::of(letter.fields.get(field))).or_default().0 += 1;
    }
    for letter in collected.waiting.iter().filter(|_| !field.is_archived_only()) {
        counts.entry(GroupValue::of(letter.fields.get(field))).or_default().1 += 1;
    }
    let common = |(value, (archived, waiting))| CommonValue { value, archived, waiting };
    largest(counts.into_iter().map(common), MAX_VALUES, |common| common.archived + common.waiting).0
}

/// Returns the names of the topics whose letters were read or wait, by their hashes. The keys hold only the
/// hashes.
fn topics(collected: &CollectedLetters) -> BTreeMap<String, String> {
    let archived = collected.archived.iter().filter_map(|letter| letter.fields.topic.clone());
    let waiting = collected.waiting.iter().filter_map(|letter| letter.fields.topic.clone());
    let hashed = archived.chain(waiting).filter_map(|topic| {
        let arn = topic.parse::<Arn>().ok()?;
        Some((topic_hash(arn.resource()), arn.resource().to_owned()))
    });
    hashed.collect()
}

/// Returns the name of a topic. The keys hold the hash of the name.
fn name_of(topic: &str) -> String {
    topic.parse::<Arn>().map_or_else(|_| topic.to_owned(), |arn| arn.resource().to_owned())
}

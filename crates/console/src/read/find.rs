//! What a search finds: letters by their ids, and groups by the names of their values.

use std::collections::BTreeMap;

use super::collect::CollectedLetters;
use super::letters::{ArchivedLetter, LetterFields, WaitingOne};
use crate::query::GroupField;
use crate::text::ShortName;

/// The most letters, and the most values of fields, that a search shows.
const MAX_FOUND: usize = 25;

/// The fields whose values are searched, in the order in which they are shown.
const SEARCHED: [GroupField; 6] = [
    GroupField::Target,
    GroupField::Topic,
    GroupField::Subscription,
    GroupField::Queue,
    GroupField::Error,
    GroupField::Rule,
];

/// The result of a search among the letters that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// Archived letters.
    pub archived: Vec<ArchivedLetter>,
    /// Waiting letters.
    pub waiting: Vec<WaitingOne>,
    /// Values of fields, and how many of the letters that were read have them.
    pub values: Vec<(GroupField, String, u64)>,
    /// True if not every letter was read.
    pub is_part: bool,
    /// True if more was found than is shown.
    pub more: bool,
}

impl SearchResult {
    /// Searches letters for a text, without regard to upper and lower case.
    pub(crate) fn of(collected: CollectedLetters, text: &str) -> Self {
        let CollectedLetters { index, more, read, archived, waiting, more_waiting, .. } = collected;
        let is_part = more || read < index.letters || more_waiting;
        let text = text.to_lowercase();
        if text.is_empty() {
            return Self { is_part, ..Self::default() };
        }
        let has = |name: &str| name.to_lowercase().contains(&text);
        let mut values: BTreeMap<(usize, &str), u64> = BTreeMap::new();
        let fields: Vec<&LetterFields> =
            archived.iter().map(|it| &it.fields).chain(waiting.iter().map(|it| &it.fields)).collect();
        for fields in fields {
            for (place, field) in SEARCHED.into_iter().enumerate() {
                let Some(value) = fields.get(field) else { continue };
                // Only the short name: the account in an ARN would find everything.
                if has(&ShortName::of(value).name) || value.to_lowercase() == text {
                    *values.entry((place, value)).or_default() += 1;
                }
            }
        }
        let values: Vec<_> = values
            .into_iter()
            .map(|((place, value), count)| (SEARCHED[place], value.to_owned(), count))
            .collect();
        let is_found = |id: &str, message_id: &str| has(id) && !is_of_name(id, &text) || has(message_id);
        let found_archived: Vec<_> =
            archived.iter().filter(|it| is_found(&it.id, &it.message_id)).cloned().collect();
        let found_waiting: Vec<_> =
            waiting.iter().filter(|it| is_found(&it.id, &it.message_id)).cloned().collect();
        let more = [values.len(), found_archived.len(), found_waiting.len()].iter().any(|it| *it > MAX_FOUND);
        let mut found = Self { archived: found_archived, waiting: found_waiting, values, is_part, more };
        found.archived.truncate(MAX_FOUND);
        found.waiting.truncate(MAX_FOUND);
        found.values.truncate(MAX_FOUND);
        found
    }
}

/// Reports whether a text is found only in the subscription that the id of SNS's letters ends with.
fn is_of_name(id: &str, text: &str) -> bool {
    let of_sns = id.split_once('/').map_or(id, |(of_sns, _)| of_sns);
    !of_sns.to_lowercase().contains(text) && id.to_lowercase() != *text
}

//! The letters that are to be erased.

use std::collections::HashSet;

use redrive_archive::{ArchiveRecord, BadRecord, LetterIdentity, RecordedAttribute, Selection};
use serde_json::{Value, json};

use crate::archive::selection;
use crate::args;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::overrides::{named, target};

/// The length of a text, in bytes, from which on it is also found inside of other texts of a document.
const LONG_TEXT: usize = 6;

/// The fields of overrides and replays that hold what a person has typed.
const TELLING_FIELDS: [&str; 4] = ["match", "pattern", "why", "because"];

/// How deep JSON in texts of JSON is looked into.
const MAX_DEPTH: u32 = 4;

/// The letters that a command line selects.
pub(super) struct EraseCriteria {
    selection: Selection,
    ids: Vec<String>,
    texts: Vec<String>,
    /// The texts and numbers by which the command line describes the content of letters.
    values: Vec<Value>,
    /// The pattern by which an override selects the same letters in queues. The error says why no override can.
    pub(super) pattern: Result<Value, &'static str>,
    /// The command line in words.
    pub(super) words: Vec<String>,
}

/// A record of the archive, and whether it was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordMatch {
    /// The command line selects it.
    Selected,
    /// It is another record of a letter of which one record was selected.
    SameLetter,
    No,
}

impl EraseCriteria {
    pub(super) fn of(args: &args::EraseArgs, console: &ToolEnvironment) -> Result<Self, CommandFailure> {
        let bad = |problem: &str| CommandFailure::Input(vec![problem.to_owned()]);
        let picks = &args.selection;
        if picks.not_replayed {
            return Err(bad(
                "--not-replayed does not go with erase: a letter that was replayed is still archived",
            ));
        }
        let selection = selection(picks, console)?;
        let words = words(args);
        if words.is_empty() {
            return Err(bad(
                "no letters are selected: give --match, --text, ids, or another option of a selection",
            ));
        }
        if args.text.iter().chain(&args.ids).any(String::is_empty) {
            return Err(bad("an id or a --text is empty: it would select every letter"));
        }
        let pattern = pattern(args)?;
        let mut values: Vec<_> = args.text.iter().chain(&args.ids).map(|text| json!(text)).collect();
        let given = picks.pattern.as_deref().and_then(|json| serde_json::from_str::<Value>(json).ok());
        for (field, condition) in given.iter().filter_map(Value::as_object).flatten() {
            // The other fields name resources, not persons.
            if ["message", "messageAttributes", "subject", "$or"].contains(&field.as_str()) {
                leaves(condition, &mut values);
            }
        }
        let (ids, texts) = (args.ids.clone(), args.text.clone());
        Ok(Self { selection, ids, texts, values, pattern, words })
    }

    /// Returns the selection of objects that may hold records of these letters. Other records of a selected letter may
    /// have another time, reason or target, but not another topic or queue.
    pub(super) fn reach(&self) -> Selection {
        let Selection { queue, requeue, topics, .. } = &self.selection;
        Selection {
            queue: queue.clone(),
            requeue: requeue.clone(),
            topics: topics.clone(),
            ..Selection::default()
        }
    }

    /// Reports whether a record is to be erased. `letters` has the letters of records that were selected.
    pub(super) fn takes(
        &self,
        record: &ArchiveRecord,
        letters: &HashSet<LetterIdentity>,
    ) -> Result<RecordMatch, BadRecord> {
        let has_id = |id: &String| *id == record.letter_id || *id == record.message.message_id;
        let is_meant = (self.ids.is_empty() || self.ids.iter().any(has_id))
            && (self.texts.is_empty() || self.texts.iter().any(|text| has_text(record, text)));
        if is_meant && self.selection.takes(record)? {
            return Ok(RecordMatch::Selected);
        }
        let is_same = letters.contains(&LetterIdentity::of_letter(&record.letter_id));
        Ok(if is_same { RecordMatch::SameLetter } else { RecordMatch::No })
    }

    /// Replaces the texts and numbers by which patterns and reasons of a document describe the content of these letters.
    /// Returns whether there were any.
    pub(super) fn redact(&self, document: &mut Value) -> bool {
        match document {
            Value::Array(items) => items.iter_mut().fold(false, |any, item| self.redact(item) | any),
            Value::Object(fields) => fields.iter_mut().fold(false, |any, (name, field)| {
                let is_telling = TELLING_FIELDS.contains(&name.as_str());
                any | if is_telling { self.redact_all(field) } else { self.redact(field) }
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    fn redact_all(&self, part: &mut Value) -> bool {
        match part {
            Value::Array(items) => items.iter_mut().fold(false, |any, item| self.redact_all(item) | any),
            Value::Object(fields) => {
                fields.values_mut().fold(false, |any, field| self.redact_all(field) | any)
            }
            leaf => {
                let is_named = self.values.iter().any(|value| {
                    let inside = value.as_str().filter(|text| text.len() >= LONG_TEXT).zip(leaf.as_str());
                    value == leaf || inside.is_some_and(|(text, leaf)| leaf.contains(text))
                });
                if is_named {
                    *leaf = json!("(erased)");
                }
                is_named
            }
        }
    }
}

/// Returns the selection in words.
fn words(args: &args::EraseArgs) -> Vec<String> {
    let picks = &args.selection;
    let queue: Vec<_> = picks.queue.iter().cloned().collect();
    let pattern: Vec<_> = picks.pattern.iter().cloned().collect();
    let listed = [
        ("id", &args.ids),
        ("text", &args.text),
        ("match", &pattern),
        ("topic", &picks.topic),
        ("queue", &queue),
        ("target", &picks.target),
        ("origin", &picks.origin),
        ("reason", &picks.reason),
        ("error", &picks.error),
    ];
    let listed = listed.into_iter().filter(|(_, values)| !values.is_empty());
    let mut words: Vec<_> = listed.map(|(what, values)| format!("{what} {}", values.join(" or "))).collect();
    if picks.since.is_some() || picks.until.is_some() {
        words.push("the time of archiving".to_owned());
    }
    words
}

/// Returns the pattern of an override for the same letters.
fn pattern(args: &args::EraseArgs) -> Result<Result<Value, &'static str>, CommandFailure> {
    let picks = &args.selection;
    if !picks.reason.is_empty() || picks.since.is_some() || picks.until.is_some() {
        return Ok(Err("--reason, --since and --until are about archived letters"));
    }
    if !args.text.is_empty() || !args.ids.is_empty() {
        return Ok(Err("no override finds a letter by an id or a text: also run it with --match"));
    }
    let mut fields = match picks.pattern.as_deref().map(serde_json::from_str::<Value>) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => serde_json::Map::new(),
    };
    let conditions = |values: &[String]| {
        let each = values.iter().filter_map(|value| named(value).get(0).cloned());
        each.collect::<Vec<_>>()
    };
    let mut targets = Vec::new();
    for one in &picks.target {
        targets.extend(target(one)?.get(0).cloned());
    }
    let texts = |values: &[String]| values.iter().map(|value| json!(value)).collect::<Vec<_>>();
    let queue: Vec<_> = picks.queue.iter().cloned().collect();
    for (field, values) in [
        ("topicArn", conditions(&picks.topic)),
        ("queueArn", conditions(&queue)),
        ("target", targets),
        ("origin", texts(&picks.origin)),
        ("error", texts(&picks.error)),
    ] {
        if !values.is_empty() && fields.insert(field.to_owned(), json!(values)).is_some() {
            let problem = format!("--match and another option both give {field}: leave out one of them");
            return Err(CommandFailure::Input(vec![problem]));
        }
    }
    Ok(Ok(Value::Object(fields)))
}

/// Collects the texts and numbers of a condition.
fn leaves(condition: &Value, found: &mut Vec<Value>) {
    match condition {
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| leaves(field, found)),
        Value::String(text) if text.len() > 1 => {
            // The stars of a wildcard are none of the text.
            let plain = text.trim_matches('*');
            found.push(json!(text));
            if plain != text && !plain.is_empty() {
                found.push(json!(plain));
            }
        }
        Value::Number(_) => found.push(condition.clone()),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Reports whether a record contains a text: as it is, or in JSON.
fn has_text(record: &ArchiveRecord, text: &str) -> bool {
    let message = &record.message;
    let values = message.message_attributes.values();
    let values = values.filter_map(|RecordedAttribute { string_value, .. }| string_value.as_deref());
    let names = message.message_attributes.keys().map(String::as_str);
    let words = [
        record.record.as_deref(),
        record.detail.as_deref(),
        record.error.as_ref().and_then(|error| error.message.as_deref()),
        record.cause.as_ref().and_then(|cause| cause.message.as_deref()),
        message.attributes.get("MessageGroupId").map(String::as_str),
    ];
    let mut all = values.chain(names).chain(words.into_iter().flatten()).chain([message.body.as_str()]);
    all.any(|value| is_inside(value, text, MAX_DEPTH))
}

fn is_inside(value: &str, text: &str, depth: u32) -> bool {
    if value.contains(text) {
        return true;
    }
    // Escapes can hide a text.
    if depth == 0 || !value.contains('\\') {
        return false;
    }
    let has = |json: &Value| holds(json, text, depth - 1);
    serde_json::from_str::<Value>(value).as_ref().is_ok_and(has)
}

fn holds(json: &Value, text: &str, depth: u32) -> bool {
    match json {
        Value::Array(items) => items.iter().any(|item| holds(item, text, depth)),
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| name.contains(text) || holds(field, text, depth))
        }
        Value::String(value) => is_inside(value, text, depth),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

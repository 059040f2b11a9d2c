//! `redrivectl archive diff`: compares edited records with the archive, before they are replayed.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::sync::Arc;

use redrive_archive::{ArchiveObject, ArchiveRecord, ArchiveWalk, Selection};
use redrive_console::read::ContentMask;
use serde_json::{Value, json};
use similar::TextDiff;

use super::replayed::ReplayLookup;
use super::shown_records::read;
use super::walk::{WalkedLetter, walk};
use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment, read_file};
use crate::output::CommandResult;
use crate::s3_location::{self, BucketPrefix};
use crate::tables::{TextStyle, count, harmless, thousands};

/// A record of the input, with its place in the archive.
struct EditedRecord {
    /// Its line in the input.
    number: usize,
    place: (Arc<str>, u64),
    record: ArchiveRecord,
}

/// The number of unchanged lines shown around a change.
const CONTEXT: usize = 2;

/// The differences between edited records and the archive.
pub(crate) struct ArchiveDifference {
    changed: Vec<ChangedRecord>,
    /// The number of records that are as in the archive.
    same: u64,
    /// The number of records and objects that could not be read.
    unread: u64,
}

/// A record that was changed.
struct ChangedRecord {
    letter_id: String,
    message_id: String,
    place: (Arc<str>, u64),
    /// The paths of the changes.
    paths: Vec<String>,
    old: Value,
    new: Value,
}

pub(super) async fn run(
    args: &args::ArchiveDiff,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let difference = compare(args, console).await?;
    console.print(&difference, as_json)
}

/// Compares edited records with the archive.
pub(crate) async fn compare(
    args: &args::ArchiveDiff,
    console: &mut ToolEnvironment,
) -> Result<ArchiveDifference, CommandFailure> {
    let BucketPrefix { bucket, .. } = s3_location::archive(&args.place, console)?;
    let given = given(&read_file(&args.file, console)?)?;
    let clients = AwsAccess::connect(&args.connection, console).await?.clients();

    let places: BTreeSet<_> = given.iter().map(|given| given.place.clone()).collect();
    let keys: BTreeSet<_> = places.iter().map(|(key, _)| Arc::clone(key)).collect();
    let objects = keys.into_iter().map(|key| ArchiveObject::new(key, 0, None)).collect();
    let selection = Selection::default();
    let (mut originals, mut erased) = (HashMap::new(), HashMap::new());
    let letters = ArchiveWalk::over(clients.s3, &bucket, objects, &selection);
    let mut unread = walk(letters, &mut ReplayLookup::nobody(), console, |_, letter| {
        match letter {
            WalkedLetter::Record(letter, _) => {
                let place = (letter.key, letter.line);
                if places.contains(&place) {
                    originals.insert(place, letter.record);
                }
            }
            WalkedLetter::Erased(letter) => {
                erased.insert((letter.key, letter.line), letter.record.erased.at);
            }
        }
        Ok(())
    })
    .await?;

    let (mut changed, mut same) = (Vec::new(), 0);
    for EditedRecord { number, place, record } in given {
        let original = originals.get(&place).filter(|original| original.identity() == record.identity());
        let Some(original) = original else {
            unread += 1;
            if let Some(at) = erased.get(&place) {
                writeln!(
                    console.err,
                    "redrivectl: line {number}: the letter was erased from the archive at {at}"
                )?;
                continue;
            }
            writeln!(
                console.err,
                "redrivectl: line {number}: the archive has no such letter at this place; do not change key, line, \
                 queueArn and message.messageId"
            )?;
            continue;
        };
        let Some((mut old, mut new)) = forms(original, &record)? else {
            same += 1;
            continue;
        };
        let mut paths = Vec::new();
        differences(String::new(), &old, &new, &mut paths);
        if !args.mask.is_empty() {
            let mask = ContentMask::new(&args.mask);
            mask.value(&mut old);
            mask.value(&mut new);
        }
        let (letter_id, message_id) = (record.letter_id, record.message.message_id);
        changed.push(ChangedRecord { letter_id, message_id, place, paths, old, new });
    }
    Ok(ArchiveDifference { changed, same, unread })
}

impl CommandResult for ArchiveDifference {
    fn text(&self, _: TextStyle) -> String {
        let changed: String = self.changed.iter().map(ChangedRecord::text).collect();
        let letters = count(self.changed.len() as u64, "letter");
        format!("{changed}{letters} changed, {} as in the archive.\n", thousands(self.same))
    }

    fn json(&self) -> Value {
        let letters: Vec<_> = self.changed.iter().map(ChangedRecord::json).collect();
        json!({ "letters": letters, "unchanged": self.same, "unread": self.unread })
    }

    fn finished(&self) -> CommandEnd {
        CommandEnd::of(self.unread)
    }
}

impl ChangedRecord {
    fn text(&self) -> String {
        let (key, line) = &self.place;
        let (old, new) = (format!("{:#}\n", self.old), format!("{:#}\n", self.new));
        let diff = TextDiff::from_lines(old.as_str(), new.as_str());
        let hunks = diff.unified_diff().context_radius(CONTEXT).to_string();
        let hunks: String = hunks.lines().map(|line| harmless(line) + "\n").collect();
        format!("Letter {}\n  {}, line {line}\n{hunks}\n", harmless(&self.letter_id), harmless(key))
    }

    fn json(&self) -> Value {
        let (key, line) = &self.place;
        json!({
            "letterId": self.letter_id, "messageId": self.message_id, "key": key, "line": line,
            "changed": self.paths,
        })
    }
}

/// Reads the records of the input, with their places in the archive. Skips empty lines.
fn given(text: &str) -> Result<Vec<EditedRecord>, CommandFailure> {
    let (mut given, mut bad) = (Vec::new(), Vec::new());
    for ((number, line), shown) in (1..).zip(text.lines()).zip(read(text)?) {
        if line.trim().is_empty() {
            continue;
        }
        match shown.map(|shown| (shown.place(), shown.record)) {
            Ok((Some(place), record)) => given.push(EditedRecord { number, place, record }),
            Ok((None, _)) => bad.push(format!(
                "line {number}: key or line is missing; give records as `archive show --json` writes them"
            )),
            Err(problem) => bad.push(format!("line {number}: {problem}")),
        }
    }
    if bad.is_empty() { Ok(given) } else { Err(CommandFailure::Input(bad)) }
}

/// Returns the two records in the form that shows their differences; `None` if they are equal.
fn forms(original: &ArchiveRecord, edited: &ArchiveRecord) -> Result<Option<(Value, Value)>, CommandFailure> {
    if original == edited {
        return Ok(None);
    }
    let value = |record: &ArchiveRecord| {
        serde_json::to_value(record)
            .map_err(|error| CommandFailure::Work(format!("cannot write a record as JSON: {error}")))
    };
    let (old, new) = (value(original)?, value(edited)?);
    let opened = (opened(old.clone()), opened(new.clone()));
    // If only white space of a JSON body was changed, its text shows that.
    Ok(Some(if opened.0 == opened.1 { (old, new) } else { opened }))
}

/// Returns a record with its body, and the SNS message in it, as parsed JSON, or else as lines.
fn opened(mut record: Value) -> Value {
    let Some(body) = record.pointer_mut("/message/body") else { return record };
    let Some(text) = body.as_str() else { return record };
    if let Some(mut json) = parsed(text) {
        if let Some(message) = json.get_mut("Message")
            && let Some(inner) = message.as_str().and_then(parsed)
        {
            *message = inner;
        }
        *body = json;
    } else if text.contains('\n') {
        *body = text.split('\n').collect();
    }
    record
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|json: &Value| json.is_object() || json.is_array())
}

/// Collects the paths at which two values differ.
fn differences(path: String, old: &Value, new: &Value, paths: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            for name in names {
                let absent = &Value::Null;
                let (old, new) = (old.get(name).unwrap_or(absent), new.get(name).unwrap_or(absent));
                differences(below(&path, name), old, new, paths);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(format!("{path}[{index}]"), old, new, paths);
            }
        }
        _ if old != new => paths.push(path),
        _ => {}
    }
}

fn below(path: &str, name: &str) -> String {
    let is_plain =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    match (path, is_plain) {
        ("", true) => name.to_owned(),
        (path, true) => format!("{path}.{name}"),
        (path, false) => format!("{path}[{}]", Value::from(name)),
    }
}

//! `redrivectl archive show`: shows letters of an archive one by one.

use std::io::Write;

use redrive_archive::{
    ArchiveRecord, ArchiveWalk, ErasedRecord, LetterIdentity, LocatedRecord, RecordedAttribute,
};

use super::replayed::ReplayLookup;
use super::select::selection;
use super::shown_records::shown;
use super::walk::{WalkedLetter, walk};
use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::progress_line::ProgressOutput;
use crate::s3_location::{self, BucketPrefix};
use crate::tables::{count, harmless, table, utc};

/// The error if the selection has no letter.
pub(crate) const NO_SUCH_LETTER: &str = "no letter in this archive matches";

/// Prints letters as they are read: a whole archive has no room in memory.
pub(super) async fn run(
    args: &args::ArchiveShow,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let mut is_first = true;
    let unread = each(args, console, |page, letter| {
        if as_json {
            return Ok(writeln!(page, "{}", shown(&letter)?)?);
        }
        if !std::mem::take(&mut is_first) {
            writeln!(page)?;
        }
        show(&letter, args.body, page)
    })
    .await?;
    Ok(CommandEnd::of(unread))
}

/// Returns letters of an archive, and how many objects and lines could not be read.
///
/// # Errors
///
/// There is no such letter.
pub(crate) async fn letters(
    args: &args::ArchiveShow,
    console: &mut ToolEnvironment,
) -> Result<(Vec<LocatedRecord>, u64), CommandFailure> {
    let mut letters = Vec::new();
    let take = |_: &mut ProgressOutput<'_>, letter| {
        letters.push(letter);
        Ok(())
    };
    let unread = each(args, console, take).await?;
    Ok((letters, unread))
}

/// Passes each letter that a command line means to `take`. Returns the number of objects and lines that could
/// not be read.
async fn each(
    args: &args::ArchiveShow,
    console: &mut ToolEnvironment,
    mut take: impl FnMut(&mut ProgressOutput<'_>, LocatedRecord) -> Result<(), CommandFailure>,
) -> Result<u64, CommandFailure> {
    let BucketPrefix { bucket, prefix } = s3_location::archive(&args.letters.place.archive, console)?;
    let selection = selection(&args.letters.selection, console)?;
    let clients = AwsAccess::connect(&args.letters.connection, console).await?.clients();

    let (mut has_letters, mut erased) = (false, None);
    let mut replayed = if args.letters.selection.not_replayed {
        ReplayLookup::of(&args.letters, clients.s3.clone(), console)?
    } else {
        ReplayLookup::nobody()
    };
    let letters = ArchiveWalk::new(clients.s3, &bucket, &prefix, &selection);
    let unread = walk(letters, &mut replayed, console, |page, letter| {
        match letter {
            WalkedLetter::Record(letter, _) if is_meant(&letter.record, &args.ids) => {
                has_letters = true;
                take(page, *letter)?;
            }
            WalkedLetter::Erased(letter) if was_meant(&letter.record, &args.ids) => {
                erased = Some(letter.record.erased.at);
            }
            WalkedLetter::Record(..) | WalkedLetter::Erased(_) => {}
        }
        Ok(())
    })
    .await?;
    match (has_letters, unread, erased) {
        (true, unread, _) => Ok(unread),
        (false, 0, None) => Err(CommandFailure::Work(NO_SUCH_LETTER.to_owned())),
        (false, 0, Some(at)) => {
            Err(CommandFailure::Work(format!("{NO_SUCH_LETTER}; one that did was erased at {at}")))
        }
        (false, _, _) => {
            let why = "no letter matches in the part of this archive that could be read";
            Err(CommandFailure::Work(why.to_owned()))
        }
    }
}

/// Reports whether a record has one of the ids; without ids all match.
fn is_meant(record: &ArchiveRecord, ids: &[String]) -> bool {
    ids.is_empty() || ids.iter().any(|id| *id == record.letter_id || *id == record.message.message_id)
}

/// Reports whether an erased letter has one of the ids. Only its message id can be compared.
fn was_meant(erased: &ErasedRecord, ids: &[String]) -> bool {
    let has = |id: &String| LetterIdentity::of(erased.queue_arn.as_str(), id) == erased.erased.letter;
    ids.is_empty() || ids.iter().any(has)
}

fn show(
    letter: &LocatedRecord,
    with_body: bool,
    page: &mut ProgressOutput<'_>,
) -> Result<(), CommandFailure> {
    let record = &letter.record;
    writeln!(page, "Letter {}", harmless(&record.letter_id))?;
    write!(page, "{}", table(&lines(letter, with_body), &[]))?;
    if with_body {
        let text = record.record.as_ref().unwrap_or(&record.message.body);
        let body: Vec<_> = text.split('\n').map(harmless).collect();
        writeln!(page, "\n{}", body.join("\n"))?;
    }
    Ok(())
}

fn lines(letter: &LocatedRecord, with_body: bool) -> Vec<Vec<String>> {
    let LocatedRecord { key, line, record } = letter;
    let message = &record.message;
    let mut lines = Vec::new();
    let mut say = |what: &str, text: Option<String>| {
        lines.extend(text.map(|text| vec![format!("  {what}"), harmless(&text)]));
    };
    say("message", Some(format!("{} in {}", message.message_id, record.queue_arn)));
    say("archived", Some(format!("{} UTC as {}", utc(record.archived()), record.reason)));
    say("because", record.detail.clone());
    say("origin", Some(record.origin.clone()));
    say("topic", record.topic_arn.as_ref().map(ToString::to_string));
    say("subscription", record.subscription_arn.as_ref().map(ToString::to_string));
    say("rule", Some(record.rule.clone()));
    say("target", record.target().map(str::to_owned));
    say("last retry", record.retry.map(|retry| format!("{} of {}", retry.number, retry.of)));
    say(
        "error",
        record.error.as_ref().map(|error| {
            let said = error.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
            format!("{} ({}){said}", error.code, error.class)
        }),
    );
    // The error message of a failed function can contain anything.
    say(
        "cause",
        record.cause.as_ref().map(|cause| {
            let said = cause
                .message
                .as_ref()
                .filter(|_| with_body)
                .map_or(String::new(), |said| format!(": {said}"));
            format!("{}{said}", cause.code.as_deref().unwrap_or("unknown"))
        }),
    );
    say("receives", message.attributes.get("ApproximateReceiveCount").cloned());
    for (name, attribute) in &message.message_attributes {
        say("attribute", Some(format!("{name} ({}{})", attribute.data_type, value(attribute, with_body))));
    }
    let (what, text) = match &record.record {
        Some(unread) => ("record", unread),
        None => ("body", &message.body),
    };
    say(what, Some(count(text.len() as u64, "byte")));
    say("stored", Some(format!("{key}, line {line}")));
    lines
}

fn value(attribute: &RecordedAttribute, with_body: bool) -> String {
    let (text, bytes) = (attribute.string_value.as_deref(), attribute.binary_value.as_deref());
    match (with_body, text.or(bytes)) {
        (true, Some(value)) => format!(": {value}"),
        _ => String::new(),
    }
}

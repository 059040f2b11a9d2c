//! The rules that SQS checks before it does anything, with SQS's own messages.

use std::collections::BTreeSet;

use sim_queue::{MAX_ATTRIBUTES, MAX_BYTES, MAX_DELAY, MAX_ENTRIES, MAX_VISIBILITY};

use super::queue::Queue;
use crate::error::Error;
use crate::message::{Data, Entry};

/// Checks a batch request as a whole.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html>
pub(crate) fn batch(prefix: &str, entries: &[Entry]) -> Result<(), Error> {
    let error = |code: &str, message: String| Err(Error::new(400, format!("{prefix}{code}"), message));
    if entries.is_empty() {
        let message = "There should be at least one entry in the request.";
        return error("EmptyBatchRequest", message.to_owned());
    }
    if entries.len() > MAX_ENTRIES {
        let count = entries.len();
        let message =
            format!("Maximum number of entries per request are {MAX_ENTRIES}. You have sent {count}.");
        return error("TooManyEntriesInBatchRequest", message);
    }
    let mut ids = BTreeSet::new();
    for Entry { id, .. } in entries {
        let valid = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        if id.is_empty() || id.len() > 80 || !id.chars().all(valid) {
            let message = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. \
                           It can be at most 80 letters long.";
            return error("InvalidBatchEntryId", message.to_owned());
        }
        if !ids.insert(id) {
            return error("BatchEntryIdsNotDistinct", format!("Id {id} repeated."));
        }
    }
    Ok(())
}

/// Checks the bytes of all messages of a batch.
pub(super) fn total(entries: &[Entry]) -> Result<(), Error> {
    let bytes: usize = entries.iter().map(Entry::size).sum();
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let message =
        format!("Batch requests cannot be longer than {MAX_BYTES} bytes. You have sent {bytes} bytes.");
    Err(Error::bad("AWS.SimpleQueueService.BatchRequestTooLong", message))
}

/// Checks a message.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
pub(super) fn message(queue: &Queue, entry: &Entry) -> Result<(), Error> {
    if entry.body.is_empty() {
        return Err(missing("MessageBody"));
    }
    if !entry.body.chars().all(is_allowed) {
        let message = "Invalid binary character was found in the message body, the set of allowed characters is \
                       #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF";
        return Err(Error::bad("InvalidMessageContents", message));
    }
    attributes(entry)?;
    let (is_fifo, settings) = (queue.messages.is_fifo, &queue.messages.settings);
    let most = settings.max_bytes;
    if entry.size() > most {
        let reason =
            format!("One or more parameters are invalid. Reason: Message must be shorter than {most} bytes.");
        return Err(invalid(reason));
    }
    if let Some(delay) = entry.delay {
        if is_fifo {
            return Err(wrong_type("DelaySeconds", &delay.to_string()));
        }
        if !(0..=MAX_DELAY).contains(&delay) {
            let reason = format!("DelaySeconds must be >= 0 and <= {MAX_DELAY}.");
            return Err(bad_value("DelaySeconds", &delay.to_string(), &reason));
        }
    }
    match (&entry.group, &entry.deduplication) {
        (None, _) if is_fifo => Err(missing("MessageGroupId")),
        (_, None) if is_fifo && !settings.content_based => Err(invalid(
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided \
             explicitly",
        )),
        (_, Some(id)) if !is_fifo => Err(wrong_type("MessageDeduplicationId", id)),
        _ => Ok(()),
    }
}

/// Checks message attributes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>
fn attributes(entry: &Entry) -> Result<(), Error> {
    let count = entry.attributes.len();
    if count > MAX_ATTRIBUTES {
        let message =
            format!("Number of message attributes [{count}] exceeds the allowed maximum [{MAX_ATTRIBUTES}].");
        return Err(invalid(message));
    }
    for (name, attribute) in &entry.attributes {
        let lower = name.to_ascii_lowercase();
        let good = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
        let reserved = lower.starts_with("aws.") || lower.starts_with("amazon.");
        if name.is_empty() || name.len() > 256 || reserved || !name.chars().all(good) {
            return Err(invalid(format!("The message attribute name '{name}' is invalid.")));
        }
        let base = attribute.kind.split('.').next().unwrap_or_default();
        let fits = match attribute.value {
            Data::Text(_) => matches!(base, "String" | "Number"),
            Data::Bytes(_) => base == "Binary",
        };
        if !fits {
            return Err(invalid(format!(
                "The message attribute '{name}' has an invalid message attribute type."
            )));
        }
        if attribute.value.bytes().is_empty() {
            let of = if base == "Binary" { "binary" } else { "string" };
            let message = format!(
                "The message attribute '{name}' must contain a non-empty message attribute value for message \
                 attribute type '{}' ({of}).",
                attribute.kind
            );
            return Err(invalid(message));
        }
    }
    Ok(())
}

/// Checks a visibility timeout by itself.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html>
pub(super) fn visibility(seconds: i64) -> Result<(), Error> {
    if (0..=MAX_VISIBILITY).contains(&seconds) {
        return Ok(());
    }
    let reason = format!("Must be between 0 and {MAX_VISIBILITY}.");
    Err(bad_value("VisibilityTimeout", &seconds.to_string(), &reason))
}

/// Creates the error of a message that would be hidden for too long since its receive.
pub(super) fn total_visibility(seconds: i64) -> Error {
    let reason =
        format!("Total VisibilityTimeout for the message is beyond the limit [{MAX_VISIBILITY} seconds]");
    bad_value("VisibilityTimeout", &seconds.to_string(), &reason)
}

fn is_allowed(it: char) -> bool {
    matches!(it, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::bad("InvalidParameterValue", message)
}

fn bad_value(name: &str, value: &str, reason: &str) -> Error {
    invalid(format!("Value {value} for parameter {name} is invalid. Reason: {reason}"))
}

fn wrong_type(name: &str, value: &str) -> Error {
    bad_value(name, value, "The request include parameter that is not valid for this queue type.")
}

fn missing(name: &str) -> Error {
    Error::bad("MissingParameter", format!("The request must contain the parameter {name}."))
}

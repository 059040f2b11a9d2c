//! The rules that SQS checks before it does anything, with SQS's own messages.

use std::collections::BTreeSet;

use redrive_sim_queue::{MAX_ATTRIBUTES, MAX_BYTES, MAX_DELAY, MAX_ENTRIES, MAX_VISIBILITY};

use super::queue::SimQueue;
use crate::error::Error;
use crate::message::{MAX_TOKEN, SimAttributeValue, SimEntry, is_token};

/// The longest name of an attribute, and the longest name of its type.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>
const MAX_NAME: usize = 256;

/// The longest `WaitTimeSeconds`.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html>
const MAX_WAIT: i64 = 20;

/// How SQS begins to say that a message is too long, alone and in a batch.
const PARAMETERS: &str = "One or more parameters are invalid. Reason: ";
const PARAMETERS_IN_BATCH: &str = "One or more parameters cannot be validated. Reason: ";

/// Checks a batch request as a whole.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html>
pub(super) fn batch(operation: &str, entries: &[SimEntry]) -> Result<(), Error> {
    let error =
        |code: &str, message: String| Err(Error::new(400, format!("AWS.SimpleQueueService.{code}"), message));
    if entries.is_empty() {
        let message = format!("There should be at least one {operation}BatchRequestEntry in the request.");
        return error("EmptyBatchRequest", message);
    }
    if entries.len() > MAX_ENTRIES {
        let count = entries.len();
        let message =
            format!("Maximum number of entries per request are {MAX_ENTRIES}. You have sent {count}.");
        return error("TooManyEntriesInBatchRequest", message);
    }
    let mut ids = BTreeSet::new();
    for SimEntry { id, .. } in entries {
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
pub(super) fn total(entries: &[SimEntry]) -> Result<(), Error> {
    let bytes: usize = entries.iter().map(SimEntry::size).sum();
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let message =
        format!("Batch requests cannot be longer than {MAX_BYTES} bytes. You have sent {bytes} bytes.");
    Err(Error::bad("AWS.SimpleQueueService.BatchRequestTooLong", message))
}

/// Checks a message.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
pub(super) fn message(queue: &SimQueue, entry: &SimEntry) -> Result<(), Error> {
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
        return Err(invalid(format!("{PARAMETERS}Message must be shorter than {most} bytes.")));
    }
    if let Some(delay) = entry.delay {
        if is_fifo && delay != 0 {
            return Err(wrong_type("DelaySeconds", &delay.to_string()));
        }
        if !(0..=MAX_DELAY).contains(&delay) {
            let reason = format!("DelaySeconds must be >= 0 and <= {MAX_DELAY}.");
            return Err(bad_value("DelaySeconds", &delay.to_string(), &reason));
        }
    }
    token("MessageGroupId", entry.group.as_deref())?;
    match &entry.deduplication {
        Some(id) if !is_fifo => Err(wrong_type("MessageDeduplicationId", id)),
        id => token("MessageDeduplicationId", id.as_deref()),
    }
}

/// Checks that a message of a FIFO queue has its group and its deduplication id. A batch with one that has not is
/// refused as a whole.
pub(super) fn fifo(queue: &SimQueue, entry: &SimEntry) -> Result<(), Error> {
    if !queue.messages.is_fifo {
        return Ok(());
    }
    if entry.group.is_none() {
        return Err(missing("MessageGroupId"));
    }
    if entry.deduplication.is_none() && !queue.messages.settings.content_based {
        return Err(invalid(
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided \
             explicitly",
        ));
    }
    Ok(())
}

/// Checks a group or a deduplication id.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
fn token(name: &str, value: Option<&str>) -> Result<(), Error> {
    match value {
        Some(value) if !is_token(value) => {
            let reason = format!(
                "{name} can only include alphanumeric and punctuation characters. 1 to {MAX_TOKEN} in length."
            );
            Err(bad_value(name, value, &reason))
        }
        _ => Ok(()),
    }
}

/// Returns the error of an entry with the words that it has in a batch.
pub(super) fn in_batch(error: Error) -> Error {
    match error.message.strip_prefix(PARAMETERS) {
        Some(rest) => Error { message: format!("{PARAMETERS_IN_BATCH}{rest}"), ..error },
        None => error,
    }
}

/// Checks `WaitTimeSeconds`.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html>
pub(crate) fn wait(seconds: i64) -> Result<(), Error> {
    if (0..=MAX_WAIT).contains(&seconds) {
        return Ok(());
    }
    let reason = format!("Must be >= 0 and <= {MAX_WAIT}, if provided.");
    Err(bad_value("WaitTimeSeconds", &seconds.to_string(), &reason))
}

/// Checks message attributes.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>
fn attributes(entry: &SimEntry) -> Result<(), Error> {
    let count = entry.attributes.len();
    if count > MAX_ATTRIBUTES {
        let message =
            format!("Number of message attributes [{count}] exceeds the allowed maximum [{MAX_ATTRIBUTES}].");
        return Err(invalid(message));
    }
    for (name, attribute) in &entry.attributes {
        let lower = name.to_ascii_lowercase();
        // Letters of every alphabet are taken. Recorded.
        let good = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.');
        let reserved = ["aws.", "amazon.", "."].iter().any(|prefix| lower.starts_with(prefix));
        let dotted = name.ends_with('.');
        if name.is_empty() || name.len() > MAX_NAME || reserved || dotted || !name.chars().all(good) {
            return Err(invalid(format!("The message attribute name '{name}' is invalid.")));
        }
        let base = attribute.kind.split('.').next().unwrap_or_default();
        let fits = match &attribute.value {
            SimAttributeValue::Text(_) => matches!(base, "String" | "Number"),
            SimAttributeValue::Bytes(_) => base == "Binary",
        };
        if !fits || attribute.kind.len() > MAX_NAME {
            return Err(invalid(format!(
                "The type of message (user) attribute '{name}' is invalid. You must use only the following \
                 supported type prefixes: Binary, Number, String."
            )));
        }
        if attribute.value.bytes().is_empty() {
            let kind = &attribute.kind;
            let message =
                format!("Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'.");
            return Err(invalid(message));
        }
        if matches!(&attribute.value, SimAttributeValue::Text(text) if !text.chars().all(is_allowed)) {
            return Err(invalid(format!(
                "Invalid characters in the value of message (user) attribute '{name}'."
            )));
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

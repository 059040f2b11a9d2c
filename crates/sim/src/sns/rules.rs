//! The rules that SNS checks before it does anything, with SNS's own messages.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{SimTopic, invalid};
use crate::error::Error;
use crate::message::{MAX_TOKEN, SimAttribute, SimAttributeValue, SimEntry, is_token};

/// The largest number of entries of a batch request, and the longest id of an entry.
/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>
const MAX_ENTRIES: usize = 10;
const MAX_ID: usize = 80;

/// The longest name of an attribute.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-attributes.html>
const MAX_NAME: usize = 256;

/// Checks a batch request as a whole.
/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>
pub(super) fn batch(entries: &[SimEntry]) -> Result<(), Error> {
    if entries.is_empty() {
        return Err(Error::bad("EmptyBatchRequest", "The batch request doesn't contain any entries."));
    }
    if entries.len() > MAX_ENTRIES {
        let message = "The batch request contains more entries than permissible.";
        return Err(Error::bad("TooManyEntriesInBatchRequest", message));
    }
    let mut ids = BTreeSet::new();
    for SimEntry { id, .. } in entries {
        let valid = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        let of = "The Id of a batch entry in the batch request";
        if id.len() > MAX_ID {
            return Err(Error::bad("InvalidBatchEntryId", format!("{of} is too long: {id}")));
        }
        if id.is_empty() || !id.chars().all(valid) {
            let message = format!("{of} contains an impermissible character: {id}");
            return Err(Error::bad("InvalidBatchEntryId", message));
        }
        if !ids.insert(id) {
            let message = "Two or more batch entries in the request have the same Id.";
            return Err(Error::bad("BatchEntryIdsNotDistinct", message));
        }
    }
    Ok(())
}

/// Checks a topic's ARN. The endpoint of a region takes only topics of that region. Recorded.
pub(crate) fn topic_arn(arn: &str, host: &str) -> Result<(), Error> {
    let elements: Vec<_> = arn.split(':').collect();
    if elements.len() < 6 {
        let count = elements.len();
        return Err(invalid(&format!("TopicArn Reason: An ARN must have at least 6 elements, not {count}")));
    }
    let region = host.strip_prefix("sns.").and_then(|rest| rest.split('.').next());
    if region.is_some_and(|region| region != elements[3]) {
        return Err(invalid("TopicArn"));
    }
    Ok(())
}

/// Checks a message.
/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
pub(super) fn message(topic: &SimTopic, entry: &SimEntry) -> Result<(), Error> {
    if entry.body.is_empty() {
        return Err(invalid("Empty message"));
    }
    if entry.structure.is_some() {
        structure(entry)?;
    }
    if size(entry) > topic.settings.max_bytes {
        return Err(invalid("Message too long"));
    }
    if let Some(subject) = &entry.subject {
        let good = |it: char| !it.is_control();
        if subject.is_empty() || subject.chars().count() > 100 || !subject.chars().all(good) {
            return Err(invalid("Subject"));
        }
    }
    entry.attributes.iter().try_for_each(|(name, it)| attribute(name, it))?;
    token("MessageGroupId", entry.group.as_deref())?;
    token("MessageDeduplicationId", entry.deduplication.as_deref())?;
    let is_fifo = topic.name.strip_suffix(".fifo").is_some();
    if is_fifo && entry.group.is_none() {
        return Err(invalid("The MessageGroupId parameter is required for FIFO topics"));
    }
    if is_fifo && entry.deduplication.is_none() && !topic.settings.content_based {
        return Err(invalid(
            "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided \
             explicitly",
        ));
    }
    if !is_fifo && entry.deduplication.is_some() {
        let what = "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not \
             valid for this topic type";
        return Err(invalid(what));
    }
    Ok(())
}

/// Checks a group or a deduplication id.
/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
fn token(name: &str, value: Option<&str>) -> Result<(), Error> {
    if value.is_none_or(is_token) {
        return Ok(());
    }
    let reason = format!("must be 1 to {MAX_TOKEN} alphanumeric and punctuation characters");
    Err(invalid(&format!("{name} Reason: {reason}")))
}

/// Checks a message that has a text for each protocol.
/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
fn structure(entry: &SimEntry) -> Result<(), Error> {
    if entry.structure.as_deref() != Some("json") {
        return Err(invalid("MessageStructure"));
    }
    let texts: Value = serde_json::from_str(&entry.body)
        .map_err(|_| invalid("Message Structure - JSON message body failed to parse"))?;
    if texts["default"].is_string() {
        return Ok(());
    }
    Err(invalid("Message Structure - No default entry in JSON message body"))
}

/// Returns the bytes that SNS counts.
pub(super) fn size(entry: &SimEntry) -> usize {
    entry.size() + entry.subject.as_ref().map_or(0, String::len)
}

/// Checks a message attribute.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-attributes.html>
fn attribute(name: &str, SimAttribute { kind, value }: &SimAttribute) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::bad("ParameterValueInvalid", message));
    attribute_name(name)?;
    if kind.is_empty() {
        let message = format!(
            "1 validation error detected: Value null at 'messageAttributes.{name}.member.dataType' failed to satisfy \
             constraint: Member must not be null"
        );
        return Err(Error::bad("ValidationError", message));
    }
    let base = kind.split('.').next().unwrap_or_default();
    let field = match base {
        "String" | "Number" => "String",
        "Binary" => "Binary",
        _ => {
            return refuse(format!(
                "The message attribute '{name}' has an invalid message attribute type, the set of supported type \
                 prefixes is Binary, Number, and String."
            ));
        }
    };
    if value.bytes().is_empty() {
        return refuse(format!(
            "The message attribute '{name}' must contain non-empty message attribute value for message attribute type \
             '{kind}'."
        ));
    }
    if (field == "Binary") != matches!(value, SimAttributeValue::Bytes(_)) {
        return refuse(format!(
            "The message attribute '{name}' with type '{kind}' must use field '{field}'."
        ));
    }
    Ok(())
}

fn attribute_name(name: &str) -> Result<(), Error> {
    let good = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let message = if name.len() > MAX_NAME {
        "Length of message attribute name must be less than 256 bytes.".to_owned()
    } else if name.starts_with('.') {
        "Invalid message attribute name starting with character '.' was found.".to_owned()
    } else if name.ends_with('.') {
        "Invalid message attribute name ending with character '.' was found.".to_owned()
    } else if name.contains("..") {
        "Message attribute name can not have successive '.' character.".to_owned()
    } else if let Some(bad) = name.chars().find(|it| !good(*it)) {
        let code = u32::from(bad);
        format!(
            "Invalid non-alphanumeric character '#x{code:X}' was found in the message attribute name. Can only include \
             alphanumeric characters, hyphens, underscores, or dots."
        )
    } else {
        return Ok(());
    };
    Err(Error::bad("ParameterValueInvalid", message))
}

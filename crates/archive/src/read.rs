//! Reads lines that [`ArchiveRecord`] wrote, and rebuilds the SQS message of a record.
//!
//! A line may come from a later version of this software, from an editor or from a broken upload. Each bad
//! line is reported on its own, so that it does not hide the others. The report never quotes the line,
//! because the line may hold a message.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use redrive_core::letter::{
    BelievedClaims, Letter, SqsMessage, SqsRecord, SqsRecordAttribute, TrustedOrigins, is_binary,
};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::erased::ErasedRecord;
use super::letter_identity::LetterIdentity;
use super::record::{ArchiveRecord, RECORD_VERSION, RecordedAttribute, RecordedMessage};

/// The reason why a line is no usable record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// The bytes are no text.
    #[error("is not UTF-8")]
    NotText,
    /// The line is longer than any record can be.
    #[error("is longer than a record can be")]
    TooLong,
    /// The line is not JSON, or it is cut off.
    #[error("is not JSON (column {column})")]
    NotJson {
        /// The column of the fault, from 1.
        column: usize,
    },
    /// The line is JSON, but not a record.
    #[error("is not a record of an archive: it has no version")]
    NoVersion,
    /// Another version of this software wrote the record.
    #[error("has version {found}, but this software reads only version {RECORD_VERSION}")]
    Version {
        /// The record's version.
        found: String,
    },
    /// The record does not have the form of its version.
    #[error("is not a valid record: {problem}")]
    Form {
        /// The fault.
        problem: String,
    },
    /// The SQS message cannot be rebuilt.
    #[error("message.{field} is missing or has no usable value")]
    Message {
        /// The faulty field of `message`.
        field: String,
    },
    /// An operator has erased the letter.
    #[error("was a letter that was erased at {}", .0.erased.at)]
    Erased(Box<ErasedRecord>),
    /// The function could not read the letter's record.
    #[error("holds a letter that the function could not read: its field record has it as it came")]
    Unread,
}

impl ArchiveRecord {
    /// Reads a line, with or without its line end. Fields that this version does not know are ignored.
    ///
    /// # Errors
    ///
    /// [`BadRecord`] of any kind except [`BadRecord::Message`] and [`BadRecord::Unread`]: [`BadRecord::Erased`] of a
    /// letter that was erased.
    pub fn from_line(line: &str) -> Result<Self, BadRecord> {
        // A JSON list is no record, but serde would read one as the fields in their order.
        if line.trim_start().starts_with('[') {
            return Err(BadRecord::NoVersion);
        }
        // There is one form so far. If there is a second one, tell them apart here.
        match serde_json::from_str::<Self>(line) {
            Ok(record) if record.version != RECORD_VERSION => {
                Err(BadRecord::Version { found: record.version.to_string() })
            }
            Ok(record) if record.archived_at.parse::<Timestamp>().is_err() => {
                Err(BadRecord::Form { problem: "archivedAt is not a time".to_owned() })
            }
            Ok(record) => Ok(record),
            Err(error) => Err(bad(line, &error)),
        }
    }

    /// Returns the identity of the letter's place in its queue.
    #[must_use]
    pub fn identity(&self) -> LetterIdentity {
        LetterIdentity::of(self.queue_arn.as_str(), &self.message.message_id)
    }

    /// Returns when the letter was archived, or the earliest possible time if a record made by hand holds no
    /// time.
    #[must_use]
    pub fn archived(&self) -> Timestamp {
        self.archived_at.parse().unwrap_or(Timestamp::MIN)
    }

    /// Returns the letter as the function had read it. What its mark says of the requeue, and the origin that
    /// it claims, are believed only if the function had believed them.
    ///
    /// # Errors
    ///
    /// The same as those of [`ArchiveRecord::to_message`].
    pub fn to_letter(&self) -> Result<Letter, BadRecord> {
        let requeue = (self.dead_letter_queue_arn != self.queue_arn).then_some(&self.queue_arn);
        let read = |message, origins| Letter::received(message, BelievedClaims { requeue, origins });
        let letter = read(self.to_message()?, TrustedOrigins::none());
        if letter.origin.name() == self.origin {
            return Ok(letter);
        }
        let letter = read(letter.sqs, &TrustedOrigins::all());
        if letter.origin.name() == self.origin {
            return Ok(letter);
        }
        Ok(Letter::parse_requeued(letter.sqs, &TrustedOrigins::all()))
    }

    /// Returns the original SQS message. Its receipt handle is empty, because it was never stored.
    ///
    /// # Errors
    ///
    /// [`BadRecord::Message`] with the first field whose value no message of SQS has. [`BadRecord::Unread`] if
    /// the function could not read the message, so that nobody knows whether what it read is the whole.
    pub fn to_message(&self) -> Result<SqsMessage, BadRecord> {
        if self.record.is_some() {
            return Err(BadRecord::Unread);
        }
        let bad = |field: &str| BadRecord::Message { field: field.to_owned() };
        let recorded = &self.message;
        let mut attributes = std::collections::BTreeMap::new();
        for (name, recorded) in &recorded.message_attributes {
            let attribute = attribute(recorded).ok_or_else(|| bad("messageAttributes"))?;
            attributes.insert(name.clone(), attribute);
        }
        let record = SqsRecord {
            message_id: Some(recorded.message_id.clone()),
            receipt_handle: Some("none".to_owned()),
            body: Some(recorded.body.clone()),
            attributes: recorded.attributes.clone(),
            message_attributes: attributes,
            event_source_arn: Some(recorded.event_source_arn.as_str().to_owned()),
        };
        let message = SqsMessage::of_record(record, None).map_err(bad)?;
        Ok(SqsMessage { receipt_handle: String::new(), ..message })
    }
}

impl RecordedMessage {
    /// Returns a digest of the whole message. Two messages with the same digest are the same.
    ///
    /// # Errors
    ///
    /// Fails only if the message cannot be written as JSON, which none of our messages can cause.
    pub fn digest(&self) -> Result<String, serde_json::Error> {
        let digest = Sha256::digest(serde_json::to_string(self)?);
        Ok(URL_SAFE_NO_PAD.encode(digest))
    }
}

/// Rebuilds an attribute. Returns `None` if it lacks the value that its type needs.
fn attribute(recorded: &RecordedAttribute) -> Option<SqsRecordAttribute> {
    let data_type = Some(recorded.data_type.clone());
    let mut attribute = SqsRecordAttribute { data_type, ..SqsRecordAttribute::default() };
    if is_binary(&recorded.data_type) {
        attribute.binary_value = Some(STANDARD.decode(recorded.binary_value.as_ref()?).ok()?);
    } else {
        attribute.string_value = Some(recorded.string_value.clone()?);
    }
    Some(attribute)
}

/// Finds out why a line does not have the form of this version.
fn bad(line: &str, error: &serde_json::Error) -> BadRecord {
    #[derive(Deserialize)]
    struct RecordVersion {
        version: Option<Value>,
    }
    if !error.is_data() {
        return BadRecord::NotJson { column: error.column() };
    }
    if let Ok(erased) = serde_json::from_str::<ErasedRecord>(line)
        && erased.version == RECORD_VERSION
    {
        return BadRecord::Erased(Box::new(erased));
    }
    let version = serde_json::from_str::<RecordVersion>(line).ok().and_then(|probe| probe.version);
    match version.as_ref().map(Value::as_u64) {
        None => BadRecord::NoVersion,
        Some(Some(version)) if version == u64::from(RECORD_VERSION) => {
            BadRecord::Form { problem: problem(error) }
        }
        Some(Some(version)) => BadRecord::Version { found: version.to_string() },
        Some(None) => BadRecord::Version { found: "unknown".to_owned() },
    }
}

/// Returns serde's message if it does not quote a value, otherwise only the column.
fn problem(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let place = format!("column {}", error.column());
    if said.starts_with("missing field") {
        said.split(" at line").next().unwrap_or_default().to_owned()
    } else {
        format!("a field has another type ({place})")
    }
}

//! The line that stands in the place of a letter that an operator has erased.
//!
//! It has what the object's key counts the letter by, the times, and the identity by which ledgers know it. It has
//! nothing of the message, and none of its ids.

use jiff::Timestamp;
use redrive_core::arn::Arn;
use redrive_core::endpoint::TargetName;
use serde::{Deserialize, Serialize};

use super::letter_identity::LetterIdentity;
use super::record::{ArchiveRecord, RECORD_VERSION};

/// The line of an erased letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErasedRecord {
    /// The version of the format: [`RECORD_VERSION`].
    pub version: u8,
    /// The time at which the letter was archived, in RFC 3339.
    pub archived_at: String,
    /// The reason for archiving it.
    pub reason: String,
    /// The queue that held the letter.
    pub queue_arn: Arn,
    /// The dead-letter queue of the letter.
    pub dead_letter_queue_arn: Arn,
    /// The topic of the SNS message in the letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_arn: Option<Arn>,
    /// The ARN of the letter's target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_arn: Option<Arn>,
    /// The name of the letter's target, if it is a web server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_url: Option<TargetName>,
    /// The erasing.
    pub erased: Erasure,
}

/// The erasing of a letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// The time, in RFC 3339.
    pub at: Timestamp,
    /// The identity of the record.
    pub letter: LetterIdentity,
    /// Its [`LetterIdentity::of_letter`], so that another erasing finds other records of the letter.
    #[serde(rename = "ofLetter")]
    pub of_letter: LetterIdentity,
}

impl ErasedRecord {
    /// Builds the line that takes the place of a record.
    #[must_use]
    pub fn of(record: &ArchiveRecord, at: Timestamp) -> Self {
        Self {
            version: RECORD_VERSION,
            archived_at: record.archived_at.clone(),
            reason: record.reason.clone(),
            queue_arn: record.queue_arn.clone(),
            dead_letter_queue_arn: record.dead_letter_queue_arn.clone(),
            topic_arn: record.topic_arn.clone(),
            target_arn: record.target_arn.clone(),
            target_url: record.target_url.clone(),
            erased: Erasure {
                at,
                letter: record.identity(),
                of_letter: LetterIdentity::of_letter(&record.letter_id),
            },
        }
    }

    /// Returns the line, without its line end.
    ///
    /// # Errors
    ///
    /// Fails only if it cannot be written as JSON, which none of our lines can cause.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Returns when the letter was archived.
    #[must_use]
    pub fn archived(&self) -> Timestamp {
        self.archived_at.parse().unwrap_or(Timestamp::MIN)
    }

    /// Returns the name of the letter's target.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        self.target_arn.as_ref().map(Arn::as_str).or(self.target_url.as_ref().map(TargetName::as_str))
    }
}

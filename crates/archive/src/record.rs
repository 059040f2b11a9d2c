//! The archived record: one line of JSON from which the SQS message can be rebuilt exactly.
//!
//! `message` has the form of a record in Lambda's own event, so an archived letter can be put into an event
//! and run again. It lacks the receipt handle, which is useless and secret, and the MD5 sums, which follow
//! from body and attributes.
//!
//! `docs/SEMANTICS.md` explains the fields to readers of the archive.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::arn::Arn;
use redrive_core::batch::ArchiveContext;
use redrive_core::endpoint::TargetName;
use redrive_core::letter::{AttributeValue, Letter, MessageAttribute, SqsMessage};
use serde::{Deserialize, Serialize};

/// The version of the format that this software writes.
pub const RECORD_VERSION: u8 = 1;

/// One archived letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveRecord {
    /// The version of the format: [`RECORD_VERSION`].
    pub version: u8,
    /// The time of archiving, in RFC 3339.
    pub archived_at: String,
    /// The name of the reason: [`ArchiveReason::name`](redrive_core::policy::ArchiveReason::name).
    pub reason: String,
    /// Details of the reason, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The queue that held the letter.
    pub queue_arn: Arn,
    /// The dead-letter queue of the letter.
    pub dead_letter_queue_arn: Arn,
    /// The letter's id.
    pub letter_id: String,
    /// The origin's name.
    pub origin: String,
    /// The topic of the SNS message in the letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_arn: Option<Arn>,
    /// The subscription that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription_arn: Option<Arn>,
    /// The rule that applied to the letter.
    pub rule: String,
    /// The ARN of the letter's target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_arn: Option<Arn>,
    /// The name of the letter's target, if it is a web server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_url: Option<TargetName>,
    /// The last retry that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RecordedRetry>,
    /// The failure of that retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RecordedError>,
    /// The id of the override that applied to the letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "override")]
    pub override_id: Option<String>,
    /// The original error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<RecordedCause>,
    /// The SQS message. If the letter's record could not be read, this is what could be read of it.
    pub message: RecordedMessage,
    /// The record of Lambda's event as it came, if it could not be read: JSON text, byte for byte, but with an
    /// empty receipt handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
}

/// The last retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRetry {
    /// The retry's number, from 1. If the attempt was early, it is the number of the retry before.
    pub number: u32,
    /// The number of retries in the schedule.
    pub of: u32,
    /// `true` if the attempt came before the next planned retry, so that it took no number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub early: bool,
}

/// The last failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedError {
    /// The service's code.
    pub code: String,
    /// The failure's class.
    pub class: String,
    /// The service's message, if an operator can fix what it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The original error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCause {
    /// A short error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The error message of the failed code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The SQS message, as in Lambda's event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedMessage {
    /// SQS's id.
    pub message_id: String,
    /// The body.
    pub body: String,
    /// The system attributes.
    pub attributes: BTreeMap<String, String>,
    /// The message attributes.
    pub message_attributes: BTreeMap<String, RecordedAttribute>,
    /// Always `aws:sqs`.
    pub event_source: String,
    /// The queue's ARN.
    #[serde(rename = "eventSourceARN")]
    pub event_source_arn: Arn,
    /// The queue's region.
    pub aws_region: String,
}

/// A message attribute, as in Lambda's event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAttribute {
    /// The value, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string_value: Option<String>,
    /// The value in base64, if it is bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary_value: Option<String>,
    /// The type.
    pub data_type: String,
}

impl ArchiveRecord {
    /// Builds the record of a letter.
    #[must_use]
    pub fn of(letter: &Letter, context: &ArchiveContext, at: jiff::Timestamp) -> Self {
        let target = context.target.as_ref();
        Self {
            version: RECORD_VERSION,
            archived_at: at.to_string(),
            reason: context.reason.name().to_owned(),
            detail: context.detail.clone(),
            queue_arn: letter.sqs.queue.clone(),
            dead_letter_queue_arn: letter.dead_letter_queue().clone(),
            letter_id: letter.id.as_str().to_owned(),
            origin: letter.origin.name().to_owned(),
            topic_arn: letter.topic().cloned(),
            subscription_arn: letter.subscription().cloned(),
            rule: context.rule.clone(),
            target_arn: target.and_then(|target| target.as_str().parse().ok()),
            target_url: target.filter(|target| target.is_url()).cloned(),
            retry: context.retry.map(|retry| RecordedRetry {
                number: retry.number,
                of: retry.of,
                early: retry.is_early(),
            }),
            error: context.failure.as_ref().map(|failure| RecordedError {
                code: failure.code.clone(),
                class: failure.class.name().to_owned(),
                message: failure.message.clone(),
            }),
            override_id: context.override_id.clone(),
            cause: letter
                .cause
                .as_ref()
                .map(|cause| RecordedCause { code: cause.code.clone(), message: cause.message.clone() }),
            message: RecordedMessage::of(&letter.sqs),
            record: letter.sqs.unread.as_ref().map(|unread| unread.record.clone()),
        }
    }

    /// Returns the name of the letter's target.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        self.target_arn.as_ref().map(Arn::as_str).or(self.target_url.as_ref().map(TargetName::as_str))
    }

    /// Returns the record as one line, with its line end.
    ///
    /// # Errors
    ///
    /// Fails only if the record cannot be written as JSON, which none of our records can cause. It is an
    /// error, not a panic, because a letter may be deleted only once its line is complete.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        Ok(line)
    }

    /// Returns the record without the message itself, for an attribute of the message.
    #[must_use]
    pub fn to_summary(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("message");
            fields.remove("record");
            fields.insert("sqsMessageId".to_owned(), self.message.message_id.clone().into());
        }
        value.to_string()
    }
}

impl RecordedMessage {
    fn of(sqs: &SqsMessage) -> Self {
        let attributes = sqs.attributes.iter();
        Self {
            message_id: sqs.message_id.clone(),
            body: sqs.body.clone(),
            attributes: sqs.system.clone(),
            message_attributes: attributes
                .map(|(name, value)| (name.clone(), RecordedAttribute::of(value)))
                .collect(),
            event_source: "aws:sqs".to_owned(),
            event_source_arn: sqs.queue.clone(),
            aws_region: sqs.queue.region().to_owned(),
        }
    }
}

impl RecordedAttribute {
    fn of(attribute: &MessageAttribute) -> Self {
        let (string_value, binary_value) = match &attribute.value {
            AttributeValue::Text(text) => (Some(text.clone()), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self { string_value, binary_value, data_type: attribute.data_type.clone() }
    }
}

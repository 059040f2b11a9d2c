//! Letters as pages show them: archived letters from their records, waiting letters from the list.

use jiff::Timestamp;
use redrive_archive::{ArchiveRecord, LocatedRecord};
use redrive_core::waiting::WaitingLetter;

use crate::query::GroupField;

/// An archived letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedLetter {
    /// The key of the object with its record.
    pub key: String,
    /// Its id.
    pub id: String,
    /// The message id that SQS gave it.
    pub message_id: String,
    /// The values of its fields.
    pub fields: LetterFields,
    /// The time of its archive.
    pub archived: Timestamp,
    /// The time of its arrival, if its message names it.
    pub arrived: Option<Timestamp>,
    /// The last retry that was made, and the number of retries in the schedule.
    pub retry: Option<(u32, u32)>,
    /// True if a replay sent it; `None` if that is unknown.
    pub replayed: Option<bool>,
}

/// A waiting letter, hidden in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingOne {
    /// Its id.
    pub id: String,
    /// The message id that SQS gave it.
    pub message_id: String,
    /// The values of its fields.
    pub fields: LetterFields,
    /// The time of its first arrival.
    pub since: Timestamp,
    /// The time when its retry is due.
    pub due: Timestamp,
    /// The time when it was hidden: after its last attempt, if there was one.
    pub hidden: Option<Timestamp>,
    /// The next retry, and the number of retries in the schedule.
    pub retry: (u32, u32),
    /// The override or the rule that holds it, if any.
    pub held_by: Option<String>,
    /// True if the function wakes it when its endpoint is back.
    pub recovers: bool,
    /// True if its endpoint is back, and the function has claimed it, to wake it.
    pub claimed: bool,
}

/// The values of a letter's fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterFields {
    /// The topic that it was published to.
    pub topic: Option<String>,
    /// The subscription that failed.
    pub subscription: Option<String>,
    /// The endpoint of its retries.
    pub target: Option<String>,
    /// The code of the last failure.
    pub error: Option<String>,
    /// The error code by which Lambda or `EventBridge` gave up on it.
    pub cause: Option<String>,
    /// The rule.
    pub rule: Option<String>,
    /// The reason why it was archived.
    pub reason: Option<String>,
    /// The dead-letter queue that it came from.
    pub queue: Option<String>,
}

impl LetterFields {
    /// Returns the value of a field.
    #[must_use]
    pub fn get(&self, field: GroupField) -> Option<&str> {
        match field {
            GroupField::Topic => self.topic.as_deref(),
            GroupField::Subscription => self.subscription.as_deref(),
            GroupField::Target => self.target.as_deref(),
            GroupField::Error => self.error.as_deref(),
            GroupField::Cause => self.cause.as_deref(),
            GroupField::Rule => self.rule.as_deref(),
            GroupField::Reason => self.reason.as_deref(),
            GroupField::Queue => self.queue.as_deref(),
        }
    }
}

impl From<&ArchiveRecord> for LetterFields {
    fn from(record: &ArchiveRecord) -> Self {
        Self {
            topic: record.topic_arn.as_ref().map(ToString::to_string),
            subscription: record.subscription_arn.as_ref().map(ToString::to_string),
            target: record.target().map(str::to_owned),
            error: record.error.as_ref().map(|error| error.code.clone()),
            cause: record.cause.as_ref().and_then(|cause| cause.code.clone()),
            rule: Some(record.rule.clone()).filter(|rule| !rule.is_empty()),
            reason: Some(record.reason.clone()),
            queue: Some(record.dead_letter_queue_arn.resource().to_owned()),
        }
    }
}

impl From<&LocatedRecord> for ArchivedLetter {
    fn from(found: &LocatedRecord) -> Self {
        let record = &found.record;
        Self {
            key: found.key.to_string(),
            id: record.letter_id.clone(),
            message_id: record.message.message_id.clone(),
            fields: record.into(),
            archived: record.archived(),
            arrived: arrived(record),
            retry: record.retry.map(|retry| (retry.number, retry.of)),
            replayed: None,
        }
    }
}

impl From<WaitingLetter> for WaitingOne {
    fn from(letter: WaitingLetter) -> Self {
        let queue = letter.dead_letter_queue_arn.as_ref().unwrap_or(&letter.queue_arn);
        let fields = LetterFields {
            topic: letter.topic_arn,
            subscription: letter.subscription_arn,
            target: letter.target.as_ref().map(ToString::to_string),
            error: letter.error,
            cause: None,
            rule: Some(letter.rule).filter(|rule| !rule.is_empty()),
            reason: None,
            queue: Some(queue.resource().to_owned()),
        };
        Self {
            id: letter.letter_id,
            message_id: letter.message_id,
            fields,
            since: letter.since,
            due: letter.due,
            hidden: letter.hidden,
            retry: (letter.retry.number, letter.retry.of),
            held_by: letter.held_by,
            recovers: letter.recovers,
            claimed: false,
        }
    }
}

/// Returns when SQS received the message.
pub(super) fn arrived(record: &ArchiveRecord) -> Option<Timestamp> {
    let sent = record.message.attributes.get("SentTimestamp")?;
    Timestamp::from_millisecond(sent.parse().ok()?).ok()
}

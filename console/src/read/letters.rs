//! Letters, as pages know them: archived ones from their records, waiting ones from the list.

use jiff::Timestamp;
use sns_redrive::archive::{Archived, Record};
use sns_redrive::waiting::WaitingLetter;

use crate::query::Field;

/// A letter that was archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedLetter {
    /// The key of the object that holds it.
    pub key: String,
    /// Its id.
    pub id: String,
    /// SQS's id of its message.
    pub message_id: String,
    /// The values of its fields.
    pub fields: Fields,
    /// The moment at which it was archived.
    pub archived: Timestamp,
    /// The moment of its arrival, if its message tells.
    pub arrived: Option<Timestamp>,
    /// The last retry that was made, and how many the schedule has.
    pub retry: Option<(u32, u32)>,
    /// True if a replay has sent it; none where that is not known.
    pub replayed: Option<bool>,
}

/// A letter that waits hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingOne {
    /// Its id.
    pub id: String,
    /// SQS's id of its message.
    pub message_id: String,
    /// The values of its fields.
    pub fields: Fields,
    /// The moment of its first arrival.
    pub since: Timestamp,
    /// The moment at which its retry is due.
    pub due: Timestamp,
    /// The retry that comes next, and how many the schedule has.
    pub retry: (u32, u32),
    /// What holds it, if anything does.
    pub held_by: Option<String>,
}

/// The values of a letter's fields; none where it has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// The topic.
    pub topic: Option<String>,
    /// The subscription.
    pub subscription: Option<String>,
    /// The target.
    pub target: Option<String>,
    /// The code of the last failure.
    pub error: Option<String>,
    /// The rule.
    pub rule: Option<String>,
    /// The reason for which it was archived.
    pub reason: Option<String>,
    /// The dead-letter queue.
    pub queue: Option<String>,
}

impl Fields {
    /// Returns the value of a field.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&str> {
        match field {
            Field::Topic => self.topic.as_deref(),
            Field::Subscription => self.subscription.as_deref(),
            Field::Target => self.target.as_deref(),
            Field::Error => self.error.as_deref(),
            Field::Rule => self.rule.as_deref(),
            Field::Reason => self.reason.as_deref(),
            Field::Queue => self.queue.as_deref(),
        }
    }
}

impl From<&Record> for Fields {
    fn from(record: &Record) -> Self {
        Self {
            topic: record.topic_arn.as_ref().map(ToString::to_string),
            subscription: record.subscription_arn.as_ref().map(ToString::to_string),
            target: record.target().map(str::to_owned),
            error: record.error.as_ref().map(|error| error.code.clone()),
            rule: Some(record.rule.clone()).filter(|rule| !rule.is_empty()),
            reason: Some(record.reason.clone()),
            queue: Some(record.dead_letter_queue().resource().to_owned()),
        }
    }
}

impl From<&Archived> for ArchivedLetter {
    fn from(found: &Archived) -> Self {
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
        let fields = Fields {
            topic: letter.topic_arn,
            subscription: letter.subscription_arn,
            target: letter.target.as_ref().map(ToString::to_string),
            error: letter.error,
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
            retry: (letter.retry.number, letter.retry.of),
            held_by: letter.held_by,
        }
    }
}

/// Returns the moment at which SQS got the message.
pub(super) fn arrived(record: &Record) -> Option<Timestamp> {
    let sent = record.message.attributes.get("SentTimestamp")?;
    Timestamp::from_millisecond(sent.parse().ok()?).ok()
}

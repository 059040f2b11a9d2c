//! Dead letters: the messages in the queue, parsed.
//!
//! SNS, SQS, Lambda and `EventBridge` all leave failed messages in SQS queues, each in a form of its own.
//! [`Letter::parse`] recognises the form and takes out what the rest of the software needs: topic,
//! subscription, message, attributes, the original error if there is one, and our own mark. It never fails. A
//! body that cannot be read is a letter of origin `raw`, kept whole.
//!
//! Everything here is pure: no AWS client, no clock, no logging.
//!
//! | origin | how it is recognised |
//! |---|---|
//! | `sqs` | system attribute `DeadLetterQueueSourceArn`, whatever the body |
//! | `sns` | body is an SNS envelope |
//! | `eventbridge-bus` | body is a record of events that a custom event bus could not deliver |
//! | `eventbridge` | message attributes `RULE_ARN` and `TARGET_ARN`, if the policy lists the origin |
//! | `lambda-async` | message attributes `RequestID` and `ErrorCode`, if the policy lists the origin |
//! | `lambda-destination` | body with `requestContext.functionArn` and `requestPayload`, if the policy lists the origin |
//! | `raw` | everything else, including raw deliveries of SNS |

mod claim;
mod digest;
mod event;
mod id;
mod mark;
mod message;
mod notification;
mod origin;
mod reading;
mod records;
mod unread;
mod unreadable;
mod wire;

use std::borrow::Cow;

use jiff::Timestamp;
use serde::de::IgnoredAny;

pub use claim::{OriginClaim, TrustedOrigins};
pub use digest::MessageDigest;
pub use event::{SqsEvent, SqsRecords};
pub use id::LetterId;
pub use mark::{BadReplayTarget, MARK_ATTRIBUTE, Mark, ReplayTarget, RequeueMark};
pub use message::is_binary;
pub use message::{
    AttributeValue, BadEvent, MAX_ATTRIBUTES, MessageAttribute, MessageAttributes, SqsMessage,
};
pub use notification::Notification;
pub use origin::{LetterCause, Origin};
pub use unreadable::UnreadableRecord;
pub use wire::{SqsRecord, SqsRecordAttribute};

use crate::arn::Arn;
use reading::{MessageForm, digest_of_body, is_of, mark_in_event};
use records::{StreamBatch, payload_of_destination};

/// A dead letter: one SQS message, understood as far as it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The message as received.
    pub sqs: SqsMessage,
    /// The way in which it got into the queue.
    pub origin: Origin,
    /// The SNS message in it, if there is one.
    pub notification: Option<Notification>,
    /// The original error, if the origin names it.
    pub cause: Option<LetterCause>,
    /// Our mark, if we have sent this very message before.
    pub mark: Option<Mark>,
    /// The number of times that we have sent a message with its mark, even if that was another message.
    pub passes: u32,
    /// True if its mark was made for another message.
    pub is_copy: bool,
    /// The origin that it claims, if the policy does not list that for its queue.
    pub unlisted: Option<OriginClaim>,
    /// The letter's id, the same each time it comes back.
    pub id: LetterId,
}

/// The claims that the reader of a message believes, beyond what SQS itself says.
#[derive(Debug, Clone, Copy)]
pub struct BelievedClaims<'a> {
    /// The queue whose marks are believed when they name the dead-letter queue that a letter came from.
    pub requeue: Option<&'a Arn>,
    /// The origins that a letter may claim.
    pub origins: &'a TrustedOrigins,
}

impl Letter {
    /// Parses a message of a dead-letter queue as far as it can be understood. It never fails. Any sender may
    /// have put it there, so it believes neither what its mark says of the requeue nor an origin that it
    /// claims.
    #[must_use]
    pub fn parse(sqs: SqsMessage) -> Self {
        Self::read(sqs, false, TrustedOrigins::none())
    }

    /// Parses a message of one of the queues that feed the function.
    #[must_use]
    pub fn received(sqs: SqsMessage, trust: BelievedClaims<'_>) -> Self {
        // SQS can move messages there for anyone who makes it a dead-letter queue of theirs, without a permission.
        let in_requeue = trust.requeue == Some(&sqs.queue) && sqs.source_queue().is_none();
        Self::read(sqs, in_requeue, trust.origins)
    }

    /// Parses a message of the requeue, where only this software sends.
    #[must_use]
    pub fn parse_requeued(sqs: SqsMessage, origins: &TrustedOrigins) -> Self {
        Self::read(sqs, true, origins)
    }

    fn read(sqs: SqsMessage, in_requeue: bool, origins: &TrustedOrigins) -> Self {
        let own = Mark::find(&sqs.attributes);
        let own = own.map(|mark| if in_requeue { mark } else { mark.outside_requeue() });
        let requeued = own.as_ref().map(|mark| mark.requeued.clone()).unwrap_or_default();
        let dlq = requeued.dlq.as_ref().unwrap_or(&sqs.queue);
        let MessageForm { origin, notification, cause, unlisted } =
            MessageForm::of(&sqs, requeued.source, |claim| origins.list(dlq, claim));
        let inside = || {
            let mark = Mark::find(&notification.as_ref()?.attributes)?.outside_requeue();
            // Attributes in an envelope were published. An event for a function can get attributes in other
            // ways too.
            let published = u32::from(matches!(origin, Origin::Sns | Origin::Sqs { .. }));
            Some(Mark { published: mark.published.max(published), ..mark })
        };
        let mark = own.or_else(inside).or_else(|| mark_in_event(&sqs.body));
        // Else a publisher could name a time ahead, and no override about letters that arrived before would count.
        let mark = mark.map(|mark| Mark { first: mark.first.min(sqs.sent), ..mark });
        let passes = mark.as_ref().map_or(0, |mark| mark.passes);
        let is_copy = mark.as_ref().is_some_and(|mark| !is_of(mark.digest, &sqs.body, notification.as_ref()));
        let mark = mark.and_then(|mark| {
            if !is_copy {
                return Some(mark);
            }
            let id = LetterId::of(&sqs, notification.as_ref(), None);
            in_requeue.then(|| mark.on_other_message(&id))
        });
        let id = LetterId::of(&sqs, notification.as_ref(), mark.as_ref().map(|mark| mark.id.as_str()));
        Self { sqs, origin, notification, cause, mark, passes, is_copy, unlisted, id }
    }

    /// Returns the letter without the origin that it claims: as a raw delivery, which any sender can write.
    #[must_use]
    pub fn into_raw(self) -> Self {
        Self { origin: Origin::Raw, notification: None, cause: None, ..self }
    }

    /// Returns the mark for the letter's way into the requeue, with `spent` retries behind it.
    #[must_use]
    pub fn mark_for_requeue(&self, spent: u32, due: Option<Timestamp>) -> Mark {
        let source = match &self.origin {
            Origin::Sqs { source } => Some(source.clone()),
            _ => None,
        };
        let dlq = Some(self.dead_letter_queue().clone());
        let known = self.mark.as_ref().map(|mark| mark.requeued.clone()).unwrap_or_default();
        let back = self.came_back_early();
        let requeued = RequeueMark { dlq, source, due, earlier: self.earlier(), back, ..known };
        // Moving is not a pass, because it leads to no target.
        let early = self.mark.as_ref().is_some_and(|mark| mark.early);
        Mark { passes: self.passes, early, requeued, ..self.mark(spent) }
    }

    /// Returns the mark of a letter that is replayed `now`. Its retries, passes and retention begin afresh.
    /// So does the count of its publishings, if the replay names a target other than a subscription. The
    /// generation distinguishes its deliveries from those before.
    #[must_use]
    pub fn mark_for_replay(&self, now: Timestamp, to: Option<ReplayTarget>, edited: bool) -> Mark {
        let mark = self.mark_for_requeue(0, None);
        let edited = edited || mark.requeued.edited;
        let published = match to {
            Some(ReplayTarget::Topic | ReplayTarget::Arn(_)) => 0,
            // A replay to one subscription publishes nothing, so a copy stays a copy.
            Some(ReplayTarget::Subscription(_)) | None => mark.published,
        };
        let requeued = RequeueMark { to, edited, earlier: 0, back: None, ..mark.requeued };
        let generation = mark.generation.saturating_add(1);
        Mark { first: now, generation, passes: 0, published, early: false, requeued, ..mark }
    }

    /// Returns the mark for the letter's way to a target, with `spent` retries behind it.
    #[must_use]
    pub fn mark(&self, spent: u32) -> Mark {
        Mark {
            spent,
            id: self.id.as_str().to_owned(),
            first: self.first_arrival(),
            generation: self.generation(),
            digest: self.digest(),
            passes: self.passes.saturating_add(1),
            published: self.published(),
            early: false,
            requeued: RequeueMark::default(),
        }
    }

    /// Returns the mark for the letter's way to a topic. The function publishes the SNS message in the
    /// letter, else its body as it stands, whatever that holds, so the digest is of the same text.
    #[must_use]
    pub fn mark_for_topic(&self, spent: u32) -> Mark {
        let body = || MessageDigest::of(&self.sqs.body);
        let digest = self.notification.as_ref().map_or_else(body, |sns| sns.digest);
        Mark { digest, published: self.published().saturating_add(1), ..self.mark(spent) }
    }

    /// Returns the message attributes that travel with the letter, besides our mark. A topic gets those of the
    /// SNS message in it.
    pub fn carried_attributes(&self, to_topic: bool) -> impl Iterator<Item = (&str, &MessageAttribute)> {
        let published = self.notification.as_ref().filter(|_| to_topic).map(|sns| &sns.attributes);
        let attributes = match self.origin {
            // EventBridge writes its failure into attributes; the event itself had none.
            Origin::EventBridge { .. } => None,
            _ => Some(published.unwrap_or(&self.sqs.attributes)),
        };
        let attributes = attributes.into_iter().flatten().filter(|(name, _)| *name != MARK_ATTRIBUTE);
        attributes.map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the bytes by which the letter counts in the size limits of queues and topics, without our mark.
    #[must_use]
    pub fn carried_bytes(&self, to_topic: bool) -> usize {
        let (text, subject) = match self.notification.as_ref().filter(|_| to_topic) {
            Some(sns) => (self.message().len(), sns.subject.as_ref().map_or(0, String::len)),
            None => (self.sqs.body.len(), 0),
        };
        let attributes = self.carried_attributes(to_topic).map(|(name, value)| name.len() + value.size());
        text + subject + attributes.sum::<usize>()
    }

    /// Returns the digest of the letter's message.
    fn digest(&self) -> MessageDigest {
        self.notification.as_ref().map_or_else(|| digest_of_body(&self.sqs.body), |sns| sns.digest)
    }

    /// Returns how often the letter was published to a topic, by its mark. If it was at all, the letter is a
    /// copy that our own publishing made.
    #[must_use]
    pub fn published(&self) -> u32 {
        self.mark.as_ref().map_or(0, |mark| mark.published)
    }

    /// Returns the number of passes of a mark that was made for another message, whose retries say nothing of
    /// this letter. Passes of its own message are counted by its retries, or are attempts without a number.
    #[must_use]
    pub fn foreign_passes(&self) -> u32 {
        if self.is_copy { self.passes } else { 0 }
    }

    /// Returns the dead-letter queue of the letter: the queue that it lies in, unless that is the requeue.
    #[must_use]
    pub fn dead_letter_queue(&self) -> &Arn {
        let marked = self.mark.as_ref().and_then(|mark| mark.requeued.dlq.as_ref());
        marked.unwrap_or(&self.sqs.queue)
    }

    /// Returns the time when it came back from an attempt without a number, if that was its last. Each move of a message
    /// makes SQS's own time a later one.
    #[must_use]
    pub fn came_back_early(&self) -> Option<Timestamp> {
        let mark = self.mark.as_ref().filter(|mark| mark.early)?;
        Some(mark.requeued.back.unwrap_or(self.sqs.sent))
    }

    /// Returns the time when its life in the queue began, from which the retention counts. Moving a letter to
    /// the requeue restarts SQS's clock and would keep it for ever, so its time there counts from the first
    /// arrival.
    #[must_use]
    pub fn kept_since(&self) -> Timestamp {
        let requeued = self.mark.as_ref().filter(|mark| mark.requeued.dlq.is_some());
        requeued.map_or(self.sqs.sent, |mark| mark.first.min(self.sqs.sent))
    }

    /// Returns the SNS message in it as it was published, else its body.
    #[must_use]
    pub fn message(&self) -> Cow<'_, str> {
        let message = match (&self.notification, &self.origin) {
            (None, _) => None,
            (Some(_), Origin::LambdaAsync | Origin::LambdaDestination { .. }) => {
                notification::message_of_lambda_event(original_event(self))
            }
            (
                Some(_),
                Origin::Sns
                | Origin::Sqs { .. }
                | Origin::EventBridge { .. }
                | Origin::EventBusRecord
                | Origin::Raw,
            ) => notification::message_of_envelope(&self.sqs.body),
        };
        message.unwrap_or(Cow::Borrowed(&self.sqs.body))
    }

    /// Reports whether it holds an event that a function can take: JSON, as a message of SNS always is.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.notification.is_some() || serde_json::from_str::<IgnoredAny>(original_event(self)).is_ok()
    }

    /// Reports whether it looks like the record of a batch of a stream that a function could not process.
    #[must_use]
    pub fn is_stream_batch(&self) -> bool {
        StreamBatch::is_in(&self.sqs.body)
    }

    /// Returns the topic of the SNS message in it.
    #[must_use]
    pub fn topic(&self) -> Option<&Arn> {
        self.notification.as_ref().map(|sns| &sns.topic)
    }

    /// Returns the subscription whose delivery failed, if the letter names it.
    #[must_use]
    pub fn subscription(&self) -> Option<&Arn> {
        self.notification.as_ref()?.subscription.as_ref()
    }

    /// Returns the number of retries behind it, by its mark.
    #[must_use]
    pub fn spent(&self) -> u32 {
        self.mark.as_ref().map_or(0, |mark| mark.spent)
    }

    /// Returns the number of retries behind it before its present stay in the queues of this function.
    #[must_use]
    pub fn earlier(&self) -> u32 {
        self.mark.as_ref().map_or(0, |mark| match mark.requeued.dlq {
            Some(_) => mark.requeued.earlier,
            None => mark.spent,
        })
    }

    /// Returns how often it was replayed from the archive, by its mark.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.mark.as_ref().map_or(0, |mark| mark.generation)
    }

    /// Returns the time when it first arrived in a dead-letter queue: by its mark, else when it entered this
    /// queue.
    #[must_use]
    pub fn first_arrival(&self) -> Timestamp {
        self.mark.as_ref().map_or(self.sqs.sent, |mark| mark.first)
    }
}

/// Returns the event that failed, as it was: inside a destination's record, or the body itself.
#[must_use]
pub fn original_event(letter: &Letter) -> &str {
    let body = letter.sqs.body.as_str();
    match letter.origin {
        Origin::LambdaDestination { .. } => payload_of_destination(body).unwrap_or(body),
        Origin::Sns
        | Origin::Sqs { .. }
        | Origin::LambdaAsync
        | Origin::EventBridge { .. }
        | Origin::EventBusRecord
        | Origin::Raw => body,
    }
}

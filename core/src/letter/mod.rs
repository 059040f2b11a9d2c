//! What lies in the queue.
//!
//! SNS, SQS, Lambda and `EventBridge` all leave failed messages in SQS queues, each in a form of
//! its own. [`Letter::parse`] recognises the form and takes out what the rest of the software needs:
//! topic, subscription, message, attributes, the original error where one is given, and our own
//! mark. It never fails. A body that cannot be read is a letter of origin `raw`, kept whole.
//!
//! Everything here is pure: no AWS client, no clock, no logging.
//!
//! | origin | how it is told |
//! |---|---|
//! | `sqs` | system attribute `DeadLetterQueueSourceArn`, whatever the body |
//! | `sns` | body is an SNS envelope |
//! | `eventbridge-bus` | body is a record of events that a custom event bus could not deliver |
//! | `eventbridge` | message attributes `RULE_ARN` and `TARGET_ARN`, where the policy lists the origin |
//! | `lambda-async` | message attributes `RequestID` and `ErrorCode`, where the policy lists the origin |
//! | `lambda-destination` | body with `requestContext.functionArn` and `requestPayload`, where the policy lists the origin |
//! | `raw` | everything else, raw deliveries of SNS among it |

mod claim;
mod digest;
mod id;
mod mark;
mod message;
mod notification;
mod origin;
mod reading;
mod records;

use std::borrow::Cow;

use jiff::Timestamp;

pub use claim::{Claim, Origins};
pub use digest::Digest;
pub use id::LetterId;
pub use mark::{BadReplayTarget, MARK_ATTRIBUTE, Mark, ReplayTarget, Requeued};
pub use message::is_binary;
pub use message::{Attribute, AttributeValue, Attributes, BadEvent, MAX_ATTRIBUTES, SqsMessage};
pub use notification::Notification;
pub use origin::{Cause, Origin};

use crate::arn::Arn;
use reading::{Reading, digest_of_body, is_of, mark_in_event};
use records::payload_of_destination;

/// A dead letter: one SQS message, understood as far as it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The message as received.
    pub sqs: SqsMessage,
    /// How it got into the queue.
    pub origin: Origin,
    /// The SNS message in it, where there is one.
    pub notification: Option<Notification>,
    /// The original error, where the origin tells it.
    pub cause: Option<Cause>,
    /// Our mark, where this very message was sent by us before.
    pub mark: Option<Mark>,
    /// How often we have sent what carried its mark, also where that was another message.
    pub passes: u32,
    /// The origin that it claims and that the policy does not list for its queue.
    pub unlisted: Option<Claim>,
    /// The letter's id, the same each time it comes back.
    pub id: LetterId,
}

/// Whom the reader of a message believes, beyond SQS itself.
#[derive(Debug, Clone, Copy)]
pub struct Trust<'a> {
    /// The queue where the mark says which dead-letter queue a letter came from.
    pub requeue: Option<&'a Arn>,
    /// The origins that a letter may claim.
    pub origins: &'a Origins,
}

impl Letter {
    /// Understands a message of a dead-letter queue as far as it can be. Never fails. Anybody may have sent it there,
    /// so neither what its mark says of the requeue nor an origin that it claims is believed.
    #[must_use]
    pub fn parse(sqs: SqsMessage) -> Self {
        Self::read(sqs, false, Origins::none())
    }

    /// Understands a message of one of the queues that feed the function.
    #[must_use]
    pub fn received(sqs: SqsMessage, trust: Trust<'_>) -> Self {
        let in_requeue = trust.requeue == Some(&sqs.queue);
        Self::read(sqs, in_requeue, trust.origins)
    }

    /// Understands a message of the requeue, where only this software sends.
    #[must_use]
    pub fn parse_requeued(sqs: SqsMessage, origins: &Origins) -> Self {
        Self::read(sqs, true, origins)
    }

    fn read(sqs: SqsMessage, in_requeue: bool, origins: &Origins) -> Self {
        let own = Mark::find(&sqs.attributes);
        let own = own.map(|mark| if in_requeue { mark } else { mark.outside_requeue() });
        let requeued = own.as_ref().map(|mark| mark.requeued.clone()).unwrap_or_default();
        let dlq = requeued.dlq.as_ref().unwrap_or(&sqs.queue);
        let Reading { origin, notification, cause, unlisted } =
            Reading::of(&sqs, requeued.source, |claim| origins.list(dlq, claim));
        let inside = || {
            let mark = Mark::find(&notification.as_ref()?.attributes)?.outside_requeue();
            // Only what is published has attributes in an envelope; an event for a function gets them otherwise too.
            let published = u32::from(matches!(origin, Origin::Sns | Origin::Sqs { .. }));
            Some(Mark { published: mark.published.max(published), ..mark })
        };
        let mark = own.or_else(inside).or_else(|| mark_in_event(&sqs.body));
        let passes = mark.as_ref().map_or(0, |mark| mark.passes);
        let mark = mark.and_then(|mark| match mark.digest {
            Some(digest) if !is_of(digest, &sqs.body, notification.as_ref()) => {
                let id = LetterId::of(&sqs, notification.as_ref(), None);
                in_requeue.then(|| mark.on_other_message(&id))
            }
            Some(_) | None => Some(mark),
        });
        let id = LetterId::of(&sqs, notification.as_ref(), mark.as_ref().map(|mark| mark.id.as_str()));
        Self { sqs, origin, notification, cause, mark, passes, unlisted, id }
    }

    /// The letter without the origin that it claims: as a raw delivery, which any sender can write.
    #[must_use]
    pub fn into_raw(self) -> Self {
        Self { origin: Origin::Raw, notification: None, cause: None, ..self }
    }

    /// The mark for its way into the requeue, with so many retries behind it.
    #[must_use]
    pub fn mark_for_requeue(&self, spent: u32, due: Option<Timestamp>) -> Mark {
        let source = match &self.origin {
            Origin::Sqs { source } => Some(source.clone()),
            _ => None,
        };
        let dlq = Some(self.dead_letter_queue().clone());
        let known = self.mark.as_ref().map(|mark| mark.requeued.clone()).unwrap_or_default();
        let requeued = Requeued { dlq, source, due, earlier: self.earlier(), ..known };
        // Moving is no pass: it leads to no target.
        let ordered = self.mark.as_ref().is_some_and(|mark| mark.ordered);
        Mark { passes: self.passes, ordered, requeued, ..self.mark(spent) }
    }

    /// The mark of a letter that is replayed `now`: its retries, passes and retention begin afresh, and where the
    /// replay names a target other than a subscription, publishing it does too. The generation tells its deliveries from
    /// those before.
    #[must_use]
    pub fn mark_for_replay(&self, now: Timestamp, to: Option<ReplayTarget>, edited: bool) -> Mark {
        let mark = self.mark_for_requeue(0, None);
        let edited = edited || mark.requeued.edited;
        let published = match to {
            Some(ReplayTarget::Topic | ReplayTarget::Arn(_)) => 0,
            // Nothing is published for one subscription: a copy stays one.
            Some(ReplayTarget::Subscription(_)) | None => mark.published,
        };
        let requeued = Requeued { to, edited, earlier: 0, ..mark.requeued };
        let generation = mark.generation.saturating_add(1);
        Mark { first: now, generation, passes: 0, published, ordered: false, requeued, ..mark }
    }

    /// The mark for its way to a target, with so many retries behind it.
    #[must_use]
    pub fn mark(&self, spent: u32) -> Mark {
        Mark {
            spent,
            id: self.id.as_str().to_owned(),
            first: self.first_arrival(),
            generation: self.generation(),
            digest: Some(self.digest()),
            passes: self.passes.saturating_add(1),
            published: self.published(),
            ordered: false,
            requeued: Requeued::default(),
        }
    }

    /// The mark for its way to a topic. What is published is the SNS message in it, else its body as it stands,
    /// whatever that holds: the digest is of that.
    #[must_use]
    pub fn mark_for_topic(&self, spent: u32) -> Mark {
        let body = || Digest::of(&self.sqs.body);
        let digest = Some(self.notification.as_ref().map_or_else(body, |sns| sns.digest));
        Mark { digest, published: self.published().saturating_add(1), ..self.mark(spent) }
    }

    /// The digest of its message.
    fn digest(&self) -> Digest {
        self.notification.as_ref().map_or_else(|| digest_of_body(&self.sqs.body), |sns| sns.digest)
    }

    /// How often it was published to a topic, by its mark: more than never, and it is a copy that our own
    /// publishing made.
    #[must_use]
    pub fn published(&self) -> u32 {
        self.mark.as_ref().map_or(0, |mark| mark.published)
    }

    /// Passes that its retries do not account for: what carried its mark was another message then.
    #[must_use]
    pub fn uncounted_passes(&self) -> u32 {
        self.passes.saturating_sub(self.spent())
    }

    /// The queue that it was dead-lettered to: the one that it lies in, unless that is the requeue.
    #[must_use]
    pub fn dead_letter_queue(&self) -> &Arn {
        let marked = self.mark.as_ref().and_then(|mark| mark.requeued.dlq.as_ref());
        marked.unwrap_or(&self.sqs.queue)
    }

    /// When its life in the queue began, from which the retention counts. Moving to the requeue starts
    /// SQS's clock anew, and would keep a letter for ever: there it goes on from the first arrival.
    #[must_use]
    pub fn kept_since(&self) -> Timestamp {
        let requeued = self.mark.as_ref().filter(|mark| mark.requeued.dlq.is_some());
        requeued.map_or(self.sqs.sent, |mark| mark.first.min(self.sqs.sent))
    }

    /// The SNS message in it as it was published; else its body.
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

    /// The topic of the SNS message in it.
    #[must_use]
    pub fn topic(&self) -> Option<&Arn> {
        self.notification.as_ref().map(|sns| &sns.topic)
    }

    /// The subscription that failed, where the letter names it.
    #[must_use]
    pub fn subscription(&self) -> Option<&Arn> {
        self.notification.as_ref()?.subscription.as_ref()
    }

    /// Retries behind it, by its mark.
    #[must_use]
    pub fn spent(&self) -> u32 {
        self.mark.as_ref().map_or(0, |mark| mark.spent)
    }

    /// Retries behind it before its present stay in the queues of this function.
    #[must_use]
    pub fn earlier(&self) -> u32 {
        self.mark.as_ref().map_or(0, |mark| match mark.requeued.dlq {
            Some(_) => mark.requeued.earlier,
            None => mark.spent,
        })
    }

    /// How often it was replayed from the archive, by its mark.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.mark.as_ref().map_or(0, |mark| mark.generation)
    }

    /// When it first arrived in a dead-letter queue: by its mark, else when it entered this one.
    #[must_use]
    pub fn first_arrival(&self) -> Timestamp {
        self.mark.as_ref().map_or(self.sqs.sent, |mark| mark.first)
    }
}

/// The event that failed, as it was: inside a destination's record, or the body itself.
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

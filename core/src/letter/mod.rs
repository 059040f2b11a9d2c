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
mod mark;
mod message;
mod notification;

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

pub use claim::{Claim, Origins};
pub use digest::Digest;
pub use mark::{BadReplayTarget, MARK_ATTRIBUTE, Mark, ReplayTarget, Requeued};
pub use message::is_binary;
pub use message::{Attribute, AttributeValue, Attributes, BadEvent, MAX_ATTRIBUTES, SqsMessage};
pub use notification::Notification;

use crate::arn::Arn;

/// Lambda keeps the first kilobyte of an error message; nobody needs more to see what failed.
const MAX_CAUSE_CHARS: usize = 1024;

/// A code is a status or the name of an exception. A function may put anything there, and it is
/// logged, so it is kept short.
const MAX_CODE_CHARS: usize = 128;

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

/// How a letter got into the dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// SNS gave up on a delivery and left its envelope.
    Sns,
    /// SQS moved it from a consumer's queue after too many receives.
    Sqs {
        /// The queue it came from.
        source: Arn,
    },
    /// Lambda gave up on an asynchronous invocation; the body is the event.
    LambdaAsync,
    /// Lambda's on-failure destination; the event is inside the body.
    LambdaDestination {
        /// The function that failed.
        function: Arn,
    },
    /// An `EventBridge` rule could not reach its target.
    EventBridge {
        /// The rule.
        rule: Arn,
        /// The target it could not reach.
        target: Arn,
    },
    /// A custom event bus of `EventBridge` could not deliver events, and keeps them itself.
    EventBusRecord,
    /// Anything else: a raw delivery of SNS, or something nobody knows.
    Raw,
}

/// Whom the reader of a message believes, beyond SQS itself.
#[derive(Debug, Clone, Copy)]
pub struct Trust<'a> {
    /// The queue where the mark says which dead-letter queue a letter came from.
    pub requeue: Option<&'a Arn>,
    /// The origins that a letter may claim.
    pub origins: &'a Origins,
}

/// What made the letter a dead one, as its origin tells it.
#[derive(Clone, PartialEq, Eq)]
pub struct Cause {
    /// A short code, such as `200` or `Unhandled`.
    pub code: Option<String>,
    /// The message of the failed code; it may hold anything and is never logged.
    pub message: Option<String>,
}

/// A letter's id: that of our mark, else SNS's message id and the subscription (a shared
/// dead-letter queue holds one message once per subscription), else SQS's message id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LetterId(String);

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
        let id = LetterId::of(&sqs, notification.as_ref(), mark.as_ref());
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
        Mark { passes: self.passes, requeued, ..self.mark(spent) }
    }

    /// The mark of a letter that is replayed `now`: its retries, passes and retention begin afresh, and where the
    /// replay names a target, publishing it does too. The generation tells its deliveries from those before.
    #[must_use]
    pub fn mark_for_replay(&self, now: Timestamp, to: Option<ReplayTarget>, edited: bool) -> Mark {
        let mark = self.mark_for_requeue(0, None);
        let edited = edited || mark.requeued.edited;
        let published = if to.is_some() { 0 } else { mark.published };
        let requeued = Requeued { to, edited, earlier: 0, ..mark.requeued };
        let generation = mark.generation.saturating_add(1);
        Mark { first: now, generation, passes: 0, published, requeued, ..mark }
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
        self.notification.as_ref().map_or_else(|| Digest::of_body(&self.sqs.body), |sns| sns.digest)
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

/// The event in the record of a Lambda destination.
fn payload_of_destination(body: &str) -> Option<&str> {
    notification::object::<Destination<'_>>(body).map(|wire| wire.request_payload.get())
}

/// The mark in an event of SNS that a body holds, where nothing else of it is believed. A mark names no target: all that
/// a forged one can do is to end its own letter early.
fn mark_in_event(body: &str) -> Option<Mark> {
    // Few bodies hold one, so they are not parsed without need.
    let event = body.contains(MARK_ATTRIBUTE).then(|| payload_of_destination(body).unwrap_or(body))?;
    Some(Mark::find(&Notification::from_lambda_event(event)?.attributes)?.outside_requeue())
}

/// Whether a mark was made for this message. A raw delivery of a message that is an envelope itself is told as an
/// envelope, so the body as it stands counts as well.
fn is_of(digest: Digest, body: &str, sns: Option<&Notification>) -> bool {
    let message = sns.map_or_else(|| Digest::of_body(body), |sns| sns.digest);
    message == digest || Digest::of(body) == digest
}

/// What can be told of a message's form.
struct Reading {
    origin: Origin,
    notification: Option<Notification>,
    cause: Option<Cause>,
    unlisted: Option<Claim>,
}

impl Reading {
    /// The order matters: what SQS itself says cannot be forged, what an envelope says is checked with SNS, and what
    /// is left can be written by any sender, so it must be `listed`.
    fn of(sqs: &SqsMessage, source: Option<Arn>, listed: impl Fn(Claim) -> bool) -> Self {
        let plain = |origin, notification| Self { origin, notification, cause: None, unlisted: None };
        if let Some(source) = sqs.source_queue().or(source) {
            return plain(Origin::Sqs { source }, Notification::from_envelope(&sqs.body));
        }
        if let Some(notification) = Notification::from_envelope(&sqs.body) {
            return plain(Origin::Sns, Some(notification));
        }
        if EventBusRecord::is_in(&sqs.body) {
            return plain(Origin::EventBusRecord, None);
        }
        match Self::claimed(sqs) {
            Some((claim, claimed)) if listed(claim) => claimed,
            claimed => Self { unlisted: claimed.map(|(claim, _)| claim), ..plain(Origin::Raw, None) },
        }
    }

    /// The origin that it claims. Attributes are cheaper to read than bodies.
    fn claimed(sqs: &SqsMessage) -> Option<(Claim, Self)> {
        let claimed = |claim, reading: Option<Self>| reading.map(|reading| (claim, reading));
        claimed(Claim::EventBridge, Self::of_eventbridge(sqs))
            .or_else(|| claimed(Claim::LambdaAsync, Self::of_lambda_async(sqs)))
            .or_else(|| claimed(Claim::LambdaDestination, Self::of_lambda_destination(sqs)))
    }

    fn of_eventbridge(sqs: &SqsMessage) -> Option<Self> {
        let arn = |name| sqs.text_attribute(name)?.parse().ok();
        let origin = Origin::EventBridge { rule: arn("RULE_ARN")?, target: arn("TARGET_ARN")? };
        let cause = Cause::new(sqs.text_attribute("ERROR_CODE"), sqs.text_attribute("ERROR_MESSAGE"));
        Some(Self { origin, notification: None, cause, unlisted: None })
    }

    fn of_lambda_async(sqs: &SqsMessage) -> Option<Self> {
        sqs.text_attribute("RequestID")?;
        let code = sqs.text_attribute("ErrorCode")?;
        Some(Self {
            origin: Origin::LambdaAsync,
            notification: Notification::from_lambda_event(&sqs.body),
            cause: Cause::new(Some(code), sqs.text_attribute("ErrorMessage")),
            unlisted: None,
        })
    }

    fn of_lambda_destination(sqs: &SqsMessage) -> Option<Self> {
        let wire: Destination = notification::object(&sqs.body)?;
        // The record of a success has the same form, and must not be run again.
        if wire.request_context.condition == "Success" {
            return None;
        }
        let response = wire.response_payload.unwrap_or_default();
        let code = response.error_type.or(wire.response_context.unwrap_or_default().function_error);
        let code = code.unwrap_or(wire.request_context.condition);
        Some(Self {
            origin: Origin::LambdaDestination {
                function: wire.request_context.function_arn.without_latest(),
            },
            notification: Notification::from_lambda_event(wire.request_payload.get()),
            cause: Cause::new(Some(&code), response.error_message.as_deref()),
            unlisted: None,
        })
    }
}

/// The record of events that a custom event bus could not deliver. The events are not in it.
/// Source: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-custom-bus-retry.html>
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventBusRecord {
    bus_arn: Arn,
    #[serde(rename = "subscriberArn")]
    _subscriber_arn: IgnoredAny,
    #[serde(rename = "failedMessages")]
    _failed_messages: Vec<IgnoredAny>,
}

impl EventBusRecord {
    /// What the resource of such a bus begins with.
    const BUS: &str = "event-busv2/";

    /// Whether a body is such a record. Few are, so it is not parsed without need.
    fn is_in(body: &str) -> bool {
        let record = body.contains(Self::BUS).then(|| notification::object::<Self>(body)).flatten();
        record.is_some_and(|record| record.bus_arn.resource().starts_with(Self::BUS))
    }
}

/// The record of a Lambda destination.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html>
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Destination<'a> {
    request_context: RequestContext,
    #[serde(borrow)]
    request_payload: &'a RawValue,
    #[serde(default, deserialize_with = "lenient")]
    response_context: Option<ResponseContext>,
    #[serde(default, deserialize_with = "lenient")]
    response_payload: Option<ResponsePayload>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    function_arn: Arn,
    condition: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseContext {
    function_error: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponsePayload {
    error_type: Option<String>,
    error_message: Option<String>,
}

/// A function may answer anything; an answer of another shape tells no cause, which is no reason
/// to misread the letter.
fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

impl Cause {
    fn new(code: Option<&str>, message: Option<&str>) -> Option<Self> {
        let cut = |text: &str, most| text.chars().take(most).collect::<String>();
        let code = code.map(|code| cut(code, MAX_CODE_CHARS));
        let message = message.map(|message| cut(message, MAX_CAUSE_CHARS));
        (code.is_some() || message.is_some()).then_some(Self { code, message })
    }
}

impl LetterId {
    fn of(sqs: &SqsMessage, sns: Option<&Notification>, mark: Option<&Mark>) -> Self {
        if let Some(mark) = mark {
            return Self(mark.id.clone());
        }
        sns.and_then(|sns| Some([sns.message_id.as_str(), sns.subscription.as_ref()?.as_str()].join("/")))
            .filter(|id| mark::is_id(id))
            .map_or_else(|| Self(sqs.message_id.clone()), Self)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Origin {
    /// Every name that [`Origin::name`] gives, in the order of the docs.
    pub const NAMES: [&str; 7] =
        ["sns", "sqs", "lambda-async", "lambda-destination", "eventbridge", "eventbridge-bus", "raw"];

    /// The name in logs, metrics, patterns and archived records.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sns => "sns",
            Self::Sqs { .. } => "sqs",
            Self::LambdaAsync => Claim::LambdaAsync.name(),
            Self::LambdaDestination { .. } => Claim::LambdaDestination.name(),
            Self::EventBridge { .. } => Claim::EventBridge.name(),
            Self::EventBusRecord => "eventbridge-bus",
            Self::Raw => "raw",
        }
    }
}

/// Hides the message: a failed function may have put anything into it.
impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cause").field("code", &self.code).finish_non_exhaustive()
    }
}

//! The SNS message that a letter carries, in the two spellings that AWS uses.
//!
//! Queues and HTTP endpoints get an envelope (`Type`, `UnsubscribeURL`), Lambda functions get a record
//! (`Records[].Sns`, `UnsubscribeUrl`, `EventSubscriptionArn`). Both become a [`Notification`]. The
//! unsubscribe link is live, so only the subscription is read from it, and the link is dropped. The message
//! itself may be large, and most letters go back as they are: it stays in the body, and
//! [`Letter::message`](super::Letter::message) reads it there.
//!
//! Sources: <https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html>,
//! <https://docs.aws.amazon.com/lambda/latest/dg/with-sns.html>

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use super::digest::MessageDigest;
use super::message::{AttributeValue, MessageAttribute, MessageAttributes, is_binary};
use crate::arn::{Arn, ArnKind};

/// A message as it was published to a topic.
#[derive(Clone, PartialEq, Eq)]
pub struct Notification {
    /// SNS's id, which is the same for every subscription of the topic.
    pub message_id: String,
    /// The topic.
    pub topic: Arn,
    /// The subscription whose delivery failed, if the letter names it.
    pub subscription: Option<Arn>,
    /// The subject, if there was one.
    pub subject: Option<String>,
    /// The message attributes with their types.
    pub attributes: MessageAttributes,
    /// The digest of the message.
    pub digest: MessageDigest,
}

/// The fields that both spellings share.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireNotification<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    message_id: String,
    topic_arn: Arn,
    subject: Option<String>,
    message: TextDigest,
    message_attributes: Option<BTreeMap<String, WireAttribute>>,
    #[serde(rename = "UnsubscribeURL", alias = "UnsubscribeUrl")]
    unsubscribe: Option<UnsubscribeLink>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireAttribute {
    r#type: String,
    value: String,
}

/// The digest of a text, which itself stays in the body.
struct TextDigest(MessageDigest);

impl<'de> Deserialize<'de> for TextDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(|text: &str| Self(MessageDigest::of(text))))
    }
}

/// An unsubscribe link; the subscription that it names is all that is kept of it.
struct UnsubscribeLink(Option<Arn>);

impl<'de> Deserialize<'de> for UnsubscribeLink {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(|link: &str| Self(subscription_of(link))))
    }
}

/// Makes something of a text that is not copied.
struct TextVisitor<F>(F);

impl<T, F: Fn(&str) -> T> Visitor<'_> for TextVisitor<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(self.0(text))
    }
}

/// The event that SNS sends to a Lambda function.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LambdaEvent<'a> {
    #[serde(borrow)]
    records: Vec<LambdaRecord<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LambdaRecord<'a> {
    #[serde(borrow)]
    event_source: Cow<'a, str>,
    event_subscription_arn: Arn,
    #[serde(borrow)]
    sns: WireNotification<'a>,
}

/// The text of a message; its other fields were read before.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MessageText<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MessageEvent<'a> {
    #[serde(borrow)]
    records: [MessageRecord<'a>; 1],
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MessageRecord<'a> {
    #[serde(borrow)]
    sns: MessageText<'a>,
}

impl Notification {
    /// Reads an envelope. Returns `None` if the text is anything else.
    #[must_use]
    pub fn from_envelope(text: &str) -> Option<Self> {
        let mut wire: WireNotification<'_> = object(text)?;
        let subscription = wire.unsubscribe.take().and_then(|link| link.0);
        Self::from_wire(wire, subscription)
    }

    /// Reads the event of a Lambda subscription. SNS puts exactly one record into an event, so an event with
    /// more records is not SNS's and is not read.
    #[must_use]
    pub fn from_lambda_event(text: &str) -> Option<Self> {
        let event: LambdaEvent<'_> = object(text)?;
        let [record] = <[LambdaRecord<'_>; 1]>::try_from(event.records).ok()?;
        if record.event_source != "aws:sns" {
            return None;
        }
        let subscription = record.event_subscription_arn;
        Self::from_wire(record.sns, Some(subscription).filter(|arn| arn.kind() == ArnKind::Subscription))
    }

    fn from_wire(wire: WireNotification<'_>, subscription: Option<Arn>) -> Option<Self> {
        let is_message = wire.r#type == "Notification" && !wire.message_id.is_empty();
        if !is_message || wire.topic_arn.kind() != ArnKind::Topic {
            return None;
        }
        let attributes = wire
            .message_attributes
            .unwrap_or_default()
            .into_iter()
            .map(|(name, attribute)| Some((name, attribute.read()?)))
            .collect::<Option<MessageAttributes>>()?;
        Some(Self {
            message_id: wire.message_id,
            topic: wire.topic_arn,
            subscription,
            subject: wire.subject,
            attributes,
            digest: wire.message.0,
        })
    }
}

/// Returns the message in an envelope, as it was published.
pub(super) fn message_of_envelope(text: &str) -> Option<Cow<'_, str>> {
    Some(object::<MessageText<'_>>(text)?.message)
}

/// Returns the message in the event of a Lambda subscription, as it was published.
pub(super) fn message_of_lambda_event(text: &str) -> Option<Cow<'_, str>> {
    let event: MessageEvent<'_> = object(text)?;
    let [record] = event.records;
    Some(record.sns.message)
}

impl WireAttribute {
    fn read(self) -> Option<MessageAttribute> {
        let value = if is_binary(&self.r#type) {
            AttributeValue::Binary(STANDARD.decode(self.value).ok()?)
        } else {
            AttributeValue::Text(self.value)
        };
        Some(MessageAttribute { data_type: self.r#type, value })
    }
}

/// Parses a JSON object. Most raw bodies are not one, as their first character shows without parsing.
pub(super) fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    if !text.trim_ascii_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// Returns the `SubscriptionArn` parameter of an unsubscribe link.
fn subscription_of(link: &str) -> Option<Arn> {
    let (_, query) = link.split_once('?')?;
    let value = query.split('&').find_map(|pair| pair.strip_prefix("SubscriptionArn="))?;
    let arn: Arn = percent_decode_str(value).decode_utf8().ok()?.parse().ok()?;
    (arn.kind() == ArnKind::Subscription).then_some(arn)
}

/// Hides the subject and the attributes.
impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification")
            .field("message_id", &self.message_id)
            .field("topic", &self.topic)
            .field("subscription", &self.subscription)
            .finish_non_exhaustive()
    }
}

//! The forms in which subscribers get a message.

use serde_json::{Map, Value, json};

use super::{Protocol, SimSubscription, TopicMessage};
use crate::clock::iso;
use crate::message::{SimEntry, sns_attributes};
use crate::names::{REGION, arn};

/// A placeholder, since SNS's private key is unknown.
const SIGNATURE: &str = "c2FtcGxlIHNpZ25hdHVyZSwgbm90IGEgcmVhbCBvbmU=";

/// The certificate that the placeholder names.
const CERTIFICATE: &str = "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";

/// A POST to a subscriber's web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimPost {
    /// The URL.
    pub url: String,
    /// The headers; names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl TopicMessage {
    /// Returns the text for a protocol: its own or the default, if the message has several texts.
    fn text(&self, protocol: Protocol) -> String {
        let texts =
            self.is_structured.then(|| serde_json::from_str::<Value>(&self.body)).and_then(Result::ok);
        let text =
            |texts: &Value| texts[protocol.name()].as_str().or(texts["default"].as_str()).map(str::to_owned);
        texts.as_ref().and_then(text).unwrap_or_else(|| self.body.clone())
    }

    /// Returns the message for a subscribed queue.
    #[must_use]
    pub fn for_queue(&self, of: &SimSubscription) -> SimEntry {
        self.to_queue(of, &of.endpoint)
    }

    /// Returns the message as it lies in the subscription's dead-letter queue, whatever the protocol: the envelope of
    /// queues, or the raw message.
    /// <https://docs.aws.amazon.com/sns/latest/dg/sns-dead-letter-queues.html>
    #[must_use]
    pub fn for_dead_letters(&self, of: &SimSubscription) -> SimEntry {
        self.to_queue(of, of.dead_letters.as_deref().unwrap_or_default())
    }

    /// Returns the message for a queue: as it was published for a raw subscription, otherwise in an envelope. The group
    /// of a FIFO topic stays behind on the way to a standard queue, that of a standard topic does not.
    /// <https://docs.aws.amazon.com/sns/latest/dg/sns-large-payload-raw-message-delivery.html>
    fn to_queue(&self, of: &SimSubscription, queue: &str) -> SimEntry {
        let (body, attributes) = if of.raw {
            (self.text(of.protocol), self.attributes.clone())
        } else {
            (self.envelope(of), crate::SimAttributes::default())
        };
        let stays = self.sequence.is_some() && queue.strip_suffix(".fifo").is_none();
        let (group, deduplication) =
            if stays { (None, None) } else { (self.group.clone(), self.deduplication.clone()) };
        SimEntry { body, attributes, group, deduplication, trace: self.trace.clone(), ..SimEntry::default() }
    }

    /// Returns the envelope, in SNS's own layout.
    /// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html>
    #[must_use]
    pub fn envelope(&self, of: &SimSubscription) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let mut lines = vec![("Type", text("Notification")), ("MessageId", text(&self.id))];
        lines.extend(self.sequence.as_deref().map(|it| ("SequenceNumber", text(it))));
        lines.push(("TopicArn", text(&arn("sns", &self.topic))));
        lines.extend(self.subject.as_deref().map(|it| ("Subject", text(it))));
        lines.push(("Message", text(&self.text(of.protocol))));
        lines.push(("Timestamp", text(&iso(self.published))));
        // The messages of a FIFO topic have no signature.
        if self.sequence.is_none() {
            lines.push(("SignatureVersion", text(&self.signature_version.to_string())));
            lines.push(("Signature", text(SIGNATURE)));
            lines.push(("SigningCertURL", text(&certificate())));
        }
        lines.push(("UnsubscribeURL", text(&unsubscribe(of))));
        if !self.attributes.is_empty() {
            let attribute = |(name, it): &(String, Value)| {
                format!("    {} : {{\"Type\":{},\"Value\":{}}}", text(name), it["Type"], it["Value"])
            };
            let attributes: Vec<_> = sns_attributes(&self.attributes).into_iter().collect();
            let attributes: Vec<_> = attributes.iter().map(attribute).collect();
            lines.push(("MessageAttributes", format!("{{\n{}\n  }}", attributes.join(",\n"))));
        }
        let lines: Vec<_> = lines.iter().map(|(name, value)| format!("  \"{name}\" : {value}")).collect();
        format!("{{\n{}\n}}", lines.join(",\n"))
    }

    /// Returns the event for a function.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/with-sns.html>
    #[must_use]
    pub fn for_function(&self, of: &SimSubscription) -> String {
        let mut sns = Map::new();
        let mut put = |name: &str, value: Value| sns.insert(name.to_owned(), value);
        put("Type", "Notification".into());
        put("MessageId", (*self.id).into());
        put("TopicArn", arn("sns", &self.topic).into());
        put("Subject", self.subject.clone().into());
        put("Message", self.text(of.protocol).into());
        put("Timestamp", iso(self.published).into());
        put("SignatureVersion", self.signature_version.to_string().into());
        put("Signature", SIGNATURE.into());
        put("SigningCertUrl", certificate().into());
        put("UnsubscribeUrl", unsubscribe(of).into());
        put("MessageAttributes", sns_attributes(&self.attributes).into());
        let record = json!({
            "EventSource": "aws:sns",
            "EventVersion": "1.0",
            "EventSubscriptionArn": of.arn,
            "Sns": sns,
        });
        json!({ "Records": [record] }).to_string()
    }

    /// Returns the POST for a web server.
    /// <https://docs.aws.amazon.com/sns/latest/dg/http-header.html>
    #[must_use]
    pub fn for_web(&self, of: &SimSubscription) -> SimPost {
        let mut headers = vec![
            ("x-amz-sns-message-type", "Notification".to_owned()),
            ("x-amz-sns-message-id", self.id.to_string()),
            ("x-amz-sns-topic-arn", arn("sns", &self.topic)),
            ("x-amz-sns-subscription-arn", of.arn.clone()),
            ("content-type", "text/plain; charset=UTF-8".to_owned()),
            ("user-agent", "Amazon Simple Notification Service Agent".to_owned()),
        ];
        if of.raw {
            headers.push(("x-amz-sns-rawdelivery", "true".to_owned()));
        }
        SimPost {
            url: of.endpoint.clone(),
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            body: if of.raw { self.text(of.protocol) } else { self.envelope(of) },
        }
    }

    /// Returns the record for a stream.
    /// <https://docs.aws.amazon.com/sns/latest/dg/firehose-archived-message-format-S3.html>
    #[must_use]
    pub fn for_stream(&self, of: &SimSubscription, line_break: bool) -> SimEntry {
        let mut body = if of.raw { self.text(of.protocol) } else { self.envelope(of) };
        if line_break {
            body.push('\n');
        }
        SimEntry { body, ..SimEntry::default() }
    }
}

fn certificate() -> String {
    format!("https://sns.{REGION}.amazonaws.com/{CERTIFICATE}")
}

fn unsubscribe(of: &SimSubscription) -> String {
    format!("https://sns.{REGION}.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={}", of.arn)
}

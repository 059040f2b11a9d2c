//! A subscription and its attributes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::invalid;
use crate::error::Error;
use crate::names::{ACCOUNT, arn};

/// A subscription of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimSubscription {
    /// The ARN.
    pub arn: String,
    /// The topic's name.
    pub topic: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The endpoint: an ARN or a URL.
    pub endpoint: String,
    /// `RawMessageDelivery`.
    pub raw: bool,
    /// The name of the dead-letter queue.
    pub dead_letters: Option<String>,
    /// True if the endpoint has not confirmed the subscription yet.
    pub pending: bool,
    /// Further attributes, which override those above: `EffectiveDeliveryPolicy`, `FilterPolicy` ...
    pub more: BTreeMap<String, String>,
}

/// The protocols of subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A queue.
    Sqs,
    /// A function.
    Lambda,
    /// A web server without TLS.
    Http,
    /// A web server.
    Https,
    /// A stream.
    Firehose,
    /// An address that only SNS can reach, and always does: `email`, `sms`, `application`.
    Address(&'static str),
}

impl Protocol {
    /// Returns the protocol's name in SNS.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqs => "sqs",
            Self::Lambda => "lambda",
            Self::Http => "http",
            Self::Https => "https",
            Self::Firehose => "firehose",
            Self::Address(name) => name,
        }
    }
}

impl SimSubscription {
    /// Creates a confirmed subscription that is not raw. `id` is the last part of its ARN.
    #[must_use]
    pub fn new(topic: &str, id: &str, protocol: Protocol, endpoint: &str) -> Self {
        Self {
            arn: format!("{}:{id}", arn("sns", topic)),
            topic: topic.to_owned(),
            protocol,
            endpoint: endpoint.to_owned(),
            raw: false,
            dead_letters: None,
            pending: false,
            more: BTreeMap::new(),
        }
    }

    /// Makes the deliveries raw.
    #[must_use]
    pub fn raw(self) -> Self {
        Self { raw: true, ..self }
    }

    /// Sets the dead-letter queue.
    #[must_use]
    pub fn dead_letters(self, queue: &str) -> Self {
        Self { dead_letters: Some(queue.to_owned()), ..self }
    }

    /// Names another dead-letter queue, or none. SNS refuses an empty text: who wants none sends no value, as
    /// [Terraform's provider](https://github.com/hashicorp/terraform-provider-aws) does. The words about queues
    /// of FIFO topics are recorded.
    pub(super) fn set_redrive_policy(&mut self, value: Option<&str>) -> Result<(), Error> {
        let queue = match value {
            None => None,
            Some(text) => {
                let policy: Value = serde_json::from_str(text).map_err(|_| invalid("RedrivePolicy"))?;
                let arn = policy["deadLetterTargetArn"].as_str().filter(|arn| arn.starts_with("arn:"));
                let wrong = || invalid("RedrivePolicy: deadLetterTargetArn is an invalid arn");
                Some(arn.ok_or_else(wrong)?.to_owned())
            }
        };
        let needs_fifo = is_fifo(&self.topic) && is_fifo(&self.endpoint);
        if needs_fifo && queue.as_ref().is_some_and(|queue| !is_fifo(queue)) {
            let why = "must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic.";
            return Err(invalid(&format!("RedrivePolicy: {why}")));
        }
        self.dead_letters = queue.as_ref().and_then(|arn| arn.rsplit(':').next()).map(str::to_owned);
        match value {
            Some(text) => self.more.insert("RedrivePolicy".to_owned(), text.to_owned()),
            None => self.more.remove("RedrivePolicy"),
        };
        Ok(())
    }

    /// Returns the attributes as `GetSubscriptionAttributes` gives them.
    pub(super) fn attributes(&self) -> BTreeMap<String, String> {
        let topic = arn("sns", &self.topic);
        let redrive = self
            .dead_letters
            .as_ref()
            .map(|queue| ("RedrivePolicy", json!({ "deadLetterTargetArn": arn("sqs", queue) }).to_string()));
        let attributes = [
            ("SubscriptionArn", self.arn.clone()),
            ("TopicArn", topic),
            ("Owner", ACCOUNT.to_owned()),
            ("Protocol", self.protocol.name().to_owned()),
            ("Endpoint", self.endpoint.clone()),
            ("RawMessageDelivery", self.raw.to_string()),
            ("PendingConfirmation", self.pending.to_string()),
            ("ConfirmationWasAuthenticated", "true".to_owned()),
        ];
        let attributes = attributes.into_iter().chain(redrive);
        let mut attributes: BTreeMap<_, _> =
            attributes.map(|(name, value)| (name.to_owned(), value)).collect();
        attributes.extend(self.more.clone());
        attributes
    }
}

/// Reports whether a queue or topic of this name is FIFO.
fn is_fifo(name: &str) -> bool {
    name.strip_suffix(".fifo").is_some()
}

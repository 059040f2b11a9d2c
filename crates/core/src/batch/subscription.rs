//! The subscription that failed: where its endpoint is, and whether a letter may go there.
//!
//! A letter is only a message in a queue, and anyone who can write to the queue can write any letter. So
//! nothing that the letter says of its subscription is believed. SNS is asked for the subscription's
//! endpoint, topic and dead-letter target, and a letter goes there only if the owner of the subscription has
//! pointed its dead letters at this queue.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;

use crate::arn::Arn;
use crate::endpoint::{Endpoint, HttpUrl, TargetName};
use crate::policy::SubscriptionVoucher;

/// The attributes of a subscription in SNS.
#[derive(Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The protocol: `sqs`, `lambda`, `https`, `email` ...
    pub protocol: String,
    /// The endpoint: an ARN, a URL or an address.
    pub endpoint: String,
    /// The topic.
    pub topic: String,
    /// The queue that its own `RedrivePolicy` names.
    pub dead_letter_target: Option<String>,
    /// True if its letters lie in that queue as they were published, without an envelope.
    pub raw: bool,
    /// True if it still waits to be confirmed.
    pub pending: bool,
    /// The `EffectiveDeliveryPolicy` as JSON; HTTP/S only.
    pub delivery_policy: Option<String>,
}

/// The answer whether a letter may go to its subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionCheck {
    /// It may, to this endpoint.
    Endpoint(Endpoint),
    /// The function cannot deliver to its endpoint. The text says why.
    Undeliverable(String),
    /// It may not.
    Refused(SubscriptionRefusal),
}

/// The check that a letter failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionRefusal {
    /// There is no such subscription.
    Unknown,
    /// The subscription was not confirmed.
    Pending,
    /// It belongs to another topic than the letter.
    OtherTopic,
    /// It is in another region than its dead-letter queue would be.
    OtherRegion,
    /// It does not name this queue as its dead-letter target.
    OtherDeadLetterQueue,
    /// It does not deliver to where the letter came from.
    OtherEndpoint,
}

impl Subscription {
    /// Checks whether a letter of `topic` (raw letters name none), read from `dlq`, may go there.
    #[must_use]
    pub fn check(&self, topic: Option<&Arn>, dlq: &Arn) -> SubscriptionCheck {
        if topic.is_some_and(|topic| topic.as_str() != self.topic) {
            return SubscriptionCheck::Refused(SubscriptionRefusal::OtherTopic);
        }
        if self.dead_letter_target.as_deref() != Some(dlq.as_str()) {
            return SubscriptionCheck::Refused(SubscriptionRefusal::OtherDeadLetterQueue);
        }
        if self.pending {
            return SubscriptionCheck::Refused(SubscriptionRefusal::Pending);
        }
        self.reachable().map_or_else(SubscriptionCheck::Undeliverable, SubscriptionCheck::Endpoint)
    }

    /// Checks whether this subscription confirms the topic that a letter from `dlq` names.
    ///
    /// # Errors
    ///
    /// The [`SubscriptionRefusal`] of the first check that fails.
    pub fn vouches(
        &self,
        topic: Option<&Arn>,
        dlq: &Arn,
        voucher: &SubscriptionVoucher,
    ) -> Result<(), SubscriptionRefusal> {
        if topic.is_none_or(|topic| topic.as_str() != self.topic) {
            return Err(SubscriptionRefusal::OtherTopic);
        }
        let vouches = match voucher {
            SubscriptionVoucher::Exists => Ok(()),
            SubscriptionVoucher::DeadLetters => {
                let names = self.dead_letter_target.as_deref() == Some(dlq.as_str());
                names.then_some(()).ok_or(SubscriptionRefusal::OtherDeadLetterQueue)
            }
            SubscriptionVoucher::DeliversTo(arn) => {
                let endpoint = self.endpoint.parse::<Arn>().ok().map(Arn::without_latest);
                (endpoint.as_ref() == Some(arn)).then_some(()).ok_or(SubscriptionRefusal::OtherEndpoint)
            }
        };
        vouches.and(if self.pending { Err(SubscriptionRefusal::Pending) } else { Ok(()) })
    }

    /// Checks whether a letter that Lambda itself gave up on may go to the function of this subscription. The
    /// subscription's own dead letters may lie elsewhere. This queue has those of the function, as the policy
    /// says.
    #[must_use]
    pub fn check_function(&self, topic: Option<&Arn>, dlq: &Arn) -> SubscriptionCheck {
        if let Err(refusal) = self.vouches(topic, dlq, &SubscriptionVoucher::Exists) {
            return SubscriptionCheck::Refused(refusal);
        }
        match self.reachable() {
            Ok(function @ Endpoint::Function(_)) => SubscriptionCheck::Endpoint(function),
            Ok(_) => SubscriptionCheck::Refused(SubscriptionRefusal::OtherEndpoint),
            Err(why) => SubscriptionCheck::Undeliverable(why),
        }
    }

    /// Returns the endpoint, if the function can deliver to it.
    #[must_use]
    pub fn deliverable(&self) -> Option<Endpoint> {
        self.reachable().ok()
    }

    /// Returns the endpoint by its protocol.
    fn reachable(&self) -> Result<Endpoint, String> {
        let protocol = self.protocol.as_str();
        let arn = || self.endpoint.parse::<Arn>().ok().and_then(Endpoint::of_arn);
        match (protocol, arn()) {
            ("http" | "https", _) => {
                HttpUrl::parse(&self.endpoint).map(Endpoint::Http).map_err(|bad| bad.to_string())
            }
            ("sqs", Some(queue @ Endpoint::Queue(_))) => Ok(queue),
            ("lambda", Some(function @ Endpoint::Function(_))) => Ok(function),
            ("firehose", Some(stream @ Endpoint::Stream(_))) => Ok(stream),
            _ => Err(format!("only SNS can deliver by the protocol {protocol:?}")),
        }
    }

    /// Reads the attributes as SNS gives them. Returns `None` without a topic, which every subscription has.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_GetSubscriptionAttributes.html>
    #[must_use]
    pub fn from_attributes(attributes: &HashMap<String, String>) -> Option<Self> {
        let text = |name: &str| attributes.get(name).cloned().unwrap_or_default();
        let redrive = attributes.get("RedrivePolicy");
        Some(Self {
            protocol: text("Protocol"),
            endpoint: text("Endpoint"),
            topic: attributes.get("TopicArn")?.clone(),
            dead_letter_target: redrive
                .and_then(|json| serde_json::from_str::<RedrivePolicy>(json).ok())
                .map(|policy| policy.dead_letter_target_arn),
            raw: text("RawMessageDelivery") == "true",
            pending: text("PendingConfirmation") == "true",
            delivery_policy: attributes.get("EffectiveDeliveryPolicy").cloned(),
        })
    }
}

/// Hides the endpoint, which may be a webhook with its secret or a person's address.
impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("protocol", &self.protocol)
            .field("endpoint", &TargetName::read(&self.endpoint))
            .field("topic", &self.topic)
            .field("dead_letter_target", &self.dead_letter_target)
            .field("raw", &self.raw)
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

/// SNS's own `RedrivePolicy` attribute of a subscription.
#[derive(Deserialize)]
struct RedrivePolicy {
    #[serde(rename = "deadLetterTargetArn")]
    dead_letter_target_arn: String,
}

impl SubscriptionRefusal {
    /// Returns the failed check in words that an operator can act on.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::Unknown => "the subscription does not exist",
            Self::Pending => "the subscription is not confirmed: if you know it, confirm it",
            Self::OtherTopic => "the subscription belongs to another topic",
            Self::OtherRegion => "the subscription is in another region than this queue",
            Self::OtherDeadLetterQueue => {
                "the subscription does not name the letter's dead-letter queue: if it should, set its deadLetterTargetArn"
            }
            Self::OtherEndpoint => {
                "the subscription does not deliver to the queue or function that the letter came from"
            }
        }
    }
}

//! SNS: topics, subscriptions, and the messages that go from the former to the latter.
//!
//! A published message becomes one [`SimDelivery`] for each subscription; `deliver` carries it out.

mod render;
mod requests;
pub(crate) mod rules;
mod subscription;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_sim_queue::Deduplication;
pub use render::SimPost;
pub use requests::PublishAnswer;
pub use subscription::{Protocol, SimSubscription};

use crate::clock::SimMillis;
use crate::error::Error;
use crate::message::SimAttributes;

/// The largest number of bytes of a message, and of all messages of a batch, unless the topic says otherwise.
/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>
pub const MAX_BYTES: usize = 256 * 1024;

/// The number of subscriptions on a page of a listing.
/// <https://docs.aws.amazon.com/sns/latest/api/API_ListSubscriptions.html>
pub const MAX_SUBSCRIPTIONS: usize = 100;

/// The topics and subscriptions of one account.
#[derive(Debug)]
pub struct Sns {
    topics: BTreeMap<String, SimTopic>,
    subscriptions: BTreeMap<String, SimSubscription>,
    /// The number of subscriptions on a page of a listing, if a world wants smaller pages than SNS's.
    pub page: usize,
    /// The milliseconds that all retries of a delivery take together. SNS's own schedule takes up to 23 days.
    /// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html>
    pub retries_take: SimMillis,
    /// True if a record for Firehose ends with a line break, which AWS's pages do not specify.
    pub line_break: bool,
}

/// The settings of a topic.
#[derive(Debug, Clone)]
pub struct TopicSettings {
    /// `MaximumMessageSize`.
    pub max_bytes: usize,
    /// `ContentBasedDeduplication`.
    pub content_based: bool,
    /// `SignatureVersion`.
    pub signature_version: u8,
}

#[derive(Debug)]
struct SimTopic {
    name: Arc<str>,
    settings: TopicSettings,
    deduplication: Deduplication<PublishAnswer>,
    sequence: u64,
}

/// A published message.
#[derive(Debug, PartialEq, Eq)]
pub struct TopicMessage {
    /// The id.
    pub id: Arc<str>,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The subject.
    pub subject: Option<String>,
    /// The message.
    pub body: String,
    /// True if the message has a text for each protocol.
    pub is_structured: bool,
    /// The message attributes.
    pub attributes: SimAttributes,
    /// `MessageGroupId`.
    pub group: Option<String>,
    /// `MessageDeduplicationId`.
    pub deduplication: Option<String>,
    /// FIFO: the sequence number.
    pub sequence: Option<String>,
    /// The X-Ray header of the publishing request.
    pub trace: Option<String>,
    /// The time of publishing.
    pub published: SimMillis,
    /// The topic's signature version.
    pub signature_version: u8,
}

/// A message on its way to one subscription.
#[derive(Debug, Clone)]
pub struct SimDelivery {
    /// The subscription as it was when the message was published.
    pub subscription: Arc<SimSubscription>,
    /// The message.
    pub message: Arc<TopicMessage>,
    /// True if the first attempt has failed. This attempt stands for all retries then.
    pub is_last: bool,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self { max_bytes: MAX_BYTES, content_based: false, signature_version: 1 }
    }
}

impl Default for Sns {
    fn default() -> Self {
        Self {
            topics: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            page: MAX_SUBSCRIPTIONS,
            retries_take: 0,
            line_break: false,
        }
    }
}

impl Sns {
    /// Creates a topic, or replaces one. A name that ends in `.fifo` makes it a FIFO topic.
    pub fn create(&mut self, name: &str, settings: TopicSettings) {
        let topic =
            SimTopic { name: name.into(), settings, deduplication: Deduplication::default(), sequence: 0 };
        self.topics.insert(name.to_owned(), topic);
    }

    /// Adds or replaces a subscription.
    pub fn subscribe(&mut self, subscription: SimSubscription) {
        self.subscriptions.insert(subscription.arn.clone(), subscription);
    }

    /// Removes a subscription.
    pub fn unsubscribe(&mut self, arn: &str) {
        self.subscriptions.remove(arn);
    }

    /// Returns a subscription for a change.
    pub fn subscription_mut(&mut self, arn: &str) -> Option<&mut SimSubscription> {
        self.subscriptions.get_mut(arn)
    }

    /// Carries out `GetSubscriptionAttributes`.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_GetSubscriptionAttributes.html>
    pub fn get_subscription_attributes(&self, arn: &str) -> Result<BTreeMap<String, String>, Error> {
        let found = self.subscriptions.get(arn).map(SimSubscription::attributes);
        found.ok_or_else(|| Error::new(404, "NotFound", "Subscription does not exist"))
    }

    /// Carries out `GetTopicAttributes`, as far as it says that the topic exists.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_GetTopicAttributes.html>
    pub fn get_topic_attributes(&self, arn: &str) -> Result<(), Error> {
        rules::topic_arn(arn, "")?;
        let name = arn.rsplit(':').next().unwrap_or_default();
        let is_here = arn == crate::names::arn("sns", name) && self.topics.contains_key(name);
        if is_here { Ok(()) } else { Err(Error::new(404, "NotFound", "Topic does not exist")) }
    }

    /// Carries out `SetSubscriptionAttributes` for the redrive policy. Without a value it takes the policy away.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_SetSubscriptionAttributes.html>
    pub fn set_subscription_attributes(
        &mut self,
        arn: &str,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), Error> {
        let found = self.subscriptions.get_mut(arn);
        let subscription = found.ok_or_else(|| Error::new(404, "NotFound", "Subscription does not exist"))?;
        if name != "RedrivePolicy" {
            return Err(invalid("AttributeName"));
        }
        subscription.set_redrive_policy(value)
    }

    /// Carries out `ListSubscriptionsByTopic`, on one page.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_ListSubscriptionsByTopic.html>
    pub fn list_subscriptions_by_topic(&self, topic: &str) -> Result<Vec<&SimSubscription>, Error> {
        self.get_topic_attributes(topic)?;
        let name = topic.rsplit(':').next().unwrap_or_default();
        Ok(self.subscriptions.values().filter(|it| it.topic == name).collect())
    }

    /// Carries out `ListSubscriptions`. Returns a page, and the token of the next one.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_ListSubscriptions.html>
    pub fn list_subscriptions(
        &self,
        token: Option<&str>,
    ) -> Result<(Vec<&SimSubscription>, Option<String>), Error> {
        let skip: usize = match token.filter(|token| !token.is_empty()) {
            Some(token) => token.parse().map_err(|_| invalid("NextToken"))?,
            None => 0,
        };
        let page: Vec<_> = self.subscriptions.values().skip(skip).take(self.page).collect();
        let end = skip + page.len();
        Ok((page, (end < self.subscriptions.len()).then(|| end.to_string())))
    }
}

fn invalid(what: &str) -> Error {
    Error::bad("InvalidParameter", format!("Invalid parameter: {what}"))
}

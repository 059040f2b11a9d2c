//! The subscriptions. SNS cannot list those that name a queue, so the attributes of all in the account are read.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt};
use serde_json::Value;

use super::error::read_error;
use crate::console::ToolEnvironment;
use crate::doctor::setup::{AccountSubscriptions, DeployedQueue, DeployedSubscription, ReadResult};
use crate::progress_line::ProgressLine;
use crate::tables::thousands;

/// The number of concurrent reads of subscriptions: SNS answers [30 a second in small
/// regions](https://docs.aws.amazon.com/general/latest/gr/sns.html), and a call takes some 30 milliseconds.
const CONCURRENT_READS: usize = 2;

/// The texts that SNS lists instead of an ARN, for an unconfirmed and for a deleted subscription.
const NO_ARN_TEXTS: [&str; 2] = ["PendingConfirmation", "Deleted"];

/// Reads the subscriptions that name one of these queues, all others of their topics, and those that name the
/// requeue, or deliver into it or into one of these queues.
pub(crate) async fn read(
    sns: &aws_sdk_sns::Client,
    queues: &[DeployedQueue],
    requeue: Option<&DeployedQueue>,
    console: &mut ToolEnvironment,
) -> ReadResult<AccountSubscriptions> {
    let ListedSubscriptions { confirmed, pending } = listed(sns).await?;
    let arns: Vec<_> = confirmed.into_iter().map(|it| it.arn).collect();
    let mut found = AccountSubscriptions { pending, ..AccountSubscriptions::default() };
    let mut all = Vec::new();
    for (_, answer) in each(sns, &arns, console).await {
        match answer {
            Ok(subscription) => all.push(subscription),
            // It was deleted meanwhile.
            Err(error) if error.is_missing() => {}
            Err(error) => {
                *found.unread.entry(error.why.clone()).or_default() += 1;
                if let Some(said) = error.said {
                    found.said.entry(error.why).or_insert(said);
                }
            }
        }
    }
    let topics = kept(&mut all, queues, requeue);
    found.all = all;
    found.foreign = foreign(sns, topics, &arns.iter().map(String::as_str).collect()).await;
    Ok(found)
}

/// The subscriptions of an account or of a topic.
#[derive(Debug, Default)]
pub(crate) struct ListedSubscriptions {
    pub(crate) confirmed: Vec<ListedSubscription>,
    /// The number of those that are not confirmed, which have no ARN yet.
    pub(crate) pending: u64,
}

/// A confirmed subscription, as a listing shows it.
#[derive(Debug)]
pub(crate) struct ListedSubscription {
    pub(crate) arn: String,
    /// The account that owns it.
    pub(crate) owner: String,
    pub(crate) protocol: String,
}

impl ListedSubscriptions {
    fn add(&mut self, listed: &aws_sdk_sns::types::Subscription) {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        match listed.subscription_arn() {
            Some(arn) if !NO_ARN_TEXTS.contains(&arn) => self.confirmed.push(ListedSubscription {
                arn: arn.to_owned(),
                owner: text(listed.owner()),
                protocol: text(listed.protocol()),
            }),
            Some("PendingConfirmation") => self.pending += 1,
            _ => {}
        }
    }
}

/// Lists the subscriptions of the account.
pub(crate) async fn listed(sns: &aws_sdk_sns::Client) -> ReadResult<ListedSubscriptions> {
    let mut listed = ListedSubscriptions::default();
    let mut pages = sns.list_subscriptions().into_paginator().items().send();
    while let Some(next) = pages.next().await {
        listed.add(&next.map_err(|error| read_error("sns:ListSubscriptions", &error))?);
    }
    Ok(listed)
}

/// Lists the subscriptions of a topic, those of other accounts too.
pub(crate) async fn of_topic(sns: &aws_sdk_sns::Client, topic: &str) -> ReadResult<ListedSubscriptions> {
    let mut listed = ListedSubscriptions::default();
    let mut pages = sns.list_subscriptions_by_topic().topic_arn(topic).into_paginator().items().send();
    while let Some(next) = pages.next().await {
        listed.add(&next.map_err(|error| read_error("sns:ListSubscriptionsByTopic", &error))?);
    }
    Ok(listed)
}

/// Reads each of these subscriptions.
pub(crate) async fn each<'a>(
    sns: &aws_sdk_sns::Client,
    arns: &'a [String],
    console: &mut ToolEnvironment,
) -> Vec<(&'a str, ReadResult<DeployedSubscription>)> {
    let (mut asked, number) = (0_u64, thousands(arns.len() as u64));
    let mut screen = ProgressLine::new(&mut *console.err, console.progress);
    let mut answers = stream::iter(arns).map(|arn| ask(sns, arn)).buffered(CONCURRENT_READS);
    let mut all = Vec::new();
    while let Some(answer) = answers.next().await {
        asked += 1;
        if asked.is_multiple_of(50) {
            screen.show(&format!("{} of {number} subscriptions read", thousands(asked)));
        }
        all.push(answer);
    }
    arns.iter().map(String::as_str).zip(all).collect()
}

/// Keeps the subscriptions that matter, and returns the topics of those that name one of the queues.
fn kept(
    all: &mut Vec<DeployedSubscription>,
    queues: &[DeployedQueue],
    requeue: Option<&DeployedQueue>,
) -> BTreeSet<String> {
    let own = all.iter().filter(|it| it.names_any(queues));
    let topics: BTreeSet<String> = own.map(|it| it.topic.clone()).collect();
    all.retain(|it| {
        let comes_in = queues.iter().chain(requeue).any(|queue| queue.arn.as_str() == it.endpoint);
        comes_in || topics.contains(&it.topic) || requeue.is_some_and(|requeue| it.names(requeue))
    });
    topics
}

/// Reads a subscription.
pub(crate) async fn ask(sns: &aws_sdk_sns::Client, arn: &str) -> ReadResult<DeployedSubscription> {
    let read = sns.get_subscription_attributes().subscription_arn(arn).send().await;
    let read = read.map_err(|error| read_error("sns:GetSubscriptionAttributes", &error))?;
    let attribute = |name: &str| read.attributes()?.get(name).cloned();
    let redrive_policy = attribute("RedrivePolicy").filter(|text| !text.is_empty());
    let redrive: Value =
        redrive_policy.as_deref().and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    Ok(DeployedSubscription {
        arn: arn.to_owned(),
        topic: attribute("TopicArn").unwrap_or_default(),
        owner: attribute("Owner").unwrap_or_default(),
        protocol: attribute("Protocol").unwrap_or_default(),
        endpoint: attribute("Endpoint").unwrap_or_default(),
        dead_letters: redrive["deadLetterTargetArn"].as_str().map(str::to_owned),
        redrive_policy,
        is_raw: attribute("RawMessageDelivery").as_deref() == Some("true"),
        // A policy on the body sees no attributes.
        // https://docs.aws.amazon.com/sns/latest/dg/sns-message-filtering-scope.html
        filter: attribute("FilterPolicy")
            .filter(|_| attribute("FilterPolicyScope").as_deref() != Some("MessageBody")),
    })
}

/// Counts the subscriptions of topics that are not of this account.
async fn foreign(
    sns: &aws_sdk_sns::Client,
    topics: BTreeSet<String>,
    own: &BTreeSet<&str>,
) -> BTreeMap<String, ReadResult<u64>> {
    let mut foreign = BTreeMap::new();
    for topic in topics {
        let listed = of_topic(sns, &topic).await;
        let number =
            listed.map(|it| it.confirmed.iter().filter(|it| !own.contains(it.arn.as_str())).count() as u64);
        foreign.insert(topic, number);
    }
    foreign
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_that_deliver_into_a_queue_of_the_function_are_kept() {
        let queue = |name: &str| DeployedQueue {
            arn: format!("arn:aws:sqs:eu-central-1:123456789012:{name}").parse().unwrap(),
            attributes: Ok(BTreeMap::new()),
            tags: None,
        };
        let (queues, requeue) = ([queue("dlq")], queue("requeue"));
        let subscription = |topic: &str, endpoint: &str, names: Option<&str>| DeployedSubscription {
            arn: format!("{topic}:{endpoint}"),
            topic: topic.to_owned(),
            owner: "123456789012".to_owned(),
            protocol: "sqs".to_owned(),
            endpoint: queue(endpoint).arn.to_string(),
            dead_letters: names.map(|name| queue(name).arn.to_string()),
            redrive_policy: None,
            is_raw: false,
            filter: None,
        };
        let mut all = vec![
            subscription("payments", "worker", Some("dlq")),
            subscription("payments", "audit", None),
            subscription("bills", "dlq", None),
            subscription("alarms", "requeue", None),
            subscription("others", "worker", Some("another")),
            subscription("wrong", "worker", Some("requeue")),
        ];
        let topics = kept(&mut all, &queues, Some(&requeue));
        assert_eq!(topics, BTreeSet::from(["payments".to_owned()]));
        let arns: Vec<_> = all.iter().map(|it| it.arn.as_str()).collect();
        assert_eq!(
            arns,
            ["payments:worker", "payments:audit", "bills:dlq", "alarms:requeue", "wrong:worker"]
        );
    }
}

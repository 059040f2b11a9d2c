//! The subscriptions. SNS cannot list those that name a queue, so the attributes of all in the account are read.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt};
use serde_json::Value;

use super::error::read_error;
use crate::console::ToolEnvironment;
use crate::doctor::setup::{
    AccountSubscriptions, DeployedQueue, DeployedSubscription, ReadError, ReadResult,
};
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
    let mut found = AccountSubscriptions::default();
    let mut arns = Vec::new();
    let mut pages = sns.list_subscriptions().into_paginator().items().send();
    while let Some(listed) = pages.next().await {
        let listed = listed.map_err(|error| read_error("sns:ListSubscriptions", &error))?;
        match listed.subscription_arn() {
            Some(arn) if !NO_ARN_TEXTS.contains(&arn) => arns.push(arn.to_owned()),
            Some("PendingConfirmation") => found.pending += 1,
            _ => {}
        }
    }
    let (mut asked, number) = (0_u64, arns.len());
    let mut screen = ProgressLine::new(&mut *console.err, console.progress);
    let mut answers = stream::iter(&arns).map(|arn| ask(sns, arn)).buffered(CONCURRENT_READS);
    let mut all = Vec::new();
    while let Some(answer) = answers.next().await {
        asked += 1;
        if asked.is_multiple_of(50) {
            screen.show(&format!("{} of {} subscriptions read", thousands(asked), thousands(number as u64)));
        }
        match answer {
            Ok(subscription) => all.push(subscription),
            // It was deleted meanwhile.
            Err(error) if error.why.contains("NotFound") => {}
            Err(error) => {
                *found.unread.entry(error.why.clone()).or_default() += 1;
                if let Some(said) = error.said {
                    found.said.entry(error.why).or_insert(said);
                }
            }
        }
    }
    drop(screen);
    let topics = kept(&mut all, queues, requeue);
    found.all = all;
    found.foreign = foreign(sns, topics, &arns.iter().map(String::as_str).collect()).await;
    Ok(found)
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

async fn ask(sns: &aws_sdk_sns::Client, arn: &str) -> ReadResult<DeployedSubscription> {
    let read = sns.get_subscription_attributes().subscription_arn(arn).send().await;
    let read = read.map_err(|error| read_error("sns:GetSubscriptionAttributes", &error))?;
    let attribute = |name: &str| read.attributes()?.get(name).cloned();
    let redrive: Value =
        attribute("RedrivePolicy").and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_default();
    Ok(DeployedSubscription {
        arn: arn.to_owned(),
        topic: attribute("TopicArn").unwrap_or_default(),
        protocol: attribute("Protocol").unwrap_or_default(),
        endpoint: attribute("Endpoint").unwrap_or_default(),
        dead_letters: redrive["deadLetterTargetArn"].as_str().map(str::to_owned),
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
        let mut pages = sns.list_subscriptions_by_topic().topic_arn(&topic).into_paginator().items().send();
        let mut number: Result<u64, ReadError> = Ok(0);
        while let Some(listed) = pages.next().await {
            match (listed, &mut number) {
                (Ok(listed), Ok(number)) => {
                    let arn = listed.subscription_arn().unwrap_or_default();
                    *number += u64::from(!NO_ARN_TEXTS.contains(&arn) && !own.contains(arn));
                }
                (Err(error), _) => {
                    number = Err(read_error("sns:ListSubscriptionsByTopic", &error));
                    break;
                }
                (Ok(_), Err(_)) => break,
            }
        }
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
            protocol: "sqs".to_owned(),
            endpoint: queue(endpoint).arn.to_string(),
            dead_letters: names.map(|name| queue(name).arn.to_string()),
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

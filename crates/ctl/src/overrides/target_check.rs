//! Checks that the topics, queues and subscriptions of an override exist, so that a typing error does not become
//! an override that matches nothing.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_sns::config::{Builder as SnsConfig, Region};
use aws_sdk_sqs::config::Builder as SqsConfig;
use aws_sdk_sqs::types::QueueAttributeName;
use redrive_aws::clients::failure_of_call;
use redrive_console::pattern_names;
use redrive_core::arn::{Arn, ArnKind};
use redrive_core::failure::Failure;
use redrive_core::waiting::WaitingLetter;
use serde_json::Value;

use crate::aws::{self, AwsAccess};
use crate::tables::harmless;

/// The fields of a pattern that name a resource.
const FIELDS: [(&str, ArnKind, &str); 4] = [
    ("target", ArnKind::Other, "target"),
    ("topicArn", ArnKind::Topic, "topic"),
    ("queueArn", ArnKind::Queue, "queue"),
    ("subscriptionArn", ArnKind::Subscription, "subscription"),
];

/// The resources that lines of the list of waiting letters name, by the field of a pattern.
#[derive(Debug, Default)]
pub(super) struct ListedResources(BTreeMap<&'static str, BTreeSet<String>>);

impl ListedResources {
    pub(super) fn add(&mut self, letter: &WaitingLetter) {
        let queues = [Some(&letter.queue_arn), letter.dead_letter_queue_arn.as_ref()];
        let queues = queues.into_iter().flatten().map(|arn| ("queueArn", arn.as_str()));
        let others = [("topicArn", &letter.topic_arn), ("subscriptionArn", &letter.subscription_arn)];
        let others = others.into_iter().filter_map(|(field, arn)| Some((field, arn.as_deref()?)));
        let target = letter.target.iter().map(|target| ("target", target.as_str()));
        for (field, arn) in queues.chain(others).chain(target) {
            let known = self.0.entry(field).or_default();
            if !known.contains(arn) {
                known.insert(arn.to_owned());
            }
        }
    }

    /// Reports whether a line has an ARN, or one that ends with a name.
    fn has(&self, field: &str, named: &str) -> bool {
        let is_it = |arn: &String| {
            arn == named || arn.strip_suffix(named).is_some_and(|before| before.ends_with([':', '/']))
        };
        self.0.get(field).is_some_and(|known| known.iter().any(is_it))
    }
}

/// The resources of a pattern of which SNS and SQS do not say that they exist.
#[derive(Debug, Default)]
pub(crate) struct UnknownResources {
    /// The resources that do not exist.
    pub(crate) missing: Vec<String>,
    /// The resources that could not be looked up, each with the reason.
    pub(crate) unseen: Vec<String>,
}

impl UnknownResources {
    /// Asks SNS and SQS about the resources that a pattern names and no line of the list has. One typing error beside a
    /// good name is one too.
    pub(super) async fn of(pattern: &Value, listed: &ListedResources, aws: &AwsAccess) -> Self {
        let mut unknown = Self::default();
        for (field, kind, what) in FIELDS {
            for named in anywhere(pattern, field).into_iter().filter(|named| !listed.has(field, named)) {
                let told = format!("the {what} {}", harmless(&named));
                match exists(&named, kind, aws).await {
                    Ok(true) => {}
                    Ok(false) => unknown.missing.push(told),
                    Err(failure) => unknown.unseen.push(format!("{told}: {}", harmless(&failure))),
                }
            }
        }
        unknown
    }
}

/// Returns the ARNs and names that a pattern requires in a field, including its alternatives.
fn anywhere(pattern: &Value, field: &str) -> Vec<String> {
    let alternatives = pattern["$or"].as_array().into_iter().flatten();
    let below = alternatives.flat_map(|one| anywhere(one, field));
    pattern_names(&pattern[field]).into_iter().chain(below).collect()
}

/// Reports whether a resource exists. A name is looked up in the caller's account and region.
///
/// # Errors
///
/// The call that failed, in words.
async fn exists(named: &str, kind: ArnKind, aws: &AwsAccess) -> Result<bool, String> {
    let kind = match named.parse::<Arn>() {
        Ok(arn) if kind == ArnKind::Other => arn.kind(),
        _ => kind,
    };
    if !matches!(kind, ArnKind::Topic | ArnKind::Subscription | ArnKind::Queue) {
        return Err("no letter on the list of waiting letters goes there".to_owned());
    }
    let arn = match named.parse() {
        Ok(arn) => arn,
        Err(_) => here(named, kind, aws).await?,
    };
    let (call, answer) = match kind {
        ArnKind::Topic => ("sns:GetTopicAttributes", topic(&arn, aws).await),
        ArnKind::Subscription => ("sns:GetSubscriptionAttributes", subscription(&arn, aws).await),
        _ => ("sqs:GetQueueAttributes", queue(&arn, aws).await),
    };
    match answer {
        Ok(()) => Ok(true),
        Err(failure) if failure.is_of_no_queue() || is_not_found(&failure) => Ok(false),
        Err(failure) => Err(format!("{call} failed: {}", failure.told())),
    }
}

fn is_not_found(failure: &Failure) -> bool {
    matches!(failure.code.as_str(), "NotFound" | "NotFoundException")
}

/// Returns the ARN of a name in the caller's account.
async fn here(name: &str, kind: ArnKind, aws: &AwsAccess) -> Result<Arn, String> {
    let caller = aws::caller(&aws.sts()).await;
    let caller = caller.map_err(|failure| format!("sts:GetCallerIdentity failed: {}", failure.told()))?;
    let mut parts = caller.split(':').skip(1);
    let (partition, account) = (parts.next().unwrap_or_default(), parts.nth(2).unwrap_or_default());
    let service = if kind == ArnKind::Queue { "sqs" } else { "sns" };
    let arn = format!("arn:{partition}:{service}:{}:{account}:{name}", aws.region());
    arn.parse().map_err(|_| "the caller's account is unknown".to_owned())
}

async fn topic(arn: &Arn, aws: &AwsAccess) -> Result<(), Failure> {
    let there = SnsConfig::new().region(Region::new(arn.region().to_owned()));
    let asked = aws.clients().sns.get_topic_attributes().topic_arn(arn.as_str()).customize();
    asked.config_override(there).send().await.map_err(|error| failure_of_call(&error)).map(drop)
}

async fn subscription(arn: &Arn, aws: &AwsAccess) -> Result<(), Failure> {
    let there = SnsConfig::new().region(Region::new(arn.region().to_owned()));
    let asked = aws.clients().sns.get_subscription_attributes().subscription_arn(arn.as_str()).customize();
    asked.config_override(there).send().await.map_err(|error| failure_of_call(&error)).map(drop)
}

async fn queue(arn: &Arn, aws: &AwsAccess) -> Result<(), Failure> {
    let there = SqsConfig::new().region(Region::new(arn.region().to_owned()));
    let asked = aws.clients().sqs.get_queue_attributes().queue_url(arn.queue_url());
    let asked = asked.attribute_names(QueueAttributeName::QueueArn).customize();
    asked.config_override(there).send().await.map_err(|error| failure_of_call(&error)).map(drop)
}

//! The queues.

use aws_sdk_lambda::types::EventSourceMappingConfiguration;
use aws_sdk_sqs::types::QueueAttributeName;
use redrive_aws::clients::AwsClients;
use redrive_core::arn::Arn;

use super::error::read_error;
use crate::doctor::setup::{DeployedQueue, ReadResult};

/// The logical ids of the template's queues, which follow the stack's name in their physical names.
/// <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-physical-id.html>
const QUEUE_LOGICAL_IDS: [&str; 2] = ["DeadLetterQueue", "RequeueQueue"];

/// Reads the attributes of a queue, and on request its tags.
pub(crate) async fn read(sqs: &aws_sdk_sqs::Client, arn: Arn, with_tags: bool) -> DeployedQueue {
    let url = arn.queue_url();
    let read =
        sqs.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::All).send().await;
    let attributes = read.map_err(|error| read_error("sqs:GetQueueAttributes", &error)).map(|read| {
        let attributes = read.attributes.into_iter().flatten();
        attributes
            .map(|(name, value)| (name.as_str().to_owned(), value))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    });
    let tags = if with_tags {
        let read = sqs.list_queue_tags().queue_url(&url).send().await;
        Some(
            read.map(|read| read.tags.into_iter().flatten().collect())
                .map_err(|error| read_error("sqs:ListQueueTags", &error)),
        )
    } else {
        None
    };
    DeployedQueue { arn, attributes, tags }
}

/// Reads the queues that a stack left behind: it created them, and they no longer feed a function. `own` are
/// its current queues, `function` is the function's ARN.
pub(super) async fn left_behind(
    clients: &AwsClients,
    stack: &str,
    function: &Arn,
    own: &[&Arn],
) -> ReadResult<Vec<DeployedQueue>> {
    let mut left = Vec::new();
    for logical in QUEUE_LOGICAL_IDS {
        let listed = clients.sqs.list_queues().queue_name_prefix(format!("{stack}-{logical}")).send().await;
        let listed = listed.map_err(|error| read_error("sqs:ListQueues", &error))?;
        let names = listed.queue_urls().iter().filter_map(|url| url.rsplit('/').next());
        let (partition, region, account) = (function.partition(), function.region(), function.account());
        let arn = |name| format!("arn:{partition}:sqs:{region}:{account}:{name}").parse::<Arn>().ok();
        left.extend(undrained(clients, names.filter_map(arn), own).await?);
    }
    Ok(left)
}

/// Reads those of these queues that feed no function, except a function's `own`.
pub(super) async fn undrained(
    clients: &AwsClients,
    queues: impl Iterator<Item = Arn>,
    own: &[&Arn],
) -> ReadResult<Vec<DeployedQueue>> {
    let mut undrained = Vec::new();
    for queue in queues.filter(|queue| !own.contains(&queue)) {
        if mappings_of_queue(&clients.lambda, &queue).await?.is_empty() {
            undrained.push(read(&clients.sqs, queue, false).await);
        }
    }
    Ok(undrained)
}

/// Returns the mappings that receive from a queue.
pub(crate) async fn mappings_of_queue(
    lambda: &aws_sdk_lambda::Client,
    queue: &Arn,
) -> ReadResult<Vec<EventSourceMappingConfiguration>> {
    let asked = lambda.list_event_source_mappings().event_source_arn(queue.as_str());
    let all = asked.into_paginator().items().send().try_collect().await;
    all.map_err(|error| read_error("lambda:ListEventSourceMappings", &error))
}

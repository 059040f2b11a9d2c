//! The topics that the stack's alarms call.

use super::error::read_error;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::doctor::setup::{AlarmTopic, ReadResult};

/// The parameters that name them, and whether alarms that page call them.
const PARAMETERS: [(&str, bool); 2] = [("AlarmTopicArn", false), ("PageTopicArn", true)];

/// Reads the topics that the named stack's alarms call.
pub(super) async fn topics(
    sns: &aws_sdk_sns::Client,
    console: &ToolEnvironment,
) -> Result<Vec<AlarmTopic>, CommandFailure> {
    let mut topics = Vec::new();
    for (parameter, pages) in PARAMETERS {
        if let Some(arn) = console.stack.parameter(parameter)? {
            let subscribers = subscribers(sns, &arn).await;
            topics.push(AlarmTopic { arn, pages, subscribers });
        }
    }
    Ok(topics)
}

/// Returns the number of confirmed subscriptions of a topic, if SNS tells it.
async fn subscribers(sns: &aws_sdk_sns::Client, topic: &str) -> ReadResult<Option<u64>> {
    let read = sns.get_topic_attributes().topic_arn(topic).send().await;
    let read = read.map_err(|error| read_error("sns:GetTopicAttributes", &error))?;
    Ok(read.attributes().and_then(|all| all.get("SubscriptionsConfirmed")?.parse().ok()))
}

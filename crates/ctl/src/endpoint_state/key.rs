//! The customer-managed KMS key of a queue, as SNS meets it.

use aws_sdk_kms::types::KeyState;
use aws_sdk_s3::error::ProvideErrorMetadata;
use redrive_core::arn::Arn;

use super::state::{EndpointState, SNS};
use crate::doctor::{MessageSender, PolicyAnswer, ResourcePolicy, read_error};

/// The name of a key's only policy.
const POLICY_NAME: &str = "default";

/// Returns the ARN of the key that a queue names by id, ARN or alias, those of its own account and region.
pub(crate) fn key_arn(key: &str, queue: &Arn) -> String {
    if key.starts_with("arn:") {
        return key.to_owned();
    }
    let kind = if key.starts_with("alias/") { "" } else { "key/" };
    format!("arn:{}:kms:{}:{}:{kind}{key}", queue.partition(), queue.region(), queue.account())
}

/// Reads whether SNS can use the key of a queue.
pub(super) async fn of_queue(
    kms: &aws_sdk_kms::Client,
    key: &str,
    queue: &Arn,
    topic: &str,
) -> EndpointState {
    let named = key_arn(key, queue);
    let key = match kms.describe_key().key_id(&named).send().await {
        Ok(read) => read.key_metadata,
        Err(error) if error.code() == Some("NotFoundException") => {
            return EndpointState::broken("the queue's key does not exist");
        }
        Err(error) => return EndpointState::unseen(&read_error("kms:DescribeKey", &error)),
    };
    let Some(key) = key else {
        return EndpointState::cannot_tell("KMS gave no description of the queue's key");
    };
    match key.key_state() {
        None | Some(KeyState::Enabled) => {}
        Some(state) => {
            return EndpointState::broken(format!(
                "the queue's key {named} is in the state {}",
                state.as_str()
            ));
        }
    }
    let policy = match kms.get_key_policy().key_id(key.key_id()).policy_name(POLICY_NAME).send().await {
        Ok(read) => ResourcePolicy::of(read.policy().unwrap_or_default()),
        Err(error) => return EndpointState::unseen(&read_error("kms:GetKeyPolicy", &error)),
    };
    let account = topic.split(':').nth(4).unwrap_or_default();
    let sns = MessageSender { service: SNS, source: topic, account };
    // The policy of a key names it as `*`.
    let may = |action| policy.lets(sns, action, key.arn().unwrap_or(&named));
    match (may("kms:GenerateDataKey"), may("kms:Decrypt")) {
        (PolicyAnswer::Yes, PolicyAnswer::Yes) => {
            EndpointState::works("the queue exists, and its policy and its key let SNS write")
        }
        (PolicyAnswer::No, _) | (_, PolicyAnswer::No) => EndpointState::broken(format!(
            "the policy of the queue's key {named} does not let SNS use it (kms:GenerateDataKey and kms:Decrypt for {SNS})"
        )),
        _ => EndpointState::cannot_tell(format!(
            "the policy of the queue's key {named} has conditions that this tool does not know: it may keep SNS out"
        )),
    }
}

//! The resources of a drill: a topic, two queues, two subscriptions. Each call uses the drill's own names.

use std::fmt::Display;

use aws_sdk_sns::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sns::types::{MessageAttributeValue, Tag};
use aws_sdk_sqs::operation::create_queue::builders::CreateQueueFluentBuilder;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, QueueAttributeName};
use redrive_aws::clients::failure_of_call;
use redrive_core::arn::Arn;
use redrive_core::batch::MAX_ENTRIES;
use serde_json::{Value, json};

use super::names::{DRILL_TAG, DrillNames, FIFO, LETTERS_TAG, QUEUE_TAG};
use crate::console::CommandFailure;
use crate::doctor::{MessageSender, PolicyAnswer, ResourcePolicy};

/// The message attribute by which the drill's overrides distinguish its messages.
pub(super) const ATTRIBUTE: &str = "drill";

/// The duration of one request for messages, in seconds.
const POLL_SECONDS: i32 = 1;

/// The drill's resources, with their clients.
#[derive(Debug)]
pub(super) struct DrillResources {
    pub(super) names: DrillNames,
    pub(super) stack: String,
    pub(super) dead_letters: Arn,
    pub(super) sns: aws_sdk_sns::Client,
    pub(super) sqs: aws_sdk_sqs::Client,
}

/// Returns the error of a call, in words.
pub(super) fn failed<E: ProvideErrorMetadata>(what: impl Display, error: &SdkError<E>) -> CommandFailure {
    let failure = failure_of_call(error);
    let said = failure.message.map_or(String::new(), |said| format!(": {said}"));
    CommandFailure::Work(format!("{what} failed: {}{said}", failure.code))
}

/// Reports whether a call failed because the queue or topic does not exist.
pub(super) fn is_gone<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    let code = failure_of_call(error).code;
    let code = code.rsplit('.').next().unwrap_or_default();
    ["NonExistentQueue", "QueueDoesNotExist", "NotFound", "NotFoundException"].contains(&code)
}

/// Returns whether a queue was created. SQS refuses while it still deletes a queue with the same name.
fn made<T, E: ProvideErrorMetadata>(result: Result<T, SdkError<E>>) -> Result<bool, CommandFailure> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if failure_of_call(&error).code.ends_with("QueueDeletedRecently") => Ok(false),
        Err(error) => Err(failed("sqs:CreateQueue", &error)),
    }
}

/// Returns the text of a drill's message.
pub(super) fn message(id: &str, kind: &str) -> String {
    json!({ "drill": id, "for": kind }).to_string()
}

fn tag(key: &str, value: &str) -> Result<Tag, CommandFailure> {
    let tag = Tag::builder().key(key).value(value).build();
    tag.map_err(|error| CommandFailure::Work(error.to_string()))
}

impl DrillResources {
    /// Returns whether the policy of the dead-letter queue lets SNS write for the drill's topic.
    pub(super) async fn lets_in(&self) -> Result<PolicyAnswer, CommandFailure> {
        let queue = &self.dead_letters;
        let Some(url) = self.url(queue.resource()).await? else {
            return Err(CommandFailure::Work(format!("the queue {queue} does not exist")));
        };
        let asked =
            self.sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::Policy);
        let answer = asked.send().await.map_err(|error| failed("sqs:GetQueueAttributes", &error))?;
        let policy = answer.attributes().and_then(|all| all.get(&QueueAttributeName::Policy));
        let topic = self.names.topic_arn();
        let sender =
            MessageSender { service: "sns.amazonaws.com", source: &topic, account: self.names.account() };
        let policy = ResourcePolicy::of(policy.map_or("", String::as_str));
        Ok(policy.lets(sender, "sqs:SendMessage", queue.as_str()))
    }

    pub(super) async fn make_topic(&self) -> Result<(), CommandFailure> {
        let tags = [tag(DRILL_TAG, &self.stack)?, tag(QUEUE_TAG, self.dead_letters.as_str())?];
        let mut make = self.sns.create_topic().name(self.names.topic());
        if self.names.is_fifo {
            make = make.attributes("FifoTopic", "true");
        }
        let make = make.set_tags(Some(tags.into())).send().await;
        make.map(|_| ()).map_err(|error| failed("sns:CreateTopic", &error))
    }

    /// Tags the topic with the state of the letters, for a later removal.
    pub(super) async fn note_letters(&self, state: &str) -> Result<(), CommandFailure> {
        let call =
            self.sns.tag_resource().resource_arn(self.names.topic_arn()).tags(tag(LETTERS_TAG, state)?);
        call.send().await.map(|_| ()).map_err(|error| failed("sns:TagResource", &error))
    }

    /// Creates a queue that only this drill sends to. Returns false while SQS still deletes the one of this name.
    pub(super) async fn make_asked(&self, name: &str) -> Result<bool, CommandFailure> {
        made(self.create_queue(name).send().await)
    }

    fn create_queue(&self, name: &str) -> CreateQueueFluentBuilder {
        let make = self.sqs.create_queue().queue_name(name).tags(DRILL_TAG, &self.stack);
        let make = make.tags(QUEUE_TAG, self.dead_letters.as_str());
        let is_fifo = name.strip_suffix(FIFO).is_some();
        if is_fifo { make.attributes(QueueAttributeName::FifoQueue, "true") } else { make }
    }

    /// Creates a queue for SNS. Returns false while SQS still deletes the one of this name.
    pub(super) async fn make_queue(&self, name: &str) -> Result<bool, CommandFailure> {
        let policy = json!({ "Version": "2012-10-17", "Statement": [{
            "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage",
            "Resource": self.names.queue_arn(name),
            "Condition": { "ArnEquals": { "aws:SourceArn": self.names.topic_arn() } },
        }] });
        let make = self.create_queue(name).attributes(QueueAttributeName::Policy, policy.to_string());
        made(make.send().await)
    }

    /// Subscribes a queue to the topic, with its dead letters in the stack's queue.
    pub(super) async fn subscribe(&self, name: &str) -> Result<(), CommandFailure> {
        let redrive = json!({ "deadLetterTargetArn": self.dead_letters.as_str() }).to_string();
        let call = self.sns.subscribe().topic_arn(self.names.topic_arn()).protocol("sqs");
        let call = call.endpoint(self.names.queue_arn(name)).attributes("RedrivePolicy", redrive);
        call.send().await.map(|_| ()).map_err(|error| failed("sns:Subscribe", &error))
    }

    /// Publishes a message with this value of [`ATTRIBUTE`], and returns its id.
    pub(super) async fn publish(&self, kind: &str) -> Result<String, CommandFailure> {
        let value = MessageAttributeValue::builder().data_type("String").string_value(kind).build();
        let value = value.map_err(|error| CommandFailure::Work(error.to_string()))?;
        let message = message(&self.names.id, kind);
        let mut call = self.sns.publish().topic_arn(self.names.topic_arn()).message(message);
        if self.names.is_fifo {
            // Each message has a group of its own: the letter that fails would hold another of its group.
            call = call.message_group_id(kind).message_deduplication_id(kind);
        }
        let answer = call.message_attributes(ATTRIBUTE, value).send().await;
        let answer = answer.map_err(|error| failed("sns:Publish", &error))?;
        Ok(answer.message_id().unwrap_or_default().to_owned())
    }

    /// Receives and deletes the messages of a queue. Returns their ids of SNS.
    pub(super) async fn take(&self, name: &str) -> Result<Vec<String>, CommandFailure> {
        let mut ids = Vec::new();
        let Some(url) = self.url(name).await? else { return Ok(ids) };
        loop {
            let most = i32::try_from(MAX_ENTRIES).unwrap_or(10);
            let receive = self.sqs.receive_message().queue_url(&url).max_number_of_messages(most);
            let answer = receive.wait_time_seconds(POLL_SECONDS).send().await;
            let answer = answer.map_err(|error| failed("sqs:ReceiveMessage", &error))?;
            let messages = answer.messages();
            if messages.is_empty() {
                return Ok(ids);
            }
            let mut entries = Vec::new();
            for (number, message) in messages.iter().enumerate() {
                let body: Value =
                    serde_json::from_str(message.body().unwrap_or_default()).unwrap_or_default();
                ids.push(body["MessageId"].as_str().unwrap_or("(no id of SNS)").to_owned());
                let entry = DeleteMessageBatchRequestEntry::builder().id(number.to_string());
                let entry = entry.receipt_handle(message.receipt_handle().unwrap_or_default()).build();
                entries.push(entry.map_err(|error| CommandFailure::Work(error.to_string()))?);
            }
            let delete = self.sqs.delete_message_batch().queue_url(&url).set_entries(Some(entries));
            delete.send().await.map_err(|error| failed("sqs:DeleteMessage", &error))?;
        }
    }

    /// Deletes a queue, and returns whether it existed.
    pub(super) async fn delete_queue(&self, name: &str) -> Result<bool, CommandFailure> {
        let Some(url) = self.url(name).await? else { return Ok(false) };
        match self.sqs.delete_queue().queue_url(url).send().await {
            Ok(_) => Ok(true),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(failed("sqs:DeleteQueue", &error)),
        }
    }

    /// Deletes the topic. SNS answers the same for a missing one.
    pub(super) async fn delete_topic(&self) -> Result<(), CommandFailure> {
        let delete = self.sns.delete_topic().topic_arn(self.names.topic_arn()).send().await;
        delete.map(|_| ()).map_err(|error| failed("sns:DeleteTopic", &error))
    }

    /// Deletes the subscriptions of the topic, and returns their number.
    pub(super) async fn unsubscribe(&self) -> Result<u64, CommandFailure> {
        let topic = self.names.topic_arn();
        let listed = match self.sns.list_subscriptions_by_topic().topic_arn(topic).send().await {
            Ok(listed) => listed,
            Err(error) if is_gone(&error) => return Ok(0),
            Err(error) => return Err(failed("sns:ListSubscriptionsByTopic", &error)),
        };
        let mut number = 0;
        for subscription in listed.subscriptions() {
            let end =
                self.sns.unsubscribe().subscription_arn(subscription.subscription_arn().unwrap_or_default());
            end.send().await.map_err(|error| failed("sns:Unsubscribe", &error))?;
            number += 1;
        }
        Ok(number)
    }

    /// Returns the URL of a queue, if it exists.
    pub(super) async fn url(&self, name: &str) -> Result<Option<String>, CommandFailure> {
        match self.sqs.get_queue_url().queue_name(name).send().await {
            Ok(answer) => Ok(answer.queue_url().map(str::to_owned)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(failed("sqs:GetQueueUrl", &error)),
        }
    }
}

//! The attributes of a queue.

use std::collections::BTreeMap;

use serde_json::json;

use super::QueueSettings;
use super::Sqs;
use crate::clock::SimMillis;
use crate::error::Error;
use crate::names::arn;

impl Sqs {
    /// Carries out `GetQueueAttributes`. Without names it returns no attributes, with `All` it returns all.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html>
    pub fn get_queue_attributes(
        &mut self,
        now: SimMillis,
        queue: &str,
        names: &[String],
    ) -> Result<BTreeMap<String, String>, Error> {
        let queue = self.find(queue)?;
        queue.messages.settle(now);
        let counts = queue.reading(now);
        let QueueSettings { retention, visibility, max_bytes, delay, content_based, redrive, more, .. } =
            &queue.messages.settings;
        let mut attributes = BTreeMap::from([
            ("QueueArn", queue.arn()),
            ("ApproximateNumberOfMessages", counts.visible.to_string()),
            ("ApproximateNumberOfMessagesNotVisible", counts.in_flight.to_string()),
            ("ApproximateNumberOfMessagesDelayed", counts.delayed.to_string()),
            ("MessageRetentionPeriod", retention.to_string()),
            ("VisibilityTimeout", visibility.to_string()),
            ("MaximumMessageSize", max_bytes.to_string()),
            ("DelaySeconds", delay.to_string()),
        ]);
        if queue.messages.is_fifo {
            attributes.insert("FifoQueue", "true".to_owned());
            attributes.insert("ContentBasedDeduplication", content_based.to_string());
        }
        if let Some(redrive) = redrive {
            let target = arn("sqs", &redrive.queue);
            let policy = json!({ "deadLetterTargetArn": target, "maxReceiveCount": redrive.max_receives });
            attributes.insert("RedrivePolicy", policy.to_string());
        }
        attributes.extend(more.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let all = names.iter().any(|name| name == "All");
        let wanted = |name: &str| all || names.iter().any(|it| it == name);
        let attributes = attributes.into_iter().filter(|(name, _)| wanted(name));
        Ok(attributes.map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Carries out `ListQueueTags`.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ListQueueTags.html>
    pub fn list_queue_tags(&mut self, queue: &str) -> Result<BTreeMap<String, String>, Error> {
        Ok(self.find(queue)?.messages.settings.tags.clone())
    }
}

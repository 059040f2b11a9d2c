//! The attributes of queues that the function needs: how long they keep messages, how large messages may be,
//! how many are in flight, and how often a source queue lets a message be received before SQS moves it away.
//!
//! Only the first event tells which queue feeds the function. So attributes are read then, and again when
//! they are old. If a queue does not answer, the last answer stays valid. If it never answered, the batch
//! machine decides nothing final by what is missing.
//! <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html>

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_sqs::config::Region;
use aws_sdk_sqs::types::QueueAttributeName;
use redrive_core::arn::Arn;
use redrive_core::batch::{QueueAttributes, RequiredFreshness};
use redrive_core::failure::{Failure, FailureClass};
use serde::Deserialize;
use tokio::time::Instant;

use super::cache::{CacheLimits, LookupCache};
use crate::clients::failure_of_call;
use crate::clock::InstanceClock;

/// The time for which attributes are valid. An operator may change them at any time.
const MAX_AGE: Duration = Duration::from_mins(1);

/// The pause after a failed call. A call with every batch would not help the queue.
const FAILED_LOOKUP_PAUSE: Duration = Duration::from_secs(30);

/// The greatest number of queues in the cache. SQS names the source queues, so a forger cannot add any.
const MAX_KEPT: usize = 1_000;

/// A reader of queue attributes that keeps them for a while.
#[derive(Debug)]
pub struct QueueReader {
    sqs: aws_sdk_sqs::Client,
    clock: InstanceClock,
    cache: LookupCache<Arn, QueueAttributes>,
}

impl QueueReader {
    /// Creates a reader. It makes no call before attributes are needed.
    #[must_use]
    pub fn new(sqs: aws_sdk_sqs::Client, clock: InstanceClock) -> Self {
        let keeping = CacheLimits { max_age: MAX_AGE, pause: FAILED_LOOKUP_PAUSE, max_kept: MAX_KEPT };
        Self { sqs, cache: LookupCache::new(keeping, clock.clone()), clock }
    }

    /// Returns the attributes of each of these queues, and the failures of those that could not be read now.
    /// `suffices` says whether a queue is asked whose attributes are not old, or that failed recently.
    pub async fn look_up(
        &self,
        arns: BTreeSet<Arn>,
        suffices: RequiredFreshness,
        until: Instant,
    ) -> (HashMap<Arn, QueueAttributes>, Vec<(Arn, Failure)>) {
        let answers = self.cache.look_up(arns, suffices, until, async |arn| self.ask(arn).await).await;
        let mut unread = Vec::new();
        let mut known = HashMap::new();
        for (arn, answer) in answers {
            let attributes = answer.unwrap_or_else(|missed| {
                unread.extend(missed.failure.map(|failure| (arn.clone(), failure)));
                missed.last.unwrap_or_default()
            });
            known.insert(arn, attributes);
        }
        (known, unread)
    }

    async fn ask(&self, queue: &Arn) -> Result<QueueAttributes, Failure> {
        let age = self.clock.age();
        let region = Region::new(queue.region().to_owned());
        let answer = self
            .sqs
            .get_queue_attributes()
            .queue_url(queue.queue_url())
            .attribute_names(QueueAttributeName::MessageRetentionPeriod)
            .attribute_names(QueueAttributeName::RedrivePolicy)
            .attribute_names(QueueAttributeName::VisibilityTimeout)
            .attribute_names(QueueAttributeName::MaximumMessageSize)
            .attribute_names(QueueAttributeName::ApproximateNumberOfMessagesNotVisible)
            .customize()
            .config_override(aws_sdk_sqs::config::Builder::new().region(region))
            .send()
            .await
            .map_err(|error| failure_of_call(&error))?;
        let text = |name| answer.attributes().and_then(|attributes| attributes.get(&name));
        let redrive = text(QueueAttributeName::RedrivePolicy);
        let number = |name| text(name).and_then(|text| text.parse::<u64>().ok());
        let retention = number(QueueAttributeName::MessageRetentionPeriod);
        // Every queue has a retention, so an answer without it does not count.
        let unread = || Failure::ours(FailureClass::Transient, "NoAnswer");
        Ok(QueueAttributes {
            retention: Some(retention.ok_or_else(unread)?),
            max_receives: redrive.and_then(|json| max_receives(json)),
            dead_letters_to: redrive.and_then(|json| dead_letters_to(json)),
            visibility_timeout: number(QueueAttributeName::VisibilityTimeout),
            max_message_bytes: number(QueueAttributeName::MaximumMessageSize)
                .and_then(|bytes| usize::try_from(bytes).ok()),
            in_flight: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
            read: Some(age),
        })
    }
}

/// Reads `maxReceiveCount` from a queue's own `RedrivePolicy`. Old policies write it as a string.
fn max_receives(json: &str) -> Option<u32> {
    #[derive(Deserialize)]
    struct MaxReceivePolicy {
        #[serde(rename = "maxReceiveCount")]
        max_receive_count: serde_json::Value,
    }
    let policy: MaxReceivePolicy = serde_json::from_str(json).ok()?;
    match policy.max_receive_count {
        serde_json::Value::String(text) => text.parse().ok(),
        number => number.as_u64().and_then(|number| u32::try_from(number).ok()),
    }
}

/// Reads `deadLetterTargetArn` from a queue's own `RedrivePolicy`.
fn dead_letters_to(json: &str) -> Option<Arn> {
    #[derive(Deserialize)]
    struct DeadLetterPolicy {
        #[serde(rename = "deadLetterTargetArn")]
        dead_letter_target_arn: Arn,
    }
    serde_json::from_str(json).ok().map(|policy: DeadLetterPolicy| policy.dead_letter_target_arn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_receive_count_is_read_as_number_and_as_text() {
        let arn = "arn:aws:sqs:eu-central-1:123456789012:q";
        assert_eq!(
            max_receives(&format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":3}}"#)),
            Some(3)
        );
        assert_eq!(
            max_receives(&format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"5"}}"#)),
            Some(5)
        );
        assert_eq!(max_receives("{}"), None);
        assert_eq!(max_receives("never"), None);
    }
}

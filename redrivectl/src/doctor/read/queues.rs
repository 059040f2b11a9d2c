//! Queues.

use aws_sdk_sqs::types::QueueAttributeName;

use super::untold;
use crate::doctor::setup::Queue;
use sns_redrive::arn::Arn;

/// Reads the attributes of a queue, and its tags where somebody wants them.
pub(super) async fn read(sqs: &aws_sdk_sqs::Client, arn: Arn, with_tags: bool) -> Queue {
    let url = arn.queue_url();
    let read =
        sqs.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::All).send().await;
    let attributes = read.map_err(|error| untold("sqs:GetQueueAttributes", &error)).map(|read| {
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
                .map_err(|error| untold("sqs:ListQueueTags", &error)),
        )
    } else {
        None
    };
    Queue { arn, attributes, tags }
}

//! Finds what earlier drills have left, by names and tags only.

use std::collections::BTreeMap;

use redrive_aws::clients::AwsClients;
use redrive_core::arn::{Arn, ArnKind};

use super::names::{DRILL_TAG, LETTERS_TAG, ON_THE_WAY, QUEUE_TAG, id_in, prefix};
use super::scene::{failed, is_gone};
use crate::console::CommandFailure;

/// A drill that left something behind.
#[derive(Debug)]
pub(super) struct LeftoverDrill {
    /// The dead-letter queue that it used.
    pub(super) dead_letters: Arn,
    /// True if letters of the drill may be on their way.
    pub(super) has_letters: bool,
}

/// Returns the drills of a stack that have left a topic or a queue, by their ids.
pub(super) async fn find(
    clients: &AwsClients,
    stack: &str,
) -> Result<BTreeMap<String, LeftoverDrill>, CommandFailure> {
    let mut drills = BTreeMap::new();
    let mut token = None;
    loop {
        let page = clients.sns.list_topics().set_next_token(token).send().await;
        let page = page.map_err(|error| failed("sns:ListTopics", &error))?;
        for arn in page.topics().iter().filter_map(|topic| topic.topic_arn()) {
            let Some(id) = id_in(stack, arn.rsplit(':').next().unwrap_or_default()) else { continue };
            let tags = match clients.sns.list_tags_for_resource().resource_arn(arn).send().await {
                Ok(answer) => answer.tags.unwrap_or_default(),
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(failed("sns:ListTagsForResource", &error)),
            };
            let value = |key| tags.iter().find(|tag| tag.key() == key).map(|tag| tag.value().to_owned());
            if let Some(dead_letters) = dead_letters(stack, value) {
                let has_letters = value(LETTERS_TAG).is_some_and(|state| state == ON_THE_WAY);
                drills.insert(id, LeftoverDrill { dead_letters, has_letters });
            }
        }
        token = page.next_token().map(str::to_owned);
        if token.is_none() {
            break;
        }
    }
    let listed = clients.sqs.list_queues().queue_name_prefix(prefix(stack)).max_results(1_000).send().await;
    let listed = listed.map_err(|error| failed("sqs:ListQueues", &error))?;
    for url in listed.queue_urls() {
        let Some(id) = id_in(stack, url.rsplit('/').next().unwrap_or_default()) else { continue };
        let tags = match clients.sqs.list_queue_tags().queue_url(url).send().await {
            Ok(answer) => answer.tags.unwrap_or_default(),
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(failed("sqs:ListQueueTags", &error)),
        };
        if let Some(dead_letters) = dead_letters(stack, |key| tags.get(key).cloned()) {
            // Without the topic's tag this is unknown.
            drills.entry(id).or_insert(LeftoverDrill { dead_letters, has_letters: true });
        }
    }
    Ok(drills)
}

/// Returns the dead-letter queue that the tags of a drill of this stack name.
fn dead_letters(stack: &str, value: impl Fn(&'static str) -> Option<String>) -> Option<Arn> {
    let is_ours = value(DRILL_TAG).is_some_and(|of| of == stack);
    let queue = value(QUEUE_TAG).filter(|_| is_ours)?;
    queue.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Queue)
}

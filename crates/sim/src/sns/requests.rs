//! Publishing.

use std::sync::Arc;

use super::{SimDelivery, Sns, TopicMessage, rules};
use crate::call_context::SimContext;
use crate::error::{BatchAnswer, Error};
use crate::journal::SimEvent;
use crate::message::{SimEntry, hex};

/// The answer to a message that a topic accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishAnswer {
    /// The message's id.
    pub id: Arc<str>,
    /// FIFO: the sequence number.
    pub sequence: Option<String>,
}

impl Sns {
    /// Carries out `Publish` and adds the deliveries that result.
    pub fn publish(
        &mut self,
        cx: &mut SimContext<'_>,
        topic: &str,
        entry: &SimEntry,
        deliveries: &mut Vec<SimDelivery>,
    ) -> Result<PublishAnswer, Error> {
        let topic = self.topics.get_mut(topic).ok_or_else(no_topic)?;
        let is_fifo = topic.name.strip_suffix(".fifo").is_some();
        rules::message(topic, entry)?;
        let deduplication = entry.deduplication.clone().or_else(|| {
            use sha2::{Digest as _, Sha256};
            (is_fifo && topic.settings.content_based).then(|| hex(&Sha256::digest(&entry.body)))
        });
        let key = deduplication.clone().filter(|_| is_fifo);
        if let Some(first) = key.as_ref().and_then(|key| topic.deduplication.first(cx.now, key)) {
            let (name, id, body) = (Arc::clone(&topic.name), Arc::clone(&first.id), entry.body.clone());
            cx.log(SimEvent::Swallowed { name, id, body });
            return Ok(first.clone());
        }
        topic.sequence += 1;
        let sequence = is_fifo.then(|| format!("{:020}", 10_000_000_000_000_000_000 + topic.sequence * 1000));
        let published = PublishAnswer { id: cx.id(), sequence: sequence.clone() };
        if let Some(key) = key {
            topic.deduplication.remember(cx.now, key, published.clone());
        }
        cx.log(SimEvent::Published {
            topic: Arc::clone(&topic.name),
            id: Arc::clone(&published.id),
            message: entry.body.clone(),
        });
        let message = Arc::new(TopicMessage {
            id: Arc::clone(&published.id),
            topic: Arc::clone(&topic.name),
            subject: entry.subject.clone(),
            body: entry.body.clone(),
            is_structured: entry.structure.is_some(),
            attributes: entry.attributes.clone(),
            group: entry.group.clone(),
            deduplication,
            sequence,
            trace: entry.trace.clone(),
            published: cx.now,
            signature_version: topic.settings.signature_version,
        });
        let subscribers = self.subscriptions.values();
        let subscribers = subscribers.filter(|it| it.topic == *message.topic && !it.pending);
        deliveries.extend(subscribers.map(|subscription| SimDelivery {
            subscription: Arc::new(subscription.clone()),
            message: Arc::clone(&message),
            is_last: false,
        }));
        Ok(published)
    }

    /// Carries out `PublishBatch`.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>
    pub fn publish_batch(
        &mut self,
        cx: &mut SimContext<'_>,
        topic: &str,
        entries: &[SimEntry],
        deliveries: &mut Vec<SimDelivery>,
    ) -> Result<BatchAnswer<PublishAnswer>, Error> {
        let known = self.topics.get(topic).ok_or_else(no_topic)?;
        rules::batch(entries)?;
        if entries.iter().map(rules::size).sum::<usize>() > known.settings.max_bytes {
            let message = "The length of all the messages put together is more than the limit.";
            return Err(Error::bad("BatchRequestTooLong", message));
        }
        // The whole request is refused for one entry. Recorded for each form of bad content that was tried.
        entries.iter().try_for_each(|entry| rules::message(known, entry))?;
        Ok(cx.each(entries, |cx, entry| self.publish(cx, topic, entry, deliveries)))
    }
}

fn no_topic() -> Error {
    Error::new(404, "NotFound", "Topic does not exist")
}

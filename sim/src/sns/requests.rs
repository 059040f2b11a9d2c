//! Publishing.

use std::sync::Arc;

use serde_json::Value;

use super::{Delivery, Message, Sns, Topic, invalid};
use crate::cx::Cx;
use crate::error::{BatchAnswer, Error};
use crate::ledger::Event;
use crate::message::{Data, Entry, hex};
use crate::sqs::rules;

/// The answer to a message that a topic accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The message's id.
    pub id: Arc<str>,
    /// FIFO: the sequence number.
    pub sequence: Option<String>,
}

impl Sns {
    /// Carries out `Publish` and adds the deliveries that result.
    pub fn publish(
        &mut self,
        cx: &mut Cx<'_>,
        topic: &str,
        entry: &Entry,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<Published, Error> {
        let topic = self.topics.get_mut(topic).ok_or_else(no_topic)?;
        let is_fifo = topic.name.strip_suffix(".fifo").is_some();
        check(topic, is_fifo, entry)?;
        let deduplication = entry.deduplication.clone().or_else(|| {
            use sha2::{Digest as _, Sha256};
            (is_fifo && topic.settings.content_based).then(|| hex(&Sha256::digest(&entry.body)))
        });
        let key = deduplication.clone().filter(|_| is_fifo);
        if let Some(first) = key.as_ref().and_then(|key| topic.deduplication.first(cx.now, key)) {
            let (name, id, body) = (Arc::clone(&topic.name), Arc::clone(&first.id), entry.body.clone());
            cx.log(Event::Swallowed { name, id, body });
            return Ok(first.clone());
        }
        topic.sequence += 1;
        let sequence = is_fifo.then(|| format!("{:020}", 10_000_000_000_000_000_000 + topic.sequence * 1000));
        let published = Published { id: cx.id(), sequence: sequence.clone() };
        if let Some(key) = key {
            topic.deduplication.remember(cx.now, key, published.clone());
        }
        cx.log(Event::Published {
            topic: Arc::clone(&topic.name),
            id: Arc::clone(&published.id),
            message: entry.body.clone(),
        });
        let message = Arc::new(Message {
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
        deliveries.extend(subscribers.map(|subscription| Delivery {
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
        cx: &mut Cx<'_>,
        topic: &str,
        entries: &[Entry],
        deliveries: &mut Vec<Delivery>,
    ) -> Result<BatchAnswer<Published>, Error> {
        let known = self.topics.get(topic).ok_or_else(no_topic)?;
        rules::batch("", entries)?;
        if entries.iter().map(size).sum::<usize>() > known.settings.max_bytes {
            let message = "The length of all the batch messages put together is more than the limit.";
            return Err(Error::bad("BatchRequestTooLong", message));
        }
        Ok(cx.each(entries, |cx, entry| self.publish(cx, topic, entry, deliveries)))
    }
}

/// Checks a message.
/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
fn check(topic: &Topic, is_fifo: bool, entry: &Entry) -> Result<(), Error> {
    if entry.body.is_empty() {
        return Err(invalid("Empty message"));
    }
    if entry.structure.is_some() {
        structure(entry)?;
    }
    if size(entry) > topic.settings.max_bytes {
        return Err(invalid("Message too long"));
    }
    if let Some(subject) = &entry.subject {
        let good = |it: char| !it.is_control();
        if subject.is_empty() || subject.chars().count() > 100 || !subject.chars().all(good) {
            return Err(invalid("Subject"));
        }
    }
    for (name, attribute) in &entry.attributes {
        let known = ["String", "Number", "Binary", "String.Array"].contains(&attribute.kind.as_str())
            || attribute.kind.starts_with("String.")
            || attribute.kind.starts_with("Number.")
            || attribute.kind.starts_with("Binary.");
        let is_bytes = matches!(attribute.value, Data::Bytes(_));
        if !known || is_bytes != attribute.kind.starts_with("Binary") || attribute.value.bytes().is_empty() {
            let message = format!("The message attribute '{name}' has an invalid type or an empty value.");
            return Err(Error::bad("ParameterValueInvalid", message));
        }
    }
    if is_fifo && entry.group.is_none() {
        return Err(invalid("The MessageGroupId parameter is required for FIFO topics"));
    }
    if is_fifo && entry.deduplication.is_none() && !topic.settings.content_based {
        return Err(invalid(
            "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided \
             explicitly",
        ));
    }
    if !is_fifo && entry.deduplication.is_some() {
        let what = "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not \
             valid for this topic type";
        return Err(invalid(what));
    }
    Ok(())
}

/// Checks a message that has a text for each protocol.
/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
fn structure(entry: &Entry) -> Result<(), Error> {
    if entry.structure.as_deref() != Some("json") {
        return Err(invalid("MessageStructure"));
    }
    let texts: Value = serde_json::from_str(&entry.body)
        .map_err(|_| invalid("Message Structure - JSON message body failed to parse"))?;
    if texts["default"].is_string() {
        return Ok(());
    }
    Err(invalid("Message Structure - No default entry in JSON message body"))
}

/// Returns the bytes that SNS counts.
fn size(entry: &Entry) -> usize {
    entry.size() + entry.subject.as_ref().map_or(0, String::len)
}

fn no_topic() -> Error {
    Error::new(404, "NotFound", "Topic does not exist")
}

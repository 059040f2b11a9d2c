//! Publishes to topics with `PublishBatch`.

use aws_sdk_sns::error::BuildError;
use aws_sdk_sns::primitives::Blob;
use aws_sdk_sns::types::{MessageAttributeValue, PublishBatchRequestEntry};
use redrive_core::arn::Arn;
use redrive_core::batch::{SendResult, recorded_trace};
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::letter::{AttributeValue, MessageAttribute};

use super::answers::in_order;
use super::message::OutgoingMessage;
use crate::clients::{TRACE_HEADER, elsewhere, failure_of_call};

/// Returns the trace that a message belongs to, if the trace is recorded.
pub(super) fn trace<'a>(message: &OutgoingMessage<'a>) -> Option<&'a str> {
    recorded_trace(message.trace_header)
}

/// Makes one request, all of whose messages belong to one trace. Returns an answer per message, or one
/// failure of the whole request.
pub(super) async fn publish(
    sns: &aws_sdk_sns::Client,
    topic: &Arn,
    messages: &[&OutgoingMessage<'_>],
) -> Result<Vec<SendResult>, Failure> {
    let trace = messages.first().and_then(|message| trace(message)).map(str::to_owned);
    let entries: Result<Vec<_>, BuildError> =
        messages.iter().enumerate().map(|(index, message)| entry(index, message)).collect();
    let entries = entries.map_err(|_| Failure::ours(FailureClass::Permanent, "NotBuildable"))?;
    let request =
        sns.publish_batch().topic_arn(topic.as_str()).set_publish_batch_request_entries(Some(entries));
    let answer = match (elsewhere(topic, sns.config().region()), trace) {
        (None, None) => request.send().await,
        (region, trace) => {
            let mut there = aws_sdk_sns::config::Builder::new();
            there.set_region(region.or(sns.config().region().cloned()));
            let request = request.customize().config_override(there).mutate_request(move |request| {
                // If HTTP does not allow the header, the message is sent without it.
                let trace = trace.clone();
                let _ = trace.map(|trace| request.headers_mut().try_insert(TRACE_HEADER, trace));
            });
            request.send().await
        }
    };
    let answer = answer.map_err(|error| failure_of_call(&error))?;
    let successful = answer.successful().iter().filter_map(|entry| entry.id());
    let failed = answer
        .failed()
        .iter()
        .map(|entry| (entry.id(), Failure::of_entry(entry.code(), entry.message(), entry.sender_fault())));
    Ok(in_order(messages.len(), successful, failed))
}

fn entry(index: usize, message: &OutgoingMessage<'_>) -> Result<PublishBatchRequestEntry, BuildError> {
    let mut entry = PublishBatchRequestEntry::builder()
        .id(index.to_string())
        .message(message.body.as_ref())
        .set_subject(message.subject.map(str::to_owned))
        .set_message_group_id(message.group_id.map(str::to_owned))
        .set_message_deduplication_id(message.deduplication_id.clone());
    for (name, value) in &message.attributes {
        entry = entry.message_attributes(*name, attribute(value)?);
    }
    entry.build()
}

fn attribute(attribute: &MessageAttribute) -> Result<MessageAttributeValue, BuildError> {
    let value = MessageAttributeValue::builder().data_type(&attribute.data_type);
    match &attribute.value {
        AttributeValue::Text(text) => value.string_value(text),
        AttributeValue::Binary(bytes) => value.binary_value(Blob::new(bytes.as_slice())),
    }
    .build()
}

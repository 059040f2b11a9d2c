//! Sends to queues with `SendMessageBatch`.

use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
    SendMessageBatchRequestEntry, SendMessageBatchResultEntry,
};
use redrive_core::arn::Arn;
use redrive_core::batch::SendResult;
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::letter::{AttributeValue, MessageAttribute};

use super::answers::in_order;
use super::message::OutgoingMessage;
use crate::clients::{elsewhere, failure_of_call};

/// Makes one request. Returns an answer per message, or one failure of the whole request.
pub(super) async fn send(
    sqs: &aws_sdk_sqs::Client,
    queue: &Arn,
    messages: &[&OutgoingMessage<'_>],
) -> Result<Vec<SendResult>, Failure> {
    let entries: Result<Vec<_>, BuildError> =
        messages.iter().enumerate().map(|(index, message)| entry(index, message)).collect();
    let entries = entries.map_err(|_| Failure::ours(FailureClass::Permanent, "NotBuildable"))?;
    let request = sqs.send_message_batch().queue_url(queue.queue_url()).set_entries(Some(entries));
    let answer = match elsewhere(queue, sqs.config().region()) {
        None => request.send().await,
        Some(region) => {
            let there = aws_sdk_sqs::config::Builder::new().region(region);
            request.customize().config_override(there).send().await
        }
    };
    let answer = answer.map_err(|error| failure_of_call(&error))?;
    let successful = answer.successful().iter().map(SendMessageBatchResultEntry::id);
    let failed = answer
        .failed()
        .iter()
        .map(|entry| (entry.id(), Failure::of_entry(entry.code(), entry.message(), entry.sender_fault())));
    Ok(in_order(messages.len(), successful, failed))
}

fn entry(index: usize, message: &OutgoingMessage<'_>) -> Result<SendMessageBatchRequestEntry, BuildError> {
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(index.to_string())
        .message_body(message.body.as_ref())
        .set_delay_seconds(i32::try_from(message.delay).ok().filter(|delay| *delay > 0))
        .set_message_group_id(message.group_id.map(str::to_owned))
        .set_message_deduplication_id(message.deduplication_id.clone());
    for (name, value) in &message.attributes {
        entry = entry.message_attributes(*name, attribute(value)?);
    }
    if let Some(header) = message.trace_header {
        let value =
            MessageSystemAttributeValue::builder().data_type("String").string_value(header).build()?;
        entry = entry.message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, value);
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

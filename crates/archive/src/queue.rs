//! The archive in an SQS queue, which leaves body and attributes unchanged.

use std::borrow::Cow;

use jiff::Timestamp;
use redrive_aws::clients::too_late;
use redrive_aws::delivery::{DEFAULT_GROUP, Dispatcher, MAX_MESSAGE_BYTES, OutgoingMessage};
use redrive_core::arn::Arn;
use redrive_core::batch::{ArchiveContext, SendResult};
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::letter::{Letter, MAX_ATTRIBUTES, MessageAttribute};
use tokio::time::Instant;

use super::record::ArchiveRecord;

/// The attribute that holds the record without its message, if there is room for it.
const RECORD_ATTRIBUTE: &str = "sns-redrive-archive";

/// Sends the letters, with their records where there is room. If the queue refuses a message with a record,
/// it is sent once more without: the queue's limit may have changed, or may be unknown.
pub(super) async fn store(
    dispatcher: &Dispatcher,
    queue: &Arn,
    letters: &[(&Letter, &ArchiveContext)],
    now: Timestamp,
    until: Instant,
    limit: Option<usize>,
) -> Vec<Result<(), Failure>> {
    let limit = limit.unwrap_or(MAX_MESSAGE_BYTES);
    let with_record = letters.iter().map(|(letter, context)| {
        let alone = message(letter, queue);
        let summary = ArchiveRecord::of(letter, context, now).to_summary();
        add_record(alone, summary, limit)
    });
    let messages: Vec<_> = with_record.collect();
    let mut answers = send(dispatcher, queue, messages.clone(), until).await;
    let refused = |answer: &Result<(), Failure>| {
        answer.as_ref().is_err_and(|failure| failure.class == FailureClass::Permanent)
    };
    let again: Vec<_> = (0..letters.len())
        .filter(|index| refused(&answers[*index]))
        .filter(|index| messages[*index].attributes.iter().any(|(name, _)| *name == RECORD_ATTRIBUTE))
        .collect();
    if !again.is_empty() {
        let alone: Vec<_> = again.iter().map(|index| message(letters[*index].0, queue)).collect();
        let answered = send(dispatcher, queue, alone, until).await;
        again.into_iter().zip(answered).for_each(|(index, answer)| answers[index] = answer);
    }
    answers
}

async fn send(
    dispatcher: &Dispatcher,
    queue: &Arn,
    messages: Vec<OutgoingMessage<'_>>,
    until: Instant,
) -> Vec<Result<(), Failure>> {
    let result = |sent| match sent {
        SendResult::Accepted => Ok(()),
        SendResult::Failed(failure) => Err(failure),
        SendResult::NotStarted
        | SendResult::LeftOut(_)
        | SendResult::PutOff(_)
        | SendResult::Withheld
        | SendResult::Refused(_) => Err(too_late()),
    };
    dispatcher.send(queue, messages, until).await.into_iter().map(result).collect()
}

/// Returns the letter's message unchanged, or its record if that could not be read.
fn message<'a>(letter: &'a Letter, queue: &Arn) -> OutgoingMessage<'a> {
    let sqs = &letter.sqs;
    let fifo = queue.is_fifo();
    OutgoingMessage {
        body: Cow::Borrowed(sqs.unread.as_ref().map_or(&sqs.body, |unread| &unread.record)),
        subject: None,
        attributes: sqs
            .attributes
            .iter()
            .filter(|_| sqs.unread.is_none())
            .map(|(name, value)| (name.as_str(), Cow::Borrowed(value)))
            .collect(),
        group_id: sqs.group_id().or(fifo.then_some(DEFAULT_GROUP)),
        // If the same message is archived twice within five minutes, SQS keeps only one.
        deduplication_id: fifo.then(|| sqs.message_id.clone()),
        trace_header: sqs.system("AWSTraceHeader"),
        delay: 0,
        unmarked: false,
    }
}

/// Adds the record if there is room for it.
fn add_record(mut message: OutgoingMessage<'_>, summary: String, limit: usize) -> OutgoingMessage<'_> {
    let summary = MessageAttribute::string(summary);
    let fits = message.attributes.len() < MAX_ATTRIBUTES
        && message.size() + RECORD_ATTRIBUTE.len() + summary.size() <= limit;
    if fits {
        // If somebody put an archived letter back, it already has such an attribute. The request keeps the
        // last of two.
        message.attributes.push((RECORD_ATTRIBUTE, Cow::Owned(summary)));
    }
    message
}

//! Receives letters to look at them, and gives them back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{Message, MessageAttributeValue, MessageSystemAttributeName};
use futures_util::future::join_all;
use redrive_aws::clients::failure_of_call;
use redrive_aws::delivery::{HideRequest, hide};
use redrive_core::arn::Arn;
use redrive_core::batch::MAX_ENTRIES;
use redrive_core::failure::Failure;
use redrive_core::letter::{SqsMessage, SqsRecord, SqsRecordAttribute};
use tokio::time::Instant;

/// The time after which every letter is visible again, whatever happens to this process.
const HIDDEN_TIME: Duration = Duration::from_mins(1);

/// The time for receiving. The rest of [`HIDDEN_TIME`] is for giving back.
const RECEIVE_TIME: Duration = Duration::from_secs(50);

/// The number of concurrent requests. The letters of all of them are in memory at once, ten a request.
const CONCURRENT_RECEIVES: u32 = 4;

/// The seconds that SQS waits for letters. Above zero it asks [all its
/// servers](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html),
/// so that an empty answer means that no letter is visible.
const POLL_SECONDS: i32 = 1;

/// The time for giving letters back.
const RETURN_TIME: Duration = Duration::from_secs(30);

/// The letters that were received, by message id, with their receipt handles.
#[derive(Default)]
pub(super) struct TakenLetters {
    /// When the first request began.
    begun: Option<Instant>,
    handles: HashMap<Box<str>, Box<str>>,
    /// Messages that have not the form of one: they lack an id or a timestamp.
    pub(super) unreadable: u64,
    pub(super) end: TakeEnd,
}

/// The reason why receiving ended.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum TakeEnd {
    /// No letter was visible any more.
    #[default]
    Empty,
    /// As many letters were received as were asked for.
    Enough,
    /// The time was over.
    OutOfTime,
    Interrupted,
    /// SQS refused.
    Failed(Failure),
}

/// The result of giving letters back.
#[derive(Debug, Default)]
pub(super) struct ReturnedLetters {
    /// Letters that stay hidden for the rest of the minute.
    pub(super) failed: u64,
    /// The error of one of them.
    pub(super) why: Option<Failure>,
}

impl TakenLetters {
    /// Receives letters, each once, until there is none, and hands each to `look`.
    pub(super) async fn receive(
        sqs: &aws_sdk_sqs::Client,
        queue: &Arn,
        most: u32,
        stop: &AtomicBool,
        mut look: impl AsyncFnMut(SqsMessage),
    ) -> Self {
        let mut taken = Self::default();
        let begun = Instant::now();
        taken.begun = Some(begun);
        loop {
            let left = most.saturating_sub(taken.number());
            taken.end = if stop.load(Ordering::Relaxed) {
                TakeEnd::Interrupted
            } else if left == 0 {
                TakeEnd::Enough
            } else if begun.elapsed() >= RECEIVE_TIME {
                TakeEnd::OutOfTime
            } else {
                TakeEnd::Empty
            };
            if taken.end != TakeEnd::Empty {
                return taken;
            }
            // All letters come back at the same moment: each is hidden until then, so none is received twice.
            let hidden = HIDDEN_TIME.saturating_sub(begun.elapsed()).as_secs();
            let answers = join_all(shares(left).map(|share| receive(sqs, queue, share, hidden))).await;
            let mut is_empty = true;
            for answer in answers {
                match answer {
                    Ok(messages) => {
                        is_empty &= messages.is_empty();
                        for message in messages {
                            if let Some(message) = taken.take(message, queue) {
                                look(message).await;
                            }
                        }
                    }
                    Err(failure) => taken.end = TakeEnd::Failed(failure),
                }
            }
            if is_empty || taken.end != TakeEnd::Empty {
                return taken;
            }
        }
    }

    /// Returns the number of letters.
    pub(super) fn number(&self) -> u32 {
        u32::try_from(self.handles.len()).unwrap_or(u32::MAX)
    }

    /// Keeps the handle of a message. Returns the message unless it was there before, or cannot be read.
    fn take(&mut self, message: Message, queue: &Arn) -> Option<SqsMessage> {
        let (id, handle) = (message.message_id()?, message.receipt_handle()?);
        let is_new = self.handles.insert(id.into(), handle.into()).is_none();
        let read = SqsMessage::of_record(record(message, queue), Some(queue)).ok();
        self.unreadable += u64::from(is_new && read.is_none());
        read.filter(|_| is_new)
    }

    /// Makes all letters visible again.
    pub(super) async fn give_back(self, sqs: &aws_sdk_sqs::Client, queue: &Arn) -> ReturnedLetters {
        let shown: Vec<_> =
            self.handles.values().map(|handle| HideRequest { receipt_handle: handle, seconds: 0 }).collect();
        // Not beyond the minute: after it another consumer may have the letter, and an old handle would show it again.
        let end = Instant::now() + RETURN_TIME;
        let end = self.begun.map_or(end, |begun| end.min(begun + HIDDEN_TIME));
        let answers = hide(sqs, queue, &shown, end).await;
        let mut returned = ReturnedLetters::default();
        for failure in answers.into_iter().filter_map(Result::err) {
            // It is gone, or somebody else has received it.
            if !failure.ends_receive() {
                returned.failed += 1;
                returned.why.get_or_insert(failure);
            }
        }
        returned
    }
}

/// Returns how many letters each request asks for.
fn shares(left: u32) -> impl Iterator<Item = i32> {
    let most = i32::try_from(MAX_ENTRIES).unwrap_or(10);
    let left = i32::try_from(left).unwrap_or(i32::MAX);
    (0..CONCURRENT_RECEIVES).map_while(move |request| {
        let before = most.saturating_mul(i32::try_from(request).ok()?);
        Some(left.saturating_sub(before).min(most)).filter(|share| *share > 0)
    })
}

async fn receive(
    sqs: &aws_sdk_sqs::Client,
    queue: &Arn,
    most: i32,
    hidden: u64,
) -> Result<Vec<Message>, Failure> {
    let asked = sqs.receive_message().queue_url(queue.queue_url()).max_number_of_messages(most);
    let asked = asked.visibility_timeout(i32::try_from(hidden).unwrap_or(0)).wait_time_seconds(POLL_SECONDS);
    let asked = asked.message_system_attribute_names(MessageSystemAttributeName::All);
    let answer = asked.message_attribute_names("All").send().await;
    Ok(answer.map_err(|error| failure_of_call(&error))?.messages.unwrap_or_default())
}

/// Returns a message as Lambda would hand it to the function.
fn record(message: Message, queue: &Arn) -> SqsRecord {
    let system = message.attributes.into_iter().flatten();
    let attributes = message.message_attributes.into_iter().flatten();
    SqsRecord {
        message_id: message.message_id,
        receipt_handle: message.receipt_handle,
        body: message.body,
        attributes: system.map(|(name, value)| (name.as_str().to_owned(), value)).collect(),
        message_attributes: attributes.map(|(name, value)| (name, attribute(value))).collect(),
        event_source_arn: Some(queue.as_str().to_owned()),
    }
}

fn attribute(value: MessageAttributeValue) -> SqsRecordAttribute {
    SqsRecordAttribute {
        string_value: value.string_value,
        binary_value: value.binary_value.map(Blob::into_inner),
        data_type: Some(value.data_type),
        ..SqsRecordAttribute::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_asked_for_than_is_wanted() {
        for (left, asked) in [(1, vec![1]), (10, vec![10]), (25, vec![10, 10, 5]), (1_000, vec![10; 4])] {
            assert_eq!(shares(left).collect::<Vec<_>>(), asked);
        }
    }
}

//! The sending of letters to the requeue: packing, order, and the result for each letter.

use std::time::Duration;

use aws_sdk_sqs::config::Region;
use aws_sdk_sqs::types::QueueAttributeName;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use redrive_aws::clients::{failure_of_call, too_late};
use redrive_aws::delivery::{DeliveryPayload, DeliveryWindow, Dispatcher, OutgoingMessage, PendingDelivery};
use redrive_core::arn::Arn;
use redrive_core::batch::{GroupOrder, Health, SendResult};
use redrive_core::endpoint::Endpoint;
use redrive_core::failure::{Failure, FailureClass};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::letter::ReplayableLetter;
use super::request::ReplayRequest;

/// The time for one batch. It is shorter than the validity of a claim.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(15);

/// The tag that marks a requeue, and its value.
pub(super) const REQUEUE_TAG: (&str, &str) = ("sns-redrive", "requeue");

/// The queue that replayed letters go to.
#[derive(Debug)]
pub(super) struct RequeueSender {
    pub(super) sqs: aws_sdk_sqs::Client,
    pub(super) dispatcher: Dispatcher,
    pub(super) arn: Arn,
}

/// The replay that sends the letters.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendingReplay<'a> {
    pub(super) id: &'a str,
    pub(super) request: &'a ReplayRequest,
}

/// The results of the letters of a batch.
#[derive(Debug, Default)]
pub(super) struct RequeueResults {
    /// The letters that SQS has accepted.
    pub(super) sent: Vec<ReplayableLetter>,
    /// The letters that SQS has refused for good.
    pub(super) refused: Vec<(ReplayableLetter, Failure)>,
    /// The letters to send again, in their order, and whether SQS may already have accepted them.
    pub(super) left: Vec<(ReplayableLetter, bool)>,
    /// The failure that kept letters out.
    pub(super) failure: Option<Failure>,
}

impl RequeueSender {
    /// Sends a batch of letters for a replay.
    ///
    /// In a FIFO queue the letters of a group are sent one after the other, each after SQS has accepted the
    /// one before, because requests under way at the same time may arrive in any order.
    pub(super) async fn send(
        &self,
        batch: Vec<ReplayableLetter>,
        of: SendingReplay<'_>,
        now: Timestamp,
    ) -> RequeueResults {
        let until = Instant::now() + SEND_TIMEOUT;
        let mut order: GroupOrder = GroupOrder::new(batch.iter().map(|replayable| self.group(replayable)));
        let mut results: Vec<SendResult> = vec![SendResult::NotStarted; batch.len()];
        while let Some(mut round) = order.next_round() {
            round.retain(|index| order.blocked(*index).is_none());
            let letters: Vec<&ReplayableLetter> = round.iter().map(|index| &batch[*index]).collect();
            let answers = self.send_at_once(&letters, of, now, until).await;
            for (index, sent) in round.into_iter().zip(answers) {
                if sent != SendResult::Accepted && !is_refused(&sent) {
                    order.block(index, ());
                }
                results[index] = sent;
            }
        }
        let mut answers = RequeueResults::default();
        for (replayable, disposition) in batch.into_iter().zip(results) {
            answers.add(replayable, disposition);
        }
        answers
    }

    /// Returns the group that keeps a letter in order. A standard queue has no order.
    fn group<'f>(&self, replayable: &'f ReplayableLetter) -> Option<&'f str> {
        self.arn.is_fifo().then(|| replayable.letter.sqs.group_id().unwrap_or_default())
    }

    async fn send_at_once(
        &self,
        letters: &[&ReplayableLetter],
        of: SendingReplay<'_>,
        now: Timestamp,
        until: Instant,
    ) -> Vec<SendResult> {
        let to = Endpoint::Queue(self.arn.clone());
        let mut payloads = Vec::with_capacity(letters.len());
        for replayable in letters {
            let letter = &replayable.letter;
            let mark = letter.mark_for_replay(now, of.request.target_of(letter), replayable.edited);
            // Only letters that can be marked were selected.
            let Ok(message) = OutgoingMessage::for_requeue(letter, &mark, &self.arn, 0) else {
                return vec![SendResult::Refused("cannot be marked"); letters.len()];
            };
            let deduplication_id =
                message.deduplication_id.is_some().then(|| deduplication_id(of.id, replayable));
            payloads.push(DeliveryPayload::Message(OutgoingMessage { deduplication_id, ..message }));
        }
        let pending: Vec<_> = payloads.iter().map(|payload| PendingDelivery::now(&to, payload)).collect();
        self.dispatcher.deliver(&pending, DeliveryWindow::until(until), &mut Health::default()).await
    }

    /// Reports whether the queue has the tag of a requeue.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ListQueueTags.html>
    pub(super) async fn is_tagged(&self) -> Result<bool, Failure> {
        let region = Region::new(self.arn.region().to_owned());
        let asked = self.sqs.list_queue_tags().queue_url(self.arn.queue_url());
        let answer = asked
            .customize()
            .config_override(aws_sdk_sqs::config::Builder::new().region(region))
            .send()
            .await
            .map_err(|error| failure_of_call(&error))?;
        Ok(answer.tags().and_then(|tags| tags.get(REQUEUE_TAG.0)).is_some_and(|value| value == REQUEUE_TAG.1))
    }

    /// Returns the number of letters in a queue: visible, hidden and delayed. SQS calls these numbers
    /// approximate.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html>
    pub(super) async fn waiting(&self, queue: &Arn) -> Result<u64, Failure> {
        use QueueAttributeName::{
            ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed,
            ApproximateNumberOfMessagesNotVisible,
        };
        let names = [
            ApproximateNumberOfMessages,
            ApproximateNumberOfMessagesNotVisible,
            ApproximateNumberOfMessagesDelayed,
        ];
        let region = Region::new(queue.region().to_owned());
        let asked = self.sqs.get_queue_attributes().queue_url(queue.queue_url());
        let answer = asked
            .set_attribute_names(Some(names.to_vec()))
            .customize()
            .config_override(aws_sdk_sqs::config::Builder::new().region(region))
            .send()
            .await
            .map_err(|error| failure_of_call(&error))?;
        let attributes = answer.attributes();
        let number =
            |name| attributes.and_then(|all| all.get(name)).and_then(|text| text.parse::<u64>().ok());
        Ok(names.iter().filter_map(number).sum())
    }
}

impl RequeueResults {
    fn add(&mut self, replayable: ReplayableLetter, disposition: SendResult) {
        match disposition {
            SendResult::Accepted => self.sent.push(replayable),
            SendResult::Failed(failure) if failure.class == FailureClass::Permanent => {
                self.refused.push((replayable, failure));
            }
            SendResult::Failed(failure) => {
                // If no answer came, SQS may have accepted the letter.
                self.left.push((replayable, failure.class == FailureClass::Transient));
                self.failure.get_or_insert(failure);
            }
            // There was no time, or an earlier letter of its group was not sent.
            SendResult::NotStarted
            | SendResult::LeftOut(_)
            | SendResult::PutOff(_)
            | SendResult::Withheld
            | SendResult::Refused(_) => {
                self.failure.get_or_insert_with(too_late);
                self.left.push((replayable, false));
            }
        }
    }
}

fn is_refused(sent: &SendResult) -> bool {
    matches!(sent, SendResult::Failed(failure) if failure.class == FailureClass::Permanent)
}

/// Returns a deduplication id. For five minutes SQS drops a letter that is sent again after a crash. It does
/// not drop a letter of another replay, nor another letter with the same letter id, as copies of one message
/// for several subscribers have.
fn deduplication_id(replay: &str, replayable: &ReplayableLetter) -> String {
    let mut hash = Sha256::new();
    let sqs = &replayable.letter.sqs;
    for part in [replay, sqs.queue.as_str(), &sqs.message_id] {
        hash.update(part);
        hash.update([0]);
    }
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

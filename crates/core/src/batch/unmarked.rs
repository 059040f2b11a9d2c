//! Letters that have no room for their mark.
//!
//! SQS and SNS take ten attributes, and messages up to a limit of size. A letter that its subscription's own
//! queue would take without the mark goes without it, unless that queue's own dead letters come back to this
//! function: then nothing would count its rounds. Any other such letter is archived as `unmarkable`.
//!
//! The limit of a queue is asked for only once it has refused a letter: SNS ignores it, so most letters that
//! are here have gone through it before.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::action::{
    Action, ActionAnswer, CannotPack, InvocationNow, QueueAttributes, RequiredFreshness, SendResult,
    no_answer,
};
use super::state::{Batch, BatchStage};
use super::time::half_of;
use super::unmarked_letters::{UnmarkedLetter, UnmarkedLetters};
use crate::arn::Arn;
use crate::endpoint::{Destination, Endpoint};
use crate::failure::{Failure, FailureClass};
use crate::letter::{Letter, MAX_ATTRIBUTES, Mark, Origin};
use crate::policy::{ArchiveReason, Retry};

/// The largest message of a topic by default.
/// <https://docs.aws.amazon.com/sns/latest/dg/large-message-payloads.html>
const DEFAULT_MAX_TOPIC_MESSAGE: usize = 256 * 1024;

/// The largest message of a queue or a topic.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const LARGEST_MESSAGE_BYTES: usize = 1024 * 1024;

/// Permanent failures to which the mark has nothing: the text has characters that a queue does not take, or the request
/// is of another kind.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html#API_SendMessage_Errors>
const UNRELATED_FAILURES: [&str; 2] = ["InvalidMessageContents", "UnsupportedOperation"];

/// What becomes of a letter that has no room for its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UnmarkedDecision {
    /// It goes without its mark.
    Without,
    /// It must not go without it.
    Unmarkable(String),
    /// The mark has nothing to do with it: the target never takes the letter, for the reason in the text.
    Refused(Option<String>),
    /// It is unknown.
    Unknown,
}

impl Batch<'_> {
    /// Reports whether a letter has no place for the mark among its attributes and may go without it.
    pub(super) fn may_go_unmarked(&self, index: usize, to: &Destination) -> bool {
        let letter = &self.cases[index].letter;
        is_own(letter, to) && letter.carried_attributes(false).count() >= MAX_ATTRIBUTES
    }

    /// Reports whether an answer may be due to the mark: a queue or a topic refuses the letter for good.
    pub(super) fn is_refused_with_mark(&self, index: usize, failure: &Failure) -> bool {
        let to = self.cases[index].target.as_ref();
        failure.class == FailureClass::Permanent
            && !UNRELATED_FAILURES.contains(&failure.code.as_str())
            && matches!(to, Some(Endpoint::Queue(_) | Endpoint::Topic(_)))
    }

    /// Asks for the limits of the queues that these letters were to go to.
    pub(super) fn ask_targets(
        &mut self,
        unmarking: UnmarkedLetters,
        now: InvocationNow,
    ) -> (BatchStage, Option<Action>) {
        let queue = |one: &UnmarkedLetter| match &self.cases[one.index].target {
            Some(Endpoint::Queue(queue)) => Some(queue.clone()),
            _ => None,
        };
        let queues: BTreeSet<_> = unmarking.letters.iter().filter_map(queue).collect();
        if queues.is_empty() {
            return (BatchStage::SendUnmarked(unmarking, HashMap::new()), None);
        }
        let until = half_of(now.elapsed, self.time.deliver);
        (
            BatchStage::AwaitTargets(unmarking),
            Some(Action::LookUpQueues { queues, suffices: RequiredFreshness::Kept, until }),
        )
    }

    /// Takes over the attributes of these queues. One that could not be read is not told: its letters are.
    pub(super) fn targets_known(unmarking: UnmarkedLetters, answer: ActionAnswer) -> BatchStage {
        let known = if let ActionAnswer::Queues { known, .. } = answer { known } else { HashMap::new() };
        BatchStage::SendUnmarked(unmarking, known)
    }

    /// Sends the letters that may go without their mark, and settles the others.
    pub(super) fn send_unmarked(
        &mut self,
        unmarking: UnmarkedLetters,
        queues: &HashMap<Arn, QueueAttributes>,
        now: InvocationNow,
    ) -> BatchStage {
        let window = self.window(now);
        let mut outgoing = Vec::new();
        let UnmarkedLetters { letters, known } = unmarking;
        for UnmarkedLetter { index, retry, refusal } in letters {
            let Some(to) = self.address(index, retry, &known, now) else { continue };
            let queue = to.endpoint.arn().and_then(|arn| queues.get(arn));
            let letter = self.cases[index].letter.clone();
            let mark = Mark { early: retry.is_early(), ..letter.mark(retry.number) };
            let comes_to_us = |arn: &Arn| self.feeds_us(&letter, arn);
            match room(&letter, &to, mark.bytes(), refusal.is_some(), queue, comes_to_us) {
                UnmarkedDecision::Without => {
                    outgoing.extend(self.outgoing(index, retry, to, true, window, now));
                }
                UnmarkedDecision::Unmarkable(detail) => {
                    self.cases[index].archive(ArchiveReason::Unmarkable, Some(detail));
                }
                UnmarkedDecision::Refused(detail) => {
                    let (refusal, took) = refusal.unwrap_or_else(|| (no_answer(), Duration::ZERO));
                    self.failed(index, retry, refusal, detail, now);
                    self.cases[index].took = Some(took);
                }
                UnmarkedDecision::Unknown => {
                    let failure = Failure::ours(FailureClass::ActionRequired, "QueueUnreadable");
                    let refused = refusal
                        .as_ref()
                        .map(|(refusal, _)| format!("; it was refused with {}", refusal.code));
                    let detail = format!("{ROOM_UNKNOWN}{}", refused.unwrap_or_default());
                    self.failed(index, retry, failure, Some(detail), now);
                    self.cases[index].took = refusal.map(|(_, took)| took);
                }
            }
        }
        self.begin_sending(outgoing, UnmarkedLetters::default(), window, now)
    }

    /// Settles a letter whose retry failed, with the details.
    fn failed(
        &mut self,
        index: usize,
        retry: Retry,
        failure: Failure,
        detail: Option<String>,
        now: InvocationNow,
    ) {
        let case = &mut self.cases[index];
        case.answered(retry, SendResult::Failed(failure), now.at);
        case.detail = detail.or(case.detail.take());
    }

    /// Reports whether the messages of a queue come to this function, as far as this instance can tell.
    fn feeds_us(&self, letter: &Letter, queue: &Arn) -> bool {
        let own = [&letter.sqs.queue, letter.dead_letter_queue()];
        own.contains(&queue)
            || self.config.requeue.as_ref() == Some(queue)
            || self.memory.knowledge.checked.contains(queue)
    }
}

const ROOM_UNKNOWN: &str = "the letter may have no room for its mark, and the attributes of its queue cannot be read, which tell \
                       whether it may go without: grant sqs:GetQueueAttributes on the queue";

/// Reports whether a letter goes to its subscription's own queue, and did not come from there by SQS's own
/// move.
fn is_own(letter: &Letter, to: &Destination) -> bool {
    let comes_back = match &letter.origin {
        Origin::Sqs { source } => to.endpoint.arn() == Some(source),
        _ => false,
    };
    to.subscription.is_some() && matches!(to.endpoint, Endpoint::Queue(_)) && !comes_back
}

/// Decides about a letter whose mark has no room, or which its target `refused` with a mark of so many bytes.
fn room(
    letter: &Letter,
    to: &Destination,
    mark: usize,
    refused: bool,
    queue: Option<&QueueAttributes>,
    comes_to_us: impl Fn(&Arn) -> bool,
) -> UnmarkedDecision {
    let to_topic = matches!(to.endpoint, Endpoint::Topic(_));
    let bytes = letter.carried_bytes(to_topic);
    if to_topic {
        return room_in_topic(bytes, mark);
    }
    // Any limit can be set, so a letter of any size may have no room.
    let Some(queue) = queue.filter(|queue| queue.read.is_some()) else { return UnmarkedDecision::Unknown };
    let limit = queue.max_message_bytes.unwrap_or(LARGEST_MESSAGE_BYTES);
    if refused && bytes > limit {
        return UnmarkedDecision::Refused(Some(format!(
            "the letter has {bytes} bytes, and its queue takes {limit} from anybody but SNS: raise the queue's \
             MaximumMessageSize, then replay the letter"
        )));
    }
    if refused && bytes + mark <= limit {
        return UnmarkedDecision::Refused(None);
    }
    if refused && !is_own(letter, to) {
        return UnmarkedDecision::Unmarkable(too_large_with_mark("queue", bytes, mark, limit));
    }
    if queue.dead_letters_to.as_ref().is_some_and(comes_to_us) {
        let why = if refused {
            too_large_with_mark("queue", bytes, mark, limit)
        } else {
            CannotPack::Unmarkable.to_string()
        };
        return UnmarkedDecision::Unmarkable(format!(
            "{why}. It may not go without its mark, because the dead letters of its queue come back here"
        ));
    }
    UnmarkedDecision::Without
}

/// Decides about a letter that a topic refused. Its limit takes a permission to know. Nearly all topics have
/// one of two.
fn room_in_topic(bytes: usize, mark: usize) -> UnmarkedDecision {
    let limit = [DEFAULT_MAX_TOPIC_MESSAGE, LARGEST_MESSAGE_BYTES]
        .into_iter()
        .find(|limit| bytes <= *limit && bytes + mark > *limit);
    match limit {
        Some(limit) => UnmarkedDecision::Unmarkable(too_large_with_mark("topic", bytes, mark, limit)),
        None if bytes > DEFAULT_MAX_TOPIC_MESSAGE => UnmarkedDecision::Refused(Some(format!(
            "the letter has {bytes} bytes, and a topic takes {DEFAULT_MAX_TOPIC_MESSAGE} by default: raise the topic's \
             MaximumMessageSize, then replay the letter"
        ))),
        None => UnmarkedDecision::Refused(None),
    }
}

fn too_large_with_mark(kind: &str, bytes: usize, mark: usize, limit: usize) -> String {
    format!(
        "the letter has {bytes} bytes, and {} with its mark, but its {kind} takes {limit}: raise the {kind}'s \
         MaximumMessageSize, then replay the letter",
        bytes + mark
    )
}

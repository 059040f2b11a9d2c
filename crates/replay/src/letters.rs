//! The choice of records that become letters to send.

use jiff::Timestamp;
use redrive_archive::{ArchiveRecord, BadRecord};
use redrive_aws::delivery::{MAX_MESSAGE_BYTES, OutgoingMessage};
use redrive_core::arn::Arn;
use redrive_core::letter::{BelievedClaims, Letter, TrustedOrigins};
use redrive_core::policy::{Policy, Route, RuleAction};

use super::letter::{NotReplayable, RecordLocation, ReplayableLetter};
use super::request::ReplayRequest;

/// The source of the letters.
#[derive(Debug, Clone)]
pub enum ReplaySource {
    /// The archive.
    Archive,
    /// These records of the archive.
    Input(Vec<InputRecord>),
}

/// A given record and whether it was edited, or the fault of its line.
pub type InputRecord = Result<(ArchiveRecord, bool), String>;

/// The settings that decide which letters are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendCriteria<'a> {
    pub(super) request: &'a ReplayRequest,
    pub(super) requeue: &'a Arn,
    pub(super) policy: Option<&'a Policy>,
}

/// The verdict on a record.
#[derive(Debug)]
pub(super) enum RecordVerdict {
    /// A letter to send.
    Replayable(Box<ReplayableLetter>),
    /// A letter that cannot be sent.
    NotReplayable(NotReplayable),
    /// A record that cannot become a letter.
    Bad(BadRecord),
}

impl SendCriteria<'_> {
    /// Judges a record. `at` is its place.
    pub(super) fn judge(&self, at: RecordLocation, record: &ArchiveRecord, edited: bool) -> RecordVerdict {
        let message = match record.to_message() {
            Ok(message) => message,
            Err(bad) => return RecordVerdict::Bad(bad),
        };
        // A mark is trusted to name the dead-letter queue only on letters that were in the requeue, or in another
        // one that the stack had then.
        let was_moved = record.dead_letter_queue_arn != record.queue_arn;
        let requeue = if was_moved { &record.queue_arn } else { self.requeue };
        let origins = self.policy.map_or(TrustedOrigins::none(), Policy::origins);
        let mut letter = Letter::received(message, BelievedClaims { requeue: Some(requeue), origins });
        if let Some(not_replayable) = self.not_replayable(&mut letter, edited) {
            return RecordVerdict::NotReplayable(not_replayable);
        }
        RecordVerdict::Replayable(Box::new(ReplayableLetter {
            at,
            identity: record.identity(),
            letter,
            edited,
        }))
    }

    /// Returns why a letter cannot be replayed, or `None` if it can.
    fn not_replayable(&self, letter: &mut Letter, edited: bool) -> Option<NotReplayable> {
        if letter.sqs.queue.is_fifo() != self.requeue.is_fifo() {
            return Some(NotReplayable::OtherKind);
        }
        if letter.dead_letter_queue() == self.requeue {
            return Some(NotReplayable::NotMoved);
        }
        // The mark with the latest time is the longest one.
        let mark = letter.mark_for_replay(Timestamp::MAX, self.request.target_of(letter), edited);
        let Ok(message) = OutgoingMessage::for_requeue(letter, &mark, self.requeue, 0) else {
            return Some(NotReplayable::Unmarkable);
        };
        if message.size() > MAX_MESSAGE_BYTES {
            return Some(NotReplayable::TooLarge);
        }
        // The rule is applied to the letter as it will be in the requeue.
        let before = letter.mark.replace(mark);
        let nowhere = self.policy.is_some_and(|policy| {
            let rule = policy.rule_for(letter);
            rule.action == RuleAction::Redrive
                && !rule.asks_for_subscription(letter)
                && matches!(rule.route(letter, None), Route::Nowhere(..))
        });
        letter.mark = before;
        nowhere.then_some(NotReplayable::NoTarget)
    }
}

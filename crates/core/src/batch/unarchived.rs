//! Letters that the archive did not accept, remembered until it does.
//!
//! Such a letter comes back as if nothing had been done, so its last attempt would be made again each time
//! that it becomes visible. An instance that has seen the archive fail hides the letter for a while, each
//! time for twice as long, and hands it to the archive without another attempt when it comes back.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::action::ArchiveContext;
use super::moment::Moment;
use crate::letter::SqsMessage;
use crate::policy::seconds_until;

/// The time for which such a letter is hidden at first, in seconds: most failures of an archive pass at once.
const FIRST_HIDE: u64 = 1;

/// The longest time that it is hidden, in seconds. An archive that works again gets it after this time at the
/// latest.
const MAX_HIDE: u64 = 900;

/// The largest number of letters that are remembered, some hundred bytes each. A letter that is forgotten is
/// attempted once more.
const MAX_KEPT: usize = 10_000;

/// The time for which a letter is remembered that does not come back, because another instance has archived
/// it.
const MAX_AGE: Duration = Duration::from_hours(1);

/// A letter that was to be archived.
#[derive(Debug, Clone)]
pub(super) struct UnarchivedLetter {
    pub(super) context: ArchiveContext,
    /// The time when the archive did not accept it.
    pub(super) at: Moment,
    /// The time for which it is hidden, in seconds.
    pub(super) hide: u64,
    /// True if it was to be archived by a retention that was only assumed.
    pub(super) is_guess: bool,
}

impl UnarchivedLetter {
    /// Creates the memory of a letter that its queue drops at `end`. `before` is the earlier memory, if the
    /// archive did not accept it then either.
    pub(super) fn of(context: ArchiveContext, before: Option<&Self>, now: Moment, end: Timestamp) -> Self {
        let hide = patience(before.map(|before| before.hide), seconds_until(now.at, end));
        Self { context, at: now, hide, is_guess: false }
    }
}

/// The memory of one instance, by SQS's message ids.
#[derive(Debug, Clone, Default)]
pub(super) struct UnarchivedLetters(HashMap<String, UnarchivedLetter>);

impl UnarchivedLetters {
    /// Returns the memory of a letter, if the archive did not accept it before.
    pub(super) fn of(&self, message: &SqsMessage) -> Option<UnarchivedLetter> {
        self.0.get(&message.message_id).cloned()
    }

    pub(super) fn keep(&mut self, message: &SqsMessage, unarchived: UnarchivedLetter) {
        if self.0.len() >= MAX_KEPT {
            self.0.retain(|_, kept| unarchived.at.age.saturating_sub(kept.at.age) < MAX_AGE);
        }
        if self.0.len() < MAX_KEPT {
            self.0.insert(message.message_id.clone(), unarchived);
        }
    }

    pub(super) fn forget(&mut self, message: &SqsMessage) {
        // Nearly always there is nothing in memory.
        if !self.0.is_empty() {
            self.0.remove(&message.message_id);
        }
    }
}

/// Returns the seconds for which a letter is hidden that the archive did not accept: twice as long as before,
/// and no more than half of the time that is left, so that it comes back however little that is.
fn patience(before: Option<u64>, left: u64) -> u64 {
    let longer = before.map_or(FIRST_HIDE, |before| before.saturating_mul(2));
    longer.min(MAX_HIDE).min(left / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ArchiveReason;

    #[test]
    fn what_is_kept_is_bounded_and_makes_room_after_an_hour() {
        let context = ArchiveContext {
            reason: ArchiveReason::Rule,
            detail: None,
            rule: String::new(),
            target: None,
            retry: None,
            failure: None,
            override_id: None,
        };
        let at = Moment { at: Timestamp::UNIX_EPOCH, age: Duration::ZERO };
        let unarchived = UnarchivedLetter { context, at, hide: 1, is_guess: false };
        let message = |id: usize| SqsMessage {
            message_id: id.to_string(),
            receipt_handle: String::new(),
            body: String::new(),
            queue: "arn:aws:sqs:eu-central-1:123456789012:payments-dlq".parse().unwrap(),
            sent: Timestamp::UNIX_EPOCH,
            first_received: Timestamp::UNIX_EPOCH,
            receive_count: 1,
            system: <_>::default(),
            attributes: <_>::default(),
            unread: None,
        };
        let mut memory = UnarchivedLetters::default();
        let mut keep = |id: usize, minutes: u64| {
            let at = Moment { age: Duration::from_mins(minutes), ..at };
            memory.keep(&message(id), UnarchivedLetter { at, ..unarchived.clone() });
            (memory.0.len(), memory.of(&message(id)).is_some())
        };
        assert_eq!((0..MAX_KEPT).map(|id| keep(id, 0)).last(), Some((MAX_KEPT, true)));
        assert_eq!(keep(MAX_KEPT, 59), (MAX_KEPT, false));
        assert_eq!(keep(MAX_KEPT, 60), (1, true));
    }

    #[test]
    fn a_letter_is_hidden_for_twice_as_long_each_time_and_at_most_a_quarter_of_an_hour() {
        let mut hidden = None;
        let mut next = || {
            hidden = Some(patience(hidden, 86_400));
            hidden.unwrap_or_default()
        };
        assert_eq!([(); 12].map(|()| next()), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
    }

    #[test]
    fn a_letter_is_hidden_for_half_of_the_time_that_it_has_left_at_most() {
        for (left, hidden) in [(1_800, 900), (1_799, 899), (10, 5), (2, 1), (1, 1), (0, 1)] {
            assert_eq!(patience(Some(900), left), hidden, "{left} s left");
        }
    }
}

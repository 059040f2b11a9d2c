//! Archiving: which letters go to the archive, and in which order.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::action::{Action, ActionAnswer, results};
use super::config::BatchConfig;
use super::group_order::GroupOrder;
use super::outcome::NotDone;
use super::pending_letter::{Disposition, PendingLetter};
use crate::failure::{Failure, FailureClass};

/// The letters for the archive. An archive in S3 stores all letters of a dead-letter queue or none. An
/// archive in SQS may refuse one letter; then no later letter of its FIFO group is stored.
#[derive(Debug)]
pub(super) struct ArchivingState {
    /// The time when the letters are archived.
    at: Timestamp,
    pub(super) until: Duration,
    /// `MaximumMessageSize` of an archive that is a queue.
    pub(super) limit: Option<usize>,
    pub(super) limit_known: bool,
    letters: Vec<usize>,
    /// The order of these letters, in which the archive's failure blocks a group.
    order: GroupOrder<Failure>,
    /// The letters that the archive is storing now, by their positions in `letters`.
    under_way: Vec<usize>,
}

impl ArchivingState {
    /// Picks the letters of a batch that are to be archived. A letter that came from the archive stays where
    /// it is, because archiving would only bring it back.
    pub(super) fn new(
        config: &BatchConfig,
        cases: &mut [PendingLetter<'_>],
        at: Timestamp,
        until: Duration,
    ) -> Self {
        let mut letters = Vec::new();
        let archive = config.archive_queue.as_ref();
        for (index, case) in cases.iter_mut().enumerate() {
            if !matches!(case.disposition, Disposition::Archive(_)) {
                continue;
            }
            let letter = &case.letter;
            if archive == Some(&letter.sqs.queue) || archive == Some(letter.dead_letter_queue()) {
                let failure = Failure::ours(FailureClass::ActionRequired, "ArchiveIsDeadLetterQueue");
                case.undone = Some(Box::new((NotDone::Archive, failure)));
            } else {
                letters.push(index);
            }
        }
        let fifo = cases.first().is_some_and(|case| case.letter.sqs.queue.is_fifo());
        let one_by_one = archive.is_some() && fifo;
        let group = |index: &usize| cases[*index].fifo_group().filter(|_| one_by_one);
        let order = GroupOrder::new(letters.iter().map(group));
        let (limit, limit_known, under_way) = <_>::default();
        Self { at, until, limit, limit_known, letters, order, under_way }
    }

    /// Reports whether the archive has answered for every letter.
    pub(super) fn is_done(&self) -> bool {
        self.order.is_done() && self.under_way.is_empty()
    }

    /// Returns the next letters to archive, if there are any left.
    pub(super) fn next(&mut self, cases: &mut [PendingLetter<'_>]) -> Option<Action> {
        while let Some(round) = self.order.next_round() {
            let (mut under_way, mut letters) = (Vec::new(), Vec::new());
            for place in round {
                let case = &mut cases[self.letters[place]];
                if let Some(failure) = self.order.blocked(place) {
                    case.undone = Some(Box::new((NotDone::Archive, failure.clone())));
                } else if let Some(context) = case.context() {
                    under_way.push(place);
                    letters.push((Arc::clone(&case.letter), context));
                }
            }
            if !letters.is_empty() {
                self.under_way = under_way;
                let Self { at, until, limit, .. } = *self;
                return Some(Action::Archive { letters, at, limit, until });
            }
        }
        None
    }

    /// Takes note of the letters that the archive did not store.
    pub(super) fn archived(&mut self, cases: &mut [PendingLetter<'_>], answer: ActionAnswer) {
        let answers = results(answer, self.under_way.len());
        for (place, answer) in std::mem::take(&mut self.under_way).into_iter().zip(answers) {
            let Err(failure) = answer else { continue };
            self.order.block(place, failure.clone());
            cases[self.letters[place]].undone = Some(Box::new((NotDone::Archive, failure)));
        }
    }
}

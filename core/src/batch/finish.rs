//! The end of a batch: archiving, in which order, and hiding at the same time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::action::{Action, Answer, Now};
use super::case::{Case, Disposition};
use super::ending;
use super::order::Order;
use super::outcome::NotDone;
use super::run::{ActionId, Asked, Batch, Chain, Stage, results};
use super::time::half_of;
use super::unarchived::Unarchived;
use super::{Config, Knowledge};
use crate::failure::{Failure, FailureClass};
use crate::letter::Letter;

/// The letters for the archive. An archive in S3 takes all of them or none; of one in SQS a letter may be refused, and
/// then nothing of its FIFO group is stored after it.
#[derive(Debug)]
pub(super) struct Archiving {
    /// When the letters are archived.
    at: Timestamp,
    until: Duration,
    /// `MaximumMessageSize` of an archive that is a queue.
    limit: Option<usize>,
    limit_known: bool,
    letters: Vec<usize>,
    /// The order of these letters, in which the archive's failure blocks a group.
    order: Order<Failure>,
    /// The letters that the archive is given now, by their place among all.
    under_way: Vec<usize>,
}

impl Archiving {
    /// The letters of a batch. One that came from the archive stays: there it would only go round.
    pub(super) fn new(config: &Config, cases: &mut [Case<'_>], at: Timestamp, until: Duration) -> Self {
        let mut letters = Vec::new();
        let archive = config.archive_queue.as_ref();
        for (index, case) in cases.iter_mut().enumerate() {
            if !matches!(case.disposition, Disposition::Archive(_)) {
                continue;
            }
            let letter = &case.letter;
            if archive == Some(&letter.sqs.queue) || archive == Some(letter.dead_letter_queue()) {
                let failure = Failure::ours(FailureClass::ActionRequired, "ArchiveIsDeadLetterQueue");
                case.undone = Some((NotDone::Archive, failure));
            } else {
                letters.push(index);
            }
        }
        let fifo = cases.first().is_some_and(|case| case.letter.sqs.queue.is_fifo());
        let one_by_one = archive.is_some() && fifo;
        let group = |index: &usize| cases[*index].fifo_group().filter(|_| one_by_one);
        let order = Order::new(letters.iter().map(group));
        let (limit, limit_known, under_way) = <_>::default();
        Self { at, until, limit, limit_known, letters, order, under_way }
    }

    pub(super) fn is_done(&self) -> bool {
        self.order.is_done() && self.under_way.is_empty()
    }

    /// The next letters to archive, if there are any left.
    pub(super) fn next(&mut self, cases: &mut [Case<'_>]) -> Option<Action> {
        while let Some(round) = self.order.next_round() {
            let (mut under_way, mut letters) = (Vec::new(), Vec::new());
            for place in round {
                let case = &mut cases[self.letters[place]];
                if let Some(failure) = self.order.blocked(place) {
                    case.undone = Some((NotDone::Archive, failure.clone()));
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

    /// Takes note of what the archive has.
    fn archived(&mut self, cases: &mut [Case<'_>], answer: Answer) {
        let answers = results(answer, self.under_way.len());
        for (place, answer) in std::mem::take(&mut self.under_way).into_iter().zip(answers) {
            let Err(failure) = answer else { continue };
            self.order.block(place, failure.clone());
            cases[self.letters[place]].undone = Some((NotDone::Archive, failure));
        }
    }
}

impl Batch<'_> {
    /// Archives and hides, at the same time.
    pub(super) fn finish(&mut self, now: Now) -> (Stage, Option<Action>) {
        if self.is_active() {
            ending::archive_what_ends(&mut self.cases, now.at);
        }
        // What the archive does not take is hidden afterwards, so it does not get all of the time.
        let until = half_of(now.elapsed, self.time.finish);
        self.archiving = Some(Archiving::new(&self.machine.config, &mut self.cases, now.at, until));
        let hiding = |(index, case): (usize, &Case<'_>)| Some((index, case.hiding(now.at)?));
        let hidings: Vec<_> = self.cases.iter().enumerate().filter_map(hiding).collect();
        if hidings.is_empty() {
            return (Stage::AwaitFinished, None);
        }
        let letters = self.letters_to_hide(&hidings);
        self.hiding = Some(hidings.into_iter().map(|(index, _)| index).collect());
        (Stage::AwaitFinished, Some(Action::Hide { letters, until: self.time.finish }))
    }

    pub(super) fn letters_to_hide(&self, hidings: &[(usize, u64)]) -> Vec<(Arc<Letter>, u64)> {
        hidings.iter().map(|(index, seconds)| (self.cases[*index].letter.clone(), *seconds)).collect()
    }

    /// Gives the archive what is left for it.
    pub(super) fn archive_on(&mut self, now: Now) -> Option<(ActionId, Action)> {
        if self.archive_asked.is_some() {
            return None;
        }
        let archiving = self.archiving.as_mut()?;
        let archive = self.machine.config.archive_queue.as_ref().filter(|_| !archiving.limit_known);
        if let Some(archive) = archive.filter(|_| !archiving.is_done()) {
            self.archive_asked = Some(Asked::Limit);
            let until = half_of(now.elapsed, archiving.until);
            let queues = [archive.clone()].into();
            return Some((ActionId(Chain::Archive), Action::LookUpQueues { queues, again: false, until }));
        }
        let Some(action) = archiving.next(&mut self.cases) else {
            self.archiving = None;
            return None;
        };
        self.archive_asked = Some(Asked::Store);
        Some((ActionId(Chain::Archive), action))
    }

    pub(super) fn archive_answered(&mut self, answer: Answer) {
        match self.archive_asked.take() {
            Some(Asked::Limit) => {
                let known = self.queues(answer);
                let archive = self.machine.config.archive_queue.as_ref();
                if let Some(archiving) = &mut self.archiving {
                    archiving.limit = archive.and_then(|queue| known.get(queue)?.max_message_bytes);
                    archiving.limit_known = true;
                }
            }
            Some(Asked::Store) => {
                if let Some(archiving) = &mut self.archiving {
                    archiving.archived(&mut self.cases, answer);
                }
            }
            None => {}
        }
    }

    /// Hides what the archive did not take.
    pub(super) fn hide_unarchived(&mut self, now: Now) -> (Stage, Option<Action>) {
        let hidings = unarchived(&mut self.machine.knowledge(), &self.cases, now.at);
        if hidings.is_empty() {
            return (Stage::Done, None);
        }
        let letters = self.letters_to_hide(&hidings);
        let action = Action::Hide { letters, until: self.time.finish };
        (Stage::AwaitHiddenUnarchived(hidings), Some(action))
    }
}

/// Remembers what the archive did not take, and forgets what it took; returns the letters to hide until they are given to
/// it again, with the seconds. Within a FIFO group only the first is hidden: while the others were in flight they would
/// block it.
fn unarchived(knowledge: &mut Knowledge, cases: &[Case<'_>], now: Timestamp) -> Vec<(usize, u64)> {
    let mut order = Order::new(cases.iter().map(Case::fifo_group));
    let mut hidings = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let first = order.blocked(index).is_none();
        if case.blocks() {
            order.block(index, ());
        }
        let Some(context) = case.context() else { continue };
        if case.undone.is_none() {
            knowledge.unarchived.forget(&case.letter.sqs);
            continue;
        }
        let unarchived = Unarchived::of(context, case.unarchived.as_ref(), now, case.end());
        hidings.push((index, if first { unarchived.hide } else { 0 }));
        knowledge.unarchived.keep(&case.letter.sqs, unarchived, now);
    }
    hidings
}

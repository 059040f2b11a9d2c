//! The end of a batch: archiving and hiding, at the same time.

use std::sync::Arc;

use super::action::{Action, ActionAnswer, InvocationNow, RequiredFreshness};
use super::archiving::ArchivingState;
use super::group_order::GroupOrder;
use super::knowledge::InstanceKnowledge;
use super::moment::Moment;
use super::pending_letter::PendingLetter;
use super::state::{ActionChain, ActionId, ArchiveCall, Batch, BatchStage};
use super::time::half_of;
use super::unarchived::UnarchivedLetter;
use super::{expiry, queue_check};
use crate::letter::Letter;
use crate::policy::{ArchiveReason, Retention, ask_again_after, plus};

impl Batch<'_> {
    /// Asks whether publishers of a raw subscription's topic can write letters of other subscriptions of a
    /// queue.
    pub(super) fn look_at_sharing(&mut self) -> (BatchStage, Option<Action>) {
        let queues = queue_check::open_to_forgery(&self.config.policy, &self.cases);
        if queues.is_empty() {
            return (BatchStage::Finish, None);
        }
        (BatchStage::AwaitShared, Some(Action::LookUpSharing { queues }))
    }

    /// Archives and hides, at the same time.
    pub(super) fn finish(&mut self, now: InvocationNow) -> (BatchStage, Option<Action>) {
        if self.is_active() {
            self.release_taken_back(now.moment());
            expiry::archive_what_ends(&mut self.cases, now.at);
            self.cases.iter_mut().for_each(|case| case.name_target(&self.memory.targets));
        }
        self.begin_recovery(now);
        // Letters that the archive does not accept are hidden afterwards, so the archive does not get all of
        // the time.
        let until = half_of(now.elapsed, self.time.finish);
        self.archiving = Some(ArchivingState::new(self.config, &mut self.cases, now.at, until));
        let hiding = |(index, case): (usize, &PendingLetter<'_>)| Some((index, case.hiding(now.at)?));
        let hidings: Vec<_> = self.cases.iter().enumerate().filter_map(hiding).collect();
        if hidings.is_empty() || !self.is_active() {
            return (BatchStage::AwaitFinished, None);
        }
        let letters = self.letters_to_hide(&hidings);
        self.hiding = Some(hidings.into_iter().map(|(index, _)| index).collect());
        (BatchStage::AwaitFinished, Some(Action::Hide { letters, until: self.time.finish }))
    }

    pub(super) fn letters_to_hide(&self, hidings: &[(usize, u64)]) -> Vec<(Arc<Letter>, u64)> {
        hidings.iter().map(|(index, seconds)| (self.cases[*index].letter.clone(), *seconds)).collect()
    }

    /// Gives the archive the letters that are left for it.
    pub(super) fn archive_on(&mut self, now: InvocationNow) -> Option<(ActionId, Action)> {
        if self.archive_asked.is_some() {
            return None;
        }
        let archiving = self.archiving.as_mut()?;
        let archive = self.config.archive_queue.as_ref().filter(|_| !archiving.limit_known);
        if let Some(archive) = archive.filter(|_| !archiving.is_done()) {
            self.archive_asked = Some(ArchiveCall::Limit);
            let until = half_of(now.elapsed, archiving.until);
            let queues = [archive.clone()].into();
            return Some((
                ActionId(ActionChain::Archive),
                Action::LookUpQueues { queues, suffices: RequiredFreshness::Kept, until },
            ));
        }
        let Some(action) = archiving.next(&mut self.cases) else {
            self.archiving = None;
            return None;
        };
        self.archive_asked = Some(ArchiveCall::Store);
        Some((ActionId(ActionChain::Archive), action))
    }

    pub(super) fn archive_answered(&mut self, answer: ActionAnswer) {
        match self.archive_asked.take() {
            Some(ArchiveCall::Limit) => {
                let known = self.queues(answer);
                let archive = self.config.archive_queue.as_ref();
                if let Some(archiving) = &mut self.archiving {
                    archiving.limit = archive.and_then(|queue| known.get(queue)?.max_message_bytes);
                    archiving.limit_known = true;
                }
            }
            Some(ArchiveCall::Store) => {
                if let Some(archiving) = &mut self.archiving {
                    archiving.archived(&mut self.cases, answer);
                }
            }
            None => {}
        }
    }

    /// Hides the letters that the archive did not accept.
    pub(super) fn hide_unarchived(&mut self, now: InvocationNow) -> (BatchStage, Option<Action>) {
        let hidings = unarchived(&mut self.memory.knowledge, &self.cases, now.moment());
        if hidings.is_empty() {
            return (BatchStage::Done, None);
        }
        let letters = self.letters_to_hide(&hidings);
        let action = Action::Hide { letters, until: self.time.finish };
        (BatchStage::AwaitHiddenUnarchived(hidings), Some(action))
    }
}

/// Remembers the letters that the archive did not accept, and forgets those that it did. Returns the letters
/// to hide until the archive gets them again, with the seconds. Within a FIFO group only the first is hidden,
/// because others in flight would block it.
fn unarchived(
    knowledge: &mut InstanceKnowledge,
    cases: &[PendingLetter<'_>],
    now: Moment,
) -> Vec<(usize, u64)> {
    let mut order = GroupOrder::new(cases.iter().map(PendingLetter::fifo_group));
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
        let is_guess =
            case.facts.retention == Retention::Assumed && context.reason == ArchiveReason::Expiring;
        // It is hidden for half of what is left, so that it comes back when its queue is asked again.
        let soon = || plus(now.at, 2 * ask_again_after(case.letter.kept_since(), now.at));
        let end = case.end().unwrap_or_else(soon);
        let unarchived = UnarchivedLetter::of(context, case.unarchived.as_deref(), now, end);
        hidings.push((index, if first { unarchived.hide } else { 0 }));
        knowledge.unarchived.keep(&case.letter.sqs, UnarchivedLetter { is_guess, ..unarchived });
    }
    hidings
}

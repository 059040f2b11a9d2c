//! The stages of a batch, and which comes next.

use super::action::{Action, Answer, Notice, Now, Suffices, results};
use super::checkup;
use super::state::{ActionId, Batch, Chain, Stage};
use crate::arn::Arn;
use std::collections::HashMap;

impl Batch<'_> {
    /// Returns the actions that are to be done now. There are none while an answer or a turn is awaited, and
    /// at the end. Requests are asked for one at a time.
    pub fn poll(&mut self, now: Now) -> Vec<(ActionId, Action)> {
        let mut asked: Vec<_> = self.next_stage(now).into_iter().collect();
        if matches!(self.stage, Stage::AwaitFinished) {
            asked.extend(self.archive_on(now));
            asked.extend(self.list_waiting(now));
            if self.archiving.is_none() && self.hiding.is_none() {
                self.stage = Stage::HideUnarchived;
                asked.extend(self.next_stage(now));
            }
        }
        self.awaited += asked.len();
        asked.extend(self.reread_overrides(now));
        asked
    }

    /// Reports whether the batch waits for an answer or a turn. It does not wait for overrides that are read
    /// beside deliveries.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.awaited > 0 || matches!(self.stage, Stage::Sending(_))
    }

    /// Takes the answer to an action. An answer of another kind than was asked for counts as an empty one.
    pub fn take(&mut self, id: ActionId, answer: Answer, now: Now) {
        if id.0 != Chain::Overrides {
            self.awaited = self.awaited.saturating_sub(1);
        }
        match id.0 {
            Chain::Overrides => self.overrides_reread(answer, now),
            Chain::Request(number) => self.request_answered(number, answer, now),
            Chain::Stages => self.stage_answered(answer, now),
            Chain::Archive => self.archive_answered(answer),
            Chain::List => self.waiting_listed(answer),
            Chain::Hide => {
                let hidden = self.hiding.take().unwrap_or_default();
                let answers = results(answer, hidden.len());
                for (index, answer) in hidden.into_iter().zip(answers) {
                    if let Err(failure) = answer {
                        self.cases[index].not_hidden(failure, now.at);
                    }
                }
            }
        }
    }

    /// Returns the notices since the last call.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Goes on until an answer is needed.
    fn next_stage(&mut self, now: Now) -> Option<(ActionId, Action)> {
        loop {
            let stage = std::mem::replace(&mut self.stage, Stage::Done);
            let (next, action) = match stage {
                Stage::Open(letters) => match self.read_overrides(now) {
                    None => (Stage::Begin(letters), None),
                    action => (Stage::AwaitFirstOverrides(letters), action),
                },
                Stage::Begin(letters) => self.begin(letters, now),
                Stage::AskQueuesAgain(letters, inquiry, unread) => {
                    let (inquiry, action) = inquiry.ask(unread, Suffices::Answer, now.elapsed);
                    (Stage::AwaitQueues(letters, inquiry), Some(action))
                }
                Stage::HideForInvocation => self.hide_for_invocation(now),
                Stage::Discover => self.discover(now),
                Stage::DeliveryPolicies => self.read_delivery_policies(now),
                Stage::NextRound if self.order.is_done() => (self.next_round(now), None),
                Stage::NextRound => match self.read_overrides(now) {
                    None => (self.next_round(now), None),
                    action => (Stage::AwaitOverrides, action),
                },
                Stage::Verify => self.verify(now),
                Stage::LookUp(due) => self.look_up(due, now),
                Stage::Send(due, known) => match self.read_overrides(now) {
                    None => (self.send(due, known, now), None),
                    action => (Stage::AwaitOverridesToSend(due, known), action),
                },
                Stage::Sending(round) => match self.send_next(round, now) {
                    (Stage::Sending(round), request) => {
                        self.stage = Stage::Sending(round);
                        return request;
                    }
                    (next, _) => (next, None),
                },
                Stage::AskTargets(unmarking) => self.ask_targets(unmarking, now),
                Stage::SendUnmarked(unmarking, queues) => (self.send_unmarked(unmarking, &queues, now), None),
                Stage::Place => self.place(now),
                Stage::PlaceWithEstimate(until) => self.place_with_estimate(until, now),
                Stage::Move(placing, until) => self.make_moves(placing, until),
                Stage::EndRound => {
                    for &index in self.round.iter().filter(|index| self.cases[**index].blocks()) {
                        self.order.block(index, ());
                    }
                    (Stage::NextRound, None)
                }
                Stage::Share => self.look_at_sharing(),
                Stage::Finish => self.finish(now),
                Stage::HideUnarchived => self.hide_unarchived(now),
                waiting => {
                    self.stage = waiting;
                    return None;
                }
            };
            self.stage = next;
            let id = if matches!(self.stage, Stage::AwaitFinished) { Chain::Hide } else { Chain::Stages };
            if let Some(action) = action {
                return Some((ActionId(id), action));
            }
            if matches!(self.stage, Stage::AwaitFinished) {
                return None;
            }
        }
    }

    fn stage_answered(&mut self, answer: Answer, now: Now) {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        self.stage = match stage {
            Stage::AwaitFirstOverrides(letters) => {
                self.overrides_read(answer, now);
                Stage::Begin(letters)
            }
            Stage::AwaitOverrides => {
                self.overrides_read(answer, now);
                Stage::NextRound
            }
            Stage::AwaitQueues(letters, inquiry) => self.queues_answered(letters, inquiry, answer, now),
            Stage::AwaitHiddenForInvocation(near, run) => {
                let answers = results(answer, near.len());
                for (index, _) in near.into_iter().zip(answers).filter(|(_, answer)| answer.is_ok()) {
                    self.cases[index].shows_in = run;
                }
                self.resume();
                Stage::Discover
            }
            Stage::AwaitDiscovered(asked) => self.discovered(asked, answer, now),
            Stage::AwaitDeliveryPolicies(routes) => {
                let known = if let Answer::Subscriptions(known) = answer { known } else { HashMap::new() };
                self.take_delivery_policies(&routes, &known, now);
                Stage::NextRound
            }
            Stage::AwaitVerified { passed, asked } => self.verified(passed, asked, answer, now),
            Stage::AwaitSubscriptions(due) => self.looked_up(due, answer, now),
            Stage::AwaitOverridesToSend(due, known) => {
                self.overrides_read(answer, now);
                Stage::Send(self.still_due(due, now.moment()), known)
            }
            Stage::AwaitTargets(unmarking) => Self::targets_known(unmarking, answer),
            Stage::AwaitReading(until) => {
                self.queues(answer);
                Stage::PlaceWithEstimate(until)
            }
            Stage::AwaitRequeue(placing, until) => {
                let known = self.queues(answer);
                self.move_away(placing, &known, until, now)
            }
            Stage::AwaitMoved(placing) => self.moved(placing, answer, now),
            Stage::AwaitShared => {
                let Answer::Shared(shared) = answer else { return self.stage = Stage::Finish };
                let notice =
                    |queue: Arn| Notice::SharedWithRaw { advice: checkup::advice_on_sharing(&queue), queue };
                self.notices.extend(shared.into_iter().map(notice));
                Stage::Finish
            }
            Stage::AwaitHiddenUnarchived(hidings) => {
                let answers = results(answer, hidings.len());
                for ((index, seconds), answer) in hidings.into_iter().zip(answers) {
                    match answer {
                        Ok(()) => self.cases[index].hidden = Some(seconds),
                        Err(failure) => self.cases[index].not_hidden(failure, now.at),
                    }
                }
                Stage::Done
            }
            other => other,
        };
    }
}

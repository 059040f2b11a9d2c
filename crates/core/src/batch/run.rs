//! The stages of a batch, and which comes next.

use super::action::{Action, ActionAnswer, BatchNotice, InvocationNow, RequiredFreshness, results};
use super::queue_check;
use super::state::{ActionChain, ActionId, Batch, BatchStage};
use crate::arn::Arn;
use std::collections::HashMap;

impl Batch<'_> {
    /// Returns the actions that are to be done now. There are none while an answer or a turn is awaited, and
    /// at the end. Requests are asked for one at a time.
    pub fn poll(&mut self, now: InvocationNow) -> Vec<(ActionId, Action)> {
        let mut asked: Vec<_> = self.next_stage(now).into_iter().collect();
        if matches!(self.stage, BatchStage::AwaitFinished) {
            asked.extend(self.archive_on(now));
            asked.extend(self.list_waiting(now));
            if self.archiving.is_none() && self.hiding.is_none() {
                self.stage = BatchStage::HideUnarchived;
                asked.extend(self.next_stage(now));
            }
        }
        asked.extend(self.recover(now));
        self.awaited += asked.len();
        asked.extend(self.reread_overrides(now));
        asked
    }

    /// Reports whether the batch waits for an answer or a turn. It does not wait for overrides that are read
    /// beside deliveries.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.awaited > 0 || matches!(self.stage, BatchStage::Sending(_))
    }

    /// Takes the answer to an action. An answer of another kind than was asked for counts as an empty one.
    pub fn take(&mut self, id: ActionId, answer: ActionAnswer, now: InvocationNow) {
        if id.0 != ActionChain::Overrides {
            self.awaited = self.awaited.saturating_sub(1);
        }
        match id.0 {
            ActionChain::Overrides => self.overrides_reread(answer, now),
            ActionChain::Request(number) => self.request_answered(number, answer, now),
            ActionChain::Stages => self.stage_answered(answer, now),
            ActionChain::Archive => self.archive_answered(answer),
            ActionChain::List => self.waiting_listed(answer),
            ActionChain::Recovery => self.recovery_answered(answer, now),
            ActionChain::Hide => {
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
    pub fn notices(&mut self) -> Vec<BatchNotice> {
        std::mem::take(&mut self.notices)
    }

    /// Goes on until an answer is needed.
    fn next_stage(&mut self, now: InvocationNow) -> Option<(ActionId, Action)> {
        loop {
            let stage = std::mem::replace(&mut self.stage, BatchStage::Done);
            let (next, action) = match stage {
                BatchStage::Open(letters) => match self.read_overrides(now) {
                    None => (BatchStage::Begin(letters), None),
                    action => (BatchStage::AwaitFirstOverrides(letters), action),
                },
                BatchStage::Begin(letters) => self.begin(letters, now),
                BatchStage::AskQueuesAgain(letters, inquiry, unread) => {
                    let (inquiry, action) = inquiry.ask(unread, RequiredFreshness::Answer, now.elapsed);
                    (BatchStage::AwaitQueues(letters, inquiry), Some(action))
                }
                BatchStage::HideForInvocation => self.hide_for_invocation(now),
                BatchStage::Discover => self.discover(now),
                BatchStage::DeliveryPolicies => self.read_delivery_policies(now),
                BatchStage::NextRound if self.order.is_done() => (self.next_round(now), None),
                BatchStage::NextRound => match self.read_overrides(now) {
                    None => (self.next_round(now), None),
                    action => (BatchStage::AwaitOverrides, action),
                },
                BatchStage::Verify => self.verify(now),
                BatchStage::LookUp(due) => self.look_up(due, now),
                BatchStage::Send(due, known) => match self.read_overrides(now) {
                    None => (BatchStage::SendByRecoveries(due, known), None),
                    action => (BatchStage::AwaitOverridesToSend(due, known), action),
                },
                BatchStage::SendByRecoveries(due, known) => match self.read_recoveries_for(&due, now) {
                    None => (self.send(due, known, now), None),
                    action => (BatchStage::AwaitRecoveriesToSend(due, known), action),
                },
                BatchStage::Sending(round) => match self.send_next(round, now) {
                    (BatchStage::Sending(round), request) => {
                        self.stage = BatchStage::Sending(round);
                        return request;
                    }
                    (next, _) => (next, None),
                },
                BatchStage::AskTargets(unmarking) => self.ask_targets(unmarking, now),
                BatchStage::SendUnmarked(unmarking, queues) => {
                    (self.send_unmarked(unmarking, &queues, now), None)
                }
                BatchStage::Place => self.place(now),
                BatchStage::PlaceWithEstimate(until) => self.place_with_estimate(until, now),
                BatchStage::Move(placing, until) => self.make_moves(placing, until),
                BatchStage::EndRound => {
                    for &index in self.round.iter().filter(|index| self.cases[**index].blocks()) {
                        self.order.block(index, ());
                    }
                    (BatchStage::NextRound, None)
                }
                BatchStage::Share => self.look_at_sharing(),
                BatchStage::Finish => self.finish(now),
                BatchStage::HideUnarchived => self.hide_unarchived(now),
                waiting => {
                    self.stage = waiting;
                    return None;
                }
            };
            self.stage = next;
            let id = if matches!(self.stage, BatchStage::AwaitFinished) {
                ActionChain::Hide
            } else {
                ActionChain::Stages
            };
            if let Some(action) = action {
                return Some((ActionId(id), action));
            }
            if matches!(self.stage, BatchStage::AwaitFinished) {
                return None;
            }
        }
    }

    fn stage_answered(&mut self, answer: ActionAnswer, now: InvocationNow) {
        let stage = std::mem::replace(&mut self.stage, BatchStage::Done);
        self.stage = match stage {
            BatchStage::AwaitFirstOverrides(letters) => {
                self.overrides_read(answer, now);
                BatchStage::Begin(letters)
            }
            BatchStage::AwaitOverrides => {
                self.overrides_read(answer, now);
                BatchStage::NextRound
            }
            BatchStage::AwaitQueues(letters, inquiry) => self.queues_answered(letters, inquiry, answer, now),
            BatchStage::AwaitHiddenForInvocation(near, run) => {
                let answers = results(answer, near.len());
                for (index, _) in near.into_iter().zip(answers).filter(|(_, answer)| answer.is_ok()) {
                    self.cases[index].shows_in = run;
                }
                self.resume();
                BatchStage::Discover
            }
            BatchStage::AwaitDiscovered(asked) => self.discovered(asked, answer, now),
            BatchStage::AwaitDeliveryPolicies(routes) => {
                let known =
                    if let ActionAnswer::Subscriptions(known) = answer { known } else { HashMap::new() };
                self.take_delivery_policies(&routes, &known, now);
                BatchStage::NextRound
            }
            BatchStage::AwaitVerified { passed, asked } => self.verified(passed, asked, answer, now),
            BatchStage::AwaitSubscriptions(due) => self.looked_up(due, answer, now),
            BatchStage::AwaitOverridesToSend(due, known) => {
                self.overrides_read(answer, now);
                BatchStage::Send(self.still_due(due, now.moment()), known)
            }
            BatchStage::AwaitRecoveriesToSend(due, known) => {
                self.recoveries_read_for(answer, now);
                BatchStage::SendByRecoveries(due, known)
            }
            BatchStage::AwaitTargets(unmarking) => Self::targets_known(unmarking, answer),
            BatchStage::AwaitReading(until) => {
                self.queues(answer);
                BatchStage::PlaceWithEstimate(until)
            }
            BatchStage::AwaitRequeue(placing, until) => {
                let known = self.queues(answer);
                self.move_away(placing, &known, until, now)
            }
            BatchStage::AwaitMoved(placing) => self.moved(placing, answer, now),
            BatchStage::AwaitShared => {
                let ActionAnswer::Shared(shared) = answer else { return self.stage = BatchStage::Finish };
                let notice = |queue: Arn| BatchNotice::SharedWithRaw {
                    advice: queue_check::advice_on_sharing(&queue),
                    queue,
                };
                self.notices.extend(shared.into_iter().map(notice));
                BatchStage::Finish
            }
            BatchStage::AwaitHiddenUnarchived(hidings) => {
                let answers = results(answer, hidings.len());
                for ((index, seconds), answer) in hidings.into_iter().zip(answers) {
                    match answer {
                        Ok(()) => self.cases[index].hidden = Some(seconds),
                        Err(failure) => self.cases[index].not_hidden(failure, now.at),
                    }
                }
                BatchStage::Done
            }
            other => other,
        };
    }
}

//! The steps of one round of a batch: decide, verify, look up, and place the deferred letters.

use std::collections::HashMap;
use std::time::Duration;

use super::action::{
    Action, ActionAnswer, InvocationNow, QueueAttributes, RequiredFreshness, SendResult, SignatureResult,
    SubscriptionLookup, whole,
};
use super::health::LookupQuestion;
use super::parking::{DeferredLetters, deferred};
use super::pending_letter::Disposition;
use super::resolve::subscriptions;
use super::state::{Batch, BatchStage, DueRetries, RoundPass};
use super::time::half_of;
use crate::arn::Arn;
use crate::policy::Decision;

impl Batch<'_> {
    /// Decides about the letters of the next round, except those behind another of their group and those
    /// whose disposition is known already.
    pub(super) fn next_round(&mut self, now: InvocationNow) -> BatchStage {
        let Some(round) = self.order.next_round() else { return BatchStage::Share };
        (self.round, self.pass) = (round, RoundPass::First);
        let (active, now) = (self.is_active(), now.at);
        let requeue = self.config.requeue.as_ref();
        for &index in &self.round {
            let case = &mut self.cases[index];
            let is_behind = self.order.blocked(index).is_some();
            if active && is_behind {
                case.disposition = Disposition::Held;
                continue;
            }
            // Overrides that changed meanwhile can need a search that was not made at the beginning.
            if active && case.needs_discovery() && !case.searched {
                case.put_off();
                continue;
            }
            let decision = match case.disposition {
                _ if case.is_undecided() => case.decide(now),
                Disposition::Archive(reason) => Decision::Archive(reason, None),
                _ => continue,
            };
            match (active, &case.disposition) {
                (false, _) => case.observe(decision, requeue, is_behind),
                (true, Disposition::Open) => case.settle(&decision, now),
                (true, _) => {}
            }
        }
        if active { BatchStage::Verify } else { BatchStage::EndRound }
    }

    /// Asks for the signatures of letters whose rule demands that, and lets the others pass.
    pub(super) fn verify(&mut self, now: InvocationNow) -> (BatchStage, Option<Action>) {
        let due = self.due_to_ask(now);
        let (asked, passed): (DueRetries, DueRetries) =
            due.into_iter().partition(|(index, _)| self.cases[*index].rule.verify_signature);
        if asked.is_empty() {
            return (BatchStage::LookUp(passed), None);
        }
        let letters = asked.iter().map(|(index, _)| self.cases[*index].letter.clone()).collect();
        let until = self.ask_until(now);
        (BatchStage::AwaitVerified { passed, asked }, Some(Action::Verify { letters, until }))
    }

    /// Takes over the results of the checks. A letter that SNS did not sign is refused. A certificate that
    /// cannot be fetched is a failed attempt.
    pub(super) fn verified(
        &mut self,
        mut passed: DueRetries,
        asked: DueRetries,
        answer: ActionAnswer,
        now: InvocationNow,
    ) -> BatchStage {
        let answers = if let ActionAnswer::Verified(answers) = answer { answers } else { Vec::new() };
        let answers = whole(answers, asked.len(), || SignatureResult::Unknown(SendResult::NotStarted));
        let mut questions = Vec::new();
        for ((index, retry), answer) in asked.into_iter().zip(answers) {
            let unknown = if let SignatureResult::Unknown(sent) = &answer { Some(sent) } else { None };
            let topic = self.cases[index].letter.topic().cloned().map(LookupQuestion::Signature);
            questions.extend(topic.zip(self.question_end(unknown)));
            match answer {
                SignatureResult::Genuine => passed.push((index, retry)),
                SignatureResult::Refused(why) => self.cases[index].refuse(why),
                SignatureResult::Unknown(sent) => self.unanswered(index, retry, sent, now),
            }
        }
        self.asked(questions, now);
        // Restores the order of the batch, in which letters of one request are sent.
        passed.sort_unstable_by_key(|(index, _)| *index);
        BatchStage::LookUp(passed)
    }

    /// Asks SNS about the subscriptions of the letters that are due.
    pub(super) fn look_up(&mut self, due: DueRetries, now: InvocationNow) -> (BatchStage, Option<Action>) {
        let routes = due.iter().filter_map(|(index, _)| self.cases[*index].route_to_ask());
        let subscriptions = subscriptions(routes);
        if subscriptions.is_empty() {
            return (BatchStage::Send(due, HashMap::new()), None);
        }
        let until = self.ask_until(now);
        (BatchStage::AwaitSubscriptions(due), Some(Action::LookUpSubscriptions { subscriptions, until }))
    }

    /// Takes over SNS's answers about subscriptions.
    pub(super) fn looked_up(
        &mut self,
        due: DueRetries,
        answer: ActionAnswer,
        now: InvocationNow,
    ) -> BatchStage {
        let known = if let ActionAnswer::Subscriptions(known) = answer { known } else { HashMap::new() };
        self.subscriptions_asked(&known, now);
        BatchStage::Send(due, known)
    }

    /// Takes note of the ends of questions about subscriptions.
    pub(super) fn subscriptions_asked(
        &mut self,
        known: &HashMap<Arn, SubscriptionLookup>,
        now: InvocationNow,
    ) {
        let end = |(arn, known): (&Arn, &SubscriptionLookup)| {
            Some((LookupQuestion::Subscription(arn.clone()), self.question_end(known.as_ref().err())?))
        };
        let ends = known.iter().filter_map(end).collect();
        self.asked(ends, now);
        self.memory.targets.looked_up(known, now.age);
    }

    /// Asks for the number of letters in flight, if deferred letters could be moved and the known number is
    /// not good enough.
    pub(super) fn place(&mut self, now: InvocationNow) -> (BatchStage, Option<Action>) {
        let Some(queue) = self.queue().filter(|_| !deferred(&self.cases, &self.round).is_empty()) else {
            return (BatchStage::EndRound, None);
        };
        self.send_scouts(now);
        let until = half_of(now.elapsed, self.time.finish);
        let config = self.config;
        let wants_reading = self.memory.knowledge.estimate(config, &queue).wants_reading(now.age);
        // If no letter can be moved, the reading of the last minute is good enough.
        if !wants_reading || queue.is_fifo() || config.requeue_of(&queue).is_none() {
            return (BatchStage::PlaceWithEstimate(until), None);
        }
        let action = Action::LookUpQueues { queues: [queue].into(), suffices: RequiredFreshness::New, until };
        (BatchStage::AwaitReading(until), Some(action))
    }

    /// Decides where the deferred letters of the round wait.
    pub(super) fn place_with_estimate(
        &mut self,
        until: Duration,
        now: InvocationNow,
    ) -> (BatchStage, Option<Action>) {
        let Some(queue) = self.queue() else { return (BatchStage::EndRound, None) };
        let config = self.config;
        let estimate = self.memory.knowledge.estimate(config, &queue);
        let deferred = deferred(&self.cases, &self.round);
        let placing = DeferredLetters::new(config, estimate, &self.cases, deferred, now.moment());
        match config.requeue_of(&queue).filter(|_| !placing.moving.is_empty() && self.requeue_works) {
            None => (self.placed(placing, now), None),
            Some(requeue) => {
                let queues = [requeue.clone()].into();
                let action = Action::LookUpQueues { queues, suffices: RequiredFreshness::Kept, until };
                (BatchStage::AwaitRequeue(placing, until), Some(action))
            }
        }
    }

    /// Prepares the moves to the requeue. A letter stays if the requeue would not keep it as long as it
    /// waits.
    pub(super) fn move_away(
        &mut self,
        mut placing: DeferredLetters,
        known: &HashMap<Arn, QueueAttributes>,
        until: Duration,
        now: InvocationNow,
    ) -> BatchStage {
        let requeue = self.config.requeue.as_ref();
        let retention = requeue.and_then(|requeue| known.get(requeue)?.retention);
        match retention {
            None => placing.moving.clear(),
            Some(retention) => placing.keep_within(&self.cases, retention, now.at),
        }
        if placing.moving.is_empty() {
            return self.placed(placing, now);
        }
        BatchStage::Move(placing, until)
    }

    pub(super) fn make_moves(
        &mut self,
        placing: DeferredLetters,
        until: Duration,
    ) -> (BatchStage, Option<Action>) {
        let Some(requeue) = self.config.requeue.clone() else { return (BatchStage::EndRound, None) };
        let moves = placing.moves(&self.cases);
        (BatchStage::AwaitMoved(placing), Some(Action::Move { moves, requeue, until }))
    }

    pub(super) fn moved(
        &mut self,
        mut placing: DeferredLetters,
        answer: ActionAnswer,
        now: InvocationNow,
    ) -> BatchStage {
        let answers = if let ActionAnswer::Moved(answers) = answer { answers } else { Vec::new() };
        if let Some(requeue) = &self.config.requeue {
            let (works, notice) = placing.moved(&mut self.cases, answers, requeue);
            self.requeue_works = works;
            self.notices.extend(notice);
        }
        self.placed(placing, now)
    }

    pub(super) fn placed(&mut self, placing: DeferredLetters, now: InvocationNow) -> BatchStage {
        if let Some(queue) = self.queue() {
            let knowledge = &mut self.memory.knowledge;
            let notice = placing.end(self.config, knowledge, &queue, now.age);
            self.notices.extend(notice);
        }
        BatchStage::EndRound
    }
}

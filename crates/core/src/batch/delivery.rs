//! The delivery of a round's letters: where each goes and when, the requests, and the results.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::action::{
    Action, ActionAnswer, BatchNotice, Delivery, InvocationNow, RequestEnd, RequestResult, SendRequest,
    SendResult, SubscriptionLookup,
};
use super::memory::InstanceMemory;
use super::outgoing::{OutgoingLetter, RoundSending};
use super::packed_facts::{PackedFacts, recorded_trace};
use super::purpose::RequestPurpose;
use super::requests::UnsentMessage;
use super::resolve::{RouteResolution, resolve};
use super::sending::{NextRequest, SendingState};
use super::state::{ActionChain, ActionId, Batch, BatchStage, DueRetries, RoundPass};
use super::throttle::EndpointTurn;
use super::time::{RoundWindow, later};
use super::unmarked_letters::UnmarkedLetters;
use crate::arn::Arn;
use crate::endpoint::{Destination, Endpoint};
use crate::policy::Retry;

/// The longest time that an invocation waits for a letter's turn. A letter with a later turn is hidden
/// instead, so that it holds up nothing.
const MAX_TURN_WAIT: Duration = Duration::from_millis(1_500);

impl Batch<'_> {
    /// Sends the letters that are due, may go to their targets, and have a turn in time.
    pub(super) fn send(
        &mut self,
        due: DueRetries,
        known: HashMap<Arn, SubscriptionLookup>,
        now: InvocationNow,
    ) -> BatchStage {
        self.wait_for_overrides();
        let window = self.window(now);
        let mut letters = Vec::new();
        let mut unmarking = UnmarkedLetters::new(known);
        for (index, retry) in due {
            let Some(destination) = self.address(index, retry, &unmarking.known, now) else { continue };
            if self.may_go_unmarked(index, &destination) {
                unmarking.add(index, retry, None);
                continue;
            }
            letters.extend(self.outgoing(index, retry, destination, false, window, now));
        }
        self.begin_sending(letters, unmarking, window, now)
    }

    /// Returns the time for the deliveries of a round that begins now.
    pub(super) fn window(&mut self, now: InvocationNow) -> RoundWindow {
        let since = *self.begun.get_or_insert(now.elapsed);
        RoundWindow { since, start: now.elapsed, end: self.time.deliver }
    }

    /// Prepares a letter for its destination, or settles another disposition.
    pub(super) fn outgoing(
        &mut self,
        index: usize,
        retry: Retry,
        destination: Destination,
        unmarked: bool,
        window: RoundWindow,
        now: InvocationNow,
    ) -> Option<OutgoingLetter> {
        let case = &mut self.cases[index];
        let letter = Arc::clone(&case.letter);
        let packed = PackedFacts::new(&letter, &destination, retry, unmarked);
        let packed = packed.map_err(|error| case.not_packed(error)).ok()?;
        let (turn, at_once) = self.turn(index, retry, &destination, window, now)?;
        let delivery = Arc::new(Delivery { letter, retry, destination, unmarked });
        Some(OutgoingLetter { index, delivery, packed, turn, at_once })
    }

    /// Divides letters into requests.
    pub(super) fn begin_sending(
        &mut self,
        letters: Vec<OutgoingLetter>,
        unmarking: UnmarkedLetters,
        window: RoundWindow,
        now: InvocationNow,
    ) -> BatchStage {
        if letters.is_empty() {
            return self.after_sending(unmarking);
        }
        let unsent: Vec<_> = letters.iter().map(|one| self.unsent(one)).collect();
        let sending = SendingState::new(&unsent, window, now, &self.memory.health);
        let sending = if self.pass == RoundPass::Second { sending.in_what_is_left() } else { sending };
        BatchStage::Sending(Box::new(RoundSending { letters, sending, unmarking }))
    }

    /// Returns the facts about a letter that decide about its request.
    fn unsent<'l>(&self, one: &'l OutgoingLetter) -> UnsentMessage<'l> {
        let case = &self.cases[one.index];
        let longest = case.verdict.as_ref().map_or(0, |verdict| verdict.delivery.schedule.max);
        let Delivery { letter, retry, destination, .. } = &*one.delivery;
        let to = &destination.endpoint;
        let header = letter.sqs.system("AWSTraceHeader").filter(|_| matches!(to, Endpoint::Topic(_)));
        UnsentMessage {
            to,
            trace: recorded_trace(header),
            bytes: one.packed.bytes,
            at_once: one.at_once,
            waits: one.packed.waits,
            turn: one.turn,
            purpose: RequestPurpose::Retry {
                last: retry.is_last(),
                longest: Duration::from_secs(longest.into()),
            },
        }
    }

    /// Asks for the next request of a round. None begins while the overrides are too old and are being read
    /// again, and no letter goes that they keep back.
    pub(super) fn send_next(
        &mut self,
        mut round: Box<RoundSending>,
        now: InvocationNow,
    ) -> (BatchStage, Option<(ActionId, Action)>) {
        let InstanceMemory { health, overrides, targets, .. } = &mut *self.memory;
        let RoundSending { letters, sending, .. } = &mut *round;
        let obeys = self.config.overrides;
        let goes = |position: usize| {
            let case = &self.cases[letters[position].index];
            // What was an attempt ahead of its plan is the planned one by now, if it had to wait for its place.
            if letters[position].delivery.retry.planned.is_some_and(|planned| planned <= now.at) {
                return false;
            }
            let (target, overridden) = (|| case.leads_to(targets), case.is_sent_by_override());
            !obeys || overrides.allow_attempt(&case.letter, target, overridden, now.moment())
        };
        let is_shut = obeys && overrides.are_old(now.age);
        let next = if is_shut { None } else { sending.poll(now.elapsed, health, goes) };
        if let Some(NextRequest { number, messages, until }) = next {
            let to = sending.endpoint(number).clone();
            let delivery = |position: &usize| Arc::clone(&letters[*position].delivery);
            let deliveries = messages.iter().map(delivery).collect();
            let request = Action::Send(SendRequest { to, deliveries, until });
            return (BatchStage::Sending(round), Some((ActionId(ActionChain::Request(number)), request)));
        }
        let has_turn = if is_shut { sending.has_waiting() } else { sending.next_turn(now.elapsed).is_some() };
        if sending.is_under_way() || has_turn {
            return (BatchStage::Sending(round), None);
        }
        (self.sent(*round, now), None)
    }

    /// Takes the result of a request.
    pub(super) fn request_answered(&mut self, number: usize, answer: ActionAnswer, now: InvocationNow) {
        let BatchStage::Sending(round) = &mut self.stage else { return };
        let result = match answer {
            ActionAnswer::Sent(result) => result,
            _ => RequestResult { end: RequestEnd::Answered(Vec::new()), took: Duration::ZERO },
        };
        round.sending.take(number, result, now.elapsed, &mut self.memory.health);
    }

    /// Takes over the results of a round.
    fn sent(&mut self, round: RoundSending, now: InvocationNow) -> BatchStage {
        let RoundSending { letters, sending, mut unmarking } = round;
        let results = sending.into_results();
        for (OutgoingLetter { index, delivery, .. }, (sent, took)) in letters.into_iter().zip(results) {
            let retry = delivery.retry;
            if delivery.unmarked {
                self.notices.push(BatchNotice::Unmarked(Arc::clone(&delivery.letter)));
            }
            match sent {
                SendResult::Withheld => self.withheld(index, now.moment()),
                SendResult::Failed(refusal)
                    if !delivery.unmarked && self.is_refused_with_mark(index, &refusal) =>
                {
                    unmarking.add(index, retry, Some((refusal, took)));
                }
                sent => self.cases[index].attempted(retry, sent, took, now.at),
            }
        }
        let notice = |(endpoint, change)| BatchNotice::Endpoint { endpoint, change };
        self.notices.extend(self.memory.health.changes().into_iter().map(notice));
        self.after_sending(unmarking)
    }

    /// Returns the destination of a letter that is due, or settles another disposition.
    pub(super) fn address(
        &mut self,
        index: usize,
        retry: Retry,
        known: &HashMap<Arn, SubscriptionLookup>,
        now: InvocationNow,
    ) -> Option<Destination> {
        let case = &mut self.cases[index];
        let requeue = self.config.requeue.as_ref();
        match resolve(case.verdict.as_ref()?, &case.letter, requeue, known) {
            RouteResolution::Send(destination) => {
                case.target = Some(destination.endpoint.clone());
                return Some(destination);
            }
            RouteResolution::Archive(reason, detail) => case.archive(reason, Some(detail)),
            RouteResolution::Unknown(sent) => self.unanswered(index, retry, sent, now),
        }
        None
    }

    /// Returns the time when a letter may go by its rule's throttle policy, and with how many others. If its
    /// turn comes too late, or so late that the invocation would wait for it, the letter is put off, which is
    /// no attempt.
    pub(super) fn turn(
        &mut self,
        index: usize,
        retry: Retry,
        destination: &Destination,
        window: RoundWindow,
        now: InvocationNow,
    ) -> Option<(Duration, usize)> {
        let case = &mut self.cases[index];
        let verdict = case.verdict.as_ref()?;
        let Some(rate) = verdict.delivery.max_receives_per_second else {
            return Some((now.elapsed, usize::MAX));
        };
        let last = window.latest_start(&destination.endpoint).saturating_sub(now.elapsed).min(MAX_TURN_WAIT);
        let knowledge = &mut self.memory.knowledge;
        let turn = knowledge.throttle.turn(&destination.endpoint, rate, now.age, now.age + last);
        match turn {
            EndpointTurn::Taken(turn) => {
                let not_before = now.elapsed + turn.saturating_sub(now.age);
                Some((not_before, knowledge.throttle.at_once(rate)))
            }
            EndpointTurn::Later(turn) => {
                let turn = later(now.at, turn.saturating_sub(now.age));
                let put_off = verdict.put_off(retry, now.at, turn);
                case.settle(&put_off, now.at);
                None
            }
        }
    }
}

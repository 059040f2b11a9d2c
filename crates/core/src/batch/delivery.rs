//! The delivery of a round's letters: where each goes and when, the requests, and the results.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::action::{
    Action, Answer, Delivery, Known, Notice, Now, RequestEnd, RequestResult, SendRequest, Sent,
};
use super::memory::Memory;
use super::outgoing::{OutgoingLetter, RoundSending};
use super::packed::{Packed, recorded_trace};
use super::purpose::Purpose;
use super::questions::Pass;
use super::requests::Unsent;
use super::resolve::{Resolution, resolve};
use super::sending::{NextRequest, Sending};
use super::state::{ActionId, Batch, Chain, Due, Stage};
use super::throttle::Turn;
use super::time::{Window, later};
use super::unmarked::Unmarking;
use crate::arn::Arn;
use crate::endpoint::{Destination, Endpoint};
use crate::policy::Retry;

/// The longest time that an invocation waits for a letter's turn. A letter with a later turn is hidden
/// instead, so that it holds up nothing.
const LONGEST_TURN: Duration = Duration::from_millis(1_500);

impl Batch<'_> {
    /// Sends the letters that are due, may go to their targets, and have a turn in time.
    pub(super) fn send(&mut self, due: Due, known: HashMap<Arn, Known>, now: Now) -> Stage {
        self.wait_for_overrides();
        let window = self.window(now);
        let mut letters = Vec::new();
        let mut unmarking = Unmarking::new(known);
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
    pub(super) fn window(&mut self, now: Now) -> Window {
        let since = *self.begun.get_or_insert(now.elapsed);
        Window { since, start: now.elapsed, end: self.time.deliver }
    }

    /// Prepares a letter for its destination, or settles another disposition.
    pub(super) fn outgoing(
        &mut self,
        index: usize,
        retry: Retry,
        destination: Destination,
        unmarked: bool,
        window: Window,
        now: Now,
    ) -> Option<OutgoingLetter> {
        let case = &mut self.cases[index];
        let letter = Arc::clone(&case.letter);
        let packed = Packed::new(&letter, &destination, retry, unmarked);
        let packed = packed.map_err(|error| case.not_packed(error)).ok()?;
        let (turn, at_once) = self.turn(index, retry, &destination, window, now)?;
        let delivery = Arc::new(Delivery { letter, retry, destination, unmarked });
        Some(OutgoingLetter { index, delivery, packed, turn, at_once })
    }

    /// Divides letters into requests.
    pub(super) fn begin_sending(
        &mut self,
        letters: Vec<OutgoingLetter>,
        unmarking: Unmarking,
        window: Window,
        now: Now,
    ) -> Stage {
        if letters.is_empty() {
            return self.after_sending(unmarking);
        }
        let unsent: Vec<_> = letters.iter().map(|one| self.unsent(one)).collect();
        let sending = Sending::new(&unsent, window, now, &self.memory.health);
        let sending = if self.pass == Pass::Second { sending.in_what_is_left() } else { sending };
        Stage::Sending(Box::new(RoundSending { letters, sending, unmarking }))
    }

    /// Returns the facts about a letter that decide about its request.
    fn unsent<'l>(&self, one: &'l OutgoingLetter) -> Unsent<'l> {
        let case = &self.cases[one.index];
        let longest = case.verdict.as_ref().map_or(0, |verdict| verdict.delivery.schedule.max);
        let Delivery { letter, retry, destination, .. } = &*one.delivery;
        let to = &destination.endpoint;
        let header = letter.sqs.system("AWSTraceHeader").filter(|_| matches!(to, Endpoint::Topic(_)));
        Unsent {
            to,
            trace: recorded_trace(header),
            bytes: one.packed.bytes,
            at_once: one.at_once,
            waits: one.packed.waits,
            turn: one.turn,
            purpose: Purpose::Retry { last: retry.is_last(), longest: Duration::from_secs(longest.into()) },
        }
    }

    /// Asks for the next request of a round. None begins while the overrides are too old and are being read
    /// again, and no letter goes that they keep back.
    pub(super) fn send_next(
        &mut self,
        mut round: Box<RoundSending>,
        now: Now,
    ) -> (Stage, Option<(ActionId, Action)>) {
        let Memory { health, overrides, .. } = &mut *self.memory;
        let RoundSending { letters, sending, .. } = &mut *round;
        let obeys = self.config.overrides;
        let goes = |position: usize| {
            let case = &self.cases[letters[position].index];
            // What was an attempt ahead of its plan is the planned one by now, if it had to wait for its place.
            if letters[position].delivery.retry.planned.is_some_and(|planned| planned <= now.at) {
                return false;
            }
            !obeys || overrides.allow_attempt(&case.letter, case.is_sent_by_override(), now.moment())
        };
        let is_shut = obeys && overrides.are_old(now.age);
        let next = if is_shut { None } else { sending.poll(now.elapsed, health, goes) };
        if let Some(NextRequest { number, messages, until }) = next {
            let to = sending.endpoint(number).clone();
            let delivery = |position: &usize| Arc::clone(&letters[*position].delivery);
            let deliveries = messages.iter().map(delivery).collect();
            let request = Action::Send(SendRequest { to, deliveries, until });
            return (Stage::Sending(round), Some((ActionId(Chain::Request(number)), request)));
        }
        let has_turn = if is_shut { sending.has_waiting() } else { sending.next_turn(now.elapsed).is_some() };
        if sending.is_under_way() || has_turn {
            return (Stage::Sending(round), None);
        }
        (self.sent(*round, now), None)
    }

    /// Takes the result of a request.
    pub(super) fn request_answered(&mut self, number: usize, answer: Answer, now: Now) {
        let Stage::Sending(round) = &mut self.stage else { return };
        let result = match answer {
            Answer::Sent(result) => result,
            _ => RequestResult { end: RequestEnd::Answered(Vec::new()), took: Duration::ZERO },
        };
        round.sending.take(number, result, now.elapsed, &mut self.memory.health);
    }

    /// Takes over the results of a round.
    fn sent(&mut self, round: RoundSending, now: Now) -> Stage {
        let RoundSending { letters, sending, mut unmarking } = round;
        let results = sending.into_results();
        for (OutgoingLetter { index, delivery, .. }, (sent, took)) in letters.into_iter().zip(results) {
            let retry = delivery.retry;
            if delivery.unmarked {
                self.notices.push(Notice::Unmarked(Arc::clone(&delivery.letter)));
            }
            match sent {
                Sent::Withheld => self.withheld(index, now.moment()),
                Sent::Failed(refusal) if !delivery.unmarked && self.is_refused_with_mark(index, &refusal) => {
                    unmarking.add(index, retry, Some((refusal, took)));
                }
                sent => self.cases[index].attempted(retry, sent, took, now.at),
            }
        }
        let notice = |(endpoint, change)| Notice::Endpoint { endpoint, change };
        self.notices.extend(self.memory.health.changes().into_iter().map(notice));
        self.after_sending(unmarking)
    }

    /// Returns the destination of a letter that is due, or settles another disposition.
    pub(super) fn address(
        &mut self,
        index: usize,
        retry: Retry,
        known: &HashMap<Arn, Known>,
        now: Now,
    ) -> Option<Destination> {
        let case = &mut self.cases[index];
        let requeue = self.config.requeue.as_ref();
        match resolve(case.verdict.as_ref()?, &case.letter, requeue, known) {
            Resolution::Send(destination) => {
                case.target = Some(destination.endpoint.clone());
                return Some(destination);
            }
            Resolution::Archive(reason, detail) => case.archive(reason, Some(detail)),
            Resolution::Unknown(sent) => self.unanswered(index, retry, sent, now),
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
        window: Window,
        now: Now,
    ) -> Option<(Duration, usize)> {
        let case = &mut self.cases[index];
        let verdict = case.verdict.as_ref()?;
        let Some(rate) = verdict.delivery.max_receives_per_second else {
            return Some((now.elapsed, usize::MAX));
        };
        let last = window.latest_start(&destination.endpoint).saturating_sub(now.elapsed).min(LONGEST_TURN);
        let knowledge = &mut self.memory.knowledge;
        let turn = knowledge.throttle.turn(&destination.endpoint, rate, now.age, now.age + last);
        match turn {
            Turn::Taken(turn) => {
                let not_before = now.elapsed + turn.saturating_sub(now.age);
                Some((not_before, knowledge.throttle.at_once(rate)))
            }
            Turn::Later(turn) => {
                let turn = later(now.at, turn.saturating_sub(now.age));
                let put_off = verdict.put_off(retry, now.at, turn);
                case.settle(&put_off, now.at);
                None
            }
        }
    }
}

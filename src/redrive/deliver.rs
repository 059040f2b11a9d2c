//! The retries of a batch: who may go where, whose turn it is, and what came of it.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::case::{Case, Disposition};
use super::resolve::{Resolution, refusal_at_sight, route, subscriptions};
use super::throttle::Turn;
use super::{Redrive, half_of};
use crate::arn::Arn;
use crate::delivery::{CannotPack, Destination, Endpoint, Known, Payload, PendingDelivery, Sent, Time};
use crate::policy::{ArchiveReason, Retry, Route};
use crate::telemetry;

/// A letter with a destination.
struct Ready {
    index: usize,
    retry: Retry,
    destination: Destination,
    not_before: Instant,
    at_once: usize,
}

impl Redrive {
    /// Sends the letters of a round that are due. `begun` is when the first round of the invocation was sent.
    pub(super) async fn deliver(
        &self,
        cases: &mut [Case<'_>],
        round: &[usize],
        until: Instant,
        begun: &mut Option<Instant>,
    ) {
        let due: Vec<(usize, Retry)> = round
            .iter()
            .filter_map(|&index| match cases[index].disposition {
                Disposition::Due(retry) => Some((index, retry)),
                _ => None,
            })
            .collect();
        let due = self.verify(cases, due, until).await;
        let routes = due.iter().filter_map(|(index, _)| route_to_ask(&cases[*index]));
        let known = self.subscriptions.look_up(subscriptions(routes), half_of(until)).await;
        let time = Time::until(until);
        let time = Time { since: *begun.get_or_insert(time.start), ..time };
        let (mut ready, mut waiting) = (Vec::new(), HashMap::new());
        for (index, retry) in due {
            let Some(destination) = self.address(&mut cases[index], retry, &known) else { continue };
            let turn = self.turn(&mut cases[index], retry, &destination, time, &mut waiting);
            let Some((not_before, at_once)) = turn else { continue };
            ready.push(Ready { index, retry, destination, not_before, at_once });
        }
        self.send(cases, &ready, time).await;
    }

    /// Finds the destination of a letter that is due, or settles what becomes of it instead.
    fn address(&self, case: &mut Case<'_>, retry: Retry, known: &HashMap<Arn, Known>) -> Option<Destination> {
        match route(case.verdict.as_ref()?, &case.letter, self.requeue.as_ref(), known) {
            Resolution::Send(destination) => {
                case.target = Some(destination.endpoint.clone());
                Some(destination)
            }
            Resolution::Archive(reason, detail) => {
                case.archive(reason, Some(detail));
                None
            }
            Resolution::Unknown(sent) => {
                case.answered(retry, sent, self.clock.now());
                None
            }
        }
    }

    /// When a letter may go by its rule's throttle policy, and with how many others; one whose turn
    /// comes too late is put off, which is no attempt.
    fn turn(
        &self,
        case: &mut Case<'_>,
        retry: Retry,
        destination: &Destination,
        time: Time,
        waiting: &mut HashMap<Endpoint, u32>,
    ) -> Option<(Instant, usize)> {
        let (start, now) = (Instant::now(), self.clock.now());
        let last = later(now, time.latest_start(&destination.endpoint).saturating_duration_since(start));
        let verdict = case.verdict.as_ref()?;
        let Some(rate) = verdict.delivery.max_receives_per_second else { return Some((start, usize::MAX)) };
        match self.throttle.turn(&destination.endpoint, rate, now, last, waiting) {
            Turn::Taken(turn) => {
                let not_before = start + turn.duration_since(now).unsigned_abs();
                Some((not_before, self.throttle.at_once(rate)))
            }
            Turn::Later(turn) => {
                let put_off = verdict.put_off(retry, now, turn);
                case.settle(&put_off, now);
                None
            }
        }
    }

    async fn send(&self, cases: &mut [Case<'_>], ready: &[Ready], time: Time) {
        let mut sent: Vec<(usize, Retry, (Sent, Duration))> = Vec::new();
        let mut unpackable: Vec<(usize, CannotPack)> = Vec::new();
        {
            let mut payloads = Vec::new();
            for one in ready {
                match Payload::pack(&cases[one.index].letter, &one.destination, one.retry.number) {
                    Ok(payload) => payloads.push((one, payload)),
                    Err(error) => unpackable.push((one.index, error)),
                }
            }
            for (one, _) in payloads.iter().filter(|(_, payload)| payload.is_unmarked()) {
                telemetry::unmarked(&cases[one.index].letter);
            }
            let waiting: Vec<_> = payloads
                .iter()
                .map(|(one, payload)| PendingDelivery {
                    to: &one.destination.endpoint,
                    payload,
                    not_before: one.not_before,
                    at_once: one.at_once,
                })
                .collect();
            let answers = self.dispatcher.deliver_timed(&waiting, time).await;
            sent.extend(
                payloads.iter().zip(answers).map(|((one, _), answer)| (one.index, one.retry, answer)),
            );
        }
        for (index, error) in unpackable {
            let reason = match error {
                CannotPack::Unmarkable(_) => ArchiveReason::Unmarkable,
                CannotPack::NotJson => ArchiveReason::Unrecognised,
            };
            cases[index].archive(reason, Some(error.to_string()));
        }
        let now = self.clock.now();
        for (index, retry, (answer, took)) in sent {
            cases[index].answered(retry, answer, now);
            cases[index].took = cases[index].retry.map(|_| took);
        }
    }
}

fn later(now: Timestamp, by: std::time::Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// The route of a letter about whose subscription SNS must be asked, unless it shows at once that the
/// letter may not go there.
fn route_to_ask<'c>(case: &'c Case<'_>) -> Option<&'c Route> {
    let route = &case.verdict.as_ref()?.route;
    let refused = refusal_at_sight(route, &case.letter, case.letter.dead_letter_queue());
    refused.is_none().then_some(route)
}

//! Where deferred letters wait: hidden, or, when their queue gets full, moved to the requeue.
//!
//! Moving is sending first, and letting Lambda delete afterwards. A letter that the requeue does not
//! take is hidden as ever, so nothing depends on the requeue.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::time::Instant;

use super::Redrive;
use super::case::{Case, Disposition};
use crate::arn::Arn;
use crate::delivery::{Endpoint, OutgoingMessage, Payload, PendingDelivery, Sent, Time};
use crate::policy::{DeferReason, Deferral, Fifo, InFlightEstimate, Place, is_kept, plus, seconds_until};
use crate::telemetry;

/// How crowded the queues are that feed the function: the dead-letter queue and the requeue.
#[derive(Debug)]
pub(super) struct InFlightEstimates {
    limit: u64,
    instances: u32,
    known: Mutex<HashMap<Arn, InFlightEstimate>>,
    /// Of which reading of a queue it was told that it is crowded.
    told: Mutex<HashMap<Arn, Timestamp>>,
}

/// A letter that is to be moved.
struct Moving {
    index: usize,
    deferral: Deferral,
    delay: u64,
}

impl InFlightEstimates {
    pub(super) fn new(limit: u64, instances: u32) -> Self {
        Self { limit, instances, known: Mutex::default(), told: Mutex::default() }
    }

    pub(super) fn of(&self, queue: &Arn) -> InFlightEstimate {
        let known = self.known().get(queue).cloned();
        known.unwrap_or_else(|| InFlightEstimate::new(self.limit, self.instances))
    }

    fn put(&self, queue: &Arn, estimate: InFlightEstimate) {
        self.known().insert(queue.clone(), estimate);
    }

    /// Tells that a queue is crowded and nothing can be moved, once for each reading.
    fn tell(&self, queue: &Arn, estimate: &InFlightEstimate) {
        let Some(read) = estimate.read_at() else { return };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(queue.clone(), read) != Some(read) {
            telemetry::crowded(queue, estimate.in_flight(), self.limit);
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Arn, InFlightEstimate>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Redrive {
    /// Letters of a queue in flight, as far as this instance can tell.
    #[must_use]
    pub fn in_flight(&self, queue: &Arn) -> u64 {
        self.estimate(queue).in_flight()
    }

    /// Decides where the deferred letters of a round wait, and moves those that should not be hidden.
    /// Once the requeue has failed in an invocation it is left alone: `works` says so.
    pub(super) async fn place(
        &self,
        cases: &mut [Case<'_>],
        round: &[usize],
        queue: &Arn,
        until: Instant,
        works: &mut bool,
    ) {
        let deferred: Vec<(usize, Deferral)> = round
            .iter()
            .filter_map(|&index| match cases[index].disposition {
                Disposition::Defer(deferral) => Some((index, deferral)),
                _ => None,
            })
            .collect();
        if deferred.is_empty() {
            return;
        }
        let mut estimate = self.read_estimate(queue, until).await;
        let now = self.clock.now();
        let (mut moving, mut hidden) = (Vec::new(), 0);
        for (index, deferral) in deferred {
            let place = match queue.is_fifo() {
                true if self.steps_aside(&cases[index], &deferral) => Place::Moved { delay: 0 },
                // Nothing can be delayed in a FIFO queue, and order would be lost.
                true => Place::Hidden,
                false => estimate.place(seconds_until(now, deferral.due)),
            };
            match place {
                Place::Moved { delay } => moving.push(Moving { index, deferral, delay }),
                Place::Hidden => {
                    hidden += 1;
                    estimate.hide(u64::from(deferral.hide > 0), now);
                }
            }
        }
        let stay = self.move_away(cases, moving, queue, until, works).await;
        estimate.hide(stay, now);
        if estimate.is_tight() && (stay > 0 || (queue.is_fifo() && hidden > 0)) {
            self.estimates.tell(queue, &estimate);
        }
        self.estimates.put(queue, estimate);
    }

    /// The requeue, if letters of this queue can go there.
    fn requeue_of(&self, queue: &Arn) -> Option<&Arn> {
        self.requeue.as_ref().filter(|requeue| requeue.is_fifo() == queue.is_fifo())
    }

    /// Whether a failing head of a FIFO group makes way for its group. In the requeue it blocks: there
    /// letters of its group only wait that failed too.
    fn steps_aside(&self, case: &Case<'_>, deferral: &Deferral) -> bool {
        let fresh = self.requeue.as_ref() != Some(&case.letter.sqs.queue);
        fresh && case.rule.fifo == Fifo::StepAside && deferral.why == DeferReason::Failed
    }

    /// How many letters of a queue are in flight, by what it said last and was hidden since.
    fn estimate(&self, queue: &Arn) -> InFlightEstimate {
        let mut estimate = self.estimates.of(queue);
        if let Some((in_flight, read)) = self.queues.last_in_flight(queue) {
            estimate.set(in_flight, read);
        }
        estimate
    }

    /// The same; the queue is asked where that has to be known better.
    async fn read_estimate(&self, queue: &Arn, until: Instant) -> InFlightEstimate {
        let estimate = self.estimate(queue);
        // Where nothing can be moved, the reading of the minute will do.
        if !estimate.wants_reading(self.clock.now()) || (queue.is_fifo() || self.requeue_of(queue).is_none())
        {
            return estimate;
        }
        self.queues.read_again(queue, until).await;
        self.estimate(queue)
    }

    /// Moves letters to the requeue; answers how many stay. A letter stays where there is no requeue of
    /// its queue's kind, where the requeue does not take it, or would not keep it as long as it waits.
    async fn move_away(
        &self,
        cases: &mut [Case<'_>],
        moving: Vec<Moving>,
        queue: &Arn,
        until: Instant,
        works: &mut bool,
    ) -> u64 {
        let all = moving.len() as u64;
        let Some(requeue) = self.requeue_of(queue).filter(|_| all > 0 && *works) else { return all };
        let retention = self.queues.look_up([requeue.clone()].into(), until).await;
        let Some(retention) = retention.get(requeue).and_then(|attributes| attributes.retention) else {
            return all;
        };
        let now = self.clock.now();
        // There it must last as long as it would have been hidden here, by its own first arrival.
        let kept = |one: &Moving| {
            let since = cases[one.index].letter.first_arrival().min(now);
            is_kept(since, retention, plus(now, one.deferral.hide.max(one.delay)))
        };
        let moving: Vec<_> = moving.into_iter().filter(kept).collect();
        let (moved, failed) = self.send_to_requeue(cases, &moving, requeue, until).await;
        *works = !failed;
        for one in &moved {
            let deferral = Deferral { hide: one.delay, ..one.deferral };
            cases[one.index].disposition = Disposition::Requeued(deferral);
        }
        all - moved.len() as u64
    }

    /// Sends letters to the requeue; answers which it has taken, and whether it did not take some.
    async fn send_to_requeue<'m>(
        &self,
        cases: &[Case<'_>],
        moving: &'m [Moving],
        requeue: &Arn,
        until: Instant,
    ) -> (Vec<&'m Moving>, bool) {
        let to = Endpoint::Queue(requeue.clone());
        let pack = |one: &'m Moving| {
            let (spent, due) = one.deferral.for_mark();
            let letter = &cases[one.index].letter;
            let mark = letter.mark_for_requeue(spent, due);
            // One that has no room for the mark stays, which costs it nothing but a place.
            let message = OutgoingMessage::for_requeue(letter, &mark, requeue, one.delay).ok()?;
            Some((one, Payload::Message(message)))
        };
        let packed: Vec<_> = moving.iter().filter_map(pack).collect();
        let not_before = Instant::now();
        let waiting: Vec<_> = packed
            .iter()
            .map(|(_, payload)| PendingDelivery { to: &to, payload, not_before, at_once: usize::MAX })
            .collect();
        let answers = self.dispatcher.deliver(&waiting, Time::until(until)).await;
        let failures: Vec<_> = answers
            .iter()
            .filter_map(|sent| match sent {
                Sent::Failed(failure) => Some(failure),
                Sent::Accepted | Sent::Refused(_) | Sent::NotStarted => None,
            })
            .collect();
        if let Some(first) = failures.first() {
            telemetry::requeue_failed(requeue, failures.len(), first);
        }
        let accepted = packed.iter().zip(&answers).filter(|(_, sent)| **sent == Sent::Accepted);
        let accepted: Vec<_> = accepted.map(|((one, _), _)| *one).collect();
        let failed = accepted.len() < packed.len();
        (accepted, failed)
    }
}

//! Where deferred letters wait: hidden, or, when their queue gets full, moved to the requeue.
//!
//! Moving is sending first, and letting Lambda delete afterwards. A letter that the requeue does not
//! take is hidden as ever, so nothing depends on the requeue.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Redrive;
use super::case::{Case, Fate};
use crate::arn::Arn;
use crate::policy::{Crowd, DeferReason, Deferral, Fifo, Place, is_kept, plus, seconds_until};
use crate::target::{Endpoint, Parcel, Sent, Shipment, Time, Waiting};
use crate::telemetry;

/// How crowded the queues are that feed the function: the dead-letter queue and the requeue.
#[derive(Debug)]
pub(super) struct Crowds {
    limit: u64,
    instances: u32,
    known: Mutex<HashMap<Arn, Crowd>>,
}

/// A letter that is to be moved.
struct Moving {
    index: usize,
    deferral: Deferral,
    delay: u64,
}

impl Crowds {
    pub(super) fn new(limit: u64, instances: u32) -> Self {
        Self { limit, instances, known: Mutex::default() }
    }

    pub(super) fn of(&self, queue: &Arn) -> Crowd {
        let known = self.known().get(queue).copied();
        known.unwrap_or_else(|| Crowd::new(self.limit, self.instances))
    }

    fn put(&self, queue: &Arn, crowd: Crowd) {
        self.known().insert(queue.clone(), crowd);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Arn, Crowd>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Redrive {
    /// Letters of a queue in flight, as far as this instance can tell.
    #[must_use]
    pub fn in_flight(&self, queue: &Arn) -> u64 {
        self.crowd(queue).in_flight()
    }

    /// Decides where the deferred letters of a round wait, and moves those that should not be hidden.
    pub(super) async fn place(&self, cases: &mut [Case<'_>], round: &[usize], queue: &Arn, until: Instant) {
        let deferred: Vec<(usize, Deferral)> = round
            .iter()
            .filter_map(|&index| match cases[index].fate {
                Fate::Defer(deferral) => Some((index, deferral)),
                _ => None,
            })
            .collect();
        if deferred.is_empty() {
            return;
        }
        let mut crowd = self.read_crowd(queue, until).await;
        let now = self.clock.now();
        let mut moving = Vec::new();
        for (index, deferral) in deferred {
            let place = match queue.is_fifo() {
                true if self.steps_aside(&cases[index], &deferral) => Place::Moved { delay: 0 },
                // Nothing can be delayed in a FIFO queue, and order would be lost.
                true => Place::Hidden,
                false => crowd.place(seconds_until(now, deferral.due)),
            };
            match place {
                Place::Moved { delay } => moving.push(Moving { index, deferral, delay }),
                Place::Hidden => crowd.hide(u64::from(deferral.hide > 0)),
            }
        }
        let stay = self.move_away(cases, moving, queue, until).await;
        crowd.hide(stay);
        if crowd.is_tight() && (stay > 0 || queue.is_fifo()) {
            telemetry::crowded(queue, crowd.in_flight(), self.crowds.limit);
        }
        self.crowds.put(queue, crowd);
    }

    /// Whether a failing head of a FIFO group makes way for its group. In the requeue it blocks: there
    /// letters of its group only wait that failed too.
    fn steps_aside(&self, case: &Case<'_>, deferral: &Deferral) -> bool {
        let fresh = self.requeue.as_ref() != Some(&case.letter.sqs.queue);
        fresh && case.rule.fifo == Fifo::StepAside && deferral.why == DeferReason::Failed
    }

    /// How many letters of a queue are in flight, by what it said last and was hidden since.
    fn crowd(&self, queue: &Arn) -> Crowd {
        let mut crowd = self.crowds.of(queue);
        if let Some((in_flight, read)) = self.queues.last_in_flight(queue) {
            crowd.set(in_flight, read);
        }
        crowd
    }

    /// The same; the queue is asked where that has to be known better.
    async fn read_crowd(&self, queue: &Arn, until: Instant) -> Crowd {
        let crowd = self.crowd(queue);
        if !crowd.wants_reading(self.clock.now()) {
            return crowd;
        }
        self.queues.read_again(queue, until).await;
        self.crowd(queue)
    }

    /// Moves letters to the requeue; answers how many stay. A letter stays where there is no requeue of
    /// its queue's kind, where the requeue does not take it, or would not keep it as long as it waits.
    async fn move_away(
        &self,
        cases: &mut [Case<'_>],
        moving: Vec<Moving>,
        queue: &Arn,
        until: Instant,
    ) -> u64 {
        let all = moving.len() as u64;
        let requeue = self.requeue.as_ref().filter(|requeue| requeue.is_fifo() == queue.is_fifo());
        let Some(requeue) = requeue.filter(|_| all > 0) else { return all };
        let retention = self.queues.look_up([requeue.clone()].into(), until).await;
        let Some(retention) = retention.get(requeue).and_then(|attributes| attributes.retention) else {
            return all;
        };
        let now = self.clock.now();
        let kept = |one: &Moving| {
            let wait = if requeue.is_fifo() { one.deferral.hide } else { one.delay };
            is_kept(cases[one.index].letter.first_arrival().min(now), retention, plus(now, wait))
        };
        let moving: Vec<_> = moving.into_iter().filter(kept).collect();
        let moved = self.send_to_requeue(cases, &moving, requeue, until).await;
        for one in &moved {
            let deferral = Deferral { hide: one.delay, ..one.deferral };
            cases[one.index].fate = Fate::Requeued(deferral);
        }
        all - moved.len() as u64
    }

    /// Sends letters to the requeue; answers which it has taken.
    async fn send_to_requeue<'m>(
        &self,
        cases: &[Case<'_>],
        moving: &'m [Moving],
        requeue: &Arn,
        until: Instant,
    ) -> Vec<&'m Moving> {
        let to = Endpoint::Queue(requeue.clone());
        let pack = |one: &'m Moving| {
            let (spent, due) = one.deferral.for_mark();
            let letter = &cases[one.index].letter;
            let mark = letter.mark_for_requeue(spent, due);
            // One that has no room for the mark stays, which costs it nothing but a place.
            let parcel = Parcel::for_requeue(letter, &mark, requeue, one.delay).ok()?;
            Some((one, Shipment::Message(parcel)))
        };
        let packed: Vec<_> = moving.iter().filter_map(pack).collect();
        let not_before = Instant::now();
        let waiting: Vec<_> = packed
            .iter()
            .map(|(_, shipment)| Waiting { to: &to, shipment, not_before, at_once: usize::MAX })
            .collect();
        let answers = self.courier.deliver(&waiting, Time::until(until)).await;
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
        accepted.map(|((one, _), _)| *one).collect()
    }
}

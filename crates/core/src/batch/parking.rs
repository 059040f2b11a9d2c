//! The place where deferred letters wait: hidden, or, when their queue gets full, in the requeue.
//!
//! A letter is moved by sending it first and letting Lambda delete it afterwards. A letter that the requeue
//! does not accept is hidden as usual, so nothing depends on the requeue.

use std::time::Duration;

use jiff::Timestamp;

use super::action::{BatchNotice, RequeueMove, SendResult};
use super::config::BatchConfig;
use super::in_flight::{InFlightEstimate, WaitingPlace};
use super::knowledge::InstanceKnowledge;
use super::moment::Moment;
use super::pending_letter::{Disposition, PendingLetter};
use crate::arn::Arn;
use crate::failure::{Failure, FailureClass};
use crate::policy::{DeferReason, Deferral, FifoHandling, is_kept, plus};

/// A letter that is to be moved.
#[derive(Debug)]
pub(super) struct MovingLetter {
    pub(super) index: usize,
    deferral: Deferral,
    delay: u64,
}

/// The deferred letters of a round, while the machine decides where they wait.
#[derive(Debug)]
pub(super) struct DeferredLetters {
    /// The number of letters that will be in flight, because they are hidden for a while.
    in_flight: u64,
    /// The number of letters that stay where they are, without those whose move failed.
    hidden: usize,
    pub(super) moving: Vec<MovingLetter>,
    /// The number of letters that were to be moved.
    to_move: usize,
}

/// Returns the deferred letters of a round.
pub(super) fn deferred(cases: &[PendingLetter<'_>], round: &[usize]) -> Vec<(usize, Deferral)> {
    let deferral = |index: &usize| match cases[*index].disposition {
        Disposition::Defer(deferral) => Some((*index, deferral)),
        _ => None,
    };
    round.iter().filter_map(deferral).collect()
}

impl DeferredLetters {
    /// Decides which of these letters are to be moved.
    pub(super) fn new(
        config: &BatchConfig,
        mut estimate: InFlightEstimate,
        cases: &[PendingLetter<'_>],
        deferred: Vec<(usize, Deferral)>,
        now: Moment,
    ) -> Self {
        let (mut moving, mut hidden, mut in_flight) = (Vec::new(), 0, 0);
        for (index, deferral) in deferred {
            let case = &cases[index];
            let place = match case.letter.sqs.queue.is_fifo() {
                true if steps_aside(config, case, &deferral) => WaitingPlace::Moved { delay: 0 },
                // A FIFO queue cannot delay single messages, and the order would be lost.
                true => WaitingPlace::Hidden,
                false => estimate.place(deferral.wait(now.at)),
            };
            match place {
                WaitingPlace::Moved { delay } => moving.push(MovingLetter { index, deferral, delay }),
                WaitingPlace::Hidden => {
                    hidden += 1;
                    let waits = u64::from(deferral.hide > 0);
                    in_flight += waits;
                    estimate.hide(waits, now.age);
                }
            }
        }
        let to_move = moving.len();
        Self { in_flight, hidden, moving, to_move }
    }

    /// Leaves out letters that the requeue would drop before their wait is over, counted from their own first
    /// arrival.
    pub(super) fn keep_within(&mut self, cases: &[PendingLetter<'_>], retention: u64, now: Timestamp) {
        self.moving.retain(|one| {
            let since = cases[one.index].letter.first_arrival().min(now);
            is_kept(since, retention, plus(now, one.deferral.hide.max(one.delay)))
        });
    }

    /// Returns the moves to make.
    pub(super) fn moves(&self, cases: &[PendingLetter<'_>]) -> Vec<RequeueMove> {
        let one = |one: &MovingLetter| {
            let letter = &cases[one.index].letter;
            let (spent, due) = one.deferral.for_mark();
            RequeueMove {
                letter: letter.clone(),
                mark: letter.mark_for_requeue(spent, due),
                delay: one.delay,
            }
        };
        self.moving.iter().map(one).collect()
    }

    /// Takes over the answers to the moves. Returns whether the requeue accepted all that was sent. A letter
    /// that has no room for the mark stays, which costs nothing but its place in flight.
    pub(super) fn moved(
        &mut self,
        cases: &mut [PendingLetter<'_>],
        answers: Vec<Option<SendResult>>,
        requeue: &Arn,
    ) -> (bool, Option<BatchNotice>) {
        let mut failures: Vec<Failure> = Vec::new();
        let mut works = true;
        for (one, answer) in std::mem::take(&mut self.moving).into_iter().zip(answers) {
            match answer {
                Some(SendResult::Accepted) => {
                    let deferral = Deferral { hide: one.delay, ..one.deferral };
                    cases[one.index].disposition = Disposition::Requeued(deferral);
                    self.to_move -= 1;
                }
                Some(SendResult::Failed(failure)) => {
                    // What it will never take, as a letter that is too large with the mark, says nothing of
                    // others.
                    works &= failure.class == FailureClass::Permanent;
                    failures.push(failure);
                }
                Some(
                    SendResult::Refused(_)
                    | SendResult::NotStarted
                    | SendResult::LeftOut(_)
                    | SendResult::PutOff(_)
                    | SendResult::Withheld,
                ) => {
                    works = false;
                }
                None => {}
            }
        }
        let letters = failures.len();
        let notice = failures.into_iter().next().map(|failure| BatchNotice::RequeueFailed {
            requeue: requeue.clone(),
            letters,
            failure,
        });
        (works, notice)
    }

    /// Takes note of the letters that stay.
    pub(super) fn end(
        self,
        config: &BatchConfig,
        knowledge: &mut InstanceKnowledge,
        queue: &Arn,
        age: Duration,
    ) -> Option<BatchNotice> {
        // The queue may have been read meanwhile.
        let mut estimate = knowledge.estimate(config, queue);
        estimate.hide(self.in_flight + self.to_move as u64, age);
        let tight = estimate.is_tight() && (self.to_move > 0 || (queue.is_fifo() && self.hidden > 0));
        let notice = if tight { knowledge.warn(config, queue, &estimate) } else { None };
        knowledge.estimates.insert(queue.clone(), estimate);
        notice
    }
}

/// Reports whether a failing head of a FIFO group makes way for its group. In the requeue it does not, since
/// all letters of its group that wait there have failed too.
fn steps_aside(config: &BatchConfig, case: &PendingLetter<'_>, deferral: &Deferral) -> bool {
    let fresh = config.requeue.as_ref() != Some(&case.letter.sqs.queue);
    fresh && case.rule.fifo == FifoHandling::StepAside && deferral.why == DeferReason::Failed
}

//! Carries out the actions of the batch machine, each with the part of the program that does it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::signatures::verify;
use crate::archive::{self, Archive};
use crate::arn::Arn;
use crate::batch::{
    Action, Answer, Attempt, Delivery, KnownOverrides, Move, OverridesRead, Purpose, Sent, Window,
};
use crate::clock::Clock;
use crate::control::{Control, List};
use crate::delivery::{Dispatcher, Gate, Hiding, OutgoingMessage, Payload, PendingDelivery, Time, hide};
use crate::lookup::{Queues, Subscriptions};
use crate::signature::Certificates;

/// The parts that carry out the actions of the batch machine.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) archive: Archive,
    pub(super) control: Option<Control>,
    pub(super) sqs: aws_sdk_sqs::Client,
    /// The overrides, if there is a place to read them from.
    pub(super) overrides: Option<Arc<Mutex<KnownOverrides>>>,
    pub(super) dispatcher: Dispatcher,
    pub(super) subscriptions: Subscriptions,
    pub(super) queues: Queues,
    pub(super) certificates: Certificates,
    pub(super) clock: Clock,
}

/// The invocation that an action belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    /// The queue that all of its letters are in.
    pub(super) queue: &'a Arn,
    pub(super) request_id: &'a str,
    pub(super) began: Instant,
}

/// The overrides at the moment when a letter's turn comes.
struct Overrides<'a> {
    known: &'a Option<Arc<Mutex<KnownOverrides>>>,
    clock: &'a Clock,
    letters: Vec<&'a Delivery>,
}

impl Overrides<'_> {
    fn known(&self) -> Option<MutexGuard<'_, KnownOverrides>> {
        Some(self.known.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Gate for Overrides<'_> {
    fn is_shut(&self) -> bool {
        self.known().is_some_and(|known| known.are_old(self.clock.age()))
    }

    fn lets(&self, index: usize) -> bool {
        let (Some(known), Some(one)) = (self.known(), self.letters.get(index)) else { return true };
        known.allow_attempt(&one.letter, one.overridden, self.clock.moment())
    }
}

impl Run<'_> {
    /// Returns the moment at this time after the beginning.
    fn after(&self, elapsed: Duration) -> Instant {
        self.began + elapsed
    }
}

impl Carrier {
    /// Carries out an action and returns its answer.
    pub(super) async fn act(&self, action: Action, run: Run<'_>) -> Answer {
        match action {
            Action::LookUpQueues { queues, suffices, until } => {
                let (known, unread) = self.queues.look_up(queues, suffices, run.after(until)).await;
                Answer::Queues { known, unread }
            }
            Action::LookUpSubscriptions { subscriptions, until } => {
                Answer::Subscriptions(self.subscriptions.look_up(subscriptions, run.after(until)).await)
            }
            Action::Discover { searches, until } => {
                Answer::Discovered(self.subscriptions.discover_all(&searches, run.after(until)).await)
            }
            Action::LookUpSharing { queues } => Answer::Shared(self.subscriptions.newly_shared(queues)),
            Action::Verify { letters, until } => {
                Answer::Verified(verify(&letters, &self.certificates, &self.clock, run.after(until)).await)
            }
            Action::Deliver { deliveries, window } => {
                Answer::Delivered(self.deliver(&deliveries, window, run).await)
            }
            Action::Move { moves, requeue, until } => {
                Answer::Moved(self.send_to_requeue(&moves, &requeue, run.after(until)).await)
            }
            Action::Archive { letters, at, limit, until } => {
                let batch = archive::Batch { request_id: run.request_id, now: at, until: run.after(until) };
                let letters: Vec<_> =
                    letters.iter().map(|(letter, context)| (letter.as_ref(), context)).collect();
                Answer::Archived(self.archive.store(&letters, batch, limit).await)
            }
            Action::Hide { letters, until } => {
                let hidings: Vec<_> = letters
                    .iter()
                    .map(|(letter, seconds)| Hiding {
                        receipt_handle: &letter.sqs.receipt_handle,
                        seconds: *seconds,
                    })
                    .collect();
                Answer::Hidden(hide(&self.sqs, run.queue, &hidings, run.after(until)).await)
            }
            Action::ReadOverrides { unless, until } => Answer::Overrides(match &self.control {
                Some(control) => control.read_overrides(unless, run.after(until)).await,
                None => Ok(OverridesRead::None),
            }),
            Action::ListWaiting { letters, at, until } => Answer::Listed(match &self.control {
                Some(control) => {
                    let Run { queue, request_id, .. } = run;
                    let list = List { queue, request_id, now: at, until: run.after(until) };
                    control.list_waiting(&letters, list).await
                }
                None => Ok(()),
            }),
        }
    }

    /// Packs letters for their destinations and sends them.
    async fn deliver(&self, deliveries: &[Delivery], window: Window, run: Run<'_>) -> Vec<Attempt> {
        let packed: Vec<_> = deliveries
            .iter()
            .map(|one| Payload::pack(&one.letter, &one.destination, one.unmarked, one.retry))
            .collect();
        let pending: Vec<_> = deliveries
            .iter()
            .zip(&packed)
            .filter_map(|(one, payload)| {
                Some(PendingDelivery {
                    to: &one.destination.endpoint,
                    payload: payload.as_ref().ok()?,
                    not_before: run.after(one.not_before),
                    at_once: one.at_once,
                    purpose: Purpose::Retry {
                        last: one.retry.is_last(),
                        overridden: one.overridden,
                        longest: one.longest,
                    },
                })
            })
            .collect();
        let letters = deliveries.iter().zip(&packed).filter(|(_, payload)| payload.is_ok());
        let letters = letters.map(|(one, _)| one).collect();
        let gate = Overrides { known: &self.overrides, clock: &self.clock, letters };
        let time = Time::of(window, run.began);
        let mut sent = self.dispatcher.deliver_timed(&pending, time, &gate).await.into_iter();
        let attempt = |payload: &Result<Payload<'_>, _>| match payload {
            Ok(payload) => {
                let (sent, took) = sent.next().unwrap_or((Sent::NotStarted, Duration::ZERO));
                Attempt { sent: Ok(sent), took, unmarked: payload.is_unmarked() }
            }
            Err(error) => Attempt { sent: Err(*error), took: Duration::ZERO, unmarked: false },
        };
        packed.iter().map(attempt).collect()
    }

    /// Sends letters to the requeue. The answer is `None` for a letter without room for the mark.
    async fn send_to_requeue(&self, moves: &[Move], requeue: &Arn, until: Instant) -> Vec<Option<Sent>> {
        let packed: Vec<_> = moves
            .iter()
            .map(|one| OutgoingMessage::for_requeue(&one.letter, &one.mark, requeue, one.delay).ok())
            .collect();
        let has_room: Vec<_> = packed.iter().map(Option::is_some).collect();
        let messages = packed.into_iter().flatten().collect();
        let mut answers = self.dispatcher.send(requeue, messages, until).await.into_iter();
        has_room.into_iter().map(|has_room| if has_room { answers.next() } else { None }).collect()
    }
}

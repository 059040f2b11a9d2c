//! Carries out the actions of the batch machine, each with the part of the program that does it.

use std::time::Duration;

use tokio::time::Instant;

use super::signatures::verify;
use crate::archive::{self, Archive};
use crate::arn::Arn;
use crate::batch::{Action, Answer, Move, OverridesRead, RequestEnd, RequestResult, SendRequest, Sent};
use crate::clock::Clock;
use crate::control::{Control, List};
use crate::delivery::{Dispatcher, Hiding, OutgoingMessage, Payload, hide};
use crate::failure::{Failure, FailureClass};
use crate::lookup::{Queues, Subscriptions};
use crate::signature::Certificates;

/// The parts that carry out the actions of the batch machine.
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) archive: Archive,
    pub(super) control: Option<Control>,
    pub(super) sqs: aws_sdk_sqs::Client,
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
            Action::Send(request) => Answer::Sent(self.send(&request, run).await),
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

    /// Packs letters for their destination and sends them in one request.
    async fn send(&self, request: &SendRequest, run: Run<'_>) -> RequestResult {
        let SendRequest { to, deliveries, until } = request;
        let pack = deliveries
            .iter()
            .map(|one| Payload::pack(&one.letter, &one.destination, one.unmarked, one.retry));
        // The machine sends only what can be packed.
        let Ok(payloads) = pack.collect::<Result<Vec<_>, _>>() else {
            let failure = Failure::ours(FailureClass::Permanent, "NotBuildable");
            return RequestResult { end: RequestEnd::Failed(failure), took: Duration::ZERO };
        };
        let payloads: Vec<_> = payloads.iter().collect();
        self.dispatcher.request(to, &payloads, run.after(*until)).await
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

//! Carries out the actions of the batch machine, each with the part of the program that does it.

use std::time::Duration;

use redrive_archive::{Archive, ArchiveInvocation};
use redrive_aws::clock::InstanceClock;
use redrive_aws::control::{ControlObjects, ListInvocation};
use redrive_aws::delivery::{DeliveryPayload, Dispatcher, HideRequest, OutgoingMessage, hide};
use redrive_aws::lookup::{QueueReader, SubscriptionReader};
use redrive_aws::signature::CertificateReader;
use redrive_core::arn::Arn;
use redrive_core::batch::{
    Action, ActionAnswer, DocumentRead, DocumentWrite, RequestEnd, RequestResult, RequeueMove, SendRequest,
    SendResult, WaitingKeys,
};
use redrive_core::failure::{Failure, FailureClass};
use tokio::time::Instant;

use super::signatures::verify;

/// The parts that carry out the actions of the batch machine.
#[derive(Debug)]
pub(super) struct ActionCarrier {
    pub(super) archive: Archive,
    pub(super) control: Option<ControlObjects>,
    pub(super) sqs: aws_sdk_sqs::Client,
    pub(super) dispatcher: Dispatcher,
    pub(super) subscriptions: SubscriptionReader,
    pub(super) queues: QueueReader,
    pub(super) certificates: CertificateReader,
    pub(super) clock: InstanceClock,
}

/// The invocation that an action belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActionContext<'a> {
    /// The queue that all of its letters are in.
    pub(super) queue: &'a Arn,
    pub(super) request_id: &'a str,
    pub(super) began: Instant,
}

impl ActionContext<'_> {
    /// Returns the moment at this time after the beginning.
    fn after(&self, elapsed: Duration) -> Instant {
        self.began + elapsed
    }
}

impl ActionCarrier {
    /// Carries out an action and returns its answer.
    pub(super) async fn act(&self, action: Action, run: ActionContext<'_>) -> ActionAnswer {
        match action {
            Action::LookUpQueues { queues, suffices, until } => {
                let (known, unread) = self.queues.look_up(queues, suffices, run.after(until)).await;
                ActionAnswer::Queues { known, unread }
            }
            Action::LookUpSubscriptions { subscriptions, until } => {
                ActionAnswer::Subscriptions(self.subscriptions.look_up(subscriptions, run.after(until)).await)
            }
            Action::Discover { searches, until } => {
                ActionAnswer::Discovered(self.subscriptions.discover_all(&searches, run.after(until)).await)
            }
            Action::LookUpSharing { queues } => ActionAnswer::Shared(self.subscriptions.newly_shared(queues)),
            Action::Verify { letters, until } => ActionAnswer::Verified(
                verify(&letters, &self.certificates, &self.clock, run.after(until)).await,
            ),
            Action::Send(request) => ActionAnswer::Sent(self.send(&request, run).await),
            Action::Move { moves, requeue, until } => {
                ActionAnswer::Moved(self.send_to_requeue(&moves, &requeue, run.after(until)).await)
            }
            Action::Archive { letters, at, limit, until } => {
                let batch =
                    ArchiveInvocation { request_id: run.request_id, now: at, until: run.after(until) };
                let letters: Vec<_> =
                    letters.iter().map(|(letter, context)| (letter.as_ref(), context)).collect();
                ActionAnswer::Archived(self.archive.store(&letters, batch, limit).await)
            }
            Action::Hide { letters, until } => {
                let hidings: Vec<_> = letters
                    .iter()
                    .map(|(letter, seconds)| HideRequest {
                        receipt_handle: &letter.sqs.receipt_handle,
                        seconds: *seconds,
                    })
                    .collect();
                ActionAnswer::Hidden(hide(&self.sqs, run.queue, &hidings, run.after(until)).await)
            }
            Action::ReadOverrides { unless, until } => ActionAnswer::Overrides(match &self.control {
                Some(control) => control.read_overrides(unless, run.after(until)).await,
                None => Ok(DocumentRead::None),
            }),
            Action::ReadRecoveries { unless, until } => ActionAnswer::Recoveries(match &self.control {
                Some(control) => control.read_recoveries(unless, run.after(until)).await,
                None => Ok(DocumentRead::None),
            }),
            Action::WriteRecoveries { json, replaces, until } => ActionAnswer::Written(match &self.control {
                Some(control) => control.write_recoveries(json, replaces, run.after(until)).await,
                None => Ok(DocumentWrite::Conflict),
            }),
            Action::ListWaitingKeys { after, until } => ActionAnswer::WaitingKeys(match &self.control {
                Some(control) => control.list_waiting_keys(run.queue, after, run.after(until)).await,
                None => Ok(WaitingKeys { keys: Vec::new(), last: None, is_cut: false }),
            }),
            Action::ReadWaitingLines { keys, until } => ActionAnswer::WaitingLines(match &self.control {
                Some(control) => control.read_waiting_lines(run.queue, keys, run.after(until)).await,
                None => Ok(Vec::new()),
            }),
            Action::Wake { letters, until } => {
                let shown: Vec<_> = letters
                    .iter()
                    .map(|line| HideRequest { receipt_handle: &line.receipt_handle, seconds: 0 })
                    .collect();
                ActionAnswer::Hidden(hide(&self.sqs, run.queue, &shown, run.after(until)).await)
            }
            Action::ListWaiting { letters, at, until } => ActionAnswer::Listed(match &self.control {
                Some(control) => {
                    let ActionContext { queue, request_id, .. } = run;
                    let list = ListInvocation { queue, request_id, now: at, until: run.after(until) };
                    control.list_waiting(&letters, list).await
                }
                None => Ok(()),
            }),
        }
    }

    /// Packs letters for their destination and sends them in one request.
    async fn send(&self, request: &SendRequest, run: ActionContext<'_>) -> RequestResult {
        let SendRequest { to, deliveries, until } = request;
        let pack = deliveries
            .iter()
            .map(|one| DeliveryPayload::pack(&one.letter, &one.destination, one.unmarked, one.retry));
        // The machine sends only what can be packed.
        let Ok(payloads) = pack.collect::<Result<Vec<_>, _>>() else {
            let failure = Failure::ours(FailureClass::Permanent, "NotBuildable");
            return RequestResult { end: RequestEnd::Failed(failure), took: Duration::ZERO };
        };
        let payloads: Vec<_> = payloads.iter().collect();
        self.dispatcher.request(to, &payloads, run.after(*until)).await
    }

    /// Sends letters to the requeue. The answer is `None` for a letter without room for the mark.
    async fn send_to_requeue(
        &self,
        moves: &[RequeueMove],
        requeue: &Arn,
        until: Instant,
    ) -> Vec<Option<SendResult>> {
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

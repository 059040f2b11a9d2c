//! Carries out the actions of the batch machine.
//!
//! [`Redrive::handle`] gives a batch of letters to the machine of [`redrive_core::batch`], carries out its actions,
//! several at the same time if it asks for several, and passes the answers back, each before it asks for the
//! next action. It makes no decisions.

mod actions;
mod signatures;

use actions::{ActionCarrier, ActionContext};
use futures_util::future::FutureExt;
use jiff::Timestamp;
use redrive_archive::Archive;
use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock;
use redrive_aws::control::ControlObjects;
use redrive_aws::delivery::{AddressReach, Dispatcher, HttpClient};
use redrive_aws::lookup::{QueueReader, SubscriptionReader};
use redrive_aws::signature::CertificateReader;
use redrive_aws::under_way::CallsUnderWay;
use redrive_core::arn::Arn;
use redrive_core::batch::{
    BatchConfig, BatchMachine, BatchNotice, EndpointChange, InvocationNow, LetterReport, OperatingMode,
};
use redrive_core::letter::SqsMessage;
use redrive_core::policy::Policy;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::telemetry;

/// The parts that are needed to handle a batch.
#[derive(Debug)]
pub struct Redrive {
    /// The machine handles one batch at a time.
    machine: Mutex<BatchMachine>,
    carrier: ActionCarrier,
    clock: InstanceClock,
}

/// The parts of a [`Redrive`].
#[derive(Debug)]
pub struct RedriveParts {
    /// The redrive policy.
    pub policy: Policy,
    /// The archive.
    pub archive: Archive,
    /// The location of the overrides, if there is one.
    pub control: Option<ControlObjects>,
    /// `true` if letters that are hidden for a long time are listed there.
    pub waiting_list: bool,
    /// The topic that is told of endpoints that go down or come back, if there is one.
    pub notice_topic: Option<Arn>,
    /// The mode: whether the function acts at all.
    pub mode: OperatingMode,
    /// The time from which the schedules of letters count that arrived before it.
    pub schedule_from: Option<Timestamp>,
    /// The queue for letters that cannot wait in their own queue. Only in this queue is a mark trusted to say
    /// where a letter came from.
    pub requeue: Option<Arn>,
    /// The number of messages in flight that SQS allows in a queue.
    pub in_flight_limit: u64,
    /// The longest time for which a message is hidden at once, in seconds.
    pub ceiling: u64,
    /// The AWS clients.
    pub clients: AwsClients,
    /// SNS's certificates, for rules that verify signatures.
    pub certificates: CertificateReader,
    /// The addresses that HTTP/S posts may reach.
    pub reach: AddressReach,
    /// The number of instances of the function that may run at the same time. They share rate limits.
    pub instances: u32,
    /// The clock.
    pub clock: InstanceClock,
}

/// An invocation of the function.
#[derive(Debug, Clone, Copy)]
pub struct InvocationContext<'a> {
    /// The invocation's request id.
    pub request_id: &'a str,
    /// The time at which Lambda ends it.
    pub deadline: Instant,
}

/// The results of a batch.
#[derive(Debug, Default)]
pub struct BatchResult {
    /// A report for each letter, in the order of the batch.
    pub reports: Vec<LetterReport>,
    /// The number of messages in flight in the queue, as far as this instance knows.
    pub in_flight: Option<u64>,
    /// `true` if the last attempt to read the overrides failed.
    pub overrides_unread: bool,
    /// `true` if the list of waiting letters was not written.
    pub list_failed: bool,
    /// What was seen of endpoints that are down or back.
    pub recovery: RecoveryCounts,
    /// The endpoints of which the topic of notices is to be told.
    pub changes: Vec<EndpointChange>,
    /// `true` if the queue has not told its retention for so long that the default counts.
    pub retention_assumed: bool,
}

/// The endpoints that went down or came back during a batch, and the letters that were woken for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryCounts {
    /// The number of endpoints that went down.
    pub down: u64,
    /// The number of endpoints that came back.
    pub recovered: u64,
    /// The number of letters.
    pub woken: u64,
}

impl RecoveryCounts {
    fn count(&mut self, notice: &BatchNotice) {
        match notice {
            BatchNotice::EndpointDown { .. } => self.down += 1,
            BatchNotice::EndpointRecovered { .. } => self.recovered += 1,
            BatchNotice::LettersWoken { letters, .. } => self.woken += *letters as u64,
            _ => {}
        }
    }
}

impl Redrive {
    /// Connects the parts.
    #[must_use]
    pub fn new(parts: RedriveParts) -> Self {
        let RedriveParts { policy, archive, mode, schedule_from, requeue, in_flight_limit, ceiling, .. } =
            parts;
        let RedriveParts { clients, certificates, reach, instances, clock, control, .. } = parts;
        let RedriveParts { waiting_list, notice_topic, .. } = parts;
        let archive_queue = archive.queue().cloned();
        let (overrides, waiting_list) = (control.is_some(), control.is_some() && waiting_list);
        let config = BatchConfig {
            policy,
            mode,
            requeue,
            archive_queue,
            in_flight_limit,
            ceiling,
            instances,
            schedule_from,
            overrides,
            waiting_list,
            notice_topic,
        };
        let machine = Mutex::new(BatchMachine::new(config));
        let dispatcher = Dispatcher::new(&clients, reach, clock.clone());
        let AwsClients { sns, sqs, .. } = clients;
        let carrier = ActionCarrier {
            archive,
            control,
            dispatcher,
            subscriptions: SubscriptionReader::new(sns, clock.clone()),
            queues: QueueReader::new(sqs.clone(), clock.clone()),
            certificates,
            sqs,
            clock: clock.clone(),
        };
        Self { machine, carrier, clock }
    }

    /// Returns it with another client for web servers.
    #[must_use]
    pub fn with_http(mut self, http: HttpClient) -> Self {
        self.carrier.dispatcher = self.carrier.dispatcher.with_http(http);
        self
    }

    /// Handles a batch. It never fails.
    pub async fn handle(&self, messages: Vec<SqsMessage>, invocation: InvocationContext<'_>) -> BatchResult {
        let Some(queue) = messages.first().map(|message| message.queue.clone()) else {
            return BatchResult::default();
        };
        let mut machine = self.machine.lock().await;
        let began = Instant::now();
        let now = || InvocationNow::of(self.clock.moment(), began.elapsed());
        let letters = messages.into_iter().map(|message| machine.read(message)).collect();
        let deadline = invocation.deadline.saturating_duration_since(began);
        let mut batch = machine.begin(letters, deadline);
        let run = ActionContext { queue: &queue, request_id: invocation.request_id, began };
        let mut under_way = CallsUnderWay::default();
        let (mut list_failed, mut recovery) = (false, RecoveryCounts::default());
        loop {
            let asked = batch.poll(now());
            let asks = !asked.is_empty();
            for (id, action) in asked {
                let call = self.carrier.act(action, run).map(move |answer| (id, answer)).boxed_local();
                for (id, answer) in under_way.begin(call).await {
                    batch.take(id, answer, now());
                }
            }
            for notice in batch.notices() {
                telemetry::notice(&notice);
                list_failed |= matches!(notice, BatchNotice::WaitingListFailed { .. });
                recovery.count(&notice);
            }
            if asks {
                continue;
            }
            let until = batch.next_poll(now()).map(|elapsed| began + elapsed);
            if !batch.is_under_way() || (until.is_none() && under_way.is_empty()) {
                break;
            }
            if let Some((id, answer)) = under_way.next(until).await {
                batch.take(id, answer, now());
            }
        }
        let retention_assumed = batch.assumes_retention();
        let changes = batch.endpoint_changes();
        let reports = batch.into_reports(self.clock.now());
        let in_flight = machine.in_flight(&queue);
        let overrides_unread = machine.overrides_are_unread();
        BatchResult {
            reports,
            in_flight,
            overrides_unread,
            list_failed,
            recovery,
            changes,
            retention_assumed,
        }
    }
}

//! Carrying out what the batch machine asks for.
//!
//! [`Redrive::handle`] gives a batch of letters to the machine of [`crate::batch`], does what it asks, several things at
//! once where it asks so, and hands the answers back. Nothing is decided here.

mod act;
mod signatures;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::archive::Archive;
use crate::arn::Arn;
use crate::batch::{Config, Machine, Mode, Notice, Now, Report};
use crate::clients::Clients;
use crate::clock::Clock;
use crate::control::Control;
use crate::delivery::{Dispatcher, HttpClient, Reach};
use crate::letter::SqsMessage;
use crate::lookup::{Queues, Subscriptions};
use crate::policy::Policy;
use crate::signature::Certificates;
use crate::telemetry;
use act::{Carrier, Run};

/// Everything that handling a batch takes.
#[derive(Debug)]
pub struct Redrive {
    machine: Machine,
    carrier: Carrier,
    clock: Clock,
}

/// The parts of a [`Redrive`].
#[derive(Debug)]
pub struct Parts {
    /// The redrive policy.
    pub policy: Policy,
    /// The archive.
    pub archive: Archive,
    /// The place of orders, where there is one.
    pub control: Option<Control>,
    /// Whether letters that are hidden for long are listed there.
    pub waiting_list: bool,
    /// Whether anything is done at all.
    pub mode: Mode,
    /// The queue for letters that cannot wait in their own; its marks are believed on where a letter came
    /// from.
    pub requeue: Option<Arn>,
    /// Messages in flight that SQS allows in a queue.
    pub in_flight_limit: u64,
    /// The longest that a message is hidden at once, seconds.
    pub ceiling: u64,
    /// The AWS clients.
    pub clients: Clients,
    /// SNS's certificates, for rules that verify signatures.
    pub certificates: Certificates,
    /// Which addresses HTTP/S posts may reach.
    pub reach: Reach,
    /// How many instances of the function may run at once; they share rate limits.
    pub instances: u32,
    /// The time.
    pub clock: Clock,
}

/// One call of the function.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// Lambda's id of it.
    pub request_id: &'a str,
    /// When Lambda ends it.
    pub deadline: Instant,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Handled {
    /// A report of each letter, in the order of the batch.
    pub reports: Vec<Report>,
    /// Whether the orders could not be read when this was last tried.
    pub orders_unread: bool,
    /// Whether the list of waiting letters was not written.
    pub list_failed: bool,
}

impl Redrive {
    /// Joins the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { policy, archive, mode, requeue, in_flight_limit, ceiling, .. } = parts;
        let Parts { clients, certificates, reach, instances, clock, control, waiting_list, .. } = parts;
        let archive_queue = archive.queue().cloned();
        let (orders, waiting_list) = (control.is_some(), control.is_some() && waiting_list);
        let config = Config {
            policy,
            mode,
            requeue,
            archive_queue,
            in_flight_limit,
            ceiling,
            instances,
            orders,
            waiting_list,
        };
        let machine = Machine::new(config);
        let dispatcher = Dispatcher::new(&clients, reach).with_health(machine.health());
        let Clients { sns, sqs, .. } = clients;
        let carrier = Carrier {
            archive,
            orders: control.is_some().then(|| machine.orders()),
            control,
            dispatcher,
            subscriptions: Subscriptions::new(sns, clock.clone()),
            queues: Queues::new(sqs.clone(), clock.clone()),
            certificates,
            sqs,
            clock: clock.clone(),
        };
        Self { machine, carrier, clock }
    }

    /// The same on another way to web servers.
    #[must_use]
    pub fn with_http(mut self, http: HttpClient) -> Self {
        self.carrier.dispatcher = self.carrier.dispatcher.with_http(http);
        self
    }

    /// Letters of a queue in flight, as far as this instance can tell.
    #[must_use]
    pub fn in_flight(&self, queue: &Arn) -> u64 {
        self.machine.in_flight(queue)
    }

    /// Handles a batch. Never fails.
    pub async fn handle(&self, messages: Vec<SqsMessage>, invocation: Invocation<'_>) -> Handled {
        let Some(queue) = messages.first().map(|message| message.queue.clone()) else {
            return Handled::default();
        };
        let began = Instant::now();
        let now = || Now { at: self.clock.now(), elapsed: began.elapsed() };
        let letters = messages.into_iter().map(|message| self.machine.read(message)).collect();
        let deadline = invocation.deadline.saturating_duration_since(began);
        let mut batch = self.machine.begin(letters, deadline);
        let run = Run { queue: &queue, request_id: invocation.request_id, began };
        let mut under_way = FuturesUnordered::new();
        let mut list_failed = false;
        loop {
            for (id, action) in batch.poll(now()) {
                // Boxed, since what is done differs much in size.
                under_way.push(self.carrier.act(action, run).map(move |answer| (id, answer)).boxed_local());
            }
            for notice in batch.notices() {
                telemetry::notice(&notice);
                list_failed |= matches!(notice, Notice::WaitingListFailed { .. });
            }
            if !batch.is_under_way() {
                break;
            }
            let answer = match batch.next_poll(now()) {
                None => under_way.next().await,
                Some(elapsed) => match timeout_at(began + elapsed, under_way.next()).await {
                    Ok(answer) => answer,
                    Err(_) => continue,
                },
            };
            let Some((id, answer)) = answer else { break };
            batch.take(id, answer, now());
        }
        let reports = batch.into_reports(self.clock.now());
        Handled { reports, orders_unread: self.machine.orders_are_unread(), list_failed }
    }
}

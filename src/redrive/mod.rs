//! Carrying out what the batch machine asks for.
//!
//! [`Redrive::handle`] gives a batch of letters to the machine of [`crate::batch`], does what it asks, several things at
//! once where it asks so, and hands the answers back. Nothing is decided here.

mod act;
mod signatures;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use crate::archive::Archive;
use crate::arn::Arn;
use crate::batch::{Config, Machine, Mode, Now, Report};
use crate::clients::Clients;
use crate::clock::Clock;
use crate::delivery::{Dispatcher, Reach};
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

impl Redrive {
    /// Joins the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { policy, archive, mode, requeue, in_flight_limit, ceiling, .. } = parts;
        let Parts { clients, certificates, reach, instances, clock, .. } = parts;
        let dispatcher = Dispatcher::new(&clients, reach);
        let archive_queue = archive.queue().cloned();
        let config = Config { policy, mode, requeue, archive_queue, in_flight_limit, ceiling, instances };
        let Clients { sns, sqs, .. } = clients;
        let carrier = Carrier {
            archive,
            dispatcher,
            subscriptions: Subscriptions::new(sns, clock.clone()),
            queues: Queues::new(sqs.clone(), clock.clone()),
            certificates,
            sqs,
            clock: clock.clone(),
        };
        Self { machine: Machine::new(config), carrier, clock }
    }

    /// The redrive policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.machine.config().policy
    }

    /// Whether anything is done at all.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.machine.config().mode
    }

    /// Letters of a queue in flight, as far as this instance can tell.
    #[must_use]
    pub fn in_flight(&self, queue: &Arn) -> u64 {
        self.machine.in_flight(queue)
    }

    /// Handles a batch; the reports are in its order. Never fails.
    pub async fn handle(&self, messages: Vec<SqsMessage>, invocation: Invocation<'_>) -> Vec<Report> {
        let Some(queue) = messages.first().map(|message| message.queue.clone()) else { return Vec::new() };
        let began = Instant::now();
        let now = || Now { at: self.clock.now(), elapsed: began.elapsed() };
        let letters = messages.into_iter().map(|message| self.machine.read(message)).collect();
        let deadline = invocation.deadline.saturating_duration_since(began);
        let mut batch = self.machine.begin(letters, deadline);
        let run = Run { queue: &queue, request_id: invocation.request_id, began };
        let mut under_way = FuturesUnordered::new();
        loop {
            for (id, action) in batch.poll(now()) {
                // Boxed, since what is done differs much in size.
                under_way.push(self.carrier.act(action, run).map(move |answer| (id, answer)).boxed_local());
            }
            batch.notices().iter().for_each(telemetry::notice);
            let Some((id, answer)) = under_way.next().await else { break };
            batch.take(id, answer, now());
        }
        batch.into_reports(self.clock.now())
    }
}

//! The services of one account, and their effects on each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::call_context::SimContext;
use crate::clock::SimMillis;
use crate::error::{BatchAnswer, Error};
use crate::firehose::Firehose;
use crate::journal::SimEvent;
use crate::lambda::invoke::AsyncStep;
use crate::lambda::{AsyncEvent, Lambda, MAX_PASSES, SimFunction, SimInvocation, passed};
use crate::message::SimEntry;
use crate::s3::S3;
use crate::sns::{PublishAnswer, SimDelivery, Sns};
use crate::sqs::Sqs;
use crate::web::WebServers;

/// The services.
#[derive(Debug, Default)]
pub struct Services {
    /// Queues.
    pub sqs: Sqs,
    /// Topics and subscriptions.
    pub sns: Sns,
    /// Buckets.
    pub s3: S3,
    /// Functions.
    pub lambda: Lambda,
    /// Streams.
    pub firehose: Firehose,
    /// Subscribers' web servers.
    pub web: WebServers,
    due: BTreeMap<(SimMillis, u64), ServiceTask>,
    tasks: u64,
}

/// A task that a service carries out by itself, at its own time.
#[derive(Debug)]
pub(crate) enum ServiceTask {
    /// SNS delivers a message.
    Deliver(Box<SimDelivery>),
    /// Lambda runs an asynchronous event.
    Run(Box<AsyncEvent>),
}

/// The two kinds of failed deliveries of SNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryFailure {
    /// SNS goes on trying.
    Retryable,
    /// SNS gives up at once.
    Permanent,
}

impl Services {
    /// Carries out SNS's `Publish`.
    pub fn publish(
        &mut self,
        cx: &mut SimContext<'_>,
        topic: &str,
        entry: &SimEntry,
    ) -> Result<PublishAnswer, Error> {
        let mut deliveries = Vec::new();
        let published = self.sns.publish(cx, topic, entry, &mut deliveries);
        self.deliver(cx.now, deliveries);
        published
    }

    /// Carries out SNS's `PublishBatch`.
    pub fn publish_batch(
        &mut self,
        cx: &mut SimContext<'_>,
        topic: &str,
        entries: &[SimEntry],
    ) -> Result<BatchAnswer<PublishAnswer>, Error> {
        let mut deliveries = Vec::new();
        let published = self.sns.publish_batch(cx, topic, entries, &mut deliveries);
        self.deliver(cx.now, deliveries);
        published
    }

    fn deliver(&mut self, now: SimMillis, deliveries: Vec<SimDelivery>) {
        for delivery in deliveries {
            self.schedule(now, ServiceTask::Deliver(Box::new(delivery)));
        }
    }

    /// Accepts an asynchronous event of a function that was checked. An event that came too often is stopped:
    /// it goes to the targets of failed events.
    pub(crate) fn accept(
        &mut self,
        cx: &mut SimContext<'_>,
        function: &SimFunction,
        payload: String,
        trace: Option<&str>,
    ) {
        let request_id = cx.id();
        let (trace, passes) = passed(trace, &function.name, || request_id.to_string());
        let invocation = SimInvocation { payload, request_id, trace: Some(trace) };
        let event = AsyncEvent::new(&function.name, invocation, cx.now);
        if passes > MAX_PASSES && !function.settings.allow_loops {
            cx.log(SimEvent::LoopStopped { function: Arc::clone(&function.name) });
            let next = event.give_up(cx.now, function, "RecursiveInvocationDetected", None);
            return self.next(cx, next);
        }
        self.schedule(cx.now, ServiceTask::Run(Box::new(event)));
    }

    /// Carries out Lambda's next step with an asynchronous event.
    pub(crate) fn next(&mut self, cx: &mut SimContext<'_>, next: AsyncStep) {
        match next {
            AsyncStep::Done => {}
            AsyncStep::Again(at, event) => self.schedule(at, ServiceTask::Run(Box::new(event))),
            AsyncStep::GivenUp(letters) => {
                for (queue, letter) in letters {
                    // A message that the queue refuses is lost, as with Lambda.
                    let _ = self.sqs.send_message(cx, &queue, &letter);
                }
            }
        }
    }

    /// Plans a task.
    pub(crate) fn schedule(&mut self, at: SimMillis, task: ServiceTask) {
        self.due.insert((at, self.tasks), task);
        self.tasks += 1;
    }

    /// Returns the time when a service next acts by itself: a delivery, a run, the end of a message's
    /// retention.
    #[must_use]
    pub fn next_due(&self) -> Option<SimMillis> {
        let task = self.due.first_key_value().map(|((at, _), _)| *at);
        task.into_iter().chain(self.sqs.next_expiry()).min()
    }

    /// Removes the next task that is due, after the retention of messages that ends before it.
    pub(crate) fn take_due(&mut self, cx: &mut SimContext<'_>) -> Option<(SimMillis, ServiceTask)> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= cx.now);
        let until = first.as_ref().map_or(cx.now, |first| first.key().0);
        let task = first.map(|first| (first.key().0, first.remove()));
        self.sqs.expire(&mut cx.of("sqs", until));
        task
    }

    /// Settles a delivery: it is done, is tried again once after the time that all retries take, or is given
    /// up.
    pub(crate) fn delivered(
        &mut self,
        cx: &mut SimContext<'_>,
        mut delivery: SimDelivery,
        result: Result<(), DeliveryFailure>,
    ) {
        let subscription: Arc<str> = delivery.subscription.arn.as_str().into();
        let id = Arc::clone(&delivery.message.id);
        match result {
            Ok(()) => cx.log(SimEvent::Delivered { subscription, id }),
            Err(DeliveryFailure::Retryable) if !delivery.is_last => {
                delivery.is_last = true;
                self.schedule(cx.now + self.sns.retries_take, ServiceTask::Deliver(Box::new(delivery)));
            }
            Err(_) => {
                let letter = delivery.message.for_dead_letters(&delivery.subscription);
                let queue = delivery.subscription.dead_letters.as_deref();
                // A message that the queue refuses is lost, as with SNS.
                let queue = queue.filter(|queue| self.sqs.send_message(cx, queue, &letter).is_ok());
                cx.log(SimEvent::GivenUp { subscription, id, queue: queue.map(Arc::from) });
            }
        }
    }
}

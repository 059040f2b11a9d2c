//! The services of one account, and their effects on each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Millis;
use crate::cx::Cx;
use crate::error::{BatchAnswer, Error};
use crate::firehose::Firehose;
use crate::lambda::invoke::Next;
use crate::lambda::{AsyncEvent, Function, Invocation, Lambda, MAX_PASSES, passed};
use crate::ledger::Event;
use crate::message::Entry;
use crate::s3::S3;
use crate::sns::{Delivery, Published, Sns};
use crate::sqs::Sqs;
use crate::web::Web;

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
    pub web: Web,
    due: BTreeMap<(Millis, u64), Task>,
    tasks: u64,
}

/// A task that a service carries out by itself, at its own time.
#[derive(Debug)]
pub(crate) enum Task {
    /// SNS delivers a message.
    Deliver(Box<Delivery>),
    /// Lambda runs an asynchronous event.
    Run(Box<AsyncEvent>),
}

/// The two kinds of failed deliveries of SNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// SNS goes on trying.
    Retryable,
    /// SNS gives up at once.
    Permanent,
}

impl Services {
    /// Carries out SNS's `Publish`.
    pub fn publish(&mut self, cx: &mut Cx<'_>, topic: &str, entry: &Entry) -> Result<Published, Error> {
        let mut deliveries = Vec::new();
        let published = self.sns.publish(cx, topic, entry, &mut deliveries);
        self.deliver(cx.now, deliveries);
        published
    }

    /// Carries out SNS's `PublishBatch`.
    pub fn publish_batch(
        &mut self,
        cx: &mut Cx<'_>,
        topic: &str,
        entries: &[Entry],
    ) -> Result<BatchAnswer<Published>, Error> {
        let mut deliveries = Vec::new();
        let published = self.sns.publish_batch(cx, topic, entries, &mut deliveries);
        self.deliver(cx.now, deliveries);
        published
    }

    fn deliver(&mut self, now: Millis, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            self.schedule(now, Task::Deliver(Box::new(delivery)));
        }
    }

    /// Accepts an asynchronous event of a function that was checked. An event that came too often is stopped:
    /// it goes to the targets of failed events.
    pub(crate) fn accept(
        &mut self,
        cx: &mut Cx<'_>,
        function: &Function,
        payload: String,
        trace: Option<&str>,
    ) {
        let request_id = cx.id();
        let (trace, passes) = passed(trace, &function.name, || request_id.to_string());
        let invocation = Invocation { payload, request_id, trace: Some(trace) };
        let event = AsyncEvent::new(&function.name, invocation, cx.now);
        if passes > MAX_PASSES && !function.settings.allow_loops {
            cx.log(Event::LoopStopped { function: Arc::clone(&function.name) });
            let next = event.give_up(cx.now, function, "RecursiveInvocationDetected", None);
            return self.next(cx, next);
        }
        self.schedule(cx.now, Task::Run(Box::new(event)));
    }

    /// Carries out Lambda's next step with an asynchronous event.
    pub(crate) fn next(&mut self, cx: &mut Cx<'_>, next: Next) {
        match next {
            Next::Done => {}
            Next::Again(at, event) => self.schedule(at, Task::Run(Box::new(event))),
            Next::GivenUp(letters) => {
                for (queue, letter) in letters {
                    // A message that the queue refuses is lost, as with Lambda.
                    let _ = self.sqs.send_message(cx, &queue, &letter);
                }
            }
        }
    }

    /// Plans a task.
    pub(crate) fn schedule(&mut self, at: Millis, task: Task) {
        self.due.insert((at, self.tasks), task);
        self.tasks += 1;
    }

    /// Returns the time when a service next acts by itself: a delivery, a run, the end of a message's
    /// retention.
    #[must_use]
    pub fn next_due(&self) -> Option<Millis> {
        let task = self.due.first_key_value().map(|((at, _), _)| *at);
        task.into_iter().chain(self.sqs.next_expiry()).min()
    }

    /// Removes the next task that is due, after the retention of messages that ends before it.
    pub(crate) fn take_due(&mut self, cx: &mut Cx<'_>) -> Option<(Millis, Task)> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= cx.now);
        let until = first.as_ref().map_or(cx.now, |first| first.key().0);
        let task = first.map(|first| (first.key().0, first.remove()));
        self.sqs.expire(&mut cx.of("sqs", until));
        task
    }

    /// Settles a delivery: it is done, is tried again once after the time that all retries take, or is given
    /// up.
    pub(crate) fn delivered(&mut self, cx: &mut Cx<'_>, mut delivery: Delivery, result: Result<(), Failure>) {
        let subscription: Arc<str> = delivery.subscription.arn.as_str().into();
        let id = Arc::clone(&delivery.message.id);
        match result {
            Ok(()) => cx.log(Event::Delivered { subscription, id }),
            Err(Failure::Retryable) if !delivery.is_last => {
                delivery.is_last = true;
                self.schedule(cx.now + self.sns.retries_take, Task::Deliver(Box::new(delivery)));
            }
            Err(_) => {
                let letter = delivery.message.for_dead_letters(&delivery.subscription);
                let queue = delivery.subscription.dead_letters.as_deref();
                // A message that the queue refuses is lost, as with SNS.
                let queue = queue.filter(|queue| self.sqs.send_message(cx, queue, &letter).is_ok());
                cx.log(Event::GivenUp { subscription, id, queue: queue.map(Arc::from) });
            }
        }
    }
}

//! Makes requests.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use redrive_core::arn::Arn;
use redrive_core::batch::{
    Health, InvocationNow, RequestEnd, RequestPurpose, RequestResult, RoundWindow, SendResult, SendingState,
    UnsentMessage,
};
use redrive_core::endpoint::Endpoint;
use redrive_core::failure::{Failure, FailureClass};
use tokio::time::{Instant, timeout_at};

use super::address_guard::AddressReach;
use super::http::HttpClient;
use super::message::OutgoingMessage;
use super::payload::DeliveryPayload;
use super::{function, queue, stream, topic};
use crate::clients::AwsClients;
use crate::clock::InstanceClock;
use crate::under_way::CallsUnderWay;

/// Makes requests to endpoints of every kind.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    sns: aws_sdk_sns::Client,
    sqs: aws_sdk_sqs::Client,
    lambda: aws_sdk_lambda::Client,
    firehose: aws_sdk_firehose::Client,
    http: Arc<HttpClient>,
    clock: InstanceClock,
}

/// A payload that waits for its turn.
#[derive(Debug, Clone, Copy)]
pub struct PendingDelivery<'a> {
    /// The destination.
    pub to: &'a Endpoint,
    /// The payload, packed for this kind of endpoint.
    pub payload: &'a DeliveryPayload<'a>,
    /// The earliest time at which it may go.
    pub not_before: Instant,
    /// The greatest number of payloads in its request. The service's own limit also applies.
    pub at_once: usize,
    /// The purpose of the delivery.
    pub purpose: RequestPurpose,
}

impl<'a> PendingDelivery<'a> {
    /// Creates a delivery that may go at once, with any number of others.
    #[must_use]
    pub fn now(to: &'a Endpoint, payload: &'a DeliveryPayload<'a>) -> Self {
        Self { to, payload, not_before: Instant::now(), at_once: usize::MAX, purpose: RequestPurpose::Other }
    }

    /// Returns the facts that are needed to divide payloads into requests. Turns are counted from this time.
    fn unsent(&self, since: Instant) -> UnsentMessage<'a> {
        let trace = match (self.to, self.payload) {
            (Endpoint::Topic(_), DeliveryPayload::Message(message)) => topic::trace(message),
            _ => None,
        };
        let Self { to, payload, at_once, purpose, .. } = *self;
        let turn = self.not_before.saturating_duration_since(since);
        UnsentMessage { to, trace, bytes: payload.size(), at_once, waits: payload.waits(), turn, purpose }
    }
}

/// The time for deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryWindow {
    /// The beginning of the invocation's deliveries. A call that waits for its function is the first of the
    /// invocation if no call to this function has begun since then.
    pub since: Instant,
    /// The beginning of this round's deliveries.
    pub start: Instant,
    /// The end of this round's deliveries. Requests still under way are then cut off.
    pub end: Instant,
}

impl DeliveryWindow {
    /// Returns the time from now until `end`.
    #[must_use]
    pub fn until(end: Instant) -> Self {
        let start = Instant::now();
        Self { since: start, start, end }
    }

    /// Converts it to times that are counted from its beginning.
    fn window(self) -> RoundWindow {
        let [start, end] = [self.start, self.end].map(|time| time.saturating_duration_since(self.since));
        RoundWindow { since: Duration::ZERO, start, end }
    }
}

impl Dispatcher {
    /// Creates a dispatcher from these clients.
    #[must_use]
    pub fn new(clients: &AwsClients, reach: AddressReach, clock: InstanceClock) -> Self {
        Self {
            sns: clients.sns.clone(),
            sqs: clients.sqs.clone(),
            lambda: clients.lambda.clone(),
            firehose: clients.firehose.clone(),
            http: Arc::new(HttpClient::new(reach, clock.clone())),
            clock,
        }
    }

    /// Returns the dispatcher with another client for web servers.
    #[must_use]
    pub fn with_http(self, http: HttpClient) -> Self {
        Self { http: Arc::new(http), ..self }
    }

    /// Sends messages to a queue now and returns the result for each, in the same order.
    pub async fn send(
        &self,
        queue: &Arn,
        messages: Vec<OutgoingMessage<'_>>,
        until: Instant,
    ) -> Vec<SendResult> {
        let to = Endpoint::Queue(queue.clone());
        let payloads: Vec<_> = messages.into_iter().map(DeliveryPayload::Message).collect();
        let waiting: Vec<_> = payloads.iter().map(|payload| PendingDelivery::now(&to, payload)).collect();
        self.deliver(&waiting, DeliveryWindow::until(until), &mut Health::default()).await
    }

    /// Sends payloads that no batch decides about, and returns the result for each, in the same order.
    /// [`SendingState`] divides them into requests and says when each begins.
    pub async fn deliver(
        &self,
        waiting: &[PendingDelivery<'_>],
        time: DeliveryWindow,
        health: &mut Health,
    ) -> Vec<SendResult> {
        let unsent: Vec<_> = waiting.iter().map(|one| one.unsent(time.since)).collect();
        let elapsed = || time.since.elapsed();
        let now = InvocationNow::of(self.clock.moment(), elapsed());
        let mut sending = SendingState::new(&unsent, time.window(), now, health);
        let mut under_way = CallsUnderWay::default();
        loop {
            while let Some(next) = sending.poll(elapsed(), health, |_| true) {
                let to = sending.endpoint(next.number).clone();
                let call = async move {
                    let payloads: Vec<_> =
                        next.messages.iter().map(|index| waiting[*index].payload).collect();
                    (next.number, self.request(&to, &payloads, time.since + next.until).await)
                };
                for (number, result) in under_way.begin(call.boxed_local()).await {
                    sending.take(number, result, elapsed(), health);
                }
            }
            let turn = sending.next_turn(elapsed());
            if turn.is_none() && under_way.is_empty() {
                break;
            }
            if let Some((number, result)) = under_way.next(turn.map(|turn| time.since + turn)).await {
                sending.take(number, result, elapsed(), health);
            }
        }
        sending.into_results().into_iter().map(|(sent, _)| sent).collect()
    }

    /// Makes one request, which is cut off at `until`. All of its payloads were packed for this kind of endpoint.
    pub async fn request(
        &self,
        to: &Endpoint,
        payloads: &[&DeliveryPayload<'_>],
        until: Instant,
    ) -> RequestResult {
        let began = Instant::now();
        let end = match timeout_at(until, self.call(to, payloads, until)).await {
            Ok(Ok(sent)) => RequestEnd::Answered(sent),
            Ok(Err(failure)) => RequestEnd::Failed(failure),
            Err(_) => RequestEnd::CutOff,
        };
        RequestResult { end, took: began.elapsed() }
    }

    /// Makes one request, which is cut off at `until`.
    async fn call(
        &self,
        to: &Endpoint,
        payloads: &[&DeliveryPayload<'_>],
        until: Instant,
    ) -> Result<Vec<SendResult>, Failure> {
        let messages = || {
            payloads.iter().filter_map(|payload| match payload {
                DeliveryPayload::Message(message) => Some(message),
                _ => None,
            })
        };
        match (to, payloads) {
            (Endpoint::Topic(topic), _) => {
                topic::publish(&self.sns, topic, &messages().collect::<Vec<_>>()).await
            }
            (Endpoint::Queue(queue), _) => {
                queue::send(&self.sqs, queue, &messages().collect::<Vec<_>>()).await
            }
            (Endpoint::Stream(stream), _) => {
                let records = payloads.iter().filter_map(|payload| match payload {
                    DeliveryPayload::Record(record) => Some(record),
                    _ => None,
                });
                stream::put(&self.firehose, stream, &records.collect::<Vec<_>>()).await
            }
            (Endpoint::Function(function), [DeliveryPayload::Event(event)]) => {
                function::call(&self.lambda, function, event).await.map(|()| vec![SendResult::Accepted])
            }
            (Endpoint::Http(url), [DeliveryPayload::Post(post)]) => {
                Ok(vec![self.http.post(url, post, until).await])
            }
            (Endpoint::Function(_) | Endpoint::Http(_), _) => {
                Err(Failure::ours(FailureClass::Permanent, "NotBuildable"))
            }
        }
    }
}

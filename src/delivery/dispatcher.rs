//! Makes requests.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::time::{Instant, timeout_at};

use super::guard::Reach;
use super::http::HttpClient;
use super::message::OutgoingMessage;
use super::payload::Payload;
use super::{function, queue, stream, topic};
use crate::arn::Arn;
use crate::batch::{Health, Now, Purpose, RequestEnd, RequestResult, Sending, Sent, Unsent, Window};
use crate::clients::Clients;
use crate::clock::Clock;
use crate::endpoint::Endpoint;
use crate::failure::{Failure, FailureClass};
use crate::under_way::UnderWay;

/// Makes requests to endpoints of every kind.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    sns: aws_sdk_sns::Client,
    sqs: aws_sdk_sqs::Client,
    lambda: aws_sdk_lambda::Client,
    firehose: aws_sdk_firehose::Client,
    http: Arc<HttpClient>,
    clock: Clock,
}

/// A payload that waits for its turn.
#[derive(Debug, Clone, Copy)]
pub struct PendingDelivery<'a> {
    /// The destination.
    pub to: &'a Endpoint,
    /// The payload, packed for this kind of endpoint.
    pub payload: &'a Payload<'a>,
    /// The earliest time at which it may go.
    pub not_before: Instant,
    /// The greatest number of payloads in its request. The service's own limit also applies.
    pub at_once: usize,
    /// The purpose of the delivery.
    pub purpose: Purpose,
}

impl<'a> PendingDelivery<'a> {
    /// Creates a delivery that may go at once, with any number of others.
    #[must_use]
    pub fn now(to: &'a Endpoint, payload: &'a Payload<'a>) -> Self {
        Self { to, payload, not_before: Instant::now(), at_once: usize::MAX, purpose: Purpose::Other }
    }

    /// Returns the facts that are needed to divide payloads into requests. Turns are counted from this time.
    fn unsent(&self, since: Instant) -> Unsent<'a> {
        let trace = match (self.to, self.payload) {
            (Endpoint::Topic(_), Payload::Message(message)) => topic::trace(message),
            _ => None,
        };
        let Self { to, payload, at_once, purpose, .. } = *self;
        let turn = self.not_before.saturating_duration_since(since);
        Unsent { to, trace, bytes: payload.size(), at_once, waits: payload.waits(), turn, purpose }
    }
}

/// The time for deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// The beginning of the invocation's deliveries. A call that waits for its function is the first of the
    /// invocation if no call to this function has begun since then.
    pub since: Instant,
    /// The beginning of this round's deliveries.
    pub start: Instant,
    /// The end of this round's deliveries. Requests still under way are then cut off.
    pub end: Instant,
}

impl Time {
    /// Returns the time from now until `end`.
    #[must_use]
    pub fn until(end: Instant) -> Self {
        let start = Instant::now();
        Self { since: start, start, end }
    }

    /// Converts it to times that are counted from its beginning.
    fn window(self) -> Window {
        let [start, end] = [self.start, self.end].map(|time| time.saturating_duration_since(self.since));
        Window { since: Duration::ZERO, start, end }
    }
}

impl Dispatcher {
    /// Creates a dispatcher from these clients.
    #[must_use]
    pub fn new(clients: &Clients, reach: Reach, clock: Clock) -> Self {
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
    pub async fn send(&self, queue: &Arn, messages: Vec<OutgoingMessage<'_>>, until: Instant) -> Vec<Sent> {
        let to = Endpoint::Queue(queue.clone());
        let payloads: Vec<_> = messages.into_iter().map(Payload::Message).collect();
        let waiting: Vec<_> = payloads.iter().map(|payload| PendingDelivery::now(&to, payload)).collect();
        self.deliver(&waiting, Time::until(until), &mut Health::default()).await
    }

    /// Sends payloads that no batch decides about, and returns the result for each, in the same order.
    /// [`Sending`] divides them into requests and says when each begins.
    pub async fn deliver(
        &self,
        waiting: &[PendingDelivery<'_>],
        time: Time,
        health: &mut Health,
    ) -> Vec<Sent> {
        let unsent: Vec<_> = waiting.iter().map(|one| one.unsent(time.since)).collect();
        let elapsed = || time.since.elapsed();
        let now = Now::of(self.clock.moment(), elapsed());
        let mut sending = Sending::new(&unsent, time.window(), now, health);
        let mut under_way = UnderWay::new();
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
    pub async fn request(&self, to: &Endpoint, payloads: &[&Payload<'_>], until: Instant) -> RequestResult {
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
        payloads: &[&Payload<'_>],
        until: Instant,
    ) -> Result<Vec<Sent>, Failure> {
        let messages = || {
            payloads.iter().filter_map(|payload| match payload {
                Payload::Message(message) => Some(message),
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
                    Payload::Record(record) => Some(record),
                    _ => None,
                });
                stream::put(&self.firehose, stream, &records.collect::<Vec<_>>()).await
            }
            (Endpoint::Function(function), [Payload::Event(event)]) => {
                function::call(&self.lambda, function, event).await.map(|()| vec![Sent::Accepted])
            }
            (Endpoint::Http(url), [Payload::Post(post)]) => Ok(vec![self.http.post(url, post, until).await]),
            (Endpoint::Function(_) | Endpoint::Http(_), _) => {
                Err(Failure::ours(FailureClass::Permanent, "NotBuildable"))
            }
        }
    }
}

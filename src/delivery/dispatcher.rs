//! Sends payloads: many per request, and several requests at the same time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{FutureExt, poll_immediate};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::guard::Reach;
use super::http::HttpClient;
use super::message::OutgoingMessage;
use super::payload::Payload;
use super::{function, queue, stream, topic};
use crate::arn::Arn;
use crate::batch::{Begin, Dispatch, Ended, Health, Purpose, Request, Sent, Unsent, Window, requests};
use crate::clients::{Clients, too_late};
use crate::clock::{Ages, Clock};
use crate::endpoint::Endpoint;
use crate::failure::{FUNCTION_ERROR, Failure, FailureClass};

/// Sends payloads to their endpoints.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    sns: aws_sdk_sns::Client,
    sqs: aws_sdk_sqs::Client,
    lambda: aws_sdk_lambda::Client,
    firehose: aws_sdk_firehose::Client,
    http: Arc<HttpClient>,
    health: Arc<Mutex<Health>>,
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

    /// Returns the facts that are needed to divide payloads into requests.
    fn unsent(&self) -> Unsent<'a> {
        let trace = match (self.to, self.payload) {
            (Endpoint::Topic(_), Payload::Message(message)) => topic::trace(message),
            _ => None,
        };
        let Self { to, payload, at_once, purpose, .. } = *self;
        Unsent { to, trace, bytes: payload.size(), at_once, purpose }
    }
}

/// A last check of payloads, just before their request begins.
pub trait Gate {
    /// Reports whether no request may begin at the moment.
    fn is_shut(&self) -> bool;

    /// Reports whether the payload at this index may still go.
    fn lets(&self, index: usize) -> bool;
}

/// A gate that lets everything go.
impl Gate for () {
    fn is_shut(&self) -> bool {
        false
    }

    fn lets(&self, _: usize) -> bool {
        true
    }
}

/// The time after which a gate that was shut is checked again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

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

    /// Converts a window whose moments are counted from `began`.
    #[must_use]
    pub fn of(window: Window, began: Instant) -> Self {
        let Window { since, start, end } = window;
        Self { since: began + since, start: began + start, end: began + end }
    }

    /// Converts it to a window of ages.
    fn window(self, ages: Ages) -> Window {
        let Self { since, start, end } = self;
        let [since, start, end] = [since, start, end].map(|moment| ages.at(moment));
        Window { since, start, end }
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
            health: Arc::default(),
            clock,
        }
    }

    /// Returns the dispatcher with this knowledge of endpoints.
    #[must_use]
    pub fn with_health(self, health: Arc<Mutex<Health>>) -> Self {
        Self { health, ..self }
    }

    /// Returns the dispatcher with another client for web servers.
    #[must_use]
    pub fn with_http(self, http: HttpClient) -> Self {
        Self { http: Arc::new(http), ..self }
    }

    /// Sends every payload to its endpoint and returns the result for each, in the same order.
    ///
    /// Payloads for one endpoint (and, for topics, of one trace) share requests if the service has batches,
    /// and keep their order within them. A request waits for the last turn of its payloads. [`Dispatch`]
    /// decides when each request begins. A request still under way at the end counts as timed out. If a
    /// service refuses a whole request because of its content, its payloads are sent again one by one, so
    /// that one bad letter does not fail the others.
    pub async fn deliver(&self, waiting: &[PendingDelivery<'_>], time: Time) -> Vec<Sent> {
        self.deliver_timed(waiting, time, &()).await.into_iter().map(|(sent, _)| sent).collect()
    }

    /// Sends messages to a queue now and returns the result for each, in the same order.
    pub async fn send(&self, queue: &Arn, messages: Vec<OutgoingMessage<'_>>, until: Instant) -> Vec<Sent> {
        let to = Endpoint::Queue(queue.clone());
        let payloads: Vec<_> = messages.into_iter().map(Payload::Message).collect();
        let waiting: Vec<_> = payloads.iter().map(|payload| PendingDelivery::now(&to, payload)).collect();
        self.deliver(&waiting, Time::until(until)).await
    }

    /// Delivers payloads when their turn comes and the gate lets them go. Each result comes with the duration
    /// of its request, which may be shared with other payloads.
    pub async fn deliver_timed(
        &self,
        waiting: &[PendingDelivery<'_>],
        time: Time,
        gate: &dyn Gate,
    ) -> Vec<(Sent, Duration)> {
        // The runtime looks at its sockets first: a connection that a server has closed is not used again.
        yield_now().await;
        let unsent: Vec<_> = waiting.iter().map(PendingDelivery::unsent).collect();
        let mut requests = requests(&unsent, &self.health());
        let ages = Ages::now(&self.clock);
        let age = || ages.at(Instant::now());
        let mut dispatch = dispatch(waiting, &requests, time, ages);
        let mut sent = vec![(Sent::NotStarted, Duration::ZERO); waiting.len()];
        let mut under_way = FuturesUnordered::new();
        let mut left_out: Vec<usize> = Vec::new();
        loop {
            let now = age();
            let is_shut = gate.is_shut();
            let goes = |request: usize| {
                let letters: &mut Vec<usize> = &mut requests[request];
                letters.retain(|index| {
                    let goes = gate.lets(*index);
                    if !goes {
                        sent[*index] = (Sent::Withheld, Duration::ZERO);
                    }
                    goes
                });
                !letters.is_empty()
            };
            let begun = if is_shut { None } else { dispatch.poll(now, &mut self.health(), goes) };
            let mut all_ended = Vec::new();
            match begun {
                Some((request, Begin::Now(limit))) => {
                    let payloads = requests[request].iter().map(|index| (*index, waiting[*index])).collect();
                    let answers = self.request(payloads, time, limit, ages, gate);
                    // Boxed, so that waiting futures take little room.
                    under_way.push(answers.map(move |answers| (request, answers)).boxed_local());
                    // The request goes out, and answers come in, before the next request is made. Else the
                    // first would leave when the last is made.
                    while let Some(Some(ended)) = poll_immediate(under_way.next()).await {
                        all_ended.push(ended);
                    }
                    yield_now().await;
                }
                Some((request, Begin::LeftOut)) => {
                    left_out.extend(&requests[request]);
                    continue;
                }
                Some((_, Begin::TooLate | Begin::Withheld)) => continue,
                None => {
                    let turn = if is_shut { Some(now + LOOK_AGAIN) } else { dispatch.next_turn(now) };
                    let turn = turn.map(|turn| ages.moment(turn));
                    let ended = match turn {
                        None => under_way.next().await,
                        Some(turn) if under_way.is_empty() => {
                            sleep_until(turn).await;
                            continue;
                        }
                        Some(turn) => match timeout_at(turn, under_way.next()).await {
                            Ok(ended) => ended,
                            Err(_) => continue,
                        },
                    };
                    let Some(ended) = ended else { break };
                    all_ended.push(ended);
                }
            }
            for (request, (answers, took)) in all_ended {
                dispatch.ended(request, &answers, age(), &mut self.health());
                for (index, answer) in requests[request].iter().zip(answers) {
                    sent[*index] = (answer, took);
                }
            }
        }
        let (mut health, now) = (self.health(), age());
        left_out.sort_unstable();
        for index in left_out {
            let PendingDelivery { to, purpose, .. } = waiting[index];
            sent[index] = (Sent::LeftOut(health.wait(to, purpose, now)), Duration::ZERO);
        }
        sent
    }

    /// Makes one request. If the service refuses all of it because of its content, each payload is sent
    /// alone.
    async fn request(
        &self,
        waiting: Vec<(usize, PendingDelivery<'_>)>,
        time: Time,
        limit: Option<Duration>,
        ages: Ages,
        gate: &dyn Gate,
    ) -> (Vec<Sent>, Duration) {
        let began = Instant::now();
        let Some(to) = waiting.first().map(|(_, one)| one.to) else { return (Vec::new(), Duration::ZERO) };
        let payloads: Vec<_> = waiting.iter().map(|(_, one)| one.payload).collect();
        let mut answers = self.request_once(to, &payloads, time, limit, ages).await;
        let content = |sent: &Sent| matches!(sent, Sent::Failed(failure) if failure.may_be_content());
        if answers.refused_whole && payloads.len() > 1 && answers.sent.iter().all(content) {
            answers.sent.clear();
            let latest = time.window(ages).latest_start(to);
            for (index, one) in &waiting {
                let in_time = ages.at(Instant::now()) < latest && !gate.is_shut();
                answers.sent.extend(if !in_time {
                    vec![Sent::NotStarted]
                } else if !gate.lets(*index) {
                    vec![Sent::Withheld]
                } else {
                    self.request_once(to, &[one.payload], time, None, ages).await.sent
                });
            }
        }
        (answers.sent, began.elapsed())
    }

    async fn request_once(
        &self,
        to: &Endpoint,
        payloads: &[&Payload<'_>],
        time: Time,
        limit: Option<Duration>,
        ages: Ages,
    ) -> Answers {
        let began = Instant::now();
        let end = limit.map_or(time.end, |limit| time.end.min(began + limit));
        let answer = timeout_at(end, self.call(to, payloads, end)).await;
        if let Some(function) = waits_for(to, payloads) {
            let how = match &answer {
                Ok(Ok(_)) => Ended::Ran,
                Ok(Err(failure))
                    if [FUNCTION_ERROR, function::TIMED_OUT].contains(&failure.code.as_str()) =>
                {
                    Ended::Ran
                }
                Ok(Err(_)) => Ended::Unknown,
                Err(_) => Ended::CutOff,
            };
            self.health().calls.ended(function, began.elapsed(), how, ages.at(Instant::now()));
        }
        match answer {
            Ok(Ok(sent)) => Answers { sent, refused_whole: false },
            Ok(Err(failure)) => Answers::all(payloads.len(), &Sent::Failed(failure), true),
            Err(_) => {
                let timeout = || Failure::ours(FailureClass::Transient, "Timeout");
                let failure = if end < time.end { timeout() } else { too_late() };
                Answers::all(payloads.len(), &Sent::Failed(failure), false)
            }
        }
    }

    /// Locks the knowledge of endpoints. No code panics while holding this lock, but if it were poisoned, the
    /// function must go on.
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one request, which is cut off at `end`. All of its payloads were packed for this kind of endpoint.
    async fn call(
        &self,
        to: &Endpoint,
        payloads: &[&Payload<'_>],
        end: Instant,
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
            (Endpoint::Http(url), [Payload::Post(post)]) => Ok(vec![self.http.post(url, post, end).await]),
            (Endpoint::Function(_) | Endpoint::Http(_), _) => {
                Err(Failure::ours(FailureClass::Permanent, "NotBuildable"))
            }
        }
    }
}

/// Prepares the decision on when each of these requests begins.
fn dispatch(waiting: &[PendingDelivery<'_>], requests: &[Vec<usize>], time: Time, ages: Ages) -> Dispatch {
    let request = |indexes: &Vec<usize>| {
        let all = indexes.iter().map(|index| &waiting[*index]);
        let turn = all.clone().map(|one| one.not_before).max()?;
        let first = all.clone().next()?;
        let purpose = all.map(|one| one.purpose).max()?;
        Some(Request { to: first.to.clone(), turn: ages.at(turn), waits: first.payload.waits(), purpose })
    };
    let requests = requests.iter().filter_map(request).collect();
    Dispatch::new(requests, time.window(ages), ages.at(Instant::now()))
}

/// The answers to one request.
struct Answers {
    sent: Vec<Sent>,
    refused_whole: bool,
}

impl Answers {
    fn all(count: usize, sent: &Sent, refused_whole: bool) -> Self {
        Self { sent: vec![sent.clone(); count], refused_whole }
    }
}

/// Returns the function that a request waits for, if it does.
fn waits_for<'a>(to: &'a Endpoint, payloads: &[&Payload<'_>]) -> Option<&'a Arn> {
    let (Endpoint::Function(function), [payload]) = (to, payloads) else { return None };
    payload.waits().then_some(function)
}

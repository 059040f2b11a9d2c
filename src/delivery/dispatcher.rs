//! Sends payloads: many in few requests, several requests at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::calls::{self, CONCURRENT_SINGLES, CallTimes, Ended};
use super::guard::Reach;
use super::http::HttpClient;
use super::packing::{CONCURRENT_REQUESTS, MAX_ENTRIES, runs};
use super::payload::Payload;
use super::{function, queue, stream, topic};
use crate::arn::Arn;
use crate::batch::{Sent, Window};
use crate::clients::Clients;
use crate::endpoint::Endpoint;
use crate::failure::{Failure, FailureClass};

/// Sends payloads to their endpoints.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    sns: aws_sdk_sns::Client,
    sqs: aws_sdk_sqs::Client,
    lambda: aws_sdk_lambda::Client,
    firehose: aws_sdk_firehose::Client,
    http: Arc<HttpClient>,
    call_times: Arc<CallTimes>,
}

/// A payload that waits for its turn.
#[derive(Debug, Clone, Copy)]
pub struct PendingDelivery<'a> {
    /// Where it goes.
    pub to: &'a Endpoint,
    /// What is sent, packed for this kind of endpoint.
    pub payload: &'a Payload<'a>,
    /// Its turn.
    pub not_before: Instant,
    /// How many may go in one request with it; the service's own limit holds as well.
    pub at_once: usize,
}

impl<'a> PendingDelivery<'a> {
    /// A payload that may go at once, with any number of others.
    #[must_use]
    pub fn now(to: &'a Endpoint, payload: &'a Payload<'a>) -> Self {
        Self { to, payload, not_before: Instant::now(), at_once: usize::MAX }
    }
}

/// The time for deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// When the deliveries of the invocation began. A call that waits for its function is the first of the invocation
    /// where none to this function has begun since.
    pub since: Instant,
    /// When those of this round begin.
    pub start: Instant,
    /// When they must have ended: what is under way then is cut off.
    pub end: Instant,
}

impl Time {
    /// From now until `end`.
    #[must_use]
    pub fn until(end: Instant) -> Self {
        let start = Instant::now();
        Self { since: start, start, end }
    }

    /// The same for a window that is counted from `began`.
    #[must_use]
    pub fn of(window: Window, began: Instant) -> Self {
        let Window { since, start, end } = window;
        Self { since: began + since, start: began + start, end: began + end }
    }

    /// The last moment to begin a request, as [`Window::latest_start`] has it.
    #[must_use]
    pub fn latest_start(&self, to: &Endpoint) -> Instant {
        let end = self.end.saturating_duration_since(self.start);
        let window = Window { since: Duration::ZERO, start: Duration::ZERO, end };
        self.start + window.latest_start(to)
    }
}

impl Dispatcher {
    /// A dispatcher on these clients.
    #[must_use]
    pub fn new(clients: &Clients, reach: Reach) -> Self {
        Self {
            sns: clients.sns.clone(),
            sqs: clients.sqs.clone(),
            lambda: clients.lambda.clone(),
            firehose: clients.firehose.clone(),
            http: Arc::new(HttpClient::new(reach)),
            call_times: Arc::default(),
        }
    }

    /// Sends every payload to its endpoint and says what became of each, in the same order.
    ///
    /// Shipments for one endpoint (and, towards topics, of one trace) share requests where the service has
    /// batches, and keep their order within them; a request waits for the last turn of its payloads. None begins
    /// later than [`Time::latest_start`], and a call that waits for its function only if it is likely to end in time;
    /// one that is under way at the end counts as timed out. What a service refuses as a whole for reasons
    /// of its content is sent again one by one, so that one bad letter does not take its neighbours
    /// along.
    pub async fn deliver(&self, waiting: &[PendingDelivery<'_>], time: Time) -> Vec<Sent> {
        self.deliver_timed(waiting, time).await.into_iter().map(|(sent, _)| sent).collect()
    }

    /// The same, with how long each took: the time of its request, which it may share.
    pub async fn deliver_timed(&self, waiting: &[PendingDelivery<'_>], time: Time) -> Vec<(Sent, Duration)> {
        let mut together: BTreeMap<(&Endpoint, Option<&str>), Vec<usize>> = BTreeMap::new();
        for (index, PendingDelivery { to, payload, .. }) in waiting.iter().enumerate() {
            let trace = match (to, payload) {
                (Endpoint::Topic(_), Payload::Message(message)) => topic::trace(message),
                _ => None,
            };
            together.entry((to, trace)).or_default().push(index);
        }
        let requests = together.into_iter().flat_map(|((to, _), indexes)| {
            let sizes: Vec<_> = indexes.iter().map(|index| waiting[*index].payload.size()).collect();
            let (entries, bytes) = request_limits(to);
            let at_once = indexes.iter().map(|index| waiting[*index].at_once).min().unwrap_or(entries);
            let runs = runs(&sizes, entries.min(at_once), bytes);
            runs.into_iter().map(move |run| (to, indexes[run].to_vec()))
        });
        let singles = waiting.iter().filter(|one| goes_alone(one.to)).count();
        let share = calls::share(time.end.saturating_duration_since(Instant::now()), singles);
        // Only requests whose turn has come hold a place among those under way.
        let (places, singles) = (Semaphore::new(CONCURRENT_REQUESTS), Semaphore::new(CONCURRENT_SINGLES));
        let under_way: FuturesUnordered<_> = requests
            .map(|(to, indexes)| {
                let (places, singles) = (&places, goes_alone(to).then_some(&singles));
                async move {
                    let turn =
                        indexes.iter().map(|index| waiting[*index].not_before).max().unwrap_or(time.end);
                    sleep_until(turn).await;
                    // The semaphores are never closed.
                    let _single = match singles {
                        Some(singles) => Some(singles.acquire().await),
                        None => None,
                    };
                    let _place = places.acquire().await;
                    let request: Vec<_> = indexes.iter().map(|index| waiting[*index].payload).collect();
                    let began = Instant::now();
                    // Boxed, so that those who wait take no more room than a turn and a place.
                    let answers = self.request(to, &request, time, share).boxed_local().await;
                    let took = began.elapsed();
                    let answers = answers.into_iter().map(|sent| (sent, took));
                    indexes.into_iter().zip(answers).collect::<Vec<_>>()
                }
            })
            .collect();
        let answers: Vec<_> = under_way.collect().await;

        let mut sent = vec![(Sent::NotStarted, Duration::ZERO); waiting.len()];
        for (index, answer) in answers.into_iter().flatten() {
            sent[index] = answer;
        }
        sent
    }

    async fn request(
        &self,
        to: &Endpoint,
        payloads: &[&Payload<'_>],
        time: Time,
        share: Duration,
    ) -> Vec<Sent> {
        let mut answers = self.request_once(to, payloads, time, share).await;
        let content =
            |sent: &Sent| matches!(sent, Sent::Failed(failure) if failure.class == FailureClass::Permanent);
        if answers.refused_whole && payloads.len() > 1 && answers.sent.iter().all(content) {
            answers.sent.clear();
            for payload in payloads {
                answers.sent.extend(self.request_once(to, &[payload], time, share).await.sent);
            }
        }
        answers.sent
    }

    async fn request_once(
        &self,
        to: &Endpoint,
        payloads: &[&Payload<'_>],
        time: Time,
        share: Duration,
    ) -> Answers {
        let began = Instant::now();
        let waits_for = waits_for(to, payloads);
        // A round that is late has half of its own time for calls that are short. One that waits for its function may
        // take as long as the round before.
        let start = waits_for.map_or(time.start, |_| time.since);
        let fits = |function| self.call_times.begin(function, began, (time.since, time.end), share);
        if began >= (Time { start, ..time }).latest_start(to)
            || waits_for.is_some_and(|function| !fits(function))
        {
            return Answers::all(payloads.len(), &Sent::NotStarted, false);
        }
        let answer = timeout_at(time.end, self.call(to, payloads)).await;
        if let Some(function) = waits_for {
            let how = match &answer {
                Ok(Ok(_)) => Ended::Ran,
                Ok(Err(failure)) if failure.code == function::FAILED => Ended::Ran,
                Ok(Err(_)) => Ended::Unknown,
                Err(_) => Ended::CutOff,
            };
            self.call_times.ended(function, began.elapsed(), how, Instant::now());
        }
        match answer {
            Ok(Ok(sent)) => Answers { sent, refused_whole: false },
            Ok(Err(failure)) => Answers::all(payloads.len(), &Sent::Failed(failure), true),
            Err(_) => {
                let timeout = Failure::ours(FailureClass::Transient, "DeadlineExceeded");
                Answers::all(payloads.len(), &Sent::Failed(timeout), false)
            }
        }
    }

    /// One request, all of whose payloads were packed for this kind of endpoint.
    async fn call(&self, to: &Endpoint, payloads: &[&Payload<'_>]) -> Result<Vec<Sent>, Failure> {
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
            (Endpoint::Http(url), [Payload::Post(post)]) => Ok(vec![self.http.post(url, post).await]),
            (Endpoint::Function(_) | Endpoint::Http(_), _) => {
                Err(Failure::ours(FailureClass::Permanent, "NotBuildable"))
            }
        }
    }
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

/// Whether each letter for it is a request of its own.
fn goes_alone(to: &Endpoint) -> bool {
    match to {
        Endpoint::Function(_) | Endpoint::Http(_) => true,
        Endpoint::Topic(_) | Endpoint::Queue(_) | Endpoint::Stream(_) => false,
    }
}

/// The function that a request waits for, where it does.
fn waits_for<'a>(to: &'a Endpoint, payloads: &[&Payload<'_>]) -> Option<&'a Arn> {
    let (Endpoint::Function(function), [Payload::Event(event)]) = (to, payloads) else { return None };
    event.synchronous.then_some(function)
}

/// Entries and bytes of one request.
fn request_limits(to: &Endpoint) -> (usize, usize) {
    match to {
        Endpoint::Topic(_) => (MAX_ENTRIES, topic::MAX_REQUEST_BYTES),
        Endpoint::Queue(_) => (MAX_ENTRIES, queue::MAX_REQUEST_BYTES),
        Endpoint::Stream(_) => (stream::MAX_REQUEST_RECORDS, stream::MAX_REQUEST_BYTES),
        Endpoint::Function(_) | Endpoint::Http(_) => (1, usize::MAX),
    }
}

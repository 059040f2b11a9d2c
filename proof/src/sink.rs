//! AWS that takes everything, after a settable latency, and counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::protocol::{
    Call, Response, batch_answer, function_answer, refusal, response, subscription_answer,
};
use crate::{Reply, Server, call};

/// Endpoints of AWS on loopback.
#[derive(Debug)]
pub struct Sink {
    server: Server,
    counts: Arc<Mutex<BTreeMap<String, Count>>>,
}

/// What came in by one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Requests.
    pub calls: usize,
    /// Entries of batch requests.
    pub entries: usize,
    /// Bytes of the requests' bodies.
    pub bytes: usize,
}

/// A subscription that the sink knows.
#[derive(Debug, Clone)]
pub struct Subscribed {
    /// Its ARN.
    pub arn: String,
    /// Its topic's ARN.
    pub topic: String,
    /// The ARN of its endpoint, a queue.
    pub endpoint: String,
    /// The ARN of its dead-letter queue.
    pub dlq: String,
}

impl Sink {
    /// A sink that answers every request so long after it came.
    #[must_use]
    pub fn start(latency: Duration, subscriptions: Vec<Subscribed>) -> Self {
        Self::on(latency, subscriptions, Server::start)
    }

    /// The same with TLS; chain and key are PEM.
    #[must_use]
    pub fn start_tls(subscriptions: Vec<Subscribed>, chain: &str, key: &str) -> Self {
        Self::on(Duration::ZERO, subscriptions, |handler| Server::start_tls(handler, chain, key))
    }

    fn on(
        latency: Duration,
        subscriptions: Vec<Subscribed>,
        start: impl FnOnce(Box<dyn Fn(crate::wire::Raw) -> Reply + Send + Sync>) -> Server,
    ) -> Self {
        let counts: Arc<Mutex<BTreeMap<String, Count>>> = Arc::default();
        let counting = Arc::clone(&counts);
        let server = start(Box::new(move |request| {
            let came = Instant::now();
            let call = call(&request);
            {
                let mut counts = counting.lock().unwrap_or_else(PoisonError::into_inner);
                let count = counts.entry(call.op.clone()).or_default();
                count.calls += 1;
                count.entries += call.entries.len();
                count.bytes += request.body.len();
            }
            let answer = answer(&call, &subscriptions);
            std::thread::sleep(latency.saturating_sub(came.elapsed()));
            Reply::Answer(answer)
        }));
        Self { server, counts }
    }

    /// `127.0.0.1:<port>`.
    #[must_use]
    pub fn address(&self) -> String {
        self.server.address()
    }

    /// What came since the last time this was asked, by operation.
    #[must_use]
    pub fn take_counts(&self) -> BTreeMap<String, Count> {
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn answer(call: &Call, subscriptions: &[Subscribed]) -> Response {
    match call.op.as_str() {
        "GetQueueAttributes" => response(
            200,
            json!({ "Attributes": { "MessageRetentionPeriod": "1209600", "VisibilityTimeout": "360" } })
                .to_string(),
        ),
        "GetSubscriptionAttributes" => {
            let Some(known) = subscriptions.iter().find(|known| known.arn == call.to) else {
                return refusal(&call.op, 404, "NotFound", "Subscription does not exist");
            };
            let redrive = json!({ "deadLetterTargetArn": known.dlq }).to_string();
            let attributes = [
                ("SubscriptionArn", known.arn.as_str()),
                ("TopicArn", &known.topic),
                ("Protocol", "sqs"),
                ("Endpoint", &known.endpoint),
                ("RedrivePolicy", &redrive),
                ("PendingConfirmation", "false"),
                ("RawMessageDelivery", "false"),
            ];
            let owned = attributes.map(|(name, value)| (name.to_owned(), value.to_owned()));
            response(200, subscription_answer(&owned.into()))
        }
        "Invoke" => function_answer(call, None),
        "PutObject" => response(200, String::new()).with("etag", "\"taken\""),
        _ => {
            let all: Vec<_> = (0..call.entries.len()).map(|index| (index, None)).collect();
            response(200, batch_answer(&call.op, &all))
        }
    }
}

//! AWS that takes every request within its limits, after a settable latency, and counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::protocol::{
    Call, Entry, Response, batch_answer, function_answer, refusal, response, subscription_answer,
};
use crate::{Reply, Server, call};

/// Entries of a batch request of SNS and of SQS.
/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>,
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html>
const MAX_ENTRIES: usize = 10;

/// Bytes of all messages of a request, by the same pages.
const MAX_TOPIC_BYTES: usize = 256 * 1024;
const MAX_QUEUE_BYTES: usize = 1024 * 1024;

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
    /// Requests beyond the service's limits.
    pub refused: usize,
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
            let excess = excess(&call);
            {
                let mut counts = counting.lock().unwrap_or_else(PoisonError::into_inner);
                let count = counts.entry(call.op.clone()).or_default();
                count.calls += 1;
                count.entries += call.entries.len();
                count.bytes += request.body.len();
                count.refused += usize::from(excess.is_some());
            }
            let answer = excess.unwrap_or_else(|| answer(&call, &subscriptions));
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

/// The error of a request with too many entries or bytes.
fn excess(call: &Call) -> Option<Response> {
    let (most_bytes, prefix) = match call.op.as_str() {
        // A topic may allow messages as large as a queue's; here every topic does, for a message alone.
        "PublishBatch" if call.entries.len() > 1 => (MAX_TOPIC_BYTES, ""),
        "PublishBatch" => (MAX_QUEUE_BYTES, ""),
        "SendMessageBatch" | "ChangeMessageVisibilityBatch" => (MAX_QUEUE_BYTES, "AWS.SimpleQueueService."),
        _ => return None,
    };
    let (entries, bytes) = (call.entries.len(), call.entries.iter().map(size).sum::<usize>());
    let (code, message) = if entries > MAX_ENTRIES {
        let message =
            format!("Maximum number of entries per request are {MAX_ENTRIES}. You have sent {entries}.");
        ("TooManyEntriesInBatchRequest", message)
    } else if bytes > most_bytes {
        let message =
            format!("Batch requests cannot be longer than {most_bytes} bytes. You have sent {bytes} bytes.");
        ("BatchRequestTooLong", message)
    } else {
        return None;
    };
    Some(refusal(&call.op, 400, &[prefix, code].concat(), &message))
}

/// Bytes of a message as AWS counts them: its body and the names, types and values of its attributes.
fn size(entry: &Entry) -> usize {
    let value = |value: &str| match value.strip_prefix("base64 ") {
        Some(text) => text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count(),
        None => value.len(),
    };
    let attributes = entry.attributes.iter().map(|(name, (of, it))| name.len() + of.len() + value(it));
    entry.body.len() + entry.subject.as_ref().map_or(0, String::len) + attributes.sum::<usize>()
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

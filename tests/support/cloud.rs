//! The SDK's HTTP connector, with SNS, SQS, S3, Lambda and Firehose behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::json;
use sns_redrive::clients::Clients;

use super::{
    BILLING, BILLING_SUBSCRIPTION, DLQ, FIFO_DLQ, FIFO_SUBSCRIPTION, FIFO_TOPIC, FIFO_WORKER,
    LAMBDA_SUBSCRIPTION, NOTIFIER, SUBSCRIPTION, TOPIC, WORKER,
};
use protocol::{
    Call, Entry, EntryFate, Response, batch_answer, etag, function_answer, read, refusal, response,
    sns_answer, subscription_answer, tagged,
};

/// What the service does with a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Takes it.
    Accept,
    /// Answers 200; these entries, by position, are not taken.
    Except(Vec<(usize, EntryFate)>),
    /// Refuses it.
    Fail(u16, &'static str, &'static str),
    /// Answers with this status and body, whatever they mean.
    Nonsense(u16, &'static str),
    /// The connection breaks.
    Reset,
    /// The connection cannot be made in time.
    NoConnection,
    /// Never answers, and has not taken it.
    Hang,
    /// Takes it, after a while.
    Slow(Duration),
    /// Takes it, once so many requests have been under way at once, or after half a minute.
    Together(usize),
    /// Takes it, but the connection breaks before the answer.
    Lost,
    /// Takes it, and never answers.
    Mute,
    /// Runs the function, which fails.
    FunctionError,
    /// Answers 200, but the body breaks off after so many bytes.
    BreakOff(usize),
}

/// The caller that STS answers with.
pub const CALLER: &str = "arn:aws:sts::123456789012:assumed-role/operator/ada";

type Script = Arc<dyn Fn(&Call) -> Reply + Send + Sync>;

/// The fake; clones are the same one.
#[derive(Clone)]
pub struct Cloud(Arc<Mutex<State>>);

struct State {
    journal: Vec<Call>,
    subscriptions: BTreeMap<String, BTreeMap<String, String>>,
    queues: BTreeMap<String, BTreeMap<String, String>>,
    objects: BTreeMap<String, String>,
    /// When S3 says that it stored an object, where a test says so.
    stored: BTreeMap<String, String>,
    page: usize,
    script: Script,
    in_flight: usize,
    peak: usize,
}

impl Cloud {
    /// The queues and subscriptions of `events/README.md`.
    pub fn new() -> Self {
        let cloud = Self(Arc::new(Mutex::new(State {
            journal: Vec::new(),
            subscriptions: BTreeMap::new(),
            queues: BTreeMap::new(),
            objects: BTreeMap::new(),
            stored: BTreeMap::new(),
            page: 100,
            script: Arc::new(|_| Reply::Accept),
            in_flight: 0,
            peak: 0,
        })));
        for (subscription, topic, protocol, endpoint, dlq) in [
            (SUBSCRIPTION, TOPIC, "sqs", WORKER, DLQ),
            (BILLING_SUBSCRIPTION, TOPIC, "sqs", BILLING, DLQ),
            (LAMBDA_SUBSCRIPTION, TOPIC, "lambda", NOTIFIER, DLQ),
            (FIFO_SUBSCRIPTION, FIFO_TOPIC, "sqs", FIFO_WORKER, FIFO_DLQ),
        ] {
            cloud.subscribe_endpoint(subscription, topic, protocol, endpoint, dlq);
        }
        for name in ["orders-dlq", "orders-dlq.fifo", "orders-requeue"] {
            cloud.queue(name, &[("MessageRetentionPeriod", "1209600")]);
        }
        let redrive = format!(r#"{{"deadLetterTargetArn":"{DLQ}","maxReceiveCount":3}}"#);
        cloud.queue("orders-billing", &[("MessageRetentionPeriod", "345600"), ("RedrivePolicy", &redrive)]);
        cloud
    }

    /// Adds or replaces a subscription.
    pub fn subscribe(&self, arn: &str, attributes: &[(&str, &str)]) {
        self.state().subscriptions.insert(arn.to_owned(), owned(attributes));
    }

    /// Adds or replaces a subscription, confirmed and not raw.
    pub fn subscribe_endpoint(&self, arn: &str, topic: &str, protocol: &str, endpoint: &str, dlq: &str) {
        self.subscribe(
            arn,
            &[
                ("SubscriptionArn", arn),
                ("TopicArn", topic),
                ("Protocol", protocol),
                ("Endpoint", endpoint),
                ("RedrivePolicy", &format!(r#"{{"deadLetterTargetArn":"{dlq}"}}"#)),
                ("PendingConfirmation", "false"),
                ("RawMessageDelivery", "false"),
            ],
        );
    }

    /// Lists so many subscriptions or keys a page; SNS lists 100, S3 1,000.
    pub fn pages_of(&self, entries: usize) {
        self.state().page = entries;
    }

    /// Changes one attribute of a subscription.
    pub fn resubscribe(&self, arn: &str, name: &str, value: &str) {
        let mut state = self.state();
        state.subscriptions.get_mut(arn).unwrap().insert(name.to_owned(), value.to_owned());
    }

    /// Removes a subscription.
    pub fn unsubscribe(&self, arn: &str) {
        self.state().subscriptions.remove(arn);
    }

    /// Adds or replaces a queue's attributes.
    pub fn queue(&self, name: &str, attributes: &[(&str, &str)]) {
        self.state().queues.insert(name.to_owned(), owned(attributes));
    }

    /// From now on this decides what becomes of a request.
    pub fn script(&self, script: impl Fn(&Call) -> Reply + Send + Sync + 'static) {
        self.state().script = Arc::new(script);
    }

    /// From now on requests of one operation get this reply.
    pub fn reply(&self, op: &'static str, reply: Reply) {
        self.script(move |call| if call.op == op { reply.clone() } else { Reply::Accept });
    }

    /// Every request so far.
    pub fn journal(&self) -> Vec<Call> {
        self.state().journal.clone()
    }

    /// Every request so far, as `PublishBatch orders 10`.
    pub fn summary(&self) -> Vec<String> {
        self.journal().iter().map(Call::summary).collect()
    }

    /// The requests of one operation.
    pub fn calls(&self, op: &str) -> Vec<Call> {
        self.journal().into_iter().filter(|call| call.op == op).collect()
    }

    /// The entries of the requests of one operation, taken or not.
    pub fn entries(&self, op: &str) -> Vec<Entry> {
        self.calls(op).into_iter().flat_map(|call| call.entries).collect()
    }

    /// Receipt handles with the seconds that their messages were hidden for, as far as SQS took it.
    pub fn hidden(&self) -> BTreeMap<String, i64> {
        let calls = self.calls("ChangeMessageVisibilityBatch").into_iter();
        let taken = calls.flat_map(|call| {
            let Call { entries, taken, .. } = call;
            taken.into_iter().map(move |index| entries[index].clone())
        });
        taken.map(|entry| (entry.receipt_handle.unwrap(), entry.hide.unwrap())).collect()
    }

    /// Objects in S3 by `bucket/key`.
    pub fn objects(&self) -> BTreeMap<String, String> {
        self.state().objects.clone()
    }

    /// Puts an object that was there before.
    pub fn put(&self, place: &str, object: &str) {
        self.state().objects.insert(place.to_owned(), object.to_owned());
    }

    /// Puts an object that S3 stored at this time.
    pub fn put_at(&self, place: &str, object: &str, stored: &str) {
        self.put(place, object);
        self.state().stored.insert(place.to_owned(), stored.to_owned());
    }

    /// Forgets the journal.
    pub fn forget(&self) {
        let mut state = self.state();
        state.journal.clear();
        state.peak = 0;
    }

    /// The most requests that were under way at once.
    pub fn peak(&self) -> usize {
        self.state().peak
    }

    /// Clients that make every call once.
    pub fn clients(&self) -> Clients {
        self.clients_with(RetryConfig::disabled())
    }

    /// Clients that retry.
    pub fn clients_with(&self, retry: RetryConfig) -> Clients {
        Clients::from_config(&self.config(retry), false)
    }

    /// The SDK's configuration, with this in the place of the network.
    pub fn config(&self, retry: RetryConfig) -> SdkConfig {
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(self.clone())
            .retry_config(retry)
            .build()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let _under_way = UnderWay::new(&self);
        let call = heard(request).await;
        // The script may use the cloud itself.
        let script = Arc::clone(&self.state().script);
        let reply = script(&call);
        let index = {
            let mut state = self.state();
            state.journal.push(call.clone());
            state.journal.len() - 1
        };
        match reply {
            Reply::Accept => Ok(said(self.take(index, &call, &[]))),
            Reply::Except(fates) => Ok(said(self.take(index, &call, &fates))),
            Reply::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(said(self.take(index, &call, &[])))
            }
            Reply::Together(count) => {
                for _ in 0..3_000 {
                    if self.peak() >= count {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Ok(said(self.take(index, &call, &[])))
            }
            Reply::FunctionError => Ok(said(function_answer(&call, Some("Unhandled")))),
            Reply::Fail(status, code, message) => Ok(said(refusal(&call.op, status, code, message))),
            Reply::Nonsense(status, body) => Ok(said(response(status, body.to_owned()))),
            Reply::BreakOff(bytes) => Ok(broken_off(said(self.take(index, &call, &[])), bytes).await),
            Reply::Reset => Err(ConnectorError::io("connection reset by peer".into())),
            Reply::NoConnection => Err(ConnectorError::timeout("connect timed out".into())),
            Reply::Hang => std::future::pending().await,
            Reply::Lost => {
                self.take(index, &call, &[]);
                Err(ConnectorError::io("connection reset by peer".into()))
            }
            Reply::Mute => {
                self.take(index, &call, &[]);
                std::future::pending().await
            }
        }
    }

    fn take(&self, index: usize, call: &Call, fates: &[(usize, EntryFate)]) -> Response {
        let mut state = self.state();
        match call.op.as_str() {
            "GetSubscriptionAttributes" => match state.subscriptions.get(&call.to) {
                Some(attributes) => response(200, subscription_answer(attributes)),
                None => refusal(&call.op, 404, "NotFound", "Subscription does not exist"),
            },
            "ListSubscriptions" => response(200, state.list(&call.to)),
            "GetCallerIdentity" => response(200, sns_answer(&call.op, &format!("<Arn>{CALLER}</Arn>"))),
            "Invoke" => {
                state.journal[index].taken = vec![0];
                function_answer(call, None)
            }
            "Publish" => {
                state.journal[index].taken = vec![0];
                response(200, sns_answer("Publish", "<MessageId>new</MessageId>"))
            }
            "GetQueueAttributes" => match state.queues.get(&call.to) {
                Some(attributes) => response(200, json!({ "Attributes": attributes }).to_string()),
                None => refusal(
                    &call.op,
                    400,
                    "AWS.SimpleQueueService.NonExistentQueue",
                    "The specified queue does not exist.",
                ),
            },
            "ListObjectsV2" => response(200, state.list_objects(call)),
            "GetObject" => match state.objects.get(&call.to) {
                Some(object) if call.headers.get("if-none-match") == Some(&etag(object)) => {
                    response(304, String::new())
                }
                Some(object) => tagged(object, response(200, object.clone())),
                None => refusal(&call.op, 404, "NoSuchKey", "The specified key does not exist."),
            },
            "PutObject" => {
                if call.headers.contains_key("if-none-match") && state.objects.contains_key(&call.to) {
                    return refusal(&call.op, 412, "PreconditionFailed", "At least one pre-condition failed");
                }
                if let Some(expected) = call.headers.get("if-match") {
                    match state.objects.get(&call.to) {
                        Some(object) if etag(object) == *expected => {}
                        Some(_) => {
                            let message = "At least one pre-condition failed";
                            return refusal(&call.op, 412, "PreconditionFailed", message);
                        }
                        None => return refusal(&call.op, 404, "NoSuchKey", "The key does not exist."),
                    }
                }
                state.objects.insert(call.to.clone(), call.object.clone());
                state.journal[index].taken = vec![0];
                tagged(&call.object, response(200, String::new()))
            }
            _ => {
                let disposition =
                    |index| fates.iter().find(|(of, _)| *of == index).map(|(_, disposition)| *disposition);
                let all: Vec<_> = (0..call.entries.len()).map(|index| (index, disposition(index))).collect();
                let taken =
                    all.iter().filter(|(_, disposition)| disposition.is_none()).map(|(index, _)| *index);
                state.journal[index].taken = taken.collect();
                response(200, batch_answer(&call.op, &all))
            }
        }
    }
}

impl State {
    /// A page of subscriptions; the token is the number of those before it.
    fn list(&self, token: &str) -> String {
        let before: usize = if token.is_empty() { 0 } else { token.parse().unwrap() };
        let page = self.subscriptions.iter().skip(before).take(self.page);
        let members = page.map(|(arn, attributes)| {
            let pending = attributes.get("PendingConfirmation").is_some_and(|it| it == "true");
            // SNS gives one that is not confirmed no ARN.
            let arn = if pending { "PendingConfirmation" } else { arn };
            ["<member><SubscriptionArn>", arn, "</SubscriptionArn></member>"].concat()
        });
        let members = members.collect::<Vec<_>>().concat();
        let after = before + self.page;
        let more = self.subscriptions.len() > after;
        let token = if more { format!("<NextToken>{after}</NextToken>") } else { String::new() };
        sns_answer("ListSubscriptions", &format!("<Subscriptions>{members}</Subscriptions>{token}"))
    }
}

impl State {
    /// A page of keys; the token is the last key of the page before, or its last common prefix.
    fn list_objects(&self, call: &Call) -> String {
        let (bucket, prefix) = call.to.split_once('/').unwrap();
        let text = |name: &str| call.headers.get(name).map(String::as_str);
        let after = text("continuation-token").or(text("start-after")).unwrap_or_default();
        let mut entries: Vec<(String, bool)> = Vec::new();
        for place in self.objects.keys() {
            let Some(key) = place.strip_prefix(&format!("{bucket}/")) else { continue };
            let Some(rest) = key.strip_prefix(prefix) else { continue };
            let end = text("delimiter").and_then(|delimiter| rest.find(delimiter));
            let entry = match end {
                Some(end) => (key[..=prefix.len() + end].to_owned(), true),
                None => (key.to_owned(), false),
            };
            if entry.0.as_str() > after && entries.last() != Some(&entry) {
                entries.push(entry);
            }
        }
        let more = entries.len() > self.page;
        entries.truncate(self.page);
        let token = entries.last().filter(|_| more).map_or(String::new(), |(last, _)| {
            ["<NextContinuationToken>", last, "</NextContinuationToken>"].concat()
        });
        let items = entries.iter().map(|(key, is_prefix)| {
            if *is_prefix {
                return ["<CommonPrefixes><Prefix>", key, "</Prefix></CommonPrefixes>"].concat();
            }
            let stored =
                self.stored.get(&format!("{bucket}/{key}")).map_or("2026-11-01T12:00:00.000Z", |at| at);
            let stored = ["<LastModified>", stored, "</LastModified>"].concat();
            ["<Contents><Key>", key, "</Key>", &stored, "</Contents>"].concat()
        });
        let items = items.collect::<Vec<_>>().concat();
        format!(
            "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>{more}</IsTruncated>\
             {token}{items}</ListBucketResult>"
        )
    }
}

impl Reply {
    /// A reply by which the entries that contain a text are not taken.
    pub fn except(call: &Call, text: &str, disposition: EntryFate) -> Self {
        Self::Except(call.entries_with(text).into_iter().map(|index| (index, disposition)).collect())
    }
}

impl HttpClient for Cloud {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Cloud {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().answer(request))
    }
}

impl fmt::Debug for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cloud")
    }
}

/// Counts the requests that are under way, also those that are given up.
struct UnderWay(Cloud);

impl UnderWay {
    fn new(cloud: &Cloud) -> Self {
        let mut state = cloud.state();
        state.in_flight += 1;
        state.peak = state.peak.max(state.in_flight);
        drop(state);
        Self(cloud.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.state().in_flight -= 1;
    }
}

fn owned(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn heard(mut request: HttpRequest) -> Call {
    let body = ByteStream::new(request.take_body()).collect().await.unwrap().to_vec();
    let header = |name: &str| request.headers().get(name).map(str::to_owned);
    read(request.method(), request.uri(), header, &body)
}

fn said(answer: Response) -> HttpResponse {
    let mut said = HttpResponse::new(answer.status.try_into().unwrap(), SdkBody::from(answer.body));
    for (name, value) in answer.headers {
        said.headers_mut().insert(name, value);
    }
    said
}

/// The same answer, but its body breaks off.
async fn broken_off(mut answer: HttpResponse, bytes: usize) -> HttpResponse {
    let body = ByteStream::new(answer.take_body()).collect().await.unwrap().into_bytes();
    let pieces =
        [Ok(Frame::data(body.slice(..bytes))), Err(std::io::Error::other("connection reset by peer"))];
    let body = StreamBody::new(futures_util::stream::iter(pieces));
    HttpResponse::new(answer.status(), SdkBody::from_body_1_x(body))
}

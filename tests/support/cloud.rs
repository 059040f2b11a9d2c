//! The SDK's HTTP connector, with SNS, SQS, S3, Lambda and Firehose behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
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
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body::Frame;
use http_body_util::StreamBody;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use sns_redrive::clients::Clients;

use super::{
    BILLING, BILLING_SUBSCRIPTION, DLQ, FIFO_DLQ, FIFO_SUBSCRIPTION, FIFO_TOPIC, FIFO_WORKER,
    LAMBDA_SUBSCRIPTION, NOTIFIER, SUBSCRIPTION, TOPIC, WORKER,
};

/// One request as the service read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// `PublishBatch`, `PutObject` ...
    pub op: String,
    /// The host it was sent to.
    pub host: String,
    /// The name of the queue, topic, stream or function, the ARN of the subscription, the token of the
    /// page, or `bucket/key`.
    pub to: String,
    /// The entries of a batch request; the event of an `Invoke`.
    pub entries: Vec<Entry>,
    /// The headers of a `PutObject`, an `Invoke` or a `PublishBatch` that mean something.
    pub headers: BTreeMap<String, String>,
    /// The body of a `PutObject`.
    pub object: String,
    /// The entries that were taken, by position; [0] stands for a whole object.
    pub taken: Vec<usize>,
}

/// One entry of a batch request. Attributes are `(type, value)`, bytes as `base64 ...`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    pub body: String,
    pub subject: Option<String>,
    pub attributes: BTreeMap<String, (String, String)>,
    pub group_id: Option<String>,
    pub deduplication_id: Option<String>,
    pub trace_header: Option<String>,
    pub receipt_handle: Option<String>,
    pub hide: Option<i64>,
    pub delay: Option<i64>,
}

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
    /// Takes it, but the connection breaks before the answer.
    Lost,
    /// Takes it, and never answers.
    Mute,
    /// Runs the function, which fails.
    FunctionError,
    /// Answers 200, but the body breaks off after so many bytes.
    BreakOff(usize),
}

/// What a 200 says of an entry that was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryFate {
    /// It is in `Failed`: code, message, whose fault.
    Failed(&'static str, &'static str, bool),
    /// It is in neither list.
    Missing,
}

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
        let call = read(request).await;
        // The script may use the cloud itself.
        let script = Arc::clone(&self.state().script);
        let reply = script(&call);
        let index = {
            let mut state = self.state();
            state.journal.push(call.clone());
            state.journal.len() - 1
        };
        match reply {
            Reply::Accept => Ok(self.take(index, &call, &[])),
            Reply::Except(fates) => Ok(self.take(index, &call, &fates)),
            Reply::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(self.take(index, &call, &[]))
            }
            Reply::FunctionError => Ok(function_answer(&call, Some("Unhandled"))),
            Reply::Fail(status, code, message) => Ok(refusal(&call.op, status, code, message)),
            Reply::Nonsense(status, body) => Ok(response(status, body.to_owned())),
            Reply::BreakOff(bytes) => Ok(broken_off(self.take(index, &call, &[]), bytes).await),
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

    fn take(&self, index: usize, call: &Call, fates: &[(usize, EntryFate)]) -> HttpResponse {
        let mut state = self.state();
        match call.op.as_str() {
            "GetSubscriptionAttributes" => match state.subscriptions.get(&call.to) {
                Some(attributes) => response(200, subscription_answer(attributes)),
                None => refusal(&call.op, 404, "NotFound", "Subscription does not exist"),
            },
            "ListSubscriptions" => response(200, state.list(&call.to)),
            "Invoke" => {
                state.journal[index].taken = vec![0];
                function_answer(call, None)
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
                let fate = |index| fates.iter().find(|(of, _)| *of == index).map(|(_, fate)| *fate);
                let all: Vec<_> = (0..call.entries.len()).map(|index| (index, fate(index))).collect();
                let taken = all.iter().filter(|(_, fate)| fate.is_none()).map(|(index, _)| *index);
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

impl Call {
    /// As `PublishBatch orders 10`.
    pub fn summary(&self) -> String {
        match self.entries.len() {
            0 => format!("{} {}", self.op, self.to),
            count => format!("{} {} {count}", self.op, self.to),
        }
    }

    /// The positions of the entries that contain a text.
    pub fn entries_with(&self, text: &str) -> Vec<usize> {
        let with = |entry: &Entry| {
            entry.body.contains(text) || entry.receipt_handle.as_ref().is_some_and(|it| it.contains(text))
        };
        (0..self.entries.len()).filter(|index| with(&self.entries[*index])).collect()
    }

    /// A reply by which the entries that contain a text are not taken.
    pub fn except(&self, text: &str, fate: EntryFate) -> Reply {
        Reply::Except(self.entries_with(text).into_iter().map(|index| (index, fate)).collect())
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

/// Reads a request in the protocol of its service: SNS takes forms, SQS and Firehose JSON, Lambda and
/// S3 plain bodies.
async fn read(mut request: HttpRequest) -> Call {
    let header = |request: &HttpRequest, name: &str| request.headers().get(name).map(str::to_owned);
    let uri = request.uri().to_owned();
    let (_, rest) = uri.split_once("://").unwrap();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, path) = (host.to_owned(), path.to_owned());
    let target = header(&request, "x-amz-target");
    let chunked = header(&request, "content-encoding").is_some_and(|it| it.contains("aws-chunked"));
    let is_form = header(&request, "content-type").is_some_and(|it| it.contains("form-urlencoded"));
    let kept = ["if-none-match", "content-type", "if-match", "x-amz-invocation-type", "x-amzn-trace-id"];
    let headers = kept
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), header(&request, name)?)))
        .collect::<BTreeMap<_, _>>();
    let body = ByteStream::new(request.take_body()).collect().await.unwrap().to_vec();

    let mut call = Call {
        op: String::new(),
        host: host.clone(),
        to: String::new(),
        entries: Vec::new(),
        headers: BTreeMap::new(),
        object: String::new(),
        taken: Vec::new(),
    };
    if let Some(op) = target.as_ref().and_then(|target| target.strip_prefix("Firehose_20150804.")) {
        op.clone_into(&mut call.op);
        let body: Value = serde_json::from_slice(&body).unwrap();
        body["DeliveryStreamName"].as_str().unwrap().clone_into(&mut call.to);
        let records = body["Records"].as_array().unwrap().iter();
        call.entries = records
            .map(|record| STANDARD.decode(record["Data"].as_str().unwrap()).unwrap())
            .map(|data| Entry { body: String::from_utf8(data).unwrap(), ..Entry::default() })
            .collect();
    } else if let Some(target) = target {
        target.strip_prefix("AmazonSQS.").unwrap().clone_into(&mut call.op);
        let body: Value = serde_json::from_slice(&body).unwrap();
        let url = body["QueueUrl"].as_str().unwrap();
        let path = url.strip_prefix(&format!("https://{host}/123456789012/"));
        path.unwrap_or(url).clone_into(&mut call.to);
        call.entries = body["Entries"].as_array().into_iter().flatten().map(sqs_entry).collect();
    } else if is_form {
        let form = form(std::str::from_utf8(&body).unwrap());
        call.op.clone_from(&form["Action"]);
        if call.op == "PublishBatch" {
            let topic = form["TopicArn"].rsplit(':').next().unwrap();
            topic.clone_into(&mut call.to);
            call.entries = sns_entries(&form);
            call.headers = headers;
            call.headers.remove("content-type");
        } else {
            let of = ["SubscriptionArn", "NextToken"].iter().find_map(|name| form.get(*name));
            call.to = of.cloned().unwrap_or_default();
        }
    } else if let Some(rest) = path.strip_prefix("2015-03-31/functions/") {
        "Invoke".clone_into(&mut call.op);
        let arn = percent_decode_str(rest.strip_suffix("/invocations").unwrap()).decode_utf8().unwrap();
        let name = arn.strip_prefix("arn:aws:lambda:eu-central-1:123456789012:function:").unwrap();
        name.clone_into(&mut call.to);
        call.headers = headers;
        call.entries = vec![Entry { body: String::from_utf8(body).unwrap(), ..Entry::default() }];
    } else {
        let (place, query) = path.split_once('?').unwrap_or((&path, ""));
        let place = percent_decode_str(place).decode_utf8().unwrap();
        // The bucket is a part of the host, unless the host is one of a test's own.
        let bucket = host.split_once(".s3.").map(|(bucket, _)| format!("{bucket}/"));
        call.to = format!("{}{place}", bucket.unwrap_or_default());
        call.headers = headers;
        if query.contains("list-type=2") {
            "ListObjectsV2".clone_into(&mut call.op);
            call.headers = form(query);
            let prefix = call.headers.remove("prefix").unwrap_or_default();
            call.to = format!("{}/{prefix}", call.to.trim_end_matches('/'));
            return call;
        }
        let op = if request.method() == "GET" { "GetObject" } else { "PutObject" };
        op.clone_into(&mut call.op);
        let body = if chunked { unchunked(&body) } else { body };
        call.object = String::from_utf8(body).unwrap();
    }
    call
}

fn form(body: &str) -> BTreeMap<String, String> {
    let decoded =
        |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().unwrap().into_owned();
    body.split('&').map(|pair| pair.split_once('=').unwrap()).map(|(k, v)| (decoded(k), decoded(v))).collect()
}

fn sns_entries(form: &BTreeMap<String, String>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for number in 1.. {
        let prefix = format!("PublishBatchRequestEntries.member.{number}");
        let field = |name: &str| form.get(&format!("{prefix}.{name}")).cloned();
        let Some(id) = field("Id") else { break };
        assert_eq!(id, (number - 1).to_string());
        let mut attributes = BTreeMap::new();
        for number in 1.. {
            let part = |name: &str| field(&format!("MessageAttributes.entry.{number}.{name}"));
            let Some(name) = part("Name") else { break };
            let kind = part("Value.DataType").unwrap();
            let text = part("Value.StringValue");
            let value = text.or(part("Value.BinaryValue").map(|bytes| format!("base64 {bytes}"))).unwrap();
            attributes.insert(name, (kind, value));
        }
        entries.push(Entry {
            body: field("Message").unwrap(),
            subject: field("Subject"),
            attributes,
            group_id: field("MessageGroupId"),
            deduplication_id: field("MessageDeduplicationId"),
            ..Entry::default()
        });
    }
    entries
}

fn sqs_entry(entry: &Value) -> Entry {
    let text = |name: &str| entry[name].as_str().map(str::to_owned);
    let attributes = entry["MessageAttributes"].as_object().into_iter().flatten();
    let attributes = attributes.map(|(name, attribute)| {
        let bytes = attribute["BinaryValue"].as_str().map(|bytes| format!("base64 {bytes}"));
        let value = attribute["StringValue"].as_str().map(str::to_owned).or(bytes).unwrap();
        (name.clone(), (attribute["DataType"].as_str().unwrap().to_owned(), value))
    });
    let trace = &entry["MessageSystemAttributes"]["AWSTraceHeader"];
    Entry {
        body: text("MessageBody").unwrap_or_default(),
        subject: None,
        attributes: attributes.collect(),
        group_id: text("MessageGroupId"),
        deduplication_id: text("MessageDeduplicationId"),
        trace_header: trace["StringValue"].as_str().map(str::to_owned),
        receipt_handle: text("ReceiptHandle"),
        hide: entry["VisibilityTimeout"].as_i64(),
        delay: entry["DelaySeconds"].as_i64(),
    }
}

/// Takes the chunks of a streamed upload apart: `<hex size>[;extension]\r\n<bytes>\r\n` ...
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let head = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(head.split(';').next().unwrap(), 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 2 + size + 2..];
    }
}

/// What Lambda answers: at once for an event, with the function's own answer for a request.
fn function_answer(call: &Call, error: Option<&str>) -> HttpResponse {
    let event = call.headers.get("x-amz-invocation-type").is_some_and(|kind| kind == "Event");
    if event {
        return response(202, String::new());
    }
    let body = error.map_or("null", |_| r#"{"errorMessage":"relay S3CR3T is down","errorType":"Error"}"#);
    let mut answer = response(200, body.to_owned());
    if let Some(error) = error {
        answer.headers_mut().insert("x-amz-function-error", error.to_owned());
    }
    answer
}

/// Firehose answers in the order of the records, and not at all for those after a missing one.
fn stream_answer(all: &[(usize, Option<EntryFate>)]) -> String {
    let answered = all.iter().take_while(|(_, fate)| *fate != Some(EntryFate::Missing));
    let answers: Vec<_> = answered
        .map(|(index, fate)| match fate {
            Some(EntryFate::Failed(code, message, _)) => {
                json!({ "ErrorCode": code, "ErrorMessage": message })
            }
            _ => json!({ "RecordId": format!("new-{index}") }),
        })
        .collect();
    let failed = all.iter().filter(|(_, fate)| fate.is_some()).count();
    json!({ "FailedPutCount": failed, "RequestResponses": answers }).to_string()
}

/// The lists of a batch answer, in another order than the request's: AWS promises none.
fn batch_answer(op: &str, all: &[(usize, Option<EntryFate>)]) -> String {
    if op == "PutRecordBatch" {
        return stream_answer(all);
    }
    let json = op != "PublishBatch";
    let mut successful = Vec::new();
    let mut failed = Vec::new();
    for (index, fate) in all.iter().rev() {
        match fate {
            Some(EntryFate::Missing) => {}
            None if json => {
                let md5 = "00000000000000000000000000000000";
                successful.push(
                    json!({ "Id": index.to_string(), "MessageId": "new", "MD5OfMessageBody": md5 })
                        .to_string(),
                );
            }
            None => successful
                .push(format!("<member><Id>{index}</Id><MessageId>new-{index}</MessageId></member>")),
            Some(EntryFate::Failed(code, message, sender)) if json => {
                let id = index.to_string();
                let entry = json!({ "Id": id, "Code": code, "Message": message, "SenderFault": sender });
                failed.push(entry.to_string());
            }
            Some(EntryFate::Failed(code, message, sender)) => failed.push(format!(
                "<member><Id>{index}</Id><Code>{code}</Code><Message>{message}</Message>\
                 <SenderFault>{sender}</SenderFault></member>"
            )),
        }
    }
    if json {
        return format!(r#"{{"Successful":[{}],"Failed":[{}]}}"#, successful.join(","), failed.join(","));
    }
    sns_answer(
        "PublishBatch",
        &format!("<Failed>{}</Failed><Successful>{}</Successful>", failed.concat(), successful.concat()),
    )
}

fn subscription_answer(attributes: &BTreeMap<String, String>) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let entries = attributes.iter().map(|(key, value)| {
        ["<entry><key>", key, "</key><value>", &escaped(value), "</value></entry>"].concat()
    });
    let entries = entries.collect::<Vec<_>>().concat();
    sns_answer("GetSubscriptionAttributes", &format!("<Attributes>{entries}</Attributes>"))
}

fn sns_answer(op: &str, result: &str) -> String {
    format!(
        "<{op}Response xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><{op}Result>{result}</{op}Result>\
         <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></{op}Response>"
    )
}

/// An error in the form of the operation's service.
fn refusal(op: &str, status: u16, code: &str, message: &str) -> HttpResponse {
    match op {
        "Invoke" => {
            let mut answer = response(status, json!({ "Type": "User", "Message": message }).to_string());
            answer.headers_mut().insert("x-amzn-errortype", code.to_owned());
            answer
        }
        "PublishBatch" | "GetSubscriptionAttributes" | "ListSubscriptions" => response(
            status,
            format!(
                "<ErrorResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><Error><Type>Sender</Type>\
                 <Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
            ),
        ),
        "PutObject" | "GetObject" | "ListObjectsV2" => response(
            status,
            format!("<Error><Code>{code}</Code><Message>{message}</Message><RequestId>r</RequestId></Error>"),
        ),
        _ => {
            let bare = code.rsplit('.').next().unwrap();
            let kind = if bare == "NonExistentQueue" { "QueueDoesNotExist" } else { bare };
            let body = json!({ "__type": format!("com.amazonaws.sqs#{kind}"), "message": message });
            let mut response = response(status, body.to_string());
            response.headers_mut().insert("x-amzn-query-error", format!("{code};Sender"));
            response
        }
    }
}

/// The same answer, but its body breaks off.
async fn broken_off(mut answer: HttpResponse, bytes: usize) -> HttpResponse {
    let body = ByteStream::new(answer.take_body()).collect().await.unwrap().into_bytes();
    let pieces =
        [Ok(Frame::data(body.slice(..bytes))), Err(std::io::Error::other("connection reset by peer"))];
    let body = StreamBody::new(futures_util::stream::iter(pieces));
    HttpResponse::new(answer.status(), SdkBody::from_body_1_x(body))
}

/// An answer about an object. As in S3, equal objects have equal tags.
fn tagged(object: &str, mut answer: HttpResponse) -> HttpResponse {
    answer.headers_mut().insert("etag", etag(object));
    answer
}

fn etag(object: &str) -> String {
    let mut hasher = DefaultHasher::new();
    object.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

fn response(status: u16, body: String) -> HttpResponse {
    HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))
}

//! The AWS account of `events/README.md`, in [`redrive_sim`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_aws::clients::AwsClients;
use redrive_sim::lambda::{FunctionSettings, SimInvocation, SimInvocationResult};
use redrive_sim::sns::{Protocol, SimSubscription, TopicSettings};
use redrive_sim::sqs::{PresetMessage, QueueRedrive, QueueSettings, name_of};
use redrive_sim::{
    Caller, FaultHook, SimAttribute, SimAttributeValue, SimAttributes, SimAws, SimCall, SimClock, SimEntry,
    SimEvent, SimFault, SimPayload, WebAnswer,
};
use serde_json::Value;

use super::{
    BILLING, BILLING_SUBSCRIPTION, DLQ, FIFO_DLQ, FIFO_SUBSCRIPTION, FIFO_TOPIC, FIFO_WORKER,
    LAMBDA_SUBSCRIPTION, NOTIFIER, NOW, SUBSCRIPTION, TOPIC, WORKER, at,
};

/// The ARN that STS gives to the caller.
pub const CALLER: &str = "arn:aws:sts::123456789012:assumed-role/operator/ada";

/// The caller's name in [`redrive_sim`].
const CALLER_NAME: &str = "operator/ada";

/// Two weeks in seconds.
const WEEKS: &str = "1209600";

/// An account with one caller. Clones share it. It accepts everything that AWS accepts unless a script says
/// otherwise, and keeps a journal.
#[derive(Clone, Debug)]
pub struct TestAccount {
    /// The account itself.
    pub aws: SimAws,
    caller: Caller,
}

impl TestAccount {
    /// Returns an account with the queues, topics, subscriptions, functions, streams of `events/README.md`.
    pub fn new() -> Self {
        Self::with_clock(SimClock::manual(at(NOW)))
    }

    /// Returns the same account with another clock.
    pub fn with_clock(clock: SimClock) -> Self {
        let account = Self { aws: SimAws::new(clock, 7), caller: Caller::new(CALLER_NAME) };
        // The queue's visibility timeout is six times the function's timeout, as AWS advises.
        for name in ["payments-dlq", "payments-dlq.fifo", "payments-requeue", "payments-requeue.fifo"] {
            account.queue(name, &[("MessageRetentionPeriod", WEEKS), ("VisibilityTimeout", "180")]);
        }
        for name in ["payments-worker", "payments-worker.fifo", "payments-archive"] {
            account.queue(name, &[]);
        }
        let redrive = format!(r#"{{"deadLetterTargetArn":"{DLQ}","maxReceiveCount":3}}"#);
        account.queue("payments-billing", &[("RedrivePolicy", &redrive)]);
        for name in ["payments", "payments.fifo", "notices"] {
            account.aws.act("test", |it, _| it.sns.create(name, TopicSettings::default()));
        }
        for name in ["payments-notifier", "payments-projector"] {
            account.function(name, |_| SimInvocationResult::ok("null"));
        }
        account.aws.act("test", |it, _| {
            it.firehose.create("payments");
            it.s3.create("my-bucket");
        });
        for (subscription, topic, protocol, endpoint, dlq) in [
            (SUBSCRIPTION, TOPIC, "sqs", WORKER, DLQ),
            (BILLING_SUBSCRIPTION, TOPIC, "sqs", BILLING, DLQ),
            (LAMBDA_SUBSCRIPTION, TOPIC, "lambda", NOTIFIER, DLQ),
            (FIFO_SUBSCRIPTION, FIFO_TOPIC, "sqs", FIFO_WORKER, FIFO_DLQ),
        ] {
            account.subscribe_endpoint(subscription, topic, protocol, endpoint, dlq);
        }
        account
    }

    /// Adds or replaces a subscription, confirmed and not raw.
    pub fn subscribe_endpoint(&self, arn: &str, topic: &str, protocol: &str, endpoint: &str, dlq: &str) {
        self.subscribe(arn, topic, protocol, endpoint);
        self.resubscribe(arn, "RedrivePolicy", &format!(r#"{{"deadLetterTargetArn":"{dlq}"}}"#));
    }

    /// Adds or replaces a subscription without a dead-letter queue.
    pub fn subscribe(&self, arn: &str, topic: &str, protocol: &str, endpoint: &str) {
        let protocol = match protocol {
            "sqs" => Protocol::Sqs,
            "lambda" => Protocol::Lambda,
            "http" => Protocol::Http,
            "https" => Protocol::Https,
            "firehose" => Protocol::Firehose,
            "email" => Protocol::Address("email"),
            "email-json" => Protocol::Address("email-json"),
            "sms" => Protocol::Address("sms"),
            "application" => Protocol::Address("application"),
            other => panic!("no protocol: {other}"),
        };
        let name = topic.rsplit(':').next().unwrap();
        let mut subscription = SimSubscription::new(name, "", protocol, endpoint);
        arn.clone_into(&mut subscription.arn);
        subscription.more.insert("TopicArn".to_owned(), topic.to_owned());
        self.aws.act("test", |it, _| it.sns.subscribe(subscription));
    }

    /// Changes one attribute of a subscription.
    pub fn resubscribe(&self, arn: &str, name: &str, value: &str) {
        self.aws.act("test", |it, _| {
            let subscription = it.sns.subscription_mut(arn).unwrap();
            match name {
                "Endpoint" => value.clone_into(&mut subscription.endpoint),
                "RawMessageDelivery" => subscription.raw = value == "true",
                "PendingConfirmation" => subscription.pending = value == "true",
                _ => {
                    if name == "RedrivePolicy" {
                        let policy: Value = serde_json::from_str(value).unwrap_or_default();
                        let queue = policy["deadLetterTargetArn"].as_str().map(name_of);
                        subscription.dead_letters = queue.map(|queue| queue.to_string());
                    }
                    subscription.more.insert(name.to_owned(), value.to_owned());
                }
            }
        });
    }

    /// Removes a subscription.
    pub fn unsubscribe(&self, arn: &str) {
        self.aws.act("test", |it, _| it.sns.unsubscribe(arn));
    }

    /// Lists so many subscriptions or keys per page. SNS lists 100, S3 1,000.
    pub fn pages_of(&self, entries: usize) {
        self.aws.act("test", |it, _| (it.sns.page, it.s3.page) = (entries, entries));
    }

    /// Makes S3 delete the objects of a bucket whose keys have this prefix after so many days.
    pub fn expire(&self, bucket: &str, prefix: &str, days: u32) {
        self.aws.act("test", |it, _| it.s3.expire(bucket, prefix, days));
    }

    /// Makes S3 deny access to objects that do not exist, as it does to those who may not list the bucket.
    pub fn deny_missing_objects(&self) {
        self.aws.act("test", |it, _| it.s3.denies_missing = true);
    }

    /// Deletes each object whose key has this text when it is read, as a lifecycle rule may do once it was listed.
    pub fn delete_when_read(&self, text: &'static str) {
        let aws = self.aws.clone();
        self.script(move |call| {
            if call.operation == "GetObject" && call.target.contains(text) {
                let place = call.target.split_once('/').unwrap_or_default();
                aws.act("lifecycle", |it, _| it.s3.remove(place));
            }
            SimFault::Pass
        });
    }

    /// Creates a queue, or gives one other attributes.
    pub fn queue(&self, name: &str, attributes: &[(&str, &str)]) {
        let given = |name: &str| attributes.iter().find(|(it, _)| *it == name).map(|(_, value)| *value);
        let number = |name: &str| given(name).and_then(|value| value.parse::<i64>().ok());
        let default = QueueSettings::default();
        let max_bytes = number("MaximumMessageSize").map(|bytes| bytes.try_into().unwrap());
        let redrive = given("RedrivePolicy").map(|policy| serde_json::from_str::<Value>(policy).unwrap());
        let redrive = redrive.map(|policy| {
            let most = &policy["maxReceiveCount"];
            // SQS also takes the number as text, and returns it as it got it.
            let most = most.as_u64().or_else(|| most.as_str()?.parse().ok()).unwrap();
            QueueRedrive {
                queue: name_of(policy["deadLetterTargetArn"].as_str().unwrap()).to_string(),
                max_receives: most.try_into().unwrap(),
            }
        });
        let settings = QueueSettings {
            retention: number("MessageRetentionPeriod").unwrap_or(default.retention),
            visibility: number("VisibilityTimeout").unwrap_or(default.visibility),
            max_bytes: max_bytes.unwrap_or(default.max_bytes),
            redrive,
            tags: name
                .contains("requeue")
                .then(|| ("sns-redrive".to_owned(), "requeue".to_owned()))
                .into_iter()
                .collect(),
            more: attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..default
        };
        self.aws.act("test", |it, _| match it.sqs.queue_mut(name) {
            Some(queue) => queue.messages.settings = settings,
            None => it.sqs.create(name, settings),
        });
    }

    /// Makes a queue report that it is empty, as if its reader had taken everything.
    pub fn drained(&self, name: &str) {
        self.queue(name, &[("MessageRetentionPeriod", WEEKS), ("ApproximateNumberOfMessages", "0")]);
    }

    /// Creates a topic, or replaces one.
    pub fn topic(&self, name: &str, max_bytes: usize) {
        let settings = TopicSettings { max_bytes, ..TopicSettings::default() };
        self.aws.act("test", |it, _| it.sns.create(name, settings));
    }

    /// Creates or replaces a function.
    pub fn function(
        &self,
        name: &str,
        run: impl Fn(&SimInvocation) -> SimInvocationResult + Send + Sync + 'static,
    ) {
        let settings = FunctionSettings { allow_loops: true, ..FunctionSettings::default() };
        self.aws.act("test", |it, _| it.lambda.create(name, settings, run));
    }

    /// Puts the messages of an event into their queues, received just now.
    pub fn place(&self, event: &Value) {
        for record in event["Records"].as_array().into_iter().flatten() {
            let Some((queue, placed)) = placed(record, self.aws.clock().millis()) else { continue };
            // A queue of another account is not among these.
            let _ = self.aws.act("test", |it, cx| it.sqs.place(cx, &queue, placed));
        }
    }

    /// Makes this script decide the course of every request from now on.
    pub fn script(&self, script: impl Fn(&SimCall) -> SimFault + Send + Sync + 'static) {
        // Calls between services succeed.
        self.aws.set_faults(FaultHook::new(move |call| match &*call.caller {
            CALLER_NAME => script(call),
            _ => SimFault::Pass,
        }));
    }

    /// Gives requests of one operation this course from now on.
    pub fn reply(&self, operation: &'static str, fault: SimFault) {
        self.script(move |call| if call.operation == operation { fault.clone() } else { SimFault::Pass });
    }

    /// Returns every request so far.
    pub fn journal(&self) -> Vec<SimCall> {
        self.aws.calls().iter().map(|call| (**call).clone()).collect()
    }

    /// Returns every request so far, as `PublishBatch payments 10`.
    pub fn summary(&self) -> Vec<String> {
        self.journal().iter().map(SimCall::summary).collect()
    }

    /// Returns the requests of one operation.
    pub fn calls(&self, operation: &str) -> Vec<SimCall> {
        self.journal().into_iter().filter(|call| call.operation == operation).collect()
    }

    /// Returns the entries of the requests of one operation, whatever their results.
    pub fn entries(&self, operation: &str) -> Vec<SimEntry> {
        self.calls(operation).into_iter().flat_map(|call| call.entries).collect()
    }

    /// Returns receipt handles with the seconds that their messages were hidden for.
    pub fn hidden(&self) -> BTreeMap<String, i64> {
        self.events(|event| match event {
            SimEvent::Hidden { handle, seconds, .. } => Some((handle.clone(), *seconds)),
            _ => None,
        })
    }

    /// Returns the bodies that a queue, a topic, a stream or a function took from the caller.
    pub fn taken(&self) -> BTreeSet<(String, String)> {
        let place = |name: &str, body: &str| Some((name.to_owned(), body.to_owned()));
        let mut taken: BTreeSet<_> = self.events(|event| match event {
            SimEvent::Sent { queue, payload, .. } => place(queue, &payload.body),
            SimEvent::Swallowed { name, body, .. } => place(name, body),
            SimEvent::Published { topic, message, .. } => place(topic, message),
            SimEvent::Streamed { stream, data } => place(stream, std::str::from_utf8(data).unwrap()),
            SimEvent::Invoked { function, payload, ok: true } => place(function, payload),
            _ => None,
        });
        // Lambda itself later runs the events that it took from the caller and from SNS.
        let invoked = self.calls("Invoke");
        let is_callers = |payload: &str| invoked.iter().any(|call| call.body == payload.as_bytes());
        let runs = self.aws.journal(|records| {
            let runs = records.iter().filter(|record| &*record.by == "lambda");
            let runs = runs.filter_map(|record| match &record.event {
                SimEvent::Invoked { function, payload, .. } => Some((function.to_string(), payload.clone())),
                _ => None,
            });
            runs.collect::<Vec<_>>()
        });
        taken.extend(runs.into_iter().filter(|(_, payload)| is_callers(payload)));
        taken
    }

    /// Returns the messages that a queue took from the caller, as the requests had them.
    pub fn messages(&self, queue: &str) -> Vec<SimEntry> {
        let asked = self.calls("SendMessageBatch").into_iter().filter(|call| call.target == queue);
        let mut asked: Vec<_> = asked.flat_map(|call| call.entries).collect();
        let taken: Vec<Arc<SimPayload>> = self.events(|event| match event {
            SimEvent::Sent { queue: of, payload, .. } if **of == *queue => Some(Arc::clone(payload)),
            _ => None,
        });
        let entry = |payload: Arc<SimPayload>| {
            let is_same = |it: &SimEntry| it.body == payload.body && it.attributes == payload.attributes;
            asked.remove(asked.iter().position(is_same).unwrap())
        };
        taken.into_iter().map(entry).collect()
    }

    /// Collects facts from the events that the caller's requests caused.
    fn events<T, C: FromIterator<T>>(&self, pick: impl Fn(&SimEvent) -> Option<T>) -> C {
        self.aws.journal(|records| {
            let records = records.iter().filter(|record| *record.by == *self.caller.id);
            records.filter_map(|record| pick(&record.event)).collect()
        })
    }

    /// Returns the objects in S3 by `bucket/key`.
    pub fn objects(&self) -> BTreeMap<String, String> {
        self.aws.act("test", |it, _| {
            let objects = it.s3.buckets().flat_map(|(bucket, objects)| {
                objects.iter().map(move |(key, object)| {
                    (format!("{bucket}/{key}"), String::from_utf8(object.bytes.clone()).unwrap())
                })
            });
            objects.collect()
        })
    }

    /// Puts an object that existed before.
    pub fn put(&self, place: &str, object: &str) {
        self.put_at(place, object, "2026-11-01T12:00:00.000Z");
    }

    /// Puts an object that S3 stored at this time.
    pub fn put_at(&self, place: &str, object: &str, stored: &str) {
        let stored: jiff::Timestamp = stored.parse().unwrap();
        let place = place.split_once('/').unwrap();
        self.aws.act("test", |it, _| it.s3.place(place, object.as_bytes(), stored.as_millisecond()));
    }

    /// Forgets the journal.
    pub fn forget(&self) {
        let _ = self.aws.take_journal();
        self.aws.forget_peak();
    }

    /// Returns the greatest number of requests that were under way at the same time.
    pub fn peak(&self) -> usize {
        self.aws.peak()
    }

    /// Serves the account on a port of loopback.
    pub fn listen(&self) -> redrive_sim::SocketServer {
        self.aws.listen(&self.caller).unwrap()
    }

    /// Serves a web server that answers 200 on a port of loopback.
    pub fn listen_web(&self, host: &str) -> redrive_sim::SocketServer {
        self.aws.act("test", |it, _| it.web.serve(host, |_| WebAnswer::status(200)));
        self.aws.listen_web(&self.caller, host).unwrap()
    }

    /// Returns clients that make every call once.
    pub fn clients(&self) -> AwsClients {
        self.clients_with(RetryConfig::disabled())
    }

    /// Returns clients that retry.
    pub fn clients_with(&self, retry: RetryConfig) -> AwsClients {
        AwsClients::from_config(&self.config(retry), false)
    }

    /// Returns the SDK's configuration, with this account in place of the network.
    pub fn config(&self, retry: RetryConfig) -> SdkConfig {
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(self.aws.connector(&self.caller))
            .retry_config(retry)
            .build()
    }
}

/// Returns the queue of a record and its message, or `None` for a broken record.
fn placed(record: &Value, now: i64) -> Option<(String, PresetMessage)> {
    let text = |name: &str| record[name].as_str().map(str::to_owned);
    let system = |name: &str| record["attributes"][name].as_str().map(str::to_owned);
    let number = |name: &str| system(name).and_then(|it| it.parse::<i64>().ok());
    let attributes = record["messageAttributes"].as_object().into_iter().flatten();
    let attributes = attributes.map(|(name, it)| {
        let value = match it["binaryValue"].as_str() {
            Some(bytes) => SimAttributeValue::Bytes(STANDARD.decode(bytes).unwrap_or_default()),
            None => SimAttributeValue::Text(it["stringValue"].as_str().unwrap_or_default().to_owned()),
        };
        (name.clone(), SimAttribute { kind: it["dataType"].as_str().unwrap_or_default().to_owned(), value })
    });
    let placed = PresetMessage {
        id: text("messageId")?,
        handle: text("receiptHandle")?,
        payload: SimPayload {
            body: text("body")?,
            attributes: attributes.collect::<SimAttributes>(),
            group: system("MessageGroupId"),
            deduplication: system("MessageDeduplicationId"),
            trace: system("AWSTraceHeader"),
        },
        sender: system("SenderId").unwrap_or_default(),
        sent: number("SentTimestamp").unwrap_or(now),
        receives: number("ApproximateReceiveCount").and_then(|it| it.try_into().ok()).unwrap_or(1),
        first_received: number("ApproximateFirstReceiveTimestamp").unwrap_or(now),
        source: system("DeadLetterQueueSourceArn"),
    };
    Some((name_of(&text("eventSourceARN")?).to_string(), placed))
}

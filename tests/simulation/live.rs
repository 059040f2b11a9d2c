//! The life of a world: the real function on its SDK clients, in the simulated account, until nothing is left
//! to do.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use aws_sdk_sqs::config::retry::{RetryPartition, TokenBucket};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use jiff::SignedDuration;
use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock as FunctionClock;
use redrive_aws::delivery::{AddressReach, HttpClient};
use redrive_aws::settings::Settings;
use redrive_core::letter::SqsEvent;
use redrive_sim::lambda::FunctionSettings;
use redrive_sim::mapping::{MappingBatch, MappingOutcome, MappingSettings, SimMapping};
use redrive_sim::s3::PutCondition;
use redrive_sim::sns::{Protocol, SimSubscription, TopicSettings};
use redrive_sim::sqs::{QueueRedrive, QueueSettings, ReceiveRequest, ReceivedSqsMessage};
use redrive_sim::{
    Caller, FaultHook, SandboxClock, SimAttribute, SimAws, SimClock, SimEntry, SimMillis, SimRecord, arn,
};
use serde_json::{Value, json};
use sns_redrive::function::RedriveFunction;

use crate::hook::SeededFaults;
use crate::world::{
    ARCHIVE, ArchiveKind, DLQ, HOUR, REQUEUE, SeededDocument, SeededOperator, SeededOverride, SeededQueue,
    SeededSource, SeededSubscriberKind, SeededSubscriberState, SeededTarget, SeededWorld, endpoint,
};

/// A story: everything that happened.
pub struct SeededStory {
    pub journal: Vec<SimRecord>,
    pub digest: String,
    /// The time at which the story began.
    pub start: SimMillis,
    pub runs: Vec<LiveRun>,
    /// The number of the function's calls.
    pub calls: usize,
}

/// One invocation of the function.
#[derive(Debug, Clone)]
pub struct LiveRun {
    pub caller: Arc<str>,
    /// The ids of its messages, with their receipt handles.
    pub batch: Vec<(Arc<str>, Arc<str>)>,
    pub began: SimMillis,
    pub ended: SimMillis,
    /// The time by which the clock of its instance was ahead when it began.
    pub ahead: SimMillis,
    /// The part of the journal that belongs to it, from `from` to `to`.
    pub from: usize,
    pub to: usize,
    /// The ids that it returned. `None` if it did not finish.
    pub kept: Option<Vec<String>>,
    /// The number of letters that it counted as stuck, for which somebody is paged.
    pub stuck: u64,
}

pub const CONTROL: &str = "control";

/// Returns the text in a message that identifies its letter.
pub fn token(letter: usize) -> String {
    format!("{TOKEN}{letter:03}.")
}

/// Returns the message of a letter.
pub fn text_of(letter: usize) -> String {
    json!({ "override": token(letter) }).to_string()
}

/// The attribute `tenant` of every letter.
pub const TENANT: &str = "gold";

/// How the token of every letter begins.
pub const TOKEN: &str = "letter-";

/// Returns the letter whose token a text begins with.
pub fn letter_at(text: &str) -> Option<usize> {
    text.strip_prefix(TOKEN)?.split_once('.')?.0.parse().ok()
}

/// Returns the last part of a subscription's ARN.
pub fn subscription(subscriber: usize) -> String {
    format!("subscription-{subscriber}")
}

/// Runs a world.
pub fn live(world: &SeededWorld) -> SeededStory {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    // The SDK's jitter is part of the world.
    fastrand::seed(world.seed);
    // The account's clock is the runtime's only if it is created within the runtime.
    runtime.unwrap().block_on(async { SeededLife::new(world).live().await })
}

struct SeededLife<'w> {
    world: &'w SeededWorld,
    aws: SimAws,
    start: SimMillis,
    hook: Arc<SeededFaults>,
    idle: RefCell<Vec<LiveInstance>>,
    instances: Cell<usize>,
    runs: Rc<RefCell<Vec<LiveRun>>>,
}

/// An instance of the function.
struct LiveInstance {
    caller: Caller,
    function: RedriveFunction,
    skew: SimMillis,
    monotonic: SandboxClock,
    /// The metrics of its last run.
    metrics: Arc<Mutex<String>>,
}

impl<'w> SeededLife<'w> {
    fn new(world: &'w SeededWorld) -> Self {
        let aws = SimAws::new(SimClock::tokio("2026-11-01T12:00:00Z".parse().unwrap()), world.seed);
        let start = aws.clock().millis();
        let hook = Arc::new(SeededFaults::new(world, start));
        let (asked, clock) = (Arc::clone(&hook), aws.clock().clone());
        aws.set_faults(FaultHook::new(move |call| asked.fault(call, clock.millis())));
        let life = Self {
            world,
            aws,
            start,
            hook,
            idle: RefCell::default(),
            instances: Cell::default(),
            runs: Rc::default(),
        };
        life.furnish();
        life
    }

    /// Creates queues, topic, subscriptions and endpoints.
    fn furnish(&self) {
        let world = self.world;
        let SeededQueue { retention, visibility, whole_group, duplicates, lag, old_handles } = world.queue;
        let queue = QueueSettings {
            retention: i64::try_from(retention).unwrap(),
            visibility: i64::try_from(visibility).unwrap(),
            whole_group,
            duplicates,
            lag,
            shuffled: (!world.fifo).then_some(world.seed),
            stale_shows: old_handles.show,
            stale_hides: old_handles.hide,
            stale_deletes: old_handles.delete,
            ..QueueSettings::default()
        };
        let other = QueueSettings { retention: 1_209_600, content_based: true, ..QueueSettings::default() };
        self.aws.act("world", |it, _| {
            it.sqs.create(&world.name(DLQ), queue.clone());
            it.sqs.create(&world.name(REQUEUE), queue);
            it.sqs.create(&world.name(ARCHIVE), other.clone());
            it.s3.create(ARCHIVE);
            it.sns.create(&world.topic(), TopicSettings::default());
            it.sqs.create(&world.name("witness"), other.clone());
            let to = |source| (world.source == source).then(|| world.name(DLQ));
            for (index, subscriber) in world.subscribers.iter().enumerate() {
                let name = endpoint(world, index);
                let (hook, clock) = (Arc::clone(&self.hook), self.aws.clock().clone());
                match subscriber.kind {
                    SeededSubscriberKind::Queue => {
                        let redrive =
                            to(SeededSource::Queue).map(|queue| QueueRedrive { queue, max_receives: 1 });
                        it.sqs.create(&name, QueueSettings { redrive, ..other.clone() });
                    }
                    SeededSubscriberKind::Function => {
                        let settings = FunctionSettings {
                            retries: 0,
                            dead_letters: to(SeededSource::Function),
                            on_failure: to(SeededSource::Destination),
                            ..FunctionSettings::default()
                        };
                        let ran = move |_: &_| hook.ran(index, clock.millis());
                        it.lambda.create(&name, settings, ran);
                    }
                    SeededSubscriberKind::Stream => it.firehose.create(&name),
                    SeededSubscriberKind::Server => {
                        it.web.serve(&name, move |_| hook.answer(index, clock.millis()));
                    }
                }
            }
        });
    }

    async fn live(self) -> SeededStory {
        let last = self.world.letters.iter().map(|plan| plan.at).max().unwrap_or(0);
        let end = last + self.world.retention() * if self.world.requeue.is_some() { 2 } else { 1 } + HOUR;
        let dlq = self.mapping(DLQ);
        let requeue = self.mapping(REQUEUE);
        let run = |batch| Box::pin(self.invoke(batch));
        let all = async { tokio::join!(self.publish(), self.operate(), dlq.run(run), requeue.run(run)) };
        let _ = tokio::time::timeout(Duration::from_millis(u64::try_from(end).unwrap()), all).await;
        self.story()
    }

    fn story(self) -> SeededStory {
        let digest = self.aws.digest();
        SeededStory {
            journal: self.aws.take_journal(),
            digest,
            start: self.start,
            runs: self.runs.take(),
            calls: self.hook.calls(),
        }
    }

    fn mapping(&self, queue: &str) -> SimMapping {
        let world = self.world;
        let settings = MappingSettings {
            batch_size: world.mapping.batch,
            window: Duration::from_secs(world.mapping.window),
            concurrency: world.mapping.concurrency,
            timeout: Duration::from_secs(world.mapping.timeout),
            allow_loops: true,
            ..MappingSettings::new(&world.name(queue), "redrive")
        };
        SimMapping::new(&self.aws, settings)
    }

    /// Publishes the messages, whose deliveries fail at once.
    async fn publish(&self) {
        let begun = tokio::time::Instant::now();
        for (number, plan) in self.world.letters.iter().enumerate() {
            tokio::time::sleep_until(begun + Duration::from_millis(u64::try_from(plan.at).unwrap())).await;
            let mut entry = SimEntry::new("", text_of(number)).with("tenant", SimAttribute::string(TENANT));
            if self.world.fifo || self.world.fifo_topic {
                entry = entry.fifo(&format!("group-{}", plan.group), &token(number));
            }
            match self.world.source {
                SeededSource::Topic => {
                    self.aws.act("world", |it, _| self.subscribe(&mut it.sns, false));
                    self.aws.act("publisher", |it, cx| it.publish(cx, &self.world.topic(), &entry)).unwrap();
                    self.aws.act("world", |it, _| self.subscribe(&mut it.sns, true));
                }
                SeededSource::Queue => self.receive_in_vain(&entry),
                SeededSource::Function | SeededSource::Destination => self.invoke_in_vain(&entry).await,
            }
        }
        std::future::pending::<()>().await;
    }

    /// Sends a message to the source queue, whose worker fails. The worker deletes what the function has sent
    /// there.
    fn receive_in_vain(&self, entry: &SimEntry) {
        let queue = endpoint(self.world, 0);
        let sent = self.aws.act("publisher", |it, cx| it.sqs.send_message(cx, &queue, entry)).unwrap();
        self.aws.act("worker", |it, cx| {
            loop {
                let received = it.sqs.receive_message(cx, &queue, ReceiveRequest::default()).unwrap();
                if received.is_empty() {
                    break;
                }
                for ReceivedSqsMessage { id, handle, .. } in received {
                    if id == sent.id {
                        it.sqs.change_message_visibility(cx, &queue, &handle, 0).unwrap();
                    } else {
                        it.sqs.delete_message(cx, &queue, &handle).unwrap();
                    }
                }
            }
        });
    }

    /// Invokes the function asynchronously.
    async fn invoke_in_vain(&self, entry: &SimEntry) {
        let lambda = aws_sdk_lambda::Client::new(&sdk_config(&self.aws, &Caller::new("publisher")));
        let call = lambda.invoke().function_name(endpoint(self.world, 0));
        let call = call.invocation_type(InvocationType::Event).payload(Blob::new(entry.body.as_bytes()));
        call.send().await.unwrap();
    }

    /// Gives overrides, and wakes the letters in the lists.
    async fn operate(&self) {
        let SeededOperator { writes, wakes, .. } = &self.world.operator;
        let begun = tokio::time::Instant::now();
        let mut acts: Vec<_> = writes.iter().map(|(at, document)| (*at, Some(*document))).collect();
        acts.extend(wakes.iter().map(|at| (*at, None)));
        acts.sort_by_key(|(at, _)| *at);
        for (at, document) in acts {
            tokio::time::sleep_until(begun + Duration::from_millis(u64::try_from(at).unwrap())).await;
            match document {
                Some(document) => self.write(document),
                None => self.wake(),
            }
        }
        std::future::pending::<()>().await;
    }

    fn write(&self, document: SeededDocument) {
        let now = self.aws.clock().now();
        let text = match document {
            SeededDocument::Broken => "{".to_owned(),
            SeededDocument::Empty => json!({ "version": 1, "overrides": [] }).to_string(),
            SeededDocument::Override(SeededOverride { action, letter, lasts }) => {
                let pattern = letter.map_or_else(
                    || json!({ "origin": [{ "exists": true }] }),
                    |letter| {
                        let message = json!({ "override": [token(letter)] });
                        // There the message is the record.
                        let is_record = self.world.source == SeededSource::Destination;
                        json!({ "message": if is_record { json!({ "requestPayload": message }) } else { message } })
                    },
                );
                let until = lasts.map(|lasts| now + SignedDuration::from_millis(lasts));
                let mut override_ = json!({ "id": now, "do": action.name(), "match": pattern, "at": now,
                    "by": "operator", "why": "it is mended" });
                override_
                    .as_object_mut()
                    .unwrap()
                    .extend(until.map(|until| ("until".to_owned(), json!(until))));
                json!({ "version": 1, "overrides": [override_] }).to_string()
            }
        };
        let key = (ARCHIVE, &*format!("{CONTROL}/overrides.json"));
        self.aws
            .act("operator", |it, cx| it.s3.put_object(cx, key, text.into_bytes(), PutCondition::None, None))
            .unwrap();
    }

    fn wake(&self) {
        self.aws.act("operator", |it, cx| {
            let lists = it.s3.objects(ARCHIVE).into_iter().flatten();
            let lists = lists.filter(|(key, _)| key.contains("/waiting/"));
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let lines: Vec<String> = lists
                .flat_map(|(_, list)| text(&list.bytes).lines().map(str::to_owned).collect::<Vec<_>>())
                .collect();
            for line in lines {
                let line: Value = serde_json::from_str(&line).unwrap();
                let (queue, handle) =
                    (line["queueArn"].as_str().unwrap(), line["receiptHandle"].as_str().unwrap());
                let queue = queue.rsplit(':').next().unwrap();
                // A FIFO queue refuses an old handle.
                let _ = it.sqs.change_message_visibility(cx, queue, handle, 0);
            }
        });
    }

    /// Subscribes all endpoints, as they are while SNS delivers, or as the function finds them.
    fn subscribe(&self, sns: &mut redrive_sim::sns::Sns, found: bool) {
        let world = self.world;
        let topic = world.topic();
        for (index, subscriber) in world.subscribers.iter().enumerate() {
            let name = endpoint(world, index);
            let (protocol, to) = match subscriber.kind {
                SeededSubscriberKind::Queue => (Protocol::Sqs, arn("sqs", &name)),
                SeededSubscriberKind::Function => {
                    (Protocol::Lambda, arn("lambda", &format!("function:{name}")))
                }
                SeededSubscriberKind::Stream => {
                    (Protocol::Firehose, arn("firehose", &format!("deliverystream/{name}")))
                }
                SeededSubscriberKind::Server => (Protocol::Https, format!("https://{name}/")),
            };
            let mut one = SimSubscription::new(&topic, &subscription(index), protocol, &to)
                .dead_letters(&world.name(DLQ));
            one.raw = subscriber.raw;
            if found {
                match subscriber.state {
                    SeededSubscriberState::Confirmed => {}
                    SeededSubscriberState::Elsewhere => one = one.dead_letters(&world.name("other-dlq")),
                    SeededSubscriberState::Pending => one.pending = true,
                    SeededSubscriberState::Gone => {
                        sns.unsubscribe(&one.arn);
                        continue;
                    }
                }
            }
            sns.subscribe(one);
        }
        if world.target == SeededTarget::Topic {
            sns.subscribe(SimSubscription::new(&topic, "witness", Protocol::Sqs, &arn("sqs", "witness")));
        }
    }

    /// Runs the function for one batch, on an idle or a new instance.
    async fn invoke(&self, batch: MappingBatch) -> MappingOutcome {
        let idle = self.idle.borrow_mut().pop();
        let instance = idle.unwrap_or_else(|| self.instance());
        let run = self.begin(&instance, &batch);
        instance.monotonic.thaw();
        let event: SqsEvent = serde_json::from_str(&batch.event).unwrap();
        let skew = self.world.mapping.skew_at(instance.skew, self.aws.clock().millis() - self.start);
        let deadline = u64::try_from(batch.deadline + skew).unwrap();
        let answer = {
            let handling = Box::pin(instance.function.handle(event, &batch.request_id, deadline));
            tokio::select! {
                biased;
                () = instance.caller.gone() => None,
                answer = handling => Some(answer.unwrap()),
            }
        };
        let Some(answer) = answer else { return MappingOutcome::Died };
        let metrics = std::mem::take(&mut *instance.metrics.lock().unwrap());
        let metrics: Value = serde_json::from_str(&metrics).unwrap();
        let stuck = metrics["LettersStuck"].as_u64().unwrap_or(0);
        let kept = answer.batch_item_failures.iter().map(|item| item.item_identifier.clone()).collect();
        run.end(kept, stuck);
        if self.world.mapping.freezes {
            instance.monotonic.freeze();
        }
        self.idle.borrow_mut().insert(0, instance);
        MappingOutcome::Answer(serde_json::to_string(&answer).unwrap())
    }

    fn begin(&self, instance: &LiveInstance, batch: &MappingBatch) -> LiveRunGuard {
        let now = self.aws.clock().millis();
        let from = self.aws.journal(<[SimRecord]>::len);
        self.runs.borrow_mut().push(LiveRun {
            caller: Arc::clone(&instance.caller.id),
            batch: batch.messages.iter().map(|it| (Arc::clone(&it.id), Arc::clone(&it.handle))).collect(),
            began: now,
            ended: now,
            ahead: self.world.mapping.skew_at(instance.skew, now - self.start),
            from,
            to: from,
            kept: None,
            stuck: 0,
        });
        let index = self.runs.borrow().len() - 1;
        LiveRunGuard {
            aws: self.aws.clone(),
            runs: Rc::clone(&self.runs),
            index,
            caller: instance.caller.clone(),
        }
    }

    fn instance(&self) -> LiveInstance {
        let world = self.world;
        let number = self.instances.get();
        self.instances.set(number + 1);
        let caller = Caller::new(&format!("fn-{number}"));
        let clients = own_patience(&AwsClients::from_config(&sdk_config(&self.aws, &caller), false));
        let skew = world.mapping.skews[number % world.mapping.skews.len()];
        let monotonic = SandboxClock::default();
        let clock = {
            let (clock, monotonic) = (self.aws.clock().clone(), monotonic.clone());
            let (mapping, start) = (world.mapping.clone(), self.start);
            let wall = move || {
                let skew = mapping.skew_at(skew, clock.millis() - start);
                clock.now().saturating_add(SignedDuration::from_millis(skew)).unwrap()
            };
            FunctionClock::from_fns(wall, move || monotonic.elapsed())
        };
        let metrics = Arc::new(Mutex::new(String::new()));
        let sink = {
            let metrics = Arc::clone(&metrics);
            Arc::new(move |line: &str| line.clone_into(&mut *metrics.lock().unwrap()))
        };
        let function = RedriveFunction::new(self.settings(), clients, clock, sink);
        let servers = servers(&self.aws, &caller);
        let function = function.map_redrive(|redrive| redrive.with_http(servers));
        LiveInstance { caller, function, skew, monotonic, metrics }
    }

    fn settings(&self) -> Settings {
        let world = self.world;
        Settings::read(|name: &str| match name {
            "REDRIVE_POLICY" => Some(world.policy()),
            "ARCHIVE" => Some(match world.archive {
                ArchiveKind::Bucket => format!("s3://{ARCHIVE}/letters"),
                ArchiveKind::Queue => arn("sqs", &world.name(ARCHIVE)),
            }),
            "REQUEUE_ARN" => world.requeue.map(|_| arn("sqs", &world.name(REQUEUE))),
            "IN_FLIGHT_LIMIT" => world.requeue.map(|limit| limit.to_string()),
            "MAX_HIDE_SECONDS" => Some(world.ceiling.to_string()),
            "CONTROL" => Some(format!("s3://{ARCHIVE}/{CONTROL}")),
            "MAX_CONCURRENCY" => Some(world.mapping.concurrency.to_string()),
            _ => None,
        })
        .unwrap()
    }
}

/// Returns the SDK's configuration that the function has in Lambda, with the account in place of the network.
pub fn sdk_config(aws: &SimAws, caller: &Caller) -> SdkConfig {
    let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(Duration::from_secs(10));
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(redrive_sim::REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws.connector(caller))
        .retry_config(RetryConfig::standard().with_max_attempts(3))
        .timeout_config(timeouts.build())
        .build()
}

/// Returns the simulated web servers, as the function reaches them.
pub fn servers(aws: &SimAws, caller: &Caller) -> HttpClient {
    let connector = aws.connector(caller);
    let exchange = move |request: http::Request<http_body_util::Full<Bytes>>| {
        let connector = connector.clone();
        let exchange = async move {
            let (head, body) = request.into_parts();
            let body = SdkBody::from(body.collect().await.unwrap().to_bytes());
            let request = HttpRequest::try_from(http::Request::from_parts(head, body)).unwrap();
            let answer = connector.call(request).await.map_err(std::io::Error::other)?;
            let answer = answer.try_into_http1x().unwrap();
            Ok(answer.map(|body| Bytes::copy_from_slice(body.bytes().unwrap_or_default())))
        };
        Box::pin(exchange) as futures_util::future::BoxFuture<'static, _>
    };
    HttpClient::simulated(AddressReach::Public, Arc::new(exchange))
}

/// Gives clients their own retry budget, like those of one process. Otherwise all worlds would share the cost
/// of the SDK's retries.
pub fn own_patience(clients: &AwsClients) -> AwsClients {
    macro_rules! own {
        ($client:ident, $sdk:ident) => {{
            let partition = RetryPartition::custom("own").token_bucket(TokenBucket::default()).build();
            let config = clients.$client.config().to_builder().retry_partition(partition);
            $sdk::Client::from_conf(config.build())
        }};
    }
    AwsClients {
        sns: own!(sns, aws_sdk_sns),
        sqs: own!(sqs, aws_sdk_sqs),
        s3: own!(s3, aws_sdk_s3),
        lambda: own!(lambda, aws_sdk_lambda),
        firehose: own!(firehose, aws_sdk_firehose),
    }
}

/// A run under way. If it is dropped without an answer, its instance has died.
struct LiveRunGuard {
    aws: SimAws,
    runs: Rc<RefCell<Vec<LiveRun>>>,
    index: usize,
    caller: Caller,
}

impl LiveRunGuard {
    fn end(&self, kept: Vec<String>, stuck: u64) {
        let run = &mut self.runs.borrow_mut()[self.index];
        (run.kept, run.stuck) = (Some(kept), stuck);
    }
}

impl Drop for LiveRunGuard {
    fn drop(&mut self) {
        let to = self.aws.journal(<[SimRecord]>::len);
        let run = &mut self.runs.borrow_mut()[self.index];
        (run.to, run.ended) = (to, self.aws.clock().millis());
        if run.kept.is_none() {
            self.caller.cut();
        }
    }
}

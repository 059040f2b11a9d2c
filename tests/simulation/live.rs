//! The life of a world: the real function on its SDK clients, in the simulated account, until nothing is left to do.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_lambda_events::sqs::SqsEvent;
use aws_sdk_sqs::config::retry::{RetryPartition, TokenBucket};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::{Value, json};
use sim::lambda::{Batch, FunctionSettings, Mapping, MappingSettings, Outcome, Ran};
use sim::s3::Condition;
use sim::sns::{Protocol, Subscription, TopicSettings};
use sim::sqs::QueueSettings;
use sim::{
    Attribute, Aws, Call, Caller, Clock, Entry, EntryFault, Fault, Faults, Millis, Record, Service, arn,
};
use sns_redrive::clients::Clients;
use sns_redrive::clock::Clock as FunctionClock;
use sns_redrive::function::Function;
use sns_redrive::settings::Settings;

use crate::world::{
    ArchiveKind, Document, HOUR, How, Kind, Operator, Order, Queue, SECOND, State, Target, World, weather,
};

/// A story: everything that happened.
pub struct Story {
    pub journal: Vec<Record>,
    pub digest: String,
    /// When the story began.
    pub start: Millis,
    pub runs: Vec<Run>,
    pub disturbances: Vec<Disturbance>,
    /// How many calls the function made.
    pub calls: usize,
    /// Bodies of archived objects, by place.
    pub archived: Vec<(String, String)>,
}

/// One invocation of the function.
#[derive(Debug, Clone)]
pub struct Run {
    pub caller: Arc<str>,
    pub ids: Vec<Arc<str>>,
    pub began: Millis,
    pub ended: Millis,
    /// The part of the journal that it lies in.
    pub from: usize,
    pub to: usize,
    /// What it returned; nothing where it did not come to its end.
    pub kept: Option<Vec<String>>,
}

/// A call with which something went wrong.
#[derive(Debug, Clone)]
pub struct Disturbance {
    pub at: Millis,
    pub call: Call,
    pub fault: Fault,
}

/// The names that the stories know.
pub const DLQ: &str = "dlq";
pub const REQUEUE: &str = "requeue";
pub const ARCHIVE: &str = "archive";
pub const TOPIC: &str = "orders";
const CONTROL: &str = "control";

/// Returns the text in a message by which its letter is known.
pub fn token(letter: usize) -> String {
    format!("letter-{letter:03}.")
}

/// Returns the name of a subscriber's endpoint.
pub fn endpoint(world: &World, subscriber: usize) -> String {
    match world.subscribers[subscriber].kind {
        Kind::Queue => world.name(&format!("worker-{subscriber}")),
        Kind::Function => format!("notifier-{subscriber}"),
        Kind::Stream => format!("stream-{subscriber}"),
    }
}

/// Returns the last part of a subscription's ARN.
pub fn subscription(subscriber: usize) -> String {
    format!("subscription-{subscriber}")
}

/// Lives through a world.
pub fn live(world: &World) -> Story {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    // The SDK's jitter is part of the world.
    fastrand::seed(world.seed);
    // The account's clock is the runtime's only if it begins within.
    runtime.unwrap().block_on(async { Life::new(world).live().await })
}

struct Life<'w> {
    world: &'w World,
    aws: Aws,
    start: Millis,
    hook: Arc<Hook>,
    idle: RefCell<Vec<Instance>>,
    instances: Cell<usize>,
    runs: Rc<RefCell<Vec<Run>>>,
}

/// An instance of the function.
struct Instance {
    caller: Caller,
    function: Function,
    skew: Millis,
}

/// What decides about faults.
struct Hook {
    world: World,
    start: Millis,
    rng: Mutex<Rng>,
    calls: Mutex<usize>,
    disturbances: Mutex<Vec<Disturbance>>,
}

impl<'w> Life<'w> {
    fn new(world: &'w World) -> Self {
        let aws = Aws::new(Clock::tokio("2026-11-01T12:00:00Z".parse().unwrap()), world.seed);
        let start = aws.clock().millis();
        let hook = Arc::new(Hook {
            world: world.clone(),
            start,
            rng: Mutex::new(Rng::with_seed(world.seed ^ 0xfa)),
            calls: Mutex::default(),
            disturbances: Mutex::default(),
        });
        let (asked, clock) = (Arc::clone(&hook), aws.clock().clone());
        aws.set_faults(Faults::new(move |call| asked.fault(call, clock.millis())));
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
        let Queue { retention, visibility, whole_group, duplicates, lag } = world.queue;
        let queue = QueueSettings {
            retention: i64::try_from(retention).unwrap(),
            visibility: i64::try_from(visibility).unwrap(),
            whole_group,
            duplicates,
            lag,
            shuffled: (!world.fifo).then_some(world.seed),
            ..QueueSettings::default()
        };
        let other =
            QueueSettings { retention: 100 * 86_400, content_based: true, ..QueueSettings::default() };
        self.aws.act("world", |it, _| {
            it.sqs.create(&world.name(DLQ), queue.clone());
            it.sqs.create(&world.name(REQUEUE), queue);
            it.sqs.create(&world.name(ARCHIVE), other.clone());
            it.s3.create(ARCHIVE);
            it.sns.create(&world.name(TOPIC), TopicSettings::default());
            it.sqs.create(&world.name("witness"), other.clone());
            for (index, subscriber) in world.subscribers.iter().enumerate() {
                let name = endpoint(world, index);
                match subscriber.kind {
                    Kind::Queue => it.sqs.create(&name, other.clone()),
                    Kind::Function => {
                        it.lambda.create(&name, FunctionSettings::default(), |_| Ran::ok("null"));
                    }
                    Kind::Stream => it.firehose.create(&name),
                }
            }
        });
    }

    async fn live(self) -> Story {
        let last = self.world.letters.iter().map(|plan| plan.at).max().unwrap_or(0);
        let end = last + self.world.retention() * if self.world.requeue.is_some() { 2 } else { 1 } + HOUR;
        let dlq = self.mapping(DLQ);
        let requeue = self.mapping(REQUEUE);
        let run = |batch| Box::pin(self.invoke(batch));
        let all = async { tokio::join!(self.publish(), self.operate(), dlq.run(run), requeue.run(run)) };
        let _ = tokio::time::timeout(Duration::from_millis(u64::try_from(end).unwrap()), all).await;
        self.story()
    }

    fn story(self) -> Story {
        let archived = self.aws.act("world", |it, _| {
            let objects = it.s3.objects(ARCHIVE).into_iter().flatten();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let letters = objects.filter(|(key, _)| !key.starts_with(CONTROL));
            letters.map(|(key, object)| (format!("{ARCHIVE}/{key}"), text(&object.bytes))).collect()
        });
        let digest = self.aws.digest();
        Story {
            journal: self.aws.take_journal(),
            digest,
            start: self.start,
            runs: self.runs.take(),
            disturbances: std::mem::take(&mut *self.hook.disturbances.lock().unwrap()),
            calls: *self.hook.calls.lock().unwrap(),
            archived,
        }
    }

    fn mapping(&self, queue: &str) -> Mapping {
        let world = self.world;
        let settings = MappingSettings {
            batch_size: world.mapping.batch,
            window: Duration::from_secs(world.mapping.window),
            concurrency: world.mapping.concurrency,
            timeout: Duration::from_secs(world.mapping.timeout),
            allow_loops: true,
            ..MappingSettings::new(&world.name(queue), "redrive")
        };
        Mapping::new(&self.aws, settings)
    }

    /// Publishes the messages, whose deliveries fail at once.
    async fn publish(&self) {
        let begun = tokio::time::Instant::now();
        for (number, plan) in self.world.letters.iter().enumerate() {
            tokio::time::sleep_until(begun + Duration::from_millis(u64::try_from(plan.at).unwrap())).await;
            let mut entry = Entry::new("", format!("{{\"order\":\"{}\"}}", token(number)))
                .with("tenant", Attribute::string("gold"));
            if self.world.fifo {
                entry = entry.fifo(&format!("group-{}", plan.group), &token(number));
            }
            self.aws.act("world", |it, _| self.subscribe(&mut it.sns, false));
            self.aws.act("publisher", |it, cx| it.publish(cx, &self.world.name(TOPIC), &entry)).unwrap();
            self.aws.act("world", |it, _| self.subscribe(&mut it.sns, true));
        }
        std::future::pending::<()>().await;
    }

    /// Gives orders, and wakes what the lists name.
    async fn operate(&self) {
        let Operator { writes, wakes, .. } = &self.world.operator;
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

    fn write(&self, document: Document) {
        let now = self.aws.clock().now();
        let text = match document {
            Document::Broken => "{".to_owned(),
            Document::Empty => json!({ "version": 1, "orders": [] }).to_string(),
            Document::Order(Order { action, letter, lasts }) => {
                let pattern = letter.map_or_else(
                    || json!({ "origin": [{ "exists": true }] }),
                    |letter| json!({ "message": { "order": [token(letter)] } }),
                );
                let until = lasts.map(|lasts| now + SignedDuration::from_millis(lasts));
                let mut order = json!({ "id": now, "do": action.name(), "match": pattern, "at": now,
                    "by": "operator", "why": "it is mended" });
                order.as_object_mut().unwrap().extend(until.map(|until| ("until".to_owned(), json!(until))));
                json!({ "version": 1, "orders": [order] }).to_string()
            }
        };
        let key = (ARCHIVE, &*format!("{CONTROL}/orders.json"));
        self.aws
            .act("operator", |it, cx| it.s3.put_object(cx, key, text.into_bytes(), Condition::None, None))
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
                // A FIFO queue refuses a handle that is old.
                let _ = it.sqs.change_message_visibility(cx, queue, handle, 0);
            }
        });
    }

    /// Subscribes everybody, as they are while SNS delivers or as the function finds them.
    fn subscribe(&self, sns: &mut sim::sns::Sns, found: bool) {
        let world = self.world;
        let topic = world.name(TOPIC);
        for (index, subscriber) in world.subscribers.iter().enumerate() {
            let name = endpoint(world, index);
            let (protocol, service, resource) = match subscriber.kind {
                Kind::Queue => (Protocol::Sqs, "sqs", name),
                Kind::Function => (Protocol::Lambda, "lambda", format!("function:{name}")),
                Kind::Stream => (Protocol::Firehose, "firehose", format!("deliverystream/{name}")),
            };
            let mut one = Subscription::new(&topic, &subscription(index), protocol, &arn(service, &resource))
                .dead_letters(&world.name(DLQ));
            one.raw = subscriber.raw;
            if found {
                match subscriber.state {
                    State::Confirmed => {}
                    State::Elsewhere => one = one.dead_letters(&world.name("other-dlq")),
                    State::Pending => one.pending = true,
                    State::Gone => {
                        sns.unsubscribe(&one.arn);
                        continue;
                    }
                }
            }
            sns.subscribe(one);
        }
        if world.target == Target::Topic {
            sns.subscribe(Subscription::new(&topic, "witness", Protocol::Sqs, &arn("sqs", "witness")));
        }
    }

    /// Runs the function for one batch, on an instance that is idle or new.
    async fn invoke(&self, batch: Batch) -> Outcome {
        let idle = self.idle.borrow_mut().pop();
        let instance = idle.unwrap_or_else(|| self.instance());
        let run = self.begin(&instance, &batch);
        let event: SqsEvent = serde_json::from_str(&batch.event).unwrap();
        let deadline = u64::try_from(batch.deadline + instance.skew).unwrap();
        let answer = {
            let handling = Box::pin(instance.function.handle(event, &batch.request_id, deadline));
            tokio::select! {
                biased;
                () = instance.caller.gone() => None,
                answer = handling => Some(answer.unwrap()),
            }
        };
        let Some(answer) = answer else { return Outcome::Died };
        run.end(answer.batch_item_failures.iter().map(|item| item.item_identifier.clone()).collect());
        self.idle.borrow_mut().insert(0, instance);
        Outcome::Answer(serde_json::to_string(&answer).unwrap())
    }

    fn begin(&self, instance: &Instance, batch: &Batch) -> Running {
        let now = self.aws.clock().millis();
        let from = self.aws.journal(<[Record]>::len);
        self.runs.borrow_mut().push(Run {
            caller: Arc::clone(&instance.caller.id),
            ids: batch.messages.iter().map(|message| Arc::clone(&message.id)).collect(),
            began: now,
            ended: now,
            from,
            to: from,
            kept: None,
        });
        let index = self.runs.borrow().len() - 1;
        Running { aws: self.aws.clone(), runs: Rc::clone(&self.runs), index, caller: instance.caller.clone() }
    }

    fn instance(&self) -> Instance {
        let world = self.world;
        let number = self.instances.get();
        self.instances.set(number + 1);
        let caller = Caller::new(&format!("fn-{number}"));
        let clients = own_patience(&Clients::from_config(&sdk_config(&self.aws, &caller), false));
        let skew = world.mapping.skews[number % world.mapping.skews.len()];
        let clock = {
            let clock = self.aws.clock().clone();
            FunctionClock::from_fn(move || {
                clock.now().saturating_add(SignedDuration::from_millis(skew)).unwrap()
            })
        };
        let function = Function::new(self.settings(), clients, clock, Arc::new(|_| {}));
        Instance { caller, function, skew }
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

/// Returns the SDK's configuration as the function has it in Lambda, with the account in the place of the network.
pub fn sdk_config(aws: &Aws, caller: &Caller) -> SdkConfig {
    let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(Duration::from_secs(10));
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(sim::REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws.connector(caller))
        .retry_config(RetryConfig::standard().with_max_attempts(3))
        .timeout_config(timeouts.build())
        .build()
}

/// Gives clients retries of their own, as those of a process are: else all worlds would share what SDK's retries cost.
pub fn own_patience(clients: &Clients) -> Clients {
    macro_rules! own {
        ($client:ident, $sdk:ident) => {{
            let partition = RetryPartition::custom("own").token_bucket(TokenBucket::default()).build();
            let config = clients.$client.config().to_builder().retry_partition(partition);
            $sdk::Client::from_conf(config.build())
        }};
    }
    Clients {
        sns: own!(sns, aws_sdk_sns),
        sqs: own!(sqs, aws_sdk_sqs),
        s3: own!(s3, aws_sdk_s3),
        lambda: own!(lambda, aws_sdk_lambda),
        firehose: own!(firehose, aws_sdk_firehose),
    }
}

/// A run under way; where it is dropped without an answer, its instance has died.
struct Running {
    aws: Aws,
    runs: Rc<RefCell<Vec<Run>>>,
    index: usize,
    caller: Caller,
}

impl Running {
    fn end(&self, kept: Vec<String>) {
        self.runs.borrow_mut()[self.index].kept = Some(kept);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let to = self.aws.journal(<[Record]>::len);
        let run = &mut self.runs.borrow_mut()[self.index];
        (run.to, run.ended) = (to, self.aws.clock().millis());
        if run.kept.is_none() {
            self.caller.cut();
        }
    }
}

impl Hook {
    fn fault(&self, call: &Call, now: Millis) -> Fault {
        let at = now - self.start;
        let fault = match &*call.caller {
            "sns" => self.of_sns(call, at),
            "mapping" => self.of_mapping(call, at),
            "lambda" => Fault::Pass,
            _ => self.of_function(call, at),
        };
        if fault != Fault::Pass && &*call.caller != "sns" {
            let disturbance = Disturbance { at: now, call: call.clone(), fault: fault.clone() };
            self.disturbances.lock().unwrap().push(disturbance);
        }
        fault
    }

    fn chance(&self, percent: u8) -> bool {
        percent > 0 && self.rng.lock().unwrap().u8(..100) < percent
    }

    /// A letter's first delivery fails for good; what the function publishes again meets the weather.
    fn of_sns(&self, call: &Call, at: Millis) -> Fault {
        if call.target == "witness" {
            return Fault::Pass;
        }
        let body = call.entries.first().map_or(call.body.as_slice(), |entry| entry.body.as_bytes());
        let again = String::from_utf8_lossy(body).contains("sns-redrive");
        let subscribers = self.world.subscribers.iter().enumerate();
        let mut of = subscribers.filter(|(index, _)| endpoint(&self.world, *index) == call.target);
        let is_up = of.next().is_some_and(|(_, one)| weather(&one.weather, at).is_none());
        if again && is_up { Fault::Pass } else { Fault::Denied }
    }

    fn of_mapping(&self, call: &Call, at: Millis) -> Fault {
        let (world, trouble) = (&self.world, &self.world.trouble);
        let is_off = world.mapping.off.iter().any(|(from, to)| (*from..*to).contains(&at));
        match call.operation.as_str() {
            "Invoke" if is_off || self.chance(trouble.throttled) => Fault::Throttle,
            "DeleteMessageBatch" if self.chance(trouble.delete_fails) => {
                Fault::Entries(vec![(0, EntryFault::service("InternalError", "Try again."))])
            }
            _ => Fault::Pass,
        }
    }

    fn of_function(&self, call: &Call, at: Millis) -> Fault {
        let (world, trouble) = (&self.world, &self.world.trouble);
        let number = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls - 1
        };
        if let Some((_, after)) = world.cut_at.filter(|(at, _)| *at == number) {
            return if after { Fault::CutAfter } else { Fault::CutBefore };
        }
        if self.chance(trouble.cut) {
            return if self.chance(50) { Fault::CutAfter } else { Fault::CutBefore };
        }
        let fault = self.of_service(call, at);
        if self.chance(trouble.slow) {
            let wait = self.rng.lock().unwrap().i64(0..8 * SECOND);
            return fault.after(Duration::from_millis(u64::try_from(wait).unwrap()));
        }
        fault
    }

    fn of_service(&self, call: &Call, at: Millis) -> Fault {
        let (world, trouble) = (&self.world, &self.world.trouble);
        if is_to_archive(world, call) && call.operation != "GetQueueAttributes" {
            let fails = self.chance(trouble.archive_fails).then_some(How::Down);
            return weather(&world.archive_weather, at).or(fails).map_or(Fault::Pass, |how| fault(how, call));
        }
        let reads = ["GetQueueAttributes", "GetSubscriptionAttributes", "ListSubscriptions"];
        if call.operation == "GetSubscriptionAttributes" && self.chance(trouble.lookups_hang) {
            return Fault::HangBefore;
        }
        if reads.contains(&call.operation.as_str()) {
            return if self.chance(trouble.reads_fail) { Fault::Unavailable } else { Fault::Pass };
        }
        if call.operation.starts_with("ChangeMessageVisibility") {
            let fails = self.chance(trouble.hide_fails);
            return if fails { fault(How::EachFails, call) } else { Fault::Pass };
        }
        let name = call.target.as_str();
        let subscribers = world.subscribers.iter().enumerate();
        let mut of = subscribers.filter(|(index, _)| {
            world.target == Target::Topic && call.service == Service::Sns || endpoint(world, *index) == name
        });
        if let Some(how) = of.next().and_then(|(_, one)| weather(&one.weather, at)) {
            // SNS itself takes what it cannot deliver.
            if world.target == Target::Origin || how != How::Never {
                return fault(how, call);
            }
        }
        if self.chance(trouble.lost) { Fault::ResetAfter } else { Fault::Pass }
    }
}

/// Returns whether a call is one of the archive's.
pub fn is_to_archive(world: &World, call: &Call) -> bool {
    call.service == Service::S3 || (call.service == Service::Sqs && call.target == world.name(ARCHIVE))
}

/// Returns what an outage means for a call.
fn fault(how: How, call: &Call) -> Fault {
    match how {
        How::Down => Fault::Unavailable,
        How::Refused => Fault::NoConnection,
        How::Throttled => Fault::Throttle,
        How::Denied => Fault::Denied,
        How::Hangs => Fault::HangBefore,
        How::Slow => Fault::Pass.after(Duration::from_millis(7_500)),
        How::Mute => Fault::ResetAfter,
        How::EachFails if call.entries.is_empty() => Fault::Unavailable,
        How::EachFails => {
            let fails = EntryFault::service("InternalError", "Try again.");
            Fault::Entries((0..call.entries.len()).map(|index| (index, fails.clone())).collect())
        }
        How::Never => match call.service {
            Service::Lambda => Fault::refuse(400, "InvalidRequestContentException", "no"),
            Service::Firehose => Fault::refuse(400, "ValidationException", "no"),
            _ => Fault::refuse(400, "InvalidParameterValue", "no"),
        },
    }
}

//! Tests of replay: archived letters are delivered again, each once, in steps, whatever breaks off.

mod brake;
mod claims;
mod crashes;
mod event;
mod failures;
mod fifo;
mod given_letters;
mod going_on;
mod in_process;
mod in_the_requeue;
mod judgement;
mod plan;
mod redriver;
mod rounds;
mod steps;
mod successors;
mod what_is_sent;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_sqs::config::{Credentials, Region, SharedCredentialsProvider};
use proptest::prelude::*;
use redrive_archive::ArchiveRecord;
use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock;
use redrive_aws::log::{LogFormat, subscriber};
use redrive_core::batch::ArchiveContext;
use redrive_core::letter::{Letter, MARK_ATTRIBUTE, SqsMessage, TrustedOrigins};
use redrive_core::policy::{ArchiveReason, Policy};
use redrive_replay::{
    ArchiveReplayer, EventRequest, InputRecord, RecordLocation, ReplayControl, ReplayEnvironment,
    ReplayError, ReplayRequest, ReplaySource, ReplayState, ReplayStatus, ResumeRequest,
};
use redrive_sim::sqs::QueueSettings;
use redrive_sim::{
    Caller, FaultHook, SimAttribute, SimAttributeValue, SimAws, SimCall, SimFault, SimPayload,
};
use redrive_support::{
    BILLING, DLQ, FIFO_DLQ, FIFO_REQUEUE, NOW, REQUEUE, RecordBuilder, TOPIC, TestLog, WORKER, arn, at,
    digest, letter_id, made_for,
};
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;

/// The present in these tests: an hour after the letters were archived.
const START: i64 = NOW + 3_600_000;

/// The prefix of the archive. [`CONTROL`] is the prefix of the objects that replays store.
const ARCHIVE: &str = "dead-letters";
const CONTROL: &str = "dead-letters-control";

/// An account with an archive and a requeue, on tokio's clock, which only moves with sleeps.
#[derive(Clone)]
struct ArchiveWorld {
    aws: SimAws,
    requeue: &'static str,
    /// The milliseconds by which the clock of the replaying machine is ahead.
    skew: i64,
    workers: usize,
    /// `true` if letters stay in the requeue. Otherwise queues say that they are empty, as if the function
    /// had received all letters.
    stay: bool,
    /// The fault of each call that [`faults`](Self::faults) lets pass.
    usual: Arc<dyn Fn(&SimCall) -> SimFault + Send + Sync>,
}

/// The observer of a replay.
#[derive(Default)]
struct TestObserver {
    /// The number of sent letters at which it stops.
    stop_at: Option<u64>,
    stopped: AtomicBool,
    left_out: Mutex<Vec<String>>,
    seen: Mutex<Vec<(ReplayStatus, u64)>>,
}

impl ReplayControl for TestObserver {
    fn stop(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn progress(&self, state: &ReplayState) {
        self.seen.lock().unwrap().push((state.status, state.counts.sent));
        if self.stop_at.is_some_and(|at| state.counts.sent >= at) {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    fn left_out(&self, at: &RecordLocation, why: &str) {
        self.left_out.lock().unwrap().push(format!("{at} {why}"));
    }
}

impl ArchiveWorld {
    fn new() -> Self {
        let aws = SimAws::new(redrive_sim::SimClock::tokio(at(START)), 1);
        aws.act("operator", |services, _| {
            services.s3.create("my-bucket");
            let tags = BTreeMap::from([("sns-redrive".to_owned(), "requeue".to_owned())]);
            let requeue = QueueSettings { tags, retention: 1_209_600, ..QueueSettings::default() };
            for name in ["payments-requeue", "payments-requeue.fifo"] {
                services.sqs.create(name, requeue.clone());
            }
            for name in ["payments-dlq", "payments-dlq.fifo", "payments-billing"] {
                services.sqs.create(name, QueueSettings::default());
            }
        });
        let world = Self {
            aws,
            requeue: REQUEUE,
            skew: 0,
            workers: 3,
            stay: false,
            usual: Arc::new(|_| SimFault::Pass),
        };
        world.no_faults();
        world
    }

    fn fifo() -> Self {
        Self { requeue: FIFO_REQUEUE, ..Self::new() }
    }

    /// Returns an archive with the letters `0`, `1` and so on, in one object.
    fn with_letters(count: usize) -> Self {
        let world = Self::new();
        world.archive("a", &posts(count));
        world
    }

    /// Adds an object to the archive.
    fn archive(&self, name: &str, posts: &[RecordBuilder]) {
        self.put(&indexed(name, posts.len()), &posts.iter().map(line).collect::<String>(), NOW);
    }

    fn archive_lines(&self, name: &str, lines: &str) {
        self.put(&object(name), lines, NOW);
    }

    /// Adds an object that is stored at this moment.
    fn put(&self, key: &str, text: &str, stored: i64) {
        self.aws.act("operator", |services, _| {
            services.s3.place(("my-bucket", key), text.as_bytes(), stored);
        });
    }

    /// Adds an object of the given hour, counted from the beginning of October.
    fn put_hour(&self, hour: usize, lines: &str) {
        let (day, hour, letters) = (1 + hour / 24, hour % 24, lines.lines().count());
        let name = format!("202610{day:02}T{hour:02}0000Z-a.2-n{letters}-r0.jsonl");
        self.put(&format!("{ARCHIVE}/queue=payments-dlq/date=2026-10-{day:02}/{name}"), lines, NOW);
    }

    fn remove(&self, key: &str) {
        self.aws.act("operator", |services, _| services.s3.remove(("my-bucket", key)));
    }

    /// Returns the objects whose keys begin with `beginning`.
    fn objects(&self, beginning: &str) -> Vec<(String, String)> {
        self.aws.act("operator", |services, _| {
            let objects = services.s3.objects("my-bucket").into_iter().flatten();
            let objects = objects.filter(|(key, _)| key.starts_with(beginning));
            objects.map(|(key, it)| (key.clone(), String::from_utf8(it.bytes.clone()).unwrap())).collect()
        })
    }

    fn faults(&self, faults: impl Fn(&SimCall) -> SimFault + Send + Sync + 'static) {
        let (stay, usual) = (self.stay, Arc::clone(&self.usual));
        self.aws.set_faults(FaultHook::new(move |call| {
            let fault = match faults(call) {
                SimFault::Pass => usual(call),
                fault => fault,
            };
            if stay || call.operation != "GetQueueAttributes" { fault } else { of_an_empty_queue(fault) }
        }));
    }

    fn deny_its_dead_letter_queue(&self) {
        self.faults(|call| {
            let denied = call.operation == "GetQueueAttributes" && call.target == "payments-dlq";
            if denied { SimFault::Denied } else { SimFault::Pass }
        });
    }

    fn no_faults(&self) {
        self.faults(|_| SimFault::Pass);
    }

    fn clients(&self, caller: &Caller) -> AwsClients {
        self.clients_with(caller, RetryConfig::disabled())
    }

    fn clients_with(&self, caller: &Caller, retry: RetryConfig) -> AwsClients {
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(redrive_sim::REGION))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(self.aws.connector(caller))
            .retry_config(retry)
            .build();
        AwsClients::from_config(&config, false)
    }

    fn parts(&self, caller: &Caller) -> ReplayEnvironment {
        let (clock, skew) = (self.aws.clock().clone(), self.skew);
        ReplayEnvironment {
            clients: self.clients(caller),
            bucket: "my-bucket".to_owned(),
            prefix: ARCHIVE.to_owned(),
            control_bucket: "my-bucket".to_owned(),
            control_prefix: CONTROL.to_owned(),
            requeue: arn(self.requeue),
            clock: InstanceClock::from_fn(move || at(clock.now().as_millisecond() + skew)),
            by: caller.id.to_string(),
            workers: self.workers,
        }
    }

    fn replay_by(&self, caller: &Caller) -> ArchiveReplayer {
        ArchiveReplayer::new(self.parts(caller))
    }

    fn replay(&self) -> ArchiveReplayer {
        self.replay_by(&Caller::new("somebody"))
    }

    async fn run(&self, request: Value) -> Result<ReplayState, ReplayError> {
        self.run_by(&TestObserver::default(), request).await
    }

    async fn run_by(&self, operator: &TestObserver, request: Value) -> Result<ReplayState, ReplayError> {
        self.replay().run(&begins(&wish(request)), &ReplaySource::Archive, None, operator).await
    }

    async fn resume(&self, id: &str) -> Result<ReplayState, ReplayError> {
        self.replay().run(&resumes(&resume(id)), &ReplaySource::Archive, None, &TestObserver::default()).await
    }

    /// Runs a replay whose worker is cut off at the `nth` request that matches, before or after its effect.
    /// Returns `None` if it was cut off.
    async fn crash(
        &self,
        which: fn(&SimCall) -> bool,
        nth: usize,
        taken: bool,
        run: impl AsyncFnOnce(ArchiveReplayer) -> Result<ReplayState, ReplayError>,
    ) -> Option<Result<ReplayState, ReplayError>> {
        let caller = Caller::new("crashing");
        let calls = AtomicUsize::new(0);
        self.faults(move |call| {
            let counts = &*call.caller == "crashing" && which(call);
            match counts && calls.fetch_add(1, Ordering::Relaxed) == nth {
                false => SimFault::Pass,
                true if taken => SimFault::CutAfter,
                true => SimFault::CutBefore,
            }
        });
        let replay = self.replay_by(&caller);
        let ended = tokio::select! {
            biased;
            ended = run(replay) => Some(ended),
            () = caller.gone() => None,
        };
        self.no_faults();
        ended
    }

    /// Returns the messages in the requeue, in the order in which they came.
    fn sent(&self) -> Vec<Arc<SimPayload>> {
        let queue = self.requeue.rsplit(':').next().unwrap();
        self.aws.act("operator", |services, _| {
            let queue = services.sqs.queue(queue).unwrap();
            queue.contents().map(|(_, payload)| Arc::clone(payload)).collect()
        })
    }

    fn bodies(&self) -> Vec<String> {
        self.sent().iter().map(|payload| payload.body.clone()).collect()
    }

    /// Returns the bodies, in the order of their numbers.
    fn numbers(&self) -> Vec<String> {
        let mut bodies = self.bodies();
        bodies.sort_by_key(|body| body.parse::<usize>().unwrap());
        bodies
    }

    fn calls(&self, operation: &str) -> Vec<Arc<SimCall>> {
        self.aws.calls().into_iter().filter(|call| call.operation == operation).collect()
    }
}

/// Archives a letter that a replay has sent, as the function does that gives it up after the replay. `stored` is
/// when S3 stores it, `archived` the time by the function's clock.
fn archive_again(aws: &SimAws, entry: &redrive_sim::SimEntry, stored: i64, archived: i64) {
    let mut post =
        RecordBuilder::raw(&format!("back-{}", entry.body), &entry.body).queue(REQUEUE).sent(stored);
    for (name, attribute) in &entry.attributes {
        post = post.attribute(name, &attribute.kind, &attribute.value.text());
    }
    archive_replayed(aws, &post, stored, archived);
}

/// Archives a letter whose mark says that it was replayed.
fn archive_replayed(aws: &SimAws, post: &RecordBuilder, stored: i64, archived: i64) {
    let name = at(archived).strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
    let letter = digest(&post.body());
    let key = format!(
        "{ARCHIVE}/queue=payments-dlq/date=2026-11-01/{name}-{letter}.2-n1-r1.exhausted.none.1.jsonl"
    );
    let line = record_at(post, archived).to_line().unwrap();
    aws.act("function", |services, _| services.s3.place(("my-bucket", &key), line.as_bytes(), stored));
}

/// Returns the answer of a queue without letters, if it would answer.
fn of_an_empty_queue(fault: SimFault) -> SimFault {
    match fault {
        SimFault::Pass => {
            let empty = json!({ "Attributes": { "ApproximateNumberOfMessages": "0" } });
            SimFault::Nonsense(200, empty.to_string())
        }
        SimFault::Slow(wait, then) => of_an_empty_queue(*then).after(wait),
        fault => fault,
    }
}

/// Returns the wish for a new replay.
fn begins(request: &ReplayRequest) -> EventRequest {
    EventRequest::Begin(Box::new(request.clone()))
}

/// Returns the wish to continue a replay.
fn resumes(resume: &ResumeRequest) -> EventRequest {
    EventRequest::Resume(resume.clone())
}

fn resume(id: &str) -> ResumeRequest {
    ResumeRequest { id: id.to_owned(), rate: None, threshold: None, settle_seconds: None, why: None }
}

/// Returns a request that sends without waiting.
fn wish(mut request: Value) -> ReplayRequest {
    if request.get("rate").is_none() {
        request["rate"] = 10_000.into();
    }
    if request.get("select").is_none() {
        request["all"] = true.into();
    }
    ReplayRequest::from_json(request).unwrap()
}

/// Returns the key of an object that was archived an hour ago.
fn object(name: &str) -> String {
    format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T120000Z-{name}.jsonl")
}

/// Returns such a key with an index that tells the number of letters.
fn indexed(name: &str, letters: usize) -> String {
    object(&format!("{name}.2-n{letters}-r0"))
}

fn posts(count: usize) -> Vec<RecordBuilder> {
    (0..count).map(|number| plain(&number.to_string())).collect()
}

/// Returns a letter whose body is its id.
fn plain(id: &str) -> RecordBuilder {
    RecordBuilder::raw(id, id)
}

/// Begins to log, until the guard is dropped.
fn logged(level: LevelFilter) -> (TestLog, DefaultGuard) {
    let log = TestLog::default();
    let writer = log.clone();
    let subscriber = subscriber(LogFormat::Json, level, move || writer.clone());
    (log, tracing::subscriber::set_default(subscriber))
}

fn record_at(post: &RecordBuilder, archived: i64) -> ArchiveRecord {
    let event = serde_json::from_value(redrive_support::event([post])).unwrap();
    let message = SqsMessage::all_of(event, at(archived)).unwrap().remove(0);
    let letter = if post.queue.contains("requeue") {
        Letter::parse_requeued(message, TrustedOrigins::none())
    } else {
        Letter::parse(message)
    };
    let context = ArchiveContext {
        reason: ArchiveReason::Exhausted,
        detail: None,
        rule: "default".to_owned(),
        target: None,
        retry: None,
        failure: None,
        override_id: None,
    };
    ArchiveRecord::of(&letter, &context, at(archived))
}

fn line(post: &RecordBuilder) -> String {
    record_at(post, NOW).to_line().unwrap()
}

fn mark_of(payload: &SimPayload) -> Value {
    serde_json::from_str(&payload.attributes[MARK_ATTRIBUTE].value.text()).unwrap()
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(future)
}

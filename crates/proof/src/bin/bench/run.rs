//! A function with its account, ready for events.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive_proof::{Sandbox, SandboxEnd};
use redrive_sim::sns::{Protocol, SimSubscription, TopicSettings};
use redrive_sim::sqs::{MAX_BYTES, PresetMessage, QueueSettings};
use redrive_sim::{Caller, FaultHook, SimAws, SimClock, SimEvent, SimFault, SimPayload, SocketServer};
use serde_json::Value;

use crate::letters::{QUEUE, SUBSCRIPTION, topic, topic_name};

/// The longest time of a start or an invocation; no invocation here takes a hundredth of it.
const MAX_INVOCATION_TIME: Duration = Duration::from_mins(5);

/// The name of the function as a caller.
const FUNCTION: &str = "function";

/// The queues, emptied after each invocation because nothing receives from them.
const QUEUES: [&str; 2] = ["payments-dlq", "payments-worker"];

/// The binaries under test.
pub(crate) struct BenchBinaries {
    /// The function.
    pub(crate) function: PathBuf,
    /// A function that only sends, to compare with.
    pub(crate) bare: Option<PathBuf>,
}

/// A process with its account.
pub(crate) struct BenchProcess {
    pub(crate) sandbox: Sandbox,
    aws: SimAws,
    _door: SocketServer,
    counts: BTreeMap<String, OperationCount>,
    logged: Arc<[AtomicUsize; 2]>,
}

/// The requests of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OperationCount {
    /// The number of requests.
    pub(crate) calls: usize,
    /// The number of entries of batch requests.
    pub(crate) entries: usize,
    /// The number of bytes of the requests' bodies.
    pub(crate) bytes: usize,
    /// The number of requests that the service refused.
    pub(crate) refused: usize,
}

impl BenchProcess {
    /// Starts the function with a policy.
    pub(crate) fn of_function(binary: &Path, policy: &Value, latency: Duration, topics: usize) -> Self {
        let variables = [
            ("REDRIVE_POLICY", policy.to_string()),
            ("ARCHIVE", "s3://my-bucket/dead-letters".to_owned()),
            ("CONTROL", "off".to_owned()),
        ];
        Self::start(binary, &variables, latency, topics)
    }

    /// Starts the bare function, which sends to a queue's URL or publishes to a topic.
    pub(crate) fn of_bare(binary: &Path, target: &str, latency: Duration) -> Self {
        Self::start(binary, &[("TARGET_ARN", target.to_owned())], latency, 1)
    }

    /// Returns the run with a subscriber that is cheap to deliver to: the fake's own work is not to be measured.
    pub(crate) fn with_raw_subscriber(self) -> Self {
        self.aws.act("bench", |it, _| {
            let subscription = it.sns.subscription_mut(&format!("{}:{SUBSCRIPTION}", topic(0)));
            subscription.expect("the topic's own").raw = true;
        });
        self
    }

    fn start(binary: &Path, variables: &[(&str, String)], latency: Duration, topics: usize) -> Self {
        let aws = account(latency, topics);
        let door = aws.listen(&Caller::new(FUNCTION)).expect("a port of loopback is free");
        Self::on(binary, variables, aws, door, "http")
    }

    /// Starts a function with TLS; chain and key are PEM.
    pub(crate) fn with_tls(binary: &Path, variables: &[(&str, String)], chain: &str, key: &str) -> Self {
        let aws = account(Duration::ZERO, 1);
        let door = aws.listen_tls(&Caller::new(FUNCTION), chain, key).expect("a port of loopback is free");
        Self::on(binary, variables, aws, door, "https")
    }

    fn on(
        binary: &Path,
        variables: &[(&str, String)],
        aws: SimAws,
        door: SocketServer,
        scheme: &str,
    ) -> Self {
        let host = door.address().replace("127.0.0.1", "localhost");
        let mut variables: Vec<_> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        variables.push(("AWS_ENDPOINT_URL".to_owned(), format!("{scheme}://{host}")));
        let mut sandbox = Sandbox::start(binary, &variables, Stdio::piped());
        let logged = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        // A thread reads the log, as Lambda does.
        let mut log = sandbox.take_log().expect("the log is a pipe");
        let counting = Arc::clone(&logged);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(count @ 1..) = log.read(&mut buffer) {
                let lines = buffer[..count].split(|byte| *byte == b'\n').count() - 1;
                counting[0].fetch_add(count, Ordering::Relaxed);
                counting[1].fetch_add(lines, Ordering::Relaxed);
            }
        });
        let started = sandbox.start_time(MAX_INVOCATION_TIME);
        assert!(started.is_some(), "{} does not start: {:?}", binary.display(), sandbox.broken());
        Self { sandbox, aws, _door: door, counts: BTreeMap::new(), logged }
    }

    /// Runs one invocation; returns how long it took, and how many letters stayed in the queue.
    pub(crate) fn invoke(&mut self, event: String) -> (Duration, usize) {
        let ended = self.sandbox.invoke(event, MAX_INVOCATION_TIME);
        self.count();
        match ended {
            SandboxEnd::Answer(answer, took) => {
                let answer: Value = serde_json::from_str(&answer).expect("an answer in JSON");
                let kept = answer["batchItemFailures"].as_array().map_or(0, Vec::len);
                (took, kept)
            }
            other => panic!("no answer: {other:?}"),
        }
    }

    /// Returns the bytes and lines that were logged since the last call.
    pub(crate) fn take_logged(&self) -> (usize, usize) {
        let [bytes, lines] = self.logged.as_ref();
        (bytes.swap(0, Ordering::Relaxed), lines.swap(0, Ordering::Relaxed))
    }

    /// Puts the messages of an event into their queue, in flight as they are while the function works.
    pub(crate) fn place(&self, event: &str) {
        let event: Value = serde_json::from_str(event).expect("an event in JSON");
        let now = self.aws.clock().millis();
        for record in event["Records"].as_array().into_iter().flatten() {
            let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            let placed = PresetMessage {
                id: text("messageId"),
                handle: text("receiptHandle"),
                payload: SimPayload { body: text("body"), ..SimPayload::default() },
                sender: "sns".to_owned(),
                sent: now,
                receives: 1,
                first_received: now,
                source: None,
            };
            let placed = self.aws.act("bench", |it, cx| it.sqs.place(cx, QUEUES[0], placed));
            placed.expect("the queue is there");
        }
    }

    /// Lets topics take messages as large as those of queues.
    pub(crate) fn allow_large_messages(&self) {
        let settings = TopicSettings { max_bytes: MAX_BYTES, ..TopicSettings::default() };
        self.aws.act("bench", |it, _| it.sns.create(&topic_name(0), settings));
    }

    /// Returns the requests since the last call, by operation.
    pub(crate) fn take_counts(&mut self) -> BTreeMap<String, OperationCount> {
        std::mem::take(&mut self.counts)
    }

    /// Counts the requests of an invocation and empties the account.
    fn count(&mut self) {
        for record in self.aws.take_journal() {
            let SimEvent::Answered { call, status, .. } = record.event else { continue };
            if &*call.caller == FUNCTION {
                let count = self.counts.entry(call.operation.clone()).or_default();
                count.calls += 1;
                count.entries += call.entries.len();
                count.bytes += call.bytes;
                count.refused += usize::from(status.is_none_or(|status| status >= 400));
            }
        }
        for queue in QUEUES {
            let purged = self.aws.act("bench", |it, cx| it.sqs.purge_queue(cx, queue));
            purged.expect("the queue is there");
        }
        let _ = self.aws.take_journal();
    }
}

/// Creates an account with a latency and so many topics, each with a queue subscribed.
fn account(latency: Duration, topics: usize) -> SimAws {
    let aws = SimAws::new(SimClock::real(), 1);
    aws.set_faults(FaultHook::new(move |_| {
        if latency.is_zero() { SimFault::Pass } else { SimFault::Pass.after(latency) }
    }));
    aws.act("bench", |it, _| {
        for name in QUEUES {
            let settings =
                QueueSettings { retention: 1_209_600, visibility: 360, ..QueueSettings::default() };
            it.sqs.create(name, settings);
        }
        it.s3.create("my-bucket");
        for number in 0..topics {
            let topic = topic_name(number);
            it.sns.create(&topic, TopicSettings::default());
            let one = SimSubscription::new(&topic, SUBSCRIPTION, Protocol::Sqs, QUEUE);
            it.sns.subscribe(one.dead_letters(QUEUES[0]));
        }
    });
    aws
}

//! A function on a sink, ready for events.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proof::{Ended, Sandbox, Sink, Subscribed};
use serde_json::Value;

use crate::letters::{DLQ, QUEUE, subscription, topic};

/// Lambda's longest run; no invocation here takes a hundredth of it.
const TIME: Duration = Duration::from_mins(5);

/// The binaries under test.
pub(crate) struct Binaries {
    /// The function.
    pub(crate) function: PathBuf,
    /// A function that only sends, to compare with.
    pub(crate) bare: Option<PathBuf>,
}

/// A process with its network.
pub(crate) struct Run {
    pub(crate) sink: Sink,
    pub(crate) sandbox: Sandbox,
    logged: Arc<[AtomicUsize; 2]>,
}

impl Run {
    /// The function with a policy.
    pub(crate) fn of_function(binary: &Path, policy: &Value, latency: Duration, topics: usize) -> Self {
        let variables =
            [("REDRIVE_POLICY", policy.to_string()), ("ARCHIVE", "s3://graveyard/dead-letters".to_owned())];
        Self::start(binary, &variables, latency, topics)
    }

    /// The bare function, sending to a queue's URL or publishing to a topic.
    pub(crate) fn of_bare(binary: &Path, target: &str, latency: Duration) -> Self {
        Self::start(binary, &[("TARGET_ARN", target.to_owned())], latency, 1)
    }

    fn start(binary: &Path, variables: &[(&str, String)], latency: Duration, topics: usize) -> Self {
        Self::on(binary, variables, Sink::start(latency, subscriptions(topics)), "http")
    }

    /// A function on a sink that is there already.
    pub(crate) fn on(binary: &Path, variables: &[(&str, String)], sink: Sink, scheme: &str) -> Self {
        let host = sink.address().replace("127.0.0.1", "localhost");
        let mut variables: Vec<_> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        variables.push(("AWS_ENDPOINT_URL".to_owned(), format!("{scheme}://{host}")));
        let mut sandbox = Sandbox::start(binary, &variables, Stdio::piped());
        let logged = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        // As in Lambda, somebody reads the log.
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
        let started = sandbox.start_time(TIME);
        assert!(started.is_some(), "{} does not start: {:?}", binary.display(), sandbox.broken());
        Self { sink, sandbox, logged }
    }

    /// One invocation: how long it took, and how many letters were kept in the queue.
    pub(crate) fn invoke(&mut self, event: String) -> (Duration, usize) {
        match self.sandbox.invoke(event, TIME) {
            Ended::Answer(answer, took) => {
                let answer: Value = serde_json::from_str(&answer).expect("an answer in JSON");
                let kept = answer["batchItemFailures"].as_array().map_or(0, Vec::len);
                (took, kept)
            }
            other => panic!("no answer: {other:?}"),
        }
    }

    /// The bytes and lines that were logged since the last time this was asked.
    pub(crate) fn take_logged(&self) -> (usize, usize) {
        let [bytes, lines] = self.logged.as_ref();
        (bytes.swap(0, Ordering::Relaxed), lines.swap(0, Ordering::Relaxed))
    }
}

/// Subscriptions of queues to so many topics.
pub(crate) fn subscriptions(topics: usize) -> Vec<Subscribed> {
    let one = |number| Subscribed {
        arn: subscription(number),
        topic: topic(number),
        endpoint: QUEUE.to_owned(),
        dlq: DLQ.to_owned(),
    };
    (0..topics).map(one).collect()
}

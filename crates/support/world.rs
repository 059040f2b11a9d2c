//! The whole function on an account.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_archive::Archive;
use redrive_aws::clock::InstanceClock;
use redrive_aws::delivery::AddressReach;
use redrive_aws::log::{LogFormat, subscriber};
use redrive_aws::settings::{OperatingMode, Settings};
use redrive_aws::signature::{CertificateReader, CertificateUrl};
use redrive_core::batch::IN_FLIGHT_LIMIT;
use redrive_core::failure::Failure;
use redrive_core::letter::{BadEvent, SqsEvent};
use redrive_core::policy::{Policy, VISIBILITY_CEILING};
use serde_json::Value;
use sns_redrive::function::RedriveFunction;
use sns_redrive::redrive::{Redrive, RedriveParts};
use tracing::level_filters::LevelFilter;

use super::{RecordBuilder, TestAccount, at, event};

/// A function with its surroundings.
pub struct FunctionWorld {
    pub cloud: TestAccount,
    function: RedriveFunction,
    lines: Arc<Mutex<String>>,
    level: LevelFilter,
    time: Duration,
}

/// The results of one invocation.
#[derive(Debug, Clone, PartialEq)]
pub struct TestInvocation {
    /// The ids in `batchItemFailures`, in their order.
    pub kept: Vec<String>,
    /// The log lines.
    pub log: Vec<Value>,
    /// The whole log, as it was written.
    pub text: String,
    /// The lines of metrics, as they were written.
    pub metrics: String,
}

impl FunctionWorld {
    /// Creates the function with these settings besides an archive in S3.
    pub fn new(settings: &[(&str, &str)]) -> Self {
        Self::on(TestAccount::new(), settings)
    }

    /// Creates the function with a policy.
    pub fn with_policy(policy: &Value) -> Self {
        Self::new(&[("REDRIVE_POLICY", &policy.to_string())])
    }

    /// Creates the function on an existing account.
    pub fn on(cloud: TestAccount, settings: &[(&str, &str)]) -> Self {
        let variable = |name: &str| {
            let given = settings.iter().find(|(variable, _)| *variable == name);
            let default = match name {
                "ARCHIVE" => Some("s3://my-bucket/dead-letters"),
                // Its calls would be among those that tests count.
                "CONTROL" => Some("off"),
                _ => None,
            };
            given.map(|(_, value)| *value).or(default).map(str::to_owned)
        };
        let settings = Settings::read(variable).unwrap();
        let lines = Arc::new(Mutex::new(String::new()));
        let clock = clock_of(&cloud);
        let sink = {
            let lines = Arc::clone(&lines);
            Arc::new(move |line: &str| lines.lock().unwrap().push_str(line))
        };
        let function = RedriveFunction::new(settings, cloud.clients(), clock, sink);
        Self { cloud, function, lines, level: LevelFilter::INFO, time: Duration::from_secs(30) }
    }

    /// Creates the function with a policy, and with certificates by URL from `fetch`.
    pub fn with_certificates(
        policy: &Value,
        fetch: impl Fn(&CertificateUrl) -> Result<String, Failure> + Send + Sync + 'static,
    ) -> Self {
        let world = Self::new(&[]);
        let clock = clock_of(&world.cloud);
        let clients = world.cloud.clients();
        let (bucket, prefix) = ("my-bucket".to_owned(), "dead-letters".to_owned());
        let parts = RedriveParts {
            policy: Policy::parse(&policy.to_string()).unwrap(),
            archive: Archive::S3 { s3: clients.s3.clone(), bucket, prefix },
            control: None,
            waiting_list: false,
            notice_topic: None,
            mode: OperatingMode::Active,
            schedule_from: None,
            requeue: None,
            in_flight_limit: IN_FLIGHT_LIMIT,
            ceiling: VISIBILITY_CEILING,
            certificates: CertificateReader::new(clock.clone(), move |url| std::future::ready(fetch(&url))),
            clients,
            reach: AddressReach::Public,
            instances: 1,
            clock,
        };
        world.map_redrive(|_| Redrive::new(parts))
    }

    /// Changes the part that handles batches.
    pub fn map_redrive(mut self, change: impl FnOnce(Redrive) -> Redrive) -> Self {
        self.function = self.function.map_redrive(change);
        self
    }

    /// Sets the log's level.
    pub fn log_level(mut self, level: LevelFilter) -> Self {
        self.level = level;
        self
    }

    /// Sets the time that Lambda gives to an invocation.
    pub fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Makes the clock follow that of the runtime from now on.
    pub fn let_time_run(&self) {
        self.cloud.aws.clock().run();
    }

    /// Sets the clock.
    pub fn set_now(&self, millis: i64) {
        self.cloud.aws.clock().set(at(millis));
    }

    /// Moves the clock forward.
    pub fn pass(&self, seconds: i64) {
        self.cloud.aws.clock().pass(Duration::from_secs(seconds.try_into().unwrap()));
    }

    /// Handles these messages.
    pub async fn run<'a>(&self, posts: impl IntoIterator<Item = &'a RecordBuilder>) -> TestInvocation {
        self.run_event(&event(posts)).await
    }

    /// Handles an event.
    pub async fn run_event(&self, event: &Value) -> TestInvocation {
        self.try_event(event).await.unwrap()
    }

    /// Handles an event that may be refused.
    pub async fn try_event(&self, event: &Value) -> Result<TestInvocation, BadEvent> {
        self.cloud.place(event);
        self.run_text(&event.to_string()).await
    }

    /// Handles an event as it is written.
    pub async fn run_text(&self, event: &str) -> Result<TestInvocation, BadEvent> {
        let event: SqsEvent = serde_json::from_str(event).unwrap();
        let log = TestLog::default();
        let writer = log.clone();
        let subscriber = subscriber(LogFormat::Json, self.level, move || writer.clone());
        let guard = tracing::subscriber::set_default(subscriber);
        let now = self.cloud.aws.clock().millis();
        let deadline = now + i64::try_from(self.time.as_millis()).unwrap();
        let answer = self.function.handle(event, "req-1", deadline.try_into().unwrap()).await;
        drop(guard);
        let text = log.text();
        let metrics = std::mem::take(&mut *self.lines.lock().unwrap());
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let is_handled = matches!(error, BadEvent::Unanswerable(_));
                assert!(is_handled || metrics.is_empty(), "metrics of an event that was not handled");
                return Err(error);
            }
        };
        Ok(TestInvocation {
            kept: answer.batch_item_failures.into_iter().map(|item| item.item_identifier).collect(),
            log: text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            text,
            metrics,
        })
    }
}

impl TestInvocation {
    /// Returns the log lines of letters.
    pub fn letters(&self) -> Vec<&Value> {
        self.log.iter().filter(|line| line["outcome"].is_string()).collect()
    }

    /// Returns the line of one letter.
    pub fn letter(&self, id: &str) -> &Value {
        let lines: Vec<_> = self.letters().into_iter().filter(|line| line["sqs.message_id"] == id).collect();
        assert_eq!(lines.len(), 1, "lines of letter {id}: {}", self.text);
        lines[0]
    }

    /// Returns the outcome of each letter, as `<message id> <outcome> [<reason>]`, in the order of the batch.
    pub fn outcomes(&self) -> Vec<String> {
        let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let outcome = |line: &&Value| {
            let words = ["sqs.message_id", "outcome", "reason"].map(|name| text(line, name));
            words.join(" ").trim_end().to_owned()
        };
        self.letters().iter().map(outcome).collect()
    }

    /// Returns one metric of the invocation, which is left out if it is zero.
    pub fn metric(&self, name: &str) -> u64 {
        self.metrics().get(name).map_or(0, |value| value.as_u64().unwrap())
    }

    /// Returns the metrics of the invocation.
    pub fn metrics(&self) -> Value {
        assert_eq!(self.metrics.lines().count(), 1, "{}", self.metrics);
        serde_json::from_str(&self.metrics).unwrap()
    }
}

/// Returns the account's clock as the function reads it.
fn clock_of(cloud: &TestAccount) -> InstanceClock {
    let clock = cloud.aws.clock().clone();
    InstanceClock::from_fn(move || clock.now())
}

/// A collector of log lines.
#[derive(Clone, Default)]
pub struct TestLog(Arc<Mutex<Vec<u8>>>);

impl TestLog {
    /// Returns the text that was written.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for TestLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! The function around [`Redrive`]: an event of Lambda in, Lambda's answer out, and the telling of
//! what happened in between. An event `{"replay": {...}}`, of a scheduler or from the console, goes to
//! [`Replay`] instead.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures_util::FutureExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::archive::Archive;
use crate::arn::Arn;
use crate::batch::{Mode, Report, response};
use crate::clients::Clients;
use crate::clock::Clock;
use crate::control;
use crate::delivery::{Dispatcher, HttpClient, Reach};
use crate::endpoint::HttpUrl;
use crate::failure::{Failure, FailureClass};
use crate::letter::BadEvent;
use crate::notices::Notices;
use crate::redrive::{Handled, Invocation, Parts, Redrive};
use crate::replay::{At, Control, Replay, ReplayError, Source, State, Wish};
use crate::settings::{ArchiveAt, ControlAt, Settings};
use crate::signature::{Certificates, MAX_CERTIFICATE_BYTES};
use crate::telemetry::{self, Run};

/// The function, ready to be called.
pub struct Function {
    redrive: Redrive,
    replay: Result<Replay, &'static str>,
    notices: Option<Notices>,
    namespace: String,
    clock: Clock,
    metrics_to: Sink,
}

/// What the function is called with.
#[derive(Debug, Deserialize)]
pub struct Event {
    #[serde(rename = "Records")]
    records: Option<Vec<SqsMessage>>,
    replay: Option<Value>,
}

/// What the function answers.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// Which messages Lambda must leave alone.
    Batch(SqsBatchResponse),
    /// How a replay stands.
    Replay(Box<State>),
    /// Another replay is at work on the same letters: no error of the function, for which nobody need be called.
    Busy {
        /// Always `busy`.
        status: &'static str,
        /// Which one.
        because: String,
    },
}

/// Why an invocation fails as a whole.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// It is no event of an SQS event source mapping.
    #[error(transparent)]
    Event(#[from] BadEvent),
    /// It is neither that nor a replay, or both.
    #[error("the event must have either Records or replay")]
    Unknown,
    /// A replay cannot go on.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Where the lines of metrics go. They are written whole and raw, past the log's own format.
pub type Sink = Arc<dyn Fn(&str) + Send + Sync>;

impl Function {
    /// Builds the parts and joins them.
    #[must_use]
    pub fn new(settings: Settings, clients: Clients, clock: Clock, metrics_to: Sink) -> Self {
        let reach = if settings.allow_loopback_http { Reach::Private } else { Reach::Public };
        let requeue = settings.requeue.clone();
        let place = settings.archive.to_string();
        let notices = settings.notice_topic.map(|topic| Notices::new(clients.sns.clone(), topic, place));
        let archive = match settings.archive {
            ArchiveAt::S3 { bucket, prefix } => Archive::S3 { s3: clients.s3.clone(), bucket, prefix },
            ArchiveAt::Queue(queue) => Archive::Queue { dispatcher: Dispatcher::new(&clients, reach), queue },
        };
        let replay = replay(requeue, &archive, settings.control.as_ref(), &clients, &clock);
        let parts = Parts {
            policy: settings.policy,
            archive,
            control: settings.control.map(|ControlAt { bucket, prefix }| control::Control {
                s3: clients.s3.clone(),
                bucket,
                prefix,
            }),
            waiting_list: settings.waiting_list,
            mode: settings.mode,
            requeue: settings.requeue,
            in_flight_limit: settings.in_flight_limit,
            ceiling: settings.max_hide_seconds,
            certificates: certificates(clock.clone()),
            clients,
            reach,
            instances: settings.max_concurrency,
            clock: clock.clone(),
        };
        Self {
            redrive: Redrive::new(parts),
            replay,
            notices,
            namespace: settings.metrics_namespace,
            clock,
            metrics_to,
        }
    }

    /// The same function with another [`Redrive`], such as one of other certificates.
    #[must_use]
    pub fn map_redrive(mut self, change: impl FnOnce(Redrive) -> Redrive) -> Self {
        self.redrive = change(self.redrive);
        self
    }

    /// Answers one event of either kind. `deadline_ms` is Lambda's, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`FunctionError`]; what happens to single letters is never one.
    pub async fn answer(
        &self,
        event: Event,
        request_id: &str,
        deadline_ms: u64,
    ) -> Result<Answer, FunctionError> {
        // Boxed: futures inside of futures inside of the runtime's are too deep for the compiler.
        match event {
            Event { replay: Some(request), records: None } => {
                match self.replay(request, request_id, deadline_ms).boxed_local().await {
                    Ok(state) => Ok(Answer::Replay(Box::new(state))),
                    Err(error @ (ReplayError::Busy(_) | ReplayError::TakenUp(_))) => {
                        telemetry::replay_busy(request_id, &error);
                        Ok(Answer::Busy { status: "busy", because: error.to_string() })
                    }
                    Err(error) => {
                        telemetry::replay_failed(request_id, &error);
                        Err(error.into())
                    }
                }
            }
            Event { records: Some(records), replay: None } => {
                let mut event = SqsEvent::default();
                event.records = records;
                Ok(Answer::Batch(self.handle(event, request_id, deadline_ms).boxed_local().await?))
            }
            _ => Err(FunctionError::Unknown),
        }
    }

    async fn replay(&self, request: Value, request_id: &str, deadline_ms: u64) -> Result<State, ReplayError> {
        let refused = |why: String| ReplayError::Request(vec![why]);
        let wish = Wish::from_json(request).map_err(ReplayError::Request)?;
        let replay = self.replay.as_ref().map_err(|why| refused((*why).to_owned()))?;
        let is_dry_run = matches!(&wish, Wish::Begin(request) if request.dry_run);
        if self.redrive.mode() == Mode::Observe && !is_dry_run {
            return Err(refused("REDRIVE_MODE is observe: only dryRun is possible".to_owned()));
        }
        let left = self.left(deadline_ms);
        let until = Instant::now() + left.saturating_sub(TIME_TO_STOP.min(left / 2));
        let control = Watch { request_id, until };
        let (source, policy) = (Source::Archive, Some(self.redrive.policy()));
        let state = match wish {
            Wish::Begin(request) if request.dry_run => {
                replay.dry_run(&request, &source, policy, &control).await
            }
            Wish::Begin(request) => replay.begin(&request, &source, policy, &control).await,
            Wish::Resume(resume) => replay.resume(&resume, &source, policy, &control).await,
        }?;
        telemetry::replay(request_id, &state);
        Ok(state)
    }

    /// The time until Lambda ends the invocation.
    fn left(&self, deadline_ms: u64) -> Duration {
        let now = self.clock.now().as_millisecond();
        let left = i64::try_from(deadline_ms).unwrap_or(i64::MAX).saturating_sub(now);
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(LONGEST_RUN)
    }

    /// Handles one event. `deadline_ms` is Lambda's, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`BadEvent`] for an event that no SQS event source mapping makes; nothing is touched then.
    /// What happens to single letters is never an error.
    pub async fn handle(
        &self,
        event: SqsEvent,
        request_id: &str,
        deadline_ms: u64,
    ) -> Result<SqsBatchResponse, BadEvent> {
        let began = self.clock.now();
        let messages = crate::letter::SqsMessage::all_of(event)
            .inspect_err(|problem| telemetry::bad_event(request_id, &problem.to_string()))?;
        let invocation = Invocation { request_id, deadline: Instant::now() + self.left(deadline_ms) };

        let Handled { reports, orders_unread, list_failed } = self.redrive.handle(messages, invocation).await;
        let together = telemetry::together();
        for report in &reports {
            telemetry::letter(report, request_id);
        }
        // The lines are written before anybody waits for SNS.
        drop(together);
        let notices_failed = self.tell(&reports, began, invocation).await;
        if let Some(first) = reports.first() {
            let queue = &first.letter.sqs.queue;
            let in_flight = self.redrive.in_flight(queue);
            let now = self.clock.now();
            let run =
                Run { queue, in_flight, orders_unread, list_failed, request_id, began, now, notices_failed };
            let metrics = telemetry::summarise(&reports, run);
            (self.metrics_to)(&metrics.to_line(&self.namespace));
        }
        Ok(response(&reports))
    }

    /// Tells the topic for it of archived letters. Returns how many notices failed, where there is such a topic.
    async fn tell(&self, reports: &[Report], began: Timestamp, invocation: Invocation<'_>) -> Option<u64> {
        let left = invocation.deadline.saturating_duration_since(Instant::now());
        let told = self.notices.as_ref()?.tell(reports, began, self.clock.now(), left).await;
        Some(
            told.inspect_err(|not_sent| telemetry::notice_not_sent(invocation.request_id, not_sent))
                .is_err()
                .into(),
        )
    }
}

/// What replays the archive, or why nothing can.
fn replay(
    requeue: Option<Arn>,
    archive: &Archive,
    control: Option<&ControlAt>,
    clients: &Clients,
    clock: &Clock,
) -> Result<Replay, &'static str> {
    let Archive::S3 { bucket, prefix, .. } = archive else {
        return Err("ARCHIVE is a queue; letters are replayed from S3 only");
    };
    let requeue = requeue.ok_or("REQUEUE_ARN is not set, and replayed letters go there")?;
    let control = control.ok_or("CONTROL is off, and replays keep there what they have sent")?;
    Ok(Replay::new(crate::replay::Parts {
        clients: clients.clone(),
        bucket: bucket.clone(),
        prefix: prefix.clone(),
        control_bucket: control.bucket.clone(),
        control_prefix: control.prefix.clone(),
        requeue,
        clock: clock.clone(),
        by: "the function".to_owned(),
        workers: 4,
    }))
}

/// Keeps a replay within the time of its invocation, and tells of what it leaves out.
struct Watch<'a> {
    request_id: &'a str,
    /// No batch begins after this.
    until: Instant,
}

impl Control for Watch<'_> {
    fn stop(&self) -> bool {
        Instant::now() >= self.until
    }

    fn progress(&self, _: &State) {}

    fn left_out(&self, at: &At, why: &str) {
        telemetry::left_out_of_replay(self.request_id, at, why);
    }
}

/// What a batch of a replay can take, and the writing of its ledger after it.
const TIME_TO_STOP: Duration = Duration::from_secs(20);

/// SNS's certificates, read from SNS's own hosts. Those have private addresses in a network with an
/// endpoint for SNS; that it is SNS who answers, TLS shows.
fn certificates(clock: Clock) -> Certificates {
    let http = Arc::new(HttpClient::new(Reach::Private));
    Certificates::new(clock, move |url| {
        let http = Arc::clone(&http);
        async move {
            let unreadable = || Failure::ours(FailureClass::Transient, "CertificateUnreadable");
            let url = HttpUrl::parse(url.as_str()).map_err(|_| unreadable())?;
            let file =
                http.get(&url, MAX_CERTIFICATE_BYTES).await.map_err(|failure| match failure.class {
                    // That SNS's host does not have it is no fault of the letter.
                    FailureClass::Permanent => Failure { class: FailureClass::ActionRequired, ..failure },
                    _ => failure,
                })?;
            String::from_utf8(file.to_vec()).map_err(|_| unreadable())
        }
    })
}

/// Lambda ends every invocation after 15 minutes.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
const LONGEST_RUN: Duration = Duration::from_mins(15);

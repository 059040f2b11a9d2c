//! The function around [`Redrive`]: it takes an event of Lambda, returns Lambda's answer, and reports what
//! happened in logs and metrics.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_archive::Archive;
use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock;
use redrive_aws::control;
use redrive_aws::delivery::{AddressReach, Dispatcher, HttpClient};
use redrive_aws::log;
use redrive_aws::policy_object::UnreadPolicy;
use redrive_aws::settings::{ArchiveAt, BadSettings, ControlAt, PolicyAt, QueueMetrics, Settings};
use redrive_aws::signature::{CertificateReader, MAX_CERTIFICATE_BYTES};
use redrive_core::batch::{EndpointChange, LetterReport, SqsBatchResponse, response};
use redrive_core::endpoint::HttpUrl;
use redrive_core::failure::{ANSWER_UNREADABLE, Failure, FailureClass};
use redrive_core::letter::{BadEvent, SqsEvent, SqsMessage, SqsRecords};
use redrive_core::notice::NoticePlaces;
use serde::Deserialize;
use tokio::time::Instant;
use tracing::Instrument;

use crate::notices::NoticePublisher;
use crate::redrive::{BatchResult, InvocationContext, Redrive, RedriveParts};
use crate::telemetry::{self, InvocationSummary};

/// The function, ready to handle events.
pub struct RedriveFunction {
    redrive: Redrive,
    notices: Option<NoticePublisher>,
    namespace: String,
    queue_metrics: QueueMetrics,
    metrics_level: &'static str,
    name: Option<String>,
    clock: InstanceClock,
    metrics_to: MetricsSink,
}

/// The event that the function gets.
#[derive(Deserialize)]
pub struct QueueEvent {
    #[serde(rename = "Records")]
    records: Option<SqsRecords>,
}

/// The reason why a whole invocation fails.
#[derive(Debug, thiserror::Error)]
pub enum InvocationFailure {
    /// The event does not come from an SQS event source mapping.
    #[error(transparent)]
    Event(#[from] BadEvent),
    /// The event has no records at all.
    #[error(
        "the event has no Records: this function takes events of SQS only. Send replays to the replay function"
    )]
    NoRecords,
    /// The policy in S3 cannot be read, or is wrong.
    #[error(transparent)]
    Policy(#[from] UnreadPolicy),
    /// The policy in S3 was not read in time.
    #[error("cannot read the redrive policy {0}: s3:GetObject did not answer in time")]
    PolicyLate(PolicyAt),
    /// Another setting contradicts the policy in S3.
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// Another invocation of the same instance is making the function, which Lambda rules out.
    #[error("the function is not ready")]
    NotReady,
}

/// The output for lines of metrics. They are written raw and complete, without the log's own format.
pub type MetricsSink = Arc<dyn Fn(&str) + Send + Sync>;

impl RedriveFunction {
    /// Builds the parts and connects them.
    #[must_use]
    pub fn new(
        settings: Settings,
        clients: AwsClients,
        clock: InstanceClock,
        metrics_to: MetricsSink,
    ) -> Self {
        let reach = AddressReach::of(settings.http_targets, settings.allow_loopback_http);
        let places = NoticePlaces {
            archive: settings.archive.to_string(),
            control: settings.control.as_ref().map(ToString::to_string),
            requeue: settings.requeue.clone(),
        };
        let notice_topic = settings.notice_topic.clone();
        let notices =
            settings.notice_topic.map(|topic| NoticePublisher::new(clients.sns.clone(), topic, places));
        let archive = match settings.archive {
            ArchiveAt::S3 { bucket, prefix } => Archive::S3 { s3: clients.s3.clone(), bucket, prefix },
            ArchiveAt::Queue(queue) => {
                Archive::Queue { dispatcher: Dispatcher::new(&clients, reach, clock.clone()), queue }
            }
        };
        let parts = RedriveParts {
            policy: settings.policy,
            archive,
            control: settings.control.map(|ControlAt { bucket, prefix }| control::ControlObjects {
                s3: clients.s3.clone(),
                bucket,
                prefix,
            }),
            waiting_list: settings.waiting_list,
            notice_topic,
            mode: settings.mode,
            schedule_from: settings.schedule_from,
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
            notices,
            namespace: settings.metrics_namespace,
            queue_metrics: settings.queue_metrics,
            metrics_level: telemetry::level_that_passes(settings.log_level.as_deref()),
            name: settings.function_name,
            clock,
            metrics_to,
        }
    }

    /// Returns the function with a changed [`Redrive`], such as one with other certificates.
    #[must_use]
    pub fn map_redrive(mut self, change: impl FnOnce(Redrive) -> Redrive) -> Self {
        self.redrive = change(self.redrive);
        self
    }

    /// Answers one event. `deadline_ms` is Lambda's, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`InvocationFailure`]. A failure of single letters is never an error.
    pub async fn answer(
        &self,
        event: QueueEvent,
        request_id: &str,
        deadline_ms: u64,
    ) -> Result<SqsBatchResponse, InvocationFailure> {
        let no_records = || {
            let error = InvocationFailure::NoRecords;
            log::invocation(request_id).in_scope(|| telemetry::bad_event(&error.to_string()));
            error
        };
        let records = event.records.ok_or_else(no_records)?;
        Ok(self.handle(SqsEvent { records }, request_id, deadline_ms).await?)
    }

    /// Handles one event. `deadline_ms` is Lambda's, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`BadEvent`] if the event does not come from an SQS event source mapping; then nothing is touched. The
    /// same if a record without a message id must stay in its queue, since an answer could not say so. Any
    /// other failure of single letters is no error.
    pub async fn handle(
        &self,
        event: SqsEvent,
        request_id: &str,
        deadline_ms: u64,
    ) -> Result<SqsBatchResponse, BadEvent> {
        self.carry_out(event, request_id, deadline_ms).instrument(log::invocation(request_id)).await
    }

    async fn carry_out(
        &self,
        event: SqsEvent,
        request_id: &str,
        deadline_ms: u64,
    ) -> Result<SqsBatchResponse, BadEvent> {
        let began = self.clock.now();
        let bad_event = |problem: &BadEvent| telemetry::bad_event(&problem.to_string());
        let messages = SqsMessage::all_of(event, began).inspect_err(bad_event)?;
        for unread in messages.iter().filter_map(|message| message.unread.as_ref()) {
            telemetry::bad_event(&unread.problem);
        }
        let invocation =
            InvocationContext { request_id, deadline: Instant::now() + self.clock.left(deadline_ms) };

        let handled = self.redrive.handle(messages, invocation).await;
        let BatchResult { reports, in_flight, overrides_unread, list_failed, recovery, .. } = handled;
        let BatchResult { changes, retention_assumed, .. } = handled;
        let together = log::together();
        for report in &reports {
            telemetry::letter(report);
        }
        // The lines are written before the function waits for SNS.
        drop(together);
        let notices_failed = self.tell(&reports, changes, began, invocation).await;
        if let Some(first) = reports.first() {
            let queue = &first.letter.sqs.queue;
            let now = self.clock.now();
            let run = InvocationSummary {
                queue,
                function_name: self.name.as_deref(),
                in_flight,
                overrides_unread,
                list_failed,
                recovery,
                retention_assumed,
                request_id,
                began,
                now,
                notices_failed,
            };
            let metrics = telemetry::summarise(&reports, run);
            (self.metrics_to)(&metrics.to_line(&self.namespace, self.queue_metrics, self.metrics_level));
        }
        response(&reports).inspect_err(bad_event)
    }

    /// Sends notices of archived letters and of endpoints. Returns the number of notices that failed.
    async fn tell(
        &self,
        reports: &[LetterReport],
        changes: Vec<EndpointChange>,
        began: Timestamp,
        invocation: InvocationContext<'_>,
    ) -> u64 {
        let left = invocation.deadline.saturating_duration_since(Instant::now());
        let Some(notices) = &self.notices else { return 0 };
        let not_sent = notices.tell(reports, changes, began, self.clock.moment(), left).await;
        not_sent.iter().for_each(telemetry::notice_not_sent);
        not_sent.len() as u64
    }
}

/// Creates the reader of SNS's certificates, which reads them from SNS's own hosts. In a network with an
/// endpoint for SNS these hosts have private addresses; TLS proves that the host is SNS's.
fn certificates(clock: InstanceClock) -> CertificateReader {
    let http = Arc::new(HttpClient::new(AddressReach::Private, clock.clone()));
    CertificateReader::new(clock, move |url| {
        let http = Arc::clone(&http);
        async move {
            let unreadable = || Failure::ours(FailureClass::Transient, "CertificateUnreadable");
            let url = HttpUrl::parse(url.as_str()).map_err(|_| unreadable())?;
            let file =
                http.get(&url, MAX_CERTIFICATE_BYTES).await.map_err(|failure| match failure.class {
                    // It is no fault of the letter if SNS's host does not have the certificate.
                    FailureClass::Permanent => Failure { class: FailureClass::ActionRequired, ..failure },
                    // Nor does SNS's host take messages.
                    _ if failure.code == ANSWER_UNREADABLE => unreadable(),
                    _ => failure,
                })?;
            String::from_utf8(file.to_vec()).map_err(|_| unreadable())
        }
    })
}

//! The function around [`Redrive`]: an event of Lambda in, Lambda's answer out, and the telling of
//! what happened in between.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use tokio::time::Instant;

use crate::archive::Archive;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::failure::{Failure, FailureClass};
use crate::letter::{BadEvent, SqsMessage};
use crate::redrive::{Invocation, Parts, Redrive, response};
use crate::settings::{ArchiveAt, Settings};
use crate::signature::{Certificates, MAX_CERTIFICATE_BYTES};
use crate::target::{Courier, HttpClient, HttpUrl, Reach};
use crate::telemetry::{self, Run};

/// The function, ready to be called.
pub struct Function {
    redrive: Redrive,
    namespace: String,
    clock: Clock,
    metrics_to: Sink,
}

/// Where the lines of metrics go. They are written whole and raw, past the log's own format.
pub type Sink = Arc<dyn Fn(&str) + Send + Sync>;

impl Function {
    /// Builds the parts and joins them.
    #[must_use]
    pub fn new(settings: Settings, clients: Clients, clock: Clock, metrics_to: Sink) -> Self {
        let reach = if settings.allow_loopback_http { Reach::Private } else { Reach::Public };
        let archive = match settings.archive {
            ArchiveAt::S3 { bucket, prefix } => Archive::S3 { s3: clients.s3.clone(), bucket, prefix },
            ArchiveAt::Queue(queue) => Archive::Queue { courier: Courier::new(&clients, reach), queue },
        };
        let parts = Parts {
            policy: settings.policy,
            archive,
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
        Self { redrive: Redrive::new(parts), namespace: settings.metrics_namespace, clock, metrics_to }
    }

    /// The same function with another [`Redrive`], such as one of other certificates.
    #[must_use]
    pub fn map_redrive(mut self, change: impl FnOnce(Redrive) -> Redrive) -> Self {
        self.redrive = change(self.redrive);
        self
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
        let messages = SqsMessage::all_of(event)
            .inspect_err(|problem| telemetry::bad_event(request_id, &problem.to_string()))?;
        let left = i64::try_from(deadline_ms).unwrap_or(i64::MAX).saturating_sub(began.as_millisecond());
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        let invocation = Invocation { request_id, deadline: Instant::now() + left.min(LONGEST_RUN) };

        let reports = self.redrive.handle(messages, invocation).await;
        for report in &reports {
            telemetry::letter(report, request_id);
        }
        if let Some(first) = reports.first() {
            let queue = &first.letter.sqs.queue;
            let in_flight = self.redrive.in_flight(queue);
            let run = Run { queue, in_flight, request_id, began, now: self.clock.now() };
            let metrics = telemetry::summarise(&reports, run);
            (self.metrics_to)(&metrics.to_line(&self.namespace));
        }
        Ok(response(&reports))
    }
}

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
                    FailureClass::Permanent => Failure { class: FailureClass::Mendable, ..failure },
                    _ => failure,
                })?;
            String::from_utf8(file.to_vec()).map_err(|_| unreadable())
        }
    })
}

/// Lambda ends every invocation after 15 minutes.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
const LONGEST_RUN: Duration = Duration::from_mins(15);

/// Writes lines to standard output, where Lambda reads them.
#[must_use]
pub fn to_stdout() -> Sink {
    Arc::new(|line| {
        // Nobody is left to tell if standard output is closed.
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
    })
}

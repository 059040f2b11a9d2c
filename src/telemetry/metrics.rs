//! The metrics: one object in the embedded metric format per invocation.
//!
//! `CloudWatch` bills a metric by the hours in which it has data. So the object leaves out what is zero, and only
//! ten metrics are there by queue unless `QUEUE_METRICS` is `all`; the values of the others are fields of the line. The
//! metrics of the template's alarms are there again by function, summed over what an alarm covers, so that an
//! alarm watches one metric for any number of queues. The object is a log line too: Lambda's log controls read
//! `timestamp` and `level`, and drop what is below the `ApplicationLogLevel`. So the line has that level itself, and no
//! level silences the alarms.
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>

use jiff::{SignedDuration, Timestamp};
use redrive_aws::settings::QueueMetrics;
use redrive_core::arn::Arn;
use redrive_core::batch::{LetterReport, NotDone, Outcome};
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::policy::ArchiveReason;
use serde_json::{Value, json};

use crate::redrive::RecoveryCounts;

/// The metrics that are written for each queue whatever the setting, for dashboard and console.
pub const ESSENTIAL_METRICS: [&str; 10] = [
    "LettersReceived",
    "LettersArrived",
    "LettersDelivered",
    "LettersDeferred",
    "LettersShortCircuited",
    "LettersFailed",
    "LettersRequeued",
    "LettersArchived",
    "FailuresActionRequired",
    "LettersInFlight",
];

/// The age from which letters that observe mode leaves alone are counted. SQS keeps
/// letters for four days by default, so there is time to act.
const LONG_OBSERVED: SignedDuration = SignedDuration::from_hours(24);

/// The numbers of one invocation.
#[derive(Debug, Clone)]
pub struct InvocationMetrics {
    at: Timestamp,
    request_id: String,
    queue: String,
    function_name: Option<String>,
    of_queue: Vec<Metric>,
    /// Sums of metrics of the queue, only for alarms.
    sums: Vec<Metric>,
}

#[derive(Debug, Clone, Copy)]
struct Metric {
    name: &'static str,
    unit: &'static str,
    value: u64,
    watched: AlarmWatch,
}

/// The way in which alarms watch a metric by function, which sums it over the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlarmWatch {
    No,
    /// If it is above zero.
    AboveZero,
    /// Whenever it is known, since zero matters too.
    Always,
}

/// The facts about an invocation besides its letters.
#[derive(Debug, Clone, Copy)]
pub struct InvocationSummary<'a> {
    /// The queue that fed it.
    pub queue: &'a Arn,
    /// Lambda's name of the function. `None` outside Lambda, where no alarm watches.
    pub function_name: Option<&'a str>,
    /// The number of letters of that queue in flight. `None` while the queue has never told it.
    pub in_flight: Option<u64>,
    /// `true` if the overrides could not be read twice in a row, or once for a reason that somebody must mend.
    pub overrides_unread: bool,
    /// `true` if the list of waiting letters was not written.
    pub list_failed: bool,
    /// What was seen of endpoints that are down or back.
    pub recovery: RecoveryCounts,
    /// `true` if the queue has not told its retention for so long that the default counts.
    pub retention_assumed: bool,
    /// The invocation's request id.
    pub request_id: &'a str,
    /// The time at which it began.
    pub began: Timestamp,
    /// The present, at the end of the invocation.
    pub now: Timestamp,
    /// The number of notices that were not sent.
    pub notices_failed: u64,
}

/// Counts the reports of one invocation.
#[must_use]
pub fn summarise(reports: &[LetterReport], run: InvocationSummary<'_>) -> InvocationMetrics {
    let InvocationSummary {
        queue,
        function_name,
        in_flight,
        overrides_unread,
        list_failed,
        recovery,
        retention_assumed,
        ..
    } = run;
    let InvocationSummary { request_id, began, now, notices_failed, .. } = run;
    let count = |matches: &dyn Fn(&LetterReport) -> bool| {
        reports.iter().filter(|report| matches(report)).count() as u64
    };
    let archived = |reason| count(&|report| report.outcome == Outcome::Archived(reason));
    let failed = |class| {
        count(&|report| {
            // Nobody has to do anything about a receive that is over.
            let undone = report.undone.iter().filter(|failure| !failure.ends_receive());
            report.failure.iter().chain(undone).any(|failure| failure.class == class)
        })
    };
    let highest = reports.iter().filter_map(|report| report.retry).map(|retry| u64::from(retry.number)).max();
    // A letter that has left the queue is safe.
    let staying = reports.iter().filter(|report| report.outcome.is_in_queue());
    let expiry =
        staying.filter_map(|report| report.expires_in).map(|left| u64::try_from(left).unwrap_or(0)).min();
    let (mut of_reasons, mut sums): (Vec<Metric>, Vec<Metric>) = (Vec::new(), Vec::new());
    for reason in ArchiveReason::ALL {
        let (name, alarm) = names_of(reason);
        let metric = Metric::count(name, archived(reason));
        of_reasons.push(if alarm == Some(name) { metric.watched() } else { metric });
        if let Some(sum) = alarm.filter(|sum| *sum != name) {
            match sums.iter_mut().find(|it| it.name == sum) {
                Some(sum) => sum.value += metric.value,
                None => sums.push(Metric::count(sum, metric.value).watched()),
            }
        }
    }
    // A letter for which no time was left comes back soon, unless its subscription may not be searched for.
    let lasts = |failure: &Failure| failure.class == FailureClass::ActionRequired;
    let stuck = |report: &LetterReport| match report.outcome {
        Outcome::Failed(NotDone::OutOfTime) => report.failure.as_ref().is_some_and(lasts),
        Outcome::Failed(NotDone::Archive | NotDone::Hide) => true,
        _ => false,
    };
    sums.push(Metric::count("LettersStuck", count(&stuck)).watched());
    let observed_for_long = |report: &LetterReport| {
        matches!(report.outcome, Outcome::Observed(_))
            && now.duration_since(report.letter.sqs.sent) > LONG_OBSERVED
    };
    sums.push(Metric::count("OldLettersObserved", count(&observed_for_long)).watched());
    let mut of_queue = vec![
        Metric::count("LettersReceived", reports.len() as u64),
        Metric::count("LettersArrived", count(&|report| report.arrived)).watched(),
        Metric::count("LettersDelivered", count(&|report| matches!(report.outcome, Outcome::Delivered))),
        Metric::count("LettersDeferred", count(&|report| matches!(report.outcome, Outcome::Deferred(_)))),
        Metric::count("LettersShortCircuited", count(&|report| report.outcome.is_left_out())),
        Metric::count("LettersHeld", count(&|report| matches!(report.outcome, Outcome::Held))),
        Metric::count("LettersFailed", count(&|report| matches!(report.outcome, Outcome::Failed(_)))),
        Metric::count("LettersRequeued", count(&|report| matches!(report.outcome, Outcome::Requeued(_)))),
        Metric::count("LettersObserved", count(&|report| matches!(report.outcome, Outcome::Observed(_)))),
        Metric::count("LettersArchived", count(&|report| matches!(report.outcome, Outcome::Archived(_)))),
    ];
    of_queue.extend(of_reasons);
    of_queue.extend([
        Metric::count("ArchiveRefusals", count(&LetterReport::is_refused_by_archive)).watched(),
        Metric::count("FailuresThrottling", failed(FailureClass::Throttling)),
        Metric::count("FailuresTransient", failed(FailureClass::Transient)),
        Metric::count("FailuresPermanent", failed(FailureClass::Permanent)),
        Metric::count("FailuresActionRequired", failed(FailureClass::ActionRequired)).watched(),
        Metric::count("LettersOverridden", count(&|report| report.override_id.is_some())),
        Metric::count("OverridesUnread", u64::from(overrides_unread)).watched(),
        Metric::count("WaitingListFailed", u64::from(list_failed)),
    ]);
    let RecoveryCounts { down, recovered, woken } = recovery;
    of_queue.extend([
        Metric::count("LettersInFlight", in_flight.unwrap_or(0)),
        Metric::count("HighestRetry", highest.unwrap_or(0)),
        Metric::count("EndpointsDown", down),
        Metric::count("EndpointsRecovered", recovered),
        Metric::count("LettersWoken", woken),
        Metric::count("RetentionAssumed", u64::from(retention_assumed)),
        Metric::count("NoticesFailed", notices_failed),
    ]);
    let seconds = |value| Metric {
        unit: "Seconds",
        watched: AlarmWatch::Always,
        ..Metric::count("SecondsToExpiry", value)
    };
    of_queue.extend(expiry.map(seconds));
    let duration = u64::try_from(now.duration_since(began).as_millis()).unwrap_or(0);
    of_queue.push(Metric { unit: "Milliseconds", ..Metric::count("Duration", duration) });
    of_queue.retain(Metric::tells);
    sums.retain(Metric::tells);
    InvocationMetrics {
        at: now,
        request_id: request_id.to_owned(),
        queue: queue.resource().to_owned(),
        function_name: function_name.map(str::to_owned),
        of_queue,
        sums,
    }
}

/// Returns the level of lines that Lambda lets pass whatever its log level: that level itself, INFO at least. `told` is Lambda's
/// variable `AWS_LAMBDA_LOG_LEVEL`.
/// <https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html>
#[must_use]
pub fn level_that_passes(told: Option<&str>) -> &'static str {
    let told = told.unwrap_or_default();
    let above = ["WARN", "ERROR", "FATAL"].into_iter().find(|level| level.eq_ignore_ascii_case(told));
    above.unwrap_or("INFO")
}

/// Returns the metric of the letters archived for a reason, and the one by which an alarm watches them: the same
/// one, a sum over several reasons, or none if an operator wanted the archiving.
fn names_of(reason: ArchiveReason) -> (&'static str, Option<&'static str>) {
    let undelivered = Some("LettersUndelivered");
    let nowhere_to_go = Some("LettersNowhereToGo");
    match reason {
        ArchiveReason::Exhausted => ("ArchivedExhausted", undelivered),
        ArchiveReason::Expiring => ("ArchivedExpiring", Some("ArchivedExpiring")),
        ArchiveReason::Rule => ("ArchivedRule", None),
        ArchiveReason::Unrecognised => ("ArchivedUnrecognised", nowhere_to_go),
        ArchiveReason::UndeliverableProtocol => ("ArchivedUndeliverableProtocol", nowhere_to_go),
        ArchiveReason::Refused => ("ArchivedRefused", nowhere_to_go),
        ArchiveReason::Permanent => ("ArchivedPermanent", undelivered),
        ArchiveReason::Unmarkable => ("ArchivedUnmarkable", undelivered),
        ArchiveReason::Returned => ("ArchivedReturned", nowhere_to_go),
        ArchiveReason::Loop => ("ArchivedLoop", undelivered),
        ArchiveReason::GivenUp => ("ArchivedGivenUp", None),
    }
}

impl Metric {
    fn count(name: &'static str, value: u64) -> Self {
        Self { name, unit: "Count", value, watched: AlarmWatch::No }
    }

    fn watched(self) -> Self {
        Self { watched: AlarmWatch::AboveZero, ..self }
    }

    /// Reports whether its value says anything.
    fn tells(&self) -> bool {
        self.value > 0 || self.watched == AlarmWatch::Always
    }

    fn is_watched(&self) -> bool {
        self.watched != AlarmWatch::No
    }

    fn is_essential(&self) -> bool {
        ESSENTIAL_METRICS.contains(&self.name)
    }

    fn definition(&self) -> Value {
        json!({ "Name": self.name, "Unit": self.unit })
    }
}

impl InvocationMetrics {
    fn all(&self) -> impl Iterator<Item = &Metric> {
        self.of_queue.iter().chain(&self.sums)
    }

    /// Returns the object as one line of this level, with its line end.
    #[must_use]
    pub fn to_line(&self, namespace: &str, of_queue: QueueMetrics, level: &str) -> String {
        let directive = |dimension: &str, metrics: Vec<Value>| json!({ "Namespace": namespace, "Dimensions": [[dimension]], "Metrics": metrics });
        let written = |metric: &&Metric| of_queue == QueueMetrics::All || metric.is_essential();
        let written = self.of_queue.iter().filter(written).map(Metric::definition);
        let mut directives = vec![directive("Queue", written.collect())];
        let watched: Vec<_> =
            self.all().filter(|metric| metric.is_watched()).map(Metric::definition).collect();
        let mut object = json!({
            "timestamp": self.at,
            "level": level,
            "request_id": self.request_id,
            "Queue": self.queue,
        });
        if let Some(name) = &self.function_name {
            object["FunctionName"] = json!(name);
            if !watched.is_empty() {
                directives.push(directive("FunctionName", watched));
            }
        }
        for Metric { name, value, .. } in self.all() {
            object[*name] = json!(value);
        }
        object["_aws"] = json!({ "CloudWatchMetrics": directives, "Timestamp": self.at.as_millisecond() });
        format!("{object}\n")
    }
}

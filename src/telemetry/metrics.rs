//! The metrics: one object in the embedded metric format per invocation.
//!
//! Every metric is there by queue, and is zero if nothing happened. The metrics of the template's alarms are
//! there again by function, summed over what an alarm covers, and only if there is something to report. So an
//! alarm watches one metric for any number of queues, and `CloudWatch` bills no metric for an hour without
//! data. The object is a log line too: Lambda's log controls read `timestamp` and `level`, and an
//! `ApplicationLogLevel` above INFO drops it.
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>

use std::time::SystemTime;

use jiff::Timestamp;
use metrique::emf::flags::NoMetric;
use metrique::emf::{Emf, MetricDefinition, MetricDirective};
use metrique::unit::{Count, Millisecond, Second};
use metrique::unit_of_work::metrics;
use metrique::writer::format::Format;
use metrique::writer::unit::UnitTag;
use metrique::{CloseValue, RootEntry};

use crate::arn::Arn;
use crate::batch::{Outcome, Report};
use crate::failure::FailureClass;
use crate::policy::ArchiveReason;

/// The numbers of one invocation.
#[metrics(rename_all = "PascalCase")]
#[derive(Debug, Clone)]
pub struct Metrics {
    #[metrics(timestamp)]
    at: SystemTime,
    #[metrics(name = "timestamp")]
    time: String,
    #[metrics(name = "level")]
    level: &'static str,
    #[metrics(name = "request_id")]
    request_id: String,
    queue: String,
    function_name: Option<String>,
    #[metrics(unit = Count)]
    letters_received: u64,
    #[metrics(unit = Count)]
    letters_arrived: u64,
    #[metrics(unit = Count)]
    letters_delivered: u64,
    #[metrics(unit = Count)]
    letters_deferred: u64,
    #[metrics(unit = Count)]
    letters_short_circuited: u64,
    #[metrics(unit = Count)]
    letters_held: u64,
    #[metrics(unit = Count)]
    letters_failed: u64,
    #[metrics(unit = Count)]
    letters_requeued: u64,
    #[metrics(unit = Count)]
    letters_observed: u64,
    #[metrics(unit = Count)]
    letters_archived: u64,
    #[metrics(unit = Count)]
    archived_exhausted: u64,
    #[metrics(unit = Count)]
    archived_expiring: u64,
    #[metrics(unit = Count)]
    archived_rule: u64,
    #[metrics(unit = Count)]
    archived_unrecognised: u64,
    #[metrics(unit = Count)]
    archived_undeliverable_protocol: u64,
    #[metrics(unit = Count)]
    archived_refused: u64,
    #[metrics(unit = Count)]
    archived_permanent: u64,
    #[metrics(unit = Count)]
    archived_unmarkable: u64,
    #[metrics(unit = Count)]
    archived_returned: u64,
    #[metrics(unit = Count)]
    archived_loop: u64,
    #[metrics(unit = Count)]
    archived_ordered: u64,
    #[metrics(unit = Count)]
    archive_refusals: u64,
    #[metrics(unit = Count)]
    notices_failed: Option<u64>,
    #[metrics(unit = Count)]
    failures_throttling: u64,
    #[metrics(unit = Count)]
    failures_transient: u64,
    #[metrics(unit = Count)]
    failures_permanent: u64,
    #[metrics(unit = Count)]
    failures_action_required: u64,
    #[metrics(unit = Count)]
    letters_ordered: u64,
    #[metrics(unit = Count)]
    orders_unread: u64,
    #[metrics(unit = Count)]
    waiting_list_failed: u64,
    #[metrics(unit = Count)]
    letters_in_flight: u64,
    #[metrics(unit = Count)]
    highest_retry: u64,
    #[metrics(unit = Second)]
    seconds_to_expiry: Option<u64>,
    #[metrics(unit = Millisecond)]
    duration: u64,
    #[metrics(unit = Count, flags(NoMetric))]
    letters_undelivered: Option<u64>,
    #[metrics(unit = Count, flags(NoMetric))]
    letters_nowhere_to_go: Option<u64>,
}

/// The facts about an invocation besides its letters.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The queue that fed it.
    pub queue: &'a Arn,
    /// Lambda's name of the function. `None` outside Lambda, where no alarm watches.
    pub function_name: Option<&'a str>,
    /// The number of letters of that queue in flight, as far as is known.
    pub in_flight: u64,
    /// `true` if the last attempt to read the orders failed.
    pub orders_unread: bool,
    /// `true` if the list of waiting letters was not written.
    pub list_failed: bool,
    /// The invocation's request id.
    pub request_id: &'a str,
    /// The time at which it began.
    pub began: Timestamp,
    /// The present, at the end of the invocation.
    pub now: Timestamp,
    /// The number of notices of archived letters that were not sent. `None` if there is no topic for notices.
    pub notices_failed: Option<u64>,
}

/// Counts the reports of one invocation.
#[must_use]
pub fn summarise(reports: &[Report], run: Run<'_>) -> Metrics {
    let Run { queue, function_name, in_flight, orders_unread, list_failed, .. } = run;
    let Run { request_id, began, now, notices_failed, .. } = run;
    let count =
        |matches: &dyn Fn(&Report) -> bool| reports.iter().filter(|report| matches(report)).count() as u64;
    let archived = |reason| count(&|report| report.outcome == Outcome::Archived(reason));
    let failed = |class| {
        count(&|report| report.failure.iter().chain(&report.undone).any(|failure| failure.class == class))
    };
    let any_of = |reasons: &[ArchiveReason]| {
        Some(reasons.iter().copied().map(archived).sum()).filter(|count| *count > 0)
    };
    let highest = reports.iter().filter_map(|report| report.retry).map(|retry| u64::from(retry.number)).max();
    // A letter that has left the queue is safe.
    let staying = reports.iter().filter(|report| !report.outcome.leaves_queue());
    let expiry = staying.map(|report| u64::try_from(report.expires_in).unwrap_or(0)).min();
    Metrics {
        at: now.into(),
        time: now.to_string(),
        level: "INFO",
        request_id: request_id.to_owned(),
        queue: queue.resource().to_owned(),
        function_name: function_name.map(str::to_owned),
        letters_received: reports.len() as u64,
        letters_arrived: count(&|report| report.arrived),
        letters_delivered: count(&|report| matches!(report.outcome, Outcome::Delivered)),
        letters_deferred: count(&|report| matches!(report.outcome, Outcome::Deferred(_))),
        letters_short_circuited: count(&|report| report.outcome.is_left_out()),
        letters_held: count(&|report| matches!(report.outcome, Outcome::Held)),
        letters_failed: count(&|report| matches!(report.outcome, Outcome::Failed(_))),
        letters_requeued: count(&|report| matches!(report.outcome, Outcome::Requeued(_))),
        letters_observed: count(&|report| matches!(report.outcome, Outcome::Observed(_))),
        letters_archived: count(&|report| matches!(report.outcome, Outcome::Archived(_))),
        archived_exhausted: archived(ArchiveReason::Exhausted),
        archived_expiring: archived(ArchiveReason::Expiring),
        archived_rule: archived(ArchiveReason::Rule),
        archived_unrecognised: archived(ArchiveReason::Unrecognised),
        archived_undeliverable_protocol: archived(ArchiveReason::UndeliverableProtocol),
        archived_refused: archived(ArchiveReason::Refused),
        archived_permanent: archived(ArchiveReason::Permanent),
        archived_unmarkable: archived(ArchiveReason::Unmarkable),
        archived_returned: archived(ArchiveReason::Returned),
        archived_loop: archived(ArchiveReason::Loop),
        archived_ordered: archived(ArchiveReason::Ordered),
        archive_refusals: count(&Report::is_refused_by_archive),
        notices_failed,
        failures_throttling: failed(FailureClass::Throttling),
        failures_transient: failed(FailureClass::Transient),
        failures_permanent: failed(FailureClass::Permanent),
        failures_action_required: failed(FailureClass::ActionRequired),
        letters_ordered: count(&|report| report.order.is_some()),
        orders_unread: u64::from(orders_unread),
        waiting_list_failed: u64::from(list_failed),
        letters_in_flight: in_flight,
        highest_retry: highest.unwrap_or(0),
        seconds_to_expiry: expiry,
        duration: u64::try_from(now.duration_since(began).as_millis()).unwrap_or(0),
        letters_undelivered: any_of(&[
            ArchiveReason::Exhausted,
            ArchiveReason::Permanent,
            ArchiveReason::Unmarkable,
            ArchiveReason::Loop,
        ]),
        letters_nowhere_to_go: any_of(&[
            ArchiveReason::Unrecognised,
            ArchiveReason::Refused,
            ArchiveReason::UndeliverableProtocol,
            ArchiveReason::Returned,
        ]),
    }
}

impl Metrics {
    /// Returns the metrics that alarms watch, by function, if they have something to report.
    fn of_function(&self) -> Vec<MetricDefinition<'static>> {
        let counts = [
            ("LettersArrived", Some(self.letters_arrived)),
            ("LettersUndelivered", self.letters_undelivered),
            ("LettersNowhereToGo", self.letters_nowhere_to_go),
            ("ArchivedExpiring", Some(self.archived_expiring)),
            ("LettersFailed", Some(self.letters_failed)),
            ("ArchiveRefusals", Some(self.archive_refusals)),
            ("FailuresActionRequired", Some(self.failures_action_required)),
            ("OrdersUnread", Some(self.orders_unread)),
        ];
        let counts = counts.into_iter().filter(|(_, count)| count.is_some_and(|count| count > 0));
        let counts = counts.map(|(name, _)| (name, Count::UNIT));
        let expiry = self.seconds_to_expiry.map(|_| ("SecondsToExpiry", Second::UNIT));
        let definition = |(name, unit)| MetricDefinition { name, unit, storage_resolution: None };
        counts.chain(expiry).map(definition).collect()
    }

    /// Returns the object as one line, with its line end. It is empty if the object cannot be formatted,
    /// which no value of these fields can cause.
    #[must_use]
    pub fn to_line(self, namespace: &str) -> String {
        let mut emf = Emf::builder(namespace.to_owned(), vec![vec!["Queue".to_owned()]]);
        let metrics = self.of_function();
        if self.function_name.is_some() && !metrics.is_empty() {
            emf =
                emf.directive(MetricDirective { dimensions: vec![vec!["FunctionName"]], metrics, namespace });
        }
        let mut line = Vec::new();
        let formatted = emf.build().format(&RootEntry::new(self.close()), &mut line);
        if let Err(error) = formatted {
            tracing::error!(detail = %error, "metrics cannot be written");
        }
        String::from_utf8(line).unwrap_or_default()
    }
}

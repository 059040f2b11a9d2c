//! The metrics of the queues: over the time range, and their last values.

use std::collections::BTreeMap;

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, Metric, MetricDataQuery, MetricStat, StatusCode};
use jiff::{SignedDuration, Timestamp};
use redrive_aws::clients::failure_of_call;
use redrive_core::arn::Arn;

use super::collect::unread;
use super::letter_counts::{ChartSpan, PARTS};
use crate::account::{ConsoleAccount, ConsoleClients};

/// The most queues on the page. One call to `CloudWatch` answers 500 metrics, and a queue has five over time.
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html>
pub(super) const MAX_QUEUES: usize = 100;

/// How far back the last values of a queue are searched, and the seconds of a data point there. SQS sends its
/// metrics every minute, some minutes late.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html>
const RECENT_WINDOW: SignedDuration = SignedDuration::from_mins(15);
const RECENT_PERIOD: i32 = 60;

/// The state of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueNow {
    /// Its name.
    pub name: String,
    /// True for the requeue.
    pub is_requeue: bool,
    /// Letters that arrived, over time.
    pub arriving: MetricSeries,
    /// Letters that were delivered, over time.
    pub delivered: MetricSeries,
    /// Letters that were archived, over time.
    pub archived: MetricSeries,
    /// Letters that wait hidden, over time.
    pub waiting: MetricSeries,
    /// Visible letters, over time: the function has not received them.
    pub visible: MetricSeries,
    /// The age of the oldest letter, seconds. From the last minutes.
    pub oldest: Option<u64>,
}

/// A metric's values over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricSeries {
    /// The sum or the maximum of each data point. It is zero if `CloudWatch` has no value: the function runs
    /// only for letters, and writes its metrics when it runs, so without a value there was no letter.
    pub parts: Vec<u64>,
    /// The time that a data point covers.
    pub part: SignedDuration,
    /// The value of the last minutes, if there is one.
    pub last: Option<u64>,
}

impl MetricSeries {
    /// Returns the sum of all data points.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.parts.iter().sum()
    }
}

/// One metric of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum QueueMetric {
    Arriving,
    Delivered,
    Archived,
    Waiting,
    Visible,
    Oldest,
}

impl QueueMetric {
    /// The metrics that are shown over time.
    const OVER_TIME: [Self; 5] =
        [Self::Arriving, Self::Delivered, Self::Archived, Self::Waiting, Self::Visible];

    /// The metrics that are shown by their last value.
    const LAST: [Self; 3] = [Self::Waiting, Self::Visible, Self::Oldest];

    /// Returns the metric's name, its statistic, and whether SQS writes it.
    fn metric(self) -> (&'static str, &'static str, bool) {
        match self {
            Self::Arriving => ("LettersArrived", "Sum", false),
            Self::Delivered => ("LettersDelivered", "Sum", false),
            Self::Archived => ("LettersArchived", "Sum", false),
            Self::Waiting => ("ApproximateNumberOfMessagesNotVisible", "Maximum", true),
            Self::Visible => ("ApproximateNumberOfMessagesVisible", "Maximum", true),
            Self::Oldest => ("ApproximateAgeOfOldestMessage", "Maximum", true),
        }
    }
}

/// The queues with their metrics.
#[derive(Default)]
pub(super) struct MetricsRead {
    pub(super) queues: Vec<QueueNow>,
    pub(super) to_expiry: Option<u64>,
    /// True if no data point is missing.
    pub(super) is_whole: bool,
}

/// Reads the metrics of the queues, and the time that letters have left.
pub(super) async fn metrics(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    span: &ChartSpan,
) -> Result<MetricsRead, String> {
    let queues: Vec<_> = account.queues.iter().take(MAX_QUEUES).collect();
    if queues.is_empty() {
        return Ok(MetricsRead { is_whole: true, ..MetricsRead::default() });
    }
    let present = account.clock.now();
    let recent = present.saturating_sub(RECENT_WINDOW).unwrap_or(present);
    let recent = ChartSpan { from: recent, to: present };
    let period = period(span, present);
    let of_queues = |kinds: &[QueueMetric], period| {
        let all = queues.iter().enumerate().flat_map(|(place, queue)| {
            kinds.iter().map(move |kind| query(&id(place, *kind), *kind, queue, &account.namespace, period))
        });
        all.collect::<Vec<_>>()
    };
    let mut latest = of_queues(&QueueMetric::LAST, RECENT_PERIOD);
    latest.extend(account.function.as_deref().map(|function| expiry(function, &account.namespace)));
    let (over_time, last) = tokio::join!(
        values(clients, of_queues(&QueueMetric::OVER_TIME, period), span),
        values(clients, latest, &recent),
    );
    let ((over_time, is_whole), (last, is_last_whole)) = (over_time?, last?);
    let part = SignedDuration::from_secs(period.into());
    let queue = |(place, queue): (usize, &&Arn)| {
        let parts = |kind| {
            let values = over_time.get(&id(place, kind)).map(Vec::as_slice);
            parts(values.unwrap_or_default(), kind, span, period.into())
        };
        let last =
            |kind| last.get(&id(place, kind))?.iter().max_by_key(|(at, _)| *at).map(|(_, value)| *value);
        let sum = |kind| MetricSeries { parts: parts(kind), part, last: None };
        let height = |kind| MetricSeries { parts: parts(kind), part, last: last(kind) };
        QueueNow {
            name: queue.resource().to_owned(),
            is_requeue: account.requeue.as_ref() == Some(*queue),
            arriving: sum(QueueMetric::Arriving),
            delivered: sum(QueueMetric::Delivered),
            archived: sum(QueueMetric::Archived),
            waiting: height(QueueMetric::Waiting),
            visible: height(QueueMetric::Visible),
            oldest: last(QueueMetric::Oldest),
        }
    };
    Ok(MetricsRead {
        queues: queues.iter().enumerate().map(queue).collect(),
        to_expiry: last.get(EXPIRY).and_then(|values| left(values, present)),
        is_whole: is_whole && is_last_whole,
    })
}

/// The values of metrics by the ids of their queries.
type MetricValues = BTreeMap<String, Vec<(Timestamp, u64)>>;

/// Returns the shortest time that is left by now. The values are about different letters: each is about those
/// of one minute. So the latest value alone is not enough.
fn left(values: &[(Timestamp, u64)], now: Timestamp) -> Option<u64> {
    values
        .iter()
        .map(|(at, value)| value.saturating_sub(now.duration_since(*at).as_secs().max(0).unsigned_abs()))
        .min()
}

/// Reads metrics in one call. Also returns whether the answer is complete.
async fn values(
    clients: &ConsoleClients,
    queries: Vec<MetricDataQuery>,
    span: &ChartSpan,
) -> Result<(MetricValues, bool), String> {
    let call = clients.cloudwatch.get_metric_data().set_metric_data_queries(Some(queries));
    // CloudWatch refuses a range that ends at the second at which it begins.
    let end = span.to.as_second().max(span.from.as_second() + 1);
    let answer = call.start_time(seconds(span.from)).end_time(DateTime::from_secs(end)).send().await;
    let answer =
        answer.map_err(|error| unread("the metrics (cloudwatch:GetMetricData)", &failure_of_call(&error)))?;
    let mut found = MetricValues::new();
    let mut is_whole = answer.next_token().is_none();
    for result in answer.metric_data_results() {
        is_whole &= result.status_code().is_none_or(|code| *code == StatusCode::Complete);
        let times = result.timestamps().iter().filter_map(|at| Timestamp::from_second(at.secs()).ok());
        let values = times.zip(result.values().iter().map(|value| whole(*value)));
        found.entry(result.id().unwrap_or_default().to_owned()).or_default().extend(values);
    }
    Ok((found, is_whole))
}

/// Returns the id of the query for a metric of a queue.
fn id(place: usize, kind: QueueMetric) -> String {
    format!("m{place}_{}", kind as u8)
}

/// The id of the query for the time that letters have left.
const EXPIRY: &str = "expiry";

/// Returns the query for the time that letters of all queues have left. A queue has this metric only with
/// `QUEUE_METRICS=all`.
fn expiry(function: &str, namespace: &str) -> MetricDataQuery {
    // An ARN has the name in its seventh part.
    let name = function.split(':').nth(6).unwrap_or(function);
    statistic(EXPIRY, (namespace, "SecondsToExpiry"), ("FunctionName", name), ("Minimum", RECENT_PERIOD))
}

fn query(id: &str, kind: QueueMetric, queue: &Arn, namespace: &str, period: i32) -> MetricDataQuery {
    let (name, statistic, is_of_sqs) = kind.metric();
    let (namespace, dimension) = if is_of_sqs { ("AWS/SQS", "QueueName") } else { (namespace, "Queue") };
    self::statistic(id, (namespace, name), (dimension, queue.resource()), (statistic, period))
}

fn statistic(
    id: &str,
    (namespace, metric): (&str, &str),
    (dimension, value): (&str, &str),
    (statistic, period): (&str, i32),
) -> MetricDataQuery {
    let dimension = Dimension::builder().name(dimension).value(value).build();
    let metric = Metric::builder().namespace(namespace).metric_name(metric).dimensions(dimension).build();
    let statistic = MetricStat::builder().metric(metric).period(period).stat(statistic).build();
    MetricDataQuery::builder().id(id).metric_stat(statistic).build()
}

/// Returns the seconds of a data point: a part of the range, rounded up to a period that `CloudWatch` still
/// keeps. It keeps shorter periods for a shorter time.
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricStat.html>
fn period(span: &ChartSpan, now: Timestamp) -> i32 {
    let seconds = |to: Timestamp| to.duration_since(span.from).as_secs().try_into().unwrap_or(0_u64);
    let length = seconds(span.to).max(1);
    // The older the range, the coarser the period: CloudWatch keeps minutes for 15 days and five minutes for
    // 63.
    let step = match seconds(now) {
        ..1_296_000 => 60,
        1_296_000..5_443_200 => 300,
        _ => 3600,
    };
    let parts = PARTS as u64;
    let part = (length / parts).max(1).div_ceil(step) * step;
    i32::try_from(part).unwrap_or(i32::MAX)
}

/// Returns the sum or the maximum of each part of the range. A part is exactly one data point.
fn parts(values: &[(Timestamp, u64)], kind: QueueMetric, span: &ChartSpan, period: i64) -> Vec<u64> {
    // CloudWatch chooses the second at which its periods begin, so the first one may begin before the range.
    let phase =
        values.first().map_or(0, |(at, _)| (at.as_second() - span.from.as_second()).rem_euclid(period));
    let origin = span.from.as_second() - if phase > 0 { period - phase } else { 0 };
    let place = |at: Timestamp| usize::try_from((at.as_second() - origin) / period).unwrap_or_default();
    let last = span.to.as_second().max(span.from.as_second() + 1) - 1;
    let length = usize::try_from((last - origin) / period).unwrap_or_default() + 1;
    let mut parts = vec![0_u64; length];
    let (_, statistic, _) = kind.metric();
    for (at, value) in values {
        let part = &mut parts[place(*at).min(length - 1)];
        *part = if statistic == "Sum" { part.saturating_add(*value) } else { (*part).max(*value) };
    }
    parts
}

/// Converts a metric's value to a whole number.
fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast ends at the limits of the type"
    )]
    let whole = value.round().max(0.0) as u64;
    whole
}

fn seconds(at: Timestamp) -> DateTime {
    DateTime::from_secs(at.as_second())
}

/// Returns the length of one part of a time range.
#[must_use]
pub fn part_of(span: &ChartSpan) -> SignedDuration {
    span.to.duration_since(span.from) / i32::try_from(PARTS).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(hours: i64) -> ChartSpan {
        let from: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
        ChartSpan { from, to: from + SignedDuration::from_hours(hours) }
    }

    #[test]
    fn data_points_are_as_long_as_parts_in_steps_that_are_kept() {
        let periods = [1, 3, 24, 14 * 24, 16 * 24, 64 * 24].map(|hours| {
            let span = span(hours);
            period(&span, span.to)
        });
        assert_eq!(periods, [180, 480, 3600, 50_400, 57_600, 230_400]);
        // A short range in the distant past.
        let hour = span(1);
        let long_ago =
            [14, 15, 62, 63].map(|days| period(&hour, hour.from + SignedDuration::from_hours(days * 24)));
        assert_eq!(long_ago, [180, 300, 300, 3600]);
    }

    #[test]
    fn what_is_always_the_same_has_no_dip_wherever_its_data_points_begin() {
        for minutes in [60, 3 * 60, 24 * 60, 14 * 24 * 60, 7, 101] {
            let from: Timestamp = "2026-11-01T00:03:20Z".parse().unwrap();
            let span = ChartSpan { from, to: from + SignedDuration::from_mins(minutes) };
            let seconds = i64::from(period(&span, span.to));
            for phase in [0, 1, seconds / 2, seconds - 1] {
                let at = |number: i64| from + SignedDuration::from_secs(number * seconds - phase);
                let values: Vec<_> =
                    (0..10_000).map(at).take_while(|at| *at < span.to).map(|at| (at, 5)).collect();
                let parts = parts(&values, QueueMetric::Arriving, &span, seconds);
                assert_eq!(parts, vec![5; values.len()], "{minutes} min from {phase} s before");
            }
        }
    }

    #[test]
    fn the_least_time_that_is_left_counts_whichever_minute_told_of_it() {
        let now: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        let ago = |minutes| now - SignedDuration::from_mins(minutes);
        assert_eq!(left(&[(ago(1), 900_000), (ago(10), 7_200)], now), Some(6_600));
        assert_eq!(left(&[(ago(10), 60)], now), Some(0));
        assert_eq!(left(&[], now), None);
    }
}

//! What happens now: metrics by queue, orders, replays, alarms.

use std::collections::BTreeMap;

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, Metric, MetricAlarm, MetricDataQuery, MetricStat, StateValue};
use jiff::{SignedDuration, Timestamp};
use sns_redrive::arn::Arn;
use sns_redrive::clients::failure_of_call;
use sns_redrive::policy::Order;
use sns_redrive::replay::{Replays, State};
use tokio::time::timeout_at;

use super::collect::{read_orders, too_late, unread};
use super::tally::{PARTS, Span};
use super::times::Times;
use crate::account::{Account, Clients, Place};

/// Queues that are shown. `CloudWatch` answers 500 metrics in one call.
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html>
const QUEUES: usize = 60;

/// Replays that are looked at.
const REPLAYS: usize = 8;

/// Alarms that are shown.
const ALARMS: i32 = 100;

/// Requests that reading takes at most: metrics, alarms, orders, the listing of replays, their states, and some that are
/// repeated.
pub(crate) const REQUESTS: u32 = 4 + 8 + 4;

/// What happens now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Now {
    /// The queues.
    pub queues: Vec<QueueNow>,
    /// Queues that are not shown.
    pub further: usize,
    /// Orders that have not ended; none where there is no place for them.
    pub orders: Option<Vec<Order>>,
    /// The latest replays.
    pub replays: Vec<State>,
    /// Alarms that are on; none where nobody knows their names.
    pub alarms: Option<Vec<Alarm>>,
}

/// A queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueNow {
    /// Its name.
    pub name: String,
    /// Whether it is the requeue.
    pub is_requeue: bool,
    /// Letters that arrived.
    pub arriving: Series,
    /// Letters that were delivered.
    pub delivered: Series,
    /// Letters that were archived.
    pub archived: Series,
    /// Letters that wait hidden.
    pub waiting: Series,
    /// Letters that lie there, seen by nobody.
    pub visible: Series,
    /// The age of the oldest letter, seconds.
    pub oldest: Option<u64>,
    /// The time until SQS would drop the first letter that the function has seen, seconds.
    pub to_expiry: Option<u64>,
}

/// Values over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series {
    /// The sum or the highest value of each part of the range.
    pub parts: [u64; PARTS],
    /// The last value; none where there is none.
    pub last: Option<u64>,
}

/// An alarm that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// What it means.
    pub says: Option<String>,
    /// Since when it is on.
    pub since: Option<Timestamp>,
}

impl Series {
    /// Returns the sum of all parts.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.parts.iter().sum()
    }
}

/// One metric of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Arriving,
    Delivered,
    Archived,
    Waiting,
    Visible,
    Oldest,
    Expiry,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Arriving,
        Self::Delivered,
        Self::Archived,
        Self::Waiting,
        Self::Visible,
        Self::Oldest,
        Self::Expiry,
    ];

    /// The metric's name, its statistic, and whether it is of SQS.
    fn metric(self) -> (&'static str, &'static str, bool) {
        match self {
            Self::Arriving => ("LettersArrived", "Sum", false),
            Self::Delivered => ("LettersDelivered", "Sum", false),
            Self::Archived => ("LettersArchived", "Sum", false),
            Self::Waiting => ("ApproximateNumberOfMessagesNotVisible", "Maximum", true),
            Self::Visible => ("ApproximateNumberOfMessagesVisible", "Maximum", true),
            Self::Oldest => ("ApproximateAgeOfOldestMessage", "Maximum", true),
            Self::Expiry => ("SecondsToExpiry", "Minimum", false),
        }
    }
}

/// Reads what happens now.
pub(crate) async fn now(
    account: &Account,
    clients: &Clients,
    span: &Span,
    times: Times,
) -> (Now, Vec<String>) {
    let mut unread = Vec::new();
    let (queues, orders, replays, alarms) = tokio::join!(
        timeout_at(times.end, metrics(account, clients, span)),
        read_orders(account, clients, times.end),
        timeout_at(times.end, replays(account, clients)),
        timeout_at(times.end, alarms(account, clients)),
    );
    let queues = keep(queues.unwrap_or_else(|_| Err(too_late("the metrics"))), &mut unread);
    let present = account.clock.now();
    let in_force = orders.map(|orders| {
        let orders = orders.all().iter().filter(|order| !order.has_ended(present));
        orders.cloned().collect()
    });
    let orders = keep(in_force, &mut unread).filter(|_| account.control.is_some());
    let replays = keep(replays.unwrap_or_else(|_| Err(too_late("the replays"))), &mut unread);
    let alarms = keep(alarms.unwrap_or_else(|_| Err(too_late("the alarms"))), &mut unread);
    let now = Now {
        queues: queues.unwrap_or_default(),
        further: account.queues.len().saturating_sub(QUEUES),
        orders,
        replays: replays.unwrap_or_default(),
        alarms: alarms.flatten(),
    };
    (now, unread)
}

fn keep<T>(read: Result<T, String>, unread: &mut Vec<String>) -> Option<T> {
    read.map_err(|why| unread.push(why)).ok()
}

async fn metrics(account: &Account, clients: &Clients, span: &Span) -> Result<Vec<QueueNow>, String> {
    let queues: Vec<_> = account.queues.iter().take(QUEUES).collect();
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let all = queues.iter().enumerate().flat_map(|(place, queue)| {
        Kind::ALL.into_iter().enumerate().map(move |(number, kind)| {
            query(&format!("m{place}_{number}"), kind, queue, &account.namespace, period(span))
        })
    });
    let call = clients.cloudwatch.get_metric_data().set_metric_data_queries(Some(all.collect()));
    let (from, to) = (seconds(span.from), seconds(span.to));
    let answer = call.start_time(from).end_time(to).send().await;
    let answer =
        answer.map_err(|error| unread("the metrics (cloudwatch:GetMetricData)", &failure_of_call(&error)))?;
    let mut found: BTreeMap<&str, Vec<(Timestamp, u64)>> = BTreeMap::new();
    for result in answer.metric_data_results() {
        let times = result.timestamps().iter().filter_map(|at| Timestamp::from_second(at.secs()).ok());
        let values = times.zip(result.values().iter().map(|value| whole(*value)));
        found.entry(result.id().unwrap_or_default()).or_default().extend(values);
    }
    let is_requeue = |queue: &Arn| account.requeue.as_ref() == Some(queue);
    let queue = |(place, queue): (usize, &&Arn)| {
        let mut now = QueueNow {
            name: queue.resource().to_owned(),
            is_requeue: is_requeue(queue),
            ..QueueNow::default()
        };
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            let values = found.get(&*format!("m{place}_{number}")).map(Vec::as_slice).unwrap_or_default();
            let series = series(values, kind, span);
            match kind {
                Kind::Arriving => now.arriving = series,
                Kind::Delivered => now.delivered = series,
                Kind::Archived => now.archived = series,
                Kind::Waiting => now.waiting = series,
                Kind::Visible => now.visible = series,
                Kind::Oldest => now.oldest = series.last,
                Kind::Expiry => now.to_expiry = series.last,
            }
        }
        now
    };
    Ok(queues.iter().enumerate().map(queue).collect())
}

fn query(id: &str, kind: Kind, queue: &Arn, namespace: &str, period: i32) -> MetricDataQuery {
    let (name, statistic, is_of_sqs) = kind.metric();
    let (namespace, dimension) = if is_of_sqs { ("AWS/SQS", "QueueName") } else { (namespace, "Queue") };
    let dimension = Dimension::builder().name(dimension).value(queue.resource()).build();
    let metric = Metric::builder().namespace(namespace).metric_name(name).dimensions(dimension).build();
    let statistic = MetricStat::builder().metric(metric).period(period).stat(statistic).build();
    MetricDataQuery::builder().id(id).metric_stat(statistic).build()
}

/// Returns the seconds of a data point: those of a part of the range, in steps that `CloudWatch` keeps for that long.
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricStat.html>
fn period(span: &Span) -> i32 {
    let length = span.to.duration_since(span.from).unsigned_abs().as_secs().max(1);
    let step = match length {
        ..=1_296_000 => 60,
        1_296_001..=5_443_200 => 300,
        _ => 3600,
    };
    let parts = PARTS as u64;
    let part = (length / parts).max(1).div_ceil(step) * step;
    i32::try_from(part).unwrap_or(i32::MAX)
}

fn series(values: &[(Timestamp, u64)], kind: Kind, span: &Span) -> Series {
    let mut series = Series::default();
    let (_, statistic, _) = kind.metric();
    for (at, value) in values {
        let part = &mut series.parts[span.part(*at)];
        *part = if statistic == "Sum" { part.saturating_add(*value) } else { (*part).max(*value) };
    }
    series.last = values.iter().max_by_key(|(at, _)| *at).map(|(_, value)| *value);
    series
}

/// Returns a metric's value as a number of letters or seconds.
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

async fn replays(account: &Account, clients: &Clients) -> Result<Vec<State>, String> {
    let Some(Place { bucket, prefix }) = &account.control else { return Ok(Vec::new()) };
    let replays = Replays::new(clients.s3.clone(), bucket, prefix, account.clock.clone(), String::new());
    let found = replays.newest(REPLAYS).await.map_err(|error| format!("the replays: {error}"))?;
    Ok(found.into_iter().filter_map(|(_, state)| state.ok()).collect())
}

async fn alarms(account: &Account, clients: &Clients) -> Result<Option<Vec<Alarm>>, String> {
    let Some(stack) = &account.stack else { return Ok(None) };
    let call = clients.cloudwatch.describe_alarms().alarm_name_prefix(format!("{stack}-"));
    let answer = call.state_value(StateValue::Alarm).max_records(ALARMS).send().await;
    let answer =
        answer.map_err(|error| unread("the alarms (cloudwatch:DescribeAlarms)", &failure_of_call(&error)))?;
    let alarm = |alarm: &MetricAlarm| Alarm {
        name: alarm.alarm_name().unwrap_or_default().to_owned(),
        says: alarm.alarm_description().map(str::to_owned),
        since: alarm.state_updated_timestamp().and_then(|at| Timestamp::from_second(at.secs()).ok()),
    };
    Ok(Some(answer.metric_alarms().iter().map(alarm).collect()))
}

/// Returns the time that a part of a range takes.
#[must_use]
pub fn part_of(span: &Span) -> SignedDuration {
    span.to.duration_since(span.from) / i32::try_from(PARTS).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(hours: i64) -> Span {
        let from: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
        Span { from, to: from + SignedDuration::from_hours(hours) }
    }

    #[test]
    fn data_points_are_as_long_as_parts_in_steps_that_are_kept() {
        let periods = [1, 3, 24, 14 * 24, 16 * 24, 64 * 24].map(|hours| period(&span(hours)));
        assert_eq!(periods, [180, 480, 3600, 50_400, 57_600, 230_400]);
    }

    #[test]
    fn sums_are_added_within_a_part_and_heights_are_not() {
        let span = span(24);
        let at = |minutes: i64| span.from + SignedDuration::from_mins(minutes);
        let values = [(at(70), 3), (at(65), 4), (at(300), 1)];
        let sums = series(&values, Kind::Arriving, &span);
        assert_eq!((sums.parts[1], sums.parts[5], sums.last, sums.sum()), (7, 1, Some(1), 8));
        assert_eq!(series(&values, Kind::Waiting, &span).parts[1], 4);
    }
}

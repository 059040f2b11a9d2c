//! The present state: metrics by queue, orders, replays, alarms.

use std::collections::BTreeMap;

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{AlarmType, Dimension, Metric, MetricDataQuery, MetricStat, StateValue};
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

/// Queues that are shown. `CloudWatch` answers 500 metrics in one call, and a queue has five over the time.
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html>
const QUEUES: usize = 100;

/// The time before the present in which the last values of a queue are looked for, and the seconds of each. SQS tells them
/// every minute, some minutes late.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html>
const RECENT: SignedDuration = SignedDuration::from_mins(15);
const RECENT_PERIOD: i32 = 60;

/// Replays that are looked at.
const REPLAYS: usize = 8;

/// Alarms that are shown.
const ALARMS: i32 = 100;

/// Requests that reading takes at most: metrics twice, alarms, orders, the listing of replays, their states, and some that
/// are repeated.
pub(crate) const REQUESTS: u32 = 5 + 8 + 4;

/// The present state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Now {
    /// The queues.
    pub queues: Vec<QueueNow>,
    /// Queues that are not shown.
    pub further: usize,
    /// Orders that have not ended, also those that begin later; none where there is no place for them.
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
    /// True for the requeue.
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
    /// The age of the oldest letter in the last minutes, seconds.
    pub oldest: Option<u64>,
    /// The time until SQS would drop the first letter that the function has received in the last minutes, seconds.
    pub to_expiry: Option<u64>,
}

/// Values over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series {
    /// The sum or the highest value of each part of the range; zero also where `CloudWatch` has no value. The function writes
    /// its metrics only when it has run, which it does for letters alone: no value is no letter.
    pub parts: [u64; PARTS],
    /// The value of the last minutes; none where there is none.
    pub last: Option<u64>,
}

/// An alarm that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// Its meaning.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Those that are shown over the time.
    const OVER_TIME: [Self; 5] =
        [Self::Arriving, Self::Delivered, Self::Archived, Self::Waiting, Self::Visible];

    /// Those of which the last value is shown.
    const LAST: [Self; 4] = [Self::Waiting, Self::Visible, Self::Oldest, Self::Expiry];

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
    let (replays, broken) = replays.unwrap_or_default();
    unread.extend(broken);
    let alarms = keep(alarms.unwrap_or_else(|_| Err(too_late("the alarms"))), &mut unread).flatten();
    if alarms.as_ref().is_some_and(|(_, more)| *more) {
        unread.push(format!("alarms beyond the first {ALARMS} of this prefix"));
    }
    let now = Now {
        queues: queues.unwrap_or_default(),
        further: account.queues.len().saturating_sub(QUEUES),
        orders,
        replays,
        alarms: alarms.map(|(alarms, _)| alarms),
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
    let present = account.clock.now();
    let recent = present.saturating_sub(RECENT).unwrap_or(present);
    let recent = Span { from: recent, to: present };
    let (over_time, last) = tokio::join!(
        values(account, clients, &queues, &Kind::OVER_TIME, (span, period(span, present))),
        values(account, clients, &queues, &Kind::LAST, (&recent, RECENT_PERIOD)),
    );
    let (over_time, last) = (over_time?, last?);
    let queue = |(place, queue): (usize, &&Arn)| {
        let parts =
            |kind| over_time.get(&(place, kind)).map_or([0; PARTS], |values| parts(values, kind, span));
        let last = |kind| {
            let values = last.get(&(place, kind))?;
            values.iter().max_by_key(|(at, _)| *at).map(|(_, value)| *value)
        };
        let sum = |kind| Series { parts: parts(kind), last: None };
        let height = |kind| Series { parts: parts(kind), last: last(kind) };
        QueueNow {
            name: queue.resource().to_owned(),
            is_requeue: account.requeue.as_ref() == Some(*queue),
            arriving: sum(Kind::Arriving),
            delivered: sum(Kind::Delivered),
            archived: sum(Kind::Archived),
            waiting: height(Kind::Waiting),
            visible: height(Kind::Visible),
            oldest: last(Kind::Oldest),
            to_expiry: last(Kind::Expiry),
        }
    };
    Ok(queues.iter().enumerate().map(queue).collect())
}

type Values = BTreeMap<(usize, Kind), Vec<(Timestamp, u64)>>;

/// Asks for metrics of all queues in one call: by the queue's place, and the metric.
async fn values(
    account: &Account,
    clients: &Clients,
    queues: &[&Arn],
    kinds: &[Kind],
    (span, period): (&Span, i32),
) -> Result<Values, String> {
    let id = |place: usize, kind: Kind| format!("m{place}_{}", kind as u8);
    let all = queues.iter().enumerate().flat_map(|(place, queue)| {
        kinds.iter().map(move |kind| query(&id(place, *kind), *kind, queue, &account.namespace, period))
    });
    let call = clients.cloudwatch.get_metric_data().set_metric_data_queries(Some(all.collect()));
    // A range within one second would end where it begins.
    let end = span.to.as_second().max(span.from.as_second() + 1);
    let answer = call.start_time(seconds(span.from)).end_time(DateTime::from_secs(end)).send().await;
    let answer =
        answer.map_err(|error| unread("the metrics (cloudwatch:GetMetricData)", &failure_of_call(&error)))?;
    let mut found: BTreeMap<&str, Vec<(Timestamp, u64)>> = BTreeMap::new();
    for result in answer.metric_data_results() {
        let times = result.timestamps().iter().filter_map(|at| Timestamp::from_second(at.secs()).ok());
        let values = times.zip(result.values().iter().map(|value| whole(*value)));
        found.entry(result.id().unwrap_or_default()).or_default().extend(values);
    }
    let places = (0..queues.len()).flat_map(|place| kinds.iter().map(move |kind| (place, *kind)));
    Ok(places.filter_map(|(place, kind)| Some(((place, kind), found.remove(&*id(place, kind))?))).collect())
}

fn query(id: &str, kind: Kind, queue: &Arn, namespace: &str, period: i32) -> MetricDataQuery {
    let (name, statistic, is_of_sqs) = kind.metric();
    let (namespace, dimension) = if is_of_sqs { ("AWS/SQS", "QueueName") } else { (namespace, "Queue") };
    let dimension = Dimension::builder().name(dimension).value(queue.resource()).build();
    let metric = Metric::builder().namespace(namespace).metric_name(name).dimensions(dimension).build();
    let statistic = MetricStat::builder().metric(metric).period(period).stat(statistic).build();
    MetricDataQuery::builder().id(id).metric_stat(statistic).build()
}

/// Returns the seconds of a data point: those of a part of the range, in steps that `CloudWatch` still has for a range that
/// began so long ago.
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricStat.html>
fn period(span: &Span, now: Timestamp) -> i32 {
    let seconds = |to: Timestamp| to.duration_since(span.from).as_secs().try_into().unwrap_or(0_u64);
    let length = seconds(span.to).max(1);
    // 15 and 63 days.
    let step = match seconds(now) {
        ..1_296_000 => 60,
        1_296_000..5_443_200 => 300,
        _ => 3600,
    };
    let parts = PARTS as u64;
    let part = (length / parts).max(1).div_ceil(step) * step;
    i32::try_from(part).unwrap_or(i32::MAX)
}

/// Returns the sum or the highest value of each part of the range.
fn parts(values: &[(Timestamp, u64)], kind: Kind, span: &Span) -> [u64; PARTS] {
    let mut parts = [0_u64; PARTS];
    let (_, statistic, _) = kind.metric();
    for (at, value) in values {
        let part = &mut parts[span.part(*at)];
        *part = if statistic == "Sum" { part.saturating_add(*value) } else { (*part).max(*value) };
    }
    parts
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

/// Returns the latest replays, and those that cannot be read, in words.
async fn replays(account: &Account, clients: &Clients) -> Result<(Vec<State>, Vec<String>), String> {
    let Some(Place { bucket, prefix }) = &account.control else { return Ok((Vec::new(), Vec::new())) };
    let replays = Replays::new(clients.s3.clone(), bucket, prefix, account.clock.clone(), String::new());
    let found = replays.newest(REPLAYS).await.map_err(|error| format!("the replays: {error}"))?;
    let (mut states, mut broken) = (Vec::new(), Vec::new());
    for (id, state) in found {
        match state {
            Ok(state) => states.push(state),
            Err(error) => broken.push(format!("the replay {id}: {error}")),
        }
    }
    Ok((states, broken))
}

/// Returns the alarms of the stack that are on, and whether there may be more.
async fn alarms(account: &Account, clients: &Clients) -> Result<Option<(Vec<Alarm>, bool)>, String> {
    let Some(stack) = &account.stack else { return Ok(None) };
    let call = clients.cloudwatch.describe_alarms().alarm_name_prefix(format!("{stack}-"));
    // Without the types CloudWatch leaves composite alarms out.
    let call = call.alarm_types(AlarmType::MetricAlarm).alarm_types(AlarmType::CompositeAlarm);
    let answer = call.state_value(StateValue::Alarm).max_records(ALARMS).send().await;
    let answer =
        answer.map_err(|error| unread("the alarms (cloudwatch:DescribeAlarms)", &failure_of_call(&error)))?;
    let alarm = |name: Option<&str>, says: Option<&str>, [changed, updated]: [Option<&DateTime>; 2]| Alarm {
        name: name.unwrap_or_default().to_owned(),
        says: says.map(str::to_owned),
        // An update is also that of a state's reason.
        since: changed.or(updated).and_then(|at| Timestamp::from_second(at.secs()).ok()),
    };
    let composite = answer.composite_alarms().iter().map(|it| {
        let times = [it.state_transitioned_timestamp(), it.state_updated_timestamp()];
        alarm(it.alarm_name(), it.alarm_description(), times)
    });
    let plain = answer.metric_alarms().iter().map(|it| {
        let times = [it.state_transitioned_timestamp(), it.state_updated_timestamp()];
        alarm(it.alarm_name(), it.alarm_description(), times)
    });
    let own = composite.chain(plain).filter(|alarm| {
        let rest = alarm.name.strip_prefix(stack).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| is_of_stack(rest, &account.queues))
    });
    Ok(Some((own.collect(), answer.next_token().is_some())))
}

/// Reports whether an alarm is one of the templates', by its name behind that of the stack: `orders-` also begins the alarms
/// of a stack `orders-staging`. `CloudFormation` takes the names in the template, and those of `queues.yaml` end with their
/// queue.
fn is_of_stack(rest: &str, queues: &[Arn]) -> bool {
    let is_of_queue = |queue: &Arn| {
        rest.strip_suffix(queue.resource())
            .is_some_and(|it| ["silent-", "in-flight-"].into_iter().any(|kind| it.ends_with(kind)))
    };
    // The operators' stack has this name in the guide.
    let rest = rest.strip_prefix("operations-").unwrap_or(rest);
    rest.split('-').next().is_some_and(|name| name.ends_with("Alarm")) || queues.iter().any(is_of_queue)
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
        let periods = [1, 3, 24, 14 * 24, 16 * 24, 64 * 24].map(|hours| {
            let span = span(hours);
            period(&span, span.to)
        });
        assert_eq!(periods, [180, 480, 3600, 50_400, 57_600, 230_400]);
        // A short range that lies long back.
        let hour = span(1);
        let long_ago =
            [14, 15, 62, 63].map(|days| period(&hour, hour.from + SignedDuration::from_hours(days * 24)));
        assert_eq!(long_ago, [180, 300, 300, 3600]);
    }

    #[test]
    fn sums_are_added_within_a_part_and_heights_are_not() {
        let span = span(24);
        let at = |minutes: i64| span.from + SignedDuration::from_mins(minutes);
        let values = [(at(70), 3), (at(65), 4), (at(300), 1)];
        let sums = parts(&values, Kind::Arriving, &span);
        assert_eq!((sums[1], sums[5], sums.iter().sum::<u64>()), (7, 1, 8));
        assert_eq!(parts(&values, Kind::Waiting, &span)[1], 4);
    }
}

//! What a fleet's line says of one stack, and the calls that tell it.

use std::collections::BTreeMap;

use aws_sdk_cloudformation::types::Stack;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{
    AlarmType, Dimension, Metric, MetricDataQuery, MetricStat, StateValue, StatusCode,
};
use aws_sdk_sqs::types::QueueAttributeName;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use redrive_archive::{ArchiveSweep, SweepEnd};
use redrive_aws::clients::{AwsClients, failure_of_call};
use redrive_aws::settings::{ArchiveAt, Settings};
use redrive_console::ConsoleClients;
use redrive_core::arn::Arn;
use redrive_core::failure::Failure;
use tokio::time::{Instant, timeout_at};

use crate::aws::AwsAccess;
use crate::doctor;

/// The outputs by which a stack of `template.yaml` is recognised.
const OUTPUTS: [&str; 3] = ["FunctionName", "DeadLetterQueueArn", "MetricsNamespace"];

/// The most pages of keys that are listed for the number of letters of today.
const MAX_PAGES: u32 = 100;

/// The time in which the newest reading of a metric is looked for. Metrics of SQS come late.
const READING_AGE: SignedDuration = SignedDuration::from_mins(15);

/// Something that was asked for, or why it could not be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen<T> {
    Known(T),
    /// The permission of this name is missing.
    Denied(String),
    /// There was no answer within the deadline.
    NoAnswer,
    Failed(String),
}

/// A stack of the template.
#[derive(Debug, Clone)]
pub(super) struct FleetStack {
    pub(super) name: String,
    outputs: BTreeMap<String, String>,
}

/// The facts about a stack.
#[derive(Debug, Clone)]
pub(super) struct StackFacts {
    /// The letters in its queues, by SQS: about so many.
    pub(super) waiting: Seen<u64>,
    /// The letters that were archived since midnight UTC, by the keys, and whether that is all of them.
    pub(super) archived_today: Seen<(u64, bool)>,
    /// The names of the alarms that are on.
    pub(super) alarms: Seen<Vec<String>>,
    /// The age of the oldest letter in seconds. `None` if no queue has one.
    pub(super) oldest: Seen<Option<u64>>,
    pub(super) version: Seen<String>,
}

/// Reads what the stacks of one place tell.
pub(super) struct FactReader {
    clients: AwsClients,
    console: ConsoleClients,
    formation: aws_sdk_cloudformation::Client,
    until: Instant,
    now: Timestamp,
}

/// A stack, or the name of one that could not be seen.
type FoundStack = Result<FleetStack, (String, Seen<()>)>;

impl<T> Seen<T> {
    /// Returns what is to be said of a call that failed.
    pub(super) fn of(call: &str, failure: &Failure) -> Self {
        if failure.is_denied() || failure.code.contains("UnauthorizedOperation") {
            Self::Denied(call.to_owned())
        } else {
            Self::Failed(format!("{call} failed ({})", failure.code))
        }
    }

    fn map<U>(self, change: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Known(value) => Seen::Known(change(value)),
            Self::Denied(call) => Seen::Denied(call),
            Self::NoAnswer => Seen::NoAnswer,
            Self::Failed(why) => Seen::Failed(why),
        }
    }
}

impl FactReader {
    pub(super) fn new(aws: &AwsAccess, until: Instant, now: Timestamp) -> Self {
        let (clients, console, formation) = (aws.clients(), aws.console(), aws.formation());
        Self { clients, console, formation, until, now }
    }

    /// Waits for an answer until the deadline.
    async fn within<T>(&self, asks: impl Future<Output = Result<T, Seen<T>>>) -> Seen<T> {
        match timeout_at(self.until, Box::pin(asks)).await {
            Ok(Ok(answer)) => Seen::Known(answer),
            Ok(Err(unseen)) => unseen,
            Err(_) => Seen::NoAnswer,
        }
    }

    /// Returns the named stacks, or all stacks of the template.
    ///
    /// # Errors
    ///
    /// They cannot be listed.
    pub(super) async fn stacks(
        &self,
        names: &[String],
    ) -> Result<Vec<FoundStack>, (Option<String>, Seen<()>)> {
        if names.is_empty() {
            return match self.within(self.described(None)).await {
                Seen::Known(stacks) => {
                    let is_ours =
                        |stack: &FleetStack| OUTPUTS.iter().all(|output| stack.outputs.contains_key(*output));
                    Ok(stacks.into_iter().filter(is_ours).map(Ok).collect())
                }
                unseen => Err((None, unseen.map(|_| ()))),
            };
        }
        let named = names.iter().map(async |name| {
            let described = self.within(self.described(Some(name))).await;
            match described {
                Seen::Known(stacks) => stacks
                    .into_iter()
                    .next()
                    .ok_or_else(|| (name.clone(), Seen::Failed("there is no such stack".to_owned()))),
                unseen => Err((name.clone(), unseen.map(|_| ()))),
            }
        });
        Ok(futures_util::future::join_all(named).await)
    }

    async fn described(&self, name: Option<&String>) -> Result<Vec<FleetStack>, Seen<Vec<FleetStack>>> {
        let call = self.formation.describe_stacks().set_stack_name(name.cloned());
        let mut pages = call.into_paginator().send();
        let mut stacks = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| {
                let failure = failure_of_call(&error);
                if failure.code == "ValidationError" {
                    return Seen::Failed("there is no such stack".to_owned());
                }
                Seen::of("cloudformation:DescribeStacks", &failure)
            })?;
            stacks.extend(page.stacks().iter().map(FleetStack::of));
        }
        Ok(stacks)
    }

    /// Reads the facts about a stack, all at the same time.
    pub(super) async fn facts(&self, stack: &FleetStack) -> StackFacts {
        let queues = match stack.queues() {
            Ok(queues) => queues,
            Err(why) => return StackFacts::unknown(&why),
        };
        let (waiting, archived_today, alarms, oldest, version) = tokio::join!(
            self.within(self.waiting(&queues)),
            self.within(self.archived_today(stack)),
            self.within(self.alarms(stack, &queues)),
            self.within(self.oldest(&queues)),
            self.within(self.version(stack)),
        );
        StackFacts { waiting, archived_today, alarms, oldest, version }
    }

    async fn waiting(&self, queues: &[Arn]) -> Result<u64, Seen<u64>> {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let mut letters = 0;
        for queue in queues {
            let call = self.clients.sqs.get_queue_attributes().queue_url(queue.queue_url());
            let answer = call.set_attribute_names(Some(names.to_vec())).send().await;
            let answer =
                answer.map_err(|error| Seen::of("sqs:GetQueueAttributes", &failure_of_call(&error)))?;
            let number = |name| answer.attributes().and_then(|all| all.get(name)?.parse::<u64>().ok());
            letters += names.iter().filter_map(number).sum::<u64>();
        }
        Ok(letters)
    }

    async fn archived_today(&self, stack: &FleetStack) -> Result<(u64, bool), Seen<(u64, bool)>> {
        let place = stack.outputs.get("ArchiveLocation").cloned();
        let settings = Settings::read(|name: &str| place.clone().filter(|_| name == "ARCHIVE"));
        let Ok(ArchiveAt::S3 { bucket, prefix }) = settings.map(|settings| settings.archive) else {
            return Err(Seen::Failed("the stack has no output ArchiveLocation".to_owned()));
        };
        let midnight = self.now.to_zoned(TimeZone::UTC).start_of_day().map(|day| day.timestamp());
        let range = (midnight.unwrap_or(self.now), Timestamp::MAX);
        let range = (range.0, self.now.saturating_add(SignedDuration::from_hours(24)).unwrap_or(range.1));
        let (mut letters, mut is_whole) = (0, true);
        let sweep = ArchiveSweep::new(self.clients.s3.clone(), &bucket, &prefix, range, MAX_PAGES);
        let end = sweep.run(None, |object| match object.index {
            Some(index) => letters += index.letters,
            None => is_whole = false,
        });
        let end = end.await.map_err(|failure| Seen::of("s3:ListBucket", &failure))?;
        Ok((letters, is_whole && end == SweepEnd::Whole))
    }

    async fn alarms(&self, stack: &FleetStack, queues: &[Arn]) -> Result<Vec<String>, Seen<Vec<String>>> {
        let call = self.console.cloudwatch.describe_alarms().alarm_name_prefix(format!("{}-", stack.name));
        // CloudWatch leaves out composite alarms unless the request names both types.
        let call = call.alarm_types(AlarmType::MetricAlarm).alarm_types(AlarmType::CompositeAlarm);
        let mut pages = call.state_value(StateValue::Alarm).into_paginator().send();
        let mut names = Vec::new();
        while let Some(page) = pages.next().await {
            let page =
                page.map_err(|error| Seen::of("cloudwatch:DescribeAlarms", &failure_of_call(&error)))?;
            let composite = page.composite_alarms().iter().filter_map(|alarm| alarm.alarm_name());
            let plain = page.metric_alarms().iter().filter_map(|alarm| alarm.alarm_name());
            names.extend(composite.chain(plain).map(str::to_owned));
        }
        names.retain(|name| redrive_console::read::is_alarm_of_stack(name, &stack.name, queues));
        Ok(names)
    }

    async fn oldest(&self, queues: &[Arn]) -> Result<Option<u64>, Seen<Option<u64>>> {
        let query = |(place, queue): (usize, &Arn)| {
            let dimension = Dimension::builder().name("QueueName").value(queue.resource()).build();
            let metric = Metric::builder().namespace("AWS/SQS").metric_name("ApproximateAgeOfOldestMessage");
            let statistic = MetricStat::builder().metric(metric.dimensions(dimension).build());
            let statistic = statistic.period(60).stat("Maximum").build();
            MetricDataQuery::builder().id(format!("m{place}")).metric_stat(statistic).build()
        };
        let queries: Vec<_> = queues.iter().enumerate().map(query).collect();
        let from = self.now.saturating_sub(READING_AGE).unwrap_or(self.now);
        let seconds = |at: Timestamp| DateTime::from_secs(at.as_second());
        let call = self.console.cloudwatch.get_metric_data().set_metric_data_queries(Some(queries));
        let answer = call.start_time(seconds(from)).end_time(seconds(self.now)).send().await;
        let answer =
            answer.map_err(|error| Seen::of("cloudwatch:GetMetricData", &failure_of_call(&error)))?;
        let mut oldest = None;
        for result in answer.metric_data_results() {
            if result.status_code().is_some_and(|code| *code != StatusCode::Complete) {
                return Err(Seen::Failed("cloudwatch:GetMetricData gave a part only".to_owned()));
            }
            let readings = result.timestamps().iter().zip(result.values());
            let newest = readings.max_by_key(|(at, _)| at.secs()).map(|(_, age)| *age);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an age in seconds")]
            let newest = newest.filter(|age| *age > 0.0).map(|age| age as u64);
            oldest = oldest.max(newest);
        }
        Ok(oldest)
    }

    async fn version(&self, stack: &FleetStack) -> Result<String, Seen<String>> {
        let read = doctor::template_version(&self.formation, &stack.name).await;
        match read {
            Ok(Some(version)) => Ok(version),
            Ok(None) => Err(Seen::Failed("its template names no release".to_owned())),
            Err(error) if error.is_denied() => Err(Seen::Denied(error.call.to_owned())),
            Err(error) => Err(Seen::Failed(format!("{} failed ({})", error.call, error.why))),
        }
    }
}

impl FleetStack {
    fn of(stack: &Stack) -> Self {
        let pair = |output: &aws_sdk_cloudformation::types::Output| {
            Some((output.output_key()?.to_owned(), output.output_value()?.to_owned()))
        };
        Self {
            name: stack.stack_name().unwrap_or_default().to_owned(),
            outputs: stack.outputs().iter().filter_map(pair).collect(),
        }
    }

    /// Returns the queues that its outputs name. The error names an output that is no queue.
    fn queues(&self) -> Result<Vec<Arn>, String> {
        let outputs = ["DeadLetterQueueArn", "RequeueArn"].into_iter();
        let named = outputs.filter_map(|output| Some((output, self.outputs.get(output)?)));
        let queues: Result<Vec<Arn>, _> = named
            .map(|(output, arn)| arn.parse().map_err(|_| format!("the output {output} is no ARN")))
            .collect();
        queues.and_then(|queues| {
            let none = "the stack has no output DeadLetterQueueArn: it is not one of template.yaml";
            if queues.is_empty() { Err(none.to_owned()) } else { Ok(queues) }
        })
    }
}

impl StackFacts {
    /// Returns the facts about something that is no stack of the template.
    fn unknown(why: &str) -> Self {
        let why = || why.to_owned();
        Self {
            waiting: Seen::Failed(why()),
            archived_today: Seen::Failed(why()),
            alarms: Seen::Failed(why()),
            oldest: Seen::Failed(why()),
            version: Seen::Failed(why()),
        }
    }
}

//! The stack's alarms that are on.

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{AlarmType, StateValue};
use jiff::Timestamp;
use redrive_aws::clients::failure_of_call;
use redrive_core::arn::Arn;

use super::collect::unread;
use crate::account::{ConsoleAccount, ConsoleClients};

/// The most alarms on the page.
pub(super) const MAX_ALARMS: i32 = 100;

/// An alarm in the state ALARM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// The alarm's description.
    pub says: Option<String>,
    /// When the alarm went on.
    pub since: Option<Timestamp>,
}

/// Returns the stack's alarms that are on, and whether there may be more.
pub(super) async fn alarms(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
) -> Result<Option<(Vec<Alarm>, bool)>, String> {
    let Some(stack) = &account.stack else { return Ok(None) };
    let call = clients.cloudwatch.describe_alarms().alarm_name_prefix(format!("{stack}-"));
    // CloudWatch leaves out composite alarms unless the request names both types.
    let call = call.alarm_types(AlarmType::MetricAlarm).alarm_types(AlarmType::CompositeAlarm);
    let answer = call.state_value(StateValue::Alarm).max_records(MAX_ALARMS).send().await;
    let answer =
        answer.map_err(|error| unread("the alarms (cloudwatch:DescribeAlarms)", &failure_of_call(&error)))?;
    let alarm = |name: Option<&str>, says: Option<&str>, [changed, updated]: [Option<&DateTime>; 2]| Alarm {
        name: name.unwrap_or_default().to_owned(),
        says: says.map(str::to_owned),
        // The second time changes with the state's reason too, so it is the second choice.
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
    let own = composite.chain(plain).filter(|alarm| is_alarm_of_stack(&alarm.name, stack, &account.queues));
    Ok(Some((own.collect(), answer.next_token().is_some())))
}

/// Reports whether an alarm belongs to a stack of the templates with these queues, by its name.
#[must_use]
pub fn is_alarm_of_stack(name: &str, stack: &str, queues: &[Arn]) -> bool {
    let rest = name.strip_prefix(stack).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| is_of_stack(rest, queues))
}

/// Reports whether an alarm belongs to the stack's templates, by its name after the stack's. The prefix alone
/// is not enough: `overrides-` also begins the alarms of a stack `overrides-staging`. `CloudFormation` takes the
/// names from the template. Those of `queues.yaml` end with their queue's name; the page need not know that
/// queue if the stack is named as in the guide.
fn is_of_stack(rest: &str, queues: &[Arn]) -> bool {
    let kinds = ["silent-", "in-flight-"];
    let is_of_queue = |queue: &Arn| {
        rest.strip_suffix(queue.resource()).is_some_and(|it| kinds.into_iter().any(|kind| it.ends_with(kind)))
    };
    let named =
        ["operations-", "queues-"].into_iter().find_map(|name| rest.strip_prefix(name)).unwrap_or(rest);
    named.split('-').next().is_some_and(|name| name.ends_with("Alarm"))
        || kinds.into_iter().any(|kind| named.starts_with(kind))
        || queues.iter().any(is_of_queue)
}

//! Why SNS may have given up on the letters of groups: what AWS shows of their endpoints now, and the topics' logs.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use redrive_aws::lookup::SubscriptionReader;
use redrive_core::arn::Arn;
use redrive_core::batch::{SendResult, Subscription, SubscriptionCheck, SubscriptionLookup};
use redrive_core::endpoint::TargetName;
use redrive_core::failure::Failure;
use redrive_core::policy::Route;
use tokio::time::Instant;

use super::letter_groups::LetterGroup;
use crate::aws::AwsAccess;
use crate::console::ToolEnvironment;
use crate::doctor::{ReadError, ReadResult};
use crate::endpoint_state::{EndpointReader, EndpointState, LoggedFailures, StatusLog};

/// The largest number of subscriptions that are looked up: SNS answers 30 a second in small regions.
const MAX_LOOKUPS: usize = 200;

/// How long calls to SNS may begin.
const LOOKUP_TIME: Duration = Duration::from_secs(30);

/// What is known of the endpoint of a group.
#[derive(Default)]
pub(super) struct GroupCause {
    /// The endpoint, if it is known.
    pub(super) target: Option<TargetName>,
    pub(super) state: Option<EndpointState>,
    pub(super) log: Option<ReadResult<GroupLog>>,
    /// True if the letters' subscription delivers raw.
    pub(super) is_raw: bool,
}

/// What a topic's log says of an endpoint.
pub(super) enum GroupLog {
    /// The log is off. The command switches it on.
    Off { command: String },
    /// The failures of the hour before the newest letter.
    Failures(LoggedFailures),
    /// The log of that hour is too long to be read whole, and what was read has none of this endpoint.
    Unknown,
}

/// The causes of groups, in their order.
pub(super) struct GroupCauses(pub(super) Vec<GroupCause>);

impl GroupCauses {
    /// Reads the causes of the largest groups.
    pub(super) async fn read(
        aws: &AwsAccess,
        reader: &EndpointReader,
        queue: &Arn,
        groups: &[LetterGroup],
        console: &ToolEnvironment,
    ) -> Self {
        let subscriptions: BTreeSet<_> =
            groups.iter().filter_map(|group| group.key.subscription.clone()).take(MAX_LOOKUPS).collect();
        let lookups = SubscriptionReader::new(aws.clients().sns, console.clock.clone());
        let known = lookups.look_up(subscriptions, Instant::now() + LOOKUP_TIME).await;
        let mut states = EndpointStates::new();
        let mut logs = HashMap::new();
        let mut causes = Vec::new();
        for group in groups {
            let lookup = group.key.subscription.as_ref().map(|subscription| known.get(subscription));
            let cause = match lookup {
                Some(Some(Ok(Some(subscription)))) => {
                    // A policy may let SNS in for one topic and not for another.
                    let key = (subscription.endpoint.clone(), Some(subscription.topic.clone()));
                    let state = match states.get(&key) {
                        Some(state) => EndpointState::clone(state),
                        None => reader.of_subscription(subscription).await,
                    };
                    states.insert(key, state.clone());
                    let log = of_log(aws, subscription, group, &mut logs).await;
                    GroupCause {
                        target: subscription.deliverable().map(|endpoint| endpoint.name()),
                        state: Some(refusal(subscription, group, queue).unwrap_or(state)),
                        log,
                        is_raw: subscription.raw,
                    }
                }
                Some(lookup) => GroupCause { state: Some(unknown(lookup)), ..GroupCause::default() },
                None => of_target(reader, group, &mut states).await,
            };
            causes.push(cause);
        }
        Self(causes)
    }

    /// Reports whether a call was denied, or failed.
    pub(super) fn are_unseen(&self) -> bool {
        self.0.iter().any(|cause| {
            cause.state.as_ref().is_some_and(|state| state.is_unseen) || matches!(cause.log, Some(Err(_)))
        })
    }
}

/// Returns why letters would not go through a subscription, whatever its endpoint.
fn refusal(subscription: &Subscription, group: &LetterGroup, queue: &Arn) -> Option<EndpointState> {
    match subscription.check(group.key.topic.as_ref(), queue) {
        SubscriptionCheck::Refused(refusal) => Some(EndpointState::broken(refusal.detail())),
        SubscriptionCheck::Endpoint(_) | SubscriptionCheck::Undeliverable(_) => None,
    }
}

/// Returns the state of the endpoint of a subscription that SNS did not describe.
fn unknown(lookup: Option<&SubscriptionLookup>) -> EndpointState {
    match lookup {
        Some(Ok(_)) => EndpointState::broken("the subscription does not exist any more"),
        Some(Err(SendResult::Failed(Failure { code, message, .. }))) => {
            let error =
                ReadError { said: message.clone(), ..ReadError::new("sns:GetSubscriptionAttributes", code) };
            EndpointState::unseen(&error)
        }
        Some(Err(_)) => {
            EndpointState::unseen(&ReadError::new("sns:GetSubscriptionAttributes", "out of time"))
        }
        None => EndpointState::cannot_tell(format!("not looked up: only {MAX_LOOKUPS} subscriptions are")),
    }
}

async fn of_target(reader: &EndpointReader, group: &LetterGroup, states: &mut EndpointStates) -> GroupCause {
    let by_rule = match &group.route {
        Route::To(arn) => Some(arn),
        _ => None,
    };
    let Some(arn) = group.key.failed.as_ref().or(by_rule) else { return GroupCause::default() };
    let key = (arn.as_str().to_owned(), None);
    let state = match states.get(&key) {
        Some(state) => Some(state.clone()),
        None => reader.of_target(arn).await,
    };
    if let Some(state) = &state {
        states.insert(key, state.clone());
    }
    GroupCause { target: by_rule.map(|arn| TargetName::read(arn.as_str())), state, ..GroupCause::default() }
}

/// The states of endpoints, by endpoint and by the topic for which SNS delivers.
type EndpointStates = HashMap<(String, Option<String>), EndpointState>;

/// The logs of topics by protocol, and by the time of the newest letter.
type TopicLogs = HashMap<(Arn, String, Timestamp), Option<ReadResult<StatusLog>>>;

/// Returns what the log of the group's topic says of its endpoint.
async fn of_log(
    aws: &AwsAccess,
    subscription: &Subscription,
    group: &LetterGroup,
    logs: &mut TopicLogs,
) -> Option<ReadResult<GroupLog>> {
    let topic: Arn = subscription.topic.parse().ok()?;
    let key = (topic.clone(), subscription.protocol.clone(), group.newest);
    if !logs.contains_key(&key) {
        let read = StatusLog::read(aws, &topic, &subscription.protocol, group.newest).await;
        logs.insert(key.clone(), read);
    }
    Some(match logs.get(&key)?.as_ref()? {
        Ok(StatusLog::Off { command }) => Ok(GroupLog::Off { command: command.clone() }),
        Ok(StatusLog::On { failures, is_whole }) => match failures.get(&subscription.endpoint) {
            Some(failures) => Ok(GroupLog::Failures(failures.clone())),
            None if *is_whole => Ok(GroupLog::Failures(LoggedFailures::default())),
            None => Ok(GroupLog::Unknown),
        },
        Err(error) => Err(error.clone()),
    })
}

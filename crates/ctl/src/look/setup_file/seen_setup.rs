//! The subscriptions, keys and settings around a queue.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::arn::{Arn, ArnKind};

use crate::aws::AwsAccess;
use crate::console::ToolEnvironment;
use crate::doctor::{DeployedQueue, DeployedSubscription, QueueKey, key_of, read_queue, read_subscriptions};
use crate::look::letter_groups::LetterGroup;

/// The timeout of the template's function, in seconds.
const FUNCTION_TIMEOUT: u64 = 30;

/// The visibility timeout that AWS advises: six times the function's.
const ADVISED_VISIBILITY: u64 = 6 * FUNCTION_TIMEOUT;

/// The retention of the template's queue, in seconds.
const TEMPLATE_RETENTION: u64 = 1_209_600;

/// The endpoints that letters go back to.
pub(super) struct SeenTargets {
    pub(super) queues: BTreeSet<String>,
    pub(super) functions: BTreeSet<String>,
    pub(super) streams: BTreeSet<String>,
    /// The customer-managed keys of queues.
    pub(super) keys: BTreeSet<String>,
}

/// The subscriptions, keys and settings around a queue.
pub(crate) struct SeenSetup {
    pub(super) queue: DeployedQueue,
    /// The ARN of the queue's own key, if it has a customer-managed one.
    pub(super) key: Option<String>,
    /// The queue's visibility timeout, in seconds.
    pub(super) visibility: Option<u64>,
    /// The visibility timeout to set, if the queue's is too short.
    pub(super) raise_visibility: Option<u64>,
    /// The retention to set, if the queue's is shorter than that of the template's queue.
    pub(super) raise_retention: Option<u64>,
    pub(super) topics: BTreeSet<String>,
    pub(super) targets: SeenTargets,
    /// The raw subscriptions that name the queue.
    pub(super) raw: Vec<DeployedSubscription>,
    /// The number of other subscriptions of the topics, which name no dead-letter queue, by topic.
    pub(super) unattached: BTreeMap<String, u64>,
    /// The origins that letters claim, such as `lambda-async`.
    pub(super) claims: BTreeSet<&'static str>,
    /// What could not be read, in words.
    pub(super) unseen: Vec<String>,
}

impl SeenSetup {
    pub(super) async fn read(
        aws: &AwsAccess,
        queue: &DeployedQueue,
        groups: &[LetterGroup],
        console: &mut ToolEnvironment,
    ) -> Self {
        let clients = aws.clients();
        let mut unseen = Vec::new();
        let subscriptions =
            match read_subscriptions(&clients.sns, std::slice::from_ref(queue), None, console).await {
                Ok(found) => {
                    for (why, number) in &found.unread {
                        unseen.push(format!("sns:GetSubscriptionAttributes failed {number} times ({why})"));
                    }
                    found.all
                }
                Err(error) => {
                    unseen.push(format!("{} failed ({})", error.call, error.reason()));
                    Vec::new()
                }
            };
        let mut topics: BTreeSet<_> =
            groups.iter().filter_map(|group| group.key.topic.as_ref()).map(ToString::to_string).collect();
        let mut endpoints: BTreeSet<Arn> = BTreeSet::new();
        let (mut raw, mut unattached) = (Vec::new(), BTreeMap::new());
        for subscription in subscriptions {
            if subscription.names(queue) {
                topics.insert(subscription.topic.clone());
                endpoints.extend(subscription.endpoint.parse::<Arn>());
                if subscription.is_raw {
                    raw.push(subscription);
                }
            } else if subscription.dead_letters.is_none() && subscription.endpoint != queue.arn.as_str() {
                // It will be attached by a command of this tool, and needs the same grants then.
                endpoints.extend(subscription.endpoint.parse::<Arn>());
                *unattached.entry(subscription.topic).or_default() += 1;
            }
        }
        endpoints.extend(groups.iter().filter_map(|group| group.key.failed.clone()));
        let of_kind = |kind| {
            let arns = endpoints.iter().filter(move |arn| arn.kind() == kind);
            arns.map(ToString::to_string).collect::<BTreeSet<_>>()
        };
        let mut keys = BTreeSet::new();
        for arn in endpoints.iter().filter(|arn| arn.kind() == ArnKind::Queue) {
            let target = read_queue(&clients.sqs, arn.clone()).await;
            match own_key(aws, &target).await {
                Ok(key) => keys.extend(key),
                Err(why) => unseen.push(why),
            }
        }
        let key = own_key(aws, queue).await.unwrap_or_else(|why| {
            unseen.push(why);
            None
        });
        let visibility = queue.number("VisibilityTimeout");
        let retention = queue.number("MessageRetentionPeriod");
        Self {
            key,
            visibility,
            raise_visibility: (visibility.unwrap_or(FUNCTION_TIMEOUT) < ADVISED_VISIBILITY)
                .then_some(ADVISED_VISIBILITY),
            raise_retention: retention
                .is_some_and(|it| it < TEMPLATE_RETENTION)
                .then_some(TEMPLATE_RETENTION),
            topics,
            targets: SeenTargets {
                queues: of_kind(ArnKind::Queue),
                functions: of_kind(ArnKind::Function),
                streams: of_kind(ArnKind::Stream),
                keys,
            },
            raw,
            unattached,
            claims: groups.iter().filter_map(|group| group.key.claim).collect(),
            unseen,
            queue: queue.clone(),
        }
    }
}

/// Returns the ARN of the customer-managed key of a queue, if it has one.
///
/// # Errors
///
/// The key could not be described, in words.
async fn own_key(aws: &AwsAccess, queue: &DeployedQueue) -> Result<Option<String>, String> {
    let QueueKey::Own(key) = key_of(queue) else { return Ok(None) };
    let key = crate::endpoint_state::key_arn(key, &queue.arn);
    let read = aws.kms().describe_key().key_id(&key).send().await;
    let read = read.map_err(|error| {
        let error = crate::doctor::read_error("kms:DescribeKey", &error);
        format!("the key of {}: {} failed ({})", queue.arn, error.call, error.reason())
    })?;
    Ok(read.key_metadata().and_then(|key| key.arn()).map(str::to_owned))
}

//! The queue to look at, and the reasons not to.

use redrive_aws::clients::AwsClients;
use redrive_core::arn::Arn;
use serde_json::Value;

use crate::aws::AwsAccess;
use crate::console::CommandFailure;
use crate::doctor::{DeployedQueue, mappings_of_queue, read_queue};
use crate::named_queue::arn_of;
use crate::tables::harmless;

/// The retention of a queue that names none, in seconds.
const DEFAULT_RETENTION: u64 = 345_600;

/// A queue that may be looked at.
pub(super) struct LookedQueue {
    pub(super) queue: DeployedQueue,
    /// Seconds.
    pub(super) retention: u64,
    /// The approximate numbers of visible and of hidden letters.
    pub(super) visible: u64,
    pub(super) hidden: u64,
}

impl LookedQueue {
    /// Reads a queue by its name, URL or ARN.
    ///
    /// # Errors
    ///
    /// It cannot be read, a function drains it, or SQS would move letters that are received too often.
    pub(super) async fn of(named: &str, aws: &AwsAccess) -> Result<Self, CommandFailure> {
        let (arn, clients) = (arn_of(named, aws).await?, aws.clients());
        if arn.region() != aws.region() {
            let problem = format!("{arn} is in {}: give --region {}", arn.region(), arn.region());
            return Err(CommandFailure::Input(vec![problem]));
        }
        let queue = read_queue(&clients.sqs, arn).await;
        if let Err(error) = &queue.attributes {
            let why =
                format!("cannot read the queue {}: {} failed ({})", queue.arn, error.call, error.reason());
            return Err(CommandFailure::of_call(why, error.is_denied()));
        }
        let mut reasons: Vec<_> = moves(&queue).into_iter().collect();
        reasons.extend(drained(&queue.arn, &clients).await?);
        if !reasons.is_empty() {
            return Err(CommandFailure::Input(reasons));
        }
        let number = |name| queue.number(name).unwrap_or(0);
        Ok(Self {
            retention: queue.number("MessageRetentionPeriod").unwrap_or(DEFAULT_RETENTION),
            visible: number("ApproximateNumberOfMessages"),
            hidden: number("ApproximateNumberOfMessagesNotVisible"),
            queue,
        })
    }
}

/// Returns the reason if SQS would move letters to another queue that are received too often.
fn moves(queue: &DeployedQueue) -> Option<String> {
    let policy: Value = serde_json::from_str(queue.attribute("RedrivePolicy")?).ok()?;
    let to = policy["deadLetterTargetArn"].as_str()?;
    Some(format!(
        "{} has a dead-letter queue of its own, {}: SQS would move letters there that are received too often, and looking \
         is a receive",
        queue.arn,
        harmless(to)
    ))
}

/// Returns the reason if a function receives from the queue.
async fn drained(queue: &Arn, clients: &AwsClients) -> Result<Option<String>, CommandFailure> {
    let mappings = mappings_of_queue(&clients.lambda, queue).await.map_err(|error| {
        let (call, reason) = (error.call, error.reason());
        let why = format!("cannot tell whether a function receives from {queue}: {call} failed ({reason})");
        CommandFailure::of_call(why, error.is_denied())
    })?;
    let working = mappings.iter().find(|mapping| mapping.state() != Some("Disabled"));
    Ok(working.map(|mapping| {
        let function = harmless(mapping.function_arn().unwrap_or("a function"));
        format!(
            "{function} receives from {queue}: letters that are looked at would be missing there, and count as received. \
             With sns-redrive, use redrivectl waiting, archive list or serve"
        )
    }))
}

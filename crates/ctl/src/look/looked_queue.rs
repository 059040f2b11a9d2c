//! The queue to look at, and the reasons not to.

use redrive_aws::clients::AwsClients;
use redrive_core::arn::{Arn, ArnKind};
use serde_json::Value;
use url::Url;

use crate::aws::{self, AwsAccess};
use crate::console::CommandFailure;
use crate::doctor::{DeployedQueue, mappings_of_queue, read_queue};
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

/// Returns the ARN of a queue that is named by its name, URL or ARN.
async fn arn_of(named: &str, aws: &AwsAccess) -> Result<Arn, CommandFailure> {
    let no_queue = || {
        let problem =
            format!("--queue {}: it must be the name, the URL or the ARN of a queue", harmless(named));
        CommandFailure::Input(vec![problem])
    };
    if let Ok(arn) = named.parse::<Arn>() {
        return if arn.kind() == ArnKind::Queue { Ok(arn) } else { Err(no_queue()) };
    }
    let caller = aws::caller(&aws.sts()).await.map_err(|failure| {
        let why = format!("sts:GetCallerIdentity failed ({}): give --queue as an ARN", failure.told());
        CommandFailure::of_call(why, failure.is_denied())
    })?;
    let mut parts = caller.split(':').skip(1);
    let (partition, own_account) = (parts.next().unwrap_or_default(), parts.nth(2).unwrap_or_default());
    let (region, account, name) = match Url::parse(named) {
        Ok(url) => of_url(&url).unwrap_or_default(),
        Err(_) => (None, None, named.to_owned()),
    };
    let region = region.unwrap_or_else(|| aws.region());
    let account = account.unwrap_or_else(|| own_account.to_owned());
    let arn = format!("arn:{partition}:sqs:{region}:{account}:{name}").parse::<Arn>();
    arn.ok().filter(|arn| arn.kind() == ArnKind::Queue).ok_or_else(no_queue)
}

/// Returns region, account and name of a queue's URL. The host of a local stack names no region.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html>
fn of_url(url: &Url) -> Option<(Option<String>, Option<String>, String)> {
    let region =
        url.host_str().and_then(|host| Some(host.strip_prefix("sqs.")?.split_once('.')?.0.to_owned()));
    let (account, name) = url.path().strip_prefix('/')?.rsplit_once('/')?;
    let account = account.rsplit('/').next().unwrap_or(account);
    Some((region, Some(account.to_owned()), name.to_owned()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_queue() {
        let read = |url: &str| of_url(&Url::parse(url).unwrap());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("https://sqs.eu-central-1.amazonaws.com/123456789012/payments-dlq"),
            Some((some("eu-central-1"), some("123456789012"), "payments-dlq".to_owned()))
        );
        assert_eq!(
            read("http://localhost:4566/queue/eu-central-1/000000000000/payments-dlq.fifo"),
            Some((None, some("000000000000"), "payments-dlq.fifo".to_owned()))
        );
        assert_eq!(read("https://sqs.eu-central-1.amazonaws.com/"), None);
    }
}

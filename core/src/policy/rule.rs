//! A rule: what to do with the letters that fall under it.

use super::delivery::DeliverySpec;
use crate::arn::Arn;

/// What to do with the letters that fall under it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name in logs and archived records; `default` for the default.
    pub name: String,
    /// What to do at all.
    pub action: Action,
    /// Where retries go.
    pub target: TargetSpec,
    /// When they go.
    pub delivery: DeliverySpec,
    /// How far delays may be shortened, 0 to 1.
    pub jitter: f64,
    /// ARNs and URL prefixes that may be reached; `None` for whatever the target comes down to.
    pub allow_targets: Option<Vec<String>>,
    /// Whether the schedule goes on after a permanent failure.
    pub retry_permanent: bool,
    /// The subscription of letters that name none.
    pub subscription: SubscriptionSpec,
    /// Whether a letter's signature must verify.
    pub verify_signature: bool,
    /// What becomes of a FIFO group whose head fails.
    pub fifo: Fifo,
    /// What ends a record for a Firehose stream.
    pub record_delimiter: RecordDelimiter,
}

/// What ends a record for a Firehose stream, which puts records together without anything between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordDelimiter {
    /// A line break, unless the body ends with one.
    Newline,
    /// Nothing: the record is the stored body.
    None,
}

impl RecordDelimiter {
    /// The text that ends a record.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Newline => "\n",
            Self::None => "",
        }
    }
}

/// What becomes of a FIFO group whose head fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fifo {
    /// It waits for its head: order is kept.
    Block,
    /// The head moves to the requeue and its group goes on: order is given up.
    StepAside,
}

/// What a rule does with its letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Retry on the schedule.
    Redrive,
    /// Archive at once.
    Archive,
    /// Hide as long as possible and touch nothing.
    Hold,
}

/// Where a rule sends its retries, in the words of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSpec {
    /// Back to whatever failed.
    Origin,
    /// The subscription that the letter or the rule names.
    Subscription,
    /// The queue that SQS moved it from.
    Source,
    /// The letter's topic: every subscriber.
    Topic,
    /// This topic, queue or function.
    Arn(Arn),
}

/// The subscription of letters that name none, in the words of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionSpec {
    /// There is none: such letters are archived.
    None,
    /// This one.
    Named(Arn),
    /// The only one that names the letter's queue as its dead-letter target.
    Discover,
}

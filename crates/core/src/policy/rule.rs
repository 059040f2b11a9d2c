//! Rules, which say what to do with the letters that fall under them.

use super::delivery::DeliverySpec;
use crate::arn::Arn;

/// A rule: what to do with the letters that fall under it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name in logs and archived records; `default` for the default.
    pub name: String,
    /// The action on its letters.
    pub action: RuleAction,
    /// The target of retries.
    pub target: TargetSpec,
    /// The delivery policy, which has the schedule of retries.
    pub delivery: DeliverySpec,
    /// The share by which delays may be shortened, 0 to 1.
    pub jitter: f64,
    /// The ARNs and URL prefixes that may be reached; with `None`, any target that the rule resolves to.
    pub allow_targets: Option<Vec<String>>,
    /// True if the schedule goes on after a permanent failure.
    pub retry_permanent: bool,
    /// The subscription of letters that name none.
    pub subscription: SubscriptionSpec,
    /// True if a letter's signature must verify.
    pub verify_signature: bool,
    /// The handling of a FIFO group whose head fails.
    pub fifo: FifoHandling,
    /// The end of a record for a Firehose stream.
    pub record_delimiter: RecordDelimiter,
}

/// The end of a record for a Firehose stream, which joins records without anything between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordDelimiter {
    /// A line break, unless the body ends with one.
    Newline,
    /// Nothing: the record is the stored body.
    None,
}

impl RecordDelimiter {
    /// Returns the text that ends a record.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Newline => "\n",
            Self::None => "",
        }
    }
}

/// The handling of a FIFO group whose head fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FifoHandling {
    /// The group waits for its head: order is kept.
    Block,
    /// The head moves to the requeue and its group goes on: order is given up.
    StepAside,
}

/// The action of a rule on its letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAction {
    /// Retries the letters on the schedule.
    Redrive,
    /// Archives the letters at once.
    Archive,
    /// Hides the letters as long as possible and touches nothing.
    Hold,
}

/// The target of a rule's retries, as the policy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSpec {
    /// The target that failed.
    Origin,
    /// The subscription that the letter or the rule names.
    Subscription,
    /// The queue that SQS moved the letter from.
    Source,
    /// The letter's topic: every subscriber.
    Topic,
    /// This topic, queue or function.
    Arn(Arn),
}

/// The subscription of letters that name none, as the policy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionSpec {
    /// There is no subscription: such letters are archived.
    None,
    /// This subscription.
    Named(Arn),
    /// The only one that names the letter's queue as its dead-letter target.
    Discover,
}

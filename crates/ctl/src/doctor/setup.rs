//! The deployment of a function, as far as it could be read. The checks look at nothing else.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use redrive_archive::LifecycleRule;
use redrive_aws::policy_object::UnreadPolicy;
use redrive_aws::settings::{BadSettings, PolicyAt, Settings};
use redrive_core::arn::Arn;
use redrive_core::failure::Failure;
use redrive_core::policy::Override;

/// The result of a read, which may fail or be denied.
pub(crate) type ReadResult<T> = Result<T, ReadError>;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadError {
    /// The call, by the name of its permission.
    pub(crate) call: &'static str,
    /// The code of its error.
    pub(crate) why: String,
    /// AWS's own sentence, if there is one. It names the action, and the boundary, the key or the policy that refused it.
    pub(crate) said: Option<String>,
}

impl ReadError {
    pub(crate) fn new(call: &'static str, why: impl Into<String>) -> Self {
        Self { call, why: why.into(), said: None }
    }

    /// Returns the error of a call to AWS.
    pub(crate) fn of(call: &'static str, failure: Failure) -> Self {
        Self { call, why: failure.code, said: failure.message }
    }

    /// Reports whether a permission is missing.
    pub(crate) fn is_denied(&self) -> bool {
        Failure::of_service(Some(&self.why), None, None).is_denied()
    }

    /// Reports whether SQS says that the queue does not exist.
    pub(crate) fn is_of_no_queue(&self) -> bool {
        Failure::of_service(Some(&self.why), None, None).is_of_no_queue()
    }

    /// Reports whether the resource does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        self.why.contains("NotFound")
    }

    /// Reports whether the call was made. The doctor does not read the policies of keys, and tests writes
    /// only if it knows a place for them.
    pub(crate) fn is_made(&self) -> bool {
        !["kms:GetKeyPolicy", "--write-test"].contains(&self.call)
    }

    /// Returns the code with AWS's sentence.
    pub(crate) fn reason(&self) -> String {
        self.said.as_ref().map_or_else(|| self.why.clone(), |said| format!("{}: {said}", self.why))
    }

    /// Returns the advice to grant the missing permission, or nothing for other errors.
    pub(crate) fn fix(&self) -> String {
        if self.is_denied() { format!("give yourself {}", self.call) } else { String::new() }
    }
}

/// Everything that the checks look at.
#[derive(Debug)]
pub(crate) struct DeploymentFacts {
    pub(crate) now: Timestamp,
    /// The reason why the named stack says nothing about the function; `None` if it does, or if no stack is named.
    pub(crate) stack: ReadResult<Option<String>>,
    /// The release of the stack, if one is named.
    pub(crate) release: Option<ReadResult<StackRelease>>,
    /// The topics that the stack's alarms call; `None` without a stack.
    pub(crate) alarm_topics: Option<Vec<AlarmTopic>>,
    pub(crate) function: DeployedFunction,
    pub(crate) mappings: ReadResult<Vec<DeployedMapping>>,
    /// The dead-letter queues.
    pub(crate) queues: Vec<DeployedQueue>,
    pub(crate) requeue: Option<DeployedQueue>,
    /// Queues that the stack created and that no longer feed a function; `None` without a stack.
    pub(crate) left_behind: Option<ReadResult<Vec<DeployedQueue>>>,
    /// Queues for dead letters of the same topics that feed no function, such as queues that were taken off
    /// `queues.yaml`.
    pub(crate) undrained: ReadResult<Vec<DeployedQueue>>,
    /// Subscriptions that name one of the queues or the requeue, other subscriptions of the same topics, and
    /// subscriptions that deliver into one of all these queues.
    pub(crate) subscriptions: ReadResult<AccountSubscriptions>,
    /// The queues of this account to which the function sends letters, as far as the policy and the
    /// subscriptions show.
    pub(crate) targets: Vec<DeployedQueue>,
    /// The bucket of the archive; `None` if the archive is a queue or unknown.
    pub(crate) archive: Option<DeployedBucket>,
    /// The bucket of the control prefix, which may be that of the archive; `None` without such a prefix.
    pub(crate) control: Option<DeployedBucket>,
    /// The result of the test of conditional writes below the control prefix, if it was asked for.
    pub(crate) conditional: Option<ReadResult<bool>>,
    /// The overrides; `None` if the settings switch overrides off.
    pub(crate) overrides: Option<ReadResult<Vec<Override>>>,
    pub(crate) waiting: Option<ReadResult<Vec<HiddenLetter>>>,
    /// The permissions that the function's role needs.
    pub(crate) grants: ReadResult<Vec<RoleGrant>>,
}

/// The release of a stack.
#[derive(Debug, Clone, Default)]
pub(crate) struct StackRelease {
    /// The version of its template.
    pub(crate) template: Option<String>,
    /// The folder of its code, if that is not the one that its template names.
    pub(crate) code_prefix: Option<String>,
}

/// A topic that alarms of a stack call.
#[derive(Debug, Clone)]
pub(crate) struct AlarmTopic {
    pub(crate) arn: String,
    /// True if only alarms that page somebody call it.
    pub(crate) pages: bool,
    /// The number of its confirmed subscriptions, if SNS tells it.
    pub(crate) subscribers: ReadResult<Option<u64>>,
}

#[derive(Debug)]
pub(crate) struct DeployedFunction {
    pub(crate) name: String,
    pub(crate) role: String,
    /// Seconds.
    pub(crate) timeout: u64,
    /// Megabytes.
    pub(crate) memory: u64,
    /// `Active`, unless something is wrong.
    pub(crate) state: String,
    pub(crate) last_update: String,
    /// The log level, if lines of letters are missing from the log by it.
    pub(crate) quiet_log_level: Option<String>,
    /// The settings, by its environment.
    pub(crate) settings: ReadResult<Result<Settings, BadSettings>>,
    /// True if the policy is a file in the function's package, which no call shows.
    pub(crate) has_policy_file: bool,
    /// The policy in S3, if its settings name one, and why it could not be read.
    pub(crate) policy_object: Option<PolicyObject>,
    /// `Allow` or `Terminate`.
    pub(crate) recursion: ReadResult<String>,
    /// Reserved concurrency.
    pub(crate) reserved: ReadResult<Option<i32>>,
}

/// The redrive policy as an object in S3.
#[derive(Debug, Clone)]
pub(crate) struct PolicyObject {
    pub(crate) place: PolicyAt,
    pub(crate) read: Result<(), UnreadPolicy>,
}

impl DeployedFunction {
    /// Reports whether its policy is unknown. The settings then have the built-in one.
    pub(crate) fn has_unknown_policy(&self) -> bool {
        self.has_policy_file || self.policy_object.as_ref().is_some_and(|object| object.read.is_err())
    }

    /// Returns the settings, if they are known and valid.
    pub(crate) fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref().ok()?.as_ref().ok()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct DeployedMapping {
    pub(crate) uuid: String,
    pub(crate) source: String,
    pub(crate) state: String,
    pub(crate) batch: i32,
    /// Seconds.
    pub(crate) window: i32,
    /// True with `ReportBatchItemFailures`.
    pub(crate) is_partial: bool,
    pub(crate) filters: ReadResult<usize>,
    pub(crate) concurrency: Option<i32>,
    pub(crate) is_provisioned: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct DeployedQueue {
    pub(crate) arn: Arn,
    pub(crate) attributes: ReadResult<BTreeMap<String, String>>,
    /// Read for the requeue only.
    pub(crate) tags: Option<ReadResult<BTreeMap<String, String>>>,
}

impl DeployedQueue {
    /// Returns an attribute; `None` if the queue has no such attribute, or the attributes could not be read.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.as_ref().ok()?.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.attribute(name)?.parse().ok()
    }

    /// Returns the approximate number of letters in the queue, visible, hidden or delayed.
    pub(crate) fn letters(&self) -> u64 {
        let counts = ["", "NotVisible", "Delayed"].map(|of| format!("ApproximateNumberOfMessages{of}"));
        counts.iter().filter_map(|count| self.number(count)).sum()
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct AccountSubscriptions {
    pub(crate) all: Vec<DeployedSubscription>,
    /// The number of subscriptions that could not be read, by the code of the error.
    pub(crate) unread: BTreeMap<String, u64>,
    /// AWS's sentence about the first of them, by the code.
    pub(crate) said: BTreeMap<String, String>,
    /// The number of unconfirmed subscriptions.
    pub(crate) pending: u64,
    /// The number of subscriptions of other accounts, by topic.
    pub(crate) foreign: BTreeMap<String, ReadResult<u64>>,
}

#[derive(Clone)]
pub(crate) struct DeployedSubscription {
    pub(crate) arn: String,
    pub(crate) topic: String,
    /// The account that owns it, which need not be the topic's.
    pub(crate) owner: String,
    pub(crate) protocol: String,
    pub(crate) endpoint: String,
    /// The queue that its redrive policy names.
    pub(crate) dead_letters: Option<String>,
    /// The redrive policy, as SNS returns it.
    pub(crate) redrive_policy: Option<String>,
    pub(crate) is_raw: bool,
    /// The filter policy, if it filters by attributes.
    pub(crate) filter: Option<String>,
}

/// Hides the endpoint, which may be a webhook with its secret or a person's address.
impl fmt::Debug for DeployedSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeployedSubscription").field("arn", &self.arn).finish_non_exhaustive()
    }
}

impl DeployedSubscription {
    /// Reports whether it names this queue for its dead letters.
    pub(crate) fn names(&self, queue: &DeployedQueue) -> bool {
        self.dead_letters.as_deref() == Some(queue.arn.as_str())
    }

    /// Returns the queue that it names for its dead letters.
    pub(crate) fn queue(&self) -> Option<Arn> {
        self.dead_letters.as_ref()?.parse().ok()
    }

    /// Reports whether it names one of these queues for its dead letters.
    pub(crate) fn names_any(&self, queues: &[DeployedQueue]) -> bool {
        queues.iter().any(|queue| self.names(queue))
    }
}

/// A prefix of a bucket, and how the bucket is set.
#[derive(Debug, Clone)]
pub(crate) struct DeployedBucket {
    pub(crate) name: String,
    pub(crate) prefix: String,
    /// The default encryption.
    pub(crate) encryption: ReadResult<Option<BucketEncryption>>,
    pub(crate) is_versioned: ReadResult<bool>,
    /// True if the bucket itself blocks public access. The account may do so for all its buckets.
    pub(crate) is_private: ReadResult<bool>,
    pub(crate) lifecycle: ReadResult<Vec<LifecycleRule>>,
}

/// The default encryption of a bucket.
#[derive(Debug, Clone)]
pub(crate) struct BucketEncryption {
    pub(crate) algorithm: String,
    /// The key, if one was chosen.
    pub(crate) key: Option<String>,
}

/// A letter that waits hidden in a dead-letter queue.
#[derive(Debug, Clone)]
pub(crate) struct HiddenLetter {
    pub(crate) queue: String,
    pub(crate) target: Option<String>,
    pub(crate) since: Timestamp,
}

/// A permission that the function's role needs.
#[derive(Debug, Clone)]
pub(crate) struct RoleGrant {
    pub(crate) action: &'static str,
    pub(crate) resource: String,
    /// The purpose, as in "to archive letters".
    pub(crate) for_what: String,
    pub(crate) decision: ReadResult<IamDecision>,
    /// The resource's own policy, if it has one that also decides.
    pub(crate) own_policy: Option<ReadResult<Option<String>>>,
    /// True if the resource belongs to another account.
    pub(crate) is_foreign: bool,
}

/// The result of IAM's simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IamDecision {
    Allowed,
    /// Allowed by no policy.
    NotAllowed,
    /// A policy denies it.
    Denied,
    /// The result depends on something that only the real call has, or that was not asked. Says what.
    Unclear(String),
}

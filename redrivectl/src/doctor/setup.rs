//! The setup of a function: what is really there, as far as it could be read. The checks look at this and at nothing else.

use std::collections::BTreeMap;

use jiff::Timestamp;

use sns_redrive::arn::Arn;
use sns_redrive::failure::Failure;
use sns_redrive::policy::Order;
use sns_redrive::settings::{BadSettings, Settings};

/// What was told, or why it was not.
pub(crate) type Told<T> = Result<T, Untold>;

/// Why something was not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Untold {
    /// The call, as its permission is called.
    pub(crate) call: &'static str,
    /// The code of its error.
    pub(crate) why: String,
}

impl Untold {
    /// Whether a permission is missing.
    pub(crate) fn is_denied(&self) -> bool {
        Failure::of_service(Some(&self.why), None, None).is_denied()
    }

    /// What mends it: the permission, where it is missing.
    pub(crate) fn mend(&self) -> String {
        if self.is_denied() { format!("give yourself {}", self.call) } else { String::new() }
    }
}

/// Everything that the checks look at.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) now: Timestamp,
    /// Why the stack that is named tells nothing of the function; none where it does, or where none is named.
    pub(crate) stack: Told<Option<String>>,
    /// The release of the stack, where one is named.
    pub(crate) release: Option<Told<Release>>,
    pub(crate) function: Function,
    pub(crate) mappings: Told<Vec<Mapping>>,
    /// The dead-letter queues.
    pub(crate) queues: Vec<Queue>,
    pub(crate) requeue: Option<Queue>,
    /// Queues that the stack made once and that feed no function any more; none without a stack.
    pub(crate) left_behind: Option<Told<Vec<Queue>>>,
    /// Queues for dead letters of the same topics that feed no function, as those that were taken off `queues.yaml`.
    pub(crate) undrained: Told<Vec<Queue>>,
    /// Subscriptions that name one of the queues or the requeue, whose topic has one that names one of the queues, or that
    /// deliver into one of all these.
    pub(crate) subscriptions: Told<Subscriptions>,
    /// None where it is no bucket.
    pub(crate) archive: Option<Bucket>,
    /// The bucket of the control prefix, which may be that of the archive; none where there is no such prefix.
    pub(crate) control: Option<Bucket>,
    /// What came of the test of conditional writes below the control prefix, where it was asked for.
    pub(crate) conditional: Option<Told<bool>>,
    /// None where there are none, by the settings.
    pub(crate) orders: Option<Told<Vec<Order>>>,
    pub(crate) waiting: Option<Told<Vec<Waiting>>>,
    /// What the function's role must be allowed.
    pub(crate) grants: Told<Vec<Grant>>,
}

/// What a stack tells of its release.
#[derive(Debug, Clone, Default)]
pub(crate) struct Release {
    /// The version of its template.
    pub(crate) template: Option<String>,
    /// The folder of its code, where that is not the one that its template names.
    pub(crate) code_prefix: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) role: String,
    /// Seconds.
    pub(crate) timeout: u64,
    /// Megabytes.
    pub(crate) memory: u64,
    /// `Active`, unless something is wrong with it.
    pub(crate) state: String,
    pub(crate) last_update: String,
    pub(crate) logs_json: bool,
    pub(crate) log_level: Option<String>,
    /// The settings, by its environment.
    pub(crate) settings: Told<Result<Settings, BadSettings>>,
    /// Whether its policy lies in a file of its package, where nobody sees it.
    pub(crate) has_policy_file: bool,
    /// `Allow` or `Terminate`.
    pub(crate) recursion: Told<String>,
    /// Reserved concurrency.
    pub(crate) reserved: Told<Option<i32>>,
}

impl Function {
    /// The settings, where they are known and good.
    pub(crate) fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref().ok()?.as_ref().ok()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) uuid: String,
    pub(crate) source: String,
    pub(crate) state: String,
    pub(crate) batch: i32,
    /// Seconds.
    pub(crate) window: i32,
    /// Whether single letters of a batch are reported.
    pub(crate) is_partial: bool,
    pub(crate) filters: Told<usize>,
    pub(crate) concurrency: Option<i32>,
    pub(crate) is_provisioned: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) arn: Arn,
    pub(crate) attributes: Told<BTreeMap<String, String>>,
    /// Asked of the requeue only.
    pub(crate) tags: Option<Told<BTreeMap<String, String>>>,
}

impl Queue {
    /// An attribute; none where it is not there or nobody could read them.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.as_ref().ok()?.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.attribute(name)?.parse().ok()
    }

    /// About how many letters lie in it, visible, hidden or delayed.
    pub(crate) fn letters(&self) -> u64 {
        let counts = ["", "NotVisible", "Delayed"].map(|of| format!("ApproximateNumberOfMessages{of}"));
        counts.iter().filter_map(|count| self.number(count)).sum()
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Subscriptions {
    pub(crate) all: Vec<Subscription>,
    /// Subscriptions of the account that could not be asked, by the code of the error.
    pub(crate) unread: BTreeMap<String, u64>,
    /// Subscriptions that are not confirmed.
    pub(crate) pending: u64,
    /// Subscriptions of these topics that belong to other accounts, or why nobody knows; by topic.
    pub(crate) foreign: BTreeMap<String, Told<u64>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) arn: String,
    pub(crate) topic: String,
    pub(crate) protocol: String,
    pub(crate) endpoint: String,
    pub(crate) dead_letters: Option<String>,
    pub(crate) is_raw: bool,
    /// The filter policy, where it looks at attributes.
    pub(crate) filter: Option<String>,
}

impl Subscription {
    /// Whether it names this queue for its dead letters.
    pub(crate) fn names(&self, queue: &Queue) -> bool {
        self.dead_letters.as_deref() == Some(queue.arn.as_str())
    }

    /// The queue that it names for its dead letters.
    pub(crate) fn queue(&self) -> Option<Arn> {
        self.dead_letters.as_ref()?.parse().ok()
    }

    /// Whether it names one of these queues for its dead letters.
    pub(crate) fn names_any(&self, queues: &[Queue]) -> bool {
        queues.iter().any(|queue| self.names(queue))
    }
}

/// A prefix of a bucket, and how the bucket is set.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) prefix: String,
    /// The default encryption.
    pub(crate) encryption: Told<Option<Encryption>>,
    pub(crate) is_versioned: Told<bool>,
    /// Whether it blocks public access itself. The account may do so for all its buckets.
    pub(crate) is_private: Told<bool>,
    pub(crate) lifecycle: Told<Vec<LifecycleRule>>,
}

/// How a bucket encrypts what comes without a wish of its own.
#[derive(Debug, Clone)]
pub(crate) struct Encryption {
    pub(crate) algorithm: String,
    /// The key, where one was chosen.
    pub(crate) key: Option<String>,
}

/// One thing that a lifecycle rule in force does to objects.
#[derive(Debug, Clone)]
pub(crate) struct LifecycleRule {
    pub(crate) id: String,
    pub(crate) prefix: String,
    /// Whether it looks at more than the key.
    pub(crate) is_narrower: bool,
    pub(crate) effect: Effect,
}

/// What becomes of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// They end after so many days; none where it is at a date.
    Ends(Option<i32>),
    /// They go to this storage class, out of which nobody reads them before they are restored.
    Freezes(String),
}

/// A letter that waits hidden in a dead-letter queue.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) queue: String,
    pub(crate) target: Option<String>,
    pub(crate) since: Timestamp,
}

/// A thing that the function's role must be allowed.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) action: &'static str,
    pub(crate) resource: String,
    /// What does not work without it.
    pub(crate) for_what: String,
    pub(crate) decision: Told<Decision>,
    /// The resource's own policy, where it has one and it decides too.
    pub(crate) own_policy: Option<Told<Option<String>>>,
    /// Whether it is of another account.
    pub(crate) is_foreign: bool,
}

/// What IAM's simulation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    /// Nothing allows it.
    NotAllowed,
    /// Something denies it.
    Denied,
    /// It depends on something that only the real call has, or that is not asked: in words.
    Unclear(String),
}

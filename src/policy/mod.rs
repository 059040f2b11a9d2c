//! What should happen to a letter, and when.
//!
//! The redrive policy says which rule a letter falls under; the rule's schedule and the letter's
//! own history say whether a retry is due. [`Policy::decide`] answers before anything is done,
//! [`Verdict::after_failure`] once a delivery has failed. Both are pure: the present is an argument,
//! jitter comes from a hash, and the same letter at the same time always gets the same answer.

mod decide;
mod delivery;
mod document;
mod fields;
mod matcher;
mod schedule;

use jiff::Timestamp;

pub use decide::{Receive, Step, VISIBILITY_CEILING, plus, seconds_until, step};
pub use delivery::DeliveryPolicy;
pub use document::{BadPolicy, DEFAULT_RULE};
pub use fields::Fault;
pub use schedule::{Backoff, Jitter, MAX_DELAY_SECONDS, MAX_RETRIES, Phase, Schedule};

use crate::arn::Arn;
use crate::failure::FailureClass;
use crate::letter::{Letter, Origin};
use matcher::Matcher;

/// The whole configuration: a default and a list of rules.
#[derive(Debug)]
pub struct Policy {
    default: Rule,
    rules: Vec<Rule>,
    matcher: Matcher,
}

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
    pub delivery: DeliveryPolicy,
    /// How far delays may be shortened, 0 to 1.
    pub jitter: f64,
    /// ARNs and URL prefixes that may be reached; `None` for whatever the target comes down to.
    pub allow_targets: Option<Vec<String>>,
    /// Whether the schedule goes on after a permanent failure.
    pub retry_permanent: bool,
    /// The subscription of letters that name none.
    pub subscription: Option<Arn>,
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
    /// This topic or queue.
    Arn(Arn),
}

/// What is known of the queue that a letter lies in, and of the one it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFacts {
    /// `MessageRetentionPeriod`, seconds.
    pub retention: u64,
    /// `maxReceiveCount` of the source queue of a letter that SQS moved, where it is known.
    pub source_max_receives: Option<u32>,
    /// The longest that a message is hidden at once, seconds.
    pub ceiling: u64,
}

/// What SQS keeps messages for when nobody says otherwise: four days.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const DEFAULT_RETENTION: u64 = 4 * 24 * 3600;

impl Default for QueueFacts {
    fn default() -> Self {
        Self { retention: DEFAULT_RETENTION, source_max_receives: None, ceiling: VISIBILITY_CEILING }
    }
}

/// What the policy says about a letter now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A retry is due.
    Deliver(Retry),
    /// It stays in the queue, hidden.
    Defer(Deferral),
    /// It leaves the queue for the archive.
    Archive(ArchiveReason, Option<&'static str>),
}

/// One retry, numbered from 1 over the letter's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Its number.
    pub number: u32,
    /// How many the schedule has.
    pub of: u32,
    /// The phase it belongs to.
    pub phase: Phase,
}

/// How long a letter stays hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferral {
    /// Seconds to hide it now; the ceiling at most, 0 for an immediate retry.
    pub hide: u64,
    /// When its next retry is due, which may lie several hops away.
    pub due: Timestamp,
    /// Why.
    pub why: DeferReason,
}

/// Why a letter is deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeferReason {
    /// A retry failed; the next one has its time.
    Failed,
    /// It came back before its time.
    Early,
    /// It is on its way through a wait longer than one hiding.
    Hop,
    /// Its rule holds it.
    Hold,
}

/// Why a letter is archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArchiveReason {
    /// Every retry of its schedule failed.
    Exhausted,
    /// The queue would drop it before its next retry.
    Expiring,
    /// Its rule says so.
    Rule,
    /// Nothing tells where it belongs.
    Unrecognised,
    /// Its target's protocol is none that can be delivered to.
    UndeliverableProtocol,
    /// Its target is none that it may reach.
    Refused,
    /// Its target will never take it.
    Permanent,
    /// The mark would be its eleventh attribute.
    Unmarkable,
}

/// A decision with what it rests on.
#[derive(Debug, Clone)]
pub struct Verdict<'p> {
    /// The rule that the letter falls under.
    pub rule: &'p Rule,
    /// What is to be done.
    pub decision: Decision,
    clock: LetterClock,
}

/// What waiting needs to know of one letter.
#[derive(Debug, Clone)]
struct LetterClock {
    jitter: Jitter,
    expires: Timestamp,
    margin: u64,
    ceiling: u64,
}

impl Policy {
    /// The policy of a function that is given none.
    #[must_use]
    pub fn built_in() -> Self {
        Self { default: Rule::built_in(), rules: Vec::new(), matcher: Matcher::default() }
    }

    /// The rule for a letter: the first that matches, else the default.
    #[must_use]
    pub fn rule_for(&self, letter: &Letter) -> &Rule {
        self.matcher.first(letter).and_then(|index| self.rules.get(index)).unwrap_or(&self.default)
    }

    /// The default, then the rules in their order.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        std::iter::once(&self.default).chain(&self.rules)
    }

    /// Says what is to be done with a letter now.
    #[must_use]
    pub fn decide(&self, letter: &Letter, facts: QueueFacts, now: Timestamp) -> Verdict<'_> {
        let rule = self.rule_for(letter);
        let clock = LetterClock::new(rule, letter, facts);
        let decision = rule.decide(letter, facts, &clock, now);
        Verdict { rule, decision, clock }
    }
}

impl Verdict<'_> {
    /// Says what is to be done once the retry of this verdict has failed.
    #[must_use]
    pub fn after_failure(&self, failed: Retry, class: FailureClass, now: Timestamp) -> Decision {
        if class == FailureClass::Permanent && !self.rule.retry_permanent {
            return Decision::Archive(ArchiveReason::Permanent, None);
        }
        let next = failed.number + 1;
        let Some(wait) = self.rule.delivery.schedule.wait(next, &self.clock.jitter) else {
            return Decision::Archive(ArchiveReason::Exhausted, None);
        };
        self.clock.defer(now, plus(now, wait), DeferReason::Failed)
    }
}

impl Rule {
    fn decide(&self, letter: &Letter, facts: QueueFacts, clock: &LetterClock, now: Timestamp) -> Decision {
        match self.action {
            Action::Archive => return Decision::Archive(ArchiveReason::Rule, None),
            Action::Hold => return clock.defer(now, plus(now, clock.ceiling), DeferReason::Hold),
            Action::Redrive => {}
        }
        if let Some(detail) = self.no_way_for(letter) {
            return Decision::Archive(ArchiveReason::Unrecognised, Some(detail));
        }
        let schedule = &self.delivery.schedule;
        let brought_along = facts.source_max_receives.unwrap_or(0);
        let receive = Receive {
            now,
            sent: letter.sqs.sent,
            first_received: letter.sqs.first_received,
            count: letter.sqs.receive_count.saturating_sub(brought_along).max(1),
            spent: letter.spent(),
            due: letter.mark.as_ref().and_then(|mark| mark.due),
            ceiling: clock.ceiling,
        };
        match step(&receive, schedule.retries, |k| schedule.wait(k, &clock.jitter).unwrap_or(0)) {
            Step::Exhausted => Decision::Archive(ArchiveReason::Exhausted, None),
            Step::Early { until, .. } => clock.defer(now, until, DeferReason::Early),
            Step::Hop { until, .. } => clock.defer(now, until, DeferReason::Hop),
            Step::Attempt { retry } => Decision::Deliver(Retry {
                number: retry,
                of: schedule.retries,
                phase: schedule.phase(retry).unwrap_or(Phase::PostBackoff),
            }),
        }
    }

    /// Why a letter cannot go where the rule sends it, when that shows before any call is made.
    fn no_way_for(&self, letter: &Letter) -> Option<&'static str> {
        let subscription = letter.subscription().or(self.subscription.as_ref());
        match &self.target {
            TargetSpec::Origin => match letter.origin {
                Origin::Sns | Origin::Raw => subscription.is_none().then_some("names no subscription"),
                Origin::Sqs { .. }
                | Origin::LambdaAsync
                | Origin::LambdaDestination { .. }
                | Origin::EventBridge { .. } => None,
            },
            TargetSpec::Subscription => subscription.is_none().then_some("names no subscription"),
            TargetSpec::Source => {
                let moved = matches!(letter.origin, Origin::Sqs { .. });
                (!moved).then_some("was not moved here by SQS, so it has no source queue")
            }
            TargetSpec::Topic => letter.topic().is_none().then_some("names no topic"),
            TargetSpec::Arn(_) => None,
        }
    }
}

impl LetterClock {
    fn new(rule: &Rule, letter: &Letter, facts: QueueFacts) -> Self {
        Self {
            jitter: Jitter::new(rule.jitter, letter.id.as_str()),
            expires: plus(letter.sqs.sent, facts.retention),
            margin: expiry_margin(facts.retention),
            ceiling: facts.ceiling,
        }
    }

    /// Hides the letter towards `due`, or archives it where the queue would drop it before it wakes.
    fn defer(&self, now: Timestamp, due: Timestamp, why: DeferReason) -> Decision {
        let hide = seconds_until(now, due).min(self.ceiling);
        let awake = plus(now, hide);
        if plus(awake, self.margin) > self.expires {
            return Decision::Archive(ArchiveReason::Expiring, None);
        }
        Decision::Defer(Deferral { hide, due, why })
    }
}

/// How long before its queue drops a letter it is archived rather than hidden, seconds: an hour,
/// or a 24th of a retention shorter than a day. It leaves room for a function that is throttled or
/// fails when the letter wakes.
#[must_use]
pub fn expiry_margin(retention: u64) -> u64 {
    (retention / 24).min(3600)
}

impl ArchiveReason {
    /// Every reason, in the order of the docs.
    pub const ALL: [Self; 8] = [
        Self::Exhausted,
        Self::Expiring,
        Self::Rule,
        Self::Unrecognised,
        Self::UndeliverableProtocol,
        Self::Refused,
        Self::Permanent,
        Self::Unmarkable,
    ];

    /// The name in logs and archived records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Expiring => "expiring",
            Self::Rule => "rule",
            Self::Unrecognised => "unrecognised",
            Self::UndeliverableProtocol => "undeliverable_protocol",
            Self::Refused => "refused",
            Self::Permanent => "permanent",
            Self::Unmarkable => "unmarkable",
        }
    }
}

impl DeferReason {
    /// The name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Early => "early",
            Self::Hop => "hop",
            Self::Hold => "hold",
        }
    }
}

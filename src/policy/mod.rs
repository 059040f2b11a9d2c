//! What should happen to a letter, and when.
//!
//! The redrive policy says which rule a letter falls under; the rule's schedule and the letter's
//! own history say whether a retry is due. [`Policy::decide`] answers before anything is done,
//! [`Verdict::after_failure`] once a delivery has failed. Both are pure: the present is an argument,
//! jitter comes from a hash, and the same letter at the same time always gets the same answer.

mod decide;
mod decision;
mod delivery;
mod document;
mod fields;
mod matcher;
mod rule;
mod schedule;

use jiff::Timestamp;

pub use decide::{Receive, Step, VISIBILITY_CEILING, plus, seconds_until, step};
pub use decision::{ArchiveReason, Decision, DeferReason, Deferral, Retry};
pub use delivery::DeliveryPolicy;
pub use document::{BadPolicy, DEFAULT_RULE};
pub use fields::Fault;
pub use rule::{Action, Rule, TargetSpec};
pub use schedule::{Backoff, Jitter, MAX_DELAY_SECONDS, MAX_RETRIES, Phase, Schedule};

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
            Action::Hold => return clock.hold(now),
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

    /// Hides the letter as long as possible, which is also no longer than its queue keeps it.
    fn hold(&self, now: Timestamp) -> Decision {
        let left = seconds_until(plus(now, self.margin), self.expires);
        match left.min(self.ceiling) {
            0 => Decision::Archive(ArchiveReason::Expiring, None),
            hide => Decision::Defer(Deferral { hide, due: plus(now, hide), why: DeferReason::Hold }),
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

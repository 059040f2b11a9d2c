//! The verdict of a rule on a letter: what is to be done now, and after a failure.

use jiff::Timestamp;

use super::decide::{Receive, Step, VISIBILITY_CEILING, plus, seconds_until, step};
use super::decision::{ArchiveReason, Decision, DeferReason, Deferral, Retry};
use super::delivery::{DeliveryPolicy, DeliverySpec};
use super::route::Route;
use super::rule::{Action, Rule};
use super::schedule::{Jitter, Phase, Schedule};
use crate::arn::Arn;
use crate::failure::FailureClass;
use crate::letter::Letter;

/// What SQS keeps messages for when nobody says otherwise: four days.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
pub const DEFAULT_RETENTION: u64 = 4 * 24 * 3600;

/// Passes after which a letter is archived, beyond those that its retries account for. A consumer that copies our mark
/// onto messages of its own makes a new letter each time, with no retry behind it.
pub const MAX_PASSES: u32 = 100;

const LOOP: &str = "carries a mark that was sent a hundred times on other messages: does a consumer copy attributes onto \
                    messages of its own?";

/// What is known of a letter from elsewhere: its queues and its subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `MessageRetentionPeriod` of the queue that it lies in, seconds.
    pub retention: u64,
    /// `maxReceiveCount` of the source queue of a letter that SQS moved, where it is known.
    pub source_max_receives: Option<u32>,
    /// The longest that a message is hidden at once, seconds.
    pub ceiling: u64,
    /// The effective delivery policy of its subscription, where its rule asks for it.
    pub subscription_delivery: Option<DeliveryPolicy>,
    /// The only subscription that names its queue, where its rule asks for it.
    pub discovered: Option<Arn>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            retention: DEFAULT_RETENTION,
            source_max_receives: None,
            ceiling: VISIBILITY_CEILING,
            subscription_delivery: None,
            discovered: None,
        }
    }
}

/// A decision with what it rests on.
#[derive(Debug, Clone)]
pub struct Verdict<'p> {
    /// The rule that the letter falls under.
    pub rule: &'p Rule,
    /// What is to be done.
    pub decision: Decision,
    /// Where a retry goes.
    pub route: Route,
    /// When retries go.
    pub delivery: DeliveryPolicy,
    clock: LetterClock,
}

/// What waiting needs to know of one letter.
#[derive(Debug, Clone)]
struct LetterClock {
    jitter: Jitter,
    since: Timestamp,
    retention: u64,
    ceiling: u64,
}

impl Verdict<'_> {
    /// Says what is to be done once the retry of this verdict has failed.
    #[must_use]
    pub fn after_failure(&self, failed: Retry, class: FailureClass, now: Timestamp) -> Decision {
        if class == FailureClass::Permanent && !self.rule.retry_permanent {
            return Decision::Archive(ArchiveReason::Permanent, None);
        }
        let next = failed.number + 1;
        let Some(wait) = self.delivery.schedule.wait(next, &self.clock.jitter) else {
            return Decision::Archive(ArchiveReason::Exhausted, None);
        };
        self.clock.defer(now, plus(now, wait), next, DeferReason::Failed)
    }

    /// Says what is to be done where the target takes no more for now: the attempt was not made.
    #[must_use]
    pub fn put_off(&self, due: Retry, now: Timestamp, until: Timestamp) -> Decision {
        self.clock.defer(now, until, due.number, DeferReason::Throttled)
    }
}

impl Rule {
    /// Says what is to be done with a letter that falls under this rule.
    #[must_use]
    pub fn decide(&self, letter: &Letter, facts: &Facts, now: Timestamp) -> Verdict<'_> {
        let clock = LetterClock::new(self, letter, facts);
        let delivery = self.delivery(facts);
        let route = self.route(letter, facts.discovered.as_ref());
        let decision = match (self.action, &route) {
            (Action::Archive, _) => Decision::Archive(ArchiveReason::Rule, None),
            (Action::Hold, _) => {
                let schedule = &delivery.schedule;
                clock.hold(
                    now,
                    next_retry(where_it_stands(schedule, letter, facts, &clock, now), letter, schedule),
                )
            }
            (Action::Redrive, _) if letter.uncounted_passes() >= MAX_PASSES => {
                Decision::Archive(ArchiveReason::Loop, Some(LOOP))
            }
            (Action::Redrive, Route::Nowhere(reason, why)) => Decision::Archive(*reason, Some(why)),
            (Action::Redrive, _) => retry_or_wait(&delivery.schedule, letter, facts, &clock, now),
        };
        Verdict { rule: self, decision, route, delivery, clock }
    }

    /// When retries go. While a subscription's own policy is not known, SNS's longest stands in for
    /// it, so that nothing is given up too early.
    fn delivery(&self, facts: &Facts) -> DeliveryPolicy {
        match (&self.delivery, &facts.subscription_delivery) {
            (DeliverySpec::Given(policy), _) | (DeliverySpec::FromSubscription, Some(policy)) => {
                policy.clone()
            }
            (DeliverySpec::FromSubscription, None) => DeliveryPolicy::of(Schedule::AWS_MANAGED),
        }
    }
}

fn retry_or_wait(
    schedule: &Schedule,
    letter: &Letter,
    facts: &Facts,
    clock: &LetterClock,
    now: Timestamp,
) -> Decision {
    let deliver = |number| {
        let phase = schedule.phase(number).unwrap_or(Phase::PostBackoff);
        Decision::Deliver(Retry { number, of: schedule.retries, phase })
    };
    let stands = where_it_stands(schedule, letter, facts, clock, now);
    let next = next_retry(stands, letter, schedule);
    match stands {
        Step::Exhausted => Decision::Archive(ArchiveReason::Exhausted, None),
        Step::Early { until } => clock.defer(now, until, next, DeferReason::Early),
        Step::Hop { until, .. } => match clock.defer(now, until, next, DeferReason::Hop) {
            // Due already, and no time to come back once more for it.
            Decision::Archive(..) if until <= now => deliver(next),
            decision => decision,
        },
        Step::Attempt { retry } => deliver(retry),
    }
}

fn where_it_stands(
    schedule: &Schedule,
    letter: &Letter,
    facts: &Facts,
    clock: &LetterClock,
    now: Timestamp,
) -> Step {
    let brought_along = facts.source_max_receives.unwrap_or(0);
    let receive = Receive {
        now,
        sent: letter.sqs.sent,
        first_received: letter.sqs.first_received,
        count: letter.sqs.receive_count.saturating_sub(brought_along).max(1),
        spent: letter.spent(),
        due: letter.mark.as_ref().and_then(|mark| mark.requeued.due),
        ceiling: clock.ceiling,
    };
    step(&receive, schedule.retries, |k| schedule.wait(k, &clock.jitter).unwrap_or(0))
}

/// The number of the retry that comes next, one above the last where none is left.
fn next_retry(stands: Step, letter: &Letter, schedule: &Schedule) -> u32 {
    match stands {
        Step::Exhausted => schedule.retries.max(letter.spent()).saturating_add(1),
        Step::Early { .. } => letter.spent().saturating_add(1),
        Step::Hop { retry, .. } | Step::Attempt { retry } => retry,
    }
}

impl LetterClock {
    fn new(rule: &Rule, letter: &Letter, facts: &Facts) -> Self {
        Self {
            jitter: Jitter::new(rule.jitter, letter.id.as_str()),
            since: letter.kept_since(),
            retention: facts.retention,
            ceiling: facts.ceiling,
        }
    }

    /// Hides the letter as long as possible, which is also no longer than its queue keeps it.
    fn hold(&self, now: Timestamp, retry: u32) -> Decision {
        let last = plus(self.since, self.retention.saturating_sub(expiry_margin(self.retention)));
        let left = seconds_until(now, last);
        match left.min(self.ceiling) {
            0 => Decision::Archive(ArchiveReason::Expiring, None),
            hide => Decision::Defer(Deferral { hide, due: plus(now, hide), retry, why: DeferReason::Hold }),
        }
    }

    /// Hides the letter towards `due`, or archives it where the queue would drop it before it wakes.
    fn defer(&self, now: Timestamp, due: Timestamp, retry: u32, why: DeferReason) -> Decision {
        let hide = seconds_until(now, due).min(self.ceiling);
        if !is_kept(self.since, self.retention, plus(now, hide)) {
            return Decision::Archive(ArchiveReason::Expiring, None);
        }
        Decision::Defer(Deferral { hide, due, retry, why })
    }
}

/// Whether a letter's queue would drop it within the margin, so that it must not wait any longer.
#[must_use]
pub fn is_expiring(letter: &Letter, facts: &Facts, now: Timestamp) -> bool {
    !is_kept(letter.kept_since(), facts.retention, now)
}

/// Whether a queue of this retention (seconds) that has a letter `since` then keeps it until `then`, and
/// longer by the margin.
#[must_use]
pub fn is_kept(since: Timestamp, retention: u64, then: Timestamp) -> bool {
    plus(then, expiry_margin(retention)) <= plus(since, retention)
}

/// How long before its queue drops a letter it is archived rather than hidden, seconds: an hour,
/// or a 24th of a retention shorter than a day. It leaves room for a function that is throttled or
/// fails when the letter wakes.
#[must_use]
pub fn expiry_margin(retention: u64) -> u64 {
    (retention / 24).min(3600)
}

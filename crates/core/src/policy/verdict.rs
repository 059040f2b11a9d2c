//! The verdict of a rule on a letter: what is to be done now, and after a failure.

use jiff::Timestamp;

use super::decide::{ReceiveFacts, RetryStep, VISIBILITY_CEILING, minus, plus, seconds_until, step};
use super::decision::{ArchiveReason, Decision, DeferReason, Retry};
use super::delivery::{DeliveryPolicy, DeliverySpec};
use super::letter_clock::LetterClock;
use super::overrides::{OverrideAction, OverrideAnswer};
use super::retention::{DEFAULT_RETENTION, Retention, ask_again_after};
use super::route::Route;
use super::rule::{Rule, RuleAction};
use super::schedule::{Jitter, RetryPhase, Schedule};
use crate::arn::{Arn, ArnKind};
use crate::endpoint::Endpoint;
use crate::failure::{CUT_SHORT, Failure, FailureClass};
use crate::letter::Letter;

/// The shortest time, in seconds, after which a letter comes back whose attempt was left out or cut short. Most
/// targets are tried again within it.
const MIN_LEFT_OUT_WAIT: u64 = 40;

/// The time for which a letter is hidden that finds out whether its endpoint is back, in seconds.
pub const SCOUT_SECONDS: u64 = 600;

/// The longest such time, in seconds, of a letter that an override sends, since an operator waits for it.
const LONGEST_OVERRIDDEN: u64 = 60;

/// The number of passes of a mark after which a letter is archived if the mark was made for another message.
/// A consumer that copies our mark onto messages of its own makes a new letter each time, with no retry
/// behind it.
pub const MAX_PASSES: u32 = 100;

const LOOP: &str = "a hundred other messages carried the letter's mark: a consumer seems to copy the attribute sns-redrive \
                    onto its own messages. Make it leave the attribute out";

/// The code by which Firehose says that a stream takes no more.
/// <https://docs.aws.amazon.com/firehose/latest/APIReference/API_PutRecordBatch.html>
const STREAM_IS_FULL: &str = "ServiceUnavailableException";

/// The reason why a function gets no letter that is not JSON.
pub const NOT_JSON: &str = "the letter's body is not JSON, and functions accept only JSON";

/// The facts about a letter from elsewhere: its queues, its subscription, and the overrides about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterFacts {
    /// `MessageRetentionPeriod` of the queue that it lies in.
    pub retention: Retention,
    /// `maxReceiveCount` of the source queue of a letter that SQS moved, if it has one.
    pub source_max_receives: Option<u32>,
    /// True if the source queue of a letter that SQS moved has never told whether it has one. The letter's
    /// receives then count for more retries than were made.
    pub source_unread: bool,
    /// The longest time that a message is hidden at once, in seconds.
    pub ceiling: u64,
    /// The effective delivery policy of its subscription, if its rule asks for it and it has one.
    pub subscription_delivery: Option<DeliveryPolicy>,
    /// True if its rule asks for that policy, and it could not be read.
    pub delivery_unread: bool,
    /// The only subscription that names its queue, if its rule asks for it.
    pub discovered: Option<Arn>,
    /// The overrides about it.
    pub overridden: OverrideAnswer,
    /// The time when its endpoint took letters again, after an outage that is just over.
    pub recovered: Option<Timestamp>,
    /// The time from which the schedules of letters count that arrived before it.
    pub schedule_from: Option<Timestamp>,
}

impl Default for LetterFacts {
    fn default() -> Self {
        Self {
            retention: Retention::Known(DEFAULT_RETENTION),
            source_max_receives: None,
            source_unread: false,
            ceiling: VISIBILITY_CEILING,
            subscription_delivery: None,
            delivery_unread: false,
            discovered: None,
            overridden: OverrideAnswer::Nothing,
            recovered: None,
            schedule_from: None,
        }
    }
}

/// A decision and the facts behind it.
#[derive(Debug, Clone)]
pub struct Verdict<'p> {
    /// The rule that the letter falls under.
    pub rule: &'p Rule,
    /// The step to take.
    pub decision: Decision,
    /// The route of a retry.
    pub route: Route,
    /// The delivery policy, which has the schedule of retries.
    pub delivery: DeliveryPolicy,
    /// The number of its receives beyond those that its schedule takes.
    early: u32,
    /// True if its receives may count for retries that were not made, so that its last one ends nothing.
    is_unsure: bool,
    /// The time of the retry after the one that is due, if that is fixed already.
    successor: Option<Timestamp>,
    clock: LetterClock,
}

impl Verdict<'_> {
    /// Reports whether the letter waits because of these overrides, or while they are unknown.
    #[must_use]
    pub fn is_kept_back(&self, overridden: &OverrideAnswer) -> bool {
        let may_hold = matches!(overridden, OverrideAnswer::Unread | OverrideAnswer::MayHold(_));
        let by_overrides = |why| why == DeferReason::Overridden || may_hold;
        matches!(&self.decision, Decision::Defer(deferral) if by_overrides(deferral.why))
    }

    /// Reports whether an attempt comes before the moment of the next retry, with a number or without one.
    #[must_use]
    pub fn comes_early(&self, retry: Retry) -> bool {
        retry.is_early() || self.successor.is_some()
    }

    /// Reports whether the letter has come as often before its time as it has retries.
    #[must_use]
    pub fn comes_often(&self) -> bool {
        self.early >= self.delivery.schedule.retries
    }

    /// Returns the time at which its schedule begins, if the letter arrived before that.
    #[must_use]
    pub fn schedule_begins(&self) -> Option<Timestamp> {
        self.clock.begins
    }

    /// Returns what is to be done once the retry of this verdict has failed.
    #[must_use]
    pub fn after_failure(&self, failed: Retry, class: FailureClass, now: Timestamp) -> Decision {
        self.after_failure_by(&self.delivery.schedule, failed, class, false, now)
    }

    fn after_failure_by(
        &self,
        schedule: &Schedule,
        failed: Retry,
        class: FailureClass,
        is_cut_short: bool,
        now: Timestamp,
    ) -> Decision {
        if class == FailureClass::Permanent && !self.rule.retry_permanent {
            return Decision::Archive(ArchiveReason::Permanent, None);
        }
        if let Some(planned) = failed.planned {
            return self.clock.defer(now, planned, failed.upcoming(), DeferReason::Failed);
        }
        let next = failed.number + 1;
        let wait = |retry| self.clock.delay(schedule, retry);
        match wait(next) {
            Some(wait) => {
                let due = self.successor.map_or(plus(now, wait), |successor| successor.max(now));
                self.clock.defer(now, due, next, DeferReason::Failed)
            }
            None if self.is_unsure => {
                let again = wait(failed.number).unwrap_or(0).max(ask_again_after(self.clock.since, now));
                self.clock.defer(now, plus(now, again), failed.number, DeferReason::Failed)
            }
            // It may have arrived. So it ends by an attempt that has its full time.
            None if is_cut_short => {
                let again = wait(failed.number).unwrap_or(0).max(MIN_LEFT_OUT_WAIT);
                self.clock.defer(now, plus(now, again), failed.number, DeferReason::Failed)
            }
            None => Decision::Archive(ArchiveReason::Exhausted, None),
        }
    }

    /// Returns what is to be done once the retry has failed, as [`Verdict::after_failure`] does, and grants
    /// the pause that the target may ask for. The pause is cut to the longest delay of the schedule and to
    /// one hiding, and it is not granted if the queue would drop the letter meanwhile.
    #[must_use]
    pub fn after(
        &self,
        failed: Retry,
        failure: &Failure,
        target: Option<&Endpoint>,
        now: Timestamp,
    ) -> Decision {
        let schedule = self.schedule_after(failure, target);
        let is_cut_short = failure.code == CUT_SHORT;
        let planned = self.after_failure_by(schedule, failed, failure.class, is_cut_short, now);
        let (Decision::Defer(deferral), Some(asked)) = (&planned, failure.retry_after) else {
            return planned;
        };
        // A pause longer than one hiding would cost the letter a retry.
        let asked = asked.min(schedule.max.into()).min(self.clock.ceiling);
        let due = plus(now, asked).max(deferral.due);
        match self.clock.defer(now, due, deferral.retry, deferral.why) {
            Decision::Archive(..) => planned,
            later => later,
        }
    }

    /// Returns the schedule after a failure: the policy's own. But SNS retries a stream that throttles by its
    /// policy for customer-managed endpoints, and so does the preset that follows SNS's for streams.
    /// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html#delivery-policies-for-protocols>
    fn schedule_after(&self, failure: &Failure, target: Option<&Endpoint>) -> &Schedule {
        let throttles = failure.class == FailureClass::Throttling || failure.code == STREAM_IS_FULL;
        let to_stream = matches!(target, Some(Endpoint::Stream(_)));
        if throttles && to_stream && self.delivery.schedule == Schedule::AWS_MANAGED {
            &Schedule::THROTTLED_STREAM
        } else {
            &self.delivery.schedule
        }
    }

    /// Returns what is to be done if the attempt was left out, since the target is down. The letter waits for its own
    /// next planned moment, a last retry for its last delay once more, and at least until `soonest`. One that an
    /// override sends comes back within a minute.
    #[must_use]
    pub fn left_out(&self, due: Retry, is_overridden: bool, now: Timestamp, soonest: Timestamp) -> Decision {
        let own = self.next_moment(due, now);
        let own = if is_overridden { own.min(plus(now, LONGEST_OVERRIDDEN)) } else { own };
        // The queue would drop it before: then it asks again as planned.
        let is_kept = seconds_until(now, soonest) <= self.clock.longest(now, DeferReason::EndpointDown);
        let until = if is_kept { own.max(soonest) } else { own }.max(plus(now, 1));
        self.clock.keep(now, until, due.planned, due.upcoming(), DeferReason::EndpointDown)
    }

    /// Returns what is to be done if the attempt was put off to the full minute after so many others, since the target
    /// is slow. A letter that an override sends comes back within a minute.
    #[must_use]
    pub fn put_off_by(&self, due: Retry, minutes: u32, is_overridden: bool, now: Timestamp) -> Decision {
        let into_minute = u64::try_from(now.as_second().rem_euclid(60)).unwrap_or(0);
        let until = plus(now, 60 - into_minute + 60 * u64::from(if is_overridden { 0 } else { minutes }));
        let until = until.min(self.next_moment(due, now));
        self.clock.keep(now, until, due.planned, due.upcoming(), DeferReason::EndpointSlow)
    }

    /// Returns the moment for which a letter waits whose attempt is not made now.
    fn next_moment(&self, due: Retry, now: Timestamp) -> Timestamp {
        let wait = |retry| self.clock.delay(&self.delivery.schedule, retry);
        due.planned.or(self.successor).unwrap_or_else(|| {
            let next = wait(due.number + 1).or_else(|| wait(due.number)).unwrap_or(0);
            plus(now, next.max(MIN_LEFT_OUT_WAIT))
        })
    }

    /// Returns what is to be done if the target accepts no more for now, so that the attempt was not made.
    #[must_use]
    pub fn put_off(&self, due: Retry, now: Timestamp, until: Timestamp) -> Decision {
        self.clock.keep(now, until, due.planned, due.upcoming(), DeferReason::Throttled)
    }
}

impl Rule {
    /// Returns what is to be done with a letter that falls under this rule.
    #[must_use]
    pub fn decide(&self, letter: &Letter, facts: &LetterFacts, now: Timestamp) -> Verdict<'_> {
        let jitter = Jitter::new(self.jitter, letter.id.as_str());
        let clock = LetterClock::new(letter, jitter, facts.retention, facts.ceiling);
        // A letter in the requeue has its plan from before.
        let begins = facts.schedule_from.filter(|_| planned_by_mark(letter).is_none());
        let clock = clock.beginning(begins, letter);
        let delivery = self.delivery(facts);
        let route = self.route(letter, facts.discovered.as_ref());
        let schedule = &delivery.schedule;
        let stands = where_it_stands(schedule, letter, facts, &clock, now);
        let next = next_retry(stands, letter, schedule);
        let planned = stands.ahead(now).unwrap_or(now);
        let redrive = || match &route {
            _ if letter.foreign_passes() >= MAX_PASSES => Decision::Archive(ArchiveReason::Loop, Some(LOOP)),
            Route::Nowhere(reason, why) => Decision::Archive(*reason, Some(why)),
            Route::To(arn) if arn.kind() == ArnKind::Function && !letter.is_event() => {
                Decision::Archive(ArchiveReason::Unrecognised, Some(NOT_JSON))
            }
            _ if self.delivery_is_unread(facts) => match stands {
                // Its mark says when its retry is due, whatever the schedule is.
                RetryStep::Early { until } if planned_by_mark(letter).is_some() => {
                    clock.defer(now, until, next, DeferReason::Early)
                }
                _ => attempt_without_schedule(schedule, letter, &clock, now),
            },
            _ => match retry_or_wait(schedule, stands, next, &clock, now) {
                // Counted from its arrival, it might have had an attempt by now.
                expiring @ Decision::Archive(ArchiveReason::Expiring, _) if clock.begins.is_some() => {
                    bring_forward(expiring, schedule, letter, stands, now)
                }
                decision => decision,
            },
        };
        let by_rule = || match self.action {
            RuleAction::Archive => Decision::Archive(ArchiveReason::Rule, None),
            RuleAction::Hold => clock.hold(now, next),
            RuleAction::Redrive => redrive(),
        };
        let decision = match &facts.overridden {
            OverrideAnswer::Nothing if self.goes_early(letter, facts, stands, schedule, &clock) => {
                bring_forward(by_rule(), schedule, letter, stands, now)
            }
            OverrideAnswer::Nothing => by_rule(),
            OverrideAnswer::Unread => {
                clock.keep_a_minute(by_rule(), planned, next, DeferReason::OverridesUnread, now)
            }
            OverrideAnswer::MayHold(_) => {
                clock.keep_a_minute(by_rule(), planned, next, DeferReason::TargetUnknown, now)
            }
            OverrideAnswer::By(override_) => match override_.action {
                OverrideAction::Hold => clock.hold_by_override(override_.until, planned, next, now),
                OverrideAction::Retry => bring_forward(redrive(), schedule, letter, stands, now),
                OverrideAction::GiveUp => Decision::Archive(ArchiveReason::GivenUp, None),
            },
        };
        let is_unsure = facts.source_unread && letter.sqs.receive_count > 1;
        let (early, successor) = match stands {
            // How many of its receives are from before its beginning is not known.
            RetryStep::Attempt { successor: Some(successor), .. } => (0, Some(successor)),
            RetryStep::Attempt { extra, .. } => (extra, None),
            _ => (0, None),
        };
        Verdict { rule: self, decision, route, delivery, early, is_unsure, successor, clock }
    }

    /// Reports whether a letter's subscription is to be discovered, under this rule and these overrides.
    #[must_use]
    pub fn searches_for_subscription(&self, letter: &Letter, overridden: &OverrideAnswer) -> bool {
        match overridden.action() {
            None => self.asks_for_subscription(letter),
            Some(OverrideAction::Retry) => self.leaves_subscription_open(letter),
            Some(OverrideAction::Hold | OverrideAction::GiveUp) => false,
        }
    }

    /// Reports whether a letter in the requeue does not wait for its planned moment, since its endpoint is back from an
    /// outage in which it failed.
    fn goes_early(
        &self,
        letter: &Letter,
        facts: &LetterFacts,
        stands: RetryStep,
        schedule: &Schedule,
        clock: &LetterClock,
    ) -> bool {
        let (Some(recovered), RetryStep::Early { until }) = (facts.recovered, stands) else { return false };
        if !self.may_go_early(letter) {
            return false;
        }
        let wait = clock.delay(schedule, letter.spent().saturating_add(1)).unwrap_or(0);
        let last = minus(until, wait).max(letter.first_arrival());
        last <= recovered
    }

    /// Reports whether a letter is one of the requeue that need not wait for its planned moment once its endpoint is back. One that
    /// came back after such an attempt waits.
    #[must_use]
    pub fn may_go_early(&self, letter: &Letter) -> bool {
        let is_marked_early = letter.mark.as_ref().is_some_and(|mark| mark.early);
        self.action == RuleAction::Redrive && planned_by_mark(letter).is_some() && !is_marked_early
    }

    /// Reports whether the schedule of its letters is that of a policy that could not be read.
    fn delivery_is_unread(&self, facts: &LetterFacts) -> bool {
        facts.delivery_unread && self.delivery == DeliverySpec::FromSubscription
    }

    /// Returns the delivery policy. A subscription that has none has SNS's longest schedule.
    fn delivery(&self, facts: &LetterFacts) -> DeliveryPolicy {
        match (&self.delivery, &facts.subscription_delivery) {
            (DeliverySpec::Inline(policy), _) | (DeliverySpec::FromSubscription, Some(policy)) => {
                policy.clone()
            }
            (DeliverySpec::FromSubscription, None) => DeliveryPolicy::of(Schedule::AWS_MANAGED),
        }
    }
}

/// Returns what is to be done with a letter at this step; `next` is its next retry.
fn retry_or_wait(
    schedule: &Schedule,
    stands: RetryStep,
    next: u32,
    clock: &LetterClock,
    now: Timestamp,
) -> Decision {
    let deliver = |number, planned| Decision::Deliver(retry(schedule, number, number, planned));
    match stands {
        RetryStep::Exhausted => Decision::Archive(ArchiveReason::Exhausted, None),
        RetryStep::Early { until } => clock.defer(now, until, next, DeferReason::Early),
        RetryStep::Hop { until, .. } => match clock.defer(now, until, next, DeferReason::Hop) {
            // It is due already, and there is no time to come back once more for it.
            Decision::Archive(..) if until <= now => deliver(next, None),
            decision => decision,
        },
        RetryStep::Attempt { point, next: Some(planned), .. }
        | RetryStep::Attempt { point, successor: Some(planned), .. }
            if clock.was_attempted(point, now) =>
        {
            clock.defer(now, planned, next, DeferReason::Early)
        }
        RetryStep::Attempt { retry, next: planned, .. } => deliver(retry, planned),
    }
}

/// Makes an attempt that takes no number, because the schedule is not known. If it fails, the letter comes
/// back when the schedule is asked for again.
fn attempt_without_schedule(
    schedule: &Schedule,
    letter: &Letter,
    clock: &LetterClock,
    now: Timestamp,
) -> Decision {
    let spent = letter.spent();
    let again = plus(now, ask_again_after(clock.since, now));
    Decision::Deliver(retry(schedule, spent, spent.saturating_add(1), Some(again)))
}

/// Makes an attempt ahead of the next retry, if that is planned for later, even if the queue would drop the
/// letter before.
fn bring_forward(
    decision: Decision,
    schedule: &Schedule,
    letter: &Letter,
    stands: RetryStep,
    now: Timestamp,
) -> Decision {
    let before = match stands {
        RetryStep::Exhausted => return decision,
        RetryStep::Early { .. } => letter.spent(),
        RetryStep::Hop { retry, .. } => retry.saturating_sub(1),
        RetryStep::Attempt { retry, .. } => retry,
    };
    let is_attempted = match decision {
        // It takes no number already.
        Decision::Deliver(Retry { planned: Some(_), .. }) => return decision,
        Decision::Deliver(_) | Decision::Defer(_) | Decision::Archive(ArchiveReason::Expiring, _) => true,
        Decision::Archive(..) => false,
    };
    match stands.ahead(now) {
        Some(planned) if is_attempted => {
            Decision::Deliver(retry(schedule, before, before.saturating_add(1), Some(planned)))
        }
        _ => decision,
    }
}

/// Returns a retry of this number, in the phase of the one numbered `in_phase_of`.
fn retry(schedule: &Schedule, number: u32, in_phase_of: u32, planned: Option<Timestamp>) -> Retry {
    let phase = schedule.phase(in_phase_of).unwrap_or(RetryPhase::PostBackoff);
    Retry { number, of: schedule.retries, phase, planned }
}

/// Returns the time for which its mark says that a letter in the requeue is planned.
fn planned_by_mark(letter: &Letter) -> Option<Timestamp> {
    letter.mark.as_ref().and_then(|mark| mark.requeued.due)
}

fn where_it_stands(
    schedule: &Schedule,
    letter: &Letter,
    facts: &LetterFacts,
    clock: &LetterClock,
    now: Timestamp,
) -> RetryStep {
    let brought_along = facts.source_max_receives.unwrap_or(0);
    let receive = ReceiveFacts {
        now,
        sent: clock.begins.unwrap_or(letter.sqs.sent),
        first_received: clock
            .begins
            .map_or(letter.sqs.first_received, |begins| letter.sqs.first_received.max(begins)),
        count: letter.sqs.receive_count.saturating_sub(brought_along).max(1),
        spent: letter.spent(),
        due: planned_by_mark(letter),
        ceiling: clock.ceiling,
        has_earlier_receives: clock.has_earlier_receives,
    };
    step(&receive, schedule.retries, |k| clock.delay(schedule, k).unwrap_or(0))
}

/// Returns the number of the retry that comes next, or one above the last if none is left.
fn next_retry(stands: RetryStep, letter: &Letter, schedule: &Schedule) -> u32 {
    match stands {
        RetryStep::Exhausted => schedule.retries.max(letter.spent()).saturating_add(1),
        RetryStep::Early { .. } => letter.spent().saturating_add(1),
        RetryStep::Attempt { retry, next: Some(_), .. } => retry.saturating_add(1),
        RetryStep::Hop { retry, .. } | RetryStep::Attempt { retry, .. } => retry,
    }
}

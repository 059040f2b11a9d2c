//! A letter on its way to an outcome.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::action::{ArchiveContext, CannotPack, SendResult};
use super::foresight::foresee;
use super::known_targets::KnownTargets;
use super::outcome::{LetterReport, NotDone, Outcome};
use super::resolve::refusal_at_sight;
use super::time::later;
use super::unarchived::UnarchivedLetter;
use crate::arn::Arn;
use crate::endpoint::{Endpoint, TargetName};
use crate::failure::{FUNCTION_ERROR, Failure};
use crate::letter::{Letter, Origin};
use crate::policy::{
    ArchiveReason, Decision, DeferReason, Deferral, DeliverySpec, LetterFacts, LetterTarget, OverrideAction,
    OverrideAnswer, Policy, Retention, Retry, Route, Rule, RuleAction, Verdict, plus, seconds_until,
};

/// The seconds for which a letter is hidden if there was no time to send it. Otherwise it would stay hidden
/// for the whole of its queue's visibility timeout, because of other letters that took the time.
const UNSENT_HIDE_SECONDS: u64 = 1;

/// The detail of an attempt with a letter of `EventBridge`.
/// <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-dlq.html>
const AS_ON_THE_BUS: &str = "the target got the event as it was on the bus: a rule with an InputTransformer, an InputPath or \
                             an Input sends it another one";

/// The detail of a letter whose subscription is not known yet.
pub(super) const SEARCH_FAILED: &str = "the search for the letter's subscription failed or took too long";

/// The detail of what would be done with a letter behind another of its group.
const HELD_DETAIL: &str = "held unless the letters before it in its group leave the queue";

/// A letter on its way to an outcome. There are thousands of them: what few have is boxed.
#[derive(Debug)]
pub(super) struct PendingLetter<'p> {
    pub(super) letter: Arc<Letter>,
    pub(super) rule: &'p Rule,
    pub(super) facts: LetterFacts,
    pub(super) verdict: Option<Verdict<'p>>,
    pub(super) disposition: Disposition,
    /// The time when the disposition was decided. Waits count from then.
    pub(super) decided: Timestamp,
    pub(super) retry: Option<Retry>,
    /// The time that the attempt took.
    pub(super) took: Option<Duration>,
    pub(super) target: Option<Endpoint>,
    /// The name of its target, if it is archived without a look at it.
    pub(super) named: Option<TargetName>,
    pub(super) failure: Option<Failure>,
    pub(super) detail: Option<String>,
    /// The seconds until it becomes visible if it is not hidden otherwise.
    pub(super) shows_in: u64,
    /// The archiving that failed in an earlier invocation.
    pub(super) unarchived: Option<Box<UnarchivedLetter>>,
    /// The seconds for which it is hidden because the archive did not accept it.
    pub(super) hidden: Option<u64>,
    /// True if its subscription was searched for.
    pub(super) searched: bool,
    /// True if it was to be sent and there was no time to begin: it comes back soon.
    pub(super) soon: bool,
    /// The step that could not be done, and the failure.
    pub(super) undone: Option<Box<(NotDone, Failure)>>,
}

/// The disposition of a letter, while the batch goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The letter is undecided.
    Open,
    /// A retry is due.
    Due(Retry),
    Delivered,
    Archive(ArchiveReason),
    Defer(Deferral),
    /// The requeue has it.
    Requeued(Deferral),
    Held,
    OutOfTime,
    Observed(Decision),
}

impl Disposition {
    /// Returns the action of the override that alone led to it, if one did.
    pub(super) fn overridden(&self) -> Option<OverrideAction> {
        match self {
            Self::Archive(ArchiveReason::GivenUp) => Some(OverrideAction::GiveUp),
            Self::Defer(Deferral { why: DeferReason::Overridden, .. }) => Some(OverrideAction::Hold),
            _ => None,
        }
    }
}

/// Joins the details that there are.
fn joined(details: [Option<String>; 2]) -> Option<String> {
    details.into_iter().flatten().reduce(|one, other| format!("{one}; {other}"))
}

impl<'p> PendingLetter<'p> {
    /// Creates the pending letter under its rule.
    pub(super) fn new(policy: &'p Policy, facts: LetterFacts, letter: Letter) -> Self {
        let (letter, rule) = policy.sort(letter);
        let mut case = Self {
            letter: Arc::new(letter),
            rule,
            facts,
            verdict: None,
            disposition: Disposition::Open,
            decided: Timestamp::UNIX_EPOCH,
            retry: None,
            took: None,
            target: None,
            named: None,
            failure: None,
            detail: None,
            shows_in: 0,
            unarchived: None,
            hidden: None,
            searched: false,
            soon: false,
            undone: None,
        };
        case.open();
        case
    }

    /// Leaves it to its rule and the overrides. Of a letter that cannot be read they decide only whether it is held:
    /// whatever could be read of it may not be what was sent.
    pub(super) fn open(&mut self) {
        self.disposition = Disposition::Open;
        if let Some(unread) = &self.letter.sqs.unread {
            let problem = unread.problem.clone();
            self.archive(ArchiveReason::Unrecognised, Some(problem));
        }
    }

    /// Returns what is known of the endpoint that it goes to.
    pub(super) fn leads_to(&self, targets: &KnownTargets) -> LetterTarget {
        if let Some(target) = &self.target {
            return LetterTarget::Known(target.name());
        }
        targets.of(&self.letter, self.rule, self.facts.discovered.as_ref(), self.searched)
    }

    /// Returns the name of its target for what is said of it, as far as it is known.
    fn target_name(&self) -> Option<TargetName> {
        self.target.as_ref().map(Endpoint::name).or_else(|| self.named.clone())
    }

    /// Takes note of the target of a letter that is archived without an attempt, so that a replay by target finds it. What is
    /// refused has none.
    pub(super) fn name_target(&mut self, targets: &KnownTargets) {
        use ArchiveReason::{Exhausted, Expiring, GivenUp};
        let could_go = matches!(self.disposition, Disposition::Archive(Exhausted | Expiring | GivenUp));
        if let (true, LetterTarget::Known(name)) = (could_go, self.leads_to(targets)) {
            self.named = Some(name);
        }
    }

    /// Reports whether an override asks for its attempt.
    pub(super) fn is_sent_by_override(&self) -> bool {
        self.facts.overridden.action() == Some(OverrideAction::Retry)
    }

    /// Reports whether an override that began since then asks for its attempt. An override asks for one attempt.
    pub(super) fn is_sent_by_override_since(&self, then: Timestamp) -> bool {
        self.is_sent_by_override() && self.facts.overridden.by().is_some_and(|override_| override_.at >= then)
    }

    /// Reports whether an override holds it.
    pub(super) fn is_held_by_override(&self) -> bool {
        self.facts.overridden.action() == Some(OverrideAction::Hold)
    }

    /// Reports whether an override led to this disposition and no longer asks for it.
    pub(super) fn is_taken_back(&self, disposition: &Disposition) -> bool {
        disposition.overridden().is_some_and(|action| self.facts.overridden.action() != Some(action))
    }

    /// Takes up a letter that the archive did not accept before. No further attempt is made.
    pub(super) fn resume(&mut self, unarchived: UnarchivedLetter) {
        if self.is_undecided() {
            self.archive(unarchived.context.reason, unarchived.context.detail.clone());
            self.named.clone_from(&unarchived.context.target);
            self.unarchived = Some(unarchived.into());
        }
    }

    /// Returns the time when its queue drops it, if that is known.
    pub(super) fn end(&self) -> Option<Timestamp> {
        let Retention::Known(retention) = self.facts.retention else { return None };
        Some(plus(self.letter.kept_since(), retention))
    }

    /// Reports whether a function fails with it however often it comes: it says nothing of others, and is left to its schedule.
    pub(super) fn comes_in_vain(&self) -> bool {
        let is_of_function = self.failure.as_ref().is_some_and(|failure| failure.code == FUNCTION_ERROR);
        is_of_function && self.verdict.as_ref().is_some_and(Verdict::comes_often)
    }

    /// Reports whether its rule or an override holds it, or one that is not read yet may.
    pub(super) fn may_be_held(&self) -> bool {
        match &self.facts.overridden {
            OverrideAnswer::Nothing => self.rule.action == RuleAction::Hold,
            OverrideAnswer::Unread | OverrideAnswer::MayHold(_) => true,
            OverrideAnswer::By(override_) => override_.action == OverrideAction::Hold,
        }
    }

    /// Reports whether the letter's subscription must be searched for.
    pub(super) fn needs_discovery(&self) -> bool {
        self.disposition == Disposition::Open
            && self.rule.searches_for_subscription(&self.letter, &self.facts.overridden)
    }

    /// Returns the route to the subscription whose delivery policy the rule uses, if it does.
    pub(super) fn route_of_delivery_policy(&self) -> Option<Route> {
        let asks = self.rule.delivery == DeliverySpec::FromSubscription;
        if asks { self.route_by_rule() } else { None }
    }

    /// Returns the route of its rule, unless it is clear already that the letter may not go there.
    pub(super) fn route_by_rule(&self) -> Option<Route> {
        let route = self.rule.route(&self.letter, self.facts.discovered.as_ref());
        let refused = refusal_at_sight(&route, &self.letter, self.letter.dead_letter_queue());
        refused.is_none().then_some(route)
    }

    /// Returns the route of a letter whose subscription SNS must be asked about, unless it is clear already that the
    /// letter may not go there.
    pub(super) fn route_to_ask(&self) -> Option<&Route> {
        let route = &self.verdict.as_ref()?.route;
        let refused = refusal_at_sight(route, &self.letter, self.letter.dead_letter_queue());
        refused.is_none().then_some(route)
    }

    /// Returns the group that keeps this letter in order. It is `None` on standard queues, whose groups keep
    /// no override.
    pub(super) fn fifo_group(&self) -> Option<&str> {
        self.letter.sqs.group_id().filter(|_| self.letter.sqs.queue.is_fifo())
    }

    /// Reports whether this letter holds up its group, because it was neither delivered nor moved. An
    /// archived letter does too, because only the end shows whether the archive has accepted it.
    pub(super) fn blocks(&self) -> bool {
        !matches!(self.disposition, Disposition::Delivered | Disposition::Requeued(_))
    }

    /// Takes over a decision of the policy.
    pub(super) fn settle(&mut self, decision: &Decision, now: Timestamp) {
        self.decided = now;
        match decision {
            Decision::Deliver(retry) => self.disposition = Disposition::Due(*retry),
            Decision::Defer(deferral) => self.disposition = Disposition::Defer(*deferral),
            Decision::Archive(reason, detail) => {
                let override_ = self.facts.overridden.by().filter(|_| *reason == ArchiveReason::GivenUp);
                let overridden = override_.map(|override_| format!("by {}: {}", override_.by, override_.why));
                self.archive(*reason, detail.map(str::to_owned).or(overridden));
            }
        }
    }

    /// Reports whether the rule or an override may still decide. A letter that cannot be read is archived, but
    /// not while an override holds it.
    pub(super) fn is_undecided(&self) -> bool {
        let unread = matches!(self.disposition, Disposition::Archive(ArchiveReason::Unrecognised));
        self.disposition == Disposition::Open
            || (unread && self.verdict.is_none() && self.unarchived.is_none())
    }

    /// Returns the decision of its rule and the overrides.
    pub(super) fn decide(&mut self, now: Timestamp) -> Decision {
        let verdict = self.rule.decide(&self.letter, &self.facts, now);
        let decision = match self.disposition {
            Disposition::Archive(reason) if !verdict.is_kept_back(&self.facts.overridden) => {
                Decision::Archive(reason, None)
            }
            _ => {
                (self.disposition, self.detail) = (Disposition::Open, None);
                verdict.decision.clone()
            }
        };
        self.verdict = Some(verdict);
        decision
    }

    /// Says what would be done with it, and what of that is not known. `is_behind` is true if a letter before it in its
    /// group would hold it.
    pub(super) fn observe(&mut self, mut decision: Decision, requeue: Option<&Arn>, is_behind: bool) {
        // A letter that was archived at sight has its detail.
        if let Some(verdict) = self.verdict.as_ref().filter(|_| self.detail.is_none()) {
            let foreseen = foresee(verdict, &self.letter, &self.facts.overridden, requeue);
            self.detail = foreseen.detail.clone().or(foreseen.unknown().map(str::to_owned));
            decision = foreseen.decision;
        }
        if self.searched && self.failure.is_some() {
            self.detail = Some(format!("not known: {SEARCH_FAILED}"));
        }
        if is_behind {
            self.detail = joined([self.detail.take(), Some(HELD_DETAIL.to_owned())]);
        }
        self.disposition = Disposition::Observed(decision);
    }

    /// Returns the id of the override that it was handled on.
    fn override_id(&self) -> Option<String> {
        let override_ = self.facts.overridden.by().filter(|_| self.verdict.is_some())?;
        Some(override_.id.clone())
    }

    pub(super) fn archive(&mut self, reason: ArchiveReason, detail: Option<String>) {
        self.disposition = Disposition::Archive(reason);
        self.detail = detail;
    }

    pub(super) fn refuse(&mut self, why: &str) {
        self.archive(ArchiveReason::Refused, Some(why.to_owned()));
    }

    /// Keeps it from its attempt in this invocation. It comes back soon.
    pub(super) fn put_off(&mut self) {
        self.disposition = Disposition::OutOfTime;
        self.soon = true;
    }

    /// Archives it, because its destination has no form for it.
    pub(super) fn not_packed(&mut self, error: CannotPack) {
        let reason = match error {
            CannotPack::Unmarkable => ArchiveReason::Unmarkable,
            CannotPack::NotJson => ArchiveReason::Unrecognised,
        };
        self.archive(reason, Some(error.to_string()));
    }

    /// Takes over the result of a delivery.
    pub(super) fn attempted(&mut self, retry: Retry, sent: SendResult, took: Duration, now: Timestamp) {
        self.soon = sent == SendResult::NotStarted;
        self.answered(retry, sent, now);
        self.took = self.retry.map(|_| took);
    }

    /// Takes over the answer to a retry.
    pub(super) fn answered(&mut self, retry: Retry, answer: SendResult, now: Timestamp) {
        match answer {
            SendResult::Accepted => {
                self.retry = Some(retry);
                self.disposition = Disposition::Delivered;
            }
            SendResult::NotStarted | SendResult::Withheld => self.disposition = Disposition::OutOfTime,
            SendResult::LeftOut(least) => {
                let (is_overridden, soonest) = (self.is_sent_by_override(), later(now, least));
                self.settle_by(now, |verdict| verdict.left_out(retry, is_overridden, now, soonest));
            }
            SendResult::PutOff(minutes) => {
                let is_overridden = self.is_sent_by_override();
                self.settle_by(now, |verdict| verdict.put_off_by(retry, minutes, is_overridden, now));
            }
            SendResult::Refused(detail) => self.refuse(detail),
            SendResult::Failed(failure) => {
                self.retry = Some(retry);
                let target = self.target.clone();
                self.settle_by(now, |verdict| verdict.after(retry, &failure, target.as_ref(), now));
                self.detail = self.detail.take().or(failure.advice().map(str::to_owned));
                self.failure = Some(failure);
            }
        }
    }

    /// Takes over what its verdict says now, if it has one.
    fn settle_by(&mut self, now: Timestamp, decide: impl FnOnce(&Verdict<'p>) -> Decision) {
        if let Some(decision) = self.verdict.as_ref().map(decide) {
            self.settle(&decision, now);
        }
    }

    /// Returns what is to be said about it.
    fn said(&self) -> Option<String> {
        let target = match &self.letter.origin {
            Origin::EventBridge { target, .. } => Some(target),
            _ => None,
        };
        let goes_back = self.target.as_ref().and_then(Endpoint::arn).is_some_and(|arn| Some(arn) == target);
        let event = (self.retry.is_some() && goes_back).then(|| AS_ON_THE_BUS.to_owned());
        joined([self.detail.clone(), event])
    }

    /// Returns the reason why it is archived, if it is.
    pub(super) fn context(&self) -> Option<ArchiveContext> {
        let Disposition::Archive(reason) = self.disposition else { return None };
        let before = self.unarchived.as_ref().map(|before| &before.context);
        Some(ArchiveContext {
            reason,
            detail: self.said(),
            rule: self.rule.name.clone(),
            target: self.target_name(),
            retry: self.retry.or(before.and_then(|before| before.retry)),
            failure: self.failure.as_ref().or(before.and_then(|before| before.failure.as_ref())).cloned(),
            override_id: self.override_id().or(before.and_then(|before| before.override_id.clone())),
        })
    }

    /// Returns the seconds for which it is to be hidden now, if it is. For a deferred letter that is the rest
    /// of the wait, since the deliveries took time. Held letters become visible at once: SQS keeps them
    /// behind the hidden head of their group, and if they were in flight they would block that head.
    pub(super) fn hiding(&self, now: Timestamp) -> Option<u64> {
        match &self.disposition {
            // Not longer than was decided, though the wall clock was set back meanwhile.
            Disposition::Defer(deferral) => {
                Some(seconds_until(now, plus(self.decided, deferral.hide)).min(deferral.hide))
            }
            Disposition::Held => Some(0),
            Disposition::OutOfTime if self.soon => Some(UNSENT_HIDE_SECONDS),
            _ => None,
        }
    }

    /// Takes over that it could not be hidden. If its receive is over, nothing is left to do, and nothing that
    /// failed before matters, unless its queue has dropped it at the end of its retention.
    pub(super) fn not_hidden(&mut self, failure: Failure, now: Timestamp) {
        if failure.ends_receive() && self.end().is_none_or(|end| now < end) {
            self.undone = Some(Box::new((NotDone::ReceiveOver, failure)));
        } else if self.undone.is_none() {
            self.undone = Some(Box::new((NotDone::Hide, failure)));
        }
    }

    /// Returns the outcome, now that the archive and the queue have answered.
    pub(super) fn report(self, now: Timestamp) -> LetterReport {
        let expires = self.end();
        let (override_id, detail, target) = (self.override_id(), self.said(), self.target_name());
        let outcome = match (self.disposition, &self.undone) {
            // A held letter that could not be shown again comes back by itself; it is held either way.
            (Disposition::Held, _) => Outcome::Held,
            (_, Some(undone)) if undone.0 == NotDone::ReceiveOver => Outcome::Failed(undone.0),
            (Disposition::OutOfTime, _) | (Disposition::Open | Disposition::Due(_), None) => {
                Outcome::Failed(NotDone::OutOfTime)
            }
            (_, Some(undone)) => Outcome::Failed(undone.0),
            (Disposition::Delivered, None) => Outcome::Delivered,
            (Disposition::Archive(reason), None) => Outcome::Archived(reason),
            (Disposition::Defer(deferral), None) => Outcome::Deferred(deferral),
            (Disposition::Requeued(deferral), None) => Outcome::Requeued(deferral),
            (Disposition::Observed(decision), None) => Outcome::Observed(decision),
        };
        // If it is unknown how often the letter was received before SQS moved it, counting it twice is better
        // than not at all.
        let moved = self.letter.sqs.source_queue().is_some();
        let receives = self.letter.sqs.receive_count;
        let first = match self.facts.source_max_receives {
            None if moved => true,
            brought_along => receives.saturating_sub(brought_along.unwrap_or(0)) <= 1,
        };
        LetterReport {
            target,
            rule: self.rule.name.clone(),
            outcome,
            override_id,
            retry: self.retry,
            took: self.took,
            failure: self.failure,
            undone: self.undone.map(|undone| undone.1),
            detail,
            hidden: self.hidden,
            arrived: self.letter.mark.is_none() && first,
            expires_in: expires.map(|end| end.as_second().saturating_sub(now.as_second())),
            letter: self.letter,
        }
    }
}

//! A letter on its way to an outcome.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::unarchived::Unarchived;
use super::{NotDone, Outcome, Report};
use crate::archive::ArchiveContext;
use crate::delivery::{Endpoint, Sent};
use crate::failure::Failure;
use crate::letter::Letter;
use crate::policy::{
    ArchiveReason, Decision, Deferral, DeliverySpec, Facts, Policy, Retry, Route, Rule, Verdict, plus,
};

/// A letter on its way to an outcome.
pub(super) struct Case<'p> {
    pub(super) letter: Letter,
    pub(super) rule: &'p Rule,
    pub(super) facts: Facts,
    pub(super) verdict: Option<Verdict<'p>>,
    pub(super) disposition: Disposition,
    /// When the disposition was decided; waits count from then.
    pub(super) decided: Timestamp,
    pub(super) retry: Option<Retry>,
    /// How long that attempt took.
    pub(super) took: Option<Duration>,
    pub(super) target: Option<Endpoint>,
    pub(super) failure: Option<Failure>,
    pub(super) detail: Option<String>,
    /// In how many seconds it shows again if nobody hides it otherwise.
    pub(super) shows_in: u64,
    /// What the archive did not take before, in an earlier invocation.
    pub(super) unarchived: Option<Unarchived>,
    /// For how many seconds it is hidden since the archive did not take it.
    pub(super) hidden: Option<u64>,
}

/// What is to become of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disposition {
    /// Nothing was decided yet.
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

impl<'p> Case<'p> {
    /// A letter under its rule; one that cannot be matched against the rules is for the archive.
    pub(super) fn new(policy: &'p Policy, facts: Facts, letter: Letter) -> Self {
        let (letter, rule) = policy.sort(letter);
        let mut case = Self {
            letter,
            rule: rule.unwrap_or(policy.default_rule()),
            facts,
            verdict: None,
            disposition: Disposition::Open,
            decided: Timestamp::UNIX_EPOCH,
            retry: None,
            took: None,
            target: None,
            failure: None,
            detail: None,
            shows_in: 0,
            unarchived: None,
            hidden: None,
        };
        if let Err(unmatchable) = rule {
            case.archive(ArchiveReason::Unrecognised, Some(unmatchable.to_string()));
        }
        case
    }

    /// Goes on where the archive did not take the letter: nothing more is attempted.
    pub(super) fn resume(&mut self, unarchived: Unarchived) {
        if self.disposition == Disposition::Open {
            self.archive(unarchived.reason, unarchived.detail.clone());
            self.target.clone_from(&unarchived.target);
            self.unarchived = Some(unarchived);
        }
    }

    /// When its queue drops it.
    pub(super) fn end(&self) -> Timestamp {
        plus(self.letter.kept_since(), self.facts.retention)
    }

    /// Whether the letter's subscription must be looked for.
    pub(super) fn needs_discovery(&self) -> bool {
        self.disposition == Disposition::Open && self.rule.asks_for_subscription(&self.letter)
    }

    /// The route to the subscription whose delivery policy the rule goes by, if it does.
    pub(super) fn route_of_delivery_policy(&self) -> Option<Route> {
        let asks = self.rule.delivery == DeliverySpec::FromSubscription;
        asks.then(|| self.rule.route(&self.letter, self.facts.discovered.as_ref()))
    }

    /// The group that keeps this letter in order; `None` on standard queues, whose groups do not.
    pub(super) fn fifo_group(&self) -> Option<&str> {
        self.letter.sqs.group_id().filter(|_| self.letter.sqs.queue.is_fifo())
    }

    /// The group that this letter holds up, having neither been delivered nor moved. An archived letter holds its
    /// group too: whether the archive has taken it shows only at the end.
    pub(super) fn blocks(&self) -> Option<&str> {
        self.fifo_group()
            .filter(|_| !matches!(self.disposition, Disposition::Delivered | Disposition::Requeued(_)))
    }

    /// Takes a decision of the policy over.
    pub(super) fn settle(&mut self, decision: &Decision, now: Timestamp) {
        self.decided = now;
        match decision {
            Decision::Deliver(retry) => self.disposition = Disposition::Due(*retry),
            Decision::Defer(deferral) => self.disposition = Disposition::Defer(*deferral),
            Decision::Archive(reason, detail) => self.archive(*reason, detail.map(str::to_owned)),
        }
    }

    pub(super) fn archive(&mut self, reason: ArchiveReason, detail: Option<String>) {
        self.disposition = Disposition::Archive(reason);
        self.detail = detail;
    }

    /// Takes the answer to a retry over.
    pub(super) fn answered(&mut self, retry: Retry, answer: Sent, now: Timestamp) {
        match answer {
            Sent::Accepted => {
                self.retry = Some(retry);
                self.disposition = Disposition::Delivered;
            }
            Sent::NotStarted => self.disposition = Disposition::OutOfTime,
            Sent::Refused(detail) => self.archive(ArchiveReason::Refused, Some(detail.to_owned())),
            Sent::Failed(failure) => {
                self.retry = Some(retry);
                let next =
                    self.verdict.as_ref().map(|verdict| verdict.after_failure(retry, failure.class, now));
                if let Some(next) = next {
                    self.settle(&next, now);
                }
                self.detail = self.detail.take().or(failure.advice().map(str::to_owned));
                self.failure = Some(failure);
            }
        }
    }

    pub(super) fn context(&self) -> Option<ArchiveContext<'_>> {
        let Disposition::Archive(reason) = self.disposition else { return None };
        let before = self.unarchived.as_ref();
        Some(ArchiveContext {
            reason,
            detail: self.detail.as_deref(),
            rule: &self.rule.name,
            target: self.target.as_ref(),
            retry: self.retry.or(before.and_then(|before| before.retry)),
            failure: self.failure.as_ref().or(before.and_then(|before| before.failure.as_ref())),
        })
    }

    /// The outcome, now that archive and queue have answered.
    pub(super) fn report(self, undone: Option<(NotDone, Failure)>, now: Timestamp) -> Report {
        let outcome = match (self.disposition.clone(), &undone) {
            // A held letter that could not be shown again comes back by itself; it is held either route.
            (Disposition::Held, _) => Outcome::Held,
            (_, Some((what, _))) => Outcome::Failed(*what),
            (Disposition::Delivered, None) => Outcome::Delivered,
            (Disposition::Archive(reason), None) => Outcome::Archived(reason),
            (Disposition::Defer(deferral), None) => Outcome::Deferred(deferral),
            (Disposition::Requeued(deferral), None) => Outcome::Requeued(deferral),
            (Disposition::Observed(decision), None) => Outcome::Observed(decision),
            (Disposition::OutOfTime | Disposition::Open | Disposition::Due(_), None) => {
                Outcome::Failed(NotDone::OutOfTime)
            }
        };
        // Where nobody knows how often it was received before SQS moved it, it is rather counted twice.
        let moved = self.letter.sqs.source_queue().is_some();
        let receives = self.letter.sqs.receive_count;
        let first = match self.facts.source_max_receives {
            None if moved => true,
            brought_along => receives.saturating_sub(brought_along.unwrap_or(0)) <= 1,
        };
        let expires = self.end().as_second();
        Report {
            rule: self.rule.name.clone(),
            outcome,
            retry: self.retry,
            took: self.took,
            target: self.target,
            failure: self.failure,
            undone: undone.map(|(_, failure)| failure),
            detail: self.detail,
            hidden: self.hidden,
            arrived: self.letter.mark.is_none() && first,
            expires_in: expires.saturating_sub(now.as_second()),
            letter: self.letter,
        }
    }
}

/// Letters that may be handled together: all of a standard queue, one of each group of a FIFO queue.
pub(super) fn rounds(cases: &[Case<'_>]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (index, case) in cases.iter().enumerate() {
        let round = case.fifo_group().map_or(0, |group| {
            let count = seen.entry(group).or_default();
            *count += 1;
            *count - 1
        });
        if rounds.len() <= round {
            rounds.resize_with(round + 1, Vec::new);
        }
        rounds[round].push(index);
    }
    rounds
}

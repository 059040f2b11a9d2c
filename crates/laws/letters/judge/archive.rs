//! The judgement of the archive: every archived letter needs a reason.

use redrive_sim::SimMillis;

use super::super::facts::{CallEffect, CallResponse, LifeEvent, SentPlace, TimedFact};
use super::super::ledger::RequiredEnd;
use super::{Circumstances, JudgedLetter};

/// The milliseconds that a retry may be early.
const A_SECOND: SimMillis = 1_000;

impl<'a> JudgedLetter<'a> {
    /// Judges whether the archive of a letter had a reason.
    pub(super) fn judge_archive(&self, given: &impl Circumstances, faults: &mut Vec<String>) {
        if let Some(RequiredEnd::Archived(reason)) = self.plan.end
            && self.count(LifeEvent::is_delivery) > 0
        {
            faults.push(format!("delivered, though it is one for the archive ({reason})"));
        }
        for fact in self.facts.iter().filter(|fact| fact.what.is_taken_by(SentPlace::Archive)) {
            let Some(reason) = self.reason(fact) else {
                faults.push("archived without a record".to_owned());
                continue;
            };
            if reason == "exhausted" {
                let (spent, retries) = (self.may_have_spent(fact, given), self.plan.retries);
                if spent < retries {
                    faults.push(format!("exhausted after {spent} of {retries} retries"));
                }
            }
            if !given.allow(self, fact, reason).unwrap_or_else(|| self.has_reason(fact, reason)) {
                faults.push(format!("archived as {reason} without a reason"));
            }
        }
    }

    /// Returns the reason of the record with which a letter was archived. An archive queue gets the letter without
    /// the record if it has refused both together for good.
    #[must_use]
    pub fn reason(&self, archived: &'a TimedFact) -> Option<&'a str> {
        let LifeEvent::Sent { reason, .. } = &archived.what else { return None };
        let with_record = || {
            let mut before =
                self.facts.iter().rev().filter(|it| it.order < archived.order && it.run == archived.run);
            before.find_map(|it| match &it.what {
                LifeEvent::Sent {
                    place: SentPlace::Archive,
                    response: CallResponse::Refused { for_good: true },
                    reason,
                    ..
                } => reason.as_deref(),
                _ => None,
            })
        };
        reason.as_deref().or_else(with_record)
    }

    /// Returns the archivings, with their reasons.
    #[must_use]
    pub fn archived(&self) -> Vec<(&'a TimedFact, &'a str)> {
        let is = |what: &LifeEvent| {
            matches!(what, LifeEvent::Sent { place: SentPlace::Archive, effect: CallEffect::Taken, .. })
        };
        let archived = self.facts.iter().filter(|fact| is(&fact.what));
        archived.map(|fact| (fact, self.reason(fact).unwrap_or("unknown"))).collect()
    }

    /// Reports whether the facts of a letter give this reason, or its plan does.
    fn has_reason(&self, archived: &TimedFact, reason: &str) -> bool {
        let arrived = self.facts.first().map_or(0, |fact| fact.at);
        let mut before = self.facts.iter().filter(|it| it.order < archived.order);
        // A subscription that SNS calls impossible counts as none.
        let unknown = LifeEvent::Unchecked { response: CallResponse::Refused { for_good: true } };
        match reason {
            "exhausted" => {
                before.any(|it| self.was_refused(it, false))
                    && archived.at + A_SECOND >= arrived + self.plan.last_due
            }
            "permanent" => before.any(|it| self.was_refused(it, true)),
            "refused" if before.any(|it| it.what == unknown) => true,
            other => matches!(self.plan.end, Some(RequiredEnd::Archived(reason)) if reason == other),
        }
    }

    /// Reports whether an attempt failed, or was refused for good.
    fn was_refused(&self, fact: &TimedFact, good: bool) -> bool {
        let (LifeEvent::Sent { place: SentPlace::Target, response, .. } | LifeEvent::Unchecked { response }) =
            &fact.what
        else {
            return false;
        };
        match response {
            CallResponse::Refused { for_good } => !good || *for_good,
            CallResponse::Nothing => !good,
            CallResponse::Done => {
                !good && fact.run.is_some_and(|run| fact.at >= self.ledger.runs()[run].last_delivery)
            }
        }
    }
}

//! The judgement of the archive: every archived letter needs a reason.

use redrive_sim::Millis;

use super::super::facts::{Effect, Fact, Place, Response, What};
use super::super::ledger::End;
use super::{Circumstances, Letter};

/// The milliseconds that a retry may be early.
const A_SECOND: Millis = 1_000;

impl<'a> Letter<'a> {
    /// Judges whether the archive of a letter had a reason.
    pub(super) fn judge_archive(&self, given: &impl Circumstances, faults: &mut Vec<String>) {
        if let Some(End::Archived(reason)) = self.plan.end
            && self.count(What::is_delivery) > 0
        {
            faults.push(format!("delivered, though it is one for the archive ({reason})"));
        }
        for fact in self.facts.iter().filter(|fact| fact.what.is_taken_by(Place::Archive)) {
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
    pub fn reason(&self, archived: &'a Fact) -> Option<&'a str> {
        let What::Sent { reason, .. } = &archived.what else { return None };
        let with_record = || {
            let mut before =
                self.facts.iter().rev().filter(|it| it.order < archived.order && it.run == archived.run);
            before.find_map(|it| match &it.what {
                What::Sent {
                    place: Place::Archive,
                    response: Response::Refused { for_good: true },
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
    pub fn archived(&self) -> Vec<(&'a Fact, &'a str)> {
        let is =
            |what: &What| matches!(what, What::Sent { place: Place::Archive, effect: Effect::Taken, .. });
        let archived = self.facts.iter().filter(|fact| is(&fact.what));
        archived.map(|fact| (fact, self.reason(fact).unwrap_or("unknown"))).collect()
    }

    /// Reports whether the facts of a letter give this reason, or its plan does.
    fn has_reason(&self, archived: &Fact, reason: &str) -> bool {
        let arrived = self.facts.first().map_or(0, |fact| fact.at);
        let mut before = self.facts.iter().filter(|it| it.order < archived.order);
        // A subscription that SNS calls impossible counts as none.
        let unknown = What::Unchecked { response: Response::Refused { for_good: true } };
        match reason {
            "exhausted" => {
                before.any(|it| self.was_refused(it, false))
                    && archived.at + A_SECOND >= arrived + self.plan.last_due
            }
            "permanent" => before.any(|it| self.was_refused(it, true)),
            "refused" if before.any(|it| it.what == unknown) => true,
            other => matches!(self.plan.end, Some(End::Archived(reason)) if reason == other),
        }
    }

    /// Reports whether an attempt failed, or was refused for good.
    fn was_refused(&self, fact: &Fact, good: bool) -> bool {
        let (What::Sent { place: Place::Target, response, .. } | What::Unchecked { response }) = &fact.what
        else {
            return false;
        };
        match response {
            Response::Refused { for_good } => !good || *for_good,
            Response::Nothing => !good,
            Response::Done => {
                !good && fact.run.is_some_and(|run| fact.at >= self.ledger.runs()[run].last_delivery)
            }
        }
    }
}

//! The judgement of the archive: every archived letter needs a reason.

use super::Ledger;
use super::facts::{Effect, End, Fact, Place, Response, What, Who};

/// The milliseconds that a retry may be early.
const A_SECOND: u64 = 1_000;

impl Ledger {
    /// Judges whether the archive of a letter had a reason.
    pub(super) fn judge_archive(&self, who: Who, delivered: bool, faults: &mut Vec<String>) {
        let facts = &self.facts[who];
        if let End::Archived(reason) = self.plans[who].end
            && delivered
        {
            faults.push(format!("delivered, though it is one for the archive ({reason})"));
        }
        let refused = |fact: &Fact, good: bool| match &fact.what {
            What::Sent { place: Place::Target, response, .. } | What::Unchecked { response } => {
                match response {
                    Response::Refused { for_good } => !good || *for_good,
                    Response::Nothing => !good,
                    Response::Done => {
                        !good && fact.run.is_some_and(|run| fact.at >= self.runs[run].last_delivery)
                    }
                }
            }
            _ => false,
        };
        let arrived = facts.first().map_or(0, |fact| fact.at);
        for fact in facts {
            let What::Sent { place: Place::Archive, effect: Effect::Taken, reason, wrong: None, .. } =
                &fact.what
            else {
                continue;
            };
            // An archive queue gets the letter without the record if it has refused both together for good.
            let with_record = || {
                facts.iter().rev().filter(|it| it.order < fact.order && it.run == fact.run).find_map(|it| {
                    match &it.what {
                        What::Sent {
                            place: Place::Archive,
                            response: Response::Refused { for_good: true },
                            reason,
                            ..
                        } => reason.as_ref(),
                        _ => None,
                    }
                })
            };
            let Some(reason) = reason.as_ref().or_else(with_record) else {
                faults.push("archived without a record".to_owned());
                continue;
            };
            let before = |good: bool| facts.iter().any(|it| it.order < fact.order && refused(it, good));
            // A subscription that SNS calls impossible counts as none.
            let unknown = || {
                let what = What::Unchecked { response: Response::Refused { for_good: true } };
                facts.iter().any(|it| it.order < fact.order && it.what == what)
            };
            if reason == "exhausted" {
                let (spent, retries) = (self.may_have_spent(who, fact), self.plans[who].retries);
                if spent < retries {
                    faults.push(format!("exhausted after {spent} of {retries} retries"));
                }
            }
            let allowed = match reason.as_str() {
                "exhausted" => before(false) && fact.at + A_SECOND >= arrived + self.plans[who].last_due,
                "permanent" => before(true),
                "refused" if unknown() => true,
                other => matches!(self.plans[who].end, End::Archived(reason) if reason == other),
            };
            if !allowed {
                faults.push(format!("archived as {reason} without a reason"));
            }
        }
    }
}

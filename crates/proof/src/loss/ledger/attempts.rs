//! The judgement of the attempts: their number stays within the schedule, and marks count them correctly.

use std::collections::BTreeSet;

use super::Ledger;
use super::facts::{Ending, Fact, Message, Place, Response, Run, What, Who};

/// The longest pause of an endpoint that an attempt without an answer leads to, and the next trial, in
/// milliseconds.
const LEFT_ALONE: u64 = 60_000;

impl Ledger {
    /// Judges the number of attempts: each invocation makes one at most. One more than the schedule has is
    /// allowed for each receive after which the letter could not be hidden, archived or deleted as the
    /// function wanted.
    pub(super) fn judge_attempts(
        &self,
        who: Who,
        message: Message,
        facts: &[&Fact],
        faults: &mut Vec<String>,
    ) {
        let mut attempts = BTreeSet::new();
        let mut excused = BTreeSet::new();
        for fact in facts {
            let Some(run) = fact.run else { continue };
            match &fact.what {
                What::Sent { place: Place::Target, .. } => {
                    attempts.insert(run);
                }
                What::Sent { response, .. } | What::Hidden { response, .. }
                    if *response != Response::Done =>
                {
                    excused.insert(run);
                }
                What::NotDeleted => {
                    excused.insert(run);
                }
                _ => {}
            }
            if self.runs[run].ending != Ending::Heard {
                excused.insert(run);
            }
            if let What::Sent { place: Place::Target, spent: Some(spent), .. } = &fact.what
                && *spent > self.plans[who].retries
            {
                faults.push(format!("retry {spent} of {}", self.plans[who].retries));
            }
        }
        let retries = self.plans[who].retries;
        if attempts.len() > retries + excused.len() {
            faults.push(format!(
                "message {message} had {} attempts, its schedule has {retries}",
                attempts.len()
            ));
        }
    }

    /// Returns the most retries that a message may have behind it at a fact: those by its mark, and one for
    /// each receive that made an attempt or had a reason to make none. Such reasons are: its invocation ended
    /// badly, the letter was held behind another of its group, its delete failed, or there was
    /// [trouble](Ledger::trouble).
    pub(super) fn may_have_spent(&self, who: Who, at: &Fact) -> usize {
        let before = |fact: &&Fact| fact.message == at.message && fact.order < at.order;
        let facts: Vec<_> = self.facts[who].iter().filter(before).collect();
        let marked = facts.iter().find_map(|fact| match fact.what {
            What::Queued { spent, .. } => Some(spent),
            _ => None,
        });
        let attempted = |run: Run| {
            let attempt = |what: &What| {
                matches!(what, What::Sent { place: Place::Target, .. } | What::Unchecked { .. })
            };
            facts.iter().any(|fact| fact.run == Some(run) && attempt(&fact.what))
        };
        let excused = |run: Run, received: &Fact| {
            let badly = !matches!(self.runs[run].ending, Ending::Heard | Ending::Open);
            let of_run = |what: &What| facts.iter().any(|fact| fact.run == Some(run) && fact.what == *what);
            let ended = facts.iter().find(|fact| fact.run == Some(run) && fact.what == What::Kept);
            let stayed = ended.is_some_and(|kept| self.had_trouble(received.at, kept.at));
            badly || stayed || of_run(&What::NotDeleted) || self.is_behind(who, received)
        };
        let receives = facts.iter().filter_map(|fact| match fact.what {
            What::Received { .. } => Some((fact.run?, *fact)),
            _ => None,
        });
        let uncounted = facts.iter().any(|fact| fact.what == What::Uncounted);
        let before = if uncounted { self.plans[who].receives_before } else { 0 };
        marked.unwrap_or_default()
            + before
            + receives.filter(|(run, fact)| attempted(*run) || excused(*run, fact)).count()
    }

    /// Reports whether there was trouble in this time, or so shortly before that an endpoint may still be left
    /// alone.
    fn had_trouble(&self, from: u64, to: u64) -> bool {
        self.troubles.iter().any(|at| (from.saturating_sub(LEFT_ALONE)..=to).contains(at))
    }

    /// Reports whether a letter was handed over behind another of its FIFO group.
    fn is_behind(&self, who: Who, received: &Fact) -> bool {
        let Some(group) = &self.plans[who].group else { return false };
        let ahead = |fact: &Fact| {
            let handed = fact.run == received.run && matches!(fact.what, What::Received { .. });
            handed && fact.order < received.order
        };
        let others = self.plans.iter().zip(&self.facts);
        others
            .filter(|(plan, _)| plan.group.as_ref() == Some(group))
            .any(|(_, facts)| facts.iter().any(ahead))
    }

    /// Judges that the marks count no retries that were not made.
    pub(super) fn judge_marks(&self, who: Who, faults: &mut Vec<String>) {
        let facts = &self.facts[who];
        for fact in facts {
            if let What::Sent { place: Place::Target, spent: Some(number), .. } = fact.what {
                let most = self.may_have_spent(who, fact) + 1;
                if number > most {
                    faults.push(format!("attempt {most} at most, and its number is {number}"));
                }
            }
        }
        for (queued, moved) in facts.iter().zip(facts.iter().skip(1)) {
            if let (What::Queued { spent, .. }, What::Sent { place: Place::Requeue, .. }) =
                (&queued.what, &moved.what)
            {
                // A letter whose target is down is moved without an attempt, and that takes a number as well.
                let attempted = facts.iter().any(|fact| {
                    let sent = matches!(fact.what, What::Sent { place: Place::Target, .. });
                    sent && fact.run == moved.run && fact.message == moved.message
                });
                let most = self.may_have_spent(who, moved) + usize::from(!attempted);
                if *spent > most {
                    faults.push(format!(
                        "moved with {spent} retries behind it, of which {most} can have been made"
                    ));
                }
            }
        }
    }
}

//! The judgement of the attempts: their number stays within the schedule, and marks count them correctly.

use std::collections::BTreeSet;

use redrive_sim::SimMillis;

use super::super::facts::{CallResponse, LifeEvent, MessageNumber, RunEnd, RunId, SentPlace, TimedFact};
use super::{Circumstances, JudgedLetter};

/// The longest pause of an endpoint that an attempt without an answer leads to, and the next trial, in
/// milliseconds.
const LEFT_ALONE: SimMillis = 60_000;

/// The shortest time for which a letter is hidden whose attempt is left out, in seconds.
const LEAST_LEFT_OUT: i64 = 40;

/// The longest time for which refused calls can lead to that, in milliseconds: a rest, and until the function's allowance
/// for what does not work has paid them.
const REFUSED_LATELY: SimMillis = 660_000;

impl JudgedLetter<'_> {
    /// Judges the number of attempts of a message, or of all of them: each invocation makes one at most.
    pub(super) fn judge_attempts(
        &self,
        message: Option<MessageNumber>,
        given: &impl Circumstances,
        faults: &mut Vec<String>,
    ) {
        let retries = self.plan.retries;
        let of_message = |fact: &&TimedFact| message.is_none() || fact.message == message;
        let attempts: BTreeSet<_> = self
            .facts
            .iter()
            .filter(of_message)
            .filter(|fact| fact.what.is_attempt())
            .filter_map(|fact| fact.run)
            .collect();
        for fact in self.facts.iter().filter(of_message) {
            if let LifeEvent::Sent { place: SentPlace::Target, spent: Some(spent), .. } = fact.what
                && spent > retries
                && message.is_some()
            {
                faults.push(format!("retry {spent} of {retries}"));
            }
        }
        let (schedules, what) = match message {
            Some(message) => (1, format!("message {message}")),
            None => (given.schedules(self), "its messages".to_owned()),
        };
        if attempts.len() > schedules * retries + given.excused_attempts(self, message) {
            faults.push(format!("{what} had {} attempts, its schedule has {retries}", attempts.len()));
        }
    }

    /// Returns the number of invocations after which a letter, or one of its messages, could not be hidden, archived,
    /// moved or deleted as the function wanted.
    #[must_use]
    pub fn calls_that_failed(&self, message: Option<MessageNumber>) -> usize {
        let mut failed = BTreeSet::new();
        for fact in self.facts.iter().filter(|fact| message.is_none() || fact.message == message) {
            let Some(run) = fact.run else { continue };
            let is_bad = match &fact.what {
                LifeEvent::Sent { place: SentPlace::Target | SentPlace::Topic, .. } => false,
                LifeEvent::Sent { response, .. } | LifeEvent::Hidden { response, .. } => {
                    *response != CallResponse::Done
                }
                LifeEvent::NotDeleted => true,
                _ => false,
            };
            if is_bad || self.ledger.runs()[run].ending != RunEnd::Heard {
                failed.insert((fact.message, run));
            }
        }
        failed.len()
    }

    /// Returns the most retries that a message may have behind it at a fact: those by its mark, and one for
    /// each receive that made an attempt or had a reason to make none. Such reasons are: its invocation ended
    /// badly or never began, the letter was held behind another of its group, its delete failed, its attempt was left
    /// out, or there was trouble.
    pub(super) fn may_have_spent(&self, at: &TimedFact, given: &impl Circumstances) -> usize {
        let before = |fact: &&TimedFact| fact.message == at.message && fact.order < at.order;
        let facts: Vec<_> = self.facts.iter().filter(before).collect();
        let marked = facts.iter().find_map(|fact| match fact.what {
            LifeEvent::Queued { spent, .. } => Some(spent),
            _ => None,
        });
        let attempted = |run: RunId| {
            let attempt = |what: &LifeEvent| what.is_attempt() || matches!(what, LifeEvent::Unchecked { .. });
            facts.iter().any(|fact| fact.run == Some(run) && attempt(&fact.what))
        };
        let excused = |run: RunId, received: &TimedFact| {
            let badly = !matches!(self.ledger.runs()[run].ending, RunEnd::Heard | RunEnd::Open);
            let of_run =
                |what: &LifeEvent| facts.iter().any(|fact| fact.run == Some(run) && fact.what == *what);
            let ended = facts.iter().find(|fact| fact.run == Some(run) && fact.what == LifeEvent::Kept);
            let stayed = ended.is_some_and(|kept| self.had_trouble(received.at, kept.at));
            let left_out = facts.iter().any(|fact| fact.run == Some(run) && self.is_left_out(fact));
            badly || stayed || left_out || of_run(&LifeEvent::NotDeleted) || self.is_behind(received)
        };
        let keeps = given.keep_from_attempts(self);
        let counts = |fact: &&&TimedFact| match (&fact.what, fact.run) {
            (LifeEvent::Handed, Some(run)) => keeps || attempted(run) || excused(run, fact),
            (LifeEvent::Throttled, _) => true,
            _ => false,
        };
        let uncounted = facts.iter().any(|fact| fact.what == LifeEvent::Uncounted);
        let before = if uncounted { self.plan.receives_before } else { 0 };
        marked.unwrap_or_default()
            + before
            + facts.iter().filter(counts).count()
            + given.unseen_attempts(self)
    }

    /// Reports whether there was trouble in this time, or so shortly before that an endpoint may still be left
    /// alone.
    fn had_trouble(&self, from: SimMillis, to: SimMillis) -> bool {
        self.ledger.troubles().iter().any(|at| (from - LEFT_ALONE..=to).contains(at))
    }

    /// Reports whether a letter was hidden as one is whose attempt, or a look-up before it, was left out: not long after
    /// such a call was refused.
    fn is_left_out(&self, fact: &TimedFact) -> bool {
        let LifeEvent::Hidden { seconds, .. } = fact.what else { return false };
        let lately = fact.at - REFUSED_LATELY..=fact.at;
        seconds >= LEAST_LEFT_OUT && self.ledger.refusals().iter().any(|at| lately.contains(at))
    }

    /// Reports whether a letter was handed over behind another of its FIFO group.
    fn is_behind(&self, received: &TimedFact) -> bool {
        let Some(group) = &self.plan.group else { return false };
        let ahead = |fact: &TimedFact| {
            fact.run == received.run && fact.what == LifeEvent::Handed && fact.order < received.order
        };
        let mut others = self.ledger.letters().filter(|other| other.plan.group.as_ref() == Some(group));
        others.any(|other| other.facts.iter().any(ahead))
    }

    /// Judges that the marks count no retries that were not made.
    pub(super) fn judge_marks(&self, given: &impl Circumstances, faults: &mut Vec<String>) {
        for fact in self.facts {
            if let LifeEvent::Sent {
                place: SentPlace::Target | SentPlace::Topic, spent: Some(number), ..
            } = fact.what
            {
                let most = self.may_have_spent(fact, given) + usize::from(!self.has_called_before(fact));
                if number > most {
                    faults.push(format!("attempt {most} at most, and its number is {number}"));
                }
            }
        }
        for (queued, moved) in self.facts.iter().zip(self.facts.iter().skip(1)) {
            if let (LifeEvent::Queued { spent, .. }, LifeEvent::Sent { place: SentPlace::Requeue, .. }) =
                (&queued.what, &moved.what)
            {
                // A letter whose target is down is moved without an attempt, and that takes a number as well.
                let attempted = self.facts.iter().any(|fact| {
                    let sent = fact.what.is_attempt();
                    sent && fact.run == moved.run && fact.message == moved.message
                });
                let most = self.may_have_spent(moved, given) + usize::from(!attempted);
                if *spent > most {
                    faults.push(format!(
                        "moved with {spent} retries behind it, of which {most} can have been made"
                    ));
                }
            }
        }
    }

    /// Reports whether an attempt is not the first fact of its kind in its invocation: then the receive counts
    /// already.
    fn has_called_before(&self, sent: &TimedFact) -> bool {
        let is_earlier = |fact: &TimedFact| {
            let is_same = fact.run == sent.run && fact.message == sent.message;
            is_same && fact.order < sent.order && fact.what.is_attempt()
        };
        self.facts.iter().any(is_earlier)
    }
}

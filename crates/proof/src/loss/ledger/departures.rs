//! The judgement of the ends of letters, and of how their messages left the queues.

use std::collections::{BTreeMap, BTreeSet};

use super::Ledger;
use super::facts::{Cause, Effect, Ending, Fact, Message, Place, Response, What, Who};
use super::verdict::{Verdict, Violation};

impl Ledger {
    pub(super) fn judge_one(&self, who: Who, queued: &BTreeSet<Message>, verdict: &mut Verdict) {
        let mut faults: Vec<String> = Vec::new();
        let facts = &self.facts[who];
        let taken = |fact: &Fact, at: Place| matches!(&fact.what, What::Sent { place, effect: Effect::Taken, wrong: None, .. } if *place == at);
        let delivered = facts.iter().any(|fact| taken(fact, Place::Target));
        let archived = facts.iter().any(|fact| taken(fact, Place::Archive));
        let still = facts.iter().any(|fact| queued.contains(&fact.message));
        match (delivered, archived, still) {
            (true, ..) => verdict.delivered += 1,
            (false, true, _) => verdict.archived += 1,
            (false, false, true) => verdict.queued += 1,
            (false, false, false) => {
                verdict.lost += 1;
                faults.push("lost: neither delivered nor archived nor in a queue".to_owned());
            }
        }
        verdict.moved += usize::from(facts.iter().any(|fact| taken(fact, Place::Requeue)));

        let mut messages: BTreeMap<Message, Vec<&Fact>> = BTreeMap::new();
        for fact in facts {
            messages.entry(fact.message).or_default().push(fact);
        }
        for (message, facts) in &messages {
            self.judge_message(who, *message, facts, verdict, &mut faults);
        }
        for fact in facts {
            if let What::Sent { wrong: Some(wrong), .. } = &fact.what {
                faults.push(format!("what arrived is not the letter: {wrong}"));
            }
        }
        self.judge_archive(who, delivered, &mut faults);
        self.judge_marks(who, &mut faults);
        if !faults.is_empty() {
            let history = self.history(who);
            let violation = |what| Violation { what, who: Some(who), history: history.clone() };
            verdict.violations.extend(faults.into_iter().map(violation));
        }
    }

    /// Judges how a message of a letter left its queue.
    fn judge_message(
        &self,
        who: Who,
        message: Message,
        facts: &[&Fact],
        verdict: &mut Verdict,
        faults: &mut Vec<String>,
    ) {
        let earlier = |fact: &Fact, at: Place| {
            self.facts[who].iter().any(|before| {
                before.order < fact.order
                    && matches!(&before.what, What::Sent { place, effect: Effect::Taken, .. } if *place == at)
            })
        };
        let mut left: Vec<&Fact> = Vec::new();
        for fact in facts {
            let What::Sent { place, effect, .. } = &fact.what else { continue };
            match effect {
                Effect::Taken => left.push(fact),
                Effect::Swallowed if earlier(fact, *place) => verdict.swallowed += 1,
                Effect::Swallowed => {
                    faults.push(format!("message {message} was swallowed as a repetition, and is none"));
                }
                Effect::None => {}
            }
        }
        let deleted = facts.iter().find(|fact| matches!(fact.what, What::Deleted)).map(|fact| fact.order);
        for fact in facts.iter().filter(|fact| matches!(fact.what, What::Deleted | What::NotDeleted)) {
            if !facts
                .iter()
                .any(|safe| safe.order < fact.order && safe.run == fact.run && safe.is_known_safe())
            {
                faults.push(format!("message {message} was let go before it was known to be safe"));
            }
        }
        verdict.duplicates += left.len().saturating_sub(1);
        for (first, again) in left.iter().zip(left.iter().skip(1)) {
            let kept = deleted.is_none_or(|deleted| deleted > again.order);
            if let Some(cause) = self.cause(first, facts).filter(|_| kept) {
                *verdict.causes.entry(cause).or_default() += 1;
            } else {
                verdict.unexplained += 1;
                faults.push(format!(
                    "message {message} has left twice, and nothing explains the first time (fact {})",
                    first.order
                ));
            }
        }
        self.judge_attempts(who, message, facts, faults);
    }

    /// Returns the cause why the letter could not be deleted after this effect, if it could not. The first of
    /// several causes counts: a kill comes before the unanswered calls that it leads to.
    fn cause(&self, effect: &Fact, facts: &[&Fact]) -> Option<Cause> {
        let What::Sent { response, place, .. } = &effect.what else { return None };
        let run = effect.run?;
        let invocation = &self.runs[run];
        // The archive gets half of the time, so that the function can still hide the letters that it does not
        // take.
        let whole = invocation.last_delivery - invocation.began;
        let last = invocation.began + if *place == Place::Archive { whole / 2 } else { whole };
        let not_deleted =
            || facts.iter().any(|fact| fact.run == Some(run) && matches!(fact.what, What::NotDeleted));
        match (response, invocation.ending) {
            (_, Ending::Killed) => Some(Cause::Killed),
            (Response::Nothing, _) => Some(Cause::Unanswered),
            (Response::Refused { .. }, _) => Some(Cause::Refused),
            (Response::Done, _) if effect.at >= last => Some(Cause::Late),
            (Response::Done, Ending::TimedOut) => Some(Cause::TimedOut),
            (Response::Done, Ending::Failed | Ending::Open) => Some(Cause::Failed),
            (Response::Done, Ending::Unheard) => Some(Cause::Unheard),
            (Response::Done, Ending::Heard) => not_deleted().then_some(Cause::NotDeleted),
        }
    }
}

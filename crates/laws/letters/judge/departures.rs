//! The judgement how messages left the queues.

use super::super::facts::{Cause, Effect, Ending, Fact, Message, Place, Response, What};
use super::{Circumstances, Letter, Verdict};

impl Letter<'_> {
    /// Judges how a message of a letter left its queue.
    pub(super) fn judge_departures(
        &self,
        message: Message,
        given: &impl Circumstances,
        verdict: &mut Verdict,
        faults: &mut Vec<String>,
    ) {
        let facts: Vec<&Fact> = self.about(message).collect();
        let mut left: Vec<&Fact> = Vec::new();
        for fact in &facts {
            let What::Sent { place, effect, .. } = &fact.what else { continue };
            match effect {
                Effect::Taken => left.push(fact),
                Effect::Swallowed if self.was_taken(fact, *place) => verdict.swallowed += 1,
                Effect::Swallowed => {
                    faults.push(format!("message {message} was swallowed as a repetition, and is none"));
                }
                Effect::None => {}
            }
        }
        for fact in facts.iter().filter(|fact| matches!(fact.what, What::Deleted | What::NotDeleted)) {
            if !facts
                .iter()
                .any(|safe| safe.order < fact.order && safe.run == fact.run && safe.what.is_known_safe())
            {
                faults.push(format!("message {message} was let go before it was known to be safe"));
            }
        }
        verdict.duplicates += left.len().saturating_sub(1);
        let mut copies = 0;
        for (first, again) in left.iter().zip(left.iter().skip(1)) {
            let between = |fact: &Fact| (first.order..again.order).contains(&fact.order);
            let deleted = facts.iter().any(|fact| fact.what == What::Deleted && between(fact));
            let cause = self.cause(first, &facts).filter(|_| !deleted).or_else(|| {
                let is_copy = |what: &What| matches!(what, What::Duplicated | What::Woken);
                let made = facts.iter().filter(|fact| fact.order < again.order && is_copy(&fact.what));
                copies += 1;
                (given.have_copies() && made.count() >= copies).then_some(Cause::HandedTwice)
            });
            if let Some(cause) = cause {
                *verdict.causes.entry(cause).or_default() += 1;
            } else {
                verdict.unexplained += 1;
                faults.push(format!(
                    "message {message} has left twice, and nothing explains the first time (fact {})",
                    first.order
                ));
            }
        }
    }

    /// Reports whether a place had taken the letter before a fact.
    fn was_taken(&self, fact: &Fact, at: Place) -> bool {
        self.facts.iter().any(|before| {
            before.order < fact.order
                && matches!(&before.what, What::Sent { place, effect: Effect::Taken, .. } if *place == at)
        })
    }

    /// Returns the cause why the letter could not be deleted after this effect, if it could not. The first of
    /// several causes counts: a kill comes before the unanswered calls that it leads to.
    fn cause(&self, effect: &Fact, facts: &[&Fact]) -> Option<Cause> {
        let What::Sent { response, place, .. } = &effect.what else { return None };
        let run = effect.run?;
        let invocation = &self.ledger.runs()[run];
        // The archive gets half of the time, so that the function can still hide the letters that it does not
        // take.
        let whole = invocation.last_delivery - invocation.began;
        let last = invocation.began + if *place == Place::Archive { whole / 2 } else { whole };
        let not_deleted = || facts.iter().any(|fact| fact.run == Some(run) && fact.what == What::NotDeleted);
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

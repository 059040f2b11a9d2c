//! The judgement how messages left the queues.

use super::super::facts::{
    CallEffect, CallResponse, DeleteObstacle, LifeEvent, MessageNumber, RunEnd, SentPlace, TimedFact,
};
use super::{Circumstances, JudgedLetter, LettersVerdict};

impl JudgedLetter<'_> {
    /// Judges how a message of a letter left its queue.
    pub(super) fn judge_departures(
        &self,
        message: MessageNumber,
        given: &impl Circumstances,
        verdict: &mut LettersVerdict,
        faults: &mut Vec<String>,
    ) {
        let facts: Vec<&TimedFact> = self.about(message).collect();
        let mut left: Vec<&TimedFact> = Vec::new();
        for fact in &facts {
            let LifeEvent::Sent { place, effect, .. } = &fact.what else { continue };
            match effect {
                CallEffect::Taken => left.push(fact),
                CallEffect::Swallowed if self.was_taken(fact, *place) => verdict.swallowed += 1,
                CallEffect::Swallowed => {
                    faults.push(format!("message {message} was swallowed as a repetition, and is none"));
                }
                CallEffect::None => {}
            }
        }
        for fact in
            facts.iter().filter(|fact| matches!(fact.what, LifeEvent::Deleted | LifeEvent::NotDeleted))
        {
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
            let between = |fact: &TimedFact| (first.order..again.order).contains(&fact.order);
            let deleted = facts.iter().any(|fact| fact.what == LifeEvent::Deleted && between(fact));
            let cause = self.cause(first, &facts).filter(|_| !deleted).or_else(|| {
                let is_copy = |what: &LifeEvent| matches!(what, LifeEvent::Duplicated | LifeEvent::Woken);
                let made = facts.iter().filter(|fact| fact.order < again.order && is_copy(&fact.what));
                copies += 1;
                (given.have_copies() && made.count() >= copies).then_some(DeleteObstacle::HandedTwice)
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
    fn was_taken(&self, fact: &TimedFact, at: SentPlace) -> bool {
        self.facts.iter().any(|before| {
            before.order < fact.order
                && matches!(&before.what, LifeEvent::Sent { place, effect: CallEffect::Taken, .. } if *place == at)
        })
    }

    /// Returns the cause why the letter could not be deleted after this effect, if it could not. The first of
    /// several causes counts: a kill comes before the unanswered calls that it leads to.
    fn cause(&self, effect: &TimedFact, facts: &[&TimedFact]) -> Option<DeleteObstacle> {
        let LifeEvent::Sent { response, place, .. } = &effect.what else { return None };
        let run = effect.run?;
        let invocation = &self.ledger.runs()[run];
        // The archive and the requeue get half of the time, so that the function can still hide the letters that they do
        // not take.
        let whole = invocation.last_delivery - invocation.began;
        let gets_half = matches!(place, SentPlace::Archive | SentPlace::Requeue);
        let last = invocation.began + if gets_half { whole / 2 } else { whole };
        let not_deleted =
            || facts.iter().any(|fact| fact.run == Some(run) && fact.what == LifeEvent::NotDeleted);
        match (response, invocation.ending) {
            (_, RunEnd::Killed) => Some(DeleteObstacle::Killed),
            (CallResponse::Nothing, _) => Some(DeleteObstacle::Unanswered),
            (CallResponse::Refused { .. }, _) => Some(DeleteObstacle::Refused),
            (CallResponse::Done, _) if effect.at >= last => Some(DeleteObstacle::Late),
            (CallResponse::Done, RunEnd::TimedOut) => Some(DeleteObstacle::TimedOut),
            (CallResponse::Done, RunEnd::Failed | RunEnd::Open) => Some(DeleteObstacle::Failed),
            (CallResponse::Done, RunEnd::Unheard) => Some(DeleteObstacle::Unheard),
            (CallResponse::Done, RunEnd::Heard) => not_deleted().then_some(DeleteObstacle::NotDeleted),
        }
    }
}

//! The laws, and the judgement of all letters by them.

mod archive;
mod attempts;
mod departures;
mod order;
mod verdict;

use std::collections::BTreeSet;

pub use self::verdict::{LettersVerdict, Violation};
use super::facts::{LetterNumber, LifeEvent, MessageNumber, RunEnd, RunId, SentPlace, TimedFact};
use super::ledger::{Ledger, Plan};

/// A letter, as the laws see it.
#[derive(Debug, Clone, Copy)]
pub struct JudgedLetter<'a> {
    /// The record of all letters.
    pub ledger: &'a Ledger,
    /// Its number.
    pub who: LetterNumber,
    /// Its expectations.
    pub plan: &'a Plan,
    /// Its facts.
    pub facts: &'a [TimedFact],
}

/// The circumstances of a world that excuse what is broken elsewhere. The defaults excuse nothing.
pub trait Circumstances {
    /// Reports whether a letter may be gone: its queue dropped it when the function could not save it.
    fn may_be_lost(&self, _: &JudgedLetter<'_>) -> bool {
        false
    }

    /// Reports whether queues hand out messages twice, or operators show letters that are being handled.
    fn have_copies(&self) -> bool {
        false
    }

    /// Reports whether something may have made a copy of a letter, so that two of its messages are under way.
    fn have_copied(&self, _: &JudgedLetter<'_>) -> bool {
        false
    }

    /// Returns how many attempts a letter, or one of its messages, may have beyond its schedule: one after each
    /// receive after which it could not be hidden, archived, moved or deleted as the function wanted.
    fn excused_attempts(&self, letter: &JudgedLetter<'_>, message: Option<MessageNumber>) -> usize {
        letter.calls_that_failed(message)
    }

    /// Returns how many messages of a letter may go through its schedule, each by itself.
    fn schedules(&self, letter: &JudgedLetter<'_>) -> usize {
        if letter.messages().len() > 1 { 1 + letter.calls_that_failed(None) } else { 1 }
    }

    /// Reports whether something may keep a letter from an attempt at any receive.
    fn keep_from_attempts(&self, _: &JudgedLetter<'_>) -> bool {
        false
    }

    /// Returns how many retries a letter may have behind it without a call to its target.
    fn unseen_attempts(&self, _: &JudgedLetter<'_>) -> usize {
        0
    }

    /// Judges a reason to archive. `None` leaves that to the letter's plan.
    fn allow(&self, _: &JudgedLetter<'_>, _: &TimedFact, _reason: &str) -> Option<bool> {
        None
    }
}

/// Circumstances that excuse nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoExcuses;

impl Circumstances for NoExcuses {}

/// Judges all letters. `queued` are the messages that still lie in the function's queues.
#[must_use]
pub fn judge(
    ledger: &Ledger,
    queued: &BTreeSet<MessageNumber>,
    given: &impl Circumstances,
) -> LettersVerdict {
    let mut verdict = LettersVerdict { letters: ledger.len(), ..LettersVerdict::default() };
    for letter in ledger.letters() {
        let mut faults = Vec::new();
        letter.judge_end(queued, given, &mut verdict, &mut faults);
        for message in letter.messages() {
            letter.judge_departures(message, given, &mut verdict, &mut faults);
            letter.judge_attempts(Some(message), given, &mut faults);
        }
        if letter.messages().len() > 1 {
            letter.judge_attempts(None, given, &mut faults);
        }
        letter.judge_content(&mut faults);
        letter.judge_archive(given, &mut faults);
        letter.judge_marks(given, &mut faults);
        if !faults.is_empty() {
            let (who, history) = (letter.who, ledger.history(letter.who));
            let violation = |what| Violation { what, who: Some(who), history: history.clone() };
            verdict.violations.extend(faults.into_iter().map(violation));
        }
    }
    order::judge(ledger, given, &mut verdict);
    let violation = |what| Violation { what, who: None, history: String::new() };
    verdict.violations.extend(ledger.strangers().iter().cloned().map(violation));
    for (run, invocation) in ledger.runs().iter().enumerate() {
        if invocation.ending == RunEnd::Failed {
            let why = invocation.why.as_deref().unwrap_or_default();
            verdict.violations.push(violation(format!("invocation {run} failed as a whole: {why}")));
        }
    }
    verdict
}

impl Ledger {
    /// Returns the letters, for the laws.
    pub fn letters(&self) -> impl Iterator<Item = JudgedLetter<'_>> {
        (0..self.len()).map(|who| JudgedLetter {
            ledger: self,
            who,
            plan: self.plan(who),
            facts: self.facts(who),
        })
    }
}

impl<'a> JudgedLetter<'a> {
    /// Returns the messages that carried it.
    #[must_use]
    pub fn messages(&self) -> BTreeSet<MessageNumber> {
        self.facts.iter().filter_map(|fact| fact.message).collect()
    }

    /// Returns the facts about one of its messages.
    pub fn about(&self, message: MessageNumber) -> impl Iterator<Item = &'a TimedFact> {
        self.facts.iter().filter(move |fact| fact.message == Some(message))
    }

    /// Returns the number of such facts.
    pub fn count(&self, is: impl Fn(&LifeEvent) -> bool) -> usize {
        self.facts.iter().filter(|fact| is(&fact.what)).count()
    }

    /// Returns the invocations that were handed one of its messages.
    pub fn runs_of(&self, message: MessageNumber) -> impl Iterator<Item = RunId> {
        self.about(message).filter(|fact| fact.what == LifeEvent::Handed).filter_map(|fact| fact.run)
    }

    /// Counts its end, and judges that it has one.
    fn judge_end(
        &self,
        queued: &BTreeSet<MessageNumber>,
        given: &impl Circumstances,
        verdict: &mut LettersVerdict,
        faults: &mut Vec<String>,
    ) {
        let has = |is: fn(&LifeEvent) -> bool| self.facts.iter().any(|fact| is(&fact.what));
        let delivered = has(LifeEvent::is_delivery);
        let archived = has(|what| what.is_taken_by(SentPlace::Archive));
        let still = self.messages().iter().any(|message| queued.contains(message));
        match (delivered, archived, still) {
            (true, ..) => verdict.delivered += 1,
            (false, true, _) => verdict.archived += 1,
            (false, false, true) => verdict.queued += 1,
            (false, false, false) => {
                verdict.lost += 1;
                if !given.may_be_lost(self) {
                    faults.push("lost: neither delivered nor archived nor in a queue".to_owned());
                }
            }
        }
        verdict.moved += usize::from(has(|what| what.is_taken_by(SentPlace::Requeue)));
    }

    /// Judges that every place got the letter byte for byte.
    fn judge_content(&self, faults: &mut Vec<String>) {
        for fact in self.facts {
            if let LifeEvent::Sent { wrong: Some(wrong), .. } | LifeEvent::Arrived { wrong: Some(wrong) } =
                &fact.what
            {
                faults.push(format!("what arrived is not the letter: {wrong}"));
            }
        }
    }
}

//! The judgement of all letters.

use std::collections::BTreeSet;

use super::Ledger;
use super::facts::{Ending, Message};
use super::verdict::{Verdict, Violation};

impl Ledger {
    /// Judges all letters. `queued` are the messages that still lie in the function's queues.
    #[must_use]
    pub fn judge(&self, queued: &BTreeSet<Message>) -> Verdict {
        let mut verdict = Verdict { letters: self.plans.len(), ..Verdict::default() };
        for who in 0..self.plans.len() {
            self.judge_one(who, queued, &mut verdict);
        }
        self.judge_override(&mut verdict);
        for what in &self.strangers {
            let violation = Violation { what: what.clone(), who: None, history: String::new() };
            verdict.violations.push(violation);
        }
        for (run, invocation) in self.runs.iter().enumerate() {
            if invocation.ending == Ending::Failed {
                let why = invocation.why.as_deref().unwrap_or_default();
                let what = format!("invocation {run} failed as a whole: {why}");
                verdict.violations.push(Violation { what, who: None, history: String::new() });
            }
        }
        verdict
    }
}

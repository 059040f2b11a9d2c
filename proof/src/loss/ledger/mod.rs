//! The ledger: what happened to every letter, and whether it was right.
//!
//! The world writes down facts as they happen: a letter was put into a queue, received, sent somewhere
//! with or without an effect, hidden, deleted. [`Ledger::judge`] reads them afterwards. It knows nothing
//! of faults: that a fault was made shows only in what the function was told, in how its invocation
//! ended, and in deletes that failed.
//!
//! | rule | broken when |
//! |---|---|
//! | nothing is lost | a letter is neither delivered nor archived, whole, nor in one of the queues |
//! | safe before deleted | a message was let go, and its invocation had not been told that anybody has it |
//! | whole | what arrived is not the letter, byte for byte, at its place |
//! | one way out | a message has left twice, and nothing explains the first time |
//! | no reason, no archive | a letter was archived whose retries did not fail, or before the last can have been due |
//! | attempts are honest | more attempts than retries, or fewer before `exhausted` than the receives allow |
//! | order | a letter of a FIFO group was attempted or archived while an earlier one lay in the same queue |
//! | no batch fails | the function answered with an error, or with ids that are not its batch's |

mod archive;
mod attempts;
mod departures;
mod facts;
mod order;
mod verdict;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Instant;

pub use facts::{Cause, Effect, End, Ending, Fact, Message, Place, Plan, Run, Told, What, Who};
pub use verdict::{Verdict, Violation};

#[derive(Debug, Clone)]
struct Invocation {
    began: u64,
    /// From here on a delivery that is under way may be cut off.
    last_delivery: u64,
    ending: Ending,
    why: Option<String>,
}

/// What was written down.
#[derive(Debug)]
pub struct Ledger {
    began: Instant,
    order: usize,
    plans: Vec<Plan>,
    facts: Vec<Vec<Fact>>,
    runs: Vec<Invocation>,
    strangers: Vec<String>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            order: 0,
            plans: Vec::new(),
            facts: Vec::new(),
            runs: Vec::new(),
            strangers: Vec::new(),
        }
    }
}

impl Ledger {
    /// Adds a letter and returns its number.
    pub fn letter(&mut self, plan: Plan) -> Who {
        self.plans.push(plan);
        self.facts.push(Vec::new());
        self.plans.len() - 1
    }

    /// Begins an invocation; deliveries may be cut off after so many milliseconds.
    pub fn begin(&mut self, deliver_for: u64) -> Run {
        let began = self.now();
        let last_delivery = began + deliver_for;
        self.runs.push(Invocation { began, last_delivery, ending: Ending::Open, why: None });
        self.runs.len() - 1
    }

    /// Ends an invocation.
    pub fn end(&mut self, run: Run, ending: Ending, why: Option<String>) {
        self.runs[run].ending = ending;
        self.runs[run].why = why;
    }

    /// Writes a fact down.
    pub fn fact(&mut self, who: Who, message: Message, run: Option<Run>, what: What) {
        self.order += 1;
        let fact = Fact { order: self.order, at: self.now(), message, run, what };
        self.facts[who].push(fact);
    }

    /// Writes down that something is wrong that concerns no letter.
    pub fn stranger(&mut self, what: String) {
        self.strangers.push(what);
    }

    /// Returns the facts of a letter.
    #[must_use]
    pub fn facts(&self, who: Who) -> &[Fact] {
        &self.facts[who]
    }

    /// Returns the number of invocations so far.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Judges. `queued` are the messages that lie in the function's queues.
    #[must_use]
    pub fn judge(&self, queued: &BTreeSet<Message>) -> Verdict {
        let mut verdict = Verdict { letters: self.plans.len(), ..Verdict::default() };
        for who in 0..self.plans.len() {
            self.judge_one(who, queued, &mut verdict);
        }
        self.judge_order(&mut verdict);
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

    /// Returns everything that happened to a letter.
    #[must_use]
    pub fn history(&self, who: Who) -> String {
        let plan = &self.plans[who];
        let mut text = format!("letter {who}, {}", plan.kind);
        if let Some(group) = &plan.group {
            let _ = write!(text, ", group {group}");
        }
        text.push('\n');
        for fact in &self.facts[who] {
            let run = fact.run.map_or_else(String::new, |run| {
                let Invocation { began, ending, .. } = &self.runs[run];
                format!(" in invocation {run} (began {began}, {ending:?})")
            });
            let _ = writeln!(
                text,
                "  {:>8} ms  #{:<8} message {}{run}: {:?}",
                fact.at, fact.order, fact.message, fact.what
            );
        }
        text
    }
}

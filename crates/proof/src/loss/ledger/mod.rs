//! The ledger: a record of every letter's life, and its judgement.
//!
//! The world records facts as they happen: a letter was put into a queue, received, sent somewhere with or
//! without an effect, hidden, deleted. [`Ledger::judge`] reads them afterwards. It does not know the faults;
//! it sees only what the function was told, how its invocation ended, and which deletes failed.
//!
//!
//! | rule | broken when |
//! |---|---|
//! | nothing is lost | a letter is neither delivered nor archived, whole, nor in one of the queues |
//! | safe before deleted | a message might be deleted before its invocation knew that another place has it |
//! | whole | a place got something that is not the letter, byte for byte |
//! | one way out | a message has left twice, and nothing explains the first time |
//! | reasons to archive | a letter was archived whose retries did not fail, or before the last can be due |
//! | honest attempts | more attempts than retries, or fewer before `exhausted` than the receives allow |
//! | order | a letter of a FIFO group was attempted or archived while an earlier one lay in the same queue |
//! | batches do not fail | the function answered with an error, or with ids that are not its batch's |

mod archive;
mod attempts;
mod departures;
mod facts;
mod judgement;
mod order;
mod verdict;

use std::fmt::Write as _;

use redrive_sim::{Clock, Millis};

pub use facts::{Cause, Effect, End, Ending, Fact, Message, Place, Plan, Response, Run, What, Who};
pub use verdict::{Verdict, Violation};

#[derive(Debug, Clone)]
struct Invocation {
    began: u64,
    /// The time from which a delivery under way may be cut off.
    last_delivery: u64,
    ending: Ending,
    why: Option<String>,
}

/// The record of all letters.
#[derive(Debug)]
pub struct Ledger {
    clock: Clock,
    began: Millis,
    order: usize,
    plans: Vec<Plan>,
    facts: Vec<Vec<Fact>>,
    runs: Vec<Invocation>,
    /// The times of trouble, in order.
    troubles: Vec<u64>,
    strangers: Vec<String>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new(Clock::real())
    }
}

impl Ledger {
    /// Creates an empty ledger, whose times are those of this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            began: clock.millis(),
            clock,
            order: 0,
            plans: Vec::new(),
            facts: Vec::new(),
            runs: Vec::new(),
            troubles: Vec::new(),
            strangers: Vec::new(),
        }
    }

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

    /// Records a fact.
    pub fn fact(&mut self, who: Who, message: Message, run: Option<Run>, what: What) {
        self.order += 1;
        let is_try = |what: &What| matches!(what, What::Sent { place: Place::Target, response, .. } if *response != Response::Done);
        if is_try(&what) {
            let of_run = |fact: &&Fact| fact.run == run && fact.message == message && is_try(&fact.what);
            if self.facts[who].iter().rev().filter(of_run).count() >= 2 {
                // The SDK tried three times, which cost seconds: the endpoint may now be left alone.
                self.trouble();
            }
        }
        let fact = Fact { order: self.order, at: self.now(), message, run, what };
        self.facts[who].push(fact);
    }

    /// Records a call because of which letters may stay without an attempt: it got no answer, which takes time
    /// from all letters and lets an endpoint be left alone, or it did not read the overrides or find the subscriptions.
    pub fn trouble(&mut self) {
        self.troubles.push(self.now());
    }

    /// Records a fault that concerns no letter.
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
        u64::try_from(self.clock.millis() - self.began).unwrap_or(0)
    }

    /// Returns the history of a letter as text.
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

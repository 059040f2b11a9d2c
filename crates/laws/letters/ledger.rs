//! The ledger: a record of every letter's life.
//!
//! It knows of a fault only what the function was told, how its invocation ended, and which deletes failed.

use std::fmt::Write as _;
use std::sync::Arc;

use redrive_sim::{AwsService, SimMillis};

use super::facts::{
    CallResponse, FunctionRun, LetterNumber, LifeEvent, MessageNumber, RunEnd, RunId, SentPlace, TimedFact,
};

/// The expectations of a letter.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Its FIFO group.
    pub group: Option<String>,
    /// What is promised about the order of its group.
    pub order: RequiredOrder,
    /// The place where it must end if no fault prevents it. `None` if that depends on the world.
    pub end: Option<RequiredEnd>,
    /// The retries of its schedule.
    pub retries: usize,
    /// Milliseconds from its arrival until its last retry can be due.
    pub last_due: SimMillis,
    /// The number of times it was received before SQS moved it here.
    pub receives_before: usize,
    /// The kind of letter, for histories.
    pub kind: String,
}

/// What is promised about the order of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequiredOrder {
    /// Nothing: failing heads make way.
    #[default]
    Free,
    /// The order of each queue. A letter that moves makes way in the queue that it leaves.
    OfEachQueue,
    /// The order of each queue, and no letter moves.
    Strict,
    /// The order of the requeue, which no letter leaves by a move, for letters of which nothing made copies.
    OfTheRequeue,
}

/// The place where a letter must end if no fault prevents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredEnd {
    /// The letter ends at its target.
    Delivered,
    /// The letter ends in the archive, for this reason.
    Archived(&'static str),
}

/// A call that had a fault.
#[derive(Debug, Clone)]
pub struct FaultyCall {
    /// The time when it began.
    pub at: SimMillis,
    /// The caller.
    pub caller: Arc<str>,
    /// The service.
    pub service: AwsService,
    /// The operation.
    pub operation: String,
    /// The name of what it is about.
    pub target: String,
}

/// The record of all letters.
#[derive(Debug, Default)]
pub struct Ledger {
    now: SimMillis,
    order: usize,
    plans: Vec<Plan>,
    facts: Vec<Vec<TimedFact>>,
    runs: Vec<FunctionRun>,
    /// The times of trouble, in order.
    troubles: Vec<SimMillis>,
    /// The times of calls that were refused, but not for good.
    refusals: Vec<SimMillis>,
    strangers: Vec<String>,
    /// Facts about all letters, those that come later too.
    everywhere: Vec<TimedFact>,
    faulty: Vec<FaultyCall>,
}

impl Ledger {
    /// Adds a letter and returns its number.
    pub fn letter(&mut self, plan: Plan) -> LetterNumber {
        self.plans.push(plan);
        self.facts.push(Vec::new());
        self.plans.len() - 1
    }

    /// Goes on to this time.
    pub fn pass_to(&mut self, now: SimMillis) {
        self.now = now;
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> SimMillis {
        self.now
    }

    /// Begins an invocation; deliveries may be cut off after so many milliseconds.
    pub fn begin(&mut self, caller: &Arc<str>, deliver_for: SimMillis) -> RunId {
        let (began, order) = (self.now, self.order);
        self.runs.push(FunctionRun {
            caller: Arc::clone(caller),
            began,
            ended: began,
            last_delivery: began.saturating_add(deliver_for),
            from: order + 1,
            to: usize::MAX,
            ending: RunEnd::Open,
            why: None,
        });
        self.runs.len() - 1
    }

    /// Ends an invocation.
    pub fn end(&mut self, run: RunId, ending: RunEnd, why: Option<String>) {
        let (ended, to) = (self.now, self.order + 1);
        let run = &mut self.runs[run];
        (run.ending, run.ended, run.to, run.why) = (ending, ended, to, why);
    }

    /// Corrects the end of an invocation, whose answer turned out to be nonsense.
    pub fn failed(&mut self, run: RunId, why: Option<String>) {
        let run = &mut self.runs[run];
        (run.ending, run.why) = (RunEnd::Failed, why);
    }

    /// Records a fact.
    pub fn fact(&mut self, who: LetterNumber, message: MessageNumber, run: Option<RunId>, what: LifeEvent) {
        let is_try = |what: &LifeEvent| matches!(what, LifeEvent::Sent { place: SentPlace::Target, response, .. } if *response != CallResponse::Done);
        if is_try(&what) {
            let of_run =
                |fact: &&TimedFact| fact.run == run && fact.message == Some(message) && is_try(&fact.what);
            if self.facts[who].iter().rev().filter(of_run).count() >= 2 {
                // The SDK tried three times, which cost seconds: the endpoint may now be left alone.
                self.trouble();
            }
        }
        self.note(who, Some(message), run, what);
    }

    /// Records a fact about a letter in all of its messages.
    pub fn note(
        &mut self,
        who: LetterNumber,
        message: Option<MessageNumber>,
        run: Option<RunId>,
        what: LifeEvent,
    ) {
        let fact = self.stamp(message, run, what);
        self.facts[who].push(fact);
    }

    /// Records a fact about all letters.
    pub fn note_everywhere(&mut self, what: LifeEvent) {
        let fact = self.stamp(None, None, what);
        self.everywhere.push(fact);
    }

    fn stamp(&mut self, message: Option<MessageNumber>, run: Option<RunId>, what: LifeEvent) -> TimedFact {
        self.order += 1;
        TimedFact { order: self.order, at: self.now, message, run, what }
    }

    /// Records a call because of which letters may stay without an attempt: it got no answer, which takes time
    /// from all letters and lets an endpoint be left alone, or it did not read the overrides or find the subscriptions.
    pub fn trouble(&mut self) {
        self.troubles.push(self.now);
    }

    /// Records a call that was refused, but not for good: if that took long, the next ones are left out.
    pub fn refused(&mut self) {
        self.refusals.push(self.now);
    }

    /// Records a call that had a fault.
    pub fn faulty(&mut self, faulty: FaultyCall) {
        self.faulty.push(faulty);
    }

    /// Records a fault that concerns no letter.
    pub fn stranger(&mut self, what: String) {
        self.strangers.push(what);
    }

    /// Returns the number of letters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// Reports whether there are no letters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// Returns the expectations of a letter.
    #[must_use]
    pub fn plan(&self, who: LetterNumber) -> &Plan {
        &self.plans[who]
    }

    /// Returns the facts of a letter.
    #[must_use]
    pub fn facts(&self, who: LetterNumber) -> &[TimedFact] {
        &self.facts[who]
    }

    /// Returns the facts about all letters.
    #[must_use]
    pub fn everywhere(&self) -> &[TimedFact] {
        &self.everywhere
    }

    /// Returns the invocations.
    #[must_use]
    pub fn runs(&self) -> &[FunctionRun] {
        &self.runs
    }

    /// Returns the calls that had a fault.
    #[must_use]
    pub fn faulty_calls(&self) -> &[FaultyCall] {
        &self.faulty
    }

    pub(super) fn troubles(&self) -> &[SimMillis] {
        &self.troubles
    }

    pub(super) fn refusals(&self) -> &[SimMillis] {
        &self.refusals
    }

    pub(super) fn strangers(&self) -> &[String] {
        &self.strangers
    }

    /// Returns the history of a letter as text. Times count from the first invocation's.
    #[must_use]
    pub fn history(&self, who: LetterNumber) -> String {
        let plan = &self.plans[who];
        let began = self.facts[who].first().map_or(0, |fact| fact.at);
        let mut text = format!("letter {who}, {}", plan.kind);
        if let Some(group) = &plan.group {
            let _ = write!(text, ", group {group}");
        }
        let _ = writeln!(text, ", came at {began}");
        for fact in &self.facts[who] {
            let run = fact.run.map_or_else(String::new, |run| {
                let FunctionRun { caller, began: at, ending, .. } = &self.runs[run];
                format!(" in invocation {run} of {caller} (began {}, {ending:?})", at - began)
            });
            let message = fact.message.map_or_else(String::new, |message| format!(" message {message}"));
            let _ = writeln!(
                text,
                "  {:>10} ms  #{:<8}{message}{run}: {:?}",
                fact.at - began,
                fact.order,
                fact.what
            );
        }
        text
    }
}

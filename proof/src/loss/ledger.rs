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

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::time::Instant;

/// A letter by its number, from 0.
pub type Who = usize;
/// An SQS message by its number, from 0. A letter that moves to the requeue is a new message there.
pub type Message = usize;
/// An invocation by its number, from 0.
pub type Run = usize;

/// By so much a retry may be early.
const A_SECOND: u64 = 1_000;

/// What is expected of a letter.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its FIFO group.
    pub group: Option<String>,
    /// Whether the order of its group is promised.
    pub ordered: bool,
    /// Where it must end if no fault prevents it.
    pub end: End,
    /// The retries of its schedule.
    pub retries: usize,
    /// Milliseconds from its arrival until its last retry can be due.
    pub last_due: u64,
    /// How often it was received before SQS moved it here.
    pub receives_before: usize,
    /// In words, for histories.
    pub kind: &'static str,
}

/// Where a letter must end if no fault prevents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At its target.
    Delivered,
    /// In the archive, for this reason.
    Archived(&'static str),
}

/// Where a letter was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Its target.
    Target,
    /// The archive.
    Archive,
    /// The requeue.
    Requeue,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It is there.
    Taken,
    /// It was there already: a FIFO place took the repetition for what it is.
    Swallowed,
    /// Nothing.
    None,
}

/// What the function was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// That it is done.
    Done,
    /// That it is not done.
    Refused {
        /// Whether for good.
        for_good: bool,
    },
    /// Nothing, or not before it was dead.
    Nothing,
}

/// A fact of a letter's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It lies in a queue now.
    Queued {
        /// The queue's name.
        queue: String,
        /// The retries behind it by its mark.
        spent: usize,
    },
    /// Handed over, for the so manieth time.
    Received {
        /// The receive count.
        count: u32,
    },
    /// Handed to a process that could not ask how often the queue that it is from lets a message be received: the process
    /// counts those receives as if they were here.
    Uncounted,
    /// Asked about (its subscription) without an answer: an attempt that failed.
    Unchecked {
        /// What the function was told.
        told: Told,
    },
    /// Sent.
    Sent {
        /// Where.
        place: Place,
        /// What came of it.
        effect: Effect,
        /// What the function was told.
        told: Told,
        /// What is wrong with what arrived.
        wrong: Option<String>,
        /// The retry's number by its mark, where it has one.
        spent: Option<usize>,
        /// The archive's reason.
        reason: Option<String>,
    },
    /// Hidden, or shown at once.
    Hidden {
        /// For so many seconds.
        seconds: i64,
        /// Whether it happened.
        done: bool,
        /// What the function was told.
        told: Told,
    },
    /// Deleted, as the function's answer allowed.
    Deleted,
    /// The delete failed.
    NotDeleted,
    /// The answer keeps it.
    Kept,
}

/// A fact with its place in time.
#[derive(Debug, Clone)]
pub struct Fact {
    /// Its place in the order of all facts.
    pub order: usize,
    /// Milliseconds since the beginning.
    pub at: u64,
    /// The message.
    pub message: Message,
    /// The invocation.
    pub run: Option<Run>,
    /// What happened.
    pub what: What,
}

/// How an invocation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is still under way.
    Open,
    /// Its answer was heard, and followed.
    Heard,
    /// It answered, but nobody heard.
    Unheard,
    /// The process was killed.
    Killed,
    /// It did not answer in time.
    TimedOut,
    /// It answered with an error, or with nonsense.
    Failed,
}

/// Why a letter that had arrived could not be deleted, as far as the function and Lambda could see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Its process was killed.
    Killed,
    /// The call that took it was not answered.
    Unanswered,
    /// The call that took it was answered with an error.
    Refused,
    /// The answer to that call came when the function waited for it no more.
    Late,
    /// The invocation did not end in time.
    TimedOut,
    /// The invocation ended with an error, or not at all.
    Failed,
    /// Nobody heard the function's answer.
    Unheard,
    /// Lambda could not delete it.
    NotDeleted,
}

impl Fact {
    /// Whether the letter is safe elsewhere from here on.
    fn is_safe(&self) -> bool {
        matches!(self.what, What::Sent { effect: Effect::Taken | Effect::Swallowed, .. })
    }

    /// Whether the function knows that it is.
    fn is_known_safe(&self) -> bool {
        self.is_safe() && matches!(self.what, What::Sent { told: Told::Done, .. })
    }
}

impl Cause {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Killed => "the process was killed",
            Self::Unanswered => "a call took it and was not answered",
            Self::Refused => "a call took it and was answered with an error",
            Self::Late => "a call took it and was answered too late",
            Self::TimedOut => "the invocation timed out",
            Self::Failed => "the invocation failed",
            Self::Unheard => "the function's answer was not heard",
            Self::NotDeleted => "the delete failed",
        }
    }
}

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

/// A broken rule.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The rule, in words.
    pub what: String,
    /// The letter.
    pub who: Option<Who>,
    /// Everything that happened to it.
    pub history: String,
}

/// What became of all letters.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Letters.
    pub letters: usize,
    /// Letters that were delivered.
    pub delivered: usize,
    /// Letters that were archived, and not delivered.
    pub archived: usize,
    /// Letters that are neither, and still in a queue.
    pub queued: usize,
    /// Letters that are nowhere.
    pub lost: usize,
    /// Letters that came out of the requeue at least once.
    pub moved: usize,
    /// Times that a message left once more.
    pub duplicates: usize,
    /// Of these, those that nothing explains.
    pub unexplained: usize,
    /// The others, by what explains them.
    pub causes: BTreeMap<Cause, usize>,
    /// Repetitions that FIFO places swallowed.
    pub swallowed: usize,
    /// Letters that overtook another of their group.
    pub disorders: usize,
    /// Everything that was wrong.
    pub violations: Vec<Violation>,
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
    /// A letter; its number is the answer.
    pub fn letter(&mut self, plan: Plan) -> Who {
        self.plans.push(plan);
        self.facts.push(Vec::new());
        self.plans.len() - 1
    }

    /// An invocation begins; deliveries may be cut off after so many milliseconds.
    pub fn begin(&mut self, deliver_for: u64) -> Run {
        let began = self.now();
        let last_delivery = began + deliver_for;
        self.runs.push(Invocation { began, last_delivery, ending: Ending::Open, why: None });
        self.runs.len() - 1
    }

    /// An invocation has ended.
    pub fn end(&mut self, run: Run, ending: Ending, why: Option<String>) {
        self.runs[run].ending = ending;
        self.runs[run].why = why;
    }

    /// How an invocation has ended.
    #[must_use]
    pub fn ending(&self, run: Run) -> Ending {
        self.runs[run].ending
    }

    /// Writes a fact down.
    pub fn fact(&mut self, who: Who, message: Message, run: Option<Run>, what: What) {
        self.order += 1;
        let fact = Fact { order: self.order, at: self.now(), message, run, what };
        self.facts[who].push(fact);
    }

    /// Something arrived somewhere that is no letter of this invocation.
    pub fn stranger(&mut self, what: String) {
        self.strangers.push(what);
    }

    /// The facts of a letter.
    #[must_use]
    pub fn facts(&self, who: Who) -> &[Fact] {
        &self.facts[who]
    }

    /// Invocations so far.
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

    fn judge_one(&self, who: Who, queued: &BTreeSet<Message>, verdict: &mut Verdict) {
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

    /// One message of a letter: how it left its queue.
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

    /// Why the letter could not be deleted after this effect, if it could not. Of several causes it is the one
    /// that came first; a kill is why its calls were not answered.
    fn cause(&self, effect: &Fact, facts: &[&Fact]) -> Option<Cause> {
        let What::Sent { told, .. } = &effect.what else { return None };
        let run = effect.run?;
        let invocation = &self.runs[run];
        let not_deleted =
            || facts.iter().any(|fact| fact.run == Some(run) && matches!(fact.what, What::NotDeleted));
        match (told, invocation.ending) {
            (_, Ending::Killed) => Some(Cause::Killed),
            (Told::Nothing, _) => Some(Cause::Unanswered),
            (Told::Refused { .. }, _) => Some(Cause::Refused),
            (Told::Done, _) if effect.at >= invocation.last_delivery => Some(Cause::Late),
            (Told::Done, Ending::TimedOut) => Some(Cause::TimedOut),
            (Told::Done, Ending::Failed | Ending::Open) => Some(Cause::Failed),
            (Told::Done, Ending::Unheard) => Some(Cause::Unheard),
            (Told::Done, Ending::Heard) => not_deleted().then_some(Cause::NotDeleted),
        }
    }

    /// Each invocation is one attempt at most. One more than the schedule has is allowed for each receive
    /// after which the letter could not be hidden, archived or deleted as the function wanted.
    fn judge_attempts(&self, who: Who, message: Message, facts: &[&Fact], faults: &mut Vec<String>) {
        let mut attempts = BTreeSet::new();
        let mut excused = BTreeSet::new();
        for fact in facts {
            let Some(run) = fact.run else { continue };
            match &fact.what {
                What::Sent { place: Place::Target, .. } => {
                    attempts.insert(run);
                }
                What::Sent { told, .. } | What::Hidden { told, .. } if *told != Told::Done => {
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

    /// The retries that a message may have behind it at a fact: those by its mark, and one for each receive that made
    /// an attempt, or that could make none: its invocation ended badly, it was held behind another of its group, or it
    /// was not begun in time.
    fn may_have_spent(&self, who: Who, at: &Fact) -> usize {
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
        // A letter that was not begun in time is kept as it is.
        let untouched = |run: Run| {
            let touched = |what: &What| matches!(what, What::Hidden { .. } | What::Sent { .. });
            !facts.iter().any(|fact| fact.run == Some(run) && touched(&fact.what))
        };
        let excused = |run: Run, received: &Fact| {
            let badly = !matches!(self.runs[run].ending, Ending::Heard | Ending::Open);
            let kept = facts.iter().any(|fact| fact.run == Some(run) && fact.what == What::Kept);
            badly || (kept && untouched(run)) || self.is_behind(who, received)
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

    /// Whether a letter was handed over behind another of its FIFO group.
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

    /// Whether the archive had a reason to take it.
    fn judge_archive(&self, who: Who, delivered: bool, faults: &mut Vec<String>) {
        let facts = &self.facts[who];
        if let End::Archived(reason) = self.plans[who].end
            && delivered
        {
            faults.push(format!("delivered, though it is one for the archive ({reason})"));
        }
        let refused = |fact: &Fact, good: bool| match &fact.what {
            What::Sent { place: Place::Target, told, .. } | What::Unchecked { told } => match told {
                Told::Refused { for_good } => !good || *for_good,
                Told::Nothing => !good,
                Told::Done => !good && fact.run.is_some_and(|run| fact.at >= self.runs[run].last_delivery),
            },
            _ => false,
        };
        let arrived = facts.first().map_or(0, |fact| fact.at);
        for fact in facts {
            let What::Sent { place: Place::Archive, effect: Effect::Taken, reason, wrong: None, .. } =
                &fact.what
            else {
                continue;
            };
            // An archive queue gets the letter alone where it has refused letter and record for good.
            let with_record = || {
                facts.iter().rev().filter(|it| it.order < fact.order && it.run == fact.run).find_map(|it| {
                    match &it.what {
                        What::Sent {
                            place: Place::Archive,
                            told: Told::Refused { for_good: true },
                            reason,
                            ..
                        } => reason.as_ref(),
                        _ => None,
                    }
                })
            };
            let Some(reason) = reason.as_ref().or_else(with_record) else {
                faults.push("archived without a record".to_owned());
                continue;
            };
            let before = |good: bool| facts.iter().any(|it| it.order < fact.order && refused(it, good));
            // A subscription that SNS calls impossible is as good as none.
            let unknown = || {
                let what = What::Unchecked { told: Told::Refused { for_good: true } };
                facts.iter().any(|it| it.order < fact.order && it.what == what)
            };
            if reason == "exhausted" {
                let (spent, retries) = (self.may_have_spent(who, fact), self.plans[who].retries);
                if spent < retries {
                    faults.push(format!("exhausted after {spent} of {retries} retries"));
                }
            }
            let allowed = match reason.as_str() {
                "exhausted" => before(false) && fact.at + A_SECOND >= arrived + self.plans[who].last_due,
                "permanent" => before(true),
                "refused" if unknown() => true,
                other => matches!(self.plans[who].end, End::Archived(reason) if reason == other),
            };
            if !allowed {
                faults.push(format!("archived as {reason} without a reason"));
            }
        }
    }

    /// A mark counts no retries that were not made.
    fn judge_marks(&self, who: Who, faults: &mut Vec<String>) {
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
                let most = self.may_have_spent(who, moved);
                if *spent > most {
                    faults.push(format!(
                        "moved with {spent} retries behind it, of which {most} can have been made"
                    ));
                }
            }
        }
    }

    /// Within a queue no letter of a group is attempted or archived while an earlier one of the group lies there, which
    /// was neither delivered nor archived nor moved. Wherever each of them ends, their order is that of the group.
    fn judge_order(&self, verdict: &mut Verdict) {
        // The messages of a group in a queue, in its order: when each was safe first, and where its facts are.
        let mut groups: BTreeMap<(&str, &str), Vec<_>> = BTreeMap::new();
        for (who, plan) in self.plans.iter().enumerate() {
            let Some(group) = plan.group.as_ref().filter(|_| plan.ordered) else { continue };
            for fact in &self.facts[who] {
                if let What::Queued { queue, .. } = &fact.what {
                    groups.entry((queue, group)).or_default().push((fact.order, who, fact.message));
                }
            }
        }
        for ((queue, group), mut messages) in groups {
            messages.sort_unstable();
            // The earlier message that was the last to be safe.
            let mut ahead: Option<(usize, Who)> = None;
            for (_, who, message) in messages {
                let facts = || self.facts[who].iter().filter(|fact| fact.message == message);
                let acted = facts().find(|fact| match &fact.what {
                    What::Sent { place, effect, .. } => *place == Place::Target || *effect == Effect::Taken,
                    _ => false,
                });
                if let (Some((safe, next)), Some(acted)) = (ahead, acted)
                    && acted.order < safe
                {
                    verdict.disorders += 1;
                    let what =
                        format!("letter {who} of group {group} has overtaken letter {next} in {queue}");
                    let history = [self.history(next), self.history(who)].concat();
                    verdict.violations.push(Violation { what, who: Some(who), history });
                }
                let safe = facts().find(|fact| fact.is_safe()).map_or(usize::MAX, |fact| fact.order);
                if ahead.is_none_or(|(last, _)| safe > last) {
                    ahead = Some((safe, who));
                }
            }
        }
    }

    /// Everything that happened to a letter.
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

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VIOLATION: {}\n{}", self.what, self.history)
    }
}

impl Verdict {
    /// Whether every promise was kept.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    /// Counts of two worlds together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.letters += other.letters;
        self.delivered += other.delivered;
        self.archived += other.archived;
        self.queued += other.queued;
        self.lost += other.lost;
        self.moved += other.moved;
        self.duplicates += other.duplicates;
        self.unexplained += other.unexplained;
        for (cause, count) in other.causes {
            *self.causes.entry(cause).or_default() += count;
        }
        self.swallowed += other.swallowed;
        self.disorders += other.disorders;
        self.violations.extend(other.violations);
        self
    }
}

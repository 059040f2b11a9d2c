//! The lives of letters: the facts of the crate of laws, in a random world.

use std::collections::BTreeSet;
use std::ops::Deref;

use redrive_laws::letters::{
    FaultSubject, JudgedLetter, Ledger, LetterNumber, LetterReader, LifeEvent, MessageNumber, Plan,
    RequiredOrder, RunEnd, RunId, SentPlace, TimedFact,
};
use redrive_sim::{SimEvent, SimMillis, SimRecord};

use crate::live::{LiveRun, SeededStory};
use crate::scene::Scene;
use crate::world::SeededWorld;

/// A letter: a published message that did not reach one subscription.
pub struct Life<'s> {
    pub world: &'s SeededWorld,
    pub story: &'s SeededStory,
    pub letter: usize,
    pub subscriber: usize,
    of: JudgedLetter<'s>,
}

impl<'s> Deref for Life<'s> {
    type Target = JudgedLetter<'s>;

    fn deref(&self) -> &JudgedLetter<'s> {
        &self.of
    }
}

/// An attempt: the calls of a run to the endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub order: usize,
    pub at: SimMillis,
    pub last: SimMillis,
    pub run: RunId,
}

/// A step of a run. Where one ends and another begins, the end comes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum RunBoundary {
    End,
    Begin,
    EndAtOnce,
}

/// Reads the journal of a story.
pub fn read(world: &SeededWorld, story: &SeededStory) -> Ledger {
    let mut reader = LetterReader::new(Scene::new(world));
    for who in 0..world.letters.len() * world.subscribers.len() {
        reader.ledger.letter(plan(world, who));
    }
    let mut steps: Vec<(usize, RunBoundary, RunId)> = Vec::new();
    for (run, LiveRun { from, to, .. }) in story.runs.iter().enumerate() {
        steps.extend([
            (*from, RunBoundary::Begin, run),
            (*to, if from == to { RunBoundary::EndAtOnce } else { RunBoundary::End }, run),
        ]);
    }
    steps.sort_unstable();
    let mut done = 0;
    for (index, (at, step, number)) in steps.iter().enumerate() {
        if *at > done {
            reader.read(&story.journal[done..*at]);
            done = *at;
        }
        let run = &story.runs[*number];
        if *step == RunBoundary::Begin {
            let batch = run.batch.iter().map(|(id, handle)| (id, handle));
            // An answer comes at once or not at all, so none comes after the function has stopped waiting.
            reader.begin(run.began, &run.caller, batch, SimMillis::MAX / 2);
        } else {
            let ending = if run.kept.is_some() { RunEnd::Heard } else { RunEnd::Killed };
            reader.end(run.ended, *number, ending);
            let next = steps.get(index + 1).map_or(usize::MAX, |(next, ..)| *next);
            let until = next.clamp(*at, story.journal.len());
            let after = story.journal[*at..until].iter().take_while(|record| is_settling(record)).count();
            reader.read(&story.journal[*at..at + after]);
            done = at + after;
            reader.settled(*number, run.batch.iter().map(|(id, _)| id));
        }
    }
    reader.read(&story.journal[done..]);
    reader.ledger
}

/// Reports whether an event right after the end of a run is a part of what Lambda does then.
fn is_settling(record: &SimRecord) -> bool {
    let is_one = match &record.event {
        SimEvent::BatchEnded { failed, .. } => failed.as_deref() != Some("throttled"),
        SimEvent::Deleted { .. } | SimEvent::Stale { .. } | SimEvent::Duplicated { .. } => true,
        SimEvent::Faulty { call, .. } => call.operation == "DeleteMessageBatch",
        _ => false,
    };
    is_one && &*record.by == "mapping"
}

fn plan(world: &SeededWorld, who: LetterNumber) -> Plan {
    let (letter, subscriber) = (who / world.subscribers.len(), who % world.subscribers.len());
    let order = if world.steps_aside { RequiredOrder::OfTheRequeue } else { RequiredOrder::Strict };
    Plan {
        group: world.fifo.then(|| format!("{} of {subscriber}", world.letters[letter].group)),
        order,
        retries: usize::try_from(world.schedule.retries).unwrap(),
        kind: format!("letter {letter} of subscriber {subscriber}"),
        ..Plan::default()
    }
}

impl<'s> Life<'s> {
    pub fn new(world: &'s SeededWorld, story: &'s SeededStory, of: JudgedLetter<'s>) -> Self {
        let (letter, subscriber) = (of.who / world.subscribers.len(), of.who % world.subscribers.len());
        Self { world, story, letter, subscriber, of }
    }

    pub fn attempts(&self) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        for fact in self.facts {
            let (LifeEvent::Called, Some(run)) = (&fact.what, fact.run) else { continue };
            match attempts.iter_mut().find(|attempt| attempt.run == run) {
                Some(attempt) => attempt.last = fact.at,
                None => attempts.push(Attempt { order: fact.order, at: fact.at, last: fact.at, run }),
            }
        }
        attempts
    }

    /// Reports whether every target refuses its content.
    pub fn is_bad(&self) -> bool {
        self.world.bad.contains(&self.letter)
    }

    /// Reports whether the archive refuses its content as well, or that of a letter before it in its FIFO group, which
    /// it must not overtake.
    pub fn is_refused_everywhere(&self) -> bool {
        let (bad, letters) = (&self.world.bad, &self.world.letters);
        let holds = |other: &usize| {
            self.world.fifo && *other < self.letter && letters[*other].group == letters[self.letter].group
        };
        self.world.archive_refuses() && (self.is_bad() || bad.iter().any(holds))
    }

    /// Reports whether no letter of its FIFO group came before it. Without groups every letter is the first.
    pub fn is_first_of_group(&self) -> bool {
        let letters = &self.world.letters;
        let group = |letter: usize| letters[letter].group;
        !self.world.fifo || (0..self.letter).all(|other| group(other) != group(self.letter))
    }

    /// Returns the number of faults of these kinds that concerned it.
    pub fn disturbed(&self, by: &[FaultSubject]) -> usize {
        let all = self.facts.iter().chain(self.ledger.everywhere());
        all.filter(|fact| matches!(&fact.what, LifeEvent::Disturbed(what) if by.contains(what))).count()
    }

    /// Returns the number of runs that had it and died.
    pub fn deaths(&self) -> usize {
        let has_died =
            |fact: &&TimedFact| fact.run.is_some_and(|run| self.ledger.runs()[run].ending != RunEnd::Heard);
        self.facts.iter().filter(|fact| fact.what == LifeEvent::Handed).filter(has_died).count()
    }

    /// Reports whether nothing went wrong that concerned it.
    pub fn is_calm(&self) -> bool {
        let is_bad = |what: &LifeEvent| matches!(what, LifeEvent::Disturbed(_) | LifeEvent::Throttled);
        self.count(is_bad) == 0 && self.ledger.everywhere().is_empty() && self.deaths() == 0
    }

    /// Returns the number of copies that its queue made, and of times that an operator woke it.
    pub fn copies(&self) -> usize {
        self.count(|what| matches!(what, LifeEvent::Duplicated | LifeEvent::Woken))
    }

    /// Returns the number of times that it was hidden for eight to ten minutes only, to find out whether its endpoint is back.
    pub fn scouts(&self) -> usize {
        let is_scout = |what: &LifeEvent| matches!(what, LifeEvent::Hidden { seconds, .. } if (470..=600).contains(seconds));
        self.count(is_scout)
    }

    /// Returns the number of times that the function or an operator made it visible.
    pub fn woken(&self) -> usize {
        self.count(|what| *what == LifeEvent::Woken)
    }

    /// Returns the first fact after which the letter is safe: its endpoint or the archive has it.
    pub fn end(&self) -> Option<&TimedFact> {
        self.facts.iter().find(|fact| fact.what.is_delivery() || fact.what.is_taken_by(SentPlace::Archive))
    }

    /// Reports whether the function asked to hide it after another copy of it had been deleted.
    pub fn is_hidden_in_vain(&self) -> bool {
        self.facts.iter().enumerate().any(|(index, fact)| {
            let is_gone = |it: &TimedFact| it.message == fact.message && it.what == LifeEvent::Deleted;
            matches!(fact.what, LifeEvent::Hidden { done: false, .. })
                && self.facts[..index].iter().any(is_gone)
        })
    }

    /// Reports whether an operator woke it while a run had it.
    pub fn is_woken_in_a_run(&self) -> bool {
        self.facts.iter().filter(|fact| fact.what == LifeEvent::Woken).any(|fact| {
            fact.message.is_some_and(|message| self.runs_of(message).any(|run| self.is_of(run, fact.order)))
        })
    }

    /// Reports whether a fact is of the time of a run.
    pub fn is_of(&self, run: RunId, order: usize) -> bool {
        let run = &self.ledger.runs()[run];
        (run.from..run.to).contains(&order)
    }

    /// Returns the messages that carried it, with their queues.
    pub fn carried(&self) -> Vec<(&'s TimedFact, MessageNumber, &'s str)> {
        let mut messages = Vec::new();
        for fact in self.of.facts {
            if let (LifeEvent::Queued { queue, .. }, Some(message)) = (&fact.what, fact.message) {
                messages.push((fact, message, queue.as_str()));
            }
        }
        messages
    }

    /// Returns how many instances of the function have received it, at least one.
    pub fn instances(&self) -> usize {
        let runs =
            self.facts.iter().filter(|fact| fact.what == LifeEvent::Handed).filter_map(|fact| fact.run);
        runs.map(|run| &self.ledger.runs()[run].caller).collect::<BTreeSet<_>>().len().max(1)
    }

    /// Returns a broken law in words, with the letter's whole life.
    pub fn broken(&self, what: &str) -> Result<(), String> {
        let began = self.facts.first().map_or(0, |fact| fact.at) - self.story.start;
        Err(format!("{what}\nbegan at {began} ms: {}", self.ledger.history(self.who)))
    }
}

//! What happened to the letters of a replay, and whether it was right.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::SELECTED;
use crate::loss::ledger::{Run as Invocation, Who};

/// A bucket's objects by key.
pub type Objects = BTreeMap<String, String>;

/// What happened to the letters of a replay.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// The letters by their messages' ids in the archive.
    ids: BTreeMap<String, Who>,
    arrivals: Vec<Arrival>,
    /// Invocations that were killed.
    killed: BTreeSet<Invocation>,
    /// Those that could not write a ledger.
    unwritten: BTreeSet<Invocation>,
    violations: Vec<String>,
}

/// A letter came to the requeue.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    who: Who,
    run: Invocation,
    /// Whether the function was told so.
    heard: bool,
}

/// What became of the letters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Selected letters that are in the requeue.
    pub arrived: usize,
    /// Selected letters that are not.
    pub lost: usize,
    /// Arrivals after a letter's first, each of which has its cause.
    pub duplicates: usize,
    /// Promises that were broken.
    pub violations: Vec<String>,
}

impl Books {
    /// Returns books about letters whose messages have these ids.
    #[must_use]
    pub fn new(ids: BTreeMap<String, Who>) -> Self {
        Self { ids, ..Self::default() }
    }

    /// Notes that a letter came to the requeue; `objects` is the bucket at this time.
    pub fn arrived(&mut self, who: Who, run: Invocation, heard: bool, objects: &Objects) {
        if who >= SELECTED {
            self.broken(format!("letter {who} was not selected"));
        } else if self.recorded(objects).contains(&who) {
            self.broken(format!("letter {who} is sent again, and a ledger says that it was sent"));
        }
        self.arrivals.push(Arrival { who, run, heard });
    }

    /// Notes that an invocation was killed.
    pub fn killed(&mut self, run: Invocation) {
        self.killed.insert(run);
    }

    /// Notes that a ledger was not written, or the function was not told that it was.
    pub fn unwritten(&mut self, run: Invocation) {
        self.unwritten.insert(run);
    }

    /// Notes that a promise was broken.
    pub fn broken(&mut self, what: String) {
        self.violations.push(what);
    }

    /// Judges what became of the letters, when the function has called the replay done.
    #[must_use]
    pub fn judge(&self, objects: &Objects) -> Verdict {
        let mut verdict = Verdict { violations: self.violations.clone(), ..Verdict::default() };
        let recorded = self.recorded(objects);
        for who in 0..SELECTED {
            let mut arrivals = self.arrivals.iter().filter(|it| it.who == who).rev();
            // The last arrival is the one that counts; each before it must have a cause for another.
            if arrivals.next().is_none() {
                verdict.lost += 1;
                verdict.violations.push(format!("letter {who} is lost"));
                continue;
            }
            verdict.arrived += 1;
            for Arrival { run, heard, .. } in arrivals {
                verdict.duplicates += 1;
                if *heard && !self.killed.contains(run) && !self.unwritten.contains(run) {
                    verdict.violations.push(format!("letter {who} is sent again without a cause"));
                }
            }
            if !recorded.contains(&who) {
                verdict.violations.push(format!("no ledger says that letter {who} was sent"));
            }
        }
        for (key, text) in objects.iter().filter(|(key, _)| key.contains("manifest.json")) {
            let manifest: Value = serde_json::from_str(text).unwrap_or_default();
            if manifest["status"] != "done" {
                verdict.violations.push(format!("{key} ends as {}", manifest["status"]));
            }
        }
        verdict
    }

    /// Returns the letters that ledgers call sent.
    pub(super) fn recorded(&self, objects: &Objects) -> BTreeSet<Who> {
        let ledgers = objects.iter().filter(|(key, _)| key.contains("/batches/"));
        let lines = ledgers.flat_map(|(_, text)| text.lines()).map(serde_json::from_str::<Value>);
        let sent = lines.flatten().filter(|line| line["state"] == "sent");
        sent.filter_map(|line| self.ids.get(line["messageId"].as_str()?).copied()).collect()
    }
}

//! The record of a replay's letters, and its judgement.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_sim::{SimMillis, arn};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::ramp::RampCourse;
use crate::letters::{LetterNumber, RunId as Invocation};

/// The queue that was replayed before. It is the first in a plan, so the first step would be one of its letters.
pub const BEFORE: &str = "backpayments-dlq";

/// A bucket's objects by key.
pub type BucketObjects = BTreeMap<String, String>;

/// The record of a replay's letters.
#[derive(Debug, Clone, Default)]
pub struct ReplayBooks {
    /// The letters by their identities in ledgers.
    ids: BTreeMap<String, LetterNumber>,
    /// The number of letters that are selected: those before this one.
    selected: LetterNumber,
    /// The group of each letter whose order counts, and the last letter of each group that came.
    groups: BTreeMap<LetterNumber, String>,
    last: BTreeMap<String, LetterNumber>,
    arrivals: Vec<RequeueArrival>,
    /// The letters that were deleted from the archive.
    deleted: BTreeSet<LetterNumber>,
    /// The invocations that were killed.
    killed: BTreeSet<Invocation>,
    /// The invocations that could not write a ledger.
    unwritten: BTreeSet<Invocation>,
    ramp: RampCourse,
    violations: Vec<String>,
}

/// An arrival of a letter at the requeue.
#[derive(Debug, Clone, Copy)]
struct RequeueArrival {
    who: LetterNumber,
    run: Invocation,
    /// `true` if the function was told so.
    heard: bool,
}

/// The verdict on the letters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReplayVerdict {
    /// The selected letters that are in the requeue.
    pub arrived: usize,
    /// The selected letters that are not.
    pub lost: usize,
    /// The selected letters that were deleted before they were sent.
    pub gone: usize,
    /// The arrivals after a letter's first, each of which needs a cause.
    pub duplicates: usize,
    /// The broken promises.
    pub violations: Vec<String>,
}

impl ReplayBooks {
    /// Creates the record of letters with these identities; those before `selected` are selected.
    #[must_use]
    pub fn new(ids: BTreeMap<String, LetterNumber>, selected: LetterNumber) -> Self {
        Self { ids, selected, ..Self::default() }
    }

    /// Requires that the letters of a group come in the order of their numbers.
    #[must_use]
    pub fn in_order(self, groups: BTreeMap<LetterNumber, String>) -> Self {
        Self { groups, ..self }
    }

    /// Records that a letter came to the requeue; `objects` is the bucket at this time.
    pub fn arrived(
        &mut self,
        who: LetterNumber,
        run: Invocation,
        heard: bool,
        at: SimMillis,
        objects: &BucketObjects,
    ) {
        if let Some(wrong) = latest(objects).and_then(|state| self.ramp.arrived(who, at, &state)) {
            self.broken(wrong);
        }
        self.keep_order(who);
        if who >= self.selected {
            self.broken(format!("letter {who} was not selected"));
        } else if self.recorded(objects).contains(&who) {
            self.broken(format!("letter {who} is sent again, and a ledger says that it was sent"));
        }
        self.arrivals.push(RequeueArrival { who, run, heard });
    }

    /// Checks that a letter comes in the order of its group. Only its first arrival counts.
    fn keep_order(&mut self, who: LetterNumber) {
        let Some(group) = self.groups.get(&who) else { return };
        if self.arrivals.iter().any(|arrival| arrival.who == who) {
            return;
        }
        let before = self.last.insert(group.clone(), who);
        if let Some(before) = before.filter(|before| *before > who) {
            self.violations.push(format!("letter {who} of {group} comes after letter {before}"));
        }
    }

    /// Records that a process was told how many letters wait in the requeue.
    pub fn looked(&mut self, at: SimMillis) {
        self.ramp.looked(at);
    }

    /// Records that the state of a replay was written in the place of the previous state.
    pub fn kept(&mut self, before: &str, after: &str, at: SimMillis) {
        let read = |text| serde_json::from_str::<Value>(text).unwrap_or_default();
        let after = read(after);
        if number(&after["cameBack"]) > 0 {
            self.broken(format!("no letter is given up, and {} are said to come back", after["cameBack"]));
        }
        if let Some(wrong) = self.ramp.kept(&read(before), &after, at) {
            self.broken(wrong);
        }
    }

    /// Records that an object of the archive was deleted, by its text.
    pub fn deleted(&mut self, object: &str) {
        for record in object.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let queue = text(&record["queueArn"]);
            let name = queue.rsplit(':').next().unwrap_or_default();
            self.deleted.extend(self.ids.get(&identity(name, &text(&record["message"]["messageId"]))));
        }
    }

    /// Records that an invocation was killed.
    pub fn killed(&mut self, run: Invocation) {
        self.killed.insert(run);
    }

    /// Records that a ledger was not written, or that the function was not told of it.
    pub fn unwritten(&mut self, run: Invocation) {
        self.unwritten.insert(run);
    }

    /// Records that a promise was broken.
    pub fn broken(&mut self, what: String) {
        self.violations.push(what);
    }

    /// Judges the letters, once the function has called the replay done.
    #[must_use]
    pub fn judge(&self, objects: &BucketObjects) -> ReplayVerdict {
        let mut verdict = ReplayVerdict { violations: self.violations.clone(), ..ReplayVerdict::default() };
        let recorded = self.recorded(objects);
        let mut to_count = 0;
        for who in 0..self.selected {
            let arrivals: Vec<_> = self.arrivals.iter().filter(|it| it.who == who).collect();
            if arrivals.is_empty() && self.deleted.contains(&who) {
                verdict.gone += 1;
                continue;
            }
            if arrivals.is_empty() {
                verdict.lost += 1;
                verdict.violations.push(format!("letter {who} is lost"));
                continue;
            }
            verdict.arrived += 1;
            // The last arrival is the one that counts; each before it needs a cause why another followed.
            for two in arrivals.windows(2) {
                let RequeueArrival { run, heard, .. } = two[0];
                verdict.duplicates += 1;
                to_count += 1;
                if *heard && !self.killed.contains(run) && !self.unwritten.contains(run) {
                    verdict.violations.push(format!("letter {who} is sent again without a cause"));
                }
            }
            // What was deleted while it was in doubt stays so.
            if !recorded.contains(&who) && !self.deleted.contains(&who) {
                verdict.violations.push(format!("no ledger says that letter {who} was sent"));
            }
        }
        let (mut sent, mut repeated) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
        for (key, ledger) in ledgers(objects) {
            if !ledger["claim"].is_null() {
                verdict.violations.push(format!("{key} is still claimed"));
            }
            for entry in entries(&ledger) {
                let is_deleted = |id: &String| self.ids.get(id).is_some_and(|who| self.deleted.contains(who));
                if !letters(entry, "sending").iter().all(is_deleted) {
                    verdict.violations.push(format!("{key} has letters in doubt"));
                }
                let replay = entry["replay"].as_str().unwrap_or_default();
                *sent.entry(replay.to_owned()).or_default() += letters(entry, "sent").len() as u64;
                *repeated.entry(replay.to_owned()).or_default() += number(&entry["repeated"]);
            }
        }
        let counted = repeated.values().sum::<u64>();
        if counted < to_count {
            verdict.violations.push(format!("{to_count} letters are sent again, and {counted} are counted"));
        }
        let (mut gone, mut refused) = (0, 0);
        for (key, text) in objects.iter().filter(|(key, _)| key.ends_with("/replay.json")) {
            let state: Value = serde_json::from_str(text).unwrap_or_default();
            gone += number(&state["counts"]["gone"]);
            refused += number(&state["counts"]["refused"]);
            if state["status"] != "done" {
                verdict.violations.push(format!("{key} ends as {}", state["status"]));
            }
            let id = state["id"].as_str().unwrap_or_default();
            for (count, of_ledgers) in [("sent", &sent), ("repeated", &repeated)] {
                let (told, noted) =
                    (number(&state["counts"][count]), of_ledgers.get(id).copied().unwrap_or_default());
                if told != noted {
                    verdict.violations.push(format!("{key} tells {told} {count}, its ledgers {noted}"));
                }
            }
        }
        // One that was refused before is told as that.
        if gone + refused < verdict.gone as u64 || (gone > 0 && self.deleted.is_empty()) {
            let deleted = verdict.gone;
            verdict
                .violations
                .push(format!("{deleted} letters were deleted unsent, and {gone} are told to be gone"));
        }
        verdict
    }

    /// Judges a replay that must stop after its first step, since nobody takes the letters of the requeue; returns the
    /// number of letters that came, and the broken promises.
    #[must_use]
    pub fn judge_stopped(&self, objects: &BucketObjects) -> (usize, Vec<String>) {
        let came = self.arrivals.iter().map(|arrival| arrival.who).collect::<BTreeSet<_>>().len();
        let replay = latest(objects).unwrap_or_default();
        let selected = usize::try_from(number(&replay["letters"])).unwrap_or_default();
        let step = (selected * 20).div_ceil(100);
        // That it did not come to its end is what is wanted. The rest of its promises hold all the same.
        let mut violations = self.judge(objects).violations;
        violations.retain(|it| !it.ends_with("is lost") && !it.contains(" ends as "));
        if replay["status"] != "stopped" {
            violations.push(format!("it ends as {}", replay["status"]));
        }
        if came != step {
            violations.push(format!("{came} letters came, and the first step has {step}"));
        }
        (came, violations)
    }

    /// Returns the letters that ledgers call sent.
    #[must_use]
    pub fn recorded(&self, objects: &BucketObjects) -> BTreeSet<LetterNumber> {
        let sent = ledgers(objects).flat_map(|(_, ledger)| {
            entries(&ledger).iter().flat_map(|entry| letters(entry, "sent")).collect::<Vec<_>>()
        });
        sent.filter_map(|identity| self.ids.get(&identity).copied()).collect()
    }
}

/// Returns the identity of a letter in ledgers: a digest of its queue's ARN and its message's id.
#[must_use]
pub fn identity(queue: &str, message: &str) -> String {
    let hash =
        Sha256::new().chain_update(arn("sqs", queue)).chain_update([0]).chain_update(message).finalize();
    URL_SAFE_NO_PAD.encode(&hash[..16])
}

/// Returns the stored state of the latest replay, except the one that ran before the scenarios.
#[must_use]
pub fn latest(objects: &BucketObjects) -> Option<Value> {
    let states = objects.iter().filter(|(key, _)| key.ends_with("/replay.json"));
    let mut states = states.filter_map(|(_, text)| serde_json::from_str::<Value>(text).ok());
    // The keys are in the order of time.
    states.rfind(|state| state["request"]["select"]["queue"] != BEFORE)
}

/// Reports whether an object is the ledger of a unit.
pub(super) fn is_ledger(key: &str) -> bool {
    key.contains("/replays/queues/") && !key.ends_with("cuts.json")
}

fn ledgers(objects: &BucketObjects) -> impl Iterator<Item = (&String, Value)> {
    let ledgers = objects.iter().filter(|(key, _)| is_ledger(key));
    ledgers.map(|(key, text)| (key, serde_json::from_str(text).unwrap_or_default()))
}

fn entries(ledger: &Value) -> &[Value] {
    ledger["entries"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the identities of those letters of an entry that are in a state.
fn letters(entry: &Value, state: &str) -> Vec<String> {
    let all = entry[state].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|identity| identity.as_str().map(str::to_owned)).collect()
}

/// Returns a count; a missing one is 0.
fn number(count: &Value) -> u64 {
    count.as_u64().unwrap_or_default()
}

//! The fault matrix of a replay: every call of it, every fault.
//!
//! The function itself archives the letters, and replays some of them before, so that there are ledgers. A scenario
//! begins with a copy of that bucket and asks as an operator does: it begins a replay once, then goes on with what is
//! kept of it, until it is done and has left nothing out. Then it is seen what has arrived.

mod books;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};
use sim::lambda::{Mapping, MappingSettings, Outcome};

use self::books::identity;
pub use self::books::{Books, Objects, Verdict};
use self::world::{Injection, Site, World};
use super::faults::Fault;
use super::letters::{self, Kind, Letter};
use super::mapping::Process;
use super::matrix::by_fault;
use super::world::put;
use crate::Ended;

/// Longest time of a scenario. A claim that a killed process leaves behind holds for a minute.
const PATIENCE: Duration = Duration::from_secs(150);

/// An invocation's time, of which a replay keeps 20 s for stopping.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Between two invocations; the ids of replays begin with the second.
const PAUSE: Duration = Duration::from_secs(1);

/// Letters that were archived within the last five seconds are not selected.
const LAG: Duration = Duration::from_secs(6);

/// Violations that are told of a scenario.
const MOST_TOLD: usize = 3;

/// The letters by kind and queue. Those before [`SELECTED`] are to be sent; the raw ones are not selected, and those of
/// [`BEFORE`] are, but were sent by another replay.
const LETTERS: [(Kind, &str, usize); 6] = [
    (Kind::Queue, "invoices-dlq", 12),
    (Kind::Queue, "orders-dlq", 6),
    (Kind::Moved, "orders-dlq", 6),
    (Kind::Topic, "orders-dlq", 6),
    (Kind::Raw, "orders-dlq", 6),
    (Kind::Queue, BEFORE, 4),
];

/// The queue that was replayed before.
const BEFORE: &str = "returns-dlq";

/// The origins that are selected.
const ORIGINS: [&str; 2] = ["sns", "sqs"];

/// How many letters are to be sent.
pub const SELECTED: usize = 30;

/// Letters in an archive, with what is left of a replay of others.
#[derive(Debug, Clone)]
pub struct Archive {
    letters: Vec<Letter>,
    books: Books,
    objects: Objects,
}

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    site: Site,
    fault: Fault,
}

/// What came of a scenario.
#[derive(Debug)]
pub struct Run {
    scenario: Scenario,
    verdict: Verdict,
    faults: usize,
    invocations: usize,
    took: Duration,
}

/// The event that begins a replay of one queue or of all. It waits after its first step for long enough to look
/// whether somebody stops it.
fn begin(queue: Option<&str>) -> String {
    json!({ "replay": { "select": { "queue": queue, "origins": ORIGINS }, "rate": 10_000, "ramp": [20, 100],
        "threshold": 100, "settleSeconds": 3 } })
    .to_string()
}

/// The event that goes on with one.
fn resume(id: &str) -> String {
    json!({ "replay": { "resume": id } }).to_string()
}

/// The replay function, which is built beside the function.
fn replayer(binary: &Path) -> PathBuf {
    binary.with_file_name("sns-redrive-replay")
}

/// The policy of a replay.
fn policy() -> Value {
    letters::policy(false, &json!({ "numRetries": 3, "minDelayTarget": 1, "maxDelayTarget": 1 }))
}

impl Archive {
    /// Has the function archive the letters, and replay those of one queue.
    #[must_use]
    pub fn fill(binary: &Path, log: Option<&Path>) -> Self {
        let mut rng = Rng::with_seed(1);
        let (mut letters, mut queues) = (Vec::new(), Vec::new());
        for (kind, queue, count) in LETTERS {
            for _ in 0..count {
                letters.push(Letter::write(letters.len(), kind, None, false, &mut rng));
                queues.push(queue);
            }
        }
        let world = World::new(letters.clone(), Books::default(), Objects::new(), Vec::new());
        let ids = letters
            .iter()
            .zip(&queues)
            .map(|(letter, queue)| (identity(queue, &put(&world.aws, queue, letter)), letter.who));
        let ids: BTreeMap<_, _> = ids.collect();
        let mut process = world.process(binary, log, &json!({ "default": { "action": "archive" } }));
        world.begin(&process, 0);
        for queue in queues.iter().copied().collect::<BTreeSet<_>>() {
            let mapping = Mapping::new(&world.aws, MappingSettings::new(queue, "sns-redrive"));
            let archive = |event: &str| match process.sandbox.invoke(event.to_owned(), TIMEOUT) {
                Ended::Answer(text, _) if text.contains("[]") => Outcome::Answer(text),
                ended => panic!("the function does not archive: {ended:?}"),
            };
            let mut archive = archive;
            while mapping.step(|batch| archive(&batch.event)) {}
        }
        std::thread::sleep(LAG);
        let mut process = world.process(&replayer(binary), log, &policy());
        world.begin(&process, 1);
        let ended = process.sandbox.invoke(begin(Some(BEFORE)), TIMEOUT);
        let (books, objects) = (Books::new(ids), world.state().objects.clone());
        let sent = (0..letters.len()).filter(|who| queues[*who] == BEFORE).collect();
        assert_eq!(books.recorded(&objects), sent, "the function does not replay: {ended:?}");
        Self { letters, books, objects }
    }
}

/// Every cell that makes sense, those first that wait for a claim.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let cells = Site::ALL.into_iter().flat_map(|site| Fault::ALL.map(|fault| Scenario { site, fault }));
    let mut all: Vec<_> = cells.filter(|it| it.site.has(it.fault)).collect();
    all.sort_by_key(|it| match (it.site, it.fault) {
        (_, Fault::KillBefore | Fault::KillAfter) | (Site::LedgerBefore | Site::LedgerAfter, _) => 0,
        (_, Fault::Silent | Fault::Mute) => 1,
        _ => 2,
    });
    all
}

/// The matrix: duplicates.
#[must_use]
pub fn table(runs: &[Run]) -> String {
    let row = |site: Site| {
        Fault::ALL.map(|fault| {
            let run = runs.iter().find(|run| run.scenario == Scenario { site, fault });
            match run {
                None => "–".to_owned(),
                Some(run) if run.is_good() => run.verdict.duplicates.to_string(),
                Some(_) => "FAILED".to_owned(),
            }
        })
    };
    by_fault(Site::ALL.map(|site| (site.name(), row(site))))
}

impl Scenario {
    /// As it is told.
    #[must_use]
    pub fn name(&self) -> String {
        format!("replay: {} x {}", self.site.name(), self.fault.name())
    }

    /// Lives through it.
    #[must_use]
    pub fn run(&self, archive: &Archive, binary: &Path, log: Option<&Path>) -> Run {
        let began = Instant::now();
        let (letters, objects) = (archive.letters.clone(), archive.objects.clone());
        let world = World::new(letters, archive.books.clone(), objects, self.injections());
        let (mut process, mut run) = (None, 0);
        let done = loop {
            let event = match latest(&world.state().objects) {
                Some(kept) if kept["status"] != "done" => resume(kept["id"].as_str().unwrap_or_default()),
                Some(kept) if is_whole(&kept) => break true,
                // What was left out is asked for once more.
                _ => begin(None),
            };
            if began.elapsed() > PATIENCE {
                break false;
            }
            run += 1;
            let running: &mut Process =
                process.get_or_insert_with(|| world.process(&replayer(binary), log, &policy()));
            let fault = world.begin(running, run);
            if fault == Some(Fault::KillBefore) {
                let killer = running.sandbox.killer();
                std::thread::spawn(move || killer.kill());
            }
            let mut ended = running.sandbox.invoke(event, TIMEOUT);
            if fault == Some(Fault::KillAfter) {
                ended = Ended::Died;
            }
            let mut state = world.state();
            let troubled = world.is_troubled(run);
            match ended {
                Ended::Answer(text, _) => {
                    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
                    if latest(&state.objects).is_none_or(|kept| kept["status"] != answer["status"]) {
                        state.books.broken(format!("invocation {run} answers what is not kept: {answer}"));
                    }
                }
                Ended::Died | Ended::TimedOut => {
                    if !troubled {
                        state.books.broken(format!("invocation {run} dies without a fault"));
                    }
                    state.books.killed(run);
                    process = None;
                }
                Ended::Error(error) if !troubled => {
                    state.books.broken(format!("invocation {run} fails without a fault: {error}"));
                }
                Ended::Error(_) => {}
            }
            drop(state);
            std::thread::sleep(PAUSE);
        };
        drop(process);
        let state = world.state();
        let mut verdict = state.books.judge(&state.objects);
        let faults = world.made(self.site);
        if faults == 0 {
            verdict.violations.push("its fault was never made".to_owned());
        }
        if !done {
            verdict.violations.push("the replay does not end".to_owned());
        }
        Run { scenario: *self, verdict, faults, invocations: run, took: began.elapsed() }
    }

    /// The fault, and what must go wrong besides so that its call is made at all.
    fn injections(self) -> Vec<Injection> {
        let calls = match self.fault {
            Fault::Silent | Fault::Mute | Fault::KillBefore | Fault::KillAfter => 1,
            // The SDK does not try again, and each time a claim is left behind, which holds for a minute.
            Fault::Denied | Fault::Permanent if self.site == Site::LedgerAfter => 1,
            // All objects are read at once.
            _ if self.site == Site::Letters => 10,
            // The SDK tries three times.
            _ => 4,
        };
        // The first is read before anything is sent.
        let from = usize::from(self.site == Site::GetLedger);
        let mut all = vec![Injection { site: self.site, fault: self.fault, from, calls }];
        if matches!(self.site, Site::GetState | Site::GetUnits | Site::GetLedger) {
            // An invocation that ends after the first letters, so that the next one goes on.
            all.push(Injection { site: Site::State, fault: Fault::Denied, from: 2, calls: 1 });
        }
        all
    }
}

/// The latest replay that is kept, but for the one before.
fn latest(objects: &Objects) -> Option<Value> {
    let states = objects.iter().filter(|(key, _)| key.ends_with("/replay.json"));
    let mut states = states.filter_map(|(_, text)| serde_json::from_str::<Value>(text).ok());
    // The keys are in the order of time.
    states.rfind(|state| state["request"]["select"]["queue"] != BEFORE)
}

/// Whether nothing was left out that another replay could send.
fn is_whole(state: &Value) -> bool {
    let counts = &state["counts"];
    let none = |count: &Value| count.as_u64().unwrap_or_default() == 0;
    let all_replayable = counts["notReplayable"].as_object().is_none_or(|all| all.values().all(none));
    all_replayable && none(&counts["unreadable"]) && none(&counts["refused"])
}

impl Run {
    /// Whether every promise was kept, and the fault was made.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.violations.is_empty()
    }
}

/// A line that tells of a scenario, and all that is wrong with it.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { arrived, lost, duplicates, violations } = &self.verdict;
        let state = if self.is_good() { "ok" } else { "FAILED" };
        write!(
            f,
            "{:>6.1} s  {:<66} {state:<6} faults {:>2}, invocations {:>2}: arrived {arrived}, lost {lost}; \
             duplicates {duplicates}",
            self.took.as_secs_f64(),
            self.scenario.name(),
            self.faults,
            self.invocations,
        )?;
        violations.iter().take(MOST_TOLD).try_for_each(|it| write!(f, "\n{it}"))
    }
}

//! The fault matrix of a replay: every call of it, every fault.
//!
//! The function itself archives the letters, and replays some of them before, so that there are a lock and
//! ledgers. A scenario begins with a copy of that bucket and asks as a scheduler does: for the same again, until
//! the replay is done and has left nothing out. Then it is seen what has arrived.

mod books;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};
use sim::lambda::{Mapping, MappingSettings, Outcome};

pub use self::books::{Books, Objects, Verdict};
use self::world::{Injection, Site, World};
use super::faults::Fault;
use super::letters::{self, Kind, Letter};
use super::mapping::Process;
use super::matrix::by_fault;
use super::world::put;
use crate::Ended;

/// Longest time of a scenario. A lock that a killed process leaves behind holds for 30 s.
const PATIENCE: Duration = Duration::from_secs(90);

/// An invocation's time, of which a replay keeps 20 s for stopping.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Between two invocations, like a scheduler's minute.
const PAUSE: Duration = Duration::from_secs(1);

/// Letters that were archived within the last five seconds are not selected.
const LAG: Duration = Duration::from_secs(6);

/// Violations that are told of a scenario.
const MOST_TOLD: usize = 3;

/// The letters by kind and queue. Those before [`SELECTED`] are selected; the raw ones are not, nor what is in the
/// queue that was replayed before.
const LETTERS: [(Kind, &str, usize); 5] = [
    (Kind::Queue, "orders-dlq", 18),
    (Kind::Moved, "orders-dlq", 6),
    (Kind::Topic, "orders-dlq", 6),
    (Kind::Raw, "orders-dlq", 6),
    (Kind::Queue, "returns-dlq", 4),
];

/// The origins that are selected.
const ORIGINS: [&str; 2] = ["sns", "sqs"];

/// How many letters are selected.
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

/// A replay's event.
fn request(queue: &str, resume: bool) -> String {
    json!({ "replay": { "select": { "queue": queue, "origins": ORIGINS }, "rate": 10_000, "ramp": [20, 100],
        "threshold": 100, "settleSeconds": 0, "resume": resume } })
    .to_string()
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
        let ids =
            letters.iter().zip(&queues).map(|(letter, queue)| (put(&world.aws, queue, letter), letter.who));
        let ids: BTreeMap<_, _> = ids.map(|(id, who)| (id.to_string(), who)).collect();
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
        let mut process = world.process(binary, log, &policy());
        world.begin(&process, 1);
        let ended = process.sandbox.invoke(request("returns-dlq", false), TIMEOUT);
        let (books, objects) = (Books::new(ids), world.state().objects.clone());
        let sent = (0..letters.len()).filter(|who| queues[*who] == "returns-dlq").collect();
        assert_eq!(books.recorded(&objects), sent, "the function does not replay: {ended:?}");
        Self { letters, books, objects }
    }
}

/// Every cell that makes sense, those first that wait for a lock.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let cells = Site::ALL.into_iter().flat_map(|site| Fault::ALL.map(|fault| Scenario { site, fault }));
    let mut all: Vec<_> = cells.filter(|it| it.site.has(it.fault)).collect();
    all.sort_by_key(|it| match it.fault {
        Fault::KillBefore | Fault::KillAfter => 0,
        Fault::Silent | Fault::Mute => 1,
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
        let mut objects = archive.objects.clone();
        if self.site == Site::TakeLock {
            // Then it is taken by the first call.
            objects.retain(|key, _| !key.ends_with("lock.json"));
        }
        let world = World::new(archive.letters.clone(), archive.books.clone(), objects, self.injections());
        let (mut process, mut resume, mut run) = (None, false, 0);
        let done = loop {
            if began.elapsed() > PATIENCE {
                break false;
            }
            run += 1;
            let running: &mut Process = process.get_or_insert_with(|| world.process(binary, log, &policy()));
            let fault = world.begin(running, run);
            if fault == Some(Fault::KillBefore) {
                let killer = running.sandbox.killer();
                std::thread::spawn(move || killer.kill());
            }
            let mut ended = running.sandbox.invoke(request("orders-dlq", resume), TIMEOUT);
            if fault == Some(Fault::KillAfter) {
                ended = Ended::Died;
            }
            let mut state = world.state();
            let troubled = world.is_troubled(run);
            match ended {
                Ended::Answer(text, _) if fault != Some(Fault::BreakAfter) => {
                    let manifest: Value = serde_json::from_str(&text).unwrap_or_default();
                    if manifest["status"] == "done" && is_whole(&manifest) {
                        break true;
                    }
                    resume = manifest["status"] == "stopped";
                }
                Ended::Died | Ended::TimedOut => {
                    if !troubled {
                        state.books.broken(format!("invocation {run} dies without a fault"));
                    }
                    state.books.killed(run);
                    process = None;
                }
                // A lock that was left behind holds for a while; all else needs a fault.
                Ended::Error(error) if !troubled && !error.contains("another replay is under way") => {
                    state.books.broken(format!("invocation {run} fails without a fault: {error}"));
                }
                Ended::Answer(..) | Ended::Error(_) => {}
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
            // All objects are read at once.
            _ if self.site == Site::Letters => 10,
            // The SDK tries three times.
            _ => 4,
        };
        // The first two are about the ledger of the replay before.
        let from = if self.site == Site::GetLedger { 2 } else { 0 };
        let mut all = vec![Injection { site: self.site, fault: self.fault, from, calls }];
        if matches!(self.site, Site::GetManifest | Site::GetLedger) {
            // An invocation that ends within the replay, so that the next one goes on.
            all.push(Injection { site: Site::Manifest, fault: Fault::Denied, from: 0, calls: 1 });
        }
        all
    }
}

/// Whether nothing was left out that another replay could send.
fn is_whole(manifest: &Value) -> bool {
    let none = |count: &Value| count.as_u64().unwrap_or_default() == 0;
    let all_replayable =
        manifest["counts"]["notReplayable"].as_object().is_none_or(|all| all.values().all(none));
    all_replayable && none(&manifest["counts"]["unreadable"]) && none(&manifest["refused"])
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

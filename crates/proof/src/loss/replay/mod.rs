//! The fault matrix of a replay: every call it makes times every fault.
//!
//! The function itself archives the letters. It replays some of them before the scenarios, so that there are
//! ledgers. A scenario begins with a copy of that bucket and acts like an operator: it begins a replay once
//! and continues it from its stored state until it is done and has left no letter out. Then the arrivals are
//! judged. Three drivers do this: one invocation of the replay function, its turns and lanes as the state
//! machine calls them, and the operator's tool.

pub mod brake;
mod driver;
mod others;
pub mod soak;
mod tool;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use redrive_laws::letters::Who;
use redrive_laws::replays::{BEFORE, Books, Objects, Verdict, identity};
use redrive_sim::mapping::{Mapping, MappingSettings, Outcome};
use serde_json::json;

pub use self::driver::Driver;
use self::driver::{Driving, TIMEOUT, Wish, replayer};
use self::world::{Ground, Injection, Plan, Site, World};
use super::faults::Fault;
use super::letters::{Kind, Letter};
use super::matrix::by_fault;
use super::world::put;
use crate::Ended;

/// The longest time of a scenario. A claim that a killed process leaves behind holds for a minute.
const PATIENCE: Duration = Duration::from_secs(150);

/// The pause before a replay. A replay does not select letters that were archived within the last five
/// seconds.
const LAG: Duration = Duration::from_secs(6);

/// The most violations of a scenario that are printed.
const MOST_TOLD: usize = 3;

/// The letters by kind and queue. Those before [`SELECTED`] are to be sent. The raw ones are not selected.
/// Those of [`BEFORE`] are selected, but another replay has sent them.
const LETTERS: [(Kind, &str, usize); 6] = [
    (Kind::Queue, "invoices-dlq", 12),
    (Kind::Queue, "payments-dlq", 6),
    (Kind::Moved, "payments-dlq", 6),
    (Kind::Topic, "payments-dlq", 6),
    (Kind::Raw, "payments-dlq", 6),
    (Kind::Queue, BEFORE, 12),
];

/// The origins that are selected.
const ORIGINS: [&str; 2] = ["sns", "sqs"];

/// The per cent of a step's letters that may fail. SQS refuses whole steps in some scenarios.
const THRESHOLD: u32 = 99;

/// The number of letters that are to be sent.
pub const SELECTED: usize = 30;

/// An archive with letters, and with the state of a replay of others.
#[derive(Debug, Clone)]
pub struct Archive {
    ground: Ground,
    letters: Vec<Letter>,
    books: Books,
    objects: Objects,
}

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    driver: Driver,
    site: Site,
    fault: Fault,
}

/// The result of a scenario.
#[derive(Debug)]
pub struct Run {
    scenario: Scenario,
    verdict: Verdict,
    faults: usize,
    invocations: usize,
    took: Duration,
}

/// Returns the request for a replay of one queue or of all. It waits after its first step for long enough to
/// check whether it is stopped. The rate is enough for several lanes.
fn wish(queue: Option<&str>) -> Wish {
    let event = json!({ "select": { "queue": queue, "origins": ORIGINS }, "rate": 10_000, "ramp": [20, 100],
        "threshold": THRESHOLD, "settleSeconds": 3 });
    let [one, other] = ORIGINS;
    let arguments = format!(
        "--origin {one} --origin {other} --rate 10000 --ramp 20,100 --threshold {THRESHOLD} --settle 3"
    );
    Wish { event, arguments }
}

impl Archive {
    /// Makes the function archive the letters, and replay those of one queue.
    #[must_use]
    pub fn fill(binary: &Path, log: Option<&Path>) -> Self {
        let mut rng = Rng::with_seed(1);
        let mut letters = Vec::new();
        for (kind, queue, count) in LETTERS {
            for _ in 0..count {
                letters.push((Letter::write(letters.len(), kind, None, false, &mut rng), queue.to_owned()));
            }
        }
        let queues: Vec<_> = letters.iter().map(|(_, queue)| queue.clone()).collect();
        let ground = Ground::of_matrix();
        let (world, letters, ids) = archived(&ground, &letters, binary, log);
        std::thread::sleep(LAG);
        let mut process = world.replayer(&replayer(binary), log);
        world.begin(&process.caller, 1);
        let ended =
            process.sandbox.invoke(json!({ "replay": wish(Some(BEFORE)).event }).to_string(), TIMEOUT);
        let (books, objects) = (Books::new(ids, SELECTED), world.state().reader.objects.clone());
        let sent = (0..letters.len()).filter(|who| queues[*who] == BEFORE).collect();
        assert_eq!(books.recorded(&objects), sent, "the function does not replay: {ended:?}");
        Self { ground, letters, books, objects }
    }

    /// Creates an account with this archive.
    fn world(&self, ground: &Ground, plan: Plan) -> World {
        World::new(ground, self.letters.clone(), self.books.clone(), self.objects.clone(), plan)
    }
}

/// Makes the function archive letters, each in its queue, in their order. Returns the letters by their
/// numbers, and their identities.
fn archived(
    ground: &Ground,
    letters: &[(Letter, String)],
    binary: &Path,
    log: Option<&Path>,
) -> (World, Vec<Letter>, BTreeMap<String, Who>) {
    let mut all: Vec<_> = letters.iter().map(|(letter, _)| letter.clone()).collect();
    all.sort_by_key(|letter| letter.who);
    let world = World::new(ground, all.clone(), Books::default(), Objects::new(), Plan::default());
    let ids = letters
        .iter()
        .map(|(letter, queue)| (identity(queue, &put(&world.aws, queue, letter)), letter.who))
        .collect();
    let mut process = world.archiver(binary, log);
    world.begin(&process.caller, 0);
    for queue in letters.iter().map(|(_, queue)| queue).collect::<BTreeSet<_>>() {
        let mapping = Mapping::new(&world.aws, MappingSettings::new(queue, "sns-redrive"));
        let archive = |event: &str| match process.sandbox.invoke(event.to_owned(), TIMEOUT) {
            Ended::Answer(text, _) if ground.fifo || text.contains("[]") => Outcome::Answer(text),
            ended => panic!("the function does not archive: {ended:?}"),
        };
        let mut archive = archive;
        let is_empty = || {
            world.aws.act("world", |it, _| it.sqs.queue(queue).is_none_or(redrive_sim::sqs::Queue::is_empty))
        };
        while mapping.step(|batch| archive(&batch.event)) || !is_empty() {
            // A letter behind the head of its group was hidden for a moment.
            world.aws.clock().pass(Duration::from_secs(1));
        }
    }
    (world, all, ids)
}

/// Returns every cell that makes sense; those that wait for a claim come first.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let cells = |driver: Driver| {
        let cells = Site::ALL.into_iter().flat_map(move |site| Fault::ALL.map(|fault| (site, fault)));
        cells.filter(move |(site, fault)| driver.has(*site, *fault)).map(move |(site, fault)| Scenario {
            driver,
            site,
            fault,
        })
    };
    let mut all: Vec<_> = Driver::ALL.into_iter().flat_map(cells).collect();
    all.sort_by_key(|it| match (it.site, it.fault) {
        (_, Fault::KillBefore | Fault::KillAfter) | (Site::LedgerBefore | Site::LedgerAfter, _) => 0,
        (_, Fault::Silent | Fault::Mute) => 1,
        _ => 2,
    });
    all
}

/// Returns the matrix as a table of duplicates for each driver.
#[must_use]
pub fn table(runs: &[Run]) -> String {
    let row = |site: Site| {
        Fault::ALL.map(|fault| {
            let cells = Driver::ALL.map(|driver| {
                let run = runs.iter().find(|run| run.scenario == Scenario { driver, site, fault });
                match run {
                    None => "–".to_owned(),
                    Some(run) if run.is_good() => run.verdict.duplicates.to_string(),
                    Some(_) => "FAILED".to_owned(),
                }
            });
            if cells.iter().all(|cell| cell == "–") { "–".to_owned() } else { cells.join(", ") }
        })
    };
    let has = |site: &Site| {
        Driver::ALL.into_iter().any(|driver| Fault::ALL.into_iter().any(|fault| driver.has(*site, fault)))
    };
    by_fault(Site::ALL.into_iter().filter(has).map(|site| (site.name(), row(site))))
}

impl Scenario {
    /// Returns the name of the scenario.
    #[must_use]
    pub fn name(&self) -> String {
        format!("replay, {}: {} x {}", self.driver.name(), self.site.name(), self.fault.name())
    }

    /// Runs the scenario.
    #[must_use]
    pub fn run(&self, archive: &Archive, binary: &Path, log: Option<&Path>) -> Run {
        let began = Instant::now();
        let world = archive.world(&archive.ground, Plan::of(self.injections()));
        let wish = wish(None);
        let mut driving = Driving::new(self.driver, &world, &wish, began + PATIENCE, binary, log);
        let done = driving.go_to_the_end(|_| {});
        let invocations = driving.invocations;
        drop(driving);
        let state = world.state();
        let mut verdict = state.reader.books.judge(&state.reader.objects);
        let faults = world.made(self.site);
        if faults == 0 {
            verdict.violations.push("its fault was never made".to_owned());
        }
        if !done {
            verdict.violations.push("the replay does not end".to_owned());
        }
        Run { scenario: *self, verdict, faults, invocations, took: began.elapsed() }
    }

    /// Returns the fault, and the other faults without which its call would not be made.
    fn injections(self) -> Vec<Injection> {
        let attempts = self.driver.attempts();
        let is_machine = self.driver == Driver::Machine;
        let calls = match self.fault {
            // A failed lane is not tried again.
            Fault::Denied | Fault::Permanent
                if is_machine && matches!(self.site, Site::Lane | Site::Answer) =>
            {
                1
            }
            Fault::Silent | Fault::Mute | Fault::KillBefore | Fault::KillAfter => 1,
            // The SDK does not try again, and each time leaves a claim behind, which holds for a minute.
            Fault::Denied | Fault::Permanent if self.site == Site::LedgerAfter => 1,
            // All objects are read at the same time.
            _ if self.site == Site::Letters => 10,
            _ => attempts + 1,
        };
        let from = match self.site {
            // The first read comes before anything is sent, and before a lane's result is written.
            Site::GetLedger | Site::GetLane | Site::GetKnown => 1,
            // The first answer is that of the first turn, which only a new execution tries again.
            Site::Answer if is_machine => 1,
            // This is in the last step, which has several units in progress.
            Site::Send | Site::LedgerBefore | Site::LedgerAfter
                if self.driver != Driver::Invocation && self.fault == Fault::KillAfter =>
            {
                1
            }
            _ => 0,
        };
        let mut all = vec![Injection { site: self.site, fault: self.fault, from, calls }];
        if self.driver != Driver::Invocation && self.site == Site::State {
            // The fault also occurs before and after the judgement of a step.
            all.extend([3, 6, 9].map(|from| Injection { from, ..all[0] }));
        }
        if calls == 1 && self.site == Site::Lane {
            // The fault also occurs in the last step, where a round has several lanes.
            all.push(Injection { from: 3, ..all[0] });
        }
        if matches!(self.site, Site::GetState | Site::GetUnits | Site::GetLedger) && !is_machine {
            // The invocation ends after the first letters, so that the next one continues.
            all.push(Injection { site: Site::State, fault: Fault::Denied, from: 2, calls: 1 });
        }
        all
    }
}

impl Run {
    /// Reports whether every promise was kept, and the fault was made.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.violations.is_empty()
    }
}

/// Writes a line about the scenario, and everything that is wrong with it.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { arrived, lost, duplicates, violations, .. } = &self.verdict;
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

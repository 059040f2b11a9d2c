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
use redrive_laws::letters::LetterNumber;
use redrive_laws::replays::{BEFORE, BucketObjects, ReplayBooks, ReplayVerdict, identity};
use redrive_sim::mapping::{MappingOutcome, MappingSettings, SimMapping};
use serde_json::json;

pub use self::driver::DriverKind;
use self::driver::{RequestedReplay, RunningDriver, TIMEOUT, replayer};
use self::world::{AccountSetup, ReplayFaultPlan, ReplayInjection, ReplaySite, ReplayWorld};
use super::faults::FaultKind;
use super::letters::{ProofLetter, ProofLetterKind};
use super::matrix::by_fault;
use super::world::put;
use crate::SandboxEnd;

/// The longest time of a scenario. A claim that a killed process leaves behind holds for a minute.
const MAX_SCENARIO_TIME: Duration = Duration::from_secs(150);

/// The pause before a replay. A replay does not select letters that were archived within the last five
/// seconds.
const ARCHIVE_SETTLE_TIME: Duration = Duration::from_secs(6);

/// The most violations of a scenario that are printed.
const MAX_REPORTED_VIOLATIONS: usize = 3;

/// The letters by kind and queue. Those before [`SELECTED`] are to be sent. The raw ones are not selected.
/// Those of [`BEFORE`] are selected, but another replay has sent them.
const LETTERS: [(ProofLetterKind, &str, usize); 6] = [
    (ProofLetterKind::Queue, "invoices-dlq", 12),
    (ProofLetterKind::Queue, "payments-dlq", 6),
    (ProofLetterKind::Moved, "payments-dlq", 6),
    (ProofLetterKind::Topic, "payments-dlq", 6),
    (ProofLetterKind::Raw, "payments-dlq", 6),
    (ProofLetterKind::Queue, BEFORE, 12),
];

/// The origins that are selected.
const ORIGINS: [&str; 2] = ["sns", "sqs"];

/// The per cent of a step's letters that may fail. SQS refuses whole steps in some scenarios.
const THRESHOLD: u32 = 99;

/// The number of letters that are to be sent.
pub const SELECTED: usize = 30;

/// An archive with letters, and with the state of a replay of others.
#[derive(Debug, Clone)]
pub struct ReplayArchive {
    ground: AccountSetup,
    letters: Vec<ProofLetter>,
    books: ReplayBooks,
    objects: BucketObjects,
}

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayScenario {
    driver: DriverKind,
    site: ReplaySite,
    fault: FaultKind,
}

/// The result of a scenario.
#[derive(Debug)]
pub struct ReplayScenarioResult {
    scenario: ReplayScenario,
    verdict: ReplayVerdict,
    faults: usize,
    invocations: usize,
    took: Duration,
}

/// Returns the request for a replay of one queue or of all. It waits after its first step for long enough to
/// check whether it is stopped. The rate is enough for several lanes.
fn wish(queue: Option<&str>) -> RequestedReplay {
    let event = json!({ "select": { "queue": queue, "origins": ORIGINS }, "rate": 10_000, "ramp": [20, 100],
        "threshold": THRESHOLD, "settleSeconds": 3 });
    let [one, other] = ORIGINS;
    let arguments = format!(
        "--origin {one} --origin {other} --rate 10000 --ramp 20,100 --threshold {THRESHOLD} --settle 3"
    );
    RequestedReplay { event, arguments }
}

impl ReplayArchive {
    /// Makes the function archive the letters, and replay those of one queue.
    #[must_use]
    pub fn fill(binary: &Path, log: Option<&Path>) -> Self {
        let mut rng = Rng::with_seed(1);
        let mut letters = Vec::new();
        for (kind, queue, count) in LETTERS {
            for _ in 0..count {
                letters
                    .push((ProofLetter::write(letters.len(), kind, None, false, &mut rng), queue.to_owned()));
            }
        }
        let queues: Vec<_> = letters.iter().map(|(_, queue)| queue.clone()).collect();
        let ground = AccountSetup::of_matrix();
        let (world, letters, ids) = archived(&ground, &letters, binary, log);
        std::thread::sleep(ARCHIVE_SETTLE_TIME);
        let mut process = world.replayer(&replayer(binary), log);
        world.begin(&process.caller, 1);
        let ended =
            process.sandbox.invoke(json!({ "replay": wish(Some(BEFORE)).event }).to_string(), TIMEOUT);
        let (books, objects) = (ReplayBooks::new(ids, SELECTED), world.state().reader.objects.clone());
        let sent = (0..letters.len()).filter(|who| queues[*who] == BEFORE).collect();
        assert_eq!(books.recorded(&objects), sent, "the function does not replay: {ended:?}");
        Self { ground, letters, books, objects }
    }

    /// Creates an account with this archive.
    fn world(&self, ground: &AccountSetup, plan: ReplayFaultPlan) -> ReplayWorld {
        ReplayWorld::new(ground, self.letters.clone(), self.books.clone(), self.objects.clone(), plan)
    }
}

/// Makes the function archive letters, each in its queue, in their order. Returns the letters by their
/// numbers, and their identities.
fn archived(
    ground: &AccountSetup,
    letters: &[(ProofLetter, String)],
    binary: &Path,
    log: Option<&Path>,
) -> (ReplayWorld, Vec<ProofLetter>, BTreeMap<String, LetterNumber>) {
    let mut all: Vec<_> = letters.iter().map(|(letter, _)| letter.clone()).collect();
    all.sort_by_key(|letter| letter.who);
    let world = ReplayWorld::new(
        ground,
        all.clone(),
        ReplayBooks::default(),
        BucketObjects::new(),
        ReplayFaultPlan::default(),
    );
    let ids = letters
        .iter()
        .map(|(letter, queue)| (identity(queue, &put(&world.aws, queue, letter)), letter.who))
        .collect();
    let mut process = world.archiver(binary, log);
    world.begin(&process.caller, 0);
    for queue in letters.iter().map(|(_, queue)| queue).collect::<BTreeSet<_>>() {
        let mapping = SimMapping::new(&world.aws, MappingSettings::new(queue, "sns-redrive"));
        let archive = |event: &str| match process.sandbox.invoke(event.to_owned(), TIMEOUT) {
            SandboxEnd::Answer(text, _) if ground.fifo || text.contains("[]") => MappingOutcome::Answer(text),
            ended => panic!("the function does not archive: {ended:?}"),
        };
        let mut archive = archive;
        let is_empty = || {
            world
                .aws
                .act("world", |it, _| it.sqs.queue(queue).is_none_or(redrive_sim::sqs::SimQueue::is_empty))
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
pub fn scenarios() -> Vec<ReplayScenario> {
    let cells = |driver: DriverKind| {
        let cells =
            ReplaySite::ALL.into_iter().flat_map(move |site| FaultKind::ALL.map(|fault| (site, fault)));
        cells
            .filter(move |(site, fault)| driver.has(*site, *fault))
            .map(move |(site, fault)| ReplayScenario { driver, site, fault })
    };
    let mut all: Vec<_> = DriverKind::ALL.into_iter().flat_map(cells).collect();
    all.sort_by_key(|it| match (it.site, it.fault) {
        (_, FaultKind::KillBefore | FaultKind::KillAfter)
        | (ReplaySite::LedgerBefore | ReplaySite::LedgerAfter, _) => 0,
        (_, FaultKind::Silent | FaultKind::Mute) => 1,
        _ => 2,
    });
    all
}

/// Returns the matrix as a table of duplicates for each driver.
#[must_use]
pub fn table(runs: &[ReplayScenarioResult]) -> String {
    let row = |site: ReplaySite| {
        FaultKind::ALL.map(|fault| {
            let cells = DriverKind::ALL.map(|driver| {
                let run = runs.iter().find(|run| run.scenario == ReplayScenario { driver, site, fault });
                match run {
                    None => "–".to_owned(),
                    Some(run) if run.is_good() => run.verdict.duplicates.to_string(),
                    Some(_) => "FAILED".to_owned(),
                }
            });
            if cells.iter().all(|cell| cell == "–") { "–".to_owned() } else { cells.join(", ") }
        })
    };
    let has = |site: &ReplaySite| {
        DriverKind::ALL
            .into_iter()
            .any(|driver| FaultKind::ALL.into_iter().any(|fault| driver.has(*site, fault)))
    };
    by_fault(ReplaySite::ALL.into_iter().filter(has).map(|site| (site.name(), row(site))))
}

impl ReplayScenario {
    /// Returns the name of the scenario.
    #[must_use]
    pub fn name(&self) -> String {
        format!("replay, {}: {} x {}", self.driver.name(), self.site.name(), self.fault.name())
    }

    /// Runs the scenario.
    #[must_use]
    pub fn run(&self, archive: &ReplayArchive, binary: &Path, log: Option<&Path>) -> ReplayScenarioResult {
        let began = Instant::now();
        let world = archive.world(&archive.ground, ReplayFaultPlan::of(self.injections()));
        let wish = wish(None);
        let mut driving =
            RunningDriver::new(self.driver, &world, &wish, began + MAX_SCENARIO_TIME, binary, log);
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
        ReplayScenarioResult { scenario: *self, verdict, faults, invocations, took: began.elapsed() }
    }

    /// Returns the fault, and the other faults without which its call would not be made.
    fn injections(self) -> Vec<ReplayInjection> {
        let attempts = self.driver.attempts();
        let is_machine = self.driver == DriverKind::Machine;
        let calls = match self.fault {
            // A failed lane is not tried again.
            FaultKind::Denied | FaultKind::Permanent
                if is_machine && matches!(self.site, ReplaySite::Lane | ReplaySite::Answer) =>
            {
                1
            }
            FaultKind::Silent | FaultKind::Mute | FaultKind::KillBefore | FaultKind::KillAfter => 1,
            // The SDK does not try again, and each time leaves a claim behind, which holds for a minute.
            FaultKind::Denied | FaultKind::Permanent if self.site == ReplaySite::LedgerAfter => 1,
            // All objects are read at the same time.
            _ if self.site == ReplaySite::Letters => 10,
            _ => attempts + 1,
        };
        let from = match self.site {
            // The first read comes before anything is sent, and before a lane's result is written.
            ReplaySite::GetLedger | ReplaySite::GetLane | ReplaySite::GetKnown => 1,
            // The first answer is that of the first turn, which only a new execution tries again.
            ReplaySite::Answer if is_machine => 1,
            // This is in the last step, which has several units in progress.
            ReplaySite::Send | ReplaySite::LedgerBefore | ReplaySite::LedgerAfter
                if self.driver != DriverKind::Invocation && self.fault == FaultKind::KillAfter =>
            {
                1
            }
            _ => 0,
        };
        let mut all = vec![ReplayInjection { site: self.site, fault: self.fault, from, calls }];
        if self.driver != DriverKind::Invocation && self.site == ReplaySite::State {
            // The fault also occurs before and after the judgement of a step.
            all.extend([3, 6, 9].map(|from| ReplayInjection { from, ..all[0] }));
        }
        if calls == 1 && self.site == ReplaySite::Lane {
            // The fault also occurs in the last step, where a round has several lanes.
            all.push(ReplayInjection { from: 3, ..all[0] });
        }
        if matches!(self.site, ReplaySite::GetState | ReplaySite::GetUnits | ReplaySite::GetLedger)
            && !is_machine
        {
            // The invocation ends after the first letters, so that the next one continues.
            all.push(ReplayInjection {
                site: ReplaySite::State,
                fault: FaultKind::Denied,
                from: 2,
                calls: 1,
            });
        }
        all
    }
}

impl ReplayScenarioResult {
    /// Reports whether every promise was kept, and the fault was made.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.violations.is_empty()
    }
}

/// Writes a line about the scenario, and everything that is wrong with it.
impl fmt::Display for ReplayScenarioResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReplayVerdict { arrived, lost, duplicates, violations, .. } = &self.verdict;
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
        violations.iter().take(MAX_REPORTED_VIOLATIONS).try_for_each(|it| write!(f, "\n{it}"))
    }
}

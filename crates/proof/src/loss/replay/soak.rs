//! The soak of a replay. Letters of several queues are replayed under random faults at every call, with kills
//! among them, and the replay is resumed until it is done. This is done by each driver, and by drivers in
//! turns, where one continues what another began.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use redrive_laws::replays::{ReplayBooks, ReplayVerdict};
use redrive_sim::SimClock;
use serde_json::json;

use super::driver::{DriverKind, RequestedReplay, RunningDriver};
use super::world::{AccountSetup, RandomReplayFaults, ReplayFaultPlan};
use super::{ARCHIVE_SETTLE_TIME, ReplayArchive, archived};
use crate::loss::faults::FaultKind;
use crate::loss::letters::{ProofLetter, ProofLetterKind, named};

/// The number of dead-letter queues, each of which is a unit of its own at least.
const QUEUES: usize = 6;

/// The letters of a standard queue that are not selected.
const UNSELECTED_LETTERS: usize = 4;

/// The number of groups of a FIFO queue.
const GROUPS: usize = 8;

/// The number of calls of which one meets a fault on average.
const ONCE_IN: usize = 20;

/// The number of invocations and commands with faults; later ones have none.
const RUNS_WITH_FAULTS: usize = 40;

/// The start of the replay before which letters are deleted from the archive. It has been planned then.
const DELETED_BEFORE: usize = 2;

/// The longest time with faults. A call that hangs takes ten seconds.
const MAX_FAULT_TIME: Duration = Duration::from_secs(45);

/// The longest time of a soak beyond that, and the time that each letter adds.
const MAX_TIME_WITHOUT_FAULTS: Duration = Duration::from_mins(2);
const EXTRA_TIME_PER_LETTER: Duration = Duration::from_millis(50);

/// The most violations of a soak that are printed.
const MAX_REPORTED_VIOLATIONS: usize = 5;

/// The number of letters from which on a worker must have been killed, whatever the seed.
const LETTERS_FOR_A_KILL: usize = 1_000;

/// One soak of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplaySoak {
    /// The driver of the replay; `None` if all take turns.
    driver: Option<DriverKind>,
    fifo: bool,
    /// The number of letters that are to be sent.
    letters: usize,
    seed: u64,
    /// The soak's number among those with the same seed.
    number: u64,
}

/// The result of a soak.
#[derive(Debug)]
pub struct ReplaySoakResult {
    soak: ReplaySoak,
    verdict: ReplayVerdict,
    faults: BTreeMap<FaultKind, usize>,
    calls: usize,
    invocations: usize,
    took: Duration,
}

/// Returns every soak of so many letters: each driver alone, and all in turns, with standard queues and with
/// FIFO queues.
#[must_use]
pub fn soaks(letters: usize, seed: u64) -> Vec<ReplaySoak> {
    let drivers = DriverKind::ALL.into_iter().map(Some).chain([None]);
    let soaks = [false, true].into_iter().flat_map(|fifo| drivers.clone().map(move |driver| (driver, fifo)));
    soaks
        .zip(0..)
        .map(|((driver, fifo), number)| ReplaySoak { driver, fifo, letters, seed, number })
        .collect()
}

/// Makes the function archive so many letters that are selected, and some that are not.
#[must_use]
pub fn fill(letters: usize, fifo: bool, binary: &Path, log: Option<&Path>) -> ReplayArchive {
    let mut rng = Rng::with_seed(1);
    let mut queue = |number: usize| named(&format!("payments-{}-dlq", number % QUEUES), fifo);
    let queues: Vec<_> = (0..QUEUES).map(&mut queue).collect();
    let mut all = Vec::new();
    let mut groups = BTreeMap::new();
    // The letters that are not selected come first: they lie before the others.
    for who in (letters..letters + UNSELECTED_LETTERS * QUEUES).chain(0..letters) {
        let kind = if who >= letters {
            ProofLetterKind::Raw
        } else {
            [ProofLetterKind::Queue, ProofLetterKind::Topic][who % 2]
        };
        let group = fifo.then(|| format!("group-{}", who / QUEUES % GROUPS));
        if let Some(group) = &group {
            groups.insert(who, format!("{group} of {}", queue(who)));
        }
        all.push((ProofLetter::write(who, kind, group, fifo, &mut rng), queue(who)));
    }
    let ground = AccountSetup { clock: own_clock(), fifo, takes: true, queues, page: (letters / 20).max(2) };
    let (world, all, ids) = archived(&ground, &all, binary, log);
    let books = ReplayBooks::new(ids, letters).in_order(groups);
    let objects = world.state().reader.objects.clone();
    std::thread::sleep(ARCHIVE_SETTLE_TIME);
    ReplayArchive { ground, letters: all, books, objects }
}

impl ReplaySoak {
    /// Returns the name of the soak.
    #[must_use]
    pub fn name(&self) -> String {
        let driver = self.driver.map_or("in turns", DriverKind::name);
        format!("replay, soak{}: {driver}", if self.fifo { ", FIFO" } else { "" })
    }

    /// Reports whether its queues are FIFO.
    #[must_use]
    pub fn is_fifo(&self) -> bool {
        self.fifo
    }

    /// Runs the soak.
    #[must_use]
    pub fn run(&self, archive: &ReplayArchive, binary: &Path, log: Option<&Path>) -> ReplaySoakResult {
        let began = Instant::now();
        let mut rng = Rng::with_seed(self.seed.wrapping_mul(16).wrapping_add(self.number));
        let ground = AccountSetup { clock: own_clock(), ..archive.ground.clone() };
        let world = archive.world(&ground, ReplayFaultPlan::by_chance(self.weather(rng.fork())));
        let patience = EXTRA_TIME_PER_LETTER * u32::try_from(self.letters).unwrap_or_default();
        let (until, wish) = (began + MAX_FAULT_TIME + MAX_TIME_WITHOUT_FAULTS + patience, self.wish());
        let mut driving = RunningDriver::new(DriverKind::Invocation, &world, &wish, until, binary, log);
        let mut starts = 0;
        let done = driving.go_to_the_end(|driving| {
            if driving.invocations >= RUNS_WITH_FAULTS || began.elapsed() > MAX_FAULT_TIME {
                world.clear_up();
            }
            starts += 1;
            if starts == DELETED_BEFORE {
                world.delete_letters();
            }
            driving.driver =
                self.driver.unwrap_or_else(|| DriverKind::ALL[rng.usize(..DriverKind::ALL.len())]);
        });
        let invocations = driving.invocations;
        drop(driving);
        let state = world.state();
        let mut verdict = state.reader.books.judge(&state.reader.objects);
        if !done {
            verdict.violations.insert(0, "the replay does not end".to_owned());
        }
        let (faults, calls) = (world.by_chance(), world.calls());
        drop(state);
        // A soak without faults, or a large one without kills, proves nothing.
        if faults.is_empty() || (kills(&faults) == 0 && self.letters >= LETTERS_FOR_A_KILL) {
            verdict.violations.push("no fault was made, or no worker killed".to_owned());
        }
        ReplaySoakResult { soak: *self, verdict, faults, calls, invocations, took: began.elapsed() }
    }

    /// Returns the request: in steps that end within units, at a rate that is enough for several lanes. The
    /// index has the topic of each letter, so the number of selected letters is known.
    fn wish(&self) -> RequestedReplay {
        let topic = named("payments", self.fifo);
        let rate = (self.letters * 3).max(600);
        let event = json!({ "select": { "topics": [topic] }, "rate": rate, "ramp": [10, 40, 100],
            "threshold": 90, "settleSeconds": 1 });
        let arguments = format!("--topic {topic} --rate {rate} --ramp 10,40,100 --threshold 90 --settle 1");
        RequestedReplay { event, arguments }
    }

    fn weather(&self, rng: Rng) -> RandomReplayFaults {
        let mut weights = vec![
            (FaultKind::Throttle, 20),
            (FaultKind::Unavailable, 20),
            (FaultKind::Denied, 10),
            (FaultKind::Silent, 1),
            (FaultKind::Mute, 1),
            (FaultKind::BreakBefore, 15),
            (FaultKind::BreakAfter, 20),
            (FaultKind::Partial, 20),
            (FaultKind::KillBefore, 12),
            (FaultKind::KillAfter, 30),
        ];
        if !self.fifo {
            // SQS's refusal of a letter leaves it out, and the rest of its group continues.
            weights.extend([(FaultKind::Permanent, 3), (FaultKind::PartialSender, 10)]);
        }
        RandomReplayFaults { rng, once_in: ONCE_IN, weights }
    }
}

fn kills(faults: &BTreeMap<FaultKind, usize>) -> usize {
    [FaultKind::KillBefore, FaultKind::KillAfter].iter().filter_map(|fault| faults.get(fault)).sum()
}

/// Creates a clock that follows the machine's and can be moved forward, so that a dead worker's claim costs
/// no waiting.
fn own_clock() -> SimClock {
    let clock = SimClock::manual(SimClock::real().now());
    clock.run();
    clock
}

impl ReplaySoakResult {
    /// Reports whether every promise was kept.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.violations.is_empty()
    }
}

/// Returns the table, in Markdown.
#[must_use]
pub fn table(all: &[ReplaySoakResult]) -> String {
    let mut text = String::from(
        "| soak | letters | lost | sent twice | faults | of these kills | calls | invocations |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for soaked in all {
        let ReplayVerdict { arrived, lost, duplicates, .. } = &soaked.verdict;
        let name = soaked.soak.name();
        let name = name.trim_start_matches("replay, soak").trim_start_matches([',', ':', ' ']);
        let faults: usize = soaked.faults.values().sum();
        let kills = kills(&soaked.faults);
        let _ = writeln!(
            text,
            "| {name} | {} | {lost} | {duplicates} | {faults} | {kills} | {} | {} |",
            arrived + lost,
            soaked.calls,
            soaked.invocations
        );
    }
    text
}

/// Writes a line about the soak, and everything that is wrong with it, with the seed that repeats it.
impl fmt::Display for ReplaySoakResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReplayVerdict { arrived, lost, gone, duplicates, violations } = &self.verdict;
        let state = if self.is_good() { "ok" } else { "FAILED" };
        write!(
            f,
            "{:>6.1} s  {:<66} {state:<6} faults {:>2}, invocations {:>2}: arrived {arrived}, lost {lost}, gone {gone}; \
             duplicates {duplicates}",
            self.took.as_secs_f64(),
            self.soak.name(),
            self.faults.values().sum::<usize>(),
            self.invocations,
        )?;
        let seed = self.soak.seed;
        violations.iter().take(MAX_REPORTED_VIOLATIONS).try_for_each(|it| write!(f, "\nseed {seed}: {it}"))
    }
}

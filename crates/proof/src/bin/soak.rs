//! A tool that tries to make the function lose a letter, and reports whether it did: see `redrive_proof::loss`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redrive_proof::loss::matrix::{self, ScenarioResult};
use redrive_proof::loss::replay::brake::brakes;
use redrive_proof::loss::replay::soak::ReplaySoak;
use redrive_proof::loss::replay::{self, ReplayArchive};
use redrive_proof::loss::soak::SoakSettings;
use redrive_proof::{circumstances, put};

const USAGE: &str = "soak [--function target/release/sns-redrive] [--letters 100000] [--seed NUMBER]
     [--alone matrix|replay|soak] [--only TEXT] [--at-once 48] [--log FILE] [--write docs/figures.md]

--only: scenarios and soaks of a replay whose names contain this, of the one matrix that runs alone
--log: what the function logs goes there
--write: the figures go into their place in this page, if nothing was wrong";

/// The parts that can run alone.
const PARTS: [&str; 3] = ["matrix", "replay", "soak"];

/// A function that runs a part; returns its tables, and whether every promise was kept. It waits at the barrier when most is
/// done.
type SoakPart = fn(&SoakArguments, &Barrier) -> (String, bool);

/// The share of letters that each soak of a replay replays: one in so many.
const REPLAYED_SHARE: usize = 10;

/// The most letters that a soak replays, because a FIFO queue needs many invocations to archive them.
const MOST_REPLAYED: usize = 2000;

/// The most scenarios that are run again because the machine may have been too slow. More than these are a fault.
const MOST_REPEATED: usize = 25;

/// How often such a scenario has to be good, alone.
const GOOD_REPEATS: usize = 3;

/// The most violations of the soak that are printed.
const MAX_REPORTED_VIOLATIONS: usize = 10;

struct SoakArguments {
    function: PathBuf,
    letters: usize,
    seed: u64,
    alone: Option<String>,
    only: String,
    at_once: usize,
    log: Option<PathBuf>,
    write: Option<PathBuf>,
}

fn main() -> ExitCode {
    redrive_proof::panics_are_failures();
    let Some(arguments) = SoakArguments::read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if !arguments.function.exists() {
        eprintln!("{} is not there", arguments.function.display());
        return ExitCode::from(2);
    }
    let wanted = |part: &str| arguments.alone.as_deref().is_none_or(|alone| alone == part);
    let mut page = format!("{}\n", circumstances());
    let mut good = true;
    // All parts run at the same time, because most of their time is waiting.
    let arguments = &arguments;
    let parts: [(&str, SoakPart); 3] = [("matrix", run_matrix), ("replay", run_replay), ("soak", run_soak)];
    let parts: Vec<_> = parts.into_iter().filter(|(part, _)| wanted(part)).collect();
    let ended = &Barrier::new(parts.len());
    std::thread::scope(|scope| {
        let parts: Vec<_> =
            parts.into_iter().map(|(_, run)| scope.spawn(move || run(arguments, ended))).collect();
        for part in parts {
            // A panic ends the process.
            let (text, is_good) = part.join().unwrap_or_default();
            println!("{text}");
            page.push_str(&text);
            good &= is_good;
        }
    });
    if !good {
        println!("A promise was broken.");
        return ExitCode::FAILURE;
    }
    if let Some(path) = &arguments.write {
        let whole = std::fs::read_to_string(path).unwrap_or_default();
        let whole = put(&whole, "losses", &page);
        if let Err(error) = std::fs::write(path, whole) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    }
    println!("Nothing was lost.");
    ExitCode::SUCCESS
}

fn run_matrix(arguments: &SoakArguments, ended: &Barrier) -> (String, bool) {
    let began = Instant::now();
    let mut scenarios = matrix::scenarios();
    scenarios.retain(|scenario| scenario.name().contains(&arguments.only));
    let live = |it: &matrix::MatrixScenario| it.run(&arguments.function, arguments.log.as_deref());
    let mut runs =
        matrix::run_all(&scenarios, arguments.at_once, live, |run: &ScenarioResult| println!("{run}"));
    ended.wait();
    let slow: Vec<_> = runs.iter_mut().filter(|run| run.may_be_slow()).collect();
    let repeated = slow.len();
    let mut told = String::new();
    if (1..=MOST_REPEATED).contains(&repeated) {
        println!("Was the machine too slow? {repeated} scenarios again, one at a time:");
        for run in slow {
            told.extend(["\n- ", &run.scenario.name(), ": ", &run.slow.join("; ")]);
            // The first of these that is not good stays.
            for _ in 0..GOOD_REPEATS {
                *run = live(&run.scenario);
                println!("{run}");
                if !run.is_good() {
                    break;
                }
            }
        }
    }
    let bad = runs.iter().filter(|run| !run.is_good()).count();
    println!("Cells that make no sense:\n\n{}", matrix::nonsense());
    let text = format!(
        "\n### Fault matrix\n\n{} scenarios, {bad} with a broken promise; {repeated} were run again alone; {:.0} s. A cell has \
         the duplicates of the standard and of the FIFO queue.{told}\n\n{}",
        runs.len(),
        began.elapsed().as_secs_f64(),
        matrix::table(&runs),
    );
    (text, bad == 0 && !runs.is_empty())
}

fn run_replay(arguments: &SoakArguments, ended: &Barrier) -> (String, bool) {
    let began = Instant::now();
    let (binary, log) = (arguments.function.as_path(), arguments.log.as_deref());
    let mut scenarios = replay::scenarios();
    scenarios.retain(|scenario| scenario.name().contains(&arguments.only));
    let mut brakes = brakes();
    brakes.retain(|brake| brake.name().contains(&arguments.only));
    let letters = (arguments.letters / REPLAYED_SHARE).min(MOST_REPLAYED);
    let mut soaks = replay::soak::soaks(letters, arguments.seed);
    soaks.retain(|soak| soak.name().contains(&arguments.only));
    let (runs, soaked, braked) = std::thread::scope(|scope| {
        let soaked = scope.spawn(|| {
            let fill = |fifo: bool| {
                let is_needed = soaks.iter().any(|soak| soak.is_fifo() == fifo);
                is_needed.then(|| replay::soak::fill(letters, fifo, binary, log))
            };
            let archives = [false, true].map(fill);
            let live =
                |it: &ReplaySoak| Some(it.run(archives[usize::from(it.is_fifo())].as_ref()?, binary, log));
            matrix::run_all(&soaks, soaks.len(), live, |run| run.iter().for_each(|run| println!("{run}")))
        });
        let archive = (!scenarios.is_empty() || !brakes.is_empty()).then(|| ReplayArchive::fill(binary, log));
        let braked: Vec<_> = brakes
            .iter()
            .filter_map(|brake| Some(brake.run(archive.as_ref()?, binary, log)))
            .inspect(|braked| println!("{braked}"))
            .collect();
        let live = |it: &replay::ReplayScenario| Some(it.run(archive.as_ref()?, binary, log));
        let tell = |run: &Option<_>| run.iter().for_each(|run| println!("{run}"));
        let runs = matrix::run_all(&scenarios, arguments.at_once, live, tell);
        // A panic ends the process.
        (runs, soaked.join().unwrap_or_default(), braked)
    });
    ended.wait();
    let runs: Vec<_> = runs.into_iter().flatten().collect();
    let soaked: Vec<_> = soaked.into_iter().flatten().collect();
    let bad = runs.iter().filter(|run| !run.is_good()).count();
    let bad_brakes = braked.iter().filter(|braked| !braked.is_good()).count();
    let bad_soaks = soaked.iter().filter(|soaked| !soaked.is_good()).count();
    let text = format!(
        "\n### Replay\n\n{} scenarios of {} letters, {bad} with a broken promise; {:.0} s. A cell has the duplicates by one \
         invocation, by the state machine, by redrivectl.\n\n{}\nFaults by chance at every call, seed {}, {bad_soaks} with a \
         broken promise:\n\n{}",
        runs.len(),
        replay::SELECTED,
        began.elapsed().as_secs_f64(),
        replay::table(&runs),
        arguments.seed,
        replay::soak::table(&soaked),
    );
    (text, bad + bad_soaks + bad_brakes == 0 && runs.len() + soaked.len() + braked.len() > 0)
}

fn run_soak(arguments: &SoakArguments, ended: &Barrier) -> (String, bool) {
    let &SoakArguments { letters, seed, .. } = arguments;
    println!("{letters} letters, seed {seed}");
    let soak = SoakSettings { binary: arguments.function.clone(), letters, seed, log: arguments.log.clone() };
    let tell = |since: Duration, rest: usize, waiting: usize| {
        println!("{:>6} s  {rest} letters are still to come, {waiting} messages wait", since.as_secs());
    };
    let soaked = soak.run(tell);
    ended.wait();
    let text = format!("\n### Soak\n\nSeed {seed}.\n\n{}", soaked.text());
    for violation in soaked.verdict().violations.iter().take(MAX_REPORTED_VIOLATIONS) {
        println!("seed {seed}: {violation}");
    }
    if soaked.left > 0 {
        println!("seed {seed}: {} messages did not leave the queues", soaked.left);
    }
    (text, soaked.is_good())
}

impl SoakArguments {
    /// Reads the arguments. The default seed is the time.
    fn read(mut given: impl Iterator<Item = String>) -> Option<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut all = Self {
            function: "target/release/sns-redrive".into(),
            letters: 100_000,
            seed: now.as_secs(),
            alone: None,
            only: String::new(),
            at_once: 48,
            log: None,
            write: None,
        };
        while let Some(name) = given.next() {
            let value = given.next()?;
            match name.as_str() {
                "--function" => all.function = value.into(),
                "--letters" => all.letters = value.parse().ok()?,
                "--seed" => all.seed = value.parse().ok()?,
                "--alone" if PARTS.contains(&value.as_str()) => all.alone = Some(value),
                "--only" => all.only = value,
                "--at-once" => all.at_once = value.parse().ok().filter(|it| *it > 0)?,
                "--log" => all.log = Some(value.into()),
                "--write" => all.write = Some(value.into()),
                _ => return None,
            }
        }
        Some(all)
    }
}

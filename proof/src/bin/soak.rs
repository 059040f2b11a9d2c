//! Tries to make the function lose a letter: see `proof::loss`.
#![allow(clippy::print_stdout, clippy::panic, reason = "a tool")]

use std::path::PathBuf;
use std::process::ExitCode;

use proof::loss::matrix::{self, Run};
use proof::loss::soak::Soak;

fn main() -> ExitCode {
    let mut binary = PathBuf::from("target/debug/sns-redrive");
    let mut only = String::new();
    let mut log = None;
    let (mut letters, mut seed) = (100_000, 1);
    let (mut matrix, mut soak) = (true, true);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--binary" => binary = arguments.next().unwrap_or_default().into(),
            "--only" => only = arguments.next().unwrap_or_default(),
            "--log" => log = arguments.next().map(PathBuf::from),
            "--letters" => letters = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(letters),
            "--seed" => seed = arguments.next().and_then(|it| it.parse().ok()).unwrap_or(seed),
            "--no-matrix" => matrix = false,
            "--no-soak" => soak = false,
            other => panic!("{other}?"),
        }
    }
    let mut good = true;
    if matrix {
        let mut scenarios = matrix::scenarios();
        scenarios.retain(|scenario| scenario.name().contains(&only));
        let tell = |run: &Run| {
            let verdict = &run.verdict;
            println!(
                "{:>6.1} s  {:<70} faults {:>2}  letters {} delivered {} archived {} lost {} duplicates {} {}",
                run.took.as_secs_f64(),
                run.scenario.name(),
                run.faults,
                verdict.letters,
                verdict.delivered,
                verdict.archived,
                verdict.lost,
                verdict.duplicates,
                if run.is_good() { "ok" } else { "FAILED" },
            );
            if let Some(fault) = &run.fault {
                println!("{fault}");
            }
            for violation in run.verdict.violations.iter().take(3) {
                println!("{}\n{}", violation.what, violation.history);
            }
        };
        let runs = matrix::run_all(&scenarios, &binary, 24, log.as_deref(), tell);
        let bad = runs.iter().filter(|run| !run.is_good()).count();
        println!("{} scenarios, {bad} failed", runs.len());
        good = bad == 0;
    }
    if soak {
        println!("seed {seed}");
        let soaked = Soak { binary, letters, seed, log }.run();
        println!("{}", soaked.text());
        println!("{:.1} s, {} invocations", soaked.took.as_secs_f64(), soaked.runs);
        for violation in soaked.verdict().violations.iter().take(5) {
            println!("{}\n{}", violation.what, violation.history);
        }
        good &= soaked.is_good();
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

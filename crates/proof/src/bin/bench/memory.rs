//! The memory of the process, idle and with batches up to the largest.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::letters::{LARGEST_EVENT, SizedPart, event};
use crate::page::FigureTable;
use crate::run::BenchProcess;
use crate::stat::{line, mebibytes, range};

const LATENCY: Duration = Duration::from_millis(10);

/// The batches of a measurement. The memory is that after the first ones; later ones reuse what they freed.
const BATCHES: usize = 5;

const SIZES: [(usize, &str); 3] = [(2_048, "2 KB"), (65_536, "64 KB"), (1_000_000, "1 MB")];

/// Results, all in mebibytes.
struct MemoryResult {
    event: f64,
    idle: f64,
    most: f64,
}

/// Returns two tables: the memory of batches by their size, and the memory that each additional byte takes.
pub(crate) fn tables(binary: &Path) -> [FigureTable; 2] {
    let mut table = FigureTable::new(
        "memory",
        "| letters are | batch | bytes of the event, MB | idle, MB | at most, MB | above idle, times the bytes |",
    );
    let mut slopes = FigureTable::new(
        "memory-slope",
        "| letters of | for each MB more of the event, MB | above idle before the first, MB |",
    );
    let mut full = Vec::new();
    for ((way, policy), shares) in ways().into_iter().zip([&[8, 4, 2, 1][..], &[1], &[1]]) {
        for (size, name) in SIZES {
            let record = event(1, size, SizedPart::Body, 1).len();
            let mut points = Vec::new();
            for share in shares {
                let letters = LARGEST_EVENT / share / record;
                if letters == 0 {
                    continue;
                }
                let measured = measure(binary, &policy, letters, size);
                table.rows.push(measured.row(way, &format!("{letters} of {name}")));
                eprintln!("{}", table.rows.last().expect("a row"));
                points.push((measured.event, measured.most - measured.idle));
                if *share == 1 {
                    full.push(measured);
                }
            }
            if points.len() > 1 {
                let (slope, first) = line(&points);
                slopes.rows.push(format!("| {name} | {slope:.1} | {first:.1} |"));
            }
        }
    }
    let many = event(LARGEST_BATCH, 1_024, SizedPart::Body, 1);
    let mut largest = Vec::new();
    for (way, policy) in ways() {
        let measured = measure_event(binary, &policy, &many, BATCHES);
        table.rows.push(measured.row(way, "10,000 of 1 KB"));
        eprintln!("{}", table.rows.last().expect("a row"));
        largest.push(measured.most);
    }
    let (least, most) = range(full.iter().map(MemoryResult::times));
    table.aim(
        "memory above idle at most 3 times the bytes of a full event",
        format!("{least:.1} to {most:.1}"),
        most <= 3.0,
    );
    let (_, most) = range(largest.into_iter());
    table.aim("a batch of 10,000 letters below 96 MB", format!("{most:.1} MB"), most < 96.0);
    let (_, most) = range(full.iter().map(|it| it.most));
    table.aim("a full event of 6 MB within 64 MB", format!("{most:.1} MB"), most <= 64.0);
    [table, slopes]
}

/// The most letters of a batch. Their handles and times alone are more bytes than an event may have, so this is more than
/// Lambda hands over.
const LARGEST_BATCH: usize = 10_000;

/// The smallest memory that Lambda gives a function, MB.
const SMALLEST: f64 = 128.0;

/// Checks that the largest batches fit into the least memory; returns those that do not. Lambda kills a
/// process that needs more, and the batch comes back, still too large.
pub(crate) fn limit(binary: &Path) -> Result<(), Vec<String>> {
    let mut faults = Vec::new();
    let events = [SIZES[0], SIZES[2]].map(|(size, name)| {
        let letters = LARGEST_EVENT / event(1, size, SizedPart::Body, 1).len();
        (format!("{letters} letters of {name}"), event(letters, size, SizedPart::Body, 1))
    });
    let many = ("10,000 letters of 1 KB".to_owned(), event(LARGEST_BATCH, 1_024, SizedPart::Body, 1));
    for (name, event) in events.iter().chain([&many]) {
        for (way, policy) in &ways() {
            let most = measure_event(binary, policy, event, 2).most;
            let text = format!("{name}, {way}: {most:.1} MB at most");
            println!("{text}");
            if most > SMALLEST {
                faults.push(format!("{text}, and {SMALLEST} MB are allowed"));
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Returns the outcomes that are measured, each with the policy for it.
fn ways() -> [(&'static str, Value); 3] {
    [
        ("to a queue", json!({ "default": { "target": "origin" } })),
        ("to a topic", json!({ "default": { "target": "topic" } })),
        ("archived", json!({ "default": { "action": "archive" } })),
    ]
}

impl MemoryResult {
    fn row(&self, way: &str, batch: &str) -> String {
        let Self { event, idle, most } = self;
        format!("| {way} | {batch} | {event:.1} | {idle:.1} | {most:.1} | {:.1} |", self.times())
    }

    fn times(&self) -> f64 {
        (self.most - self.idle) / self.event
    }
}

fn measure(binary: &Path, policy: &Value, letters: usize, size: usize) -> MemoryResult {
    measure_event(binary, policy, &event(letters, size, SizedPart::Body, 1), BATCHES)
}

fn measure_event(binary: &Path, policy: &Value, event: &str, batches: usize) -> MemoryResult {
    let mut run = BenchProcess::of_function(binary, policy, LATENCY, 1);
    run.allow_large_messages();
    let memory =
        |run: &BenchProcess, figure| mebibytes(run.sandbox.memory(figure).expect("a running process"));
    let idle = memory(&run, "VmRSS");
    for _ in 0..batches {
        let (_, kept) = run.invoke(event.to_owned());
        assert_eq!(kept, 0, "every letter goes");
    }
    MemoryResult {
        event: mebibytes(event.len().try_into().expect("six million")),
        idle,
        most: memory(&run, "VmHWM"),
    }
}

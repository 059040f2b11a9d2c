//! Memory of the process, idle and with batches up to the largest.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::letters::{LARGEST_EVENT, Sized, event};
use crate::page::Table;
use crate::run::Run;
use crate::stat::mebibytes;

const LATENCY: Duration = Duration::from_millis(10);

/// Memory is as the first batches leave it; later ones find it freed.
const BATCHES: usize = 5;

pub(crate) fn table(binary: &Path) -> Table {
    let mut table = Table::new(
        "memory",
        "| batch | bytes of the event, MB | before any, MB | after one letter, MB | at most, MB | above that letter, times the bytes |",
    );
    for (size, name) in [(2_048, "2 KB"), (65_536, "64 KB"), (1_000_000, "1 MB")] {
        for share in [8, 4, 2, 1] {
            let record = event(1, size, Sized::Body, 1).len();
            let letters = LARGEST_EVENT / share / record;
            if letters == 0 {
                continue;
            }
            table.rows.push(row(binary, letters, size, name));
            eprintln!("{}", table.rows.last().expect("a row"));
        }
    }
    table
}

fn row(binary: &Path, letters: usize, size: usize, name: &str) -> String {
    let policy = json!({ "default": { "target": "origin" } });
    let mut run = Run::of_function(binary, &policy, LATENCY, 1);
    let memory = |run: &Run, figure| run.sandbox.memory(figure).expect("a running process");
    let before = memory(&run, "VmRSS");
    run.invoke(event(1, 2_048, Sized::Body, 1));
    let idle = memory(&run, "VmHWM");
    let event = event(letters, size, Sized::Body, 1);
    let bytes = u64::try_from(event.len()).expect("six million");
    for _ in 0..BATCHES {
        run.invoke(event.clone());
    }
    let most = memory(&run, "VmHWM");
    format!(
        "| {letters} of {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
        mebibytes(bytes),
        mebibytes(before),
        mebibytes(idle),
        mebibytes(most),
        mebibytes(most - idle) / mebibytes(bytes)
    )
}

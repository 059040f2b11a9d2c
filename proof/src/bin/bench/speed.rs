//! Letters a second of one instance, and of a function that only sends.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

use crate::letters::{LARGEST_EVENT, QUEUE, Sized, event, raw_event, topic};
use crate::page::Table;
use crate::run::{Binaries, Run};
use crate::stat::{median, per_second};

/// What a call of AWS takes.
const LATENCY: Duration = Duration::from_millis(10);

/// How long one row is measured, once without looking.
const WARM: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(3);

/// A batch that is larger than an event may be ends with it, or is left out.
const BATCHES: [usize; 3] = [10, 100, 1_000];
const SIZES: [(usize, &str); 2] = [(1_024, "1 KB"), (65_536, "64 KB")];

pub(crate) fn table(binaries: &Binaries) -> Table {
    let mut table = Table::new(
        "speed",
        "| letters | size | batch | a second | CPU each, µs | bare function, a second | CPU each, µs | ratio |",
    );
    for (target, name) in [("origin", "sent to a queue"), ("topic", "published to a topic")] {
        for (size, size_name) in SIZES {
            for batch in BATCHES {
                let sized = if target == "origin" { Sized::Body } else { Sized::Message };
                let records = batch.min(LARGEST_EVENT / (size + 2_200));
                if records < batch / 2 {
                    continue;
                }
                let policy = json!({ "default": { "target": target } });
                let function = Run::of_function(&binaries.function, &policy, LATENCY, 1);
                let event = event(records, size, sized, 1);
                let ours = measure(function, records, || event.clone());
                let bare_target = if target == "origin" { QUEUE.to_owned() } else { topic(0) };
                let mut row =
                    format!("| {name} | {size_name} | {records} | {:.0} | {:.0} |", ours.rate, ours.cpu);
                if let Some(bare) = &binaries.bare {
                    let bare = Run::of_bare(bare, &bare_target, LATENCY);
                    let event = if target == "origin" { event.clone() } else { raw_event(records, size) };
                    let theirs = measure(bare, records, || event.clone());
                    let ratio = ours.rate / theirs.rate;
                    let _ = write!(row, " {:.0} | {:.0} | {ratio:.2} |", theirs.rate, theirs.cpu);
                }
                table.rows.push(row);
                eprintln!("{}", table.rows.last().expect("a row"));
            }
        }
    }
    table
}

struct Measured {
    /// Letters a second, the median of the invocations.
    rate: f64,
    /// Microseconds of processor time a letter.
    cpu: f64,
}

fn measure(mut run: Run, letters: usize, event: impl Fn() -> String) -> Measured {
    let mut warm = Duration::ZERO;
    while warm < WARM {
        warm += run.invoke(event()).0;
    }
    let (mut times, mut total) = (Vec::new(), Duration::ZERO);
    let cpu = run.sandbox.processor_time();
    while total < MEASURED || times.len() < 5 {
        let (took, kept) = run.invoke(event());
        assert_eq!(kept, 0, "every letter goes");
        times.push(took);
        total += took;
    }
    let cpu = run.sandbox.processor_time().saturating_sub(cpu);
    let handled = u32::try_from(letters * times.len()).expect("fewer than billions");
    Measured {
        rate: per_second(letters, median(&mut times)),
        cpu: cpu.as_secs_f64() * 1e6 / f64::from(handled),
    }
}

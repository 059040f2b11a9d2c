//! The letters a second of one instance, and of a function that only sends.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

use crate::letters::{LARGEST_EVENT, QUEUE, SizedPart, event, raw_event, topic};
use crate::page::{FigureTable, thousands};
use crate::run::{BenchBinaries, BenchProcess};
use crate::stat::{median, per_second};

/// The time that a call of AWS takes.
const LATENCY: Duration = Duration::from_millis(10);

/// The time that a process works before it is measured.
const WARM: Duration = Duration::from_millis(500);

/// The time of a turn, and the number of turns. A machine's speed varies by the second, so both processes
/// take turns shorter than that, but long enough not to begin with the other's caches.
const TURN: Duration = Duration::from_millis(200);
const TURNS: usize = 15;

/// The sizes of batches. A batch larger than an event may be is cut to fit, or left out.
const BATCHES: [usize; 3] = [10, 100, 1_000];
const SIZES: [(usize, &str); 2] = [(1_024, "1 KB"), (65_536, "64 KB")];

pub(crate) fn table(binaries: &BenchBinaries) -> FigureTable {
    let mut table = FigureTable::new(
        "speed",
        "| letters | size | batch | a second | CPU each, µs | bare function, a second | CPU each, µs | ratio |",
    );
    let mut large = Vec::new();
    for (target, name, aim) in [("origin", "to a queue", 0.9), ("topic", "to a topic", 0.85)] {
        for (size, size_name) in SIZES {
            for batch in BATCHES {
                let sized = if target == "origin" { SizedPart::Body } else { SizedPart::Message };
                let records = batch.min(LARGEST_EVENT / (size + 2_200));
                if records < batch / 2 {
                    continue;
                }
                let policy = json!({ "default": { "target": target } });
                let function =
                    BenchProcess::of_function(&binaries.function, &policy, LATENCY, 1).with_raw_subscriber();
                let mut sides = vec![MeasuredProcess::new(function, event(records, size, sized, 1))];
                if let Some(bare) = &binaries.bare {
                    // A topic gets SNS's message alone.
                    let (to, event) = match sized {
                        SizedPart::Body => (QUEUE.to_owned(), event(records, size, sized, 1)),
                        SizedPart::Message => (topic(0), raw_event(records, size)),
                    };
                    sides.push(MeasuredProcess::new(
                        BenchProcess::of_bare(bare, &to, LATENCY).with_raw_subscriber(),
                        event,
                    ));
                }
                for _ in 0..TURNS {
                    for side in &mut sides {
                        side.turn(TURN);
                    }
                }
                let measured: Vec<_> = sides.into_iter().map(|side| side.measured(records)).collect();
                let mut row = format!("| {name} | {size_name} | {records} |");
                for SpeedResult { rate, cpu } in &measured {
                    let _ = write!(row, " {rate:.0} | {cpu:.0} |");
                }
                let ratio = measured.get(1).map(|bare| measured[0].rate / bare.rate);
                row += &ratio.map_or_else(|| " | | |".to_owned(), |ratio| format!(" {ratio:.2} |"));
                if records == 1_000 {
                    large.push((name, aim, measured[0].rate, ratio));
                }
                table.rows.push(row);
                eprintln!("{}", table.rows.last().expect("a row"));
            }
        }
    }
    for (name, aim, rate, ratio) in large {
        table.aim(&format!("25,000 letters a second {name}"), thousands(rate), rate >= 25_000.0);
        if let Some(ratio) = ratio {
            table.aim(&format!("{aim} of the bare function {name}"), format!("{ratio:.2}"), ratio >= aim);
        }
    }
    table
}

struct SpeedResult {
    /// Letters a second, the median of the invocations.
    rate: f64,
    /// Microseconds of processor time a letter.
    cpu: f64,
}

/// A process that is measured in turns with another.
struct MeasuredProcess {
    run: BenchProcess,
    event: String,
    times: Vec<Duration>,
    /// The processor time of the process before the first turn.
    before: Duration,
}

impl MeasuredProcess {
    /// Creates a side that is warm and ready for its first turn.
    fn new(run: BenchProcess, event: String) -> Self {
        let mut side = Self { run, event, times: Vec::new(), before: Duration::ZERO };
        side.turn(WARM);
        side.times.clear();
        drop(side.run.take_counts());
        side.before = side.run.sandbox.processor_time();
        side
    }

    fn turn(&mut self, time: Duration) {
        let mut total = Duration::ZERO;
        while total < time {
            let (took, kept) = self.run.invoke(self.event.clone());
            assert_eq!(kept, 0, "every letter goes");
            self.times.push(took);
            total += took;
        }
    }

    fn measured(mut self, letters: usize) -> SpeedResult {
        let cpu = self.run.sandbox.processor_time().saturating_sub(self.before);
        let counts = self.run.take_counts();
        let refused: usize = counts.values().map(|count| count.refused).sum();
        assert_eq!(refused, 0, "every request is within the limits of AWS");
        let sends = ["SendMessageBatch", "PublishBatch"].into_iter().filter_map(|name| counts.get(name));
        let handled = letters * self.times.len();
        assert_eq!(sends.map(|count| count.entries).sum::<usize>(), handled, "every letter is sent");
        let handled = u32::try_from(handled).expect("fewer than billions");
        SpeedResult {
            rate: per_second(letters, median(&mut self.times)),
            cpu: cpu.as_secs_f64() * 1e6 / f64::from(handled),
        }
    }
}

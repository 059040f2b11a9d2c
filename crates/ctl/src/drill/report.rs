//! The planned and observed steps of a drill, with times.

use std::io::Write;

use serde::Serialize;
use tokio::time::Instant;

use crate::tables::{clock, harmless, wrapped};

/// The width of the output, and the column at which texts begin.
const WIDTH: usize = 110;
const INDENT: usize = 11;

/// A step of a drill.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DrillStep {
    name: &'static str,
    planned: String,
    /// The observed result, or the error.
    seen: String,
    ok: bool,
    /// Seconds after the drill began.
    began_after: u64,
    ended_after: u64,
}

/// The steps so far.
pub(super) struct DrillReport<'a> {
    out: &'a mut (dyn Write + Send),
    as_json: bool,
    began: Instant,
    steps: Vec<DrillStep>,
}

impl<'a> DrillReport<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), as_json: bool) -> Self {
        Self { out, as_json, began: Instant::now(), steps: Vec::new() }
    }

    /// Begins a step.
    pub(super) fn begin(&mut self, name: &'static str, planned: String) -> std::io::Result<()> {
        let now = self.began.elapsed().as_secs();
        let said = self.write(&format!("{}  {name:<8}  planned  {planned}", clock(now)));
        let seen = String::new();
        self.steps.push(DrillStep { name, planned, seen, ok: false, began_after: now, ended_after: now });
        said
    }

    /// Ends the current step.
    pub(super) fn end(&mut self, ok: bool, seen: &str) -> std::io::Result<()> {
        let now = self.began.elapsed().as_secs();
        let seen = harmless(seen);
        let word = if ok { "seen   " } else { "failed " };
        let said = self.write(&format!("{}  {:8}  {word}  {seen}", clock(now), ""));
        if let Some(step) = self.steps.last_mut() {
            (step.seen, step.ok, step.ended_after) = (seen, ok, now);
        }
        said
    }

    /// Prints a line besides the steps. A failed write does not matter.
    pub(super) fn say(&mut self, line: &str) {
        let _ = self.write(line);
    }

    fn write(&mut self, line: &str) -> std::io::Result<()> {
        if !self.as_json {
            writeln!(self.out, "{line}")?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Returns whether every step that was begun was seen as planned.
    pub(super) fn is_whole(&self) -> bool {
        self.steps.iter().all(|step| step.ok)
    }

    pub(super) fn steps(&self) -> &[DrillStep] {
        &self.steps
    }
}

/// Returns rows of a name and a text, indented, and not wider than a terminal.
pub(super) fn rows(rows: &[(&str, String)]) -> String {
    let row = |(name, text): &(&str, String)| {
        let text = wrapped(&harmless(text), WIDTH - INDENT, 0).replace('\n', &format!("\n{:INDENT$}", ""));
        format!("  {name:7}  {text}\n")
    };
    rows.iter().map(row).collect()
}

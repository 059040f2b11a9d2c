//! The page of figures: tables put into their places.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A table of the page, by the name that its place there has.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) head: &'static str,
    pub(crate) rows: Vec<String>,
}

impl Table {
    pub(crate) fn new(name: &'static str, head: &'static str) -> Self {
        Self { name, head, rows: Vec::new() }
    }

    /// In Markdown, every column but the first to the right.
    pub(crate) fn text(&self) -> String {
        let columns = self.head.matches('|').count() - 1;
        let rules: String = (0..columns).map(|column| if column < 1 { "---|" } else { "---:|" }).collect();
        format!("{}\n|{rules}\n{}\n", self.head, self.rows.join("\n"))
    }
}

/// What a program said, as it said it.
pub(crate) fn verbatim(told: &str) -> String {
    let lines = told.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.flat_map(|line| ["    ", line, "\n"]).collect()
}

/// The size of a file, and in a zip, bytes.
pub(crate) fn sizes(file: &Path) -> (usize, usize) {
    let content = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let zipped = Command::new("gzip").args(["-9", "-c"]).arg(file).output().expect("gzip");
    (content.len(), zipped.stdout.len())
}

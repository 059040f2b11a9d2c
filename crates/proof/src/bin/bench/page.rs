//! The page of figures, with tables put into their places.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A table of the page, with the name of its place there.
pub(crate) struct FigureTable {
    pub(crate) name: &'static str,
    pub(crate) head: &'static str,
    pub(crate) rows: Vec<String>,
    /// The comparison of its figures with the aims: rows of the table of aims.
    pub(crate) aims: Vec<String>,
}

impl FigureTable {
    pub(crate) fn new(name: &'static str, head: &'static str) -> Self {
        Self { name, head, rows: Vec::new(), aims: Vec::new() }
    }

    /// Adds an aim with the figure, and whether it is met.
    pub(crate) fn aim(&mut self, aim: &str, figure: impl Display, met: bool) {
        self.aims.push(format!("| {aim} | {figure} | {} |", if met { "yes" } else { "no" }));
    }

    /// Returns the table in Markdown; every column but the first is aligned to the right.
    pub(crate) fn text(&self) -> String {
        let columns = self.head.matches('|').count() - 1;
        let rules: String = (0..columns).map(|column| if column < 1 { "---|" } else { "---:|" }).collect();
        format!("{}\n|{rules}\n{}\n", self.head, self.rows.join("\n"))
    }
}

/// Formats a whole number with commas.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let comma = |(index, digit)| {
        let comma = index > 0 && (digits.len() - index) % 3 == 0;
        comma.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

/// Returns the size of a file, alone and in a zip, in bytes.
pub(crate) fn sizes(file: &Path) -> (usize, usize) {
    let content = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let zipped = Command::new("gzip").args(["-9", "-c"]).arg(file).output().expect("gzip");
    (content.len(), zipped.stdout.len())
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn commas_are_between_thousands() {
        assert_eq!(
            [0.4, 999.0, 1_000.0, 14_212.4, 1_887_000.0].map(thousands),
            ["0", "999", "1,000", "14,212", "1,887,000"]
        );
    }
}

//! Tables and wrapped lines. Times, numbers, names and untrusted text are written as in the console.

use std::collections::{BTreeMap, BTreeSet};

use redrive_console::text::ShortName;
pub(super) use redrive_console::text::{brief, clock, command_line, count, harmless, thousands, utc};
use redrive_core::arn::{Arn, ArnKind};

/// How results are written as text.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextStyle {
    /// True if names are whole ARNs.
    pub(crate) wide: bool,
    /// True if a terminal shows colours.
    pub(crate) colours: bool,
}

impl TextStyle {
    /// Returns a headline.
    pub(crate) fn head(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Returns a text that needs a person.
    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Sets an attribute of ECMA-48 for a text, and no attribute after it.
    fn paint(self, attribute: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{attribute}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Returns rows of cells as a table whose first row is its head. The rows in `red` need a person.
    pub(crate) fn table(self, rows: &[Vec<String>], right: &[usize], red: &[usize]) -> String {
        let lines = lines(rows, right).into_iter().enumerate().map(|(row, line)| match row {
            0 => self.head(&line),
            row if red.contains(&row) => self.red(&line),
            _ => line,
        });
        lines.map(|line| line + "\n").collect()
    }
}

/// The names in one result. They are short, except those that two ARNs would share.
#[derive(Debug, Default)]
pub(crate) struct TableNames {
    wide: bool,
    /// The texts that are written whole.
    whole: BTreeSet<String>,
}

impl TableNames {
    /// Returns the names for these ARNs, names of targets or other texts.
    pub(crate) fn of<'t>(texts: impl IntoIterator<Item = &'t str>, style: TextStyle) -> Self {
        let mut named: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for text in texts {
            named.entry(short(text)).or_default().insert(text);
        }
        let shared = named.into_values().filter(|texts| texts.len() > 1).flatten();
        Self { wide: style.wide, whole: shared.map(str::to_owned).collect() }
    }

    pub(crate) fn name(&self, text: &str) -> String {
        if self.wide || self.whole.contains(text) { harmless(text) } else { short(text) }
    }
}

/// Returns what people call something on AWS, or somebody.
fn short(text: &str) -> String {
    let caller = text.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Other);
    match caller.as_ref().and_then(|arn| arn.resource().split_once('/')) {
        // Of arn:aws:sts::123456789012:assumed-role/operator/ada the role and its session.
        Some((_, name)) if !name.is_empty() => harmless(name),
        _ => ShortName::of(text).name,
    }
}

/// Returns a progress bar: `[#####...............]`.
pub(super) fn bar(done: u64, all: u64) -> String {
    const LENGTH: u64 = 20;
    let full = (done * LENGTH).checked_div(all).unwrap_or(LENGTH).min(LENGTH);
    let bar: String = (0..LENGTH).map(|at| if at < full { '#' } else { '.' }).collect();
    format!("[{bar}]")
}

/// Returns rows of cells as a table: columns two spaces apart, those in `right` aligned to the right.
pub(super) fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    lines(rows, right).into_iter().map(|line| line + "\n").collect()
}

fn lines(rows: &[Vec<String>], right: &[usize]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if right.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Wraps a text into lines of at most `width` characters; those after the first begin with `indent` spaces.
pub(super) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let used = lines.last().map_or(0, |line| line.chars().count());
        if used > indent && used + 1 + word.chars().count() > width {
            lines.push(" ".repeat(indent));
        } else if used > 0 {
            lines.last_mut().into_iter().for_each(|line| line.push(' '));
        }
        lines.last_mut().into_iter().for_each(|line| line.push_str(word));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_and_indented() {
        assert_eq!(wrapped("note: one two three four", 13, 2), "note: one two\n  three four");
        assert_eq!(wrapped("unbreakable", 4, 2), "unbreakable");
    }

    #[test]
    fn tables_are_as_wide_as_their_cells() {
        let rows = [vec!["retry".into(), "phase".into()], vec!["1".into(), "backoff".into()]];
        assert_eq!(table(&rows, &[0]), "retry  phase\n    1  backoff\n");
    }

    #[test]
    fn colours_leave_the_columns_alone() {
        let rows =
            [vec!["a".into(), "b".into()], vec!["1".into(), "2".into()], vec!["10".into(), "3".into()]];
        let plain = TextStyle::default().table(&rows, &[0], &[2]);
        assert_eq!(plain, " a  b\n 1  2\n10  3\n");
        let coloured = TextStyle { colours: true, ..TextStyle::default() }.table(&rows, &[0], &[2]);
        assert_eq!(coloured, "\u{1b}[1m a  b\u{1b}[0m\n 1  2\n\u{1b}[31m10  3\u{1b}[0m\n");
    }

    #[test]
    fn a_name_is_short_unless_two_arns_would_share_it() {
        let [worker, far, topic] = [
            "arn:aws:sqs:eu-central-1:123456789012:payments-worker",
            "arn:aws:sqs:us-east-1:123456789012:payments-worker",
            "arn:aws:sns:eu-central-1:123456789012:payments",
        ];
        let caller = "arn:aws:sts::123456789012:assumed-role/operator/ada";
        let narrow = TextStyle::default();
        let named = |texts: &[&str], style| {
            let names = TableNames::of(texts.iter().copied(), style);
            texts.iter().map(|text| names.name(text)).collect::<Vec<_>>()
        };
        assert_eq!(
            named(&[worker, topic, caller, "ada", topic], narrow),
            ["payments-worker", "payments", "operator/ada", "ada", "payments"]
        );
        assert_eq!(named(&[worker, far, topic], narrow), [worker, far, "payments"]);
        assert_eq!(named(&[worker, topic], TextStyle { wide: true, ..narrow }), [worker, topic]);
    }
}

//! Tables and wrapped lines. Times, numbers and untrusted text are written as in the console.

pub(super) use redrive_console::text::{brief, clock, command_line, count, harmless, thousands, utc};

/// Returns a progress bar: `[#####...............]`.
pub(super) fn bar(done: u64, all: u64) -> String {
    const LENGTH: u64 = 20;
    let full = (done * LENGTH).checked_div(all).unwrap_or(LENGTH).min(LENGTH);
    let bar: String = (0..LENGTH).map(|at| if at < full { '#' } else { '.' }).collect();
    format!("[{bar}]")
}

/// Returns rows of cells as a table: columns two spaces apart, those in `right` aligned to the right.
pub(super) fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if right.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
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
}

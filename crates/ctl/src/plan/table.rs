//! A timetable as a table.

use jiff::Timestamp;
use redrive_console::schedule::{Timetable, TimetableRow};
use redrive_core::policy::plus;

use crate::tables::{clock, count, table, thousands, utc};

/// The largest number of retries that is shown completely.
const SHORT_TABLE_RETRIES: usize = 40;

/// The numbers of retries shown at the beginning and the end of each phase of a longer schedule.
const AT_BEGINNING: u32 = 3;
const AT_END: u32 = 2;

/// Returns the table, with gaps in long schedules unless `all`.
pub(super) fn draw(timetable: &Timetable, arrival: Timestamp, all: bool) -> String {
    let heads = ["retry", "phase", "delay", "since arrival", "clock (UTC)", ""];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    let mut hidden: Vec<&TimetableRow> = Vec::new();
    for row in &timetable.rows {
        if all || is_shown(row, timetable) {
            lines.extend(gap(&hidden));
            hidden.clear();
            lines.push(line(row, arrival));
        } else {
            hidden.push(row);
        }
    }
    lines.extend(gap(&hidden));
    table(&lines, &[0, 2, 3])
}

fn is_shown(row: &TimetableRow, timetable: &Timetable) -> bool {
    let last = timetable.last;
    timetable.rows.len() <= SHORT_TABLE_RETRIES
        || (row.retry == last || row.retry == last + 1)
        || timetable
            .span(row.phase)
            .is_some_and(|(first, last)| row.retry < first + AT_BEGINNING || row.retry + AT_END > last)
}

fn line(row: &TimetableRow, arrival: Timestamp) -> Vec<String> {
    let note = match (row.fits, row.hidings) {
        (false, _) => "not made".to_owned(),
        (true, 0 | 1) => String::new(),
        (true, hidings) => format!("hidden {hidings} times"),
    };
    vec![
        thousands(row.retry.into()),
        row.phase.name().to_owned(),
        format!("{} s", thousands(row.delay)),
        clock(row.since),
        utc(plus(arrival, row.since)),
        note,
    ]
}

/// Returns the line for retries that are left out.
fn gap(hidden: &[&TimetableRow]) -> Option<Vec<String>> {
    let (first, last) = (hidden.first()?, hidden.last()?);
    let delay = if first.delay == last.delay {
        format!("{} s", thousands(first.delay))
    } else {
        format!("{} to {} s", thousands(first.delay), thousands(last.delay))
    };
    let more = format!("({} more)", thousands(hidden.len() as u64));
    Some(vec!["...".to_owned(), more, delay])
}

/// Returns the note on retries that are left out.
pub(super) fn abridged(timetable: &Timetable) -> Option<String> {
    let left_out = timetable.rows.iter().filter(|row| !is_shown(row, timetable)).count();
    let left_out = count(left_out as u64, "retry");
    timetable
        .rows
        .iter()
        .any(|row| !is_shown(row, timetable))
        .then(|| format!("{left_out} left out; --all shows them."))
}

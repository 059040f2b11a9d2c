//! A timetable as a chart of characters, at most 80 wide.

use redrive_console::schedule::{Axis, Timetable, TimetableRow, float};
use redrive_core::policy::RetryPhase;

use crate::tables::{brief, thousands};

const HEIGHT: usize = 12;
const WIDTH: usize = 68;
/// The width of the delays on the left.
const MARGIN: usize = 9;
/// The width of the legend.
const LEGEND: usize = 76;

const PHASES: [(RetryPhase, char); 4] = [
    (RetryPhase::Immediate, '.'),
    (RetryPhase::PreBackoff, 'o'),
    (RetryPhase::Backoff, '#'),
    (RetryPhase::PostBackoff, '='),
];

/// Draws the delay before each retry.
pub(super) fn draw(timetable: &Timetable) -> String {
    if timetable.rows.is_empty() {
        return String::new();
    }
    let (x, y) = (Axis::of_retries(timetable), Axis::of_delays(timetable));
    let columns = columns(timetable, x);
    let ticks = y.delay_ticks(1.5 / float(HEIGHT as u64));
    let height = |delay: u64| level(y, delay);
    let scale = |axis: Axis| if axis.log { ", logarithmic scale" } else { "" };

    let mut text = format!("{:>MARGIN$}   delay before each retry{}\n", "", scale(y));
    for row in (1..=HEIGHT).rev() {
        let tick = ticks.iter().find(|tick| height(**tick) == row);
        let label = tick.map_or(String::new(), |tick| brief(*tick));
        let cells: String = columns.iter().map(|row_of| cell(row_of.as_ref(), row, y)).collect();
        let edge = if tick.is_some() { '+' } else { '|' };
        text.push_str(format!("{label:>MARGIN$} {edge}{cells}").trim_end());
        text.push('\n');
    }
    // Retries without delay are on the axis itself.
    let floor: String =
        columns.iter().map(|row| if row.is_some_and(|row| row.delay == 0) { '.' } else { '-' }).collect();
    let zero = if y.log { "" } else { "0 s" };
    [
        text,
        format!("{zero:>MARGIN$} +{floor}\n"),
        numbers(timetable, x, columns.len()),
        format!("{:>MARGIN$}   number of the retry{}\n", "", scale(x)),
        legend(timetable),
    ]
    .concat()
}

/// Returns the row that each column of the chart shows: the last one, if several share a column.
fn columns(timetable: &Timetable, x: Axis) -> Vec<Option<TimetableRow>> {
    let each = WIDTH / timetable.rows.len();
    if !x.log && each >= 1 {
        // Every retry is a bar, with a gap if there is room for one.
        let width = each.min(6);
        let bar = |row: &TimetableRow| {
            let body = if width > 1 { width - 1 } else { 1 };
            (0..width).map(move |index| (index < body).then_some(*row)).collect::<Vec<_>>()
        };
        return timetable.rows.iter().flat_map(bar).collect();
    }
    let mut columns: Vec<Option<TimetableRow>> = vec![None; WIDTH];
    for row in &timetable.rows {
        columns[column(x, row.retry, WIDTH)] = Some(*row);
    }
    // On a logarithmic axis the first retries are wider than a column.
    for index in 1..columns.len() {
        columns[index] = columns[index].or(columns[index - 1]);
    }
    columns
}

fn column(x: Axis, retry: u32, width: usize) -> usize {
    let place = x.place(f64::from(retry)) * float(width as u64 - 1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the width")]
    let column = place.round() as usize;
    column
}

/// Returns the line that a delay reaches, from 1 at the bottom.
fn level(y: Axis, delay: u64) -> usize {
    let place = y.place(float(delay)) * float(HEIGHT as u64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the height")]
    let level = place.ceil() as usize;
    level.clamp(1, HEIGHT)
}

fn cell(row: Option<&TimetableRow>, line: usize, y: Axis) -> char {
    let Some(row) = row else { return ' ' };
    let level = if row.delay == 0 { 0 } else { level(y, row.delay) };
    let mark = PHASES.iter().find(|(phase, _)| *phase == row.phase).map_or(' ', |(_, mark)| *mark);
    match line {
        _ if line > level => ' ',
        _ if row.fits => mark,
        // The retry is never made, so only its outline is drawn.
        _ if line == level => mark,
        _ => ' ',
    }
}

/// Returns the numbers of the retries below the chart.
fn numbers(timetable: &Timetable, x: Axis, width: usize) -> String {
    let retries = timetable.schedule.retries;
    let mut line = vec![' '; width + 8];
    let bars = width / timetable.rows.len().max(1);
    let at = |retry: u32| {
        if !x.log && bars >= 1 { (retry as usize - 1) * bars } else { column(x, retry, width) }
    };
    let mut free_from = 0;
    for retry in x.retry_ticks(retries, 7.0 / float(width as u64)) {
        let text = thousands(retry.into());
        let start = if retry == retries { at(retry).min(width - text.len().min(width)) } else { at(retry) };
        if start < free_from {
            continue;
        }
        for (index, digit) in text.chars().enumerate() {
            line[start + index] = digit;
        }
        free_from = start + text.len() + 1;
    }
    let line: String = line.into_iter().collect();
    format!("{:>MARGIN$}  {}\n", "", line.trim_end())
}

/// Returns the meaning of the marks, in lines that fit.
fn legend(timetable: &Timetable) -> String {
    let mut entries: Vec<_> = PHASES
        .iter()
        .filter_map(|(phase, mark)| {
            let (first, last) = timetable.span(*phase)?;
            let span = if first == last { first.to_string() } else { format!("{first}-{last}") };
            Some(format!("{mark} {} {span}", phase.name()))
        })
        .collect();
    if !timetable.fits() {
        entries.push("hollow: not made".to_owned());
    }
    let mut lines: Vec<String> = Vec::new();
    for entry in entries {
        match lines.last_mut() {
            Some(line) if line.len() + 3 + entry.len() <= LEGEND => {
                line.push_str("   ");
                line.push_str(&entry);
            }
            _ => lines.push(entry),
        }
    }
    let lines: Vec<_> = lines.iter().map(|line| format!("   {line}\n")).collect();
    lines.concat()
}

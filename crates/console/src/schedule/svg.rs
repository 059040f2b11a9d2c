//! A timetable as a chart: the delay before each retry, with the four phases.
//!
//! It brings its own background, so that it is readable on light pages and on dark ones. Its colours are
//! Okabe and Ito's: people with colour blindness can tell them apart.

use std::fmt::Write as _;

use redrive_core::policy::{RetryPhase, Rule, VISIBILITY_CEILING};

use super::scale::Axis;
use super::timetable::{Timetable, TimetableRow, float};
use crate::text::{brief, clock, harmless, thousands};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 470.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 924.0;
const TOP: f64 = 96.0;
const BOTTOM: f64 = 380.0;
/// The height of the strip for retries without delay, on a logarithmic axis.
const STRIP: f64 = 26.0;

/// Up to this many retries, each one is a dot of full size.
const MAX_FULL_DOTS: usize = 60;

const PHASES: [(RetryPhase, &str); 4] = [
    (RetryPhase::Immediate, "#9c4f7c"),
    (RetryPhase::PreBackoff, "#0072b2"),
    (RetryPhase::Backoff, "#c75000"),
    (RetryPhase::PostBackoff, "#00805c"),
];

/// The retries that the waiting letters wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRetries {
    /// The lowest number.
    pub first: u32,
    /// The highest number.
    pub last: u32,
}

/// Draws a panel for each rule, one below the other, with the position of the waiting letters if known.
#[must_use]
pub fn draw(timetables: &[(&Rule, Timetable)], now: Option<PendingRetries>) -> String {
    let height = HEIGHT * float(timetables.len() as u64);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#24292f">
<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>
<defs><pattern id="not-made" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2" height="7" fill="#6e7781" fill-opacity="0.35"/></pattern></defs>
"##
    );
    for (index, (rule, timetable)) in timetables.iter().enumerate() {
        let down = HEIGHT * float(index as u64);
        // Writing to a String cannot fail.
        let _ = writeln!(svg, r#"<g transform="translate(0 {down})">"#);
        svg.push_str(&ChartPanel::new(rule, timetable).draw(now));
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

struct ChartPanel<'a> {
    rule: &'a Rule,
    timetable: &'a Timetable,
    x: Axis,
    y: Axis,
    /// The lower end of the axis of delays, above the strip.
    floor: f64,
    /// True if the chart has a place for a delay of zero: on a linear axis, or in the strip.
    has_zero: bool,
    out: String,
}

impl<'a> ChartPanel<'a> {
    fn new(rule: &'a Rule, timetable: &'a Timetable) -> Self {
        let (x, y) = (Axis::of_retries(timetable), Axis::of_delays(timetable));
        let immediate = timetable.span(RetryPhase::Immediate).is_some();
        let floor = if y.log && immediate { BOTTOM - STRIP } else { BOTTOM };
        let has_zero = !y.log || immediate;
        Self { rule, timetable, x, y, floor, has_zero, out: String::new() }
    }

    fn draw(mut self, now: Option<PendingRetries>) -> String {
        self.titles();
        if self.timetable.rows.is_empty() {
            self.text((f64::midpoint(LEFT, RIGHT), f64::midpoint(TOP, BOTTOM)), "middle", "no retries");
            return self.out;
        }
        self.phases();
        self.delays();
        self.retries();
        self.not_made();
        self.ceiling();
        self.dots();
        self.frame();
        if let Some(now) = now {
            self.now(now);
        }
        self.out
    }

    fn titles(&mut self) {
        let timetable = self.timetable;
        let retries = thousands(timetable.schedule.retries.into());
        let title = format!("Rule {}: {retries} retries over {}", self.rule.name, clock(timetable.length()));
        self.line(&format!(
            r#"<text x="{LEFT}" y="30" font-size="18" font-weight="bold">{}</text>"#,
            escaped(&title)
        ));
        let schedule = &timetable.schedule;
        let mut about = format!(
            "{} backoff from {} to {}",
            schedule.backoff.name(),
            brief(schedule.min.into()),
            brief(schedule.max.into())
        );
        if self.rule.jitter > 0.0 {
            let _ = write!(about, "; jitter shortens each delay by up to {} %", percent(self.rule.jitter));
        }
        self.line(&format!(r##"<text x="{LEFT}" y="51" fill="#57606a">{about}</text>"##));

        let mut x = LEFT;
        for (phase, colour) in PHASES {
            let Some((first, last)) = timetable.span(phase) else { continue };
            let entry = format!("{}: {}", phase.name(), spanned(first, last));
            self.line(&format!(r#"<circle cx="{}" cy="75" r="5" fill="{colour}"/>"#, x + 5.0));
            self.text((x + 16.0, 79.5), "start", &entry);
            x += 16.0 + 7.0 * float(entry.len() as u64) + 24.0;
        }
    }

    /// Draws a tinted band for each phase.
    fn phases(&mut self) {
        for (phase, colour) in PHASES {
            let Some((first, last)) = self.timetable.span(phase) else { continue };
            let (from, to) = (self.right_of(first - 1), self.right_of(last));
            self.line(&format!(
                r#"<rect x="{from:.1}" y="{TOP}" width="{:.1}" height="{:.1}" fill="{colour}" fill-opacity="0.08"/>"#,
                to - from,
                BOTTOM - TOP
            ));
        }
    }

    fn delays(&mut self) {
        let mut ticks = Vec::new();
        if self.has_zero {
            ticks.push((self.at(0), brief(0)));
        }
        ticks.extend(self.y.delay_ticks(0.075).into_iter().map(|delay| (self.at(delay), brief(delay))));
        for (y, label) in ticks {
            self.line(&format!(
                r##"<line x1="{LEFT}" y1="{y:.1}" x2="{RIGHT}" y2="{y:.1}" stroke="#d0d7de"/>"##
            ));
            self.text((LEFT - 10.0, y + 4.5), "end", &label);
        }
        let middle = f64::midpoint(TOP, BOTTOM);
        let scale = if self.y.log { " (logarithmic)" } else { "" };
        self.line(&format!(
            r#"<text transform="translate(22 {middle}) rotate(-90)" text-anchor="middle">delay before the retry{scale}</text>"#
        ));
    }

    /// Draws the numbers of the retries, and below them the time of each.
    fn retries(&mut self) {
        let ticks = self.x.retry_ticks(self.timetable.schedule.retries, 0.066);
        for retry in ticks {
            let x = self.across(retry);
            let since = self.timetable.rows.get(retry as usize - 1).map_or(0, |row| row.since);
            self.line(&format!(
                r##"<line x1="{x:.1}" y1="{BOTTOM}" x2="{x:.1}" y2="{}" stroke="#57606a"/>"##,
                BOTTOM + 5.0
            ));
            self.text((x, BOTTOM + 20.0), "middle", &thousands(retry.into()));
            self.text((x, BOTTOM + 38.0), "middle", &brief(since));
        }
        self.text((LEFT - 30.0, BOTTOM + 20.0), "end", "retry");
        self.text((LEFT - 30.0, BOTTOM + 38.0), "end", "after");
        let scale = if self.x.log { " (logarithmic)" } else { "" };
        let title = format!("number of the retry{scale}, and time since the letter arrived");
        self.text((f64::midpoint(LEFT, RIGHT), BOTTOM + 66.0), "middle", &title);
    }

    /// Draws the retries that are never made because the queue would drop the letter first.
    fn not_made(&mut self) {
        if self.timetable.fits() {
            return;
        }
        let from = self.right_of(self.timetable.last);
        self.line(&format!(
            r#"<rect x="{from:.1}" y="{TOP}" width="{:.1}" height="{:.1}" fill="url(#not-made)"/>"#,
            RIGHT - from,
            BOTTOM - TOP
        ));
        let label = format!(
            "not made after retry {}: the queue keeps a letter for {}",
            thousands(self.timetable.last.into()),
            brief(self.timetable.retention)
        );
        self.label((RIGHT - 8.0, self.floor - 12.0), "end", &label);
    }

    /// Draws the longest time for which SQS can hide a letter at once.
    fn ceiling(&mut self) {
        if self.timetable.rows.iter().all(|row| row.hidings <= 1) {
            return;
        }
        let y = self.at(VISIBILITY_CEILING);
        self.line(&format!(
            r##"<line x1="{LEFT}" y1="{y:.1}" x2="{RIGHT}" y2="{y:.1}" stroke="#24292f" stroke-dasharray="6 4"/>"##
        ));
        let label = format!("longer waits than {} are made of several hidings", brief(VISIBILITY_CEILING));
        self.label((LEFT + 8.0, y - 7.0), "start", &label);
    }

    fn dots(&mut self) {
        let dots: Vec<_> =
            self.visible().map(|row| (self.across(row.retry), self.at(row.delay), *row)).collect();
        let path: Vec<_> = dots.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        self.line(&format!(
            r##"<polyline points="{}" fill="none" stroke="#8c959f" stroke-width="1.5"/>"##,
            path.join(" ")
        ));
        let radius = if self.timetable.rows.len() <= MAX_FULL_DOTS { 5.0 } else { 3.0 };
        for (x, y, row) in dots {
            let colour =
                PHASES.iter().find(|(phase, _)| *phase == row.phase).map_or("", |(_, colour)| *colour);
            self.line(&format!(
                r##"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{colour}" stroke="#ffffff"><title>retry {}: after {}, {} since arrival</title></circle>"##,
                row.retry,
                brief(row.delay),
                clock(row.since)
            ));
        }
    }

    /// Draws the position of the waiting letters.
    fn now(&mut self, PendingRetries { first, last }: PendingRetries) {
        let retries = self.timetable.schedule.retries.max(1);
        let (first, last) = (first.clamp(1, retries), last.clamp(1, retries));
        let (from, to) = (self.across(first) - 4.0, self.across(last.max(first)) + 4.0);
        self.line(&format!(
            r##"<rect x="{from:.1}" y="{TOP}" width="{:.1}" height="{:.1}" fill="#ffd33d" fill-opacity="0.3" stroke="#24292f" stroke-width="1.5"/>"##,
            to - from,
            BOTTOM - TOP
        ));
        let text = format!("now: retry {}", spanned(first, last));
        let (x, anchor) =
            if from > f64::midpoint(LEFT, RIGHT) { (from - 6.0, "end") } else { (to + 10.0, "start") };
        self.label((x, TOP + 18.0), anchor, &text);
    }

    /// Returns the rows whose dots do not cover each other.
    fn visible(&self) -> impl Iterator<Item = &'a TimetableRow> {
        let mut last: Option<(f64, f64)> = None;
        let (few, end) = (self.timetable.rows.len() <= MAX_FULL_DOTS, self.timetable.schedule.retries);
        self.timetable.rows.iter().filter(move |row| {
            let place = (self.across(row.retry), self.at(row.delay));
            let apart = last.is_none_or(|(x, y)| (place.0 - x).abs() + (place.1 - y).abs() >= 5.0);
            let keep = few || apart || row.retry == end;
            if keep {
                last = Some(place);
            }
            keep
        })
    }

    fn frame(&mut self) {
        self.line(&format!(r##"<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="#57606a"/>"##));
    }

    /// Returns the height of a delay.
    fn at(&self, delay: u64) -> f64 {
        if delay == 0 && self.y.log {
            return BOTTOM - STRIP / 2.0;
        }
        self.floor - self.y.place(float(delay)) * (self.floor - TOP)
    }

    /// Returns the horizontal position of a retry.
    fn across(&self, retry: u32) -> f64 {
        LEFT + self.x.place(f64::from(retry)) * (RIGHT - LEFT)
    }

    /// Returns the border between a retry and the next one.
    fn right_of(&self, retry: u32) -> f64 {
        LEFT + self.x.place(f64::from(retry) + 0.5) * (RIGHT - LEFT)
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        self.line(&format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#, escaped(text)));
    }

    /// Writes text on a patch of background, so that lines behind it do not disturb.
    fn label(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let width = 6.6 * float(text.chars().count() as u64) + 12.0;
        let left = if anchor == "end" { x - width + 6.0 } else { x - 6.0 };
        self.line(&format!(
            r##"<rect x="{left:.1}" y="{:.1}" width="{width:.1}" height="19" rx="3" fill="#ffffff" fill-opacity="0.92"/>"##,
            y - 14.0
        ));
        self.text((x, y), anchor, text);
    }

    fn line(&mut self, element: &str) {
        self.out.push_str(element);
        self.out.push('\n');
    }
}

fn spanned(first: u32, last: u32) -> String {
    let thousands = |number: u32| thousands(number.into());
    if first == last { thousands(first) } else { format!("{} to {}", thousands(first), thousands(last)) }
}

/// Writes a share of 0 to 1 in per cent.
#[must_use]
pub fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

fn escaped(text: &str) -> String {
    harmless(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

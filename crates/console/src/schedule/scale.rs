//! The two axes of the chart: their scale, and the place of a value.

use redrive_core::policy::MAX_DELAY_SECONDS;

use super::timetable::{Timetable, float};

/// Schedules with more retries get a logarithmic axis: on a linear one the first phases would be one dot.
const MAX_LINEAR_RETRIES: u32 = 100;

/// The ratio of the greatest delay to the least from which a logarithmic axis is used. On a linear one the
/// small delays could not be told apart.
const LOGARITHMIC_RATIO: u64 = 20;

/// The most lines on a linear axis of delays.
const MAX_TICKS: u64 = 6;

/// Delays that may get a line, seconds.
const STEPS: [u64; 26] = [
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
    259_200, 345_600, 432_000, 604_800, 864_000, 1_036_800, 1_209_600,
];

/// An axis. It maps values to 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    /// True if it is logarithmic.
    pub log: bool,
}

impl Axis {
    /// Returns the axis of the retries' numbers.
    #[must_use]
    pub fn of_retries(timetable: &Timetable) -> Self {
        let count = timetable.schedule.retries;
        if count > MAX_LINEAR_RETRIES {
            Self { low: 1.0, high: f64::from(count), log: true }
        } else {
            // The axis leaves half a retry free at both ends.
            Self { low: 0.5, high: f64::from(count.max(1)) + 0.5, log: false }
        }
    }

    /// Returns the axis of delays. A logarithmic axis has no place for a delay of zero.
    #[must_use]
    pub fn of_delays(timetable: &Timetable) -> Self {
        let delays = || timetable.rows.iter().map(|row| row.delay).filter(|delay| *delay > 0);
        let (least, most) = (delays().min().unwrap_or(1), delays().max().unwrap_or(1));
        if most >= least * LOGARITHMIC_RATIO {
            Self { low: float(least) / 1.5, high: float(most) * 1.25, log: true }
        } else {
            Self { low: 0.0, high: float(most) * 1.1, log: false }
        }
    }

    /// Returns the place of a value: 0 at the lower end, 1 at the upper.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        part.clamp(0.0, 1.0)
    }

    /// Returns the delays that get a line: round numbers, at least `apart` of the axis from each other.
    #[must_use]
    pub fn delay_ticks(&self, apart: f64) -> Vec<u64> {
        if !self.log {
            // Equal steps: the smallest that are wide enough.
            let wide = |step: &u64| float(*step) >= apart.max(1.0 / float(MAX_TICKS)) * self.high;
            let step = STEPS.into_iter().find(wide).unwrap_or(MAX_DELAY_SECONDS.into());
            let ticks = (1..=MAX_TICKS).map(|n| n * step);
            return ticks.take_while(|tick| float(*tick) <= self.high).collect();
        }
        let mut ticks: Vec<u64> = Vec::new();
        // It begins at the top, so that the longest delay always has a line.
        for step in STEPS.into_iter().rev().filter(|step| (self.low..=self.high).contains(&float(*step))) {
            let free = |last: &u64| self.place(float(*last)) - self.place(float(step)) >= apart;
            if ticks.last().is_none_or(free) {
                ticks.push(step);
            }
        }
        ticks.reverse();
        ticks
    }

    /// Returns the retries that get a number on the axis: always the first and the last, and others at least
    /// `apart` of the axis from each other.
    #[must_use]
    pub fn retry_ticks(&self, retries: u32, apart: f64) -> Vec<u32> {
        let mut ticks: Vec<u32> = Vec::new();
        let candidates: Vec<u32> = if self.log {
            let decades = (0..6).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u32.pow(power)));
            decades.collect()
        } else {
            (1..=retries).collect()
        };
        let far = |a: u32, b: u32| (self.place(f64::from(a)) - self.place(f64::from(b))).abs() >= apart;
        for retry in candidates.into_iter().take_while(|retry| *retry <= retries) {
            if ticks.last().is_none_or(|last| far(retry, *last)) {
                ticks.push(retry);
            }
        }
        while ticks.last().is_some_and(|last| *last != retries && ticks.len() > 1 && !far(retries, *last)) {
            ticks.pop();
        }
        if retries > 0 && ticks.last() != Some(&retries) {
            ticks.push(retries);
        }
        ticks
    }
}

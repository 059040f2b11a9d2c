//! Time ranges.

use jiff::{SignedDuration, Timestamp};

/// The longest time range, minutes.
const MAX_MINUTES: u32 = 366 * DAY;

const HOUR: u32 = 60;
const DAY: u32 = 24 * HOUR;

/// The time range of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRange {
    /// The last minutes, this many, up to the present.
    Past(u32),
    /// Two points in time. The second one is excluded.
    Between(Timestamp, Timestamp),
}

/// Three hours, the default of a `CloudWatch` dashboard.
impl Default for PageRange {
    fn default() -> Self {
        Self::Past(3 * HOUR)
    }
}

impl PageRange {
    /// The ranges that pages link to.
    pub const OFFERED: [Self; 6] = [
        Self::Past(HOUR),
        Self::Past(3 * HOUR),
        Self::Past(12 * HOUR),
        Self::Past(DAY),
        Self::Past(3 * DAY),
        Self::Past(14 * DAY),
    ];

    /// Returns the start, and the end, which is excluded.
    #[must_use]
    pub fn at(self, now: Timestamp) -> (Timestamp, Timestamp) {
        match self {
            Self::Past(minutes) => {
                // Whole seconds: commands have this time.
                let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
                let from = whole.saturating_sub(SignedDuration::from_mins(minutes.into()));
                (from.unwrap_or(Timestamp::MIN), now)
            }
            Self::Between(from, to) => (from, to),
        }
    }

    /// Creates the range between two points in time; `None` if they are in the wrong order or too far apart.
    #[must_use]
    pub fn between(from: Timestamp, to: Timestamp) -> Option<Self> {
        let length = to.duration_since(from);
        (from < to && length <= SignedDuration::from_mins(MAX_MINUTES.into()))
            .then_some(Self::Between(from, to))
    }

    /// Creates the range between two points in time, shortened at its start if it is too long; `None` if they
    /// are in the wrong order.
    #[must_use]
    pub fn end_of(from: Timestamp, to: Timestamp) -> Option<Self> {
        let earliest = to.saturating_sub(SignedDuration::from_mins(MAX_MINUTES.into())).unwrap_or(from);
        Self::between(from.max(earliest), to)
    }

    /// Reads a number of minutes, hours or days: `30m`, `3h`, `14d`.
    #[must_use]
    pub fn past(text: &str) -> Option<Self> {
        let unit = text.chars().last()?;
        let minutes = match unit {
            'm' => 1,
            'h' => HOUR,
            'd' => DAY,
            _ => return None,
        };
        let number = text.strip_suffix(unit)?;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let minutes = number.parse::<u32>().ok().filter(|_| digits)?.checked_mul(minutes)?;
        (1..=MAX_MINUTES).contains(&minutes).then_some(Self::Past(minutes))
    }

    /// Returns a range up to the present as text, such as `3h`; `None` for other ranges.
    #[must_use]
    pub fn name(self) -> Option<String> {
        let Self::Past(minutes) = self else { return None };
        Some(match minutes {
            _ if minutes % DAY == 0 => format!("{}d", minutes / DAY),
            _ if minutes % HOUR == 0 => format!("{}h", minutes / HOUR),
            _ => format!("{minutes}m"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands have the beginning: no fraction of a second belongs there.
    #[test]
    fn a_past_time_begins_at_a_whole_second_and_ends_now() {
        let now: Timestamp = "2026-11-01T12:00:00.987654321Z".parse().unwrap();
        let from: Timestamp = "2026-11-01T11:00:00Z".parse().unwrap();
        assert_eq!(PageRange::Past(60).at(now), (from, now));
    }
}

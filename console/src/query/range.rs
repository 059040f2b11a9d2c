//! Time ranges.

use jiff::{SignedDuration, Timestamp};

/// The longest time that a page shows, minutes.
const LONGEST: u32 = 366 * DAY;

const HOUR: u32 = 60;
const DAY: u32 = 24 * HOUR;

/// The time that a page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// So many minutes up to the present.
    Past(u32),
    /// Between two moments, the second left out.
    Between(Timestamp, Timestamp),
}

/// Three hours, as dashboards of `CloudWatch` have it.
impl Default for Range {
    fn default() -> Self {
        Self::Past(3 * HOUR)
    }
}

impl Range {
    /// The ranges that pages offer.
    pub const OFFERED: [Self; 6] = [
        Self::Past(HOUR),
        Self::Past(3 * HOUR),
        Self::Past(12 * HOUR),
        Self::Past(DAY),
        Self::Past(3 * DAY),
        Self::Past(14 * DAY),
    ];

    /// Returns the first moment, and the one behind the last.
    #[must_use]
    pub fn at(self, now: Timestamp) -> (Timestamp, Timestamp) {
        match self {
            Self::Past(minutes) => {
                let from = now.saturating_sub(SignedDuration::from_mins(minutes.into()));
                (from.unwrap_or(Timestamp::MIN), now)
            }
            Self::Between(from, to) => (from, to),
        }
    }

    /// The range between two moments; none where they are in the wrong order, or too far apart.
    #[must_use]
    pub fn between(from: Timestamp, to: Timestamp) -> Option<Self> {
        let length = to.duration_since(from);
        (from < to && length <= SignedDuration::from_mins(LONGEST.into())).then_some(Self::Between(from, to))
    }

    /// The range between two moments, or the last part of it that a page can show; none where they are in the wrong order.
    #[must_use]
    pub fn end_of(from: Timestamp, to: Timestamp) -> Option<Self> {
        let earliest = to.saturating_sub(SignedDuration::from_mins(LONGEST.into())).unwrap_or(from);
        Self::between(from.max(earliest), to)
    }

    /// Reads so many minutes, hours or days: `30m`, `3h`, `14d`.
    pub(super) fn past(text: &str) -> Option<Self> {
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
        (1..=LONGEST).contains(&minutes).then_some(Self::Past(minutes))
    }

    /// Returns the range as it is read, where it ends in the present.
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

//! Counts of letters over time.

use jiff::Timestamp;

/// The number of parts that a time range is divided into.
pub const PARTS: usize = 24;

/// The most groups on a page.
pub(super) const MAX_GROUP_ROWS: usize = 100;

/// A time range, divided into equal parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChartSpan {
    /// The start.
    pub from: Timestamp,
    /// The end, which is excluded.
    pub to: Timestamp,
}

/// A number of letters over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimedCount {
    /// The number of letters.
    pub letters: u64,
    /// The times of the first and the last letter; `None` if there are none.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// The number of letters in each part of the range.
    pub parts: [u64; PARTS],
}

/// How many letters no replay has sent yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnreplayedCount {
    /// The number of letters for which that is known.
    pub asked: u64,
    /// The number of them that no replay has sent yet.
    pub left: u64,
}

/// A number of letters, and how certain it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BoundedCount {
    /// The number.
    pub letters: u64,
    /// How certain it is.
    pub bound: CountBound,
}

/// How certain a number is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CountBound {
    /// It is exact.
    #[default]
    Exact,
    /// There may be fewer.
    AtMost,
    /// There may be more.
    AtLeast,
    /// There may be more or fewer.
    About,
}

impl CountBound {
    /// Returns the sign before the number: `≤ `, `≥ `, `~ `, or nothing.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::AtMost => "≤ ",
            Self::AtLeast => "≥ ",
            Self::About => "~ ",
        }
    }
}

impl UnreplayedCount {
    /// Adds a letter. `None` means that nobody knows whether a replay sent it.
    pub fn add(&mut self, replayed: Option<bool>) {
        self.asked += u64::from(replayed.is_some());
        self.left += u64::from(replayed == Some(false));
    }
}

/// Returns the largest groups, at most `most`, and the number of the others.
pub(super) fn largest<T>(
    groups: impl Iterator<Item = T>,
    most: usize,
    letters: impl Fn(&T) -> u64,
) -> (Vec<T>, u64) {
    let mut groups: Vec<_> = groups.collect();
    groups.sort_by_key(|group| std::cmp::Reverse(letters(group)));
    let further = groups.len().saturating_sub(most) as u64;
    groups.truncate(most);
    (groups, further)
}

impl ChartSpan {
    /// Returns the part that a time lies in. Times outside of the range count for the first or the last part.
    #[must_use]
    pub fn part(&self, at: Timestamp) -> usize {
        let length = self.to.duration_since(self.from).as_millis().max(1);
        let into = at.duration_since(self.from).as_millis().clamp(0, length - 1);
        let parts = i128::try_from(PARTS).unwrap_or(1);
        usize::try_from(into * parts / length).unwrap_or_default()
    }
}

impl TimedCount {
    /// Adds letters of one time.
    pub fn add(&mut self, letters: u64, at: Timestamp, span: &ChartSpan) {
        self.letters += letters;
        let (first, last) = self.seen.unwrap_or((at, at));
        self.seen = Some((first.min(at), last.max(at)));
        self.parts[span.part(at)] += letters;
    }

    /// Adds another count.
    pub fn join(&mut self, other: &Self) {
        self.letters += other.letters;
        self.seen = match (self.seen, other.seen) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        for (part, more) in self.parts.iter_mut().zip(other.parts) {
            *part += more;
        }
    }
}

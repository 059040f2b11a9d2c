//! Letters that are counted, over time.

use jiff::Timestamp;

/// The parts of a time range in which letters are counted.
pub const PARTS: usize = 24;

/// Groups that a page shows.
pub(super) const ROWS: usize = 100;

/// A time range in equal parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first moment.
    pub from: Timestamp,
    /// The moment behind the last.
    pub to: Timestamp,
}

/// Letters, and when the first and the last of them came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Count {
    /// The number of letters.
    pub letters: u64,
    /// The first and the last; none where there are no letters.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// The number in each part of the range.
    pub parts: [u64; PARTS],
}

/// Letters of which it was asked whether a replay has sent them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// The number of letters.
    pub asked: u64,
    /// The number of them that no replay has sent yet.
    pub left: u64,
}

impl Left {
    /// Adds a letter.
    pub fn add(&mut self, replayed: Option<bool>) {
        self.asked += u64::from(replayed.is_some());
        self.left += u64::from(replayed == Some(false));
    }
}

/// Returns the largest groups, so many at most, and how many there are beside them.
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

impl Span {
    /// Returns the part in which a moment lies; moments outside lie in the first or the last.
    #[must_use]
    pub fn part(&self, at: Timestamp) -> usize {
        let length = self.to.duration_since(self.from).as_millis().max(1);
        let into = at.duration_since(self.from).as_millis().clamp(0, length - 1);
        let parts = i128::try_from(PARTS).unwrap_or(1);
        usize::try_from(into * parts / length).unwrap_or_default()
    }
}

impl Count {
    /// Adds letters of one moment.
    pub fn add(&mut self, letters: u64, at: Timestamp, span: &Span) {
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

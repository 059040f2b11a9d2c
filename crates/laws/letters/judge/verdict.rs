//! The verdict on all letters.

use std::collections::BTreeMap;
use std::fmt;

use super::super::facts::{DeleteObstacle, LetterNumber};

/// A broken rule.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The rule, in words.
    pub what: String,
    /// The letter.
    pub who: Option<LetterNumber>,
    /// The history of the letter.
    pub history: String,
}

/// The verdict on all letters.
#[derive(Debug, Clone, Default)]
pub struct LettersVerdict {
    /// The number of letters.
    pub letters: usize,
    /// The letters that were delivered.
    pub delivered: usize,
    /// The letters that were archived and not delivered.
    pub archived: usize,
    /// The letters that are neither, and still in a queue.
    pub queued: usize,
    /// The letters that are nowhere.
    pub lost: usize,
    /// The letters that were moved to the requeue at least once.
    pub moved: usize,
    /// The number of times that a message left once more.
    pub duplicates: usize,
    /// The duplicates that nothing explains.
    pub unexplained: usize,
    /// The other duplicates, by their cause.
    pub causes: BTreeMap<DeleteObstacle, usize>,
    /// The repetitions that FIFO places dropped.
    pub swallowed: usize,
    /// The letters that overtook another of their group.
    pub disorders: usize,
    /// The broken rules.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VIOLATION: {}\n{}", self.what, self.history)
    }
}

impl LettersVerdict {
    /// Reports whether every promise was kept.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    /// Adds the counts of another world.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.letters += other.letters;
        self.delivered += other.delivered;
        self.archived += other.archived;
        self.queued += other.queued;
        self.lost += other.lost;
        self.moved += other.moved;
        self.duplicates += other.duplicates;
        self.unexplained += other.unexplained;
        for (cause, count) in other.causes {
            *self.causes.entry(cause).or_default() += count;
        }
        self.swallowed += other.swallowed;
        self.disorders += other.disorders;
        self.violations.extend(other.violations);
        self
    }
}

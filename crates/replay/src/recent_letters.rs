//! The letters of an hour that a replay has met, to recognise letters that a crash of the function has
//! archived twice. This module does no I/O.

use std::collections::HashMap;

use redrive_archive::LetterIdentity;

/// The letters of an hour that were met, so that a letter that was archived twice is sent once.
#[derive(Debug, Default)]
pub(super) struct RecentLetters {
    /// The least number of letters to remember.
    most: usize,
    /// The latest letters.
    new: HashMap<LetterIdentity, RecentPlace>,
    /// The letters before them. Still older ones are forgotten, so that memory stays bounded.
    old: HashMap<LetterIdentity, RecentPlace>,
}

/// The least number of letters that all workers together remember.
const REMEMBERED_LETTERS: usize = 250_000;

/// The place where a letter was met.
#[derive(Debug, Clone, Copy)]
struct RecentPlace {
    unit: usize,
    /// `true` if any replay has sent it.
    sent: bool,
}

impl RecentLetters {
    /// Creates the memory of one of `workers` workers.
    pub(super) fn new(workers: usize) -> Self {
        Self { most: REMEMBERED_LETTERS / workers.max(1), ..Self::default() }
    }

    /// Returns the least number of letters that it remembers.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Adds letters of a unit.
    pub(super) fn add(&mut self, unit: usize, sent: bool, letters: impl IntoIterator<Item = LetterIdentity>) {
        for letter in letters {
            if self.new.len() >= self.most {
                self.old = std::mem::take(&mut self.new);
            }
            let place = self.new.entry(letter).or_insert(RecentPlace { unit, sent });
            place.sent |= sent;
        }
    }

    /// Returns whether a letter was sent from another unit, or `None` if it was not met in another unit.
    pub(super) fn elsewhere(&self, unit: usize, letter: &LetterIdentity) -> Option<bool> {
        let place = self.new.get(letter).or_else(|| self.old.get(letter))?;
        (place.unit != unit).then_some(place.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: usize) -> LetterIdentity {
        LetterIdentity::of("queue", &name.to_string())
    }

    #[test]
    fn a_letter_is_a_double_in_another_unit_only_and_sent_if_any_replay_sent_it() {
        let mut met = RecentLetters::new(1);
        met.add(3, false, [id(1), id(2)]);
        met.add(3, true, [id(2)]);
        assert_eq!((met.elsewhere(3, &id(1)), met.elsewhere(4, &id(1))), (None, Some(false)));
        assert_eq!((met.elsewhere(4, &id(2)), met.elsewhere(4, &id(3))), (Some(true), None));
    }

    #[test]
    fn it_remembers_its_share_and_forgets_the_oldest() {
        let mut met = RecentLetters::new(REMEMBERED_LETTERS / 10);
        met.add(0, true, (0..25).map(id));
        assert_eq!((met.elsewhere(1, &id(9)), met.elsewhere(1, &id(10))), (None, Some(true)));
        assert!(met.new.len() + met.old.len() <= 20);
    }
}

//! The letters that a list has counted, to recognise letters that the function archived twice after a crash.

use std::collections::HashSet;
use std::mem;

use redrive_archive::LetterIdentity;

/// The least number of remembered letters: 37 MB for each million, twice.
const REMEMBERED_LETTERS: usize = 1_000_000;

/// The latest letters that were counted, so that memory does not grow with the archive. Letters archived
/// twice are close together: an archive is read queue by queue, in order of time.
pub(super) struct CountedLetters {
    most: usize,
    new: HashSet<LetterIdentity>,
    /// The letters before those.
    old: HashSet<LetterIdentity>,
}

impl Default for CountedLetters {
    fn default() -> Self {
        Self { most: REMEMBERED_LETTERS, new: HashSet::new(), old: HashSet::new() }
    }
}

impl CountedLetters {
    /// Remembers a letter. Returns false if it was counted recently.
    pub(super) fn is_new(&mut self, letter: LetterIdentity) -> bool {
        if self.new.contains(&letter) || self.old.contains(&letter) {
            return false;
        }
        if self.new.len() >= self.most {
            mem::swap(&mut self.new, &mut self.old);
            self.new.clear();
        }
        self.new.insert(letter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_remembers_the_latest_letters_and_forgets_the_oldest() {
        let id = |number: usize| LetterIdentity::of("queue", &number.to_string());
        let mut known = CountedLetters { most: 10, ..CountedLetters::default() };
        assert!((0..20).all(|number| known.is_new(id(number))));
        assert!((0..20).all(|number| !known.is_new(id(number))));
        assert!((20..25).all(|number| known.is_new(id(number))));
        assert!((10..25).all(|number| !known.is_new(id(number))));
        assert!(known.new.len() + known.old.len() <= 20);
        assert!(known.is_new(id(0)), "forgotten");
    }
}

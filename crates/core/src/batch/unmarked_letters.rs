//! The letters of a round that may have to go without their mark.

use std::collections::HashMap;
use std::time::Duration;

use super::action::SubscriptionLookup;
use crate::arn::Arn;
use crate::failure::Failure;
use crate::policy::Retry;

/// Letters of a round for which it is open whether they go without their mark.
#[derive(Debug, Default)]
pub(super) struct UnmarkedLetters {
    pub(super) letters: Vec<UnmarkedLetter>,
    /// The subscriptions of the round.
    pub(super) known: HashMap<Arn, SubscriptionLookup>,
}

/// Such a letter.
#[derive(Debug)]
pub(super) struct UnmarkedLetter {
    pub(super) index: usize,
    pub(super) retry: Retry,
    /// The refusal of the letter with its mark, if it was sent with one, and the time that this took.
    pub(super) refusal: Option<(Failure, Duration)>,
}

impl UnmarkedLetters {
    /// Creates it for a round of which these subscriptions are known.
    pub(super) fn new(known: HashMap<Arn, SubscriptionLookup>) -> Self {
        Self { letters: Vec::new(), known }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// Adds a letter, with the refusal of its delivery with the mark if there was one.
    pub(super) fn add(&mut self, index: usize, retry: Retry, refusal: Option<(Failure, Duration)>) {
        self.letters.push(UnmarkedLetter { index, retry, refusal });
    }
}

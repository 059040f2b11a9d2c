//! The letters of a round on their way out.

use std::sync::Arc;
use std::time::Duration;

use super::action::{Delivery, InvocationNow};
use super::packed_facts::PackedFacts;
use super::sending::SendingState;
use super::unmarked_letters::UnmarkedLetters;

/// The letters of a round that are being sent.
#[derive(Debug)]
pub(super) struct RoundSending {
    pub(super) letters: Vec<OutgoingLetter>,
    pub(super) sending: SendingState,
    /// The letters of which it is open whether they go without their mark.
    pub(super) unmarking: UnmarkedLetters,
}

/// A letter that is being sent.
#[derive(Debug)]
pub(super) struct OutgoingLetter {
    pub(super) index: usize,
    pub(super) delivery: Arc<Delivery>,
    pub(super) packed: PackedFacts,
    /// Its turn, by the rule's throttle policy.
    pub(super) turn: Duration,
    /// The number of letters that may go in one request with it. The service's own limit holds as well.
    pub(super) at_once: usize,
}

impl RoundSending {
    /// Returns the next turn of a letter that lies ahead, if there is one.
    pub(super) fn next_turn(&self, now: InvocationNow) -> Option<Duration> {
        self.sending.next_turn(now.elapsed)
    }
}

//! The context of one request: the time, the caller, the journal, the random numbers.

use std::sync::Arc;

use crate::clock::SimMillis;
use crate::error::{BatchAnswer, Error};
use crate::faults::EntryFault;
use crate::journal::{SimEvent, SimJournal};
use crate::message::SimEntry;

/// The context that a service needs to handle a request.
#[derive(Debug)]
pub struct SimContext<'a> {
    /// The present.
    pub now: SimMillis,
    /// The caller.
    pub by: Arc<str>,
    pub(crate) ledger: &'a mut SimJournal,
    pub(crate) rng: &'a mut fastrand::Rng,
    /// The entries of the batch that fail, by position.
    pub(crate) failing: Vec<(usize, EntryFault)>,
}

impl SimContext<'_> {
    /// Writes an event of this caller into the journal.
    pub(crate) fn log(&mut self, event: SimEvent) {
        self.ledger.push(self.now, &self.by, event);
    }

    /// Returns a new id in the form of a UUID.
    pub(crate) fn id(&mut self) -> Arc<str> {
        let (high, low) = (self.rng.u64(..), self.rng.u64(..));
        let parts = (high >> 32, (high >> 16) & 0xffff, high & 0xfff, low >> 52, low & 0xffff_ffff_ffff);
        format!("{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", parts.0, parts.1, parts.2, parts.3, parts.4).into()
    }

    /// Returns true in so many of ten thousand cases.
    pub(crate) fn chance(&mut self, of_10_000: u16) -> bool {
        of_10_000 > 0 && self.rng.u16(..10_000) < of_10_000
    }

    /// Returns the same context for a service that acts by itself, at its own time.
    pub(crate) fn of<'a>(&'a mut self, by: &str, now: SimMillis) -> SimContext<'a> {
        SimContext { now, by: by.into(), ledger: self.ledger, rng: self.rng, failing: Vec::new() }
    }

    /// Carries out each entry of a batch for which no fault is planned.
    pub(crate) fn each<T>(
        &mut self,
        entries: &[SimEntry],
        mut act: impl FnMut(&mut Self, &SimEntry) -> Result<T, Error>,
    ) -> BatchAnswer<T> {
        let mut answer = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let fault = self.failing.iter().find(|(of, _)| *of == index).map(|(_, fault)| fault.error());
            let result = fault.map_or_else(|| act(self, entry), Err);
            answer.push((entry.id.clone(), result));
        }
        answer
    }
}

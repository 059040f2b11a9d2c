//! All that an instance remembers of endpoints that are down or back.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::failing_endpoints::FailingEndpoints;
use super::known_recoveries::KnownRecoveries;
use super::scouts::Scouts;
use super::unlisted_letters::UnlistedLetters;
use super::wake_pace::WakePace;
use crate::endpoint::TargetName;
use crate::waiting::WaitingLetter;

/// The largest number of endpoints that are remembered.
const MAX_KEPT: usize = 1_000;

/// The letters that this instance has claimed for one recovery of an endpoint.
#[derive(Debug, Default)]
pub(super) struct ClaimedLetters {
    /// The recovery.
    recovered_at: Option<Timestamp>,
    /// The objects that are still to be read.
    pub(super) keys: Vec<String>,
    /// The letters that are not woken yet.
    pub(super) lines: VecDeque<WaitingLetter>,
    /// The age of the instance until which nothing more is claimed: there was nothing to claim.
    pub(super) rests_until: Duration,
    /// The age of the instance when some were last woken.
    pub(super) woken: Duration,
    /// The number of letters of the next claim. It grows, so that of a few letters no instance claims all.
    pub(super) next: u64,
}

impl ClaimedLetters {
    /// Adds lines, the newest of each letter.
    pub(super) fn add(&mut self, lines: Vec<WaitingLetter>) {
        for line in lines {
            match self.lines.iter_mut().find(|known| known.message_id == line.message_id) {
                Some(known) if known.hidden < line.hidden => *known = line,
                Some(_) => {}
                None => self.lines.push_back(line),
            }
        }
    }
}

/// The memory of an instance.
#[derive(Debug, Default)]
pub(in crate::batch) struct RecoveryMemory {
    pub(super) failing: FailingEndpoints,
    pub(super) known: KnownRecoveries,
    /// The pace of each endpoint, and the age of the instance when it was last needed.
    paces: HashMap<TargetName, (WakePace, Duration)>,
    /// The letters that were claimed, by queue and endpoint.
    claims: HashMap<(String, TargetName), ClaimedLetters>,
    /// The lines that are not listed yet.
    pub(in crate::batch) unlisted: UnlistedLetters,
    pub(super) scouts: Scouts,
    /// The age of the instance until which nothing is read or written, because a call failed.
    pub(super) rests_until: Duration,
}

impl RecoveryMemory {
    /// Returns what was claimed for a recovery. What was claimed for an earlier one may have failed since, and is forgotten.
    pub(super) fn claims(
        &mut self,
        queue: &str,
        target: &TargetName,
        recovered_at: Option<Timestamp>,
        age: Duration,
    ) -> &mut ClaimedLetters {
        let place = (queue.to_owned(), target.clone());
        if self.claims.len() >= MAX_KEPT && !self.claims.contains_key(&place) {
            self.claims.clear();
        }
        let claims = self.claims.entry(place).or_default();
        if claims.recovered_at != recovered_at {
            *claims = ClaimedLetters { recovered_at, woken: age, ..ClaimedLetters::default() };
        }
        claims
    }

    /// Reports whether letters were claimed for an endpoint that are not woken yet.
    pub(super) fn holds_claims(&self, queue: &str, target: &TargetName) -> bool {
        let claims = self.claims.get(&(queue.to_owned(), target.clone()));
        claims.is_some_and(|claims| !claims.lines.is_empty() || !claims.keys.is_empty())
    }

    /// Reports whether letters of a queue are to be woken.
    pub(in crate::batch) fn wakes(&self, queue: &str) -> bool {
        let mut all = self.known.document.iter();
        all.any(|known| {
            known.queue == queue
                && known.recovered_at.is_some()
                && known.down_since.is_none()
                && !known.is_done
        })
    }

    /// Returns the pace of an endpoint.
    pub(super) fn pace(&mut self, target: &TargetName, age: Duration) -> &mut WakePace {
        if self.paces.len() >= MAX_KEPT && !self.paces.contains_key(target) {
            let oldest =
                self.paces.iter().min_by_key(|(_, (_, used))| *used).map(|(target, _)| target.clone());
            oldest.and_then(|target| self.paces.remove(&target));
        }
        let (pace, used) = self.paces.entry(target.clone()).or_default();
        *used = age;
        pace
    }
}

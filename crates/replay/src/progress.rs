//! The progress of a replay, over all its workers.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant};

use super::replay_state::{ReplayCounts, ReplayState};
use super::version::VersionedDocument;
use super::worker::{UnitEnd, UnitWork};

/// The time between two writes of the state.
const SAVE_INTERVAL: Duration = Duration::from_secs(2);

/// The longest time between two writes of the state. A write shows others that the replay is alive, and it shows
/// this process if another one has taken the replay up.
const ALIVE_INTERVAL: Duration = Duration::from_mins(1);

/// The longest time for which a step settles.
const LONGEST_SETTLE: Duration = Duration::from_hours(1);

/// The results of units that are finished, or partly done, ahead of others before them: the object
/// `<id>/rounds/<number>/units-<turn>.json`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct UnitResults {
    version: u8,
    /// The units that are finished.
    pub(super) ahead: BTreeMap<u64, ReplayCounts>,
    /// The units that are partly done.
    pub(super) partly: BTreeMap<u64, ReplayCounts>,
}

impl VersionedDocument for UnitResults {
    const VERSION: u8 = 1;

    fn version(&self) -> u8 {
        self.version
    }
}

impl UnitResults {
    /// Returns the key of the object that a turn writes at the end of a round. `by` is a name that no other
    /// turn has.
    pub(super) fn key(id: &str, round: u32, by: &str) -> String {
        format!("{id}/rounds/{round:06}/units-{by}.json")
    }

    pub(super) fn new() -> Self {
        Self { version: Self::VERSION, ..Self::default() }
    }
}

/// The progress of a replay.
pub(super) struct ReplayProgress {
    /// The state as it is stored, except for the counts of units that are not finished in order.
    pub(super) state: ReplayState,
    /// The tag of the stored state.
    pub(super) etag: String,
    /// The units that are finished ahead of others before them, and those that are partly done.
    units: UnitResults,
    saved: Instant,
    /// The numbers of letters that were sent recently, with their times.
    lately: VecDeque<(Timestamp, u64)>,
}

impl ReplayProgress {
    /// Creates the progress of a replay that begins or continues.
    pub(super) fn new(state: ReplayState, etag: String, known: Option<UnitResults>, now: Timestamp) -> Self {
        let mut units = known.unwrap_or_else(|| {
            // The counts beyond those of whole units belong to the unit in which a step ended.
            let partly = state.counts.without(&state.place.counts);
            UnitResults { partly: BTreeMap::from([(state.place.units, partly)]), ..UnitResults::new() }
        });
        units.ahead.retain(|unit, _| *unit >= state.place.units);
        units.partly.retain(|unit, _| *unit >= state.place.units);
        let lately = match &state.round {
            Some(round) => round.lately.iter().copied().collect(),
            // The previous run may have ended just now.
            None => VecDeque::from([(now, state.counts.sent.saturating_sub(state.place.sent_before))]),
        };
        Self { etag, units, saved: Instant::now(), lately, state }
    }

    /// Returns all counts so far.
    pub(super) fn counts(&self) -> ReplayCounts {
        let mut counts = self.state.place.counts.clone();
        self.units.ahead.values().chain(self.units.partly.values()).for_each(|unit| counts.add(unit));
        counts
    }

    /// Returns the state with all counts, as it is shown and stored.
    pub(super) fn shown(&self) -> ReplayState {
        ReplayState { counts: self.counts(), ..self.state.clone() }
    }

    /// Records the result of a unit, at this time.
    pub(super) fn note(&mut self, unit: u64, worked: UnitWork, at: Timestamp) {
        let UnitWork { counts, sent, end } = worked;
        self.lately.push_back((at, sent));
        if unit < self.state.place.units {
            // This unit was reported as finished before.
            return;
        }
        self.units.partly.remove(&unit);
        if end == UnitEnd::Done {
            self.units.ahead.insert(unit, counts);
        } else {
            self.units.partly.insert(unit, counts);
        }
        self.advance();
    }

    /// Moves the place past all units that are finished in order.
    fn advance(&mut self) {
        let place = &mut self.state.place;
        while let Some(counts) = self.units.ahead.remove(&place.units) {
            place.counts.add(&counts);
            place.units += 1;
        }
    }

    /// Takes the learned results of all units of the stage. Newly learned letters count as sent now, and so
    /// do letters in doubt.
    pub(super) fn learn(&mut self, learned: UnitResults, in_doubt: u64, now: Timestamp) {
        let before = self.counts().sent;
        self.units.partly = learned.partly;
        self.units.ahead.extend(learned.ahead);
        self.advance();
        self.lately.push_back((now, self.counts().sent.saturating_sub(before) + in_doubt));
    }

    /// Returns the units that are finished, or partly done, ahead of others before them.
    pub(super) fn units(&self) -> &UnitResults {
        &self.units
    }

    /// Reports whether it is time to write the state. If so, it counts as written.
    pub(super) fn is_time_to_save(&mut self) -> bool {
        let is_time = self.saved.elapsed() >= SAVE_INTERVAL;
        if is_time {
            self.saved = Instant::now();
        }
        is_time
    }

    /// Reports whether nothing was written for a minute, though the replay lives. If so, it counts as written.
    pub(super) fn is_silent(&mut self) -> bool {
        let is_silent = self.saved.elapsed() >= ALIVE_INTERVAL;
        if is_silent {
            self.saved = Instant::now();
        }
        is_silent
    }

    /// Returns the number of letters sent within a time until now.
    pub(super) fn lately(&mut self, time: Duration, now: Timestamp) -> u64 {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        self.lately.retain(|(at, _)| now.duration_since(*at) <= time);
        self.lately.iter().map(|(_, letters)| letters).sum()
    }

    /// Returns the numbers of letters sent in the last hour, each with the end of its ten seconds. No step
    /// settles for longer than an hour.
    pub(super) fn lately_by_ten_seconds(&mut self, now: Timestamp) -> Vec<(Timestamp, u64)> {
        self.lately(LONGEST_SETTLE, now);
        by_ten_seconds(self.lately.iter().copied())
    }
}

fn by_ten_seconds(letters: impl IntoIterator<Item = (Timestamp, u64)>) -> Vec<(Timestamp, u64)> {
    let mut lately = BTreeMap::new();
    for (at, letters) in letters {
        let end = Timestamp::from_second((at.as_second() + 9) / 10 * 10).unwrap_or(at);
        *lately.entry(end).or_default() += letters;
    }
    lately.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_grow_no_younger_however_often_they_are_kept() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let kept = by_ten_seconds([(at(1000), 3), (at(1013), 4), (at(1019), 5)]);
        assert_eq!(kept, [(at(1000), 3), (at(1020), 9)]);
        assert_eq!(by_ten_seconds(kept.clone()), kept);
    }
}

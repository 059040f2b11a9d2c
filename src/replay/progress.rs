//! How far a replay is, over all its workers.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant};

use super::state::{Counts, State};
use super::version::Versioned;
use super::worker::{End, Worked};

/// Between two writes of how the replay stands.
const SAVE: Duration = Duration::from_secs(2);

/// Longer settles no step.
const LONGEST_SETTLE: Duration = Duration::from_hours(1);

/// What came of units that are not behind a replay with all before them: the object
/// `<id>/rounds/<number>/units-<turn>.json`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Units {
    version: u8,
    /// Units that are wholly behind it.
    pub(super) ahead: BTreeMap<u64, Counts>,
    /// Units of which a part is behind it.
    pub(super) partly: BTreeMap<u64, Counts>,
}

impl Versioned for Units {
    const VERSION: u8 = 1;

    fn version(&self) -> u8 {
        self.version
    }
}

impl Units {
    /// The key of those that a turn tells at the end of a round. `by` is a name that no other turn has.
    pub(super) fn key(id: &str, round: u32, by: &str) -> String {
        format!("{id}/rounds/{round:06}/units-{by}.json")
    }

    pub(super) fn new() -> Self {
        Self { version: Self::VERSION, ..Self::default() }
    }
}

/// How far a replay is.
pub(super) struct Progress {
    /// As it is kept, but for the counts of units that are not wholly behind it.
    pub(super) state: State,
    /// The tag of what is kept.
    pub(super) etag: String,
    /// Units that are wholly behind it, but not all before them are; and those of which a part is.
    units: Units,
    saved: Instant,
    /// When letters went out lately.
    lately: VecDeque<(Timestamp, u64)>,
}

impl Progress {
    /// That of a replay which begins or goes on.
    pub(super) fn new(state: State, etag: String, known: Option<Units>, now: Timestamp) -> Self {
        let mut units = known.unwrap_or_else(|| {
            // What is behind it beyond its whole units is of the unit that a step ended in.
            let partly = state.counts.without(&state.place.counts);
            Units { partly: BTreeMap::from([(state.place.units, partly)]), ..Units::new() }
        });
        units.ahead.retain(|unit, _| *unit >= state.place.units);
        units.partly.retain(|unit, _| *unit >= state.place.units);
        let lately = match &state.round {
            Some(round) => round.lately.iter().copied().collect(),
            // It may have ended just now.
            None => VecDeque::from([(now, state.counts.sent.saturating_sub(state.place.sent_before))]),
        };
        Self { etag, units, saved: Instant::now(), lately, state }
    }

    /// Everything so far.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.state.place.counts.clone();
        self.units.ahead.values().chain(self.units.partly.values()).for_each(|unit| counts.add(unit));
        counts
    }

    /// How it stands, as it is shown and kept.
    pub(super) fn shown(&self) -> State {
        State { counts: self.counts(), ..self.state.clone() }
    }

    /// Notes what came of a unit, at that time.
    pub(super) fn note(&mut self, unit: u64, worked: Worked, at: Timestamp) {
        let Worked { counts, sent, end } = worked;
        self.lately.push_back((at, sent));
        if unit < self.state.place.units {
            // Told once more.
            return;
        }
        self.units.partly.remove(&unit);
        if end == End::Done {
            self.units.ahead.insert(unit, counts);
        } else {
            self.units.partly.insert(unit, counts);
        }
        self.advance();
    }

    /// Puts behind it what is, with all before.
    fn advance(&mut self) {
        let place = &mut self.state.place;
        while let Some(counts) = self.units.ahead.remove(&place.units) {
            place.counts.add(&counts);
            place.units += 1;
        }
    }

    /// Takes what was learned of all units of the stage; what nobody knew of has gone until now, and what is in doubt may have.
    pub(super) fn learn(&mut self, learned: Units, in_doubt: u64, now: Timestamp) {
        let before = self.counts().sent;
        self.units.partly = learned.partly;
        self.units.ahead.extend(learned.ahead);
        self.advance();
        self.lately.push_back((now, self.counts().sent.saturating_sub(before) + in_doubt));
    }

    /// The units that are behind it, but not with all before them.
    pub(super) fn units(&self) -> &Units {
        &self.units
    }

    /// Whether it should be written how it stands; then it is taken for written.
    pub(super) fn is_time_to_save(&mut self) -> bool {
        let is_time = self.saved.elapsed() >= SAVE;
        if is_time {
            self.saved = Instant::now();
        }
        is_time
    }

    /// Letters that went out within a time until now.
    pub(super) fn lately(&mut self, time: Duration, now: Timestamp) -> u64 {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        self.lately.retain(|(at, _)| now.duration_since(*at) <= time);
        self.lately.iter().map(|(_, letters)| letters).sum()
    }

    /// The letters that went out in the last hour, longer than which no step settles: so many until each time.
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

//! How far a replay is, over all its workers.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Duration, Instant};

use super::state::{Counts, State};
use super::worker::{End, Worked};

/// Between two writes of how the replay stands.
const SAVE: Duration = Duration::from_secs(2);

/// Longer settles no step.
const LONGEST_SETTLE: Duration = Duration::from_hours(1);

/// How far a replay is.
pub(super) struct Progress {
    /// As it is kept, but for the counts of units that are not wholly behind it.
    pub(super) state: State,
    /// The tag of what is kept.
    pub(super) etag: String,
    /// Units that are wholly behind it, but not all before them are.
    ahead: BTreeMap<u64, Counts>,
    /// Units of which a part is behind it.
    partly: BTreeMap<u64, Counts>,
    saved: Instant,
    /// When letters went out lately.
    lately: VecDeque<(Timestamp, u64)>,
}

impl Progress {
    /// That of a replay which begins or goes on.
    pub(super) fn new(state: State, etag: String, now: Timestamp) -> Self {
        // What is behind it beyond its whole units is of the unit that a step ended in.
        let partly = state.counts.without(&state.place.counts);
        let lately = match &state.round {
            Some(round) => round.lately.iter().copied().collect(),
            // It may have ended just now.
            None => VecDeque::from([(now, state.counts.sent.saturating_sub(state.place.sent_before))]),
        };
        Self {
            etag,
            ahead: BTreeMap::new(),
            partly: BTreeMap::from([(state.place.units, partly)]),
            saved: Instant::now(),
            lately,
            state,
        }
    }

    /// Everything so far.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.state.place.counts.clone();
        self.ahead.values().chain(self.partly.values()).for_each(|unit| counts.add(unit));
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
        self.partly.remove(&unit);
        if end == End::Done {
            self.ahead.insert(unit, counts);
        } else {
            self.partly.insert(unit, counts);
        }
        let place = &mut self.state.place;
        while let Some(counts) = self.ahead.remove(&place.units) {
            place.counts.add(&counts);
            place.units += 1;
        }
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
        let mut lately = BTreeMap::new();
        for (at, letters) in &self.lately {
            let at = Timestamp::from_second(at.as_second() / 10 * 10 + 10).unwrap_or(*at);
            *lately.entry(at).or_default() += letters;
        }
        lately.into_iter().collect()
    }
}

//! The ramp of a replay: the letters of a step go only after the step before was judged.

use std::collections::{BTreeMap, BTreeSet};

use redrive_sim::SimMillis;
use serde_json::Value;

use crate::letters::LetterNumber;

/// The tolerance for differences between the clocks of the account and of a process, in milliseconds. Both
/// read the same clock.
const SLACK: SimMillis = 50;

/// The course of the ramps of replays, by their ids.
#[derive(Debug, Clone, Default)]
pub(super) struct RampCourse {
    /// The letters that came.
    came: BTreeMap<String, BTreeSet<LetterNumber>>,
    /// The time when the last of them came.
    last: BTreeMap<String, SimMillis>,
    /// The time when a process was last told how many letters wait in the requeue.
    looked: SimMillis,
    /// The replays whose steps ended all at once, since nothing was left.
    through: BTreeSet<String>,
}

impl RampCourse {
    /// Records that a letter of a replay in this state came to the requeue; returns what is wrong with it.
    pub(super) fn arrived(&mut self, who: LetterNumber, at: SimMillis, state: &Value) -> Option<String> {
        let id = state["id"].as_str().unwrap_or_default().to_owned();
        let came = self.came.entry(id.clone()).or_default();
        if came.insert(who) && self.through.contains(&id) {
            return Some(format!("letter {who} comes after steps were passed over because nothing was left"));
        }
        self.last.insert(id, at);
        let end = end(state)?;
        let came = came.len() as u64;
        (came > end).then(|| format!("letter {who} is number {came}, and the step under way has {end}"))
    }

    /// Records that a process was told how many letters wait in the requeue.
    pub(super) fn looked(&mut self, at: SimMillis) {
        self.looked = at;
    }

    /// Judges a new state of a replay when it is written; returns what is wrong with it.
    pub(super) fn kept(&mut self, before: &Value, after: &Value, at: SimMillis) -> Option<String> {
        let stage = |state: &Value| state["place"]["stage"].as_u64().unwrap_or_default();
        if before["id"] != after["id"] || stage(before) >= stage(after) {
            return None;
        }
        // The last step has no letters to hold back, nor has any if nothing is left. Then all stages end at once, though
        // a fault may keep the replay from being done.
        let is_through = after["status"] == "done" || stage(after) > stage(before) + 1;
        let end = end(before)?;
        if is_through {
            self.through.insert(after["id"].as_str().unwrap_or_default().to_owned());
            return None;
        }
        let count = |what: &str| after["counts"][what].as_u64().unwrap_or_default();
        let sent = ["sent", "refused", "inDoubt"].into_iter().map(count).sum::<u64>();
        if sent < end {
            return Some(format!("a step of {end} letters is over, and {sent} were sent"));
        }
        let last = *self.last.get(after["id"].as_str().unwrap_or_default())?;
        let settled = last + after["request"]["settleSeconds"].as_i64().unwrap_or_default() * 1000 - SLACK;
        if at < settled {
            return Some("a step is over before it has settled".to_owned());
        }
        (self.looked < settled).then(|| "a step is over, and nobody looked what waits".to_owned())
    }
}

/// Returns how many letters may go until the step under way is judged, or `None` in the last step.
fn end(state: &Value) -> Option<u64> {
    let ramp = state["request"]["ramp"].as_array()?;
    let stage = usize::try_from(state["place"]["stage"].as_u64()?).ok()?;
    let percent = ramp[..ramp.len().saturating_sub(1)].get(stage)?.as_u64()?;
    Some((state["letters"].as_u64()? * percent).div_ceil(100))
}

//! The work on one lane of a round, in one invocation of a function.

use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::bench::{Bench, Limits};
use super::control::{Control, LOOK, Pace, Switch};
use super::division::{Part, Task, lanes, parts};
use super::error::ReplayError;
use super::letters::Source;
use super::parts::{Job, Replay, selection, token};
use super::request::Request;
use super::state::{Counts, State, Status};
use super::store::Condition;
use super::unit::Unit;
use super::version::Versioned;
use super::worker::{End, Worked};
use crate::policy::Policy;

/// A share of a round: one line of `<id>/rounds/<number>.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// The replay's id.
    pub id: String,
    /// The token of whoever has taken the replay up.
    pub holder: String,
    /// The number of the round.
    pub round: u32,
    /// The number of this lane, from 0.
    pub lane: usize,
    /// The number of lanes in the round.
    pub lanes: usize,
    /// The lane's rate in letters per second.
    pub rate: u32,
    /// The number of letters that the lane may send before the next judgement.
    pub letters: u64,
    /// The redrive policy as JSON, if the turn has read it. A thousand lanes could not read it at the same
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// The result of a lane: the object `<id>/rounds/<number>/<lane>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneDone {
    version: u8,
    /// `true` if all of its units are finished.
    pub is_through: bool,
    /// `true` if the lane sent as many letters as it may before the next judgement.
    pub is_paused: bool,
    /// The reason why no letter can be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The reason why part of the lane could not be worked on: a call failed, or another replay is at work
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The results of its units.
    pub units: Vec<UnitDone>,
}

/// The result of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitDone {
    /// The unit's position in the plan.
    pub unit: u64,
    /// The counts of the unit so far.
    pub counts: Counts,
    /// The number of letters of the unit that this lane sent.
    pub sent: u64,
    /// The time of the result.
    pub at: Timestamp,
    /// `true` if the unit is finished.
    pub done: bool,
}

impl Versioned for LaneDone {
    const VERSION: u8 = 1;

    fn version(&self) -> u8 {
        self.version
    }
}

impl LaneDone {
    pub(super) fn key(id: &str, round: u32, lane: usize) -> String {
        format!("{id}/rounds/{round:06}/{lane:04}.json")
    }

    fn new() -> Self {
        let version = Self::VERSION;
        Self { version, is_through: true, is_paused: false, failed: None, trouble: None, units: Vec::new() }
    }

    fn note(&mut self, task: Task, worked: Worked, at: Timestamp) {
        let Worked { counts, sent, end } = worked;
        self.is_paused |= end == End::Paused;
        self.units.push(UnitDone { unit: task.unit as u64, counts, sent, at, done: end == End::Done });
        if let End::Failed(why) = end {
            self.failed = Some(why);
        }
    }
}

impl Replay {
    /// Sends the letters of a lane, and writes the result. Returns `None` if the round is over.
    ///
    /// # Errors
    ///
    /// [`ReplayError`]. Another replay at work on the same letters is not an error.
    pub async fn lane(
        &self,
        lane: &Lane,
        policy: Option<&Policy>,
        control: &dyn Control,
    ) -> Result<Option<LaneDone>, ReplayError> {
        let state = self.kept.found(&lane.id).await?.document;
        if self.is_over(lane, &state).await? {
            return Ok(None);
        }
        let units = self.units(&lane.id).await?;
        let known = self.known(&state).await?.unwrap_or_default();
        let in_order = self.keeps_order(&state.request);
        let parts = parts(&units, &state.place, &known, state.reach(), in_order);
        let parts = lanes(&units, parts, lane.lanes).into_iter().nth(lane.lane).unwrap_or_default();
        let (job, done) = (Job { source: &Source::Archive, policy, control }, Mutex::new(LaneDone::new()));
        Box::pin(self.go_through(lane, &state, &units, parts, job, &done)).await?;
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let key = LaneDone::key(&lane.id, lane.round, lane.lane);
        // A repeated invocation may have written a result before.
        let there = self.kept.store.read::<LaneDone>(&key).await?.map(|found| found.etag);
        let written = self.kept.store.write(&key, &done, Condition::of(there.as_deref())).await?;
        written.ok_or_else(|| ReplayError::Busy(format!("another invocation for lane {}", lane.lane)))?;
        Ok(Some(done))
    }

    /// Goes through the parts of a lane.
    async fn go_through(
        &self,
        lane: &Lane,
        state: &State,
        units: &[Unit],
        parts: Vec<Part>,
        job: Job<'_>,
        done: &Mutex<LaneDone>,
    ) -> Result<(), ReplayError> {
        let selection = selection(state, &self.requeue.arn)?;
        // The rate limits the size of a batch to the letters of one second.
        let state = &State { request: Request { rate: lane.rate, ..state.request.clone() }, ..state.clone() };
        let (pace, budget, token) = (Pace::new(lane.rate), AtomicU64::new(lane.letters), token());
        let switch = Switch::new(job.control);
        let limits = Limits { pace: &pace, budget: &budget };
        let bench =
            Bench::new(self, state, &selection, Job { control: &switch, ..job }, None, limits, &token);
        let done = || done.lock().unwrap_or_else(PoisonError::into_inner);
        let note = async |task: Task, worked: Worked| {
            done().note(task, worked, self.kept.clock.now());
            Ok(())
        };
        let mut work = pin!(async {
            let work = stream::iter(parts).for_each_concurrent(self.workers, |part| async {
                // The lane's letters are used up, or none can be sent.
                if done().is_paused || done().failed.is_some() {
                    return;
                }
                let is_through = match bench.part(units, part, note).await {
                    Ok(is_through) => is_through,
                    // The other parts can continue. `keep_looking` finds out whether somebody has taken the
                    // replay up.
                    Err(error) => {
                        done().trouble = Some(error.to_string());
                        false
                    }
                };
                done().is_through &= is_through;
            });
            work.await;
            // The time for the last letters passes before those of the next round begin.
            pace.turn(0, || switch.stop()).await;
        });
        let mut looking = pin!(self.keep_looking(lane));
        // The work under way comes to its end.
        let looked = tokio::select! {
            () = &mut work => Ok(()),
            looked = &mut looking => {
                switch.turn_off();
                work.await;
                looked
            }
        };
        if let Err(error) = looked {
            let mut done = done();
            (done.is_through, done.trouble) = (false, Some(error.to_string()));
        }
        Ok(())
    }

    /// Checks repeatedly whether the lane must stop, and returns when it must.
    async fn keep_looking(&self, lane: &Lane) -> Result<(), ReplayError> {
        loop {
            sleep(LOOK).await;
            let state = self.kept.found(&lane.id).await?.document;
            if self.is_over(lane, &state).await? {
                return Ok(());
            }
        }
    }

    /// Reports whether the round of a lane is over, or somebody has stopped the replay.
    async fn is_over(&self, lane: &Lane, state: &State) -> Result<bool, ReplayError> {
        Ok(!lane.is_of(state) || self.kept.stopped(&lane.id, state.taken_up).await?.is_some())
    }
}

impl Lane {
    /// Reports whether its round is under way.
    fn is_of(&self, state: &State) -> bool {
        let lanes = state.round.as_ref().map_or(0, |round| round.lanes);
        let is_under_way = state.is_unfinished() && state.status != Status::Stopped;
        let round = (&state.holder, state.place.rounds, lanes);
        is_under_way && round == (&self.holder, self.round, self.lanes)
    }
}

//! The work on a lane of a round, which is one invocation of a function.

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

/// A share of a round; a line of `<id>/rounds/<number>.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// The replay.
    pub id: String,
    /// Who has taken it up.
    pub holder: String,
    /// Which round.
    pub round: u32,
    /// Which share, from 0.
    pub lane: usize,
    /// Of so many.
    pub lanes: usize,
    /// Letters a second.
    pub rate: u32,
    /// Letters that may go before it is looked at what came back.
    pub letters: u64,
    /// The redrive policy as JSON, where the turn has asked for it: a thousand lanes at once cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// What came of a lane: the object `<id>/rounds/<number>/<lane>.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneDone {
    version: u8,
    /// Whether all that the stage allows has gone.
    pub is_through: bool,
    /// Whether as many letters went as may before it is looked at what came back.
    pub is_paused: bool,
    /// Why no letter can be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Why a part of it could not be worked on: a call failed, or another replay is at work there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What came of its units.
    pub units: Vec<UnitDone>,
}

/// What came of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitDone {
    /// Its place in the plan.
    pub unit: u64,
    /// What came of it so far.
    pub counts: Counts,
    /// Letters that this lane has sent of it.
    pub sent: u64,
    /// When.
    pub at: Timestamp,
    /// Whether nothing is left of it.
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
    /// Sends a lane, and writes down what came of it; none where the round is over.
    ///
    /// # Errors
    ///
    /// [`ReplayError`]; that another replay is at work on its letters is none.
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
        let stages = state.stages();
        let known = self.known(&state).await?.unwrap_or_default();
        let in_order = self.keeps_order(&state.request);
        let parts = parts(&units, &stages, &state.place, &known, in_order);
        let parts = lanes(&units, parts, lane.lanes).into_iter().nth(lane.lane).unwrap_or_default();
        let (job, done) = (Job { source: &Source::Archive, policy, control }, Mutex::new(LaneDone::new()));
        Box::pin(self.go_through(lane, &state, &units, parts, job, &done)).await?;
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let key = LaneDone::key(&lane.id, lane.round, lane.lane);
        // An invocation that was repeated may have been here before.
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
        // No batch is larger than what goes in a second.
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
                // As many letters went as may, or none can be sent.
                if done().is_paused || done().failed.is_some() {
                    return;
                }
                let is_through = match bench.part(units, part, note).await {
                    Ok(is_through) => is_through,
                    // The other parts are none the worse for it. Whether somebody has taken the replay up, it is looked for.
                    Err(error) => {
                        done().trouble = Some(error.to_string());
                        false
                    }
                };
                done().is_through &= is_through;
            });
            work.await;
            // The time of the last letters is over before those of the next round begin.
            pace.turn(0, || switch.stop()).await;
        });
        let mut looking = pin!(self.keep_looking(lane));
        // What is under way comes to its end.
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

    /// Looks again and again whether the lane must stop; returns when it must.
    async fn keep_looking(&self, lane: &Lane) -> Result<(), ReplayError> {
        loop {
            sleep(LOOK).await;
            let state = self.kept.found(&lane.id).await?.document;
            if self.is_over(lane, &state).await? {
                return Ok(());
            }
        }
    }

    /// Whether the round of a lane is over, or somebody has stopped the replay.
    async fn is_over(&self, lane: &Lane, state: &State) -> Result<bool, ReplayError> {
        Ok(!lane.is_of(state) || self.kept.stopped(&lane.id, state.taken_up).await?.is_some())
    }
}

impl Lane {
    /// Whether its round is under way.
    fn is_of(&self, state: &State) -> bool {
        let lanes = state.round.as_ref().map_or(0, |round| round.lanes);
        let is_under_way = state.is_unfinished() && state.status != Status::Stopped;
        let round = (&state.holder, state.place.rounds, lanes);
        is_under_way && round == (&self.holder, self.round, self.lanes)
    }
}

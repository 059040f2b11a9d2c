//! The work on one lane of a round: in one invocation of a function, or in a process that does the whole replay.

use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;
use redrive_core::policy::Policy;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::assign::{UnitTask, WorkerTasks, lanes, parts};
use super::control::{ReplayControl, STOP_READ_INTERVAL, SendPace, SwitchedControl};
use super::drive::{ActiveReplay, BegunReplay, InHand};
use super::error::ReplayError;
use super::input_records::GivenRecords;
use super::letters::ReplaySource;
use super::progress::{ReplayProgress, UnitResults};
use super::replay_state::{ReplayCounts, ReplayState, ReplayStatus};
use super::replay_store::{StoredDocument, WriteCondition};
use super::replayer::{ArchiveReplayer, ReplayInputs, selection, token};
use super::request::ReplayRequest;
use super::unit::Unit;
use super::version::VersionedDocument;
use super::worker::{UnitEnd, UnitWork};
use super::worker_context::{WorkerContext, WorkerLimits};

/// A share of a round: one line of `<id>/rounds/<number>.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundLane {
    /// The replay's id.
    pub id: String,
    /// The token of the process or execution that has taken the replay up.
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
    /// The place of the redrive policy in S3, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_at: Option<String>,
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
    pub counts: ReplayCounts,
    /// The number of letters of the unit that this lane sent.
    pub sent: u64,
    /// The time of the result.
    pub at: Timestamp,
    /// `true` if the unit is finished.
    pub done: bool,
}

impl VersionedDocument for LaneDone {
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

    fn note(&mut self, task: UnitTask, worked: UnitWork, at: Timestamp) {
        let UnitWork { counts, sent, end } = worked;
        self.is_paused |= end == UnitEnd::Paused;
        self.units.push(UnitDone { unit: task.unit as u64, counts, sent, at, done: end == UnitEnd::Done });
        if let UnitEnd::Failed(why) = end {
            self.failed = Some(why);
        }
    }
}

/// A lane under way.
struct LaneRun<'r> {
    replay: &'r ArchiveReplayer,
    lane: &'r RoundLane,
    state: &'r ReplayState,
    units: &'r [Unit],
    job: ReplayInputs<'r>,
    /// The replay, if this process does all of the round and so owns the replay's state.
    owned: Option<ActiveReplay<'r>>,
    /// The given records by unit. `None` if the archive is read.
    given: Option<&'r GivenRecords>,
    pace: &'r SendPace,
    done: Mutex<LaneDone>,
    /// The error that ends the replay of one process.
    error: Mutex<Option<ReplayError>>,
    /// The switch, which is off when the lane must stop.
    switch: SwitchedControl<'r>,
}

impl ArchiveReplayer {
    /// Sends the letters of a lane, and writes the result. Returns `None` if the round is over.
    ///
    /// # Errors
    ///
    /// [`ReplayError`]. Another replay at work on the same letters is not an error.
    pub async fn lane(
        &self,
        lane: &RoundLane,
        policy: Option<&Policy>,
        control: &dyn ReplayControl,
    ) -> Result<Option<LaneDone>, ReplayError> {
        let job = ReplayInputs { source: &ReplaySource::Archive, policy, control };
        Ok(self.work_on(lane, job, None).await?.map(|(done, _)| done))
    }

    /// Sends the letters of a round that has one lane, in the process that does the whole replay. Meanwhile it
    /// shows and writes how far the replay is.
    ///
    /// # Errors
    ///
    /// [`ReplayError`], also if another replay is at work on the same letters.
    pub(super) async fn whole_round(
        &self,
        lane: &RoundLane,
        job: ReplayInputs<'_>,
        in_hand: &InHand,
    ) -> Result<(), ReplayError> {
        let (_, error) = self.work_on(lane, job, Some(in_hand)).await?.unzip();
        error.flatten().map_or(Ok(()), Err)
    }

    /// Returns the result of a lane, and the error of one that is a whole round.
    async fn work_on(
        &self,
        lane: &RoundLane,
        job: ReplayInputs<'_>,
        in_hand: Option<&InHand>,
    ) -> Result<Option<(LaneDone, Option<ReplayError>)>, ReplayError> {
        let StoredDocument { document: state, etag, .. } = self.kept.found(&lane.id).await?;
        if self.is_over(lane, &state).await? {
            return Ok(None);
        }
        let given = in_hand.and_then(|in_hand| in_hand.given.as_ref());
        if state.given.is_some() != given.is_some() {
            let why = "only the process that has the records can send them";
            return Err(ReplayError::Request(vec![why.to_owned()]));
        }
        let units = match in_hand {
            Some(in_hand) => Arc::clone(&in_hand.units),
            None => self.units(&lane.id).await?,
        };
        let known = self.known(&state).await?;
        let in_order = self.keeps_order(&state.request);
        let default = UnitResults::default();
        let parts = parts(&units, &state.place, known.as_ref().unwrap_or(&default), state.reach(), in_order);
        let parts = lanes(&units, parts, lane.lanes).into_iter().nth(lane.lane).unwrap_or_default();
        let owned = in_hand.map(|_| {
            let (state, units) = (state.clone(), Arc::clone(&units));
            ActiveReplay::new(self, BegunReplay { state, etag, units, known, job, given: None })
        });
        // The rate limits the size of a batch to the letters of one second.
        let state =
            ReplayState { request: ReplayRequest { rate: lane.rate, ..state.request.clone() }, ..state };
        let own = SendPace::new(lane.rate);
        let run = LaneRun {
            replay: self,
            lane,
            state: &state,
            units: &units,
            job,
            owned,
            given,
            pace: in_hand.map_or(&own, |in_hand| &in_hand.pace),
            done: Mutex::new(LaneDone::new()),
            error: Mutex::default(),
            switch: SwitchedControl::new(job.control),
        };
        Box::pin(run.go_through(parts)).await?;
        let done = run.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let error = run.error.into_inner().unwrap_or_else(PoisonError::into_inner);
        let key = LaneDone::key(&lane.id, lane.round, lane.lane);
        // A repeated invocation may have written a result before.
        let there = self.kept.store.read::<LaneDone>(&key).await?.map(|found| found.etag);
        let written = self.kept.store.write(&key, &done, WriteCondition::of(there.as_deref())).await?;
        written.ok_or_else(|| ReplayError::Busy(format!("another invocation for lane {}", lane.lane)))?;
        Ok(Some((done, error)))
    }

    /// Reports whether the round of a lane is over, or somebody has stopped the replay.
    async fn is_over(&self, lane: &RoundLane, state: &ReplayState) -> Result<bool, ReplayError> {
        Ok(!lane.is_of(state) || self.kept.stopped(&lane.id, state.taken_up).await?.is_some())
    }
}

impl LaneRun<'_> {
    /// Goes through the parts of the lane.
    async fn go_through(&self, parts: Vec<WorkerTasks>) -> Result<(), ReplayError> {
        let selection = selection(self.state, &self.replay.requeue.arn)?;
        let (budget, token) = (AtomicU64::new(self.lane.letters), token());
        let limits = WorkerLimits { pace: self.pace, budget: &budget };
        let job = ReplayInputs { control: &self.switch, ..self.job };
        let given = self.given.map(|given| &given.units);
        let bench = WorkerContext::new(self.replay, self.state, &selection, job, given, limits, &token);
        let note = async |task: UnitTask, worked: UnitWork| self.note(task, worked).await;
        let mut work = pin!(async {
            let work = stream::iter(parts).for_each_concurrent(self.replay.workers, |part| async {
                // The lane's letters are used up, or none can be sent.
                if self.done().is_paused || self.done().failed.is_some() {
                    return;
                }
                let is_through = match bench.part(self.units, part, note).await {
                    Ok(is_through) => is_through,
                    Err(error) => {
                        self.failed(error);
                        false
                    }
                };
                self.done().is_through &= is_through;
            });
            work.await;
            if self.owned.is_none() {
                // The time for the last letters passes before those of the next round begin.
                self.pace.turn(0, || self.switch.stop()).await;
            }
        });
        let mut looking = pin!(self.keep_looking());
        // The work under way comes to its end.
        let looked = tokio::select! {
            () = &mut work => Ok(()),
            looked = &mut looking => {
                self.switch.turn_off();
                work.await;
                looked
            }
        };
        if let Err(error) = looked {
            self.failed(error);
            self.done().is_through = false;
        }
        Ok(())
    }

    /// Records the result of a unit.
    async fn note(&self, task: UnitTask, worked: UnitWork) -> Result<(), ReplayError> {
        let now = self.replay.kept.clock.now();
        self.done().note(task, worked.clone(), now);
        let Some(drive) = &self.owned else { return Ok(()) };
        let is_time = drive.with(|progress| {
            progress.note(task.unit as u64, worked, now);
            progress.is_time_to_save()
        });
        self.job.control.progress(&drive.shown());
        if is_time { drive.save().await } else { Ok(()) }
    }

    /// Records that a part of the lane cannot be worked on. The other parts of a function's lane continue, and
    /// [`Self::keep_looking`] finds out whether somebody has taken the replay up. A process that does the whole
    /// round ends with the error, after the units under way.
    fn failed(&self, error: ReplayError) {
        self.done().trouble = Some(error.to_string());
        if self.owned.is_some() {
            self.switch.turn_off();
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Checks repeatedly whether the lane must stop, and returns when it must.
    async fn keep_looking(&self) -> Result<(), ReplayError> {
        loop {
            sleep(STOP_READ_INTERVAL).await;
            let state = self.replay.kept.found(&self.lane.id).await?.document;
            if self.replay.is_over(self.lane, &state).await? {
                return Ok(());
            }
            if let Some(drive) = &self.owned
                && drive.with(ReplayProgress::is_silent)
            {
                drive.save().await?;
            }
        }
    }

    fn done(&self) -> MutexGuard<'_, LaneDone> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RoundLane {
    /// Reports whether its round is under way.
    fn is_of(&self, state: &ReplayState) -> bool {
        let lanes = state.round.as_ref().map_or(0, |round| round.lanes);
        let is_under_way = state.is_unfinished() && state.status != ReplayStatus::Stopped;
        let round = (&state.holder, state.place.rounds, lanes);
        is_under_way && round == (&self.holder, self.round, self.lanes)
    }
}

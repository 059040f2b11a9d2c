//! The state of a replay that somebody has taken up, and what the replay does next.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;

use super::assign::{WorkerTasks, parts};
use super::control::SendPace;
use super::error::ReplayError;
use super::input_records::GivenRecords;
use super::ledger::UnitLedger;
use super::progress::{ReplayProgress, UnitResults};
use super::replay_stages::RampStage;
use super::replay_state::{ReplayCounts, ReplayState, ReplayStatus};
use super::replay_store::{CONCURRENT_DOCUMENTS, StoredDocument, WriteCondition};
use super::replayer::{ArchiveReplayer, ReplayInputs};
use super::replays::key_of;
use super::unit::Unit;

/// A replay that somebody has taken up.
pub(super) struct ActiveReplay<'r> {
    pub(super) replay: &'r ArchiveReplayer,
    job: ReplayInputs<'r>,
    pub(super) units: Arc<[Unit]>,
    progress: Mutex<ReplayProgress>,
    /// A lock that lets the state be written once at a time. Each write needs the tag of the one before.
    saving: tokio::sync::Mutex<()>,
}

/// The result of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundEnd {
    /// The work came to its end: the letters that the stage allows were sent, or those within reach.
    Through,
    /// It was cut short.
    Interrupted,
}

/// The next action of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextAction {
    /// The letters that the current stage allows are to be sent.
    Send,
    /// The replay waits until the step can be judged.
    Wait,
    /// The replay is done or stopped.
    End,
}

/// A replay that is begun or continued.
pub(super) struct BegunReplay<'r> {
    pub(super) state: ReplayState,
    pub(super) etag: String,
    pub(super) units: Arc<[Unit]>,
    /// The results known of units that are finished, or partly done, ahead of others before them.
    pub(super) known: Option<UnitResults>,
    pub(super) job: ReplayInputs<'r>,
    /// The given records by unit. `None` if the archive is read.
    pub(super) given: Option<GivenRecords>,
}

/// What one process alone keeps in memory from turn to turn. The functions of a state machine read it again.
pub(super) struct InHand {
    pub(super) units: Arc<[Unit]>,
    /// The given records by unit. `None` if the archive is read.
    pub(super) given: Option<GivenRecords>,
    /// The pace of all its rounds.
    pub(super) pace: SendPace,
}

impl<'r> ActiveReplay<'r> {
    /// Continues a replay that was taken up before.
    pub(super) fn new(replay: &'r ArchiveReplayer, begun: BegunReplay<'r>) -> Self {
        let BegunReplay { state, etag, units, known, job, given: _ } = begun;
        let progress = Mutex::new(ReplayProgress::new(state, etag, known, replay.kept.clock.now()));
        Self { replay, job, units, progress, saving: tokio::sync::Mutex::default() }
    }

    /// Takes a replay up. Any other process that works on it then finds out that it was taken up.
    pub(super) async fn take_up(
        replay: &'r ArchiveReplayer,
        mut begun: BegunReplay<'r>,
    ) -> Result<Self, ReplayError> {
        let state = &mut begun.state;
        let was_stopped = state.status == ReplayStatus::Stopped;
        let is_new = state.place.step_began == Timestamp::default();
        state.round = None;
        // If the replay was stopped while it waited for its judgement, that judgement was never made.
        let settles = state.not_before.is_some();
        if settles {
            (state.status, state.because) = (ReplayStatus::Settling, None);
        } else {
            state.go_on();
        }
        let drive = Self::new(replay, begun);
        // From here on a report of a failure can name the replay.
        drive.job.control.progress(&drive.shown());
        drive.save().await?;
        if !is_new {
            drive.learn().await?;
        }
        if is_new || (was_stopped && !settles) {
            // Letters that wait now are not the fault of those sent from here on.
            drive.begin_step(is_new).await?;
        }
        drive.job.control.progress(&drive.shown());
        Ok(drive)
    }

    /// Returns the next action.
    pub(super) async fn next(&self) -> Result<NextAction, ReplayError> {
        let (status, number) = self.with(|progress| (progress.state.status, progress.state.place.stage));
        if number < self.stages().len() {
            return Ok(if status == ReplayStatus::Settling { NextAction::Wait } else { NextAction::Send });
        }
        if self.is_dry_run() {
            self.with(|progress| progress.state.status = ReplayStatus::DryRun);
            return Ok(NextAction::End);
        }
        let came_back = self.came_back().await?;
        self.with(|progress| {
            progress.state.came_back = came_back;
            progress.state.status = ReplayStatus::Done;
        });
        Ok(NextAction::End)
    }

    /// Continues after letters were sent.
    pub(super) async fn sent(&self) -> Result<NextAction, ReplayError> {
        let stages = self.stages();
        if !self.is_anything_left() {
            // Nothing is left to hold back.
            self.with(|progress| {
                progress.state.place.stage = stages.len();
                progress.state.step = stages.last().map_or(progress.state.step, |stage| stage.step);
            });
            return self.next().await;
        }
        let state = self.shown();
        if state.budget() > 0 {
            return Ok(NextAction::Send);
        }
        let stage = stages.get(state.place.stage);
        let settles = stage.is_none_or(|stage| stage.settles || state.counts.begun() < stage.end);
        // Letters that were sent long ago, or not at all, need no time to settle.
        if settles && self.has_sent() {
            self.with(|progress| progress.state.settle(self.replay.kept.clock.now()));
            self.save().await?;
            self.job.control.progress(&self.shown());
            return Ok(NextAction::Wait);
        }
        self.judged().await
    }

    /// Continues from a stage that can be judged.
    pub(super) async fn judged(&self) -> Result<NextAction, ReplayError> {
        let stages = self.stages();
        let number = self.with(|progress| progress.state.place.stage);
        let Some(stage) = stages.get(number).copied() else { return self.next().await };
        if !self.judge(stage, &stages).await? {
            return Ok(NextAction::End);
        }
        self.save().await?;
        self.job.control.progress(&self.shown());
        self.next().await
    }

    pub(super) fn stages(&self) -> Vec<RampStage> {
        self.with(|progress| progress.state.stages())
    }

    fn is_dry_run(&self) -> bool {
        self.with(|progress| progress.state.request.dry_run)
    }

    /// Reports whether the step has sent any letters.
    fn has_sent(&self) -> bool {
        self.with(|progress| progress.counts().sent > progress.state.place.sent_before)
    }

    /// Reports whether any letters may be sent before the next judgement. Those that may have been sent are
    /// sent again in any case.
    pub(super) fn may_send(&self) -> bool {
        let is_in_doubt = |counts: &ReplayCounts| counts.in_doubt > 0;
        self.shown().budget() > 0 || self.with(|progress| progress.units().partly.values().any(is_in_doubt))
    }

    /// Returns the parts that are within reach of the current stage.
    pub(super) fn parts(&self) -> Vec<WorkerTasks> {
        self.parts_up_to(self.shown().reach())
    }

    /// Reports whether any unit is still to be done.
    pub(super) fn is_anything_left(&self) -> bool {
        !self.parts_up_to(u64::MAX).is_empty()
    }

    fn parts_up_to(&self, reach: u64) -> Vec<WorkerTasks> {
        self.with(|progress| {
            let in_order = self.replay.keeps_order(&progress.state.request);
            parts(&self.units, &progress.state.place, progress.units(), reach, in_order)
        })
    }

    /// Learns the results of all units from the ledgers. A worker may have died before it reported them, or
    /// may still be at work. Letters that it may have sent count as sent just now.
    pub(super) async fn learn(&self) -> Result<(), ReplayError> {
        let id = self.with(|progress| progress.state.id.clone());
        let store = &self.replay.kept.store;
        let units = self.parts_up_to(u64::MAX).into_iter().flatten().map(|task| task.unit);
        let read = |unit: usize| async move {
            Ok::<_, ReplayError>((unit, store.read::<UnitLedger>(&self.units[unit].key()).await?))
        };
        let mut read = stream::iter(units).map(read).buffered(CONCURRENT_DOCUMENTS);
        let (mut learned, mut in_doubt, mut unread) = (UnitResults::new(), 0, None);
        while let Some(ledger) = read.next().await {
            // The other ledgers count even if this one cannot be read.
            let (unit, ledger) = match ledger {
                Ok((unit, Some(StoredDocument { document, .. }))) => (unit, document),
                Ok((_, None)) => continue,
                Err(error) => {
                    unread.get_or_insert(error);
                    continue;
                }
            };
            let Some(entry) = ledger.entry(&id) else { continue };
            in_doubt += entry.in_doubt();
            match &entry.done {
                Some(counts) => learned.ahead.insert(unit as u64, counts.clone()),
                None => learned.partly.insert(unit as u64, entry.counts()),
            };
        }
        drop(read);
        let now = self.replay.kept.clock.now();
        self.with(|progress| progress.learn(learned, in_doubt, now));
        unread.map_or(Ok(()), Err)
    }

    /// Checks whether somebody has stopped it.
    pub(super) async fn look(&self) -> Result<(), ReplayError> {
        let (id, taken_up) = self.with(|progress| (progress.state.id.clone(), progress.state.taken_up));
        if let Some(because) = self.replay.kept.stopped(&id, taken_up).await? {
            self.with(|progress| progress.state.stop(because));
        }
        Ok(())
    }

    /// Writes the state, unless somebody else has written it since.
    pub(super) async fn save(&self) -> Result<(), ReplayError> {
        let _one_at_a_time = self.saving.lock().await;
        let (state, etag) = self.with(|progress| (progress.shown(), progress.etag.clone()));
        let written =
            self.replay.kept.store.write(&key_of(&state.id), &state, WriteCondition::Is(&etag)).await?;
        match written {
            Some(etag) => {
                self.with(|progress| progress.etag = etag);
                Ok(())
            }
            None => Err(ReplayError::TakenUp(state.id)),
        }
    }

    pub(super) fn shown(&self) -> ReplayState {
        self.with(|progress| progress.shown())
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut ReplayProgress) -> T) -> T {
        act(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

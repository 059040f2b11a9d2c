//! Counts the letters that a replay would send now.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use redrive_core::policy::Policy;

use super::control::{ReplayControl, SendPace};
use super::error::ReplayError;
use super::letters::ReplaySource;
use super::recent_letters::RecentLetters;
use super::replay_state::{ReplayState, ReplayStatus};
use super::replay_store::CONCURRENT_DOCUMENTS;
use super::replayer::{ArchiveReplayer, ReplayInputs, selection};
use super::request::ReplayRequest;
use super::run::PlannedReplay;
use super::unit::Unit;
use super::worker_context::{WorkerContext, WorkerLimits};

impl ArchiveReplayer {
    /// Counts the letters that a replay would send now, and writes nothing. If it does not know the targets, or if there
    /// are too many letters to read each of them, the state says [`at_most`](ReplayState::at_most).
    ///
    /// # Errors
    ///
    /// [`ReplayError`] if the request is wrong, a call fails, or `control` stops it.
    pub async fn dry_run(
        &self,
        request: &ReplayRequest,
        source: &ReplaySource,
        policy: Option<&Policy>,
        control: &dyn ReplayControl,
    ) -> Result<ReplayState, ReplayError> {
        let job = ReplayInputs { source, policy, control };
        let planned = Box::pin(self.planned(request, job, false)).await?;
        self.count(planned, job).await
    }

    /// Counts the letters that a replay with this plan would send now.
    pub(super) async fn count(
        &self,
        planned: PlannedReplay,
        job: ReplayInputs<'_>,
    ) -> Result<ReplayState, ReplayError> {
        let PlannedReplay { mut state, plan, given } = planned;
        let selection = selection(&state, &self.requeue.arn)?;
        let (pace, budget) = (SendPace::new(state.request.rate), AtomicU64::new(0));
        let given_units = given.as_ref().map(|given| &given.units);
        let begun = state.clone();
        let limits = WorkerLimits { pace: &pace, budget: &budget };
        let bench = WorkerContext::new(self, &begun, &selection, job, given_units, limits, "");
        let hours = plan.units.chunk_by(Unit::is_near).filter_map(<[Unit]>::first);
        let store = &self.kept.store;
        let listed = |hour: &Unit| {
            let folder = Unit::folder(&hour.queue, &hour.hour);
            async move { store.list(&folder, None).await }
        };
        let mut hours = stream::iter(hours).map(listed).buffered(CONCURRENT_DOCUMENTS);
        let (mut met, mut touched) = (RecentLetters::new(1), HashSet::new());
        for (place, unit) in plan.units.iter().enumerate() {
            if place == 0 || !unit.is_near(&plan.units[place - 1]) {
                if job.control.stop() {
                    return Err(ReplayError::NotPlanned);
                }
                met = RecentLetters::new(1);
                touched = hours.try_next().await?.unwrap_or_default().into_iter().collect();
            }
            if bench.counts_by_index(unit) && !touched.contains(&unit.key()) {
                state.counts.sent += unit.letters;
                continue;
            }
            let Some(read) = bench.read(unit).await? else { return Err(ReplayError::NotPlanned) };
            state.counts.add(&bench.count(unit, read, &mut met));
        }
        state.status = ReplayStatus::DryRun;
        Ok(state)
    }
}

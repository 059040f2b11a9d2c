//! Counts the letters that a replay would send now.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::bench::{Bench, Limits};
use super::control::{Control, Pace};
use super::error::ReplayError;
use super::letters::Source;
use super::met::Met;
use super::parts::{Job, Replay, selection};
use super::request::Request;
use super::run::Planned;
use super::state::{State, Status};
use super::store::AT_ONCE;
use super::unit::Unit;
use crate::policy::Policy;

/// The greatest number of units that a dry run reads to be right. Each has at most a thousand letters, so that this takes
/// half a minute with 256 MB.
const MOST_UNITS: usize = 50;

/// Reports whether a dry run with this plan only bounds the number of letters to send.
pub(super) fn is_bound(request: &Request, source: &Source, policy: Option<&Policy>, units: &[Unit]) -> bool {
    let from_archive = matches!(source, Source::Archive);
    let sets_targets = request.to.is_some() || (from_archive && !request.subscriptions.is_empty());
    let knows_targets = sets_targets || policy.is_some();
    let is_large = from_archive && units.len() > MOST_UNITS && units.iter().any(|unit| unit.exact);
    request.dry_run && (!knows_targets || is_large)
}

impl Replay {
    /// Counts the letters that a replay would send now, and writes nothing. If it does not know the targets, or if there
    /// are too many letters to read each of them, the state says [`at_most`](State::at_most).
    ///
    /// # Errors
    ///
    /// [`ReplayError`] if the request is wrong, a call fails, or `control` stops it.
    pub async fn dry_run(
        &self,
        request: &Request,
        source: &Source,
        policy: Option<&Policy>,
        control: &dyn Control,
    ) -> Result<State, ReplayError> {
        let job = Job { source, policy, control };
        let planned = Box::pin(self.planned(request, job, false)).await?;
        self.count(planned, job).await
    }

    /// Counts the letters that a replay with this plan would send now.
    pub(super) async fn count(&self, planned: Planned, job: Job<'_>) -> Result<State, ReplayError> {
        let Planned { mut state, plan, given } = planned;
        let selection = selection(&state, &self.requeue.arn)?;
        let (pace, budget) = (Pace::new(state.request.rate), AtomicU64::new(0));
        let given_units = given.as_ref().map(|given| &given.units);
        let begun = state.clone();
        let limits = Limits { pace: &pace, budget: &budget };
        let bench = Bench::new(self, &begun, &selection, job, given_units, limits, "");
        let hours = plan.units.chunk_by(Unit::is_near).filter_map(<[Unit]>::first);
        let store = &self.kept.store;
        let listed = |hour: &Unit| {
            let folder = Unit::folder(&hour.queue, &hour.hour);
            async move { store.list(&folder, None).await }
        };
        let mut hours = stream::iter(hours).map(listed).buffered(AT_ONCE);
        let (mut met, mut touched) = (Met::new(1), HashSet::new());
        for (place, unit) in plan.units.iter().enumerate() {
            if place == 0 || !unit.is_near(&plan.units[place - 1]) {
                if job.control.stop() {
                    return Err(ReplayError::NotPlanned);
                }
                met = Met::new(1);
                touched = hours.try_next().await?.unwrap_or_default().into_iter().collect();
            }
            if bench.counts_by_index(unit) && !touched.contains(&unit.key()) {
                state.counts.sent += unit.letters;
                continue;
            }
            let Some(read) = bench.read(unit).await? else { return Err(ReplayError::NotPlanned) };
            state.counts.add(&bench.count(unit, read, &mut met));
        }
        state.status = Status::DryRun;
        Ok(state)
    }
}

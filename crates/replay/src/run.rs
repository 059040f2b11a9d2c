//! The beginning of a replay, and its resumption.

use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use redrive_core::arn::Arn;
use redrive_core::policy::Policy;

use super::assign::spread;
use super::control::ReplayControl;
use super::drive::BegunReplay;
use super::error::ReplayError;
use super::input_records::GivenRecords;
use super::letters::ReplaySource;
use super::plan::{UnitPlan, UnitPlanner};
use super::progress::UnitResults;
use super::replay_state::{OperatorNote, ReplayCounts, ReplayPosition, ReplayState, ReplayStatus};
use super::replay_store::{StoredDocument, WriteCondition};
use super::replayer::{ArchiveReplayer, ReplayInputs, selection, token};
use super::replays::{digest, key_of};
use super::request::{ReplayRequest, ReplaySelection, ResumeRequest};
use super::unit::Unit;
use super::version::VersionedDocument;

/// The longest time after which a letter appears in the archive, counted from the time in its record.
const ARCHIVE_LAG: SignedDuration = SignedDuration::from_secs(5);

/// The greatest number of units that a dry run reads to be right. Each has at most a thousand letters, so that this takes
/// half a minute with 256 MB.
const MOST_UNITS: usize = 50;

/// A planned replay.
pub(super) struct PlannedReplay {
    /// The replay's state.
    pub(super) state: ReplayState,
    pub(super) plan: UnitPlan,
    /// The given records by unit. `None` if the archive is read.
    pub(super) given: Option<GivenRecords>,
}

impl ArchiveReplayer {
    /// Begins a replay without sending anything yet.
    pub(super) async fn begun<'r>(
        &self,
        request: &ReplayRequest,
        job: ReplayInputs<'r>,
    ) -> Result<BegunReplay<'r>, ReplayError> {
        self.check_is_worked_on(request)?;
        let planned = Box::pin(self.planned(request, job, true)).await?;
        self.begun_of(planned, job).await
    }

    /// Begins a planned replay.
    pub(super) async fn begun_of<'r>(
        &self,
        planned: PlannedReplay,
        job: ReplayInputs<'r>,
    ) -> Result<BegunReplay<'r>, ReplayError> {
        let PlannedReplay { mut state, mut plan, given } = planned;
        if !self.requeue.arn.is_fifo() {
            plan.units = spread(plan.units);
        }
        for queue in &plan.queues {
            self.watch(queue, &mut state, job.control).await;
        }
        state.step = state.stages().first().map_or(1, |stage| stage.step);
        let line = |unit| serde_json::to_string(unit).map(|line| line + "\n");
        let text: Result<String, _> = plan.units.iter().map(line).collect();
        let text = text.map_err(|_| ReplayError::Broken(state.id.clone()))?;
        // A replay can be stopped as soon as its state is visible, so it is taken up before that.
        self.take(&mut state).await?;
        let key = format!("{}/units.jsonl", state.id);
        let taken = || ReplayError::TakenUp(state.id.clone());
        self.kept.store.write_text(&key, text, WriteCondition::Absent).await?.ok_or_else(taken)?;
        let key = key_of(&state.id);
        let etag = self.kept.store.write(&key, &state, WriteCondition::Absent).await?.ok_or_else(taken)?;
        Ok(BegunReplay { state, etag, units: plan.units.into(), known: None, job, given })
    }

    /// Reads a replay that is to be continued. Its selection and its steps stay the same.
    pub(super) async fn gone_on<'r>(
        &self,
        resume: &ResumeRequest,
        job: ReplayInputs<'r>,
    ) -> Result<BegunReplay<'r>, ReplayError> {
        let id = &resume.id;
        let StoredDocument { document: mut state, etag, .. } = self.kept.found(id).await?;
        if !state.is_unfinished() {
            let why = if state.freed.is_some() { "its letters in doubt were freed" } else { "it is done" };
            return Err(ReplayError::Request(vec![format!("replay {id} cannot be resumed: {why}")]));
        }
        self.check_is_worked_on(&state.request)?;
        self.forget_deleted(&mut state, job.control).await;
        resume.change(&mut state.request);
        state.request.check_pace().map_err(ReplayError::Request)?;
        if digest(job.source) != state.given {
            let fault = "the records must be the same as when the replay began";
            return Err(ReplayError::Request(vec![fault.to_owned()]));
        }
        let units = self.units(id).await?;
        let given = match job.source {
            ReplaySource::Archive => None,
            ReplaySource::Input(records) => {
                Some(Box::pin(GivenRecords::find(self, records, false, job.control)).await?)
            }
        };
        // Letters that have left the archive since the replay began are not sent.
        for (why, count) in given.iter().flat_map(|given| &given.counts.not_replayable) {
            for counts in [&mut state.counts, &mut state.place.counts] {
                let known = counts.not_replayable.entry(why.clone()).or_default();
                *known = (*known).max(*count);
            }
        }
        let known = self.known(&state).await?;
        self.take(&mut state).await?;
        state.resumed =
            Some(OperatorNote { at: state.taken_up, by: self.kept.by.clone(), why: resume.why.clone() });
        Ok(BegunReplay { state, etag, units, known, job, given })
    }

    /// Records that somebody new has taken the replay up.
    async fn take(&self, state: &mut ReplayState) -> Result<(), ReplayError> {
        (state.taken_up, state.holder) = (self.kept.now().await?, token());
        Ok(())
    }

    /// Returns the units of a replay.
    pub(super) async fn units(&self, id: &str) -> Result<Arc<[Unit]>, ReplayError> {
        let key = format!("{id}/units.jsonl");
        let text = self.kept.store.text(&key).await?;
        let units: Option<Result<_, _>> = text.map(|text| text.lines().map(serde_json::from_str).collect());
        units.and_then(Result::ok).ok_or(ReplayError::Broken(key))
    }

    /// Returns the units that are finished, or partly done, ahead of others before them, if a turn has stored
    /// them.
    pub(super) async fn known(&self, state: &ReplayState) -> Result<Option<UnitResults>, ReplayError> {
        let Some(key) = &state.place.known else { return Ok(None) };
        let found = self.kept.store.read::<UnitResults>(key).await?;
        found.map(|found| Some(found.document)).ok_or_else(|| ReplayError::Broken(key.clone()))
    }

    /// Plans a new replay. With `keep` the cut of its units is stored, as it must be before anything is sent.
    pub(super) async fn planned(
        &self,
        request: &ReplayRequest,
        job: ReplayInputs<'_>,
        keep: bool,
    ) -> Result<PlannedReplay, ReplayError> {
        request.check().map_err(ReplayError::Request)?;
        let wrong = |why: &str| Err(ReplayError::Request(vec![why.to_owned()]));
        let now = self.kept.now().await?;
        if request.cut_off.is_some_and(|cut_off| cut_off > now) {
            return wrong("cutOff: must not lie in the future");
        }
        let of_input = matches!(job.source, ReplaySource::Input(_));
        if of_input && (request.select != ReplaySelection::default() || request.cut_off.is_some()) {
            return wrong("select, cutOff: must not be given together with records");
        }
        if !of_input && request.selects_all() && !request.all {
            return wrong(
                "select: is empty, which selects the whole archive: to confirm that, set all to true",
            );
        }
        let cut_off = request.cut_off.unwrap_or_else(|| now.saturating_sub(ARCHIVE_LAG).unwrap_or(now));
        let id = format!("{}-{}", compact(now), &token()[..6]);
        let mut state = ReplayState {
            version: ReplayState::VERSION,
            id,
            request: request.clone(),
            given: digest(job.source),
            by: self.kept.by.clone(),
            began: now,
            taken_up: now,
            holder: String::new(),
            cut_off,
            status: ReplayStatus::Running,
            because: None,
            letters: 0,
            exact: false,
            at_most: false,
            abandoned: false,
            units: 0,
            counts: ReplayCounts::default(),
            came_back: 0,
            step: 1,
            steps: request.ramp.len(),
            queues: Vec::new(),
            not_before: None,
            resumed: None,
            freed: None,
            round: None,
            place: ReplayPosition::default(),
        };
        let selection = selection(&state, &self.requeue.arn)?;
        let (plan, given) = match job.source {
            ReplaySource::Archive => {
                let planner = UnitPlanner::new(self, &selection, keep, job.control);
                (Box::pin(planner.plan()).await?, None)
            }
            ReplaySource::Input(records) => {
                let given = Box::pin(GivenRecords::find(self, records, keep, job.control)).await?;
                (given.plan(), Some(given))
            }
        };
        state.counts = given.as_ref().map(|given| given.counts.clone()).unwrap_or_default();
        state.place.counts = state.counts.clone();
        state.at_most = is_bound(request, job.source, job.policy, &plan.units);
        (state.letters, state.exact, state.units) = (plan.letters, plan.exact, plan.units.len() as u64);
        state.place.others = plan.others && !request.again;
        Ok(PlannedReplay { state, plan, given })
    }

    /// Leaves out the dead-letter queues that were deleted since the replay began: no letters can wait there.
    async fn forget_deleted(&self, state: &mut ReplayState, control: &dyn ReplayControl) {
        // Each queue keeps the number that it had when the step began.
        let before = std::mem::take(&mut state.place.queues_before);
        let before = before.into_iter().map(Some).chain(std::iter::repeat(None));
        for (queue, number) in std::mem::take(&mut state.queues).into_iter().zip(before) {
            match self.requeue.waiting(&queue).await {
                Err(failure) if failure.is_of_no_queue() => control.not_watched(&queue, &failure),
                _ => {
                    state.queues.push(queue);
                    state.place.queues_before.extend(number);
                }
            }
        }
    }

    /// Adds a dead-letter queue to those that are watched, if it can be read.
    async fn watch(&self, queue: &str, state: &mut ReplayState, control: &dyn ReplayControl) {
        let requeue = &self.requeue.arn;
        let arn = requeue.as_str().rsplit_once(':').map(|(account, _)| format!("{account}:{queue}"));
        let Some(arn) = arn.and_then(|arn| arn.parse::<Arn>().ok()).filter(|arn| arn != requeue) else {
            return;
        };
        match self.requeue.waiting(&arn).await {
            Ok(_) => state.queues.push(arn),
            Err(failure) => control.not_watched(&arn, &failure),
        }
    }
}

/// Returns the moment at which a replay began, as its id tells.
#[must_use]
pub fn began(id: &str) -> Option<Timestamp> {
    let (time, _) = id.split_once('-')?;
    Some(DateTime::strptime(ID_TIME, time).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// The time in an id.
const ID_TIME: &str = "%Y%m%dT%H%M%SZ";

fn compact(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime(ID_TIME).to_string()
}

/// Reports whether a dry run with this plan only bounds the number of letters to send.
fn is_bound(request: &ReplayRequest, source: &ReplaySource, policy: Option<&Policy>, units: &[Unit]) -> bool {
    let from_archive = matches!(source, ReplaySource::Archive);
    let sets_targets = request.to.is_some() || (from_archive && !request.subscriptions.is_empty());
    let knows_targets = sets_targets || policy.is_some();
    let is_large = from_archive && units.len() > MOST_UNITS && units.iter().any(|unit| unit.exact);
    request.dry_run && (!knows_targets || is_large)
}

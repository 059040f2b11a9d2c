//! The beginning of a replay, its resumption, its end, and what operators ask of it meanwhile.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::control::{Control, Pace};
use super::drive::Drive;
use super::error::ReplayError;
use super::given::Given;
use super::kept::{Replays, digest, key_of};
use super::letters::Source;
use super::plan::{Plan, Unit, plan, whole_days};
use super::ramp::stages;
use super::request::{Request, Resume};
use super::requeue::Requeue;
use super::state::{Counts, Place, State, Status};
use super::store::{Condition, Found};
use super::version::Versioned;
use super::worker::{Bench, Met};
use crate::archive::{Listing, Selection};
use crate::arn::Arn;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::delivery::{Dispatcher, Reach};
use crate::policy::Policy;

/// How late a letter can appear in the archive after the time that stands in it.
const ARCHIVE_LAG: SignedDuration = SignedDuration::from_secs(5);

/// What a replay works with.
#[derive(Debug)]
pub struct Parts {
    /// The AWS clients.
    pub clients: Clients,
    /// The archive's bucket.
    pub bucket: String,
    /// The archive's prefix.
    pub prefix: String,
    /// The bucket in which replays keep what they know.
    pub control_bucket: String,
    /// The prefix of the same: that of orders.
    pub control_prefix: String,
    /// The requeue.
    pub requeue: Arn,
    /// The time.
    pub clock: Clock,
    /// Who this is.
    pub by: String,
    /// Units that are worked on at once, from 1.
    pub workers: usize,
}

/// Replays letters of one archive.
#[derive(Debug)]
pub struct Replay {
    pub(super) s3: aws_sdk_s3::Client,
    pub(super) bucket: String,
    pub(super) prefix: String,
    pub(super) kept: Replays,
    pub(super) requeue: Requeue,
    pub(super) workers: usize,
}

/// What a replay is run with.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) source: &'a Source,
    pub(super) policy: Option<&'a Policy>,
    pub(super) control: &'a dyn Control,
}

impl Replay {
    /// Joins the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { clients, bucket, prefix, control_bucket, control_prefix, requeue, clock, by, workers } =
            parts;
        let dispatcher = Dispatcher::new(&clients, Reach::Public);
        let kept = Replays::new(clients.s3.clone(), &control_bucket, &control_prefix, clock, by);
        let requeue = Requeue { sqs: clients.sqs, dispatcher, arn: requeue };
        let prefix = prefix.trim_matches('/').to_owned();
        Self { s3: clients.s3, bucket, prefix, kept, requeue, workers: workers.max(1) }
    }

    /// What is kept of replays.
    #[must_use]
    pub fn kept(&self) -> &Replays {
        &self.kept
    }

    /// Checks that the requeue is one, by its tag: any other queue would take every letter and deliver none.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Request`] where it has no such tag; [`ReplayError::Failed`] where nobody can say.
    pub async fn check_requeue(&self) -> Result<(), ReplayError> {
        let failed = |failure| ReplayError::failed("reading the tags of the requeue", failure);
        if self.requeue.is_tagged().await.map_err(failed)? {
            return Ok(());
        }
        let (tag, url) = (super::requeue::TAG, self.requeue.arn.queue_url());
        Err(ReplayError::Request(vec![format!(
            "{} has no tag {}={}, so it may be no requeue of the function; if it is: \
             aws sqs tag-queue --queue-url {url} --tags {}={}",
            self.requeue.arn, tag.0, tag.1, tag.0, tag.1
        )]))
    }

    /// Counts what a replay would send now, and writes nothing at all.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn dry_run(
        &self,
        request: &Request,
        source: &Source,
        policy: Option<&Policy>,
        control: &dyn Control,
    ) -> Result<State, ReplayError> {
        let job = Job { source, policy, control };
        let (mut state, plan, given) = Box::pin(self.planned(request, job, false)).await?;
        let selection = selection(&state, &self.requeue.arn)?;
        let (pace, budget) = (Pace::new(request.rate), AtomicU64::new(0));
        let given_units = given.as_ref().map(|given| &given.units);
        let begun = state.clone();
        let bench = self.bench(&begun, &selection, job, given_units, (&pace, &budget), "");
        let (mut met, mut touched) = (Met::new(1), HashSet::new());
        for (place, unit) in plan.units.iter().enumerate() {
            if place == 0 || !unit.is_near(&plan.units[place - 1]) {
                met = Met::new(1);
                let folder = Unit::folder(&unit.queue, &unit.hour);
                touched = self.kept.store.list(&folder, None).await?.into_iter().collect();
            }
            // What no replay has touched, and what the index alone decides, need not be read.
            if unit.exact && given.is_none() && !touched.contains(&unit.key()) {
                state.counts.sent += unit.letters;
                continue;
            }
            let Some(read) = bench.read(unit).await? else { return Err(ReplayError::NotPlanned) };
            state.counts.add(&bench.count(unit, read, &mut met));
        }
        state.status = Status::DryRun;
        Ok(state)
    }

    /// Begins a replay. Returns when all is sent, when it must stop, or when `control` says so; the state tells which.
    /// Where the redrive policy is known, letters without a target by it are left out.
    ///
    /// # Errors
    ///
    /// [`ReplayError`]; what happens to single letters is never one.
    pub async fn begin(
        &self,
        request: &Request,
        source: &Source,
        policy: Option<&Policy>,
        control: &dyn Control,
    ) -> Result<State, ReplayError> {
        let job = Job { source, policy, control };
        let (mut state, plan, given) = Box::pin(self.planned(request, job, true)).await?;
        for queue in &plan.queues {
            self.watch(queue, &mut state, control).await;
        }
        let stages = stages(&state.request.ramp, state.letters);
        state.step = stages.first().map_or(1, |stage| stage.step);
        let line = |unit| serde_json::to_string(unit).map(|line| line + "\n");
        let text: Result<String, _> = plan.units.iter().map(line).collect();
        let text = text.map_err(|_| ReplayError::Broken(state.id.clone()))?;
        let key = format!("{}/units.jsonl", state.id);
        let taken = || ReplayError::TakenUp(state.id.clone());
        self.kept.store.write_text(&key, text, Condition::Absent).await?.ok_or_else(taken)?;
        let key = key_of(&state.id);
        let etag = self.kept.store.write(&key, &state, Condition::Absent).await?.ok_or_else(taken)?;
        Box::pin(Drive::go(self, state, etag, plan.units, job, given)).await
    }

    /// Goes on with a replay where it ended. What it selects, and its steps, stay as they were.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn resume(
        &self,
        resume: &Resume,
        source: &Source,
        policy: Option<&Policy>,
        control: &dyn Control,
    ) -> Result<State, ReplayError> {
        let job = Job { source, policy, control };
        let id = &resume.id;
        let Found { document: mut state, etag, .. } = self.kept.found(id).await?;
        if !state.is_unfinished() {
            let why = if state.freed.is_some() { "its letters in doubt were freed" } else { "it is done" };
            return Err(ReplayError::Request(vec![format!("replay {id} does not go on: {why}")]));
        }
        resume.change(&mut state.request);
        state.request.check_pace().map_err(ReplayError::Request)?;
        if digest(source) != state.given {
            let fault = "the records must be those with which the replay began";
            return Err(ReplayError::Request(vec![fault.to_owned()]));
        }
        let text = self.kept.store.text(&format!("{id}/units.jsonl")).await?;
        let units: Option<Result<Vec<Unit>, _>> =
            text.map(|text| text.lines().map(serde_json::from_str).collect());
        let units =
            units.and_then(Result::ok).ok_or_else(|| ReplayError::Broken(format!("{id}/units.jsonl")))?;
        let given = match source {
            Source::Archive => None,
            Source::Input(records) => Some(Box::pin(Given::find(self, records, false, control)).await?),
        };
        // What has left the archive since it began is not sent.
        for (why, count) in given.iter().flat_map(|given| &given.counts.not_replayable) {
            for counts in [&mut state.counts, &mut state.place.counts] {
                let known = counts.not_replayable.entry(why.clone()).or_default();
                *known = (*known).max(*count);
            }
        }
        Box::pin(Drive::go(self, state, etag, units, job, given)).await
    }

    /// A replay that begins: how it stands, its units, and where records are given these by unit.
    async fn planned(
        &self,
        request: &Request,
        job: Job<'_>,
        keep: bool,
    ) -> Result<(State, Plan, Option<Given>), ReplayError> {
        request.check().map_err(ReplayError::Request)?;
        let wrong = |why: &str| Err(ReplayError::Request(vec![why.to_owned()]));
        let now = self.kept.now().await?;
        if request.cut_off.is_some_and(|cut_off| cut_off > now) {
            return wrong("cutOff: must not lie in the future");
        }
        let of_input = matches!(job.source, Source::Input(_));
        if of_input && (!request.selects_all() || request.cut_off.is_some()) {
            return wrong("select, cutOff: choose letters of the archive, but records are given");
        }
        if !of_input && request.selects_all() && !request.all {
            return wrong("select: is empty, which is the whole archive; if that is meant, say all");
        }
        let cut_off = request.cut_off.unwrap_or_else(|| now.saturating_sub(ARCHIVE_LAG).unwrap_or(now));
        let id = format!("{}-{}", compact(now), &token()[..6]);
        let mut state = State {
            version: State::VERSION,
            id,
            request: request.clone(),
            given: digest(job.source),
            by: self.kept.by.clone(),
            began: now,
            taken_up: now,
            cut_off,
            status: Status::Running,
            because: None,
            letters: 0,
            exact: false,
            units: 0,
            counts: Counts::default(),
            came_back: 0,
            step: 1,
            steps: request.ramp.len(),
            queues: Vec::new(),
            not_before: None,
            freed: None,
            place: Place::default(),
        };
        let selection = selection(&state, &self.requeue.arn)?;
        let (plan, given) = match job.source {
            Source::Archive => {
                let days = whole_days(&selection);
                let list = || Listing::new(self.s3.clone(), &self.bucket, &self.prefix, &days);
                (Box::pin(plan(&self.kept.store, list, &selection, keep, job.control)).await?, None)
            }
            Source::Input(records) => {
                let given = Box::pin(Given::find(self, records, keep, job.control)).await?;
                (given.plan(), Some(given))
            }
        };
        state.counts = given.as_ref().map(|given| given.counts.clone()).unwrap_or_default();
        state.place.counts = state.counts.clone();
        (state.letters, state.exact, state.units) = (plan.letters, plan.exact, plan.units.len() as u64);
        Ok((state, plan, given))
    }

    /// Watches a dead-letter queue, if it can be read.
    async fn watch(&self, queue: &str, state: &mut State, control: &dyn Control) {
        let requeue = &self.requeue.arn;
        let arn = requeue.as_str().rsplit_once(':').map(|(account, _)| format!("{account}:{queue}"));
        let Some(arn) = arn.and_then(|arn| arn.parse::<Arn>().ok()).filter(|arn| arn != requeue) else {
            return;
        };
        match self.requeue.waiting(&arn).await {
            Ok(_) => state.queues.push(arn),
            Err(failure) => {
                let why = format!("cannot be read, so no step is judged by it: {}", failure.code);
                let at = super::letter::At { key: arn.as_str().to_owned(), line: None };
                control.left_out(&at, &why);
            }
        }
    }

    /// The archive's prefix, with a slash at its end unless it is empty.
    pub(super) fn folder(&self) -> String {
        if self.prefix.is_empty() { String::new() } else { format!("{}/", self.prefix) }
    }

    /// Lists the objects of the archive from a key on, up to another.
    pub(super) fn listing(&self, first: &str, before: &str) -> Listing {
        Listing::between(self.s3.clone(), &self.bucket, &self.prefix, first, Some(before))
    }

    pub(super) fn bench<'r>(
        &'r self,
        state: &'r State,
        selection: &'r Selection,
        job: Job<'r>,
        given: Option<&'r HashMap<String, super::given::Records>>,
        limits: (&'r Pace, &'r AtomicU64),
        token: &'r str,
    ) -> Bench<'r> {
        Bench {
            replay: self,
            id: &state.id,
            request: &state.request,
            selection,
            policy: job.policy,
            given,
            pace: limits.0,
            budget: limits.1,
            control: job.control,
            token,
            freed: tokio::sync::Mutex::default(),
        }
    }
}

/// What a replay selects.
pub(super) fn selection(state: &State, requeue: &Arn) -> Result<Selection, ReplayError> {
    let cut_off = state.given.is_none().then_some(state.cut_off);
    let selection = state.request.select.selection(cut_off).map_err(ReplayError::Request)?;
    Ok(Selection { requeue: Some(requeue.as_str().to_owned()), ..selection })
}

/// A random name.
pub(super) fn token() -> String {
    use std::hash::{BuildHasher, Hasher};
    // The keys of a hasher are the one source of randomness in the standard library.
    format!("{:016x}", std::hash::RandomState::new().build_hasher().finish())
}

fn compact(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string()
}

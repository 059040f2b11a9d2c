//! Doing it.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::pin::Pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::Request;
use super::letters::{At, Fit, Found, Letters, Terms};
use super::lock::Lock;
use super::manifest::{Counts, Manifest, Status, StepResult};
use super::requeue::{Answers, Requeue};
use super::store::{Condition, Entry, State, Store};
use crate::archive::{Found as Walked, Identity, Record, Selection, Unread, Walk, WhyUnread};
use crate::arn::Arn;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::delivery::{Dispatcher, Reach};
use crate::failure::Failure;
use crate::policy::Policy;

/// Letters of a batch: what one ledger names, and what a crash can repeat.
const MAX_BATCH: u64 = 500;

/// The same towards a FIFO queue, where a group's letters go one after the other.
const MAX_FIFO_BATCH: u64 = 100;

/// Bytes of a batch.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Dead-letter queues of a selection that are watched; most have one.
const MAX_QUEUES: usize = 20;

/// Identities are remembered at 16 bytes each, and a hash table around them.
const MAX_SELECTED: u64 = 2_000_000;

/// How late a letter can appear in the archive after the time that stands in it.
const ARCHIVE_LAG: SignedDuration = SignedDuration::from_secs(5);

/// How far the clocks of this machine and of the function can be apart.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);

/// Batches in a row that the requeue may not take whole.
const TRIES: u32 = 3;

/// A nap, between which it is asked whether to stop.
const NAP: Duration = Duration::from_millis(200);

/// Where the letters come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The archive.
    Archive,
    /// These records.
    Given(Vec<Given>),
}

/// A record that was given, with whether it was edited; or what is wrong with its line.
pub type Given = Result<(Record, bool), String>;

/// Whoever watches a replay.
pub trait Control: Sync {
    /// Whether to stop after the batch under way.
    fn stop(&self) -> bool;
    /// It has begun or goes on, a batch was sent, or a step begun, judged or ended.
    fn progress(&self, manifest: &Manifest);
    /// A letter is left out; `at` is its place, in words why.
    fn left_out(&self, at: &At, why: &str);
}

/// Why a replay cannot go on at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The wish makes no sense.
    #[error("bad request: {}", .0.join("; "))]
    Request(Vec<String>),
    /// There is another replay.
    #[error("another replay is under way; if it has died, its lock ends at {0}")]
    Busy(Timestamp),
    /// The lock could not be kept, so another replay may have begun.
    #[error("the lock was lost, perhaps to another replay; nothing is sent without it")]
    LockLost,
    /// It was told to stop before it knew what is selected.
    #[error(
        "there was no time to count the selection, and nothing was sent: narrow it, or give it more time"
    )]
    NotCounted,
    /// The replay stopped since its last step came back.
    #[error("replay {id} has stopped: {why}; ask for it with \"resume\" to go on")]
    Stopped {
        /// Its id.
        id: String,
        /// Why it stopped.
        why: String,
    },
    /// Too many letters for one replay.
    #[error("more than {MAX_SELECTED} letters are selected: narrow the selection by from and to")]
    TooMany,
    /// A call failed.
    #[error("{what} failed: {} ({}){}", .failure.code, .failure.class.name(), .failure.message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Failed {
        /// What was tried.
        what: &'static str,
        /// How it failed.
        failure: Failure,
    },
}

/// What a replay works with.
#[derive(Debug)]
pub struct Parts {
    /// The AWS clients.
    pub clients: Clients,
    /// The archive's bucket.
    pub bucket: String,
    /// The archive's prefix.
    pub prefix: String,
    /// The requeue.
    pub requeue: Arn,
    /// The time.
    pub clock: Clock,
    /// Who this is, in the lock.
    pub owner: String,
}

/// Replays letters of one archive.
#[derive(Debug)]
pub struct Replay {
    store: Store,
    requeue: Requeue,
    clock: Clock,
    owner: String,
}

/// What a replay is run with.
#[derive(Clone, Copy)]
struct Job<'a> {
    source: &'a Source,
    policy: Option<&'a Policy>,
    control: &'a dyn Control,
}

pub(super) fn failed(what: &'static str) -> impl Fn(Failure) -> ReplayError {
    move |failure| ReplayError::Failed { what, failure }
}

impl Replay {
    /// Joins the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { clients, bucket, prefix, requeue, clock, owner } = parts;
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let dispatcher = Dispatcher::new(&clients, Reach::Public);
        Self {
            store: Store { s3: clients.s3, bucket, prefix },
            requeue: Requeue { sqs: clients.sqs, dispatcher, arn: requeue },
            clock,
            owner,
        }
    }

    /// Begins a replay, or goes on with the one that was begun with the same request. Returns when all
    /// is sent, when it must stop, or when `control` says so; the manifest tells which. Where the redrive
    /// policy is known, letters without a target by it are left out.
    ///
    /// # Errors
    ///
    /// [`ReplayError`]; what happens to single letters is never one.
    pub async fn run(
        &self,
        request: &Request,
        source: &Source,
        policy: Option<&Policy>,
        control: &dyn Control,
    ) -> Result<Manifest, ReplayError> {
        request.check().map_err(ReplayError::Request)?;
        let wrong = |why: &str| Err(ReplayError::Request(vec![why.to_owned()]));
        if request.cut_off.is_some_and(|cut_off| cut_off > self.clock.now()) {
            return wrong("cutOff: must not lie in the future");
        }
        if matches!(source, Source::Given(_)) && *request != request.of_given() {
            return wrong("select, cutOff: choose letters of the archive, but records are given");
        }
        let job = Job { source, policy, control };
        let beginning = self.id_of(request, source);
        if request.dry_run {
            return Box::pin(self.dry_run(request, beginning, job)).await;
        }
        let mut lock = Lock::take(&self.store, &self.clock, &self.owner).await?;
        let done = Box::pin(self.locked(request, &beginning, job, &mut lock)).await;
        lock.release().await;
        done
    }

    /// Counts what a replay would send now, and writes nothing at all.
    async fn dry_run(
        &self,
        request: &Request,
        beginning: String,
        job: Job<'_>,
    ) -> Result<Manifest, ReplayError> {
        let open = self.open(&beginning).await?.map(|(manifest, _)| manifest);
        let now = self.clock.now();
        let cut_off = open.as_ref().map_or_else(|| cut_off(request, now), |manifest| manifest.cut_off);
        let own = open.map(|manifest| manifest.id);
        let (counts, _) = self.count(request, cut_off, own.as_deref(), job, None).await?;
        let id = own.unwrap_or(beginning);
        let manifest = Manifest::new(id, request.clone(), cut_off, counts, now);
        Ok(Manifest { status: Status::DryRun, ..manifest })
    }

    async fn locked(
        &self,
        request: &Request,
        beginning: &str,
        job: Job<'_>,
        lock: &mut Lock<'_>,
    ) -> Result<Manifest, ReplayError> {
        let (manifest, etag) = match self.open(beginning).await? {
            Some((manifest, etag)) => (self.go_on(manifest, request).await?, Some(etag)),
            None => (self.begin(request, beginning, job, lock).await?, None),
        };
        let backlog = VecDeque::new();
        let pace = Pace::new(manifest.request.rate);
        let mut run =
            Run { replay: self, job, lock, manifest, etag, backlog, trouble: 0, unread: None, pace };
        run.save().await?;
        job.control.progress(&run.manifest);
        match run.go().await {
            Ok(()) => run.save().await?,
            // The manifest is somebody else's now.
            Err(ReplayError::LockLost) => return Err(ReplayError::LockLost),
            Err(error) => {
                // What is not written is worked out from the ledgers.
                let _ = run.save().await;
                return Err(error);
            }
        }
        job.control.progress(&run.manifest);
        Ok(run.manifest)
    }

    /// The replay of this request that is not at its end, and its `ETag`.
    async fn open(&self, beginning: &str) -> Result<Option<(Manifest, String)>, ReplayError> {
        let latest = self.store.latest(beginning).await.map_err(failed("reading the manifest"))?;
        Ok(latest.filter(|(manifest, _)| manifest.status != Status::Done))
    }

    async fn begin(
        &self,
        request: &Request,
        beginning: &str,
        job: Job<'_>,
        lock: &mut Lock<'_>,
    ) -> Result<Manifest, ReplayError> {
        let began = self.clock.now();
        let cut_off = cut_off(request, began);
        let (counts, queues) = self.count(request, cut_off, None, job, Some(lock)).await?;
        let id = format!("{beginning}-{}", compact(began));
        let request = Request { resume: false, ..request.clone() };
        let mut manifest = Manifest::new(id, request, cut_off, counts, began);
        for queue in queues {
            match self.requeue.waiting(&queue).await {
                Ok(_) => manifest.queues.push(queue),
                Err(failure) => {
                    let why = format!("cannot be read, so no step is judged by it: {}", failure.code);
                    job.control.left_out(&At { key: queue.as_str().to_owned(), line: None }, &why);
                }
            }
        }
        manifest.begin_step(self.clock.now(), self.waiting(&manifest.queues).await?);
        Ok(manifest)
    }

    /// Takes up a replay that was begun. What is selected, and the steps, stay as they were.
    async fn go_on(&self, mut manifest: Manifest, request: &Request) -> Result<Manifest, ReplayError> {
        if manifest.status == Status::Stopped && !request.resume {
            let why = manifest.why.unwrap_or_default();
            return Err(ReplayError::Stopped { id: manifest.id, why });
        }
        // The ledgers know best: a crash may have come before the manifest.
        let recorded = self.store.recorded(&manifest.id, 0).await.map_err(failed("reading the ledgers"))?;
        let (entries, batches) = recorded;
        let count = |state| entries.iter().filter(|entry| entry.state == state).count() as u64;
        manifest.sent = count(State::Sent);
        manifest.refused = count(State::Refused);
        manifest.repeated = count(State::Sending);
        manifest.batches = batches;
        let Request { rate, threshold, settle_seconds, .. } = *request;
        manifest.request = Request { rate, threshold, settle_seconds, ..manifest.request };
        if manifest.status == Status::Stopped {
            // What waits now is no fault of what is sent from here on.
            manifest.begin_step(self.clock.now(), self.waiting(&manifest.queues).await?);
        }
        Ok(manifest)
    }

    async fn count(
        &self,
        request: &Request,
        cut_off: Timestamp,
        own: Option<&str>,
        job: Job<'_>,
        mut lock: Option<&mut Lock<'_>>,
    ) -> Result<(Counts, BTreeSet<Arn>), ReplayError> {
        let selection = request.select.selection(Some(cut_off)).map_err(ReplayError::Request)?;
        let mut letters = self.letters(request, own, job, &selection).await?;
        let (mut counts, mut queues) = (Counts::default(), BTreeSet::new());
        loop {
            let found = watching(Box::pin(letters.next()), lock.as_deref_mut(), job.control).await?;
            let Some(found) = found.ok_or(ReplayError::NotCounted)? else { break };
            match found {
                Found::Fit(fit) => {
                    counts.selected += 1;
                    if queues.len() < MAX_QUEUES {
                        queues.insert(fit.letter.dead_letter_queue().clone());
                    }
                }
                Found::Double => counts.doubles += 1,
                Found::AlreadyReplayed => counts.already_replayed += 1,
                Found::Bad(at, why) => {
                    counts.unreadable += 1;
                    job.control.left_out(&at, &why);
                }
                Found::Unread(at, failure) => {
                    counts.unreadable += 1;
                    job.control.left_out(&at, &WhyUnread::Call(failure).to_string());
                }
                Found::Unfit(at, unfit) => {
                    *counts.unfit.entry(unfit.name().to_owned()).or_default() += 1;
                    job.control.left_out(&at, unfit.why());
                }
            }
            if counts.selected > MAX_SELECTED {
                return Err(ReplayError::TooMany);
            }
            if job.control.stop() {
                return Err(ReplayError::NotCounted);
            }
            if let Some(lock) = &mut lock {
                lock.keep().await?;
            }
        }
        Ok((counts, queues))
    }

    /// The letters that the replay `own`, or a new one, has to send.
    async fn letters<'a>(
        &'a self,
        request: &'a Request,
        own: Option<&str>,
        job: Job<'a>,
        selection: &'a Selection,
    ) -> Result<Letters<'a>, ReplayError> {
        let known = self.store.ledgers(own, request.again).await.map_err(failed("reading the ledgers"))?;
        let terms = Terms { request, requeue: &self.requeue.arn, policy: job.policy };
        Ok(Letters::new(terms, job.source, self.walk(selection), known))
    }

    fn walk<'s>(&self, selection: &'s Selection) -> Walk<'s> {
        let Store { s3, bucket, prefix } = &self.store;
        Walk::new(s3.clone(), bucket, prefix, selection)
    }

    /// Letters that wait in the requeue and in these queues.
    async fn waiting(&self, queues: &[Arn]) -> Result<u64, ReplayError> {
        let mut waiting = 0;
        for queue in std::iter::once(&self.requeue.arn).chain(queues) {
            waiting += self.requeue.waiting(queue).await.map_err(failed("reading a queue"))?;
        }
        Ok(waiting)
    }

    /// How the id of every replay of this request begins.
    fn id_of(&self, request: &Request, source: &Source) -> String {
        let mut hash = Sha256::new();
        let asked = (&request.select, &request.to, request.again, self.requeue.arn.as_str());
        hash.update(serde_json::to_string(&asked).unwrap_or_default());
        if let Source::Given(records) = source {
            for (record, _) in records.iter().flatten() {
                hash.update(record.queue_arn.as_str());
                hash.update(record.message.digest().unwrap_or_default());
            }
        }
        URL_SAFE_NO_PAD.encode(&hash.finalize()[..9])
    }
}

/// A replay that is under way.
struct Run<'r, 'l> {
    replay: &'r Replay,
    job: Job<'r>,
    lock: &'r mut Lock<'l>,
    manifest: Manifest,
    /// The manifest's in the bucket; none before it is written.
    etag: Option<String>,
    /// Letters that the requeue has not taken, first to be sent next.
    backlog: VecDeque<Fit>,
    /// Batches in a row that the requeue has not taken whole.
    trouble: u32,
    /// A part of the archive that could not be read.
    unread: Option<Failure>,
    pace: Pace,
}

impl Run<'_, '_> {
    /// Goes on until all is sent, or it must stop.
    async fn go(&mut self) -> Result<(), ReplayError> {
        let request = self.manifest.request.clone();
        let selection =
            request.select.selection(Some(self.manifest.cut_off)).map_err(ReplayError::Request)?;
        let own = Some(self.manifest.id.as_str());
        let mut letters = self.replay.letters(&request, own, self.job, &selection).await?;
        loop {
            let goes_on = match self.manifest.status {
                Status::Running => self.step(&mut letters).await?,
                Status::Settling => self.settle().await?,
                Status::DryRun | Status::Stopped | Status::Done => false,
            };
            if !goes_on {
                return Ok(());
            }
            self.job.control.progress(&self.manifest);
        }
    }

    /// Sends a batch, or ends the step; false where the replay pauses.
    async fn step(&mut self, letters: &mut Letters<'_>) -> Result<bool, ReplayError> {
        let left = self.manifest.left_in_step();
        if left == Some(0) {
            self.end_step().await?;
            return Ok(true);
        }
        let most = if self.replay.requeue.arn.is_fifo() { MAX_FIFO_BATCH } else { MAX_BATCH };
        let most = most.min(left.unwrap_or(most)).min(u64::from(self.manifest.request.rate));
        let batch = self.next_batch(letters, most).await?;
        self.pace.turn(batch.len() as u64, self.job.control).await;
        if self.job.control.stop() {
            return Ok(false);
        }
        if !batch.is_empty() {
            self.send(batch).await?;
            return Ok(true);
        }
        // What was counted and is not there now may only be out of sight.
        if let Some(failure) = self.unread.take()
            && self.manifest.handled() < self.manifest.counts.selected
        {
            return Err(failed("reading the archive")(failure));
        }
        self.manifest.status = Status::Done;
        Ok(true)
    }

    async fn next_batch(&mut self, letters: &mut Letters<'_>, most: u64) -> Result<Vec<Fit>, ReplayError> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while (batch.len() as u64) < most && bytes < MAX_BATCH_BYTES && !self.job.control.stop() {
            let fit = if let Some(fit) = self.backlog.pop_front() {
                fit
            } else {
                let found =
                    watching(Box::pin(letters.next()), Some(&mut *self.lock), self.job.control).await?;
                let Some(found) = found else { break };
                match found {
                    Some(Found::Fit(fit)) => *fit,
                    Some(Found::Unread(_, failure)) => {
                        self.unread = Some(failure);
                        continue;
                    }
                    // These were counted when the replay began.
                    Some(Found::Unfit(..) | Found::Bad(..) | Found::Double | Found::AlreadyReplayed) => {
                        self.lock.keep().await?;
                        continue;
                    }
                    None => break,
                }
            };
            bytes += fit.letter.sqs.body.len();
            batch.push(fit);
        }
        Ok(batch)
    }

    /// Sends a batch. Its ledger says before that its letters are being sent, and after it what became of them.
    async fn send(&mut self, batch: Vec<Fit>) -> Result<(), ReplayError> {
        self.manifest.batches += 1;
        let sending: Vec<_> = batch.iter().map(|fit| entry(fit, State::Sending)).collect();
        let etag = self.record(&sending, Condition::Absent).await?;
        self.lock.keep().await?;
        let answers = self.replay.requeue.send(batch, &self.manifest, self.replay.clock.now()).await;
        let Answers { sent, refused, left, failure } = answers;
        let mut entries: Vec<_> = sent.iter().map(|fit| entry(fit, State::Sent)).collect();
        for (fit, failure) in &refused {
            self.job.control.left_out(&fit.at, &format!("refused by SQS: {}", failure.code));
            entries.push(entry(fit, State::Refused));
        }
        let doubtful = left.iter().filter(|(_, doubtful)| *doubtful);
        entries.extend(doubtful.map(|(fit, _)| entry(fit, State::Sending)));
        self.record(&entries, Condition::Is(&etag)).await?;
        self.manifest.sent += sent.len() as u64;
        self.manifest.refused += refused.len() as u64;
        self.manifest.repeated += (entries.len() - sent.len() - refused.len()) as u64;
        for (fit, _) in left.into_iter().rev() {
            self.backlog.push_front(fit);
        }
        self.save().await?;
        self.after(failure).await;
        Ok(())
    }

    /// Writes the ledger of the present batch.
    async fn record(&self, entries: &[Entry], condition: Condition<'_>) -> Result<String, ReplayError> {
        let Manifest { id, batches, .. } = &self.manifest;
        let recorded = self.replay.store.record(id, *batches, entries, condition).await;
        recorded.map_err(failed("writing the ledger"))?.ok_or(ReplayError::LockLost)
    }

    /// Waits a while before letters go once more that the requeue did not take, and in the end gives up.
    async fn after(&mut self, failure: Option<Failure>) {
        let Some(failure) = failure else {
            self.trouble = 0;
            return;
        };
        self.trouble += 1;
        if self.trouble < TRIES {
            sleep(Duration::from_secs(u64::from(self.trouble))).await;
            return;
        }
        let (code, class) = (&failure.code, failure.class.name());
        self.manifest.stop(format!("the requeue does not take letters: {code} ({class})"));
    }

    /// What was sent is judged after a while, unless it was all.
    async fn end_step(&mut self) -> Result<(), ReplayError> {
        let now = self.replay.clock.now();
        if self.manifest.handled() < self.manifest.counts.selected {
            self.manifest.settle(now);
            return self.save().await;
        }
        self.manifest.begin_step(now, 0);
        Ok(())
    }

    /// Waits until the step can be judged, and judges it; false where it must stop before.
    async fn settle(&mut self) -> Result<bool, ReplayError> {
        while self.manifest.not_before.is_some_and(|then| self.replay.clock.now() < then) {
            if self.job.control.stop() {
                return Ok(false);
            }
            self.lock.keep().await?;
            sleep(NAP).await;
        }
        let Some(result) = self.result().await? else { return Ok(false) };
        match self.manifest.failed_step(result) {
            Some(why) => self.manifest.stop(why),
            None => self.manifest.begin_step(self.replay.clock.now(), result.waiting),
        }
        Ok(true)
    }

    /// What became of the step; none where it must stop before it knows.
    async fn result(&mut self) -> Result<Option<StepResult>, ReplayError> {
        let Manifest { id, step_began, batches_before_step, .. } = &self.manifest;
        let recorded = self.replay.store.recorded(id, *batches_before_step).await;
        let (entries, _) = recorded.map_err(failed("reading the ledgers"))?;
        let own: HashSet<_> = entries.iter().map(Entry::identity).collect();
        let refused = entries.iter().filter(|entry| entry.state == State::Refused).count() as u64;
        let sent = entries.iter().filter(|entry| entry.state == State::Sent);
        let ids: HashSet<_> = sent.clone().map(|entry| entry.letter_id.as_str()).collect();
        let sent = sent.count() as u64;
        // Letters come back from the requeue, or by way of their own dead-letter queue.
        let since = step_began.saturating_sub(CLOCK_SKEW).unwrap_or(*step_began);
        let since = Selection { from: Some(since), ..Selection::default() };
        let mut walk = self.replay.walk(&since);
        let mut came_back: HashSet<Identity> = HashSet::new();
        loop {
            let found = watching(Box::pin(walk.next()), Some(&mut *self.lock), self.job.control).await?;
            let Some(found) = found else { return Ok(None) };
            let Some(found) = found else { break };
            self.lock.keep().await?;
            if self.job.control.stop() {
                return Ok(None);
            }
            match found {
                Walked::Letter(archived) if ids.contains(archived.record.letter_id.as_str()) => {
                    let identity = archived.record.identity();
                    if !own.contains(&identity) {
                        came_back.insert(identity);
                    }
                }
                // A list that breaks off could hide them all. What single objects hold was told before.
                Walked::Unread(Unread { key, why: WhyUnread::Call(failure), .. })
                    if !key.ends_with(".jsonl") =>
                {
                    return Err(failed("listing the archive")(failure));
                }
                Walked::Letter(_) | Walked::Unread(_) => {}
            }
        }
        let waiting = self.replay.waiting(&self.manifest.queues).await?;
        Ok(Some(StepResult { sent, refused, came_back: came_back.len() as u64, waiting }))
    }

    /// Writes the manifest, unless somebody else has written it since.
    async fn save(&mut self) -> Result<(), ReplayError> {
        let saved = self.replay.store.save(&self.manifest, self.etag.as_deref()).await;
        self.etag = Some(saved.map_err(failed("writing the manifest"))?.ok_or(ReplayError::LockLost)?);
        Ok(())
    }
}

/// Waits for a part of the archive that may be long and hold nothing of the selection; meanwhile the lock is
/// renewed. None where it must stop before.
async fn watching<T>(
    mut work: Pin<Box<impl Future<Output = T>>>,
    mut lock: Option<&mut Lock<'_>>,
    control: &dyn Control,
) -> Result<Option<T>, ReplayError> {
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Ok(Some(done)),
            () = sleep(NAP) => {
                if control.stop() {
                    return Ok(None);
                }
                if let Some(lock) = &mut lock {
                    lock.keep().await?;
                }
            }
        }
    }
}

fn entry(fit: &Fit, state: State) -> Entry {
    Entry {
        queue_arn: fit.record.queue_arn.as_str().to_owned(),
        message_id: fit.record.message.message_id.clone(),
        letter_id: fit.letter.id.as_str().to_owned(),
        edited: fit.edited,
        state,
    }
}

fn cut_off(request: &Request, now: Timestamp) -> Timestamp {
    request.cut_off.unwrap_or_else(|| now.saturating_sub(ARCHIVE_LAG).unwrap_or(now))
}

fn compact(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S%3fZ").to_string()
}

/// So many letters a second.
struct Pace {
    rate: u64,
    next: Instant,
}

impl Pace {
    fn new(rate: u32) -> Self {
        Self { rate: u64::from(rate.max(1)), next: Instant::now() }
    }

    /// Waits until so many letters may go. Time in which nothing was sent is not made up for.
    async fn turn(&mut self, letters: u64, control: &dyn Control) {
        while Instant::now() < self.next && !control.stop() {
            sleep(NAP.min(self.next.saturating_duration_since(Instant::now()))).await;
        }
        self.next = Instant::now() + Duration::from_millis(letters * 1000 / self.rate);
    }
}

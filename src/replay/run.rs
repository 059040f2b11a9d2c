//! The beginning of a replay, or its resumption, and its end.

use std::collections::{BTreeSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::control::{Control, Pace, watching};
use super::error::{MAX_SELECTED, ReplayError, failed};
use super::letter::At;
use super::letters::{Found, Source};
use super::lock::Lock;
use super::manifest::{Counts, Manifest, Status};
use super::request::Request;
use super::requeue::Requeue;
use super::resources::{Job, Resources};
use super::steps::Run;
use super::store::{State, Store};
use crate::archive::WhyUnread;
use crate::arn::Arn;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::delivery::{Dispatcher, Reach};
use crate::policy::Policy;

/// Dead-letter queues of a selection that are watched; most have one.
const MAX_QUEUES: usize = 20;

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
    resources: Resources,
    owner: String,
}

impl Replay {
    /// Joins the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { clients, bucket, prefix, requeue, clock, owner } = parts;
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let dispatcher = Dispatcher::new(&clients, Reach::Public);
        let store = Store { s3: clients.s3, bucket, prefix };
        let requeue = Requeue { sqs: clients.sqs, dispatcher, arn: requeue };
        Self { resources: Resources { store, requeue, clock }, owner }
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
        if request.cut_off.is_some_and(|cut_off| cut_off > self.resources.clock.now()) {
            return wrong("cutOff: must not lie in the future");
        }
        if matches!(source, Source::Input(_)) && *request != request.of_given() {
            return wrong("select, cutOff: choose letters of the archive, but records are given");
        }
        let job = Job { source, policy, control };
        let beginning = self.id_of(request, source);
        if request.dry_run {
            return Box::pin(self.dry_run(request, beginning, job)).await;
        }
        let mut lock = Lock::take(&self.resources.store, &self.resources.clock, &self.owner).await?;
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
        let now = self.resources.clock.now();
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
        let mut run = Run {
            resources: &self.resources,
            job,
            lock,
            manifest,
            etag,
            backlog,
            trouble: 0,
            unread: None,
            pace,
        };
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
        let latest = self.resources.store.latest(beginning).await.map_err(failed("reading the manifest"))?;
        Ok(latest.filter(|(manifest, _)| manifest.status != Status::Done))
    }

    async fn begin(
        &self,
        request: &Request,
        beginning: &str,
        job: Job<'_>,
        lock: &mut Lock<'_>,
    ) -> Result<Manifest, ReplayError> {
        let began = self.resources.clock.now();
        let cut_off = cut_off(request, began);
        let (counts, queues) = self.count(request, cut_off, None, job, Some(lock)).await?;
        let id = format!("{beginning}-{}", compact(began));
        let request = Request { resume: false, ..request.clone() };
        let mut manifest = Manifest::new(id, request, cut_off, counts, began);
        for queue in queues {
            match self.resources.requeue.waiting(&queue).await {
                Ok(_) => manifest.queues.push(queue),
                Err(failure) => {
                    let why = format!("cannot be read, so no step is judged by it: {}", failure.code);
                    job.control.left_out(&At { key: queue.as_str().to_owned(), line: None }, &why);
                }
            }
        }
        manifest.begin_step(self.resources.clock.now(), self.resources.waiting(&manifest.queues).await?);
        Ok(manifest)
    }

    /// Takes up a replay that was begun. What is selected, and the steps, stay as they were.
    async fn go_on(&self, mut manifest: Manifest, request: &Request) -> Result<Manifest, ReplayError> {
        if manifest.status == Status::Stopped && !request.resume {
            let why = manifest.why.unwrap_or_default();
            return Err(ReplayError::Stopped { id: manifest.id, why });
        }
        // The ledgers know best: a crash may have come before the manifest.
        let recorded =
            self.resources.store.recorded(&manifest.id, 0).await.map_err(failed("reading the ledgers"))?;
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
            manifest.begin_step(self.resources.clock.now(), self.resources.waiting(&manifest.queues).await?);
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
        let mut selection = request.select.selection(Some(cut_off)).map_err(ReplayError::Request)?;
        selection.requeue = Some(self.resources.requeue.arn.to_string());
        let mut letters = self.resources.letters(request, own, job, &selection).await?;
        let (mut counts, mut queues) = (Counts::default(), BTreeSet::new());
        loop {
            let found = watching(Box::pin(letters.next()), lock.as_deref_mut(), job.control).await?;
            let Some(found) = found.ok_or(ReplayError::NotCounted)? else { break };
            match found {
                Found::Replayable(replayable) => {
                    counts.selected += 1;
                    if queues.len() < MAX_QUEUES {
                        queues.insert(replayable.letter.dead_letter_queue().clone());
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
                Found::NotReplayable(at, not_replayable) => {
                    *counts.not_replayable.entry(not_replayable.name().to_owned()).or_default() += 1;
                    job.control.left_out(&at, not_replayable.why());
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

    /// How the id of every replay of this request begins.
    fn id_of(&self, request: &Request, source: &Source) -> String {
        let mut hash = Sha256::new();
        let asked = (&request.select, &request.to, request.again, self.resources.requeue.arn.as_str());
        hash.update(serde_json::to_string(&asked).unwrap_or_default());
        if let Source::Input(records) = source {
            for (record, _) in records.iter().flatten() {
                hash.update(record.queue_arn.as_str());
                hash.update(record.message.digest().unwrap_or_default());
            }
        }
        URL_SAFE_NO_PAD.encode(&hash.finalize()[..9])
    }
}

fn cut_off(request: &Request, now: Timestamp) -> Timestamp {
    request.cut_off.unwrap_or_else(|| now.saturating_sub(ARCHIVE_LAG).unwrap_or(now))
}

fn compact(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S%3fZ").to_string()
}

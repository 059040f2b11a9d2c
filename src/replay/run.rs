//! Doing it.

use std::collections::HashSet;
use std::time::Duration;

use aws_sdk_sqs::config::Region;
use aws_sdk_sqs::types::QueueAttributeName;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use super::Request;
use super::letters::{At, Fit, Found, Identity, Letters, Terms, identity};
use super::manifest::{Batch, Counts, Manifest, Status};
use super::store::{Entry, Held, NotLocked, Store};
use crate::archive::{Found as Walked, Record, Selection, Walk};
use crate::arn::Arn;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::failure::{Failure, FailureClass};
use crate::policy::Policy;
use crate::target::{Courier, Endpoint, Parcel, Reach, Sent, Shipment, Time, Waiting};

/// Letters of a batch: what one ledger names, and what a crash can repeat.
const MAX_BATCH: u64 = 500;

/// Bytes of a batch.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Identities are remembered at 16 bytes each, and a hash table around them.
const MAX_SELECTED: u64 = 2_000_000;

/// How late a letter can appear in the archive after the time that stands in it.
const ARCHIVE_LAG: SignedDuration = SignedDuration::from_secs(5);

/// The time for one batch, with the SDK's own repetitions.
const SEND_TIME: Duration = Duration::from_secs(15);

/// What a lock must have left before a batch begins: more than the batch takes.
const LEAST_LEASE: SignedDuration = SignedDuration::from_secs(20);

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
    /// A batch was sent, or a step begun, judged or ended.
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
    sqs: aws_sdk_sqs::Client,
    courier: Courier,
    requeue: Arn,
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

fn failed(what: &'static str) -> impl Fn(Failure) -> ReplayError {
    move |failure| ReplayError::Failed { what, failure }
}

impl Replay {
    /// Joins the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { clients, bucket, prefix, requeue, clock, owner } = parts;
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Self {
            courier: Courier::new(&clients, Reach::Public),
            store: Store { s3: clients.s3, bucket, prefix },
            sqs: clients.sqs,
            requeue,
            clock,
            owner,
        }
    }

    /// Begins a replay, or goes on with the one that was begun with the same selection. Returns when all
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
        let job = Job { source, policy, control };
        let beginning = self.id_of(request, source);
        if request.dry_run {
            return self.dry_run(request, beginning, job).await;
        }
        let held = self.store.lock(&self.owner, self.clock.now()).await;
        let mut held = held.map_err(|not| match not {
            NotLocked::Busy(until) => ReplayError::Busy(until),
            NotLocked::Failed(failure) => failed("locking the archive")(failure),
        })?;
        let done = self.locked(request, &beginning, job, &mut held).await;
        self.store.release(&self.owner, &held, self.clock.now()).await;
        done
    }

    /// Counts, and writes nothing at all.
    async fn dry_run(
        &self,
        request: &Request,
        beginning: String,
        job: Job<'_>,
    ) -> Result<Manifest, ReplayError> {
        let open = self.store.latest(&beginning).await.map_err(failed("reading the manifest"))?;
        let open = open.filter(|manifest| manifest.status != Status::Done);
        let now = self.clock.now();
        let cut_off = open.as_ref().map_or_else(|| cut_off(request, now), |manifest| manifest.cut_off);
        let own = open.map(|manifest| manifest.id);
        let counts = self.count(request, cut_off, own.as_deref(), job).await?;
        let mut manifest = Manifest::new(beginning, request.clone(), cut_off, counts, now);
        manifest.status = Status::DryRun;
        Ok(manifest)
    }

    async fn locked(
        &self,
        request: &Request,
        beginning: &str,
        job: Job<'_>,
        held: &mut Held,
    ) -> Result<Manifest, ReplayError> {
        let open = self.store.latest(beginning).await.map_err(failed("reading the manifest"))?;
        let open = open.filter(|manifest| manifest.status != Status::Done);
        let mut manifest = if let Some(open) = open {
            self.go_on(open, request).await?
        } else {
            let now = self.clock.now();
            let cut_off = cut_off(request, now);
            let counts = self.count(request, cut_off, None, job).await?;
            let id = format!("{beginning}-{}", compact(cut_off));
            let mut manifest = Manifest::new(id, request.clone(), cut_off, counts, now);
            manifest.waiting_before_step = self.waiting().await?;
            manifest
        };
        self.save(&manifest).await?;
        let ended = self.steps(&mut manifest, job, held).await;
        self.save(&manifest).await?;
        job.control.progress(&manifest);
        ended.map(|()| manifest)
    }

    /// Takes up a replay that was begun.
    async fn go_on(&self, mut manifest: Manifest, request: &Request) -> Result<Manifest, ReplayError> {
        if manifest.status == Status::Stopped {
            let why = manifest.why.clone().unwrap_or_default();
            if !request.resume {
                return Err(ReplayError::Stopped { id: manifest.id, why });
            }
            // What waits now is no fault of what is sent from here on.
            manifest.waiting_before_step = self.waiting().await?;
            let ended = manifest.sent >= manifest.step_end() && !manifest.is_last_step();
            if ended { manifest.next_step(self.clock.now()) } else { manifest.begin_step(self.clock.now()) }
        }
        if let Some(batch) = manifest.batch.take() {
            let recorded = self.store.recorded(&manifest.id, batch.number).await;
            match recorded.map_err(failed("reading the ledger"))? {
                Some(letters) => manifest.sent += letters,
                None => manifest.repeated += batch.letters,
            }
        }
        let ramp = manifest.request.ramp.clone();
        manifest.request = Request { ramp, dry_run: false, ..request.clone() };
        Ok(manifest)
    }

    async fn count(
        &self,
        request: &Request,
        cut_off: Timestamp,
        own: Option<&str>,
        job: Job<'_>,
    ) -> Result<Counts, ReplayError> {
        let selection = request.select.selection(Some(cut_off)).map_err(ReplayError::Request)?;
        let done = self.done(request, own).await?;
        let mut letters = self.letters(request, job, &selection, done);
        let mut counts = Counts::default();
        while let Some(found) = letters.next().await {
            match found {
                Found::Fit(_) => counts.selected += 1,
                Found::Double => counts.doubles += 1,
                Found::AlreadyReplayed => counts.already_replayed += 1,
                Found::Unreadable(at, why) => {
                    counts.unreadable += 1;
                    job.control.left_out(&at, &why);
                }
                Found::Unfit(at, unfit) => {
                    *counts.unfit.entry(unfit.name().to_owned()).or_default() += 1;
                    job.control.left_out(&at, unfit.why());
                }
            }
            if counts.selected > MAX_SELECTED {
                return Err(ReplayError::TooMany);
            }
        }
        Ok(counts)
    }

    async fn steps(&self, manifest: &mut Manifest, job: Job<'_>, held: &mut Held) -> Result<(), ReplayError> {
        let control = job.control;
        let request = manifest.request.clone();
        let selection = request.select.selection(Some(manifest.cut_off)).map_err(ReplayError::Request)?;
        let done = self.done(&request, Some(&manifest.id)).await?;
        let mut letters = self.letters(&request, job, &selection, done);
        let mut pace = Pace::new(request.rate);
        loop {
            if manifest.status == Status::Settling {
                if !self.settled(manifest, control, held).await? {
                    return Ok(());
                }
                if let Some(why) = self.judge(manifest).await? {
                    (manifest.status, manifest.why) = (Status::Stopped, Some(why));
                    return Ok(());
                }
                manifest.waiting_before_step = self.waiting().await?;
                manifest.next_step(self.clock.now());
                control.progress(manifest);
            }
            while manifest.sent < manifest.step_end() || manifest.is_last_step() {
                if control.stop() {
                    return Ok(());
                }
                let most =
                    if manifest.is_last_step() { MAX_BATCH } else { manifest.step_end() - manifest.sent };
                let most = most.min(MAX_BATCH).min(u64::from(request.rate));
                let batch = next_batch(&mut letters, most).await;
                if batch.is_empty() {
                    manifest.status = Status::Done;
                    return Ok(());
                }
                self.send(manifest, &batch, held).await?;
                control.progress(manifest);
                if manifest.status == Status::Stopped {
                    return Ok(());
                }
                pace.wait(batch.len() as u64, control).await;
            }
            if manifest.sent == manifest.sent_before_step {
                // A small selection has steps without a letter of their own.
                manifest.next_step(self.clock.now());
            } else {
                manifest.settle(self.clock.now());
            }
            control.progress(manifest);
        }
    }

    /// Sends a batch and records it.
    async fn send(&self, manifest: &mut Manifest, batch: &[Fit], held: &mut Held) -> Result<(), ReplayError> {
        self.keep_lock(held).await?;
        manifest.batches += 1;
        let number = manifest.batches;
        manifest.batch = Some(Batch { number, letters: batch.len() as u64 });
        self.save(manifest).await?;
        let (sent, failure) = self.send_to_requeue(batch, &manifest.request).await;
        let entries: Vec<_> = sent.iter().map(|fit| entry(fit)).collect();
        if !entries.is_empty() {
            let recorded = self.store.record(&manifest.id, number, &entries).await;
            recorded.map_err(failed("writing the ledger"))?;
        }
        manifest.sent += entries.len() as u64;
        manifest.batch = None;
        if let Some(failure) = failure {
            let why =
                format!("the requeue does not take letters: {} ({})", failure.code, failure.class.name());
            (manifest.status, manifest.why) = (Status::Stopped, Some(why));
        }
        Ok(())
    }

    /// Which letters of a batch the requeue has taken, and what kept the others out of it.
    async fn send_to_requeue<'f>(
        &self,
        batch: &'f [Fit],
        request: &Request,
    ) -> (Vec<&'f Fit>, Option<Failure>) {
        let to = Endpoint::Queue(self.requeue.clone());
        let now = self.clock.now();
        let pack = |fit: &'f Fit| {
            let mark = fit.letter.mark_for_replay(now, request.to.clone(), fit.edited);
            let parcel = Parcel::for_requeue(&fit.letter, &mark, &self.requeue, 0).ok()?;
            Some((fit, Shipment::Message(parcel)))
        };
        let packed: Vec<_> = batch.iter().filter_map(pack).collect();
        let not_before = Instant::now();
        let waiting: Vec<_> = packed
            .iter()
            .map(|(_, shipment)| Waiting { to: &to, shipment, not_before, at_once: usize::MAX })
            .collect();
        let answers = self.courier.deliver(&waiting, Time::until(Instant::now() + SEND_TIME)).await;
        let failure = answers.iter().find_map(|sent| match sent {
            Sent::Accepted => None,
            Sent::Failed(failure) => Some(failure.clone()),
            Sent::NotStarted | Sent::Refused(_) => {
                Some(Failure::ours(FailureClass::Transient, "DeadlineExceeded"))
            }
        });
        let taken = packed.iter().zip(&answers).filter(|(_, sent)| **sent == Sent::Accepted);
        (taken.map(|((fit, _), _)| *fit).collect(), failure)
    }

    /// Waits until a step can be judged; false where it must stop before.
    async fn settled(
        &self,
        manifest: &Manifest,
        control: &dyn Control,
        held: &mut Held,
    ) -> Result<bool, ReplayError> {
        while manifest.not_before.is_some_and(|then| self.clock.now() < then) {
            if control.stop() {
                return Ok(false);
            }
            self.keep_lock(held).await?;
            sleep(NAP).await;
        }
        Ok(true)
    }

    /// Why a step failed, if it did.
    async fn judge(&self, manifest: &Manifest) -> Result<Option<String>, ReplayError> {
        let waiting = self.waiting().await?;
        let ids = self.store.letter_ids(&manifest.id, manifest.sent_before_step).await;
        let ids = ids.map_err(failed("reading the ledger"))?;
        // Letters come back from the requeue, or by way of their own dead-letter queue.
        let since = Selection { from: Some(manifest.step_began), ..Selection::default() };
        let mut walk = self.walk(&since);
        let mut came_back: HashSet<Identity> = HashSet::new();
        while let Some(found) = walk.next().await {
            // What cannot be read was told when the replay began.
            if let Walked::Letter(archived) = found
                && ids.contains(&archived.record.letter_id)
            {
                came_back.insert(identity_of(&archived.record));
            }
        }
        Ok(manifest.failed_step(came_back.len() as u64, waiting))
    }

    /// Letters in the requeue: visible, hidden, delayed.
    async fn waiting(&self) -> Result<u64, ReplayError> {
        use QueueAttributeName::{
            ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed,
            ApproximateNumberOfMessagesNotVisible,
        };
        let names = [
            ApproximateNumberOfMessages,
            ApproximateNumberOfMessagesNotVisible,
            ApproximateNumberOfMessagesDelayed,
        ];
        let answer = self
            .sqs
            .get_queue_attributes()
            .queue_url(self.requeue.queue_url())
            .set_attribute_names(Some(names.to_vec()))
            .customize()
            .config_override(
                aws_sdk_sqs::config::Builder::new().region(Region::new(self.requeue.region().to_owned())),
            )
            .send()
            .await
            .map_err(|error| failed("reading the requeue")(Failure::of_call(&error)))?;
        let attributes = answer.attributes();
        let number =
            |name| attributes.and_then(|all| all.get(name)).and_then(|text| text.parse::<u64>().ok());
        Ok(names.iter().filter_map(number).sum())
    }

    async fn keep_lock(&self, held: &mut Held) -> Result<(), ReplayError> {
        let now = self.clock.now();
        if held.until.duration_since(now) > LEAST_LEASE {
            return Ok(());
        }
        let renewed = self.store.renew(&self.owner, held, now).await.map_err(failed("renewing the lock"))?;
        *held = renewed.ok_or(ReplayError::Busy(now))?;
        Ok(())
    }

    async fn save(&self, manifest: &Manifest) -> Result<(), ReplayError> {
        self.store.save(manifest).await.map_err(failed("writing the manifest"))
    }

    fn letters<'a>(
        &'a self,
        request: &'a Request,
        job: Job<'a>,
        selection: &'a Selection,
        done: HashSet<Identity>,
    ) -> Letters<'a> {
        let terms = Terms { request, requeue: &self.requeue, policy: job.policy };
        Letters::new(terms, job.source, self.walk(selection), done)
    }

    /// The letters that are not sent any more.
    async fn done(&self, request: &Request, own: Option<&str>) -> Result<HashSet<Identity>, ReplayError> {
        let done = match (request.again, own) {
            (true, None) => Ok(HashSet::new()),
            (true, Some(own)) => self.store.sent(Some(own)).await,
            (false, _) => self.store.sent(None).await,
        };
        done.map_err(failed("reading the ledgers"))
    }

    fn walk<'s>(&self, selection: &'s Selection) -> Walk<'s> {
        let Store { s3, bucket, prefix } = &self.store;
        Walk::new(s3.clone(), bucket, prefix, selection)
    }

    /// How the id of every replay of this selection begins.
    fn id_of(&self, request: &Request, source: &Source) -> String {
        let mut hash = Sha256::new();
        hash.update(serde_json::to_string(&(&request.select, &request.to)).unwrap_or_default());
        hash.update(self.requeue.as_str());
        if let Source::Given(records) = source {
            for record in records.iter().flatten() {
                hash.update(record.0.queue_arn.as_str());
                hash.update(record.0.message.digest().unwrap_or_default());
            }
        }
        URL_SAFE_NO_PAD.encode(&hash.finalize()[..9])
    }
}

fn identity_of(record: &Record) -> Identity {
    identity(record.queue_arn.as_str(), &record.message.message_id)
}

async fn next_batch(letters: &mut Letters<'_>, most: u64) -> Vec<Fit> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while (batch.len() as u64) < most && bytes < MAX_BATCH_BYTES {
        let Some(found) = letters.next().await else { break };
        // The others were counted when the replay began.
        if let Found::Fit(fit) = found {
            bytes += fit.letter.sqs.body.len();
            batch.push(*fit);
        }
    }
    batch
}

fn entry(fit: &Fit) -> Entry {
    Entry {
        queue_arn: fit.record.queue_arn.as_str().to_owned(),
        message_id: fit.record.message.message_id.clone(),
        letter_id: fit.letter.id.as_str().to_owned(),
        edited: fit.edited,
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
    began: Instant,
    sent: u64,
}

impl Pace {
    fn new(rate: u32) -> Self {
        Self { rate: u64::from(rate.max(1)), began: Instant::now(), sent: 0 }
    }

    /// Waits until the rate allows more.
    async fn wait(&mut self, sent: u64, control: &dyn Control) {
        self.sent += sent;
        let then = self.began + Duration::from_millis(self.sent * 1000 / self.rate);
        while Instant::now() < then && !control.stop() {
            sleep(NAP.min(then.saturating_duration_since(Instant::now()))).await;
        }
    }
}

//! The stored replays, and the requests that operators can make about them from anywhere.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use redrive_aws::clock::InstanceClock;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::ReplayError;
use super::letters::ReplaySource;
use super::replay_state::{OperatorNote, ReplayState, ReplayStatus, is_id};
use super::replay_store::{CONCURRENT_DOCUMENTS, ReplayStore, StoredDocument, WriteCondition};
use super::request::ReplayRequest;
use super::version::VersionedDocument;

/// The number of tries to write a stop, if somebody else writes one at the same time.
const TRIES: u32 = 3;

/// The time without a write after which a replay that sends counts as cut off. A function of a state machine works for
/// 15 minutes at most, and a terminal writes every minute.
const RUNNING_TIMEOUT: SignedDuration = SignedDuration::from_mins(20);

/// The time after which a step that could be judged counts as cut off. A state machine looks each minute.
const SETTLING_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// The replays that are stored in one place.
#[derive(Debug)]
pub struct StoredReplays {
    pub(super) store: ReplayStore,
    pub(super) clock: InstanceClock,
    pub(super) by: String,
}

/// A request to stop a replay: the object `replays/<id>/stop.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StopRequest {
    version: u8,
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The time at which the replay to be stopped was taken up. A later resumption is not stopped.
    began: Timestamp,
}

impl VersionedDocument for StopRequest {
    const VERSION: u8 = 1;

    fn version(&self) -> u8 {
        self.version
    }
}

impl StopRequest {
    fn because(&self) -> String {
        let why = self.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        format!("{} stopped it{why}", self.by)
    }
}

impl StoredReplays {
    /// Creates access to the replays below the prefix of overrides. `by` names the caller.
    #[must_use]
    pub fn new(s3: aws_sdk_s3::Client, bucket: &str, prefix: &str, clock: InstanceClock, by: String) -> Self {
        Self { store: ReplayStore::new(s3, bucket, prefix), clock, by }
    }

    /// Returns the stored replays that can be read, the latest first.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn all(&self) -> Result<Vec<ReplayState>, ReplayError> {
        Ok(self.list().await?.into_iter().filter_map(|(_, state)| state.ok()).collect())
    }

    /// Returns the ids and states of the stored replays, the latest first. For a replay that this version
    /// cannot read, the state is [`ReplayError::Newer`], [`ReplayError::Broken`] or [`ReplayError::TooLarge`].
    ///
    /// # Errors
    ///
    /// [`ReplayError`] if a call fails.
    pub async fn list(&self) -> Result<Vec<(String, Result<ReplayState, ReplayError>)>, ReplayError> {
        self.newest(usize::MAX).await
    }

    /// Returns at most `most` of them, the latest first.
    ///
    /// # Errors
    ///
    /// [`ReplayError`] if a call fails.
    pub async fn newest(
        &self,
        most: usize,
    ) -> Result<Vec<(String, Result<ReplayState, ReplayError>)>, ReplayError> {
        let folders = self.store.list("", Some("/")).await?;
        let ids = folders.iter().rev().map(|folder| folder.trim_end_matches('/'));
        let ids = ids.filter(|id| *id != "queues").take(most).map(str::to_owned);
        let read = async |id: String| match self.read(&id).await {
            Ok(found) => Ok(found.map(|found| (id, Ok(self.told(found))))),
            Err(error @ (ReplayError::Newer(_) | ReplayError::Broken(_) | ReplayError::TooLarge(..))) => {
                Ok(Some((id, Err(error))))
            }
            Err(error) => Err(error),
        };
        let all: Vec<_> = stream::iter(ids).map(read).buffered(CONCURRENT_DOCUMENTS).collect().await;
        all.into_iter().filter_map(Result::transpose).collect()
    }

    /// Returns the unfinished replays of the same selection, as far as this version can read them.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn unfinished(
        &self,
        request: &ReplayRequest,
        source: &ReplaySource,
    ) -> Result<Vec<ReplayState>, ReplayError> {
        let given = digest(source);
        let is_same = |state: &ReplayState| {
            let other = &state.request;
            !other.dry_run
                && (&other.select, &other.to, other.again) == (&request.select, &request.to, request.again)
                && other.subscriptions == request.subscriptions
                && state.given == given
        };
        let all = self.all().await?;
        Ok(all.into_iter().filter(|state| state.is_unfinished() && is_same(state)).collect())
    }

    /// Returns the state of a replay.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Unknown`] if there is no replay with this id.
    pub async fn show(&self, id: &str) -> Result<ReplayState, ReplayError> {
        Ok(self.told(self.found(id).await?))
    }

    /// Returns a state as it is shown: it also says whether the replay was cut off.
    fn told(&self, found: StoredDocument<ReplayState>) -> ReplayState {
        let StoredDocument { document: mut state, age, .. } = found;
        let now = self.store.time().unwrap_or_else(|| self.clock.now());
        let patience = match state.status {
            ReplayStatus::Running => RUNNING_TIMEOUT,
            ReplayStatus::Settling => SETTLING_TIMEOUT,
            ReplayStatus::DryRun | ReplayStatus::Stopped | ReplayStatus::Done => return state,
        };
        let written = now.saturating_sub(age).unwrap_or(now);
        let last_sign = state.not_before.map_or(written, |judged| judged.max(written));
        state.abandoned = state.freed.is_none() && now.duration_since(last_sign) > patience;
        state
    }

    /// Makes a replay stop, wherever it runs.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn stop(&self, id: &str, why: Option<&str>) -> Result<ReplayState, ReplayError> {
        let key = stop_key(id);
        let mut state = self.found(id).await?.document;
        for _ in 0..TRIES {
            let stop = StopRequest {
                version: StopRequest::VERSION,
                by: self.by.clone(),
                why: why.map(str::to_owned),
                began: state.taken_up,
            };
            let there = self.store.read::<StopRequest>(&key).await?;
            let etag = there.map(|found| found.etag);
            let written = self.store.write(&key, &stop, WriteCondition::of(etag.as_deref())).await?;
            // If the replay was taken up in between, its new holder takes this stop for an old one.
            let now = self.found(id).await?.document;
            if written.is_some() && now.taken_up == state.taken_up {
                return Ok(state);
            }
            state = now;
        }
        Err(ReplayError::Busy(id.to_owned()))
    }

    /// Returns why a replay that was taken up at this time must stop, if somebody has stopped it.
    pub(super) async fn stopped(&self, id: &str, taken_up: Timestamp) -> Result<Option<String>, ReplayError> {
        let found = self.store.read::<StopRequest>(&stop_key(id)).await?;
        Ok(found.filter(|found| found.document.began == taken_up).map(|found| found.document.because()))
    }

    /// Ends a replay for good. Other replays that select letters in doubt of this one, which it may have sent
    /// without knowing it, then treat them as not sent.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn free(&self, id: &str, why: Option<&str>) -> Result<ReplayState, ReplayError> {
        let StoredDocument { document: mut state, etag, .. } = self.found(id).await?;
        // A finished replay may also have letters in doubt that it could not send again.
        if state.freed.is_some() {
            return Ok(state);
        }
        let at = self.now().await?;
        state.freed = Some(OperatorNote { at, by: self.by.clone(), why: why.map(str::to_owned) });
        // The process that runs the replay finds that its state was changed, and stops.
        let written = self.store.write(&key_of(id), &state, WriteCondition::Is(&etag)).await?;
        written.map(|_| state).ok_or_else(|| ReplayError::Busy(id.to_owned()))
    }

    pub(super) async fn found(&self, id: &str) -> Result<StoredDocument<ReplayState>, ReplayError> {
        let unknown = || ReplayError::Unknown(id.to_owned());
        if !is_id(id) {
            return Err(unknown());
        }
        self.read(id).await?.ok_or_else(unknown)
    }

    /// Reads the state in the folder of this name.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Broken`] also if the document has another id than its folder: its author wants a command that names
    /// it to do something else.
    pub(super) async fn read(
        &self,
        folder: &str,
    ) -> Result<Option<StoredDocument<ReplayState>>, ReplayError> {
        let found = self.store.read::<ReplayState>(&key_of(folder)).await?;
        if found.as_ref().is_some_and(|found| found.document.id != folder || !is_id(folder)) {
            let key = self.store.key(&key_of(folder));
            return Err(ReplayError::Broken(format!("s3://{}/{key}", self.store.bucket())));
        }
        Ok(found)
    }

    /// Returns the present by S3's clock.
    pub(super) async fn now(&self) -> Result<Timestamp, ReplayError> {
        // Every answer of S3 has the time, and the answer to this call is short.
        self.store.list("now", None).await?;
        Ok(self.store.time().unwrap_or_else(|| self.clock.now()))
    }
}

pub(super) fn key_of(id: &str) -> String {
    format!("{id}/replay.json")
}

fn stop_key(id: &str) -> String {
    format!("{id}/stop.json")
}

/// Returns a digest of given records, to tell them from other records. Returns `None` if the archive is read.
pub(super) fn digest(source: &ReplaySource) -> Option<String> {
    let ReplaySource::Input(records) = source else { return None };
    let mut hash = Sha256::new();
    for (record, _) in records.iter().flatten() {
        hash.update(record.queue_arn.as_str());
        hash.update(record.message.digest().unwrap_or_default());
    }
    Some(URL_SAFE_NO_PAD.encode(hash.finalize()))
}

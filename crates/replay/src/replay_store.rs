//! The objects that replays store, below `replays/` in the location of the overrides.
//!
//! | key | holds |
//! |---|---|
//! | `replays/<id>/replay.json` | the state of the replay |
//! | `replays/<id>/units.jsonl` | its units, one per line |
//! | `replays/<id>/stop.json` | a request to stop it |
//! | `replays/<id>/rounds/<number>.jsonl` | the lanes of a round, one per line |
//! | `replays/<id>/rounds/<number>/<lane>.json` | the result of a lane |
//! | `replays/<id>/rounds/<number>/units-<turn>.json` | units finished ahead of others before them |
//! | `replays/queues/queue=<name>/hour=<hour>/cuts.json` | the cut of that hour |
//! | `replays/queues/queue=<name>/hour=<hour>/<number>.json` | the ledger of a unit |
//!
//! They are outside the archive's prefix. So readers of the archive find only archived letters, and a role
//! that may write here does not need permission to write there.

use std::time::Duration;

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use jiff::Timestamp;
use redrive_archive::folder;
use redrive_aws::clients::{ServerTime, failure_of_call, is_absent};
use redrive_core::failure::{Failure, FailureClass};
use serde::Serialize;
use tokio::time::sleep;

use super::error::ReplayError;
use super::version::{self, VersionedDocument};

/// The number of documents read or written at the same time.
pub(super) const CONCURRENT_DOCUMENTS: usize = 16;

/// The number of tries for a write that conflicts with another. There is a [`CONFLICT_WAIT`] between tries.
const TRIES: u32 = 5;
const CONFLICT_WAIT: Duration = Duration::from_millis(200);

/// The greatest size of a document in bytes. A ledger has at most a thousand letters, each with 40 bytes for each replay
/// that has sent it.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// The greatest size of a list in bytes: a line of 200 bytes for each of half a million units.
const MAX_LIST_BYTES: usize = 128 * 1024 * 1024;

/// The store below `replays/`.
#[derive(Debug, Clone)]
pub(super) struct ReplayStore {
    s3: aws_sdk_s3::Client,
    bucket: String,
    /// The prefix up to and including `replays/`.
    root: String,
    /// S3's time from its answers. The times of S3's objects are compared with it, never with a clock of
    /// ours.
    time: ServerTime,
}

/// A document and its tag.
#[derive(Debug, Clone)]
pub(super) struct StoredDocument<T> {
    pub(super) document: T,
    pub(super) etag: String,
    /// The age of the document when it was read, by S3's clock alone.
    pub(super) age: jiff::SignedDuration,
}

/// The condition on which an object is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum WriteCondition<'a> {
    /// The object does not exist.
    Absent,
    /// The object still has this tag.
    Is(&'a str),
}

impl<'a> WriteCondition<'a> {
    pub(super) fn of(etag: Option<&'a str>) -> Self {
        etag.map_or(Self::Absent, Self::Is)
    }
}

impl ReplayStore {
    /// Creates the store in a bucket, below a prefix that may have slashes at its ends.
    pub(super) fn new(s3: aws_sdk_s3::Client, bucket: &str, prefix: &str) -> Self {
        let root = format!("{}replays/", folder(prefix));
        Self { s3, bucket: bucket.to_owned(), root, time: ServerTime::default() }
    }

    /// Returns the bucket.
    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Returns the full key of a key below `replays/`.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}{key}", self.root)
    }

    /// Returns S3's time at its last answer.
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.time.get()
    }

    /// Reads a document below `replays/`.
    pub(super) async fn read<T: VersionedDocument>(
        &self,
        key: &str,
    ) -> Result<Option<StoredDocument<T>>, ReplayError> {
        let Some(DocumentText { text, etag, age }) = self.get(key, MAX_DOCUMENT_BYTES).await? else {
            return Ok(None);
        };
        let key = || format!("s3://{}/{}{key}", self.bucket, self.root);
        match version::read(&text) {
            Ok(document) => Ok(Some(StoredDocument { document, etag, age })),
            Err(unusable) => Err(unusable.of(key())),
        }
    }

    /// Reads a text below `replays/`.
    pub(super) async fn text(&self, key: &str) -> Result<Option<String>, ReplayError> {
        Ok(self.get(key, MAX_LIST_BYTES).await?.map(|object| object.text))
    }

    /// Reads an object of at most `most` bytes. A larger one, which this software does not write, could exhaust the
    /// memory.
    async fn get(&self, key: &str, most: usize) -> Result<Option<DocumentText>, ReplayError> {
        let failed = |failure| ReplayError::failed(format!("reading {}{key}", self.root), failure);
        let call = self.s3.get_object().bucket(&self.bucket).key(format!("{}{key}", self.root));
        let object = match call.customize().interceptor(self.time.clone()).send().await {
            Ok(object) => object,
            Err(error) => {
                let is_absent =
                    is_absent(&self.s3, &self.bucket, &format!("{}{key}", self.root), &error).await;
                return if is_absent { Ok(None) } else { Err(failed(failure_of_call(&error))) };
            }
        };
        let etag = object.e_tag().unwrap_or_default().to_owned();
        let written = object.last_modified().and_then(|at| Timestamp::from_second(at.secs()).ok());
        let age = self.time().zip(written).map(|(now, written)| now.duration_since(written));
        let broken_off = || failed(Failure::ours(FailureClass::Transient, "BodyBrokenOff"));
        let (mut body, mut bytes) = (object.body, Vec::new());
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece.map_err(|_| broken_off())?);
            if bytes.len() > most {
                return Err(ReplayError::TooLarge(format!("s3://{}/{}{key}", self.bucket, self.root), most));
            }
        }
        let broken = |_| ReplayError::Broken(format!("s3://{}/{}{key}", self.bucket, self.root));
        let text = String::from_utf8(bytes).map_err(broken)?;
        Ok(Some(DocumentText { text, etag, age: age.unwrap_or_default() }))
    }

    /// Writes a document on a condition. Returns its `ETag`, or `None` if the condition is not met.
    pub(super) async fn write(
        &self,
        key: &str,
        document: &impl Serialize,
        condition: WriteCondition<'_>,
    ) -> Result<Option<String>, ReplayError> {
        let unbuildable = |_| Failure::ours(FailureClass::Permanent, "NotBuildable");
        let text = serde_json::to_string(document).map_err(unbuildable);
        let text =
            text.map_err(|failure| ReplayError::failed(format!("writing {}{key}", self.root), failure))?;
        self.write_text(key, text, condition).await
    }

    /// Writes a text on a condition, like [`Self::write`]. If an answer is lost, the SDK repeats the call,
    /// and the condition then fails because the object exists already. That counts as written, so no two
    /// writers may write the same text.
    pub(super) async fn write_text(
        &self,
        key: &str,
        text: String,
        condition: WriteCondition<'_>,
    ) -> Result<Option<String>, ReplayError> {
        let kind = if key.ends_with("jsonl") { "application/x-ndjson" } else { "application/json" };
        for attempt in 1.. {
            let put = self.s3.put_object().bucket(&self.bucket).key(format!("{}{key}", self.root));
            let put = match condition {
                WriteCondition::Absent => put.if_none_match("*"),
                WriteCondition::Is(etag) => put.if_match(etag),
            };
            let put = put.content_type(kind).body(ByteStream::from(text.clone().into_bytes()));
            let error = match put.customize().interceptor(self.time.clone()).send().await {
                Ok(answer) => return Ok(Some(answer.e_tag().unwrap_or_default().to_owned())),
                Err(error) => error,
            };
            let status = error.raw_response().map(|raw| raw.status().as_u16());
            match status {
                // Somebody else writes at this moment, and it is not yet known whose write counts.
                Some(409) if attempt < TRIES => sleep(CONFLICT_WAIT).await,
                // 412: the condition is not met. 404: there is no object.
                // https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
                Some(404 | 409 | 412) if error.code() != Some("NoSuchBucket") => {
                    let there = self.get(key, MAX_LIST_BYTES).await?;
                    return Ok(there.filter(|object| object.text == text).map(|object| object.etag));
                }
                _ => {
                    let what = format!("writing {}{key}", self.root);
                    return Err(ReplayError::failed(what, failure_of_call(&error)));
                }
            }
        }
        Ok(None)
    }

    /// Lists the keys below `replays/` with this beginning, in order. With a delimiter it lists the folders
    /// among them.
    pub(super) async fn list(
        &self,
        beginning: &str,
        delimiter: Option<&str>,
    ) -> Result<Vec<String>, ReplayError> {
        let failed = |failure| ReplayError::failed(format!("listing {}{beginning}", self.root), failure);
        let (mut found, mut token) = (Vec::new(), None::<String>);
        loop {
            let prefix = format!("{}{beginning}", self.root);
            let call = self.s3.list_objects_v2().bucket(&self.bucket).prefix(prefix);
            let call = call.set_delimiter(delimiter.map(str::to_owned)).set_continuation_token(token);
            let page = call.customize().interceptor(self.time.clone()).send().await;
            let page = page.map_err(|error| failed(failure_of_call(&error)))?;
            let keys: Vec<_> = match delimiter {
                Some(_) => page.common_prefixes().iter().filter_map(|folder| folder.prefix()).collect(),
                None => page.contents().iter().filter_map(|object| object.key()).collect(),
            };
            found.extend(keys.into_iter().filter_map(|key| key.strip_prefix(&self.root)).map(str::to_owned));
            token = page
                .next_continuation_token()
                .filter(|_| page.is_truncated() == Some(true))
                .map(str::to_owned);
            if token.is_none() {
                return Ok(found);
            }
        }
    }
}

struct DocumentText {
    text: String,
    etag: String,
    age: jiff::SignedDuration,
}

//! Lock, manifests and ledgers: what a replay keeps in the archive, below `replays/`.
//!
//! | key | holds |
//! |---|---|
//! | `replays/lock.json` | who replays, and until when; renewed with each batch |
//! | `replays/<id>/manifest.json` | how the replay stands |
//! | `replays/<id>/sent/<number>.jsonl` | one batch: a line for each letter that was sent |
//!
//! A walk through the archive reads `queue=.../` only, so none of this is ever taken for letters.

use std::collections::HashSet;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::letters::{Identity, identity};
use super::manifest::{MANIFEST_VERSION, Manifest};
use crate::failure::{Failure, FailureClass};

/// How long a lock holds without being renewed.
pub(super) const LEASE: SignedDuration = SignedDuration::from_secs(30);

/// Ledgers read at once.
const CONCURRENT_READS: usize = 8;

/// A place below `replays/`.
#[derive(Debug, Clone)]
pub(super) struct Store {
    pub(super) s3: aws_sdk_s3::Client,
    pub(super) bucket: String,
    /// With a slash at its end, unless it is empty.
    pub(super) prefix: String,
}

/// A line of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) queue_arn: String,
    pub(super) message_id: String,
    pub(super) letter_id: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) edited: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Lock {
    version: u8,
    owner: String,
    until: Timestamp,
}

/// A lock that is held; it must be renewed before it ends.
#[derive(Debug)]
pub(super) struct Held {
    etag: String,
    pub(super) until: Timestamp,
}

/// Why a lock cannot be had.
#[derive(Debug)]
pub(super) enum NotLocked {
    /// Somebody else has it until then.
    Busy(Timestamp),
    Failed(Failure),
}

impl From<Failure> for NotLocked {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Store {
    fn key(&self, rest: &str) -> String {
        format!("{}replays/{rest}", self.prefix)
    }

    /// Takes the lock, if nobody has it or its time is over.
    pub(super) async fn lock(&self, owner: &str, now: Timestamp) -> Result<Held, NotLocked> {
        if let Some(held) = self.put_lock(owner, now, LEASE, None).await? {
            return Ok(held);
        }
        let busy = || NotLocked::Busy(now.saturating_add(LEASE).unwrap_or(Timestamp::MAX));
        let Some((text, etag)) = self.get(&self.key("lock.json")).await? else { return Err(busy()) };
        // A lock that cannot be read belongs to nobody any more.
        let lock: Option<Lock> = serde_json::from_str(&text).ok();
        if let Some(lock) = lock.filter(|lock| lock.until > now) {
            return Err(NotLocked::Busy(lock.until));
        }
        self.put_lock(owner, now, LEASE, Some(&etag)).await?.ok_or_else(busy)
    }

    /// Renews the lock; `None` where somebody else has taken it.
    pub(super) async fn renew(
        &self,
        owner: &str,
        held: &Held,
        now: Timestamp,
    ) -> Result<Option<Held>, Failure> {
        self.put_lock(owner, now, LEASE, Some(&held.etag)).await
    }

    /// Gives the lock back. It stays as an object, so that nobody needs the permission to delete.
    pub(super) async fn release(&self, owner: &str, held: &Held, now: Timestamp) {
        // If this fails, the lock ends by itself.
        let _ = self.put_lock(owner, now, SignedDuration::ZERO, Some(&held.etag)).await;
    }

    async fn put_lock(
        &self,
        owner: &str,
        now: Timestamp,
        lease: SignedDuration,
        etag: Option<&str>,
    ) -> Result<Option<Held>, Failure> {
        let until = now.saturating_add(lease).unwrap_or(Timestamp::MAX);
        let lock = Lock { version: MANIFEST_VERSION, owner: owner.to_owned(), until };
        let put = self.s3.put_object().bucket(&self.bucket).key(self.key("lock.json"));
        let put = match etag {
            Some(etag) => put.if_match(etag),
            None => put.if_none_match("*"),
        };
        match put.content_type("application/json").body(json(&lock)?).send().await {
            Ok(answer) => Ok(Some(Held { etag: answer.e_tag().unwrap_or_default().to_owned(), until })),
            // 412: the condition does not hold. 409: somebody writes at this moment.
            Err(error)
                if error.raw_response().is_some_and(|raw| [409, 412].contains(&raw.status().as_u16())) =>
            {
                Ok(None)
            }
            Err(error) => Err(Failure::of_call(&error)),
        }
    }

    /// The manifest of the latest replay whose id begins so.
    pub(super) async fn latest(&self, beginning: &str) -> Result<Option<Manifest>, Failure> {
        let prefix = self.key(beginning);
        let folders = self.list(&prefix, Some("/")).await?;
        let Some(folder) = folders.into_iter().max() else { return Ok(None) };
        let Some((text, _)) = self.get(&format!("{folder}manifest.json")).await? else { return Ok(None) };
        let unreadable = || Failure::ours(FailureClass::Mendable, "ManifestUnreadable");
        let manifest: Manifest = serde_json::from_str(&text).map_err(|_| unreadable())?;
        if manifest.version == MANIFEST_VERSION { Ok(Some(manifest)) } else { Err(unreadable()) }
    }

    pub(super) async fn save(&self, manifest: &Manifest) -> Result<(), Failure> {
        let key = self.key(&format!("{}/manifest.json", manifest.id));
        self.put(&key, "application/json", json(manifest)?).await
    }

    /// Records a batch that was sent.
    pub(super) async fn record(&self, id: &str, number: u64, sent: &[Entry]) -> Result<(), Failure> {
        let lines: Result<Vec<String>, _> = sent.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(|_| Failure::ours(FailureClass::Permanent, "NotBuildable"))?;
        let body = ByteStream::from((lines.join("\n") + "\n").into_bytes());
        self.put(&self.ledger(id, number), "application/x-ndjson", body).await
    }

    /// How many letters of a batch were recorded, if it was.
    pub(super) async fn recorded(&self, id: &str, number: u64) -> Result<Option<u64>, Failure> {
        let ledger = self.get(&self.ledger(id, number)).await?;
        Ok(ledger.map(|(text, _)| text.lines().count() as u64))
    }

    fn ledger(&self, id: &str, number: u64) -> String {
        self.key(&format!("{id}/sent/{number:08}.jsonl"))
    }

    /// The letters that were sent: by the replay `id`, or by any.
    pub(super) async fn sent(&self, id: Option<&str>) -> Result<HashSet<Identity>, Failure> {
        let entries = self.entries(id).await?;
        Ok(entries.iter().map(|entry| identity(&entry.queue_arn, &entry.message_id)).collect())
    }

    /// The ids of the letters that a replay has sent after its first `before` ones.
    pub(super) async fn letter_ids(&self, id: &str, before: u64) -> Result<HashSet<String>, Failure> {
        let entries = self.entries(Some(id)).await?;
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        Ok(entries.into_iter().skip(before).map(|entry| entry.letter_id).collect())
    }

    async fn entries(&self, id: Option<&str>) -> Result<Vec<Entry>, Failure> {
        let prefix = self.key(&id.map(|id| format!("{id}/sent/")).unwrap_or_default());
        let keys = self.list(&prefix, None).await?;
        let ledgers = keys.into_iter().filter(|key| key.contains("/sent/"));
        let texts =
            stream::iter(ledgers).map(|key| async move { self.get(&key).await }).buffered(CONCURRENT_READS);
        let lines = texts.map_ok(|found| {
            let text = found.map(|(text, _)| text).unwrap_or_default();
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Entry>>()
        });
        lines.try_concat().await
    }

    /// Keys below a prefix, or with a delimiter the folders in it, in order.
    async fn list(&self, prefix: &str, delimiter: Option<&str>) -> Result<Vec<String>, Failure> {
        let listing = self.s3.list_objects_v2().bucket(&self.bucket).prefix(prefix);
        let mut pages = listing.set_delimiter(delimiter.map(str::to_owned)).into_paginator().send();
        let mut found = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| Failure::of_call(&error))?;
            match delimiter {
                Some(_) => {
                    let folders = page.common_prefixes().iter().filter_map(|folder| folder.prefix());
                    found.extend(folders.map(str::to_owned));
                }
                None => {
                    found.extend(page.contents().iter().filter_map(|object| object.key().map(str::to_owned)));
                }
            }
        }
        Ok(found)
    }

    async fn get(&self, key: &str) -> Result<Option<(String, String)>, Failure> {
        let answer = self.s3.get_object().bucket(&self.bucket).key(key).send().await;
        let object = match answer {
            Ok(object) => object,
            Err(error) if error.code() == Some("NoSuchKey") => return Ok(None),
            Err(error) => return Err(Failure::of_call(&error)),
        };
        let etag = object.e_tag().unwrap_or_default().to_owned();
        let unreadable = || Failure::ours(FailureClass::Transient, "Unreadable");
        let bytes = object.body.collect().await.map_err(|_| unreadable())?;
        let text = String::from_utf8(bytes.to_vec()).map_err(|_| unreadable())?;
        Ok(Some((text, etag)))
    }

    async fn put(&self, key: &str, content_type: &str, body: ByteStream) -> Result<(), Failure> {
        let put = self.s3.put_object().bucket(&self.bucket).key(key).content_type(content_type).body(body);
        put.send().await.map(drop).map_err(|error: SdkError<_>| Failure::of_call(&error))
    }
}

fn json(value: &impl Serialize) -> Result<ByteStream, Failure> {
    let text =
        serde_json::to_vec(value).map_err(|_| Failure::ours(FailureClass::Permanent, "NotBuildable"))?;
    Ok(ByteStream::from(text))
}

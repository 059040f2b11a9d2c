//! What a replay keeps in the archive, below `replays/`.
//!
//! | key | holds |
//! |---|---|
//! | `replays/lock.json` | who replays, and until when |
//! | `replays/<id>/manifest.json` | how the replay stands |
//! | `replays/<id>/batches/<number>.jsonl` | one batch: its ledger, a line for each letter |
//!
//! A ledger is written before its batch is sent, with every letter as `sending`, and once more after it. So a
//! crash leaves behind which letters may have been sent.
//!
//! A walk through the archive reads `queue=.../` only, so none of this is ever taken for letters.

use std::collections::HashSet;
use std::sync::Arc;

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::manifest::{MANIFEST_VERSION, Manifest};
use crate::archive::Identity;
use crate::clients::failure_of_call;
use crate::failure::{Failure, FailureClass};

/// Ledgers read at once.
const CONCURRENT_READS: usize = 16;

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
    pub(super) state: State,
}

/// What a ledger knows of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum State {
    /// SQS may have it. Its replay sends it again; others leave it alone.
    Sending,
    /// SQS has it.
    Sent,
    /// SQS would not have it. Its replay does not try again; another one may.
    Refused,
}

/// Letters that ledgers know.
#[derive(Debug, Default)]
pub(super) struct Ledgers {
    /// Not to be sent any more.
    pub(super) done: HashSet<Identity>,
    /// Another replay was cut off while it sent them.
    pub(super) in_doubt: HashSet<Identity>,
}

/// An object and what it was written as.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) text: String,
    pub(super) etag: String,
}

/// On what condition an object is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Condition<'a> {
    /// There is none.
    Absent,
    /// It is still this one.
    Is(&'a str),
}

impl Entry {
    pub(super) fn identity(&self) -> Identity {
        Identity::of(&self.queue_arn, &self.message_id)
    }
}

impl Store {
    fn key(&self, rest: &str) -> String {
        format!("{}replays/{rest}", self.prefix)
    }

    /// The manifest of the latest replay whose id begins so, and its `ETag`.
    pub(super) async fn latest(&self, beginning: &str) -> Result<Option<(Manifest, String)>, Failure> {
        let folders = self.list(&format!("{beginning}-"), Some("/")).await?;
        let Some(folder) = folders.into_iter().max() else { return Ok(None) };
        let Some(object) = self.get(&format!("{folder}manifest.json")).await? else { return Ok(None) };
        let manifest: Option<Manifest> = serde_json::from_str(&object.text).ok();
        let known = manifest.filter(|manifest| manifest.version == MANIFEST_VERSION);
        let manifest = known.ok_or(Failure::ours(FailureClass::ActionRequired, "ManifestUnreadable"))?;
        Ok(Some((manifest, object.etag)))
    }

    /// Writes a manifest over the one of this `ETag`; answers its own, or none where another was there.
    pub(super) async fn save(
        &self,
        manifest: &Manifest,
        etag: Option<&str>,
    ) -> Result<Option<String>, Failure> {
        let condition = etag.map_or(Condition::Absent, Condition::Is);
        self.put_if(&format!("{}/manifest.json", manifest.id), manifest, condition).await
    }

    /// Writes a batch's ledger: first where there is none, then over what it was. Answers its `ETag`, or none
    /// where somebody else has written it.
    pub(super) async fn record(
        &self,
        id: &str,
        number: u64,
        entries: &[Entry],
        condition: Condition<'_>,
    ) -> Result<Option<String>, Failure> {
        let line = |entry| serde_json::to_string(entry).map(|line| line + "\n");
        let text: String = entries.iter().map(line).collect::<Result<_, _>>().map_err(|_| not_buildable())?;
        self.put_text(&ledger(id, number), text, "application/x-ndjson", condition).await
    }

    /// What the ledgers of the replay `id` say after batch `after`, and the number of the last.
    pub(super) async fn recorded(&self, id: &str, after: u64) -> Result<(Vec<Entry>, u64), Failure> {
        let first = ledger(id, after);
        let keys = self.list(&format!("{id}/batches/"), None).await?;
        let number = |key: &String| key.rsplit('/').next()?.strip_suffix(".jsonl")?.parse().ok();
        let last = keys.last().and_then(number).unwrap_or(after);
        let found = self.read(keys.into_iter().filter(|key| *key > first).collect()).try_concat().await?;
        Ok((found.into_iter().map(|(_, entry)| entry).collect(), last))
    }

    /// What is known of letters to the replay `own`, or a new one. One that sends letters `again` looks at its
    /// own ledgers only.
    pub(super) async fn ledgers(&self, own: Option<&str>, again: bool) -> Result<Ledgers, Failure> {
        let own = own.map(|own| format!("{own}/"));
        let is_own = |key: &str| own.as_ref().is_some_and(|own| key.starts_with(own));
        let keys = match &own {
            Some(own) if again => self.list(own, None).await?,
            None if again => Vec::new(),
            Some(_) | None => self.list("", None).await?,
        };
        let keys = keys.into_iter().filter(|key| is_ledger(key)).collect();
        // Of each letter only its identity is kept: there may be many.
        let fold = |mut ledgers: Ledgers, entries: Vec<(Arc<str>, Entry)>| {
            for (key, entry) in entries {
                let _ = match (entry.state, is_own(&key)) {
                    (State::Sent, _) | (State::Refused, true) => ledgers.done.insert(entry.identity()),
                    (State::Sending, false) => ledgers.in_doubt.insert(entry.identity()),
                    (State::Sending, true) | (State::Refused, false) => false,
                };
            }
            std::future::ready(Ok(ledgers))
        };
        self.read(keys).try_fold(Ledgers::default(), fold).await
    }

    /// The lines of these ledgers, each with its ledger's key. A ledger that cannot be read is an error: its
    /// letters would be sent again.
    fn read(&self, ledgers: Vec<String>) -> impl Stream<Item = Result<Vec<(Arc<str>, Entry)>, Failure>> {
        let read = move |key: String| async move {
            let object = self.get(&key).await?.ok_or_else(ledger_unreadable)?;
            let key: Arc<str> = key.into();
            let entries: Result<Vec<Entry>, _> = object.text.lines().map(serde_json::from_str).collect();
            let entries = entries.map_err(|_| ledger_unreadable())?.into_iter();
            Ok(entries.map(|entry| (Arc::clone(&key), entry)).collect::<Vec<_>>())
        };
        stream::iter(ledgers).map(read).buffered(CONCURRENT_READS)
    }

    /// Keys below `replays/` that begin so, or with a delimiter the folders among them, in order.
    async fn list(&self, beginning: &str, delimiter: Option<&str>) -> Result<Vec<String>, Failure> {
        let listing = self.s3.list_objects_v2().bucket(&self.bucket).prefix(self.key(beginning));
        let mut pages = listing.set_delimiter(delimiter.map(str::to_owned)).into_paginator().send();
        let root = self.key("");
        let mut found = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| failure_of_call(&error))?;
            let keys = match delimiter {
                Some(_) => page.common_prefixes().iter().filter_map(|folder| folder.prefix()).collect(),
                None => page.contents().iter().filter_map(|object| object.key()).collect::<Vec<_>>(),
            };
            found.extend(keys.into_iter().filter_map(|key| key.strip_prefix(&root)).map(str::to_owned));
        }
        Ok(found)
    }

    /// An object below `replays/`.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Object>, Failure> {
        let answer = self.s3.get_object().bucket(&self.bucket).key(self.key(key)).send().await;
        let object = match answer {
            Ok(object) => object,
            Err(error) if error.code() == Some("NoSuchKey") => return Ok(None),
            Err(error) => return Err(failure_of_call(&error)),
        };
        let etag = object.e_tag().unwrap_or_default().to_owned();
        let unreadable = || Failure::ours(FailureClass::Transient, "BodyBrokenOff");
        let bytes = object.body.collect().await.map_err(|_| unreadable())?;
        let text = String::from_utf8(bytes.to_vec()).map_err(|_| unreadable())?;
        Ok(Some(Object { text, etag }))
    }

    /// Writes an object of JSON below `replays/` on a condition; answers its `ETag`, or none where the condition
    /// does not hold.
    pub(super) async fn put_if(
        &self,
        key: &str,
        value: &impl Serialize,
        condition: Condition<'_>,
    ) -> Result<Option<String>, Failure> {
        let text = serde_json::to_string(value).map_err(|_| not_buildable())?;
        self.put_text(key, text, "application/json", condition).await
    }

    /// The same for a text. A call whose answer was lost is repeated by the SDK, and then the condition does not
    /// hold since the object is there already: that counts as written.
    async fn put_text(
        &self,
        key: &str,
        text: String,
        content_type: &str,
        condition: Condition<'_>,
    ) -> Result<Option<String>, Failure> {
        let put = self.s3.put_object().bucket(&self.bucket).key(self.key(key));
        let put = match condition {
            Condition::Absent => put.if_none_match("*"),
            Condition::Is(etag) => put.if_match(etag),
        };
        let body = ByteStream::from(text.clone().into_bytes());
        match put.content_type(content_type).body(body).send().await {
            Ok(answer) => Ok(Some(answer.e_tag().unwrap_or_default().to_owned())),
            // 412: the condition does not hold. 409: somebody writes at this moment. 404: there is none.
            Err(error)
                if error
                    .raw_response()
                    .is_some_and(|raw| [404, 409, 412].contains(&raw.status().as_u16()))
                    && error.code() != Some("NoSuchBucket") =>
            {
                let there = self.get(key).await?;
                Ok(there.filter(|object| object.text == text).map(|object| object.etag))
            }
            Err(error) => Err(failure_of_call(&error)),
        }
    }
}

fn ledger(id: &str, number: u64) -> String {
    format!("{id}/batches/{number:08}.jsonl")
}

/// Whether a key below `replays/` is a ledger's.
fn is_ledger(key: &str) -> bool {
    key.split_once('/').is_some_and(|(_, rest)| rest.starts_with("batches/"))
}

fn ledger_unreadable() -> Failure {
    Failure::ours(FailureClass::ActionRequired, "LedgerUnreadable")
}

fn not_buildable() -> Failure {
    Failure::ours(FailureClass::Permanent, "NotBuildable")
}

//! The erasing of what the control prefix has of letters: lines of the list of waiting letters, and patterns and reasons of
//! overrides and replays that name their content.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;
use redrive_archive::{LetterIdentity, folder};
use redrive_core::waiting::{WaitingLetter, ended_overrides_prefix, overrides_key, waiting_root};
use redrive_replay::ReplayState;
use serde::Serialize;
use serde_json::Value;

use super::criteria::EraseCriteria;
use super::versions::{Deletion, ObjectVersion, VersionLock, VersionedBucket};
use crate::console::CommandFailure;
use crate::s3_location::BucketPrefix;

/// The number of tries if others write the same object.
const TRIES: u32 = 5;

/// The number of objects that are handled at the same time.
const CONCURRENT_OBJECTS: usize = 16;

/// The text in the place of an id.
const ERASED: &str = "erased";

/// The search below the control prefix.
pub(super) struct ControlScan<'a> {
    pub(super) bucket: VersionedBucket,
    pub(super) prefix: String,
    pub(super) criteria: &'a EraseCriteria,
    /// The places of the letters.
    pub(super) places: &'a HashSet<LetterIdentity>,
    /// The letters themselves.
    pub(super) letters: &'a HashSet<LetterIdentity>,
    /// True if nothing is changed.
    pub(super) looks_only: bool,
    /// The present, and whether locks in mode GOVERNANCE are bypassed.
    pub(super) how: (Timestamp, bool),
}

/// What was found below the control prefix.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ControlTraces {
    /// The lines of the list of waiting letters.
    pub(super) lines: u64,
    /// The documents that name the content, by key.
    pub(super) documents: Vec<String>,
    /// Overrides in force and unfinished replays that name it and are needed as they are, and replays that run, in words.
    pub(super) in_use: Vec<String>,
    #[serde(skip)]
    pub(super) kept: Vec<(String, VersionLock)>,
}

impl ControlTraces {
    fn add(&mut self, more: Self) {
        self.lines += more.lines;
        self.documents.extend(more.documents);
        self.in_use.extend(more.in_use);
        self.kept.extend(more.kept);
    }
}

/// The content that takes the place of a version.
enum Replacement {
    /// There is nothing to erase.
    Unchanged,
    /// This is the rest, and the number of lines that were erased.
    Rest(Vec<u8>, u64),
    /// It names the content, but is still needed.
    InUse(String),
}

impl<'a> ControlScan<'a> {
    pub(super) fn new(
        s3: aws_sdk_s3::Client,
        place: &BucketPrefix,
        criteria: &'a EraseCriteria,
        (places, letters): (&'a HashSet<LetterIdentity>, &'a HashSet<LetterIdentity>),
        how: (Timestamp, bool),
    ) -> Self {
        let bucket = VersionedBucket { s3, bucket: place.bucket.as_str().into() };
        let prefix = place.prefix.clone();
        Self { bucket, prefix, criteria, places, letters, looks_only: false, how }
    }

    /// Erases what is there, or only looks for it.
    pub(super) async fn run(&self) -> Result<ControlTraces, CommandFailure> {
        let mut traces = ControlTraces::default();
        for prefix in [
            waiting_root(&self.prefix),
            overrides_key(&self.prefix),
            ended_overrides_prefix(&self.prefix),
            format!("{}replays/", folder(&self.prefix)),
        ] {
            let mut after = None;
            loop {
                let page = self.bucket.page(&prefix, after).await?;
                let mut keys: Vec<_> = page.versions.into_iter().map(|version| version.key).collect();
                keys.dedup();
                let keys = keys.into_iter().filter(|key| self.is_read(key));
                let mut erased =
                    stream::iter(keys.map(|key| self.erase(key))).buffer_unordered(CONCURRENT_OBJECTS);
                while let Some(of_object) = erased.next().await {
                    traces.add(of_object?);
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        traces.documents.sort_unstable();
        traces.in_use.sort_unstable();
        traces.in_use.dedup();
        Ok(traces)
    }

    /// Reports whether an object may have something of a letter. The ledgers of replays only have digests.
    fn is_read(&self, key: &str) -> bool {
        let replays = format!("{}replays/", folder(&self.prefix));
        match key.strip_prefix(&*replays) {
            Some(rest) => rest.ends_with("/replay.json") || rest.ends_with("/stop.json"),
            None => true,
        }
    }

    /// Erases letters from an object in all of its versions.
    async fn erase(&self, key: Arc<str>) -> Result<ControlTraces, CommandFailure> {
        'again: for _ in 0..TRIES {
            let mut traces = ControlTraces::default();
            let mut to_delete = Vec::new();
            let (mut written, mut lines) = (None, 0);
            for version in self.bucket.versions_of(&key).await? {
                let content = self.bucket.read(&version).await;
                let content = content.map_err(|failure| self.bucket.failed("read", &key, &failure))?;
                let Some(content) = content else { continue };
                match self.replacement(&version, &content.bytes) {
                    Replacement::Unchanged => {}
                    Replacement::InUse(what) => traces.in_use.push(what),
                    Replacement::Rest(rest, erased) => {
                        lines = erased.max(lines);
                        if version.is_latest && !self.looks_only {
                            written = self.bucket.replace(&version, &content, rest).await?;
                            if written.is_none() {
                                continue 'again;
                            }
                        }
                        to_delete.push((version, content.lock));
                    }
                }
            }
            if !to_delete.is_empty() {
                traces.lines += lines;
                traces.documents.extend((lines == 0).then(|| key.to_string()));
            }
            for (version, lock) in to_delete.into_iter().filter(|_| !self.looks_only) {
                if written.as_ref() == Some(&version.id) {
                    continue;
                }
                let deletion = self.bucket.delete(&version, lock.as_ref(), self.how).await?;
                if let Deletion::Locked(lock) = deletion {
                    traces.kept.push((key.to_string(), lock));
                }
            }
            return Ok(traces);
        }
        let bucket = &self.bucket.bucket;
        Err(CommandFailure::Work(format!(
            "others kept changing s3://{bucket}/{key}: run the same command again"
        )))
    }

    fn replacement(&self, version: &ObjectVersion, bytes: &[u8]) -> Replacement {
        if version.key.ends_with(".jsonl") {
            return self.without_lines(bytes);
        }
        let Ok(mut document) = serde_json::from_slice::<Value>(bytes) else { return Replacement::Unchanged };
        if !self.criteria.redact(&mut document) {
            return Replacement::Unchanged;
        }
        if version.is_latest {
            if *version.key == *overrides_key(&self.prefix) {
                return Replacement::InUse("an override in force names the content: release it".to_owned());
            }
            let before = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
            let state = ReplayState::from_json(&before, &version.key);
            if let Ok(state) = state.as_ref()
                && state.is_unfinished()
            {
                return Replacement::InUse(format!(
                    "replay {} names the content: finish or free it",
                    state.id
                ));
            }
        }
        Replacement::Rest(document.to_string().into_bytes(), 0)
    }

    /// Returns an object of the list of waiting letters without the ids and handles of these letters. The lines stay, with
    /// times in the past, because the function counts lines.
    fn without_lines(&self, bytes: &[u8]) -> Replacement {
        let (mut rest, mut erased) = (Vec::with_capacity(bytes.len()), 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let letter = serde_json::from_slice::<WaitingLetter>(line).ok().filter(|letter| {
                let place = LetterIdentity::of(letter.queue_arn.as_str(), &letter.message_id);
                let itself = LetterIdentity::of_letter(&letter.letter_id);
                letter.message_id != ERASED
                    && (self.places.contains(&place) || self.letters.contains(&itself))
            });
            let line_without = letter.and_then(|mut letter| {
                (letter.letter_id, letter.message_id) = (ERASED.to_owned(), ERASED.to_owned());
                (letter.receipt_handle, letter.due, letter.visible) = (String::new(), letter.since, None);
                serde_json::to_vec(&letter).ok()
            });
            match line_without {
                Some(line) => {
                    rest.extend(line);
                    rest.push(b'\n');
                    erased += 1;
                }
                None => rest.extend_from_slice(line),
            }
        }
        if erased == 0 { Replacement::Unchanged } else { Replacement::Rest(rest, erased) }
    }
}

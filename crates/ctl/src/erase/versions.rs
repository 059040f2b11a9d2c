//! The versions of the objects below a prefix: listing, reading, replacing and deleting them.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use jiff::Timestamp;
use redrive_archive::FIRST_STORED;
use redrive_aws::clients::{failure_of_call, is_condition};
use redrive_core::failure::Failure;
use serde::Serialize;

use crate::console::CommandFailure;

/// The id of a version in a bucket without versions.
const NO_VERSION: &str = "null";

/// A bucket whose versions are read and deleted.
#[derive(Debug, Clone)]
pub(super) struct VersionedBucket {
    pub(super) s3: aws_sdk_s3::Client,
    pub(super) bucket: Arc<str>,
}

/// A version of an object. Delete markers are none.
#[derive(Debug, Clone)]
pub(super) struct ObjectVersion {
    pub(super) key: Arc<str>,
    pub(super) id: String,
    pub(super) is_latest: bool,
    pub(super) bytes: u64,
    pub(super) stored: Option<Timestamp>,
}

/// A page of versions.
pub(super) struct VersionPage {
    pub(super) versions: Vec<ObjectVersion>,
    /// The last key and version id, if another page follows.
    pub(super) next: Option<(String, String)>,
}

/// The content of a version.
pub(super) struct VersionContent {
    pub(super) bytes: Vec<u8>,
    etag: Option<String>,
    kind: Option<String>,
    metadata: HashMap<String, String>,
    pub(super) lock: Option<VersionLock>,
}

/// The lock of a version, as far as it can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct VersionLock {
    pub(super) mode: String,
    /// `None` if it ends only when somebody takes it back, or if the end cannot be read.
    pub(super) until: Option<Timestamp>,
}

/// The answer to a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deletion {
    Deleted,
    Locked(VersionLock),
}

impl VersionedBucket {
    /// Lists a page of the versions below a prefix, by key, each key's newest first.
    pub(super) async fn page(
        &self,
        prefix: &str,
        after: Option<(String, String)>,
    ) -> Result<VersionPage, CommandFailure> {
        let (key, version) = after.unzip();
        let list = self.s3.list_object_versions().bucket(&*self.bucket).prefix(prefix);
        let list = list.set_key_marker(key).set_version_id_marker(version);
        let page = list.send().await;
        let page =
            page.map_err(|error| self.failed("list the versions of", prefix, &failure_of_call(&error)))?;
        let version = |version: &aws_sdk_s3::types::ObjectVersion| {
            let stored = version.last_modified().and_then(|at| Timestamp::from_second(at.secs()).ok());
            Some(ObjectVersion {
                key: version.key()?.into(),
                id: version.version_id().unwrap_or(NO_VERSION).to_owned(),
                is_latest: version.is_latest() == Some(true),
                bytes: version.size().and_then(|size| size.try_into().ok()).unwrap_or_default(),
                stored,
            })
        };
        let next = page.next_key_marker().filter(|_| page.is_truncated() == Some(true));
        let next_version = page.next_version_id_marker().unwrap_or_default().to_owned();
        Ok(VersionPage {
            versions: page.versions().iter().filter_map(version).collect(),
            next: next.map(|key| (key.to_owned(), next_version)),
        })
    }

    /// Lists all versions of one object, the newest first.
    pub(super) async fn versions_of(&self, key: &str) -> Result<Vec<ObjectVersion>, CommandFailure> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(key, after).await?;
            // Keys that begin with this one come behind it.
            let is_over = page.versions.iter().any(|version| *version.key != *key);
            all.extend(page.versions.into_iter().filter(|version| *version.key == *key));
            after = page.next.filter(|_| !is_over);
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Reads a version. `None` if it was deleted meanwhile.
    pub(super) async fn read(&self, version: &ObjectVersion) -> Result<Option<VersionContent>, Failure> {
        let get = self.s3.get_object().bucket(&*self.bucket).key(&*version.key).version_id(&version.id);
        let answer = match get.send().await {
            Ok(answer) => answer,
            Err(error) => {
                let failure = failure_of_call(&error);
                let is_gone = ["NoSuchKey", "NoSuchVersion"].contains(&failure.code.as_str());
                return if is_gone { Ok(None) } else { Err(failure) };
            }
        };
        let until = answer.object_lock_retain_until_date();
        let until = until.and_then(|at| Timestamp::from_second(at.secs()).ok());
        let held = answer.object_lock_legal_hold_status().is_some_and(|status| status.as_str() == "ON");
        let mode = answer.object_lock_mode().map(|mode| mode.as_str().to_owned());
        let lock = match mode {
            _ if held => Some(VersionLock { mode: "legal hold".to_owned(), until: None }),
            Some(mode) => Some(VersionLock { mode, until }),
            None => None,
        };
        let (etag, kind) = (answer.e_tag().map(str::to_owned), answer.content_type().map(str::to_owned));
        let metadata = answer.metadata().cloned().unwrap_or_default();
        let broken = |_| Failure::ours(redrive_core::failure::FailureClass::Transient, "BodyBrokenOff");
        let bytes = answer.body.collect().await.map_err(broken)?.to_vec();
        Ok(Some(VersionContent { bytes, etag, kind, metadata, lock }))
    }

    /// Puts a new version over one, if that is still the current one. Returns the id of the new version; `None` if the object
    /// has changed meanwhile.
    pub(super) async fn replace(
        &self,
        version: &ObjectVersion,
        content: &VersionContent,
        bytes: Vec<u8>,
    ) -> Result<Option<String>, CommandFailure> {
        let mut metadata = content.metadata.clone();
        if let Some(stored) = version.stored {
            metadata.entry(FIRST_STORED.to_owned()).or_insert_with(|| stored.to_string());
        }
        let put = self.s3.put_object().bucket(&*self.bucket).key(&*version.key);
        let put = put.set_if_match(content.etag.clone()).set_content_type(content.kind.clone());
        match put.set_metadata(Some(metadata)).body(ByteStream::from(bytes)).send().await {
            Ok(answer) => Ok(Some(answer.version_id().unwrap_or(NO_VERSION).to_owned())),
            Err(error) if is_condition(&error) => Ok(None),
            Err(error) => Err(self.failed("write", &version.key, &failure_of_call(&error))),
        }
    }

    /// Deletes one version for good. A denial is a lock's only if a lock keeps the version now.
    pub(super) async fn delete(
        &self,
        version: &ObjectVersion,
        lock: Option<&VersionLock>,
        (now, bypass): (Timestamp, bool),
    ) -> Result<Deletion, CommandFailure> {
        let delete = self.s3.delete_object().bucket(&*self.bucket).key(&*version.key).version_id(&version.id);
        let delete = delete.set_bypass_governance_retention(bypass.then_some(true));
        let Err(error) = delete.send().await else { return Ok(Deletion::Deleted) };
        let failure = failure_of_call(&error);
        let says_lock = failure.message.as_ref().is_some_and(|said| said.contains("object lock"));
        match lock {
            Some(lock) if failure.is_denied() && lock.keeps(now, bypass) => {
                Ok(Deletion::Locked(lock.clone()))
            }
            None if failure.is_denied() && says_lock => {
                Ok(Deletion::Locked(VersionLock { mode: "Object Lock".to_owned(), until: None }))
            }
            _ => Err(self.failed("delete a version of", &version.key, &failure)),
        }
    }

    /// Returns the error of a call, in words.
    pub(super) fn failed(&self, what: &str, key: &str, failure: &Failure) -> CommandFailure {
        let said = failure.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
        let why = format!("cannot {what} s3://{}/{key}: {}{said}", self.bucket, failure.code);
        CommandFailure::of_call(why, failure.is_denied())
    }
}

impl VersionLock {
    /// Reports whether it keeps a version now.
    pub(super) fn keeps(&self, now: Timestamp, bypass: bool) -> bool {
        self.until.is_none_or(|until| until > now) && !(bypass && self.mode == "GOVERNANCE")
    }
}

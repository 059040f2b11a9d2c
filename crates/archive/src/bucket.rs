//! The calls to the bucket of an archive: one page of its keys, its folders, and one object.

use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use jiff::Timestamp;
use redrive_aws::clients::failure_of_call;
use redrive_core::failure::Failure;

use super::object::{ArchiveObject, FIRST_STORED, day_of, folder};

/// The place of an archive in S3, and the client that reaches it.
#[derive(Debug, Clone)]
pub(super) struct ArchiveBucket {
    s3: aws_sdk_s3::Client,
    name: Arc<str>,
    /// The archive's prefix: empty, or with a slash at its end.
    pub(super) prefix: String,
}

/// A stretch of a queue's keys: those behind `after` and before `before`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyStretch {
    /// The queue's folder.
    pub(super) folder: Arc<str>,
    /// Empty: from the beginning of the folder.
    pub(super) after: String,
    /// `None`: up to the end of the folder.
    pub(super) before: Option<String>,
}

/// An object whose body can be read.
#[derive(Debug)]
pub(super) struct OpenObject {
    pub(super) body: ByteStream,
    /// The time at which its first version was stored, if letters were erased in it since.
    pub(super) first_stored: Option<Timestamp>,
}

/// A page of a stretch.
pub(super) struct KeyPage {
    pub(super) objects: Vec<ArchiveObject>,
    /// The number of objects that do not belong to an archive.
    pub(super) strangers: u64,
    /// The key after which the next page begins. `None` at the end of the stretch.
    pub(super) last: Option<String>,
}

impl ArchiveBucket {
    /// Returns the place of an archive. The prefix may have slashes at its ends.
    pub(super) fn new(s3: aws_sdk_s3::Client, bucket: &str, prefix: &str) -> Self {
        Self { s3, name: bucket.into(), prefix: folder(prefix) }
    }

    /// Lists one page: a thousand keys at most.
    pub(super) async fn page(&self, stretch: &KeyStretch) -> Result<KeyPage, Failure> {
        let after = Some(stretch.after.clone()).filter(|after| !after.is_empty());
        let list = self.s3.list_objects_v2().bucket(&*self.name).prefix(&*stretch.folder);
        let answer = list.set_start_after(after).send().await.map_err(|error| failure_of_call(&error))?;
        let mut page =
            KeyPage { objects: Vec::with_capacity(answer.contents().len()), strangers: 0, last: None };
        for object in answer.contents() {
            let Some(key) = object.key() else { continue };
            if stretch.before.as_deref().is_some_and(|before| key >= before) {
                return Ok(KeyPage { last: None, ..page });
            }
            page.last = Some(key.to_owned());
            if key.strip_prefix(&self.prefix).and_then(day_of).is_none() {
                page.strangers += 1;
                continue;
            }
            let stored = object.last_modified().and_then(|at| at.to_millis().ok());
            let stored = stored.and_then(|millis| Timestamp::from_millisecond(millis).ok());
            let bytes = object.size().and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
            page.objects.push(ArchiveObject::new(key, bytes, stored));
        }
        page.last = page.last.filter(|_| answer.is_truncated() == Some(true));
        Ok(page)
    }

    /// Lists the folders whose keys begin with `beginning`, in order, with `most` requests at most. Returns
    /// them with the number of requests that are left.
    pub(super) async fn folders(
        &self,
        beginning: &str,
        after: Option<String>,
        most: u32,
    ) -> Result<(Vec<String>, u32), Failure> {
        let list = self.s3.list_objects_v2().bucket(&*self.name).prefix(beginning).delimiter("/");
        let mut pages = list.set_start_after(after).into_paginator().send();
        let (mut found, mut left) = (Vec::new(), most);
        while left > 0
            && let Some(page) = pages.next().await
        {
            let page = page.map_err(|error| failure_of_call(&error))?;
            let folders = page.common_prefixes().iter().filter_map(|prefix| prefix.prefix());
            found.extend(folders.map(str::to_owned));
            left -= 1;
        }
        Ok((found, left))
    }

    /// Requests an object.
    pub(super) async fn open(&self, key: &str) -> Result<OpenObject, Failure> {
        let answer = self.s3.get_object().bucket(&*self.name).key(key).send().await;
        let answer = answer.map_err(|error| failure_of_call(&error))?;
        let first_stored = answer.metadata().and_then(|metadata| metadata.get(FIRST_STORED));
        let first_stored = first_stored.and_then(|at| at.parse().ok());
        Ok(OpenObject { body: answer.body, first_stored })
    }
}

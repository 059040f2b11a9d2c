//! Lists the objects of an archive, page by page.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;

use super::object::{Object, day, day_of, folder, queue_folder};
use super::select::{Selection, Times};
use super::unread::{Unread, WhyUnread};
use crate::clients::failure_of_call;
use crate::failure::Failure;

/// The objects of an archive in the order of their keys: queue by queue, then by time. It holds one page of
/// them.
pub struct Listing {
    s3: aws_sdk_s3::Client,
    bucket: Arc<str>,
    /// The archive's prefix: empty, or with a slash at its end.
    prefix: String,
    times: Times,
    /// The first key to list. Empty: from the beginning.
    first: String,
    /// The key at which the listing ends. This key is left out.
    before: Option<String>,
    /// The folders of queues that are still to be listed. `None` until they are known.
    queues: Option<VecDeque<String>>,
    /// The folder that is being listed, and the beginning of its next page.
    current: Option<(String, Page)>,
    objects: VecDeque<Object>,
    strangers: u64,
}

#[derive(Debug, Clone)]
enum Page {
    First,
    After(String),
}

impl Listing {
    /// Lists every object in the queues and times of a selection, whatever its index says. The archive's
    /// prefix may have slashes at its ends.
    #[must_use]
    pub fn new(s3: aws_sdk_s3::Client, bucket: &str, prefix: &str, selection: &Selection) -> Self {
        let prefix = folder(prefix);
        let queues = selection.folders();
        let queues = queues.map(|names| names.into_iter().map(|name| queue_folder(&prefix, name)).collect());
        Self { times: selection.times(), queues, ..Self::of(s3, bucket, prefix) }
    }

    /// Lists the objects of one queue from the key `first` up to, but without, the key `before`, or to the
    /// end of the queue. The key `first` may be the queue's folder.
    #[must_use]
    pub fn between(
        s3: aws_sdk_s3::Client,
        bucket: &str,
        prefix: &str,
        first: &str,
        before: Option<&str>,
    ) -> Self {
        let prefix = folder(prefix);
        let name = first.strip_prefix(&*prefix).and_then(|rest| rest.strip_prefix("queue=")?.split_once('/'));
        let queue = name.map(|(name, _)| queue_folder(&prefix, name));
        Self {
            first: first.to_owned(),
            before: before.map(str::to_owned),
            queues: Some(queue.into_iter().collect()),
            ..Self::of(s3, bucket, prefix)
        }
    }

    fn of(s3: aws_sdk_s3::Client, bucket: &str, prefix: String) -> Self {
        Self {
            s3,
            bucket: bucket.into(),
            prefix,
            times: Times::default(),
            first: String::new(),
            before: None,
            queues: None,
            current: None,
            objects: VecDeque::new(),
            strangers: 0,
        }
    }

    /// Returns the number of objects found so far under the prefix that do not belong to an archive.
    #[must_use]
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Returns the next object, or a prefix that could not be listed; the rest of that prefix is then
    /// skipped. Returns `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Object, Unread>> {
        loop {
            if let Some(object) = self.objects.pop_front() {
                return Some(Ok(object));
            }
            if let Some((queue, page)) = self.current.take() {
                if let Err(unread) = self.list(queue, page).await {
                    return Some(Err(unread));
                }
                continue;
            }
            if self.queues.is_none()
                && let Err(unread) = self.list_queues().await
            {
                return Some(Err(unread));
            }
            let queue = self.queues.as_mut().and_then(VecDeque::pop_front)?;
            self.current = Some((queue, Page::First));
        }
    }

    /// Lists one page of a queue's keys.
    async fn list(&mut self, queue: String, page: Page) -> Result<(), Unread> {
        let mut call = self.s3.list_objects_v2().bucket(&*self.bucket).prefix(&queue);
        call = match page {
            Page::After(token) => call.continuation_token(token),
            Page::First => call.set_start_after(self.start(&queue)),
        };
        let answer = call.send().await.map_err(|error| unlisted(&queue, failure_of_call(&error)))?;
        let (_, last) = self.times.days();
        for object in answer.contents() {
            let Some(key) = object.key() else { continue };
            if key < &*self.first {
                continue;
            }
            if self.before.as_deref().is_some_and(|before| key >= before) {
                return Ok(());
            }
            let Some(day) = key.strip_prefix(&self.prefix).and_then(day_of) else {
                self.strangers += 1;
                continue;
            };
            if last.is_some_and(|last| day > last) {
                return Ok(());
            }
            let stored = object.last_modified().and_then(|at| {
                at.to_millis().ok().and_then(|millis| Timestamp::from_millisecond(millis).ok())
            });
            if self.times.may_hold(stored) {
                let bytes = object.size().and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
                self.objects.push_back(Object::new(key, bytes, stored));
            }
        }
        let next = answer.next_continuation_token().filter(|_| answer.is_truncated() == Some(true));
        self.current = next.map(|token| (queue, Page::After(token.to_owned())));
        Ok(())
    }

    /// Returns the key after which a queue's listing begins. S3 lists keys in order, so it skips everything
    /// before this key at once.
    fn start(&self, queue: &str) -> Option<String> {
        let mut first = self.first.clone();
        // S3 leaves out the key itself. No key of an archive lies between this one and the first key.
        if let Some(last) = first.pop() {
            if last.is_ascii_graphic() && last > '!' {
                first.push(char::from(last as u8 - 1));
                first.push('~');
            }
            return Some(first);
        }
        self.times.days().0.map(|day| format!("{queue}date={day}"))
    }

    async fn list_queues(&mut self) -> Result<(), Unread> {
        // From here on the queues count as known, even if listing fails: the listing is then at its end.
        let queues = self.queues.insert(VecDeque::new());
        queues.extend(queue_folders(&self.s3, &self.bucket, &self.prefix).await?);
        Ok(())
    }
}

/// Lists the folders of the days on which letters of a selection may have been archived, queue by queue and
/// in the order of time. The archive's prefix may have slashes at its ends.
///
/// # Errors
///
/// [`Unread`] if a prefix could not be listed.
pub async fn days(
    s3: &aws_sdk_s3::Client,
    bucket: &str,
    prefix: &str,
    selection: &Selection,
) -> Result<Vec<String>, Unread> {
    let prefix = folder(prefix);
    let queues = match selection.folders() {
        Some(names) => names.into_iter().map(|name| queue_folder(&prefix, name)).collect(),
        None => queue_folders(s3, bucket, &prefix).await?,
    };
    let (first, last) = selection.times().days();
    let mut days = Vec::new();
    for queue in queues {
        let after = first.map(|day| format!("{queue}date={day}"));
        days.extend(folders(s3, bucket, &queue, after).await?.into_iter().filter(|folder| {
            let date =
                folder.strip_prefix(&*queue).and_then(|rest| rest.strip_prefix("date=")?.strip_suffix('/'));
            date.and_then(day).is_some_and(|date| last.is_none_or(|last| date <= last))
        }));
    }
    Ok(days)
}

async fn queue_folders(s3: &aws_sdk_s3::Client, bucket: &str, prefix: &str) -> Result<Vec<String>, Unread> {
    folders(s3, bucket, &format!("{prefix}queue="), None).await
}

/// Lists the folders whose keys begin with `beginning`, in order.
async fn folders(
    s3: &aws_sdk_s3::Client,
    bucket: &str,
    beginning: &str,
    after: Option<String>,
) -> Result<Vec<String>, Unread> {
    let call = s3.list_objects_v2().bucket(bucket).prefix(beginning).delimiter("/").set_start_after(after);
    let (mut pages, mut found) = (call.into_paginator().send(), Vec::new());
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| unlisted(beginning, failure_of_call(&error)))?;
        found.extend(page.common_prefixes().iter().filter_map(|prefix| prefix.prefix()).map(str::to_owned));
    }
    Ok(found)
}

fn unlisted(prefix: &str, failure: Failure) -> Unread {
    Unread { key: prefix.into(), line: None, why: WhyUnread::Call(failure) }
}

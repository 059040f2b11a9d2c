//! Lists an archive's objects over a time range, many parts of it at once, from the newest to the oldest.
//!
//! S3 lists keys forward, a thousand a page, one page after the other. That would take too long for a large
//! archive. But the keys hold the time: the first page shows how many keys there are in a stretch of time.
//! From that the sweep expects a number of pages for the rest, divides the rest into as many parts, and lists
//! these at once. Each key belongs to exactly one part.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sns_redrive::archive::Object;
use sns_redrive::clients::failure_of_call;
use sns_redrive::failure::Failure;

use crate::account::Place;

/// The most pages at once. The answer for a page takes some hundred kilobytes.
const AT_ONCE: usize = 24;

/// The most parts that the rest of a part is divided into.
const MOST_PARTS: u64 = 128;

/// A listing of an archive over a time range.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    pub(crate) s3: &'a aws_sdk_s3::Client,
    pub(crate) archive: &'a Place,
    /// The name of the only queue to list, if there is one.
    pub(crate) queue: Option<&'a str>,
    /// The start of the time range, and its end, which is excluded.
    pub(crate) range: (Timestamp, Timestamp),
    /// The most pages to ask for.
    pub(crate) pages: u32,
}

/// How a listing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    /// It listed every object.
    Whole,
    /// It stopped because it needed more pages than allowed.
    Cut,
}

/// A stretch of a queue's keys: those behind `after` and before `before`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    folder: Arc<str>,
    after: String,
    before: String,
    from: Timestamp,
    to: Timestamp,
}

/// The heap hands out the newest part first.
impl Ord for Part {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.to, &self.after).cmp(&(other.to, &other.after))
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A page of a part, and the rest of the part.
struct Page {
    objects: Vec<Object>,
    rest: Option<Part>,
}

impl Sweep<'_> {
    /// Hands out every object of the time range, in no particular order.
    pub(crate) async fn run(self, mut each: impl FnMut(Object)) -> Result<Swept, Failure> {
        let (parts, mut left) = self.parts().await?;
        let is_cut = left == 0;
        let mut parts: BinaryHeap<Part> = parts.into();
        let mut pages = FuturesUnordered::new();
        loop {
            // The newest parts go first: if the pages run out, only the oldest letters are missing.
            while left > 0
                && pages.len() < AT_ONCE
                && let Some(part) = parts.pop()
            {
                left -= 1;
                pages.push(self.page(part));
            }
            let Some(page) = pages.next().await else { break };
            let Page { objects, rest } = page?;
            let last = objects.last().map(Object::time);
            objects.into_iter().filter(|object| self.is_in_range(object)).for_each(&mut each);
            parts.extend(rest.map(|rest| rest.divided(last)).unwrap_or_default());
        }
        Ok(if parts.is_empty() && !is_cut { Swept::Whole } else { Swept::Cut })
    }

    /// Returns the time range for each queue, and how many pages are left.
    async fn parts(&self) -> Result<(Vec<Part>, u32), Failure> {
        let root = root(self.archive);
        let (folders, left) = match self.queue {
            Some(queue) => (vec![format!("{root}{queue}/")], self.pages),
            None => self.folders(&root).await?,
        };
        let (from, to) = self.range;
        let part = |folder: String| {
            let (after, before) = (key_at(&folder, from), key_at(&folder, to));
            Part { folder: folder.into(), after, before, from, to }
        };
        Ok((folders.into_iter().map(part).collect(), left))
    }

    /// Returns the folders of the queues, and how many pages are left. The first page of folders does not
    /// count.
    async fn folders(&self, root: &str) -> Result<(Vec<String>, u32), Failure> {
        let list = self.s3.list_objects_v2().bucket(&self.archive.bucket).prefix(root).delimiter("/");
        let (mut pages, mut left) = (list.into_paginator().send(), self.pages + 1);
        let mut folders = Vec::new();
        while left > 0
            && let Some(page) = pages.next().await
        {
            let page = page.map_err(|error| failure_of_call(&error))?;
            folders.extend(page.common_prefixes().iter().filter_map(|it| it.prefix().map(str::to_owned)));
            left -= 1;
        }
        Ok((folders, left))
    }

    fn is_in_range(&self, object: &Object) -> bool {
        let (from, to) = self.range;
        // An object that was put there by hand has no time in its key. It counts for its whole day.
        object.index.is_none() || (from..to).contains(&object.time())
    }

    async fn page(&self, part: Part) -> Result<Page, Failure> {
        let list = self.s3.list_objects_v2().bucket(&self.archive.bucket).prefix(&*part.folder);
        let answer = list.start_after(&part.after).send().await.map_err(|error| failure_of_call(&error))?;
        let mut objects = Vec::with_capacity(answer.contents().len());
        let mut last = None;
        for object in answer.contents() {
            let Some(key) = object.key() else { continue };
            if key >= &*part.before {
                return Ok(Page { objects, rest: None });
            }
            last = Some(key);
            if is_archived(&part.folder, key) {
                let bytes = object.size().and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
                objects.push(Object::new(key, bytes, None));
            }
        }
        let last = last.filter(|_| answer.is_truncated() == Some(true));
        let rest = last.map(|last| Part { after: last.to_owned(), ..part });
        Ok(Page { objects, rest })
    }
}

impl Part {
    /// Divides the rest of a part, behind a page that ended at `last`, into as many parts as pages are
    /// expected.
    fn divided(self, last: Option<Timestamp>) -> Vec<Self> {
        let Some(last) = last.filter(|last| *last > self.from && *last < self.to) else { return vec![self] };
        let milliseconds = |from: Timestamp, to: Timestamp| {
            u64::try_from(to.duration_since(from).as_millis()).unwrap_or_default()
        };
        let (covered, rest) = (milliseconds(self.from, last), milliseconds(last, self.to));
        let pages = rest / covered.max(1);
        // A quarter more: letters come unevenly, so many parts would need a second page.
        let parts = (pages + pages / 4 + 1).min(MOST_PARTS);
        let border = |number: u64| {
            let after = SignedDuration::from_millis(i64::try_from(rest / parts * number).unwrap_or(i64::MAX));
            last.saturating_add(after).unwrap_or(self.to)
        };
        let part = |number: u64| {
            let (first, end) = (number == 0, number + 1 == parts);
            let from = border(number);
            let to = if end { self.to } else { border(number + 1) };
            // The page may end at a key that was put there by hand. Such a key sorts behind all keys of its
            // day that begin with a time, which the page has listed. So the next part must begin behind it.
            let begin = || key_at(&self.folder, from).max(self.after.clone());
            let after = if first { self.after.clone() } else { begin() };
            let before = if end { self.before.clone() } else { key_at(&self.folder, to) };
            Self { folder: Arc::clone(&self.folder), after, before, from, to }
        };
        (0..parts).map(part).filter(|part| part.after < part.before).collect()
    }
}

/// Returns the prefix of all queues' folders.
fn root(archive: &Place) -> String {
    let prefix = archive.prefix.trim_matches('/');
    if prefix.is_empty() { "queue=".to_owned() } else { format!("{prefix}/queue=") }
}

/// Returns a lower bound for the keys of objects from this time on.
fn key_at(folder: &str, at: Timestamp) -> String {
    let utc = at.to_zoned(TimeZone::UTC);
    format!("{folder}date={}/{}", utc.strftime("%Y-%m-%d"), utc.strftime("%Y%m%dT%H%M%S%.3f"))
}

/// Reports whether a key in a queue's folder is one of an archive object.
fn is_archived(folder: &str, key: &str) -> bool {
    let name = key.strip_prefix(folder).and_then(|rest| rest.strip_prefix("date=")?.split_once('/'));
    name.is_some_and(|(day, name)| {
        day.len() == 10 && name.strip_suffix(".jsonl").is_some_and(|it| !it.contains('/'))
    })
}

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
use jiff::{SignedDuration, Timestamp};
use redrive_core::failure::Failure;

use super::bucket::{ArchiveBucket, KeyPage, KeyStretch};
use super::object::{ArchiveObject, key_at, queue_folder, queues_folder};

/// The most pages at once. The answer for a page takes some hundred kilobytes.
const CONCURRENT_PAGES: usize = 24;

/// The most parts that the rest of a part is divided into.
const MOST_PARTS: u64 = 128;

/// A listing of an archive over a time range.
#[derive(Debug)]
pub struct ArchiveSweep {
    bucket: ArchiveBucket,
    /// The start of the time range, and its end, which is excluded.
    range: (Timestamp, Timestamp),
    /// The most pages to ask for.
    pages: u32,
}

/// How a listing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepEnd {
    /// It listed every object.
    Whole,
    /// It stopped because it needed more pages than allowed.
    Cut,
}

/// A stretch of a queue's keys over a time range.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SweepPart {
    keys: KeyStretch,
    from: Timestamp,
    to: Timestamp,
}

/// The heap hands out the newest part first.
impl Ord for SweepPart {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.to, &self.keys.after).cmp(&(other.to, &other.keys.after))
    }
}

impl PartialOrd for SweepPart {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ArchiveSweep {
    /// Prepares a listing of a time range with this many pages at most. The range excludes its end.
    #[must_use]
    pub fn new(
        s3: aws_sdk_s3::Client,
        bucket: &str,
        prefix: &str,
        range: (Timestamp, Timestamp),
        pages: u32,
    ) -> Self {
        Self { bucket: ArchiveBucket::new(s3, bucket, prefix), range, pages }
    }

    /// Hands out every object of the time range, in one queue or in all of them, in no particular order.
    ///
    /// # Errors
    ///
    /// A call failed.
    pub async fn run(
        self,
        queue: Option<&str>,
        mut each: impl FnMut(ArchiveObject),
    ) -> Result<SweepEnd, Failure> {
        let (parts, mut left) = self.parts(queue).await?;
        let is_cut = left == 0;
        let mut parts: BinaryHeap<SweepPart> = parts.into();
        let (bucket, mut pages) = (&self.bucket, FuturesUnordered::new());
        loop {
            // The newest parts go first: if the pages run out, only the oldest letters are missing.
            while left > 0
                && pages.len() < CONCURRENT_PAGES
                && let Some(part) = parts.pop()
            {
                left -= 1;
                pages.push(async move { bucket.page(&part.keys).await.map(|page| (page, part)) });
            }
            let Some(listed) = pages.next().await else { break };
            let (KeyPage { objects, last, .. }, part) = listed?;
            let reached = objects.last().map(ArchiveObject::time);
            objects.into_iter().filter(|object| self.is_in_range(object)).for_each(&mut each);
            parts.extend(last.map(|last| part.behind(last).divided(reached)).unwrap_or_default());
        }
        Ok(if parts.is_empty() && !is_cut { SweepEnd::Whole } else { SweepEnd::Cut })
    }

    /// Returns the time range for each queue, and how many pages are left. The first page of folders does not
    /// count.
    async fn parts(&self, queue: Option<&str>) -> Result<(Vec<SweepPart>, u32), Failure> {
        let prefix = &self.bucket.prefix;
        let (folders, left) = match queue {
            Some(queue) => (vec![queue_folder(prefix, queue)], self.pages),
            None => self.bucket.folders(&queues_folder(prefix), None, self.pages + 1).await?,
        };
        let (from, to) = self.range;
        let part = |folder: String| {
            let (after, before) = (key_at(&folder, from), Some(key_at(&folder, to)));
            SweepPart { keys: KeyStretch { folder: folder.into(), after, before }, from, to }
        };
        Ok((folders.into_iter().map(part).collect(), left))
    }

    fn is_in_range(&self, object: &ArchiveObject) -> bool {
        let (from, to) = self.range;
        // An object that was put there by hand has no time in its key. It counts for its whole day.
        object.index.is_none() || (from..to).contains(&object.time())
    }
}

impl SweepPart {
    fn behind(self, last: String) -> Self {
        Self { keys: KeyStretch { after: last, ..self.keys }, ..self }
    }

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
        let KeyStretch { folder, after, before } = &self.keys;
        let part = |number: u64| {
            let (first, end) = (number == 0, number + 1 == parts);
            let from = border(number);
            let to = if end { self.to } else { border(number + 1) };
            // The page may end at a key that was put there by hand. Such a key sorts behind all keys of its
            // day that begin with a time, which the page has listed. So the next part must begin behind it.
            let begin = || key_at(folder, from).max(after.clone());
            let after = if first { after.clone() } else { begin() };
            let before = if end { before.clone() } else { Some(key_at(folder, to)) };
            Self { keys: KeyStretch { folder: Arc::clone(folder), after, before }, from, to }
        };
        let is_some = |part: &Self| part.keys.before.as_ref().is_none_or(|before| part.keys.after < *before);
        (0..parts).map(part).filter(is_some).collect()
    }
}

//! Walks an archive in S3: every letter of a [`Selection`], in a fixed order, one at a time.
//!
//! The order is that of the keys, then that of the lines: by queue, then by the time of the invocation that
//! archived. Memory stays bounded: one page of keys, a few answers of S3 under way, and one line. Something
//! that cannot be read is reported in its place, and the walk continues behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use redrive_core::failure::{Failure, FailureClass};

use super::bucket::{ArchiveBucket, OpenObject};
use super::erased::ErasedRecord;
use super::lines::LineSplitter;
use super::listing::ArchiveListing;
use super::object::ArchiveObject;
use super::read::BadRecord;
use super::record::ArchiveRecord;
use super::select::{SelectedCount, Selection};
use super::unread::{UnreadItem, WhyUnread};

/// The number of objects requested at the same time. Most hold only a few letters, so the call takes most of
/// the time.
const CONCURRENT_OBJECTS: usize = 32;

/// The greatest size of these objects together, in bytes. A larger object is read alone.
const MAX_CONCURRENT_BYTES: u64 = 16 * 1024 * 1024;

/// The number of times that an object is requested if its body breaks off.
const TRIES: u32 = 3;

/// A result of a walk.
#[derive(Debug)]
pub enum WalkItem {
    /// A letter of the selection.
    Letter(Box<LocatedRecord>),
    /// A letter of the selection that was erased.
    Erased(Box<LocatedErasure>),
    /// Something that could not be read. It may have held letters of the selection.
    Unread(UnreadItem),
}

/// An archived letter and its place in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedRecord {
    /// The object's key.
    pub key: Arc<str>,
    /// The line in the object, from 1.
    pub line: u64,
    /// The record.
    pub record: ArchiveRecord,
}

/// An erased letter and its place in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedErasure {
    /// The object's key.
    pub key: Arc<str>,
    /// The line in the object, from 1.
    pub line: u64,
    /// The line's content.
    pub record: ErasedRecord,
}

/// The counts of a walk so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalkCounts {
    /// The number of records that were read, including those outside the selection.
    pub records: u64,
    /// The number of objects under the prefix that do not belong to an archive.
    pub strangers: u64,
}

/// A walk through an archive.
pub struct ArchiveWalk<'s> {
    bucket: ArchiveBucket,
    selection: &'s Selection,
    source: WalkSource,
    /// The object that waits for room among those being opened.
    waiting: Option<ArchiveObject>,
    opening: FuturesOrdered<BoxFuture<'static, (ArchiveObject, OpenResult)>>,
    /// The size of the objects in `opening`, in bytes.
    opening_bytes: u64,
    reading: Option<ObjectReader>,
    tally: WalkCounts,
}

type OpenResult = Result<OpenObject, Failure>;

/// An object whose lines are being read.
struct ObjectReader {
    key: Arc<str>,
    body: ByteStream,
    lines: LineSplitter,
    /// The number of the last line that was read.
    line: u64,
    /// The number of lines to skip, because they were returned before the body broke off.
    skip: u64,
    tries: u32,
}

/// The source of a walk's objects.
enum WalkSource {
    Listing(Box<ArchiveListing>),
    Objects(VecDeque<ArchiveObject>),
}

impl<'s> ArchiveWalk<'s> {
    /// Starts a walk through the archive under a prefix, which may have slashes at its ends.
    #[must_use]
    pub fn new(s3: aws_sdk_s3::Client, bucket: &str, prefix: &str, selection: &'s Selection) -> Self {
        let listing = ArchiveListing::new(s3.clone(), bucket, prefix, selection);
        Self::of(ArchiveBucket::new(s3, bucket, prefix), WalkSource::Listing(Box::new(listing)), selection)
    }

    /// Starts a walk through these objects, in their order.
    #[must_use]
    pub fn over(
        s3: aws_sdk_s3::Client,
        bucket: &str,
        objects: Vec<ArchiveObject>,
        selection: &'s Selection,
    ) -> Self {
        Self::of(ArchiveBucket::new(s3, bucket, ""), WalkSource::Objects(objects.into()), selection)
    }

    fn of(bucket: ArchiveBucket, source: WalkSource, selection: &'s Selection) -> Self {
        Self {
            bucket,
            selection,
            source,
            waiting: None,
            opening: FuturesOrdered::new(),
            opening_bytes: 0,
            reading: None,
            tally: WalkCounts::default(),
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn tally(&self) -> WalkCounts {
        let strangers = match &self.source {
            WalkSource::Listing(listing) => listing.strangers(),
            WalkSource::Objects(_) => 0,
        };
        WalkCounts { strangers, ..self.tally }
    }

    /// Returns the next letter of the selection, or something that could not be read. Returns `None` at the
    /// end.
    pub async fn next(&mut self) -> Option<WalkItem> {
        loop {
            if let Some(found) = self.next_of_object().await {
                return Some(found);
            }
            if let Err(unread) = self.open_ahead().await {
                return Some(WalkItem::Unread(unread));
            }
            let (object, opened) = self.opening.next().await?;
            self.opening_bytes -= object.bytes;
            let key = object.key;
            let times = self.selection.times();
            let why = match opened {
                // A new version, in which letters were erased, is as old as the first one.
                Ok(opened)
                    if times.is_late(object.stored)
                        && (opened.first_stored.is_none() || times.is_late(opened.first_stored)) =>
                {
                    WhyUnread::Late
                }
                Ok(opened) => {
                    self.reading = Some(ObjectReader::new(key, opened.body));
                    continue;
                }
                Err(failure) => WhyUnread::Call(failure),
            };
            return Some(WalkItem::Unread(UnreadItem { key, line: None, why }));
        }
    }

    /// Returns the next result of the object that is being read, or `None` if it is at its end or there is no
    /// such object.
    async fn next_of_object(&mut self) -> Option<WalkItem> {
        loop {
            let reading = self.reading.as_mut()?;
            let line = match reading.next_line(&self.bucket).await {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.reading = None;
                    return None;
                }
                Err(failure) => {
                    let key = Arc::clone(&reading.key);
                    self.reading = None;
                    return Some(WalkItem::Unread(UnreadItem {
                        key,
                        line: None,
                        why: WhyUnread::Call(failure),
                    }));
                }
            };
            if line.as_ref().is_ok_and(|line| line.trim().is_empty()) {
                continue;
            }
            self.tally.records += 1;
            let (key, line_number) = (Arc::clone(&reading.key), reading.line);
            match judge(self.selection, line) {
                Ok(None) => {}
                Ok(Some(record)) => {
                    return Some(WalkItem::Letter(Box::new(LocatedRecord {
                        key,
                        line: line_number,
                        record,
                    })));
                }
                Err(BadRecord::Erased(record)) => {
                    if self.selection.takes_erased(&record) {
                        let line = line_number;
                        let erased = LocatedErasure { key, line, record: *record };
                        return Some(WalkItem::Erased(Box::new(erased)));
                    }
                }
                Err(why) => {
                    let why = WhyUnread::Line(why);
                    return Some(WalkItem::Unread(UnreadItem { key, line: Some(line_number), why }));
                }
            }
        }
    }

    /// Requests the next objects, as many as there is room for.
    async fn open_ahead(&mut self) -> Result<(), UnreadItem> {
        while self.opening.len() < CONCURRENT_OBJECTS {
            let object = match self.waiting.take() {
                Some(object) => object,
                None => match self.next_object().await? {
                    Some(object) => object,
                    None => break,
                },
            };
            if !self.opening.is_empty()
                && self.opening_bytes.saturating_add(object.bytes) > MAX_CONCURRENT_BYTES
            {
                self.waiting = Some(object);
                break;
            }
            self.opening_bytes += object.bytes;
            let bucket = self.bucket.clone();
            self.opening.push_back(Box::pin(async move {
                let opened = bucket.open(&object.key).await;
                (object, opened)
            }));
        }
        Ok(())
    }

    /// Returns the next object that may hold letters of the selection.
    async fn next_object(&mut self) -> Result<Option<ArchiveObject>, UnreadItem> {
        loop {
            let object = match &mut self.source {
                WalkSource::Listing(listing) => listing.next().await.transpose()?,
                WalkSource::Objects(objects) => objects.pop_front(),
            };
            match object {
                Some(object) if self.selection.holds(&object) == SelectedCount::None => {}
                object => return Ok(object),
            }
        }
    }
}

/// Returns the record of a line if it belongs to the selection.
fn judge(selection: &Selection, line: Result<String, BadRecord>) -> Result<Option<ArchiveRecord>, BadRecord> {
    let record = ArchiveRecord::from_line(&line?)?;
    Ok(selection.takes(&record)?.then_some(record))
}

impl ObjectReader {
    fn new(key: Arc<str>, body: ByteStream) -> Self {
        Self { key, body, lines: LineSplitter::default(), line: 0, skip: 0, tries: 1 }
    }

    /// Returns the next line, or `None` at the end. If the body breaks off, the object is requested again and
    /// reading continues after the last complete line.
    async fn next_line(
        &mut self,
        bucket: &ArchiveBucket,
    ) -> Result<Option<Result<String, BadRecord>>, Failure> {
        loop {
            if let Some(line) = self.lines.next() {
                self.line += 1;
                if self.line > self.skip {
                    return Ok(Some(line));
                }
                continue;
            }
            match self.body.next().await {
                Some(Ok(piece)) => self.lines.feed(piece),
                Some(Err(_)) if self.tries < TRIES => {
                    let opened = bucket.open(&self.key).await;
                    let skip = self.line.max(self.skip);
                    let tries = self.tries + 1;
                    *self = Self { skip, tries, ..Self::new(Arc::clone(&self.key), opened?.body) };
                }
                Some(Err(_)) => return Err(Failure::ours(FailureClass::Transient, "BodyBrokenOff")),
                None => {
                    // Only complete lines are skipped, and this one is not.
                    let rest = self.lines.rest();
                    self.line += u64::from(rest.is_some());
                    return Ok(rest);
                }
            }
        }
    }
}

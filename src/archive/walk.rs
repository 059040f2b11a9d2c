//! Walks an archive in S3: every letter of a [`Selection`], in a fixed order, one at a time.
//!
//! The order is that of the keys, then that of the lines: by queue, then by the time of the invocation
//! that archived. Memory stays bounded: a page of keys, a few answers of S3 under way, and one line. What
//! cannot be read is handed out in its place, and the walk goes on behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use jiff::Timestamp;
use jiff::civil::Date;

use super::lines::Lines;
use super::read::BadRecord;
use super::record::Record;
use super::select::{Selection, Undecided, day_of};
use crate::clients::failure_of_call;
use crate::failure::{Failure, FailureClass};

/// Objects that are asked for at once. Most hold a few letters, so their time is the call's own.
const AHEAD: usize = 8;

/// How often an object is asked for whose body breaks off.
const TRIES: u32 = 3;

/// What a walk comes upon.
#[derive(Debug)]
pub enum Found {
    /// A letter of the selection.
    Letter(Box<Archived>),
    /// Something that could not be read; it may have held letters of the selection.
    Unread(Unread),
}

/// An archived letter and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// The object's key.
    pub key: Arc<str>,
    /// The line in it, from 1.
    pub line: u64,
    /// The record.
    pub record: Record,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The object's key, or the prefix that could not be listed.
    pub key: Arc<str>,
    /// The line in it, from 1; none where the object could not be read, or not to its end.
    pub line: Option<u64>,
    /// Why.
    pub why: WhyUnread,
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyUnread {
    /// S3 does not list or show it.
    Call(Failure),
    /// The line is no record that can be used, or cannot be matched.
    Line(Undecided),
}

/// What a walk has come upon so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Objects that were opened.
    pub objects: u64,
    /// Records that were read, those outside of the selection too.
    pub records: u64,
    /// Objects under the prefix that are none of an archive.
    pub strangers: u64,
}

/// A walk through an archive.
pub struct Walk<'s> {
    bucket: Bucket,
    selection: &'s Selection,
    listing: Listing,
    opening: FuturesOrdered<BoxFuture<'static, (Arc<str>, Opened)>>,
    reading: Option<Reading>,
    tally: Tally,
}

type Opened = Result<ByteStream, Failure>;

#[derive(Debug, Clone)]
struct Bucket {
    s3: aws_sdk_s3::Client,
    name: Arc<str>,
}

/// An object whose lines are being read.
struct Reading {
    key: Arc<str>,
    body: ByteStream,
    lines: Lines,
    /// The number of the last line that was read.
    line: u64,
    /// Lines that were handed out already, of an object that is read once more.
    skip: u64,
    tries: u32,
}

/// The keys of an archive, page by page.
struct Listing {
    /// With a slash at its end, or empty.
    prefix: String,
    days: (Option<Date>, Option<Date>),
    /// Prefixes of queues that are still to be listed; `None` before they are known.
    queues: Option<VecDeque<String>>,
    /// The queue's prefix that is being listed, and where its next page begins.
    current: Option<(String, Page)>,
    keys: VecDeque<Arc<str>>,
}

#[derive(Debug, Clone)]
enum Page {
    First,
    After(String),
}

impl<'s> Walk<'s> {
    /// A walk through the archive under a prefix, which may have slashes at its ends.
    #[must_use]
    pub fn new(s3: aws_sdk_s3::Client, bucket: &str, prefix: &str, selection: &'s Selection) -> Self {
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let queues = selection.queue_name().map(|name| [format!("{prefix}queue={name}/")].into());
        Self {
            bucket: Bucket { s3, name: bucket.into() },
            selection,
            listing: Listing { prefix, days: selection.days(), queues, current: None, keys: VecDeque::new() },
            opening: FuturesOrdered::new(),
            reading: None,
            tally: Tally::default(),
        }
    }

    /// What was come upon so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The next letter of the selection, or what could not be read; `None` at the end.
    pub async fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(found) = self.next_of_object().await {
                return Some(found);
            }
            while self.opening.len() < AHEAD {
                match self.next_key().await {
                    Ok(Some(key)) => self.opening.push_back(Box::pin(self.bucket.clone().open(key))),
                    Ok(None) => break,
                    Err(unread) => return Some(Found::Unread(unread)),
                }
            }
            match self.opening.next().await? {
                (key, Ok(body)) => {
                    self.tally.objects += 1;
                    self.reading = Some(Reading::new(key, body));
                }
                (key, Err(failure)) => {
                    return Some(Found::Unread(Unread { key, line: None, why: WhyUnread::Call(failure) }));
                }
            }
        }
    }

    /// What comes next in the object that is being read; `None` at its end, or where there is none.
    async fn next_of_object(&mut self) -> Option<Found> {
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
                    return Some(Found::Unread(Unread { key, line: None, why: WhyUnread::Call(failure) }));
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
                    return Some(Found::Letter(Box::new(Archived { key, line: line_number, record })));
                }
                Err(why) => {
                    let why = WhyUnread::Line(why);
                    return Some(Found::Unread(Unread { key, line: Some(line_number), why }));
                }
            }
        }
    }

    /// The next key that may hold letters of the selection.
    async fn next_key(&mut self) -> Result<Option<Arc<str>>, Unread> {
        loop {
            if let Some(key) = self.listing.keys.pop_front() {
                return Ok(Some(key));
            }
            if let Some((queue, page)) = self.listing.current.take() {
                self.list(queue, page).await?;
                continue;
            }
            if self.listing.queues.is_none() {
                self.list_queues().await?;
            }
            match self.listing.queues.as_mut().and_then(VecDeque::pop_front) {
                Some(queue) => self.listing.current = Some((queue, Page::First)),
                None => return Ok(None),
            }
        }
    }

    /// Lists a page of a queue's keys. If that fails, the rest of this queue is given up.
    async fn list(&mut self, queue: String, page: Page) -> Result<(), Unread> {
        let mut call = self.bucket.s3.list_objects_v2().bucket(&*self.bucket.name).prefix(&queue);
        call = match (&page, self.listing.days.0) {
            (Page::After(token), _) => call.continuation_token(token),
            // Keys are listed in their order, so earlier days are passed over at once.
            (Page::First, Some(first)) => call.start_after(format!("{queue}date={first}")),
            (Page::First, None) => call,
        };
        let answer = call.send().await.map_err(|error| unlisted(&queue, failure_of_call(&error)))?;
        for object in answer.contents() {
            let Some(key) = object.key() else { continue };
            let Some(day) = key.strip_prefix(&self.listing.prefix).and_then(day_of) else {
                self.tally.strangers += 1;
                continue;
            };
            if self.listing.days.1.is_some_and(|last| day > last) {
                return Ok(());
            }
            let stored = object.last_modified().and_then(|at| {
                at.to_millis().ok().and_then(|millis| Timestamp::from_millisecond(millis).ok())
            });
            if self.selection.stored_in_time(stored) {
                self.listing.keys.push_back(key.into());
            }
        }
        let next = answer.next_continuation_token().filter(|_| answer.is_truncated() == Some(true));
        self.listing.current = next.map(|token| (queue, Page::After(token.to_owned())));
        Ok(())
    }

    async fn list_queues(&mut self) -> Result<(), Unread> {
        // Known from here on, also if listing fails: the walk then is at its end.
        let queues = self.listing.queues.insert(VecDeque::new());
        let all = format!("{}queue=", self.listing.prefix);
        let call = self.bucket.s3.list_objects_v2().bucket(&*self.bucket.name).prefix(&all).delimiter("/");
        let mut pages = call.into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| unlisted(&all, failure_of_call(&error)))?;
            let prefixes = page.common_prefixes().iter().filter_map(|prefix| prefix.prefix());
            queues.extend(prefixes.map(str::to_owned));
        }
        Ok(())
    }
}

fn unlisted(prefix: &str, failure: Failure) -> Unread {
    Unread { key: prefix.into(), line: None, why: WhyUnread::Call(failure) }
}

/// The record of a line, where it belongs to the selection.
fn judge(selection: &Selection, line: Result<String, BadRecord>) -> Result<Option<Record>, Undecided> {
    let record = Record::from_line(&line?)?;
    Ok(selection.takes(&record)?.then_some(record))
}

impl Bucket {
    async fn open(self, key: Arc<str>) -> (Arc<str>, Opened) {
        let answer = self.s3.get_object().bucket(&*self.name).key(&*key).send().await;
        (key, answer.map(|answer| answer.body).map_err(|error| failure_of_call(&error)))
    }
}

impl Reading {
    fn new(key: Arc<str>, body: ByteStream) -> Self {
        Self { key, body, lines: Lines::default(), line: 0, skip: 0, tries: 1 }
    }

    /// The next line; `None` at the end. A body that breaks off is asked for again, and goes on where it
    /// broke off.
    async fn next_line(&mut self, bucket: &Bucket) -> Result<Option<Result<String, BadRecord>>, Failure> {
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
                    let (_, opened) = bucket.clone().open(Arc::clone(&self.key)).await;
                    let skip = self.line.max(self.skip);
                    let tries = self.tries + 1;
                    *self = Self { skip, tries, ..Self::new(Arc::clone(&self.key), opened?) };
                }
                Some(Err(_)) => return Err(Failure::ours(FailureClass::Transient, "BodyBrokenOff")),
                None => {
                    let rest = self.lines.rest();
                    if rest.is_some() {
                        self.line += 1;
                    }
                    return Ok(rest.filter(|_| self.line > self.skip));
                }
            }
        }
    }
}

impl std::fmt::Display for WhyUnread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(failure) => {
                write!(f, "{}", failure.code)?;
                failure.message.as_ref().map_or(Ok(()), |message| write!(f, ": {message}"))
            }
            Self::Line(why) => write!(f, "{why}"),
        }
    }
}

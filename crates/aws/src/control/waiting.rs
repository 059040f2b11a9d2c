//! Reads the list of waiting letters: objects with one line per letter, in folders by queue and hour.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use redrive_core::batch::DocumentRead;
use redrive_core::endpoint::TargetName;
use redrive_core::failure::Failure;
use redrive_core::policy::VISIBILITY_CEILING;
use redrive_core::waiting::{
    Recoveries, WaitingKey, WaitingLetter, waiting_from, waiting_hour, waiting_root, written_at,
};
use tokio::time::Instant;

use super::ControlObjects;
use crate::clients::{failure_of_call, is_absent};

/// The number of objects read at the same time.
const CONCURRENT_LIST_READS: usize = 32;

/// The greatest size of an object that is read, in bytes: 10,000 letters of an invocation, each with a line of 3,000 bytes. A
/// larger one, which the function does not write, would exhaust the memory of anyone who reads it.
const MAX_OBJECT_BYTES: usize = 32 * 1024 * 1024;

/// The longest time for which letters are hidden.
const MAX_HIDDEN_TIME: SignedDuration = SignedDuration::from_secs(VISIBILITY_CEILING.cast_signed());

/// The time that it may take to read which lines were claimed.
const CLAIMS_TIME: Duration = Duration::from_secs(3);

/// The number of listings that look for the newest objects of a queue.
const MAX_LISTINGS: u32 = 14;

/// The newest line of each waiting letter.
#[derive(Debug)]
pub struct WaitingList<T> {
    letters: HashMap<(String, String), WaitingLine<T>>,
    /// The keys of objects that were read.
    seen: HashSet<String>,
    /// The number of lines that could not be read.
    bad_lines: u64,
    /// The number of objects that could not be read.
    bad_objects: u64,
    /// The code with which S3 refused the first of these.
    refused: Option<String>,
    /// The number of objects that were left out because there were too many.
    left_out: usize,
    /// The endpoints that are back, and how far the list has been claimed for them.
    recoveries: Recoveries,
}

/// The part of a line that is kept.
#[derive(Debug, Clone)]
pub struct WaitingLine<T> {
    /// The time when the letter was hidden. Lines may be listed later, and listed anew.
    hidden: Timestamp,
    /// The time at which the letter's next retry is due.
    pub due: Timestamp,
    /// The time at which it becomes visible by itself. From then on its receipt handle is an old one.
    pub shows: Timestamp,
    /// The time at which the letter first arrived.
    pub since: Timestamp,
    /// True if its endpoint is back, and the function has claimed the line, to wake the letter.
    pub claimed: bool,
    /// The value that the caller keeps of the line.
    pub kept: T,
}

/// An object of the list, or the reason why it could not be read.
enum ListObject {
    Read(String, Vec<u8>),
    Gone(String),
    /// With the code with which S3 refused it, if it did.
    Unreadable(Option<String>),
}

impl<T> Default for WaitingList<T> {
    fn default() -> Self {
        Self {
            letters: HashMap::new(),
            seen: HashSet::new(),
            bad_lines: 0,
            bad_objects: 0,
            refused: None,
            left_out: 0,
            recoveries: Recoveries::default(),
        }
    }
}

impl<T> WaitingList<T> {
    /// Returns the lines of the letters that wait until later than `then`, those that were claimed included.
    pub fn due_after(&self, then: Timestamp) -> impl Iterator<Item = &WaitingLine<T>> {
        self.letters.values().filter(move |line| line.due > then)
    }

    /// Reads which lines were claimed. It is best effort: without it they count as waiting.
    async fn read_claims(&mut self, control: &ControlObjects) {
        let read = Box::pin(control.read_recoveries(None, Instant::now() + CLAIMS_TIME)).await;
        if let Ok(DocumentRead::Document { json, .. }) = read {
            self.recoveries = Recoveries::parse(&json).unwrap_or_default();
        }
    }

    /// Returns the number of lines and objects that could not be read.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.bad_lines + self.bad_objects
    }

    /// Returns the code with which S3 refused an object in the last reading.
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Returns the number of objects that the last reading left out because of its limits. A queue of which
    /// not all objects were listed counts as one.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Reads the objects that were not read before, if they may have letters of these targets; all objects without
    /// targets. `keep` returns the value to keep of a line. Memory stays bounded: a few objects, and the kept value of
    /// each letter.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the objects cannot be listed.
    pub async fn read(
        &mut self,
        control: &ControlObjects,
        now: Timestamp,
        targets: Option<&[TargetName]>,
        keep: impl Fn(Timestamp, WaitingLetter) -> T,
        progress: impl FnMut(usize),
    ) -> Result<(), Failure> {
        self.read_claims(control).await;
        let mut keys = Vec::new();
        for queue in queues(control).await? {
            keys.extend(keys_of(control, &queue, now, usize::MAX).await?.0);
        }
        keep_of(targets, &mut keys);
        self.left_out = 0;
        self.take_all(control, keys, keep, progress).await;
        Ok(())
    }

    /// Reads the newest objects that may have letters of these targets, or the newest of all without targets: at most `most`
    /// objects, which together have at most `bytes` bytes. Several queues are listed at the same time.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the objects cannot be listed.
    pub async fn read_newest(
        &mut self,
        control: &ControlObjects,
        now: Timestamp,
        targets: Option<&[TargetName]>,
        (most, bytes): (usize, u64),
        keep: impl Fn(Timestamp, WaitingLetter) -> T,
    ) -> Result<(), Failure> {
        let (queues, ()) = tokio::join!(queues(control), self.read_claims(control));
        let listed = stream::iter(queues?).map(async |queue| keys_of(control, &queue, now, most).await);
        let listed: Vec<_> = listed.buffer_unordered(CONCURRENT_LIST_READS).collect().await;
        let mut keys = Vec::new();
        self.left_out = 0;
        for listed in listed {
            let (of_queue, is_cut) = listed?;
            keys.extend(of_queue);
            self.left_out += usize::from(is_cut);
        }
        keep_of(targets, &mut keys);
        keys.sort_unstable_by_key(|(key, _)| std::cmp::Reverse(written_at(key)));
        let mut left = bytes;
        let fits = |(_, size): &&(String, u64)| {
            let fits = *size <= left;
            left = left.saturating_sub(*size);
            fits
        };
        let fitting = keys.iter().take(most).take_while(fits).count();
        self.left_out += keys.len() - fitting;
        keys.truncate(fitting);
        self.take_all(control, keys, keep, |_| ()).await;
        Ok(())
    }

    async fn take_all(
        &mut self,
        control: &ControlObjects,
        keys: Vec<(String, u64)>,
        keep: impl Fn(Timestamp, WaitingLetter) -> T,
        mut progress: impl FnMut(usize),
    ) {
        let keys = keys.into_iter().map(|(key, _)| key);
        let keys: Vec<_> = keys.filter(|key| !self.seen.contains(key)).collect();
        (self.bad_objects, self.refused) = (0, None);
        let mut objects =
            stream::iter(keys).map(|key| get(control, key)).buffer_unordered(CONCURRENT_LIST_READS);
        while let Some(object) = objects.next().await {
            match object {
                ListObject::Read(key, bytes) => {
                    self.take(&key, &bytes, &keep);
                    self.seen.insert(key);
                }
                ListObject::Gone(key) => {
                    self.seen.insert(key);
                }
                ListObject::Unreadable(code) => {
                    self.bad_objects += 1;
                    self.refused = self.refused.take().or(code);
                }
            }
            progress(self.letters.len());
        }
    }

    fn take(&mut self, key: &str, bytes: &[u8], keep: impl Fn(Timestamp, WaitingLetter) -> T) {
        let written = written_at(key).unwrap_or(Timestamp::MIN);
        for line in lines(bytes) {
            let Ok(letter) = serde_json::from_slice::<WaitingLetter>(line) else {
                self.bad_lines += 1;
                continue;
            };
            let id = (letter.queue_arn.resource().to_owned(), letter.message_id.clone());
            let hidden = letter.hidden.unwrap_or(written);
            if self.letters.get(&id).is_some_and(|known| known.hidden > hidden) {
                continue;
            }
            let line = WaitingLine {
                claimed: self.recoveries.has_claimed(below_queue(key), &letter),
                hidden,
                due: letter.due,
                shows: letter.shows(),
                since: letter.since,
                kept: keep(written, letter),
            };
            self.letters.insert(id, line);
        }
    }
}

/// Keeps the keys of objects that may have letters of these targets.
fn keep_of(targets: Option<&[TargetName]>, keys: &mut Vec<(String, u64)>) {
    let Some(targets) = targets else { return };
    let digests: Vec<_> = targets.iter().map(TargetName::digest).collect();
    keys.retain(|(key, _)| {
        let key = WaitingKey::read(key);
        digests.iter().any(|digest| key.may_have(digest))
    });
}

/// Returns a key below the prefix of its queue.
fn below_queue(key: &str) -> &str {
    key.rfind("/hour=").map_or(key, |from| &key[from + 1..])
}

/// Returns the common beginning of the keys of each queue.
async fn queues(control: &ControlObjects) -> Result<Vec<String>, Failure> {
    let list = control.s3.list_objects_v2().bucket(&control.bucket);
    let mut pages = list.prefix(waiting_root(&control.prefix)).delimiter("/").into_paginator().send();
    let mut queues = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure_of_call(&error))?;
        queues.extend(page.common_prefixes().iter().filter_map(|queue| queue.prefix().map(str::to_owned)));
    }
    Ok(queues)
}

/// Returns the keys of all hours in which letters were hidden that may still be hidden. If there are more
/// than `most` keys, it returns only the newest, at least `most` of them, and `true`.
async fn keys_of(
    control: &ControlObjects,
    queue: &str,
    now: Timestamp,
    most: usize,
) -> Result<(Vec<(String, u64)>, bool), Failure> {
    let first = now.saturating_sub(MAX_HIDDEN_TIME).unwrap_or(Timestamp::MIN);
    let after = format!("{queue}{}", waiting_hour(first));
    let list = control.s3.list_objects_v2().bucket(&control.bucket).prefix(queue);
    let mut pages = list.start_after(after).into_paginator().send();
    let mut keys = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failure_of_call(&error))?;
        keys.extend(page.contents().iter().filter_map(listed));
        if keys.len() > most && page.is_truncated() == Some(true) {
            return Ok((newest_of(control, queue, now, most).await?, true));
        }
    }
    Ok((keys, false))
}

/// Returns the newest keys, at least `most` of them where a page of a listing can hold so many. A listing only goes
/// forward in time. So it begins ever earlier until it finds enough, and later again if a page does not hold all.
async fn newest_of(
    control: &ControlObjects,
    queue: &str,
    now: Timestamp,
    most: usize,
) -> Result<Vec<(String, u64)>, Failure> {
    // Times before now: the longest with too few keys, and the shortest with more than a page.
    let (mut short, mut long) = (SignedDuration::ZERO, None);
    let (mut few, mut many) = (Vec::new(), Vec::new());
    let mut time = SignedDuration::from_mins(1);
    for _ in 0..MAX_LISTINGS {
        let from = now.saturating_sub(time).unwrap_or(Timestamp::MIN);
        let list = control.s3.list_objects_v2().bucket(&control.bucket).prefix(queue);
        let page = list.start_after(format!("{queue}{}", waiting_from(from))).send().await;
        let page = page.map_err(|error| failure_of_call(&error))?;
        let keys: Vec<_> = page.contents().iter().filter_map(listed).collect();
        if page.is_truncated() == Some(true) {
            (long, many) = (Some(time), keys);
        } else if keys.len() >= most || time >= MAX_HIDDEN_TIME {
            return Ok(keys);
        } else {
            (short, few) = (time, keys);
        }
        time = long.map_or_else(|| (time * 8).min(MAX_HIDDEN_TIME), |long| (short + long) / 2);
    }
    // So many were written at one moment.
    many.retain(|key| !few.contains(key));
    many.extend(few);
    Ok(many)
}

/// Returns the key and the size of an object of the list.
fn listed(object: &aws_sdk_s3::types::Object) -> Option<(String, u64)> {
    let key = object.key().filter(|key| written_at(key).is_some())?;
    Some((key.to_owned(), object.size().and_then(|size| size.try_into().ok()).unwrap_or_default()))
}

/// Returns the bytes of an object of the list, unless they cannot be read or are too many.
pub(super) async fn body(mut body: ByteStream, most: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.ok()?);
        if bytes.len() > most {
            return None;
        }
    }
    Some(bytes)
}

/// Returns the lines of an object of the list.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
}

async fn get(control: &ControlObjects, key: String) -> ListObject {
    match control.s3.get_object().bucket(&control.bucket).key(&key).send().await {
        Ok(answer) => {
            let Some(bytes) = body(answer.body, MAX_OBJECT_BYTES).await else {
                return ListObject::Unreadable(None);
            };
            ListObject::Read(key, bytes)
        }
        Err(error) => {
            // The bucket's lifecycle rule may have deleted the object.
            let is_absent = is_absent(&control.s3, &control.bucket, &key, &error).await;
            if is_absent {
                ListObject::Gone(key)
            } else {
                ListObject::Unreadable(Some(failure_of_call(&error).code))
            }
        }
    }
}

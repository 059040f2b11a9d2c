//! The list of waiting letters: objects with a line a letter, below a queue and an hour.

use std::collections::{HashMap, HashSet};

use aws_sdk_s3::error::ProvideErrorMetadata;
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};

use super::{Control, failed};
use crate::console::Failed;
use sns_redrive::policy::VISIBILITY_CEILING;
use sns_redrive::waiting::{WaitingLetter, waiting_hour, waiting_root, written_at};

/// Objects that are read at once.
const AHEAD: usize = 32;

/// The newest line of each letter that waits.
pub(crate) struct List<T> {
    letters: HashMap<(String, String), Line<T>>,
    /// Objects that were read.
    seen: HashSet<String>,
    /// Lines that could not be read.
    bad_lines: u64,
    /// Objects that could not be read.
    bad_objects: u64,
}

/// A line, as far as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Line<T> {
    /// The moment of the invocation that wrote it.
    written: Timestamp,
    pub(crate) due: Timestamp,
    pub(crate) since: Timestamp,
    pub(crate) kept: T,
}

/// An object of the list, as far as it could be read.
enum Object {
    Read(String, Vec<u8>),
    Gone(String),
    Unreadable,
}

impl<T> List<T> {
    pub(crate) fn new() -> Self {
        Self { letters: HashMap::new(), seen: HashSet::new(), bad_lines: 0, bad_objects: 0 }
    }

    /// The lines of the letters that wait for longer than until then.
    pub(crate) fn due_after(&self, then: Timestamp) -> impl Iterator<Item = &Line<T>> {
        self.letters.values().filter(move |line| line.due > then)
    }

    /// Things that could not be read.
    pub(crate) fn unread(&self) -> u64 {
        self.bad_lines + self.bad_objects
    }

    /// Reads the objects that were not read before. `keep` says what is kept of a line. Memory stays bounded: a few
    /// objects, and what is kept of each letter.
    pub(crate) async fn read(
        &mut self,
        control: &Control,
        now: Timestamp,
        keep: impl Fn(Timestamp, WaitingLetter) -> T,
        mut progress: impl FnMut(usize),
    ) -> Result<(), Failed> {
        let keys: Vec<_> =
            keys(control, now).await?.into_iter().filter(|key| !self.seen.contains(key)).collect();
        self.bad_objects = 0;
        let mut objects = stream::iter(keys).map(|key| get(control, key)).buffer_unordered(AHEAD);
        while let Some(object) = objects.next().await {
            match object {
                Object::Read(key, bytes) => {
                    self.take(&key, &bytes, &keep);
                    self.seen.insert(key);
                }
                Object::Gone(key) => {
                    self.seen.insert(key);
                }
                Object::Unreadable => self.bad_objects += 1,
            }
            progress(self.letters.len());
        }
        Ok(())
    }

    fn take(&mut self, key: &str, bytes: &[u8], keep: impl Fn(Timestamp, WaitingLetter) -> T) {
        let written = written_at(key).unwrap_or(Timestamp::MIN);
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            let Ok(letter) = serde_json::from_slice::<WaitingLetter>(line) else {
                self.bad_lines += 1;
                continue;
            };
            let id = (letter.queue_arn.resource().to_owned(), letter.message_id.clone());
            if self.letters.get(&id).is_some_and(|known| known.written > written) {
                continue;
            }
            let line = Line { written, due: letter.due, since: letter.since, kept: keep(written, letter) };
            self.letters.insert(id, line);
        }
    }
}

/// The keys of the hours in which letters were hidden that may still be hidden, queue by queue.
async fn keys(control: &Control, now: Timestamp) -> Result<Vec<String>, Failed> {
    let hidden = SignedDuration::from_secs(i64::try_from(VISIBILITY_CEILING).unwrap_or(i64::MAX));
    let first = waiting_hour(now.saturating_sub(hidden).unwrap_or(Timestamp::MIN));
    let root = waiting_root(&control.prefix);
    let list = || control.s3.list_objects_v2().bucket(&control.bucket);
    let bad = "cannot list the waiting letters";
    let mut queues = Vec::new();
    let mut pages = list().prefix(&root).delimiter("/").into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| failed(bad, &error))?;
        queues.extend(page.common_prefixes().iter().filter_map(|queue| queue.prefix().map(str::to_owned)));
    }
    let mut keys = Vec::new();
    for queue in queues {
        let mut pages = list().prefix(&queue).start_after(format!("{queue}{first}")).into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| failed(bad, &error))?;
            let objects = page.contents().iter().filter_map(|object| object.key());
            keys.extend(objects.filter(|key| written_at(key).is_some()).map(str::to_owned));
        }
    }
    Ok(keys)
}

async fn get(control: &Control, key: String) -> Object {
    match control.s3.get_object().bucket(&control.bucket).key(&key).send().await {
        Ok(answer) => match answer.body.collect().await {
            Ok(body) => Object::Read(key, body.to_vec()),
            Err(_) => Object::Unreadable,
        },
        // The lifecycle rule was faster.
        Err(error) if error.code() == Some("NoSuchKey") => Object::Gone(key),
        Err(_) => Object::Unreadable,
    }
}

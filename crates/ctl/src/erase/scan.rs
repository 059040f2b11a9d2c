//! The search for letters in all versions of the objects of an archive.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use jiff::Timestamp;
use redrive_archive::{
    ArchiveObject, ArchiveRecord, BadRecord, Erasure, LetterIdentity, SelectedCount, Selection, is_archived,
    queues_folder,
};
use redrive_core::failure::Failure;

use super::criteria::{EraseCriteria, RecordMatch};
use super::versions::{ObjectVersion, VersionLock, VersionedBucket};
use crate::console::{CommandFailure, ToolEnvironment};
use crate::progress_line::ProgressLine;
use crate::tables::{count, harmless, thousands};

/// The number of versions that are read at the same time.
const CONCURRENT_READS: usize = 16;

/// A search, which can be continued with what was stored since.
pub(super) struct ArchiveScan {
    pub(super) bucket: VersionedBucket,
    prefix: String,
    reach: Selection,
    /// The versions that were read, by a hash.
    seen: HashSet<u64>,
    /// The other letters of the archive, each with its object, so that other records of selected letters are found.
    others: Vec<(LetterIdentity, Arc<str>)>,
    /// The letters that were selected, by [`LetterIdentity::of_letter`].
    pub(super) letters: HashSet<LetterIdentity>,
    /// The letters of which a record was erased before. An erasing that broke off may have left other records of them.
    pub(super) erased: HashSet<LetterIdentity>,
    /// The places of the letters that were found, and of those that were erased before.
    pub(super) places: HashSet<LetterIdentity>,
    pub(super) found: BTreeMap<Arc<str>, FoundObject>,
    pub(super) records_read: u64,
    /// Lines that could not be read, in words.
    bad_lines: Vec<String>,
    /// Versions that could not be read the last time, in words.
    failed: Vec<String>,
    /// True if permissions to read one are missing.
    pub(super) is_denied: bool,
}

/// An object in which letters were found.
#[derive(Debug, Clone, Default)]
pub(super) struct FoundObject {
    /// The number of records in its current version.
    pub(super) records: u64,
    /// The number of records in older versions.
    pub(super) older_records: u64,
    pub(super) versions: u64,
    /// The locks of these versions.
    pub(super) locks: Vec<VersionLock>,
    /// True if it only has other records of selected letters.
    pub(super) is_other_only: bool,
}

/// The records of a version.
struct ReadVersion {
    version: ObjectVersion,
    lock: Option<VersionLock>,
    records: u64,
    found: Vec<(LetterIdentity, LetterIdentity)>,
    others: Vec<LetterIdentity>,
    erased: Vec<Erasure>,
    /// Lines that could not be read, by number.
    bad: Vec<(usize, BadRecord)>,
}

impl ArchiveScan {
    pub(super) fn new(bucket: VersionedBucket, prefix: &str, criteria: &EraseCriteria) -> Self {
        Self {
            bucket,
            prefix: prefix.trim_matches('/').to_owned(),
            reach: criteria.reach(),
            seen: HashSet::new(),
            others: Vec::new(),
            letters: HashSet::new(),
            erased: HashSet::new(),
            places: HashSet::new(),
            found: BTreeMap::new(),
            records_read: 0,
            bad_lines: Vec::new(),
            failed: Vec::new(),
            is_denied: false,
        }
    }

    /// Reads the versions that were not read before.
    pub(super) async fn read(
        &mut self,
        criteria: &EraseCriteria,
        console: &mut ToolEnvironment,
    ) -> Result<(), CommandFailure> {
        let folder = queues_folder(&self.prefix);
        let mut screen = ProgressLine::new(&mut *console.err, console.progress);
        let mut after = None;
        (self.failed, self.is_denied) = (Vec::new(), false);
        loop {
            let page = self.bucket.page(&folder, after).await?;
            let is_new =
                |version: &ObjectVersion| self.is_reached(version) && !self.seen.contains(&hash(version));
            let versions: Vec<_> = page.versions.into_iter().filter(is_new).collect();
            let bucket = self.bucket.clone();
            let reads = versions.into_iter().map(|version| read_version(&bucket, criteria, version));
            let mut reads = stream::iter(reads).buffer_unordered(CONCURRENT_READS);
            while let Some(read) = reads.next().await {
                match read {
                    Ok(read) => self.take(read),
                    Err((version, failure)) => {
                        self.is_denied |= failure.is_denied();
                        self.failed.push(format!("{}: {}", harmless(&version.key), failure.told()));
                    }
                }
                let records = thousands(self.records_read);
                screen.show(&format!(
                    "{records} records read, {} found",
                    count(self.letters.len() as u64, "letter")
                ));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.find_others();
        Ok(())
    }

    fn is_reached(&self, version: &ObjectVersion) -> bool {
        let object = ArchiveObject::new(Arc::clone(&version.key), version.bytes, version.stored);
        is_archived(&self.prefix, &version.key) && self.reach.holds(&object) != SelectedCount::None
    }

    fn take(&mut self, read: ReadVersion) {
        let ReadVersion { version, lock, records, found, others, erased, bad } = read;
        self.records_read += records;
        for (line, why) in bad {
            self.bad_lines.push(format!("{}:{line}: {why}", harmless(&version.key)));
        }
        for Erasure { letter, of_letter, .. } in erased {
            self.places.insert(letter);
            self.erased.insert(of_letter);
        }
        self.others.extend(others.into_iter().map(|letter| (letter, Arc::clone(&version.key))));
        self.seen.insert(hash(&version));
        if found.is_empty() {
            return;
        }
        let object = self.found.entry(Arc::clone(&version.key)).or_default();
        object.versions += 1;
        object.locks.extend(lock);
        object.is_other_only = false;
        if version.is_latest {
            object.records += found.len() as u64;
        } else {
            object.older_records += found.len() as u64;
        }
        for (place, letter) in found {
            self.places.insert(place);
            self.letters.insert(letter);
        }
    }

    /// Finds the objects with other records of selected letters. How many of them there are is told when they are erased.
    fn find_others(&mut self) {
        let is_one = |letter: &LetterIdentity| self.letters.contains(letter) || self.erased.contains(letter);
        for (_, key) in self.others.extract_if(.., |(letter, _)| is_one(letter)) {
            let new = || FoundObject { is_other_only: true, ..FoundObject::default() };
            self.found.entry(key).or_insert_with(new);
        }
    }

    /// Returns what could not be read, in words.
    pub(super) fn unread(&self) -> Vec<String> {
        self.bad_lines.iter().chain(&self.failed).cloned().collect()
    }

    /// Returns the objects to change, those with other records first: while a selected record is there, a repeated search
    /// finds them.
    pub(super) fn keys(&self) -> Vec<Arc<str>> {
        let (others, selected): (Vec<_>, Vec<_>) =
            self.found.iter().partition(|(_, object)| object.is_other_only);
        others.into_iter().chain(selected).map(|(key, _)| Arc::clone(key)).collect()
    }

    /// Returns how many versions locks keep now, and the lock that ends last.
    pub(super) fn latest_lock(&self, now: Timestamp, bypass: bool) -> (u64, Option<VersionLock>) {
        let locks = self.found.values().flat_map(|object| &object.locks);
        let keeping: Vec<_> = locks.filter(|lock| lock.keeps(now, bypass)).collect();
        let latest = keeping.iter().max_by_key(|lock| lock.until.unwrap_or(Timestamp::MAX));
        (keeping.len() as u64, latest.map(|lock| (*lock).clone()))
    }

    /// Returns the days of the objects that were found.
    pub(super) fn days(&self) -> BTreeSet<String> {
        let day = |key: &Arc<str>| ArchiveObject::new(Arc::clone(key), 0, None).time();
        let day = |key| redrive_console::text::utc_day(day(key));
        self.found.keys().map(day).collect()
    }
}

fn hash(version: &ObjectVersion) -> u64 {
    let mut hasher = DefaultHasher::new();
    // In a bucket without versions only the time tells a new object.
    (&version.key, &version.id, version.stored).hash(&mut hasher);
    hasher.finish()
}

/// Reads a version of an object, which may be gone.
async fn read_version(
    bucket: &VersionedBucket,
    criteria: &EraseCriteria,
    version: ObjectVersion,
) -> Result<ReadVersion, (ObjectVersion, Failure)> {
    let content = match bucket.read(&version).await {
        Ok(content) => content,
        Err(failure) => return Err((version, failure)),
    };
    let mut read = ReadVersion {
        version,
        lock: content.as_ref().and_then(|content| content.lock.clone()),
        records: 0,
        found: Vec::new(),
        others: Vec::new(),
        erased: Vec::new(),
        bad: Vec::new(),
    };
    let bytes = content.map(|content| content.bytes).unwrap_or_default();
    let none = HashSet::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        read.records += 1;
        match read_line(line).and_then(|record| Ok((criteria.takes(&record, &none)?, record))) {
            Ok((RecordMatch::No, record)) => read.others.push(LetterIdentity::of_letter(&record.letter_id)),
            Ok((_, record)) => {
                read.found.push((record.identity(), LetterIdentity::of_letter(&record.letter_id)));
            }
            Err(BadRecord::Erased(erased)) => read.erased.push(erased.erased),
            Err(bad) => read.bad.push((number, bad)),
        }
    }
    Ok(read)
}

/// Reads the record of a line.
pub(super) fn read_line(line: &[u8]) -> Result<ArchiveRecord, BadRecord> {
    ArchiveRecord::from_line(std::str::from_utf8(line).map_err(|_| BadRecord::NotText)?)
}

//! The erasing of letters from one object of an archive, in all of its versions.
//!
//! First a new version takes the place of the current one, on the condition that nobody has changed it meanwhile. It has a
//! line without content for each erased letter, and every other line as it was. Then the versions that hold the letters
//! are deleted. An erasing that breaks off in between leaves an old version, which the next one finds.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use redrive_archive::{ErasedRecord, LetterIdentity};

use super::criteria::{EraseCriteria, RecordMatch};
use super::scan::read_line;
use super::versions::{Deletion, ObjectVersion, VersionContent, VersionLock, VersionedBucket};
use crate::console::CommandFailure;

/// The number of tries if others write the same object.
const TRIES: u32 = 5;

/// The changes of one object.
#[derive(Debug, Clone, Default)]
pub(super) struct ErasedObject {
    pub(super) key: Arc<str>,
    /// The places of its letters that were erased.
    pub(super) places: HashSet<LetterIdentity>,
    /// The versions that were deleted, and the one in a bucket without versions that was written over.
    pub(super) deleted: Vec<String>,
    /// The versions that a lock keeps.
    pub(super) kept: Vec<(String, VersionLock)>,
}

/// The lines of a version.
struct ReadLines {
    places: HashSet<LetterIdentity>,
    /// The version without its letters.
    rest: Vec<u8>,
}

/// Erases letters from an object.
pub(super) async fn erase(
    bucket: &VersionedBucket,
    key: Arc<str>,
    criteria: &EraseCriteria,
    letters: &HashSet<LetterIdentity>,
    how: (Timestamp, bool),
) -> Result<ErasedObject, CommandFailure> {
    let mut erased = ErasedObject { key: Arc::clone(&key), ..ErasedObject::default() };
    'again: for _ in 0..TRIES {
        let mut to_delete = Vec::new();
        for version in bucket.versions_of(&key).await? {
            let content = bucket.read(&version).await;
            let content = content.map_err(|failure| bucket.failed("read", &key, &failure))?;
            let Some(content) = content else { continue };
            let lines = read(&content, criteria, letters, how.0)?;
            if !lines.places.is_empty() {
                to_delete.push((version, content, lines));
            }
        }
        let mut written = None;
        if let Some((version, content, lines)) = to_delete.iter().find(|(version, ..)| version.is_latest) {
            let Some(id) = bucket.replace(version, content, lines.rest.clone()).await? else {
                continue 'again;
            };
            written = Some(id);
        }
        for (version, content, lines) in to_delete {
            erased.places.extend(lines.places);
            delete(bucket, version, &content, written.as_ref(), how, &mut erased).await?;
        }
        return Ok(erased);
    }
    Err(CommandFailure::Work(format!(
        "others kept changing s3://{}/{key}: run the same command again",
        bucket.bucket
    )))
}

async fn delete(
    bucket: &VersionedBucket,
    version: ObjectVersion,
    content: &VersionContent,
    written: Option<&String>,
    how: (Timestamp, bool),
    erased: &mut ErasedObject,
) -> Result<(), CommandFailure> {
    // In a bucket without versions the new object has taken the place of the old one.
    if written == Some(&version.id) {
        erased.deleted.push(version.id);
        return Ok(());
    }
    match bucket.delete(&version, content.lock.as_ref(), how).await? {
        Deletion::Deleted => erased.deleted.push(version.id),
        Deletion::Locked(lock) => erased.kept.push((version.id, lock)),
    }
    Ok(())
}

fn read(
    content: &VersionContent,
    criteria: &EraseCriteria,
    letters: &HashSet<LetterIdentity>,
    now: Timestamp,
) -> Result<ReadLines, CommandFailure> {
    let mut read = ReadLines { places: HashSet::new(), rest: Vec::with_capacity(content.bytes.len()) };
    for line in content.bytes.split_inclusive(|byte| *byte == b'\n') {
        // What cannot be read was told by the search.
        let record = read_line(line)
            .ok()
            .filter(|record| criteria.takes(record, letters).is_ok_and(|found| found != RecordMatch::No));
        let Some(record) = record else {
            read.rest.extend_from_slice(line);
            continue;
        };
        let place = ErasedRecord::of(&record, now).to_line();
        let place = place.map_err(|error| CommandFailure::Work(format!("cannot write a line: {error}")))?;
        read.rest.extend_from_slice(place.as_bytes());
        if line.ends_with(b"\n") {
            read.rest.push(b'\n');
        }
        read.places.insert(record.identity());
    }
    Ok(read)
}

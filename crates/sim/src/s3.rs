//! S3: buckets with conditional writes, listings by pages, versions and Object Lock.

mod versions;

use std::collections::{BTreeMap, BTreeSet};

use crate::call_context::SimContext;
use crate::clock::SimMillis;
use crate::error::Error;
use crate::journal::SimEvent;
use crate::message::md5_of;
pub use versions::{BucketVersions, ObjectLock, SimListedVersion, SimVersion, VersionRequest};

/// The largest number of keys and common prefixes on a page of a listing.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html>
pub const MAX_KEYS: usize = 1000;

/// The largest number of bytes of a key.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html>
pub const MAX_KEY_BYTES: usize = 1024;

/// The buckets of one account.
#[derive(Debug)]
pub struct S3 {
    buckets: BTreeMap<String, BTreeMap<String, SimObject>>,
    /// The buckets with versions.
    versions: BTreeMap<String, BucketVersions>,
    /// The lifecycle rules of buckets: the prefix of keys, and the days after which S3 deletes their objects. Nothing is
    /// deleted here.
    expirations: BTreeMap<String, Vec<(String, u32)>>,
    /// The number of entries on a page of a listing, if a world wants smaller pages than S3's.
    pub page: usize,
    /// True if S3 denies access to an object that does not exist, as it does to those who may not list the bucket.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>
    pub denies_missing: bool,
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimObject {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The entity tag, with its quotation marks.
    pub etag: String,
    /// The time of the last write.
    pub modified: SimMillis,
    /// The content type that the writer named.
    pub content_type: Option<String>,
    /// The metadata that the writer gave.
    pub metadata: BTreeMap<String, String>,
    /// The version's id: `null` in a bucket without versions.
    pub version: String,
    /// Its lock, if the bucket locks objects.
    pub lock: Option<ObjectLock>,
}

/// An object, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimListedObject {
    /// The number of bytes.
    pub size: usize,
    /// The entity tag, with its quotation marks.
    pub etag: String,
    /// The time of the last write.
    pub modified: SimMillis,
}

/// The condition of a write. Two such writes at once may end with 409, `ConditionalRequestConflict`; a fault
/// does that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutCondition<'a> {
    /// Unconditional: the last writer wins.
    None,
    /// `If-None-Match: *`: there is no such object yet.
    Absent,
    /// `If-Match`: the object has this entity tag.
    Tag(&'a str),
}

/// A request for a page of a listing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimListRequest<'a> {
    /// The keys begin with this.
    pub prefix: &'a str,
    /// The delimiter: keys that have it after the prefix are listed as one common prefix.
    pub delimiter: Option<&'a str>,
    /// The key after which the listing begins: the continuation of a page or `StartAfter`.
    pub after: Option<&'a str>,
    /// `MaxKeys`.
    pub max_keys: Option<usize>,
}

/// A page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimListing {
    /// Keys with the listed properties of their objects.
    pub objects: Vec<(String, SimListedObject)>,
    /// Common prefixes.
    pub prefixes: Vec<String>,
    /// The last entry of the page, if another page follows.
    pub next: Option<String>,
}

impl Default for S3 {
    fn default() -> Self {
        Self {
            buckets: BTreeMap::new(),
            versions: BTreeMap::new(),
            expirations: BTreeMap::new(),
            page: MAX_KEYS,
            denies_missing: false,
        }
    }
}

impl S3 {
    /// Creates a bucket. A bucket that exists stays as it is.
    pub fn create(&mut self, bucket: &str) {
        self.buckets.entry(bucket.to_owned()).or_default();
    }

    /// Stores an object with its own time, even over another one. Creates the bucket if needed.
    pub fn place(&mut self, (bucket, key): (&str, &str), bytes: &[u8], modified: SimMillis) {
        self.create(bucket);
        self.store((bucket, key), bytes.to_vec(), modified, None);
    }

    /// Removes an object, as a lifecycle rule or an operator does.
    pub fn remove(&mut self, (bucket, key): (&str, &str)) {
        self.buckets.get_mut(bucket).and_then(|objects| objects.remove(key));
    }

    /// Adds a lifecycle rule. Creates the bucket if needed.
    pub fn expire(&mut self, bucket: &str, prefix: &str, days: u32) {
        self.create(bucket);
        self.expirations.entry(bucket.to_owned()).or_default().push((prefix.to_owned(), days));
    }

    /// Returns the lifecycle rules of a bucket: prefixes and days.
    ///
    /// # Errors
    ///
    /// `NoSuchBucket`.
    pub fn expirations(&self, bucket: &str) -> Result<&[(String, u32)], Error> {
        self.objects(bucket).ok_or_else(no_bucket)?;
        Ok(self.expirations.get(bucket).map(Vec::as_slice).unwrap_or_default())
    }

    /// Returns every bucket's name with its objects by key.
    pub fn buckets(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, SimObject>)> {
        self.buckets.iter().map(|(name, objects)| (name.as_str(), objects))
    }

    /// Returns the objects of a bucket by key.
    #[must_use]
    pub fn objects(&self, bucket: &str) -> Option<&BTreeMap<String, SimObject>> {
        self.buckets.get(bucket)
    }

    /// Carries out `PutObject` and returns the entity tag.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>
    pub fn put_object(
        &mut self,
        cx: &mut SimContext<'_>,
        (bucket, key): (&str, &str),
        bytes: Vec<u8>,
        condition: PutCondition<'_>,
        content_type: Option<&str>,
    ) -> Result<String, Error> {
        let objects = self.buckets.get_mut(bucket).ok_or_else(no_bucket)?;
        if key.len() > MAX_KEY_BYTES {
            return Err(Error::bad("KeyTooLongError", "Your key is too long"));
        }
        match (condition, objects.get(key)) {
            (PutCondition::Absent, Some(_)) => return Err(precondition()),
            (PutCondition::Tag(tag), Some(object)) if !is_tag(object, tag) => return Err(precondition()),
            (PutCondition::Tag(_), None) => return Err(no_key()),
            _ => {}
        }
        let etag = format!("\"{}\"", md5_of(&bytes));
        let object = format!("{bucket}/{key}");
        cx.log(SimEvent::Stored { object, etag: etag.clone(), bytes: bytes.len() });
        self.store((bucket, key), bytes, cx.now, content_type);
        Ok(etag)
    }

    /// Stores an object. In a bucket with versions the one before stays.
    fn store(&mut self, at: (&str, &str), bytes: Vec<u8>, modified: SimMillis, content_type: Option<&str>) {
        let (version, lock) = self.next_version(at, modified);
        let (etag, content_type) = (format!("\"{}\"", md5_of(&bytes)), content_type.map(str::to_owned));
        let metadata = BTreeMap::new();
        let object = SimObject { bytes, etag, modified, content_type, metadata, version, lock };
        if let Some(objects) = self.buckets.get_mut(at.0) {
            objects.insert(at.1.to_owned(), object);
        }
    }

    /// Gives an object metadata.
    pub fn describe(&mut self, (bucket, key): (&str, &str), metadata: BTreeMap<String, String>) {
        if let Some(object) = self.buckets.get_mut(bucket).and_then(|objects| objects.get_mut(key)) {
            object.metadata = metadata;
        }
    }

    /// Carries out `GetObject`. `unless` is `If-None-Match`, whose tag makes the answer 304.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>
    pub fn get_object(&self, (bucket, key): (&str, &str), unless: Option<&str>) -> Result<&SimObject, Error> {
        let missing = || if self.denies_missing { denied() } else { no_key() };
        let object = self.buckets.get(bucket).ok_or_else(no_bucket)?.get(key).ok_or_else(missing)?;
        if unless.is_some_and(|tag| is_tag(object, tag)) {
            return Err(Error::new(304, "NotModified", "Not Modified"));
        }
        Ok(object)
    }

    /// Carries out `ListObjectsV2`.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html>
    pub fn list_objects(&self, bucket: &str, list: SimListRequest<'_>) -> Result<SimListing, Error> {
        let objects = self.buckets.get(bucket).ok_or_else(no_bucket)?;
        let most = list.max_keys.unwrap_or(MAX_KEYS).min(self.page);
        let after = list.after.unwrap_or_default();
        let mut seen = BTreeSet::new();
        let mut page = SimListing::default();
        for (key, object) in objects.range(list.prefix.to_owned()..) {
            let Some(rest) = key.strip_prefix(list.prefix) else { break };
            let end = list.delimiter.and_then(|it| Some(rest.find(it)? + it.len()));
            let entry = end.map_or(key.as_str(), |end| &key[..list.prefix.len() + end]);
            if entry <= after || seen.contains(entry) {
                continue;
            }
            if seen.len() == most {
                page.next = seen.last().map(|last: &&str| (*last).to_owned());
                break;
            }
            seen.insert(entry);
            if end.is_some() {
                page.prefixes.push(entry.to_owned());
            } else {
                let SimObject { bytes, etag, modified, .. } = object;
                let listed = SimListedObject { size: bytes.len(), etag: etag.clone(), modified: *modified };
                page.objects.push((key.clone(), listed));
            }
        }
        Ok(page)
    }
}

/// Reports whether an object has this tag, whose quotation marks may be missing.
fn is_tag(object: &SimObject, tag: &str) -> bool {
    object.etag.trim_matches('"') == tag.trim_matches('"')
}

fn precondition() -> Error {
    let message = "At least one of the pre-conditions you specified did not hold";
    Error::new(412, "PreconditionFailed", message)
}

fn no_key() -> Error {
    Error::new(404, "NoSuchKey", "The specified key does not exist.")
}

fn denied() -> Error {
    Error::new(403, "AccessDenied", "Access Denied")
}

fn no_bucket() -> Error {
    Error::new(404, "NoSuchBucket", "The specified bucket does not exist")
}

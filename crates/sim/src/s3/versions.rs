//! Versions of objects, and their locks.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/versioning-workflows.html>

use std::collections::BTreeMap;

use super::{S3, SimObject, no_bucket, no_key};
use crate::clock::SimMillis;
use crate::error::Error;

/// The versions of a bucket that are not the current ones.
#[derive(Debug, Default)]
pub struct BucketVersions {
    /// The versions of each key, the newest first. A current delete marker is the first one of its key.
    older: BTreeMap<String, Vec<SimVersion>>,
    /// The number of versions that were made.
    made: u64,
    /// The mode and the duration of the lock that a new object gets.
    lock: Option<(String, SimMillis)>,
}

/// A version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimVersion {
    /// An object.
    Object(SimObject),
    /// A delete marker, with its id and its time.
    Marker(String, SimMillis),
}

/// The lock of a version.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html>
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectLock {
    /// `GOVERNANCE` or `COMPLIANCE`.
    pub mode: String,
    /// The time at which it ends.
    pub until: SimMillis,
}

/// A request for a page of the versions of a bucket.
#[derive(Debug, Clone, Copy, Default)]
pub struct VersionRequest<'a> {
    /// The keys begin with this.
    pub prefix: &'a str,
    /// The last key and the last version id of the page before.
    pub after: Option<(&'a str, &'a str)>,
    /// The most entries of a page.
    pub max_keys: Option<usize>,
}

/// A version, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimListedVersion {
    /// The key.
    pub key: String,
    /// The version's id.
    pub id: String,
    /// True if it is the current version of its key.
    pub is_latest: bool,
    /// The time at which it was stored.
    pub modified: SimMillis,
    /// The entity tag and the size. `None` of a delete marker.
    pub object: Option<(String, usize)>,
}

impl SimVersion {
    /// Returns the version's id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Object(object) => &object.version,
            Self::Marker(id, _) => id,
        }
    }
}

impl S3 {
    /// Switches versions on in a bucket.
    pub fn keep_versions(&mut self, bucket: &str) {
        self.create(bucket);
        self.versions.entry(bucket.to_owned()).or_default();
    }

    /// Locks each version that is stored from now on for this long.
    pub fn lock_new_versions(&mut self, bucket: &str, mode: &str, millis: SimMillis) {
        self.keep_versions(bucket);
        let versions = self.versions.get_mut(bucket).into_iter();
        versions.for_each(|versions| versions.lock = Some((mode.to_owned(), millis)));
    }

    /// Returns all versions of a bucket by key, the newest first.
    #[must_use]
    pub fn all_versions(&self, bucket: &str) -> Vec<(&str, Vec<SimVersion>)> {
        let objects = self.buckets.get(bucket);
        let older = self.versions.get(bucket).map(|versions| &versions.older);
        let mut all: BTreeMap<&str, Vec<SimVersion>> = BTreeMap::new();
        for (key, object) in objects.into_iter().flatten() {
            all.entry(key).or_default().push(SimVersion::Object(object.clone()));
        }
        for (key, versions) in older.into_iter().flatten() {
            all.entry(key).or_default().extend(versions.iter().cloned());
        }
        all.into_iter().collect()
    }

    /// Makes room for a new current version. Returns its id and its lock.
    pub(super) fn next_version(
        &mut self,
        (bucket, key): (&str, &str),
        now: SimMillis,
    ) -> (String, Option<ObjectLock>) {
        let current = self.buckets.get_mut(bucket).and_then(|objects| objects.remove(key));
        let Some(versions) = self.versions.get_mut(bucket) else { return ("null".to_owned(), None) };
        if let Some(current) = current {
            versions.older.entry(key.to_owned()).or_default().insert(0, SimVersion::Object(current));
        }
        versions.made += 1;
        let lock = versions.lock.clone().map(|(mode, millis)| ObjectLock { mode, until: now + millis });
        (format!("v{:08}", versions.made), lock)
    }

    /// Carries out `DeleteObject`. Returns the id of the version that was deleted, or of the delete marker that was made.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObject.html>
    pub fn delete_object(
        &mut self,
        (bucket, key): (&str, &str),
        version: Option<&str>,
        bypass: bool,
        now: SimMillis,
    ) -> Result<Option<String>, Error> {
        let objects = self.buckets.get_mut(bucket).ok_or_else(no_bucket)?;
        let Some(version) = version else {
            if !self.versions.contains_key(bucket) {
                objects.remove(key);
                return Ok(None);
            }
            let (id, _) = self.next_version((bucket, key), now);
            let versions = self.versions.entry(bucket.to_owned()).or_default();
            let marker = SimVersion::Marker(id.clone(), now);
            versions.older.entry(key.to_owned()).or_default().insert(0, marker);
            return Ok(Some(id));
        };
        let is_locked = |object: &SimObject| {
            let lock = object.lock.as_ref().filter(|lock| lock.until > now);
            lock.is_some_and(|lock| !bypass || lock.mode != "GOVERNANCE")
        };
        let refusal =
            || Error::new(403, "AccessDenied", "Access Denied because object protected by object lock.");
        let mut older = self.versions.get_mut(bucket).and_then(|versions| versions.older.get_mut(key));
        if let Some(current) = objects.get(key).filter(|object| object.version == version) {
            if is_locked(current) {
                return Err(refusal());
            }
            objects.remove(key);
        } else if let Some(older) = &mut older
            && let Some(at) = older.iter().position(|it| it.id() == version)
        {
            if matches!(&older[at], SimVersion::Object(object) if is_locked(object)) {
                return Err(refusal());
            }
            older.remove(at);
        }
        // The next version becomes the current one.
        if !objects.contains_key(key)
            && let Some(older) = older
            && matches!(older.first(), Some(SimVersion::Object(_)))
            && let SimVersion::Object(next) = older.remove(0)
        {
            objects.insert(key.to_owned(), next);
        }
        Ok(Some(version.to_owned()))
    }

    /// Carries out `GetObject` of one version.
    pub fn get_version(&self, (bucket, key): (&str, &str), version: &str) -> Result<&SimObject, Error> {
        let objects = self.buckets.get(bucket).ok_or_else(no_bucket)?;
        if let Some(current) = objects.get(key).filter(|object| object.version == version) {
            return Ok(current);
        }
        let older = self.versions.get(bucket).and_then(|versions| versions.older.get(key));
        match older.into_iter().flatten().find(|it| it.id() == version) {
            Some(SimVersion::Object(object)) => Ok(object),
            Some(SimVersion::Marker(..)) => {
                let message = "The specified method is not allowed against this resource.";
                Err(Error::new(405, "MethodNotAllowed", message))
            }
            None if objects.contains_key(key) => {
                Err(Error::new(404, "NoSuchVersion", "The specified version does not exist."))
            }
            None => Err(no_key()),
        }
    }

    /// Carries out `ListObjectVersions`: a page, and whether another one follows.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html>
    pub fn list_versions(
        &self,
        bucket: &str,
        list: VersionRequest<'_>,
    ) -> Result<(Vec<SimListedVersion>, bool), Error> {
        let objects = self.buckets.get(bucket).ok_or_else(no_bucket)?;
        let none = BTreeMap::new();
        let older = self.versions.get(bucket).map_or(&none, |versions| &versions.older);
        let from = list.after.map_or(list.prefix, |(key, _)| key).max(list.prefix);
        let most = list.max_keys.unwrap_or(super::MAX_KEYS).min(self.page);
        let keys = objects.range(from.to_owned()..).map(|(key, _)| key.as_str());
        let mut keys = keys.take_while(|key| key.starts_with(list.prefix)).peekable();
        let old = older.range(from.to_owned()..).map(|(key, _)| key.as_str());
        let mut old = old.take_while(|key| key.starts_with(list.prefix)).peekable();
        let mut page = Vec::new();
        loop {
            let key = match (keys.peek(), old.peek()) {
                (Some(one), Some(other)) => (*one).min(*other),
                (Some(key), None) | (None, Some(key)) => *key,
                (None, None) => return Ok((page, false)),
            };
            keys.next_if_eq(&key);
            old.next_if_eq(&key);
            let listed = |object: &SimObject| SimListedVersion {
                key: key.to_owned(),
                id: object.version.clone(),
                is_latest: false,
                modified: object.modified,
                object: Some((object.etag.clone(), object.bytes.len())),
            };
            let older = older.get(key).into_iter().flatten().map(|version| match version {
                SimVersion::Object(object) => listed(object),
                SimVersion::Marker(id, modified) => SimListedVersion {
                    key: key.to_owned(),
                    id: id.clone(),
                    is_latest: false,
                    modified: *modified,
                    object: None,
                },
            });
            let mut versions: Vec<_> = objects.get(key).map(listed).into_iter().chain(older).collect();
            versions.first_mut().into_iter().for_each(|first| first.is_latest = true);
            if let Some((_, last)) = list.after.filter(|(after, _)| *after == key) {
                let done = versions.iter().position(|it| it.id == last).map_or(versions.len(), |at| at + 1);
                versions.drain(..done);
            }
            for version in versions {
                if page.len() == most {
                    return Ok((page, true));
                }
                page.push(version);
            }
        }
    }
}

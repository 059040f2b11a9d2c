//! A unit: the objects that one ledger covers.

use redrive_archive::{ArchiveObject, keys_of};
use serde::{Deserialize, Serialize};

use super::unit_boundaries::NameRange;

/// A run of objects of one queue and hour, with one ledger. It is one line of `units.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unit {
    /// The name of the queue in the archive.
    pub(super) queue: String,
    /// The hour, `yyyymmddThh`, or the day, `yyyymmdd`, for objects without a time in their names.
    pub(super) hour: String,
    /// Its number within the hour, from 0.
    pub(super) number: usize,
    /// The range of its objects' names.
    #[serde(flatten)]
    pub(super) range: NameRange,
    /// The number of selected letters in it, by the index. The true number may be lower.
    pub(super) letters: u64,
    /// `true` if this number of records is exact.
    pub(super) exact: bool,
}

impl Unit {
    /// Returns the folder of a queue below `replays/`.
    pub(super) fn queue_folder(queue: &str) -> String {
        format!("queues/queue={queue}/")
    }

    /// Returns the folder of an hour below `replays/`.
    pub(super) fn folder(queue: &str, hour: &str) -> String {
        format!("{}hour={hour}/", Self::queue_folder(queue))
    }

    /// Returns the key of an hour's cut below `replays/`.
    pub(super) fn key_of_cuts(queue: &str, hour: &str) -> String {
        format!("{}cuts.json", Self::folder(queue, hour))
    }

    /// Returns the key of its ledger below `replays/`.
    pub(super) fn key(&self) -> String {
        format!("{}{:06}.json", Self::folder(&self.queue, &self.hour), self.number)
    }

    /// Returns the number of the unit whose ledger has this key, or `None` for any other key.
    pub(super) fn number_of(key: &str) -> Option<usize> {
        key.rsplit('/').next()?.strip_suffix(".json")?.parse().ok()
    }

    /// Returns the range of its objects' keys: the first key, and the key before which it ends.
    pub(super) fn keys(&self, prefix: &str) -> (String, String) {
        // The names of an hour begin with it. The names of a day without times may begin with anything.
        let hour = if self.hour.len() > 8 { self.hour.as_str() } else { "" };
        let first = self.range.first.as_deref().unwrap_or(hour);
        let before = self.range.before.clone().unwrap_or_else(|| format!("{hour}\u{10ffff}"));
        let key = |name: &str| keys_of(prefix, &self.queue, &self.hour, name);
        (key(first), key(&before))
    }

    /// Reports whether an object of its queue and day belongs to it.
    pub(super) fn holds(&self, object: &ArchiveObject) -> bool {
        object.hour() == self.hour && self.range.holds(object.name())
    }

    /// Reports whether the other unit is of the same queue and hour.
    pub(super) fn is_near(&self, other: &Self) -> bool {
        (&self.queue, &self.hour) == (&other.queue, &other.hour)
    }
}

//! A unit: what one ledger is about.

use serde::{Deserialize, Serialize};

use super::cut::Range;
use crate::archive::{Object, keys_of};

/// A run of objects of one queue and hour, with one ledger; a line of `units.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unit {
    /// The name of the queue in the archive.
    pub(super) queue: String,
    /// `yyyymmddThh`, or `yyyymmdd` for objects without a time in their name.
    pub(super) hour: String,
    /// Its number within the hour, from 0.
    pub(super) number: usize,
    /// The names of its objects.
    #[serde(flatten)]
    pub(super) range: Range,
    /// Letters of the selection in it, by the index: at most so many.
    pub(super) letters: u64,
    /// Whether it is exactly so many records.
    pub(super) exact: bool,
}

impl Unit {
    /// The folder of a queue below `replays/`.
    pub(super) fn queue_folder(queue: &str) -> String {
        format!("queues/queue={queue}/")
    }

    /// The folder of its hour below `replays/`.
    pub(super) fn folder(queue: &str, hour: &str) -> String {
        format!("{}hour={hour}/", Self::queue_folder(queue))
    }

    /// The key of an hour's cut below `replays/`.
    pub(super) fn key_of_cuts(queue: &str, hour: &str) -> String {
        format!("{}cuts.json", Self::folder(queue, hour))
    }

    /// The key of its ledger below `replays/`.
    pub(super) fn key(&self) -> String {
        format!("{}{:06}.json", Self::folder(&self.queue, &self.hour), self.number)
    }

    /// The number of the unit whose ledger has this key; none for any other key.
    pub(super) fn number_of(key: &str) -> Option<usize> {
        key.rsplit('/').next()?.strip_suffix(".json")?.parse().ok()
    }

    /// The keys between which its objects lie, the first and the one behind the last.
    pub(super) fn keys(&self, prefix: &str) -> (String, String) {
        // What the names of an hour begin with; those of a day without times may begin with anything.
        let hour = if self.hour.len() > 8 { self.hour.as_str() } else { "" };
        let first = self.range.first.as_deref().unwrap_or(hour);
        let before = self.range.before.clone().unwrap_or_else(|| format!("{hour}\u{10ffff}"));
        let key = |name: &str| keys_of(prefix, &self.queue, &self.hour, name);
        (key(first), key(&before))
    }

    /// Whether an object of its queue and day is one of it.
    pub(super) fn holds(&self, object: &Object) -> bool {
        object.hour() == self.hour && self.range.holds(object.name())
    }

    /// Whether it is of the same queue and hour.
    pub(super) fn is_near(&self, other: &Self) -> bool {
        (&self.queue, &self.hour) == (&other.queue, &other.hour)
    }
}

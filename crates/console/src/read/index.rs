//! Counts letters by the archive's keys: by queue, topic and reason.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};

use jiff::Timestamp;
use redrive_archive::{ArchiveObject, topic_hash};
use redrive_core::arn::Arn;

use super::letter_counts::{ChartSpan, TimedCount};
use crate::query::{Filter, GroupField};

/// The fields that the keys know.
pub(crate) const KEY_FIELDS: [GroupField; 3] = [GroupField::Topic, GroupField::Reason, GroupField::Queue];

/// The most topics for which the index remembers an object. Their names are read from these objects.
const MAX_TOPICS: usize = 48;

/// The most combinations of queue, reason and topic that are counted one by one. Strangers can write letters
/// with ever more topics: those beyond this number are counted together.
pub(crate) const MAX_KEY_GROUPS: u32 = 2_000;

/// The counts of letters, by the keys of the objects that hold them.
#[derive(Debug, Default)]
pub(crate) struct KeyCounts {
    /// The number of objects that may hold letters of the filter.
    pub(crate) objects: u64,
    /// The number of letters that match the filter as far as the keys know. Letters of unknown topic and
    /// reason count only if the filter names neither.
    pub(crate) letters: u64,
    /// Letters whose keys name no topic and no reason.
    pub(crate) untold: u64,
    /// Objects whose keys do not even name the number of letters.
    pub(crate) blind: u64,
    /// The number of letters by queue, reason and topic.
    pub(crate) groups: BTreeMap<CountKey, TimedCount>,
    /// The newest objects.
    newest: BinaryHeap<Reverse<NewestObject>>,
    /// The newest object of each topic.
    of_topics: BTreeMap<String, NewestObject>,
}

/// A queue, a reason and a topic that letters have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CountKey {
    pub(crate) queue: String,
    /// The reason; `None` if the key does not name it.
    pub(crate) reason: Option<String>,
    pub(crate) topic: KeyTopic,
}

/// The topic of letters, as their key names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyTopic {
    /// The hash of the topic's name.
    Hash(String),
    /// The letters have no topic.
    None,
    /// A topic beyond the number that the index counts one by one.
    Other,
    /// The key does not name it.
    Untold,
}

/// An object. Objects are ordered by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NewestObject {
    at: Timestamp,
    key: String,
    bytes: u64,
}

impl NewestObject {
    fn of(object: &ArchiveObject) -> Self {
        Self { at: object.time(), key: object.key.to_string(), bytes: object.bytes }
    }

    fn object(&self) -> ArchiveObject {
        ArchiveObject::new(&*self.key, self.bytes, None)
    }
}

impl KeyCounts {
    /// Counts the letters of an object, and remembers the newest objects, at most `most` of them.
    pub(crate) fn add(&mut self, object: &ArchiveObject, of: &Filter, span: &ChartSpan, most: usize) {
        let queue = object.queue();
        if of.get(GroupField::Queue).is_some_and(|wanted| wanted != queue) {
            return;
        }
        let newest = || NewestObject::of(object);
        // The key was written by hand: the object may hold any letters, and any number of them.
        let Some(index) = &object.index else {
            self.objects += 1;
            self.blind += 1;
            return self.keep(newest(), most);
        };
        let is_narrow = of.get(GroupField::Topic).or(of.get(GroupField::Reason)).is_some();
        // The key has only the number of letters, because its list of topics and reasons would have been too long.
        let Some(groups) = &index.groups else {
            self.objects += 1;
            self.untold += index.letters;
            if !is_narrow {
                self.letters += index.letters;
                let key = CountKey { queue: queue.to_owned(), reason: None, topic: KeyTopic::Untold };
                self.groups.entry(key).or_default().add(index.letters, object.time(), span);
            }
            return self.keep(newest(), most);
        };
        let topic = of.get(GroupField::Topic).map(hash_of);
        let reason = of.get(GroupField::Reason);
        let mut counts = false;
        for group in groups {
            let is_other = topic.as_ref().is_some_and(|topic| *topic != group.topic)
                || reason.is_some_and(|reason| reason != group.reason);
            if is_other {
                continue;
            }
            counts = true;
            self.letters += group.letters;
            let hash = group.topic.clone().map_or(KeyTopic::None, KeyTopic::Hash);
            let key = |topic| CountKey { queue: queue.to_owned(), reason: Some(group.reason.clone()), topic };
            let mut own = key(hash);
            if self.groups.len() >= MAX_KEY_GROUPS as usize && !self.groups.contains_key(&own) {
                own = key(KeyTopic::Other);
            }
            self.groups.entry(own).or_default().add(group.letters, object.time(), span);
            let Some(hash) = &group.topic else { continue };
            let is_full = self.of_topics.len() >= MAX_TOPICS;
            match self.of_topics.entry(hash.clone()) {
                Entry::Vacant(place) if !is_full => {
                    place.insert(newest());
                }
                Entry::Occupied(mut there) if there.get().at < object.time() => {
                    there.insert(newest());
                }
                _ => {}
            }
        }
        if counts {
            self.objects += 1;
            self.keep(newest(), most);
        }
    }

    fn keep(&mut self, object: NewestObject, most: usize) {
        self.newest.push(Reverse(object));
        if self.newest.len() > most {
            self.newest.pop();
        }
    }

    /// Returns the objects to read: the newest first, then an object for each topic that the newest do not
    /// cover. Also returns how many objects it left out because they would exceed the bytes together.
    pub(crate) fn to_read(&self, most: usize, mut bytes: u64) -> (Vec<ArchiveObject>, u64) {
        let mut newest: Vec<_> = self.newest.iter().map(|Reverse(object)| object).collect();
        newest.sort_unstable_by(|one, other| other.cmp(one));
        let others = self.of_topics.values().filter(|object| !newest.contains(object));
        let others: Vec<_> = others.collect();
        newest.truncate(most.saturating_sub(others.len()));
        let all = newest.into_iter().chain(others);
        let wanted = all.clone().count();
        let fits = |object: &&NewestObject| {
            let fits = object.bytes <= bytes;
            bytes = bytes.saturating_sub(if fits { object.bytes } else { 0 });
            fits
        };
        let objects: Vec<_> = all.filter(fits).map(NewestObject::object).collect();
        let left_out = wanted.saturating_sub(objects.len());
        (objects, left_out as u64)
    }
}

/// Returns the part of a filter that the keys can answer.
pub(crate) fn known_by_keys(of: &Filter) -> Filter {
    of.iter()
        .filter(|(field, _)| KEY_FIELDS.contains(field))
        .fold(Filter::default(), |known, (field, value)| known.with(field, value))
}

/// Returns the hash of a topic, given by ARN or by name; `None` for letters without a topic.
fn hash_of(topic: &str) -> Option<String> {
    if topic.is_empty() {
        return None;
    }
    let arn = topic.parse::<Arn>();
    Some(topic_hash(arn.as_ref().map_or(topic, Arn::resource)))
}

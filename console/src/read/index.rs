//! Letters as the keys of an archive count them: by queue, topic and reason.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};

use jiff::Timestamp;
use sns_redrive::archive::{Object, topic_hash};
use sns_redrive::arn::Arn;

use super::tally::{Count, Span};
use crate::query::{Field, Filter};

/// The fields that keys tell.
pub(crate) const KNOWN: [Field; 3] = [Field::Topic, Field::Reason, Field::Queue];

/// Topics of which an object is kept, so that their names can be read.
const TOPICS: usize = 48;

/// Queues, reasons and topics that are told apart. Whoever writes letters may name ever more topics: those beyond are counted
/// together.
pub(crate) const GROUPS: u32 = 2_000;

/// Letters in objects, by what their keys tell.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Objects that may hold letters of the filter.
    pub(crate) objects: u64,
    /// Letters of the filter, as far as keys tell. Those of which they do not are among them only where the filter names
    /// neither topic nor reason.
    pub(crate) letters: u64,
    /// Letters of which the keys do not tell the topic and the reason.
    pub(crate) untold: u64,
    /// Objects of which the keys tell nothing.
    pub(crate) blind: u64,
    /// Letters by queue, reason and the hash of their topic, as far as keys tell.
    pub(crate) groups: BTreeMap<Key, Count>,
    /// The newest objects.
    newest: BinaryHeap<Reverse<Newest>>,
    /// The newest object of each topic.
    of_topics: BTreeMap<String, Newest>,
}

/// The letters of one queue, reason and topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) queue: String,
    /// The reason; none where the key does not tell it.
    pub(crate) reason: Option<String>,
    pub(crate) topic: Topic,
}

/// The topic of letters, as far as a key tells it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// The hash of its name.
    Hash(String),
    /// The letters have no topic.
    None,
    /// One of more topics than are told apart.
    Other,
    /// The key does not tell it.
    Untold,
}

/// An object, in the order of time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Newest {
    at: Timestamp,
    key: String,
    bytes: u64,
}

impl Newest {
    fn of(object: &Object) -> Self {
        Self { at: object.time(), key: object.key.to_string(), bytes: object.bytes }
    }

    fn object(&self) -> Object {
        Object::new(&*self.key, self.bytes, None)
    }
}

impl Index {
    /// Counts an object. `most` of the newest are kept.
    pub(crate) fn add(&mut self, object: &Object, of: &Filter, span: &Span, most: usize) {
        let queue = object.queue();
        if of.get(Field::Queue).is_some_and(|wanted| wanted != queue) {
            return;
        }
        let newest = || Newest::of(object);
        let Some(index) = &object.index else {
            self.objects += 1;
            self.blind += 1;
            return self.keep(newest(), most);
        };
        let is_narrow = of.get(Field::Topic).or(of.get(Field::Reason)).is_some();
        let Some(groups) = &index.groups else {
            self.objects += 1;
            self.untold += index.letters;
            if !is_narrow {
                self.letters += index.letters;
                let key = Key { queue: queue.to_owned(), reason: None, topic: Topic::Untold };
                self.groups.entry(key).or_default().add(index.letters, object.time(), span);
            }
            return self.keep(newest(), most);
        };
        let topic = of.get(Field::Topic).map(hash_of);
        let reason = of.get(Field::Reason);
        let mut counts = false;
        for group in groups {
            let is_other = topic.as_ref().is_some_and(|topic| *topic != group.topic)
                || reason.is_some_and(|reason| reason != group.reason);
            if is_other {
                continue;
            }
            counts = true;
            self.letters += group.letters;
            let hash = group.topic.clone().map_or(Topic::None, Topic::Hash);
            let key = |topic| Key { queue: queue.to_owned(), reason: Some(group.reason.clone()), topic };
            let mut own = key(hash);
            if self.groups.len() >= GROUPS as usize && !self.groups.contains_key(&own) {
                own = key(Topic::Other);
            }
            self.groups.entry(own).or_default().add(group.letters, object.time(), span);
            let Some(hash) = &group.topic else { continue };
            let is_full = self.of_topics.len() >= TOPICS;
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

    fn keep(&mut self, object: Newest, most: usize) {
        self.newest.push(Reverse(object));
        if self.newest.len() > most {
            self.newest.pop();
        }
    }

    /// Returns the newest objects, the newest first, and one object of each topic that is in none of them; and how many of
    /// these are left out, since all of them must not have more bytes together.
    pub(crate) fn to_read(&self, most: usize, mut bytes: u64) -> (Vec<Object>, u64) {
        let mut newest: Vec<_> = self.newest.iter().map(|Reverse(object)| object).collect();
        newest.sort_unstable_by(|one, other| other.cmp(one));
        let others = self.of_topics.values().filter(|object| !newest.contains(object));
        let others: Vec<_> = others.collect();
        newest.truncate(most.saturating_sub(others.len()));
        let all = newest.into_iter().chain(others);
        let wanted = all.clone().count();
        let fits = |object: &&Newest| {
            let fits = object.bytes <= bytes;
            bytes = bytes.saturating_sub(if fits { object.bytes } else { 0 });
            fits
        };
        let objects: Vec<_> = all.filter(fits).map(Newest::object).collect();
        let left_out = wanted.saturating_sub(objects.len());
        (objects, left_out as u64)
    }
}

/// Returns the part of a filter that keys answer.
pub(crate) fn known_by_keys(of: &Filter) -> Filter {
    of.iter()
        .filter(|(field, _)| KNOWN.contains(field))
        .fold(Filter::default(), |known, (field, value)| known.with(field, value))
}

/// Returns the hash of a topic by its ARN or name; none of letters without a topic.
fn hash_of(topic: &str) -> Option<String> {
    if topic.is_empty() {
        return None;
    }
    let arn = topic.parse::<Arn>();
    Some(topic_hash(arn.as_ref().map_or(topic, Arn::resource)))
}

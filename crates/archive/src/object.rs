//! The objects of an archive and their keys.
//!
//! `<prefix>/queue=<dead-letter queue>/date=<yyyy-mm-dd>/<yyyymmddThhmmss.fffZ>-<request id>.<index>.jsonl`
//! is a layout that Athena and Glue read as partitions. Times are UTC. An object that somebody else has put
//! into such a folder, or a newer release with another index, is read as well: its letters count if its
//! records can be read.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::index::ObjectIndex;

/// The longest key whose index has groups, in bytes. S3 takes 1,024.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html>
const MAX_KEY_BYTES: usize = 900;

/// The name of the metadata of an object in which letters were erased: the time at which S3 stored its first version. A
/// replay that began before the erasing goes by it.
pub const FIRST_STORED: &str = "sns-redrive-first-stored";

/// An object of an archive, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveObject {
    /// The object's key.
    pub key: Arc<str>,
    /// The object's size in bytes.
    pub bytes: u64,
    /// The time at which S3 stored it, in whole seconds.
    pub stored: Option<Timestamp>,
    /// The summary of its letters. `None` if the key has none that this software knows.
    pub index: Option<ObjectIndex>,
}

impl ArchiveObject {
    /// Reads the index from the key of an archive's object.
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, bytes: u64, stored: Option<Timestamp>) -> Self {
        let key = key.into();
        let index = name(&key)
            .and_then(|name| name.strip_suffix(".jsonl")?.split_once("Z-")?.1.split_once('.'))
            .and_then(|(_, index)| ObjectIndex::parse(index));
        Self { key, bytes, stored, index }
    }

    /// Returns the name in the object's folder: the letters' dead-letter queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        let folder = self.key.rsplit('/').nth(2).unwrap_or_default();
        folder.strip_prefix("queue=").unwrap_or_default()
    }

    /// Returns when its letters were archived, as the key tells: to the second at least. If the function did
    /// not name the object, this is the beginning of its day.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        let date = self.key.rsplit('/').nth(1).and_then(|folder| folder.strip_prefix("date="));
        let day = || date?.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok();
        self.named_time().or_else(|| Some(day()?.timestamp())).unwrap_or(Timestamp::MIN)
    }

    /// Returns its name within the folder of its day.
    #[must_use]
    pub fn name(&self) -> &str {
        name(&self.key).unwrap_or_default()
    }

    /// Returns the hour of its letters as the key tells, `yyyymmddThh`, or the whole day, `yyyymmdd`, if the
    /// name does not begin with a time of that day.
    #[must_use]
    pub fn hour(&self) -> String {
        let day = self.key.rsplit('/').nth(1).and_then(|folder| folder.strip_prefix("date="));
        let day = day.unwrap_or_default().replace('-', "");
        let is_named = self.named_time().is_some() && self.name().starts_with(&day);
        if is_named { self.name()[..11].to_owned() } else { day }
    }

    /// Returns the time in its name.
    pub(super) fn named_time(&self) -> Option<Timestamp> {
        let (time, _) = name(&self.key)?.split_once('-')?;
        let time = DateTime::strptime("%Y%m%dT%H%M%S%.fZ", time).ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    }
}

fn name(key: &str) -> Option<&str> {
    key.rsplit('/').next()
}

/// Returns the prefix with a slash at its end, or an empty text if the prefix is empty.
#[must_use]
pub fn folder(prefix: &str) -> String {
    let prefix = prefix.trim_matches('/');
    if prefix.is_empty() { String::new() } else { format!("{prefix}/") }
}

/// Returns the common beginning of the keys in a queue's folder whose day is that of `time` (`yyyymmdd...`)
/// and whose names begin with `name`.
#[must_use]
pub fn keys_of(prefix: &str, queue: &str, time: &str, name: &str) -> String {
    let part = |from, to| time.get(from..to).unwrap_or_default();
    let (year, month, day) = (part(0, 4), part(4, 6), part(6, 8));
    format!("{}date={year}-{month}-{day}/{name}", queue_folder(prefix, queue))
}

/// A range of keys: from the first up to, but without, the second.
pub type KeyRange = (String, String);

/// Returns the range of all keys with this beginning.
#[must_use]
pub fn keys_with(beginning: &str) -> KeyRange {
    (beginning.to_owned(), format!("{beginning}\u{10ffff}"))
}

/// Divides the keys of a day's folder into parts: each hour, and, as the whole day, the keys before and after
/// the hours. Each part has the name of [`ArchiveObject::hour`].
#[must_use]
pub fn hours_of(day: &str) -> Vec<(String, KeyRange)> {
    let date = day.trim_end_matches('/').rsplit("date=").next().unwrap_or_default().replace('-', "");
    let (first, end) = keys_with(day);
    // T24 is greater than any name of an hour.
    let hours: Vec<_> = (0..=24).map(|hour| format!("{date}T{hour:02}")).collect();
    let keys = || hours.iter().map(|hour| format!("{day}{hour}"));
    let bounds: Vec<_> = [first].into_iter().chain(keys()).chain([end]).collect();
    let of = [&date].into_iter().chain(&hours[..24]).chain([&date]).cloned();
    of.zip(bounds.windows(2).map(|two| (two[0].clone(), two[1].clone()))).collect()
}

/// Reports whether an hour is a whole day, of objects without a time in their names.
#[must_use]
pub fn is_day(hour: &str) -> bool {
    hour.len() == 8
}

/// Returns the common beginning of the folders of all queues. The prefix may have slashes at its ends.
#[must_use]
pub fn queues_folder(prefix: &str) -> String {
    format!("{}queue=", folder(prefix))
}

/// Returns the common beginning of the keys of a queue. The prefix may have slashes at its ends.
pub(super) fn queue_folder(prefix: &str, queue: &str) -> String {
    format!("{}{queue}/", queues_folder(prefix))
}

/// Returns a lower bound for the keys in a queue's folder of objects from this time on.
pub(super) fn key_at(queue_folder: &str, at: Timestamp) -> String {
    let utc = at.to_zoned(TimeZone::UTC);
    format!("{queue_folder}date={}/{}", utc.strftime("%Y-%m-%d"), utc.strftime("%Y%m%dT%H%M%S%.3f"))
}

/// Reports whether a key is one of an archive's object. The prefix may have slashes at its ends.
#[must_use]
pub fn is_archived(prefix: &str, key: &str) -> bool {
    key.strip_prefix(&*folder(prefix)).and_then(day_of).is_some()
}

/// Returns the key of a new object. Its index has groups if there is room for them.
pub(super) fn key(
    prefix: &str,
    queue: &str,
    now: Timestamp,
    request_id: &str,
    index: &ObjectIndex,
) -> String {
    let utc = now.to_zoned(TimeZone::UTC);
    let (date, time) = (utc.strftime("%Y-%m-%d"), utc.strftime("%Y%m%dT%H%M%S%.3fZ"));
    let folder = queue_folder(prefix, queue);
    let key = |index: &ObjectIndex| format!("{folder}date={date}/{time}-{request_id}.{index}.jsonl");
    let whole = key(index);
    if whole.len() <= MAX_KEY_BYTES { whole } else { key(&index.in_short()) }
}

/// Returns the day of an archive's object, or `None` for any other key. `after_prefix` is the key without the
/// archive's prefix.
pub(super) fn day_of(after_prefix: &str) -> Option<Date> {
    let (queue, rest) = after_prefix.strip_prefix("queue=")?.split_once('/')?;
    let (date, name) = rest.strip_prefix("date=")?.split_once('/')?;
    let is_file = name.strip_suffix(".jsonl").is_some_and(|name| !name.is_empty() && !name.contains('/'));
    if queue.is_empty() || !is_file {
        return None;
    }
    day(date)
}

/// Reads the date of a folder. The same day in another form would be another folder, in which no search
/// looks.
pub(super) fn day(date: &str) -> Option<Date> {
    date.parse().ok().filter(|day: &Date| day.to_string() == date)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::index::IndexEntry;
    use super::*;

    fn index(topics: &[&str]) -> ObjectIndex {
        let entry =
            |topic| IndexEntry { reason: "exhausted", topic: Some(topic), target: None, replayed: false };
        ObjectIndex::of(topics.iter().map(|topic| entry(*topic)))
    }

    #[test]
    fn keys_are_partitioned_by_queue_and_day_and_hold_the_index() {
        let now: Timestamp = "2026-11-01T23:59:58.9Z".parse().unwrap();
        let index = index(&["payments"]);
        let name = "date=2026-11-01/20261101T235958.900Z-r.2-n1-r0.exhausted.3zhK6Xx3.1.T.none.1.jsonl";
        let key = |prefix| key(prefix, "payments-dlq", now, "r", &index);
        assert_eq!(key("dead/letters/"), format!("dead/letters/queue=payments-dlq/{name}"));
        assert_eq!(key(""), format!("queue=payments-dlq/{name}"));
        let object = ArchiveObject::new(key(""), 7, None);
        assert_eq!((object.queue(), object.time()), ("payments-dlq", now));
        assert_eq!(object.index, Some(index));
    }

    #[test]
    fn groups_are_left_out_of_a_key_that_would_be_too_long() {
        let index = index(&["payments"]);
        let of = |length| key(&"p".repeat(length), "q", Timestamp::UNIX_EPOCH, "r", &index);
        let room = MAX_KEY_BYTES - of(0).len() - 1;
        assert_eq!(of(room).len(), MAX_KEY_BYTES);
        assert_eq!(ArchiveObject::new(of(room), 1, None).index, Some(index.clone()));
        assert!(of(room + 1).len() < MAX_KEY_BYTES);
        assert_eq!(ArchiveObject::new(of(room + 1), 1, None).index, Some(index.in_short()));
    }

    #[test]
    fn keys_of_a_newer_layout_and_those_that_others_wrote_have_no_index() {
        let midnight = "2026-11-01T00:00:00Z";
        for (name, time) in [
            ("20261101T120000Z-54d51ec6.jsonl", "2026-11-01T12:00:00Z"),
            ("20261101T120000Z-54d51ec6.3-n1-r0.jsonl", "2026-11-01T12:00:00Z"),
            ("20261101T120000Z.2-n1-r0.jsonl", midnight),
            ("a.jsonl", midnight),
            ("a.2-n1-r0.jsonl", midnight),
        ] {
            let object = ArchiveObject::new(format!("p/queue=q.fifo/date=2026-11-01/{name}"), 1, None);
            let expected = (None, "q.fifo", time.parse().unwrap());
            assert_eq!((object.index.clone(), object.queue(), object.time()), expected, "{name}");
        }
    }

    #[test]
    fn hours_come_from_the_name_and_days_where_it_has_none() {
        for (name, hour) in [
            ("20261101T120000Z-r.jsonl", "20261101T12"),
            ("20261101T125959.999Z-r.2-n1-r0.jsonl", "20261101T12"),
            ("a.jsonl", "20261101"),
            ("20261101T12", "20261101"),
            ("20261102T120000Z-r.jsonl", "20261101"),
            ("2026110éT120000Z-r.jsonl", "20261101"),
        ] {
            let key = keys_of("p/", "q", "20261101T12", name);
            assert_eq!(key, format!("p/queue=q/date=2026-11-01/{name}"));
            let object = ArchiveObject::new(key, 1, None);
            assert_eq!((object.hour().as_str(), object.name()), (hour, name));
        }
    }

    #[test]
    fn the_day_stands_in_the_key_and_other_keys_are_none_of_an_archive() {
        let day = |key| day_of(key).map(|date| date.to_string());
        assert_eq!(day("queue=q/date=2026-11-01/20261101T120000Z-r.jsonl").as_deref(), Some("2026-11-01"));
        for key in [
            "",
            "replays/1/manifest.json",
            "queue=q/date=2026-11-01/a.json",
            "queue=q/date=2026-11-01/a/b.jsonl",
            "queue=q/date=2026-11-01/.jsonl",
            "queue=q/date=2026-13-01/a.jsonl",
            "queue=q/date=20261101/a.jsonl",
            "queue=q/date=+002026-11-01/a.jsonl",
            "queue=/date=2026-11-01/a.jsonl",
            "date=2026-11-01/a.jsonl",
        ] {
            assert_eq!(day(key), None, "{key}");
        }
    }

    #[test]
    fn the_parts_of_a_day_take_every_key_of_it_once() {
        let (hours, keys): (Vec<_>, Vec<_>) =
            hours_of("a/queue=overrides/date=2026-11-01/").into_iter().unzip();
        assert_eq!((hours.len(), &*hours[0], &*hours[25]), (26, "20261101", "20261101"));
        assert_eq!(keys[0].0, "a/queue=overrides/date=2026-11-01/");
        assert_eq!(
            (&*hours[8], &*keys[8].0),
            ("20261101T07", "a/queue=overrides/date=2026-11-01/20261101T07")
        );
        assert!(keys.windows(2).all(|two| two[0].1 == two[1].0));
        assert_eq!(keys[25].1, "a/queue=overrides/date=2026-11-01/\u{10ffff}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_key_can_be_looked_at(key in "\\PC{0,80}") {
            let object = ArchiveObject::new(key, 0, None);
            let _ = (object.queue(), object.time(), object.hour());
        }
    }
}

//! The index of an archive object: a summary of its letters. It is part of the object's key, so a listing
//! tells whether the object must be read.
//!
//! `2-n34-r3.exhausted.aB3dE6gh.30.refused.none.4` means: version 2, 34 letters, 3 of which had been replayed
//! before; then the number of letters for each reason and topic. A topic is written as the beginning of the
//! hash of its name. All characters are ones that S3 calls safe, and no part contains a `.`.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html>

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// The version that this software writes and reads. It is the version of the archive's layout; nothing was
/// released with one before.
const VERSION: &str = "2";

/// The largest number of groups that is written. With more groups, listing would cost as much as reading.
const MAX_GROUPS: usize = 12;

/// The length of a topic's hash in characters: 48 bits.
const TOPIC_CHARACTERS: usize = 8;

/// The name of the group of letters that have no topic.
const NO_TOPIC: &str = "none";

/// A summary of an archive object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectIndex {
    /// The number of letters in the object.
    pub letters: u64,
    /// The number of its letters that had been replayed before.
    pub replayed: u64,
    /// The letters by reason and topic. `None` if there are too many groups.
    pub groups: Option<Vec<IndexGroup>>,
}

/// Letters of one reason and one topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexGroup {
    /// The reason's name.
    pub reason: String,
    /// The [`topic_hash`] of the topic. `None` for letters without a topic.
    pub topic: Option<String>,
    /// The number of letters.
    pub letters: u64,
}

/// The facts about a letter that an index counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexEntry<'a> {
    pub(super) reason: &'a str,
    /// The topic's name.
    pub(super) topic: Option<&'a str>,
    pub(super) replayed: bool,
}

/// Returns the beginning of the hash of a topic's name, as an index holds it.
#[must_use]
pub fn topic_hash(name: &str) -> String {
    let mut hash = URL_SAFE_NO_PAD.encode(Sha256::digest(name));
    hash.truncate(TOPIC_CHARACTERS);
    hash
}

impl ObjectIndex {
    /// Builds the index of letters.
    pub(super) fn of<'a>(entries: impl IntoIterator<Item = IndexEntry<'a>>) -> Self {
        let (mut letters, mut replayed) = (0, 0);
        let mut groups: BTreeMap<(&str, Option<&str>), u64> = BTreeMap::new();
        for entry in entries {
            letters += 1;
            replayed += u64::from(entry.replayed);
            *groups.entry((entry.reason, entry.topic)).or_default() += 1;
        }
        let are_safe = groups.keys().all(|(reason, _)| is_reason(reason));
        let groups = (groups.len() <= MAX_GROUPS && are_safe).then(|| {
            let group = |((reason, topic), letters): ((&str, Option<&str>), u64)| IndexGroup {
                reason: reason.to_owned(),
                topic: topic.map(topic_hash),
                letters,
            };
            groups.into_iter().map(group).collect()
        });
        Self { letters, replayed, groups }
    }

    /// Returns the index without its groups.
    pub(super) fn in_short(&self) -> Self {
        Self { groups: None, ..*self }
    }

    /// Reads an index. Returns `None` unless the text is exactly an index of this version.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (head, groups) = match text.split_once('.') {
            Some((head, groups)) => (head, Some(groups)),
            None => (text, None),
        };
        let numbers = head.strip_prefix(VERSION)?.strip_prefix("-n")?;
        let (letters, replayed) = numbers.split_once("-r")?;
        let groups = match groups {
            Some(groups) => Some(parse_groups(groups)?),
            None => None,
        };
        let index = Self { letters: letters.parse().ok()?, replayed: replayed.parse().ok()?, groups };
        let sum = |groups: &Vec<IndexGroup>| {
            groups.iter().try_fold(0_u64, |sum, group| sum.checked_add(group.letters))
        };
        let adds_up = index.groups.as_ref().is_none_or(|groups| sum(groups) == Some(index.letters));
        (adds_up && index.replayed <= index.letters && index.to_string() == text).then_some(index)
    }
}

fn parse_groups(text: &str) -> Option<Vec<IndexGroup>> {
    let parts: Vec<_> = text.split('.').collect();
    let group = |parts: &[&str]| {
        let [reason, topic, letters] = parts else { return None };
        let hash = topic.len() == TOPIC_CHARACTERS && topic.bytes().all(is_base64url);
        if !is_reason(reason) || !(hash || *topic == NO_TOPIC) {
            return None;
        }
        let topic = hash.then(|| (*topic).to_owned());
        Some(IndexGroup { reason: (*reason).to_owned(), topic, letters: letters.parse().ok()? })
    };
    parts.chunks(3).map(group).collect()
}

fn is_reason(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

impl fmt::Display for ObjectIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}-n{}-r{}", self.letters, self.replayed)?;
        self.groups.iter().flatten().try_for_each(|IndexGroup { reason, topic, letters }| {
            write!(f, ".{reason}.{}.{letters}", topic.as_deref().unwrap_or(NO_TOPIC))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry<'a>(reason: &'a str, topic: Option<&'a str>, replayed: bool) -> IndexEntry<'a> {
        IndexEntry { reason, topic, replayed }
    }

    #[test]
    fn letters_are_counted_by_reason_and_topic() {
        let entries = [
            entry("refused", None, false),
            entry("exhausted", Some("payments"), true),
            entry("exhausted", Some("payments"), false),
            entry("exhausted", Some("billing"), false),
        ];
        let (payments, billing) = (topic_hash("payments"), topic_hash("billing"));
        let text = ObjectIndex::of(entries).to_string();
        assert_eq!(text, format!("2-n4-r1.exhausted.{billing}.1.exhausted.{payments}.2.refused.none.1"));
        assert_eq!(payments, "3zhK6Xx3", "hashes are stored, so they must never change");
    }

    #[test]
    fn too_many_groups_and_reasons_that_do_not_fit_a_key_are_left_out() {
        let names: Vec<_> = (0..=MAX_GROUPS).map(|number| format!("t{number}")).collect();
        let of = |count: usize| {
            ObjectIndex::of(names[..count].iter().map(|name| entry("rule", Some(name), false)))
        };
        assert_eq!(of(MAX_GROUPS).groups.map(|groups| groups.len()), Some(MAX_GROUPS));
        assert_eq!(of(MAX_GROUPS + 1).to_string(), "2-n13-r0");
        assert_eq!(ObjectIndex::of([entry("a/b", None, false)]).to_string(), "2-n1-r0");
    }

    #[test]
    fn only_the_very_text_of_an_index_is_one() {
        let good = "2-n34-r3.exhausted.aB3dE6gh.30.refused.none.4";
        assert!(ObjectIndex::parse(good).is_some() && ObjectIndex::parse("2-n34-r3").is_some());
        for text in [
            "",
            "1",
            "3-n34-r3",
            "2-n34",
            "2-n034-r3",
            "2-n+34-r3",
            "2-n3-r4",
            "2-n34-r3.",
            "2-n34-r3.exhausted.aB3dE6gh.30",
            "2-n30-r3.exhausted.aB3dE6g.30",
            "2-n30-r3.exhausted.aB3dE6gh",
            "2-n30-r3.Exhausted.aB3dE6gh.30",
            "2-n30-r3.exhausted.aB3dE6gh.30.jsonl",
            "2-n1-r0.rule.none.18446744073709551615.rule.none.2",
        ] {
            assert_eq!(ObjectIndex::parse(text), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn an_index_is_read_as_it_was_written(
            letters in prop::collection::vec(("[a-z_]{1,12}", prop::option::of(".{0,12}"), any::<bool>()), 0..30),
        ) {
            let entries = letters.iter().map(|(reason, topic, replayed)| entry(reason, topic.as_deref(), *replayed));
            let index = ObjectIndex::of(entries);
            let expected = if letters.is_empty() { index.in_short() } else { index.clone() };
            prop_assert_eq!(ObjectIndex::parse(&index.to_string()), Some(expected));
            prop_assert_eq!(ObjectIndex::parse(&index.in_short().to_string()), Some(index.in_short()));
        }

        #[test]
        fn any_text_is_an_index_or_none(
            text in prop_oneof![".{0,60}", "2-n[0-9]{1,30}-r[0-9]{1,3}[.a-z0-9_-]{0,60}"],
        ) {
            if let Some(index) = ObjectIndex::parse(&text) {
                prop_assert_eq!(index.to_string(), text);
            }
        }
    }
}

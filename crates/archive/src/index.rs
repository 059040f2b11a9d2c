//! The index of an archive object: a summary of its letters. It is part of the object's key, so a listing
//! tells whether the object must be read.
//!
//! `2-n34-r3.exhausted.aB3dE6gh.30.refused.none.4.T.0413ea87415c.30.none.4` means: version 2, 34 letters, 3 of
//! which had been replayed before; then the number of letters for each reason and topic, and after `T` for each
//! target. A topic is written as the beginning of the hash of its name, a target as in the keys of waiting letters. All
//! characters are ones that S3 calls safe, and no part contains a `.`.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html>

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_core::endpoint::TargetName;
use sha2::{Digest, Sha256};

/// The version that this software writes and reads. It is the version of the archive's layout; nothing was
/// released with one before.
const VERSION: &str = "2";

/// The largest number of groups that is written, and of targets. With more groups, listing would cost as much as reading.
const MAX_GROUPS: usize = 12;

/// The length of a topic's hash in characters: 48 bits.
const TOPIC_CHARACTERS: usize = 8;

/// The name of the group of letters that have no topic, or no target.
const NONE: &str = "none";

/// The part before the targets. No reason has capitals.
const TARGETS: &str = "T";

/// A summary of an archive object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectIndex {
    /// The number of letters in the object.
    pub letters: u64,
    /// The number of its letters that had been replayed before.
    pub replayed: u64,
    /// The letters by reason and topic. `None` if there are too many groups.
    pub groups: Option<Vec<IndexGroup>>,
    /// The letters by the [`TargetName::digest`] of their target. `None` if there are too many targets.
    pub targets: Option<Vec<(Option<String>, u64)>>,
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
#[derive(Debug, Clone)]
pub(super) struct IndexEntry<'a> {
    pub(super) reason: &'a str,
    /// The topic's name.
    pub(super) topic: Option<&'a str>,
    pub(super) target: Option<TargetName>,
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
        let mut targets: BTreeMap<Option<TargetName>, u64> = BTreeMap::new();
        for entry in entries {
            letters += 1;
            replayed += u64::from(entry.replayed);
            *groups.entry((entry.reason, entry.topic)).or_default() += 1;
            *targets.entry(entry.target).or_default() += 1;
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
        let digest = |(target, letters): (Option<TargetName>, u64)| (target.map(|it| it.digest()), letters);
        let targets = (targets.len() <= MAX_GROUPS).then(|| targets.into_iter().map(digest).collect());
        Self { letters, replayed, groups, targets }
    }

    /// Returns the index without its groups and targets.
    pub(super) fn in_short(&self) -> Self {
        Self { groups: None, targets: None, ..*self }
    }

    /// Returns the number of letters of these targets, or `None` if the index does not tell.
    pub(super) fn letters_of(&self, targets: &[TargetName]) -> Option<u64> {
        let digests: Vec<_> = targets.iter().map(TargetName::digest).collect();
        let is_wanted = |target: &Option<String>| target.as_ref().is_some_and(|it| digests.contains(it));
        let wanted = self.targets.as_ref()?.iter().filter(|(target, _)| is_wanted(target));
        Some(wanted.map(|(_, letters)| letters).sum())
    }

    /// Reads an index. Returns `None` unless the text is exactly an index of this version.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (text_before, targets) = match text.split_once(&format!(".{TARGETS}.")) {
            Some((before, targets)) => (before, Some(parse_targets(targets)?)),
            None => (text, None),
        };
        let (head, groups) = match text_before.split_once('.') {
            Some((head, groups)) => (head, Some(groups)),
            None => (text_before, None),
        };
        let numbers = head.strip_prefix(VERSION)?.strip_prefix("-n")?;
        let (letters, replayed) = numbers.split_once("-r")?;
        let groups = match groups {
            Some(groups) => Some(parse_groups(groups)?),
            None => None,
        };
        let (letters, replayed) = (letters.parse().ok()?, replayed.parse().ok()?);
        let sum = |mut all: std::slice::Iter<'_, u64>| all.try_fold(0_u64, |sum, one| sum.checked_add(*one));
        let of_groups = groups.as_ref().map(|groups| groups.iter().map(|group| group.letters).collect());
        let of_targets =
            targets.as_ref().map(|targets| targets.iter().map(|(_, letters)| *letters).collect());
        let parts: [Option<Vec<u64>>; 2] = [of_groups, of_targets];
        let adds_up = parts.iter().flatten().all(|numbers| sum(numbers.iter()) == Some(letters));
        let index = Self { letters, replayed, groups, targets };
        (adds_up && index.replayed <= index.letters && index.to_string() == text).then_some(index)
    }
}

fn parse_groups(text: &str) -> Option<Vec<IndexGroup>> {
    let parts: Vec<_> = text.split('.').collect();
    let group = |parts: &[&str]| {
        let [reason, topic, letters] = parts else { return None };
        let hash = topic.len() == TOPIC_CHARACTERS && topic.bytes().all(is_base64url);
        if !is_reason(reason) || !(hash || *topic == NONE) {
            return None;
        }
        let topic = hash.then(|| (*topic).to_owned());
        Some(IndexGroup { reason: (*reason).to_owned(), topic, letters: letters.parse().ok()? })
    };
    parts.chunks(3).map(group).collect()
}

fn parse_targets(text: &str) -> Option<Vec<(Option<String>, u64)>> {
    let parts: Vec<_> = text.split('.').collect();
    let target = |parts: &[&str]| {
        let [digest, letters] = parts else { return None };
        let is_digest = TargetName::is_digest(digest);
        (is_digest || *digest == NONE)
            .then_some((is_digest.then(|| (*digest).to_owned()), letters.parse().ok()?))
    };
    parts.chunks(2).map(target).collect()
}

fn is_reason(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-'))
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

impl fmt::Display for ObjectIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}-n{}-r{}", self.letters, self.replayed)?;
        self.groups.iter().flatten().try_for_each(|IndexGroup { reason, topic, letters }| {
            write!(f, ".{reason}.{}.{letters}", topic.as_deref().unwrap_or(NONE))
        })?;
        let Some(targets) = self.targets.as_ref().filter(|targets| !targets.is_empty()) else {
            return Ok(());
        };
        write!(f, ".{TARGETS}")?;
        targets
            .iter()
            .try_for_each(|(target, letters)| write!(f, ".{}.{letters}", target.as_deref().unwrap_or(NONE)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redrive_core::policy::ArchiveReason;

    use super::*;

    fn entry<'a>(reason: &'a str, topic: Option<&'a str>, replayed: bool) -> IndexEntry<'a> {
        IndexEntry { reason, topic, target: None, replayed }
    }

    const TARGET: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";

    /// Returns the same letter with a target.
    fn towards<'a>(mut entry: IndexEntry<'a>, target: &str) -> IndexEntry<'a> {
        entry.target = Some(TargetName::read(target));
        entry
    }

    #[test]
    fn letters_are_counted_by_reason_and_topic_and_by_target() {
        let entries = [
            entry("refused", None, false),
            towards(entry("exhausted", Some("payments"), true), TARGET),
            towards(entry("exhausted", Some("payments"), false), "https://a.example/secret"),
            towards(entry("exhausted", Some("billing"), false), TARGET),
        ];
        let (payments, billing) = (topic_hash("payments"), topic_hash("billing"));
        let index = ObjectIndex::of(entries);
        let hook = TargetName::read("https://a.example/secret");
        let groups = format!("exhausted.{billing}.1.exhausted.{payments}.2.refused.none.1");
        let targets = format!("none.1.0413ea87415c.2.{}.1", hook.digest());
        assert_eq!(index.to_string(), format!("2-n4-r1.{groups}.T.{targets}"));
        assert_eq!(payments, "3zhK6Xx3", "hashes are stored, so they must never change");
        let [worker, other] = [TARGET, "arn:aws:sqs:eu-central-1:123456789012:other"].map(TargetName::read);
        for (targets, letters) in
            [(vec![worker.clone()], 2), (vec![worker, hook.clone(), hook], 3), (vec![other], 0)]
        {
            assert_eq!(index.letters_of(&targets), Some(letters));
            assert_eq!(index.in_short().letters_of(&targets), None);
        }
    }

    #[test]
    fn too_many_groups_and_reasons_that_do_not_fit_a_key_are_left_out() {
        let names: Vec<_> = (0..=MAX_GROUPS).map(|number| format!("t{number}")).collect();
        let of = |count: usize| {
            ObjectIndex::of(names[..count].iter().map(|name| entry("rule", Some(name), false)))
        };
        assert_eq!(of(MAX_GROUPS).groups.map(|groups| groups.len()), Some(MAX_GROUPS));
        assert_eq!(of(MAX_GROUPS + 1).to_string(), "2-n13-r0.T.none.13");
        assert_eq!(ObjectIndex::of([entry("a/b", None, false)]).to_string(), "2-n1-r0.T.none.1");
        let targets = (0..=MAX_GROUPS)
            .map(|number| towards(entry("rule", None, false), &format!("https://{number}.example")));
        assert_eq!(ObjectIndex::of(targets).to_string(), "2-n13-r0.rule.none.13");
    }

    #[test]
    fn every_reason_stands_in_a_key() {
        for reason in ArchiveReason::ALL {
            let index = ObjectIndex::of([entry(reason.name(), None, false)]);
            assert_eq!(index.groups.map(|groups| groups.len()), Some(1), "{}", reason.name());
        }
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
            "2-n34-r3.T",
            "2-n34-r3.T.none",
            "2-n34-r3.T.none.33",
            "2-n34-r3.T.0413ea87415.34",
            "2-n34-r3.T.none.34.T.none.34",
            "2-n34-r3.T.none.34.exhausted.none.34",
        ] {
            assert_eq!(ObjectIndex::parse(text), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn an_index_is_read_as_it_was_written(
            letters in prop::collection::vec(
                ("[a-z_]{1,12}", prop::option::of(".{0,12}"), prop::option::of("https://[a-z]{1,3}"), any::<bool>()),
                0..30,
            ),
        ) {
            let entries = letters.iter().map(|(reason, topic, target, replayed)| IndexEntry {
                target: target.as_deref().map(TargetName::read),
                ..entry(reason, topic.as_deref(), *replayed)
            });
            let index = ObjectIndex::of(entries);
            let expected = if letters.is_empty() { index.in_short() } else { index.clone() };
            prop_assert_eq!(ObjectIndex::parse(&index.to_string()), Some(expected));
            prop_assert_eq!(ObjectIndex::parse(&index.in_short().to_string()), Some(index.in_short()));
        }

        #[test]
        fn any_text_is_an_index_or_none(
            text in prop_oneof![".{0,60}", "2-n[0-9]{1,30}-r[0-9]{1,3}[.a-zT0-9_-]{0,60}"],
        ) {
            if let Some(index) = ObjectIndex::parse(&text) {
                prop_assert_eq!(index.to_string(), text);
            }
        }
    }
}

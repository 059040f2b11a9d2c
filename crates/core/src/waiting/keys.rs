//! The keys of the control objects.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::WaitingLetter;
use crate::arn::Arn;
use crate::endpoint::TargetName;

/// The largest number of targets that a key names. The object of a key that ends in `+` may have letters of others.
pub const MAX_KEY_TARGETS: usize = 8;

/// The name of letters whose target is not known: one of them may be the newest line of a letter of any target.
const UNKNOWN: &str = "unknown";

/// The end of the keys of the list.
const LINES: &str = ".jsonl";

/// The targets of an object of the list, as its key names them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitingKey {
    /// The number of letters of each target, by the digest of its name.
    targets: BTreeMap<String, u64>,
    /// The number of letters whose target is not known.
    unknown: u64,
    /// True if there are more targets.
    has_more: bool,
}

impl WaitingKey {
    /// Counts the letters of each target. The targets of most letters are named.
    #[must_use]
    pub fn of(letters: &[WaitingLetter]) -> Self {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for target in letters.iter().filter_map(|letter| letter.target.as_ref()) {
            *all.entry(target.digest()).or_default() += 1;
        }
        let mut most: Vec<_> = all.into_iter().collect();
        most.sort_by_key(|(_, letters)| std::cmp::Reverse(*letters));
        let has_more = most.len() > MAX_KEY_TARGETS;
        most.truncate(MAX_KEY_TARGETS);
        let unknown = letters.iter().filter(|letter| letter.target.is_none()).count() as u64;
        Self { targets: most.into_iter().collect(), unknown, has_more }
    }

    /// Reads the targets from a key.
    #[must_use]
    pub fn read(key: &str) -> Self {
        let mut read = Self::default();
        let mut rest = key.strip_suffix(LINES).unwrap_or(key);
        if let Some(before) = rest.strip_suffix(".+") {
            (read.has_more, rest) = (true, before);
        }
        while let Some((before, target)) = rest.rsplit_once('.') {
            let Some((digest, letters)) = target.split_once('-') else { break };
            let Ok(letters) = letters.parse() else { break };
            if digest == UNKNOWN {
                read.unknown = letters;
            } else if TargetName::is_digest(digest) {
                read.targets.insert(digest.to_owned(), letters);
            } else {
                break;
            }
            rest = before;
        }
        read
    }

    /// Returns the number of letters of a target, by the digest of its name: at most so many, as some of them may not
    /// wait any more. `None` if the key does not tell, and the object has to be read.
    #[must_use]
    pub fn letters_of(&self, digest: &str) -> Option<u64> {
        let letters = self.targets.get(digest).copied();
        letters.or(if self.has_more { None } else { Some(0) })
    }

    /// Reports whether the object may have letters of a target, or of one that was not known when they were listed.
    #[must_use]
    pub fn may_have(&self, digest: &str) -> bool {
        self.unknown > 0 || self.letters_of(digest) != Some(0)
    }

    /// Returns the largest number of letters of a target that the key allows. A target that it does not name has no more than
    /// any that it names; letters whose target is not known may be of any.
    #[must_use]
    pub fn most_letters_of(&self, digest: &str) -> u64 {
        let least = || self.targets.values().min().copied();
        self.letters_of(digest).or_else(least).unwrap_or(0).saturating_add(self.unknown)
    }

    /// Returns `<prefix>/waiting/queue=<name>/hour=<yyyy-mm-ddThh>/<time>-<request id>.<digest>-<letters>.jsonl`, with up to
    /// [`MAX_KEY_TARGETS`] targets, `unknown` for letters whose target is not known, and a `+` if there are more. Times are
    /// UTC.
    #[must_use]
    pub fn key(&self, prefix: &str, queue: &Arn, now: Timestamp, request_id: &str) -> String {
        let mut key = format!("{}{}-{request_id}", waiting_prefix(prefix, queue), waiting_from(now));
        for (digest, letters) in &self.targets {
            key.extend([".", digest, "-", &letters.to_string()]);
        }
        if self.unknown > 0 {
            key.extend([".", UNKNOWN, "-", &self.unknown.to_string()]);
        }
        key + if self.has_more { ".+" } else { "" } + LINES
    }
}

/// Returns the key of the document of overrides below a `CONTROL` prefix.
#[must_use]
pub fn overrides_key(prefix: &str) -> String {
    format!("{}overrides.json", folder(prefix))
}

/// Returns the key of the document of recoveries below a `CONTROL` prefix.
#[must_use]
pub fn recoveries_key(prefix: &str) -> String {
    format!("{}recoveries.json", folder(prefix))
}

/// Returns the prefix of the keys of ended overrides.
#[must_use]
pub fn ended_overrides_prefix(prefix: &str) -> String {
    format!("{}overrides/", folder(prefix))
}

/// Returns the key of an ended override.
#[must_use]
pub fn ended_override_key(prefix: &str, id: &str) -> String {
    format!("{}{id}.json", ended_overrides_prefix(prefix))
}

/// Returns the prefix of the keys of all waiting letters; the name of a queue and a slash follow.
#[must_use]
pub fn waiting_root(prefix: &str) -> String {
    format!("{}waiting/queue=", folder(prefix))
}

/// Returns the prefix of the keys of a queue's waiting letters.
#[must_use]
pub fn waiting_prefix(prefix: &str, queue: &Arn) -> String {
    format!("{}{}/", waiting_root(prefix), queue.resource())
}

/// Returns the beginning of an hour's keys, below a queue's prefix. Keys are listed in the order of time.
#[must_use]
pub fn waiting_hour(at: Timestamp) -> String {
    format!("hour={}", at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H"))
}

/// Returns the time of the invocation that wrote a key of waiting letters.
#[must_use]
pub fn written_at(key: &str) -> Option<Timestamp> {
    let name = key.rsplit('/').next()?;
    let (time, _) = name.split_once('-')?;
    let time = DateTime::strptime("%Y%m%dT%H%M%S%.fZ", time).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Returns the beginning of the keys of one moment, below a queue's prefix.
#[must_use]
pub fn waiting_from(at: Timestamp) -> String {
    format!("{}/{}", waiting_hour(at), at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S%.3fZ"))
}

fn folder(prefix: &str) -> String {
    let prefix = prefix.trim_matches('/');
    if prefix.is_empty() { String::new() } else { format!("{prefix}/") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_stand_below_the_prefix_by_queue_and_hour() {
        let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq".parse().unwrap();
        let now = "2026-11-01T23:59:58.9Z".parse().unwrap();
        let key = WaitingKey::default().key("/dead-control/", &queue, now, "req-1");
        assert_eq!(
            key,
            "dead-control/waiting/queue=payments-dlq/hour=2026-11-01T23/20261101T235958.900Z-req-1.jsonl"
        );
        assert_eq!(written_at(&key), Some(now));
        assert_eq!(written_at("dead-control/waiting/queue=a/hour=x/notes.txt"), None);
        assert_eq!(overrides_key(""), "overrides.json");
        assert_eq!(recoveries_key("a"), "a/recoveries.json");
        assert_eq!(ended_override_key("a/b", "7"), "a/b/overrides/7.json");
    }

    #[test]
    fn a_key_tells_how_many_letters_wait_for_a_target() {
        let line = |target: Option<String>| {
            let target = target.map(|target| TargetName::read(&target));
            let line = json!({ "letterId": "a", "messageId": "a", "receiptHandle": "h", "rule": "default",
                "queueArn": "arn:aws:sqs:eu-central-1:123456789012:dlq", "target": target,
                "retry": { "number": 1, "of": 2 }, "since": "2026-11-01T12:00:00Z", "due": "2026-11-01T12:00:00Z" });
            serde_json::from_value::<WaitingLetter>(line).unwrap()
        };
        let target = |number: usize| format!("arn:aws:sqs:eu-central-1:123456789012:target-{number}");
        let digest = |number: usize| TargetName::read(&target(number)).digest();
        let queue = "arn:aws:sqs:eu-central-1:123456789012:dlq".parse().unwrap();
        let written = |lines: &[WaitingLetter]| {
            let key = WaitingKey::of(lines).key("c", &queue, Timestamp::UNIX_EPOCH, "0.5-a");
            assert_eq!(written_at(&key), Some(Timestamp::UNIX_EPOCH));
            assert_eq!(WaitingKey::read(&key), WaitingKey::of(lines));
            key
        };
        let mut few = vec![line(Some(target(1))), line(Some(target(2))), line(Some(target(1)))];
        let key = WaitingKey::read(&written(&few));
        assert_eq!([1, 2, 3].map(|number| key.letters_of(&digest(number))), [Some(2), Some(1), Some(0)]);
        few.push(line(None));
        let key = WaitingKey::read(&written(&few));
        assert_eq!([1, 3].map(|number| key.letters_of(&digest(number))), [Some(2), Some(0)]);
        assert_eq!([1, 3].map(|number| key.most_letters_of(&digest(number))), [3, 1], "whose is it?");
        assert!(key.may_have(&digest(3)));

        let many: Vec<_> = (0..20).map(|number| line(Some(target(number.min(8))))).collect();
        let key = written(&many);
        assert!(key.ends_with(".+.jsonl") && key.len() < 300, "{key}");
        let key = WaitingKey::read(&key);
        assert_eq!(key.letters_of(&digest(8)), Some(12), "the targets of most letters");
        let unknown = (0..8).filter(|number| key.letters_of(&digest(*number)).is_none()).count();
        assert_eq!((unknown, key.letters_of(&digest(9))), (1, None));
        assert_eq!(
            [8, 9].map(|number| key.most_letters_of(&digest(number))),
            [12, 1],
            "no more than the named"
        );
        assert_eq!(WaitingKey::read("a/b.c-1.jsonl").letters_of("c"), Some(0), "no digest");
    }
}

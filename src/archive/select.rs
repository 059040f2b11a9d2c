//! Which letters of an archive are meant.
//!
//! Keys hold the queue's name and the day (`queue=<name>/date=<yyyy-mm-dd>/`), so much of an archive
//! need not even be listed; the rest is told by each record. All of it is pure.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::read::BadRecord;
use super::record::Record;
use crate::arn::Arn;
use crate::letter::Letter;
use crate::policy::{BadPolicy, Policy, Unmatchable};

/// Letters of an archive. What is not given, or an empty list, is no limit.
#[derive(Debug, Default)]
pub struct Selection {
    /// The queue that they lay in: its ARN, or its name.
    pub queue: Option<String>,
    /// Archived at this time or later.
    pub from: Option<Timestamp>,
    /// Archived before this time.
    pub to: Option<Timestamp>,
    /// Archived before this time, and stored before it by S3's own clock: an object that shows up later
    /// is no part of it, even if it says that it is older.
    pub cut_off: Option<Timestamp>,
    /// Why they were archived: names of [`crate::policy::ArchiveReason`].
    pub reasons: Vec<String>,
    /// The topic of the SNS message in them: its ARN, or its name.
    pub topics: Vec<String>,
    /// How they got into their queue: names of [`crate::letter::Origin`].
    pub origins: Vec<String>,
    /// What the letters are.
    pub pattern: Option<Pattern>,
}

/// An `EventBridge` pattern over the view of a letter, as the rules of a policy have it.
#[derive(Debug)]
pub struct Pattern(Policy);

/// Why nobody can say whether a record belongs to a selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// The record cannot be used.
    #[error(transparent)]
    Bad(#[from] BadRecord),
    /// The pattern cannot be matched against it.
    #[error("cannot be matched: {0}")]
    Unmatchable(#[from] Unmatchable),
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words.
    pub fn parse(json: &str) -> Result<Self, Vec<String>> {
        let pattern: serde_json::Value =
            serde_json::from_str(json).map_err(|error| vec![format!("is not JSON: {error}")])?;
        // The matcher is the policy's own, so a pattern means here what it means there.
        let policy = serde_json::json!({ "rules": [{ "name": "selected", "match": pattern }] });
        let problems = |bad: BadPolicy| bad.0.into_iter().map(|fault| fault.problem).collect();
        Policy::parse(&policy.to_string()).map(Self).map_err(problems)
    }

    /// Whether a letter matches.
    ///
    /// # Errors
    ///
    /// [`Unmatchable`], where nobody can say in reasonable time.
    pub fn matches(&self, letter: &Letter) -> Result<bool, Unmatchable> {
        Ok(self.0.rule_for(letter)?.name != self.0.default_rule().name)
    }
}

impl Selection {
    /// Whether a record belongs to it.
    ///
    /// # Errors
    ///
    /// [`Undecided`] where nobody can say.
    pub fn takes(&self, record: &Record) -> Result<bool, Undecided> {
        let archived = record.archived();
        let any = |wanted: &[String], found: &str| wanted.is_empty() || wanted.iter().any(|it| it == found);
        let named = |wanted: &String, arn: &Arn| wanted == arn.as_str() || wanted == arn.resource();
        let topic = || record.topic_arn.as_ref();
        let told_by_record = self.from.is_none_or(|from| archived >= from)
            && self.until().is_none_or(|until| archived < until)
            && self.queue.as_ref().is_none_or(|queue| named(queue, &record.queue_arn))
            && any(&self.reasons, &record.reason)
            && any(&self.origins, &record.origin)
            && (self.topics.is_empty()
                || topic().is_some_and(|topic| self.topics.iter().any(|wanted| named(wanted, topic))));
        match &self.pattern {
            Some(pattern) if told_by_record => Ok(pattern.matches(&record.to_letter()?)?),
            _ => Ok(told_by_record),
        }
    }

    /// The end of its time, where it has one.
    fn until(&self) -> Option<Timestamp> {
        self.to.into_iter().chain(self.cut_off).min()
    }

    /// The queue's name, by which its keys are known.
    pub(super) fn queue_name(&self) -> Option<&str> {
        let queue = self.queue.as_deref()?;
        Some(queue.rsplit(':').next().unwrap_or(queue))
    }

    /// The days whose objects may hold some of it, first and last.
    pub(super) fn days(&self) -> (Option<Date>, Option<Date>) {
        let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
        (self.from.map(day), self.until().map(day))
    }

    /// Whether an object that S3 stored at that time may hold some of it. Its letters were archived before,
    /// by a clock that may differ.
    pub(super) fn stored_in_time(&self, stored: Option<Timestamp>) -> bool {
        let Some(stored) = stored else { return true };
        let late = stored.saturating_add(CLOCK_SKEW).unwrap_or(stored);
        self.cut_off.is_none_or(|cut_off| stored < cut_off) && self.from.is_none_or(|from| late >= from)
    }
}

/// By how much S3's clock and that of whoever archived may differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The day of an object of an archive; `None` for any other key. `after_prefix` is the key without the
/// archive's prefix.
pub(super) fn day_of(after_prefix: &str) -> Option<Date> {
    let (queue, rest) = after_prefix.strip_prefix("queue=")?.split_once('/')?;
    let (date, name) = rest.strip_prefix("date=")?.split_once('/')?;
    let is_file = name.strip_suffix(".jsonl").is_some_and(|name| !name.is_empty() && !name.contains('/'));
    if queue.is_empty() || !is_file {
        return None;
    }
    date.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "queue=/date=2026-11-01/a.jsonl",
            "date=2026-11-01/a.jsonl",
        ] {
            assert_eq!(day(key), None, "{key}");
        }
    }
}

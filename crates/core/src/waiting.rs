//! The list of waiting letters: the letters that an invocation has hidden for long, so that an operator can
//! wake them.
//!
//! The list is advice, never state. No decision depends on it, and a line may be stale, missing or there
//! twice. An invocation that hides letters for more than [`LISTED_ABOVE`] seconds writes one object with a
//! line of JSON for each.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::arn::Arn;
use crate::endpoint::TargetName;

/// The longest time, in seconds, that a letter can be hidden without being listed: it comes back soon enough
/// by itself.
pub const LISTED_ABOVE: u64 = 120;

/// A letter that was hidden, as known to the invocation that hid it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingLetter {
    /// The letter's id.
    pub letter_id: String,
    /// SQS's id of the message.
    pub message_id: String,
    /// The handle of the receive after which it was hidden. It must never be logged.
    pub receipt_handle: String,
    /// The queue that it lies in.
    pub queue_arn: Arn,
    /// The dead-letter queue that it came from, if it lies in the requeue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_queue_arn: Option<Arn>,
    /// Its topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_arn: Option<String>,
    /// Its subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription_arn: Option<String>,
    /// The target of a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetName>,
    /// The rule that it falls under.
    pub rule: String,
    /// The code of the failure that it waits after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What holds it, if it waits for no retry: `override <id>`, `rule <name>`, or `overrides` that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    /// The retry that comes next.
    pub retry: WaitingRetry,
    /// The time when the letter first arrived.
    pub since: Timestamp,
    /// The time when its retry is due.
    pub due: Timestamp,
}

/// The retry that a letter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingRetry {
    /// Its number.
    pub number: u32,
    /// The number of retries in the schedule.
    pub of: u32,
}

/// Hides the receipt handle.
impl fmt::Debug for WaitingLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingLetter")
            .field("letter_id", &self.letter_id)
            .field("message_id", &self.message_id)
            .field("queue_arn", &self.queue_arn)
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

/// Returns the key of the document of overrides below a `CONTROL` prefix.
#[must_use]
pub fn overrides_key(prefix: &str) -> String {
    format!("{}overrides.json", folder(prefix))
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

/// Returns `<prefix>/waiting/queue=<name>/hour=<yyyy-mm-ddThh>/<time>-<request id>.jsonl`; times are UTC.
#[must_use]
pub fn waiting_key(prefix: &str, queue: &Arn, now: Timestamp, request_id: &str) -> String {
    format!("{}{}-{request_id}.jsonl", waiting_prefix(prefix, queue), waiting_from(now))
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
    use super::*;

    #[test]
    fn keys_stand_below_the_prefix_by_queue_and_hour() {
        let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq".parse().unwrap();
        let now = "2026-11-01T23:59:58.9Z".parse().unwrap();
        let key = waiting_key("/dead-control/", &queue, now, "req-1");
        assert_eq!(
            key,
            "dead-control/waiting/queue=payments-dlq/hour=2026-11-01T23/20261101T235958.900Z-req-1.jsonl"
        );
        assert_eq!(written_at(&key), Some(now));
        assert_eq!(written_at("dead-control/waiting/queue=a/hour=x/notes.txt"), None);
        assert_eq!(overrides_key(""), "overrides.json");
        assert_eq!(ended_override_key("a/b", "7"), "a/b/overrides/7.json");
    }
}

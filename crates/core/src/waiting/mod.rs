//! The list of waiting letters: the letters that an invocation has hidden for long, so that they can be woken: by an
//! operator, or by the function when their endpoint is back.
//!
//! The list is advice, never state. No decision depends on it, and a line may be stale, missing or there
//! twice. An invocation that hides letters for more than [`LISTED_ABOVE`] seconds, or several of a busy instance, write one
//! object with a line of JSON for each. The object's key says how many of them wait for which target ([`WaitingKey`]).

mod keys;
mod recoveries;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use keys::{
    MAX_KEY_TARGETS, WaitingKey, ended_override_key, ended_overrides_prefix, overrides_key, recoveries_key,
    waiting_from, waiting_hour, waiting_prefix, waiting_root, written_at,
};
pub use recoveries::{BadRecoveries, EndpointRecovery, MAX_RECOVERIES_BYTES, Recoveries};

use crate::arn::Arn;
use crate::endpoint::TargetName;

/// The longest time, in seconds, that a letter can be hidden without being listed: it comes back soon enough
/// by itself.
pub const LISTED_ABOVE: u64 = 120;

/// The error of a letter whose attempt was left out because its endpoint is down.
pub const ENDPOINT_DOWN: &str = "EndpointDown";

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
    /// The time when it was hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Timestamp>,
    /// The time when it becomes visible by itself, if that is before its retry is due. From then on its receipt handle is
    /// one of an earlier receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible: Option<Timestamp>,
    /// True if it waits for its endpoint alone, so that the function wakes it when the endpoint is back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recovers: bool,
}

/// The retry that a letter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingRetry {
    /// Its number.
    pub number: u32,
    /// The number of retries in the schedule.
    pub of: u32,
}

impl WaitingLetter {
    /// Returns the time when it becomes visible by itself.
    #[must_use]
    pub fn shows(&self) -> Timestamp {
        self.visible.unwrap_or(self.due)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !value
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

//! The errors that end a replay.

use jiff::Timestamp;

use crate::failure::Failure;

/// Identities are remembered at 16 bytes each, and a hash table around them.
pub(super) const MAX_SELECTED: u64 = 2_000_000;

/// Why a replay cannot go on at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The wish makes no sense.
    #[error("bad request: {}", .0.join("; "))]
    Request(Vec<String>),
    /// There is another replay.
    #[error("another replay is under way; if it has died, its lock ends at {0}")]
    Busy(Timestamp),
    /// The lock could not be kept, so another replay may have begun.
    #[error("the lock was lost, perhaps to another replay; nothing is sent without it")]
    LockLost,
    /// It was told to stop before it knew what is selected.
    #[error(
        "there was no time to count the selection, and nothing was sent: narrow it, or give it more time"
    )]
    NotCounted,
    /// The replay stopped since its last step came back.
    #[error("replay {id} has stopped: {why}; ask for it with \"resume\" to go on")]
    Stopped {
        /// Its id.
        id: String,
        /// Why it stopped.
        why: String,
    },
    /// Too many letters for one replay.
    #[error("more than {MAX_SELECTED} letters are selected: narrow the selection by from and to")]
    TooMany,
    /// A call failed.
    #[error("{what} failed: {} ({}){}", .failure.code, .failure.class.name(), .failure.message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Failed {
        /// What was tried.
        what: &'static str,
        /// How it failed.
        failure: Failure,
    },
}

pub(super) fn failed(what: &'static str) -> impl Fn(Failure) -> ReplayError {
    move |failure| ReplayError::Failed { what, failure }
}

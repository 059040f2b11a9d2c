//! The errors that end a replay.

use crate::archive::{Unread, WhyUnread};
use crate::failure::{Failure, FailureClass};

/// Why a replay cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The wish makes no sense.
    #[error("bad request: {}", .0.join("; "))]
    Request(Vec<String>),
    /// There is no replay of this id.
    #[error("there is no replay {0}")]
    Unknown(String),
    /// Another worker is at letters of the selection, and does not come to an end.
    #[error("{0} is at work on letters of this selection; wait until it is through, or stop it")]
    Busy(String),
    /// Somebody else goes on with this replay.
    #[error("replay {0} was taken up by somebody else, who goes on with it")]
    TakenUp(String),
    /// It was told to stop before it knew what is selected.
    #[error(
        "there was no time to look through the archive, and nothing was sent: narrow the selection, or give it more time"
    )]
    NotPlanned,
    /// A newer version wrote what it needs.
    #[error("{0} was written by a newer version of this software, and was left as it is: use that version")]
    Newer(String),
    /// What it needs cannot be read.
    #[error("{0} is not what a replay keeps there, and was left as it is")]
    Broken(String),
    /// A call failed.
    #[error("{what} failed: {} ({}){}", .failure.code, .failure.class.name(), .failure.message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Failed {
        /// What was tried.
        what: String,
        /// How it failed.
        failure: Failure,
    },
}

/// The kinds of errors, by which callers tell apart what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The wish makes no sense, or nothing works on the letters.
    Request,
    /// Permissions are missing.
    Denied,
    /// Anything else.
    Failed,
}

impl ErrorKind {
    /// The type that the replay function gives its error, and Step Functions hands on.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "ReplayRequest",
            Self::Denied => "ReplayDenied",
            Self::Failed => "ReplayFailed",
        }
    }

    /// Returns the kind of this name; any other error failed, too.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let kinds = [Self::Request, Self::Denied];
        kinds.into_iter().find(|kind| kind.name() == name).unwrap_or(Self::Failed)
    }
}

impl ReplayError {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Request(_) => ErrorKind::Request,
            error if error.is_denied() => ErrorKind::Denied,
            _ => ErrorKind::Failed,
        }
    }

    pub(super) fn failed(what: impl Into<String>, failure: Failure) -> Self {
        Self::Failed { what: what.into(), failure }
    }

    /// A part of the archive that cannot be listed.
    pub(super) fn unlisted(unread: Unread) -> Self {
        Self::of("listing", unread)
    }

    /// A part of the archive that cannot be read.
    pub(super) fn unread(unread: Unread) -> Self {
        Self::of("reading", unread)
    }

    fn of(what: &str, unread: Unread) -> Self {
        let failure = match unread.why {
            WhyUnread::Call(failure) => failure,
            WhyUnread::Line(_) => Failure::ours(FailureClass::Permanent, "Unreadable"),
        };
        Self::failed(format!("{what} {}", unread.key), failure)
    }

    /// Whether AWS refused for lack of permissions.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Failed { failure, .. } if failure.is_denied())
    }
}

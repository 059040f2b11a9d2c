//! The errors that end a replay.

use redrive_archive::{UnreadItem, WhyUnread};
use redrive_aws::policy_object::UnreadPolicy;
use redrive_core::failure::{Failure, FailureClass};

/// The reason why a replay cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The request makes no sense.
    #[error("bad request: {}", .0.join("; "))]
    Request(Vec<String>),
    /// There is no replay with this id.
    #[error("there is no replay {0}: `redrivectl replay list` lists them")]
    Unknown(String),
    /// Another worker is at work on letters of the selection, and does not finish.
    #[error("{0} is working on letters of this selection: wait until it has finished, or stop it")]
    Busy(String),
    /// Somebody else continues this replay.
    #[error("replay {0} was resumed or freed elsewhere, and does not continue here")]
    TakenUp(String),
    /// It was told to stop before it knew which letters are selected.
    #[error(
        "the replay ended before it had searched the archive, and sent nothing: narrow the selection, or give it more time"
    )]
    NotPlanned,
    /// A newer version wrote an object that it needs.
    #[error("{0} was written by a newer version of this software, and was left as it is: use that version")]
    Newer(String),
    /// An object that it needs cannot be read.
    #[error("{0} is not a valid document of a replay, and was left as it is")]
    Broken(String),
    /// An object that it needs is larger than this software writes it, in bytes.
    #[error("{0} is larger than {1} bytes, so this software has not written it, and does not read it")]
    TooLarge(String, usize),
    /// A call failed.
    #[error("{what} failed: {} ({}){}", .failure.code, .failure.class.name(), .failure.message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Failed {
        /// The call.
        what: String,
        /// Its failure.
        failure: Failure,
    },
}

/// The kinds of errors, which tell callers what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request makes no sense, or no function would work on the letters that it sends.
    Request,
    /// Permissions are missing.
    Denied,
    /// Anything else.
    Failed,
}

impl ErrorKind {
    /// Returns the error type that the replay function reports and Step Functions passes on.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "ReplayRequest",
            Self::Denied => "ReplayDenied",
            Self::Failed => "ReplayFailed",
        }
    }

    /// Returns the kind with this name. Any other name is [`Self::Failed`].
    #[must_use]
    pub fn named(name: &str) -> Self {
        let kinds = [Self::Request, Self::Denied];
        kinds.into_iter().find(|kind| kind.name() == name).unwrap_or(Self::Failed)
    }
}

impl From<UnreadPolicy> for ReplayError {
    fn from(unread: UnreadPolicy) -> Self {
        match unread {
            UnreadPolicy::Call { object, failure } => {
                Self::failed(format!("reading the policy {object} (s3:GetObject)"), failure)
            }
            UnreadPolicy::Wrong { .. } => Self::Request(vec![unread.to_string()]),
        }
    }
}

impl ReplayError {
    /// Returns the kind of the error.
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

    /// Creates the error for a part of the archive that cannot be listed.
    pub(super) fn unlisted(unread: UnreadItem) -> Self {
        Self::of("listing", unread)
    }

    /// Creates the error for a part of the archive that cannot be read.
    pub(super) fn unread(unread: UnreadItem) -> Self {
        Self::of("reading", unread)
    }

    fn of(what: &str, unread: UnreadItem) -> Self {
        let failure = match unread.why {
            WhyUnread::Call(failure) => failure,
            WhyUnread::Late | WhyUnread::Line(_) => Failure::ours(FailureClass::Permanent, "Unreadable"),
        };
        Self::failed(format!("{what} {}", unread.key), failure)
    }

    /// Reports whether AWS refused because permissions are missing.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Failed { failure, .. } if failure.is_denied())
    }
}

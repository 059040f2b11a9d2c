//! A letter of a replay: its place, and whether it can be sent.

use std::borrow::Cow;
use std::fmt;

use redrive_archive::LetterIdentity;
use redrive_core::letter::Letter;

/// A place in the archive, or in the given records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordLocation {
    /// The object's key. Empty for given records.
    pub key: String,
    /// The line, from 1. `None` for a whole object.
    pub line: Option<u64>,
}

impl fmt::Display for RecordLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.key.as_str(), self.line) {
            ("", Some(line)) => write!(f, "line {line}"),
            (key, Some(line)) => write!(f, "{key}:{line}"),
            (key, None) => f.write_str(key),
        }
    }
}

/// The reason why a letter cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReplayable {
    /// It has ten attributes, and the mark would be the eleventh.
    Unmarkable,
    /// With the mark it is larger than a message may be.
    TooLarge,
    /// Its queue is FIFO and the requeue is not, or the other way round.
    OtherKind,
    /// It was in the requeue without having been moved there, so that queue seems to be a dead-letter queue.
    NotMoved,
    /// The replay with this id was cut off while it sent the letter.
    InDoubt(String),
    /// Neither its rule nor the replay names a target for it.
    NoTarget,
    /// It was given, but is not in the archive.
    NotArchived,
    /// It was given, and differs from the archive in more than an edit may change.
    Changed,
    /// An operator has erased it from the archive.
    Erased,
}

impl NotReplayable {
    /// Returns the name used in counts.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unmarkable => "unmarkable",
            Self::TooLarge => "tooLarge",
            Self::OtherKind => "otherKind",
            Self::NotMoved => "notMoved",
            Self::InDoubt(_) => "inDoubt",
            Self::NoTarget => "noTarget",
            Self::NotArchived => "notArchived",
            Self::Changed => "changed",
            Self::Erased => "erased",
        }
    }

    /// Returns the reason in words.
    #[must_use]
    pub fn why(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Unmarkable => {
                "has ten attributes already, so the mark does not fit: edit the letter to remove one"
            }
            Self::TooLarge => "is larger than 1 MiB with the mark: edit the letter to shorten its body",
            Self::OtherKind => {
                "comes from a FIFO queue, but the requeue is a standard queue, or the other way round: replay it by a stack whose Requeue is of its kind"
            }
            Self::NotMoved => {
                "comes from the requeue, but the function did not move it there: REQUEUE_ARN may be a dead-letter queue"
            }
            Self::InDoubt(replay) => {
                return Cow::Owned(format!(
                    "may have been sent by replay {replay}, which was cut off: resume that replay, or free its letters"
                ));
            }
            Self::NotArchived => {
                "was not found in the archive by its archivedAt, queues and messageId: give records of this archive, with these as they were"
            }
            Self::Changed => {
                "differs from the archive in more than body, subject and attributes, or in what these say of queues, topics, \
                 subscriptions and retries: edit nothing else; redrivectl archive diff shows the differences"
            }
            Self::Erased => "was erased from the archive",
            Self::NoTarget => "has no target: set the target of its rule, or that of the replay (to)",
        })
    }
}

/// A letter that can be sent.
#[derive(Debug)]
pub(super) struct ReplayableLetter {
    pub(super) at: RecordLocation,
    pub(super) identity: LetterIdentity,
    pub(super) letter: Letter,
    pub(super) edited: bool,
}

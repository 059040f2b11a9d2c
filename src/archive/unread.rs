//! What could not be read, and why.

use std::sync::Arc;

use super::select::Undecided;
use crate::failure::{Failure, FailureClass};

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The object's key, or the prefix that could not be listed.
    pub key: Arc<str>,
    /// The line in it, from 1; none where the object could not be read, or not to its end.
    pub line: Option<u64>,
    /// Why.
    pub why: WhyUnread,
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyUnread {
    /// S3 does not list or show it.
    Call(Failure),
    /// The line is no record that can be used, or cannot be matched.
    Line(Undecided),
}

impl WhyUnread {
    /// Whether it is the object or the line that cannot be read, whoever tries and how often. Missing permissions are not
    /// of this kind: somebody can mend them.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Call(failure) => {
                failure.class == FailureClass::Permanent || failure.code == "InvalidObjectState"
            }
            Self::Line(_) => true,
        }
    }

    /// Whether the object was deleted since it was listed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Call(failure) if failure.code == "NoSuchKey")
    }
}

impl std::fmt::Display for WhyUnread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(failure) => {
                write!(f, "{}", failure.code)?;
                failure.message.as_ref().map_or(Ok(()), |message| write!(f, ": {message}"))
            }
            Self::Line(why) => write!(f, "{why}"),
        }
    }
}

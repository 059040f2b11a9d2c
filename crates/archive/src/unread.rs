//! Parts of an archive that could not be read, and the reason.

use std::sync::Arc;

use redrive_core::failure::{Failure, FailureClass};

use super::read::BadRecord;

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadItem {
    /// The object's key, or the prefix that could not be listed.
    pub key: Arc<str>,
    /// The line, from 1. `None` if the object could not be read, or not to its end.
    pub line: Option<u64>,
    /// The reason.
    pub why: WhyUnread,
}

/// The reason why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyUnread {
    /// S3 refused to list or return it.
    Call(Failure),
    /// S3 stored the object at the cut-off of the selection or later, so none of its letters is selected.
    Late,
    /// The line is no usable record, or it cannot be matched.
    Line(BadRecord),
}

impl WhyUnread {
    /// Reports whether the object or the line itself is the cause, so that trying again never helps. Missing
    /// permissions do not count, because an operator can add them.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Call(failure) => {
                failure.class == FailureClass::Permanent || failure.code == "InvalidObjectState"
            }
            Self::Late | Self::Line(_) => true,
        }
    }

    /// Reports whether the object was deleted after it was listed, or turned out to be none of the selection.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Call(failure) => failure.code == "NoSuchKey",
            Self::Late => true,
            Self::Line(_) => false,
        }
    }
}

impl std::fmt::Display for WhyUnread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(failure) => {
                write!(f, "{}", failure.code)?;
                failure.message.as_ref().map_or(Ok(()), |message| write!(f, ": {message}"))
            }
            Self::Late => f.write_str("was stored after the cut-off"),
            Self::Line(why) => write!(f, "{why}"),
        }
    }
}

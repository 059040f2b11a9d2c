//! The endpoint that a letter's rule leads to, for overrides that pick letters by their target.

use crate::endpoint::TargetName;

/// What is known of the endpoint that a letter's rule leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LetterTarget {
    /// It leads to this endpoint.
    Known(TargetName),
    /// It leads to none, so the letter cannot be delivered.
    #[default]
    Nowhere,
    /// It takes a look-up to know that was not made.
    Unknown,
}

impl LetterTarget {
    /// Returns the name of the endpoint, if it is known.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Known(name) => Some(name.as_str()),
            Self::Nowhere | Self::Unknown => None,
        }
    }
}

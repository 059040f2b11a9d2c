//! An error as a service reports it.

use std::borrow::Cow;
use std::fmt;

/// A refusal of a request, or of one entry of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The HTTP status. An entry of a batch has no status of its own.
    pub status: u16,
    /// The code by which clients distinguish errors.
    pub code: Cow<'static, str>,
    /// The text for people.
    pub message: String,
}

impl Error {
    /// Returns an error with this status.
    pub fn new(status: u16, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into() }
    }

    /// Returns an error with status 400.
    pub(crate) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(400, code, message)
    }

    /// Reports whether the sender is at fault, which a status below 500 means.
    #[must_use]
    pub fn is_senders(&self) -> bool {
        self.status < 500
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}

/// The answers to the entries of a batch request: each entry's `Id` with its result.
pub type BatchAnswer<T> = Vec<(String, Result<T, Error>)>;

//! The result of sending one message.

use std::time::Duration;

use crate::failure::Failure;

/// The result of sending one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendResult {
    /// The service has accepted it.
    Accepted,
    /// It was not accepted, or it is unknown whether it was: a time-out may hide a success.
    Failed(Failure),
    /// It may not go there, which only the attempt showed. The text says why.
    Refused(&'static str),
    /// There was no time to begin.
    NotStarted,
    /// Its endpoint is left alone, or a question about it is not asked, for this time at least.
    LeftOut(Duration),
    /// Its endpoint is slow. It waits for the rest of this minute and so many full minutes.
    PutOff(u32),
    /// Other overrides were read before it began.
    Withheld,
}

//! The purposes of requests, and the number that may be under way at once.

use std::time::Duration;

/// The largest number of requests under way at once: enough for a thousand letters, which then need not wait
/// for each other.
pub const CONCURRENT_REQUESTS: usize = 100;

/// The largest number of requests to functions and web servers among them. Their letters go one by one, and a
/// function with few instances, or a server that has just come back, fails if it gets too many at once.
pub const CONCURRENT_SINGLES: usize = 16;

/// The purpose of a request, which says whether it may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestPurpose {
    /// It retries letters, so it may be left out while its endpoint is down.
    Retry {
        /// True if a letter in it has no further retry. Then it gets the full time for an answer.
        last: bool,
        /// The longest time that the letters wait if the endpoint asks for a pause.
        longest: Duration,
    },
    /// It does anything else, such as archiving. It is always made, and says nothing of its endpoint's health.
    Other,
}

impl RequestPurpose {
    /// Reports whether a letter in it has no further retry.
    #[must_use]
    pub fn is_last(self) -> bool {
        matches!(self, Self::Retry { last: true, .. })
    }
}

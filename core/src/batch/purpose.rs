//! What requests are made for, and how many may be under way at once.

use std::time::Duration;

/// Requests under way at once: a thousand letters, which need not wait for each other then.
pub const CONCURRENT_REQUESTS: usize = 100;

/// Of these, requests to functions and web servers: their letters go one by one, and a function with few instances, or a
/// server that has just come back, answers too many at once by failing them.
pub const CONCURRENT_SINGLES: usize = 16;

/// The purpose of a request, which says whether it may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// It retries letters, so it may be left out while its endpoint is down.
    Retry {
        /// Whether a letter in it has no further retry. It gets the full time for an answer then.
        last: bool,
        /// Whether an order asks for the attempt. Where it is left out, the letter comes back soon after the
        /// next trial.
        ordered: bool,
        /// The longest that the letters wait because the endpoint asks for it.
        longest: Duration,
    },
    /// It does anything else, such as archiving. It is always made, and says nothing of its endpoint's health.
    Other,
}

impl Purpose {
    /// Whether a letter in it has no further retry.
    #[must_use]
    pub fn is_last(self) -> bool {
        matches!(self, Self::Retry { last: true, .. })
    }
}

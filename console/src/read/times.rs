//! The time that a page may take.

use std::time::Duration;

use tokio::time::Instant;

/// Listings end then, so that there is time to read.
const LISTED: Duration = Duration::from_millis(1_100);

/// Reading ends then, so that there is time to render, also for the widget with its seventh of a processor.
const END: Duration = Duration::from_millis(1_700);

/// The moments at which parts of a page's reading end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The end of listings.
    pub(crate) listed: Instant,
    /// The end of all reading.
    pub(crate) end: Instant,
}

impl Times {
    /// The times of a page that begins now.
    pub(crate) fn from(now: Instant) -> Self {
        Self { listed: now + LISTED, end: now + END }
    }
}

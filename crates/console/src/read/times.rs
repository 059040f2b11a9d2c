//! The time limits of a page.

use std::time::Duration;

use tokio::time::Instant;

/// The time limit of listings. The rest is for reading.
const LISTED: Duration = Duration::from_millis(1_100);

/// The time limit of all reading. The rest is for rendering: the widget has a seventh of a processor.
const END: Duration = Duration::from_millis(1_700);

/// The time limits of one page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The time limit of listings.
    pub(crate) listed: Instant,
    /// The time limit of all reading.
    pub(crate) end: Instant,
}

impl Times {
    /// Returns the limits of a page that begins now.
    pub(crate) fn from(now: Instant) -> Self {
        Self { listed: now + LISTED, end: now + END }
    }
}

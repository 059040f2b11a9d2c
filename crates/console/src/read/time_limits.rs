//! The time limits of a page.

use std::time::Duration;

use tokio::time::Instant;

/// The time limit of listings. The rest is for reading.
const LISTING_TIMEOUT: Duration = Duration::from_millis(1_100);

/// The time limit of all reading. The rest is for rendering: the widget has a seventh of a processor.
const READ_TIMEOUT: Duration = Duration::from_millis(1_700);

/// The time limits of one page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageDeadlines {
    /// The time limit of listings.
    pub(crate) listed: Instant,
    /// The time limit of all reading.
    pub(crate) end: Instant,
}

impl PageDeadlines {
    /// Returns the limits of a page that begins now.
    pub(crate) fn from(now: Instant) -> Self {
        Self { listed: now + LISTING_TIMEOUT, end: now + READ_TIMEOUT }
    }
}

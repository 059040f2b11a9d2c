//! The source of the present time.
//!
//! All code gets the present as an argument or asks a [`Clock`]; `clippy.toml` forbids other ways. So a test
//! can simulate fourteen days in a millisecond.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// The longest run of an invocation. Lambda ends every invocation after 15 minutes.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
const LONGEST_RUN: Duration = Duration::from_mins(15);

/// A clock that tells the present.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Returns the machine's clock.
    #[must_use]
    pub fn system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
        Self::from_fn(Timestamp::now)
    }

    /// Returns a clock that a test controls.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the present.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// Returns the time until Lambda ends an invocation, at `deadline_ms` milliseconds since 1970.
    pub(crate) fn left(&self, deadline_ms: u64) -> Duration {
        let now = u64::try_from(self.now().as_millisecond()).unwrap_or(0);
        Duration::from_millis(deadline_ms.saturating_sub(now)).min(LONGEST_RUN)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

//! The time, from outside.
//!
//! Everything that needs the present gets it as an argument or asks a [`Clock`]; `clippy.toml`
//! forbids the other ways. So a test can live through fourteen days in a millisecond.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// Lambda ends every invocation after 15 minutes.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
const LONGEST_RUN: Duration = Duration::from_mins(15);

/// Tells the present.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
        Self::from_fn(Timestamp::now)
    }

    /// A clock that a test moves.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The present.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// The time until Lambda ends an invocation, at `deadline_ms` milliseconds since 1970.
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

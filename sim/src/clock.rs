//! The clock that every service of one [`Aws`](crate::Aws) reads.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;

/// Milliseconds since 1970.
pub type Millis = i64;

/// The source of the time; clones show the same time.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Tokio { base: Millis, start: tokio::time::Instant },
    Real,
    Manual(Arc<Manual>),
}

/// A clock that a test moves.
#[derive(Debug)]
struct Manual {
    now: AtomicI64,
    /// The time since when it runs by itself.
    since: OnceLock<tokio::time::Instant>,
}

impl Manual {
    /// Returns how long it has run by itself.
    fn gone(&self) -> Millis {
        self.since.get().map_or(0, |since| millis(since.elapsed()))
    }
}

impl Clock {
    /// Creates a clock that follows tokio's, which `tokio::time::pause` stops and sleeps move on. Call it
    /// inside of the runtime whose clock counts.
    #[must_use]
    pub fn tokio(base: Timestamp) -> Self {
        Self(Kind::Tokio { base: base.as_millisecond(), start: tokio::time::Instant::now() })
    }

    /// Creates a clock that shows the machine's own time.
    #[must_use]
    pub fn real() -> Self {
        Self(Kind::Real)
    }

    /// Creates a clock that stands still until [`Clock::pass`] moves it or [`Clock::run`] lets it go.
    #[must_use]
    pub fn manual(base: Timestamp) -> Self {
        let now = AtomicI64::new(base.as_millisecond());
        Self(Kind::Manual(Arc::new(Manual { now, since: OnceLock::new() })))
    }

    /// Moves a manual clock on. Other clocks cannot be moved and stay as they are.
    pub fn pass(&self, time: Duration) {
        if let Kind::Manual(clock) = &self.0 {
            clock.now.fetch_add(millis(time), Ordering::Relaxed);
        }
    }

    /// Moves a manual clock to a time. Other clocks cannot be moved and stay as they are.
    pub fn set(&self, moment: Timestamp) {
        if let Kind::Manual(clock) = &self.0 {
            clock.now.store(moment.as_millisecond() - clock.gone(), Ordering::Relaxed);
        }
    }

    /// Lets a manual clock run with tokio's from now on. Other clocks stay as they are.
    pub fn run(&self) {
        if let Kind::Manual(clock) = &self.0 {
            clock.since.get_or_init(tokio::time::Instant::now);
        }
    }

    /// Returns the present.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.millis()).unwrap_or(Timestamp::MAX)
    }

    /// Returns the present in milliseconds since 1970.
    #[must_use]
    pub fn millis(&self) -> Millis {
        match &self.0 {
            Kind::Tokio { base, start } => base + millis(start.elapsed()),
            #[allow(clippy::disallowed_methods, reason = "this is the clock of the simulated services")]
            Kind::Real => Timestamp::now().as_millisecond(),
            Kind::Manual(clock) => clock.now.load(Ordering::Relaxed) + clock.gone(),
        }
    }
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

/// Returns the duration of so many milliseconds, or zero for a negative number.
pub(crate) fn duration(millis: Millis) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Formats a time as AWS does: `2026-11-01T12:00:00.000Z`.
pub(crate) fn iso(millis: Millis) -> String {
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

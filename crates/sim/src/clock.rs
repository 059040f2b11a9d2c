//! The clocks: the one that every service of one [`SimAws`](crate::SimAws) reads, and those of sandboxes.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// Milliseconds since 1970.
pub type SimMillis = i64;

/// The source of the time; clones show the same time.
#[derive(Debug, Clone)]
pub struct SimClock(ClockSource);

#[derive(Debug, Clone)]
enum ClockSource {
    Tokio { base: SimMillis, start: tokio::time::Instant },
    Real { ahead: Arc<AtomicI64> },
    Manual(Arc<ManualClock>),
}

/// A clock that a test moves.
#[derive(Debug)]
struct ManualClock {
    now: AtomicI64,
    /// The time since when it runs by itself.
    since: OnceLock<tokio::time::Instant>,
}

impl ManualClock {
    /// Returns how long it has run by itself.
    fn gone(&self) -> SimMillis {
        self.since.get().map_or(0, |since| millis(since.elapsed()))
    }
}

impl SimClock {
    /// Creates a clock that follows tokio's, which `tokio::time::pause` stops and sleeps move on. Call it
    /// inside of the runtime whose clock counts.
    #[must_use]
    pub fn tokio(base: Timestamp) -> Self {
        Self(ClockSource::Tokio { base: base.as_millisecond(), start: tokio::time::Instant::now() })
    }

    /// Creates a clock that shows the machine's own time.
    #[must_use]
    pub fn real() -> Self {
        Self(ClockSource::Real { ahead: Arc::default() })
    }

    /// Creates a clock that stands still until [`SimClock::pass`] moves it or [`SimClock::run`] lets it go.
    #[must_use]
    pub fn manual(base: Timestamp) -> Self {
        let now = AtomicI64::new(base.as_millisecond());
        Self(ClockSource::Manual(Arc::new(ManualClock { now, since: OnceLock::new() })))
    }

    /// Moves a manual clock on, or lets a real one go ahead of the machine's. No monotonic clock sees it. A
    /// clock that follows tokio's cannot be moved and stays as it is.
    pub fn pass(&self, time: Duration) {
        let clock = match &self.0 {
            ClockSource::Manual(clock) => &clock.now,
            ClockSource::Real { ahead } => ahead,
            ClockSource::Tokio { .. } => return,
        };
        clock.fetch_add(millis(time), Ordering::Relaxed);
    }

    /// Moves a manual clock to a time. Other clocks cannot be moved and stay as they are.
    pub fn set(&self, moment: Timestamp) {
        if let ClockSource::Manual(clock) = &self.0 {
            clock.now.store(moment.as_millisecond() - clock.gone(), Ordering::Relaxed);
        }
    }

    /// Lets a manual clock run with tokio's from now on. Other clocks stay as they are.
    pub fn run(&self) {
        if let ClockSource::Manual(clock) = &self.0 {
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
    pub fn millis(&self) -> SimMillis {
        match &self.0 {
            ClockSource::Tokio { base, start } => base + millis(start.elapsed()),
            #[allow(clippy::disallowed_methods, reason = "this is the clock of the simulated services")]
            ClockSource::Real { ahead } => Timestamp::now().as_millisecond() + ahead.load(Ordering::Relaxed),
            ClockSource::Manual(clock) => clock.now.load(Ordering::Relaxed) + clock.gone(),
        }
    }
}

/// The monotonic clock of one sandbox. It follows tokio's, but stands still while the sandbox is frozen. Clones
/// are the same clock.
#[derive(Debug, Clone, Default)]
pub struct SandboxClock(Arc<Mutex<SandboxTime>>);

#[derive(Debug, Default)]
struct SandboxTime {
    /// The time that passed before it was frozen last.
    before: Duration,
    /// The time since when it runs. `None` while it is frozen.
    since: Option<tokio::time::Instant>,
}

impl SandboxClock {
    /// Returns the time that it has seen pass.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let worked = self.lock();
        worked.before + worked.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Lets it run. A new clock is frozen.
    pub fn thaw(&self) {
        self.lock().since.get_or_insert_with(tokio::time::Instant::now);
    }

    /// Stops it.
    pub fn freeze(&self) {
        let mut worked = self.lock();
        if let Some(since) = worked.since.take() {
            worked.before += since.elapsed();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SandboxTime> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(time: Duration) -> SimMillis {
    SimMillis::try_from(time.as_millis()).unwrap_or(SimMillis::MAX)
}

/// Returns the duration of so many milliseconds, or zero for a negative number.
pub(crate) fn duration(millis: SimMillis) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Formats a time as AWS does: `2026-11-01T12:00:00.000Z`.
pub(crate) fn iso(millis: SimMillis) -> String {
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_monotonic_clock_of_a_sandbox_stands_still_while_it_is_frozen() {
        let clock = SandboxClock::default();
        let same = clock.clone();
        let pass = async |seconds| tokio::time::sleep(Duration::from_secs(seconds)).await;
        pass(5).await;
        assert_eq!(clock.elapsed(), Duration::ZERO);
        clock.thaw();
        pass(2).await;
        clock.freeze();
        pass(3_600).await;
        clock.thaw();
        pass(1).await;
        assert_eq!(same.elapsed(), Duration::from_secs(3));
    }

    #[test]
    fn a_real_clock_can_be_ahead_of_the_machine() {
        let (clock, machine) = (SimClock::real(), SimClock::real());
        clock.clone().pass(Duration::from_hours(3));
        assert!((10_800_000..10_810_000).contains(&(clock.millis() - machine.millis())));
    }
}

//! The source of the present time.
//!
//! All code gets the present as an argument or asks an [`InstanceClock`]; `clippy.toml` forbids other ways. So a test
//! can simulate fourteen days in a millisecond, and an instance that is frozen for hours.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use redrive_core::batch::{InstanceAge, Moment};
use tokio::time::Instant;

/// The longest run of an invocation. Lambda ends every invocation after 15 minutes.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
const LAMBDA_TIME_LIMIT: Duration = Duration::from_mins(15);

/// A clock that tells the present, and the [`InstanceAge`] by which an instance forgets. Clones share both.
#[derive(Clone)]
pub struct InstanceClock(Arc<ClockReadings>);

struct ClockReadings {
    wall: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// The time since the beginning by the monotonic clock.
    monotonic: Box<dyn Fn() -> Duration + Send + Sync>,
    age: Mutex<InstanceAge>,
}

impl InstanceClock {
    /// Returns the machine's clock.
    #[must_use]
    pub fn system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
        Self::from_fn(Timestamp::now)
    }

    /// Returns a clock whose time of day a test controls.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let began = Instant::now();
        Self::from_fns(now, move || began.elapsed())
    }

    /// Returns a clock of which a test controls the time of day and the time since the beginning by the
    /// monotonic clock.
    pub fn from_fns(
        wall: impl Fn() -> Timestamp + Send + Sync + 'static,
        monotonic: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        let (wall, monotonic) = (Box::new(wall), Box::new(monotonic));
        Self(Arc::new(ClockReadings { wall, monotonic, age: Mutex::default() }))
    }

    /// Returns the time of day.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.0.wall)()
    }

    /// Returns the age of the instance: everything that is remembered for a while ends by it.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.moment().age
    }

    /// Returns the present by both clocks.
    #[must_use]
    pub fn moment(&self) -> Moment {
        let mut age = self.lock();
        let at = self.now();
        Moment { at, age: age.at(at, (self.0.monotonic)()) }
    }

    /// Returns how much time only the wall clock has seen pass so far: mostly the time for which Lambda froze
    /// the process.
    #[must_use]
    pub(crate) fn slept(&self) -> Duration {
        let _ = self.moment();
        self.lock().slept()
    }

    /// Returns the time until Lambda ends an invocation, at `deadline_ms` milliseconds since 1970.
    #[must_use]
    pub fn left(&self, deadline_ms: u64) -> Duration {
        let now = u64::try_from(self.now().as_millisecond()).unwrap_or(0);
        Duration::from_millis(deadline_ms.saturating_sub(now)).min(LAMBDA_TIME_LIMIT)
    }

    /// Locks the age. Nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, InstanceAge> {
        self.0.age.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for InstanceClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InstanceClock")
    }
}

//! The brake of a replay, in the world in which nothing takes the letters of the requeue: an earlier replay sent a
//! part, the dead-letter queues drain, and the replay must stop after its first step.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::driver::{DriverKind, RunningDriver};
use super::world::{AccountSetup, ReplayFaultPlan};
use super::{ReplayArchive, wish};

/// The longest time of a replay.
const MAX_REPLAY_TIME: Duration = Duration::from_mins(2);

/// One replay that must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrakeScenario(DriverKind);

/// How it ended.
#[derive(Debug)]
pub struct BrakeResult {
    brake: BrakeScenario,
    /// The number of letters that came.
    came: usize,
    violations: Vec<String>,
}

/// Returns one for each driver.
#[must_use]
pub fn brakes() -> Vec<BrakeScenario> {
    DriverKind::ALL.map(BrakeScenario).into()
}

impl BrakeScenario {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("replay, {}: brake", self.0.name())
    }

    /// Runs the replay.
    #[must_use]
    pub fn run(&self, archive: &ReplayArchive, binary: &Path, log: Option<&Path>) -> BrakeResult {
        let world = archive
            .world(&AccountSetup { takes: false, ..archive.ground.clone() }, ReplayFaultPlan::default());
        let wish = wish(None);
        let mut driving =
            RunningDriver::new(self.0, &world, &wish, Instant::now() + MAX_REPLAY_TIME, binary, log);
        driving.go(None);
        drop(driving);
        let state = world.state();
        let (came, violations) = state.reader.books.judge_stopped(&state.reader.objects);
        BrakeResult { brake: *self, came, violations }
    }
}

impl BrakeResult {
    /// Reports whether it stopped in time.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Writes a line about it, and everything that is wrong with it.
impl fmt::Display for BrakeResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_good() { "ok" } else { "FAILED" };
        write!(f, "{:<76} {state:<6} letters {}", self.brake.name(), self.came)?;
        self.violations.iter().try_for_each(|it| write!(f, "\n{it}"))
    }
}

//! The brake of a replay, in the world in which nothing takes the letters of the requeue: an earlier replay sent a
//! part, the dead-letter queues drain, and the replay must stop after its first step.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::driver::{Driver, Driving};
use super::world::{Ground, Plan};
use super::{Archive, wish};

/// The longest time of a replay.
const PATIENCE: Duration = Duration::from_mins(2);

/// One replay that must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brake(Driver);

/// How it ended.
#[derive(Debug)]
pub struct Braked {
    brake: Brake,
    /// The number of letters that came.
    came: usize,
    violations: Vec<String>,
}

/// Returns one for each driver.
#[must_use]
pub fn brakes() -> Vec<Brake> {
    Driver::ALL.map(Brake).into()
}

impl Brake {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("replay, {}: brake", self.0.name())
    }

    /// Runs the replay.
    #[must_use]
    pub fn run(&self, archive: &Archive, binary: &Path, log: Option<&Path>) -> Braked {
        let world = archive.world(&Ground { takes: false, ..archive.ground.clone() }, Plan::default());
        let wish = wish(None);
        let mut driving = Driving::new(self.0, &world, &wish, Instant::now() + PATIENCE, binary, log);
        driving.go(None);
        drop(driving);
        let state = world.state();
        let (came, violations) = state.reader.books.judge_stopped(&state.reader.objects);
        Braked { brake: *self, came, violations }
    }
}

impl Braked {
    /// Reports whether it stopped in time.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Writes a line about it, and everything that is wrong with it.
impl fmt::Display for Braked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_good() { "ok" } else { "FAILED" };
        write!(f, "{:<76} {state:<6} letters {}", self.brake.name(), self.came)?;
        self.violations.iter().try_for_each(|it| write!(f, "\n{it}"))
    }
}

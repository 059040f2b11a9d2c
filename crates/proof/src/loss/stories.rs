//! Scenarios in which time passes: an endpoint that goes down and comes back, and an override that is taken back.
//!
//! Minutes pass between two batches, for the account and for the wall clock of the processes: nobody waits for them.

use std::time::Duration;

use super::letters::ProofLetterKind;
use super::world::ProofWorld;

/// The delay of every retry but the first, in seconds: longer than all steps before it.
pub(super) const LONG_DELAY_SECONDS: u64 = 7_200;

/// The time that passes in a step: after a minute an instance tries again what failed, and the visibility timeout of a batch
/// whose process was killed is over.
const STEP: Duration = Duration::from_secs(65);

/// The largest number of steps until something is seen, and the number of steps in which a hold is watched.
const MOST_STEPS: usize = 12;
const HELD_STEPS: usize = 4;

/// The longest time of the machine's own clock that the batches of a step may take.
const MAX_STEP_TIME: Duration = Duration::from_mins(1);

/// How a story did not take its course.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StoryFault {
    /// A promise was broken.
    Broken(String),
    /// Something came too late, or not at all: a broken promise, or a machine that is too slow for the function's own time
    /// limits.
    Late(String),
}

/// Lives through an outage: the endpoint of most letters takes none, until the function has written that it is down.
/// Then it takes them again, and the function is to wake those that wait. `wakes_all` is true if the fault may keep no
/// letter from being woken. The schedule brings the others.
///
/// # Errors
///
/// The error says which promise was broken, or that the story did not take its course.
pub(super) fn outage(world: &ProofWorld, wakes_all: bool) -> Result<(), StoryFault> {
    for step in 0..MOST_STEPS {
        rest(world)?;
        if world.knows_outage() {
            break;
        }
        world.pass(STEP);
        write(world, &format!("down-{step}"));
    }
    if !world.knows_outage() {
        return late("the function has not written that the endpoint is down");
    }
    world.set_down(false);
    for step in 0..MOST_STEPS {
        write(world, &format!("back-{step}"));
        rest(world)?;
        if world.waiting() == 0 {
            break;
        }
        world.pass(STEP);
    }
    let (woken, left) = (world.woken(), world.waiting());
    if woken == 0 {
        return late("no letter was woken");
    }
    if wakes_all && left > 0 {
        return late(format!("{left} letters were not woken, though the calls work again"));
    }
    world.calm();
    world.pass(Duration::from_secs(LONG_DELAY_SECONDS));
    drains(world, "their schedule")
}

/// Lives through an override that holds so many letters. The others go their way meanwhile. `is_impossible` is true if the
/// fault says that subscriptions do not exist: their letters are archived.
///
/// # Errors
///
/// The error says which promise was broken.
pub(super) fn hold(world: &ProofWorld, held: usize, is_impossible: bool) -> Result<(), StoryFault> {
    for _ in 0..HELD_STEPS {
        rest(world)?;
        world.pass(STEP);
    }
    rest(world)?;
    let attempted = world.attempted(ProofLetterKind::Queue);
    if attempted > 0 {
        return broken(format!("{attempted} letters were attempted that an override holds"));
    }
    // Those that may be held wait for a minute, and held ones for hours. A failed look-up is no attempt of theirs.
    let as_after_attempts = STEP.as_secs().cast_signed()..=LONG_DELAY_SECONDS.cast_signed();
    if world.hidings(ProofLetterKind::Queue).iter().any(|seconds| as_after_attempts.contains(seconds)) {
        return broken("letters wait as after an attempt that an override may hold");
    }
    let waiting = world.waiting();
    if waiting != held && !(is_impossible && waiting < held) {
        return broken(format!("{waiting} letters wait, and an override holds {held}"));
    }
    world.calm();
    world.release();
    world.pass(STEP);
    world.wake();
    drains(world, "their override's end")
}

fn drains(world: &ProofWorld, what: &str) -> Result<(), StoryFault> {
    rest(world)?;
    match world.waiting() {
        0 => Ok(()),
        left => late(format!("{left} letters came later than {what}")),
    }
}

/// Writes a letter, in a group of its own in a FIFO queue.
fn write(world: &ProofWorld, group: &str) {
    world.write(ProofLetterKind::Queue, world.config.fifo.then(|| group.to_owned()));
}

fn rest(world: &ProofWorld) -> Result<(), StoryFault> {
    if world.rest(MAX_STEP_TIME) { Ok(()) } else { late(format!("batches went on for {MAX_STEP_TIME:?}")) }
}

fn broken(says: impl Into<String>) -> Result<(), StoryFault> {
    Err(StoryFault::Broken(says.into()))
}

fn late(says: impl Into<String>) -> Result<(), StoryFault> {
    Err(StoryFault::Late(says.into()))
}

//! Follows a replay of the state machine from a terminal, with the same progress and result as a replay by
//! the terminal.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_replay::{ErrorKind, ReplayControl, ReplayState};
use tokio::time::sleep;

use crate::args::FurtherOptions;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::state_machine::{ExecutionEnd, MachineExecution};
use crate::tables::harmless;
use crate::watch::TerminalWatch;

/// The time between two reads of the execution.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The time between two checks for an interrupt.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// Follows a replay until it has an id. Returns `None` if the caller may not read it.
///
/// # Errors
///
/// It ended before, or was interrupted.
pub(crate) async fn begin(
    execution: &MachineExecution,
    as_json: bool,
    interrupted: &AtomicBool,
    console: &mut ToolEnvironment,
) -> Result<Option<ReplayState>, CommandFailure> {
    match follow(execution, true, as_json, interrupted, console).await {
        Err(CommandFailure::Denied(why)) => {
            writeln!(console.err, "redrivectl: the id of the replay is unknown: {}", harmless(&why))?;
            Ok(None)
        }
        followed => followed.map(Some),
    }
}

/// Follows a replay to its end.
///
/// # Errors
///
/// It failed, another process is at work, the execution cannot be read, or the wait was interrupted.
pub(crate) async fn to_its_end(
    execution: &MachineExecution,
    as_json: bool,
    interrupted: &AtomicBool,
    console: &mut ToolEnvironment,
) -> Result<ReplayState, CommandFailure> {
    follow(execution, false, as_json, interrupted, console).await
}

/// Follows a replay to its end, or until it has an id.
async fn follow(
    execution: &MachineExecution,
    until_begun: bool,
    as_json: bool,
    interrupted: &AtomicBool,
    console: &mut ToolEnvironment,
) -> Result<ReplayState, CommandFailure> {
    let further = console.stack.further();
    let watch = TerminalWatch::new(console, as_json, Arc::default());
    let followed = tokio::select! {
        followed = look_until(execution, until_begun, as_json, interrupted, &further, &watch) => followed,
        never = watch.keep_showing() => match never {},
    };
    watch.end(followed.as_ref().ok().filter(|_| !until_begun));
    followed
}

async fn look_until(
    execution: &MachineExecution,
    until_begun: bool,
    as_json: bool,
    interrupted: &AtomicBool,
    further: &FurtherOptions,
    watch: &TerminalWatch<'_>,
) -> Result<ReplayState, CommandFailure> {
    let mut known: Option<ReplayState> = None;
    loop {
        let standing = execution.look().await.map_err(|failed| goes_on(failed, known.as_ref(), further))?;
        if let Some(state) = standing.replay {
            if known.is_none() && !as_json && !until_begun {
                let id = harmless(&state.id);
                let stop = further.command(&["replay", "stop", &state.id]);
                watch.say(&format!("the state machine runs the replay {id}; to stop it: {stop}"));
            }
            watch.progress(&state);
            known = Some(state);
        }
        if let Some(end) = standing.end {
            return ended(end, known, &execution.arn, further);
        }
        if let (Some(state), true) = (&known, until_begun) {
            return Ok(state.clone());
        }
        let mut slept = Duration::ZERO;
        while slept < POLL_INTERVAL {
            if interrupted.load(Ordering::Relaxed) {
                let why = CommandFailure::Stopped("interrupted".to_owned());
                return Err(goes_on(why, known.as_ref(), further));
            }
            sleep(INTERRUPT_INTERVAL).await;
            slept += INTERRUPT_INTERVAL;
        }
    }
}

/// Returns the state of a replay whose execution has ended.
fn ended(
    end: ExecutionEnd,
    known: Option<ReplayState>,
    execution: &str,
    further: &FurtherOptions,
) -> Result<ReplayState, CommandFailure> {
    let next = match &known {
        Some(state) => {
            format!("\nto continue: {}", further.command(&["replay", "--resume", &state.id]))
        }
        None => String::new(),
    };
    match (end, known) {
        (ExecutionEnd::Through, Some(state)) => Ok(state),
        (ExecutionEnd::Through, None) => {
            Err(CommandFailure::Work(format!("{execution} ended without a result")))
        }
        (ExecutionEnd::Busy(because), _) => Err(CommandFailure::Busy(because)),
        (ExecutionEnd::CutOff(how), _) => Err(CommandFailure::Stopped(format!("{execution} {how}{next}"))),
        (ExecutionEnd::Failed(kind, why), _) => {
            let has_begun = !next.is_empty();
            let why = format!("{why}{next}");
            Err(match kind {
                ErrorKind::Request if !has_begun => CommandFailure::Input(vec![why]),
                ErrorKind::Denied => CommandFailure::Denied(why),
                ErrorKind::Request | ErrorKind::Failed => CommandFailure::Work(why),
            })
        }
    }
}

/// Adds to an error that the replay itself goes on.
fn goes_on(failed: CommandFailure, known: Option<&ReplayState>, further: &FurtherOptions) -> CommandFailure {
    let id = known.map_or("ID", |state| state.id.as_str());
    let [show, stop] = ["show", "stop"].map(|what| further.command(&["replay", what, id]));
    let more = format!("\nthe replay goes on; to see its state: {show}\nto stop it: {stop}");
    match failed {
        CommandFailure::Stopped(why) => CommandFailure::Stopped(why + &more),
        CommandFailure::Denied(why) => CommandFailure::Denied(why + &more),
        CommandFailure::Work(why) => CommandFailure::Work(why + &more),
        other => other,
    }
}

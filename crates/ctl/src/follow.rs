//! Follows a replay of the state machine from a terminal, with the same progress and result as a replay by
//! the terminal.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use crate::args::Further;
use crate::console::{Console, Failed};
use crate::machine::{End, Execution};
use crate::text::harmless;
use crate::watch::Watch;
use sns_redrive::replay::{Control, ErrorKind, State};

/// The time between two reads of the execution.
const LOOK: Duration = Duration::from_secs(2);

/// The time between two checks for an interrupt.
const NAP: Duration = Duration::from_millis(100);

/// Follows a replay until it has an id. Returns `None` if the caller may not read it.
///
/// # Errors
///
/// It ended before, or was interrupted.
pub(crate) async fn begin(
    execution: &Execution,
    as_json: bool,
    interrupted: &AtomicBool,
    console: &mut Console,
) -> Result<Option<State>, Failed> {
    match follow(execution, true, as_json, interrupted, console).await {
        Err(Failed::Denied(why)) => {
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
    execution: &Execution,
    as_json: bool,
    interrupted: &AtomicBool,
    console: &mut Console,
) -> Result<State, Failed> {
    follow(execution, false, as_json, interrupted, console).await
}

/// Follows a replay to its end, or until it has an id.
async fn follow(
    execution: &Execution,
    until_begun: bool,
    as_json: bool,
    interrupted: &AtomicBool,
    console: &mut Console,
) -> Result<State, Failed> {
    let further = console.stack.further();
    let watch = Watch::new(console, as_json, Arc::default());
    let followed = tokio::select! {
        followed = look_until(execution, until_begun, as_json, interrupted, &further, &watch) => followed,
        never = watch.keep_showing() => match never {},
    };
    watch.end(followed.as_ref().ok().filter(|_| !until_begun));
    followed
}

async fn look_until(
    execution: &Execution,
    until_begun: bool,
    as_json: bool,
    interrupted: &AtomicBool,
    further: &Further,
    watch: &Watch<'_>,
) -> Result<State, Failed> {
    let mut known: Option<State> = None;
    loop {
        let standing = execution.look().await.map_err(|failed| goes_on(failed, known.as_ref(), further))?;
        if let Some(state) = standing.replay {
            if known.is_none() && !as_json && !until_begun {
                let id = harmless(&state.id);
                let stop = further.command(&["replays", "stop", &state.id]);
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
        while slept < LOOK {
            if interrupted.load(Ordering::Relaxed) {
                let why = Failed::Stopped("interrupted".to_owned());
                return Err(goes_on(why, known.as_ref(), further));
            }
            sleep(NAP).await;
            slept += NAP;
        }
    }
}

/// Returns the state of a replay whose execution has ended.
fn ended(end: End, known: Option<State>, execution: &str, further: &Further) -> Result<State, Failed> {
    let next = match &known {
        Some(state) => {
            format!("\nto continue: {}", further.command(&["replay", "--resume", &state.id]))
        }
        None => String::new(),
    };
    match (end, known) {
        (End::Through, Some(state)) => Ok(state),
        (End::Through, None) => Err(Failed::Work(format!("{execution} ended without a result"))),
        (End::Busy(because), _) => Err(Failed::Busy(because)),
        (End::CutOff(how), _) => Err(Failed::Stopped(format!("{execution} {how}{next}"))),
        (End::Failed(kind, why), _) => {
            let has_begun = !next.is_empty();
            let why = format!("{why}{next}");
            Err(match kind {
                ErrorKind::Request if !has_begun => Failed::Input(vec![why]),
                ErrorKind::Denied => Failed::Denied(why),
                ErrorKind::Request | ErrorKind::Failed => Failed::Work(why),
            })
        }
    }
}

/// Adds to an error that the replay itself goes on.
fn goes_on(failed: Failed, known: Option<&State>, further: &Further) -> Failed {
    let id = known.map_or("ID", |state| state.id.as_str());
    let [show, stop] = ["show", "stop"].map(|what| further.command(&["replays", what, id]));
    let more = format!("\nthe replay goes on; to see its state: {show}\nto stop it: {stop}");
    match failed {
        Failed::Stopped(why) => Failed::Stopped(why + &more),
        Failed::Denied(why) => Failed::Denied(why + &more),
        Failed::Work(why) => Failed::Work(why + &more),
        other => other,
    }
}

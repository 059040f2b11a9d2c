//! A replay by the state machine of a stack: the question before it, its start, and its end.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use redrive_replay::{EventRequest, ReplayRequest, ReplaySource, ReplayState, StoredReplays};

use super::confirm;
use super::held_letters::HoldReader;
use super::replay_request::{bad, wish};
use super::result::ReplayResult;
use super::terminal::{TerminalPlaces, TerminalReplayer, unfinished};
use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::follow;
use crate::s3_location::{self, BucketPrefix};
use crate::state_machine::{self, MachineExecution};
use crate::successors;

/// Returns the request for the state machine, after a question. A caller who may start the state machine need not have
/// permission to read archive and replays: then the question comes without what they have.
pub(super) async fn wish_for_machine(
    args: &args::ReplayArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<(EventRequest, Option<HoldReader>), CommandFailure> {
    let wish = wish(args, console)?;
    console.can_confirm(!args.asks())?;
    let aws = AwsAccess::connect(&args.connection, console).await?;
    let place = s3_location::replays(&args.place, console).ok();
    let kept = place.as_ref().map(|BucketPrefix { bucket, prefix }| {
        StoredReplays::new(aws.clients().s3, bucket, prefix, console.clock.clone(), String::new())
    });
    let holds = place.as_ref().map(|place| HoldReader::at(place, &aws));
    let request = match wish {
        EventRequest::Begin(request) => request,
        EventRequest::Resume(resume) => {
            let holds = holds.map(|holds| (holds, ReplaySource::Archive));
            let seen =
                kept.as_ref().map(|kept| (kept, holds.as_ref().map(|(holds, source)| (holds, source))));
            let wish = confirm::resume(resume, seen, args, as_json, console).await?;
            return Ok((wish, holds.map(|(holds, _)| holds)));
        }
    };
    successors::check(&request, None, &aws.clients(), console).await?;
    let other = match &kept {
        Some(kept) => unfinished(kept, &request, &ReplaySource::Archive, args, console).await,
        None => Ok(None),
    };
    let other = or_unseen(other)?.unwrap_or_default();
    let counted = if args.asks() {
        Some(count_for_machine(&request, args, &aws, as_json, console).await)
    } else {
        None
    };
    let counted = counted.map(|counted| match counted {
        Err(CommandFailure::Denied(why) | CommandFailure::Work(why)) => Ok(Err(why)),
        counted => counted.map(Ok),
    });
    let counted = counted.transpose()?;
    let held = match &holds {
        Some(holds) if counted.is_some() => holds.of(&request, &ReplaySource::Archive, console).await?,
        _ => None,
    };
    Ok((confirm::begin(request, counted, held.as_ref(), other, args, as_json, console)?, holds))
}

/// Counts the letters that the state machine would send now, as far as the caller may read them.
async fn count_for_machine(
    request: &ReplayRequest,
    args: &args::ReplayArgs,
    aws: &AwsAccess,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<ReplayState, CommandFailure> {
    let places = match TerminalPlaces::of(args, console) {
        Err(CommandFailure::Input(problems)) => return Err(CommandFailure::Work(problems.join("; "))),
        places => places?,
    };
    let terminal = TerminalReplayer::of(places, None, String::new(), args, aws, console).await?;
    terminal.check_is_worked_on(false, console)?;
    terminal.replay.check_requeue().await?;
    terminal.count(request, &ReplaySource::Archive, as_json, console).await
}

/// Returns what was read, or `None` if the caller may not read it.
fn or_unseen<T>(read: Result<T, CommandFailure>) -> Result<Option<T>, CommandFailure> {
    match read {
        Err(CommandFailure::Denied(_)) => Ok(None),
        read => read.map(Some),
    }
}

/// Starts the state machine of a stack. Prints and returns `None` if the stack has none.
pub(super) async fn start(
    stack: &str,
    wish: &EventRequest,
    args: &args::ReplayArgs,
    stop: Option<&AtomicBool>,
    console: &mut ToolEnvironment,
) -> Result<Option<MachineExecution>, CommandFailure> {
    let execution = state_machine::start(stack, wish, &args.connection, stop, console).await?;
    if execution.is_none() {
        let none = format!("the state machine {stack}-replay does not exist");
        if args.detach {
            return bad(&format!(
                "{none}, but --detach needs it: nothing was done. Deploy operations.yaml, or leave out --detach"
            ));
        }
        writeln!(console.err, "redrivectl: {none}, so this terminal replays")?;
    }
    Ok(execution)
}

/// Follows the replay of a state machine.
pub(super) async fn follow(
    execution: MachineExecution,
    holds: Option<&HoldReader>,
    detach: bool,
    stop: Option<Arc<AtomicBool>>,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<ReplayResult, CommandFailure> {
    let stop = stop.map_or_else(|| (console.interrupts)(), Ok)?;
    let further = console.stack.further();
    if detach {
        let state = follow::begin(&execution, as_json, &stop, console).await?;
        return Ok(ReplayResult::Detached { state, execution: execution.arn, further });
    }
    let state = follow::to_its_end(&execution, as_json, &stop, console).await?;
    let held = match holds {
        Some(holds) => holds.of_sent(&state, &ReplaySource::Archive, console).await?,
        None => None,
    };
    Ok(ReplayResult::Ended { state, held, other: None, execution: Some(execution.arn), further })
}

//! A replay by the state machine of a stack: the question before it, its start, and its end.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::confirm;
use super::held::Holds;
use super::result::ReplayResult;
use super::terminal::{Places, Terminal, unfinished};
use super::wish::{bad, wish};
use crate::args;
use crate::aws::Aws;
use crate::console::{Console, Failed};
use crate::follow;
use crate::machine::{self, Execution};
use crate::place::{self, Place};
use crate::successors;
use sns_redrive::replay::{Replays, Request, Source, State, Wish};

/// Returns the request for the state machine, after a question. A caller who may start the state machine need not have
/// permission to read archive and replays: then the question comes without what they have.
pub(super) async fn wish_for_machine(
    args: &args::Replay,
    as_json: bool,
    console: &mut Console,
) -> Result<(Wish, Option<Holds>), Failed> {
    let wish = wish(args, console)?;
    console.can_confirm(!args.asks())?;
    let aws = Aws::connect(&args.connection, console).await?;
    let place = place::replays(&args.place, console).ok();
    let kept = place.as_ref().map(|Place { bucket, prefix }| {
        Replays::new(aws.clients().s3, bucket, prefix, console.clock.clone(), String::new())
    });
    let holds = place.as_ref().map(|place| Holds::at(place, &aws));
    let request = match wish {
        Wish::Begin(request) => request,
        Wish::Resume(resume) => {
            let holds = holds.map(|holds| (holds, Source::Archive));
            let seen =
                kept.as_ref().map(|kept| (kept, holds.as_ref().map(|(holds, source)| (holds, source))));
            let wish = confirm::resume(resume, seen, args, as_json, console).await?;
            return Ok((wish, holds.map(|(holds, _)| holds)));
        }
    };
    successors::check(&request, None, &aws.clients(), console).await?;
    let other = match &kept {
        Some(kept) => unfinished(kept, &request, &Source::Archive, args, console).await,
        None => Ok(None),
    };
    let other = or_unseen(other)?.unwrap_or_default();
    let counted = if args.asks() {
        Some(count_for_machine(&request, args, &aws, as_json, console).await)
    } else {
        None
    };
    let counted = counted.map(|counted| match counted {
        Err(Failed::Denied(why) | Failed::Work(why)) => Ok(Err(why)),
        counted => counted.map(Ok),
    });
    let counted = counted.transpose()?;
    let held = match &holds {
        Some(holds) if counted.is_some() => holds.of(&request, &Source::Archive, console).await?,
        _ => None,
    };
    Ok((confirm::begin(request, counted, held.as_ref(), other, args, as_json, console)?, holds))
}

/// Counts the letters that the state machine would send now, as far as the caller may read them.
async fn count_for_machine(
    request: &Request,
    args: &args::Replay,
    aws: &Aws,
    as_json: bool,
    console: &mut Console,
) -> Result<State, Failed> {
    let places = match Places::of(args, console) {
        Err(Failed::Input(problems)) => return Err(Failed::Work(problems.join("; "))),
        places => places?,
    };
    let terminal = Terminal::of(places, None, String::new(), args, aws, console).await?;
    terminal.check_is_worked_on(false, console)?;
    terminal.replay.check_requeue().await?;
    terminal.count(request, &Source::Archive, as_json, console).await
}

/// Returns what was read, or `None` if the caller may not read it.
fn or_unseen<T>(read: Result<T, Failed>) -> Result<Option<T>, Failed> {
    match read {
        Err(Failed::Denied(_)) => Ok(None),
        read => read.map(Some),
    }
}

/// Starts the state machine of a stack. Prints and returns `None` if the stack has none.
pub(super) async fn start(
    stack: &str,
    wish: &Wish,
    args: &args::Replay,
    stop: Option<&AtomicBool>,
    console: &mut Console,
) -> Result<Option<Execution>, Failed> {
    let execution = machine::start(stack, wish, &args.connection, stop, console).await?;
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
    execution: Execution,
    holds: Option<&Holds>,
    detach: bool,
    stop: Option<Arc<AtomicBool>>,
    as_json: bool,
    console: &mut Console,
) -> Result<ReplayResult, Failed> {
    let stop = stop.map_or_else(|| (console.interrupts)(), Ok)?;
    let further = console.stack.further();
    if detach {
        let state = follow::begin(&execution, as_json, &stop, console).await?;
        return Ok(ReplayResult::Detached { state, execution: execution.arn, further });
    }
    let state = follow::to_its_end(&execution, as_json, &stop, console).await?;
    let held = match holds {
        Some(holds) => holds.of_sent(&state, &Source::Archive, console).await?,
        None => None,
    };
    Ok(ReplayResult::Ended { state, held, other: None, execution: Some(execution.arn), further })
}

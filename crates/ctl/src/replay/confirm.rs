//! The question before a replay sends letters.

use std::io::Write;

use redrive_replay::{
    EventRequest, ReplayRequest, ReplaySource, ReplayState, ReplayStatus, ResumeRequest, StoredReplays,
};

use super::held_letters::{HoldReader, ReplayHolds};
use super::summary::{preview, status, summary, uncounted};
use crate::args;
use crate::console::{CommandFailure, ToolEnvironment, not_confirmed};
use crate::tables::harmless;

/// Returns the request to continue a replay with the options of the command line.
pub(super) fn resumption(id: &str, args: &args::ReplayArgs) -> ResumeRequest {
    let args::PaceArgs { rate, threshold, settle, .. } = &args.pace;
    let why = args.why.clone();
    ResumeRequest { id: id.to_owned(), rate: *rate, threshold: *threshold, settle_seconds: *settle, why }
}

/// Shows what a new replay would send, and asks. If another of the same letters is unfinished, the answer names one of
/// three ways. `counted` is what a dry run found, or why there was none; `None` asks nothing.
///
/// # Errors
///
/// The answer is neither of the two that do something.
pub(super) fn begin(
    request: Box<ReplayRequest>,
    counted: Option<Result<ReplayState, String>>,
    held: Option<&ReplayHolds>,
    other: Option<ReplayState>,
    args: &args::ReplayArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<EventRequest, CommandFailure> {
    let Some(counted) = counted else { return Ok(EventRequest::Begin(request)) };
    let mut request = request;
    match counted {
        Ok(state) => {
            show(&preview(&state, held), as_json, console)?;
            // Letters that are archived from now on were not shown.
            if state.given.is_none() {
                request.cut_off = Some(state.cut_off);
            }
        }
        Err(why) => {
            show(&uncounted(&request, &why, held), as_json, console)?;
        }
    }
    let Some(other) = other else {
        let is_sure = console.confirms("Send these letters?")?;
        return if is_sure { Ok(EventRequest::Begin(request)) } else { Err(not_confirmed()) };
    };
    let id = harmless(&other.id);
    let takes_over =
        if may_run(&other) { ", which is taken over from the process that may still run it" } else { "" };
    let question = format!(
        "Type continue to go on with replay {id} ({}){takes_over}; new to begin a new replay; anything else does nothing: ",
        status(&other)
    );
    match console.answer(&question)?.as_str() {
        "continue" => Ok(EventRequest::Resume(resumption(&other.id, args))),
        "new" => Ok(EventRequest::Begin(request)),
        _ => Err(not_confirmed()),
    }
}

/// Shows the replay that is to be continued, as far as it can be read, and asks.
///
/// # Errors
///
/// The answer is no, or the replay cannot be read for another reason than missing permissions.
pub(super) async fn resume(
    resume: ResumeRequest,
    seen: Option<(&StoredReplays, Option<(&HoldReader, &ReplaySource)>)>,
    args: &args::ReplayArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<EventRequest, CommandFailure> {
    if !args.asks() {
        return Ok(EventRequest::Resume(resume));
    }
    let shown = match seen {
        Some((kept, _)) => kept.show(&resume.id).await.map(Some),
        None => Ok(None),
    };
    let question = match shown.map_err(CommandFailure::from) {
        // The replay itself says why it cannot be continued.
        Ok(Some(state)) if !state.is_unfinished() => return Ok(EventRequest::Resume(resume)),
        Ok(Some(state)) => {
            let held = match seen {
                Some((_, Some((holds, source)))) => holds.of(&state.request, source, console).await?,
                _ => None,
            };
            let held = held.map(|held| ("held", held.before()));
            show(&summary(&state, held.as_slice(), &console.stack.further()), as_json, console)?;
            if may_run(&state) {
                "It may still run: it is taken over from the process that runs it, and letters under way may be sent twice. Take it over?"
            } else {
                "Continue it?"
            }
        }
        Ok(None) | Err(CommandFailure::Denied(_)) => "The replay cannot be read here. Continue it?",
        Err(failed) => return Err(failed),
    };
    if console.confirms(question)? { Ok(EventRequest::Resume(resume)) } else { Err(not_confirmed()) }
}

/// Reports whether a process may work on a replay.
fn may_run(state: &ReplayState) -> bool {
    matches!(state.status, ReplayStatus::Running | ReplayStatus::Settling) && !state.abandoned
}

/// Shows what the question is about. Results in JSON are for a script, so the text goes beside them.
fn show(text: &str, as_json: bool, console: &mut ToolEnvironment) -> Result<(), CommandFailure> {
    let to = if as_json { &mut console.err } else { &mut console.out };
    write!(to, "{text}")?;
    Ok(to.flush()?)
}

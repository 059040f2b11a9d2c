//! `redrivectl replay`: sends archived letters again.

mod by_machine;
mod confirm;
mod held_letters;
mod replay_request;
mod result;
mod selection_words;
mod summary;
mod terminal;

use std::path::Path;

use crate::args;
use crate::aws::{self, AwsAccess};
use crate::console::{CommandFailure, ToolEnvironment, read_file, read_policy};
use crate::successors::{self, SuccessorLetters};
use crate::tables::harmless;
use crate::watch::TerminalWatch;
use by_machine::{follow, start, wish_for_machine};
pub(crate) use held_letters::ReplayHolds;
use redrive_replay::{EventRequest, ReplayError, ReplaySource, ReplayState};
use replay_request::{bad, records, wish};
pub(crate) use result::ReplayResult;
pub(crate) use selection_words::selected;
pub(crate) use summary::{going_on, status, summary, to_send};
use terminal::{TerminalPlaces, TerminalReplayer, unfinished};

/// Makes or tries a replay, here or by a state machine.
pub(crate) async fn run(
    args: &args::ReplayArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<ReplayResult, CommandFailure> {
    let stack = console.stack.name().filter(|_| !args.is_for_terminal()).map(str::to_owned);
    if stack.is_none() && args.detach {
        return bad(
            "--detach needs a state machine: give --stack, without --dry-run, --from, --policy, --by, --workers, --archive, \
             --control and --requeue, by which this terminal replays",
        );
    }
    // At a question, or while the input is typed, Ctrl-C ends the tool.
    let stop = if args.asks() || stack.is_none() { None } else { Some((console.interrupts)()?) };
    let mut confirmed = None;
    if let Some(stack) = stack {
        let (wish, holds) = Box::pin(wish_for_machine(args, as_json, console)).await?;
        let wish = confirmed.insert(wish);
        if let Some(execution) = start(&stack, wish, args, stop.as_deref(), console).await? {
            return follow(execution, holds.as_ref(), args.detach, stop, as_json, console).await;
        }
    }
    let places = TerminalPlaces::of(args, console)?;
    let is_confirmed = confirmed.is_some();
    let mut wish = confirmed.map_or_else(|| wish(args, console), Ok)?;
    let stdin = Some(Path::new("-"));
    if args.policy.as_deref() == stdin && args.from.as_deref() == stdin {
        return bad("--policy and --from are both standard input; give a file for one of them");
    }
    if args.asks() && args.from.as_deref() == stdin {
        return bad(
            "--from - is standard input, which cannot answer the question as well: give a file, or --yes",
        );
    }
    let policy = args.policy.as_deref().map(|file| read_policy(Some(file), console)).transpose()?;
    let source = match &args.from {
        Some(file) => ReplaySource::Input(records(&read_file(file, console)?)?),
        None => ReplaySource::Archive,
    };
    console.can_confirm(!args.asks())?;
    let aws = AwsAccess::connect(&args.connection, console).await?;
    if let EventRequest::Begin(request) = &wish {
        let letters =
            SuccessorLetters { archive: &places.archive, requeue: &places.requeue, source: &source };
        successors::check(request, Some(letters), &aws.clients(), console).await?;
    }
    let by = who(args.by.as_deref(), &aws.sts()).await;
    let terminal = TerminalReplayer::of(places, policy, by, args, &aws, console).await?;
    let TerminalReplayer { replay, holds, .. } = &terminal;
    terminal.check_is_worked_on(args.dry_run, console)?;
    replay.check_requeue().await?;
    let mut other = None;
    if !is_confirmed {
        let kept = Some(replay.kept());
        wish = match wish {
            EventRequest::Begin(request) => {
                let unfinished = unfinished(replay.kept(), &request, &source, args, console).await?;
                other = unfinished.as_ref().map(|state| state.id.clone());
                let counts = async |console: &mut ToolEnvironment| {
                    terminal.count(&request, &source, as_json, console).await
                };
                let (counted, held) = if args.asks() {
                    (Some(Ok(counts(console).await?)), holds.of(&request, &source, console).await?)
                } else {
                    (None, None)
                };
                confirm::begin(request, counted, held.as_ref(), unfinished, args, as_json, console)?
            }
            EventRequest::Resume(resume) => {
                let seen = kept.map(|kept| (kept, Some((holds, &source))));
                confirm::resume(resume, seen, args, as_json, console).await?
            }
        };
    }
    let stop = stop.map_or_else(|| (console.interrupts)(), Ok)?;
    let watch = TerminalWatch::new(console, as_json, stop);
    let ended = tokio::select! {
        ended = replay.run(&wish, &source, terminal.policy(), &watch) => ended,
        never = watch.keep_showing() => match never {},
    };
    let begun = watch.state();
    let interrupted = watch.end(ended.as_ref().ok());
    let further = console.stack.further();
    let state = ended.map_err(|error| failed(error, interrupted, begun.as_ref(), &further))?;
    let held = holds.of_sent(&state, &source, console).await?;
    Ok(ReplayResult::Ended { state, held, other, execution: None, further })
}

/// Returns the author of a replay, as its record has it.
pub(crate) async fn who(by: Option<&str>, sts: &aws_sdk_sts::Client) -> String {
    match by {
        Some(by) => by.to_owned(),
        None => aws::caller(sts).await.unwrap_or_else(|_| "(unknown)".to_owned()),
    }
}

/// Returns the error of a replay, which may have been interrupted, and which may have begun. Then it can be continued.
fn failed(
    error: ReplayError,
    interrupted: bool,
    begun: Option<&ReplayState>,
    further: &args::FurtherOptions,
) -> CommandFailure {
    if interrupted && error == ReplayError::NotPlanned {
        return CommandFailure::Stopped("interrupted while it read the archive; nothing was sent".to_owned());
    }
    let is_elsewhere = matches!(error, ReplayError::TakenUp(_));
    let more = begun.filter(|_| !is_elsewhere).map(|state| {
        let id = harmless(&state.id);
        format!("\nreplay {id} is unfinished; to continue: {}", further.command(&going_on(state)))
    });
    let more = more.unwrap_or_default();
    match CommandFailure::from(error) {
        CommandFailure::Work(why) => CommandFailure::Work(why + &more),
        CommandFailure::Denied(why) => CommandFailure::Denied(why + &more),
        CommandFailure::Busy(why) => CommandFailure::Busy(why + &more),
        other => other,
    }
}

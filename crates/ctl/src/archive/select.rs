//! The letters of an archive that a command line selects.

use redrive_archive::{LetterPattern, Selection};
use redrive_core::endpoint::TargetName;
use redrive_core::policy::read_json;
use redrive_replay::ReplaySelection;
use serde_json::Value;

use crate::args;
use crate::console::{CommandFailure, ToolEnvironment};

/// Returns the archived letters that the command line selects, in the form that replays record.
pub(crate) fn select(
    args: &args::SelectionArgs,
    console: &ToolEnvironment,
) -> Result<ReplaySelection, CommandFailure> {
    let now = console.clock.now();
    let (from, to) = (args.since.map(|when| when.at(now)), args.until.map(|when| when.at(now)));
    if from.zip(to).is_some_and(|(since, until)| since >= until) {
        return Err(CommandFailure::Input(vec!["--until must be later than --since".to_owned()]));
    }
    Ok(ReplaySelection {
        queue: args.queue.clone(),
        from,
        to,
        reasons: args.reason.clone(),
        topics: args.topic.clone(),
        origins: args.origin.clone(),
        errors: args.error.clone(),
        targets: args.target.iter().map(|target| TargetName::read(target)).collect(),
        pattern: args.pattern.as_deref().map(pattern).transpose()?,
    })
}

/// Checks a pattern; its problems name the option.
fn pattern(json: &str) -> Result<Value, CommandFailure> {
    LetterPattern::parse(json).map_err(|problems| {
        CommandFailure::Input(problems.into_iter().map(|problem| format!("--match {problem}")).collect())
    })?;
    // The pattern was parsed above, so this does not fail.
    Ok(read_json(json).unwrap_or_default())
}

/// Returns the selection of archived letters of the command line.
pub(crate) fn selection(
    args: &args::SelectionArgs,
    console: &ToolEnvironment,
) -> Result<Selection, CommandFailure> {
    let selection = select(args, console)?.selection(None).map_err(CommandFailure::Input)?;
    // An old version archived letters from the requeue under that queue. Without the requeue's name, a search
    // by dead-letter queue would miss them.
    let of_stack = console.stack.output("RequeueArn").ok().flatten();
    Ok(Selection { requeue: of_stack.or_else(|| (console.variable)("REQUEUE_ARN")), ..selection })
}

//! The request of a command line, and the records that it gives.

use std::collections::BTreeMap;

use redrive_archive::BadRecord;
use redrive_replay::{DEFAULT_RAMP, EventRequest, InputRecord, ReplayRequest, ReplaySelection, Successors};

use super::confirm;
use crate::archive::{PrintedRecord, read_shown, select};
use crate::args;
use crate::console::{CommandFailure, ToolEnvironment};

/// Returns the request of the command line.
pub(super) fn wish(
    args: &args::ReplayArgs,
    console: &ToolEnvironment,
) -> Result<EventRequest, CommandFailure> {
    let request = request(args, console)?;
    Ok(match &args.resume {
        Some(id) => EventRequest::Resume(confirm::resumption(id, args)),
        None => EventRequest::Begin(Box::new(request)),
    })
}

fn request(args: &args::ReplayArgs, console: &ToolEnvironment) -> Result<ReplayRequest, CommandFailure> {
    let select = select(&args.selection, console)?;
    let fresh = ReplayRequest::default();
    let request = ReplayRequest {
        // Without --again a replay leaves out letters that others have sent.
        all: args.all || (args.selection.not_replayed && select == ReplaySelection::default()),
        select,
        cut_off: args.cut_off.map(|when| when.at(console.clock.now())),
        to: args.to.clone(),
        subscriptions: subscriptions(&args.subscription)?,
        dry_run: args.dry_run,
        rate: args.pace.rate.unwrap_or(fresh.rate),
        ramp: args.pace.ramp.clone().unwrap_or_else(|| DEFAULT_RAMP.to_vec()),
        threshold: args.pace.threshold.unwrap_or(fresh.threshold),
        settle_seconds: args.pace.settle.unwrap_or(fresh.settle_seconds),
        again: args.again,
        why: args.why.clone(),
    };
    request.check().map_err(CommandFailure::Input)?;
    if args.resume.is_none() && args.from.is_none() && request.selects_all() && !request.all {
        return bad(
            "no letters are selected: give --topic, --since, --reason or another option of \"Which letters\", or \
             --all for the whole archive",
        );
    }
    Ok(request)
}

/// Returns the subscriptions that have replaced others.
fn subscriptions(pairs: &[(String, String)]) -> Result<Successors, CommandFailure> {
    let mut successors = BTreeMap::new();
    for (old, new) in pairs {
        if successors.insert(old.clone(), new.clone()).is_some_and(|other| other != *new) {
            return bad(&format!("--subscription names two successors of {old}; give one"));
        }
    }
    Successors::try_from(successors).map_err(|bad| CommandFailure::Input(vec![bad.to_string()]))
}

/// Reads records of `archive show --json`, one a line.
pub(super) fn records(text: &str) -> Result<Vec<InputRecord>, CommandFailure> {
    let input = |shown: Result<PrintedRecord, BadRecord>| {
        let shown = shown.map_err(|bad| bad.to_string())?;
        let edited = shown.is_edited();
        Ok((shown.record, edited))
    };
    let records: Vec<_> = read_shown(text)?.map(input).collect();
    if records.is_empty() { bad("the file of --from has no records") } else { Ok(records) }
}

/// Refuses a command line.
pub(super) fn bad<T>(problem: &str) -> Result<T, CommandFailure> {
    Err(CommandFailure::Input(vec![problem.to_owned()]))
}

//! The request of a command line, and the records that it gives.

use std::collections::BTreeMap;

use super::confirm;
use crate::archive::{Shown, read_shown, select};
use crate::args;
use crate::console::{Console, Failed};
use sns_redrive::archive::BadRecord;
use sns_redrive::replay::{DEFAULT_RAMP, Input, Request, Select, Successors, Wish};

/// Returns the request of the command line.
pub(super) fn wish(args: &args::Replay, console: &Console) -> Result<Wish, Failed> {
    let request = request(args, console)?;
    Ok(match &args.resume {
        Some(id) => Wish::Resume(confirm::resumption(id, args)),
        None => Wish::Begin(Box::new(request)),
    })
}

fn request(args: &args::Replay, console: &Console) -> Result<Request, Failed> {
    let select = select(&args.selection, console)?;
    let fresh = Request::default();
    let request = Request {
        // Without --again a replay leaves out letters that others have sent.
        all: args.all || (args.selection.not_replayed && select == Select::default()),
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
    request.check().map_err(Failed::Input)?;
    if args.resume.is_none() && args.from.is_none() && request.selects_all() && !request.all {
        return bad(
            "no letters are selected: give --topic, --since, --reason or another option of \"Which letters\", or \
             --all for the whole archive",
        );
    }
    Ok(request)
}

/// Returns the subscriptions that have replaced others.
fn subscriptions(pairs: &[(String, String)]) -> Result<Successors, Failed> {
    let mut successors = BTreeMap::new();
    for (old, new) in pairs {
        if successors.insert(old.clone(), new.clone()).is_some_and(|other| other != *new) {
            return bad(&format!("--subscription names two successors of {old}; give one"));
        }
    }
    Successors::try_from(successors).map_err(|bad| Failed::Input(vec![bad.to_string()]))
}

/// Reads records of `archive show --json`, one a line.
pub(super) fn records(text: &str) -> Result<Vec<Input>, Failed> {
    let input = |shown: Result<Shown, BadRecord>| {
        let shown = shown.map_err(|bad| bad.to_string())?;
        let edited = shown.is_edited();
        Ok((shown.record, edited))
    };
    let records: Vec<_> = read_shown(text)?.map(input).collect();
    if records.is_empty() { bad("the file of --from has no records") } else { Ok(records) }
}

/// Refuses a command line.
pub(super) fn bad<T>(problem: &str) -> Result<T, Failed> {
    Err(Failed::Input(vec![problem.to_owned()]))
}

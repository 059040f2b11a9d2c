//! Overrides of an operator about letters, which the running function obeys.
//!
//! `hold`, `retry` and `give-up` give an override, `overrides` shows them, `overrides release` takes them back. A command
//! first shows which letters it would affect, by the list of waiting letters, and asks. Then it writes the
//! override and wakes the letters.

mod give_override;
mod pattern_args;
mod preview;
mod release;
mod show;
mod target_check;
mod wake;

pub(crate) use give_override::{OverrideDraft, OverrideRequest, reach};
pub(crate) use pattern_args::{named, target};
pub(crate) use preview::{WakeEstimate, ends, signature};
pub(crate) use release::{look as look_at_release, run as release};
pub(crate) use show::{ended, in_force, run as list};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
pub(crate) use wake::MatchCounts;

use redrive_core::failure::Failure;
use wake::WakeSummary;

use crate::args;
use crate::aws::{self, AwsAccess};
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment, check_interrupt};
use crate::control::{ControlAccess, OverrideChange};
use crate::s3_location;

/// The control prefix of a command, and its clients.
struct OverrideClients {
    control: ControlAccess,
    sqs: aws_sdk_sqs::Client,
    sts: aws_sdk_sts::Client,
    aws: AwsAccess,
}

async fn connect(
    place_args: &args::ControlPlace,
    connection: &args::ConnectionArgs,
    console: &ToolEnvironment,
) -> Result<OverrideClients, CommandFailure> {
    let place = s3_location::control(place_args, console)?;
    let aws = AwsAccess::connect(connection, console).await?;
    let clients = aws.clients();
    Ok(OverrideClients {
        control: ControlAccess::new(clients.s3, place),
        sqs: clients.sqs,
        sts: aws.sts(),
        aws,
    })
}

/// The author of an override.
pub(crate) struct OverrideAuthor {
    pub(crate) by: String,
    /// True if AWS confirmed the name. Otherwise it is what the caller claims to be.
    pub(crate) checked: bool,
}

/// Returns the author of the command line, else the caller's ARN according to AWS.
pub(crate) async fn signed(
    args: &args::AuthorArgs,
    sts: &aws_sdk_sts::Client,
) -> Result<OverrideAuthor, CommandFailure> {
    if let Some(by) = &args.by {
        return Ok(OverrideAuthor { by: by.clone(), checked: false });
    }
    let by = aws::caller(sts).await;
    let failed = |failure: Failure| {
        let why = failure.told();
        CommandFailure::Work(format!(
            "cannot ask AWS who you are (sts:GetCallerIdentity failed: {why}); give --by NAME"
        ))
    };
    let by = by.map_err(failed)?;
    Ok(OverrideAuthor { by, checked: true })
}

/// Begins to watch for Ctrl-C before anything is read, if the command asks no question. Ctrl-C ends a command
/// that asks, or that only shows.
fn watch_from_the_start(
    args: &args::AuthorArgs,
    console: &ToolEnvironment,
) -> Result<Option<Arc<AtomicBool>>, CommandFailure> {
    let watches = args.yes && !args.dry_run;
    Ok(watches.then(|| (console.interrupts)()).transpose()?)
}

/// Shows what a command would do, before it asks. Results in JSON are for a script, so the text goes beside
/// them, and only if somebody can answer.
pub(crate) fn show_lines(
    lines: &str,
    yes: bool,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> std::io::Result<()> {
    if !as_json {
        write!(console.out, "{lines}")?;
        console.out.flush()?;
    } else if !yes && console.answers {
        write!(console.err, "{lines}")?;
    }
    Ok(())
}

/// Returns how a command ended that woke letters.
fn finished(woken: Option<&WakeSummary>, unread: u64) -> CommandEnd {
    let is_whole = woken.is_none_or(WakeSummary::is_whole) && unread == 0;
    if is_whole { CommandEnd::Whole } else { CommandEnd::Partly }
}

/// Writes a change, unless the command was interrupted. Returns the flag that interrupts the rest of the command.
async fn write(
    control: &ControlAccess,
    change: &OverrideChange<'_>,
    stop: Option<Arc<AtomicBool>>,
    console: &ToolEnvironment,
) -> Result<Arc<AtomicBool>, CommandFailure> {
    let stop = stop.map_or_else(|| (console.interrupts)(), Ok)?;
    check_interrupt(&stop)?;
    control.change(change).await?;
    Ok(stop)
}

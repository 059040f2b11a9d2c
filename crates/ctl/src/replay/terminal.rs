//! The replayer of this terminal.

use std::io::Write;
use std::sync::Arc;

use redrive_core::arn::Arn;
use redrive_core::policy::Policy;
use redrive_replay::{
    ArchiveReplayer, RedriverState, ReplayEnvironment, ReplayRequest, ReplaySource, ReplayState,
    StoredReplays,
};

use super::held_letters::HoldReader;
use super::replay_request::bad;
use super::summary::{going_on, status};
use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::redriver;
use crate::s3_location::{self, BucketPrefix};
use crate::tables::{count, harmless, utc};
use crate::watch::TerminalWatch;

/// The default number of units that are worked on at once.
const WORKERS: u8 = 4;

/// The archive, the place of what replays know of it, and the requeue.
pub(super) struct TerminalPlaces {
    pub(super) archive: BucketPrefix,
    control: BucketPrefix,
    pub(super) requeue: Arn,
}

impl TerminalPlaces {
    pub(super) fn of(args: &args::ReplayArgs, console: &ToolEnvironment) -> Result<Self, CommandFailure> {
        Ok(Self {
            archive: s3_location::archive(&args.place.archive, console)?,
            control: s3_location::replays(&args.place, console)?,
            requeue: s3_location::requeue(args.requeue.as_deref(), console)?,
        })
    }
}

/// The replayer of this terminal.
pub(super) struct TerminalReplayer {
    pub(super) replay: ArchiveReplayer,
    /// The policy of the command line.
    policy: Option<Policy>,
    /// The function of the stack, if it could be asked.
    redriving: Option<Arc<RedriverState>>,
    pub(super) holds: HoldReader,
}

impl TerminalReplayer {
    pub(super) async fn of(
        places: TerminalPlaces,
        policy: Option<Policy>,
        by: String,
        args: &args::ReplayArgs,
        aws: &AwsAccess,
        console: &mut ToolEnvironment,
    ) -> Result<Self, CommandFailure> {
        let TerminalPlaces { archive, control, requeue } = places;
        let holds = HoldReader::at(&control, aws);
        let parts = ReplayEnvironment {
            clients: aws.clients(),
            bucket: archive.bucket,
            prefix: archive.prefix,
            control_bucket: control.bucket,
            control_prefix: control.prefix,
            requeue,
            clock: console.clock.clone(),
            by,
            workers: args.pace.workers.unwrap_or(WORKERS).into(),
        };
        let redriving = match args.requeue {
            // A requeue that is named here need not belong to the stack's function.
            None => redriver::ask(&parts.requeue, &parts.clients, console).await?,
            Some(_) => None,
        };
        let mut replay = ArchiveReplayer::new(parts);
        if let Some(redriving) = &redriving {
            replay = replay.beside(redriving);
        }
        Ok(Self { replay, policy, redriving, holds })
    }

    pub(super) fn policy(&self) -> Option<&Policy> {
        self.policy.as_ref().or_else(|| self.redriving.as_ref()?.policy.as_ref())
    }

    /// Refuses to send letters on which no function would work, before anybody is asked. A dry run says so.
    pub(super) fn check_is_worked_on(
        &self,
        is_dry_run: bool,
        console: &mut ToolEnvironment,
    ) -> Result<(), CommandFailure> {
        let Some(why) = self.redriving.as_ref().and_then(|it| it.idle.as_deref()) else { return Ok(()) };
        if !is_dry_run {
            return bad(&format!("{why}: only dryRun is possible"));
        }
        let why = harmless(why);
        Ok(writeln!(
            console.err,
            "redrivectl: {why}: no replay is possible, and it would take none of these letters"
        )?)
    }

    /// Counts the letters that a request would send now. Ctrl-C ends the tool.
    pub(super) async fn count(
        &self,
        request: &ReplayRequest,
        source: &ReplaySource,
        as_json: bool,
        console: &mut ToolEnvironment,
    ) -> Result<ReplayState, CommandFailure> {
        let counting = ReplayRequest { dry_run: true, ..request.clone() };
        let watch = TerminalWatch::new(console, as_json, Arc::default()).without_letters();
        let counted = tokio::select! {
            counted = self.replay.dry_run(&counting, source, self.policy(), &watch) => counted,
            never = watch.keep_showing() => match never {},
        };
        watch.end(None);
        Ok(counted?)
    }
}

/// Names an unfinished replay of the same letters. With `--new` it is not looked for.
pub(super) async fn unfinished(
    kept: &StoredReplays,
    request: &ReplayRequest,
    source: &ReplaySource,
    args: &args::ReplayArgs,
    console: &mut ToolEnvironment,
) -> Result<Option<ReplayState>, CommandFailure> {
    if args.new {
        return Ok(None);
    }
    let unfinished = kept.unfinished(request, source).await?;
    let Some(state) = unfinished.into_iter().next() else { return Ok(None) };
    let (id, sent) = (harmless(&state.id), count(state.counts.sent, "letter"));
    writeln!(
        console.err,
        "redrivectl: replay {id} of the same letters is unfinished ({}): begun {} UTC by {}, {sent} sent, \
         of letters archived before {} UTC",
        status(&state),
        utc(state.began),
        harmless(&state.by),
        utc(state.cut_off),
    )?;
    if !args.asks() && !request.dry_run {
        let command = console.stack.further().command(&going_on(&state));
        writeln!(
            console.err,
            "redrivectl: this command begins a new replay; to continue the other one: {command}"
        )?;
    }
    Ok(Some(state))
}

//! The replayer of this terminal.

use std::io::Write;
use std::sync::Arc;

use super::held::Holds;
use super::summary::{going_on, status};
use super::wish::bad;
use crate::args;
use crate::aws::Aws;
use crate::console::{Console, Failed};
use crate::place::{self, Place};
use crate::redriver;
use crate::text::{count, harmless, utc};
use crate::watch::Watch;
use sns_redrive::arn::Arn;
use sns_redrive::policy::Policy;
use sns_redrive::replay::{Parts, Redriving, Replay, Replays, Request, Source, State};

/// The default number of units that are worked on at once.
const WORKERS: u8 = 4;

/// The archive, the place of what replays know of it, and the requeue.
pub(super) struct Places {
    pub(super) archive: Place,
    control: Place,
    pub(super) requeue: Arn,
}

impl Places {
    pub(super) fn of(args: &args::Replay, console: &Console) -> Result<Self, Failed> {
        Ok(Self {
            archive: place::archive(&args.place.archive, console)?,
            control: place::replays(&args.place, console)?,
            requeue: place::requeue(args.requeue.as_deref(), console)?,
        })
    }
}

/// The replayer of this terminal.
pub(super) struct Terminal {
    pub(super) replay: Replay,
    /// The policy of the command line.
    policy: Option<Policy>,
    /// The function of the stack, if it could be asked.
    redriving: Option<Arc<Redriving>>,
    pub(super) holds: Holds,
}

impl Terminal {
    pub(super) async fn of(
        places: Places,
        policy: Option<Policy>,
        by: String,
        args: &args::Replay,
        aws: &Aws,
        console: &mut Console,
    ) -> Result<Self, Failed> {
        let Places { archive, control, requeue } = places;
        let holds = Holds::at(&control, aws);
        let parts = Parts {
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
        let mut replay = Replay::new(parts);
        if let Some(redriving) = &redriving {
            replay = replay.beside(redriving);
        }
        Ok(Self { replay, policy, redriving, holds })
    }

    pub(super) fn policy(&self) -> Option<&Policy> {
        self.policy.as_ref().or_else(|| self.redriving.as_ref()?.policy.as_ref())
    }

    /// Refuses to send letters on which no function would work, before anybody is asked. A dry run says so.
    pub(super) fn check_is_worked_on(&self, is_dry_run: bool, console: &mut Console) -> Result<(), Failed> {
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
        request: &Request,
        source: &Source,
        as_json: bool,
        console: &mut Console,
    ) -> Result<State, Failed> {
        let counting = Request { dry_run: true, ..request.clone() };
        let watch = Watch::new(console, as_json, Arc::default()).without_letters();
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
    kept: &Replays,
    request: &Request,
    source: &Source,
    args: &args::Replay,
    console: &mut Console,
) -> Result<Option<State>, Failed> {
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

//! The work of a job: prepares the preview, checks it, and runs the command.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use redrive_console::ActionVerb;

use super::action::ServeAction;
use super::jobs::{JobPhase, ServeJob};
use super::override_preview::{not_for_pages, override_of};
use super::preview::ActionPreview;
use super::record::record;
use super::run_preview::look;
use super::secret::Secret;
use super::session::ServeSession;
use crate::args::{CliCommand, OverridesTask, ReplayTask};
use crate::command_tool::CommandRunner;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::tables::harmless;
use crate::{overrides, replay, replay_records};

/// The message for a job whose work panicked.
const PANICKED: &str = "The action crashed because of a bug in redrivectl. A part of it may have been done: look at the overrides and \
                        the replays before you repeat it.";

/// Begins a new job, or continues one whose letter was edited.
pub(super) fn begin(session: &Rc<ServeSession>, id: u64) {
    let work = to_its_end(Rc::clone(session), id, looks(Rc::clone(session), id));
    session.jobs.borrow_mut().work(id, work);
}

/// Carries out a job that was confirmed.
pub(super) fn carry_out(session: &Rc<ServeSession>, id: u64) {
    let work = to_its_end(Rc::clone(session), id, checks(Rc::clone(session), id));
    session.jobs.borrow_mut().work(id, work);
}

/// Does the work of a job. If the work panics, the job fails and the server goes on. (A build that aborts on
/// panic ends instead.)
async fn to_its_end(session: Rc<ServeSession>, id: u64, work: impl Future<Output = ()>) {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        session.job(id, |job| job.ends(false, PANICKED));
    }
}

async fn looks(session: Rc<ServeSession>, id: u64) {
    let Some((mut action, tool)) = session.job(id, |job| (job.action.clone(), tool_of(&session, job))) else {
        return;
    };
    if action.act.doing == ActionVerb::Edit && action.record.is_none() {
        let read = record(&action.act, &tool).await;
        session.job(id, |job| match read {
            Ok(record) => job.moves_to(JobPhase::Edits(record)),
            Err(failed) => fails(job, &failed),
        });
        return;
    }
    let preview = Box::pin(look(&mut action, session.mask(), session.account.clock.now(), &tool)).await;
    session.job(id, |job| job.action = action);
    asks(&session, id, preview, Vec::new());
}

/// Shows what the action would do, and asks for a confirmation.
fn asks(
    session: &ServeSession,
    id: u64,
    preview: Result<ActionPreview, CommandFailure>,
    changed: Vec<String>,
) {
    let asked = preview.and_then(|preview| Ok((preview, Secret::new()?)));
    let now = session.account.clock.now();
    session.job(id, |job| match asked {
        Ok((preview, nonce)) => job.asks(preview, changed, nonce, now),
        Err(failed) => fails(job, &failed),
    });
}

/// Prepares the preview once more, and runs the command if nothing has changed since the confirmation. The
/// command reads the state again some milliseconds later. A change in between has the same effect as a change
/// right after the command began.
async fn checks(session: Rc<ServeSession>, id: u64) {
    let shown = session.job(id, |job| match &job.phase {
        JobPhase::Checks(shown) => Some((job.action.clone(), shown.clone(), tool_of(&session, job))),
        _ => None,
    });
    let Some(Some((mut action, shown, tool))) = shown else { return };
    let preview = Box::pin(look(&mut action, session.mask(), session.account.clock.now(), &tool)).await;
    let changed = preview.as_ref().map(|now| now.changed_since(&shown)).unwrap_or_default();
    if preview.is_err() || !changed.is_empty() {
        return asks(&session, id, preview, changed);
    }
    let begun = session.job(id, |job| {
        // The operator may have pressed Stop while the preview was prepared.
        if job.stop.load(Ordering::Relaxed) {
            return None;
        }
        job.moves_to(JobPhase::Runs { since: session.account.clock.now() });
        Some((job.out.clone(), job.err.clone()))
    });
    let Some(Some((out, err))) = begun else { return };
    let input = action.record.as_deref().unwrap_or_default();
    let mut console = tool.console(input, &out, &err);
    let ended = run(action.confirmed(), &mut console).await;
    let held = preview.ok().and_then(|preview| preview.held);
    session.job(id, |job| match ended {
        // An override holds the letters: no attempt was made, and none will be while the override is in force.
        Ok(CommandEnd::Whole) => job.ends(
            true,
            match (held, job.action.act.doing) {
                (None, _) => "It is done.".to_owned(),
                (Some(held), ActionVerb::Release) => format!("Released; {held}."),
                (Some(held), _) => format!("Sent, {held}."),
            },
        ),
        Ok(CommandEnd::LeftOut) => job.ends(
            false,
            held.map_or_else(
                || "It is done, but letters were left out.".to_owned(),
                |held| format!("Sent, {held}; letters were left out."),
            ),
        ),
        Ok(CommandEnd::Stopped) if job.action.is_of_record() => {
            job.ends(false, "It stopped. To go on, begin a new replay on the letter's page.");
        }
        Ok(CommandEnd::Stopped) => {
            let held = held.map_or_else(String::new, |held| format!(" Letters that it sent: {held}."));
            job.ends(false, format!("It stopped, and can go on.{held}"));
        }
        Ok(CommandEnd::Partly | CommandEnd::Unseen | CommandEnd::NeedsPerson) => {
            job.ends(
                false,
                "Something failed, was interrupted or could not be read. What was done is below.",
            );
        }
        Err(failed) => fails(job, &failed),
    });
}

/// Runs the command of an action.
async fn run(words: Vec<String>, console: &mut ToolEnvironment) -> Result<CommandEnd, CommandFailure> {
    match ServeAction::parsed(words)? {
        CliCommand::Overrides(args) => match args.task() {
            OverridesTask::Release(args) => overrides::release(args, false, console).await,
            OverridesTask::List(_) => Err(not_for_pages()),
        },
        CliCommand::Replay(args) => match args.task() {
            ReplayTask::Start(args) => {
                let result = Box::pin(replay::run(args, false, console)).await?;
                console.print(&result, false)
            }
            ReplayTask::Record(task) => replay_records::run(task, false, console).await,
        },
        command => Box::pin(override_of(&command)?.run(false, console)).await,
    }
}

fn fails(job: &mut ServeJob, failed: &CommandFailure) {
    let says: Vec<_> = failed.to_string().lines().map(harmless).collect();
    job.ends(false, says.join("\n"));
}

fn tool_of(session: &ServeSession, job: &ServeJob) -> CommandRunner {
    session.tool.stopped_by(&job.stop)
}

//! The commands of the tool that a drill carries out.

use redrive_archive::LocatedRecord;

use super::scene::DrillResources;
use crate::archive::{NO_SUCH_LETTER, letters};
use crate::args;
use crate::command_tool::CommandRunner;
use crate::console::{CommandEnd, CommandFailure};
use crate::output::CommandResult;
use crate::overrides::{OverrideRequest, look_at_release};

/// The age up to which records are searched while a drill runs. Listing a whole archive would take long.
pub(super) const RECENT_RECORDS: args::TimeArg = args::TimeArg::Ago(6 * 3600);

/// The duration of the overrides in seconds if nobody releases them.
const OVERRIDE_SECONDS: u64 = 30 * 60;

/// Overrides the function to retry letters. Returns the override's id.
pub(super) async fn retry(
    tool: &CommandRunner,
    picks: args::PatternArgs,
    why: String,
) -> Result<String, CommandFailure> {
    let args = args::RetryArgs { give: override_(tool, picks, why), pace: args::WakePace::default() };
    give(tool, "retry", &OverrideRequest::retry(&args)).await
}

/// Has the function give letters up, also those that arrive later. Returns the override's id.
pub(super) async fn give_up(
    tool: &CommandRunner,
    picks: args::PatternArgs,
    why: String,
) -> Result<String, CommandFailure> {
    let (give, pace) = (override_(tool, picks, why), args::WakePace::default());
    let args = args::GiveUp { give, future: true, pace };
    self::give(tool, "give-up", &OverrideRequest::give_up(&args)?).await
}

/// Returns an override that is given without a question.
fn override_(tool: &CommandRunner, picks: args::PatternArgs, why: String) -> args::GiveArgs {
    args::GiveArgs {
        picks,
        lasts: Some(OVERRIDE_SECONDS),
        why: Some(why),
        anyway: true,
        sign: args::AuthorArgs { yes: true, ..Default::default() },
        connection: tool.connection(),
        ..Default::default()
    }
}

async fn give(
    tool: &CommandRunner,
    name: &str,
    request: &OverrideRequest<'_>,
) -> Result<String, CommandFailure> {
    let given = tool.run(name, async |console| {
        let given = request.look(console).await?.give(true, console).await?;
        let finished = given.finished();
        Ok((given.override_.id, finished))
    });
    Box::pin(given).await
}

/// Takes overrides back. `control` is their place, if it is not that of the stack.
pub(super) async fn release(
    tool: &CommandRunner,
    ids: Vec<String>,
    why: &str,
    control: Option<String>,
) -> Result<(), CommandFailure> {
    let args = args::ReleaseArgs {
        ids,
        why: Some(why.to_owned()),
        sign: args::AuthorArgs { yes: true, ..Default::default() },
        place: args::ControlPlace { control, archive: None },
        connection: tool.connection(),
        ..Default::default()
    };
    let released = tool.run("overrides release", async |console| {
        let released = look_at_release(&args, console).await?.release(true, console).await?;
        Ok(((), released.finished()))
    });
    Box::pin(released).await
}

/// Returns the letters of the drill's topic that were archived since then.
pub(super) async fn records(
    tool: &CommandRunner,
    scene: &DrillResources,
    since: args::TimeArg,
) -> Result<Vec<LocatedRecord>, CommandFailure> {
    let selection = selection(scene.names.topic_arn(), scene, since);
    let of = args::ArchiveLetters { selection, connection: tool.connection(), ..Default::default() };
    let args = args::ArchiveShow { letters: of, ..Default::default() };
    let read = tool.run("archive", async |console| {
        let (letters, unread) = letters(&args, console).await?;
        Ok((letters, CommandEnd::of(unread)))
    });
    match read.await {
        Err(CommandFailure::Work(said)) if said == NO_SUCH_LETTER => Ok(Vec::new()),
        read => read,
    }
}

/// Returns the selection of the letters of a topic in the drill's dead-letter queue.
pub(super) fn selection(topic: String, scene: &DrillResources, since: args::TimeArg) -> args::SelectionArgs {
    args::SelectionArgs {
        topic: vec![topic],
        queue: Some(scene.dead_letters.resource().to_owned()),
        since: Some(since),
        ..Default::default()
    }
}

//! The commands of the tool that a drill carries out.

use super::scene::Scene;
use crate::archive::{NO_SUCH_LETTER, letters};
use crate::args;
use crate::console::{Failed, Finished};
use crate::output::CommandResult;
use crate::overrides::{Request, look_at_release};
use crate::tool::Tool;
use sns_redrive::archive::Archived;

/// The age up to which records are searched while a drill runs. Listing a whole archive would take long.
pub(super) const LATELY: args::When = args::When::Ago(6 * 3600);

/// The duration of the overrides in seconds if nobody releases them.
const IN_FORCE: u64 = 30 * 60;

/// Overrides the function to retry letters. Returns the override's id.
pub(super) async fn retry(tool: &Tool, picks: args::Picks, why: String) -> Result<String, Failed> {
    let args = args::Retry { give: override_(tool, picks, why), pace: args::WakePace::default() };
    give(tool, "retry", &Request::retry(&args)).await
}

/// Has the function give letters up, also those that arrive later. Returns the override's id.
pub(super) async fn give_up(tool: &Tool, picks: args::Picks, why: String) -> Result<String, Failed> {
    let (give, pace) = (override_(tool, picks, why), args::WakePace::default());
    let args = args::GiveUp { give, future: true, pace };
    self::give(tool, "give-up", &Request::give_up(&args)?).await
}

/// Returns an override that is given without a question.
fn override_(tool: &Tool, picks: args::Picks, why: String) -> args::Give {
    args::Give {
        picks,
        lasts: Some(IN_FORCE),
        why: Some(why),
        anyway: true,
        sign: args::Sign { yes: true, ..Default::default() },
        connection: tool.connection(),
        ..Default::default()
    }
}

async fn give(tool: &Tool, name: &str, request: &Request<'_>) -> Result<String, Failed> {
    let given = tool.run(name, async |console| {
        let given = request.look(console).await?.give(true, console).await?;
        let finished = given.finished();
        Ok((given.override_.id, finished))
    });
    Box::pin(given).await
}

/// Takes overrides back. `control` is their place, if it is not that of the stack.
pub(super) async fn release(
    tool: &Tool,
    ids: Vec<String>,
    why: &str,
    control: Option<String>,
) -> Result<(), Failed> {
    let args = args::Release {
        ids,
        why: Some(why.to_owned()),
        sign: args::Sign { yes: true, ..Default::default() },
        place: args::ControlPlace { control, archive: None },
        connection: tool.connection(),
        ..Default::default()
    };
    let released = tool.run("release", async |console| {
        let released = look_at_release(&args, console).await?.release(true, console).await?;
        Ok(((), released.finished()))
    });
    Box::pin(released).await
}

/// Returns the letters of the drill's topic that were archived since then.
pub(super) async fn records(tool: &Tool, scene: &Scene, since: args::When) -> Result<Vec<Archived>, Failed> {
    let selection = selection(scene.names.topic_arn(), scene, since);
    let of = args::Letters { selection, connection: tool.connection(), ..Default::default() };
    let args = args::ArchiveShow { letters: of, ..Default::default() };
    let read = tool.run("archive", async |console| {
        let (letters, unread) = letters(&args, console).await?;
        Ok((letters, Finished::of(unread)))
    });
    match read.await {
        Err(Failed::Work(said)) if said == NO_SUCH_LETTER => Ok(Vec::new()),
        read => read,
    }
}

/// Returns the selection of the letters of a topic in the drill's dead-letter queue.
pub(super) fn selection(topic: String, scene: &Scene, since: args::When) -> args::Selection {
    args::Selection {
        topic: vec![topic],
        queue: Some(scene.dead_letters.resource().to_owned()),
        since: Some(since),
        ..Default::default()
    }
}

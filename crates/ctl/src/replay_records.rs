//! `redrivectl replay list`, `show`, `stop` and `free`: the records of replays.

use std::cmp::Reverse;
use std::io::Write;

use redrive_replay::{ReplayError, ReplayState, ReplayStatus, StoredReplays};
use serde_json::{Value, json};

use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::output::CommandResult;
use crate::replay::{status, summary, who};
use crate::s3_location::{self, BucketPrefix};
use crate::tables::{TableNames, TextStyle, count, harmless, thousands, utc};

/// All replays, or one of them.
enum ShownReplays {
    All(Vec<(String, Result<ReplayState, ReplayError>)>),
    One {
        state: Box<ReplayState>,
        /// What becomes of it.
        said: &'static str,
        further: args::FurtherOptions,
    },
}

pub(super) async fn run(
    task: args::ReplayRecordTask<'_>,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let (state, said) = match task {
        args::ReplayRecordTask::List(list) => {
            let replays = kept(&list.place, &list.connection, console).await?;
            return console.print(&ShownReplays::All(replays.list().await?), as_json);
        }
        args::ReplayRecordTask::Show(one) => (show(one, console).await, ""),
        args::ReplayRecordTask::Stop(end) => {
            let replays = signed(end, console).await?;
            let state = replays.stop(&end.one.id, end.why.as_deref()).await;
            let said = match &state {
                Ok(state) if state.status == ReplayStatus::Stopped => "\nIt had already stopped.\n",
                Ok(state) if !state.is_unfinished() => "\nIt had already ended.\n",
                _ => "\nIt stops, wherever it runs, when the letters under way are sent.\n",
            };
            (state.map_err(CommandFailure::from), said)
        }
        args::ReplayRecordTask::Free(free) => {
            let said = "\nIt has ended. Letters that it may have sent count as not sent: the next replay of these \
                        letters sends them.\n";
            (self::free(free, as_json, console).await, said)
        }
    };
    let shown = ShownReplays::One { state: Box::new(state?), said, further: console.stack.further() };
    console.print(&shown, as_json)
}

/// Returns the state of a replay.
pub(crate) async fn show(
    one: &args::OneReplay,
    console: &ToolEnvironment,
) -> Result<ReplayState, CommandFailure> {
    let replays = kept(&one.place, &one.connection, console).await?;
    Ok(replays.show(&one.id).await?)
}

/// Asks, unless `--yes` is given, and frees a replay.
async fn free(
    args::FreeReplay { end, yes }: &args::FreeReplay,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<ReplayState, CommandFailure> {
    console.can_confirm(*yes)?;
    let replays = signed(end, console).await?;
    if !yes {
        let state = replays.show(&end.one.id).await?;
        let shown = summary(&state, &who_and_why(&state), &console.stack.further());
        let to = if as_json { &mut console.err } else { &mut console.out };
        writeln!(to, "{shown}")?;
        to.flush()?;
        let question = "Free it? It cannot be continued then, and the next replay of these letters sends those that it \
                        may have sent: subscribers can get them twice.";
        console.confirm(false, question)?;
    }
    Ok(replays.free(&end.one.id, end.why.as_deref()).await?)
}

impl CommandResult for ShownReplays {
    fn text(&self, style: TextStyle) -> String {
        match self {
            Self::All(all) => list(all, style),
            Self::One { state, said, further } => {
                format!("{}{said}", summary(state, &who_and_why(state), further))
            }
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::All(all) => {
                let states: Vec<_> = all.iter().filter_map(|(_, state)| state.as_ref().ok()).collect();
                let unread = all.iter().filter_map(|(id, state)| Some((id, state.as_ref().err()?)));
                let unread: Vec<_> =
                    unread.map(|(id, why)| json!({ "id": id, "why": why.to_string() })).collect();
                json!({ "replays": states, "unread": unread })
            }
            Self::One { state, .. } => json!(state),
        }
    }

    fn finished(&self) -> CommandEnd {
        let Self::All(all) = self else { return CommandEnd::Whole };
        let is_broken = |(_, state): &&(_, Result<_, _>)| {
            matches!(state, Err(ReplayError::Broken(_) | ReplayError::TooLarge(..)))
        };
        CommandEnd::of(all.iter().filter(is_broken).count() as u64)
    }
}

/// Returns the replays for reading.
async fn kept(
    place: &args::ReplayPlace,
    connection: &args::ConnectionArgs,
    console: &ToolEnvironment,
) -> Result<StoredReplays, CommandFailure> {
    let BucketPrefix { bucket, prefix } = s3_location::replays(place, console)?;
    let s3 = AwsAccess::connect(connection, console).await?.clients().s3;
    Ok(StoredReplays::new(s3, &bucket, &prefix, console.clock.clone(), String::new()))
}

/// Returns the replays for ending one, which records the author.
async fn signed(end: &args::EndReplay, console: &ToolEnvironment) -> Result<StoredReplays, CommandFailure> {
    let BucketPrefix { bucket, prefix } = s3_location::replays(&end.one.place, console)?;
    let aws = AwsAccess::connect(&end.one.connection, console).await?;
    let by = who(end.by.as_deref(), &aws.sts()).await;
    Ok(StoredReplays::new(aws.clients().s3, &bucket, &prefix, console.clock.clone(), by))
}

fn who_and_why(state: &ReplayState) -> Vec<(&'static str, String)> {
    let mut rows = vec![("begun", format!("{} UTC by {}", utc(state.began), harmless(&state.by)))];
    if let Some(why) = &state.request.why {
        rows.push(("why", harmless(why)));
    }
    for (what, note) in [("resumed", &state.resumed), ("freed", &state.freed)] {
        let Some(note) = note else { continue };
        let why = note.why.as_ref().map_or(String::new(), |why| format!(": {}", harmless(why)));
        rows.push((what, format!("{} UTC by {}{why}", utc(note.at), harmless(&note.by))));
    }
    rows
}

/// Returns replays as a table, the largest first, but before all others those that somebody may have to resume. Those of the
/// same size stay in their order, the latest first.
fn list(all: &[(String, Result<ReplayState, ReplayError>)], style: TextStyle) -> String {
    if all.is_empty() {
        return "No replays.\n".to_owned();
    }
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_by_key(|(_, state)| {
        Reverse(state.as_ref().map_or((false, 0), |state| (state.is_unfinished(), state.letters)))
    });
    let authors = all.iter().filter_map(|(_, state)| Some(state.as_ref().ok()?.by.as_str()));
    let names = TableNames::of(authors, style);
    let mut rows = vec![["id", "status", "sent", "of", "begun (UTC)", "by"].map(str::to_owned).to_vec()];
    rows.extend(sorted.iter().map(|(id, state)| match state {
        Ok(state) => row(state, &names),
        Err(error) => {
            let why = match error {
                ReplayError::Newer(_) => "(written by a newer version)",
                _ => "(cannot be read)",
            };
            vec![harmless(id), "unknown".into(), String::new(), String::new(), String::new(), why.to_owned()]
        }
    }));
    let needs_person = |state: &ReplayState| ["stopped", "cut off"].contains(&status(state));
    let red = (1..).zip(&sorted).filter(|(_, (_, state))| state.as_ref().is_ok_and(needs_person));
    let red: Vec<_> = red.map(|(row, _)| row).collect();
    format!("{}\n{}.\n", style.table(&rows, &[2, 3], &red), count(all.len() as u64, "replay"))
}

fn row(state: &ReplayState, names: &TableNames) -> Vec<String> {
    vec![
        harmless(&state.id),
        status(state).to_owned(),
        thousands(state.counts.sent),
        thousands(state.letters),
        utc(state.began),
        names.name(&state.by),
    ]
}

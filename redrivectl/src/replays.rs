//! `redrivectl replays`: lists, shows, stops and frees replays.

use std::io::Write;

use serde_json::json;

use crate::args;
use crate::aws::Aws;
use crate::console::{Console, Failed, Finished};
use crate::place::{self, Place};
use crate::replay::{status, summary, who};
use crate::text::{count, harmless, table, thousands, utc};
use sns_redrive::replay::{ReplayError, Replays, State, Status};

pub(super) async fn run(
    args: &args::Replays,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let (state, said) = match &args.command {
        None => {
            let replays = kept(&args.place, &args.connection, console).await?;
            let all = replays.list().await?;
            let is_broken = |(_, state): &&(_, Result<_, _>)| {
                matches!(state, Err(ReplayError::Broken(_) | ReplayError::TooLarge(..)))
            };
            let broken = all.iter().filter(is_broken).count();
            if as_json {
                let (states, unread): (Vec<_>, Vec<_>) = all.iter().partition(|(_, state)| state.is_ok());
                let states: Vec<_> =
                    states.into_iter().filter_map(|(_, state)| state.as_ref().ok()).collect();
                let unread = unread.into_iter().filter_map(|(id, state)| Some((id, state.as_ref().err()?)));
                let unread: Vec<_> =
                    unread.map(|(id, why)| json!({ "id": id, "why": why.to_string() })).collect();
                writeln!(console.out, "{}", json!({ "replays": states, "unread": unread }))?;
            } else {
                write!(console.out, "{}", list(&all))?;
            }
            return Ok(Finished::of(broken as u64));
        }
        Some(args::ReplaysCommand::Show(one)) => {
            let replays = kept(&one.place, &one.connection, console).await?;
            (replays.show(&one.id).await, "")
        }
        Some(args::ReplaysCommand::Stop(end)) => {
            let replays = signed(end, console).await?;
            let state = replays.stop(&end.one.id, end.why.as_deref()).await;
            let said = match &state {
                Ok(state) if state.status == Status::Stopped => "\nIt had already stopped.\n",
                Ok(state) if !state.is_unfinished() => "\nIt had already ended.\n",
                _ => "\nIt stops, wherever it runs, when the letters under way are sent.\n",
            };
            (state, said)
        }
        Some(args::ReplaysCommand::Free(args::FreeReplay { end, yes })) => {
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
            let said = "\nIt has ended. Letters that it may have sent count as not sent: the next replay of these \
                        letters sends them.\n";
            (replays.free(&end.one.id, end.why.as_deref()).await, said)
        }
    };
    let state = state?;
    if as_json {
        writeln!(console.out, "{}", json!(state))?;
    } else {
        let further = console.stack.further();
        write!(console.out, "{}{said}", summary(&state, &who_and_why(&state), &further))?;
    }
    Ok(Finished::Whole)
}

/// Returns the replays for reading.
async fn kept(
    place: &args::ReplayPlace,
    connection: &args::Connection,
    console: &Console,
) -> Result<Replays, Failed> {
    let Place { bucket, prefix } = place::replays(place, console)?;
    let s3 = Aws::connect(connection, console).await?.clients().s3;
    Ok(Replays::new(s3, &bucket, &prefix, console.clock.clone(), String::new()))
}

/// Returns the replays for ending one, which records the author.
async fn signed(end: &args::EndReplay, console: &Console) -> Result<Replays, Failed> {
    let Place { bucket, prefix } = place::replays(&end.one.place, console)?;
    let aws = Aws::connect(&end.one.connection, console).await?;
    let by = who(end.by.as_deref(), &aws.sts()).await;
    Ok(Replays::new(aws.clients().s3, &bucket, &prefix, console.clock.clone(), by))
}

fn who_and_why(state: &State) -> Vec<(&'static str, String)> {
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

fn list(all: &[(String, Result<State, ReplayError>)]) -> String {
    if all.is_empty() {
        return "No replays.\n".to_owned();
    }
    let mut rows = vec![["id", "status", "sent", "of", "begun (UTC)", "by"].map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|(id, state)| match state {
        Ok(state) => row(state),
        Err(error) => {
            let why = match error {
                ReplayError::Newer(_) => "(written by a newer version)",
                _ => "(cannot be read)",
            };
            vec![harmless(id), "unknown".into(), String::new(), String::new(), String::new(), why.to_owned()]
        }
    }));
    format!("{}\n{}.\n", table(&rows, &[2, 3]), count(all.len() as u64, "replay"))
}

fn row(state: &State) -> Vec<String> {
    vec![
        harmless(&state.id),
        status(state).to_owned(),
        thousands(state.counts.sent),
        thousands(state.letters),
        utc(state.began),
        harmless(&state.by),
    ]
}

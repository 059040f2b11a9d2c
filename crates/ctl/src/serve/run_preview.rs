//! Previews an action, by its own command.

use jiff::Timestamp;
use redrive_archive::ArchiveRecord;
use redrive_console::read::ContentMask;
use redrive_console::{ActionObject, ActionVerb};
use redrive_core::policy::Override;
use redrive_replay::{ReplayState, ReplayStatus};

use super::action::ServeAction;
use super::override_preview::{not_for_pages, override_, overrides, release, row};
use super::preview::{ActionPreview, listed, most, noted};
use super::record::{difference, record};
use crate::args::{self, CliCommand, OverridesTask};
use crate::command_tool::{CommandOutput, CommandRunner};
use crate::console::CommandFailure;
use crate::replay::{ReplayHolds, ReplayResult, selected, status, to_send};
use crate::tables::{count, harmless, thousands, utc};
use crate::{replay, replay_records};

/// Previews an action, and binds it to the letters of the preview.
///
/// # Errors
///
/// The command failed: the action cannot be done.
pub(super) async fn look(
    action: &mut ServeAction,
    mask: ContentMask<'_>,
    now: Timestamp,
    tool: &CommandRunner,
) -> Result<ActionPreview, CommandFailure> {
    let in_force = overrides(tool).await?;
    let mut preview = match (&action.act.on, action.act.doing) {
        (ActionObject::Replay(id), doing) => replay_there(id, doing, &in_force, now, tool).await?,
        _ => match ServeAction::parsed(action.words())? {
            CliCommand::Overrides(args) => match args.task() {
                OverridesTask::Release(args) => release(action.id(), args, tool).await?,
                OverridesTask::List(_) => return Err(not_for_pages()),
            },
            CliCommand::Replay(args) => {
                let args = args.into_start().ok_or_else(not_for_pages)?;
                replay(action, args, &in_force, now, mask, tool).await?
            }
            command => override_(action, &command, tool).await?,
        },
    };
    preview
        .facts
        .push(("Overrides in force", listed(in_force.iter().map(|override_| harmless(&override_.id)))));
    preview.overrides = in_force.iter().map(|override_| row(override_, now)).collect();
    Ok(preview)
}

async fn replay(
    action: &mut ServeAction,
    args: args::ReplayArgs,
    overrides: &[Override],
    now: Timestamp,
    mask: ContentMask<'_>,
    tool: &CommandRunner,
) -> Result<ActionPreview, CommandFailure> {
    if action.record.is_none()
        && let ActionObject::Archived { .. } = &action.act.on
    {
        action.record = Some(record(&action.act, tool).await?);
    }
    let difference = match (&action.record, action.act.doing) {
        (Some(record), ActionVerb::Edit) => Some(difference(record, mask, tool).await?),
        _ => None,
    };
    let notes = CommandOutput::bounded();
    let mut console =
        tool.console(action.record.as_deref().unwrap_or_default(), &CommandOutput::default(), &notes);
    let args = args::ReplayArgs { dry_run: true, ..args };
    let ReplayResult::Ended { state, other, .. } = Box::pin(replay::run(&args, true, &mut console)).await?
    else {
        return Err(CommandFailure::Work("the replay was not tried".to_owned()));
    };
    let notes = notes.text();
    if action.bound.is_empty() && !action.is_of_record() {
        action.bound.push(format!("--cut-off={}", state.cut_off));
    }
    let counts = &state.counts;
    let most = most(state.exact);
    let mut rows = vec![
        (
            "selected",
            format!("{most}{}, archived before {} UTC", count(state.letters, "letter"), utc(state.cut_off)),
        ),
        ("which", selected(&state)),
        ("to send", to_send(&state)),
    ];
    for (what, number) in [
        ("replayed already", counts.already_replayed),
        ("stored twice", counts.doubles),
        ("unreadable", counts.unreadable),
    ] {
        if number > 0 {
            rows.push((what, thousands(number)));
        }
    }
    let left_out = counts.not_replayable.iter();
    rows.extend(
        left_out.map(|(why, number)| ("left out", format!("{}: {}", thousands(*number), harmless(why)))),
    );
    let steps: Vec<_> = state.request.ramp.iter().map(|percent| format!("{percent} %")).collect();
    rows.push((
        "steps",
        format!("{}, {} letters a second", steps.join(", "), thousands(state.request.rate.into())),
    ));
    let left_out = counts
        .not_replayable
        .iter()
        .map(|(why, number)| format!("{}: {}", thousands(*number), harmless(why)));
    let facts = vec![
        ("Unfinished replays of the same letters", listed(other.iter().map(|id| harmless(id)))),
        ("Unreadable", thousands(counts.unreadable)),
        ("Left out", listed(left_out)),
        ("Their targets are", if state.at_most { "not checked" } else { "checked" }.to_owned()),
        noted(&notes),
    ];
    let record = action.record.as_ref().and_then(|record| ArchiveRecord::from_line(record.trim()).ok());
    let held = held_by(counts.sent, &state, record.as_ref(), overrides, now);
    rows.extend(held.as_ref().map(|held| ("held", held.before())));
    Ok(ActionPreview {
        letters: counts.sent,
        is_bound: state.at_most,
        is_unchecked: state.at_most,
        rows,
        overrides: Vec::new(),
        difference,
        held: held.map(|held| held.text()),
        notes,
        facts,
    })
}

/// Returns what holds the letters that a replay has yet to send, if it has any.
fn held_by(
    letters: u64,
    state: &ReplayState,
    record: Option<&ArchiveRecord>,
    overrides: &[Override],
    now: Timestamp,
) -> Option<ReplayHolds> {
    if letters == 0 {
        return None;
    }
    ReplayHolds::of(&state.request, record.map(std::slice::from_ref), overrides, now)
}

async fn replay_there(
    id: &str,
    doing: ActionVerb,
    overrides: &[Override],
    now: Timestamp,
    tool: &CommandRunner,
) -> Result<ActionPreview, CommandFailure> {
    let notes = CommandOutput::bounded();
    let args = args::OneReplay { id: id.to_owned(), connection: tool.connection(), ..Default::default() };
    let state = replay_records::show(&args, &tool.console("", &CommandOutput::default(), &notes)).await?;
    let notes = notes.text();
    if doing == ActionVerb::Resume && state.given.is_some() {
        let why = "this replay was given its letters, and a page cannot give them again: begin a new replay on the letter's \
                   page, or give the file again in a terminal: redrivectl replay --resume ID --from FILE";
        return Err(CommandFailure::Work(why.to_owned()));
    }
    let is_unfinished = state.is_unfinished();
    let left = if is_unfinished { state.left() } else { 0 };
    let most = most(state.exact);
    let mut rows = vec![
        ("replay", format!("{}, {}", harmless(&state.id), status(&state))),
        ("which", selected(&state)),
        ("sent", format!("{} of {most}{}", thousands(state.counts.sent), count(state.letters, "letter"))),
        ("begun", format!("{} UTC by {}", utc(state.began), harmless(&state.by))),
    ];
    let mut facts = vec![("It is", if is_unfinished { "unfinished" } else { "over" }.to_owned())];
    if doing == ActionVerb::Resume {
        // Somebody else may have gone on with it.
        facts = vec![("It is", format!("{}, {} sent", status(&state), thousands(state.counts.sent)))];
        if is_unfinished && state.status != ReplayStatus::Stopped && !state.abandoned {
            let says = "this takes it over from the process that may still run it: that process then ends by itself, after its \
                        step at the latest. Letters that it may have sent are sent again";
            rows.push(("takeover", says.to_owned()));
        }
    }
    let held = if doing == ActionVerb::Resume { held_by(left, &state, None, overrides, now) } else { None };
    rows.extend(held.as_ref().map(|held| ("held", held.before())));
    Ok(ActionPreview {
        letters: left,
        // Those that are left may have been sent by another replay, or cannot be sent.
        is_bound: left > 0,
        is_unchecked: false,
        rows,
        overrides: Vec::new(),
        difference: None,
        held: held.map(|held| held.text()),
        notes,
        facts,
    })
}

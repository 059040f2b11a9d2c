//! A replay as lines of text.

use redrive_replay::{ReplayRequest, ReplayState, ReplayStatus};

use super::held_letters::ReplayHolds;
use super::selection_words::{selected, which};
use crate::args;
use crate::tables::{count, harmless, table, thousands, utc};

/// Returns the command that continues a replay. Records that were given must be given again.
pub(crate) fn going_on(state: &ReplayState) -> Vec<&str> {
    let from = state.given.iter().flat_map(|_| ["--from", "FILE"]);
    ["replay", "--resume", &state.id].into_iter().chain(from).collect()
}

fn step(state: &ReplayState) -> String {
    format!("step {} of {}", state.step, state.steps)
}

/// Returns the status of a replay in a word or two.
pub(crate) fn status(state: &ReplayState) -> &'static str {
    if state.freed.is_some() {
        "freed"
    } else if state.abandoned {
        "cut off"
    } else {
        state.status.name()
    }
}

/// Returns the number of letters that a dry run has found to send.
pub(crate) fn to_send(state: &ReplayState) -> String {
    let letters = count(state.counts.sent, "letter");
    if state.at_most { format!("at most {letters}, not checked") } else { letters }
}

/// Returns a replay as lines of text, with `more` rows.
pub(crate) fn summary(
    state: &ReplayState,
    more: &[(&str, String)],
    further: &args::FurtherOptions,
) -> String {
    let ended = match state.status {
        ReplayStatus::DryRun => "dry run, nothing was sent".to_owned(),
        ReplayStatus::Done => "done".to_owned(),
        ReplayStatus::Stopped => format!("stopped in {}", step(state)),
        ReplayStatus::Running | ReplayStatus::Settling if state.abandoned => {
            format!("cut off in {}", step(state))
        }
        ReplayStatus::Running | ReplayStatus::Settling => format!("unfinished, in {}", step(state)),
    };
    let next = if state.is_unfinished() {
        format!("\nTo continue: {}\n", further.command(&going_on(state)))
    } else {
        String::new()
    };
    format!("Replay {}: {ended}.\n{}{next}", harmless(&state.id), rows(state, more))
}

/// Returns what a replay would do, before it begins.
pub(super) fn preview(state: &ReplayState, held: Option<&ReplayHolds>) -> String {
    let more = ahead(&state.request, held);
    format!("Replay: these letters are sent again.\n{}", rows(state, &more))
}

/// Returns what a replay would do if its letters could not be counted.
pub(super) fn uncounted(request: &ReplayRequest, why: &str, held: Option<&ReplayHolds>) -> String {
    let to = request.to.as_ref().map(|to| ("to", harmless(&String::from(to.clone()))));
    let cut_off = request.cut_off.map(|at| ("cut-off", format!("archived before {} UTC", utc(at))));
    let rows = [("which", which(request, false))].into_iter().chain(cut_off).chain(to);
    let rows = rows.chain(ahead(request, held));
    let rows: Vec<_> = rows.map(|(what, text)| vec![format!("  {what}"), text]).collect();
    format!("Replay: the letters could not be counted: {}\n{}", harmless(why), table(&rows, &[]))
}

/// Returns the pace of a replay, and what will hold its letters.
fn ahead(request: &ReplayRequest, held: Option<&ReplayHolds>) -> Vec<(&'static str, String)> {
    let steps: Vec<_> = request.ramp.iter().map(u32::to_string).collect();
    let pace = format!(
        "{} % of the letters, {} a second; stops if more than {} % of a step fail",
        steps.join(", "),
        thousands(request.rate.into()),
        request.threshold
    );
    let held = held.map(|held| ("held", held.before()));
    [("steps", pace)].into_iter().chain(held).collect()
}

fn rows(state: &ReplayState, more: &[(&str, String)]) -> String {
    let counts = &state.counts;
    let mut rows = Vec::new();
    let mut say = |what: &str, text: String| rows.push(vec![format!("  {what}"), text]);
    let most = if state.exact { "" } else { "at most " };
    let cut_off = format!("archived before {} UTC", utc(state.cut_off));
    say("selected", format!("{most}{}, {cut_off}", count(state.letters, "letter")));
    say("which", selected(state));
    if let Some(to) = &state.request.to {
        say("to", harmless(&String::from(to.clone())));
    }
    if state.status == ReplayStatus::DryRun {
        say("to send", to_send(state));
    } else {
        say("sent", count(counts.sent, "letter"));
    }
    let in_doubt =
        if state.is_unfinished() { ", may have been sent, go again" } else { ", may have been sent" };
    // Where another replay has planned to send letters of the same hours, it may have sent some that are gone.
    let most_gone = if state.place.others { "at most " } else { most };
    for (what, most, number, noun, note) in [
        ("maybe twice", "", counts.repeated, "letter", ""),
        ("in doubt", "", counts.in_doubt, "letter", in_doubt),
        ("refused", "", counts.refused, "letter", ", by SQS"),
        ("came back", "", state.came_back, "letter", ", since its last step began"),
        ("passed over", "", counts.already_replayed, "letter", ", replayed already"),
        ("doubles", "", counts.doubles, "record", ", stored twice after a crash"),
        ("gone", most_gone, counts.gone, "letter", ", deleted from the archive before they were sent"),
        ("unreadable", "", counts.unreadable, "line", ""),
    ] {
        if number > 0 {
            say(what, format!("{most}{}{note}", count(number, noun)));
        }
    }
    for (why, number) in &counts.not_replayable {
        say("left out", format!("{}: {}", count(*number, "letter"), harmless(why)));
    }
    if let Some(because) = &state.because {
        say("because", harmless(because));
    }
    for (what, text) in more {
        say(what, text.clone());
    }
    table(&rows, &[])
}

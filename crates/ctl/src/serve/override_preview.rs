//! Previews of overrides and of their release.

use jiff::Timestamp;
use redrive_console::ActionVerb;
use redrive_core::policy::Override;

use super::action::ServeAction;
use super::preview::ActionPreview;
use crate::args::{self, CliCommand};
use crate::command_tool::{CommandOutput, CommandRunner};
use crate::console::CommandFailure;
use crate::overrides::{MatchCounts, OverrideRequest, WakeEstimate, in_force, look_at_release};
use crate::tables::{brief, count, harmless, thousands, utc};

/// Returns the overrides that have not ended.
pub(super) async fn overrides(tool: &CommandRunner) -> Result<Vec<Override>, CommandFailure> {
    let args = args::ShowOverrides { connection: tool.connection(), ..Default::default() };
    in_force(&args, &mut tool.console("", &CommandOutput::default(), &CommandOutput::bounded())).await
}

pub(super) fn row(override_: &Override, now: Timestamp) -> [String; 4] {
    let told =
        |at: Option<Timestamp>, tell: fn(String) -> String| at.map_or(String::new(), |at| tell(utc(at)));
    let from = told(Some(override_.at).filter(|at| *at > now), |at| format!(", from {at} UTC"));
    let before = told(override_.arrived_before, |at| format!(", arrived before {at} UTC"));
    let after = told(override_.arrived_after, |at| format!(", arrived {at} UTC or later"));
    let letters = format!("{}{before}{after}", harmless(&override_.pattern.to_string()));
    [harmless(&override_.id), format!("{}{from}", override_.action.name()), letters, harmless(&override_.why)]
}

/// Returns the override that a command gives.
pub(super) fn override_of(command: &CliCommand) -> Result<OverrideRequest<'_>, CommandFailure> {
    match command {
        CliCommand::Hold(args) => Ok(OverrideRequest::hold(args)),
        CliCommand::Retry(args) => Ok(OverrideRequest::retry(args)),
        CliCommand::GiveUp(args) => OverrideRequest::give_up(args),
        _ => Err(not_for_pages()),
    }
}

/// Returns the error for a command that no page runs.
pub(super) fn not_for_pages() -> CommandFailure {
    CommandFailure::Work("pages do not run this command".to_owned())
}

pub(super) async fn override_(
    action: &mut ServeAction,
    command: &CliCommand,
    tool: &CommandRunner,
) -> Result<ActionPreview, CommandFailure> {
    let notes = CommandOutput::bounded();
    let mut console = tool.console("", &CommandOutput::default(), &notes);
    let preview = Box::pin(override_of(command)?.look(&mut console)).await?.preview;
    let override_ = &preview.override_;
    let mut rows = vec![("match", harmless(&override_.pattern.to_string()))];
    if let Some(before) = override_.arrived_before {
        rows.push(("arrived", format!("before {} UTC", utc(before))));
        // Letters that arrive from now on were not previewed.
        if action.bound.is_empty() && action.act.doing == ActionVerb::GiveUp {
            action.bound.push(format!("--arrived-before={before}"));
        }
    }
    if let Some(after) = override_.arrived_after {
        rows.push(("arrived", format!("{} UTC or later", utc(after))));
    }
    rows.extend(touched(preview.touched, &preview.undecided));
    for (what, list) in [("unknown", &preview.unknown.missing), ("not checked", &preview.unknown.unseen)] {
        rows.extend(list.iter().map(|it| (what, harmless(it))));
    }
    rows.push((
        "not counted",
        "letters that are hidden for less than two minutes, or were not received yet".to_owned(),
    ));
    // It begins when it is confirmed, which may be minutes after this.
    let lasts = override_.until.map(|until| until.duration_since(override_.at));
    let ends = lasts.map_or("until it is released".to_owned(), |lasts| {
        format!("for {}, from the confirmation on", brief(lasts.unsigned_abs().as_secs()))
    });
    rows.push(("in force", ends));
    rows.extend(preview.waking().map(wakes));
    if preview.is_too_short() {
        let says = "the override ends before the last letter is asked to wake: let it be in force longer, or raise the rate";
        rows.push(("too short", says.to_owned()));
    }
    let by_checked = if preview.by_checked { "confirmed by AWS" } else { "not checked" };
    rows.push(("by", format!("{}, {by_checked}", harmless(&override_.by))));
    Ok(ActionPreview::new(preview.touched, rows, notes.text()))
}

pub(super) async fn release(
    id: &str,
    args: &args::ReleaseArgs,
    tool: &CommandRunner,
) -> Result<ActionPreview, CommandFailure> {
    let notes = CommandOutput::bounded();
    let mut console = tool.console("", &CommandOutput::default(), &notes);
    let preview = look_at_release(args, &mut console).await?.preview;
    let mut rows = vec![("releases", harmless(id))];
    rows.extend(touched(preview.touched, &[]));
    rows.extend(preview.waking.map(wakes));
    let stay = preview.touched.held;
    let held = (stay > 0).then(|| format!("at most {} held by another override", count(stay, "letter")));
    Ok(ActionPreview { held, ..ActionPreview::new(preview.touched, rows, notes.text()) })
}

fn touched(touched: MatchCounts, undecided: &[String]) -> Vec<(&'static str, String)> {
    let mut rows =
        vec![("affects", format!("at most {} on the list of waiting letters", count(touched.yes, "letter")))];
    if touched.maybe > 0 {
        let fields: Vec<_> = undecided.iter().map(|field| harmless(field)).collect();
        let more = count(touched.maybe, "letter");
        let why = if fields.is_empty() {
            String::new()
        } else {
            format!(": the list does not tell {}", fields.join(", "))
        };
        rows.push(("may affect", format!("{more} more{why}")));
    }
    if touched.claimed > 0 {
        rows.push(("being woken", touched.claimed_in_words()));
    }
    if touched.held > 0 {
        rows.push((
            "sleeps on",
            format!("{}, which another hold still holds", count(touched.held, "letter")),
        ));
    }
    if touched.unread > 0 {
        rows.push(("not read", format!("{} of the list", count(touched.unread, "part"))));
    }
    rows
}

/// Says how letters are woken, and that this process has to run until then.
fn wakes(waking: WakeEstimate) -> (&'static str, String) {
    let says = format!(
        "{}, beginning {} after the override, {} a second; takes about {}; waking ends with redrivectl serve",
        count(waking.letters, "hidden letter"),
        brief(waking.begins_after_seconds),
        thousands(waking.rate.into()),
        brief(waking.takes_seconds)
    );
    ("wakes", says)
}

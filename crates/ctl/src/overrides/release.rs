//! `redrivectl overrides release`: takes overrides back.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use redrive_core::policy::{Override, OverrideAction, OverrideReach, Overrides};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::pattern_args::pattern;
use super::preview::{WakeEstimate, signature};
use super::show::row;
use super::wake::{LetterWaker, MatchCounts, WakeSummary};
use super::{
    OverrideAuthor, OverrideClients, connect, finished, show_lines, signed, watch_from_the_start, write,
};
use crate::args;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment, unless_interrupted};
use crate::control::{ControlAccess, OverrideChange, ReleaseNote};
use crate::output::CommandResult;
use crate::tables::{TextStyle, count, harmless, table};

/// What a release would do.
pub(crate) struct ReleasePreview {
    ids: Vec<String>,
    /// The overrides as rows of a table.
    rows: Vec<Vec<String>>,
    by: String,
    by_checked: bool,
    pub(crate) touched: MatchCounts,
    /// How the letters of holds are woken; `None` if no hold is released.
    pub(crate) waking: Option<WakeEstimate>,
}

/// Overrides that are to be taken back.
pub(crate) struct ReleaseDraft<'a> {
    args: &'a args::ReleaseArgs,
    pub(crate) preview: ReleasePreview,
    holds: Vec<Override>,
    control: ControlAccess,
    waker: LetterWaker,
    stop: Option<Arc<AtomicBool>>,
}

/// Overrides that were taken back.
pub(crate) struct ReleaseResult {
    preview: ReleasePreview,
    release: ReleaseNote,
    woken: Option<WakeSummary>,
    /// Lines and objects of the list that could not be read.
    unread: u64,
    /// The commands that wake the letters of the holds, which are gone.
    to_wake: Vec<String>,
}

/// Releases overrides, or shows what that would do, and prints the result.
pub(crate) async fn run(
    args: &args::ReleaseArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let draft = look(args, console).await?;
    if args.sign.dry_run {
        return console.print(&draft.preview, as_json);
    }
    let released = draft.release(as_json, console).await?;
    console.print(&released, as_json)
}

/// Reads what a release would do.
pub(crate) async fn look<'a>(
    args: &'a args::ReleaseArgs,
    console: &mut ToolEnvironment,
) -> Result<ReleaseDraft<'a>, CommandFailure> {
    let picked = pattern(&args.picks)?;
    let stop = watch_from_the_start(&args.sign, console)?;
    let OverrideClients { control, sqs, sts, .. } = connect(&args.place, &args.connection, console).await?;
    let OverrideAuthor { by, checked } = signed(&args.sign, &sts).await?;
    let overrides = control.overrides(console).await?;
    let now = console.clock.now();
    let is_hold =
        |override_: &Override| override_.action == OverrideAction::Hold && !override_.has_ended(now);
    let meant = meant(args, picked.as_ref(), &overrides, is_hold)?;

    // A letter that came onto the list after a hold began was hidden by the hold.
    let holds: Vec<_> =
        meant.iter().filter(|override_| is_hold(override_)).map(|override_| (*override_).clone()).collect();
    let reaches: Result<Vec<_>, _> = holds
        .iter()
        .map(|override_| OverrideReach::of(override_).map(|reach| (reach, Some(override_.at))))
        .collect();
    let reaches = reaches.map_err(|bad| CommandFailure::Work(bad.to_string()))?;
    let stay =
        overrides.all().iter().filter(|override_| override_.is_in_force(now) && !meant.contains(override_));
    let stay: Result<Vec<_>, _> =
        stay.map(|override_| OverrideReach::of(override_).map(|reach| (override_.clone(), reach))).collect();
    let stay = stay.map_err(|bad| CommandFailure::Work(bad.to_string()))?;
    let mut waker = LetterWaker::new(&control, &sqs, reaches).but_not(stay);
    if !holds.is_empty() {
        unless_interrupted(stop.as_ref(), waker.read(console)).await?;
    }
    let touched = waker.touched(now);
    let preview = ReleasePreview {
        ids: meant.iter().map(|override_| override_.id.clone()).collect(),
        rows: meant.iter().map(|override_| row(override_, now)).collect(),
        by,
        by_checked: checked,
        touched,
        waking: (!holds.is_empty()).then(|| WakeEstimate::of(touched, args.pace.rate)),
    };
    Ok(ReleaseDraft { args, preview, holds, control, waker, stop })
}

/// Returns the overrides that a command line means.
fn meant<'o>(
    args: &args::ReleaseArgs,
    picked: Option<&Value>,
    overrides: &'o Overrides,
    is_hold: impl Fn(&Override) -> bool,
) -> Result<Vec<&'o Override>, CommandFailure> {
    let is_meant = |override_: &&Override| match picked {
        None => args.ids.contains(&override_.id),
        Some(_) if args.picks.all => is_hold(override_),
        Some(pattern) => is_hold(override_) && override_.pattern == *pattern,
    };
    let meant: Vec<_> = overrides.all().iter().filter(is_meant).collect();
    let unknown = args.ids.iter().filter(|id| !meant.iter().any(|override_| override_.id == **id));
    let unknown: Vec<_> = unknown
        .map(|id| format!("there is no override {}; `redrivectl overrides` lists them", harmless(id)))
        .collect();
    if !unknown.is_empty() {
        return Err(CommandFailure::Input(unknown));
    }
    if meant.is_empty() {
        let all = args.picks.all;
        let has = if all { "no hold is in force" } else { "no hold in force has exactly this pattern" };
        return Err(CommandFailure::Work(format!("{has}; `redrivectl overrides` lists the overrides")));
    }
    Ok(meant)
}

impl ReleaseDraft<'_> {
    /// Shows what the release would do and asks, unless `--yes` is given. Then takes the overrides back, and
    /// wakes the letters of holds.
    pub(crate) async fn release(
        self,
        as_json: bool,
        console: &mut ToolEnvironment,
    ) -> Result<ReleaseResult, CommandFailure> {
        let Self { args, preview, holds, control, mut waker, stop } = self;
        show_lines(&preview.lines(), args.sign.yes, as_json, console)?;
        console.confirm(args.sign.yes, "Release?")?;

        let at = console.clock.now();
        let release = ReleaseNote { at, by: preview.by.clone(), why: args.why.clone() };
        let stop = write(&control, &OverrideChange::Release(&preview.ids, &release), stop, console).await?;
        let written = Instant::now();
        if !as_json {
            let overrides = count(preview.ids.len() as u64, "override");
            writeln!(console.out, "\nReleased {overrides}; the function obeys within 15 seconds.")?;
            console.out.flush()?;
        }
        let woken = if holds.is_empty() {
            None
        } else {
            Some(waker.wake(written, args.pace.rate, None, &stop, console).await)
        };
        let (further, why) = (console.stack.further(), args.why.as_deref().unwrap_or("released"));
        let to_wake = holds.iter().map(|hold| further.command(&retry_of(hold, why))).collect();
        Ok(ReleaseResult { preview, release, woken, unread: waker.unread(), to_wake })
    }
}

impl ReleasePreview {
    fn lines(&self) -> String {
        let note = self.waking.map_or_else(String::new, |waking| {
            let letters = count(waking.letters, "letter");
            let others = match self.touched.held {
                0 => String::new(),
                held => {
                    format!("Stays hidden: {}, which another override still holds.\n", count(held, "letter"))
                }
            };
            let wakes = waking.text();
            format!("\nHeld: at most {letters} on the list of waiting letters. Wakes {wakes}.\n{others}")
        });
        format!("Release:\n{}{note}By: {}\n", table(&self.rows, &[]), signature(&self.by, self.by_checked))
    }
}

impl CommandResult for ReleasePreview {
    fn text(&self, _: TextStyle) -> String {
        format!("{}\nDry run: nothing was written.\n", self.lines())
    }

    fn json(&self) -> Value {
        let mut json = json!({ "dryRun": true, "released": self.ids, "waiting": self.touched.to_json(&[]) });
        if let Some(waking) = self.waking {
            json["wakes"] = json!(waking);
        }
        json
    }

    fn finished(&self) -> CommandEnd {
        CommandEnd::of(self.touched.unread)
    }
}

impl CommandResult for ReleaseResult {
    fn text(&self, _: TextStyle) -> String {
        let Some(woken) = &self.woken else { return String::new() };
        let mut lines = vec![woken.text()];
        if !woken.is_whole() {
            let wakes = self.to_wake.iter();
            lines.extend(wakes.map(|command| format!("To wake the rest for an attempt at once: {command}")));
            if self.preview.touched.held > 0 {
                lines.push("That override wins over the other hold: its letters are tried too.".to_owned());
            }
        }
        lines.join("\n") + "\n"
    }

    fn json(&self) -> Value {
        let Self { preview, release, woken, .. } = self;
        json!({
            "released": preview.ids, "byChecked": preview.by_checked, "end": release,
            "waiting": preview.touched.to_json(&[]), "wake": woken,
        })
    }

    fn finished(&self) -> CommandEnd {
        finished(self.woken.as_ref(), self.unread)
    }
}

/// Returns the command that wakes the letters of a hold that is gone.
fn retry_of(hold: &Override, why: &str) -> Vec<String> {
    let arrived = [("--arrived-before", hold.arrived_before), ("--arrived-after", hold.arrived_after)];
    let arrived =
        arrived.into_iter().filter_map(|(option, when)| Some([option.to_owned(), when?.to_string()]));
    let mut words = vec!["retry".to_owned(), "--match".to_owned(), hold.pattern.to_string()];
    words.extend(arrived.flatten());
    words.push(format!("--why={why}"));
    words
}

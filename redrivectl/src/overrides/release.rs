//! `redrivectl release`: takes overrides back.

use std::io::Write;

use serde_json::json;
use tokio::time::Instant;

use super::picks::pattern;
use super::preview::{signature, waking, waking_json};
use super::show::row;
use super::wake::{Waker, Woken};
use super::{Connected, Signed, connect, signed, watch_from_the_start, write};
use crate::args;
use crate::console::{Console, Failed, Finished, unless_interrupted};
use crate::control::{Change, Release};
use crate::text::{count, harmless, table};
use sns_redrive::policy::{Override, OverrideAction, Reach};

pub(crate) async fn run(
    args: &args::Release,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let picked = pattern(&args.picks)?;
    let stop = watch_from_the_start(&args.sign, console)?;
    let Connected { control, sqs, sts, .. } = connect(&args.place, &args.connection, console).await?;
    let Signed { by, checked } = signed(&args.sign, &sts).await?;
    let overrides = control.overrides(console).await?;
    let now = console.clock.now();
    let is_hold =
        |override_: &&Override| override_.action == OverrideAction::Hold && !override_.has_ended(now);
    let is_meant = |override_: &&Override| match &picked {
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
        return Err(Failed::Input(unknown));
    }
    if meant.is_empty() {
        return Err(no_such_hold(args.picks.all));
    }

    // A letter that came onto the list after a hold began was hidden by the hold.
    let holds = meant.iter().filter(|override_| is_hold(override_));
    let reaches: Result<Vec<_>, _> =
        holds.map(|override_| Reach::of(override_).map(|reach| (reach, override_.at))).collect();
    let reaches = reaches.map_err(|bad| Failed::Work(bad.to_string()))?;
    let stay =
        overrides.all().iter().filter(|override_| override_.is_in_force(now) && !meant.contains(override_));
    let stay: Result<Vec<_>, _> =
        stay.map(|override_| Reach::of(override_).map(|reach| (override_, reach))).collect();
    let stay = stay.map_err(|bad| Failed::Work(bad.to_string()))?;
    let mut waker =
        Waker::new(&control, &sqs, reaches.iter().map(|(reach, at)| (reach, Some(*at))).collect())
            .but_not(stay);
    if !reaches.is_empty() {
        unless_interrupted(stop.as_ref(), waker.read(console)).await?;
    }
    let touched = waker.touched(now);
    let preview = {
        let rows: Vec<_> = meant.iter().map(|override_| row(override_, now)).collect();
        let wakes = waking(touched.wakes(), args.pace.rate);
        let held = count(touched.wakes(), "letter");
        let others = match touched.held {
            0 => String::new(),
            held => format!("Stays hidden: {}, which another override still holds.\n", count(held, "letter")),
        };
        let note = format!("\nHeld: at most {held} on the list of waiting letters. Wakes {wakes}.\n{others}");
        let note = if reaches.is_empty() { String::new() } else { note };
        format!("Release:\n{}{note}By: {}\n", table(&rows, &[]), signature(&by, checked))
    };
    if !as_json {
        write!(console.out, "{preview}")?;
        console.out.flush()?;
    } else if !args.sign.yes && !args.sign.dry_run && console.answers {
        write!(console.err, "{preview}")?;
    }
    let ids: Vec<_> = meant.iter().map(|override_| override_.id.clone()).collect();
    if args.sign.dry_run {
        if as_json {
            let mut told = json!({ "dryRun": true, "released": ids, "waiting": touched.to_json(&[]) });
            if !reaches.is_empty() {
                told["wakes"] = waking_json(touched.wakes(), args.pace.rate);
            }
            writeln!(console.out, "{told}")?;
        } else {
            writeln!(console.out, "\nDry run: nothing was written.")?;
        }
        return Ok(Finished::of(waker.unread()));
    }
    console.confirm(args.sign.yes, "Release?")?;

    let at = console.clock.now();
    let release = Release { at, by, why: args.why.clone() };
    let stop = write(&control, &Change::Release(&ids, &release), stop, console).await?;
    let written = Instant::now();
    if !as_json {
        writeln!(
            console.out,
            "\nReleased {}; the function obeys within 15 seconds.",
            count(ids.len() as u64, "override")
        )?;
        console.out.flush()?;
    }
    let woken = if reaches.is_empty() {
        None
    } else {
        Some(waker.wake(written, args.pace.rate, None, &stop, console).await)
    };
    if as_json {
        let told = json!({ "released": ids, "byChecked": checked, "end": release, "waiting": touched.to_json(&[]), "wake": woken });
        writeln!(console.out, "{told}")?;
    } else if let Some(woken) = &woken {
        writeln!(console.out, "{}", woken.text())?;
        if !woken.is_whole() {
            let holds = meant.iter().filter(|override_| is_hold(override_));
            say_how_to_wake_the_rest(holds, args.why.as_deref(), touched.held > 0, console)?;
        }
    }
    let whole = woken.as_ref().is_none_or(Woken::is_whole) && waker.unread() == 0;
    Ok(if whole { Finished::Whole } else { Finished::Partly })
}

fn no_such_hold(all: bool) -> Failed {
    let has = if all { "no hold is in force" } else { "no hold in force has exactly this pattern" };
    Failed::Work(format!("{has}; `redrivectl overrides` lists the overrides"))
}

/// Prints the commands that wake the letters of these holds, which are gone.
fn say_how_to_wake_the_rest<'o>(
    holds: impl Iterator<Item = &'o &'o Override>,
    why: Option<&str>,
    others_hold: bool,
    console: &mut Console,
) -> Result<(), Failed> {
    for hold in holds {
        let command = console.stack.further().command(&retry_of(hold, why.unwrap_or("released")));
        writeln!(console.out, "To wake the rest for an attempt at once: {command}")?;
    }
    if others_hold {
        writeln!(console.out, "That override wins over the other hold: its letters are tried too.")?;
    }
    Ok(())
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

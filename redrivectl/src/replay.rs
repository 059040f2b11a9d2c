//! `redrivectl replay`: letters of an archive go out once more.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Deserialize;

use crate::archive::{Place, place, selection};
use crate::args::{self, When};
use crate::aws;
use crate::console::{Console, Failed, Finished, read_file, read_policy};
use crate::text::{bar, count, harmless, table, thousands, utc};
use sns_redrive::archive::Record;
use sns_redrive::arn::{Arn, ArnKind};
use sns_redrive::replay::{
    At, Control, Input, Manifest, Parts, Replay, ReplayError, Request, Select, Source, Status,
};

pub(super) async fn run(
    args: &args::Replay,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let Place { bucket, prefix } = place(&args.place, console)?;
    let requeue = requeue(args, console)?;
    let request = request(args, console)?;
    let stdin = Some(Path::new("-"));
    if args.policy.as_deref() == stdin && args.from.as_deref() == stdin {
        return bad("--policy and --from cannot both be standard input");
    }
    let policy = args.policy.as_deref().map(|file| read_policy(Some(file), console)).transpose()?;
    let source = match &args.from {
        Some(file) => Source::Input(records(&read_file(file, console)?)?),
        None => Source::Archive,
    };
    let clients = aws::clients(&args.connection, console).await?;
    let stop = (console.interrupts)()?;
    if !request.dry_run {
        tell_times(args, &request.select, console)?;
    }

    let clock = console.clock.clone();
    let owner = format!("redrivectl, process {}", std::process::id());
    let replay = Replay::new(Parts { clients, bucket, prefix, requeue, clock, owner });
    let watch = Watch::new(console, stop);
    let ended = replay.run(&request, &source, policy.as_ref(), &watch).await;
    let interrupted = watch.end();
    let manifest = ended.map_err(|error| failed(error, interrupted))?;
    if as_json {
        let json = serde_json::to_string(&manifest);
        writeln!(console.out, "{}", json.map_err(|error| Failed::Work(error.to_string()))?)?;
    } else {
        write!(console.out, "{}", summary(&manifest))?;
    }
    Ok(if is_whole(&manifest) { Finished::Whole } else { Finished::Partly })
}

fn bad<T>(problem: &str) -> Result<T, Failed> {
    Err(Failed::Input(vec![problem.to_owned()]))
}

/// The requeue that is named on the command line, else by the function's own variable.
fn requeue(args: &args::Replay, console: &Console) -> Result<Arn, Failed> {
    let given = args.requeue.clone().or_else(|| (console.variable)("REQUEUE_ARN"));
    let arn = given.and_then(|text| text.parse::<Arn>().ok()).filter(|arn| arn.kind() == ArnKind::Queue);
    arn.map_or_else(|| bad("--requeue (or REQUEUE_ARN) must be the ARN of the function's requeue"), Ok)
}

fn request(args: &args::Replay, console: &Console) -> Result<Request, Failed> {
    // Read as `archive list` reads it, so that it is refused for the same.
    let chosen = selection(&args.selection, console)?;
    if chosen.from.zip(chosen.to).is_some_and(|(since, until)| since >= until) {
        return bad("--until must be later than --since");
    }
    let pattern = args.selection.pattern.as_deref().and_then(|json| serde_json::from_str(json).ok());
    let select = Select {
        queue: chosen.queue,
        from: chosen.from,
        to: chosen.to,
        reasons: chosen.reasons,
        topics: chosen.topics,
        origins: chosen.origins,
        errors: chosen.errors,
        targets: chosen.targets,
        pattern,
    };
    let request = Request {
        select,
        cut_off: args.cut_off.map(|when| when.at(console.clock.now())),
        to: args.to.clone(),
        dry_run: args.dry_run,
        rate: args.pace.rate,
        ramp: args.pace.ramp.clone(),
        threshold: args.pace.threshold,
        settle_seconds: args.pace.settle,
        again: args.again,
        resume: args.pace.resume,
    };
    request.check().map_err(Failed::Input)?;
    Ok(request)
}

/// Records as `archive show --json` writes them, one a line. One whose message is not what its digest says, or
/// that has no digest, was edited.
fn records(text: &str) -> Result<Vec<Input>, Failed> {
    let text = text.trim_end();
    match text.lines().next().map(str::trim) {
        None => bad("no record is given"),
        Some("{" | "[") => bad("records must be given one a line, as jq -c writes them"),
        Some(_) => Ok(text.lines().map(record).collect()),
    }
}

fn record(line: &str) -> Input {
    #[derive(Deserialize)]
    struct Shown {
        digest: Option<String>,
    }
    let record = Record::from_line(line).map_err(|bad| bad.to_string())?;
    let shown = serde_json::from_str::<Shown>(line).ok().and_then(|shown| shown.digest);
    let edited = shown.is_none() || shown != record.message.digest().ok();
    Ok((record, edited))
}

/// A replay is known by its selection, and "two days ago" is another one tomorrow.
fn tell_times(args: &args::Replay, select: &Select, console: &mut Console) -> Result<(), Failed> {
    let times =
        [("--since", args.selection.since, select.from), ("--until", args.selection.until, select.to)];
    for (option, when, at) in times {
        if let (Some(When::Ago(_)), Some(at)) = (when, at) {
            writeln!(console.err, "redrivectl: to go on with this replay later, give {option} {at}")?;
        }
    }
    Ok(())
}

fn failed(error: ReplayError, interrupted: bool) -> Failed {
    match error {
        ReplayError::Request(faults) => Failed::Input(faults),
        ReplayError::NotCounted if interrupted => {
            Failed::Work("interrupted while it counted; nothing was sent".to_owned())
        }
        ReplayError::Stopped { id, why } => {
            Failed::Work(format!("replay {id} has stopped: {why}\nmend that, then go on with --resume"))
        }
        ReplayError::TooMany => {
            Failed::Work(format!("{error}").replace("from and to", "--since and --until"))
        }
        error => Failed::Work(error.to_string()),
    }
}

/// Whether every letter that was asked for is sent, or could be.
fn is_whole(manifest: &Manifest) -> bool {
    let counts = &manifest.counts;
    let readable = counts.unreadable == 0 && counts.not_replayable.is_empty();
    match manifest.status {
        Status::DryRun => readable,
        Status::Done => readable && manifest.sent >= counts.selected,
        Status::Running | Status::Settling | Status::Stopped => false,
    }
}

fn step(manifest: &Manifest) -> String {
    let steps = manifest.request.ramp.len();
    format!("step {} of {steps}", steps.min(manifest.step + 1))
}

fn summary(manifest: &Manifest) -> String {
    let Manifest { id, counts, .. } = manifest;
    let ended = match manifest.status {
        Status::DryRun => "a dry run, nothing was sent".to_owned(),
        Status::Done => "done".to_owned(),
        Status::Stopped => format!("stopped in {}", step(manifest)),
        Status::Running | Status::Settling => format!("interrupted in {}", step(manifest)),
    };
    let mut rows = Vec::new();
    let mut say = |what: &str, text: String| rows.push(vec![format!("  {what}"), text]);
    say(
        "selected",
        format!("{}, archived before {} UTC", count(counts.selected, "letter"), utc(manifest.cut_off)),
    );
    if manifest.status != Status::DryRun {
        say("sent", count(manifest.sent, "letter"));
    }
    let gone = counts.selected.saturating_sub(manifest.handled());
    for (what, number, noun, note) in [
        ("perhaps twice", manifest.repeated, "letter", ""),
        ("refused", manifest.refused, "letter", ", by SQS"),
        (
            "not found",
            if manifest.status == Status::Done { gone } else { 0 },
            "letter",
            " in the archive any more",
        ),
        ("passed over", counts.already_replayed, "letter", ", replayed already"),
        ("doubles", counts.doubles, "record", ", stored twice after a crash"),
        ("unreadable", counts.unreadable, "line or object", ""),
    ] {
        if number > 0 {
            // The plural of "line or object".
            let text = count(number, noun).replace("line or objects", "lines or objects");
            say(what, format!("{text}{note}"));
        }
    }
    for (why, number) in &counts.not_replayable {
        say("left out", format!("{}: {}", count(*number, "letter"), harmless(why)));
    }
    if let Some(why) = &manifest.why {
        say("because", harmless(why));
    }
    let next = match manifest.status {
        Status::Stopped => "\nMend that, then go on: the same command with --resume.\n",
        Status::Running | Status::Settling => "\nTo go on, give the same command again.\n",
        Status::DryRun | Status::Done => "",
    };
    format!("Replay {}: {ended}.\n{}{next}", harmless(id), table(&rows, &[]))
}

/// Tells of a replay while it runs.
struct Watch<'a> {
    stop: Arc<AtomicBool>,
    progress: bool,
    screen: Mutex<Screen<'a>>,
}

struct Screen<'a> {
    err: &'a mut (dyn Write + Send),
    /// Whether a line of progress stands there.
    on_screen: bool,
}

impl<'a> Watch<'a> {
    fn new(console: &'a mut Console, stop: Arc<AtomicBool>) -> Self {
        let screen = Screen { err: &mut console.err, on_screen: false };
        let watch = Self { stop, progress: console.progress, screen: Mutex::new(screen) };
        watch.show("counting");
        watch
    }

    /// Shows a line in the place of the one before; to a person only.
    fn show(&self, line: &str) {
        if self.progress {
            self.on(|screen| {
                screen.on_screen = true;
                write!(screen.err, "\r\x1b[K{line}")?;
                screen.err.flush()
            });
        }
    }

    fn on(&self, act: impl FnOnce(&mut Screen<'a>) -> std::io::Result<()>) {
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        // A replay goes on, also where nobody listens.
        let _ = act(&mut screen);
    }

    /// Clears the screen; whether it was interrupted.
    fn end(self) -> bool {
        self.on(Screen::clear);
        self.stop()
    }
}

impl Screen<'_> {
    fn clear(&mut self) -> std::io::Result<()> {
        if std::mem::take(&mut self.on_screen) { write!(self.err, "\r\x1b[K") } else { Ok(()) }
    }
}

impl Control for Watch<'_> {
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn progress(&self, manifest: &Manifest) {
        let (behind, all) = (manifest.handled(), manifest.counts.selected);
        let bar = bar(behind, all);
        let judged = |at: Timestamp| format!("; judged at {} UTC", &utc(at)[11..]);
        let judged = manifest.not_before.map_or(String::new(), judged);
        let (behind, all) = (thousands(behind), count(all, "letter"));
        self.show(&format!("{bar} {behind} of {all}, {}{judged}", step(manifest)));
    }

    fn left_out(&self, at: &At, why: &str) {
        self.on(|screen| {
            screen.clear()?;
            writeln!(screen.err, "redrivectl: {}: {}", harmless(&at.to_string()), harmless(why))
        });
    }
}

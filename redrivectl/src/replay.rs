//! `redrivectl replay`: sends archived letters again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;

use crate::archive::{Shown, read_shown, select};
use crate::args;
use crate::aws::{self, Aws};
use crate::console::{Console, Failed, Finished, read_file, read_policy};
use crate::follow;
use crate::machine::{self, Execution};
use crate::place::{self, Place};
use crate::redriver;
use crate::successors::{self, Letters};
use crate::text::{count, harmless, table, utc};
use crate::watch::Watch;
use sns_redrive::archive::BadRecord;
use sns_redrive::replay::{
    DEFAULT_RAMP, Input, Parts, Replay, ReplayError, Replays, Request, Resume, Select, Source, State, Status,
    Successors, Wish,
};

/// The default number of units that are worked on at once.
const WORKERS: u8 = 4;

pub(super) async fn run(
    args: &args::Replay,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let stack = console.stack.name().filter(|_| !args.is_for_terminal()).map(str::to_owned);
    if stack.is_none() && args.detach {
        return bad(
            "--detach needs a state machine: give --stack, without --dry-run, --from, --policy, --by, --workers, --archive, \
             --control and --requeue, by which this terminal replays",
        );
    }
    let asks = console.answers && !args.new && args.resume.is_none();
    // At a question, or while the input is typed, Ctrl-C ends the tool.
    let stop = if asks || stack.is_none() { None } else { Some((console.interrupts)()?) };
    let mut asked = None;
    if let Some(stack) = stack {
        let wish = asked.insert(wish_for_machine(args, console).await?);
        if let Some(execution) = start(&stack, wish, args, stop.as_deref(), console).await? {
            return follow(&execution, args.detach, stop, as_json, console).await;
        }
    }
    let Place { bucket, prefix } = place::archive(&args.place.archive, console)?;
    let control = place::replays(&args.place, console)?;
    let requeue = place::requeue(args.requeue.as_deref(), console)?;
    let is_asked = asked.is_some();
    let mut wish = asked.map_or_else(|| wish(args, console), Ok)?;
    let stdin = Some(Path::new("-"));
    if args.policy.as_deref() == stdin && args.from.as_deref() == stdin {
        return bad("--policy and --from are both standard input; give a file for one of them");
    }
    let policy = args.policy.as_deref().map(|file| read_policy(Some(file), console)).transpose()?;
    let source = match &args.from {
        Some(file) => Source::Input(records(&read_file(file, console)?)?),
        None => Source::Archive,
    };
    let aws = Aws::connect(&args.connection, console).await?;
    let clients = aws.clients();
    if let Wish::Begin(request) = &wish {
        let archive = &Place { bucket: bucket.clone(), prefix: prefix.clone() };
        let letters = Letters { archive, requeue: &requeue, source: &source };
        successors::check(request, Some(letters), &clients, console).await?;
    }
    let by = who(args.by.as_deref(), &aws.sts()).await;
    let clock = console.clock.clone();
    let workers = args.pace.workers.unwrap_or(WORKERS).into();
    let parts = Parts {
        clients,
        bucket,
        prefix,
        control_bucket: control.bucket,
        control_prefix: control.prefix,
        requeue,
        clock,
        by,
        workers,
    };
    let redriving = match args.requeue {
        // A requeue that is named here need not belong to the stack's function.
        None => redriver::ask(&parts.requeue, &parts.clients, console).await?,
        Some(_) => None,
    };
    let mut replay = Replay::new(parts);
    if let Some(redriving) = &redriving {
        replay = replay.beside(redriving);
    }
    let policy = policy.as_ref().or_else(|| redriving.as_ref()?.policy.as_ref());
    replay.check_requeue().await?;
    if let Wish::Begin(request) = &wish
        && !(args.new || is_asked)
        && let Some(resume) = ask(replay.kept(), request, &source, args, console).await?
    {
        wish = Wish::Resume(resume);
    }
    let stop = stop.map_or_else(|| (console.interrupts)(), Ok)?;
    let watch = Watch::new(console, as_json, stop);
    let ended = tokio::select! {
        ended = replay.run(&wish, &source, policy, &watch) => ended,
        never = watch.keep_showing() => match never {},
    };
    let interrupted = watch.end(ended.as_ref().ok());
    let state = ended.map_err(|error| failed(error, interrupted))?;
    if as_json {
        let json = serde_json::to_string(&state);
        writeln!(console.out, "{}", json.map_err(|error| Failed::Work(error.to_string()))?)?;
    } else {
        let further = console.stack.further();
        write!(console.out, "{}", summary(&state, &[], &further))?;
    }
    Ok(finished(&state))
}

/// Returns the request for the state machine, after a question if a replay of the same letters is unfinished.
/// A caller who may start the state machine need not have permission to read replays: then there is no
/// question.
async fn wish_for_machine(args: &args::Replay, console: &mut Console) -> Result<Wish, Failed> {
    let wish = wish(args, console)?;
    let Wish::Begin(request) = &wish else { return Ok(wish) };
    let clients = Aws::connect(&args.connection, console).await?.clients();
    successors::check(request, None, &clients, console).await?;
    let place = place::replays(&args.place, console).ok().filter(|_| !args.new);
    let Some(Place { bucket, prefix }) = place else { return Ok(wish) };
    let kept = Replays::new(clients.s3, &bucket, &prefix, console.clock.clone(), String::new());
    match ask(&kept, request, &Source::Archive, args, console).await {
        Ok(Some(resume)) => Ok(Wish::Resume(resume)),
        Ok(None) | Err(Failed::Denied(_)) => Ok(wish),
        Err(failed) => Err(failed),
    }
}

/// Starts the state machine of a stack. Prints and returns `None` if the stack has none.
async fn start(
    stack: &str,
    wish: &Wish,
    args: &args::Replay,
    stop: Option<&AtomicBool>,
    console: &mut Console,
) -> Result<Option<Execution>, Failed> {
    let execution = machine::start(stack, wish, &args.connection, stop, console).await?;
    if execution.is_none() {
        let none = format!("the state machine {stack}-replay does not exist");
        if args.detach {
            return bad(&format!(
                "{none}, but --detach needs it: nothing was done. Deploy operations.yaml, or leave out --detach"
            ));
        }
        writeln!(console.err, "redrivectl: {none}, so this terminal replays")?;
    }
    Ok(execution)
}

/// Follows the replay of a state machine, and prints its final state.
async fn follow(
    execution: &Execution,
    detach: bool,
    stop: Option<Arc<AtomicBool>>,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let stop = stop.map_or_else(|| (console.interrupts)(), Ok)?;
    let state = if detach {
        follow::begin(execution, as_json, &stop, console).await?
    } else {
        Some(follow::to_its_end(execution, as_json, &stop, console).await?)
    };
    print_state(state.as_ref(), &execution.arn, detach, as_json, console)
}

/// Prints the state of a replay by a state machine; with `detach` it goes on.
fn print_state(
    state: Option<&State>,
    execution: &str,
    detach: bool,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    if as_json && detach {
        let id = state.map(|state| &state.id);
        writeln!(console.out, "{}", json!({ "executionArn": execution, "id": id }))?;
    } else if as_json {
        let mut state = json!(state);
        state["executionArn"] = execution.into();
        writeln!(console.out, "{state}")?;
    } else if let Some(state) = state {
        let (id, further) = (harmless(&state.id), console.stack.further());
        if detach {
            writeln!(
                console.out,
                "Replay {id}: the state machine runs it.\n{}\nTo see its state: {}\nTo stop it: {}",
                table(&[vec!["  execution".to_owned(), harmless(execution)]], &[]),
                further.command(&format!("replays show {id}")),
                further.command(&format!("replays stop {id}")),
            )?;
        } else {
            write!(console.out, "{}", summary(state, &[("execution", harmless(execution))], &further))?;
        }
    } else {
        writeln!(console.out, "The state machine runs the replay: {}", harmless(execution))?;
    }
    Ok(state.filter(|_| !detach).map_or(Finished::Whole, finished))
}

fn bad<T>(problem: &str) -> Result<T, Failed> {
    Err(Failed::Input(vec![problem.to_owned()]))
}

/// Returns the author of a replay, as its record has it.
pub(crate) async fn who(by: Option<&str>, sts: &aws_sdk_sts::Client) -> String {
    match by {
        Some(by) => by.to_owned(),
        None => aws::caller(sts).await.unwrap_or_else(|_| "(unknown)".to_owned()),
    }
}

fn resumption(id: &str, args: &args::Replay) -> Resume {
    let args::Pace { rate, threshold, settle, .. } = &args.pace;
    let why = args.why.clone();
    Resume { id: id.to_owned(), rate: *rate, threshold: *threshold, settle_seconds: *settle, why }
}

/// Names an unfinished replay of the same letters, and asks whether to continue it, unless letters are only counted.
async fn ask(
    kept: &Replays,
    request: &Request,
    source: &Source,
    args: &args::Replay,
    console: &mut Console,
) -> Result<Option<Resume>, Failed> {
    let unfinished = kept.unfinished(request, source).await?;
    let Some(state) = unfinished.first() else { return Ok(None) };
    let (id, sent) = (harmless(&state.id), count(state.counts.sent, "letter"));
    writeln!(
        console.err,
        "redrivectl: replay {id} of the same letters is unfinished ({}): begun {} UTC by {}, {sent} sent, \
         of letters archived before {} UTC",
        state.status.name(),
        utc(state.began),
        harmless(&state.by),
        utc(state.cut_off),
    )?;
    if request.dry_run {
        return Ok(None);
    }
    if !console.answers {
        let command = console.stack.further().command(&going_on(state));
        writeln!(
            console.err,
            "redrivectl: this command begins a new replay; to continue the other one: {command}"
        )?;
        return Ok(None);
    }
    let goes_on = console.confirms("Continue it? (If not, a new replay begins)")?;
    Ok(goes_on.then(|| resumption(&state.id, args)))
}

/// Returns the request of the command line.
fn wish(args: &args::Replay, console: &Console) -> Result<Wish, Failed> {
    let request = request(args, console)?;
    Ok(match &args.resume {
        Some(id) => Wish::Resume(resumption(id, args)),
        None => Wish::Begin(Box::new(request)),
    })
}

fn request(args: &args::Replay, console: &Console) -> Result<Request, Failed> {
    let select = select(&args.selection, console)?;
    let fresh = Request::default();
    let request = Request {
        // Without --again a replay leaves out letters that others have sent.
        all: args.all || (args.selection.not_replayed && select == Select::default()),
        select,
        cut_off: args.cut_off.map(|when| when.at(console.clock.now())),
        to: args.to.clone(),
        subscriptions: subscriptions(&args.subscription)?,
        dry_run: args.dry_run,
        rate: args.pace.rate.unwrap_or(fresh.rate),
        ramp: args.pace.ramp.clone().unwrap_or_else(|| DEFAULT_RAMP.to_vec()),
        threshold: args.pace.threshold.unwrap_or(fresh.threshold),
        settle_seconds: args.pace.settle.unwrap_or(fresh.settle_seconds),
        again: args.again,
        why: args.why.clone(),
    };
    request.check().map_err(Failed::Input)?;
    if args.resume.is_none() && args.from.is_none() && request.selects_all() && !request.all {
        return bad(
            "no letters are selected: give --topic, --since, --reason or another option of \"Which letters\", or \
             --all for the whole archive",
        );
    }
    Ok(request)
}

/// Returns the subscriptions that have replaced others.
fn subscriptions(pairs: &[(String, String)]) -> Result<Successors, Failed> {
    let mut successors = BTreeMap::new();
    for (old, new) in pairs {
        if successors.insert(old.clone(), new.clone()).is_some_and(|other| other != *new) {
            return bad(&format!("--subscription names two successors of {old}; give one"));
        }
    }
    Successors::try_from(successors).map_err(|bad| Failed::Input(vec![bad.to_string()]))
}

/// Reads records of `archive show --json`, one a line.
fn records(text: &str) -> Result<Vec<Input>, Failed> {
    let input = |shown: Result<Shown, BadRecord>| {
        let shown = shown.map_err(|bad| bad.to_string())?;
        let edited = shown.is_edited();
        Ok((shown.record, edited))
    };
    let records: Vec<_> = read_shown(text)?.map(input).collect();
    if records.is_empty() { bad("the file of --from has no records") } else { Ok(records) }
}

/// Returns the error of a replay, which may have been interrupted.
fn failed(error: ReplayError, interrupted: bool) -> Failed {
    if interrupted && error == ReplayError::NotPlanned {
        return Failed::Stopped("interrupted while it read the archive; nothing was sent".to_owned());
    }
    error.into()
}

/// Returns how it ended: whether all selected letters are sent, or can be sent.
fn finished(state: &State) -> Finished {
    match state.status {
        Status::DryRun | Status::Done if state.counts.is_whole() => Finished::Whole,
        Status::DryRun | Status::Done => Finished::LeftOut,
        Status::Running | Status::Settling | Status::Stopped => Finished::Stopped,
    }
}

/// Returns the command that continues a replay. Records that were given must be given again.
fn going_on(state: &State) -> String {
    let from = if state.given.is_some() { " --from FILE" } else { "" };
    format!("replay --resume {}{from}", harmless(&state.id))
}

fn step(state: &State) -> String {
    format!("step {} of {}", state.step, state.steps)
}

/// Returns a replay as lines of text, with `more` rows.
pub(crate) fn summary(state: &State, more: &[(&str, String)], further: &args::Further) -> String {
    let State { id, counts, .. } = state;
    let ended = match state.status {
        Status::DryRun => "dry run, nothing was sent".to_owned(),
        Status::Done => "done".to_owned(),
        Status::Stopped => format!("stopped in {}", step(state)),
        Status::Running | Status::Settling => format!("unfinished, in {}", step(state)),
    };
    let mut rows = Vec::new();
    let mut say = |what: &str, text: String| rows.push(vec![format!("  {what}"), text]);
    let most = if state.exact { "" } else { "at most " };
    let cut_off = format!("archived before {} UTC", utc(state.cut_off));
    say("selected", format!("{most}{}, {cut_off}", count(state.letters, "letter")));
    let sent = if state.status == Status::DryRun { "to send" } else { "sent" };
    say(sent, count(counts.sent, "letter"));
    for (what, number, noun, note) in [
        ("maybe twice", counts.repeated, "letter", ""),
        ("refused", counts.refused, "letter", ", by SQS"),
        ("came back", state.came_back, "letter", ", since its last step began"),
        ("passed over", counts.already_replayed, "letter", ", replayed already"),
        ("doubles", counts.doubles, "record", ", stored twice after a crash"),
        ("unreadable", counts.unreadable, "line", ""),
    ] {
        if number > 0 {
            say(what, format!("{}{note}", count(number, noun)));
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
    let next = if state.is_unfinished() {
        format!("\nTo continue: {}\n", further.command(&going_on(state)))
    } else {
        String::new()
    };
    format!("Replay {}: {ended}.\n{}{next}", harmless(id), table(&rows, &[]))
}

//! `redrivectl replay`: sends archived letters again.

mod confirm;
mod held;
mod selected;
mod summary;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};

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
pub(crate) use held::Held;
use held::Holds;
pub(crate) use selected::selected;
use sns_redrive::archive::BadRecord;
use sns_redrive::arn::Arn;
use sns_redrive::policy::Policy;
use sns_redrive::replay::{
    DEFAULT_RAMP, Input, Parts, Redriving, Replay, ReplayError, Replays, Request, Select, Source, State,
    Status, Successors, Wish,
};
pub(crate) use summary::{going_on, status, summary, to_send};

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
    // At a question, or while the input is typed, Ctrl-C ends the tool.
    let stop = if args.asks() || stack.is_none() { None } else { Some((console.interrupts)()?) };
    let mut confirmed = None;
    if let Some(stack) = stack {
        let (wish, holds) = Box::pin(wish_for_machine(args, as_json, console)).await?;
        let wish = confirmed.insert(wish);
        if let Some(execution) = start(&stack, wish, args, stop.as_deref(), console).await? {
            return follow(&execution, holds.as_ref(), args.detach, stop, as_json, console).await;
        }
    }
    let places = Places::of(args, console)?;
    let is_confirmed = confirmed.is_some();
    let mut wish = confirmed.map_or_else(|| wish(args, console), Ok)?;
    let stdin = Some(Path::new("-"));
    if args.policy.as_deref() == stdin && args.from.as_deref() == stdin {
        return bad("--policy and --from are both standard input; give a file for one of them");
    }
    if args.asks() && args.from.as_deref() == stdin {
        return bad(
            "--from - is standard input, which cannot answer the question as well: give a file, or --yes",
        );
    }
    let policy = args.policy.as_deref().map(|file| read_policy(Some(file), console)).transpose()?;
    let source = match &args.from {
        Some(file) => Source::Input(records(&read_file(file, console)?)?),
        None => Source::Archive,
    };
    console.can_confirm(!args.asks())?;
    let aws = Aws::connect(&args.connection, console).await?;
    if let Wish::Begin(request) = &wish {
        let letters = Letters { archive: &places.archive, requeue: &places.requeue, source: &source };
        successors::check(request, Some(letters), &aws.clients(), console).await?;
    }
    let by = who(args.by.as_deref(), &aws.sts()).await;
    let terminal = Terminal::of(places, policy, by, args, &aws, console).await?;
    let Terminal { replay, holds, .. } = &terminal;
    terminal.check_is_worked_on(args.dry_run, console)?;
    replay.check_requeue().await?;
    if !is_confirmed {
        let kept = Some(replay.kept());
        wish = match wish {
            Wish::Begin(request) => {
                let other = unfinished(replay.kept(), &request, &source, args, console).await?;
                let counts =
                    async |console: &mut Console| terminal.count(&request, &source, as_json, console).await;
                let (counted, held) = if args.asks() {
                    (Some(Ok(counts(console).await?)), holds.of(&request, &source, console).await?)
                } else {
                    (None, None)
                };
                confirm::begin(request, counted, held.as_ref(), other, args, as_json, console)?
            }
            Wish::Resume(resume) => {
                let seen = kept.map(|kept| (kept, Some((holds, &source))));
                confirm::resume(resume, seen, args, as_json, console).await?
            }
        };
    }
    let stop = stop.map_or_else(|| (console.interrupts)(), Ok)?;
    let watch = Watch::new(console, as_json, stop);
    let ended = tokio::select! {
        ended = replay.run(&wish, &source, terminal.policy(), &watch) => ended,
        never = watch.keep_showing() => match never {},
    };
    let begun = watch.state();
    let interrupted = watch.end(ended.as_ref().ok());
    let state =
        ended.map_err(|error| failed(error, interrupted, begun.as_ref(), &console.stack.further()))?;
    let held = if state.counts.sent > 0 { holds.of(&state.request, &source, console).await? } else { None };
    if as_json {
        writeln!(console.out, "{}", with_held(&state, held.as_ref()))?;
    } else {
        let further = console.stack.further();
        let held = held.map(|held| ("held", held.of_state(&state)));
        write!(console.out, "{}", summary(&state, held.as_slice(), &further))?;
    }
    Ok(finished(&state))
}

/// Returns a replay as JSON, with what holds its letters.
fn with_held(state: &State, held: Option<&Held>) -> Value {
    let mut json = json!(state);
    if let Some(held) = held {
        json["held"] = held.to_json();
    }
    json
}

/// The archive, the place of what replays know of it, and the requeue.
struct Places {
    archive: Place,
    control: Place,
    requeue: Arn,
}

impl Places {
    fn of(args: &args::Replay, console: &Console) -> Result<Self, Failed> {
        Ok(Self {
            archive: place::archive(&args.place.archive, console)?,
            control: place::replays(&args.place, console)?,
            requeue: place::requeue(args.requeue.as_deref(), console)?,
        })
    }
}

/// The replayer of this terminal.
struct Terminal {
    replay: Replay,
    /// The policy of the command line.
    policy: Option<Policy>,
    /// The function of the stack, if it could be asked.
    redriving: Option<Arc<Redriving>>,
    holds: Holds,
}

impl Terminal {
    async fn of(
        places: Places,
        policy: Option<Policy>,
        by: String,
        args: &args::Replay,
        aws: &Aws,
        console: &mut Console,
    ) -> Result<Self, Failed> {
        let Places { archive, control, requeue } = places;
        let holds = Holds::at(&control, aws);
        let parts = Parts {
            clients: aws.clients(),
            bucket: archive.bucket,
            prefix: archive.prefix,
            control_bucket: control.bucket,
            control_prefix: control.prefix,
            requeue,
            clock: console.clock.clone(),
            by,
            workers: args.pace.workers.unwrap_or(WORKERS).into(),
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
        Ok(Self { replay, policy, redriving, holds })
    }

    fn policy(&self) -> Option<&Policy> {
        self.policy.as_ref().or_else(|| self.redriving.as_ref()?.policy.as_ref())
    }

    /// Refuses to send letters on which no function would work, before anybody is asked. A dry run says so.
    fn check_is_worked_on(&self, is_dry_run: bool, console: &mut Console) -> Result<(), Failed> {
        let Some(why) = self.redriving.as_ref().and_then(|it| it.idle.as_deref()) else { return Ok(()) };
        if !is_dry_run {
            return bad(&format!("{why}: only dryRun is possible"));
        }
        let why = harmless(why);
        Ok(writeln!(
            console.err,
            "redrivectl: {why}: no replay is possible, and it would take none of these letters"
        )?)
    }

    /// Counts the letters that a request would send now. Ctrl-C ends the tool.
    async fn count(
        &self,
        request: &Request,
        source: &Source,
        as_json: bool,
        console: &mut Console,
    ) -> Result<State, Failed> {
        let counting = Request { dry_run: true, ..request.clone() };
        let watch = Watch::new(console, as_json, Arc::default()).without_letters();
        let counted = tokio::select! {
            counted = self.replay.dry_run(&counting, source, self.policy(), &watch) => counted,
            never = watch.keep_showing() => match never {},
        };
        watch.end(None);
        Ok(counted?)
    }
}

/// Returns the request for the state machine, after a question. A caller who may start the state machine need not have
/// permission to read archive and replays: then the question comes without what they have.
async fn wish_for_machine(
    args: &args::Replay,
    as_json: bool,
    console: &mut Console,
) -> Result<(Wish, Option<Holds>), Failed> {
    let wish = wish(args, console)?;
    console.can_confirm(!args.asks())?;
    let aws = Aws::connect(&args.connection, console).await?;
    let place = place::replays(&args.place, console).ok();
    let kept = place.as_ref().map(|Place { bucket, prefix }| {
        Replays::new(aws.clients().s3, bucket, prefix, console.clock.clone(), String::new())
    });
    let holds = place.as_ref().map(|place| Holds::at(place, &aws));
    let request = match wish {
        Wish::Begin(request) => request,
        Wish::Resume(resume) => {
            let holds = holds.map(|holds| (holds, Source::Archive));
            let seen =
                kept.as_ref().map(|kept| (kept, holds.as_ref().map(|(holds, source)| (holds, source))));
            let wish = confirm::resume(resume, seen, args, as_json, console).await?;
            return Ok((wish, holds.map(|(holds, _)| holds)));
        }
    };
    successors::check(&request, None, &aws.clients(), console).await?;
    let other = match &kept {
        Some(kept) => unfinished(kept, &request, &Source::Archive, args, console).await,
        None => Ok(None),
    };
    let other = or_unseen(other)?.unwrap_or_default();
    let counted = if args.asks() {
        Some(count_for_machine(&request, args, &aws, as_json, console).await)
    } else {
        None
    };
    let counted = counted.map(|counted| match counted {
        Err(Failed::Denied(why) | Failed::Work(why)) => Ok(Err(why)),
        counted => counted.map(Ok),
    });
    let counted = counted.transpose()?;
    let held = match &holds {
        Some(holds) if counted.is_some() => holds.of(&request, &Source::Archive, console).await?,
        _ => None,
    };
    Ok((confirm::begin(request, counted, held.as_ref(), other, args, as_json, console)?, holds))
}

/// Counts the letters that the state machine would send now, as far as the caller may read them.
async fn count_for_machine(
    request: &Request,
    args: &args::Replay,
    aws: &Aws,
    as_json: bool,
    console: &mut Console,
) -> Result<State, Failed> {
    let places = match Places::of(args, console) {
        Err(Failed::Input(problems)) => return Err(Failed::Work(problems.join("; "))),
        places => places?,
    };
    let terminal = Terminal::of(places, None, String::new(), args, aws, console).await?;
    terminal.check_is_worked_on(false, console)?;
    terminal.replay.check_requeue().await?;
    terminal.count(request, &Source::Archive, as_json, console).await
}

/// Returns what was read, or `None` if the caller may not read it.
fn or_unseen<T>(read: Result<T, Failed>) -> Result<Option<T>, Failed> {
    match read {
        Err(Failed::Denied(_)) => Ok(None),
        read => read.map(Some),
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
    holds: Option<&Holds>,
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
    let held = match (holds, &state) {
        (Some(holds), Some(state)) if !detach && state.counts.sent > 0 => {
            holds.of(&state.request, &Source::Archive, console).await?
        }
        _ => None,
    };
    print_state(state.as_ref(), held.as_ref(), &execution.arn, detach, as_json, console)
}

/// Prints the state of a replay by a state machine; with `detach` it goes on.
fn print_state(
    state: Option<&State>,
    held: Option<&Held>,
    execution: &str,
    detach: bool,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    if as_json && detach {
        let id = state.map(|state| &state.id);
        writeln!(console.out, "{}", json!({ "executionArn": execution, "id": id }))?;
    } else if as_json {
        let mut state = state.map_or(Value::Null, |state| with_held(state, held));
        state["executionArn"] = execution.into();
        writeln!(console.out, "{state}")?;
    } else if let Some(state) = state {
        let (id, further) = (harmless(&state.id), console.stack.further());
        if detach {
            writeln!(
                console.out,
                "Replay {id}: the state machine runs it.\n{}\nTo see its state: {}\nTo stop it: {}",
                table(&[vec!["  execution".to_owned(), harmless(execution)]], &[]),
                further.command(&["replays", "show", &state.id]),
                further.command(&["replays", "stop", &state.id]),
            )?;
        } else {
            let held = held.map(|held| ("held", held.of_state(state)));
            let more: Vec<_> = held.into_iter().chain([("execution", harmless(execution))]).collect();
            write!(console.out, "{}", summary(state, &more, &further))?;
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

/// Names an unfinished replay of the same letters. With `--new` it is not looked for.
async fn unfinished(
    kept: &Replays,
    request: &Request,
    source: &Source,
    args: &args::Replay,
    console: &mut Console,
) -> Result<Option<State>, Failed> {
    if args.new {
        return Ok(None);
    }
    let unfinished = kept.unfinished(request, source).await?;
    let Some(state) = unfinished.into_iter().next() else { return Ok(None) };
    let (id, sent) = (harmless(&state.id), count(state.counts.sent, "letter"));
    writeln!(
        console.err,
        "redrivectl: replay {id} of the same letters is unfinished ({}): begun {} UTC by {}, {sent} sent, \
         of letters archived before {} UTC",
        status(&state),
        utc(state.began),
        harmless(&state.by),
        utc(state.cut_off),
    )?;
    if !args.asks() && !request.dry_run {
        let command = console.stack.further().command(&going_on(&state));
        writeln!(
            console.err,
            "redrivectl: this command begins a new replay; to continue the other one: {command}"
        )?;
    }
    Ok(Some(state))
}

/// Returns the request of the command line.
fn wish(args: &args::Replay, console: &Console) -> Result<Wish, Failed> {
    let request = request(args, console)?;
    Ok(match &args.resume {
        Some(id) => Wish::Resume(confirm::resumption(id, args)),
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

/// Returns the error of a replay, which may have been interrupted, and which may have begun. Then it can be continued.
fn failed(error: ReplayError, interrupted: bool, begun: Option<&State>, further: &args::Further) -> Failed {
    if interrupted && error == ReplayError::NotPlanned {
        return Failed::Stopped("interrupted while it read the archive; nothing was sent".to_owned());
    }
    let is_elsewhere = matches!(error, ReplayError::TakenUp(_));
    let more = begun.filter(|_| !is_elsewhere).map(|state| {
        let id = harmless(&state.id);
        format!("\nreplay {id} is unfinished; to continue: {}", further.command(&going_on(state)))
    });
    let more = more.unwrap_or_default();
    match Failed::from(error) {
        Failed::Work(why) => Failed::Work(why + &more),
        Failed::Denied(why) => Failed::Denied(why + &more),
        Failed::Busy(why) => Failed::Busy(why + &more),
        other => other,
    }
}

/// Returns how it ended: whether all selected letters are sent, or can be sent.
fn finished(state: &State) -> Finished {
    match state.status {
        Status::DryRun | Status::Done if state.counts.is_whole() => Finished::Whole,
        Status::DryRun | Status::Done => Finished::LeftOut,
        Status::Running | Status::Settling | Status::Stopped => Finished::Stopped,
    }
}

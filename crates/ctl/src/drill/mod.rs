//! `redrivectl drill`: tests a deployment in the operator's own account with real letters.
//!
//! | file | subject |
//! |---|---|
//! | `caller` | the caller, who replays a letter |
//! | `names` | the names of a drill's resources |
//! | `plan` | the text shown before the drill, with effects and costs |
//! | `scene` | the calls for the topic, the queues and the subscriptions |
//! | `story` | the steps, one after the other |
//! | `commands` | the commands of the tool that the steps carry out |
//! | `record` | the questions to AWS besides, and its answers |
//! | `log` | the function's log |
//! | `find` | the leftovers of earlier drills |
//! | `sweep` | the removal of all resources |
//! | `report` | the planned and the observed steps |

mod caller;
mod commands;
mod find;
mod log;
mod names;
mod plan;
mod record;
mod report;
mod scene;
mod story;
mod sweep;

use std::io::Write;
use std::sync::Arc;

use find::{LeftoverDrill, find};
use log::LogGroup;
use names::{DrillNames, SETTLED, new_id};
use record::DrillRecorder;
use redrive_aws::clients::AwsClients;
use redrive_core::arn::{Arn, ArnKind};
use report::DrillReport;
use scene::DrillResources;
use serde_json::json;
use story::{DrillHalt, MESSAGES, RunningDrill};
use sweep::{AwaitedLetters, CleanupResult, DrillCleanup, OverrideObedience};

use crate::args;
use crate::aws::AwsAccess;
use crate::command_tool::CommandRunner;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::doctor::PolicyAnswer;
use crate::output::unless_closed;
use crate::s3_location;
use crate::stack_outputs::StackOptions;
use crate::tables::harmless;

/// The parameter of `template.yaml` that permits drills.
const PARAMETER: &str = "Drill";

/// The words of `CloudFormation` for a deleted stack.
const NO_STACK: &str = "does not exist";

/// The stack of a drill.
struct DrillStack {
    stack: String,
    dead_letters: Arn,
    requeue: Option<Arn>,
    log_group: String,
    /// The redrive policy that the stack gives the function; `None` is the built-in one.
    policy: Option<String>,
    clients: AwsClients,
    logs: aws_sdk_cloudwatchlogs::Client,
    sts: aws_sdk_sts::Client,
}

pub(super) async fn run(
    args: &args::DrillArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let Some(stack) = console.stack.name().map(str::to_owned) else {
        return Err(bad("no stack is named: give --stack NAME (or REDRIVE_STACK)".to_owned()));
    };
    let tool = CommandRunner::new(&args.connection, console);
    if args.clean {
        Box::pin(clean(&stack, args, as_json, &tool, console)).await
    } else {
        let stage = stage(stack, args, console).await?;
        Box::pin(drill(&stage, args, as_json, &tool, console)).await
    }
}

fn bad(problem: String) -> CommandFailure {
    CommandFailure::Input(vec![problem])
}

/// Reads the stack, and refuses one that does not permit drills or where a drill cannot work.
async fn stage(
    stack: String,
    args: &args::DrillArgs,
    console: &ToolEnvironment,
) -> Result<DrillStack, CommandFailure> {
    let output = |name: &str| {
        let missing =
            || bad(format!("the stack {stack} has no output {name}, so it is not a stack of template.yaml"));
        console.stack.output(name)?.ok_or_else(missing)
    };
    if console.stack.parameter(PARAMETER)?.as_deref() != Some("true") {
        return Err(bad(format!(
            "the stack {stack} permits no drills: deploy it with the parameter {PARAMETER}=true, and the other \
             parameters unchanged. The function may then send to queues whose names begin with {0}, and SNS may \
             write to the dead-letter queue for topics with such names",
            names::prefix(&stack)
        )));
    }
    if let Some(idle) = idle(&console.stack)? {
        return Err(bad(format!(
            "the function of the stack {stack} {idle}, and the other parameters unchanged"
        )));
    }
    let queue = output("DeadLetterQueueArn")?;
    let dead_letters = queue.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Queue);
    let dead_letters = dead_letters.ok_or_else(|| bad(format!("{queue} is not the ARN of a queue")))?;
    if console.stack.output("ControlLocation")?.is_none() {
        return Err(bad(format!(
            "the stack {stack} has Overrides=off, but a drill gives overrides: deploy it with Overrides=on"
        )));
    }
    s3_location::archive(&args::ArchiveOption { archive: None }, console)?;
    let log_group = output("LogGroupName")?;
    let requeue = console.stack.output("RequeueArn")?;
    let requeue = requeue.map(|arn| arn.parse::<Arn>()).transpose();
    let requeue =
        requeue.map_err(|problem| bad(format!("the output RequeueArn of the stack {stack} is {problem}")))?;
    let policy = console.stack.parameter("RedrivePolicy")?;
    let aws = AwsAccess::connect(&args.connection, console).await?;
    let (clients, logs, sts) = (aws.clients(), aws.logs(), aws.sts());
    Ok(DrillStack { stack, dead_letters, requeue, log_group, policy, clients, logs, sts })
}

/// Returns why the function does nothing with letters, and what to deploy instead; `None` if it works.
fn idle(stack: &StackOptions) -> Result<Option<&'static str>, CommandFailure> {
    let is =
        |parameter, value| Ok::<_, CommandFailure>(stack.parameter(parameter)?.as_deref() == Some(value));
    Ok(if is("RedriveMode", "observe")? {
        Some("is in observe mode: deploy it with the parameter RedriveMode=active")
    } else if is("EventSourceMappings", "disabled")? {
        Some(
            "gets no letters because its event source mappings are disabled: deploy it with the parameter \
              EventSourceMappings=enabled",
        )
    } else {
        None
    })
}

/// Reports whether the stack's function obeys an override to give letters up. The stack may have changed since
/// the drill.
fn hearing(stack: &StackOptions) -> Result<OverrideObedience, CommandFailure> {
    let control = match stack.output("ControlLocation") {
        Err(CommandFailure::Work(why)) if why.contains(NO_STACK) => {
            return Ok(OverrideObedience::Deaf("the stack is deleted".to_owned()));
        }
        said => said?,
    };
    if control.is_none() {
        return Ok(OverrideObedience::Deaf("the function obeys no overrides (Overrides=off)".to_owned()));
    }
    let then = |idle| OverrideObedience::Idle(format!("the function {idle}, then run drill --clean again"));
    Ok(idle(stack)?.map_or(OverrideObedience::Hears, then))
}

/// Returns the resources of a drill by their names, whether they exist yet or not.
fn scene(
    stack: &str,
    id: &str,
    dead_letters: &Arn,
    clients: &AwsClients,
) -> Result<DrillResources, CommandFailure> {
    Ok(DrillResources {
        names: DrillNames::new(stack, id, dead_letters).map_err(bad)?,
        stack: stack.to_owned(),
        dead_letters: dead_letters.clone(),
        sns: clients.sns.clone(),
        sqs: clients.sqs.clone(),
    })
}

/// Prepares the removal of a drill's resources.
fn sweep<'s>(
    scene: &'s DrillResources,
    s3: &aws_sdk_s3::Client,
    hearing: OverrideObedience,
    tool: &CommandRunner,
    console: &ToolEnvironment,
) -> DrillCleanup<'s> {
    let archive = s3_location::archive(&args::ArchiveOption { archive: None }, console);
    let control = |archive| s3_location::control(&args::ControlPlace { control: None, archive }, console);
    // A stack with Overrides=off does not say where its overrides were: beside the archive.
    let control = control(None).or_else(|why| match &archive {
        Ok(place) => control(Some(format!("s3://{}/{}", place.bucket, place.prefix))),
        Err(_) => Err(why),
    });
    let said = |why: CommandFailure| why.to_string();
    let (archive, control) = (archive.map_err(said), control.map_err(said));
    // A second interrupt ends the process.
    let tool = tool.stopped_by(&Arc::default());
    DrillCleanup { scene, tool, s3: s3.clone(), archive, control, hearing }
}

async fn drill(
    stage: &DrillStack,
    args: &args::DrillArgs,
    as_json: bool,
    tool: &CommandRunner,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let scene = scene(&stage.stack, &new_id(), &stage.dead_letters, &stage.clients)?;
    if scene.lets_in().await? == PolicyAnswer::No {
        return Err(CommandFailure::Input(vec![format!(
            "the policy of {0} does not let SNS write for a drill's topic. Add this statement: {{\"Effect\": \
             \"Allow\", \"Principal\": {{\"Service\": \"sns.amazonaws.com\"}}, \"Action\": \"sqs:SendMessage\", \
             \"Resource\": \"{0}\", \"Condition\": {{\"ArnLike\": {{\"aws:SourceArn\": \"{1}\"}}}}}}",
            stage.dead_letters,
            scene.names.topic_arn().replace(&scene.names.id, "*")
        )]));
    }
    if let Some(requeue) = &stage.requeue {
        caller::may_replay(&stage.clients.sqs, &stage.sts, requeue).await?;
    }
    let has_requeue = stage.requeue.is_some();
    let queue = stage.dead_letters.resource();
    let refused_by =
        |policy: &String| plan::refused_by(policy, &scene.names, &stage.dead_letters, console.clock.now());
    let refused_by = stage.policy.as_ref().and_then(refused_by);
    let clean = console.stack.further().command(&["drill", "--clean"]);
    let plan =
        plan::text(&scene.names, &stage.stack, &clean, queue, has_requeue, refused_by.as_deref(), args);
    ask(&plan, "Begin?", args, as_json, console)?;

    let stop = (console.interrupts)()?;
    let sweep = sweep(&scene, &stage.clients.s3, OverrideObedience::Hears, tool, console);
    let tool = tool.stopped_by(&stop);
    let log =
        LogGroup { client: stage.logs.clone(), group: stage.log_group.clone(), clock: console.clock.clone() };
    let recorder = recorder(&scene, stage, console);
    let mut report = DrillReport::new(&mut *console.out, as_json);
    let mut story = RunningDrill::new(&scene, &tool, &log, args, has_requeue, &stop);
    let mut told = story.tell(&mut report).await;
    if let (Ok(()), Some(file)) = (&told, &args.record) {
        told = ask_aws(&recorder, file, &mut report).await;
    }
    let halt = told.err();
    // From here on, failed writes do not prevent the removal: the reader may be gone, as `tee` is after
    // Ctrl-C.
    let _ = match &halt {
        None => Ok(()),
        Some(DrillHalt::Interrupted) => report.end(false, "interrupted"),
        Some(DrillHalt::Failed(failed)) => report.end(false, &failed.to_string()),
    };
    let on_the_way = story.on_the_way;
    let swept = if args.keep {
        if on_the_way == 0 {
            // Otherwise --clean would wait for letters that will not arrive.
            let _ = scene.note_letters(SETTLED).await;
        }
        CleanupResult::default()
    } else {
        report.say("");
        let letters = story.archived + on_the_way;
        let awaited = (on_the_way > 0).then_some(AwaitedLetters { letters, is_exact: true });
        sweep.run(awaited, &mut report).await
    };
    let is_whole = report.is_whole() && halt.is_none();
    let finished = match halt {
        Some(DrillHalt::Interrupted) if swept.left.is_empty() => CommandEnd::Stopped,
        _ if is_whole && swept.left.is_empty() => CommandEnd::Whole,
        _ => CommandEnd::Partly,
    };
    let said = if as_json {
        let (id, steps) = (&scene.names.id, report.steps());
        json!({ "drill": id, "ok": is_whole, "steps": steps, "left": swept.left }).to_string()
    } else {
        ending(&scene, is_whole, &swept, args, &clean)
    };
    match (unless_closed(tell(&said, &swept, console)), finished) {
        (Err(error), CommandEnd::Whole) => Err(error.into()),
        (_, finished) => Ok(finished),
    }
}

/// Prepares the questions to AWS.
fn recorder<'s>(
    scene: &'s DrillResources,
    stage: &DrillStack,
    console: &ToolEnvironment,
) -> DrillRecorder<'s> {
    let control = s3_location::control(&args::ControlPlace { control: None, archive: None }, console).ok();
    DrillRecorder { scene, s3: stage.clients.s3.clone(), control, year: record::year(console.clock.now()) }
}

/// Asks AWS about behaviour that is not recorded yet, as a step of the drill.
async fn ask_aws(
    recorder: &DrillRecorder<'_>,
    file: &std::path::Path,
    report: &mut DrillReport<'_>,
) -> Result<(), DrillHalt> {
    report.begin("record", "ask SQS and S3 what nobody has recorded of them".to_owned())?;
    let said = recorder.record(file).await?;
    report.end(true, &said)?;
    Ok(())
}

/// Returns the text on how a drill ended.
fn ending(
    scene: &DrillResources,
    is_whole: bool,
    swept: &CleanupResult,
    args: &args::DrillArgs,
    clean: &str,
) -> String {
    let said = if is_whole { "all steps went as planned" } else { "not all steps went as planned" };
    let left = match (args.keep, swept.left.is_empty()) {
        (true, _) => "its resources are kept",
        (false, true) => "all of its resources are removed",
        (false, false) => "some of its resources are left",
    };
    let mut lines = vec![format!("\nDrill {}: {said}; {left}.", scene.names.id)];
    if args.keep || !swept.left.is_empty() {
        lines.push(format!("To remove them: {clean}"));
    }
    lines.join("\n")
}

/// Prints how it ended. If the reader of the results is gone and something is left, prints it as a problem.
fn tell(said: &str, swept: &CleanupResult, console: &mut ToolEnvironment) -> std::io::Result<()> {
    let written = writeln!(console.out, "{said}").and_then(|()| console.out.flush());
    if written.is_err() && !swept.left.is_empty() {
        for left in &swept.left {
            let _ = writeln!(console.err, "left: {left}");
        }
        let _ = writeln!(console.err, "{said}");
    }
    written
}

/// Removes what earlier drills have left, by names and tags: the stack may have changed since, or be gone.
async fn clean(
    stack: &str,
    args: &args::DrillArgs,
    as_json: bool,
    tool: &CommandRunner,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let hearing = hearing(&console.stack)?;
    let clients = AwsAccess::connect(&args.connection, console).await?.clients();
    let found = find(&clients, stack).await?;
    let ids: Vec<_> = found.keys().map(String::as_str).collect();
    if ids.is_empty() {
        if as_json {
            writeln!(console.out, "{}", json!({ "drills": ids, "left": [] }))?;
        } else {
            writeln!(console.out, "No drill of {} has left anything.", harmless(stack))?;
        }
        return Ok(CommandEnd::Whole);
    }
    let plan = format!(
        "Removes what these drills of the stack {} have left, with their records in the archive and their overrides: {}. This \
         includes a drill that is running now.\n",
        harmless(stack),
        ids.join(", ")
    );
    ask(&plan, "Remove it?", args, as_json, console)?;
    let mut left = Vec::new();
    for (id, LeftoverDrill { dead_letters, has_letters }) in &found {
        let scene = scene(stack, id, dead_letters, &clients)?;
        let sweep = sweep(&scene, &clients.s3, hearing.clone(), tool, console);
        let mut report = DrillReport::new(&mut *console.out, as_json);
        let awaited = has_letters.then_some(AwaitedLetters { letters: MESSAGES, is_exact: false });
        left.extend(sweep.run(awaited, &mut report).await.left);
    }
    let finished = CommandEnd::of(left.len() as u64);
    if as_json {
        let written = writeln!(console.out, "{}", json!({ "drills": ids, "left": left }));
        if finished == CommandEnd::Whole {
            unless_closed(written)?;
        }
    }
    Ok(finished)
}

/// Shows the plan, and asks whether to continue, unless `--yes` is given.
fn ask(
    plan: &str,
    question: &str,
    args: &args::DrillArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<(), CommandFailure> {
    let refused = |why: &str| Err(CommandFailure::Input(vec![why.to_owned()]));
    if !as_json {
        let shown = writeln!(console.out, "{plan}").and_then(|()| console.out.flush());
        // A removal goes on even if its plan cannot be shown. A new drill does not.
        if let (Err(error), false) = (shown, args.clean && args.yes) {
            return Err(CommandFailure::Work(format!("cannot show the plan: {error}; nothing was done")));
        }
    } else if !args.yes && console.answers {
        writeln!(console.err, "{plan}")?;
    }
    if args.yes {
        return Ok(());
    }
    if !console.answers {
        return refused("there is no terminal for a question: give --yes to continue without one");
    }
    if console.confirms(question)? { Ok(()) } else { refused("not confirmed: nothing was done") }
}

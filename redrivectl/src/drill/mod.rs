//! `redrivectl drill`: the whole way of a letter in the operator's own account.
//!
//! | file | subject |
//! |---|---|
//! | `names` | the names of what a drill makes |
//! | `plan` | what it is going to do, and what that costs |
//! | `scene` | the topic, the queues, the subscriptions: the calls |
//! | `story` | the steps, one after the other |
//! | `log` | the function's log |
//! | `tool` | the tool's own commands, which the steps use |
//! | `sweep` | what takes everything away again |
//! | `report` | what was planned and what was seen |

mod log;
mod names;
mod plan;
mod report;
mod scene;
mod story;
mod sweep;
mod tool;

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;

use crate::args;
use crate::aws;
use crate::console::{Console, Failed, Finished};
use crate::doctor::Access;
use crate::place;
use crate::stack::Stack;
use crate::text::harmless;
use log::Log;
use names::{Names, new_id};
use report::Report;
use scene::Scene;
use sns_redrive::arn::{Arn, ArnKind};
use sns_redrive::clients::Clients;
use story::{Halt, Story};
use sweep::{Sweep, Swept};
use tool::Tool;

/// The parameter of `template.yaml` that permits drills.
const PARAMETER: &str = "Drill";

/// The stack as a drill knows it.
struct Stage {
    stack: String,
    dead_letters: Arn,
    has_requeue: bool,
    log_group: String,
    clients: Clients,
    logs: aws_sdk_cloudwatchlogs::Client,
}

pub(super) async fn run(
    args: &args::Drill,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let stage = stage(args, console).await?;
    if args.clean {
        clean(&stage, args, as_json, console).await
    } else {
        drill(&stage, args, as_json, console).await
    }
}

/// Reads the stack, and refuses one that permits no drills.
async fn stage(args: &args::Drill, console: &Console) -> Result<Stage, Failed> {
    let bad = |problem: String| Failed::Input(vec![problem]);
    let Some(stack) = console.stack.name().map(str::to_owned) else {
        return Err(bad("which stack? Give --stack NAME (or REDRIVE_STACK)".to_owned()));
    };
    let output = |name: &str| {
        let missing =
            || bad(format!("the stack {stack} has no output {name}, as those of template.yaml have"));
        console.stack.output(name)?.ok_or_else(missing)
    };
    // To take away what was left nobody needs a permission of the function.
    if !args.clean && console.stack.parameter(PARAMETER)?.as_deref() != Some("true") {
        return Err(bad(format!(
            "the stack {stack} permits no drills: deploy it with the parameter {PARAMETER}=true, and the others as they are. It \
             lets the function send to queues whose names begin with {0}, and SNS write to the dead-letter queue for topics \
             whose names do",
            names::prefix(&stack)
        )));
    }
    if let (false, Some(idle)) = (args.clean, idle(&console.stack)?) {
        return Err(bad(format!("the function of the stack {stack} {idle}, and the others as they are")));
    }
    let queue = output("DeadLetterQueueArn")?;
    let dead_letters = queue.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Queue);
    let dead_letters = dead_letters.ok_or_else(|| bad(format!("{queue} is not the ARN of a queue")))?;
    if dead_letters.is_fifo() {
        return Err(bad(format!(
            "{queue} is a FIFO queue: a drill's topic is a standard one, which cannot write there"
        )));
    }
    if console.stack.output("ControlLocation")?.is_none() {
        return Err(bad(format!(
            "the stack {stack} hears no orders, which a drill gives: deploy it with Orders=on"
        )));
    }
    let log_group = output("LogGroupName")?;
    let has_requeue = console.stack.output("RequeueArn")?.is_some();
    let (clients, logs) = aws::clients_and_logs(&args.connection, console).await?;
    Ok(Stage { stack, dead_letters, has_requeue, log_group, clients, logs })
}

/// Says why the function does nothing with letters, and what to deploy; none where it works.
fn idle(stack: &Stack) -> Result<Option<&'static str>, Failed> {
    let is = |parameter, value| Ok::<_, Failed>(stack.parameter(parameter)?.as_deref() == Some(value));
    Ok(if is("RedriveMode", "observe")? {
        Some("only observes: deploy it with the parameter RedriveMode=active")
    } else if is("EventSourceMappings", "disabled")? {
        Some("gets no letters: deploy it with the parameter EventSourceMappings=enabled")
    } else {
        None
    })
}

impl Stage {
    fn scene(&self, id: &str) -> Result<Scene, Failed> {
        let names = Names::new(&self.stack, id, &self.dead_letters);
        Ok(Scene {
            names: names.map_err(|problem| Failed::Input(vec![problem]))?,
            stack: self.stack.clone(),
            dead_letters: self.dead_letters.clone(),
            sns: self.clients.sns.clone(),
            sqs: self.clients.sqs.clone(),
        })
    }

    /// What takes away the things of a drill.
    fn sweep<'s>(
        &self,
        scene: &'s Scene,
        args: &'s args::Drill,
        console: &Console,
    ) -> Result<Sweep<'s>, Failed> {
        let archive = place::archive(&args::Place { archive: None }, console)?;
        let control = place::control(&args::ControlPlace { control: None, archive: None }, console)?;
        // Whoever interrupts again ends the process.
        let tool = Tool::new(&args.connection, console, Arc::new(AtomicBool::new(false)));
        Ok(Sweep { scene, tool, s3: self.clients.s3.clone(), archive, control })
    }
}

async fn drill(
    stage: &Stage,
    args: &args::Drill,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let scene = stage.scene(&new_id())?;
    if scene.lets_in().await? == Access::No {
        return Err(Failed::Input(vec![format!(
            "the policy of {0} does not let SNS in for a drill's topic. Add to it: {{\"Effect\": \"Allow\", \"Principal\": \
             {{\"Service\": \"sns.amazonaws.com\"}}, \"Action\": \"sqs:SendMessage\", \"Resource\": \"{0}\", \"Condition\": \
             {{\"ArnLike\": {{\"aws:SourceArn\": \"{1}\"}}}}}}",
            stage.dead_letters,
            scene.names.topic_arn().replace(&scene.names.id, "*")
        )]));
    }
    let queue = stage.dead_letters.resource();
    let plan = plan::text(&scene.names, &stage.stack, queue, stage.has_requeue, args);
    ask(&plan, "Begin?", args, as_json, console)?;

    let stop = (console.interrupts)()?;
    let sweep = stage.sweep(&scene, args, console)?;
    let tool = Tool::new(&args.connection, console, Arc::clone(&stop));
    let log =
        Log { client: stage.logs.clone(), group: stage.log_group.clone(), clock: console.clock.clone() };
    let mut report = Report::new(&mut *console.out, as_json);
    let mut story = Story::new(&scene, &tool, &log, args, stage.has_requeue, &stop);
    let told = story.tell(&mut report).await;
    let halt = told.err();
    // Nothing that is said from here on keeps the sweep: the reader may be gone, as tee is after Ctrl-C.
    let _ = match &halt {
        None => Ok(()),
        Some(Halt::Interrupted) => report.end(false, "interrupted"),
        Some(Halt::Failed(failed)) => report.end(false, &failed.to_string()),
    };
    let swept = if args.keep {
        Swept::default()
    } else {
        report.say("");
        sweep.run(story.on_the_way, story.archived, &mut report).await
    };
    let is_whole = report.is_whole() && halt.is_none();
    let finished = match halt {
        Some(Halt::Interrupted) if swept.left.is_empty() => Finished::Stopped,
        _ if is_whole && swept.left.is_empty() => Finished::Whole,
        _ => Finished::Partly,
    };
    let said = if as_json {
        let (id, steps) = (&scene.names.id, report.steps());
        json!({ "drill": id, "ok": is_whole, "steps": steps, "left": swept.left }).to_string()
    } else {
        ending(&scene, is_whole, &swept, args)
    };
    match (tell(&said, &swept, console), finished) {
        (Err(error), Finished::Whole) => Err(error.into()),
        (_, finished) => Ok(finished),
    }
}

/// How a drill ended, in words.
fn ending(scene: &Scene, is_whole: bool, swept: &Swept, args: &args::Drill) -> String {
    let said = if is_whole { "everything was seen as planned" } else { "not everything was seen as planned" };
    let left = match (args.keep, swept.left.is_empty()) {
        (true, _) => "what it made is left",
        (false, true) => "nothing is left of it",
        (false, false) => "something is left of it",
    };
    let mut lines = vec![format!("\nDrill {}: {said}; {left}.", scene.names.id)];
    if args.keep || !swept.left.is_empty() {
        lines.push(format!("To take it away: redrivectl drill --clean --stack {}", harmless(&scene.stack)));
    }
    lines.join("\n")
}

/// Writes how it ended; where the reader of the results is gone, and something is left, to who reads the problems.
fn tell(said: &str, swept: &Swept, console: &mut Console) -> std::io::Result<()> {
    let written = writeln!(console.out, "{said}").and_then(|()| console.out.flush());
    if written.is_err() && !swept.left.is_empty() {
        for left in &swept.left {
            let _ = writeln!(console.err, "left: {left}");
        }
        let _ = writeln!(console.err, "{said}");
    }
    written
}

/// Takes away what earlier drills have left, by their tags.
async fn clean(
    stage: &Stage,
    args: &args::Drill,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let ids: BTreeSet<String> = sweep::find(&stage.clients, &stage.stack).await?;
    let ids: Vec<_> = ids.into_iter().collect();
    if ids.is_empty() {
        if as_json {
            writeln!(console.out, "{}", json!({ "drills": ids, "left": [] }))?;
        } else {
            writeln!(console.out, "No drill of {} has left anything.", harmless(&stage.stack))?;
        }
        return Ok(Finished::Whole);
    }
    let plan = format!(
        "Takes away what these drills of the stack {} have left, their records in the archive and their orders too: {}. A drill \
         that runs now is among them.\n",
        harmless(&stage.stack),
        ids.join(", ")
    );
    ask(&plan, "Take it away?", args, as_json, console)?;
    let mut left = Vec::new();
    for id in &ids {
        let scene = stage.scene(id)?;
        let sweep = stage.sweep(&scene, args, console)?;
        let mut report = Report::new(&mut *console.out, as_json);
        left.extend(sweep.run(0, 0, &mut report).await.left);
    }
    let finished = Finished::of(left.len() as u64);
    if as_json {
        let written = writeln!(console.out, "{}", json!({ "drills": ids, "left": left }));
        if finished == Finished::Whole {
            written?;
        }
    }
    Ok(finished)
}

/// Shows what is going to be done, and asks whether to go on, unless the command line has answered already.
fn ask(
    plan: &str,
    question: &str,
    args: &args::Drill,
    as_json: bool,
    console: &mut Console,
) -> Result<(), Failed> {
    let refused = |why: &str| Err(Failed::Input(vec![why.to_owned()]));
    if !as_json {
        writeln!(console.out, "{plan}")?;
        console.out.flush()?;
    } else if !args.yes && console.answers {
        writeln!(console.err, "{plan}")?;
    }
    if args.yes {
        return Ok(());
    }
    if !console.answers {
        return refused("there is no terminal to ask at: give --yes to go on without a question");
    }
    if console.confirms(question)? { Ok(()) } else { refused("not confirmed: nothing was done") }
}

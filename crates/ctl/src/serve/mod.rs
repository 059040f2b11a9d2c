//! `redrivectl serve`: the console on the operator's machine.
//!
//! | file | subject |
//! |---|---|
//! | `server` | connections on loopback, and their limits |
//! | `guard` | decides which requests are answered |
//! | `secret` | the token of the address, and the nonces of confirmations |
//! | `answer` | answers, with headers that restrict the browser |
//! | `route` | from a request to its answer |
//! | `session` | the state that all requests share |
//! | `account` | the account that pages are read from |
//! | `fields`, `action` | turn a form into a command |
//! | `run_preview`, `override_preview` | read what the command would do |
//! | `preview` | what the command would do, and what has changed since |
//! | `jobs`, `job_work` | actions between their form and their end |
//! | `record`, `edit` | reads a letter's record, and edits it |
//! | `view` | renders the pages of actions |

pub(super) mod account;
mod action;
mod answer;
mod edit;
mod fields;
mod guard;
mod job_work;
mod jobs;
mod override_preview;
mod preview;
mod record;
mod route;
mod run_preview;
mod secret;
mod server;
mod session;
mod view;

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use redrive_console::BodyVisibility;
use serde_json::json;
use tokio::task::LocalSet;

use crate::args;
use crate::aws::AwsAccess;
use crate::command_tool::CommandRunner;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::tables::{count, harmless};
use guard::ServeGuard;
use jobs::{JobPhase, JobTable};
use secret::Secret;
use session::{LatestFindings, ServeSession};

pub(super) async fn run(
    args: &args::ServeArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let aws = AwsAccess::connect(&args.connection, console).await?;
    let bodies = if args.bodies {
        BodyVisibility::Shown { masked: args.mask.clone() }
    } else {
        BodyVisibility::Hidden
    };
    let account = account::account(bodies, &aws, console).await?;
    // All commands of this process use the same credentials.
    console.config = Some(aws.config());
    let (listener, port) = server::listen(args.port).await?;
    let session = Rc::new(ServeSession {
        guard: ServeGuard::new(port, Secret::new()?),
        account,
        operates: args.operate,
        tool: CommandRunner::new(&args.connection, console),
        further: console.stack.further(),
        jobs: RefCell::new(JobTable::default()),
        doctor: RefCell::new(LatestFindings::default()),
    });
    let stop = (console.interrupts)()?;
    greet(&session, as_json, console)?;
    let mut stopped = Vec::new();
    let local = LocalSet::new();
    let served = local.run_until(async {
        server::serve(listener, &session, &stop).await;
        stopped = session.jobs.borrow_mut().stop_all();
        if !stopped.is_empty() {
            let under_way = count(stopped.len() as u64, "action");
            // The jobs stop even if nobody can read this message.
            let _ =
                writeln!(console.err, "redrivectl: {under_way} under way: waiting until they have stopped");
        }
        let mut tasks = std::mem::take(&mut session.jobs.borrow_mut().tasks);
        while tasks.join_next().await.is_some() {}
    });
    served.await;
    for id in &stopped {
        // The console's pages are gone, so the terminal must say how the action ended.
        tell(&session, *id, console)?;
    }
    Ok(if stopped.is_empty() { CommandEnd::Whole } else { CommandEnd::Stopped })
}

/// Prints how an action ended, its last output, and its command.
fn tell(session: &ServeSession, id: u64, console: &mut ToolEnvironment) -> Result<(), CommandFailure> {
    let jobs = session.jobs.borrow();
    let Some(job) = jobs.get(id) else { return Ok(()) };
    let title = job.action.act.doing.title();
    match &job.phase {
        JobPhase::Ended(ending) => {
            for line in ending.says.lines() {
                writeln!(console.err, "redrivectl: {title}: {}", harmless(line))?;
            }
        }
        _ => writeln!(console.err, "redrivectl: {title}: nobody knows how it ended")?,
    }
    for line in job.out.text().lines() {
        writeln!(console.err, "  {}", harmless(line))?;
    }
    let command = job.action.command(&session.further);
    Ok(writeln!(console.err, "redrivectl: {title}: its command was: {}", harmless(&command))?)
}

fn greet(session: &ServeSession, as_json: bool, console: &mut ToolEnvironment) -> Result<(), CommandFailure> {
    let address = session.guard.address();
    if as_json {
        writeln!(console.out, "{}", json!({ "url": address, "operates": session.operates }))?;
    } else {
        let may = if session.operates {
            "Pages may act, as you."
        } else {
            "Pages only show; to act, give --operate."
        };
        writeln!(
            console.out,
            "Open {address}\nOnly this machine can reach it. Anybody who has the address sees what you may see. {may}\nCtrl-C ends it."
        )?;
    }
    console.out.flush()?;
    // Without the printed address nobody can open the console. So failing to print it ends the command.
    console.unwritten.check()
}

//! The operator's tool `redrivectl`.
//!
//! It answers an operator's questions before, during and after an outage: when does this policy retry, what
//! would the function do with this event, which letters wait, and which are in the archive. It gives overrides
//! to the running function, and replays archived letters. [`run`] takes a command line and a [`ToolEnvironment`], its
//! environment, which tests replace.
//!
//! The tool prints the content of a message only on request: bodies, attribute values, receipt handles and unsubscribe
//! links.

mod archive;
mod args;
mod attach;
mod aws;
mod command_end;
mod command_failure;
mod command_tool;
mod console;
mod control;
mod describe;
mod doctor;
mod drill;
mod endpoint_state;
mod erase;
mod explain;
mod fleet;
mod follow;
mod install;
mod look;
mod named_queue;
mod output;
mod overrides;
#[cfg(test)]
mod pages;
mod plan;
mod progress_line;
mod redriver;
mod replay;
mod replay_records;
mod s3_location;
mod serve;
mod silent_servers;
mod stack_outputs;
mod state_machine;
mod status;
mod successors;
mod tables;
mod waiting;
mod watch;

use std::ffi::OsString;
use std::io::Write;

use clap::{CommandFactory, Parser};

use console::{CommandEnd, CommandFailure};
pub use console::{ToolEnvironment, WriteFailure};
use output::{JsonStream, ProblemStream, ResultStream};
pub use silent_servers::SilentServers;
pub use stack_outputs::StackOptions;
pub use tables::TextStyle;

/// Returns all commands and options, for tests that go through all of them.
#[must_use]
pub fn command_tree() -> clap::Command {
    args::Cli::command()
}

/// Executes a command line, and returns the exit code: 0 done, 1 something failed, 2 bad usage or input, 3
/// letters were left out, 4 stopped, 5 others are at work, 6 AWS denied a call, or something could not be seen, 7 a person is
/// needed.
pub async fn run(args: impl IntoIterator<Item = OsString>, mut console: ToolEnvironment) -> u8 {
    let mut args: Vec<_> = args.into_iter().collect();
    let names_stack = (console.variable)(describe::STACK).is_some_and(|name| !name.is_empty());
    let is_bare = args.iter().skip(1).all(|arg| arg == "--json" || arg == "--wide");
    if !args.is_empty() && is_bare && names_stack {
        args.push("status".into());
    }
    let cli = match args::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let (to, code) = if error.use_stderr() { (&mut console.err, 2) } else { (&mut console.out, 0) };
            // If this message cannot be written, nobody can be told.
            let _ = write!(to, "{error}");
            return code;
        }
    };
    console.guard(cli.command.goes_on(), cli.json);
    console.write_as(cli.wide, cli.json);
    if let Some(connection) = cli.command.connection() {
        console.stack = Box::pin(describe::stack(connection, cli.command.further(), &console)).await;
    }
    let ended = carry_out(&cli, &mut console).await;
    let written = console.out.flush();
    let ended = match (ended, written) {
        // If the command failed, that error counts, even if its output could not be written.
        (Ok(CommandEnd::Whole), Err(error)) => Err(error.into()),
        // A command that worked on without a reader succeeds or fails by its work. Other write errors, such
        // as a full disk, are reported.
        (Ok(CommandEnd::Whole), Ok(())) if !console.unwritten.is_closed() => {
            console.unwritten.check().map(|()| CommandEnd::Whole)
        }
        (ended, _) => ended,
    };
    match ended {
        Ok(CommandEnd::Whole) => 0,
        Ok(CommandEnd::Partly) => 1,
        Ok(CommandEnd::LeftOut) => 3,
        Ok(CommandEnd::Stopped) => 4,
        Ok(CommandEnd::Unseen) => 6,
        Ok(CommandEnd::NeedsPerson) => 7,
        // The reader stopped reading, as `head` does.
        Err(CommandFailure::Output(_)) if cli.command.only_shows() && console.unwritten.is_closed() => 0,
        Err(failed) => {
            for line in failed.to_string().lines() {
                let _ = writeln!(console.err, "redrivectl: {}", tables::harmless(line));
            }
            let (code, name) = match failed {
                CommandFailure::Input(_) => (2, "input"),
                CommandFailure::Stopped(_) => (4, "stopped"),
                CommandFailure::Busy(_) => (5, "busy"),
                CommandFailure::Denied(_) if cli.command.tells_denials() => (6, "denied"),
                CommandFailure::Work(_) | CommandFailure::Denied(_) | CommandFailure::Output(_) => {
                    (1, "failed")
                }
            };
            if cli.json {
                // With `--json`, a script reads this instead of the result.
                let error = serde_json::json!({ "error": failed.to_string(), "kind": name });
                let _ = writeln!(console.out, "{error}");
            }
            code
        }
    }
}

impl ToolEnvironment {
    /// Lets the streams note their errors. With `goes_on` the command ends only when its work is done.
    fn guard(&mut self, goes_on: bool, as_json: bool) {
        let nowhere = || Box::new(std::io::sink());
        let to = std::mem::replace(&mut self.out, nowhere());
        self.out = Box::new(ResultStream { to, unwritten: self.unwritten.clone(), goes_on });
        if as_json {
            let to = std::mem::replace(&mut self.out, nowhere());
            self.out = Box::new(JsonStream { to, cut: Vec::new() });
        }
        let problems = ProblemStream::to(std::mem::replace(&mut self.err, nowhere()));
        self.silent.tell_on(problems.clone());
        self.err = Box::new(problems);
    }
}

/// Executes the command of a command line.
async fn carry_out(cli: &args::Cli, console: &mut ToolEnvironment) -> Result<CommandEnd, CommandFailure> {
    let as_json = cli.json;
    match &cli.command {
        args::CliCommand::Plan(args) => plan::run(args, as_json, console),
        args::CliCommand::Explain(args) => explain::run(args, as_json, console),
        args::CliCommand::Status(args) => Box::pin(status::run(args, as_json, console)).await,
        args::CliCommand::Look(args) => Box::pin(look::run(args, as_json, console)).await,
        args::CliCommand::Hold(args) => {
            Box::pin(overrides::OverrideRequest::hold(args).run(as_json, console)).await
        }
        args::CliCommand::Retry(args) => {
            Box::pin(overrides::OverrideRequest::retry(args).run(as_json, console)).await
        }
        args::CliCommand::Overrides(args) => match args.task() {
            args::OverridesTask::List(args) => Box::pin(overrides::list(args, as_json, console)).await,
            args::OverridesTask::Release(args) => Box::pin(overrides::release(args, as_json, console)).await,
        },
        args::CliCommand::Waiting(args) => Box::pin(waiting::run(args, as_json, console)).await,
        args::CliCommand::GiveUp(args) => {
            Box::pin(overrides::OverrideRequest::give_up(args)?.run(as_json, console)).await
        }
        args::CliCommand::Archive(args) => Box::pin(archive::run(&args.command, as_json, console)).await,
        args::CliCommand::Replay(args) => match args.task() {
            args::ReplayTask::Start(args) => {
                let result = Box::pin(replay::run(args, as_json, console)).await?;
                console.print(&result, as_json)
            }
            args::ReplayTask::Record(task) => Box::pin(replay_records::run(task, as_json, console)).await,
        },
        args::CliCommand::Erase(args) => Box::pin(erase::run(args, as_json, console)).await,
        args::CliCommand::Fleet(args) => Box::pin(fleet::run(args, as_json, console)).await,
        args::CliCommand::Completion { shell } => install::completion(*shell, console),
        args::CliCommand::Man { folder } => install::man(folder),
        args::CliCommand::Attach(args) => Box::pin(attach::run(args, as_json, console)).await,
        args::CliCommand::Doctor(args) => {
            let examination = Box::pin(doctor::examine(args, console)).await?;
            console.print(&examination, as_json)
        }
        args::CliCommand::Drill(args) => Box::pin(drill::run(args, as_json, console)).await,
        args::CliCommand::Serve(args) => Box::pin(serve::run(args, as_json, console)).await,
    }
}

//! The operator's tool `redrivectl`.
//!
//! It answers an operator's questions before, during and after an outage: when does this policy retry, what
//! would the function do with this event, which letters wait, and which are in the archive. It gives overrides
//! to the running function, and replays archived letters. [`run`] takes a command line and a [`Console`], its
//! environment, which tests replace.
//!
//! The tool prints the content of a message only on request: bodies, attribute values, receipt handles and unsubscribe
//! links.

mod archive;
mod args;
mod aws;
mod console;
mod control;
mod describe;
mod doctor;
mod drill;
mod explain;
mod failed;
mod finished;
mod follow;
mod install;
mod machine;
mod output;
mod overrides;
#[cfg(test)]
mod pages;
mod place;
mod plan;
mod redriver;
mod replay;
mod replays;
mod screen;
mod serve;
mod silence;
mod stack;
mod successors;
mod text;
mod tool;
mod waiting;
mod watch;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;

pub use console::{Console, WriteFailure};
use console::{Failed, Finished};
use output::{Json, Problems, Results};
pub use silence::SilentServers;
pub use stack::Stack;

/// Executes a command line, and returns the exit code: 0 done, 1 something failed, 2 bad usage or input, 3
/// letters were left out, 4 stopped, 5 others are at work, 6 AWS denied a call, or something could not be seen.
pub async fn run(args: impl IntoIterator<Item = OsString>, mut console: Console) -> u8 {
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
    if let Some(connection) = cli.command.connection() {
        console.stack = Box::pin(describe::stack(connection, cli.command.further(), &console)).await;
    }
    let ended = carry_out(&cli, &mut console).await;
    let written = console.out.flush();
    let ended = match (ended, written) {
        // If the command failed, that error counts, even if its output could not be written.
        (Ok(Finished::Whole), Err(error)) => Err(error.into()),
        // A command that worked on without a reader succeeds or fails by its work. Other write errors, such
        // as a full disk, are reported.
        (Ok(Finished::Whole), Ok(())) if !console.unwritten.is_closed() => {
            console.unwritten.check().map(|()| Finished::Whole)
        }
        (ended, _) => ended,
    };
    match ended {
        Ok(Finished::Whole) => 0,
        Ok(Finished::Partly) => 1,
        Ok(Finished::LeftOut) => 3,
        Ok(Finished::Stopped) => 4,
        Ok(Finished::Unseen) => 6,
        // The reader stopped reading, as `head` does.
        Err(Failed::Output(_)) if cli.command.only_shows() && console.unwritten.is_closed() => 0,
        Err(failed) => {
            for line in failed.to_string().lines() {
                let _ = writeln!(console.err, "redrivectl: {}", text::harmless(line));
            }
            let (code, name) = match failed {
                Failed::Input(_) => (2, "input"),
                Failed::Stopped(_) => (4, "stopped"),
                Failed::Busy(_) => (5, "busy"),
                Failed::Denied(_) if cli.command.tells_denials() => (6, "denied"),
                Failed::Work(_) | Failed::Denied(_) | Failed::Output(_) => (1, "failed"),
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

impl Console {
    /// Lets the streams note their errors. With `goes_on` the command ends only when its work is done.
    fn guard(&mut self, goes_on: bool, as_json: bool) {
        let nowhere = || Box::new(std::io::sink());
        let to = std::mem::replace(&mut self.out, nowhere());
        self.out = Box::new(Results { to, unwritten: self.unwritten.clone(), goes_on });
        if as_json {
            let to = std::mem::replace(&mut self.out, nowhere());
            self.out = Box::new(Json { to, cut: Vec::new() });
        }
        let problems = Problems::to(std::mem::replace(&mut self.err, nowhere()));
        self.silent.tell_on(problems.clone());
        self.err = Box::new(problems);
    }
}

/// Executes the command of a command line.
async fn carry_out(cli: &args::Cli, console: &mut Console) -> Result<Finished, Failed> {
    let as_json = cli.json;
    match &cli.command {
        args::Command::Plan(args) => plan::run(args, as_json, console),
        args::Command::Explain(args) => explain::run(args, as_json, console),
        args::Command::Hold(args) => Box::pin(overrides::Request::hold(args).run(as_json, console)).await,
        args::Command::Retry(args) => Box::pin(overrides::Request::retry(args).run(as_json, console)).await,
        args::Command::Release(args) => Box::pin(overrides::release(args, as_json, console)).await,
        args::Command::Overrides(args) => Box::pin(overrides::list(args, as_json, console)).await,
        args::Command::Waiting(args) => Box::pin(waiting::run(args, as_json, console)).await,
        args::Command::GiveUp(args) => {
            Box::pin(overrides::Request::give_up(args)?.run(as_json, console)).await
        }
        args::Command::Archive(args) => Box::pin(archive::run(&args.command, as_json, console)).await,
        args::Command::Replay(args) => {
            let result = Box::pin(replay::run(args, as_json, console)).await?;
            console.print(&result, as_json)
        }
        args::Command::Completion { shell } => install::completion(*shell, console),
        args::Command::Man { folder } => install::man(folder),
        args::Command::Doctor(args) => {
            let examination = Box::pin(doctor::examine(args, console)).await?;
            console.print(&examination, as_json)
        }
        args::Command::Drill(args) => Box::pin(drill::run(args, as_json, console)).await,
        args::Command::Serve(args) => Box::pin(serve::run(args, as_json, console)).await,
        args::Command::Replays(args) => Box::pin(replays::run(args, as_json, console)).await,
    }
}

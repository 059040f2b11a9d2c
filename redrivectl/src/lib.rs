//! The operator's tool `redrivectl`.
//!
//! It answers what an operator asks before, during and after an outage: when will this policy retry,
//! what would the function do with this event, what lies in the archive; and it puts letters back. [`run`] takes a command line
//! and a [`Console`], the world around it, so that tests can sit there too.
//!
//! Nothing of a message is printed but on request: bodies, attribute values, receipt handles and
//! unsubscribe links stay where they are.

mod archive;
mod args;
mod aws;
mod explain;
mod plan;
mod replay;
mod text;

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use sns_redrive::clients::Clients;
use sns_redrive::clock::Clock;
use sns_redrive::policy::Policy;

/// What the tool works with.
pub struct Console {
    /// Where results go.
    pub out: Box<dyn Write + Send>,
    /// Where problems and progress go.
    pub err: Box<dyn Write + Send>,
    /// Whether progress is shown there: only to a person.
    pub progress: bool,
    /// What `-` reads.
    pub input: Box<dyn Read>,
    /// The time.
    pub clock: Clock,
    /// Environment variables.
    pub variable: fn(&str) -> Option<String>,
    /// Clients to use in the place of those that the command line asks for.
    pub clients: Option<Clients>,
    /// Begins to watch for Ctrl-C; the flag tells of it. Only work that can stop in good order asks for it.
    pub interrupts: Box<dyn Fn() -> std::io::Result<Arc<AtomicBool>>>,
}

impl Console {
    /// The process's own world.
    #[must_use]
    pub fn system() -> Self {
        Self {
            out: Box::new(std::io::stdout()),
            err: Box::new(std::io::stderr()),
            progress: std::io::stderr().is_terminal(),
            input: Box::new(std::io::stdin()),
            clock: Clock::system(),
            variable: |name| std::env::var(name).ok(),
            clients: None,
            interrupts: Box::new(interrupts_of_process),
        }
    }
}

/// Tells of the first Ctrl-C, or of the first request to end; the second ends the process at once.
fn interrupts_of_process() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: what comes first must find the flag as the signal before left it.
        register_conditional_shutdown(signal, 1, Arc::clone(&flag))?;
        register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// How a command came to its end, where it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finished {
    /// All was done.
    Whole,
    /// Some of it could not be read or done.
    Partly,
}

impl Finished {
    /// The end of work of which so much could not be read.
    fn of(unread: u64) -> Self {
        if unread == 0 { Self::Whole } else { Self::Partly }
    }
}

/// Why a command did not come to its end.
#[derive(Debug, thiserror::Error)]
enum Failed {
    /// The input is no good; all that is wrong with it.
    #[error("{}", .0.join("\n"))]
    Input(Vec<String>),
    /// The work could not be done.
    #[error("{0}")]
    Work(String),
    /// The output could not be written.
    #[error("cannot write: {0}")]
    Output(#[from] std::io::Error),
}

/// Carries a command line out. The answer is the exit code: 0 done, 1 something failed, 2 bad usage or
/// input.
pub async fn run(args: impl IntoIterator<Item = OsString>, mut console: Console) -> u8 {
    let cli = match args::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let (to, code) = if error.use_stderr() { (&mut console.err, 2) } else { (&mut console.out, 0) };
            // Nobody is left to tell if that cannot be written.
            let _ = write!(to, "{error}");
            return code;
        }
    };
    let ended = carry_out(&cli, &mut console).await;
    match ended.and_then(|finished| Ok(console.out.flush().map(|()| finished)?)) {
        Ok(Finished::Whole) => 0,
        Ok(Finished::Partly) => 1,
        // The reader has seen enough, as `head` does.
        Err(Failed::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(failed) => {
            for line in failed.to_string().lines() {
                let _ = writeln!(console.err, "redrivectl: {}", text::harmless(line));
            }
            if matches!(failed, Failed::Input(_)) { 2 } else { 1 }
        }
    }
}

async fn carry_out(cli: &args::Cli, console: &mut Console) -> Result<Finished, Failed> {
    match &cli.command {
        args::Command::Plan(args) => plan::run(args, cli.json, console),
        args::Command::Explain(args) => explain::run(args, cli.json, console),
        args::Command::Archive(args) => archive::run(args, cli.json, console).await,
        args::Command::Replay(args) => Box::pin(replay::run(args, cli.json, console)).await,
    }
}

/// The policy of a file; the built-in one where there is none.
fn read_policy(file: Option<&Path>, console: &mut Console) -> Result<Policy, Failed> {
    let Some(file) = file else { return Ok(Policy::built_in()) };
    let json = read_file(file, console)?;
    Policy::parse(&json).map_err(|bad| {
        let place = |fault| format!("{}: {fault}", file.display());
        Failed::Input(bad.0.iter().map(place).collect())
    })
}

/// A file's text; `-` is standard input.
fn read_file(file: &Path, console: &mut Console) -> Result<String, Failed> {
    let read = if file == Path::new("-") {
        let mut text = String::new();
        console.input.read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| Failed::Input(vec![format!("cannot read {}: {error}", file.display())]))
}

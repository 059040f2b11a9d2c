//! The tool's own commands, as an operator would type them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_config::SdkConfig;
use clap::Parser;
use indicatif::ProgressDrawTarget;
use serde_json::Value;

use crate::args::{Cli, Command};
use crate::console::{Console, Failed, Finished};
use crate::stack::Stack;
use crate::{archive, args, orders, replay};
use sns_redrive::clock::Clock;

/// The commands with the connection and the stack of a drill.
pub(super) struct Tool<'a> {
    connection: &'a args::Connection,
    clock: Clock,
    variable: fn(&str) -> Option<String>,
    config: Option<SdkConfig>,
    stack: Stack,
    /// Becomes true when somebody interrupts.
    stop: Arc<AtomicBool>,
}

/// What a command printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl<'a> Tool<'a> {
    pub(super) fn new(connection: &'a args::Connection, console: &Console, stop: Arc<AtomicBool>) -> Self {
        Self {
            connection,
            clock: console.clock.clone(),
            variable: console.variable,
            config: console.config.clone(),
            stack: console.stack.clone(),
            stop,
        }
    }

    /// Runs a command, and returns what it says, a JSON value a line.
    ///
    /// # Errors
    ///
    /// It failed, or did not come to its end.
    pub(super) async fn run(&self, words: &[&str]) -> Result<Vec<Value>, Failed> {
        let (finished, said, err) = self.finish(words).await?;
        match finished {
            Finished::Whole => Ok(said),
            Finished::Stopped if self.stop.load(Ordering::Relaxed) => {
                Err(Failed::Stopped("interrupted".to_owned()))
            }
            Finished::Stopped | Finished::Partly | Finished::LeftOut => {
                let because = said.iter().find_map(|said| said["because"].as_str()).unwrap_or(err.trim());
                Err(Failed::Work(format!("redrivectl {} was not done whole: {because}", words[0])))
            }
        }
    }

    /// Runs a command, and returns how it ended, what it says, and its problems.
    pub(super) async fn finish(&self, words: &[&str]) -> Result<(Finished, Vec<Value>, String), Failed> {
        let args::Connection { stack, endpoint_url, profile, region } = self.connection;
        let options = [
            ("--stack", stack.as_deref().or(self.stack.name())),
            ("--endpoint-url", endpoint_url.as_deref()),
            ("--profile", profile.as_deref()),
            ("--region", region.as_deref()),
        ];
        let options = options.iter().filter_map(|(name, value)| Some([*name, (*value)?])).flatten();
        let line = ["redrivectl", "--json"].into_iter().chain(words.iter().copied()).chain(options);
        let cli = Cli::try_parse_from(line).map_err(|error| Failed::Input(vec![error.to_string()]))?;
        let (out, err) = (Printed::default(), Printed::default());
        let mut console = self.silent(out.clone(), err.clone());
        let finished = match &cli.command {
            Command::Retry(args) => Box::pin(orders::retry(args, true, &mut console)).await,
            Command::Release(args) => Box::pin(orders::release(args, true, &mut console)).await,
            Command::Orders(args) => Box::pin(orders::list(args, true, &mut console)).await,
            Command::Archive(args) => match &args.command {
                None => Box::pin(orders::archive(&args.order, true, &mut console)).await,
                Some(command) => Box::pin(archive::run(command, true, &mut console)).await,
            },
            Command::Replay(args) => Box::pin(replay::run(args, true, &mut console)).await,
            _ => Err(Failed::Work(format!("a drill has no use for {}", words.join(" ")))),
        }?;
        drop(console);
        let said = out.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok((finished, said, err.text()))
    }

    /// A console on which nobody sees anything.
    fn silent(&self, out: Printed, err: Printed) -> Console {
        let stop = Arc::clone(&self.stop);
        Console {
            out: Box::new(out),
            err: Box::new(err),
            progress: false,
            lines: false,
            draws: Box::new(ProgressDrawTarget::hidden),
            input: Box::new(io::empty()),
            clock: self.clock.clone(),
            variable: self.variable,
            answers: false,
            config: self.config.clone(),
            stack: self.stack.clone(),
            interrupts: Box::new(move || Ok(Arc::clone(&stop))),
        }
    }
}

impl Printed {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

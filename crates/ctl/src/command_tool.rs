//! The consoles of commands that another command runs.

use std::io::{self, Cursor, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_config::SdkConfig;
use indicatif::ProgressDrawTarget;
use redrive_aws::clock::InstanceClock;

use crate::args;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment, WriteFailure};
use crate::silent_servers::SilentServers;
use crate::stack_outputs::StackOptions;
use crate::tables::{TextStyle, count};

/// The environment of further commands: the connection and the stack of the command that runs them.
#[derive(Clone)]
pub(crate) struct CommandRunner {
    connection: args::ConnectionArgs,
    clock: InstanceClock,
    variable: fn(&str) -> Option<String>,
    config: Option<SdkConfig>,
    stack: StackOptions,
    silent: SilentServers,
    /// Becomes true at an interrupt.
    stop: Arc<AtomicBool>,
}

/// The number of bytes that a bounded text keeps of its beginning, and of its end.
const KEPT_BYTES: usize = 64 << 10;

/// The text that a command has printed so far.
#[derive(Clone, Default)]
pub(crate) struct CommandOutput(Arc<Mutex<BoundedText>>);

#[derive(Default)]
struct BoundedText {
    bounded: bool,
    /// The whole text, or the beginning of a bounded one.
    head: Vec<u8>,
    /// The end of a bounded text.
    tail: Vec<u8>,
    /// The number of dropped lines between the two.
    left_out: usize,
}

impl CommandRunner {
    pub(crate) fn new(connection: &args::ConnectionArgs, console: &ToolEnvironment) -> Self {
        let stack = connection.stack.clone().or_else(|| console.stack.name().map(str::to_owned));
        Self {
            connection: args::ConnectionArgs { stack, ..connection.clone() },
            clock: console.clock.clone(),
            variable: console.variable,
            config: console.config.clone(),
            stack: console.stack.clone(),
            silent: console.silent.clone(),
            stop: Arc::default(),
        }
    }

    /// Returns the same environment, where another flag stops commands.
    pub(crate) fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), ..self.clone() }
    }

    /// Returns the connection of all commands.
    pub(crate) fn connection(&self) -> args::ConnectionArgs {
        self.connection.clone()
    }

    /// Does the work of a command, and returns its result.
    ///
    /// # Errors
    ///
    /// It failed, or did not finish.
    pub(crate) async fn run<T>(
        &self,
        name: &str,
        work: impl AsyncFnOnce(&mut ToolEnvironment) -> Result<(T, CommandEnd), CommandFailure>,
    ) -> Result<T, CommandFailure> {
        let err = CommandOutput::default();
        let (result, finished) = work(&mut self.console("", &CommandOutput::default(), &err)).await?;
        match finished {
            CommandEnd::Whole => Ok(result),
            CommandEnd::Stopped if self.stop.load(Ordering::Relaxed) => {
                Err(CommandFailure::Stopped("interrupted".to_owned()))
            }
            CommandEnd::Stopped
            | CommandEnd::Partly
            | CommandEnd::LeftOut
            | CommandEnd::Unseen
            | CommandEnd::NeedsPerson => {
                let because = err.text();
                Err(CommandFailure::Work(format!(
                    "redrivectl {name} finished only in part: {}",
                    because.trim()
                )))
            }
        }
    }

    /// Returns a console that answers no questions. `input` is the text that `-` reads, `out` takes results,
    /// and `err` takes problems, and progress in lines.
    pub(crate) fn console(&self, input: &str, out: &CommandOutput, err: &CommandOutput) -> ToolEnvironment {
        let stop = Arc::clone(&self.stop);
        ToolEnvironment {
            out: Box::new(out.clone()),
            terminal: false,
            style: TextStyle::default(),
            unwritten: WriteFailure::default(),
            err: Box::new(err.clone()),
            progress: false,
            lines: true,
            draws: Box::new(ProgressDrawTarget::hidden),
            input: Box::new(Cursor::new(input.as_bytes().to_vec())),
            clock: self.clock.clone(),
            variable: self.variable,
            answers: false,
            config: self.config.clone(),
            stack: self.stack.clone(),
            silent: self.silent.clone(),
            interrupts: Box::new(move || Ok(Arc::clone(&stop))),
        }
    }
}

impl CommandOutput {
    /// Returns a text that keeps only its beginning and its end. A replay may print a line for each of
    /// millions of letters, too much for a page.
    pub(crate) fn bounded() -> Self {
        Self(Arc::new(Mutex::new(BoundedText { bounded: true, ..BoundedText::default() })))
    }

    pub(crate) fn text(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (head, tail) = (String::from_utf8_lossy(&text.head), String::from_utf8_lossy(&text.tail));
        match text.left_out {
            0 => format!("{head}{tail}"),
            left_out => format!("{head}\n({} left out here)\n{tail}", count(left_out as u64, "line")),
        }
    }
}

impl BoundedText {
    fn push(&mut self, bytes: &[u8]) {
        if !self.bounded {
            return self.head.extend_from_slice(bytes);
        }
        let (head, tail) = bytes.split_at(KEPT_BYTES.saturating_sub(self.head.len()).min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(tail);
        if self.tail.len() > 2 * KEPT_BYTES {
            // The kept tail begins with a whole line.
            let from = self.tail.len() - KEPT_BYTES;
            let line =
                self.tail[from..].iter().position(|byte| *byte == b'\n').map_or(from, |at| from + at + 1);
            self.left_out += self.tail.drain(..line).filter(|byte| *byte == b'\n').count().max(1);
        }
    }
}

impl Write for CommandOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        let (mut whole, mut bounded) = (CommandOutput::default(), CommandOutput::bounded());
        for number in 0..100_000 {
            for printed in [&mut whole, &mut bounded] {
                writeln!(printed, "line {number}").unwrap();
            }
        }
        assert_eq!(whole.text().lines().count(), 100_000);
        let text = bounded.text();
        assert!(text.starts_with("line 0\n") && text.ends_with("\nline 99999\n"));
        assert!(text.len() < 4 * KEPT_BYTES, "{}", text.len());
        let (_, left_out) = text.split_once("\n(").unwrap();
        let left_out: usize =
            left_out.split_once(" lines left out").unwrap().0.replace(',', "").parse().unwrap();
        // A part of the cut line is kept, so the sum may be off by one.
        let kept = text.lines().filter(|line| line.starts_with("line ")).count();
        assert!((99_999..=100_001).contains(&(kept + left_out)), "{kept} and {left_out}");
        let mut short = CommandOutput::bounded();
        writeln!(short, "one").unwrap();
        assert_eq!(short.text(), "one\n");
    }
}

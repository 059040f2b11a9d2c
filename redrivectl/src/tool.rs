//! Runs further commands of the tool itself.

use std::io::{self, Cursor, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_config::SdkConfig;
use clap::Parser;
use futures_util::future::LocalBoxFuture;
use indicatif::ProgressDrawTarget;
use serde_json::Value;

use crate::args::{self, Cli};
use crate::console::{Console, Failed, Finished, WriteFailure};
use crate::silence::SilentServers;
use crate::stack::Stack;
use crate::text::count;
use sns_redrive::clock::Clock;

/// Executes the command of a command line. Code that runs further commands gets this function, so that no
/// command depends on the others.
pub(crate) type CarryOut =
    for<'a> fn(&'a Cli, &'a mut Console) -> LocalBoxFuture<'a, Result<Finished, Failed>>;

/// The commands, with the connection and the stack of the command that runs them.
#[derive(Clone)]
pub(crate) struct Tool {
    carry_out: CarryOut,
    /// The connection options for each command.
    options: Vec<String>,
    clock: Clock,
    variable: fn(&str) -> Option<String>,
    config: Option<SdkConfig>,
    stack: Stack,
    silent: SilentServers,
    /// Becomes true at an interrupt.
    stop: Arc<AtomicBool>,
}

/// A command with its input and output.
pub(crate) struct Line<'a> {
    /// The words after the tool's name, without the connection.
    pub(crate) words: &'a [&'a str],
    /// The text that `-` reads.
    pub(crate) input: &'a str,
    /// The output for results.
    pub(crate) out: Printed,
    /// The output for problems and for progress in lines.
    pub(crate) err: Printed,
}

/// The number of bytes that a bounded text keeps of its beginning, and of its end.
const KEPT: usize = 64 << 10;

/// The text that a command has printed so far.
#[derive(Clone, Default)]
pub(crate) struct Printed(Arc<Mutex<Text>>);

#[derive(Default)]
struct Text {
    bounded: bool,
    /// The whole text, or the beginning of a bounded one.
    head: Vec<u8>,
    /// The end of a bounded text.
    tail: Vec<u8>,
    /// The number of dropped lines between the two.
    left_out: usize,
}

impl Tool {
    pub(crate) fn new(carry_out: CarryOut, connection: &args::Connection, console: &Console) -> Self {
        let args::Connection { stack, endpoint_url, profile, region } = connection;
        let options = [
            ("--stack", stack.as_deref().or(console.stack.name())),
            ("--endpoint-url", endpoint_url.as_deref()),
            ("--profile", profile.as_deref()),
            ("--region", region.as_deref()),
        ];
        let options = options.iter().filter_map(|(name, value)| Some([*name, (*value)?])).flatten();
        Self {
            carry_out,
            options: options.map(str::to_owned).collect(),
            clock: console.clock.clone(),
            variable: console.variable,
            config: console.config.clone(),
            stack: console.stack.clone(),
            silent: console.silent.clone(),
            stop: Arc::default(),
        }
    }

    /// Returns the same commands, stopped by another flag.
    pub(crate) fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), ..self.clone() }
    }

    /// Runs a command, and returns its output, one JSON value for each line.
    ///
    /// # Errors
    ///
    /// It failed, or did not finish.
    pub(crate) async fn run(&self, words: &[&str]) -> Result<Vec<Value>, Failed> {
        let (finished, said, err) = self.finish(words).await?;
        match finished {
            Finished::Whole => Ok(said),
            Finished::Stopped if self.stop.load(Ordering::Relaxed) => {
                Err(Failed::Stopped("interrupted".to_owned()))
            }
            Finished::Stopped | Finished::Partly | Finished::LeftOut | Finished::Unseen => {
                let because = said.iter().find_map(|said| said["because"].as_str()).unwrap_or(err.trim());
                Err(Failed::Work(format!("redrivectl {} finished only in part: {because}", words[0])))
            }
        }
    }

    /// Runs a command, and returns how it ended, its output and its problems.
    pub(crate) async fn finish(&self, words: &[&str]) -> Result<(Finished, Vec<Value>, String), Failed> {
        let (out, err) = (Printed::default(), Printed::default());
        let words = [&["--json"], words].concat();
        let finished =
            self.print(Line { words: &words, input: "", out: out.clone(), err: err.clone() }).await?;
        let said = out.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok((finished, said, err.text()))
    }

    /// Runs a command, which prints as it goes, and returns how it ended.
    pub(crate) async fn print(&self, line: Line<'_>) -> Result<Finished, Failed> {
        let words = line.words.iter().copied().chain(self.options.iter().map(String::as_str));
        let cli = Cli::try_parse_from(["redrivectl"].into_iter().chain(words));
        let cli = cli.map_err(|error| Failed::Input(vec![error.to_string()]))?;
        let mut console = self.console(&line);
        (self.carry_out)(&cli, &mut console).await
    }

    /// Returns a console that answers no questions.
    fn console(&self, line: &Line<'_>) -> Console {
        let stop = Arc::clone(&self.stop);
        Console {
            out: Box::new(line.out.clone()),
            unwritten: WriteFailure::default(),
            err: Box::new(line.err.clone()),
            progress: false,
            lines: true,
            draws: Box::new(ProgressDrawTarget::hidden),
            input: Box::new(Cursor::new(line.input.as_bytes().to_vec())),
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

impl Printed {
    /// Returns a text that keeps only its beginning and its end. A replay may print a line for each of
    /// millions of letters, too much for a page.
    pub(crate) fn bounded() -> Self {
        Self(Arc::new(Mutex::new(Text { bounded: true, ..Text::default() })))
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

impl Text {
    fn push(&mut self, bytes: &[u8]) {
        if !self.bounded {
            return self.head.extend_from_slice(bytes);
        }
        let (head, tail) = bytes.split_at(KEPT.saturating_sub(self.head.len()).min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(tail);
        if self.tail.len() > 2 * KEPT {
            // The kept tail begins with a whole line.
            let from = self.tail.len() - KEPT;
            let line =
                self.tail[from..].iter().position(|byte| *byte == b'\n').map_or(from, |at| from + at + 1);
            self.left_out += self.tail.drain(..line).filter(|byte| *byte == b'\n').count().max(1);
        }
    }
}

impl Write for Printed {
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
        let (mut whole, mut bounded) = (Printed::default(), Printed::bounded());
        for number in 0..100_000 {
            for printed in [&mut whole, &mut bounded] {
                writeln!(printed, "line {number}").unwrap();
            }
        }
        assert_eq!(whole.text().lines().count(), 100_000);
        let text = bounded.text();
        assert!(text.starts_with("line 0\n") && text.ends_with("\nline 99999\n"));
        assert!(text.len() < 4 * KEPT, "{}", text.len());
        let (_, left_out) = text.split_once("\n(").unwrap();
        let left_out: usize =
            left_out.split_once(" lines left out").unwrap().0.replace(',', "").parse().unwrap();
        // A part of the cut line is kept, so the sum may be off by one.
        let kept = text.lines().filter(|line| line.starts_with("line ")).count();
        assert!((99_999..=100_001).contains(&(kept + left_out)), "{kept} and {left_out}");
        let mut short = Printed::bounded();
        writeln!(short, "one").unwrap();
        assert_eq!(short.text(), "one\n");
    }
}

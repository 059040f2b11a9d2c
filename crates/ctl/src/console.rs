//! The environment of a command: its output, its input and its end.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_config::SdkConfig;
use indicatif::ProgressDrawTarget;
use jiff::{SignedDuration, Timestamp};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use tokio::time::sleep;

pub(crate) use crate::command_end::CommandEnd;
pub(crate) use crate::command_failure::CommandFailure;
use crate::output::CommandResult;
pub use crate::output::WriteFailure;
use redrive_aws::clock::InstanceClock;
use redrive_core::policy::{Overrides, Policy, after_mark};

use crate::silent_servers::SilentServers;
use crate::stack_outputs::StackOptions;
use crate::tables::{TextStyle, brief};

/// The difference between this machine's clock and a server's above which the tool warns.
const WRONG_CLOCK: SignedDuration = SignedDuration::from_mins(1);

/// How often a read checks for an interrupt.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// The longest answer that is read. A list of roles may be long.
const MAX_ANSWER_BYTES: usize = 4_096;

/// The file in which Linux lists the signals that a process ignores.
/// <https://man7.org/linux/man-pages/man5/proc_pid_status.5.html>
const STATUS: &str = "/proc/self/status";

/// The environment of the tool: streams, clock and variables.
pub struct ToolEnvironment {
    /// The stream for results.
    pub out: Box<dyn Write + Send>,
    /// True if that stream is a terminal, which may show colours.
    pub terminal: bool,
    /// How results are written as text. The command line says so before the command runs.
    pub style: TextStyle,
    /// The first error of that stream.
    pub unwritten: WriteFailure,
    /// The stream for problems and progress.
    pub err: Box<dyn Write + Send>,
    /// True if a progress bar is shown on that stream, for a person.
    pub progress: bool,
    /// True if progress is printed there in lines, for a log.
    pub lines: bool,
    /// Returns a target for a progress bar on the same terminal.
    pub draws: Box<dyn Fn() -> ProgressDrawTarget>,
    /// The input that `-` reads.
    pub input: Box<dyn Read>,
    /// The time.
    pub clock: InstanceClock,
    /// Environment variables.
    pub variable: fn(&str) -> Option<String>,
    /// True if a person can answer questions.
    pub answers: bool,
    /// The SDK's configuration, if the command line's is not to be used.
    pub config: Option<SdkConfig>,
    /// The stack that the command line names. It is read before the command runs.
    pub stack: StackOptions,
    /// The servers that do not answer.
    pub silent: SilentServers,
    /// Begins to watch for Ctrl-C, which sets the flag. Only work that can stop cleanly calls it.
    pub interrupts: Box<dyn Fn() -> std::io::Result<Arc<AtomicBool>>>,
}

impl ToolEnvironment {
    /// Returns the environment of the process itself.
    #[must_use]
    pub fn system() -> Self {
        Self {
            out: Box::new(std::io::stdout()),
            terminal: std::io::stdout().is_terminal(),
            style: TextStyle::default(),
            unwritten: WriteFailure::default(),
            err: Box::new(std::io::stderr()),
            progress: std::io::stderr().is_terminal(),
            lines: !std::io::stderr().is_terminal(),
            draws: Box::new(ProgressDrawTarget::stderr),
            input: Box::new(std::io::stdin()),
            clock: InstanceClock::system(),
            variable: |name| std::env::var(name).ok(),
            answers: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            config: None,
            stack: StackOptions::default(),
            silent: SilentServers::default(),
            interrupts: Box::new(interrupts_of_process),
        }
    }

    /// Sets how results are written. Scripts and people who set `NO_COLOR` get no colours.
    /// <https://no-color.org>
    pub(crate) fn write_as(&mut self, wide: bool, as_json: bool) {
        let is_refused = (self.variable)("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.style = TextStyle { wide, colours: self.terminal && !as_json && !is_refused };
    }

    /// Prints the result of a command, and returns how the command ended.
    pub(crate) fn print(
        &mut self,
        result: &impl CommandResult,
        as_json: bool,
    ) -> Result<CommandEnd, CommandFailure> {
        if as_json {
            writeln!(self.out, "{}", result.json())?;
        } else {
            write!(self.out, "{}", result.text(self.style))?;
        }
        Ok(result.finished())
    }

    /// Sets the clock by a server's `Date` header that has just arrived. Warns if this machine's clock is
    /// wrong.
    pub(crate) fn go_by(&mut self, date: Timestamp) -> std::io::Result<()> {
        let now = self.clock.now();
        // A `Date` has whole seconds.
        let end_of_second = date.saturating_add(SignedDuration::from_millis(999)).unwrap_or(date);
        let ahead = now.duration_since(now.clamp(date, end_of_second));
        let machine = self.clock.clone();
        self.clock = InstanceClock::from_fn(move || {
            let now = machine.now();
            now.saturating_sub(ahead).unwrap_or(now)
        });
        if ahead.abs() > WRONG_CLOCK {
            let side = if ahead.is_positive() { "ahead of" } else { "behind" };
            let seconds = ahead.unsigned_abs().as_secs();
            writeln!(
                self.err,
                "redrivectl: this machine's clock is {} {side} the clock of S3; times below are those of S3",
                brief(seconds)
            )?;
        }
        Ok(())
    }

    /// Asks whether to continue. Only `y` and `yes` mean yes.
    ///
    /// # Errors
    ///
    /// The results could not be written, so nobody has seen what the question is about.
    pub(crate) fn confirms(&mut self, question: &str) -> Result<bool, CommandFailure> {
        let answer = self.answer(&format!("{question} [y/N] "))?;
        Ok(matches!(answer.as_str(), "y" | "yes"))
    }

    /// Asks, and returns the answer in small letters.
    ///
    /// # Errors
    ///
    /// The results could not be written, so nobody has seen what the question is about.
    pub(crate) fn answer(&mut self, question: &str) -> Result<String, CommandFailure> {
        Ok(self.answer_as_typed(question)?.to_ascii_lowercase())
    }

    /// Asks, and returns the answer as it was typed.
    ///
    /// # Errors
    ///
    /// The results could not be written, so nobody has seen what the question is about.
    pub(crate) fn answer_as_typed(&mut self, question: &str) -> Result<String, CommandFailure> {
        if let Err(failed) = self.unwritten.check() {
            let why = format!("{failed}, so nobody has seen what would be done: nothing was done");
            return Err(CommandFailure::Input(vec![why]));
        }
        write!(self.err, "{question}")?;
        self.err.flush()?;
        let mut answer = Vec::new();
        let mut byte = [0];
        // Byte by byte, so that nothing after the line is read.
        while answer.len() < MAX_ANSWER_BYTES && self.input.read(&mut byte)? == 1 && byte[0] != b'\n' {
            answer.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(answer.trim_ascii()).into_owned())
    }

    /// Checks that a person can answer a question, unless `--yes` is given.
    ///
    /// # Errors
    ///
    /// Nobody can answer. Nothing was done.
    pub(crate) fn can_confirm(&self, yes: bool) -> Result<(), CommandFailure> {
        if yes || self.answers {
            return Ok(());
        }
        let why = "there is no terminal for a question: give --yes to continue without one";
        Err(CommandFailure::Input(vec![why.to_owned()]))
    }

    /// Asks whether to continue, unless `--yes` is given.
    ///
    /// # Errors
    ///
    /// The answer is no, or nobody can be asked: nothing was done.
    pub(crate) fn confirm(&mut self, yes: bool, question: &str) -> Result<(), CommandFailure> {
        self.can_confirm(yes)?;
        if yes || self.confirms(question)? { Ok(()) } else { Err(not_confirmed()) }
    }
}

/// Returns the error for a question that was answered with no.
pub(crate) fn not_confirmed() -> CommandFailure {
    CommandFailure::Input(vec!["not confirmed: nothing was done".to_owned()])
}

/// Returns an error after an interrupt. It is called just before something is written.
pub(crate) fn check_interrupt(stop: &AtomicBool) -> Result<(), CommandFailure> {
    if stop.load(Ordering::Relaxed) {
        return Err(CommandFailure::Stopped("interrupted; nothing was written".to_owned()));
    }
    Ok(())
}

/// Runs work that only reads, until it is interrupted. Without a flag, Ctrl-C ends the process.
pub(crate) async fn unless_interrupted<T>(
    stop: Option<&Arc<AtomicBool>>,
    reads: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    let Some(stop) = stop else { return reads.await };
    let interrupted = async {
        loop {
            check_interrupt(stop)?;
            sleep(INTERRUPT_INTERVAL).await;
        }
    };
    tokio::select! {
        read = reads => read,
        interrupted = interrupted => interrupted,
    }
}

/// Sets the flag at the first Ctrl-C, at the first SIGTERM, and when the terminal is closed. A second Ctrl-C
/// or SIGTERM ends the process at once.
fn interrupts_of_process() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    // The kernel and the shell both report a closed terminal, so a second signal does not mean that the user
    // is impatient. If it is unknown whether the process should outlive its terminal, the signal keeps its
    // default.
    if std::fs::read_to_string(STATUS).is_ok_and(|status| !ignores_hangup(&status)) {
        register(SIGHUP, Arc::clone(&flag))?;
    }
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first handler must see the flag as the previous signal left it.
        register_conditional_shutdown(signal, 1, Arc::clone(&flag))?;
        register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Reports whether the process was started to outlive its terminal, as by nohup.
fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is signal 1, the lowest bit of the mask.
    ignored.is_some_and(|mask| mask & 1 == 1)
}

/// Returns the policy of a file, or the built-in one without a file.
pub(crate) fn read_policy(
    file: Option<&Path>,
    console: &mut ToolEnvironment,
) -> Result<Policy, CommandFailure> {
    let Some(file) = file else { return Ok(Policy::built_in()) };
    read_policy_text(file, console).map(|(policy, _)| policy)
}

/// Returns the policy of a file, with its text.
pub(crate) fn read_policy_text(
    file: &Path,
    console: &mut ToolEnvironment,
) -> Result<(Policy, String), CommandFailure> {
    let json = read_file(file, console)?;
    let policy = Policy::parse(&json).map_err(|bad| {
        let place = |fault| format!("{}: {fault}", file.display());
        CommandFailure::Input(bad.0.iter().map(place).collect())
    })?;
    Ok((policy, json))
}

/// Returns the overrides of a file, or no overrides without a file.
pub(crate) fn read_overrides(
    file: Option<&Path>,
    console: &mut ToolEnvironment,
) -> Result<Overrides, CommandFailure> {
    let Some(file) = file else { return Ok(Overrides::default()) };
    let json = read_file(file, console)?;
    Overrides::parse(json.as_bytes()).map_err(|bad| {
        let place = |fault| format!("{}: {fault}", file.display());
        CommandFailure::Input(bad.0.iter().map(place).collect())
    })
}

/// Returns the text of a file; `-` is standard input.
pub(crate) fn read_file(file: &Path, console: &mut ToolEnvironment) -> Result<String, CommandFailure> {
    let read = if file == Path::new("-") {
        let mut text = String::new();
        console.input.read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = read
        .map_err(|error| CommandFailure::Input(vec![format!("cannot read {}: {error}", file.display())]))?;
    Ok(after_mark(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use signal_hook::low_level::raise;

    use super::*;

    #[test]
    fn a_terminal_that_is_closed_interrupts_and_kills_nobody() {
        // The tests themselves may be run by nohup, or on another system.
        let Ok(status) = std::fs::read_to_string(STATUS) else { return };
        let is_heard = !ignores_hangup(&status);
        let flag = interrupts_of_process().unwrap();
        assert!(!flag.load(Ordering::Relaxed));
        for _ in 0..2 {
            raise(SIGHUP).unwrap();
            assert_eq!(flag.load(Ordering::Relaxed), is_heard);
        }
    }

    #[test]
    fn nohup_is_obeyed() {
        assert!(ignores_hangup("Name:\tredrivectl\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n"));
        assert!(!ignores_hangup(""));
    }
}

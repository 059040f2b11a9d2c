//! One run of the operator's tool, with its own door to the account.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::loss::door::{ProcessServer, log_to};
use crate::{ProcessKiller, SandboxEnd};

/// The interval between looks for the end of the process.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(25);

/// One run of the tool. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct ToolProcess(pub(super) ProcessServer);

impl ToolProcess {
    /// Runs the tool; returns how it ended, with its exit code. Its answer is the JSON that it writes, also
    /// if letters were left out (3) or it stopped (4). With `is_killed` it is killed as it starts.
    pub(super) fn run(
        &self,
        binary: &Path,
        arguments: &[&str],
        variables: &[(String, String)],
        log: Option<&Path>,
        time: Duration,
        is_killed: bool,
    ) -> (SandboxEnd, Option<i32>) {
        let mut command = Command::new(binary);
        command
            .args(arguments)
            .env_clear()
            .env("AWS_REGION", "eu-central-1")
            .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_to(log));
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        let out = child.stdout.take();
        let began = Instant::now();
        let killer = self.0.killer.get_or_init(|| ProcessKiller::of(child));
        if is_killed {
            killer.kill();
        }
        // The tool writes less than a pipe holds.
        let status = loop {
            match killer.status() {
                Some(status) => break status,
                None if began.elapsed() > time => return (SandboxEnd::TimedOut, None),
                None => std::thread::sleep(EXIT_POLL_INTERVAL),
            }
        };
        let mut text = String::new();
        if let Some(mut out) = out {
            let _ = out.read_to_string(&mut text);
        }
        let ended = match status.code() {
            None => SandboxEnd::Died,
            Some(0 | 3 | 4) => SandboxEnd::Answer(text, began.elapsed()),
            Some(code) => SandboxEnd::Error(format!("{code}: {text}")),
        };
        (ended, status.code())
    }
}

impl Drop for ToolProcess {
    fn drop(&mut self) {
        // This ends the process as well; its open requests have no effect.
        self.0.caller.cut();
    }
}

//! One run of the operator's tool, with its own door to the account.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::loss::door::{Door, log_to};
use crate::{Ended, Killer};

/// How often the end of the process is looked for.
const LOOK: Duration = Duration::from_millis(25);

/// One run of the tool. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Tool(pub(super) Door);

impl Tool {
    /// Runs it, and returns how it ended, with its exit code. What it writes as JSON is its answer, also where letters were
    /// left out (3) or it stopped (4). With `is_killed` it is killed as it starts.
    pub(super) fn run(
        &self,
        binary: &Path,
        arguments: &[&str],
        variables: &[(String, String)],
        log: Option<&Path>,
        time: Duration,
        is_killed: bool,
    ) -> (Ended, Option<i32>) {
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
        let killer = self.0.killer.get_or_init(|| Killer::of(child));
        if is_killed {
            killer.kill();
        }
        // It writes less than a pipe holds.
        let status = loop {
            match killer.status() {
                Some(status) => break status,
                None if began.elapsed() > time => return (Ended::TimedOut, None),
                None => std::thread::sleep(LOOK),
            }
        };
        let mut text = String::new();
        if let Some(mut out) = out {
            let _ = out.read_to_string(&mut text);
        }
        let ended = match status.code() {
            None => Ended::Died,
            Some(0 | 3 | 4) => Ended::Answer(text, began.elapsed()),
            Some(code) => Ended::Error(format!("{code}: {text}")),
        };
        (ended, status.code())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // Ends the process as well, and nothing that it still asks for has an effect.
        self.0.caller.cut();
    }
}

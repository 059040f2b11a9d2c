//! The operator's tool as its user sees it: a command line in; text, JSON and an exit code out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod archive;
mod attach;
mod console_commands;
mod credentials;
mod doctor;
mod drill;
mod erase;
mod examples;
mod explain;
mod fleet;
mod help;
mod install;
mod look;
mod machine;
mod overrides;
mod pipes;
mod plan;
mod records;
mod replay;
mod serve;
mod stack;
mod status;
mod successors;
mod tables;
mod waiting;
mod words;

use std::io::{Cursor, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use indicatif::{InMemoryTerm, ProgressDrawTarget, TermLike};
use redrive_aws::clock::InstanceClock;
use redrive_ctl::{SilentServers, StackOptions, TextStyle, ToolEnvironment, WriteFailure, run};
use redrive_support::TestAccount;
use serde_json::Value;

/// The result of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandRun {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandRun {
    /// Returns the one JSON value that was written.
    pub(crate) fn json(&self) -> Value {
        assert_eq!((self.code, self.err.as_str()), (0, ""));
        serde_json::from_str(&self.out).unwrap()
    }

    /// Returns the text of a command that succeeded.
    pub(crate) fn text(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""));
        self.out
    }
}

/// The environment of a command.
#[derive(Default)]
pub(crate) struct CommandWorld {
    pub(crate) input: Vec<u8>,
    pub(crate) config: Option<SdkConfig>,
    /// Milliseconds since [`redrive_support::NOW`].
    pub(crate) later: i64,
    /// True if the clock advances with tokio's.
    pub(crate) ticks: bool,
    /// True if a person sees progress.
    pub(crate) progress: bool,
    /// True if results go to a terminal.
    pub(crate) is_terminal: bool,
    /// True if progress is printed in lines.
    pub(crate) lines: bool,
    /// The terminal with progress and problems.
    pub(crate) terminal: Option<InMemoryTerm>,
    /// True if results and problems share one screen: then both are in [`CommandRun::out`].
    pub(crate) one_screen: bool,
    /// True if the input answers questions.
    pub(crate) answers: bool,
    /// The milliseconds before the input comes.
    pub(crate) thinks: i64,
    /// The number of lines that the reader takes before it goes away, like `head`.
    pub(crate) read_until: Option<usize>,
    /// Becomes true with Ctrl-C.
    pub(crate) interrupted: Arc<AtomicBool>,
    /// The results. A test can look at them while the tool runs.
    pub(crate) printed: CapturedOutput,
    /// The milliseconds by which the clock jumps while the tool runs.
    pub(crate) skipped: Arc<AtomicI64>,
    /// The environment; without it there are no variables.
    pub(crate) variable: Option<fn(&str) -> Option<String>>,
}

impl CommandWorld {
    /// Returns a world on this account, in which every call is made once.
    pub(crate) fn on(cloud: &TestAccount) -> Self {
        Self { config: Some(cloud.config(RetryConfig::disabled())), ..Self::default() }
    }
}

/// Runs a command line, without the name of the program, at [`redrive_support::NOW`].
pub(crate) async fn redrivectl(args: &[&str]) -> CommandRun {
    redrivectl_in(CommandWorld::default(), args).await
}

pub(crate) async fn redrivectl_in(world: CommandWorld, args: &[&str]) -> CommandRun {
    let out = world.printed.clone();
    let err = if world.one_screen { out.clone() } else { CapturedOutput::default() };
    let begun = tokio::time::Instant::now();
    let thought = Arc::new(AtomicI64::new(0));
    let watches = Arc::new(AtomicBool::new(false));
    let terminal = world.terminal.clone();
    let input = DelayedInput {
        input: Cursor::new(world.input),
        thinks: world.thinks,
        thought: Arc::clone(&thought),
        watches: Arc::clone(&watches),
    };
    let console = ToolEnvironment {
        out: match world.read_until {
            Some(lines) => Box::new(ClosingPipe { page: out.clone(), lines }),
            None => Box::new(out.clone()),
        },
        terminal: world.is_terminal,
        style: TextStyle::default(),
        unwritten: WriteFailure::default(),
        err: match &terminal {
            Some(terminal) => Box::new(TerminalWriter(terminal.clone())),
            None => Box::new(err.clone()),
        },
        progress: world.progress || terminal.is_some(),
        lines: world.lines,
        draws: Box::new(move || match &terminal {
            Some(terminal) => ProgressDrawTarget::term_like(Box::new(terminal.clone())),
            None => ProgressDrawTarget::hidden(),
        }),
        input: Box::new(input),
        clock: InstanceClock::from_fn(move || {
            let passed = if world.ticks { begun.elapsed().as_millis() } else { 0 };
            let thought = thought.load(Ordering::Relaxed);
            let moved = world.later + thought + world.skipped.load(Ordering::Relaxed);
            redrive_support::at(redrive_support::NOW + moved + i64::try_from(passed).unwrap())
        }),
        variable: world.variable.unwrap_or(|_| None),
        answers: world.answers,
        config: world.config,
        stack: StackOptions::default(),
        silent: SilentServers::default(),
        interrupts: Box::new(move || {
            watches.store(true, Ordering::Relaxed);
            Ok(Arc::clone(&world.interrupted))
        }),
    };
    let args = std::iter::once("redrivectl").chain(args.iter().copied());
    let code = run(args.map(Into::into), console).await;
    CommandRun { code, out: out.text(), err: if world.one_screen { String::new() } else { err.text() } }
}

/// An input that comes after some time.
struct DelayedInput {
    input: Cursor<Vec<u8>>,
    thinks: i64,
    thought: Arc<AtomicI64>,
    /// True if the tool itself watches for Ctrl-C.
    watches: Arc<AtomicBool>,
}

impl Read for DelayedInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        assert!(!self.watches.load(Ordering::Relaxed), "Ctrl-C must end a tool that asks");
        self.thought.store(self.thinks, Ordering::Relaxed);
        self.input.read(buffer)
    }
}

/// The output of the tool.
#[derive(Clone, Default)]
pub(crate) struct CapturedOutput(Arc<Mutex<Vec<u8>>>);

impl CapturedOutput {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for CapturedOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A stream whose reader goes away after a number of lines.
struct ClosingPipe {
    page: CapturedOutput,
    lines: usize,
}

impl Write for ClosingPipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.lines == 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.lines = self.lines.saturating_sub(bytes.split(|byte| *byte == b'\n').count() - 1);
        self.page.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes to a terminal.
struct TerminalWriter(InMemoryTerm);

impl Write for TerminalWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // A terminal's driver does this too.
        self.0.write_str(&String::from_utf8_lossy(bytes).replace('\n', "\r\n"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A file with this text. Dropping it deletes it.
pub(crate) struct TextFile(PathBuf);

impl TextFile {
    /// Creates the file. Tests that run at once may use the same name.
    pub(crate) fn of(name: &str, text: &str) -> Self {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("redrivectl-{}-{number}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn read(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for TextFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_wrong_command_line_is_bad_usage() {
    let ran = redrivectl(&["plan", "--retenshun", "3d"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("--retention"), "{}", ran.err);
    assert_eq!(redrivectl(&[]).await.code, 2);
}

#[tokio::test]
async fn files_that_are_missing_or_bad_are_bad_input() {
    let ran = redrivectl(&["plan", "/nowhere/policy.json"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.starts_with("redrivectl: cannot read /nowhere/policy.json: "), "{}", ran.err);

    let file = TextFile::of("faults.json", r#"{"default": {"jitter": 2, "target": "moon"}, "rulse": []}"#);
    let ran = redrivectl(&["plan", file.path()]).await;
    assert_eq!(ran.code, 2);
    assert_eq!(ran.err.lines().count(), 3, "every fault has its line: {}", ran.err);
    assert!(ran.err.contains("default.jitter: must be a number from 0 to 1, not 2"), "{}", ran.err);

    let event = TextFile::of("event.json", r#"{"Records": [{"body": "S3CR3T"}]}"#);
    let ran = redrivectl(&["explain", event.path()]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.contains("no record names its queue: Records[0].eventSourceARN is missing"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("S3CR3T"));
}

/// Returns the manual of the tool.
pub(crate) fn manual() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/redrivectl.md"))
        .unwrap()
}

/// Returns whether a block of the manual shows a text. A line `...` in the block stands for lines that are left out.
pub(crate) fn shows(manual: &str, printed: &str) -> bool {
    let blocks = manual.split("```text\n").skip(1).filter_map(|rest| rest.split_once("```\n"));
    blocks.map(|(block, _)| block).any(|block| is_excerpt(block, printed))
}

fn is_excerpt(block: &str, printed: &str) -> bool {
    let parts: Vec<_> = block.split("\n...\n").collect();
    let [first, between @ .., last] = parts.as_slice() else { return block == printed };
    let Some(mut rest) = printed.strip_prefix(&format!("{first}\n")) else { return false };
    for part in between {
        let Some((_, behind)) = rest.split_once(&format!("{part}\n")) else { return false };
        rest = behind;
    }
    !last.is_empty() && rest.ends_with(last)
}

#[test]
fn an_excerpt_leaves_out_lines_only_where_it_says_so() {
    let printed = "one\ntwo\nthree\nfour\nfive\n";
    for block in [printed, "one\n...\nfive\n", "one\ntwo\n...\nfive\n", "one\n...\nthree\n...\nfive\n"] {
        assert!(is_excerpt(block, printed), "{block}");
    }
    for block in
        ["", "one\n", "one\nfive\n", "two\n...\nfive\n", "one\n...\nfour\n", "one\n...\nsix\n...\nfive\n"]
    {
        assert!(!is_excerpt(block, printed), "{block}");
    }
}

#[tokio::test]
async fn the_manual_shows_what_the_tool_prints() {
    let manual = manual();
    let late = concat!(env!("CARGO_MANIFEST_DIR"), "/../../events/late-retry.json");
    for args in [&["plan", "--at", "2026-11-01T12:00:00Z"][..], &["explain", late]] {
        let printed = redrivectl(args).await.text();
        assert!(shows(&manual, &printed), "{args:?} prints:\n{printed}");
    }
    let chart = TextFile::of("manual.svg", "");
    redrivectl(&["plan", "--svg", chart.path()]).await.text();
    let shown = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/built-in-policy.svg"
    ));
    assert_eq!(shown.unwrap(), chart.read());
}

/// Runs the built program with only these environment variables.
fn program(args: &[&str], variables: &[(&str, &str)]) -> std::process::Output {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_redrivectl"));
    program.args(args).env_clear().env("HOME", "/nowhere").env("AWS_EC2_METADATA_DISABLED", "true");
    program.envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn the_program_ends_with_the_exit_code_of_its_command() {
    let plan = program(&["plan", "--json"], &[]);
    assert_eq!((plan.status.code(), plan.stderr.len()), (Some(0), 0));
    assert_eq!(serde_json::from_slice::<Value>(&plan.stdout).unwrap()["rules"][0]["name"], "default");
    assert_eq!(program(&["plan", "/nowhere"], &[]).status.code(), Some(2));
}

#[test]
fn without_region_or_credentials_it_says_so_before_it_calls() {
    let list = ["archive", "list", "--archive", "s3://my-bucket"];
    let said = |variables: &[(&str, &str)], args: &[&str]| {
        let ran = program(&[&list, args].concat(), variables);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0));
        String::from_utf8(ran.stderr).unwrap()
    };
    for (variables, args) in [
        (&[][..], &[][..]),
        (&[("AWS_REGION", ""), ("AWS_DEFAULT_REGION", " ")], &[]),
        (&[("AWS_REGION", "eu-central-1")], &["--region", ""]),
    ] {
        assert_eq!(
            said(variables, args),
            "redrivectl: no region is set: give --region, set AWS_REGION, or use a profile with a region\n"
        );
    }
    let second = said(&[("AWS_REGION", ""), ("AWS_DEFAULT_REGION", "eu-central-1")], &[]);
    assert!(second.starts_with("redrivectl: no credentials: "), "{second}");
    assert!(said(&[], &["--region", "eu-central-1"]).starts_with("redrivectl: no credentials: "));
    let nobody = said(&[("AWS_REGION", "eu-central-1")], &["--profile", "nobody"]);
    assert!(nobody.starts_with("redrivectl: no credentials of profile nobody: "), "{nobody}");
    let logins =
        ["aws sso login, or aws login\n", "aws sso login --profile nobody, or aws login --profile nobody\n"];
    for (said, logins) in [&second, &nobody].into_iter().zip(logins) {
        assert!(said.ends_with(&format!("if your session has expired, sign in again: {logins}")), "{said}");
    }
}

//! One process of the function, with the runtime API that gives it work.
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>

use std::fs::read_to_string;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use redrive_sim::{Caller, SimAws, SimCall, SimClock, SocketServer, WebAnswer};

/// The name of the runtime API as a web server.
const API: &str = "runtime";

const NEXT: &str = "/2018-06-01/runtime/invocation/next";
const INVOCATION: &str = "/2018-06-01/runtime/invocation/";

/// The trace of every invocation. No request of the function may carry it.
pub const TRACE: &str = "Root=1-6a1b2c3d-0123456789abcdef01234567;Sampled=1;Lineage=1:fc3b4ff1:15";

/// The number of invocations so far.
static INVOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The number of SIGABRT.
const ABORT: i32 = 6;

/// The exit code of a panic where it does not abort the process, as in builds for tests.
const PANICKED: i32 = 101;

/// The longest that a panic may take to end the process; after that the process is killed.
const MAX_PANIC_TIME: Duration = Duration::from_secs(5);

/// The interval between looks for the end of a process.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(25);

/// One process of the function. Dropping it kills the process.
#[derive(Debug)]
pub struct Sandbox {
    process: ProcessKiller,
    id: u32,
    started: Instant,
    shared: Arc<SandboxMonitor>,
    network: SimAws,
    _server: SocketServer,
}

/// A handle that ends the process of a sandbox, from any thread.
#[derive(Debug, Clone)]
pub struct ProcessKiller {
    process: Arc<Mutex<Child>>,
    panics: bool,
}

/// The end of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxEnd {
    /// The function answered so, this long after the event was handed over.
    Answer(String, Duration),
    /// The function reported this error.
    Error(String),
    /// The process ended.
    Died,
    /// The function did not answer in time.
    TimedOut,
}

#[derive(Debug, Default)]
struct SandboxMonitor {
    state: Mutex<SandboxState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SandboxState {
    /// The time when the function first asked for work.
    ready: Option<Instant>,
    waiting: Option<SandboxEvent>,
    /// The number of the invocation. It is unique across all sandboxes, because archives name objects by the
    /// request id.
    invocation: usize,
    began: Option<Instant>,
    ended: Option<SandboxEnd>,
    /// The error that the function reported before it could work.
    broken: Option<String>,
    closed: bool,
}

#[derive(Debug)]
struct SandboxEvent {
    body: String,
    deadline_ms: u128,
}

impl Sandbox {
    /// Starts a binary with these variables and no others. Its log goes to `log`.
    #[must_use]
    pub fn start(binary: &Path, variables: &[(String, String)], log: Stdio) -> Self {
        Self::start_by(Command::new(binary), variables, log, SimClock::real())
    }

    /// Starts a binary whose end will be a panic: killing it makes it panic in whatever it does then. Its wall clock is
    /// ahead of the machine's if `ahead` says so.
    #[must_use]
    pub fn start_to_panic(
        binary: &Path,
        variables: &[(String, String)],
        log: Stdio,
        ahead: Option<(&SimClock, &ClockOffset)>,
    ) -> Self {
        let mut command = Command::new(binary);
        // What a panic says is said often.
        command.stderr(Stdio::null());
        let variables = preloaded(variables, ahead.map(|(_, ahead)| ahead));
        let clock = ahead.map_or_else(SimClock::real, |(clock, _)| clock.clone());
        let mut started = Self::start_by(command, &variables, log, clock);
        started.process.panics = true;
        started
    }

    /// Starts a binary whose wall clock is ahead of the machine's, by as much as the world lets it.
    #[must_use]
    pub fn start_ahead(
        binary: &Path,
        variables: &[(String, String)],
        log: Stdio,
        clock: &SimClock,
        ahead: &ClockOffset,
    ) -> Self {
        let variables = preloaded(variables, Some(ahead));
        Self::start_by(Command::new(binary), &variables, log, clock.clone())
    }

    fn start_by(mut command: Command, variables: &[(String, String)], log: Stdio, clock: SimClock) -> Self {
        let shared = Arc::new(SandboxMonitor::default());
        let network = SimAws::new(clock, 0);
        let api = Arc::clone(&shared);
        network.act("sandbox", |it, _| it.web.serve(API, move |call| api.answer(call)));
        let server = network.listen_web(&Caller::new("function"), API).expect("a port of loopback is free");
        command
            .env_clear()
            .env("AWS_LAMBDA_RUNTIME_API", server.address())
            .env("AWS_LAMBDA_FUNCTION_NAME", "sns-redrive")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/sns-redrive")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "stream")
            .env("AWS_REGION", "eu-central-1")
            .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log);
        let started = Instant::now();
        let process = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (id, process) = (process.id(), ProcessKiller::of(process));
        Self { process, id, started, shared, network, _server: server }
    }

    /// Returns the time from the start of the process until it asked for work.
    pub fn start_time(&mut self, within: Duration) -> Option<Duration> {
        let started = self.started;
        self.wait(within, |state| state.ready).map(|ready| ready.duration_since(started))
    }

    /// Hands an event over and waits for the answer.
    pub fn invoke(&mut self, event: String, time: Duration) -> SandboxEnd {
        // The journal of earlier calls is not needed.
        let _ = self.network.take_journal();
        let now = u128::try_from(self.network.clock().millis()).unwrap_or_default();
        {
            let mut state = self.shared.lock();
            state.ended = None;
            state.began = None;
            state.invocation = INVOCATIONS.fetch_add(1, Ordering::Relaxed) + 1;
            state.waiting = Some(SandboxEvent { body: event, deadline_ms: now + time.as_millis() });
        }
        self.shared.changed.notify_all();
        match self.wait(time, |state| state.ended.take()) {
            Some(ended) => ended,
            None if self.is_dead() => SandboxEnd::Died,
            None => SandboxEnd::TimedOut,
        }
    }

    /// Returns the error that the function reported before it could work.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.shared.lock().broken.clone()
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns a figure of `/proc/<id>/status`, in bytes: `VmHWM` is the most memory so far, `VmRSS` the
    /// memory now.
    #[must_use]
    pub fn memory(&self, figure: &str) -> Option<u64> {
        let status = read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse().ok().map(|kib: u64| kib * 1024)
    }

    /// Returns the processor time that the process has used.
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        let stat = read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // The name may contain anything. After it, user and system time are fields 14 and 15, in hundredths
        // of a second.
        let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let ticks = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// Returns the log if it is a pipe.
    pub fn take_log(&mut self) -> Option<ChildStdout> {
        self.process.child().stdout.take()
    }

    /// Reports whether the process has ended.
    pub fn is_dead(&mut self) -> bool {
        self.process.child().try_wait().is_ok_and(|status| status.is_some())
    }

    /// Reports whether a panic has ended the process.
    #[must_use]
    pub fn has_panicked(&self) -> bool {
        let status = self.process.status();
        status.is_some_and(|status| status.signal() == Some(ABORT) || status.code() == Some(PANICKED))
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops the process, as Lambda does between invocations.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Resumes the process.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        send(signal, self.id);
    }

    /// Returns a handle that can end the process while it works.
    #[must_use]
    pub fn killer(&self) -> ProcessKiller {
        self.process.clone()
    }

    /// Waits until `something` returns a value, the process ends, or the time is over.
    fn wait<T>(&mut self, time: Duration, something: impl Fn(&mut SandboxState) -> Option<T>) -> Option<T> {
        let end = Instant::now() + time;
        loop {
            let mut state = self.shared.lock();
            if let Some(it) = something(&mut state) {
                return Some(it);
            }
            let (state, _) = self
                .shared
                .changed
                .wait_timeout(state, EXIT_POLL_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner);
            drop(state);
            if Instant::now() >= end || self.is_dead() {
                return something(&mut self.shared.lock());
            }
        }
    }
}

impl ProcessKiller {
    /// Creates the handle of a process.
    #[must_use]
    pub(crate) fn of(process: Child) -> Self {
        Self { process: Arc::new(Mutex::new(process)), panics: false }
    }

    /// Returns the exit status of the process, if it has ended.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    /// Ends the process at once, by SIGKILL or a panic of its own, and returns when it is gone.
    pub fn kill(&self) {
        let mut child = self.child();
        let is_there = child.try_wait().is_ok_and(|status| status.is_none());
        if self.panics && is_there {
            send("-USR1", child.id());
            let end = Instant::now() + MAX_PANIC_TIME;
            while child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that says by how many milliseconds the wall clock of processes is ahead of the machine's. No other clock
/// of theirs is, as in a sandbox whose monotonic clock stands still while it is frozen.
#[derive(Debug)]
pub struct ClockOffset(PathBuf);

impl ClockOffset {
    /// Creates the file, with nothing ahead yet.
    #[must_use]
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("redrive-clock-{}-{number}", std::process::id());
        let ahead = Self(std::env::temp_dir().join(name));
        ahead.set(Duration::ZERO);
        ahead
    }

    /// Lets the processes' wall clock be so far ahead.
    pub fn set(&self, time: Duration) {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        std::fs::write(&self.0, millis.to_ne_bytes()).expect("the folder of temporary files takes files");
    }
}

impl Default for ClockOffset {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ClockOffset {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the variables of a process that loads the library of this file, whose wall clock is so far ahead.
fn preloaded(variables: &[(String, String)], ahead: Option<&ClockOffset>) -> Vec<(String, String)> {
    let mut variables = variables.to_vec();
    variables.extend(ahead.map(|ahead| ("PROOF_CLOCK_AHEAD".to_owned(), ahead.0.display().to_string())));
    variables.push(("LD_PRELOAD".to_owned(), library().display().to_string()));
    variables
}

/// Returns the library that makes a process panic on a signal, and its wall clock be ahead. It is compiled when it
/// is first needed.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let library = std::env::current_exe().expect("this program has a path").with_extension("clocks.so");
        let source = library.with_extension("c");
        std::fs::write(&source, include_str!("clocks.c")).expect("the folder of this program takes files");
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
        assert!(compiled.is_ok_and(|status| status.success()), "cc does not compile {}", source.display());
        library
    })
}

/// Sends a signal to a process.
fn send(signal: &str, process: u32) {
    let done = Command::new("kill").args([signal, &process.to_string()]).status();
    assert!(done.is_ok_and(|status| status.success()), "kill {signal} does not work");
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.kill();
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl SandboxMonitor {
    fn lock(&self) -> MutexGuard<'_, SandboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &SimCall) -> WebAnswer {
        let path = request.parameter("path").unwrap_or_default();
        if path == NEXT {
            return self.next();
        }
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let mut state = self.lock();
        let of = path.strip_prefix(INVOCATION).and_then(|rest| rest.split_once('/'));
        match of {
            // The answer to an invocation that has timed out has no effect.
            Some((id, _)) if id != request_id(state.invocation) => {}
            Some((_, "response")) => {
                let took = state.began.map_or(Duration::ZERO, |began| began.elapsed());
                state.ended = Some(SandboxEnd::Answer(body, took));
            }
            Some((_, "error")) => state.ended = Some(SandboxEnd::Error(body)),
            _ => state.broken = Some(body),
        }
        drop(state);
        self.changed.notify_all();
        response(202, String::new())
    }

    /// Waits for the next event.
    fn next(&self) -> WebAnswer {
        let mut state = self.lock();
        state.ready.get_or_insert_with(Instant::now);
        self.changed.notify_all();
        loop {
            if state.closed {
                return response(500, String::new());
            }
            if let Some(event) = state.waiting.take() {
                state.began = Some(Instant::now());
                return response(200, event.body)
                    .with("lambda-runtime-aws-request-id", &request_id(state.invocation))
                    .with("lambda-runtime-deadline-ms", &event.deadline_ms.to_string())
                    .with("lambda-runtime-trace-id", TRACE)
                    .with(
                        "lambda-runtime-invoked-function-arn",
                        "arn:aws:lambda:eu-central-1:123456789012:function:sns-redrive",
                    );
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn response(status: u16, body: String) -> WebAnswer {
    WebAnswer { body, ..WebAnswer::status(status) }
}

fn request_id(invocation: usize) -> String {
    format!("00000000-0000-4000-8000-{invocation:012}")
}

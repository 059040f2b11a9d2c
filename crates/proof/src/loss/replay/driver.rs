//! The drivers of a replay: the work of each, until no replay is running.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redrive_laws::letters::RunId as Invocation;
use redrive_laws::replays::latest;
use serde_json::{Value, json};

use super::tool::ToolProcess;
use super::world::{ReplaySite, ReplayWorld};
use crate::SandboxEnd;
use crate::loss::door::ProcessServer;
use crate::loss::faults::FaultKind;
use crate::loss::mapping::FunctionProcess;

/// The time of an invocation, of which a replay reserves 20 s for stopping.
pub(super) const TIMEOUT: Duration = Duration::from_mins(1);

/// The time of the tool. It waits for a claim that a killed process leaves behind.
const TOOLS_TIMEOUT: Duration = Duration::from_secs(140);

/// The pause before another try. A second keeps the ids of replays apart, because they begin with the second.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// `MaxWorkers` of the state machine. As many units are selected, each of a different queue.
const WORKERS: usize = 3;

/// A little more than the time that a claim holds if it is not renewed.
const CLAIM_EXPIRY: Duration = Duration::from_secs(61);

const MAX_TURN_TRIES: usize = 6;

/// A program that runs a replay to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverKind {
    /// One invocation of the replay function, which does it all.
    Invocation,
    /// The state machine of `operations.yaml`: the replay function's turns, with a round of lanes between.
    Machine,
    /// `redrivectl replay`, in a terminal.
    Tool,
}

/// The request for a replay: as an event, and as options of the tool.
#[derive(Debug, Clone)]
pub(super) struct RequestedReplay {
    pub(super) event: Value,
    pub(super) arguments: String,
}

/// A driver at work.
pub(super) struct RunningDriver<'w> {
    pub(super) driver: DriverKind,
    world: &'w ReplayWorld,
    wish: &'w RequestedReplay,
    binary: &'w Path,
    log: Option<&'w Path>,
    /// The time after which nothing begins.
    until: Instant,
    /// The process of the replay function.
    process: Option<FunctionProcess>,
    pub(super) invocations: Invocation,
}

impl DriverKind {
    pub(super) const ALL: [Self; 3] = [Self::Invocation, Self::Machine, Self::Tool];

    /// Returns the name of the driver in scenarios.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Invocation => "invocation",
            Self::Machine => "state machine",
            Self::Tool => "redrivectl",
        }
    }

    /// Reports whether a fault of a site is a scenario of this driver. The first driver has them all. The
    /// others have a sample, since most of the time is spent waiting: kills and failures of the service at
    /// every call, and every fault where the drivers differ and where letters are sent or recorded.
    pub(super) fn has(self, site: ReplaySite, fault: FaultKind) -> bool {
        let is_whole = matches!(site, ReplaySite::Send | ReplaySite::LedgerAfter | ReplaySite::Answer);
        let is_sample =
            matches!(fault, FaultKind::KillBefore | FaultKind::KillAfter | FaultKind::Unavailable);
        let is_here = match self {
            Self::Invocation => true,
            Self::Machine => is_whole || is_sample || site.is_of_rounds(),
            // The tool's answer cannot be missed.
            Self::Tool if site == ReplaySite::Answer => fault == FaultKind::KillBefore,
            // The tool is given a policy, or uses none.
            Self::Tool if site == ReplaySite::Redriver => false,
            Self::Tool => is_whole || is_sample,
        };
        is_here && site.has(fault)
    }

    /// Returns the most calls that the SDK makes for one request.
    pub(super) fn attempts(self) -> usize {
        if self == Self::Tool { 5 } else { 3 }
    }
}

impl<'w> RunningDriver<'w> {
    /// Creates a driver that has not begun. Its functions and its tool are built beside `binary`.
    pub(super) fn new(
        driver: DriverKind,
        world: &'w ReplayWorld,
        wish: &'w RequestedReplay,
        until: Instant,
        binary: &'w Path,
        log: Option<&'w Path>,
    ) -> Self {
        Self { driver, world, wish, binary, log, until, process: None, invocations: 0 }
    }

    /// Replays the wish until no letter is left out; reports whether that succeeds in time. `before` runs
    /// each time before the replay begins or continues.
    pub(super) fn go_to_the_end(&mut self, mut before: impl FnMut(&mut Self)) -> bool {
        loop {
            let latest = latest(&self.world.state().reader.objects);
            if latest.as_ref().is_some_and(|kept| kept["status"] == "done" && is_whole(kept)) {
                return true;
            }
            if Instant::now() > self.until {
                return false;
            }
            before(self);
            // A finished replay may have left letters out; a new one asks for them again.
            let unfinished = latest.filter(|kept| kept["status"] != "done");
            self.go(unfinished.as_ref().and_then(|kept| kept["id"].as_str()));
        }
    }

    /// Begins a replay, or continues one, and returns once it stops running.
    pub(super) fn go(&mut self, id: Option<&str>) {
        let wish = id.map_or_else(|| self.wish.event.clone(), |id| json!({ "resume": id }));
        match self.driver {
            DriverKind::Invocation => {
                self.invoke(&json!({ "replay": wish }));
            }
            DriverKind::Machine => self.execute(&wish),
            DriverKind::Tool => self.command(id),
        }
        std::thread::sleep(RETRY_DELAY);
    }

    /// Does what the state machine of `operations.yaml` does.
    fn execute(&mut self, wish: &Value) {
        let begin = json!({ "turn": { "begin": wish, "workers": WORKERS, "by": "an execution" } });
        let mut answer = self.invoke(&begin);
        while let Some(turn) = answer.filter(|_| Instant::now() < self.until) {
            match turn["next"].as_str() {
                Some("send") => self.send(&turn),
                Some("wait") => {
                    let seconds = turn["seconds"].as_u64().unwrap_or_default();
                    std::thread::sleep(Duration::from_secs(seconds));
                }
                _ => return,
            }
            let next = json!({ "turn": { "id": turn["id"], "holder": turn["holder"], "workers": WORKERS } });
            answer = self.tried(&next, MAX_TURN_TRIES);
        }
    }

    /// Gives each lane of a round to the function; failures are tolerated.
    fn send(&mut self, turn: &Value) {
        let place = |field: &str| turn[field].as_str().unwrap_or_default();
        let lanes =
            self.world.state().reader.objects.get(&format!("{}/{}", place("bucket"), place("key"))).cloned();
        let Some(lanes) = lanes else {
            self.world.state().reader.books.broken(format!("{} has no lanes", place("key")));
            return;
        };
        for line in lanes.lines() {
            let lane: Value = serde_json::from_str(line).unwrap_or_default();
            self.invoke(&json!({ "lane": lane }));
        }
    }

    /// Invokes the function until it answers, with this many tries at most.
    fn tried(&mut self, event: &Value, tries: usize) -> Option<Value> {
        for again in (0..tries).rev() {
            let answer = self.invoke(event);
            if answer.is_some() || again == 0 {
                return answer;
            }
            std::thread::sleep(RETRY_DELAY);
        }
        None
    }

    /// Invokes the function; returns the answer if it is heard.
    fn invoke(&mut self, event: &Value) -> Option<Value> {
        let (world, log) = (self.world, self.log);
        self.invocations += 1;
        let run = self.invocations;
        let start = || world.replayer(&replayer(self.binary), log);
        let running = self.process.get_or_insert_with(start);
        let fault = world.begin(&running.caller, run);
        if fault == Some(FaultKind::KillBefore) {
            let killer = running.sandbox.killer();
            std::thread::spawn(move || killer.kill());
        }
        let mut ended = running.sandbox.invoke(event.to_string(), TIMEOUT);
        if fault == Some(FaultKind::KillAfter) {
            ended = SandboxEnd::Died;
        }
        if matches!(ended, SandboxEnd::Died | SandboxEnd::TimedOut) {
            self.process = None;
        }
        self.ended(ended).filter(|_| fault != Some(FaultKind::BreakAfter))
    }

    /// Runs the tool.
    fn command(&mut self, id: Option<&str>) {
        self.invocations += 1;
        let mut arguments = vec!["replay", "--yes", "--json", "--by", "an operator"];
        if let Some(id) = id {
            arguments.extend(["--resume", id]);
        } else {
            arguments.extend(self.wish.arguments.split(' '));
        }
        let tool = ToolProcess(ProcessServer::open(&self.world.aws, &self.world.caller()));
        let fault = self.world.begin(&tool.0.caller, self.invocations);
        let variables = self.world.variables(&tool.0.server.url());
        let is_killed = fault == Some(FaultKind::KillBefore);
        let ended =
            tool.run(&redrivectl(self.binary), &arguments, &variables, self.log, TOOLS_TIMEOUT, is_killed);
        let (ended, code) = ended;
        let state = self.ended(ended);
        if let Some(state) = state
            && code_of(&state).is_none_or(|of_state| Some(of_state) != code)
        {
            let what = format!("run {} of the tool ends with {code:?}: {state}", self.invocations);
            self.world.state().reader.books.broken(what);
        }
    }

    /// Records the end of an invocation; returns its answer.
    fn ended(&self, ended: SandboxEnd) -> Option<Value> {
        let run = self.invocations;
        if !matches!(ended, SandboxEnd::Answer(..)) {
            // Its claim expires by this, if the account's clock can be moved.
            self.world.aws.clock().pass(CLAIM_EXPIRY);
        }
        let mut state = self.world.state();
        let troubled = self.world.is_troubled(run);
        match ended {
            SandboxEnd::Answer(text, _) => {
                let answer: Value = serde_json::from_str(&text).unwrap_or_default();
                // A turn reports the state beside the next step; a lane reports how many letters it has sent.
                let told = answer.get("replay").unwrap_or(&answer);
                let is_lane = answer.get("sent").is_some();
                if !is_lane
                    && latest(&state.reader.objects).is_none_or(|kept| kept["status"] != told["status"])
                {
                    state.reader.books.broken(format!("invocation {run} answers what is not kept: {answer}"));
                }
                Some(answer)
            }
            SandboxEnd::Died | SandboxEnd::TimedOut => {
                if !troubled {
                    state.reader.books.broken(format!("invocation {run} dies without a fault"));
                }
                state.reader.books.killed(run);
                None
            }
            SandboxEnd::Error(error) => {
                if !troubled {
                    state.reader.books.broken(format!("invocation {run} fails without a fault: {error}"));
                }
                None
            }
        }
    }
}

/// Returns the path of the replay function, which is built beside the function.
pub(super) fn replayer(binary: &Path) -> PathBuf {
    binary.with_file_name("sns-redrive-replay")
}

/// Returns the path of the tool, which is built beside the function.
fn redrivectl(binary: &Path) -> PathBuf {
    binary.with_file_name("redrivectl")
}

/// Returns the tool's exit code for a replay that ends in this state.
fn code_of(state: &Value) -> Option<i32> {
    match state["status"].as_str()? {
        "done" => Some(if is_whole(state) { 0 } else { 3 }),
        "running" | "settling" | "stopped" => Some(4),
        _ => None,
    }
}

/// Reports whether no letter was left out that another replay could send.
fn is_whole(state: &Value) -> bool {
    let counts = &state["counts"];
    let none = |count: &Value| count.as_u64().unwrap_or_default() == 0;
    let all_replayable = counts["notReplayable"].as_object().is_none_or(|all| all.values().all(none));
    all_replayable && none(&counts["unreadable"]) && none(&counts["refused"]) && none(&counts["gone"])
}

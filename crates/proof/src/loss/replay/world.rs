//! The account around a replay: the bucket that holds the archive, and the requeue.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use redrive_laws::letters::{RunId as Invocation, WorldNames};
use redrive_laws::replays::{BEFORE, BucketObjects, ReplayBooks, ReplayReader, latest};
use redrive_sim::lambda::{FunctionSettings, SimInvocationResult};
use redrive_sim::sqs::QueueSettings;
use redrive_sim::{Caller, FaultHook, SimAws, SimCall, SimClock, arn};
use serde_json::{Value, json};

use super::others::OutsideTraffic;
use crate::loss::faults::{self, FaultKind};
use crate::loss::letters::{self, ProofLetter, named};
use crate::loss::mapping::FunctionProcess;
use crate::loss::weighed;
use crate::loss::world::{Letters, moving};
use crate::sandbox::Sandbox;

/// The number of keys on a page of a listing, so small that there are several pages.
const LISTING_PAGE_KEYS: usize = 2;

/// The bucket.
const BUCKET: &str = "my-bucket";

/// The requeue.
const REQUEUE: &str = "payments-requeue";

/// The name of the function that redrives.
const REDRIVER: &str = "sns-redrive";

/// The prefixes of the objects that replays store, and of archived letters.
const CONTROL: &str = "my-bucket/dead-letters-control/replays/";
const LETTERS: &str = "my-bucket/dead-letters/";

/// A call. The key tells the objects in the bucket apart, together with whether it is the first write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReplaySite {
    ListLetters,
    ListState,
    Letters,
    GetCuts,
    Cuts,
    GetUnits,
    Units,
    GetState,
    NewState,
    State,
    GetLedger,
    LedgerBefore,
    LedgerAfter,
    GetStop,
    /// `GetFunctionConfiguration` of the function that redrives.
    Redriver,
    Tags,
    Waiting,
    Send,
    /// The lanes of a round, which the state machine reads.
    Lanes,
    /// The result of a lane.
    GetLane,
    Lane,
    /// The units that finished ahead of others before them.
    GetKnown,
    Known,
    Answer,
    /// The archiving of the letters, which is no part of a replay.
    Archiving,
}

/// The account around a replay.
#[derive(Debug)]
pub(super) struct ReplayWorld {
    pub(super) aws: SimAws,
    fifo: bool,
    plan: Arc<Mutex<ReplayFaultPlan>>,
    state: Mutex<ReplayWorldState>,
}

/// The account without its letters.
#[derive(Debug, Clone)]
pub(super) struct AccountSetup {
    pub(super) clock: SimClock,
    pub(super) fifo: bool,
    /// `true` if a function takes the letters of the requeue. The dead-letter queues drain in any case.
    pub(super) takes: bool,
    /// The dead-letter queues.
    pub(super) queues: Vec<String>,
    /// The number of keys on a page of a listing.
    pub(super) page: usize,
}

/// The planned faults, and those that were made.
#[derive(Debug, Default)]
pub(super) struct ReplayFaultPlan {
    run: Invocation,
    injections: Vec<ReplayInjection>,
    weather: Option<RandomReplayFaults>,
    by_chance: BTreeMap<FaultKind, usize>,
    calls: BTreeMap<ReplaySite, usize>,
    made: BTreeMap<ReplaySite, usize>,
    /// The invocations that met a fault.
    troubled: BTreeSet<Invocation>,
}

#[derive(Debug)]
pub(super) struct ReplayWorldState {
    pub(super) reader: ReplayReader<Letters>,
    processes: usize,
}

/// Random faults.
#[derive(Debug)]
pub(super) struct RandomReplayFaults {
    pub(super) rng: Rng,
    /// The number of calls of which one is hit on average. Calls that send or record letters are hit three
    /// times as often.
    pub(super) once_in: usize,
    pub(super) weights: Vec<(FaultKind, usize)>,
}

/// A fault for some calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplayInjection {
    pub(super) site: ReplaySite,
    pub(super) fault: FaultKind,
    pub(super) from: usize,
    pub(super) calls: usize,
}

impl ReplaySite {
    /// Every site of a replay.
    pub(super) const ALL: [Self; 24] = [
        Self::ListLetters,
        Self::ListState,
        Self::Letters,
        Self::GetCuts,
        Self::Cuts,
        Self::GetUnits,
        Self::Units,
        Self::GetState,
        Self::NewState,
        Self::State,
        Self::GetLedger,
        Self::LedgerBefore,
        Self::LedgerAfter,
        Self::GetStop,
        Self::Redriver,
        Self::Tags,
        Self::Waiting,
        Self::Send,
        Self::Lanes,
        Self::GetLane,
        Self::Lane,
        Self::GetKnown,
        Self::Known,
        Self::Answer,
    ];

    /// Returns the name of the site in the figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ListLetters => "ListObjectsV2, letters",
            Self::ListState => "ListObjectsV2, replays",
            Self::Letters => "GetObject, letters",
            Self::GetCuts => "GetObject, cuts",
            Self::Cuts => "PutObject, cuts",
            Self::GetUnits => "GetObject, units",
            Self::Units => "PutObject, units",
            Self::GetState => "GetObject, replay",
            Self::NewState => "PutObject, new replay",
            Self::State => "PutObject, replay",
            Self::GetLedger => "GetObject, ledger",
            Self::LedgerBefore => "PutObject, ledger before sending",
            Self::LedgerAfter => "PutObject, ledger after sending",
            Self::GetStop => "GetObject, stop",
            Self::Redriver => "GetFunctionConfiguration",
            Self::Tags => "ListQueueTags",
            Self::Waiting => "GetQueueAttributes",
            Self::Send => "SendMessageBatch, requeue",
            Self::Lanes => "PutObject, lanes of a round",
            Self::GetLane => "GetObject, lane result",
            Self::GetKnown => "GetObject, units of a round",
            Self::Known => "PutObject, units of a round",
            Self::Lane => "PutObject, lane result",
            Self::Answer => "event and answer",
            Self::Archiving => "archiving",
        }
    }

    /// Reports whether a fault makes sense here. A read has no effect, only sending is a batch, and Lambda
    /// takes an answer or does not hear it.
    pub(super) fn has(self, fault: FaultKind) -> bool {
        match fault {
            _ if self == Self::Answer => {
                matches!(fault, FaultKind::KillBefore | FaultKind::KillAfter | FaultKind::BreakAfter)
            }
            FaultKind::Freeze | FaultKind::Panic | FaultKind::Changed | FaultKind::Forged => false,
            FaultKind::Partial | FaultKind::PartialSender => self == Self::Send,
            FaultKind::Mute | FaultKind::BreakAfter | FaultKind::KillAfter => self.writes(),
            _ => true,
        }
    }

    fn writes(self) -> bool {
        use ReplaySite::{Cuts, Known, Lane, Lanes, LedgerAfter, LedgerBefore, NewState, Send, State, Units};
        matches!(
            self,
            Cuts | Units | NewState | State | LedgerBefore | LedgerAfter | Send | Lanes | Lane | Known
        )
    }

    /// Reports whether a call is about a round. Between these calls of the state machine the process changes.
    pub(super) fn is_of_rounds(self) -> bool {
        matches!(self, Self::Lanes | Self::GetLane | Self::Lane | Self::GetKnown | Self::Known)
    }

    /// Returns the site of the other matrix whose service refuses in the same words.
    fn words(self) -> faults::FaultSite {
        match self {
            Self::Send => faults::FaultSite::Requeue,
            Self::Redriver => faults::FaultSite::Invoke,
            Self::Tags | Self::Waiting => faults::FaultSite::RequeueAttributes,
            _ => faults::FaultSite::Store,
        }
    }
}

impl ReplayWorld {
    /// Creates a world with letters, and with their stored objects.
    pub(super) fn new(
        ground: &AccountSetup,
        letters: Vec<ProofLetter>,
        books: ReplayBooks,
        objects: BucketObjects,
        plan: ReplayFaultPlan,
    ) -> Self {
        let aws = SimAws::new(ground.clock.clone(), 1);
        let now = aws.clock().millis();
        aws.act("world", |it, _| {
            it.s3.create(BUCKET);
            it.s3.page = ground.page;
            for (place, text) in &objects {
                it.s3.place(place.split_once('/').unwrap_or_default(), text.as_bytes(), now - 60_000);
            }
            let settings = QueueSettings { visibility: 120, whole_group: false, ..QueueSettings::default() };
            for queue in &ground.queues {
                it.sqs.create(queue, settings.clone());
            }
            // A replay sends nothing to a queue without this tag.
            let tags = BTreeMap::from([("sns-redrive".to_owned(), "requeue".to_owned())]);
            it.sqs.create(&named(REQUEUE, ground.fifo), QueueSettings { tags, ..settings });
            it.sqs.create("payments-billing", moving("payments-dlq"));
            // A replay asks this function for its policy. Nothing receives from the requeue, so letters stay
            // there.
            let policy = [("REDRIVE_POLICY".to_owned(), policy().to_string())];
            let environment = Ok(variables("", ground.fifo).into_iter().chain(policy).collect());
            let redriver = FunctionSettings { environment, ..FunctionSettings::default() };
            it.lambda.create(REDRIVER, redriver, |_| SimInvocationResult::ok("null"));
        });
        let plan = Arc::new(Mutex::new(plan));
        let (asked, others, takes) = (Arc::clone(&plan), OutsideTraffic::new(&aws, &objects), ground.takes);
        aws.set_faults(FaultHook::new(move |call| {
            if call.caller.strip_prefix("fn-").is_none() {
                return redrive_sim::SimFault::Pass;
            }
            let site = site(call);
            let fault = lock(&asked).next(site);
            match fault {
                Some(fault) => fault.course(site.words(), call.entries.len()),
                None if site == ReplaySite::Waiting && (takes || !is_requeue(&call.target)) => {
                    others.take(&call.target)
                }
                None => {
                    if site == ReplaySite::Send {
                        others.lie();
                    }
                    redrive_sim::SimFault::Pass
                }
            }
        }));
        let requeue = named(REQUEUE, ground.fifo);
        let names = WorldNames { requeue, control: "-control/".to_owned(), ..WorldNames::default() };
        let reader = ReplayReader::new(Letters { names, all: letters }, books, objects);
        Self { aws, fifo: ground.fifo, plan, state: Mutex::new(ReplayWorldState { reader, processes: 0 }) }
    }

    /// Returns the state after everything that has happened.
    pub(super) fn state(&self) -> MutexGuard<'_, ReplayWorldState> {
        let mut state = lock(&self.state);
        state.reader.read(&self.aws.take_journal());
        state
    }

    /// Starts a process of the function that archives every letter.
    pub(super) fn archiver(&self, binary: &Path, log: Option<&Path>) -> FunctionProcess {
        let policy = json!({ "default": { "action": "archive" } });
        self.process(binary, log, ("REDRIVE_POLICY", policy.to_string()))
    }

    /// Starts a process of the replay function.
    pub(super) fn replayer(&self, binary: &Path, log: Option<&Path>) -> FunctionProcess {
        self.process(binary, log, ("REDRIVE_FUNCTION", arn("lambda", &format!("function:{REDRIVER}"))))
    }

    fn process(&self, binary: &Path, log: Option<&Path>, own: (&str, String)) -> FunctionProcess {
        let variables = |url: &str| {
            let own = [("WAITING_LIST", "off".to_owned()), own];
            let own = own.map(|(name, value)| (name.to_owned(), value));
            self.variables(url).into_iter().chain(own).collect()
        };
        let begin = |variables: &[_], log| Sandbox::start(binary, variables, log);
        FunctionProcess::start(&self.aws, &self.caller(), log, variables, begin)
    }

    /// Returns the name of a new process.
    pub(super) fn caller(&self) -> String {
        let mut state = self.state();
        state.processes += 1;
        format!("fn-{}", state.processes)
    }

    /// Records which invocation a process works on from now on; returns the fault of the whole invocation, if
    /// it has one.
    pub(super) fn begin(&self, caller: &Caller, run: Invocation) -> Option<FaultKind> {
        self.state().reader.begin(&caller.id, run);
        let mut plan = lock(&self.plan);
        plan.run = run;
        plan.next(ReplaySite::Answer)
    }

    /// Reports whether an invocation met a fault.
    pub(super) fn is_troubled(&self, run: Invocation) -> bool {
        lock(&self.plan).troubled.contains(&run)
    }

    /// Ends the random faults from now on.
    pub(super) fn clear_up(&self) {
        lock(&self.plan).weather = None;
    }

    /// Returns the number of random faults, by kind.
    pub(super) fn by_chance(&self) -> BTreeMap<FaultKind, usize> {
        lock(&self.plan).by_chance.clone()
    }

    /// Returns the number of calls.
    pub(super) fn calls(&self) -> usize {
        lock(&self.plan).calls.values().sum()
    }

    /// Deletes the last object of the archive, if a replay is under way.
    pub(super) fn delete_letters(&self) {
        let mut state = self.state();
        let ReplayReader { books, objects, .. } = &mut state.reader;
        if latest(objects).is_none_or(|kept| kept["status"] == "done") {
            return;
        }
        let last = objects.keys().rfind(|key| key.starts_with(LETTERS)).cloned();
        let Some((key, text)) = last.and_then(|key| objects.remove_entry(&key)) else { return };
        books.deleted(&text);
        self.aws.act("world", |it, _| it.s3.remove(key.split_once('/').unwrap_or_default()));
    }

    /// Returns the settings of every process, for the account's URL.
    pub(super) fn variables(&self, url: &str) -> Vec<(String, String)> {
        variables(url, self.fifo)
    }

    /// Returns how often the fault of a site was made.
    pub(super) fn made(&self, site: ReplaySite) -> usize {
        lock(&self.plan).made.get(&site).copied().unwrap_or_default()
    }
}

/// The hook that decides about faults holds the account, which holds the hook: this breaks the cycle.
impl Drop for ReplayWorld {
    fn drop(&mut self) {
        self.aws.set_faults(FaultHook::default());
    }
}

impl AccountSetup {
    /// Returns a standard account with the real clock, with the queues of the matrix.
    pub(super) fn of_matrix() -> Self {
        let queues = [BEFORE, "invoices-dlq", "payments-dlq"].map(str::to_owned).into();
        Self { clock: SimClock::real(), fifo: false, takes: true, queues, page: LISTING_PAGE_KEYS }
    }
}

impl ReplayFaultPlan {
    /// Creates a plan with these faults.
    pub(super) fn of(injections: Vec<ReplayInjection>) -> Self {
        Self { injections, ..Self::default() }
    }

    /// Creates a plan with random faults.
    pub(super) fn by_chance(weather: RandomReplayFaults) -> Self {
        Self { weather: Some(weather), ..Self::default() }
    }

    /// Returns the fault of the next call of a site, if it has one.
    fn next(&mut self, site: ReplaySite) -> Option<FaultKind> {
        let calls = self.calls.entry(site).or_default();
        let hits = |it: &&ReplayInjection| it.site == site && (it.from..it.from + it.calls).contains(calls);
        let fault = self.injections.iter().find(hits).map(|it| it.fault);
        *calls += 1;
        let by_chance = self.weather.as_mut().and_then(|weather| weather.next(site));
        if let Some(fault) = by_chance {
            *self.by_chance.entry(fault).or_default() += 1;
        }
        let fault = fault.or(by_chance);
        if fault.is_some() {
            *self.made.entry(site).or_default() += 1;
            self.troubled.insert(self.run);
        }
        fault
    }
}

impl RandomReplayFaults {
    fn next(&mut self, site: ReplaySite) -> Option<FaultKind> {
        let is_about_letters =
            matches!(site, ReplaySite::Send | ReplaySite::LedgerBefore | ReplaySite::LedgerAfter);
        let once_in = if is_about_letters { self.once_in.div_ceil(3) } else { self.once_in };
        let is_hit = self.rng.usize(..once_in) == 0;
        let fault = if is_hit { weighed(&mut self.rng, &self.weights) } else { None };
        fault.filter(|fault| site.has(*fault))
    }
}

fn is_requeue(queue: &str) -> bool {
    queue.strip_suffix(".fifo").unwrap_or(queue) == REQUEUE
}

/// Returns the policy of a replay.
fn policy() -> Value {
    letters::policy(false, &json!({ "numRetries": 3, "minDelayTarget": 1, "maxDelayTarget": 1 }))
}

/// Returns the settings of every function, for the account's URL.
fn variables(url: &str, fifo: bool) -> Vec<(String, String)> {
    let all = [
        ("AWS_ENDPOINT_URL", url.to_owned()),
        ("ARCHIVE", format!("s3://{BUCKET}/dead-letters")),
        ("REQUEUE_ARN", arn("sqs", &named(REQUEUE, fifo))),
    ];
    all.map(|(name, value)| (name.to_owned(), value)).into()
}

fn site(call: &SimCall) -> ReplaySite {
    let is_new = call.parameter("if-none-match").is_some();
    if call.target.starts_with(CONTROL) && call.target.contains("/rounds/") {
        let is_of_units = call.target.contains("/units-");
        return match call.operation.as_str() {
            "GetObject" if is_of_units => ReplaySite::GetKnown,
            "GetObject" => ReplaySite::GetLane,
            _ if is_of_units => ReplaySite::Known,
            // The lanes have the key of their round; a lane's result is in the folder of that round.
            _ if call.target.rsplit('/').nth(1) == Some("rounds") => ReplaySite::Lanes,
            _ => ReplaySite::Lane,
        };
    }
    let name = call.target.strip_prefix(CONTROL).and_then(|key| key.rsplit('/').next());
    match (call.operation.as_str(), name) {
        ("GetFunctionConfiguration", _) => ReplaySite::Redriver,
        ("ListQueueTags", _) => ReplaySite::Tags,
        ("GetQueueAttributes", _) => ReplaySite::Waiting,
        ("SendMessageBatch", _) if is_requeue(&call.target) => ReplaySite::Send,
        ("ListObjectsV2", Some(_)) => ReplaySite::ListState,
        ("ListObjectsV2", None) => ReplaySite::ListLetters,
        ("GetObject", Some("cuts.json")) => ReplaySite::GetCuts,
        ("GetObject", Some("units.jsonl")) => ReplaySite::GetUnits,
        ("GetObject", Some("replay.json")) => ReplaySite::GetState,
        ("GetObject", Some("stop.json")) => ReplaySite::GetStop,
        ("GetObject", Some(_)) => ReplaySite::GetLedger,
        ("GetObject", None) if call.target.ends_with("/overrides.json") => ReplaySite::Archiving,
        ("GetObject", None) => ReplaySite::Letters,
        ("PutObject", Some("cuts.json")) => ReplaySite::Cuts,
        ("PutObject", Some("units.jsonl")) => ReplaySite::Units,
        ("PutObject", Some("replay.json")) if is_new => ReplaySite::NewState,
        ("PutObject", Some("replay.json")) => ReplaySite::State,
        ("PutObject", Some(_)) if is_claimed(&call.body) => ReplaySite::LedgerBefore,
        ("PutObject", Some(_)) => ReplaySite::LedgerAfter,
        ("PutObject", None) if call.target.starts_with(LETTERS) => ReplaySite::Archiving,
        ("ChangeMessageVisibilityBatch", _) => ReplaySite::Archiving,
        (other, _) => panic!("the function calls {other} {}", call.target),
    }
}

/// Reports whether a ledger has a claim, so that a process is at work on its letters.
fn is_claimed(ledger: &[u8]) -> bool {
    !serde_json::from_slice::<Value>(ledger).unwrap_or_default()["claim"].is_null()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

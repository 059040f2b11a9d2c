//! One function in an account: the queues that feed it, its targets, its archive, and the record of its
//! letters.

mod account;
mod config;
mod forged;
mod letters;
mod reading;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use fastrand::Rng;
use redrive_laws::letters::{
    LetterReader, LettersVerdict, LifeEvent, NoExcuses, Plan, RequiredOrder, RunEnd, RunId, judge,
};
use redrive_sim::mapping::{MappingBatch, MappingOutcome, MappingSettings, SimMapping};
use redrive_sim::s3::PutCondition;
use redrive_sim::{Caller, SimAws, SimClock, SimMillis, SimPayload, SocketServer, arn};
use serde_json::{Value, json};

use self::account::{FaultyNetwork, MAX_RECEIVES, RECOVERIES};
pub(super) use self::account::{moving, put};
pub use self::config::WorldConfig;
pub(super) use self::letters::Letters;
pub use self::state::ProofWorld;
use self::state::ProofWorldState;
use super::faults::{FaultKind, FaultPlan as Faults, FaultSite};
use super::letters::{ProofLetter, ProofLetterKind, policy, token};
use crate::{ClockOffset, Sandbox, SandboxEnd};

/// The time after which an override that holds letters would end by itself.
const HOLD_TIME: Duration = Duration::from_hours(24);

impl ProofWorld {
    /// Creates a world without letters.
    #[must_use]
    pub fn new(config: WorldConfig, faults: Faults, seed: u64) -> Arc<Self> {
        let aws = SimAws::new(SimClock::real(), seed);
        let network = FaultyNetwork::new(&config, faults);
        let web = account::furnish(&aws, &config, &network);
        let letters = Letters { names: Self::names(&config), all: Vec::new() };
        let state = ProofWorldState {
            reader: LetterReader::new(letters),
            calls: BTreeMap::new(),
            woken: BTreeSet::new(),
            rng: Rng::with_seed(seed),
            slow: Vec::new(),
        };
        let state = Mutex::new(state);
        Arc::new(Self {
            config,
            aws,
            web,
            network,
            processes: AtomicUsize::default(),
            state,
            over: AtomicBool::default(),
            ahead: ClockOffset::new(),
            freezes: AtomicUsize::default(),
            batches: RwLock::default(),
            empty: AtomicUsize::default(),
        })
    }

    /// Puts a new letter into the dead-letter queue.
    pub fn write(&self, kind: ProofLetterKind, group: Option<String>) {
        let mut state = self.state();
        let fifo = self.config.fifo;
        let plan = Plan {
            group: group.clone().filter(|_| fifo),
            order: if kind == ProofLetterKind::Aside {
                RequiredOrder::Free
            } else {
                RequiredOrder::OfEachQueue
            },
            end: Some(kind.end()),
            retries: self.config.retries,
            last_due: self.config.last_due(),
            receives_before: if kind == ProofLetterKind::Moved { MAX_RECEIVES } else { 0 },
            kind: kind.name().to_owned(),
        };
        let who = state.reader.ledger.letter(plan);
        let letter = ProofLetter::write(who, kind, group, fifo, &mut state.rng);
        put(&self.aws, &self.config.named("payments-dlq"), &letter);
        state.reader.scene.all.push(letter);
    }

    /// Returns the number of messages in the queues.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let queues = ["payments-dlq", "payments-requeue"].map(|name| self.config.named(name));
        let waiting = self.aws.act("world", |it, _| {
            let len = |name: &String| it.sqs.queue(name).map_or(0, redrive_sim::sqs::SimQueue::len);
            queues.iter().map(len).sum()
        });
        // This keeps the journal from growing while all others wait.
        self.read(&mut self.state());
        waiting
    }

    /// Ends the faults.
    pub fn calm(&self) {
        self.network.plan().end();
    }

    /// Ends the polling.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Reports whether the polling has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Judges the letters.
    #[must_use]
    pub fn judge(&self) -> LettersVerdict {
        let mut state = self.state();
        self.read(&mut state);
        let queues = ["payments-dlq", "payments-requeue"].map(|name| self.config.named(name));
        let queued = self.aws.act("world", |it, _| {
            let queues = queues.iter().filter_map(|name| it.sqs.queue(name));
            let ids = queues.flat_map(|queue| queue.contents().map(|(id, _)| id));
            ids.filter_map(|id| state.reader.number(id)).collect()
        });
        judge(&state.reader.ledger, &queued, &NoExcuses)
    }

    /// Returns the number of faults so far, by site and kind.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<(FaultSite, FaultKind), usize> {
        self.network.plan().made().clone()
    }

    /// Returns the number of calls so far, by name.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<String, usize> {
        self.state().calls.clone()
    }

    /// Returns the number of invocations so far.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.state().reader.ledger.runs().len()
    }

    /// Records a fault that concerns no letter.
    pub fn complain(&self, what: String) {
        self.state().reader.ledger.stranger(what);
    }

    /// Records a fault that concerns no letter, and that a slow machine can cause too.
    pub fn complain_of_time(&self, what: String) {
        self.state().slow.push(what);
    }

    /// Takes what a slow machine can have caused.
    #[must_use]
    pub fn take_slow(&self) -> Vec<String> {
        std::mem::take(&mut self.state().slow)
    }

    /// Returns the fault of an invocation, if it has one.
    #[must_use]
    pub fn fault(&self) -> Option<FaultKind> {
        self.network.plan().next(FaultSite::Answer)
    }

    /// Returns the name of a new process.
    pub(super) fn process(&self) -> String {
        format!("fn-{}", self.processes.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the settings of the function, for a process that calls AWS at this URL.
    #[must_use]
    pub fn variables(&self, url: &str) -> Vec<(String, String)> {
        let config = &self.config;
        let queue = |name: &str| arn("sqs", &config.named(name));
        let archive = if config.archive_queue {
            queue("payments-archive")
        } else {
            "s3://my-bucket/dead-letters".to_owned()
        };
        let pollers = config.pollers.len().max(config.requeue_pollers.len());
        [
            ("AWS_ENDPOINT_URL", url.to_owned()),
            ("ARCHIVE", archive),
            ("REQUEUE_ARN", queue("payments-requeue")),
            ("REDRIVE_POLICY", policy(config.fifo, &config.schedule).to_string()),
            ("MAX_CONCURRENCY", pollers.to_string()),
            ("IN_FLIGHT_LIMIT", config.in_flight.to_string()),
            ("ALLOW_LOOPBACK_HTTP", "true".to_owned()),
        ]
        .into_iter()
        .chain(config.notices.then(|| ("NOTICE_TOPIC_ARN", arn("sns", "notices"))))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Gives the function an override about every letter; it takes effect after a while.
    pub fn override_(&self, action: &str, after: Duration) {
        let at = self.aws.clock().now() + after;
        self.give(&json!([{ "id": "override", "do": action, "match": { "queueArn": [{ "exists": true }] },
            "at": at, "by": "operator", "why": "it is mended" }]));
    }

    /// Gives the function an override that holds the letters of the queue which most letters go to.
    pub fn hold(&self) {
        let now = self.aws.clock().now();
        let target = arn("sqs", &self.config.named("payments-worker"));
        self.give(&json!([{ "id": "hold", "do": "hold", "match": { "target": [target] }, "at": now,
            "until": now + HOLD_TIME, "by": "operator", "why": "it is mended" }]));
    }

    /// Takes back all overrides.
    pub fn release(&self) {
        self.give(&json!([]));
    }

    fn give(&self, overrides: &Value) {
        let document = json!({ "version": 1, "overrides": overrides }).to_string().into_bytes();
        let key = ("my-bucket", "dead-letters-control/overrides.json");
        let put =
            self.aws.act("operator", |it, cx| it.s3.put_object(cx, key, document, PutCondition::None, None));
        put.expect("a bucket takes a document");
    }

    /// Lets the queue of most letters take none, or again all.
    pub fn set_down(&self, is_down: bool) {
        self.network.set_down(is_down);
    }

    /// Reports whether the function has written down that an endpoint is down.
    #[must_use]
    pub fn knows_outage(&self) -> bool {
        let document = self.aws.act("world", |it, _| {
            let objects = it.s3.objects("my-bucket").into_iter().flatten();
            let mut documents = objects.filter(|(key, _)| key.ends_with(RECOVERIES));
            documents.next().map(|(_, object)| object.bytes.clone())
        });
        let document: Value = serde_json::from_slice(&document.unwrap_or_default()).unwrap_or_default();
        let mut endpoints = document["endpoints"].as_array().into_iter().flatten();
        endpoints.any(|endpoint| endpoint["downSince"].is_string())
    }

    /// Returns the number of letters that the function has made visible.
    #[must_use]
    pub fn woken(&self) -> usize {
        let mut state = self.state();
        self.read(&mut state);
        state.woken.len()
    }

    /// Returns the number of letters of a kind that were attempted.
    #[must_use]
    pub fn attempted(&self, kind: ProofLetterKind) -> usize {
        let mut state = self.state();
        self.read(&mut state);
        let LetterReader { scene, ledger, .. } = &state.reader;
        let of_kind = scene.all.iter().filter(|letter| letter.kind == kind);
        of_kind.filter(|letter| ledger.facts(letter.who).iter().any(|fact| fact.what.is_attempt())).count()
    }

    /// Returns the seconds for which letters of a kind were hidden, each time.
    #[must_use]
    pub fn hidings(&self, kind: ProofLetterKind) -> Vec<i64> {
        let mut state = self.state();
        self.read(&mut state);
        let LetterReader { scene, ledger, .. } = &state.reader;
        let of_kind = scene.all.iter().filter(|letter| letter.kind == kind);
        let facts = of_kind.flat_map(|letter| ledger.facts(letter.who));
        let seconds = |what: &LifeEvent| {
            if let LifeEvent::Hidden { seconds, .. } = what { Some(*seconds) } else { None }
        };
        facts.filter_map(|fact| seconds(&fact.what)).collect()
    }

    /// Waits until nothing can be received and no batch is under way, for a world with one poller. Returns whether that
    /// was so in time.
    #[must_use]
    pub fn rest(&self, within: Duration) -> bool {
        let (before, began) = (self.empty.load(Ordering::Relaxed), Instant::now());
        // The first may have looked before the last letter was written.
        while self.empty.load(Ordering::Relaxed) < before + 2 {
            if began.elapsed() > within || self.is_over() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Lets the wall clock of account and processes go on, between two batches.
    pub fn pass(&self, time: Duration) {
        let between = self.batches.write().unwrap_or_else(PoisonError::into_inner);
        self.go_on(time);
        drop(between);
    }

    /// Keeps time from passing while a poller has a batch.
    pub(super) fn batch(&self) -> RwLockReadGuard<'_, ()> {
        self.batches.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a poller found nothing to receive.
    pub(super) fn found_nothing(&self) {
        self.empty.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes every hidden letter visible, as an operator does who wakes waiting letters.
    pub fn wake(&self) {
        let queue = self.config.named("payments-dlq");
        self.aws.act("operator", |it, cx| {
            let ids = it
                .sqs
                .queue(&queue)
                .into_iter()
                .flat_map(|queue| queue.contents().map(|(id, _)| Arc::clone(id)));
            for id in ids.collect::<Vec<_>>() {
                it.sqs.show_again(cx, &queue, &id);
            }
        });
    }

    /// Returns the event source mappings, with the number of batches that each works on at the same time. SQS
    /// keeps the batches of a FIFO group apart only within a mapping, so pollers of one batch size share a
    /// mapping.
    pub(super) fn mappings(&self) -> Vec<(SimMapping, usize)> {
        let mut all: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        let config = &self.config;
        for (queue, pollers) in
            [("payments-dlq", &config.pollers), ("payments-requeue", &config.requeue_pollers)]
        {
            for batch in pollers {
                *all.entry((queue, *batch)).or_default() += 1;
            }
        }
        let mapping = |((queue, batch_size), concurrency)| {
            let settings = MappingSettings {
                batch_size,
                // Without one, Lambda refuses batches of more than ten.
                window: Duration::from_secs(u64::from(batch_size > 10)),
                concurrency,
                timeout: config.timeout,
                // A batch never has two copies of one letter, because their sends could not be told apart.
                apart: Some(letter_of),
                ..MappingSettings::new(&config.named(queue), "sns-redrive")
            };
            (SimMapping::new(&self.aws, settings), concurrency)
        };
        all.into_iter().map(mapping).collect()
    }

    /// Starts a process of the function.
    pub(super) fn sandbox(&self, variables: &[(String, String)], log: Stdio) -> Sandbox {
        let WorldConfig { binary, panics, passes, sleeps, .. } = &self.config;
        let ahead = (*passes || !sleeps.is_empty()).then(|| (self.aws.clock(), &self.ahead));
        match (panics, ahead) {
            (true, ahead) => Sandbox::start_to_panic(binary, variables, log, ahead),
            (false, None) => Sandbox::start(binary, variables, log),
            (false, Some((clock, ahead))) => Sandbox::start_ahead(binary, variables, log, clock, ahead),
        }
    }

    /// Freezes a process that has nothing to do. The servers hang up meanwhile, or the network forgets its
    /// connections without a word.
    pub(super) fn freeze(&self, sandbox: &Sandbox, door: &SocketServer) {
        sandbox.freeze();
        let number = self.freezes.fetch_add(1, Ordering::Relaxed);
        for server in [door, &self.web] {
            if number.is_multiple_of(2) && !self.config.sleeps.is_empty() {
                server.forget();
            } else {
                server.hang_up();
            }
        }
    }

    /// Lets the wall clock of account and processes go on, while no process works.
    pub(super) fn sleep(&self) {
        let sleeps = &self.config.sleeps;
        let number = self.freezes.load(Ordering::Relaxed).saturating_sub(1);
        if let Some(time) = sleeps.get(number % sleeps.len().max(1)) {
            self.go_on(*time);
        }
    }

    fn go_on(&self, time: Duration) {
        self.aws.clock().pass(time);
        let ahead = self.aws.clock().millis() - SimClock::real().millis();
        self.ahead.set(Duration::from_millis(u64::try_from(ahead).unwrap_or_default()));
    }

    /// Records that a process is handed a batch.
    pub(super) fn begin(
        &self,
        batch: &MappingBatch,
        caller: &Caller,
        killer: &crate::ProcessKiller,
    ) -> RunId {
        let mut state = self.state();
        self.read(&mut state);
        *state.calls.entry("ReceiveMessage, by Lambda".to_owned()).or_default() += 1;
        let timeout = self.config.timeout;
        let kept = (timeout / 5).min(Duration::from_secs(10)) + Duration::from_millis(100);
        let deliver_for = millis(timeout.saturating_sub(kept));
        let messages = batch.messages.iter().map(|message| (&message.id, &message.handle));
        let now = self.aws.clock().millis();
        let (run, letters) = state.reader.begin(now, &caller.id, messages, deliver_for);
        self.network.hand(&caller.id, batch);
        for who in letters {
            self.network.hold(who, killer);
        }
        run
    }

    /// Does what Lambda does after an invocation. `heard` is `true` if Lambda got the answer.
    pub(super) fn settle(
        &self,
        mapping: &SimMapping,
        batch: &MappingBatch,
        run: RunId,
        ended: &SandboxEnd,
        heard: bool,
    ) {
        let (ending, outcome) = match ended {
            SandboxEnd::Answer(answer, _) if heard => (RunEnd::Heard, MappingOutcome::Answer(answer.clone())),
            SandboxEnd::Answer(..) => (RunEnd::Unheard, MappingOutcome::Died),
            SandboxEnd::Died => (RunEnd::Killed, MappingOutcome::Died),
            SandboxEnd::TimedOut => (RunEnd::TimedOut, MappingOutcome::TimedOut),
            SandboxEnd::Error(error) => (RunEnd::Failed, MappingOutcome::Error(error.clone())),
        };
        let mut state = self.state();
        self.read(&mut state);
        state.reader.end(self.aws.clock().millis(), run, ending);
        mapping.settle(batch, &outcome);
        self.read(&mut state);
        let deleted = state.reader.settled(run, batch.messages.iter().map(|message| &message.id));
        *state.calls.entry("DeleteMessageBatch, by Lambda".to_owned()).or_default() += deleted.div_ceil(10);
    }

    fn state(&self) -> MutexGuard<'_, ProofWorldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of a message's letter.
fn letter_of(payload: &SimPayload) -> Option<u64> {
    token(&payload.body).and_then(|who| u64::try_from(who).ok())
}

fn millis(duration: Duration) -> SimMillis {
    SimMillis::try_from(duration.as_millis()).unwrap_or(SimMillis::MAX)
}

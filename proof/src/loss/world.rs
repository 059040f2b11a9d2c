//! AWS around one function, as far as the function sees it: the queues that feed it, its targets, its
//! archive; and the ledger of all that happens.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::chance::Chance;
use super::faults::{Fault, Plan as Faults, Site};
use super::ledger::{Effect, Ending, Ledger, Message as Number, Place, Plan, Run, Told, Verdict, What, Who};
use super::letters::{self, Kind, Letter, arn, named, token};
use super::queue::{Message, Millis, Queue, Repetitions};
use crate::protocol::{
    Call, Entry, EntryFate, Response, batch_answer, function_answer, refusal, response, sns_answer,
    subscription_answer, tagged,
};
use crate::wire::Raw;
use crate::{Ended, Killer, Reply};

/// Lambda's limit of an event's size.
const MAX_EVENT_BYTES: usize = 6 * 1024 * 1024;

/// A world's terms.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The function.
    pub binary: PathBuf,
    /// Whether its queues are FIFO.
    pub fifo: bool,
    /// `healthyRetryPolicy`.
    pub schedule: Value,
    /// Retries of that schedule.
    pub retries: usize,
    /// Whether the archive is a queue, not a bucket.
    pub archive_queue: bool,
    /// Whether the only subscription is that of raw letters, so that it can be discovered.
    pub discovery: bool,
    /// Messages that may be in flight in a queue.
    pub in_flight: usize,
    /// The function's timeout.
    pub timeout: Duration,
    /// The queues' visibility timeout.
    pub visibility: Duration,
    /// The batch sizes of the pollers of the dead-letter queue.
    pub pollers: Vec<usize>,
    /// The batch sizes of the pollers of the requeue.
    pub requeue_pollers: Vec<usize>,
    /// A file for the function's log.
    pub log: Option<PathBuf>,
}

impl Terms {
    /// Milliseconds until the last retry can be due: all but the first, which is made at once, wait for the
    /// least delay or longer.
    fn last_due(&self) -> u64 {
        let least = self.schedule["minDelayTarget"].as_u64().expect("a schedule has a least delay");
        let waits = self.retries.saturating_sub(1);
        least * 1_000 * u64::try_from(waits).expect("a few retries")
    }
}

/// The queues that feed the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// The dead-letter queue.
    Dlq,
    /// The requeue.
    Requeue,
}

/// The world.
#[derive(Debug)]
pub struct World {
    /// Its terms.
    pub terms: Terms,
    state: Mutex<State>,
    over: AtomicBool,
}

#[derive(Debug)]
struct State {
    dlq: Queue,
    requeue: Queue,
    letters: Vec<Letter>,
    ledger: Ledger,
    faults: Faults,
    batches: HashMap<Run, Vec<Handed>>,
    objects: BTreeSet<String>,
    /// What FIFO targets took.
    repetitions: HashMap<String, Repetitions>,
    messages: Number,
    calls: BTreeMap<String, usize>,
    chance: Chance,
}

/// A message of an invocation.
#[derive(Debug, Clone)]
struct Handed {
    who: Who,
    message: Number,
    /// How often it has left in this invocation.
    left: usize,
}

/// A batch for one invocation.
#[derive(Debug)]
pub struct Batch {
    /// The invocation.
    pub run: Run,
    /// The queue.
    pub feed: Feed,
    messages: Vec<Message>,
}

/// One process of the function, as its requests show it.
#[derive(Debug, Default)]
pub struct Caller {
    /// Its invocation.
    pub run: AtomicUsize,
    /// Ends it.
    pub killer: OnceLock<Killer>,
    /// Where it finds AWS.
    pub address: OnceLock<String>,
    /// Whether it is gone.
    pub gone: AtomicBool,
    /// Subscriptions of which it was told that there can be none: it believes that for five minutes.
    unknown: Mutex<BTreeSet<String>>,
}

/// How a call goes.
#[derive(Debug, Clone, Copy)]
struct Course {
    site: Site,
    effect: bool,
    told: Told,
    /// The fault by which entries fail.
    partial: Option<Fault>,
}

impl Course {
    /// What the function is told of an entry: nothing where it is told nothing at all.
    fn told_of(self, disposition: Option<EntryFate>, for_good: bool) -> Told {
        match (self.told, disposition) {
            (Told::Done, Some(_)) => Told::Refused { for_good },
            (told, _) => told,
        }
    }
}

/// What came of an entry.
struct Outcome {
    disposition: Option<EntryFate>,
    effect: Effect,
    wrong: Option<String>,
    spent: Option<usize>,
    reason: Option<String>,
    for_good: bool,
}

impl World {
    /// A world without letters.
    #[must_use]
    pub fn new(terms: Terms, faults: Faults, seed: u64) -> Self {
        let visibility = millis(terms.visibility);
        let queue = |name: &str| Queue::new(named(name, terms.fifo), visibility, terms.in_flight);
        let state = State {
            dlq: queue("orders-dlq"),
            requeue: queue("orders-requeue"),
            letters: Vec::new(),
            ledger: Ledger::default(),
            faults,
            batches: HashMap::new(),
            objects: BTreeSet::new(),
            repetitions: HashMap::new(),
            messages: 0,
            calls: BTreeMap::new(),
            chance: Chance::new(seed),
        };
        Self { terms, state: Mutex::new(state), over: AtomicBool::new(false) }
    }

    /// Puts a new letter into the dead-letter queue.
    pub fn write(&self, kind: Kind, group: Option<String>) {
        let mut state = self.state();
        let fifo = self.terms.fifo;
        let plan = Plan {
            group: group.clone().filter(|_| fifo),
            ordered: kind != Kind::Aside,
            end: kind.end(),
            retries: self.terms.retries,
            last_due: self.terms.last_due(),
            kind: kind.name(),
        };
        let who = state.ledger.letter(plan);
        let letter = Letter::write(who, kind, group, fifo, &mut state.chance);
        let number = state.number();
        let mut message = Message::new(
            number,
            who,
            Arc::from(letter.body.as_str()),
            Arc::new(letter.attributes.clone()),
            now(),
        );
        (message.group, message.trace) = (letter.group.clone(), letter.trace.clone());
        message.source.clone_from(&letter.source);
        state.dlq.put(message, 0);
        let queue = state.dlq.name.clone();
        state.ledger.fact(who, number, None, What::Queued { queue, spent: 0 });
        state.letters.push(letter);
    }

    /// How many messages lie in the queues.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let state = self.state();
        state.dlq.len() + state.requeue.len()
    }

    /// From now on nothing goes wrong.
    pub fn calm(&self) {
        self.state().faults.end();
    }

    /// Nobody polls any more.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether nobody polls any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// What became of the letters.
    #[must_use]
    pub fn judge(&self) -> Verdict {
        let state = self.state();
        let queued = state.dlq.numbers().chain(state.requeue.numbers()).collect();
        state.ledger.judge(&queued)
    }

    /// The faults so far.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<(Site, Fault), usize> {
        self.state().faults.made().clone()
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<String, usize> {
        self.state().calls.clone()
    }

    /// The invocations so far.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.state().ledger.runs()
    }

    /// Something is wrong that concerns no letter.
    pub fn complain(&self, what: String) {
        self.state().ledger.stranger(what);
    }

    /// What goes wrong with an invocation or a delete.
    #[must_use]
    pub fn fault(&self, site: Site) -> Option<Fault> {
        self.state().faults.next(site)
    }

    /// The settings of the function, for a process that finds AWS at this address.
    #[must_use]
    pub fn variables(&self, address: &str) -> Vec<(String, String)> {
        let terms = &self.terms;
        let queue = |name: &str| arn("sqs", &named(name, terms.fifo));
        let archive =
            if terms.archive_queue { queue("graveyard") } else { "s3://graveyard/dead-letters".to_owned() };
        let pollers = terms.pollers.len().max(terms.requeue_pollers.len());
        [
            ("AWS_ENDPOINT_URL", format!("http://{address}")),
            ("ARCHIVE", archive),
            ("REQUEUE_ARN", queue("orders-requeue")),
            ("REDRIVE_POLICY", letters::policy(terms.fifo, &terms.schedule).to_string()),
            ("MAX_CONCURRENCY", pollers.to_string()),
            ("IN_FLIGHT_LIMIT", terms.in_flight.to_string()),
            ("ALLOW_LOOPBACK_HTTP", "true".to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    // ---------------------------------------------------------------------------------------------
    // The event source mapping's side

    /// A batch for an invocation, if there are messages.
    #[must_use]
    pub fn receive(&self, feed: Feed, most: usize) -> Option<Batch> {
        let mut state = self.state();
        let messages = state.queue(feed).receive(most, MAX_EVENT_BYTES, now());
        if messages.is_empty() {
            return None;
        }
        *state.calls.entry("ReceiveMessage, by Lambda".to_owned()).or_default() += 1;
        let kept = (self.terms.timeout / 5).min(Duration::from_secs(10));
        let run =
            state.ledger.begin(millis(self.terms.timeout.saturating_sub(kept + Duration::from_millis(100))));
        for message in &messages {
            let what = What::Received { count: message.receives };
            state.ledger.fact(message.who, message.number, Some(run), what);
        }
        let handed = messages.iter().map(|it| Handed { who: it.who, message: it.number, left: 0 });
        let handed = handed.collect();
        state.batches.insert(run, handed);
        Some(Batch { run, feed, messages })
    }

    /// Does what Lambda does after an invocation. `heard` says whether the answer reached it.
    pub fn settle(&self, batch: &Batch, ended: &Ended, heard: bool) {
        let (ending, why, kept) = match ended {
            Ended::Answer(answer, _) if heard => match kept(answer, batch) {
                Ok(kept) => (Ending::Heard, None, kept),
                Err(why) => (Ending::Failed, Some(why), BTreeSet::new()),
            },
            Ended::Answer(..) => (Ending::Unheard, None, BTreeSet::new()),
            Ended::Died => (Ending::Killed, None, BTreeSet::new()),
            Ended::TimedOut => (Ending::TimedOut, None, BTreeSet::new()),
            Ended::Error(error) => (Ending::Failed, Some(error.clone()), BTreeSet::new()),
        };
        let mut state = self.state();
        let run = batch.run;
        state.ledger.end(run, ending, why);
        if ending == Ending::Heard {
            let deleted = batch.messages.len() - kept.len();
            let fault = if deleted == 0 { None } else { state.faults.next(Site::Delete) };
            *state.calls.entry("DeleteMessageBatch, by Lambda".to_owned()).or_default() +=
                deleted.div_ceil(10);
            for (index, message) in batch.messages.iter().enumerate() {
                let what = if kept.contains(&index) {
                    What::Kept
                } else if fault.is_some_and(|fault| fault != Fault::Partial || index % 2 == 0) {
                    What::NotDeleted
                } else if state.queue(batch.feed).delete(&message.handle()) {
                    What::Deleted
                } else {
                    What::NotDeleted
                };
                state.ledger.fact(message.who, message.number, Some(run), what);
            }
        }
        state.batches.remove(&run);
        let groups = batch.messages.iter().map(|message| message.group.as_deref().unwrap_or_default());
        state.queue(batch.feed).release(groups);
    }

    /// The event of a batch.
    #[must_use]
    pub fn event(&self, batch: &Batch) -> String {
        let name = match batch.feed {
            Feed::Dlq => "orders-dlq",
            Feed::Requeue => "orders-requeue",
        };
        let queue = arn("sqs", &named(name, self.terms.fifo));
        let records: Vec<_> = batch.messages.iter().map(|message| record(message, &queue)).collect();
        json!({ "Records": records }).to_string()
    }

    // ---------------------------------------------------------------------------------------------
    // The function's side

    /// Answers a request of the function.
    pub fn answer(&self, caller: &Caller, raw: &Raw) -> Reply {
        let call = match raw.path().strip_prefix("/web/") {
            Some(name) => post(name, raw),
            None => crate::call(raw),
        };
        if raw.header("x-amzn-trace-id") == Some(crate::TRACE) {
            self.complain(format!("{} {} carries the function's own trace", call.op, call.to));
        }
        let site = self.site(&call);
        let fault = {
            let mut state = self.state();
            *state.calls.entry(site.name().to_owned()).or_default() += 1;
            state.faults.next(site)
        };
        let course = |effect, told| Course { site, effect, told, partial: None };
        let refused = |for_good| Told::Refused { for_good };
        let Some(fault) = fault else {
            return Reply::Answer(self.go(caller, &call, raw, course(true, Told::Done)));
        };
        if let Some((status, code, message)) = fault.refusal(site) {
            self.go(caller, &call, raw, course(false, refused(fault.is_for_good(site))));
            return Reply::Answer(refusal(&call.op, status, code, message));
        }
        match fault {
            Fault::Partial if site == Site::InvokeAndWait => {
                self.go(caller, &call, raw, course(false, refused(false)));
                return Reply::Answer(function_answer(&call, Some("Unhandled")));
            }
            Fault::Partial | Fault::PartialSender => {
                let course = Course { partial: Some(fault), ..course(true, Told::Done) };
                return Reply::Answer(self.go(caller, &call, raw, course));
            }
            Fault::Mute | Fault::BreakAfter | Fault::KillAfter => {
                self.go(caller, &call, raw, course(true, Told::Nothing));
            }
            _ => {
                self.go(caller, &call, raw, course(false, Told::Nothing));
            }
        }
        match fault {
            Fault::Silent | Fault::Mute => self.say_nothing(caller),
            Fault::KillBefore | Fault::KillAfter => {
                if let Some(killer) = caller.killer.get() {
                    killer.kill();
                }
            }
            _ => {}
        }
        Reply::Reset
    }

    fn say_nothing(&self, caller: &Caller) {
        let until = Instant::now() + Duration::from_mins(1);
        while Instant::now() < until && !self.is_over() && !caller.gone.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn site(&self, call: &Call) -> Site {
        let requeue = named("orders-requeue", self.terms.fifo);
        match call.op.as_str() {
            "GetQueueAttributes" if call.to == requeue => Site::RequeueAttributes,
            "GetQueueAttributes" => Site::QueueAttributes,
            "GetSubscriptionAttributes" => Site::Subscription,
            "ListSubscriptions" => Site::Subscriptions,
            "SendMessageBatch" if call.to == requeue => Site::Requeue,
            "SendMessageBatch" if call.to == named("graveyard", self.terms.fifo) => Site::Bury,
            "SendMessageBatch" => Site::Send,
            "PublishBatch" => Site::Publish,
            "Invoke" if call.to == "orders-projector" => Site::InvokeAndWait,
            "Invoke" => Site::Invoke,
            "POST" => Site::Post,
            "PutRecordBatch" => Site::Stream,
            "ChangeMessageVisibilityBatch" => Site::Hide,
            "PutObject" => Site::Store,
            other => panic!("the function calls {other}"),
        }
    }

    /// Does what a call asks for, as far as its course lets it, and writes it down.
    fn go(&self, caller: &Caller, call: &Call, raw: &Raw, course: Course) -> Response {
        let run = caller.run.load(Ordering::Relaxed);
        let mut state = self.state();
        match course.site {
            Site::QueueAttributes | Site::RequeueAttributes => self.queue_attributes(&state, &call.to),
            Site::Subscription => {
                if course.told != Told::Done {
                    state.not_checked(run, &call.to, course.told, self.terms.fifo);
                }
                if course.told == (Told::Refused { for_good: true }) {
                    caller.unknown().insert(call.to.clone());
                }
                self.subscription(caller, call)
            }
            Site::Subscriptions => {
                let all = letters::subscriptions(self.terms.fifo, self.terms.discovery, "");
                let members = all.iter().map(|(arn, ..)| {
                    ["<member><SubscriptionArn>", arn, "</SubscriptionArn></member>"].concat()
                });
                let members = members.collect::<Vec<_>>().concat();
                response(200, sns_answer(&call.op, &format!("<Subscriptions>{members}</Subscriptions>")))
            }
            Site::Hide => state.hide(call, run, course),
            Site::Store => state.store(caller, call, run, course),
            _ => state.send(call, raw, run, course),
        }
    }

    fn queue_attributes(&self, state: &State, name: &str) -> Response {
        let queue = if *name == state.requeue.name { &state.requeue } else { &state.dlq };
        let fifo = self.terms.fifo;
        let mut attributes = json!({
            "MessageRetentionPeriod": "1209600",
            "VisibilityTimeout": self.terms.visibility.as_secs().to_string(),
            "ApproximateNumberOfMessagesNotVisible": queue.in_flight(now()).to_string(),
        });
        if *name == named("orders-billing", fifo) {
            let dlq = arn("sqs", &named("orders-dlq", fifo));
            attributes["RedrivePolicy"] =
                json!({ "deadLetterTargetArn": dlq, "maxReceiveCount": 3 }).to_string().into();
        }
        response(200, json!({ "Attributes": attributes }).to_string())
    }

    fn subscription(&self, caller: &Caller, call: &Call) -> Response {
        let fifo = self.terms.fifo;
        let web = caller.address.get().map_or("", String::as_str);
        let all = letters::subscriptions(fifo, self.terms.discovery, web);
        let Some((arn_of, protocol, endpoint)) = all.into_iter().find(|(arn, ..)| *arn == call.to) else {
            return refusal(&call.op, 404, "NotFound", "Subscription does not exist");
        };
        let dlq = arn("sqs", &named("orders-dlq", fifo));
        let attributes = [
            ("SubscriptionArn", arn_of),
            ("TopicArn", arn("sns", &named("orders", fifo))),
            ("Protocol", protocol.to_owned()),
            ("Endpoint", endpoint),
            ("RedrivePolicy", json!({ "deadLetterTargetArn": dlq }).to_string()),
            ("PendingConfirmation", "false".to_owned()),
        ];
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
        response(200, subscription_answer(&attributes.collect()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caller {
    fn unknown(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn number(&mut self) -> Number {
        self.messages += 1;
        self.messages - 1
    }

    fn queue(&mut self, feed: Feed) -> &mut Queue {
        match feed {
            Feed::Dlq => &mut self.dlq,
            Feed::Requeue => &mut self.requeue,
        }
    }

    /// The message of an invocation that a letter is sent from. Where there are two of one letter, it is the
    /// one that was sent less often.
    fn handed(&mut self, run: Run, who: Who, number: Option<Number>) -> Option<&mut Handed> {
        let fits =
            |handed: &&mut Handed| handed.who == who && number.is_none_or(|number| handed.message == number);
        self.batches.get_mut(&run)?.iter_mut().filter(fits).min_by_key(|handed| handed.left)
    }

    /// Letters whose subscription could not be asked.
    fn not_checked(&mut self, run: Run, subscription: &str, told: Told, fifo: bool) {
        for Handed { who, message, .. } in self.batches.get(&run).cloned().unwrap_or_default() {
            if letters::subscription(self.letters[who].kind, fifo) == *subscription {
                self.ledger.fact(who, message, Some(run), What::Unchecked { told });
            }
        }
    }

    /// A call that takes letters somewhere, one by one or in batches.
    fn send(&mut self, call: &Call, raw: &Raw, run: Run, course: Course) -> Response {
        let place = match course.site {
            Site::Requeue => Place::Requeue,
            Site::Bury => Place::Archive,
            _ => Place::Target,
        };
        let mut all = Vec::new();
        for (index, entry) in call.entries.iter().enumerate() {
            let Some(who) = token(&entry.body).filter(|who| *who < self.letters.len()) else {
                self.ledger.stranger(format!("{} {} of what is no letter", call.op, call.to));
                continue;
            };
            let Some(handed) = self.handed(run, who, None) else {
                let what = format!("{} {} of letter {who}, not of invocation {run}", call.op, call.to);
                self.late(run, what);
                continue;
            };
            let message = handed.message;
            let Outcome { disposition, effect, wrong, spent, reason, for_good } =
                self.entry(call, raw, entry, index, who, course);
            if effect == Effect::Taken {
                if let Some(handed) = self.handed(run, who, Some(message)) {
                    handed.left += 1;
                }
                if place == Place::Requeue {
                    self.requeue(entry, who, spent.unwrap_or_default());
                }
            }
            let told = course.told_of(disposition, for_good);
            let what = What::Sent { place, effect, told, wrong, spent, reason };
            self.ledger.fact(who, message, Some(run), what);
            all.push((index, disposition));
        }
        match course.site {
            Site::Post => response(200, String::new()),
            Site::Invoke | Site::InvokeAndWait => function_answer(call, None),
            _ => response(200, batch_answer(&call.op, &all)),
        }
    }

    /// What comes of one entry.
    fn entry(
        &mut self,
        call: &Call,
        raw: &Raw,
        entry: &Entry,
        index: usize,
        who: Who,
        course: Course,
    ) -> Outcome {
        let letter = &self.letters[who];
        let mut outcome = Outcome {
            disposition: None,
            effect: Effect::None,
            wrong: None,
            spent: None,
            reason: None,
            for_good: false,
        };
        let checked = match course.site {
            Site::Requeue => letter.moves(entry),
            Site::Bury => letter.rests(entry).map(|reason| {
                outcome.reason = reason;
                None
            }),
            Site::Post => letter.is_posted(raw).and_then(|()| letter.arrives(&call.op, &call.to, entry)),
            _ => letter.arrives(&call.op, &call.to, entry),
        };
        match checked {
            Ok(spent) => outcome.spent = spent,
            Err(wrong) => outcome.wrong = Some(wrong),
        }
        let fifo = call.to.strip_suffix(".fifo").is_some();
        if fifo && (entry.deduplication_id.is_none() || entry.group_id.is_none()) {
            let why = "FIFO without group or deduplication id";
            outcome.wrong = Some(why.to_owned());
            outcome.disposition = Some(EntryFate::Failed("InvalidParameterValue", why, true));
            return outcome;
        }
        if course.partial.is_some() && index.is_multiple_of(2) {
            let fault = course.partial;
            outcome.disposition = fault.and_then(|fault| fault.disposition(course.site));
            outcome.for_good = fault.is_some_and(|fault| fault.is_for_good(course.site));
            return outcome;
        }
        if !course.effect {
            return outcome;
        }
        match (course.site, letter.kind) {
            (Site::Send, Kind::Broken) => {
                outcome.disposition = Some(EntryFate::Failed("InternalError", "Please try again.", false));
                return outcome;
            }
            (Site::Send, Kind::Picky) => {
                outcome.disposition =
                    Some(EntryFate::Failed("InvalidMessageContents", "Invalid characters.", true));
                outcome.for_good = true;
                return outcome;
            }
            _ => {}
        }
        let known = |id| {
            let now = now();
            if course.site == Site::Requeue {
                return !self.requeue.is_new(id, now);
            }
            let place = format!("{} {}", call.op, call.to);
            !self.repetitions.entry(place).or_default().is_new(id, now)
        };
        let repeated = entry.deduplication_id.as_deref().filter(|_| fifo).is_some_and(known);
        outcome.effect = if repeated { Effect::Swallowed } else { Effect::Taken };
        outcome
    }

    /// A letter in the requeue is a new message.
    fn requeue(&mut self, entry: &Entry, who: Who, spent: usize) {
        let number = self.number();
        let attributes = Arc::new(entry.attributes.clone());
        let mut message = Message::new(number, who, Arc::from(entry.body.as_str()), attributes, now());
        (message.group, message.trace) = (entry.group_id.clone(), entry.trace_header.clone());
        let delay = u64::try_from(entry.delay.unwrap_or(0)).unwrap_or(0) * 1000;
        self.requeue.put(message, delay);
        let queue = self.requeue.name.clone();
        self.ledger.fact(who, number, None, What::Queued { queue, spent });
    }

    fn hide(&mut self, call: &Call, run: Run, course: Course) -> Response {
        let feed = if call.to == self.requeue.name { Feed::Requeue } else { Feed::Dlq };
        let mut all = Vec::new();
        for (index, entry) in call.entries.iter().enumerate() {
            let handle = entry.receipt_handle.as_deref().unwrap_or_default();
            let number = handle.strip_prefix("receipt-").and_then(|rest| rest.split_once('-'));
            let number = number.and_then(|(number, _)| number.parse::<Number>().ok());
            let of_batch = self.batches.get(&run).into_iter().flatten();
            let handed = of_batch.into_iter().find(|handed| Some(handed.message) == number).cloned();
            let Some(Handed { who, message, .. }) = handed else {
                self.late(run, format!("hides {handle}, which is not of invocation {run}"));
                continue;
            };
            let mut disposition =
                course.partial.filter(|_| index.is_multiple_of(2)).and_then(|it| it.disposition(course.site));
            let seconds = entry.hide.unwrap_or(-1);
            let mut done = false;
            if disposition.is_none() && course.effect {
                match self.queue(feed).hide(handle, seconds, now()) {
                    Ok(()) => done = true,
                    Err(code) => {
                        disposition = Some(EntryFate::Failed(code, "The handle is not valid.", true));
                    }
                }
            }
            let told = course.told_of(disposition, false);
            self.ledger.fact(who, message, Some(run), What::Hidden { seconds, done, told });
            all.push((index, disposition));
        }
        response(200, batch_answer(&call.op, &all))
    }

    fn store(&mut self, caller: &Caller, call: &Call, run: Run, course: Course) -> Response {
        let is_there = self.objects.contains(&call.to);
        let effect = match (course.effect, is_there) {
            (true, false) => Effect::Taken,
            (true, true) => Effect::Swallowed,
            (false, _) => Effect::None,
        };
        if !call.headers.contains_key("if-none-match") {
            self.ledger.stranger(format!("PutObject {} without If-None-Match", call.to));
        }
        for line in call.object.lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_default();
            let body = record["message"]["body"].as_str().unwrap_or_default();
            let number = record["message"]["messageId"].as_str().and_then(number_of);
            let Some(who) = token(body).filter(|who| *who < self.letters.len()) else {
                self.ledger.stranger(format!("PutObject {} of what is no letter", call.to));
                continue;
            };
            let Some(handed) = self.handed(run, who, number) else {
                let what = format!("PutObject {} of letter {who}, not of invocation {run}", call.to);
                self.late(run, what);
                continue;
            };
            handed.left += usize::from(effect == Effect::Taken);
            let message = handed.message;
            let reason = record["reason"].as_str().map(str::to_owned);
            let letter = &self.letters[who];
            let wrong = letter.is_recorded(&record).err();
            if caller.unknown().contains(&letters::subscription(letter.kind, letter.fifo)) {
                let told = Told::Refused { for_good: true };
                self.ledger.fact(who, message, Some(run), What::Unchecked { told });
            }
            let place = Place::Archive;
            let what = What::Sent { place, effect, told: course.told, wrong, spent: None, reason };
            self.ledger.fact(who, message, Some(run), what);
        }
        if course.effect {
            self.objects.insert(call.to.clone());
        }
        if is_there {
            return refusal(&call.op, 412, "PreconditionFailed", "At least one pre-condition failed");
        }
        tagged(&call.object, response(200, String::new()))
    }

    /// A request about a letter that its invocation does not have. One of an invocation that has ended
    /// badly came too late to be attributed.
    fn late(&mut self, run: Run, what: String) {
        let ended =
            run < self.ledger.runs() && !matches!(self.ledger.ending(run), Ending::Open | Ending::Heard);
        if !ended {
            self.ledger.stranger(what);
        }
    }
}

/// The positions in the batch that an answer keeps.
fn kept(answer: &str, batch: &Batch) -> Result<BTreeSet<usize>, String> {
    let answer: Value = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    let items = answer["batchItemFailures"].as_array().ok_or("no batchItemFailures")?;
    let positions: HashMap<String, usize> =
        batch.messages.iter().enumerate().map(|(index, message)| (id_of(message.number), index)).collect();
    items
        .iter()
        .map(|item| {
            let id = item["itemIdentifier"].as_str().unwrap_or_default();
            positions.get(id).copied().ok_or_else(|| format!("{id:?} is no message of the batch"))
        })
        .collect()
}

/// A message as Lambda hands it over.
pub(super) fn record(message: &Message, queue: &str) -> Value {
    let mut system = json!({
        "ApproximateReceiveCount": message.receives.to_string(),
        "SentTimestamp": message.sent.to_string(),
        "SenderId": "AIDAIEXAMPLE",
        "ApproximateFirstReceiveTimestamp": message.first_received.to_string(),
    });
    let more = [
        ("MessageGroupId", &message.group),
        ("AWSTraceHeader", &message.trace),
        ("DeadLetterQueueSourceArn", &message.source),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            system[name] = value.as_str().into();
        }
    }
    let attribute = |(of, value): &(String, String)| match value.strip_prefix("base64 ") {
        Some(bytes) => {
            json!({ "dataType": of, "binaryValue": bytes, "stringListValues": [], "binaryListValues": [] })
        }
        None => {
            json!({ "dataType": of, "stringValue": value, "stringListValues": [], "binaryListValues": [] })
        }
    };
    let attributes: serde_json::Map<_, _> =
        message.attributes.iter().map(|(name, value)| (name.clone(), attribute(value))).collect();
    json!({
        "messageId": id_of(message.number),
        "receiptHandle": message.handle(),
        "body": *message.body,
        "attributes": system,
        "messageAttributes": attributes,
        "md5OfBody": "00000000000000000000000000000000",
        "eventSource": "aws:sqs",
        "eventSourceARN": queue,
        "awsRegion": "eu-central-1",
    })
}

fn id_of(number: Number) -> String {
    format!("00000000-0000-4000-9000-{number:012}")
}

/// The message of an id.
pub(super) fn number_of(id: &str) -> Option<Number> {
    id.rsplit('-').next()?.parse().ok()
}

fn post(name: &str, raw: &Raw) -> Call {
    Call {
        op: "POST".to_owned(),
        host: String::new(),
        to: name.to_owned(),
        entries: vec![Entry { body: String::from_utf8_lossy(&raw.body).into_owned(), ..Entry::default() }],
        headers: BTreeMap::new(),
        object: String::new(),
        taken: Vec::new(),
    }
}

/// The present.
#[must_use]
pub fn now() -> Millis {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

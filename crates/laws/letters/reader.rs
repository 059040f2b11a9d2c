//! The reader: `redrive-sim`'s journal becomes the facts of letters.

mod calls;
mod faults;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use redrive_sim::{Attributes, Call, Entry, Event, Millis, Payload, Record, Service};
use serde_json::Value;

use super::answer::Ended;
use super::facts::{Ending, Message, Place, RunId, What, Who};
use super::ledger::Ledger;
use super::scene::Scene;

/// The caller that Lambda's mappings are.
const MAPPING: &str = "mapping";

/// The attribute with the function's mark.
const MARK: &str = "sns-redrive";

/// A reader of the journal of one world.
#[derive(Debug)]
pub struct Reader<S> {
    /// The world.
    pub scene: S,
    /// The facts so far.
    pub ledger: Ledger,
    /// The numbers of the messages by SQS's ids.
    numbers: HashMap<Arc<str>, Message>,
    /// The letter of each message.
    whose: Vec<Who>,
    /// The letters of messages that SQS has not moved to the dead-letter queue yet.
    in_source: HashMap<Arc<str>, Who>,
    /// The messages that SQS has moved.
    moved: BTreeSet<Message>,
    /// The batches of the invocations.
    batches: Vec<Vec<Handed>>,
    /// The invocations of each process.
    runs: HashMap<Arc<str>, Vec<RunId>>,
    /// The subscriptions that SNS called impossible, by process. A process believes this for five minutes.
    unknown: HashMap<Arc<str>, BTreeSet<String>>,
    /// The processes that could not ask the queue from which SQS moves letters. Each remembers this for a
    /// while.
    uncounted: BTreeSet<Arc<str>>,
    settled: Settled,
    /// The runs that failed of functions that a caller waits for, until they are answered: callers and events.
    failed: BTreeSet<(Arc<str>, String)>,
}

/// A message of an invocation.
#[derive(Debug, Clone)]
struct Handed {
    who: Who,
    message: Message,
    handle: Arc<str>,
    /// The number of times it has left in this invocation.
    left: usize,
}

/// The mapping's handling of its last batch.
#[derive(Debug, Default)]
struct Settled {
    kept: BTreeSet<Arc<str>>,
    failed: Option<String>,
    deleted: BTreeSet<Arc<str>>,
}

impl<S: Scene> Reader<S> {
    /// Creates a reader of a world without letters.
    pub fn new(scene: S) -> Self {
        Self {
            scene,
            ledger: Ledger::default(),
            numbers: HashMap::new(),
            whose: Vec::new(),
            in_source: HashMap::new(),
            moved: BTreeSet::new(),
            batches: Vec::new(),
            runs: HashMap::new(),
            unknown: HashMap::new(),
            uncounted: BTreeSet::new(),
            settled: Settled::default(),
            failed: BTreeSet::new(),
        }
    }

    /// Returns the number of a message.
    pub fn number(&self, id: &str) -> Option<Message> {
        self.numbers.get(id).copied()
    }

    /// Records that a process is handed a batch, by its ids and receipt handles; returns the invocation and its
    /// letters.
    pub fn begin<'m>(
        &mut self,
        now: Millis,
        caller: &Arc<str>,
        batch: impl Iterator<Item = (&'m Arc<str>, &'m Arc<str>)>,
        deliver_for: Millis,
    ) -> (RunId, Vec<Who>) {
        self.ledger.pass_to(now);
        let run = self.ledger.begin(caller, deliver_for);
        self.runs.entry(Arc::clone(caller)).or_default().push(run);
        let mut handed = Vec::new();
        for (id, handle) in batch {
            let Some(message) = self.number(id) else {
                self.ledger.stranger(format!("the queue has {id}, which is no letter"));
                continue;
            };
            let who = self.whose[message];
            self.ledger.fact(who, message, Some(run), What::Handed);
            if self.moved.contains(&message) && self.uncounted.contains(caller) {
                self.ledger.fact(who, message, Some(run), What::Uncounted);
            }
            handed.push(Handed { who, message, handle: Arc::clone(handle), left: 0 });
        }
        let letters = handed.iter().map(|it| it.who).collect();
        self.batches.push(handed);
        (run, letters)
    }

    /// Records the end of an invocation. What Lambda does then is read next, and [`settled`](Self::settled) after
    /// that.
    pub fn end(&mut self, now: Millis, run: RunId, ending: Ending) {
        self.ledger.pass_to(now);
        self.ledger.end(run, ending, None);
        self.settled = Settled::default();
    }

    /// Records what Lambda did after an invocation. `ids` are the messages of the batch; returns how many of them it
    /// tried to delete.
    pub fn settled<'m>(&mut self, run: RunId, ids: impl Iterator<Item = &'m Arc<str>>) -> usize {
        let Settled { kept, failed, deleted } = std::mem::take(&mut self.settled);
        if self.ledger.runs()[run].ending != Ending::Heard {
            if self.ledger.runs()[run].ending == Ending::Failed {
                self.ledger.failed(run, failed);
            }
            return 0;
        }
        // An answer that Lambda does not understand is a failure, too.
        if failed.is_some() {
            self.ledger.failed(run, failed);
            return 0;
        }
        let mut tried = 0;
        for id in ids {
            tried += usize::from(!kept.contains(id));
            let Some(message) = self.number(id) else { continue };
            let what = if kept.contains(id) {
                What::Kept
            } else if deleted.contains(id) {
                What::Deleted
            } else {
                What::NotDeleted
            };
            self.ledger.fact(self.whose[message], message, Some(run), what);
        }
        tried
    }

    /// Reads events, which come after all that were read before.
    pub fn read(&mut self, records: &[Record]) {
        for (index, record) in records.iter().enumerate() {
            self.ledger.pass_to(record.at);
            self.event(records, index, record);
        }
    }

    fn event(&mut self, records: &[Record], index: usize, record: &Record) {
        let by = &*record.by;
        match &record.event {
            Event::Called(call) if self.is_functions(call) => self.called(call),
            Event::Faulty { call, fault } => self.faulty(call, fault),
            Event::Answered { call, fault, status, effects } if self.is_functions(call) => {
                let Some(run) = self.run_of(call) else { return };
                let effects = &records[index - effects..index];
                let has_failed = call.service == Service::Lambda
                    && self.failed.remove(&(
                        Arc::clone(&call.caller),
                        String::from_utf8_lossy(&call.body).into_owned(),
                    ));
                self.answered(&Ended { call, fault, status: *status, effects, has_failed, run });
            }
            Event::BatchEnded { kept, failed: Some(why), .. } if why == "throttled" => {
                for id in kept {
                    self.message(id, What::Throttled);
                }
            }
            Event::BatchEnded { kept, failed, .. } => {
                self.settled.kept.extend(kept.iter().map(Arc::clone));
                self.settled.failed.clone_from(failed);
            }
            Event::Deleted { id, .. } if by == MAPPING => {
                self.settled.deleted.insert(Arc::clone(id));
            }
            Event::Sent { queue, id, payload, .. } => self.sent(by, queue, id, payload),
            Event::Moved { to, id, .. } if **to == *self.scene.names().dlq => {
                if let Some(who) = self.in_source.remove(id) {
                    self.moved.insert(self.whose.len());
                    self.queued(id, who, to, 0);
                }
            }
            Event::Received { id, count, .. } => self.message(id, What::Received { count: *count }),
            Event::Hidden { id, .. } if by == "operator" => self.message(id, What::Woken),
            Event::Duplicated { id, .. } => self.message(id, What::Duplicated),
            Event::Expired { id, .. } => self.message(id, What::Expired),
            Event::Invoked { payload, ok: false, .. } if self.runs.contains_key(&record.by) => {
                self.failed.insert((Arc::clone(&record.by), payload.clone()));
            }
            Event::Invoked { function, payload, ok: true } if by == "lambda" => {
                self.arrived(function, payload, None);
            }
            Event::Streamed { stream, data } if by == "sns" => {
                self.arrived(stream, String::from_utf8_lossy(data).trim_end(), None);
            }
            Event::Posted { host, body, status: 200..300, .. } if by == "sns" => {
                self.arrived(host, &String::from_utf8_lossy(body), None);
            }
            _ => {}
        }
    }

    /// Records a message that a queue took.
    fn sent(&mut self, by: &str, queue: &Arc<str>, id: &Arc<str>, payload: &Arc<Payload>) {
        let names = self.scene.names();
        if **queue == *names.dlq || **queue == *names.requeue {
            let spent = spent_by(&payload.body, &payload.attributes).unwrap_or(0);
            for who in self.scene.letters(&payload.body) {
                self.queued(id, who, queue, spent);
            }
        } else if **queue == *names.source && self.run_by(by).is_none() && by != "sns" {
            self.in_source
                .extend(self.scene.letters(&payload.body).first().map(|who| (Arc::clone(id), *who)));
        } else if by == "sns" {
            self.arrived(queue, &payload.body, Some(payload));
        }
    }

    fn queued(&mut self, id: &Arc<str>, who: Who, queue: &str, spent: usize) {
        let message = self.whose.len();
        self.whose.push(who);
        self.numbers.insert(Arc::clone(id), message);
        self.ledger.fact(who, message, None, What::Queued { queue: queue.to_owned(), spent });
    }

    /// Records what an endpoint got from SNS, if SNS delivers what the function publishes.
    fn arrived(&mut self, to: &str, text: &str, payload: Option<&Payload>) {
        let names = self.scene.names();
        if names.topic.is_none() || to == names.witness {
            return;
        }
        let entry = Entry {
            body: text.to_owned(),
            attributes: payload.map(|it| it.attributes.clone()).unwrap_or_default(),
            ..Entry::default()
        };
        for who in self.scene.letters(text) {
            let wrong = self.scene.is_delivered(who, to, &entry).err();
            self.ledger.note(who, None, None, What::Arrived { wrong });
        }
    }

    fn message(&mut self, id: &str, what: What) {
        if let Some(message) = self.number(id) {
            self.ledger.fact(self.whose[message], message, None, what);
        }
    }

    /// Reports whether the function made a call.
    fn is_functions(&self, call: &Call) -> bool {
        self.runs.contains_key(&call.caller) || *call.caller == *self.scene.names().poster
    }

    fn run_by(&self, caller: &str) -> Option<RunId> {
        self.runs.get(caller)?.last().copied()
    }

    /// Returns the invocation that made a call. The web server does not know who posts: the call is by the
    /// last invocation that has the letter.
    fn run_of(&self, call: &Call) -> Option<RunId> {
        if *call.caller != *self.scene.names().poster {
            return self.run_by(&call.caller);
        }
        let who = *self.scene.letters(&String::from_utf8_lossy(&call.body)).first()?;
        self.batches.iter().rposition(|batch| batch.iter().any(|handed| handed.who == who))
    }

    /// Returns the invocation and the message that a letter is sent from. If the letter has two messages,
    /// returns the one that was sent less often. A call that was given up may arrive when its process already
    /// works on the next batch.
    fn handed(&mut self, run: RunId, who: Who, message: Option<Message>) -> Option<(RunId, &mut Handed)> {
        let fits =
            |handed: &&mut Handed| handed.who == who && message.is_none_or(|number| handed.message == number);
        let has = |run: &&RunId| self.batches[**run].iter().any(|handed| handed.who == who);
        let caller = &self.ledger.runs()[run].caller;
        let run = self.runs.get(caller)?.iter().rev().find(has).copied()?;
        let handed = self.batches[run].iter_mut().filter(fits).min_by_key(|handed| handed.left)?;
        Some((run, handed))
    }

    /// Returns the place to which a call sends letters, or `None` if it sends none.
    fn place(&self, call: &Call) -> Option<Place> {
        let names = self.scene.names();
        match call.operation.as_str() {
            "SendMessageBatch" if call.target == names.requeue => Some(Place::Requeue),
            "SendMessageBatch" if call.target == names.archive => Some(Place::Archive),
            "PublishBatch" if names.topic.as_ref() == Some(&call.target) => Some(Place::Topic),
            "SendMessageBatch" | "PublishBatch" | "PutRecordBatch" | "Invoke" | "POST" => Some(Place::Target),
            "PutObject" if !call.target.contains(&names.control) => Some(Place::Archive),
            _ => None,
        }
    }

    /// Records that the function began a call.
    fn called(&mut self, call: &Call) {
        if !matches!(self.place(call), Some(Place::Target | Place::Topic)) {
            return;
        }
        let Some(run) = self.run_of(call) else { return };
        for entry in entries(call).iter() {
            for who in self.scene.letters(&entry.body) {
                if let Some((run, Handed { message, .. })) = self.handed(run, who, None) {
                    let message = *message;
                    self.ledger.fact(who, message, Some(run), What::Called);
                }
            }
        }
    }
}

/// Returns the entries of a call; one without entries has its body as the only one.
fn entries(call: &Call) -> std::borrow::Cow<'_, [Entry]> {
    if call.entries.is_empty() {
        vec![Entry::new("", String::from_utf8_lossy(&call.body))].into()
    } else {
        call.entries.as_slice().into()
    }
}

/// Returns the retries behind a letter by its mark: that beside it, or that in its envelope or event of SNS.
#[must_use]
pub fn spent_by(body: &str, attributes: &Attributes) -> Option<usize> {
    let mark = attributes.get(MARK).map(|mark| mark.value.text()).or_else(|| {
        let body: Value = serde_json::from_str(body).ok()?;
        let sns = body.pointer("/Records/0/Sns").unwrap_or(&body);
        Some(sns["MessageAttributes"][MARK]["Value"].as_str()?.to_owned())
    })?;
    let mark: Value = serde_json::from_str(&mark).ok()?;
    mark["spent"].as_u64().and_then(|spent| usize::try_from(spent).ok())
}

//! The reader: `redrive-sim`'s journal becomes the facts of letters.

mod calls;
mod faults;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use redrive_sim::{AwsService, SimAttributes, SimCall, SimEntry, SimEvent, SimMillis, SimPayload, SimRecord};
use serde_json::Value;

use super::facts::{LetterNumber, LifeEvent, MessageNumber, RunEnd, RunId, SentPlace};
use super::finished_call::FinishedCall;
use super::ledger::Ledger;
use super::world_scene::WorldScene;

/// The caller that Lambda's mappings are.
const MAPPING: &str = "mapping";

/// The attribute with the function's mark.
const MARK: &str = "sns-redrive";

/// A reader of the journal of one world.
#[derive(Debug)]
pub struct LetterReader<S> {
    /// The world.
    pub scene: S,
    /// The facts so far.
    pub ledger: Ledger,
    /// The numbers of the messages by SQS's ids.
    numbers: HashMap<Arc<str>, MessageNumber>,
    /// The letter of each message.
    whose: Vec<LetterNumber>,
    /// The letters of messages that SQS has not moved to the dead-letter queue yet.
    in_source: HashMap<Arc<str>, LetterNumber>,
    /// The messages that SQS has moved.
    moved: BTreeSet<MessageNumber>,
    /// The batches of the invocations.
    batches: Vec<Vec<InvokedMessage>>,
    /// The invocations of each process.
    runs: HashMap<Arc<str>, Vec<RunId>>,
    /// The subscriptions that SNS called impossible, by process. A process believes this for five minutes.
    unknown: HashMap<Arc<str>, BTreeSet<String>>,
    /// The processes that could not ask the queue from which SQS moves letters. Each remembers this for a
    /// while.
    uncounted: BTreeSet<Arc<str>>,
    settled: BatchSettlement,
    /// The runs that failed of functions that a caller waits for, until they are answered: callers and events.
    failed: BTreeSet<(Arc<str>, String)>,
}

/// A message of an invocation.
#[derive(Debug, Clone)]
struct InvokedMessage {
    who: LetterNumber,
    message: MessageNumber,
    handle: Arc<str>,
    /// The number of times it has left in this invocation.
    left: usize,
}

/// The mapping's handling of its last batch.
#[derive(Debug, Default)]
struct BatchSettlement {
    kept: BTreeSet<Arc<str>>,
    failed: Option<String>,
    deleted: BTreeSet<Arc<str>>,
}

impl<S: WorldScene> LetterReader<S> {
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
            settled: BatchSettlement::default(),
            failed: BTreeSet::new(),
        }
    }

    /// Returns the number of a message.
    pub fn number(&self, id: &str) -> Option<MessageNumber> {
        self.numbers.get(id).copied()
    }

    /// Records that a process is handed a batch, by its ids and receipt handles; returns the invocation and its
    /// letters.
    pub fn begin<'m>(
        &mut self,
        now: SimMillis,
        caller: &Arc<str>,
        batch: impl Iterator<Item = (&'m Arc<str>, &'m Arc<str>)>,
        deliver_for: SimMillis,
    ) -> (RunId, Vec<LetterNumber>) {
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
            self.ledger.fact(who, message, Some(run), LifeEvent::Handed);
            if self.moved.contains(&message) && self.uncounted.contains(caller) {
                self.ledger.fact(who, message, Some(run), LifeEvent::Uncounted);
            }
            handed.push(InvokedMessage { who, message, handle: Arc::clone(handle), left: 0 });
        }
        let letters = handed.iter().map(|it| it.who).collect();
        self.batches.push(handed);
        (run, letters)
    }

    /// Records the end of an invocation. What Lambda does then is read next, and [`settled`](Self::settled) after
    /// that.
    pub fn end(&mut self, now: SimMillis, run: RunId, ending: RunEnd) {
        self.ledger.pass_to(now);
        self.ledger.end(run, ending, None);
        self.settled = BatchSettlement::default();
    }

    /// Records what Lambda did after an invocation. `ids` are the messages of the batch; returns how many of them it
    /// tried to delete.
    pub fn settled<'m>(&mut self, run: RunId, ids: impl Iterator<Item = &'m Arc<str>>) -> usize {
        let BatchSettlement { kept, failed, deleted } = std::mem::take(&mut self.settled);
        if self.ledger.runs()[run].ending != RunEnd::Heard {
            if self.ledger.runs()[run].ending == RunEnd::Failed {
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
                LifeEvent::Kept
            } else if deleted.contains(id) {
                LifeEvent::Deleted
            } else {
                LifeEvent::NotDeleted
            };
            self.ledger.fact(self.whose[message], message, Some(run), what);
        }
        tried
    }

    /// Reads events, which come after all that were read before.
    pub fn read(&mut self, records: &[SimRecord]) {
        for (index, record) in records.iter().enumerate() {
            self.ledger.pass_to(record.at);
            self.event(records, index, record);
        }
    }

    fn event(&mut self, records: &[SimRecord], index: usize, record: &SimRecord) {
        let by = &*record.by;
        match &record.event {
            SimEvent::Called(call) if self.is_functions(call) => self.called(call),
            SimEvent::Faulty { call, fault } => self.faulty(call, fault),
            SimEvent::Answered { call, fault, status, effects } if self.is_functions(call) => {
                let Some(run) = self.run_of(call) else { return };
                let effects = &records[index - effects..index];
                let has_failed = call.service == AwsService::Lambda
                    && self.failed.remove(&(
                        Arc::clone(&call.caller),
                        String::from_utf8_lossy(&call.body).into_owned(),
                    ));
                self.answered(&FinishedCall { call, fault, status: *status, effects, has_failed, run });
            }
            SimEvent::BatchEnded { kept, failed: Some(why), .. } if why == "throttled" => {
                for id in kept {
                    self.message(id, LifeEvent::Throttled);
                }
            }
            SimEvent::BatchEnded { kept, failed, .. } => {
                self.settled.kept.extend(kept.iter().map(Arc::clone));
                self.settled.failed.clone_from(failed);
            }
            SimEvent::Deleted { id, .. } if by == MAPPING => {
                self.settled.deleted.insert(Arc::clone(id));
            }
            SimEvent::Sent { queue, id, payload, .. } => self.sent(by, queue, id, payload),
            SimEvent::Moved { to, id, .. } if **to == *self.scene.names().dlq => {
                if let Some(who) = self.in_source.remove(id) {
                    self.moved.insert(self.whose.len());
                    self.queued(id, who, to, 0);
                }
            }
            SimEvent::Received { id, count, .. } => self.message(id, LifeEvent::Received { count: *count }),
            SimEvent::Hidden { id, .. } if by == "operator" => self.message(id, LifeEvent::Woken),
            SimEvent::Duplicated { id, .. } => self.message(id, LifeEvent::Duplicated),
            SimEvent::Expired { id, .. } => self.message(id, LifeEvent::Expired),
            SimEvent::Invoked { payload, ok: false, .. } if self.runs.contains_key(&record.by) => {
                self.failed.insert((Arc::clone(&record.by), payload.clone()));
            }
            SimEvent::Invoked { function, payload, ok: true } if by == "lambda" => {
                self.arrived(function, payload, None);
            }
            SimEvent::Streamed { stream, data } if by == "sns" => {
                self.arrived(stream, String::from_utf8_lossy(data).trim_end(), None);
            }
            SimEvent::Posted { host, body, status: 200..300, .. } if by == "sns" => {
                self.arrived(host, &String::from_utf8_lossy(body), None);
            }
            _ => {}
        }
    }

    /// Records a message that a queue took.
    fn sent(&mut self, by: &str, queue: &Arc<str>, id: &Arc<str>, payload: &Arc<SimPayload>) {
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

    fn queued(&mut self, id: &Arc<str>, who: LetterNumber, queue: &str, spent: usize) {
        let message = self.whose.len();
        self.whose.push(who);
        self.numbers.insert(Arc::clone(id), message);
        self.ledger.fact(who, message, None, LifeEvent::Queued { queue: queue.to_owned(), spent });
    }

    /// Records what an endpoint got from SNS, if SNS delivers what the function publishes.
    fn arrived(&mut self, to: &str, text: &str, payload: Option<&SimPayload>) {
        let names = self.scene.names();
        if names.topic.is_none() || to == names.witness {
            return;
        }
        let entry = SimEntry {
            body: text.to_owned(),
            attributes: payload.map(|it| it.attributes.clone()).unwrap_or_default(),
            ..SimEntry::default()
        };
        for who in self.scene.letters(text) {
            let wrong = self.scene.is_delivered(who, to, &entry).err();
            self.ledger.note(who, None, None, LifeEvent::Arrived { wrong });
        }
    }

    fn message(&mut self, id: &str, what: LifeEvent) {
        if let Some(message) = self.number(id) {
            self.ledger.fact(self.whose[message], message, None, what);
        }
    }

    /// Reports whether the function made a call.
    fn is_functions(&self, call: &SimCall) -> bool {
        self.runs.contains_key(&call.caller) || *call.caller == *self.scene.names().poster
    }

    fn run_by(&self, caller: &str) -> Option<RunId> {
        self.runs.get(caller)?.last().copied()
    }

    /// Returns the invocation that made a call. The web server does not know who posts: the call is by the
    /// last invocation that has the letter.
    fn run_of(&self, call: &SimCall) -> Option<RunId> {
        if *call.caller != *self.scene.names().poster {
            return self.run_by(&call.caller);
        }
        let who = *self.scene.letters(&String::from_utf8_lossy(&call.body)).first()?;
        self.batches.iter().rposition(|batch| batch.iter().any(|handed| handed.who == who))
    }

    /// Returns the invocation and the message that a letter is sent from. If the letter has two messages,
    /// returns the one that was sent less often. A call that was given up may arrive when its process already
    /// works on the next batch.
    fn handed(
        &mut self,
        run: RunId,
        who: LetterNumber,
        message: Option<MessageNumber>,
    ) -> Option<(RunId, &mut InvokedMessage)> {
        let fits = |handed: &&mut InvokedMessage| {
            handed.who == who && message.is_none_or(|number| handed.message == number)
        };
        let has = |run: &&RunId| self.batches[**run].iter().any(|handed| handed.who == who);
        let caller = &self.ledger.runs()[run].caller;
        let run = self.runs.get(caller)?.iter().rev().find(has).copied()?;
        let handed = self.batches[run].iter_mut().filter(fits).min_by_key(|handed| handed.left)?;
        Some((run, handed))
    }

    /// Returns the place to which a call sends letters, or `None` if it sends none.
    fn place(&self, call: &SimCall) -> Option<SentPlace> {
        let names = self.scene.names();
        match call.operation.as_str() {
            "SendMessageBatch" if call.target == names.requeue => Some(SentPlace::Requeue),
            "SendMessageBatch" if call.target == names.archive => Some(SentPlace::Archive),
            "PublishBatch" if names.topic.as_ref() == Some(&call.target) => Some(SentPlace::Topic),
            "SendMessageBatch" | "PublishBatch" | "PutRecordBatch" | "Invoke" | "POST" => {
                Some(SentPlace::Target)
            }
            "PutObject" if !call.target.contains(&names.control) => Some(SentPlace::Archive),
            _ => None,
        }
    }

    /// Records that the function began a call.
    fn called(&mut self, call: &SimCall) {
        if !matches!(self.place(call), Some(SentPlace::Target | SentPlace::Topic)) {
            return;
        }
        let Some(run) = self.run_of(call) else { return };
        for entry in entries(call).iter() {
            for who in self.scene.letters(&entry.body) {
                if let Some((run, InvokedMessage { message, .. })) = self.handed(run, who, None) {
                    let message = *message;
                    self.ledger.fact(who, message, Some(run), LifeEvent::Called);
                }
            }
        }
    }
}

/// Returns the entries of a call; one without entries has its body as the only one.
fn entries(call: &SimCall) -> std::borrow::Cow<'_, [SimEntry]> {
    if call.entries.is_empty() {
        vec![SimEntry::new("", String::from_utf8_lossy(&call.body))].into()
    } else {
        call.entries.as_slice().into()
    }
}

/// Returns the retries behind a letter by its mark: that beside it, or that in its envelope or event of SNS.
#[must_use]
pub fn spent_by(body: &str, attributes: &SimAttributes) -> Option<usize> {
    let mark = attributes.get(MARK).map(|mark| mark.value.text()).or_else(|| {
        let body: Value = serde_json::from_str(body).ok()?;
        let sns = body.pointer("/Records/0/Sns").unwrap_or(&body);
        Some(sns["MessageAttributes"][MARK]["Value"].as_str()?.to_owned())
    })?;
    let mark: Value = serde_json::from_str(&mark).ok()?;
    mark["spent"].as_u64().and_then(|spent| usize::try_from(spent).ok())
}

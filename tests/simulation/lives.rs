//! The lives of letters, read from the journal. This is a separate ledger that does not rely on what the
//! function reports.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use redrive_sim::{Call, Event, Fault, Millis, Payload, Record};
use serde_json::Value;

use crate::hook::is_to_archive;
use crate::live::{Run, Story, TENANT, TOKEN, letter_at, subscription, text_of};
use crate::world::{ARCHIVE, DLQ, REQUEUE, Target, World, endpoint};

/// Returns the message in an envelope or event of SNS with its attribute, or the text if it is neither, with the
/// attribute that is beside it in a queue.
fn content<'t>(
    text: &'t str,
    value: &'t Value,
    beside: Option<&'t Payload>,
) -> (&'t str, Option<Cow<'t, str>>) {
    let sns = value.pointer("/Records/0/Sns").unwrap_or(value);
    if let Some(message) = sns["Message"].as_str() {
        let tenant = sns["MessageAttributes"]["tenant"]["Value"].as_str().unwrap_or_default();
        (message, Some(tenant.into()))
    } else {
        let of = |payload: &'t Payload| payload.attributes.get("tenant").map(|it| it.value.text());
        (text, beside.map(|payload| of(payload).unwrap_or_default().into()))
    }
}

/// A letter: a published message that did not reach one subscription.
pub struct Life<'s> {
    pub world: &'s World,
    pub story: &'s Story,
    pub letter: usize,
    pub subscriber: usize,
    pub facts: Vec<Fact>,
}

#[derive(Debug, Clone)]
pub struct Fact {
    /// The position in the journal.
    pub index: usize,
    pub at: Millis,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A queue of the function took a message. The function itself sends those in the requeue.
    Sent {
        message: Arc<str>,
        queue: String,
    },
    Received {
        message: Arc<str>,
        count: u32,
    },
    Hidden {
        message: Arc<str>,
        seconds: i64,
    },
    Deleted {
        message: Arc<str>,
    },
    /// The function asked to hide it, and another copy of it had been deleted.
    HiddenInVain {
        message: Arc<str>,
    },
    Duplicated {
        message: Arc<str>,
    },
    /// An operator showed it, perhaps in the middle of an attempt.
    Woken {
        message: Arc<str>,
    },
    Expired {
        message: Arc<str>,
    },
    /// The function called the endpoint, or the topic, in this run.
    Called {
        run: usize,
    },
    /// Its own endpoint took it, from the function or from SNS.
    Delivered,
    /// The topic took it.
    Published,
    /// An endpoint other than its own took it.
    Astray {
        to: String,
    },
    /// It arrived with another message than was published.
    Altered {
        message: String,
    },
    Archived {
        reason: String,
    },
    /// A call, or a batch of it, had a fault.
    Disturbed {
        what: Disturbed,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbed {
    /// The mapping received it, and the function did not run.
    Throttled,
    /// The function ran and did not finish.
    Died,
    /// A delivery, an archiving or a move may have had an effect without an answer.
    Unheard,
    Hide,
    Delete,
    Archive,
    Read,
    Slow,
}

/// An attempt: the calls of a run to the endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub index: usize,
    pub at: Millis,
    pub last: Millis,
    pub run: usize,
}

/// Returns the life of every letter.
pub fn lives<'s>(world: &'s World, story: &'s Story) -> Vec<Life<'s>> {
    let mut reader = Reader::new(world, story);
    for (index, record) in story.journal.iter().enumerate() {
        reader.read(index, record);
    }
    reader.disturbances();
    let letters = 0..world.letters.len();
    let all = letters.flat_map(|letter| (0..world.subscribers.len()).map(move |one| (letter, one)));
    all.map(|(letter, subscriber)| {
        let mut facts = reader.facts.remove(&(letter, subscriber)).unwrap_or_default();
        facts.sort_by_key(|fact| fact.index);
        Life { world, story, letter, subscriber, facts }
    })
    .collect()
}

type Key = (usize, usize);

struct Reader<'s> {
    world: &'s World,
    story: &'s Story,
    facts: BTreeMap<Key, Vec<Fact>>,
    messages: HashMap<Arc<str>, Key>,
    /// The messages that SQS has not moved to the dead-letter queue yet.
    in_source: HashMap<Arc<str>, Key>,
    handles: HashMap<Arc<str>, Arc<str>>,
    deleted: BTreeSet<Arc<str>>,
}

impl<'s> Reader<'s> {
    fn new(world: &'s World, story: &'s Story) -> Self {
        Self {
            world,
            story,
            facts: BTreeMap::new(),
            messages: HashMap::new(),
            in_source: HashMap::new(),
            handles: HashMap::new(),
            deleted: BTreeSet::new(),
        }
    }

    fn note(&mut self, key: Key, index: usize, at: Millis, what: What) {
        self.facts.entry(key).or_default().push(Fact { index, at, what });
    }

    /// Returns the letters whose text is in a body.
    fn letters(&self, body: &str) -> Vec<Key> {
        // One search for all: there are many letters, and many texts.
        let mut letters: Vec<_> =
            body.match_indices(TOKEN).filter_map(|(at, _)| letter_at(&body[at..])).collect();
        letters.sort_unstable();
        letters.dedup();
        let of = |letter: usize| {
            let all = 0..self.world.subscribers.len();
            let named: Vec<_> = all.clone().filter(|one| body.contains(&subscription(*one))).collect();
            // A published message names no subscription.
            let named = if named.is_empty() { all.collect() } else { named };
            named.into_iter().map(move |one| (letter, one))
        };
        letters.into_iter().flat_map(of).collect()
    }

    fn run_of(&self, caller: &str, index: usize) -> Option<usize> {
        let is = |run: &Run| &*run.caller == caller && (run.from..run.to).contains(&index);
        self.story.runs.iter().position(is)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
    fn read(&mut self, index: usize, record: &Record) {
        let (at, by) = (record.at, &*record.by);
        let of_function = by.strip_prefix("fn-").is_some();
        match &record.event {
            Event::Sent { id, payload, .. } if by == "publisher" => {
                let keys = self.letters(&payload.body).into_iter();
                self.in_source.extend(keys.map(|key| (Arc::clone(id), key)));
            }
            Event::Moved { id, .. } => {
                if let Some(key) = self.in_source.remove(id) {
                    self.messages.insert(Arc::clone(id), key);
                    let what = What::Sent { message: Arc::clone(id), queue: DLQ.to_owned() };
                    self.note(key, index, at, what);
                }
            }
            Event::Sent { queue, id, payload, .. } => {
                let keys = self.letters(&payload.body);
                let name = queue.strip_suffix(".fifo").unwrap_or(queue);
                for key in keys {
                    let what = match name {
                        DLQ | REQUEUE => {
                            self.messages.insert(Arc::clone(id), key);
                            What::Sent { message: Arc::clone(id), queue: name.to_owned() }
                        }
                        ARCHIVE => {
                            let record = payload.attributes.get("sns-redrive-archive");
                            let record = record.map(|it| it.value.text()).unwrap_or_default();
                            What::Archived { reason: reason(&record) }
                        }
                        "witness" if by == "sns" => continue,
                        _ => self.arrived(key, queue, &payload.body, Some(payload)),
                    };
                    self.note(key, index, at, what);
                }
            }
            Event::Swallowed { name, body, .. } => {
                for key in self.letters(body) {
                    if **name == self.world.name(ARCHIVE) {
                        self.note(key, index, at, What::Archived { reason: "again".to_owned() });
                    }
                }
            }
            Event::Invoked { function, payload, ok: true } => {
                for key in self.letters(payload) {
                    let what = self.arrived(key, function, payload, None);
                    self.note(key, index, at, what);
                }
            }
            Event::Streamed { stream, data } => {
                let text = String::from_utf8_lossy(data);
                for key in self.letters(&text) {
                    // A line each, as SNS's own.
                    let what = self.arrived(key, stream, text.trim_end(), None);
                    self.note(key, index, at, what);
                }
            }
            Event::Posted { host, body, status: 200..300, .. } => {
                let text = String::from_utf8_lossy(body);
                for key in self.letters(&text) {
                    let what = self.arrived(key, host, &text, None);
                    self.note(key, index, at, what);
                }
            }
            Event::Published { message, .. } if of_function => {
                for key in self.letters(message) {
                    let asked = self.world.target == Target::Topic;
                    let what = if asked { What::Published } else { What::Astray { to: self.world.topic() } };
                    self.note(key, index, at, what);
                }
            }
            Event::Stored { object, .. } => {
                let lines = self.story.archived.iter().find(|(place, _)| place == object);
                for line in lines.map(|(_, text)| text.as_str()).unwrap_or_default().lines() {
                    for key in self.letters(line) {
                        self.note(key, index, at, What::Archived { reason: reason(line) });
                    }
                }
            }
            Event::Called(call) if of_function => self.called(index, at, by, call),
            Event::Received { id, count, handle, .. } => {
                self.handles.insert(Arc::clone(handle), Arc::clone(id));
                self.message(index, at, id, |message| What::Received { message, count: *count });
            }
            Event::Hidden { id, .. } if by == "operator" => {
                self.message(index, at, id, |message| What::Woken { message });
            }
            Event::Hidden { id, seconds, .. } => {
                self.message(index, at, id, |message| What::Hidden { message, seconds: *seconds });
            }
            Event::Deleted { id, .. } => {
                self.deleted.insert(Arc::clone(id));
                self.message(index, at, id, |message| What::Deleted { message });
            }
            Event::Duplicated { id, .. } => {
                self.message(index, at, id, |message| What::Duplicated { message });
            }
            Event::Expired { id, .. } => self.message(index, at, id, |message| What::Expired { message }),
            Event::BatchEnded { kept, failed: Some(why), .. } if why == "throttled" => {
                for id in kept {
                    self.message(index, at, id, |_| What::Disturbed { what: Disturbed::Throttled });
                }
            }
            _ => {}
        }
    }

    fn arrived(&self, (letter, subscriber): Key, to: &str, text: &str, beside: Option<&Payload>) -> What {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let (message, tenant) = content(text, &value, beside);
        if endpoint(self.world, subscriber) != to {
            What::Astray { to: to.to_owned() }
        } else if message != text_of(letter) || tenant.as_deref().is_some_and(|tenant| tenant != TENANT) {
            What::Altered { message: format!("{message}, {tenant:?}") }
        } else {
            What::Delivered
        }
    }

    fn message(&mut self, index: usize, at: Millis, id: &Arc<str>, what: impl Fn(Arc<str>) -> What) {
        if let Some(key) = self.messages.get(id).copied() {
            self.note(key, index, at, what(Arc::clone(id)));
        }
    }

    /// Records the attempts that a call makes.
    fn called(&mut self, index: usize, at: Millis, by: &str, call: &Call) {
        let Some(run) = self.run_of(by, index) else { return };
        if call.operation == "ChangeMessageVisibilityBatch" {
            let handles = call.entries.iter().filter_map(|entry| entry.handle.as_deref());
            let ids = handles.filter_map(|handle| self.handles.get(handle));
            let gone: Vec<_> = ids.filter(|id| self.deleted.contains(*id)).cloned().collect();
            for id in gone {
                self.message(index, at, &id, |message| What::HiddenInVain { message });
            }
        }
        let topic = self.world.topic();
        for key in self.keys(call) {
            let is_own = call.target == endpoint(self.world, key.1);
            let sends = ["SendMessageBatch", "PublishBatch", "PutRecordBatch", "Invoke", "POST"];
            let is_topic = self.world.target == Target::Topic && call.target == topic;
            if sends.contains(&call.operation.as_str()) && (is_own || is_topic) {
                self.note(key, index, at, What::Called { run });
            }
        }
    }

    /// Returns the letters of a call.
    fn keys(&self, call: &Call) -> Vec<Key> {
        let mut keys = self.mentions(call);
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the letters of a call as often as it names them: a batch may have a message and its duplicate.
    fn mentions(&self, call: &Call) -> Vec<Key> {
        let mut keys = Vec::new();
        for line in String::from_utf8_lossy(&call.body).lines() {
            keys.extend(self.letters(line));
        }
        for entry in &call.entries {
            keys.extend(self.letters(&entry.body));
            let id = entry.handle.as_deref().and_then(|handle| self.handles.get(handle));
            keys.extend(id.and_then(|id| self.messages.get(id)));
        }
        keys
    }

    /// Records the disturbances.
    fn disturbances(&mut self) {
        for disturbance in &self.story.disturbances {
            let call = &disturbance.call;
            let by_function = call.caller.strip_prefix("fn-").is_some();
            let index = self.story.journal.partition_point(|record| record.at <= disturbance.at);
            let (slow, course) = split(&disturbance.fault);
            let unheard = matches!(course, Fault::ResetAfter | Fault::HangAfter | Fault::CutAfter);
            let mut what = Vec::new();
            what.extend(match call.operation.as_str() {
                // The function waits for a look-up only until the attempt's time is over.
                "GetQueueAttributes" | "GetSubscriptionAttributes" | "ListSubscriptions"
                    if slow || course != Fault::Pass =>
                {
                    Some(Disturbed::Read)
                }
                _ if course == Fault::Pass => None,
                "DeleteMessageBatch" => Some(Disturbed::Delete),
                "ChangeMessageVisibilityBatch" => Some(Disturbed::Hide),
                _ if is_to_archive(self.world, call) => Some(Disturbed::Archive),
                _ => None,
            });
            if unheard && by_function {
                what.push(Disturbed::Unheard);
            }
            let keys = self.mentions(call);
            if slow && !keys.is_empty() {
                what.push(Disturbed::Slow);
            }
            // A call that names no letter concerns all letters.
            let keys = if keys.is_empty() { self.facts.keys().copied().collect() } else { keys };
            for key in keys {
                for what in &what {
                    self.note(key, index, disturbance.at, What::Disturbed { what: *what });
                }
            }
        }
        for run in self.story.runs.iter().filter(|run| run.kept.is_none()) {
            for id in &run.ids {
                self.message(run.to, run.ended, id, |_| What::Disturbed { what: Disturbed::Died });
            }
        }
    }
}

/// Returns whether a request waits, and its further course.
fn split(fault: &Fault) -> (bool, Fault) {
    match fault {
        Fault::Slow(_, then) => (true, split(then).1),
        other => (false, other.clone()),
    }
}

/// Returns the reason in an archive's record.
fn reason(record: &str) -> String {
    let record: Value = serde_json::from_str(record).unwrap_or_default();
    record["reason"].as_str().unwrap_or("unknown").to_owned()
}

impl Life<'_> {
    pub fn attempts(&self) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        for fact in &self.facts {
            let What::Called { run } = fact.what else { continue };
            match attempts.iter_mut().find(|attempt| attempt.run == run) {
                Some(attempt) => attempt.last = fact.at,
                None => attempts.push(Attempt { index: fact.index, at: fact.at, last: fact.at, run }),
            }
        }
        attempts
    }

    /// Reports whether every target refuses its content.
    pub fn is_bad(&self) -> bool {
        self.world.bad.contains(&self.letter)
    }

    /// Reports whether the archive refuses its content as well, or that of a letter before it in its FIFO group, which
    /// it must not overtake.
    pub fn is_refused_everywhere(&self) -> bool {
        let (bad, letters) = (&self.world.bad, &self.world.letters);
        let holds = |other: &usize| {
            self.world.fifo && *other < self.letter && letters[*other].group == letters[self.letter].group
        };
        self.world.archive_refuses() && (self.is_bad() || bad.iter().any(holds))
    }

    /// Reports whether no letter of its FIFO group came before it. Without groups every letter is the first.
    pub fn is_first_of_group(&self) -> bool {
        let letters = &self.world.letters;
        let group = |letter: usize| letters[letter].group;
        !self.world.fifo || (0..self.letter).all(|other| group(other) != group(self.letter))
    }

    /// Returns the archivings with their reasons.
    pub fn archived(&self) -> Vec<(&Fact, &str)> {
        let mut archived = Vec::new();
        for fact in &self.facts {
            if let What::Archived { reason } = &fact.what {
                archived.push((fact, reason.as_str()));
            }
        }
        archived
    }

    pub fn count(&self, is: impl Fn(&What) -> bool) -> usize {
        self.facts.iter().filter(|fact| is(&fact.what)).count()
    }

    pub fn disturbed(&self, by: &[Disturbed]) -> usize {
        self.count(|what| matches!(what, What::Disturbed { what } if by.contains(what)))
    }

    /// Returns the first fact after which the letter is safe: its endpoint or the archive has it.
    pub fn end(&self) -> Option<&Fact> {
        self.facts.iter().find(|fact| matches!(fact.what, What::Delivered | What::Archived { .. }))
    }

    /// Reports whether an operator woke it while a run had it.
    pub fn is_woken_in_a_run(&self) -> bool {
        self.facts.iter().any(|fact| match &fact.what {
            What::Woken { message } => {
                self.runs_of(message).any(|run| (run.from..run.to).contains(&fact.index))
            }
            _ => false,
        })
    }

    /// Returns the messages that carried it.
    pub fn messages(&self) -> Vec<(&Fact, Arc<str>, &str)> {
        let mut messages = Vec::new();
        for fact in &self.facts {
            if let What::Sent { message, queue } = &fact.what {
                messages.push((fact, Arc::clone(message), queue.as_str()));
            }
        }
        messages
    }

    /// Returns how many instances of the function have received it, at least one.
    pub fn instances(&self) -> usize {
        let messages: BTreeSet<_> = self.messages().into_iter().map(|(_, message, _)| message).collect();
        let runs = self.story.runs.iter().filter(|run| run.ids.iter().any(|id| messages.contains(id)));
        runs.map(|run| &run.caller).collect::<BTreeSet<_>>().len().max(1)
    }

    /// Returns the runs that had a message.
    pub fn runs_of<'a>(&'a self, message: &'a Arc<str>) -> impl Iterator<Item = &'a Run> {
        self.story.runs.iter().filter(move |run| run.ids.contains(message))
    }

    /// Returns a broken law in words, with the letter's whole life.
    pub fn broken(&self, what: &str) -> Result<(), String> {
        let mut text = format!("letter {} of subscriber {}: {what}\n", self.letter, self.subscriber);
        for Fact { index, at, what } in &self.facts {
            let seconds = at - self.story.start;
            writeln!(text, "  {index:>5} {:>10}.{:03} {what:?}", seconds / 1000, seconds % 1000).unwrap();
        }
        for run in &self.story.runs {
            let began = run.began - self.story.start;
            writeln!(text, "  run {} {}..{} {began} {:?}", run.caller, run.from, run.to, run.kept).unwrap();
        }
        Err(text)
    }
}

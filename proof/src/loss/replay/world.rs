//! AWS around a replay: the bucket that holds the archive, and the requeue.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::TIMEOUT;
use super::books::{Books, Objects};
use crate::Reply;
use crate::loss::faults::{self, Fault};
use crate::loss::ledger::Run as Invocation;
use crate::loss::letters::{Letter, arn, token};
use crate::loss::mapping::Process;
use crate::loss::world::Caller;
use crate::protocol::{Call, Response, batch_answer, etag, refusal, response, tagged};
use crate::wire::Raw;

/// Keys on a page of a listing, so that there are several.
const PAGE: usize = 2;

/// A call. What is kept in the bucket is told apart by its key, and by whether it is written for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Site {
    ListLetters,
    ListState,
    Letters,
    GetLock,
    GetManifest,
    GetLedger,
    TakeLock,
    KeepLock,
    NewManifest,
    Manifest,
    NewLedger,
    Ledger,
    Waiting,
    Send,
    Answer,
    /// The archiving of the letters, which is no part of a replay.
    Store,
}

/// AWS around a replay.
#[derive(Debug)]
pub(super) struct World {
    letters: Vec<Letter>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) objects: Objects,
    /// Whether the letters are archived.
    is_full: bool,
    injections: Vec<Injection>,
    calls: BTreeMap<Site, usize>,
    pub(super) made: BTreeMap<Site, usize>,
    /// Invocations that met a fault.
    pub(super) troubled: BTreeSet<Invocation>,
    pub(super) books: Books,
}

/// A fault for some calls.
#[derive(Debug)]
pub(super) struct Injection {
    pub(super) site: Site,
    pub(super) fault: Fault,
    pub(super) from: usize,
    pub(super) calls: usize,
}

impl Site {
    /// Every site of a replay.
    pub(super) const ALL: [Self; 15] = [
        Self::ListLetters,
        Self::ListState,
        Self::Letters,
        Self::GetLock,
        Self::GetManifest,
        Self::GetLedger,
        Self::TakeLock,
        Self::KeepLock,
        Self::NewManifest,
        Self::Manifest,
        Self::NewLedger,
        Self::Ledger,
        Self::Waiting,
        Self::Send,
        Self::Answer,
    ];

    /// As the figures name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ListLetters => "ListObjectsV2, letters",
            Self::ListState => "ListObjectsV2, ledgers",
            Self::Letters => "GetObject, letters",
            Self::GetLock => "GetObject, lock",
            Self::GetManifest => "GetObject, manifest",
            Self::GetLedger => "GetObject, ledger",
            Self::TakeLock => "PutObject, lock taken",
            Self::KeepLock => "PutObject, lock given back",
            Self::NewManifest => "PutObject, new manifest",
            Self::Manifest => "PutObject, manifest",
            Self::NewLedger => "PutObject, ledger before sending",
            Self::Ledger => "PutObject, ledger after sending",
            Self::Waiting => "GetQueueAttributes",
            Self::Send => "SendMessageBatch, requeue",
            Self::Answer => "event and answer",
            Self::Store => "PutObject, letters",
        }
    }

    /// Whether a fault makes sense here: what reads has no effect, only sending is a batch, and Lambda takes an answer
    /// or does not hear it.
    pub(super) fn has(self, fault: Fault) -> bool {
        match fault {
            _ if self == Self::Answer => {
                matches!(fault, Fault::KillBefore | Fault::KillAfter | Fault::BreakAfter)
            }
            Fault::Freeze => false,
            Fault::Partial | Fault::PartialSender => self == Self::Send,
            Fault::Mute | Fault::BreakAfter | Fault::KillAfter => self.writes(),
            _ => true,
        }
    }

    fn writes(self) -> bool {
        use Site::{KeepLock, Ledger, Manifest, NewLedger, NewManifest, Send, TakeLock};
        matches!(self, TakeLock | KeepLock | NewManifest | Manifest | NewLedger | Ledger | Send)
    }

    /// The site of the other matrix whose service refuses in the same words.
    fn words(self) -> faults::Site {
        match self {
            Self::Send => faults::Site::Requeue,
            Self::Waiting => faults::Site::RequeueAttributes,
            _ => faults::Site::Store,
        }
    }
}

impl World {
    pub(super) fn new(letters: Vec<Letter>, objects: Objects, injections: Vec<Injection>) -> Arc<Self> {
        let state = State { is_full: !objects.is_empty(), objects, injections, ..State::default() };
        Arc::new(Self { letters, state: Mutex::new(state) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process of the function with this policy.
    pub(super) fn process(self: &Arc<Self>, binary: &Path, log: Option<&Path>, policy: &Value) -> Process {
        let variables = |address: &str| {
            [
                ("AWS_ENDPOINT_URL", format!("http://{address}")),
                ("ARCHIVE", "s3://graveyard/dead-letters".to_owned()),
                ("REQUEUE_ARN", arn("sqs", "orders-requeue")),
                ("REDRIVE_POLICY", policy.to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
        };
        let world = Arc::clone(self);
        Process::start(binary, log, variables, move |caller, raw| world.answer(caller, raw))
    }

    fn answer(&self, caller: &Caller, raw: &Raw) -> Reply {
        let call = crate::call(raw);
        let run = caller.run.load(Ordering::Relaxed);
        let mut state = self.state();
        let site = state.site(&call);
        let fault = state.fault(site, run);
        if let Some((status, code, message)) = fault.and_then(|fault| fault.refusal(site.words())) {
            if matches!(site, Site::NewLedger | Site::Ledger) {
                state.books.unwritten(run);
            }
            return Reply::Answer(refusal(&call.op, status, code, message));
        }
        let effect = !matches!(fault, Some(Fault::Silent | Fault::BreakBefore | Fault::KillBefore));
        let partial = fault.filter(|it| matches!(it, Fault::Partial | Fault::PartialSender));
        let heard = fault.is_none() || partial.is_some();
        if !heard && matches!(site, Site::NewLedger | Site::Ledger) {
            state.books.unwritten(run);
        }
        let answer = effect.then(|| match site {
            Site::ListLetters | Site::ListState => response(200, state.list(&call)),
            Site::Letters | Site::GetLock | Site::GetManifest | Site::GetLedger => state.get(&call),
            Site::Waiting => {
                let waiting = json!({ "ApproximateNumberOfMessages": "0" });
                response(200, json!({ "Attributes": waiting }).to_string())
            }
            Site::Send => state.send(&call, run, heard, partial, &self.letters),
            _ => state.put(&call),
        });
        drop(state);
        match (fault, answer) {
            (None | Some(Fault::Partial | Fault::PartialSender), Some(answer)) => Reply::Answer(answer),
            (Some(Fault::Silent | Fault::Mute), _) => {
                let until = Instant::now() + TIMEOUT;
                while Instant::now() < until && !caller.gone.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Reply::Reset
            }
            (Some(Fault::KillBefore | Fault::KillAfter), _) => {
                if let Some(killer) = caller.killer.get() {
                    killer.kill();
                }
                Reply::Reset
            }
            _ => Reply::Reset,
        }
    }
}

impl State {
    fn site(&self, call: &Call) -> Site {
        let is_new = call.headers.contains_key("if-none-match");
        let is = |end: &str| call.to.contains("/replays/") && call.to.ends_with(end);
        match call.op.as_str() {
            "GetQueueAttributes" => Site::Waiting,
            "SendMessageBatch" if call.to == "orders-requeue" => Site::Send,
            "ListObjectsV2" if call.to.contains("/replays/") => Site::ListState,
            "ListObjectsV2" => Site::ListLetters,
            "GetObject" if is("lock.json") => Site::GetLock,
            "GetObject" if is("manifest.json") => Site::GetManifest,
            "GetObject" if is(".jsonl") => Site::GetLedger,
            "GetObject" => Site::Letters,
            "PutObject" if is("lock.json") => {
                let token =
                    |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default()["token"].take();
                let last = self.objects.get(&call.to).map(|text| token(text));
                if is_new || last != Some(token(&call.object)) { Site::TakeLock } else { Site::KeepLock }
            }
            "PutObject" if is("manifest.json") => {
                if is_new {
                    Site::NewManifest
                } else {
                    Site::Manifest
                }
            }
            "PutObject" if is(".jsonl") => {
                if is_new {
                    Site::NewLedger
                } else {
                    Site::Ledger
                }
            }
            "PutObject" if call.to.contains("/queue=") => Site::Store,
            other => panic!("the function calls {other} {}", call.to),
        }
    }

    /// What goes wrong with the next call of a site.
    pub(super) fn fault(&mut self, site: Site, run: Invocation) -> Option<Fault> {
        let calls = self.calls.entry(site).or_default();
        let hits = |it: &&Injection| it.site == site && (it.from..it.from + it.calls).contains(calls);
        let fault = self.injections.iter().find(hits).map(|it| it.fault);
        *calls += 1;
        if fault.is_some() {
            *self.made.entry(site).or_default() += 1;
            self.troubled.insert(run);
        }
        fault
    }

    /// A page of keys; the token is the last key of the page before, or its last common prefix.
    fn list(&self, call: &Call) -> String {
        let header = |name: &str| call.headers.get(name).map(String::as_str);
        let (bucket, prefix) = call.to.split_once('/').unwrap_or_default();
        let after = header("continuation-token").or(header("start-after")).unwrap_or_default();
        let keys = self.objects.keys().filter_map(|place| place.strip_prefix(bucket)?.strip_prefix('/'));
        let entries = keys.filter_map(|key| {
            let rest = key.strip_prefix(prefix)?;
            let end = header("delimiter").and_then(|delimiter| rest.find(delimiter));
            Some(end.map_or((key, false), |end| (&key[..=prefix.len() + end], true)))
        });
        // A common prefix comes once.
        let entries: BTreeSet<_> = entries.filter(|(entry, _)| *entry > after).collect();
        let mut text = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
        let page: Vec<_> = entries.iter().take(PAGE).collect();
        for (entry, is_prefix) in &page {
            let _ = if *is_prefix {
                write!(text, "<CommonPrefixes><Prefix>{entry}</Prefix></CommonPrefixes>")
            } else {
                let stored = "<LastModified>2020-01-01T00:00:00.000Z</LastModified>";
                write!(text, "<Contents><Key>{entry}</Key>{stored}</Contents>")
            };
        }
        let more = entries.len() > page.len();
        if let Some((last, _)) = page.last().filter(|_| more) {
            let _ = write!(text, "<NextContinuationToken>{last}</NextContinuationToken>");
        }
        let _ = write!(text, "<IsTruncated>{more}</IsTruncated></ListBucketResult>");
        text
    }

    fn get(&self, call: &Call) -> Response {
        match self.objects.get(&call.to) {
            Some(object) => tagged(object, response(200, object.clone())),
            None => refusal(&call.op, 404, "NoSuchKey", "The specified key does not exist."),
        }
    }

    /// Writes an object, if its condition holds.
    fn put(&mut self, call: &Call) -> Response {
        let there = self.objects.get(&call.to);
        let holds = match (call.headers.get("if-match"), there) {
            (Some(tag), Some(object)) => etag(object) == *tag,
            (Some(_), None) => {
                return refusal(&call.op, 404, "NoSuchKey", "The specified key does not exist.");
            }
            (None, there) => there.is_none(),
        };
        if !call.headers.contains_key("if-match") && !call.headers.contains_key("if-none-match") {
            self.books.broken(format!("PutObject {} without a condition", call.to));
        }
        if self.is_full && call.to.contains("/queue=") {
            self.books.broken(format!("PutObject {}, but a replay does not change the archive", call.to));
        }
        if !holds {
            return refusal(&call.op, 412, "PreconditionFailed", "At least one pre-condition failed");
        }
        self.objects.insert(call.to.clone(), call.object.clone());
        tagged(&call.object, response(200, String::new()))
    }

    fn send(
        &mut self,
        call: &Call,
        run: Invocation,
        heard: bool,
        partial: Option<Fault>,
        letters: &[Letter],
    ) -> Response {
        let mut all = Vec::new();
        for (index, entry) in call.entries.iter().enumerate() {
            let disposition =
                partial.filter(|_| index.is_multiple_of(2)).and_then(|it| it.disposition(Site::Send.words()));
            all.push((index, disposition));
            let Some(letter) = token(&entry.body).and_then(|who| letters.get(who)) else {
                self.books.broken("what is no letter comes to the requeue".to_owned());
                continue;
            };
            if let Err(wrong) = letter.moves(entry) {
                self.books.broken(format!("letter {}: {wrong}", letter.who));
            }
            if disposition.is_none() {
                self.books.arrived(letter.who, run, heard, &self.objects);
            }
        }
        response(200, batch_answer(&call.op, &all))
    }
}

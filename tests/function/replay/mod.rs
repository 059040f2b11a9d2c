//! Replay: archived letters go back into delivery, each once, in steps, whatever breaks off on the way.

mod a_long_way_without_a_letter;
mod crashes;
mod event;
mod failures;
mod fifo;
mod given_letters;
mod going_on;
mod in_the_requeue;
mod lock;
mod steps;
mod what_is_sent;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use sns_redrive::archive::Record;
use sns_redrive::batch::ArchiveContext;
use sns_redrive::clock::Clock;
use sns_redrive::function::{Answer, Function};
use sns_redrive::letter::{Letter, MARK_ATTRIBUTE, Origins, SqsMessage};
use sns_redrive::policy::{ArchiveReason, Policy};
use sns_redrive::replay::{
    At, Control, Input, Manifest, Parts, Replay, ReplayError, Request, Source, Status,
};
use sns_redrive::settings::Settings;
use support::{
    Account, BILLING, DLQ, Entry, EntryFault, FIFO_DLQ, FIFO_REQUEUE, Fault, NOW, Post, REQUEUE, TOPIC,
    WORKER, World, arn, at, attribute, digest, letter_id, made_for,
};
use tokio::sync::Notify;

/// The present of these tests: an hour after the letters were archived.
const START: i64 = NOW + 3_600_000;

/// An archive, a requeue, a clock that a test moves.
struct Console {
    cloud: Account,
    now: Arc<AtomicI64>,
    requeue: &'static str,
}

/// Whoever runs a replay.
#[derive(Default)]
struct Operator {
    /// Lets the time of settling pass.
    clock: Option<Arc<AtomicI64>>,
    /// Stops when so many letters are sent.
    stop_at: Option<u64>,
    stopped: AtomicBool,
    left_out: Mutex<Vec<String>>,
    seen: Mutex<Vec<(Status, u64)>>,
}

impl Control for Operator {
    fn stop(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn progress(&self, manifest: &Manifest) {
        self.seen.lock().unwrap().push((manifest.status, manifest.sent));
        if self.stop_at.is_some_and(|at| manifest.sent >= at) {
            self.stopped.store(true, Ordering::Relaxed);
        } else if let (Some(clock), Some(then)) = (&self.clock, manifest.not_before) {
            clock.fetch_max(then.as_millisecond(), Ordering::Relaxed);
        }
    }

    fn left_out(&self, at: &At, why: &str) {
        self.left_out.lock().unwrap().push(format!("{at} {why}"));
    }
}

impl Console {
    fn new() -> Self {
        let cloud = Account::new();
        for name in ["orders-requeue", "orders-requeue.fifo", "orders-dlq"] {
            cloud.drained(name);
        }
        Self { cloud, now: Arc::new(AtomicI64::new(START)), requeue: REQUEUE }
    }

    fn fifo() -> Self {
        Self { requeue: FIFO_REQUEUE, ..Self::new() }
    }

    /// An archive with so many letters, `0`, `1` ..., in one object.
    fn with_letters(count: usize) -> Self {
        let console = Self::new();
        console.archive("a", &posts(count));
        console
    }

    /// An object of the archive.
    fn archive(&self, name: &str, posts: &[Post]) {
        self.archive_lines(name, &posts.iter().map(line).collect::<String>());
    }

    fn archive_lines(&self, name: &str, lines: &str) {
        self.cloud.put(&object(name), lines);
    }

    fn pass(&self, seconds: i64) {
        self.now.fetch_add(seconds * 1000, Ordering::Relaxed);
    }

    fn replay(&self) -> Replay {
        let now = Arc::clone(&self.now);
        Replay::new(Parts {
            clients: self.cloud.clients(),
            bucket: "graveyard".to_owned(),
            prefix: "dead-letters".to_owned(),
            requeue: arn(self.requeue),
            clock: Clock::from_fn(move || at(now.load(Ordering::Relaxed))),
            owner: "a test".to_owned(),
        })
    }

    fn operator(&self) -> Operator {
        Operator { clock: Some(Arc::clone(&self.now)), ..Operator::default() }
    }

    async fn run(&self, request: Value) -> Result<Manifest, ReplayError> {
        self.run_by(&self.operator(), request).await
    }

    async fn run_by(&self, operator: &Operator, request: Value) -> Result<Manifest, ReplayError> {
        self.replay().run(&wish(request), &Source::Archive, None, operator).await
    }

    async fn run_given(&self, given: Vec<Input>, request: Value) -> Result<Manifest, ReplayError> {
        self.replay().run(&wish(request), &Source::Input(given), None, &self.operator()).await
    }

    /// What the requeue has taken.
    fn sent(&self) -> Vec<Entry> {
        let queue = self.requeue.rsplit(':').next().unwrap();
        self.cloud.messages(queue)
    }

    /// The bodies that the requeue has taken, in order, each with the number of times.
    fn bodies(&self) -> Vec<String> {
        self.sent().into_iter().map(|entry| entry.body).collect()
    }

    /// The objects below `replays/` whose key ends so.
    fn kept(&self, end: &str) -> Vec<(String, String)> {
        let objects = self.cloud.objects().into_iter();
        objects.filter(|(key, _)| key.contains("/replays/") && key.ends_with(end)).collect()
    }

    /// Everything below `replays/` goes away at the `nth` call from now, or its answer does: like a crash.
    /// Answers whether it came to that.
    async fn crash(&self, nth: usize, taken: bool, request: Value, source: &Source) -> bool {
        self.crash_among(|_| true, nth, taken, request, source).await
    }

    /// The same at the `nth` of certain calls.
    async fn crash_among(
        &self,
        which: fn(&support::Call) -> bool,
        nth: usize,
        taken: bool,
        request: Value,
        source: &Source,
    ) -> bool {
        let (calls, crashed) = (AtomicUsize::new(0), Arc::new(Notify::new()));
        let notify = Arc::clone(&crashed);
        self.cloud.script(move |call| {
            if !which(call) && calls.load(Ordering::Relaxed) <= nth {
                return Fault::Pass;
            }
            let call = calls.fetch_add(1, Ordering::Relaxed);
            if call < nth {
                return Fault::Pass;
            }
            notify.notify_one();
            if call == nth && taken { Fault::HangAfter } else { Fault::HangBefore }
        });
        let (replay, operator, request) = (self.replay(), self.operator(), wish(request));
        let came_to_an_end = tokio::select! {
            biased;
            ended = replay.run(&request, source, None, &operator) => { ended.unwrap(); true }
            () = crashed.notified() => false,
        };
        self.cloud.script(|_| Fault::Pass);
        // The lock that it has left behind ends.
        self.pass(31);
        !came_to_an_end
    }
}

/// A request without waiting.
fn wish(mut request: Value) -> Request {
    if request.get("rate").is_none() {
        request["rate"] = 10_000.into();
    }
    Request::from_json(request).unwrap()
}

fn object(name: &str) -> String {
    format!("graveyard/dead-letters/queue=orders-dlq/date=2026-11-01/{name}.jsonl")
}

fn posts(count: usize) -> Vec<Post> {
    (0..count).map(|number| plain(&number.to_string())).collect()
}

/// A letter whose body is its id.
fn plain(id: &str) -> Post {
    Post::raw(id, id)
}

fn record_at(post: &Post, archived: i64) -> Record {
    let event = serde_json::from_value(support::event([post])).unwrap();
    let message = SqsMessage::all_of(event).unwrap().remove(0);
    let letter = if post.queue.contains("requeue") {
        Letter::parse_requeued(message, Origins::none())
    } else {
        Letter::parse(message)
    };
    let context = ArchiveContext {
        reason: ArchiveReason::Exhausted,
        detail: None,
        rule: "default".to_owned(),
        target: None,
        retry: None,
        failure: None,
        order: None,
    };
    Record::of(&letter, &context, at(archived))
}

fn line(post: &Post) -> String {
    record_at(post, NOW).to_line().unwrap()
}

fn mark_of(entry: &Entry) -> Value {
    serde_json::from_str(&entry.attributes[MARK_ATTRIBUTE].value.text()).unwrap()
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

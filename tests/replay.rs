//! Replay: archived letters go back into delivery, each once, in steps, whatever breaks off on the way.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use sns_redrive::archive::{Epitaph, Record};
use sns_redrive::clock::Clock;
use sns_redrive::function::{Answer, Function};
use sns_redrive::letter::{Letter, MARK_ATTRIBUTE, SqsMessage};
use sns_redrive::policy::{ArchiveReason, Policy};
use sns_redrive::replay::{
    At, Control, Given, Manifest, Parts, Replay, ReplayError, Request, Source, Status,
};
use sns_redrive::settings::Settings;
use support::{
    BILLING, Cloud, DLQ, Entry, EntryFate, FIFO_DLQ, NOW, Post, REQUEUE, Reply, TOPIC, WORKER, World, arn,
    at, letter_id,
};
use tokio::sync::Notify;

const FIFO_REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-requeue.fifo";

/// The present of these tests: an hour after the letters were archived.
const START: i64 = NOW + 3_600_000;

/// An archive, a requeue, a clock that a test moves.
struct Desk {
    cloud: Cloud,
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

impl Desk {
    fn new() -> Self {
        Self { cloud: Cloud::new(), now: Arc::new(AtomicI64::new(START)), requeue: REQUEUE }
    }

    fn fifo() -> Self {
        let desk = Self { requeue: FIFO_REQUEUE, ..Self::new() };
        desk.cloud.queue("orders-requeue.fifo", &[("MessageRetentionPeriod", "1209600")]);
        desk
    }

    /// An archive with so many letters, `0`, `1` ..., in one object.
    fn with_letters(count: usize) -> Self {
        let desk = Self::new();
        desk.archive("a", &posts(count));
        desk
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

    async fn run_given(&self, given: Vec<Given>, request: Value) -> Result<Manifest, ReplayError> {
        self.replay().run(&wish(request), &Source::Given(given), None, &self.operator()).await
    }

    /// What the requeue has taken.
    fn sent(&self) -> Vec<Entry> {
        let queue = self.requeue.rsplit(':').next().unwrap();
        let calls = self.cloud.calls("SendMessageBatch").into_iter().filter(|call| call.to == queue);
        let taken = calls.flat_map(|call| {
            let support::Call { entries, taken, .. } = call;
            taken.into_iter().map(move |index| entries[index].clone())
        });
        taken.collect()
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
                return Reply::Accept;
            }
            let call = calls.fetch_add(1, Ordering::Relaxed);
            if call < nth {
                return Reply::Accept;
            }
            notify.notify_one();
            if call == nth && taken { Reply::Mute } else { Reply::Hang }
        });
        let (replay, operator, request) = (self.replay(), self.operator(), wish(request));
        let came_to_an_end = tokio::select! {
            biased;
            ended = replay.run(&request, source, None, &operator) => { ended.unwrap(); true }
            () = crashed.notified() => false,
        };
        self.cloud.script(|_| Reply::Accept);
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
    let letter =
        if post.queue.contains("requeue") { Letter::parse_requeued(message) } else { Letter::parse(message) };
    let epitaph = Epitaph {
        reason: ArchiveReason::Exhausted,
        detail: None,
        rule: "default",
        target: None,
        retry: None,
        failure: None,
    };
    Record::of(&letter, &epitaph, at(archived))
}

fn line(post: &Post) -> String {
    record_at(post, NOW).to_line().unwrap()
}

fn mark_of(entry: &Entry) -> Value {
    serde_json::from_str(&entry.attributes[MARK_ATTRIBUTE].1).unwrap()
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

mod what_is_sent {
    use super::*;

    #[tokio::test]
    async fn a_letter_goes_whole_with_a_fresh_budget_and_the_next_generation() {
        let desk = Desk::new();
        let post = Post::envelope("a")
            .attribute("note", "Binary", "AAH/")
            .system("AWSTraceHeader", "Root=1-2-3")
            .group("tenant-1")
            .sqs_mark(&json!({ "v": 1, "spent": 12, "id": letter_id("a"), "first": 5, "gen": 0 }));
        desk.archive("a", std::slice::from_ref(&post));
        let done = desk.run(json!({})).await.unwrap();
        assert_eq!((done.status, done.sent, done.counts.selected), (Status::Done, 1, 1));
        let mark =
            format!(r#"{{"v":1,"spent":0,"id":"{}","first":{START},"gen":1,"dlq":"{DLQ}"}}"#, letter_id("a"));
        let expected = Entry {
            body: post.body(),
            attributes: BTreeMap::from([
                ("note".to_owned(), ("Binary".to_owned(), "base64 AAH/".to_owned())),
                (MARK_ATTRIBUTE.to_owned(), ("String".to_owned(), mark)),
            ]),
            group_id: Some("tenant-1".to_owned()),
            trace_header: Some("Root=1-2-3".to_owned()),
            ..Entry::default()
        };
        assert_eq!(desk.sent(), [expected]);
    }

    #[tokio::test]
    async fn a_letter_that_sqs_had_moved_keeps_its_source() {
        let desk = Desk::new();
        desk.archive("a", &[plain("a").moved_from(BILLING)]);
        desk.run(json!({})).await.unwrap();
        assert_eq!(mark_of(&desk.sent()[0])["source"], BILLING);
    }

    /// What is archived out of the requeue lay in another queue before, and its mark says in which.
    #[tokio::test]
    async fn a_letter_that_comes_back_from_the_requeue_keeps_where_it_came_from_but_not_where_it_was_sent() {
        let desk = Desk::new();
        let mark = json!({ "v": 1, "spent": 3, "id": "life-long", "first": 7, "gen": 4, "dlq": DLQ,
            "source": BILLING, "due": 9, "to": "topic", "edited": true });
        desk.archive("a", &[plain("a").queue(REQUEUE).sqs_mark(&mark)]);
        desk.run(json!({})).await.unwrap();
        let expected = json!({ "v": 1, "spent": 0, "id": "life-long", "first": START, "gen": 5, "dlq": DLQ,
            "source": BILLING, "edited": true });
        assert_eq!(mark_of(&desk.sent()[0]), expected);
    }

    #[tokio::test]
    async fn a_replay_can_name_the_target() {
        let desk = Desk::with_letters(1);
        desk.run(json!({ "to": WORKER })).await.unwrap();
        assert_eq!(mark_of(&desk.sent()[0])["to"], WORKER);
    }

    #[tokio::test]
    async fn a_letter_that_a_crash_has_archived_twice_goes_once() {
        let desk = Desk::with_letters(2);
        desk.archive("b", &[plain("1"), plain("2")]);
        let done = desk.run(json!({})).await.unwrap();
        assert_eq!((done.counts.selected, done.counts.doubles, done.sent), (3, 1, 3));
        assert_eq!(desk.bodies(), ["0", "1", "2"]);
        // The same message id in another queue is another message.
        desk.archive("c", &[plain("1").queue(BILLING)]);
        desk.pass(1);
        assert_eq!(desk.run(json!({})).await.unwrap().sent, 1);
    }

    #[tokio::test]
    async fn only_what_is_selected_and_not_what_is_archived_or_stored_after_the_cut_off() {
        let desk = Desk::new();
        desk.archive("a", &[plain("raw"), Post::envelope("sns")]);
        let late = record_at(&plain("archived later"), START - 1000).to_line().unwrap();
        desk.archive_lines("b", &late);
        desk.cloud.put_at(&object("c"), &line(&plain("stored later")), "2026-11-01T13:00:00.000Z");
        let done = desk.run(json!({ "select": { "origins": ["raw"] } })).await.unwrap();
        assert_eq!(desk.bodies(), ["raw"]);
        assert_eq!((done.counts.selected, done.cut_off), (1, at(START - 5000)));
    }

    /// Somebody named the dead-letter queue as the requeue. Nothing is ever sent there.
    #[tokio::test]
    async fn nothing_goes_back_to_the_dead_letter_queue_that_it_lay_in() {
        let desk = Desk { requeue: DLQ, ..Desk::with_letters(3) };
        let done = desk.run(json!({})).await.unwrap();
        assert_eq!((done.sent, done.counts.unfit), (0, [("notMoved".to_owned(), 3)].into()));
        assert_eq!(desk.cloud.calls("SendMessageBatch"), []);
    }

    #[tokio::test]
    async fn letters_that_cannot_be_put_back_are_counted_and_told_with_their_place_and_do_not_stop_the_rest()
    {
        let desk = Desk::new();
        let mut full = plain("full");
        for number in 0..10 {
            full = full.attribute(&format!("a{number}"), "String", "x");
        }
        // It would fit without the mark.
        let large = Post::raw("large", &"x".repeat(1024 * 1024 - 50));
        let fifo = plain("fifo").queue(FIFO_DLQ).group("g");
        let lines = [full, large, fifo, plain("good")].iter().map(line).collect::<String>();
        desk.archive_lines("a", &format!("{lines}no json\n"));
        let operator = desk.operator();
        let done = desk.run_by(&operator, json!({})).await.unwrap();
        assert_eq!(desk.bodies(), ["good"]);
        assert_eq!((done.status, done.sent, done.counts.unreadable), (Status::Done, 1, 1));
        let unfit = [("otherKind", 1), ("tooLarge", 1), ("unmarkable", 1)];
        assert_eq!(done.counts.unfit, unfit.map(|(name, count)| (name.to_owned(), count)).into());
        let key = "dead-letters/queue=orders-dlq/date=2026-11-01/a.jsonl";
        assert_eq!(
            operator.left_out.into_inner().unwrap(),
            [
                format!("{key}:1 carries ten attributes already, so the mark does not fit"),
                format!("{key}:2 is too large with the mark"),
                format!("{key}:3 lay in a FIFO queue and the requeue is none, or the other way round"),
                format!("{key}:5 is not JSON (column 2)"),
            ]
        );
    }

    #[tokio::test]
    async fn letters_without_a_target_are_left_out_where_the_policy_is_known() {
        let policy = json!({ "rules": [
            { "name": "to-billing", "match": { "message": [{ "prefix": "b" }] }, "target": BILLING },
            { "name": "kept", "match": { "message": [{ "prefix": "k" }] }, "action": "archive" },
        ] });
        let policy = Policy::parse(&policy.to_string()).unwrap();
        for (to, sent, without_target) in [
            (Value::Null, &["billing", "kept", "sns"][..], 1),
            // Only an SNS message has a topic. A rule that archives has the last word, but in the requeue.
            (json!("topic"), &["kept", "sns"], 2),
            (json!(WORKER), &["billing", "kept", "raw", "sns"], 0),
        ] {
            let desk = Desk::new();
            let posts = [plain("billing"), plain("kept"), plain("raw"), Post::envelope("sns")];
            desk.archive("a", &posts);
            let request = wish(json!({ "to": to }));
            let replay = desk.replay();
            let done = replay.run(&request, &Source::Archive, Some(&policy), &desk.operator()).await.unwrap();
            let bodies = desk.bodies();
            let sent_ids: Vec<_> = posts
                .iter()
                .filter(|post| bodies.contains(&post.body()))
                .map(|post| post.id.as_str())
                .collect();
            let mut expected = sent.to_vec();
            expected.sort_unstable();
            assert_eq!(sent_ids, expected, "to {to}");
            assert_eq!(done.counts.unfit.values().sum::<u64>(), without_target, "to {to}");
        }
    }
}

mod failures {
    use super::*;

    fn failing(desk: &Desk, body: &'static str, fate: EntryFate, times: usize) {
        let calls = AtomicUsize::new(0);
        desk.cloud.script(move |call| {
            let with = call.op == "SendMessageBatch" && call.entries.iter().any(|entry| entry.body == body);
            let fails = with && calls.fetch_add(1, Ordering::Relaxed) < times;
            if fails { call.except(body, fate) } else { Reply::Accept }
        });
    }

    #[tokio::test]
    async fn a_letter_that_is_not_taken_goes_again_with_the_next_batch() {
        let desk = Desk::with_letters(5);
        failing(&desk, "2", EntryFate::Failed("RequestThrottled", "slow", false), 1);
        let done = desk.run(json!({})).await.unwrap();
        assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 5, 0));
        let mut bodies = desk.bodies();
        bodies.sort_unstable();
        assert_eq!(bodies, numbers(0..5));
    }

    #[tokio::test]
    async fn a_letter_that_may_have_been_taken_is_counted_as_repeated() {
        let desk = Desk::with_letters(5);
        failing(&desk, "2", EntryFate::Missing, 1);
        let done = desk.run(json!({})).await.unwrap();
        assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 5, 1));
    }

    #[tokio::test]
    async fn a_letter_that_sqs_refuses_does_not_stop_the_others_and_is_left_to_another_replay() {
        let desk = Desk::with_letters(200);
        let bad = EntryFate::Failed("InvalidMessageContents", "no", true);
        failing(&desk, "150", bad, usize::MAX);
        let operator = Operator { stop_at: Some(199), ..desk.operator() };
        let request = json!({ "ramp": [100] });
        let paused = desk.run_by(&operator, request.clone()).await.unwrap();
        assert_eq!((paused.status, paused.sent, paused.refused), (Status::Running, 199, 1));
        let told = "dead-letters/queue=orders-dlq/date=2026-11-01/a.jsonl:151 refused by SQS: InvalidMessageContents";
        assert_eq!(operator.left_out.into_inner().unwrap(), [told]);
        desk.cloud.script(|_| Reply::Accept);
        let done = desk.run(request.clone()).await.unwrap();
        assert_eq!((done.status, done.sent, done.refused), (Status::Done, 199, 1), "not tried again");
        desk.pass(1);
        assert_eq!(desk.run(request).await.unwrap().sent, 1, "the cause may have been mended");
    }

    /// A step of refused letters does not swallow the whole selection.
    #[tokio::test]
    async fn refused_letters_count_as_failed_in_their_step() {
        let desk = Desk::with_letters(100);
        desk.cloud.script(|call| match call.op.as_str() {
            "SendMessageBatch" => Reply::Except(
                (0..call.entries.len())
                    .map(|entry| (entry, EntryFate::Failed("InvalidMessageContents", "no", true)))
                    .collect(),
            ),
            _ => Reply::Accept,
        });
        let stopped = desk.run(json!({})).await.unwrap();
        assert_eq!((stopped.status, stopped.sent, stopped.refused), (Status::Stopped, 0, 1));
        let why = "of 1 letters of step 1: 1 refused by SQS, 0 back in the archive, 0 more than before wait in the queues";
        assert_eq!(stopped.why.as_deref(), Some(why));
    }

    #[tokio::test]
    async fn a_requeue_that_takes_nothing_stops_the_replay_after_three_tries() {
        let desk = Desk::with_letters(5);
        desk.cloud.reply("SendMessageBatch", Reply::Fail(403, "AccessDenied", "no"));
        let stopped = desk.run(json!({})).await.unwrap();
        assert_eq!((stopped.status, stopped.sent, stopped.repeated), (Status::Stopped, 0, 0));
        let why = "the requeue does not take letters: AccessDenied (mendable)";
        assert_eq!(stopped.why.as_deref(), Some(why));
        assert_eq!(desk.cloud.calls("SendMessageBatch").len(), 3);
        desk.cloud.script(|_| Reply::Accept);
        let done = desk.run(json!({ "resume": true })).await.unwrap();
        assert_eq!((done.status, done.sent), (Status::Done, 5));
        assert_eq!(desk.bodies(), numbers(0..5));
    }

    /// What was there when the replay began and cannot be seen now is not done.
    #[tokio::test]
    async fn an_archive_that_cannot_be_read_any_more_does_not_end_the_replay() {
        let desk = Desk::with_letters(5);
        desk.archive("b", &[plain("6")]);
        let reads = AtomicUsize::new(0);
        desk.cloud.script(move |call| {
            let again = call.to.ends_with("/b.jsonl") && reads.fetch_add(1, Ordering::Relaxed) > 0;
            if again { Reply::Fail(503, "SlowDown", "slow") } else { Reply::Accept }
        });
        let failed = desk.run(json!({ "ramp": [100] })).await.unwrap_err();
        assert_eq!(failed.to_string(), "reading the archive failed: SlowDown (throttling)");
        desk.cloud.script(|_| Reply::Accept);
        assert_eq!(desk.run(json!({ "ramp": [100] })).await.unwrap().status, Status::Done);
        assert_eq!(desk.bodies(), ["0", "1", "2", "3", "4", "6"]);
    }

    #[tokio::test]
    async fn a_part_of_the_archive_that_was_unreadable_from_the_beginning_is_told_and_left_out() {
        let desk = Desk::with_letters(2);
        desk.archive("b", &[plain("6")]);
        desk.cloud.script(|call| {
            let denied = call.to.ends_with("/b.jsonl");
            if denied { Reply::Fail(403, "AccessDenied", "key") } else { Reply::Accept }
        });
        let operator = desk.operator();
        let done = desk.run_by(&operator, json!({})).await.unwrap();
        assert_eq!((done.status, done.sent, done.counts.unreadable), (Status::Done, 2, 1));
        let told = "dead-letters/queue=orders-dlq/date=2026-11-01/b.jsonl AccessDenied: key";
        assert_eq!(operator.left_out.into_inner().unwrap(), [told]);
    }

    /// Its letters would be sent once more.
    #[tokio::test]
    async fn nothing_is_sent_while_a_ledger_cannot_be_read() {
        let desk = Desk::with_letters(3);
        desk.run(json!({})).await.unwrap();
        let (ledger, text) = desk.kept("00000001.jsonl").remove(0);
        for broken in [&text[..text.len() / 2], "{}\n"] {
            desk.cloud.put(&ledger, broken);
            desk.pass(1);
            let failed = desk.run(json!({})).await.unwrap_err().to_string();
            assert_eq!(failed, "reading the ledgers failed: LedgerUnreadable (mendable)");
        }
        desk.cloud.put(&ledger, &text);
        desk.cloud.script(|call| {
            let ledger = call.to.ends_with("00000001.jsonl") && call.op == "GetObject";
            if ledger { Reply::Fail(503, "SlowDown", "slow") } else { Reply::Accept }
        });
        assert!(desk.run(json!({})).await.is_err());
        assert_eq!(desk.sent().len(), 3);
    }
}

mod fifo {
    use super::*;

    fn post(id: &str, group: &str) -> Post {
        plain(id).queue(FIFO_DLQ).group(group)
    }

    fn of_group(desk: &Desk, group: &str) -> Vec<String> {
        let sent = desk.sent().into_iter().filter(|entry| entry.group_id.as_deref() == Some(group));
        sent.map(|entry| entry.body).collect()
    }

    #[tokio::test]
    async fn letters_of_a_group_go_one_after_the_other_and_groups_together() {
        let desk = Desk::fifo();
        let posts: Vec<_> = (0..45).map(|n| post(&n.to_string(), &format!("g{}", n % 3))).collect();
        desk.archive("a", &posts);
        // The later a request begins, the sooner it is answered: together they would overtake each other.
        let calls = AtomicUsize::new(0);
        desk.cloud.script(move |call| match call.op.as_str() {
            "SendMessageBatch" => {
                let before = u64::try_from(calls.fetch_add(1, Ordering::Relaxed)).unwrap();
                Reply::Slow(Duration::from_millis(20_u64.saturating_sub(before * 2)))
            }
            _ => Reply::Accept,
        });
        desk.run(json!({ "ramp": [100] })).await.unwrap();
        for group in 0..3 {
            let expected: Vec<_> = (0..15).map(|n| (n * 3 + group).to_string()).collect();
            assert_eq!(of_group(&desk, &format!("g{group}")), expected);
        }
        for call in desk.cloud.calls("SendMessageBatch") {
            let groups: BTreeSet<_> = call.entries.iter().map(|entry| entry.group_id.clone()).collect();
            assert_eq!((groups.len(), call.entries.len()), (3, 3), "one letter of a group at a time");
        }
        assert_eq!(desk.cloud.peak(), 1);
    }

    #[tokio::test]
    async fn a_letter_that_is_not_taken_holds_its_group_and_no_other() {
        let desk = Desk::fifo();
        desk.archive(
            "a",
            &[post("a0", "a"), post("b0", "b"), post("a1", "a"), post("b1", "b"), post("a2", "a")],
        );
        let calls = AtomicUsize::new(0);
        desk.cloud.script(move |call| {
            let first = call.op == "SendMessageBatch" && calls.fetch_add(1, Ordering::Relaxed) == 0;
            let throttled = EntryFate::Failed("RequestThrottled", "slow", false);
            if first { call.except("a0", throttled) } else { Reply::Accept }
        });
        let done = desk.run(json!({ "ramp": [100] })).await.unwrap();
        assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 5, 0));
        assert_eq!(of_group(&desk, "a"), ["a0", "a1", "a2"]);
        assert_eq!(of_group(&desk, "b"), ["b0", "b1"]);
    }

    /// SQS swallows a deduplication id for five minutes.
    #[tokio::test]
    async fn what_a_crash_repeats_is_swallowed_and_nothing_else_is() {
        let desk = Desk::fifo();
        // A message that was published again, at two subscribers: two letters of one id.
        let mark = json!({ "v": 1, "spent": 1, "id": "both/of-them", "first": NOW, "gen": 0 });
        desk.archive("a", &[post("a", "g").sqs_mark(&mark), post("b", "g").sqs_mark(&mark)]);
        let ids = |desk: &Desk| -> Vec<_> {
            desk.sent().into_iter().map(|entry| entry.deduplication_id.unwrap()).collect()
        };
        let request = json!({ "ramp": [100] });
        let ledgers = AtomicUsize::new(0);
        desk.cloud.script(move |call| {
            let after = call.to.ends_with("00000001.jsonl") && ledgers.fetch_add(1, Ordering::Relaxed) > 0;
            if after { Reply::Fail(503, "SlowDown", "slow") } else { Reply::Accept }
        });
        desk.run(request.clone()).await.unwrap_err();
        let first = ids(&desk);
        assert_eq!(first.len(), 2);
        assert_ne!(first[0], first[1]);
        desk.cloud.script(|_| Reply::Accept);
        desk.cloud.forget();
        desk.run(request).await.unwrap();
        assert_eq!(ids(&desk), first, "the same replay");
        desk.cloud.forget();
        desk.pass(1);
        desk.run(json!({ "ramp": [100], "again": true })).await.unwrap();
        let second = ids(&desk);
        assert_eq!(second.len(), 2);
        assert!(second.iter().all(|id| !first.contains(id)), "another replay");
    }
}

mod steps {
    use super::*;

    /// Letters come back to the archive as long as the replay settles.
    fn coming_back(desk: &Desk, letters: &[&'static str]) {
        let (cloud, letters) = (desk.cloud.clone(), letters.to_vec());
        let now = Arc::clone(&desk.now);
        desk.cloud.script(move |call| {
            if call.op == "GetQueueAttributes" && call.to == "orders-requeue" {
                return Reply::Accept;
            }
            if call.op == "SendMessageBatch" {
                for letter in letters.iter().filter(|id| call.entries.iter().any(|it| it.body == **id)) {
                    let mark =
                        json!({ "v": 1, "spent": 12, "id": letter, "first": START, "gen": 1, "dlq": DLQ });
                    let post = Post::raw(&format!("back-{letter}"), letter).queue(REQUEUE).sqs_mark(&mark);
                    let archived = now.load(Ordering::Relaxed) + 2000;
                    let line = record_at(&post, archived).to_line().unwrap();
                    let key = format!("queue=orders-requeue/date=2026-11-01/{letter}.jsonl");
                    let stored = at(archived).to_string();
                    cloud.put_at(&format!("graveyard/dead-letters/{key}"), &line, &stored);
                }
            }
            Reply::Accept
        });
    }

    #[tokio::test]
    async fn the_selection_goes_out_step_by_step_with_time_to_settle_after_each() {
        let desk = Desk::with_letters(250);
        let operator = desk.operator();
        let done = desk.run_by(&operator, json!({ "settleSeconds": 120 })).await.unwrap();
        let settling: Vec<_> = operator
            .seen
            .into_inner()
            .unwrap()
            .into_iter()
            .filter(|(status, _)| *status == Status::Settling)
            .map(|(_, sent)| sent)
            .collect();
        assert_eq!(settling, [3, 13, 50]);
        assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 250, 0));
        assert_eq!(desk.now.load(Ordering::Relaxed), START + 3 * 120_000);
        assert_eq!(desk.bodies(), numbers(0..250));
    }

    #[tokio::test]
    async fn a_selection_of_none_and_of_one_are_done_at_once() {
        for letters in [0, 1] {
            let desk = Desk::with_letters(letters);
            let done = desk.run(json!({})).await.unwrap();
            assert_eq!((done.status, done.sent), (Status::Done, letters as u64));
            assert_eq!(desk.now.load(Ordering::Relaxed), START, "nothing to wait for");
        }
    }

    #[tokio::test]
    async fn it_stops_when_more_than_the_threshold_of_a_step_comes_back_to_the_archive() {
        // Steps of 10, 40 and 50 letters.
        let request = json!({ "ramp": [10, 50, 100], "threshold": 10 });
        let desk = Desk::with_letters(100);
        coming_back(&desk, &["0", "10", "11", "12", "13"]);
        let stopped = desk.run(request.clone()).await.unwrap();
        assert_eq!((stopped.status, stopped.sent), (Status::Done, 100), "10 per cent of each step may");

        let desk = Desk::with_letters(100);
        coming_back(&desk, &["0", "10", "11", "12", "13", "14"]);
        let stopped = desk.run(request.clone()).await.unwrap();
        assert_eq!((stopped.status, stopped.sent), (Status::Stopped, 50));
        let why = "of 40 letters of step 2: 0 refused by SQS, 5 back in the archive, 0 more than before wait in the queues";
        assert_eq!(stopped.why.as_deref(), Some(why));

        let refused = desk.run(request.clone()).await.unwrap_err();
        assert_eq!(refused, ReplayError::Stopped { id: stopped.id.clone(), why: why.to_owned() });
        assert_eq!(desk.sent().len(), 50);
        let resumed = json!({ "ramp": [10, 50, 100], "threshold": 10, "resume": true });
        let done = desk.run(resumed).await.unwrap();
        assert_eq!((done.status, done.sent, &done.id), (Status::Done, 100, &stopped.id));
        assert_eq!(desk.bodies(), numbers(0..100), "those that came back are for another replay");
    }

    /// In the requeue, or back in the dead-letter queue that they came from: SNS puts a letter there at once that
    /// was republished to a topic and fails again.
    #[tokio::test]
    async fn it_stops_when_letters_of_a_step_still_wait_in_the_requeue_or_are_dead_letters_again() {
        for queue in ["orders-requeue", "orders-dlq"] {
            let desk = Desk::with_letters(100);
            let waiting = |number: u64| {
                let (visible, hidden, delayed) = (number / 2, number - number / 2 - 1, 1);
                desk.cloud.queue(
                    queue,
                    &[
                        ("ApproximateNumberOfMessages", &visible.to_string()),
                        ("ApproximateNumberOfMessagesNotVisible", &hidden.to_string()),
                        ("ApproximateNumberOfMessagesDelayed", &delayed.to_string()),
                    ],
                );
            };
            waiting(50);
            let operator = Operator { stop_at: Some(10), ..desk.operator() };
            let request = json!({ "ramp": [10, 100] });
            assert_eq!(desk.run_by(&operator, request.clone()).await.unwrap().sent, 10);
            waiting(52);
            desk.pass(60);
            let stopped = desk.run(request).await.unwrap();
            let why = "of 10 letters of step 1: 0 refused by SQS, 0 back in the archive, 2 more than before wait in the queues";
            assert_eq!((stopped.status, stopped.why.as_deref()), (Status::Stopped, Some(why)), "{queue}");
            let done = desk.run(json!({ "ramp": [10, 100], "resume": true })).await.unwrap();
            assert_eq!((done.status, done.sent), (Status::Done, 100));
        }
    }

    /// Then nobody can say whether letters fall back into it, and the operator hears of that.
    #[tokio::test]
    async fn a_dead_letter_queue_that_cannot_be_read_is_told_and_not_judged_by() {
        let desk = Desk::with_letters(100);
        desk.cloud.script(|call| match (call.op.as_str(), call.to.as_str()) {
            ("GetQueueAttributes", "orders-dlq") => Reply::Fail(403, "AccessDenied", "no"),
            _ => Reply::Accept,
        });
        let operator = Operator { stop_at: Some(10), ..desk.operator() };
        let begun = desk.run_by(&operator, json!({ "ramp": [10, 100] })).await.unwrap();
        assert_eq!((begun.sent, begun.queues), (10, vec![]));
        let told = operator.left_out.lock().unwrap().clone();
        assert_eq!(told, [format!("{DLQ} cannot be read, so no step is judged by it: AccessDenied")]);
    }

    /// Else a replay that cannot see what came back would go on.
    #[tokio::test]
    async fn it_does_not_go_on_when_the_archive_cannot_be_listed_for_the_judgement() {
        let desk = Desk::with_letters(100);
        let lists = AtomicUsize::new(0);
        desk.cloud.script(move |call| {
            let archive = call.op == "ListObjectsV2" && call.to.contains("queue=");
            let judging = archive && lists.fetch_add(1, Ordering::Relaxed) >= 4;
            if judging { Reply::Fail(503, "SlowDown", "slow") } else { Reply::Accept }
        });
        let failed = desk.run(json!({})).await.unwrap_err().to_string();
        assert_eq!(failed, "listing the archive failed: SlowDown (throttling)");
        assert_eq!(desk.sent().len(), 1);
        desk.cloud.script(|_| Reply::Accept);
        assert_eq!(desk.run(json!({})).await.unwrap().sent, 100);
    }

    /// What settling or a slow archive cost is not made up for afterwards.
    #[tokio::test]
    async fn no_more_letters_a_second_than_the_rate_also_after_a_pause() {
        let desk = Desk::with_letters(24);
        let moments = Arc::new(Mutex::new(Vec::new()));
        let (seen, began) = (Arc::clone(&moments), Instant::now());
        desk.cloud.script(move |call| {
            if call.op == "SendMessageBatch" {
                seen.lock().unwrap().push((began.elapsed(), call.entries.len()));
            }
            let judging = call.op == "GetQueueAttributes";
            if judging { Reply::Slow(Duration::from_millis(600)) } else { Reply::Accept }
        });
        desk.run(json!({ "rate": 10, "ramp": [10, 100], "settleSeconds": 0 })).await.unwrap();
        let moments = moments.lock().unwrap();
        assert_eq!(moments.iter().map(|(_, letters)| *letters).collect::<Vec<_>>(), [3, 10, 10, 1]);
        for two in moments.windows(2) {
            let ((before, letters), (after, _)) = (two[0], two[1]);
            let least = Duration::from_millis(letters as u64 * 100);
            // A request can be late, and the next one then is nearer.
            assert!(after + Duration::from_millis(300) >= before + least, "{moments:?}");
        }
    }
}

mod going_on {
    use super::*;

    #[tokio::test]
    async fn whoever_asks_for_the_same_goes_on_with_the_cut_off_that_it_began_with() {
        let desk = Desk::with_letters(100);
        let operator = Operator { stop_at: Some(20), ..desk.operator() };
        let paused = desk.run_by(&operator, json!({})).await.unwrap();
        assert_eq!((paused.status, paused.sent), (Status::Settling, 20));
        let late = record_at(&plain("late"), START + 1000).to_line().unwrap();
        desk.archive_lines("b", &late);
        desk.pass(600);
        let done = desk.run(json!({})).await.unwrap();
        assert_eq!((&done.id, done.status, done.sent), (&paused.id, Status::Done, 100));
        assert_eq!(done.cut_off, paused.cut_off);
        assert_eq!(desk.bodies(), numbers(0..100));
        desk.pass(1);
        let next = desk.run(json!({})).await.unwrap();
        assert_ne!(next.id, done.id, "then a new one begins");
        assert_eq!((next.sent, next.counts.already_replayed), (1, 100));
        assert_eq!(desk.bodies().last().unwrap(), "late");
    }

    #[tokio::test]
    async fn rate_threshold_and_time_can_change_and_steps_stay_as_they_were() {
        let desk = Desk::with_letters(100);
        let operator = Operator { stop_at: Some(10), ..desk.operator() };
        desk.run_by(&operator, json!({ "ramp": [10, 50, 100] })).await.unwrap();
        let other = json!({ "ramp": [100], "rate": 9000, "threshold": 50, "settleSeconds": 5 });
        let operator = desk.operator();
        let done = desk.run_by(&operator, other).await.unwrap();
        assert_eq!(done.request.ramp, [10, 50, 100]);
        assert_eq!((done.request.rate, done.request.threshold, done.request.settle_seconds), (9000, 50, 5));
        let seen = operator.seen.into_inner().unwrap();
        assert!(seen.contains(&(Status::Settling, 50)), "{seen:?}");
        assert_eq!(desk.bodies(), numbers(0..100));
    }

    #[tokio::test]
    async fn a_letter_is_replayed_once_by_whatever_selection_unless_again_is_said() {
        let desk = Desk::with_letters(3);
        desk.run(json!({ "select": { "reasons": ["exhausted"] } })).await.unwrap();
        desk.archive("b", &[plain("3")]);
        let other = json!({ "select": { "queue": "orders-dlq" } });
        let done = desk.run(other.clone()).await.unwrap();
        assert_eq!((done.sent, done.counts.already_replayed), (1, 3));
        let mut again = other;
        again["again"] = true.into();
        assert_eq!(desk.run(again).await.unwrap().sent, 4);
    }

    /// Else the second would write over the first one's ledgers, and a third would send all once more.
    #[tokio::test]
    async fn two_replays_with_one_cut_off_keep_their_ledgers_apart() {
        let desk = Desk::with_letters(3);
        let request = json!({ "cutOff": at(START - 60_000).to_string(), "ramp": [100] });
        desk.run(request.clone()).await.unwrap();
        desk.archive("b", &[plain("3")]);
        desk.pass(1);
        assert_eq!(desk.run(request.clone()).await.unwrap().sent, 1);
        desk.pass(1);
        assert_eq!(desk.run(request).await.unwrap().sent, 0);
        assert_eq!(desk.sent().len(), 4);
    }

    #[tokio::test]
    async fn a_dry_run_counts_what_would_then_be_sent_and_writes_nothing() {
        let desk = Desk::with_letters(40);
        desk.archive("b", &[plain("1"), plain("fifo").queue(FIFO_DLQ)]);
        let dry = desk.run(json!({ "dryRun": true })).await.unwrap();
        assert_eq!(dry.status, Status::DryRun);
        assert_eq!((dry.counts.selected, dry.counts.doubles), (40, 1));
        let written =
            |desk: &Desk| desk.cloud.calls("PutObject").len() + desk.cloud.calls("SendMessageBatch").len();
        assert_eq!(written(&desk), 0);
        let operator = Operator { stop_at: Some(8), ..desk.operator() };
        let paused = desk.run_by(&operator, json!({})).await.unwrap();
        assert_eq!(paused.counts, dry.counts);
        let before = written(&desk);
        let rest = desk.run(json!({ "dryRun": true })).await.unwrap();
        assert_eq!((rest.counts.selected, written(&desk)), (32, before));
        let done = desk.run(json!({})).await.unwrap();
        assert_eq!((done.sent, desk.sent().len()), (40, 40));
    }

    #[tokio::test]
    async fn one_that_is_stopped_before_it_knows_what_is_selected_sends_nothing() {
        let desk = Desk::with_letters(3);
        let operator = desk.operator();
        operator.stopped.store(true, Ordering::Relaxed);
        assert_eq!(desk.run_by(&operator, json!({})).await.unwrap_err(), ReplayError::NotCounted);
        assert_eq!(desk.sent(), []);
        assert_eq!(desk.run(json!({})).await.unwrap().sent, 3);
    }
}

mod crashes {
    use super::*;

    #[tokio::test]
    async fn a_batch_that_was_cut_off_goes_again_and_is_counted_as_repeated() {
        let desk = Desk::with_letters(30);
        // Steps of 3 and 27 letters. SQS takes the first request of the second step; then all is dark.
        let request = json!({ "ramp": [10, 100], "settleSeconds": 0 });
        let nth = calls_until(&request, 30, "SendMessageBatch", 2).await;
        assert!(desk.crash(nth, true, request.clone(), &Source::Archive).await);
        assert_eq!(desk.sent().len(), 3 + 10);
        let done = desk.run(request).await.unwrap();
        assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 30, 27));
        assert_eq!(desk.sent().len(), 30 + 10);
    }

    /// How many calls a replay of so many letters makes before the `nth` one of an operation.
    async fn calls_until(request: &Value, letters: usize, op: &str, nth: usize) -> usize {
        let desk = Desk::with_letters(letters);
        desk.run(request.clone()).await.unwrap();
        let journal = desk.cloud.journal();
        let mut places = journal.iter().enumerate().filter(|(_, call)| call.op == op);
        places.nth(nth - 1).unwrap().0
    }

    #[tokio::test]
    async fn what_a_replay_may_have_sent_is_left_alone_by_another_until_that_one_went_on() {
        let desk = Desk::with_letters(5);
        let request = json!({ "ramp": [100] });
        let nth = calls_until(&request, 5, "SendMessageBatch", 1).await;
        assert!(desk.crash(nth, true, request.clone(), &Source::Archive).await);
        let other = json!({ "select": { "queue": "orders-dlq" }, "ramp": [100] });
        let operator = desk.operator();
        let done = desk.run_by(&operator, other.clone()).await.unwrap();
        assert_eq!((done.sent, done.counts.unfit["inDoubt"]), (0, 5));
        let told = "dead-letters/queue=orders-dlq/date=2026-11-01/a.jsonl:1 may have been sent by a replay that \
                    was cut off: go on with that one first, or replay it again";
        assert_eq!(operator.left_out.into_inner().unwrap()[0], told);
        let done = desk.run(request).await.unwrap();
        assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 5, 5));
        desk.pass(1);
        let done = desk.run(other).await.unwrap();
        assert_eq!((done.sent, done.counts.already_replayed), (0, 5));
    }

    /// A world of the property: what lies in the archive, and what goes wrong.
    #[derive(Debug, Clone)]
    struct Plan {
        /// The letters of each object, by number; one number twice is a double.
        objects: Vec<Vec<u8>>,
        ramp: Vec<u32>,
        /// Each time the replay begins it goes dark at this call, which may have been taken.
        crashes: Vec<(usize, bool)>,
    }

    fn plans() -> impl Strategy<Value = Plan> {
        let objects = prop::collection::vec(prop::collection::vec(0..40_u8, 0..8), 0..6);
        let ramp = prop::collection::btree_set(1..100_u32, 0..6);
        let crashes = prop::collection::vec((0..90_usize, any::<bool>()), 0..5);
        (objects, ramp, crashes).prop_map(|(objects, ramp, crashes)| Plan {
            objects,
            ramp: ramp.into_iter().chain([100]).collect(),
            crashes,
        })
    }

    /// Letters with these numbers lie in the archive and are none of the selection, or cannot be put back.
    fn post(number: u8) -> Post {
        match number {
            30..=34 => Post::envelope(&number.to_string()),
            35..=39 => plain(&number.to_string()).queue(FIFO_DLQ),
            _ => plain(&number.to_string()),
        }
    }

    fn set_up(plan: &Plan) -> (Desk, BTreeSet<String>, Value) {
        let desk = Desk::new();
        for (number, letters) in plan.objects.iter().enumerate() {
            let posts: Vec<_> = letters.iter().map(|letter| post(*letter)).collect();
            desk.archive(&format!("object-{number}"), &posts);
        }
        let selected = plan.objects.iter().flatten().filter(|letter| **letter < 30);
        let request = json!({ "select": { "origins": ["raw"] }, "ramp": plan.ramp, "settleSeconds": 0 });
        (desk, selected.map(ToString::to_string).collect(), request)
    }

    fn times(bodies: Vec<String>) -> BTreeMap<String, u64> {
        let mut times = BTreeMap::new();
        for body in bodies {
            *times.entry(body).or_default() += 1;
        }
        times
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn every_letter_is_sent_whatever_crashes_and_repeats_are_counted_and_within_a_batch_each(plan in plans()) {
            block_on(async {
                let (desk, selected, request) = set_up(&plan);
                let mut crashed = 0;
                for (nth, taken) in &plan.crashes {
                    crashed += u64::from(desk.crash(*nth, *taken, request.clone(), &Source::Archive).await);
                    desk.pass(1);
                }
                let done = desk.run(request.clone()).await.unwrap();
                let times = times(desk.bodies());
                let sent: BTreeSet<_> = times.keys().cloned().collect();
                prop_assert_eq!(done.status, Status::Done);
                prop_assert_eq!(&sent, &selected, "each selected one, and nothing else");
                let repeats = times.values().map(|times| times - 1).sum::<u64>();
                // A crash may have come after the end, and then another replay has begun.
                let manifests = desk.kept("manifest.json").into_iter();
                let manifests = manifests.map(|(_, text)| serde_json::from_str::<Manifest>(&text).unwrap());
                let counted: u64 = manifests.map(|manifest| manifest.repeated).sum();
                prop_assert!(repeats <= counted, "{} repeats, {} counted", repeats, counted);
                let largest = largest_batch(&plan.ramp, selected.len() as u64);
                prop_assert!(counted <= largest * crashed, "{} in {} crashes", counted, crashed);
                desk.pass(1);
                prop_assert_eq!(desk.run(request).await.unwrap().sent, 0, "nothing is left");
                Ok(())
            })?;
        }

        /// One operator replays letters as they were, another the same letters edited. Whatever breaks off, and
        /// whoever goes on, no letter goes out in both forms.
        #[test]
        fn never_the_original_and_the_edited_letter(
            plan in plans(),
            edited in prop::collection::btree_set(0..30_u8, 1..15),
            turns in prop::collection::vec((any::<bool>(), 0..9_usize, any::<bool>()), 1..6),
        ) {
            block_on(async {
                let (desk, _, request) = set_up(&plan);
                let edited: Vec<Given> = edited.iter().map(|letter| {
                    let mut record = record_at(&post(*letter), NOW);
                    record.message.body = format!("{letter} edited");
                    Ok((record, true))
                }).collect();
                let sources = [Source::Archive, Source::Given(edited)];
                let requests = [request, json!({ "ramp": plan.ramp, "settleSeconds": 0 })];
                let ends = [(false, 1000, false), (true, 1000, false)];
                for (given, nth, taken) in turns.iter().chain(&ends) {
                    let which = usize::from(*given);
                    // Two out of three calls that count write a ledger, the others send.
                    let counts = |call: &support::Call| {
                        let ledger = call.op == "PutObject" && call.to.contains("/batches/");
                        ledger || call.op == "SendMessageBatch"
                    };
                    let (request, source) = (requests[which].clone(), &sources[which]);
                    desk.crash_among(counts, *nth, *taken, request, source).await;
                    desk.pass(1);
                }
                let bodies: BTreeSet<_> = desk.bodies().into_iter().collect();
                for body in &bodies {
                    let both = bodies.contains(&format!("{body} edited"));
                    prop_assert!(!both, "{} went out in both forms", body);
                }
                Ok(())
            })?;
        }
    }

    fn largest_batch(ramp: &[u32], selected: u64) -> u64 {
        let ends = ramp.iter().map(|percent| (selected * u64::from(*percent)).div_ceil(100));
        let mut before = 0;
        ends.map(|end| end - std::mem::replace(&mut before, end)).max().unwrap_or(0)
    }
}

mod lock {
    use super::*;

    #[tokio::test]
    async fn one_replay_at_a_time_and_what_died_is_over_after_half_a_minute() {
        let desk = Desk::with_letters(3);
        let entered = Arc::new(Notify::new());
        let notify = Arc::clone(&entered);
        desk.cloud.script(move |call| {
            let sends = call.op == "SendMessageBatch";
            if sends {
                notify.notify_one();
                return Reply::Hang;
            }
            Reply::Accept
        });
        let (replay, operator, request) = (desk.replay(), desk.operator(), wish(json!({})));
        tokio::select! {
            ended = replay.run(&request, &Source::Archive, None, &operator) => panic!("{ended:?}"),
            () = entered.notified() => {}
        }
        desk.cloud.script(|_| Reply::Accept);
        let other = json!({ "select": { "origins": ["sns"] } });
        assert_eq!(desk.run(other.clone()).await.unwrap_err(), ReplayError::Busy(at(START + 30_000)));
        assert_eq!(desk.run(json!({})).await.unwrap_err(), ReplayError::Busy(at(START + 30_000)));
        // To count needs no lock.
        assert_eq!(desk.run(json!({ "dryRun": true })).await.unwrap().counts.selected, 3);
        desk.pass(30);
        assert_eq!(desk.run(other).await.unwrap().status, Status::Done);
        assert_eq!(desk.run(json!({})).await.unwrap().sent, 3, "it was given back at once");
    }

    /// A machine that slept, say. Whoever has the lock now also has the manifest.
    #[tokio::test]
    async fn without_the_lock_nothing_is_sent_and_nothing_of_the_other_is_touched() {
        let desk = Desk::with_letters(100);
        let (now, cloud) = (Arc::clone(&desk.now), desk.cloud.clone());
        let other = json!({ "version": 1, "owner": "another", "token": "t", "until": at(START + 900_000) });
        let theirs = other.to_string();
        desk.cloud.script(move |call| {
            if call.op == "SendMessageBatch" {
                now.fetch_add(60_000, Ordering::Relaxed);
                cloud.put("graveyard/dead-letters/replays/lock.json", &theirs);
                for manifest in cloud.objects().keys().filter(|key| key.ends_with("manifest.json")) {
                    cloud.put(manifest, "theirs");
                }
            }
            Reply::Accept
        });
        assert_eq!(desk.run(json!({})).await.unwrap_err(), ReplayError::LockLost);
        assert_eq!(desk.sent().len(), 1, "what was under way");
        assert_eq!(desk.kept("manifest.json")[0].1, "theirs");
        assert_eq!(desk.kept("lock.json")[0].1, other.to_string());
    }

    #[tokio::test]
    async fn a_lock_that_others_took_is_seen_before_the_next_batch() {
        let desk = Desk::with_letters(100);
        let (now, cloud) = (Arc::clone(&desk.now), desk.cloud.clone());
        desk.cloud.script(move |call| {
            if call.op == "SendMessageBatch" {
                now.fetch_add(60_000, Ordering::Relaxed);
                cloud.put("graveyard/dead-letters/replays/lock.json", "theirs");
            }
            Reply::Accept
        });
        assert_eq!(desk.run(json!({ "settleSeconds": 0 })).await.unwrap_err(), ReplayError::LockLost);
        assert_eq!(desk.sent().len(), 1);
    }

    /// The manifest is guarded by itself: clocks of two machines can differ, and a lock be thought to be over.
    #[tokio::test]
    async fn a_manifest_that_somebody_else_has_written_is_not_written_over() {
        let desk = Desk::with_letters(100);
        let cloud = desk.cloud.clone();
        desk.cloud.script(move |call| {
            if call.op == "SendMessageBatch" {
                for manifest in cloud.objects().keys().filter(|key| key.ends_with("manifest.json")) {
                    cloud.put(manifest, "theirs");
                }
            }
            Reply::Accept
        });
        assert_eq!(desk.run(json!({})).await.unwrap_err(), ReplayError::LockLost);
        assert_eq!((desk.sent().len(), desk.kept("manifest.json")[0].1.as_str()), (1, "theirs"));
    }

    /// Lets ten seconds pass each time that a replay which settles asks whether to stop.
    struct Slowly {
        clock: Arc<AtomicI64>,
        settling: AtomicBool,
    }

    impl Control for Slowly {
        fn stop(&self) -> bool {
            let seconds = if self.settling.load(Ordering::Relaxed) { 10 } else { 0 };
            self.clock.fetch_add(seconds * 1000, Ordering::Relaxed);
            false
        }

        fn progress(&self, manifest: &Manifest) {
            self.settling.store(manifest.status == Status::Settling, Ordering::Relaxed);
        }

        fn left_out(&self, _: &At, _: &str) {}
    }

    #[tokio::test]
    async fn it_never_lapses_while_a_step_settles() {
        let desk = Desk::with_letters(10);
        let control = Slowly { clock: Arc::clone(&desk.now), settling: AtomicBool::new(false) };
        let request = wish(json!({ "ramp": [10, 100], "settleSeconds": 60 }));
        desk.replay().run(&request, &Source::Archive, None, &control).await.unwrap();
        let puts = desk.cloud.calls("PutObject").into_iter().filter(|call| call.to.ends_with("lock.json"));
        let until = |call: support::Call| {
            let lock: Value = serde_json::from_str(&call.object).unwrap();
            lock["until"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
        };
        let mut untils: Vec<_> = puts.map(until).collect();
        let released = untils.pop().unwrap();
        assert_eq!(released, START + 60_000);
        assert!(untils.len() >= 3, "{untils:?}");
        for two in untils.windows(2) {
            let renewed = two[1] - 30_000;
            assert!(renewed < two[0], "renewed at {renewed}, over at {}", two[0]);
        }
    }

    #[tokio::test]
    async fn it_is_renewed_as_long_as_the_replay_runs() {
        let desk = Desk::with_letters(100);
        desk.run(json!({ "settleSeconds": 3600 })).await.unwrap();
        let puts = desk.cloud.calls("PutObject").into_iter().filter(|call| call.to.ends_with("lock.json"));
        let until =
            |call: support::Call| serde_json::from_str::<Value>(&call.object).unwrap()["until"].clone();
        let untils: Vec<_> = puts.map(until).collect();
        let hour = 3_600_000;
        let expected = [30_000, hour + 30_000, 2 * hour + 30_000, 3 * hour + 30_000, 3 * hour];
        assert_eq!(untils, expected.map(|after| json!(at(START + after).to_string())));
    }

    /// The SDK repeats a call whose answer was lost, and then finds what it had written itself.
    #[tokio::test]
    async fn what_was_written_by_a_call_without_an_answer_counts_as_written() {
        let desk = Desk::with_letters(10);
        let lost = Mutex::new(BTreeSet::new());
        desk.cloud.script(move |call| {
            let first = call.op == "PutObject" && lost.lock().unwrap().insert(call.object.clone());
            if first { Reply::Lost } else { Reply::Accept }
        });
        let retry = aws_config::retry::RetryConfig::standard()
            .with_initial_backoff(Duration::from_millis(1))
            .with_max_attempts(2);
        let now = Arc::clone(&desk.now);
        let replay = Replay::new(Parts {
            clients: desk.cloud.clients_with(retry),
            bucket: "graveyard".to_owned(),
            prefix: "dead-letters".to_owned(),
            requeue: arn(REQUEUE),
            clock: Clock::from_fn(move || at(now.load(Ordering::Relaxed))),
            owner: "a test".to_owned(),
        });
        let done =
            replay.run(&wish(json!({ "ramp": [100] })), &Source::Archive, None, &desk.operator()).await;
        assert_eq!(done.unwrap().sent, 10);
        assert_eq!(desk.sent().len(), 10);
    }
}

mod given_letters {
    use super::*;

    fn edited<const COUNT: usize>(ids: [&str; COUNT]) -> Vec<Given> {
        let edit = |id: &str| {
            let mut record = record_at(&plain(id), NOW);
            record.message.body = format!("{id}, edited");
            Ok((record, true))
        };
        ids.map(edit).into()
    }

    #[tokio::test]
    async fn an_edited_letter_goes_as_it_is_now_and_its_mark_says_so() {
        let desk = Desk::new();
        let mut given = edited(["a"]);
        given.push(Ok((record_at(&plain("b"), NOW), false)));
        given.push(Err("is not JSON".to_owned()));
        let operator = desk.operator();
        let done = desk.replay().run(&wish(json!({})), &Source::Given(given), None, &operator).await.unwrap();
        assert_eq!((done.sent, done.counts.unreadable), (2, 1));
        assert_eq!(desk.bodies(), ["a, edited", "b"]);
        let marks: Vec<_> = desk.sent().iter().map(|entry| mark_of(entry)["edited"].clone()).collect();
        assert_eq!(marks, [json!(true), Value::Null]);
        assert_eq!(operator.left_out.into_inner().unwrap(), ["line 3 is not JSON"]);
    }

    #[tokio::test]
    async fn never_both_in_either_order() {
        let desk = Desk::with_letters(2);
        desk.run_given(edited(["0"]), json!({})).await.unwrap();
        let done = desk.run(json!({})).await.unwrap();
        assert_eq!((done.sent, done.counts.already_replayed), (1, 1));
        let done = desk.run_given(edited(["1", "2", "2"]), json!({})).await.unwrap();
        assert_eq!((done.sent, done.counts.already_replayed, done.counts.doubles), (1, 1, 1));
        assert_eq!(desk.bodies(), ["0, edited", "1", "2, edited"]);
    }

    #[tokio::test]
    async fn they_are_not_selected_from() {
        for request in
            [json!({ "select": { "origins": ["raw"] } }), json!({ "cutOff": "2026-11-01T12:00:00Z" })]
        {
            let desk = Desk::new();
            let refused = desk.run_given(edited(["a"]), request).await.unwrap_err().to_string();
            let expected =
                "bad request: select, cutOff: choose letters of the archive, but records are given";
            assert_eq!((refused.as_str(), desk.cloud.journal().len()), (expected, 0));
        }
    }
}

mod event {
    use super::*;

    const ACTIVE: [(&str, &str); 2] = [("REQUEUE_ARN", REQUEUE), ("ARCHIVE", "s3://graveyard/dead-letters")];

    fn function(desk: &Desk, settings: &[(&str, &str)]) -> Function {
        let variable = |name: &str| {
            let given = settings.iter().find(|(variable, _)| *variable == name);
            given.map(|(_, value)| (*value).to_owned())
        };
        let now = Arc::clone(&desk.now);
        let clock = Clock::from_fn(move || at(now.load(Ordering::Relaxed)));
        Function::new(Settings::read(variable).unwrap(), desk.cloud.clients(), clock, Arc::new(|_| {}))
    }

    /// The answer of an invocation that has so many seconds, or the error.
    async fn invoke(function: &Function, desk: &Desk, seconds: i64, event: Value) -> Result<Value, String> {
        let deadline = desk.now.load(Ordering::Relaxed) + seconds * 1000;
        let event = serde_json::from_value(event).unwrap();
        let answer = function.answer(event, "req-1", deadline.try_into().unwrap()).await;
        let answer = answer.map_err(|error| error.to_string())?;
        assert!(matches!(answer, Answer::Replay(_)));
        Ok(serde_json::to_value(answer).unwrap())
    }

    async fn with(settings: &[(&str, &str)], event: Value) -> (Result<Value, String>, usize) {
        let desk = Desk::with_letters(3);
        let answer = invoke(&function(&desk, settings), &desk, 60, event).await;
        (answer, desk.sent().len())
    }

    #[tokio::test]
    async fn the_answer_is_the_manifest_and_the_same_lies_in_the_archive() {
        let desk = Desk::new();
        let policy = json!({ "default": { "target": BILLING } }).to_string();
        let settings = [ACTIVE[0], ACTIVE[1], ("REDRIVE_POLICY", policy.as_str())];
        desk.archive("a", &posts(3));
        let request = json!({ "select": { "queue": "orders-dlq" }, "ramp": [100], "rate": 9000 });
        let answer =
            invoke(&function(&desk, &settings), &desk, 60, json!({ "replay": request })).await.unwrap();
        let (key, manifest) = desk.kept("manifest.json").remove(0);
        assert_eq!(serde_json::from_str::<Value>(&manifest).unwrap(), answer);
        let id = answer["id"].as_str().unwrap().to_owned();
        assert_eq!(key, format!("graveyard/dead-letters/replays/{id}/manifest.json"));
        let expected = json!({
            "version": 1,
            "id": id,
            "request": { "select": { "queue": "orders-dlq" }, "dryRun": false, "rate": 9000, "ramp": [100],
                "threshold": 10, "settleSeconds": 60, "again": false, "resume": false },
            "cutOff": "2026-11-01T12:59:55Z",
            "status": "done",
            "counts": { "selected": 3, "doubles": 0, "alreadyReplayed": 0, "unreadable": 0, "unfit": {} },
            "sent": 3, "refused": 0, "repeated": 0,
            "step": 0, "stepBegan": "2026-11-01T13:00:00Z", "batchesBeforeStep": 0, "waitingBeforeStep": 0,
            "queues": [DLQ],
            "batches": 1,
        });
        assert_eq!(answer, expected);
    }

    #[tokio::test]
    async fn a_dry_run_counts_by_the_functions_own_policy() {
        let (answer, sent) = with(&ACTIVE, json!({ "replay": { "dryRun": true } })).await;
        let answer = answer.unwrap();
        assert_eq!((&answer["status"], sent), (&json!("dryRun"), 0));
        assert_eq!(
            answer["counts"]["unfit"],
            json!({ "noTarget": 3 }),
            "raw letters have no target by default"
        );
        let (answer, sent) = with(&ACTIVE, json!({ "replay": { "to": WORKER, "ramp": [100] } })).await;
        assert_eq!((&answer.unwrap()["sent"], sent), (&json!(3), 3));
    }

    #[tokio::test]
    async fn what_cannot_be_is_refused_and_says_why() {
        let observe = [ACTIVE[0], ACTIVE[1], ("REDRIVE_MODE", "observe")];
        let queue = [ACTIVE[0], ("ARCHIVE", BILLING)];
        let go = json!({ "to": WORKER, "ramp": [100] });
        for (settings, request, why) in [
            (&observe[..], &go, "REDRIVE_MODE is observe: only dryRun is possible"),
            (&queue, &go, "ARCHIVE is a queue; letters are replayed from S3 only"),
            (&ACTIVE[1..], &go, "REQUEUE_ARN is not set, and replayed letters go there"),
            (&ACTIVE, &json!({ "deliverTo": WORKER }), "unknown field `deliverTo`, expected one of"),
            (
                &ACTIVE,
                &json!({ "select": { "reason": ["expired"] } }),
                "unknown field `reason`, expected one of",
            ),
            // An empty selection is the whole archive: nobody gets it by a slip.
            (&ACTIVE, &json!([]), "replay: must be an object"),
            (&ACTIVE, &json!({ "select": [] }), "select: must be an object"),
            (&ACTIVE, &json!({ "select": { "reasons": ["tired"] } }), "select.reasons: \"tired\" is none of"),
            (&ACTIVE, &json!({ "select": { "match": { "x": 1 } } }), "select.match: "),
            (
                &ACTIVE,
                &json!({ "rate": 0, "threshold": 101 }),
                "rate: must be from 1 to 10000; threshold: must be from 0 to 100",
            ),
            (
                &ACTIVE,
                &json!({ "ramp": [5, 5, 100] }),
                "ramp: must be rising per cents, the last of them 100",
            ),
            (&ACTIVE, &json!({ "cutOff": at(START + 1).to_string() }), "cutOff: must not lie in the future"),
            (&ACTIVE, &json!({ "to": "nowhere" }), "must be topic, or the ARN of a topic, queue or function"),
        ] {
            let (answer, sent) = with(settings, json!({ "replay": request })).await;
            let error = answer.unwrap_err();
            assert!(error.starts_with(&format!("bad request: {why}")), "{request}: {error}");
            assert_eq!(sent, 0);
        }
        let (answer, _) = with(&observe, json!({ "replay": { "dryRun": true, "to": WORKER } })).await;
        assert_eq!(answer.unwrap()["counts"]["selected"], 3);
        for event in [json!({}), json!({ "replay": {}, "Records": [] })] {
            let (answer, sent) = with(&ACTIVE, event).await;
            assert_eq!(
                (answer.unwrap_err().as_str(), sent),
                ("the event must have either Records or replay", 0)
            );
        }
    }

    #[tokio::test]
    async fn out_of_time_it_answers_how_it_stands_and_the_next_call_goes_on() {
        let desk = Desk::with_letters(30);
        let function = function(&desk, &ACTIVE);
        let event = json!({ "replay": { "to": WORKER, "ramp": [10, 100], "rate": 10 } });
        // Half of this is kept back for the end of the batch.
        let settling = invoke(&function, &desk, 1, event.clone()).await.unwrap();
        assert_eq!((&settling["status"], &settling["sent"]), (&json!("settling"), &json!(3)));
        assert_eq!(settling["notBefore"], at(START + 60_000).to_string());
        desk.pass(60);
        let running = invoke(&function, &desk, 2, event.clone()).await.unwrap();
        assert_eq!((&running["status"], &running["sent"]), (&json!("running"), &json!(13)));
        let done = invoke(&function, &desk, 60, event).await.unwrap();
        assert_eq!(
            (&done["status"], &done["sent"], &done["id"]),
            (&json!("done"), &json!(30), &running["id"])
        );
        assert_eq!(desk.bodies(), numbers(0..30));
    }
}

mod in_the_requeue {
    use super::*;

    /// The message that SQS makes of what a replay has sent.
    fn received(entry: &Entry) -> Post {
        let mut post = Post::raw("moved", &entry.body).queue(REQUEUE).sent(START);
        for (name, (kind, value)) in &entry.attributes {
            post = post.attribute(name, kind, value);
        }
        post
    }

    /// A function that meets a letter which was exhausted, archived and replayed.
    async fn replayed(request: Value, policy: &Value) -> (World, Post) {
        let desk = Desk::new();
        let mark = json!({ "v": 1, "spent": 12, "id": letter_id("a"), "first": 5, "gen": 2 });
        desk.archive("a", &[Post::envelope("a").sqs_mark(&mark)]);
        desk.run(request).await.unwrap();
        let post = received(&desk.sent()[0]);
        let policy = policy.to_string();
        desk.cloud.forget();
        let world = World::on(desk.cloud.clone(), &[("REQUEUE_ARN", REQUEUE), ("REDRIVE_POLICY", &policy)]);
        world.set_now(START);
        (world, post)
    }

    #[tokio::test]
    async fn it_takes_the_ordinary_way_with_all_its_retries_and_is_no_arrival() {
        let schedule = json!({ "healthyRetryPolicy": { "numRetries": 2, "numNoDelayRetries": 1, "minDelayTarget": 60,
            "maxDelayTarget": 60 } });
        let policy = json!({ "default": { "jitter": 0, "deliveryPolicy": schedule } });
        let (world, post) = replayed(json!({}), &policy).await;
        world.cloud.reply("SendMessageBatch", Reply::Fail(503, "ServiceUnavailable", "down"));
        let ran = world.run([&post]).await;
        let line = ran.letter("moved");
        assert_eq!(
            json!([line["outcome"], line["retry.number"], line["letter.id"]]),
            json!(["deferred", 1, letter_id("a")])
        );
        let metrics = ran.metrics();
        assert_eq!((&metrics["LettersArrived"], &metrics["LettersDeferred"]), (&json!(0), &json!(1)));
        world.cloud.script(|_| Reply::Accept);
        world.cloud.forget();
        world.pass(60);
        assert_eq!(world.run([&post.received(2)]).await.outcomes(), ["moved delivered"]);
        let [call] = &world.cloud.calls("SendMessageBatch")[..] else { panic!("one request") };
        assert_eq!(call.to, "orders-worker", "nothing goes to the dead-letter queue");
        let mark = json!({ "v": 1, "spent": 2, "id": letter_id("a"), "first": START, "gen": 3 });
        assert_eq!(mark_of(&call.entries[0]), mark, "what only the requeue says stays there");
    }

    #[tokio::test]
    async fn the_target_of_the_replay_goes_before_the_rules_within_allow_targets() {
        let policy = |allowed: &[&str]| json!({ "default": { "allowTargets": allowed } });
        let (world, post) = replayed(json!({ "to": BILLING }), &policy(&[BILLING, WORKER])).await;
        assert_eq!(world.run([&post]).await.outcomes(), ["moved delivered"]);
        assert_eq!(world.cloud.calls("SendMessageBatch")[0].to, "orders-billing");
        let (world, post) = replayed(json!({ "to": BILLING }), &policy(&[WORKER])).await;
        assert_eq!(world.run([&post]).await.outcomes(), ["moved archived refused"]);
        let (world, post) = replayed(json!({ "to": "topic" }), &policy(&[TOPIC])).await;
        assert_eq!(world.run([&post]).await.outcomes(), ["moved delivered"]);
        assert_eq!(world.cloud.calls("PublishBatch")[0].to, "orders");
    }

    #[tokio::test]
    async fn a_rule_that_archives_or_holds_still_does() {
        for (action, outcome) in [("archive", "moved archived rule"), ("hold", "moved deferred hold")] {
            let policy =
                json!({ "rules": [{ "name": "r", "match": { "origin": ["sns"] }, "action": action }] });
            let (world, post) = replayed(json!({ "to": BILLING }), &policy).await;
            assert_eq!(world.run([&post]).await.outcomes(), [outcome]);
            assert_eq!(world.cloud.calls("SendMessageBatch"), []);
        }
    }

    /// Anybody may send to a dead-letter queue; a mark there names no target.
    #[tokio::test]
    async fn the_same_mark_in_a_dead_letter_queue_names_no_target() {
        let (world, post) = replayed(json!({ "to": BILLING }), &json!({})).await;
        assert_eq!(world.run([&post.queue(DLQ)]).await.outcomes(), ["moved delivered"]);
        assert_eq!(world.cloud.calls("SendMessageBatch")[0].to, "orders-worker");
    }
}

/// A part of the archive that holds nothing of the selection can take long. It is neither deaf nor without its
/// lock meanwhile.
mod a_long_way_without_a_letter {
    use super::*;

    /// A hundred objects of another queue's topic, each of which takes its time.
    fn desert() -> Desk {
        let desk = Desk::new();
        for number in 0..100 {
            desk.archive(&format!("o{number:03}"), &[plain(&number.to_string())]);
        }
        desk.cloud.script(|call| match call.op.as_str() {
            "GetObject" if call.to.contains("queue=") => Reply::Slow(Duration::from_millis(200)),
            _ => Reply::Accept,
        });
        desk
    }

    #[tokio::test]
    async fn stops_when_it_is_told_to() {
        let desk = desert();
        let operator = desk.operator();
        let began = Instant::now();
        let request = json!({ "select": { "origins": ["eventbridge"] } });
        let (ended, ()) = tokio::join!(desk.run_by(&operator, request), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            operator.stopped.store(true, Ordering::Relaxed);
        });
        assert!(matches!(ended, Err(ReplayError::NotCounted)), "{ended:?}");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn keeps_its_lock() {
        let desk = desert();
        let now = Arc::clone(&desk.now);
        let request = json!({ "select": { "origins": ["eventbridge"] } });
        let (done, ()) = tokio::join!(desk.run(request), async {
            // A minute goes by, twice as long as the lock holds.
            for _ in 0..6 {
                tokio::time::sleep(Duration::from_millis(300)).await;
                now.fetch_add(10_000, Ordering::Relaxed);
            }
        });
        assert_eq!(done.unwrap().status, Status::Done);
        let locks = desk.cloud.calls("PutObject").into_iter().filter(|call| call.to.ends_with("lock.json"));
        assert!(locks.count() >= 5, "taken, renewed while it read, given back");
    }
}

use super::*;

#[tokio::test]
async fn one_replay_at_a_time_and_what_died_is_over_after_half_a_minute() {
    let console = Console::with_letters(3);
    let entered = Arc::new(Notify::new());
    let notify = Arc::clone(&entered);
    console.cloud.script(move |call| {
        let sends = call.operation == "SendMessageBatch";
        if sends {
            notify.notify_one();
            return Fault::HangBefore;
        }
        Fault::Pass
    });
    let (replay, operator, request) = (console.replay(), console.operator(), wish(json!({})));
    tokio::select! {
        ended = replay.run(&request, &Source::Archive, None, &operator) => panic!("{ended:?}"),
        () = entered.notified() => {}
    }
    console.cloud.script(|_| Fault::Pass);
    let other = json!({ "select": { "origins": ["sns"] } });
    assert_eq!(console.run(other.clone()).await.unwrap_err(), ReplayError::Busy(at(START + 30_000)));
    assert_eq!(console.run(json!({})).await.unwrap_err(), ReplayError::Busy(at(START + 30_000)));
    // To count needs no lock.
    assert_eq!(console.run(json!({ "dryRun": true })).await.unwrap().counts.selected, 3);
    console.pass(30);
    assert_eq!(console.run(other).await.unwrap().status, Status::Done);
    assert_eq!(console.run(json!({})).await.unwrap().sent, 3, "it was given back at once");
}

/// A machine that slept, say. Whoever has the lock now also has the manifest.
#[tokio::test]
async fn without_the_lock_nothing_is_sent_and_nothing_of_the_other_is_touched() {
    let console = Console::with_letters(100);
    let (now, cloud) = (Arc::clone(&console.now), console.cloud.clone());
    let other = json!({ "version": 1, "owner": "another", "token": "t", "until": at(START + 900_000) });
    let theirs = other.to_string();
    console.cloud.script(move |call| {
        if call.operation == "SendMessageBatch" {
            now.fetch_add(60_000, Ordering::Relaxed);
            cloud.put("graveyard/dead-letters/replays/lock.json", &theirs);
            for manifest in cloud.objects().keys().filter(|key| key.ends_with("manifest.json")) {
                cloud.put(manifest, "theirs");
            }
        }
        Fault::Pass
    });
    assert_eq!(console.run(json!({})).await.unwrap_err(), ReplayError::LockLost);
    assert_eq!(console.sent().len(), 1, "what was under way");
    assert_eq!(console.kept("manifest.json")[0].1, "theirs");
    assert_eq!(console.kept("lock.json")[0].1, other.to_string());
}

#[tokio::test]
async fn a_lock_that_others_took_is_seen_before_the_next_batch() {
    let console = Console::with_letters(100);
    let (now, cloud) = (Arc::clone(&console.now), console.cloud.clone());
    console.cloud.script(move |call| {
        if call.operation == "SendMessageBatch" {
            now.fetch_add(60_000, Ordering::Relaxed);
            cloud.put("graveyard/dead-letters/replays/lock.json", "theirs");
        }
        Fault::Pass
    });
    assert_eq!(console.run(json!({ "settleSeconds": 0 })).await.unwrap_err(), ReplayError::LockLost);
    assert_eq!(console.sent().len(), 1);
}

/// The manifest is guarded by itself: clocks of two machines can differ, and a lock be thought to be over.
#[tokio::test]
async fn a_manifest_that_somebody_else_has_written_is_not_written_over() {
    let console = Console::with_letters(100);
    let cloud = console.cloud.clone();
    console.cloud.script(move |call| {
        if call.operation == "SendMessageBatch" {
            for manifest in cloud.objects().keys().filter(|key| key.ends_with("manifest.json")) {
                cloud.put(manifest, "theirs");
            }
        }
        Fault::Pass
    });
    assert_eq!(console.run(json!({})).await.unwrap_err(), ReplayError::LockLost);
    assert_eq!((console.sent().len(), console.kept("manifest.json")[0].1.as_str()), (1, "theirs"));
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
    let console = Console::with_letters(10);
    let control = Slowly { clock: Arc::clone(&console.now), settling: AtomicBool::new(false) };
    let request = wish(json!({ "ramp": [10, 100], "settleSeconds": 60 }));
    console.replay().run(&request, &Source::Archive, None, &control).await.unwrap();
    let puts = console.cloud.calls("PutObject").into_iter().filter(|call| call.target.ends_with("lock.json"));
    let until = |call: support::Call| {
        let lock: Value = serde_json::from_slice(&call.body).unwrap();
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
    let console = Console::with_letters(100);
    console.run(json!({ "settleSeconds": 3600 })).await.unwrap();
    let puts = console.cloud.calls("PutObject").into_iter().filter(|call| call.target.ends_with("lock.json"));
    let until = |call: support::Call| serde_json::from_slice::<Value>(&call.body).unwrap()["until"].clone();
    let untils: Vec<_> = puts.map(until).collect();
    let hour = 3_600_000;
    let expected = [30_000, hour + 30_000, 2 * hour + 30_000, 3 * hour + 30_000, 3 * hour];
    assert_eq!(untils, expected.map(|after| json!(at(START + after).to_string())));
}

/// The SDK repeats a call whose answer was lost, and then finds what it had written itself.
#[tokio::test]
async fn what_was_written_by_a_call_without_an_answer_counts_as_written() {
    let console = Console::with_letters(10);
    let lost = Mutex::new(BTreeSet::new());
    console.cloud.script(move |call| {
        let first = call.operation == "PutObject" && lost.lock().unwrap().insert(call.body.clone());
        if first { Fault::ResetAfter } else { Fault::Pass }
    });
    let retry = aws_config::retry::RetryConfig::standard()
        .with_initial_backoff(Duration::from_millis(1))
        .with_max_attempts(2);
    let now = Arc::clone(&console.now);
    let replay = Replay::new(Parts {
        clients: console.cloud.clients_with(retry),
        bucket: "graveyard".to_owned(),
        prefix: "dead-letters".to_owned(),
        requeue: arn(REQUEUE),
        clock: Clock::from_fn(move || at(now.load(Ordering::Relaxed))),
        owner: "a test".to_owned(),
    });
    let done = replay.run(&wish(json!({ "ramp": [100] })), &Source::Archive, None, &console.operator()).await;
    assert_eq!(done.unwrap().sent, 10);
    assert_eq!(console.sent().len(), 10);
}

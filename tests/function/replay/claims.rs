//! Tests of several replays at the same time, of the state that a dead one leaves, and of the clock that
//! counts.

use super::*;

fn is_send(call: &SimCall) -> bool {
    call.operation == "SendMessageBatch"
}

/// Runs a replay that dies after SQS has accepted the first ten of its letters. Returns its id.
async fn dead(world: &ArchiveWorld, request: Value) -> String {
    let crashed = world
        .crash(is_send, 0, true, async |replay| {
            replay.run(&begins(&wish(request)), &ReplaySource::Archive, None, &TestObserver::default()).await
        })
        .await;
    assert!(crashed.is_none());
    world.replay().kept().all().await.unwrap()[0].id.clone()
}

#[tokio::test(start_paused = true)]
async fn replays_of_the_same_letters_at_once_send_each_once() {
    for seed in 0..8 {
        let world = ArchiveWorld::new();
        for object in 0..20 {
            let ids: Vec<_> = (0..40).map(|letter| plain(&(object * 40 + letter).to_string())).collect();
            world.archive(&format!("{object:02}"), &ids);
        }
        // Each request takes a different time.
        let calls = AtomicUsize::new(seed);
        world.faults(move |_| {
            let wait = calls.fetch_add(7 * seed + 3, Ordering::Relaxed) % 50;
            SimFault::Pass.after(Duration::from_millis(wait as u64))
        });
        let select = json!({ "queue": "payments-dlq" });
        let request = wish(json!({ "ramp": [100], "select": select }));
        let replays: Vec<_> = (0..3).map(|who| world.replay_by(&Caller::new(&format!("r{who}")))).collect();
        let run = async |replay: &ArchiveReplayer| {
            replay
                .run(&begins(&request), &ReplaySource::Archive, None, &TestObserver::default())
                .await
                .unwrap()
        };
        let (one, two, three) = tokio::join!(run(&replays[0]), run(&replays[1]), run(&replays[2]));
        let all = [one, two, three];
        assert_eq!(world.sent().len(), 800, "seed {seed}: {all:?}");
        assert_eq!(world.numbers(), numbers(0..800), "seed {seed}");
        assert!(all.iter().all(|state| state.status == ReplayStatus::Done && state.counts.repeated == 0));
        assert_eq!(all.iter().map(|state| state.counts.sent).sum::<u64>(), 800);
        assert_eq!(all.iter().map(|state| state.counts.already_replayed).sum::<u64>(), 1600);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_replay_may_have_sent_is_left_alone_by_another_until_that_one_went_on() {
    let world = ArchiveWorld::with_letters(25);
    let request = json!({ "ramp": [100] });
    let id = dead(&world, request.clone()).await;
    assert_eq!(world.sent().len(), 10);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let operator = TestObserver::default();
    let other = world.run_by(&operator, request.clone()).await.unwrap();
    assert_eq!((other.counts.sent, other.counts.not_replayable["inDoubt"]), (0, 25));
    let told = format!(
        "may have been sent by replay {id}, which was cut off: resume that replay, or free its letters"
    );
    assert_eq!(operator.left_out.into_inner().unwrap()[0], format!("{}:1 {told}", indexed("a", 25)));
    let done = world.resume(&id).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 25, 25));
    assert_eq!(world.sent().len(), 25 + 10);
    let other = world.run(request).await.unwrap();
    assert_eq!((other.counts.sent, other.counts.already_replayed), (0, 25));
}

#[tokio::test(start_paused = true)]
async fn freed_letters_in_doubt_go_with_the_next_replay_and_no_others() {
    let world = ArchiveWorld::with_letters(25);
    // Two other letters were sent before.
    world.archive("b", &[plain("98"), plain("99")]);
    let some = json!({ "ramp": [100], "select": { "match": { "message": [98, 99] } } });
    assert_eq!(world.run(some).await.unwrap().counts.sent, 2);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let request = json!({ "ramp": [100] });
    let id = dead(&world, request.clone()).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let replay = world.replay_by(&Caller::new("jo"));
    let freed = replay.kept().free(&id, Some("nobody goes on")).await.unwrap().freed.unwrap();
    assert_eq!((freed.by.as_str(), freed.why.as_deref()), ("jo", Some("nobody goes on")));
    let done = world.run(request.clone()).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.already_replayed), (25, 2));
    assert_eq!(world.run(request).await.unwrap().counts.sent, 0);
    let over = world.resume(&id).await.unwrap_err().to_string();
    assert!(over.ends_with("cannot be resumed: its letters in doubt were freed"), "{over}");
}

/// A machine whose clock is wrong neither takes over another's work nor waits for ever.
#[tokio::test(start_paused = true)]
async fn no_clock_but_that_of_s3_says_whether_a_worker_is_alive() {
    for skew in [-7_200_000, 7_200_000] {
        let world = ArchiveWorld::with_letters(100);
        let request = json!({ "ramp": [100] });
        // This replay is slow: 5 letters a second.
        let slow = wish(json!({ "ramp": [100], "rate": 5 }));
        let replay = world.replay_by(&Caller::new("slow"));
        let operator = TestObserver::default();
        let begin = begins(&slow);
        let running = replay.run(&begin, &ReplaySource::Archive, None, &operator);
        let late = ArchiveWorld { skew, ..world.clone() };
        let other = async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            late.run(request.clone()).await.unwrap()
        };
        let (slow, other) = tokio::join!(running, other);
        assert_eq!(world.numbers(), numbers(0..100), "a skew of {skew}");
        assert_eq!((slow.unwrap().counts.sent, other.counts.already_replayed), (100, 100));

        let world = ArchiveWorld::with_letters(25);
        let id = dead(&world, request.clone()).await;
        let began = world.aws.clock().now();
        let late = ArchiveWorld { skew, ..world.clone() };
        assert_eq!(late.resume(&id).await.unwrap().counts.sent, 25);
        let took = world.aws.clock().now().duration_since(began).as_secs();
        assert!((50..90).contains(&took), "{took} s with a skew of {skew}");
    }
}

/// Runs a slow worker, and one that continues its replay after 70 seconds. Returns the results of both.
async fn overtaken(
    world: &ArchiveWorld,
    fault: impl Fn(usize) -> SimFault + Send + Sync + 'static,
) -> (Result<ReplayState, ReplayError>, ReplayState) {
    let writes = AtomicUsize::new(0);
    world.faults(move |call| {
        let is_ledger =
            &*call.caller == "slow" && call.operation == "PutObject" && call.target.ends_with("000000.json");
        if is_ledger { fault(writes.fetch_add(1, Ordering::Relaxed)) } else { SimFault::Pass }
    });
    let request = wish(json!({ "ramp": [100], "rate": 10 }));
    let slow = world.replay_by(&Caller::new("slow"));
    let operator = TestObserver::default();
    let begin = begins(&request);
    let running = slow.run(&begin, &ReplaySource::Archive, None, &operator);
    let other = async {
        tokio::time::sleep(Duration::from_secs(70)).await;
        let id = world.replay().kept().all().await.unwrap()[0].id.clone();
        world.resume(&id).await.unwrap()
    };
    tokio::join!(running, other)
}

/// The machine slept while another continued its replay.
#[tokio::test(start_paused = true)]
async fn a_worker_that_lost_its_claim_sends_nothing_more() {
    let world = ArchiveWorld::with_letters(40);
    // Its second write of the ledger takes two minutes.
    let late = |write| if write == 1 { SimFault::Pass.after(Duration::from_mins(2)) } else { SimFault::Pass };
    let (slow, other) = Box::pin(overtaken(&world, late)).await;
    assert!(matches!(slow, Err(ReplayError::TakenUp(_))), "{slow:?}");
    assert_eq!((other.status, other.counts.sent), (ReplayStatus::Done, 40));
    assert!(world.sent().len() as u64 <= 40 + other.counts.repeated, "{}", world.sent().len());
}

/// The worker has written that it sends these letters, and learns of its success only after another has sent
/// them.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_heard_of_late_sends_nothing() {
    for nth in 0..2 {
        let world = ArchiveWorld::with_letters(40);
        let late =
            move |write| if write == nth { SimFault::Late(Duration::from_mins(2)) } else { SimFault::Pass };
        let (slow, other) = Box::pin(overtaken(&world, late)).await;
        assert!(matches!(slow, Err(ReplayError::TakenUp(_))), "{slow:?}");
        assert_eq!((other.status, other.counts.sent, other.counts.repeated), (ReplayStatus::Done, 40, 10));
        assert_eq!(world.numbers(), numbers(0..40), "none goes twice, though ten were in doubt");
    }
}

/// Another has read the claim when it was over, and writes its own after it was written anew. Equal content would
/// have an equal `ETag`.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_written_anew_is_taken_over_by_nobody() {
    let world = ArchiveWorld::with_letters(40);
    let (slow_writes, late_writes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_first = |writes: &AtomicUsize| writes.fetch_add(1, Ordering::Relaxed) == 0;
    world.faults(move |call| {
        let is_ledger = call.operation == "PutObject" && call.target.ends_with("000000.json");
        match &*call.caller {
            "slow" if is_ledger && is_first(&slow_writes) => SimFault::Late(Duration::from_secs(65)),
            "slow" if call.operation == "SendMessageBatch" => SimFault::Pass.after(Duration::from_secs(2)),
            "late" if is_ledger && is_first(&late_writes) => {
                SimFault::Pass.after(Duration::from_millis(3500))
            }
            _ => SimFault::Pass,
        }
    });
    let request = wish(json!({ "ramp": [100], "rate": 10 }));
    let (slow, late) = (world.replay_by(&Caller::new("slow")), world.replay_by(&Caller::new("late")));
    let (operator, other) = (TestObserver::default(), TestObserver::default());
    let resuming = async {
        tokio::time::sleep(Duration::from_secs(62)).await;
        let id = world.replay().kept().all().await.unwrap()[0].id.clone();
        late.run(&resumes(&resume(&id)), &ReplaySource::Archive, None, &other).await.unwrap()
    };
    let begin = begins(&request);
    let (_, done) = tokio::join!(slow.run(&begin, &ReplaySource::Archive, None, &operator), resuming);
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 40));
    assert_eq!(world.numbers(), numbers(0..40), "none goes twice");
}

/// This also holds if only one clock shows the delay: the other kind stops while a machine sleeps.
#[tokio::test(start_paused = true)]
async fn a_claim_is_written_anew_until_it_is_fresh() {
    for sleeps in [false, true] {
        for slow in [1, 2, usize::MAX] {
            let world = ArchiveWorld::with_letters(5);
            let (writes, skew) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicI64::new(0)));
            let (seen, ahead) = (Arc::clone(&writes), Arc::clone(&skew));
            world.faults(move |call| {
                let is_ledger = call.operation == "PutObject" && call.target.ends_with("000000.json");
                let is_late = is_ledger && seen.fetch_add(1, Ordering::Relaxed) < slow;
                match is_late {
                    false => SimFault::Pass,
                    true if sleeps => {
                        ahead.fetch_add(25_000, Ordering::Relaxed);
                        SimFault::Pass
                    }
                    true => SimFault::Late(Duration::from_secs(25)),
                }
            });
            let clock = world.aws.clock().clone();
            let clock = InstanceClock::from_fn(move || {
                at(clock.now().as_millisecond() + skew.load(Ordering::Relaxed))
            });
            let replay =
                ArchiveReplayer::new(ReplayEnvironment { clock, ..world.parts(&Caller::new("somebody")) });
            let request = wish(json!({ "ramp": [100] }));
            let ended =
                replay.run(&begins(&request), &ReplaySource::Archive, None, &TestObserver::default()).await;
            let writes = writes.load(Ordering::Relaxed);
            if slow > 2 {
                let failed = ended.unwrap_err().to_string();
                assert!(failed.contains("000000.json failed: DeadlineExceeded"), "{failed}");
                assert_eq!((writes, world.sent().len()), (3, 0));
            } else {
                // The last write comes after the sending.
                assert_eq!((ended.unwrap().counts.sent, writes), (5, slow + 2));
                assert_eq!(world.numbers(), numbers(0..5));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_newer_version_wrote_or_none_is_left_as_it_is() {
    let world = ArchiveWorld::with_letters(3);
    let id = world.run(json!({ "ramp": [100] })).await.unwrap().id;
    world.replay().kept().stop(&id, None).await.unwrap();
    let mut kinds = BTreeSet::new();
    // Only the turns of this replay, which is done, read the objects of its rounds.
    let kept = world.objects(CONTROL).into_iter();
    for (key, text) in kept.filter(|(key, _)| !key.ends_with("jsonl") && !key.contains("/rounds/")) {
        let kind = key.rsplit('/').next().unwrap().to_owned();
        for (version, error) in
            [(2, ReplayError::Newer as fn(String) -> ReplayError), (0, ReplayError::Broken)]
        {
            let other = text.replace("\"version\":1", &format!("\"version\":{version}"));
            assert_ne!(text, other, "{key}");
            world.put(&key, &other, START);
            let refused = match kind.as_str() {
                "replay.json" => world.replay().kept().show(&id).await.map(|_| ()),
                "stop.json" => world.replay().kept().stop(&id, None).await.map(|_| ()),
                _ => world.run(json!({ "ramp": [100] })).await.map(|_| ()),
            };
            assert_eq!(refused, Err(error(format!("s3://my-bucket/{key}"))));
            assert_eq!(world.objects(&key)[0].1, other);
        }
        world.put(&key, &text, START);
        kinds.insert(kind);
    }
    let all = ["000000.json", "cuts.json", "replay.json", "stop.json"];
    assert_eq!(kinds.iter().collect::<Vec<_>>(), all, "everything that is kept was tried");
    assert_eq!(world.sent().len(), 3);
}

use super::*;

#[tokio::test(start_paused = true)]
async fn a_replay_that_was_interrupted_goes_on_by_its_id_and_sends_nothing_twice() {
    let world = ArchiveWorld::with_letters(600);
    let operator = TestObserver { stop_at: Some(100), ..TestObserver::default() };
    let paused = world.run_by(&operator, json!({ "rate": 100, "ramp": [20, 100] })).await.unwrap();
    assert_eq!(paused.status, ReplayStatus::Running);
    let again = world.resume(&paused.id).await.unwrap();
    assert_eq!((again.status, again.counts.sent, again.counts.repeated), (ReplayStatus::Done, 600, 0));
    assert_eq!(world.numbers(), numbers(0..600));
    let done = world.resume(&paused.id).await.unwrap_err();
    assert_eq!(done.to_string(), format!("bad request: replay {} cannot be resumed: it is done", paused.id));
    assert_eq!(
        world.resume("20260101T000000Z-nobody").await.unwrap_err().to_string(),
        "there is no replay 20260101T000000Z-nobody: `redrivectl replay list` lists them"
    );
}

/// A replay that was begun weeks ago is not continued by a request for the same letters.
#[tokio::test(start_paused = true)]
async fn a_new_replay_is_a_new_one_and_the_other_is_shown() {
    let world = ArchiveWorld::with_letters(50);
    let operator = TestObserver { stop_at: Some(10), ..TestObserver::default() };
    let old =
        world.run_by(&operator, json!({ "ramp": [20, 100], "why": "the outage of May" })).await.unwrap();
    tokio::time::sleep(Duration::from_hours(300)).await;
    let today = world.aws.clock().now();
    let late = record_at(&plain("today"), today.as_millisecond() - 60_000);
    let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-14/20261114T000000Z-b.jsonl");
    world.put(&key, &late.to_line().unwrap(), today.as_millisecond() - 60_000);
    let replay = world.replay();
    let request = wish(json!({ "ramp": [20, 100] }));
    let unfinished = replay.kept().unfinished(&request, &ReplaySource::Archive).await.unwrap();
    assert_eq!(unfinished.iter().map(|state| &state.id).collect::<Vec<_>>(), [&old.id]);
    let new =
        replay.run(&begins(&request), &ReplaySource::Archive, None, &TestObserver::default()).await.unwrap();
    assert_ne!(new.id, old.id);
    assert_eq!((new.counts.sent, new.counts.already_replayed), (41, 10));
    let all = replay.kept().all().await.unwrap();
    let shown: Vec<_> =
        all.iter().map(|state| (&state.id, state.status, state.request.why.as_deref())).collect();
    assert_eq!(
        shown,
        [(&new.id, ReplayStatus::Done, None), (&old.id, ReplayStatus::Running, Some("the outage of May"))]
    );
    // The old replay finds none of its letters left.
    let old = world.resume(&old.id).await.unwrap();
    assert_eq!((old.status, old.counts.sent, old.counts.already_replayed), (ReplayStatus::Done, 10, 40));
    assert_eq!(world.sent().len(), 51);
}

/// Continuing a replay costs only what is left.
#[tokio::test(start_paused = true)]
async fn going_on_reads_no_object_of_units_that_are_behind_it() {
    let world = ArchiveWorld::new();
    for hour in 10..20 {
        for part in 0..3 {
            let name = format!(
                "{ARCHIVE}/queue=payments-dlq/date=2026-10-31/20261031T{hour}0000Z-{part}.2-n100-r0.jsonl"
            );
            let ids = (0..100).map(|letter| plain(&format!("{hour}{part}{letter:02}")));
            world.put(&name, &ids.map(|post| line(&post)).collect::<String>(), NOW);
        }
    }
    let world = ArchiveWorld { workers: 1, ..world };
    let operator = TestObserver { stop_at: Some(2700), ..TestObserver::default() };
    let request = json!({ "ramp": [100], "select": { "queue": "payments-dlq" } });
    let paused = world.run_by(&operator, request).await.unwrap();
    assert_eq!(paused.status, ReplayStatus::Running);
    assert!(paused.counts.sent >= 2700 && paused.counts.sent < 3000, "{}", paused.counts.sent);
    let _ = world.aws.take_journal();
    let done = world.resume(&paused.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 3000));
    let read = world.calls("GetObject").iter().filter(|call| call.target.contains("date=")).count();
    assert!(read <= 3, "{read} objects were read");
    assert_eq!(world.sent().len(), 3000);
}

#[tokio::test(start_paused = true)]
async fn somebody_elsewhere_can_stop_it_and_says_why() {
    let world = ArchiveWorld::with_letters(1000);
    let request = wish(json!({ "rate": 10, "ramp": [100], "select": { "queue": "payments-dlq" } }));
    let (replay, other) = (world.replay(), world.replay_by(&Caller::new("jo")));
    let operator = TestObserver::default();
    let begin = begins(&request);
    let running = replay.run(&begin, &ReplaySource::Archive, None, &operator);
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let id = other.kept().all().await.unwrap()[0].id.clone();
        other.kept().stop(&id, Some("the shop complains")).await.unwrap()
    };
    let (stopped, state) = tokio::join!(running, stopping);
    let stopped = stopped.unwrap();
    assert_eq!((stopped.id.clone(), stopped.status), (state.id, ReplayStatus::Stopped));
    assert_eq!(stopped.because.as_deref(), Some("jo stopped it: the shop complains"));
    // The stop comes in the middle of the first 200 letters, which are in one unit.
    assert!(stopped.counts.sent < 150, "{}", stopped.counts.sent);
    // The stop does not apply to the continued replay.
    let done = world.resume(&stopped.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 1000));
    assert_eq!(world.numbers(), numbers(0..1000));
}

/// The slices of a large last step end in less time than there is between two checks.
#[tokio::test(start_paused = true)]
async fn a_stop_is_heard_however_short_the_slices_are() {
    let world = ArchiveWorld::with_letters(2000);
    let request = wish(json!({ "rate": 100, "ramp": [5, 100], "settleSeconds": 1 }));
    let (replay, operator) = (world.replay(), TestObserver::default());
    let begin = begins(&request);
    let running = replay.run(&begin, &ReplaySource::Archive, None, &operator);
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        let other = world.replay();
        let id = other.kept().all().await.unwrap()[0].id.clone();
        other.kept().stop(&id, None).await.unwrap().counts.sent
    };
    let (stopped, sent) = tokio::join!(running, stopping);
    let stopped = stopped.unwrap();
    assert_eq!(stopped.status, ReplayStatus::Stopped);
    assert!(stopped.counts.sent <= sent + 300, "{sent} {:?}", stopped.counts);
}

/// A replay can be stopped as soon as it is visible.
#[tokio::test(start_paused = true)]
async fn a_stop_is_heard_that_comes_before_the_first_letter() {
    let world = ArchiveWorld::with_letters(1000);
    world.faults(|call| {
        let is_state = call.operation == "PutObject" && call.target.ends_with("replay.json");
        let is_second = is_state && call.parameter("if-match").is_some();
        let is_slow = is_second || (call.operation == "ListObjectsV2" && &*call.caller != "jo");
        if is_slow {
            SimFault::Slow(Duration::from_secs(2), Box::new(SimFault::Pass))
        } else {
            SimFault::Pass
        }
    });
    let request = wish(json!({ "rate": 10, "ramp": [100] }));
    let (replay, operator) = (world.replay(), TestObserver::default());
    let stopping = async {
        let other = world.replay_by(&Caller::new("jo"));
        let id = loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if let Some(state) = other.kept().all().await.unwrap().first() {
                break state.id.clone();
            }
        };
        other.kept().stop(&id, None).await.unwrap();
    };
    let begin = begins(&request);
    let (stopped, ()) = tokio::join!(replay.run(&begin, &ReplaySource::Archive, None, &operator), stopping);
    assert_eq!(stopped.unwrap().status, ReplayStatus::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_heard_that_is_written_while_somebody_takes_the_replay_up() {
    let world = ArchiveWorld::with_letters(1000);
    let operator = TestObserver { stop_at: Some(200), ..TestObserver::default() };
    let begun = world.run_by(&operator, json!({ "rate": 10, "ramp": [100] })).await.unwrap();
    world.faults(|call| {
        let is_stop = call.operation == "PutObject" && call.target.ends_with("stop.json");
        if is_stop {
            SimFault::Slow(Duration::from_secs(5), Box::new(SimFault::Pass))
        } else {
            SimFault::Pass
        }
    });
    let other = world.replay_by(&Caller::new("jo"));
    let stopping = other.kept().stop(&begun.id, None);
    let resuming = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.resume(&begun.id).await.unwrap()
    };
    let (stop, resumed) = tokio::join!(stopping, resuming);
    stop.unwrap();
    assert_eq!(resumed.status, ReplayStatus::Stopped);
}

/// A finished replay is not read by others: the ledgers have all that it knows.
#[tokio::test(start_paused = true)]
async fn what_a_replay_costs_does_not_grow_with_those_before_it() {
    let world = ArchiveWorld::new();
    let mut costs = Vec::new();
    for hour in 10..16 {
        let archived = at(NOW - 86_400_000 + (hour - 12) * 3_600_000);
        let name = archived.strftime("%Y%m%dT%H%M%SZ-a");
        let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-10-31/{name}.jsonl");
        let record = record_at(&plain(&hour.to_string()), archived.as_millisecond());
        world.put(&key, &record.to_line().unwrap(), archived.as_millisecond());
        let _ = world.aws.take_journal();
        let select = json!({ "from": archived, "to": archived + Duration::from_mins(1) });
        let done = world.run(json!({ "ramp": [100], "select": select })).await.unwrap();
        assert_eq!(done.counts.sent, 1);
        costs.push(world.aws.calls().len());
    }
    assert_eq!(costs, vec![costs[0]; 6]);
}

/// What was deleted can get no letters, and must not hold up those that are left.
#[tokio::test(start_paused = true)]
async fn a_replay_whose_dead_letter_queue_was_deleted_goes_on() {
    let world = ArchiveWorld::with_letters(600);
    let operator = TestObserver { stop_at: Some(100), ..TestObserver::default() };
    let paused = world.run_by(&operator, json!({ "rate": 100, "ramp": [20, 100] })).await.unwrap();
    assert_eq!(paused.queues, [arn(DLQ)]);
    world.faults(|call| {
        let is_gone = call.operation == "GetQueueAttributes" && call.target == "payments-dlq";
        let code = "AWS.SimpleQueueService.NonExistentQueue";
        if is_gone {
            SimFault::refuse(400, code, "The specified queue does not exist.")
        } else {
            SimFault::Pass
        }
    });
    let watcher = TestObserver::default();
    let done = world
        .replay()
        .run(&resumes(&resume(&paused.id)), &ReplaySource::Archive, None, &watcher)
        .await
        .unwrap();
    assert_eq!((done.status, done.counts.sent, done.queues), (ReplayStatus::Done, 600, Vec::new()));
    let told = watcher.left_out.into_inner().unwrap();
    assert!(
        told[0].starts_with(&format!("{DLQ} cannot be read, so letters that wait there do not stop")),
        "{told:?}"
    );
    // One that is only out of sight may have letters.
    let world = ArchiveWorld::with_letters(600);
    let paused = world.run_by(&operator_at(100), json!({ "rate": 100, "ramp": [20, 100] })).await.unwrap();
    world.deny_its_dead_letter_queue();
    assert!(world.resume(&paused.id).await.is_err());
}

fn operator_at(letters: u64) -> TestObserver {
    TestObserver { stop_at: Some(letters), ..TestObserver::default() }
}

/// Who looks at it later must not wait for it.
#[tokio::test(start_paused = true)]
async fn a_replay_that_was_cut_off_is_told_as_that_after_a_while() {
    for (status, patience) in [(ReplayStatus::Running, 20), (ReplayStatus::Settling, 5)] {
        let world = ArchiveWorld::with_letters(600);
        let request = json!({ "rate": 100, "ramp": [20, 100], "settleSeconds": 600 });
        // Its process is killed within a minute, or a step ends with it.
        let operator = TestObserver {
            stop_at: (status == ReplayStatus::Running).then_some(100),
            ..TestObserver::default()
        };
        let _ = tokio::time::timeout(Duration::from_mins(1), world.run_by(&operator, request)).await;
        let paused = world.replay().kept().all().await.unwrap().remove(0);
        assert_eq!(paused.status, status);
        let settles = if status == ReplayStatus::Settling { 9 } else { 0 };
        let replay = world.replay();
        let is_told = async || {
            let (shown, all) = (replay.kept().show(&paused.id).await, replay.kept().all().await);
            let told = shown.unwrap().abandoned;
            assert_eq!(all.unwrap()[0].abandoned, told);
            told
        };
        tokio::time::sleep(Duration::from_mins(settles + patience - 1)).await;
        assert!(!is_told().await, "{status:?}");
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert!(is_told().await, "{status:?}");
        // It is told by anyone who reads it, and nobody believes a document that says so.
        let root = format!("{CONTROL}/replays/{}/replay.json", paused.id);
        let (_, text) = world.objects(&root).remove(0);
        assert!(!text.contains("abandoned"));
        let mut forged: Value = serde_json::from_str(&text).unwrap();
        forged["abandoned"] = true.into();
        world.put(&root, &forged.to_string(), world.aws.clock().now().as_millisecond());
        assert!(!is_told().await);
        let done = world.resume(&paused.id).await.unwrap();
        assert_eq!((done.status, done.counts.sent, done.abandoned), (ReplayStatus::Done, 600, false));
    }
}

/// Letters that may have been sent, and are gone, must not use up every step to come.
#[tokio::test(start_paused = true)]
async fn letters_in_doubt_that_were_deleted_hold_up_nothing() {
    let world = ArchiveWorld { workers: 1, ..ArchiveWorld::new() };
    let lines = |ids: std::ops::Range<usize>| ids.map(|id| line(&plain(&id.to_string()))).collect::<String>();
    // Hours of another replay: how many letters are left to send is unknown.
    world.put_hour(5, &lines(900..901));
    world.run(json!({ "ramp": [100] })).await.unwrap();
    world.put_hour(0, &lines(0..150));
    world.put_hour(5, &lines(901..1200));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let run = async |replay: ArchiveReplayer| {
        let wish = wish(json!({ "rate": 100, "ramp": [50, 100] }));
        replay.run(&begins(&wish), &ReplaySource::Archive, None, &TestObserver::default()).await
    };
    assert!(world.crash(|call| call.operation == "SendMessageBatch", 0, true, run).await.is_none());
    let all = world.replay().kept().all().await.unwrap();
    let id = all.into_iter().find(ReplayState::is_unfinished).unwrap().id;
    let objects = world.objects(ARCHIVE);
    let (key, _) = objects.iter().find(|(key, _)| key.contains("T000000")).unwrap();
    world.remove(key);
    let calls = AtomicUsize::new(0);
    world.faults(move |_| {
        assert!(calls.fetch_add(1, Ordering::Relaxed) < 5_000, "it goes on for ever");
        SimFault::Pass
    });
    tokio::time::sleep(Duration::from_mins(2)).await;
    let done = world.resume(&id).await.unwrap();
    assert_eq!(done.status, ReplayStatus::Done);
    // Those in doubt may have been sent, so they are counted apart, and nobody says that all is well.
    let counts = &done.counts;
    assert_eq!((counts.in_doubt, counts.gone, counts.is_whole()), (100, 50, false));
}

/// Each queue keeps its own number from before the step.
#[tokio::test(start_paused = true)]
async fn a_queue_that_was_deleted_leaves_the_numbers_of_the_others_to_them() {
    let world = ArchiveWorld::with_letters(600);
    let one = record_at(&plain("b"), START - 3_600_000);
    let key = format!("{ARCHIVE}/queue=payments-billing/date=2026-10-01/20261001T000000Z-b.jsonl");
    world.put(&key, &format!("{}\n", serde_json::to_string(&one).unwrap()), START - 3_600_000);
    let numbers = |is_later: bool| {
        move |call: &SimCall| match (call.operation.as_str(), call.target.as_str(), is_later) {
            ("GetQueueAttributes", "payments-billing", false) => SimFault::Nonsense(200, waiting(1_000)),
            ("GetQueueAttributes", "payments-billing", true) => SimFault::refuse(
                400,
                "AWS.SimpleQueueService.NonExistentQueue",
                "The specified queue does not exist.",
            ),
            ("GetQueueAttributes", "payments-dlq", true) => SimFault::Nonsense(200, waiting(900)),
            _ => SimFault::Pass,
        }
    };
    world.faults(numbers(false));
    let paused = world.run_by(&operator_at(100), json!({ "rate": 100, "ramp": [20, 100] })).await.unwrap();
    assert_eq!(paused.queues.len(), 2);
    world.faults(numbers(true));
    let stopped = world.resume(&paused.id).await.unwrap();
    assert_eq!(stopped.status, ReplayStatus::Stopped, "{stopped:?}");
    let because = stopped.because.unwrap();
    assert!(because.contains("900 more"), "{because}");
}

/// SQS's answer about the number of messages of a queue.
fn waiting(messages: usize) -> String {
    json!({ "Attributes": { "ApproximateNumberOfMessages": messages.to_string(),
        "ApproximateNumberOfMessagesDelayed": "0", "ApproximateNumberOfMessagesNotVisible": "0" } })
    .to_string()
}

/// It finishes no unit for 20 minutes, and must not be taken for dead.
#[tokio::test(start_paused = true)]
async fn a_replay_that_is_slow_is_not_cut_off() {
    let world = ArchiveWorld { workers: 4, ..ArchiveWorld::new() };
    for hour in 0..8 {
        let letters = (0..1_000).map(|number| line(&plain(&format!("{hour}-{number}"))));
        world.put_hour(hour, &letters.collect::<String>());
    }
    let operator = TestObserver::default();
    let run = world.run_by(&operator, json!({ "rate": 1, "ramp": [100] }));
    let look = async {
        tokio::time::sleep(Duration::from_mins(21)).await;
        world.replay().kept().all().await.unwrap().remove(0)
    };
    let state = tokio::select! {
        state = look => state,
        _ = run => panic!("it is through"),
    };
    assert!(!state.abandoned, "{state:?}");
}

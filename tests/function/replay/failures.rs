use super::*;

/// Makes the entry with this body fail so many times.
fn failing(world: &ArchiveWorld, body: &'static str, fault: redrive_sim::EntryFault, times: usize) {
    let calls = AtomicUsize::new(0);
    world.faults(move |call| {
        let place = call.entries.iter().position(|entry| entry.body == body);
        let place = place.filter(|_| call.operation == "SendMessageBatch");
        match place {
            Some(place) if calls.fetch_add(1, Ordering::Relaxed) < times => {
                SimFault::Entries(vec![(place, fault.clone())])
            }
            _ => SimFault::Pass,
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_not_taken_goes_again_with_the_next_batch() {
    let world = ArchiveWorld::with_letters(5);
    failing(&world, "2", redrive_sim::EntryFault::service("RequestThrottled", "slow"), 1);
    let done = world.run(json!({})).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 5, 0));
    assert_eq!(world.numbers(), numbers(0..5));
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_may_have_been_taken_is_counted_as_repeated() {
    let world = ArchiveWorld::with_letters(5);
    failing(&world, "2", redrive_sim::EntryFault::Missing, 1);
    let done = world.run(json!({})).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 5, 1));
}

/// If the SDK sent again by itself, nobody would know.
#[tokio::test(start_paused = true)]
async fn letters_whose_answer_is_lost_are_counted_however_often_they_go() {
    let world = ArchiveWorld::with_letters(60);
    let calls = AtomicUsize::new(0);
    world.faults(move |call| {
        let is_send = call.operation == "SendMessageBatch";
        let is_lost = is_send && calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        if is_lost { SimFault::ResetAfter } else { SimFault::Pass }
    });
    let caller = Caller::new("somebody");
    let clients = world.clients_with(&caller, RetryConfig::standard());
    let replay = ArchiveReplayer::new(ReplayEnvironment { clients, ..world.parts(&caller) });
    let request = wish(json!({ "ramp": [100] }));
    let done =
        replay.run(&begins(&request), &ReplaySource::Archive, None, &TestObserver::default()).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 60));
    let sent = world.bodies().len() as u64;
    assert!(sent > 80, "{sent}");
    assert_eq!(done.counts.repeated, sent - 60);
}

/// SQS may throttle for a while.
#[tokio::test(start_paused = true)]
async fn a_requeue_that_throttles_for_ten_seconds_stops_nothing() {
    let world = ArchiveWorld::with_letters(5);
    let clock = world.aws.clock().clone();
    world.faults(move |call| {
        let is_early = call.operation == "SendMessageBatch" && clock.millis() < START + 10_000;
        if is_early { SimFault::Throttle } else { SimFault::Pass }
    });
    let done = world.run(json!({ "ramp": [100] })).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 5, 0));
}

/// A lifecycle rule, or somebody, deletes objects while the replay is at work.
#[tokio::test(start_paused = true)]
async fn letters_that_are_deleted_meanwhile_are_counted_as_gone() {
    let is_of = |call: &SimCall, hour: usize| call.target.contains(&format!("T{hour:02}0000Z-a."));
    // By the hour that is deleted: how many letters are gone. The first step sends 30 of the first hour's 50.
    for (deleted, is_listed, gone) in
        [(None, false, 0), (Some(2), false, 50), (Some(2), true, 50), (Some(0), false, 20)]
    {
        let world = ArchiveWorld { workers: 1, ..ArchiveWorld::new() };
        for hour in 0..3 {
            let letters = (hour * 50..hour * 50 + 50).map(|number| line(&plain(&number.to_string())));
            world.put_hour(hour, &letters.collect::<String>());
        }
        let aws = world.aws.clone();
        world.faults(move |call| {
            let Some(hour) = deleted else { return SimFault::Pass };
            if is_listed && call.operation == "GetObject" && is_of(call, hour) {
                return SimFault::refuse(404, "NoSuchKey", "it was deleted");
            }
            if !is_listed && call.operation == "SendMessageBatch" {
                let day = format!("{ARCHIVE}/queue=payments-dlq/date=2026-10-01");
                let key = format!("{day}/20261001T{hour:02}0000Z-a.2-n50-r0.jsonl");
                aws.act("lifecycle", |services, _| services.s3.remove(("my-bucket", &key)));
            }
            SimFault::Pass
        });
        let done = world.run(json!({ "ramp": [20, 100], "settleSeconds": 1 })).await.unwrap();
        let counts = &done.counts;
        assert_eq!(
            (done.status, counts.sent, counts.gone),
            (ReplayStatus::Done, 150 - gone, gone),
            "{deleted:?}"
        );
        assert_eq!(counts.is_whole(), gone == 0);
        assert_eq!(world.bodies().len() as u64, 150 - gone);
    }
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_sqs_refuses_does_not_stop_the_others_and_is_left_to_another_replay() {
    let world = ArchiveWorld::with_letters(200);
    failing(&world, "150", redrive_sim::EntryFault::sender("InvalidMessageContents", "no"), usize::MAX);
    let operator = TestObserver::default();
    let request = json!({ "ramp": [100] });
    let done = world.run_by(&operator, request.clone()).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.refused), (ReplayStatus::Done, 199, 1));
    assert!(!done.counts.is_whole());
    let told = format!("{}:151 refused by SQS: InvalidMessageContents", indexed("a", 200));
    assert_eq!(operator.left_out.into_inner().unwrap(), [told]);
    world.no_faults();
    assert_eq!(world.run(request).await.unwrap().counts.sent, 1, "the cause may have been mended");
}

/// The replay has found that SQS refuses it.
#[tokio::test(start_paused = true)]
async fn a_refused_letter_is_not_tried_again_by_the_same_replay() {
    let world = ArchiveWorld::with_letters(30);
    failing(&world, "5", redrive_sim::EntryFault::sender("InvalidMessageContents", "no"), usize::MAX);
    let operator = TestObserver::default();
    let (replay, request) = (world.replay(), wish(json!({ "ramp": [100], "rate": 10 })));
    let begin = begins(&request);
    let running = replay.run(&begin, &ReplaySource::Archive, None, &operator);
    let interrupting = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        operator.stopped.store(true, Ordering::Relaxed);
    };
    let (paused, ()) = tokio::join!(running, interrupting);
    let paused = paused.unwrap();
    assert_eq!((paused.status, paused.counts.sent, paused.counts.refused), (ReplayStatus::Running, 19, 1));
    // The cause is fixed in the meantime.
    world.no_faults();
    let done = world.resume(&paused.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.refused), (ReplayStatus::Done, 29, 1));
    let sends = world.calls("SendMessageBatch");
    let tries = sends.iter().flat_map(|call| &call.entries).filter(|entry| entry.body == "5").count();
    assert_eq!(tries, 1);
}

/// A step of refused letters does not use up the whole selection.
#[tokio::test(start_paused = true)]
async fn refused_letters_count_as_failed_in_their_step() {
    let world = ArchiveWorld::with_letters(100);
    world.faults(|call| match call.operation.as_str() {
        "SendMessageBatch" => {
            let refused = || redrive_sim::EntryFault::sender("InvalidMessageContents", "no");
            SimFault::Entries((0..call.entries.len()).map(|entry| (entry, refused())).collect())
        }
        _ => SimFault::Pass,
    });
    let stopped = world.run(json!({})).await.unwrap();
    assert_eq!((stopped.status, stopped.counts.sent, stopped.counts.refused), (ReplayStatus::Stopped, 0, 1));
    let why = "of 1 letters of step 1: 1 refused by SQS, 0 back in the archive, 0 more than before wait in the requeue, 0 more in the dead-letter queues";
    assert_eq!(stopped.because.as_deref(), Some(why));
}

#[tokio::test(start_paused = true)]
async fn a_requeue_that_takes_nothing_stops_the_replay_after_three_tries() {
    let world = ArchiveWorld::with_letters(5);
    world.faults(|call| if call.operation == "SendMessageBatch" { SimFault::Denied } else { SimFault::Pass });
    let stopped = world.run(json!({})).await.unwrap();
    assert_eq!((stopped.status, stopped.counts.sent, stopped.counts.repeated), (ReplayStatus::Stopped, 0, 0));
    let why = "the requeue does not take letters: AccessDenied: User is not authorized to perform this action. (action_required)";
    assert_eq!(stopped.because.as_deref(), Some(why));
    assert_eq!(world.calls("SendMessageBatch").len(), 3);
    world.no_faults();
    let done = world.resume(&stopped.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 5));
    assert_eq!(world.bodies(), numbers(0..5));
}

/// Letters that cannot be read now are not finished.
#[tokio::test(start_paused = true)]
async fn an_archive_that_is_out_of_sight_does_not_end_the_replay() {
    let world = ArchiveWorld::with_letters(5);
    world.archive("b", &[plain("6")]);
    world.faults(|call| if call.target.contains("Z-b.") { SimFault::Unavailable } else { SimFault::Pass });
    let failed = world.run(json!({ "ramp": [100] })).await.unwrap_err().to_string();
    assert!(
        failed.starts_with(&format!("reading {} failed: ServiceUnavailable", indexed("b", 1))),
        "{failed}"
    );
    world.no_faults();
    let id = world.replay().kept().all().await.unwrap()[0].id.clone();
    assert_eq!(world.resume(&id).await.unwrap().status, ReplayStatus::Done);
    assert_eq!(world.bodies(), ["0", "1", "2", "3", "4", "6"]);
}

/// An example is an object that a lifecycle rule has moved to a storage class from which it must first be
/// restored.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_told_and_holds_up_nothing() {
    let world = ArchiveWorld::with_letters(2);
    world.archive("b", &[plain("6")]);
    world.faults(|call| {
        let moved = SimFault::refuse(403, "InvalidObjectState", "archived");
        if call.target.contains("Z-b.") { moved } else { SimFault::Pass }
    });
    let operator = TestObserver::default();
    let done = world.run_by(&operator, json!({ "ramp": [20, 100], "settleSeconds": 0 })).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.unreadable), (ReplayStatus::Done, 2, 1));
    let told = operator.left_out.into_inner().unwrap();
    assert_eq!(told.len(), 1, "once, though each step reads it: {told:?}");
    assert!(told[0].starts_with(&format!("{} InvalidObjectState", indexed("b", 1))), "{told:?}");
    world.no_faults();
    assert_eq!(world.run(json!({ "ramp": [100] })).await.unwrap().counts.sent, 1);
}

/// Otherwise a replay without permissions would end without sending anything.
#[tokio::test(start_paused = true)]
async fn missing_permissions_end_it_and_it_goes_on_when_they_are_there() {
    let world = ArchiveWorld::with_letters(2);
    world.faults(|call| if call.target.contains("Z-a.") { SimFault::Denied } else { SimFault::Pass });
    let denied = world.run(json!({ "ramp": [100] })).await.unwrap_err();
    assert!(denied.is_denied(), "{denied}");
    assert_eq!(denied.kind().name(), "ReplayDenied");
    world.no_faults();
    let id = world.replay().kept().all().await.unwrap()[0].id.clone();
    let done = world.resume(&id).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 2));
}

/// S3 answers 409 while it is not known which of two writers comes first.
#[tokio::test(start_paused = true)]
async fn a_write_that_meets_another_is_tried_again() {
    for nth in 0..8 {
        let world = ArchiveWorld::with_letters(2);
        let writes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&writes);
        world.faults(move |call| {
            let is_write = call.operation == "PutObject";
            let mut writes = kept.lock().unwrap();
            writes.extend(is_write.then(|| call.target.clone()));
            if is_write && writes.len() == nth + 1 {
                SimFault::refuse(409, "ConditionalRequestConflict", "conflict")
            } else {
                SimFault::Pass
            }
        });
        let done = world.run(json!({ "ramp": [100] })).await.unwrap();
        let writes = writes.lock().unwrap();
        assert_eq!(writes.get(nth + 1), writes.get(nth), "write {nth} was tried again");
        let counts = &done.counts;
        assert_eq!((done.status, counts.sent, counts.repeated), (ReplayStatus::Done, 2, 0), "write {nth}");
        assert_eq!(world.bodies().len(), 2, "write {nth}");
    }
}

/// A single letter that SQS does not take at once is no reason to stop.
#[tokio::test(start_paused = true)]
async fn a_failure_in_each_batch_does_not_stop_it() {
    let world = ArchiveWorld::with_letters(100);
    let sends = AtomicUsize::new(0);
    world.faults(move |call| {
        let is_first =
            call.operation == "SendMessageBatch" && sends.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let throttled = redrive_sim::EntryFault::service("InternalError", "slow");
        if is_first { SimFault::Entries(vec![(0, throttled)]) } else { SimFault::Pass }
    });
    let done = world.run(json!({ "ramp": [100], "rate": 10 })).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 100));
}

/// Two parts that write the state at the same time do not mistake each other for somebody else.
#[tokio::test(start_paused = true)]
async fn a_slow_bucket_does_not_make_it_lose_itself() {
    let world = ArchiveWorld::new();
    for hour in 10..16 {
        let name =
            format!("{ARCHIVE}/queue=payments-dlq/date=2026-10-31/20261031T{hour}0000Z-a.2-n30-r0.jsonl");
        let ids = (0..30).map(|letter| plain(&format!("{hour}{letter:02}")));
        world.put(&name, &ids.map(|post| line(&post)).collect::<String>(), NOW);
    }
    world.faults(|call| {
        let is_state = call.operation == "PutObject" && call.target.ends_with("replay.json");
        let is_send = call.operation == "SendMessageBatch";
        let wait = if is_state { 5 } else { u64::from(is_send) };
        SimFault::Pass.after(Duration::from_secs(wait))
    });
    let done = world.run(json!({ "ramp": [100] })).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 180));
}

/// Otherwise its letters would be sent again.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_a_ledger_cannot_be_read() {
    let world = ArchiveWorld::with_letters(3);
    world.run(json!({})).await.unwrap();
    let ledgers = world.objects(&format!("{CONTROL}/replays/queues/"));
    let (ledger, text) = ledgers.into_iter().find(|(key, _)| key.ends_with("000000.json")).unwrap();
    for broken in [&text[..text.len() / 2], "{}\n"] {
        world.put(&ledger, broken, START);
        let failed = world.run(json!({})).await.unwrap_err();
        assert_eq!(failed, ReplayError::Broken(format!("s3://my-bucket/{ledger}")));
    }
    world.put(&ledger, &text, START);
    world.faults(|call| {
        let ledger = call.target.ends_with("000000.json") && call.operation == "GetObject";
        if ledger { SimFault::Unavailable } else { SimFault::Pass }
    });
    assert!(world.run(json!({})).await.is_err());
    assert_eq!(world.sent().len(), 3);
}

/// Anyone who may write here would exhaust the memory of all who read replays.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_larger_than_any_of_ours_is_not_read() {
    let world = ArchiveWorld::with_letters(3);
    let done = world.run(json!({ "ramp": [100] })).await.unwrap();
    let large = " ".repeat(16 * 1024 * 1024 + 1);
    let root = format!("{CONTROL}/replays/20260101T000000Z-large0/replay.json");
    world.put(&root, &large, NOW);
    let kept = world.replay();
    let shown = kept.kept().show("20260101T000000Z-large0").await.unwrap_err();
    assert_eq!(shown, ReplayError::TooLarge(format!("s3://my-bucket/{root}"), 16 * 1024 * 1024));
    let all = kept.kept().list().await.unwrap();
    assert_eq!(
        all.iter().map(|(id, it)| (id.as_str(), it.is_ok())).collect::<Vec<_>>(),
        [(done.id.as_str(), true), ("20260101T000000Z-large0", false)]
    );
    let ledger = world.objects(&format!("{CONTROL}/replays/queues/")).into_iter().map(|(key, _)| key);
    let ledger = ledger.into_iter().find(|key| !key.ends_with("cuts.json")).unwrap();
    world.put(&ledger, &large, NOW);
    let failed = world.run(json!({ "ramp": [100] })).await.unwrap_err();
    assert_eq!(failed, ReplayError::TooLarge(format!("s3://my-bucket/{ledger}"), 16 * 1024 * 1024));
}

/// Anyone who may write here would stop everybody's replays.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_no_text_is_broken_and_stops_no_other_replay() {
    let world = ArchiveWorld::with_letters(3);
    let root = format!("{CONTROL}/replays/20260101T000000Z-broken/replay.json");
    world.aws.act("stranger", |services, _| services.s3.place(("my-bucket", &root), b"\xff", NOW));
    let kept = world.replay();
    let shown = kept.kept().show("20260101T000000Z-broken").await.unwrap_err();
    assert_eq!(shown, ReplayError::Broken(format!("s3://my-bucket/{root}")));
    let all = kept.kept().list().await.unwrap();
    assert_eq!(
        all.iter().map(|(id, it)| (id.as_str(), it.is_ok())).collect::<Vec<_>>(),
        [("20260101T000000Z-broken", false)]
    );
    let done = world.run(json!({ "ramp": [100] })).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 3));
}

//! The judgement of a step: what came back and what waits stops a replay, and nothing else does.

use super::*;

/// Makes these letters come back to the archive as soon as they are sent.
pub(super) fn coming_back(world: &ArchiveWorld, letters: &[&'static str]) {
    let (aws, letters) = (world.aws.clone(), letters.to_vec());
    world.faults(move |call| {
        if call.operation == "SendMessageBatch" {
            let now = aws.clock().millis() + 1;
            for entry in call.entries.iter().filter(|entry| letters.contains(&&*entry.body)) {
                archive_again(&aws, entry, now, now);
            }
        }
        SimFault::Pass
    });
}

#[tokio::test(start_paused = true)]
async fn it_stops_when_more_than_the_threshold_of_a_step_comes_back_to_the_archive() {
    for (back, step, sent, all, came) in [
        // The steps have 10, 40 and 50 letters.
        (&["0", "10", "11", "12", "13"][..], 0, 100, 0, 0),
        (&["0", "1"], 1, 10, 10, 2),
        (&["0", "10", "11", "12", "13", "14"], 2, 50, 40, 5),
    ] {
        let world = ArchiveWorld::with_letters(100);
        coming_back(&world, back);
        let stopped = world.run(json!({ "ramp": [10, 50, 100], "threshold": 10 })).await.unwrap();
        assert_eq!(stopped.counts.sent, sent, "{back:?}");
        let why = format!(
            "of {all} letters of step {step}: 0 refused by SQS, {came} back in the archive, 0 more than before wait in \
             the requeue, 0 more in the dead-letter queues"
        );
        let because = (step > 0).then_some(why);
        assert_eq!(stopped.because, because, "{back:?}");
        if step > 0 {
            assert_eq!(stopped.status, ReplayStatus::Stopped);
            world.no_faults();
            let done = world.resume(&stopped.id).await.unwrap();
            assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 100));
            assert_eq!(world.bodies(), numbers(0..100), "those that came back are for another replay");
        }
    }
}

/// The function's clock may be behind, so that the key of what it archives names the hour before.
#[tokio::test(start_paused = true)]
async fn what_comes_back_counts_if_it_is_archived_by_a_clock_that_is_minutes_behind() {
    for (behind, came_back) in [(4, 10), (64, 0)] {
        let world = ArchiveWorld::with_letters(100);
        let aws = world.aws.clone();
        world.faults(move |call| {
            let now = aws.clock().millis() + 1;
            let sent = call.entries.iter().filter(|_| call.operation == "SendMessageBatch");
            sent.for_each(|entry| archive_again(&aws, entry, now, now - behind * 60_000));
            SimFault::Pass
        });
        assert_eq!(at(START).strftime("%M:%S").to_string(), "00:00", "the step begins with an hour");
        let stopped =
            world.run(json!({ "ramp": [10, 100], "threshold": 10, "settleSeconds": 30 })).await.unwrap();
        assert_eq!(stopped.came_back, came_back, "{behind} minutes");
    }
}

/// Anybody who may publish to a topic can write a mark.
#[tokio::test(start_paused = true)]
async fn marks_that_others_write_stop_no_replay() {
    let world = ArchiveWorld::with_letters(100);
    let aws = world.aws.clone();
    world.faults(move |call| {
        if call.operation == "SendMessageBatch" {
            let now = aws.clock().millis() + 1;
            // One names itself, one the letter of another archive, and one is a copy of a letter with another body.
            for (body, id) in [("x", "x"), ("y", "999"), ("z", "0")] {
                let mut mark = json!({ "v": 2, "spent": 0, "id": id, "first": now, "gen": 1 });
                if body == "z" {
                    mark["msg"] = digest("0").into();
                }
                archive_replayed(&aws, &RecordBuilder::raw(body, body).sent(now).sqs_mark(&mark), now, now);
            }
        }
        SimFault::Pass
    });
    let done = world.run(json!({ "ramp": [10, 100], "threshold": 0, "settleSeconds": 30 })).await.unwrap();
    assert_eq!(
        (done.status, done.counts.sent, done.came_back),
        (ReplayStatus::Done, 100, 0),
        "{:?}",
        done.because
    );
}

/// An object without an index may hold letters that came back.
#[tokio::test(start_paused = true)]
async fn a_step_is_not_judged_by_what_cannot_be_read() {
    let world = ArchiveWorld::with_letters(100);
    let aws = world.aws.clone();
    world.faults(move |call| {
        if call.operation == "SendMessageBatch" {
            let now = aws.clock().millis() + 1;
            let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T130001Z-back.jsonl");
            aws.act("function", |services, _| services.s3.place(("my-bucket", &key), b"{}", now));
        }
        let is_back = call.operation == "GetObject" && call.target.contains("-back.");
        if is_back { SimFault::Nonsense(503, String::new()) } else { SimFault::Pass }
    });
    let failed = world.run(json!({ "ramp": [10, 100], "threshold": 10 })).await.unwrap_err().to_string();
    assert!(failed.contains("-back.jsonl"), "{failed}");
    assert_eq!(world.bodies().len(), 10);
}

/// If a replay is interrupted while a step settles, as at the end of an invocation, the step is still judged.
#[tokio::test(start_paused = true)]
async fn a_step_is_judged_also_by_whoever_goes_on_while_it_settles() {
    let world = ArchiveWorld::with_letters(100);
    coming_back(&world, &["0", "1", "2", "3", "4"]);
    let request = json!({ "ramp": [10, 100], "threshold": 10 });
    let (request, source) = (wish(request), ReplaySource::Archive);
    let (replay, operator) = (world.replay(), TestObserver::default());
    let begin = begins(&request);
    let running = replay.run(&begin, &source, None, &operator);
    let interrupting = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        operator.stopped.store(true, Ordering::Relaxed);
    };
    let (settling, ()) = tokio::join!(running, interrupting);
    let settling = settling.unwrap();
    assert_eq!((settling.status, settling.counts.sent), (ReplayStatus::Settling, 10));
    let stopped = world.resume(&settling.id).await.unwrap();
    let why = "of 10 letters of step 1: 0 refused by SQS, 5 back in the archive, 0 more than before wait in the requeue, 0 more in the dead-letter queues";
    assert_eq!((stopped.status, stopped.counts.sent), (ReplayStatus::Stopped, 10));
    assert_eq!(stopped.because.as_deref(), Some(why));
    // After the judgement the operator decides to continue.
    let done = world.resume(&settling.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 100));
}

/// The request to stop is not forgotten at the end of the settling, nor is the judgement.
#[tokio::test(start_paused = true)]
async fn a_replay_that_is_stopped_while_it_settles_stays_stopped_and_is_judged_later() {
    let world = ArchiveWorld::with_letters(100);
    coming_back(&world, &["0", "1", "2", "3", "4"]);
    let (request, source) = (wish(json!({ "ramp": [10, 100], "threshold": 10 })), ReplaySource::Archive);
    let (replay, operator) = (world.replay(), TestObserver::default());
    let begin = begins(&request);
    let running = replay.run(&begin, &source, None, &operator);
    let other = world.replay_by(&Caller::new("jo"));
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        let id = other.kept().all().await.unwrap()[0].id.clone();
        other.kept().stop(&id, Some("wait")).await.unwrap();
    };
    let (stopped, ()) = tokio::join!(running, stopping);
    let stopped = stopped.unwrap();
    assert_eq!(
        (stopped.status, stopped.because.as_deref()),
        (ReplayStatus::Stopped, Some("jo stopped it: wait"))
    );
    let judged = world.resume(&stopped.id).await.unwrap();
    assert_eq!((judged.status, judged.counts.sent), (ReplayStatus::Stopped, 10));
    assert!(judged.because.unwrap().contains("5 back in the archive"));
}

/// The last step is four fifths of all letters by default, so it must be watched too.
#[tokio::test(start_paused = true)]
async fn the_last_step_goes_on_being_watched() {
    let world = ArchiveWorld::with_letters(1000);
    // No letter of the first steps comes back, but all do from the 400th on.
    let ids: Vec<&'static str> = (400..1000).map(|id| &*id.to_string().leak()).collect();
    coming_back(&world, &ids);
    let stopped = world.run(json!({ "ramp": [1, 5, 20, 100] })).await.unwrap();
    assert_eq!((stopped.status, stopped.step), (ReplayStatus::Stopped, 4));
    assert!((400..=500).contains(&stopped.counts.sent), "{} were sent", stopped.counts.sent);
    assert!(stopped.because.unwrap().contains("back in the archive"));
}

/// Letters wait in the requeue, or again in their dead-letter queue: SNS puts a letter there at once if it
/// was republished to a topic and fails again.
#[tokio::test(start_paused = true)]
async fn it_stops_when_more_letters_wait_after_a_step_than_before_visible_hidden_or_delayed() {
    for queue in ["payments-requeue", "payments-dlq"] {
        let world = ArchiveWorld { stay: true, ..ArchiveWorld::with_letters(1000) };
        // The letters that wait there before do not belong to the replay: 50, and 7 in the other queue.
        let is_sent = AtomicBool::new(false);
        world.faults(move |call| {
            is_sent.fetch_or(call.operation == "SendMessageBatch", Ordering::Relaxed);
            if call.operation != "GetQueueAttributes" {
                return SimFault::Pass;
            }
            let [visible, hidden, delayed] = match (call.target == queue, is_sent.load(Ordering::Relaxed)) {
                (true, false) => [30, 15, 5],
                (true, true) => [10, 25, 17],
                (false, _) => [4, 2, 1],
            };
            let waiting = json!({ "Attributes": {
                "ApproximateNumberOfMessages": visible.to_string(),
                "ApproximateNumberOfMessagesNotVisible": hidden.to_string(),
                "ApproximateNumberOfMessagesDelayed": delayed.to_string(),
            } });
            SimFault::Nonsense(200, waiting.to_string())
        });
        let stopped = world.run(json!({})).await.unwrap();
        assert_eq!((stopped.status, stopped.counts.sent), (ReplayStatus::Stopped, 10), "{queue}");
        let (requeue, dlq) = if queue == "payments-requeue" { (2, 0) } else { (0, 2) };
        let why = format!(
            "of 10 letters of step 1: 0 refused by SQS, 0 back in the archive, {requeue} more than before wait in the \
             requeue, {dlq} more in the dead-letter queues"
        );
        assert_eq!(stopped.because, Some(why));
        let done = world.resume(&stopped.id).await.unwrap();
        assert_eq!(
            (done.status, done.counts.sent),
            (ReplayStatus::Done, 1000),
            "what waited before is no fault of the rest"
        );
    }
}

/// A queue of old letters that the function works off says nothing about those that nobody takes.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_queue_that_drains_hides_no_requeue_that_nobody_empties() {
    let world = ArchiveWorld { stay: true, ..ArchiveWorld::with_letters(1000) };
    let clock = world.aws.clock().clone();
    world.faults(move |call| {
        if call.operation != "GetQueueAttributes" || call.target != "payments-dlq" {
            return SimFault::Pass;
        }
        let left = 100_000 - (clock.millis() - START) * 60 / 1000;
        let answer = json!({ "Attributes": { "ApproximateNumberOfMessages": left.to_string() } });
        SimFault::Nonsense(200, answer.to_string())
    });
    let stopped = world.run(json!({})).await.unwrap();
    assert_eq!((stopped.status, stopped.counts.sent), (ReplayStatus::Stopped, 10), "{:?}", stopped.because);
    let why = "10 more than before wait in the requeue, 0 more in the dead-letter queues";
    assert!(stopped.because.unwrap().ends_with(why));
}

/// The function takes time for the letters, and nobody waits for it. That is no reason to stop, not even
/// after the replay is continued.
#[tokio::test(start_paused = true)]
async fn letters_that_were_sent_within_a_minute_may_wait_in_the_last_step() {
    let world = ArchiveWorld { stay: true, ..ArchiveWorld::with_letters(1000) };
    world.no_faults();
    let operator = TestObserver { stop_at: Some(300), ..TestObserver::default() };
    let request = json!({ "ramp": [100], "settleSeconds": 0, "rate": 100 });
    let paused = world.run_by(&operator, request).await.unwrap();
    assert_eq!(paused.status, ReplayStatus::Running);
    let done = world.resume(&paused.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.because), (ReplayStatus::Done, 1000, None));
}

/// After a minute, or the time to settle if it is longer, the function should have received them.
#[tokio::test(start_paused = true)]
async fn letters_that_wait_longer_than_steps_settle_stop_the_last_step() {
    // The slices have 200 letters and take 25 seconds each. After the fourth, the letters of the first have
    // waited for 75 seconds.
    for (settle, status, sent) in
        [(0, ReplayStatus::Stopped, 800), (60, ReplayStatus::Stopped, 800), (120, ReplayStatus::Done, 1000)]
    {
        let world = ArchiveWorld { stay: true, ..ArchiveWorld::with_letters(1000) };
        world.no_faults();
        let request = json!({ "ramp": [100], "settleSeconds": settle, "rate": 8 });
        let ended = world.run(request).await.unwrap();
        assert_eq!((ended.status, ended.counts.sent), (status, sent), "{settle} s");
        let why = "of 800 letters of step 1: 0 refused by SQS, 0 back in the archive, 200 more than before wait in the requeue, 0 more in the dead-letter queues";
        assert_eq!(ended.because.as_deref(), (status == ReplayStatus::Stopped).then_some(why), "{settle} s");
    }
}

/// Where nobody knows how many letters are left, the last step pauses to be judged. Who has waited forgives nothing.
#[tokio::test(start_paused = true)]
async fn a_pause_of_the_last_step_is_judged_by_all_that_wait() {
    let world = ArchiveWorld { stay: true, ..ArchiveWorld::new() };
    world.no_faults();
    world.put_hour(1, &(0..600).map(|number| line(&plain(&number.to_string()))).collect::<String>());
    assert_eq!(world.run(json!({ "ramp": [100], "threshold": 100 })).await.unwrap().counts.sent, 600);
    world.put_hour(2, &(600..1200).map(|number| line(&plain(&number.to_string()))).collect::<String>());
    tokio::time::sleep(Duration::from_secs(100)).await;
    let stopped = world.run(json!({ "ramp": [100], "settleSeconds": 10 })).await.unwrap();
    assert_eq!((stopped.status, stopped.counts.sent), (ReplayStatus::Stopped, 100), "{:?}", stopped.because);
    assert!(stopped.because.unwrap().contains(" 100 more than before wait in the requeue"));
}

/// Then it is unknown whether letters return to the queue, and the operator is told.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_queue_that_cannot_be_read_is_told_and_not_judged_by() {
    let world = ArchiveWorld::with_letters(100);
    world.deny_its_dead_letter_queue();
    let operator = TestObserver::default();
    let done = world.run_by(&operator, json!({ "ramp": [10, 100] })).await.unwrap();
    assert_eq!((done.counts.sent, done.queues), (100, vec![]));
    let told = operator.left_out.lock().unwrap().clone();
    assert_eq!(
        told,
        [format!(
            "{DLQ} cannot be read, so letters that wait there do not stop the replay: AccessDenied: User is not \
             authorized to perform this action."
        )]
    );
}

/// Otherwise a replay that cannot see what came back would continue.
#[tokio::test(start_paused = true)]
async fn it_does_not_go_on_when_the_archive_cannot_be_listed_for_the_judgement() {
    let world = ArchiveWorld::with_letters(100);
    let sends = AtomicUsize::new(0);
    world.faults(move |call| {
        let sent = sends.fetch_add(usize::from(call.operation == "SendMessageBatch"), Ordering::Relaxed) > 0;
        let judging = sent && call.operation == "ListObjectsV2" && call.target.contains("queue=payments-dlq");
        if judging { SimFault::Unavailable } else { SimFault::Pass }
    });
    let failed = world.run(json!({ "threshold": 99 })).await.unwrap_err().to_string();
    assert!(failed.starts_with("listing dead-letters/queue=payments-dlq/ failed"), "{failed}");
    assert_eq!(world.sent().len(), 1);
    world.no_faults();
    let id = world.replay().kept().all().await.unwrap()[0].id.clone();
    let mut goes_on = resume(&id);
    goes_on.threshold = Some(100);
    let done = world
        .replay()
        .run(&resumes(&goes_on), &ReplaySource::Archive, None, &TestObserver::default())
        .await
        .unwrap();
    assert_eq!(done.counts.sent, 100);
}

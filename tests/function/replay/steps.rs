use sns_redrive::replay::Note;

use super::*;

/// Makes these letters come back to the archive as soon as they are sent.
pub(super) fn coming_back(world: &World, letters: &[&'static str]) {
    let (aws, letters) = (world.aws.clone(), letters.to_vec());
    world.faults(move |call| {
        if call.operation == "SendMessageBatch" {
            let now = aws.clock().millis() + 1;
            for entry in call.entries.iter().filter(|entry| letters.contains(&&*entry.body)) {
                archive_again(&aws, entry, now, now);
            }
        }
        Fault::Pass
    });
}

fn settled(operator: Operator) -> Vec<u64> {
    let seen = operator.seen.into_inner().unwrap().into_iter();
    let mut settled: Vec<_> =
        seen.filter(|(status, _)| *status == Status::Settling).map(|(_, sent)| sent).collect();
    settled.dedup();
    settled
}

#[tokio::test(start_paused = true)]
async fn the_selection_goes_out_step_by_step_with_time_to_settle_after_each() {
    let world = World::with_letters(250);
    let operator = Operator::default();
    let done = world.run_by(&operator, json!({ "settleSeconds": 120 })).await.unwrap();
    assert_eq!(settled(operator), [3, 13, 50]);
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (Status::Done, 250, 0));
    let took = world.aws.clock().now().duration_since(at(START)).as_secs();
    assert!((360..365).contains(&took), "{took} s");
    assert_eq!(world.bodies(), numbers(0..250));
}

/// Returns an archive in which another replay has sent the first 300 letters, or in which they cannot be
/// replayed, and 100 new ones.
pub(super) async fn with_new_letters(are_sent: bool) -> World {
    let world = World::new();
    let old = |number: usize| {
        if are_sent { plain(&number.to_string()) } else { plain(&number.to_string()).queue(FIFO_DLQ) }
    };
    for (hour, letters) in [(1, 0..150), (2, 150..300)] {
        world.put_hour(hour, &letters.map(|number| line(&old(number))).collect::<String>());
    }
    if are_sent {
        assert_eq!(world.run(json!({ "ramp": [100] })).await.unwrap().counts.sent, 300);
    }
    world.put_hour(3, &(300..400).map(|number| line(&plain(&number.to_string()))).collect::<String>());
    tokio::time::sleep(Duration::from_secs(10)).await;
    world
}

/// Letters that others have sent, or that cannot be replayed, end no step.
#[tokio::test(start_paused = true)]
async fn a_step_is_one_of_letters_that_are_really_sent() {
    for are_sent in [true, false] {
        let world = with_new_letters(are_sent).await;
        let operator = Operator::default();
        let done = world.run_by(&operator, json!({})).await.unwrap();
        let counts = &done.counts;
        let passed_over = counts.already_replayed + counts.not_replayable.values().sum::<u64>();
        assert_eq!((done.status, counts.sent, passed_over), (Status::Done, 100, 300), "{counts:?}");
        assert_eq!(settled(operator), [4, 20, 80]);
    }
}

/// The first per cent may be all that there is to send.
#[tokio::test(start_paused = true)]
async fn a_replay_beside_others_begins_with_few_letters_whatever_its_per_cents() {
    // Before the letters that others have sent, only the plan can know of them.
    for (others, hour, pauses) in [(true, 2, &[100][..]), (true, 0, &[100, 600]), (false, 2, &[600])] {
        let world = World::new();
        world.put_hour(1, &(0..600).map(|number| line(&plain(&number.to_string()))).collect::<String>());
        if others {
            assert_eq!(world.run(json!({ "ramp": [100] })).await.unwrap().counts.sent, 600);
        }
        world
            .put_hour(hour, &(600..1200).map(|number| line(&plain(&number.to_string()))).collect::<String>());
        tokio::time::sleep(Duration::from_secs(10)).await;
        let operator = Operator::default();
        let done = world.run_by(&operator, json!({ "ramp": [50, 100] })).await.unwrap();
        assert_eq!((done.status, world.numbers()), (Status::Done, numbers(0..1200)));
        assert_eq!(settled(operator), pauses, "{others} {hour}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_selection_of_none_and_of_one_are_done_at_once() {
    for letters in [0, 1] {
        let world = World::with_letters(letters);
        let done = world.run(json!({})).await.unwrap();
        assert_eq!((done.status, done.counts.sent), (Status::Done, letters as u64));
        assert!(world.aws.clock().now().duration_since(at(START)).as_secs() < 2, "nothing to wait for");
    }
}

/// An example is a nightly event, when most letters are replayed already.
#[tokio::test(start_paused = true)]
async fn a_step_that_sends_nothing_takes_no_time() {
    let world = World::with_letters(250);
    world.run(json!({ "ramp": [100] })).await.unwrap();
    let began = world.aws.clock().now();
    let done = world.run(json!({})).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.already_replayed), (Status::Done, 0, 250));
    assert!(world.aws.clock().now().duration_since(began).as_secs() < 2);
}

#[tokio::test(start_paused = true)]
async fn it_stops_when_more_than_the_threshold_of_a_step_comes_back_to_the_archive() {
    for (back, step, sent, all, came) in [
        // The steps have 10, 40 and 50 letters.
        (&["0", "10", "11", "12", "13"][..], 0, 100, 0, 0),
        (&["0", "1"], 1, 10, 10, 2),
        (&["0", "10", "11", "12", "13", "14"], 2, 50, 40, 5),
    ] {
        let world = World::with_letters(100);
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
            assert_eq!(stopped.status, Status::Stopped);
            world.no_faults();
            let done = world.resume(&stopped.id).await.unwrap();
            assert_eq!((done.status, done.counts.sent), (Status::Done, 100));
            assert_eq!(world.bodies(), numbers(0..100), "those that came back are for another replay");
        }
    }
}

/// The function's clock may be behind, so that the key of what it archives names the hour before.
#[tokio::test(start_paused = true)]
async fn what_comes_back_counts_if_it_is_archived_by_a_clock_that_is_minutes_behind() {
    for (behind, came_back) in [(4, 10), (64, 0)] {
        let world = World::with_letters(100);
        let aws = world.aws.clone();
        world.faults(move |call| {
            let now = aws.clock().millis() + 1;
            let sent = call.entries.iter().filter(|_| call.operation == "SendMessageBatch");
            sent.for_each(|entry| archive_again(&aws, entry, now, now - behind * 60_000));
            Fault::Pass
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
    let world = World::with_letters(100);
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
                archive_replayed(&aws, &Post::raw(body, body).sent(now).sqs_mark(&mark), now, now);
            }
        }
        Fault::Pass
    });
    let done = world.run(json!({ "ramp": [10, 100], "threshold": 0, "settleSeconds": 30 })).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.came_back), (Status::Done, 100, 0), "{:?}", done.because);
}

/// An object without an index may hold letters that came back.
#[tokio::test(start_paused = true)]
async fn a_step_is_not_judged_by_what_cannot_be_read() {
    let world = World::with_letters(100);
    let aws = world.aws.clone();
    world.faults(move |call| {
        if call.operation == "SendMessageBatch" {
            let now = aws.clock().millis() + 1;
            let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T130001Z-back.jsonl");
            aws.act("function", |services, _| services.s3.place(("my-bucket", &key), b"{}", now));
        }
        let is_back = call.operation == "GetObject" && call.target.contains("-back.");
        if is_back { Fault::Nonsense(503, String::new()) } else { Fault::Pass }
    });
    let failed = world.run(json!({ "ramp": [10, 100], "threshold": 10 })).await.unwrap_err().to_string();
    assert!(failed.contains("-back.jsonl"), "{failed}");
    assert_eq!(world.bodies().len(), 10);
}

/// The letters that a pattern selects may all be together, at the end of a long archive.
#[tokio::test(start_paused = true)]
async fn the_ramp_is_one_of_letters_also_where_nobody_knows_how_many_are_selected() {
    for comes_back in [true, false] {
        let world = World::new();
        for object in 0..20 {
            let ids: Vec<_> = (0..100).map(|letter| plain(&format!("{object}-{letter}"))).collect();
            world.archive(&format!("{object:02}"), &ids);
        }
        world.archive("99", &(0..1000).map(|letter| Post::envelope(&letter.to_string())).collect::<Vec<_>>());
        if comes_back {
            let aws = world.aws.clone();
            world.faults(move |call| {
                let now = aws.clock().millis() + 1;
                let sent = call.entries.iter().filter(|_| call.operation == "SendMessageBatch");
                sent.for_each(|entry| archive_again(&aws, entry, now, now));
                Fault::Pass
            });
        }
        let ended = world.run(json!({ "select": { "origins": ["sns"] } })).await.unwrap();
        if comes_back {
            assert_eq!((ended.status, ended.counts.sent), (Status::Stopped, 30));
        } else {
            assert_eq!((ended.status, ended.counts.sent), (Status::Done, 1000));
        }
    }
}

/// All that a pattern selects may be in the last step, which then goes on after a look at what comes back.
#[tokio::test(start_paused = true)]
async fn the_last_step_ends_only_when_nothing_is_left_also_where_nobody_knows_how_many_are_selected() {
    let world = World::new();
    let lines = |posts: &[Post]| posts.iter().map(line).collect::<String>();
    let others: Vec<_> = (0..900).map(|letter| plain(&letter.to_string())).collect();
    let selected: Vec<_> = (0..300).map(|letter| Post::envelope(&letter.to_string())).collect();
    world.put_hour(0, &lines(&others));
    world.put_hour(1, &lines(&selected));
    let request = json!({ "select": { "origins": ["sns"] }, "ramp": [75, 100] });
    let operator = Operator::default();
    let done = world.run_by(&operator, request).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (Status::Done, 300));
    assert_eq!(settled(operator), [100]);
}

/// If a replay is interrupted while a step settles, as at the end of an invocation, the step is still judged.
#[tokio::test(start_paused = true)]
async fn a_step_is_judged_also_by_whoever_goes_on_while_it_settles() {
    let world = World::with_letters(100);
    coming_back(&world, &["0", "1", "2", "3", "4"]);
    let request = json!({ "ramp": [10, 100], "threshold": 10 });
    let (request, source) = (wish(request), Source::Archive);
    let (replay, operator) = (world.replay(), Operator::default());
    let begin = begins(&request);
    let running = replay.run(&begin, &source, None, &operator);
    let interrupting = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        operator.stopped.store(true, Ordering::Relaxed);
    };
    let (settling, ()) = tokio::join!(running, interrupting);
    let settling = settling.unwrap();
    assert_eq!((settling.status, settling.counts.sent), (Status::Settling, 10));
    let stopped = world.resume(&settling.id).await.unwrap();
    let why = "of 10 letters of step 1: 0 refused by SQS, 5 back in the archive, 0 more than before wait in the requeue, 0 more in the dead-letter queues";
    assert_eq!((stopped.status, stopped.counts.sent), (Status::Stopped, 10));
    assert_eq!(stopped.because.as_deref(), Some(why));
    // After the judgement the operator decides to continue.
    let done = world.resume(&settling.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (Status::Done, 100));
}

/// The request to stop is not forgotten at the end of the settling, nor is the judgement.
#[tokio::test(start_paused = true)]
async fn a_replay_that_is_stopped_while_it_settles_stays_stopped_and_is_judged_later() {
    let world = World::with_letters(100);
    coming_back(&world, &["0", "1", "2", "3", "4"]);
    let (request, source) = (wish(json!({ "ramp": [10, 100], "threshold": 10 })), Source::Archive);
    let (replay, operator) = (world.replay(), Operator::default());
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
    assert_eq!((stopped.status, stopped.because.as_deref()), (Status::Stopped, Some("jo stopped it: wait")));
    let judged = world.resume(&stopped.id).await.unwrap();
    assert_eq!((judged.status, judged.counts.sent), (Status::Stopped, 10));
    assert!(judged.because.unwrap().contains("5 back in the archive"));
}

/// The last step is four fifths of all letters by default, so it must be watched too.
#[tokio::test(start_paused = true)]
async fn the_last_step_goes_on_being_watched() {
    let world = World::with_letters(1000);
    // No letter of the first steps comes back, but all do from the 400th on.
    let ids: Vec<&'static str> = (400..1000).map(|id| &*id.to_string().leak()).collect();
    coming_back(&world, &ids);
    let stopped = world.run(json!({ "ramp": [1, 5, 20, 100] })).await.unwrap();
    assert_eq!((stopped.status, stopped.step), (Status::Stopped, 4));
    assert!((400..=500).contains(&stopped.counts.sent), "{} were sent", stopped.counts.sent);
    assert!(stopped.because.unwrap().contains("back in the archive"));
}

/// Letters wait in the requeue, or again in their dead-letter queue: SNS puts a letter there at once if it
/// was republished to a topic and fails again.
#[tokio::test(start_paused = true)]
async fn it_stops_when_more_letters_wait_after_a_step_than_before_visible_hidden_or_delayed() {
    for queue in ["payments-requeue", "payments-dlq"] {
        let world = World { stay: true, ..World::with_letters(1000) };
        // The letters that wait there before do not belong to the replay: 50, and 7 in the other queue.
        let is_sent = AtomicBool::new(false);
        world.faults(move |call| {
            is_sent.fetch_or(call.operation == "SendMessageBatch", Ordering::Relaxed);
            if call.operation != "GetQueueAttributes" {
                return Fault::Pass;
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
            Fault::Nonsense(200, waiting.to_string())
        });
        let stopped = world.run(json!({})).await.unwrap();
        assert_eq!((stopped.status, stopped.counts.sent), (Status::Stopped, 10), "{queue}");
        let (requeue, dlq) = if queue == "payments-requeue" { (2, 0) } else { (0, 2) };
        let why = format!(
            "of 10 letters of step 1: 0 refused by SQS, 0 back in the archive, {requeue} more than before wait in the \
             requeue, {dlq} more in the dead-letter queues"
        );
        assert_eq!(stopped.because, Some(why));
        let done = world.resume(&stopped.id).await.unwrap();
        assert_eq!(
            (done.status, done.counts.sent),
            (Status::Done, 1000),
            "what waited before is no fault of the rest"
        );
    }
}

/// A queue of old letters that the function works off says nothing about those that nobody takes.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_queue_that_drains_hides_no_requeue_that_nobody_empties() {
    let world = World { stay: true, ..World::with_letters(1000) };
    let clock = world.aws.clock().clone();
    world.faults(move |call| {
        if call.operation != "GetQueueAttributes" || call.target != "payments-dlq" {
            return Fault::Pass;
        }
        let left = 100_000 - (clock.millis() - START) * 60 / 1000;
        let answer = json!({ "Attributes": { "ApproximateNumberOfMessages": left.to_string() } });
        Fault::Nonsense(200, answer.to_string())
    });
    let stopped = world.run(json!({})).await.unwrap();
    assert_eq!((stopped.status, stopped.counts.sent), (Status::Stopped, 10), "{:?}", stopped.because);
    let why = "10 more than before wait in the requeue, 0 more in the dead-letter queues";
    assert!(stopped.because.unwrap().ends_with(why));
}

/// The function takes time for the letters, and nobody waits for it. That is no reason to stop, not even
/// after the replay is continued.
#[tokio::test(start_paused = true)]
async fn letters_that_were_sent_within_a_minute_may_wait_in_the_last_step() {
    let world = World { stay: true, ..World::with_letters(1000) };
    world.no_faults();
    let operator = Operator { stop_at: Some(300), ..Operator::default() };
    let request = json!({ "ramp": [100], "settleSeconds": 0, "rate": 100 });
    let paused = world.run_by(&operator, request).await.unwrap();
    assert_eq!(paused.status, Status::Running);
    let done = world.resume(&paused.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.because), (Status::Done, 1000, None));
}

/// After a minute, or the time to settle if it is longer, the function should have received them.
#[tokio::test(start_paused = true)]
async fn letters_that_wait_longer_than_steps_settle_stop_the_last_step() {
    // The slices have 200 letters and take 25 seconds each. After the fourth, the letters of the first have
    // waited for 75 seconds.
    for (settle, status, sent) in
        [(0, Status::Stopped, 800), (60, Status::Stopped, 800), (120, Status::Done, 1000)]
    {
        let world = World { stay: true, ..World::with_letters(1000) };
        world.no_faults();
        let request = json!({ "ramp": [100], "settleSeconds": settle, "rate": 8 });
        let ended = world.run(request).await.unwrap();
        assert_eq!((ended.status, ended.counts.sent), (status, sent), "{settle} s");
        let why = "of 800 letters of step 1: 0 refused by SQS, 0 back in the archive, 200 more than before wait in the requeue, 0 more in the dead-letter queues";
        assert_eq!(ended.because.as_deref(), (status == Status::Stopped).then_some(why), "{settle} s");
    }
}

/// Where nobody knows how many letters are left, the last step pauses to be judged. Who has waited forgives nothing.
#[tokio::test(start_paused = true)]
async fn a_pause_of_the_last_step_is_judged_by_all_that_wait() {
    let world = World { stay: true, ..World::new() };
    world.no_faults();
    world.put_hour(1, &(0..600).map(|number| line(&plain(&number.to_string()))).collect::<String>());
    assert_eq!(world.run(json!({ "ramp": [100], "threshold": 100 })).await.unwrap().counts.sent, 600);
    world.put_hour(2, &(600..1200).map(|number| line(&plain(&number.to_string()))).collect::<String>());
    tokio::time::sleep(Duration::from_secs(100)).await;
    let stopped = world.run(json!({ "ramp": [100], "settleSeconds": 10 })).await.unwrap();
    assert_eq!((stopped.status, stopped.counts.sent), (Status::Stopped, 100), "{:?}", stopped.because);
    assert!(stopped.because.unwrap().contains(" 100 more than before wait in the requeue"));
}

/// Whoever continues a replay has seen what came back, and may know better than whoever began it.
#[tokio::test(start_paused = true)]
async fn whoever_goes_on_can_give_another_threshold_rate_and_time_to_settle() {
    let world = World::with_letters(100);
    // The steps have 10, 40 and 50 letters.
    coming_back(&world, &["0", "1", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20"]);
    let stopped = world.run(json!({ "ramp": [10, 50, 100], "settleSeconds": 30 })).await.unwrap();
    assert_eq!((stopped.status, stopped.counts.sent), (Status::Stopped, 10));
    let go_on = async |change: Resume| {
        world.replay().run(&resumes(&change), &Source::Archive, None, &Operator::default()).await
    };
    for (change, why) in [
        (Resume { rate: Some(0), ..resume(&stopped.id) }, "rate: must be from 1 to 1000000"),
        (Resume { threshold: Some(101), ..resume(&stopped.id) }, "threshold: must be from 0 to 100"),
        (
            Resume { settle_seconds: Some(3601), ..resume(&stopped.id) },
            "settleSeconds: must be from 0 to 3600",
        ),
    ] {
        assert_eq!(go_on(change).await.unwrap_err().to_string(), format!("bad request: {why}"));
        assert_eq!(world.replay().kept().show(&stopped.id).await.unwrap(), stopped, "nothing has changed");
    }
    // 11 of the 40 letters of the second step come back.
    let change = Resume { threshold: Some(27), ..resume(&stopped.id) };
    let stopped = go_on(change).await.unwrap();
    assert_eq!((stopped.status, stopped.counts.sent, stopped.request.threshold), (Status::Stopped, 50, 27));

    let world = World::with_letters(100);
    coming_back(&world, &["0", "1", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20"]);
    let begun = world.run(json!({ "ramp": [10, 50, 100], "settleSeconds": 30 })).await.unwrap();
    let began = world.aws.clock().now();
    let change = Resume {
        id: begun.id.clone(),
        rate: Some(10),
        threshold: Some(28),
        settle_seconds: Some(300),
        why: Some("billing is mended".into()),
    };
    let done =
        world.replay().run(&resumes(&change), &Source::Archive, None, &Operator::default()).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (Status::Done, 100));
    let request = Request { rate: 10, threshold: 28, settle_seconds: 300, ..begun.request };
    assert_eq!(done.request, request, "they are kept");
    let note = Note { at: done.taken_up, by: done.by.clone(), why: Some("billing is mended".into()) };
    assert_eq!((begun.resumed, done.resumed), (None, Some(note)));
    // 90 letters take 8 seconds, because the first ten go at once, and one step settles.
    let took = world.aws.clock().now().duration_since(began).as_secs();
    assert!((306..312).contains(&took), "{took} s");
}

/// Then it is unknown whether letters return to the queue, and the operator is told.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_queue_that_cannot_be_read_is_told_and_not_judged_by() {
    let world = World::with_letters(100);
    world.deny_its_dead_letter_queue();
    let operator = Operator::default();
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
    let world = World::with_letters(100);
    let sends = AtomicUsize::new(0);
    world.faults(move |call| {
        let sent = sends.fetch_add(usize::from(call.operation == "SendMessageBatch"), Ordering::Relaxed) > 0;
        let judging = sent && call.operation == "ListObjectsV2" && call.target.contains("queue=payments-dlq");
        if judging { Fault::Unavailable } else { Fault::Pass }
    });
    let failed = world.run(json!({ "threshold": 99 })).await.unwrap_err().to_string();
    assert!(failed.starts_with("listing dead-letters/queue=payments-dlq/ failed"), "{failed}");
    assert_eq!(world.sent().len(), 1);
    world.no_faults();
    let id = world.replay().kept().all().await.unwrap()[0].id.clone();
    let mut goes_on = resume(&id);
    goes_on.threshold = Some(100);
    let done =
        world.replay().run(&resumes(&goes_on), &Source::Archive, None, &Operator::default()).await.unwrap();
    assert_eq!(done.counts.sent, 100);
}

/// The time that settling or a slow archive takes is not made up for afterwards.
#[tokio::test(start_paused = true)]
async fn no_more_letters_a_second_than_the_rate_for_all_workers_together() {
    for workers in [1, 3] {
        let world = World { workers, ..World::new() };
        for hour in 10..16 {
            let name =
                format!("{ARCHIVE}/queue=payments-dlq/date=2026-10-31/20261031T{hour}0000Z-a.2-n40-r0.jsonl");
            let ids = (0..40).map(|letter| plain(&format!("{hour}{letter:02}")));
            world.put(&name, &ids.map(|post| line(&post)).collect::<String>(), NOW);
        }
        let moments = Arc::new(Mutex::new(Vec::new()));
        let (seen, clock) = (Arc::clone(&moments), world.aws.clock().clone());
        world.faults(move |call| {
            if call.operation == "SendMessageBatch" {
                seen.lock().unwrap().push((clock.millis(), call.entries.len()));
            }
            // Reading takes longer than sending the letters that were read before.
            let is_letters = call.operation == "GetObject" && call.target.contains("date=");
            Fault::Pass.after(Duration::from_millis(if is_letters { 10_000 } else { 20 }))
        });
        let request = json!({ "rate": 10, "ramp": [50, 100], "settleSeconds": 30 });
        let done = world.run(request).await.unwrap();
        assert_eq!((done.status, done.counts.sent), (Status::Done, 240));
        let moments = moments.lock().unwrap();
        let (first, last) = (moments[0].0, moments[moments.len() - 1].0);
        assert!(last - first >= 22_500 + 30_000, "240 letters in {} ms", last - first);
        for (begin, _) in moments.iter() {
            let within = moments.iter().filter(|(at, _)| (*begin..*begin + 1000).contains(at));
            let letters: usize = within.map(|(_, letters)| letters).sum();
            assert!(letters <= 20, "{letters} within a second");
        }
        // The pauses are the step that settled and, with one worker, the reading of the next letters.
        let pauses = moments.windows(2).filter(|two| two[1].0 - two[0].0 > 3000).count();
        assert_eq!(pauses, if workers == 1 { 5 } else { 1 });
    }
}

/// Where most letters cannot go, the per cents of a step would be all that can.
#[tokio::test(start_paused = true)]
async fn a_step_is_not_all_that_can_go_where_most_letters_are_left_out() {
    let world = World::new();
    for hour in 0..6 {
        let old = (0..900).map(|number| line(&plain(&format!("{hour}-{number}")).queue(FIFO_DLQ)));
        world.put_hour(hour, &old.collect::<String>());
    }
    world.put_hour(7, &(0..600).map(|number| line(&plain(&number.to_string()))).collect::<String>());
    let operator = Operator::default();
    let done = world.run_by(&operator, json!({ "ramp": [10, 100] })).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (Status::Done, 600));
    assert_eq!(settled(operator).first(), Some(&100));
}

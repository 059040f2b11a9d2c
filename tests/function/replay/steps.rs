//! The steps of a replay: how many letters each has, and how fast they go.

use redrive_replay::OperatorNote;

use super::judgement::coming_back;
use super::*;

fn settled(operator: TestObserver) -> Vec<u64> {
    let seen = operator.seen.into_inner().unwrap().into_iter();
    let mut settled: Vec<_> =
        seen.filter(|(status, _)| *status == ReplayStatus::Settling).map(|(_, sent)| sent).collect();
    settled.dedup();
    settled
}

#[tokio::test(start_paused = true)]
async fn the_selection_goes_out_step_by_step_with_time_to_settle_after_each() {
    let world = ArchiveWorld::with_letters(250);
    let operator = TestObserver::default();
    let done = world.run_by(&operator, json!({ "settleSeconds": 120 })).await.unwrap();
    assert_eq!(settled(operator), [3, 13, 50]);
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 250, 0));
    let took = world.aws.clock().now().duration_since(at(START)).as_secs();
    assert!((360..365).contains(&took), "{took} s");
    assert_eq!(world.bodies(), numbers(0..250));
}

/// Returns an archive in which another replay has sent the first 300 letters, or in which they cannot be
/// replayed, and 100 new ones.
pub(super) async fn with_new_letters(are_sent: bool) -> ArchiveWorld {
    let world = ArchiveWorld::new();
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
        let operator = TestObserver::default();
        let done = world.run_by(&operator, json!({})).await.unwrap();
        let counts = &done.counts;
        let passed_over = counts.already_replayed + counts.not_replayable.values().sum::<u64>();
        assert_eq!((done.status, counts.sent, passed_over), (ReplayStatus::Done, 100, 300), "{counts:?}");
        assert_eq!(settled(operator), [4, 20, 80]);
    }
}

/// The first per cent may be all that there is to send.
#[tokio::test(start_paused = true)]
async fn a_replay_beside_others_begins_with_few_letters_whatever_its_per_cents() {
    // Before the letters that others have sent, only the plan can know of them.
    for (others, hour, pauses) in [(true, 2, &[100][..]), (true, 0, &[100, 600]), (false, 2, &[600])] {
        let world = ArchiveWorld::new();
        world.put_hour(1, &(0..600).map(|number| line(&plain(&number.to_string()))).collect::<String>());
        if others {
            assert_eq!(world.run(json!({ "ramp": [100] })).await.unwrap().counts.sent, 600);
        }
        world
            .put_hour(hour, &(600..1200).map(|number| line(&plain(&number.to_string()))).collect::<String>());
        tokio::time::sleep(Duration::from_secs(10)).await;
        let operator = TestObserver::default();
        let done = world.run_by(&operator, json!({ "ramp": [50, 100] })).await.unwrap();
        assert_eq!((done.status, world.numbers()), (ReplayStatus::Done, numbers(0..1200)));
        assert_eq!(settled(operator), pauses, "{others} {hour}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_selection_of_none_and_of_one_are_done_at_once() {
    for letters in [0, 1] {
        let world = ArchiveWorld::with_letters(letters);
        let done = world.run(json!({})).await.unwrap();
        assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, letters as u64));
        assert!(world.aws.clock().now().duration_since(at(START)).as_secs() < 2, "nothing to wait for");
    }
}

/// An example is a nightly event, when most letters are replayed already.
#[tokio::test(start_paused = true)]
async fn a_step_that_sends_nothing_takes_no_time() {
    let world = ArchiveWorld::with_letters(250);
    world.run(json!({ "ramp": [100] })).await.unwrap();
    let began = world.aws.clock().now();
    let done = world.run(json!({})).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.already_replayed), (ReplayStatus::Done, 0, 250));
    assert!(world.aws.clock().now().duration_since(began).as_secs() < 2);
}

/// The letters that a pattern selects may all be together, at the end of a long archive.
#[tokio::test(start_paused = true)]
async fn the_ramp_is_one_of_letters_also_where_nobody_knows_how_many_are_selected() {
    for comes_back in [true, false] {
        let world = ArchiveWorld::new();
        for object in 0..20 {
            let ids: Vec<_> = (0..100).map(|letter| plain(&format!("{object}-{letter}"))).collect();
            world.archive(&format!("{object:02}"), &ids);
        }
        world.archive(
            "99",
            &(0..1000).map(|letter| RecordBuilder::envelope(&letter.to_string())).collect::<Vec<_>>(),
        );
        if comes_back {
            let aws = world.aws.clone();
            world.faults(move |call| {
                let now = aws.clock().millis() + 1;
                let sent = call.entries.iter().filter(|_| call.operation == "SendMessageBatch");
                sent.for_each(|entry| archive_again(&aws, entry, now, now));
                SimFault::Pass
            });
        }
        let ended = world.run(json!({ "select": { "origins": ["sns"] } })).await.unwrap();
        if comes_back {
            assert_eq!((ended.status, ended.counts.sent), (ReplayStatus::Stopped, 30));
        } else {
            assert_eq!((ended.status, ended.counts.sent), (ReplayStatus::Done, 1000));
        }
    }
}

/// All that a pattern selects may be in the last step, which then goes on after a look at what comes back.
#[tokio::test(start_paused = true)]
async fn the_last_step_ends_only_when_nothing_is_left_also_where_nobody_knows_how_many_are_selected() {
    let world = ArchiveWorld::new();
    let lines = |posts: &[RecordBuilder]| posts.iter().map(line).collect::<String>();
    let others: Vec<_> = (0..900).map(|letter| plain(&letter.to_string())).collect();
    let selected: Vec<_> = (0..300).map(|letter| RecordBuilder::envelope(&letter.to_string())).collect();
    world.put_hour(0, &lines(&others));
    world.put_hour(1, &lines(&selected));
    let request = json!({ "select": { "origins": ["sns"] }, "ramp": [75, 100] });
    let operator = TestObserver::default();
    let done = world.run_by(&operator, request).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 300));
    assert_eq!(settled(operator), [100]);
}

/// Anyone who continues a replay has seen what came back, and may know better than the one who began it.
#[tokio::test(start_paused = true)]
async fn whoever_goes_on_can_give_another_threshold_rate_and_time_to_settle() {
    let world = ArchiveWorld::with_letters(100);
    // The steps have 10, 40 and 50 letters.
    coming_back(&world, &["0", "1", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20"]);
    let stopped = world.run(json!({ "ramp": [10, 50, 100], "settleSeconds": 30 })).await.unwrap();
    assert_eq!((stopped.status, stopped.counts.sent), (ReplayStatus::Stopped, 10));
    let go_on = async |change: ResumeRequest| {
        world.replay().run(&resumes(&change), &ReplaySource::Archive, None, &TestObserver::default()).await
    };
    for (change, why) in [
        (ResumeRequest { rate: Some(0), ..resume(&stopped.id) }, "rate: must be from 1 to 1000000"),
        (ResumeRequest { threshold: Some(101), ..resume(&stopped.id) }, "threshold: must be from 0 to 100"),
        (
            ResumeRequest { settle_seconds: Some(3601), ..resume(&stopped.id) },
            "settleSeconds: must be from 0 to 3600",
        ),
    ] {
        assert_eq!(go_on(change).await.unwrap_err().to_string(), format!("bad request: {why}"));
        assert_eq!(world.replay().kept().show(&stopped.id).await.unwrap(), stopped, "nothing has changed");
    }
    // 11 of the 40 letters of the second step come back.
    let change = ResumeRequest { threshold: Some(27), ..resume(&stopped.id) };
    let stopped = go_on(change).await.unwrap();
    assert_eq!(
        (stopped.status, stopped.counts.sent, stopped.request.threshold),
        (ReplayStatus::Stopped, 50, 27)
    );

    let world = ArchiveWorld::with_letters(100);
    coming_back(&world, &["0", "1", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20"]);
    let begun = world.run(json!({ "ramp": [10, 50, 100], "settleSeconds": 30 })).await.unwrap();
    let began = world.aws.clock().now();
    let change = ResumeRequest {
        id: begun.id.clone(),
        rate: Some(10),
        threshold: Some(28),
        settle_seconds: Some(300),
        why: Some("billing is mended".into()),
    };
    let done = world
        .replay()
        .run(&resumes(&change), &ReplaySource::Archive, None, &TestObserver::default())
        .await
        .unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 100));
    let request = ReplayRequest { rate: 10, threshold: 28, settle_seconds: 300, ..begun.request };
    assert_eq!(done.request, request, "they are kept");
    let note = OperatorNote { at: done.taken_up, by: done.by.clone(), why: Some("billing is mended".into()) };
    assert_eq!((begun.resumed, done.resumed), (None, Some(note)));
    // 90 letters take 8 seconds, because the first ten go at once, and one step settles.
    let took = world.aws.clock().now().duration_since(began).as_secs();
    assert!((306..312).contains(&took), "{took} s");
}

/// The time that settling or a slow archive takes is not made up for afterwards.
#[tokio::test(start_paused = true)]
async fn no_more_letters_a_second_than_the_rate_for_all_workers_together() {
    for workers in [1, 3] {
        let world = ArchiveWorld { workers, ..ArchiveWorld::new() };
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
            SimFault::Pass.after(Duration::from_millis(if is_letters { 10_000 } else { 20 }))
        });
        let request = json!({ "rate": 10, "ramp": [50, 100], "settleSeconds": 30 });
        let done = world.run(request).await.unwrap();
        assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 240));
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
    let world = ArchiveWorld::new();
    for hour in 0..6 {
        let old = (0..900).map(|number| line(&plain(&format!("{hour}-{number}")).queue(FIFO_DLQ)));
        world.put_hour(hour, &old.collect::<String>());
    }
    world.put_hour(7, &(0..600).map(|number| line(&plain(&number.to_string()))).collect::<String>());
    let operator = TestObserver::default();
    let done = world.run_by(&operator, json!({ "ramp": [10, 100] })).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 600));
    assert_eq!(settled(operator).first(), Some(&100));
}

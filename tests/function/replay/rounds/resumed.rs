//! Tests of replays by a state machine that end, or meet another, and are continued.

use super::*;

#[tokio::test(start_paused = true)]
async fn it_is_stopped_by_an_operator_and_gone_on_with_by_another_execution_or_by_the_tool() {
    for by_machine in [true, false] {
        let world = hours(6);
        let machine = LaneMachine::new(&world, 2);
        let stop = async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            let replay = world.replay();
            let id = replay.kept().all().await.unwrap().remove(0).id;
            replay.kept().stop(&id, Some("too much")).await.unwrap();
        };
        let began = tokio::time::Instant::now();
        let (stopped, ()) = tokio::join!(machine.begin(json!({ "ramp": [100], "rate": 10 })), stop);
        let stopped = stopped.unwrap();
        assert_eq!(stopped.status, ReplayStatus::Stopped, "{stopped:?}");
        assert_eq!(stopped.because.as_deref(), Some("somebody stopped it: too much"));
        assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
        assert!((1..600).contains(&stopped.counts.sent), "{:?}", stopped.counts);
        assert_eq!(stopped.counts.sent, world.bodies().len() as u64);
        let resume = ResumeRequest { rate: Some(10_000), ..resume(&stopped.id) };
        let done = if by_machine {
            machine.run(&EventRequest::Resume(resume)).await.unwrap()
        } else {
            world
                .replay()
                .run(&resumes(&resume), &ReplaySource::Archive, None, &TestObserver::default())
                .await
                .unwrap()
        };
        assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 600, 0));
        assert_eq!(world.numbers(), numbers(0..600));
    }
}

/// An execution that was ended leaves functions at work, and the replay looks as if it were under way.
#[tokio::test(start_paused = true)]
async fn an_execution_that_was_ended_is_gone_on_with_and_its_lanes_send_nothing_twice() {
    let world = hours(4);
    let machine = LaneMachine::new(&world, 2);
    let turn = first_turn(&world, 2, json!({ "ramp": [100], "rate": 50 })).await;
    let lanes = machine.lanes_of(&turn);
    let old = join_all(lanes.iter().map(|lane| machine.work(lane)));
    let new = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        machine.run(&EventRequest::Resume(resume(&turn.id))).await.unwrap()
    };
    let (_, done) = tokio::join!(old, new);
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 400, 0));
    assert_eq!(world.numbers(), numbers(0..400));
    // The turns and lanes of the old execution are over.
    assert_eq!(machine.next(&turn).await, Err(ReplayError::TakenUp(turn.id.clone())));
    assert_eq!(world.replay().lane(&lanes[0], None, &TestObserver::default()).await, Ok(None));
}

/// Step Functions retries a turn if its answer was lost, and the first try may still be at work.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_tried_again_while_the_first_is_at_work_goes_on() {
    for (late, steps) in [(0, json!([100])), (30, json!([100])), (130, json!([100])), (250, json!([50, 100]))]
    {
        let world = hours(4);
        let machine = LaneMachine::new(&world, 2);
        let begin = json!({ "ramp": steps, "rate": 400, "settleSeconds": 3 });
        let turn = first_turn(&world, 2, begin).await;
        machine.send(&turn).await;
        world.faults(|_| SimFault::Pass.after(Duration::from_millis(100)));
        let again = async {
            tokio::time::sleep(Duration::from_millis(late)).await;
            machine.next(&turn).await
        };
        let (unheard, heard) = tokio::join!(machine.next(&turn), again);
        let (unheard, heard) = (unheard.unwrap(), heard.unwrap());
        if late < 200 {
            assert_eq!((unheard.next, &unheard.key), (heard.next, &heard.key), "{late}: both begin a round");
        }
        world.no_faults();
        let done = machine.go_on(heard).await.unwrap();
        assert_eq!(
            (done.status, done.counts.sent, done.counts.repeated),
            (ReplayStatus::Done, 400, 0),
            "{late}"
        );
        assert_eq!(world.numbers(), numbers(0..400), "{late}");
    }
}

/// The replay's state has no other writer, so an operator should look into it.
#[tokio::test(start_paused = true)]
async fn turns_of_one_execution_that_meet_again_and_again_are_an_error() {
    let world = hours(2);
    let machine = LaneMachine::new(&world, 2);
    let turn = first_turn(&world, 2, json!({ "ramp": [100] })).await;
    machine.send(&turn).await;
    world.faults(|call| {
        let is_state = call.operation == "PutObject" && call.target.ends_with("replay.json");
        let refused = redrive_sim::Error::new(412, "PreconditionFailed", "It was written since.");
        if is_state { SimFault::Refuse(refused) } else { SimFault::Pass }
    });
    let met = machine.next(&turn).await;
    assert!(matches!(met, Err(ReplayError::Failed { .. })), "{met:?}");
}

/// A slow turn finds out that it is over only when it writes the replay's state.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_over_changes_nothing_that_the_next_execution_knows() {
    let world = hours(6);
    let machine = LaneMachine { time: Duration::from_secs(20), ..LaneMachine::new(&world, 3) };
    let turn = first_turn(&world, 3, json!({ "ramp": [100], "rate": 15 })).await;
    machine.send(&turn).await;
    world.faults(|call| {
        let is_old =
            &*call.caller == "old" && call.target.contains("/rounds/") && call.target.contains("/units");
        if is_old { SimFault::Slow(Duration::from_secs(5), Box::new(SimFault::Pass)) } else { SimFault::Pass }
    });
    let (replay, of) = (
        world.replay_by(&Caller::new("old")),
        ReplayResumption { id: turn.id.clone(), holder: turn.holder.clone() },
    );
    let operator = TestObserver::default();
    let old = replay.next_turn(&of, 3, None, &operator);
    let new = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let resume = EventRequest::Resume(resume(&turn.id));
        world.replay().first_turn(&resume, 3, None, &TestObserver::default()).await.unwrap()
    };
    let (old, new) = tokio::join!(old, new);
    assert_eq!(old, Err(ReplayError::TakenUp(turn.id.clone())));
    world.no_faults();
    let written = world.calls("PutObject").into_iter().filter(|call| call.target.contains("/units"));
    let (of_old, others): (Vec<_>, Vec<_>) = written.partition(|call| &*call.caller == "old");
    assert!(!of_old.is_empty() && !others.is_empty());
    for call in of_old {
        assert!(others.iter().all(|other| other.target != call.target), "both wrote {}", call.target);
    }
    let done = LaneMachine::new(&world, 3).go_on(new).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 600));
    assert_eq!(world.numbers(), numbers(0..600));
}

/// Anyone who continues the replay has fixed something.
#[tokio::test(start_paused = true)]
async fn executions_that_ended_before_their_lanes_began_do_not_count() {
    let world = hours(2);
    let machine = LaneMachine::new(&world, 2);
    let turn = first_turn(&world, 2, json!({ "ramp": [100] })).await;
    let resume = EventRequest::Resume(resume(&turn.id));
    for _ in 0..4 {
        let turn = world.replay().first_turn(&resume, 2, None, &TestObserver::default()).await.unwrap();
        assert_eq!((turn.next, turn.replay.status), (TurnKind::Send, ReplayStatus::Running));
    }
    let done = machine.run(&resume).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 200));
}

/// S3's times are whole seconds, but exactly one of the two must win.
#[tokio::test(start_paused = true)]
async fn of_two_who_go_on_within_a_second_one_has_it() {
    let world = hours(4);
    let turn = first_turn(&world, 2, json!({ "ramp": [100] })).await;
    let go_on = || async {
        let resume = EventRequest::Resume(resume(&turn.id));
        world.replay().first_turn(&resume, 2, None, &TestObserver::default()).await
    };
    let (one, other) = tokio::join!(go_on(), go_on());
    let machine = LaneMachine::new(&world, 2);
    let mut ended = Vec::new();
    for turn in [one, other].into_iter().flatten() {
        ended.push(machine.next(&turn).await);
    }
    let ours = ended.iter().filter(|turn| turn.is_ok()).count();
    assert_eq!(ours, 1, "{ended:?}");
    // If they come one after the other within the second, the first has lost the replay.
    let (first, second) = (go_on().await.unwrap(), go_on().await.unwrap());
    assert_eq!(machine.next(&first).await, Err(ReplayError::TakenUp(turn.id.clone())));
    assert!(machine.next(&second).await.is_ok());
}

/// The letters that it sent just before are still on their way.
#[tokio::test(start_paused = true)]
async fn an_execution_that_goes_on_at_once_is_not_stopped_by_what_waits() {
    let world = ArchiveWorld { stay: true, ..hours(12) };
    world.no_faults();
    let machine = LaneMachine::new(&world, 2);
    let turn = first_turn(&world, 2, json!({ "ramp": [100], "settleSeconds": 600 })).await;
    machine.send(&turn).await;
    // The execution ends here.
    let done = machine.run(&EventRequest::Resume(resume(&turn.id))).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 1200), "{done:?}");
}

/// The tool has finished hours that come after the one in which it was stopped.
#[tokio::test(start_paused = true)]
async fn what_one_process_has_sent_is_known_to_the_state_machine_that_goes_on() {
    let world = small_and_large(30);
    let operator = TestObserver { stop_at: Some(700), ..TestObserver::default() };
    let stopped = world.run_by(&operator, json!({ "ramp": [100], "rate": 400 })).await.unwrap();
    let sent = world.bodies().len();
    assert!((500..2000).contains(&sent), "{sent}");
    let machine = LaneMachine { time: Duration::from_secs(4), ..LaneMachine::new(&world, 1) };
    let resume = ResumeRequest { rate: Some(100), ..resume(&stopped.id) };
    let done = machine.run(&EventRequest::Resume(resume)).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 3100, 0));
    assert_eq!(world.numbers(), numbers(0..3100));
}

/// The round was not collected, and its letters are on their way.
#[tokio::test(start_paused = true)]
async fn the_tool_that_goes_on_at_once_is_not_stopped_by_what_waits() {
    let world = ArchiveWorld { stay: true, ..hours(12) };
    world.no_faults();
    let turn = first_turn(&world, 2, json!({ "ramp": [100], "settleSeconds": 600 })).await;
    LaneMachine::new(&world, 2).send(&turn).await;
    let done = world.resume(&turn.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 1200), "{done:?}");
}

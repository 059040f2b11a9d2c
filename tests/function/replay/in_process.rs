//! Tests of replays that one process does alone: it takes the turns and lanes of a state machine itself.

use redrive_replay::{ReplayResumption, RoundLane, TurnKind};

use super::rounds::{LaneMachine, first_turn, hours};
use super::*;

/// Returns the lanes of a replay's round.
fn lanes(world: &ArchiveWorld, id: &str, round: u32) -> Vec<RoundLane> {
    let lanes = world.objects(&format!("{CONTROL}/replays/{id}/rounds/{round:06}.jsonl"));
    lanes[0].1.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_step_is_a_round_of_one_lane_that_has_all() {
    let world = hours(3);
    let done = world.run(json!({ "ramp": [10, 100], "rate": 1000, "settleSeconds": 1 })).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 300));
    for (round, sent) in [(1, 30), (2, 100), (3, 100), (4, 70)] {
        let of_round = lanes(&world, &done.id, round);
        assert_eq!(of_round.len(), 1);
        let lane = &of_round[0];
        assert_eq!((lane.lanes, lane.rate), (1, 1000), "{lane:?}");
        let result = world.objects(&format!("{CONTROL}/replays/{}/rounds/{round:06}/0000.json", done.id));
        let result: Value = serde_json::from_str(&result[0].1).unwrap();
        let units = result["units"].as_array().unwrap().iter();
        assert_eq!(units.map(|unit| unit["sent"].as_u64().unwrap()).sum::<u64>(), sent, "{result}");
    }
    assert_eq!(done.place.rounds, 4);
}

/// The letters under way are sent, and anyone who looks sees how many were.
#[tokio::test(start_paused = true)]
async fn an_interrupted_round_is_stored_and_gone_on_with_by_a_state_machine() {
    let world = hours(6);
    let operator = TestObserver::default();
    let request = wish(json!({ "ramp": [100], "rate": 10 }));
    let begin = begins(&request);
    let replay = world.replay();
    let running = replay.run(&begin, &ReplaySource::Archive, None, &operator);
    let interrupt = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        operator.stopped.store(true, Ordering::Relaxed);
    };
    let (interrupted, ()) = tokio::join!(running, interrupt);
    let interrupted = interrupted.unwrap();
    assert_eq!(interrupted.status, ReplayStatus::Running);
    let sent = interrupted.counts.sent;
    assert!((150..=230).contains(&sent) && sent == world.bodies().len() as u64, "{sent}");
    assert_eq!(world.replay().kept().show(&interrupted.id).await.unwrap(), interrupted);
    let done = LaneMachine::beside_others(&world, 2).resume(&interrupted.id).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 600, 0));
    assert_eq!(world.numbers(), numbers(0..600));
}

/// A function knows only the selection, which is empty: it would send the whole archive.
#[tokio::test(start_paused = true)]
async fn no_function_takes_a_lane_of_a_replay_of_given_records() {
    let world = ArchiveWorld::with_letters(5);
    let given = ReplaySource::Input(["0", "1"].map(|id| Ok((record_at(&plain(id), NOW), false))).into());
    let begin = begins(&ReplayRequest { ramp: vec![100], rate: 1, ..ReplayRequest::default() });
    let (replay, operator) = (world.replay(), TestObserver::default());
    let running = replay.run(&begin, &given, None, &operator);
    let stranger = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let id = world.replay().kept().all().await.unwrap().remove(0).id;
        let lane = lanes(&world, &id, 1).remove(0);
        world.replay().lane(&lane, None, &TestObserver::default()).await
    };
    let (done, refused) = tokio::join!(running, stranger);
    let why = "only the process that has the records can send them".to_owned();
    assert_eq!(refused, Err(ReplayError::Request(vec![why])));
    assert_eq!((done.unwrap().counts.sent, world.bodies()), (2, vec!["0".to_owned(), "1".to_owned()]));
}

/// The next turn goes on from what the first has stored.
#[tokio::test(start_paused = true)]
async fn a_turn_whose_time_is_over_stores_the_results_of_the_round() {
    let world = hours(2);
    let machine = LaneMachine::new(&world, 2);
    let turn = first_turn(&world, 2, json!({ "ramp": [50, 100], "settleSeconds": 30 })).await;
    machine.send(&turn).await;
    let over = TestObserver { stopped: AtomicBool::new(true), ..TestObserver::default() };
    let of = ReplayResumption { id: turn.id.clone(), holder: turn.holder.clone() };
    let late = world.replay().next_turn(&of, 2, None, &over).await.unwrap();
    assert_eq!((late.next, late.seconds), (TurnKind::Wait, 1));
    let stored = world.replay().kept().show(&turn.id).await.unwrap();
    assert_eq!((stored.status, stored.counts.sent), (ReplayStatus::Running, 100));
    let done = machine.go_on(late).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 200, 0));
}

//! Tests of replays by a state machine: in rounds of lanes, each in an invocation of its own.

mod resumed;

use futures_util::future::join_all;
use redrive_replay::{EventRequest, ReplayResumption, RoundLane, TurnAnswer, TurnKind};

use super::*;

/// The way a lane ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LaneEnd {
    Works,
    /// The function dies at this write, after the write has its effect.
    Dies(usize),
}

/// A state machine with so many lanes at the same time.
pub(super) struct LaneMachine<'w> {
    world: &'w ArchiveWorld,
    workers: usize,
    rounds: AtomicUsize,
    lanes: AtomicUsize,
    /// The ends of lanes in the first rounds.
    ends: Vec<LaneEnd>,
    /// The time of a lane's invocation.
    time: Duration,
    /// The number of letters in the requeue before.
    before: AtomicUsize,
}

/// The observer of a lane, which must stop after a time.
struct TimedControl(tokio::time::Instant);

impl ReplayControl for TimedControl {
    fn stop(&self) -> bool {
        tokio::time::Instant::now() >= self.0
    }

    fn progress(&self, _: &ReplayState) {}

    fn left_out(&self, _: &RecordLocation, _: &str) {}
}

/// Begins a replay like an execution with so many workers.
pub(super) async fn first_turn(world: &ArchiveWorld, workers: usize, request: Value) -> TurnAnswer {
    let begin = EventRequest::Begin(Box::new(wish(request)));
    world.replay().first_turn(&begin, workers, None, &TestObserver::default()).await.unwrap()
}

impl<'w> LaneMachine<'w> {
    pub(super) fn new(world: &'w ArchiveWorld, workers: usize) -> Self {
        let (rounds, lanes, time) = (AtomicUsize::new(0), AtomicUsize::new(0), Duration::from_mins(15));
        let before = AtomicUsize::new(0);
        Self { world, workers, rounds, lanes, ends: Vec::new(), time, before }
    }

    /// Creates one that runs while others send letters too.
    pub(super) fn beside_others(world: &'w ArchiveWorld, workers: usize) -> Self {
        Self { ends: vec![LaneEnd::Works], ..Self::new(world, workers) }
    }

    pub(super) async fn begin(&self, request: Value) -> Result<ReplayState, ReplayError> {
        self.before.store(self.world.bodies().len(), Ordering::Relaxed);
        self.run(&EventRequest::Begin(Box::new(wish(request)))).await
    }

    pub(super) async fn resume(&self, id: &str) -> Result<ReplayState, ReplayError> {
        self.run(&EventRequest::Resume(resume(id))).await
    }

    async fn run(&self, wish: &EventRequest) -> Result<ReplayState, ReplayError> {
        let operator = TestObserver::default();
        let turn = self.world.replay().first_turn(wish, self.workers, None, &operator).await?;
        self.go_on(turn).await
    }

    /// Continues to the end.
    pub(super) async fn go_on(&self, mut turn: TurnAnswer) -> Result<ReplayState, ReplayError> {
        loop {
            match turn.next {
                TurnKind::End => return Ok(turn.replay),
                TurnKind::Wait => tokio::time::sleep(Duration::from_secs(turn.seconds.into())).await,
                TurnKind::Send => self.send(&turn).await,
            }
            turn = self.next(&turn).await?;
            self.check(&turn.replay);
        }
    }

    /// Asserts the facts that hold after every turn.
    fn check(&self, state: &ReplayState) {
        if state.request.dry_run {
            return;
        }
        let (sent, judged) = (state.counts.sent, state.place.judged);
        if self.ends.is_empty() {
            let bodies = self.world.bodies().len() - self.before.load(Ordering::Relaxed);
            assert_eq!(sent, bodies as u64, "it knows what it has sent: {state:?}");
        }
        if !state.exact {
            assert!(sent - judged <= 100.max(5 * judged), "{sent} sent, and looked at {judged}");
        }
    }

    async fn next(&self, turn: &TurnAnswer) -> Result<TurnAnswer, ReplayError> {
        let of = ReplayResumption { id: turn.id.clone(), holder: turn.holder.clone() };
        self.world.replay().next_turn(&of, self.workers, None, &TestObserver::default()).await
    }

    /// Runs every lane of a round. The state machine does not check whether one fails.
    pub(super) async fn send(&self, turn: &TurnAnswer) {
        let end =
            self.ends.get(self.rounds.fetch_add(1, Ordering::Relaxed)).copied().unwrap_or(LaneEnd::Works);
        let lanes = self.lanes_of(turn);
        self.lanes.fetch_max(lanes.len(), Ordering::Relaxed);
        match end {
            LaneEnd::Works => {
                let work = lanes.iter().map(|lane| self.work(lane));
                join_all(work).await;
            }
            LaneEnd::Dies(nth) => {
                let lane = lanes[0].clone();
                let operator = TestObserver::default();
                let run = async |replay: ArchiveReplayer| match replay.lane(&lane, None, &operator).await {
                    Ok(_) => replay.kept().show(&lane.id).await,
                    Err(error) => Err(error),
                };
                let is_write =
                    |call: &SimCall| call.operation == "PutObject" || call.operation == "SendMessageBatch";
                assert!(self.world.crash(is_write, nth, true, run).await.is_none(), "it came to its end");
                join_all(lanes[1..].iter().map(|lane| self.work(lane))).await;
            }
        }
    }

    async fn work(&self, lane: &RoundLane) {
        let invocation = TimedControl(tokio::time::Instant::now() + self.time);
        self.world.replay().lane(lane, None, &invocation).await.unwrap();
    }

    fn lanes_of(&self, turn: &TurnAnswer) -> Vec<RoundLane> {
        let (_, lines) = self.world.objects(&turn.key).remove(0);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Returns a world with letters of so many hours, 100 each.
pub(super) fn hours(count: usize) -> ArchiveWorld {
    let world = ArchiveWorld::new();
    for hour in 0..count {
        let letters: Vec<_> =
            (hour * 100..hour * 100 + 100).map(|number| plain(&number.to_string())).collect();
        let lines: String = letters.iter().map(line).collect();
        let key =
            format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T{hour:02}0000Z-a.2-n100-r0.jsonl");
        world.put(&key, &lines, NOW);
    }
    world
}

#[tokio::test(start_paused = true)]
async fn every_letter_goes_once_in_steps_and_lanes_share_the_rate() {
    let world = hours(8);
    let machine = LaneMachine::new(&world, 3);
    let began = tokio::time::Instant::now();
    let state = machine.begin(json!({ "ramp": [50, 100], "rate": 600, "settleSeconds": 150 })).await.unwrap();
    assert_eq!((state.status, state.counts.sent), (ReplayStatus::Done, 800));
    assert_eq!(world.numbers(), numbers(0..800));
    assert_eq!(machine.lanes.load(Ordering::Relaxed), 3);
    // The letters of one second go at once, in each of two rounds.
    let took = began.elapsed().as_secs();
    assert!((150..=190).contains(&took), "{took} s");
    // The same state is stored, and another replay finds nothing left.
    assert_eq!(world.replay().kept().show(&state.id).await.unwrap(), state);
    let again = machine.begin(json!({ "ramp": [100] })).await.unwrap();
    assert_eq!((again.counts.sent, again.counts.already_replayed), (0, 800));
}

/// A slice of few letters is a round of its own, and its lanes have no pace before the first batch.
#[tokio::test(start_paused = true)]
async fn no_more_letters_a_second_than_the_rate_whatever_the_number_of_rounds() {
    for (rate, lanes) in [(100, 1), (200, 1), (400, 2)] {
        let world = hours(12);
        let machine = LaneMachine::new(&world, 5);
        let began = tokio::time::Instant::now();
        let state = machine.begin(json!({ "ramp": [100], "rate": rate })).await.unwrap();
        assert_eq!((state.status, state.counts.sent), (ReplayStatus::Done, 1200));
        let rounds = machine.rounds.load(Ordering::Relaxed);
        assert_eq!((machine.lanes.load(Ordering::Relaxed), rounds), (lanes, 5), "{rate}");
        let took = began.elapsed().as_secs_f64();
        let least = 1200.0 / f64::from(rate);
        assert!((least - 0.1..least * 1.3).contains(&took), "{rate}: {took} s");
    }
}

/// While one part waits for its ledger, another sends.
#[tokio::test(start_paused = true)]
async fn a_lane_sends_several_parts_at_once() {
    let took = async |workers| {
        let world = ArchiveWorld { workers, ..hours(8) };
        world.faults(|_| SimFault::Pass.after(Duration::from_millis(10)));
        let begin = wish(json!({ "ramp": [100], "rate": 100_000, "threshold": 100 }));
        let turn = world
            .replay()
            .first_turn(&EventRequest::Begin(Box::new(begin)), 1, None, &TestObserver::default())
            .await;
        let began = tokio::time::Instant::now();
        LaneMachine::new(&world, 1).send(&turn.unwrap()).await;
        began.elapsed()
    };
    let (one, two) = (took(1).await, took(2).await);
    assert!(two < one * 7 / 10, "{one:?} {two:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lane_whose_function_dies_is_made_up_for_and_what_it_may_have_sent_is_counted() {
    for nth in 0..5 {
        let world = hours(4);
        let machine = LaneMachine { ends: vec![LaneEnd::Dies(nth)], ..LaneMachine::new(&world, 2) };
        let state = machine.begin(json!({ "ramp": [100] })).await.unwrap();
        assert_eq!((state.status, state.counts.sent), (ReplayStatus::Done, 400), "{nth}");
        let bodies = world.bodies();
        let once: BTreeSet<_> = bodies.iter().collect();
        assert_eq!(once.len(), 400, "{nth}");
        assert!(
            bodies.len() as u64 - 400 <= state.counts.repeated,
            "{nth}: {} {:?}",
            bodies.len(),
            state.counts
        );
    }
}

/// Letters that others have sent, or that cannot be replayed, end no step.
#[tokio::test(start_paused = true)]
async fn a_step_is_one_of_letters_that_are_really_sent() {
    for are_sent in [true, false] {
        let world = super::steps::with_new_letters(are_sent).await;
        let machine = LaneMachine::new(&world, 3);
        machine.before.store(world.bodies().len(), Ordering::Relaxed);
        let mut turn = first_turn(&world, 3, json!({ "rate": 10_000 })).await;
        let mut settled = Vec::new();
        while turn.next != TurnKind::End {
            match turn.next {
                TurnKind::Send => machine.send(&turn).await,
                _ => tokio::time::sleep(Duration::from_secs(turn.seconds.into())).await,
            }
            turn = machine.next(&turn).await.unwrap();
            machine.check(&turn.replay);
            if turn.replay.status == ReplayStatus::Settling {
                settled.push(turn.replay.counts.sent);
            }
        }
        settled.dedup();
        assert_eq!(
            (turn.replay.status, turn.replay.counts.sent),
            (ReplayStatus::Done, 100),
            "{:?}",
            turn.replay
        );
        assert_eq!(settled, [4, 20, 80]);
    }
}

/// A step that was only partly sent says too little about the next.
#[tokio::test(start_paused = true)]
async fn a_step_is_not_judged_before_what_a_dead_lane_has_left_is_sent() {
    let world = hours(4);
    let machine = LaneMachine::new(&world, 2);
    let turn = first_turn(&world, 2, json!({ "ramp": [50, 100] })).await;
    // One of two lanes never begins.
    machine.work(&machine.lanes_of(&turn)[0]).await;
    let turn = machine.next(&turn).await.unwrap();
    assert_eq!((turn.next, turn.replay.step, turn.replay.counts.sent), (TurnKind::Send, 1, 100));
    machine.send(&turn).await;
    let turn = machine.next(&turn).await.unwrap();
    assert_eq!((turn.next, turn.replay.counts.sent), (TurnKind::Wait, 200));
}

#[tokio::test(start_paused = true)]
async fn a_step_is_judged_before_the_next() {
    let world = hours(4);
    super::judgement::coming_back(&world, &["0", "1", "2"]);
    let machine = LaneMachine::new(&world, 4);
    let state = machine.begin(json!({ "ramp": [5, 100] })).await.unwrap();
    assert_eq!((state.status, state.counts.sent, state.came_back), (ReplayStatus::Stopped, 20, 3));
    assert!(state.because.unwrap().contains("3 back in the archive"));
}

#[tokio::test(start_paused = true)]
async fn lanes_that_never_come_to_anything_end_it_and_say_where_to_look() {
    let world = hours(2);
    let machine = LaneMachine::new(&world, 2);
    let mut turn = first_turn(&world, 2, json!({ "ramp": [100] })).await;
    for _ in 0..3 {
        assert_eq!(turn.next, TurnKind::Send);
        turn = machine.next(&turn).await.unwrap();
    }
    assert_eq!((turn.next, turn.replay.status), (TurnKind::End, ReplayStatus::Stopped));
    assert!(turn.replay.because.unwrap().contains("see the log of the replay function"));
}

#[tokio::test(start_paused = true)]
async fn a_fifo_archive_goes_in_its_order_by_one_lane() {
    let world = ArchiveWorld::fifo();
    for hour in 0..3 {
        let posts: Vec<_> = (hour * 10..hour * 10 + 10)
            .map(|number| plain(&number.to_string()).queue(FIFO_DLQ).group("g"))
            .collect();
        let lines: String = posts.iter().map(line).collect();
        let name = format!("20261101T{hour:02}0000Z-a.2-n10-r0.jsonl");
        world.put(&format!("{ARCHIVE}/queue=payments-dlq.fifo/date=2026-11-01/{name}"), &lines, NOW);
    }
    let machine = LaneMachine::new(&world, 5);
    let state = machine.begin(json!({ "ramp": [50, 100] })).await.unwrap();
    assert_eq!((state.status, state.counts.sent), (ReplayStatus::Done, 30));
    assert_eq!(world.bodies(), numbers(0..30));
    assert_eq!(machine.lanes.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_one_turn_and_writes_nothing() {
    let world = hours(2);
    let state = LaneMachine::new(&world, 2).begin(json!({ "dryRun": true })).await.unwrap();
    assert_eq!((state.status, state.counts.sent), (ReplayStatus::DryRun, 200));
    assert_eq!(world.objects(CONTROL), []);
}

/// Returns an archive of two hours, the later one larger, in objects of 100 letters each.
fn small_and_large(large: usize) -> ArchiveWorld {
    let world = ArchiveWorld::new();
    for object in 0..=large {
        let first = object * 100;
        let lines: String = (first..first + 100).map(|number| line(&plain(&number.to_string()))).collect();
        let (hour, minute) = if object == 0 { (9, 0) } else { (10, object) };
        let name = format!("20261101T{hour:02}{minute:02}00Z-a.2-n100-r0.jsonl");
        world.put(&format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-01/{name}"), &lines, NOW);
    }
    world
}

/// A round does not reach the end of the larger hour, which goes first.
#[tokio::test(start_paused = true)]
async fn rounds_that_end_in_the_middle_know_what_was_sent_and_are_judged_by_it() {
    for select in [json!({ "match": { "origin": ["raw"] } }), json!({ "queue": "payments-dlq" })] {
        let world = ArchiveWorld { workers: 1, ..small_and_large(30) };
        let machine = LaneMachine { time: Duration::from_secs(4), ..LaneMachine::new(&world, 1) };
        let request = json!({ "select": select, "ramp": [100], "rate": 100, "settleSeconds": 5 });
        let state = machine.begin(request).await.unwrap();
        assert_eq!((state.status, state.counts.sent), (ReplayStatus::Done, 3100), "{state:?}");
        assert_eq!(world.numbers(), numbers(0..3100));
        assert!(machine.rounds.load(Ordering::Relaxed) > 6, "lanes come to no end in their time");
    }
}

/// Letters that others have sent, or that are not selected, leave no ledger of this replay.
#[tokio::test(start_paused = true)]
async fn units_with_nothing_to_send_are_behind_it_once_they_were_read() {
    let world = ArchiveWorld { workers: 1, ..small_and_large(50) };
    let before =
        world.run(json!({ "select": { "from": "2026-11-01T09:30:00Z" }, "ramp": [100] })).await.unwrap();
    assert_eq!(before.counts.sent, 5000);
    let some = json!({ "select": { "match": { "message": (0..10).collect::<Vec<_>>() } }, "ramp": [100] });
    assert_eq!(world.run(some).await.unwrap().counts.sent, 10);
    world.faults(|_| SimFault::Pass.after(Duration::from_millis(200)));
    // Each round finishes one unit.
    let machine = LaneMachine { time: Duration::from_millis(2200), ..LaneMachine::new(&world, 1) };
    let wish = EventRequest::Begin(Box::new(wish(json!({ "ramp": [98, 100], "rate": 100 }))));
    let mut turn = world.replay().first_turn(&wish, 1, None, &TestObserver::default()).await.unwrap();
    while turn.next == TurnKind::Send {
        machine.send(&turn).await;
        turn = machine.next(&turn).await.unwrap();
    }
    let counts = &turn.replay.counts;
    assert_eq!(
        (turn.replay.status, counts.sent, counts.already_replayed),
        (ReplayStatus::Done, 90, 5010),
        "{turn:?}"
    );
    assert!(machine.rounds.load(Ordering::Relaxed) > 3);
}

#[tokio::test(start_paused = true)]
async fn lanes_of_a_replay_that_was_freed_end_at_once() {
    let world = hours(2);
    let machine = LaneMachine::new(&world, 2);
    let turn = first_turn(&world, 2, json!({ "ramp": [100], "rate": 10 })).await;
    let began = tokio::time::Instant::now();
    let free = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.replay().kept().free(&turn.id, None).await.unwrap();
    };
    tokio::join!(machine.send(&turn), free);
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

/// Lambda throttles, and Step Functions retries a lane for minutes.
#[tokio::test(start_paused = true)]
async fn a_lane_that_begins_after_the_stop_sends_nothing() {
    let world = hours(2);
    let machine = LaneMachine::new(&world, 2);
    let turn = first_turn(&world, 2, json!({ "ramp": [100] })).await;
    world.replay().kept().stop(&turn.id, None).await.unwrap();
    machine.send(&turn).await;
    assert_eq!(world.bodies().len(), 0);
    let turn = machine.next(&turn).await.unwrap();
    assert_eq!((turn.next, turn.replay.status), (TurnKind::End, ReplayStatus::Stopped));
}

/// Its letters are on their way, but nobody has recorded them.
#[tokio::test(start_paused = true)]
async fn a_lane_whose_function_dies_is_not_taken_for_letters_that_wait_too_long() {
    for nth in 0..5 {
        let world = ArchiveWorld { stay: true, ..hours(12) };
        world.no_faults();
        let machine = LaneMachine { ends: vec![LaneEnd::Dies(nth)], ..LaneMachine::new(&world, 2) };
        let state = machine.begin(json!({ "ramp": [100], "settleSeconds": 600 })).await.unwrap();
        assert_eq!(
            (state.status, state.counts.sent),
            (ReplayStatus::Done, 1200),
            "{nth}: {:?}",
            state.because
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_cannot_be_read_holds_up_no_other_and_is_named_where_it_ends_the_replay() {
    let world = hours(6);
    let is_ledger = |call: &SimCall| call.target.contains("hour=20261101T00/0");
    world.faults(
        move |call| if is_ledger(call) { SimFault::Nonsense(500, String::new()) } else { SimFault::Pass },
    );
    let machine = LaneMachine::new(&world, 1);
    let state = machine.begin(json!({ "ramp": [50, 100], "rate": 100 })).await.unwrap();
    assert_eq!((state.status, state.counts.sent), (ReplayStatus::Stopped, 200), "{state:?}");
    let because = state.because.clone().unwrap();
    assert!(because.contains("hour=20261101T00/000000.json failed"), "{because}");
    world.no_faults();
    let done = machine.run(&EventRequest::Resume(resume(&state.id))).await.unwrap();
    assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 600));
}

/// The observer of a lane, which must stop after so many letters were sent.
struct CountedControl<'w>(&'w ArchiveWorld, usize);

impl ReplayControl for CountedControl<'_> {
    fn stop(&self) -> bool {
        self.0.bodies().len() >= self.1
    }

    fn progress(&self, _: &ReplayState) {}

    fn left_out(&self, _: &RecordLocation, _: &str) {}
}

#[tokio::test(start_paused = true)]
async fn a_lane_whose_time_ends_between_two_hours_is_not_through() {
    let world = hours(12);
    let turn = first_turn(&world, 1, json!({ "ramp": [100], "rate": 100 })).await;
    let lane = LaneMachine::new(&world, 1).lanes_of(&turn).remove(0);
    let done = world.replay().lane(&lane, None, &CountedControl(&world, 100)).await.unwrap().unwrap();
    assert_eq!((world.bodies().len(), done.is_through), (100, false), "{done:?}");
    assert!(lane.letters < 1 << 53, "no number that JavaScript has not");
}

/// Part of the letters was replayed before. The last hours hold letters that cannot be replayed, and two that
/// are archived twice.
#[tokio::test(start_paused = true)]
async fn a_dry_run_of_many_letters_is_counted_by_lanes_as_by_one_process() {
    let world = ArchiveWorld::new();
    let two = |hour: usize| [plain(&(2 * hour).to_string()), plain(&(2 * hour + 1).to_string())];
    for hour in 0..60 {
        world.put_hour(hour, &two(hour).iter().map(line).collect::<String>());
        if hour == 23 {
            world.run(json!({ "ramp": [100] })).await.unwrap();
        }
    }
    let twice = line(&plain("1000"));
    world.put_hour(60, &format!("{twice}{twice}"));
    world.put_hour(61, "no record\n");
    let ledgers = || world.objects(&format!("{CONTROL}/replays/queues"));
    let before = (world.bodies().len(), ledgers());
    for (select, exact) in
        [(json!({ "match": { "origin": ["raw"] } }), false), (json!({ "queue": "payments-dlq" }), true)]
    {
        let request = json!({ "select": select, "dryRun": true });
        let (replay, operator) = (world.replay(), TestObserver::default());
        let at_once =
            replay.dry_run(&wish(request.clone()), &ReplaySource::Archive, None, &operator).await.unwrap();
        assert_eq!((at_once.exact, at_once.counts.already_replayed), (exact, 48), "{:?}", at_once.counts);
        let machine = LaneMachine::new(&world, 4);
        let begin = EventRequest::Begin(Box::new(wish(request)));
        let turn = replay.first_turn(&begin, 4, None, &operator).await.unwrap();
        // One of its functions dies.
        let lanes = machine.lanes_of(&turn);
        assert_eq!(lanes.len(), 4);
        join_all(lanes[1..].iter().map(|lane| machine.work(lane))).await;
        let turn = machine.next(&turn).await.unwrap();
        assert_eq!(turn.next, TurnKind::Send);
        assert!(turn.replay.counts.sent < at_once.counts.sent);
        let by_lanes = machine.go_on(turn).await.unwrap();
        assert_eq!((by_lanes.status, &by_lanes.counts), (ReplayStatus::DryRun, &at_once.counts));
        assert_eq!(world.replay().kept().show(&by_lanes.id).await.unwrap(), by_lanes);
    }
    assert!((world.bodies().len(), ledgers()) == before, "a dry run sends and claims nothing");
}

/// The result of a lane, and the list of finished units, are not guessed from what an old version can read.
#[tokio::test(start_paused = true)]
async fn what_a_newer_version_wrote_of_a_round_is_left_as_it_is() {
    let world = hours(3);
    let machine = LaneMachine::new(&world, 2);
    let mut turn = first_turn(&world, 2, json!({ "ramp": [50, 100], "settleSeconds": 1 })).await;
    let of_rounds = || {
        let all = world.objects(CONTROL).into_iter();
        all.filter(|(key, _)| key.contains("/rounds/") && !key.ends_with("jsonl")).collect::<Vec<_>>()
    };
    let mut kinds = BTreeSet::new();
    while turn.next != TurnKind::End {
        match turn.next {
            TurnKind::Send => machine.send(&turn).await,
            _ => tokio::time::sleep(Duration::from_secs(turn.seconds.into())).await,
        }
        let latest = of_rounds().into_iter().map(|(key, _)| key.rsplit_once('/').unwrap().0.to_owned()).max();
        let latest = latest.unwrap();
        for (key, text) in of_rounds().into_iter().filter(|(key, _)| key.starts_with(&latest)) {
            let newer = text.replace("\"version\":1", "\"version\":2");
            assert_ne!(text, newer, "{key}");
            let name = key.rsplit('/').next().unwrap().to_owned();
            // Once the result of a lane is collected, nobody reads it again.
            let is_collected = latest_known(&turn).is_some_and(|known| latest.ends_with(&known));
            if is_collected && !name.starts_with("units-") {
                continue;
            }
            world.put(&key, &newer, START);
            let refused = machine.next(&turn).await.map(|_| ());
            assert_eq!(refused, Err(ReplayError::Newer(format!("s3://my-bucket/{key}"))));
            assert_eq!(world.objects(&key)[0].1, newer);
            world.put(&key, &text, START);
            kinds.insert(name.split('-').next().unwrap().to_owned());
        }
        turn = machine.next(&turn).await.unwrap();
    }
    assert_eq!((turn.replay.status, turn.replay.counts.sent), (ReplayStatus::Done, 300));
    assert_eq!(world.numbers(), numbers(0..300));
    assert_eq!(kinds.iter().collect::<Vec<_>>(), ["0000.json", "0001.json", "units"]);
}

/// Returns the round whose lanes were collected last.
fn latest_known(turn: &TurnAnswer) -> Option<String> {
    Some(turn.replay.place.known.as_ref()?.rsplit('/').nth(1)?.to_owned())
}

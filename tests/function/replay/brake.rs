//! The law of the brake: no more than the letters of a step are sent before it is judged, whatever others send
//! or take, and whatever crashes.

use std::sync::atomic::AtomicU64;

use redrive_sim::{EntryFault, SimEvent};

use super::rounds::LaneMachine;
use super::*;

/// A letter of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BrakeLetter {
    New,
    /// Another replay has sent it before.
    Sent,
    /// It cannot be replayed.
    LeftOut,
    /// Another replay sends it at the same time.
    Shared,
}

/// A world of the property.
#[derive(Debug, Clone)]
struct BrakePlan {
    /// The letters of each hour.
    hours: Vec<Vec<BrakeLetter>>,
    ramp: Vec<u32>,
    /// The number of lanes of the state machine, or 0 for one process.
    lanes: usize,
    /// `true` if the index knows just an upper bound of the selection.
    is_vague: bool,
    /// The requests at which the process dies, each time the replay begins or continues.
    crashes: Vec<(usize, bool)>,
    /// The letters that leave the dead-letter queue in a second.
    drains: i64,
    /// The requeue takes only the first letter of every second, third or fourth call.
    fails_of: Option<u64>,
}

/// The seconds for which a step settles.
const SETTLE_SECONDS: i64 = 5;

fn plans() -> impl Strategy<Value = BrakePlan> {
    let kind = prop_oneof![3 => Just(BrakeLetter::New), 3 => Just(BrakeLetter::Sent), 1 => Just(BrakeLetter::LeftOut), 1 => Just(BrakeLetter::Shared)];
    let hour = prop_oneof![
        prop::collection::vec(kind, 1..30),
        prop::collection::vec(Just(BrakeLetter::Sent), 1..30),
        prop::collection::vec(Just(BrakeLetter::New), 1..30),
    ];
    let ramp = prop::collection::btree_set(1..100_u32, 0..4);
    let crashes = prop::collection::vec((0..60_usize, any::<bool>()), 0..3);
    let fails_of = prop::option::of(2..5_u64);
    (prop::collection::vec(hour, 1..8), ramp, 0..4_usize, any::<bool>(), crashes, 0..100_i64, fails_of)
        .prop_map(|(hours, ramp, lanes, is_vague, crashes, drains, fails_of)| BrakePlan {
            hours,
            ramp: ramp.into_iter().chain([100]).collect(),
            lanes,
            is_vague,
            crashes: if lanes == 0 { crashes } else { Vec::new() },
            drains,
            fails_of,
        })
}

impl BrakePlan {
    /// Returns the numbers of the letters of a kind. A letter's number is its hour and its place.
    fn of(&self, kinds: &[BrakeLetter]) -> BTreeSet<String> {
        let of_hour = |(hour, letters): (usize, &Vec<BrakeLetter>)| {
            let of_kind = letters.iter().enumerate().filter(|(_, kind)| kinds.contains(kind));
            of_kind.map(|(place, _)| (hour * 100 + place).to_string()).collect::<Vec<_>>()
        };
        self.hours.iter().enumerate().flat_map(of_hour).collect()
    }

    fn set_up(&self) -> ArchiveWorld {
        let mut world = ArchiveWorld::new();
        let clock = world.aws.clock().clone();
        let (drains, fails_of, sends) = (self.drains, self.fails_of, AtomicU64::new(0));
        world.usual = Arc::new(move |call| match (call.operation.as_str(), call.target.as_str()) {
            ("GetQueueAttributes", "payments-dlq") => {
                let left = (10_000 - (clock.millis() - START) * drains / 1000).max(0);
                let answer = json!({ "Attributes": { "ApproximateNumberOfMessages": left.to_string() } });
                SimFault::Nonsense(200, answer.to_string())
            }
            ("SendMessageBatch", _) => {
                let number = sends.fetch_add(1, Ordering::Relaxed);
                let fails = fails_of.is_some_and(|of| number.is_multiple_of(of)) && call.entries.len() > 1;
                let failed =
                    || EntryFault::Failed { code: "InternalError".into(), message: "".into(), sender: false };
                if fails {
                    SimFault::Entries((1..call.entries.len()).map(|at| (at, failed())).collect())
                } else {
                    SimFault::Pass
                }
            }
            _ => SimFault::Pass,
        });
        world.no_faults();
        for (hour, letters) in self.hours.iter().enumerate() {
            let post = |(place, kind): (usize, &BrakeLetter)| {
                let post = plain(&(hour * 100 + place).to_string());
                line(&if *kind == BrakeLetter::LeftOut { post.queue(FIFO_DLQ) } else { post })
            };
            world.put_hour(hour, &letters.iter().enumerate().map(post).collect::<String>());
        }
        world
    }

    fn request(&self) -> Value {
        let mut request = json!({ "ramp": self.ramp, "settleSeconds": SETTLE_SECONDS, "rate": 100 });
        request["select"] =
            if self.is_vague { json!({ "origins": ["raw"] }) } else { json!({ "queue": "payments-dlq" }) };
        request
    }
}

/// Replays letters by other replays' requests.
async fn replay_others(world: &ArchiveWorld, letters: &BTreeSet<String>) {
    let numbers: Vec<u32> = letters.iter().map(|number| number.parse().unwrap()).collect();
    if !numbers.is_empty() {
        let select = json!({ "match": { "message": numbers } });
        let request = wish(json!({ "ramp": [100], "threshold": 100, "settleSeconds": 0, "select": select }));
        let other = world.replay_by(&Caller::new("other"));
        other.run(&begins(&request), &ReplaySource::Archive, None, &TestObserver::default()).await.unwrap();
    }
}

/// Runs the replay to its end.
async fn replay(world: &ArchiveWorld, plan: &BrakePlan) -> ReplayState {
    if plan.lanes > 0 {
        return LaneMachine::beside_others(world, plan.lanes).begin(plan.request()).await.unwrap();
    }
    let mut id: Option<String> = None;
    for crash in plan.crashes.iter().copied().chain([(usize::MAX, false)]) {
        let run = async |replay: ArchiveReplayer| match id.as_deref() {
            Some(id) => {
                replay
                    .run(&resumes(&resume(id)), &ReplaySource::Archive, None, &TestObserver::default())
                    .await
            }
            None => {
                replay
                    .run(
                        &begins(&wish(plan.request())),
                        &ReplaySource::Archive,
                        None,
                        &TestObserver::default(),
                    )
                    .await
            }
        };
        if let Some(ended) = world.crash(|_| true, crash.0, crash.1, run).await {
            return ended.unwrap();
        }
        let all = world.replay().kept().all().await.unwrap();
        let begun = all.into_iter().find(|state| &*state.by == "crashing");
        // It may have been cut off right after its last word.
        if let Some(done) = begun.clone().filter(|state| state.status == ReplayStatus::Done) {
            return done;
        }
        id = begun.map(|state| state.id);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    unreachable!("the last run is not cut off")
}

/// Returns what is wrong with the order in which letters were sent and the requeue was looked at.
fn broken(world: &ArchiveWorld, plan: &BrakePlan, letters: u64) -> Option<String> {
    let ends =
        plan.ramp[..plan.ramp.len() - 1].iter().map(|percent| (letters * u64::from(*percent)).div_ceil(100));
    let ends: BTreeSet<u64> = ends.collect();
    let (mut sent, mut last, mut looked) = (BTreeSet::new(), 0, 0);
    for record in world.aws.take_journal() {
        let SimEvent::Called(call) = &record.event else { continue };
        match (call.operation.as_str(), &*call.caller) {
            (_, "other") => {}
            ("GetQueueAttributes", _) if call.target == "payments-requeue" => looked = record.at,
            ("SendMessageBatch", _) => {
                let before = sent.len() as u64;
                sent.extend(call.entries.iter().map(|entry| entry.body.clone()));
                let now = sent.len() as u64;
                if let Some(end) = ends.iter().find(|end| before <= **end && now > **end)
                    && (before < *end || looked < last + SETTLE_SECONDS * 1000)
                {
                    return Some(format!("{now} letters are sent, and the step of {end} is not judged"));
                }
                last = record.at;
            }
            _ => {}
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_more_letters_than_those_of_a_step_are_sent_before_it_is_judged(plan in plans()) {
        block_on(async {
            let world = plan.set_up();
            replay_others(&world, &plan.of(&[BrakeLetter::Sent])).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            let before = world.bodies().len();
            let _ = world.aws.take_journal();
            let shared = plan.of(&[BrakeLetter::Shared]);
            let (state, ()) = tokio::join!(replay(&world, &plan), replay_others(&world, &shared));
            prop_assert_eq!(state.status, ReplayStatus::Done, "{:?}", state.because);
            prop_assert_eq!(broken(&world, &plan, state.letters), None);
            let sent: BTreeSet<_> = world.bodies().split_off(before).into_iter().collect();
            prop_assert_eq!(sent, plan.of(&[BrakeLetter::New, BrakeLetter::Shared]));
            Ok(())
        })?;
    }
}

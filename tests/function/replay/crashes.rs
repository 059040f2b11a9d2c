//! Tests of crashes, and of the continuation after them.

use super::*;

/// A world of the property: the archive, and the faults.
#[derive(Debug, Clone)]
struct CrashPlan {
    /// The letters of each object, by number. A repeated number is a double.
    objects: Vec<Vec<u8>>,
    ramp: Vec<u32>,
    /// The requests at which the worker dies, each time the replay begins or continues, and whether the
    /// request had its effect.
    crashes: Vec<(usize, bool)>,
    /// `true` if another replay of the same letters runs in between.
    others: bool,
}

fn plans() -> impl Strategy<Value = CrashPlan> {
    let objects = prop::collection::vec(prop::collection::vec(0..40_u8, 0..12), 0..8);
    let ramp = prop::collection::btree_set(1..100_u32, 0..4);
    let crashes = prop::collection::vec((0..70_usize, any::<bool>()), 0..5);
    (objects, ramp, crashes, any::<bool>()).prop_map(|(objects, ramp, crashes, others)| CrashPlan {
        objects,
        ramp: ramp.into_iter().chain([100]).collect(),
        crashes,
        others,
    })
}

/// The greatest number of letters in a batch in these worlds: the letters of a second, of one unit.
const MAX_BATCH_LETTERS: u64 = 10;

/// Returns the letter with this number. Letters 30 to 34 are not selected, and letters 35 to 39 cannot be
/// replayed.
fn post(number: u8) -> RecordBuilder {
    match number {
        30..=34 => RecordBuilder::envelope(&number.to_string()),
        35..=39 => plain(&number.to_string()).queue(FIFO_DLQ),
        _ => plain(&number.to_string()),
    }
}

fn set_up(plan: &CrashPlan) -> (ArchiveWorld, BTreeSet<String>, Value) {
    let world = ArchiveWorld::new();
    for (number, letters) in plan.objects.iter().enumerate() {
        let posts: Vec<_> = letters.iter().map(|letter| post(*letter)).collect();
        world.archive(&format!("object-{number}"), &posts);
    }
    let selected = plan.objects.iter().flatten().filter(|letter| **letter < 30);
    let mut request = json!({ "ramp": plan.ramp, "settleSeconds": 0, "rate": MAX_BATCH_LETTERS });
    request["select"] = json!({ "origins": ["raw"] });
    (world, selected.map(ToString::to_string).collect(), request)
}

fn times(bodies: Vec<String>) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for body in bodies {
        *times.entry(body).or_default() += 1;
    }
    times
}

/// Begins a replay, or continues the latest, up to a crash. Returns its final state, if it reached one.
async fn turn(
    world: &ArchiveWorld,
    request: &Value,
    source: &ReplaySource,
    crash: (usize, bool),
) -> Option<ReplayState> {
    let unfinished = world.replay().kept().unfinished(&wish(request.clone()), source).await.unwrap();
    let id = unfinished.first().map(|state| state.id.clone());
    let run = async |replay: ArchiveReplayer| {
        let operator = TestObserver::default();
        match &id {
            Some(id) => replay.run(&resumes(&resume(id)), source, None, &operator).await,
            None => replay.run(&begins(&wish(request.clone())), source, None, &operator).await,
        }
    };
    let ended = world.crash(|_| true, crash.0, crash.1, run).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    ended.map(Result::unwrap)
}

/// A crash that never happens, because its request is never reached.
const NO_CRASH: (usize, bool) = (usize::MAX, false);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_letter_is_sent_whatever_crashes_and_repeats_are_counted(plan in plans()) {
        block_on(async {
            let (world, selected, request) = set_up(&plan);
            let source = ReplaySource::Archive;
            let mut crashed = 0;
            for crash in &plan.crashes {
                crashed += u64::from(turn(&world, &request, &source, *crash).await.is_none());
                if plan.others {
                    world.run(request.clone()).await.unwrap();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            // Now somebody continues all replays that are not finished.
            for _ in 0..=plan.crashes.len() {
                let ended = turn(&world, &request, &source, NO_CRASH).await;
                prop_assert_eq!(ended.map(|state| state.status), Some(ReplayStatus::Done));
            }
            let times = times(world.bodies());
            let sent: BTreeSet<_> = times.keys().cloned().collect();
            prop_assert_eq!(&sent, &selected, "each selected one, and nothing else");
            let all = world.replay().kept().all().await.unwrap();
            prop_assert!(all.iter().all(|state| state.status == ReplayStatus::Done), "{:?}", all);
            let repeats = times.values().map(|times| times - 1).sum::<u64>();
            let counted: u64 = all.iter().map(|state| state.counts.repeated).sum();
            prop_assert!(repeats <= counted, "{} repeats, {} counted", repeats, counted);
            let most = crashed * MAX_BATCH_LETTERS;
            prop_assert!(counted <= most, "{} counted, of {} batches", counted, crashed);
            let booked: u64 = all.iter().map(|state| state.counts.sent).sum();
            prop_assert_eq!(booked, selected.len() as u64, "each letter is booked once");
            prop_assert_eq!(world.run(request).await.unwrap().counts.sent, 0, "nothing is left");
            Ok(())
        })?;
    }

    /// One operator replays letters unchanged, another replays the same letters edited. Whatever crashes, and
    /// whoever continues, no letter is sent in both forms.
    #[test]
    fn never_the_original_and_the_edited_letter(
        plan in plans(),
        edited in prop::collection::btree_set(0..30_u8, 1..15),
        turns in prop::collection::vec((any::<bool>(), 0..70_usize, any::<bool>()), 1..6),
    ) {
        block_on(async {
            let (world, selected, request) = set_up(&plan);
            let edited: Vec<InputRecord> = edited.iter().map(|letter| {
                let mut record = record_at(&post(*letter), NOW);
                record.message.body = format!("{letter} edited");
                Ok((record, true))
            }).collect();
            let sources = [ReplaySource::Archive, ReplaySource::Input(edited)];
            let mut given = json!({ "ramp": plan.ramp, "settleSeconds": 0, "rate": MAX_BATCH_LETTERS });
            given["select"] = json!({});
            let requests = [request, given];
            let ends = [(false, NO_CRASH), (true, NO_CRASH)];
            let turns = turns.iter().map(|(given, nth, taken)| (*given, (*nth, *taken)));
            for (given, crash) in turns.chain(ends) {
                let which = usize::from(given);
                let ended = turn(&world, &requests[which], &sources[which], crash).await;
                if crash == NO_CRASH {
                    prop_assert_eq!(ended.map(|state| state.status), Some(ReplayStatus::Done));
                }
            }
            let bodies: BTreeSet<_> = world.bodies().into_iter().collect();
            for body in &selected {
                let forms = [body.clone(), format!("{body} edited")];
                let went = forms.iter().filter(|form| bodies.contains(*form)).count();
                prop_assert_eq!(went, 1, "{} went out in {} forms", body, went);
            }
            prop_assert_eq!(bodies.len(), selected.len(), "and nothing else");
            Ok(())
        })?;
    }
}

/// This holds for any size of a unit, and any rate.
#[test]
fn a_crash_repeats_no_more_than_a_batch() {
    for (world, most, letter) in [
        (ArchiveWorld::new(), 1000, plain as fn(&str) -> RecordBuilder),
        (ArchiveWorld::fifo(), 100, |id| plain(id).queue(FIFO_DLQ).group(&id[id.len() - 1..])),
    ] {
        block_on(async {
            let posts: Vec<_> = (0..2500).map(|id| letter(&id.to_string())).collect();
            let key = object("a").replace("payments-dlq", posts[0].queue.rsplit(':').next().unwrap());
            world.put(&key, &posts.iter().map(line).collect::<String>(), NOW);
            let request = json!({ "ramp": [100] });
            let run = async |replay: ArchiveReplayer| {
                replay
                    .run(&begins(&wish(request)), &ReplaySource::Archive, None, &TestObserver::default())
                    .await
            };
            // The crash is in the middle of the second batch.
            let is_send = |call: &SimCall| call.operation == "SendMessageBatch";
            let crashed = world.crash(is_send, most * 3 / 20, true, run).await;
            assert!(crashed.is_none());
            let before = world.sent().len();
            assert!(before > most && before < 2 * most, "{before}");
            let id = world.replay().kept().all().await.unwrap()[0].id.clone();
            let done = world.resume(&id).await.unwrap();
            let repeated = usize::try_from(done.counts.repeated).unwrap();
            assert_eq!((done.status, done.counts.sent), (ReplayStatus::Done, 2500));
            assert!(repeated > 0 && repeated <= most, "{repeated}");
            assert!(world.sent().len() <= 2500 + most);
            let all: BTreeSet<_> = world.bodies().into_iter().collect();
            assert_eq!(all.len(), 2500);
        });
    }
}

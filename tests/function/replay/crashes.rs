//! Whatever breaks off, and whoever goes on.

use super::*;

/// A world of the property: what lies in the archive, and what goes wrong.
#[derive(Debug, Clone)]
struct Plan {
    /// The letters of each object, by number; one number twice is a double.
    objects: Vec<Vec<u8>>,
    ramp: Vec<u32>,
    /// Each time the replay begins or goes on, its worker dies at this request, which may have been taken.
    crashes: Vec<(usize, bool)>,
    /// Another replay of the same letters runs in between.
    others: bool,
}

fn plans() -> impl Strategy<Value = Plan> {
    let objects = prop::collection::vec(prop::collection::vec(0..40_u8, 0..12), 0..8);
    let ramp = prop::collection::btree_set(1..100_u32, 0..4);
    let crashes = prop::collection::vec((0..70_usize, any::<bool>()), 0..5);
    (objects, ramp, crashes, any::<bool>()).prop_map(|(objects, ramp, crashes, others)| Plan {
        objects,
        ramp: ramp.into_iter().chain([100]).collect(),
        crashes,
        others,
    })
}

/// Letters with these numbers lie in the archive and are none of the selection, or cannot be put back.
fn post(number: u8) -> Post {
    match number {
        30..=34 => Post::envelope(&number.to_string()),
        35..=39 => plain(&number.to_string()).queue(FIFO_DLQ),
        _ => plain(&number.to_string()),
    }
}

fn set_up(plan: &Plan) -> (World, BTreeSet<String>, Value) {
    let world = World::new();
    for (number, letters) in plan.objects.iter().enumerate() {
        let posts: Vec<_> = letters.iter().map(|letter| post(*letter)).collect();
        world.archive(&format!("object-{number}"), &posts);
    }
    let selected = plan.objects.iter().flatten().filter(|letter| **letter < 30);
    let request = json!({ "select": { "origins": ["raw"] }, "ramp": plan.ramp, "settleSeconds": 0 });
    (world, selected.map(ToString::to_string).collect(), request)
}

fn times(bodies: Vec<String>) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for body in bodies {
        *times.entry(body).or_default() += 1;
    }
    times
}

/// Begins the latest replay, or goes on with it, up to a crash; whether it came to the end.
async fn turn(world: &World, request: &Value, source: &Source, crash: (usize, bool)) -> bool {
    let unfinished = world.replay().kept().unfinished(&wish(request.clone()), source).await.unwrap();
    let id = unfinished.first().map(|state| state.id.clone());
    let run = async |replay: Replay| {
        let operator = Operator::default();
        match &id {
            Some(id) => replay.resume(&resume(id), source, None, &operator).await,
            None => replay.begin(&wish(request.clone()), source, None, &operator).await,
        }
    };
    let ended = world.crash(|_| true, crash.0, crash.1, run).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    ended.is_some()
}

/// No crash: the request is never reached.
const NONE: (usize, bool) = (usize::MAX, false);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_letter_is_sent_whatever_crashes_and_repeats_are_counted(plan in plans()) {
        block_on(async {
            let (world, selected, request) = set_up(&plan);
            let source = Source::Archive;
            for crash in &plan.crashes {
                turn(&world, &request, &source, *crash).await;
                if plan.others {
                    world.run(request.clone()).await.unwrap();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            // Whoever goes on with all that is not at its end.
            for _ in 0..=plan.crashes.len() {
                prop_assert!(turn(&world, &request, &source, NONE).await);
            }
            let times = times(world.bodies());
            let sent: BTreeSet<_> = times.keys().cloned().collect();
            prop_assert_eq!(&sent, &selected, "each selected one, and nothing else");
            let all = world.replay().kept().all().await.unwrap();
            prop_assert!(all.iter().all(|state| state.status == Status::Done), "{:?}", all);
            let repeats = times.values().map(|times| times - 1).sum::<u64>();
            let counted: u64 = all.iter().map(|state| state.counts.repeated).sum();
            prop_assert!(repeats <= counted, "{} repeats, {} counted", repeats, counted);
            let booked: u64 = all.iter().map(|state| state.counts.sent).sum();
            prop_assert_eq!(booked, selected.len() as u64, "each letter is booked once");
            prop_assert_eq!(world.run(request).await.unwrap().counts.sent, 0, "nothing is left");
            Ok(())
        })?;
    }

    /// One operator replays letters as they were, another the same letters edited. Whatever breaks off, and
    /// whoever goes on, no letter goes out in both forms.
    #[test]
    fn never_the_original_and_the_edited_letter(
        plan in plans(),
        edited in prop::collection::btree_set(0..30_u8, 1..15),
        turns in prop::collection::vec((any::<bool>(), 0..70_usize, any::<bool>()), 1..6),
    ) {
        block_on(async {
            let (world, _, request) = set_up(&plan);
            let edited: Vec<Input> = edited.iter().map(|letter| {
                let mut record = record_at(&post(*letter), NOW);
                record.message.body = format!("{letter} edited");
                Ok((record, true))
            }).collect();
            let sources = [Source::Archive, Source::Input(edited)];
            let mut given = json!({ "ramp": plan.ramp, "settleSeconds": 0 });
            given["select"] = json!({});
            let requests = [request, given];
            let ends = [(false, NONE), (true, NONE)];
            let turns = turns.iter().map(|(given, nth, taken)| (*given, (*nth, *taken)));
            for (given, crash) in turns.chain(ends) {
                let which = usize::from(given);
                turn(&world, &requests[which], &sources[which], crash).await;
            }
            let bodies: BTreeSet<_> = world.bodies().into_iter().collect();
            for body in &bodies {
                let both = bodies.contains(&format!("{body} edited"));
                prop_assert!(!both, "{} went out in both forms", body);
            }
            Ok(())
        })?;
    }
}

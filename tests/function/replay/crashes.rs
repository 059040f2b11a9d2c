use super::*;

#[tokio::test]
async fn a_batch_that_was_cut_off_goes_again_and_is_counted_as_repeated() {
    let console = Console::with_letters(30);
    // Steps of 3 and 27 letters. SQS takes the first request of the second step; then all is dark.
    let request = json!({ "ramp": [10, 100], "settleSeconds": 0 });
    let nth = calls_until(&request, 30, "SendMessageBatch", 2).await;
    assert!(console.crash(nth, true, request.clone(), &Source::Archive).await);
    assert_eq!(console.sent().len(), 3 + 10);
    let done = console.run(request).await.unwrap();
    assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 30, 27));
    assert_eq!(console.sent().len(), 30 + 10);
}

/// How many calls a replay of so many letters makes before the `nth` one of an operation.
async fn calls_until(request: &Value, letters: usize, op: &str, nth: usize) -> usize {
    let console = Console::with_letters(letters);
    console.run(request.clone()).await.unwrap();
    let journal = console.cloud.journal();
    let mut places = journal.iter().enumerate().filter(|(_, call)| call.operation == op);
    places.nth(nth - 1).unwrap().0
}

#[tokio::test]
async fn what_a_replay_may_have_sent_is_left_alone_by_another_until_that_one_went_on() {
    let console = Console::with_letters(5);
    let request = json!({ "ramp": [100] });
    let nth = calls_until(&request, 5, "SendMessageBatch", 1).await;
    assert!(console.crash(nth, true, request.clone(), &Source::Archive).await);
    let other = json!({ "select": { "queue": "orders-dlq" }, "ramp": [100] });
    let operator = console.operator();
    let done = console.run_by(&operator, other.clone()).await.unwrap();
    assert_eq!((done.sent, done.counts.not_replayable["inDoubt"]), (0, 5));
    let told = "dead-letters/queue=orders-dlq/date=2026-11-01/a.jsonl:1 may have been sent by a replay that \
                was cut off: go on with that one first, or replay it again";
    assert_eq!(operator.left_out.into_inner().unwrap()[0], told);
    let done = console.run(request).await.unwrap();
    assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 5, 5));
    console.pass(1);
    let done = console.run(other).await.unwrap();
    assert_eq!((done.sent, done.counts.already_replayed), (0, 5));
}

/// A world of the property: what lies in the archive, and what goes wrong.
#[derive(Debug, Clone)]
struct Plan {
    /// The letters of each object, by number; one number twice is a double.
    objects: Vec<Vec<u8>>,
    ramp: Vec<u32>,
    /// Each time the replay begins it goes dark at this call, which may have been taken.
    crashes: Vec<(usize, bool)>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let objects = prop::collection::vec(prop::collection::vec(0..40_u8, 0..8), 0..6);
    let ramp = prop::collection::btree_set(1..100_u32, 0..6);
    let crashes = prop::collection::vec((0..90_usize, any::<bool>()), 0..5);
    (objects, ramp, crashes).prop_map(|(objects, ramp, crashes)| Plan {
        objects,
        ramp: ramp.into_iter().chain([100]).collect(),
        crashes,
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

fn set_up(plan: &Plan) -> (Console, BTreeSet<String>, Value) {
    let console = Console::new();
    for (number, letters) in plan.objects.iter().enumerate() {
        let posts: Vec<_> = letters.iter().map(|letter| post(*letter)).collect();
        console.archive(&format!("object-{number}"), &posts);
    }
    let selected = plan.objects.iter().flatten().filter(|letter| **letter < 30);
    let request = json!({ "select": { "origins": ["raw"] }, "ramp": plan.ramp, "settleSeconds": 0 });
    (console, selected.map(ToString::to_string).collect(), request)
}

fn times(bodies: Vec<String>) -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for body in bodies {
        *times.entry(body).or_default() += 1;
    }
    times
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_letter_is_sent_whatever_crashes_and_repeats_are_counted_and_within_a_batch_each(plan in plans()) {
        block_on(async {
            let (console, selected, request) = set_up(&plan);
            let mut crashed = 0;
            for (nth, taken) in &plan.crashes {
                crashed += u64::from(console.crash(*nth, *taken, request.clone(), &Source::Archive).await);
                console.pass(1);
            }
            let done = console.run(request.clone()).await.unwrap();
            let times = times(console.bodies());
            let sent: BTreeSet<_> = times.keys().cloned().collect();
            prop_assert_eq!(done.status, Status::Done);
            prop_assert_eq!(&sent, &selected, "each selected one, and nothing else");
            let repeats = times.values().map(|times| times - 1).sum::<u64>();
            // A crash may have come after the end, and then another replay has begun.
            let manifests = console.kept("manifest.json").into_iter();
            let manifests = manifests.map(|(_, text)| serde_json::from_str::<Manifest>(&text).unwrap());
            let counted: u64 = manifests.map(|manifest| manifest.repeated).sum();
            prop_assert!(repeats <= counted, "{} repeats, {} counted", repeats, counted);
            let largest = largest_batch(&plan.ramp, selected.len() as u64);
            prop_assert!(counted <= largest * crashed, "{} in {} crashes", counted, crashed);
            console.pass(1);
            prop_assert_eq!(console.run(request).await.unwrap().sent, 0, "nothing is left");
            Ok(())
        })?;
    }

    /// One operator replays letters as they were, another the same letters edited. Whatever breaks off, and
    /// whoever goes on, no letter goes out in both forms.
    #[test]
    fn never_the_original_and_the_edited_letter(
        plan in plans(),
        edited in prop::collection::btree_set(0..30_u8, 1..15),
        turns in prop::collection::vec((any::<bool>(), 0..9_usize, any::<bool>()), 1..6),
    ) {
        block_on(async {
            let (console, _, request) = set_up(&plan);
            let edited: Vec<Input> = edited.iter().map(|letter| {
                let mut record = record_at(&post(*letter), NOW);
                record.message.body = format!("{letter} edited");
                Ok((record, true))
            }).collect();
            let sources = [Source::Archive, Source::Input(edited)];
            let requests = [request, json!({ "ramp": plan.ramp, "settleSeconds": 0 })];
            let ends = [(false, 1000, false), (true, 1000, false)];
            for (given, nth, taken) in turns.iter().chain(&ends) {
                let which = usize::from(*given);
                // Two out of three calls that count write a ledger, the others send.
                let counts = |call: &support::Call| {
                    let ledger = call.operation == "PutObject" && call.target.contains("/batches/");
                    ledger || call.operation == "SendMessageBatch"
                };
                let (request, source) = (requests[which].clone(), &sources[which]);
                console.crash_among(counts, *nth, *taken, request, source).await;
                console.pass(1);
            }
            let bodies: BTreeSet<_> = console.bodies().into_iter().collect();
            for body in &bodies {
                let both = bodies.contains(&format!("{body} edited"));
                prop_assert!(!both, "{} went out in both forms", body);
            }
            Ok(())
        })?;
    }
}

fn largest_batch(ramp: &[u32], selected: u64) -> u64 {
    let ends = ramp.iter().map(|percent| (selected * u64::from(*percent)).div_ceil(100));
    let mut before = 0;
    ends.map(|end| end - std::mem::replace(&mut before, end)).max().unwrap_or(0)
}

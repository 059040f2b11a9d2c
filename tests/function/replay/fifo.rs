use super::*;

fn post(id: &str, group: &str) -> RecordBuilder {
    plain(id).queue(FIFO_DLQ).group(group)
}

fn fifo_object(minute: usize) -> String {
    format!("{ARCHIVE}/queue=payments-dlq.fifo/date=2026-11-01/20261101T12{minute:02}00Z-r.jsonl")
}

fn of_group(world: &ArchiveWorld, group: &str) -> Vec<String> {
    let sent = world.sent().into_iter().filter(|entry| entry.group.as_deref() == Some(group));
    sent.map(|entry| entry.body.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn letters_of_a_group_go_one_after_the_other_by_time_over_all_units() {
    let world = ArchiveWorld::fifo();
    // The objects are of three hours and several units, and some letters are from the requeue.
    for object in 0..30 {
        let (hour, minute) = (9 + object / 10, object % 10);
        let key = format!(
            "{ARCHIVE}/queue=payments-dlq.fifo/date=2026-11-01/20261101T{hour:02}{minute:02}00Z-r.jsonl"
        );
        let mark = json!({ "v": 2, "spent": 3, "id": object.to_string(), "first": 7, "gen": 0, "passes": 1, "dlq": FIFO_DLQ });
        let posts = (0..100).map(|n| {
            let post = post(&(object * 100 + n).to_string(), &format!("g{}", n % 3));
            if object % 2 == 0 { post } else { post.queue(FIFO_REQUEUE).sqs_mark(&mark) }
        });
        world.put(&key, &posts.map(|post| line(&post)).collect::<String>(), NOW);
    }
    // The later a request begins, the sooner it is answered. Sent at the same time, they would overtake each
    // other.
    let calls = AtomicUsize::new(0);
    world.faults(move |_| {
        let before = calls.fetch_add(1, Ordering::Relaxed) as u64 % 20;
        SimFault::Pass.after(Duration::from_millis(20 - before))
    });
    let done = world.run(json!({ "ramp": [20, 60, 100], "settleSeconds": 0 })).await.unwrap();
    assert_eq!(done.counts.sent, 3000);
    for group in 0..3 {
        let expected: Vec<_> = (0..3000).filter(|n| n % 100 % 3 == group).map(|n| n.to_string()).collect();
        assert_eq!(of_group(&world, &format!("g{group}")), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_not_taken_holds_its_group_and_no_other() {
    let world = ArchiveWorld::fifo();
    let posts = [post("a0", "a"), post("b0", "b"), post("a1", "a"), post("b1", "b"), post("a2", "a")];
    world.put(&fifo_object(0), &posts.iter().map(line).collect::<String>(), NOW);
    let calls = AtomicUsize::new(0);
    world.faults(move |call| {
        let first = call.operation == "SendMessageBatch" && calls.fetch_add(1, Ordering::Relaxed) == 0;
        let throttled = redrive_sim::EntryFault::service("RequestThrottled", "slow");
        let entries = call.entries.iter().position(|entry| entry.body == "a0");
        if first { SimFault::Entries(vec![(entries.unwrap(), throttled)]) } else { SimFault::Pass }
    });
    let done = world.run(json!({ "ramp": [100] })).await.unwrap();
    assert_eq!((done.status, done.counts.sent, done.counts.repeated), (ReplayStatus::Done, 5, 0));
    assert_eq!(of_group(&world, "a"), ["a0", "a1", "a2"]);
    assert_eq!(of_group(&world, "b"), ["b0", "b1"]);
}

/// SQS drops a repeated deduplication id for five minutes.
#[tokio::test(start_paused = true)]
async fn what_a_crash_repeats_is_swallowed_and_nothing_else_is() {
    let world = ArchiveWorld::fifo();
    // A message was published again and failed at two subscribers, so there are two letters with one id.
    let mark = json!({ "v": 2, "spent": 1, "id": "both/of-them", "first": NOW, "gen": 0 });
    let posts = [post("a", "g").sqs_mark(&mark), post("b", "g").sqs_mark(&mark)];
    world.put(&fifo_object(0), &posts.iter().map(line).collect::<String>(), NOW);
    let request = json!({ "ramp": [100] });
    let writes = AtomicUsize::new(0);
    world.faults(move |call| {
        let ledger = call.operation == "PutObject" && call.target.ends_with("000000.json");
        let after = ledger && writes.fetch_add(1, Ordering::Relaxed) > 0;
        if after { SimFault::Unavailable } else { SimFault::Pass }
    });
    world.run(request.clone()).await.unwrap_err();
    assert_eq!(world.bodies(), ["a", "b"]);
    world.no_faults();
    let id = world.replay().kept().all().await.unwrap()[0].id.clone();
    let done = world.resume(&id).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.repeated), (2, 2));
    assert_eq!(world.bodies(), ["a", "b"], "the same replay");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.run(json!({ "ramp": [100], "again": true })).await.unwrap();
    assert_eq!(world.bodies(), ["a", "b", "a", "b"], "another replay");
}

/// Archives so many letters in objects of a hundred, two objects an hour, in three groups.
fn many(world: &ArchiveWorld, count: usize) {
    for object in 0..count / 100 {
        let (hour, minute) = (9 + object / 2, object % 2);
        let key = format!(
            "{ARCHIVE}/queue=payments-dlq.fifo/date=2026-11-01/20261101T{hour:02}{minute:02}00.000Z-r.2-n100-r0.jsonl"
        );
        let posts = (object * 100..object * 100 + 100).map(|n| post(&n.to_string(), &format!("g{}", n % 3)));
        world.put(&key, &posts.map(|post| line(&post)).collect::<String>(), NOW);
    }
}

fn is_in_order(world: &ArchiveWorld) -> bool {
    let is_rising = |group| {
        let numbers: Vec<usize> = of_group(world, group).iter().map(|body| body.parse().unwrap()).collect();
        numbers.is_sorted_by(|one, other| one < other)
    };
    ["g0", "g1", "g2"].into_iter().all(is_rising)
}

/// Neither begins a unit that the other is working on, and both take the units in one order.
#[tokio::test(start_paused = true)]
async fn two_replays_of_the_same_letters_at_once_keep_the_order() {
    for slow in 0..3 {
        let world = ArchiveWorld::fifo();
        many(&world, 600);
        let calls = AtomicUsize::new(slow);
        world.faults(move |_| {
            let number = calls.fetch_add(1, Ordering::Relaxed) as u64;
            SimFault::Pass.after(Duration::from_millis(number * (slow as u64 + 3) % 37))
        });
        let request = |ramp: Value| json!({ "ramp": ramp, "settleSeconds": 3 });
        let (one, other) = (TestObserver::default(), TestObserver::default());
        let later = async {
            tokio::time::sleep(Duration::from_millis(200 * slow as u64)).await;
            world.run_by(&other, request(json!([5, 100]))).await
        };
        let (one, other) = tokio::join!(world.run_by(&one, request(json!([20, 60, 100]))), later);
        let (one, other) = (one.unwrap().counts, other.unwrap().counts);
        assert_eq!(one.sent + other.sent, 600, "{one:?} {other:?}");
        assert_eq!(world.sent().len(), 600);
        assert!(is_in_order(&world), "{slow}");
    }
}

/// Every name begins with the time, also one without an index.
#[tokio::test(start_paused = true)]
async fn a_group_goes_by_time_whether_or_not_its_objects_have_an_index() {
    let world = ArchiveWorld::fifo();
    for (number, name) in [
        "20261101T105900Z-r.jsonl",
        "20261101T110000Z-a.jsonl",
        "20261101T110001.000Z-r.2-n1-r0.jsonl",
        "20261101T110001.500Z-a.2-n1-r0.jsonl",
        "20261101T60000Z-r.jsonl",
        "20261101T60001.000Z-r.2-n1-r0.jsonl",
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("{ARCHIVE}/queue=payments-dlq.fifo/date=2026-11-01/{name}");
        world.put(&key, &line(&post(&number.to_string(), "g0")), NOW);
    }
    world.run(json!({ "ramp": [20, 100], "settleSeconds": 0 })).await.unwrap();
    assert_eq!(of_group(&world, "g0"), numbers(0..6));
}

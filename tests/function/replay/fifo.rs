use super::*;

fn post(id: &str, group: &str) -> Post {
    plain(id).queue(FIFO_DLQ).group(group)
}

fn of_group(console: &Console, group: &str) -> Vec<String> {
    let sent = console.sent().into_iter().filter(|entry| entry.group.as_deref() == Some(group));
    sent.map(|entry| entry.body).collect()
}

#[tokio::test]
async fn letters_of_a_group_go_one_after_the_other_and_groups_together() {
    let console = Console::fifo();
    let posts: Vec<_> = (0..45).map(|n| post(&n.to_string(), &format!("g{}", n % 3))).collect();
    console.archive("a", &posts);
    // The later a request begins, the sooner it is answered: together they would overtake each other.
    let calls = AtomicUsize::new(0);
    console.cloud.script(move |call| match call.operation.as_str() {
        "SendMessageBatch" => {
            let before = u64::try_from(calls.fetch_add(1, Ordering::Relaxed)).unwrap();
            Fault::Pass.after(Duration::from_millis(20_u64.saturating_sub(before * 2)))
        }
        _ => Fault::Pass,
    });
    console.run(json!({ "ramp": [100] })).await.unwrap();
    for group in 0..3 {
        let expected: Vec<_> = (0..15).map(|n| (n * 3 + group).to_string()).collect();
        assert_eq!(of_group(&console, &format!("g{group}")), expected);
    }
    for call in console.cloud.calls("SendMessageBatch") {
        let groups: BTreeSet<_> = call.entries.iter().map(|entry| entry.group.clone()).collect();
        assert_eq!((groups.len(), call.entries.len()), (3, 3), "one letter of a group at a time");
    }
    assert_eq!(console.cloud.peak(), 1);
}

#[tokio::test]
async fn a_letter_that_is_not_taken_holds_its_group_and_no_other() {
    let console = Console::fifo();
    console
        .archive("a", &[post("a0", "a"), post("b0", "b"), post("a1", "a"), post("b1", "b"), post("a2", "a")]);
    let calls = AtomicUsize::new(0);
    console.cloud.script(move |call| {
        let first = call.operation == "SendMessageBatch" && calls.fetch_add(1, Ordering::Relaxed) == 0;
        let throttled = EntryFault::service("RequestThrottled", "slow");
        if first { Fault::except(call, "a0", throttled) } else { Fault::Pass }
    });
    let done = console.run(json!({ "ramp": [100] })).await.unwrap();
    assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 5, 0));
    assert_eq!(of_group(&console, "a"), ["a0", "a1", "a2"]);
    assert_eq!(of_group(&console, "b"), ["b0", "b1"]);
}

/// SQS swallows a deduplication id for five minutes.
#[tokio::test]
async fn what_a_crash_repeats_is_swallowed_and_nothing_else_is() {
    let console = Console::fifo();
    // A message that was published again, at two subscribers: two letters of one id.
    let mark = json!({ "v": 1, "spent": 1, "id": "both/of-them", "first": NOW, "gen": 0 });
    console.archive("a", &[post("a", "g").sqs_mark(&mark), post("b", "g").sqs_mark(&mark)]);
    let ids = |console: &Console| -> Vec<_> {
        let asked = console.cloud.entries("SendMessageBatch").into_iter();
        asked.map(|entry| entry.deduplication.unwrap()).collect()
    };
    let request = json!({ "ramp": [100] });
    let ledgers = AtomicUsize::new(0);
    console.cloud.script(move |call| {
        let after = call.target.ends_with("00000001.jsonl") && ledgers.fetch_add(1, Ordering::Relaxed) > 0;
        if after { Fault::refuse(503, "SlowDown", "slow") } else { Fault::Pass }
    });
    console.run(request.clone()).await.unwrap_err();
    let first = ids(&console);
    assert_eq!(first.len(), 2);
    assert_ne!(first[0], first[1]);
    console.cloud.script(|_| Fault::Pass);
    console.cloud.forget();
    console.run(request).await.unwrap();
    assert_eq!(ids(&console), first, "the same replay");
    assert_eq!(console.sent(), [], "SQS took neither a second time");
    console.cloud.forget();
    console.pass(1);
    console.run(json!({ "ramp": [100], "again": true })).await.unwrap();
    let second = ids(&console);
    assert_eq!((second.len(), console.sent().len()), (2, 2));
    assert!(second.iter().all(|id| !first.contains(id)), "another replay");
}

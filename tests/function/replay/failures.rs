use super::*;

fn failing(console: &Console, body: &'static str, disposition: EntryFault, times: usize) {
    let calls = AtomicUsize::new(0);
    console.cloud.script(move |call| {
        let with =
            call.operation == "SendMessageBatch" && call.entries.iter().any(|entry| entry.body == body);
        let fails = with && calls.fetch_add(1, Ordering::Relaxed) < times;
        if fails { Fault::except(call, body, disposition.clone()) } else { Fault::Pass }
    });
}

#[tokio::test]
async fn a_letter_that_is_not_taken_goes_again_with_the_next_batch() {
    let console = Console::with_letters(5);
    failing(&console, "2", EntryFault::service("RequestThrottled", "slow"), 1);
    let done = console.run(json!({})).await.unwrap();
    assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 5, 0));
    let mut bodies = console.bodies();
    bodies.sort_unstable();
    assert_eq!(bodies, numbers(0..5));
}

#[tokio::test]
async fn a_letter_that_may_have_been_taken_is_counted_as_repeated() {
    let console = Console::with_letters(5);
    failing(&console, "2", EntryFault::Missing, 1);
    let done = console.run(json!({})).await.unwrap();
    assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 5, 1));
}

#[tokio::test]
async fn a_letter_that_sqs_refuses_does_not_stop_the_others_and_is_left_to_another_replay() {
    let console = Console::with_letters(200);
    let bad = EntryFault::sender("InvalidMessageContents", "no");
    failing(&console, "150", bad, usize::MAX);
    let operator = Operator { stop_at: Some(199), ..console.operator() };
    let request = json!({ "ramp": [100] });
    let paused = console.run_by(&operator, request.clone()).await.unwrap();
    assert_eq!((paused.status, paused.sent, paused.refused), (Status::Running, 199, 1));
    let told =
        "dead-letters/queue=orders-dlq/date=2026-11-01/a.jsonl:151 refused by SQS: InvalidMessageContents";
    assert_eq!(operator.left_out.into_inner().unwrap(), [told]);
    console.cloud.script(|_| Fault::Pass);
    let done = console.run(request.clone()).await.unwrap();
    assert_eq!((done.status, done.sent, done.refused), (Status::Done, 199, 1), "not tried again");
    console.pass(1);
    assert_eq!(console.run(request).await.unwrap().sent, 1, "the cause may have been mended");
}

/// A step of refused letters does not swallow the whole selection.
#[tokio::test]
async fn refused_letters_count_as_failed_in_their_step() {
    let console = Console::with_letters(100);
    console.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => Fault::Entries(
            (0..call.entries.len())
                .map(|entry| (entry, EntryFault::sender("InvalidMessageContents", "no")))
                .collect(),
        ),
        _ => Fault::Pass,
    });
    let stopped = console.run(json!({})).await.unwrap();
    assert_eq!((stopped.status, stopped.sent, stopped.refused), (Status::Stopped, 0, 1));
    let why = "of 1 letters of step 1: 1 refused by SQS, 0 back in the archive, 0 more than before wait in the queues";
    assert_eq!(stopped.why.as_deref(), Some(why));
}

#[tokio::test]
async fn a_requeue_that_takes_nothing_stops_the_replay_after_three_tries() {
    let console = Console::with_letters(5);
    console.cloud.reply("SendMessageBatch", Fault::refuse(403, "AccessDenied", "no"));
    let stopped = console.run(json!({})).await.unwrap();
    assert_eq!((stopped.status, stopped.sent, stopped.repeated), (Status::Stopped, 0, 0));
    let why = "the requeue does not take letters: AccessDenied (action_required)";
    assert_eq!(stopped.why.as_deref(), Some(why));
    assert_eq!(console.cloud.calls("SendMessageBatch").len(), 3);
    console.cloud.script(|_| Fault::Pass);
    let done = console.run(json!({ "resume": true })).await.unwrap();
    assert_eq!((done.status, done.sent), (Status::Done, 5));
    assert_eq!(console.bodies(), numbers(0..5));
}

/// What was there when the replay began and cannot be seen now is not done.
#[tokio::test]
async fn an_archive_that_cannot_be_read_any_more_does_not_end_the_replay() {
    let console = Console::with_letters(5);
    console.archive("b", &[plain("6")]);
    let reads = AtomicUsize::new(0);
    console.cloud.script(move |call| {
        let again = call.target.ends_with("/b.jsonl") && reads.fetch_add(1, Ordering::Relaxed) > 0;
        if again { Fault::refuse(503, "SlowDown", "slow") } else { Fault::Pass }
    });
    let failed = console.run(json!({ "ramp": [100] })).await.unwrap_err();
    assert_eq!(failed.to_string(), "reading the archive failed: SlowDown (throttling)");
    console.cloud.script(|_| Fault::Pass);
    assert_eq!(console.run(json!({ "ramp": [100] })).await.unwrap().status, Status::Done);
    assert_eq!(console.bodies(), ["0", "1", "2", "3", "4", "6"]);
}

#[tokio::test]
async fn a_part_of_the_archive_that_was_unreadable_from_the_beginning_is_told_and_left_out() {
    let console = Console::with_letters(2);
    console.archive("b", &[plain("6")]);
    console.cloud.script(|call| {
        let denied = call.target.ends_with("/b.jsonl");
        if denied { Fault::refuse(403, "AccessDenied", "key") } else { Fault::Pass }
    });
    let operator = console.operator();
    let done = console.run_by(&operator, json!({})).await.unwrap();
    assert_eq!((done.status, done.sent, done.counts.unreadable), (Status::Done, 2, 1));
    let told = "dead-letters/queue=orders-dlq/date=2026-11-01/b.jsonl AccessDenied: key";
    assert_eq!(operator.left_out.into_inner().unwrap(), [told]);
}

/// Its letters would be sent once more.
#[tokio::test]
async fn nothing_is_sent_while_a_ledger_cannot_be_read() {
    let console = Console::with_letters(3);
    console.run(json!({})).await.unwrap();
    let (ledger, text) = console.kept("00000001.jsonl").remove(0);
    for broken in [&text[..text.len() / 2], "{}\n"] {
        console.cloud.put(&ledger, broken);
        console.pass(1);
        let failed = console.run(json!({})).await.unwrap_err().to_string();
        assert_eq!(failed, "reading the ledgers failed: LedgerUnreadable (action_required)");
    }
    console.cloud.put(&ledger, &text);
    console.cloud.script(|call| {
        let ledger = call.target.ends_with("00000001.jsonl") && call.operation == "GetObject";
        if ledger { Fault::refuse(503, "SlowDown", "slow") } else { Fault::Pass }
    });
    assert!(console.run(json!({})).await.is_err());
    assert_eq!(console.sent().len(), 3);
}

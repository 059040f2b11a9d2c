use super::*;

/// Letters come back to the archive as long as the replay settles.
fn coming_back(console: &Console, letters: &[&'static str]) {
    let (cloud, letters) = (console.cloud.clone(), letters.to_vec());
    let now = Arc::clone(&console.now);
    console.cloud.script(move |call| {
        if call.operation == "GetQueueAttributes" && call.target == "orders-requeue" {
            return Fault::Pass;
        }
        if call.operation == "SendMessageBatch" {
            for letter in letters.iter().filter(|id| call.entries.iter().any(|it| it.body == **id)) {
                let mark = json!({ "v": 1, "spent": 12, "id": letter, "first": START, "gen": 1, "dlq": DLQ });
                let post = Post::raw(&format!("back-{letter}"), letter).queue(REQUEUE).sqs_mark(&mark);
                let archived = now.load(Ordering::Relaxed) + 2000;
                let line = record_at(&post, archived).to_line().unwrap();
                let key = format!("queue=orders-requeue/date=2026-11-01/{letter}.jsonl");
                let stored = at(archived).to_string();
                cloud.put_at(&format!("graveyard/dead-letters/{key}"), &line, &stored);
            }
        }
        Fault::Pass
    });
}

#[tokio::test]
async fn the_selection_goes_out_step_by_step_with_time_to_settle_after_each() {
    let console = Console::with_letters(250);
    let operator = console.operator();
    let done = console.run_by(&operator, json!({ "settleSeconds": 120 })).await.unwrap();
    let settling: Vec<_> = operator
        .seen
        .into_inner()
        .unwrap()
        .into_iter()
        .filter(|(status, _)| *status == Status::Settling)
        .map(|(_, sent)| sent)
        .collect();
    assert_eq!(settling, [3, 13, 50]);
    assert_eq!((done.status, done.sent, done.repeated), (Status::Done, 250, 0));
    assert_eq!(console.now.load(Ordering::Relaxed), START + 3 * 120_000);
    assert_eq!(console.bodies(), numbers(0..250));
}

#[tokio::test]
async fn a_selection_of_none_and_of_one_are_done_at_once() {
    for letters in [0, 1] {
        let console = Console::with_letters(letters);
        let done = console.run(json!({})).await.unwrap();
        assert_eq!((done.status, done.sent), (Status::Done, letters as u64));
        assert_eq!(console.now.load(Ordering::Relaxed), START, "nothing to wait for");
    }
}

#[tokio::test]
async fn it_stops_when_more_than_the_threshold_of_a_step_comes_back_to_the_archive() {
    // Steps of 10, 40 and 50 letters.
    let request = json!({ "ramp": [10, 50, 100], "threshold": 10 });
    let console = Console::with_letters(100);
    coming_back(&console, &["0", "10", "11", "12", "13"]);
    let stopped = console.run(request.clone()).await.unwrap();
    assert_eq!((stopped.status, stopped.sent), (Status::Done, 100), "10 per cent of each step may");

    let console = Console::with_letters(100);
    coming_back(&console, &["0", "10", "11", "12", "13", "14"]);
    let stopped = console.run(request.clone()).await.unwrap();
    assert_eq!((stopped.status, stopped.sent), (Status::Stopped, 50));
    let why = "of 40 letters of step 2: 0 refused by SQS, 5 back in the archive, 0 more than before wait in the queues";
    assert_eq!(stopped.why.as_deref(), Some(why));

    let refused = console.run(request.clone()).await.unwrap_err();
    assert_eq!(refused, ReplayError::Stopped { id: stopped.id.clone(), why: why.to_owned() });
    assert_eq!(console.sent().len(), 50);
    let resumed = json!({ "ramp": [10, 50, 100], "threshold": 10, "resume": true });
    let done = console.run(resumed).await.unwrap();
    assert_eq!((done.status, done.sent, &done.id), (Status::Done, 100, &stopped.id));
    assert_eq!(console.bodies(), numbers(0..100), "those that came back are for another replay");
}

/// In the requeue, or back in the dead-letter queue that they came from: SNS puts a letter there at once that
/// was republished to a topic and fails again.
#[tokio::test]
async fn it_stops_when_letters_of_a_step_still_wait_in_the_requeue_or_are_dead_letters_again() {
    for queue in ["orders-requeue", "orders-dlq"] {
        let console = Console::with_letters(100);
        let waiting = |number: u64| {
            let (visible, hidden, delayed) = (number / 2, number - number / 2 - 1, 1);
            console.cloud.queue(
                queue,
                &[
                    ("ApproximateNumberOfMessages", &visible.to_string()),
                    ("ApproximateNumberOfMessagesNotVisible", &hidden.to_string()),
                    ("ApproximateNumberOfMessagesDelayed", &delayed.to_string()),
                ],
            );
        };
        waiting(50);
        let operator = Operator { stop_at: Some(10), ..console.operator() };
        let request = json!({ "ramp": [10, 100] });
        assert_eq!(console.run_by(&operator, request.clone()).await.unwrap().sent, 10);
        waiting(52);
        console.pass(60);
        let stopped = console.run(request).await.unwrap();
        let why = "of 10 letters of step 1: 0 refused by SQS, 0 back in the archive, 2 more than before wait in the queues";
        assert_eq!((stopped.status, stopped.why.as_deref()), (Status::Stopped, Some(why)), "{queue}");
        let done = console.run(json!({ "ramp": [10, 100], "resume": true })).await.unwrap();
        assert_eq!((done.status, done.sent), (Status::Done, 100));
    }
}

/// Then nobody can say whether letters fall back into it, and the operator hears of that.
#[tokio::test]
async fn a_dead_letter_queue_that_cannot_be_read_is_told_and_not_judged_by() {
    let console = Console::with_letters(100);
    console.cloud.script(|call| match (call.operation.as_str(), call.target.as_str()) {
        ("GetQueueAttributes", "orders-dlq") => Fault::refuse(403, "AccessDenied", "no"),
        _ => Fault::Pass,
    });
    let operator = Operator { stop_at: Some(10), ..console.operator() };
    let begun = console.run_by(&operator, json!({ "ramp": [10, 100] })).await.unwrap();
    assert_eq!((begun.sent, begun.queues), (10, vec![]));
    let told = operator.left_out.lock().unwrap().clone();
    assert_eq!(told, [format!("{DLQ} cannot be read, so no step is judged by it: AccessDenied")]);
}

/// Else a replay that cannot see what came back would go on.
#[tokio::test]
async fn it_does_not_go_on_when_the_archive_cannot_be_listed_for_the_judgement() {
    let console = Console::with_letters(100);
    let lists = AtomicUsize::new(0);
    console.cloud.script(move |call| {
        let archive = call.operation == "ListObjectsV2" && call.target.contains("queue=");
        let judging = archive && lists.fetch_add(1, Ordering::Relaxed) >= 4;
        if judging { Fault::refuse(503, "SlowDown", "slow") } else { Fault::Pass }
    });
    let failed = console.run(json!({})).await.unwrap_err().to_string();
    assert_eq!(failed, "listing the archive failed: SlowDown (throttling)");
    assert_eq!(console.sent().len(), 1);
    console.cloud.script(|_| Fault::Pass);
    assert_eq!(console.run(json!({})).await.unwrap().sent, 100);
}

/// What settling or a slow archive cost is not made up for afterwards.
#[tokio::test]
async fn no_more_letters_a_second_than_the_rate_also_after_a_pause() {
    let console = Console::with_letters(24);
    let moments = Arc::new(Mutex::new(Vec::new()));
    let (seen, began) = (Arc::clone(&moments), Instant::now());
    console.cloud.script(move |call| {
        if call.operation == "SendMessageBatch" {
            seen.lock().unwrap().push((began.elapsed(), call.entries.len()));
        }
        let judging = call.operation == "GetQueueAttributes";
        if judging { Fault::Pass.after(Duration::from_millis(600)) } else { Fault::Pass }
    });
    console.run(json!({ "rate": 10, "ramp": [10, 100], "settleSeconds": 0 })).await.unwrap();
    let moments = moments.lock().unwrap();
    assert_eq!(moments.iter().map(|(_, letters)| *letters).collect::<Vec<_>>(), [3, 10, 10, 1]);
    for two in moments.windows(2) {
        let ((before, letters), (after, _)) = (two[0], two[1]);
        let least = Duration::from_millis(letters as u64 * 100);
        // A request can be late, and the next one then is nearer.
        assert!(after + Duration::from_millis(300) >= before + least, "{moments:?}");
    }
}

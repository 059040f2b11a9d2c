use super::*;

#[tokio::test]
async fn whoever_asks_for_the_same_goes_on_with_the_cut_off_that_it_began_with() {
    let console = Console::with_letters(100);
    let operator = Operator { stop_at: Some(20), ..console.operator() };
    let paused = console.run_by(&operator, json!({})).await.unwrap();
    assert_eq!((paused.status, paused.sent), (Status::Settling, 20));
    let late = record_at(&plain("late"), START + 1000).to_line().unwrap();
    console.archive_lines("b", &late);
    console.pass(600);
    let done = console.run(json!({})).await.unwrap();
    assert_eq!((&done.id, done.status, done.sent), (&paused.id, Status::Done, 100));
    assert_eq!(done.cut_off, paused.cut_off);
    assert_eq!(console.bodies(), numbers(0..100));
    console.pass(1);
    let next = console.run(json!({})).await.unwrap();
    assert_ne!(next.id, done.id, "then a new one begins");
    assert_eq!((next.sent, next.counts.already_replayed), (1, 100));
    assert_eq!(console.bodies().last().unwrap(), "late");
}

#[tokio::test]
async fn rate_threshold_and_time_can_change_and_steps_stay_as_they_were() {
    let console = Console::with_letters(100);
    let operator = Operator { stop_at: Some(10), ..console.operator() };
    console.run_by(&operator, json!({ "ramp": [10, 50, 100] })).await.unwrap();
    let other = json!({ "ramp": [100], "rate": 9000, "threshold": 50, "settleSeconds": 5 });
    let operator = console.operator();
    let done = console.run_by(&operator, other).await.unwrap();
    assert_eq!(done.request.ramp, [10, 50, 100]);
    assert_eq!((done.request.rate, done.request.threshold, done.request.settle_seconds), (9000, 50, 5));
    let seen = operator.seen.into_inner().unwrap();
    assert!(seen.contains(&(Status::Settling, 50)), "{seen:?}");
    assert_eq!(console.bodies(), numbers(0..100));
}

#[tokio::test]
async fn a_letter_is_replayed_once_by_whatever_selection_unless_again_is_said() {
    let console = Console::with_letters(3);
    console.run(json!({ "select": { "reasons": ["exhausted"] } })).await.unwrap();
    console.archive("b", &[plain("3")]);
    let other = json!({ "select": { "queue": "orders-dlq" } });
    let done = console.run(other.clone()).await.unwrap();
    assert_eq!((done.sent, done.counts.already_replayed), (1, 3));
    let mut again = other;
    again["again"] = true.into();
    assert_eq!(console.run(again).await.unwrap().sent, 4);
}

/// Else the second would write over the first one's ledgers, and a third would send all once more.
#[tokio::test]
async fn two_replays_with_one_cut_off_keep_their_ledgers_apart() {
    let console = Console::with_letters(3);
    let request = json!({ "cutOff": at(START - 60_000).to_string(), "ramp": [100] });
    console.run(request.clone()).await.unwrap();
    console.archive("b", &[plain("3")]);
    console.pass(1);
    assert_eq!(console.run(request.clone()).await.unwrap().sent, 1);
    console.pass(1);
    assert_eq!(console.run(request).await.unwrap().sent, 0);
    assert_eq!(console.sent().len(), 4);
}

#[tokio::test]
async fn a_dry_run_counts_what_would_then_be_sent_and_writes_nothing() {
    let console = Console::with_letters(40);
    console.archive("b", &[plain("1"), plain("fifo").queue(FIFO_DLQ)]);
    let dry = console.run(json!({ "dryRun": true })).await.unwrap();
    assert_eq!(dry.status, Status::DryRun);
    assert_eq!((dry.counts.selected, dry.counts.doubles), (40, 1));
    let written = |console: &Console| {
        console.cloud.calls("PutObject").len() + console.cloud.calls("SendMessageBatch").len()
    };
    assert_eq!(written(&console), 0);
    let operator = Operator { stop_at: Some(8), ..console.operator() };
    let paused = console.run_by(&operator, json!({})).await.unwrap();
    assert_eq!(paused.counts, dry.counts);
    let before = written(&console);
    let rest = console.run(json!({ "dryRun": true })).await.unwrap();
    assert_eq!((rest.counts.selected, written(&console)), (32, before));
    let done = console.run(json!({})).await.unwrap();
    assert_eq!((done.sent, console.sent().len()), (40, 40));
}

#[tokio::test]
async fn one_that_is_stopped_before_it_knows_what_is_selected_sends_nothing() {
    let console = Console::with_letters(3);
    let operator = console.operator();
    operator.stopped.store(true, Ordering::Relaxed);
    assert_eq!(console.run_by(&operator, json!({})).await.unwrap_err(), ReplayError::NotCounted);
    assert_eq!(console.sent(), []);
    assert_eq!(console.run(json!({})).await.unwrap().sent, 3);
}

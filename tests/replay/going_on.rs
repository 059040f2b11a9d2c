use super::*;

#[tokio::test]
async fn whoever_asks_for_the_same_goes_on_with_the_cut_off_that_it_began_with() {
    let desk = Desk::with_letters(100);
    let operator = Operator { stop_at: Some(20), ..desk.operator() };
    let paused = desk.run_by(&operator, json!({})).await.unwrap();
    assert_eq!((paused.status, paused.sent), (Status::Settling, 20));
    let late = record_at(&plain("late"), START + 1000).to_line().unwrap();
    desk.archive_lines("b", &late);
    desk.pass(600);
    let done = desk.run(json!({})).await.unwrap();
    assert_eq!((&done.id, done.status, done.sent), (&paused.id, Status::Done, 100));
    assert_eq!(done.cut_off, paused.cut_off);
    assert_eq!(desk.bodies(), numbers(0..100));
    desk.pass(1);
    let next = desk.run(json!({})).await.unwrap();
    assert_ne!(next.id, done.id, "then a new one begins");
    assert_eq!((next.sent, next.counts.already_replayed), (1, 100));
    assert_eq!(desk.bodies().last().unwrap(), "late");
}

#[tokio::test]
async fn rate_threshold_and_time_can_change_and_steps_stay_as_they_were() {
    let desk = Desk::with_letters(100);
    let operator = Operator { stop_at: Some(10), ..desk.operator() };
    desk.run_by(&operator, json!({ "ramp": [10, 50, 100] })).await.unwrap();
    let other = json!({ "ramp": [100], "rate": 9000, "threshold": 50, "settleSeconds": 5 });
    let operator = desk.operator();
    let done = desk.run_by(&operator, other).await.unwrap();
    assert_eq!(done.request.ramp, [10, 50, 100]);
    assert_eq!((done.request.rate, done.request.threshold, done.request.settle_seconds), (9000, 50, 5));
    let seen = operator.seen.into_inner().unwrap();
    assert!(seen.contains(&(Status::Settling, 50)), "{seen:?}");
    assert_eq!(desk.bodies(), numbers(0..100));
}

#[tokio::test]
async fn a_letter_is_replayed_once_by_whatever_selection_unless_again_is_said() {
    let desk = Desk::with_letters(3);
    desk.run(json!({ "select": { "reasons": ["exhausted"] } })).await.unwrap();
    desk.archive("b", &[plain("3")]);
    let other = json!({ "select": { "queue": "orders-dlq" } });
    let done = desk.run(other.clone()).await.unwrap();
    assert_eq!((done.sent, done.counts.already_replayed), (1, 3));
    let mut again = other;
    again["again"] = true.into();
    assert_eq!(desk.run(again).await.unwrap().sent, 4);
}

/// Else the second would write over the first one's ledgers, and a third would send all once more.
#[tokio::test]
async fn two_replays_with_one_cut_off_keep_their_ledgers_apart() {
    let desk = Desk::with_letters(3);
    let request = json!({ "cutOff": at(START - 60_000).to_string(), "ramp": [100] });
    desk.run(request.clone()).await.unwrap();
    desk.archive("b", &[plain("3")]);
    desk.pass(1);
    assert_eq!(desk.run(request.clone()).await.unwrap().sent, 1);
    desk.pass(1);
    assert_eq!(desk.run(request).await.unwrap().sent, 0);
    assert_eq!(desk.sent().len(), 4);
}

#[tokio::test]
async fn a_dry_run_counts_what_would_then_be_sent_and_writes_nothing() {
    let desk = Desk::with_letters(40);
    desk.archive("b", &[plain("1"), plain("fifo").queue(FIFO_DLQ)]);
    let dry = desk.run(json!({ "dryRun": true })).await.unwrap();
    assert_eq!(dry.status, Status::DryRun);
    assert_eq!((dry.counts.selected, dry.counts.doubles), (40, 1));
    let written =
        |desk: &Desk| desk.cloud.calls("PutObject").len() + desk.cloud.calls("SendMessageBatch").len();
    assert_eq!(written(&desk), 0);
    let operator = Operator { stop_at: Some(8), ..desk.operator() };
    let paused = desk.run_by(&operator, json!({})).await.unwrap();
    assert_eq!(paused.counts, dry.counts);
    let before = written(&desk);
    let rest = desk.run(json!({ "dryRun": true })).await.unwrap();
    assert_eq!((rest.counts.selected, written(&desk)), (32, before));
    let done = desk.run(json!({})).await.unwrap();
    assert_eq!((done.sent, desk.sent().len()), (40, 40));
}

#[tokio::test]
async fn one_that_is_stopped_before_it_knows_what_is_selected_sends_nothing() {
    let desk = Desk::with_letters(3);
    let operator = desk.operator();
    operator.stopped.store(true, Ordering::Relaxed);
    assert_eq!(desk.run_by(&operator, json!({})).await.unwrap_err(), ReplayError::NotCounted);
    assert_eq!(desk.sent(), []);
    assert_eq!(desk.run(json!({})).await.unwrap().sent, 3);
}

//! Each limit of a mapping with the page that it comes from, and the life of a batch.

use super::*;
use crate::sqs::{QueueSettings, ReceiveRequest, ReceivedSqsMessage};
use crate::{FaultHook, SimAws, SimCall, SimClock, SimEntry, SimFault};

const QUEUE: &str = "dlq";

fn aws() -> SimAws {
    let aws = SimAws::new(SimClock::manual("2026-11-01T12:00:00Z".parse().unwrap()), 7);
    aws.act("test", |it, _| {
        for queue in [QUEUE, "dlq.fifo"] {
            it.sqs.create(queue, QueueSettings { visibility: 60, ..QueueSettings::default() });
        }
    });
    aws
}

fn pass(aws: &SimAws, seconds: u64) {
    aws.clock().pass(Duration::from_secs(seconds));
}

fn put(aws: &SimAws, count: usize) {
    for number in 0..count {
        let entry = SimEntry::new("0", number.to_string());
        aws.act("test", |it, cx| it.sqs.send_message(cx, QUEUE, &entry)).unwrap();
    }
}

fn received(aws: &SimAws, queue: &str) -> Vec<ReceivedSqsMessage> {
    let receive = ReceiveRequest { at_most: 10, ..ReceiveRequest::default() };
    aws.act("test", |it, cx| it.sqs.receive_message(cx, queue, receive)).unwrap()
}

fn left(aws: &SimAws, queue: &str) -> usize {
    aws.act("test", |it, _| it.sqs.queue(queue).unwrap().len())
}

fn mapping(aws: &SimAws) -> SimMapping {
    SimMapping::new(aws, MappingSettings::new(QUEUE, "redrive"))
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html>
#[test]
fn a_mapping_that_lambda_refuses_cannot_exist() {
    let is_refused = |change: fn(&mut MappingSettings)| {
        let mut settings = MappingSettings::new(QUEUE, "redrive");
        change(&mut settings);
        std::panic::catch_unwind(|| drop(SimMapping::new(&aws(), settings))).is_err()
    };
    let taken: [fn(&mut MappingSettings); 2] =
        [|it| it.batch_size = 10, |it| (it.batch_size, it.window) = (10_000, Duration::from_secs(1))];
    let refused: [fn(&mut MappingSettings); 7] = [
        |it| it.batch_size = 11,
        |it| (it.batch_size, it.window) = (10_001, Duration::from_secs(1)),
        |it| it.window = Duration::from_secs(301),
        |it| it.concurrency = 1_001,
        |it| it.timeout = Duration::from_secs(61),
        |it| (it.queue, it.window) = ("dlq.fifo".to_owned(), Duration::from_secs(1)),
        |it| (it.queue, it.batch_size) = ("dlq.fifo".to_owned(), 11),
    ];
    assert_eq!(taken.map(is_refused), [false; 2]);
    assert_eq!(refused.map(is_refused), [true; 7]);
}

#[test]
fn a_disabled_mapping_receives_nothing_and_does_not_wake_for_what_shows_meanwhile() {
    let aws = aws();
    put(&aws, 1);
    assert_eq!(received(&aws, QUEUE).len(), 1);
    put(&aws, 1);
    let off = |call: &SimCall| match call.operation.as_str() {
        "ReceiveMessage" => SimFault::Throttle.after(Duration::from_hours(1)),
        _ => SimFault::Pass,
    };
    aws.set_faults(FaultHook::new(off));
    let mapping = mapping(&aws);
    assert!(mapping.take().is_none());
    aws.set_faults(FaultHook::default());
    // The hidden message shows after a minute.
    pass(&aws, 3_599);
    assert!(mapping.take().is_none());
    assert_eq!(mapping.wake(), Some(aws.clock().millis() + 1_000));
    pass(&aws, 1);
    assert_eq!(mapping.take().map(|batch| batch.messages.len()), Some(2));
}

/// Nobody has recorded what Lambda does with a message that a batch has twice. Its id stands for both.
#[test]
fn a_message_that_a_batch_has_twice_is_kept_twice() {
    let aws = aws();
    aws.act("test", |it, _| {
        let settings = &mut it.sqs.queue_mut(QUEUE).unwrap().messages.settings;
        (settings.duplicates, settings.stale_deletes) = (10_000, true);
    });
    put(&aws, 1);
    let settings =
        MappingSettings { window: Duration::from_secs(1), ..MappingSettings::new(QUEUE, "redrive") };
    let mapping = SimMapping::new(&aws, settings);
    assert!(mapping.take().is_none(), "the window is open");
    assert!(mapping.take().is_none());
    pass(&aws, 1);
    let batch = mapping.take().unwrap();
    assert!(batch.messages.len() > 1 && batch.messages.iter().all(|it| it.id == batch.messages[0].id));
    let kept = serde_json::json!({ "batchItemFailures": [{ "itemIdentifier": *batch.messages[0].id }] });
    mapping.settle(&batch, &MappingOutcome::Answer(kept.to_string()));
    let ended = aws.take_journal().into_iter().find_map(|record| match record.event {
        SimEvent::BatchEnded { kept, .. } => Some(kept.len()),
        _ => None,
    });
    assert_eq!((ended, left(&aws, QUEUE)), (Some(batch.messages.len()), 1));
}

#[test]
fn copies_stay_in_separate_batches_when_a_window_collects_them_one_by_one() {
    let aws = aws();
    let window = Duration::from_secs(1);
    let apart: fn(&crate::SimPayload) -> Option<u64> = |it| it.body.parse().ok();
    let settings = MappingSettings { window, apart: Some(apart), ..MappingSettings::new(QUEUE, "redrive") };
    let mapping = SimMapping::new(&aws, settings);
    for _ in 0..2 {
        put(&aws, 2);
        assert!(mapping.take().is_none(), "the window is open");
    }
    let batch = |seconds| {
        pass(&aws, seconds);
        mapping.take().map(|batch| batch.messages.len())
    };
    assert_eq!(batch(1), Some(2));
    assert_eq!((batch(0), batch(1)), (None, Some(2)));
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>
#[test]
fn an_answer_keeps_what_it_names_and_a_bad_one_keeps_all() {
    let of = |ids: &[&str]| {
        let items: Vec<_> = ids.iter().map(|id| serde_json::json!({ "itemIdentifier": id })).collect();
        serde_json::json!({ "batchItemFailures": items }).to_string()
    };
    let answers: [(&str, usize); 11] = [
        ("first", 1),
        (r#"{"batchItemFailures":[]}"#, 0),
        (r#"{"batchItemFailures":null}"#, 0),
        ("{}", 0),
        ("null", 0),
        ("", 0),
        (&of(&[""]), 3),
        (r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#, 3),
        (r#"{"batchItemFailures":[{"id":"a"}]}"#, 3),
        (&of(&["unknown"]), 3),
        ("no JSON", 3),
    ];
    for (answer, kept) in answers {
        let aws = aws();
        put(&aws, 3);
        let mapping = mapping(&aws);
        assert!(mapping.step(|batch| {
            assert_eq!(batch.messages.len(), 3);
            MappingOutcome::Answer(if answer == "first" {
                of(&[&*batch.messages[0].id])
            } else {
                answer.to_owned()
            })
        }));
        assert_eq!(left(&aws, QUEUE), kept, "{answer}");
        assert!(!mapping.step(|_| MappingOutcome::Died), "what is kept stays hidden");
    }
    for outcome in [MappingOutcome::Died, MappingOutcome::TimedOut, MappingOutcome::Error("panic".to_owned())]
    {
        let aws = aws();
        put(&aws, 3);
        mapping(&aws).step(|_| outcome.clone());
        assert_eq!(left(&aws, QUEUE), 3, "{outcome:?}");
    }
    // Without ReportBatchItemFailures every answer is a success.
    let aws = aws();
    put(&aws, 3);
    let settings = MappingSettings { partial: false, ..MappingSettings::new(QUEUE, "redrive") };
    SimMapping::new(&aws, settings).step(|batch| MappingOutcome::Answer(of(&[&*batch.messages[0].id])));
    assert_eq!(left(&aws, QUEUE), 0);
}

/// A message that the function hides stays hidden for as long as the function says.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html>
#[test]
fn a_mapping_leaves_the_visibility_of_what_it_keeps() {
    let aws = aws();
    put(&aws, 1);
    let mapping = mapping(&aws);
    let keep = |batch: &MappingBatch| {
        let id = &batch.messages[0].id;
        MappingOutcome::Answer(format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{id}"}}]}}"#))
    };
    mapping.step(|batch| {
        let handle = &batch.messages[0].handle;
        aws.act("fn", |it, cx| it.sqs.change_message_visibility(cx, QUEUE, handle, 3_600)).unwrap();
        keep(batch)
    });
    pass(&aws, 3_599);
    assert!(!mapping.step(keep));
    pass(&aws, 1);
    assert!(mapping.step(|batch| {
        let event: serde_json::Value = serde_json::from_str(&batch.event).unwrap();
        let record = &event["Records"][0];
        assert_eq!(record["attributes"]["ApproximateReceiveCount"], "2");
        assert_eq!(record["eventSourceARN"], crate::arn("sqs", QUEUE));
        assert_eq!(record["md5OfBody"], "cfcd208495d565ef66e7dff9f98764da");
        keep(batch)
    }));
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>
#[test]
fn a_window_collects_and_the_messages_are_hidden_meanwhile() {
    let aws = aws();
    let settings = MappingSettings {
        batch_size: 100,
        window: Duration::from_secs(20),
        ..MappingSettings::new(QUEUE, "redrive")
    };
    let mapping = SimMapping::new(&aws, settings);
    put(&aws, 3);
    assert!(mapping.take().is_none());
    pass(&aws, 10);
    put(&aws, 60);
    assert!(mapping.take().is_none());
    pass(&aws, 10);
    let batch = mapping.take().unwrap();
    assert_eq!(batch.messages.len(), 63);
    assert_eq!(batch.deadline, aws.clock().millis() + 60_000);
    // The visibility counts from the receive: the first messages come back before the others.
    pass(&aws, 40);
    assert_eq!(received(&aws, QUEUE).len(), 3);
    put(&aws, 100);
    assert_eq!(
        mapping.take().map(|batch| batch.messages.len()),
        Some(100),
        "a full batch waits for no window"
    );
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
#[test]
fn a_batch_has_six_megabytes() {
    let aws = aws();
    for _ in 0..8 {
        let entry = SimEntry::new("0", "x".repeat(1024 * 1024));
        aws.act("test", |it, cx| it.sqs.send_message(cx, QUEUE, &entry)).unwrap();
    }
    let mapping = mapping(&aws);
    let sizes: Vec<_> = std::iter::from_fn(|| mapping.take()).map(|batch| batch.messages.len()).collect();
    assert_eq!(sizes, [5, 3], "what surrounds a message counts too");
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>
#[test]
fn a_mapping_begins_with_five_batches_and_ends_at_its_concurrency() {
    let aws = aws();
    put(&aws, 100);
    let take = |mapping: &SimMapping| std::iter::from_fn(|| mapping.take()).collect::<Vec<_>>();
    let settings = |concurrency| MappingSettings {
        batch_size: 1,
        concurrency,
        ..MappingSettings::new(QUEUE, "redrive")
    };
    let two = SimMapping::new(&aws, settings(2));
    let batches = take(&two);
    assert_eq!(batches.len(), 2);
    two.settle(&batches[0], &MappingOutcome::Died);
    assert_eq!(take(&two).len(), 1);
    let many = SimMapping::new(&aws, settings(50));
    assert_eq!(take(&many).len(), 5);
    pass(&aws, 60);
    assert_eq!(take(&many).len(), 45);
}

/// A throttle counts a receive without a run.
/// <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>
#[test]
fn a_throttled_invocation_counts_as_a_receive() {
    let aws = aws();
    put(&aws, 1);
    let mapping = mapping(&aws);
    let throttle = |call: &SimCall| match call.operation.as_str() {
        "Invoke" => SimFault::Throttle,
        _ => SimFault::Pass,
    };
    aws.set_faults(FaultHook::new(throttle));
    assert!(!mapping.step(|_| MappingOutcome::Died));
    aws.set_faults(FaultHook::default());
    assert!(!mapping.step(|_| MappingOutcome::Died), "hidden for the queue's visibility timeout");
    pass(&aws, 60);
    assert!(mapping.step(|batch| {
        assert_eq!(batch.messages[0].receives, 2);
        MappingOutcome::Died
    }));
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>
#[test]
fn what_the_mapping_cannot_delete_comes_again() {
    let aws = aws();
    put(&aws, 2);
    let mapping = mapping(&aws);
    let fail = |call: &SimCall| match call.operation.as_str() {
        "DeleteMessageBatch" => {
            SimFault::Entries(vec![(0, crate::EntryFault::service("InternalError", "Try again."))])
        }
        _ => SimFault::Pass,
    };
    aws.set_faults(FaultHook::new(fail));
    mapping.step(|_| MappingOutcome::Answer("{}".to_owned()));
    assert_eq!(left(&aws, QUEUE), 1);
    pass(&aws, 60);
    assert_eq!(received(&aws, QUEUE).len(), 1);
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>
#[test]
fn a_fifo_group_is_in_one_batch_at_a_time() {
    let aws = aws();
    for (group, id) in [("a", "1"), ("a", "2"), ("b", "3")] {
        let entry = SimEntry::new("0", id).fifo(group, id);
        aws.act("test", |it, cx| it.sqs.send_message(cx, "dlq.fifo", &entry)).unwrap();
    }
    let settings = MappingSettings { batch_size: 1, ..MappingSettings::new("dlq.fifo", "redrive") };
    let mapping = SimMapping::new(&aws, settings);
    let first = mapping.take().unwrap();
    let second = mapping.take().unwrap();
    assert_eq!((&*first.messages[0].payload.body, &*second.messages[0].payload.body), ("1", "3"));
    // The function makes its message visible again, but the batch has not ended.
    let handle = &first.messages[0].handle;
    aws.act("fn", |it, cx| it.sqs.change_message_visibility(cx, "dlq.fifo", handle, 0)).unwrap();
    assert!(mapping.take().is_none());
    mapping.settle(&first, &MappingOutcome::Died);
    assert_eq!(&*mapping.take().unwrap().messages[0].payload.body, "1");
}

/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html>
#[test]
fn a_loop_ends_after_sixteen_passes() {
    for allow_loops in [false, true] {
        let aws = aws();
        put(&aws, 1);
        let settings = MappingSettings { allow_loops, ..MappingSettings::new(QUEUE, "redrive") };
        let mapping = SimMapping::new(&aws, settings);
        let mut passes = 0;
        // The function sends its message to its own queue, with the trace header of its run.
        while passes < 40
            && mapping.step(|batch| {
                let entry = SimEntry { trace: Some(batch.trace.clone()), ..SimEntry::new("0", "again") };
                aws.act("fn", |it, cx| it.sqs.send_message(cx, QUEUE, &entry)).unwrap();
                MappingOutcome::Answer("{}".to_owned())
            })
        {
            passes += 1;
        }
        assert_eq!(passes, if allow_loops { 40 } else { 16 });
    }
}

//! Each limit of SQS with the page that it comes from.

use std::time::Duration;

use super::*;
use crate::{SimAttribute, SimAws, SimClock, SimEntry, SimEvent};

const QUEUE: &str = "payments-dlq";
const FIFO: &str = "payments-dlq.fifo";

/// Creates an account with a standard and a FIFO queue at a fixed time.
fn aws_with(settings: &QueueSettings) -> SimAws {
    let aws = SimAws::new(SimClock::manual("2026-11-01T12:00:00Z".parse().unwrap()), 7);
    aws.act("test", |it, _| {
        it.sqs.create(QUEUE, settings.clone());
        it.sqs.create(FIFO, settings.clone());
    });
    aws
}

fn aws() -> SimAws {
    aws_with(&QueueSettings::default())
}

fn pass(aws: &SimAws, seconds: u64) {
    aws.clock().pass(Duration::from_secs(seconds));
}

fn send(aws: &SimAws, queue: &str, entry: &SimEntry) -> Result<SendAnswer, Error> {
    aws.act("test", |it, cx| it.sqs.send_message(cx, queue, entry))
}

fn put(aws: &SimAws, queue: &str, bodies: &[&str]) {
    for body in bodies {
        let entry = SimEntry::new("0", *body);
        let entry = if queue == FIFO { entry.fifo("g", body) } else { entry };
        send(aws, queue, &entry).unwrap();
    }
}

fn receive(aws: &SimAws, queue: &str) -> Vec<ReceivedSqsMessage> {
    let receive = ReceiveRequest { at_most: 10, ..ReceiveRequest::default() };
    aws.act("test", |it, cx| it.sqs.receive_message(cx, queue, receive)).unwrap()
}

fn one(aws: &SimAws, queue: &str) -> ReceivedSqsMessage {
    let mut received = receive(aws, queue);
    assert_eq!(received.len(), 1);
    received.remove(0)
}

fn bodies(received: &[ReceivedSqsMessage]) -> Vec<&str> {
    received.iter().map(|it| it.payload.body.as_str()).collect()
}

fn hide(aws: &SimAws, queue: &str, of: &ReceivedSqsMessage, seconds: i64) -> Result<(), Error> {
    aws.act("test", |it, cx| it.sqs.change_message_visibility(cx, queue, &of.handle, seconds))
}

fn delete(aws: &SimAws, queue: &str, of: &ReceivedSqsMessage) -> Result<(), Error> {
    aws.act("test", |it, cx| it.sqs.delete_message(cx, queue, &of.handle))
}

fn count(aws: &SimAws, name: &str) -> String {
    let names = ["All".to_owned()];
    let now = aws.clock().millis();
    aws.act("test", |it, _| it.sqs.get_queue_attributes(now, QUEUE, &names)).unwrap()[name].clone()
}

#[test]
fn further_attributes_win() {
    let aws = aws();
    put(&aws, QUEUE, &["a"]);
    assert_eq!(count(&aws, "ApproximateNumberOfMessages"), "1");
    aws.act("test", |it, _| {
        let more = &mut it.sqs.queue_mut(QUEUE).unwrap().messages.settings.more;
        more.insert("ApproximateNumberOfMessages".to_owned(), "7".to_owned());
    });
    assert_eq!(count(&aws, "ApproximateNumberOfMessages"), "7");
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
#[test]
fn the_twelve_hours_count_from_the_receive() {
    let aws = aws();
    put(&aws, QUEUE, &["a"]);
    let received = one(&aws, QUEUE);
    pass(&aws, 5);
    let error = hide(&aws, QUEUE, &received, 43_200).unwrap_err();
    assert_eq!(error.code, "InvalidParameterValue");
    let words = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
    assert!(error.message.ends_with(words), "{error}");
    hide(&aws, QUEUE, &received, 43_195).unwrap();
    pass(&aws, 43_194);
    assert_eq!(bodies(&receive(&aws, QUEUE)), [""; 0]);
    hide(&aws, QUEUE, &received, 2).unwrap_err();
    hide(&aws, QUEUE, &received, 1).unwrap();
    pass(&aws, 1);
    // The next receive begins another twelve hours.
    let again = one(&aws, QUEUE);
    assert_eq!((again.receives, again.first_received), (2, received.first_received));
    hide(&aws, QUEUE, &again, 43_200).unwrap();
    let error = hide(&aws, QUEUE, &again, 43_201).unwrap_err();
    assert!(error.message.contains("Must be between 0 and 43200"), "{error}");
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html>
#[test]
fn a_message_is_hidden_for_the_queues_timeout_and_zero_shows_it() {
    let aws = aws();
    put(&aws, QUEUE, &["a"]);
    one(&aws, QUEUE);
    pass(&aws, 29);
    assert!(receive(&aws, QUEUE).is_empty());
    pass(&aws, 1);
    let received = one(&aws, QUEUE);
    hide(&aws, QUEUE, &received, 0).unwrap();
    one(&aws, QUEUE);
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html>
#[test]
fn at_the_limit_in_flight_short_polls_fail_and_long_polls_get_nothing() {
    let aws = aws_with(&QueueSettings { in_flight: 2, ..QueueSettings::default() });
    put(&aws, QUEUE, &["a", "b", "c"]);
    assert_eq!(receive(&aws, QUEUE).len(), 2);
    let ask = |is_long| {
        let receive = ReceiveRequest { is_long, ..ReceiveRequest::default() };
        aws.act("test", |it, cx| it.sqs.receive_message(cx, QUEUE, receive))
    };
    assert_eq!(ask(false).unwrap_err().code, "OverLimit");
    assert!(ask(true).unwrap().is_empty());
    assert_eq!(QueueSettings::default().in_flight, 120_000);
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/approximate-metrics.html>
#[test]
fn readings_lag() {
    let aws = aws_with(&QueueSettings { lag: 60_000, visibility: 600, ..QueueSettings::default() });
    put(&aws, QUEUE, &["a"]);
    pass(&aws, 60);
    one(&aws, QUEUE);
    let read = || {
        ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"].map(|name| count(&aws, name))
    };
    assert_eq!(read(), ["1", "0"]);
    pass(&aws, 59);
    assert_eq!(read(), ["1", "0"]);
    pass(&aws, 1);
    assert_eq!(read(), ["0", "1"]);
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-delay-queues.html>
#[test]
fn a_delay_takes_900_seconds_at_most_and_no_message_of_a_fifo_queue_has_one() {
    let aws = aws();
    let delayed = |delay| SimEntry { delay: Some(delay), ..SimEntry::new("0", "a") };
    assert_eq!(send(&aws, QUEUE, &delayed(901)).unwrap_err().code, "InvalidParameterValue");
    send(&aws, QUEUE, &delayed(900)).unwrap();
    assert_eq!(count(&aws, "ApproximateNumberOfMessagesDelayed"), "1");
    assert_eq!(count(&aws, "ApproximateNumberOfMessagesNotVisible"), "0");
    pass(&aws, 899);
    assert!(receive(&aws, QUEUE).is_empty());
    pass(&aws, 1);
    one(&aws, QUEUE);
    let error = send(&aws, FIFO, &delayed(1).fifo("g", "d")).unwrap_err();
    assert!(error.message.contains("not valid for this queue type"), "{error}");
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html>
#[test]
fn a_group_waits_for_what_is_in_flight() {
    let aws = aws_with(&QueueSettings { whole_group: true, ..QueueSettings::default() });
    put(&aws, FIFO, &["a", "b", "c"]);
    send(&aws, FIFO, &SimEntry::new("0", "x").fifo("other", "x")).unwrap();
    let first = receive(&aws, FIFO);
    assert_eq!(bodies(&first), ["a", "b", "c", "x"]);
    delete(&aws, FIFO, &first[0]).unwrap();
    hide(&aws, FIFO, &first[1], 0).unwrap();
    hide(&aws, FIFO, &first[2], 100).unwrap();
    assert!(receive(&aws, FIFO).is_empty(), "a later message holds the group as well");
    pass(&aws, 50);
    assert_eq!(bodies(&receive(&aws, FIFO)), ["x"]);
    pass(&aws, 50);
    // The other group was served last.
    assert_eq!(bodies(&receive(&aws, FIFO)), ["b", "c", "x"]);
}

/// Recorded behaviour: the messages before a hidden message are handed out.
#[test]
fn what_lies_before_a_hidden_message_can_be_receivable() {
    let aws = aws();
    put(&aws, FIFO, &["a", "b", "c"]);
    let first = receive(&aws, FIFO);
    hide(&aws, FIFO, &first[1], 100).unwrap();
    hide(&aws, FIFO, &first[0], 0).unwrap();
    hide(&aws, FIFO, &first[2], 0).unwrap();
    assert_eq!(bodies(&receive(&aws, FIFO)), ["a"]);
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html>
#[test]
fn a_deduplication_id_counts_for_five_minutes_also_after_its_message_is_deleted() {
    let aws = aws();
    let entry = SimEntry::new("0", "a").fifo("g", "d");
    let first = send(&aws, FIFO, &entry).unwrap();
    let received = one(&aws, FIFO);
    delete(&aws, FIFO, &received).unwrap();
    pass(&aws, 299);
    assert_eq!(send(&aws, FIFO, &entry).unwrap(), first);
    assert!(receive(&aws, FIFO).is_empty());
    pass(&aws, 1);
    assert_ne!(send(&aws, FIFO, &entry).unwrap(), first);
    one(&aws, FIFO);
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html>
#[test]
fn a_queue_that_sqs_refuses_cannot_exist() {
    let is_refused = |change: fn(&mut QueueSettings)| {
        let mut settings = QueueSettings::default();
        change(&mut settings);
        std::panic::catch_unwind(|| drop(aws_with(&settings))).is_err()
    };
    let taken: [fn(&mut QueueSettings); 2] = [|it| it.retention = 60, |it| it.retention = 1_209_600];
    let refused: [fn(&mut QueueSettings); 5] = [
        |it| it.retention = 59,
        |it| it.retention = 1_209_601,
        |it| it.visibility = 43_201,
        |it| it.delay = 901,
        |it| it.max_bytes = 1_048_577,
    ];
    assert_eq!(taken.map(is_refused), [false; 2]);
    assert_eq!(refused.map(is_refused), [true; 5]);
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
#[test]
fn retention_ends_for_hidden_messages_too() {
    let aws = aws_with(&QueueSettings { retention: 60, ..QueueSettings::default() });
    put(&aws, QUEUE, &["a"]);
    pass(&aws, 50);
    let received = one(&aws, QUEUE);
    pass(&aws, 10);
    delete(&aws, QUEUE, &received).unwrap();
    pass(&aws, 30);
    assert!(receive(&aws, QUEUE).is_empty());
    let expired =
        |record: &crate::SimRecord| matches!(record.event, SimEvent::Expired { .. }).then_some(record.at);
    let at = aws.journal(|records| records.iter().find_map(expired));
    assert_eq!(at, Some(received.sent + 60_000));
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html>
#[test]
fn sqs_moves_what_was_received_too_often() {
    let redrive = |queue: &str| Some(QueueRedrive { queue: queue.to_owned(), max_receives: 2 });
    for (name, dlq) in [("billing", QUEUE), ("billing.fifo", FIFO)] {
        let aws = aws();
        aws.act("test", |it, _| {
            it.sqs.create(name, QueueSettings { redrive: redrive(dlq), ..QueueSettings::default() });
        });
        let entry = SimEntry::new("0", "a");
        let is_fifo = dlq == FIFO;
        let sent = send(&aws, name, &if is_fifo { entry.fifo("g", "d") } else { entry }).unwrap();
        let first = one(&aws, name);
        pass(&aws, 30);
        one(&aws, name);
        pass(&aws, 30);
        assert!(receive(&aws, name).is_empty());
        let moved = one(&aws, dlq);
        assert_eq!((&moved.id, moved.receives), (&sent.id, 3), "the id and the count are kept");
        assert_eq!(moved.source.as_deref(), Some(&*crate::arn("sqs", name)));
        // A standard queue counts the retention from the first enqueue, a FIFO queue anew.
        assert_eq!(moved.sent, first.sent + if is_fifo { 60_000 } else { 0 });
        let id = is_fifo.then(|| sent.id.to_string());
        assert_eq!(moved.payload.deduplication, id, "the id stands for the deduplication id");
        pass(&aws, 345_600 - 60);
        let left = aws.act("test", |it, _| it.sqs.queue(dlq).unwrap().len());
        assert_eq!(left, usize::from(is_fifo));
    }
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
#[test]
fn a_message_and_a_batch_have_a_mebibyte() {
    let aws = aws();
    let big = |bytes: usize| SimEntry::new("0", "x".repeat(bytes));
    send(&aws, QUEUE, &big(MAX_BYTES)).unwrap();
    let error = send(&aws, QUEUE, &big(MAX_BYTES + 1)).unwrap_err();
    assert!(error.message.contains("must be shorter than 1048576 bytes"), "{error}");
    // Names, types and values of attributes count.
    send(&aws, QUEUE, &big(MAX_BYTES - 10).with("abc", SimAttribute::string("v"))).unwrap();
    send(&aws, QUEUE, &big(MAX_BYTES - 9).with("abc", SimAttribute::string("v"))).unwrap_err();
    let half = MAX_BYTES / 2;
    let two = |more: usize| [big(half), SimEntry { id: "1".to_owned(), ..big(half + more) }];
    let batch =
        |entries: &[SimEntry]| aws.act("test", |it, cx| it.sqs.send_message_batch(cx, QUEUE, entries));
    batch(&two(0)).unwrap();
    assert_eq!(batch(&two(1)).unwrap_err().code, "AWS.SimpleQueueService.BatchRequestTooLong");
    // A queue may allow less: then the entry fails, and the others do not.
    aws.act("test", |it, _| it.sqs.queue_mut(QUEUE).unwrap().messages.settings.max_bytes = 1024);
    let answer = batch(&[big(1025), SimEntry::new("1", "a")]).unwrap();
    assert!(answer[0].1.is_err() && answer[1].1.is_ok(), "{answer:?}");
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>
#[test]
fn a_message_has_ten_attributes_with_values() {
    let aws = aws();
    let with = |count: usize| {
        (0..count).fold(SimEntry::new("0", "a"), |it, number| {
            it.with(&format!("a{number}"), SimAttribute::binary([number.try_into().unwrap()]))
        })
    };
    send(&aws, QUEUE, &with(10)).unwrap();
    let error = send(&aws, QUEUE, &with(11)).unwrap_err();
    assert_eq!(error.message, "Number of message attributes [11] exceeds the allowed maximum [10].");
    send(&aws, QUEUE, &SimEntry::new("0", "a").with("a", SimAttribute::string(""))).unwrap_err();
    send(&aws, QUEUE, &SimEntry::new("0", "a").with("AWS.a", SimAttribute::string("v"))).unwrap_err();
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
#[test]
fn a_body_has_only_characters_of_xml() {
    let aws = aws();
    let error = send(&aws, QUEUE, &SimEntry::new("0", "a\u{0}")).unwrap_err();
    assert_eq!(error.code, "InvalidMessageContents");
    send(&aws, QUEUE, &SimEntry::new("0", "a\u{ffff}")).unwrap_err();
    send(&aws, QUEUE, &SimEntry::new("0", "\t\r\n \u{fffd}\u{10ffff}")).unwrap();
    assert_eq!(send(&aws, QUEUE, &SimEntry::new("0", "")).unwrap_err().code, "MissingParameter");
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html>
#[test]
fn a_batch_has_one_to_ten_entries_with_ids_of_their_own() {
    let aws = aws();
    let code = |ids: &[&str]| {
        let entries: Vec<_> = ids.iter().map(|id| SimEntry::new(*id, "a")).collect();
        let answer = aws.act("test", |it, cx| it.sqs.send_message_batch(cx, QUEUE, &entries));
        answer.err().map_or(String::new(), |error| error.code.into_owned())
    };
    let ids: Vec<_> = (0..11).map(|id| id.to_string()).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    assert_eq!(code(&ids[..10]), "");
    assert_eq!(code(&ids), "AWS.SimpleQueueService.TooManyEntriesInBatchRequest");
    assert_eq!(code(&[]), "AWS.SimpleQueueService.EmptyBatchRequest");
    assert_eq!(code(&["a", "a"]), "AWS.SimpleQueueService.BatchEntryIdsNotDistinct");
    assert_eq!(code(&["a b"]), "AWS.SimpleQueueService.InvalidBatchEntryId");
    assert_eq!(code(&[&"a".repeat(81)]), "AWS.SimpleQueueService.InvalidBatchEntryId");
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>
#[test]
fn a_fifo_queue_asks_for_group_and_deduplication_and_a_standard_queue_takes_a_group() {
    let aws = aws();
    let entry = SimEntry::new("0", "a");
    assert_eq!(send(&aws, FIFO, &entry).unwrap_err().code, "MissingParameter");
    let grouped = SimEntry { group: Some("g".to_owned()), ..entry.clone() };
    assert_eq!(send(&aws, FIFO, &grouped).unwrap_err().code, "InvalidParameterValue");
    send(&aws, QUEUE, &grouped).unwrap();
    send(&aws, QUEUE, &entry.fifo("g", "d")).unwrap_err();
    aws.act("test", |it, _| it.sqs.queue_mut(FIFO).unwrap().messages.settings.content_based = true);
    let first = send(&aws, FIFO, &grouped).unwrap();
    assert_eq!(send(&aws, FIFO, &grouped).unwrap(), first);
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html>
#[test]
fn an_expired_handle_is_answered_by_a_standard_queue_and_refused_by_a_fifo_queue() {
    for queue in [QUEUE, FIFO] {
        let aws = aws();
        put(&aws, queue, &["a"]);
        let old = one(&aws, queue);
        pass(&aws, 30);
        if queue == FIFO {
            let error = hide(&aws, queue, &old, 60).unwrap_err();
            assert!(error.message.ends_with("The receipt handle has expired."), "{error}");
            let entry = SimEntry {
                handle: Some(old.handle.to_string()),
                visibility: Some(60),
                ..SimEntry::new("0", "")
            };
            let batch = aws.act("test", |it, cx| it.sqs.change_message_visibility_batch(cx, queue, &[entry]));
            let error = batch.unwrap().remove(0).1.unwrap_err();
            assert_eq!(error.code, "ReceiptHandleIsInvalid");
            delete(&aws, queue, &old).unwrap_err();
        } else {
            hide(&aws, queue, &old, 60).unwrap();
        }
        let new = one(&aws, queue);
        assert_ne!(new.handle, old.handle);
        if queue == QUEUE {
            // The message is in flight by another receive: the old handle does not delete it, but shows it.
            delete(&aws, queue, &old).unwrap();
            assert!(receive(&aws, queue).is_empty());
            hide(&aws, queue, &old, 0).unwrap();
            one(&aws, queue);
        }
    }
    let aws = aws();
    let error = aws.act("test", |it, cx| it.sqs.delete_message(cx, QUEUE, "nonsense")).unwrap_err();
    assert_eq!(error.code, "ReceiptHandleIsInvalid");
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/standard-queues-at-least-once-delivery.html>
#[test]
fn a_standard_queue_may_hand_a_message_out_twice() {
    let aws = aws_with(&QueueSettings { duplicates: 10_000, ..QueueSettings::default() });
    put(&aws, QUEUE, &["a"]);
    let first = one(&aws, QUEUE);
    let second = one(&aws, QUEUE);
    assert_eq!(first.id, second.id);
    // A deleted message comes back once its visibility timeout is over.
    aws.act("test", |it, _| it.sqs.queue_mut(QUEUE).unwrap().messages.settings.duplicates = 0);
    let third = one(&aws, QUEUE);
    aws.act("test", |it, _| it.sqs.queue_mut(QUEUE).unwrap().messages.settings.duplicates = 10_000);
    delete(&aws, QUEUE, &third).unwrap();
    aws.act("test", |it, _| it.sqs.queue_mut(QUEUE).unwrap().messages.settings.duplicates = 0);
    assert!(receive(&aws, QUEUE).is_empty());
    pass(&aws, 30);
    let fourth = one(&aws, QUEUE);
    aws.act("test", |it, cx| it.sqs.show_again(cx, QUEUE, &fourth.id));
    let fifth = one(&aws, QUEUE);
    delete(&aws, QUEUE, &fifth).unwrap();
    pass(&aws, 60);
    assert!(receive(&aws, QUEUE).is_empty());
}

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_PurgeQueue.html>
#[test]
fn a_purged_queue_is_empty_and_has_forgotten_its_deduplication_ids() {
    let aws = aws();
    put(&aws, QUEUE, &["a", "b"]);
    put(&aws, FIFO, &["a"]);
    one(&aws, FIFO);
    for queue in [QUEUE, FIFO] {
        aws.act("test", |it, cx| it.sqs.purge_queue(cx, queue)).unwrap();
    }
    put(&aws, FIFO, &["a"]);
    let left = |queue: &str| aws.act("test", |it, _| it.sqs.queue(queue).unwrap().len());
    assert_eq!((left(QUEUE), left(FIFO)), (0, 1));
}

#[test]
fn a_world_may_keep_copies_in_separate_batches() {
    let aws = aws();
    let apart: fn(&crate::SimPayload) -> Option<u64> = |it| it.body.strip_prefix("copy of ")?.parse().ok();
    let receive = |queue: &str| {
        let receive = ReceiveRequest { at_most: 10, apart: Some(apart), ..ReceiveRequest::default() };
        aws.act("test", |it, cx| it.sqs.receive_message(cx, queue, receive)).unwrap()
    };
    put(&aws, QUEUE, &["copy of 1", "copy of 2", "copy of 1", "other"]);
    assert_eq!(bodies(&receive(QUEUE)), ["copy of 1", "copy of 2", "other"]);
    assert_eq!(bodies(&receive(QUEUE)), ["copy of 1"]);
    let fifo = |body: &str, id: &str| send(&aws, FIFO, &SimEntry::new("0", body).fifo("g", id)).unwrap();
    fifo("copy of 1", "1");
    fifo("copy of 1", "2");
    fifo("other", "3");
    assert_eq!(bodies(&receive(FIFO)), ["copy of 1"], "nothing overtakes the copy");
}

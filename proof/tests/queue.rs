//! The queues of the world do what SQS does.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use proof::loss::letters::Attributes;
use proof::loss::queue::{Message, Queue, Repetitions};

const NOW: u64 = 1_793_534_400_000;

fn message(number: usize, group: Option<&str>) -> Message {
    let mut message = Message::new(number, number, Arc::from("body"), Arc::new(Attributes::new()), NOW);
    message.group = group.map(str::to_owned);
    message
}

/// A queue with a visibility timeout of 30 s and these messages.
fn queue(name: &str, messages: &[Option<&str>]) -> Queue {
    let mut queue = Queue::new(name.to_owned(), 30_000, 100);
    for (number, group) in messages.iter().enumerate() {
        queue.put(message(number, *group), 0);
    }
    queue
}

fn received(queue: &mut Queue, now: u64) -> Vec<usize> {
    queue.receive(10, usize::MAX, now).iter().map(|message| message.number).collect()
}

#[test]
fn a_message_is_hidden_after_a_receive_and_comes_back_with_a_higher_count() {
    let mut queue = queue("orders-dlq", &[None]);
    let first = queue.receive(10, usize::MAX, NOW).remove(0);
    assert_eq!((first.receives, first.first_received, queue.in_flight(NOW)), (1, NOW, 1));
    assert!(received(&mut queue, NOW + 29_999).is_empty());
    let again = queue.receive(10, usize::MAX, NOW + 30_000).remove(0);
    assert_eq!((again.receives, again.first_received), (2, NOW));
    assert!(!queue.delete(&first.handle()), "an old handle");
    assert!(queue.delete(&again.handle()) && queue.is_empty());
}

#[test]
fn a_message_can_be_hidden_for_longer_and_shown_at_once() {
    let mut queue = queue("orders-dlq", &[None, None]);
    let handles: Vec<_> = queue.receive(10, usize::MAX, NOW).iter().map(Message::handle).collect();
    queue.hide(&handles[0], 100, NOW).unwrap();
    queue.hide(&handles[1], 0, NOW).unwrap();
    assert_eq!(received(&mut queue, NOW + 1), [1]);
    assert_eq!(received(&mut queue, NOW + 100_000), [1, 0]);
    assert_eq!(queue.hide(&handles[0], 1, NOW + 100_000), Err("ReceiptHandleIsInvalid"));
}

#[test]
fn what_is_delayed_is_neither_shown_nor_in_flight() {
    let mut queue = queue("orders-requeue", &[]);
    queue.put(message(0, None), 5_000);
    assert_eq!((received(&mut queue, NOW + 4_999).len(), queue.in_flight(NOW)), (0, 0));
    assert_eq!(received(&mut queue, NOW + 5_000), [0]);
}

#[test]
fn at_the_limit_of_messages_in_flight_nothing_is_handed_over() {
    let mut queue = Queue::new("orders-dlq".to_owned(), 30_000, 3);
    (0..5).for_each(|number| queue.put(message(number, None), 0));
    assert_eq!(received(&mut queue, NOW), [0, 1, 2]);
    assert!(received(&mut queue, NOW + 1).is_empty());
}

#[test]
fn a_group_hands_over_nothing_behind_a_message_in_flight() {
    let mut queue = queue("orders-dlq.fifo", &[Some("a"), Some("a"), Some("a"), Some("b")]);
    let batch = queue.receive(10, usize::MAX, NOW);
    assert_eq!(batch.len(), 4);
    let handle = |number: usize| batch.iter().find(|it| it.number == number).unwrap().handle();
    queue.hide(&handle(1), 60, NOW).unwrap();
    queue.hide(&handle(0), 0, NOW).unwrap();
    queue.hide(&handle(2), 0, NOW).unwrap();
    queue.delete(&handle(3));
    assert!(received(&mut queue, NOW).is_empty(), "an invocation works on the group");
    queue.release(["a", "b"].into_iter());
    assert_eq!(received(&mut queue, NOW), [0], "earlier ones can be had");
    queue.release(["a"].into_iter());
    assert_eq!(received(&mut queue, NOW + 60_000), [0, 1, 2]);
}

#[test]
fn a_deduplication_id_is_known_for_five_minutes() {
    let mut known = Repetitions::default();
    assert!(known.is_new("a", NOW));
    assert!(!known.is_new("a", NOW + 299_999));
    assert!(known.is_new("b", NOW));
    assert!(known.is_new("a", NOW + 300_000));
}

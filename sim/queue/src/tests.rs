//! Behaviour of a queue that no request of the account in `sim` shows. The account's tests have the rest,
//! with AWS's pages.

use std::collections::BTreeSet;

use super::*;

/// Creates a queue with so many messages that are visible at once.
fn queue(is_fifo: bool, settings: QueueSettings, messages: i64) -> Messages<i64, u8> {
    let mut queue = Messages::new(is_fifo, settings);
    for content in 0..messages {
        queue.put(0, Message::new(content, 0, 0), 0);
    }
    queue.settle(0);
    queue
}

fn receive(queue: &mut Messages<i64, u8>, now: Millis) -> Receipt {
    queue.settle(now);
    let number = queue.ready(1, &BTreeSet::new())[0];
    queue.receive(now, number, now + 30_000).unwrap().0
}

#[test]
fn messages_come_in_an_order_that_the_seed_decides() {
    let order = |shuffled, is_fifo| {
        let settings = QueueSettings { shuffled, ..QueueSettings::default() };
        queue(is_fifo, settings, 9).ready(9, &BTreeSet::new())
    };
    let in_order: Vec<u64> = (0..9).collect();
    assert_eq!(order(None, false), in_order);
    assert_eq!(order(Some(1), true), in_order, "a FIFO queue keeps its order");
    let any = order(Some(1), false);
    assert_eq!(any, order(Some(1), false));
    assert_ne!(any, in_order);
    assert_ne!(any, order(Some(2), false));
    assert_eq!(BTreeSet::from_iter(any), BTreeSet::from_iter(in_order));
}

#[test]
fn a_stale_receipt_shows_what_a_later_receive_hides_where_the_settings_say_so() {
    for (is_fifo, stale_shows, expected) in [
        (false, false, Ok(false)),
        (false, true, Ok(true)),
        (true, false, Err(Refused::NoLongerValid)),
        (true, true, Err(Refused::NoLongerValid)),
    ] {
        let settings = QueueSettings { stale_shows, ..QueueSettings::default() };
        let mut queue = queue(is_fifo, settings, 1);
        let stale = receive(&mut queue, 0);
        let last = receive(&mut queue, 30_000);
        assert_eq!((queue.resolve(stale), queue.resolve(last)), (Use::Stale, Use::Valid));
        assert_eq!(queue.change(30_001, stale, 60), expected.map(|_| false), "it hides nothing");
        assert_eq!(queue.change(30_001, stale, 0), expected);
        queue.settle(30_001);
        assert_eq!(queue.ready(1, &BTreeSet::new()).len(), usize::from(expected == Ok(true)));
    }
}

#[test]
fn a_receipt_deletes_after_its_message_has_shown_again_until_the_next_receive() {
    for is_fifo in [false, true] {
        let mut queue = queue(is_fifo, QueueSettings::default(), 1);
        let first = receive(&mut queue, 0);
        queue.settle(30_000);
        assert_eq!(queue.resolve(first), Use::Expired);
        let refused = Err(Refused::NoLongerValid);
        assert_eq!(queue.to_delete(first), if is_fifo { refused } else { Ok(Some(0)) });
        let second = receive(&mut queue, 30_000);
        assert_eq!(queue.to_delete(first), if is_fifo { refused } else { Ok(None) });
        assert_eq!(queue.to_delete(second), Ok(Some(0)));
    }
}

#[test]
fn the_numbers_of_messages_are_known_as_far_back_as_readings_lag() {
    let mut queue = queue(false, QueueSettings { lag: 10, ..QueueSettings::default() }, 3);
    for now in [5, 10, 15] {
        receive(&mut queue, now);
    }
    assert_eq!([5, 9, 10, 15].map(|then| queue.counts(then).in_flight), [1, 1, 2, 3]);
    assert_eq!(queue.counts(4), Counts::default(), "that is forgotten");
}

//! Behaviour of a queue that no request of the account in `redrive-sim` shows. The account's tests have the rest,
//! with AWS's pages.

use std::collections::BTreeSet;

use super::*;

/// Creates a queue with so many messages that are visible at once.
fn queue(is_fifo: bool, settings: QueueSettings, messages: i64) -> SimMessages<i64, u8> {
    let mut queue = SimMessages::new(is_fifo, settings);
    for content in 0..messages {
        queue.put(0, SimMessage::new(content, 0, 0), 0);
    }
    queue.settle(0);
    queue
}

fn receive(queue: &mut SimMessages<i64, u8>, now: QueueMillis) -> SimReceipt {
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

/// Recorded: a change to zero by an old handle shows the message. The rest nobody has recorded.
#[test]
fn a_stale_receipt_does_what_the_settings_say() {
    let default = QueueSettings::default;
    let settings = [
        default(),
        QueueSettings { stale_shows: false, ..default() },
        QueueSettings { stale_hides: true, ..default() },
        QueueSettings { stale_deletes: true, ..default() },
    ];
    let expected = [
        (Ok(false), Ok(None), Ok(true)),
        (Ok(false), Ok(None), Ok(false)),
        (Ok(true), Ok(None), Ok(true)),
        (Ok(false), Ok(Some(0)), Ok(true)),
    ];
    for (settings, (hides, deletes, shows)) in settings.into_iter().zip(expected) {
        let mut queue = queue(false, settings, 1);
        let (stale, last) = (receive(&mut queue, 0), receive(&mut queue, 30_000));
        assert_eq!((queue.resolve(stale), queue.resolve(last)), (ReceiptState::Stale, ReceiptState::Valid));
        assert_eq!(queue.to_delete(stale), deletes);
        assert_eq!(queue.change(30_001, stale, 60), hides);
        assert_eq!(queue.change(30_001, stale, 0), shows);
        queue.settle(30_001);
        assert_eq!(queue.ready(1, &BTreeSet::new()).len(), usize::from(shows == Ok(true)));
    }
    let mut queue = queue(true, default(), 1);
    let (stale, _) = (receive(&mut queue, 0), receive(&mut queue, 30_000));
    assert_eq!(queue.change(30_001, stale, 0), Err(ReceiptRefusal::NoLongerValid));
}

/// Recorded for a standard queue.
#[test]
fn a_message_that_is_gone_cannot_be_hidden() {
    for (is_fifo, refused) in [(false, ReceiptRefusal::Gone), (true, ReceiptRefusal::NoLongerValid)] {
        let mut queue = queue(is_fifo, QueueSettings::default(), 1);
        let receipt = receive(&mut queue, 0);
        assert_eq!(queue.change(1, receipt, 60), Ok(true));
        queue.remove(2, receipt.number);
        assert_eq!(queue.change(3, receipt, 60), Err(refused));
        assert_eq!(queue.change(3, receipt, 0), Err(refused));
    }
}

/// Recorded.
#[test]
fn a_group_that_was_served_goes_behind_the_others() {
    let mut queue = SimMessages::new(true, QueueSettings::default());
    for (content, group) in [(0, 1), (1, 2), (2, 1), (3, 3)] {
        queue.put(0, SimMessage::new(content, group, 0), 0);
    }
    queue.settle(0);
    let order = |queue: &SimMessages<i64, u8>| queue.ready(9, &BTreeSet::new());
    assert_eq!(order(&queue), [0, 2, 1, 3]);
    let receipt = queue.receive(0, 0, 0).unwrap().0;
    queue.settle(0);
    assert_eq!((receipt.number, order(&queue)), (0, vec![1, 3, 0, 2]));
}

#[test]
fn a_receipt_deletes_after_its_message_has_shown_again_until_the_next_receive() {
    for is_fifo in [false, true] {
        let mut queue = queue(is_fifo, QueueSettings::default(), 1);
        let first = receive(&mut queue, 0);
        queue.settle(30_000);
        assert_eq!(queue.resolve(first), ReceiptState::Expired);
        let refused = Err(ReceiptRefusal::NoLongerValid);
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
    assert_eq!(queue.counts(4), SimMessageCounts::default(), "that is forgotten");
}

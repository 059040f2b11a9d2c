//! The marks that a letter gets when it is sent.

use super::*;

#[test]
fn a_letter_that_goes_on_in_the_requeue_keeps_what_its_mark_says_of_it() {
    let (letter, mark) = in_the_requeue();
    let requeued = RequeueMark { due: None, ..mark.requeued.clone() };
    assert_eq!(letter.mark_for_requeue(7, None), Mark { spent: 7, requeued, ..mark.clone() });
    assert_eq!(
        letter.mark(7),
        Mark { spent: 7, passes: 7, early: false, requeued: RequeueMark::default(), ..mark }
    );
    assert_eq!(letter.mark_for_topic(7), Mark { published: 2, ..letter.mark(7) });
}

/// Anyone may write into a dead-letter queue, or publish.
#[test]
fn what_a_mark_says_of_the_requeue_is_believed_in_the_requeue_only() {
    let (requeued, mark) = in_the_requeue();
    assert_eq!(requeued.mark, Some(mark.clone()));
    let elsewhere = Mark { requeued: RequeueMark::default(), ..mark.clone() };
    assert_eq!(Letter::parse(requeued.sqs).mark, Some(elsewhere.clone()));
    let published = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": mark.to_attribute().text() } });
    let published = received(&record(&envelope("hello", &published)));
    assert_eq!(
        Letter::parse_requeued(published, TrustedOrigins::none()).mark,
        Some(elsewhere),
        "a publisher wrote it"
    );
}

#[test]
fn a_letter_that_moves_to_the_requeue_says_where_it_comes_from() {
    let mark = Mark {
        spent: 2,
        id: "letter-1".into(),
        first: at(NOW - 60_000),
        generation: 1,
        digest: MessageDigest::of("hello"),
        passes: 2,
        published: 1,
        early: false,
        requeued: RequeueMark::default(),
    };
    let mut record = record("hello");
    record["attributes"]["DeadLetterQueueSourceArn"] = WORKER.into();
    record["messageAttributes"][MARK_ATTRIBUTE] = text_attribute(mark.to_attribute().text().unwrap());
    let letter = letter(&record);
    let due = Some(at(NOW + 900_000));
    let requeued = RequeueMark {
        dlq: Some(arn(DLQ)),
        source: Some(arn(WORKER)),
        due,
        earlier: 2,
        ..RequeueMark::default()
    };
    assert_eq!(letter.mark_for_requeue(3, due), Mark { spent: 3, requeued, ..mark });
}

/// Otherwise the next replay of the same letter would publish a copy that our own publishing made.
#[test]
fn a_copy_that_goes_to_one_subscription_stays_a_copy() {
    let (letter, mark) = in_the_requeue();
    let published = |to| letter.mark_for_replay(at(NOW), Some(to), false).published;
    assert!(mark.published > 0);
    assert_eq!(published(ReplayTarget::Subscription(arn(SUBSCRIPTION))), mark.published);
    assert_eq!(published(ReplayTarget::Topic), 0);
}

#[test]
fn a_letter_that_is_replayed_begins_afresh_in_its_next_generation() {
    let (letter, mark) = in_the_requeue();
    let to = Some(ReplayTarget::Arn(arn(WORKER)));
    let requeued = RequeueMark { due: None, earlier: 0, back: None, to: to.clone(), ..mark.requeued.clone() };
    let replayed = Mark {
        spent: 0,
        first: at(NOW),
        generation: 2,
        passes: 0,
        published: 0,
        early: false,
        requeued,
        ..mark
    };
    assert_eq!(letter.mark_for_replay(at(NOW), to.clone(), false), replayed, "once edited, for ever edited");
    let fresh = Letter::parse(received(&record("hello")));
    let requeued = RequeueMark { dlq: Some(arn(DLQ)), to: to.clone(), ..RequeueMark::default() };
    for edited in [false, true] {
        let mark = fresh.mark_for_replay(at(NOW + 7), to.clone(), edited);
        let expected = Mark {
            spent: 0,
            id: fresh.id.as_str().into(),
            first: at(NOW + 7),
            generation: 1,
            digest: MessageDigest::of("hello"),
            passes: 0,
            published: 0,
            early: false,
            requeued: RequeueMark { edited, ..requeued.clone() },
        };
        assert_eq!(mark, expected);
    }
}

//! A law: any message of a queue is a letter that keeps its identity wherever it is sent.

use redrive_archive::{ArchiveRecord, BadRecord};
use redrive_aws::delivery::OutgoingMessage;
use redrive_core::arn::Arn;
use redrive_core::batch::ArchiveContext;
use redrive_core::letter::MAX_ATTRIBUTES;
use redrive_core::letter::{
    BelievedClaims, Letter, MARK_ATTRIBUTE, Mark, MessageAttributes, SqsMessage, TrustedOrigins,
};
use redrive_core::policy::ArchiveReason;
use serde_json::Value;

use super::{NOW, assert_same, at, is_id, now, received, record, with_attributes};

/// Checks the law. The bytes are an event of Lambda, a record of one, or else the body of a message.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let json = serde_json::from_str::<Value>(text).ok();
    let given = match json {
        Some(Value::Object(event)) if event.contains_key("Records") => {
            event["Records"].as_array().and_then(|records| received(records))
        }
        Some(one @ Value::Object(_)) => received(&[one]),
        _ => None,
    };
    // A text that is no event is a body. A text that is an event is one too, because somebody may send it to
    // the queue.
    let as_body = received(&[record(text, &MessageAttributes::new())]);
    for message in given.into_iter().chain(as_body).flatten() {
        letter(&message);
    }
}

fn letter(message: &SqsMessage) {
    let letter = Letter::parse(message.clone());
    assert!(letter == Letter::parse(message.clone()), "read twice");
    assert!(letter.sqs == *message, "a letter keeps its message whole");
    let trusting = |requeue| {
        Letter::received(message.clone(), BelievedClaims { requeue, origins: TrustedOrigins::none() })
    };
    assert!(letter == trusting(None), "no requeue, nothing believed");
    let requeued = Letter::parse_requeued(message.clone(), TrustedOrigins::none());
    assert!(requeued == trusting(Some(&message.queue)), "the requeue is the requeue");
    assert!(
        letter.mark.as_ref().is_none_or(|mark| mark.requeued == Default::default()),
        "no requeue, no belief"
    );
    assert!(letter.id == requeued.id, "an id does not depend on the queue");
    let claiming =
        Letter::received(message.clone(), BelievedClaims { requeue: None, origins: &TrustedOrigins::all() });
    assert!(claiming.unlisted.is_none(), "what is listed is believed");
    for letter in [&letter, &requeued, &claiming] {
        archived(letter);
        if is_id(letter.id.as_str()) && message.unread.is_none() {
            travels(letter);
        }
    }
}

/// Asserts that a record rebuilds the message, and the letter with it.
fn archived(letter: &Letter) {
    let context = ArchiveContext {
        reason: ArchiveReason::Exhausted,
        detail: Some("why".to_owned()),
        rule: "default".to_owned(),
        target: None,
        retry: None,
        failure: None,
        override_id: None,
    };
    let record = ArchiveRecord::of(letter, &context, now());
    let line = record.to_line().unwrap();
    assert!(!line.trim_end_matches('\n').contains('\n') && line.ends_with('\n'), "a record is one line");
    let read = ArchiveRecord::from_line(&line).unwrap();
    assert!(read == record, "the record changed");
    if let Some(unread) = &letter.sqs.unread {
        assert!(read.record.as_ref() == Some(&unread.record), "a record that cannot be read is kept whole");
        assert!(read.to_message() == Err(BadRecord::Unread), "what could not be read is not sent");
        return;
    }
    let stored = SqsMessage { receipt_handle: String::new(), ..letter.sqs.clone() };
    assert!(read.to_message().unwrap() == stored, "the message changed");
    assert_same(&read.to_letter().unwrap(), letter);
}

/// Asserts that a letter comes back unchanged from the requeue and from its target.
fn travels(letter: &Letter) {
    let requeue: Arn = "arn:aws:sqs:eu-central-1:123456789012:requeue".parse().unwrap();
    let due = at(NOW + 900_000);
    let origins = if letter.unlisted.is_some() { TrustedOrigins::default() } else { TrustedOrigins::all() };
    for mark in [letter.mark_for_requeue(7, Some(due)), letter.mark_for_replay(now(), None, true)] {
        let Ok(outgoing) = OutgoingMessage::for_requeue(letter, &mark, &requeue, 0) else {
            assert!(letter.sqs.attributes.len() >= MAX_ATTRIBUTES, "only ten attributes are in the way");
            continue;
        };
        let moved = sent(letter, &outgoing);
        assert!(Mark::find(&moved.attributes).as_ref() == Some(&mark), "a mark reads back as written");
        let moved = Letter::parse_requeued(moved, &origins);
        assert_same(&moved, letter);
        assert_eq!(moved.dead_letter_queue(), letter.dead_letter_queue());
        assert_eq!(moved.spent(), mark.spent);
        assert_eq!(moved.earlier(), mark.requeued.earlier);
        assert_eq!(moved.generation(), mark.generation);
        assert_eq!(moved.first_arrival(), mark.first.min(moved.sqs.sent));
        // Anywhere else the requeue's part of the mark is not believed.
        let forged = Letter::parse(moved.sqs.clone());
        assert_eq!(forged.dead_letter_queue(), &forged.sqs.queue);
        assert_eq!(forged.id, letter.id);
    }
    for queue in [
        "arn:aws:sqs:eu-central-1:123456789012:payments",
        "arn:aws:sqs:eu-central-1:123456789012:payments.fifo",
    ] {
        let queue: Arn = queue.parse().unwrap();
        let Ok(outgoing) = OutgoingMessage::pack(letter, &queue, false, 3) else { continue };
        assert!(!outgoing.unmarked && outgoing.attributes.len() <= MAX_ATTRIBUTES);
        assert_eq!(outgoing.deduplication_id.is_some(), queue.is_fifo());
        assert!(outgoing.deduplication_id.as_ref().is_none_or(|id| id.len() == 43), "a hash in base64");
        // If the letter's form differs from its message's, it has the same mark wherever it comes back.
        let back =
            Letter::received(sent(letter, &outgoing), BelievedClaims { requeue: None, origins: &origins });
        assert_eq!((back.id.as_str(), back.spent()), (letter.id.as_str(), 3));
        assert_eq!(back.first_arrival(), letter.first_arrival());
    }
}

/// Returns the message that comes back from the queue to which this one was sent.
fn sent(letter: &Letter, outgoing: &OutgoingMessage<'_>) -> SqsMessage {
    assert!(outgoing.body == letter.sqs.body, "a queue gets the body byte for byte");
    assert!(outgoing.attributes.iter().any(|(name, _)| *name == MARK_ATTRIBUTE));
    let attributes = outgoing.attributes.iter();
    let attributes = attributes.map(|(name, value)| ((*name).to_owned(), value.clone().into_owned()));
    with_attributes(&letter.sqs, attributes.collect())
}

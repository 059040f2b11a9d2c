use super::*;

fn deduplication_id(post: &RecordBuilder, to: &str, retry: u32) -> String {
    let (letter, to) = (letter(post), elsewhere(to));
    let message = pack(&letter, &to, retry).unwrap();
    message.deduplication_id.unwrap()
}

#[test]
fn each_retry_has_a_new_deduplication_id_and_a_repeated_one_its_old() {
    let post = RecordBuilder::envelope("a").group("g").system("MessageDeduplicationId", "o-1017-placed");
    for to in [FIFO_WORKER, FIFO_TOPIC] {
        let ids: Vec<_> = (1..=100).map(|retry| deduplication_id(&post, to, retry)).collect();
        let again: Vec<_> = (1..=100).map(|retry| deduplication_id(&post, to, retry)).collect();
        assert_eq!(ids, again);
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), 100);
        assert!(ids.iter().all(|id| (1..=128).contains(&id.len())));
        // SQS and SNS take letters, digits and punctuation.
        assert!(ids.iter().all(|id| id.chars().all(|c| c.is_ascii_graphic())));
    }
}

/// SNS drops a message with a repeated id for five minutes. A copy that comes back from a topic has been sent
/// again.
#[test]
fn an_early_attempt_has_an_id_of_its_own_until_the_letter_was_sent_once_more() {
    let id = |passes: u32, retry: RetryNumber| {
        let mark = json!({ "v": 2, "spent": 1, "id": "letter", "first": NOW, "gen": 0, "passes": passes });
        let letter = letter(&RecordBuilder::raw("m", "x").group("g").mark(&mark));
        let message = OutgoingMessage::pack(&letter, &arn(FIFO_WORKER), false, retry).unwrap();
        message.deduplication_id.unwrap()
    };
    let early = RetryNumber { spent: 1, early: true };
    assert_eq!(id(1, early), id(1, early), "repeated after a crash");
    let different: std::collections::BTreeSet<_> =
        [id(1, early), id(2, early), id(1, 1.into()), id(1, 2.into())].into();
    assert_eq!(different.len(), 4);
}

/// SQS gives a message that comes back a new id and a new receipt handle, but the letter stays the same.
#[test]
fn the_deduplication_id_follows_the_letter_and_its_generation_and_not_the_message() {
    let first = mark(1, "letter", NOW);
    let id = |message: &str, mark: &serde_json::Value| {
        deduplication_id(&RecordBuilder::raw(message, "x").mark(mark), FIFO_WORKER, 2)
    };
    assert_eq!(id("m1", &first), id("m2", &first));
    assert_ne!(id("m1", &first), id("m1", &mark(1, "other letter", NOW)));
    let replayed = json!({ "v": 2, "spent": 1, "id": "letter", "first": NOW, "gen": 1 });
    assert_ne!(id("m1", &first), id("m1", &replayed));
}

#[test]
fn a_fifo_target_gets_the_letters_group_and_one_group_where_there_is_none() {
    for to in [FIFO_WORKER, FIFO_TOPIC] {
        let group = |post: &RecordBuilder| {
            pack(&letter(post), &elsewhere(to), 1).unwrap().group_id.map(str::to_owned)
        };
        assert_eq!(group(&RecordBuilder::envelope("a").group("customer-17")).as_deref(), Some("customer-17"));
        assert_eq!(group(&RecordBuilder::envelope("a")).as_deref(), Some("sns-redrive"));
    }
}

#[test]
fn a_standard_target_gets_a_fair_queue_group_and_no_deduplication_id() {
    for to in [WORKER, TOPIC] {
        let (fair, to) = (letter(&RecordBuilder::envelope("a").group("tenant-7")), elsewhere(to));
        let message = pack(&fair, &to, 1).unwrap();
        assert_eq!((message.group_id, message.deduplication_id), (Some("tenant-7"), None));
        let plain = letter(&RecordBuilder::envelope("a"));
        let message = pack(&plain, &to, 1).unwrap();
        assert_eq!((message.group_id, message.deduplication_id), (None, None));
    }
}

#[tokio::test]
async fn group_and_deduplication_id_are_in_the_request() {
    for to in [FIFO_WORKER, FIFO_TOPIC] {
        let cloud = TestAccount::new();
        let post = RecordBuilder::envelope("a").group("customer-17");
        assert_eq!(send(&cloud, vec![letter(&post)], to).await, [SendResult::Accepted]);
        let entry = &cloud.journal()[0].entries[0];
        assert_eq!(entry.group.as_deref(), Some("customer-17"));
        assert_eq!(entry.deduplication, Some(deduplication_id(&post, to, 1)));
    }
}

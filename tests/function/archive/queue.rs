use super::*;

fn with_attributes(post: RecordBuilder, count: usize) -> RecordBuilder {
    (0..count).fold(post, |post, number| post.attribute(&format!("a{number}"), "String", "x"))
}

async fn archived(post: &RecordBuilder, queue: &str) -> SimEntry {
    let cloud = TestAccount::new();
    cloud.queue(queue.rsplit(':').next().unwrap(), &[]);
    assert_eq!(store(&in_queue(&cloud, queue), &[letter(post)]).await, [Ok(())]);
    let mut entries = cloud.entries("SendMessageBatch");
    assert_eq!((cloud.journal().len(), entries.len()), (1, 1));
    entries.remove(0)
}

#[tokio::test]
async fn body_and_attributes_are_unchanged_and_the_record_is_one_attribute_more() {
    let post = RecordBuilder::raw("r", "{ \"as\" :  \"it was\" }")
        .attribute("tenant", "String", "gold")
        .attribute("checksum", "Binary", "AAECA/3+/w==")
        .mark(&mark(3, "r", NOW))
        .group("customer-20")
        .system("AWSTraceHeader", "Root=1-2");
    let mut entry = archived(&post, ARCHIVE_QUEUE).await;
    let SimAttribute { kind, value } = entry.attributes.remove("sns-redrive-archive").unwrap();
    assert_eq!(kind, "String");
    assert_eq!(
        serde_json::from_str::<Value>(&value.text()).unwrap(),
        json!({
            "version": 1,
            "archivedAt": "2026-11-01T12:00:00Z",
            "reason": "unrecognised",
            "queueArn": DLQ,
            "deadLetterQueueArn": DLQ,
            "letterId": "r",
            "origin": "raw",
            "rule": "default",
            "sqsMessageId": "r",
        })
    );
    let attributes = [
        ("tenant", attribute("String", "gold")),
        ("checksum", attribute("Binary", "AAECA/3+/w==")),
        ("sns-redrive", attribute("String", &made_for(&post.body(), mark(3, "r", NOW)).to_string())),
    ];
    let attributes = attributes.map(|(name, it)| (name.to_owned(), it));
    assert_eq!(
        entry,
        SimEntry {
            body: post.body(),
            attributes: attributes.into(),
            group: Some("customer-20".to_owned()),
            trace: Some("Root=1-2".to_owned()),
            ..SimEntry::new("0", "")
        }
    );
}

#[tokio::test]
async fn the_record_is_left_out_where_ten_attributes_are_there_already() {
    let entry = archived(&with_attributes(RecordBuilder::raw("r", "x"), 9), ARCHIVE_QUEUE).await;
    assert_eq!(entry.attributes.len(), 10);
    assert!(entry.attributes.contains_key("sns-redrive-archive"));

    let entry = archived(&with_attributes(RecordBuilder::raw("r", "x"), 10), ARCHIVE_QUEUE).await;
    assert_eq!(entry.attributes.len(), 10);
    assert!(!entry.attributes.contains_key("sns-redrive-archive"));
}

#[tokio::test]
async fn a_letter_that_was_archived_before_gets_the_newest_record() {
    let before = RecordBuilder::raw("r", "x").attribute("sns-redrive-archive", "String", "an old record");
    let entry = archived(&before, ARCHIVE_QUEUE).await;
    assert_eq!(entry.attributes.len(), 1);
    assert!(entry.attributes["sns-redrive-archive"].value.text().starts_with('{'));
}

/// A message with attributes is at most 1 MiB. If both do not fit, the body matters more than our record.
#[tokio::test]
async fn the_record_is_left_out_where_the_message_would_grow_too_large() {
    const LIMIT: usize = 1024 * 1024;
    let entry = archived(&RecordBuilder::raw("r", "x"), ARCHIVE_QUEUE).await;
    let record = &entry.attributes["sns-redrive-archive"].value.text();
    let around = "sns-redrive-archive".len() + "String".len() + record.len();
    for (bytes, attributes) in [(LIMIT - around, 1), (LIMIT - around + 1, 0), (LIMIT, 0)] {
        let entry = archived(&RecordBuilder::raw("r", &"x".repeat(bytes)), ARCHIVE_QUEUE).await;
        assert_eq!((entry.body.len(), entry.attributes.len()), (bytes, attributes));
    }
}

#[tokio::test]
async fn every_sample_arrives_byte_for_byte() {
    for (name, event) in samples() {
        let cloud = TestAccount::new();
        let letters = letters_of(&event);
        store(&in_queue(&cloud, ARCHIVE_QUEUE), &letters).await;
        let bodies: Vec<_> = cloud.entries("SendMessageBatch").into_iter().map(|entry| entry.body).collect();
        let stored: Vec<_> = letters.into_iter().map(|letter| letter.sqs.body).collect();
        assert_eq!(bodies, stored, "{name}");
    }
}

#[tokio::test]
async fn ten_letters_cost_one_call() {
    let cloud = TestAccount::new();
    assert_eq!(store(&in_queue(&cloud, ARCHIVE_QUEUE), &raws(25)).await, vec![Ok(()); 25]);
    let summary = ["10", "10", "5"].map(|count| format!("SendMessageBatch payments-archive {count}"));
    assert_eq!(cloud.summary(), summary);
}

/// SQS drops the second of two equal ids for five minutes, so an invocation that is repeated after a crash
/// archives once.
#[tokio::test]
async fn in_a_fifo_archive_the_message_id_keeps_copies_out() {
    let entry = archived(&RecordBuilder::raw("r", "x").group("customer-17"), FIFO_ARCHIVE).await;
    assert_eq!(entry.deduplication.as_deref(), Some("r"));
    assert_eq!(entry.group.as_deref(), Some("customer-17"));
    let entry = archived(&RecordBuilder::raw("r", "x"), FIFO_ARCHIVE).await;
    assert_eq!(entry.group.as_deref(), Some("sns-redrive"));
}

#[tokio::test]
async fn a_letter_that_the_archive_queue_did_not_take_is_named_alone() {
    let cloud = TestAccount::new();
    cloud.script(|call| SimFault::except(call, "body of m1.", EntryFault::service("InternalError", "oh")));
    let failure = Failure::ours(FailureClass::Transient, "InternalError");
    assert_eq!(store(&in_queue(&cloud, ARCHIVE_QUEUE), &raws(3)).await, [Ok(()), Err(failure), Ok(())]);

    cloud.script(|call| SimFault::except(call, "body of m1.", EntryFault::Missing));
    let failure = Failure::ours(FailureClass::Transient, "NoAnswer");
    assert_eq!(store(&in_queue(&cloud, ARCHIVE_QUEUE), &raws(3)).await, [Ok(()), Err(failure), Ok(())]);
}

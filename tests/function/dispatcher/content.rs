use super::*;

/// Sends a letter, and returns the only entry of the only request.
async fn sent(letter: &Letter, to: Destination, retry: u32) -> SimEntry {
    let cloud = TestAccount::new();
    let pack = |unmarked| DeliveryPayload::pack(letter, &to, unmarked, retry);
    let payload = pack(false).or_else(|_| pack(true)).unwrap();
    let waiting = PendingDelivery {
        to: &to.endpoint,
        payload: &payload,
        not_before: Instant::now(),
        at_once: usize::MAX,
        purpose: RequestPurpose::Other,
    };
    let answers = dispatcher(&cloud.clients())
        .deliver(&[waiting], DeliveryWindow::until(in_time()), &mut Health::default())
        .await;
    assert_eq!(answers, [SendResult::Accepted]);
    let mut entries: Vec<_> = cloud.journal().into_iter().flat_map(|call| call.entries).collect();
    assert_eq!(entries.len(), 1);
    entries.remove(0)
}

fn typed() -> RecordBuilder {
    RecordBuilder::envelope("a")
        .subject("Order placed")
        .sns_attribute("tenant", "String", "gold & <b>=+%")
        .sns_attribute("priority", "Number", "1.50")
        .sns_attribute("tags", "String.Array", r#"["new", 7, true, null]"#)
        .sns_attribute("checksum", "Binary", "AAECA/3+/w==")
}

#[tokio::test]
async fn a_topic_gets_message_subject_attributes_with_their_types_group_and_mark() {
    let letter = letter(&typed().group("customer-20").system("AWSTraceHeader", "Root=1-2"));
    assert_eq!(
        sent(&letter, elsewhere(TOPIC), 4).await,
        SimEntry {
            body: "message of a".to_owned(),
            subject: Some("Order placed".to_owned()),
            attributes: attributes(&[
                ("tenant", "String", "gold & <b>=+%"),
                ("priority", "Number", "1.50"),
                ("tags", "String.Array", r#"["new", 7, true, null]"#),
                ("checksum", "Binary", "AAECA/3+/w=="),
                ("sns-redrive", "String", &published(&mark_text(4, &letter_id("a"), NOW, "message of a"), 1)),
            ]),
            group: Some("customer-20".to_owned()),
            trace: Some("Root=1-2".to_owned()),
            ..SimEntry::new("0", "")
        }
    );
}

#[tokio::test]
async fn the_queue_of_a_subscription_gets_the_stored_body_byte_for_byte() {
    let post = typed().group("customer-20").system("AWSTraceHeader", "Root=1-2");
    assert_eq!(
        sent(&letter(&post), endpoint(WORKER), 1).await,
        SimEntry {
            body: post.body(),
            attributes: attributes(&[(
                "sns-redrive",
                "String",
                &mark_text(1, &letter_id("a"), NOW, "message of a")
            )]),
            group: Some("customer-20".to_owned()),
            trace: Some("Root=1-2".to_owned()),
            ..SimEntry::new("0", "")
        }
    );
}

#[tokio::test]
async fn a_raw_letter_keeps_body_and_attributes_on_its_way_to_a_queue_and_to_a_topic() {
    let body = r#"{ "spaces" : 1 }"#;
    let post = RecordBuilder::raw("r", body)
        .attribute("tenant", "String", "silver")
        .attribute("priority", "Number", "1.50")
        .attribute("price", "Number.euro", "7")
        .attribute("checksum", "Binary", "AAECA/3+/w==")
        .attribute("picture", "Binary.png", "iVBORw==");
    let mark = mark_text(2, "r", NOW, body);
    for (to, mark) in [(WORKER, &mark), (TOPIC, &published(&mark, 1))] {
        assert_eq!(
            sent(&letter(&post), elsewhere(to), 2).await,
            SimEntry {
                body: body.to_owned(),
                attributes: attributes(&[
                    ("tenant", "String", "silver"),
                    ("priority", "Number", "1.50"),
                    ("price", "Number.euro", "7"),
                    ("checksum", "Binary", "AAECA/3+/w=="),
                    ("picture", "Binary.png", "iVBORw=="),
                    ("sns-redrive", "String", mark),
                ]),
                ..SimEntry::new("0", "")
            },
            "{to}"
        );
    }
}

/// Odd Unicode, control characters, brackets and deep nesting are sent as they are in the queue.
#[tokio::test]
async fn every_sample_reaches_a_queue_byte_for_byte() {
    for (name, event) in samples() {
        for letter in letters_of(&event) {
            let entry = sent(&letter, elsewhere(WORKER), 1).await;
            assert_eq!(entry.body, letter.sqs.body, "{name}");
        }
    }
    let odd = letters_of(&sample("garbage")).remove(5);
    assert_eq!(sent(&odd, elsewhere(TOPIC), 1).await.body, odd.sqs.body);
}

/// A letter that comes back has its mark in the envelope (from a topic) or as an SQS attribute (from a raw
/// subscription). The next delivery replaces it.
#[tokio::test]
async fn the_mark_is_replaced_and_keeps_id_first_arrival_and_generation() {
    let old = json!({ "v": 2, "spent": 3, "id": "first/id", "first": 1_700_000_000_000_i64, "gen": 2 });
    let new = |message: &str| {
        let fields = r#""v":2,"spent":5,"id":"first/id","first":1700000000000,"gen":2"#;
        format!(r#"{{{fields},"msg":"{}","passes":4}}"#, digest(message))
    };
    for post in [
        RecordBuilder::envelope("a").mark(&old),
        RecordBuilder::envelope("a").sqs_mark(&old),
        RecordBuilder::raw("r", "x").mark(&old),
    ] {
        let letter = letter(&post);
        let new = new(&letter.message());
        let times = letter.published();
        let to_queue = if times == 0 { new.clone() } else { published(&new, times) };
        for (to, new) in [(endpoint(WORKER), &to_queue), (elsewhere(TOPIC), &published(&new, times + 1))] {
            let entry = sent(&letter, to, 5).await;
            assert_eq!(entry.attributes, attributes(&[("sns-redrive", "String", new)]));
        }
    }
}

#[tokio::test]
async fn the_mark_stays_as_small_as_it_was_over_fifty_round_trips() {
    let mut raw = RecordBuilder::raw("r", "x");
    let mut wrapped = RecordBuilder::envelope("a");
    for retry in 1..=50 {
        let to_queue = sent(&letter(&raw), elsewhere(WORKER), retry).await;
        let to_topic = sent(&letter(&wrapped), elsewhere(TOPIC), retry).await;
        assert_eq!(
            to_queue.attributes,
            attributes(&[("sns-redrive", "String", &mark_again(retry, retry, "r", NOW, "x"))])
        );
        let mark = mark_again(retry, retry, &letter_id("a"), NOW, "message of a");
        assert_eq!(to_topic.attributes, attributes(&[("sns-redrive", "String", &published(&mark, retry))]));
        let SimAttribute { kind, value } = &to_queue.attributes["sns-redrive"];
        // The letter comes back as a new message, later.
        raw = RecordBuilder::raw(&format!("r-{retry}"), &to_queue.body)
            .attribute("sns-redrive", kind, &value.text())
            .sent(NOW + i64::from(retry));
        let SimAttribute { kind, value } = &to_topic.attributes["sns-redrive"];
        wrapped = RecordBuilder::envelope(&format!("a-{retry}"))
            .message(&to_topic.body)
            .sns_attribute("sns-redrive", kind, &value.text())
            .sent(NOW + i64::from(retry));
    }
}

fn with_attributes(post: RecordBuilder, count: usize) -> RecordBuilder {
    (0..count).fold(post, |post, number| post.attribute(&format!("a{number}"), "String", "x"))
}

#[tokio::test]
async fn the_mark_may_be_the_tenth_attribute() {
    let letter = letter(&with_attributes(RecordBuilder::raw("r", "x"), 9));
    let mark = mark_text(1, "r", NOW, "x");
    for (to, mark) in [(endpoint(WORKER), &mark), (elsewhere(TOPIC), &published(&mark, 1))] {
        let entry = sent(&letter, to, 1).await;
        assert_eq!(entry.attributes.len(), 10);
        assert_eq!(&entry.attributes["sns-redrive"].value.text(), mark);
    }
}

#[tokio::test]
async fn a_mark_among_ten_attributes_is_replaced() {
    let post = with_attributes(RecordBuilder::raw("r", "x"), 9).mark(&mark(1, "r", NOW));
    let entry = sent(&letter(&post), elsewhere(TOPIC), 2).await;
    assert_eq!(entry.attributes.len(), 10);
    let mark = mark_again(2, 2, "r", NOW, "x");
    assert_eq!(entry.attributes["sns-redrive"].value.text(), published(&mark, 1));
}

#[tokio::test]
async fn where_the_mark_would_be_the_eleventh_the_letter_goes_only_without_it() {
    let letter = letter(&with_attributes(RecordBuilder::raw("r", "x"), 10));
    let entry = sent(&letter, endpoint(WORKER), 1).await;
    assert_eq!(entry.attributes.keys().filter(|name| name.starts_with('a')).count(), 10);
    assert_eq!(entry.attributes.len(), 10);
    assert_eq!(pack(&letter, &endpoint(WORKER), 1), Err(CannotPack::Unmarkable));
    assert_eq!(pack(&letter, &elsewhere(TOPIC), 1), Err(CannotPack::Unmarkable));
}

/// SNS takes more than ten attributes. A raw subscription does not, so SNS would drop the message.
#[tokio::test]
async fn an_envelope_of_ten_attributes_is_no_hindrance_for_a_queue_but_for_a_topic() {
    let full = (0..10)
        .fold(RecordBuilder::envelope("a"), |post, n| post.sns_attribute(&format!("a{n}"), "String", "x"));
    let letter = letter(&full);
    assert_eq!(sent(&letter, elsewhere(WORKER), 1).await.attributes.len(), 1);
    assert_eq!(pack(&letter, &elsewhere(TOPIC), 1), Err(CannotPack::Unmarkable));
}

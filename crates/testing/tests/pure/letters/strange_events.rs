//! Events that Lambda never sends.

use super::*;

fn refused(event: &Value) -> BadEvent {
    let event: SqsEvent = serde_json::from_value(event.clone()).unwrap();
    SqsMessage::all_of(event, at(NOW)).unwrap_err()
}

/// Returns the fault of one record among others.
fn problem(record: &Value) -> String {
    let messages = received_all(&[super::record("hello"), record.clone()]);
    let [good, bad] = <[_; 2]>::try_from(messages).unwrap();
    assert_eq!(good.unread, None);
    bad.unread.unwrap().problem
}

#[test]
fn a_record_that_cannot_be_read_says_where() {
    for (pointer, value, field) in [
        ("/messageId", json!(null), "messageId"),
        ("/messageId", json!(""), "messageId"),
        ("/receiptHandle", json!(null), "receiptHandle"),
        ("/receiptHandle", json!(""), "receiptHandle"),
        ("/eventSourceARN", json!(null), "eventSourceARN"),
        ("/eventSourceARN", json!("payments-dlq"), "eventSourceARN"),
        ("/attributes/SentTimestamp", json!("soon"), "SentTimestamp"),
        ("/attributes/SentTimestamp", json!("99999999999999999"), "SentTimestamp"),
        ("/attributes/ApproximateFirstReceiveTimestamp", json!(""), "ApproximateFirstReceiveTimestamp"),
        ("/attributes/ApproximateReceiveCount", json!("0"), "ApproximateReceiveCount"),
        ("/attributes/ApproximateReceiveCount", json!("many"), "ApproximateReceiveCount"),
        ("/attributes/ApproximateReceiveCount", json!("-1"), "ApproximateReceiveCount"),
    ] {
        let mut bad = record("hello");
        *bad.pointer_mut(pointer).unwrap() = value.clone();
        let expected = format!("Records[1].{field} is missing or has no usable value");
        assert_eq!(problem(&bad), expected, "{pointer}: {value}");
    }
    for field in ["SentTimestamp", "ApproximateFirstReceiveTimestamp", "ApproximateReceiveCount"] {
        let mut bad = record("hello");
        bad["attributes"].as_object_mut().unwrap().remove(field);
        assert_eq!(problem(&bad), format!("Records[1].{field} is missing or has no usable value"));
    }
}

/// What cannot be read cannot be guessed either: a letter that arrived at the beginning of time would have
/// expired long ago.
#[test]
fn a_record_without_times_arrived_now() {
    let mut bad = record("hello");
    bad["attributes"] = json!(null);
    let message = received(&bad);
    let times = (message.sent, message.first_received, message.receive_count);
    assert_eq!(times, (at(NOW), at(NOW), 1));
}

#[test]
fn attributes_that_are_null_or_left_out_are_none() {
    for attributes in [json!({ "messageAttributes": null }), json!({})] {
        let mut bare = record("hello");
        bare.as_object_mut().unwrap().remove("messageAttributes");
        bare.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
        assert!(letter(&bare).sqs.attributes.is_empty(), "{attributes}");
    }
}

#[test]
fn an_attribute_without_the_value_of_its_type_is_empty_and_fails_no_batch() {
    let text = |text: &str| AttributeValue::Text(text.into());
    for (attribute, value) in [
        (json!({ "stringListValues": [], "binaryListValues": [], "dataType": "String" }), text("")),
        (json!({ "stringValue": "x", "dataType": "Binary" }), AttributeValue::Binary(Vec::new())),
        (json!({ "stringValue": "x", "stringListValues": [], "binaryListValues": [] }), text("x")),
    ] {
        let mut odd = record("hello");
        odd["messageAttributes"]["a"] = attribute;
        assert_eq!(letter(&odd).sqs.attributes["a"].value, value);
    }
}

#[test]
fn what_is_no_id_is_taken_neither_from_a_mark_nor_from_a_message() {
    for id in ["a b", "a\nb", "<script>", "{\"a\":1}", "\u{e4}"] {
        let mark = MessageAttribute::string(made_for("hello", redrive_testing::mark(3, id, 0)).to_string());
        assert_eq!(Mark::find(&[(MARK_ATTRIBUTE.to_owned(), mark)].into()), None, "{id}");
        let mut body: Value = serde_json::from_str(&only("envelope.json").sqs.body).unwrap();
        body["MessageId"] = id.into();
        let found = letter(&record(&body.to_string()));
        assert_eq!(found.id.as_str(), found.sqs.message_id, "{id}");
    }
}

#[test]
fn an_event_of_two_queues_is_refused() {
    let mut other = record("hello");
    other["eventSourceARN"] = "arn:aws:sqs:eu-central-1:123456789012:requeue".into();
    let found = refused(&json!({ "Records": [record("1"), record("2"), other] }));
    let expected = BadEvent::TwoQueues {
        index: 2,
        expected: arn(DLQ),
        found: arn("arn:aws:sqs:eu-central-1:123456789012:requeue"),
    };
    assert_eq!(found, expected);
    assert_eq!(
        found.to_string(),
        format!(
            "Records[2] is from arn:aws:sqs:eu-central-1:123456789012:requeue, but the first record is from {DLQ}"
        )
    );
}

#[test]
fn an_event_without_records_holds_no_messages() {
    assert!(received_all(&[]).is_empty());
    let mut bodiless = record("");
    bodiless.as_object_mut().unwrap().remove("body");
    assert_eq!(received(&bodiless).body, "");
}

#[test]
fn attributes_with_a_custom_type_keep_it() {
    let mut record = record("hello");
    record["messageAttributes"] = json!({
        "picture": { "binaryValue": "AAEC", "stringListValues": [], "binaryListValues": [], "dataType": "Binary.png" },
        "price": { "stringValue": "1.50", "stringListValues": [], "binaryListValues": [], "dataType": "Number.eur" },
    });
    let expected = attributes([
        (
            "picture",
            MessageAttribute { data_type: "Binary.png".into(), value: AttributeValue::Binary(vec![0, 1, 2]) },
        ),
        ("price", text("Number.eur", "1.50")),
    ]);
    assert!(received(&record).attributes == expected);
    assert_eq!(expected["picture"].size(), 13, "type and value count towards the size limits");
}

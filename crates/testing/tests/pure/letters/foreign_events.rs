//! The shapes of events that others make: samples of libraries, emulators of Lambda, and code that calls the
//! function by hand. Each is read as far as it goes, or kept whole.

use super::*;

/// What becomes of a record.
#[derive(Debug, PartialEq)]
enum RecordShape {
    /// It is a message.
    Read,
    /// It is kept whole, because of this field.
    Kept(&'static str),
}

use RecordShape::{Kept, Read};

/// Returns a record as Lambda's own pages show it, with other fields.
fn like_the_docs(change: &Value) -> Value {
    let mut record = record("body");
    for (name, value) in change.as_object().unwrap() {
        record[name] = value.clone();
    }
    record
}

fn without(field: &str) -> Value {
    let mut record = record("body");
    record.as_object_mut().unwrap().remove(field);
    record
}

fn attributes_of(attributes: &Value) -> Value {
    like_the_docs(&json!({ "messageAttributes": attributes }))
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of shapes")]
fn records_of_other_makers_are_read_or_kept_whole() {
    let system = |change: &Value| {
        let mut record = record("body");
        record["attributes"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        record
    };
    let shapes = [
        ("samples of the docs", record("body"), Read),
        ("no message attributes at all", without("messageAttributes"), Read),
        ("md5 of attributes that is null", like_the_docs(&json!({ "md5OfMessageAttributes": null })), Read),
        ("fields that no one knows", like_the_docs(&json!({ "invokedBy": { "test": [1] } })), Read),
        ("no body", without("body"), Read),
        ("a body that is null", like_the_docs(&json!({ "body": null })), Read),
        ("attributes that are null", like_the_docs(&json!({ "messageAttributes": null })), Read),
        (
            "a FIFO queue",
            system(&json!({ "SequenceNumber": "18849496460467696128", "MessageGroupId": "1",
            "MessageDeduplicationId": "1" })),
            Read,
        ),
        ("a queue in FIFO notation", like_the_docs(&json!({ "eventSourceARN": FIFO_DLQ })), Read),
        ("seconds for milliseconds", system(&json!({ "SentTimestamp": "1000000" })), Read),
        (
            "an ARN of placeholders",
            like_the_docs(&json!({ "eventSourceARN": "arn:aws:sqs:region:account:queue" })),
            Kept("eventSourceARN"),
        ),
        (
            "lists of values",
            attributes_of(&json!({ "a": { "stringValue": "x", "stringListValues": ["a", "b"],
            "binaryListValues": ["Y2FyYg==", "bm90IGE="], "dataType": "String" } })),
            Read,
        ),
        ("an attribute without a type", attributes_of(&json!({ "a": { "stringValue": "x" } })), Read),
        (
            "fields in PascalCase",
            attributes_of(&json!({ "a": { "StringValue": "x", "DataType": "String" } })),
            Read,
        ),
        (
            "fields in both spellings",
            attributes_of(&json!({ "a": { "stringValue": "x", "StringValue": "x", "dataType": "String",
            "DataType": "String" } })),
            Read,
        ),
        (
            "bytes that are no base64",
            attributes_of(&json!({ "a": { "stringValue": "100", "binaryValue": "base64Str",
            "dataType": "Number" } })),
            Kept("messageAttributes"),
        ),
        ("an attribute that is a text", attributes_of(&json!({ "a": "x" })), Kept("messageAttributes")),
        (
            "an attribute that is a number",
            attributes_of(&json!({ "a": { "stringValue": 1, "dataType": "Number" } })),
            Kept("messageAttributes"),
        ),
        (
            "attributes as a list",
            like_the_docs(&json!({ "messageAttributes": [] })),
            Kept("messageAttributes"),
        ),
        ("a body that is an object", like_the_docs(&json!({ "body": { "url": "x" } })), Kept("body")),
        ("a body that is a list", like_the_docs(&json!({ "body": [1] })), Kept("body")),
        ("no system attributes", without("attributes"), Kept("attributes")),
        (
            "system attributes that are null",
            like_the_docs(&json!({ "attributes": null })),
            Kept("attributes"),
        ),
        (
            "system attributes that are empty",
            like_the_docs(&json!({ "attributes": {} })),
            Kept("SentTimestamp"),
        ),
        (
            "the receives alone",
            like_the_docs(&json!({ "attributes": { "ApproximateReceiveCount": "1" } })),
            Kept("SentTimestamp"),
        ),
        ("times as numbers", system(&json!({ "SentTimestamp": NOW })), Kept("attributes")),
        (
            "times in words",
            system(&json!({ "SentTimestamp": "2026-11-01T12:00:00Z" })),
            Kept("SentTimestamp"),
        ),
        (
            "an id and a body",
            json!({ "messageId": "m", "body": "body", "eventSource": "aws:sqs" }),
            Kept("receiptHandle"),
        ),
        (
            "SQS's own names",
            json!({ "MessageId": "m", "ReceiptHandle": "h", "Body": "body", "Attributes": {},
            "MD5OfBody": "x" }),
            Kept("messageId"),
        ),
        ("an empty record", json!({}), Kept("messageId")),
        ("null", json!(null), Kept("")),
    ];
    for (what, given, expected) in shapes {
        let mut neighbour = record("neighbour");
        if let Some(arn) = given["eventSourceARN"].as_str().filter(|arn| arn.parse::<Arn>().is_ok()) {
            neighbour["eventSourceARN"] = arn.into();
        }
        let messages = received_all(&[neighbour, given.clone()]);
        let [neighbour, message] = <[SqsMessage; 2]>::try_from(messages).unwrap();
        assert_eq!((neighbour.body.as_str(), &neighbour.unread), ("neighbour", &None), "{what}");
        let found = match &message.unread {
            None => Read,
            Some(unread) => {
                let whole: Value = serde_json::from_str(&unread.record).unwrap();
                let mut came = given.clone();
                if came.get("receiptHandle").is_some() {
                    came["receiptHandle"] = json!("");
                }
                assert_eq!(whole, came, "{what}");
                let field = unread.problem.strip_prefix("Records[1].").and_then(|it| it.split(' ').next());
                let known = [
                    "messageId",
                    "receiptHandle",
                    "body",
                    "eventSourceARN",
                    "attributes",
                    "messageAttributes",
                    "SentTimestamp",
                ];
                Kept(known.into_iter().find(|known| Some(*known) == field).unwrap_or_default())
            }
        };
        assert_eq!(found, expected, "{what}");
        // Whatever it is, it is a letter.
        let _ = claiming(message);
    }
}

#[test]
fn attributes_in_either_spelling_have_their_values() {
    let given = attributes_of(&json!({
        "capital": { "StringValue": "x", "DataType": "String" },
        "bytes": { "BinaryValue": "AAEC", "DataType": "Binary" },
        "usual": { "stringValue": "7", "dataType": "Number" },
        "both": { "stringValue": "x", "StringValue": "y", "dataType": "String", "DataType": "Number" },
        "mixed": { "binaryValue": null, "BinaryValue": "AAEC", "dataType": "Binary" },
    }));
    let bytes =
        || MessageAttribute { data_type: "Binary".into(), value: AttributeValue::Binary(vec![0, 1, 2]) };
    let expected = attributes([
        ("capital", text("String", "x")),
        ("bytes", bytes()),
        ("usual", text("Number", "7")),
        ("both", text("String", "x")),
        ("mixed", bytes()),
    ]);
    assert!(received(&given).attributes == expected);
}

/// Bodies that other services write, and that look like each other.
#[test]
fn bodies_of_other_makers_have_their_origin() {
    let envelope = |change: &Value| {
        let mut body: Value = serde_json::from_str(&envelope("hello", &json!({}))).unwrap();
        for (name, value) in change.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let sns = json!({ "Type": "Notification", "MessageId": "m", "TopicArn": TOPIC, "Message": "x",
        "MessageAttributes": {} });
    let to_function = |records: usize| {
        let one = json!({ "EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": SUBSCRIPTION,
            "Sns": sns });
        json!({ "Records": vec![one; records] })
    };
    for (what, body, origin) in [
        ("a notification", envelope(&json!({})), "sns"),
        ("one without attributes", envelope(&json!({ "MessageAttributes": null })), "sns"),
        (
            "one of a FIFO topic, unsigned",
            envelope(&json!({ "SequenceNumber": "1", "Signature": null })),
            "sns",
        ),
        (
            "one in the spelling for functions",
            envelope(&json!({ "SigningCertUrl": "https://x/y.pem" })),
            "sns",
        ),
        ("one whose message is a list", envelope(&json!({ "Message": [] })), "raw"),
        ("one without a topic", envelope(&json!({ "TopicArn": "topic" })), "raw"),
        (
            "a request to confirm",
            envelope(&json!({ "Type": "SubscriptionConfirmation", "Token": "t" })),
            "raw",
        ),
        (
            "a confirmation of the end",
            envelope(&json!({ "Type": "UnsubscribeConfirmation", "Token": "t" })),
            "raw",
        ),
        ("an event for a function", to_function(1), "raw"),
        ("an event of two for a function", to_function(2), "raw"),
        (
            "an event of S3",
            json!({ "Records": [{ "eventSource": "aws:s3", "eventName": "ObjectCreated:Put",
            "s3": { "bucket": { "name": "b" }, "object": { "key": "k" } } }] }),
            "raw",
        ),
        (
            "the test event of S3",
            json!({ "Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b" }),
            "raw",
        ),
        (
            "an event of EventBridge",
            json!({ "version": "0", "id": "1", "detail-type": "x", "source": "a",
            "detail": {} }),
            "raw",
        ),
        (
            "a stream's batch",
            json!({ "requestContext": { "requestId": "r", "functionArn": PROJECTOR,
            "condition": "RetryAttemptsExhausted", "approximateInvokeCount": 1 }, "version": "1.0",
            "KinesisBatchInfo": { "shardId": "s" } }),
            "raw",
        ),
        (
            "a destination's record",
            json!({ "version": "1.0", "requestContext": { "functionArn": PROJECTOR,
            "condition": "RetriesExhausted" }, "requestPayload": {}, "responsePayload": null }),
            "lambda-destination",
        ),
        (
            "a destination's record of a success",
            json!({ "version": "1.0", "requestContext": {
            "functionArn": PROJECTOR, "condition": "Success" }, "requestPayload": {} }),
            "raw",
        ),
        (
            "a record of a custom bus",
            json!({ "version": "1.0", "subscriberArn": "s", "failedMessages": [],
            "busArn": "arn:aws:events:eu-central-1:123456789012:event-busv2/overrides" }),
            "eventbridge-bus",
        ),
    ] {
        let letter = letter(&record(&body.to_string()));
        assert_eq!(letter.origin.name(), origin, "{what}: {body}");
        assert_eq!(letter.sqs.body, body.to_string(), "{what}");
    }
}

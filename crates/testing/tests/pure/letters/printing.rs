//! The parts of a letter that are printed, and those that never are.

use super::*;

const SECRETS: [&str; 8] = [
    "s3cret-body",
    "s3cret-subject",
    "s3cret-message",
    "s3cret-value",
    "czNjcmV0", // base64 of "s3cret"
    "s3cret-handle",
    "s3cret-error",
    "Unsubscribe",
];

/// Returns one letter of each origin, with a secret in every place for text that must not be logged.
fn letters_with_secrets() -> Vec<Letter> {
    let secret = json!({ "a": { "Type": "String", "Value": "s3cret-value" }, "b": { "Type": "Binary", "Value": "czNjcmV0" } });
    let mut body: Value = serde_json::from_str(&envelope("s3cret-message", &secret)).unwrap();
    body["Subject"] = "s3cret-subject".into();
    let mut event = lambda_record();
    event["Sns"]["Message"] = "s3cret-message".into();
    event["Sns"]["Subject"] = "s3cret-subject".into();
    event["Sns"]["MessageAttributes"] = secret;
    event["Sns"]["UnsubscribeUrl"] = body["UnsubscribeURL"].clone();
    let event = json!({ "Records": [event] });
    let function = "arn:aws:lambda:eu-central-1:123456789012:function:f";
    let destination = json!({ "requestContext": { "functionArn": function, "condition": "RetriesExhausted" },
        "requestPayload": event, "responsePayload": { "errorType": "E", "errorMessage": "s3cret-error" } });

    let mut moved = record(&body.to_string());
    moved["attributes"]["DeadLetterQueueSourceArn"] = DLQ.into();
    let mut lambda = with_lambda_attributes(&event.to_string());
    lambda["messageAttributes"]["ErrorMessage"] = text_attribute("s3cret-error");
    let mut eventbridge = record("s3cret-body");
    eventbridge["messageAttributes"] = json!({ "RULE_ARN": text_attribute(DLQ), "TARGET_ARN": text_attribute(DLQ),
        "ERROR_CODE": text_attribute("NO_PERMISSIONS"), "ERROR_MESSAGE": text_attribute("s3cret-error") });
    let records = [
        record(&body.to_string()),
        moved,
        lambda,
        record(&destination.to_string()),
        eventbridge,
        record("s3cret-body"),
    ];
    let letters: Vec<_> = records
        .into_iter()
        .map(|mut record| {
            record["receiptHandle"] = "s3cret-handle".into();
            record["attributes"]["AWSTraceHeader"] = "s3cret-value".into();
            record["messageAttributes"]["secret"] = text_attribute("s3cret-value");
            record["messageAttributes"]["bytes"] =
                json!({ "binaryValue": "czNjcmV0", "stringListValues": [], "binaryListValues": [], "dataType": "Binary" });
            letter(&record)
        })
        .collect();
    let origins: Vec<_> = letters.iter().map(|letter| letter.origin.name()).collect();
    assert_eq!(origins, ["sns", "sqs", "lambda-async", "lambda-destination", "eventbridge", "raw"]);
    letters
}

#[test]
fn nothing_that_a_letter_carries_is_printed() {
    for letter in letters_with_secrets() {
        let values = letter
            .sqs
            .attributes
            .values()
            .chain(letter.notification.iter().flat_map(|sns| sns.attributes.values()));
        let mut printed = vec![
            format!("{letter:?}"),
            format!("{letter:#?}"),
            format!("{:?}", letter.sqs),
            format!("{:#?}", letter.notification),
            format!("{:#?}", letter.cause),
            format!("{:#?}", letter.mark),
            format!("{:?} {}", letter.id, letter.id),
            format!("{:?}", letter.origin),
            format!("{:?}", letter.sqs.attributes),
        ];
        printed.extend(values.map(|value| format!("{value:?} {:?}", value.value)));
        for text in printed {
            for secret in SECRETS {
                assert!(!text.contains(secret), "{secret} of a {} letter in {text}", letter.origin.name());
            }
            assert!(!text.contains("115, 51, 99"), "bytes of a {} letter in {text}", letter.origin.name());
        }
    }
}

#[test]
fn what_an_operator_needs_is_printed() {
    let printed = format!("{:?}", only("lambda-async.json"));
    for needed in
        ["2dc787db-a6b8-41ca-89e0-8edfe6fe0075", "LambdaAsync", TOPIC, FUNCTION_SUBSCRIPTION, DLQ, "200"]
    {
        assert!(printed.contains(needed), "{needed} in {printed}");
    }
    let sns = format!("{:?}", only("envelope.json").notification);
    for needed in ["message_id", TOPIC, SUBSCRIPTION] {
        assert!(sns.contains(needed), "{needed} in {sns}");
    }
    let (number, bytes) = (text("Number", "3"), binary(&[1, 2]));
    assert_eq!(format!("{number:?}, {bytes:?}"), "Number of 7 bytes, Binary of 8 bytes");
    assert_eq!(format!("{:?}, {:?}", number.value, bytes.value), "Text, Binary");
    assert_eq!(at(NOW).to_string(), "2026-11-01T12:00:00Z");
}

/// A function that failed is called again with this event.
#[test]
fn the_event_that_failed_is_read_as_it_was() {
    let destination = only("lambda-destination.json");
    let record: Value = serde_json::from_str(&destination.sqs.body).unwrap();
    let event: Value = serde_json::from_str(original_event(&destination)).unwrap();
    assert_eq!(event, record["requestPayload"]);
    for file in ["envelope.json", "eventbridge.json", "lambda-async.json", "sqs-consumer.json", "raw.json"] {
        let letter = only(file);
        assert!(original_event(&letter) == letter.sqs.body, "{file}");
    }
}

#[test]
fn the_record_of_a_success_is_not_run_again() {
    let mut body: Value = serde_json::from_str(&only("lambda-destination.json").sqs.body).unwrap();
    body["requestContext"]["condition"] = "Success".into();
    assert_eq!(letter(&record(&body.to_string())).origin, Origin::Raw);
}

/// The tool and replays offer these names.
#[test]
fn every_origin_has_one_of_the_names() {
    let (queue, function) = (
        arn("arn:aws:sqs:eu-central-1:123456789012:q"),
        arn("arn:aws:lambda:eu-central-1:123456789012:function:f"),
    );
    let rule = arn("arn:aws:events:eu-central-1:123456789012:rule/r");
    let origins = [
        Origin::Sns,
        Origin::Sqs { source: queue.clone() },
        Origin::LambdaAsync,
        Origin::LambdaDestination { function },
        Origin::EventBridge { rule, target: queue },
        Origin::EventBusRecord,
        Origin::Raw,
    ];
    assert_eq!(origins.map(|origin| origin.name()), Origin::NAMES);
}

//! Forms of letters, and near misses.

use super::*;

#[test]
fn only_a_whole_notification_is_an_envelope() {
    for (field, value) in [
        ("Type", json!("SubscriptionConfirmation")),
        ("Type", json!("(absent)")),
        ("MessageId", json!("")),
        ("MessageId", json!(3)),
        ("MessageId", json!("(absent)")),
        ("TopicArn", json!(SUBSCRIPTION)),
        ("TopicArn", json!(DLQ)),
        ("TopicArn", json!("payments")),
        ("TopicArn", json!("(absent)")),
        ("Message", json!({ "event": "order-placed" })),
        ("Message", json!(null)),
        ("Message", json!("(absent)")),
        ("Subject", json!(["Order placed"])),
        ("UnsubscribeURL", json!(7)),
        ("MessageAttributes", json!([])),
        ("MessageAttributes", json!({ "a": "b" })),
        ("MessageAttributes", json!({ "a": { "Type": "String" } })),
        ("MessageAttributes", json!({ "a": { "Type": "String", "Value": 3 } })),
        ("MessageAttributes", json!({ "a": { "Type": "Binary", "Value": "not base64!" } })),
    ] {
        let letter = altered(field, &value);
        assert_eq!(letter.origin, Origin::Raw, "{field}: {value}");
        assert_eq!(letter.id.as_str(), letter.sqs.message_id);
    }
}

#[test]
fn what_sns_may_leave_out_of_an_envelope_is_not_missed() {
    for (field, value) in [
        ("Subject", json!(null)),
        ("Subject", json!("(absent)")),
        ("MessageAttributes", json!(null)),
        ("MessageAttributes", json!("(absent)")),
        ("Signature", json!("(absent)")),
        ("Timestamp", json!("(absent)")),
        ("Message", json!("")),
        ("Invented", json!({ "by": ["a", "later", "version"] })),
    ] {
        let letter = altered(field, &value);
        assert_eq!(letter.origin, Origin::Sns, "{field}: {value}");
        assert_eq!(letter.subscription(), Some(&arn(SUBSCRIPTION)), "{field}: {value}");
    }
    assert_eq!(letter(&record(&format!(" \n\t{}", envelope("hello", &json!({}))))).origin, Origin::Sns);
}

#[test]
fn the_unsubscribe_link_names_the_subscription() {
    let host = "https://sns.eu-central-1.amazonaws.com/";
    for (link, named) in [
        (format!("{host}?Action=Unsubscribe&SubscriptionArn={SUBSCRIPTION}"), true),
        (format!("{host}?SubscriptionArn={SUBSCRIPTION}&Action=Unsubscribe"), true),
        (format!("{host}?SubscriptionArn={}", SUBSCRIPTION.replace(':', "%3A")), true),
        (format!("{host}?Action=Unsubscribe&NoSubscriptionArn={SUBSCRIPTION}"), false),
        (format!("{host}?Action=Unsubscribe&SubscriptionArn={TOPIC}"), false),
        (format!("{host}?Action=Unsubscribe&SubscriptionArn=%ff%fe"), false),
        (format!("{host}{SUBSCRIPTION}"), false),
        (String::new(), false),
    ] {
        let letter = altered("UnsubscribeURL", &json!(link));
        assert_eq!(letter.origin, Origin::Sns, "{link}");
        assert_eq!(letter.subscription(), named.then(|| arn(SUBSCRIPTION)).as_ref(), "{link}");
        if !named {
            assert_eq!(letter.id.as_str(), letter.sqs.message_id, "{link}");
        }
    }
    assert_eq!(altered("UnsubscribeURL", &json!("(absent)")).subscription(), None);
}

#[test]
fn a_lambda_letter_holds_an_sns_message_only_in_an_event_of_sns() {
    let read = |records: &Value| {
        let letter = letter(&with_lambda_attributes(&lambda_event(records)));
        assert_eq!(letter.origin, Origin::LambdaAsync);
        letter.notification.is_some()
    };
    assert!(read(&json!([lambda_record()])));
    assert!(!read(&json!([])));
    assert!(!read(&json!([lambda_record(), lambda_record()])), "one letter cannot be answered for twice");
    let mut of_s3 = lambda_record();
    of_s3["EventSource"] = "aws:s3".into();
    assert!(!read(&json!([of_s3])));
    assert_eq!(letter(&with_lambda_attributes("3")).origin, Origin::LambdaAsync, "whatever was invoked");
}

#[test]
fn a_lambda_event_without_the_error_attributes_is_raw() {
    assert_eq!(letter(&record(&lambda_event(&json!([lambda_record()])))).origin, Origin::Raw);
    for only in ["RequestID", "ErrorCode"] {
        let mut record = record(&lambda_event(&json!([lambda_record()])));
        record["messageAttributes"][only] = text_attribute("200");
        assert_eq!(letter(&record).origin, Origin::Raw, "{only} alone");
    }
}

/// Returns the cause in a destination's record whose answer is `response` and whose context is `context`.
fn cause_in_destination(context: &Value, response: &Value) -> (Option<String>, Option<String>) {
    let body = json!({ "version": "1.0", "requestContext": { "requestId": "r", "approximateInvokeCount": 1,
        "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f", "condition": "EventAgeExceeded" },
        "requestPayload": { "Records": [lambda_record()] }, "responseContext": context, "responsePayload": response });
    let letter = letter(&record(&body.to_string()));
    assert_eq!(letter.origin.name(), "lambda-destination");
    assert!(letter.notification.is_some());
    let LetterCause { code, message } = letter.cause.unwrap();
    (code, message)
}

#[test]
fn a_destination_tells_the_error_as_far_as_the_function_did() {
    let context = json!({ "statusCode": 200, "functionError": "Unhandled" });
    let some = |text: &str| Some(text.to_owned());
    let error = json!({ "errorType": "E", "errorMessage": "m" });
    assert_eq!(cause_in_destination(&context, &error), (some("E"), some("m")));
    assert_eq!(
        cause_in_destination(&context, &json!({ "errorMessage": "m" })),
        (some("Unhandled"), some("m"))
    );
    for odd in [json!(null), json!("text"), json!([1]), json!({ "errorType": 3 })] {
        assert_eq!(cause_in_destination(&context, &odd), (some("Unhandled"), None), "{odd}");
        assert_eq!(cause_in_destination(&odd, &odd).0, some("EventAgeExceeded"), "{odd}");
    }
}

#[test]
fn the_message_of_an_error_is_kept_to_a_kilobyte() {
    let long = json!({ "errorType": "E", "errorMessage": "ü".repeat(5_000) });
    assert_eq!(cause_in_destination(&json!({}), &long).1, Some("ü".repeat(1024)));
}

#[test]
fn what_sqs_says_of_a_move_counts_more_than_attributes_and_body() {
    let source = "arn:aws:sqs:eu-central-1:123456789012:payments-billing";
    let mut record = with_lambda_attributes(&envelope("hello", &json!({})));
    assert_eq!(letter(&record).origin, Origin::Sns, "an envelope counts more than attributes");
    record["messageAttributes"]["RULE_ARN"] =
        text_attribute("arn:aws:events:eu-central-1:123456789012:rule/r");
    record["messageAttributes"]["TARGET_ARN"] = text_attribute(DLQ);
    let mut body = record.clone();
    body["body"] = "no envelope".into();
    assert_eq!(
        letter(&body).origin.name(),
        "eventbridge",
        "and the attributes of one service more than of another"
    );
    record["attributes"]["DeadLetterQueueSourceArn"] = source.into();
    assert_eq!(letter(&record).origin, Origin::Sqs { source: arn(source) });
    assert_eq!(letter(&record).topic(), Some(&arn(TOPIC)), "its body is still read");
    record["attributes"]["DeadLetterQueueSourceArn"] = "payments-billing".into();
    assert_eq!(letter(&record).origin.name(), "sns", "a source that is no ARN tells nothing");
}

use super::*;

#[test]
fn is_malformed_where_a_signed_field_is_missing_or_no_text() {
    for field in ["Message", "MessageId", "Timestamp", "TopicArn", "Type"] {
        for value in [None, Some(Value::Null), Some(json!(1)), Some(json!({})), Some(json!(["a"]))] {
            let altered = with(SIGNED[3], field, value);
            assert_eq!(SignedMessage::read(&altered), Err(SignatureFault::Malformed), "{altered}");
        }
    }
    for (field, value) in [
        ("Subject", json!(1)),
        ("Signature", json!("not base64!")),
        ("Signature", json!("AAA")),
        ("Signature", json!(7)),
        ("SignatureVersion", json!(1)),
        ("SigningCertURL", json!([URL])),
        ("Type", json!("SubscriptionConfirmation")),
        ("Type", json!("UnsubscribeConfirmation")),
        ("Type", json!("notification")),
        ("TopicArn", json!("payments")),
        ("TopicArn", json!("arn:aws:sqs:eu-central-1:123456789012:payments")),
        ("TopicArn", json!(format!("{TOPIC}:43fe80b0-b10c-4081-9e18-5bdb8f9824e6"))),
    ] {
        let altered = with(SIGNED[3], field, Some(value));
        assert_eq!(SignedMessage::read(&altered), Err(SignatureFault::Malformed), "{altered}");
    }
    let half_a_pair = SIGNED[0].replacen("Grüße", "\\ud800", 1);
    assert_eq!(SignedMessage::read(&half_a_pair), Err(SignatureFault::Malformed));
}

/// Subscribers read letters with parsers of many kinds.
#[test]
fn is_ambiguous_where_a_field_stands_twice_in_any_case() {
    let add = |text: &str, member: &str| text.replacen('{', &format!("{{{member},"), 1);
    for member in [
        r#""Message":"evil""#,
        r#""message":"evil""#,
        r#""MESSAGE":"evil""#,
        r#""\u004dessage":"evil""#,
        r#""Me\u017fsage":"evil""#,
        r#""mes\u017fage":null"#,
        r#""subject":"evil""#,
        r#""topicArn":"arn:aws:sns:eu-central-1:123456789012:payments""#,
        r#""SigningCertUrl":"https://example.org/a.pem""#,
        r#""Records":[]"#,
    ] {
        let altered = add(SIGNED[3], member);
        assert_eq!(SignedMessage::read(&altered), Err(SignatureFault::Ambiguous), "{member}");
    }
    let event = event(SIGNED[3]).to_string();
    let in_record = |member: &str| event.replacen("[{", &format!("[{{{member},"), 1);
    for altered in [
        add(&event, r#""Records":[]"#),
        add(&event, r#""records":[]"#),
        in_record(r#""Sns":{}"#),
        in_record(r#""sns":{}"#),
        event.replacen(r#""Sns":{"#, r#""Sns":{"message":"evil","#, 1),
    ] {
        assert_eq!(SignedMessage::read(&altered), Err(SignatureFault::Ambiguous), "{altered}");
    }
}

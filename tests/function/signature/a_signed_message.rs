use super::*;

#[test]
fn of_both_versions_with_and_without_subject_verifies() {
    for text in SIGNED {
        assert_eq!(check(text, SNS), Ok(()), "{text}");
        assert_eq!(check(&event(text).to_string(), SNS), Ok(()), "{text}");
    }
}

#[test]
fn tells_its_topic_version_and_certificate_and_shows_nothing_else() {
    for (text, version) in [(SIGNED[1], SignatureVersion::V1), (SIGNED[3], SignatureVersion::V2)] {
        let message = SignedMessage::read(text).unwrap();
        assert_eq!(message.topic().as_str(), TOPIC);
        assert_eq!(message.version(), version);
        assert_eq!(message.certificate().as_str(), URL);
        let shown = format!("{message:?}");
        assert!(!shown.contains("order-placed") && !shown.contains("Order placed"), "{shown}");
    }
}

#[test]
fn does_not_cover_message_attributes_and_unknown_fields() {
    let attributes = json!({"tenant": {"Type": "String", "Value": "gold"}});
    for (field, value) in [
        ("MessageAttributes", Some(attributes)),
        ("UnsubscribeURL", None),
        ("NewInTheYear2030", Some(json!({"a": [1, null]}))),
    ] {
        assert_eq!(check(&with(SIGNED[3], field, value), SNS), Ok(()), "{field}");
    }
}

#[test]
fn is_spoilt_by_a_change_of_any_signed_field() {
    let other_topic = "arn:aws:sns:eu-central-1:123456789012:overrides2";
    for text in SIGNED {
        for (field, value) in [
            ("Message", Some(json!("another"))),
            ("Message", Some(json!(""))),
            ("Message", Some(json!("{\"event\":\"order-placed\",\"note\":\"Grüße & <thanks>\"} "))),
            ("MessageId", Some(json!("d3344452-ca4e-5849-9b44-70f435b0010e"))),
            ("Subject", Some(json!("Order cancelled"))),
            ("Subject", Some(json!(""))),
            ("Timestamp", Some(json!("2026-11-02T11:59:58.351Z"))),
            ("TopicArn", Some(json!(other_topic))),
            ("Signature", Some(json!(STANDARD.encode([7; 256])))),
            ("Signature", Some(json!(STANDARD.encode([7; 10])))),
            ("Signature", Some(json!(""))),
        ] {
            let altered = with(text, field, value);
            assert_eq!(check(&altered, SNS), Err(SignatureFault::Mismatch), "{altered}");
            let altered = event(&altered).to_string();
            assert_eq!(check(&altered, SNS), Err(SignatureFault::Mismatch), "{altered}");
        }
    }
}

#[test]
fn is_spoilt_by_a_subject_taken_away_or_added() {
    for with_subject in [SIGNED[1], SIGNED[3]] {
        for nothing in [None, Some(Value::Null)] {
            let altered = with(with_subject, "Subject", nothing);
            assert_eq!(check(&altered, SNS), Err(SignatureFault::Mismatch));
        }
    }
    for without in [SIGNED[0], SIGNED[2]] {
        let altered = with(without, "Subject", Some(json!("Order placed")));
        assert_eq!(check(&altered, SNS), Err(SignatureFault::Mismatch));
    }
}

#[test]
fn is_bound_to_its_version() {
    for (text, other) in [(SIGNED[0], "2"), (SIGNED[2], "1")] {
        let altered = with(text, "SignatureVersion", Some(json!(other)));
        assert_eq!(check(&altered, SNS), Err(SignatureFault::Mismatch));
    }
    for unknown in ["", "0", "3", "01", "1 ", "1.0", "２"] {
        let altered = with(SIGNED[0], "SignatureVersion", Some(json!(unknown)));
        assert_eq!(check(&altered, SNS), Err(SignatureFault::UnknownVersion), "{unknown:?}");
    }
}

/// A message with a subject and one without can have the same signed text: here the subject became part of
/// the id.
#[test]
fn cannot_be_read_as_another_one_of_the_same_signed_text() {
    let mut shifted = envelope(SIGNED[3]);
    shifted["MessageId"] = json!("d3344452-ca4e-5849-9b44-70f435b0010d\nSubject\nOrder placed");
    let shifted = with(&shifted.to_string(), "Subject", None);
    assert_eq!(check(&shifted, SNS), Err(SignatureFault::Malformed));

    for field in ["MessageId", "Subject", "Timestamp", "TopicArn", "Type"] {
        let altered = with(SIGNED[3], field, Some(json!("a\nb")));
        assert_eq!(check(&altered, SNS), Err(SignatureFault::Malformed), "{field}");
    }
}

//! Letters of any content, since anyone may write into a queue.

use super::*;

fn parse_anything(body: &str, attributes: &Value) -> Letter {
    let mut record = record(body);
    record["messageAttributes"] = attributes.clone();
    let letter = letter(&record);
    assert!(letter.sqs.body == body, "byte for byte");
    letter
}

/// Returns JSON that often contains the words of letters.
fn letter_like() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(vec![
            "Notification",
            "aws:sns",
            TOPIC,
            SUBSCRIPTION,
            DLQ,
            "AAEC",
            "Binary",
            "String"
        ])
        .prop_map(Value::from),
        Just(Value::from(envelope("hello", &json!({})))),
    ];
    let keys = prop::sample::select(vec![
        "Type",
        "MessageId",
        "TopicArn",
        "Subject",
        "Message",
        "MessageAttributes",
        "UnsubscribeURL",
        "UnsubscribeUrl",
        "Records",
        "Sns",
        "EventSource",
        "EventSubscriptionArn",
        "requestContext",
        "requestPayload",
        "responseContext",
        "responsePayload",
        "functionArn",
        "condition",
        "Value",
        "sns-redrive",
    ]);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let objects = prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner.clone(), 0..8);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            objects.prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

/// Returns an envelope, a Lambda event or a destination's record with one part replaced.
fn damaged() -> impl Strategy<Value = Value> {
    let whole = vec![
        serde_json::from_str(&envelope("hello", &json!({ "a": { "Type": "String", "Value": "b" } })))
            .unwrap(),
        json!({ "Records": [lambda_record()] }),
        json!({ "requestContext": { "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f", "condition": "c" },
            "requestPayload": { "Records": [lambda_record()] }, "responsePayload": {} }),
    ];
    (prop::sample::select(whole), any::<prop::sample::Index>(), letter_like()).prop_map(
        |(mut whole, index, part): (Value, _, _)| {
            let keys: Vec<_> = whole.as_object().unwrap().keys().cloned().collect();
            whole[&keys[index.index(keys.len())]] = part;
            whole
        },
    )
}

fn any_attributes() -> impl Strategy<Value = Value> {
    let names =
        prop::sample::select(vec!["RequestID", "ErrorCode", "RULE_ARN", "TARGET_ARN", MARK_ATTRIBUTE, "x"]);
    let values = prop_oneof![
        any::<String>(),
        Just(DLQ.to_owned()),
        letter_like().prop_map(|json| json.to_string()),
        (any::<i64>(), any::<i64>()).prop_map(|(spent, first)| {
            let mark = json!({ "v": 2, "spent": spent, "id": "x", "first": first, "due": first });
            made_for("hello", mark).to_string()
        }),
    ];
    prop::collection::btree_map(names, values, 0..4).prop_map(|map| {
        map.into_iter().map(|(name, value)| (name.to_owned(), text_attribute(&value))).collect::<Value>()
    })
}

#[test]
fn no_message_is_too_strange_to_be_read() {
    let bytes = prop::collection::vec(any::<u8>(), 0..200)
        .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let bodies = prop_oneof![
        any::<String>(),
        bytes,
        letter_like().prop_map(|json| json.to_string()),
        damaged().prop_map(|json| json.to_string()),
        (damaged(), any::<prop::sample::Index>()).prop_map(|(json, end)| {
            let text: Vec<_> = json.to_string().chars().collect();
            text[..end.index(text.len())].iter().collect()
        }),
    ];
    let attributes = prop_oneof![Just(json!({})), any_attributes()];
    holds(3_000, &(bodies, attributes), |(body, attributes)| {
        let letter = parse_anything(&body, &attributes);
        prop_assert!(!letter.id.as_str().is_empty());
        if letter.origin == Origin::Raw {
            prop_assert_eq!(letter.notification, None);
        }
        Ok(())
    });
}

#[test]
fn a_megabyte_of_nesting_is_only_a_raw_letter() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"requestPayload\":", "}"), ("{\"Message\":", "}")]
    {
        let depth = 1_000_000 / (open.len() + close.len());
        let nested = format!("{}0{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(parse_anything(&nested, &json!({})).origin, Origin::Raw, "{open}");
        assert_eq!(parse_anything(&open.repeat(depth), &json!({})).origin, Origin::Raw, "{open} alone");
        let mark = json!({ MARK_ATTRIBUTE: text_attribute(&nested) });
        assert_eq!(parse_anything("hello", &mark).mark, None, "{open} as a mark");
    }
}

#[test]
fn nesting_inside_a_whole_letter_does_not_hide_it() {
    let nested = format!("{}0{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    assert_eq!(letter(&record(&envelope(&nested, &json!({})))).message(), nested);
    let inserted = |body: String| body.replacen('{', &format!("{{\"Invented\":{nested},"), 1);
    assert_eq!(letter(&record(&inserted(envelope("hello", &json!({}))))).origin, Origin::Sns);
    let event = inserted(lambda_event(&json!([lambda_record()])));
    assert!(letter(&with_lambda_attributes(&event)).notification.is_some());
}

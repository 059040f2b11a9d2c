//! The mark on a letter.

use super::*;

fn mark_text(spent: u32, id: &str) -> String {
    let msg = String::from(MessageDigest::of("hello"));
    json!({ "v": 2, "spent": spent, "id": id, "first": 1_700_000_000_000_i64, "gen": 2, "msg": msg, "passes": 9 })
        .to_string()
}

/// Else an override about letters that arrived before a time would not hold it.
#[test]
fn no_mark_makes_a_letter_arrive_after_its_message_was_sent() {
    for (first, expected) in [(NOW + 86_400_000, NOW), (NOW - 1, NOW - 1)] {
        let mark = made_for("text", redrive_testing::mark(1, "id", first)).to_string();
        let mut record = record("text");
        record["attributes"]["SentTimestamp"] = NOW.to_string().into();
        record["messageAttributes"] =
            json!({ MARK_ATTRIBUTE: { "dataType": "String", "stringValue": mark } });
        let letter = letter(&record);
        assert_eq!((letter.spent(), letter.first_arrival()), (1, at(expected)));
    }
}

#[test]
fn the_mark_is_found_wherever_attributes_travel() {
    let in_sns = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": mark_text(3, "sns") } });
    let mut in_lambda = lambda_record();
    in_lambda["Sns"]["MessageAttributes"] = in_sns.clone();
    let mut native = record("hello");
    native["messageAttributes"][MARK_ATTRIBUTE] = text_attribute(&mark_text(5, "sqs"));
    let mut both = native.clone();
    both["body"] = envelope("hello", &in_sns).into();
    for (record, spent, id) in [
        (record(&envelope("hello", &in_sns)), 3, "sns"),
        (with_lambda_attributes(&lambda_event(&json!([in_lambda]))), 3, "sns"),
        (native, 5, "sqs"),
        (both, 5, "sqs"),
    ] {
        let letter = letter(&record);
        assert_eq!((letter.spent(), letter.id.as_str(), letter.generation()), (spent, id, 2));
        assert_eq!(letter.first_arrival(), at(1_700_000_000_000));
    }
}

#[test]
fn a_mark_that_is_not_text_counts_as_none() {
    let mut record = record("hello");
    record["messageAttributes"][MARK_ATTRIBUTE] = json!({ "binaryValue": "AAEC", "stringListValues": [], "binaryListValues": [], "dataType": "Binary" });
    assert_eq!(letter(&record).mark, None);
}

fn mark_for(letter: &Letter, spent: u32) -> Mark {
    let id = letter.id.as_str().to_owned();
    Mark { generation: 0, ..Mark { id, ..letter.mark(spent) } }
}

/// A letter whose mark could not be read when it comes back would be retried for ever.
#[test]
fn whatever_id_a_letter_has_its_mark_is_read_when_it_comes_back() {
    let ids = prop_oneof![any::<String>(), "[ -~]{1,80}", "[\"\\\\\u{1}-\u{1f}ü]{100,600}", "[a-z]{1,3000}"];
    let in_mark = any::<bool>();
    holds(1_000, &(ids, in_mark), |(id, in_mark)| {
        let letter = if in_mark {
            let attributes = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": mark_text(1, &id) } });
            letter(&record(&envelope("hello", &attributes)))
        } else {
            altered("MessageId", &json!(id))
        };
        let mark = mark_for(&letter, 7);
        let attribute = mark.to_attribute();
        let back = Mark::find(&attributes([(MARK_ATTRIBUTE, attribute)]));
        prop_assert_eq!(back, Some(mark));
        Ok(())
    });
}

/// A consumer that copies attributes onto a message of its own copies the mark as well.
#[test]
fn a_mark_on_another_message_counts_no_retry_and_goes_on_counting_passes() {
    let mark = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": mark_text(3, "first/id") } });
    let own = letter(&record(&envelope("hello", &mark)));
    assert_eq!((own.spent(), own.passes, own.id.as_str()), (3, 9, "first/id"));
    let other = letter(&record(&envelope("another message", &mark)));
    let fresh = letter(&record(&envelope("another message", &json!({}))));
    assert_eq!((&other.mark, other.passes), (&None, 9));
    assert_eq!((&other.id, other.first_arrival(), other.generation()), (&fresh.id, at(NOW), 0));
    assert_eq!(other.mark(1), Mark { passes: 10, ..fresh.mark(1) });
    // An operator's replay lets the count of passes begin afresh.
    assert_eq!(other.mark_for_replay(at(NOW), None, false).passes, 0);
}

/// The mark's statements about the requeue stay true, whoever put the message there.
#[test]
fn a_mark_on_another_message_in_the_requeue_still_says_where_it_comes_from() {
    let (letter, mark) = in_the_requeue();
    let mut sqs = letter.sqs;
    sqs.body = "another message".to_owned();
    let other = Letter::parse_requeued(sqs, TrustedOrigins::none());
    let requeued = RequeueMark { due: None, earlier: 0, ..mark.requeued.clone() };
    let id = other.sqs.message_id.clone();
    assert_eq!(other.mark, Some(Mark { spent: 0, published: 0, id, requeued, ..mark }));
    assert_eq!((other.dead_letter_queue(), other.passes), (&arn(DLQ), 6));
}

/// A message is wrapped and unwrapped on its way, and stays the same message.
#[test]
fn a_mark_knows_its_message_in_every_form() {
    let mark = json!({ "dataType": "String", "stringValue": mark_text(3, "id") });
    let nested = envelope("hello", &json!({}));
    let of_nested = made_for(&nested, redrive_testing::mark(3, "id", 0));
    for (body, mark) in [
        ("hello".to_owned(), &mark),
        (envelope("hello", &json!({})), &mark),
        (
            lambda_event(&json!([{ "EventSource": "aws:sns", "EventSubscriptionArn": SUBSCRIPTION,
            "Sns": serde_json::from_str::<Value>(&envelope("hello", &json!({}))).unwrap() }])),
            &mark,
        ),
        // A message that is itself an envelope, delivered raw.
        (nested, &text_attribute(&of_nested.to_string())),
    ] {
        let mut record = record(&body);
        record["messageAttributes"][MARK_ATTRIBUTE] = mark.clone();
        assert_eq!(letter(&record).spent(), 3, "{body}");
    }
}

/// A topic gets the message in a letter, else its body as it stands, whatever that holds. The mark of a copy
/// counts in whatever form the copy comes back, and whether its origin is believed or not.
#[test]
fn what_was_published_is_known_again_in_every_form() {
    let origins = TrustedOrigins::all();
    let read = |record: &Value, origins| {
        Letter::received(received(record), BelievedClaims { requeue: None, origins })
    };
    let event = |message: &str, attributes: &Value| {
        let sns = serde_json::from_str::<Value>(&envelope(message, attributes)).unwrap();
        lambda_event(&json!([{ "EventSource": "aws:sns", "EventSubscriptionArn": SUBSCRIPTION, "Sns": sns }]))
    };
    let destination = |event: &str| {
        json!({
            "requestContext": { "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f",
                "condition": "RetriesExhausted" },
            "requestPayload": serde_json::from_str::<Value>(event).unwrap(),
        })
        .to_string()
    };
    let bodies = ["hello".to_owned(), envelope("hello", &json!({})), event("hello", &json!({}))];
    let bodies = bodies.into_iter().chain([destination(&event("hello", &json!({})))]);
    for (body, origins) in bodies.flat_map(|body| [(body.clone(), TrustedOrigins::none()), (body, &origins)])
    {
        for attributes in [json!({}), with_lambda_attributes("x")["messageAttributes"].clone()] {
            let mut first = record(&body);
            first["messageAttributes"] = attributes;
            let first = read(&first, origins);
            let mark = first.mark_for_topic(1);
            let published =
                first.notification.as_ref().map_or(first.sqs.body.clone(), |_| first.message().into_owned());
            let text = mark.to_attribute().text().unwrap().to_owned();
            let carried = json!({ MARK_ATTRIBUTE: { "Type": "String", "Value": text } });
            let mut raw = record(&published);
            raw["messageAttributes"] = json!({ MARK_ATTRIBUTE: text_attribute(&text) });
            let back = [
                record(&envelope(&published, &carried)),
                with_lambda_attributes(&event(&published, &carried)),
                record(&destination(&event(&published, &carried))),
                raw,
            ];
            for copy in back {
                for origins in [TrustedOrigins::none(), origins] {
                    let copy = read(&copy, origins);
                    let known = (copy.spent(), copy.published(), copy.passes, copy.id.as_str());
                    assert_eq!(known, (1, 1, 1, first.id.as_str()), "{} as {}", published, copy.sqs.body);
                }
            }
        }
    }
}

#[test]
fn a_record_of_a_custom_event_bus_is_an_origin_of_its_own() {
    let bus = only("event-bus.json");
    assert_eq!((bus.origin.name(), bus.unlisted, bus.cause.is_none()), ("eventbridge-bus", None, true));
    for (pointer, value) in [
        ("/busArn", json!("arn:aws:events:eu-central-1:123456789012:event-bus/shop")),
        ("/busArn", json!("event-busv2/shop")),
        ("/failedMessages", json!("none")),
        ("/failedMessages", json!(null)),
    ] {
        let mut body: Value = serde_json::from_str(&bus.sqs.body).unwrap();
        *body.pointer_mut(pointer).unwrap() = value;
        assert_eq!(letter(&record(&body.to_string())).origin, Origin::Raw, "{pointer}");
    }
    let mut moved = record(&bus.sqs.body);
    moved["attributes"]["DeadLetterQueueSourceArn"] = WORKER.into();
    assert_eq!(
        letter(&moved).origin.name(),
        "sqs",
        "a consumer failed with it: it goes back to that consumer"
    );
}

/// A publisher with raw delivery controls attributes and body.
#[test]
fn an_origin_that_is_not_listed_for_the_queue_is_not_believed() {
    for (file, claim) in [
        ("lambda-async.json", OriginClaim::LambdaAsync),
        ("lambda-destination.json", OriginClaim::LambdaDestination),
        ("eventbridge.json", OriginClaim::EventBridge),
    ] {
        let message = only(file).sqs;
        let read = |origins: &TrustedOrigins| {
            Letter::received(message.clone(), BelievedClaims { requeue: None, origins })
        };
        let raw = read(TrustedOrigins::none());
        assert_eq!((&raw.origin, raw.unlisted), (&Origin::Raw, Some(claim)), "{file}");
        assert_eq!((&raw.notification, &raw.cause, &raw.mark), (&None, &None, &None), "{file}");
        assert_eq!(raw.id.as_str(), raw.sqs.message_id, "{file}");
        assert!(raw.message() == raw.sqs.body, "{file}");
        for (queue, claims, listed) in [
            (None, vec![claim], true),
            (Some(arn(DLQ)), vec![claim], true),
            (Some(arn(WORKER)), vec![claim], false),
            (None, OriginClaim::ALL.into_iter().filter(|other| *other != claim).collect(), false),
        ] {
            let mut origins = TrustedOrigins::default();
            origins.add(queue.clone(), claims);
            let letter = read(&origins);
            let expected = if listed { (claim.name(), None) } else { ("raw", Some(claim)) };
            assert_eq!((letter.origin.name(), letter.unlisted), expected, "{file} {queue:?}");
        }
    }
}

#[test]
fn a_mark_does_not_grow_with_the_returns_of_its_letter() {
    let first = only("envelope.json");
    let mut sizes = std::collections::BTreeSet::new();
    let mut mark = Mark { published: 1, ..mark_for(&first, 1) };
    for spent in 1..=9 {
        let value = MessageAttribute { ..Mark { spent, ..mark.clone() }.to_attribute() };
        sizes.insert(value.size());
        let mut body: Value = serde_json::from_str(&first.sqs.body).unwrap();
        let text = value.text().unwrap();
        body["MessageAttributes"][MARK_ATTRIBUTE] = json!({ "Type": "String", "Value": text });
        let back = letter(&record(&body.to_string()));
        assert_eq!((back.spent(), &back.id), (spent, &first.id));
        mark = mark_for(&back, spent);
    }
    assert_eq!(sizes.len(), 1, "{sizes:?}");
}

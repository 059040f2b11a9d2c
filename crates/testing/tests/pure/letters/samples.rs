//! The sample events.

use super::*;

#[test]
fn an_envelope_of_sns() {
    let letter = only("envelope.json");
    assert_eq!(letter.origin, Origin::Sns);
    let message = "{\"event\":\"order-placed\",\"orderId\":\"o-1001\",\"customer\":\"c-17\",\"total\":49.9,\
        \"note\":\"Grüße & <thanks> \\\"ok\\\"\\n\"}";
    let attributes = attributes([
        ("tenant", text("String", "gold")),
        ("priority", text("Number", "3")),
        ("tags", text("String.Array", "[\"new\", 7, true, null]")),
        ("checksum", binary(&[0, 1, 2, 3, 0xfd, 0xfe, 0xff])),
    ]);
    let expected = notification_of("d3344452-ca4e-5849-9b44-70f435b0010d", SUBSCRIPTION, message, attributes);
    assert_same_notification(letter.notification.as_ref(), &expected);
    assert_eq!(letter.message(), message);
    assert_eq!(letter.topic(), Some(&arn(TOPIC)));
    assert_eq!(letter.subscription(), Some(&arn(SUBSCRIPTION)));
    assert_eq!(letter.id.as_str(), format!("d3344452-ca4e-5849-9b44-70f435b0010d/{SUBSCRIPTION}"));
    assert_eq!(letter.id.to_string(), letter.id.as_str());
    assert_eq!((letter.mark.as_ref(), letter.cause.as_ref()), (None, None));
    assert_eq!((letter.spent(), letter.generation()), (0, 0));
    assert_eq!(letter.first_arrival(), at(1_793_534_398_412));
    assert_eq!(letter.sqs.message_id, "512a856d-6e86-45b6-a7a3-8627a61ec790");
    assert_eq!(letter.sqs.queue, arn(DLQ));
    assert_eq!(letter.sqs.sent, at(1_793_534_398_412));
    assert_eq!(letter.sqs.first_received, at(1_793_534_398_431));
    assert_eq!(letter.sqs.receive_count, 1);
}

#[test]
fn a_raw_delivery_of_sns() {
    let letter = only("raw.json");
    assert_eq!(letter.origin, Origin::Raw);
    assert_eq!((letter.topic(), letter.subscription(), letter.cause.as_ref()), (None, None, None));
    assert_eq!(letter.id.as_str(), "81efdbba-e454-47f0-ab1b-97631c2d244d");
    assert_eq!(
        letter.sqs.body,
        "{\"event\":\"order-placed\",\"orderId\":\"o-1002\",\"customer\":\"c-18\",\"total\":12}"
    );
    let expected = attributes([
        ("tenant", text("String", "silver")),
        ("priority", text("Number", "1.50")),
        ("checksum", binary(&[0, 1, 2, 3, 0xfd, 0xfe, 0xff])),
    ]);
    assert!(letter.sqs.attributes == expected, "{:?}", letter.sqs.attributes);
    assert_eq!(letter.sqs.group_id(), Some("customer-18"));
    assert_eq!(letter.message(), letter.sqs.body);
    let trace = "Root=1-69e5f0de-0123456789abcdef01234567;Parent=0123456789abcdef;Sampled=1";
    assert_eq!(letter.sqs.system("AWSTraceHeader"), Some(trace));
}

#[test]
fn envelopes_of_a_fifo_topic() {
    let letters = sample("fifo.json");
    let subscription =
        "arn:aws:sns:eu-central-1:123456789012:payments.fifo:c741ca07-c97a-40d7-b428-731c4aeebc23";
    let seen: Vec<_> = letters
        .iter()
        .map(|letter| {
            assert_eq!(letter.origin, Origin::Sns);
            assert!(letter.topic().unwrap().is_fifo() && letter.sqs.queue.is_fifo());
            assert_eq!(letter.subscription(), Some(&arn(subscription)));
            (letter.sqs.group_id().unwrap(), letter.sqs.system("MessageDeduplicationId").unwrap())
        })
        .collect();
    let expected = [
        ("customer-17", "o-1017-placed"),
        ("customer-42", "o-1042-placed"),
        ("customer-17", "o-1017-paid"),
        ("customer-42", "o-1042-cancelled"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_letter_of_an_asynchronous_invocation() {
    let letter = only("lambda-async.json");
    assert_eq!(letter.origin, Origin::LambdaAsync);
    let attributes = attributes([
        ("tenant", text("String", "gold")),
        ("priority", text("Number", "3")),
        ("checksum", binary(&[0, 1, 2, 0xfd, 0xfe, 0xff])),
    ]);
    let message = "{\"event\":\"order-placed\",\"orderId\":\"o-1003\"}";
    let expected =
        notification_of("1401aae3-0c18-539a-ac40-e6d5f3043639", FUNCTION_SUBSCRIPTION, message, attributes);
    assert_same_notification(letter.notification.as_ref(), &expected);
    assert_eq!(letter.message(), message);
    assert_cause(&letter, "200", "mail relay refused the connection");
    assert_eq!(letter.id.as_str(), format!("1401aae3-0c18-539a-ac40-e6d5f3043639/{FUNCTION_SUBSCRIPTION}"));
}

#[test]
fn a_letter_without_the_origin_that_it_claims_tells_nothing_of_sns() {
    for sample in ["envelope.json", "lambda-async.json", "lambda-destination.json", "eventbridge.json"] {
        let letter = only(sample);
        let raw = letter.clone().into_raw();
        assert_eq!((&raw.id, &raw.mark), (&letter.id, &letter.mark), "{sample}: its schedule stays");
        assert_eq!((&raw.origin, raw.topic(), raw.subscription()), (&Origin::Raw, None, None), "{sample}");
        assert_eq!(
            (raw.cause.as_ref(), raw.message().as_ref()),
            (None, letter.sqs.body.as_str()),
            "{sample}"
        );
    }
}

#[test]
fn a_record_of_an_on_failure_destination() {
    let letter = only("lambda-destination.json");
    let function = arn("arn:aws:lambda:eu-central-1:123456789012:function:payments-notifier");
    assert_eq!(letter.origin, Origin::LambdaDestination { function });
    assert_eq!(letter.message(), "{\"event\":\"order-placed\",\"orderId\":\"o-1004\"}");
    assert_eq!(letter.topic(), Some(&arn(TOPIC)));
    assert_eq!(letter.subscription(), Some(&arn(FUNCTION_SUBSCRIPTION)));
    let tenant = &letter.notification.as_ref().unwrap().attributes["tenant"];
    assert!(*tenant == text("String", "gold"), "{tenant:?}");
    assert_cause(&letter, "ConnectionRefusedError", "mail relay refused the connection");
}

#[test]
fn a_letter_that_sqs_moved_from_a_consumer() {
    let letter = only("sqs-consumer.json");
    let source = arn("arn:aws:sqs:eu-central-1:123456789012:payments-billing");
    assert_eq!(letter.origin, Origin::Sqs { source });
    assert_eq!(letter.message(), "{\"event\":\"order-paid\",\"orderId\":\"o-1005\"}");
    assert_eq!(letter.subscription(), Some(&arn(BILLING_SUBSCRIPTION)));
    assert_eq!(letter.notification.as_ref().unwrap().subject.as_deref(), Some("Order paid"));
    assert_eq!(letter.cause, None);
    assert_eq!(letter.sqs.receive_count, 4);
}

#[test]
fn a_letter_of_an_eventbridge_rule() {
    let letter = only("eventbridge.json");
    let rule = arn("arn:aws:events:eu-central-1:123456789012:rule/shop/payments-to-projector");
    let target = arn("arn:aws:lambda:eu-central-1:123456789012:function:payments-projector");
    assert_eq!(letter.origin, Origin::EventBridge { rule, target });
    assert_eq!(letter.notification, None);
    assert_cause(&letter, "THROTTLING", "Rate exceeded");
    assert_eq!(letter.id.as_str(), "1466dcd5-2531-40d4-bb8a-f945f755d53f");
}

#[test]
fn letters_that_come_back_carry_our_mark() {
    for (file, spent, first, id) in [
        ("late-retry.json", 3, 1_793_274_360_000, "0ac27ddb-e84b-5faa-9745-f295ba9feec4"),
        ("exhausted.json", 12, 1_793_102_400_000, "fb8fda82-7c64-5d02-8709-bb4c93a3b664"),
    ] {
        let letter = only(file);
        let id = format!("{id}/{SUBSCRIPTION}");
        let mark = Mark {
            spent,
            id: id.clone(),
            first: at(first),
            generation: 0,
            digest: MessageDigest::of(&letter.message()),
            passes: spent,
            published: 1,
            early: false,
            requeued: RequeueMark::default(),
        };
        assert_eq!(letter.mark, Some(mark), "{file}");
        assert_eq!((letter.spent(), letter.first_arrival()), (spent, at(first)), "{file}");
        assert_eq!(letter.id.as_str(), id, "{file}: the id of its first life, not of this one");
        assert!(!id.starts_with(&letter.notification.unwrap().message_id), "{file}");
    }
}

#[test]
fn garbage_is_raw_and_whole() {
    let event = redrive_testing::sample("garbage");
    let letters = sample("garbage.json");
    assert_eq!(letters.len(), 10);
    for (letter, record) in letters.iter().zip(event["Records"].as_array().unwrap()) {
        assert_eq!(letter.origin, Origin::Raw);
        assert_eq!((&letter.notification, &letter.cause, &letter.mark), (&None, &None, &None));
        assert_eq!(letter.sqs.body, record["body"], "byte for byte");
        assert_eq!(letter.id.as_str(), record["messageId"]);
    }
}

#[test]
fn a_mixed_batch_keeps_its_order() {
    let letters = sample("mixed.json");
    let origins: Vec<_> = letters.iter().map(|letter| letter.origin.name()).collect();
    let expected = [
        "sns",
        "sns",
        "raw",
        "lambda-async",
        "lambda-destination",
        "sqs",
        "eventbridge",
        "raw",
        "sns",
        "sns",
    ];
    assert_eq!(origins, expected);
    let spent: Vec<_> = letters.iter().map(Letter::spent).collect();
    assert_eq!(spent, [0, 0, 0, 0, 0, 0, 0, 0, 1, 12]);
}

#[test]
fn every_sample_event_is_read() {
    let mut ids = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(redrive_testing::events()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for letter in sample(&name) {
            assert!(ids.insert(letter.sqs.message_id.clone()), "{name} repeats a message id");
        }
    }
    assert!(ids.len() >= 32, "{}", ids.len());
}

use super::*;

const CERTIFICATE: &str = include_str!("../../data/signature/sns.pem");
const OTHER_CERTIFICATE: &str = include_str!("../../data/signature/other-key.pem");
const SIGNED: [&str; 4] = [
    include_str!("../../data/signature/v1.json"),
    include_str!("../../data/signature/v1-subject.json"),
    include_str!("../../data/signature/v2.json"),
    include_str!("../../data/signature/v2-subject.json"),
];
const DELIVERED: [&str; 3] = ["GetQueueAttributes", "GetSubscriptionAttributes", "SendMessageBatch"];

fn strict() -> Value {
    default(&json!({ "verifySignature": true }))
}

/// Returns a rule under which raw letters also go to a subscription.
fn strict_with_subscription() -> Value {
    default(&json!({ "verifySignature": true, "target": "subscription", "subscription": SUBSCRIPTION }))
}

fn world(policy: &Value) -> FunctionWorld {
    FunctionWorld::with_certificates(policy, |_| Ok(CERTIFICATE.to_owned()))
}

/// Returns an envelope with one field changed.
fn with(text: &str, field: &str, value: &str) -> String {
    let mut envelope: Value = serde_json::from_str(text).unwrap();
    envelope[field] = value.into();
    envelope.to_string()
}

/// Returns an envelope that SNS signed for this topic, with an unsubscribe link that the forger chose.
fn signed_for(topic: &str, subscription: &str) -> String {
    let key = PrivatePkcs8KeyDer::from_pem_slice(include_bytes!("../../data/signature/key.pem")).unwrap();
    let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
    let (message, id, time) = ("refund everything", "sns-forged", "2026-11-01T11:59:58.351Z");
    let text = format!(
        "Message\n{message}\nMessageId\n{id}\nTimestamp\n{time}\nTopicArn\n{topic}\nType\nNotification\n"
    );
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
    let sns = "https://sns.eu-central-1.amazonaws.com/";
    json!({
        "Type": "Notification", "MessageId": id, "TopicArn": topic, "Message": message, "Timestamp": time,
        "SignatureVersion": "2", "Signature": STANDARD.encode(signature),
        "SigningCertURL": format!("{sns}SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"),
        "UnsubscribeURL": format!("{sns}?Action=Unsubscribe&SubscriptionArn={subscription}"),
    })
    .to_string()
}

#[tokio::test]
async fn what_sns_signed_is_delivered_as_it_is() {
    let forgers_own = signed_for(TOPIC, SUBSCRIPTION);
    for body in SIGNED.into_iter().chain([forgers_own.as_str()]) {
        let world = world(&strict());
        let ran = world.run([&RecordBuilder::raw("a", body)]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(operations(&world.cloud), DELIVERED);
        assert_eq!(world.cloud.entries("SendMessageBatch")[0].body, body);
    }
}

#[tokio::test]
async fn an_altered_letter_is_refused() {
    for body in SIGNED {
        for (field, value) in [
            ("Message", r#"{"event":"refund"}"#),
            ("Subject", "Refund"),
            ("MessageId", "another"),
            ("Timestamp", "2026-11-02T11:59:58.351Z"),
        ] {
            let post = RecordBuilder::raw("a", &with(body, field, value));
            refused(&world(&strict()), &post, FORGED_OR_EDITED, &UNASKED).await;
        }
    }
}

/// The forger takes a signed envelope and replaces its topic.
#[tokio::test]
async fn another_topic_over_a_good_signature_is_refused() {
    let post = RecordBuilder::raw("a", &with(SIGNED[2], "TopicArn", OTHER_TOPIC));
    refused(&world(&strict()), &post, FORGED_OR_EDITED, &UNASKED).await;
}

/// SNS signs for everyone, and the unsubscribe link is not signed.
#[tokio::test]
async fn a_letter_that_sns_signed_for_the_forgers_own_topic_is_refused() {
    for topic in [OTHER_TOPIC, FOREIGN_TOPIC] {
        let post = RecordBuilder::raw("a", &signed_for(topic, SUBSCRIPTION));
        refused(&world(&strict()), &post, OF_OTHER_TOPIC, &UNASKED).await;
    }
}

/// Attributes do not make an envelope a letter of another origin. Such a letter would name neither topic nor
/// subscription, so the rule's subscription would get it.
#[tokio::test]
async fn a_signed_letter_of_another_topic_does_not_pass_under_a_false_origin() {
    let bodies = [signed_for(OTHER_TOPIC, SUBSCRIPTION), signed_for(TOPIC, SUBSCRIPTION)];
    for body in bodies.iter().map(String::as_str).chain(SIGNED) {
        let post = RecordBuilder::raw("a", body);
        let plain = world(&strict_with_subscription()).run([&post]).await.outcomes();
        for post in [
            post.clone().attribute("RequestID", "String", "r").attribute("ErrorCode", "Number", "200"),
            post.attribute("RULE_ARN", "String", "arn:aws:events:eu-central-1:123456789012:rule/shop")
                .attribute("TARGET_ARN", "String", PAYROLL),
        ] {
            let ran = world(&strict_with_subscription()).run([&post]).await;
            assert_eq!(
                (ran.letter("a")["letter.origin"].as_str(), ran.outcomes()),
                (Some("sns"), plain.clone())
            );
        }
        let refused = body.contains(OTHER_TOPIC);
        assert!(!refused || plain == ["a archived refused"], "{plain:?}");
    }
}

#[tokio::test]
async fn an_unsigned_letter_is_refused() {
    let detail = UNSIGNED;
    refused(&world(&strict()), &RecordBuilder::envelope("a"), detail, &UNASKED).await;
    let posts = [
        RecordBuilder::raw("a", "plain"),
        RecordBuilder::raw("a", r#"{"Type":"Notification"}"#),
        RecordBuilder::raw("a", ""),
    ];
    for post in posts {
        refused(&world(&strict_with_subscription()), &post, detail, &UNASKED).await;
    }
    let mut unsigned: Value = serde_json::from_str(SIGNED[0]).unwrap();
    unsigned.as_object_mut().unwrap().remove("Signature");
    refused(&world(&strict()), &RecordBuilder::raw("a", &unsigned.to_string()), detail, &UNASKED).await;
}

#[tokio::test]
async fn what_sqs_moved_or_a_rule_sends_elsewhere_must_be_signed_too() {
    let detail = UNSIGNED;
    let post = RecordBuilder::envelope("a").moved_from(BILLING);
    let calls = ["GetQueueAttributes", "GetQueueAttributes", "PutObject"];
    refused(&world(&strict()), &post, detail, &calls).await;
    for target in [TOPIC, PAYROLL, NOTIFIER, "topic"] {
        let policy = default(&json!({ "verifySignature": true, "target": target }));
        refused(&world(&policy), &RecordBuilder::envelope("a"), detail, &UNASKED).await;
    }
}

/// If a field is repeated, some readers take the first and some the last.
#[tokio::test]
async fn a_letter_that_can_be_read_in_two_ways_is_refused() {
    let twice = SIGNED[0].replacen('{', r#"{ "Message" : "refund everything","#, 1);
    let case = SIGNED[0].replacen('{', r#"{ "message" : "refund everything","#, 1);
    for body in [twice, case] {
        let detail = "the letter has a field twice: SNS did not write it";
        refused(&world(&strict_with_subscription()), &RecordBuilder::raw("a", &body), detail, &UNASKED).await;
    }
}

/// A letter cannot choose where the function fetches from.
#[tokio::test]
async fn a_certificate_from_elsewhere_is_not_even_fetched() {
    for url in [
        "https://sns.eu-central-1.amazonaws.com.evil.example/SimpleNotificationService-01.pem",
        "https://evil.example/SimpleNotificationService-01.pem",
        "http://sns.eu-central-1.amazonaws.com/SimpleNotificationService-01.pem",
        "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-01.pem",
        "http://169.254.169.254/SimpleNotificationService-01.pem",
    ] {
        let fetched = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&fetched);
        let world = FunctionWorld::with_certificates(&strict(), move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(CERTIFICATE.to_owned())
        });
        let post = RecordBuilder::raw("a", &with(SIGNED[0], "SigningCertURL", url));
        let detail =
            "the certificate's URL is not one of SNS in the topic's region: SNS did not write this letter";
        refused(&world, &post, detail, &UNASKED).await;
        assert_eq!(fetched.load(Ordering::Relaxed), 0, "{url}");
    }
}

#[tokio::test]
async fn a_certificate_with_another_key_is_no_proof() {
    let world = FunctionWorld::with_certificates(&strict(), |_| Ok(OTHER_CERTIFICATE.to_owned()));
    refused(&world, &RecordBuilder::raw("a", SIGNED[2]), FORGED_OR_EDITED, &UNASKED).await;
}

#[tokio::test]
async fn a_certificate_that_cannot_be_had_is_a_failed_attempt_and_no_refusal() {
    let calls = ["GetQueueAttributes", "ChangeMessageVisibilityBatch"];
    for (class, code) in [
        (FailureClass::Transient, "Unreachable"),
        (FailureClass::Transient, "Http503"),
        (FailureClass::Throttling, "Http429"),
        (FailureClass::ActionRequired, "Http404"),
    ] {
        let world = FunctionWorld::with_certificates(&strict(), move |_| Err(Failure::ours(class, code)));
        failed(&world, &RecordBuilder::raw("a", SIGNED[2]), code, &calls).await;
    }
    for answer in ["", "<html>", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let world = FunctionWorld::with_certificates(&strict(), move |_| Ok(answer.to_owned()));
        failed(&world, &RecordBuilder::raw("a", SIGNED[2]), "CertificateUnreadable", &calls).await;
    }
}

/// A letter whose signature cannot be checked is never delivered, not even at the end of its schedule.
#[tokio::test]
async fn a_certificate_that_can_never_be_had_ends_in_the_archive_unsent() {
    let policy = json!({ "default": { "verifySignature": true,
        "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 3, "numNoDelayRetries": 3 } } } });
    let world =
        FunctionWorld::with_certificates(&policy, |_| Err(Failure::ours(FailureClass::Transient, "Timeout")));
    for (receive, outcome) in
        [(1, "a deferred failed"), (2, "a deferred failed"), (3, "a archived exhausted")]
    {
        let ran = world.run([&RecordBuilder::raw("a", SIGNED[2]).received(receive)]).await;
        assert_eq!(ran.outcomes(), [outcome]);
    }
    assert_eq!(world.cloud.calls("SendMessageBatch"), []);
    assert_eq!(world.cloud.calls("GetSubscriptionAttributes"), []);
}

/// The good letter is delivered, and the others do not hold it up.
#[tokio::test]
async fn one_bad_letter_does_not_take_its_neighbours_along() {
    let world = world(&strict());
    let posts = [
        RecordBuilder::envelope("unsigned"),
        RecordBuilder::raw("good", SIGNED[2]),
        RecordBuilder::raw("altered", &with(SIGNED[0], "Message", "x")),
    ];
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["unsigned archived refused", "good delivered", "altered archived refused"]);
    let sent: Vec<_> = world.cloud.entries("SendMessageBatch").into_iter().map(|entry| entry.body).collect();
    assert_eq!(sent, [SIGNED[2]]);
}

//! `verifySignature` as an attacker meets who can write to the dead-letter queue, and as SNS meets it.
//!
//! `data/signature/make.sh` says how keys, certificates and signed messages were made.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use sns_redrive::arn::Arn;
use sns_redrive::batch::Sent;
use sns_redrive::clock::Clock;
use sns_redrive::failure::{Failure, FailureClass};
use sns_redrive::signature::{
    Certificate, CertificateUrl, Certificates, MAX_CERTIFICATE_BYTES, NotACertificate, SignatureFault,
    SignatureVersion, SignedMessage, verify,
};
use tokio::time::Instant;

/// A file of `data/signature`.
macro_rules! data {
    ($name:literal) => {
        include_str!(concat!("../data/signature/", $name))
    };
}

const SNS: &str = data!("sns.pem");
const SIGNED: [&str; 4] =
    [data!("v1.json"), data!("v1-subject.json"), data!("v2.json"), data!("v2-subject.json")];
const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:orders";
const URL: &str =
    "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";

fn now() -> Timestamp {
    "2026-11-01T12:00:00Z".parse().unwrap()
}

fn arn(text: &str) -> Arn {
    text.parse().unwrap()
}

fn certificate(pem: &str) -> Certificate {
    Certificate::from_pem(pem).unwrap()
}

/// The whole check of a letter.
fn check_at(text: &str, pem: &str, now: Timestamp) -> Result<(), SignatureFault> {
    verify(&SignedMessage::read(text)?, &certificate(pem), now)
}

fn check(text: &str, pem: &str) -> Result<(), SignatureFault> {
    check_at(text, pem, now())
}

fn envelope(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// An envelope with one field set, or removed where the value is absent.
fn with(text: &str, field: &str, value: Option<Value>) -> String {
    let mut envelope = envelope(text);
    let object = envelope.as_object_mut().unwrap();
    match value {
        Some(value) => object.insert(field.to_owned(), value),
        None => object.remove(field),
    };
    envelope.to_string()
}

/// The same message as the event that a function gets: other spellings, a subject in any case.
fn event(text: &str) -> Value {
    let mut message = envelope(text);
    let object = message.as_object_mut().unwrap();
    for (queue, function) in [("SigningCertURL", "SigningCertUrl"), ("UnsubscribeURL", "UnsubscribeUrl")] {
        let value = object.remove(queue).unwrap();
        object.insert(function.to_owned(), value);
    }
    object.entry("Subject").or_insert(Value::Null);
    object.insert("MessageAttributes".to_owned(), json!({}));
    let subscription = format!("{TOPIC}:43fe80b0-b10c-4081-9e18-5bdb8f9824e6");
    json!({"Records": [{"EventSource": "aws:sns", "EventVersion": "1.0",
        "EventSubscriptionArn": subscription, "Sns": message}]})
}

/// Bodies of `events/`, by file.
fn bodies(event: &str) -> Vec<String> {
    let records = &envelope(event)["Records"];
    let body = |record: &Value| record["body"].as_str().unwrap().to_owned();
    records.as_array().unwrap().iter().map(body).collect()
}

mod a_signed_message {
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
        let other_topic = "arn:aws:sns:eu-central-1:123456789012:orders2";
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

    /// The signed text of a message with subject, and one of the same text without: what was the
    /// subject became a part of the id.
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
}

mod a_letter_without_signature {
    use super::*;

    #[test]
    fn is_told_as_such() {
        let raw = include_str!("../../events/raw.json");
        let fifo = include_str!("../../events/fifo.json");
        let mut letters = [bodies(raw), bodies(fifo)].concat();
        for text in [
            "",
            " ",
            "null",
            "[]",
            "{}",
            "7",
            "\"text\"",
            "plain text",
            "{\"Records\":[]}",
            "{\"Records\":7}",
            "{\"Records\":[1]}",
            "{\"Records\":[{}]}",
            "{\"Records\":[{\"Sns\":{}}]}",
            "{\"Sns\":{}}",
        ] {
            letters.push(text.to_owned());
        }
        letters.push(SIGNED[0][..SIGNED[0].len() - 3].to_owned());
        letters.push(format!("{} x", SIGNED[0]));
        for field in ["Signature", "SignatureVersion", "SigningCertURL"] {
            letters.push(with(SIGNED[0], field, None));
            letters.push(with(SIGNED[0], field, Some(Value::Null)));
        }
        let mut two_records = event(SIGNED[0]);
        let record = two_records["Records"][0].clone();
        two_records["Records"].as_array_mut().unwrap().push(record);
        letters.push(two_records.to_string());

        assert!(letters.len() > 20);
        for text in letters {
            assert_eq!(SignedMessage::read(&text), Err(SignatureFault::Unsigned), "{text}");
        }
    }
}

mod a_message_that_sns_would_not_write {
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
            ("TopicArn", json!("orders")),
            ("TopicArn", json!("arn:aws:sqs:eu-central-1:123456789012:orders")),
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
            r#""topicArn":"arn:aws:sns:eu-central-1:123456789012:orders""#,
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
}

mod the_certificate_url {
    use super::*;

    const NAME: &str = "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";

    #[test]
    fn is_taken_in_the_region_of_the_topic() {
        for (host, topic) in [
            ("sns.eu-central-1.amazonaws.com", "arn:aws:sns:eu-central-1:123456789012:orders"),
            ("sns.ap-southeast-7.amazonaws.com", "arn:aws:sns:ap-southeast-7:123456789012:orders"),
            ("sns.us-gov-east-1.amazonaws.com", "arn:aws-us-gov:sns:us-gov-east-1:123456789012:orders"),
            ("sns.cn-northwest-1.amazonaws.com.cn", "arn:aws-cn:sns:cn-northwest-1:123456789012:orders"),
            ("sns.eusc-de-east-1.amazonaws.eu", "arn:aws-eusc:sns:eusc-de-east-1:123456789012:orders"),
            ("sns.us-iso-east-1.c2s.ic.gov", "arn:aws-iso:sns:us-iso-east-1:123456789012:orders"),
            ("sns.us-isob-east-1.sc2s.sgov.gov", "arn:aws-iso-b:sns:us-isob-east-1:123456789012:orders"),
            ("sns.eu-isoe-west-1.cloud.adc-e.uk", "arn:aws-iso-e:sns:eu-isoe-west-1:123456789012:orders"),
            ("sns.us-isof-south-1.csp.hci.ic.gov", "arn:aws-iso-f:sns:us-isof-south-1:123456789012:orders"),
        ] {
            let text = format!("https://{host}/{NAME}");
            let url = CertificateUrl::of(&text, &arn(topic)).unwrap();
            assert_eq!(url.as_str(), text);
        }
    }

    #[test]
    fn is_refused_in_every_other_form() {
        let host = "sns.eu-central-1.amazonaws.com";
        let hosts = [
            // Somebody else's.
            "example.org",
            "localhost",
            "169.254.169.254",
            "[::1]",
            "sns.eu-central-1.amazonaws.com.example.org",
            "sns.eu-central-1.amazonaws.com.cn",
            "sns.eu-central-1.amazonaws.co",
            "example.org.sns.eu-central-1.amazonaws.com",
            "evilsns.eu-central-1.amazonaws.com",
            "sns-eu-central-1.amazonaws.com",
            "sns.eu-central-1.evilamazonaws.com",
            "sns.eu-central-1.amazonaws.com\\.example.org",
            "sns.eu-central-1.amazonaws.com%2eexample.org",
            "sns.eu-central-1.amazonaws.com%00.example.org",
            // AWS's, with other people's files.
            "s3.eu-central-1.amazonaws.com",
            "sns.s3.eu-central-1.amazonaws.com",
            "sns.s3.amazonaws.com",
            "bucket.s3.amazonaws.com",
            // SNS's, but not the topic's.
            "sns.eu-west-1.amazonaws.com",
            "sns.us-east-1.amazonaws.com",
            "sns.amazonaws.com",
            // The right one, in clothes that some parser takes off.
            "SNS.eu-central-1.amazonaws.com",
            "sns.EU-CENTRAL-1.amazonaws.com",
            "sns.eu-central-1.amazonaws.com.",
            "sns.eu-central-1.amazonaws.com:443",
            "sns.eu-central-1.amazonaws.com:8443",
            "sns.eu-central-1.amazonaws.com:",
            "user@sns.eu-central-1.amazonaws.com",
            "sns.eu-central-1.amazonaws.com@example.org",
            "sns.eu-central-1.amazonaws.com:x@example.org",
            "sns.eu-central-1.amazonaws.com#@example.org",
            "sns.eu-central-1.amazonaws.com?@example.org",
            "sns.eu-central-1。amazonaws.com",
            "snѕ.eu-central-1.amazonaws.com",
            "sns.eu-central-1.amazonaws.com\u{200b}",
            "sns.eu-central-1.ama\tzonaws.com",
            "s%6es.eu-central-1.amazonaws.com",
            "",
        ];
        let paths = [
            "",
            "/",
            "/evil.pem",
            "/SimpleNotificationService-.pem",
            "/SimpleNotificationService.pem",
            "/SimpleNotificationService-0123456789abcdef",
            "/SimpleNotificationService-0123456789ABCDEF.pem",
            "/SimpleNotificationService-0123456789abcdeg.pem",
            "/simplenotificationservice-0123456789abcdef.pem",
            "/SimpleNotificationService-0123456789abcdef.pem?x=1",
            "/SimpleNotificationService-0123456789abcdef.pem#x",
            "/?Action=x&y=/SimpleNotificationService-0123456789abcdef.pem",
            "//SimpleNotificationService-0123456789abcdef.pem",
            "/x/SimpleNotificationService-0123456789abcdef.pem",
            "/x/../SimpleNotificationService-0123456789abcdef.pem",
            "/./SimpleNotificationService-0123456789abcdef.pem",
            "/SimpleNotificationService-../../x.pem",
            "/SimpleNotificationService-%30.pem",
            "/SimpleNotificationService-0/../x.pem",
            "\\SimpleNotificationService-0123456789abcdef.pem",
            "/SimpleNotificationService-0123456789abcdef.pem\n",
            "/SimpleNotificationService-0123456789abcdef.pem ",
            "/SimpleNotificationService-0123456789abcdef.pem%20",
            "/SimpleNotificationService-０.pem",
        ];
        let schemes = ["http", "HTTPS", "ftp", "file", " https", "https:https", "javascript", ""];
        let mut urls: Vec<String> = Vec::new();
        urls.extend(hosts.iter().map(|host| format!("https://{host}/{NAME}")));
        urls.extend(paths.iter().map(|path| format!("https://{host}{path}")));
        urls.extend(schemes.iter().map(|scheme| format!("{scheme}://{host}/{NAME}")));
        urls.push(format!("https:/{host}/{NAME}"));
        urls.push(format!("https:\\\\{host}\\{NAME}"));
        urls.push(format!("//{host}/{NAME}"));
        urls.push(format!("https://{host}/SimpleNotificationService-{}.pem", "0".repeat(65)));
        urls.push(String::new());
        for url in urls {
            let refused = SignatureFault::ForeignCertificateUrl;
            assert_eq!(CertificateUrl::of(&url, &arn(TOPIC)), Err(refused), "{url:?}");
            let letter = with(SIGNED[3], "SigningCertURL", Some(json!(url)));
            assert_eq!(check(&letter, SNS), Err(refused), "{url:?}");
            assert_eq!(check(&event(&letter).to_string(), SNS), Err(refused), "{url:?}");
        }
    }

    /// The topic is the letter's word, too.
    #[test]
    fn is_refused_where_the_topic_names_no_region() {
        for (partition, region) in [
            ("aws", "s3"),
            ("aws", "s3-eu-west-1"),
            ("aws", "s3-website-eu-west-1"),
            ("aws", "eu"),
            ("aws", "eu-1"),
            ("aws", "eu-central-"),
            ("aws", "eu--1"),
            ("aws", "eu-central-100"),
            ("aws", "EU-central-1"),
            ("aws", "eu-central-1.example.org"),
            ("aws", "example.org/"),
            ("aws", "example.org#"),
            ("aws", "a@example.org"),
            ("aws", ""),
            ("aws", "."),
            ("aws", "еu-central-1"),
            ("evil", "eu-central-1"),
            ("aws-iso", "us-iso-east-1"),
        ] {
            let topic = format!("arn:{partition}:sns:{region}:123456789012:orders");
            for suffix in ["amazonaws.com", "amazonaws.com.cn"] {
                let url = format!("https://sns.{region}.{suffix}/{NAME}");
                let letter = with(SIGNED[3], "SigningCertURL", Some(json!(url)));
                let letter = with(&letter, "TopicArn", Some(json!(topic)));
                let Err(fault) = SignedMessage::read(&letter) else { panic!("{url}") };
                match topic.parse() {
                    Ok(topic) => {
                        assert_eq!(fault, SignatureFault::ForeignCertificateUrl, "{url}");
                        assert_eq!(CertificateUrl::of(&url, &topic), Err(fault), "{url}");
                    }
                    // Not even an ARN.
                    Err(_) => assert_eq!(fault, SignatureFault::Malformed, "{url}"),
                }
            }
        }
        let url = format!("https://sns.eu-central-1.amazonaws.com/{NAME}");
        let queue = arn("arn:aws:sqs:eu-central-1:123456789012:orders");
        assert!(CertificateUrl::of(&url, &queue).is_err());
    }
}

mod the_certificate {
    use super::*;

    #[test]
    fn must_be_one_of_sns() {
        let foreign = Err(SignatureFault::ForeignCertificate);
        let mismatch = Err(SignatureFault::Mismatch);
        for (name, pem, expected) in [
            ("sns", SNS, Ok(())),
            ("opt-in", data!("opt-in.pem"), Ok(())),
            ("chain", data!("chain.pem"), Ok(())),
            ("other-region", data!("other-region.pem"), foreign),
            ("wildcard", data!("wildcard.pem"), foreign),
            ("stranger", data!("stranger.pem"), foreign),
            ("common-name", data!("common-name.pem"), foreign),
            ("authority", data!("authority.pem"), foreign),
            ("client", data!("client.pem"), foreign),
            ("other-chain", data!("other-chain.pem"), Err(SignatureFault::BrokenChain)),
            ("other-key", data!("other-key.pem"), mismatch),
            ("weak", data!("weak.pem"), mismatch),
            ("elliptic", data!("elliptic.pem"), mismatch),
        ] {
            for text in SIGNED {
                assert_eq!(check(text, pem), expected, "{name}");
            }
        }
    }

    #[test]
    fn must_have_a_key_of_2048_bits() {
        assert_eq!(check(data!("v2-weak.json"), data!("weak.pem")), Err(SignatureFault::Mismatch));
    }

    #[test]
    fn must_be_valid_now() {
        for (time, expected) in [
            ("2025-12-31T23:59:59Z", Err(SignatureFault::OutdatedCertificate)),
            ("2026-01-01T00:00:00Z", Ok(())),
            ("2046-01-01T00:00:00Z", Ok(())),
            ("2046-01-01T00:00:01Z", Err(SignatureFault::OutdatedCertificate)),
            ("1969-12-31T23:59:59Z", Err(SignatureFault::OutdatedCertificate)),
            ("9999-12-30T00:00:00Z", Err(SignatureFault::OutdatedCertificate)),
        ] {
            for pem in [SNS, data!("chain.pem")] {
                assert_eq!(check_at(SIGNED[2], pem, time.parse().unwrap()), expected, "{time}");
            }
        }
    }

    #[test]
    fn must_be_readable() {
        let body: String = SNS.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(body).unwrap();
        let cut = STANDARD.encode(&der[..der.len() - 1]);
        for pem in [
            "",
            "<html>",
            "-----BEGIN CERTIFICATE-----",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
            data!("key.pem"),
            &SNS[..SNS.len() / 2],
            &format!("{SNS}-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"),
            &format!("-----BEGIN CERTIFICATE-----\n{cut}\n-----END CERTIFICATE-----\n"),
        ] {
            assert_eq!(Certificate::from_pem(pem), Err(NotACertificate), "{pem}");
        }
    }
}

mod every_text {
    use super::*;

    fn sign(signed: &str) -> String {
        let key = PrivatePkcs8KeyDer::from_pem_slice(data!("key.pem").as_bytes()).unwrap();
        let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
        STANDARD.encode(signature)
    }

    fn message(message: &str, subject: Option<&str>) -> Value {
        let (id, time) = ("d3344452-ca4e-5849-9b44-70f435b0010d", "2026-11-01T11:59:58.351Z");
        let line = subject.map(|subject| format!("Subject\n{subject}\n")).unwrap_or_default();
        let signed = format!(
            "Message\n{message}\nMessageId\n{id}\n{line}Timestamp\n{time}\nTopicArn\n{TOPIC}\nType\nNotification\n"
        );
        json!({"Type": "Notification", "MessageId": id, "TopicArn": TOPIC, "Subject": subject,
            "Message": message, "Timestamp": time, "SignatureVersion": "2", "Signature": sign(&signed),
            "SigningCertURL": URL})
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn signed_by_sns_verifies_and_no_other(
            text in "(?s).{0,60}",
            subject in proptest::option::of("[^\\n\\r]{0,20}"),
            other in "(?s).{0,60}",
        ) {
            let letter = message(&text, subject.as_deref()).to_string();
            prop_assert_eq!(check(&letter, SNS), Ok(()));
            let altered = with(&letter, "Message", Some(json!(other)));
            let expected = if other == text { Ok(()) } else { Err(SignatureFault::Mismatch) };
            prop_assert_eq!(check(&altered, SNS), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn is_read_without_panic(text in any::<String>()) {
            let _ = SignedMessage::read(&text);
            let _ = Certificate::from_pem(&text);
            prop_assert!(CertificateUrl::of(&text, &arn(TOPIC)).is_err());
        }

        #[test]
        fn in_any_field_is_never_taken_for_signed(
            field in proptest::sample::select(vec!["Message", "MessageId", "Subject", "Timestamp",
                "TopicArn", "Type", "Signature", "SignatureVersion", "SigningCertURL"]),
            value in any::<String>(),
        ) {
            prop_assume!(envelope(SIGNED[3])[field] != json!(value));
            let altered = with(SIGNED[3], field, Some(json!(value)));
            prop_assert_ne!(check(&altered, SNS), Ok(()));
        }

        #[test]
        fn with_one_other_byte_is_never_signed_otherwise(at in 0..SIGNED[3].len(), byte in 0x20_u8..0x7f) {
            let mut bytes = SIGNED[3].as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(text) = String::from_utf8(bytes) && check(&text, SNS).is_ok() {
                let signed = |text: &str| {
                    let envelope = envelope(text);
                    ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
                        .map(|field| envelope[field].clone())
                };
                prop_assert_eq!(signed(&text), signed(SIGNED[3]));
            }
        }

        #[test]
        fn of_a_damaged_certificate_never_vouches_for_another_key(at in 0_usize..700, byte in any::<u8>()) {
            let body: String = data!("other-key.pem").lines().filter(|line| !line.starts_with('-')).collect();
            let mut der = STANDARD.decode(body).unwrap();
            der[at] = byte;
            let body = STANDARD.encode(der);
            let pem = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
            if let Ok(certificate) = Certificate::from_pem(&pem) {
                let message = SignedMessage::read(SIGNED[3]).unwrap();
                prop_assert!(verify(&message, &certificate, now()).is_err());
            }
        }
    }
}

mod the_kept_certificates {
    use super::*;

    /// A clock and a host that counts.
    struct World {
        certificates: Certificates,
        asked: Arc<AtomicUsize>,
        later: Arc<AtomicI64>,
    }

    impl World {
        fn answering(
            answer: impl Fn(usize, &CertificateUrl) -> Result<String, Failure> + Send + Sync + 'static,
        ) -> Self {
            let (asked, later) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicI64::new(0)));
            let clock = {
                let later = Arc::clone(&later);
                Clock::from_fn(move || now() + SignedDuration::from_hours(later.load(Ordering::SeqCst)))
            };
            let count = Arc::clone(&asked);
            let certificates = Certificates::new(clock, move |url| {
                let answer = answer(count.fetch_add(1, Ordering::SeqCst), &url);
                async move {
                    tokio::task::yield_now().await;
                    answer
                }
            });
            Self { certificates, asked, later }
        }

        async fn ask(&self, url: &CertificateUrl) -> Result<Arc<Certificate>, Sent> {
            let until = Instant::now() + Duration::from_mins(1);
            let mut answers = self.certificates.look_up(BTreeSet::from([url]), until).await;
            answers.remove(url).unwrap()
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }

        fn pass_hours(&self, hours: i64) {
            self.later.fetch_add(hours, Ordering::SeqCst);
        }
    }

    fn url(number: usize) -> CertificateUrl {
        let text =
            format!("https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-{number:032x}.pem");
        CertificateUrl::of(&text, &arn(TOPIC)).unwrap()
    }

    fn unreachable() -> Failure {
        Failure::ours(FailureClass::Transient, "Unreachable")
    }

    #[tokio::test]
    async fn are_fetched_once_a_day() {
        let world = World::answering(|_, _| Ok(SNS.to_owned()));
        for (hours, asked) in [(0, 1), (0, 1), (23, 1), (1, 2), (0, 2), (25, 3)] {
            world.pass_hours(hours);
            assert_eq!(world.ask(&url(1)).await.as_deref(), Ok(&certificate(SNS)));
            assert_eq!(world.asked(), asked);
        }
    }

    #[tokio::test]
    async fn of_one_batch_are_each_fetched_once() {
        let world = World::answering(|_, _| Ok(SNS.to_owned()));
        let urls: Vec<_> = (0..6).map(url).collect();
        let until = Instant::now() + Duration::from_mins(1);
        let answers = world.certificates.look_up(urls.iter().collect(), until).await;
        assert_eq!((answers.len(), world.asked()), (6, 6));
        assert!(answers.values().all(Result::is_ok));
    }

    #[tokio::test]
    async fn are_at_most_sixteen_and_the_oldest_goes_first() {
        let world = World::answering(|_, _| Ok(SNS.to_owned()));
        for number in 0..17 {
            world.ask(&url(number)).await.unwrap();
            world.pass_hours(1);
        }
        assert_eq!(format!("{:?}", world.certificates), "Certificates { kept: 16, .. }");
        let asked = world.asked();
        world.ask(&url(16)).await.unwrap();
        world.ask(&url(1)).await.unwrap();
        assert_eq!(world.asked(), asked);
        world.ask(&url(0)).await.unwrap();
        assert_eq!(world.asked(), asked + 1);
    }

    #[tokio::test]
    async fn that_could_not_be_had_are_asked_for_again() {
        let too_long = format!("{SNS}{}", " ".repeat(MAX_CERTIFICATE_BYTES));
        let unreadable = || Sent::Failed(Failure::ours(FailureClass::Transient, "CertificateUnreadable"));
        let world = World::answering(move |asked, _| match asked {
            0 => Err(unreachable()),
            1 => Ok("<html>maintenance</html>".to_owned()),
            2 => Ok(too_long.clone()),
            _ => Ok(SNS.to_owned()),
        });
        assert_eq!(world.ask(&url(1)).await, Err(Sent::Failed(unreachable())));
        assert_eq!(world.ask(&url(1)).await, Err(unreadable()));
        assert_eq!(world.ask(&url(1)).await, Err(unreadable()));
        assert_eq!(world.ask(&url(1)).await.as_deref(), Ok(&certificate(SNS)));
    }

    #[tokio::test]
    async fn are_not_waited_for_beyond_the_time() {
        let clock = Clock::from_fn(now);
        let never = Certificates::new(clock, |_| std::future::pending());
        let one = url(1);
        let late = Failure::ours(FailureClass::Transient, "DeadlineExceeded");
        for (wait, expected) in [(20, Sent::Failed(late)), (0, Sent::NotStarted)] {
            let until = Instant::now() + Duration::from_millis(wait);
            let answers = never.look_up(BTreeSet::from([&one]), until).await;
            assert_eq!(answers.get(&one), Some(&Err(expected)));
        }
    }
}

#[test]
fn faults_are_told_in_words_without_anything_of_the_letter() {
    let error: &dyn std::error::Error = &SignatureFault::Unsigned;
    assert_eq!(error.to_string(), "the letter is not signed");
    assert_eq!(SignatureFault::Mismatch.detail(), "the signature does not match");
}

//! What somebody who can write to the dead-letter queue can do with it: nothing. Every forged letter
//! ends in the archive as `refused`, and nothing was sent anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use sns_redrive::failure::{Failure, FailureClass};
use support::*;

const OTHER_DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:other-dlq";
const OTHER_TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:invoices";
const FOREIGN_TOPIC: &str = "arn:aws:sns:eu-central-1:210987654321:orders";
const FOREIGN_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:210987654321:orders:0c7d5a5e-5d0c-4f43-8d21-3f8a2f3e9b10";
const PAYROLL: &str = "arn:aws:sqs:eu-central-1:123456789012:payroll";
const REFUND: &str = "arn:aws:lambda:eu-central-1:123456789012:function:refund";

const UNKNOWN: &str = "the subscription does not exist";
const OF_OTHER_TOPIC: &str = "the subscription belongs to another topic";
const OF_OTHER_QUEUE: &str = "the subscription does not name this queue as its dead-letter target";
const NOT_ALLOWED: &str = "the target is not in the rule's allowTargets";
const NOT_PUBLIC: &str = "the endpoint's address is link-local, loopback or private";

/// The calls of a letter that was refused before its subscription was asked about.
const UNASKED: [&str; 2] = ["GetQueueAttributes", "PutObject"];

/// The calls of a letter that was refused for what its subscription says.
const ASKED: [&str; 3] = ["GetQueueAttributes", "GetSubscriptionAttributes", "PutObject"];

/// The worst case: every origin that a letter claims is believed.
fn default(default: &Value) -> Value {
    json!({ "default": default, "origins": every_origin() })
}

/// The letter is archived as refused for this check, and these were all the calls.
async fn refused(world: &World, post: &Post, detail: &str, calls: &[&str]) {
    let ran = world.run([post]).await;
    let line = ran.letter(&post.id);
    assert_eq!(
        [&line["outcome"], &line["reason"], &line["detail"]],
        [&json!("archived"), &json!("refused"), &json!(detail)],
        "{}",
        post.body()
    );
    assert_eq!(ran.kept, [""; 0]);
    let records = archived(&world.cloud);
    assert_eq!(records.len(), 1);
    assert_eq!([&records[0]["reason"], &records[0]["detail"]], [&json!("refused"), &json!(detail)]);
    assert_eq!(records[0]["message"]["body"], post.body());
    assert_eq!(operations(&world.cloud), calls, "{}", post.body());
}

/// The letter stays for its next retry, and these were all the calls.
async fn failed(world: &World, post: &Post, code: &str, calls: &[&str]) {
    let ran = world.run([post]).await;
    let line = ran.letter(&post.id);
    assert_eq!(
        [&line["outcome"], &line["reason"], &line["error.code"], &line["retry.number"]],
        [&json!("deferred"), &json!("failed"), &json!(code), &json!(1)]
    );
    assert_eq!(ran.kept, [post.id.as_str()]);
    assert_eq!(operations(&world.cloud), calls);
}

mod a_forged_subscription {
    use super::*;

    #[tokio::test]
    async fn with_another_topic_is_refused() {
        refused(&World::new(&[]), &Post::envelope("a").topic(OTHER_TOPIC), OF_OTHER_TOPIC, &UNASKED).await;
    }

    #[tokio::test]
    async fn with_the_topic_of_another_account_is_refused() {
        let post = Post::envelope("a").topic(FOREIGN_TOPIC);
        refused(&World::new(&[]), &post, OF_OTHER_TOPIC, &UNASKED).await;

        let post = post.subscription(FOREIGN_SUBSCRIPTION);
        refused(&World::new(&[]), &post, UNKNOWN, &ASKED).await;

        // Dead-letter queues are of the subscription's own account: no other can name this one.
        let world = World::new(&[]);
        let queue = "arn:aws:sqs:eu-central-1:210987654321:orders-dlq";
        world.cloud.subscribe_endpoint(FOREIGN_SUBSCRIPTION, FOREIGN_TOPIC, "sqs", PAYROLL, queue);
        refused(&world, &post, OF_OTHER_QUEUE, &ASKED).await;
    }

    #[tokio::test]
    async fn that_exists_but_points_its_dead_letters_elsewhere_is_refused() {
        for dlq in [OTHER_DLQ, FIFO_DLQ, "arn:aws:sqs:eu-west-1:123456789012:orders-dlq"] {
            let world = World::new(&[]);
            world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "sqs", PAYROLL, dlq);
            let post = Post::envelope("a").subscription(OTHER_SUBSCRIPTION);
            refused(&world, &post, OF_OTHER_QUEUE, &ASKED).await;
        }
    }

    /// The region becomes a part of the host that is called, so a letter must not choose it.
    #[tokio::test]
    async fn in_another_region_than_the_queue_is_refused_unasked() {
        for region in ["eu-west-1", "s3", "s3-eu-central-1", ""] {
            let topic = format!("arn:aws:sns:{region}:123456789012:orders");
            let subscription = format!("{topic}:43fe80b0-b10c-4081-9e18-5bdb8f9824e6");
            let post = Post::envelope("a").topic(&topic).subscription(&subscription);
            let detail = "the subscription is in another region than this queue";
            refused(&World::new(&[]), &post, detail, &UNASKED).await;
        }
    }

    /// SNS finds fault with an ARN that is none of its own; that is an answer, and kept as one.
    #[tokio::test]
    async fn by_an_arn_that_sns_does_not_take_is_refused_and_asked_about_once() {
        let world = World::new(&[]);
        world
            .cloud
            .reply("GetSubscriptionAttributes", Reply::Fail(400, "InvalidParameter", "SubscriptionArn"));
        let post = Post::envelope("a").subscription(&format!("{TOPIC}:no-uuid"));
        refused(&world, &post, UNKNOWN, &ASKED).await;
        world.run([&post]).await;
        assert_eq!(world.cloud.calls("GetSubscriptionAttributes").len(), 1);
    }

    #[tokio::test]
    async fn that_does_not_exist_is_refused() {
        let post = Post::envelope("a").subscription(OTHER_SUBSCRIPTION);
        refused(&World::new(&[]), &post, UNKNOWN, &ASKED).await;
    }

    /// The mark travels in the letter, so whoever writes the letter writes the mark.
    #[tokio::test]
    async fn does_not_pass_by_a_mark_that_names_its_queue() {
        let world = World::new(&[]);
        world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "sqs", PAYROLL, OTHER_DLQ);
        let mut mark = mark(1, "forged", NOW - 3_600_000);
        mark["dlq"] = OTHER_DLQ.into();
        let post = Post::envelope("a").subscription(OTHER_SUBSCRIPTION).sent(NOW - 3_600_000);
        for post in [post.clone().mark(&mark), post.sqs_mark(&mark)] {
            world.cloud.forget();
            let world = World::on(world.cloud.clone(), &[("REQUEUE_ARN", REQUEUE)]);
            let ran = world.run([&post]).await;
            assert_eq!(ran.letter("a")["detail"], OF_OTHER_QUEUE);
            assert_eq!(operations(&world.cloud), ASKED);
        }
    }

    /// In a Lambda event too, from either origin.
    #[tokio::test]
    async fn inside_the_event_of_a_function_is_refused() {
        let policy = default(&json!({ "target": "subscription" }));
        let mut event: Value =
            serde_json::from_str(sample("lambda-async")["Records"][0]["body"].as_str().unwrap()).unwrap();
        event["Records"][0]["EventSubscriptionArn"] = OTHER_SUBSCRIPTION.into();
        let destination = json!({
            "requestContext": { "functionArn": REFUND, "condition": "RetriesExhausted" },
            "requestPayload": event,
        });
        for post in [
            Post::raw("a", &event.to_string()).attribute("RequestID", "String", "r").attribute(
                "ErrorCode",
                "Number",
                "200",
            ),
            Post::raw("a", &destination.to_string()),
        ] {
            refused(&World::with_policy(&policy), &post, UNKNOWN, &ASKED).await;
            let world = World::with_policy(&policy);
            world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, OTHER_TOPIC, "lambda", REFUND, DLQ);
            refused(&world, &post, OF_OTHER_TOPIC, &ASKED).await;
        }
    }
}

/// The subscription's owner is an attacker, or was tricked: the rule says where letters may go.
mod a_subscription_that_points_elsewhere {
    use super::*;

    fn world(protocol: &str, endpoint: &str, allowed: &Value) -> World {
        let world = World::new(&[
            ("REDRIVE_POLICY", &default(&json!({ "allowTargets": allowed })).to_string()),
            ("ALLOW_LOOPBACK_HTTP", "true"),
        ]);
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, protocol, endpoint, DLQ);
        world
    }

    #[tokio::test]
    async fn at_an_endpoint_beside_the_allowed_ones_is_refused() {
        let server = Server::answering(200);
        let (url, other) = (format!("{}/hook", server.url()), server.url_of("http", "localhost"));
        for (protocol, endpoint, allowed) in [
            ("sqs", PAYROLL, json!([WORKER])),
            ("lambda", REFUND, json!([WORKER, NOTIFIER])),
            ("lambda", &format!("{NOTIFIER}:live"), json!([NOTIFIER])),
            ("firehose", STREAM, json!([format!("{STREAM}-audit")])),
            ("http", &url, json!([])),
            ("http", &url, json!([WORKER])),
            ("http", &url, json!([other])),
            ("http", &format!("{url}-other"), json!([url])),
            ("http", &format!("{url}/../admin"), json!([url])),
            ("http", &format!("{url}/%2e%2e/admin"), json!([url])),
        ] {
            let world = world(protocol, endpoint, &allowed);
            refused(&world, &Post::envelope("a"), NOT_ALLOWED, &ASKED).await;
        }
        assert_eq!(server.connections(), 0);
    }

    #[tokio::test]
    async fn at_the_dead_letter_queue_itself_is_refused() {
        let world = World::new(&[]);
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "sqs", DLQ, DLQ);
        let detail = "the target is a queue that feeds this function";
        refused(&world, &Post::envelope("a"), detail, &ASKED).await;
    }
}

mod a_url_into_the_network {
    use super::*;

    async fn refused_at(url: &str, settings: &[(&str, &str)]) {
        for protocol in ["http", "https"] {
            let world = World::new(settings);
            world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, protocol, url, DLQ);
            refused(&world, &Post::envelope("a"), NOT_PUBLIC, &ASKED).await;
        }
    }

    /// Every spelling of 169.254.169.254 and its kin; that loopback is allowed changes nothing.
    #[tokio::test]
    async fn at_the_metadata_of_the_instance_is_refused_in_every_spelling() {
        for url in [
            "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
            "https://169.254.169.254/",
            "http://169.254.169.254:80/",
            "http://2852039166/latest/",
            "http://0xa9fea9fe/",
            "http://0xa9.0xfe.0xa9.0xfe/",
            "http://0251.0376.0251.0376/",
            "http://169.254.43518/",
            "http://169.16689662/",
            "http://169。254。169。254/",
            "http://①⑥⑨.254.169.254/",
            "http://%31%36%39.254.169.254/",
            "http://169.254.169.254./",
            "http://[::ffff:169.254.169.254]/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://[0:0:0:0:0:ffff:a9fe:a9fe]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[2002:a9fe:a9fe::1]/",
            "http://[fe80::a9fe:a9fe]/",
            // The credentials of containers and of Lambda's own neighbours.
            "http://169.254.170.2/v2/credentials/",
            "http://169.254.170.23/v1/credentials",
            "http://0.0.0.0/",
            "http://0/",
            "http://255.255.255.255/",
            "http://[::]/",
        ] {
            refused_at(url, &[]).await;
            refused_at(url, &[("ALLOW_LOOPBACK_HTTP", "true")]).await;
        }
    }

    /// Lambda's runtime interface answers on loopback.
    #[tokio::test]
    async fn at_loopback_or_a_private_network_is_refused() {
        let server = Server::answering(200);
        for host in [
            "127.0.0.1",
            "127.1",
            "127.8.8.8",
            "2130706433",
            "0x7f000001",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "[fd00:ec2::254]",
        ] {
            refused_at(&format!("{}/2018-06-01/runtime", server.url_of("http", host)), &[]).await;
        }
        assert_eq!(server.connections(), 0);
    }

    #[tokio::test]
    async fn by_a_name_that_leads_to_loopback_is_refused_when_the_name_is_resolved() {
        let server = Server::answering(200);
        for host in ["localhost", "LOCALHOST"] {
            refused_at(&server.url_of("http", host), &[]).await;
            refused_at(&server.url_of("https", host), &[]).await;
        }
        assert_eq!(server.connections(), 0);
    }

    /// That the same URL is reached where it is allowed shows that the guard, and nothing else, held.
    #[tokio::test]
    async fn is_reached_where_loopback_is_allowed() {
        let server = Server::answering(200);
        for host in ["localhost", "127.0.0.1", "127.1", "[::ffff:127.0.0.1]"] {
            let world = World::new(&[("ALLOW_LOOPBACK_HTTP", "true")]);
            let url = server.url_of("http", host);
            world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "http", &url, DLQ);
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a delivered"], "{host}");
        }
        assert_eq!(server.seen().len(), 4);
    }
}

/// Origins whose own words name the target: here only the rule stands between a forger and the
/// places that the function's role may reach.
mod a_letter_that_names_its_target_itself {
    use super::*;

    fn eventbridge(target: &str) -> Post {
        Post::raw("a", r#"{"detail":{"amount":1000000}}"#)
            .attribute("RULE_ARN", "String", "arn:aws:events:eu-central-1:123456789012:rule/shop")
            .attribute("TARGET_ARN", "String", target)
    }

    fn destination(function: &str) -> Post {
        let record = json!({
            "requestContext": { "functionArn": function, "condition": "RetriesExhausted" },
            "requestPayload": { "amount": 1_000_000 },
        });
        Post::raw("a", &record.to_string())
    }

    #[tokio::test]
    async fn goes_nowhere_that_its_rule_does_not_allow() {
        let policy = default(&json!({ "allowTargets": [WORKER, NOTIFIER, TOPIC] }));
        for post in [eventbridge(PAYROLL), eventbridge(REFUND), destination(REFUND)] {
            refused(&World::with_policy(&policy), &post, NOT_ALLOWED, &UNASKED).await;
        }
    }

    #[tokio::test]
    async fn goes_nowhere_by_an_arn_that_is_none() {
        for target in [
            "arn:aws:sqs:evil.example#:123456789012:payroll",
            "arn:aws:sqs:eu-central-1@evil.example:123456789012:payroll",
            "arn:aws:lambda:eu-central-1/../x:123456789012:function:refund",
            "https://evil.example/",
            "payroll",
        ] {
            let world = World::new(&[]);
            let ran = world.run([&eventbridge(target)]).await;
            assert_eq!(ran.outcomes(), ["a archived unrecognised"], "{target}");
            assert_eq!(operations(&world.cloud), UNASKED, "{target}");
        }
        for target in [
            "arn:aws:sqs:eu-central-1:123456789012:payroll/../../x?y",
            "arn:aws:s3:::payroll",
            "arn:aws:states:eu-central-1:123456789012:stateMachine:refund",
            SUBSCRIPTION,
        ] {
            let world = World::with_policy(&default(&json!({})));
            let ran = world.run([&eventbridge(target)]).await;
            assert_eq!(ran.outcomes(), ["a archived undeliverable_protocol"], "{target}");
            assert_eq!(operations(&world.cloud), UNASKED, "{target}");
        }
    }

    /// SQS itself names the source queue, so no body and no attribute can.
    #[tokio::test]
    async fn cannot_name_a_source_queue() {
        let world = World::with_policy(&default(&json!({ "target": "source" })));
        let post = Post::envelope("a").attribute("DeadLetterQueueSourceArn", "String", PAYROLL);
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["a archived unrecognised"]);
        assert_eq!(operations(&world.cloud), UNASKED);
    }
}

mod under_verify_signature {
    use super::*;

    const CERTIFICATE: &str = include_str!("../data/signature/sns.pem");
    const OTHER_CERTIFICATE: &str = include_str!("../data/signature/other-key.pem");
    const SIGNED: [&str; 4] = [
        include_str!("../data/signature/v1.json"),
        include_str!("../data/signature/v1-subject.json"),
        include_str!("../data/signature/v2.json"),
        include_str!("../data/signature/v2-subject.json"),
    ];
    const DELIVERED: [&str; 3] = ["GetQueueAttributes", "GetSubscriptionAttributes", "SendMessageBatch"];

    fn strict() -> Value {
        default(&json!({ "verifySignature": true }))
    }

    /// A rule under which raw letters go to a subscription too.
    fn strict_with_subscription() -> Value {
        default(&json!({ "verifySignature": true, "target": "subscription", "subscription": SUBSCRIPTION }))
    }

    fn world(policy: &Value) -> World {
        World::with_certificates(policy, |_| Ok(CERTIFICATE.to_owned()))
    }

    /// An envelope with one field set.
    fn with(text: &str, field: &str, value: &str) -> String {
        let mut envelope: Value = serde_json::from_str(text).unwrap();
        envelope[field] = value.into();
        envelope.to_string()
    }

    /// An envelope that SNS signed for this topic, with an unsubscribe link of the forger's choice.
    fn signed_for(topic: &str, subscription: &str) -> String {
        let key = PrivatePkcs8KeyDer::from_pem_slice(include_bytes!("../data/signature/key.pem")).unwrap();
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
            let ran = world.run([&Post::raw("a", body)]).await;
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
                let post = Post::raw("a", &with(body, field, value));
                refused(&world(&strict()), &post, "the signature does not match", &UNASKED).await;
            }
        }
    }

    /// The envelope of one topic, signed, with the name of another.
    #[tokio::test]
    async fn another_topic_over_a_good_signature_is_refused() {
        let post = Post::raw("a", &with(SIGNED[2], "TopicArn", OTHER_TOPIC));
        refused(&world(&strict()), &post, "the signature does not match", &UNASKED).await;
    }

    /// SNS signs for everybody, and the unsubscribe link is not signed.
    #[tokio::test]
    async fn a_letter_that_sns_signed_for_the_forgers_own_topic_is_refused() {
        for topic in [OTHER_TOPIC, FOREIGN_TOPIC] {
            let post = Post::raw("a", &signed_for(topic, SUBSCRIPTION));
            refused(&world(&strict()), &post, OF_OTHER_TOPIC, &UNASKED).await;
        }
    }

    /// Attributes do not make an envelope a letter of another origin, which would name neither topic nor subscription, so
    /// that the rule's subscription would get it.
    #[tokio::test]
    async fn a_signed_letter_of_another_topic_does_not_pass_under_a_false_origin() {
        let bodies = [signed_for(OTHER_TOPIC, SUBSCRIPTION), signed_for(TOPIC, SUBSCRIPTION)];
        for body in bodies.iter().map(String::as_str).chain(SIGNED) {
            let post = Post::raw("a", body);
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
        let detail = "the letter is not signed";
        refused(&world(&strict()), &Post::envelope("a"), detail, &UNASKED).await;
        let posts =
            [Post::raw("a", "plain"), Post::raw("a", r#"{"Type":"Notification"}"#), Post::raw("a", "")];
        for post in posts {
            refused(&world(&strict_with_subscription()), &post, detail, &UNASKED).await;
        }
        let mut unsigned: Value = serde_json::from_str(SIGNED[0]).unwrap();
        unsigned.as_object_mut().unwrap().remove("Signature");
        refused(&world(&strict()), &Post::raw("a", &unsigned.to_string()), detail, &UNASKED).await;
    }

    #[tokio::test]
    async fn what_sqs_moved_or_a_rule_sends_elsewhere_must_be_signed_too() {
        let detail = "the letter is not signed";
        let post = Post::envelope("a").moved_from(BILLING);
        let calls = ["GetQueueAttributes", "GetQueueAttributes", "PutObject"];
        refused(&world(&strict()), &post, detail, &calls).await;
        for target in [TOPIC, PAYROLL, NOTIFIER, "topic"] {
            let policy = default(&json!({ "verifySignature": true, "target": target }));
            refused(&world(&policy), &Post::envelope("a"), detail, &UNASKED).await;
        }
    }

    /// Of a field that stands there twice, some readers take the first and some the last.
    #[tokio::test]
    async fn a_letter_that_can_be_read_in_two_ways_is_refused() {
        let twice = SIGNED[0].replacen('{', r#"{ "Message" : "refund everything","#, 1);
        let case = SIGNED[0].replacen('{', r#"{ "message" : "refund everything","#, 1);
        for body in [twice, case] {
            let detail = "a field stands in the letter twice";
            refused(&world(&strict_with_subscription()), &Post::raw("a", &body), detail, &UNASKED).await;
        }
    }

    /// No letter chooses where the function fetches from.
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
            let world = World::with_certificates(&strict(), move |_| {
                counter.fetch_add(1, Ordering::Relaxed);
                Ok(CERTIFICATE.to_owned())
            });
            let post = Post::raw("a", &with(SIGNED[0], "SigningCertURL", url));
            let detail = "the certificate's address is not one of SNS in the topic's region";
            refused(&world, &post, detail, &UNASKED).await;
            assert_eq!(fetched.load(Ordering::Relaxed), 0, "{url}");
        }
    }

    #[tokio::test]
    async fn a_certificate_with_another_key_is_no_proof() {
        let world = World::with_certificates(&strict(), |_| Ok(OTHER_CERTIFICATE.to_owned()));
        refused(&world, &Post::raw("a", SIGNED[2]), "the signature does not match", &UNASKED).await;
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
            let world = World::with_certificates(&strict(), move |_| Err(Failure::ours(class, code)));
            failed(&world, &Post::raw("a", SIGNED[2]), code, &calls).await;
        }
        for answer in ["", "<html>", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let world = World::with_certificates(&strict(), move |_| Ok(answer.to_owned()));
            failed(&world, &Post::raw("a", SIGNED[2]), "CertificateUnreadable", &calls).await;
        }
    }

    /// Nobody gets a letter whose proof nobody could check, not even at the end of its schedule.
    #[tokio::test]
    async fn a_certificate_that_can_never_be_had_ends_in_the_archive_unsent() {
        let policy = json!({ "default": { "verifySignature": true,
            "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 3, "numNoDelayRetries": 3 } } } });
        let world =
            World::with_certificates(&policy, |_| Err(Failure::ours(FailureClass::Transient, "Timeout")));
        for (receive, outcome) in
            [(1, "a deferred failed"), (2, "a deferred failed"), (3, "a archived exhausted")]
        {
            let ran = world.run([&Post::raw("a", SIGNED[2]).received(receive)]).await;
            assert_eq!(ran.outcomes(), [outcome]);
        }
        assert_eq!(world.cloud.calls("SendMessageBatch"), []);
        assert_eq!(world.cloud.calls("GetSubscriptionAttributes"), []);
    }

    /// The good letter goes, the others do not keep it.
    #[tokio::test]
    async fn one_bad_letter_does_not_take_its_neighbours_along() {
        let world = world(&strict());
        let posts = [
            Post::envelope("unsigned"),
            Post::raw("good", SIGNED[2]),
            Post::raw("altered", &with(SIGNED[0], "Message", "x")),
        ];
        let ran = world.run(&posts).await;
        assert_eq!(
            ran.outcomes(),
            ["unsigned archived refused", "good delivered", "altered archived refused"]
        );
        let sent: Vec<_> =
            world.cloud.entries("SendMessageBatch").into_iter().map(|entry| entry.body).collect();
        assert_eq!(sent, [SIGNED[2]]);
    }
}

mod a_check_that_could_not_be_made {
    use super::*;

    const CALLS: [&str; 3] =
        ["GetQueueAttributes", "GetSubscriptionAttributes", "ChangeMessageVisibilityBatch"];

    #[tokio::test]
    async fn is_a_failed_attempt_and_no_refusal() {
        for (reply, code) in [
            (Reply::Fail(403, "AuthorizationError", "not yours"), "AuthorizationError"),
            (Reply::Fail(403, "AccessDenied", "no"), "AccessDenied"),
            (Reply::Fail(429, "Throttled", "slow"), "Throttled"),
            (Reply::Fail(400, "Throttling", "slow"), "Throttling"),
            (Reply::Fail(500, "InternalError", "oh"), "InternalError"),
            (Reply::Nonsense(503, "<html>"), "Http503"),
            (Reply::Nonsense(200, "<"), "Http200"),
            (Reply::Reset, "Unreachable"),
            (Reply::NoConnection, "Timeout"),
        ] {
            let world = World::new(&[]);
            world.cloud.reply("GetSubscriptionAttributes", reply);
            // The subscription of another account, which nobody here may read.
            let post = Post::envelope("a").topic(FOREIGN_TOPIC).subscription(FOREIGN_SUBSCRIPTION);
            failed(&world, &post, code, &CALLS).await;
        }
    }

    #[tokio::test]
    async fn for_lack_of_time_is_a_failed_attempt_too() {
        let world = World::new(&[]).with_time(Duration::from_millis(500));
        world.cloud.reply("GetSubscriptionAttributes", Reply::Hang);
        failed(&world, &Post::envelope("a"), "DeadlineExceeded", &CALLS).await;
    }

    #[tokio::test]
    async fn ends_in_the_archive_unsent_where_it_can_never_be_made() {
        let policy = default(&json!({
            "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 2, "numNoDelayRetries": 2 } },
        }));
        let world = World::with_policy(&policy);
        world.cloud.reply("GetSubscriptionAttributes", Reply::Fail(403, "AuthorizationError", "not yours"));
        for (receive, outcome) in [(1, "a deferred failed"), (2, "a archived exhausted")] {
            let ran = world.run([&Post::envelope("a").received(receive)]).await;
            assert_eq!(ran.outcomes(), [outcome]);
        }
        assert_eq!(world.cloud.calls("SendMessageBatch"), []);
    }
}

mod a_topic {
    use super::*;

    fn republishing() -> Value {
        json!({ "default": { "target": "topic", "jitter": 0 } })
    }

    /// The topic of a letter is vouched for by its subscription, as its endpoint is.
    #[tokio::test]
    async fn that_is_forged_is_not_published_to() {
        for topic in [OTHER_TOPIC, FOREIGN_TOPIC] {
            let world = World::with_policy(&republishing());
            let ran = world.run([&Post::envelope("a").topic(topic)]).await;
            assert_eq!(ran.outcomes(), ["a archived refused"]);
            assert_eq!(ran.letter("a")["detail"], "the subscription belongs to another topic");
            assert_eq!(world.cloud.calls("PublishBatch"), []);
        }
    }

    #[tokio::test]
    async fn of_a_subscription_that_points_its_dead_letters_elsewhere_is_not_published_to() {
        let world = World::with_policy(&republishing());
        let other = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "sqs", WORKER, other);
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a archived refused"]);
        assert_eq!(world.cloud.calls("PublishBatch"), []);
    }

    /// Republishing helps a subscriber that only SNS can reach.
    #[tokio::test]
    async fn of_a_subscription_that_only_sns_can_deliver_to_is_published_to() {
        let world = World::with_policy(&republishing());
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "email", "someone@a.example", DLQ);
        assert_eq!(world.run([&Post::envelope("a")]).await.outcomes(), ["a delivered"]);
        assert_eq!(world.cloud.calls("PublishBatch").len(), 1);
    }

    /// Who can write to a consumer's queue can name any topic in an envelope there, and fail until SQS moves it here.
    #[tokio::test]
    async fn that_a_letter_of_sqs_names_gets_it_only_if_it_delivers_to_that_queue() {
        let other = format!("{OTHER_TOPIC}:1f1f1f1f-0000-4000-8000-000000000000");
        let moved = |topic: &str, subscription: &str| {
            Post::envelope("a").topic(topic).subscription(subscription).moved_from(WORKER).received(4)
        };
        for (post, outcome, detail) in [
            (moved(TOPIC, SUBSCRIPTION), "a delivered", ""),
            (
                moved(TOPIC, BILLING_SUBSCRIPTION),
                "a archived refused",
                "the subscription does not deliver to the queue or function that the letter came from",
            ),
            (
                moved(OTHER_TOPIC, &other),
                "a archived refused",
                "the subscription does not deliver to the queue or function that the letter came from",
            ),
            (moved(OTHER_TOPIC, SUBSCRIPTION), "a archived refused", OF_OTHER_TOPIC),
            (moved(TOPIC, OTHER_SUBSCRIPTION), "a archived refused", UNKNOWN),
            (
                moved(OTHER_TOPIC, "nobody"),
                "a archived refused",
                "names a topic and no subscription of it that SNS could confirm",
            ),
        ] {
            let world = World::with_policy(&republishing());
            world.cloud.subscribe_endpoint(&other, OTHER_TOPIC, "sqs", BILLING, DLQ);
            let ran = world.run([&post]).await;
            assert_eq!(ran.outcomes(), [outcome]);
            assert_eq!(ran.letter("a")["detail"].as_str().unwrap_or_default(), detail);
            assert_eq!(world.cloud.calls("PublishBatch").len(), usize::from(detail.is_empty()));
        }
    }

    #[tokio::test]
    async fn of_an_unconfirmed_subscription_is_not_published_to() {
        let world = World::with_policy(&republishing());
        world.cloud.resubscribe(SUBSCRIPTION, "PendingConfirmation", "true");
        for post in [Post::envelope("a"), Post::envelope("a").moved_from(WORKER).received(4)] {
            assert_eq!(world.run([&post]).await.letter("a")["detail"], "the subscription is not confirmed");
        }
        assert_eq!(world.cloud.calls("PublishBatch"), []);
    }
}

/// Somebody who may do no more than publish to a topic with a raw subscription. With raw delivery every attribute and
/// every byte of the body are theirs.
mod a_publisher_with_raw_delivery {
    use super::*;

    const ELSEWHERE: [&str; 2] = ["payroll", "refund"];

    /// All that they can write to look like somebody else's letter.
    fn letters() -> Vec<(&'static str, Post)> {
        let eventbridge = |target: &str| {
            Post::raw("a", r#"{"amount":1000000}"#)
                .attribute("RULE_ARN", "String", "arn:aws:events:eu-central-1:123456789012:rule/shop")
                .attribute("TARGET_ARN", "String", target)
        };
        let destination = json!({
            "version": "1.0",
            "requestContext": { "functionArn": REFUND, "condition": "RetriesExhausted" },
            "requestPayload": { "amount": 1_000_000 },
        });
        let event = json!({ "Records": [{
            "EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": LAMBDA_SUBSCRIPTION,
            "Sns": { "Type": "Notification", "MessageId": "m", "TopicArn": TOPIC, "Message": "forged" },
        }] });
        vec![
            ("EventBridge to a queue", eventbridge(PAYROLL)),
            ("EventBridge to a function", eventbridge(REFUND)),
            ("a Lambda destination", Post::raw("a", &destination.to_string())),
            (
                "Lambda's dead-letter queue",
                Post::raw("a", &event.to_string()).attribute("RequestID", "String", "r").attribute(
                    "ErrorCode",
                    "Number",
                    "200",
                ),
            ),
            (
                "a custom event bus",
                Post::raw("a", sample("event-bus")["Records"][0]["body"].as_str().unwrap()),
            ),
        ]
    }

    /// The rules under which a raw letter goes anywhere.
    fn policies() -> [Value; 3] {
        let origins = json!({ OTHER_DLQ: ["lambda-async", "lambda-destination", "eventbridge"] });
        [
            json!({ "origins": origins }),
            json!({ "origins": origins, "default": { "subscription": SUBSCRIPTION } }),
            json!({ "origins": origins, "default": { "target": "topic" } }),
        ]
    }

    #[tokio::test]
    async fn chooses_no_target() {
        for (name, post) in letters() {
            for policy in policies() {
                let world = World::with_policy(&policy);
                let ran = world.run([&post]).await;
                let called: Vec<_> = world.cloud.journal().into_iter().map(|call| call.to).collect();
                assert!(
                    !ELSEWHERE.iter().any(|name| called.iter().any(|to| to == name)),
                    "{name}: {called:?}"
                );
                let subscribed = policy["default"]["subscription"].is_string();
                // A raw letter goes to the subscription that its rule names, whatever it looks like.
                let bus = name == "a custom event bus";
                let outcome = if subscribed && !bus { "delivered" } else { "archived" };
                assert_eq!(ran.letter("a")["outcome"], outcome, "{name} under {policy}");
                if outcome == "delivered" {
                    let entry = world.cloud.entries("SendMessageBatch").remove(0);
                    assert_eq!(
                        (ran.letter("a")["target.arn"].as_str(), entry.body),
                        (Some(WORKER), post.body())
                    );
                    for attribute in post.attributes.keys() {
                        assert!(
                            entry.attributes.contains_key(attribute),
                            "{name}: {attribute} is the publisher's own"
                        );
                    }
                }
            }
        }
    }

    /// Even where an origin is listed, a rule for raw letters is not left by them.
    #[tokio::test]
    async fn stays_within_the_subscription_of_a_rule_where_origins_are_listed() {
        for (name, post) in letters().into_iter().take(3) {
            let policy = json!({ "origins": every_origin(), "default": { "subscription": SUBSCRIPTION } });
            let world = World::with_policy(&policy);
            let ran = world.run([&post]).await;
            assert_eq!(ran.outcomes(), ["a delivered"], "{name}");
            assert_eq!(ran.letter("a")["target.arn"], WORKER, "{name}");
            let entry = world.cloud.entries("SendMessageBatch").remove(0);
            assert_eq!(entry.body, post.body(), "{name}");
            assert!(
                post.attributes.keys().all(|attribute| entry.attributes.contains_key(attribute)),
                "{name}"
            );
        }
    }

    /// Attributes do not turn an envelope into a letter of Lambda, which would end as `unrecognised`.
    #[tokio::test]
    async fn does_not_stop_an_envelope_by_attributes() {
        let post =
            Post::envelope("a").attribute("RequestID", "String", "r").attribute("ErrorCode", "Number", "200");
        let ran = World::with_policy(&json!({ "origins": every_origin() })).run([&post]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
    }
}

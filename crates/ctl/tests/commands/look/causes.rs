//! Why SNS gave up: what AWS shows of endpoints, the topics' logs, and a probe.

use std::collections::BTreeMap;

use redrive_support::{
    BILLING_SUBSCRIPTION, ClosedPort, DLQ, LAMBDA_SUBSCRIPTION, NOTIFIER, SUBSCRIPTION, TOPIC, TestAccount,
    TestWebServer, WORKER,
};
use serde_json::{Value, json};

use super::{Around, HOUR, letter, look, notifier, visible, with};
use crate::{CommandWorld, redrivectl_in};

/// Each world breaks one thing, and the report says which.
#[tokio::test]
async fn the_report_says_why_sns_gave_up() {
    type Break = fn(&TestAccount, &mut Around);
    type Case = (Break, Option<(Value, Value)>, &'static str, &'static str);
    let key = |state: &str| json!({ "KeyId": "k", "Arn": "arn:aws:kms:eu-central-1:123456789012:key/k", "KeyState": state });
    let owner = json!({ "Statement": [{ "Effect": "Allow", "Principal": { "AWS": "arn:aws:iam::123456789012:root" },
                                         "Action": "kms:*", "Resource": "*" }] });
    let sns_too = json!({ "Statement": [{ "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" },
        "Action": ["kms:GenerateDataKey*", "kms:Decrypt"], "Resource": "*",
        "Condition": { "ArnLike": { "aws:SourceArn": TOPIC } } }] });
    let encrypted: Break = |cloud, _| {
        let policy = json!({ "Statement": [{ "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" },
                                              "Action": "sqs:SendMessage", "Resource": WORKER }] });
        cloud.queue("payments-worker", &[("Policy", &policy.to_string()), ("KmsMasterKeyId", "k")]);
    };
    let cases: [Case; 12] = [
        (|_, _| {}, None, "works", "the queue exists, and its policy lets SNS write"),
        (
            |cloud, _| cloud.resubscribe(SUBSCRIPTION, "Endpoint", &WORKER.replace("worker", "gone")),
            None,
            "broken",
            "the queue does not exist",
        ),
        (
            |cloud, _| cloud.queue("payments-worker", &[]),
            None,
            "broken",
            "the queue's policy does not let SNS write",
        ),
        (
            |cloud, _| {
                cloud.queue("payments-worker", &[("Policy", &json!({ "Statement": [
            { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage", "Resource": WORKER }] }).to_string()), ("KmsMasterKeyId", "alias/aws/sqs")]);
            },
            None,
            "broken",
            "the queue is encrypted with the AWS-managed key of SQS, whose policy cannot be changed",
        ),
        (encrypted, Some((key("Disabled"), owner.clone())), "broken", "is in the state Disabled"),
        (
            encrypted,
            Some((key("PendingDeletion"), sns_too.clone())),
            "broken",
            "is in the state PendingDeletion",
        ),
        (encrypted, Some((key("Enabled"), owner)), "broken", "does not let SNS use it"),
        (encrypted, Some((key("Enabled"), sns_too)), "works", "its policy and its key let SNS write"),
        (|cloud, _| cloud.unsubscribe(SUBSCRIPTION), None, "broken", "the subscription does not exist"),
        (
            |cloud, _| cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", ""),
            None,
            "broken",
            "does not name the letter's dead-letter queue",
        ),
        (
            |cloud, _| cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "email", "jo@example.com", DLQ),
            None,
            "cannotTell",
            "only SNS can deliver by the protocol \"email\"",
        ),
        (
            |cloud, _| {
                cloud.subscribe_endpoint(
                    SUBSCRIPTION,
                    TOPIC,
                    "https",
                    "https://hooks.example.com/S3CR3T",
                    DLQ,
                );
            },
            None,
            "cannotTell",
            "--probe sends it a HEAD request",
        ),
    ];
    for (breaks, keys, finding, says) in cases {
        let cloud = with(&[letter(1, SUBSCRIPTION, HOUR)]);
        let mut around = notifier();
        breaks(&cloud, &mut around);
        around.keys = keys;
        let ran = look(&cloud, around, &["--yes", "--json"]).await;
        assert!(!ran.out.contains("S3CR3T") && !ran.out.contains("jo@"), "{}", ran.out);
        let endpoint = &ran.json()["groups"][0]["endpoint"];
        assert_eq!(endpoint["finding"], finding, "{says}: {endpoint}");
        assert!(endpoint["says"].as_str().unwrap().contains(says), "{says}: {endpoint}");
    }
    for (functions, says) in [
        (BTreeMap::new(), "the function does not exist"),
        (
            BTreeMap::from([(NOTIFIER, json!({ "Statement": [] }))]),
            "the function's policy does not let SNS invoke it",
        ),
    ] {
        let cloud = with(&[letter(1, LAMBDA_SUBSCRIPTION, HOUR)]);
        let around = Around { functions, ..Around::default() };
        let endpoint =
            look(&cloud, around, &["--yes", "--json"]).await.json()["groups"][0]["endpoint"].clone();
        assert!(
            endpoint["finding"] == "broken" && endpoint["says"].as_str().unwrap().contains(says),
            "{endpoint}"
        );
    }
}

#[tokio::test]
async fn the_log_of_a_topic_says_why_and_one_that_is_off_can_be_switched_on() {
    let cloud = with(&[letter(1, SUBSCRIPTION, HOUR), letter(2, BILLING_SUBSCRIPTION, HOUR)]);
    let on = look(&cloud, Around { logs: true, ..notifier() }, &["--yes"]).await;
    assert!(on.out.contains("SNS logged KMS.DisabledException (403) x 1"), "{}", on.out);
    assert!(
        on.out.contains("no failure of this endpoint in the hour before the newest letter"),
        "{}",
        on.out
    );
    assert!(!on.out.contains("S3CR3T"));
    let off = look(&cloud, notifier(), &["--yes"]).await;
    let command = "aws sns set-topic-attributes --topic-arn arn:aws:sns:eu-central-1:123456789012:payments \
                   --attribute-name SQSFailureFeedbackRoleArn --attribute-value arn:aws:iam::123456789012:role/ROLE";
    assert!(off.out.contains(command), "{}", off.out);
}

#[tokio::test]
async fn what_may_not_be_seen_is_said_and_has_its_exit_code() {
    for (denied, call) in [
        ("GetSubscriptionAttributes", "sns:GetSubscriptionAttributes"),
        ("GetTopicAttributes", "sns:GetTopicAttributes"),
    ] {
        let cloud = with(&[letter(1, SUBSCRIPTION, HOUR)]);
        let ran = look(&cloud, Around { denied: Some(denied), ..notifier() }, &["--yes"]).await;
        assert_eq!(ran.code, 6, "{ran:?}");
        assert!(ran.out.contains(call), "{}", ran.out);
        assert_eq!(visible(&cloud).await, 1);
    }
}

/// A web server gets one HEAD request, and none of a letter.
#[tokio::test]
async fn a_probe_asks_a_web_server_for_its_status_and_sends_nothing() {
    let closed = ClosedPort::new();
    let probe = async |url: &str, variable: Option<fn(&str) -> Option<String>>| {
        let cloud = with(&[letter(1, SUBSCRIPTION, HOUR), letter(2, SUBSCRIPTION, HOUR)]);
        cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "http", &format!("{url}/S3CR3T"), DLQ);
        let config = Some(notifier().before(&cloud));
        let world = CommandWorld { config, variable, later: 200_000, ..CommandWorld::default() };
        let ran = redrivectl_in(world, &["look", "--queue", DLQ, "--yes", "--json", "--probe"]).await;
        assert!(!ran.out.contains("S3CR3T"), "{}", ran.out);
        ran.json()["groups"][0]["endpoint"].clone()
    };
    let loopback = |name: &str| (name == "ALLOW_LOOPBACK_HTTP").then(|| "true".to_owned());
    for (status, finding) in [(200, "works"), (405, "works"), (503, "broken")] {
        let server = TestWebServer::answering(status);
        let endpoint = probe(&server.url(), Some(loopback)).await;
        assert_eq!(endpoint["finding"], finding, "{status}: {endpoint}");
        assert!(endpoint["says"].as_str().unwrap().contains(&status.to_string()), "{endpoint}");
        let seen = server.seen();
        assert!(seen.len() == 1 && seen[0].body.is_empty(), "{seen:?}");
    }
    let endpoint = probe(&closed.url(), Some(loopback)).await;
    assert_eq!(endpoint["says"], "the web server does not answer a HEAD request (Unreachable)");
    let endpoint = probe(&closed.url(), None).await;
    assert_eq!(endpoint["finding"], "cannotTell", "SNS reaches public addresses only: {endpoint}");
}

/// A policy may let SNS in for one topic and not for another.
#[tokio::test]
async fn two_topics_of_one_endpoint_have_a_cause_each() {
    let other = "arn:aws:sns:eu-central-1:123456789012:refunds";
    let subscription = "arn:aws:sns:eu-central-1:123456789012:refunds:1";
    let mut of_other = letter(1, subscription, HOUR);
    of_other["body"] = json!(of_other["body"].as_str().unwrap().replace(":payments\"", ":refunds\""));
    let cloud = with(&[of_other, letter(2, SUBSCRIPTION, HOUR), letter(3, SUBSCRIPTION, HOUR)]);
    cloud.topic("refunds", 262_144);
    cloud.subscribe_endpoint(subscription, other, "sqs", WORKER, DLQ);
    let report = look(&cloud, notifier(), &["--yes", "--json"]).await.json();
    let findings: Vec<_> =
        report["groups"].as_array().unwrap().iter().map(|it| &it["endpoint"]["finding"]).collect();
    assert_eq!(findings, ["works", "broken"], "{report:#}");
}

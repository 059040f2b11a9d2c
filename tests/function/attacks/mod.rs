//! Attacks by somebody who can write to the dead-letter queue. None succeeds: every forged letter ends in the
//! archive as `refused`, and nothing is sent anywhere.

mod a_check_that_could_not_be_made;
mod a_forged_subscription;
mod a_letter_that_names_its_target_itself;
mod a_publisher_with_raw_delivery;
mod a_subscription_that_points_elsewhere;
mod a_topic;
mod a_url_into_the_network;
mod under_verify_signature;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::failure::{Failure, FailureClass};
use redrive_support::*;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::{FORGED_OR_EDITED, OF_OTHER_QUEUE, UNSIGNED};

const OTHER_DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:other-dlq";
const OTHER_TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:invoices";
const FOREIGN_TOPIC: &str = "arn:aws:sns:eu-central-1:210987654321:payments";
const FOREIGN_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:210987654321:payments:0c7d5a5e-5d0c-4f43-8d21-3f8a2f3e9b10";
const PAYROLL: &str = "arn:aws:sqs:eu-central-1:123456789012:payroll";
const REFUND: &str = "arn:aws:lambda:eu-central-1:123456789012:function:refund";

const UNKNOWN: &str = "the subscription does not exist";
const OF_OTHER_TOPIC: &str = "the subscription belongs to another topic";
const NOT_ALLOWED: &str = "the target is not in the rule's allowTargets: add it there, or set another target";
const NEVER: &str = "the endpoint's address is loopback, link-local or reserved: no letter may go there";
const PRIVATE: &str =
    "the endpoint's address is private: set HTTP_TARGETS to private if letters may go to private addresses";

/// The calls for a letter that is refused before SNS is asked about its subscription.
const UNASKED: [&str; 2] = ["GetQueueAttributes", "PutObject"];

/// The calls for a letter that is refused because of SNS's answer about its subscription.
const ASKED: [&str; 3] = ["GetQueueAttributes", "GetSubscriptionAttributes", "PutObject"];

/// Returns a policy for the worst case: it believes every origin that a letter claims.
fn default(default: &Value) -> Value {
    json!({ "default": default, "origins": every_origin() })
}

/// Asserts that the letter is archived as refused by this check, and that there were no other calls.
async fn refused(world: &FunctionWorld, post: &RecordBuilder, detail: &str, calls: &[&str]) {
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

/// Asserts that the letter stays for its next retry, and that there were no other calls.
async fn failed(world: &FunctionWorld, post: &RecordBuilder, code: &str, calls: &[&str]) {
    let ran = world.run([post]).await;
    let line = ran.letter(&post.id);
    assert_eq!(
        [&line["outcome"], &line["reason"], &line["error.code"], &line["retry.number"]],
        [&json!("deferred"), &json!("failed"), &json!(code), &json!(1)]
    );
    assert_eq!(ran.kept, [post.id.as_str()]);
    assert_eq!(operations(&world.cloud), calls);
}

//! Tests of `verifySignature` against an attacker who can write to the dead-letter queue, and with messages
//! of SNS.
//!
//! `data/signature/make.sh` shows how keys, certificates and signed messages were made.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use redrive_aws::clock::InstanceClock;
use redrive_aws::signature::{
    Certificate, CertificateReader, CertificateUrl, MAX_CERTIFICATE_BYTES, NotACertificate, SignatureFault,
    SignatureVersion, SignedMessage, verify,
};
use redrive_core::arn::Arn;
use redrive_core::batch::SendResult;
use redrive_core::failure::{Failure, FailureClass};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Reads a file of `data/signature`.
macro_rules! data {
    ($name:literal) => {
        include_str!(concat!("../../data/signature/", $name))
    };
}

mod a_letter_without_signature;
mod a_message_that_sns_would_not_write;
mod a_signed_message;
mod every_text;
mod the_certificate;
mod the_certificate_url;
mod the_kept_certificates;

const SNS: &str = data!("sns.pem");
const SIGNED: [&str; 4] =
    [data!("v1.json"), data!("v1-subject.json"), data!("v2.json"), data!("v2-subject.json")];
const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";
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

/// Checks a letter completely.
fn check_at(text: &str, pem: &str, now: Timestamp) -> Result<(), SignatureFault> {
    verify(&SignedMessage::read(text)?, &certificate(pem), now)
}

fn check(text: &str, pem: &str) -> Result<(), SignatureFault> {
    check_at(text, pem, now())
}

fn envelope(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Returns an envelope with one field set, or removed if there is no value.
fn with(text: &str, field: &str, value: Option<Value>) -> String {
    let mut envelope = envelope(text);
    let object = envelope.as_object_mut().unwrap();
    match value {
        Some(value) => object.insert(field.to_owned(), value),
        None => object.remove(field),
    };
    envelope.to_string()
}

/// Returns the same message as the event that a function gets: with other spellings, and always with a
/// subject.
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

/// Returns the bodies of a file in `events/`.
fn bodies(event: &str) -> Vec<String> {
    let records = &envelope(event)["Records"];
    let body = |record: &Value| record["body"].as_str().unwrap().to_owned();
    records.as_array().unwrap().iter().map(body).collect()
}

#[test]
fn faults_are_told_in_words_without_anything_of_the_letter() {
    let error: &dyn std::error::Error = &SignatureFault::Unsigned;
    assert_eq!(error.to_string(), crate::UNSIGNED);
    assert_eq!(SignatureFault::Mismatch.detail(), crate::FORGED_OR_EDITED);
}

//! The code that tests of letters and policy share: messages as Lambda hands them over, names and times of
//! `events/`, and laws over random inputs. No product code uses it.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    clippy::unwrap_used,
    clippy::panic,
    reason = "only tests use it"
)]

mod post;
pub mod record;
mod schedule;
pub mod shell;

pub use post::{RecordBuilder, event, sample, sample_names, samples};
pub use schedule::schedules;

use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use jiff::Timestamp;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};
use redrive_core::arn::Arn;
use redrive_core::batch::ArchiveContext;
use redrive_core::letter::{Letter, MessageDigest, SqsMessage};
use redrive_core::policy::{ArchiveReason, DEFAULT_RULE};
use serde_json::{Value, json};

/// The present of most tests, in milliseconds: 2026-11-01T12:00:00Z, as in `events/`.
pub const NOW: i64 = 1_793_534_400_000;

pub const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";
pub const FIFO_DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq.fifo";
pub const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-requeue";
pub const FIFO_REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-requeue.fifo";
pub const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";
pub const FIFO_WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker.fifo";
pub const BILLING: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-billing";
pub const ARCHIVE_QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-archive";
pub const NOTIFIER: &str = "arn:aws:lambda:eu-central-1:123456789012:function:payments-notifier";
pub const PROJECTOR: &str = "arn:aws:lambda:eu-central-1:123456789012:function:payments-projector";
pub const STREAM: &str = "arn:aws:firehose:eu-central-1:123456789012:deliverystream/payments";
pub const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";
pub const FIFO_TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments.fifo";

/// The subscription of `payments-worker`.
pub const SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:payments:43fe80b0-b10c-4081-9e18-5bdb8f9824e6";
pub const BILLING_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:payments:632be099-8c45-4e84-a963-95515684f2e0";
pub const LAMBDA_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:payments:42f6a085-cc9a-44f4-b486-a8ff9c06c475";
/// A subscription that tests point wherever they need it.
pub const OTHER_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:payments:7d0f6a1c-5c2e-4b0e-9a55-0d4f1c2b3a49";
pub const FIFO_SUBSCRIPTION: &str =
    "arn:aws:sns:eu-central-1:123456789012:payments.fifo:c741ca07-c97a-40d7-b428-731c4aeebc23";

/// Returns the ARN with this text.
pub fn arn(text: &str) -> Arn {
    text.parse().unwrap()
}

/// Returns the time of these milliseconds since 1970.
pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

/// Returns the letters of these messages.
pub fn letters<'a>(posts: impl IntoIterator<Item = &'a RecordBuilder>) -> Vec<Letter> {
    letters_of(&event(posts))
}

/// Returns the letters of an event, whatever origin they claim.
pub fn letters_of(event: &Value) -> Vec<Letter> {
    let event = serde_json::from_value(event.clone()).unwrap();
    SqsMessage::all_of(event, at(NOW)).unwrap().into_iter().map(record::claiming).collect()
}

/// Returns the letter in one message.
pub fn letter(post: &RecordBuilder) -> Letter {
    letters([post]).remove(0)
}

/// Returns the id of an envelope's letter.
pub fn letter_id(id: &str) -> String {
    format!("sns-{id}/{SUBSCRIPTION}")
}

/// Returns our mark on a letter that each of its retries has sent. [`RecordBuilder::mark`] adds the message's digest.
pub fn mark(spent: u32, letter_id: &str, first: i64) -> Value {
    json!({ "v": 2, "spent": spent, "id": letter_id, "first": first, "gen": 0, "passes": spent })
}

/// Returns a mark that was made for this message, with one pass for each retry, unless it has a digest or
/// passes of its own.
pub fn made_for(message: &str, mut mark: Value) -> Value {
    for (field, value) in [("msg", digest(message).into()), ("passes", mark["spent"].clone())] {
        if mark[field].is_null() {
            mark[field] = value;
        }
    }
    mark
}

/// Returns the `origins` of a policy that believes every origin that a letter claims.
pub fn every_origin() -> Value {
    json!({ "*": ["lambda-async", "lambda-destination", "eventbridge"] })
}

/// Returns the digest of a message, as marks hold it.
pub fn digest(message: &str) -> String {
    MessageDigest::of(message).into()
}

/// Returns the text of our mark on a message that we send for the first time, in the order of its fields.
pub fn mark_text(spent: u32, letter_id: &str, first: i64, message: &str) -> String {
    mark_again(spent, 1, letter_id, first, message)
}

/// Returns the text of our mark on a message that we have sent `passes` times.
pub fn mark_again(spent: u32, passes: u32, letter_id: &str, first: i64, message: &str) -> String {
    let msg = digest(message);
    format!(
        r#"{{"v":2,"spent":{spent},"id":"{letter_id}","first":{first},"gen":0,"msg":"{msg}","passes":{passes}}}"#
    )
}

/// Returns the text of a mark of a letter that was published `times` times.
pub fn published(mark: &str, times: u32) -> String {
    format!(r#"{},"pub":{times}}}"#, mark.strip_suffix('}').unwrap())
}

/// Returns the archive's context of a letter of which nothing more than the reason is known.
pub fn context(reason: ArchiveReason) -> ArchiveContext {
    let rule = DEFAULT_RULE.to_owned();
    ArchiveContext { reason, detail: None, rule, target: None, retry: None, failure: None, override_id: None }
}

/// Returns the folder of the sample events.
pub fn events() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "events"].iter().collect()
}

/// Tries a law on many random inputs. A failure prints the smallest input that breaks it, and the
/// seed by which `PROPTEST_RNG_SEED=<seed>` repeats the run. `TIMES=7` tries seven times as many.
pub fn holds<S>(cases: u32, inputs: &S, law: impl Fn(S::Value) -> TestCaseResult)
where
    S: Strategy,
    S::Value: Debug,
{
    let seed = match Config::default().rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(cases),
    };
    let times = std::env::var("TIMES").map_or(1, |times| times.parse().unwrap());
    let cases = cases * times;
    let config =
        Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    if let Err(failure) = TestRunner::new(config).run(inputs, law) {
        panic!("PROPTEST_RNG_SEED={seed}\n{failure}");
    }
}

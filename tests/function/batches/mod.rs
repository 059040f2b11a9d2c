//! Tests of the whole function: every letter has its outcome, whatever fails.

mod bad_events;
mod deadline;
mod failures;
mod fifo;
mod fifo_letters_whose_fate_is_known;
mod nothing_is_lost;
mod observe;
mod samples;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use redrive_core::batch::CONCURRENT_REQUESTS;
use redrive_support::*;
use serde_json::{Value, json};

/// Returns a policy with this default.
fn default(default: &Value) -> Value {
    json!({ "default": default })
}

fn ids(event: &Value) -> Vec<String> {
    let records = event["Records"].as_array().unwrap();
    records.iter().map(|record| record["messageId"].as_str().unwrap().to_owned()).collect()
}

fn envelopes(count: usize) -> Vec<RecordBuilder> {
    (0..count).map(|number| RecordBuilder::envelope(&format!("m{number}"))).collect()
}

/// Republishing reaches every subscriber. If several of them fail, each leaves a letter. Those letters must
/// not be republished in turn, or they would multiply with every retry.
#[tokio::test]
async fn what_our_own_republishing_made_goes_to_the_one_subscription_that_failed() {
    let world = FunctionWorld::with_policy(&json!({ "default": { "target": "topic", "jitter": 0 } }));
    let original = format!("sns-a/{SUBSCRIPTION}");
    // The letter has been published to the topic before.
    let own = RecordBuilder::envelope("own").mark(&mark(1, &original, NOW - 3_600_000)).sent(NOW - 60_000);
    let by_product = RecordBuilder::envelope("by-product")
        .subscription(BILLING_SUBSCRIPTION)
        .mark(&mark(1, &original, NOW - 3_600_000))
        .sent(NOW - 60_000);
    let ran = world.run([&own, &by_product]).await;
    assert_eq!(ran.outcomes(), ["own delivered", "by-product delivered"]);
    assert_eq!(ran.letter("own")["target.arn"], WORKER);
    assert_eq!(ran.letter("by-product")["target.arn"], BILLING);
}

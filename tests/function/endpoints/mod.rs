//! Tests of all kinds of endpoints: each gets what SNS would have sent, and its answer is read as SNS reads
//! it.

mod failures;
mod firehose;
mod frozen;
mod http;
mod http_answers;
mod https;
mod lambda;
mod outage;
mod protocols_of_sns_alone;
mod sqs;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use redrive_aws::signature::{Certificate, SignedMessage, verify};
use redrive_core::batch::Subscription;
use redrive_core::endpoint::TargetName;
use redrive_support::*;
use serde_json::{Value, json};

fn default(default: &Value) -> Value {
    json!({ "default": default })
}

/// Returns a policy with retries at once, so that letters are hidden for no time.
fn at_once() -> Value {
    json!({ "healthyRetryPolicy": { "numRetries": 9, "numNoDelayRetries": 9 } })
}

/// Returns a world in which the letters' subscription has this endpoint.
fn world_of(policy: &Value, protocol: &str, endpoint: &str) -> FunctionWorld {
    let world =
        FunctionWorld::new(&[("REDRIVE_POLICY", &policy.to_string()), ("ALLOW_LOOPBACK_HTTP", "true")]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, protocol, endpoint, DLQ);
    world
}

/// Returns the outcome, reason, detail, error code and class of a letter.
fn told(ran: &TestInvocation, id: &str) -> [Value; 5] {
    let line = ran.letter(id);
    ["outcome", "reason", "detail", "error.code", "error.class"].map(|name| line[name].clone())
}

/// Returns the body of the first record of a sample.
fn body_of(name: &str) -> String {
    sample(name)["Records"][0]["body"].as_str().unwrap().to_owned()
}

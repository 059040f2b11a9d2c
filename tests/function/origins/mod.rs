//! Tests of the origins: a letter goes back unchanged to what failed, and reports what is known of the cause.

mod eventbridge;
mod lambda_async;
mod lambda_destination;
mod sns;
mod sqs;

use redrive_support::*;
use serde_json::{Value, json};

const STATE_MACHINE: &str = "arn:aws:states:eu-central-1:123456789012:stateMachine:overrides";
const RULE: &str = "arn:aws:events:eu-central-1:123456789012:rule/shop/payments-to-projector";

/// Returns every origin, for the queue of these tests only.
fn origins() -> Value {
    json!({ DLQ: ["lambda-async", "lambda-destination", "eventbridge"] })
}

fn default(default: &Value) -> Value {
    json!({ "default": default, "origins": origins() })
}

fn built_in() -> FunctionWorld {
    FunctionWorld::with_policy(&json!({ "origins": origins() }))
}

/// Returns the body of the only record of a sample.
fn body_of(name: &str) -> String {
    sample(name)["Records"][0]["body"].as_str().unwrap().to_owned()
}

/// Returns the only call of a function: its name, whether it waits, and the event.
fn invocation(world: &FunctionWorld) -> (String, String, String) {
    let [call] = world.cloud.calls("Invoke").try_into().unwrap();
    let event = body_text(&call).to_owned();
    (call.target, call.parameters["type"].clone(), event)
}

/// A plain event whose text would change if it were read and written again.
const PLAIN: &str = "{ \"b\" : 1.10, \"a\":\"\\u00fc\",\r\n \"big\": 12345678901234567890123, \"a2\":[ ] }";

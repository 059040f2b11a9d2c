//! P8: the content of logs and metrics, and what must never be in them.

mod lines;
mod metrics;
mod secrets;

use redrive_support::*;
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

/// Returns the line without its time, which is the machine's.
fn untimed(line: &Value) -> Value {
    let mut line = line.clone();
    let time = line.as_object_mut().unwrap().remove("timestamp").unwrap();
    let time: Result<jiff::Timestamp, _> = time.as_str().unwrap().parse();
    assert!(time.is_ok(), "RFC 3339, as Lambda wants it");
    if let Some(took) = line.as_object_mut().unwrap().remove("attempt_ms") {
        assert!(took.is_u64() && line.get("retry.number").is_some(), "the time of an attempt: {line}");
    }
    line
}

/// Returns the line of the only letter.
async fn line(world: &FunctionWorld, post: &RecordBuilder) -> Value {
    let ran = world.run([post]).await;
    untimed(ran.letter(&post.id))
}

fn policy(default: &Value) -> Value {
    json!({ "default": default })
}

//! P5: a letter goes to the endpoint of the subscription that failed, and only if the subscription itself
//! points its dead letters at this queue.

mod asking;
mod checks;
mod sharing;
mod which_queue;

use std::time::Duration;

use redrive_support::*;
use serde_json::json;

const OTHER_DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:other-dlq";
const OTHER_TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:invoices";

/// Returns a world in which one attribute of the subscription differs from what the letter needs.
fn world_with(attribute: &str, value: &str) -> FunctionWorld {
    let world = FunctionWorld::new(&[]);
    world.cloud.resubscribe(SUBSCRIPTION, attribute, value);
    world
}

fn names(dlq: &str) -> String {
    json!({ "deadLetterTargetArn": dlq }).to_string()
}

/// Asserts that the letter is archived with this reason and detail, and that nothing was sent.
async fn archived_unsent(world: &FunctionWorld, post: &RecordBuilder, reason: &str, detail: &str) {
    let ran = world.run([post]).await;
    let line = ran.letter(&post.id);
    assert_eq!(
        [&line["outcome"], &line["reason"], &line["detail"], &line["target.arn"]],
        [&json!("archived"), &json!(reason), &json!(detail), &json!(null)]
    );
    assert_eq!(ran.kept, [""; 0]);
    for op in ["SendMessageBatch", "PublishBatch", "Invoke", "PutRecordBatch"] {
        assert_eq!(world.cloud.calls(op), []);
    }
    assert_eq!(world.cloud.calls("PutObject").len(), 1);
}

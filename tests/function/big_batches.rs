//! Tests of batches as large as Lambda makes them: 10,000 messages, or 6 MB.
//! <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>

use std::collections::BTreeSet;
use std::time::Duration;

use redrive_core::batch::CONCURRENT_REQUESTS;
use redrive_support::{
    DLQ, EntryFault, FunctionWorld, NOTIFIER, OTHER_SUBSCRIPTION, RecordBuilder, SimAttribute, SimCall,
    SimEntry, SimFault, TOPIC, TestInvocation, archived,
};
use serde_json::json;

const LARGEST_BATCH: usize = 10_000;

/// A time that is enough for ten thousand letters in an unoptimised build on a busy machine.
const MAX_BATCH_TIME: Duration = Duration::from_mins(5);

/// The greatest size of a message of SQS and SNS.
const MIB: usize = 1024 * 1024;

fn posts(count: usize) -> Vec<RecordBuilder> {
    (0..count).map(|index| RecordBuilder::envelope(&format!("l{index}"))).collect()
}

/// Returns the number of letters with this outcome.
fn count(ran: &TestInvocation, outcome: &str) -> usize {
    ran.letters().iter().filter(|line| line["outcome"] == outcome).count()
}

fn full(calls: &[SimCall]) -> bool {
    calls.iter().all(|call| call.entries.len() == 10)
}

/// The clock is paused, else the first requests wait for others that do not come before they are answered.
#[tokio::test(start_paused = true)]
async fn ten_thousand_letters_go_out_in_a_thousand_requests_of_which_few_are_under_way_at_once() {
    let world = FunctionWorld::new(&[]).with_time(MAX_BATCH_TIME);
    world.cloud.reply("SendMessageBatch", SimFault::Together(CONCURRENT_REQUESTS));
    let ran = world.run(&posts(LARGEST_BATCH)).await;
    assert_eq!((count(&ran, "delivered"), ran.kept.len()), (LARGEST_BATCH, 0));
    let sends = world.cloud.calls("SendMessageBatch");
    assert_eq!((sends.len(), full(&sends)), (LARGEST_BATCH / 10, true));
    assert_eq!(world.cloud.peak(), CONCURRENT_REQUESTS);
    assert_eq!(
        world.cloud.journal().len(),
        LARGEST_BATCH / 10 + 2,
        "one look at the queue, one at the subscription"
    );
}

#[tokio::test]
async fn ten_thousand_failed_letters_are_hidden_in_a_thousand_requests() {
    let world = FunctionWorld::new(&[]).with_time(MAX_BATCH_TIME);
    world.cloud.reply("SendMessageBatch", SimFault::refuse(503, "ServiceUnavailable", "oh"));
    let ran = world.run(&posts(LARGEST_BATCH)).await;
    assert_eq!((count(&ran, "deferred"), ran.kept.len()), (LARGEST_BATCH, LARGEST_BATCH));
    let hidings = world.cloud.calls("ChangeMessageVisibilityBatch");
    assert_eq!(
        (hidings.len(), full(&hidings), world.cloud.hidden().len()),
        (LARGEST_BATCH / 10, true, LARGEST_BATCH)
    );
}

#[tokio::test]
async fn ten_thousand_archived_letters_are_one_object() {
    let world =
        FunctionWorld::with_policy(&json!({ "default": { "action": "archive" } })).with_time(MAX_BATCH_TIME);
    let ran = world.run(&posts(LARGEST_BATCH)).await;
    assert_eq!((count(&ran, "archived"), ran.kept.len()), (LARGEST_BATCH, 0));
    assert_eq!(world.cloud.calls("PutObject").len(), 1);
    let records = archived(&world.cloud);
    let ids: BTreeSet<_> =
        records.iter().map(|record| record["message"]["messageId"].as_str().unwrap()).collect();
    assert_eq!((records.len(), ids.len()), (LARGEST_BATCH, LARGEST_BATCH));
}

#[tokio::test]
async fn ten_thousand_letters_move_to_the_requeue_in_a_thousand_requests() {
    let requeue = redrive_support::REQUEUE;
    let settings = [("REQUEUE_ARN", requeue), ("IN_FLIGHT_LIMIT", "10")];
    let world = FunctionWorld::new(&settings).with_time(MAX_BATCH_TIME);
    let crowded = [("MessageRetentionPeriod", "1209600"), ("ApproximateNumberOfMessagesNotVisible", "10")];
    world.cloud.queue("payments-dlq", &crowded);
    world.cloud.script(|call| match call.target.as_str() {
        "payments-worker" => SimFault::refuse(503, "ServiceUnavailable", "oh"),
        _ => SimFault::Pass,
    });
    let ran = world.run(&posts(LARGEST_BATCH)).await;
    assert_eq!((count(&ran, "requeued"), ran.kept.len()), (LARGEST_BATCH, 0));
    let sends: Vec<_> = world
        .cloud
        .calls("SendMessageBatch")
        .into_iter()
        .filter(|call| call.target == "payments-requeue")
        .collect();
    assert_eq!((sends.len(), full(&sends)), (LARGEST_BATCH / 10, true));
}

/// The target is slow and the time is short: letters that could not be begun come back soon. The first half
/// of the 2.4 s for deliveries is for beginning them: 25 requests while it is unknown whether the target
/// works, then a hundred, then none, at 1.4 s. The clock is paused while the machine works.
#[tokio::test(start_paused = true)]
async fn what_the_time_does_not_reach_is_handed_back() {
    let world = FunctionWorld::new(&[]).with_time(Duration::from_secs(3));
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::Pass.after(Duration::from_millis(700)),
        _ => SimFault::Pass,
    });
    let ran = world.run(&posts(3_000)).await;
    let (delivered, untouched) = (count(&ran, "delivered"), count(&ran, "failed"));
    assert_eq!((delivered, untouched, ran.kept.len()), (1_250, 1_750, 1_750));
    let sent: BTreeSet<_> =
        world.cloud.entries("SendMessageBatch").into_iter().map(|entry| entry.body).collect();
    assert_eq!(sent.len(), delivered, "nothing was begun of the others");
    assert_eq!(world.cloud.hidden().into_values().filter(|seconds| *seconds == 1).count(), untouched);
}

/// Returns six letters of nearly a mebibyte: the largest message and the largest batch.
fn large() -> Vec<RecordBuilder> {
    let filling = "x".repeat(MIB - 2_000);
    (0..6).map(|index| RecordBuilder::envelope(&format!("l{index}")).message(&filling)).collect()
}

#[tokio::test]
async fn messages_of_a_mebibyte_each_have_a_request_of_their_own() {
    for (target, operation) in [("origin", "SendMessageBatch"), ("topic", "PublishBatch")] {
        let world = FunctionWorld::with_policy(&json!({ "default": { "target": target } }));
        world.cloud.topic("payments", MIB);
        let ran = world.run(&large()).await;
        assert_eq!(count(&ran, "delivered"), 6, "{}", ran.text);
        let sizes: Vec<_> = world.cloud.calls(operation).iter().map(|call| call.entries.len()).collect();
        assert_eq!(sizes, [1; 6], "{operation}");
    }
}

/// A request to a topic has a quarter of a mebibyte, whatever its limit is.
#[tokio::test]
async fn subjects_count_in_the_size_of_a_request() {
    const SUBJECT: usize = 100;
    let posts = |filling: usize| {
        let post = |index| RecordBuilder::envelope(&format!("l{index}")).message(&"x".repeat(filling));
        (0..10).map(post).map(|post| post.subject(&"s".repeat(SUBJECT))).collect::<Vec<_>>()
    };
    let requests = async |filling: usize| {
        let world = FunctionWorld::with_policy(&json!({ "default": { "target": "topic" } }));
        world.cloud.topic("payments", MIB);
        let ran = world.run(&posts(filling)).await;
        assert_eq!(count(&ran, "delivered"), 10, "{}", ran.text);
        let calls = world.cloud.calls("PublishBatch");
        let of = |name: &str, it: &SimAttribute| name.len() + it.kind.len() + it.value.bytes().len();
        let attributes =
            |entry: &SimEntry| entry.attributes.iter().map(|(name, it)| of(name, it)).sum::<usize>();
        (calls.len(), attributes(&calls[0].entries[0]))
    };
    let (_, attributes) = requests(1).await;
    let fits = MIB / 4 / 10 - SUBJECT - attributes;
    assert_eq!(requests(fits).await.0, 1);
    assert_eq!(requests(fits + 1).await.0, 2);
}

#[tokio::test]
async fn a_message_too_large_for_its_target_is_permanent_and_its_neighbours_go() {
    let world = FunctionWorld::with_policy(&json!({ "default": { "target": "topic" } }));
    let too_long = |call: &SimCall| call.entries.iter().any(|entry| entry.body.len() > 256 * 1024);
    world.cloud.script(move |call| match call.operation.as_str() {
        "PublishBatch" if too_long(call) => {
            SimFault::refuse(400, "InvalidParameter", "Invalid parameter: Message too long")
        }
        _ => SimFault::Pass,
    });
    let ran = world.run([&large()[0], &RecordBuilder::envelope("small")]).await;
    assert_eq!(ran.outcomes(), ["l0 archived permanent", "small delivered"]);

    // SQS reports this for each entry, Lambda for the call.
    let world = FunctionWorld::new(&[]);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::except(
            call,
            &"x".repeat(1000),
            EntryFault::sender(
                "InvalidParameterValue",
                "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
            ),
        ),
        _ => SimFault::Pass,
    });
    let ran = world.run([&large()[0], &RecordBuilder::envelope("small")]).await;
    assert_eq!(ran.outcomes(), ["l0 archived permanent", "small delivered"]);

    let world = FunctionWorld::new(&[]);
    world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "lambda", NOTIFIER, DLQ);
    world.cloud.reply(
        "Invoke",
        SimFault::refuse(413, "RequestTooLargeException", "Request must be smaller than 1048576 bytes"),
    );
    let post = large().remove(0).subscription(OTHER_SUBSCRIPTION);
    assert_eq!(world.run([&post]).await.outcomes(), ["l0 archived permanent"]);
}

/// Fair queues use a message's group, on standard queues and topics too.
#[tokio::test]
async fn the_group_of_a_standard_queue_goes_along_and_keeps_nothing_in_order() {
    for (target, operation) in [("origin", "SendMessageBatch"), ("topic", "PublishBatch")] {
        let world = FunctionWorld::with_policy(&json!({ "default": { "target": target } }));
        let ran = world.run(&["a", "b"].map(|id| RecordBuilder::envelope(id).group("tenant-7"))).await;
        assert_eq!(count(&ran, "delivered"), 2);
        let groups: Vec<_> = world.cloud.entries(operation).into_iter().map(|entry| entry.group).collect();
        assert_eq!(groups, [Some("tenant-7".to_owned()), Some("tenant-7".to_owned())]);
        assert_eq!(world.cloud.calls(operation).len(), 1, "both at once");
    }
}

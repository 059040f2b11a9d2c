//! A queue that the function drains can be no target and no archive, because letters would circulate.

use super::*;

#[tokio::test]
async fn is_no_target_whoever_names_it() {
    let mut event = sample("eventbridge");
    event["Records"][0]["messageAttributes"]["TARGET_ARN"]["stringValue"] = json!(REQUEUE);
    let world = world_with(&json!({ "origins": every_origin() }), REQUEUE, "0", &[]);
    up(&world);
    let ran = world.run_event(&event).await;
    assert!(ran.outcomes()[0].ends_with(" archived refused"), "{:?}", ran.outcomes());
    assert_eq!(sent_to_requeue(&world), []);

    let ran = world.run([&RecordBuilder::envelope("a").moved_from(REQUEUE).received(4)]).await;
    assert_eq!(ran.outcomes(), ["a archived refused"]);
}

#[tokio::test]
async fn is_no_archive_for_its_letters_in_the_requeue_either() {
    let world = world_with(&json!({ "default": { "action": "archive" } }), REQUEUE, "0", &[("ARCHIVE", DLQ)]);
    up(&world);
    let mark = json!({ "v": 2, "spent": 0, "id": "letter-1", "first": NOW, "gen": 0, "dlq": DLQ });
    let ran = world.run([&RecordBuilder::envelope("a").sqs_mark(&mark).queue(REQUEUE)]).await;
    assert_eq!(ran.outcomes(), ["a failed archive"]);
    assert_eq!(world.cloud.entries("SendMessageBatch"), []);
}

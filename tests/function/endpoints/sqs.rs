use super::*;

#[tokio::test]
async fn a_fifo_queue_gets_body_group_and_a_new_deduplication_id() {
    for raw in [false, true] {
        let post = if raw { RecordBuilder::raw("a", "plain") } else { RecordBuilder::envelope("a") };
        let post = post.queue(FIFO_DLQ).group("customer-17").system("MessageDeduplicationId", "original");
        let post = if raw { post } else { post.topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION) };
        let world = FunctionWorld::with_policy(&default(&json!({ "subscription": FIFO_SUBSCRIPTION })));
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(ran.letter("a")["target.arn"], FIFO_WORKER);
        let entry = world.cloud.entries("SendMessageBatch").remove(0);
        assert_eq!((entry.body, entry.group.as_deref()), (post.body(), Some("customer-17")));
        let id = entry.deduplication.unwrap();
        assert!(!id.is_empty() && id != "original");
        assert_eq!(entry.attributes.keys().collect::<Vec<_>>(), ["sns-redrive"]);
    }
}

use super::*;

fn marked(dlq: &str) -> RecordBuilder {
    let mark = json!({ "v": 2, "spent": 0, "id": "x", "first": NOW, "gen": 0, "dlq": dlq });
    RecordBuilder::envelope("a").sqs_mark(&mark)
}

/// Anyone who can write to the queue can write a mark, so the event source decides.
#[tokio::test]
async fn a_mark_that_names_another_queue_is_not_believed_in_a_dead_letter_queue() {
    for settings in [vec![], vec![("REQUEUE_ARN", REQUEUE)]] {
        let world = FunctionWorld::new(&settings);
        world.cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", &names(OTHER_DLQ));
        archived_unsent(&world, &marked(OTHER_DLQ), "refused", crate::OF_OTHER_QUEUE).await;

        let world = FunctionWorld::new(&settings);
        assert_eq!(world.run([&marked(OTHER_DLQ)]).await.outcomes(), ["a delivered"]);
    }
}

#[tokio::test]
async fn in_the_requeue_the_mark_says_which_queue_the_letter_came_from() {
    let world = FunctionWorld::new(&[("REQUEUE_ARN", REQUEUE)]);
    assert_eq!(world.run([&marked(DLQ).queue(REQUEUE)]).await.outcomes(), ["a delivered"]);

    let world = FunctionWorld::new(&[("REQUEUE_ARN", REQUEUE)]);
    archived_unsent(&world, &marked(OTHER_DLQ).queue(REQUEUE), "refused", crate::OF_OTHER_QUEUE).await;

    // Without a mark the letter came from the requeue, which no subscription names.
    let world = FunctionWorld::new(&[("REQUEUE_ARN", REQUEUE)]);
    archived_unsent(&world, &RecordBuilder::envelope("a").queue(REQUEUE), "refused", crate::OF_OTHER_QUEUE)
        .await;

    // A queue that the settings do not name as the requeue is none.
    let world = FunctionWorld::new(&[]);
    archived_unsent(&world, &marked(DLQ).queue(REQUEUE), "refused", crate::OF_OTHER_QUEUE).await;
}

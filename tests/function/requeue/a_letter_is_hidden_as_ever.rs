use super::*;

async fn hidden(world: &FunctionWorld, post: &RecordBuilder) -> TestInvocation {
    let ran = world.run([post]).await;
    assert_eq!(ran.letter(&post.id)["outcome"], "deferred", "{}", ran.text);
    assert_eq!(world.cloud.hidden()[&format!("handle-{}", post.id)], 6 * HOUR);
    assert_eq!(ran.kept, [post.id.as_str()]);
    ran
}

#[tokio::test]
async fn where_there_is_no_requeue_which_is_logged() {
    let world = world_with(&six_hours(), "", "60000", &[]);
    assert_eq!(warnings(&hidden(&world, &RecordBuilder::envelope("a")).await), [CROWDED]);
}

#[tokio::test]
async fn where_the_requeue_does_not_take_it() {
    for reply in [
        SimFault::refuse(403, "AccessDenied", "not authorized to perform: sqs:SendMessage"),
        SimFault::ResetBefore,
        SimFault::Entries(vec![(0, EntryFault::service("InternalError", "oh"))]),
        SimFault::Entries(vec![(0, EntryFault::Missing)]),
    ] {
        let world = world("60000");
        world.cloud.script(move |call| match (call.operation.as_str(), call.target.as_str()) {
            ("SendMessageBatch", "payments-requeue") => reply.clone(),
            ("SendMessageBatch", _) => SimFault::refuse(503, "ServiceUnavailable", "oh"),
            _ => SimFault::Pass,
        });
        assert_eq!(warnings(&hidden(&world, &RecordBuilder::envelope("a")).await), [REFUSED, CROWDED]);
    }
}

#[tokio::test]
async fn where_the_mark_would_be_its_eleventh_attribute() {
    let world = world("60000");
    let post =
        (0..10).fold(RecordBuilder::envelope("a"), |post, n| post.attribute(&format!("a{n}"), "String", "x"));
    hidden(&world, &post).await;
    assert_eq!(sent_to_requeue(&world), []);
}

#[tokio::test]
async fn where_the_requeue_would_not_keep_it_or_does_not_say_how_long_it_does() {
    let world = world("60000");
    world.cloud.queue("payments-requeue", &[("MessageRetentionPeriod", "900")]);
    hidden(&world, &RecordBuilder::envelope("a")).await;
    assert_eq!(sent_to_requeue(&world), []);

    let world = super::world("60000");
    world.cloud.script(|call| match (call.operation.as_str(), call.target.as_str()) {
        ("GetQueueAttributes", "payments-requeue") => SimFault::refuse(403, "AccessDenied", "no"),
        ("SendMessageBatch", "payments-worker") => SimFault::refuse(503, "ServiceUnavailable", "oh"),
        _ => SimFault::Pass,
    });
    hidden(&world, &RecordBuilder::envelope("a")).await;
    assert_eq!(sent_to_requeue(&world), []);
}

/// In the requeue the retention counts from the first arrival. An old letter would be archived as soon as it
/// arrives there.
#[tokio::test]
async fn where_it_is_too_old_for_the_requeue() {
    let world = world("60000");
    // The letter would be hidden for six hours, and the margin is an hour.
    for (left, moves) in [(0, false), (7 * HOUR - 1, false), (7 * HOUR, true)] {
        let first = NOW - (14 * 24 * HOUR - left) * 1000;
        let mark = json!({ "v": 2, "spent": 1, "id": letter_id("a"), "first": first, "gen": 0 });
        let post = RecordBuilder::envelope("a").mark(&mark).sent(NOW - 6 * HOUR * 1000).received(2);
        world.cloud.forget();
        if moves {
            assert_eq!(world.run([&post]).await.outcomes(), ["a requeued failed"]);
        } else {
            hidden(&world, &post).await;
            assert_eq!(sent_to_requeue(&world), []);
        }
    }
}

#[tokio::test]
async fn in_a_fifo_queue_where_nothing_can_be_delayed_which_is_logged() {
    let world = world_with(&six_hours(), FIFO_REQUEUE, "60000", &[]);
    let post = RecordBuilder::envelope("a")
        .topic(FIFO_TOPIC)
        .subscription(FIFO_SUBSCRIPTION)
        .queue(FIFO_DLQ)
        .group("g");
    assert_eq!(warnings(&hidden(&world, &post).await), [CROWDED]);
    assert_eq!(sent_to_requeue(&world), []);
}

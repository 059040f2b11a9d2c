use super::*;

fn world(limit: &str) -> FunctionWorld {
    let world = FunctionWorld::new(&[("ARCHIVE", ARCHIVE_QUEUE)]);
    world
        .cloud
        .queue("payments-archive", &[("MessageRetentionPeriod", WEEKS), ("MaximumMessageSize", limit)]);
    world
}

/// Makes SQS refuse a whole request if one message is too long.
fn enforce(world: &FunctionWorld, limit: usize) {
    world.cloud.script(move |call| {
        if call.target == "payments-archive" && call.entries.iter().any(|entry| entry.size() > limit) {
            return SimFault::refuse(400, "InvalidParameterValue", "Message must be shorter than the limit.");
        }
        SimFault::Pass
    });
}

fn bodies_with_record(world: &FunctionWorld) -> BTreeMap<usize, bool> {
    let taken = world.cloud.messages("payments-archive").into_iter();
    taken.map(|it| (it.body.len(), it.attributes.contains_key("sns-redrive-archive"))).collect()
}

/// Otherwise SQS refuses the letter each time, and drops it in the end.
#[tokio::test]
async fn gets_the_letter_alone_where_our_record_does_not_fit_into_the_queues_own_limit() {
    let world = world("2048");
    enforce(&world, 2048);
    let posts = [10, 1_900, 2_048].map(|bytes| RecordBuilder::raw(&format!("l{bytes}"), &"x".repeat(bytes)));
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), posts.map(|post| format!("{} archived unrecognised", post.id)));
    assert_eq!(bodies_with_record(&world), [(10, true), (1_900, false), (2_048, false)].into());
    assert_eq!(ran.metric("ArchiveRefusals"), 0);
    let sends = world.cloud.calls("SendMessageBatch").into_iter();
    let refused = sends.filter(|call| call.entries.iter().any(|entry| entry.size() > 2048)).count();
    assert_eq!(refused, 0, "the limit is known before");
}

/// The queue's limit became smaller since it was read, or the role may not read it.
#[tokio::test]
async fn gets_the_letter_alone_where_it_refuses_letter_and_record() {
    let world = FunctionWorld::new(&[("ARCHIVE", ARCHIVE_QUEUE)]);
    enforce(&world, 2048);
    let posts = [10, 1_900].map(|bytes| RecordBuilder::raw(&format!("l{bytes}"), &"x".repeat(bytes)));
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), posts.map(|post| format!("{} archived unrecognised", post.id)));
    assert_eq!(bodies_with_record(&world), [(10, true), (1_900, false)].into());
}

#[tokio::test]
async fn that_refuses_a_letter_for_good_is_told_by_a_metric_and_keeps_the_letter_to_the_last() {
    let world = world("2048");
    enforce(&world, 2048);
    let post = RecordBuilder::raw("a", &"x".repeat(2_049));
    let ran = world.run([&post]).await;
    assert_eq!(ran.outcomes(), ["a failed archive"]);
    let line = ran.letter("a");
    assert_eq!([&line["undone.class"], &line["delay_s"]], [&json!("permanent"), &json!(1)]);
    assert_eq!(ran.metrics()["ArchiveRefusals"], 1);
    let last = post.sent(NOW - (1_209_600 - 4) * 1000);
    assert_eq!(world.run([&last]).await.letter("a")["delay_s"], 2);
    assert_eq!(world.run([&last]).await.letter("a")["delay_s"], 2, "half of what is left");
    // A queue that is only down refuses nothing.
    world.cloud.reply("SendMessageBatch", SimFault::refuse(503, "ServiceUnavailable", "down"));
    assert_eq!(world.run([&RecordBuilder::raw("b", "x")]).await.metric("ArchiveRefusals"), 0);
}

/// A gap in the middle of a group would be filled by the letters behind it.
#[tokio::test]
async fn takes_nothing_of_a_fifo_group_after_one_that_it_did_not_take() {
    let world = FunctionWorld::new(&[
        ("ARCHIVE", ARCHIVE_QUEUE),
        ("REDRIVE_POLICY", &policy(30, 9, &json!({})).to_string()),
    ]);
    world.cloud.queue("payments-dlq.fifo", &[("MessageRetentionPeriod", "1800")]);
    world.cloud.script(|call| match call.target.as_str() {
        "payments-archive" => {
            SimFault::except(call, "message of a2", EntryFault::service("InternalError", ""))
        }
        "payments-worker.fifo" => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
    let posts = ["a1", "b1", "a2", "a3", "b2"].map(|id| in_group(id, &id[..1]).sent(NOW - 1_790_000));
    let ran = world.run(&posts).await;
    assert_eq!(
        ran.outcomes(),
        [
            "a1 archived expiring",
            "b1 archived expiring",
            "a2 failed archive",
            "a3 failed archive",
            "b2 archived expiring"
        ]
    );
    let sent =
        world.cloud.calls("SendMessageBatch").into_iter().filter(|call| call.target == "payments-archive");
    assert_eq!(
        sent.map(|call| call.entries.len()).collect::<Vec<_>>(),
        [2, 2],
        "a3 waited for a2, and was not sent"
    );
}

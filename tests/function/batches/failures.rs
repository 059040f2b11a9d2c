use super::*;

#[tokio::test]
async fn every_failed_entry_has_its_own_consequence_and_its_neighbours_are_delivered() {
    let world = FunctionWorld::new(&[]);
    world.cloud.reply(
        "SendMessageBatch",
        SimFault::Entries(vec![
            (1, EntryFault::sender("InvalidMessageContents", "")),
            (2, EntryFault::sender("RequestThrottled", "")),
            (4, EntryFault::sender("KMS.AccessDeniedException", "no key")),
            (5, EntryFault::Missing),
            (6, EntryFault::service("InternalError", "")),
        ]),
    );
    let ran = world.run(&envelopes(8)).await;
    assert_eq!(
        ran.outcomes(),
        [
            "m0 delivered",
            "m1 archived permanent",
            "m2 deferred failed",
            "m3 delivered",
            "m4 deferred failed",
            "m5 deferred failed",
            "m6 deferred failed",
            "m7 delivered",
        ]
    );
    assert_eq!(ran.kept, ["m2", "m4", "m5", "m6"]);
    let errors: Vec<_> = (0..8)
        .map(|n| ran.letter(&format!("m{n}")).clone())
        .map(|line| [line["error.code"].clone(), line["error.class"].clone()])
        .collect();
    assert_eq!(
        json!(errors),
        json!([
            [null, null],
            ["InvalidMessageContents", "permanent"],
            ["RequestThrottled", "throttling"],
            [null, null],
            ["KMS.AccessDeniedException", "action_required"],
            ["NoAnswer", "transient"],
            ["InternalError", "transient"],
            [null, null],
        ])
    );
    // By the built-in policy retry 1 is immediate, and retry 2 follows after 54 to 60 s.
    let hidden = world.cloud.hidden();
    let expected = ["m2", "m4", "m5", "m6"].map(|id| format!("handle-{id}"));
    assert_eq!(hidden.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    assert!(hidden.values().all(|seconds| (54..=60).contains(seconds)), "{hidden:?}");
}

#[tokio::test]
async fn a_rule_may_go_on_after_a_permanent_failure() {
    let world = FunctionWorld::with_policy(&default(&json!({ "retryPermanent": true })));
    world.cloud.reply("SendMessageBatch", SimFault::refuse(400, "InvalidMessageContents", ""));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(ran.letter("a")["error.class"], "permanent");
    assert_eq!(
        world.cloud.calls("SendMessageBatch").len(),
        1,
        "it was refused alone, so nothing is tried again"
    );
}

#[tokio::test]
async fn one_letter_that_spoils_its_request_does_not_take_its_neighbours_along() {
    let world = FunctionWorld::new(&[]);
    world.cloud.script(|call| {
        let bad = call.operation == "SendMessageBatch" && !call.entries_with("message of m3").is_empty();
        if bad { SimFault::refuse(400, "InvalidMessageContents", "") } else { SimFault::Pass }
    });
    let ran = world.run(&envelopes(10)).await;
    let expected: Vec<_> = (0..10)
        .map(|number| match number {
            3 => "m3 archived permanent".to_owned(),
            _ => format!("m{number} delivered"),
        })
        .collect();
    assert_eq!((ran.outcomes(), ran.kept.len()), (expected, 0));
}

#[tokio::test(start_paused = true)]
async fn a_target_that_hangs_keeps_none_of_the_others() {
    let world = FunctionWorld::new(&[]).with_time(Duration::from_secs(2));
    let posts = [
        RecordBuilder::envelope("a"),
        RecordBuilder::envelope("b").moved_from(BILLING),
        RecordBuilder::raw("r", "x"),
    ];
    world.cloud.script(|call| match (call.operation.as_str(), call.target.as_str()) {
        ("SendMessageBatch", "payments-billing") => SimFault::HangBefore,
        _ => SimFault::Pass,
    });
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "r archived unrecognised"]);
    assert_eq!(ran.letter("b")["error.code"], "DeadlineExceeded");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_never_tells_its_attributes_keeps_no_letter() {
    let world = FunctionWorld::new(&[]).with_time(Duration::from_secs(2));
    world.cloud.reply("GetQueueAttributes", SimFault::HangBefore);
    let ran = world.run([&RecordBuilder::envelope("a"), &RecordBuilder::raw("r", "x")]).await;
    assert_eq!(ran.outcomes(), ["a delivered", "r archived unrecognised"]);
    assert_eq!(ran.log[0]["error.code"], "DeadlineExceeded");
}

#[tokio::test]
async fn queue_attributes_that_cannot_be_read_are_logged_and_nothing_is_assumed() {
    for reply in [
        SimFault::refuse(403, "AccessDenied", "no"),
        SimFault::refuse(403, "RequestThrottled", "no"),
        SimFault::refuse(500, "InternalError", "no"),
        SimFault::Nonsense(200, "{".to_owned()),
        SimFault::ResetBefore,
        SimFault::ConnectTimeout,
    ] {
        let world = holding();
        world.cloud.reply("GetQueueAttributes", reply);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a deferred hold"]);
        assert_eq!(ran.metrics()["SecondsToExpiry"], json!(null));
        let warnings: Vec<_> = ran.log.iter().filter(|line| line["level"] == "WARN").collect();
        assert_eq!((warnings.len(), &warnings[0]["queue.arn"]), (1, &json!(DLQ)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_retention_is_read_from_the_queue_and_kept_for_a_minute() {
    let world = holding();
    for (seconds, retention, calls) in [(0, 1_209_600, 1), (59, 1_209_600, 1), (1, 86_400, 2)] {
        world.pass(seconds);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        let age = if calls == 2 { 60 } else { seconds };
        assert_eq!(ran.metrics()["SecondsToExpiry"], retention - age);
        assert_eq!(world.cloud.calls("GetQueueAttributes").len(), calls);
        world.cloud.queue("payments-dlq", &[("MessageRetentionPeriod", "86400")]);
    }
}

/// Returns a world in which letters stay in their queue, so that the metrics tell for how long.
fn holding() -> FunctionWorld {
    FunctionWorld::with_policy(&default(&json!({ "action": "hold" })))
}

/// A throttled call must not make a queue of 14 days look like one of four.
#[tokio::test(start_paused = true)]
async fn what_a_queue_said_last_holds_while_it_will_not_tell() {
    let world = holding();
    assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.metrics()["SecondsToExpiry"], 1_209_600);
    world.cloud.reply("GetQueueAttributes", SimFault::refuse(403, "RequestThrottled", "no"));
    world.pass(300);
    assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.metrics()["SecondsToExpiry"], 1_209_300);
    // The queue is asked again after half a minute.
    assert_eq!(world.cloud.calls("GetQueueAttributes").len(), 2);
    world.pass(25);
    world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(world.cloud.calls("GetQueueAttributes").len(), 2);
    world.pass(5);
    world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(world.cloud.calls("GetQueueAttributes").len(), 3);
}

/// P4: the queue would drop the letter before its next retry.
#[tokio::test]
async fn a_letter_that_its_queue_would_drop_while_it_waits_is_archived() {
    let world = FunctionWorld::new(&[]);
    world.cloud.queue("payments-dlq", &[("MessageRetentionPeriod", "120")]);
    world.cloud.reply("SendMessageBatch", SimFault::ResetBefore);
    let fresh = RecordBuilder::envelope("fresh");
    let old = RecordBuilder::envelope("old").sent(NOW - 80_000);
    let ran = world.run([&fresh, &old]).await;
    assert_eq!(ran.outcomes(), ["fresh deferred failed", "old archived expiring"]);
    assert_eq!(ran.metrics()["SecondsToExpiry"], 120, "what is archived is safe");
    assert_eq!(ran.kept, ["fresh"]);
}

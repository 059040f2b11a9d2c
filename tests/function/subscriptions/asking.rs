use super::*;

fn asked(world: &FunctionWorld) -> usize {
    world.cloud.calls("GetSubscriptionAttributes").len()
}

fn ten() -> Vec<RecordBuilder> {
    (0..10).map(|number| RecordBuilder::envelope(&format!("m{number}"))).collect()
}

#[tokio::test]
async fn ten_letters_of_a_subscription_cost_one_call_and_the_next_batch_none() {
    let world = FunctionWorld::new(&[]);
    assert_eq!(world.run(&ten()).await.kept, [""; 0]);
    assert_eq!(
        world.cloud.summary(),
        [
            "GetQueueAttributes payments-dlq".to_owned(),
            format!("GetSubscriptionAttributes {SUBSCRIPTION}"),
            "SendMessageBatch payments-worker 10".to_owned(),
        ]
    );
    world.cloud.forget();
    assert_eq!(world.run(&ten()).await.kept, [""; 0]);
    assert_eq!(world.cloud.summary(), ["SendMessageBatch payments-worker 10"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_believed_for_five_minutes() {
    let world = FunctionWorld::new(&[]);
    world.run(&ten()).await;
    // The endpoint moves.
    world.cloud.resubscribe(SUBSCRIPTION, "Endpoint", BILLING);
    for (seconds, calls, target) in [(299, 1, WORKER), (1, 2, BILLING), (299, 2, BILLING), (1, 3, BILLING)] {
        world.pass(seconds);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!((asked(&world), ran.letter("a")["target.arn"].as_str()), (calls, Some(target)));
    }
}

#[tokio::test]
async fn that_a_subscription_does_not_exist_is_an_answer_too() {
    let world = FunctionWorld::new(&[]);
    world.cloud.unsubscribe(SUBSCRIPTION);
    for _ in 0..3 {
        assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.outcomes(), ["a archived refused"]);
    }
    assert_eq!(asked(&world), 1);
}

/// A failed check is a failed attempt. The letter continues along its schedule and is not archived.
#[tokio::test]
async fn a_check_that_could_not_be_made_is_a_failed_attempt_and_no_refusal() {
    for (reply, code, class) in [
        (SimFault::refuse(400, "Throttling", "Rate exceeded"), "Throttling", "throttling"),
        (SimFault::refuse(429, "Throttled", "Rate exceeded"), "Throttled", "throttling"),
        (SimFault::refuse(403, "AuthorizationError", "no"), "AuthorizationError", "action_required"),
        (SimFault::refuse(403, "InvalidClientTokenId", "no"), "InvalidClientTokenId", "action_required"),
        (SimFault::refuse(500, "InternalError", "oh"), "InternalError", "transient"),
        (SimFault::Nonsense(503, "<html>".to_owned()), "Http503", "transient"),
        (SimFault::Nonsense(200, "<html>".to_owned()), "Http200", "transient"),
        (SimFault::ResetBefore, "Unreachable", "transient"),
        (SimFault::ConnectTimeout, "Timeout", "transient"),
    ] {
        let world = FunctionWorld::new(&[]);
        world.cloud.reply("GetSubscriptionAttributes", reply);
        let ran = world.run(&ten()).await;
        let line = ran.letter("m0");
        assert_eq!(
            [
                &line["outcome"],
                &line["reason"],
                &line["retry.number"],
                &line["error.code"],
                &line["error.class"]
            ],
            [&json!("deferred"), &json!("failed"), &json!(1), &json!(code), &json!(class)]
        );
        assert_eq!(ran.kept.len(), 10, "{code}");
        let hidden = world.cloud.hidden();
        assert!(hidden.len() == 10 && hidden.values().all(|seconds| (54..=60).contains(seconds)));
        assert_eq!(asked(&world), 1);

        // Errors are not kept: the next batch asks again.
        world.cloud.script(|_| SimFault::Pass);
        world.pass(60);
        let again: Vec<_> = ten().into_iter().map(|post| post.received(2)).collect();
        assert_eq!(world.run(&again).await.kept, [""; 0]);
        assert_eq!(asked(&world), 2);
    }
}

/// An answer without content means that the check could not be made. It is not a refusal.
#[tokio::test]
async fn an_answer_without_attributes_is_a_failed_attempt_and_is_not_kept() {
    let world = FunctionWorld::new(&[]);
    let empty = "<GetSubscriptionAttributesResponse><GetSubscriptionAttributesResult><Attributes/>\
                 </GetSubscriptionAttributesResult></GetSubscriptionAttributesResponse>";
    world.cloud.reply("GetSubscriptionAttributes", SimFault::Nonsense(200, empty.to_owned()));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(ran.letter("a")["error.code"], "NoAnswer");
    world.run([&RecordBuilder::envelope("b")]).await;
    assert_eq!(world.cloud.calls("GetSubscriptionAttributes").len(), 2);
}

#[tokio::test]
async fn one_failing_subscription_is_none_of_the_others() {
    let world = FunctionWorld::new(&[]);
    world.cloud.script(|call| {
        if call.target == BILLING_SUBSCRIPTION {
            SimFault::refuse(400, "Throttling", "")
        } else {
            SimFault::Pass
        }
    });
    let billing = RecordBuilder::envelope("b").subscription(BILLING_SUBSCRIPTION);
    let ran = world.run([&RecordBuilder::envelope("a"), &billing, &RecordBuilder::envelope("c")]).await;
    assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "c delivered"]);
}

/// The quota of the call is small, so a batch of many subscriptions asks for four at a time.
#[tokio::test(start_paused = true)]
async fn four_subscriptions_are_asked_about_at_a_time() {
    let world = FunctionWorld::new(&[]);
    world.cloud.script(|call| match call.operation.as_str() {
        "GetSubscriptionAttributes" => SimFault::Pass.after(Duration::from_millis(200)),
        _ => SimFault::Pass,
    });
    let posts: Vec<_> = (0..10)
        .map(|number| {
            RecordBuilder::envelope(&format!("m{number}")).subscription(&format!("{TOPIC}:{number}"))
        })
        .collect();
    let ran = world.run(&posts).await;
    assert!(ran.outcomes().iter().all(|outcome| outcome.ends_with("archived refused")));
    assert_eq!((asked(&world), world.cloud.peak()), (10, 4));
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_never_answers_keeps_none_of_the_others() {
    let world = FunctionWorld::new(&[]).with_time(Duration::from_secs(2));
    world.cloud.script(|call| {
        if call.target == BILLING_SUBSCRIPTION { SimFault::HangBefore } else { SimFault::Pass }
    });
    let billing = RecordBuilder::envelope("b").subscription(BILLING_SUBSCRIPTION);
    let ran = world.run([&RecordBuilder::envelope("a"), &billing, &RecordBuilder::raw("r", "x")]).await;
    assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "r archived unrecognised"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_never_answers_is_a_failed_attempt_within_the_time() {
    let world = FunctionWorld::new(&[]).with_time(Duration::from_secs(2));
    world.cloud.reply("GetSubscriptionAttributes", SimFault::HangBefore);
    let began = std::time::Instant::now();
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(ran.letter("a")["error.code"], "DeadlineExceeded");
    assert_eq!(ran.kept, ["a"]);
}

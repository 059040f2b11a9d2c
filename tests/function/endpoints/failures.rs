//! Failures that an operator can fix continue along the schedule. Failures that nobody can fix do not.

use super::*;

#[tokio::test]
async fn that_an_operator_can_mend_go_on_and_say_what_to_do() {
    let missing = "the target does not exist: create it, or delete the subscription";
    let denied = "the function's role or the target's policy does not allow it";
    let key = "the target's key cannot be used: see the key's policy and state";
    let address = "the queue's URL does not fit the endpoint that was called: see the queue's region, and the \
        variables AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_SQS";
    let nonexistent = "AWS.SimpleQueueService.NonExistentQueue";
    for (op, target, code, detail) in [
        ("SendMessageBatch", "origin", nonexistent, missing),
        ("SendMessageBatch", "origin", "InvalidAddress", address),
        ("SendMessageBatch", "origin", "AccessDenied", denied),
        ("SendMessageBatch", "origin", "KMS.DisabledException", key),
        ("SendMessageBatch", "origin", "KmsAccessDenied", key),
        ("PublishBatch", "topic", "NotFound", missing),
        ("PublishBatch", "topic", "AuthorizationError", denied),
        ("PublishBatch", "topic", "KMSDisabled", key),
        ("Invoke", NOTIFIER, "ResourceNotFoundException", missing),
        ("Invoke", NOTIFIER, "AccessDeniedException", denied),
        ("Invoke", NOTIFIER, "KMSInvalidStateException", key),
    ] {
        let world =
            FunctionWorld::with_policy(&default(&json!({ "target": target, "deliveryPolicy": at_once() })));
        world.cloud.reply(op, SimFault::refuse(400, code, "told"));
        for receive in 1..=9 {
            let ran = world.run([&RecordBuilder::envelope("a").received(receive)]).await;
            let [outcome, reason, told_detail, _, class] = told(&ran, "a");
            let last = receive == 9;
            let expected = if last { ["archived", "exhausted"] } else { ["deferred", "failed"] };
            assert_eq!([outcome, reason], expected, "{code} {receive}");
            assert_eq!([told_detail, class], [detail, "action_required"], "{code} {receive}");
            assert_eq!(ran.letter("a")["retry.number"], receive);
            assert_eq!(ran.metrics()["FailuresActionRequired"], 1);
            assert_eq!(ran.metric("FailuresPermanent"), 0);
        }
        assert_eq!(archived(&world.cloud)[0]["detail"], detail, "{code}");
        assert_eq!(archived(&world.cloud)[0]["error"]["class"], "action_required", "{code}");
    }
}

#[tokio::test]
async fn once_mended_end_with_a_delivery() {
    let world = FunctionWorld::with_policy(&default(&json!({ "deliveryPolicy": at_once() })));
    world.cloud.reply("SendMessageBatch", SimFault::refuse(403, "AccessDenied", "no"));
    assert_eq!(world.run([&RecordBuilder::envelope("a")]).await.outcomes(), ["a deferred failed"]);
    world.cloud.script(|_| SimFault::Pass);
    let ran = world.run([&RecordBuilder::envelope("a").received(2)]).await;
    assert_eq!(ran.outcomes(), ["a delivered"]);
    assert_eq!(ran.letter("a")["detail"], Value::Null);
    assert_eq!(ran.metric("FailuresActionRequired"), 0);
}

#[tokio::test]
async fn that_are_permanent_archive_at_once_unless_the_rule_retries_them() {
    let server = TestWebServer::answering(410);
    let posts = [
        RecordBuilder::envelope("queue"),
        RecordBuilder::envelope("topic").sns_attribute("to", "String", "topic"),
        RecordBuilder::envelope("function").subscription(LAMBDA_SUBSCRIPTION),
        RecordBuilder::envelope("http").subscription(OTHER_SUBSCRIPTION),
    ];
    for (retry_permanent, outcome) in [(false, "archived permanent"), (true, "deferred failed")] {
        let world = FunctionWorld::new(&[
            ("ALLOW_LOOPBACK_HTTP", "true"),
            (
                "REDRIVE_POLICY",
                &json!({
                    "default": { "retryPermanent": retry_permanent },
                    "rules": [{ "name": "topic", "match": { "messageAttributes": { "to": ["topic"] } },
                        "target": "topic" }],
                })
                .to_string(),
            ),
        ]);
        world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "http", &server.url(), DLQ);
        let bad = EntryFault::sender("InvalidMessageContents", "");
        world.cloud.script(move |call| match call.operation.as_str() {
            "SendMessageBatch" => SimFault::Entries(vec![(0, bad.clone())]),
            "PublishBatch" => SimFault::Entries(vec![(0, EntryFault::sender("InvalidParameter", ""))]),
            "Invoke" => SimFault::refuse(400, "InvalidRequestContentException", ""),
            _ => SimFault::Pass,
        });
        let ran = world.run(&posts).await;
        let expected: Vec<_> = posts.iter().map(|post| format!("{} {outcome}", post.id)).collect();
        assert_eq!(ran.outcomes(), expected);
        assert_eq!(ran.metrics()["FailuresPermanent"], 4);
        assert_eq!(ran.metric("ArchivedPermanent"), if retry_permanent { 0 } else { 4 });
    }
}

/// An example is a server that only admits SNS's addresses.
#[tokio::test]
async fn of_a_server_that_does_not_let_the_function_in_say_what_to_do() {
    let refused = "the server does not let this function in: allow the address that it calls from, or give it \
        the permission that it lacks; retryPermanent in the rule keeps a letter on its schedule meanwhile";
    for (status, detail) in [(401, json!(refused)), (403, json!(refused)), (404, Value::Null)] {
        let server = TestWebServer::answering(status);
        let world = world_of(&json!({}), "http", &server.url());
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        let expected = [json!("archived"), json!("permanent"), detail.clone()];
        assert_eq!(told(&ran, "a")[..3], expected, "{status}");
        assert_eq!(archived(&world.cloud)[0]["detail"], detail, "{status}");

        let world = world_of(&default(&json!({ "retryPermanent": true })), "http", &server.url());
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        let expected = [json!("deferred"), json!("failed"), detail];
        assert_eq!(told(&ran, "a")[..3], expected, "{status}");
    }
}

#[tokio::test]
async fn that_are_permanent_exhaust_the_schedule_where_the_rule_retries_them() {
    let server = TestWebServer::answering(410);
    let policy = default(&json!({ "retryPermanent": true, "deliveryPolicy": at_once() }));
    let world = world_of(&policy, "http", &server.url());
    for receive in 1..=9 {
        let ran = world.run([&RecordBuilder::envelope("a").received(receive)]).await;
        let outcome = if receive < 9 { "a deferred failed" } else { "a archived exhausted" };
        assert_eq!(ran.outcomes(), [outcome]);
    }
    assert_eq!(server.seen().len(), 9);
    assert_eq!(archived(&world.cloud)[0]["error"], json!({ "code": "Http410", "class": "permanent" }));
}

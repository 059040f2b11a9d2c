//! Every origin has its natural target: a letter goes back to what failed, as it was, and says what
//! is known of the cause.

use serde_json::{Value, json};
use support::*;

const STATE_MACHINE: &str = "arn:aws:states:eu-central-1:123456789012:stateMachine:orders";
const RULE: &str = "arn:aws:events:eu-central-1:123456789012:rule/shop/orders-to-projector";

/// Every origin, in the queue of these tests and no other.
fn origins() -> Value {
    json!({ DLQ: ["lambda-async", "lambda-destination", "eventbridge"] })
}

fn default(default: &Value) -> Value {
    json!({ "default": default, "origins": origins() })
}

fn built_in() -> World {
    World::with_policy(&json!({ "origins": origins() }))
}

/// The body of the only record of a sample.
fn body_of(name: &str) -> String {
    sample(name)["Records"][0]["body"].as_str().unwrap().to_owned()
}

/// The only call of a function: its name, whether it waits, and the event.
fn invocation(world: &World) -> (String, String, String) {
    let [call] = world.cloud.calls("Invoke").try_into().unwrap();
    let Call { to, headers, entries, .. } = call;
    (to, headers["x-amz-invocation-type"].clone(), entries[0].body.clone())
}

/// A plain event whose text would change if it were read and written again.
const PLAIN: &str = "{ \"b\" : 1.10, \"a\":\"\\u00fc\",\r\n \"big\": 12345678901234567890123, \"a2\":[ ] }";

mod lambda_async {
    use super::*;

    fn plain(body: &str) -> Post {
        Post::raw("a", body)
            .attribute("RequestID", "String", "f90d1605-ec6d-4193-8adb-4e1528707ec2")
            .attribute("ErrorCode", "Number", "200")
            .attribute("ErrorMessage", "String", "mail relay refused the connection")
    }

    #[tokio::test]
    async fn does_not_name_its_function_so_without_one_in_its_rule_it_is_archived_and_says_so() {
        for target in ["origin", "source"] {
            for event in [sample("lambda-async"), event([&plain(PLAIN)])] {
                let world = World::with_policy(&default(&json!({ "target": target })));
                let ran = world.run_event(&event).await;
                assert_eq!(ran.letters()[0]["reason"], "unrecognised");
                assert_eq!(operations(&world.cloud), ["GetQueueAttributes", "PutObject"]);
                let record = archived(&world.cloud).remove(0);
                let detail = record["detail"].as_str().unwrap();
                if target == "origin" {
                    let told =
                        "does not name the function that failed: give its rule that function as target";
                    assert_eq!(detail, told);
                }
                let cause = json!({ "code": "200", "message": "mail relay refused the connection" });
                assert_eq!(record["cause"], cause);
            }
        }
    }

    #[tokio::test]
    async fn with_an_event_of_sns_it_is_an_asynchronous_call_with_the_mark_in_the_record() {
        let world = World::with_policy(&default(&json!({ "target": NOTIFIER })));
        let ran = world.run_event(&sample("lambda-async")).await;
        assert_eq!(ran.kept, [""; 0]);
        let line = ran.letters()[0];
        assert_eq!([&line["target.arn"], &line["cause.code"]], [NOTIFIER, "200"]);
        let (name, kind, payload) = invocation(&world);
        assert_eq!((name.as_str(), kind.as_str()), ("orders-notifier", "Event"));
        let mut expected: Value = serde_json::from_str(&body_of("lambda-async")).unwrap();
        let message = expected["Records"][0]["Sns"]["Message"].as_str().unwrap().to_owned();
        let id = format!("1401aae3-0c18-539a-ac40-e6d5f3043639/{LAMBDA_SUBSCRIPTION}");
        expected["Records"][0]["Sns"]["MessageAttributes"]["sns-redrive"] =
            json!({ "Type": "String", "Value": mark_text(1, &id, 1_793_534_397_750, &message) });
        assert_eq!(serde_json::from_str::<Value>(&payload).unwrap(), expected);
    }

    #[tokio::test]
    async fn with_a_plain_event_it_is_a_synchronous_call_with_exactly_that_event() {
        for body in [PLAIN, "null", "3", "[]", "\"text\"", r#"{"Records":[]}"#] {
            let world = World::with_policy(&default(&json!({ "target": PROJECTOR })));
            let ran = world.run([&plain(body)]).await;
            assert_eq!(ran.outcomes(), ["a delivered"], "{body}");
            assert_eq!(
                invocation(&world),
                ("orders-projector".to_owned(), "RequestResponse".to_owned(), body.to_owned())
            );
        }
    }

    /// Two records are not SNS's, which puts one into an event; a mark in one of them counts nothing.
    #[tokio::test]
    async fn with_two_records_of_sns_it_is_a_plain_event() {
        let mut event: Value = serde_json::from_str(&body_of("lambda-async")).unwrap();
        let record = event["Records"][0].clone();
        event["Records"].as_array_mut().unwrap().push(record);
        let world = World::with_policy(&default(&json!({ "target": PROJECTOR })));
        world.run([&plain(&event.to_string())]).await;
        assert_eq!(invocation(&world).1, "RequestResponse");
    }

    #[tokio::test]
    async fn a_function_that_fails_again_has_used_a_retry() {
        let world = World::with_policy(&default(&json!({ "target": PROJECTOR })));
        world.cloud.reply("Invoke", Reply::FunctionError);
        let ran = world.run([&plain(PLAIN)]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        let line = ran.letter("a");
        assert_eq!([&line["retry.number"], &line["retry.of"]], [1, 12]);
        assert_eq!([&line["error.code"], &line["error.class"]], ["FunctionError", "transient"]);
        // What the function answered may hold anything.
        assert!(!ran.text.contains("S3CR3T"));
        assert_eq!(world.cloud.calls("Invoke").len(), 1, "it may have done its work: no second try at once");
    }

    #[tokio::test]
    async fn a_body_that_is_no_json_is_no_event() {
        for body in ["", "plain", "{", "{}{}"] {
            let world = World::with_policy(&default(&json!({ "target": PROJECTOR })));
            let ran = world.run([&plain(body)]).await;
            assert_eq!(ran.outcomes(), ["a archived unrecognised"], "{body}");
            assert_eq!(ran.letter("a")["detail"], "holds no JSON, which the event of a function must be");
            assert_eq!(operations(&world.cloud), ["GetQueueAttributes", "PutObject"]);
        }
    }

    #[tokio::test]
    async fn rules_tell_functions_apart_by_what_the_event_holds() {
        let policy = json!({
            "origins": origins(),
            "rules": [
                { "name": "notifier", "target": NOTIFIER,
                  "match": { "origin": ["lambda-async"], "subscriptionArn": [LAMBDA_SUBSCRIPTION] } },
                { "name": "projector", "target": PROJECTOR,
                  "match": { "origin": ["lambda-async"], "message": { "kind": ["projection"] } } },
            ],
        });
        let world = World::with_policy(&policy);
        let mut posts = [plain(&body_of("lambda-async")), plain(r#"{"kind":"projection"}"#), plain("{}")];
        for (post, id) in posts.iter_mut().zip(["sns", "projection", "other"]) {
            id.clone_into(&mut post.id);
        }
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["sns delivered", "projection delivered", "other archived unrecognised"]);
        let mut called: Vec<_> = world.cloud.calls("Invoke").into_iter().map(|call| call.to).collect();
        called.sort();
        assert_eq!(called, ["orders-notifier", "orders-projector"]);
    }
}

mod lambda_destination {
    use super::*;

    fn record(function: &str, payload: &str) -> Post {
        let context = json!({ "requestId": "r", "functionArn": function, "condition": "RetriesExhausted" });
        Post::raw(
            "a",
            &format!(
                r#"{{"version":"1.0","requestContext":{context},"requestPayload":{payload},"responsePayload":{{"errorType":"Timeout"}}}}"#
            ),
        )
    }

    #[tokio::test]
    async fn goes_to_the_function_of_the_record_with_the_sns_event_and_the_mark() {
        let world = built_in();
        let ran = world.run_event(&sample("lambda-destination")).await;
        assert_eq!(ran.kept, [""; 0]);
        let (name, kind, payload) = invocation(&world);
        // With or without `:$LATEST` it is the same function.
        assert_eq!((name.split(':').next().unwrap(), kind.as_str()), ("orders-notifier", "Event"));
        let record: Value = serde_json::from_str(&body_of("lambda-destination")).unwrap();
        let mut expected = record["requestPayload"].clone();
        let message = expected["Records"][0]["Sns"]["Message"].as_str().unwrap().to_owned();
        let id = format!("011a58ff-f871-54c8-8f18-c12a134a08a4/{LAMBDA_SUBSCRIPTION}");
        expected["Records"][0]["Sns"]["MessageAttributes"]["sns-redrive"] =
            json!({ "Type": "String", "Value": mark_text(1, &id, 1_793_534_397_750, &message) });
        assert_eq!(serde_json::from_str::<Value>(&payload).unwrap(), expected);
    }

    #[tokio::test]
    async fn with_a_plain_event_it_is_a_synchronous_call_with_the_payload_byte_for_byte() {
        for payload in [PLAIN, "null", "3", "[ ]", r#""te\u00fcxt""#] {
            let world = built_in();
            let ran = world.run([&record(PROJECTOR, payload)]).await;
            assert_eq!(ran.outcomes(), ["a delivered"], "{payload}");
            assert_eq!(
                invocation(&world),
                ("orders-projector".to_owned(), "RequestResponse".to_owned(), payload.to_owned())
            );
        }
    }

    #[tokio::test]
    async fn keeps_the_alias_or_version_that_failed() {
        for qualifier in ["live", "7"] {
            let world = built_in();
            world.run([&record(&format!("{PROJECTOR}:{qualifier}"), "{}")]).await;
            assert_eq!(invocation(&world).0, format!("orders-projector:{qualifier}"));
        }
    }

    /// `$LATEST` is the function itself; Lambda writes it into every record.
    #[tokio::test]
    async fn an_allowed_function_is_allowed_as_its_latest_version_and_no_other() {
        for (qualifier, outcome) in
            [("", "a delivered"), (":$LATEST", "a delivered"), (":live", "a archived refused")]
        {
            let world = World::with_policy(&default(&json!({ "allowTargets": [PROJECTOR] })));
            let ran = world.run([&record(&format!("{PROJECTOR}{qualifier}"), "{}")]).await;
            assert_eq!(ran.outcomes(), [outcome], "{qualifier:?}");
        }
    }

    #[tokio::test]
    async fn tells_the_cause_in_log_and_archive() {
        let world = World::with_policy(&default(&json!({ "action": "archive" })));
        let ran = world.run_event(&sample("lambda-destination")).await;
        assert_eq!(ran.letters()[0]["cause.code"], "ConnectionRefusedError");
        assert!(!ran.text.contains("mail relay"), "a message of failed code may hold anything");
        let cause =
            json!({ "code": "ConnectionRefusedError", "message": "mail relay refused the connection" });
        assert_eq!(archived(&world.cloud)[0]["cause"], cause);
    }

    /// Such as a function of another kind of address.
    #[tokio::test]
    async fn with_something_else_than_a_function_it_is_archived() {
        let world = built_in();
        let ran = world.run([&record(STATE_MACHINE, "{}")]).await;
        assert_eq!(ran.outcomes(), ["a archived undeliverable_protocol"]);
        assert_eq!(operations(&world.cloud), ["GetQueueAttributes", "PutObject"]);
    }
}

mod eventbridge {
    use super::*;

    fn failed_at(target: &str) -> Post {
        Post::raw("a", PLAIN)
            .attribute("RULE_ARN", "String", RULE)
            .attribute("TARGET_ARN", "String", target)
            .attribute("ERROR_CODE", "String", "NO_PERMISSIONS")
            .attribute("ERROR_MESSAGE", "String", "S3CR3T may not be told")
            .attribute("EXHAUSTED_RETRY_CONDITION", "String", "MaximumRetryAttempts")
            .attribute("RETRY_ATTEMPTS", "String", "185")
    }

    #[tokio::test]
    async fn goes_to_the_function_of_its_target_with_the_event_byte_for_byte() {
        let world = built_in();
        let ran = world.run([&failed_at(PROJECTOR)]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(ran.letter("a")["target.arn"], PROJECTOR);
        assert_eq!(
            invocation(&world),
            ("orders-projector".to_owned(), "RequestResponse".to_owned(), PLAIN.to_owned())
        );
    }

    #[tokio::test]
    async fn goes_to_the_queue_of_its_target_without_what_eventbridge_added() {
        let world = built_in();
        let ran = world.run([&failed_at(BILLING)]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        let [call] = world.cloud.calls("SendMessageBatch").try_into().unwrap();
        let Call { to, mut entries, .. } = call;
        assert_eq!(to, "orders-billing");
        let entry = entries.remove(0);
        let mark = ("String".to_owned(), mark_text(1, "a", NOW, PLAIN));
        assert_eq!(
            entry,
            Entry {
                body: PLAIN.to_owned(),
                attributes: [("sns-redrive".to_owned(), mark)].into(),
                ..Entry::default()
            }
        );
    }

    #[tokio::test]
    async fn goes_to_the_fifo_queue_of_its_target() {
        let world = built_in();
        world.run([&failed_at(FIFO_WORKER)]).await;
        let entry = world.cloud.entries("SendMessageBatch").remove(0);
        assert!(entry.group_id.is_some() && entry.deduplication_id.is_some());
    }

    #[tokio::test]
    async fn with_a_target_of_another_kind_it_is_archived_with_the_reason() {
        for target in [
            STATE_MACHINE,
            TOPIC,
            STREAM,
            "arn:aws:events:eu-central-1:210987654321:event-bus/central",
            "arn:aws:events:eu-central-1:123456789012:api-destination/crm/0a1b",
            "arn:aws:kinesis:eu-central-1:123456789012:stream/orders",
            "arn:aws:ecs:eu-central-1:123456789012:cluster/shop",
        ] {
            let world = built_in();
            let ran = world.run([&failed_at(target)]).await;
            assert_eq!(ran.outcomes(), ["a archived undeliverable_protocol"], "{target}");
            let record = archived(&world.cloud).remove(0);
            assert_eq!(record["detail"], "failed at a target that is neither a function nor a queue");
            assert_eq!(
                record["cause"],
                json!({ "code": "NO_PERMISSIONS", "message": "S3CR3T may not be told" })
            );
            assert_eq!(record["message"]["messageAttributes"]["TARGET_ARN"]["stringValue"], target);
            assert_eq!(operations(&world.cloud), ["GetQueueAttributes", "PutObject"]);
        }
    }

    #[tokio::test]
    async fn tells_the_code_of_the_cause_in_the_log_and_never_its_message() {
        for target in [PROJECTOR, BILLING, STATE_MACHINE] {
            let ran = built_in().run([&failed_at(target)]).await;
            assert_eq!(ran.letter("a")["cause.code"], "NO_PERMISSIONS");
            assert!(!ran.text.contains("S3CR3T"));
        }
    }
}

mod sqs {
    use super::*;

    #[tokio::test]
    async fn goes_back_to_its_source_queue_as_it_was() {
        for event in [sample("sqs-consumer"), event([&Post::raw("a", PLAIN).moved_from(BILLING).received(4)])]
        {
            let world = World::new(&[]);
            let ran = world.run_event(&event).await;
            let line = ran.letters()[0];
            assert_eq!([&line["outcome"], &line["target.arn"]], ["delivered", BILLING]);
            assert_eq!(line["retry.number"], 1);
            let entry = world.cloud.entries("SendMessageBatch").remove(0);
            assert_eq!(entry.body, event["Records"][0]["body"].as_str().unwrap());
            assert_eq!(entry.attributes.keys().collect::<Vec<_>>(), ["sns-redrive"]);
            // Nothing is asked about a subscription: that delivery had succeeded.
            assert!(world.cloud.calls("GetSubscriptionAttributes").is_empty());
        }
    }

    /// SQS keeps the count when it moves a message: with three receives spent in the source queue, the
    /// fourth is the first here, and the number of a retry follows it.
    #[tokio::test]
    async fn its_receives_in_the_source_queue_are_no_retries() {
        let schedule = json!({ "numRetries": 5, "numNoDelayRetries": 5 });
        let policy = default(&json!({ "deliveryPolicy": { "healthyRetryPolicy": schedule } }));
        for (max_receives, receive, number) in
            [(json!(3), 4, 1), (json!(3), 5, 2), (json!("3"), 8, 5), (json!(1), 4, 3), (json!(1000), 1001, 1)]
        {
            let world = World::with_policy(&policy);
            let redrive = json!({ "deadLetterTargetArn": DLQ, "maxReceiveCount": max_receives }).to_string();
            let attributes = [("MessageRetentionPeriod", "345600"), ("RedrivePolicy", redrive.as_str())];
            world.cloud.queue("orders-billing", &attributes);
            let ran = world.run([&Post::raw("a", "x").moved_from(BILLING).received(receive)]).await;
            assert_eq!(ran.letter("a")["retry.number"], number, "{max_receives} {receive}");
        }
    }

    /// Then the count says less than it seems to, but the points in time hold still.
    #[tokio::test]
    async fn a_source_queue_that_does_not_tell_costs_no_delivery() {
        for reply in [Reply::Fail(403, "AccessDenied", "no"), Reply::Reset] {
            let world = World::new(&[]);
            world.cloud.script(move |call| match call.to.as_str() {
                "orders-billing" if call.op == "GetQueueAttributes" => reply.clone(),
                _ => Reply::Accept,
            });
            let ran = world.run([&Post::raw("a", "x").moved_from(BILLING).received(4)]).await;
            assert_eq!(ran.outcomes(), ["a delivered"]);
        }
    }
}

mod sns {
    use super::*;

    /// The state of the subscription is what is known of an SNS letter's cause.
    #[tokio::test]
    async fn tells_what_is_wrong_with_the_subscription_in_log_and_archive() {
        let gone: fn(&World) = |world| world.cloud.unsubscribe(SUBSCRIPTION);
        let pending: fn(&World) =
            |world| world.cloud.resubscribe(SUBSCRIPTION, "PendingConfirmation", "true");
        let elsewhere: fn(&World) =
            |world| world.cloud.resubscribe(SUBSCRIPTION, "RedrivePolicy", "{\"deadLetterTargetArn\":\"x\"}");
        for (change, detail) in [
            (gone, "the subscription does not exist"),
            (pending, "the subscription is not confirmed"),
            (elsewhere, "the subscription does not name this queue as its dead-letter target"),
        ] {
            let world = World::new(&[]);
            change(&world);
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a archived refused"]);
            assert_eq!(ran.letter("a")["detail"], detail);
            let record = archived(&world.cloud).remove(0);
            assert_eq!([&record["detail"], &record["subscriptionArn"]], [detail, SUBSCRIPTION]);
        }
    }

    #[tokio::test]
    async fn tells_that_the_queue_of_its_subscription_is_missing() {
        let world = World::new(&[]);
        let missing = "AWS.SimpleQueueService.NonExistentQueue";
        world.cloud.reply("SendMessageBatch", Reply::Fail(400, missing, "The queue does not exist."));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        let line = ran.letter("a");
        assert_eq!([&line["target.arn"], &line["detail"]], [WORKER, "the target does not exist"]);
        assert_eq!(ran.metrics()["FailuresActionRequired"], 1);
    }

    /// Whatever the letter's origin, its rule may send it elsewhere: an envelope becomes the event that
    /// SNS would have sent.
    #[tokio::test]
    async fn goes_to_a_function_of_its_rule_as_an_event_of_sns() {
        let world = World::with_policy(&default(&json!({ "target": PROJECTOR })));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        let (name, kind, payload) = invocation(&world);
        assert_eq!((name.as_str(), kind.as_str()), ("orders-projector", "Event"));
        let payload: Value = serde_json::from_str(&payload).unwrap();
        assert_eq!(payload["Records"][0]["EventSubscriptionArn"], SUBSCRIPTION);
        assert_eq!(payload["Records"][0]["Sns"]["Message"], "message of a");
    }
}

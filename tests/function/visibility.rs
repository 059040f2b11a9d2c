//! Tests of hiding: for how long, in how many calls, and what a failed call means.

use std::time::Duration;

use redrive_aws::delivery::{HideRequest, hide};
use redrive_core::failure::{Failure, FailureClass};
use redrive_support::*;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Returns a schedule without jitter: `retries` delays that rise linearly from `min` to `max`.
fn linear(min: u32, max: u32, retries: u32) -> Value {
    let schedule = json!({ "minDelayTarget": min, "maxDelayTarget": max, "numRetries": retries });
    json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } } })
}

/// Returns a world whose subscriber cannot be reached.
fn broken(policy: &Value) -> FunctionWorld {
    let world = FunctionWorld::with_policy(policy);
    world.cloud.reply("SendMessageBatch", SimFault::refuse(503, "ServiceUnavailable", "oh"));
    world
}

fn in_time() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn late() -> Failure {
    Failure {
        class: FailureClass::Transient,
        code: "DeadlineExceeded".to_owned(),
        message: None,
        retry_after: None,
    }
}

/// Returns the facts about the wait in the letter's line.
fn wait(ran: &TestInvocation, id: &str) -> Value {
    let line = ran.letter(id);
    json!([line["outcome"], line["reason"], line["retry.number"], line["delay_s"], line["due"]])
}

mod calls {
    use super::*;

    fn handles(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("handle-{number}")).collect()
    }

    /// Returns an account with messages in flight that have these handles.
    fn in_flight(count: usize) -> TestAccount {
        let account = TestAccount::new();
        let posts: Vec<_> = (0..count).map(|number| RecordBuilder::envelope(&number.to_string())).collect();
        account.place(&event(&posts));
        account
    }

    fn hidings(handles: &[String]) -> Vec<HideRequest<'_>> {
        let hiding = |(seconds, handle)| HideRequest { receipt_handle: handle, seconds };
        (100..).zip(handles.iter().map(String::as_str)).map(hiding).collect()
    }

    #[tokio::test]
    async fn ten_messages_cost_one_call_and_each_has_its_own_time() {
        let cloud = in_flight(10);
        let handles = handles(10);
        let answers = hide(&cloud.clients().sqs, &arn(DLQ), &hidings(&handles), in_time()).await;
        assert_eq!(answers, vec![Ok(()); 10]);
        assert_eq!(cloud.summary(), ["ChangeMessageVisibilityBatch payments-dlq 10"]);
        for (number, entry) in cloud.entries("ChangeMessageVisibilityBatch").iter().enumerate() {
            let expected = SimEntry {
                handle: Some(format!("handle-{number}")),
                visibility: Some(100 + i64::try_from(number).unwrap()),
                ..SimEntry::new(number.to_string(), "")
            };
            assert_eq!(*entry, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn twenty_five_messages_cost_three_calls_at_once() {
        let cloud = in_flight(25);
        cloud.script(|_| SimFault::Pass.after(Duration::from_millis(200)));
        let handles = handles(25);
        let answers = hide(&cloud.clients().sqs, &arn(DLQ), &hidings(&handles), in_time()).await;
        assert_eq!(answers, vec![Ok(()); 25]);
        let counts: Vec<_> = cloud.journal().iter().map(|call| call.entries.len()).collect();
        assert_eq!((counts, cloud.peak()), (vec![10, 10, 5], 3));
    }

    #[tokio::test]
    async fn nothing_to_hide_costs_no_call() {
        let cloud = TestAccount::new();
        assert_eq!(hide(&cloud.clients().sqs, &arn(DLQ), &[], in_time()).await, []);
        assert_eq!(cloud.journal(), []);
    }

    #[tokio::test]
    async fn failed_and_missing_entries_are_read_one_by_one() {
        let cloud = in_flight(5);
        let quoting = "The input receipt handle is not a valid receipt handle.";
        let fates = vec![
            (0, EntryFault::sender("NewRefusal", quoting)),
            (2, EntryFault::service("InternalError", "oh")),
            (3, EntryFault::Missing),
        ];
        cloud.reply("ChangeMessageVisibilityBatch", SimFault::Entries(fates));
        let handles = handles(5);
        let answers = hide(&cloud.clients().sqs, &arn(DLQ), &hidings(&handles), in_time()).await;
        let failure = |class, code: &str| {
            Err(Failure { class, code: code.to_owned(), message: None, retry_after: None })
        };
        assert_eq!(
            answers,
            [
                failure(FailureClass::ActionRequired, "NewRefusal"),
                Ok(()),
                failure(FailureClass::Transient, "InternalError"),
                failure(FailureClass::Transient, "NoAnswer"),
                Ok(()),
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_keeps_none_of_the_others() {
        let cloud = in_flight(25);
        cloud.script(|call| {
            if call.entries_with("handle-12").is_empty() { SimFault::Pass } else { SimFault::HangBefore }
        });
        let handles = handles(25);
        let until = Instant::now() + Duration::from_secs(1);
        let answers = hide(&cloud.clients().sqs, &arn(DLQ), &hidings(&handles), until).await;
        assert_eq!(answers[..10], vec![Ok(()); 10]);
        assert_eq!(answers[10..20], vec![Err(late()); 10]);
        assert_eq!(answers[20..], vec![Ok(()); 5]);
    }
}

mod values {
    use super::*;

    /// There are three retries without delay. A visibility of 0 brings the letter back for the next one at
    /// once.
    #[tokio::test]
    async fn a_letter_whose_next_retry_is_immediate_is_shown_at_once() {
        let schedule =
            json!({ "minDelayTarget": 60, "maxDelayTarget": 60, "numRetries": 4, "numNoDelayRetries": 3 });
        let policy =
            json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } } });
        let world = broken(&policy);
        for (receive, seconds) in [(1, 0), (2, 0), (3, 60)] {
            let ran = world.run([&RecordBuilder::envelope("a").received(receive)]).await;
            let due = at(NOW + seconds * 1000).to_string();
            assert_eq!(wait(&ran, "a"), json!(["deferred", "failed", receive, seconds, due]));
            assert_eq!(world.cloud.hidden()["handle-a"], seconds);
            assert_eq!(ran.kept, ["a"]);
        }
    }

    #[tokio::test]
    async fn ten_deferred_letters_cost_one_send_and_one_change_of_visibility() {
        let world = broken(&linear(60, 60, 3));
        let posts: Vec<_> =
            (0..10).map(|n| RecordBuilder::envelope(&format!("m{n}")).sent(NOW - 60_000)).collect();
        let ran = world.run(&posts).await;
        assert_eq!(ran.kept, posts.iter().map(|post| post.id.as_str()).collect::<Vec<_>>());
        assert_eq!(
            world.cloud.summary(),
            [
                "GetQueueAttributes payments-dlq".to_owned(),
                format!("GetSubscriptionAttributes {SUBSCRIPTION}"),
                "SendMessageBatch payments-worker 10".to_owned(),
                "ChangeMessageVisibilityBatch payments-dlq 10".to_owned(),
            ]
        );
    }

    #[tokio::test]
    async fn a_letter_that_comes_too_early_is_hidden_until_it_is_due_and_not_tried() {
        let world = broken(&linear(60, 60, 3));
        world.pass(20);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(wait(&ran, "a"), json!(["deferred", "early", null, 40, at(NOW + 60_000).to_string()]));
        assert_eq!(world.cloud.hidden()["handle-a"], 40);
        assert_eq!(world.cloud.calls("SendMessageBatch"), []);
    }

    /// Part of a second is rounded up. If a letter were shown too early, it would be hidden again.
    #[tokio::test]
    async fn a_wait_is_rounded_up_to_whole_seconds() {
        let world = broken(&linear(60, 60, 3));
        world.set_now(NOW + 20_001);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.letter("a")["delay_s"], 40);
        world.set_now(NOW + 19_999);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.letter("a")["delay_s"], 41);
    }

    #[tokio::test]
    async fn no_letter_is_hidden_for_longer_than_the_ceiling_below_sqs_limit() {
        // Retry 1 is in 14 hours, which is longer than SQS can hide a letter at once.
        let world = broken(&linear(50_400, 50_400, 3));
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        let due = at(NOW + 50_400_000).to_string();
        assert_eq!(wait(&ran, "a"), json!(["deferred", "early", null, 41_400, due]));
        assert_eq!(world.cloud.hidden()["handle-a"], 41_400);

        world.pass(41_400);
        let ran = world.run([&RecordBuilder::envelope("a").received(2)]).await;
        assert_eq!(wait(&ran, "a"), json!(["deferred", "early", null, 9_000, due]));
        assert_eq!(world.cloud.calls("SendMessageBatch"), []);

        world.pass(9_000);
        let ran = world.run([&RecordBuilder::envelope("a").received(3)]).await;
        assert_eq!(ran.letter("a")["retry.number"], 1);
        assert_eq!(world.cloud.calls("SendMessageBatch").len(), 1);
    }

    /// Its age would give it the last retry only.
    #[tokio::test]
    async fn a_letter_of_a_backlog_has_its_whole_schedule_from_the_time_that_is_set() {
        let policy = linear(60, 60, 3).to_string();
        let from = at(NOW).to_string();
        let world = FunctionWorld::new(&[("REDRIVE_POLICY", &policy), ("SCHEDULE_FROM", &from)]);
        world.cloud.reply("SendMessageBatch", SimFault::refuse(503, "ServiceUnavailable", "oh"));
        let due = |seconds: i64| at(NOW + seconds * 1000).to_string();
        let expected = [
            (0, json!(["deferred", "early", null, 60, due(60)])),
            (60, json!(["deferred", "failed", 1, 60, due(120)])),
            (120, json!(["deferred", "failed", 2, 60, due(180)])),
            (180, json!(["archived", "exhausted", 3, null, null])),
        ];
        for (receive, (seconds, expected)) in (40..).zip(expected) {
            world.set_now(NOW + seconds * 1000);
            let post = RecordBuilder::envelope("a").sent(NOW - 86_400_000).received(receive);
            assert_eq!(wait(&world.run([&post]).await, "a"), expected, "after {seconds} s");
        }
    }

    /// With a wait of 25 s and a ceiling of 10 s there are three receives between two attempts, two of which
    /// are hops.
    #[tokio::test]
    async fn a_wait_longer_than_the_ceiling_is_made_in_hops_without_attempts() {
        let schedule =
            json!({ "minDelayTarget": 25, "maxDelayTarget": 25, "numRetries": 3, "numNoDelayRetries": 1 });
        let policy =
            json!({ "default": { "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } } });
        let world =
            FunctionWorld::new(&[("REDRIVE_POLICY", &policy.to_string()), ("MAX_HIDE_SECONDS", "10")]);
        world.cloud.reply("SendMessageBatch", SimFault::refuse(503, "ServiceUnavailable", "oh"));
        let due = |seconds: i64| at(NOW + seconds * 1000).to_string();
        let expected = [
            (0, json!(["deferred", "failed", 1, 10, due(25)])),
            (10, json!(["deferred", "hop", null, 10, due(25)])),
            (20, json!(["deferred", "hop", null, 5, due(25)])),
            (25, json!(["deferred", "failed", 2, 10, due(50)])),
            (35, json!(["deferred", "hop", null, 10, due(50)])),
            (45, json!(["deferred", "hop", null, 5, due(50)])),
            (50, json!(["archived", "exhausted", 3, null, null])),
        ];
        for (receive, (second, expected)) in (1..).zip(expected) {
            world.set_now(NOW + second * 1000);
            let ran = world.run([&RecordBuilder::envelope("a").received(receive)]).await;
            assert_eq!(wait(&ran, "a"), expected, "receive {receive} at {second} s");
            if let Some(seconds) = expected[3].as_i64() {
                assert_eq!(world.cloud.hidden()["handle-a"], seconds);
            }
        }
        assert_eq!(world.cloud.calls("SendMessageBatch").len(), 3);
    }

    #[tokio::test]
    async fn a_held_rule_hides_for_as_long_as_possible_and_touches_nothing() {
        let world = FunctionWorld::with_policy(&json!({ "default": { "action": "hold" } }));
        let ran = world.run([&RecordBuilder::envelope("a"), &RecordBuilder::raw("r", "x")]).await;
        let due = at(NOW + 41_400_000).to_string();
        for id in ["a", "r"] {
            assert_eq!(wait(&ran, id), json!(["deferred", "hold", null, 41_400, due]));
        }
        assert_eq!(ran.kept, ["a", "r"]);
        assert_eq!(
            world.cloud.summary(),
            ["GetQueueAttributes payments-dlq", "ChangeMessageVisibilityBatch payments-dlq 2"]
        );
    }
}

mod failures {
    use super::*;

    #[tokio::test]
    async fn a_wait_beyond_sqs_limit_is_told_by_a_code_of_its_own() {
        let world = FunctionWorld::with_policy(&linear(60, 60, 3));
        let limit = "Value 43201 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout \
                     for the message is beyond the limit [43200 seconds].";
        world.cloud.script(move |call| match call.operation.as_str() {
            "ChangeMessageVisibilityBatch" => {
                SimFault::except(call, "handle-a", EntryFault::sender("InvalidParameterValue", limit))
            }
            _ => SimFault::Pass,
        });
        let ran = world.run([&RecordBuilder::envelope("a"), &RecordBuilder::envelope("b")]).await;
        assert_eq!(ran.outcomes(), ["a failed hide", "b deferred early"]);
        assert_eq!(ran.letter("a")["undone.code"], "BeyondTheLimit");
        assert_eq!(ran.kept, ["a", "b"], "it comes back by the queue's own visibility timeout");
    }

    /// The letter comes back after the queue's own visibility timeout, so it must not be deleted.
    #[tokio::test]
    async fn a_letter_that_could_not_be_hidden_is_reported_as_failed_and_logged() {
        for (reply, code, class) in [
            (SimFault::refuse(403, "AccessDenied", "no"), "AccessDenied", "action_required"),
            (SimFault::refuse(403, "RequestThrottled", "no"), "RequestThrottled", "throttling"),
            (SimFault::refuse(500, "InternalError", "no"), "InternalError", "transient"),
            (SimFault::Nonsense(200, "{".to_owned()), "Http200", "transient"),
            (SimFault::Nonsense(200, "{}".to_owned()), "NoAnswer", "transient"),
            (SimFault::ResetBefore, "Unreachable", "transient"),
            (SimFault::ConnectTimeout, "Timeout", "transient"),
        ] {
            let world = FunctionWorld::with_policy(&linear(60, 60, 3));
            world.cloud.reply("ChangeMessageVisibilityBatch", reply);
            let ran = world.run([&RecordBuilder::envelope("a"), &RecordBuilder::envelope("b")]).await;
            assert_eq!(ran.outcomes(), ["a failed hide", "b failed hide"], "{code}");
            assert_eq!(ran.kept, ["a", "b"]);
            for id in ["a", "b"] {
                let told = ran.log.iter().filter(|line| line["sqs.message_id"] == id);
                let told: Vec<_> = told
                    .map(|line| {
                        json!([line["level"], line["reason"], line["undone.code"], line["undone.class"]])
                    })
                    .collect();
                assert_eq!(told, [json!(["ERROR", "hide", code, class])]);
            }
        }
    }

    #[tokio::test]
    async fn one_letter_that_could_not_be_hidden_is_none_of_the_others() {
        let world = FunctionWorld::with_policy(&linear(60, 60, 3));
        let disposition = EntryFault::sender("AccessDenied", "no");
        world.cloud.script(move |call| SimFault::except(call, "handle-b", disposition.clone()));
        let ran = world
            .run([
                &RecordBuilder::envelope("a"),
                &RecordBuilder::envelope("b"),
                &RecordBuilder::envelope("c"),
            ])
            .await;
        assert_eq!(ran.outcomes(), ["a deferred early", "b failed hide", "c deferred early"]);
        assert_eq!(ran.kept, ["a", "b", "c"]);
        assert_eq!(world.cloud.hidden().into_keys().collect::<Vec<_>>(), ["handle-a", "handle-c"]);
    }

    /// An operator looks for the first failure.
    #[tokio::test]
    async fn a_letter_whose_delivery_failed_too_tells_both_failures() {
        let world = FunctionWorld::with_policy(&linear(60, 60, 3));
        world.cloud.script(|call| match call.operation.as_str() {
            "SendMessageBatch" => SimFault::ResetBefore,
            "ChangeMessageVisibilityBatch" => SimFault::refuse(403, "AccessDenied", "no"),
            _ => SimFault::Pass,
        });
        let ran = world.run([&RecordBuilder::envelope("a").sent(NOW - 60_000)]).await;
        assert_eq!(ran.outcomes(), ["a failed hide"]);
        assert_eq!(ran.letter("a")["error.code"], "Unreachable");
        assert_eq!(ran.letter("a")["undone.code"], "AccessDenied");
    }
}

/// The receive of a letter can be over before the letter is hidden.
mod over {
    use super::*;

    /// Returns a world in which this happens to the account while letters are sent, which fails.
    fn while_sending(meanwhile: impl Fn(&TestAccount) + Send + Sync + 'static) -> FunctionWorld {
        let world = FunctionWorld::with_policy(&linear(60, 60, 3));
        let account = world.cloud.clone();
        world.cloud.script(move |call| {
            if call.operation != "SendMessageBatch" {
                return SimFault::Pass;
            }
            meanwhile(&account);
            SimFault::refuse(503, "ServiceUnavailable", "oh")
        });
        world
    }

    fn due(id: &str) -> RecordBuilder {
        RecordBuilder::envelope(id).sent(NOW - 60_000)
    }

    /// Returns what the log and the metrics say of a letter that nobody has to mend.
    fn told(ran: &TestInvocation, id: &str) -> Value {
        let (line, metrics) = (ran.letter(id), ran.metrics());
        json!([
            [line["level"], line["outcome"], line["reason"], line["undone.code"], line["error.code"]],
            [metrics["LettersFailed"], metrics["LettersStuck"], metrics["FailuresActionRequired"]],
        ])
    }

    /// SQS hands a letter out twice. One copy is delivered and deleted while the attempt of the other fails.
    #[tokio::test]
    async fn a_duplicate_whose_other_copy_was_delivered_is_gone_and_not_stuck() {
        let world = while_sending(|account| {
            let delete = |it: &mut redrive_sim::Services, cx: &mut redrive_sim::SimContext<'_>| {
                it.sqs.delete_message(cx, "payments-dlq", "handle-a")
            };
            account.aws.act("mapping", delete).unwrap();
        });
        let ran = world.run([&due("a"), &due("b")]).await;
        assert_eq!(ran.outcomes(), ["a failed receive_over", "b deferred failed"]);
        let code = "ServiceUnavailable";
        let line = json!(["INFO", "failed", "receive_over", "MessageGone", code]);
        assert_eq!(told(&ran, "a"), json!([line, [1, null, null]]));
        assert_eq!(ran.kept, ["a", "b"], "only what is safe elsewhere is left out");
        assert!(!ran.text.contains("handle-a"), "{}", ran.text);
    }

    /// A FIFO queue refuses a handle whose message has shown again, a standard queue one whose message is gone. SQS's
    /// codes in batch answers are not recorded, so code and text are each enough.
    #[tokio::test]
    async fn a_letter_whose_handle_is_refused_is_not_stuck() {
        let expired =
            "Value S3CR3T for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.";
        for (code, text) in [
            ("ReceiptHandleIsInvalid", "other words"),
            ("AWS.SimpleQueueService.MessageNotInflight", "other words"),
            ("InvalidParameterValue", expired),
        ] {
            let of_group = RecordBuilder::envelope("a").topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
            let of_group = of_group.queue(FIFO_DLQ).group("g");
            for (queue, post) in [("FIFO", of_group), ("standard", RecordBuilder::envelope("a"))] {
                let world = FunctionWorld::with_policy(&linear(60, 60, 3));
                world.cloud.reply(
                    "ChangeMessageVisibilityBatch",
                    SimFault::Entries(vec![(0, EntryFault::sender(code, text))]),
                );
                let ran = world.run([&post.sent(NOW - 30_000)]).await;
                let line = json!(["INFO", "failed", "receive_over", "HandleExpired", null]);
                assert_eq!(told(&ran, "a"), json!([line, [1, null, null]]), "{queue}: {code}");
                assert!(!ran.text.contains("S3CR3T"), "{}", ran.text);
            }
        }
    }

    /// The other copy has its own time, and nobody has to mend anything.
    #[tokio::test]
    async fn a_letter_that_is_gone_expires_no_more_and_is_no_failure_for_good() {
        let world = while_sending(|account| {
            let delete = |it: &mut redrive_sim::Services, cx: &mut redrive_sim::SimContext<'_>| {
                it.sqs.delete_message(cx, "payments-dlq", "handle-a")
            };
            account.aws.act("mapping", delete).unwrap();
        });
        let ran = world.run([&due("a")]).await;
        assert_eq!(ran.outcomes(), ["a failed receive_over"]);
        let metrics = ran.metrics();
        assert_eq!(metrics.get("FailuresPermanent"), None);
        assert_eq!(metrics["FailuresTransient"], 1, "that of the attempt counts");
        assert_eq!(metrics.get("SecondsToExpiry"), None);
        let stays = FunctionWorld::with_policy(&linear(60, 60, 3)).run([&due("a").sent(NOW)]).await;
        assert!(stays.metrics()["SecondsToExpiry"].is_u64());
    }

    /// Neither is one that the archive did not take.
    #[tokio::test]
    async fn a_letter_that_is_gone_needs_no_archive() {
        let gone = "Reason: Message does not exist or is not available for visibility timeout change.";
        let is_gone = move |call: &SimCall| match call.operation.as_str() {
            "ChangeMessageVisibilityBatch" => {
                SimFault::except(call, "handle-a", EntryFault::sender("InvalidParameterValue", gone))
            }
            "PutObject" => SimFault::refuse(403, "AccessDenied", "no"),
            _ => SimFault::Pass,
        };
        let world = FunctionWorld::with_policy(&json!({ "default": { "action": "archive" } }));
        world.cloud.script(is_gone);
        let ran = world.run([&RecordBuilder::envelope("a"), &RecordBuilder::envelope("b")]).await;
        assert_eq!(ran.outcomes(), ["a failed receive_over", "b failed archive"]);
        assert_eq!(ran.metrics()["LettersStuck"], 1);
        assert_eq!(ran.kept, ["a", "b"]);
    }
}

mod time {
    use std::sync::Arc;

    use super::*;

    /// A slow delivery must not make the other letters of the batch wake late, because P4's margin counts
    /// from the decision.
    #[tokio::test]
    async fn what_deliveries_took_is_no_part_of_the_wait_of_others() {
        let world = Arc::new(FunctionWorld::with_policy(&linear(60, 60, 3)));
        let clock = Arc::clone(&world);
        world.cloud.script(move |call| {
            if call.operation == "SendMessageBatch" {
                clock.pass(50);
            }
            SimFault::Pass
        });
        let early = RecordBuilder::envelope("early").sent(NOW);
        let due = RecordBuilder::envelope("due").sent(NOW - 60_000);
        let ran = world.run([&early, &due]).await;
        assert_eq!(ran.outcomes(), ["early deferred early", "due delivered"]);
        assert_eq!(world.cloud.hidden(), [("handle-early".to_owned(), 10)].into());
    }

    #[tokio::test]
    async fn a_wait_that_deliveries_outlasted_ends_at_once() {
        let world = Arc::new(FunctionWorld::with_policy(&linear(60, 60, 3)));
        let clock = Arc::clone(&world);
        world.cloud.script(move |call| {
            if call.operation == "SendMessageBatch" {
                clock.pass(70);
            }
            SimFault::Pass
        });
        let ran = world
            .run([
                &RecordBuilder::envelope("early").sent(NOW),
                &RecordBuilder::envelope("due").sent(NOW - 60_000),
            ])
            .await;
        assert_eq!(ran.outcomes(), ["early deferred early", "due delivered"]);
        assert_eq!(world.cloud.hidden(), [("handle-early".to_owned(), 0)].into());
    }
}

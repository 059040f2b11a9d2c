//! P8: what is told, and what never is.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sns_redrive::telemetry::{LogFormat, subscriber};
use support::*;
use tracing_subscriber::filter::LevelFilter;

/// The line without its time, which is the machine's.
fn untimed(line: &Value) -> Value {
    let mut line = line.clone();
    let time = line.as_object_mut().unwrap().remove("timestamp").unwrap();
    let time: Result<jiff::Timestamp, _> = time.as_str().unwrap().parse();
    assert!(time.is_ok(), "RFC 3339, as Lambda wants it");
    if let Some(took) = line.as_object_mut().unwrap().remove("attempt_ms") {
        assert!(took.is_u64() && line.get("retry.number").is_some(), "the time of an attempt: {line}");
    }
    line
}

/// The line of the only letter.
async fn line(world: &World, post: &Post) -> Value {
    let ran = world.run([post]).await;
    untimed(ran.letter(&post.id))
}

fn policy(default: &Value) -> Value {
    json!({ "default": default })
}

mod lines {
    use super::*;

    #[tokio::test]
    async fn of_a_delivered_letter() {
        assert_eq!(
            line(&World::new(&[]), &Post::envelope("a")).await,
            json!({
                "level": "INFO",
                "message": "letter",
                "request_id": "req-1",
                "outcome": "delivered",
                "letter.id": letter_id("a"),
                "letter.origin": "sns",
                "sqs.message_id": "a",
                "sqs.receive_count": 1,
                "queue.arn": DLQ,
                "topic.arn": TOPIC,
                "subscription.arn": SUBSCRIPTION,
                "target.arn": WORKER,
                "rule": "default",
                "retry.number": 1,
                "retry.of": 12,
                "retry.phase": "immediate",
            })
        );
    }

    #[tokio::test]
    async fn of_a_letter_deferred_after_a_failed_attempt() {
        let schedule = json!({ "minDelayTarget": 60, "maxDelayTarget": 120, "numRetries": 3 });
        let world = World::with_policy(&json!({
            "default": { "jitter": 0 },
            "rules": [{
                "name": "slowly",
                "match": { "messageAttributes": { "tenant": ["gold"] } },
                "deliveryPolicy": { "healthyRetryPolicy": schedule },
            }],
        }));
        world.cloud.reply("SendMessageBatch", Reply::Fail(403, "AccessDenied", "not sqs:SendMessage"));
        let post = Post::envelope("a").sns_attribute("tenant", "String", "gold").sent(NOW - 60_000);
        assert_eq!(
            line(&world, &post).await,
            json!({
                "level": "INFO",
                "message": "letter",
                "request_id": "req-1",
                "outcome": "deferred",
                "reason": "failed",
                "letter.id": letter_id("a"),
                "letter.origin": "sns",
                "sqs.message_id": "a",
                "sqs.receive_count": 1,
                "queue.arn": DLQ,
                "topic.arn": TOPIC,
                "subscription.arn": SUBSCRIPTION,
                "target.arn": WORKER,
                "rule": "slowly",
                "retry.number": 1,
                "retry.of": 3,
                "retry.phase": "backoff",
                "delay_s": 90,
                "due": "2026-11-01T12:01:30Z",
                "detail": "the function's role or the target's policy does not allow it",
                "error.code": "AccessDenied",
                "error.class": "action_required",
                "error.message": "not sqs:SendMessage",
            })
        );
    }

    #[tokio::test]
    async fn of_a_letter_deferred_without_an_attempt() {
        let world = World::with_policy(&policy(&json!({ "jitter": 0 })));
        let post = Post::envelope("a").mark(&mark(2, "life-long-id", NOW)).received(2);
        assert_eq!(
            line(&world, &post).await,
            json!({
                "level": "INFO",
                "message": "letter",
                "request_id": "req-1",
                "outcome": "deferred",
                "reason": "early",
                "letter.id": "life-long-id",
                "letter.origin": "sns",
                "sqs.message_id": "a",
                "sqs.receive_count": 2,
                "queue.arn": DLQ,
                "topic.arn": TOPIC,
                "subscription.arn": SUBSCRIPTION,
                "rule": "default",
                "delay_s": 60,
                "due": "2026-11-01T12:01:00Z",
            })
        );
    }

    #[tokio::test]
    async fn of_an_archived_letter() {
        let world = World::new(&[]);
        world.cloud.reply("SendMessageBatch", Reply::Fail(400, "InvalidMessageContents", "quotes the body"));
        assert_eq!(
            line(&world, &Post::envelope("a")).await,
            json!({
                "level": "WARN",
                "message": "letter",
                "request_id": "req-1",
                "outcome": "archived",
                "reason": "permanent",
                "letter.id": letter_id("a"),
                "letter.origin": "sns",
                "sqs.message_id": "a",
                "sqs.receive_count": 1,
                "queue.arn": DLQ,
                "topic.arn": TOPIC,
                "subscription.arn": SUBSCRIPTION,
                "target.arn": WORKER,
                "rule": "default",
                "retry.number": 1,
                "retry.of": 12,
                "retry.phase": "immediate",
                "error.code": "InvalidMessageContents",
                "error.class": "permanent",
            })
        );
        assert_eq!(
            line(&World::new(&[]), &Post::raw("r", "x")).await,
            json!({
                "level": "WARN",
                "message": "letter",
                "request_id": "req-1",
                "outcome": "archived",
                "reason": "unrecognised",
                "detail": "names no subscription",
                "letter.id": "r",
                "letter.origin": "raw",
                "sqs.message_id": "r",
                "sqs.receive_count": 1,
                "queue.arn": DLQ,
                "rule": "default",
            })
        );
    }

    #[tokio::test]
    async fn of_a_held_letter_and_of_one_that_time_ran_out_for() {
        let world = World::new(&[]).with_time(std::time::Duration::ZERO);
        let posts = ["a", "b"].map(|id| {
            Post::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group("g")
        });
        let ran = world.run(&posts).await;
        let expected = |id: &str| {
            json!({
                "message": "letter",
                "request_id": "req-1",
                "letter.id": format!("sns-{id}/{FIFO_SUBSCRIPTION}"),
                "letter.origin": "sns",
                "sqs.message_id": id,
                "sqs.receive_count": 1,
                "queue.arn": FIFO_DLQ,
                "topic.arn": FIFO_TOPIC,
                "subscription.arn": FIFO_SUBSCRIPTION,
            })
        };
        let with = |mut line: Value, more: Value| {
            line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            line
        };
        let late =
            json!({ "level": "ERROR", "outcome": "failed", "reason": "out_of_time", "rule": "default" });
        assert_eq!(untimed(ran.letter("a")), with(expected("a"), late));
        let held = json!({ "level": "INFO", "outcome": "held", "rule": "default" });
        assert_eq!(untimed(ran.letter("b")), with(expected("b"), held));
    }

    #[tokio::test]
    async fn of_a_letter_that_could_not_be_archived_and_why() {
        let world = World::new(&[]);
        world.cloud.reply("PutObject", Reply::Fail(403, "AccessDenied", "no s3:PutObject"));
        let ran = world.run([&Post::raw("r", "x")]).await;
        let lines: Vec<_> = ran.log.iter().map(untimed).collect();
        assert_eq!(
            lines,
            [json!({
                "level": "ERROR",
                "message": "letter",
                "request_id": "req-1",
                "outcome": "failed",
                "reason": "archive",
                "detail": "names no subscription",
                "delay_s": 1,
                "letter.id": "r",
                "letter.origin": "raw",
                "sqs.message_id": "r",
                "sqs.receive_count": 1,
                "queue.arn": DLQ,
                "rule": "default",
                "undone.code": "AccessDenied",
                "undone.class": "action_required",
                "undone.message": "no s3:PutObject",
            }),]
        );
    }

    #[tokio::test]
    async fn of_observed_letters() {
        let world =
            World::new(&[("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", r#"{"default": {"jitter": 0}}"#)]);
        let early = Post::envelope("early").mark(&mark(2, "early", NOW));
        let ran = world.run([&Post::envelope("due"), &early, &Post::raw("r", "x")]).await;
        let common = |id: &str, letter: &str| {
            json!({
                "level": "INFO",
                "message": "letter",
                "request_id": "req-1",
                "outcome": "observed",
                "letter.id": letter,
                "letter.origin": "sns",
                "sqs.message_id": id,
                "sqs.receive_count": 1,
                "queue.arn": DLQ,
                "topic.arn": TOPIC,
                "subscription.arn": SUBSCRIPTION,
                "rule": "default",
            })
        };
        let mut due = common("due", &letter_id("due"));
        due["decision"] = json!("deliver");
        due["retry.number"] = json!(1);
        due["retry.of"] = json!(12);
        due["retry.phase"] = json!("immediate");
        let mut early = common("early", "early");
        early["decision"] = json!("defer");
        early["reason"] = json!("early");
        early["delay_s"] = json!(60);
        early["due"] = json!("2026-11-01T12:01:00Z");
        let raw = json!({
            "level": "INFO",
            "message": "letter",
            "request_id": "req-1",
            "outcome": "observed",
            "decision": "archive",
            "reason": "unrecognised",
            "letter.id": "r",
            "letter.origin": "raw",
            "sqs.message_id": "r",
            "sqs.receive_count": 1,
            "queue.arn": DLQ,
            "rule": "default",
        });
        assert_eq!(ran.log.iter().map(untimed).collect::<Vec<_>>(), [due, early, raw]);
    }

    #[tokio::test]
    async fn of_a_queue_that_does_not_tell_its_attributes() {
        let world = World::new(&[]);
        world.cloud.reply("GetQueueAttributes", Reply::Fail(403, "AccessDenied", "no"));
        let ran = world.run([&Post::envelope("a")]).await;
        let told = untimed(&ran.log[0]);
        assert_eq!(
            [&told["level"], &told["queue.arn"], &told["error.code"], &told["error.class"]],
            [&json!("WARN"), &json!(DLQ), &json!("AccessDenied"), &json!("action_required")]
        );
        assert_eq!(ran.log.len(), 2);
    }

    #[tokio::test]
    async fn each_origin_has_its_name() {
        let origins: Vec<_> = {
            let ran =
                World::with_policy(&json!({ "origins": every_origin() })).run_event(&sample("mixed")).await;
            ran.letters().into_iter().map(|line| line["letter.origin"].clone()).collect()
        };
        let expected = ["sns", "sns", "raw", "lambda-async", "lambda-destination", "sqs", "eventbridge"];
        assert_eq!(origins[..7], expected.map(Value::from));
    }

    /// `AWS_LAMBDA_LOG_LEVEL=WARN` silences what went well, and no metric.
    #[tokio::test]
    async fn a_higher_level_leaves_lines_out_and_metrics_in() {
        let world = World::new(&[]).log_level(LevelFilter::WARN);
        let ran = world.run([&Post::envelope("a"), &Post::raw("r", "x")]).await;
        let told: Vec<_> = ran.log.iter().map(|line| line["sqs.message_id"].clone()).collect();
        assert_eq!(told, ["r"]);
        assert_eq!(ran.metrics()["LettersReceived"], 2);
    }
}

mod metrics {
    use super::*;

    fn units() -> Value {
        let counts = [
            "LettersReceived",
            "LettersArrived",
            "LettersDelivered",
            "LettersDeferred",
            "LettersHeld",
            "LettersFailed",
            "LettersRequeued",
            "LettersObserved",
            "LettersArchived",
            "ArchivedExhausted",
            "ArchivedExpiring",
            "ArchivedRule",
            "ArchivedUnrecognised",
            "ArchivedUndeliverableProtocol",
            "ArchivedRefused",
            "ArchivedPermanent",
            "ArchivedUnmarkable",
            "ArchivedReturned",
            "ArchivedLoop",
            "ArchiveRefusals",
            "FailuresThrottling",
            "FailuresTransient",
            "FailuresPermanent",
            "FailuresActionRequired",
            "LettersInFlight",
            "HighestRetry",
        ];
        let mut metrics: Vec<_> =
            counts.iter().map(|name| json!({ "Name": name, "Unit": "Count" })).collect();
        metrics.push(json!({ "Name": "SecondsToExpiry", "Unit": "Seconds" }));
        metrics.push(json!({ "Name": "Duration", "Unit": "Milliseconds" }));
        Value::Array(metrics)
    }

    /// What every object has, zeros and all; `changes` are what differs.
    fn object(namespace: &str, queue: &str, changes: &Value) -> Value {
        let mut object = json!({
            "_aws": {
                "CloudWatchMetrics": [{
                    "Namespace": namespace,
                    "Dimensions": [["Queue"]],
                    "Metrics": units(),
                }],
                "Timestamp": NOW,
            },
            "Queue": queue,
            "timestamp": "2026-11-01T12:00:00Z",
            "level": "INFO",
            "request_id": "req-1",
        });
        for metric in units().as_array().unwrap() {
            object[metric["Name"].as_str().unwrap()] = json!(0);
        }
        object.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        object
    }

    #[tokio::test]
    async fn one_object_per_invocation_holds_every_metric_with_its_unit() {
        let world = World::with_policy(&json!({ "origins": every_origin() }));
        let ran = world.run_event(&sample("mixed")).await;
        assert!(ran.metrics.ends_with("}\n"));
        assert_eq!(
            ran.metrics(),
            object(
                "SnsRedrive",
                "orders-dlq",
                &json!({
                    "LettersReceived": 10,
                    "LettersArrived": 7,
                    "LettersDelivered": 5,
                    "LettersDeferred": 1,
                    "LettersArchived": 4,
                    "ArchivedExhausted": 1,
                    "ArchivedUnrecognised": 3,
                    "LettersInFlight": 1,
                    "HighestRetry": 2,
                    // The one that stays is ten seconds old, of 14 days.
                    "SecondsToExpiry": 1_209_600 - 10,
                })
            )
        );
    }

    #[tokio::test]
    async fn held_failed_deferred_and_observed_letters_are_counted() {
        let world = World::new(&[("METRICS_NAMESPACE", "Shop/Letters")]);
        world.cloud.script(|call| match call.op.as_str() {
            "SendMessageBatch" => Reply::Reset,
            "ChangeMessageVisibilityBatch" => call.except("handle-b1", EntryFate::Missing),
            _ => Reply::Accept,
        });
        let posts = ["a1", "a2", "b1", "c1"].map(|id| {
            let post = Post::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
            post.queue(FIFO_DLQ).group(&id[..1])
        });
        assert_eq!(
            world.run(&posts).await.metrics(),
            object(
                "Shop/Letters",
                "orders-dlq.fifo",
                &json!({
                    "LettersReceived": 4,
                    "LettersArrived": 4,
                    "LettersDeferred": 2,
                    "LettersHeld": 1,
                    "LettersFailed": 1,
                    "LettersInFlight": 3,
                    "FailuresTransient": 3,
                    "HighestRetry": 1,
                    "SecondsToExpiry": 1_209_600,
                })
            )
        );
        let world = World::new(&[("REDRIVE_MODE", "observe")]);
        assert_eq!(
            world.run([&Post::envelope("a")]).await.metrics(),
            object(
                "SnsRedrive",
                "orders-dlq",
                &json!({
                    "LettersReceived": 1,
                    "LettersArrived": 1,
                    "LettersObserved": 1,
                    "SecondsToExpiry": 1_209_600,
                })
            )
        );
    }

    #[tokio::test]
    async fn a_letter_arrives_once() {
        let arrived =
            async |post: Post| World::new(&[]).run([&post]).await.metrics()["LettersArrived"].clone();
        assert_eq!(arrived(Post::envelope("a")).await, 1);
        assert_eq!(arrived(Post::envelope("a").received(2)).await, 0);
        assert_eq!(arrived(Post::envelope("a").mark(&mark(1, "x", NOW))).await, 0);
        // SQS keeps the count: three receives were those of the source queue.
        assert_eq!(arrived(Post::envelope("a").moved_from(BILLING).received(4)).await, 1);
        assert_eq!(arrived(Post::envelope("a").moved_from(BILLING).received(5)).await, 0);
    }

    #[tokio::test]
    async fn a_letter_past_its_end_has_no_time_left() {
        let observing = World::new(&[("REDRIVE_MODE", "observe")]);
        let ran = observing.run([&Post::envelope("a").sent(NOW - 15 * 86_400_000)]).await;
        assert_eq!(ran.metrics()["SecondsToExpiry"], 0);
    }

    #[tokio::test]
    async fn the_time_of_an_attempt_is_told() {
        let world = World::new(&[]);
        world.cloud.reply("SendMessageBatch", Reply::Slow(std::time::Duration::from_millis(50)));
        let ran = world.run([&Post::envelope("a"), &Post::raw("b", "x")]).await;
        let took = ran.letter("a")["attempt_ms"].as_u64().unwrap();
        assert!((50..1_000).contains(&took), "{took}");
        assert_eq!(ran.letter("b").get("attempt_ms"), None);
    }

    #[tokio::test]
    async fn what_has_left_its_queue_does_not_expire() {
        let ran = World::new(&[]).run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(ran.metrics().get("SecondsToExpiry"), None);
    }

    /// Nobody knows how often it was received before SQS moved it: rather an arrival too many.
    #[tokio::test]
    async fn a_moved_letter_of_a_source_that_does_not_tell_its_count_is_an_arrival() {
        let world = World::new(&[]);
        world.cloud.queue("orders-billing", &[("MessageRetentionPeriod", "345600")]);
        let ran = world.run([&Post::envelope("a").moved_from(BILLING).received(9)]).await;
        assert_eq!(ran.metrics()["LettersArrived"], 1);
    }
}

/// Not in a log, not in a metric, at no level, whatever fails.
mod secrets {
    use super::*;

    /// Stands in bodies, values, receipt handles and links.
    const SECRET: &str = "S3CR3T";

    fn mixed() -> Vec<Post> {
        let binary = "UzNDUjNU";
        let sns = json!({
            "Type": "Notification", "MessageId": "id", "TopicArn": TOPIC, "Subject": SECRET, "Message": SECRET,
            "Timestamp": "2026-11-01T11:59:58.351Z", "UnsubscribeUrl": format!("https://x/?{SECRET}"),
            "MessageAttributes": { "a": { "Type": "String", "Value": SECRET } },
        });
        let lambda = json!({ "Records": [{
            "EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": LAMBDA_SUBSCRIPTION, "Sns": sns,
        }] });
        let destination = json!({
            "requestContext": {
                "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f", "condition": "RetriesExhausted",
            },
            "requestPayload": lambda,
            "responsePayload": { "errorMessage": SECRET, "stackTrace": [SECRET] },
        });
        let envelope = |id: &str| {
            Post::envelope(id)
                .message(&format!("{SECRET} of {id}"))
                .subject(SECRET)
                .subscription(&format!("{SUBSCRIPTION}&Token={SECRET}"))
                .sns_attribute("tenant", "String", SECRET)
                .sns_attribute("checksum", "Binary", binary)
        };
        let rule = "arn:aws:events:eu-central-1:123456789012:rule/r";
        let mut posts = vec![
            envelope("sns"),
            envelope("early").mark(&mark(3, "early", NOW)),
            envelope("exhausted").mark(&mark(12, "exhausted", NOW)),
            envelope("bad-mark").sqs_mark(&json!({ "v": 1, "id": [SECRET], "spent": SECRET })),
            envelope("moved").moved_from(BILLING),
            envelope("other").subscription(BILLING_SUBSCRIPTION),
            Post::raw("raw", SECRET).attribute("a", "String", SECRET).attribute("b", "Binary", binary),
            Post::raw("async", &lambda.to_string())
                .attribute("RequestID", "String", SECRET)
                .attribute("ErrorCode", "Number", "200")
                .attribute("ErrorMessage", "String", SECRET),
            Post::raw("destination", &destination.to_string()),
            Post::raw("eventbridge", SECRET)
                .attribute("RULE_ARN", "String", rule)
                .attribute("TARGET_ARN", "String", "arn:aws:lambda:eu-central-1:123456789012:function:f")
                .attribute("ERROR_MESSAGE", "String", SECRET),
            Post::raw("broken", &format!(r#"{{"Type":"Notification","Message":"{SECRET}"#)),
            (0..10)
                .fold(Post::raw("full", "x"), |post, n| post.attribute(&format!("a{n}"), "String", SECRET)),
        ];
        for post in &mut posts {
            *post = post.clone().system("AWSTraceHeader", SECRET);
        }
        posts
    }

    /// The event, with the secret in every receipt handle.
    fn secret_event(posts: &[Post]) -> Value {
        let mut event = event(posts);
        for record in event["Records"].as_array_mut().unwrap() {
            record["receiptHandle"] = json!(format!("{SECRET}{}", record["messageId"]));
        }
        event
    }

    fn assert_quiet(ran: &Ran, what: &str) {
        for told in [&ran.text, &ran.metrics] {
            for secret in [SECRET, "UzNDUjNU", "Unsubscribe", "Token="] {
                assert!(!told.contains(secret), "{secret} is in the log of {what}: {told}");
            }
        }
        assert!(ran.letters().len() > 1);
    }

    const QUOTES: &str = "Value S3CR3T for parameter ReceiptHandle is invalid";

    #[tokio::test]
    async fn are_in_no_log_line_and_in_no_metric_whatever_happens() {
        let policies = [
            json!({ "default": { "subscription": SUBSCRIPTION } }),
            json!({ "default": { "target": "topic" } }),
            json!({
                "default": { "target": BILLING },
                "rules": [{ "name": "r", "match": { "message": [{ "prefix": "S3" }] }, "action": "hold" }],
            }),
        ]
        .map(|policy| policy.to_string());
        let each =
            |code| Reply::Except((0..10).map(|n| (n, EntryFate::Failed(code, QUOTES, true))).collect());
        for reply in [
            Reply::Accept,
            Reply::Fail(400, "InvalidParameterValue", QUOTES),
            Reply::Fail(400, "ReceiptHandleIsInvalid", QUOTES),
            Reply::Fail(400, "SomethingNew", QUOTES),
            Reply::Fail(400, "Throttling", QUOTES),
            Reply::Fail(500, "InternalError", QUOTES),
            Reply::Nonsense(200, QUOTES),
            Reply::Nonsense(500, QUOTES),
            Reply::Reset,
            Reply::NoConnection,
            each("ReceiptHandleIsInvalid"),
            each("InvalidMessageContents"),
            each("SomethingNew"),
        ] {
            for policy in &policies {
                // Queues and subscriptions answer, or nothing would be sent that could fail.
                let settings = [("REDRIVE_POLICY", policy.as_str())];
                assert_quiet(&run(&settings, |op| !op.starts_with("Get"), &reply).await, "sending");
            }
            assert_quiet(&run(&[], |op| op.starts_with("Get"), &reply).await, "looking up");
        }
        for policy in &policies {
            let settings = [("REDRIVE_POLICY", policy.as_str()), ("REDRIVE_MODE", "observe")];
            assert_quiet(&run(&settings, |_| true, &Reply::Accept).await, "observing");
        }
    }

    /// A run in which these operations get this reply.
    async fn run(settings: &[(&str, &str)], fails: fn(&str) -> bool, reply: &Reply) -> Ran {
        let world = World::new(settings).log_level(LevelFilter::TRACE);
        let reply = reply.clone();
        world.cloud.script(move |call| if fails(&call.op) { reply.clone() } else { Reply::Accept });
        world.run_event(&secret_event(&mixed())).await
    }

    #[tokio::test]
    async fn are_in_no_line_about_an_event_that_is_refused() {
        for field in ["messageId", "receiptHandle", "eventSourceARN"] {
            let mut event = secret_event(&mixed());
            event["Records"][6][field] = json!(null);
            let lines = Arc::new(Mutex::new(Vec::new()));
            let error = {
                let writer = Shared(Arc::clone(&lines));
                let subscriber = subscriber(LogFormat::Json, LevelFilter::TRACE, move || writer.clone());
                let world = World::new(&[]).log_level(LevelFilter::TRACE);
                let error = world.try_event(&event).await.unwrap_err();
                tracing::subscriber::with_default(subscriber, || {
                    sns_redrive::telemetry::bad_event("req-1", &error.to_string());
                });
                error
            };
            let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
            assert_eq!(
                untimed(&serde_json::from_str(&text).unwrap()),
                json!({
                    "level": "ERROR",
                    "message": "bad event",
                    "request_id": "req-1",
                    "detail": format!("Records[6].{field} is missing or has no usable value"),
                })
            );
            assert!(!format!("{error:?}").contains(SECRET));
        }
    }

    /// What may end in a panic message or in a line of somebody else's.
    #[test]
    fn are_not_in_what_debug_shows_of_a_letter() {
        for letter in letters_of(&secret_event(&mixed())) {
            let shown = format!("{letter:?} {letter:#?}");
            for secret in [SECRET, "Unsubscribe", "Token="] {
                assert!(!shown.contains(secret), "{shown}");
            }
        }
    }

    #[derive(Clone)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}

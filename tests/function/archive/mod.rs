//! Archives: nothing that cannot be saved is lost, and all of it can be had back.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use proptest::prelude::*;
use serde_json::{Value, json};
use sns_redrive::archive::{Archive, Batch, Record};
use sns_redrive::batch::ArchiveContext;
use sns_redrive::clients::Clients;
use sns_redrive::delivery::{Dispatcher, Reach};
use sns_redrive::endpoint::Endpoint;
use sns_redrive::failure::{Failure, FailureClass};
use sns_redrive::letter::Letter;
use sns_redrive::policy::{ArchiveReason, Phase, Retry};
use support::*;
use tokio::time::Instant;

const FIFO_ARCHIVE: &str = "arn:aws:sqs:eu-central-1:123456789012:graveyard.fifo";

fn in_s3(cloud: &Cloud) -> Archive {
    Archive::S3 { s3: cloud.clients().s3, bucket: "graveyard".to_owned(), prefix: "dead-letters".to_owned() }
}

fn in_queue(cloud: &Cloud, queue: &str) -> Archive {
    let clients = cloud.clients();
    Archive::Queue { dispatcher: Dispatcher::new(&clients, Reach::Public), queue: arn(queue) }
}

async fn store(archive: &Archive, letters: &[Letter]) -> Vec<Result<(), Failure>> {
    store_until(archive, letters, Instant::now() + Duration::from_secs(10)).await
}

async fn store_until(archive: &Archive, letters: &[Letter], until: Instant) -> Vec<Result<(), Failure>> {
    let Some(first) = letters.first() else { return Vec::new() };
    let batch = Batch { queue: &first.sqs.queue, request_id: "req-1", now: at(NOW), until };
    let context = unrecognised();
    let to_archive: Vec<_> = letters.iter().map(|letter| (letter, &context)).collect();
    archive.store(&to_archive, batch, None).await
}

fn raws(count: usize) -> Vec<Letter> {
    (0..count).map(|n| letter(&Post::raw(&format!("m{n}"), &format!("body of m{n}.")))).collect()
}

/// The lines of the only object.
fn lines(cloud: &Cloud) -> Vec<Value> {
    let objects = cloud.objects();
    assert_eq!(objects.len(), 1);
    let object = objects.into_values().next().unwrap();
    assert!(object.ends_with('\n'));
    object.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The message of a record, put into an event again.
fn rebuilt(line: &Value) -> Letter {
    let record: Record = serde_json::from_value(line.clone()).unwrap();
    let mut message = serde_json::to_value(&record.message).unwrap();
    assert_eq!(message, line["message"], "reading and writing a record changes nothing");
    message["receiptHandle"] = "another".into();
    letters_of(&json!({ "Records": [message] })).remove(0)
}

mod s3 {
    use super::*;

    #[tokio::test]
    async fn all_letters_of_an_invocation_are_one_object_that_is_written_if_there_is_none() {
        let cloud = Cloud::new();
        assert_eq!(store(&in_s3(&cloud), &raws(25)).await, vec![Ok(()); 25]);
        let calls = cloud.journal();
        assert_eq!(calls.len(), 1);
        assert_eq!(
            (calls[0].host.as_str(), calls[0].to.as_str()),
            (
                "graveyard.s3.eu-central-1.amazonaws.com",
                "graveyard/dead-letters/queue=orders-dlq/date=2026-11-01/20261101T120000Z-req-1.jsonl"
            )
        );
        let headers = [("content-type", "application/x-ndjson"), ("if-none-match", "*")];
        let headers: BTreeMap<_, _> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(calls[0].headers, headers);
        let bodies: Vec<_> = lines(&cloud).iter().map(|line| line["message"]["body"].clone()).collect();
        let expected: Vec<_> = (0..25).map(|number| json!(format!("body of m{number}."))).collect();
        assert_eq!(bodies, expected);
    }

    #[tokio::test]
    async fn a_record_says_all_that_is_known() {
        let cloud = Cloud::new();
        let post = Post::envelope("a")
            .subject("Order placed")
            .group("customer-20")
            .sqs_mark(&mark(2, "life-long-id", NOW))
            .attribute("checksum", "Binary", "AAECA/3+/w==");
        let letter = letter(&post);
        let target = Endpoint::Queue(arn(WORKER));
        let failure = Failure {
            class: FailureClass::ActionRequired,
            code: "AccessDenied".to_owned(),
            message: Some("not allowed to sqs:SendMessage".to_owned()),
        };
        let context = ArchiveContext {
            reason: ArchiveReason::Exhausted,
            detail: Some("in words".to_owned()),
            rule: "billing-slowly".to_owned(),
            target: Some(target),
            retry: Some(Retry { number: 12, of: 12, phase: Phase::PostBackoff }),
            failure: Some(failure),
        };
        let until = Instant::now() + Duration::from_secs(10);
        let batch = Batch { queue: &arn(DLQ), request_id: "req-1", now: at(NOW + 1), until };
        assert_eq!(in_s3(&cloud).store(&[(&letter, &context)], batch, None).await, [Ok(())]);
        assert_eq!(
            lines(&cloud),
            [json!({
                "version": 1,
                "archivedAt": "2026-11-01T12:00:00.001Z",
                "reason": "exhausted",
                "detail": "in words",
                "queueArn": DLQ,
                "letterId": "life-long-id",
                "origin": "sns",
                "topicArn": TOPIC,
                "subscriptionArn": SUBSCRIPTION,
                "rule": "billing-slowly",
                "targetArn": WORKER,
                "retry": { "number": 12, "of": 12 },
                "error": {
                    "code": "AccessDenied",
                    "class": "action_required",
                    "message": "not allowed to sqs:SendMessage",
                },
                "message": {
                    "messageId": "a",
                    "body": post.body(),
                    "attributes": {
                        "ApproximateFirstReceiveTimestamp": "1793534400000",
                        "ApproximateReceiveCount": "1",
                        "MessageGroupId": "customer-20",
                        "SenderId": "AIDAIEXAMPLE",
                        "SentTimestamp": "1793534400000",
                    },
                    "messageAttributes": {
                        "sns-redrive": {
                            "dataType": "String",
                            "stringValue": made_for("message of a", mark(2, "life-long-id", NOW)).to_string(),
                        },
                        "checksum": { "dataType": "Binary", "binaryValue": "AAECA/3+/w==" },
                    },
                    "eventSource": "aws:sqs",
                    "eventSourceARN": DLQ,
                    "awsRegion": "eu-central-1",
                },
            })]
        );
    }

    #[tokio::test]
    async fn the_original_error_of_a_letter_is_in_its_record() {
        let cloud = Cloud::new();
        let letters = letters_of(&sample("eventbridge"));
        assert_eq!(store(&in_s3(&cloud), &letters).await, [Ok(())]);
        let cause = &lines(&cloud)[0]["cause"];
        assert_eq!(*cause, json!({ "code": "THROTTLING", "message": "Rate exceeded" }));
    }

    /// The key holds the request id: that the object is there means that an earlier try of this
    /// call wrote it and its answer was lost.
    #[tokio::test]
    async fn an_object_that_is_there_already_is_a_success() {
        let cloud = Cloud::new();
        let archive = in_s3(&cloud);
        assert_eq!(store(&archive, &raws(2)).await, vec![Ok(()); 2]);
        let objects = cloud.objects();
        assert_eq!(store(&archive, &raws(2)).await, vec![Ok(()); 2]);
        assert_eq!((cloud.journal().len(), cloud.objects()), (2, objects));
    }

    #[tokio::test]
    async fn an_archive_that_fails_says_so_for_every_letter() {
        use FailureClass::{ActionRequired, Throttling, Transient};
        for (reply, class, code, message) in [
            (Reply::Fail(403, "AccessDenied", "no"), ActionRequired, "AccessDenied", Some("no")),
            (Reply::Fail(404, "NoSuchBucket", "gone"), ActionRequired, "NoSuchBucket", Some("gone")),
            (Reply::Fail(503, "SlowDown", "slow"), Throttling, "SlowDown", None),
            (Reply::Fail(500, "InternalError", "oh"), Transient, "InternalError", None),
            (
                Reply::Fail(409, "ConditionalRequestConflict", "oh"),
                Transient,
                "ConditionalRequestConflict",
                None,
            ),
            (Reply::Nonsense(502, ""), Transient, "Http502", None),
            (Reply::Reset, Transient, "Unreachable", None),
            (Reply::NoConnection, Transient, "Timeout", None),
        ] {
            let cloud = Cloud::new();
            cloud.reply("PutObject", reply);
            let failure = Failure { class, code: code.to_owned(), message: message.map(str::to_owned) };
            assert_eq!(store(&in_s3(&cloud), &raws(2)).await, vec![Err(failure); 2]);
        }
    }

    #[tokio::test]
    async fn an_archive_that_never_answers_has_not_taken_anything() {
        let cloud = Cloud::new();
        cloud.reply("PutObject", Reply::Hang);
        let until = Instant::now() + Duration::from_millis(50);
        let late = Failure::ours(FailureClass::Transient, "DeadlineExceeded");
        assert_eq!(store_until(&in_s3(&cloud), &raws(1), until).await, [Err(late)]);
    }

    /// An endpoint of one's own has no host name for every bucket.
    #[tokio::test]
    async fn with_an_endpoint_of_ones_own_the_bucket_is_a_part_of_the_path() {
        let cloud = Cloud::new();
        let config =
            cloud.config(RetryConfig::disabled()).to_builder().endpoint_url("http://localhost:4566").build();
        let s3 = Clients::from_config(&config, true).s3;
        let archive = Archive::S3 { s3, bucket: "graveyard".to_owned(), prefix: String::new() };
        assert_eq!(store(&archive, &raws(1)).await, [Ok(())]);
        let call = cloud.journal().remove(0);
        assert_eq!(
            (call.host.as_str(), call.to.as_str()),
            ("localhost:4566", "graveyard/queue=orders-dlq/date=2026-11-01/20261101T120000Z-req-1.jsonl")
        );
        assert_eq!(lines(&cloud)[0]["message"]["body"], "body of m0.");
    }

    #[tokio::test]
    async fn nothing_to_archive_costs_no_call() {
        let cloud = Cloud::new();
        assert_eq!(store(&in_s3(&cloud), &[]).await, []);
        assert_eq!(cloud.journal(), []);
    }
}

mod round_trip {
    use super::*;

    #[tokio::test]
    async fn every_sample_can_be_rebuilt_from_its_record() {
        for (name, event) in samples() {
            let cloud = Cloud::new();
            let letters = letters_of(&event);
            assert_eq!(store(&in_s3(&cloud), &letters).await, vec![Ok(()); letters.len()], "{name}");
            let lines = lines(&cloud);
            assert_eq!(lines.len(), letters.len());
            for (line, mut letter) in lines.iter().zip(letters) {
                "another".clone_into(&mut letter.sqs.receipt_handle);
                assert_eq!(rebuilt(line), letter, "{name}");
            }
        }
    }

    /// The same by the wire: all that a record leaves out of Lambda's own is the receipt handle,
    /// the sums, and lists that SQS never fills.
    #[tokio::test]
    async fn the_message_of_a_record_is_lambdas_own_record() {
        for (name, event) in samples() {
            let cloud = Cloud::new();
            store(&in_s3(&cloud), &letters_of(&event)).await;
            for (line, record) in lines(&cloud).iter().zip(event["Records"].as_array().unwrap()) {
                let mut record = record.clone();
                let fields = record.as_object_mut().unwrap();
                for left_out in ["receiptHandle", "md5OfBody", "md5OfMessageAttributes"] {
                    fields.remove(left_out);
                }
                for attribute in record["messageAttributes"].as_object_mut().unwrap().values_mut() {
                    let attribute = attribute.as_object_mut().unwrap();
                    attribute.remove("stringListValues");
                    attribute.remove("binaryListValues");
                }
                assert_eq!(line["message"], record, "{name}");
            }
        }
    }

    fn any_attribute() -> impl Strategy<Value = (String, String)> {
        prop_oneof![
            ("(String|Number|String\\.Array|Number\\.int)", any::<String>()),
            (
                "(Binary|Binary\\.png)",
                // Base64 of any bytes whose number is a multiple of three.
                proptest::collection::vec("[A-Za-z0-9+/]{4}", 0..8).prop_map(|parts| parts.concat())
            ),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_message_can_be_rebuilt_from_its_record(
            body in any::<String>(),
            attributes in proptest::collection::btree_map("[A-Za-z0-9_.-]{1,20}", any_attribute(), 0..10),
            system in proptest::collection::btree_map("[A-Z][A-Za-z]{1,20}", any::<String>(), 0..4),
        ) {
            let mut post = Post::raw("r", &body);
            for (name, (kind, value)) in &attributes {
                post = post.attribute(name, kind, value);
            }
            for (name, value) in &system {
                post = post.system(&format!("X{name}"), value);
            }
            let mut letter = letter(&post);
            let record = Record::of(&letter, &unrecognised(), at(NOW)).to_line().unwrap();
            prop_assert_eq!(record.matches('\n').count(), 1);
            prop_assert!(!record.contains("handle-r"));
            "another".clone_into(&mut letter.sqs.receipt_handle);
            prop_assert_eq!(rebuilt(&serde_json::from_str(&record).unwrap()), letter);
        }
    }
}

mod queue {
    use super::*;

    fn with_attributes(post: Post, count: usize) -> Post {
        (0..count).fold(post, |post, number| post.attribute(&format!("a{number}"), "String", "x"))
    }

    async fn archived(post: &Post, queue: &str) -> Entry {
        let cloud = Cloud::new();
        assert_eq!(store(&in_queue(&cloud, queue), &[letter(post)]).await, [Ok(())]);
        let mut entries = cloud.entries("SendMessageBatch");
        assert_eq!((cloud.journal().len(), entries.len()), (1, 1));
        entries.remove(0)
    }

    #[tokio::test]
    async fn body_and_attributes_are_unchanged_and_the_record_is_one_attribute_more() {
        let post = Post::raw("r", "{ \"as\" :  \"it was\" }")
            .attribute("tenant", "String", "gold")
            .attribute("checksum", "Binary", "AAECA/3+/w==")
            .mark(&mark(3, "r", NOW))
            .group("customer-20")
            .system("AWSTraceHeader", "Root=1-2");
        let mut entry = archived(&post, ARCHIVE_QUEUE).await;
        let (kind, record) = entry.attributes.remove("sns-redrive-archive").unwrap();
        assert_eq!(kind, "String");
        assert_eq!(
            serde_json::from_str::<Value>(&record).unwrap(),
            json!({
                "version": 1,
                "archivedAt": "2026-11-01T12:00:00Z",
                "reason": "unrecognised",
                "queueArn": DLQ,
                "letterId": "r",
                "origin": "raw",
                "rule": "default",
                "sqsMessageId": "r",
            })
        );
        let attributes = [
            ("tenant", ("String", "gold".to_owned())),
            ("checksum", ("Binary", "base64 AAECA/3+/w==".to_owned())),
            ("sns-redrive", ("String", made_for(&post.body(), mark(3, "r", NOW)).to_string())),
        ];
        let attributes = attributes.map(|(name, (kind, value))| (name.to_owned(), (kind.to_owned(), value)));
        assert_eq!(
            entry,
            Entry {
                body: post.body(),
                attributes: attributes.into(),
                group_id: Some("customer-20".to_owned()),
                trace_header: Some("Root=1-2".to_owned()),
                ..Entry::default()
            }
        );
    }

    #[tokio::test]
    async fn the_record_is_left_out_where_ten_attributes_are_there_already() {
        let entry = archived(&with_attributes(Post::raw("r", "x"), 9), ARCHIVE_QUEUE).await;
        assert_eq!(entry.attributes.len(), 10);
        assert!(entry.attributes.contains_key("sns-redrive-archive"));

        let entry = archived(&with_attributes(Post::raw("r", "x"), 10), ARCHIVE_QUEUE).await;
        assert_eq!(entry.attributes.len(), 10);
        assert!(!entry.attributes.contains_key("sns-redrive-archive"));
    }

    #[tokio::test]
    async fn a_letter_that_was_archived_before_gets_the_newest_record() {
        let before = Post::raw("r", "x").attribute("sns-redrive-archive", "String", "an old record");
        let entry = archived(&before, ARCHIVE_QUEUE).await;
        assert_eq!(entry.attributes.len(), 1);
        assert!(entry.attributes["sns-redrive-archive"].1.starts_with('{'));
    }

    /// 1 MiB is all that SQS takes, attributes included; the body matters more than our record.
    #[tokio::test]
    async fn the_record_is_left_out_where_the_message_would_grow_too_large() {
        const LIMIT: usize = 1024 * 1024;
        let entry = archived(&Post::raw("r", "x"), ARCHIVE_QUEUE).await;
        let record = &entry.attributes["sns-redrive-archive"].1;
        let around = "sns-redrive-archive".len() + "String".len() + record.len();
        for (bytes, attributes) in [(LIMIT - around, 1), (LIMIT - around + 1, 0), (LIMIT, 0)] {
            let entry = archived(&Post::raw("r", &"x".repeat(bytes)), ARCHIVE_QUEUE).await;
            assert_eq!((entry.body.len(), entry.attributes.len()), (bytes, attributes));
        }
    }

    #[tokio::test]
    async fn every_sample_arrives_byte_for_byte() {
        for (name, event) in samples() {
            let cloud = Cloud::new();
            let letters = letters_of(&event);
            store(&in_queue(&cloud, ARCHIVE_QUEUE), &letters).await;
            let bodies: Vec<_> =
                cloud.entries("SendMessageBatch").into_iter().map(|entry| entry.body).collect();
            let stored: Vec<_> = letters.into_iter().map(|letter| letter.sqs.body).collect();
            assert_eq!(bodies, stored, "{name}");
        }
    }

    #[tokio::test]
    async fn ten_letters_cost_one_call() {
        let cloud = Cloud::new();
        assert_eq!(store(&in_queue(&cloud, ARCHIVE_QUEUE), &raws(25)).await, vec![Ok(()); 25]);
        let summary = ["10", "10", "5"].map(|count| format!("SendMessageBatch graveyard {count}"));
        assert_eq!(cloud.summary(), summary);
    }

    /// SQS swallows the second of two equal ids for five minutes: an invocation that is repeated
    /// after a crash archives once.
    #[tokio::test]
    async fn in_a_fifo_archive_the_message_id_keeps_copies_out() {
        let entry = archived(&Post::raw("r", "x").group("customer-17"), FIFO_ARCHIVE).await;
        assert_eq!(entry.deduplication_id.as_deref(), Some("r"));
        assert_eq!(entry.group_id.as_deref(), Some("customer-17"));
        let entry = archived(&Post::raw("r", "x"), FIFO_ARCHIVE).await;
        assert_eq!(entry.group_id.as_deref(), Some("sns-redrive"));
    }

    #[tokio::test]
    async fn a_letter_that_the_archive_queue_did_not_take_is_named_alone() {
        let cloud = Cloud::new();
        cloud.script(|call| call.except("body of m1.", EntryFate::Failed("InternalError", "oh", false)));
        let failure = Failure::ours(FailureClass::Transient, "InternalError");
        assert_eq!(store(&in_queue(&cloud, ARCHIVE_QUEUE), &raws(3)).await, [Ok(()), Err(failure), Ok(())]);

        cloud.script(|call| call.except("body of m1.", EntryFate::Missing));
        let failure = Failure::ours(FailureClass::Transient, "NoAnswer");
        assert_eq!(store(&in_queue(&cloud, ARCHIVE_QUEUE), &raws(3)).await, [Ok(()), Err(failure), Ok(())]);
    }
}

mod whole_function {
    use super::*;

    #[tokio::test]
    async fn a_letter_that_the_archive_did_not_take_stays_in_its_queue() {
        let world = World::new(&[]);
        world.cloud.reply("PutObject", Reply::Fail(403, "AccessDenied", "no s3:PutObject"));
        let ran = world.run([&Post::raw("r", "x"), &Post::envelope("a"), &Post::raw("s", "y")]).await;
        assert_eq!(ran.outcomes(), ["r failed archive", "a delivered", "s failed archive"]);
        assert_eq!(ran.kept, ["r", "s"]);
        let line = ran.letter("r");
        assert_eq!(
            [&line["level"], &line["undone.code"], &line["undone.class"], &line["undone.message"]],
            [&json!("ERROR"), &json!("AccessDenied"), &json!("action_required"), &json!("no s3:PutObject")]
        );
        let hidden = [("handle-r".to_owned(), 1), ("handle-s".to_owned(), 1)];
        assert_eq!(world.cloud.hidden(), hidden.into());
        assert_eq!([&line["reason"], &line["delay_s"]], [&json!("archive"), &json!(1)]);
    }

    #[tokio::test]
    async fn one_letter_that_an_archive_queue_did_not_take_stays_and_the_others_go() {
        let world = World::new(&[("ARCHIVE", ARCHIVE_QUEUE)]);
        world
            .cloud
            .script(|call| call.except("poison", EntryFate::Failed("InvalidMessageContents", "", true)));
        let ran = world.run([&Post::raw("r", "x"), &Post::raw("p", "poison"), &Post::raw("s", "y")]).await;
        assert_eq!(
            ran.outcomes(),
            ["r archived unrecognised", "p failed archive", "s archived unrecognised"]
        );
        assert_eq!(ran.kept, ["p"]);
    }

    /// Letters would go round in it for ever, and Lambda would delete each once it is "archived".
    #[tokio::test]
    async fn an_archive_that_is_the_dead_letter_queue_itself_is_refused_and_letters_stay() {
        let world = World::new(&[("ARCHIVE", DLQ)]);
        let ran = world.run([&Post::raw("r", "x"), &Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["r failed archive", "a delivered"]);
        assert_eq!(ran.kept, ["r"]);
        let line = ran.letter("r");
        assert_eq!(
            [&line["undone.code"], &line["undone.class"]],
            [&json!("ArchiveIsDeadLetterQueue"), &json!("action_required")]
        );
        let sent: Vec<_> = world.cloud.calls("SendMessageBatch").iter().map(Call::summary).collect();
        assert_eq!(sent, ["SendMessageBatch orders-worker 1"]);
    }

    #[tokio::test]
    async fn each_reason_is_in_its_record() {
        let policy = json!({
            "default": {},
            "rules": [
                { "name": "never", "match": { "messageAttributes": { "audit": ["yes"] } }, "action": "archive" },
                { "name": "topic", "match": { "messageAttributes": { "to": ["topic"] } }, "target": "topic" },
                { "name": "closed", "match": { "messageAttributes": { "to": ["closed"] } },
                  "target": "topic", "allowTargets": [BILLING] },
                { "name": "any", "match": { "messageAttributes": { "to": ["any"] } }, "target": TOPIC },
            ],
        });
        let world = World::with_policy(&policy);
        let full = (0..10).fold(Post::envelope("unmarkable"), |post, number| {
            post.sns_attribute(&format!("a{number}"), "String", "x")
        });
        let full = full.sns_attribute("to", "String", "topic");
        let posts = [
            Post::envelope("exhausted").mark(&mark(12, "x", NOW)),
            // 13 days and 23 h of 14 days are over, and the next retry is an hour away.
            Post::envelope("expiring").mark(&mark(7, "x", NOW)).sent(NOW - (14 * 24 - 1) * 3_600_000),
            Post::envelope("rule").sns_attribute("audit", "String", "yes"),
            Post::raw("unrecognised", "x"),
            Post::envelope("undeliverable_protocol").subscription(OTHER_SUBSCRIPTION),
            Post::envelope("refused").sns_attribute("to", "String", "closed"),
            Post::envelope("permanent"),
            full,
            Post::raw("returned", "x")
                .attribute("to", "String", "any")
                .mark(&json!({ "v": 2, "spent": 1, "id": "x", "first": NOW, "passes": 1, "pub": 1 })),
            Post::envelope("loop").mark(&made_for(
                "another",
                json!({ "v": 2, "spent": 1, "id": "x", "first": NOW, "passes": 100 }),
            )),
        ];
        world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "email", "orders@example.com", DLQ);
        world.cloud.script(|call| match call.op.as_str() {
            "SendMessageBatch" => {
                let mut fates: Vec<_> = Vec::new();
                for index in call.entries_with("message of permanent") {
                    fates.push((index, EntryFate::Failed("InvalidMessageContents", "", true)));
                }
                for index in call.entries_with("message of expiring") {
                    fates.push((index, EntryFate::Failed("InternalError", "", false)));
                }
                Reply::Except(fates)
            }
            _ => Reply::Accept,
        });
        let ran = world.run(&posts).await;
        assert_eq!(ran.kept, [""; 0]);
        let lines = lines(&world.cloud);
        let told: Vec<_> =
            lines.iter().map(|line| (&line["message"]["messageId"], &line["reason"])).collect();
        assert!(told.iter().all(|(id, reason)| id == reason), "{told:?}");
        assert_eq!(lines.len(), ArchiveReason::ALL.len());
        assert_eq!(world.cloud.calls("PutObject").len(), 1);
        let line = |reason: &str| lines.iter().find(|line| line["reason"] == reason).unwrap();
        assert_eq!(line("permanent")["retry"], json!({ "number": 1, "of": 12 }));
        assert_eq!(
            line("permanent")["error"],
            json!({ "code": "InvalidMessageContents", "class": "permanent" })
        );
        assert_eq!(line("permanent")["targetArn"], WORKER);
        assert_eq!(line("refused")["rule"], "closed");
        assert_eq!(line("refused")["detail"], "the target is not in the rule's allowTargets");
    }
}

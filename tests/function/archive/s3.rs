use super::*;

#[tokio::test]
async fn all_letters_of_an_invocation_are_one_object_that_is_written_if_there_is_none() {
    let cloud = TestAccount::new();
    assert_eq!(store(&in_s3(&cloud), &raws(25)).await, vec![Ok(()); 25]);
    let calls = cloud.journal();
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (calls[0].host.as_str(), calls[0].target.as_str()),
        (
            "my-bucket.s3.eu-central-1.amazonaws.com",
            "my-bucket/dead-letters/queue=payments-dlq/date=2026-11-01/20261101T120000.000Z-req-1.2-n25-r0.unrecognised.none.25.T.none.25.jsonl"
        )
    );
    let parameters =
        [("content-type", "application/x-ndjson"), ("if-none-match", "*"), ("x-id", "PutObject")];
    let parameters: BTreeMap<_, _> =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(calls[0].parameters, parameters);
    let bodies: Vec<_> = lines(&cloud).iter().map(|line| line["message"]["body"].clone()).collect();
    let expected: Vec<_> = (0..25).map(|number| json!(format!("body of m{number}."))).collect();
    assert_eq!(bodies, expected);
}

/// Letters of the requeue are stored with those of their dead-letter queue. Each object answers for its own
/// letters. Two queues of one name share an object, because its key can be written only once.
#[tokio::test(start_paused = true)]
async fn letters_of_the_requeue_are_stored_by_their_dead_letter_queue() {
    let elsewhere = DLQ.replace("eu-central-1", "eu-west-1");
    let letters: Vec<_> = [("a", DLQ), ("b", FIFO_DLQ), ("c", &elsewhere), ("d", DLQ)]
        .into_iter()
        .map(|(id, dlq)| {
            let mut mark = mark(0, id, NOW);
            mark["dlq"] = json!(dlq);
            mark["gen"] = json!(u32::from(id == "a"));
            let message = letter(&RecordBuilder::envelope(id).sqs_mark(&mark).queue(REQUEUE)).sqs;
            Letter::parse_requeued(message, TrustedOrigins::none())
        })
        .collect();
    let cloud = TestAccount::new();
    cloud.script(|call| {
        let fails = call.target.contains(".fifo/");
        if fails {
            SimFault::refuse(500, "InternalError", "oh")
        } else {
            SimFault::Pass.after(Duration::from_millis(5))
        }
    });
    let failure = Failure::ours(FailureClass::Transient, "InternalError");
    let answers = store(&in_s3(&cloud), &letters).await;
    assert_eq!(answers, [Ok(()), Err(failure), Ok(()), Ok(())]);
    assert_eq!(cloud.peak(), 2, "side by side");
    let (key, _) = cloud.objects().into_iter().next().unwrap();
    assert!(key.starts_with("my-bucket/dead-letters/queue=payments-dlq/date=2026-11-01/"), "{key}");
    assert!(key.contains(".2-n3-r1.unrecognised."), "{key}");
    let ids: Vec<_> = lines(&cloud).iter().map(|line| line["message"]["messageId"].clone()).collect();
    assert_eq!(ids, ["a", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_record_says_all_that_is_known() {
    let cloud = TestAccount::new();
    let post = RecordBuilder::envelope("a")
        .subject("Order placed")
        .group("customer-20")
        .sqs_mark(&mark(2, "life-long-id", NOW))
        .attribute("checksum", "Binary", "AAECA/3+/w==");
    let letter = letter(&post);
    let target = TargetName::read(WORKER);
    let failure = Failure {
        class: FailureClass::ActionRequired,
        code: "AccessDenied".to_owned(),
        message: Some("not allowed to sqs:SendMessage".to_owned()),
        retry_after: None,
    };
    let context = ArchiveContext {
        reason: ArchiveReason::Exhausted,
        detail: Some("in words".to_owned()),
        rule: "billing-slowly".to_owned(),
        target: Some(target),
        retry: Some(Retry { number: 12, of: 12, phase: RetryPhase::PostBackoff, planned: None }),
        failure: Some(failure),
        override_id: Some("override-1".to_owned()),
    };
    let until = Instant::now() + Duration::from_secs(10);
    let batch = ArchiveInvocation { request_id: "req-1", now: at(NOW + 1), until };
    assert_eq!(in_s3(&cloud).store(&[(&letter, &context)], batch, None).await, [Ok(())]);
    assert_eq!(
        lines(&cloud),
        [json!({
            "version": 1,
            "archivedAt": "2026-11-01T12:00:00.001Z",
            "reason": "exhausted",
            "detail": "in words",
            "queueArn": DLQ,
            "deadLetterQueueArn": DLQ,
            "letterId": "life-long-id",
            "origin": "sns",
            "topicArn": TOPIC,
            "subscriptionArn": SUBSCRIPTION,
            "rule": "billing-slowly",
            "targetArn": WORKER,
            "retry": { "number": 12, "of": 12 },
            "override": "override-1",
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
    let cloud = TestAccount::new();
    let letters = letters_of(&sample("eventbridge"));
    assert_eq!(store(&in_s3(&cloud), &letters).await, [Ok(())]);
    let cause = &lines(&cloud)[0]["cause"];
    assert_eq!(*cause, json!({ "code": "THROTTLING", "message": "Rate exceeded" }));
}

/// The key has the request id. If the object exists, an earlier try of this call wrote it and its answer was
/// lost.
#[tokio::test]
async fn an_object_that_is_there_already_is_a_success() {
    let cloud = TestAccount::new();
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
        (SimFault::refuse(403, "AccessDenied", "no"), ActionRequired, "AccessDenied", Some("no")),
        (SimFault::refuse(404, "NoSuchBucket", "gone"), ActionRequired, "NoSuchBucket", Some("gone")),
        (SimFault::refuse(503, "SlowDown", "slow"), Throttling, "SlowDown", None),
        (SimFault::refuse(500, "InternalError", "oh"), Transient, "InternalError", None),
        (
            SimFault::refuse(409, "ConditionalRequestConflict", "oh"),
            Transient,
            "ConditionalRequestConflict",
            None,
        ),
        (SimFault::Nonsense(502, String::new()), Transient, "Http502", None),
        (SimFault::ResetBefore, Transient, "Unreachable", None),
        (SimFault::ConnectTimeout, Transient, "Timeout", None),
    ] {
        let cloud = TestAccount::new();
        cloud.reply("PutObject", reply);
        let failure =
            Failure { class, code: code.to_owned(), message: message.map(str::to_owned), retry_after: None };
        assert_eq!(store(&in_s3(&cloud), &raws(2)).await, vec![Err(failure); 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_archive_that_never_answers_has_not_taken_anything() {
    let cloud = TestAccount::new();
    cloud.reply("PutObject", SimFault::HangBefore);
    let until = Instant::now() + Duration::from_millis(50);
    let late = Failure::ours(FailureClass::Transient, "DeadlineExceeded");
    assert_eq!(store_until(&in_s3(&cloud), &raws(1), until).await, [Err(late)]);
}

/// A custom endpoint has no host name for every bucket.
#[tokio::test]
async fn with_an_endpoint_of_ones_own_the_bucket_is_a_part_of_the_path() {
    let cloud = TestAccount::new();
    let config =
        cloud.config(RetryConfig::disabled()).to_builder().endpoint_url("http://localhost:4566").build();
    let s3 = AwsClients::from_config(&config, true).s3;
    let archive = Archive::S3 { s3, bucket: "my-bucket".to_owned(), prefix: String::new() };
    assert_eq!(store(&archive, &raws(1)).await, [Ok(())]);
    let call = cloud.journal().remove(0);
    assert_eq!(
        (call.host.as_str(), call.target.as_str()),
        (
            "localhost:4566",
            "my-bucket/queue=payments-dlq/date=2026-11-01/20261101T120000.000Z-req-1.2-n1-r0.unrecognised.none.1.T.none.1.jsonl"
        )
    );
    assert_eq!(lines(&cloud)[0]["message"]["body"], "body of m0.");
}

#[tokio::test]
async fn nothing_to_archive_costs_no_call() {
    let cloud = TestAccount::new();
    assert_eq!(store(&in_s3(&cloud), &[]).await, []);
    assert_eq!(cloud.journal(), []);
}

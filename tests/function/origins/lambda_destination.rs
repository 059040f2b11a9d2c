use super::*;

fn record(function: &str, payload: &str) -> RecordBuilder {
    let context = json!({ "requestId": "r", "functionArn": function, "condition": "RetriesExhausted" });
    RecordBuilder::raw(
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
    // The name with or without `:$LATEST` is the same function.
    assert_eq!((name.split(':').next().unwrap(), kind.as_str()), ("payments-notifier", "Event"));
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
            ("payments-projector".to_owned(), "RequestResponse".to_owned(), payload.to_owned())
        );
    }
}

#[tokio::test]
async fn keeps_the_alias_or_version_that_failed() {
    for qualifier in ["live", "7"] {
        let world = built_in();
        world.run([&record(&format!("{PROJECTOR}:{qualifier}"), "{}")]).await;
        assert_eq!(world.cloud.calls("Invoke")[0].parameter("Qualifier"), Some(qualifier));
    }
}

/// `$LATEST` is the function itself. Lambda writes it into every record.
#[tokio::test]
async fn an_allowed_function_is_allowed_as_its_latest_version_and_no_other() {
    for (qualifier, outcome) in
        [("", "a delivered"), (":$LATEST", "a delivered"), (":live", "a archived refused")]
    {
        let world = FunctionWorld::with_policy(&default(&json!({ "allowTargets": [PROJECTOR] })));
        let ran = world.run([&record(&format!("{PROJECTOR}{qualifier}"), "{}")]).await;
        assert_eq!(ran.outcomes(), [outcome], "{qualifier:?}");
    }
}

#[tokio::test]
async fn tells_the_cause_in_log_and_archive() {
    let world = FunctionWorld::with_policy(&default(&json!({ "action": "archive" })));
    let ran = world.run_event(&sample("lambda-destination")).await;
    assert_eq!(ran.letters()[0]["cause.code"], "ConnectionRefusedError");
    assert!(!ran.text.contains("mail relay"), "a message of failed code may hold anything");
    let cause = json!({ "code": "ConnectionRefusedError", "message": "mail relay refused the connection" });
    assert_eq!(archived(&world.cloud)[0]["cause"], cause);
}

/// An example is a state machine.
#[tokio::test]
async fn with_something_else_than_a_function_it_is_archived() {
    let world = built_in();
    let ran = world.run([&record(STATE_MACHINE, "{}")]).await;
    assert_eq!(ran.outcomes(), ["a archived undeliverable_protocol"]);
    assert_eq!(operations(&world.cloud), ["GetQueueAttributes", "PutObject"]);
}

/// Lambda's mapping of a stream names the batch that failed and leaves its records in the stream.
#[tokio::test]
async fn the_record_of_a_batch_of_a_stream_says_where_its_records_are() {
    for info in ["KinesisBatchInfo", "DDBStreamBatchInfo"] {
        let body = json!({
            "requestContext": { "requestId": "r", "functionArn": PROJECTOR, "condition": "RetryAttemptsExhausted",
                "approximateInvokeCount": 3 },
            "responseContext": { "statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled" },
            "version": "1.0", "timestamp": "2026-11-01T11:59:58.351Z",
            info: { "shardId": "shardId-000000000001", "startSequenceNumber": "1", "endSequenceNumber": "2",
                "batchSize": 2, "streamArn": "arn:aws:kinesis:eu-central-1:123456789012:stream/payments" },
        });
        let ran = built_in().run([&RecordBuilder::raw("a", &body.to_string())]).await;
        assert_eq!(ran.outcomes(), ["a archived unrecognised"]);
        let detail = ran.letter("a")["detail"].as_str().unwrap();
        assert!(detail.contains("read them from the stream"), "{detail}");
    }
    let other = json!({ "functionArn": PROJECTOR, "BatchInfo": "text" });
    let ran = built_in().run([&RecordBuilder::raw("a", &other.to_string())]).await;
    assert_eq!(
        ran.letter("a")["detail"],
        "the letter names no subscription: set the subscription of its rule"
    );
}

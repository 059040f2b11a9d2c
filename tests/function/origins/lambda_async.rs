use super::*;

fn plain(body: &str) -> RecordBuilder {
    RecordBuilder::raw("a", body)
        .attribute("RequestID", "String", "f90d1605-ec6d-4193-8adb-4e1528707ec2")
        .attribute("ErrorCode", "Number", "200")
        .attribute("ErrorMessage", "String", "mail relay refused the connection")
}

#[tokio::test]
async fn does_not_name_its_function_so_without_one_in_its_rule_it_is_archived_and_says_so() {
    for target in ["origin", "source"] {
        for event in [sample("lambda-async"), event([&plain(PLAIN)])] {
            let world = FunctionWorld::with_policy(&default(&json!({ "target": target })));
            let ran = world.run_event(&event).await;
            assert_eq!(ran.letters()[0]["reason"], "unrecognised");
            assert_eq!(operations(&world.cloud), ["GetQueueAttributes", "PutObject"]);
            let record = archived(&world.cloud).remove(0);
            let detail = record["detail"].as_str().unwrap();
            if target == "origin" {
                let told = "the letter does not name the function that failed: set the target of its \
                            rule to that function's ARN";
                assert_eq!(detail, told);
            }
            let cause = json!({ "code": "200", "message": "mail relay refused the connection" });
            assert_eq!(record["cause"], cause);
        }
    }
}

#[tokio::test]
async fn with_an_event_of_sns_it_is_an_asynchronous_call_with_the_mark_in_the_record() {
    let world = FunctionWorld::with_policy(&default(&json!({ "target": NOTIFIER })));
    let ran = world.run_event(&sample("lambda-async")).await;
    assert_eq!(ran.kept, [""; 0]);
    let line = ran.letters()[0];
    assert_eq!([&line["target.arn"], &line["cause.code"]], [NOTIFIER, "200"]);
    let (name, kind, payload) = invocation(&world);
    assert_eq!((name.as_str(), kind.as_str()), ("payments-notifier", "Event"));
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
        let world = FunctionWorld::with_policy(&default(&json!({ "target": PROJECTOR })));
        let ran = world.run([&plain(body)]).await;
        assert_eq!(ran.outcomes(), ["a delivered"], "{body}");
        assert_eq!(
            invocation(&world),
            ("payments-projector".to_owned(), "RequestResponse".to_owned(), body.to_owned())
        );
    }
}

/// SNS puts one record into an event, so an event with two is not SNS's, and a mark in one of them does not
/// count.
#[tokio::test]
async fn with_two_records_of_sns_it_is_a_plain_event() {
    let mut event: Value = serde_json::from_str(&body_of("lambda-async")).unwrap();
    let record = event["Records"][0].clone();
    event["Records"].as_array_mut().unwrap().push(record);
    let world = FunctionWorld::with_policy(&default(&json!({ "target": PROJECTOR })));
    world.run([&plain(&event.to_string())]).await;
    assert_eq!(invocation(&world).1, "RequestResponse");
}

#[tokio::test]
async fn a_function_that_fails_again_has_used_a_retry() {
    let world = FunctionWorld::with_policy(&default(&json!({ "target": PROJECTOR })));
    world.cloud.function("payments-projector", |_| FunctionRan::failed("Error", "relay S3CR3T is down"));
    let ran = world.run([&plain(PLAIN)]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    let line = ran.letter("a");
    assert_eq!([&line["retry.number"], &line["retry.of"]], [1, 12]);
    assert_eq!([&line["error.code"], &line["error.class"]], ["FunctionError", "transient"]);
    // The function's answer may hold anything.
    assert!(!ran.text.contains("S3CR3T"));
    assert_eq!(world.cloud.calls("Invoke").len(), 1, "it may have done its work: no second try at once");
}

#[tokio::test]
async fn a_body_that_is_no_json_is_no_event() {
    for body in ["", "plain", "{", "{}{}"] {
        let world = FunctionWorld::with_policy(&default(&json!({ "target": PROJECTOR })));
        let ran = world.run([&plain(body)]).await;
        assert_eq!(ran.outcomes(), ["a archived unrecognised"], "{body}");
        assert_eq!(
            ran.letter("a")["detail"],
            "the letter's body is not JSON, and functions accept only JSON"
        );
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
    let world = FunctionWorld::with_policy(&policy);
    let mut posts = [plain(&body_of("lambda-async")), plain(r#"{"kind":"projection"}"#), plain("{}")];
    for (post, id) in posts.iter_mut().zip(["sns", "projection", "other"]) {
        id.clone_into(&mut post.id);
    }
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["sns delivered", "projection delivered", "other archived unrecognised"]);
    let mut called: Vec<_> = world.cloud.calls("Invoke").into_iter().map(|call| call.target).collect();
    called.sort();
    assert_eq!(called, ["payments-notifier", "payments-projector"]);
}

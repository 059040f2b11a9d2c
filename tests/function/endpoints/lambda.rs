use super::*;

/// Returns what SNS sent to a function: the event of one sample, the payload of the other.
fn events_of_sns() -> [Value; 2] {
    let destination: Value = serde_json::from_str(&body_of("lambda-destination")).unwrap();
    [serde_json::from_str(&body_of("lambda-async")).unwrap(), destination["requestPayload"].clone()]
}

/// Returns the same message as it is in the dead-letter queue: with other spellings and without an empty
/// subject.
fn envelope_of(event: &Value) -> String {
    let mut envelope = event["Records"][0]["Sns"].clone();
    let fields = envelope.as_object_mut().unwrap();
    for (function, queue) in [("SigningCertUrl", "SigningCertURL"), ("UnsubscribeUrl", "UnsubscribeURL")] {
        let value = fields.remove(function).unwrap();
        fields.insert(queue.to_owned(), value);
    }
    fields.retain(|_, value| !value.is_null());
    serde_json::to_string_pretty(&envelope).unwrap()
}

async fn invoked(world: &FunctionWorld, post: &RecordBuilder) -> Value {
    let ran = world.run([post]).await;
    assert_eq!(ran.outcomes(), [format!("{} delivered", post.id)]);
    assert_eq!(ran.letter(&post.id)["target.arn"], NOTIFIER);
    let calls = world.cloud.calls("Invoke");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].target, "payments-notifier");
    assert_eq!(calls[0].host, "lambda.eu-central-1.amazonaws.com");
    // A synchronous call would wait for the function, and SNS's own calls are asynchronous.
    assert_eq!(calls[0].parameters["type"], "Event");
    serde_json::from_str(body_text(&calls[0])).unwrap()
}

#[tokio::test]
async fn a_subscriber_gets_the_event_that_sns_sends_and_our_mark_among_its_attributes() {
    for event in events_of_sns() {
        let id = event["Records"][0]["Sns"]["MessageId"].as_str().unwrap();
        let letter_id = format!("{id}/{LAMBDA_SUBSCRIPTION}");
        let payload = invoked(&FunctionWorld::new(&[]), &RecordBuilder::raw("a", &envelope_of(&event))).await;
        let message = event["Records"][0]["Sns"]["Message"].as_str().unwrap();
        let mut expected = event.clone();
        expected["Records"][0]["Sns"]["MessageAttributes"]["sns-redrive"] =
            json!({ "Type": "String", "Value": mark_text(1, &letter_id, NOW, message) });
        assert_eq!(payload, expected);
    }
}

#[tokio::test]
async fn a_message_without_attributes_and_subject_gets_the_mark_alone_and_a_null() {
    let mut post = RecordBuilder::envelope("a").subscription(LAMBDA_SUBSCRIPTION);
    for without_attributes in [false, true] {
        if without_attributes {
            let mut envelope: Value = serde_json::from_str(&post.body()).unwrap();
            envelope.as_object_mut().unwrap().remove("MessageAttributes");
            post = RecordBuilder::raw("a", &envelope.to_string());
        }
        let payload = invoked(&FunctionWorld::new(&[]), &post).await;
        let letter_id = format!("sns-a/{LAMBDA_SUBSCRIPTION}");
        let mark = mark_text(1, &letter_id, NOW, "message of a");
        let link = "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=";
        assert_eq!(
            payload,
            json!({ "Records": [{
                "EventSource": "aws:sns",
                "EventVersion": "1.0",
                "EventSubscriptionArn": LAMBDA_SUBSCRIPTION,
                "Sns": {
                    "Type": "Notification",
                    "MessageId": "sns-a",
                    "TopicArn": TOPIC,
                    "Subject": null,
                    "Message": "message of a",
                    "Timestamp": "2026-11-01T11:59:58.351Z",
                    "UnsubscribeUrl": format!("{link}{LAMBDA_SUBSCRIPTION}"),
                    "MessageAttributes": {
                        "sns-redrive": { "Type": "String", "Value": mark },
                    },
                },
            }] })
        );
    }
}

/// A record has room for more than ten attributes, so the mark always fits.
#[tokio::test]
async fn a_message_of_ten_attributes_is_marked_too() {
    let full = (0..10)
        .fold(RecordBuilder::envelope("a").subscription(LAMBDA_SUBSCRIPTION), |post, number| {
            post.sns_attribute(&format!("a{number}"), "String", "x")
        });
    let payload = invoked(&FunctionWorld::new(&[]), &full).await;
    let attributes = payload["Records"][0]["Sns"]["MessageAttributes"].as_object().unwrap();
    assert_eq!(attributes.len(), 11);
}

#[tokio::test]
async fn each_letter_is_a_call_of_its_own() {
    let world = FunctionWorld::new(&[]);
    let posts = ["a", "b", "c"].map(|id| RecordBuilder::envelope(id).subscription(LAMBDA_SUBSCRIPTION));
    world.cloud.script(|call| match call.operation.as_str() {
        "Invoke" if body_text(call).contains("message of b") => {
            SimFault::refuse(429, "TooManyRequestsException", "slow")
        }
        _ => SimFault::Pass,
    });
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "c delivered"]);
    assert_eq!(world.cloud.calls("Invoke").len(), 3);
    assert_eq!(world.cloud.calls("GetSubscriptionAttributes").len(), 1);
}

#[tokio::test]
async fn answers_of_lambda_are_told_apart() {
    for (reply, code, class) in [
        (SimFault::refuse(429, "TooManyRequestsException", ""), "TooManyRequestsException", "throttling"),
        (SimFault::refuse(500, "ServiceException", ""), "ServiceException", "transient"),
        (
            SimFault::refuse(404, "ResourceNotFoundException", ""),
            "ResourceNotFoundException",
            "action_required",
        ),
        (SimFault::refuse(403, "AccessDeniedException", ""), "AccessDeniedException", "action_required"),
        (SimFault::refuse(502, "KMSDisabledException", ""), "KMSDisabledException", "action_required"),
        (SimFault::refuse(502, "EC2ThrottledException", ""), "EC2ThrottledException", "transient"),
        (SimFault::ResetBefore, "Unreachable", "transient"),
        (SimFault::ConnectTimeout, "Timeout", "transient"),
        (SimFault::Nonsense(503, "<html>".to_owned()), "Http503", "transient"),
    ] {
        let world = FunctionWorld::new(&[]);
        world.cloud.reply("Invoke", reply);
        let ran = world.run([&RecordBuilder::envelope("a").subscription(LAMBDA_SUBSCRIPTION)]).await;
        let [outcome, _, _, told_code, told_class] = told(&ran, "a");
        assert_eq!([outcome, told_code, told_class], ["deferred", code, class]);
    }
    for code in ["InvalidRequestContentException", "RequestTooLargeException"] {
        let world = FunctionWorld::new(&[]);
        world.cloud.reply("Invoke", SimFault::refuse(413, code, ""));
        let ran = world.run([&RecordBuilder::envelope("a").subscription(LAMBDA_SUBSCRIPTION)]).await;
        assert_eq!(ran.outcomes(), ["a archived permanent"], "{code}");
    }
}

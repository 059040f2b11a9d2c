use super::*;

/// Returns the line, headers and body of `events/http-post.txt`, without the headers that belong to the
/// connection.
fn recorded() -> (String, BTreeMap<String, String>, String) {
    let path = format!("{}/events/http-post.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (head, body) = text.split_once("\n\n").unwrap();
    let mut lines = head.lines();
    let line = lines.next().unwrap().to_owned();
    let headers = lines.map(|line| line.split_once(": ").unwrap());
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    (line, headers, body.trim_end_matches('\n').to_owned())
}

/// Asserts that the server got one request, with this line, these headers and this body.
fn assert_got(server: &TestWebServer, line: &str, mut headers: BTreeMap<String, String>, body: &str) {
    let [request] = server.seen().try_into().unwrap();
    assert_eq!(format!("{} {} HTTP/1.1", request.operation, request.parameters["path"]), line);
    let path = request.parameters["path"].clone();
    headers.extend([("host".to_owned(), server.address()), ("path".to_owned(), path)]);
    assert_eq!((&request.parameters, body_text(&request)), (&headers, body));
}

#[tokio::test]
async fn a_post_is_the_recorded_one_in_line_headers_and_body() {
    let server = TestWebServer::answering(200);
    let world = world_of(&json!({}), "http", &format!("{}/payments", server.url()));
    let event = sample("envelope");
    let ran = world.run_event(&event).await;
    assert_eq!(ran.kept, [""; 0]);
    let (line, headers, body) = recorded();
    assert_got(&server, &line, headers, &body);
    assert_eq!(body, body_of("envelope"), "byte for byte what lies in the queue");
}

/// A subscriber verifies the signature over the body that arrives.
#[tokio::test]
async fn the_signature_still_verifies_over_the_body_that_arrives() {
    let certificate = Certificate::from_pem(include_str!("../../data/signature/sns.pem")).unwrap();
    for body in
        [include_str!("../../data/signature/v1.json"), include_str!("../../data/signature/v2-subject.json")]
    {
        let server = TestWebServer::answering(200);
        let world = world_of(&json!({}), "http", &server.url());
        assert_eq!(world.run([&RecordBuilder::raw("a", body)]).await.outcomes(), ["a delivered"]);
        let message = SignedMessage::read(body_text(&server.seen()[0])).unwrap();
        assert_eq!(verify(&message, &certificate, at(NOW)), Ok(()));
    }
}

#[tokio::test]
async fn a_raw_post_has_the_same_headers_and_says_that_it_is_raw() {
    let server = TestWebServer::answering(200);
    let policy = default(&json!({ "subscription": SUBSCRIPTION }));
    let world = world_of(&policy, "http", &format!("{}/payments", server.url()));
    let body = "order o-1 placed: Grüße\r\n\u{1F600}";
    let post = RecordBuilder::raw("f3c0a2de-0000-4000-8000-000000000001", body)
        .attribute("tenant", "String", "gold");
    let ran = world.run([&post]).await;
    assert_eq!(ran.kept, [""; 0]);
    let (line, mut headers, _) = recorded();
    for (name, value) in [
        ("content-length", body.len().to_string()),
        // SNS's id is no longer known.
        ("x-amz-sns-message-id", post.id.clone()),
        ("x-amz-sns-rawdelivery", "true".to_owned()),
    ] {
        headers.insert(name.to_owned(), value);
    }
    assert_got(&server, &line, headers, body);
}

fn content_type(server: &TestWebServer) -> String {
    server.seen().pop().unwrap().parameters["content-type"].clone()
}

#[tokio::test]
async fn the_content_type_is_that_of_the_rules_request_policy() {
    let server = TestWebServer::answering(200);
    let mut delivery = at_once();
    delivery["requestPolicy"] = json!({ "headerContentType": "application/json" });
    let world = world_of(&default(&json!({ "deliveryPolicy": delivery })), "http", &server.url());
    world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(content_type(&server), "application/json");
}

/// SNS itself would send it so: the subscription or its topic may have a request policy.
#[tokio::test]
async fn the_content_type_is_that_of_the_subscription_where_the_rule_has_none() {
    let effective = json!({
        "healthyRetryPolicy": { "minDelayTarget": 20, "maxDelayTarget": 20, "numRetries": 3,
            "numMaxDelayRetries": 0, "numNoDelayRetries": 0, "numMinDelayRetries": 0,
            "backoffFunction": "linear" },
        "sicklyRetryPolicy": null,
        "throttlePolicy": null,
        "requestPolicy": { "headerContentType": "text/csv" },
        "guaranteed": false,
    });
    let mut with_request_policy = at_once();
    with_request_policy["requestPolicy"] = json!({ "headerContentType": "application/json" });
    for (delivery, expected) in [
        (at_once(), "text/csv"),
        (json!("from-subscription"), "text/csv"),
        (with_request_policy, "application/json"),
    ] {
        let server = TestWebServer::answering(200);
        let world = world_of(&default(&json!({ "deliveryPolicy": delivery })), "http", &server.url());
        world.cloud.resubscribe(SUBSCRIPTION, "EffectiveDeliveryPolicy", &effective.to_string());
        world.set_now(NOW + 60_000);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(content_type(&server), expected, "{delivery}");
    }
}

/// As SNS has it: an envelope is JSON or text, a raw message may be more.
#[tokio::test]
async fn a_type_for_raw_messages_counts_only_for_subscriptions_with_raw_delivery() {
    let mut delivery = at_once();
    delivery["requestPolicy"] = json!({ "headerContentType": "application/xml" });
    for (raw, expected) in [("true", "application/xml"), ("false", "text/plain; charset=UTF-8")] {
        let server = TestWebServer::answering(200);
        let policy = default(&json!({ "deliveryPolicy": delivery, "subscription": SUBSCRIPTION }));
        let world = world_of(&policy, "http", &server.url());
        world.cloud.resubscribe(SUBSCRIPTION, "RawMessageDelivery", raw);
        world.run([&RecordBuilder::raw("a", "<a/>")]).await;
        assert_eq!(content_type(&server), expected, "raw: {raw}");
    }
}

/// The content of a letter cannot add a header.
#[tokio::test]
async fn a_message_id_that_is_no_header_value_is_not_sent() {
    let server = TestWebServer::answering(200);
    for id in ["x\r\nHost: evil.example", "x\ny", "x\u{0}"] {
        let world = world_of(&json!({}), "http", &server.url());
        let mut envelope: Value = serde_json::from_str(&RecordBuilder::envelope("a").body()).unwrap();
        envelope["MessageId"] = id.into();
        let ran = world.run([&RecordBuilder::raw("a", &envelope.to_string())]).await;
        assert_eq!(ran.outcomes(), ["a archived permanent"]);
    }
    assert_eq!(server.seen(), []);
}

const NOTICES: &str = "arn:aws:sns:eu-central-1:123456789012:notices";

/// Returns everything that the function wrote: log, metrics, objects with their keys, notices.
fn outputs(ran: &TestInvocation, world: &FunctionWorld) -> String {
    let objects = world.cloud.objects().into_iter().map(|(key, object)| key + "\n" + &object);
    let notices = world.cloud.entries("Publish").into_iter().map(|entry| format!("{entry:?}"));
    [ran.text.clone(), ran.metrics.clone()].into_iter().chain(objects).chain(notices).collect()
}

/// A webhook's secret is anywhere in its URL.
#[tokio::test]
async fn of_a_url_only_scheme_host_and_a_digest_are_in_any_output() {
    const SECRET: &str = "S3CR3T";
    let delivery = json!({ "healthyRetryPolicy": {
        "minDelayTarget": 300, "maxDelayTarget": 300, "numRetries": 9, "numMinDelayRetries": 9 } });
    let policy = default(&json!({ "deliveryPolicy": delivery })).to_string();
    let settings = [
        ("REDRIVE_POLICY", policy.as_str()),
        ("ALLOW_LOOPBACK_HTTP", "true"),
        ("CONTROL", "s3://my-bucket/control"),
        ("NOTICE_TOPIC_ARN", NOTICES),
    ];
    for rest in ["/hook/S3CR3T?x=%20", "/hook?token=S3CR3T", "/#S3CR3T", "/S3CR3T/?S3CR3T#S3CR3T"] {
        let mut names = Vec::new();
        for (status, outcome) in [(200, "delivered"), (404, "archived permanent"), (503, "deferred failed")] {
            let server = TestWebServer::answering(status);
            let world = FunctionWorld::new(&settings);
            let url = format!("{}{rest}", server.url());
            world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "http", &url, DLQ);
            // Several failures in a row make a line about the endpoint.
            let posts: Vec<_> = (0..5)
                .map(|number| RecordBuilder::envelope(&number.to_string()).sent(NOW - 300_000))
                .collect();
            let ran = world.run(&posts).await;
            assert_eq!(ran.outcomes()[0], format!("0 {outcome}"));
            let path = rest.split('#').next().unwrap();
            assert_eq!(server.seen()[0].parameters["path"], path, "the server gets it");
            let outputs = outputs(&ran, &world);
            assert!(!outputs.contains(SECRET), "{outputs}");

            let name = ran.letter("0")["target.url"].as_str().unwrap().to_owned();
            let (shown, digest) = name.split_once('#').unwrap();
            assert_eq!((shown, digest.len()), (server.url().as_str(), 12));
            let others = ran.log.iter().filter_map(|line| line["target.url"].as_str());
            assert!(others.into_iter().all(|other| other == name), "{}", ran.text);
            let records = archived(&world.cloud).into_iter().filter(|line| line["archivedAt"].is_string());
            assert!(records.into_iter().all(|record| record["targetUrl"] == name));
            if status == 503 {
                assert!(outputs.contains(&format!(r#""target":"{name}""#)), "not on the list: {outputs}");
            }
            names.push(digest.to_owned());
        }
        names.dedup();
        assert_eq!(names.len(), 1, "one URL has one digest");
    }
    for userinfo in ["S3CR3T@", "user:S3CR3T@", "user:****@"] {
        let world = FunctionWorld::new(&settings);
        let url = format!("https://{userinfo}a.example/S3CR3T");
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "https", &url, DLQ);
        let ran = world.run([&RecordBuilder::envelope("a").sent(NOW - 300_000)]).await;
        assert_eq!(ran.outcomes(), ["a archived undeliverable_protocol"]);
        let outputs = outputs(&ran, &world);
        assert!(!outputs.contains(SECRET), "{outputs}");
        let subscription = Subscription {
            protocol: "https".to_owned(),
            endpoint: url,
            topic: TOPIC.to_owned(),
            dead_letter_target: None,
            raw: false,
            pending: false,
            delivery_policy: None,
        };
        assert!(!format!("{subscription:?}").contains(SECRET), "{subscription:?}");
    }
}

#[tokio::test]
async fn a_url_below_an_allowed_one_is_reached() {
    let server = TestWebServer::answering(200);
    for allowed in [server.url(), format!("{}/hook", server.url()), format!("{}/hook/", server.url())] {
        let policy = default(&json!({ "allowTargets": [WORKER, allowed] }));
        let world = world_of(&policy, "http", &format!("{}/hook/1?x=1", server.url()));
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a delivered"], "{allowed}");
    }
}

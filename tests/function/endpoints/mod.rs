//! Every kind of endpoint that a subscription can have gets what SNS would have sent, and its answer
//! is read as SNS reads it.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sns_redrive::signature::{Certificate, SignedMessage, verify};
use support::*;

fn default(default: &Value) -> Value {
    json!({ "default": default })
}

/// Retries at once, so that what is hidden is hidden for no time.
fn at_once() -> Value {
    json!({ "healthyRetryPolicy": { "numRetries": 9, "numNoDelayRetries": 9 } })
}

/// A world in which the letters' subscription has this endpoint.
fn world_of(policy: &Value, protocol: &str, endpoint: &str) -> World {
    let world = World::new(&[("REDRIVE_POLICY", &policy.to_string()), ("ALLOW_LOOPBACK_HTTP", "true")]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, protocol, endpoint, DLQ);
    world
}

/// Outcome, reason, detail, error code and class of a letter.
fn told(ran: &Ran, id: &str) -> [Value; 5] {
    let line = ran.letter(id);
    ["outcome", "reason", "detail", "error.code", "error.class"].map(|name| line[name].clone())
}

/// The body of the first record of a sample.
fn body_of(name: &str) -> String {
    sample(name)["Records"][0]["body"].as_str().unwrap().to_owned()
}

mod lambda {
    use super::*;

    /// What SNS sent to a function: the event of one sample, the payload of the other.
    fn events_of_sns() -> [Value; 2] {
        let destination: Value = serde_json::from_str(&body_of("lambda-destination")).unwrap();
        [serde_json::from_str(&body_of("lambda-async")).unwrap(), destination["requestPayload"].clone()]
    }

    /// The same message as it lies in the dead-letter queue: other spellings, no empty subject.
    fn envelope_of(event: &Value) -> String {
        let mut envelope = event["Records"][0]["Sns"].clone();
        let fields = envelope.as_object_mut().unwrap();
        for (function, queue) in [("SigningCertUrl", "SigningCertURL"), ("UnsubscribeUrl", "UnsubscribeURL")]
        {
            let value = fields.remove(function).unwrap();
            fields.insert(queue.to_owned(), value);
        }
        fields.retain(|_, value| !value.is_null());
        serde_json::to_string_pretty(&envelope).unwrap()
    }

    async fn invoked(world: &World, post: &Post) -> Value {
        let ran = world.run([post]).await;
        assert_eq!(ran.outcomes(), [format!("{} delivered", post.id)]);
        assert_eq!(ran.letter(&post.id)["target.arn"], NOTIFIER);
        let calls = world.cloud.calls("Invoke");
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].to, "orders-notifier");
        assert_eq!(calls[0].host, "lambda.eu-central-1.amazonaws.com");
        // A synchronous call would wait for the function, and SNS's own is none.
        assert_eq!(calls[0].headers["x-amz-invocation-type"], "Event");
        serde_json::from_str(&calls[0].entries[0].body).unwrap()
    }

    #[tokio::test]
    async fn a_subscriber_gets_the_event_that_sns_sends_and_our_mark_among_its_attributes() {
        for event in events_of_sns() {
            let id = event["Records"][0]["Sns"]["MessageId"].as_str().unwrap();
            let letter_id = format!("{id}/{LAMBDA_SUBSCRIPTION}");
            let payload = invoked(&World::new(&[]), &Post::raw("a", &envelope_of(&event))).await;
            let message = event["Records"][0]["Sns"]["Message"].as_str().unwrap();
            let mut expected = event.clone();
            expected["Records"][0]["Sns"]["MessageAttributes"]["sns-redrive"] =
                json!({ "Type": "String", "Value": mark_text(1, &letter_id, NOW, message) });
            assert_eq!(payload, expected);
        }
    }

    #[tokio::test]
    async fn a_message_without_attributes_and_subject_gets_the_mark_alone_and_a_null() {
        let mut post = Post::envelope("a").subscription(LAMBDA_SUBSCRIPTION);
        for without_attributes in [false, true] {
            if without_attributes {
                let mut envelope: Value = serde_json::from_str(&post.body()).unwrap();
                envelope.as_object_mut().unwrap().remove("MessageAttributes");
                post = Post::raw("a", &envelope.to_string());
            }
            let payload = invoked(&World::new(&[]), &post).await;
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
        let full = (0..10).fold(Post::envelope("a").subscription(LAMBDA_SUBSCRIPTION), |post, number| {
            post.sns_attribute(&format!("a{number}"), "String", "x")
        });
        let payload = invoked(&World::new(&[]), &full).await;
        let attributes = payload["Records"][0]["Sns"]["MessageAttributes"].as_object().unwrap();
        assert_eq!(attributes.len(), 11);
    }

    #[tokio::test]
    async fn each_letter_is_a_call_of_its_own() {
        let world = World::new(&[]);
        let posts = ["a", "b", "c"].map(|id| Post::envelope(id).subscription(LAMBDA_SUBSCRIPTION));
        world.cloud.script(|call| match call.op.as_str() {
            "Invoke" if !call.entries_with("message of b").is_empty() => {
                Reply::Fail(429, "TooManyRequestsException", "slow")
            }
            _ => Reply::Accept,
        });
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "c delivered"]);
        assert_eq!(world.cloud.calls("Invoke").len(), 3);
        assert_eq!(world.cloud.calls("GetSubscriptionAttributes").len(), 1);
    }

    #[tokio::test]
    async fn answers_of_lambda_are_told_apart() {
        for (reply, code, class) in [
            (Reply::Fail(429, "TooManyRequestsException", ""), "TooManyRequestsException", "throttling"),
            (Reply::Fail(500, "ServiceException", ""), "ServiceException", "transient"),
            (
                Reply::Fail(404, "ResourceNotFoundException", ""),
                "ResourceNotFoundException",
                "action_required",
            ),
            (Reply::Fail(403, "AccessDeniedException", ""), "AccessDeniedException", "action_required"),
            (Reply::Fail(502, "KMSDisabledException", ""), "KMSDisabledException", "action_required"),
            (Reply::Fail(502, "EC2ThrottledException", ""), "EC2ThrottledException", "transient"),
            (Reply::Reset, "Unreachable", "transient"),
            (Reply::NoConnection, "Timeout", "transient"),
            (Reply::Nonsense(503, "<html>"), "Http503", "transient"),
        ] {
            let world = World::new(&[]);
            world.cloud.reply("Invoke", reply);
            let ran = world.run([&Post::envelope("a").subscription(LAMBDA_SUBSCRIPTION)]).await;
            let [outcome, _, _, told_code, told_class] = told(&ran, "a");
            assert_eq!([outcome, told_code, told_class], ["deferred", code, class]);
        }
        for code in ["InvalidRequestContentException", "RequestTooLargeException"] {
            let world = World::new(&[]);
            world.cloud.reply("Invoke", Reply::Fail(413, code, ""));
            let ran = world.run([&Post::envelope("a").subscription(LAMBDA_SUBSCRIPTION)]).await;
            assert_eq!(ran.outcomes(), ["a archived permanent"], "{code}");
        }
    }
}

mod firehose {
    use super::*;

    const DENIED: EntryFate = EntryFate::Failed("InternalFailure", "S3CR3T", false);
    const SLOW: EntryFate = EntryFate::Failed("ServiceUnavailableException", "Slow down.", false);

    /// The records of the only request.
    fn records(world: &World) -> Vec<String> {
        let calls = world.cloud.calls("PutRecordBatch");
        assert_eq!(calls.len(), 1);
        calls[0].entries.iter().map(|entry| entry.body.clone()).collect()
    }

    #[tokio::test]
    async fn a_stream_gets_each_stored_body_as_a_line_all_in_one_request() {
        let world = world_of(&json!({}), "firehose", STREAM);
        let posts = [
            Post::raw("envelope", &body_of("envelope")),
            Post::envelope("a").sns_attribute("tenant", "String", "gold"),
            Post::envelope("b").message("Grüße & <thanks>\n"),
        ];
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["envelope delivered", "a delivered", "b delivered"]);
        assert_eq!(ran.letter("a")["target.arn"], STREAM);
        let calls = world.cloud.calls("PutRecordBatch");
        assert_eq!(calls.len(), 1);
        assert_eq!(
            (calls[0].to.as_str(), calls[0].host.as_str()),
            ("orders", "firehose.eu-central-1.amazonaws.com")
        );
        assert_eq!(records(&world), posts.map(|post| post.body() + "\n"));
    }

    #[tokio::test]
    async fn a_body_that_ends_with_a_line_break_gets_no_second_one() {
        let world = world_of(&default(&json!({ "subscription": SUBSCRIPTION })), "firehose", STREAM);
        let posts = [("a", "unix\n"), ("b", "windows\r\n"), ("c", "two lines\n\n"), ("d", "one\ntwo")];
        world.run(&posts.map(|(id, body)| Post::raw(id, body))).await;
        assert_eq!(records(&world), ["unix\n", "windows\r\n", "two lines\n\n", "one\ntwo\n"]);
    }

    #[tokio::test]
    async fn a_rule_decides_whether_its_records_end_with_a_line_break() {
        let gold = json!({ "messageAttributes": { "tenant": ["gold"] } });
        let rule = json!({ "name": "gold", "match": gold, "recordDelimiter": "newline" });
        let policy = json!({ "default": { "recordDelimiter": "none" }, "rules": [rule] });
        let world = world_of(&policy, "firehose", STREAM);
        let posts = [Post::envelope("a"), Post::envelope("b").sns_attribute("tenant", "String", "gold")];
        world.run(&posts).await;
        let [a, b] = posts.map(|post| post.body());
        assert_eq!(records(&world), [a, b + "\n"]);
    }

    /// Five records fill a request to its last byte; with a line break each they are too many for one.
    #[tokio::test]
    async fn a_line_break_counts_for_the_size_of_a_request() {
        const MOST: usize = 4 * 1024 * 1024;
        let around = Post::envelope("a").message("").body().len();
        let sized = |id: &str, bytes: usize| Post::envelope(id).message(&"x".repeat(bytes - around));
        for (delimiter, requests) in [("none", vec![5]), ("newline", vec![4, 1])] {
            let world = world_of(&default(&json!({ "recordDelimiter": delimiter })), "firehose", STREAM);
            let full = ["a", "b", "c", "d"].map(|id| sized(id, 1_000_000));
            let rest = sized("e", MOST - 4_000_000);
            let ran = world.run(full.iter().chain([&rest])).await;
            assert_eq!(ran.kept, [""; 0]);
            let calls = world.cloud.calls("PutRecordBatch");
            assert_eq!(calls.iter().map(|call| call.entries.len()).collect::<Vec<_>>(), requests);
        }
    }

    /// Firehose answers 200 and says of each record what became of it.
    #[tokio::test]
    async fn records_that_a_200_did_not_take_fail_alone() {
        let world = world_of(&json!({}), "firehose", STREAM);
        world.cloud.script(|call| match call.op.as_str() {
            "PutRecordBatch" => Reply::Except(vec![(1, DENIED), (3, SLOW)]),
            _ => Reply::Accept,
        });
        let posts = ["a", "b", "c", "d"].map(Post::envelope);
        let ran = world.run(&posts).await;
        assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "c delivered", "d deferred failed"]);
        assert_eq!(ran.kept, ["b", "d"]);
        assert_eq!(
            [&told(&ran, "b")[3..], &told(&ran, "d")[3..]],
            [
                [json!("InternalFailure"), json!("transient")],
                [json!("ServiceUnavailableException"), json!("transient")],
            ]
        );
        assert_eq!(world.cloud.calls("PutRecordBatch").len(), 1);
        assert!(!ran.text.contains("S3CR3T"));
    }

    /// An answer that is shorter than the request says nothing of the rest.
    #[tokio::test]
    async fn records_without_an_answer_are_not_delivered() {
        let world = world_of(&json!({}), "firehose", STREAM);
        world.cloud.reply("PutRecordBatch", Reply::Except(vec![(1, EntryFate::Missing)]));
        let ran = world.run(&["a", "b", "c"].map(Post::envelope)).await;
        assert_eq!(ran.outcomes(), ["a delivered", "b deferred failed", "c deferred failed"]);
    }

    #[tokio::test]
    async fn one_bad_record_does_not_take_its_neighbours_along() {
        let world = world_of(&json!({}), "firehose", STREAM);
        world.cloud.script(|call| {
            let bad = call.op == "PutRecordBatch" && !call.entries_with("message of b").is_empty();
            if bad { Reply::Fail(400, "InvalidArgumentException", "too large") } else { Reply::Accept }
        });
        let ran = world.run(&["a", "b", "c"].map(Post::envelope)).await;
        let outcomes = ran.outcomes();
        assert_eq!([&outcomes[0], &outcomes[2]], ["a delivered", "c delivered"]);
        assert!(!outcomes[1].contains("delivered"), "{}", outcomes[1]);
    }

    #[tokio::test]
    async fn a_request_holds_at_most_500_records() {
        let world = world_of(&json!({}), "firehose", STREAM);
        let posts: Vec<_> = (0..501).map(|number| Post::envelope(&format!("m{number}"))).collect();
        let ran = world.run(&posts).await;
        assert_eq!(ran.kept, [""; 0]);
        let sizes: Vec<_> =
            world.cloud.calls("PutRecordBatch").iter().map(|call| call.entries.len()).collect();
        assert_eq!(sizes, [500, 1]);
    }
}

mod sqs {
    use super::*;

    #[tokio::test]
    async fn a_fifo_queue_gets_body_group_and_a_new_deduplication_id() {
        for raw in [false, true] {
            let post = if raw { Post::raw("a", "plain") } else { Post::envelope("a") };
            let post = post.queue(FIFO_DLQ).group("customer-17").system("MessageDeduplicationId", "original");
            let post = if raw { post } else { post.topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION) };
            let world = World::with_policy(&default(&json!({ "subscription": FIFO_SUBSCRIPTION })));
            let ran = world.run([&post]).await;
            assert_eq!(ran.outcomes(), ["a delivered"]);
            assert_eq!(ran.letter("a")["target.arn"], FIFO_WORKER);
            let entry = world.cloud.entries("SendMessageBatch").remove(0);
            assert_eq!((entry.body, entry.group_id.as_deref()), (post.body(), Some("customer-17")));
            let id = entry.deduplication_id.unwrap();
            assert!(!id.is_empty() && id != "original");
            assert_eq!(entry.attributes.keys().collect::<Vec<_>>(), ["sns-redrive"]);
        }
    }
}

/// Nobody but SNS sends e-mail, SMS and pushes; but the topic still can, where the rule says so.
mod protocols_of_sns_alone {
    use super::*;

    const PUSH: &str = "arn:aws:sns:eu-central-1:123456789012:endpoint/GCM/app/1";

    #[tokio::test]
    async fn are_undeliverable_unless_the_rule_sends_to_the_topic() {
        for (protocol, endpoint) in [
            ("email", "orders@example.com"),
            ("email-json", "orders@example.com"),
            ("sms", "+491700000000"),
            ("application", PUSH),
            ("https", "https://shop:****@example.com/orders"),
        ] {
            let world = world_of(&json!({}), protocol, endpoint);
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a archived undeliverable_protocol"]);
            let calls = ["GetQueueAttributes", "GetSubscriptionAttributes", "PutObject"];
            assert_eq!(operations(&world.cloud), calls);
            let detail = archived(&world.cloud)[0]["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(if protocol == "https" { "****" } else { protocol }), "{detail}");
            // An address is not for the log.
            assert!(!ran.text.contains(endpoint), "{}", ran.text);

            let world = world_of(&default(&json!({ "target": "topic" })), protocol, endpoint);
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a delivered"]);
            assert_eq!(world.cloud.entries("PublishBatch").len(), 1);
        }
    }
}

mod http {
    use super::*;

    /// `events/http-post.txt`, without what belongs to the connection: line, headers, body.
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

    fn with_host(mut headers: BTreeMap<String, String>, server: &Server) -> BTreeMap<String, String> {
        let host = server.url().split_once("://").unwrap().1.to_owned();
        headers.insert("host".to_owned(), host);
        headers
    }

    #[tokio::test]
    async fn a_post_is_the_recorded_one_in_line_headers_and_body() {
        let server = Server::answering(200);
        let world = world_of(&json!({}), "http", &format!("{}/orders", server.url()));
        let event = sample("envelope");
        let ran = world.run_event(&event).await;
        assert_eq!(ran.kept, [""; 0]);
        let (line, headers, body) = recorded();
        let [request] = server.seen().try_into().unwrap();
        let Request { line: sent_line, headers: sent_headers, body: sent_body, .. } = request;
        assert_eq!((sent_line, sent_headers), (line, with_host(headers, &server)));
        assert_eq!(sent_body, body);
        assert_eq!(sent_body, body_of("envelope"), "byte for byte what lies in the queue");
    }

    /// What a subscriber does with it: the signature over the body that arrived must verify.
    #[tokio::test]
    async fn the_signature_still_verifies_over_the_body_that_arrives() {
        let certificate = Certificate::from_pem(include_str!("../data/signature/sns.pem")).unwrap();
        for body in
            [include_str!("../data/signature/v1.json"), include_str!("../data/signature/v2-subject.json")]
        {
            let server = Server::answering(200);
            let world = world_of(&json!({}), "http", &server.url());
            assert_eq!(world.run([&Post::raw("a", body)]).await.outcomes(), ["a delivered"]);
            let message = SignedMessage::read(&server.seen()[0].body).unwrap();
            assert_eq!(verify(&message, &certificate, at(NOW)), Ok(()));
        }
    }

    #[tokio::test]
    async fn a_raw_post_has_the_same_headers_and_says_that_it_is_raw() {
        let server = Server::answering(200);
        let policy = default(&json!({ "subscription": SUBSCRIPTION }));
        let world = world_of(&policy, "http", &format!("{}/orders", server.url()));
        let body = "order o-1 placed: Grüße\r\n\u{1F600}";
        let post =
            Post::raw("f3c0a2de-0000-4000-8000-000000000001", body).attribute("tenant", "String", "gold");
        let ran = world.run([&post]).await;
        assert_eq!(ran.kept, [""; 0]);
        let (line, mut headers, _) = recorded();
        for (name, value) in [
            ("content-length", body.len().to_string()),
            // SNS's id is not known any more.
            ("x-amz-sns-message-id", post.id.clone()),
            ("x-amz-sns-rawdelivery", "true".to_owned()),
        ] {
            headers.insert(name.to_owned(), value);
        }
        let [request] = server.seen().try_into().unwrap();
        assert_eq!((request.line, request.headers), (line, with_host(headers, &server)));
        assert_eq!(request.body, body);
    }

    fn content_type(server: &Server) -> String {
        server.seen().pop().unwrap().headers["content-type"].clone()
    }

    #[tokio::test]
    async fn the_content_type_is_that_of_the_rules_request_policy() {
        let server = Server::answering(200);
        let mut delivery = at_once();
        delivery["requestPolicy"] = json!({ "headerContentType": "application/json" });
        let world = world_of(&default(&json!({ "deliveryPolicy": delivery })), "http", &server.url());
        world.run([&Post::envelope("a")]).await;
        assert_eq!(content_type(&server), "application/json");
    }

    /// As SNS itself would send it: the subscription, or its topic, may have a request policy.
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
            let server = Server::answering(200);
            let world = world_of(&default(&json!({ "deliveryPolicy": delivery })), "http", &server.url());
            world.cloud.resubscribe(SUBSCRIPTION, "EffectiveDeliveryPolicy", &effective.to_string());
            world.set_now(NOW + 60_000);
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a delivered"]);
            assert_eq!(content_type(&server), expected, "{delivery}");
        }
    }

    /// What a letter holds becomes no header that it should not be.
    #[tokio::test]
    async fn a_message_id_that_is_no_header_value_is_not_sent() {
        let server = Server::answering(200);
        for id in ["x\r\nHost: evil.example", "x\ny", "x\u{0}"] {
            let world = world_of(&json!({}), "http", &server.url());
            let mut envelope: Value = serde_json::from_str(&Post::envelope("a").body()).unwrap();
            envelope["MessageId"] = id.into();
            let ran = world.run([&Post::raw("a", &envelope.to_string())]).await;
            assert_eq!(ran.outcomes(), ["a archived permanent"]);
        }
        assert_eq!(server.seen(), []);
    }

    #[tokio::test]
    async fn the_query_of_a_url_goes_to_the_server_and_into_no_log_and_no_archive() {
        for (status, outcome) in [(200, "a delivered"), (404, "a archived permanent")] {
            let server = Server::answering(status);
            let url = format!("{}/hook", server.url());
            let world = world_of(&json!({}), "http", &format!("{url}?token=S3CR3T&x=%20#part"));
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), [outcome]);
            assert_eq!(server.seen()[0].line, "POST /hook?token=S3CR3T&x=%20 HTTP/1.1");
            assert_eq!(ran.letter("a")["target.url"], url);
            assert!(!ran.text.contains("S3CR3T"));
            for record in archived(&world.cloud) {
                assert_eq!(record["targetUrl"], url);
                assert!(!record.to_string().contains("S3CR3T"));
            }
        }
    }

    #[tokio::test]
    async fn a_url_below_an_allowed_one_is_reached() {
        let server = Server::answering(200);
        for allowed in [server.url(), format!("{}/hook", server.url()), format!("{}/hook/", server.url())] {
            let policy = default(&json!({ "allowTargets": [WORKER, allowed] }));
            let world = world_of(&policy, "http", &format!("{}/hook/1?x=1", server.url()));
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a delivered"], "{allowed}");
        }
    }
}

mod http_answers {
    use super::*;

    #[tokio::test]
    async fn are_classified_as_sns_does() {
        let delivered = ("delivered", None);
        let failed = |class| ("deferred", Some(class));
        let permanent = ("archived", Some("permanent"));
        for (status, (outcome, class)) in [
            (200, delivered),
            (201, delivered),
            (202, delivered),
            (204, delivered),
            (299, delivered),
            (300, failed("action_required")),
            (304, failed("action_required")),
            (400, permanent),
            (401, permanent),
            (403, permanent),
            (404, permanent),
            (408, permanent),
            (410, permanent),
            (413, permanent),
            (429, failed("throttling")),
            (500, failed("transient")),
            (502, failed("transient")),
            (503, failed("transient")),
            (504, failed("transient")),
            (599, failed("transient")),
        ] {
            let server = Server::answering(status);
            let world = world_of(&json!({}), "http", &server.url());
            let ran = world.run([&Post::envelope("a")]).await;
            let [told_outcome, reason, _, code, told_class] = told(&ran, "a");
            assert_eq!(told_outcome, outcome, "{status}");
            assert_eq!(told_class, json!(class), "{status}");
            let expected = class.map(|_| format!("Http{status}"));
            assert_eq!(code, json!(expected), "{status}");
            if outcome == "archived" {
                assert_eq!(reason, "permanent");
            }
            assert_eq!(server.seen().len(), 1, "{status}: a post is made once");
            assert_eq!(ran.kept.is_empty(), outcome != "deferred", "{status}");
        }
    }

    /// The second server could be anywhere.
    #[tokio::test]
    async fn that_redirect_are_not_followed() {
        for status in [301, 302, 303, 307, 308] {
            let elsewhere = Server::answering(200);
            let location = format!("{}/orders", elsewhere.url());
            let answer =
                format!("HTTP/1.1 {status} Told\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
            let server = Server::scripted(move |_| Answer::Bytes(answer.clone()));
            let world = world_of(&json!({}), "http", &server.url());
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a deferred failed"]);
            let line = ran.letter("a");
            assert_eq!(
                [&line["error.code"], &line["error.class"]],
                [&json!(format!("Http{status}")), &json!("action_required")]
            );
            assert_eq!(line["detail"], "the endpoint redirects, and SNS follows no redirects");
            assert_eq!((server.seen().len(), elsewhere.connections()), (1, 0));
        }
    }

    #[tokio::test]
    async fn that_do_not_come_are_transient() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let world = world_of(&json!({}), "http", &format!("http://{closed}/"));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        assert_eq!(told(&ran, "a")[3..], [json!("Unreachable"), json!("transient")]);

        for answer in [
            Answer::Close,
            Answer::Bytes("HTTP/2 what\r\n\r\n".to_owned()),
            Answer::Bytes("SSH-2.0-OpenSSH_9.6\r\n".to_owned()),
            Answer::Bytes(format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(1_000_000))),
        ] {
            let server = Server::scripted(move |_| answer.clone());
            let world = world_of(&json!({}), "http", &server.url()).with_time(Duration::from_secs(5));
            let ran = world.run([&Post::envelope("a")]).await;
            assert_eq!(ran.outcomes(), ["a deferred failed"]);
            assert_eq!(told(&ran, "a")[3..], [json!("Unreachable"), json!("transient")]);
            assert_eq!(server.seen().len(), 1, "who knows what the server did: it is not asked again");
        }
    }

    #[tokio::test]
    async fn that_come_after_the_functions_time_are_transient_and_keep_nobody_waiting() {
        for answer in [Answer::Silence, Answer::Late(Duration::from_secs(9), 200)] {
            let server = Server::scripted(move |_| answer.clone());
            let world = world_of(&json!({}), "http", &server.url()).with_time(Duration::from_millis(600));
            let began = Instant::now();
            let ran = world.run([&Post::envelope("a")]).await;
            assert!(began.elapsed() < Duration::from_millis(600));
            assert_eq!(ran.outcomes(), ["a deferred failed"]);
            assert_eq!(told(&ran, "a")[3..], [json!("DeadlineExceeded"), json!("transient")]);
        }
    }

    #[tokio::test]
    async fn that_are_slow_but_in_time_count() {
        let server = Server::scripted(|_| Answer::Late(Duration::from_millis(300), 200));
        let world = world_of(&json!({}), "http", &server.url());
        assert_eq!(world.run([&Post::envelope("a")]).await.outcomes(), ["a delivered"]);
    }

    /// SNS waits 15 s. The only test that waits as long; what is under way at once waits together.
    #[tokio::test]
    async fn are_waited_for_15_seconds() {
        let silent = Server::scripted(|_| Answer::Silence);
        let stalled = Server::scripted(|_| Answer::Stalled(200));
        let world = world_of(&json!({}), "http", &silent.url());
        world.cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "http", &stalled.url(), DLQ);
        let began = Instant::now();
        let ran =
            world.run([&Post::envelope("a"), &Post::envelope("b").subscription(OTHER_SUBSCRIPTION)]).await;
        let range = Duration::from_millis(14_900)..Duration::from_secs(17);
        assert!(range.contains(&began.elapsed()), "{:?}", began.elapsed());
        assert_eq!(told(&ran, "a")[3..], [json!("Timeout"), json!("transient")]);
        // The server has said that it took the letter: that it does not end its answer changes nothing.
        assert_eq!(ran.outcomes(), ["a deferred failed", "b delivered"]);
    }

    #[tokio::test]
    async fn without_end_are_not_read_to_the_end() {
        for (status, outcome) in
            [(200, "a delivered"), (500, "a deferred failed"), (400, "a archived permanent")]
        {
            let began = Instant::now();
            let server = Server::scripted(move |_| Answer::Endless(status));
            let world = world_of(&json!({}), "http", &server.url());
            assert_eq!(world.run([&Post::envelope("a")]).await.outcomes(), [outcome]);
            assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn keep_the_connection_for_the_next_letter() {
        let server = Server::answering(200);
        let world = world_of(&json!({}), "http", &server.url());
        for id in ["a", "b", "c"] {
            assert_eq!(world.run([&Post::envelope(id)]).await.outcomes(), [format!("{id} delivered")]);
        }
        assert_eq!((server.seen().len(), server.connections()), (3, 1));
    }

    /// A connection that the server has closed meanwhile costs no retry.
    #[tokio::test]
    async fn on_a_connection_that_was_closed_meanwhile_come_over_a_new_one() {
        let server = Server::scripted(|_| Answer::StatusAndClose(200));
        let world = world_of(&json!({}), "http", &server.url());
        for id in ["a", "b", "c"] {
            assert_eq!(world.run([&Post::envelope(id)]).await.outcomes(), [format!("{id} delivered")]);
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        assert_eq!((server.seen().len(), server.connections()), (3, 3));
    }

    #[tokio::test]
    async fn are_those_of_each_letter_alone() {
        let server = Server::scripted(|number| Answer::Status([200, 500, 404][number % 3]));
        let world = world_of(&json!({}), "http", &server.url());
        let ran = world.run(&["a", "b", "c"].map(Post::envelope)).await;
        let mut outcomes: Vec<_> =
            ran.letters().iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect();
        outcomes.sort();
        assert_eq!(outcomes, ["archived", "deferred", "delivered"]);
        assert_eq!(ran.metrics()["FailuresTransient"], 1);
        assert_eq!(ran.metrics()["FailuresPermanent"], 1);
    }
}

mod https {
    use std::process::Command;

    use sns_redrive::clients::Clients;

    use super::*;

    const KEY: &str = include_str!("../data/https/localhost.key");
    const CHAIN: &str = include_str!("../data/https/localhost.pem");

    /// The authority that the system trusts is told once per process, by a variable: so this runs the
    /// test of that name in a process of its own, and says whether this is it.
    fn trusting(test: &str) -> bool {
        let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/https/authority.pem");
        if std::env::var("SSL_CERT_FILE").is_ok_and(|file| file == authority) {
            return true;
        }
        let ran = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env("SSL_CERT_FILE", authority)
            .env_remove("SSL_CERT_DIR")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success() && told.contains("1 passed"),
            "{told}{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        false
    }

    #[tokio::test]
    async fn a_post_goes_over_tls_to_a_server_with_a_good_certificate() {
        if !trusting("endpoints::https::a_post_goes_over_tls_to_a_server_with_a_good_certificate") {
            return;
        }
        let server = Server::with_tls(CHAIN, KEY, 200);
        for host in ["localhost", "127.0.0.1"] {
            let world = world_of(&json!({}), "https", &server.url_of("https", host));
            let post = Post::envelope("a");
            let ran = world.run([&post]).await;
            assert_eq!(ran.outcomes(), ["a delivered"], "{}", ran.text);
            let request = server.seen().pop().unwrap();
            assert_eq!(request.body, post.body());
            assert_eq!(request.headers["x-amz-sns-subscription-arn"], SUBSCRIPTION);
        }
    }

    #[tokio::test]
    async fn the_clients_of_aws_trust_the_same_authorities() {
        if !trusting("endpoints::https::the_clients_of_aws_trust_the_same_authorities") {
            return;
        }
        let (good, elsewhere) = (
            Server::with_tls(CHAIN, KEY, 200),
            Server::with_tls(
                include_str!("../data/https/elsewhere.pem"),
                include_str!("../data/https/elsewhere.key"),
                200,
            ),
        );
        for (server, expected) in [(&good, 1), (&elsewhere, 0)] {
            let endpoint = server.url_of("https", "localhost");
            let clients = Clients::from_environment(|name| match name {
                "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
                "AWS_REGION" => Some("eu-central-1".to_owned()),
                "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("example".to_owned()),
                _ => None,
            })
            .unwrap();
            let put = clients.s3.put_object().bucket("graveyard").key("key").send().await;
            assert_eq!((put.is_ok(), server.seen().len()), (expected == 1, expected));
        }
    }

    #[tokio::test]
    async fn a_server_with_the_certificate_of_another_name_gets_nothing() {
        if !trusting("endpoints::https::a_server_with_the_certificate_of_another_name_gets_nothing") {
            return;
        }
        let (chain, key) =
            (include_str!("../data/https/elsewhere.pem"), include_str!("../data/https/elsewhere.key"));
        gets_nothing(&Server::with_tls(chain, key, 200)).await;
    }

    #[tokio::test]
    async fn a_server_with_a_certificate_that_nobody_trusts_gets_nothing() {
        gets_nothing(&Server::with_tls(CHAIN, KEY, 200)).await;
    }

    #[tokio::test]
    async fn a_server_without_tls_gets_nothing() {
        let server = Server::answering(200);
        gets_nothing(&server).await;
    }

    /// A broken TLS connection is retryable for SNS, so it is here.
    async fn gets_nothing(server: &Server) {
        let world = world_of(&json!({}), "https", &server.url_of("https", "localhost"))
            .with_time(Duration::from_secs(2));
        let ran = world.run([&Post::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a deferred failed"]);
        assert_eq!(told(&ran, "a")[4], "transient");
        assert_eq!(server.seen(), []);
    }
}

/// What an operator can mend goes on along the schedule; what nobody can does not.
mod failures {
    use super::*;

    #[tokio::test]
    async fn that_an_operator_can_mend_go_on_and_say_what_to_do() {
        let missing = "the target does not exist";
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
                World::with_policy(&default(&json!({ "target": target, "deliveryPolicy": at_once() })));
            world.cloud.reply(op, Reply::Fail(400, code, "told"));
            for receive in 1..=9 {
                let ran = world.run([&Post::envelope("a").received(receive)]).await;
                let [outcome, reason, told_detail, _, class] = told(&ran, "a");
                let last = receive == 9;
                let expected = if last { ["archived", "exhausted"] } else { ["deferred", "failed"] };
                assert_eq!([outcome, reason], expected, "{code} {receive}");
                assert_eq!([told_detail, class], [detail, "action_required"], "{code} {receive}");
                assert_eq!(ran.letter("a")["retry.number"], receive);
                assert_eq!(ran.metrics()["FailuresActionRequired"], 1);
                assert_eq!(ran.metrics()["FailuresPermanent"], 0);
            }
            assert_eq!(archived(&world.cloud)[0]["detail"], detail, "{code}");
            assert_eq!(archived(&world.cloud)[0]["error"]["class"], "action_required", "{code}");
        }
    }

    #[tokio::test]
    async fn once_mended_end_with_a_delivery() {
        let world = World::with_policy(&default(&json!({ "deliveryPolicy": at_once() })));
        world.cloud.reply("SendMessageBatch", Reply::Fail(403, "AccessDenied", "no"));
        assert_eq!(world.run([&Post::envelope("a")]).await.outcomes(), ["a deferred failed"]);
        world.cloud.script(|_| Reply::Accept);
        let ran = world.run([&Post::envelope("a").received(2)]).await;
        assert_eq!(ran.outcomes(), ["a delivered"]);
        assert_eq!(ran.letter("a")["detail"], Value::Null);
        assert_eq!(ran.metrics()["FailuresActionRequired"], 0);
    }

    #[tokio::test]
    async fn that_are_permanent_archive_at_once_unless_the_rule_retries_them() {
        let server = Server::answering(410);
        let posts = [
            Post::envelope("queue"),
            Post::envelope("topic").sns_attribute("to", "String", "topic"),
            Post::envelope("function").subscription(LAMBDA_SUBSCRIPTION),
            Post::envelope("http").subscription(OTHER_SUBSCRIPTION),
        ];
        for (retry_permanent, outcome) in [(false, "archived permanent"), (true, "deferred failed")] {
            let world = World::new(&[
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
            let bad = EntryFate::Failed("InvalidMessageContents", "", true);
            world.cloud.script(move |call| match call.op.as_str() {
                "SendMessageBatch" => Reply::Except(vec![(0, bad)]),
                "PublishBatch" => Reply::Except(vec![(0, EntryFate::Failed("InvalidParameter", "", true))]),
                "Invoke" => Reply::Fail(400, "InvalidRequestContentException", ""),
                _ => Reply::Accept,
            });
            let ran = world.run(&posts).await;
            let expected: Vec<_> = posts.iter().map(|post| format!("{} {outcome}", post.id)).collect();
            assert_eq!(ran.outcomes(), expected);
            assert_eq!(ran.metrics()["FailuresPermanent"], 4);
            assert_eq!(ran.metrics()["ArchivedPermanent"], if retry_permanent { 0 } else { 4 });
        }
    }

    /// A server that only lets SNS's addresses in, for instance.
    #[tokio::test]
    async fn of_a_server_that_does_not_let_the_function_in_say_what_to_do() {
        let refused = "the server does not let this function in: allow the address that it calls from, or give it \
            the permission that it lacks; retryPermanent in the rule keeps a letter on its schedule meanwhile";
        for (status, detail) in [(401, json!(refused)), (403, json!(refused)), (404, Value::Null)] {
            let server = Server::answering(status);
            let world = world_of(&json!({}), "http", &server.url());
            let ran = world.run([&Post::envelope("a")]).await;
            let expected = [json!("archived"), json!("permanent"), detail.clone()];
            assert_eq!(told(&ran, "a")[..3], expected, "{status}");
            assert_eq!(archived(&world.cloud)[0]["detail"], detail, "{status}");

            let world = world_of(&default(&json!({ "retryPermanent": true })), "http", &server.url());
            let ran = world.run([&Post::envelope("a")]).await;
            let expected = [json!("deferred"), json!("failed"), detail];
            assert_eq!(told(&ran, "a")[..3], expected, "{status}");
        }
    }

    #[tokio::test]
    async fn that_are_permanent_exhaust_the_schedule_where_the_rule_retries_them() {
        let server = Server::answering(410);
        let policy = default(&json!({ "retryPermanent": true, "deliveryPolicy": at_once() }));
        let world = world_of(&policy, "http", &server.url());
        for receive in 1..=9 {
            let ran = world.run([&Post::envelope("a").received(receive)]).await;
            let outcome = if receive < 9 { "a deferred failed" } else { "a archived exhausted" };
            assert_eq!(ran.outcomes(), [outcome]);
        }
        assert_eq!(server.seen().len(), 9);
        assert_eq!(archived(&world.cloud)[0]["error"], json!({ "code": "Http410", "class": "permanent" }));
    }
}

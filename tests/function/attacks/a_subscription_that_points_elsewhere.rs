//! The subscription's owner is an attacker, or was tricked. Then the rule decides where letters may go.

use super::*;

fn world(protocol: &str, endpoint: &str, allowed: &Value) -> FunctionWorld {
    let world = FunctionWorld::new(&[
        ("REDRIVE_POLICY", &default(&json!({ "allowTargets": allowed })).to_string()),
        ("ALLOW_LOOPBACK_HTTP", "true"),
    ]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, protocol, endpoint, DLQ);
    world
}

#[tokio::test]
async fn at_an_endpoint_beside_the_allowed_ones_is_refused() {
    let server = TestWebServer::answering(200);
    let (url, other) = (format!("{}/hook", server.url()), server.url_of("http", "localhost"));
    for (protocol, endpoint, allowed) in [
        ("sqs", PAYROLL, json!([WORKER])),
        ("lambda", REFUND, json!([WORKER, NOTIFIER])),
        ("lambda", &format!("{NOTIFIER}:live"), json!([NOTIFIER])),
        ("firehose", STREAM, json!([format!("{STREAM}-audit")])),
        ("http", &url, json!([])),
        ("http", &url, json!([WORKER])),
        ("http", &url, json!([other])),
        ("http", &format!("{url}-other"), json!([url])),
        ("http", &format!("{url}/../admin"), json!([url])),
        ("http", &format!("{url}/%2e%2e/admin"), json!([url])),
    ] {
        let world = world(protocol, endpoint, &allowed);
        refused(&world, &RecordBuilder::envelope("a"), NOT_ALLOWED, &ASKED).await;
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn at_the_dead_letter_queue_itself_is_refused() {
    let world = FunctionWorld::new(&[]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "sqs", DLQ, DLQ);
    let detail = "the target is a queue that feeds this function: set another target in the letter's rule";
    refused(&world, &RecordBuilder::envelope("a"), detail, &ASKED).await;
}

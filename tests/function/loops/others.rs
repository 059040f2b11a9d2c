use super::*;

fn world_at(protocol: &str, endpoint: &str) -> FunctionWorld {
    let policy = at_once(&json!({})).to_string();
    let world = FunctionWorld::new(&[("REDRIVE_POLICY", &policy), ("ALLOW_LOOPBACK_HTTP", "true")]);
    world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, protocol, endpoint, DLQ);
    world
}

/// A post waits for its answer, so its failure is known and counted.
#[tokio::test]
async fn a_web_server() {
    let server = TestWebServer::answering(503);
    let world = world_at("http", &server.url());
    stays(&world, &first(), || server.seen().len()).await;
    let sent: BTreeSet<_> = server.seen().into_iter().map(|request| request.body).collect();
    assert_eq!(sent, [first().body().into_bytes()].into(), "nothing is added to a signed body");
}

#[tokio::test]
async fn a_stream() {
    let world = world_at("firehose", STREAM);
    let slow = EntryFault::service("ServiceUnavailableException", "Slow down.");
    world.cloud.reply("PutRecordBatch", SimFault::Entries(vec![(0, slow)]));
    stays(&world, &first(), || world.cloud.calls("PutRecordBatch").len()).await;
}

#[tokio::test]
async fn a_subscription_that_cannot_be_looked_up() {
    let world = FunctionWorld::with_policy(&at_once(&json!({})));
    world.cloud.reply("GetSubscriptionAttributes", SimFault::refuse(403, "AuthorizationError", "no"));
    stays(&world, &first(), || world.cloud.calls("GetSubscriptionAttributes").len()).await;
    assert_eq!(deliveries(&world.cloud), []);
}

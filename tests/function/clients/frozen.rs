//! Tests of the AWS clients' connections across a freeze, in which only the wall clock runs on.

use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::future::join_all;
use redrive_aws::clients::{ClientSettings, https};
use redrive_aws::clock::InstanceClock;

use super::*;

/// The number of connections that a burst leaves behind.
const BURST: usize = 76;

/// Makes a burst of calls, freezes for so many seconds, in which the network forgets the connections, and makes five
/// calls one after the other. Returns how many of these succeed, and the number of connections.
async fn burst(seconds: i64) -> (usize, usize) {
    // Each call of the burst needs a connection of its own.
    let server = TestWebServer::scripted(|number, _| {
        let wait = if number < BURST { Duration::from_millis(500) } else { Duration::ZERO };
        let body = r#"{"Attributes":{"MessageRetentionPeriod":"345600"}}"#.to_owned();
        WebAnswer { body, ..WebAnswer::status(200).after(wait) }
    });
    let configuration = ClientSettings::from_environment(|name| match name {
        "AWS_REGION" => Some("eu-central-1".to_owned()),
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("example".to_owned()),
        "AWS_ENDPOINT_URL" => Some(server.url()),
        _ => None,
    })
    .unwrap();
    let later = Arc::new(AtomicI64::new(0));
    let told = Arc::clone(&later);
    let clock = InstanceClock::from_fn(move || at(NOW + told.load(Ordering::Relaxed) * 1_000));
    let config = configuration.sdk.into_builder().http_client(https(clock)).build();
    let clients = AwsClients::from_config(&config, true);
    assert!(join_all((0..BURST).map(|_| ask_queue(&clients))).await.iter().all(Result::is_ok));
    let connections = server.connections();
    server.forget();
    later.store(seconds, Ordering::Relaxed);
    let mut good = 0;
    for _ in 0..5 {
        good += usize::from(ask_queue(&clients).await.is_ok());
    }
    (good, server.connections() - connections)
}

#[tokio::test]
async fn calls_after_a_burst_and_a_freeze_go_on_a_new_connection() {
    assert_eq!(burst(7_200).await, (5, 1));
}

/// The network forgets connections without a freeze too. One call finds out, and the next try is on a new one.
#[tokio::test]
async fn one_dead_connection_makes_the_clients_leave_all() {
    assert_eq!(burst(0).await, (5, 1));
}

use std::process::Command;

use redrive_aws::clients::AwsClients;

use super::*;

const KEY: &str = include_str!("../../data/https/localhost.key");
const CHAIN: &str = include_str!("../../data/https/localhost.pem");

/// A variable names the authority that the system trusts, once per process. So this runs the test of this
/// name in another process, and returns whether it is that process.
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
    let server = TestWebServer::with_tls(CHAIN, KEY);
    for host in ["localhost", "127.0.0.1"] {
        let world = world_of(&json!({}), "https", &server.url_of("https", host));
        let post = RecordBuilder::envelope("a");
        let ran = world.run([&post]).await;
        assert_eq!(ran.outcomes(), ["a delivered"], "{}", ran.text);
        let request = server.seen().pop().unwrap();
        assert_eq!(body_text(&request), post.body());
        assert_eq!(request.parameters["x-amz-sns-subscription-arn"], SUBSCRIPTION);
    }
}

#[tokio::test]
async fn the_clients_of_aws_trust_the_same_authorities() {
    if !trusting("endpoints::https::the_clients_of_aws_trust_the_same_authorities") {
        return;
    }
    let (good, elsewhere) = (
        TestWebServer::with_tls(CHAIN, KEY),
        TestWebServer::with_tls(
            include_str!("../../data/https/elsewhere.pem"),
            include_str!("../../data/https/elsewhere.key"),
        ),
    );
    for (server, expected) in [(&good, 1), (&elsewhere, 0)] {
        let endpoint = server.url_of("https", "localhost");
        let clients = AwsClients::from_environment(|name| match name {
            "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
            "AWS_REGION" => Some("eu-central-1".to_owned()),
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("example".to_owned()),
            _ => None,
        })
        .unwrap();
        let put = clients.s3.put_object().bucket("my-bucket").key("key").send().await;
        assert_eq!((put.is_ok(), server.seen().len()), (expected == 1, expected));
    }
}

#[tokio::test]
async fn a_server_with_the_certificate_of_another_name_gets_nothing() {
    if !trusting("endpoints::https::a_server_with_the_certificate_of_another_name_gets_nothing") {
        return;
    }
    let (chain, key) =
        (include_str!("../../data/https/elsewhere.pem"), include_str!("../../data/https/elsewhere.key"));
    gets_nothing(&TestWebServer::with_tls(chain, key)).await;
}

#[tokio::test]
async fn a_server_with_a_certificate_that_nobody_trusts_gets_nothing() {
    gets_nothing(&TestWebServer::with_tls(CHAIN, KEY)).await;
}

#[tokio::test]
async fn a_server_without_tls_gets_nothing() {
    let server = TestWebServer::answering(200);
    gets_nothing(&server).await;
}

/// A broken TLS connection is retryable for SNS, and so it is here.
async fn gets_nothing(server: &TestWebServer) {
    let world =
        world_of(&json!({}), "https", &server.url_of("https", "localhost")).with_time(Duration::from_secs(2));
    let ran = world.run([&RecordBuilder::envelope("a")]).await;
    assert_eq!(ran.outcomes(), ["a deferred failed"]);
    assert_eq!(told(&ran, "a")[4], "transient");
    assert_eq!(server.seen(), []);
}

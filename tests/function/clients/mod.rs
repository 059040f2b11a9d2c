//! Tests of the AWS clients over a real connection, configured by Lambda's environment.

mod frozen;
mod on_lambda;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::{TimeoutConfig, TimeoutConfigBuilder};
use aws_sdk_sqs::config::StalledStreamProtectionConfig;
use aws_sdk_sqs::error::SdkError;
use redrive_archive::{Archive, ArchiveInvocation};
use redrive_aws::clients::{AwsClients, failure_of_call};
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::policy::ArchiveReason;
use redrive_support::{
    ClosedPort, NOW, RecordBuilder, SUBSCRIPTION, SimCall, SimFault, TestWebServer, WORKER, WebAnswer,
};
use redrive_support::{arn, at, body_text, context, letter};
use serde_json::json;

/// Returns the answer of a queue without attributes.
fn attributes() -> WebAnswer {
    WebAnswer { body: r#"{"Attributes":{}}"#.to_owned(), ..WebAnswer::status(200) }
}

/// Creates the clients of a function with these variables, besides credentials and region.
fn clients(variables: &[(&str, &str)]) -> AwsClients {
    let always = [
        ("AWS_REGION", "eu-central-1"),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "session"),
    ];
    let all = || always.iter().chain(variables);
    AwsClients::from_environment(|name| all().find(|it| it.0 == name).map(|it| it.1.to_owned())).unwrap()
}

/// Returns the faults of such an environment.
fn faults(variables: &[(&str, &str)]) -> Option<String> {
    let variable = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
    AwsClients::from_environment(variable).err().map(|bad| bad.to_string())
}

#[test]
fn there_must_be_a_region_and_a_blank_one_is_none() {
    let missing = "bad settings: AWS_REGION: is missing: set it to an AWS region such as eu-central-1 (on AWS, Lambda \
                   sets it)";
    let missing = Some(missing.to_owned());
    assert_eq!(faults(&[]), missing);
    assert_eq!(faults(&[("AWS_REGION", ""), ("AWS_DEFAULT_REGION", " ")]), missing);
    assert_eq!(faults(&[("AWS_REGION", ""), ("AWS_DEFAULT_REGION", "eu-central-1")]), None);
}

async fn ask_queue(clients: &AwsClients) -> Result<(), Failure> {
    let url = arn(WORKER).queue_url();
    let asked = clients.sqs.get_queue_attributes().queue_url(url).send().await;
    asked.map(|_| ()).map_err(|error| failure_of_call(&error))
}

#[tokio::test]
async fn each_service_has_the_endpoint_that_its_variable_names_else_that_of_all() {
    let (all, sqs) = (TestWebServer::answering(200), TestWebServer::scripted(|_, _| attributes()));
    let clients = clients(&[("AWS_ENDPOINT_URL", &all.url()), ("AWS_ENDPOINT_URL_SQS", &sqs.url())]);
    ask_queue(&clients).await.unwrap();
    assert_eq!(sqs.seen().len(), 1);
    // The answer is no XML, but the server was asked.
    let _ = clients.sns.get_subscription_attributes().subscription_arn(SUBSCRIPTION).send().await;
    let asked_sns = all.seen();
    assert!(
        !asked_sns.is_empty()
            && asked_sns.iter().all(|it| body_text(it).contains("GetSubscriptionAttributes"))
    );
    clients.s3.put_object().bucket("my-bucket").key("a/b").send().await.unwrap();
    let path = all.seen().pop().unwrap().parameters["path"].clone();
    assert!(path.starts_with("/my-bucket/a/b"), "the bucket is a part of the path: {path}");
}

#[tokio::test]
async fn requests_are_signed_by_the_credentials_of_the_environment() {
    let server = TestWebServer::scripted(|_, _| attributes());
    ask_queue(&clients(&[("AWS_ENDPOINT_URL", &server.url())])).await.unwrap();
    let headers = server.seen().pop().unwrap().parameters;
    let signed = &headers["authorization"];
    assert!(signed.contains("AKIDEXAMPLE") && signed.contains("/eu-central-1/sqs/"), "{signed}");
    assert_eq!(headers["x-amz-security-token"], "session");
}

/// Returns the requests by which the function writes into an archive in S3 and reads from it.
async fn put_and_get(variables: &[(&str, &str)]) -> (SimCall, SimCall) {
    let server = TestWebServer::answering(200);
    let own = ("AWS_ENDPOINT_URL", server.url());
    let s3 = clients(&[&[(own.0, own.1.as_str())], variables].concat()).s3;
    let archive =
        Archive::S3 { s3: s3.clone(), bucket: "my-bucket".to_owned(), prefix: "dead-letters".to_owned() };
    let letter = letter(&RecordBuilder::raw("m", "body"));
    let until = tokio::time::Instant::now() + Duration::from_secs(10);
    let batch = ArchiveInvocation { request_id: "req-1", now: at(NOW), until };
    assert_eq!(
        archive.store(&[(&letter, &context(ArchiveReason::Unrecognised))], batch, None).await,
        [Ok(())]
    );
    s3.get_object().bucket("my-bucket").key("a").send().await.unwrap();
    let [put, get] = server.seen().try_into().unwrap();
    (put, get)
}

#[tokio::test]
async fn checksums_that_s3_does_not_require_can_be_left_out() {
    let by_put = |request: &SimCall| {
        let mut names = request.parameters.keys();
        names.any(|name| name.starts_with("x-amz-checksum-") || name == "x-amz-trailer")
    };
    let by_get = |request: &SimCall| request.parameters.contains_key("x-amz-checksum-mode");
    let (request, response) = ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION");
    for (variables, put_has, get_has) in [
        (&[][..], true, true),
        (&[(request, ""), (response, "")], true, true),
        (&[(request, "when_supported"), (response, "WHEN_SUPPORTED")], true, true),
        (&[(request, "when_required")], false, true),
        (&[(response, "WHEN_REQUIRED")], true, false),
    ] {
        let (put, get) = put_and_get(variables).await;
        assert_eq!((by_put(&put), by_get(&get)), (put_has, get_has), "{variables:?}: {put:?} {get:?}");
    }
}

#[tokio::test]
async fn requests_name_the_application() {
    let agent =
        |variables| async move { put_and_get(variables).await.0.parameters["x-amz-user-agent"].clone() };
    assert!(!agent(&[]).await.contains(" app/"));
    let named = agent(&[("AWS_SDK_UA_APP_ID", "payments-redrive")]).await;
    assert!(named.split(' ').any(|word| word == "app/payments-redrive"), "{named}");
}

#[test]
fn values_that_mean_nothing_are_reported_together() {
    let bad = faults(&[
        ("AWS_REQUEST_CHECKSUM_CALCULATION", "never"),
        ("AWS_RESPONSE_CHECKSUM_VALIDATION", "no"),
        ("AWS_SDK_UA_APP_ID", "two words"),
        ("AWS_USE_FIPS_ENDPOINT", "yes"),
        ("AWS_USE_DUALSTACK_ENDPOINT", "1"),
        ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "TRUE"),
    ]);
    let expected = "bad settings: \
        AWS_USE_FIPS_ENDPOINT: must be true or false, not \"yes\"; \
        AWS_USE_DUALSTACK_ENDPOINT: must be true or false, not \"1\"; \
        AWS_REGION: is missing: set it to an AWS region such as eu-central-1 (on AWS, Lambda sets it); \
        AWS_REQUEST_CHECKSUM_CALCULATION: must be when_supported or when_required, not \"never\"; \
        AWS_RESPONSE_CHECKSUM_VALIDATION: must be when_supported or when_required, not \"no\"; \
        AWS_SDK_UA_APP_ID: must consist of letters, digits and !#$%&'*+-.^_`|~, not \"two words\"";
    assert_eq!(bad.as_deref(), Some(expected));
}

/// Returns the host of a request, which is not sent.
async fn host_of(clients: &AwsClients) -> String {
    let host = Arc::new(Mutex::new(String::new()));
    let noting = Arc::clone(&host);
    let asked = clients.sqs.get_queue_attributes().queue_url(arn(WORKER).queue_url()).customize();
    let asked = asked.map_request(move |request| {
        request.uri().clone_into(&mut noting.lock().unwrap());
        Err::<_, std::io::Error>(std::io::Error::other("not sent"))
    });
    asked.send().await.unwrap_err();
    let url = host.lock().unwrap().clone();
    url.split('/').nth(2).unwrap().to_owned()
}

#[tokio::test]
async fn without_an_endpoint_of_ones_own_it_is_that_of_the_region() {
    let own = ("AWS_ENDPOINT_URL", "http://localhost:1");
    assert_eq!(host_of(&clients(&[own])).await, "localhost:1");
    for (variables, host) in [
        (vec![], "sqs.eu-central-1.amazonaws.com"),
        (vec![own, ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")], "sqs.eu-central-1.amazonaws.com"),
        (vec![("AWS_USE_FIPS_ENDPOINT", "true")], "sqs-fips.eu-central-1.amazonaws.com"),
        (vec![("AWS_USE_DUALSTACK_ENDPOINT", "true")], "sqs.eu-central-1.api.aws"),
    ] {
        assert_eq!(host_of(&clients(&variables)).await, host);
    }
}

/// Returns a configuration of calls that are made once, without any limit on their time near these limits.
fn once(limits: TimeoutConfigBuilder) -> aws_sdk_sqs::config::Builder {
    let limits = limits.operation_attempt_timeout(Duration::from_mins(10)).build();
    aws_sdk_sqs::config::Builder::new()
        .timeout_config(limits)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .retry_config(RetryConfig::disabled())
}

/// A server that takes the connection and then says nothing of TLS costs three seconds, not the ten of a
/// whole try.
#[tokio::test]
async fn the_making_of_a_connection_has_a_limit_of_its_own_with_tls() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let clients = clients(&[("AWS_ENDPOINT_URL", &endpoint)]);
    let asked = clients.sqs.get_queue_attributes().queue_url(arn(WORKER).queue_url());
    let asked = asked.customize().config_override(once(TimeoutConfig::builder())).send();
    let failed =
        tokio::time::timeout(Duration::from_mins(5), asked).await.expect("an end before any other limit");
    assert_eq!(failure_of_call(&failed.unwrap_err()).class, FailureClass::Transient);
}

/// The SDK sets its own limit for reading an answer when it asks for credentials.
#[tokio::test]
async fn the_waiting_for_an_answer_has_a_limit_where_one_is_set() {
    let server = TestWebServer::scripted(|number, _| match number {
        0 => attributes(),
        _ => WebAnswer::fault(SimFault::HangAfter),
    });
    let clients = clients(&[("AWS_ENDPOINT_URL", &server.url())]);
    let ask = async |limit: Duration| {
        let limit = TimeoutConfig::builder().read_timeout(limit);
        let asked = clients.sqs.get_queue_attributes().queue_url(arn(WORKER).queue_url());
        let asked = asked.customize().config_override(once(limit)).send();
        tokio::time::timeout(Duration::from_mins(5), asked).await.expect("an end before any other limit")
    };
    ask(Duration::from_mins(2)).await.unwrap();
    let failed = ask(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(&failed, SdkError::DispatchFailure(why) if why.is_timeout()), "{failed:?}");
    assert_eq!((failure_of_call(&failed).class, server.seen().len()), (FailureClass::Transient, 2));
}

/// A broken connection costs a second, not a retry of a letter.
#[tokio::test]
async fn a_call_whose_connection_breaks_is_made_again() {
    let server = TestWebServer::scripted(|number, _| match number {
        0..2 => WebAnswer::fault(SimFault::ResetAfter),
        _ => attributes(),
    });
    ask_queue(&clients(&[("AWS_ENDPOINT_URL", &server.url())])).await.unwrap();
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_server_that_always_hangs_up_or_is_not_there_is_a_transient_failure() {
    let server = TestWebServer::scripted(|_, _| WebAnswer::fault(SimFault::ResetAfter));
    let failure = ask_queue(&clients(&[("AWS_ENDPOINT_URL", &server.url())])).await.unwrap_err();
    assert_eq!((failure.class, server.seen().len()), (FailureClass::Transient, 3));

    let nobody = ClosedPort::new();
    let failure = ask_queue(&clients(&[("AWS_ENDPOINT_URL", &nobody.url())])).await.unwrap_err();
    assert_eq!(failure.class, FailureClass::Transient);
}

/// One connection serves many calls. A server error drops it, because another may work better.
#[tokio::test]
async fn connections_are_used_again_unless_the_server_failed_on_them() {
    let server = TestWebServer::scripted(|number, _| match number {
        2 => WebAnswer::status(503),
        _ => attributes(),
    });
    let clients = clients(&[("AWS_ENDPOINT_URL", &server.url())]);
    for connections in [1, 1, 2, 2] {
        ask_queue(&clients).await.unwrap();
        assert_eq!(server.connections(), connections);
    }
    assert_eq!(server.seen().len(), 5);
}

//! The real SDK clients on both doors: in process, on tokio's paused clock, and over a loopback socket.

#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod versions;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_firehose::types::Record;
use aws_sdk_lambda::types::{InvocationType, State};
use aws_sdk_sns::types::PublishBatchRequestEntry;
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, MessageAttributeValue, QueueAttributeName,
    SendMessageBatchRequestEntry,
};
use aws_smithy_runtime_api::client::http::HttpClient;
use aws_smithy_types::Blob;
use aws_smithy_types::byte_stream::ByteStream;
use redrive_sim::lambda::{EnvironmentError, FunctionSettings, SimInvocationResult};
use redrive_sim::mapping::{MappingOutcome, MappingSettings, SimMapping};
use redrive_sim::sns::{Protocol, SimSubscription, TopicSettings};
use redrive_sim::sqs::QueueSettings;
use redrive_sim::{
    Caller, EntryFault, FaultHook, SimAws, SimCall, SimClock, SimEvent, SimFault, SimRecord as Line, arn,
};

const URL: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/dlq";

fn notifier() -> FunctionSettings {
    let environment = Ok(BTreeMap::from([("MODE".to_owned(), "active".to_owned())]));
    FunctionSettings { environment, ..FunctionSettings::default() }
}

fn filled(clock: SimClock) -> SimAws {
    let aws = SimAws::new(clock, 7);
    aws.act("test", |it, _| {
        it.sqs.create("dlq", QueueSettings::default());
        it.sqs.create("worker", QueueSettings::default());
        it.sns.create("payments", TopicSettings::default());
        it.sns.subscribe(
            SimSubscription::new("payments", "s-1", Protocol::Sqs, &arn("sqs", "worker")).dead_letters("dlq"),
        );
        it.s3.create("archive");
        it.firehose.create("payments");
        let denied = EnvironmentError { code: "AccessDeniedException".to_owned(), message: "KMS".to_owned() };
        let failed = Some("no image".to_owned());
        let locked = FunctionSettings { environment: Err(denied), failed, ..FunctionSettings::default() };
        it.lambda.create("locked", locked, |_| SimInvocationResult::ok("null"));
        it.lambda.create("notifier", notifier(), |it| match it.payload.as_str() {
            "1" => SimInvocationResult::failed("Error", "relay is down"),
            _ => SimInvocationResult::ok("\"done\"").took(Duration::from_secs(5)),
        });
    });
    aws
}

fn paused() -> SimAws {
    filled(SimClock::tokio("2026-11-01T12:00:00Z".parse().unwrap()))
}

fn config(client: impl HttpClient + 'static) -> SdkConfig {
    let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(client)
        .retry_config(RetryConfig::disabled())
        .build()
}

async fn send(
    sqs: &aws_sdk_sqs::Client,
    count: usize,
) -> aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput {
    let tenant = MessageAttributeValue::builder().data_type("String").string_value("gold").build().unwrap();
    let entries = (0..count).map(|id| {
        let entry = SendMessageBatchRequestEntry::builder().id(id.to_string());
        entry
            .message_body(format!("<{id} & more>"))
            .message_attributes("tenant", tenant.clone())
            .build()
            .unwrap()
    });
    sqs.send_message_batch().queue_url(URL).set_entries(Some(entries.collect())).send().await.unwrap()
}

/// Calls every service, as the SDK of this caller sees it.
async fn tour(aws: &SimAws, config: &SdkConfig, path_style: bool) {
    let sqs = aws_sdk_sqs::Client::new(config);
    assert_eq!(send(&sqs, 3).await.successful().len(), 3);
    let receive = sqs.receive_message().queue_url(URL).max_number_of_messages(10);
    let received = receive.message_attribute_names("ten.*").send().await.unwrap();
    let message = &received.messages()[0];
    assert_eq!(message.body(), Some("<0 & more>"));
    assert_eq!(message.message_attributes().unwrap()["tenant"].string_value(), Some("gold"));
    assert!(message.attributes().is_none_or(HashMap::is_empty), "nobody asked for them");
    let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id("0").visibility_timeout(43_201);
    let entry = entry.receipt_handle(message.receipt_handle().unwrap()).build().unwrap();
    let hidden = sqs.change_message_visibility_batch().queue_url(URL).entries(entry).send().await.unwrap();
    assert_eq!(hidden.failed()[0].code(), "InvalidParameterValue");
    let asked = sqs.get_queue_attributes().queue_url(URL);
    let asked = asked.attribute_names(QueueAttributeName::ApproximateNumberOfMessagesNotVisible);
    let attributes = asked.send().await.unwrap().attributes.unwrap();
    assert_eq!(attributes[&QueueAttributeName::ApproximateNumberOfMessagesNotVisible], "3");
    let gone = sqs.get_queue_attributes().queue_url(format!("{URL}x")).send().await;
    assert!(gone.unwrap_err().into_service_error().is_queue_does_not_exist());

    let sns = aws_sdk_sns::Client::new(config);
    let entry = PublishBatchRequestEntry::builder().id("0").message("Grüße & <more>").subject("Override");
    let topic = arn("sns", "payments");
    let published =
        sns.publish_batch().topic_arn(&topic).publish_batch_request_entries(entry.build().unwrap()).send();
    assert_eq!(published.await.unwrap().successful().len(), 1);
    assert_eq!(aws.act("test", |it, _| it.sqs.queue("worker").unwrap().len()), 1);
    let subscription = format!("{topic}:s-1");
    let attributes = sns.get_subscription_attributes().subscription_arn(&subscription).send().await.unwrap();
    let policy = &attributes.attributes().unwrap()["RedrivePolicy"];
    assert_eq!(*policy, format!(r#"{{"deadLetterTargetArn":"{}"}}"#, arn("sqs", "dlq")));
    let listed = sns.list_subscriptions().send().await.unwrap();
    assert_eq!(listed.subscriptions()[0].subscription_arn(), Some(&*subscription));
    let gone = sns.get_subscription_attributes().subscription_arn("none").send().await;
    assert!(gone.unwrap_err().into_service_error().is_not_found_exception());

    let s3 = aws_sdk_s3::config::Builder::from(config).force_path_style(path_style).build();
    let s3 = aws_sdk_s3::Client::from_conf(s3);
    let put = || s3.put_object().bucket("archive").key("a b/c&d").if_none_match("*");
    let tag = put().body(ByteStream::from_static(b"line\n")).send().await.unwrap().e_tag.unwrap();
    let again = put().body(ByteStream::from_static(b"other")).send().await.unwrap_err();
    assert_eq!(again.raw_response().unwrap().status().as_u16(), 412);
    let got = s3.get_object().bucket("archive").key("a b/c&d").send().await.unwrap();
    assert_eq!(got.e_tag(), Some(&*tag));
    assert!(got.last_modified().is_some());
    assert_eq!(got.body.collect().await.unwrap().to_vec(), b"line\n");
    let listed = s3.list_objects_v2().bucket("archive").prefix("a b/").send().await.unwrap();
    assert_eq!(listed.contents()[0].key(), Some("a b/c&d"));
    let folders = s3.list_objects_v2().bucket("archive").delimiter("/").send().await.unwrap();
    assert_eq!(folders.common_prefixes()[0].prefix(), Some("a b/"));
    let none = s3.get_object().bucket("archive").key("none").send().await;
    assert!(none.unwrap_err().into_service_error().is_no_such_key());

    let lambda = aws_sdk_lambda::Client::new(config);
    let invoke = |payload: &str| {
        lambda.invoke().function_name(arn("lambda", "function:notifier")).payload(Blob::new(payload))
    };
    let failed = invoke("1").send().await.unwrap();
    assert_eq!((failed.status_code(), failed.function_error()), (200, Some("Unhandled")));
    let accepted = invoke("2").invocation_type(InvocationType::Event).send().await.unwrap();
    assert_eq!(accepted.status_code(), 202);
    let gone = lambda.invoke().function_name("none").send().await;
    assert!(gone.unwrap_err().into_service_error().is_resource_not_found_exception());
    let asked = |name: &str| lambda.get_function_configuration().function_name(name).send();
    let told = asked(&arn("lambda", "function:notifier")).await.unwrap();
    assert_eq!((told.function_name(), told.state()), (Some("notifier"), Some(&State::Active)));
    assert_eq!(told.environment().unwrap().variables().unwrap()["MODE"], "active");
    let locked = asked("locked").await.unwrap();
    assert_eq!((locked.state(), locked.state_reason()), (Some(&State::Failed), Some("no image")));
    let environment = locked.environment().unwrap();
    assert_eq!(environment.variables(), None);
    assert_eq!(environment.error().unwrap().error_code(), Some("AccessDeniedException"));
    assert!(asked("none").await.unwrap_err().into_service_error().is_resource_not_found_exception());

    let firehose = aws_sdk_firehose::Client::new(config);
    let record = Record::builder().data(Blob::new("line\n")).build().unwrap();
    let put = firehose.put_record_batch().delivery_stream_name("payments").records(record).send().await;
    assert_eq!(put.unwrap().failed_put_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_sdk_gets_on_with_every_service_in_process() {
    let aws = paused();
    tour(&aws, &config(aws.connector(&Caller::new("fn-1"))), false).await;
    let by: Vec<_> = aws.calls().iter().map(|call| call.caller.to_string()).collect();
    assert!(by.len() > 15 && by.iter().all(|by| by == "fn-1"), "{by:?}");
}

#[tokio::test(start_paused = true)]
async fn faults_come_as_the_sdk_would_meet_them() {
    let aws = paused();
    let config = config(aws.connector(&Caller::new("fn-1")));
    let timeouts = TimeoutConfig::builder().operation_timeout(Duration::from_secs(30)).build();
    let sqs = aws_sdk_sqs::config::Builder::from(&config).timeout_config(timeouts).build();
    let sqs = aws_sdk_sqs::Client::from_conf(sqs);
    let entry = || SendMessageBatchRequestEntry::builder().id("0").message_body("a").build().unwrap();
    let len = || aws.act("test", |it, _| it.sqs.queue("dlq").unwrap().len());
    let once = |fault: SimFault| {
        aws.set_faults(FaultHook::new(move |_| fault.clone()));
        sqs.send_message_batch().queue_url(URL).entries(entry()).send()
    };
    // The status, or 0 if there is none, and the number of messages in the queue after it.
    let cases = [
        (SimFault::Throttle, 403, 0),
        (SimFault::Unavailable, 503, 0),
        (SimFault::Denied, 403, 0),
        (SimFault::refuse(418, "Teapot", "no"), 418, 0),
        (SimFault::Nonsense(502, "<html>".to_owned()), 502, 0),
        (SimFault::NoConnection, 0, 0),
        (SimFault::ConnectTimeout, 0, 0),
        (SimFault::ResetBefore, 0, 0),
        (SimFault::HangBefore, 0, 0),
        (SimFault::ResetAfter, 0, 1),
        (SimFault::HangAfter, 0, 2),
        (SimFault::BreakOff(5), 0, 3),
        (SimFault::Stall(5), 0, 4),
        (SimFault::Pass.after(Duration::from_secs(31)), 0, 4),
        (SimFault::Late(Duration::from_secs(31)), 0, 5),
    ];
    for (fault, status, messages) in cases {
        let error = once(fault.clone()).await.unwrap_err();
        let got = error.raw_response().map_or(0, |raw| raw.status().as_u16());
        let got = if matches!(fault, SimFault::BreakOff(_) | SimFault::Stall(_)) { 0 } else { got };
        assert_eq!((got, len()), (status, messages), "{fault:?}: {error:?}");
    }
    let start = aws.clock().millis();
    assert_eq!(once(SimFault::Pass.after(Duration::from_secs(9))).await.unwrap().successful().len(), 1);
    assert_eq!((aws.clock().millis() - start, len()), (9_000, 6), "waits pass on the paused clock");
    let fails = EntryFault::service("InternalError", "Try again.");
    let failed = once(SimFault::Entries(vec![(0, fails)])).await.unwrap();
    assert!(!failed.failed()[0].sender_fault());
    let missing = once(SimFault::Entries(vec![(0, EntryFault::Missing)])).await.unwrap();
    assert_eq!((missing.failed().len(), missing.successful().len(), len()), (0, 0, 6));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_cut_off_does_nothing_more() {
    let aws = paused();
    let caller = Caller::new("fn-1");
    let sqs = aws_sdk_sqs::Client::new(&config(aws.connector(&caller)));
    send(&sqs, 1).await;
    aws.set_faults(FaultHook::new(|_| SimFault::Pass.after(Duration::from_secs(10))));
    let late = send(&sqs, 1);
    let cut = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        caller.cut();
    };
    let both = async { tokio::join!(late, cut) };
    assert!(tokio::time::timeout(Duration::from_mins(1), both).await.is_err(), "nothing is answered");
    assert_eq!(aws.act("test", |it, _| it.sqs.queue("dlq").unwrap().len()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_dies_at_a_call_before_or_after_its_effect() {
    for (fault, messages) in [(SimFault::CutBefore, 0), (SimFault::CutAfter, 1)] {
        let aws = paused();
        let killed = Arc::new(AtomicUsize::new(0));
        let kills = Arc::clone(&killed);
        let caller = Caller::with_killer("fn-1", move || {
            kills.fetch_add(1, Ordering::Relaxed);
        });
        let sqs = aws_sdk_sqs::Client::new(&config(aws.connector(&caller)));
        aws.set_faults(FaultHook::new(move |_| fault.clone()));
        tokio::select! {
            _ = send(&sqs, 1) => unreachable!("nothing is answered"),
            () = caller.gone() => {}
        }
        let len = aws.act("test", |it, _| it.sqs.queue("dlq").unwrap().len());
        assert_eq!((len, killed.load(Ordering::Relaxed)), (messages, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_wait_until_others_are_under_way() {
    let aws = paused();
    aws.set_faults(FaultHook::new(|_| SimFault::Together(2)));
    let sqs = aws_sdk_sqs::Client::new(&config(aws.connector(&Caller::new("fn-1"))));
    let start = aws.clock().millis();
    tokio::join!(send(&sqs, 1), send(&sqs, 1));
    assert!(aws.clock().millis() - start < 1_000);
    assert_eq!(aws.peak(), 2);
    aws.forget_peak();
    send(&sqs, 1).await;
    assert!(aws.clock().millis() - start > 30_000, "nobody came for half a minute");
}

/// Lets a function handle letters that fail for a day, and returns the journal's hash and its length.
async fn day(seed: u64) -> (String, usize, usize) {
    let clock = SimClock::tokio("2026-11-01T12:00:00Z".parse().unwrap());
    let aws = SimAws::new(clock, seed);
    let settings =
        QueueSettings { shuffled: Some(7), duplicates: 500, visibility: 120, ..QueueSettings::default() };
    aws.act("test", |it, _| it.sqs.create("dlq", settings));
    let sqs = aws_sdk_sqs::Client::new(&config(aws.connector(&Caller::new("fn-1"))));
    let weather = dice(seed);
    aws.set_faults(FaultHook::new(move |call: &SimCall| match (call.operation.as_str(), weather()) {
        ("SendMessageBatch", _) | (_, 3..) => SimFault::Pass,
        (_, 0) => SimFault::Throttle,
        (_, 1) => SimFault::ResetAfter,
        (_, _) => SimFault::Pass.after(Duration::from_secs(20)),
    }));
    for _ in 0..3 {
        send(&sqs, 10).await;
    }
    let settings = MappingSettings {
        window: Duration::from_secs(5),
        timeout: Duration::from_mins(1),
        ..MappingSettings::new("dlq", "redrive")
    };
    let mapping = SimMapping::new(&aws, settings);
    let runs = Arc::new(AtomicUsize::new(0));
    let handler = |batch: redrive_sim::mapping::MappingBatch| {
        let (sqs, runs) = (sqs.clone(), Arc::clone(&runs));
        async move {
            runs.fetch_add(1, Ordering::Relaxed);
            let entries = batch.messages.iter().enumerate().map(|(id, message)| {
                let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(id.to_string());
                entry.receipt_handle(&*message.handle).visibility_timeout(7_200).build().unwrap()
            });
            let hide = sqs.change_message_visibility_batch().queue_url(URL);
            let _ = hide.set_entries(Some(entries.collect())).send().await;
            let kept: Vec<_> =
                batch.messages.iter().map(|it| format!(r#"{{"itemIdentifier":"{}"}}"#, it.id)).collect();
            MappingOutcome::Answer(format!(r#"{{"batchItemFailures":[{}]}}"#, kept.join(",")))
        }
    };
    let _ = tokio::time::timeout(Duration::from_hours(24), mapping.run(handler)).await;
    (aws.digest(), aws.journal(<[Line]>::len), runs.load(Ordering::Relaxed))
}

/// Returns a source of numbers below 20 that depends only on the seed.
fn dice(seed: u64) -> impl Fn() -> u64 + Send + Sync {
    let state = std::sync::atomic::AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    move || {
        let old = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        ((old ^ (old >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) % 20
    }
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_seed_have_the_same_journal() {
    let first = day(1).await;
    assert!(first.2 > 40, "{first:?}");
    assert_eq!(day(1).await, first);
    assert_ne!(day(2).await.0, first.0);
}

#[tokio::test(start_paused = true)]
async fn a_mapping_takes_a_message_when_it_comes_and_when_it_shows() {
    let aws = paused();
    let start = aws.clock().millis();
    let settings =
        MappingSettings { timeout: Duration::from_secs(20), ..MappingSettings::new("dlq", "redrive") };
    let mapping = SimMapping::new(&aws, settings);
    let sqs = aws_sdk_sqs::Client::new(&config(aws.connector(&Caller::new("fn-1"))));
    let later = async {
        tokio::time::sleep(Duration::from_millis(12_345)).await;
        send(&sqs, 1).await;
        std::future::pending::<()>().await;
    };
    let run = mapping.run(|_| async { MappingOutcome::Died });
    let _ = tokio::time::timeout(Duration::from_secs(50), async { tokio::join!(run, later) }).await;
    let began = |line: &Line| matches!(line.event, SimEvent::Batch { .. }).then_some(line.at - start);
    let began: Vec<_> = aws.journal(|lines| lines.iter().filter_map(began).collect());
    assert_eq!(began, [12_345, 42_345]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_is_dropped_and_its_messages_come_again() {
    let aws = paused();
    let sqs = aws_sdk_sqs::Client::new(&config(aws.connector(&Caller::new("fn-1"))));
    send(&sqs, 1).await;
    let settings =
        MappingSettings { timeout: Duration::from_secs(20), ..MappingSettings::new("dlq", "redrive") };
    let mapping = SimMapping::new(&aws, settings);
    let hang = |_| std::future::pending::<MappingOutcome>();
    let _ = tokio::time::timeout(Duration::from_secs(100), mapping.run(hang)).await;
    let ended = |line: &Line| match &line.event {
        SimEvent::BatchEnded { failed, .. } => Some((line.at / 1000 % 1000, failed.clone())),
        _ => None,
    };
    let ended: Vec<_> = aws.journal(|lines| lines.iter().filter_map(ended).collect());
    assert_eq!(ended.len(), 3, "at 20, 50 and 80 seconds: {ended:?}");
    assert_eq!(ended[0].1.as_deref(), Some("the time was over"));
}

#[tokio::test]
async fn the_sdk_gets_on_with_every_service_over_a_socket() {
    let aws = filled(SimClock::real());
    aws.act("test", |it, _| {
        it.lambda.create("notifier", notifier(), |it| match it.payload.as_str() {
            "1" => SimInvocationResult::failed("Error", "relay is down"),
            _ => SimInvocationResult::ok("null"),
        });
    });
    let server = aws.listen(&Caller::new("process")).unwrap();
    // The SDK's own HTTP client is not compiled. A client that carries the requests over a socket replaces
    // it.
    let config = config(wire::WireClient).to_builder().endpoint_url(server.url()).build();
    tour(&aws, &config, true).await;
    assert!(aws.calls().iter().all(|call| &*call.caller == "process"));
}
